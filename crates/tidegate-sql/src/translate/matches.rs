//! MATCH … AGAINST.

use sqlparser::ast::{BinaryOperator, Expr};

use super::{
    Code, Ex, Res, Translator,
    expr::unnest,
    quote,
    scope::{Scope, Source},
    types::is_constant,
};
use crate::{
    dialect::SPECIAL,
    errors,
    store::fulltext::index::Searched,
    value::{Base, Rep, SqlType},
};

/// The function that gives a row's rank, and the table of the rows that are found.
const RANK: &str = "tg_match(";
const FOUND: &str = "tg_found(";

impl Translator<'_> {
    /// The rank of a row: `options` is the mode, then comes what is searched for, then the columns.
    ///
    /// # Errors
    /// 1054 and 1052 for names; 1210 if the columns are not all of one table, or what is searched for depends on a row; 1191 if no index
    /// has exactly these columns; 1235 for WITH QUERY EXPANSION and for views.
    pub(crate) fn match_against(
        &mut self,
        mode: &str,
        against: &Expr,
        columns: &[&Expr],
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        if mode == "expansion" {
            return Err(errors::unsupported("MATCH … AGAINST (… WITH QUERY EXPANSION)"));
        }
        let mut of: Option<(Source, Vec<usize>)> = None;
        for column in columns {
            let parts = name_parts(column).ok_or_else(|| errors::wrong_arguments("MATCH"))?;
            // What others may read, an index of it may tell.
            self.meaning(&parts, scope)?;
            let (source, at) = located(&parts, scope)?.ok_or_else(|| errors::wrong_arguments("MATCH"))?;
            match &mut of {
                None => of = Some((source.clone(), vec![at])),
                Some((known, columns)) if known.sql_alias == source.sql_alias => columns.push(at),
                Some(_) => return Err(errors::wrong_arguments("MATCH")),
            }
        }
        let Some((source, columns)) = of else { return Err(errors::wrong_arguments("MATCH")) };
        let (Some(table), Some(home)) = (&source.table, &source.home) else {
            return Err(errors::unsupported("MATCH with the columns of a view or a derived table"));
        };
        let searched = Searched::of(table, &columns).ok_or_else(errors::no_fulltext_index)?;
        let text = self.expr(against, scope)?;
        if !is_constant(&text) {
            return Err(errors::wrong_arguments("AGAINST"));
        }
        let text = self.convert(&text, Rep::Text);
        let schema = self.reach(&home.clone());
        let number = searched.mode(mode == "boolean").number();
        let sql = format!(
            "{RANK}{}, {}, {}, {}, {number}, {text})",
            source.rowid_text(),
            quote(&schema),
            quote(&searched.name),
            searched.collation.0
        );
        Ok(Ex::sql(sql, SqlType::new(Base::Double)).with_nullable(true))
    }

    /// What the rows of a query with one table are sorted by if it says nothing about that: their ranks, if it wants those that a search
    /// finds.
    ///
    /// # Errors
    /// As [`match_against`](Self::match_against).
    pub(super) fn order_of_matches(&mut self, selection: Option<&Expr>, scope: &Scope<'_>) -> Res<String> {
        let (Some(selection), [source]) = (selection, scope.sources.as_slice()) else { return Ok(String::new()) };
        let Some(wanted) = first_match(selection) else { return Ok(String::new()) };
        let ex = self.expr(wanted, scope)?;
        let rowid = source.rowid_text();
        Ok(match &ex.code {
            Code::Sql(sql) if sql.starts_with(RANK) => format!(" ORDER BY {sql} DESC, {rowid}"),
            _ => String::new(),
        })
    }
}

/// Whether a row is found, for the text of its rank. SQLite then looks at no others.
pub(super) fn condition(sql: &str) -> Option<String> {
    let (rowid, search) = sql.strip_prefix(RANK)?.split_once(", ")?;
    Some(format!("({rowid} IN (SELECT rowid FROM {FOUND}{search}))"))
}

fn name_parts(expr: &Expr) -> Option<Vec<&str>> {
    match expr {
        Expr::Identifier(name) => Some(vec![name.value.as_str()]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(|part| part.value.as_str()).collect()),
        _ => None,
    }
}

/// The table of a column, in this query or in one around it, and the column's place there.
fn located<'s>(parts: &[&str], scope: &'s Scope<'_>) -> Res<Option<(&'s Source, usize)>> {
    let mut scope = Some(scope);
    while let Some(current) = scope {
        if let Some((source, column)) = current.locate(parts)? {
            return Ok(Some((&current.sources[source], column)));
        }
        scope = current.parent;
    }
    Ok(None)
}

/// The first search that all rows of a condition must be found by.
fn first_match(condition: &Expr) -> Option<&Expr> {
    let mut open = vec![condition];
    while let Some(expr) = open.pop() {
        match unnest(expr) {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([&**right, &**left]),
            found if is_match(found) => return Some(found),
            _ => {}
        }
    }
    None
}

fn is_match(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    function.name.to_string().trim_matches('`').strip_prefix(SPECIAL) == Some("match")
}
