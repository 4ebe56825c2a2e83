//! IF, CASE, loops, LEAVE and ITERATE.

use std::fmt::Write;

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Label, Read, Start, Wrong};
use crate::{
    column::same_name,
    dialect::{expect_word, identifier, is_word, take_word, unexpected},
    errors,
    identifier::quoted,
    parse::{
        self,
        program::code::{FragmentKind, Op, Place, Range, Record, Scope},
    },
    value::{Base, SqlType},
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

    /// FOR: over numbers or over the rows of a cursor. Answers the cursor that is to be closed behind it.
    pub(super) fn for_loop(&mut self, p: &mut Parser) -> Read<Option<usize>> {
        expect_word(p, "FOR")?;
        let name = identifier(p)?.value;
        expect_word(p, "IN")?;
        let reverse = take_word(p, "REVERSE");
        let (first, from) = (p.index(), p.peek_token_ref().span.start.column as usize);
        let text = self.text_to_do(p, from)?;
        if let Some(bounds) = self.bounds(&text, from) {
            self.counted(p, &name, reverse, bounds)?;
            return Ok(None);
        }
        let start = self.here();
        let query = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        if let Some(query) = query.filter(|query| begins_query(query)) {
            let cursor = self.cursor_of(query.to_owned(), from, Vec::new())?;
            self.over_rows(p, name, cursor)?;
            self.code.cursors[cursor].within = Range { from: start, to: self.here() };
            return Ok(None);
        }
        // Once more, for the name of a cursor and its arguments.
        while p.index() > first {
            p.prev_token();
        }
        let known = identifier(p)?.value;
        let cursor = self.cursor_named(&known).map_err(|_| errors::undeclared_variable(&known))?;
        self.cursor_arguments(p, &known, cursor)?;
        self.over_rows(p, name, cursor)?;
        Ok(Some(cursor))
    }

    /// `DO … END FOR` for each row of a cursor, whose columns are fields of a record of this name.
    fn over_rows(&mut self, p: &mut Parser, name: String, cursor: usize) -> Read<()> {
        let (outer, record) = (self.scope, self.code.records.len());
        self.code.records.push(Record { name, cursor, fields: Vec::new() });
        self.push(p, Op::Open { cursor, record: Some(record) })?;
        let fetch = self.push(p, Op::FetchRecord { record, behind: 0 })?;
        if let Some(label) = self.labels.last_mut() {
            label.start = Some(Start::At(fetch));
        }
        self.code.scopes.push(Scope { parent: Some(outer), names: Vec::new(), record: Some(record) });
        self.scope = self.code.scopes.len() - 1;
        expect_word(p, "DO")?;
        let first = p.index();
        self.some_statements(p, &["END"])?;
        self.name_fields(p, first, record);
        self.push(p, Op::Jump(fetch))?;
        expect_word(p, "END")?;
        expect_word(p, "FOR")?;
        self.code.ops[fetch] = Op::FetchRecord { record, behind: self.here() };
        self.scope = outer;
        Ok(())
    }

    /// Gives slots to the fields of a record that the tokens since `first` name.
    fn name_fields(&mut self, p: &Parser, first: usize, record: usize) {
        let tokens = (first..p.index()).map(|index| &p.token_at(index).token);
        let mut last = [&Token::EOF, &Token::EOF];
        for token in tokens.filter(|token| !matches!(token, Token::Whitespace(_))) {
            if let ([Token::Word(row), Token::Period], Token::Word(field)) = (last, token)
                && same_name(&row.value, &self.code.records[record].name)
            {
                self.field(record, &field.value);
            }
            last = [last[1], token];
        }
    }

    /// The slot of a field of a record.
    pub(super) fn field(&mut self, record: usize, name: &str) -> usize {
        self.code.field(record, name).unwrap_or_else(|| {
            // Its type is that of the column, which the query knows when it runs.
            let slot = self.add_variable(name, SqlType::new(Base::Null));
            self.code.records[record].fields.push((name.to_owned(), slot));
            slot
        })
    }

    /// `DO … END FOR` for each number between two bounds, which are worked out once, the low one first.
    fn counted(&mut self, p: &mut Parser, name: &str, reverse: bool, (low, high): (String, String)) -> Read<()> {
        let outer = self.scope;
        let (low, high) = (self.fragment(FragmentKind::Value, low), self.fragment(FragmentKind::Value, high));
        let (from, to) = (self.add_variable(name, SqlType::bigint()), self.add_variable(LAST, SqlType::bigint()));
        [from, to].into_iter().for_each(|slot| self.code.variables[slot].nullable = false);
        let (first, last) = if reverse { (to, from) } else { (from, to) };
        self.push(p, Op::Assign { to: Place::Local(first), value: low })?;
        self.push(p, Op::Assign { to: Place::Local(last), value: high })?;
        let names = vec![(name.to_owned(), from), (LAST.to_owned(), to)];
        self.code.scopes.push(Scope { parent: Some(outer), names, record: None });
        self.scope = self.code.scopes.len() - 1;
        let (name, last) = (quoted(name), quoted(LAST));
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

    /// The text up to DO, which is not taken.
    fn text_to_do(&self, p: &mut Parser, from: usize) -> Read<String> {
        while !is_word(p.peek_token_ref(), "DO") {
            if matches!(p.peek_token_ref().token, Token::SemiColon | Token::EOF) {
                return Ok(unexpected(p)?);
            }
            p.advance_token();
        }
        Ok(self.text_of((from, p.peek_token_ref().span.start.column as usize)))
    }

    /// The queries of `low..high`, whose points may be parts of numbers to the lexer; `None` for anything else.
    fn bounds(&self, text: &str, from: usize) -> Option<(String, String)> {
        let query = |text: &str| format!("SELECT {}", text.trim());
        text.match_indices("..")
            .map(|(at, _)| (query(&text[..at]), query(&text[at + 2..])))
            .find(|(low, high)| self.check(low, from).is_ok() && self.check(high, from).is_ok())
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

/// Whether a text is a query by its first word.
fn begins_query(text: &str) -> bool {
    let word = text.trim_start().split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    text.trim_start().starts_with('(')
        || ["SELECT", "WITH", "VALUES"].iter().any(|known| word.eq_ignore_ascii_case(known))
}
