//! IF, CASE, loops, LEAVE and ITERATE.

use std::fmt::Write;

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Label, Read, Start, Wrong};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, unexpected},
    errors,
    identifier::quoted,
    parse::{
        self,
        program::code::{FragmentKind, Op, Place, Scope},
    },
    value::SqlType,
};

/// The variable of the last bound of FOR; no program can name it.
const LAST: &str = "\u{1}last";

impl Compiler<'_> {
    /// Statements up to one of these words, which is not taken.
    pub(super) fn statements(&mut self, p: &mut Parser, ends: &[&str]) -> Read<()> {
        loop {
            if ends.iter().any(|end| is_word(p.peek_token_ref(), end)) {
                return Ok(());
            }
            self.statement(p)?;
            p.expect_token(&Token::SemiColon)?;
        }
    }

    /// At least one statement.
    fn some_statements(&mut self, p: &mut Parser, ends: &[&str]) -> Read<()> {
        self.statement(p)?;
        p.expect_token(&Token::SemiColon)?;
        self.statements(p, ends)
    }

    /// IF
    pub(super) fn branches(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "IF")?;
        let (mut tests, mut ends) = (Vec::new(), Vec::new());
        loop {
            let condition = self.value(p)?;
            let test = self.push(p, Op::Unless { condition, to: 0, behind: 0 })?;
            tests.push(test);
            expect_word(p, "THEN")?;
            self.some_statements(p, &["ELSEIF", "ELSE", "END"])?;
            ends.push(self.push(p, Op::Jump(0))?);
            self.land(test);
            if take_word(p, "ELSEIF") {
                continue;
            }
            if take_word(p, "ELSE") {
                self.some_statements(p, &["END"])?;
            }
            break;
        }
        expect_word(p, "END")?;
        expect_word(p, "IF")?;
        ends.into_iter().for_each(|end| self.land(end));
        let here = self.here();
        for test in tests {
            if let Op::Unless { behind, .. } = &mut self.code.ops[test] {
                *behind = here;
            }
        }
        Ok(())
    }

    /// CASE: one expression tells which branch it is, so that its value is worked out once.
    pub(super) fn case(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "CASE")?;
        let mut text = "SELECT CASE".to_owned();
        if !is_word(p.peek_token_ref(), "WHEN") {
            let span = parse::span_of(p)?;
            let _ = write!(text, " {}", self.text_of(span));
        }
        let (scope, at) = (self.scope, self.push(p, Op::Jump(0))?);
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        while take_word(p, "WHEN") {
            let span = parse::span_of(p)?;
            starts.push(self.here());
            let _ = write!(text, " WHEN {} THEN {}", self.text_of(span), starts.len());
            expect_word(p, "THEN")?;
            self.some_statements(p, &["WHEN", "ELSE", "END"])?;
            ends.push(self.push(p, Op::Jump(0))?);
        }
        if starts.is_empty() {
            return Err(Wrong::Syntax);
        }
        starts.push(self.here());
        if take_word(p, "ELSE") {
            self.some_statements(p, &["END"])?;
        } else {
            self.push(p, Op::NoBranch)?;
        }
        expect_word(p, "END")?;
        expect_word(p, "CASE")?;
        ends.into_iter().for_each(|end| self.land(end));
        let _ = write!(text, " ELSE {} END", starts.len());
        let value = self.fragment(FragmentKind::Value, text);
        self.code.fragments[value].scope = scope;
        self.code.ops[at] = Op::Branch { value, starts, behind: self.here() };
        Ok(())
    }

    /// LOOP
    pub(super) fn endless(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "LOOP")?;
        let start = self.here();
        self.some_statements(p, &["END"])?;
        self.push(p, Op::Jump(start))?;
        expect_word(p, "END")?;
        Ok(expect_word(p, "LOOP")?)
    }

    /// WHILE
    pub(super) fn while_loop(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "WHILE")?;
        let start = self.here();
        let condition = self.value(p)?;
        let test = self.push(p, Op::Unless { condition, to: 0, behind: 0 })?;
        expect_word(p, "DO")?;
        self.some_statements(p, &["END"])?;
        self.push(p, Op::Jump(start))?;
        expect_word(p, "END")?;
        expect_word(p, "WHILE")?;
        let here = self.here();
        self.code.ops[test] = Op::Unless { condition, to: here, behind: here };
        Ok(())
    }

    /// REPEAT
    pub(super) fn repeat(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "REPEAT")?;
        let start = self.here();
        self.some_statements(p, &["UNTIL"])?;
        expect_word(p, "UNTIL")?;
        let condition = self.value(p)?;
        let behind = self.here() + 1;
        self.push(p, Op::Unless { condition, to: start, behind })?;
        expect_word(p, "END")?;
        Ok(expect_word(p, "REPEAT")?)
    }

    /// `FOR i IN [REVERSE] low..high DO … END FOR`. The bounds are worked out once, the low one first.
    pub(super) fn counted(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "FOR")?;
        let name = identifier(p)?.value;
        expect_word(p, "IN")?;
        let reverse = take_word(p, "REVERSE");
        let (low, high) = self.bounds(p)?;
        let outer = self.scope;
        let (low, high) = (self.fragment(FragmentKind::Value, low), self.fragment(FragmentKind::Value, high));
        let (from, to) = (self.add_variable(&name, SqlType::bigint()), self.add_variable(LAST, SqlType::bigint()));
        [from, to].into_iter().for_each(|slot| self.code.variables[slot].nullable = false);
        let (first, last) = if reverse { (to, from) } else { (from, to) };
        self.push(p, Op::Assign { to: Place::Local(first), value: low })?;
        self.push(p, Op::Assign { to: Place::Local(last), value: high })?;
        let names = vec![(name.clone(), from), (LAST.to_owned(), to)];
        self.code.scopes.push(Scope { parent: Some(outer), names });
        self.scope = self.code.scopes.len() - 1;
        let (name, last) = (quoted(&name), quoted(LAST));
        let (compares, steps) = if reverse { (">=", "-") } else { ("<=", "+") };
        let start = self.here();
        let condition = self.fragment(FragmentKind::Value, format!("SELECT {name} {compares} {last}"));
        let test = self.push(p, Op::Unless { condition, to: 0, behind: 0 })?;
        expect_word(p, "DO")?;
        self.some_statements(p, &["END"])?;
        if let Some(Label { start: Some(Start::Behind(jumps)), .. }) = self.labels.last_mut() {
            let jumps = std::mem::take(jumps);
            jumps.into_iter().for_each(|jump| self.land(jump));
        }
        let next = self.fragment(FragmentKind::Value, format!("SELECT {name} {steps} 1"));
        self.push(p, Op::Assign { to: Place::Local(from), value: next })?;
        self.push(p, Op::Jump(start))?;
        expect_word(p, "END")?;
        expect_word(p, "FOR")?;
        let here = self.here();
        self.code.ops[test] = Op::Unless { condition, to: here, behind: here };
        self.scope = outer;
        Ok(())
    }

    /// The queries of `low..high` up to DO, whose points may be parts of numbers to the lexer.
    fn bounds(&mut self, p: &mut Parser) -> Read<(String, String)> {
        let from = p.peek_token_ref().span.start.column as usize;
        while !is_word(p.peek_token_ref(), "DO") {
            if matches!(p.peek_token_ref().token, Token::SemiColon | Token::EOF) {
                return Ok(unexpected(p)?);
            }
            p.advance_token();
        }
        let text = self.text_of((from, p.peek_token_ref().span.start.column as usize));
        let query = |text: &str| format!("SELECT {}", text.trim());
        for (at, _) in text.match_indices("..") {
            let (low, high) = (query(&text[..at]), query(&text[at + 2..]));
            if self.check(&low, from).is_ok() && self.check(&high, from).is_ok() {
                return Ok((low, high));
            }
        }
        Err(errors::unsupported("FOR loops over cursors").into())
    }

    /// LEAVE and ITERATE
    pub(super) fn jump(&mut self, p: &mut Parser, verb: &str) -> Read<()> {
        p.advance_token();
        let name = identifier(p)?.value;
        let is_it = |label: &Option<String>| label.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(&name));
        let found = self.labels.iter().rposition(|label| is_it(&label.name));
        let Some(found) = found else { return Err(errors::no_such_label(verb, &name).into()) };
        if verb == "LEAVE" {
            let jump = self.push(p, Op::Jump(0))?;
            self.labels[found].leaves.push(jump);
            return Ok(());
        }
        let start = match &self.labels[found].start {
            None => return Err(errors::no_such_label(verb, &name).into()),
            Some(Start::At(start)) => *start,
            Some(Start::Behind(_)) => 0,
        };
        let jump = self.push(p, Op::Jump(start))?;
        if let Some(Start::Behind(jumps)) = &mut self.labels[found].start {
            jumps.push(jump);
        }
        Ok(())
    }
}
