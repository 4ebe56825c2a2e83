//! The broker: the queues of a store as all workers see them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
};

use tokio::sync::Notify;

use crate::{
    lease::{Grant, Held, Settling},
    window::{Place, Window},
};

/// Queues of which nobody wants anything are forgotten when there are twice as many as were left the last time, and at least this
/// many.
const QUEUES_KEPT_MIN: usize = 1024;
/// Looks into the store for somebody who wants several messages and could have some at once. Two of them find a hundred; more are for messages
/// between them that others have. There is an end, so that nobody waits for a hundredth message behind all those that others have.
pub(crate) const LOOKS_MAX: u32 = 8;

/// Who waits for messages and who has which, for all workers of a process and one store.
pub struct Broker {
    state: Mutex<State>,
    /// Milliseconds of a clock that nobody can set.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// A time limit has come that ends before all others.
    deadline_changed: Notify,
}

/// What is known of a queue without asking the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Consumers that wait for a message.
    pub waiting_consumers: usize,
    /// Messages that consumers have.
    pub leased: usize,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) queues: HashMap<Arc<str>, Queue>,
    /// By the numbers of messages.
    pub(crate) leases: HashMap<u64, Held>,
    /// When leases end, with the numbers of their messages.
    pub(crate) deadlines: BTreeSet<(u64, u64)>,
    /// What was given to those in line who have not taken it yet, by their tickets.
    pub(crate) granted: HashMap<u64, Vec<Grant>>,
    pub(crate) last_lease: u64,
    last_ticket: u64,
    /// Leases whose time was over.
    pub(crate) expired_total: u64,
    /// Queues are looked through when there are so many.
    queues_max: usize,
}

/// A queue of which somebody wants something, or has wanted lately.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) window: Window,
    pub(crate) line: BTreeMap<u64, Waiter>,
    /// Messages that somebody has.
    pub(crate) leased: usize,
    /// Those of them that no consumer has.
    pub(crate) claimed: usize,
    /// Those who do not wait longer than for the look into the store that is under way.
    pub(crate) hurried: Vec<Waker>,
    is_paused: bool,
}

/// Somebody in line.
pub(crate) struct Waiter {
    pub(crate) messages_max: usize,
    pub(crate) lease_ms: u64,
    pub(crate) waker: Waker,
    /// Looks into the store that are worth the wait for more than one message.
    pub(crate) looks_left: u32,
}

impl Waiter {
    /// So many messages must be known before it gets any, unless there are not so many.
    fn wanted(&self) -> usize {
        if self.looks_left > 0 { self.messages_max } else { 1 }
    }
}

impl Queue {
    /// Whether the first in line gets nothing without a look into the store that nobody has begun.
    pub(crate) fn wants_look(&self) -> bool {
        !self.is_paused && self.line.values().next().is_some_and(|first| self.window.lacks(first.wanted()))
    }

    /// Begins a look into the store; answers behind which place.
    pub(crate) fn begin_look(&mut self) -> Option<Place> {
        if let Some(mut first) = self.line.first_entry() {
            let looks_left = &mut first.get_mut().looks_left;
            *looks_left = looks_left.saturating_sub(1);
        }
        self.window.begin_scan()
    }

