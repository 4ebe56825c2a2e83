//! Requests to a table that have come together, and their answers in the same order.

use std::{
    iter::Peekable,
    rc::Rc,
    task::{Context, Poll},
};

use tidegate_http::memcached_server::{Action, Op, Request, error, write_line, write_value};
use tidegate_mysql::server::Transport;
use tidegate_net::clock;
use tidegate_rows::{Column, Flow, QueryError, Sink, SinkClosed, Summary, Value};
use tidegate_sql::{
    Session,
    table::{self, Answers, Comparison, Rows},
};

use super::{
    item::{Effect, Moment, apply},
    port::OUTPUT_BYTES,
    rows::{Row, next_cas},
    stats::Counters,
    table::{Opened, Step, Table, What},
};
use crate::database::port::socket::Socket;

/// Requests to the table that run together; a `get` of more keys runs in several parts.
const TOGETHER_MAX: usize = 128;
/// What an error of the table is told as, in front of its text.
const SERVER_ERROR: &[u8] = b"SERVER_ERROR ";

/// A part of the work: a request to the table, or something to be said in its turn.
enum Part<'a> {
    /// A key of `get`.
    Get { key: &'a [u8], with_cas: bool },
    /// All keys of a `get` have been looked for.
    GetEnd,
    /// `mg` that changes nothing, as a rule.
    Peek(&'a Op<'a>),
    /// A decision about a row.
    Step(Box<Step<'a>>),
    /// A row goes because its new value was too large.
    TooLarge { key: &'a [u8], quiet: bool },
    /// All rows go.
    Flush { quiet: bool },
    /// An answer that depends on nothing.
    Said(&'a [u8]),
    /// A column that is needed is not there.
    Lacks(&'static str),
    /// What is asked of a key that no row can have.
    Missed(Box<Part<'a>>),
}

impl<'a> Part<'a> {
    /// The key of the row that is asked for.
    fn key(&self) -> Option<&[u8]> {
        match self {
            Part::Get { key, .. } | Part::TooLarge { key, .. } => Some(key),
            Part::Peek(op) => Some(&op.key.bytes),
            Part::Step(step) => Some(step.key()),
            Part::Flush { .. } | Part::GetEnd | Part::Said(_) | Part::Lacks(_) | Part::Missed(_) => None,
        }
    }

    /// The part, unless no row can have its key.
    fn or_missed(self, session: &mut Session, opened: &Opened) -> Part<'a> {
        let holds = self.key().map(|key| session.holds_key(&opened.table, &[key]));
        match holds {
            Some(Ok(false)) => Part::Missed(Box::new(self)),
            // Whatever is wrong with the table, the request meets it again.
            _ => self,
        }
    }

    fn writes(&self) -> bool {
        matches!(self, Part::Step(_) | Part::TooLarge { .. } | Part::Flush { .. })
    }
}

/// Takes parts that run together. Behind a look at an item there is no write: the look may turn out to be a decision, which comes
/// first then.
fn take_together<'a>(parts: &mut Peekable<impl Iterator<Item = Part<'a>>>) -> Vec<Part<'a>> {
    let (mut together, mut looks) = (Vec::new(), false);
    while together.len() < TOGETHER_MAX
        && let Some(part) = parts.next_if(|part| !(looks && part.writes()))
    {
        looks |= matches!(part, Part::Peek(_));
        together.push(part);
    }
    together
}

/// The parts of a request.
fn parts_of<'a>(request: &'a Request<'a>, opened: &'a Opened, item_bytes_max: usize) -> impl Iterator<Item = Part<'a>> {
    let now_ms = clock::now_ms();
    let step = move |what: What<'a>, key: &[u8]| {
        Part::Step(Box::new(Step::new(what, opened, now_ms, item_bytes_max.saturating_sub(key.len()))))
    };
    let (keys, last) = match request {
        Request::Get { keys, with_cas, touch } => (Some((keys.clone(), *with_cas, *touch)), Some(Part::GetEnd)),
        Request::One(op) => {
            let part = match (opened.columns.lack(op), op.action) {
                (Some(column), _) => Part::Lacks(column),
                (None, Action::Read { vivify: None, recache: None, touch: None, .. }) => Part::Peek(op),
                _ => step(What::Op(op), &op.key.bytes),
            };
            (None, Some(part))
        }
        Request::TooLarge { key, removes: true, quiet } => {
            (None, Some(Part::TooLarge { key: &key.bytes, quiet: *quiet }))
        }
        Request::TooLarge { quiet, .. } => (None, (!quiet).then_some(Part::Said(error::TOO_LARGE))),
        Request::FlushAll { at, quiet } => match at.0 {
            ..=0 => (None, Some(Part::Flush { quiet: *quiet })),
            _ => (None, Some(Part::Said(b"SERVER_ERROR a table is flushed at once"))),
        },
        Request::Said(answer) => (None, answer.map(Part::Said)),
        Request::Debug(_) | Request::Stats(_) | Request::Version | Request::Quit => (None, None),
    };
    let keys = keys.into_iter().flat_map(move |(keys, with_cas, touch)| {
        keys.map(move |key| match touch {
            None => Part::Get { key, with_cas },
            Some(exptime) => step(What::Touch { key, exptime, with_cas }, key),
        })
    });
    keys.chain(last)
}

