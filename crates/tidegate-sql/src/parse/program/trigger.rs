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
use crate::{account_name::Name, column::quoted, lexer::LexMode, sql_mode, value::collation::Collation};

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
    pub(crate) schema_collation: Collation,
    pub(crate) read: OnceLock<Result<(Head, Arc<Code>), ServerError>>,
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
                pipes_as_concat: self.sql_mode & sql_mode::PIPES_AS_CONCAT != 0,
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
    pub(crate) fn shown_text(&self, table: &str) -> String {
        match self.read() {
            Ok((head, _)) if head.table.name != table => {
                let (from, to) = head.on;
                format!("{}ON {}{}", &self.text[..from], quoted(table), &self.text[to..])
            }
            _ => self.text.clone(),
        }
    }
}

pub(super) fn lex_mode(mode: u64) -> LexMode {
    LexMode {
        ansi_quotes: mode & sql_mode::ANSI_QUOTES != 0,
        no_backslash_escapes: mode & sql_mode::NO_BACKSLASH_ESCAPES != 0,
    }
}

/// The trigger of a name.
pub(crate) fn named<'t>(triggers: &'t Triggers, name: &str) -> Option<&'t Arc<Trigger>> {
    triggers.values().flatten().find(|trigger| trigger.name == name)
}
