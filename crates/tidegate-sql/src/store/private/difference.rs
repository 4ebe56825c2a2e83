//! The rows in which two connections differ: what a transaction has changed as the schema's writer is done again on a private
//! connection, whose watch lists and locks it.

use tidegate_rows::ServerError;

use super::{log::Step, shape::Shape};
use crate::{
    errors,
    store::{
        conn::{Conn, to_server_error},
        stmt::{self, Cell, Stmt},
    },
};
use std::rc::Rc;

/// What a list may take that was too long for a private transaction.
pub(crate) struct Room {
    rows: usize,
    bytes: usize,
}

impl Default for Room {
    /// Each row is locked as well, which takes some hundred bytes more.
    fn default() -> Self {
        Self { rows: 100_000, bytes: 64 << 20 }
    }
}

/// Has the rows of a table become on `to` what they are on `from`. False if they differ in more than there is room for; then
/// nothing has changed. It reads all of the table on both.
///
/// # Errors
/// Storage errors.
pub(crate) fn carry_over(from: &Conn, to: &mut Conn, table: i64, room: &mut Room) -> Result<bool, ServerError> {
    let shape = to.watch().and_then(|watch| watch.shapes.get(table).map(Rc::clone));
    let shape = shape.ok_or_else(|| errors::internal("a table without a shape"))?;
    let Some(steps) = differences(from, to, &shape, room)? else { return Ok(false) };
    steps.iter().try_for_each(|step| step.apply(to))?;
    Ok(true)
}

/// Rows that go come before those that come, so that no unique key is there twice in between.
fn differences(from: &Conn, to: &Conn, shape: &Rc<Shape>, room: &mut Room) -> Result<Option<Vec<Step>>, ServerError> {
    let sql = format!("SELECT rowid, * FROM t{} ORDER BY rowid", shape.id);
    let prepare = |conn: &Conn| conn.prepare(&sql).map_err(|error| to_server_error(&error));
    let (mut new, mut old) = (prepare(from)?, prepare(to)?);
    let (mut new_row, mut old_row) = (next(&mut new)?, next(&mut old)?);
    let columns = 1..=shape.columns.len();
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    loop {
        let (has_gone, has_come) = match (old_row, new_row) {
            (None, None) => break,
            (Some(a), Some(b)) if a == b => {
                let differs = columns.clone().any(|column| old.cell(column) != new.cell(column));
                (differs, differs)
            }
            (Some(a), b) if b.is_none_or(|b| a < b) => (true, false),
            _ => (false, true),
        };
        // A row that stands on both sides is left behind on both.
        let (leaves_old, leaves_new) = match (old_row, new_row) {
            (Some(a), Some(b)) => (a <= b, b <= a),
            (a, b) => (a.is_some(), b.is_some()),
        };
        if let Some(rowid) = old_row.filter(|_| has_gone) {
            gone.push(Step::Delete { shape: Rc::clone(shape), rowid });
        }
        if let Some(rowid) = new_row.filter(|_| has_come) {
            let values = columns.clone().map(|column| new.cell(column).to_owned()).collect();
            let step = Step::Insert { shape: Rc::clone(shape), rowid, values };
            let bytes = step.bytes().unwrap_or(0);
            if bytes > room.bytes {
                return Ok(None);
            }
            room.bytes -= bytes;
            come.push(step);
        }
        let rows = usize::from(has_gone || has_come);
        if rows > room.rows {
            return Ok(None);
        }
        room.rows -= rows;
        if leaves_old {
            old_row = next(&mut old)?;
        }
        if leaves_new {
            new_row = next(&mut new)?;
        }
    }
    gone.append(&mut come);
    Ok(Some(gone))
}

/// The row id of the next row.
fn next(stmt: &mut Stmt) -> Result<Option<i64>, ServerError> {
    match stmt.step().map_err(|error| to_server_error(&error))? {
        stmt::Step::Done => Ok(None),
        stmt::Step::Row => match stmt.cell(0) {
            Cell::Int(rowid) => Ok(Some(rowid)),
            _ => Err(errors::internal("a row without a number")),
        },
    }
}
