//! How many messages queues have, and room for more of them.
//!
//! Messages are counted once, when a process opens the tables, and then by whoever changes them: only the queue does (decision 0020),
//! and of all processes one has the directory open. So statistics and limits look at no rows, and a publish writes no counter.
//!
//! Invariants:
//! 1. Whoever changes messages has the gate, together with others, from before the commit until the counts say the same
//!    ([`Changing`]). Whoever has it alone finds counts and rows that belong together.
//! 2. A change of which nobody knows whether it has come about leaves its room taken. Its queues are doubtful until they are counted
//!    anew: never are there more messages than the counts and the room that is taken say.
//! 3. A message may be found, and come to its end, before the one who has stored it has told the counts: they are sums, which are true
//!    when both have told.
//! 4. Room is taken before the commit that fills it, and given back when there will be none: a limit holds at each commit.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tidegate_queue::Place;
use tidegate_rows::{Execute, Statement};
use tidegate_sql::Session;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{
    gather::{Gather, bytes, number},
    limits::{Limits, Overflow},
    line::Lines,
    store::{Home, Store, StoreError},
    tables::{BLOCKED, DEAD, DELAYED, READY},
};

/// Messages of a smaller priority are urgent.
///
/// Source: beanstalkd, `doc/protocol.txt`, `current-jobs-urgent`.
pub(super) const URGENT_BELOW: u32 = 1024;

/// Messages of a queue, by their states. Those that consumers have are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) ready: u64,
    /// Of those that are ready.
    pub(super) urgent: u64,
    pub(super) delayed: u64,
    pub(super) dead: u64,
    /// Those that wait for another one of their ordering key.
    pub(super) blocked: u64,
}

/// Where a message stands, as far as it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) state: i64,
    pub(super) priority: u32,
}

/// How much is too much in a queue when somebody publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Excess {
    /// Messages that have to make room.
    pub(super) messages: u64,
    /// Dead messages that are deleted beside them.
    pub(super) dead: u64,
}

/// What is known of a queue.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    count: Count,
    /// Messages that are being stored.
    taken: u64,
    /// Messages that make room for them.
    leaving: Excess,
    /// How often somebody has filled room that was taken, or has given it back.
    filled: u64,
}

/// The counts of all queues of a directory.
#[derive(Default)]
pub(super) struct Counts {
    first: OnceCell<()>,
    gate: RwLock<()>,
    known: Mutex<HashMap<String, Known>>,
    /// Those who wait for room.
    pub(super) lines: Lines,
    /// The tables are other ones than those of which messages were counted.
    is_forgotten: AtomicBool,
}

impl Count {
    /// All messages.
    pub(super) fn total(&self) -> u64 {
        self.waiting() + self.dead
    }

    /// Messages that are not dead.
    pub(super) fn waiting(&self) -> u64 {
        self.ready + self.delayed + self.blocked
    }

    fn change(&mut self, spot: Spot, change: impl Fn(u64) -> u64) {
        match spot.state {
            READY => {
                self.ready = change(self.ready);
                if spot.priority < URGENT_BELOW {
                    self.urgent = change(self.urgent);
                }
            }
            DELAYED => self.delayed = change(self.delayed),
            DEAD => self.dead = change(self.dead),
            BLOCKED => self.blocked = change(self.blocked),
            _ => {}
        }
    }

    fn add(&mut self, other: &Count) {
        self.ready += other.ready;
        self.urgent += other.urgent;
        self.delayed += other.delayed;
        self.dead += other.dead;
        self.blocked += other.blocked;
    }
}

impl Known {
    fn is_nothing(&self) -> bool {
        self.count == Count::default() && self.taken == 0
    }

    /// The numbers as they are told. A message may be found, and be done, before whoever has stored it says so: until then it is
    /// missing from a number, which may be less than nothing.
    fn told(&self) -> Count {
        let told = |count: u64| if count > i64::MAX as u64 { 0 } else { count };
        let Count { ready, urgent, delayed, dead, blocked } = self.count;
        let [ready, urgent, delayed, dead, blocked] = [ready, urgent, delayed, dead, blocked].map(told);
        Count { ready, urgent, delayed, dead, blocked }
    }

