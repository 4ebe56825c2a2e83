//! Which tables a query read and a commit changed, each with a number that grows with every commit to it.
//!
//! Whoever keeps a query's result keeps the numbers that stood *before* the query ran, and uses the result while they
//! still stand: a commit raises its tables' numbers before it is acknowledged, so what was read before a commit never
//! carries a number from behind it.

use std::sync::{Arc, atomic::Ordering};

use super::{Core, Session, freshness::Seen};
use crate::{
    catalog::TableState,
    schema::{Schema, commits::Reservation},
    translate::plan::Plan,
};

/// A table that a query has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRead {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// Commits that had changed it when the query began; `None` inside of a transaction, whose view of the table may be
    /// older than the newest commit or hold changes of its own.
    pub version: Option<u64>,
}

/// A table that a commit has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChange {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// Commits that have changed it, with this one.
    pub version: u64,
}

/// What a session notes for those who want to know.
#[derive(Debug, Default)]
pub(super) struct Watched {
    reads: Vec<TableRead>,
    changes: Vec<TableChange>,
    pub(super) seen: Seen,
    /// The statement that runs has listed what it reads.
    lists: bool,
    /// A statement of the text depends on more than that.
    reads_more: bool,
}

impl Session {
    /// Has the session note from now on what queries read and commits change.
    pub fn watch_tables(&mut self) {
        self.core.watched.get_or_insert_default();
    }

    /// What the statements of the last text have read, if tables are watched: tables, and views.
    pub fn reads(&self) -> &[TableRead] {
        self.core.watched.as_ref().map_or(&[], |watched| &watched.reads)
    }

    /// Whether the results of the last text may depend on more than its [`reads`](Self::reads) and the settings that the
    /// session has begun with: on the clock, on chance, on variables, on transactions, on tables without versions. Also if
    /// a statement of it was no query, or has failed.
    pub fn reads_more(&self) -> bool {
        self.core.watched.as_ref().is_none_or(|watched| watched.reads_more)
    }

    /// What the last commit has changed, if tables are watched. Statements that change definitions are not listed; their
    /// tables' numbers grow all the same.
    pub fn changes(&self) -> &[TableChange] {
        self.core.watched.as_ref().map_or(&[], |watched| &watched.changes)
    }
}

impl Core {
    /// Notes what a query is about to read; `alone` when it sees the newest commits.
    #[inline]
    pub(super) fn note_reads(&mut self, plan: &Plan, alone: bool) {
        if self.watched.is_some() {
            self.list_reads(plan, alone);
        }
    }

    /// Another text is about to run.
    #[inline]
    pub(super) fn forget_reads(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.reads.clear();
            watched.seen.clear();
            watched.reads_more = false;
        }
    }

    /// A statement is about to run, by a plan or without.
    #[inline]
    pub(super) fn begin_reads(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.lists = false;
        }
    }

    /// The statement that runs is no query.
    pub(super) fn reads_more(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.reads_more = true;
        }
    }

    /// A statement has run, or failed.
    #[inline]
    pub(super) fn end_reads(&mut self, failed: bool) {
        if let Some(watched) = &mut self.watched {
            watched.reads_more |= failed || !watched.lists || self.env.has_asked_for_time();
        }
    }

    #[cold]
    fn list_reads(&mut self, plan: &Plan, alone: bool) {
        let Some(watched) = &mut self.watched else { return };
        for ((schema, table), state) in plan.read_names.iter().zip(&plan.read_states) {
            if !watched.reads.iter().any(|read| read.schema == *schema && read.table == *table) {
                let version = alone.then(|| state.version.load(Ordering::Acquire));
                watched.reads.push(TableRead { schema: schema.clone(), table: table.clone(), version });
                watched.seen.note(state, version);
            }
        }
        watched.seen.note_schemas(plan);
        watched.lists = true;
        // Behind the versions: definitions that are newer than the plan raise them later.
        watched.reads_more |= !alone || plan.reads_more || !plan.is_current();
    }

    /// Numbers a commit that has changed these tables.
    pub(super) fn note_changes(&mut self, schema: &Arc<Schema>, reserved: Reservation, touched: &[Arc<TableState>]) {
        if touched.is_empty() {
            return;
        }
        let number = schema.note_commit(reserved, touched.iter());
        if touched.iter().any(|state| state.changes.are_many()) {
            self.engine.request_statistics(schema);
        }
        self.list_changes(schema, touched, number);
    }

    /// Notes what a commit has changed, if somebody wants to know.
    pub(super) fn list_changes(&mut self, schema: &Arc<Schema>, touched: &[Arc<TableState>], version: u64) {
        let Some(watched) = &mut self.watched else { return };
        watched.changes.clear();
        let Ok(catalog) = schema.catalog() else { return };
        for state in touched {
            if let Some(table) = catalog.tables.values().find(|table| Arc::ptr_eq(&table.state, state)) {
                let (schema, table) = (schema.name.clone(), table.name.clone());
                watched.changes.push(TableChange { schema, table, version });
            }
        }
    }
}
