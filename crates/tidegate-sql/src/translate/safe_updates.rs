//! `sql_safe_updates`: an UPDATE or DELETE that would read a whole table is refused unless it has a LIMIT.
//!
//! MariaDB asks its optimizer whether a key is used; here the condition must compare the first column of a key: with what does not
//! depend on the table's rows, and so that every row that it lets through is found by the key.

use sqlparser::ast::{BinaryOperator, Expr, JoinConstraint, JoinOperator, TableWithJoins};

use super::{
    Res, Translator,
    expr::unnest,
    scope::{Scope, Source},
    select::name_parts,
};
use crate::{catalog::IndexPart, errors};

impl Translator<'_> {
    /// Checks a statement that changes rows: a key must find those of all its tables, of one of them by constants.
    ///
    /// # Errors
    /// 1175.
    pub(super) fn check_safe_update(
        &self,
        scope: &Scope<'_>,
        from: &[TableWithJoins],
        selection: Option<&Expr>,
        limited: bool,
    ) -> Res<()> {
        if !self.session.inputs.safe_updates || limited {
            return Ok(());
        }
        let joined = from.iter().flat_map(|item| &item.joins).filter_map(|join| match &join.join_operator {
            JoinOperator::Join(JoinConstraint::On(on))
            | JoinOperator::Inner(JoinConstraint::On(on))
            | JoinOperator::StraightJoin(JoinConstraint::On(on))
            | JoinOperator::CrossJoin(JoinConstraint::On(on)) => Some(on),
            _ => None,
        });
        let conditions: Vec<&Expr> = selection.into_iter().chain(joined).collect();
        let found = |place: usize, by: By| {
            conditions.iter().any(|condition| by_key(condition, scope, place, &scope.sources[place], by))
        };
        let is_stored = |source: &Source| match &source.through {
            Some(view) => view.shape.is_some(),
            None => source.table.is_some(),
        };
        let tables = || (0..scope.sources.len()).filter(|place| is_stored(&scope.sources[*place]));
        if tables().all(|place| found(place, By::Others)) && tables().any(|place| found(place, By::Constants)) {
            return Ok(());
        }
        Err(errors::update_without_key())
    }
}

/// What a key may be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Constants,
    /// Constants and columns of other tables.
    Others,
}

/// Whether a key finds all rows of a source that a condition lets through.
fn by_key(condition: &Expr, scope: &Scope<'_>, target: usize, source: &Source, by: By) -> bool {
    let key = |expr: &Expr| is_key(expr, scope, target, source);
    let free = |expr: &Expr| !names(expr, scope, target, by);
    match unnest(condition) {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            by_key(left, scope, target, source, by) || by_key(right, scope, target, source, by)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            by_key(left, scope, target, source, by) && by_key(right, scope, target, source, by)
        }
        Expr::BinaryOp {
            left,
            op:
                BinaryOperator::Eq
                | BinaryOperator::Spaceship
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq,
            right,
        } => key(left) && free(right) || key(right) && free(left),
        Expr::Between { expr, negated: false, low, high } => key(expr) && free(low) && free(high),
        Expr::InList { expr, list, negated: false } => key(expr) && list.iter().all(free),
        Expr::IsNull(expr) => key(expr),
        _ => false,
    }
}

/// Whether an expression is the first column of a key.
fn is_key(expr: &Expr, scope: &Scope<'_>, target: usize, source: &Source) -> bool {
    let Some(parts) = name_parts(expr) else { return false };
    let Ok(Some((at, column))) = scope.locate(&parts) else { return false };
    let found = match (&source.through, &source.table) {
        (Some(view), _) => view.column(column),
        (None, table) => table.as_deref().map(|table| (table, column)),
    };
    let Some((table, column)) = found.filter(|_| at == target) else { return false };
    let is_first = |part: &IndexPart| table.position(part.column) == Some(column);
    table.indexes.iter().any(|index| index.parts.first().is_some_and(is_first))
}

/// Whether an expression may depend on the rows of a source, or of any.
fn names(expr: &Expr, scope: &Scope<'_>, target: usize, by: By) -> bool {
    match unnest(expr) {
        Expr::Value(_) => false,
        Expr::UnaryOp { expr, .. } => names(expr, scope, target, by),
        Expr::BinaryOp { left, right, .. } => names(left, scope, target, by) || names(right, scope, target, by),
        Expr::Function(function) => crate::translate::expr::arguments(&function.args)
            .map_or(true, |args| args.iter().any(|arg| names(arg, scope, target, by))),
        other => match name_parts(other).map(|parts| scope.locate(&parts)) {
            Some(Ok(Some((at, _)))) => by == By::Constants || at == target,
            _ => true,
        },
    }
}
