//! Stored programs in a schema's file.

use std::sync::Arc;

use crate::{
    account_name::Name,
    parse::program::{
        RoutineKind,
        event::Event,
        kept::Kept,
        routine::Routine,
        trigger::{Trigger, Triggers},
    },
    sql_mode,
    store::conn::{Cell, Conn, SqliteError, Step},
    value::{Datum, collation::Collation},
};

/// What format 5 added: the definitions of stored programs.
///
/// `kind` is 1 for triggers, of which `table_id` is the table and `position` the place among all of that table, 2 for procedures,
/// 3 for functions and 4 for events, of which `position` is the time of the last ALTER, and `table_id` that of the last run in
/// seconds since 1970.
pub(crate) const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS tg_program (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, table_id INTEGER, \
 position INTEGER NOT NULL, text TEXT NOT NULL, sql_mode TEXT NOT NULL, definer TEXT NOT NULL, created INTEGER NOT NULL, \
 charset TEXT NOT NULL, collation INTEGER NOT NULL, UNIQUE (kind, name)) STRICT;";

const TRIGGER: i64 = 1;
const EVENT: i64 = 4;

/// The number of a kind of routine.
fn number_of(kind: RoutineKind) -> i64 {
    match kind {
        RoutineKind::Procedure => 2,
        RoutineKind::Function => 3,
    }
}

/// An account in `tg_program`: empty for the process.
fn name_to_keep(name: Option<&Name>) -> String {
    name.map_or(String::new(), |name| format!("{}\0{}", name.user, name.host))
}

/// The account that [`name_to_keep`] has written.
fn name_of(kept: &str) -> Option<Name> {
    kept.split_once('\0').map(|(user, host)| Name::new(user, host))
}

/// A program that is about to be made.
pub(crate) struct NewProgram<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) sql_mode: u64,
    pub(crate) definer: Option<Name>,
    pub(crate) created: i64,
    pub(crate) charset: String,
    pub(crate) collation: Collation,
}

/// Writes a new trigger of a table, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store_trigger(conn: &Conn, new: &NewProgram<'_>, table: i64, position: i64) -> Result<(), SqliteError> {
    store(conn, new, TRIGGER, Datum::Int(table), position)
}

/// Writes a new procedure or function, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store_routine(conn: &Conn, kind: RoutineKind, new: &NewProgram<'_>) -> Result<(), SqliteError> {
    store(conn, new, number_of(kind), Datum::Null, 0)
}

/// Writes an event that was altered at this time, or is new, and has run last at `last_run`, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store_event(
    conn: &Conn,
    new: &NewProgram<'_>,
    altered: i64,
    last_run: Option<i64>,
) -> Result<(), SqliteError> {
    store(conn, new, EVENT, last_run.map_or(Datum::Null, Datum::Int), altered)
}

/// Says when an event has run last, inside of the caller's transaction. Another one may have its number by now.
///
/// # Errors
/// SQLite's.
pub(crate) fn note_run(conn: &mut Conn, event: &Kept, at: i64) -> Result<(), SqliteError> {
    let sql = "UPDATE tg_program SET table_id = ?1 WHERE kind = ?2 AND id = ?3 AND created = ?4";
    let values = [at, EVENT, event.id, event.created].map(Cell::Int);
    conn.run_kept(sql, values.into_iter()).map(drop)
}

/// Gives a program another text, at a time in microseconds since 1970.
///
/// # Errors
/// SQLite's.
pub(crate) fn alter(conn: &Conn, id: i64, text: &str, now: i64) -> Result<(), SqliteError> {
    let mut stmt = conn.prepare("UPDATE tg_program SET text = ?1, position = ?2 WHERE id = ?3")?;
    for (index, value) in [Datum::text(text), Datum::Int(now), Datum::Int(id)].iter().enumerate() {
        stmt.bind(index + 1, value.as_cell())?;
    }
    stmt.run()
}

