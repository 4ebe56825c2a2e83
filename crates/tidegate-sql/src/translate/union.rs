//! UNION, EXCEPT, INTERSECT and recursive queries: parts that meet in common types.

use sqlparser::ast::{Expr, OrderByExpr, Query, SetExpr, SetOperator, SetQuantifier};

use super::{
    Code, Ex, Res, Translator,
    expr::unnest,
    from::source_columns,
    scope::{Cte, Scope},
    select::{Rel, RelColumn, direction, render},
};
use crate::{
    column::same_name,
    errors,
    value::{Base, Rep, SqlType},
};

/// Queries that SQLite unites in one: it prepares each within the one before, on the statement's stack.
const PARTS_MAX: usize = 100;

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
        let types: Vec<SqlType> = first.columns.iter().map(|column| column.ex.ty.clone()).collect();
        let second = self.recursive_part(right, &types, outer)?;
        let all = if *set_quantifier == SetQuantifier::All { "UNION ALL" } else { "UNION" };
        let limit = query.limit_clause.as_ref().map(|limit| self.limit(limit)).transpose()?;
        let limit = limit.map_or(String::new(), |limit| limit.0);
        let sql = format!("{} {all} {}{limit}", first.sql, second.sql);
        Ok(Some(Rel { sql, ..first }))
    }

    /// The part of a recursive query that refers to it, with its columns in the types of the first part.
    fn recursive_part(&mut self, body: &SetExpr, types: &[SqlType], outer: Option<&Scope<'_>>) -> Res<Rel> {
        let SetExpr::Select(select) = body else {
            let rel = self.body(body, &[], None, outer)?;
            if rel.columns.len() != types.len() {
                return Err(errors::union_columns());
            }
            let fits = |(column, ty): (&RelColumn, &SqlType)| {
                column.ex.ty.rep() == ty.rep() || column.ex.ty.rep() == Rep::Null
            };
            return if rel.columns.iter().zip(types).all(fits) {
                Ok(rel)
            } else {
                Err(errors::unsupported("a recursive query whose parts have different types; use CAST"))
            };
        };
        let parts = self.select(select, &[], outer)?;
        if parts.items.len() != types.len() {
            return Err(errors::union_columns());
        }
        let wanted: Vec<SqlType> = parts
            .items
            .iter()
            .zip(types)
            .map(|(item, ty)| if item.ex.ty.rep() == ty.rep() { item.ex.ty.clone() } else { ty.clone() })
            .collect();
        Ok(render(self, &parts, Some(&wanted)))
    }

    /// A chain of UNION and EXCEPT: all its parts meet in one type, each column converted once.
    pub(super) fn set_operation(
        &mut self,
        left: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        right: &SetExpr,
        outer: Option<&Scope<'_>>,
    ) -> Res<Rel> {
        let mut links = vec![(set_word(op, quantifier)?, right)];
        let mut first = left;
        while let SetExpr::SetOperation { left, op: inner, set_quantifier, right } = first
            && (op == SetOperator::Intersect) == (*inner == SetOperator::Intersect)
        {
            links.push((set_word(*inner, *set_quantifier)?, right));
            first = left;
        }
        let mut rels = vec![self.body(first, &[], None, outer)?];
        links.reverse();
        for (_, part) in &links {
            let rel = self.body(part, &[], None, outer)?;
            if rel.columns.len() != rels[0].columns.len() {
                return Err(errors::union_columns());
            }
            rels.push(rel);
        }
        let mut columns = Vec::new();
        for index in 0..rels[0].columns.len() {
            let all: Vec<Ex> = rels.iter().map(|rel| rel.columns[index].ex.clone()).collect();
            let mut common = self.common_type(&all, "UNION")?;
            common.origin = None;
            common.nullable = all.iter().any(|ex| ex.nullable);
            columns.push(RelColumn { name: rels[0].columns[index].name.clone(), ex: common, derived: None });
        }
        let mut parts = vec![self.retyped(&rels[0], &columns)];
        for (index, (word, _)) in links.iter().enumerate() {
            let part = self.retyped(&rels[index + 1], &columns);
            match *word {
                "UNION ALL" => parts.push(part),
                "UNION" => {
                    parts.push(part);
                    // Of equal rows the first stays, and rows stay in the order in which they come. Another UNION does it for both.
                    if !matches!(links.get(index + 1), Some(("UNION", _))) {
                        let all = self.united(parts, &columns);
                        parts = vec![self.columns_of(&all, &columns, "DISTINCT ")];
                    }
                }
                word => {
                    let all = self.united(parts, &columns);
                    let so_far = self.columns_of(&all, &columns, "");
                    parts = vec![self.columns_of(&format!("{so_far} {word} {part}"), &columns, "")];
                }
            }
        }
        let sql = self.united(parts, &columns);
        Ok(Rel { sql, columns, single: false, locked: None, row_ids: Some(Vec::new()), unlimited: None })
    }

    /// The rows of all parts, in their order. SQLite takes 500 at once; a LIMIT keeps it from making one query of them again.
    fn united(&mut self, mut parts: Vec<String>, columns: &[RelColumn]) -> String {
        while parts.len() > PARTS_MAX {
            parts = parts
                .chunks(PARTS_MAX)
                .map(|some| self.columns_of(&format!("{} LIMIT -1", some.join(" UNION ALL ")), columns, ""))
                .collect();
        }
        parts.join(" UNION ALL ")
    }

    /// All columns of a query, in their collations; a simple SELECT, of distinct rows if that word is given.
    fn columns_of(&mut self, sql: &str, columns: &[RelColumn], distinct: &str) -> String {
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
        format!("SELECT {distinct}{} FROM ({sql}) AS {alias}", items.join(", "))
    }

    /// The query's text with its columns converted to other types; always a simple SELECT that can stand in a union.
    pub(super) fn retyped(&mut self, rel: &Rel, columns: &[RelColumn]) -> String {
        let alias = self.alias("s");
        let items: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let mut from = Ex { code: Code::Sql(format!("{alias}.r{index}")), ..rel.columns[index].ex.clone() };
                if from.ty.base == Base::Bit && column.ex.ty.rep() == Rep::Blob {
                    // Beside something else BIT is a number, and its digits are the text.
                    from.ty = SqlType::ubigint();
                }
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

/// SQLite's word for an operation between queries.
fn set_word(op: SetOperator, quantifier: SetQuantifier) -> Res<&'static str> {
    Ok(match (op, quantifier) {
        (SetOperator::Union, SetQuantifier::All) => "UNION ALL",
        (SetOperator::Union, SetQuantifier::None | SetQuantifier::Distinct) => "UNION",
        (SetOperator::Intersect, SetQuantifier::None | SetQuantifier::Distinct) => "INTERSECT",
        (SetOperator::Except, SetQuantifier::None | SetQuantifier::Distinct) => "EXCEPT",
        _ => return Err(errors::unsupported(format!("{op} {quantifier}"))),
    })
}
