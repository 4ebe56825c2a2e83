//! CREATE, ALTER, DROP and RENAME.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Outcome, Result, Span, Statement, TableName, accounts,
    alter::AlterItem,
    column::{column, in_parentheses},
    comma_separated, database, parenthesised, query_span, sequence, table_name, view, word_or_string,
};
use crate::{
    dialect::{expect_word, identifier, is_word, skip, take_word, take_words, unexpected},
    errors,
    value::SqlType,
};

/// CREATE TABLE.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: TableName,
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) temporary: bool,
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) indexes: Vec<IndexSpec>,
    pub(crate) foreign_keys: Vec<ForeignKeySpec>,
    pub(crate) checks: Vec<CheckSpec>,
    pub(crate) options: TableOptions,
    pub(crate) like: Option<TableName>,
    /// Where the query of CREATE … SELECT stands in the text.
    pub(crate) query: Option<super::Span>,
}

/// A column as written.
#[derive(Debug, Clone)]
pub(crate) struct ColumnSpec {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    pub(crate) nullable: Option<bool>,
    pub(crate) default: DefaultSpec,
    pub(crate) on_update: bool,
    pub(crate) auto_increment: bool,
    pub(crate) comment: String,
    pub(crate) key: Option<KeyKind>,
    /// MySQL's CHECK of JSON columns.
    pub(crate) is_json: bool,
    /// Where the expression of a generated column stands, and whether it is STORED.
    pub(crate) generated: Option<(Span, bool)>,
    /// Where the expression of a CHECK stands.
    pub(crate) check: Option<Span>,
}

/// A CHECK of the table as written.
#[derive(Debug, Clone)]
pub(crate) struct CheckSpec {
    pub(crate) name: Option<String>,
    pub(crate) text: Span,
}

/// DEFAULT as written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum DefaultSpec {
    #[default]
    None,
    Null,
    /// A literal's text.
    Text(String),
    /// A number, sign included.
    Number(String),
    /// Bytes.
    Bytes(Vec<u8>),
    Now,
    /// Where an expression stands in the text.
    Expression(Span),
}

/// What an index is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Plain,
    Unique,
    Primary,
    Fulltext,
}

impl KeyKind {
    /// Whether it keeps rows out.
    pub(crate) fn is_unique(self) -> bool {
        matches!(self, KeyKind::Unique | KeyKind::Primary)
    }

    /// Whether rows are found in it by values of its columns.
    pub(crate) fn is_ordered(self) -> bool {
        self != KeyKind::Fulltext
    }
}

/// An index as written.
#[derive(Debug, Clone)]
pub(crate) struct IndexSpec {
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) kind: KeyKind,
    pub(crate) name: Option<String>,
    /// Column, length of the prefix, whether descending.
    pub(crate) parts: Vec<(String, Option<u32>, bool)>,
    pub(crate) comment: String,
}

/// A foreign key as written.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKeySpec {
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) table: TableName,
    pub(crate) references: Vec<String>,
    pub(crate) on_delete: &'static str,
    pub(crate) on_update: &'static str,
}

/// Options behind the columns; those without effect here are not kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableOptions {
    pub(crate) engine: Option<String>,
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) auto_increment: Option<u64>,
}

pub(super) fn if_not_exists(p: &mut Parser) -> bool {
    take_words(p, &["IF", "NOT", "EXISTS"])
}

pub(super) fn if_exists(p: &mut Parser) -> bool {
    take_words(p, &["IF", "EXISTS"])
}

