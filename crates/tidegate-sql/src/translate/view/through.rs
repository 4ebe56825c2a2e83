//! Views that statements write through: the tables behind them, and which of their columns are columns of these.
//!
//! A statement finds the rows of a view by the view's own query, which shows the row ids of its tables behind its columns
//! ([`Locks::shows_row_ids`](crate::translate::locking::Locks)). What it assigns is assigned to a table: from there on it is a
//! statement about that one.
//!
//! Source: MariaDB documentation, "Inserting and Updating with Views".

use std::{ops::ControlFlow, rc::Rc, sync::Arc};

use sqlparser::ast::{
    Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, JoinConstraint, JoinOperator,
    ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    Visit, Visitor,
};

use crate::{
    catalog::Table,
    column::same_name,
    dialect::SPECIAL,
    errors,
    lexer::{LexMode, Literals},
    parse::{self, Statement, TableName, to_table_name, view::Algorithm},
    schema::{Schema, is_virtual},
    shared::EngineInner,
    sql_mode, task,
    translate::{Res, Translator, VIEW_DEPTH_MAX, expr::unnest, select::name_parts},
};

/// What a view is made of, if rows of its tables are what it shows.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Its FROM.
    pub(super) places: Vec<Place>,
    /// For each column its place and the column there; `None` for one that is computed.
    columns: Vec<Option<(usize, usize)>>,
    /// A sub-query reads one of its tables, so that nothing can be written through it.
    pub(in crate::translate) reads_itself: bool,
    /// It has rows without a row of some of its tables: rows can be changed through it, but none come or go.
    pub(crate) is_outer: bool,
}

/// A table or view in the FROM of a view.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) alias: String,
    pub(super) schema: Arc<Schema>,
    pub(super) table: Arc<Table>,
    /// What it is made of in turn.
    pub(super) view: Option<Shape>,
}

/// What names in the texts of views mean.
pub(crate) struct Lookup<'l> {
    /// The table or view that a name means in a view of a schema.
    pub(crate) find: &'l mut dyn FnMut(&Arc<Schema>, &TableName) -> Res<(Arc<Schema>, Arc<Table>)>,
    /// Whether a function is an aggregate, by its name in capitals.
    pub(crate) is_aggregate: fn(&str) -> bool,
}

/// The text of a view, the `sql_mode` that it is read by, and the schema of its names.
#[derive(Clone, Copy)]
pub(crate) struct ViewText<'t> {
    pub(crate) text: &'t str,
    pub(crate) mode: u64,
    pub(crate) schema: &'t Arc<Schema>,
}

impl ViewText<'_> {
    /// Whether its rows can be found together with those of a statement: no groups, and nothing that cuts or repeats rows.
    ///
    /// # Errors
    /// 1064.
    pub(crate) fn can_merge(self, is_aggregate: fn(&str) -> bool) -> Res<bool> {
        let query = self.query()?;
        Ok(merged(&query, is_aggregate).is_some())
    }

    /// What it is made of by the definitions of this moment; `None` if nothing can be written through the view.
    ///
    /// # Errors
    /// As [`Shape::of`]; 1064.
    pub(crate) fn shape(self, engine: &EngineInner, is_aggregate: fn(&str) -> bool) -> Res<Option<Shape>> {
        let mut find = |within: &Arc<Schema>, name: &TableName| -> Res<(Arc<Schema>, Arc<Table>)> {
            let schema = match &name.schema {
                Some(schema) => engine.schema(schema)?,
                None => Arc::clone(within),
            };
            let table = schema.catalog()?.table(&name.name).cloned();
            Ok((Arc::clone(&schema), table.ok_or_else(|| errors::no_such_table(&schema.name, &name.name))?))
        };
        Shape::of_text(self, &mut Lookup { find: &mut find, is_aggregate }, 0)
    }

    fn query(self) -> Res<Box<Query>> {
        let concat = self.mode & sql_mode::PIPES_AS_CONCAT != 0;
        let mode = LexMode::of(self.mode);
        match parse::parse(self.text.as_bytes(), 0, mode, concat, Literals::Inline)?.0 {
            Statement::Query(query) => Ok(query),
            _ => Err(errors::syntax(self.text)),
        }
    }
}