/// Answers requests from a table.
///
/// # Errors
/// The client has gone, or reads nothing.
pub(super) async fn answer(
    table: &Rc<Table>,
    requests: &[Request<'_>],
    item_bytes_max: usize,
    socket: &Socket<'_>,
    out: &mut Vec<u8>,
) -> Result<(), SinkClosed> {
    let (mut session, opened) = match table.open() {
        Ok(open) => open,
        Err(reason) => {
            requests.iter().for_each(|request| refuse(request, &reason, out));
            return Ok(());
        }
    };
    let mut parts = requests.iter().flat_map(|request| parts_of(request, &opened, item_bytes_max)).peekable();
    let mut counters = Counters::default();
    let mut is_outdated = false;
    loop {
        let together = take_together(&mut parts);
        if together.is_empty() {
            break;
        }
        let together: Vec<_> = together.into_iter().map(|part| part.or_missed(&mut session, &opened)).collect();
        let mut replies = Replies::new(&together, &opened, socket, out, &mut counters);
        run(&mut session, &opened, &together, &mut replies).await;
        let Replies { again, is_closed, failed, .. } = replies;
        is_outdated |= failed;
        if is_closed {
            return Err(SinkClosed);
        }
        let mut inserted = 0;
        for (place, op) in again {
            let mut answer = Vec::new();
            decide(&mut session, &opened, op, item_bytes_max, &mut counters, &mut answer).await;
            out.splice(place + inserted..place + inserted, answer.iter().copied());
            inserted += answer.len();
        }
    }
    drop(parts);
    table.place.count(&counters);
    table.give_back(session);
    if is_outdated {
        table.forget();
    }
    Ok(())
}

/// Runs parts that go to the table together.
async fn run<'a>(session: &mut Session, opened: &Opened, parts: &[Part<'a>], replies: &mut Replies<'_, 'a>) {
    // Those of all rows are at least NULL.
    let keys: Vec<[Value<'_>; 1]> = parts.iter().map(|part| [part.key().map_or(Value::Null, Value::Bytes)]).collect();
    let requests: Vec<_> = parts
        .iter()
        .zip(&keys)
        .filter_map(|(part, key)| {
            let rows = Rows { limit: 1, ..Rows::with_key(key) };
            let request = match part {
                Part::Get { .. } | Part::Peek(_) => table::Request::Find(rows),
                Part::Step(step) => table::Request::Revise(rows, &**step),
                Part::TooLarge { .. } => table::Request::Delete(rows, table::Answer::Number),
                Part::Flush { .. } => {
                    table::Request::Delete(Rows::new(Comparison::AtLeast, key), table::Answer::Number)
                }
                Part::GetEnd | Part::Said(_) | Part::Lacks(_) | Part::Missed(_) => return None,
            };
            Some((&opened.table, request))
        })
        .collect();
    replies.say();
    session.run_requests(&requests, replies).await;
}

/// Decides about one row, after a look at it has shown that it changes.
async fn decide(
    session: &mut Session,
    opened: &Opened,
    op: &Op<'_>,
    item_bytes_max: usize,
    counters: &mut Counters,
    out: &mut Vec<u8>,
) {
    let step = Step::new(What::Op(op), opened, clock::now_ms(), item_bytes_max);
    let key = [Value::Bytes(&op.key.bytes)];
    let rows = Rows { limit: 1, ..Rows::with_key(&key) };
    match session
        .run_request(&opened.table, &table::Request::Revise(rows, &step), &mut crate::database::schemas::Nowhere)
        .await
    {
        Ok(()) => step.finish(counters, out),
        Err(error) => write_error(&error.to_string(), out),
    }
}

fn refuse(request: &Request<'_>, reason: &str, out: &mut Vec<u8>) {
    match request {
        Request::Said(answer) => answer.iter().for_each(|answer| write_line(answer, out)),
        _ => write_error(reason, out),
    }
}

/// Appends an error of the table; whatever is in its text, it stays one line.
fn write_error(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(SERVER_ERROR);
    out.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// The answers to parts, one after the other.
struct Replies<'r, 'a> {
    parts: &'r [Part<'a>],
    opened: &'r Opened,
    socket: &'r Socket<'r>,
    out: &'r mut Vec<u8>,
    counters: &'r mut Counters,
    row: Row,
    has_row: bool,
    now_s: u64,
    /// `mg`s that have to be decided, and where their answers belong.
    again: Vec<(usize, &'a Op<'a>)>,
    /// An error of the `get` under way.
    get_error: Option<String>,
    failed: bool,
    is_closed: bool,
}

impl<'r, 'a> Replies<'r, 'a> {
    fn new(
        parts: &'r [Part<'a>],
        opened: &'r Opened,
        socket: &'r Socket<'r>,
        out: &'r mut Vec<u8>,
        counters: &'r mut Counters,
    ) -> Self {
        Replies {
            parts,
            opened,
            socket,
            out,
            counters,
            row: Row::default(),
            has_row: false,
            now_s: clock::now_ms() / 1000,
            again: Vec::new(),
            get_error: None,
            failed: false,
            is_closed: false,
        }
    }

    /// Says what does not depend on the table, up to the next part that does.
    fn say(&mut self) {
        while let Some((part, rest)) = self.parts.split_first() {
            match part {
                Part::GetEnd => match self.get_error.take() {
                    Some(error) => write_error(&error, self.out),
                    None => write_line(b"END", self.out),
                },
                Part::Said(text) => write_line(text, self.out),
                Part::Lacks(column) => write_error(&format!("the table has no column \"{column}\""), self.out),
                Part::Missed(part) => self.missed(part),
                _ => return,
            }
            self.parts = rest;
        }
    }

    fn missed(&mut self, part: &Part<'a>) {
        match part {
            Part::Get { .. } => self.counters.got(false),
            Part::Peek(op) => self.peeked(op),
            Part::Step(step) => step.miss(self.counters, self.out),
            Part::TooLarge { quiet: false, .. } => write_line(error::TOO_LARGE, self.out),
            _ => {}
        }
    }

    fn found(&mut self, key: &[u8], with_cas: bool) {
        if !self.has_row {
            return self.counters.got(false);
        }
        let found = match with_cas {
            true => self.row.item(self.now_s).map(|item| {
                let cas = Some(item.attributes.cas);
                write_value(key, item.attributes.flags, cas, item.value, self.out);
            }),
            false => self.row.content(self.now_s).map(|(value, flags)| write_value(key, flags, None, value, self.out)),
        };
        self.counters.got(found.is_some());
    }

    fn peeked(&mut self, op: &'a Op<'a>) {
        let item = if self.has_row { self.row.item(self.now_s) } else { None };
        let next_cas = || next_cas(self.now_s * 1000);
        let start = self.out.len();
        let mut counters = Counters::default();
        let mut moment =
            Moment { now_s: self.now_s, next_cas: &next_cas, value_bytes_max: usize::MAX, counters: &mut counters };
        match apply(op, item, &mut moment, self.out) {
            Effect::Nothing | Effect::Used => self.counters.add(&counters),
            // The first to ask for what is out of date is told so, and nobody else.
            _ => {
                self.out.truncate(start);
                self.again.push((start, op));
            }
        }
    }

    fn failed(&mut self, part: &Part<'_>, error: &QueryError) {
        self.failed = true;
        match part {
            Part::Get { .. } => self.get_error = Some(error.to_string()),
            _ => write_error(&error.to_string(), self.out),
        }
    }
}

