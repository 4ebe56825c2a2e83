//! Statements about sessions: LOCK and UNLOCK TABLES, FLUSH, KILL, CALL, SIGNAL.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Argument, ArgumentPlace, Call, KillTarget, Outcome, Result, Statement, comma_separated, files, span_of, table_name,
    word_or_string,
};
use crate::{
    clients::Kill,
    dialect::{expect_word, identifier, take_word, take_words, unexpected},
    errors,
};

/// Reads a statement behind its first word.
///
/// # Errors
/// Syntax errors.
pub(super) fn statement(p: &mut Parser, verb: &str) -> Result<Outcome> {
    Ok(Ok(match verb {
        "LOCK" => lock(p)?,
        "UNLOCK" => {
            tables_word(p)?;
            Statement::UnlockTables
        }
        "FLUSH" => return flush(p),
        "LOAD" => return files::load(p),
        "CALL" => call(p)?,
        "KILL" => {
            let _ = take_word(p, "HARD") || take_word(p, "SOFT");
            let kill = match take_word(p, "CONNECTION") {
                false if take_word(p, "QUERY") => Kill::Query,
                _ => Kill::Connection,
            };
            let target =
                if take_word(p, "USER") { KillTarget::User(word_or_string(p)?) } else { KillTarget::Id(number(p)?) };
            Statement::Kill { target, kill }
        }
        _ => signal(p)?,
    }))
}

fn call(p: &mut Parser) -> Result<Statement> {
    let name = table_name(p)?;
    let (mut arguments, mut params) = (Vec::new(), 0);
    if p.consume_token(&Token::LParen) && !p.consume_token(&Token::RParen) {
        arguments = comma_separated(p, |p| {
            let first = p.index();
            let is_alone = matches!(p.peek_nth_token_ref(1).token, Token::Comma | Token::RParen);
            let place = match &p.peek_token_ref().token {
                Token::Word(word) if is_alone => ArgumentPlace::Name(word.value.clone()),
                Token::DollarQuotedString(variable) if is_alone && !variable.value.starts_with("@@") => {
                    ArgumentPlace::Variable(variable.value[1..].trim_matches(['`', '\'', '"']).to_owned())
                }
                Token::Placeholder(name) if is_alone && name.starts_with('?') => ArgumentPlace::Parameter,
                _ => ArgumentPlace::Nowhere,
            };
            let span = span_of(p)?;
            let is_param = |token: &Token| matches!(token, Token::Placeholder(name) if name.starts_with('?'));
            let count = (first..p.index()).filter(|index| is_param(&p.token_at(*index).token)).count();
            let before = params;
            params += count;
            Ok(Argument { span, place, params: before..params })
        })?;
        p.expect_token(&Token::RParen)?;
    }
    Ok(Statement::Call(Call { name, arguments }))
}

fn tables_word(p: &mut Parser) -> Result<()> {
    if take_word(p, "TABLES") { Ok(()) } else { expect_word(p, "TABLE") }
}

fn number(p: &mut Parser) -> Result<u64> {
    let Token::Number(text, _) = &p.peek_token_ref().token else { return unexpected(p) };
    let Ok(number) = text.parse() else { return unexpected(p) };
    p.advance_token();
    Ok(number)
}

fn lock(p: &mut Parser) -> Result<Statement> {
    tables_word(p)?;
    let tables = comma_separated(p, |p| {
        let table = table_name(p)?;
        if take_word(p, "AS")
            || !["READ", "WRITE", "LOW_PRIORITY"].iter().any(|word| crate::dialect::is_word(p.peek_token_ref(), word))
        {
            identifier(p)?;
        }
        if take_word(p, "READ") {
            take_word(p, "LOCAL");
            return Ok((table, false));
        }
        take_word(p, "LOW_PRIORITY");
        expect_word(p, "WRITE")?;
        Ok((table, true))
    })?;
    Ok(Statement::LockTables(tables))
}

/// FLUSH: this engine keeps nothing back that could be flushed, except under a lock.
fn flush(p: &mut Parser) -> Result<Outcome> {
    if !take_word(p, "NO_WRITE_TO_BINLOG") {
        take_word(p, "LOCAL");
    }
    if take_word(p, "TABLES") || take_word(p, "TABLE") {
        if take_words(p, &["WITH", "READ", "LOCK"]) {
            return Ok(Ok(Statement::LockAll));
        }
        if p.peek_token_ref().token != Token::EOF {
            comma_separated(p, table_name)?;
            if take_words(p, &["WITH", "READ", "LOCK"]) || take_words(p, &["FOR", "EXPORT"]) {
                return Ok(Err(errors::unsupported("FLUSH TABLES of some tables under a lock")));
            }
        }
        return Ok(Ok(Statement::Admin { verb: "", tables: Vec::new() }));
    }
    const WORDS: [&str; 9] =
        ["PRIVILEGES", "STATUS", "HOSTS", "LOGS", "QUERY", "USER_RESOURCES", "BINARY", "ERROR", "SLOW"];
    comma_separated(p, |p| {
        if WORDS.iter().any(|word| take_word(p, word)) {
            let _ = take_word(p, "CACHE") || take_word(p, "LOGS");
            return Ok(());
        }
        unexpected(p)
    })?;
    Ok(Ok(Statement::Admin { verb: "", tables: Vec::new() }))
}

fn signal(p: &mut Parser) -> Result<Statement> {
    expect_word(p, "SQLSTATE")?;
    take_word(p, "VALUE");
    let state = word_or_string(p)?;
    if state.len() != 5 || !state.bytes().all(|byte| byte.is_ascii_alphanumeric()) || state.starts_with("00") {
        return unexpected(p);
    }
    let (mut number_given, mut message) = (None, None);
    if take_word(p, "SET") {
        comma_separated(p, |p| {
            let name = identifier(p)?.value.to_ascii_uppercase();
            p.expect_token(&Token::Eq)?;
            match name.as_str() {
                "MESSAGE_TEXT" => message = Some(word_or_string(p)?),
                "MYSQL_ERRNO" => match u16::try_from(number(p)?) {
                    Ok(given) if given > 0 => number_given = Some(given),
                    _ => return unexpected(p),
                },
                _ => {
                    word_or_string(p)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(Statement::Signal { state, number: number_given, message })
}
