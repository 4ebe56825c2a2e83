//! A round of a line: receivers get messages, all with one commit as far as they are not too many.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet, hash_map::Entry},
    mem,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tidegate_rows::{Column, Flow, Param, QueryError, Row, Sink, SinkClosed, Summary, Value};
use tidegate_sql::table::{
    Answers, Comparison, Filter, OnDuplicate, OpenTable, Otherwise, Request, Revise, Revision, Rows, Test,
};

use super::{
    json::Message,
    line::{Ask, What},
    receiver::Start,
    tables::{Database, QueueTables, is_missing},
};
use crate::queue::gather::{Gather, bytes, number};

/// Messages that are read together.
const READ_TOGETHER: u64 = 16;
/// When an answer has messages of so many bytes no more are read for it.
const ANSWER_BYTES: usize = 8 << 20;
/// When the answers of a round have so many, the other receivers are served in the next one.
const ROUND_BYTES: usize = 64 << 20;
/// How often a receiver is served anew whose place somebody else has moved.
const ATTEMPTS_MAX: usize = 5;
/// MySQL's number for a key that another row has.
const DUPLICATE_KEY: u16 = 1062;
/// The largest number that a message may have.
const NUMBER_MAX: u64 = u32::MAX as u64;
/// Earlier than any time at which something has failed.
const FIRST_TIME: &[u8] = b"0001-01-01 00:00:00";

/// What a round has come to for somebody in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Served {
    /// These, which are its own now; none if there are none.
    Messages(Vec<Message>),
    /// It is to be served in the next round.
    Later,
    /// Another line has something for it.
    Taken,
    /// The database has refused.
    Failed(String),
}

/// What is known of the places of receivers that wait.
#[derive(Default)]
pub(super) struct Places {
    /// The last message that each of them has got; 0 for none.
    known: HashMap<Arc<str>, u64>,
    /// The version of the table in which they were looked up; `None` if it may be another one by now.
    version: Option<u64>,
}

impl Places {
    /// Forgets all of it unless the table has still this version.
    fn begin(&mut self, version: Option<u64>) {
        if self.version.is_none() || self.version != version {
            self.known.clear();
        }
        self.version = version;
    }

    /// How many places are known.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Forgets those of whom `stays` does not say that they wait on.
    pub(super) fn keep(&mut self, stays: impl Fn(&str) -> bool) {
        self.known.retain(|receiver, _| stays(receiver));
    }
}

/// Serves receivers of a queue in their order. Nothing is found in tables that do not exist. `places` is for the next round of the line.
///
/// # Errors
/// The database has refused: nobody has got anything, or what it has got comes again when its time is over.
pub(super) async fn serve(
    database: &mut Database,
    queue: &str,
    asks: &[&Ask],
    places: &mut Places,
) -> Result<Vec<Served>, QueryError> {
    let mut served = vec![Served::Messages(Vec::new()); asks.len()];
    let tables = match database.queue(queue).await {
        Ok(tables) => tables,
        Err(error) if is_missing(&error) => return Ok(served),
        Err(error) => return Err(error),
    };
    // Ahead of the look: whoever changes the table behind this makes another version of it.
    places.begin(database.results_version(queue));
    let mut round = Round { database, tables, asks, served: &mut served, places };
    let next = (0..asks.len()).filter(|at| asks[*at].what != What::Again).collect();
    let done = match round.next(next).await {
        Ok(()) => {
            let again = round.wanting_again();
            round.again(&again).await
        }
        failed => failed,
    };
    match done {
        Err(error) if is_missing(&error) => Ok(served),
        done => done.map(|()| served),
    }
}

struct Round<'a> {
    database: &'a mut Database,
    tables: Rc<QueueTables>,
    asks: &'a [&'a Ask],
    served: &'a mut [Served],
    places: &'a mut Places,
}

