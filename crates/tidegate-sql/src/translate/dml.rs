//! INSERT, UPDATE and DELETE become plans that Rust carries out row by row (`crate::exec::write`): SQLite finds rows and
//! evaluates expressions, Rust coerces values, compares old and new, and writes by row id.

mod insert;

pub(super) use insert::Destination;

use std::{rc::Rc, sync::Arc};

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TableWithJoins};
use tidegate_rows::ServerError;

use super::{
    Bind, Res, Source as Constant, Translator,
    access::Change,
    assign::{FeedColumns, LateValue, RowValue},
    expr::unnest,
    returning::{Returned, Returning},
    scope::{Scope, Source},
    view::through::Through,
};
use crate::{
    accounts::Privileges,
    catalog::Table,
    dialect::SPECIAL,
    errors,
    parse::{self, TableName},
    schema::Schema,
    store::prepared::Text,
    translate::{load::LoadPlan, target_table::TargetTable, walk::Walk},
    value::out::Out,
};

/// A value for a column.
#[derive(Debug, Clone)]
pub(crate) enum Cellish {
    Default,
    /// A constant of the statement.
    Const(Constant),
    /// Column of the plan's query.
    Column(usize),
    /// An expression over what has been stored before it.
    Late(Box<LateValue>),
}

/// A query that feeds a writing statement.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub(crate) sql: Text,
    pub(crate) binds: Vec<Bind>,
    pub(crate) outs: Vec<Out>,
    /// What SQLite cannot say of the rows that are wanted.
    pub(crate) walk: Option<Walk>,
}

/// INSERT or REPLACE.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    pub(crate) to: Rc<TargetTable>,
    /// Positions of the columns that get values.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<InsertRow>,
    pub(crate) query: Option<Feed>,
    pub(crate) replace: bool,
    pub(crate) ignore: bool,
    pub(crate) on_duplicate: Option<Box<Upsert>>,
    pub(crate) returning: Option<Arc<Returning>>,
    /// The rows come from a file; those of VALUES are none but what SET says.
    pub(crate) load: Option<Box<LoadPlan>>,
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
    /// Gives the old values of all columns, then the expressions. Behind its binds come the inputs, then the row id.
    pub(crate) feed: Feed,
    pub(crate) inputs: Vec<RowValue>,
    pub(crate) old: usize,
    /// Columns of the query behind those that are inserted.
    pub(crate) selected: usize,
}

/// UPDATE.
#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) targets: Vec<UpdateTarget>,
    pub(crate) feed: Feed,
    pub(crate) ignore: bool,
    /// The rows as they were are answered: what the columns of the feed from the second on are.
    pub(crate) returning: Option<Arc<Returned>>,
    /// Somebody else decides about the rows ([`Revise`](crate::translate::revise::Revise)); how one is made if there is none.
    pub(crate) revised: Option<Box<InsertPlan>>,
}

/// What an UPDATE assigns: to which sources and which of their tables, and the columns of the feed.
#[derive(Default)]
struct Set {
    targets: Vec<((usize, usize), UpdateTarget)>,
    feed: FeedColumns,
}

/// A table that a statement changes.
struct Written {
    schema: Arc<Schema>,
    table: Arc<Table>,
    /// Its row id in SQLite's text.
    rowid: String,
}

/// A table that an UPDATE changes.
#[derive(Debug)]
pub(crate) struct UpdateTarget {
    pub(crate) to: Rc<TargetTable>,
    /// Column of the feed with the row id.
    pub(crate) rowid: usize,
    /// Column of the table, its old value's column in the feed, its new value.
    pub(crate) assignments: Vec<(usize, usize, Cellish)>,
}

/// DELETE.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    /// Tables and the columns of the feed with their row ids.
    pub(crate) targets: Vec<(Rc<TargetTable>, usize)>,
    /// The rows; `None` for all of a single table by `direct`.
    pub(crate) feed: Feed,
    /// One table without ORDER BY and LIMIT: SQLite's own DELETE.
    pub(crate) direct: bool,
    pub(crate) ignore: bool,
    /// What the columns of the feed behind the row id are.
    pub(crate) returning: Option<Arc<Returned>>,
}