impl Shape {
    /// What a view is made of; `None` if nothing can be written through it.
    ///
    /// # Errors
    /// 1049 and 1146 for tables that have gone.
    pub(crate) fn of(schema: &Arc<Schema>, view: &Table, lookup: &mut Lookup<'_>) -> Res<Option<Self>> {
        Self::nested(schema, view, lookup, 0)
    }

    fn nested(schema: &Arc<Schema>, view: &Table, lookup: &mut Lookup<'_>, depth: usize) -> Res<Option<Self>> {
        match view.view.as_deref() {
            Some(text) if view.algorithm() != Algorithm::Temptable && depth < VIEW_DEPTH_MAX => {
                let shape = Self::of_text(ViewText { text, mode: view.view_mode(), schema }, lookup, depth)?;
                // `*` may stand for other columns by now.
                Ok(shape.filter(|shape| shape.columns.len() == view.columns.len()))
            }
            _ => Ok(None),
        }
    }

    /// The same of a text, within so many views.
    ///
    /// # Errors
    /// As [`of`](Self::of); 1064.
    fn of_text(view: ViewText<'_>, lookup: &mut Lookup<'_>, depth: usize) -> Res<Option<Self>> {
        let query = view.query()?;
        let Some(select) = merged(&query, lookup.is_aggregate) else { return Ok(None) };
        let mut from =
            FromClause { schema: view.schema, depth, places: Vec::new(), hidden: Vec::new(), is_outer: false };
        for item in &select.from {
            if !from.add(item, lookup)? {
                return Ok(None);
            }
        }
        let Some(columns) = from.columns(select) else { return Ok(None) };
        let FromClause { places, mut is_outer, .. } = from;
        let mut reads_itself = false;
        for inner in places.iter().filter_map(|place| place.view.as_ref()) {
            reads_itself |= inner.reads_itself;
            is_outer |= inner.is_outer;
        }
        let mut shape = Self { places, columns, reads_itself, is_outer };
        shape.reads_itself |= shape.is_read_by(select, view.schema, lookup);
        Ok(Some(shape))
    }

    /// The tables, in the order in which the view's query shows their row ids.
    pub(crate) fn tables(&self) -> Vec<(&Arc<Schema>, &Arc<Table>)> {
        let tables = self.places.iter().flat_map(|place| match &place.view {
            Some(shape) => shape.tables(),
            None => vec![(&place.schema, &place.table)],
        });
        tables.collect()
    }

    /// The table, by its place among [`tables`](Self::tables), and the column there that a column is.
    pub(crate) fn base_of(&self, column: usize) -> Option<(usize, usize)> {
        let (at, column) = self.columns.get(column).copied().flatten()?;
        let count = |place: &Place| place.view.as_ref().map_or(1, |shape| shape.tables().len());
        let before: usize = self.places[..at].iter().map(count).sum();
        let (table, column) = match &self.places[at].view {
            Some(shape) => shape.base_of(column)?,
            None => (0, column),
        };
        Some((before + table, column))
    }

    /// Calls `f` for each table or view in its FROM that some of these columns are of, with the columns there; for its only one in any
    /// case.
    ///
    /// # Errors
    /// The first of `f`.
    pub(in crate::translate) fn each_place(
        &self,
        columns: &[usize],
        mut f: impl FnMut((&Arc<Schema>, &Table), Option<&Self>, &[usize]) -> Res<()>,
    ) -> Res<()> {
        for (at, place) in self.places.iter().enumerate() {
            let known = columns.iter().filter_map(|column| self.columns.get(*column).copied().flatten());
            let own: Vec<usize> = known.filter(|(place, _)| *place == at).map(|(_, column)| column).collect();
            if !own.is_empty() || self.places.len() == 1 {
                f((&place.schema, &place.table), place.view.as_ref(), &own)?;
            }
        }
        Ok(())
    }

    /// Whether it has columns that can be written to.
    pub(crate) fn has_bases(&self) -> bool {
        (0..self.columns.len()).any(|column| self.base_of(column).is_some())
    }

    fn is_read_by(&self, select: &Select, schema: &Arc<Schema>, lookup: &mut Lookup<'_>) -> bool {
        let bases: Vec<(u64, i64)> = self.tables().iter().map(|(schema, table)| (schema.id, table.id)).collect();
        names_in(select, 1).iter().any(|name| reads(schema, name, &bases, lookup, 0))
    }
}

