//! INSERT and REPLACE.

use std::sync::Arc;

use sqlparser::ast::{Expr, GroupByExpr, Ident, Query, SelectItem, SetExpr};

use super::{Cellish, InsertPlan, InsertRow, Upsert, default_of, is_default};
use crate::{
    catalog::Table,
    column::{Column, Default, same_name},
    errors,
    lexer::Item,
    parse::{self, InsertSource, TableName},
    schema::Schema,
    translate::{
        Code, Coercibility, Res, Source as Constant, Translator,
        assign::{FeedColumns, RowValue, number_marks},
        scope::{NewRow, Scope, Source, SourceColumn},
        select::Wanted,
        types::stored,
    },
    value::{Datum, Rep, out::Out},
};

/// The columns of a table in FROM, each with the table's alias.
fn columns_by_alias(source: &Source) -> Vec<(String, String)> {
    source.columns.iter().map(|column| (source.alias.clone(), column.name.clone())).collect()
}

impl Translator<'_> {
    fn base_table(&mut self, name: &TableName) -> Res<(Arc<Schema>, Arc<Table>)> {
        let (schema, table) = self.visible_table(name)?;
        if table.is_view() {
            return Err(errors::unsupported(format!("writing through the view {}", table.name)));
        }
        Ok((schema, table))
    }

    /// Translates INSERT or REPLACE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn insert(&mut self, insert: &parse::Insert) -> Res<InsertPlan> {
        let (schema, table) = self.base_table(&insert.table)?;
        let listed = insert.columns.as_ref().is_some_and(|names| !names.is_empty());
        // Before anything is said about columns.
        self.may_insert(&schema, &table, if listed { Some(&[]) } else { None }, insert.replace)?;
        self.home = Some(Arc::clone(&schema));
        let columns = self.inserted_columns(&schema, &table, insert)?;
        let mut plan = InsertPlan {
            to: self.target_table(&schema, &table)?,
            columns,
            rows: Vec::new(),
            query: None,
            replace: insert.replace,
            ignore: insert.ignore,
            on_duplicate: None,
            returning: None,
            load: None,
        };
        match &insert.source {
            InsertSource::Values(rows) => {
                let explicit = insert.columns.as_ref().is_some_and(|names| !names.is_empty());
                let mut row_scope = None;
                for (number, row) in rows.iter().enumerate() {
                    let row = self.insert_row(&plan, row, number + 1, explicit, &mut row_scope)?;
                    plan.rows.push(row);
                }
                if rows.iter().all(Vec::is_empty) {
                    plan.columns.clear();
                }
            }
            InsertSource::Literals(rows) => {
                for (number, row) in rows.iter().enumerate() {
                    plan.rows.push(literal_row(&plan.columns, row, number + 1)?);
                }
            }
            InsertSource::Query(query) => {
                if let SetExpr::Values(_) = &*query.body {
                    return Err(errors::unsupported("VALUES as a query"));
                }
                self.insert_query(&mut plan, insert, query)?;
            }
            InsertSource::File { values, .. } => self.insert_file(&mut plan, values)?,
        }
        if !insert.on_duplicate.is_empty() && plan.on_duplicate.is_none() {
            plan.on_duplicate = Some(Box::new(self.upsert(&schema, &table, insert, Vec::new())?));
        }
        if let Some(returning) = &insert.returning {
            plan.returning = Some(self.returning(&schema, &table, returning)?);
        }
        Ok(plan)
    }

    /// The query that gives the rows, with the columns of its tables that ON DUPLICATE KEY UPDATE names behind those that are inserted.
    fn insert_query(&mut self, plan: &mut InsertPlan, insert: &parse::Insert, query: &Query) -> Res<()> {
        let mut query = std::borrow::Cow::Borrowed(query);
        if !insert.on_duplicate.is_empty() {
            let sources = self.selected_sources(&query)?;
            let names: Vec<(String, String)> = sources.iter().flat_map(columns_by_alias).collect();
            let mut upsert = self.upsert(&plan.to.schema, &plan.to.table, insert, sources)?;
            for index in upsert.number_selected(plan.columns.len()) {
                let (alias, column) = &names[index];
                let parts = vec![Ident::with_quote('`', alias), Ident::with_quote('`', column)];
                if let SetExpr::Select(select) = &mut *query.to_mut().body {
                    select.projection.push(SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)));
                }
            }
            plan.on_duplicate = Some(Box::new(upsert));
        }
        let rel = self.query(&query, None, Wanted::Any)?;
        let selected = plan.on_duplicate.as_ref().map_or(0, |upsert| upsert.selected);
        if rel.columns.len() != plan.columns.len() + selected {
            return Err(errors::wrong_value_count(1));
        }
        let outs = rel.columns.iter().map(|column| stored(&column.ex)).collect();
        plan.query = Some(self.feed_of(rel.sql, outs));
        Ok(())
    }

    /// The tables of a query whose columns ON DUPLICATE KEY UPDATE may name: those of a plain SELECT, whose rows are those of its tables.
    fn selected_sources(&mut self, query: &Query) -> Res<Vec<Source>> {
        let SetExpr::Select(select) = &*query.body else { return Ok(Vec::new()) };
        let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty());
        if query.with.is_some() || grouped || select.distinct.is_some() || select.having.is_some() {
            return Ok(Vec::new());
        }
        // The same tables are translated once more as a part of the query: what is left of this time is their columns.
        let (binds, effects) = (self.binds.len(), self.effects);
        let mut scope = Scope::default();
        self.from(&select.from, &mut scope)?;
        self.binds.truncate(binds);
        self.effects = effects;
        Ok(scope.sources)
    }

    pub(in crate::translate) fn column_list(&self, table: &Table, names: &[String]) -> Res<Vec<usize>> {
        let mut columns = Vec::new();
        for name in names {
            let (position, _) = table.column(name).ok_or_else(|| errors::unknown_column(name, "field list"))?;
            if columns.contains(&position) {
                return Err(errors::column_twice(name));
            }
            columns.push(position);
        }
        Ok(columns)
    }

    pub(in crate::translate) fn insert_row(
        &mut self,
        plan: &InsertPlan,
        row: &[Expr],
        number: usize,
        explicit: bool,
        row_scope: &mut Option<Scope<'static>>,
    ) -> Res<InsertRow> {
        if row.is_empty() && !explicit {
            return Ok(InsertRow { values: Vec::new(), feed: None });
        }
        if row.len() != plan.columns.len() {
            return Err(errors::wrong_value_count(number));
        }
        let mut values = Vec::new();
        let mut feed = FeedColumns::default();
        for (expr, column) in row.iter().zip(&plan.columns) {
            if is_default(expr) || is_own_default(expr, &plan.to.table.columns[*column]) {
                values.push(Cellish::Default);
                continue;
            }
            let (binds, effects) = (self.binds.len(), self.effects);
            let ex = match self.expr(expr, &Scope::default()) {
                Err(error) if error.code == 1054 => {
                    // It may be a column of the row itself.
                    self.binds.truncate(binds);
                    self.effects = effects;
                    values.push(self.value_of_row(expr, (&plan.to.schema, &plan.to.table), row_scope)?);
                    continue;
                }
                ex => ex?,
            };
            values.push(match &ex.code {
                Code::Const(source) => Cellish::Const(source.clone()),
                Code::Sql(sql) => {
                    let text = format!("{sql} AS r{}", feed.texts.len());
                    Cellish::Column(feed.push(text, stored(&ex)))
                }
            });
        }
        let FeedColumns { texts, outs } = feed;
        let feed = (!texts.is_empty()).then(|| self.feed_of(format!("SELECT {}", texts.join(", ")), outs));
        self.binds.clear();
        Ok(InsertRow { values, feed })
    }

    /// ON DUPLICATE KEY UPDATE, which may name the columns of `selected` too.
    fn upsert(
        &mut self,
        schema: &Arc<Schema>,
        table: &Arc<Table>,
        insert: &parse::Insert,
        selected: Vec<Source>,
    ) -> Res<Upsert> {
        let (from, mut source) = self.table_source(schema, table, crate::temporary_name::shown(&table.name));
        source.denied = self.denied(schema, table);
        let new_columns = table
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| SourceColumn {
                name: column.name.clone(),
                sql: RowValue::Refused(index).mark(),
                ty: column.ty.clone(),
                nullable: true,
                coercibility: Coercibility::Column,
                origin: None,
                hidden: false,
            })
            .collect();
        let mut feed = FeedColumns::default();
        for (index, column) in table.columns.iter().enumerate() {
            feed.push(format!("{}.{}", source.sql_alias, source.columns[index].sql), Out::of(&column.ty));
        }
        let condition = format!("{}.rowid", source.sql_alias);
        let mut scope = Scope { sources: vec![source], ..Scope::default() };
        scope.sources.extend(selected);
        let places = (1..scope.sources.len()).flat_map(|at| (0..scope.sources[at].columns.len()).map(move |c| (at, c)));
        for (index, (at, column)) in places.collect::<Vec<_>>().into_iter().enumerate() {
            scope.assign(at, column, scope.column_as(at, column, RowValue::Selected(index).mark()));
        }
        scope.new_row = Some(NewRow { alias: insert.row_alias.clone(), columns: new_columns });
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for assignment in &insert.on_duplicate {
            let (_, column) = self.target_column(assignment, &scope.sources[..1])?;
            self.may_update(schema, table, column)?;
            columns.push(column);
            values.push(self.assigned_value(&assignment.value, &mut scope, 0, column, &mut feed)?);
        }
        let FeedColumns { texts, outs } = feed;
        let sql = format!("SELECT {} FROM {from} WHERE {condition} = ", texts.join(", "));
        let (sql, inputs) = number_marks(&sql, self.binds.len());
        let sql = format!("{sql}?{}", self.binds.len() + inputs.len() + 1);
        Ok(Upsert { columns, values, feed: self.feed_of(sql, outs), inputs, old: table.columns.len(), selected: 0 })
    }
}

/// A row that is made of literals alone.
fn literal_row(columns: &[usize], row: &[Item], number: usize) -> Res<InsertRow> {
    if row.len() != columns.len() {
        return Err(errors::wrong_value_count(number));
    }
    let value = |item: &Item| match *item {
        Item::Literal(index) => Cellish::Const(Constant::Literal(index as usize)),
        Item::Negative(index) => Cellish::Const(Constant::Negative(index as usize)),
        Item::Param(index) => Cellish::Const(Constant::Param(index as usize)),
        Item::Null => Cellish::Const(Constant::Value(Datum::Null, Rep::Null)),
        Item::Default => Cellish::Default,
    };
    Ok(InsertRow { values: row.iter().map(value).collect(), feed: None })
}

/// Whether a value for a column is DEFAULT of that column itself, which each row evaluates.
fn is_own_default(expr: &Expr, column: &Column) -> bool {
    let own = |name: &Expr| matches!(name, Expr::Identifier(name) if same_name(&name.value, &column.name));
    matches!(column.default, Default::Expression(_)) && default_of(expr).flatten().is_some_and(own)
}
