//! Statements: what MySQL's grammar says around the expressions and queries that `sqlparser` reads.
//!
//! Each statement has a tree of its own that holds what the engine can do; anything else in the text is a syntax error or
//! 1235. Nothing that was read is ignored silently, except hints that change no result.

use sqlparser::{
    ast::{ObjectName, ObjectNamePart},
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    dialect::{MySql, expect_word, identifier, is_reserved, is_word, take_word, unexpected},
    errors,
    lexer::{self, LexMode, Literals, Tokens},
    task, temporary_name,
    value::collation::Collation,
};
use program::compile::Reading;
use tidegate_rows::ServerError;

pub(crate) mod account;
pub(crate) mod accounts;
pub(crate) mod alter;
pub(crate) mod column;
mod database;
pub(crate) mod ddl;
mod dml;
pub(crate) mod files;
mod kinds;
pub(crate) mod program;
mod replication;
mod sequence;
mod session;
mod set;
mod show;
pub(crate) mod transaction;
mod tree;
mod values;
pub(crate) mod view;
pub(crate) mod wait;
pub(crate) use alter::AlterItem;
pub(crate) use ddl::{CheckSpec, ColumnSpec, CreateTable, DefaultSpec, ForeignKeySpec, IndexSpec, KeyKind};
pub(crate) use sequence::{CreateSequence, SequenceSpec};
pub(crate) use tree::{
    AlterRoutine, Argument, ArgumentPlace, Call, Completion, Delete, Insert, InsertSource, IsolationScope, KillTarget,
    Pattern, PrepareSource, Returning, SetItem, SetValue, Show, ShowWhat, Span, Statement, TableName, Update,
};

type Result<T> = std::result::Result<T, ParserError>;

/// Reads the statement at `sql[from..]` up to `;` or the end.
///
/// # Errors
/// 1064 with the place, or 1235 for statements that are known but not done.
pub(crate) fn parse(
    sql: &[u8],
    from: usize,
    mode: LexMode,
    pipes_as_concat: bool,
    literals: Literals,
) -> std::result::Result<(Statement, Vec<TokenWithSpan>), ServerError> {
    // The parser's recursion measures the thread's own stack; on any other it would map a new one for each expression.
    task::on_thread_stack(|| parse_here(sql, from, mode, pipes_as_concat, literals))
}

fn parse_here(
    sql: &[u8],
    from: usize,
    mode: LexMode,
    pipes_as_concat: bool,
    literals: Literals,
) -> std::result::Result<(Statement, Vec<TokenWithSpan>), ServerError> {
    let Tokens { tokens, rows } = lexer::tokens(sql, from, mode, literals).map_err(|error| near(sql, error.at))?;
    if let Some(name) = tokens.iter().find_map(hidden_name) {
        return Err(errors::wrong_table_name(name));
    }
    if program::definition::begins(&tokens) {
        let reading = Reading { mode, pipes_as_concat, collation: Collation::DEFAULT };
        return Ok((
            match program::parse(sql, &tokens, reading)? {
                program::Definition::Trigger(create) => Statement::CreateTrigger(create),
                program::Definition::Routine(create) => Statement::CreateRoutine(create),
                program::Definition::Event(event) => Statement::Event(event),
                program::Definition::Block(text) => Statement::Block(text),
            },
            tokens,
        ));
    }
    let mut tokens = values::as_selects(plain_clauses(tokens));
    let seconds = wait::take(&mut tokens);
    if tokens.iter().filter(|token| is_operator(token)).count() > OPERATORS_MAX {
        return Err(errors::unsupported(format!("more than {OPERATORS_MAX} operators in a statement")));
    }
    let unions = tokens.iter().filter(|token| ["UNION", "EXCEPT", "INTERSECT"].iter().any(|word| is_word(token, word)));
    if unions.count() > UNIONS_MAX {
        return Err(errors::unsupported(format!("more than {UNIONS_MAX} UNIONs in a statement")));
    }
    if let Some((cut, variables)) = into_variables(&tokens) {
        return Ok((Statement::SelectInto { cut, variables }, tokens));
    }
    let wrong = |_| errors::syntax("INTO");
    if let Some((cut, into)) = files::into_file(&tokens).map_err(wrong)? {
        return Ok((Statement::SelectIntoFile { cut, into: Box::new(into) }, tokens));
    }
    // Whether tables are joined from the left is known when the conditions have been read.
    let from_left = MySql { pipes_as_concat, nested_joins: false };
    let statement = read(sql, &tokens, &from_left).or_else(|error| {
        if !tokens.iter().any(|token| is_word(token, "JOIN")) {
            return Err(error);
        }
        read(sql, &tokens, &MySql { nested_joins: true, ..from_left }).map_err(|_| error)
    });
    let mut statement = statement?;
    if let (Some(rows), Statement::Insert(insert)) = (rows, &mut statement) {
        insert.source = InsertSource::Literals(rows);
    }
    if let Some(seconds) = seconds {
        statement = Statement::Waits { seconds, statement: Box::new(statement) };
    }
    Ok((statement, tokens))
}