/// The tables that are named in a part of a query, within so many queries of it or more.
fn names_in(part: &(impl Visit + Sync), least: usize) -> Vec<TableName> {
    task::on_thread_stack(|| {
        let mut names = Names { depth: 0, least, found: Vec::new() };
        let _: ControlFlow<()> = part.visit(&mut names);
        names.found
    })
}

/// Whether a name in a view of a schema is one of these tables, or a view that reads one.
fn reads(schema: &Arc<Schema>, name: &TableName, bases: &[(u64, i64)], lookup: &mut Lookup<'_>, depth: usize) -> bool {
    let Ok((schema, table)) = (lookup.find)(schema, name) else { return false };
    let Some(text) = table.view.as_deref() else { return bases.contains(&(schema.id, table.id)) };
    let text = ViewText { text, mode: table.view_mode(), schema: &schema };
    let Some(query) = text.query().ok().filter(|_| depth < VIEW_DEPTH_MAX) else { return false };
    names_in(&*query, 0).iter().any(|name| reads(&schema, name, bases, lookup, depth + 1))
}

/// The SELECT of a view, if each of its rows is one of each of its tables.
fn merged(query: &Query, is_aggregate: fn(&str) -> bool) -> Option<&Select> {
    let select = plain_select(query)?;
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(terms, _) if terms.is_empty());
    let is_distinct = matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_)));
    if is_grouped || is_distinct || select.having.is_some() || select.from.is_empty() {
        return None;
    }
    let has_aggregates = task::on_thread_stack(|| {
        let mut aggregates = Aggregates { is_aggregate, depth: 0 };
        select.projection.visit(&mut aggregates).is_break()
    });
    (!has_aggregates).then_some(select)
}

/// The SELECT that a query is, unless it is more than that.
pub(super) fn plain_select(query: &Query) -> Option<&Select> {
    if query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return None;
    }
    match &*query.body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => plain_select(query),
        _ => None,
    }
}

/// Stops at an aggregate or a window function of a query itself.
struct Aggregates {
    is_aggregate: fn(&str) -> bool,
    /// Queries around what is visited.
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.to_string().trim_matches('`').to_ascii_uppercase();
        match self.depth == 0 && (function.over.is_some() || (self.is_aggregate)(&name)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The tables that are named within at least so many queries.
struct Names {
    depth: usize,
    least: usize,
    found: Vec<TableName>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if self.depth >= self.least {
            self.found.extend(to_table_name(name));
        }
        ControlFlow::Continue(())
    }
}

/// The FROM of a view.
struct FromClause<'v> {
    schema: &'v Arc<Schema>,
    /// Views around this one.
    depth: usize,
    places: Vec<Place>,
    /// Columns that a join shows once, with those of its left side.
    hidden: Vec<(usize, usize)>,
    /// A table of it need not have a row.
    is_outer: bool,
}

