//! ONLY_FULL_GROUP_BY: a column of the select list must be one of the group's, or follow from them.
//!
//! MariaDB wants each column in GROUP BY; MySQL also takes what depends on the group's columns, and applications count on that.
//! Here a column follows when a primary key or a unique index of its table that cannot be NULL is in the group, also by way of
//! equalities in WHERE and ON. So every accepted select list has one value for each group.

use sqlparser::ast::{BinaryOperator, Expr, JoinConstraint, JoinOperator, Select};

use super::{
    Code, Ex, Res, Source, Translator,
    expr::unnest,
    scope::{Scope, Source as Table},
    select::RelColumn,
};
use crate::{column::same_name, errors, sql_mode};

/// A column outside of aggregates: its text, and the name for the error.
#[derive(Debug, Clone)]
pub(crate) struct Bare {
    pub(crate) sql: String,
    pub(crate) shown: String,
}

/// Two operands that are equal in all rows; `None` is a constant.
type Equality = (Option<String>, Option<String>);

impl Translator<'_> {
    /// Whether select lists are checked.
    pub(super) fn wants_full_groups(&self) -> bool {
        self.session.inputs.has(sql_mode::ONLY_FULL_GROUP_BY)
    }

    /// Notes a column that an expression has named.
    pub(super) fn note_bare(&mut self, ex: &Ex) {
        if self.aggregating == 0
            && let (Code::Sql(sql), Some(origin)) = (&ex.code, &ex.origin)
        {
            let shown = format!("{}.{}.{}", origin.schema, origin.alias, origin.column);
            self.bare.push(Bare { sql: sql.clone(), shown });
        }
    }

    /// A text with the literals that its parameters stand for, which become part of the plan: two expressions are the same one
    /// only with the same literals.
    pub(super) fn with_literals(&mut self, sql: &str) -> String {
        let mut out = String::with_capacity(sql.len());
        let mut rest = sql;
        while let Some(at) = rest.find('?') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let digits = from[1..].bytes().take_while(u8::is_ascii_digit).count();
            let bind = from[1..=digits].parse::<usize>().ok().and_then(|number| self.binds.get(number - 1));
            match bind.map(|bind| (bind.source.clone(), bind.rep)) {
                Some((Source::Literal(index), rep)) => {
                    out.push_str(&format!("{rep:?}'{}'", String::from_utf8_lossy(self.literals.text(index))));
                }
                _ => out.push_str(&from[..=digits]),
            }
            rest = &from[1 + digits..];
        }
        out.push_str(rest);
        out
    }

    /// Checks a select list; `groups` are the texts of the group's expressions, `bare` the columns of each item.
    ///
    /// # Errors
    /// 1055, and 1140 without GROUP BY.
    pub(super) fn check_full_groups(
        &mut self,
        select: &Select,
        scope: &Scope<'_>,
        items: &[RelColumn],
        groups: &[String],
        bare: &[Vec<Bare>],
    ) -> Res<()> {
        let mut known: Vec<String> = groups.to_vec();
        close(&mut known, &scope.sources, &equalities(select, scope));
        for (item, columns) in items.iter().zip(bare) {
            let Code::Sql(text) = &item.ex.code else { continue };
            let text = &self.with_literals(text);
            let own = |column: &&Bare| scope.sources.iter().any(|source| column_of(&column.sql, source).is_some());
            for column in columns.iter().filter(own) {
                let covered = known.contains(text) || known.contains(&column.sql) || inside(text, &column.sql, groups);
                if !covered && groups.is_empty() {
                    return Err(errors::mixed_group_columns());
                }
                if !covered {
                    return Err(errors::not_in_group_by(&column.shown));
                }
            }
        }
        Ok(())
    }
}

/// Whether an expression names a column only within expressions of the group.
fn inside(text: &str, column: &str, groups: &[String]) -> bool {
    let mut rest = text.to_owned();
    for group in groups.iter().filter(|group| group.len() > column.len()) {
        rest = rest.replace(group.as_str(), "");
    }
    let ends = |at: usize| !rest.as_bytes().get(at + column.len()).is_some_and(u8::is_ascii_digit);
    !rest.match_indices(column).any(|(at, _)| ends(at))
}

