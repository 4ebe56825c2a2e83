//! BEGIN … END and what it declares.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Declared, Read};
use crate::{
    column::Column,
    dialect::{expect_word, identifier, is_word, take_word, take_words},
    errors,
    parse::{
        self,
        program::code::{Cursor, FragmentKind, Handler, Op, Place, Range, Scope},
    },
    value::SqlType,
};

/// What has been declared last in a block: kinds of declarations have an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Variables,
    Cursors,
    Handlers,
}

/// What of a block is known when it ends.
#[derive(Default)]
struct Ends {
    cursors: Vec<usize>,
    handlers: Vec<usize>,
    /// Jumps of EXIT handlers.
    exits: Vec<usize>,
}

impl Compiler<'_> {
    /// BEGIN … END, without the label behind it.
    pub(super) fn block(&mut self, p: &mut Parser) -> Read<()> {
        expect_word(p, "BEGIN")?;
        // No block is atomic.
        take_words(p, &["NOT", "ATOMIC"]);
        let (outer, from) = (self.scope, self.here());
        self.blocks.push(Declared::default());
        let (mut stage, mut ends) = (Stage::Variables, Ends::default());
        while take_word(p, "DECLARE") {
            stage = self.declare(p, stage, &mut ends)?;
            p.expect_token(&Token::SemiColon)?;
        }
        let start = self.here();
        self.statements(p, &["END"])?;
        expect_word(p, "END")?;
        let end = self.push(p, Op::EndBlock)?;
        for exit in ends.exits {
            self.code.ops[exit] = Op::Jump(end);
        }
        for handler in ends.handlers {
            let handler = &mut self.code.handlers[handler];
            handler.within = Range { from: start, to: end };
            handler.exit = handler.exit.map(|_| end);
        }
        for cursor in ends.cursors {
            self.code.cursors[cursor].within = Range { from, to: end };
        }
        self.blocks.pop();
        self.scope = outer;
        Ok(())
    }

    fn declared(&mut self) -> &mut Declared {
        if self.blocks.is_empty() {
            self.blocks.push(Declared::default());
        }
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    /// A declaration, behind its first word.
    fn declare(&mut self, p: &mut Parser, stage: Stage, ends: &mut Ends) -> Read<Stage> {
        let action = ["CONTINUE", "EXIT", "UNDO"].into_iter().find(|word| is_word(p.peek_token_ref(), word));
        if let Some(action) = action.filter(|_| is_word(p.peek_nth_token_ref(1), "HANDLER")) {
            take_words(p, &[action, "HANDLER"]);
            if action == "UNDO" {
                return Err(errors::unsupported("UNDO handlers").into());
            }
            self.handler(p, action == "EXIT", ends)?;
            return Ok(Stage::Handlers);
        }
        if is_word(p.peek_nth_token_ref(1), "CURSOR") {
            if stage > Stage::Cursors {
                return Err(errors::cursor_after_handler().into());
            }
            ends.cursors.push(self.cursor(p)?);
            return Ok(Stage::Cursors);
        }
        if stage > Stage::Variables {
            return Err(errors::variable_after_cursor().into());
        }
        if is_word(p.peek_nth_token_ref(1), "CONDITION") {
            let name = identifier(p)?.value;
            take_word(p, "CONDITION");
            expect_word(p, "FOR")?;
            let condition = self.plain_condition(p)?;
            if self.declared().conditions.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                return Err(errors::duplicate_condition(&name).into());
            }
            self.declared().conditions.push((name, condition));
            return Ok(stage);
        }
        self.variables(p)?;
        Ok(stage)
    }

    /// `a, b INT DEFAULT 1`
    fn variables(&mut self, p: &mut Parser) -> Read<()> {
        let names = parse::comma_separated(p, |p| Ok(identifier(p)?.value))?;
        let ty = parse::column::variable_type(p, self.reading.collation)??;
        let has_default = take_word(p, "DEFAULT") || p.consume_token(&Token::Assignment);
        // The expression does not see the variables themselves.
        let default = if has_default { Some(self.value(p)?) } else { None };
        let mut scope = Scope { parent: Some(self.scope), ..Scope::default() };
        for name in names {
            let is_known = self.declared().variables.iter().any(|known| crate::column::same_name(known, &name));
            if is_known {
                return Err(errors::duplicate_variable(&name).into());
            }
            self.declared().variables.push(name.clone());
            let slot = self.add_variable(&name, ty.clone());
            scope.names.push((name, slot));
            let op = match default {
                Some(value) => Op::Assign { to: Place::Local(slot), value },
                None => Op::Clear(slot),
            };
            self.push(p, op)?;
        }
        self.code.scopes.push(scope);
        self.scope = self.code.scopes.len() - 1;
        Ok(())
    }

    /// A local variable; answers its slot.
    pub(super) fn add_variable(&mut self, name: &str, ty: SqlType) -> usize {
        let slot = self.code.variables.len();
        self.code.variables.push(Column::variable(slot as u32 + 1, name, ty));
        slot
    }

    fn cursor(&mut self, p: &mut Parser) -> Read<usize> {
        let name = identifier(p)?.value;
        expect_word(p, "CURSOR")?;
        let (outer, params) = (self.scope, self.cursor_parameters(p)?);
        expect_word(p, "FOR")?;
        if self.declared().cursors.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            return Err(errors::duplicate_cursor(&name).into());
        }
        let span = self.to_semicolon(p);
        let cursor = self.cursor_of(self.text_of(span), span.0, params)?;
        self.scope = outer;
        self.declared().cursors.push((name, cursor));
        Ok(cursor)
    }

    /// A cursor for the query of a text, which stands at `at` in the program's. Its operations are not known yet.
    pub(super) fn cursor_of(&mut self, text: String, at: usize, params: Vec<usize>) -> Read<usize> {
        match self.check(&text, at)? {
            parse::Statement::Query(_) => {}
            parse::Statement::SelectInto { .. } | parse::Statement::SelectIntoFile { .. } => {
                return Err(errors::cursor_into().into());
            }
            _ => return Err(errors::cursor_of_no_query().into()),
        }
        let query = self.fragment(FragmentKind::Query, text);
        self.code.cursors.push(Cursor { query, params, within: Range { from: 0, to: 0 } });
        Ok(self.code.cursors.len() - 1)
    }

    /// The parameters of a cursor, which its query alone knows: the scope is that of the query from now on.
    fn cursor_parameters(&mut self, p: &mut Parser) -> Read<Vec<usize>> {
        let mut scope = Scope { parent: Some(self.scope), ..Scope::default() };
        if !p.consume_token(&Token::LParen) {
            return Ok(Vec::new());
        }
        loop {
            let name = identifier(p)?.value;
            let ty = parse::column::variable_type(p, self.reading.collation)??;
            if scope.names.iter().any(|(known, _)| crate::column::same_name(known, &name)) {
                return Err(errors::duplicate_parameter(&name).into());
            }
            let slot = self.add_variable(&name, ty);
            scope.names.push((name, slot));
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        p.expect_token(&Token::RParen)?;
        let params = scope.names.iter().map(|(_, slot)| *slot).collect();
        self.code.scopes.push(scope);
        self.scope = self.code.scopes.len() - 1;
        Ok(params)
    }

    /// A handler, behind this word.
    fn handler(&mut self, p: &mut Parser, exits: bool, ends: &mut Ends) -> Read<()> {
        expect_word(p, "FOR")?;
        let mut conditions = Vec::new();
        loop {
            let condition = self.condition(p)?;
            if self.declared().handled.contains(&condition) {
                return Err(errors::duplicate_handler().into());
            }
            self.declared().handled.push(condition.clone());
            conditions.push(condition);
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        let over = self.push(p, Op::Jump(0))?;
        let from = self.here();
        // A handler cannot leave what is around it by a label.
        let labels = std::mem::take(&mut self.labels);
        let depth = self.blocks.len();
        self.statement(p)?;
        self.labels = labels;
        let last = self.push(p, if exits { Op::Jump(0) } else { Op::EndHandler })?;
        if exits {
            ends.exits.push(last);
        }
        self.land(over);
        let body = Range { from, to: self.here() };
        let within = Range { from: 0, to: 0 };
        ends.handlers.push(self.code.handlers.len());
        self.code.handlers.push(Handler { conditions, within, body, depth, exit: exits.then_some(0) });
        Ok(())
    }

    /// The cursor of a name.
    ///
    /// # Errors
    /// 1324
    pub(super) fn cursor_named(&self, name: &str) -> Read<usize> {
        let all = self.blocks.iter().rev().flat_map(|block| &block.cursors);
        let mut found = all.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, cursor)| *cursor);
        found.next().ok_or_else(|| errors::undefined_cursor(name).into())
    }
}
