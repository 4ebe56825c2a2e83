//! The head of a stored procedure or function: its name, its parameters, and what is said of it.

use sqlparser::{
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    code::{Code, Op},
    compile::{self, Kind, Reading, Wrong},
};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    parse::{self, Span, TableName, account::Who},
    value::SqlType,
};

/// CREATE PROCEDURE and CREATE FUNCTION.
#[derive(Debug, Clone)]
pub(crate) struct CreateRoutine {
    pub(crate) or_replace: bool,
    pub(crate) definer: Option<Who>,
    pub(crate) signature: Signature,
    /// From the word PROCEDURE or FUNCTION on.
    pub(crate) text: String,
}

/// What a routine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RoutineKind {
    Procedure,
    Function,
}

/// What ALTER says of a characteristic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SaysChange {
    DataAccess(Option<&'static str>),
    AsInvoker(bool),
    Comment(String),
}

/// What stands in front of a routine's body.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    pub(crate) kind: RoutineKind,
    pub(crate) if_not_exists: bool,
    pub(crate) name: TableName,
    /// Their variables are the first ones of the program, in this order.
    pub(crate) params: Vec<Parameter>,
    /// Where the parameters stand, without their parentheses.
    pub(crate) params_at: Span,
    /// What a function returns, and where that is said.
    pub(crate) returns: Option<(SqlType, Span)>,
    pub(crate) says: Says,
    /// Where the characteristics begin, which reach to the body.
    pub(crate) says_from: usize,
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

/// The characteristics. Only the security changes what a routine does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Says {
    pub(crate) is_deterministic: bool,
    /// `NO SQL`, `READS SQL DATA`, `MODIFIES SQL DATA`; `None` for CONTAINS SQL.
    pub(crate) data_access: Option<&'static str>,
    /// SQL SECURITY INVOKER.
    pub(crate) as_invoker: bool,
    pub(crate) comment: String,
}

impl RoutineKind {
    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Procedure => "PROCEDURE",
            Self::Function => "FUNCTION",
        }
    }

    /// The kind of a word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [Self::Procedure, Self::Function].into_iter().find(|kind| kind.word() == word)
    }
}

impl Says {
    /// With what ALTER says.
    pub(crate) fn changed(mut self, changes: &[SaysChange]) -> Self {
        for change in changes {
            match change {
                SaysChange::DataAccess(access) => self.data_access = *access,
                SaysChange::AsInvoker(as_invoker) => self.as_invoker = *as_invoker,
                SaysChange::Comment(comment) => self.comment.clone_from(comment),
            }
        }
        self
    }

    /// What is not as usual, but for the comment.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        let words = [self.data_access, self.is_deterministic.then_some("DETERMINISTIC")];
        words.into_iter().chain([self.as_invoker.then_some("SQL SECURITY INVOKER")]).flatten()
    }
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

/// Reads a procedure or function, from this word on.
pub(super) fn routine(p: &mut Parser, sql: &[u8], reading: Reading) -> Result<(Signature, Code), Wrong> {
    let kind = match take_word(p, "FUNCTION") {
        true => RoutineKind::Function,
        false => RoutineKind::Procedure,
    };
    if kind == RoutineKind::Procedure {
        expect_word(p, "PROCEDURE")?;
    }
    let if_not_exists = take_words(p, &["IF", "NOT", "EXISTS"]);
    let name = parse::table_name(p)?;
    p.expect_token(&Token::LParen)?;
    let from = p.get_current_token().span.end.column as usize;
    let params = parameters(p, kind, reading)?;
    let params_at = (from, p.peek_token_ref().span.start.column as usize);
    p.expect_token(&Token::RParen)?;
    let mut says_from = p.get_current_token().span.end.column as usize;
    let mut returns = None;
    if kind == RoutineKind::Function {
        expect_word(p, "RETURNS")?;
        let from = p.peek_token_ref().span.start.column as usize;
        let ty = parse::column::variable_type(p, reading.collation)??;
        says_from = p.get_current_token().span.end.column as usize;
        returns = Some((ty, (from, says_from)));
    }
    let says = says(p)?;
    let body = p.peek_token_ref().span.start.column as usize;
    let variables = params.iter().map(|param| (param.name.clone(), param.ty.clone())).collect();
    let program = if kind == RoutineKind::Function { Kind::Function } else { Kind::Procedure };
    let result = format!("{}()", name.name);
    let ty = returns.as_ref().map(|(ty, _)| (result.as_str(), ty.clone()));
    let mut code = compile::body(p, sql, program, reading, variables, ty)?;
    code.name.clone_from(&name.name);
    let has_return = code.ops.iter().any(|op| matches!(op, Op::Return(_)));
    if kind == RoutineKind::Function && !has_return {
        return Err(errors::no_return(&name.name).into());
    }
    Ok((Signature { kind, if_not_exists, name, params, params_at, returns, says, says_from, body }, code))
}

