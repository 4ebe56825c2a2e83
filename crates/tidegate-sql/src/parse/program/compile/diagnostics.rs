//! GET DIAGNOSTICS.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Compiler, Read, simple::user_variable};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, unexpected},
    errors,
    parse::program::code::{Diagnostics, DiagnosticsItem, Op, Place},
};

impl Compiler<'_> {
    /// `GET [CURRENT] DIAGNOSTICS [CONDITION number] place = item, …`
    pub(super) fn diagnostics(&mut self, p: &mut Parser) -> Read<()> {
        p.advance_token();
        if is_word(p.peek_token_ref(), "STACKED") {
            return Err(errors::unsupported("GET STACKED DIAGNOSTICS").into());
        }
        take_word(p, "CURRENT");
        expect_word(p, "DIAGNOSTICS")?;
        let condition = if take_word(p, "CONDITION") { Some(self.value(p)?) } else { None };
        let mut items = Vec::new();
        loop {
            let place = self.diagnostics_place(p)?;
            p.expect_token(&Token::Eq)?;
            items.push((place, diagnostics_item(p, condition.is_some())?));
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        self.push(p, Op::Diagnostics(Box::new(Diagnostics { condition, items })))?;
        Ok(())
    }

    fn diagnostics_place(&self, p: &mut Parser) -> Read<Place> {
        if let Some(name) = user_variable(p.peek_token_ref()) {
            p.advance_token();
            return Ok(Place::User(name));
        }
        let name = identifier(p)?.value;
        match self.code.slot(self.scope, &name) {
            Some(slot) => Ok(Place::Local(slot)),
            None => Err(errors::undeclared_variable(&name).into()),
        }
    }
}

/// Source: MariaDB's documentation, "GET DIAGNOSTICS".
fn diagnostics_item(p: &mut Parser, of_condition: bool) -> Read<DiagnosticsItem> {
    let Token::Word(word) = &p.peek_token_ref().token else { return Ok(unexpected(p)?) };
    let item = match (word.value.to_ascii_uppercase().as_str(), of_condition) {
        ("NUMBER", false) => DiagnosticsItem::Number,
        ("ROW_COUNT", false) => DiagnosticsItem::RowCount,
        ("RETURNED_SQLSTATE", true) => DiagnosticsItem::State,
        ("MYSQL_ERRNO", true) => DiagnosticsItem::Errno,
        ("MESSAGE_TEXT", true) => DiagnosticsItem::Message,
        (
            "CLASS_ORIGIN" | "SUBCLASS_ORIGIN" | "CONSTRAINT_CATALOG" | "CONSTRAINT_SCHEMA" | "CONSTRAINT_NAME"
            | "CATALOG_NAME" | "SCHEMA_NAME" | "TABLE_NAME" | "COLUMN_NAME" | "CURSOR_NAME" | "ROW_NUMBER",
            true,
        ) => DiagnosticsItem::Nothing,
        _ => return Ok(unexpected(p)?),
    };
    p.advance_token();
    Ok(item)
}