/// The name of somebody's temporary table: nothing that is known of a session, and what may be done with it is not asked.
fn hidden_name(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Word(word) if temporary_name::is_hidden(&word.value) => Some(&word.value),
        _ => None,
    }
}

/// The statement that all the tokens make.
fn read(sql: &[u8], tokens: &[TokenWithSpan], dialect: &MySql) -> std::result::Result<Statement, ServerError> {
    let mut parser = Parser::new(dialect).with_recursion_limit(100).with_tokens_with_locations(tokens.to_vec());
    match statement(&mut parser) {
        Ok(Ok(statement)) => {
            let next = parser.peek_token_ref();
            if next.token == Token::EOF { Ok(statement) } else { Err(near(sql, next.span.start.column as usize)) }
        }
        Ok(Err(error)) => Err(error),
        Err(ParserError::RecursionLimitExceeded) => Err(errors::unsupported("expressions nested this deeply")),
        Err(_) => Err(near(sql, parser.peek_token_ref().span.start.column as usize)),
    }
}

/// Clauses that the library does not read, in words that it does: `LOCK IN SHARE MODE` is `FOR SHARE`; a direction behind GROUP BY means nothing where ORDER BY follows.
fn plain_clauses(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let share = ["LOCK", "IN", "SHARE", "MODE"];
    if let Some(at) =
        tokens.windows(4).position(|part| part.iter().zip(share).all(|(token, word)| is_word(token, word)))
    {
        tokens[at].token = Token::make_word("FOR", None);
        tokens[at + 1].token = Token::make_word("SHARE", None);
        tokens.drain(at + 2..at + 4);
    }
    let mut at = 0;
    while at + 1 < tokens.len() {
        if is_word(&tokens[at], "GROUP") && is_word(&tokens[at + 1], "BY") {
            let (mut depth, mut directions, mut end) = (0usize, Vec::new(), at + 2);
            while end < tokens.len() {
                match &tokens[end].token {
                    Token::LParen => depth += 1,
                    Token::RParen if depth == 0 => break,
                    Token::RParen => depth -= 1,
                    _ if depth == 0 && is_word(&tokens[end], "ORDER") => break,
                    _ if depth == 0 && (is_word(&tokens[end], "DESC") || is_word(&tokens[end], "ASC")) => {
                        directions.push(end)
                    }
                    _ => {}
                }
                end += 1;
            }
            if tokens.get(end).is_some_and(|token| is_word(token, "ORDER")) {
                directions.iter().rev().for_each(|direction| {
                    tokens.remove(*direction);
                });
            }
        }
        at += 1;
    }
    tokens
}

/// Where the INTO of a SELECT stands, not that of a subquery.
fn position_of_into(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0usize;
    tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(token, "INTO")
    })
}

/// The variables of SELECT … INTO and where that stands in the text.
fn into_variables(tokens: &[TokenWithSpan]) -> Option<(Span, Vec<String>)> {
    if !tokens.first().is_some_and(|token| is_word(token, "SELECT")) {
        return None;
    }
    let start = position_of_into(tokens)?;
    let mut variables = Vec::new();
    let mut at = start + 1;
    loop {
        let Token::DollarQuotedString(variable) = &tokens.get(at)?.token else { return None };
        let name = variable.value.strip_prefix('@').filter(|name| !name.starts_with('@'))?;
        variables.push(name.trim_matches(['`', '\'', '"']).to_owned());
        at += 1;
        if tokens.get(at)?.token != Token::Comma {
            break;
        }
        at += 1;
    }
    Some(((tokens[start].span.start.column as usize, tokens[at - 1].span.end.column as usize), variables))
}

/// Operators of a statement: SQLite prepares it in one piece, while nobody else has the thread.
const OPERATORS_MAX: usize = 40_000;

/// Queries that a statement unites: a chain of them is a tree as deep as it is long, and trees are taken down recursively.
const UNIONS_MAX: usize = 4000;

