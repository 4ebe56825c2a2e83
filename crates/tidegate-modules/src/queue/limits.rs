//! Limits of queues: how many messages there may be, for how long, and what happens beyond that.

use std::cell::{Cell, RefCell};
use std::pin::pin;

use tidegate_queue::{Lease, Place};
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::table::{Answer, Comparison, Filter, Otherwise, Request, Revise, Revision, Rows, Test};

use super::{
    Conf,
    counts::{Changing, Excess, Spot},
    gather::{Gather, number},
    line::Turn,
    message::millis,
    ordering::{Keyed, ended},
    publish::Target,
    store::{Open, Store, StoreError},
    tables::{BLOCKED, DEAD, DELAYED, READY},
    time_of_day,
};

/// How long those who make room are nobody else's.
const CLAIM_MS: u64 = 60_000;
/// Messages that are looked at together.
const TOGETHER_MAX: u64 = 64;
/// How often a transaction is tried that was undone for others of its ordering keys.
const DEADLOCKS_MAX: u32 = 20;
/// The column `expires_ms` of `Tables::die`.
const EXPIRES: usize = 5;
/// Why a message is dead that had to make room.
const REASON_FULL: &str = "the queue was full";

/// What happens when a queue is full, or a message too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Overflow {
    /// Nothing is stored; what is too old is deleted.
    #[default]
    Reject,
    /// The oldest messages are deleted.
    DropOldest,
    /// The oldest messages, and those that are too old, are dead.
    DeadLetter,
}

impl Overflow {
    const ALL: [Self; 3] = [Overflow::Reject, Overflow::DropOldest, Overflow::DeadLetter];

    /// By its name.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name().as_bytes() == name)
    }

    /// The name, as directives, parameters and the table have it.
    pub(super) fn name(self) -> &'static str {
        OVERFLOWS[self as usize].0
    }
}

/// The limits that hold for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limits {
    /// Messages; 0 for no limit.
    pub(super) length_max: u64,
    /// Milliseconds that a message may wait; 0 for no limit.
    pub(super) age_max_ms: u64,
    pub(super) overflow: Overflow,
}

impl Limits {
    /// The time to live of a message that has this one of its own.
    pub(super) fn ttl_ms(&self, own: Option<u64>) -> Option<u64> {
        let age = Some(self.age_max_ms).filter(|ms| *ms > 0);
        own.into_iter().chain(age).min()
    }

    /// Whether a message that was published at this time is dead, instead of gone, when its time to live is over.
    pub(super) fn lets_die(&self, published_ms: u64) -> bool {
        self.overflow == Overflow::DeadLetter
            && self.age_max_ms > 0
            && published_ms.saturating_add(self.age_max_ms) <= time_of_day::now_ms()
    }
}

/// The words of `queue_overflow`.
pub(super) const OVERFLOWS: &[(&str, u32)] = &[("reject", 0), ("drop_oldest", 1), ("dead_letter", 2)];

impl Conf {
    /// The limits of queues that have none of their own.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            length_max: self.queue_length_max.unwrap_or(0),
            age_max_ms: self.queue_age_max.map_or(0, millis),
            overflow: self
                .queue_overflow
                .and_then(|word| Overflow::ALL.get(word as usize).copied())
                .unwrap_or_default(),
        }
    }
}

/// A message that makes room: it is nobody else's meanwhile.
#[derive(Debug)]
pub(super) struct Victim {
    queue: String,
    lease: Lease,
    state: i64,
    /// It is dead instead of gone.
    dies: bool,
}

/// Room that was taken in a queue where it has to be made.
#[derive(Debug)]
pub(super) struct Room {
    queue: String,
    length_max: u64,
    /// Messages for which it was taken.
    messages: u64,
    victims: Vec<Victim>,
    /// So many of them have gone.
    gone: Cell<usize>,
    /// There is nothing that could make room for so many.
    lacking: u64,
}

impl Room {
    /// Makes room for those messages that are new, in the session's transaction.
    ///
    /// # Errors
    /// There is none, those of statements.
    pub(super) async fn make(&self, open: &mut Open, new: u64, changing: &mut Changing<'_>) -> Result<(), StoreError> {
        let known = self.messages.saturating_sub(new);
        if self.lacking > known {
            return Err(StoreError::Full { queue: self.queue.clone(), length_max: self.length_max });
        }
        let count = self.victims.len().saturating_sub(usize::try_from(known).unwrap_or(usize::MAX));
        for victim in &self.victims[..count] {
            victim.leave(open, changing).await?;
        }
        self.gone.set(count);
        Ok(())
    }

    /// Whether the room is in this queue.
    pub(super) fn is_of(&self, queue: &str) -> bool {
        self.queue == queue
    }
}

/// Lets a message die, from wherever it is.
#[derive(Debug)]
pub(super) struct Dies {
    pub(super) reason: &'static str,
    /// Where it was.
    pub(super) from: Cell<Option<Spot>>,
    /// Its queue and its key.
    keyed: RefCell<Option<Keyed>>,
}