impl Round<'_> {
    /// The next messages, which their receivers have from now on.
    async fn next(&mut self, mut asks: Vec<usize>) -> Result<(), QueryError> {
        for _ in 0..ATTEMPTS_MAX {
            if asks.is_empty() {
                break;
            }
            self.look_up_places(&asks).await?;
            let mut reader = Reader::default();
            let mut given = Vec::new();
            let mut size = 0;
            for at in asks {
                if size >= ROUND_BYTES {
                    self.served[at] = Served::Later;
                    continue;
                }
                let ask = self.asks[at];
                let place = self.places.known.get(&ask.receiver).copied().unwrap_or_default();
                let found = self.read(&mut reader, ask, place).await?;
                let Some(last) = found.last() else { continue };
                if !ask.claim() {
                    self.served[at] = Served::Taken;
                    continue;
                }
                self.places.known.insert(ask.receiver.clone(), last.id);
                size += size_of(&found);
                given.push((at, found));
            }
            asks = self.take(given).await?;
        }
        // Somebody else has moved them each time.
        asks.into_iter().for_each(|at| self.served[at] = Served::Later);
        Ok(())
    }

    /// Learns the places of receivers that are not known.
    async fn look_up_places(&mut self, asks: &[usize]) -> Result<(), QueryError> {
        let receivers = asks.iter().map(|at| &self.asks[*at].receiver);
        let unknown: HashSet<&Arc<str>> = receivers.filter(|name| !self.places.known.contains_key(*name)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<Arc<str>> = unknown.into_iter().cloned().collect();
        let keys: Vec<_> = names.iter().map(|name| [Value::Bytes(name.as_bytes()), Value::Uint(NUMBER_MAX)]).collect();
        let filters: Vec<_> = keys.iter().map(|key| [equal(0, key[0])]).collect();
        let requests: Vec<(&OpenTable, Request<'_>)> = keys
            .iter()
            .zip(&filters)
            .map(|(key, filters)| {
                let last = Rows { filters, limit: 1, ..Rows::new(Comparison::AtMost, key) };
                (&self.tables.place, Request::Find(last))
            })
            .collect();
        let found = all_rows(self.database, &requests).await?;
        for (name, rows) in names.into_iter().zip(found) {
            self.places.known.insert(name, rows.first().map_or(0, |row| number(row.first())));
        }
        Ok(())
    }

    /// The messages that somebody is to get who has got those up to `place`.
    async fn read(&mut self, reader: &mut Reader, ask: &Ask, place: u64) -> Result<Vec<Message>, QueryError> {
        let Start::At(start) = ask.wanted.start else {
            let last = reader.last(self.database, &self.tables.messages).await?;
            return Ok(last.filter(|last| last.id > place).into_iter().collect());
        };
        reader.read(self.database, &self.tables.messages, start.max(place + 1), ask.wanted.max).await
    }

    /// Stores who has got what. Answers for whom somebody else was faster.
    async fn take(&mut self, given: Vec<(usize, Vec<Message>)>) -> Result<Vec<usize>, QueryError> {
        let mut rows = Vec::new();
        for (at, messages) in &given {
            let ask = self.asks[*at];
            let status: &[u8] = if ask.wanted.retry_num > 0 { b"processing" } else { b"failed" };
            let row = |message: &Message| {
                [Value::Uint(message.id), Value::Bytes(ask.receiver.as_bytes()), Value::Bytes(status)]
            };
            rows.extend(messages.iter().map(row));
        }
        let requests: Vec<_> =
            rows.iter().map(|row| (&self.tables.take, Request::Insert(row, OnDuplicate::Fail))).collect();
        let mut gather = Gather::default();
        if !requests.is_empty() {
            // What is known now is of this round alone.
            self.places.version = None;
            // What comes again anyway, when its time is over, may come again behind a power cut. Who wants it once waits for the disk.
            if given.iter().all(|(at, _)| self.asks[*at].wanted.retry_num > 0) {
                self.database.carry_out_early(&requests, &mut gather).await?;
            } else {
                self.database.carry_out(&requests, &mut gather).await?;
            }
        }
        let mut ended = gather.ended.into_iter();
        let mut anew = Vec::new();
        for (at, messages) in given {
            let mut failed = None;
            let mut got = Vec::with_capacity(messages.len());
            for message in messages {
                match ended.next() {
                    Some(Ok(_)) => got.push(message),
                    Some(Err(QueryError::Server(error))) if error.code == DUPLICATE_KEY => {}
                    Some(Err(error)) => failed = Some(error.to_string()),
                    None => failed = Some("the database has not answered".to_owned()),
                }
            }
            self.served[at] = match failed {
                Some(error) => Served::Failed(error),
                None if got.is_empty() => {
                    self.places.known.remove(&self.asks[at].receiver);
                    self.asks[at].release();
                    anew.push(at);
                    Served::Later
                }
                None => Served::Messages(got),
            };
        }
        Ok(anew)
    }

    /// Who wants messages that it has had for too long, and is not served yet.
    fn wanting_again(&self) -> Vec<usize> {
        let has_none = |at: usize| matches!(&self.served[at], Served::Messages(messages) if messages.is_empty());
        (0..self.asks.len()).filter(|at| self.asks[*at].what != What::Next && has_none(*at)).collect()
    }

    /// Messages that receivers have had for too long without a result: they get them again, as often as they want.
    async fn again(&mut self, asks: &[usize]) -> Result<(), QueryError> {
        let mut times: HashMap<Duration, Vec<u8>> = HashMap::new();
        let mut size = 0;
        for &at in asks {
            if size >= ROUND_BYTES {
                self.served[at] = Served::Later;
                continue;
            }
            let ask = self.asks[at];
            let fail_timeout = ask.wanted.fail_timeout;
            if let Entry::Vacant(unknown) = times.entry(fail_timeout) {
                unknown.insert(self.database.time_before(fail_timeout).await?);
            }
            let had = self.had_for_too_long(ask, &times[&fail_timeout]).await?;
            if !had.is_empty() {
                let messages = self.give_again(ask, had).await?;
                size += size_of(&messages);
                self.served[at] = Served::Messages(messages);
            }
        }
        Ok(())
    }

    /// Numbers of messages that a receiver has had since before `limit`.
    async fn had_for_too_long(&mut self, ask: &Ask, limit: &[u8]) -> Result<Vec<u64>, QueryError> {
        let [receiver, processing] = [Value::Bytes(ask.receiver.as_bytes()), Value::Bytes(b"processing")];
        let time = Value::Bytes(limit);
        let before = |column| Filter { test: Test::Compares(Comparison::Less), ..equal(column, time) };
        // Filters: receiver, status, updated_time, created_time. Those that have failed before have an updated_time.
        let never = [equal(0, receiver), equal(1, processing), equal(2, Value::Null), before(3)];
        let failed = [equal(0, receiver), equal(1, processing), before(2)];
        let keys = [[receiver, processing, Value::Null], [receiver, processing, Value::Bytes(FIRST_TIME)]];
        let limit = ask.wanted.max;
        let never = Rows { filters: &never, limit, ..Rows::new(Comparison::AtLeast, &keys[0]) };
        let failed = Rows { filters: &failed, limit, ..Rows::new(Comparison::AtLeast, &keys[1]) };
        let requests = [never, failed].map(|rows| (&self.tables.due, Request::Find(rows)));
        let found = all_rows(self.database, &requests).await?;
        let mut numbers: Vec<u64> = found.iter().flatten().map(|row| number(row.first())).collect();
        numbers.sort_unstable();
        numbers.truncate(usize::try_from(ask.wanted.max).unwrap_or(usize::MAX));
        Ok(numbers)
    }

    /// Counts that these messages have failed once more, and answers those that the receiver is to get again.
    async fn give_again(&mut self, ask: &Ask, numbers: Vec<u64>) -> Result<Vec<Message>, QueryError> {
        let mut messages = Vec::new();
        for together in numbers.chunks(usize::try_from(READ_TOGETHER).unwrap_or(1)) {
            let keys: Vec<_> = together.iter().map(|id| [Value::Uint(*id)]).collect();
            let requests: Vec<_> =
                keys.iter().map(|key| (&self.tables.again, Request::Find(Rows::with_key(key)))).collect();
            let found = all_rows(self.database, &requests).await?;
            messages.extend(found.iter().flatten().map(|row| message_of(row)));
            if size_of(&messages) >= ANSWER_BYTES {
                break;
            }
        }
        let keys: Vec<_> =
            messages.iter().map(|message| [Value::Uint(message.id), Value::Bytes(ask.receiver.as_bytes())]).collect();
        let failures: Vec<Failing> = keys.iter().map(|_| Failing::new(ask.wanted.retry_num)).collect();
        let requests: Vec<_> = keys
            .iter()
            .zip(&failures)
            .map(|(key, failing)| (&self.tables.fail, Request::Revise(Rows::with_key(key), failing)))
            .collect();
        let mut gather = Gather::default();
        self.database.carry_out(&requests, &mut gather).await?;
        let mut ended = gather.ended.into_iter();
        let mut got = Vec::with_capacity(messages.len());
        for (message, failing) in messages.into_iter().zip(&failures) {
            ended.next().transpose()?;
            if failing.is_wanted.get() {
                got.push(message);
            }
        }
        Ok(got)
    }
}

/// A message has failed once more, unless there is a result of it by now.
#[derive(Debug)]
struct Failing {
    retry_num: u64,
    /// It comes again: somebody may want fewer attempts than there were.
    is_wanted: Cell<bool>,
}

impl Failing {
    fn new(retry_num: u64) -> Self {
        Failing { retry_num, is_wanted: Cell::new(false) }
    }
}

impl Revise for Failing {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        self.is_wanted.set(false);
        let Some([status, fail_count]) = old.filter(|old| bytes(old.first()).as_deref() == Some(b"processing")) else {
            return Revision::Keep;
        };
        let failed = number(Some(fail_count));
        self.is_wanted.set(failed < self.retry_num);
        let status = if failed + 1 >= self.retry_num { Param::Bytes("failed".into()) } else { status.clone() };
        Revision::Put(vec![status, Param::Uint(failed + 1)])
    }
}