    /// Takes room for messages; answers what is too much then.
    fn take(&mut self, messages: u64, limits: &Limits) -> Excess {
        self.taken += messages;
        if limits.length_max == 0 {
            return Excess::default();
        }
        let count = self.told();
        let over = |there: u64, leaving: u64| there.saturating_sub(leaving).saturating_sub(limits.length_max);
        let excess = match limits.overflow {
            Overflow::Reject | Overflow::DropOldest => {
                let messages = over(count.total() + self.taken, self.leaving.messages);
                Excess { messages, dead: 0 }
            }
            Overflow::DeadLetter => {
                let messages = over(count.waiting() + self.taken, self.leaving.messages);
                let dying = if messages == 0 { 0 } else { self.leaving.messages + messages };
                let dead = if dying == 0 { 0 } else { over(count.dead + dying, self.leaving.dead) };
                Excess { messages, dead }
            }
        };
        self.leaving.messages += excess.messages;
        self.leaving.dead += excess.dead;
        excess
    }

    fn give_back(&mut self, messages: u64, excess: Excess) {
        self.taken = self.taken.saturating_sub(messages);
        self.leaving.messages = self.leaving.messages.saturating_sub(excess.messages);
        self.leaving.dead = self.leaving.dead.saturating_sub(excess.dead);
        self.filled += 1;
    }
}

impl Counts {
    /// The messages of a queue.
    pub(super) fn of(&self, queue: &str) -> Count {
        self.known().get(queue).map(Known::told).unwrap_or_default()
    }

    /// Those of all queues together.
    pub(super) fn of_all(&self) -> Count {
        let mut all = Count::default();
        self.known().values().for_each(|known| all.add(&known.told()));
        all
    }

    /// The queues that have messages, by their names.
    pub(super) fn queues(&self) -> Vec<(String, Count)> {
        let with_messages = |(name, known): (&String, &Known)| Some((name.clone(), known.told())).filter(has_messages);
        let mut queues: Vec<_> = self.known().iter().filter_map(with_messages).collect();
        queues.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        queues
    }

    /// The tables are gone, or some of them: all is counted anew when somebody has the gate alone.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Whether all is to be counted anew.
    pub(super) fn are_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts all messages, if nobody has done so yet.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn count_first(&self, session: &mut Session) -> Result<(), StoreError> {
        let counting = self.first.get_or_try_init(|| async {
            let counted = counted(session, None).await?;
            *self.known() = counted.into_iter().map(|(queue, count)| (queue, Known::of(count))).collect();
            Ok::<_, StoreError>(())
        });
        counting.await.map(drop)
    }

    /// How often somebody has filled room of a queue, or given it back, as far back as somebody has had room there.
    pub(super) fn rooms_filled(&self, queue: &str) -> u64 {
        self.known().get(queue).map_or(0, |known| known.filled)
    }

    /// Waits until nobody changes messages. Nobody begins to as long as this is held.
    pub(super) async fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    /// Counts the messages of a queue anew, for whoever has the gate alone.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn recount(
        &self,
        _alone: &RwLockWriteGuard<'_, ()>,
        session: &mut Session,
        queue: &str,
    ) -> Result<(), StoreError> {
        let counted = counted(session, Some(queue)).await?;
        // Whoever had taken room has gone, or has filled it.
        let mut known = self.known();
        known.remove(queue);
        known.extend(counted.first().map(|(_, count)| (queue.to_owned(), Known::of(*count))));
        drop(known);
        self.lines.filled(queue);
        Ok(())
    }

    /// Counts all messages anew, for whoever has the gate alone.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn recount_all(
        &self,
        _alone: &RwLockWriteGuard<'_, ()>,
        session: &mut Session,
    ) -> Result<(), StoreError> {
        let counted = counted(session, None).await?;
        *self.known() = counted.into_iter().map(|(queue, count)| (queue, Known::of(count))).collect();
        self.is_forgotten.store(false, Ordering::Relaxed);
        self.lines.all_filled();
        Ok(())
    }
}

impl Known {
    fn of(count: Count) -> Self {
        Known { count, ..Known::default() }
    }
}

fn has_messages((_, count): &(String, Count)) -> bool {
    count.total() > 0
}

