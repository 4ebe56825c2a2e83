//! Results: what a consumer has made of a message, kept for the publisher for a time.
//!
//! A message says how long its result is to be kept (`result_ms`). Who acknowledges it stores the result in the transaction that
//! deletes the message: there is the one or the other, whenever the server ends. Who waits for a result is in a list of all
//! workers, by the message's number, and is woken by whoever has committed something that ends the message or lets it die. It
//! looks at the tables itself then: being woken for nothing does no harm.

use std::{
    collections::HashMap,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tidegate_core::phase::Step;
use tidegate_http::Method;
use tidegate_net::clock;
use tidegate_queue::Settling;
use tidegate_rows::{Param, QueryError, Value};
use tidegate_sql::table::{Answer, Comparison, OnDuplicate, Request, Rows};
use tokio::sync::Notify;

use super::{
    answer::{Refused, send},
    api::{Call, Failure},
    counts::{Changing, Spot},
    gather::{Gather, bytes, number},
    message::{NewMessage, millis, time_ms},
    ordering::{Keyed, ended},
    store::{Open, Store, StoreError},
    tables::{DEAD, READY},
    time_of_day,
};
use crate::database::schemas::execute;

/// How long a result is kept for whoever waits for it and says nothing else.
const KEPT_MS: u64 = 60_000;
/// Results that are deleted in one commit.
const TOGETHER_MAX: usize = 256;
/// The field with the number of the message to which an answer belongs.
const NUMBER_FIELD: &str = "Queue-Message";

/// Those who wait for results, by the numbers of the messages.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<HashMap<u64, Arc<Notify>>>);

/// Somebody who waits for the end of a message, until it is dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    message: u64,
    woken: Arc<Notify>,
}

impl Waiters {
    fn wait_for(&self, message: u64) -> Waiter<'_> {
        let woken = self.lock().entry(message).or_default().clone();
        Waiter { waiters: self, message, woken }
    }

    /// Something was committed about these messages.
    pub(super) fn tell(&self, messages: impl IntoIterator<Item = u64>) {
        let waiting = self.lock();
        if waiting.is_empty() {
            return;
        }
        for woken in messages.into_iter().filter_map(|message| waiting.get(&message)) {
            woken.notify_waiters();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.lock();
        // The list's own, and this one.
        if Arc::strong_count(&self.woken) <= 2 {
            waiting.remove(&self.message);
        }
    }
}

/// Tells of messages when it is dropped: a commit that was broken off may have come about.
struct Telling<'a> {
    waiters: &'a Waiters,
    messages: Vec<u64>,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.waiters.tell(self.messages.drain(..));
    }
}

/// What there is of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The message is done, and this is its result.
    Done(Bytes),
    /// The message is not done.
    Waiting,
    /// The message has failed too often.
    Dead,
    /// There is no such message whose result is wanted, nor a result.
    Nowhere,
}

impl Store {
    /// A message is done: it is deleted, and its result stored if somebody wants it, together.
    ///
    /// # Errors
    /// Storage errors: nothing is stored then. The leases go on.
    pub(super) async fn acknowledge_with(&self, settling: Vec<Settling>, result: &Bytes) -> Result<(), StoreError> {
        let messages = settling.iter().map(|settling| settling.place().id).collect();
        let telling = Telling { waiters: &self.home.waiters, messages };
        // Of most messages nothing depends on the end: they share a commit with others.
        if settling.iter().all(Settling::is_plain) {
            self.delete_messages(&settling).await?;
        } else {
            self.with_room(async || self.finish(&settling, result).await).await?;
        }
        settling.into_iter().for_each(Settling::gone);
        drop(telling);
        Ok(())
    }