impl Translator<'_> {
    pub(super) fn feed_of(&mut self, sql: String, outs: Vec<Out>) -> Feed {
        Feed { sql: sql.into(), binds: std::mem::take(&mut self.binds), outs, walk: None }
    }

    /// A table that is written to, through the table of this number among those of a view if the statement names one. Rows are to be
    /// seen through it, if it wants that and the statement `makes` rows.
    fn target_table(
        &mut self,
        (schema, table): (&Arc<Schema>, &Arc<Table>),
        view: Option<(&Through, usize)>,
        makes: bool,
    ) -> Res<Rc<TargetTable>> {
        if table.is_sequence() {
            return Err(errors::not_of_sequences(&schema.name, crate::temporary_name::shown(&table.name)));
        }
        let to = TargetTable::of(&self.session, schema, table)?;
        let Some((through, place)) = view else { return Ok(Rc::new(to)) };
        let seen = match through.shape.as_ref().filter(|_| makes) {
            Some(shape) => self.seen_rule(&through.schema, &through.view, shape)?,
            None => None,
        };
        Ok(Rc::new(to.through(through, place, seen)))
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
        self.writes = Privileges::UPDATE;
        let from = self.from(&update.from, &mut scope)?;
        self.writes = Privileges::NONE;
        if single && scope.sources.len() == 1 {
            self.writable(&scope, (0, 0), "UPDATE")?;
        }
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
        let sql = format!("SELECT {}{tail}", set.feed.texts.join(", "));
        self.one_home(set.targets.iter().map(|(_, target)| &target.to.schema))?;
        let feed = self.feed_of(sql, set.feed.outs);
        let targets = set.targets.into_iter().map(|(_, target)| target).collect();
        Ok(UpdatePlan { targets, feed, ignore: update.ignore, returning: None, revised: None })
    }

    /// What UPDATE assigns.
    fn assignments(&mut self, update: &parse::Update, scope: &mut Scope<'_>) -> Res<Set> {
        scope.clause = "field list";
        let Set { mut targets, mut feed } = Set::default();
        for assignment in &update.assignments {
            let (source, column) = self.target_column(assignment, &scope.sources)?;
            let (place, position) = self.may_assign(&scope.sources[source], column)?;
            let known = &scope.sources[source];
            let view = known.through.as_deref();
            let target = match targets.iter().position(|((index, _), _)| *index == source) {
                Some(target) if targets[target].0.1 == place => target,
                Some(_) => return Err(several_tables(view)),
                None => {
                    let Written { schema, table, rowid } = self.writable(scope, (source, place), "UPDATE")?;
                    let rowid = feed.push(rowid, Out::rowid());
                    let to = self.target_table((&schema, &table), view.map(|view| (view, place)), true)?;
                    targets.push(((source, place), UpdateTarget { to, rowid, assignments: Vec::new() }));
                    targets.len() - 1
                }
            };
            let text = format!("{}.{}", known.sql_alias, known.columns[column].sql);
            let old = feed.push(text, Out::of(&known.columns[column].ty));
            let value = self.assigned_value(&assignment.value, scope, source, column, &mut feed)?;
            targets[target].1.assignments.push((position, old, value));
        }
        Ok(Set { targets, feed })
    }

    /// Whether the session may change a column of a source. Answers the table, by its place among those of a view, and the position
    /// there.
    ///
    /// # Errors
    /// 1142, 1143, 1356; 1288 and 1348 for views.
    fn may_assign(&mut self, source: &Source, column: usize) -> Res<(usize, usize)> {
        let Some(through) = &source.through else {
            if let (Some(schema), Some(table)) = (&source.home, &source.table) {
                self.may_update(schema, table, column)?;
            }
            return Ok((0, column));
        };
        self.may_through(through, Change::Update, &[column])?;
        let shape = through.writable().ok_or_else(|| errors::not_updatable(&source.alias, "UPDATE"))?;
        shape.base_of(column).ok_or_else(|| errors::column_not_updatable(&source.columns[column].name))
    }

    /// Makes the first table's schema the one whose file is written.
    fn home_of(&mut self, from: &[TableWithJoins]) -> Res<()> {
        if let Some(TableWithJoins { relation: sqlparser::ast::TableFactor::Table { name, .. }, .. }) = from.first()
            && let Some(name) = parse::to_table_name(name)
        {
            self.home = Some(self.written_schema(&name)?);
        }
        Ok(())
    }

    /// The schema of a table, or of the first one behind a view.
    fn written_schema(&mut self, name: &TableName) -> Res<Arc<Schema>> {
        let schema = self.schema_of(name)?;
        // What is wrong with the name is told where it is looked up for good.
        let Some((of, view)) = self.table(name).ok().filter(|(_, table)| table.is_view()) else { return Ok(schema) };
        let shape = self.shape_of(&of, &view).ok().flatten();
        let first = shape.and_then(|shape| shape.tables().first().map(|(schema, _)| Arc::clone(schema)));
        Ok(first.unwrap_or(schema))
    }

    /// A statement may write to one schema only: commits of several files are not atomic.
    fn one_home<'s>(&self, mut schemas: impl Iterator<Item = &'s Arc<Schema>>) -> Res<()> {
        let same = schemas.all(|schema| self.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, schema)));
        if same { Ok(()) } else { Err(errors::unsupported("one statement that writes to several schemas")) }
    }

    /// A source whose rows can be changed; of a view the table of this number.
    ///
    /// # Errors
    /// 1288 if there is none; 1235 for one whose row ids are not to be had.
    fn writable(&self, scope: &Scope<'_>, (source, place): (usize, usize), verb: &str) -> Res<Written> {
        let source = scope.sources.get(source).ok_or_else(errors::no_tables_used)?;
        let refused = || errors::not_updatable(&source.alias, verb);
        let Some(view) = &source.through else {
            let (Some(schema), Some(table)) = (&source.home, &source.table) else { return Err(refused()) };
            return Ok(Written { schema: Arc::clone(schema), table: Arc::clone(table), rowid: source.rowid_text() });
        };
        let shape = view.writable().ok_or_else(refused)?;
        let (schema, table) = *shape.tables().get(place).ok_or_else(refused)?;
        let Some(rowid) = view.rowids.get(place).and_then(Option::as_ref) else {
            let what = "a view whose query calls functions, or of tables of another schema than the statement's first";
            return Err(errors::unsupported(format!("writing through {}: {what}", source.alias)));
        };
        let rowid = format!("{}.{rowid}", source.sql_alias);
        Ok(Written { schema: Arc::clone(schema), table: Arc::clone(table), rowid })
    }

    /// As [`writable`](Self::writable), for one who may delete rows there. A `single` DELETE names nothing else.
    ///
    /// # Errors
    /// 1142, 1356; 1395 for a join view.
    fn deletable(&mut self, scope: &Scope<'_>, source: usize, single: bool) -> Res<Written> {
        let Some(view) = scope.sources.get(source).and_then(|source| source.through.as_deref()) else {
            let written = self.writable(scope, (source, 0), "DELETE")?;
            self.may_delete(&written.schema, &written.table)?;
            return Ok(written);
        };
        self.may_through(view, Change::Delete, &[])?;
        match view.writable() {
            // MariaDB's answer to a single DELETE, where that is an outer join.
            Some(shape) if shape.is_outer && single => {
                Err(errors::not_updatable(&scope.sources[source].alias, "DELETE"))
            }
            Some(shape) if shape.tables().len() > 1 => {
                Err(errors::delete_from_join_view(&view.schema.name, &view.view.name))
            }
            _ => self.writable(scope, (source, 0), "DELETE"),
        }
    }

    fn where_text(&mut self, selection: Option<&Expr>, scope: &mut Scope<'_>) -> Res<String> {
        let text = selection.map_or(Ok(String::new()), |selection| self.filter(selection, scope))?;
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

    /// Whether single rows of a table are heard of when they are deleted: by triggers, or by functions, which may write.
    fn fires_triggers(&mut self, schema: &Arc<Schema>, table: &Table) -> Res<bool> {
        Ok(!self.calls.is_empty() || !self.catalog(schema)?.triggers_of(table.id).is_empty())
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
            self.home = Some(self.written_schema(target)?);
        } else {
            self.home_of(&delete.from)?;
        }
        let mut scope = Scope::default();
        self.writes = Privileges::DELETE;
        let from = self.from(&delete.from, &mut scope)?;
        self.writes = Privileges::NONE;
        let condition = self.where_text(delete.selection.as_ref(), &mut scope)?;
        if single {
            return self.delete_from_one(delete, &mut scope, &from, &condition);
        }
        self.check_safe_update(&scope, &delete.from, delete.selection.as_ref(), false)?;
        let (mut targets, mut texts) = (Vec::new(), Vec::new());
        for name in &delete.targets {
            let (source, _) = scope.source(name).ok_or_else(|| errors::unknown_multi_delete(&name.name))?;
            let Written { schema, table, rowid } = self.deletable(&scope, source, false)?;
            texts.push(rowid);
            let view = scope.sources[source].through.as_deref().map(|view| (view, 0));
            targets.push((self.target_table((&schema, &table), view, false)?, texts.len() - 1));
        }
        self.one_home(targets.iter().map(|(of, _)| &of.schema))?;
        let outs = texts.iter().map(|_| Out::rowid()).collect();
        let feed = self.feed_of(format!("SELECT {} FROM {from}{condition}", texts.join(", ")), outs);
        Ok(DeletePlan { targets, feed, direct: false, ignore: delete.ignore, returning: None })
    }

    /// DELETE of the form that names one table.
    fn delete_from_one(
        &mut self,
        delete: &parse::Delete,
        scope: &mut Scope<'_>,
        from: &str,
        condition: &str,
    ) -> Res<DeletePlan> {
        let Written { schema, table, rowid } = self.deletable(scope, 0, true)?;
        self.check_safe_update(scope, &delete.from, delete.selection.as_ref(), delete.limit.is_some())?;
        let plain = delete.order_by.is_empty() && delete.limit.is_none() && delete.from[0].joins.is_empty();
        let is_view = scope.sources[0].through.is_some();
        if plain && !is_view && !self.fires_triggers(&schema, &table)? && !delete.ignore && delete.returning.is_none() {
            let feed = self.feed_of(format!("DELETE FROM {from}{condition}"), Vec::new());
            let targets = vec![(self.target_table((&schema, &table), None, false)?, 0)];
            return Ok(DeletePlan { targets, feed, direct: true, ignore: false, returning: None });
        }
        if !delete.from[0].joins.is_empty() {
            return Err(errors::syntax("JOIN"));
        }
        let tail = self.order_and_limit(&delete.order_by, delete.limit.as_ref(), scope)?;
        let (mut texts, mut outs) = (vec![rowid], vec![Out::rowid()]);
        let mut returning = None;
        if let Some(list) = &delete.returning {
            let before = self.effects;
            let (list, returned) = self.returned(list, scope, &table)?;
            if self.effects.ordered > before.ordered && !delete.order_by.is_empty() {
                return Err(errors::unsupported("effects in RETURNING of a DELETE with ORDER BY"));
            }
            texts.extend(list);
            outs.extend(returned.outs.iter().cloned());
            returning = Some(Arc::new(returned));
        }
        let sql = format!("SELECT {} FROM {from}{condition}{tail}", texts.join(", "));
        let feed = self.feed_of(sql, outs);
        let view = scope.sources[0].through.as_deref().map(|view| (view, 0));
        let targets = vec![(self.target_table((&schema, &table), view, false)?, 0)];
        Ok(DeletePlan { targets, feed, direct: false, ignore: delete.ignore, returning })
    }
}

/// The error of a statement that writes to several tables of a view.
fn several_tables(view: Option<&Through>) -> ServerError {
    let (schema, view) = view.map_or(("", ""), |view| (view.schema.name.as_str(), view.view.name.as_str()));
    errors::several_tables_of_view(schema, view)
}

/// Whether an expression is the bare word DEFAULT.
pub(super) fn is_default(expr: &Expr) -> bool {
    default_of(expr).is_some_and(|column| column.is_none())
}

/// The column of DEFAULT(column); that of the bare word is `None`.
fn default_of(expr: &Expr) -> Option<Option<&Expr>> {
    let Expr::Function(function) = unnest(expr) else { return None };
    if function.name.to_string().trim_matches('`') != format!("{SPECIAL}default") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return Some(None) };
    Some(list.args.first().and_then(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(column),
        _ => None,
    }))
}
