//! What is done with whole queues: statistics, settings, emptying, messages that have failed too often.

use std::{io::Write, rc::Rc};

use tidegate_core::phase::Step;
use tidegate_queue::{Counts, Place};
use tidegate_rows::{Param, Value};
use tidegate_sql::table::{Answer, Change, Comparison, Each, Filter, Otherwise, Request, Rows, Test};

use super::{
    answer::{Refused, send, write_list, write_message},
    api::{Call, Failure, count},
    counts::{Count, Spot},
    gather::{bytes, number},
    limits::Overflow,
    message::time_ms,
    ordering::without_key,
    store::{Store, StoreError},
    subscriptions::{SubscribeError, queue_of},
    tables::{BLOCKED, DEAD, DELAYED, READY},
};

/// Messages that share a commit, and that one answer lists.
const TOGETHER_MAX: usize = 256;
/// Queues of one answer, where nothing is said.
const LISTED: usize = 100;
/// Queues of one answer.
const LISTED_MAX: usize = 1000;
/// Numbers of dead messages in one request.
const IDS_MAX: usize = 1000;
/// The longest limit of a queue: what all systems count up to.
const LENGTH_MAX: usize = u32::MAX as usize;
/// No message has a higher number: those are counted from 1 by the database.
const NUMBER_MAX: u64 = i64::MAX as u64;

