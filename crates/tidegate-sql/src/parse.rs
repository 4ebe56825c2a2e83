//! Statements: what MySQL's grammar says around the expressions and queries that `sqlparser` reads.
//!
//! Each statement has a tree of its own that holds what the engine can do; anything else in the text is a syntax error or
//! 1235. Nothing that was read is ignored silently, except hints that change no result.

use sqlparser::{
    ast::{Assignment, AssignmentTarget, Expr, Ident, ObjectName, ObjectNamePart, OrderByExpr, Query, TableWithJoins},
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    dialect::{MySql, expect_word, identifier, is_reserved, is_word, take_word, take_words, unexpected},
    errors,
    lexer::{self, LexMode, Literals},
};
use tidegate_rows::ServerError;

pub(crate) mod alter;
pub(crate) mod column;
pub(crate) mod ddl;
mod session;
mod show;
pub(crate) use alter::AlterItem;
pub(crate) use ddl::{CheckSpec, ColumnSpec, CreateTable, DefaultSpec, ForeignKeySpec, IndexSpec, KeyKind};

type Result<T> = std::result::Result<T, ParserError>;

/// A name with an optional schema in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

/// One statement.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Query(Box<Query>),
    /// SELECT … INTO @a, @b: the query is the text without the part that `cut` names.
    SelectInto {
        cut: Span,
        variables: Vec<String>,
    },
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CreateDatabase {
        name: String,
        if_not_exists: bool,
        collation: Option<String>,
        charset: Option<String>,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    DropTable {
        tables: Vec<TableName>,
        if_exists: bool,
        temporary: bool,
    },
    Truncate(TableName),
    AlterTable {
        table: TableName,
        items: Vec<AlterItem>,
    },
    RenameTable(Vec<(TableName, TableName)>),
    CreateView {
        name: TableName,
        columns: Vec<String>,
        text: Span,
        or_replace: bool,
    },
    DropView {
        views: Vec<TableName>,
        if_exists: bool,
    },
    Use(String),
    Set(Vec<SetItem>),
    Show(Show),
    Begin {
        read_only: bool,
        snapshot: bool,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    Prepare {
        name: String,
        source: PrepareSource,
    },
    Execute {
        name: String,
        variables: Vec<String>,
    },
    Deallocate(String),
    Explain {
        from: usize,
    },
    Do,
    /// Administration that this engine has no need of: answers OK or a status row for each table.
    Admin {
        verb: &'static str,
        tables: Vec<TableName>,
    },
    /// LOCK TABLES: each with whether it will be written to.
    LockTables(Vec<(TableName, bool)>),
    /// FLUSH TABLES WITH READ LOCK.
    LockAll,
    UnlockTables,
    /// CALL: there are no procedures.
    Call(TableName),
    /// DROP of a function, procedure, trigger or event: there are none.
    DropProgram {
        kind: &'static str,
        name: TableName,
        if_exists: bool,
    },
    Kill(u64),
    /// SIGNAL: an error of the user's own.
    Signal {
        state: String,
        number: Option<u16>,
        message: Option<String>,
    },
    Nothing,
}

/// What PREPARE compiles.
#[derive(Debug, Clone)]
pub(crate) enum PrepareSource {
    Text(String),
    Variable(String),
}

/// INSERT and REPLACE.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) replace: bool,
    pub(crate) ignore: bool,
    pub(crate) table: TableName,
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) source: InsertSource,
    pub(crate) row_alias: Option<String>,
    pub(crate) on_duplicate: Vec<Assignment>,
}

/// Where the rows of an INSERT come from.
#[derive(Debug, Clone)]
pub(crate) enum InsertSource {
    /// An empty row stands for all defaults.
    Values(Vec<Vec<Expr>>),
    Query(Box<Query>),
}

/// UPDATE.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) ignore: bool,
    pub(crate) from: Vec<TableWithJoins>,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) selection: Option<Expr>,
    pub(crate) order_by: Vec<OrderByExpr>,
    pub(crate) limit: Option<Expr>,
}

