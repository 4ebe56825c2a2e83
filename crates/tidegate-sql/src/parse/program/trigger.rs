//! Triggers in the catalogue.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use tidegate_rows::ServerError;

use super::{
    code::Code,
    definition::{self, Head},
    kept::Kept,
};
use crate::identifier::quoted;

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
    pub(crate) kept: Kept,
    pub(crate) table: i64,
    pub(crate) position: i64,
    read: OnceLock<Result<(Head, Arc<Code>), ServerError>>,
}

/// The triggers of a schema, by the numbers of their tables, in the order in which they run.
pub(crate) type Triggers = BTreeMap<i64, Vec<Arc<Trigger>>>;

impl Trigger {
    /// One of which nothing has been read.
    pub(crate) fn new(kept: Kept, table: i64, position: i64) -> Self {
        Self { kept, table, position, read: OnceLock::new() }
    }

    /// What the text says: its head and its body.
    ///
    /// # Errors
    /// What the text is not: a file may come from a newer version.
    pub(crate) fn read(&self) -> Result<&(Head, Arc<Code>), ServerError> {
        let read = || {
            let read = definition::read(&self.kept.text, self.kept.reading());
            read.map(|(head, code)| (head, Arc::new(code)))
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Whether it runs then.
    pub(crate) fn runs(&self, event: Event, timing: Timing) -> bool {
        self.read().is_ok_and(|(head, _)| head.event == event && head.timing == timing)
    }

    /// The text with its table's name of now.
    pub(crate) fn shown_text(&self, table: &str) -> String {
        match self.read() {
            Ok((head, _)) if head.table.name != table => {
                let (from, to) = head.on;
                format!("{}ON {}{}", &self.kept.text[..from], quoted(table), &self.kept.text[to..])
            }
            _ => self.kept.text.clone(),
        }
    }
}

/// The trigger of a name.
pub(crate) fn named<'t>(triggers: &'t Triggers, name: &str) -> Option<&'t Arc<Trigger>> {
    triggers.values().flatten().find(|trigger| trigger.kept.name == name)
}