pub(super) fn create(p: &mut Parser) -> Result<Outcome> {
    let or_replace = take_words(p, &["OR", "REPLACE"]);
    if take_word(p, "DATABASE") || take_word(p, "SCHEMA") {
        return database::create(p, or_replace);
    }
    if take_words(p, &["TEMPORARY", "TABLE"]) {
        return create_table(p, or_replace, true);
    }
    if take_word(p, "TABLE") {
        return create_table(p, or_replace, false);
    }
    let temporary = take_words(p, &["TEMPORARY", "SEQUENCE"]);
    if temporary || take_word(p, "SEQUENCE") {
        return sequence::create(p, or_replace, temporary);
    }
    for (word, is_role) in [("USER", false), ("ROLE", true)] {
        if take_word(p, word) {
            return accounts::create(p, or_replace, is_role);
        }
    }
    let security = view::security(p)?;
    if take_word(p, "VIEW") {
        return view::create(p, or_replace, security);
    }
    let kind = if take_word(p, "UNIQUE") {
        KeyKind::Unique
    } else if take_word(p, "FULLTEXT") {
        KeyKind::Fulltext
    } else {
        KeyKind::Plain
    };
    if take_word(p, "INDEX") {
        return create_index(p, or_replace, kind);
    }
    let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
    Ok(Err(errors::unsupported(format!("CREATE {}", word.value.to_ascii_uppercase()))))
}

/// IF NOT EXISTS, if it stands there: 1221 behind OR REPLACE.
pub(super) fn unless_exists(p: &mut Parser, or_replace: bool) -> Refused<bool> {
    match if_not_exists(p) {
        true if or_replace => Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS")),
        if_not_exists => Ok(if_not_exists),
    }
}

fn create_index(p: &mut Parser, or_replace: bool, kind: KeyKind) -> Result<Outcome> {
    let if_not_exists = match unless_exists(p, or_replace) {
        Ok(if_not_exists) => if_not_exists,
        Err(error) => return Ok(Err(error)),
    };
    let name = identifier(p)?.value;
    index_type(p);
    expect_word(p, "ON")?;
    let table = table_name(p)?;
    let parts = index_parts(p)?;
    let comment = index_options(p)?;
    if let Some(error) = unknown_parser(p, kind)? {
        return Ok(Err(error));
    }
    let spec = IndexSpec { or_replace, if_not_exists, kind, name: Some(name), parts, comment };
    Ok(Ok(Statement::AlterTable { table, if_exists: false, items: vec![AlterItem::AddIndex(spec)] }))
}

fn index_type(p: &mut Parser) {
    if take_word(p, "USING") || take_word(p, "TYPE") {
        p.advance_token();
    }
}

/// The error of `WITH PARSER`: no other parser is known than the built-in one.
fn unknown_parser(p: &mut Parser, kind: KeyKind) -> Result<Option<tidegate_rows::ServerError>> {
    if kind != KeyKind::Fulltext || !take_words(p, &["WITH", "PARSER"]) {
        return Ok(None);
    }
    Ok(Some(errors::unknown_parser(identifier(p)?.value)))
}

fn index_options(p: &mut Parser) -> Result<String> {
    let mut comment = String::new();
    loop {
        if take_word(p, "USING") {
            p.advance_token();
        } else if take_word(p, "COMMENT") {
            comment = word_or_string(p)?;
        } else if take_word(p, "KEY_BLOCK_SIZE") || take_word(p, "ALGORITHM") || take_word(p, "LOCK") {
            skip(p, &Token::Eq);
            p.advance_token();
        } else if !take_word(p, "VISIBLE") {
            return Ok(comment);
        }
    }
}

fn index_parts(p: &mut Parser) -> Result<Vec<(String, Option<u32>, bool)>> {
    parenthesised(p, |p| {
        let name = identifier(p)?.value;
        let length = if p.consume_token(&Token::LParen) {
            let length = number(p)?;
            p.expect_token(&Token::RParen)?;
            Some(length)
        } else {
            None
        };
        let descending = take_word(p, "DESC");
        if !descending {
            take_word(p, "ASC");
        }
        Ok((name, length, descending))
    })
}

/// The name of an engine as servers write it, whatever its case.
fn engine_name(written: String) -> String {
    let known = ["InnoDB", "MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE"];
    known.iter().find(|known| written.eq_ignore_ascii_case(known)).map_or(written, |known| (*known).to_owned())
}