/// DELETE.
#[derive(Debug, Clone)]
pub(crate) struct Delete {
    pub(crate) ignore: bool,
    /// Tables to delete from, by name or alias; empty for the single-table form.
    pub(crate) targets: Vec<TableName>,
    pub(crate) from: Vec<TableWithJoins>,
    pub(crate) selection: Option<Expr>,
    pub(crate) order_by: Vec<OrderByExpr>,
    pub(crate) limit: Option<Expr>,
}

/// One assignment of SET.
#[derive(Debug, Clone)]
pub(crate) enum SetItem {
    User {
        name: String,
        value: Span,
    },
    /// No value stands for DEFAULT.
    System {
        global: bool,
        name: String,
        value: Option<SetValue>,
    },
    Names {
        charset: Option<String>,
        collation: Option<String>,
    },
    Isolation(String),
}

/// Where an expression stands in the statement's text.
pub(crate) type Span = (usize, usize);

/// The value of a system variable as written.
#[derive(Debug, Clone)]
pub(crate) enum SetValue {
    /// A bare word such as ON.
    Word(String),
    Expr(Span),
}

/// SHOW.
#[derive(Debug, Clone)]
pub(crate) struct Show {
    pub(crate) what: ShowWhat,
    pub(crate) like: Option<Pattern>,
    pub(crate) filter: Option<Span>,
}

/// The pattern of LIKE: a string of the text, or a column's name.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    Text(Span),
    Name(String),
}

/// What SHOW shows.
#[derive(Debug, Clone)]
pub(crate) enum ShowWhat {
    Databases,
    Tables {
        schema: Option<String>,
        full: bool,
    },
    TableStatus {
        schema: Option<String>,
    },
    Columns {
        table: TableName,
        full: bool,
    },
    Index(TableName),
    CreateTable(TableName),
    CreateView(TableName),
    CreateDatabase(String),
    Variables,
    Status,
    Warnings,
    Errors,
    Engines,
    Charset,
    Collation,
    ProcessList,
    Grants,
    Privileges,
    Plugins,
    /// Nothing of the kind exists: the names of the columns.
    Empty(&'static [&'static str]),
    CountWarnings,
    CountErrors,
}

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
    let tokens = lexer::tokens(sql, from, mode, literals).map_err(|error| near(sql, error.at))?;
    let tokens = plain_clauses(tokens);
    if tokens.iter().filter(|token| is_operator(token)).count() > OPERATORS_MAX {
        return Err(errors::unsupported(format!("more than {OPERATORS_MAX} operators in a statement")));
    }
    if let Some((cut, variables)) = into_variables(&tokens) {
        return Ok((Statement::SelectInto { cut, variables }, tokens));
    }
    let dialect = MySql { pipes_as_concat };
    let mut parser = Parser::new(&dialect).with_recursion_limit(100).with_tokens_with_locations(tokens.clone());
    match statement(&mut parser, sql) {
        Ok(Ok(statement)) => {
            let next = parser.peek_token_ref();
            if next.token == Token::EOF {
                Ok((statement, tokens))
            } else {
                Err(near(sql, next.span.start.column as usize))
            }
        }
        Ok(Err(error)) => Err(error),
        Err(ParserError::RecursionLimitExceeded) => Err(errors::unsupported("expressions nested this deeply")),
        Err(_) => Err(near(sql, parser.peek_token_ref().span.start.column as usize)),
    }
}