fn parameters(p: &mut Parser, kind: RoutineKind, reading: Reading) -> Result<Vec<Parameter>, Wrong> {
    let mut params: Vec<Parameter> = Vec::new();
    while p.peek_token_ref().token != Token::RParen {
        if !params.is_empty() {
            p.expect_token(&Token::Comma)?;
        }
        let modes = [("INOUT", Mode::InOut), ("IN", Mode::In), ("OUT", Mode::Out)];
        let mode = modes.into_iter().find(|(word, _)| take_word(p, word)).map_or(Mode::In, |(_, mode)| mode);
        if kind == RoutineKind::Function && mode != Mode::In {
            return Err(errors::unsupported("OUT and INOUT parameters of functions").into());
        }
        let name = identifier(p)?.value;
        let ty = parse::column::variable_type(p, reading.collation)??;
        if params.iter().any(|known| crate::column::same_name(&known.name, &name)) {
            return Err(errors::duplicate_parameter(&name).into());
        }
        params.push(Parameter { name, mode, ty });
    }
    Ok(params)
}

fn says(p: &mut Parser) -> Result<Says, ParserError> {
    let mut says = Says::default();
    loop {
        if let Some(change) = change(p)? {
            says = says.changed(&[change]);
        } else if take_word(p, "LANGUAGE") {
            expect_word(p, "SQL")?;
        } else if take_word(p, "DETERMINISTIC") {
            says.is_deterministic = true;
        } else if take_words(p, &["NOT", "DETERMINISTIC"]) {
            says.is_deterministic = false;
        } else {
            return Ok(says);
        }
    }
}

/// What ALTER says, behind the name.
pub(crate) fn changes(p: &mut Parser) -> Result<Vec<SaysChange>, ParserError> {
    let mut changes = Vec::new();
    loop {
        if take_word(p, "LANGUAGE") {
            expect_word(p, "SQL")?;
        }
        match change(p)? {
            Some(change) => changes.push(change),
            None => return Ok(changes),
        }
    }
}

fn change(p: &mut Parser) -> Result<Option<SaysChange>, ParserError> {
    const ACCESS: [(&[&str], Option<&str>); 4] = [
        (&["CONTAINS", "SQL"], None),
        (&["NO", "SQL"], Some("NO SQL")),
        (&["READS", "SQL", "DATA"], Some("READS SQL DATA")),
        (&["MODIFIES", "SQL", "DATA"], Some("MODIFIES SQL DATA")),
    ];
    if take_word(p, "COMMENT") {
        return Ok(Some(SaysChange::Comment(parse::word_or_string(p)?)));
    }
    if let Some((_, access)) = ACCESS.iter().find(|(words, _)| take_words(p, words)) {
        return Ok(Some(SaysChange::DataAccess(*access)));
    }
    if is_word(p.peek_token_ref(), "SQL") && is_word(p.peek_nth_token_ref(1), "SECURITY") {
        take_words(p, &["SQL", "SECURITY"]);
        let as_invoker = take_word(p, "INVOKER");
        if !as_invoker && !take_word(p, "DEFINER") {
            return unexpected(p);
        }
        return Ok(Some(SaysChange::AsInvoker(as_invoker)));
    }
    Ok(None)
}