    async fn delete_messages(&self, settling: &[Settling]) -> Result<(), StoreError> {
        let keys: Vec<[Value<'_>; 1]> = settling.iter().map(|one| [Value::Uint(one.place().id)]).collect();
        let open = self.open().await?;
        let tables = open.tables.clone();
        let mut changing = self.changing(settling.iter().map(Settling::queue)).await;
        let requests: Vec<_> =
            keys.iter().map(|key| (&tables.read, Request::Delete(Rows::with_key(key), Answer::Number))).collect();
        let deleted = self.carry_out(open, &requests).await?;
        for (one, deleted) in settling.iter().zip(&deleted.ended) {
            if matches!(deleted, Ok(1..)) {
                changing.moved(one.queue(), Some(spot(one)), None);
            }
        }
        changing.certain();
        Ok(())
    }

    /// Deletes messages, stores the result of those that want one, and lets the turns of their keys pass on, in a transaction.
    async fn finish(&self, settling: &[Settling], result: &Bytes) -> Result<(), StoreError> {
        let mut open = self.open().await?;
        let mut changing = self.changing(settling.iter().map(Settling::queue)).await;
        // After an error the session is dropped, and the transaction with it.
        if let Err(error) = finish(&mut open, settling, result, &mut changing).await {
            let error = error.into();
            self.failed(&error, changing);
            return Err(error);
        }
        self.give_back(open);
        changing.certain();
        Ok(())
    }

    /// Waits for the result of a message of a queue or of its subscriptions. May be dropped.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn result(&self, queue: &str, id: u64, wait_ms: u64) -> Result<Outcome, StoreError> {
        let waiter = self.home.waiters.wait_for(id);
        let over = tokio::time::sleep(Duration::from_millis(wait_ms));
        tokio::pin!(over);
        let mut is_over = wait_ms == 0;
        loop {
            // Before the look: what is committed meanwhile is heard of.
            let woken = waiter.woken.notified();
            let outcome = self.look_for_result(queue, id).await?;
            if is_over || outcome != Outcome::Waiting {
                return Ok(outcome);
            }
            tokio::select! {
                biased;
                () = woken => {}
                () = &mut over => is_over = true,
            }
        }
    }

    async fn look_for_result(&self, queue: &str, id: u64) -> Result<Outcome, StoreError> {
        let key = [Value::Uint(id)];
        let is_of = |row: &&Vec<Param>| {
            let name = bytes(row.first()).unwrap_or_default();
            name.strip_prefix(queue.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"@"))
        };
        // In this order: a message that is not there any more has left its result.
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.wanted_results, Request::Find(Rows::with_key(&key)))]).await?;
        if let Some(row) = found.rows.first().filter(is_of) {
            return Ok(match number(row.get(1)) {
                _ if number(row.get(2)) == 0 => Outcome::Nowhere,
                state if state == DEAD.unsigned_abs() => Outcome::Dead,
                _ => Outcome::Waiting,
            });
        }
        let open = self.open().await?;
        let found = self.carry_out(open, &[(&tables.stored_results, Request::Find(Rows::with_key(&key)))]).await?;
        clock::update();
        let kept = found.rows.first().filter(is_of).filter(|row| number(row.get(1)) > time_of_day::now_ms());
        Ok(kept.map_or(Outcome::Nowhere, |row| Outcome::Done(bytes(row.get(2)).unwrap_or_default())))
    }
}

/// Deletes messages and stores results, in a transaction of the session.
async fn finish(
    open: &mut Open,
    settling: &[Settling],
    result: &[u8],
    changing: &mut Changing<'_>,
) -> Result<(), QueryError> {
    let tables = open.tables.clone();
    execute(&mut open.session, b"BEGIN").await?;
    for one in settling {
        let id = one.place().id;
        let (key, mut deleted) = ([Value::Uint(id)], Gather::default());
        let delete = Request::Delete(Rows::with_key(&key), Answer::OldRows);
        open.session.run_request(&tables.end, &delete, &mut deleted).await?;
        let Some(row) = deleted.rows.first() else { continue };
        changing.moved(one.queue(), Some(spot(one)), None);
        if let Some(keyed) = Keyed::of(row) {
            ended(open, id, &keyed, changing).await?;
        }
        if number(row.get(4)) == 0 {
            continue;
        }
        let (queue, now_ms) = (bytes(row.get(2)).unwrap_or_default(), time_of_day::now_ms());
        let expires_ms = now_ms.saturating_add(number(row.get(4)));
        let times = [Value::Uint(now_ms), Value::Uint(expires_ms)];
        let kept = [Value::Uint(id), Value::Bytes(&queue), times[0], times[1], Value::Bytes(result)];
        let insert = Request::Insert(&kept, OnDuplicate::Replace);
        open.session.run_request(&tables.results, &insert, &mut Gather::default()).await?;
    }
    execute(&mut open.session, b"COMMIT").await?;
    Ok(())
}

/// Where a message stands that a consumer has.
fn spot(settling: &Settling) -> Spot {
    Spot { state: READY, priority: settling.place().priority }
}