/// Clauses that the library does not read, in words that it does: `LOCK IN SHARE MODE` waits for writers and keeps them out as
/// `FOR UPDATE` does; a direction behind GROUP BY means nothing where ORDER BY follows.
fn plain_clauses(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let share = ["LOCK", "IN", "SHARE", "MODE"];
    if let Some(at) =
        tokens.windows(4).position(|part| part.iter().zip(share).all(|(token, word)| is_word(token, word)))
    {
        tokens[at].token = Token::make_word("FOR", None);
        tokens[at + 1].token = Token::make_word("UPDATE", None);
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

/// The variables of SELECT … INTO and where that stands in the text.
fn into_variables(tokens: &[TokenWithSpan]) -> Option<(Span, Vec<String>)> {
    if !tokens.first().is_some_and(|token| is_word(token, "SELECT")) {
        return None;
    }
    let mut depth = 0usize;
    let start = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(token, "INTO")
    })?;
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

/// Operators of a statement: a chain of them is a tree as deep as it is long, and trees are taken down recursively.
const OPERATORS_MAX: usize = 8000;

/// Whether a token joins two operands. A minus is mostly a sign, in long lists of values.
fn is_operator(token: &TokenWithSpan) -> bool {
    use Token::{Ampersand, Caret, Div, Mod, Mul, Overlap, Pipe, Plus, ShiftLeft, ShiftRight, StringConcat};
    matches!(
        token.token,
        Ampersand | Caret | Div | Mod | Mul | Overlap | Pipe | Plus | ShiftLeft | ShiftRight | StringConcat
    ) || ["AND", "OR", "XOR", "DIV", "MOD", "LIKE", "COLLATE", "IS", "UNION"].iter().any(|word| is_word(token, word))
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

fn statement(p: &mut Parser, sql: &[u8]) -> Result<Outcome> {
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
        "INSERT" | "REPLACE" => Statement::Insert(Box::new(insert(p, verb == "REPLACE")?)),
        "UPDATE" => Statement::Update(Box::new(update(p)?)),
        "DELETE" => Statement::Delete(Box::new(delete(p)?)),
        "CREATE" => return ddl::create(p),
        "DROP" => return ddl::drop(p),
        "ALTER" => return alter::alter(p),
        "RENAME" => alter::rename(p)?,
        "TRUNCATE" => {
            take_word(p, "TABLE");
            Statement::Truncate(table_name(p)?)
        }
        "USE" => Statement::Use(identifier(p)?.value),
        "SET" => Statement::Set(set(p)?),
        "SHOW" => return show::show(p),
        "DESCRIBE" | "DESC" | "EXPLAIN" => explain(p)?,
        "BEGIN" => {
            take_word(p, "WORK");
            Statement::Begin { read_only: false, snapshot: false }
        }
        "START" => start_transaction(p)?,
        "COMMIT" => Statement::Commit { chain: chain(p)? },
        "ROLLBACK" => rollback(p)?,
        "SAVEPOINT" => Statement::Savepoint(identifier(p)?.value),
        "RELEASE" => {
            expect_word(p, "SAVEPOINT")?;
            Statement::Release(identifier(p)?.value)
        }
        "PREPARE" => prepare(p)?,
        "EXECUTE" => execute(p)?,
        "DEALLOCATE" => {
            expect_word(p, "PREPARE")?;
            Statement::Deallocate(identifier(p)?.value)
        }
        "DO" => {
            p.parse_comma_separated(Parser::parse_expr)?;
            Statement::Do
        }
        "ANALYZE" | "OPTIMIZE" | "CHECK" | "REPAIR" | "CHECKSUM" => admin(p, &verb)?,
        "FLUSH" | "LOCK" | "UNLOCK" | "KILL" | "CALL" | "SIGNAL" => return session::statement(p, &verb),
        "GRANT" | "REVOKE" | "LOAD" | "HANDLER" | "XA" | "INSTALL" | "UNINSTALL" | "RESIGNAL" | "GET" | "HELP"
        | "CHANGE" | "PURGE" | "RESET" | "STOP" | "CACHE" | "BINLOG" | "SHUTDOWN" | "VALUES" => {
            return Ok(Err(errors::unsupported(&verb)));
        }
        _ => {
            p.prev_token();
            let _ = sql;
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

fn insert(p: &mut Parser, replace: bool) -> Result<Insert> {
    let _priority = ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"].into_iter().any(|word| take_word(p, word));
    let ignore = !replace && take_word(p, "IGNORE");
    take_word(p, "INTO");
    let table = table_name(p)?;
    let mut columns = None;
    let has_list = p.peek_token_ref().token == Token::LParen
        && !is_word(p.peek_nth_token_ref(1), "SELECT")
        && !is_word(p.peek_nth_token_ref(1), "WITH")
        && p.peek_nth_token_ref(1).token != Token::LParen;
    if has_list {
        p.advance_token();
        columns = Some(if p.consume_token(&Token::RParen) {
            Vec::new()
        } else {
            let list = comma_separated(p, qualified_column)?;
            p.expect_token(&Token::RParen)?;
            list
        });
    }
    let mut row_alias = None;
    let source = if take_word(p, "VALUES") || take_word(p, "VALUE") {
        let rows = comma_separated(p, |p| {
            p.expect_token(&Token::LParen)?;
            if p.consume_token(&Token::RParen) {
                return Ok(Vec::new());
            }
            let row = comma_separated(p, |p| p.parse_expr())?;
            p.expect_token(&Token::RParen)?;
            Ok(row)
        })?;
        if take_word(p, "AS") {
            row_alias = Some(identifier(p)?.value);
        }
        InsertSource::Values(rows)
    } else if columns.is_none() && take_word(p, "SET") {
        let assignments = comma_separated(p, assignment)?;
        let mut names = Vec::new();
        let mut row = Vec::new();
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = assignment.target else { return unexpected(p) };
            let Some(name) = to_table_name(&name) else { return unexpected(p) };
            names.push(name.name);
            row.push(assignment.value);
        }
        columns = Some(names);
        InsertSource::Values(vec![row])
    } else {
        InsertSource::Query(p.parse_query()?)
    };
    let mut on_duplicate = Vec::new();
    if !replace && take_words(p, &["ON", "DUPLICATE", "KEY", "UPDATE"]) {
        on_duplicate = comma_separated(p, assignment)?;
    }
    Ok(Insert { replace, ignore, table, columns, source, row_alias, on_duplicate })
}

/// A column in INSERT's list; a table in front must be the target, which MySQL checks no further.
fn qualified_column(p: &mut Parser) -> Result<String> {
    let mut name = identifier(p)?.value;
    while p.consume_token(&Token::Period) {
        name = identifier(p)?.value;
    }
    Ok(name)
}

fn assignment(p: &mut Parser) -> Result<Assignment> {
    let mut parts: Vec<Ident> = vec![identifier(p)?];
    while p.consume_token(&Token::Period) {
        parts.push(identifier(p)?);
    }
    if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
        return unexpected(p);
    }
    Ok(Assignment { target: AssignmentTarget::ColumnName(ObjectName::from(parts)), value: p.parse_expr()? })
}

fn update(p: &mut Parser) -> Result<Update> {
    take_word(p, "LOW_PRIORITY");
    let ignore = take_word(p, "IGNORE");
    let from = comma_separated(p, |p| p.parse_table_and_joins())?;
    expect_word(p, "SET")?;
    let assignments = comma_separated(p, assignment)?;
    let (selection, order_by, limit) = tail(p)?;
    Ok(Update { ignore, from, assignments, selection, order_by, limit })
}

fn tail(p: &mut Parser) -> Result<(Option<Expr>, Vec<OrderByExpr>, Option<Expr>)> {
    let selection = if take_word(p, "WHERE") { Some(p.parse_expr()?) } else { None };
    let order_by =
        if take_words(p, &["ORDER", "BY"]) { comma_separated(p, |p| p.parse_order_by_expr())? } else { Vec::new() };
    let limit = if take_word(p, "LIMIT") { Some(p.parse_expr()?) } else { None };
    Ok((selection, order_by, limit))
}

fn delete(p: &mut Parser) -> Result<Delete> {
    take_word(p, "LOW_PRIORITY");
    take_word(p, "QUICK");
    let ignore = take_word(p, "IGNORE");
    let mut targets = Vec::new();
    let from;
    if take_word(p, "FROM") {
        // `DELETE FROM t …` or `DELETE FROM t1, t2 USING …`.
        let start = p.index();
        let using = target_list(p).is_ok_and(|list| {
            targets = list;
            take_word(p, "USING")
        });
        if using {
            from = comma_separated(p, |p| p.parse_table_and_joins())?;
        } else {
            targets.clear();
            while p.index() > start {
                p.prev_token();
            }
            from = vec![p.parse_table_and_joins()?];
            if p.peek_token_ref().token == Token::Comma {
                return unexpected(p);
            }
        }
    } else {
        targets = target_list(p)?;
        expect_word(p, "FROM")?;
        from = comma_separated(p, |p| p.parse_table_and_joins())?;
    }
    let (selection, order_by, limit) = tail(p)?;
    Ok(Delete { ignore, targets, from, selection, order_by, limit })
}

fn target_list(p: &mut Parser) -> Result<Vec<TableName>> {
    comma_separated(p, |p| {
        let name = table_name(p)?;
        if p.peek_token_ref().token == Token::Period && p.peek_nth_token_ref(1).token == Token::Mul {
            p.advance_token();
            p.advance_token();
        }
        Ok(name)
    })
}

fn set(p: &mut Parser) -> Result<Vec<SetItem>> {
    if take_words(p, &["NAMES"]) {
        let charset = if take_word(p, "DEFAULT") { None } else { Some(word_or_string(p)?) };
        let collation = if take_word(p, "COLLATE") { Some(word_or_string(p)?) } else { None };
        return Ok(vec![SetItem::Names { charset, collation }]);
    }
    if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
        let charset = if take_word(p, "DEFAULT") { None } else { Some(word_or_string(p)?) };
        return Ok(vec![SetItem::Names { charset, collation: None }]);
    }
    comma_separated(p, set_item)
}

fn set_item(p: &mut Parser) -> Result<SetItem> {
    let mut global = false;
    if let Token::DollarQuotedString(variable) = &p.peek_token_ref().token {
        let name = variable.value.clone();
        p.advance_token();
        if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
            return unexpected(p);
        }
        let Some(system) = name.strip_prefix("@@") else {
            return Ok(SetItem::User { name: name[1..].to_owned(), value: span_of(p)? });
        };
        let lower = system.to_ascii_lowercase();
        let (scope, bare) = lower.split_once('.').unwrap_or(("", &lower));
        return Ok(SetItem::System { global: scope == "global", name: bare.to_owned(), value: set_value(p)? });
    }
    if take_word(p, "GLOBAL") || take_word(p, "PERSIST") {
        global = true;
    } else if !take_word(p, "SESSION") {
        take_word(p, "LOCAL");
    }
    if take_word(p, "TRANSACTION") {
        return isolation(p);
    }
    let name = identifier(p)?.value.to_ascii_lowercase();
    if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
        return unexpected(p);
    }
    Ok(SetItem::System { global, name, value: set_value(p)? })
}

