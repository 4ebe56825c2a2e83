//! Triggers in a schema's file.

use std::sync::{Arc, OnceLock};

use crate::{
    account_name::Name,
    parse::program::trigger::{Trigger, Triggers},
    sql_mode,
    store::conn::{Cell, Conn, SqliteError, Step},
    value::{Datum, collation::Collation},
};

/// What format 5 added: the definitions of stored programs.
///
/// `kind` is 1 for triggers, of which `table_id` is the table and `position` the place among all of that table.
pub(crate) const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS tg_program (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, table_id INTEGER, \
 position INTEGER NOT NULL, text TEXT NOT NULL, sql_mode TEXT NOT NULL, definer TEXT NOT NULL, created INTEGER NOT NULL, \
 charset TEXT NOT NULL, collation INTEGER NOT NULL, UNIQUE (kind, name)) STRICT;";

const KIND: i64 = 1;

/// An account in `tg_program`: empty for the process.
pub(super) fn name_to_keep(name: Option<&Name>) -> String {
    name.map_or(String::new(), |name| format!("{}\0{}", name.user, name.host))
}

/// The account that [`name_to_keep`] has written.
pub(super) fn name_of(kept: &str) -> Option<Name> {
    kept.split_once('\0').map(|(user, host)| Name::new(user, host))
}

/// A trigger that is about to be made.
pub(crate) struct NewTrigger<'a> {
    pub(crate) name: &'a str,
    pub(crate) table: i64,
    pub(crate) position: i64,
    pub(crate) text: &'a str,
    pub(crate) sql_mode: u64,
    pub(crate) definer: Option<&'a Name>,
    pub(crate) created: i64,
    pub(crate) charset: &'a str,
    pub(crate) collation: Collation,
}

/// Writes a new trigger, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store(conn: &Conn, new: &NewTrigger<'_>) -> Result<(), SqliteError> {
    let definer = name_to_keep(new.definer);
    let mut stmt = conn.prepare(
        "INSERT INTO tg_program (kind, name, table_id, position, text, sql_mode, definer, created, charset, collation) \
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let values = [
        Datum::text(new.name),
        Datum::Int(new.table),
        Datum::Int(new.position),
        Datum::text(new.text),
        Datum::text(sql_mode::text_of(new.sql_mode)),
        Datum::text(definer),
        Datum::Int(new.created),
        Datum::text(new.charset),
        Datum::Int(i64::from(new.collation.0)),
    ];
    for (index, value) in values.iter().enumerate() {
        stmt.bind(index + 1, value.as_cell())?;
    }
    stmt.run()
}

/// Puts a trigger at a place among those of its table.
///
/// # Errors
/// SQLite's.
pub(crate) fn place(conn: &Conn, id: i64, position: i64) -> Result<(), SqliteError> {
    conn.execute(&format!("UPDATE tg_program SET position = {position} WHERE id = {id}"))
}

/// Removes a trigger.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(conn: &Conn, id: i64) -> Result<(), SqliteError> {
    conn.execute(&format!("DELETE FROM tg_program WHERE id = {id}"))
}

/// Removes the triggers of a table.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove_of_table(conn: &Conn, table: i64) -> Result<(), SqliteError> {
    conn.execute(&format!("DELETE FROM tg_program WHERE kind = {KIND} AND table_id = {table}"))
}

/// Reads the triggers of a file; those that are as before keep what has been read of them.
///
/// # Errors
/// SQLite's.
pub(crate) fn load(conn: &Conn, old: Option<&Triggers>, collation: Collation) -> Result<Triggers, SqliteError> {
    let mut triggers = Triggers::new();
    let mut stmt = conn.prepare(&format!(
        "SELECT id, name, table_id, position, text, sql_mode, definer, created, charset, collation FROM tg_program \
         WHERE kind = {KIND} ORDER BY table_id, position, id"
    ))?;
    while stmt.step()? == Step::Row {
        let int = |index| if let Cell::Int(value) = stmt.cell(index) { value } else { 0 };
        let text = |index| match stmt.cell(index) {
            Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let (id, table, position) = (int(0), int(2), int(3));
        let known = old.and_then(|old| old.get(&table)?.iter().find(|known| known.id == id));
        // A number comes again when its trigger has gone.
        let is_same = |known: &&Arc<Trigger>| {
            (known.position, known.created) == (position, int(7))
                && known.schema_collation == collation
                && known.text == text(4)
                && known.name == text(1)
        };
        let trigger = match known.filter(is_same) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Trigger {
                id,
                name: text(1),
                table,
                position,
                text: text(4),
                sql_mode: sql_mode::parse(&text(5)).unwrap_or(0),
                definer: name_of(&text(6)),
                created: int(7),
                charset: text(8),
                collation: Collation(int(9) as u16),
                schema_collation: collation,
                read: OnceLock::new(),
            }),
        };
        triggers.entry(table).or_default().push(trigger);
    }
    Ok(triggers)
}
