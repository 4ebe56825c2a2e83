//! Rows that a unique index or a foreign key refuses: which, and how errors tell it.

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::{
    Out,
    write::{Res, Writer, internal},
};
use crate::{
    catalog::{ForeignKey, Index, Table},
    engine::Schema,
    errors,
    parse::KeyKind,
    row_locks::Resource,
    store::conn::{Cell, SqliteError, Step, to_server_error},
    task,
    value::Datum,
};

/// A foreign key as errors show it.
pub(crate) fn key_text(schema: &str, child: &Table, key: &ForeignKey) -> String {
    let quote = crate::show::quote_name;
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

/// The values of an index's columns as the duplicate-key error shows them.
pub(super) fn entry(table: &Table, index: &Index, row: &[Datum]) -> String {
    let mut text = Vec::new();
    for (number, part) in index.parts.iter().enumerate() {
        if number > 0 {
            text.push(b'-');
        }
        if let Some(position) = table.position(part.column) {
            Out::of(&table.columns[position].ty).write(row[position].as_cell(), &mut text);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The indexes that keep rows out, in the order in which MariaDB looks at them: the primary key, those without NULL, the rest.
fn unique_indexes(table: &Table) -> Vec<&Index> {
    let is_nullable = |index: &Index| {
        let mut columns = index.parts.iter().filter_map(|part| table.position(part.column));
        columns.any(|position| table.columns[position].nullable)
    };
    let mut unique: Vec<&Index> = table.indexes.iter().filter(|index| index.kind != KeyKind::Plain).collect();
    unique.sort_by_key(|index| (index.kind != KeyKind::Primary, is_nullable(index)));
    unique
}

impl Writer<'_> {
    /// The first row that keeps a new one out, in the order of the indexes.
    pub(super) fn conflict<'t>(&mut self, table: &'t Table, row: &[Datum]) -> Res<Option<(i64, &'t Index)>> {
        for index in unique_indexes(table) {
            let columns: Vec<usize> = index.parts.iter().filter_map(|part| table.position(part.column)).collect();
            if columns.iter().any(|column| row[*column].is_null()) {
                continue;
            }
            let found = self.conflict_on(table, index, row)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Locks for reading what keeps a row out: who was told of it finds it, as in InnoDB. Of a primary key that is the row.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody has locked it.
    pub(super) fn keep_conflict(
        &mut self,
        schema: &Schema,
        table: &Table,
        rowid: i64,
        index: &Index,
        row: &[Datum],
    ) -> Res<()> {
        let place = |name: &str| table.position(name.strip_prefix('c')?.parse().ok()?);
        let value = |name: &str| place(name).map_or(Cell::Null, |position| row[position].as_cell());
        let index = (index.kind != KeyKind::Primary).then_some(index.id);
        self.meet(schema, table, |watch| watch.keep_key((table.id, rowid), index, value))
    }

    /// As [`child_error`](Self::child_error); [`errors::STOPPED`] if somebody is about to make the parent, or to remove it.
    pub(super) fn refused_child(
        &mut self,
        error: &SqliteError,
        schema: &Schema,
        table: &Table,
        row: &[Datum],
    ) -> ServerError {
        let place = |name: &str| table.position(name.strip_prefix('c')?.parse().ok()?);
        let value = |name: &str| place(name).map_or(Cell::Null, |position| row[position].as_cell());
        let kept = match is_foreign_key(error) {
            true => self.meet(schema, table, |watch| watch.keep_parents(table.id, value)),
            false => self.go_on(),
        };
        kept.err().unwrap_or_else(|| self.child_error(error, schema, table, row))
    }

    /// The error of a row whose parent is missing: 1452 with the key that refused it.
    fn child_error(&self, error: &SqliteError, schema: &Schema, table: &Table, row: &[Datum]) -> ServerError {
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
            Some(key) => errors::child_row(key_text(&schema.name, table, key)),
            None => write_error(error, false),
        }
    }

    /// As [`parent_error`](Self::parent_error); [`errors::STOPPED`] if somebody is about to change a row that refers to this one.
    pub(super) fn refused_parent(
        &mut self,
        error: &SqliteError,
        schema: &Schema,
        table: &Table,
        rowid: i64,
    ) -> ServerError {
        let met = if is_foreign_key(error) { self.meet_children(schema, table, rowid) } else { Ok(()) };
        met.err().unwrap_or_else(|| self.parent_error(error, schema, table))
    }

    /// Sees that nobody is about to change the rows that refer to a row. A transaction of several statements keeps the first of each
    /// foreign key that may have refused a change of that.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody is.
    pub(super) fn meet_children(&mut self, schema: &Schema, table: &Table, rowid: i64) -> Res<()> {
        if self.conn.watch().is_none() {
            return Ok(());
        }
        let (catalog, physical) = (schema.catalog()?, table.physical());
        for child in catalog.tables.values() {
            for key in child.foreign_keys.iter().filter(|key| key.table.split('\0').nth(1) == Some(physical.as_str())) {
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
        }
        Ok(())
    }

    /// The error of a row that others refer to: 1451 with a key that forbids it.
    pub(super) fn parent_error(&self, error: &SqliteError, schema: &Schema, table: &Table) -> ServerError {
        if !is_foreign_key(error) || task::has_error() {
            return write_error(error, true);
        }
        let Ok(catalog) = schema.catalog() else { return write_error(error, true) };
        let physical = table.physical();
        let refers = |key: &ForeignKey| key.table.split('\0').nth(1) == Some(physical.as_str());
        let keys: Vec<(&Table, &ForeignKey)> = catalog
            .tables
            .values()
            .flat_map(|child| child.foreign_keys.iter().map(move |key| (&**child, key)))
            .filter(|(_, key)| refers(key) && matches!(key.on_delete.as_str(), "RESTRICT" | "NO ACTION"))
            .collect();
        let used = |(child, key): &&(&Table, &ForeignKey)| -> bool {
            let conditions: Vec<String> = key.columns.iter().map(|id| format!("c{id} IS NOT NULL")).collect();
            let sql = format!("SELECT 1 FROM t{} WHERE {} LIMIT 1", child.id, conditions.join(" AND "));
            self.conn.prepare(&sql).is_ok_and(|mut stmt| matches!(stmt.step(), Ok(Step::Row)))
        };
        match keys.iter().find(used).or(keys.first()) {
            Some((child, key)) => errors::parent_row(key_text(&schema.name, child, key)),
            None => write_error(error, true),
        }
    }

    /// The duplicate-key error of an UPDATE: the row as it would have been.
    pub(super) fn update_conflict(
        &mut self,
        schema: &Schema,
        table: &Table,
        rowid: i64,
        changes: &[(usize, Datum)],
    ) -> Res<ServerError> {
        let mut row = self.stored_row(table, rowid)?;
        for (column, value) in changes {
            row[*column] = value.clone();
        }
        let unique: Vec<&Index> = table.indexes.iter().filter(|index| index.kind != KeyKind::Plain).collect();
        for index in unique {
            let touched = index.parts.iter().any(|part| {
                table
                    .position(part.column)
                    .is_some_and(|position| changes.iter().any(|(column, _)| *column == position))
            });
            if touched
                && let Some((other, _)) = self.conflict_on(table, index, &row)?
                && other != rowid
            {
                self.meet_row(table, other, false)?;
                self.keep_conflict(schema, table, other, index, &row)?;
                return Ok(errors::duplicate_entry(entry(table, index, &row), &index.name));
            }
        }
        Ok(errors::duplicate_entry("", "PRIMARY"))
    }

    /// Whether REPLACE leaves the row that is in its way: where MariaDB updates the row instead of removing it, on the last unique
    /// index of a table that no foreign key refers to, and the new row is the same.
    pub(super) fn keeps_row(
        &mut self,
        schema: &Schema,
        table: &Table,
        (rowid, index): (i64, &Index),
        row: &[Datum],
    ) -> Res<bool> {
        let last = unique_indexes(table).pop();
        if !last.is_some_and(|last| std::ptr::eq(last, index)) || self.stored_row(table, rowid)? != row {
            return Ok(false);
        }
        let catalog = schema.catalog()?;
        let physical = table.physical();
        let mut keys = catalog.tables.values().flat_map(|child| &child.foreign_keys);
        Ok(!keys.any(|key| key.table.split('\0').nth(1) == Some(physical.as_str())))
    }

    /// A row as it is in the table.
    fn stored_row(&mut self, table: &Table, rowid: i64) -> Res<Vec<Datum>> {
        let columns: Vec<String> = table.columns.iter().map(|column| format!("c{}", column.id)).collect();
        let sql = format!("SELECT {} FROM t{} WHERE rowid = ?1", columns.join(", "), table.id);
        let mut stmt = self.conn.prepare(&sql).map_err(internal)?;
        stmt.bind(1, Cell::Int(rowid)).map_err(internal)?;
        stmt.step().map_err(internal)?;
        Ok((0..table.columns.len()).map(|index| stmt.cell(index).to_owned()).collect())
    }

    pub(super) fn conflict_on<'t>(
        &mut self,
        table: &Table,
        index: &'t Index,
        row: &[Datum],
    ) -> Res<Option<(i64, &'t Index)>> {
        let columns: Vec<usize> = index.parts.iter().filter_map(|part| table.position(part.column)).collect();
        let conditions: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(number, column)| format!("c{} = ?{}", table.columns[*column].id, number + 1))
            .collect();
        let sql = format!("SELECT rowid FROM t{} WHERE {}", table.id, conditions.join(" AND "));
        let mut stmt = self.conn.prepare(&sql).map_err(internal)?;
        for (number, column) in columns.iter().enumerate() {
            stmt.bind(number + 1, row[*column].as_cell()).map_err(internal)?;
        }
        if stmt.step().map_err(internal)? == Step::Row
            && let Cell::Int(rowid) = stmt.cell(0)
        {
            return Ok(Some((rowid, index)));
        }
        Ok(None)
    }
}
