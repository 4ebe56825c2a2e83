//! What a transaction has changed, row by row, and how that is done again.

use std::sync::{Arc, atomic::Ordering};

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::shape::Shape;
use crate::{
    catalog::TableState,
    errors,
    store::{
        conn::{Cell, Conn, SqliteError, to_server_error},
        hook::{Change, Kind},
    },
    value::Datum,
};

/// Rows that a transaction may have changed on its private connection. One that changes more becomes the schema's writer:
/// doing them again for each commit of others would cost more than making others wait.
pub(crate) const ROWS_MAX: usize = 1000;
/// Bytes of the rows that it has written: SQLite writes a changed row as a whole, and its pages stay in memory.
pub(crate) const BYTES_MAX: usize = 4 << 20;

/// One step of the list.
pub(super) enum Step {
    Insert { shape: Arc<Shape>, rowid: i64, values: Box<[Datum]> },
    Update { shape: Arc<Shape>, from: i64, values: Box<[(usize, Datum)]>, bytes: usize },
    Delete { shape: Arc<Shape>, rowid: i64 },
    Savepoint(String),
}

/// The changes of a transaction in their order.
#[derive(Default)]
pub(crate) struct Log {
    steps: Vec<Step>,
    rows: usize,
    bytes: usize,
    /// Tables whose next AUTO_INCREMENT value goes into the file with the commit.
    autos: Vec<(i64, Arc<TableState>)>,
}

impl Log {
    /// Whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether foreign keys begin or end in one of its tables.
    pub(crate) fn has_foreign_keys(&self) -> bool {
        self.steps.iter().filter_map(Step::shape).any(Shape::has_foreign_keys)
    }

    /// The numbers of the tables whose rows it has changed; of some more than once.
    pub(crate) fn tables(&self) -> impl Iterator<Item = i64> {
        self.steps.iter().filter_map(Step::shape).map(|shape| shape.id)
    }

    /// Whether the transaction changes too much for a private connection.
    pub(crate) fn is_full(&self) -> bool {
        self.rows > ROWS_MAX || self.bytes > BYTES_MAX
    }

    /// Forgets what has happened to a table.
    pub(crate) fn forget_table(&mut self, table: i64) {
        let steps = std::mem::take(&mut self.steps);
        (self.rows, self.bytes) = (0, 0);
        for step in steps.into_iter().filter(|step| step.shape().is_none_or(|shape| shape.id != table)) {
            self.bytes += step.bytes().unwrap_or(0);
            self.rows += usize::from(step.bytes().is_some());
            self.steps.push(step);
        }
        self.autos.retain(|(known, _)| *known != table);
    }

    /// Whether it has this savepoint.
    pub(crate) fn has_savepoint(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A savepoint of this name is made behind the end of the list.
    pub(crate) fn forget_savepoint(&mut self, name: &str) {
        self.steps.retain(|step| !step.is_savepoint(name));
    }

    /// The file has lost the AUTO_INCREMENT values that [`apply_to_commit`](Self::apply_to_commit) has written.
    pub(crate) fn forget_stored_autos(&self) {
        self.autos.iter().for_each(|(_, state)| state.stored_auto.store(0, Ordering::Release));
    }

    /// Where the list ends now, for [`truncate`](Self::truncate).
    pub(crate) fn mark(&self) -> usize {
        self.steps.len()
    }

    /// Forgets what was noted since [`mark`](Self::mark).
    pub(crate) fn truncate(&mut self, mark: usize) {
        for step in self.steps.drain(mark..) {
            let bytes = step.bytes();
            self.bytes -= bytes.unwrap_or(0);
            self.rows -= usize::from(bytes.is_some());
        }
    }

    /// Notes a row before it changes.
    pub(super) fn add(&mut self, shape: &Arc<Shape>, change: &Change<'_>) {
        let shape = Arc::clone(shape);
        let columns = 0..shape.columns.len();
        let step = match change.kind {
            Kind::Insert => {
                let values = columns.map(|column| change.after(column).to_owned()).collect();
                Step::Insert { shape, rowid: change.to, values }
            }
            Kind::Update => {
                let bytes = columns.clone().map(|column| size_of_value(change.after(column))).sum();
                let changed = columns.filter(|column| change.before(*column) != change.after(*column));
                let values = changed.map(|column| (column, change.after(column).to_owned())).collect();
                Step::Update { shape, from: change.from, values, bytes }
            }
            Kind::Delete => Step::Delete { shape, rowid: change.from },
        };
        self.rows += 1;
        self.bytes += step.bytes().unwrap_or(0);
        self.steps.push(step);
    }

    /// Adds steps that have been done.
    pub(super) fn extend(&mut self, steps: Vec<Step>) {
        for step in &steps {
            self.rows += 1;
            self.bytes += step.bytes().unwrap_or(0);
        }
        self.steps.extend(steps);
    }

    /// A savepoint is made here; an older one of this name goes.
    pub(crate) fn savepoint(&mut self, name: &str) {
        self.steps.retain(|step| !step.is_savepoint(name));
        self.steps.push(Step::Savepoint(name.to_owned()));
    }

    /// Forgets what was noted since a savepoint was made.
    pub(crate) fn rollback_to(&mut self, name: &str) {
        if let Some(at) = self.find(name) {
            self.truncate(at + 1);
        }
    }

    /// Forgets a savepoint and those after it, but not what was changed since.
    pub(crate) fn release(&mut self, name: &str) {
        if let Some(at) = self.find(name) {
            let rest = self.steps.split_off(at);
            self.steps.extend(rest.into_iter().filter(|step| !matches!(step, Step::Savepoint(_))));
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.steps.iter().rposition(|step| step.is_savepoint(name))
    }

    /// The next AUTO_INCREMENT value of a table goes into the file with the commit.
    pub(crate) fn keep_auto(&mut self, table: i64, state: &Arc<TableState>) {
        if !self.autos.iter().any(|(known, _)| *known == table) {
            self.autos.push((table, Arc::clone(state)));
        }
    }

    /// Does the changes again in the transaction that is open on `conn`, with the savepoints between them.
    ///
    /// # Errors
    /// 1213 if a row is not as it was expected, which locks rule out; storage errors.
    pub(crate) fn apply(&self, conn: &mut Conn) -> Result<(), ServerError> {
        // What foreign keys do to other rows stands in the list; their order is another than that of checks.
        let keys = self.has_foreign_keys();
        let enforced = conn.enforces_foreign_keys();
        if keys {
            conn.enforce_foreign_keys(false);
        }
        let result = self.steps.iter().try_for_each(|step| step.apply(conn));
        if keys {
            conn.enforce_foreign_keys(enforced);
        }
        result
    }

    /// As [`apply`](Self::apply), with all that belongs into the file when the transaction commits.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(crate) fn apply_to_commit(&self, conn: &mut Conn) -> Result<(), ServerError> {
        self.apply(conn)?;
        for (table, state) in &self.autos {
            let next = state.next_auto.load(Ordering::Acquire);
            let values = [Datum::from_u64(next), Datum::Int(*table)];
            run(conn, "UPDATE tg_table SET next_auto = ?1 WHERE id = ?2", values.iter().map(Datum::as_cell))?;
            state.stored_auto.store(next, Ordering::Release);
        }
        Ok(())
    }
}

impl Step {
    /// Bytes of the row that it writes; `None` if it is no row.
    pub(super) fn bytes(&self) -> Option<usize> {
        match self {
            Step::Insert { values, .. } => Some(values.iter().map(|value| size_of_value(value.as_cell())).sum()),
            Step::Update { bytes, .. } => Some(*bytes),
            Step::Delete { .. } => Some(0),
            Step::Savepoint(_) => None,
        }
    }