/// Reads an expression for its place in the text only.
pub(crate) fn span_of(p: &mut Parser) -> Result<Span> {
    let from = p.peek_token_ref().span.start.column as usize;
    p.parse_expr()?;
    let last = p.get_current_token();
    // The end of the text may lie behind the `*/` of a `/*! … */`.
    let last = if last.token == Token::EOF { p.get_previous_token() } else { last };
    Ok((from, last.span.end.column as usize))
}

/// The value of SET; bare words such as ON and names count as strings.
fn set_value(p: &mut Parser) -> Result<Option<SetValue>> {
    if take_word(p, "DEFAULT") {
        return Ok(None);
    }
    let bare = match &p.peek_token_ref().token {
        Token::Word(word) => {
            let ends = matches!(p.peek_nth_token_ref(1).token, Token::EOF | Token::Comma);
            let constant = ["NULL", "TRUE", "FALSE"].iter().any(|constant| word.value.eq_ignore_ascii_case(constant));
            (ends && !constant).then(|| word.value.clone())
        }
        _ => None,
    };
    if let Some(word) = bare {
        p.advance_token();
        return Ok(Some(SetValue::Word(word)));
    }
    Ok(Some(SetValue::Expr(span_of(p)?)))
}

fn isolation(p: &mut Parser) -> Result<SetItem> {
    let mut words = Vec::new();
    while let Token::Word(word) = &p.peek_token_ref().token {
        words.push(word.value.to_ascii_uppercase());
        p.advance_token();
    }
    match words.join(" ").as_str() {
        "ISOLATION LEVEL READ COMMITTED" => Ok(SetItem::Isolation("READ-COMMITTED".into())),
        "ISOLATION LEVEL REPEATABLE READ" => Ok(SetItem::Isolation("REPEATABLE-READ".into())),
        "ISOLATION LEVEL READ UNCOMMITTED" => Ok(SetItem::Isolation("READ-UNCOMMITTED".into())),
        "ISOLATION LEVEL SERIALIZABLE" => Ok(SetItem::Isolation("SERIALIZABLE".into())),
        "READ WRITE" => Ok(SetItem::Isolation(String::new())),
        _ => unexpected(p),
    }
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
    let from = p.peek_token_ref().span.start.column as usize;
    while p.peek_token_ref().token != Token::EOF {
        p.advance_token();
    }
    Ok(Statement::Explain { from })
}