/// The position of a column in a source, by its text.
fn column_of(sql: &str, source: &Table) -> Option<usize> {
    let name = sql.strip_prefix(source.sql_alias.as_str())?.strip_prefix('.')?;
    source.columns.iter().position(|column| column.sql == name)
}

/// Adds all columns that follow from those that are known.
fn close(known: &mut Vec<String>, sources: &[Table], equalities: &[Equality]) {
    loop {
        let before = known.len();
        for (a, b) in equalities {
            let has = |side: &Option<String>| side.as_ref().is_none_or(|text| known.contains(text));
            match (has(a), has(b)) {
                (true, false) => known.extend(b.clone()),
                (false, true) => known.extend(a.clone()),
                _ => {}
            }
        }
        for source in sources {
            let Some(table) = &source.table else { continue };
            let text = |position: usize| format!("{}.{}", source.sql_alias, source.columns[position].sql);
            let determines = |index: &&crate::catalog::Index| {
                index.kind.is_unique()
                    && index.parts.iter().all(|part| {
                        table.position(part.column).is_some_and(|position| {
                            !table.columns[position].nullable && known.contains(&text(position))
                        })
                    })
            };
            if table.indexes.iter().any(|index| determines(&index)) {
                let all: Vec<String> =
                    (0..source.columns.len()).map(text).filter(|text| !known.contains(text)).collect();
                known.extend(all);
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// The equalities of WHERE and of the joins' conditions.
fn equalities(select: &Select, scope: &Scope<'_>) -> Vec<Equality> {
    let mut all = Vec::new();
    if let Some(selection) = &select.selection {
        conjuncts(selection, scope, &mut all);
    }
    for join in select.from.iter().flat_map(|item| &item.joins) {
        let (JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::StraightJoin(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)) = &join.join_operator
        else {
            continue;
        };
        match constraint {
            JoinConstraint::On(condition) => conjuncts(condition, scope, &mut all),
            JoinConstraint::Using(_) | JoinConstraint::Natural => same_names(scope, &mut all),
            JoinConstraint::None => {}
        }
    }
    all
}

/// Columns that USING or NATURAL has joined.
fn same_names(scope: &Scope<'_>, all: &mut Vec<Equality>) {
    let text = |source: &Table, column: &str| Some(format!("{}.{column}", source.sql_alias));
    for (number, source) in scope.sources.iter().enumerate() {
        for column in source.columns.iter().filter(|column| column.hidden) {
            for (other, twin) in
                scope.sources.iter().enumerate().filter(|(other, _)| *other != number).flat_map(|(_, other)| {
                    other
                        .columns
                        .iter()
                        .filter(|twin| same_name(&twin.name, &column.name))
                        .map(move |twin| (other, twin))
                })
            {
                all.push((text(source, &column.sql), text(other, &twin.sql)));
            }
        }
    }
}

fn conjuncts(expr: &Expr, scope: &Scope<'_>, all: &mut Vec<Equality>) {
    let Expr::BinaryOp { left, op, right } = unnest(expr) else { return };
    match op {
        BinaryOperator::And => {
            conjuncts(left, scope, all);
            conjuncts(right, scope, all);
        }
        BinaryOperator::Eq => {
            if let (Some(a), Some(b)) = (operand(left, scope), operand(right, scope))
                && (a.is_some() || b.is_some())
            {
                all.push((a, b));
            }
        }
        _ => {}
    }
}

/// A column's text, `Some(None)` for a constant.
fn operand(expr: &Expr, scope: &Scope<'_>) -> Option<Option<String>> {
    let parts: Vec<&str> = match unnest(expr) {
        Expr::Value(_) => return Some(None),
        Expr::Identifier(name) => vec![&name.value],
        Expr::CompoundIdentifier(parts) => parts.iter().map(|part| part.value.as_str()).collect(),
        _ => return None,
    };
    match scope.resolve(&parts, true).ok()?.ex.code {
        Code::Sql(sql) => Some(Some(sql)),
        Code::Const(_) => Some(None),
    }
}
