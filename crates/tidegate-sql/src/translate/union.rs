//! UNION, EXCEPT, INTERSECT and recursive queries: parts that meet in common types.

use sqlparser::ast::{Expr, OrderByExpr, Query, SetExpr, SetOperator, SetQuantifier};

use super::{
    Code, Ex, Res, Translator,
    expr::unnest,
    from::source_columns,
    scope::{Cte, Scope},
    select::{Rel, RelColumn, direction},
};
use crate::{catalog::same_name, errors, value::Rep};

impl Translator<'_> {
    /// A recursive query: its first part gives the types. `None` if it does not refer to itself.
    pub(super) fn recursive(
        &mut self,
        name: &str,
        sql: &str,
        given: &[&str],
        query: &Query,
        outer: Option<&Scope<'_>>,
    ) -> Res<Option<Rel>> {
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = &*query.body else {
            return Ok(None);
        };
        if query.with.is_some() || query.order_by.is_some() {
            return Err(errors::unsupported("ORDER BY or WITH inside of a recursive query"));
        }
        let first = self.body(left, &[], None, outer)?;
        let columns = source_columns(&first, given)?;
        self.ctes.push(Cte { name: name.to_owned(), sql: sql.to_owned(), columns, fresh: false });
        let second = self.body(right, &[], None, outer)?;
        if first.columns.len() != second.columns.len() {
            return Err(errors::union_columns());
        }
        for (index, column) in first.columns.iter().enumerate() {
            if second.columns[index].ex.ty.rep() != column.ex.ty.rep() && second.columns[index].ex.ty.rep() != Rep::Null
            {
                return Err(errors::unsupported("a recursive query whose parts have different types; use CAST"));
            }
        }
        let all = if *set_quantifier == SetQuantifier::All { "UNION ALL" } else { "UNION" };
        let limit = query.limit_clause.as_ref().map(|limit| self.limit(limit)).transpose()?;
        let limit = limit.map_or(String::new(), |limit| limit.0);
        let sql = format!("{} {all} {}{limit}", first.sql, second.sql);
        Ok(Some(Rel { sql, ..first }))
    }

    pub(super) fn set_operation(
        &mut self,
        left: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        right: &SetExpr,
        outer: Option<&Scope<'_>>,
    ) -> Res<Rel> {
        let (a, b) = (self.body(left, &[], None, outer)?, self.body(right, &[], None, outer)?);
        if a.columns.len() != b.columns.len() {
            return Err(errors::union_columns());
        }
        let word = match (op, quantifier) {
            (SetOperator::Union, SetQuantifier::All) => "UNION ALL",
            (SetOperator::Union, SetQuantifier::None | SetQuantifier::Distinct) => "UNION",
            (SetOperator::Intersect, SetQuantifier::None | SetQuantifier::Distinct) => "INTERSECT",
            (SetOperator::Except, SetQuantifier::None | SetQuantifier::Distinct) => "EXCEPT",
            _ => return Err(errors::unsupported(format!("{op} {quantifier}"))),
        };
        let mut columns = Vec::new();
        for index in 0..a.columns.len() {
            let mut common = self.common_type(&[a.columns[index].ex.clone(), b.columns[index].ex.clone()], "UNION")?;
            common.origin = None;
            common.nullable |= a.columns[index].ex.nullable || b.columns[index].ex.nullable;
            columns.push(RelColumn { name: a.columns[index].name.clone(), ex: common });
        }
        let a = self.retyped(&a, &columns);
        let b = self.retyped(&b, &columns);
        let mut sql = format!("{a} {word} {b}");
        if word == "UNION" {
            // Of equal rows the first stays, and rows stay in the order in which they come.
            let alias = self.alias("s");
            let items: Vec<String> = columns
                .iter()
                .enumerate()
                .map(|(index, column)| {
                    let mut sql = format!("{alias}.r{index}");
                    if column.ex.ty.rep() == Rep::Text {
                        sql = format!("{sql} COLLATE {}", column.ex.ty.collation.sqlite_name());
                    }
                    format!("{sql} AS r{index}")
                })
                .collect();
            sql = format!("SELECT DISTINCT {} FROM ({a} UNION ALL {b}) AS {alias}", items.join(", "));
        }
        Ok(Rel { sql, columns, single: false, for_update: false, calc_found_rows: false })
    }

    /// The query's text with its columns converted to other types; always a simple SELECT that can stand in a union.
    pub(super) fn retyped(&mut self, rel: &Rel, columns: &[RelColumn]) -> String {
        let alias = self.alias("s");
        let items: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let from = Ex { code: Code::Sql(format!("{alias}.r{index}")), ..rel.columns[index].ex.clone() };
                let mut sql = self.as_type(&from, &column.ex.ty);
                let quotient = matches!(&rel.columns[index].ex.code, Code::Sql(sql) if sql.contains("tg_dec_div("));
                if quotient && column.ex.ty.rep() == Rep::Dec {
                    sql = format!("tg_dec_round({sql}, {})", column.ex.ty.decimals);
                }
                if column.ex.ty.rep() == Rep::Text {
                    sql = format!("{sql} COLLATE {}", column.ex.ty.collation.sqlite_name());
                }
                format!("{sql} AS r{index}")
            })
            .collect();
        format!("SELECT {} FROM ({}) AS {alias}", items.join(", "), rel.sql)
    }

    pub(super) fn order_of_union(&mut self, order: &[OrderByExpr], columns: &[RelColumn]) -> Res<String> {
        let mut terms = Vec::new();
        for term in order {
            let position = match unnest(&term.expr) {
                Expr::Identifier(name) => columns.iter().position(|column| same_name(&column.name, &name.value)),
                expr => self.position(expr, columns.len())?,
            };
            let Some(position) = position else {
                if let Expr::Identifier(name) = unnest(&term.expr) {
                    return Err(errors::unknown_column(&name.value, "order clause"));
                }
                return Err(errors::unsupported("expressions in the ORDER BY of a UNION"));
            };
            terms.push(format!("{}{}", position + 1, direction(term)?));
        }
        Ok(if terms.is_empty() { String::new() } else { format!(" ORDER BY {}", terms.join(", ")) })
    }
}