impl Dies {
    pub(super) fn new(reason: &'static str) -> Self {
        Dies { reason, from: Cell::new(None), keyed: RefCell::default() }
    }

    /// What the death means to others of its key, in the transaction in which it has died.
    pub(super) async fn pass_on(
        &self,
        open: &mut Open,
        id: u64,
        changing: &mut Changing<'_>,
    ) -> Result<(), QueryError> {
        match self.keyed.take() {
            Some(keyed) => ended(open, id, &keyed, changing).await,
            None => Ok(()),
        }
    }
}

impl Revise for Dies {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        self.from.set(None);
        self.keyed.take();
        let Some(old) = old else { return Revision::Keep };
        if number(old.first()) == DEAD.unsigned_abs() {
            // It is dead for another reason. Without a time to live it is not looked at again and again.
            let mut row = old.to_vec();
            row[EXPIRES] = Param::Null;
            return Revision::Put(row);
        }
        let (queue, key) = (old.get(6).cloned().unwrap_or(Param::Null), old.get(7).cloned().unwrap_or(Param::Null));
        self.from.set(spot_of(old));
        *self.keyed.borrow_mut() = Keyed::of(&[old[0].clone(), old[1].clone(), queue.clone(), key.clone()]);
        let priority = old.get(1).cloned().unwrap_or(Param::Null);
        let reason = Param::Bytes(self.reason.into());
        // Neither does it keep others with its key out, nor has it a time to live any more.
        Revision::Put(vec![Param::Int(DEAD), priority, Param::Null, reason, Param::Null, Param::Null, queue, key])
    }
}

/// Where a message of a row stands that begins with its state and its priority.
pub(super) fn spot_of(row: &[Param]) -> Option<Spot> {
    let state = i64::try_from(number(row.first())).ok()?;
    Some(Spot { state, priority: u32::try_from(number(row.get(1))).ok()? })
}

