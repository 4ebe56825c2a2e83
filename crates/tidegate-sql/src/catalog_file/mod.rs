//! The catalogue in a schema's file: its tables, how it comes from there, and how a change gets there.
//!
//! A change is written in the transaction of the DDL that makes it. [`views`] shows names to other programs.

mod load;
pub(crate) mod programs;
pub(crate) mod views;

use std::sync::atomic::Ordering;

use crate::{
    catalog::{IndexPart, Table},
    column::Default,
    parse::KeyKind,
    store::conn::{Cell, Conn, SqliteError},
    value::{Base, Datum, collation::Collation},
};

pub(crate) use load::{load, renewed};

/// Version of the storage format that this code reads and writes.
pub(crate) const FORMAT_VERSION: i64 = 5;

const TABLES: &str = "\
CREATE TABLE IF NOT EXISTS tg_meta (name TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE IF NOT EXISTS tg_table (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, engine TEXT NOT NULL, \
 collation INTEGER NOT NULL, comment TEXT NOT NULL, created INTEGER NOT NULL, view TEXT, next_column INTEGER NOT NULL, \
 next_auto ANY) STRICT;
CREATE TABLE IF NOT EXISTS tg_column (table_id INTEGER NOT NULL, id INTEGER NOT NULL, position INTEGER NOT NULL, \
 name TEXT NOT NULL, type TEXT NOT NULL, json INTEGER NOT NULL, collation INTEGER NOT NULL, nullable INTEGER NOT NULL, \
 default_kind INTEGER NOT NULL, default_text TEXT, default_value ANY, on_update INTEGER NOT NULL, auto INTEGER NOT NULL, \
 comment TEXT NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS tg_index (table_id INTEGER NOT NULL, id INTEGER NOT NULL, position INTEGER NOT NULL, \
 name TEXT NOT NULL, kind INTEGER NOT NULL, parts TEXT NOT NULL, comment TEXT NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS tg_foreign_key (table_id INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, \
 columns TEXT NOT NULL, parent TEXT NOT NULL, parent_columns TEXT NOT NULL, on_delete TEXT NOT NULL, \
 on_update TEXT NOT NULL, PRIMARY KEY (table_id, position)) STRICT;
";

/// What format 2 added.
const CHECKS: &str = "\
CREATE TABLE IF NOT EXISTS tg_check (table_id INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, \
 text TEXT NOT NULL, column_id INTEGER, PRIMARY KEY (table_id, position)) STRICT;";

/// Creates the catalogue's tables in a new file.
///
/// # Errors
/// SQLite's.
pub(crate) fn initialise(conn: &mut Conn, collation: Collation) -> Result<(), SqliteError> {
    conn.begin_immediate()?;
    let result = (|| {
        conn.execute(TABLES)?;
        conn.execute(CHECKS)?;
        conn.execute(views::TABLE)?;
        conn.execute(programs::TABLE)?;
        let mut set = conn.prepare("INSERT INTO tg_meta VALUES (?1, ?2)")?;
        for (name, value) in
            [("format", FORMAT_VERSION), ("collation_version", 1), ("collation", i64::from(collation.0))]
        {
            set.bind(1, Cell::Text(name.as_bytes()))?;
            set.bind(2, Cell::Int(value))?;
            set.run()?;
        }
        Ok(())
    })();
    match result {
        Ok(()) => conn.commit(),
        Err(error) => {
            conn.rollback();
            Err(error)
        }
    }
}

/// Writes a table's entry anew, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store(conn: &Conn, table: &Table) -> Result<(), SqliteError> {
    remove(conn, table.id)?;
    let insert = |sql: &str, values: &[Datum]| -> Result<(), SqliteError> {
        let mut stmt = conn.prepare(sql)?;
        for (index, value) in values.iter().enumerate() {
            stmt.bind(index + 1, value.as_cell())?;
        }
        stmt.run()
    };
    let flag = |flag: bool| Datum::Int(i64::from(flag));
    insert(
        "INSERT INTO tg_table VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &[
            Datum::Int(table.id),
            Datum::text(&table.name),
            Datum::text(&table.engine),
            Datum::Int(i64::from(table.collation.0)),
            Datum::text(&table.comment),
            Datum::Int(table.created),
            table.view.as_ref().map_or(Datum::Null, Datum::text),
            Datum::Int(i64::from(table.next_column_id)),
            Datum::from_u64(
                table.state.next_auto.load(Ordering::Acquire).max(table.state.stored_auto.load(Ordering::Acquire)),
            ),
        ],
    )?;
    for (position, column) in table.columns.iter().enumerate() {
        let (kind, spelled, value) = match &column.default {
            _ if column.generated.is_some() => {
                let generated = column.generated.as_ref();
                let kind = if generated.is_some_and(|generated| generated.stored) { 7 } else { 6 };
                (kind, generated.map_or(Datum::Null, |generated| Datum::text(&generated.text)), Datum::Null)
            }
            Default::Expression(text) => (5, Datum::text(text), Datum::Null),
            Default::None => (0, Datum::Null, Datum::Null),
            Default::Null => (1, Datum::Null, Datum::Null),
            Default::Literal { text, quoted, value } => (if *quoted { 2 } else { 3 }, Datum::text(text), value.clone()),
            Default::Now => (4, Datum::Null, Datum::Null),
        };
        insert(
            "INSERT INTO tg_column VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            &[
                Datum::Int(table.id),
                Datum::Int(i64::from(column.id)),
                Datum::Int(position as i64),
                Datum::text(&column.name),
                Datum::text(column.ty.sql_name()),
                flag(column.ty.base == Base::Json),
                Datum::Int(i64::from(column.ty.collation.0)),
                flag(column.nullable),
                Datum::Int(kind),
                spelled,
                value,
                flag(column.on_update),
                flag(column.auto_increment),
                Datum::text(&column.comment),
            ],
        )?;
    }
    for (position, index) in table.indexes.iter().enumerate() {
        let parts: Vec<String> = index.parts.iter().map(part_text).collect();
        insert(
            "INSERT INTO tg_index VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            &[
                Datum::Int(table.id),
                Datum::Int(index.id),
                Datum::Int(position as i64),
                Datum::text(&index.name),
                Datum::Int(match index.kind {
                    KeyKind::Plain if index.generated => 4,
                    KeyKind::Plain => 0,
                    KeyKind::Unique => 1,
                    KeyKind::Primary => 2,
                    KeyKind::Fulltext => 3,
                }),
                Datum::text(parts.join(",")),
                Datum::text(&index.comment),
            ],
        )?;
    }
    for (position, check) in table.checks.iter().enumerate() {
        insert(
            "INSERT INTO tg_check VALUES (?1, ?2, ?3, ?4, ?5)",
            &[
                Datum::Int(table.id),
                Datum::Int(position as i64),
                Datum::text(&check.name),
                Datum::text(&check.text),
                check.column.map_or(Datum::Null, |id| Datum::Int(i64::from(id))),
            ],
        )?;
    }
    for (position, key) in table.foreign_keys.iter().enumerate() {
        let columns: Vec<String> = key.columns.iter().map(u32::to_string).collect();
        insert(
            "INSERT INTO tg_foreign_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &[
                Datum::Int(table.id),
                Datum::Int(position as i64),
                Datum::text(&key.name),
                Datum::text(columns.join(",")),
                Datum::text(&key.table),
                Datum::text(key.references.join("\u{1}")),
                Datum::text(&key.on_delete),
                Datum::text(&key.on_update),
            ],
        )?;
    }
    Ok(())
}

