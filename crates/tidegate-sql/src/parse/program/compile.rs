//! The body of a stored program: from the grammar of compound statements to [`Code`].
//!
//! Expressions and statements of SQL are read for their places in the text, so that what is wrong with their form is told when
//! the program is defined; what their names mean is asked when it runs.

mod blocks;
mod conditions;
mod control;
mod diagnostics;
mod simple;

use sqlparser::{
    parser::{Parser, ParserError},
    tokenizer::Token,
};
use tidegate_rows::ServerError;

use super::code::{Code, Condition, Fragment, FragmentId, FragmentKind, Op, Scope, next_number};
use crate::{
    dialect::{identifier, unexpected},
    errors,
    lexer::{LexMode, Literals},
    parse::{self, Span},
    value::{SqlType, collation::Collation},
};

/// Blocks and statements inside of each other.
///
/// Each takes some stack while a definition is read. MariaDB's limit is its stack too.
const DEPTH_MAX: usize = 64;

/// Operations of a program. It is in memory for as long as its schema is open, and read in one go.
const OPS_MAX: usize = 20_000;

/// What kind of program is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A trigger: whether it may change NEW, and whether there is one.
    Trigger {
        changes_new: bool,
        has_new: bool,
    },
    Procedure,
    Function,
}

impl Kind {
    /// What messages call it.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Trigger { .. } => "a trigger",
            Self::Procedure => "a procedure",
            Self::Function => "a function",
        }
    }
}

/// What is wrong with a program.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// Its form, where the parser stands.
    Syntax,
    Refused(ServerError),
}

impl From<ParserError> for Wrong {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::RecursionLimitExceeded => Self::Refused(errors::unsupported("expressions nested this deeply")),
            _ => Self::Syntax,
        }
    }
}

impl From<ServerError> for Wrong {
    fn from(error: ServerError) -> Self {
        Self::Refused(error)
    }
}

pub(super) type Read<T> = Result<T, Wrong>;

/// How the text of a program is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) mode: LexMode,
    pub(crate) pipes_as_concat: bool,
    /// Of local variables whose types name none.
    pub(crate) collation: Collation,
}

/// A block or loop that LEAVE and ITERATE may name.
struct Label {
    name: Option<String>,
    /// Where ITERATE goes; `None` for BEGIN.
    start: Option<Start>,
    /// The jumps that LEAVE has made, whose place is not known yet.
    leaves: Vec<usize>,
}

/// Where a loop goes on.
enum Start {
    At(usize),
    /// Behind its statements: the jumps that ITERATE has made, whose place is not known yet.
    Behind(Vec<usize>),
}

/// What the declarations of a block have named.
#[derive(Default)]
struct Declared {
    variables: Vec<String>,
    conditions: Vec<(String, Condition)>,
    cursors: Vec<(String, usize)>,
    /// What the block's handlers are for.
    handled: Vec<Condition>,
}

pub(super) struct Compiler<'s> {
    sql: &'s [u8],
    reading: Reading,
    kind: Kind,
    code: Code,
    scope: usize,
    labels: Vec<Label>,
    blocks: Vec<Declared>,
    depth: usize,
    /// How far lines have been counted, and which that is in.
    line: (usize, u32),
}

/// Reads the body of a program, which is the rest of the tokens. What a function `returns`, by a name for messages,
/// is its last parameter, which it does not know.
///
/// # Errors
/// What is wrong with it.
pub(super) fn body(
    p: &mut Parser,
    sql: &[u8],
    kind: Kind,
    reading: Reading,
    parameters: Vec<(String, SqlType)>,
    returns: Option<(&str, SqlType)>,
) -> Read<Code> {
    let mut compiler = Compiler {
        sql,
        reading,
        kind,
        code: Code { number: next_number(), scopes: vec![Scope::default()], ..Code::default() },
        scope: 0,
        labels: Vec::new(),
        blocks: Vec::new(),
        depth: 0,
        line: (0, 1),
    };
    for (name, ty) in parameters {
        let slot = compiler.add_variable(&name, ty);
        compiler.code.scopes[0].names.push((name, slot));
    }
    compiler.code.result = returns.map(|(name, ty)| compiler.add_variable(name, ty));
    compiler.statement(p)?;
    compiler.push(p, if kind == Kind::Function { Op::NoReturn } else { Op::End })?;
    Ok(compiler.code)
}

