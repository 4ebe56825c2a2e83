//! SHOW.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Outcome, Pattern, Result, Show, ShowWhat, Statement, TableName, accounts, comma_separated, program::RoutineKind,
    span_of, table_name,
};
use crate::{
    dialect::{expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
};

fn in_schema(p: &mut Parser) -> Result<Option<String>> {
    if take_word(p, "FROM") || take_word(p, "IN") { Ok(Some(identifier(p)?.value)) } else { Ok(None) }
}

fn of_table(p: &mut Parser) -> Result<TableName> {
    if !take_word(p, "FROM") {
        expect_word(p, "IN")?;
    }
    let mut table = table_name(p)?;
    if let Some(schema) = in_schema(p)? {
        table.schema = Some(schema);
    }
    Ok(table)
}

/// Takes the words that ask for the state of stored programs of a kind.
fn take_routine_status(p: &mut Parser) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 4] = [
        ("FUNCTION", &["FUNCTION", "STATUS"]),
        ("PROCEDURE", &["PROCEDURE", "STATUS"]),
        ("PACKAGE", &["PACKAGE", "STATUS"]),
        ("PACKAGE BODY", &["PACKAGE", "BODY", "STATUS"]),
    ];
    KINDS.iter().find(|(_, words)| take_words(p, words)).map(|(kind, _)| *kind)
}

pub(super) fn show(p: &mut Parser) -> Result<Outcome> {
    let full = take_word(p, "FULL");
    let global = take_word(p, "GLOBAL");
    if !global && !take_word(p, "SESSION") {
        take_word(p, "LOCAL");
    }
    let what = if take_word(p, "DATABASES") || take_word(p, "SCHEMAS") {
        ShowWhat::Databases
    } else if take_word(p, "TABLES") {
        ShowWhat::Tables { schema: in_schema(p)?, full }
    } else if take_words(p, &["TABLE", "STATUS"]) {
        ShowWhat::TableStatus { schema: in_schema(p)? }
    } else if take_word(p, "COLUMNS") || take_word(p, "FIELDS") {
        ShowWhat::Columns { table: of_table(p)?, full }
    } else if take_word(p, "INDEX") || take_word(p, "INDEXES") || take_word(p, "KEYS") {
        ShowWhat::Index(of_table(p)?)
    } else if take_word(p, "CREATE") {
        return show_create(p);
    } else if take_word(p, "VARIABLES") {
        ShowWhat::Variables { global }
    } else if take_word(p, "STATUS") {
        ShowWhat::Status
    } else if take_word(p, "WARNINGS") {
        ShowWhat::Warnings
    } else if take_word(p, "ERRORS") {
        ShowWhat::Errors
    } else if take_words(p, &["STORAGE", "ENGINES"]) || take_word(p, "ENGINES") {
        ShowWhat::Engines
    } else if take_words(p, &["ENGINE", "INNODB", "STATUS"]) {
        ShowWhat::EngineStatus
    } else if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
        ShowWhat::Charset
    } else if take_word(p, "COLLATION") {
        ShowWhat::Collation
    } else if take_word(p, "PROCESSLIST") {
        ShowWhat::ProcessList { full }
    } else if take_word(p, "GRANTS") {
        return accounts::show_grants(p);
    } else if take_word(p, "PRIVILEGES") {
        ShowWhat::Privileges
    } else if take_word(p, "PLUGINS") {
        ShowWhat::Plugins
    } else if take_word(p, "TRIGGERS") {
        ShowWhat::Triggers { schema: in_schema(p)? }
    } else if let Some(kind) = take_routine_status(p) {
        ShowWhat::Routines { kind }
    } else if let Some(columns) = replication(p) {
        match columns {
            Ok(columns) => ShowWhat::Empty(columns),
            Err(error) => return Ok(Err(error)),
        }
    } else if take_words(p, &["OPEN", "TABLES"]) {
        in_schema(p)?;
        ShowWhat::Empty(&["Database", "Table", "In_use", "Name_locked"])
    } else if is_word(p.peek_token_ref(), "COUNT") {
        return count(p);
    } else if take_word(p, "EVENTS") {
        ShowWhat::Events { schema: in_schema(p)? }
    } else {
        let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
        return Ok(Err(errors::unsupported(format!("SHOW {}", word.value.to_ascii_uppercase()))));
    };
    if shows_all(&what) {
        return Ok(Ok(Statement::Show(Show { what, like: None, filter: None })));
    }
    let like = if take_word(p, "LIKE") { Some(Pattern::Text(span_of(p)?)) } else { None };
    let filter = if like.is_none() && take_word(p, "WHERE") { Some(span_of(p)?) } else { None };
    if matches!(what, ShowWhat::Warnings | ShowWhat::Errors) && take_word(p, "LIMIT") {
        comma_separated(p, |p| p.parse_expr())?;
    }
    Ok(Ok(Statement::Show(Show { what, like, filter })))
}

