//! Messages of one ordering key come one at a time, in the order in which they were published.
//!
//! Google's Pub/Sub and Apache Pulsar call it ordering key, which says more than the "group" and "session" of others: only order
//! depends on it, not to whom messages go.
//!
//! ```text
//! publish ──▶ has anybody the turn? ──no──▶ turns(queue, key), the message waits ──▶ done, dead or gone: the turn passes on
//!                     └───────yes──▶ the message is blocked, blocked(queue, key, id)  ◀── the one of the least number gets it ┘
//! ```
//!
//! A message that fails and waits again, or later, keeps the turn. A dead one passes it on, and asks for it anew when it is sent again.
//!
//! Invariants:
//! 1. Of each queue and key one message at most is ready or delayed: the one that has the turn, for which there is a row of `turns`. All
//!    others that are not dead are blocked, each with a row of `blocked`.
//! 2. Whoever gives a message a key's turn, blocks it or passes the turn on locks the row of `turns` first, in the transaction that
//!    changes the message. So these follow each other for a key, and a crash finds 1.

use std::{cell::Cell, collections::HashSet};

use bytes::Bytes;
use tidegate_queue::Place;
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::table::{Answer, Comparison, Filter, OnDuplicate, Otherwise, Request, Revise, Revision, Rows, Test};

use super::{
    counts::{Changing, Spot},
    gather::{Gather, bytes, number},
    limits::spot_of,
    store::{Open, Store, StoreError},
    tables::{BLOCKED, DEAD, DELAYED, READY},
};
use crate::database::schemas::execute;

/// Takes the turn of a key if nobody has it. Its row is locked in any case.
#[derive(Debug)]
struct Take<'a> {
    queue: &'a str,
    key: &'a [u8],
    is_ours: Cell<bool>,
}

impl Revise for Take<'_> {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        self.is_ours.set(old.is_none());
        match old {
            Some(_) => Revision::Keep,
            None => {
                let queue = Param::Bytes(self.queue.to_owned().into());
                Revision::Put(vec![queue, Param::Bytes(Bytes::copy_from_slice(self.key))])
            }
        }
    }
}

/// Locks a row.
#[derive(Debug)]
struct Lock;

impl Revise for Lock {
    fn revise(&self, _: Option<&[Param]>) -> Revision {
        Revision::Keep
    }
}

/// Gives a blocked message the turn: it is ready, or waits for its time.
#[derive(Debug)]
struct Unblock {
    spot: Cell<Option<Spot>>,
}

impl Revise for Unblock {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        self.spot.set(None);
        let Some(old) = old.filter(|old| number(old.first()) == BLOCKED.unsigned_abs()) else { return Revision::Keep };
        let due = old.get(2).cloned().unwrap_or(Param::Null);
        let state = if due == Param::Null { READY } else { DELAYED };
        let priority = old.get(1).cloned().unwrap_or(Param::Null);
        self.spot.set(u32::try_from(number(Some(&priority))).ok().map(|priority| Spot { state, priority }));
        Revision::Put(vec![Param::Int(state), priority, due])
    }
}

/// Lets a dead message wait again as if it had never failed.
#[derive(Debug)]
struct Resend {
    state: i64,
    from: Cell<Option<Spot>>,
}

impl Revise for Resend {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        let dead = old.filter(|old| number(old.first()) == DEAD.unsigned_abs());
        self.from.set(dead.and_then(spot_of));
        let Some(old) = dead else { return Revision::Keep };
        let priority = old.get(1).cloned().unwrap_or(Param::Null);
        Revision::Put(vec![Param::Int(self.state), priority, Param::Null, Param::Uint(0)])
    }
}

/// What counts of a message with an ordering key.
#[derive(Debug)]
pub(super) struct Keyed {
    pub(super) spot: Spot,
    pub(super) queue: String,
    pub(super) key: Bytes,
}

impl Keyed {
    /// By a row of state, priority, queue and key. `None` for a message without a key.
    pub(super) fn of(row: &[Param]) -> Option<Self> {
        let queue = String::from_utf8_lossy(&bytes(row.get(2))?).into_owned();
        Some(Keyed { spot: spot_of(row)?, queue, key: bytes(row.get(3))? })
    }
}

/// Of a table with the filter column `ordering_key` behind `state` the rows without one.
pub(super) fn without_key() -> Filter<'static> {
    Filter { column: 1, test: Test::Compares(Comparison::Equal), value: Value::Null, otherwise: Otherwise::Stop }
}