impl Compiler<'_> {
    fn here(&self) -> usize {
        self.code.ops.len()
    }

    /// Adds an operation, which is told to stand where the parser does; answers its place.
    fn push(&mut self, p: &Parser, op: Op) -> Read<usize> {
        if self.here() >= OPS_MAX {
            return Err(errors::unsupported(format!("more than {OPS_MAX} operations in a stored program")).into());
        }
        let at = (p.peek_token_ref().span.start.column as usize).clamp(self.line.0, self.sql.len());
        let lines = memchr::memchr_iter(b'\n', &self.sql[self.line.0..at]).count();
        self.line = (at, self.line.1 + lines as u32);
        self.code.ops.push(op);
        self.code.lines.push(self.line.1);
        Ok(self.here() - 1)
    }

    /// Has a jump go to the next operation.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.code.ops[jump] {
            Op::Jump(to) => *to = here,
            Op::Unless { to, .. } => *to = here,
            _ => {}
        }
    }

    fn text_of(&self, (from, to): Span) -> String {
        String::from_utf8_lossy(&self.sql[from..to]).into_owned()
    }

    fn fragment(&mut self, kind: FragmentKind, text: String) -> FragmentId {
        self.code.fragments.push(Fragment { text, kind, scope: self.scope });
        self.code.fragments.len() - 1
    }

    /// An expression.
    fn value(&mut self, p: &mut Parser) -> Read<FragmentId> {
        let span = parse::span_of(p)?;
        Ok(self.fragment(FragmentKind::Value, format!("SELECT {}", self.text_of(span))))
    }

    /// The place of the statement up to the next `;`, which is not taken.
    fn to_semicolon(&self, p: &mut Parser) -> Span {
        let from = p.peek_token_ref().span.start.column as usize;
        let mut to = from;
        while !matches!(p.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            to = p.peek_token_ref().span.end.column as usize;
            p.advance_token();
        }
        (from, to)
    }

    /// Sees that a text is a statement of SQL; it stands at `at` in the program's.
    fn check(&self, text: &str, at: usize) -> Read<parse::Statement> {
        let read = parse::parse(text.as_bytes(), 0, self.reading.mode, self.reading.pipes_as_concat, Literals::Inline);
        match read {
            Ok((statement, _)) => Ok(statement),
            Err(error) if error.code == 1064 => {
                // Once more where it stands: the error tells the line, and what comes behind it.
                let (mode, concat) = (self.reading.mode, self.reading.pipes_as_concat);
                let there = parse::parse(self.sql, at, mode, concat, Literals::Inline);
                Err(there.err().unwrap_or(error).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// One statement, without the `;` behind it.
    fn statement(&mut self, p: &mut Parser) -> Read<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(errors::unsupported("stored programs nested this deeply").into());
        }
        let read = self.statement_inside(p);
        self.depth -= 1;
        read
    }

    fn statement_inside(&mut self, p: &mut Parser) -> Read<()> {
        if matches!(p.peek_nth_token_ref(1).token, Token::Colon) {
            let label = identifier(p)?.value;
            p.expect_token(&Token::Colon)?;
            return self.labelled(p, Some(label));
        }
        let Token::Word(word) = &p.peek_token_ref().token else {
            return match p.peek_token_ref().token {
                Token::LParen => self.query(p),
                _ => Ok(unexpected(p)?),
            };
        };
        if word.quote_style.is_some() {
            return Ok(unexpected(p)?);
        }
        let word = word.value.to_ascii_uppercase();
        match word.as_str() {
            "BEGIN" | "LOOP" | "WHILE" | "REPEAT" | "FOR" => self.labelled(p, None),
            "IF" => self.branches(p),
            "CASE" => self.case(p),
            "LEAVE" | "ITERATE" => self.jump(p, &word),
            "OPEN" | "FETCH" | "CLOSE" => self.cursor_statement(p, &word),
            "SET" => self.set(p),
            "SIGNAL" | "RESIGNAL" => self.signal(p, word == "RESIGNAL"),
            "SELECT" | "WITH" => self.query(p),
            "INSERT" | "REPLACE" | "UPDATE" | "DELETE" => self.write(p),
            "DO" => self.evaluate(p),
            "GET" => self.diagnostics(p),
            "RETURN" => self.return_value(p),
            _ => self.other(p, &word),
        }
    }

    /// A block or a loop, behind its label.
    fn labelled(&mut self, p: &mut Parser, label: Option<String>) -> Read<()> {
        if let Some(name) = &label
            && self.labels.iter().filter_map(|known| known.name.as_ref()).any(|known| known.eq_ignore_ascii_case(name))
        {
            return Err(errors::label_redefined(name).into());
        }
        let Token::Word(word) = &p.peek_token_ref().token else { return Ok(unexpected(p)?) };
        let word = word.value.to_ascii_uppercase();
        let start = match word.as_str() {
            "BEGIN" => None,
            "FOR" => Some(Start::Behind(Vec::new())),
            _ => Some(Start::At(self.here())),
        };
        self.labels.push(Label { name: label, start, leaves: Vec::new() });
        let mut closes = None;
        match word.as_str() {
            "BEGIN" => self.block(p)?,
            "LOOP" => self.endless(p)?,
            "WHILE" => self.while_loop(p)?,
            "REPEAT" => self.repeat(p)?,
            "FOR" => closes = self.for_loop(p)?,
            _ => return Ok(unexpected(p)?),
        }
        let Some(label) = self.labels.pop() else { return Err(Wrong::Syntax) };
        label.leaves.iter().for_each(|jump| self.land(*jump));
        if let Some(cursor) = closes {
            self.push(p, Op::Close(cursor))?;
        }
        self.end_label(p, label.name.as_deref())
    }

    /// The label behind END, which may be missing.
    fn end_label(&self, p: &mut Parser, label: Option<&str>) -> Read<()> {
        let (Some(label), Token::Word(_)) = (label, &p.peek_token_ref().token) else { return Ok(()) };
        let name = identifier(p)?.value;
        if name.eq_ignore_ascii_case(label) { Ok(()) } else { Err(errors::label_mismatch(&name).into()) }
    }
}