/// Takes the words that ask about replication.
fn replication(p: &mut Parser) -> Option<std::result::Result<&'static [&'static str], tidegate_rows::ServerError>> {
    use super::replication::{ALL_SLAVES, EVENTS, HOSTS, MASTER, SLAVE};
    const KNOWN: [(&[&str], &[&str]); 10] = [
        (&["MASTER", "STATUS"], MASTER),
        (&["BINLOG", "STATUS"], MASTER),
        (&["SLAVE", "STATUS"], SLAVE),
        (&["REPLICA", "STATUS"], SLAVE),
        (&["ALL", "SLAVES", "STATUS"], ALL_SLAVES),
        (&["ALL", "REPLICAS", "STATUS"], ALL_SLAVES),
        (&["SLAVE", "HOSTS"], HOSTS),
        (&["REPLICA", "HOSTS"], HOSTS),
        (&["BINLOG", "EVENTS"], EVENTS),
        (&["RELAYLOG", "EVENTS"], EVENTS),
    ];
    if take_words(p, &["BINARY", "LOGS"]) || take_words(p, &["MASTER", "LOGS"]) {
        return Some(Err(errors::no_binary_log()));
    }
    KNOWN.iter().find(|(words, _)| take_words(p, words)).map(|(_, columns)| Ok(*columns))
}

/// Whether nothing says which rows are wanted.
fn shows_all(what: &ShowWhat) -> bool {
    use ShowWhat::{EngineStatus, Engines, Plugins, Privileges, ProcessList};
    matches!(what, Engines | EngineStatus | ProcessList { .. } | Plugins | Privileges)
}

/// `SHOW COUNT(*) WARNINGS`
fn count(p: &mut Parser) -> Result<Outcome> {
    expect_word(p, "COUNT")?;
    for token in [Token::LParen, Token::Mul, Token::RParen] {
        p.expect_token(&token)?;
    }
    let what = if take_word(p, "ERRORS") {
        ShowWhat::CountErrors
    } else {
        expect_word(p, "WARNINGS")?;
        ShowWhat::CountWarnings
    };
    Ok(Ok(Statement::Show(Show { what, like: None, filter: None })))
}

fn show_create(p: &mut Parser) -> Result<Outcome> {
    if take_word(p, "USER") {
        return accounts::show_create_user(p);
    }
    let what = if take_word(p, "TABLE") {
        ShowWhat::CreateTable(table_name(p)?)
    } else if take_word(p, "VIEW") {
        ShowWhat::CreateView(table_name(p)?)
    } else if take_word(p, "SEQUENCE") {
        ShowWhat::CreateSequence(table_name(p)?)
    } else if take_word(p, "TRIGGER") {
        ShowWhat::CreateTrigger(table_name(p)?)
    } else if take_word(p, "EVENT") {
        ShowWhat::CreateEvent(table_name(p)?)
    } else if take_word(p, "PROCEDURE") {
        ShowWhat::CreateRoutine(RoutineKind::Procedure, table_name(p)?)
    } else if take_word(p, "FUNCTION") {
        ShowWhat::CreateRoutine(RoutineKind::Function, table_name(p)?)
    } else if take_word(p, "DATABASE") || take_word(p, "SCHEMA") {
        take_words(p, &["IF", "NOT", "EXISTS"]);
        ShowWhat::CreateDatabase(identifier(p)?.value)
    } else {
        return Ok(Err(errors::unsupported("SHOW CREATE of this kind of object")));
    };
    Ok(Ok(Statement::Show(Show { what, like: None, filter: None })))
}
