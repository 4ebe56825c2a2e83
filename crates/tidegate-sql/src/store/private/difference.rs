//! The rows in which two connections differ: what a transaction has changed as the schema's writer is listed, and locked, so that
//! it can be done again as a private transaction's.

use std::sync::{Arc, atomic::Ordering};

use tidegate_rows::ServerError;

use super::{
    former::Former,
    log::Step,
    shape::Shape,
    watch::{Purpose, Watch},
};
use crate::{
    catalog::{Catalog, TableState},
    errors,
    row_locks::Owner,
    store::{
        conn::{Conn, to_server_error},
        hook::{Change, Kind},
        stmt::{self, Cell, Stmt},
    },
};

/// What a list may take that was too long for a private transaction.
pub(crate) struct Room {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// Rows that may be listed. Each of them and of their keys is locked as well, which takes some hundred bytes more.
const LISTED_ROWS_MAX: usize = 250_000;
/// Bytes of these rows.
const LISTED_BYTES_MAX: usize = 128 << 20;

impl Default for Room {
    fn default() -> Self {
        Self { rows: LISTED_ROWS_MAX, bytes: LISTED_BYTES_MAX }
    }
}

/// How listing has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    /// All changes are in the list of the private connection.
    All,
    /// They are more than there is room for.
    TooMuch,
    /// It was told to stop.
    Interrupted,
}

/// The two sides of a comparison.
struct Sides<'a> {
    /// The version of the newest definitions, and these.
    definitions: (u64, &'a Catalog),
    /// The connection of the writer.
    new: &'a Conn,
    /// The newest commit, with what was listed before.
    old: &'a mut Conn,
    owner: &'a Owner,
    room: Room,
    /// False when it is to stop.
    goes_on: &'a dyn Fn() -> bool,
}

/// Has a private connection list what a transaction has changed in `tables` as the schema's writer, and its owner lock that and what
/// was noted: all of these tables is read on both connections. If there is not [all](Listed::All) in the list, `former` has the one of before
/// again. `goes_on` is asked between two rows. `definitions` are the newest, and their version.
///
/// # Errors
/// Storage errors.
pub(crate) fn list(
    definitions: (u64, &Catalog),
    writer: &Conn,
    private: &mut Conn,
    owner: &Arc<Owner>,
    former: &mut Former,
    tables: &[Arc<TableState>],
    room: Room,
    goes_on: &dyn Fn() -> bool,
) -> Result<Listed, ServerError> {
    if !former.notes.lock(owner, goes_on) {
        return Ok(if goes_on() { Listed::TooMuch } else { Listed::Interrupted });
    }
    private.enforce_foreign_keys(false);
    private.begin_immediate().map_err(|error| to_server_error(&error))?;
    former.log.apply(private)?;
    let log = std::mem::take(&mut former.log);
    let mark = log.mark();
    private.set_watch(Some(Box::new(Watch::new(Purpose::Private { owner: Arc::clone(owner), log }))));
    let sides = Sides { definitions, new: writer, old: private, owner, room, goes_on };
    let listed = sides.compare(tables);
    private.rollback();
    if let Some(log) = private.watch().and_then(Watch::log) {
        if matches!(listed, Ok(Listed::All)) {
            log.forget_stored_autos();
        } else {
            log.truncate(mark);
            former.log = std::mem::take(log);
        }
    }
    listed
}

impl Sides<'_> {
    fn compare(mut self, tables: &[Arc<TableState>]) -> Result<Listed, ServerError> {
        let (_, catalog) = self.definitions;
        let is_meant = |state: &Arc<TableState>| tables.iter().any(|table| Arc::ptr_eq(table, state));
        let changed: Vec<_> = catalog.tables.values().filter(|table| is_meant(&table.state)).collect();
        self.old.learn(self.definitions, changed.iter().map(|table| table.id))?;
        for table in changed {
            let shape = self.old.watch().and_then(|watch| watch.shapes.get(table.id).map(Arc::clone));
            let shape = shape.ok_or_else(|| errors::internal("a table without a shape"))?;
            let (listed, steps, last) = self.differences(&shape)?;
            if listed != Listed::All {
                return Ok(listed);
            }
            if !steps.is_empty() {
                // Those who do not see these rows would be given the same row ids, which are locked.
                table.state.next_rowid.fetch_max(last.max(0).saturating_add(1), Ordering::AcqRel);
            }
            let Some(log) = self.old.watch().and_then(Watch::log) else { continue };
            log.extend(steps);
            if table.columns.iter().any(|column| column.auto_increment) {
                log.keep_auto(table.id, &table.state);
            }
        }
        Ok(Listed::All)
    }

    /// The differences in a table, and the last row id of both sides. Rows that go come before those that come, so that no unique
    /// key is there twice in between.
    fn differences(&mut self, shape: &Arc<Shape>) -> Result<(Listed, Vec<Step>, i64), ServerError> {
        let sql = format!("SELECT rowid, * FROM t{} ORDER BY rowid", shape.id);
        let prepare = |conn: &Conn| conn.prepare(&sql).map_err(|error| to_server_error(&error));
        let (mut new, mut old) = (prepare(self.new)?, prepare(self.old)?);
        let (mut new_row, mut old_row) = (next(&mut new)?, next(&mut old)?);
        let columns = 1..=shape.columns.len();
        let (mut gone, mut come, mut last) = (Vec::new(), Vec::new(), 0);
        while let Some(rowid) = first_of(old_row, new_row) {
            last = rowid;
            let (on_old, on_new) = (old_row == Some(rowid), new_row == Some(rowid));
            let kind = match (on_old, on_new) {
                (true, false) => Some(Kind::Delete),
                (false, _) => Some(Kind::Insert),
                (true, true) => {
                    columns.clone().any(|column| old.cell(column) != new.cell(column)).then_some(Kind::Update)
                }
            };
            if let Some(kind) = kind {
                if kind != Kind::Insert {
                    gone.push(Step::Delete { shape: Arc::clone(shape), rowid });
                }
                let mut bytes = 0;
                if kind != Kind::Delete {
                    let values = columns.clone().map(|column| new.cell(column).to_owned()).collect();
                    let step = Step::Insert { shape: Arc::clone(shape), rowid, values };
                    bytes = step.bytes().unwrap_or(0);
                    come.push(step);
                }
                if !self.room.take(bytes) || !self.lock(shape, &Change::between(kind, rowid, &old, &new)) {
                    return Ok((Listed::TooMuch, Vec::new(), last));
                }
            }
            if !(self.goes_on)() {
                return Ok((Listed::Interrupted, Vec::new(), last));
            }
            if on_old {
                old_row = next(&mut old)?;
            }
            if on_new {
                new_row = next(&mut new)?;
            }
        }
        gone.append(&mut come);
        Ok((Listed::All, gone, last))
    }

    /// Locks what a change must have locked; false if somebody else has, which the writer's own care rules out.
    fn lock(&self, shape: &Shape, change: &Change<'_>) -> bool {
        let mut all = true;
        shape.locks(change, |resource, mode| all &= self.owner.take(resource, mode).is_some());
        all
    }
}

impl Room {
    /// Takes room for a row; false if there is none.
    fn take(&mut self, bytes: usize) -> bool {
        if self.rows == 0 || self.bytes < bytes {
            return false;
        }
        self.rows -= 1;
        self.bytes -= bytes;
        true
    }
}

/// The smaller of two row ids that may be there.
fn first_of(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
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
