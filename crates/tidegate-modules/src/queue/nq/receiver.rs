//! `POST pull`: a receiver says what it has done, and gets the next messages.

use std::{collections::BTreeMap, rc::Rc, sync::atomic::Ordering, time::Duration};

use serde_json::Value as Json;
use tidegate_core::{phase::Step, request::Request};
use tidegate_rows::{Param, QueryError};
use tokio::time::Instant;

use super::{
    Failure, Options, check_number, check_person, check_queue, json,
    line::{InLines, What},
    newest::Newest,
    tables::Database,
};
use crate::queue::gather::number;

/// Messages of one queue in one answer.
const MESSAGES_MAX: u64 = 1000;
/// Results that are saved together.
const SAVE_TOGETHER: usize = 64;

/// What a receiver wants of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wanted {
    pub(super) start: Start,
    pub(super) max: u64,
    pub(super) retry_num: u64,
    pub(super) fail_timeout: Duration,
}

/// From where on a receiver wants messages, unless it is further already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    At(u64),
    /// -1: the last one.
    Last,
    /// -2: those that come from now on.
    New,
}

/// Results of a receiver for one queue, by the numbers of messages.
struct Outcomes<'a> {
    queue: &'a str,
    results: BTreeMap<u64, String>,
}

/// Saves results, and waits for messages if some are wanted. `None` if the time is over.
pub(super) async fn pull(
    req: &Rc<Request>,
    options: &Options,
    data: &Json,
    wait_max: Duration,
) -> Result<Option<Vec<u8>>, Failure> {
    let receiver = match data.get("receiver") {
        Some(Json::String(name)) => name.as_str(),
        None | Some(Json::Null | Json::Bool(false)) => return Err(Failure::bad("receiver name is required")),
        Some(_) => return Err(Failure::bad("bad parameter `receiver`")),
    };
    check_person("receiver", receiver)?;
    let timeout = seconds(data, "timeout")?.unwrap_or(options.timeout).min(wait_max);
    let (outcomes, mut wanted) = (outcomes(data)?, all_wanted(data, options)?);
    if outcomes.is_empty() && wanted.is_empty() {
        return Err(Failure::bad("queues or results are required"));
    }
    let mut database = Database::of(req.conf(), &options.schema)?;
    // Ahead of anything that waits: what is posted from now on is new.
    let newest_of = |(queue, wanted): &(&str, Wanted)| {
        let is_asked_for = wanted.start == Start::New;
        is_asked_for.then(|| Newest::of(&database, queue))
    };
    let newest: Vec<Option<Newest>> = wanted.iter().map(newest_of).collect();
    save(&mut database, receiver, outcomes).await?;
    if wanted.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let until = Instant::now() + timeout;
    let mut lines = InLines::new(&options.schema, receiver);
    tokio::select! {
        biased;
        found = wait(&mut database, &mut lines, &mut wanted, (&newest, until)) => found,
        () = req.client.closed() => Err(Failure::Step(Step::Close)),
    }
}

/// Looks for messages until there are some, or the time is over.
async fn wait(
    database: &mut Database,
    lines: &mut InLines,
    wanted: &mut [(&str, Wanted)],
    (newest, until): (&[Option<Newest>], Instant),
) -> Result<Option<Vec<u8>>, Failure> {
    for ((queue, wanted), newest) in wanted.iter_mut().zip(newest) {
        let Some(newest) = newest else { continue };
        let last = format!("SELECT id FROM {} ORDER BY id DESC LIMIT 1", database.table(queue, "msg"));
        let last = database.find(&last, &[]).await?;
        let last = last.first().map_or(0, |row| number(row.first()));
        wanted.start = Start::At(newest.last(last, database.messages_version(queue)) + 1);
    }
    database.rest();
    // Of several queues none gives a message again while another one has a new one.
    let looks: &[What] = if wanted.len() == 1 { &[What::Either] } else { &[What::Next, What::Again] };
    let mut found = Vec::new();
    for what in looks {
        for (queue, wanted) in &*wanted {
            let messages = lines.ask(database, queue, *what, *wanted).await?;
            if !messages.is_empty() {
                found.push((*queue, messages));
            }
        }
        if !found.is_empty() {
            return Ok(Some(json::messages(&found)));
        }
    }
    if until <= Instant::now() {
        return Ok(None);
    }
    let claim = lines.claim();
    let staying = lines.stay(database, wanted);
    tokio::pin!(staying);
    let (queue, messages) = tokio::select! {
        biased;
        found = &mut staying => found?,
        () = tokio::time::sleep_until(until) => {
            // A line that has claimed it is about to answer.
            if !claim.swap(true, Ordering::AcqRel) {
                return Ok(None);
            }
            staying.await?
        }
    };
    Ok(Some(json::messages(&[(queue.as_str(), messages)])))
}

