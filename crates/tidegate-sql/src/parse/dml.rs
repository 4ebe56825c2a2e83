//! INSERT, REPLACE, UPDATE and DELETE.

use sqlparser::{
    ast::{Assignment, AssignmentTarget, Expr, Ident, ObjectName, OrderByExpr},
    parser::Parser,
    tokenizer::Token,
};

use super::{
    Delete, Insert, InsertSource, Result, Returning, TableName, Update, comma_separated, table_name, to_table_name,
};
use crate::dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected};

pub(super) fn insert(p: &mut Parser, replace: bool) -> Result<Insert> {
    let _priority = ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"].into_iter().any(|word| take_word(p, word));
    let ignore = !replace && take_word(p, "IGNORE");
    take_word(p, "INTO");
    let table = table_name(p)?;
    let mut columns = None;
    let has_list = p.peek_token_ref().token == Token::LParen
        && !is_word(p.peek_nth_token_ref(1), "SELECT")
        && !is_word(p.peek_nth_token_ref(1), "WITH")
        && p.peek_nth_token_ref(1).token != Token::LParen;
    if has_list {
        p.advance_token();
        columns = Some(if p.consume_token(&Token::RParen) {
            Vec::new()
        } else {
            let list = comma_separated(p, qualified_column)?;
            p.expect_token(&Token::RParen)?;
            list
        });
    }
    let mut row_alias = None;
    let source = if take_word(p, "VALUES") || take_word(p, "VALUE") {
        let rows = comma_separated(p, |p| {
            p.expect_token(&Token::LParen)?;
            if p.consume_token(&Token::RParen) {
                return Ok(Vec::new());
            }
            let row = comma_separated(p, |p| p.parse_expr())?;
            p.expect_token(&Token::RParen)?;
            Ok(row)
        })?;
        if take_word(p, "AS") {
            row_alias = Some(identifier(p)?.value);
        }
        InsertSource::Values(rows)
    } else if columns.is_none() && take_word(p, "SET") {
        let assignments = comma_separated(p, assignment)?;
        let mut names = Vec::new();
        let mut row = Vec::new();
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = assignment.target else { return unexpected(p) };
            let Some(name) = to_table_name(&name) else { return unexpected(p) };
            names.push(name.name);
            row.push(assignment.value);
        }
        columns = Some(names);
        InsertSource::Values(vec![row])
    } else {
        InsertSource::Query(p.parse_query()?)
    };
    let mut on_duplicate = Vec::new();
    if !replace && take_words(p, &["ON", "DUPLICATE", "KEY", "UPDATE"]) {
        on_duplicate = comma_separated(p, assignment)?;
    }
    let returning = returning(p)?;
    Ok(Insert { replace, ignore, table, columns, source, row_alias, on_duplicate, returning })
}

fn returning(p: &mut Parser) -> Result<Option<Returning>> {
    let start = p.peek_token_ref().span.start.column;
    if !take_word(p, "RETURNING") {
        return Ok(None);
    }
    Ok(Some(Returning { start, items: p.parse_projection()? }))
}

/// A column in INSERT's list; a table in front must be the target, which MySQL checks no further.
fn qualified_column(p: &mut Parser) -> Result<String> {
    let mut name = identifier(p)?.value;
    while p.consume_token(&Token::Period) {
        name = identifier(p)?.value;
    }
    Ok(name)
}

fn assignment(p: &mut Parser) -> Result<Assignment> {
    let mut parts: Vec<Ident> = vec![identifier(p)?];
    while p.consume_token(&Token::Period) {
        parts.push(identifier(p)?);
    }
    if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
        return unexpected(p);
    }
    Ok(Assignment { target: AssignmentTarget::ColumnName(ObjectName::from(parts)), value: p.parse_expr()? })
}

pub(super) fn update(p: &mut Parser) -> Result<Update> {
    take_word(p, "LOW_PRIORITY");
    let ignore = take_word(p, "IGNORE");
    let from = comma_separated(p, |p| p.parse_table_and_joins())?;
    expect_word(p, "SET")?;
    let assignments = comma_separated(p, assignment)?;
    let (selection, order_by, limit) = tail(p)?;
    Ok(Update { ignore, from, assignments, selection, order_by, limit })
}

fn tail(p: &mut Parser) -> Result<(Option<Expr>, Vec<OrderByExpr>, Option<Expr>)> {
    let selection = if take_word(p, "WHERE") { Some(p.parse_expr()?) } else { None };
    let order_by =
        if take_words(p, &["ORDER", "BY"]) { comma_separated(p, |p| p.parse_order_by_expr())? } else { Vec::new() };
    let limit = if take_word(p, "LIMIT") { Some(p.parse_expr()?) } else { None };
    Ok((selection, order_by, limit))
}

pub(super) fn delete(p: &mut Parser) -> Result<Delete> {
    take_word(p, "LOW_PRIORITY");
    take_word(p, "QUICK");
    let ignore = take_word(p, "IGNORE");
    let mut targets = Vec::new();
    let from;
    if take_word(p, "FROM") {
        // `DELETE FROM t …` or `DELETE FROM t1, t2 USING …`.
        let start = p.index();
        let using = target_list(p).is_ok_and(|list| {
            targets = list;
            take_word(p, "USING")
        });
        if using {
            from = comma_separated(p, |p| p.parse_table_and_joins())?;
        } else {
            targets.clear();
            while p.index() > start {
                p.prev_token();
            }
            from = vec![p.parse_table_and_joins()?];
            if p.peek_token_ref().token == Token::Comma {
                return unexpected(p);
            }
        }
    } else {
        targets = target_list(p)?;
        expect_word(p, "FROM")?;
        from = comma_separated(p, |p| p.parse_table_and_joins())?;
    }
    let (selection, order_by, limit) = tail(p)?;
    let returning = if targets.is_empty() { returning(p)? } else { None };
    Ok(Delete { ignore, targets, from, selection, order_by, limit, returning })
}

fn target_list(p: &mut Parser) -> Result<Vec<TableName>> {
    comma_separated(p, |p| {
        let name = table_name(p)?;
        if p.peek_token_ref().token == Token::Period && p.peek_nth_token_ref(1).token == Token::Mul {
            p.advance_token();
            p.advance_token();
        }
        Ok(name)
    })
}
