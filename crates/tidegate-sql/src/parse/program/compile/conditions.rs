//! Conditions of handlers, SIGNAL and RESIGNAL.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Read};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    parse::program::code::{Condition, Op, Signal},
};

impl Compiler<'_> {
    /// What a handler is for.
    pub(super) fn condition(&mut self, p: &mut Parser) -> Read<Condition> {
        if take_word(p, "SQLWARNING") {
            return Ok(Condition::Warning);
        }
        if take_word(p, "SQLEXCEPTION") {
            return Ok(Condition::Exception);
        }
        if take_words(p, &["NOT", "FOUND"]) {
            return Ok(Condition::NotFound);
        }
        let is_plain = is_word(p.peek_token_ref(), "SQLSTATE") || matches!(p.peek_token_ref().token, Token::Number(..));
        if is_plain { self.plain_condition(p) } else { self.named_condition(p) }
    }

    /// A number or an SQLSTATE.
    pub(super) fn plain_condition(&mut self, p: &mut Parser) -> Read<Condition> {
        if let Token::Number(text, _) = &p.peek_token_ref().token {
            let number = text.parse().ok().filter(|number| *number > 0);
            let Some(number) = number else { return Ok(unexpected(p)?) };
            p.advance_token();
            return Ok(Condition::Number(number));
        }
        expect_word(p, "SQLSTATE")?;
        take_word(p, "VALUE");
        let Token::SingleQuotedString(text) = &p.peek_token_ref().token else { return Ok(unexpected(p)?) };
        let is_good = |text: &[u8]| {
            text.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) && !text.starts_with(b"00")
        };
        let state: Option<[u8; 5]> = text.as_bytes().try_into().ok().filter(|text: &[u8; 5]| is_good(text));
        let Some(state) = state else { return Err(errors::bad_sqlstate(text).into()) };
        p.advance_token();
        Ok(Condition::State(state))
    }

    /// A condition that a declaration has named.
    fn named_condition(&mut self, p: &mut Parser) -> Read<Condition> {
        let name = identifier(p)?.value;
        let all = self.blocks.iter().rev().flat_map(|block| &block.conditions);
        let mut found = all.filter(|(known, _)| known.eq_ignore_ascii_case(&name)).map(|(_, condition)| condition);
        found.next().cloned().ok_or_else(|| errors::undefined_condition(&name).into())
    }

    /// SIGNAL and RESIGNAL
    pub(super) fn signal(&mut self, p: &mut Parser, resignals: bool) -> Read<()> {
        p.advance_token();
        let ends = matches!(p.peek_token_ref().token, Token::SemiColon | Token::EOF);
        let condition = if is_word(p.peek_token_ref(), "SQLSTATE") {
            Some(self.plain_condition(p)?)
        } else if resignals && (ends || is_word(p.peek_token_ref(), "SET")) {
            None
        } else {
            Some(self.named_condition(p)?)
        };
        if matches!(condition, Some(Condition::Number(_))) {
            return Err(errors::signal_needs_sqlstate().into());
        }
        let mut signal = Signal { condition, resignals, message: None, number: None };
        if take_word(p, "SET") {
            loop {
                let item = identifier(p)?.value.to_ascii_uppercase();
                p.expect_token(&Token::Eq)?;
                let value = self.value(p)?;
                let known = match item.as_str() {
                    "MESSAGE_TEXT" => signal.message.replace(value),
                    "MYSQL_ERRNO" => signal.number.replace(value),
                    // Clients of this protocol see none of these.
                    "CLASS_ORIGIN" | "SUBCLASS_ORIGIN" | "CONSTRAINT_CATALOG" | "CONSTRAINT_SCHEMA"
                    | "CONSTRAINT_NAME" | "CATALOG_NAME" | "SCHEMA_NAME" | "TABLE_NAME" | "COLUMN_NAME"
                    | "CURSOR_NAME" => None,
                    _ => return Ok(unexpected(p)?),
                };
                if known.is_some() {
                    return Err(errors::signal_item_twice(&item).into());
                }
                if !p.consume_token(&Token::Comma) {
                    break;
                }
            }
        }
        self.push(p, Op::Signal(Box::new(signal)))?;
        Ok(())
    }
}
