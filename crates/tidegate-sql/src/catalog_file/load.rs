//! How the catalogue comes from the file: all of it, or the tables that have changed.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use super::{CHECKS, FORMAT_VERSION, part_of, programs, views};
use crate::{
    catalog::{Catalog, Check, ForeignKey, Index, Table},
    column::{Column, Default, Generated},
    errors,
    parse::{KeyKind, column::type_from_catalog},
    store::conn::{Cell, Conn, SqliteError, Step},
    value::{Datum, collation::Collation},
};
use tidegate_rows::ServerError;

/// Reads the catalogue; `None` if the file has none yet.
///
/// # Errors
/// A format that this version does not know, or SQLite's errors.
pub(crate) fn load(conn: &Conn, old: Option<&Catalog>) -> Result<Option<Catalog>, ServerError> {
    let internal = |error: SqliteError| crate::store::conn::to_server_error(&error);
    let mut exists = conn.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'tg_meta'").map_err(internal)?;
    if exists.step().map_err(internal)? == Step::Done {
        return Ok(None);
    }
    drop(exists);
    let meta = |name: &str| -> Result<Option<i64>, ServerError> {
        let mut get = conn.prepare("SELECT value FROM tg_meta WHERE name = ?1").map_err(internal)?;
        get.bind(1, Cell::Text(name.as_bytes())).map_err(internal)?;
        Ok(match get.step().map_err(internal)? {
            Step::Row => match get.cell(0) {
                Cell::Int(value) => Some(value),
                _ => None,
            },
            Step::Done => None,
        })
    };
    match meta("format")? {
        Some(FORMAT_VERSION) => {}
        Some(1..FORMAT_VERSION) => upgrade(conn).map_err(internal)?,
        format => {
            let format = format.map_or("unknown".to_owned(), |format| format.to_string());
            return Err(errors::storage(format!(
                "the schema has storage format {format}, this version reads {FORMAT_VERSION}"
            )));
        }
    }
    let collation = meta("collation")?.and_then(|id| u16::try_from(id).ok()).map(Collation);
    let commits_reserved = meta("commits")?.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let mut catalog = Catalog::new(collation, commits_reserved);
    for table in load_tables(conn, old).map_err(internal)? {
        catalog.tables.insert(table.name.clone(), Arc::new(table));
    }
    load_programs(conn, old, &mut catalog).map_err(internal)?;
    Ok(Some(catalog))
}

/// The catalogue in which some tables are as the file has them now.
///
/// # Errors
/// SQLite's.
pub(crate) fn renewed(conn: &Conn, old: &Catalog, tables: &BTreeSet<i64>) -> Result<Catalog, SqliteError> {
    let collation = rows(conn, "SELECT value FROM tg_meta WHERE name = 'collation'")?;
    let collation = collation.first().and_then(|row| u16::try_from(int(&row[0])).ok()).map(Collation);
    let others = old.tables.iter().filter(|(_, table)| !tables.contains(&table.id));
    let mut catalog = Catalog::new(collation, old.commits_reserved);
    load_programs(conn, Some(old), &mut catalog)?;
    catalog.tables = others.map(|(name, table)| (name.clone(), Arc::clone(table))).collect();
    for id in tables {
        for row in rows(conn, &format!("{TABLE_ROWS} WHERE id = {id}"))? {
            let table = load_table(conn, &row, Some(old))?;
            catalog.tables.insert(table.name.clone(), Arc::new(table));
        }
    }
    Ok(catalog)
}

/// Reads the stored programs of a file into its catalogue.
fn load_programs(conn: &Conn, old: Option<&Catalog>, catalog: &mut Catalog) -> Result<(), SqliteError> {
    let collation = catalog.collation.unwrap_or(Collation::DEFAULT);
    catalog.triggers = programs::load_triggers(conn, old.map(|old| &old.triggers), collation)?;
    catalog.events = programs::load_events(conn, old.map_or(&[], Catalog::events), collation)?;
    catalog.routines = programs::load_routines(conn, old.map_or(&[], Catalog::routines), collation)?;
    Ok(())
}

/// Gives a file of an older format what the formats since have added.
fn upgrade(conn: &Conn) -> Result<(), SqliteError> {
    conn.execute("BEGIN IMMEDIATE")?;
    let upgraded = (|| {
        conn.execute(CHECKS)?;
        conn.execute(views::TABLE)?;
        conn.execute(programs::TABLE)?;
        conn.execute(&format!("UPDATE tg_meta SET value = {FORMAT_VERSION} WHERE name = 'format'; COMMIT"))
    })();
    if upgraded.is_err() {
        // SQLite may have rolled back already; the error that counts is the first one.
        let _ = conn.execute("ROLLBACK");
    }
    upgraded
}

const TABLE_ROWS: &str =
    "SELECT id, name, engine, collation, comment, created, view, next_column, next_auto FROM tg_table";

fn load_tables(conn: &Conn, old: Option<&Catalog>) -> Result<Vec<Table>, SqliteError> {
    rows(conn, TABLE_ROWS)?.iter().map(|row| load_table(conn, row, old)).collect()
}

