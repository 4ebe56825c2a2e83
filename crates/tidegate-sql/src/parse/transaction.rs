//! Transactions and prepared statements.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Completion, PrepareSource, Result, Statement, comma_separated, span_of};
use crate::dialect::{expect_word, identifier, take_word, take_words, unexpected};

/// What begins and ends most transactions, without the parser. `text` is normalised.
pub(crate) fn of_few_words(text: &[u8]) -> Option<Statement> {
    let is = |words: &str| text.eq_ignore_ascii_case(words.as_bytes());
    match text.len() {
        5 if is("BEGIN") => Some(Statement::Begin { read_only: None, snapshot: false }),
        6 if is("COMMIT") => Some(Statement::Commit(Completion::default())),
        8 if is("ROLLBACK") => Some(Statement::Rollback(Completion::default())),
        17 if is("START TRANSACTION") => Some(Statement::Begin { read_only: None, snapshot: false }),
        _ => None,
    }
}

pub(super) fn start_transaction(p: &mut Parser) -> Result<Statement> {
    expect_word(p, "TRANSACTION")?;
    let (mut read_only, mut snapshot) = (None, false);
    loop {
        if take_words(p, &["WITH", "CONSISTENT", "SNAPSHOT"]) {
            snapshot = true;
        } else if take_words(p, &["READ", "ONLY"]) {
            read_only = Some(true);
        } else if take_words(p, &["READ", "WRITE"]) {
            read_only = Some(false);
        } else {
            break;
        }
        if !p.consume_token(&Token::Comma) {
            break;
        }
    }
    Ok(Statement::Begin { read_only, snapshot })
}

pub(super) fn commit(p: &mut Parser) -> Result<Statement> {
    take_word(p, "WORK");
    Ok(Statement::Commit(completion(p)?))
}

/// `[AND [NO] CHAIN] [[NO] RELEASE]`; both at once are refused.
fn completion(p: &mut Parser) -> Result<Completion> {
    let chain = if take_words(p, &["AND", "NO", "CHAIN"]) {
        Some(false)
    } else {
        take_words(p, &["AND", "CHAIN"]).then_some(true)
    };
    if chain == Some(true) {
        let release = take_words(p, &["NO", "RELEASE"]).then_some(false);
        return Ok(Completion { chain, release });
    }
    let release = if take_words(p, &["NO", "RELEASE"]) { Some(false) } else { take_word(p, "RELEASE").then_some(true) };
    Ok(Completion { chain, release })
}

pub(super) fn rollback(p: &mut Parser) -> Result<Statement> {
    take_word(p, "WORK");
    if take_word(p, "TO") {
        take_word(p, "SAVEPOINT");
        return Ok(Statement::RollbackTo(identifier(p)?.value));
    }
    Ok(Statement::Rollback(completion(p)?))
}

fn user_variable(p: &mut Parser) -> Result<String> {
    match &p.peek_token_ref().token {
        Token::DollarQuotedString(variable) if !variable.value.starts_with("@@") => {
            let name = variable.value[1..].to_owned();
            p.advance_token();
            Ok(name)
        }
        _ => unexpected(p),
    }
}

pub(super) fn prepare(p: &mut Parser) -> Result<Statement> {
    let name = identifier(p)?.value;
    expect_word(p, "FROM")?;
    let source = match &p.peek_token_ref().token {
        Token::SingleQuotedString(text) => {
            let text = text.clone();
            p.advance_token();
            PrepareSource::Text(text)
        }
        _ => PrepareSource::Variable(user_variable(p)?),
    };
    Ok(Statement::Prepare { name, source })
}

pub(super) fn execute(p: &mut Parser) -> Result<Statement> {
    if take_word(p, "IMMEDIATE") {
        let source = span_of(p)?;
        let using = if take_word(p, "USING") { comma_separated(p, span_of)? } else { Vec::new() };
        return Ok(Statement::ExecuteImmediate { source, using });
    }
    let name = identifier(p)?.value;
    let variables = if take_word(p, "USING") { comma_separated(p, user_variable)? } else { Vec::new() };
    Ok(Statement::Execute { name, variables })
}
