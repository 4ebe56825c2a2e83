//! INSERT and REPLACE.

use std::sync::Arc;

use sqlparser::ast::{Expr, GroupByExpr, Ident, Query, SelectItem, SetExpr};

use super::{Cellish, InsertPlan, InsertRow, Upsert, default_of, is_default, several_tables};
use crate::{
    catalog::Table,
    column::{Default, same_name},
    errors,
    lexer::Item,
    parse::{self, InsertSource},
    schema::Schema,
    translate::{
        Code, Coercibility, Res, Source as Constant, Translator,
        access::Change,
        assign::{FeedColumns, RowValue, number_marks},
        scope::{NewRow, Scope, Source, SourceColumn},
        select::Wanted,
        types::stored,
        view::through::Through,
    },
    value::{Datum, Rep, out::Out},
};

/// Where an INSERT puts its rows: a table, or one behind a view.
#[derive(Debug)]
pub(in crate::translate) struct Destination {
    pub(in crate::translate) schema: Arc<Schema>,
    pub(in crate::translate) table: Arc<Table>,
    /// The view that the statement names, and the number of the table among its tables.
    view: Option<(Through, usize)>,
}

impl Destination {
    /// The name by which the statement knows it.
    pub(in crate::translate) fn name(&self) -> &str {
        match &self.view {
            Some((view, _)) => &view.view.name,
            None => crate::temporary_name::shown(&self.table.name),
        }
    }

    /// Whether other tables are behind the view too, or computed columns, which the new row does not have.
    pub(in crate::translate) fn shows_more(&self) -> bool {
        let Some((view, _)) = &self.view else { return false };
        let is_join = view.shape.as_ref().is_some_and(|shape| shape.tables().len() > 1);
        is_join || (0..view.view.columns.len()).any(|column| self.position(column).is_none())
    }

    /// The position in the table of a column of what the statement names.
    fn position(&self, column: usize) -> Option<usize> {
        let Some((view, place)) = &self.view else { return Some(column) };
        view.base_of(column).filter(|(of, _)| of == place).map(|(_, position)| position)
    }

    /// The source of a row with the names of all columns of the view, also of those that the row does not have.
    fn as_named(&self, source: &Source) -> Source {
        let mut named = source.clone();
        if let Some((view, _)) = &self.view {
            for (column, known) in named.columns.iter_mut().zip(&view.view.columns) {
                column.name.clone_from(&known.name);
            }
        }
        named
    }

    /// The name by which the statement knows a column of the table, if it does.
    fn column_name(&self, position: usize) -> Option<&str> {
        let named = self.view.as_ref().map_or(&self.table, |(view, _)| &view.view);
        let column = (0..named.columns.len()).find(|column| self.position(*column) == Some(position))?;
        Some(&named.columns[column].name)
    }
}

/// The columns of a table in FROM, each with the table's alias.
fn columns_by_alias(source: &Source) -> Vec<(String, String)> {
    source.columns.iter().map(|column| (source.alias.clone(), column.name.clone())).collect()
}