impl FromClause<'_> {
    /// Adds a table with those that are joined to it; `false` if nothing can be written through such a view.
    fn add(&mut self, item: &TableWithJoins, lookup: &mut Lookup<'_>) -> Res<bool> {
        if !self.add_factor(&item.relation, lookup)? {
            return Ok(false);
        }
        for join in &item.joins {
            let constraint = match &join.join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::CrossJoin(constraint)
                | JoinOperator::StraightJoin(constraint) => constraint,
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                    self.is_outer = true;
                    constraint
                }
                _ => return Ok(false),
            };
            let before = self.places.len();
            if !self.add_factor(&join.relation, lookup)? {
                return Ok(false);
            }
            self.hide(constraint, before);
        }
        Ok(true)
    }

    fn add_factor(&mut self, factor: &TableFactor, lookup: &mut Lookup<'_>) -> Res<bool> {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => (to_table_name(name), alias),
            TableFactor::NestedJoin { table_with_joins, alias: None } => return self.add(table_with_joins, lookup),
            _ => return Ok(false),
        };
        let is_stored = |name: &TableName| match &name.schema {
            Some(schema) => !is_virtual(schema),
            None => !name.name.eq_ignore_ascii_case("dual"),
        };
        let Some(name) = name.filter(is_stored) else { return Ok(false) };
        let (schema, table) = (lookup.find)(self.schema, &name)?;
        let view = Shape::nested(&schema, &table, lookup, self.depth + 1)?;
        if table.is_sequence() || table.is_view() && view.is_none() {
            return Ok(false);
        }
        let alias = alias.as_ref().map_or(name.name, |alias| alias.name.value.clone());
        self.places.push(Place { alias, schema, table, view });
        Ok(true)
    }

    /// Hides the columns that the places from one on share with those in front.
    fn hide(&mut self, constraint: &JoinConstraint, from: usize) {
        let names: Vec<String> = match constraint {
            JoinConstraint::Using(names) => names.iter().filter_map(to_table_name).map(|name| name.name).collect(),
            JoinConstraint::Natural => {
                let left = self.places[..from].iter().flat_map(|place| &place.table.columns);
                left.map(|column| column.name.clone()).collect()
            }
            JoinConstraint::On(_) | JoinConstraint::None => return,
        };
        for (at, place) in self.places.iter().enumerate().skip(from) {
            for (index, column) in place.table.columns.iter().enumerate() {
                if names.iter().any(|name| same_name(name, &column.name)) {
                    self.hidden.push((at, index));
                }
            }
        }
    }

    /// What the items of the select list are; `None` if that cannot be told.
    fn columns(&self, select: &Select) -> Option<Vec<Option<(usize, usize)>>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    columns.push(self.column(expr));
                }
                SelectItem::Wildcard(_) => {
                    let all = (0..self.places.len()).flat_map(|at| self.all_of(at));
                    columns.extend(all.filter(|column| !self.hidden.contains(column)).map(Some));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let TableName { schema, name } = to_table_name(name)?;
                    let is_named = |place: &Place| {
                        place.alias == name && schema.as_ref().is_none_or(|schema| place.schema.name == *schema)
                    };
                    columns.extend(self.all_of(self.places.iter().position(is_named)?).map(Some));
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    fn all_of(&self, place: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        (0..self.places[place].table.columns.len()).map(move |column| (place, column))
    }

    /// The column that an expression is, under whatever collation.
    fn column(&self, expr: &Expr) -> Option<(usize, usize)> {
        let parts = name_parts(without_collation(expr))?;
        let (name, qualifiers) = parts.split_last()?;
        let fits = |place: &Place| match qualifiers {
            [] => true,
            [table] => place.alias == *table,
            [schema, table] => place.alias == *table && place.schema.name == *schema,
            _ => false,
        };
        let places = self.places.iter().enumerate().filter(|(_, place)| fits(place));
        let mut columns = places.flat_map(|(at, place)| place.table.columns.iter().enumerate().map(move |c| (at, c)));
        let is_meant = |at: usize, index: usize| !qualifiers.is_empty() || !self.hidden.contains(&(at, index));
        columns
            .find(|(at, (index, column))| same_name(&column.name, name) && is_meant(*at, *index))
            .map(|(at, (index, _))| (at, index))
    }
}

/// The operand of COLLATE, or the expression itself.
fn without_collation(expr: &Expr) -> &Expr {
    let expr = unnest(expr);
    let operand = match expr {
        Expr::Collate { expr, .. } => Some(&**expr),
        Expr::Function(function)
            if function.name.to_string().trim_matches('`').strip_prefix(SPECIAL) == Some("collate") =>
        {
            match &function.args {
                FunctionArguments::List(list) => match list.args.first() {
                    Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))) => Some(operand),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    };
    operand.map_or(expr, without_collation)
}

/// A view that a statement writes through, or has in its FROM beside what it writes to.
#[derive(Debug, Clone)]
pub(crate) struct Through {
    pub(crate) schema: Arc<Schema>,
    pub(crate) view: Arc<Table>,
    /// `None` if nothing can be written through it.
    pub(crate) shape: Option<Rc<Shape>>,
    /// SQLite's names of the row ids of its tables; `None` where they are not shown, for tables of other schemas.
    pub(crate) rowids: Vec<Option<String>>,
}

impl Through {
    /// What it is made of, if something can be written through it.
    pub(crate) fn writable(&self) -> Option<&Rc<Shape>> {
        self.shape.as_ref().filter(|shape| !shape.reads_itself)
    }

