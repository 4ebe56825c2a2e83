//! Calls whose arguments are no plain list: CAST, EXTRACT, TRIM, INTERVAL and their like.

use sqlparser::{
    ast::{Expr, Ident},
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Parsed, call, expect_word, is_paren, is_word, literal, prec, special, string, take_word, unexpected};

static UNITS: &[&str] = &[
    "MICROSECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
    "SECOND_MICROSECOND",
    "MINUTE_MICROSECOND",
    "MINUTE_SECOND",
    "HOUR_MICROSECOND",
    "HOUR_SECOND",
    "HOUR_MINUTE",
    "DAY_MICROSECOND",
    "DAY_SECOND",
    "DAY_MINUTE",
    "DAY_HOUR",
    "YEAR_MONTH",
];

pub(super) fn take_unit(parser: &mut Parser) -> Option<Expr> {
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    let found = word.value.to_ascii_uppercase();
    let found = found.strip_prefix("SQL_TSI_").unwrap_or(&found);
    let unit = UNITS.iter().find(|unit| **unit == found)?;
    parser.advance_token();
    Some(string(unit.to_ascii_lowercase()))
}

pub(super) fn interval(parser: &mut Parser) -> Parsed {
    parser.advance_token();
    let amount = parser.parse_expr()?;
    if let Some(unit) = take_unit(parser) {
        return Ok(special("interval", vec![amount, unit]));
    }
    match amount {
        Expr::Tuple(list) => Ok(call(Ident::new("INTERVAL"), list)),
        _ => unexpected(parser),
    }
}

pub(super) fn open(parser: &mut Parser) {
    parser.advance_token();
    parser.advance_token();
}

pub(super) fn cast(parser: &mut Parser, with_as: bool) -> Parsed {
    open(parser);
    let operand = parser.parse_expr()?;
    let mut args = vec![operand];
    if with_as {
        expect_word(parser, "AS")?;
    } else if take_word(parser, "USING") {
        let charset = identifier_or_word(parser)?;
        parser.expect_token(&Token::RParen)?;
        args.push(string(charset));
        return Ok(special("using", args));
    } else {
        parser.expect_token(&Token::Comma)?;
    }
    let mut words = Vec::new();
    let mut numbers = Vec::new();
    loop {
        match &parser.peek_token_ref().token {
            Token::Word(word) => {
                words.push(word.value.to_ascii_lowercase());
                parser.advance_token();
            }
            Token::LParen if numbers.is_empty() => {
                parser.advance_token();
                numbers = parser.parse_comma_separated(literal)?;
                parser.expect_token(&Token::RParen)?;
            }
            _ => break,
        }
    }
    parser.expect_token(&Token::RParen)?;
    args.push(string(words.join(" ")));
    args.extend(numbers);
    Ok(special("cast", args))
}

pub(super) fn identifier_or_word(parser: &mut Parser) -> Result<String, ParserError> {
    match &parser.peek_token_ref().token {
        Token::Word(word) => {
            let word = word.value.clone();
            parser.advance_token();
            Ok(word)
        }
        _ => unexpected(parser),
    }
}

pub(super) fn extract(parser: &mut Parser) -> Parsed {
    open(parser);
    let Some(unit) = take_unit(parser) else { return unexpected(parser) };
    expect_word(parser, "FROM")?;
    let operand = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(special("extract", vec![unit, operand]))
}

pub(super) fn substring(parser: &mut Parser) -> Parsed {
    open(parser);
    let mut args = vec![parser.parse_expr()?];
    if take_word(parser, "FROM") {
        args.push(parser.parse_expr()?);
        if take_word(parser, "FOR") {
            args.push(parser.parse_expr()?);
        }
    } else {
        while parser.consume_token(&Token::Comma) {
            args.push(parser.parse_expr()?);
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(call(Ident::new("SUBSTRING"), args))
}

pub(super) fn trim(parser: &mut Parser) -> Parsed {
    open(parser);
    let side = ["BOTH", "LEADING", "TRAILING"].into_iter().find(|side| take_word(parser, side));
    let name = match side {
        Some("LEADING") => "trim_leading",
        Some("TRAILING") => "trim_trailing",
        _ => "trim_both",
    };
    let args = if side.is_some() && take_word(parser, "FROM") {
        vec![parser.parse_expr()?]
    } else {
        let first = parser.parse_expr()?;
        if take_word(parser, "FROM") { vec![parser.parse_expr()?, first] } else { vec![first] }
    };
    parser.expect_token(&Token::RParen)?;
    Ok(special(name, args))
}

pub(super) fn position(parser: &mut Parser) -> Parsed {
    open(parser);
    let needle = parser.parse_subexpr(prec::PREDICATE)?;
    expect_word(parser, "IN")?;
    let text = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(call(Ident::new("LOCATE"), vec![needle, text]))
}

pub(super) fn char_function(parser: &mut Parser) -> Parsed {
    open(parser);
    let args = parser.parse_comma_separated(Parser::parse_expr)?;
    let charset = if take_word(parser, "USING") { Some(identifier_or_word(parser)?) } else { None };
    parser.expect_token(&Token::RParen)?;
    let chars = call(Ident::new("CHAR"), args);
    Ok(match charset {
        Some(charset) => special("using", vec![chars, string(charset)]),
        None => chars,
    })
}

pub(super) fn unit_first(parser: &mut Parser, word: &str) -> Parsed {
    open(parser);
    let mut args = match take_unit(parser) {
        Some(unit) => vec![unit],
        None => vec![string(identifier_or_word(parser)?.to_ascii_lowercase())],
    };
    while parser.consume_token(&Token::Comma) {
        args.push(parser.parse_expr()?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(call(Ident::new(word), args))
}

pub(super) fn introducer(parser: &mut Parser, word: &str) -> Parsed {
    parser.advance_token();
    let text = literal(parser)?;
    Ok(special("introducer", vec![text, string(word[1..].to_ascii_lowercase())]))
}

/// A query, a list or an expression in parentheses.
pub(super) fn parenthesis(parser: &mut Parser) -> Parsed {
    parser.advance_token();
    if starts_query(parser) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        return Ok(Expr::Subquery(query));
    }
    let mut list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(if list.len() == 1 { Expr::Nested(Box::new(list.remove(0))) } else { Expr::Tuple(list) })
}

/// Whether a query comes next, behind an opening parenthesis.
pub(super) fn starts_query(parser: &Parser) -> bool {
    let next = parser.peek_token_ref();
    is_word(next, "SELECT")
        || is_word(next, "WITH")
        || is_word(next, "VALUES") && !is_paren(parser.peek_nth_token_ref(1))
}
