//! The requests of one arrival, as one batch of the engine.
//!
//! Lines are read until one that needs no rows, or is wrong: what stands before it is carried out first, so that answers come in
//! the order of the lines.

use std::{ops::Range, rc::Rc};

use tidegate_http::handlersocket::{
    answer::Refusal,
    request::{self, ChangeKind, Command, Operator, addend, line},
};
use tidegate_net::session::Session;
use tidegate_rows::Value;
use tidegate_sql::table::{
    Answer, Change, Comparison, Each, Filter, OnDuplicate, OpenTable, Otherwise, Request, Rows, Test,
};

use super::{
    Access, Port,
    indexes::{Client, OpenIndex},
    replies::{Kind, Outbox},
};

/// Requests that a batch carries out at most: their answers are on their way before the next ones run.
const REQUESTS_MAX: usize = 1024;

/// Bytes of a text that tell whether it is zero.
const NUMBER_BYTES_MAX: usize = 64;

/// What ends a batch.
pub(super) enum Last<'a> {
    /// Something that needs no rows.
    Command(Command<'a>),
    /// A wrong request.
    Refused(Refusal),
    /// There are enough requests.
    Full,
    /// There is no further line.
    None,
}

/// Requests to be carried out together.
#[derive(Default)]
pub(super) struct Batch<'a> {
    values: Vec<Value<'a>>,
    filters: Vec<request::Filter>,
    changes: Vec<Change<'a>>,
    tests: Vec<Filter<'a>>,
    requests: Vec<Item>,
}

/// A request, with its values in the lists of its batch.
struct Item {
    index: Rc<OpenIndex>,
    operator: Operator,
    key: Range<usize>,
    within: Option<(usize, Range<usize>)>,
    tests: Range<usize>,
    limit: u64,
    offset: u64,
    change: Option<(ChangeKind, Range<usize>, Answer)>,
    /// The new row has its number, and gets none.
    is_numbered: bool,
}

/// Reads lines off `rest` until one ends the batch.
pub(super) fn gather<'a>(port: &Port, client: &Client, rest: &mut &'a mut [u8]) -> (Batch<'a>, Last<'a>) {
    let mut batch = Batch::default();
    let may_ask = client.may_ask(&port.secret);
    while batch.requests.len() < REQUESTS_MAX {
        let Some(line) = take_line(rest) else { return (batch, Last::None) };
        let last = match Command::of(line) {
            Command::OnIndex(_) if !may_ask => Last::Refused(Refusal::Unauthorized),
            Command::OnIndex(request) => match client.index(request.number) {
                None if client.has_beyond(request.number) => Last::Refused(refusal_in_gap(request)),
                None => Last::Refused(Refusal::IndexNumber),
                Some(index) => match batch.add(index, request, port.access) {
                    Ok(()) => continue,
                    Err(refusal) => Last::Refused(refusal),
                },
            },
            command => Last::Command(command),
        };
        return (batch, last);
    }
    (batch, Last::Full)
}

/// What is wrong with a request whose index is not open, while one of a larger number is: its filters and its `@` are looked at
/// first, as the plugin does it.
fn refusal_in_gap(request: request::OnIndex<'_>) -> Refusal {
    let (mut values, mut filters): (Vec<Option<&[u8]>>, _) = (Vec::new(), Vec::new());
    match request.read(0, 0, &mut values, &mut filters) {
        Err(refusal @ (Refusal::FilterType | Refusal::FilterColumn | Refusal::WithinLength)) => refusal,
        _ => Refusal::IndexNumber,
    }
}

fn take_line<'a>(rest: &mut &'a mut [u8]) -> Option<&'a mut [u8]> {
    let input = std::mem::take(rest);
    let Some(end) = memchr::memchr(tidegate_http::handlersocket::END, input) else {
        *rest = input;
        return None;
    };
    let (first, others) = input.split_at_mut(end + 1);
    *rest = others;
    line(first, end).map(|(line, _)| line)
}

fn comparison(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Equal => Comparison::Equal,
        Operator::Greater => Comparison::Greater,
        Operator::AtLeast => Comparison::AtLeast,
        Operator::Less => Comparison::Less,
        Operator::AtMost => Comparison::AtMost,
        Operator::Insert | Operator::Sql => return None,
    })
}