    /// As [`Shape::base_of`].
    pub(crate) fn base_of(&self, column: usize) -> Option<(usize, usize)> {
        self.shape.as_ref()?.base_of(column)
    }

    /// The table and the position there that a column has.
    pub(crate) fn column(&self, column: usize) -> Option<(&Table, usize)> {
        let shape = self.shape.as_ref()?;
        let (place, position) = shape.base_of(column)?;
        let (_, table) = *shape.tables().get(place)?;
        Some((&**table, position))
    }
}

impl Translator<'_> {
    /// What a view is made of, if something can be written through it.
    ///
    /// # Errors
    /// 1049 and 1146 for tables that have gone.
    pub(in crate::translate) fn shape_of(&mut self, schema: &Arc<Schema>, view: &Table) -> Res<Option<Rc<Shape>>> {
        let is_aggregate = self.session.library.is_aggregate;
        let mut find = |within: &Arc<Schema>, name: &TableName| -> Res<(Arc<Schema>, Arc<Table>)> {
            let schema = match &name.schema {
                Some(schema) => self.session.schema_named(schema)?,
                None => Arc::clone(within),
            };
            let found = self.catalog(&schema)?.table(&name.name).cloned();
            let table = found.ok_or_else(|| errors::no_such_table(&schema.name, &name.name))?;
            Ok((schema, table))
        };
        let shape = Shape::of(schema, view, &mut Lookup { find: &mut find, is_aggregate })?;
        Ok(shape.map(Rc::new))
    }

    /// A view in the FROM of a statement that writes, whose query shows these row ids.
    pub(in crate::translate) fn through(
        &self,
        (schema, view): (&Arc<Schema>, &Arc<Table>),
        shape: Option<Rc<Shape>>,
        row_ids: Option<&[(i64, String)]>,
    ) -> Through {
        let mut count = 0;
        let mut name = |schema: &Arc<Schema>| {
            let is_here = self.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, schema));
            count += usize::from(is_here);
            is_here.then(|| format!("l{}", count - 1))
        };
        let tables = shape.as_ref().map_or_else(Vec::new, |shape| shape.tables());
        let mut rowids: Vec<Option<String>> = tables.into_iter().map(|(schema, _)| name(schema)).collect();
        if row_ids.is_none_or(|ids| ids.len() != count) {
            // A query that calls what gives another value each time does not show them.
            rowids.fill(None);
        }
        Through { schema: Arc::clone(schema), view: Arc::clone(view), shape, rowids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let (statement, _) = parse::parse(text.as_bytes(), 0, LexMode::default(), false, Literals::Inline).unwrap();
        let Statement::Query(query) = statement else { panic!("{text}") };
        assert_eq!(merged(&query, |name| name == "MAX").is_some(), expected, "{text}");
    }

    #[test]
    fn views_whose_rows_are_those_of_their_tables() {
        check("select a, b + 1 from t where a > 1 order by b", true);
        check("select t.a, u.b from t join u using (a) where u.b > t.a", true);
        check("select a, (select max(b) from u) from t where a in (select max(a) from u group by c limit 1)", true);
        check("select 1", false);
        check("select distinct a from t", false);
        check("select a from t group by a", false);
        check("select a from t having a > 1", false);
        check("select a from t limit 1", false);
        check("select a, 1 + max(b) from t", false);
        check("select a, row_number() over () from t", false);
        check("select a from t union all select a from u", false);
        check("with w as (select 1 as a) select a from w", false);
    }

    #[test]
    fn a_collation_hides_no_column() {
        let text = "select (a) collate utf8mb4_bin, a + 1, ((b)) from t";
        let (statement, _) = parse::parse(text.as_bytes(), 0, LexMode::default(), false, Literals::Inline).unwrap();
        let Statement::Query(query) = statement else { panic!("{text}") };
        let named = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => name_parts(without_collation(expr)).map(|parts| parts.concat()),
            _ => None,
        };
        let names: Vec<_> = plain_select(&query).unwrap().projection.iter().map(named).collect();
        assert_eq!(names, [Some("a".to_owned()), None, Some("b".to_owned())]);
    }
}