/// `GET`, without a name
pub(super) async fn list(call: Call) -> Result<Step, Failure> {
    let (mut after, mut max) = (String::new(), LISTED);
    call.each_param(|name, value| {
        match name {
            "after" => value.clone_into(&mut after),
            "max" => max = count(name, value, LISTED_MAX)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let queues = call.store.queues().await.map_err(|error| Refused::of_store(&call.req, &error))?;
    let begin = queues.partition_point(|(queue, _)| *queue <= after);
    let mut out = b"{\"queues\":".to_vec();
    write_list(queues[begin..].iter().take(max), &mut out, |(queue, count), out| {
        let _ = write!(out, "{{{}}}", counted(queue, count, call.store.broker().counts(queue).leased));
    });
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// What is told of every queue, as members of an object: its name, and how many messages it has, of which consumers have so many.
fn counted(queue: &str, count: &Count, leased: usize) -> String {
    let Count { ready, delayed, blocked, dead, .. } = count;
    let ready = ready.saturating_sub(leased as u64);
    // Tubes have other characters in their names than the API allows.
    let queue = serde_json::Value::from(queue);
    format!(
        "\"queue\":{queue},\"ready\":{ready},\"leased\":{leased},\"delayed\":{delayed},\"blocked\":{blocked},\"dead\":{dead}"
    )
}

/// `GET NAME`
pub(super) async fn statistics(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let told = tell(&call).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, told.into_bytes()).await)
}

async fn tell(call: &Call) -> Result<String, StoreError> {
    let settings = call.store.settings(&call.queue).await?;
    let limits = call.store.limits(&call.queue).await?;
    let count = call.store.count(&call.queue).await?;
    let Counts { waiting_consumers, leased } = call.store.broker().counts(&call.queue);
    let counted = counted(&call.queue, &count, leased);
    Ok(format!(
        "{{{counted},\"waiting_consumers\":{waiting_consumers},\"paused\":{},\"attempts_max\":{},\"subscribers_only\":{},\
         \"length_max\":{},\"age_max_ms\":{},\"overflow\":\"{}\"}}\n",
        settings.is_paused,
        settings.attempts_max,
        settings.subscribers_only,
        limits.length_max,
        limits.age_max_ms,
        limits.overflow.name(),
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
            ("length_max", "default") => settings.length_max = None,
            ("length_max", "0") => settings.length_max = Some(0),
            ("length_max", _) => settings.length_max = Some(count(name, value, LENGTH_MAX)? as u64),
            ("age_max", "default") => settings.age_max_ms = None,
            ("age_max", _) => settings.age_max_ms = Some(time_ms(name, value)?),
            ("overflow", "default") => settings.overflow = None,
            ("overflow", _) => settings.overflow = Some(overflow(value)?),
            ("attempts_max", "0") => settings.attempts_max = 0,
            ("attempts_max", _) => settings.attempts_max = count(name, value, 1_000_000)? as u64,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    call.store.set(&call.queue, settings).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    statistics(Call { params: Vec::new(), ..call }).await
}

fn overflow(value: &str) -> Result<Overflow, Refused> {
    let words = "\"overflow\" is none of \"reject\", \"drop_oldest\", \"dead_letter\" and \"default\"";
    Overflow::of(value.as_bytes()).ok_or_else(|| Refused::bad(words))
}

/// `DELETE NAME`
pub(super) async fn purge(call: Call) -> Result<Step, Failure> {
    call.each_param(|_, _| Ok(false))?;
    let purged = async {
        Ok::<_, StoreError>(
            // In this order: none of those that are blocked gets a turn by the end of another one.
            call.store.delete_all(&call.queue, BLOCKED).await?
                + call.store.delete_all(&call.queue, READY).await?
                + call.store.delete_all(&call.queue, DELAYED).await?,
        )
    };
    let deleted = purged.await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, format!("{{\"deleted\":{deleted}}}\n").into_bytes()).await)
}

/// `DELETE NAME/dead`
pub(super) async fn purge_dead(call: Call) -> Result<Step, Failure> {
    let ids = ids(&call)?;
    let deleted = match ids.is_empty() {
        true => call.store.delete_all(&call.queue, DEAD).await,
        false => call.store.delete_dead(&call.queue, &ids).await,
    };
    let deleted = deleted.map_err(|error| Refused::of_store(&call.req, &error))?;
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
        call.store.read_for_answer(&call.queue, DEAD, &ids).await
    };
    let found: Result<_, StoreError> = found.await;
    let messages = found.map_err(|error| Refused::of_store(&call.req, &error))?;
    let mut out = b"{\"messages\":".to_vec();
    write_list(messages.iter().flatten(), &mut out, |message, out| write_message(message, None, out));
    out.extend_from_slice(b"}\n");
    Ok(send(&call.req, 200, out).await)
}

/// `POST NAME/dead/resend`
pub(super) async fn resend(call: Call) -> Result<Step, Failure> {
    let ids = ids(&call)?;
    let resent =
        call.store.resend_dead(&call.queue, &ids).await.map_err(|error| Refused::of_store(&call.req, &error))?;
    Ok(send(&call.req, 200, format!("{{\"resent\":{resent}}}\n").into_bytes()).await)
}

/// The parameters `id`: numbers of messages, none of them twice. Without any all messages are meant.
fn ids(call: &Call) -> Result<Vec<u64>, Refused> {
    let mut ids = Vec::new();
    call.each_param(|name, value| {
        if name != "id" {
            return Ok(false);
        }
        let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
        let id = value.parse().ok().filter(|_| is_plain);
        ids.push(id.ok_or_else(|| Refused::bad(format!("\"id\" is no number of a message: {value:?}")))?);
        if ids.len() > IDS_MAX {
            return Err(Refused::bad(format!("there are more than {IDS_MAX} numbers")));
        }
        Ok(true)
    })?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Where to go on behind these messages, of which those that are newer than `newest` do not count: the next priority, when such ones
/// are all that is left of this one. Otherwise it would never end where messages come fast enough.
fn following(places: &[Place], last: Place, newest: u64) -> Place {
    let is_passed = places.iter().any(|place| place.priority == last.priority && place.id > newest);
    if is_passed { Place { id: NUMBER_MAX, ..last } } else { last }
}

/// Of a table with the filter column `state` the rows in this one.
pub(super) fn in_state(state: i64) -> Filter<'static> {
    let test = Test::Compares(Comparison::Equal);
    Filter { column: 0, test, value: Value::Int(state), otherwise: Otherwise::Stop }
}

impl Store {
    /// How many messages a queue has.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn count(&self, queue: &str) -> Result<Count, StoreError> {
        // Whoever opens the tables first counts.
        self.give_back(self.open().await?);
        Ok(self.home.counts.of(queue))
    }

    /// The queues that have messages, by their names, and how many.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn queues(&self) -> Result<Vec<(String, Count)>, StoreError> {
        // Whoever opens the tables first counts.
        self.give_back(self.open().await?);
        Ok(self.home.counts.queues())
    }

    /// The highest number that a message has; 0 if there is none.
    async fn newest(&self) -> Result<u64, StoreError> {
        let key = [Value::Uint(NUMBER_MAX)];
        let rows = Rows { limit: 1, ..Rows::new(Comparison::AtMost, &key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.keys, Request::Find(rows))]).await?;
        Ok(found.rows.first().map_or(0, |row| number(row.first())))
    }

    /// The places of those of these messages that are in a state of a queue.
    async fn places_of(&self, queue: &str, state: i64, ids: &[u64]) -> Result<Vec<Place>, StoreError> {
        let values: Vec<Value<'_>> = ids.iter().map(|id| Value::Uint(*id)).collect();
        let rows = Rows { each: Some(Each { part: 0, values: &values }), ..Rows::with_key(&[Value::Null]) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.end, Request::Find(rows))]).await?;
        let place = |row: &Vec<Param>| {
            let is_it = number(row.first()) == state.unsigned_abs()
                && bytes(row.get(2)).is_some_and(|name| name == queue.as_bytes());
            let priority = u32::try_from(number(row.get(1))).ok().filter(|_| is_it)?;
            Some(Place { priority, id: number(row.get(5)) })
        };
        Ok(found.rows.iter().filter_map(place).collect())
    }

    /// Deletes the messages in a state that nobody has and that are there now.
    ///
    /// # Errors
    /// Storage errors; some may be deleted then.
    pub(super) async fn delete_all(&self, queue: &str, state: i64) -> Result<u64, StoreError> {
        self.delete_where(queue, state, |place| !self.broker().is_leased(place.id)).await
    }

    /// Deletes those of these messages that are dead, and that nobody has.
    ///
    /// # Errors
    /// Storage errors; some may be deleted then.
    pub(super) async fn delete_dead(&self, queue: &str, ids: &[u64]) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for together in ids.chunks(TOGETHER_MAX) {
            let places = self.places_of(queue, DEAD, together).await?;
            let free: Vec<u64> =
                places.iter().map(|place| place.id).filter(|id| !self.broker().is_leased(*id)).collect();
            deleted += self.with_room(async || self.delete_together(queue, DEAD, &free).await).await?;
            self.home.waiters.tell(free);
        }
        Ok(deleted)
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
        let newest = self.newest().await?;
        loop {
            let places = self.places(queue, state, after, TOGETHER_MAX as u64).await?;
            let Some(last) = places.last() else { return Ok(deleted) };
            after = Some(following(&places, *last, newest));
            let is_wanted = |place: &&Place| place.id <= newest && is_wanted(place);
            let free: Vec<u64> = places.iter().filter(is_wanted).map(|place| place.id).collect();
            deleted += self.with_room(async || self.delete_together(queue, state, &free).await).await?;
            self.home.waiters.tell(places.iter().map(|place| place.id));
        }
    }

    /// Deletes those of these messages that are in a state; one that is in another state meanwhile is another one's. A turn passes on.
    async fn delete_together(&self, queue: &str, state: i64, ids: &[u64]) -> Result<u64, StoreError> {
        let mut changing = self.changing([queue]).await;
        match self.end_messages(ids, Some(in_state(state)), &mut changing).await {
            Ok(ended) => {
                changing.certain();
                Ok(ended.into_iter().filter(|ended| *ended).count() as u64)
            }
            Err(error) => {
                drop(changing);
                Err(error)
            }
        }
    }

    /// Lets all dead messages of a queue wait again, as if they had never failed; only those of these numbers, if there are any. It
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
        let mut resent = 0;
        for together in only.chunks(TOGETHER_MAX) {
            let places = self.places_of(queue, DEAD, together).await?;
            resent += self.resend_places(queue, &places).await?;
        }
        if !only.is_empty() {
            return Ok(resent);
        }
        let mut after: Option<Place> = None;
        let newest = self.newest().await?;
        loop {
            let mut places = self.places(queue, DEAD, after, TOGETHER_MAX as u64).await?;
            let Some(last) = places.last() else { return Ok(resent) };
            after = Some(following(&places, *last, newest));
            places.retain(|place| place.id <= newest);
            resent += self.resend_places(queue, &places).await?;
        }
    }

    /// Lets messages wait again that are dead; answers how many are not any more.
    async fn resend_places(&self, queue: &str, places: &[Place]) -> Result<u64, StoreError> {
        let keys: Vec<[Value<'_>; 1]> = places.iter().map(|place| [Value::Uint(place.id)]).collect();
        let filters = [in_state(DEAD), without_key()];
        let changes = [Change::Set(Value::Int(READY)), Change::Set(Value::Null), Change::Set(Value::Int(0))];
        let rows = |key| Rows { filters: &filters, ..Rows::with_key(key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let requests: Vec<_> =
            keys.iter().map(|key| (&tables.fail, Request::Update(rows(key), &changes, Answer::Number))).collect();
        let mut changing = self.changing([queue]).await;
        let ended = self.carry_out(open, &requests).await?.ended;
        let is_sent = |(place, ended): (&'_ Place, _)| matches!(ended, &Ok(1..)).then_some(*place);
        let sent: Vec<Place> = places.iter().zip(&ended).filter_map(is_sent).collect();
        let spot = |state, place: &Place| Some(Spot { state, priority: place.priority });
        sent.iter().for_each(|place| changing.moved(queue, spot(DEAD, place), spot(READY, place)));
        changing.certain();
        sent.iter().for_each(|place| self.broker().waits(queue, *place));
        let mut resent = sent.len() as u64;
        let left: Vec<u64> =
            places.iter().map(|place| place.id).filter(|id| !sent.iter().any(|one| one.id == *id)).collect();
        let keyed = if left.is_empty() { left } else { self.keyed_of(&left).await? };
        for place in places.iter().filter(|place| keyed.contains(&place.id)) {
            resent += u64::from(self.with_room(async || self.resend_one(queue, *place).await).await?);
        }
        Ok(resent)
    }

    /// Lets a dead message of a key wait again; answers whether it was dead.
    async fn resend_one(&self, queue: &str, place: Place) -> Result<bool, StoreError> {
        let mut changing = self.changing([queue]).await;
        match self.resend_keyed(queue, place, &mut changing).await {
            Ok(is_sent) => {
                changing.certain();
                Ok(is_sent)
            }
            Err(error) => {
                self.failed(&error, changing);
                Err(error)
            }
        }
    }
}