impl<'a> Batch<'a> {
    /// Whether there is nothing to be done.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Its answer, if it is wrong.
    fn add(&mut self, index: &Rc<OpenIndex>, request: request::OnIndex<'a>, access: Access) -> Result<(), Refusal> {
        let (width, parts) = (index.table.width(), index.traits.parts);
        let read = request.read(width, index.traits.blobs.len(), &mut self.values, &mut self.filters)?;
        let mut item = Item {
            index: Rc::clone(index),
            operator: read.operator,
            key: read.values.clone(),
            within: None,
            tests: self.tests.len()..self.tests.len(),
            limit: u64::from(read.limit.max(1)),
            offset: read.offset.into(),
            change: None,
            is_numbered: false,
        };
        match read.operator {
            Operator::Sql => return Err(Refusal::NotImplemented),
            Operator::Insert if access == Access::Read => return Err(Refusal::ReadOnly),
            Operator::Insert => {
                item.key = self.padded(item.key, width.min(read.count as usize));
                self.without_nulls(&item);
                item.is_numbered = self.is_numbered(&item);
            }
            _ => {
                if let Some(change) = &read.change {
                    item.change = Some(self.change(index, change, access)?);
                }
                if read.count as usize > parts {
                    return Err(Refusal::KeyParts);
                }
                item.key = self.padded(item.key, read.count as usize);
                item.within = read.within.map(|(part, values)| self.within(&item.key, part as usize, values));
                self.tests(&mut item, &read.filters)?;
            }
        }
        self.requests.push(item);
        Ok(())
    }

    /// So many values: those of a range, then empty strings.
    fn padded(&mut self, range: Range<usize>, count: usize) -> Range<usize> {
        if range.len() >= count {
            return range.start..range.start + count;
        }
        let start = self.values.len();
        self.values.extend_from_within(range.clone());
        self.values.resize(start + count, Value::Bytes(b""));
        start..start + count
    }

    /// The values of `@`. One that names no part of the key has the same row found again and again, as at DeNA's server.
    fn within(&mut self, key: &Range<usize>, part: usize, values: Range<usize>) -> (usize, Range<usize>) {
        if part < key.len() {
            return (part, values);
        }
        let start = self.values.len();
        self.values.resize(start + values.len(), self.values[key.start]);
        (0, start..self.values.len())
    }

    /// NULL for a column that takes none is an empty value, as when such a row is read.
    fn without_nulls(&mut self, item: &Item) {
        let traits = &item.index.traits;
        for (column, value) in self.values[item.key.clone()].iter_mut().enumerate() {
            if matches!(value, Value::Null) && !traits.takes_null(column) {
                *value = Value::Bytes(b"");
            }
        }
    }

    /// Whether a value for the AUTO_INCREMENT column stands among those of a new row: anything but NULL and zero.
    fn is_numbered(&self, item: &Item) -> bool {
        let column = item.index.traits.numbered.filter(|column| *column < item.key.len());
        column.is_some_and(|column| match self.values[item.key.start + column] {
            Value::Bytes(text) => whole_number(text) != 0.0,
            _ => false,
        })
    }

    fn change(
        &mut self,
        index: &OpenIndex,
        change: &request::Change,
        access: Access,
    ) -> Result<(ChangeKind, Range<usize>, Answer), Refusal> {
        if access == Access::Read {
            return Err(Refusal::ReadOnly);
        }
        let start = self.changes.len();
        let values = self.values[change.values.clone()].iter();
        match change.kind {
            ChangeKind::Unknown => return Err(Refusal::Change),
            ChangeKind::Delete => {}
            ChangeKind::Update => self.changes.extend(values.enumerate().map(|(column, value)| match value {
                Value::Null if !index.traits.nullable[column] => Change::Keep,
                value => Change::Set(*value),
            })),
            ChangeKind::Increment | ChangeKind::Decrement => {
                let subtracts = change.kind == ChangeKind::Decrement;
                self.changes.extend(values.map(|value| match value {
                    Value::Bytes(text) if subtracts => Change::Subtract(addend(text)),
                    Value::Bytes(text) => Change::Add(addend(text)),
                    _ => Change::Keep,
                }));
            }
        }
        let answer = if change.answers_rows { Answer::OldRows } else { Answer::Number };
        Ok((change.kind, start..self.changes.len(), answer))
    }

