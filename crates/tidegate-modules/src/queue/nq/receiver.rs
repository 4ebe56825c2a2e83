//! `POST pull`: a receiver says what it has done, and gets the next messages.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use serde_json::Value as Json;
use tidegate_core::{phase::Step, request::Request};
use tidegate_rows::{Param, QueryError, ServerError};
use tidegate_sql::{Commit, Heard, Listening};
use tokio::time::Instant;

use super::{
    Failure, Options, check_person, check_queue,
    json::{self, Message},
    tables::Database,
    turns::turn,
};
use crate::queue::gather::{bytes, number};

/// Messages of one queue in one answer.
const MESSAGES_MAX: u64 = 1000;
/// Messages that are read together.
const READ_TOGETHER: u64 = 16;
/// Results that are saved together.
const SAVE_TOGETHER: usize = 64;
/// When an answer has messages of so many bytes no more are read for it.
const ANSWER_BYTES: usize = 8 << 20;
/// How often somebody looks anew who finds that another one was faster.
const ATTEMPTS_MAX: u32 = 5;
/// MySQL's number for a key that another row has.
const DUPLICATE_KEY: u16 = 1062;

/// What a receiver wants of a queue.
#[derive(Debug, Clone, PartialEq)]
struct Wanted<'a> {
    queue: &'a str,
    start: Start,
    max: u64,
    retry_num: u64,
    fail_timeout: Duration,
}

/// From where on a receiver wants messages, unless it is further already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
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
    save(&mut database, receiver, outcomes).await?;
    if wanted.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let until = Instant::now() + timeout;
    tokio::select! {
        biased;
        found = wait(&mut database, &options.schema, receiver, &mut wanted, until) => found,
        () = req.client.closed() => Err(Failure::Step(Step::Close)),
    }
}

/// Looks for messages until there are some, or the time is over.
async fn wait(
    database: &mut Database,
    schema: &str,
    receiver: &str,
    wanted: &mut [Wanted<'_>],
    until: Instant,
) -> Result<Option<Vec<u8>>, Failure> {
    let names: Vec<String> = wanted.iter().map(|wanted| format!("{}_msg", wanted.queue)).collect();
    let mut listening = None;
    // Who was woken looks into the queues that it was woken for.
    let mut woken: Option<Arc<Commit>> = None;
    loop {
        let is_looked_at = |wanted: &&mut Wanted<'_>| {
            let table = format!("{}_msg", wanted.queue);
            woken.as_ref().is_none_or(|commit| commit.tables.iter().any(|changed| **changed == *table))
        };
        let mut looked_at: Vec<&mut Wanted<'_>> = wanted.iter_mut().filter(is_looked_at).collect();
        let mut found = Vec::new();
        for wanted in &mut looked_at {
            let messages = next(database, schema, receiver, wanted).await?;
            if !messages.is_empty() {
                found.push((wanted.queue, messages));
            }
        }
        if found.is_empty() {
            for wanted in &looked_at {
                let messages = again(database, schema, receiver, wanted).await?;
                if !messages.is_empty() {
                    found.push((wanted.queue, messages));
                }
            }
        }
        if !found.is_empty() {
            return Ok(Some(json::messages(&found)));
        }
        if until <= Instant::now() {
            return Ok(None);
        }
        let Some(heard) = &mut listening else {
            // What is committed from now on is heard of, and what was committed before is looked for once more.
            listening = Some(listen(database, schema, &names).await?);
            continue;
        };
        database.rest();
        tokio::select! {
            biased;
            heard = heard.next() => {
                if heard.is_none() {
                    // The schema was dropped. Somebody may make it again.
                    listening = None;
                }
                woken = match heard {
                    Some(Heard::Commit(commit)) => Some(commit),
                    Some(Heard::Missed(_)) | None => None,
                };
            }
            () = tokio::time::sleep_until(until) => return Ok(None),
        }
    }
}

async fn listen(database: &mut Database, schema: &str, names: &[String]) -> Result<Listening, QueryError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Ok(listening) = database.engine.listen(schema, &names, None) {
        return Ok(listening);
    }
    database.make_schema().await?;
    Ok(database.engine.listen(schema, &names, None)?)
}

