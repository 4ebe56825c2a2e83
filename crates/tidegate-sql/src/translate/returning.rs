//! RETURNING: what INSERT, REPLACE and DELETE answer of the rows that they write.
//!
//! Source: MariaDB documentation, "INSERT...RETURNING" and "DELETE".

use std::sync::Arc;

use tidegate_rows::Column;

use super::{
    Res, Translator,
    dml::{Destination, Feed},
    list::Listed,
    scope::Scope,
};
use crate::{catalog::Table, errors, parse, value::out::Out};

/// The columns of a result that a writing statement gives.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) columns: Box<[Column]>,
    pub(crate) outs: Box<[Out]>,
}

/// The query that reads a row which has just been written.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) returned: Arc<Returned>,
    /// The row id is the parameter behind its binds.
    pub(crate) feed: Feed,
}

impl Translator<'_> {
    /// RETURNING of an INSERT or REPLACE.
    ///
    /// # Errors
    /// As [`returned`](Self::returned).
    pub(super) fn returning(&mut self, to: &Destination, list: &parse::Returning) -> Res<Arc<Returning>> {
        if to.shows_more() {
            let what = format!("RETURNING of the view {}, which shows more than columns of one table", to.name());
            return Err(errors::unsupported(what));
        }
        let (from, source) = self.destination_source(to);
        let rowid = source.rowid_text();
        let mut scope = Scope { sources: vec![source], ..Scope::default() };
        let (texts, returned) = self.returned(list, &mut scope, &to.table)?;
        let sql = format!("SELECT {} FROM {from} WHERE {rowid} = ?{}", texts.join(", "), self.binds.len() + 1);
        let feed = self.feed_of(sql, returned.outs.to_vec());
        Ok(Arc::new(Returning { returned: Arc::new(returned), feed }))
    }

    /// The list of RETURNING: SQLite's texts, and what they are.
    ///
    /// # Errors
    /// 1093 for a sub-query that reads the table, 1111 for aggregates, those of the expressions.
    pub(super) fn returned(
        &mut self,
        list: &parse::Returning,
        scope: &mut Scope<'_>,
        table: &Table,
    ) -> Res<(Vec<String>, Returned)> {
        let others = std::mem::take(&mut self.reads);
        scope.clause = "RETURNING";
        self.projection(&list.items, list.start, scope)?;
        let own = std::mem::replace(&mut self.reads, others);
        if own.iter().any(|state| Arc::ptr_eq(state, &table.state)) {
            return Err(errors::target_is_read(crate::temporary_name::shown(&table.name)));
        }
        for state in own {
            if !self.reads.iter().any(|known| Arc::ptr_eq(known, &state)) {
                self.reads.push(state);
            }
        }
        let items: Vec<_> = scope.list.iter().map(Listed::shown).collect();
        if items.iter().any(|item| item.ex.aggregate) {
            return Err(errors::invalid_group_use());
        }
        let texts = items.iter().map(|item| self.text(&item.ex)).collect();
        let columns = items.iter().map(|item| item.describe()).collect();
        Ok((texts, Returned { columns, outs: items.iter().map(|item| Out::of(&item.ex.ty)).collect() }))
    }
}