    fn tests(&mut self, item: &mut Item, filters: &Range<usize>) -> Result<(), Refusal> {
        for filter in &self.filters[filters.clone()] {
            let (column, value) = (filter.column as usize, self.values[filter.value]);
            if item.index.traits.blobs[column] && !matches!(value, Value::Null) {
                return Err(Refusal::FilterBlob);
            }
            let test = match filter.test {
                request::Test::Equal => Test::Compares(Comparison::Equal),
                request::Test::NotEqual => Test::Differs,
                request::Test::Greater => Test::Compares(Comparison::Greater),
                request::Test::AtLeast => Test::Compares(Comparison::AtLeast),
                request::Test::Less => Test::Compares(Comparison::Less),
                request::Test::AtMost => Test::Compares(Comparison::AtMost),
                request::Test::Always => continue,
                request::Test::Never => {
                    // No row passes, or one that comes before it has ended the search: nothing is found either way.
                    item.limit = 0;
                    continue;
                }
            };
            let otherwise = if filter.ends { Otherwise::Stop } else { Otherwise::Skip };
            self.tests.push(Filter { column, test, value, otherwise });
        }
        item.tests.end = self.tests.len();
        Ok(())
    }

    fn request<'b>(&'b self, item: &'b Item, each: &'b Option<Each<'b>>) -> Request<'b> {
        let Some(comparison) = comparison(item.operator) else {
            return Request::Insert(&self.values[item.key.clone()], OnDuplicate::Fail);
        };
        let rows = Rows {
            comparison,
            key: &self.values[item.key.clone()],
            each: *each,
            filters: &self.tests[item.tests.clone()],
            limit: item.limit,
            offset: item.offset,
        };
        match &item.change {
            None => Request::Find(rows),
            Some((ChangeKind::Delete, _, answer)) => Request::Delete(rows, *answer),
            Some((_, changes, answer)) => Request::Update(rows, &self.changes[changes.clone()], *answer),
        }
    }

    /// Carries the requests out.
    ///
    /// # Errors
    /// The connection is to be closed.
    pub(super) async fn run(&self, port: &Port, outbox: &mut Outbox<'_>, client: &Session) -> Result<(), ()> {
        let mut session = match port.take_session() {
            Ok(session) => session,
            Err(reason) => {
                super::note(client, tidegate_net::log::Level::Error, format_args!("no session: {reason}"));
                self.requests.iter().for_each(|_| outbox.refuse(Refusal::LockTables));
                return Ok(());
            }
        };
        let each: Vec<Option<Each<'_>>> = self.requests.iter().map(|item| self.each(item)).collect();
        let requests: Vec<(&OpenTable, Request<'_>)> =
            self.requests.iter().zip(&each).map(|(item, each)| (&item.index.table, self.request(item, each))).collect();
        let kinds = self.requests.iter().map(kind_of);
        let mut answers = outbox.answers(kinds);
        session.run_requests(&requests, &mut answers).await;
        let broken = answers.is_broken();
        port.give_session(session);
        if broken { Err(()) } else { Ok(()) }
    }

    fn each<'b>(&'b self, item: &Item) -> Option<Each<'b>> {
        let (part, values) = item.within.as_ref()?;
        Some(Each { part: *part, values: &self.values[values.clone()] })
    }
}

fn kind_of(item: &Item) -> Kind {
    match &item.change {
        None if item.operator == Operator::Insert => match item.index.traits.numbers_rows {
            true if item.is_numbered => Kind::NoNumber,
            true => Kind::Number,
            false => Kind::Nothing,
        },
        None | Some((_, _, Answer::OldRows)) => Kind::Rows(item.index.table.width()),
        Some((_, _, Answer::Number)) => Kind::Count,
    }
}

/// The whole number that a column of numbers makes of a text.
fn whole_number(text: &[u8]) -> f64 {
    let text = text.trim_ascii();
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    let size = text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len());
    // The longest beginning that is a number.
    let number = (1..=size.min(NUMBER_BYTES_MAX))
        .rev()
        .find_map(|size| std::str::from_utf8(&text[..size]).ok()?.parse::<f64>().ok());
    number.unwrap_or_default().round()
}

#[cfg(test)]
mod tests {
    use super::whole_number;

    #[test]
    fn numbers_stand_at_the_beginning_of_texts() {
        for (text, number) in [
            ("", 0.0),
            ("0", 0.0),
            ("x1", 0.0),
            ("0.4", 0.0),
            ("0.5", 1.0),
            (" 12x", 12.0),
            ("-3", -3.0),
            ("1e2e", 100.0),
        ] {
            assert_eq!(whole_number(text.as_bytes()), number, "{text}");
        }
    }
}
