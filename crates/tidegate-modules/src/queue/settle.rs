//! What becomes of messages that consumers have had: they are done, or have failed.

use std::cell::{Cell, RefCell};

use bytes::Bytes;
use tidegate_queue::Settling;
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::table::{Request, Revise, Revision, Rows};

use super::{
    counts::{Changing, Spot},
    gather::{Gather, bytes, number},
    ordering::{Keyed, ended},
    store::{Open, Store, StoreError},
    tables::{DEAD, DELAYED, READY},
    time_of_day,
};
use crate::database::schemas::execute;

/// Bytes of a reason that are kept, at most; the table has room for as many characters.
pub(super) const REASON_BYTES_MAX: usize = 1000;

/// Where a message is that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    Gone,
    Waits,
    Later,
    Dead,
}

/// What a failure does to a message: a step that no other writer comes into.
#[derive(Debug)]
struct Failure<'a> {
    attempts_max: u64,
    due_ms: Option<u64>,
    reason: Option<&'a str>,
    decided: Cell<Failed>,
    /// It has a time to live.
    expires: Cell<bool>,
    ordering_key: RefCell<Option<Bytes>>,
}

impl Revise for Failure<'_> {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        let Some(old) = old.filter(|old| number(old.first()) == READY.unsigned_abs()) else {
            self.decided.set(Failed::Gone);
            return Revision::Keep;
        };
        let attempts = number(old.get(2)).saturating_add(1).min(u32::MAX.into());
        let is_dead = self.attempts_max > 0 && attempts >= self.attempts_max;
        let (state, failed) = match self.due_ms {
            _ if is_dead => (DEAD, Failed::Dead),
            Some(_) => (DELAYED, Failed::Later),
            None => (READY, Failed::Waits),
        };
        self.decided.set(failed);
        let kept = |column: usize| old.get(column).cloned().unwrap_or(Param::Null);
        let due = self.due_ms.filter(|_| !is_dead).map_or(Param::Null, Param::Uint);
        let reason = self.reason.map_or_else(|| kept(3), |reason| Param::Bytes(reason.to_owned().into()));
        // A dead message does not keep others with its key out.
        let unique_key = if is_dead { Param::Null } else { kept(4) };
        let expires = kept(5);
        self.expires.set(number(Some(&expires)) != 0);
        let ordering_key = kept(6);
        *self.ordering_key.borrow_mut() = bytes(Some(&ordering_key));
        Revision::Put(vec![Param::Int(state), due, Param::Uint(attempts), reason, unique_key, expires, ordering_key])
    }
}

/// A failure of the message with this key.
type OfMessage<'a> = ([Value<'a>; 1], Failure<'a>);

impl Store {
    /// Messages are done, with empty results: they are deleted.
    ///
    /// # Errors
    /// Storage errors. The leases go on.
    pub(super) async fn acknowledge(&self, settling: Vec<Settling>) -> Result<(), StoreError> {
        self.acknowledge_with(settling, &Bytes::new()).await
    }

    /// Messages of a queue have failed: they wait again, at once or later, or are dead.
    ///
    /// # Errors
    /// Storage errors. The leases go on.
    pub(super) async fn fail(
        &self,
        queue: &str,
        settling: Vec<Settling>,
        delay_ms: u64,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let attempts_max = self.settings(queue).await?.attempts_max;
        let due_ms = (delay_ms > 0).then(|| time_of_day::now_ms().saturating_add(delay_ms));
        let failures: Vec<_> = settling
            .iter()
            .map(|settling| {
                let failure = Failure {
                    attempts_max,
                    due_ms,
                    reason,
                    decided: Cell::new(Failed::Gone),
                    expires: Cell::new(false),
                    ordering_key: RefCell::default(),
                };
                ([Value::Uint(settling.place().id)], failure)
            })
            .collect();
        // A dead message lets the turn of its key pass on in the same transaction.
        let may_pass_on = attempts_max > 0 && !settling.iter().all(Settling::is_plain);
        let mut changing = self.with_room(async || self.store_failures(queue, &failures, may_pass_on).await).await?;
        for (settling, (_, failure)) in settling.iter().zip(&failures) {
            let spot = |state| Spot { state, priority: settling.place().priority };
            let to = match failure.decided.get() {
                Failed::Later => DELAYED,
                Failed::Dead => DEAD,
                Failed::Gone | Failed::Waits => continue,
            };
            changing.moved(queue, Some(spot(READY)), Some(spot(to)));
        }
        changing.certain();
        for (settling, (_, failure)) in settling.into_iter().zip(&failures) {
            match failure.decided.get() {
                Failed::Waits => settling.back(),
                Failed::Later => {
                    settling.gone();
                    self.home.due_changed.notify_one();
                }
                Failed::Gone | Failed::Dead => {
                    let id = settling.place().id;
                    settling.gone();
                    self.home.waiters.tell([id]);
                }
            }
            if failure.expires.get() {
                // Behind the end of the lease: the keeper leaves messages alone that somebody has.
                self.home.due_changed.notify_one();
            }
        }
        Ok(())
    }

    /// Stores failures; answers the change, of which the counts have to hear.
    async fn store_failures(
        &self,
        queue: &str,
        failures: &[OfMessage<'_>],
        may_pass_on: bool,
    ) -> Result<Changing<'_>, StoreError> {
        let mut open = self.open().await?;
        let tables = open.tables.clone();
        let mut changing = self.changing([queue]).await;
        if !may_pass_on {
            let requests: Vec<_> = failures
                .iter()
                .map(|(key, failure)| (&tables.fail, Request::Revise(Rows::with_key(key), failure)))
                .collect();
            self.carry_out(open, &requests).await?;
            return Ok(changing);
        }
        if let Err(error) = fail_with_keys(&mut open, queue, failures, &mut changing).await {
            let error = error.into();
            self.failed(&error, changing);
            return Err(error);
        }
        self.give_back(open);
        Ok(changing)
    }
}

/// Stores failures, and lets the turns of the keys of dead messages pass on, in a transaction.
async fn fail_with_keys(
    open: &mut Open,
    queue: &str,
    failures: &[OfMessage<'_>],
    changing: &mut Changing<'_>,
) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    execute(&mut open.session, b"BEGIN").await?;
    for (key, failure) in failures {
        let failing = Request::Revise(Rows::with_key(key), failure);
        open.session.run_request(&tables.fail, &failing, &mut Gather::default()).await?;
        let ordering_key = failure.ordering_key.take();
        if let (Failed::Dead, Some(ordering_key), [Value::Uint(id)]) = (failure.decided.get(), ordering_key, key) {
            let spot = Spot { state: READY, priority: 0 };
            ended(open, *id, &Keyed { spot, queue: queue.to_owned(), key: ordering_key }, changing).await?;
        }
    }
    execute(&mut open.session, b"COMMIT").await
}
