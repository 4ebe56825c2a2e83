//! SQLite's definitions, written as SQLite's ALTER TABLE would write them.
//!
//! That reads all definitions of the file again after each change, tries all of them before and after some, and reads all rows of a
//! STRICT table that gets a column. What is written here is known to be right, whatever else the file has: all definitions are
//! read once, when all changes have been made. Beside very many definitions a small table is made anew: dropping and creating
//! it has SQLite read none of the others.

use super::{Res, internal};
use crate::{
    catalog::{Catalog, Index, Table},
    column::{Column, Default},
    errors,
    parse::KeyKind,
    store::conn::{Cell, Conn, SqliteError, Step, quote},
    value::{Datum, Rep},
};

/// Entries of a table and its indexes that are copied in the time in which SQLite's DROP COLUMN looks at one definition
/// (measured: 45,000 instructions for a definition, 2,500 to 4,000 for an entry).
const ENTRIES_OF_DEFINITION: usize = 10;
/// Definitions that SQLite reads in the time in which an entry is copied, and copied once more.
const DEFINITIONS_OF_ENTRY: usize = 2;
/// Bytes of texts and BLOBs for which the same is true of one definition.
const BYTES_OF_DEFINITION: usize = 256;
/// Definitions that SQLite reads in the time in which a small table is made anew.
const DEFINITIONS_MIN: usize = 300;
/// Columns of a small table: each of a text or BLOB is a column of a query.
const COLUMNS_MAX: usize = 200;

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

/// What a copy of a table is until it takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interim {
    /// A table of the file, which gets the other one's name.
    Renamed,
    /// A temporary table, whose rows are copied once more.
    Temporary,
}

impl Interim {
    /// The one that costs less.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn of(conn: &Conn, catalog: &Catalog, table: &Table) -> Res<Self> {
        Ok(if is_small(conn, catalog, table)? { Interim::Temporary } else { Interim::Renamed })
    }

    /// Whether it is made sooner than a table gets some columns whose default is the same for all rows, and loses others: SQLite
    /// looks at all definitions then.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn is_sooner(
        self,
        conn: &Conn,
        catalog: &Catalog,
        table: &Table,
        added: &[&Column],
        dropped: &[&Column],
    ) -> Res<bool> {
        // What is computed from a row, or checked, is not computed again because a column comes or goes.
        if table.has_rules() || added.is_empty() && dropped.is_empty() {
            return Ok(false);
        }
        if dropped.is_empty() || self == Interim::Temporary {
            return Ok(self == Interim::Temporary);
        }
        let rows_max = definitions(catalog) * ENTRIES_OF_DEFINITION / (1 + table.indexes.len());
        let row = format!("SELECT 1 FROM {} LIMIT 1 OFFSET {rows_max}", table.physical());
        Ok(conn.prepare(&row).map_err(internal)?.step().map_err(internal)? == Step::Done)
    }

    /// Creates the copy; `sql` creates a table of the file.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn create(self, conn: &Conn, sql: &str) -> Res<()> {
        match self {
            Interim::Renamed => conn.execute(sql).map_err(internal),
            Interim::Temporary => conn.execute(&sql.replacen("CREATE TABLE", "CREATE TEMP TABLE", 1)).map_err(internal),
        }
    }

    /// Has it take the place of its table, as what `sql` defines. It has no indexes yet.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn replace(self, conn: &Conn, table: i64, copy: i64, sql: &str) -> Res<()> {
        conn.execute(&format!("DROP TABLE t{table}")).map_err(internal)?;
        match self {
            Interim::Renamed => redefine(conn, &format!("t{copy}"), &format!("t{table}"), sql).map_err(internal),
            Interim::Temporary => {
                conn.execute(sql).map_err(internal)?;
                let moves = format!("INSERT INTO t{table} SELECT * FROM temp.t{copy}; DROP TABLE temp.t{copy}");
                conn.execute(&moves).map_err(internal)
            }
        }
    }
}

/// Whether a table is made anew sooner than SQLite reads all definitions of the file.
///
/// # Errors
/// SQLite's.
fn is_small(conn: &Conn, catalog: &Catalog, table: &Table) -> Res<bool> {
    let (definitions, entries_of_row) = (definitions(catalog), 1 + table.indexes.len());
    let is_fulltext = |index: &Index| index.kind == KeyKind::Fulltext;
    if definitions < DEFINITIONS_MIN || table.columns.len() > COLUMNS_MAX || table.indexes.iter().any(is_fulltext) {
        return Ok(false);
    }
    let rows_max = definitions / DEFINITIONS_OF_ENTRY / entries_of_row;
    let texts: Vec<u32> = table
        .columns
        .iter()
        .filter(|column| matches!(column.ty.rep(), Rep::Text | Rep::Blob))
        .map(|text| text.id)
        .collect();
    // SQLite tells the size of a value without reading it, where it finds the value.
    let sizes: String = texts.iter().map(|id| format!(", octet_length(c{id}) AS s{id}")).collect();
    let sums: String = texts.iter().map(|id| format!(", sum(s{id})")).collect();
    let (name, limit) = (table.physical(), rows_max + 1);
    let sql = format!("SELECT count(*){sums} FROM (SELECT 1{sizes} FROM {name} LIMIT {limit})");
    let mut stmt = conn.prepare(&sql).map_err(internal)?;
    stmt.step().map_err(internal)?;
    let number = |column| if let Cell::Int(number) = stmt.cell(column) { number as usize } else { 0 };
    let bytes: usize = (1..stmt.column_count()).map(number).sum();
    Ok(number(0) <= rows_max && bytes <= definitions * BYTES_OF_DEFINITION)
}

/// SQLite's definitions of the tables and indexes of a catalogue.
fn definitions(catalog: &Catalog) -> usize {
    catalog.tables.values().map(|table| 1 + table.indexes.len()).sum()
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