/// Saves results, many with one commit.
async fn save(database: &mut Database, receiver: &str, outcomes: Vec<Outcomes<'_>>) -> Result<(), QueryError> {
    for Outcomes { queue, results } in outcomes {
        let table = database.table(queue, "rst");
        let results: Vec<(u64, String)> = results.into_iter().collect();
        for together in results.chunks(SAVE_TOGETHER) {
            let cases = " WHEN ? THEN ?".repeat(together.len());
            let places = vec!["?"; together.len()].join(",");
            let sql = format!(
                "UPDATE {table} SET status = 'finished', result = CASE m_id{cases} END \
                 WHERE receiver = ? AND m_id IN ({places})"
            );
            let named = |(id, result): &(u64, String)| [Param::Uint(*id), Param::Bytes(result.clone().into())];
            let mut params: Vec<Param> = together.iter().flat_map(named).collect();
            params.push(Param::Bytes(receiver.to_owned().into()));
            params.extend(together.iter().map(|(id, _)| Param::Uint(*id)));
            database.run(&sql, &params).await?;
        }
    }
    Ok(())
}

fn outcomes(data: &Json) -> Result<Vec<Outcomes<'_>>, Failure> {
    let queues = match data.get("results") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(queues)) => queues,
        Some(Json::Array(list)) if list.is_empty() => return Ok(Vec::new()),
        Some(_) => return Err(Failure::bad("bad parameter `results`")),
    };
    let mut outcomes = Vec::new();
    check_number(queues.len())?;
    for (queue, results) in queues {
        check_queue(queue)?;
        let Json::Object(told) = results else { return Err(Failure::bad("bad parameter `results`")) };
        let mut results = BTreeMap::new();
        for (id, result) in told {
            let is_plain = id.bytes().all(|byte| byte.is_ascii_digit());
            let number = id.parse().ok().filter(|_| is_plain);
            let id = number.ok_or_else(|| Failure::bad(format!("this is no number of a message: {id:?}")))?;
            let result = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
            results.insert(id, result);
        }
        outcomes.push(Outcomes { queue, results });
    }
    Ok(outcomes)
}

fn all_wanted<'a>(data: &'a Json, options: &Options) -> Result<Vec<(&'a str, Wanted)>, Failure> {
    let queues = match data.get("queues") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(queues)) => queues,
        Some(Json::Array(list)) if list.is_empty() => return Ok(Vec::new()),
        Some(_) => return Err(Failure::bad("bad parameter `queues`")),
    };
    check_number(queues.len())?;
    queues.iter().map(|(queue, params)| Ok((queue.as_str(), wanted(queue, params, options)?))).collect()
}

fn wanted(queue: &str, params: &Json, options: &Options) -> Result<Wanted, Failure> {
    check_queue(queue)?;
    let is_object = params.is_object() || params.as_array().is_some_and(Vec::is_empty);
    if !is_object {
        return Err(Failure::bad("bad parameter `queues`"));
    }
    let whole = |name: &str| match params.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            let value = value.as_i64().filter(|value| *value <= i64::from(u32::MAX));
            value.map(Some).ok_or_else(|| Failure::bad(format!("bad parameter `{name}`")))
        }
    };
    let start = match whole("start")?.unwrap_or(0) {
        -2 => Start::New,
        -1 => Start::Last,
        start => Start::At(u64::try_from(start).map_err(|_| Failure::bad("bad parameter `start`"))?),
    };
    let max = u64::try_from(whole("max")?.unwrap_or(1)).ok().filter(|max| *max > 0);
    let max = max.ok_or_else(|| Failure::bad("bad parameter `max`"))?.min(MESSAGES_MAX);
    let retry_num = match whole("retry_num")? {
        None => options.retry_num,
        Some(number) => u64::try_from(number).map_err(|_| Failure::bad("bad parameter `retry_num`"))?,
    };
    let fail_timeout = seconds(params, "fail_timeout")?.unwrap_or(options.fail_timeout);
    Ok(Wanted { start, max, retry_num, fail_timeout })
}

/// A time in seconds, with a fraction.
fn seconds(data: &Json, name: &str) -> Result<Option<Duration>, Failure> {
    /// Ten years; sums with the time of day stay far from overflow.
    const SECONDS_MAX: f64 = 10.0 * 365.0 * 24.0 * 3600.0;
    match data.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            let time = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds.min(SECONDS_MAX)).ok());
            time.map(Some).ok_or_else(|| Failure::bad(format!("bad parameter `{name}`")))
        }
    }
}
