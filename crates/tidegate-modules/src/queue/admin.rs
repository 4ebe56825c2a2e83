//! What is done with whole queues: statistics, settings, emptying, messages that have failed too often.

use std::rc::Rc;

use tidegate_core::phase::Step;
use tidegate_queue::{Counts, Place};
use tidegate_rows::{Execute, Param, Statement, Value};
use tidegate_sql::table::{Answer, Change, Request, Rows};

use super::{
    answer::{Refused, send, write_list, write_message},
    api::{Call, Failure, count},
    gather::{Gather, number},
    store::{Store, StoreError, Unsure},
    subscriptions::{SubscribeError, queue_of},
    tables::{DEAD, DELAYED, READY},
};

/// Messages that share a commit, and that one answer lists.
const TOGETHER_MAX: usize = 256;

/// `GET NAME`
pub(super) async fn statistics(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let told = tell(&call).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, told.into_bytes()).await)
}

async fn tell(call: &Call) -> Result<String, StoreError> {
    let settings = call.store.settings(&call.queue).await?;
    let sql = b"SELECT state, COUNT(*) FROM tidegate_queue.messages WHERE queue = ? GROUP BY state";
    let params = [Param::Bytes(call.queue.clone().into())];
    let mut open = call.store.open().await?;
    let mut counted = Gather::default();
    open.session.execute(Statement { sql, params: &params }, &mut counted).await?;
    call.store.give_back(open);
    let in_state = |state: i64| {
        let row = counted.rows.iter().find(|row| number(row.first()) == state.unsigned_abs());
        row.map_or(0, |row| number(row.get(1)))
    };
    let Counts { waiting_consumers, leased } = call.store.broker().counts(&call.queue);
    let queue = &call.queue;
    Ok(format!(
        "{{\"queue\":\"{queue}\",\"ready\":{},\"leased\":{leased},\"delayed\":{},\"dead\":{},\
         \"waiting_consumers\":{waiting_consumers},\"paused\":{},\"attempts_max\":{},\"subscribers_only\":{}}}\n",
        in_state(READY).saturating_sub(leased as u64),
        in_state(DELAYED),
        in_state(DEAD),
        settings.is_paused,
        settings.attempts_max,
        settings.subscribers_only,
    ))
}

/// `GET NAME/subscriptions`
pub(super) async fn subscriptions(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let names = call.store.subscriptions().await.map(|held| held.of(&call.queue).to_vec());
    let names = names.map_err(|error| Refused::of_store(&call.req, &error))?;
    let mut out = b"{\"subscriptions\":".to_vec();
    // Names have no characters that JSON writes in another way.
    write_list(names, &mut out, |name, out| out.extend_from_slice(described(&call.queue, &name).as_bytes()));
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// `POST NAME/subscriptions`
pub(super) async fn subscribe(call: Call) -> Result<Step, Failure> {
    let name = subscription_name(&call)?;
    match call.store.subscribe(&call.queue, &name).await {
        Ok(()) => Ok(send(&call.req, 200, format!("{}\n", described(&call.queue, &name)).into_bytes()).await),
        Err(SubscribeError::TooMany(message)) => Err(Refused::with(409, message).into()),
        Err(SubscribeError::Store(error)) => Err(Refused::of_store(&call.req, &error).into()),
    }
}

/// `DELETE NAME/subscriptions`
pub(super) async fn unsubscribe(call: Call) -> Result<Step, Failure> {
    let name = subscription_name(&call)?;
    let ended = call.store.unsubscribe(&call.queue, &name).await;
    if !ended.map_err(|error| Refused::of_store(&call.req, &error))? {
        return Err(Refused::with(404, format!("there is no subscription {name:?}")).into());
    }
    Ok(send(&call.req, 200, format!("{}\n", described(&call.queue, &name)).into_bytes()).await)
}

/// The parameter `name`, by which there can be a subscription.
fn subscription_name(call: &Call) -> Result<String, Refused> {
    let mut given = None;
    call.each_param(|name, value| {
        let is_name = name == "name";
        if is_name {
            given = Some(value.to_owned());
        }
        Ok(is_name)
    })?;
    let name = given.ok_or_else(|| Refused::bad("\"name\" is missing"))?;
    queue_of(&call.queue, &name).map(|_| name)
}

fn described(queue: &str, name: &str) -> String {
    format!("{{\"name\":\"{name}\",\"queue\":\"{queue}@{name}\"}}")
}

/// `PATCH NAME`
pub(super) async fn change_settings(call: Call) -> Result<Step, Failure> {
    let known = call.store.settings(&call.queue).await;
    let mut settings = known.map_err(|error| Refused::of_store(&call.req, &error))?;
    call.each_param(|name, value| {
        match (name, value) {
            ("paused", "true") => settings.is_paused = true,
            ("paused", "false") => settings.is_paused = false,
            ("paused", _) => return Err(Refused::bad("\"paused\" is neither \"true\" nor \"false\"")),
            ("subscribers_only", "true") => settings.subscribers_only = true,
            ("subscribers_only", "false") => settings.subscribers_only = false,
            ("subscribers_only", _) => {
                return Err(Refused::bad("\"subscribers_only\" is neither \"true\" nor \"false\""));
            }
            ("attempts_max", "0") => settings.attempts_max = 0,
            ("attempts_max", _) => settings.attempts_max = count(name, value, 1_000_000)? as u64,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    call.store.set(&call.queue, settings).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    statistics(Call { params: Vec::new(), ..call }).await
}

/// `DELETE NAME`
pub(super) async fn purge(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let purged = async {
        Ok::<_, StoreError>(
            call.store.delete_all(&call.queue, READY, &[]).await?
                + call.store.delete_all(&call.queue, DELAYED, &[]).await?,
        )
    };
    let deleted = purged.await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, format!("{{\"deleted\":{deleted}}}\n").into_bytes()).await)
}

/// `DELETE NAME/dead`
pub(super) async fn purge_dead(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let deleted =
        call.store.delete_all(&call.queue, DEAD, &[]).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, format!("{{\"deleted\":{deleted}}}\n").into_bytes()).await)
}