/// Deletes results that have been kept for their time. Answers the time until the next one's.
///
/// # Errors
/// Storage errors.
pub(super) async fn drop_expired(store: &Rc<Store>) -> Result<Option<Duration>, StoreError> {
    loop {
        let key = [Value::Int(0)];
        let rows = Rows { limit: TOGETHER_MAX as u64, ..Rows::new(Comparison::AtLeast, &key) };
        let open = store.open().await?;
        let tables = open.tables.clone();
        let found = store.carry_out(open, &[(&tables.expired_results, Request::Find(rows))]).await?;
        clock::update();
        let now_ms = time_of_day::now_ms();
        let over = found.rows.iter().take_while(|row| number(row.first()) <= now_ms);
        let keys: Vec<[Value<'_>; 1]> = over.map(|row| [Value::Uint(number(row.get(1)))]).collect();
        if keys.is_empty() {
            let next = found.rows.first();
            return Ok(next.map(|row| Duration::from_millis(number(row.first()).saturating_sub(now_ms))));
        }
        let open = store.open().await?;
        let requests: Vec<_> =
            keys.iter().map(|key| (&tables.results, Request::Delete(Rows::with_key(key), Answer::Number))).collect();
        store.carry_out(open, &requests).await?;
    }
}

/// Takes the parameters of a request that publishes one message; answers how long it waits for the answer, if it does.
///
/// # Errors
/// Those of the parameters.
pub(super) fn take_params(call: &Call, message: &mut NewMessage) -> Result<Option<u64>, Refused> {
    let mut wait_ms = None;
    call.each_param(|name, value| {
        if name == "wait" {
            wait_ms = Some(limited_wait(call, name, value)?);
            return Ok(true);
        }
        message.set(name, value)
    })?;
    if wait_ms.is_some() && message.result_ms.is_none() {
        message.result_ms = Some(KEPT_MS);
    }
    Ok(wait_ms)
}

fn limited_wait(call: &Call, name: &str, value: &str) -> Result<u64, Refused> {
    let max = millis(call.conf().wait_max());
    Ok(time_ms(name, value)?.min(max))
}

/// `GET NAME/results/ID`
///
/// # Errors
/// The client's, and storage errors.
pub(super) async fn get(call: Call, id: &str) -> Result<Step, Failure> {
    if !matches!(call.req.method.get(), Method::Get | Method::Head) {
        return Err(Refused::with(405, "another method is needed").into());
    }
    let is_plain = id.bytes().all(|byte| byte.is_ascii_digit());
    let id = id.parse().ok().filter(|_| is_plain);
    let id = id.ok_or_else(|| Refused::bad("a result has the number of its message"))?;
    let mut wait_ms = 0;
    call.each_param(|name, value| {
        if name == "wait" {
            wait_ms = limited_wait(&call, name, value)?;
        }
        Ok(name == "wait")
    })?;
    // A body would keep the connection from telling that the client leaves.
    call.body(0).await?;
    answer(call, id, wait_ms).await
}

/// Waits for a result, and sends it.
///
/// # Errors
/// Storage errors.
pub(super) async fn answer(call: Call, id: u64, wait_ms: u64) -> Result<Step, Failure> {
    let outcome = tokio::select! {
        biased;
        outcome = call.store.result(&call.queue, id, wait_ms) => outcome,
        () = call.req.client.closed() => return Ok(Step::Close),
    };
    let outcome = outcome.map_err(|error| Refused::of_store(&call.req, &error))?;
    call.req.response.borrow_mut().fields.append(NUMBER_FIELD.as_bytes(), id.to_string().as_bytes());
    match outcome {
        Outcome::Done(result) => {
            call.req.response.borrow_mut().content_type = b"application/octet-stream".to_vec();
            match call.req.send_complete(200, result).wait().await {
                Ok(()) => Ok(Step::Ok),
                Err(_) => Ok(Step::Close),
            }
        }
        Outcome::Waiting => Ok(send(&call.req, 202, format!("{{\"id\":{id},\"state\":\"waiting\"}}\n").into()).await),
        Outcome::Dead => Err(Refused::with(410, "the message has failed too often").into()),
        Outcome::Nowhere => Err(Refused::with(404, "there is no such message whose result is kept").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_and_leaves_nothing_behind() {
        let waiters = Waiters::default();
        let (first, second) = (waiters.wait_for(7), waiters.wait_for(7));
        let other = waiters.wait_for(8);
        {
            let woken = (first.woken.notified(), second.woken.notified());
            waiters.tell([6, 7]);
            woken.0.await;
            woken.1.await;
        }
        drop(first);
        assert_eq!(waiters.lock().len(), 2, "the second one still waits");
        drop(second);
        drop(other);
        assert!(waiters.lock().is_empty());
    }
}