    fn is_savepoint(&self, name: &str) -> bool {
        matches!(self, Step::Savepoint(known) if known == name)
    }

    fn shape(&self) -> Option<&Shape> {
        match self {
            Step::Insert { shape, .. } | Step::Update { shape, .. } | Step::Delete { shape, .. } => Some(shape),
            Step::Savepoint(_) => None,
        }
    }

    pub(super) fn apply(&self, conn: &mut Conn) -> Result<(), ServerError> {
        match self {
            Step::Savepoint(name) => {
                conn.execute(&format!("SAVEPOINT {name}")).map_err(|error| to_server_error(&error))
            }
            Step::Insert { shape, rowid, values } => {
                // The row id has no column of its own name then.
                let hidden = shape.rowid_column.is_none().then_some(("rowid", Cell::Int(*rowid)));
                let columns = shape.columns.iter().map(String::as_str).zip(values.iter().map(Datum::as_cell));
                let (names, cells): (Vec<&str>, Vec<Cell<'_>>) = columns.chain(hidden).unzip();
                let places: Vec<String> = (1..=names.len()).map(|number| format!("?{number}")).collect();
                let sql = format!("INSERT INTO t{} ({}) VALUES ({})", shape.id, names.join(", "), places.join(", "));
                run(conn, &sql, cells.into_iter())
            }
            // A row that was written as it stood.
            Step::Update { values, .. } if values.is_empty() => Ok(()),
            Step::Update { shape, from, values, .. } => {
                let names = values.iter().enumerate();
                let set: Vec<String> = names
                    .map(|(number, (column, _))| format!("{} = ?{}", shape.columns[*column], number + 2))
                    .collect();
                let sql = format!("UPDATE t{} SET {} WHERE rowid = ?1", shape.id, set.join(", "));
                let cells = values.iter().map(|(_, value)| value.as_cell());
                run(conn, &sql, std::iter::once(Cell::Int(*from)).chain(cells))
            }
            Step::Delete { shape, rowid } => {
                let sql = format!("DELETE FROM t{} WHERE rowid = ?1", shape.id);
                run(conn, &sql, std::iter::once(Cell::Int(*rowid)))
            }
        }
    }
}

fn size_of_value(value: Cell<'_>) -> usize {
    match value {
        Cell::Text(bytes) | Cell::Blob(bytes) => size_of::<Datum>() + bytes.len(),
        _ => size_of::<Datum>(),
    }
}

/// Runs a statement that changes one row.
fn run<'v>(conn: &mut Conn, sql: &str, values: impl Iterator<Item = Cell<'v>>) -> Result<(), ServerError> {
    let changed = conn.run_kept(sql, values);
    match changed {
        Ok(1) => Ok(()),
        Ok(_) => Err(errors::deadlock()),
        Err(SqliteError { code, .. }) if code & 0xff == ffi::SQLITE_CONSTRAINT => Err(errors::deadlock()),
        Err(error) => Err(to_server_error(&error)),
    }
}