/// `GET NAME/dead`
pub(super) async fn dead(call: Call) -> Result<Step, Failure> {
    let mut max = 10;
    call.each_param(|name, value| {
        let is_max = name == "max";
        if is_max {
            max = count(name, value, TOGETHER_MAX)?;
        }
        Ok(is_max)
    })?;
    let found = async {
        let places = call.store.places(&call.queue, DEAD, None, max as u64).await?;
        let ids: Vec<u64> = places.iter().map(|place| place.id).collect();
        call.store.read(&call.queue, DEAD, &ids).await
    };
    let mut messages = found.await.map_err(|error| Refused::of_store(&call.req, &error))?;
    messages.sort_by_key(|message| (message.priority, message.id));
    let mut out = b"{\"messages\":".to_vec();
    write_list(&messages, &mut out, |message, out| write_message(message, None, out));
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// `POST NAME/dead/resend`
pub(super) async fn resend(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let resent =
        call.store.resend_dead(&call.queue, &[]).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, format!("{{\"resent\":{resent}}}\n").into_bytes()).await)
}

/// Whether a message is one of these numbers; no numbers mean all messages.
fn is_meant(only: &[u64], place: &Place) -> bool {
    only.is_empty() || only.contains(&place.id)
}

impl Store {
    /// Deletes the messages in a state that nobody has; only those of these numbers if there are any.
    ///
    /// # Errors
    /// Storage errors; some may be deleted then.
    pub(super) async fn delete_all(&self, queue: &str, state: i64, only: &[u64]) -> Result<u64, StoreError> {
        self.delete_where(queue, state, |place| is_meant(only, place) && !self.broker().is_leased(place.id)).await
    }

    /// Deletes the messages in a state of which `is_wanted` says so. The broker is not told: it notices that they are gone.
    ///
    /// # Errors
    /// Storage errors; some may be deleted then.
    pub(super) async fn delete_where(
        &self,
        queue: &str,
        state: i64,
        is_wanted: impl Fn(&Place) -> bool,
    ) -> Result<u64, StoreError> {
        let (mut after, mut deleted) = (None, 0);
        loop {
            let places = self.places(queue, state, after, TOGETHER_MAX as u64).await?;
            let Some(last) = places.last() else { return Ok(deleted) };
            after = Some(*last);
            let free: Vec<[Value<'_>; 1]> =
                places.iter().filter(|place| is_wanted(place)).map(|place| [Value::Uint(place.id)]).collect();
            let open = self.open().await?;
            let tables = open.tables.clone();
            let requests: Vec<_> =
                free.iter().map(|key| (&tables.read, Request::Delete(Rows::with_key(key), Answer::Number))).collect();
            deleted += self.carry_out(open, &requests).await?.changed()?;
            self.home.waiters.tell(places.iter().map(|place| place.id));
        }
    }

    /// Lets all dead messages of a queue wait again, as if they had never failed; only those of these numbers if there are any. It
    /// goes on when the future is dropped.
    ///
    /// # Errors
    /// Storage errors; some may wait again then.
    pub(super) async fn resend_dead(self: &Rc<Self>, queue: &str, only: &[u64]) -> Result<u64, StoreError> {
        let (store, queue, only) = (self.clone(), queue.to_owned(), only.to_vec());
        let resending = tokio::task::spawn_local(async move { store.resend_now(&queue, &only).await });
        resending.await.unwrap_or_else(|_| Err(StoreError::Unavailable("sending again was broken off".to_owned())))
    }

    async fn resend_now(&self, queue: &str, only: &[u64]) -> Result<u64, StoreError> {
        let (mut after, mut resent): (Option<Place>, u64) = (None, 0);
        let changes = [Change::Set(Value::Int(READY)), Change::Set(Value::Null), Change::Set(Value::Int(0))];
        loop {
            let places = self.places(queue, DEAD, after, TOGETHER_MAX as u64).await?;
            let Some(last) = places.last() else { return Ok(resent) };
            after = Some(*last);
            let meant = || places.iter().filter(|place| is_meant(only, place));
            let keys: Vec<[Value<'_>; 1]> = meant().map(|place| [Value::Uint(place.id)]).collect();
            let open = self.open().await?;
            let tables = open.tables.clone();
            let requests: Vec<_> = keys
                .iter()
                .map(|key| (&tables.fail, Request::Update(Rows::with_key(key), &changes, Answer::Number)))
                .collect();
            let unsure = Unsure::new(&self.home, queue);
            resent += self.carry_out(open, &requests).await?.changed()?;
            unsure.certain();
            meant().for_each(|place| self.broker().waits(queue, *place));
        }
    }
}