impl Victim {
    /// Makes room in the session's transaction.
    ///
    /// # Errors
    /// [`StoreError::HasGone`] if it had gone before it was claimed; those of the statement.
    async fn leave(&self, open: &mut Open, changing: &mut Changing<'_>) -> Result<(), StoreError> {
        let tables = open.tables.clone();
        let key = [Value::Uint(self.lease.message())];
        let dead = Dies::new(REASON_FULL);
        if self.dies {
            let dying = Request::Revise(Rows::with_key(&key), &dead);
            open.session.run_request(&tables.die, &dying, &mut Gather::default()).await?;
            let spot = dead.from.get().ok_or(StoreError::HasGone)?;
            changing.moved(&self.queue, Some(spot), Some(Spot { state: DEAD, ..spot }));
            return Ok(dead.pass_on(open, self.lease.message(), changing).await?);
        }
        let mut deleted = Gather::default();
        let delete = Request::Delete(Rows::with_key(&key), Answer::OldRows);
        open.session.run_request(&tables.end, &delete, &mut deleted).await?;
        let row = deleted.rows.first().ok_or(StoreError::HasGone)?;
        changing.moved(&self.queue, spot_of(row), None);
        if let Some(keyed) = Keyed::of(row) {
            ended(open, self.lease.message(), &keyed, changing).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Takes room for messages in a queue that are stored with a change that has begun. `None` if there is enough.
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is none and none can be made, unless some of them `may_be_known`: then it turns out when they are
    /// stored. [`StoreError::RoomIsTaken`] if those may that others are storing. Storage errors.
    pub(super) async fn take_room(
        &self,
        changing: &mut Changing<'_>,
        target: &Target,
        messages: u64,
        may_be_known: bool,
    ) -> Result<Option<Room>, StoreError> {
        let Target { queue, limits } = target;
        let excess = changing.take_room(queue, messages, limits);
        if excess == Excess::default() {
            return Ok(None);
        }
        let (states, dies): (&[i64], bool) = match limits.overflow {
            Overflow::Reject => (&[], false),
            Overflow::DropOldest => (&[DEAD, READY, DELAYED, BLOCKED], false),
            Overflow::DeadLetter => (&[READY, DELAYED, BLOCKED], true),
        };
        let victim = |lease, state, dies| Victim { queue: queue.clone(), lease, state, dies };
        // Others may begin to store messages, and have stored them, while this one looks: those can make room then.
        let filled = self.home.counts.rooms_filled(queue);
        let others = changing.others_take_room(queue);
        let dead = self.oldest(queue, DEAD, excess.dead).await?;
        // Where there are not enough dead ones, some that would be are gone at once.
        let mut gone = excess.dead - dead.len() as u64;
        // In this order: messages turn out to be known when they are stored, and those at the end stay then.
        let mut victims: Vec<Victim> = dead.into_iter().map(|lease| victim(lease, DEAD, false)).collect();
        let mut left = excess.messages;
        for state in states {
            let found = self.oldest(queue, *state, left).await?;
            left -= found.len() as u64;
            for lease in found {
                victims.push(victim(lease, *state, dies && gone == 0));
                gone = gone.saturating_sub(1);
            }
        }
        let others = others || changing.others_take_room(queue) || self.home.counts.rooms_filled(queue) != filled;
        if left > 0 && others && limits.overflow != Overflow::Reject {
            return Err(StoreError::RoomIsTaken { queue: queue.clone() });
        }
        if left > 0 && !may_be_known {
            return Err(StoreError::Full { queue: queue.clone(), length_max: limits.length_max });
        }
        let (queue, length_max) = (queue.clone(), limits.length_max);
        Ok(Some(Room { queue, length_max, messages, victims, gone: Cell::new(0), lacking: left }))
    }

    /// Does something that takes room, and does it again when others have filled theirs, when what was to make room has gone, or after
    /// a deadlock.
    ///
    /// # Errors
    /// Those of `attempt`, but [`StoreError::RoomIsTaken`] and [`StoreError::HasGone`].
    pub(super) async fn with_room<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let counts = &self.home.counts;
        let (mut turn, mut deadlocks): (Option<Turn<'_>>, u32) = (None, 0);
        loop {
            let filled = turn.as_ref().map(|turn| counts.rooms_filled(turn.queue()));
            match (attempt().await, &turn) {
                (Err(StoreError::RoomIsTaken { queue }), Some(now)) if now.queue() == queue => {
                    let mut next = pin!(now.filled());
                    next.as_mut().enable();
                    // This attempt has given back what it had taken: it counts, too.
                    if filled.is_some_and(|filled| counts.rooms_filled(&queue) == filled + 1) {
                        next.await;
                    }
                }
                (Err(StoreError::RoomIsTaken { queue }), _) => {
                    drop(turn.take());
                    turn = Some(counts.lines.stand(&queue).await);
                }
                (Err(StoreError::HasGone), _) => {}
                (Err(error), _) if error.is_deadlock() && deadlocks < DEADLOCKS_MAX => deadlocks += 1,
                (done, _) => return done,
            }
        }
    }

    /// Messages that had to make room have gone.
    pub(super) fn have_made_room(&self, rooms: Vec<Room>) {
        for Room { victims, gone, .. } in rooms {
            for (at, Victim { lease, state, .. }) in victims.into_iter().enumerate() {
                let id = lease.message();
                if at >= gone.get() && state == READY {
                    // It waits on: somebody's message was known already.
                    drop(lease);
                    continue;
                }
                lease.gone();
                self.home.waiters.tell([id]);
            }
        }
    }

    /// The oldest messages of the least urgent ones in a state that nobody has.
    async fn oldest(&self, queue: &str, state: i64, count_max: u64) -> Result<Vec<Lease>, StoreError> {
        let mut found = Vec::new();
        let mut below = u64::from(u32::MAX) + 1;
        while (found.len() as u64) < count_max && below > 0 {
            let Some(priority) = self.least_urgent(queue, state, below - 1).await? else { break };
            below = u64::from(priority);
            let mut after = Some(Place { priority, id: 0 });
            while (found.len() as u64) < count_max {
                let places = self.places(queue, state, after, TOGETHER_MAX).await?;
                after = places.last().copied();
                let same = places.iter().take_while(|place| place.priority == priority);
                let free = same.filter_map(|place| self.broker().claim(queue, *place, CLAIM_MS));
                let left = usize::try_from(count_max).unwrap_or(usize::MAX) - found.len();
                found.extend(free.take(left));
                if after.is_none_or(|last| last.priority != priority) || (places.len() as u64) < TOGETHER_MAX {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The priority of the least urgent message in a state, up to a priority.
    async fn least_urgent(&self, queue: &str, state: i64, priority_max: u64) -> Result<Option<u32>, StoreError> {
        let [queue, state] = [Value::Bytes(queue.as_bytes()), Value::Int(state)];
        let key = [queue, state, Value::Uint(priority_max)];
        let test = Test::Compares(Comparison::Equal);
        let filters =
            [(0, queue), (1, state)].map(|(column, value)| Filter { column, test, value, otherwise: Otherwise::Stop });
        let rows = Rows { filters: &filters, limit: 1, ..Rows::new(Comparison::AtMost, &key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.next, Request::Find(rows))]).await?;
        Ok(found.rows.first().and_then(|row| u32::try_from(number(row.first())).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_time_counts() {
        let limits = Limits { age_max_ms: 5, ..Limits::default() };
        assert_eq!([limits.ttl_ms(None), limits.ttl_ms(Some(3)), limits.ttl_ms(Some(9))], [Some(5), Some(3), Some(5)]);
        assert_eq!([Limits::default().ttl_ms(None), Limits::default().ttl_ms(Some(9))], [None, Some(9)]);
        for overflow in [Overflow::Reject, Overflow::DropOldest, Overflow::DeadLetter] {
            assert_eq!(Overflow::of(overflow.name().as_bytes()), Some(overflow));
        }
        assert_eq!(Overflow::of(b"drop"), None);
    }
}