impl Sink for Replies<'_, '_> {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: tidegate_rows::Row<'_>) -> Flow {
        self.row.clear();
        self.has_row = true;
        row.each(|index, value| {
            self.row.set(index, value, &self.opened.columns);
        });
        // What waits to be decided has to find its place.
        if self.out.len() >= OUTPUT_BYTES && self.again.is_empty() { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        while !self.out.is_empty() {
            match self.socket.poll_write(cx, self.out) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) => drop(self.out.drain(..count)),
                Poll::Ready(Err(_)) => {
                    self.is_closed = true;
                    return Poll::Ready(Err(SinkClosed));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Answers for Replies<'_, '_> {
    fn ended(&mut self, result: Result<(), QueryError>) {
        let Some((part, rest)) = self.parts.split_first() else { return };
        self.parts = rest;
        match (part, result) {
            (part, Err(error)) => self.failed(part, &error),
            (Part::Get { key, with_cas }, Ok(())) => self.found(key, *with_cas),
            (Part::Peek(op), Ok(())) => self.peeked(op),
            (Part::Step(step), Ok(())) => step.finish(self.counters, self.out),
            (Part::TooLarge { quiet, .. }, Ok(())) => {
                if !quiet {
                    write_line(error::TOO_LARGE, self.out);
                }
            }
            (Part::Flush { quiet }, Ok(())) => {
                self.counters.cmd_flush += 1;
                if !quiet {
                    write_line(b"OK", self.out);
                }
            }
            (Part::GetEnd | Part::Said(_) | Part::Lacks(_) | Part::Missed(_), Ok(())) => {}
        }
        self.has_row = false;
        self.say();
    }
}
