//! What the directives say: indexes, columns, and what is done with rows.

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{conf::Build, template::Template};
use tidegate_rows::{Column, ColumnType};

use crate::bound::Bound;

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// Values that come with a request.
pub(super) fn values(args: &[ast::Arg], build: &mut Build<'_>) -> Result<Vec<Bound>, Diagnostic> {
    args.iter().map(|arg| value(arg, build)).collect()
}

fn value(arg: &ast::Arg, build: &mut Build<'_>) -> Result<Bound, Diagnostic> {
    let template = build.template(arg)?;
    Ok(Bound::new(template, false, build))
}

/// `handlersocket_index`
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) schema: Template,
    pub(super) table: Template,
    /// `None` is the primary key.
    pub(super) name: Option<Template>,
}

impl Index {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        Ok(Index {
            schema: build.template(&directive.args[0])?,
            table: build.template(&directive.args[1])?,
            name: directive.args.get(2).map(|arg| build.template(arg)).transpose()?,
        })
    }
}

/// `handlersocket_columns`
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// With commas in between.
    pub(super) names: BString,
    /// As a result set describes them.
    pub(super) described: Vec<Column>,
}

impl Columns {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        let mut columns = Columns::default();
        for arg in &directive.args {
            let (name, kind) = match arg.value.strip_suffix(b":number") {
                Some(name) => (name, ColumnType::NewDecimal),
                None => (arg.value.as_bytes(), ColumnType::VarString),
            };
            check_column(name, arg)?;
            if !columns.names.is_empty() {
                columns.names.push(b',');
            }
            columns.names.extend_from_slice(name);
            columns.described.push(Column::expression(name, kind));
        }
        Ok(columns)
    }

    pub(super) fn len(&self) -> usize {
        self.described.len()
    }
}

/// A name that can stand in a list of names.
fn check_column(name: &[u8], arg: &ast::Arg) -> Result<(), Diagnostic> {
    if name.is_empty() || name.contains(&b',') || !is_plain(name) {
        return Err(emerg(arg, format!("handlersocket: invalid name of a column \"{}\"", arg.value)));
    }
    Ok(())
}

/// Whether a name can be sent: those of the protocol know no escapes.
pub(super) fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| *byte >= b' ')
}

/// `handlersocket_find`
#[derive(Debug)]
pub(super) struct Find {
    pub(super) operator: &'static str,
    pub(super) key: Vec<Bound>,
}

/// How values compare.
const OPERATORS: [&str; 6] = ["=", ">", ">=", "<", "<=", "!="];

/// One of the operators, of which `!=` is the last, or the argument is wrong.
fn operator(arg: &ast::Arg, known: &[&'static str]) -> Result<&'static str, Diagnostic> {
    let found = known.iter().find(|operator| arg.value == **operator);
    found.copied().ok_or_else(|| Diagnostic::unknown_value(&arg.value, arg.span, known.iter().copied()))
}

impl Find {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let operator = operator(&directive.args[0], &OPERATORS[..5])?;
        Ok(Find { operator, key: values(&directive.args[1..], build)? })
    }
}

/// `handlersocket_limit`
#[derive(Debug, Clone)]
pub(super) struct Limit {
    pub(super) limit: Template,
    pub(super) offset: Option<Template>,
}

impl Limit {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let mut number = |arg: &ast::Arg| {
            let template = build.template(arg)?;
            match template.as_literal() {
                Some(text) if count(text).is_none() => Err(Diagnostic::invalid_number(directive.name(), arg.span)),
                _ => Ok(template),
            }
        };
        Ok(Limit { limit: number(&directive.args[0])?, offset: directive.args.get(1).map(number).transpose()? })
    }
}

/// A number of rows, as the protocol can have it.
pub(super) fn count(text: &[u8]) -> Option<u32> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    text.to_str().ok().filter(|_| is_number).and_then(|text| text.parse().ok())
}

/// `handlersocket_in`
#[derive(Debug, Clone)]
pub(super) struct Within {
    /// Which column of the index, counted from 0.
    pub(super) part: u32,
    /// With commas in between.
    pub(super) values: Bound,
}

impl Within {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let part = &directive.args[0];
        let invalid = || Diagnostic::invalid_number(directive.name(), part.span);
        Ok(Within { part: count(&part.value).ok_or_else(invalid)?, values: value(&directive.args[1], build)? })
    }
}

/// `handlersocket_filter`
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub(super) column: BString,
    pub(super) operator: &'static str,
    pub(super) value: Bound,
    /// The first row that does not compare so ends the search.
    pub(super) stops: bool,
}

impl Filter {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        let [column, comparison, right, rest @ ..] = &directive.args[..] else {
            return Err(Diagnostic::invalid_value(directive.name(), directive.name.span));
        };
        check_column(&column.value, column)?;
        if let Some(word) = rest.iter().find(|arg| arg.value != "stop") {
            return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["stop"]));
        }
        Ok(Filter {
            column: column.value.clone(),
            operator: operator(comparison, &OPERATORS)?,
            value: value(right, build)?,
            stops: !rest.is_empty(),
        })
    }
}

/// `handlersocket_modify`
#[derive(Debug)]
pub(super) struct Modify {
    /// The protocol's letter.
    pub(super) letter: u8,
    pub(super) values: Vec<Bound>,
}

impl Modify {
    pub(super) fn parse(directive: &ast::Directive, build: &mut Build<'_>) -> Result<Self, Diagnostic> {
        const WORDS: [(&str, u8); 4] = [("update", b'U'), ("increment", b'+'), ("decrement", b'-'), ("delete", b'D')];
        let (word, rest) = (&directive.args[0], &directive.args[1..]);
        let letter = WORDS.iter().find(|(name, _)| word.value == *name).map(|(_, letter)| *letter);
        let letter = letter
            .ok_or_else(|| Diagnostic::unknown_value(&word.value, word.span, WORDS.iter().map(|(name, _)| *name)))?;
        if rest.is_empty() == (letter != b'D') {
            return Err(Diagnostic::invalid_number_of_arguments(directive.name(), directive.name.span));
        }
        Ok(Modify { letter, values: values(rest, build)? })
    }
}
