//! Rows that a unique index or a foreign key refuses: which, and how errors tell it.

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::{
    Out,
    write::{Res, Writer, internal},
};
use crate::{
    catalog::{ForeignKey, Index, IndexPart, Table},
    errors,
    parse::{KeyKind, program::Event},
    row_locks::Resource,
    store::conn::{Cell, SqliteError, Step, to_server_error},
    task,
    translate::target_table::{TargetTable, UniqueKey},
    value::{Datum, Rep, beginning::beginning},
};

/// A foreign key as errors show it.
pub(crate) fn key_text(schema: &str, child: &Table, key: &ForeignKey) -> String {
    let quote = crate::identifier::quoted;
    let shown = |name: &str| quote(name.split('\0').next().unwrap_or(name));
    let columns: Vec<String> = key
        .columns
        .iter()
        .filter_map(|id| child.position(*id))
        .map(|position| quote(&child.columns[position].name))
        .collect();
    let references: Vec<String> = key.references.iter().map(|name| shown(name)).collect();
    let action = |event: &str, action: &str| match action {
        "RESTRICT" => String::new(),
        action => format!(" ON {event} {action}"),
    };
    format!(
        "{}.{}, CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){}{}",
        quote(schema),
        quote(&child.name),
        quote(&key.name),
        columns.join(", "),
        shown(&key.table),
        references.join(", "),
        action("DELETE", &key.on_delete),
        action("UPDATE", &key.on_update)
    )
}

/// Whether a foreign key refused a row.
pub(super) fn is_foreign_key(error: &SqliteError) -> bool {
    error.code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY
        || (error.primary() == ffi::SQLITE_CONSTRAINT && error.message.contains("FOREIGN KEY"))
}

/// The error of a write that failed on something else than a unique index.
fn write_error(error: &SqliteError, parent: bool) -> ServerError {
    if is_foreign_key(error) && !task::has_error() {
        return if parent { errors::parent_row("foreign key") } else { errors::child_row("foreign key") };
    }
    to_server_error(error)
}

/// Bytes of a key that the duplicate-key error shows.
const SHOWN_BYTES_MAX: usize = 64;

/// The values of an index's columns in a row, or their beginnings, as the duplicate-key error shows them.
pub(super) fn entry(table: &Table, index: &Index, row: &[Datum]) -> String {
    let value = |part: &IndexPart| table.position(part.column).map_or(Cell::Null, |at| row[at].as_cell());
    shown_key(table, index, index.parts.iter().map(value))
}

/// The same of values in the order of the index.
pub(crate) fn shown_key<'v>(table: &Table, index: &Index, values: impl Iterator<Item = Cell<'v>>) -> String {
    let mut text = Vec::new();
    for (number, (part, value)) in index.parts.iter().zip(values).enumerate() {
        if number > 0 {
            text.push(b'-');
        }
        let value = part.prefix.map_or(value, |prefix| beginning(value, prefix));
        let Some(position) = table.position(part.column) else { continue };
        match value {
            Cell::Blob(bytes) if table.columns[position].ty.rep() == Rep::Blob => write_bytes(bytes, &mut text),
            value => Out::of(&table.columns[position].ty).write(value, &mut text),
        }
    }
    cut(String::from_utf8_lossy(&text).into_owned())
}

/// Binary strings show what is no printable ASCII by its number.
fn write_bytes(bytes: &[u8], text: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b' '..=b'~' => text.push(*byte),
            _ => text.extend_from_slice(format!("\\x{byte:02X}").as_bytes()),
        }
    }
}