/// Takes the turn of a key, in the session's transaction; answers whether nobody had it.
///
/// # Errors
/// Those of the statement.
pub(super) async fn take_turn(open: &mut Open, queue: &str, key: &[u8]) -> Result<bool, QueryError> {
    let tables = open.tables.clone();
    let take = Take { queue, key, is_ours: Cell::new(false) };
    let row = [Value::Bytes(queue.as_bytes()), Value::Bytes(key)];
    let taking = Request::Revise(Rows::with_key(&row), &take);
    open.session.run_request(&tables.turns, &taking, &mut Gather::default()).await?;
    Ok(take.is_ours.get())
}

/// Gives a turn back that was taken for nothing.
///
/// # Errors
/// Those of the statement.
pub(super) async fn give_turn_back(open: &mut Open, queue: &str, key: &[u8]) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    let row = [Value::Bytes(queue.as_bytes()), Value::Bytes(key)];
    let delete = Request::Delete(Rows::with_key(&row), Answer::Number);
    open.session.run_request(&tables.turns, &delete, &mut Gather::default()).await
}

/// A message waits behind the one that has the turn.
///
/// # Errors
/// Those of the statement.
pub(super) async fn block(open: &mut Open, queue: &str, key: &[u8], id: u64) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    let row = [Value::Bytes(queue.as_bytes()), Value::Bytes(key), Value::Uint(id)];
    let insert = Request::Insert(&row, OnDuplicate::Keep);
    open.session.run_request(&tables.blocked, &insert, &mut Gather::default()).await
}

/// A message is not where it was any more, but gone or dead: what that means to others of its key, in the same transaction.
///
/// # Errors
/// Those of the statements.
pub(super) async fn ended(
    open: &mut Open,
    id: u64,
    Keyed { spot, queue, key }: &Keyed,
    changing: &mut Changing<'_>,
) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    let row = [Value::Bytes(queue.as_bytes()), Value::Bytes(key), Value::Uint(id)];
    match spot.state {
        READY | DELAYED => pass_turn(open, queue, key, changing).await,
        BLOCKED => {
            let delete = Request::Delete(Rows::with_key(&row), Answer::Number);
            open.session.run_request(&tables.blocked, &delete, &mut Gather::default()).await
        }
        _ => Ok(()),
    }
}

/// The turn passes on to the next message of a key.
async fn pass_turn(open: &mut Open, queue: &str, key: &[u8], changing: &mut Changing<'_>) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    let first = [Value::Bytes(queue.as_bytes()), Value::Bytes(key), Value::Uint(0)];
    let lock = Request::Revise(Rows::with_key(&first[..2]), &Lock);
    open.session.run_request(&tables.turns, &lock, &mut Gather::default()).await?;
    let test = Test::Compares(Comparison::Equal);
    let same = |column: usize| Filter { column, test, value: first[column], otherwise: Otherwise::Stop };
    let filters = [same(0), same(1)];
    loop {
        // The number is taken off the list at once: a look alone would not see what others have just committed.
        let rows = Rows { filters: &filters, limit: 1, ..Rows::new(Comparison::Greater, &first) };
        let mut next = Gather::default();
        open.session.run_request(&tables.blocked, &Request::Delete(rows, Answer::OldRows), &mut next).await?;
        let Some(id) = next.rows.first().map(|row| number(row.get(2))) else {
            return give_turn_back(open, queue, key).await;
        };
        let unblock = Unblock { spot: Cell::new(None) };
        let message = [Value::Uint(id)];
        let turning = Request::Revise(Rows::with_key(&message), &unblock);
        open.session.run_request(&tables.unblock, &turning, &mut Gather::default()).await?;
        let Some(spot) = unblock.spot.get() else { continue };
        changing.moved(queue, Some(Spot { state: BLOCKED, ..spot }), Some(spot));
        changing.comes(queue, Place { priority: spot.priority, id }, spot.state);
        return Ok(());
    }
}

