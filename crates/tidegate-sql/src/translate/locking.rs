//! FOR UPDATE and FOR SHARE: which rows a query locks.
//!
//! A locking clause is about the tables in FROM of its own SELECT. Queries within it lock what their own clauses say, and the rows of
//! a derived table are nobody's to lock, as in InnoDB. A query that groups its rows locks all that it reads.

use std::{sync::Arc, time::Duration};

use sqlparser::ast::{LockType, NonBlock, Query, Select};

use super::{
    Res, Translator,
    about::Conditions,
    scope::{Scope, Source},
    select::Rel,
};
use crate::{column::same_name, parse::wait::seconds_of, row_locks::Mode};

/// How a query locks the rows that it reads.
#[derive(Debug, Clone)]
pub(crate) struct Locking {
    pub(crate) wait: LockWait,
    /// `None` if the rows cannot be told: the transaction becomes the schema's writer instead.
    pub(crate) rows: Option<Vec<LockedRows>>,
}

/// What a query does about rows that others have locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    Wait,
    /// WAIT n
    AtMost(Duration),
    /// NOWAIT
    Fail,
    /// SKIP LOCKED
    Skip,
}

/// The rows that a query locks.
#[derive(Debug, Clone)]
pub(crate) struct LockedRows {
    pub(crate) mode: Mode,
    /// The query with their row ids behind its columns.
    pub(crate) sql: String,
    /// Their tables.
    pub(crate) tables: Vec<i64>,
}

/// What a translation knows about locks.
#[derive(Default)]
pub(crate) struct Locks {
    /// The locking clause of the query that is being translated.
    clause: Option<Wanted>,
    /// What the queries so far lock.
    pub(crate) found: Option<Locking>,
    /// The query that is about to be translated is to have its row ids behind its columns.
    pub(crate) shows_row_ids: bool,
    /// The query that is being translated has them, so that views in its FROM must have theirs.
    showing_row_ids: bool,
}

impl Locks {
    /// Those of a text within the statement, which may go on with what was found.
    pub(super) fn take(&mut self) -> Self {
        Self { found: self.found.take(), ..Self::default() }
    }
}

/// The rows that a SELECT locks.
pub(super) enum Locked {
    /// Those of its result, by their row ids.
    Result(Vec<(i64, String)>),
    /// All that it reads.
    All(LockedRows),
}

impl Locked {
    /// The query for the rows of a SELECT with these parts of its text.
    pub(super) fn query(&self, head: &str, items: &[String], tail: &str) -> LockedRows {
        match self {
            Locked::Result(rowids) => with_rowids(head, items, rowids, tail),
            Locked::All(rows) => rows.clone(),
        }
    }
}

/// What the clauses of a query ask for.
#[derive(Debug, Clone)]
struct Wanted {
    /// The tables with these names, or all.
    names: Vec<String>,
    mode: Mode,
    wait: LockWait,
}

impl Wanted {
    /// Whether it is about the table of this name.
    fn is_about(&self, alias: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| same_name(name, alias))
    }

    fn of(query: &Query) -> Option<Self> {
        let mut wait = LockWait::Wait;
        for lock in &query.locks {
            match lock.nonblock {
                Some(NonBlock::Nowait) => wait = LockWait::Fail,
                Some(NonBlock::SkipLocked) => wait = LockWait::Skip,
                None => {}
            }
        }
        let mode = match query.locks.iter().any(|lock| lock.lock_type == LockType::Update) {
            true => Mode::Exclusive,
            false => Mode::Shared,
        };
        let mut names: Vec<String> =
            query.locks.iter().filter_map(|lock| lock.of.as_ref()?.0.last()).map(ToString::to_string).collect();
        names.retain(|name| match seconds_of(name.trim_matches('`')) {
            Some(seconds) => {
                wait = if seconds == 0 { LockWait::Fail } else { LockWait::AtMost(Duration::from_secs(seconds)) };
                false
            }
            None => true,
        });
        (!query.locks.is_empty()).then_some(Self { names, mode, wait })
    }
}

