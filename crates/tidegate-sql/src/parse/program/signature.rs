//! The head of a stored procedure: its name, its parameters, and what is said of it.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    code::Code,
    compile::{self, Kind, Reading, Wrong},
};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    parse::{self, Span, TableName, account::Who},
    value::SqlType,
};

/// CREATE PROCEDURE.
#[derive(Debug, Clone)]
pub(crate) struct CreateRoutine {
    pub(crate) or_replace: bool,
    pub(crate) definer: Option<Who>,
    pub(crate) signature: Signature,
    /// From the word PROCEDURE on.
    pub(crate) text: String,
}

/// What stands in front of a procedure's body.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) if_not_exists: bool,
    pub(crate) name: TableName,
    /// Their variables are the first ones of the program, in this order.
    pub(crate) params: Vec<Parameter>,
    /// Where the parameters stand, without their parentheses.
    pub(crate) params_at: Span,
    pub(crate) says: Says,
    /// Where the body begins.
    pub(crate) body: usize,
}

/// A parameter.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) ty: SqlType,
}

/// Which way the value of a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    In,
    Out,
    InOut,
}

/// The characteristics. Only the security changes what a procedure does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Says {
    pub(crate) is_deterministic: bool,
    /// `NO SQL`, `READS SQL DATA`, `MODIFIES SQL DATA`; `None` for CONTAINS SQL.
    pub(crate) data_access: Option<&'static str>,
    /// SQL SECURITY INVOKER.
    pub(crate) as_invoker: bool,
    pub(crate) comment: String,
}

impl Mode {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::In => "IN",
            Self::Out => "OUT",
            Self::InOut => "INOUT",
        }
    }
}

/// Reads a procedure, from the word PROCEDURE on.
pub(super) fn procedure(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<(Signature, Code), Wrong> {
    expect_word(p, "PROCEDURE")?;
    let if_not_exists = take_words(p, &["IF", "NOT", "EXISTS"]);
    let name = parse::table_name(p)?;
    p.expect_token(&Token::LParen)?;
    let from = p.get_current_token().span.end.column as usize;
    let params = parameters(p, reading)?;
    let params_at = (from, p.peek_token_ref().span.start.column as usize);
    p.expect_token(&Token::RParen)?;
    let says = says(p)?;
    let body = p.peek_token_ref().span.start.column as usize;
    let variables = params.iter().map(|param| (param.name.clone(), param.ty.clone())).collect();
    let code = compile::body(p, sql, Kind::Procedure, reading, variables)?;
    Ok((Signature { if_not_exists, name, params, params_at, says, body }, code))
}

fn parameters(p: &mut Parser, reading: Reading) -> Result<Vec<Parameter>, Wrong> {
    let mut params: Vec<Parameter> = Vec::new();
    while p.peek_token_ref().token != Token::RParen {
        if !params.is_empty() {
            p.expect_token(&Token::Comma)?;
        }
        let modes = [("INOUT", Mode::InOut), ("IN", Mode::In), ("OUT", Mode::Out)];
        let mode = modes.into_iter().find(|(word, _)| take_word(p, word)).map_or(Mode::In, |(_, mode)| mode);
        let name = identifier(p)?.value;
        let ty = parse::column::variable_type(p, reading.collation)??;
        if params.iter().any(|known| crate::column::same_name(&known.name, &name)) {
            return Err(errors::duplicate_parameter(&name).into());
        }
        params.push(Parameter { name, mode, ty });
    }
    Ok(params)
}

fn says(p: &mut Parser) -> Result<Says, Wrong> {
    let mut says = Says::default();
    loop {
        if take_word(p, "COMMENT") {
            says.comment = parse::word_or_string(p)?;
        } else if take_word(p, "LANGUAGE") {
            expect_word(p, "SQL")?;
        } else if take_word(p, "DETERMINISTIC") {
            says.is_deterministic = true;
        } else if take_words(p, &["NOT", "DETERMINISTIC"]) {
            says.is_deterministic = false;
        } else if take_words(p, &["CONTAINS", "SQL"]) {
            says.data_access = None;
        } else if take_words(p, &["NO", "SQL"]) {
            says.data_access = Some("NO SQL");
        } else if take_words(p, &["READS", "SQL", "DATA"]) {
            says.data_access = Some("READS SQL DATA");
        } else if take_words(p, &["MODIFIES", "SQL", "DATA"]) {
            says.data_access = Some("MODIFIES SQL DATA");
        } else if is_word(p.peek_token_ref(), "SQL") && is_word(p.peek_nth_token_ref(1), "SECURITY") {
            take_words(p, &["SQL", "SECURITY"]);
            says.as_invoker = take_word(p, "INVOKER");
            if !says.as_invoker && !take_word(p, "DEFINER") {
                return Ok(unexpected(p)?);
            }
        } else {
            return Ok(says);
        }
    }
}
