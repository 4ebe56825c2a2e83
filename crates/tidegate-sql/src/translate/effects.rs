//! Calls that are new at each evaluation: variables that the statement assigns, RAND(), GET_LOCK(), LAST_INSERT_ID(n).
//!
//! SQLite moves, repeats and leaves out expressions as if they were all the same at any time. What has such calls is therefore
//! written so that it cannot:
//!
//! 1. A derived table, a view and a common table expression is materialised before the rows of the query around it are read.
//! 2. With ORDER BY the rows are sorted first; then the calls are evaluated, row by row in that order, as MariaDB does.
//! 3. What MariaDB evaluates in an order of its own (with groups, in joins that are sorted), or once for each row where SQLite
//!    does it once, is refused.

use sqlparser::ast::OrderByExpr;

use super::{
    Res, Translator,
    scope::Scope,
    select::{Rel, direction},
};
use crate::errors;

/// What a translation has met so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Calls that give another value each time.
    pub(crate) fresh: usize,
    /// Those that have an effect, or whose value depends on the calls before.
    pub(crate) ordered: usize,
    /// Those that depend on the calls before.
    pub(crate) reading: usize,
    /// Those that have an effect.
    pub(crate) writing: usize,
}

impl Effects {
    /// Notes a call that gives another value each time.
    pub(crate) fn note_fresh(&mut self) {
        self.fresh += 1;
    }

    /// Notes a call whose effect others see; for itself it makes no difference when and how often it is evaluated.
    pub(crate) fn note_write(&mut self) {
        self.note_fresh();
        self.ordered += 1;
        self.writing += 1;
    }

    /// Notes a call whose value depends on the calls before it.
    pub(crate) fn note_read(&mut self) {
        self.note_fresh();
        self.ordered += 1;
        self.reading += 1;
    }

    /// Notes a call that has an effect and depends on the calls before it.
    pub(crate) fn note_both(&mut self) {
        self.note_read();
        self.writing += 1;
    }
}

impl Translator<'_> {
    /// A query in FROM, computed once before the rows around it if it must be.
    pub(super) fn computed_once(&mut self, query: impl FnOnce(&mut Self) -> Res<Rel>) -> Res<Rel> {
        let before = self.effects;
        let mut rel = query(self)?;
        if self.effects.fresh > before.fresh {
            rel.sql = self.materialised(&rel.sql);
        }
        Ok(rel)
    }

    /// A query that SQLite computes as a whole, all columns, before it goes on.
    fn materialised(&mut self, sql: &str) -> String {
        let name = self.alias("m");
        format!("WITH {name} AS MATERIALIZED ({sql}) SELECT * FROM {name}")
    }

    /// Translates a query inside of an expression.
    ///
    /// # Errors
    /// 1235 if it must run for each row and SQLite would run it once.
    pub(super) fn for_each_row(
        &mut self,
        scope: &Scope<'_>,
        query: impl FnOnce(&mut Self, &Scope<'_>) -> Res<Rel>,
    ) -> Res<Rel> {
        let (before, reached) = (self.effects, self.reached.replace(usize::MAX));
        let rel = query(self, scope);
        let own = self.reached.get();
        self.reached.set(own.min(reached));
        let rel = rel?;
        if self.effects.reading > before.reading && own > scope.level() && scope.has_sources() {
            return Err(errors::unsupported("a sub-query that reads what it changes and does not depend on its row"));
        }
        Ok(rel)
    }

    /// Whether the select list must be evaluated behind ORDER BY; `filter` are the effects before WHERE, `list` those before the list.
    ///
    /// # Errors
    /// 1235 where MariaDB's order of evaluation is its own.
    pub(super) fn sorts_first(
        &mut self,
        order: &[OrderByExpr],
        scope: &Scope<'_>,
        filter: Effects,
        list: Effects,
    ) -> Res<bool> {
        let writes = self.effects.writing > list.writing;
        let reads_what_filters_write = list.writing > filter.writing && self.effects.reading > list.reading;
        if order.is_empty() || !writes && !reads_what_filters_write {
            return Ok(false);
        }
        for term in order {
            if let Some(position) = self.ordered_item(&term.expr, scope)?
                && scope.list[position].fresh
            {
                // Sorted by what the calls give: they come first.
                return Ok(false);
            }
        }
        if scope.sources.iter().filter(|source| !source.single).count() > 1 {
            return Err(errors::unsupported(
                "assignment to a variable in a join with ORDER BY; join and sort in a derived table",
            ));
        }
        Ok(!scope.sources.is_empty())
    }

    /// FROM for a query whose rows are those of `tail`, sorted; the scope's columns are its columns from now on.
    pub(super) fn sorted_source(
        &mut self,
        scope: &mut Scope<'_>,
        tail: &str,
        order: &[OrderByExpr],
        limit: &str,
    ) -> Res<String> {
        let mut terms = Vec::new();
        for term in order {
            let ex = match self.ordered_item(&term.expr, scope)? {
                Some(position) => scope.list[position].ex.clone(),
                None => self.expr(&term.expr, scope)?,
            };
            if !ex.is_const() {
                terms.push(format!("{}{}", self.collated(&ex), direction(term)?));
            }
        }
        let by = if terms.is_empty() { String::new() } else { format!(" ORDER BY {}", terms.join(", ")) };
        let alias = self.alias("o");
        let mut columns = Vec::new();
        for source in &mut scope.sources {
            let mut keep = |sql: &str| {
                columns.push(format!("{}.{sql} AS k{}", source.sql_alias, columns.len()));
                format!("k{}", columns.len() - 1)
            };
            if source.table.is_some() {
                source.rowid = keep(&source.rowid);
            }
            if let Some(view) = &mut source.through {
                view.rowids.iter_mut().flatten().for_each(|rowid| *rowid = keep(rowid));
            }
            for column in &mut source.columns {
                column.sql = keep(&column.sql);
            }
            source.sql_alias.clone_from(&alias);
        }
        let limit = if limit.is_empty() { " LIMIT -1" } else { limit };
        let sorted = self.materialised(&format!("SELECT {}{tail}{by}{limit}", columns.join(", ")));
        Ok(format!(" FROM ({sorted}) AS {alias}"))
    }
}