impl Translator<'_> {
    /// Translates a query by `translate`, and notes the rows that it locks. `with` stands before its text; the
    /// queries around it have `ctes_around` CTEs.
    ///
    /// # Errors
    /// Those of `translate`.
    pub(super) fn with_locks(
        &mut self,
        query: &Query,
        (with, ctes_around): (&str, usize),
        outer: Option<&Scope<'_>>,
        translate: impl FnOnce(&mut Self) -> Res<Rel>,
    ) -> Res<Rel> {
        let Some(wanted) = Wanted::of(query) else {
            let around = self.locks.clause.take();
            let rel = translate(self);
            self.locks.clause = around;
            return rel;
        };
        let Wanted { mode, wait, .. } = wanted;
        let around = self.locks.clause.replace(wanted);
        let reached = self.reached.replace(usize::MAX);
        let rel = translate(self);
        self.locks.clause = around;
        // A query that depends on those around it finds no rows alone.
        let is_alone = ctes_around == 0 && outer.is_none_or(|outer| self.reached.get() > outer.level());
        self.reached.set(self.reached.get().min(reached));
        let mut rel = rel?;
        let locked = rel.locked.take().filter(|_| is_alone);
        let locking = self.locks.found.get_or_insert_with(|| Locking { wait, rows: Some(Vec::new()) });
        if wait != LockWait::Wait {
            locking.wait = wait;
        }
        match (locked, &mut locking.rows) {
            (Some(rows), _) if rows.tables.is_empty() => {}
            (Some(rows), Some(all)) => all.push(LockedRows { sql: format!("{with}{}", rows.sql), mode, ..rows }),
            _ => locking.rows = None,
        }
        Ok(rel)
    }

    /// Translates FROM of a query; answers whether the query is to show its row ids.
    ///
    /// # Errors
    /// Those of FROM.
    pub(super) fn lockable_from(&mut self, select: &Select, scope: &mut Scope<'_>) -> Res<(String, bool)> {
        let conditions = Conditions::of(select, self);
        let conditions_around = std::mem::replace(&mut self.conditions, conditions);
        let shows = std::mem::take(&mut self.locks.shows_row_ids);
        let around = std::mem::replace(&mut self.locks.showing_row_ids, shows);
        let sql = self.from(&select.from, scope);
        self.conditions = conditions_around;
        self.locks.showing_row_ids = around;
        Ok((sql?, shows))
    }

    /// Whether a view in FROM must show whose rows its rows are.
    pub(super) fn shows_view_rows(&self, alias: &str) -> bool {
        self.locks.showing_row_ids || self.locks.clause.as_ref().is_some_and(|wanted| wanted.is_about(alias))
    }

    /// The rows that a query locks, and the row ids behind its columns if it `shows` them. A `plain` one has a row for each that it
    /// reads; `all` reads them.
    pub(super) fn rows_of(
        &self,
        scope: &Scope<'_>,
        plain: bool,
        shows: bool,
        all: &str,
    ) -> (Option<Locked>, Option<Vec<(i64, String)>>) {
        let locked = self.rowids_to_lock(scope).map(|rowids| match plain {
            true => Locked::Result(rowids),
            false => Locked::All(with_rowids("SELECT ", &[], &rowids, all)),
        });
        // A group has no row of its own.
        let row_ids = if shows && plain { self.row_ids_of(scope.sources.iter()) } else { Some(Vec::new()) };
        (locked, row_ids)
    }

    /// The row ids of the rows that the query locks, as far as they can be told.
    fn rowids_to_lock(&self, scope: &Scope<'_>) -> Option<Vec<(i64, String)>> {
        let wanted = self.locks.clause.as_ref()?;
        self.row_ids_of(scope.sources.iter().filter(|source| wanted.is_about(&source.alias)))
    }

    /// The row ids of the rows of tables, as far as they can be told.
    fn row_ids_of<'s>(&self, sources: impl Iterator<Item = &'s Source>) -> Option<Vec<(i64, String)>> {
        if self.effects.fresh > 0 {
            // The rows are looked for twice.
            return None;
        }
        // Locks of other schemas are not kept with this one's.
        let is_here = |source: &&Source| match (&source.home, &self.home) {
            (Some(schema), Some(home)) => Arc::ptr_eq(schema, home),
            _ => true,
        };
        let ids: Option<Vec<_>> = sources.filter(is_here).map(|source| source.row_ids.clone()).collect();
        Some(ids?.concat())
    }

    /// Has the query leave out rows that others have locked, if it wants that; answers whether it has a condition then.
    pub(super) fn skip_locked(&self, scope: &Scope<'_>, tail: &mut String, has_condition: bool) -> bool {
        let Some(wanted) = self.locks.clause.as_ref().filter(|wanted| wanted.wait == LockWait::Skip) else {
            return has_condition;
        };
        let mode = i64::from(wanted.mode == Mode::Exclusive);
        let mut is_filtered = has_condition;
        for (table, rowid) in self.rowids_to_lock(scope).into_iter().flatten() {
            let word = if std::mem::replace(&mut is_filtered, true) { "AND" } else { "WHERE" };
            tail.push_str(&format!(" {word} tg_is_free({table}, {rowid}, {mode})"));
        }
        is_filtered
    }
}

/// The rows of a SELECT with these parts of its text.
fn with_rowids(head: &str, items: &[String], rowids: &[(i64, String)], tail: &str) -> LockedRows {
    let rowid_texts = rowids.iter().map(|(_, text)| text.as_str());
    let texts: Vec<&str> = items.iter().map(String::as_str).chain(rowid_texts).collect();
    let sql = format!("{head}{}{tail}", texts.join(", "));
    LockedRows { sql, mode: Mode::Shared, tables: rowids.iter().map(|(table, _)| *table).collect() }
}
