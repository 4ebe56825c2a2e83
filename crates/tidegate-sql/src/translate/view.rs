//! Views: texts that are translated where their names stand.

mod seen;
pub(crate) mod through;

use std::sync::Arc;

use sqlparser::ast::Query;

use super::{
    Res, Translator,
    select::{Rel, Wanted},
};
use crate::{
    catalog::Table,
    errors,
    lexer::Literals,
    parse::{self, Statement},
    schema::Schema,
    sql_mode,
};

impl Translator<'_> {
    /// Translates the text of a view, which is read by the `sql_mode` that it was made under; with the row ids behind its columns
    /// if somebody wants to lock its rows.
    ///
    /// # Errors
    /// What the text says now: its tables may have gone.
    pub(crate) fn view(&mut self, view: &Table, text: &str, schema: &Arc<Schema>, shows_row_ids: bool) -> Res<Rel> {
        let within = self.access_within(view)?;
        let access = std::mem::replace(&mut self.access, within);
        // A view's tables are never temporary ones, whatever the session has under their names.
        let rel = self.view_over(&view.name, text, view.view_mode(), schema, shows_row_ids, 0);
        self.access = access;
        rel.map_err(|error| Self::view_error(error, schema, view))
    }

    /// The same over a set of temporary tables.
    pub(crate) fn view_over(
        &mut self,
        name: &str,
        text: &str,
        mode: u64,
        schema: &Arc<Schema>,
        shows_row_ids: bool,
        temporary: u64,
    ) -> Res<Rel> {
        self.in_text_of(name, (text, mode), schema, temporary, |inner, query| {
            inner.locks.shows_row_ids = shows_row_ids;
            inner.query(query, None, Wanted::Any)
        })
    }

    /// Translates something of the query of a view, over a set of temporary tables.
    fn in_text_of<T>(
        &mut self,
        name: &str,
        (text, mode): (&str, u64),
        schema: &Arc<Schema>,
        temporary: u64,
        translate: impl FnOnce(&mut Translator<'_>, &Query) -> Res<T>,
    ) -> Res<T> {
        let mut session = self.session.within(Some(schema));
        session.inputs.temporary = temporary;
        session.inputs.sql_mode = sql_mode::reading_as(session.inputs.sql_mode, mode);
        // In a view `\` escapes whatever the mode.
        session.inputs.like_escapes = true;
        let concat = session.inputs.has(sql_mode::PIPES_AS_CONCAT);
        let mode = session.inputs.lex_mode();
        let (statement, tokens) = parse::parse(text.as_bytes(), 0, mode, concat, Literals::Inline)?;
        let Statement::Query(query) = statement else { return Err(errors::syntax(text)) };
        self.in_view(name, |outer| outer.with_text(session, text.as_bytes(), &tokens, |inner| translate(inner, &query)))
    }
}
