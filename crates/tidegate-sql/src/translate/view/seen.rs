//! WITH CHECK OPTION: whether a row that is written through a view can be seen through it.
//!
//! That is one more rule for the rows of the table ([`RuleKind::Seen`]): the view's query, in which a row of parameters stands in the
//! table's place, must find it.

use std::sync::Arc;

use sqlparser::ast::Query;

use super::through::{Place, Shape, plain_select};
use crate::{
    catalog::Table,
    errors,
    parse::view::CheckOption,
    schema::Schema,
    translate::{
        Res, Translator,
        assign::{RowValue, number_marks},
        list::Listed,
        rules::{Rule, RuleKind},
        scope::{Scope, Source, SourceColumn},
        select::{Rel, RelColumn},
    },
    value::{SqlType, out::Out},
};

/// Which conditions count of the views that a view is made of.
#[derive(Debug, Clone, Copy)]
struct Conditions {
    /// Its own.
    own: bool,
    /// Those of the views in its FROM.
    beneath: bool,
}

impl Translator<'_> {
    /// What a row must pass to be written through a view; `None` for a view without a check option, whatever those in its FROM have.
    ///
    /// # Errors
    /// Those of the view's text; 1235 for a join view, whose other tables have no row then.
    pub(in crate::translate) fn seen_rule(
        &mut self,
        schema: &Arc<Schema>,
        view: &Table,
        shape: &Shape,
    ) -> Res<Option<Rule>> {
        let Some(check) = view.check_option() else { return Ok(None) };
        let (others, effects) = (std::mem::take(&mut self.binds), self.effects);
        let conditions = Conditions { own: true, beneath: check == CheckOption::Cascaded };
        let rel = self.row_through(schema, view, shape, conditions)?;
        let binds = std::mem::replace(&mut self.binds, others);
        if self.effects.fresh > effects.fresh {
            let what =
                format!("writing through the view {}, whose CHECK OPTION gives another value each time", view.name);
            return Err(errors::unsupported(what));
        }
        // The row's columns are the only marks, and stand in their order.
        let (sql, _) = number_marks(&format!("SELECT EXISTS ({})", rel.sql), binds.len());
        Ok(Some(Rule { kind: RuleKind::Seen, sql: sql.into(), binds, out: Out::of(&SqlType::bigint()) }))
    }

    /// What a view shows of one row of its table.
    fn row_through(&mut self, schema: &Arc<Schema>, view: &Table, shape: &Shape, conditions: Conditions) -> Res<Rel> {
        let within = self.access_within(view)?;
        let access = std::mem::replace(&mut self.access, within);
        let text = (view.view.as_deref().unwrap_or_default(), view.view_mode());
        let rel = self.in_text_of(&view.name, text, schema, 0, |inner, query| {
            inner.row_query(&view.name, query, shape, conditions)
        });
        self.access = access;
        rel.map_err(|error| Self::view_error(error, schema, view))
    }

    fn row_query(&mut self, name: &str, query: &Query, shape: &Shape, conditions: Conditions) -> Res<Rel> {
        let (Some(select), [place]) = (plain_select(query), shape.places.as_slice()) else {
            return Err(errors::unsupported(format!("writing through the join view {name} WITH CHECK OPTION")));
        };
        let mut scope = Scope::default();
        let from = self.row_of(place, conditions.beneath, &mut scope)?;
        let filter = match &select.selection {
            Some(selection) if conditions.own => self.filter(selection, &mut scope)?,
            _ => String::new(),
        };
        scope.clause = "field list";
        self.projection(&select.projection, select.select_token.0.span.start.column, &mut scope)?;
        let columns: Vec<RelColumn> = scope.list.iter().map(Listed::shown).collect();
        let mut items = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            items.push(format!("{} AS r{index}", self.text(&column.ex)));
        }
        Ok(Rel {
            sql: format!("SELECT {} FROM {from}{filter}", items.join(", ")),
            columns,
            single: true,
            locked: None,
            row_ids: Some(Vec::new()),
            unlimited: None,
        })
    }

    /// SQLite's text of a table of one row, or of a view with one such table; it joins the scope.
    fn row_of(&mut self, place: &Place, conditions: bool, scope: &mut Scope<'_>) -> Res<String> {
        if let Some(shape) = &place.view {
            let conditions = Conditions { own: conditions, beneath: conditions };
            let rel = self.row_through(&place.schema, &place.table, shape, conditions)?;
            let names: Vec<&str> = place.table.columns.iter().map(|column| column.name.as_str()).collect();
            let sql = self.derived(rel, &place.alias, &names, scope)?;
            scope.sources.iter_mut().for_each(|source| source.schema.clone_from(&place.schema.name));
            return Ok(sql);
        }
        let alias = self.alias("a");
        let columns = &place.table.columns;
        let values = columns.iter().enumerate();
        let values: Vec<String> =
            values.map(|(index, column)| format!("{} AS c{}", RowValue::Stored(index).mark(), column.id)).collect();
        let columns =
            columns.iter().map(|column| SourceColumn { nullable: true, ..SourceColumn::stored(column) }).collect();
        let source = Source::computed(place.alias.clone(), alias.clone(), columns);
        scope.sources.push(Source { schema: place.schema.name.clone(), ..source });
        Ok(format!("(SELECT {}) AS {alias}", values.join(", ")))
    }
}