pub(super) fn number(p: &mut Parser) -> Result<u32> {
    let text = match &p.peek_token_ref().token {
        Token::Number(text, _) => text.clone(),
        _ => return unexpected(p),
    };
    match text.parse() {
        Ok(number) => {
            p.advance_token();
            Ok(number)
        }
        Err(_) => unexpected(p),
    }
}

fn create_table(p: &mut Parser, or_replace: bool, temporary: bool) -> Result<Outcome> {
    let if_not_exists = match unless_exists(p, or_replace) {
        Ok(if_not_exists) => if_not_exists,
        Err(error) => return Ok(Err(error)),
    };
    let name = table_name(p)?;
    let mut table = CreateTable {
        name,
        or_replace,
        if_not_exists,
        temporary,
        columns: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        options: TableOptions::default(),
        like: None,
        query: None,
    };
    if take_word(p, "LIKE") {
        table.like = Some(table_name(p)?);
        return Ok(Ok(Statement::CreateTable(Box::new(table))));
    }
    let has_columns = p.peek_token_ref().token == Token::LParen && !is_word(p.peek_nth_token_ref(1), "SELECT");
    if has_columns {
        p.advance_token();
        if take_word(p, "LIKE") {
            table.like = Some(table_name(p)?);
            p.expect_token(&Token::RParen)?;
            return Ok(Ok(Statement::CreateTable(Box::new(table))));
        }
        loop {
            if let Err(error) = table_item(p, &mut table)? {
                return Ok(Err(error));
            }
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        p.expect_token(&Token::RParen)?;
    }
    table.options = table_options(p)?;
    if take_word(p, "PARTITION") {
        return Ok(Err(errors::unsupported("partitions")));
    }
    take_word(p, "IGNORE");
    take_word(p, "REPLACE");
    take_word(p, "AS");
    if p.peek_token_ref().token != Token::EOF {
        table.query = Some(query_span(p)?);
    }
    if !has_columns && table.query.is_none() {
        return unexpected(p);
    }
    Ok(Ok(Statement::CreateTable(Box::new(table))))
}

fn table_item(p: &mut Parser, table: &mut CreateTable) -> Result<std::result::Result<(), tidegate_rows::ServerError>> {
    let quoted = matches!(&p.peek_token_ref().token, Token::Word(word) if word.quote_style.is_some());
    if !quoted && let Some(item) = constraint(p)? {
        match item {
            Ok(AlterItem::AddIndex(index)) => table.indexes.push(index),
            Ok(AlterItem::AddForeignKey(key)) => table.foreign_keys.push(key),
            Ok(AlterItem::AddCheck(check)) => table.checks.push(check),
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
        return Ok(Ok(()));
    }
    match column(p)? {
        Ok(spec) => {
            table.foreign_keys.extend(column_references(p, &spec.name)?);
            table.columns.push(spec);
        }
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(()))
}

/// The foreign key that may stand behind a column: `[CONSTRAINT [name]] REFERENCES …`.
pub(super) fn column_references(p: &mut Parser, column: &str) -> Result<Option<ForeignKeySpec>> {
    let (mut name, named) = (None, take_word(p, "CONSTRAINT"));
    if named && !is_word(p.peek_token_ref(), "REFERENCES") {
        name = Some(identifier(p)?.value);
    }
    if !named && !is_word(p.peek_token_ref(), "REFERENCES") {
        return Ok(None);
    }
    references(p, name, vec![column.to_owned()]).map(Some)
}

/// An index, foreign key or check of CREATE TABLE or ALTER TABLE ADD; `None` if a column comes next.
pub(super) fn constraint(p: &mut Parser) -> Result<Option<std::result::Result<AlterItem, tidegate_rows::ServerError>>> {
    let mut name = None;
    if take_word(p, "CONSTRAINT")
        && !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|word| is_word(p.peek_token_ref(), word))
    {
        name = Some(identifier(p)?.value);
    }
    if take_words(p, &["PRIMARY", "KEY"]) {
        return Ok(Some(Ok(primary_key(p)?)));
    }
    if is_word(p.peek_token_ref(), "SPATIAL") {
        return Ok(Some(Err(errors::unsupported("SPATIAL indexes"))));
    }
    let kind = if take_word(p, "UNIQUE") {
        KeyKind::Unique
    } else if name.is_none() && take_word(p, "FULLTEXT") {
        KeyKind::Fulltext
    } else {
        KeyKind::Plain
    };
    if kind != KeyKind::Plain || is_word(p.peek_token_ref(), "KEY") || is_word(p.peek_token_ref(), "INDEX") {
        if !take_word(p, "KEY") {
            take_word(p, "INDEX");
        }
        let if_not_exists = if_not_exists(p);
        if p.peek_token_ref().token != Token::LParen && !is_word(p.peek_token_ref(), "USING") {
            name = Some(identifier(p)?.value);
        }
        index_type(p);
        let parts = index_parts(p)?;
        let comment = index_options(p)?;
        if let Some(error) = unknown_parser(p, kind)? {
            return Ok(Some(Err(error)));
        }
        let spec = IndexSpec { or_replace: false, if_not_exists, kind, name, parts, comment };
        return Ok(Some(Ok(AlterItem::AddIndex(spec))));
    }
    if take_words(p, &["FOREIGN", "KEY"]) {
        if p.peek_token_ref().token != Token::LParen {
            let index = identifier(p)?.value;
            name.get_or_insert(index);
        }
        let columns = parenthesised(p, |p| Ok(identifier(p)?.value))?;
        return Ok(Some(Ok(AlterItem::AddForeignKey(references(p, name, columns)?))));
    }
    if take_word(p, "CHECK") {
        return Ok(Some(Ok(AlterItem::AddCheck(CheckSpec { name, text: in_parentheses(p)? }))));
    }
    if name.is_some() {
        return unexpected(p);
    }
    Ok(None)
}

/// What follows PRIMARY KEY. It may be named, and is called PRIMARY.
fn primary_key(p: &mut Parser) -> Result<AlterItem> {
    if !is_word(p.peek_token_ref(), "USING") && matches!(p.peek_token_ref().token, Token::Word(_)) {
        identifier(p)?;
    }
    index_type(p);
    let parts = index_parts(p)?;
    let comment = index_options(p)?;
    let (or_replace, if_not_exists, kind) = (false, false, KeyKind::Primary);
    Ok(AlterItem::AddIndex(IndexSpec { or_replace, if_not_exists, kind, name: None, parts, comment }))
}

pub(super) fn references(p: &mut Parser, name: Option<String>, columns: Vec<String>) -> Result<ForeignKeySpec> {
    expect_word(p, "REFERENCES")?;
    let table = table_name(p)?;
    let references = parenthesised(p, |p| Ok(identifier(p)?.value))?;
    let (mut on_delete, mut on_update) = ("RESTRICT", "RESTRICT");
    while take_word(p, "ON") {
        let delete = take_word(p, "DELETE");
        if !delete {
            expect_word(p, "UPDATE")?;
        }
        let action = if take_word(p, "CASCADE") {
            "CASCADE"
        } else if take_words(p, &["SET", "NULL"]) {
            "SET NULL"
        } else if take_words(p, &["NO", "ACTION"]) {
            "NO ACTION"
        } else {
            expect_word(p, "RESTRICT")?;
            "RESTRICT"
        };
        if delete {
            on_delete = action;
        } else {
            on_update = action;
        }
    }
    Ok(ForeignKeySpec { name, columns, table, references, on_delete, on_update })
}

pub(super) type Refused<T> = std::result::Result<T, tidegate_rows::ServerError>;

pub(super) fn table_options(p: &mut Parser) -> Result<TableOptions> {
    let mut options = TableOptions::default();
    loop {
        skip(p, &Token::Comma);
        let defaulted = take_word(p, "DEFAULT");
        if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
            skip(p, &Token::Eq);
            options.charset = Some(word_or_string(p)?);
        } else if take_word(p, "COLLATE") {
            skip(p, &Token::Eq);
            options.collation = Some(word_or_string(p)?);
        } else if defaulted {
            return unexpected(p);
        } else if take_word(p, "ENGINE") || take_word(p, "TYPE") {
            skip(p, &Token::Eq);
            options.engine = Some(engine_name(word_or_string(p)?));
        } else if take_word(p, "COMMENT") {
            skip(p, &Token::Eq);
            options.comment = Some(word_or_string(p)?);
        } else if take_word(p, "AUTO_INCREMENT") {
            skip(p, &Token::Eq);
            let Token::Number(text, _) = p.peek_token_ref().token.clone() else { return unexpected(p) };
            let Ok(next) = text.parse() else { return unexpected(p) };
            p.advance_token();
            options.auto_increment = Some(next);
        } else if [
            "ROW_FORMAT",
            "KEY_BLOCK_SIZE",
            "AVG_ROW_LENGTH",
            "CHECKSUM",
            "DELAY_KEY_WRITE",
            "MAX_ROWS",
            "MIN_ROWS",
            "PACK_KEYS",
            "STATS_PERSISTENT",
            "STATS_AUTO_RECALC",
            "STATS_SAMPLE_PAGES",
            "PAGE_CHECKSUM",
            "TRANSACTIONAL",
        ]
        .into_iter()
        .any(|word| take_word(p, word))
        {
            // Tuning of storage that this engine does not have; no result depends on it.
            skip(p, &Token::Eq);
            p.advance_token();
        } else {
            return Ok(options);
        }
    }
}

