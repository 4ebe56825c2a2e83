//! CREATE DATABASE and ALTER DATABASE.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Outcome, Result, Statement, ddl::unless_exists, word_or_string};
use crate::{
    dialect::{identifier, is_word, skip, take_word, take_words, unexpected},
    errors,
};

/// CREATE DATABASE; the words before its name have been read.
pub(super) fn create(p: &mut Parser, or_replace: bool) -> Result<Outcome> {
    let if_not_exists = match unless_exists(p, or_replace) {
        Ok(if_not_exists) => if_not_exists,
        Err(error) => return Ok(Err(error)),
    };
    let name = identifier(p)?.value;
    let (charset, collation) = options(p)?;
    Ok(Ok(Statement::CreateDatabase { name, or_replace, if_not_exists, collation, charset }))
}

/// The options of a schema: its character set, its collation.
fn options(p: &mut Parser) -> Result<(Option<String>, Option<String>)> {
    let (mut charset, mut collation) = (None, None);
    loop {
        take_word(p, "DEFAULT");
        if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
            skip(p, &Token::Eq);
            charset = Some(word_or_string(p)?);
        } else if take_word(p, "COLLATE") {
            skip(p, &Token::Eq);
            collation = Some(word_or_string(p)?);
        } else {
            return Ok((charset, collation));
        }
    }
}

/// ALTER DATABASE; the words before its name have been read.
pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    const OPTIONS: [&str; 5] = ["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT"];
    let quoted = matches!(&p.peek_token_ref().token, Token::Word(word) if word.quote_style.is_some());
    let is_named = quoted || !OPTIONS.iter().any(|word| is_word(p.peek_token_ref(), word));
    let name = if is_named { Some(identifier(p)?.value) } else { None };
    let (charset, collation) = options(p)?;
    if is_word(p.peek_token_ref(), "COMMENT") {
        return Ok(Err(errors::unsupported("comments of schemas")));
    }
    if charset.is_none() && collation.is_none() {
        return unexpected(p);
    }
    Ok(Ok(Statement::AlterDatabase { name, collation, charset }))
}