/// Whether a token joins two operands. A minus is mostly a sign, in long lists of values.
fn is_operator(token: &TokenWithSpan) -> bool {
    use Token::{Ampersand, Caret, Div, Mod, Mul, Overlap, Pipe, Plus, ShiftLeft, ShiftRight, StringConcat};
    matches!(
        token.token,
        Ampersand | Caret | Div | Mod | Mul | Overlap | Pipe | Plus | ShiftLeft | ShiftRight | StringConcat
    ) || ["AND", "OR", "XOR", "DIV", "MOD", "LIKE", "COLLATE", "IS"].iter().any(|word| is_word(token, word))
        || matches!(
            token.token,
            Token::Eq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq | Token::Neq | Token::Spaceship
        )
}

/// The syntax error at a byte of the text.
pub(crate) fn near(sql: &[u8], at: usize) -> ServerError {
    let (before, rest) = sql.split_at(at.min(sql.len()));
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    errors::syntax_in_line(String::from_utf8_lossy(&rest[..rest.len().min(80)]), line)
}

type Outcome = std::result::Result<Statement, ServerError>;

fn statement(p: &mut Parser) -> Result<Outcome> {
    let Token::Word(word) = &p.peek_token_ref().token else {
        return match p.peek_token_ref().token {
            Token::LParen => Ok(Ok(Statement::Query(p.parse_query()?))),
            Token::EOF => Ok(Ok(Statement::Nothing)),
            _ => unexpected(p),
        };
    };
    let verb = word.value.to_ascii_uppercase();
    if matches!(verb.as_str(), "SELECT" | "WITH") {
        return Ok(Ok(Statement::Query(p.parse_query()?)));
    }
    p.advance_token();
    Ok(Ok(match verb.as_str() {
        "INSERT" | "REPLACE" => Statement::Insert(Box::new(dml::insert(p, verb == "REPLACE")?)),
        "UPDATE" => Statement::Update(Box::new(dml::update(p)?)),
        "DELETE" => Statement::Delete(Box::new(dml::delete(p)?)),
        "CREATE" => return ddl::create(p),
        "DROP" => return ddl::drop(p),
        "ALTER" => return alter::alter(p),
        "RENAME" => return alter::rename(p),
        "TRUNCATE" => {
            take_word(p, "TABLE");
            Statement::Truncate(table_name(p)?)
        }
        "USE" => Statement::Use(identifier(p)?.value),
        "SET" => return set::statement(p),
        "SHOW" => return show::show(p),
        "DESCRIBE" | "DESC" | "EXPLAIN" => explain(p)?,
        "BEGIN" => {
            take_word(p, "WORK");
            Statement::Begin { read_only: None, snapshot: false }
        }
        "START" => transaction::start_transaction(p)?,
        "COMMIT" => transaction::commit(p)?,
        "ROLLBACK" => transaction::rollback(p)?,
        "SAVEPOINT" => Statement::Savepoint(identifier(p)?.value),
        "RELEASE" => {
            expect_word(p, "SAVEPOINT")?;
            Statement::Release(identifier(p)?.value)
        }
        "PREPARE" => transaction::prepare(p)?,
        "EXECUTE" => transaction::execute(p)?,
        "DEALLOCATE" => {
            expect_word(p, "PREPARE")?;
            Statement::Deallocate(identifier(p)?.value)
        }
        "DO" => {
            p.parse_comma_separated(Parser::parse_expr)?;
            Statement::Do
        }
        "ANALYZE" | "OPTIMIZE" | "CHECK" | "REPAIR" | "CHECKSUM" => admin(p, &verb)?,
        "FLUSH" | "LOCK" | "UNLOCK" | "KILL" | "CALL" | "SIGNAL" | "LOAD" => return session::statement(p, &verb),
        "GRANT" => return accounts::grant(p),
        "REVOKE" => return accounts::revoke(p),
        "HANDLER" | "XA" | "INSTALL" | "UNINSTALL" | "RESIGNAL" | "GET" | "HELP" | "CHANGE" | "PURGE" | "RESET"
        | "STOP" | "CACHE" | "BINLOG" | "SHUTDOWN" => {
            return Ok(Err(errors::unsupported(&verb)));
        }
        _ => {
            p.prev_token();
            return unexpected(p);
        }
    }))
}

