//! VALUES as a query: its rows are read as SELECTs without tables, united.
//!
//! The tokens have the places of those that they stand for: names of columns and texts of views are those of the statement as written.

use std::ops::Range;

use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::dialect::is_word;

/// Operations between queries.
const OPERATIONS: [&str; 3] = ["UNION", "EXCEPT", "INTERSECT"];

/// The tokens with `(SELECT 1, 2 UNION ALL SELECT 3, 4)` in place of a query `VALUES (1, 2), (3, 4)`.
pub(super) fn as_selects(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // Behind ON DUPLICATE KEY UPDATE there is a function of the name.
    let is_function = tokens.iter().any(|token| is_word(token, "DUPLICATE"));
    if is_function || !(0..tokens.len()).any(|at| is_query(&tokens, at)) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let Some(rows) = is_query(&tokens, at).then(|| rows(&tokens, at + 1)).flatten() else {
            out.push(token.clone());
            at += 1;
            continue;
        };
        let end = rows.last().map_or(at, |row| row.end);
        let stands_alone = at > 0 && tokens[at - 1].token == Token::LParen && is(&tokens, end + 1, &Token::RParen);
        if !stands_alone {
            out.push(TokenWithSpan { token: Token::LParen, span: token.span });
        }
        for (number, row) in rows.iter().enumerate() {
            // The place of the parenthesis, but for the first row.
            let span = if number == 0 { token.span } else { tokens[row.start - 1].span };
            if number > 0 {
                out.extend(["UNION", "ALL"].map(|name| word(name, span)));
            }
            out.push(word("SELECT", span));
            out.extend_from_slice(&tokens[row.clone()]);
        }
        if !stands_alone {
            out.push(tokens[end].clone());
        }
        at = end + 1;
    }
    out
}

fn word(name: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan { token: Token::make_word(name, None), span }
}

fn is(tokens: &[TokenWithSpan], at: usize, wanted: &Token) -> bool {
    tokens.get(at).is_some_and(|token| token.token == *wanted)
}

/// Whether a query begins here with the word VALUES.
fn is_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    if !is_word(&tokens[at], "VALUES") {
        return false;
    }
    let is_operation = |token| OPERATIONS.iter().any(|name| is_word(token, name));
    match &tokens[..at] {
        [] => true,
        [.., operation, all] if is_word(all, "ALL") || is_word(all, "DISTINCT") => is_operation(operation),
        [first, .., before] if is_word(before, "AS") => is_word(first, "CREATE") || is_word(first, "ALTER"),
        [.., before] => before.token == Token::LParen || is_operation(before),
    }
}

/// What is in the parentheses of the rows from this token on, as places among the tokens.
fn rows(tokens: &[TokenWithSpan], from: usize) -> Option<Vec<Range<usize>>> {
    let (mut rows, mut at) = (Vec::new(), from);
    loop {
        if !is(tokens, at, &Token::LParen) {
            return None;
        }
        let mut depth = 0usize;
        let end = tokens[at..].iter().position(|token| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        rows.push(at + 1..at + end);
        at += end + 1;
        if !is(tokens, at, &Token::Comma) {
            return Some(rows);
        }
        at += 1;
    }
}
