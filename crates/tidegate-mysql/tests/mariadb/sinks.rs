//! Sinks for tests.

use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_mysql::Conn;
use tidegate_rows::{
    Column, Execute, Flow, Format, Param, QueryError, Row, Sink, SinkClosed, Statement, Summary,
    csv::{Csv, CsvOptions, CsvTerminator},
    sink::Collect,
};

/// Sends a value of `len` bytes, as text and as a parameter, and checks that it comes back.
pub(crate) async fn comes_through(conn: &mut Conn, len: usize) {
    let value = Bytes::from(vec![b'x'; len]);
    let sql = [b"select '", &value[..], b"'"].concat();
    let mut sink = csv();
    conn.execute(Statement { sql: &sql, params: &[] }, &mut sink).await.unwrap();
    assert!(sink.out.len() == len + 1 && sink.out.starts_with(&value), "{len}");
    let mut sink = csv();
    let params = [Param::Bytes(value.clone())];
    conn.execute(Statement { sql: b"select ?", params: &params }, &mut sink).await.unwrap();
    assert!(sink.out.len() == len + 1 && sink.out.starts_with(&value), "{len}");
}

/// Rows as lines without names.
pub(crate) fn csv() -> Collect<Csv> {
    let options = CsvOptions { names: false, terminator: CsvTerminator::Lf, ..CsvOptions::default() };
    Collect { format: Csv::new(options), out: Vec::new() }
}

/// Runs a statement and returns its rows as lines.
pub(crate) async fn rows(conn: &mut impl Execute, sql: &str) -> Result<String, QueryError> {
    rows_with(conn, sql.as_bytes(), &[]).await
}

/// Runs a statement with parameters and returns its rows as lines.
pub(crate) async fn rows_with(conn: &mut impl Execute, sql: &[u8], params: &[Param]) -> Result<String, QueryError> {
    let mut sink = csv();
    conn.execute(Statement { sql, params }, &mut sink).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

/// A sink that is full after each row, and ready one poll later.
pub(crate) struct Slow<F> {
    pub(crate) inner: Collect<F>,
    pub(crate) waits: usize,
    pub(crate) close_after: usize,
    asked: bool,
}

impl<F: Format> Slow<F> {
    pub(crate) fn new(format: F) -> Self {
        Self { inner: Collect { format, out: Vec::new() }, waits: 0, close_after: usize::MAX, asked: false }
    }
}

impl<F: Format> Sink for Slow<F> {
    fn columns(&mut self, columns: &[Column]) {
        self.inner.columns(columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        let _ = self.inner.row(row);
        Flow::Full
    }
    fn end_result(&mut self, summary: &Summary) {
        self.inner.end_result(summary);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if self.waits >= self.close_after {
            return Poll::Ready(Err(SinkClosed));
        }
        self.asked = !self.asked;
        if self.asked {
            self.waits += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
