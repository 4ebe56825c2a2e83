//! The line of those who wait for messages of a queue.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{
    broker::{Broker, LOOKS_MAX, State, Waiter},
    lease::Lease,
    window::Place,
};

/// Somebody who waits for messages of a queue. The place in the line is kept until this is dropped; who was given messages and has
/// found none of them there ([`Lease::gone`]) waits on where it stood. Whoever does not ask for a [turn](InLine::turn) for a while
/// [steps aside](InLine::step_aside): what it is given meanwhile nobody else has.
#[derive(Debug)]
pub struct InLine {
    broker: Arc<Broker>,
    queue: Arc<str>,
    ticket: u64,
    messages_max: usize,
    lease_ms: u64,
}

/// What is next for somebody in line.
#[derive(Debug)]
pub enum Turn {
    /// These messages are to be had, one at least.
    Messages(Vec<Lease>),
    /// Nobody knows which messages are the next: look into the store.
    Scan(Scan),
}

impl Broker {
    /// Gets in line for up to so many messages of a queue, to be had for so long.
    pub fn line_up(self: &Arc<Self>, queue: &str, messages_max: usize, lease_ms: u64) -> InLine {
        let mut state = self.state();
        let (queue, ticket) = (state.name_of(queue), state.next_ticket());
        drop(state);
        InLine { broker: self.clone(), queue, ticket, messages_max: messages_max.max(1), lease_ms }
    }
}

impl InLine {
    /// Waits for the next turn. May be dropped at any time; nothing is lost by that.
    pub async fn turn(&mut self) -> Turn {
        poll_fn(|cx| self.poll_turn(cx)).await
    }