/// Messages of a queue, of which many receivers get the same.
#[derive(Default)]
struct Reader {
    /// All messages from `from` up to the last of these.
    known: Vec<Message>,
    from: u64,
    bytes: usize,
    /// There are no others behind them.
    is_all: bool,
    last: Option<Option<Message>>,
}

impl Reader {
    /// Messages from a number on.
    async fn read(
        &mut self,
        database: &mut Database,
        table: &OpenTable,
        from: u64,
        max: u64,
    ) -> Result<Vec<Message>, QueryError> {
        let is_beyond = from > self.behind() && !self.is_all;
        if from < self.from || is_beyond || self.bytes >= ROUND_BYTES {
            *self = Reader { from, last: self.last.take(), ..Reader::default() };
        }
        let (mut found, mut size) = (Vec::new(), 0);
        let mut at = self.known.partition_point(|message| message.id < from);
        while (found.len() as u64) < max && size < ANSWER_BYTES {
            if at == self.known.len() && !self.is_all {
                self.read_more(database, table, max - found.len() as u64).await?;
            }
            let Some(message) = self.known.get(at) else { break };
            size += message.message.len();
            found.push(message.clone());
            at += 1;
        }
        Ok(found)
    }

    fn behind(&self) -> u64 {
        self.known.last().map_or(self.from, |last| last.id + 1)
    }