impl Store {
    /// Deletes messages of queues with which a change has begun, those in one state if there is one; answers which of them were there.
    ///
    /// # Errors
    /// Storage errors; some may be deleted then.
    pub(super) async fn end_messages(
        &self,
        ids: &[u64],
        state: Option<Filter<'_>>,
        changing: &mut Changing<'_>,
    ) -> Result<Vec<bool>, StoreError> {
        let keys: Vec<[Value<'_>; 1]> = ids.iter().map(|id| [Value::Uint(*id)]).collect();
        let filters: Vec<Filter<'_>> = state.into_iter().chain([without_key()]).collect();
        let open = self.open().await?;
        let tables = open.tables.clone();
        let rows = |key| Rows { filters: &filters, ..Rows::with_key(key) };
        let requests: Vec<_> =
            keys.iter().map(|key| (&tables.end, Request::Delete(rows(key), Answer::OldRows))).collect();
        let deleted = self.carry_out(open, &requests).await?;
        for row in &deleted.rows {
            changing.moved(&String::from_utf8_lossy(&bytes(row.get(2)).unwrap_or_default()), spot_of(row), None);
        }
        let gone: HashSet<u64> = deleted.rows.iter().map(|row| number(row.get(5))).collect();
        let mut ended: Vec<bool> = ids.iter().map(|id| gone.contains(id)).collect();
        let left: Vec<usize> = (0..ids.len()).filter(|at| !ended[*at]).collect();
        if left.is_empty() || self.keyed_of(ids).await?.is_empty() {
            return Ok(ended);
        }
        let mut open = self.open().await?;
        let mut of_keys = Vec::new();
        execute(&mut open.session, b"BEGIN").await?;
        for at in left {
            let key = [Value::Uint(ids[at])];
            let rows = Rows { filters: state.as_slice(), ..Rows::with_key(&key) };
            let mut deleted = Gather::default();
            open.session.run_request(&tables.end, &Request::Delete(rows, Answer::OldRows), &mut deleted).await?;
            let Some(keyed) = deleted.rows.first().and_then(|row| Keyed::of(row)) else { continue };
            changing.moved(&keyed.queue, Some(keyed.spot), None);
            super::ordering::ended(&mut open, ids[at], &keyed, changing).await?;
            of_keys.push(at);
        }
        execute(&mut open.session, b"COMMIT").await?;
        self.give_back(open);
        of_keys.into_iter().for_each(|at| ended[at] = true);
        Ok(ended)
    }

    /// Those of messages that have keys.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn keyed_of(&self, ids: &[u64]) -> Result<Vec<u64>, StoreError> {
        let values: Vec<Value<'_>> = ids.iter().map(|id| Value::Uint(*id)).collect();
        let each = Some(tidegate_sql::table::Each { part: 0, values: &values });
        let rows = Rows { each, ..Rows::with_key(&[Value::Null]) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.keys, Request::Find(rows))]).await?;
        let keyed = found.rows.iter().filter(|row| bytes(row.get(1)).is_some());
        Ok(keyed.map(|row| number(row.first())).collect())
    }

    /// Lets a dead message of a queue wait again that may have a key; answers whether it was dead.
    ///
    /// # Errors
    /// Those of statements: then nothing has changed.
    pub(super) async fn resend_keyed(
        &self,
        queue: &str,
        place: Place,
        changing: &mut Changing<'_>,
    ) -> Result<bool, StoreError> {
        let mut open = self.open().await?;
        let tables = open.tables.clone();
        let id = [Value::Uint(place.id)];
        execute(&mut open.session, b"BEGIN").await?;
        let mut found = Gather::default();
        open.session.run_request(&tables.keys, &Request::Find(Rows::with_key(&id)), &mut found).await?;
        let Some(key) = found.rows.first().and_then(|row| bytes(row.get(1))) else { return Ok(false) };
        let has_turn = take_turn(&mut open, queue, &key).await?;
        let state = if has_turn { READY } else { BLOCKED };
        let resend = Resend { state, from: Cell::new(None) };
        let sending = Request::Revise(Rows::with_key(&id), &resend);
        open.session.run_request(&tables.resend, &sending, &mut Gather::default()).await?;
        let Some(from) = resend.from.get() else { return Ok(false) };
        if !has_turn {
            block(&mut open, queue, &key, place.id).await?;
        }
        execute(&mut open.session, b"COMMIT").await?;
        self.give_back(open);
        let to = Spot { state, ..from };
        changing.moved(queue, Some(from), Some(to));
        changing.comes(queue, place, state);
        Ok(true)
    }

    /// Forgets the order of a queue without messages.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn forget_order(&self, queue: &str) -> Result<(), StoreError> {
        let key = [Value::Bytes(queue.as_bytes())];
        let rows = Rows::with_key(&key);
        let open = self.open().await?;
        let tables = open.tables.clone();
        let requests = [
            (&tables.blocked, Request::Delete(rows, Answer::Number)),
            (&tables.turns, Request::Delete(rows, Answer::Number)),
        ];
        self.carry_out(open, &requests).await.map(drop)
    }
}
