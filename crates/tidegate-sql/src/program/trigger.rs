//! Triggers in the catalogue.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use tidegate_rows::ServerError;

use super::{
    code::Code,
    compile::Reading,
    definition::{self, Head},
};
use crate::{
    accounts::Name,
    catalog::Table,
    lexer::LexMode,
    store::conn::{Cell, Conn, SqliteError, Step},
    value::{Datum, collation::Collation},
    variables,
};

/// What format 5 added: the definitions of stored programs.
///
/// `kind` is 1 for triggers, of which `table_id` is the table and `position` the place among all of that table.
pub(crate) const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS tg_program (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL, table_id INTEGER, \
 position INTEGER NOT NULL, text TEXT NOT NULL, sql_mode TEXT NOT NULL, definer TEXT NOT NULL, created INTEGER NOT NULL, \
 charset TEXT NOT NULL, collation INTEGER NOT NULL, UNIQUE (kind, name)) STRICT;";

const KIND: i64 = 1;

/// When a trigger runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    Before,
    After,
}

/// What a trigger runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Insert,
    Update,
    Delete,
}

impl Timing {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        }
    }
}

impl Event {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A trigger as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Trigger {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) table: i64,
    pub(crate) position: i64,
    /// From the word TRIGGER on, as it was written.
    pub(crate) text: String,
    /// The `sql_mode` under which it was made, and runs.
    pub(crate) sql_mode: u64,
    /// `None` for the process itself.
    pub(crate) definer: Option<Name>,
    /// Microseconds since 1970.
    pub(crate) created: i64,
    /// The character set of the client that has made it.
    pub(crate) charset: String,
    /// The collation of that client's connection.
    pub(crate) collation: Collation,
    /// Of local variables.
    schema_collation: Collation,
    read: OnceLock<Result<(Head, Arc<Code>), ServerError>>,
}

/// The triggers of a schema, by the numbers of their tables, in the order in which they run.
pub(crate) type Triggers = BTreeMap<i64, Vec<Arc<Trigger>>>;

impl Trigger {
    /// What the text says: its head and its body.
    ///
    /// # Errors
    /// What the text is not: a file may come from a newer version.
    pub(crate) fn read(&self) -> Result<&(Head, Arc<Code>), ServerError> {
        let read = || {
            let reading = Reading {
                mode: lex_mode(self.sql_mode),
                pipes_as_concat: self.sql_mode & variables::PIPES_AS_CONCAT != 0,
                collation: self.schema_collation,
            };
            definition::read(&self.text, reading).map(|(head, code)| (head, Arc::new(code)))
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Whether it runs then.
    pub(crate) fn runs(&self, event: Event, timing: Timing) -> bool {
        self.read().is_ok_and(|(head, _)| head.event == event && head.timing == timing)
    }

    /// The account that is shown.
    pub(crate) fn shown_definer(&self) -> Name {
        self.definer.clone().unwrap_or_else(|| Name::new("root", "localhost"))
    }

    /// The text with its table's name of now.
    pub(crate) fn shown_text(&self, table: &Table) -> String {
        match self.read() {
            Ok((head, _)) if head.table.name != table.name => {
                let (from, to) = head.on;
                format!("{}ON {}{}", &self.text[..from], crate::show::quote_name(&table.name), &self.text[to..])
            }
            _ => self.text.clone(),
        }
    }
}

fn lex_mode(sql_mode: u64) -> LexMode {
    LexMode {
        ansi_quotes: sql_mode & variables::ANSI_QUOTES != 0,
        no_backslash_escapes: sql_mode & variables::NO_BACKSLASH_ESCAPES != 0,
    }
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
    let definer = new.definer.map_or(String::new(), |name| format!("{}\0{}", name.user, name.host));
    let mut stmt = conn.prepare(
        "INSERT INTO tg_program (kind, name, table_id, position, text, sql_mode, definer, created, charset, collation) \
         VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let values = [
        Datum::text(new.name),
        Datum::Int(new.table),
        Datum::Int(new.position),
        Datum::text(new.text),
        Datum::text(variables::sql_mode_text(new.sql_mode)),
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
                sql_mode: variables::parse_sql_mode(&text(5)).unwrap_or(0),
                definer: text(6).split_once('\0').map(|(user, host)| Name::new(user, host)),
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

/// The trigger of a name.
pub(crate) fn named<'t>(triggers: &'t Triggers, name: &str) -> Option<&'t Arc<Trigger>> {
    triggers.values().flatten().find(|trigger| trigger.name == name)
}