fn start_transaction(p: &mut Parser) -> Result<Statement> {
    expect_word(p, "TRANSACTION")?;
    let (mut read_only, mut snapshot) = (false, false);
    loop {
        if take_words(p, &["WITH", "CONSISTENT", "SNAPSHOT"]) {
            snapshot = true;
        } else if take_words(p, &["READ", "ONLY"]) {
            read_only = true;
        } else if !take_words(p, &["READ", "WRITE"]) {
            break;
        }
        if !p.consume_token(&Token::Comma) {
            break;
        }
    }
    Ok(Statement::Begin { read_only, snapshot })
}

fn chain(p: &mut Parser) -> Result<bool> {
    take_word(p, "WORK");
    if take_words(p, &["AND", "NO", "CHAIN"]) {
        return Ok(false);
    }
    Ok(take_words(p, &["AND", "CHAIN"]))
}

fn rollback(p: &mut Parser) -> Result<Statement> {
    take_word(p, "WORK");
    if take_word(p, "TO") {
        take_word(p, "SAVEPOINT");
        return Ok(Statement::RollbackTo(identifier(p)?.value));
    }
    Ok(Statement::Rollback { chain: chain(p)? })
}

fn user_variable(p: &mut Parser) -> Result<String> {
    match &p.peek_token_ref().token {
        Token::DollarQuotedString(variable) if !variable.value.starts_with("@@") => {
            let name = variable.value[1..].to_owned();
            p.advance_token();
            Ok(name)
        }
        _ => unexpected(p),
    }
}

