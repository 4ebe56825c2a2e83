//! What a statement can reach: where it is one row by its number, a SERIALIZABLE transaction locks that instead of keeping everybody
//! from writing.

use std::sync::Arc;

use sqlparser::{
    ast::{BinaryOperator, Expr, SetExpr, TableFactor, TableWithJoins, Value},
    tokenizer::TokenWithSpan,
};

use super::{Res, transaction::Transaction};
use crate::{
    catalog::Table,
    column::same_name,
    dialect::is_word,
    env::{Env, Stopped},
    errors,
    exec::bind::Constants,
    parse::Statement,
    row_locks::{Mode, Resource},
    schema::Schema,
    store::private::{former::Former, watch::Stop},
    translate::{
        Source,
        plan::{Named, Plan, PlanKind},
    },
    value::Val,
};

/// What a statement can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The row of this number, whether there is one or not.
    Row(Resource),
    /// Rows that it makes, and those in their way.
    NewRows,
    /// Rows that only a search finds: others may make more of them.
    Any,
}

impl Named {
    /// What a statement names, which has `read` these tables with the schema that it runs on.
    pub(super) fn of(
        statement: &Statement,
        tokens: &[TokenWithSpan],
        kind: &PlanKind,
        read: (&[(String, String)], Option<&Arc<Schema>>),
    ) -> Self {
        if let PlanKind::Insert(insert) = kind {
            let has_queries = insert.query.is_some() || tokens.iter().any(|token| is_word(token, "SELECT"));
            return if has_queries { Self::Any } else { Self::NewRows };
        }
        Self::row(statement, tokens, kind, read).unwrap_or(Self::Any)
    }

    fn row(
        statement: &Statement,
        tokens: &[TokenWithSpan],
        kind: &PlanKind,
        read: (&[(String, String)], Option<&Arc<Schema>>),
    ) -> Option<Self> {
        let queries = tokens.iter().filter(|token| is_word(token, "SELECT")).count();
        let (from, condition) = match statement {
            Statement::Query(query) if queries == 1 && query.with.is_none() => match &*query.body {
                SetExpr::Select(select) => (&select.from, select.selection.as_ref()?),
                _ => return None,
            },
            Statement::Update(update) if queries == 0 => (&update.from, update.selection.as_ref()?),
            Statement::Delete(delete) if queries == 0 => (&delete.from, delete.selection.as_ref()?),
            _ => return None,
        };
        let [TableWithJoins { relation: TableFactor::Table { name, .. }, joins }] = from.as_slice() else {
            return None;
        };
        // A view may have other names for the columns.
        let is_named = |table: &Arc<Table>| {
            let name = name.0.last().and_then(|part| part.as_ident());
            !table.is_view() && name.is_some_and(|name| same_name(&name.value, &table.name))
        };
        let table = table_of(kind, read).filter(|table| joins.is_empty() && is_named(table))?;
        let column = &table.columns[table.rowid_column()?].name;
        Some(Self::Row { table: table.id, rowid: number_of(condition, column)? })
    }
}

/// The only table of a statement.
fn table_of(kind: &PlanKind, (names, home): (&[(String, String)], Option<&Arc<Schema>>)) -> Option<Arc<Table>> {
    match kind {
        PlanKind::Select(_) => {
            let [(schema, name)] = names else { return None };
            let home = home.filter(|home| home.name == *schema)?;
            home.catalog().ok()?.table(name).cloned()
        }
        PlanKind::Update(update) => {
            let [target] = update.targets.as_slice() else { return None };
            Some(Arc::clone(&target.to.table))
        }
        PlanKind::Delete(delete) => {
            let [(of, _)] = delete.targets.as_slice() else { return None };
            Some(Arc::clone(&of.table))
        }
        PlanKind::Insert(_) => None,
    }
}

/// The constant that a condition wants a column to have, whatever else it wants.
fn number_of(condition: &Expr, column: &str) -> Option<Source> {
    match condition {
        Expr::Nested(inner) => number_of(inner, column),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            number_of(left, column).or_else(|| number_of(right, column))
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => match (&**left, &**right) {
            (name, value) if is_column(name, column) => constant(value),
            (value, name) if is_column(name, column) => constant(value),
            _ => None,
        },
        _ => None,
    }
}

fn is_column(expr: &Expr, column: &str) -> bool {
    match expr {
        Expr::Identifier(name) => same_name(&name.value, column),
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| same_name(&name.value, column)),
        _ => false,
    }
}

/// A literal or a parameter.
fn constant(expr: &Expr) -> Option<Source> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    let number = || name.get(1..)?.parse().ok();
    match name.as_bytes().first()? {
        b':' => Some(Source::Literal(number()?)),
        b'?' => Some(Source::Param(number()?)),
        _ => None,
    }
}

impl Plan {
    /// What the statement reaches with these constants.
    ///
    /// # Errors
    /// Those of the constants.
    pub(super) fn reach(&self, constants: Constants<'_>) -> Res<Reach> {
        Ok(match &self.named {
            _ if !self.attached.is_empty() => Reach::Any,
            Named::NewRows => Reach::NewRows,
            Named::Any => Reach::Any,
            Named::Row { table, rowid } => match constants.value(rowid)? {
                Val::Int(rowid) => Reach::Row(Resource::Row { table: *table, rowid }),
                _ => Reach::Any,
            },
        })
    }
}

impl Transaction {
    /// Locks the row that the statement is about to reach, also if there is none. For the schema's only writer there is nothing to be
    /// locked, unless it may become a private transaction again.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody else has locked it.
    pub(super) fn lock_reach(&mut self, env: &Env, reach: Reach, mode: Mode) -> Res<()> {
        let place = self.place()?;
        let Reach::Row(resource) = reach else { return Ok(()) };
        let owner = place.owner();
        let is_free = if place.conn.is_private() {
            owner.take(resource, mode).is_some()
        } else {
            let Some(notes) = place.former.as_mut().and_then(Former::notes) else { return Ok(()) };
            notes.add(resource, mode);
            owner.locks().admits(Some(owner.id()), resource, mode)
        };
        if is_free {
            return Ok(());
        }
        env.stopped.set(Some(Stopped { rows: Arc::clone(owner.locks()), stop: Stop::Blocked(resource, mode) }));
        Err(errors::stopped())
    }
}
