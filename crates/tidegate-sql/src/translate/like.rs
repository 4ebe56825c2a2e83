//! LIKE.

use sqlparser::ast::Expr;

use super::{Bind, Code, Ex, Res, Source, Translator, affinity::is_indexed, meet, quote, scope::Scope};
use crate::{
    errors,
    value::{
        Datum, Rep, SqlType,
        collation::{Collation, next_char},
    },
};

/// A side of the range in which all matches of a pattern stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Low,
    High,
}

/// Where a pattern is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// A literal of the statement's text, by its number.
    Literal(usize),
    /// A parameter, by its number.
    Param(usize),
}

impl Translator<'_> {
    pub(super) fn like(
        &mut self,
        expr: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
        scope: &Scope<'_>,
    ) -> Res<Ex> {
        let (text, pattern) = (self.expr(expr, scope)?, self.expr(pattern, scope)?);
        let (collation, _) = meet(&text, &pattern, "like")?;
        let escape = self.escape(escape, scope)?;
        let (x, y) = (self.operand_in(&text, collation, "like"), self.operand_in(&pattern, collation, "like"));
        let mut sql = format!("tg_like({x}, {y}, {}, {})", quote(&escape), collation.0);
        if negated {
            sql = format!("NOT {sql}");
        } else if let Some((low, high)) = self.range(&text, &pattern, collation, &escape) {
            // The function alone would be called for every row.
            let name = collation.sqlite_name();
            sql = format!("{x} COLLATE {name} > {low} AND {x} COLLATE {name} < {high} AND {sql}");
        }
        let aggregate = text.aggregate || pattern.aggregate;
        Ok(Ex { aggregate, ..Ex::sql(format!("({sql})"), SqlType::boolean()) }
            .with_nullable(text.nullable || pattern.nullable))
    }

    /// The character behind ESCAPE, or the usual one; empty for none.
    fn escape(&mut self, escape: Option<&Expr>, scope: &Scope<'_>) -> Res<String> {
        let Some(escape) = escape else {
            return Ok(if self.session.inputs.like_escapes { "\\".to_owned() } else { String::new() });
        };
        let escape = self.expr(escape, scope)?;
        let escape = self.constant_text(&escape).ok_or_else(|| errors::wrong_arguments("ESCAPE"))?;
        if escape.chars().count() > 1 {
            return Err(errors::wrong_arguments("ESCAPE"));
        }
        Ok(escape)
    }

    /// Between what the matches of a pattern, a constant or a parameter, stand in an index of the column `text`; `None` if there is no such index or range.
    fn range(&mut self, text: &Ex, pattern: &Ex, collation: Collation, escape: &str) -> Option<(String, String)> {
        let in_order = text.ty.rep() == Rep::Text && text.ty.collation.sqlite_name() == collation.sqlite_name();
        if !in_order || !is_indexed(text) {
            return None;
        }
        if !matches!(escape, "" | "\\") || self.binds.len() >= super::literals::BINDS_MAX {
            // `begins_plainly` does not know which character the pattern begins with then.
            return None;
        }
        let escape = next_char(&mut escape.as_bytes());
        match &pattern.code {
            Code::Const(Source::Literal(index)) if self.literals.begins_plainly(*index) => {
                Some(self.range_of(Given::Literal(*index), escape, collation))
            }
            Code::Const(Source::Param(index)) if self.literals.parameter_begins_plainly(*index, self.values) => {
                Some(self.range_of(Given::Param(*index), escape, collation))
            }
            Code::Const(Source::Value(Datum::Text(pattern), Rep::Text)) => {
                let range = collation.range_of(pattern, escape)?;
                if range.low.contains('\0') || range.high.contains('\0') {
                    return None;
                }
                Some((quote(&range.low), quote(&range.high)))
            }
            _ => None,
        }
    }

    /// The two sides of a range, which are found when the statement runs.
    fn range_of(&mut self, pattern: Given, escape: Option<u32>, collation: Collation) -> (String, String) {
        let mut side = |side| {
            let source = Source::Pattern { pattern, escape, collation, side };
            self.binds.push(Bind { source, rep: Rep::Text, members: None });
            format!("?{}", self.binds.len())
        };
        (side(Side::Low), side(Side::High))
    }
}