/// Counts the messages of one queue or of all, along the index in which they are pulled.
async fn counted(session: &mut Session, queue: Option<&str>) -> Result<Vec<(String, Count)>, StoreError> {
    let filter = if queue.is_some() { "WHERE queue = ?" } else { "" };
    let sql = format!(
        "SELECT queue, state, COUNT(*), CAST(SUM(priority < {URGENT_BELOW}) AS UNSIGNED) FROM tidegate_queue.messages {filter} \
         GROUP BY queue, state"
    );
    let params: Vec<_> = queue.iter().map(|queue| tidegate_rows::Param::Bytes((*queue).to_owned().into())).collect();
    let mut rows = Gather::default();
    session.execute(Statement { sql: sql.as_bytes(), params: &params }, &mut rows).await?;
    let mut counted: Vec<(String, Count)> = Vec::new();
    for row in &rows.rows {
        let name = String::from_utf8_lossy(&bytes(row.first()).unwrap_or_default()).into_owned();
        if counted.last().is_none_or(|(last, _)| *last != name) {
            counted.push((name, Count::default()));
        }
        let Some((_, count)) = counted.last_mut() else { continue };
        let of_state = number(row.get(2));
        match i64::try_from(number(row.get(1))).unwrap_or(READY) {
            READY => (count.ready, count.urgent) = (of_state, number(row.get(3))),
            DELAYED => count.delayed = of_state,
            DEAD => count.dead = of_state,
            BLOCKED => count.blocked = of_state,
            _ => {}
        }
    }
    Ok(counted)
}

/// A change of messages that is under way: when this is dropped before [`certain`](Self::certain) or [`nothing`](Self::nothing),
/// nobody knows what has become of it.
pub(super) struct Changing<'a> {
    home: &'a Home,
    queues: BTreeSet<String>,
    room: Vec<(String, u64, Excess)>,
    moves: Vec<(String, Option<Spot>, Option<Spot>)>,
    /// Messages that are to be had from the commit on.
    coming: Vec<(String, Place)>,
    is_due_changed: bool,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Store {
    /// Begins to change messages of these queues. Whoever does so already must not begin once more before that is over.
    pub(super) async fn changing(&self, queues: impl IntoIterator<Item = impl Into<String>>) -> Changing<'_> {
        let gate = self.home.counts.gate.read().await;
        let queues = queues.into_iter().map(Into::into).collect();
        Changing {
            home: &self.home,
            queues,
            room: Vec::new(),
            moves: Vec::new(),
            coming: Vec::new(),
            is_due_changed: false,
            _gate: gate,
        }
    }
}