/// A text that is too long ends in dots.
fn cut(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let end = text.floor_char_boundary(SHOWN_BYTES_MAX - 3);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

impl Writer<'_> {
    /// The first row that keeps a new one out, in the order of the indexes.
    pub(super) fn conflict<'t>(&mut self, to: &'t TargetTable, row: &[Datum]) -> Res<Option<(i64, &'t Index)>> {
        for key in to.unique_keys() {
            if key.columns.iter().any(|column| row[*column].is_null()) {
                continue;
            }
            if let Some(rowid) = self.conflict_on(key, row)? {
                return Ok(Some((rowid, key.index_of(&to.table))));
            }
        }
        Ok(None)
    }

    /// Locks for reading what keeps a row out: who was told of it finds it, as in InnoDB. Of a primary key that is the row.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody has locked it.
    pub(super) fn keep_conflict(&mut self, to: &TargetTable, rowid: i64, index: &Index, row: &[Datum]) -> Res<()> {
        let table = &to.table;
        let place = |name: &str| table.position(name.strip_prefix('c')?.parse().ok()?);
        let value = |name: &str| place(name).map_or(Cell::Null, |position| row[position].as_cell());
        let index = (index.kind != KeyKind::Primary).then_some(index.id);
        self.meet(&to.schema, table, |watch| watch.keep_key((table.id, rowid), index, value))
    }

    /// As [`child_error`](Self::child_error); [`errors::STOPPED`] if somebody is about to make the parent, or to remove it.
    pub(super) fn refused_child(&mut self, error: &SqliteError, to: &TargetTable, row: &[Datum]) -> ServerError {
        let table = &to.table;
        let place = |name: &str| table.position(name.strip_prefix('c')?.parse().ok()?);
        let value = |name: &str| place(name).map_or(Cell::Null, |position| row[position].as_cell());
        let kept = match is_foreign_key(error) {
            true => self.meet(&to.schema, table, |watch| watch.keep_parents(table.id, value)),
            false => self.go_on(),
        };
        kept.err().unwrap_or_else(|| self.child_error(error, to, row))
    }

    /// The error of a row whose parent is missing: 1452 with the key that refused it.
    fn child_error(&self, error: &SqliteError, to: &TargetTable, row: &[Datum]) -> ServerError {
        let table = &to.table;
        if !is_foreign_key(error) || task::has_error() {
            return write_error(error, false);
        }
        let missing = |key: &&ForeignKey| -> bool {
            let values: Vec<&Datum> = key
                .columns
                .iter()
                .filter_map(|id| table.position(*id))
                .filter_map(|position| row.get(position))
                .collect();
            if values.len() != key.columns.len() || values.iter().any(|value| value.is_null()) {
                return false;
            }
            let physical = |name: &str| name.split('\0').nth(1).unwrap_or("").to_owned();
            let conditions: Vec<String> = key
                .references
                .iter()
                .enumerate()
                .map(|(number, name)| format!("{} = ?{}", physical(name), number + 1))
                .collect();
            let sql = format!("SELECT 1 FROM {} WHERE {}", physical(&key.table), conditions.join(" AND "));
            let Ok(mut stmt) = self.conn.prepare(&sql) else { return true };
            for (number, value) in values.iter().enumerate() {
                if stmt.bind(number + 1, value.as_cell()).is_err() {
                    return false;
                }
            }
            matches!(stmt.step(), Ok(Step::Done))
        };
        let key = table.foreign_keys.iter().find(missing).or(table.foreign_keys.first());
        match key {
            Some(key) => errors::child_row(key_text(&to.schema.name, table, key)),
            None => write_error(error, false),
        }
    }

    /// As [`parent_error`](Self::parent_error); [`errors::STOPPED`] if somebody is about to change a row that refers to this one.
    pub(super) fn refused_parent(&mut self, error: &SqliteError, of: &TargetTable, rowid: i64) -> ServerError {
        let met = if is_foreign_key(error) { self.meet_children(of, rowid) } else { Ok(()) };
        met.err().unwrap_or_else(|| self.parent_error(error, of))
    }

    /// Sees that nobody is about to change the rows that refer to a row. A transaction of several statements keeps the first of each
    /// foreign key that may have refused a change of that.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody is.
    pub(super) fn meet_children(&mut self, of: &TargetTable, rowid: i64) -> Res<()> {
        if self.conn.watch().is_none() {
            return Ok(());
        }
        let physical = of.table.physical();
        for reference in &of.references {
            let (child, key) = (&reference.child, reference.key());
            let pairs = key.columns.iter().zip(&key.references);
            let equal: Vec<String> = pairs
                .filter_map(|(column, name)| Some(format!("p.{} = c.c{column}", name.split('\0').nth(1)?)))
                .collect();
            let sql = format!(
                "SELECT c.rowid FROM {physical} AS p JOIN t{} AS c ON {} WHERE p.rowid = ?1",
                child.id,
                equal.join(" AND ")
            );
            let mut stmt = self.conn.prepare(&sql).map_err(internal)?;
            stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
            let refuses = |action: &str| matches!(action, "RESTRICT" | "NO ACTION");
            let mut is_reason = refuses(&key.on_delete) || refuses(&key.on_update);
            while stmt.step().map_err(internal)? == Step::Row {
                let Cell::Int(rowid) = stmt.cell(0) else { continue };
                self.meet_row(child, rowid, false)?;
                if std::mem::take(&mut is_reason)
                    && let Some(watch) = self.conn.watch()
                {
                    watch.keep(Resource::Row { table: child.id, rowid });
                    self.go_on()?;
                }
            }
        }
        Ok(())
    }

    /// The error of a row that others refer to: 1451 with a key that forbids it.
    pub(super) fn parent_error(&self, error: &SqliteError, of: &TargetTable) -> ServerError {
        if !is_foreign_key(error) || task::has_error() {
            return write_error(error, true);
        }
        let keys: Vec<(&Table, &ForeignKey)> = of
            .references
            .iter()
            .map(|reference| (&*reference.child, reference.key()))
            .filter(|(_, key)| matches!(key.on_delete.as_str(), "RESTRICT" | "NO ACTION"))
            .collect();
        let used = |(child, key): &&(&Table, &ForeignKey)| -> bool {
            let conditions: Vec<String> = key.columns.iter().map(|id| format!("c{id} IS NOT NULL")).collect();
            let sql = format!("SELECT 1 FROM t{} WHERE {} LIMIT 1", child.id, conditions.join(" AND "));
            self.conn.prepare(&sql).is_ok_and(|mut stmt| matches!(stmt.step(), Ok(Step::Row)))
        };
        match keys.iter().find(used).or(keys.first()) {
            Some((child, key)) => errors::parent_row(key_text(&of.schema.name, child, key)),
            None => write_error(error, true),
        }
    }

    /// The duplicate-key error of an UPDATE: the row as it would have been.
    pub(super) fn update_conflict(
        &mut self,
        to: &TargetTable,
        rowid: i64,
        changes: &[(usize, Datum)],
    ) -> Res<ServerError> {
        let row = self.changed_row(to, rowid, changes)?;
        // Here in the order of their definitions.
        let mut keys: Vec<&UniqueKey> = to.unique_keys().iter().collect();
        keys.sort_by_key(|key| key.index);
        for key in keys {
            if changes.iter().any(|(column, _)| key.columns.contains(column))
                && let Some(other) = self.conflict_on(key, &row)?
                && other != rowid
            {
                let index = key.index_of(&to.table);
                self.meet_row(&to.table, other, false)?;
                self.keep_conflict(to, other, index, &row)?;
                return Ok(errors::duplicate_entry(entry(&to.table, index, &row), &index.name));
            }
        }
        Ok(errors::duplicate_entry("", "PRIMARY"))
    }

    /// Whether REPLACE leaves the row that is in its way: where MariaDB updates the row instead of removing it, on the last unique
    /// index of a table that no foreign key refers to, and the new row is the same.
    pub(super) fn keeps_row(&mut self, to: &TargetTable, (rowid, index): (i64, &Index), row: &[Datum]) -> Res<bool> {
        let last = to.unique_keys().last().map(|key| key.index_of(&to.table));
        let is_last = last.is_some_and(|last| std::ptr::eq(last, index));
        Ok(is_last && to.references.is_empty() && !to.fires_for(Event::Delete) && self.whole_row(to, rowid)? == row)
    }

    /// The number of the row that has the same values in the columns of a unique index.
    fn conflict_on(&mut self, key: &UniqueKey, row: &[Datum]) -> Res<Option<i64>> {
        let mut stmt = self.prepared(&key.find)?;
        for (number, column) in key.columns.iter().enumerate() {
            stmt.bind(number + 1, row[*column].as_cell()).map_err(internal)?;
        }
        let found = match stmt.step().map_err(internal)? {
            Step::Row => {
                if let Cell::Int(rowid) = stmt.cell(0) {
                    Some(rowid)
                } else {
                    None
                }
            }
            Step::Done => None,
        };
        self.stmts.keep(&key.find, stmt);
        Ok(found)
    }
}
