//! INSERT, UPDATE and DELETE become plans that Rust carries out row by row (`crate::exec::write`): SQLite finds rows and
//! evaluates expressions, Rust coerces values, compares old and new, and writes by row id.

use std::sync::Arc;

use sqlparser::ast::{Assignment, AssignmentTarget, Expr, SetExpr, TableWithJoins};

use super::{
    Bind, Code, Coercibility, Res, Source, Translator,
    expr::unnest,
    scope::{NewRow, Scope, SourceColumn},
    select::Wanted,
};
use crate::{
    catalog::{Table, same_name},
    dialect::SPECIAL,
    engine::Schema,
    errors,
    exec::{
        Out,
        rules::{Rule, rules_of},
    },
    lexer::Item,
    parse::{self, InsertSource, TableName},
    value::{Base, Datum, Rep},
};

/// A value for a column.
#[derive(Debug, Clone)]
pub(crate) enum Cellish {
    Default,
    /// A constant of the statement.
    Const(Source),
    /// Column of the plan's query.
    Column(usize),
}

/// A query that feeds a writing statement.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind>,
    pub(crate) outs: Vec<Out>,
}

/// INSERT or REPLACE.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    pub(crate) schema: Arc<Schema>,
    pub(crate) table: Arc<Table>,
    /// Positions of the columns that get values.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<InsertRow>,
    pub(crate) query: Option<Feed>,
    pub(crate) replace: bool,
    pub(crate) ignore: bool,
    pub(crate) on_duplicate: Option<Upsert>,
    pub(crate) rules: Arc<[Rule]>,
}

/// A row of VALUES; its expressions are evaluated by one query.
#[derive(Debug)]
pub(crate) struct InsertRow {
    pub(crate) values: Vec<Cellish>,
    pub(crate) feed: Option<Feed>,
}

/// ON DUPLICATE KEY UPDATE: a query that gives the new values of the row with a row id.
#[derive(Debug)]
pub(crate) struct Upsert {
    /// Positions of the assigned columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) values: Vec<Cellish>,
    /// Gives the old values of all columns, then the expressions. Its last parameters are the new row's columns, then the row id.
    pub(crate) feed: Feed,
    pub(crate) old: usize,
}

/// UPDATE.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) targets: Vec<UpdateTarget>,
    pub(crate) feed: Feed,
    pub(crate) ignore: bool,
}

/// What an UPDATE assigns: to which sources, and the columns of the feed.
#[derive(Default)]
struct Set {
    targets: Vec<(usize, UpdateTarget)>,
    texts: Vec<String>,
    outs: Vec<Out>,
}

/// A table that an UPDATE changes.
#[derive(Debug)]
pub(crate) struct UpdateTarget {
    pub(crate) schema: Arc<Schema>,
    pub(crate) table: Arc<Table>,
    /// Column of the feed with the row id.
    pub(crate) rowid: usize,
    /// Column of the table, its old value's column in the feed, its new value.
    pub(crate) assignments: Vec<(usize, usize, Cellish)>,
    pub(crate) rules: Arc<[Rule]>,
}

/// DELETE.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    /// Tables and the columns of the feed with their row ids.
    pub(crate) targets: Vec<(Arc<Schema>, Arc<Table>, usize)>,
    /// The rows; `None` for all of a single table by `direct`.
    pub(crate) feed: Feed,
    /// One table without ORDER BY and LIMIT: SQLite's own DELETE.
    pub(crate) direct: bool,
    pub(crate) ignore: bool,
}

