//! MATCH … AGAINST.

use sqlparser::{
    ast::Expr,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Parsed, expect_word, identifier, prec, special, string, take_word, take_words};

/// `MATCH (columns) AGAINST (text [mode])`; the brackets around the columns may be left out.
pub(super) fn against(parser: &mut Parser) -> Parsed {
    parser.advance_token();
    let in_brackets = parser.consume_token(&Token::LParen);
    let columns = parser.parse_comma_separated(column)?;
    if in_brackets {
        parser.expect_token(&Token::RParen)?;
    }
    expect_word(parser, "AGAINST")?;
    parser.expect_token(&Token::LParen)?;
    let text = parser.parse_subexpr(prec::PREDICATE)?;
    let mode = mode(parser)?;
    parser.expect_token(&Token::RParen)?;
    let mut args = vec![string(mode), text];
    args.extend(columns);
    Ok(special("match", args))
}

fn mode(parser: &mut Parser) -> Result<&'static str, ParserError> {
    if take_words(parser, &["IN", "BOOLEAN", "MODE"]) {
        return Ok("boolean");
    }
    if take_word(parser, "IN") {
        expect_word(parser, "NATURAL")?;
        expect_word(parser, "LANGUAGE")?;
        expect_word(parser, "MODE")?;
    }
    if take_word(parser, "WITH") {
        expect_word(parser, "QUERY")?;
        expect_word(parser, "EXPANSION")?;
        return Ok("expansion");
    }
    Ok("natural")
}

fn column(parser: &mut Parser) -> Parsed {
    let mut parts = vec![identifier(parser)?];
    while parser.consume_token(&Token::Period) {
        parts.push(identifier(parser)?);
    }
    Ok(if parts.len() == 1 { Expr::Identifier(parts.remove(0)) } else { Expr::CompoundIdentifier(parts) })
}