pub(super) fn drop(p: &mut Parser) -> Result<Outcome> {
    if take_word(p, "DATABASE") || take_word(p, "SCHEMA") {
        let if_exists = if_exists(p);
        return Ok(Ok(Statement::DropDatabase { name: identifier(p)?.value, if_exists }));
    }
    for (word, is_role) in [("USER", false), ("ROLE", true)] {
        if take_word(p, word) {
            return accounts::drop(p, is_role);
        }
    }
    let temporary = take_word(p, "TEMPORARY");
    if take_word(p, "TABLE") || take_word(p, "TABLES") {
        let if_exists = if_exists(p);
        let tables = comma_separated(p, table_name)?;
        if !take_word(p, "CASCADE") {
            take_word(p, "RESTRICT");
        }
        return Ok(Ok(Statement::DropTable { tables, if_exists, temporary }));
    }
    if take_word(p, "SEQUENCE") {
        return sequence::drop(p, temporary);
    }
    if take_word(p, "VIEW") {
        let if_exists = if_exists(p);
        return Ok(Ok(Statement::DropView { views: comma_separated(p, table_name)?, if_exists }));
    }
    if take_word(p, "INDEX") {
        let if_exists = if_exists(p);
        let name = identifier(p)?.value;
        expect_word(p, "ON")?;
        let table = table_name(p)?;
        index_options(p)?;
        let item = if name.eq_ignore_ascii_case("PRIMARY") {
            AlterItem::DropPrimary
        } else {
            AlterItem::DropIndex { name, if_exists }
        };
        return Ok(Ok(Statement::AlterTable { table, if_exists: false, items: vec![item] }));
    }
    if take_word(p, "PREPARE") {
        return Ok(Ok(Statement::Deallocate(identifier(p)?.value)));
    }
    if let Some(kind) = ["FUNCTION", "PROCEDURE", "TRIGGER", "EVENT"].into_iter().find(|kind| take_word(p, kind)) {
        let if_exists = if_exists(p);
        return Ok(Ok(Statement::DropProgram { kind, name: table_name(p)?, if_exists }));
    }
    let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
    Ok(Err(errors::unsupported(format!("DROP {}", word.value.to_ascii_uppercase()))))
}
