//! Answers on their way to a client.

use std::{
    io,
    task::{Context, Poll},
};

use tidegate_http::handlersocket::{
    END, SEPARATOR,
    answer::{Refusal, begin_rows, put_count, put_done, put_failure, put_refusal},
    put_value,
};
use tidegate_net::{buffers, session::Session};
use tidegate_rows::{
    Column, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value,
    number::{append_double, append_float, append_int, append_uint},
};
use tidegate_sql::table::Answers;

use crate::database::port::socket::Socket;

/// Bytes of answers that wait for the client before the request that makes more does.
const BACKLOG_BYTES: usize = 64 << 10;

/// Answers that are to be sent together.
pub(super) struct Outbox<'s> {
    socket: Socket<'s>,
    out: Vec<u8>,
    /// How much of them has been sent.
    sent: usize,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of so many columns.
    Rows(usize),
    /// How many rows were changed.
    Count,
    /// The number of the new row.
    Number,
    /// A number that says that the new row got none.
    NoNumber,
    /// Nothing but success.
    Nothing,
}

impl<'s> Outbox<'s> {
    pub(super) fn new(session: &'s Session) -> Self {
        Outbox { socket: Socket::new(session), out: Vec::new(), sent: 0 }
    }

    /// Adds an error.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        put_refusal(refusal, &mut self.out);
    }

    /// Adds a success that has nothing to tell.
    pub(super) fn done(&mut self) {
        put_done(&mut self.out);
    }

    /// Adds the answers to a batch whose requests want these forms.
    pub(super) fn answers<K: Iterator<Item = Kind>>(&mut self, mut kinds: K) -> BatchAnswers<'_, 's, K> {
        if self.out.capacity() == 0 {
            self.out = buffers::take();
        }
        let kind = kinds.next();
        let begun = self.out.len();
        BatchAnswers { outbox: self, kinds, kind, begun, told: Told::default(), broken: false }
    }

    /// Sends everything.
    ///
    /// # Errors
    /// The socket's; `TimedOut` if the client takes nothing for a minute.
    pub(super) async fn send(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_send(cx)).await
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = self.socket.poll_send(cx, &self.out, &mut self.sent);
        if done.is_ready() {
            self.out.clear();
            self.sent = 0;
        }
        done
    }

    /// Gives memory back to the worker.
    pub(super) fn give_back(&mut self) {
        buffers::give(std::mem::take(&mut self.out));
    }
}

/// The answers to a batch.
pub(super) struct BatchAnswers<'o, 's, K> {
    outbox: &'o mut Outbox<'s>,
    kinds: K,
    /// The form of the next answer.
    kind: Option<Kind>,
    /// Where it begins.
    begun: usize,
    told: Told,
    /// A part of an answer was sent whose request has failed.
    broken: bool,
}

/// What is known about the answer under way.
#[derive(Default)]
struct Told {
    /// A part of it has been sent.
    is_sent: bool,
    has_begun: bool,
    affected_rows: u64,
    insert_id: u64,
}

impl<K> BatchAnswers<'_, '_, K> {
    /// Whether the client cannot make sense of what it has got.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    fn begin(&mut self) {
        if let Some(Kind::Rows(width)) = self.kind
            && !std::mem::replace(&mut self.told.has_begun, true)
        {
            begin_rows(width, &mut self.outbox.out);
        }
    }

    fn fail(&mut self, error: &QueryError) {
        if self.told.is_sent {
            self.broken = true;
            return;
        }
        let out = &mut self.outbox.out;
        out.truncate(self.begun);
        match error {
            QueryError::Server(error) => match refusal_of(error.code) {
                Some(refusal) => put_refusal(refusal, out),
                None => put_failure(failure_of(error.code), out),
            },
            // The client has gone, or worse.
            _ => self.broken = true,
        }
    }
}

impl<K: Iterator<Item = Kind>> Answers for BatchAnswers<'_, '_, K> {
    fn ended(&mut self, result: Result<(), QueryError>) {
        match result {
            Err(error) => self.fail(&error),
            Ok(()) => {
                self.begin();
                let out = &mut self.outbox.out;
                match self.kind {
                    Some(Kind::Rows(_)) => out.push(END),
                    Some(Kind::Count) => put_count(self.told.affected_rows, out),
                    Some(Kind::Number) => put_count(self.told.insert_id, out),
                    Some(Kind::NoNumber) => put_count(0, out),
                    Some(Kind::Nothing) | None => put_done(out),
                }
            }
        }
        self.told = Told::default();
        self.kind = self.kinds.next();
        self.begun = self.outbox.out.len();
    }
}

impl<K> Sink for BatchAnswers<'_, '_, K> {
    fn columns(&mut self, _: &[Column]) {
        self.begin();
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            if !matches!(self.kind, Some(Kind::Rows(1..))) {
                return;
            }
            let out = &mut self.outbox.out;
            out.push(SEPARATOR);
            match value {
                Value::Null => put_value(None, out),
                Value::Int(number) => append_int(out, number),
                Value::Uint(number) => append_uint(out, number),
                Value::Float(number) => append_float(out, number),
                Value::Double(number) => append_double(out, number),
                Value::Bytes(bytes) => put_value(Some(bytes), out),
            }
        });
        if self.outbox.out.len() >= BACKLOG_BYTES { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, summary: &Summary) {
        (self.told.affected_rows, self.told.insert_id) = (summary.affected_rows, summary.insert_id);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        let sent = self.outbox.poll_send(cx);
        if sent.is_ready() {
            (self.begun, self.told.is_sent) = (0, true);
        }
        sent.map_err(|_| SinkClosed)
    }
}

/// What MySQL's error for a statement is to a client that has named tables, indexes and columns before.
fn refusal_of(code: u16) -> Option<Refusal> {
    Some(match code {
        1046 | 1049 | 1146 => Refusal::OpenTable,
        1054 => Refusal::Column,
        1176 => Refusal::Index,
        1235 => Refusal::KeyParts,
        _ => return None,
    })
}

/// The storage engine's number for MySQL's error; an error that no storage engine has keeps MySQL's.
///
/// Source: MariaDB, `include/my_base.h`, as `perror` shows the numbers.
fn failure_of(code: u16) -> u16 {
    match code {
        1062 => 121, // a key is there already
        1041 => 128, // no memory
        1114 => 135, // no room
        1205 => 146, // waited too long for a lock
        1206 => 147, // too many locks
        1213 => 149, // deadlock
        1452 => 151, // no row that a foreign key refers to
        1451 => 152, // a foreign key refers to the row
        1467 => 167, // no further number for AUTO_INCREMENT
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_storage_engines_numbers() {
        for (code, expected) in [(1062, 121), (1452, 151), (1451, 152), (1205, 146), (4025, 4025)] {
            assert_eq!((refusal_of(code), failure_of(code)), (None, expected));
        }
        for (code, expected) in [(1146, "open_table"), (1054, "fld"), (1176, "idxnum"), (1235, "kpnum")] {
            assert_eq!(refusal_of(code).map(|refusal| refusal.parts().1), Some(expected));
        }
    }
}
