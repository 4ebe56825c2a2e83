//! Procedures in a schema's file.

use std::sync::{Arc, OnceLock};

use super::triggers::{name_of, name_to_keep};
use crate::{
    account_name::Name,
    parse::program::routine::Routine,
    sql_mode,
    store::conn::{Cell, Conn, SqliteError, Step},
    value::{Datum, collation::Collation},
};

/// What `tg_program.kind` says of procedures.
const KIND: i64 = 2;

/// A procedure that is about to be made.
pub(crate) struct NewRoutine<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) sql_mode: u64,
    pub(crate) definer: Option<&'a Name>,
    pub(crate) created: i64,
    pub(crate) charset: &'a str,
    pub(crate) collation: Collation,
}

/// Writes a new procedure, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store(conn: &Conn, new: &NewRoutine<'_>) -> Result<(), SqliteError> {
    let mut stmt = conn.prepare(
        "INSERT INTO tg_program (kind, name, position, text, sql_mode, definer, created, charset, collation) \
         VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let values = [
        Datum::Int(KIND),
        Datum::text(new.name),
        Datum::text(new.text),
        Datum::text(sql_mode::text_of(new.sql_mode)),
        Datum::text(name_to_keep(new.definer)),
        Datum::Int(new.created),
        Datum::text(new.charset),
        Datum::Int(i64::from(new.collation.0)),
    ];
    for (index, value) in values.iter().enumerate() {
        stmt.bind(index + 1, value.as_cell())?;
    }
    stmt.run()
}

/// Removes a procedure.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(conn: &Conn, id: i64) -> Result<(), SqliteError> {
    conn.execute(&format!("DELETE FROM tg_program WHERE id = {id}"))
}

/// Reads the procedures of a file; those that are as before keep what has been read of them.
///
/// # Errors
/// SQLite's.
pub(crate) fn load(conn: &Conn, old: &[Arc<Routine>], collation: Collation) -> Result<Vec<Arc<Routine>>, SqliteError> {
    let mut routines = Vec::new();
    let mut stmt = conn.prepare(&format!(
        "SELECT id, name, text, sql_mode, definer, created, charset, collation FROM tg_program WHERE kind = {KIND} ORDER BY name"
    ))?;
    while stmt.step()? == Step::Row {
        let int = |index| if let Cell::Int(value) = stmt.cell(index) { value } else { 0 };
        let text = |index| match stmt.cell(index) {
            Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        // A number comes again when its procedure has gone.
        let is_same = |known: &&Arc<Routine>| {
            (known.id, known.created, known.schema_collation) == (int(0), int(5), collation)
                && known.name == text(1)
                && known.text == text(2)
        };
        routines.push(old.iter().find(is_same).cloned().unwrap_or_else(|| {
            Arc::new(Routine {
                id: int(0),
                name: text(1),
                text: text(2),
                sql_mode: sql_mode::parse(&text(3)).unwrap_or(0),
                definer: name_of(&text(4)),
                created: int(5),
                charset: text(6),
                collation: Collation(int(7) as u16),
                schema_collation: collation,
                read: OnceLock::new(),
            })
        }));
    }
    Ok(routines)
}