impl Translator<'_> {
    fn feed_of(&mut self, sql: String, outs: Vec<Out>) -> Feed {
        Feed { sql, binds: std::mem::take(&mut self.binds), outs }
    }

    fn base_table(&mut self, name: &TableName) -> Res<(Arc<Schema>, Arc<Table>)> {
        let (schema, table) = self.table(name)?;
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
        self.home = Some(Arc::clone(&schema));
        let columns = match &insert.columns {
            Some(names) if !names.is_empty() => self.column_list(&table, names)?,
            _ => (0..table.columns.len()).collect(),
        };
        let mut plan = InsertPlan {
            schema: Arc::clone(&schema),
            table: Arc::clone(&table),
            columns,
            rows: Vec::new(),
            query: None,
            replace: insert.replace,
            ignore: insert.ignore,
            on_duplicate: None,
            rules: self.rules(&schema, &table)?,
        };
        match &insert.source {
            InsertSource::Values(rows) => {
                let explicit = insert.columns.as_ref().is_some_and(|names| !names.is_empty());
                for (number, row) in rows.iter().enumerate() {
                    plan.rows.push(self.insert_row(&plan.columns, row, number + 1, explicit)?);
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
                let rel = self.query(query, None, Wanted::Any)?;
                if rel.columns.len() != plan.columns.len() {
                    return Err(errors::wrong_value_count(1));
                }
                let outs = rel.columns.iter().map(|column| Out::of(&column.ex.ty)).collect();
                plan.query = Some(self.feed_of(rel.sql, outs));
            }
        }
        if !insert.on_duplicate.is_empty() {
            plan.on_duplicate = Some(self.upsert(&schema, &table, insert)?);
        }
        Ok(plan)
    }

    /// The expressions of a table's rows.
    fn rules(&self, schema: &Arc<Schema>, table: &Table) -> Res<Arc<[Rule]>> {
        if !table.has_rules() {
            return Ok(Arc::from([]));
        }
        Ok(rules_of(&self.session.within(Some(schema)), table)?.into())
    }

    fn column_list(&self, table: &Table, names: &[String]) -> Res<Vec<usize>> {
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

    fn insert_row(&mut self, columns: &[usize], row: &[Expr], number: usize, explicit: bool) -> Res<InsertRow> {
        if row.is_empty() && !explicit {
            return Ok(InsertRow { values: Vec::new(), feed: None });
        }
        if row.len() != columns.len() {
            return Err(errors::wrong_value_count(number));
        }
        let mut values = Vec::new();
        let (mut texts, mut outs) = (Vec::new(), Vec::new());
        for expr in row {
            if is_default(expr) {
                values.push(Cellish::Default);
                continue;
            }
            let ex = self.expr(expr, &Scope::default())?;
            match &ex.code {
                Code::Const(source) => values.push(Cellish::Const(source.clone())),
                Code::Sql(sql) => {
                    values.push(Cellish::Column(texts.len()));
                    texts.push(format!("{sql} AS r{}", texts.len()));
                    outs.push(Out::of(&ex.ty));
                }
            }
        }
        let feed = (!texts.is_empty()).then(|| self.feed_of(format!("SELECT {}", texts.join(", ")), outs));
        self.binds.clear();
        Ok(InsertRow { values, feed })
    }

    fn upsert(&mut self, schema: &Arc<Schema>, table: &Arc<Table>, insert: &parse::Insert) -> Res<Upsert> {
        let (from, source) = self.table_source(schema, table, crate::ddl::temporary::shown(&table.name));
        // The new row's columns are parameters behind all others: numbered from 10001 on, moved when the plan is prepared.
        let new_columns = table
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| SourceColumn {
                name: column.name.clone(),
                sql: format!("?{}", NEW_ROW_BASE + index),
                ty: column.ty.clone(),
                nullable: true,
                coercibility: Coercibility::Column,
                origin: None,
                hidden: false,
            })
            .collect();
        let mut scope = Scope { sources: vec![source], ..Scope::default() };
        scope.new_row = Some(NewRow { alias: insert.row_alias.clone(), columns: new_columns });
        let mut texts: Vec<String> = (0..table.columns.len())
            .map(|index| format!("{}.{}", scope.sources[0].sql_alias, scope.sources[0].columns[index].sql))
            .collect();
        let mut outs: Vec<Out> = table.columns.iter().map(|column| Out::of(&column.ty)).collect();
        let old = texts.len();
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for assignment in &insert.on_duplicate {
            let (_, column) = self.target_column(assignment, &scope)?;
            columns.push(column);
            values.push(self.assigned_value(&assignment.value, &mut scope, 0, column, &mut texts, &mut outs)?);
        }
        let sql = format!(
            "SELECT {} FROM {from} WHERE {}.rowid = ?{}",
            texts.join(", "),
            scope.sources[0].sql_alias,
            ROWID_PARAM
        );
        let sql = renumber(&sql, self.binds.len(), table.columns.len());
        Ok(Upsert { columns, values, feed: self.feed_of(sql, outs), old })
    }

    /// The source and column that an assignment changes.
    fn target_column(&self, assignment: &Assignment, scope: &Scope<'_>) -> Res<(usize, usize)> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(errors::unsupported("assignment to a row"));
        };
        let parts: Vec<String> =
            name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.clone()).collect();
        let (column, qualifiers) = parts.split_last().ok_or_else(|| errors::syntax(name))?;
        let shown = parts.join(".");
        let mut found = None;
        for (index, source) in scope.sources.iter().enumerate() {
            let fits = match qualifiers {
                [] => true,
                [table] => source.alias == *table,
                [schema, table] => source.alias == *table && source.schema == *schema,
                _ => false,
            };
            let position = source.columns.iter().position(|known| same_name(&known.name, column));
            if let (true, Some(position)) = (fits, position) {
                if found.is_some() {
                    return Err(errors::ambiguous_column(shown, "field list"));
                }
                found = Some((index, position));
            }
        }
        found.ok_or_else(|| errors::unknown_column(shown, "field list"))
    }

    /// The new value of an assignment; later assignments of the same statement see it.
    fn assigned_value(
        &mut self,
        value: &Expr,
        scope: &mut Scope<'_>,
        source: usize,
        column: usize,
        texts: &mut Vec<String>,
        outs: &mut Vec<Out>,
    ) -> Res<Cellish> {
        if is_default(value) {
            return Ok(Cellish::Default);
        }
        let fresh = self.effects.fresh;
        let ex = self.expr(value, scope)?;
        if ex.aggregate {
            return Err(errors::invalid_group_use());
        }
        let repeatable = self.effects.fresh == fresh;
        let known = &scope.sources[source].columns[column];
        let mut seen = ex.clone();
        // Only where storing changes nothing can later assignments read the expression in place of the column.
        let same = matches!(ex.ty.rep(), Rep::Int | Rep::Real)
            && ex.ty.rep() == known.ty.rep()
            && known.ty.base != Base::Float;
        let same = same || ex.is_const() && ex.ty.rep() == known.ty.rep() && ex.ty.rep() == Rep::Text;
        if same && repeatable {
            seen.ty = known.ty.clone();
        } else {
            seen.code = Code::Sql(UNREADABLE.to_owned());
        }
        let name = known.name.clone();
        scope.assigned.retain(|(known, at, _)| !(*at == source && *known == name));
        scope.assigned.push((name, source, seen));
        Ok(match &ex.code {
            Code::Const(constant) => Cellish::Const(constant.clone()),
            Code::Sql(sql) => {
                if sql.contains(UNREADABLE) {
                    return Err(errors::unsupported(
                        "reading a column that the same statement has assigned a converted value",
                    ));
                }
                texts.push(sql.clone());
                outs.push(Out::of(&ex.ty));
                Cellish::Column(texts.len() - 1)
            }
        })
    }

    /// Translates UPDATE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn update(&mut self, update: &parse::Update) -> Res<UpdatePlan> {
        let single = update.from.len() == 1 && update.from[0].joins.is_empty();
        if !single && (!update.order_by.is_empty() || update.limit.is_some()) {
            return Err(errors::wrong_arguments("UPDATE with several tables and ORDER BY or LIMIT"));
        }
        self.home_of(&update.from)?;
        let mut scope = Scope::default();
        let from = self.from(&update.from, &mut scope)?;
        let mut tail = format!(" FROM {from}");
        let filter = self.effects;
        tail.push_str(&self.where_text(update.selection.as_ref(), &mut scope)?);
        let limit = self.limit_text(update.limit.as_ref())?;
        let list = self.effects;
        let mut set = self.assignments(update, &mut scope)?;
        scope.assigned.clear();
        scope.clause = "order clause";
        if self.sorts_first(&update.order_by, &scope, filter, list)? {
            tail = self.sorted_source(&mut scope, &tail, &update.order_by, &limit)?;
            set = self.assignments(update, &mut scope)?;
        } else {
            tail.push_str(&self.order_by(&update.order_by, &scope)?);
            tail.push_str(&limit);
        }
        self.check_safe_update(&scope, &update.from, update.selection.as_ref(), update.limit.is_some())?;
        let sql = format!("SELECT {}{tail}", set.texts.join(", "));
        self.one_home(set.targets.iter().map(|(_, target)| &target.schema))?;
        let feed = self.feed_of(sql, set.outs);
        let targets = set.targets.into_iter().map(|(_, target)| target).collect();
        Ok(UpdatePlan { targets, feed, ignore: update.ignore })
    }

    /// What UPDATE assigns.
    fn assignments(&mut self, update: &parse::Update, scope: &mut Scope<'_>) -> Res<Set> {
        scope.clause = "field list";
        let Set { mut targets, mut texts, mut outs } = Set::default();
        for assignment in &update.assignments {
            let (source, column) = self.target_column(assignment, scope)?;
            let target = match targets.iter().position(|(index, _)| *index == source) {
                Some(target) => target,
                None => {
                    let (schema, table) = self.writable(scope, source)?;
                    texts.push(scope.sources[source].rowid_text());
                    outs.push(Out::rowid());
                    targets.push((
                        source,
                        UpdateTarget {
                            rules: self.rules(&schema, &table)?,
                            schema,
                            table,
                            rowid: texts.len() - 1,
                            assignments: Vec::new(),
                        },
                    ));
                    targets.len() - 1
                }
            };
            texts.push(format!("{}.{}", scope.sources[source].sql_alias, scope.sources[source].columns[column].sql));
            outs.push(Out::of(&scope.sources[source].columns[column].ty));
            let old = texts.len() - 1;
            let value = self.assigned_value(&assignment.value, scope, source, column, &mut texts, &mut outs)?;
            targets[target].1.assignments.retain(|(known, ..)| *known != column);
            targets[target].1.assignments.push((column, old, value));
        }
        Ok(Set { targets, texts, outs })
    }

    /// Makes the first table's schema the one whose file is written.
    fn home_of(&mut self, from: &[TableWithJoins]) -> Res<()> {
        if let Some(TableWithJoins { relation: sqlparser::ast::TableFactor::Table { name, .. }, .. }) = from.first()
            && let Some(name) = parse::to_table_name(name)
        {
            self.home = Some(self.schema_of(&name)?);
        }
        Ok(())
    }

    /// A statement may write to one schema only: commits of several files are not atomic.
    fn one_home<'s>(&self, mut schemas: impl Iterator<Item = &'s Arc<Schema>>) -> Res<()> {
        let same = schemas.all(|schema| self.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, schema)));
        if same { Ok(()) } else { Err(errors::unsupported("one statement that writes to several schemas")) }
    }

    fn writable(&self, scope: &Scope<'_>, source: usize) -> Res<(Arc<Schema>, Arc<Table>)> {
        let source = &scope.sources[source];
        match (&source.home, &source.table) {
            (Some(schema), Some(table)) => Ok((Arc::clone(schema), Arc::clone(table))),
            _ => Err(errors::unsupported(format!("writing to the derived table or view {}", source.alias))),
        }
    }

    fn where_text(&mut self, selection: Option<&Expr>, scope: &mut Scope<'_>) -> Res<String> {
        scope.clause = "where clause";
        let text = match selection {
            None => String::new(),
            Some(selection) => {
                let ex = self.expr(selection, scope)?;
                if ex.aggregate {
                    return Err(errors::invalid_group_use());
                }
                format!(" WHERE {}", self.truth(&ex))
            }
        };
        scope.clause = "field list";
        Ok(text)
    }

    fn order_and_limit(
        &mut self,
        order: &[sqlparser::ast::OrderByExpr],
        limit: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> Res<String> {
        let mut scope = scope.clone();
        scope.clause = "order clause";
        Ok(self.order_by(order, &scope)? + &self.limit_text(limit)?)
    }

    fn limit_text(&mut self, limit: Option<&Expr>) -> Res<String> {
        Ok(match limit {
            Some(limit) => format!(" LIMIT {}", self.count(limit)?.0),
            None => String::new(),
        })
    }

    /// Translates DELETE.
    ///
    /// # Errors
    /// MySQL's.
    pub(crate) fn delete(&mut self, delete: &parse::Delete) -> Res<DeletePlan> {
        let single = delete.targets.is_empty();
        if !single && (!delete.order_by.is_empty() || delete.limit.is_some()) {
            return Err(errors::syntax("LIMIT"));
        }
        if let Some(target) = delete.targets.first().filter(|target| target.schema.is_some()) {
            self.home = Some(self.schema_of(target)?);
        } else {
            self.home_of(&delete.from)?;
        }
        let mut scope = Scope::default();
        let from = self.from(&delete.from, &mut scope)?;
        let condition = self.where_text(delete.selection.as_ref(), &mut scope)?;
        if single {
            let (schema, table) = self.writable(&scope, 0)?;
            self.check_safe_update(&scope, &delete.from, delete.selection.as_ref(), delete.limit.is_some())?;
            if delete.order_by.is_empty() && delete.limit.is_none() && delete.from[0].joins.is_empty() && !delete.ignore
            {
                let feed = self.feed_of(format!("DELETE FROM {from}{condition}"), Vec::new());
                return Ok(DeletePlan { targets: vec![(schema, table, 0)], feed, direct: true, ignore: false });
            }
            if !delete.from[0].joins.is_empty() {
                return Err(errors::syntax("JOIN"));
            }
            let tail = self.order_and_limit(&delete.order_by, delete.limit.as_ref(), &scope)?;
            let sql = format!("SELECT {}.rowid FROM {from}{condition}{tail}", scope.sources[0].sql_alias);
            let feed = self.feed_of(sql, vec![Out::rowid()]);
            return Ok(DeletePlan { targets: vec![(schema, table, 0)], feed, direct: false, ignore: delete.ignore });
        }
        self.check_safe_update(&scope, &delete.from, delete.selection.as_ref(), false)?;
        let (mut targets, mut texts) = (Vec::new(), Vec::new());
        for name in &delete.targets {
            let (source, _) = scope.source(name).ok_or_else(|| errors::unknown_multi_delete(&name.name))?;
            let (schema, table) = self.writable(&scope, source)?;
            texts.push(scope.sources[source].rowid_text());
            targets.push((schema, table, texts.len() - 1));
        }
        self.one_home(targets.iter().map(|(schema, ..)| schema))?;
        let outs = texts.iter().map(|_| Out::rowid()).collect();
        let feed = self.feed_of(format!("SELECT {} FROM {from}{condition}", texts.join(", ")), outs);
        Ok(DeletePlan { targets, feed, direct: false, ignore: delete.ignore })
    }
}