/// `t` or `s.t`.
pub(crate) fn table_name(p: &mut Parser) -> Result<TableName> {
    let first = identifier(p)?.value;
    if p.consume_token(&Token::Period) {
        return Ok(TableName { schema: Some(first), name: identifier(p)?.value });
    }
    Ok(TableName { schema: None, name: first })
}

/// The name that `sqlparser` has read, if it is one of ours.
pub(crate) fn to_table_name(name: &ObjectName) -> Option<TableName> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Some(ident.value.clone()),
        ObjectNamePart::Function(_) => None,
    };
    match name.0.as_slice() {
        [name] => Some(TableName { schema: None, name: part(name)? }),
        [schema, name] => Some(TableName { schema: Some(part(schema)?), name: part(name)? }),
        _ => None,
    }
}

/// A list in parentheses.
pub(crate) fn parenthesised<T>(p: &mut Parser, item: impl FnMut(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
    p.expect_token(&Token::LParen)?;
    let list = comma_separated(p, item)?;
    p.expect_token(&Token::RParen)?;
    Ok(list)
}

/// Items with commas between them.
pub(crate) fn comma_separated<T>(p: &mut Parser, mut item: impl FnMut(&mut Parser) -> Result<T>) -> Result<Vec<T>> {
    let mut list = vec![item(p)?];
    while p.consume_token(&Token::Comma) {
        list.push(item(p)?);
    }
    Ok(list)
}

/// Reads an expression for its place in the text only.
pub(crate) fn span_of(p: &mut Parser) -> Result<Span> {
    let from = p.peek_token_ref().span.start.column as usize;
    p.parse_expr()?;
    Ok((from, end_of_last(p)))
}

/// Reads a query for its place in the text only.
pub(crate) fn query_span(p: &mut Parser) -> Result<Span> {
    let from = p.peek_token_ref().span.start.column as usize;
    p.parse_query()?;
    Ok((from, end_of_last(p)))
}

/// Where what was read last ends.
fn end_of_last(p: &Parser) -> usize {
    let last = p.get_current_token();
    // The end of the text, which has no place: it may lie behind the `*/` of a `/*! … */`, and `TABLE t` reads it.
    let last = if last.token == Token::EOF { p.get_previous_token() } else { last };
    last.span.end.column as usize
}

/// A bare word or a string.
pub(crate) fn word_or_string(p: &mut Parser) -> Result<String> {
    let text = match &p.peek_token_ref().token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) => text.clone(),
        _ => return unexpected(p),
    };
    p.advance_token();
    Ok(text)
}

fn explain(p: &mut Parser) -> Result<Statement> {
    if let Token::Word(word) = &p.peek_token_ref().token
        && (word.quote_style.is_some()
            || !is_reserved(&word.value) && !matches!(word.value.to_ascii_uppercase().as_str(), "EXTENDED" | "FORMAT"))
    {
        let table = table_name(p)?;
        let like = match &p.peek_token_ref().token {
            Token::EOF => None,
            Token::Word(column) => {
                let column = column.value.clone();
                p.advance_token();
                Some(Pattern::Name(column))
            }
            _ => Some(Pattern::Text(span_of(p)?)),
        };
        return Ok(Statement::Show(Show { what: ShowWhat::Columns { table, full: false }, like, filter: None }));
    }
    take_word(p, "EXTENDED");
    let mut json = false;
    if take_word(p, "FORMAT") {
        p.expect_token(&Token::Eq)?;
        json = take_word(p, "JSON");
        if !json {
            expect_word(p, "TRADITIONAL")?;
        }
    }
    let from = p.peek_token_ref().span.start.column as usize;
    while p.peek_token_ref().token != Token::EOF {
        p.advance_token();
    }
    Ok(Statement::Explain { from, json })
}

fn admin(p: &mut Parser, verb: &str) -> Result<Statement> {
    if !take_word(p, "NO_WRITE_TO_BINLOG") {
        take_word(p, "LOCAL");
    }
    if !take_word(p, "TABLE") {
        expect_word(p, "TABLES")?;
    }
    let tables = comma_separated(p, table_name)?;
    let quick = is_word(p.peek_token_ref(), "QUICK");
    while ["QUICK", "EXTENDED", "FAST", "MEDIUM", "CHANGED"].into_iter().any(|word| take_word(p, word)) {}
    let verb = match verb {
        "ANALYZE" => "analyze",
        "OPTIMIZE" => "optimize",
        "REPAIR" => "repair",
        "CHECKSUM" if quick => "checksum quick",
        "CHECKSUM" => "checksum",
        _ => "check",
    };
    Ok(Statement::Admin { verb, tables })
}