/// Sets the collation that new tables get, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn set_collation(conn: &Conn, collation: Collation) -> Result<(), SqliteError> {
    let id = collation.0;
    conn.execute(&format!(
        "INSERT INTO tg_meta VALUES ('collation', {id}) ON CONFLICT (name) DO UPDATE SET value = {id}"
    ))
}

/// Removes a table's entry, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(conn: &Conn, id: i64) -> Result<(), SqliteError> {
    conn.note_redefined(id);
    conn.execute(&format!(
        "DELETE FROM tg_table WHERE id = {id}; DELETE FROM tg_column WHERE table_id = {id}; \
         DELETE FROM tg_index WHERE table_id = {id}; DELETE FROM tg_foreign_key WHERE table_id = {id}; \
         DELETE FROM tg_check WHERE table_id = {id}"
    ))
}

/// `column[:prefix][-]`.
fn part_text(part: &IndexPart) -> String {
    let prefix = part.prefix.map_or(String::new(), |prefix| format!(":{prefix}"));
    format!("{}{prefix}{}", part.column, if part.descending { "-" } else { "" })
}

/// The part of an index that a text is.
fn part_of(text: &str) -> Option<IndexPart> {
    let (text, descending) = text.strip_suffix('-').map_or((text, false), |text| (text, true));
    let (column, prefix) = match text.split_once(':') {
        Some((column, prefix)) => (column, Some(prefix.parse().ok()?)),
        None => (text, None),
    };
    Some(IndexPart { column: column.parse().ok()?, prefix, descending })
}
