//! SET.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    IsolationScope, Outcome, Result, SetItem, SetValue, Statement, accounts, comma_separated, span_of, word_or_string,
};
use crate::dialect::{identifier, is_word, take_word, take_words, unexpected};

/// SET, behind this word.
pub(super) fn statement(p: &mut Parser) -> Result<Outcome> {
    if take_word(p, "STATEMENT") {
        let mut items = Vec::new();
        while !take_word(p, "FOR") {
            if !items.is_empty() {
                p.expect_token(&Token::Comma)?;
            }
            let name = identifier(p)?.value.to_ascii_lowercase();
            p.expect_token(&Token::Eq)?;
            items.push(SetItem::System { global: false, name, value: set_value(p)? });
        }
        let from = p.peek_token_ref().span.start.column as usize;
        while p.peek_token_ref().token != Token::EOF {
            p.advance_token();
        }
        return Ok(Ok(Statement::SetFor { items, from }));
    }
    match accounts::set(p)? {
        Some(outcome) => Ok(outcome),
        None => Ok(Ok(Statement::Set(set(p)?))),
    }
}

fn set(p: &mut Parser) -> Result<Vec<SetItem>> {
    let mut global = false;
    comma_separated(p, |p| set_item(p, &mut global))
}

/// One assignment; `global` says whether one without a scope follows GLOBAL, which counts for all that come after it.
fn set_item(p: &mut Parser, global: &mut bool) -> Result<SetItem> {
    if let Token::DollarQuotedString(variable) = &p.peek_token_ref().token {
        let name = variable.value.clone();
        p.advance_token();
        if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
            return unexpected(p);
        }
        let Some(system) = name.strip_prefix("@@") else {
            return Ok(SetItem::User { name: name[1..].to_owned(), value: span_of(p)? });
        };
        let lower = system.to_ascii_lowercase();
        let (scope, bare) = lower.split_once('.').unwrap_or(("", &lower));
        return Ok(SetItem::System { global: scope == "global", name: bare.to_owned(), value: set_value(p)? });
    }
    if take_words(p, &["NAMES"]) {
        let charset = if take_word(p, "DEFAULT") { None } else { Some(word_or_string(p)?) };
        let collation = if take_word(p, "COLLATE") { Some(word_or_string(p)?) } else { None };
        return Ok(SetItem::Names { charset, collation });
    }
    if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
        let charset = if take_word(p, "DEFAULT") { None } else { Some(word_or_string(p)?) };
        return Ok(SetItem::Names { charset, collation: None });
    }
    let mut scope = IsolationScope::Next;
    if take_word(p, "GLOBAL") {
        *global = true;
        scope = IsolationScope::Global;
    } else if take_word(p, "SESSION") || take_word(p, "LOCAL") {
        *global = false;
        scope = IsolationScope::Session;
    }
    if take_word(p, "TRANSACTION") {
        return transaction(p, scope);
    }
    let name = identifier(p)?.value.to_ascii_lowercase();
    if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
        return unexpected(p);
    }
    Ok(SetItem::System { global: *global, name, value: set_value(p)? })
}

/// The value of SET; bare words such as ON and names count as strings.
fn set_value(p: &mut Parser) -> Result<Option<SetValue>> {
    if take_word(p, "DEFAULT") {
        return Ok(None);
    }
    let bare = match &p.peek_token_ref().token {
        Token::Word(word) => {
            let next = p.peek_nth_token_ref(1);
            let ends = matches!(next.token, Token::EOF | Token::Comma) || is_word(next, "FOR");
            let constant = ["NULL", "TRUE", "FALSE"].iter().any(|constant| word.value.eq_ignore_ascii_case(constant));
            (ends && !constant).then(|| word.value.clone())
        }
        _ => None,
    };
    if let Some(word) = bare {
        p.advance_token();
        return Ok(Some(SetValue::Word(word)));
    }
    Ok(Some(SetValue::Expr(span_of(p)?)))
}

/// The characteristics behind SET TRANSACTION: an isolation level, an access mode, or one of each.
fn transaction(p: &mut Parser, scope: IsolationScope) -> Result<SetItem> {
    let (mut level, mut read_only) = (None, None);
    loop {
        if take_words(p, &["READ", "ONLY"]) && read_only.is_none() {
            read_only = Some(true);
        } else if take_words(p, &["READ", "WRITE"]) && read_only.is_none() {
            read_only = Some(false);
        } else if take_words(p, &["ISOLATION", "LEVEL"]) && level.is_none() {
            level = Some(isolation_level(p)?);
        } else {
            return unexpected(p);
        }
        let more = matches!(&p.peek_nth_token_ref(1).token, Token::Word(word)
            if ["READ", "ISOLATION"].iter().any(|known| word.value.eq_ignore_ascii_case(known)));
        if !more || !p.consume_token(&Token::Comma) {
            return Ok(SetItem::Transaction { level, read_only, scope });
        }
    }
}

fn isolation_level(p: &mut Parser) -> Result<&'static str> {
    let levels: [(&[&str], &str); 4] = [
        (&["READ", "COMMITTED"], "READ-COMMITTED"),
        (&["REPEATABLE", "READ"], "REPEATABLE-READ"),
        (&["READ", "UNCOMMITTED"], "READ-UNCOMMITTED"),
        (&["SERIALIZABLE"], "SERIALIZABLE"),
    ];
    match levels.iter().find(|(words, _)| take_words(p, words)) {
        Some((_, level)) => Ok(level),
        None => unexpected(p),
    }
}