impl Changing<'_> {
    /// Takes room for messages of a queue; answers what is too much then, and has to leave in the same commit.
    pub(super) fn take_room(&mut self, queue: &str, messages: u64, limits: &Limits) -> Excess {
        let excess = self.home.counts.known().entry(queue.to_owned()).or_default().take(messages, limits);
        self.room.push((queue.to_owned(), messages, excess));
        self.queues.insert(queue.to_owned());
        excess
    }

    /// Whether others have taken room in a queue.
    pub(super) fn others_take_room(&self, queue: &str) -> bool {
        let own: u64 = self.room.iter().filter(|(name, ..)| name == queue).map(|(_, messages, _)| messages).sum();
        self.home.counts.known().get(queue).is_some_and(|known| known.taken > own)
    }

    /// A message that there is comes from one place to another one; there is none before it is stored and behind its end.
    pub(super) fn moved(&mut self, queue: &str, from: Option<Spot>, to: Option<Spot>) {
        if from != to {
            self.moves.push((queue.to_owned(), from, to));
        }
    }

    /// A message comes into this state with the commit: those who wait hear of it then.
    pub(super) fn comes(&mut self, queue: &str, place: Place, state: i64) {
        match state {
            READY => self.coming.push((queue.to_owned(), place)),
            DELAYED => self.is_due_changed = true,
            _ => {}
        }
    }

    /// A message has a time with which something happens to it.
    pub(super) fn is_timed(&mut self) {
        self.is_due_changed = true;
    }

    /// The commit has come about, with all that was said of it.
    pub(super) fn certain(mut self) {
        let moves = std::mem::take(&mut self.moves);
        self.end(&moves);
        self.coming.drain(..).for_each(|(queue, place)| self.home.broker.waits(&queue, place));
        if self.is_due_changed {
            self.home.due_changed.notify_one();
        }
    }

    /// There was no commit, and there will be none.
    pub(super) fn nothing(mut self) {
        self.end(&[]);
    }

    fn end(&mut self, moves: &[(String, Option<Spot>, Option<Spot>)]) {
        let room = std::mem::take(&mut self.room);
        let mut known = self.home.counts.known();
        for (queue, messages, excess) in &room {
            if let Some(known) = known.get_mut(queue) {
                known.give_back(*messages, *excess);
            }
        }
        for (queue, from, to) in moves {
            // A queue's name is copied where the queue is new only.
            if !known.contains_key(queue) {
                known.insert(queue.clone(), Known::default());
            }
            let Some(known) = known.get_mut(queue) else { continue };
            if let Some(from) = from {
                known.count.change(*from, |count| count.wrapping_sub(1));
            }
            if let Some(to) = to {
                known.count.change(*to, |count| count.wrapping_add(1));
            }
        }
        for queue in std::mem::take(&mut self.queues) {
            if known.get(&queue).is_some_and(Known::is_nothing) {
                known.remove(&queue);
            }
        }
        drop(known);
        room.iter().for_each(|(queue, ..)| self.home.counts.lines.filled(queue));
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.queues.is_empty() {
            return;
        }
        self.queues.iter().for_each(|queue| self.home.broker.forget(queue));
        // The statement may be part of a commit that others of its worker carry out: what a look finds now need not be all.
        self.home.doubt(std::mem::take(&mut self.queues));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ready: u64, dead: u64) -> Known {
        Known::of(Count { ready, dead, ..Count::default() })
    }

    #[track_caller]
    fn check(known: &mut Known, overflow: Overflow, messages: u64, expected: (u64, u64)) {
        let limits = Limits { length_max: 10, overflow, ..Limits::default() };
        let Excess { messages, dead } = known.take(messages, &limits);
        assert_eq!((messages, dead), expected);
    }

    #[test]
    fn room_is_what_others_have_not_taken() {
        let mut seven = known(5, 2);
        check(&mut seven, Overflow::Reject, 3, (0, 0));
        check(&mut seven, Overflow::Reject, 1, (1, 0));
        seven.give_back(1, Excess { messages: 1, dead: 0 });
        check(&mut seven, Overflow::DropOldest, 2, (2, 0));
        check(&mut seven, Overflow::DropOldest, 2, (2, 0));
        // Without a limit nothing is too much.
        assert_eq!(seven.take(99, &Limits::default()), Excess::default());
    }

    #[test]
    fn dead_letters_have_a_limit_of_their_own() {
        let mut full = known(10, 9);
        check(&mut full, Overflow::DeadLetter, 1, (1, 0));
        check(&mut full, Overflow::DeadLetter, 2, (2, 2));
        let mut short = known(0, 10);
        check(&mut short, Overflow::DeadLetter, 10, (0, 0));
        check(&mut short, Overflow::DeadLetter, 1, (1, 1));
    }

    #[test]
    fn an_end_may_be_told_before_the_beginning() {
        let (mut known, spot) = (Known::default(), Spot { state: READY, priority: 5 });
        known.count.change(spot, |count| count.wrapping_sub(1));
        assert_eq!((known.told(), known.is_nothing()), (Count::default(), false));
        known.count.change(spot, |count| count.wrapping_add(1));
        assert!(known.is_nothing());
    }

    #[test]
    fn moves_are_counted_by_state_and_urgency() {
        let mut count = Count::default();
        let spot = |state, priority| Spot { state, priority };
        for one in [spot(READY, 5), spot(READY, 1024), spot(DELAYED, 5), spot(DEAD, 5)] {
            count.change(one, |count| count + 1);
        }
        assert_eq!(count, Count { ready: 2, urgent: 1, delayed: 1, dead: 1, blocked: 0 });
        assert_eq!((count.total(), count.waiting()), (4, 3));
        count.change(spot(READY, 5), |count| count - 1);
        assert_eq!((count.ready, count.urgent), (1, 0));
    }
}
