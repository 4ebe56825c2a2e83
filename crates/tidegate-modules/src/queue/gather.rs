//! A sink that keeps what requests to tables answer.

use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_rows::{Column, Flow, Param, QueryError, Row, Sink, SinkClosed, Summary, Value};
use tidegate_sql::table::Answers;

/// Rows, and what became of each request of a batch.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// The rows of all requests.
    pub(super) rows: Vec<Vec<Param>>,
    /// For each request that has ended the rows that it has changed, or why it failed.
    pub(super) ended: Vec<Result<u64, QueryError>>,
    /// The number that the last INSERT has given.
    pub(super) insert_id: u64,
    changed: u64,
    /// How many bytes of texts it keeps yet; `None` for any number.
    room: Option<usize>,
}

impl Gather {
    /// Keeps the first rows, up to the one with which their texts have so many bytes.
    pub(super) fn up_to(bytes: usize) -> Self {
        Gather { room: Some(bytes), ..Gather::default() }
    }

    /// Rows that the only request has changed.
    ///
    /// # Errors
    /// The first that there was.
    pub(super) fn changed(self) -> Result<u64, QueryError> {
        self.ended.into_iter().sum()
    }
}

impl Sink for Gather {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        if self.room == Some(0) {
            return Flow::More;
        }
        self.rows.push(Vec::new());
        row.each(|_, value| {
            if let (Some(room), Value::Bytes(bytes)) = (&mut self.room, &value) {
                *room = room.saturating_sub(bytes.len());
            }
            let value = match value {
                Value::Null => Param::Null,
                Value::Int(number) => Param::Int(number),
                Value::Uint(number) => Param::Uint(number),
                Value::Float(number) => Param::Double(number.into()),
                Value::Double(number) => Param::Double(number),
                Value::Bytes(bytes) => Param::Bytes(Bytes::copy_from_slice(bytes)),
            };
            if let Some(row) = self.rows.last_mut() {
                row.push(value);
            }
        });
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.changed = summary.affected_rows;
        self.insert_id = summary.insert_id;
    }
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

impl Answers for Gather {
    fn ended(&mut self, result: Result<(), QueryError>) {
        let changed = std::mem::take(&mut self.changed);
        self.ended.push(result.map(|()| changed));
    }
}

/// A column's value as a whole number; 0 for NULL.
pub(super) fn number(value: Option<&Param>) -> u64 {
    match value {
        Some(Param::Uint(number)) => *number,
        Some(Param::Int(number)) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

/// A column's bytes; `None` for NULL.
pub(super) fn bytes(value: Option<&Param>) -> Option<Bytes> {
    match value {
        Some(Param::Bytes(bytes) | Param::Typed(_, bytes)) => Some(bytes.clone()),
        _ => None,
    }
}