fn prepare(p: &mut Parser) -> Result<Statement> {
    let name = identifier(p)?.value;
    expect_word(p, "FROM")?;
    let source = match &p.peek_token_ref().token {
        Token::SingleQuotedString(text) => {
            let text = text.clone();
            p.advance_token();
            PrepareSource::Text(text)
        }
        _ => PrepareSource::Variable(user_variable(p)?),
    };
    Ok(Statement::Prepare { name, source })
}

fn execute(p: &mut Parser) -> Result<Statement> {
    let name = identifier(p)?.value;
    let variables = if take_word(p, "USING") { comma_separated(p, user_variable)? } else { Vec::new() };
    Ok(Statement::Execute { name, variables })
}

fn admin(p: &mut Parser, verb: &str) -> Result<Statement> {
    if !take_word(p, "NO_WRITE_TO_BINLOG") {
        take_word(p, "LOCAL");
    }
    if !take_word(p, "TABLE") {
        expect_word(p, "TABLES")?;
    }
    let tables = comma_separated(p, table_name)?;
    while ["QUICK", "EXTENDED", "FAST", "MEDIUM", "CHANGED"].into_iter().any(|word| take_word(p, word)) {}
    let verb = match verb {
        "ANALYZE" => "analyze",
        "OPTIMIZE" => "optimize",
        "REPAIR" => "repair",
        "CHECKSUM" => return unexpected(p),
        _ => "check",
    };
    Ok(Statement::Admin { verb, tables })
}
