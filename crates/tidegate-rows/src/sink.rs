//! The interface between a back end that has rows and whoever wants them.

use std::task::{Context, Poll};

use crate::{Column, Param, QueryError, Row, Value};

/// Whether a sink takes more rows now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// More rows are welcome.
    More,
    /// The sink's buffer is full: call [`Sink::poll_ready`] before the next row.
    Full,
}

/// The receiver of the rows has gone; the statement need not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of the rows has gone")]
pub struct SinkClosed;

/// How a statement of a batch ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Rows changed; 0 for a result set.
    pub affected_rows: u64,
    /// First value generated for an `AUTO_INCREMENT` column; 0 if none.
    pub insert_id: u64,
    /// Number of warnings.
    pub warnings: u16,
    /// Server status bits, as MySQL's OK packet has them.
    pub status: u16,
    /// Text such as `Rows matched: 1  Changed: 1  Warnings: 0`; often empty.
    pub info: Box<[u8]>,
    /// Another result of the same batch follows.
    pub more_results: bool,
    /// What the statement has changed of the session, where the session tells.
    pub changes: Box<[SessionChange]>,
}

/// Something of a session that is another thing from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// The current schema.
    Schema(String),
    /// A system variable, with the value that it has now.
    Variable(&'static str, String),
    /// Anything.
    State,
}

/// Receives the results of a statement, in this order for each result:
/// [`columns`](Self::columns), any number of times [`row`](Self::row), [`end_result`](Self::end_result). A statement that
/// returns no rows calls `end_result` alone. After an error nothing more is called.
pub trait Sink {
    /// A result set begins.
    fn columns(&mut self, columns: &[Column]);
    /// A row: a field for each column.
    fn row(&mut self, row: Row<'_>) -> Flow;
    /// The result is complete.
    fn end_result(&mut self, summary: &Summary);
    /// Waits until a sink that answered [`Flow::Full`] has room.
    ///
    /// # Errors
    /// [`SinkClosed`] when nobody reads any more: the back end stops the statement.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>>;
    /// The other direction: how to ask whoever takes the results for a file (`LOAD DATA LOCAL INFILE`). `None` where nobody sends one.
    fn input(&mut self) -> Option<&mut dyn Input> {
        None
    }
}

/// A file that whoever takes a statement's results sends for it.
pub trait Input {
    /// Asks for the file of this name. A statement asks for one file.
    fn open(&mut self, name: &[u8]);
    /// Appends what has come of the file to `out`, and answers whether there may be more; `false` at its end.
    ///
    /// # Errors
    /// [`SinkClosed`] when nobody sends any more.
    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, SinkClosed>>;
}

/// A way to write results as bytes: each call appends to `out`. The calls come in the order of [`Sink`], and a row may come in
/// pieces, from where it arrives so.
pub trait Format {
    /// A result set begins.
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>);
    /// A row begins.
    fn begin_row(&mut self, out: &mut Vec<u8>);
    /// The next value of the row.
    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>);
    /// The row is complete.
    fn end_row(&mut self, out: &mut Vec<u8>);
    /// A whole row.
    #[inline]
    fn row(&mut self, row: Row<'_>, out: &mut Vec<u8>) {
        self.begin_row(out);
        row.each(|index, value| self.value(index, value, out));
        self.end_row(out);
    }
    /// The result is complete.
    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>);
    /// There is no result but an error: in an RDS stream that somebody else produced. Without a notation for errors of its
    /// own a format writes the text where remarks stand.
    fn failure(&mut self, _errcode: u16, errstr: &[u8], out: &mut Vec<u8>) {
        self.end_result(&Summary { info: errstr.into(), ..Summary::default() }, out);
    }
}

/// A `Vec<u8>` as destination: collects everything, is never full.
#[derive(Debug, Default)]
pub struct Collect<F> {
    /// Notation in which rows are written.
    pub format: F,
    /// The text that was written so far.
    pub out: Vec<u8>,
}

impl<F: Format> Sink for Collect<F> {
    fn columns(&mut self, columns: &[Column]) {
        self.format.columns(columns, &mut self.out);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.format.row(row, &mut self.out);
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.format.end_result(summary, &mut self.out);
    }
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

/// A statement to run.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// The text, in MySQL's dialect. With parameters, each `?` outside of quotes and comments stands for one of them.
    pub sql: &'a [u8],
    /// Values for the `?` in order; empty for a statement without parameters, which may then be a batch of several
    /// statements separated by `;`.
    pub params: &'a [Param],
}

/// A session with a database: what a statement runs on.
#[allow(async_fn_in_trait, reason = "futures stay on their worker's thread; Send is never wanted")]
pub trait Execute {
    /// Runs a statement (or a batch) and streams its results into `sink`.
    ///
    /// Dropping the future stops the statement; the session is then no longer usable and must not return to a pool.
    ///
    /// # Errors
    /// See [`QueryError`]; [`QueryError::Server`] leaves the session usable.
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError>;
}
