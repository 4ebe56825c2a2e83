//! The numbers of sequences: `NEXTVAL(name)`, `NEXT VALUE FOR name` and their like.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Parsed, forms::open, is_paren, is_word, name, special, take_words};

/// Whether a form of a sequence begins with `word`, which comes next.
pub(super) fn begins(parser: &Parser, word: &str) -> bool {
    match word {
        "NEXTVAL" | "LASTVAL" | "SETVAL" => is_paren(parser.peek_nth_token_ref(1)),
        "NEXT" | "PREVIOUS" => {
            is_word(parser.peek_nth_token_ref(1), "VALUE") && is_word(parser.peek_nth_token_ref(2), "FOR")
        }
        _ => false,
    }
}

/// A form that [begins] here.
pub(super) fn call(parser: &mut Parser, word: &str) -> Parsed {
    let form = match word {
        "NEXT" | "NEXTVAL" => "next_value",
        "PREVIOUS" | "LASTVAL" => "last_value",
        _ => "set_value",
    };
    if take_words(parser, &[word, "VALUE", "FOR"]) {
        return Ok(special(form, vec![name(parser)?]));
    }
    open(parser);
    let mut args = vec![name(parser)?];
    while parser.consume_token(&Token::Comma) {
        args.push(parser.parse_expr()?);
    }
    parser.expect_token(&Token::RParen)?;
    Ok(special(form, args))
}