/// The next messages of a queue, which the receiver has from now on.
async fn next(
    database: &mut Database,
    schema: &str,
    receiver: &str,
    wanted: &mut Wanted<'_>,
) -> Result<Vec<Message>, Failure> {
    let (messages, results) = (database.table(wanted.queue, "msg"), database.table(wanted.queue, "rst"));
    if wanted.start == Start::New {
        let last = format!("SELECT id FROM {messages} ORDER BY id DESC LIMIT 1");
        wanted.start = Start::At(first_number(&database.find(&last, &[]).await?) + 1);
        return Ok(Vec::new());
    }
    let name = Param::Bytes(receiver.to_owned().into());
    let place = format!("SELECT m_id FROM {results} WHERE receiver = ? ORDER BY m_id DESC LIMIT 1");
    let mut attempts = 0;
    loop {
        database.rest();
        let _turn = turn(schema, wanted.queue, receiver).await;
        let place = first_number(&database.find(&place, std::slice::from_ref(&name)).await?);
        let found = match wanted.start {
            Start::At(start) => read(database, &messages, start.max(place + 1), wanted.max).await?,
            Start::Last | Start::New => {
                let sql = format!("SELECT id, sender, message FROM {messages} WHERE id > ? ORDER BY id DESC LIMIT 1");
                let found = database.find(&sql, &[Param::Uint(place)]).await?;
                found.iter().map(|row| message_of(row)).collect()
            }
        };
        if found.is_empty() {
            return Ok(found);
        }
        let status = if wanted.retry_num > 0 { "processing" } else { "failed" };
        let rows = vec![format!("(?,?,'{status}')"); found.len()].join(",");
        let taking = format!("INSERT INTO {results} (m_id, receiver, status) VALUES {rows}");
        let params: Vec<Param> = found.iter().flat_map(|message| [Param::Uint(message.id), name.clone()]).collect();
        match database.run_or_make(wanted.queue, &taking, &params).await {
            Ok(_) => return Ok(found),
            // One that had its turn before has left in the middle of its commit.
            Err(QueryError::Server(ServerError { code: DUPLICATE_KEY, .. })) if attempts < ATTEMPTS_MAX => {
                attempts += 1
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Messages of a queue from a number on.
async fn read(database: &mut Database, table: &str, start: u64, max: u64) -> Result<Vec<Message>, QueryError> {
    let sql = format!("SELECT id, sender, message FROM {table} WHERE id >= ? ORDER BY id LIMIT ?");
    let (mut found, mut size, mut from, mut left) = (Vec::new(), 0, start, max);
    while left > 0 && size < ANSWER_BYTES {
        let together = left.min(READ_TOGETHER);
        let rows = database.find(&sql, &[Param::Uint(from), Param::Uint(together)]).await?;
        let is_all = (rows.len() as u64) < together;
        found.extend(rows.iter().map(|row| message_of(row)));
        if is_all {
            break;
        }
        size = found.iter().map(|message: &Message| message.message.len()).sum();
        from = found.last().map_or(from, |last| last.id + 1);
        left -= together;
    }
    Ok(found)
}

/// Messages that the receiver has had for too long without a result: it gets them again, as often as it wants.
async fn again(
    database: &mut Database,
    schema: &str,
    receiver: &str,
    wanted: &Wanted<'_>,
) -> Result<Vec<Message>, Failure> {
    let (messages, results) = (database.table(wanted.queue, "msg"), database.table(wanted.queue, "rst"));
    let name = Param::Bytes(receiver.to_owned().into());
    let sql = format!(
        "SELECT m.id, m.sender, m.message, m.created_time, r.fail_count FROM {results} r JOIN {messages} m ON m.id = r.m_id \
         WHERE r.receiver = ? AND r.status = 'processing' AND r.m_id > ? \
         AND IF(r.fail_count = 0, r.created_time, r.updated_time) < NOW(3) - INTERVAL ? MICROSECOND \
         ORDER BY r.m_id LIMIT ?"
    );
    let micros = u64::try_from(wanted.fail_timeout.as_micros()).unwrap_or(u64::MAX);
    database.rest();
    let _turn = turn(schema, wanted.queue, receiver).await;
    let (mut rows, mut size, mut behind) = (Vec::new(), 0, 0);
    while (rows.len() as u64) < wanted.max && size < ANSWER_BYTES {
        let together = READ_TOGETHER.min(wanted.max - rows.len() as u64);
        let params = [name.clone(), Param::Uint(behind), Param::Uint(micros), Param::Uint(together)];
        let found = database.find(&sql, &params).await?;
        let is_all = (found.len() as u64) < together;
        size += found.iter().map(|row| message_of(row).message.len()).sum::<usize>();
        behind = found.last().map_or(behind, |row| number(row.first()));
        rows.extend(found);
        if is_all {
            break;
        }
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // One statement: the messages of an answer have failed once more together or not at all.
    let places = vec!["?"; rows.len()].join(",");
    let failing = format!(
        "UPDATE {results} SET status = IF(fail_count + 1 >= ?, 'failed', 'processing'), fail_count = fail_count + 1 \
         WHERE receiver = ? AND m_id IN ({places})"
    );
    let ids = rows.iter().map(|row| Param::Uint(number(row.first())));
    let params: Vec<Param> = [Param::Uint(wanted.retry_num), name].into_iter().chain(ids).collect();
    database.run(&failing, &params).await?;
    // Somebody may want fewer attempts than there were.
    let is_wanted = |row: &&Vec<Param>| number(row.get(4)) < wanted.retry_num;
    let told = |row: &Vec<Param>| Message { created_time: bytes(row.get(3)), ..message_of(row) };
    Ok(rows.iter().filter(is_wanted).map(told).collect())
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

fn first_number(rows: &[Vec<Param>]) -> u64 {
    rows.first().map_or(0, |row| number(row.first()))
}

/// A row of `id, sender, message, …`.
fn message_of(row: &[Param]) -> Message {
    let message = bytes(row.get(2)).unwrap_or_default();
    Message { id: number(row.first()), sender: bytes(row.get(1)), message, created_time: None }
}

fn outcomes(data: &Json) -> Result<Vec<Outcomes<'_>>, Failure> {
    let queues = match data.get("results") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(queues)) => queues,
        Some(Json::Array(list)) if list.is_empty() => return Ok(Vec::new()),
        Some(_) => return Err(Failure::bad("bad parameter `results`")),
    };
    let mut outcomes = Vec::new();
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

fn all_wanted<'a>(data: &'a Json, options: &Options) -> Result<Vec<Wanted<'a>>, Failure> {
    let queues = match data.get("queues") {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(queues)) => queues,
        Some(Json::Array(list)) if list.is_empty() => return Ok(Vec::new()),
        Some(_) => return Err(Failure::bad("bad parameter `queues`")),
    };
    queues.iter().map(|(queue, params)| wanted(queue, params, options)).collect()
}

fn wanted<'a>(queue: &'a str, params: &Json, options: &Options) -> Result<Wanted<'a>, Failure> {
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
    Ok(Wanted { queue, start, max, retry_num, fail_timeout })
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
