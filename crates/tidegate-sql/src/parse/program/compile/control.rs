//! IF, CASE, loops, LEAVE and ITERATE.

use std::fmt::Write;

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Read, Wrong};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word},
    errors,
    parse::{
        self,
        program::code::{FragmentKind, Op},
    },
};

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
        let Some(start) = self.labels[found].start else { return Err(errors::no_such_label(verb, &name).into()) };
        self.push(p, Op::Jump(start))?;
        Ok(())
    }
}
