//! FOR UPDATE and FOR SHARE: which rows a query locks.

use sqlparser::ast::{LockType, NonBlock, Query};

use super::{
    Translator,
    scope::{Scope, Source},
};
use crate::{
    catalog::same_name,
    exec::{LockedRows, Locking},
    row_locks::Mode,
};

impl Translator<'_> {
    /// The row ids of the tables whose rows the query locks, as far as their rows can be told.
    pub(super) fn rowids_to_lock(&self, scope: &Scope<'_>) -> Option<Vec<(i64, String)>> {
        let names = self.locking.as_ref()?;
        if self.effects.fresh > 0 {
            // The rows are looked for twice.
            return None;
        }
        let named = |source: &&Source| names.is_empty() || names.iter().any(|name| same_name(name, &source.alias));
        let rowid = |source: &Source| {
            let table = source.table.as_ref().filter(|table| !table.is_view() && !source.rowid.is_empty())?;
            Some((table.id, source.rowid_text()))
        };
        scope.sources.iter().filter(named).map(rowid).collect()
    }
}

/// How a query locks, given the text of its WITH and the rows that its body has found.
pub(super) fn locking_of(query: &Query, with: &str, body: Option<Locking>) -> Option<Locking> {
    let mut locks = query.locks.iter();
    let mode = match locks.clone().any(|lock| lock.lock_type == LockType::Update) {
        true => Mode::Exclusive,
        false => Mode::Shared,
    };
    let waits = locks.clone().all(|lock| lock.nonblock != Some(NonBlock::Nowait));
    locks.next()?;
    let rows = body.and_then(|locking| locking.rows);
    let rows = rows.map(|rows| LockedRows { sql: format!("{with}{}", rows.sql), ..rows });
    Some(Locking { mode, waits, rows })
}

/// The rows of a SELECT with these parts of its text.
pub(super) fn with_rowids(head: &str, items: &[String], rowids: &[(i64, String)], tail: &str) -> Locking {
    let rowid_texts = rowids.iter().map(|(_, text)| text.as_str());
    let texts: Vec<&str> = items.iter().map(String::as_str).chain(rowid_texts).collect();
    let sql = format!("{head}{}{tail}", texts.join(", "));
    let rows = LockedRows { sql, tables: rowids.iter().map(|(table, _)| *table).collect() };
    Locking { mode: Mode::Shared, waits: true, rows: Some(rows) }
}
