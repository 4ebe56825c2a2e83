//! Statements without statements in them: SET, queries, INSERT and its like, cursors, and what a program may not do.

use sqlparser::{
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use super::{Compiler, Kind, Read};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    parse::{
        self, Span, position_of_into,
        program::code::{FragmentKind, Op, Place},
    },
};

impl Compiler<'_> {
    /// SET
    pub(super) fn set(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "SET")?;
        loop {
            if self.is_of_session(p) {
                self.set_of_session(p)?;
                if !p.consume_token(&Token::Comma) {
                    return Ok(());
                }
                continue;
            }
            let to = self.assigned(p)?;
            if !p.consume_token(&Token::Eq) {
                p.expect_token(&Token::Assignment)?;
            }
            let value = self.value(p)?;
            self.push(p, Op::Assign { to, value })?;
            if !p.consume_token(&Token::Comma) {
                return Ok(());
            }
        }
    }

    /// Whether SET assigns to something else than variables of the program and of the user.
    fn is_of_session(&self, p: &Parser) -> bool {
        let (first, second) = (p.peek_token_ref(), &p.peek_nth_token_ref(1).token);
        if user_variable(first).is_some() {
            return false;
        }
        let Token::Word(word) = &first.token else { return true };
        let assigns = matches!(second, Token::Eq | Token::Assignment);
        match assigns {
            true => self.code.slot(self.scope, &word.value).is_none() && crate::system_variables::exists(&word.value),
            false => *second != Token::Period,
        }
    }

    /// One item of SET that is about the session, or what `SET NAMES` and its like say.
    fn set_of_session(&mut self, p: &mut Parser) -> Read<()> {
        let from = p.peek_token_ref().span.start.column as usize;
        let is_whole = ["NAMES", "CHARACTER", "CHARSET", "PASSWORD", "ROLE", "DEFAULT", "TRANSACTION", "STATEMENT"];
        let is_whole = is_whole.iter().any(|word| is_word(p.peek_token_ref(), word))
            || is_word(p.peek_nth_token_ref(1), "TRANSACTION");
        let to = if is_whole {
            self.to_semicolon(p).1
        } else {
            while !matches!(p.peek_token_ref().token, Token::Eq | Token::Assignment | Token::SemiColon | Token::EOF) {
                p.advance_token();
            }
            p.advance_token();
            let value = parse::span_of(p)?;
            let text = self.text_of(value);
            if self.code.slot(self.scope, &text).is_some() {
                // A word alone would be a value by itself.
                let text = format!("SET {}({text})", self.text_of((from, value.0)));
                return self.setting(p, text, from);
            }
            value.1
        };
        let text = format!("SET {}", self.text_of((from, to)));
        self.setting(p, text, from)
    }

    /// A statement that gives a system variable a value, or does something of the kind.
    fn setting(&mut self, p: &Parser, text: String, from: usize) -> Read<()> {
        let statement = self.check(&text, from)?;
        if self.kind != Kind::Procedure {
            if !matches!(statement, parse::Statement::Set(_)) {
                return Err(errors::unsupported("this form of SET in a trigger or function").into());
            }
            if let Some(error) = statement.refused_beneath(self.kind.shown()) {
                return Err(error.into());
            }
        }
        let statement = self.fragment(FragmentKind::Statement, text);
        self.push(p, Op::Run(statement))?;
        Ok(())
    }

    /// What SET assigns to.
    fn assigned(&mut self, p: &mut Parser) -> Read<Place> {
        if let Some(name) = user_variable(p.peek_token_ref()) {
            p.advance_token();
            return Ok(Place::User(name));
        }
        let name = identifier(p)?.value;
        if p.consume_token(&Token::Period) {
            let column = identifier(p)?.value;
            return match self.code.record(self.scope, &name) {
                Some(record) => Ok(Place::Local(self.field(record, &column))),
                None => self.column_of_row(&name, column),
            };
        }
        match self.code.slot(self.scope, &name) {
            Some(slot) => Ok(Place::Local(slot)),
            None => Err(errors::unknown_variable(name).into()),
        }
    }

    /// `NEW.column`
    fn column_of_row(&self, row: &str, column: String) -> Read<Place> {
        let Kind::Trigger { changes_new, has_new } = self.kind else {
            return Err(errors::unknown_structured_variable(row).into());
        };
        let (is_new, is_old) = (row.eq_ignore_ascii_case("NEW"), row.eq_ignore_ascii_case("OLD"));
        if is_old {
            return Err(errors::row_not_changed("OLD", "").into());
        }
        if is_new && !has_new {
            return Err(errors::no_such_row_in_trigger("NEW", "DELETE").into());
        }
        if !is_new {
            return Err(errors::unknown_structured_variable(row).into());
        }
        if !changes_new {
            return Err(errors::row_not_changed("NEW", "after ").into());
        }
        Ok(Place::New(column))
    }

    /// A query: with INTO, or for a client.
    pub(super) fn query(&mut self, p: &mut Parser) -> Read<()> {
        let first = p.index();
        let span = self.to_semicolon(p);
        let tokens = tokens_between(p, first);
        let Some((cut, places)) = self.places_of_into(&tokens)? else {
            let text = self.text_of(span);
            if self.kind == Kind::Procedure {
                return self.statement_at(p, span);
            }
            return match self.check(&text, span.0)? {
                parse::Statement::SelectIntoFile { .. } => {
                    Err(errors::unsupported("SELECT … INTO OUTFILE in a stored program").into())
                }
                _ => Err(errors::result_set_refused(self.kind.shown()).into()),
            };
        };
        let text = format!("{} {}", self.text_of((span.0, cut.0)), self.text_of((cut.1, span.1)));
        self.check(&text, span.0)?;
        let query = self.fragment(FragmentKind::Query, text);
        self.push(p, Op::Into { query, places })?;
        Ok(())
    }

    /// The places of SELECT … INTO, and where that stands.
    fn places_of_into(&self, tokens: &[TokenWithSpan]) -> Read<Option<(Span, Vec<Place>)>> {
        let Some(start) = position_of_into(tokens) else { return Ok(None) };
        if tokens.get(start + 1).is_some_and(|token| is_word(token, "OUTFILE") || is_word(token, "DUMPFILE")) {
            return Ok(None);
        }
        let (mut places, mut at) = (Vec::new(), start + 1);
        loop {
            let Some(token) = tokens.get(at) else { return Err(super::Wrong::Syntax) };
            places.push(match (&token.token, user_variable(token)) {
                (_, Some(name)) => Place::User(name),
                (Token::Word(word), None) => match self.code.slot(self.scope, &word.value) {
                    Some(slot) => Place::Local(slot),
                    None => return Err(errors::undeclared_variable(&word.value).into()),
                },
                _ => return Err(super::Wrong::Syntax),
            });
            if tokens.get(at + 1).is_none_or(|token| token.token != Token::Comma) {
                break;
            }
            at += 2;
        }
        let span = (tokens[start].span.start.column as usize, tokens[at].span.end.column as usize);
        Ok(Some((span, places)))
    }

    /// INSERT, UPDATE, DELETE, REPLACE
    pub(super) fn write(&mut self, p: &mut Parser) -> Read<()> {
        let span = self.to_semicolon(p);
        if self.kind == Kind::Procedure {
            return self.statement_at(p, span);
        }
        let text = self.text_of(span);
        let returns = match self.check(&text, span.0)? {
            parse::Statement::Insert(insert) => insert.returning.is_some(),
            parse::Statement::Delete(delete) => delete.returning.is_some(),
            parse::Statement::Update(_) => false,
            _ => return Err(errors::unsupported("this statement in a stored program").into()),
        };
        if returns {
            return Err(errors::result_set_refused(self.kind.shown()).into());
        }
        let write = self.fragment(FragmentKind::Write, text);
        self.push(p, Op::Run(write))?;
        Ok(())
    }

    /// A statement of a procedure as it stands.
    fn statement_at(&mut self, p: &Parser, span: Span) -> Read<()> {
        let text = self.text_of(span);
        match self.check(&text, span.0)? {
            parse::Statement::Use(_) => return Err(errors::refused_in_program("USE").into()),
            parse::Statement::Load(_) => return Err(errors::refused_in_program("LOAD DATA").into()),
            parse::Statement::LockTables(_) => return Err(errors::refused_in_program("LOCK").into()),
            parse::Statement::UnlockTables => return Err(errors::refused_in_program("UNLOCK").into()),
            parse::Statement::Admin { verb: "check", .. } => return Err(errors::refused_in_program("CHECK").into()),
            parse::Statement::CreateTrigger(_) => return Err(errors::nested_program("TRIGGER").into()),
            parse::Statement::Event(event) if event.body.is_some() => {
                return Err(errors::event_in_program().into());
            }
            parse::Statement::CreateRoutine(create) => {
                return Err(errors::nested_program(create.signature.kind.word()).into());
            }
            _ => {}
        }
        let statement = self.fragment(FragmentKind::Statement, text);
        self.push(p, Op::Run(statement))?;
        Ok(())
    }

    /// RETURN
    pub(super) fn return_value(&mut self, p: &mut Parser) -> Read<()> {
        if self.kind != Kind::Function {
            return Err(errors::return_outside_function().into());
        }
        p.advance_token();
        let value = self.value(p)?;
        self.push(p, Op::Return(value))?;
        Ok(())
    }

    /// DO
    pub(super) fn evaluate(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "DO")?;
        let from = p.peek_token_ref().span.start.column as usize;
        parse::comma_separated(p, |p| p.parse_expr())?;
        let to = p.get_current_token().span.end.column as usize;
        let query = self.fragment(FragmentKind::Query, format!("SELECT {}", self.text_of((from, to))));
        self.push(p, Op::Run(query))?;
        Ok(())
    }

    /// OPEN, FETCH, CLOSE
    pub(super) fn cursor_statement(&mut self, p: &mut Parser, verb: &str) -> Read<()> {
        p.advance_token();
        if verb == "FETCH" && !take_words(p, &["NEXT", "FROM"]) {
            take_word(p, "FROM");
        }
        let name = identifier(p)?.value;
        let cursor = self.cursor_named(&name)?;
        let op = match verb {
            "OPEN" => {
                self.cursor_arguments(p, &name, cursor)?;
                Op::Open { cursor, record: None }
            }
            "CLOSE" => Op::Close(cursor),
            _ => {
                expect_word(p, "INTO")?;
                let names = parse::comma_separated(p, |p| Ok(identifier(p)?.value))?;
                let slots = names.iter().map(|name| match self.code.slot(self.scope, name) {
                    Some(slot) => Ok(Place::Local(slot)),
                    None => Err(errors::undeclared_variable(name)),
                });
                Op::Fetch { cursor, places: slots.collect::<Result<_, _>>()? }
            }
        };
        self.push(p, op)?;
        Ok(())
    }

    /// What OPEN gives the parameters of a cursor.
    pub(super) fn cursor_arguments(&mut self, p: &mut Parser, name: &str, cursor: usize) -> Read<()> {
        let mut values = Vec::new();
        if p.consume_token(&Token::LParen) {
            while p.peek_token_ref().token != Token::RParen {
                if !values.is_empty() {
                    p.expect_token(&Token::Comma)?;
                }
                values.push(self.value(p)?);
            }
            p.expect_token(&Token::RParen)?;
        }
        let params = self.code.cursors[cursor].params.clone();
        if params.len() != values.len() {
            return Err(errors::wrong_cursor_arguments(name).into());
        }
        for (slot, value) in params.into_iter().zip(values) {
            self.push(p, Op::Assign { to: Place::Local(slot), value })?;
        }
        Ok(())
    }

    /// Statements that a trigger must not hold, by MariaDB's errors; others are refused by name. A procedure may hold nearly all.
    pub(super) fn other(&mut self, p: &mut Parser, verb: &str) -> Read<()> {
        if self.kind == Kind::Procedure {
            let span = self.to_semicolon(p);
            return self.statement_at(p, span);
        }
        let made = ["FUNCTION", "PROCEDURE", "TRIGGER"];
        let ahead = (1..=8).map(|index| p.peek_nth_token_ref(index));
        let made = ahead.filter_map(|token| made.iter().find(|word| is_word(token, word))).next();
        if let ("CREATE", Some(kind)) = (verb, made) {
            return Err(errors::nested_program(*kind).into());
        }
        let is_to_savepoint = is_word(p.peek_nth_token_ref(1), "TO") || is_word(p.peek_nth_token_ref(2), "TO");
        let error = match verb {
            "ROLLBACK" if is_to_savepoint => errors::unsupported(format!("savepoints in {}", self.kind.shown())),
            "COMMIT" | "ROLLBACK" | "START" | "CREATE" | "DROP" | "ALTER" | "TRUNCATE" | "RENAME" | "GRANT"
            | "REVOKE" | "ANALYZE" | "OPTIMIZE" | "REPAIR" => errors::commit_in_trigger(),
            "PREPARE" | "EXECUTE" | "DEALLOCATE" => errors::refused_in_trigger("Dynamic SQL"),
            "FLUSH" | "RESET" => errors::refused_in_trigger(verb),
            "SHOW" | "EXPLAIN" | "DESCRIBE" | "DESC" | "CHECKSUM" => errors::result_set_refused(self.kind.shown()),
            "CHECK" => errors::refused_in_program("CHECK"),
            "LOCK" | "UNLOCK" => errors::refused_in_program("LOCK"),
            "USE" => errors::refused_in_program("USE"),
            "LOAD" => errors::refused_in_program("LOAD DATA"),
            "CALL" => {
                let span = self.to_semicolon(p);
                return self.statement_at(p, span);
            }
            "SAVEPOINT" | "RELEASE" | "KILL" | "HANDLER" | "XA" | "HELP" | "VALUES" => {
                errors::unsupported(format!("{verb} in a stored program"))
            }
            _ => return Ok(unexpected(p)?),
        };
        Err(error.into())
    }
}

/// The name of a user variable.
pub(super) fn user_variable(token: &TokenWithSpan) -> Option<String> {
    let Token::DollarQuotedString(variable) = &token.token else { return None };
    let name = variable.value.strip_prefix('@').filter(|name| !name.starts_with('@'))?;
    Some(name.trim_matches(['`', '\'', '"']).to_owned())
}

/// The tokens that the parser has taken since it stood at `first`.
fn tokens_between(p: &Parser, first: usize) -> Vec<TokenWithSpan> {
    (first..p.index()).map(|index| p.token_at(index).clone()).collect()
}
