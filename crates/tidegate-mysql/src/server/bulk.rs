//! MariaDB's bulk execution: a prepared statement runs for each of several rows of values.
//!
//! ```text
//! number u32 | flags u16 | types, if a flag says so: u16 … | rows: for each parameter 0 and a value, or 1 for NULL, 2 or 3 for DEFAULT
//! ```
//!
//! All rows belong to one transaction: either the statement's effects are there for all of them, or for none. The client gets one
//! result, with the sums.
//!
//! Source: MariaDB, "COM_STMT_BULK_EXECUTE".

use std::{
    borrow::Cow,
    task::{Context, Poll},
};

use bytes::Bytes;
use tidegate_rows::{Column, Flow, Input, Param, QueryError, Row, ServerError, Sink, SinkClosed, Statement, Summary};

use super::{Backend, PreparedIn, defaults::with_defaults, statements::BulkRows};
use crate::answer::status;

/// Undone to where nothing of the bulk has happened.
const SAVEPOINT: &str = "`tidegate bulk`";

/// Runs a statement for all rows.
///
/// # Errors
/// The statement's for the first row that it fails for; 1210 for a packet that does not fit it. Nothing has happened then.
pub(super) async fn run<B: Backend>(
    backend: &mut B,
    sql: &Bytes,
    context: &PreparedIn,
    mut rows: BulkRows<'_>,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let is_free = backend.status() & status::AUTOCOMMIT != 0 && backend.status() & status::IN_TRANSACTION == 0;
    let begins = match changes_rows(sql) {
        false => None,
        true if is_free => Some(("START TRANSACTION".to_owned(), "COMMIT".to_owned(), "ROLLBACK".to_owned())),
        true => Some((
            format!("SAVEPOINT {SAVEPOINT}"),
            format!("RELEASE SAVEPOINT {SAVEPOINT}"),
            format!("ROLLBACK TO SAVEPOINT {SAVEPOINT}"),
        )),
    };
    if let Some((begin, ..)) = &begins {
        control(backend, begin).await?;
    }
    let mut sums = Sums { sink, has_columns: false, total: Summary::default(), runs: 0 };
    let done = run_rows(backend, sql, context, &mut rows, &mut sums).await;
    let Sums { has_columns, mut total, runs, .. } = sums;
    if let Some((_, end, undo)) = &begins {
        if let Err(error) = done {
            // The transaction may have gone with the error.
            let _ = control(backend, undo).await;
            return Err(error);
        }
        control(backend, end).await?;
    }
    done?;
    if runs > 1 && !has_columns && is_insert(sql) {
        let duplicates = if is_replace(sql) { total.affected_rows.saturating_sub(runs) } else { 0 };
        let warnings = total.warnings;
        total.info = format!("Records: {runs}  Duplicates: {duplicates}  Warnings: {warnings}").into_bytes().into();
    }
    total.status = backend.status();
    total.more_results = false;
    sink.end_result(&total);
    Ok(())
}

async fn run_rows<B: Backend>(
    backend: &mut B,
    sql: &Bytes,
    context: &PreparedIn,
    rows: &mut BulkRows<'_>,
    sums: &mut Sums<'_>,
) -> Result<(), QueryError> {
    while let Some(row) = rows.next(|text| backend.decoded(text))? {
        if row.ignores && !is_insert(sql) {
            return Err(no_ignored().into());
        }
        let text = match row.defaults.as_slice() {
            [] => Cow::Borrowed(&sql[..]),
            defaults => Cow::Owned(with_defaults(sql, defaults, context.sql_mode)),
        };
        backend.prepared_in(context.clone());
        backend.execute(Statement { sql: &text, params: &row.params }, sums).await?;
    }
    Ok(())
}

async fn control<B: Backend>(backend: &mut B, sql: &str) -> Result<(), QueryError> {
    let params: &[Param] = &[];
    backend.execute(Statement { sql: sql.as_bytes(), params }, &mut Nowhere).await
}

fn begins_with(sql: &[u8], word: &str) -> bool {
    let text = sql.trim_ascii_start();
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_replace(sql: &[u8]) -> bool {
    begins_with(sql, "REPLACE")
}

fn is_insert(sql: &[u8]) -> bool {
    begins_with(sql, "INSERT") || is_replace(sql)
}

fn changes_rows(sql: &[u8]) -> bool {
    is_insert(sql) || begins_with(sql, "UPDATE") || begins_with(sql, "DELETE")
}

/// A column that an UPDATE shall leave as it is. In an INSERT that is its default.
fn no_ignored() -> ServerError {
    ServerError::new(1235, b"42000", "This version of Tidegate doesn't yet support 'ignored values of a bulk UPDATE'")
}

/// Makes one result of several.
struct Sums<'a> {
    sink: &'a mut dyn Sink,
    has_columns: bool,
    total: Summary,
    runs: u64,
}

impl Sink for Sums<'_> {
    fn columns(&mut self, columns: &[Column]) {
        if !std::mem::replace(&mut self.has_columns, true) {
            self.sink.columns(columns);
        }
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.sink.row(row)
    }
    fn end_result(&mut self, summary: &Summary) {
        let total = &mut self.total;
        self.runs += 1;
        total.affected_rows += summary.affected_rows;
        total.warnings = total.warnings.saturating_add(summary.warnings);
        if total.insert_id == 0 {
            total.insert_id = summary.insert_id;
        }
        if self.runs == 1 {
            total.info.clone_from(&summary.info);
        }
        let mut changes = std::mem::take(&mut total.changes).into_vec();
        changes.extend(summary.changes.iter().cloned());
        total.changes = changes.into();
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.sink.poll_ready(cx)
    }
    fn input(&mut self) -> Option<&mut dyn Input> {
        None
    }
}

/// Wants nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}