fn rows(conn: &Conn, sql: &str) -> Result<Vec<Vec<Datum>>, SqliteError> {
    let mut stmt = conn.prepare(sql)?;
    let mut rows = Vec::new();
    while stmt.step()? == Step::Row {
        rows.push((0..stmt.column_count()).map(|index| stmt.cell(index).to_owned()).collect());
    }
    Ok(rows)
}

fn text(datum: &Datum) -> String {
    match datum {
        Datum::Text(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

fn int(datum: &Datum) -> i64 {
    match datum {
        Datum::Int(value) => *value,
        _ => 0,
    }
}

fn load_table(conn: &Conn, row: &[Datum], old: Option<&Catalog>) -> Result<Table, SqliteError> {
    let id = int(&row[0]);
    let state = old.and_then(|old| old.by_id(id)).map(|table| Arc::clone(&table.state)).unwrap_or_default();
    let stored = crate::value::uint_of(row[8].as_cell());
    state.stored_auto.store(stored, Ordering::Release);
    Ok(Table {
        id,
        name: text(&row[1]),
        columns: load_columns(conn, id)?,
        indexes: load_indexes(conn, id)?,
        foreign_keys: load_foreign_keys(conn, id)?,
        checks: load_checks(conn, id)?,
        engine: text(&row[2]),
        collation: Collation(int(&row[3]) as u16),
        comment: text(&row[4]),
        created: int(&row[5]),
        view: (!row[6].is_null()).then(|| text(&row[6])),
        next_column_id: int(&row[7]) as u32,
        state,
    })
}

fn load_columns(conn: &Conn, table: i64) -> Result<Vec<Column>, SqliteError> {
    let sql = format!(
        "SELECT id, name, type, json, collation, nullable, default_kind, default_text, default_value, on_update, auto, comment \
         FROM tg_column WHERE table_id = {table} ORDER BY position"
    );
    rows(conn, &sql)?
        .into_iter()
        .map(|row| {
            let spelled = text(&row[2]);
            let mut ty = type_from_catalog(&spelled, int(&row[3]) != 0).ok_or_else(|| SqliteError {
                code: libsqlite3_sys::SQLITE_CORRUPT,
                message: format!("the catalogue has a type \"{spelled}\""),
            })?;
            ty.collation = Collation(int(&row[4]) as u16);
            let default = match int(&row[6]) {
                0 => Default::None,
                1 => Default::Null,
                4 => Default::Now,
                5 => Default::Expression(text(&row[7])),
                6 | 7 => Default::None,
                kind => Default::Literal { text: text(&row[7]), quoted: kind == 2, value: row[8].clone() },
            };
            Ok(Column {
                id: int(&row[0]) as u32,
                name: text(&row[1]),
                ty,
                nullable: int(&row[5]) != 0,
                default,
                on_update: int(&row[9]) != 0,
                auto_increment: int(&row[10]) != 0,
                generated: matches!(int(&row[6]), 6 | 7)
                    .then(|| Generated { text: text(&row[7]), stored: int(&row[6]) == 7 }),
                comment: text(&row[11]),
            })
        })
        .collect()
}

fn load_indexes(conn: &Conn, table: i64) -> Result<Vec<Index>, SqliteError> {
    let sql = format!("SELECT id, name, kind, parts, comment FROM tg_index WHERE table_id = {table} ORDER BY position");
    let rows = rows(conn, &sql)?;
    Ok(rows
        .into_iter()
        .map(|row| Index {
            id: int(&row[0]),
            name: text(&row[1]),
            kind: match int(&row[2]) {
                3 => KeyKind::Fulltext,
                2 => KeyKind::Primary,
                1 => KeyKind::Unique,
                _ => KeyKind::Plain,
            },
            parts: text(&row[3]).split(',').filter_map(part_of).collect(),
            comment: text(&row[4]),
            generated: int(&row[2]) == 4,
        })
        .collect())
}

fn load_foreign_keys(conn: &Conn, table: i64) -> Result<Vec<ForeignKey>, SqliteError> {
    let sql = format!(
        "SELECT name, columns, parent, parent_columns, on_delete, on_update FROM tg_foreign_key \
         WHERE table_id = {table} ORDER BY position"
    );
    let rows = rows(conn, &sql)?;
    Ok(rows
        .into_iter()
        .map(|row| ForeignKey {
            name: text(&row[0]),
            columns: text(&row[1]).split(',').filter_map(|id| id.parse().ok()).collect(),
            table: text(&row[2]),
            references: text(&row[3]).split('\u{1}').map(str::to_owned).collect(),
            on_delete: text(&row[4]),
            on_update: text(&row[5]),
        })
        .collect())
}

fn load_checks(conn: &Conn, table: i64) -> Result<Vec<Check>, SqliteError> {
    let sql = format!("SELECT name, text, column_id FROM tg_check WHERE table_id = {table} ORDER BY position");
    let check = |row: Vec<Datum>| Check {
        name: text(&row[0]),
        text: text(&row[1]),
        column: (!row[2].is_null()).then(|| int(&row[2]) as u32),
    };
    Ok(rows(conn, &sql)?.into_iter().map(check).collect())
}
