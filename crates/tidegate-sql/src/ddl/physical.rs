//! SQLite's definitions, written as SQLite's ALTER TABLE would write them.
//!
//! That reads all definitions of the file again after each change, tries all of them before and after some, and reads all rows of a
//! STRICT table that gets a column. What is written here is known to be right, whatever else the file has: all definitions are
//! read once, when all changes have been made.

use super::{Res, internal};
use crate::{
    catalog::{Catalog, Table},
    column::{Column, Default},
    errors,
    store::conn::{Cell, Conn, SqliteError, Step, quote},
    value::Datum,
};

/// Entries of a table and its indexes that are copied in the time in which SQLite's DROP COLUMN looks at one definition
/// (measured: 45,000 instructions for a definition, 2,500 to 4,000 for an entry).
const ENTRIES_OF_DEFINITION: usize = 10;

/// Gives SQLite's table columns whose default is the same for all rows: no row is touched.
///
/// # Errors
/// SQLite's; 1105 for a table whose definition this engine has not written.
pub(super) fn add_columns(conn: &Conn, table: &Table, added: &[&Column]) -> Res<()> {
    let new = |column: &&Column| {
        let value = constant_default(column).unwrap_or(Datum::Null);
        let default = if value.is_null() { String::new() } else { format!(" DEFAULT {}", literal(&value)) };
        format!(", c{} {}{default}", column.id, column.storage())
    };
    let new: String = added.iter().map(new).collect();
    let name = table.physical();
    let sql = definition(conn, &name).map_err(internal)?;
    // Foreign keys stand behind the columns. Texts are in hexadecimal digits there, so nothing else looks like one.
    let end = sql.find(", FOREIGN KEY (").or_else(|| sql.rfind(") STRICT"));
    let (columns, rest) =
        end.map(|end| sql.split_at(end)).ok_or_else(|| errors::internal("a table of another program's"))?;
    redefine(conn, &name, &name, &format!("{columns}{new}{rest}")).map_err(internal)
}

/// Has a copy take the place of its table, as what `sql` defines. The copy has no indexes yet.
///
/// # Errors
/// SQLite's.
pub(super) fn replace(conn: &Conn, table: i64, copy: i64, sql: &str) -> Res<()> {
    conn.execute(&format!("DROP TABLE t{table}")).map_err(internal)?;
    redefine(conn, &format!("t{copy}"), &format!("t{table}"), sql).map_err(internal)
}

/// Whether a copy of a table is made sooner than SQLite drops a column of it, which looks at all definitions.
///
/// # Errors
/// SQLite's.
pub(super) fn is_copied_sooner(conn: &Conn, catalog: &Catalog, table: &Table) -> Res<bool> {
    // What is computed from a row, or checked, is not computed again because a column goes.
    if table.has_rules() {
        return Ok(false);
    }
    let definitions: usize = catalog.tables.values().map(|table| 1 + table.indexes.len()).sum();
    let rows_max = definitions * ENTRIES_OF_DEFINITION / (1 + table.indexes.len());
    let row = format!("SELECT 1 FROM {} LIMIT 1 OFFSET {rows_max}", table.physical());
    Ok(conn.prepare(&row).map_err(internal)?.step().map_err(internal)? == Step::Done)
}

/// The text that defines a table for SQLite.
fn definition(conn: &Conn, name: &str) -> Result<String, SqliteError> {
    let mut find = conn.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1")?;
    find.bind(1, Cell::Text(name.as_bytes()))?;
    let mut sql = String::new();
    if find.step()? == Step::Row
        && let Cell::Text(text) = find.cell(0)
    {
        sql = String::from_utf8_lossy(text).into_owned();
    }
    Ok(sql)
}

/// Gives a table without indexes, or under its own name, another name and definition of the same rows.
fn redefine(conn: &Conn, name: &str, new_name: &str, sql: &str) -> Result<(), SqliteError> {
    conn.write_definitions(|conn| {
        let mut write = conn.prepare(&format!(
            "UPDATE sqlite_schema SET name = {0}, tbl_name = {0}, sql = ?1 WHERE type = 'table' AND name = {1}",
            quote(new_name),
            quote(name)
        ))?;
        write.bind(1, Cell::Text(sql.as_bytes()))?;
        write.run()
    })
}

/// The value that existing rows get in a new column, if it is the same for all.
pub(super) fn constant_default(column: &Column) -> Option<Datum> {
    match &column.default {
        Default::Literal { value, .. } => Some(value.clone()),
        Default::Null => Some(Datum::Null),
        Default::None if column.nullable => Some(Datum::Null),
        _ => None,
    }
}

fn literal(value: &Datum) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Datum::Null => "NULL".into(),
        Datum::Int(value) => format!("({value})"),
        Datum::Real(value) => format!("({value:e})"),
        Datum::Text(text) => format!("(CAST(x'{}' AS TEXT))", hex(text)),
        Datum::Blob(blob) => format!("(x'{}')", hex(blob)),
    }
}
