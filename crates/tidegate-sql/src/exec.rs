//! Running plans: bind, step, hand rows to the sink; and the writing statements, row by row.

mod auto;
pub(crate) mod bind;
pub(crate) mod call;
pub(crate) mod conflict;
pub(crate) mod copy;
pub(crate) mod fire;
mod fired;
mod insert;
mod late;
pub(crate) mod load;
pub(crate) mod program;
pub(crate) mod revise;
pub(crate) mod rules;
mod update;
pub(crate) mod walk;
pub(crate) mod write;

use std::future::poll_fn;

use smallvec::SmallVec;
use tidegate_rows::{Column, Field, Flow, QueryError, Row, ServerError, Sink};

use crate::{
    errors,
    store::conn::{Cell, Step, Stmt, to_server_error},
    task,
    value::out::Out,
};

/// Fields of a row that need no memory of their own.
const FIELDS: usize = 16;

/// The row of these columns and cells.
#[inline]
fn fields<'v>(outs: &'v [Out], cell: impl Fn(usize) -> Cell<'v>) -> SmallVec<[Field<'v>; FIELDS]> {
    outs.iter().enumerate().map(|(index, out)| out.field(cell(index))).collect()
}

/// Why the wait for a sink was over before the sink was ready.
#[cold]
fn stopped() -> QueryError {
    if task::has_read_for_too_long() {
        errors::read_for_too_long().into()
    } else if task::is_killed() {
        errors::interrupted().into()
    } else {
        QueryError::SinkClosed(tidegate_rows::SinkClosed)
    }
}

/// Hands the rows of RETURNING to the sink, inside of a coroutine.
///
/// # Errors
/// That the sink has gone.
pub(crate) fn send_returned(rows: &write::ReturnedRows, sink: &mut dyn Sink) -> Result<(), QueryError> {
    task::block_on_to_end(deliver_returned(rows, sink)).map_err(|_| stopped())?
}

/// Hands the rows of RETURNING to the sink, outside of a coroutine.
///
/// # Errors
/// That the sink has gone.
pub(crate) async fn deliver_returned(rows: &write::ReturnedRows, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let returned = &rows.returned;
    sink.columns(&returned.columns);
    for row in rows.cells.chunks(returned.outs.len().max(1)) {
        if sink.row(Row(&fields(&returned.outs, |index| row[index].as_cell()))) == Flow::Full {
            poll_fn(|cx| sink.poll_ready(cx)).await?;
        }
    }
    Ok(())
}

/// Hands the row that a query stands on to the sink.
#[inline]
fn send_row(stmt: &Stmt, outs: &[Out], sink: &mut dyn Sink) -> Result<(), QueryError> {
    if sink.row(Row(&fields(outs, |index| stmt.cell(index)))) == Flow::Full {
        task::block_on_to_end(poll_fn(|cx| sink.poll_ready(cx))).map_err(|_| stopped())??;
    }
    Ok(())
}

/// Steps a bound query to its end and hands its rows to the sink. Answers their number. `begun` is asked when the query has
/// its snapshot, before anything is sent.
///
/// # Errors
/// Those of `begun`, the statement's, or that the sink has gone. The statement must be reset afterwards.
pub(crate) fn pump(
    stmt: &mut Stmt,
    columns: &[Column],
    outs: &[Out],
    begun: impl FnOnce() -> Result<(), ServerError>,
    sink: &mut dyn Sink,
) -> Result<u64, QueryError> {
    let mut rows = 0;
    let mut step = stmt.step().map_err(|error| to_server_error(&error))?;
    begun()?;
    sink.columns(columns);
    while step == Step::Row {
        rows += 1;
        send_row(stmt, outs, sink)?;
        step = stmt.step().map_err(|error| to_server_error(&error))?;
    }
    Ok(rows)
}