    fn is_idle(&self) -> bool {
        self.line.is_empty() && self.leased == 0 && !self.window.is_scanned() && !self.is_paused
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// A broker that has given nothing to anybody.
    ///
    /// `first_lease` is where the numbers of leases begin; a number by chance, so that nobody takes a lease of an earlier process
    /// for one of this. `clock` answers milliseconds of a clock that nobody can set.
    pub fn new(first_lease: u64, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        let state = State { last_lease: first_lease, queues_max: 2 * QUEUES_KEPT_MIN, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), clock: Box::new(clock), deadline_changed: Notify::new() })
    }

    /// A message waits in a queue from now on: it was committed, or is to be had again. Gives it to the first in line. One that
    /// somebody still has waits when that lease ends, however it does: whoever ends it may speak of what was there before.
    pub fn waits(&self, queue: &str, place: Place) {
        let mut state = self.state();
        if let Some(held) = state.leases.get_mut(&place.id) {
            held.waits_then = Some(place);
            return;
        }
        self.change_in(&mut state, queue, |queue| queue.window.add(place));
    }

    /// The store may have changed in ways that nobody has told: the queue is looked at anew.
    pub fn forget(&self, queue: &str) {
        self.change(queue, |queue| queue.window.forget());
    }

    /// As [`forget`](Self::forget), for all queues.
    pub fn forget_all(&self) {
        let mut state = self.state();
        let names: Vec<Arc<str>> = state.queues.keys().cloned().collect();
        for name in names {
            if let Some(queue) = state.queues.get_mut(&name) {
                queue.window.forget();
            }
            self.advance(&mut state, &name);
        }
    }

    /// Nobody gets messages of the queue until it is resumed. Messages that somebody has are not concerned.
    pub fn pause(&self, queue: &str) {
        let mut state = self.state();
        let name = state.name_of(queue);
        state.queue(&name).is_paused = true;
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self, queue: &str) {
        self.change(queue, |queue| queue.is_paused = false);
    }

    /// Whether the queue is paused.
    pub fn is_paused(&self, queue: &str) -> bool {
        self.state().queues.get(queue).is_some_and(|queue| queue.is_paused)
    }

    /// What is known of a queue.
    pub fn counts(&self, queue: &str) -> Counts {
        let state = self.state();
        let known = state.queues.get(queue);
        known.map_or_else(Counts::default, |queue| Counts {
            waiting_consumers: queue.line.len(),
            leased: queue.leased - queue.claimed,
        })
    }

    /// How many messages consumers have, of one queue or of all, and how many of them are more urgent than this priority. Looks at all
    /// leases.
    pub fn leased_below(&self, queue: Option<&str>, priority: u32) -> (usize, usize) {
        let state = self.state();
        let of_queue =
            state.leases.values().filter(|held| !held.is_claim && queue.is_none_or(|queue| *held.queue == *queue));
        of_queue.fold((0, 0), |(all, urgent), held| (all + 1, urgent + usize::from(held.place.priority < priority)))
    }

    /// How often the time of a lease was over.
    pub fn expired_total(&self) -> u64 {
        self.state().expired_total
    }

    /// How long somebody still has the message; `None` if nobody has it.
    pub fn time_left_ms(&self, message: u64) -> Option<u64> {
        let now = self.now_ms();
        self.state().leases.get(&message).map(|held| held.deadline_ms.saturating_sub(now))
    }

    /// Whether somebody has the message.
    pub fn is_leased(&self, message: u64) -> bool {
        self.state().leases.contains_key(&message)
    }

    /// Takes back leases whose time is over, at most so many. Nobody gets their messages before they are settled.
    pub fn expired(self: &Arc<Self>, count_max: usize) -> Vec<Settling> {
        let now = self.now_ms();
        let mut state = self.state();
        let mut over = Vec::new();
        while over.len() < count_max
            && let Some(&(_, message)) = state.deadlines.first().filter(|(deadline, _)| *deadline <= now)
        {
            over.extend(Settling::begin(self, &mut state, message));
        }
        state.expired_total += over.len() as u64;
        over
    }

    /// When the time of the next lease is over, by the broker's clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.state().deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Waits until a time limit comes that ends before all others. One task at a time may wait for that.
    pub async fn deadline_changed(&self) {
        self.deadline_changed.notified().await;
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a queue, if anything is, and serves those in line.
    fn change(&self, name: &str, change: impl FnOnce(&mut Queue)) {
        self.change_in(&mut self.state(), name, change);
    }

    fn change_in(&self, state: &mut State, name: &str, change: impl FnOnce(&mut Queue)) {
        let Some((name, _)) = state.queues.get_key_value(name) else { return };
        let name = name.clone();
        if let Some(queue) = state.queues.get_mut(&name) {
            change(queue);
        }
        self.advance(state, &name);
    }

    /// Gives messages to those in line as far as both are known, and has the first look for more.
    pub(crate) fn advance(&self, state: &mut State, name: &Arc<str>) {
        let Some(queue) = state.queues.get_mut(name).filter(|queue| !queue.is_paused) else { return };
        let now = (!queue.line.is_empty()).then(|| self.now_ms());
        while let (Some(first), Some(now)) = (queue.line.first_entry(), now) {
            let waiter = first.get();
            if !queue.window.knows_first(waiter.wanted()) {
                if !queue.window.is_scanned() {
                    waiter.waker.wake_by_ref();
                }
                return;
            }
            let mut grants = Vec::new();
            while grants.len() < waiter.messages_max
                && let Some(place) = queue.window.take_first()
            {
                if state.leases.contains_key(&place.id) {
                    continue;
                }
                state.last_lease = state.last_lease.wrapping_add(1);
                let deadline_ms = now.saturating_add(waiter.lease_ms);
                let held = Held {
                    number: state.last_lease,
                    queue: name.clone(),
                    place,
                    deadline_ms,
                    is_settling: false,
                    is_plain: false,
                    is_claim: false,
                    hands: None,
                    waits_then: None,
                };
                state.leases.insert(place.id, held);
                self.limit(&mut state.deadlines, deadline_ms, place.id);
                grants.push(Grant { place, number: state.last_lease });
            }
            if grants.is_empty() {
                if queue.window.lacks(1) {
                    waiter.waker.wake_by_ref();
                }
                return;
            }
            queue.leased += grants.len();
            let (ticket, waiter) = first.remove_entry();
            state.granted.insert(ticket, grants);
            waiter.waker.wake();
        }
    }

    /// A time limit has come into being or is another one.
    pub(crate) fn limit(&self, deadlines: &mut BTreeSet<(u64, u64)>, deadline_ms: u64, message: u64) {
        if deadlines.first().is_none_or(|(first, _)| deadline_ms < *first) {
            self.deadline_changed.notify_one();
        }
        deadlines.insert((deadline_ms, message));
    }
}

impl State {
    /// The name of a queue, of which something is known from now on.
    pub(crate) fn name_of(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.queues.get_key_value(name) {
            return name.clone();
        }
        if self.queues.len() >= self.queues_max {
            self.queues.retain(|_, queue| !queue.is_idle());
            self.queues_max = 2 * self.queues.len().max(QUEUES_KEPT_MIN);
        }
        let name: Arc<str> = name.into();
        self.queues.insert(name.clone(), Queue::default());
        name
    }

    /// What is known of a queue.
    pub(crate) fn queue(&mut self, name: &Arc<str>) -> &mut Queue {
        self.queues.entry(name.clone()).or_default()
    }

    /// A place in all lines, behind everybody who has one.
    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// A message is nobody's any more, and waits again or is gone.
    pub(crate) fn end_lease(&mut self, message: u64, waits: bool) -> Option<Arc<str>> {
        let held = self.leases.remove(&message)?;
        self.deadlines.remove(&(held.deadline_ms, message));
        if let Some(hands) = &held.hands {
            hands.let_go();
        }
        let queue = self.queue(&held.queue);
        queue.leased -= 1;
        queue.claimed -= usize::from(held.is_claim);
        match held.waits_then.or_else(|| waits.then_some(held.place)) {
            Some(place) => queue.window.add(place),
            None => queue.window.remove(held.place),
        }
        Some(held.queue)
    }
}
