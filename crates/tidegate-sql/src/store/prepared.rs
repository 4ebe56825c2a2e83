//! Statements of SQLite's that a plan keeps prepared from one run to the next.

use std::{
    ops::Deref,
    sync::atomic::{AtomicU64, Ordering},
};

use super::conn::{SqliteError, Stmt};

/// A text of SQLite's that a plan runs. Its number stands for it: who looks for the prepared statement of a text compares numbers.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// That of no other text, except copies of this one.
    number: u64,
    sql: Box<str>,
}

/// The number of the next text; the lowest is that of the query of a SELECT.
static NEXT: AtomicU64 = AtomicU64::new(QUERY + 1);

/// Stands for the query of a plan that only reads: it has no other statement.
const QUERY: u64 = 0;

impl From<String> for Text {
    fn from(sql: String) -> Self {
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), sql: sql.into() }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.sql
    }
}

/// Statements that a plan keeps beside those that it has in any case. A plan may have more texts than that: one for each
/// row of VALUES with expressions.
const KEPT_MAX: usize = 16;

/// Statements that are kept of the programs which a plan runs.
const NESTED_KEPT_MAX: usize = 256;

/// The statements of a plan that are prepared on a connection. One that runs is taken out meanwhile.
#[derive(Default)]
pub(crate) struct Prepared {
    stmts: Vec<(u64, Stmt)>,
    /// Those of the programs that the plan runs.
    nested: Option<Box<Prepared>>,
    /// How many more are kept than [`KEPT_MAX`].
    more: usize,
    /// Whether the one goes that was kept first where another one has no room: those of functions belong to no plan.
    evicts: bool,
}

impl Prepared {
    /// Those of functions that a connection's statements call.
    pub(crate) fn of_functions() -> Self {
        Self { more: NESTED_KEPT_MAX, evicts: true, ..Self::default() }
    }

    /// Whether nothing is prepared.
    pub(crate) fn is_empty(&self) -> bool {
        self.stmts.is_empty()
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.stmts.clear();
        self.nested = None;
    }

    /// The statement of a plan that has one only.
    ///
    /// # Errors
    /// Those of `prepare`, for which it is called once.
    pub(crate) fn query(
        &mut self,
        prepare: impl FnOnce() -> Result<Stmt, SqliteError>,
    ) -> Result<&mut Stmt, SqliteError> {
        if self.stmts.is_empty() {
            self.stmts.push((QUERY, prepare()?));
        }
        Ok(&mut self.stmts[0].1)
    }

    /// Takes the statement of a text out, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, text: &Text) -> Option<Stmt> {
        let index = self.stmts.iter().position(|(number, _)| *number == text.number)?;
        // Where one may have to go, their order is that in which they have run.
        Some(if self.evicts { self.stmts.remove(index).1 } else { self.stmts.swap_remove(index).1 })
    }

    /// Keeps the statement of a text for the next time, unless there are many.
    #[inline]
    pub(crate) fn keep(&mut self, text: &Text, stmt: Stmt) {
        if self.evicts || self.stmts.len() < KEPT_MAX + self.more {
            self.keep_in_any_case(text, stmt);
        }
    }

    /// Keeps the statement of a text of which a plan has no more than its table's definition says: that of its rows, or an
    /// expression of theirs.
    pub(crate) fn keep_in_any_case(&mut self, text: &Text, mut stmt: Stmt) {
        stmt.reset();
        stmt.clear_bindings();
        if self.evicts && self.stmts.len() >= KEPT_MAX + self.more {
            self.stmts.remove(0);
        }
        self.stmts.push((text.number, stmt));
    }

    /// The statements of the programs that the plan runs.
    pub(crate) fn nested(&mut self) -> &mut Self {
        let evicts = self.evicts;
        self.nested.get_or_insert_with(|| Box::new(Self { more: NESTED_KEPT_MAX, evicts, ..Self::default() }))
    }
}
