//! Expressions that belong to a table: defaults, generated columns and CHECK constraints.
//!
//! Each is a query of its own over one row, whose columns are its last parameters. Virtual columns are stored like the others:
//! what a client sees is the same. `exec/rules.rs` evaluates them for each row that is written.

use sqlparser::{
    ast::Expr,
    tokenizer::{Token, TokenWithSpan},
};
use tidegate_rows::ServerError;

use super::{
    Bind, Res, Session, Translator,
    scope::{Scope, Source, SourceColumn},
};
use crate::{
    catalog::Table,
    column::{Default, same_name},
    dialect::MySql,
    errors,
    lexer::{LexMode, Literals, tokens},
    store::prepared::Text,
    value::out::Out,
};

/// One expression of a table.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) kind: RuleKind,
    pub(crate) sql: Text,
    pub(crate) binds: Vec<Bind>,
    pub(crate) out: Out,
}

/// What an expression is for; columns by their position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleKind {
    Default(usize),
    Generated(usize),
    /// The check option of the view that the statement names.
    Seen,
    /// CHECK, by its name as errors show it.
    Check(String),
}

/// Reads an expression that stands alone in a text.
///
/// # Errors
/// 1064.
pub(crate) fn parse_expression(text: &str) -> Result<(Expr, Vec<TokenWithSpan>), ServerError> {
    let wrong = || errors::syntax(text);
    let tokens = tokens(text.as_bytes(), 0, LexMode::default(), Literals::Inline).map_err(|_| wrong())?.tokens;
    let dialect = MySql::default();
    let mut parser =
        sqlparser::parser::Parser::new(&dialect).with_recursion_limit(100).with_tokens_with_locations(tokens.clone());
    let expr = parser.parse_expr().map_err(|_| wrong())?;
    if parser.peek_token_ref().token == Token::EOF { Ok((expr, tokens)) } else { Err(wrong()) }
}

/// All expressions of a table, in the order in which they are evaluated.
///
/// # Errors
/// 1054 for unknown columns, 1901 for what such an expression may not hold.
pub(crate) fn rules_of(session: &Session<'_>, table: &Table) -> Res<Vec<Rule>> {
    let mut rules = Vec::new();
    for (position, column) in table.columns.iter().enumerate() {
        if let Default::Expression(text) = &column.default {
            rules.push(rule(session, table, RuleKind::Default(position), text)?);
        }
    }
    for (position, column) in table.columns.iter().enumerate() {
        if let Some(generated) = &column.generated {
            rules.push(rule(session, table, RuleKind::Generated(position), &generated.text)?);
        }
    }
    for check in &table.checks {
        let owner = check.column.and_then(|id| table.position(id)).map(|position| &table.columns[position].name);
        let shown = owner.map_or_else(
            || check.name.clone(),
            |column| format!("{}.{column}", crate::temporary_name::shown(&table.name)),
        );
        rules.push(rule(session, table, RuleKind::Check(shown), &check.text)?);
    }
    Ok(rules)
}

/// Refuses expressions that use the AUTO_INCREMENT column where MariaDB does: all but those of VIRTUAL columns.
///
/// # Errors
/// 1901
pub(crate) fn check_auto_increment(table: &Table) -> Res<()> {
    let Some(auto) = table.auto_column().map(|at| &table.columns[at].name) else { return Ok(()) };
    let defaults = table.columns.iter().filter_map(|column| match &column.default {
        Default::Expression(text) => Some(("DEFAULT", text)),
        _ => None,
    });
    let stored = table.columns.iter().filter_map(|column| column.generated.as_ref()).filter(|column| column.stored);
    let stored = stored.map(|generated| ("GENERATED ALWAYS AS", &generated.text));
    let checks = table.checks.iter().map(|check| ("CHECK", &check.text));
    for (clause, text) in defaults.chain(stored).chain(checks) {
        if names(&parse_expression(text)?.1, auto) {
            return Err(errors::not_in_generated("AUTO_INCREMENT", clause, auto));
        }
    }
    Ok(())
}

/// Refuses a foreign key that changes columns behind the back of what is computed from them: SQLite's cascades run no expressions.
///
/// # Errors
/// 1235.
pub(crate) fn check_cascades(table: &Table) -> Res<()> {
    let changes = |action: &str| matches!(action, "CASCADE" | "SET NULL" | "SET DEFAULT");
    for key in &table.foreign_keys {
        if !changes(&key.on_update) && !matches!(key.on_delete.as_str(), "SET NULL" | "SET DEFAULT") {
            continue;
        }
        let names = key.columns.iter().filter_map(|id| table.position(*id)).map(|at| &table.columns[at].name);
        let generated = table.columns.iter().filter_map(|column| Some(&column.generated.as_ref()?.text));
        let texts: Vec<&String> = generated.collect();
        for name in names {
            for text in &texts {
                let (_, tokens) = parse_expression(text)?;
                if self::names(&tokens, name) {
                    let what = format!("a foreign key that changes '{name}', which a generated column uses");
                    return Err(errors::unsupported(what));
                }
            }
        }
    }
    Ok(())
}

/// Whether an expression names this column of the table and no other.
pub(crate) fn is_about_alone(text: &str, table: &Table, column: u32) -> bool {
    let Ok((_, tokens)) = parse_expression(text) else { return false };
    table.columns.iter().all(|known| names(&tokens, &known.name) == (known.id == column))
}

/// Whether an expression names a column.
fn names(tokens: &[TokenWithSpan], column: &str) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if same_name(&word.value, column)))
}

fn rule(session: &Session<'_>, table: &Table, kind: RuleKind, text: &str) -> Res<Rule> {
    let clause = match &kind {
        RuleKind::Default(_) => "DEFAULT",
        RuleKind::Generated(_) => "GENERATED ALWAYS AS",
        RuleKind::Seen | RuleKind::Check(_) => "CHECK",
    };
    let (expr, tokens) = parse_expression(text)?;
    let mut translator = Translator::new(session.within(session.schema), text.as_bytes(), &[], (&[], &[]), &tokens);
    let alias = translator.alias("a");
    let columns =
        table.columns.iter().map(|column| SourceColumn { nullable: true, ..SourceColumn::stored(column) }).collect();
    let schema = session.schema.map_or_else(String::new, |schema| schema.name.clone());
    let source = Source { schema, ..Source::computed(table.name.clone(), alias.clone(), columns) };
    let scope = Scope { sources: vec![source], clause, ..Scope::default() };
    let ex = translator.expr(&expr, &scope)?;
    let owner = match &kind {
        RuleKind::Seen => String::new(),
        RuleKind::Check(name) => name.clone(),
        RuleKind::Default(to) | RuleKind::Generated(to) => table.columns[*to].name.clone(),
    };
    let calls = !translator.calls.is_empty();
    let has_effects = translator.effects.writing > 0 && !matches!(kind, RuleKind::Default(_));
    if ex.aggregate || calls || !translator.is_cacheable() || !translator.reads.is_empty() || has_effects {
        return Err(errors::not_in_generated(text, clause, owner));
    }
    let value = match &kind {
        RuleKind::Seen | RuleKind::Check(_) => translator.truth(&ex),
        _ => translator.text(&ex),
    };
    translator.check_operations()?;
    let binds = std::mem::take(&mut translator.binds);
    let row: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| format!("?{} AS c{}", binds.len() + index + 1, column.id))
        .collect();
    let sql = format!("SELECT {value} FROM (SELECT {}) AS {alias}", row.join(", ")).into();
    Ok(Rule { kind, sql, binds, out: Out::of(&ex.ty) })
}
