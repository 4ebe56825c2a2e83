//! CREATE, ALTER and DROP SEQUENCE.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Outcome, Result, Statement, TableName, comma_separated,
    ddl::{Refused, if_exists, if_not_exists, table_options},
    table_name,
};
use crate::{
    dialect::{skip, take_word, take_words, unexpected},
    errors,
};

/// CREATE SEQUENCE.
#[derive(Debug, Clone)]
pub(crate) struct CreateSequence {
    pub(crate) name: TableName,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) temporary: bool,
    pub(crate) spec: SequenceSpec,
    pub(crate) comment: Option<String>,
}

/// What is said of a sequence; nothing for what is not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SequenceSpec {
    pub(crate) start: Option<i64>,
    /// `Some(None)` for NO MINVALUE.
    pub(crate) minimum: Option<Option<i64>>,
    /// `Some(None)` for NO MAXVALUE.
    pub(crate) maximum: Option<Option<i64>>,
    pub(crate) increment: Option<i64>,
    /// 0 for NOCACHE.
    pub(crate) cache: Option<i64>,
    pub(crate) cycles: Option<bool>,
    /// RESTART: at the start, or at a number.
    pub(crate) restart: Option<Option<i64>>,
}

/// CREATE SEQUENCE; the words before the name have been read.
pub(super) fn create(p: &mut Parser, or_replace: bool, temporary: bool) -> Result<Outcome> {
    let if_not_exists = if_not_exists(p);
    let name = table_name(p)?;
    let (spec, comment) = match options(p)? {
        Ok(said) => said,
        Err(error) => return Ok(Err(error)),
    };
    if spec.restart.is_some() {
        return unexpected(p);
    }
    let create = CreateSequence { name, or_replace, if_not_exists, temporary, spec, comment };
    Ok(Ok(Statement::CreateSequence(Box::new(create))))
}

/// ALTER SEQUENCE; the words before the name have been read.
pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    let if_exists = if_exists(p);
    let name = table_name(p)?;
    let (spec, comment) = match options(p)? {
        Ok(said) => said,
        Err(error) => return Ok(Err(error)),
    };
    if comment.is_some() {
        return Ok(Err(errors::unsupported("ALTER SEQUENCE with a comment")));
    }
    if spec == SequenceSpec::default() {
        return unexpected(p);
    }
    Ok(Ok(Statement::AlterSequence { name, if_exists, spec: Box::new(spec) }))
}

/// DROP SEQUENCE; the words before the names have been read.
pub(super) fn drop(p: &mut Parser, temporary: bool) -> Result<Outcome> {
    let if_exists = if_exists(p);
    Ok(Ok(Statement::DropSequence { names: comma_separated(p, table_name)?, if_exists, temporary }))
}

/// What is said of the numbers, each thing once and in any order, and the comment of the table.
///
/// Source: MariaDB, `CREATE SEQUENCE` and `ALTER SEQUENCE`.
fn options(p: &mut Parser) -> Result<Refused<(SequenceSpec, Option<String>)>> {
    let mut spec = SequenceSpec::default();
    while let Token::Word(word) = &p.peek_token_ref().token {
        let name = word.value.to_ascii_uppercase();
        let is_new = if take_word(p, "START") {
            let number = number_behind(p, "WITH")?;
            spec.start.replace(number).is_none()
        } else if take_word(p, "INCREMENT") {
            let number = number_behind(p, "BY")?;
            spec.increment.replace(number).is_none()
        } else if take_word(p, "MINVALUE") {
            let number = number_behind(p, "")?;
            spec.minimum.replace(Some(number)).is_none()
        } else if take_word(p, "MAXVALUE") {
            let number = number_behind(p, "")?;
            spec.maximum.replace(Some(number)).is_none()
        } else if take_word(p, "NOMINVALUE") || take_words(p, &["NO", "MINVALUE"]) {
            spec.minimum.replace(None).is_none()
        } else if take_word(p, "NOMAXVALUE") || take_words(p, &["NO", "MAXVALUE"]) {
            spec.maximum.replace(None).is_none()
        } else if take_word(p, "CACHE") {
            let number = number_behind(p, "")?;
            spec.cache.replace(number).is_none()
        } else if take_word(p, "NOCACHE") {
            spec.cache.replace(0).is_none()
        } else if take_word(p, "CYCLE") {
            spec.cycles.replace(true).is_none()
        } else if take_word(p, "NOCYCLE") {
            spec.cycles.replace(false).is_none()
        } else if take_word(p, "RESTART") {
            let number = if is_number(p) { Some(number_behind(p, "WITH")?) } else { None };
            spec.restart.replace(number).is_none()
        } else {
            break;
        };
        if !is_new {
            return Ok(Err(errors::option_twice(name)));
        }
    }
    Ok(Ok((spec, table_options(p)?.comment)))
}

/// Whether a number comes next, behind `=` or WITH.
fn is_number(p: &Parser) -> bool {
    let next = p.peek_token_ref();
    matches!(next.token, Token::Number(..) | Token::Minus | Token::Eq) || crate::dialect::is_word(next, "WITH")
}

/// A whole number behind a word that may be left out, or `=`.
fn number_behind(p: &mut Parser, word: &str) -> Result<i64> {
    if word.is_empty() || !take_word(p, word) {
        skip(p, &Token::Eq);
    }
    let minus = if p.consume_token(&Token::Minus) { "-" } else { "" };
    let Token::Number(digits, _) = &p.peek_token_ref().token else { return unexpected(p) };
    let Ok(number) = format!("{minus}{digits}").parse() else { return unexpected(p) };
    p.advance_token();
    Ok(number)
}