fn store(conn: &Conn, new: &NewProgram<'_>, kind: i64, table: Datum, position: i64) -> Result<(), SqliteError> {
    let mut stmt = conn.prepare(
        "INSERT INTO tg_program (kind, name, table_id, position, text, sql_mode, definer, created, charset, collation) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    let values = [
        Datum::Int(kind),
        Datum::text(new.name),
        table,
        Datum::Int(position),
        Datum::text(new.text),
        Datum::text(sql_mode::text_of(new.sql_mode)),
        Datum::text(name_to_keep(new.definer.as_ref())),
        Datum::Int(new.created),
        Datum::text(new.charset.as_str()),
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

/// Removes a program.
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
    conn.execute(&format!("DELETE FROM tg_program WHERE kind = {TRIGGER} AND table_id = {table}"))
}

/// Reads the triggers of a file; those that are as before keep what has been read of them.
///
/// # Errors
/// SQLite's.
pub(crate) fn load_triggers(
    conn: &Conn,
    old: Option<&Triggers>,
    collation: Collation,
) -> Result<Triggers, SqliteError> {
    let mut triggers = Triggers::new();
    each(conn, TRIGGER, "table_id, position, id", collation, |kept, table, position| {
        let is_same = |known: &&Arc<Trigger>| known.position == position && known.kept.is_same(&kept);
        let known = old.and_then(|old| old.get(&table)?.iter().find(is_same)).cloned();
        let trigger = known.unwrap_or_else(|| Arc::new(Trigger::new(kept, table, position)));
        triggers.entry(table).or_default().push(trigger);
    })?;
    Ok(triggers)
}

/// Reads the procedures and functions of a file; those that are as before keep what has been read of them.
///
/// # Errors
/// SQLite's.
pub(crate) fn load_routines(
    conn: &Conn,
    old: &[Arc<Routine>],
    collation: Collation,
) -> Result<Vec<Arc<Routine>>, SqliteError> {
    let mut routines = Vec::new();
    for kind in [RoutineKind::Procedure, RoutineKind::Function] {
        each(conn, number_of(kind), "name", collation, |kept, _, altered| {
            let kept = Kept { altered, ..kept };
            let known = old.iter().find(|known| known.kind == kind && known.kept.is_same(&kept)).cloned();
            routines.push(known.unwrap_or_else(|| Arc::new(Routine::new(kind, kept))));
        })?;
    }
    Ok(routines)
}

/// Reads the events of a file; those that are as before keep what has been read of them.
///
/// # Errors
/// SQLite's.
pub(crate) fn load_events(
    conn: &Conn,
    old: &[Arc<Event>],
    collation: Collation,
) -> Result<Vec<Arc<Event>>, SqliteError> {
    let mut events = Vec::new();
    each(conn, EVENT, "name", collation, |kept, last_run, altered| {
        let kept = Kept { altered, ..kept };
        let known = old.iter().find(|known| known.kept.is_same(&kept)).cloned();
        events.push(known.unwrap_or_else(|| Arc::new(Event::new(kept, last_run))));
    })?;
    Ok(events)
}

/// Calls `f` with each program of a kind, the number of its table and its position.
fn each(
    conn: &Conn,
    kind: i64,
    order: &str,
    schema_collation: Collation,
    mut f: impl FnMut(Kept, i64, i64),
) -> Result<(), SqliteError> {
    let mut stmt = conn.prepare(&format!(
        "SELECT id, name, table_id, position, text, sql_mode, definer, created, charset, collation FROM tg_program \
         WHERE kind = {kind} ORDER BY {order}"
    ))?;
    while stmt.step()? == Step::Row {
        let int = |index| if let Cell::Int(value) = stmt.cell(index) { value } else { 0 };
        let text = |index| match stmt.cell(index) {
            Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let kept = Kept {
            id: int(0),
            name: text(1),
            text: text(4),
            sql_mode: sql_mode::parse(&text(5)).unwrap_or(0),
            definer: name_of(&text(6)),
            created: int(7),
            altered: 0,
            charset: text(8),
            collation: Collation(int(9) as u16),
            schema_collation,
        };
        f(kept, int(2), int(3));
    }
    Ok(())
}