    /// As [`turn`](Self::turn), but waits no longer than it takes to know whether there is anything. `None` if there is nothing. Looks into the store
    /// for those in front too: they may be slow, and what is left is for whoever asks.
    pub async fn turn_now(&mut self) -> Option<Turn> {
        poll_fn(|cx| {
            if let Poll::Ready(turn) = self.poll_turn(cx) {
                return Poll::Ready(Some(turn));
            }
            let mut state = self.broker.state();
            if state.granted.contains_key(&self.ticket) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(turn) = self.look(&mut state) {
                return Poll::Ready(Some(turn));
            }
            let queue = state.queue(&self.queue);
            if !queue.window.is_scanned() {
                return Poll::Ready(None);
            }
            queue.hurried.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// As [`turn`](Self::turn).
    pub fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let mut state = self.broker.state();
        if let Some(messages) = self.take(&mut state) {
            return Poll::Ready(messages);
        }
        let queue = state.queue(&self.queue);
        match queue.line.get_mut(&self.ticket) {
            Some(waiter) => waiter.waker.clone_from(cx.waker()),
            None => {
                let waker = cx.waker().clone();
                let (messages_max, lease_ms) = (self.messages_max, self.lease_ms);
                queue.line.insert(self.ticket, Waiter { messages_max, lease_ms, waker, looks_left: LOOKS_MAX });
            }
        }
        self.broker.advance(&mut state, &self.queue);
        if let Some(messages) = self.take(&mut state) {
            return Poll::Ready(messages);
        }
        let is_first = state.queue(&self.queue).line.keys().next() == Some(&self.ticket);
        match is_first.then(|| self.look(&mut state)).flatten() {
            Some(turn) => Poll::Ready(turn),
            None => Poll::Pending,
        }
    }

    /// Begins to look into the store if the first in line gets nothing without that.
    fn look(&self, state: &mut State) -> Option<Turn> {
        let queue = state.queue(&self.queue);
        if !queue.wants_look() {
            return None;
        }
        let after = queue.begin_look();
        Some(Turn::Scan(Scan { broker: self.broker.clone(), queue: self.queue.clone(), after, is_over: false }))
    }

    /// Leaves messages to those behind until the next turn is asked for, which is where this stands now. What was given and is not taken yet goes to them too.
    pub fn step_aside(&mut self) {
        let mut state = self.broker.state();
        state.queue(&self.queue).line.remove(&self.ticket);
        let unused = state.granted.remove(&self.ticket).unwrap_or_default();
        for grant in unused {
            let is_ours = state.leases.get(&grant.place.id).is_some_and(|held| held.number == grant.number);
            if is_ours && !state.leases[&grant.place.id].is_settling {
                state.end_lease(grant.place.id, true);
            }
        }
        self.broker.advance(&mut state, &self.queue);
    }

    fn take(&self, state: &mut State) -> Option<Turn> {
        let grants = state.granted.remove(&self.ticket)?;
        Some(Turn::Messages(grants.into_iter().map(|grant| Lease::new(&self.broker, grant)).collect()))
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.step_aside();
    }
}

/// A look into the store for messages that wait, in their order. Dropping this leaves it to the next in line.
#[derive(Debug)]
pub struct Scan {
    broker: Arc<Broker>,
    queue: Arc<str>,
    after: Option<Place>,
    is_over: bool,
}

impl Scan {
    /// Behind which place messages are wanted; all if `None`.
    pub fn after(&self) -> Option<Place> {
        self.after
    }

    /// The store has these, in their order; `is_all` if there are no more behind them.
    pub fn found(mut self, places: &[Place], is_all: bool) {
        self.is_over = true;
        let mut state = self.broker.state();
        let State { queues, leases, .. } = &mut *state;
        let mut hurried = Vec::new();
        if let Some(queue) = queues.get_mut(&self.queue) {
            queue.window.end_scan(places, is_all, |place| !leases.contains_key(&place.id));
            hurried = std::mem::take(&mut queue.hurried);
        }
        self.broker.advance(&mut state, &self.queue);
        hurried.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.broker.state();
        let queue = state.queue(&self.queue);
        queue.window.abandon_scan();
        let hurried = std::mem::take(&mut queue.hurried);
        self.broker.advance(&mut state, &self.queue);
        hurried.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::atomic::{AtomicU64, AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;
    use crate::{Receipt, Settling};

    const LEASE_MS: u64 = 1000;
    /// Places that a scan of these tests finds, at most: few, so that windows end often.
    const SCAN_PLACES: usize = 3;

    /// Counts how often a task was woken.
    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A store with one queue, a clock and a broker.
    struct World {
        broker: Arc<Broker>,
        clock: Arc<AtomicU64>,
        stored: BTreeSet<Place>,
        last_id: u64,
    }

    impl World {
        fn new() -> Self {
            let clock = Arc::new(AtomicU64::new(1));
            let clock_too = clock.clone();
            let broker = Broker::new(7, move || clock_too.load(Ordering::Relaxed));
            World { broker, clock, stored: BTreeSet::new(), last_id: 0 }
        }

        fn publish(&mut self, priority: u32) -> u64 {
            self.last_id += 1;
            let place = Place { priority, id: self.last_id };
            self.stored.insert(place);
            self.broker.waits("q", place);
            self.last_id
        }

        /// Whoever is in line does all that is to be done; answers what the line was given.
        fn poll(&self, line: &mut InLine) -> Vec<Lease> {
            loop {
                match line.poll_turn(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => return Vec::new(),
                    Poll::Ready(Turn::Messages(leases)) => return leases,
                    Poll::Ready(Turn::Scan(scan)) => {
                        let behind =
                            self.stored.iter().filter(|place| scan.after().is_none_or(|after| **place > after));
                        let found: Vec<Place> = behind.copied().take(SCAN_PLACES).collect();
                        scan.found(&found, found.len() < SCAN_PLACES);
                    }
                }
            }
        }

        /// Pulls one message without waiting.
        fn pull(&self) -> Option<(u64, Receipt)> {
            let mut line = self.broker.line_up("q", 1, LEASE_MS);
            let lease = self.poll(&mut line).pop()?;
            let pulled = (lease.message(), lease.receipt());
            lease.keep();
            Some(pulled)
        }

        fn acknowledge(&mut self, receipt: Receipt) -> bool {
            let Some(settling) = self.broker.settle("q", receipt) else { return false };
            self.stored.remove(&settling.place());
            settling.gone();
            true
        }

        fn pass(&self, ms: u64) {
            self.clock.fetch_add(ms, Ordering::Relaxed);
        }
    }

    #[test]
    fn messages_come_in_order_and_one_consumer_has_each() {
        let mut world = World::new();
        for priority in [5, 5, 1, 5, 0, 5, 5] {
            world.publish(priority);
        }
        let pulled: Vec<_> = std::iter::from_fn(|| world.pull()).collect();
        assert_eq!(pulled.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [5, 3, 1, 2, 4, 6, 7]);
        assert!(world.acknowledge(pulled[0].1) && !world.acknowledge(pulled[0].1));
        let urgent = world.publish(0);
        assert_eq!(world.pull().map(|(id, _)| id), Some(urgent));
        assert_eq!(world.broker.counts("q").leased, 7);
    }

    #[test]
    fn a_lease_ends_with_its_time_or_later_if_it_is_extended() {
        let mut world = World::new();
        world.publish(0);
        let (id, receipt) = world.pull().expect("a message");
        assert_eq!(world.broker.next_deadline_ms(), Some(1 + LEASE_MS));
        world.pass(LEASE_MS - 1);
        assert!(world.broker.expired(10).is_empty());
        assert!(world.broker.extend("q", receipt, LEASE_MS) && !world.broker.extend("other", receipt, LEASE_MS));
        world.pass(LEASE_MS);
        // Its time is over, though nobody has taken it back yet.
        assert!(world.broker.settle("q", receipt).is_none() && !world.broker.extend("q", receipt, LEASE_MS));
        assert_eq!(world.pull(), None);
        world.broker.expired(10).into_iter().for_each(Settling::back);
        let (again, other) = world.pull().expect("it waits again");
        assert!(again == id && other != receipt && world.broker.settle("q", receipt).is_none());
        // Settling that is broken off leaves the lease as it was, to its time.
        drop(world.broker.settle("q", other).expect("held"));
        assert_eq!(world.broker.next_deadline_ms(), Some(2 * LEASE_MS + LEASE_MS));
        world.pass(LEASE_MS);
        assert_eq!(world.broker.expired(10).len(), 1);
    }

    #[test]
    fn those_who_wait_are_served_in_their_order_and_woken_for_one_message_each() {
        let mut world = World::new();
        let bells: Vec<Arc<Bell>> = (0..3).map(|_| Arc::default()).collect();
        let mut lines: Vec<InLine> = (0..3).map(|_| world.broker.line_up("q", 1, LEASE_MS)).collect();
        for (line, bell) in lines.iter_mut().zip(&bells) {
            assert!(world.poll(line).is_empty());
            let waker = Waker::from(bell.clone());
            assert!(line.poll_turn(&mut Context::from_waker(&waker)).is_pending());
        }
        let woken = || bells.iter().map(|bell| bell.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(woken(), [0, 0, 0]);
        let first = world.publish(0);
        assert_eq!(woken(), [1, 0, 0]);
        let second = world.publish(0);
        assert_eq!(woken(), [1, 1, 0]);
        // The first has gone without having taken its message: the third gets it.
        lines.remove(0);
        assert_eq!(woken(), [1, 1, 1]);
        assert_eq!(world.poll(&mut lines[1])[0].message(), first);
        // One that is given and not taken by its consumer waits again.
        let leases = world.poll(&mut lines[0]);
        assert_eq!(leases[0].message(), second);
        assert_eq!(world.pull().map(|(id, _)| id), Some(first), "the third has dropped it");
        drop(leases);
        assert_eq!(world.pull().map(|(id, _)| id), Some(second));
    }

    #[test]
    fn who_steps_aside_leaves_messages_to_others_and_keeps_its_place() {
        let mut world = World::new();
        let mut first = world.broker.line_up("q", 1, LEASE_MS);
        let mut second = world.broker.line_up("q", 1, LEASE_MS);
        assert!(world.poll(&mut first).is_empty() && world.poll(&mut second).is_empty());
        let given = world.publish(0);
        first.step_aside();
        assert_eq!(world.poll(&mut second).iter().map(Lease::message).collect::<Vec<_>>(), [given], "and given back");
        let (taken, _) = world.pull().expect("it waits");
        assert_eq!(taken, given);
        assert!(world.poll(&mut second).is_empty() && world.poll(&mut first).is_empty());
        let next = world.publish(0);
        assert!(world.poll(&mut second).is_empty(), "the first is in front again");
        assert_eq!(world.poll(&mut first).iter().map(Lease::message).collect::<Vec<_>>(), [next]);
    }

    #[test]
    fn who_breaks_off_a_scan_leaves_it_to_the_next() {
        let mut world = World::new();
        let bell = Arc::new(Bell::default());
        world.publish(0);
        let mut first = world.broker.line_up("q", 1, LEASE_MS);
        let Poll::Ready(Turn::Scan(scan)) = first.poll_turn(&mut Context::from_waker(Waker::noop())) else {
            panic!("nobody knows the store");
        };
        let mut second = world.broker.line_up("q", 1, LEASE_MS);
        let waker = Waker::from(bell.clone());
        assert!(second.poll_turn(&mut Context::from_waker(&waker)).is_pending(), "one looks at a time");
        drop(scan);
        drop(first);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(world.poll(&mut second).len(), 1);
    }

    #[test]
    fn who_is_in_a_hurry_waits_for_the_look_that_is_under_way() {
        let mut world = World::new();
        world.publish(0);
        let mut first = world.broker.line_up("q", 1, LEASE_MS);
        let mut second = world.broker.line_up("q", 1, LEASE_MS);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Turn::Scan(scan)) = first.poll_turn(&mut cx) else { panic!("nobody knows the store") };
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        {
            let mut hurried = std::pin::pin!(second.turn_now());
            assert!(hurried.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            scan.found(&world.stored.iter().copied().collect::<Vec<_>>(), true);
            assert!(bell.0.load(Ordering::Relaxed) > 0);
            assert!(matches!(hurried.as_mut().poll(&mut cx), Poll::Ready(None)), "the first has the only message");
        }
        assert_eq!(world.poll(&mut first).len(), 1);
    }

    #[test]
    fn who_wants_several_messages_gets_them_however_few_a_look_finds() {
        let mut world = World::new();
        for _ in 0..20 {
            world.publish(0);
        }
        let numbers = |leases: &[Lease]| leases.iter().map(Lease::message).collect::<Vec<_>>();
        let mut line = world.broker.line_up("q", 8, LEASE_MS);
        let first = world.poll(&mut line);
        assert_eq!(numbers(&first), (1..=8).collect::<Vec<_>>());
        // The window has the ninth. What others have is passed over, and what is left is given when there is no more.
        let mut other = world.broker.line_up("q", 12, LEASE_MS);
        assert_eq!(numbers(&world.poll(&mut other)), (9..=20).collect::<Vec<_>>(), "and was given back");
        let mut third = world.broker.line_up("q", 100, LEASE_MS);
        assert_eq!(numbers(&world.poll(&mut third)), (9..=20).collect::<Vec<_>>());
        drop(first);
        world.broker.forget("q");
        assert_eq!(world.pull().map(|(id, _)| id), Some(1));
    }

    #[test]
    fn nobody_waits_for_long_for_more_than_is_known() {
        let mut world = World::new();
        let looks = usize::try_from(LOOKS_MAX).expect("a small number");
        for _ in 0..1 + SCAN_PLACES * looks + 2 {
            world.publish(0);
        }
        let held: Vec<_> = std::iter::from_fn(|| world.pull()).collect();
        let settling = world.broker.settle("q", held[0].1).expect("it is held");
        world.broker.forget("q");
        settling.back();
        let last = world.publish(0);
        let mut line = world.broker.line_up("q", 2, LEASE_MS);
        let got: Vec<u64> = world.poll(&mut line).iter().map(Lease::message).collect();
        assert_eq!(got, [1], "{last} is behind many that others have");
    }

    #[test]
    fn who_is_in_a_hurry_looks_for_one_in_front_who_is_slow() {
        let mut world = World::new();
        for _ in 0..5 {
            world.publish(0);
        }
        let mut slow = world.broker.line_up("q", 4, LEASE_MS);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Turn::Scan(scan)) = slow.poll_turn(&mut cx) else { panic!("nobody knows the store") };
        scan.found(&world.stored.iter().copied().take(SCAN_PLACES).collect::<Vec<_>>(), false);
        // It wants more than these three, and does not come to look.
        let mut second = world.broker.line_up("q", 1, LEASE_MS);
        let turn = std::pin::pin!(second.turn_now()).poll(&mut cx);
        let Poll::Ready(Some(Turn::Scan(scan))) = turn else { panic!("{turn:?}") };
        scan.found(&world.stored.iter().copied().skip(SCAN_PLACES).collect::<Vec<_>>(), true);
        assert_eq!(world.poll(&mut second).iter().map(Lease::message).collect::<Vec<_>>(), [5]);
        assert_eq!(world.poll(&mut slow).len(), 4);
    }

    #[test]
    fn nobody_gets_messages_of_a_paused_queue() {
        let mut world = World::new();
        world.broker.pause("q");
        world.publish(0);
        let mut line = world.broker.line_up("q", 5, LEASE_MS);
        assert!(world.poll(&mut line).is_empty());
        world.broker.resume("q");
        assert_eq!(world.poll(&mut line).len(), 1);
    }

    #[test]
    fn a_certain_message_is_claimed_unless_somebody_has_it() {
        let mut world = World::new();
        let (first, second) = (world.publish(5), world.publish(7));
        let place = |priority, id| Place { priority, id };
        let lease = world.broker.claim("q", place(7, second), LEASE_MS).expect("nobody has it");
        assert!(world.broker.claim("q", place(7, second), LEASE_MS).is_none());
        assert_eq!(world.broker.time_left_ms(second), Some(LEASE_MS));
        let leased = |world: &World| (world.broker.counts("q").leased, world.broker.leased_below(Some("q"), 7));
        assert_eq!(leased(&world), (0, (0, 0)), "no consumer has it");
        lease.given();
        lease.given();
        assert_eq!(leased(&world), (1, (1, 0)));
        assert_eq!(world.pull().map(|(id, _)| id), Some(first));
        assert_eq!(world.broker.leased_below(None, 7), (2, 1));
        assert!(world.broker.claim("q", place(5, first), LEASE_MS).is_none());
        assert_eq!(world.pull(), None);
        drop(lease);
        drop(world.broker.claim("q", place(7, second), LEASE_MS));
        assert_eq!(leased(&world), (1, (1, 1)), "what was claimed and not given leaves no trace");
        assert_eq!((world.pull().map(|(id, _)| id), world.broker.time_left_ms(9)), (Some(second), None));
        world.pass(LEASE_MS);
        assert_eq!((world.broker.expired(10).len(), world.broker.expired_total()), (2, 2));
    }

    #[test]
    fn a_message_that_waits_again_before_its_lease_has_ended_is_not_lost() {
        let mut world = World::new();
        let id = world.publish(5);
        let place = Place { priority: 5, id };
        let (_, receipt) = world.pull().expect("a message");
        // It has failed and waits for a moment, which is over before whoever has written that says so.
        let settling = world.broker.settle("q", receipt).expect("held");
        world.broker.waits("q", place);
        assert_eq!(world.pull(), None);
        settling.gone();
        let (again, receipt) = world.pull().expect("it waits");
        assert_eq!(again, id);
        // The same where somebody has looked at it and found that it does not wait.
        let bell = Arc::new(Bell::default());
        world.broker.settle("q", receipt).expect("held").gone();
        let lease = world.broker.claim("q", place, LEASE_MS).expect("nobody has it");
        let mut line = world.broker.line_up("q", 1, LEASE_MS);
        let waker = Waker::from(bell.clone());
        assert!(line.poll_turn(&mut Context::from_waker(&waker)).is_pending());
        world.broker.waits("q", place);
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        lease.gone();
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        assert_eq!(world.poll(&mut line)[0].message(), id);
    }

    #[test]
    fn queues_that_nobody_uses_are_forgotten_and_others_stay() {
        let mut world = World::new();
        world.publish(0);
        world.publish(0);
        let (_, receipt) = world.pull().expect("a message");
        for number in 0..100_000 {
            drop(world.broker.line_up(&format!("q{number}"), 1, LEASE_MS));
        }
        assert!(world.broker.state().queues.len() <= 4096);
        assert!(world.acknowledge(receipt) && world.pull().is_some() && world.pull().is_none());
    }

    /// Anything that consumers, publishers and the clock can do, in any order: no message is lost or with two consumers at once.
    #[test]
    fn whatever_happens_each_message_is_with_one_consumer_until_it_is_done() {
        for seed in 1..200_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut next = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let mut world = World::new();
            let mut held: BTreeMap<u64, (Receipt, u64)> = BTreeMap::new();
            // Messages that wait for a time, and those of which the leases have not ended yet.
            let (mut later, mut failing): (Vec<Place>, Vec<Settling>) = (Vec::new(), Vec::new());
            for _ in 0..400 {
                let now = world.clock.load(Ordering::Relaxed);
                match next(12) {
                    0 | 1 => drop(world.publish(u32::try_from(next(3)).unwrap_or(0))),
                    2 | 3 => {
                        if let Some((id, receipt)) = world.pull() {
                            let before = held.insert(id, (receipt, now + LEASE_MS));
                            assert!(before.is_none_or(|(_, deadline)| deadline <= now), "seed {seed}: {id} twice");
                            assert!(world.stored.iter().any(|place| place.id == id), "seed {seed}: {id} was done");
                        }
                    }
                    4 => {
                        if let Some((id, (receipt, deadline))) = held.pop_first() {
                            assert_eq!(world.acknowledge(receipt), deadline > now, "seed {seed}: {id}");
                        }
                    }
                    5 => world.broker.expired(2).into_iter().for_each(Settling::back),
                    6 => world.pass(next(LEASE_MS)),
                    7 => world.broker.forget("q"),
                    8 => {
                        let failed = held.pop_first().and_then(|(_, (receipt, _))| world.broker.settle("q", receipt));
                        if let Some(settling) = failed {
                            world.stored.remove(&settling.place());
                            later.push(settling.place());
                            failing.push(settling);
                        }
                    }
                    9 => failing.pop().into_iter().for_each(Settling::gone),
                    10 => {
                        if let Some(place) = later.pop() {
                            world.stored.insert(place);
                            world.broker.waits("q", place);
                        }
                    }
                    _ => {
                        drop(world.broker.line_up("q", 2, LEASE_MS).poll_turn(&mut Context::from_waker(Waker::noop())))
                    }
                }
            }
            for place in later {
                world.stored.insert(place);
                world.broker.waits("q", place);
            }
            failing.into_iter().for_each(Settling::gone);
            world.pass(LEASE_MS);
            world.broker.expired(usize::MAX).into_iter().for_each(Settling::back);
            let mut left: Vec<u64> = std::iter::from_fn(|| world.pull()).map(|(id, _)| id).collect();
            left.sort_unstable();
            let mut stored: Vec<u64> = world.stored.iter().map(|place| place.id).collect();
            stored.sort_unstable();
            assert_eq!(left, stored, "seed {seed}");
        }
    }
}