impl Translator<'_> {
    /// Translates INSERT or REPLACE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn insert(&mut self, insert: &parse::Insert) -> Res<InsertPlan> {
        let (to, columns) = self.inserted_into(insert)?;
        self.home = Some(Arc::clone(&to.schema));
        let view = to.view.as_ref().map(|(view, place)| (view, *place));
        let mut plan = InsertPlan {
            to: self.target_table((&to.schema, &to.table), view, true)?,
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
                    let row = self.insert_row(&to, &plan, row, number + 1, explicit, &mut row_scope)?;
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
                self.insert_query(&to, &mut plan, insert, query)?;
            }
            InsertSource::File { values, .. } => self.insert_file(&to, &mut plan, values)?,
        }
        if !insert.on_duplicate.is_empty() && plan.on_duplicate.is_none() {
            plan.on_duplicate = Some(Box::new(self.upsert(&to, insert, Vec::new())?));
        }
        if let Some(returning) = &insert.returning {
            plan.returning = Some(self.returning(&to, returning)?);
        }
        Ok(plan)
    }

    /// Where the rows go, and the positions there of the columns that get values.
    fn inserted_into(&mut self, insert: &parse::Insert) -> Res<(Destination, Vec<usize>)> {
        let (schema, table) = self.visible_table(&insert.table)?;
        let listed = insert.columns.as_ref().is_some_and(|names| !names.is_empty());
        // Before anything is said about columns.
        self.may_insert(&schema, &table, if listed { Some(&[]) } else { None }, insert.replace)?;
        if table.is_view() {
            return self.inserted_through(schema, table, insert);
        }
        let columns = self.inserted_columns(&schema, &table, insert)?;
        Ok((Destination { schema, table, view: None }, columns))
    }

    /// The same of a view: the columns that get values must be columns of one table, in which each stands once.
    fn inserted_through(
        &mut self,
        schema: Arc<Schema>,
        view: Arc<Table>,
        insert: &parse::Insert,
    ) -> Res<(Destination, Vec<usize>)> {
        let is_load = matches!(insert.source, InsertSource::File { .. });
        let refused = || match is_load {
            true => errors::not_updatable(&view.name, "LOAD"),
            false => errors::not_insertable(&view.name, "INSERT"),
        };
        let shape = self.shape_of(&schema, &view).map_err(|error| Self::view_error(error, &schema, &view))?;
        let shape = shape.filter(|shape| !shape.reads_itself && !shape.is_outer).ok_or_else(refused)?;
        if shape.tables().len() > 1 {
            if is_load {
                return Err(errors::wrong_usage("Multi-table VIEW", "LOAD"));
            }
            if insert.columns.as_ref().is_none_or(Vec::is_empty) {
                return Err(errors::no_columns_for_join_view(&schema.name, &view.name));
            }
        }
        let columns = self.inserted_columns(&schema, &view, insert)?;
        let through = Through { schema, view, shape: Some(shape), rowids: Vec::new() };
        let bases: Vec<_> = (0..through.view.columns.len()).map(|column| through.base_of(column)).collect();
        let mut places = columns.iter().filter_map(|column| bases[*column]).map(|(place, _)| place);
        let place = places.next().unwrap_or(0);
        if places.any(|other| other != place) {
            return Err(several_tables(Some(&through)));
        }
        let mut positions = Vec::new();
        for column in &columns {
            match bases[*column] {
                Some((_, position)) if is_load || !positions.contains(&position) => positions.push(position),
                None if is_load => return Err(errors::column_not_updatable(&through.view.columns[*column].name)),
                _ => return Err(errors::not_insertable(&through.view.name, "INSERT")),
            }
        }
        self.may_through(&through, Change::Insert { replaces: insert.replace }, &columns)?;
        let found = through.shape.as_ref().and_then(|shape| shape.tables().get(place).copied());
        let (schema, table) = found.ok_or_else(|| errors::internal("a view without its table"))?;
        let (schema, table) = (Arc::clone(schema), Arc::clone(table));
        Ok((Destination { schema, table, view: Some((through, place)) }, positions))
    }

    /// The table of an INSERT as a source, with the columns of the view that the statement names. Rows need not be seen through it.
    pub(in crate::translate) fn destination_source(&mut self, to: &Destination) -> (String, Source) {
        let (from, mut source) = self.table_source(&to.schema, &to.table, to.name());
        let Some((view, _)) = &to.view else {
            source.denied = self.denied(&to.schema, &to.table);
            return (from, source);
        };
        self.note_read(&view.schema, &view.view);
        source.denied = self.denied(&view.schema, &view.view);
        source.schema.clone_from(&view.schema.name);
        let columns = view.view.columns.iter().enumerate().map(|(index, column)| match to.position(index) {
            Some(position) => SourceColumn { name: column.name.clone(), ..source.columns[position].clone() },
            // One of another table, which has no row here, or a computed one.
            None => SourceColumn { name: String::new(), hidden: true, ..source.columns[0].clone() },
        });
        source.columns = columns.collect();
        source.through = Some(Box::new(view.clone()));
        (from, source)
    }

    /// The query that gives the rows, with the columns of its tables that ON DUPLICATE KEY UPDATE names behind those that are inserted.
    fn insert_query(
        &mut self,
        to: &Destination,
        plan: &mut InsertPlan,
        insert: &parse::Insert,
        query: &Query,
    ) -> Res<()> {
        let mut query = std::borrow::Cow::Borrowed(query);
        if !insert.on_duplicate.is_empty() {
            let sources = self.selected_sources(&query)?;
            let names: Vec<(String, String)> = sources.iter().flat_map(columns_by_alias).collect();
            let mut upsert = self.upsert(to, insert, sources)?;
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
        to: &Destination,
        plan: &InsertPlan,
        row: &[Expr],
        number: usize,
        explicit: bool,
        row_scope: &mut Option<Scope<'static>>,
    ) -> Res<InsertRow> {
        // For a view no list stands for all of its columns, whatever stands in VALUES.
        if row.is_empty() && !explicit && to.view.is_none() {
            return Ok(InsertRow { values: Vec::new(), feed: None });
        }
        if row.len() != plan.columns.len() {
            return Err(errors::wrong_value_count(number));
        }
        let mut values = Vec::new();
        let mut feed = FeedColumns::default();
        for (expr, column) in row.iter().zip(&plan.columns) {
            if is_default(expr) || is_own_default(expr, to, *column) {
                values.push(Cellish::Default);
                continue;
            }
            let (binds, effects) = (self.binds.len(), self.effects);
            let ex = match self.expr(expr, &Scope::default()) {
                Err(error) if error.code == 1054 => {
                    // It may be a column of the row itself.
                    self.binds.truncate(binds);
                    self.effects = effects;
                    values.push(self.value_of_row(expr, to, row_scope)?);
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
    fn upsert(&mut self, to: &Destination, insert: &parse::Insert, selected: Vec<Source>) -> Res<Upsert> {
        let table = &to.table;
        let (from, source) = self.destination_source(to);
        let new_columns = source.columns.iter().enumerate();
        let new_columns = new_columns.filter_map(|(index, column)| {
            let position = to.position(index)?;
            Some(SourceColumn {
                name: column.name.clone(),
                sql: RowValue::Refused(position).mark(),
                ty: table.columns[position].ty.clone(),
                nullable: true,
                coercibility: Coercibility::Column,
                origin: None,
                hidden: false,
            })
        });
        let new_columns = new_columns.collect();
        let mut feed = FeedColumns::default();
        for column in &table.columns {
            feed.push(format!("{}.c{}", source.sql_alias, column.id), Out::of(&column.ty));
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
        let named = to.as_named(&scope.sources[0]);
        for assignment in &insert.on_duplicate {
            let (_, column) = self.target_column(assignment, std::slice::from_ref(&named))?;
            let (place, position) = self.may_assign(&named, column)?;
            if let Some((view, known)) = &to.view
                && *known != place
            {
                return Err(several_tables(Some(view)));
            }
            columns.push(position);
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

/// Whether a value for the column at a position is DEFAULT of that column itself, which each row evaluates.
fn is_own_default(expr: &Expr, to: &Destination, position: usize) -> bool {
    if !matches!(to.table.columns[position].default, Default::Expression(_)) {
        return false;
    }
    let is_known = |name: &str| to.column_name(position).is_some_and(|known| same_name(name, known));
    let own = |name: &Expr| matches!(name, Expr::Identifier(name) if is_known(&name.value));
    default_of(expr).flatten().is_some_and(own)
}