/// Stands for a column that an earlier assignment has changed in a way that the text cannot repeat.
const UNREADABLE: &str = "tg_unreadable()";
const NEW_ROW_BASE: usize = 20_001;
const ROWID_PARAM: usize = 20_000;

/// Moves the parameters of the new row behind the binds: columns first, the row id last.
fn renumber(sql: &str, binds: usize, columns: usize) -> String {
    let mut out = sql.replace(&format!("?{ROWID_PARAM}"), &format!("?{}", binds + columns + 1));
    for index in (0..columns).rev() {
        out = out.replace(&format!("?{}", NEW_ROW_BASE + index), &format!("?{}", binds + index + 1));
    }
    out
}

/// Whether an expression is the bare word DEFAULT, or DEFAULT(column).
/// A row that is made of literals alone.
fn literal_row(columns: &[usize], row: &[Item], number: usize) -> Res<InsertRow> {
    if row.len() != columns.len() {
        return Err(errors::wrong_value_count(number));
    }
    let value = |item: &Item| match *item {
        Item::Literal(index) => Cellish::Const(Source::Literal(index as usize)),
        Item::Negative(index) => Cellish::Const(Source::Negative(index as usize)),
        Item::Param(index) => Cellish::Const(Source::Param(index as usize)),
        Item::Null => Cellish::Const(Source::Value(Datum::Null, Rep::Null)),
        Item::Default => Cellish::Default,
    };
    Ok(InsertRow { values: row.iter().map(value).collect(), feed: None })
}

fn is_default(expr: &Expr) -> bool {
    matches!(unnest(expr), Expr::Function(function)
        if function.name.to_string().trim_matches('`') == format!("{SPECIAL}default"))
}