    async fn read_more(&mut self, database: &mut Database, table: &OpenTable, left: u64) -> Result<(), QueryError> {
        let from = self.behind();
        if from > NUMBER_MAX {
            self.is_all = true;
            return Ok(());
        }
        let limit = left.min(READ_TOGETHER);
        let key = [Value::Uint(from)];
        let rows = Rows { limit, ..Rows::new(Comparison::AtLeast, &key) };
        let found = all_rows(database, &[(table, Request::Find(rows))]).await?;
        let found: Vec<Message> = found.iter().flatten().map(|row| message_of(row)).collect();
        self.is_all = (found.len() as u64) < limit;
        self.bytes += size_of(&found);
        self.known.extend(found);
        Ok(())
    }

    /// The last message of all.
    async fn last(&mut self, database: &mut Database, table: &OpenTable) -> Result<Option<Message>, QueryError> {
        if let Some(last) = &self.last {
            return Ok(last.clone());
        }
        let key = [Value::Uint(NUMBER_MAX)];
        let rows = Rows { limit: 1, ..Rows::new(Comparison::AtMost, &key) };
        let found = all_rows(database, &[(table, Request::Find(rows))]).await?;
        let last = found.iter().flatten().next().map(|row| message_of(row));
        self.last = Some(last.clone());
        Ok(last)
    }
}

fn size_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| message.message.len()).sum()
}

/// A row of `id, sender, message`, with `created_time` where it is told.
fn message_of(row: &[Param]) -> Message {
    let message = bytes(row.get(2)).unwrap_or_default();
    Message { id: number(row.first()), sender: bytes(row.get(1)), message, created_time: bytes(row.get(3)) }
}

fn equal(column: usize, value: Value<'_>) -> Filter<'_> {
    Filter { column, test: Test::Compares(Comparison::Equal), value, otherwise: Otherwise::Stop }
}

/// The rows that each of the requests has found.
async fn all_rows(
    database: &mut Database,
    requests: &[(&OpenTable, Request<'_>)],
) -> Result<Vec<Vec<Vec<Param>>>, QueryError> {
    let mut by_request = ByRequest::default();
    database.carry_out(requests, &mut by_request).await?;
    match by_request.failed {
        Some(error) => Err(error),
        None => Ok(by_request.rows),
    }
}

/// Keeps rows of each request of a batch by themselves.
#[derive(Default)]
struct ByRequest {
    gather: Gather,
    rows: Vec<Vec<Vec<Param>>>,
    failed: Option<QueryError>,
}

impl Sink for ByRequest {
    fn columns(&mut self, columns: &[Column]) {
        self.gather.columns(columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.gather.row(row)
    }
    fn end_result(&mut self, summary: &Summary) {
        self.gather.end_result(summary);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.gather.poll_ready(cx)
    }
}

impl Answers for ByRequest {
    fn ended(&mut self, result: Result<(), QueryError>) {
        self.rows.push(mem::take(&mut self.gather.rows));
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}
