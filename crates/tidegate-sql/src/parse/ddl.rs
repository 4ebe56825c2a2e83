//! CREATE, ALTER, DROP and RENAME.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{Outcome, Result, Span, Statement, TableName, comma_separated, parenthesised, table_name, word_or_string};
use crate::{
    dialect::{expect_word, identifier, is_word, skip, take_word, take_words, unexpected},
    errors,
    value::{Base, SqlType, collation::Collation, decimal, types::NOT_FIXED},
};

/// CREATE TABLE.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: TableName,
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
}

/// An index as written.
#[derive(Debug, Clone)]
pub(crate) struct IndexSpec {
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

/// One change of ALTER TABLE.
#[derive(Debug, Clone)]
pub(crate) enum AlterItem {
    AddColumn {
        spec: ColumnSpec,
        place: Place,
        if_not_exists: bool,
    },
    DropColumn {
        name: String,
        if_exists: bool,
    },
    ChangeColumn {
        old: String,
        spec: ColumnSpec,
        place: Place,
    },
    RenameColumn {
        old: String,
        new: String,
    },
    AlterDefault {
        column: String,
        default: DefaultSpec,
    },
    AddIndex(IndexSpec),
    AddForeignKey(ForeignKeySpec),
    AddCheck(CheckSpec),
    DropIndex {
        name: String,
        if_exists: bool,
    },
    DropPrimary,
    DropForeignKey(String),
    RenameIndex {
        old: String,
        new: String,
    },
    RenameTable(TableName),
    Options(TableOptions),
    /// CONVERT TO CHARACTER SET.
    Convert {
        charset: String,
        collation: Option<String>,
    },
    /// ENABLE KEYS, ORDER BY and others that change no result.
    Nothing,
}

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Place {
    #[default]
    Same,
    First,
    After(String),
}

fn if_not_exists(p: &mut Parser) -> bool {
    take_words(p, &["IF", "NOT", "EXISTS"])
}

fn if_exists(p: &mut Parser) -> bool {
    take_words(p, &["IF", "EXISTS"])
}

pub(super) fn create(p: &mut Parser) -> Result<Outcome> {
    let or_replace = take_words(p, &["OR", "REPLACE"]);
    if !or_replace && (take_word(p, "DATABASE") || take_word(p, "SCHEMA")) {
        return Ok(Ok(create_database(p)?));
    }
    if !or_replace && take_words(p, &["TEMPORARY", "TABLE"]) {
        return create_table(p, true);
    }
    if !or_replace && take_word(p, "TABLE") {
        return create_table(p, false);
    }
    while take_word(p, "ALGORITHM") || take_word(p, "DEFINER") || take_words(p, &["SQL", "SECURITY"]) {
        skip(p, &Token::Eq);
        while !["VIEW", "SQL", "ALGORITHM", "DEFINER"].iter().any(|word| is_word(p.peek_token_ref(), word)) {
            if p.peek_token_ref().token == Token::EOF {
                return unexpected(p);
            }
            p.advance_token();
        }
    }
    if take_word(p, "VIEW") {
        return Ok(Ok(create_view(p, or_replace)?));
    }
    let kind = if take_word(p, "UNIQUE") { KeyKind::Unique } else { KeyKind::Plain };
    if !or_replace && take_word(p, "INDEX") {
        return Ok(Ok(create_index(p, kind)?));
    }
    let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
    Ok(Err(errors::unsupported(format!("CREATE {}", word.value.to_ascii_uppercase()))))
}

fn create_database(p: &mut Parser) -> Result<Statement> {
    let if_not_exists = if_not_exists(p);
    let name = identifier(p)?.value;
    let (mut charset, mut collation) = (None, None);
    loop {
        take_word(p, "DEFAULT");
        if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
            skip(p, &Token::Eq);
            charset = Some(word_or_string(p)?);
        } else if take_word(p, "COLLATE") {
            skip(p, &Token::Eq);
            collation = Some(word_or_string(p)?);
        } else {
            break;
        }
    }
    Ok(Statement::CreateDatabase { name, if_not_exists, collation, charset })
}

fn create_view(p: &mut Parser, or_replace: bool) -> Result<Statement> {
    let name = table_name(p)?;
    let columns = if p.peek_token_ref().token == Token::LParen {
        parenthesised(p, |p| Ok(identifier(p)?.value))?
    } else {
        Vec::new()
    };
    expect_word(p, "AS")?;
    let from = p.peek_token_ref().span.start.column as usize;
    p.parse_query()?;
    let to = p.get_current_token().span.end.column as usize;
    Ok(Statement::CreateView { name, columns, text: (from, to), or_replace })
}

fn create_index(p: &mut Parser, kind: KeyKind) -> Result<Statement> {
    if_not_exists(p);
    let name = identifier(p)?.value;
    index_type(p);
    expect_word(p, "ON")?;
    let table = table_name(p)?;
    let parts = index_parts(p)?;
    let comment = index_options(p)?;
    let spec = IndexSpec { kind, name: Some(name), parts, comment };
    Ok(Statement::AlterTable { table, items: vec![AlterItem::AddIndex(spec)] })
}

fn index_type(p: &mut Parser) {
    if take_word(p, "USING") || take_word(p, "TYPE") {
        p.advance_token();
    }
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

fn number(p: &mut Parser) -> Result<u32> {
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

fn create_table(p: &mut Parser, temporary: bool) -> Result<Outcome> {
    let if_not_exists = if_not_exists(p);
    let name = table_name(p)?;
    let mut table = CreateTable {
        name,
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
        let from = p.peek_token_ref().span.start.column as usize;
        p.parse_query()?;
        table.query = Some((from, p.get_current_token().span.end.column as usize));
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
        Ok(spec) => table.columns.push(spec),
        Err(error) => return Ok(Err(error)),
    }
    Ok(Ok(()))
}

/// An index, foreign key or check of CREATE TABLE or ALTER TABLE ADD; `None` if a column comes next.
fn constraint(p: &mut Parser) -> Result<Option<std::result::Result<AlterItem, tidegate_rows::ServerError>>> {
    let mut name = None;
    if take_word(p, "CONSTRAINT")
        && !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|word| is_word(p.peek_token_ref(), word))
    {
        name = Some(identifier(p)?.value);
    }
    if take_words(p, &["PRIMARY", "KEY"]) {
        index_type(p);
        let parts = index_parts(p)?;
        let comment = index_options(p)?;
        return Ok(Some(Ok(AlterItem::AddIndex(IndexSpec { kind: KeyKind::Primary, name: None, parts, comment }))));
    }
    if is_word(p.peek_token_ref(), "FULLTEXT") || is_word(p.peek_token_ref(), "SPATIAL") {
        return Ok(Some(Err(errors::unsupported("FULLTEXT and SPATIAL indexes"))));
    }
    let unique = take_word(p, "UNIQUE");
    if unique || is_word(p.peek_token_ref(), "KEY") || is_word(p.peek_token_ref(), "INDEX") {
        if !take_word(p, "KEY") {
            take_word(p, "INDEX");
        }
        if p.peek_token_ref().token != Token::LParen && !is_word(p.peek_token_ref(), "USING") {
            name = Some(identifier(p)?.value);
        }
        index_type(p);
        let parts = index_parts(p)?;
        let comment = index_options(p)?;
        let kind = if unique { KeyKind::Unique } else { KeyKind::Plain };
        return Ok(Some(Ok(AlterItem::AddIndex(IndexSpec { kind, name, parts, comment }))));
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

fn references(p: &mut Parser, name: Option<String>, columns: Vec<String>) -> Result<ForeignKeySpec> {
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

type Refused<T> = std::result::Result<T, tidegate_rows::ServerError>;

fn column(p: &mut Parser) -> Result<Refused<ColumnSpec>> {
    let name = identifier(p)?.value;
    column_rest(p, name)
}

/// The type and attributes of a column.
fn column_rest(p: &mut Parser, name: String) -> Result<Refused<ColumnSpec>> {
    let (ty, charset, is_serial) = match column_type(p, &name)? {
        Ok(parsed) => parsed,
        Err(error) => return Ok(Err(error)),
    };
    let is_json = ty.base == Base::Json;
    let mut spec = ColumnSpec {
        name,
        ty,
        charset,
        collation: None,
        nullable: None,
        default: DefaultSpec::None,
        on_update: false,
        auto_increment: false,
        comment: String::new(),
        key: None,
        is_json,
        generated: None,
        check: None,
    };
    if is_serial {
        (spec.nullable, spec.auto_increment, spec.key) = (Some(false), true, Some(KeyKind::Unique));
    }
    loop {
        if take_words(p, &["NOT", "NULL"]) {
            spec.nullable = Some(false);
        } else if take_word(p, "NULL") {
            spec.nullable = Some(true);
        } else if take_word(p, "DEFAULT") {
            match default(p)? {
                Ok(default) => spec.default = default,
                Err(error) => return Ok(Err(error)),
            }
        } else if take_words(p, &["ON", "UPDATE"]) {
            if !now(p) {
                return unexpected(p);
            }
            spec.on_update = true;
        } else if take_word(p, "AUTO_INCREMENT") {
            spec.auto_increment = true;
        } else if take_word(p, "UNIQUE") {
            take_word(p, "KEY");
            spec.key.get_or_insert(KeyKind::Unique);
        } else if take_words(p, &["PRIMARY", "KEY"]) || take_word(p, "KEY") {
            spec.key = Some(KeyKind::Primary);
        } else if take_word(p, "COMMENT") {
            spec.comment = word_or_string(p)?;
        } else if take_word(p, "COLLATE") {
            spec.collation = Some(word_or_string(p)?);
        } else if take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET") {
            spec.charset = Some(word_or_string(p)?);
        } else if take_word(p, "REFERENCES") {
            // MySQL reads and ignores it in a column; the table's FOREIGN KEY counts.
            return Ok(Err(errors::unsupported("REFERENCES in a column; write FOREIGN KEY (…) REFERENCES …")));
        } else if take_words(p, &["GENERATED", "ALWAYS", "AS"]) || take_word(p, "AS") {
            let text = in_parentheses(p)?;
            let stored = take_word(p, "STORED") || take_word(p, "PERSISTENT");
            if !stored {
                take_word(p, "VIRTUAL");
            }
            spec.generated = Some((text, stored));
        } else if take_word(p, "CHECK") {
            if takes_json_check(p, &spec) {
                spec.is_json = true;
                spec.ty = SqlType { collation: Collation::UTF8MB4_BIN, ..SqlType::new(Base::Json) };
            } else {
                spec.check = Some(in_parentheses(p)?);
            }
        } else if !take_word(p, "VISIBLE") {
            return Ok(Ok(spec));
        }
    }
}

/// An expression in parentheses, for its place in the text.
fn in_parentheses(p: &mut Parser) -> Result<Span> {
    p.expect_token(&Token::LParen)?;
    let span = super::span_of(p)?;
    p.expect_token(&Token::RParen)?;
    Ok(span)
}

/// Takes `(json_valid(column))`, which makes a LONGTEXT column JSON.
fn takes_json_check(p: &mut Parser, spec: &ColumnSpec) -> bool {
    let named = |n: usize| matches!(&p.peek_nth_token_ref(n).token, Token::Word(word) if word.value == spec.name);
    let found = spec.ty.base == Base::LongText
        && p.peek_token_ref().token == Token::LParen
        && is_word(p.peek_nth_token_ref(1), "json_valid")
        && p.peek_nth_token_ref(2).token == Token::LParen
        && named(3)
        && p.peek_nth_token_ref(4).token == Token::RParen
        && p.peek_nth_token_ref(5).token == Token::RParen;
    if found {
        (0..6).for_each(|_| p.advance_token());
    }
    found
}

fn now(p: &mut Parser) -> bool {
    let found = ["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"].into_iter().any(|word| take_word(p, word));
    if found && p.consume_token(&Token::LParen) {
        let _ = number(p);
        return p.consume_token(&Token::RParen);
    }
    found
}

fn default(p: &mut Parser) -> Result<Refused<DefaultSpec>> {
    if take_word(p, "NULL") {
        return Ok(Ok(DefaultSpec::Null));
    }
    if now(p) {
        return Ok(Ok(DefaultSpec::Now));
    }
    if p.peek_token_ref().token == Token::LParen {
        return Ok(Ok(DefaultSpec::Expression(in_parentheses(p)?)));
    }
    if take_word(p, "TRUE") {
        return Ok(Ok(DefaultSpec::Number("1".into())));
    }
    if take_word(p, "FALSE") {
        return Ok(Ok(DefaultSpec::Number("0".into())));
    }
    let negative = p.consume_token(&Token::Minus);
    if !negative {
        skip(p, &Token::Plus);
    }
    let token = p.peek_token_ref().token.clone();
    let default = match token {
        Token::Number(number, _) => DefaultSpec::Number(if negative { format!("-{number}") } else { number }),
        Token::SingleQuotedString(text) if !negative => DefaultSpec::Text(text),
        Token::HexStringLiteral(hex) | Token::NationalStringLiteral(hex) if !negative => {
            DefaultSpec::Bytes(crate::value::number::hex_bytes(&hex))
        }
        Token::SingleQuotedByteStringLiteral(bits) if !negative => {
            DefaultSpec::Bytes(crate::value::number::bit_bytes(&bits))
        }
        _ if !negative => {
            // MariaDB takes calls without parentheses around them.
            let from = p.peek_token_ref().span.start.column as usize;
            p.parse_subexpr(200)?;
            return Ok(Ok(DefaultSpec::Expression((from, p.get_current_token().span.end.column as usize))));
        }
        _ => return unexpected(p),
    };
    p.advance_token();
    Ok(Ok(default))
}

/// Reads a type: the type, a character set named with it, whether it was SERIAL.
fn column_type(p: &mut Parser, name: &str) -> Result<Refused<(SqlType, Option<String>, bool)>> {
    let word = word_or_string(p)?.to_ascii_lowercase();
    let mut ty = match word.as_str() {
        "tinyint" | "int1" => SqlType::new(Base::Tiny),
        "smallint" | "int2" => SqlType::new(Base::Small),
        "mediumint" | "int3" | "middleint" => SqlType::new(Base::Medium),
        "int" | "integer" | "int4" => SqlType::new(Base::Int),
        "bigint" | "int8" => SqlType::new(Base::Big),
        "bool" | "boolean" => return Ok(Ok((SqlType { length: 1, ..SqlType::new(Base::Tiny) }, None, false))),
        "serial" => return Ok(Ok((SqlType::ubigint(), None, true))),
        "bit" => SqlType::new(Base::Bit),
        "year" => SqlType::new(Base::Year),
        "float" => SqlType::new(Base::Float),
        "double" | "real" => {
            take_word(p, "PRECISION");
            SqlType::new(Base::Double)
        }
        "decimal" | "dec" | "numeric" | "fixed" => SqlType::new(Base::Decimal),
        "date" => SqlType::new(Base::Date),
        "time" => SqlType::new(Base::Time),
        "datetime" => SqlType::new(Base::Datetime),
        "timestamp" => SqlType::new(Base::Timestamp),
        "char" | "character" | "nchar" => {
            let varying = take_word(p, "VARYING");
            SqlType::new(if varying { Base::Varchar } else { Base::Char })
        }
        "national" => {
            let base = if take_word(p, "VARCHAR") { Base::Varchar } else { Base::Char };
            if base == Base::Char && !take_word(p, "CHAR") {
                take_word(p, "CHARACTER");
            }
            SqlType::new(base)
        }
        "varchar" | "varcharacter" | "nvarchar" => SqlType::new(Base::Varchar),
        "binary" => SqlType::new(Base::Binary),
        "varbinary" => SqlType::new(Base::Varbinary),
        "tinytext" => SqlType::new(Base::TinyText),
        "text" => SqlType::new(Base::Text),
        "mediumtext" | "long" => SqlType::new(Base::MediumText),
        "longtext" => SqlType::new(Base::LongText),
        "tinyblob" => SqlType::new(Base::TinyBlob),
        "blob" => SqlType::new(Base::Blob),
        "mediumblob" => SqlType::new(Base::MediumBlob),
        "longblob" => SqlType::new(Base::LongBlob),
        "json" => SqlType { collation: Collation::UTF8MB4_BIN, ..SqlType::new(Base::Json) },
        "enum" => SqlType::new(Base::Enum),
        "set" => SqlType::new(Base::Set),
        "geometry" | "point" | "linestring" | "polygon" | "uuid" | "inet4" | "inet6" | "multipoint" => {
            return Ok(Err(errors::unsupported(format!("type {word}"))));
        }
        _ => {
            p.prev_token();
            return unexpected(p);
        }
    };
    if matches!(ty.base, Base::Enum | Base::Set) {
        let members = parenthesised(p, word_or_string)?;
        let members: Vec<Box<str>> = members.iter().map(|member| member.trim_end_matches(' ').into()).collect();
        ty.members = Some(members.into());
    } else if p.consume_token(&Token::LParen) {
        let first = number(p)?;
        let second = if p.consume_token(&Token::Comma) { Some(number(p)?) } else { None };
        p.expect_token(&Token::RParen)?;
        if let Err(error) = set_length(&mut ty, first, second, name) {
            return Ok(Err(error));
        }
    } else if matches!(ty.base, Base::Varchar | Base::Varbinary) {
        return unexpected(p);
    }
    let charset = type_attributes(p, &mut ty)?;
    Ok(Ok((ty, charset, false)))
}

fn set_length(ty: &mut SqlType, first: u32, second: Option<u32>, column: &str) -> Refused<()> {
    match ty.base {
        Base::Decimal => {
            let scale = second.unwrap_or(0);
            let first = if first == 0 { 10 } else { first };
            if first > 65 {
                return Err(errors::too_big_precision(column, 65));
            }
            if scale > first {
                return Err(errors::scale_above_precision(column));
            }
            if first > decimal::PRECISION_MAX || scale > u32::from(decimal::SCALE_MAX) || scale > first {
                return Err(errors::unsupported(format!(
                    "DECIMAL({first},{scale}); at most {} digits, {} of them behind the point",
                    decimal::PRECISION_MAX,
                    decimal::SCALE_MAX
                )));
            }
            (ty.length, ty.decimals) = (first, scale as u8);
        }
        Base::Float | Base::Double => match second {
            Some(scale) => (ty.length, ty.decimals) = (first, scale.min(30) as u8),
            None if ty.base == Base::Float && first > 24 => *ty = SqlType::new(Base::Double),
            None => ty.decimals = NOT_FIXED,
        },
        Base::Time | Base::Datetime | Base::Timestamp => {
            if first > 6 {
                return Err(errors::too_big_precision(column, 6));
            }
            ty.decimals = first as u8;
        }
        Base::Bit if first > 64 || first == 0 => return Err(errors::unsupported("BIT of this length")),
        Base::Text | Base::Blob => {
            let text = ty.base == Base::Text;
            let bytes = if text { first.saturating_mul(4) } else { first };
            let base = match (bytes, text) {
                (0..=255, true) => Base::TinyText,
                (0..=65_535, true) => Base::Text,
                (0..=16_777_215, true) => Base::MediumText,
                (_, true) => Base::LongText,
                (0..=255, false) => Base::TinyBlob,
                (0..=65_535, false) => Base::Blob,
                (0..=16_777_215, false) => Base::MediumBlob,
                (_, false) => Base::LongBlob,
            };
            *ty = SqlType::new(base);
        }
        Base::Date | Base::Json => return Err(errors::syntax("(")),
        _ => ty.length = first,
    }
    Ok(())
}

fn type_attributes(p: &mut Parser, ty: &mut SqlType) -> Result<Option<String>> {
    let mut charset = None;
    loop {
        if ty.base.is_number() && take_word(p, "UNSIGNED") {
            ty.unsigned = true;
        } else if ty.base.is_number() && take_word(p, "SIGNED") {
        } else if ty.base.is_number() && take_word(p, "ZEROFILL") {
            (ty.unsigned, ty.zerofill) = (true, true);
        } else if ty.base.is_character() && (take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET")) {
            charset = Some(word_or_string(p)?);
        } else if ty.base.is_character() && take_word(p, "ASCII") {
            charset = Some("ascii".into());
        } else if ty.base.is_character() && take_word(p, "UNICODE") {
            return unexpected(p);
        } else if ty.base.is_character() && take_word(p, "BINARY") {
            ty.collation = ty.collation.binary_order();
        } else {
            break;
        }
    }
    if ty.unsigned && ty.base != Base::Year {
        // The display width that MariaDB shows for unsigned types without one.
        let signed = SqlType::new(ty.base).length;
        if ty.length == signed {
            ty.length = match ty.base {
                Base::Tiny => 3,
                Base::Small => 5,
                Base::Medium => 8,
                Base::Int => 10,
                _ => ty.length,
            };
        }
    }
    Ok(charset)
}

fn table_options(p: &mut Parser) -> Result<TableOptions> {
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
            options.engine = Some(word_or_string(p)?);
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
    let temporary = take_word(p, "TEMPORARY");
    if take_word(p, "TABLE") || take_word(p, "TABLES") {
        let if_exists = if_exists(p);
        let tables = comma_separated(p, table_name)?;
        if !take_word(p, "CASCADE") {
            take_word(p, "RESTRICT");
        }
        return Ok(Ok(Statement::DropTable { tables, if_exists, temporary }));
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
        return Ok(Ok(Statement::AlterTable { table, items: vec![item] }));
    }
    if take_word(p, "PREPARE") {
        return Ok(Ok(Statement::Deallocate(identifier(p)?.value)));
    }
    let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
    Ok(Err(errors::unsupported(format!("DROP {}", word.value.to_ascii_uppercase()))))
}

pub(super) fn rename(p: &mut Parser) -> Result<Statement> {
    if !take_word(p, "TABLE") {
        expect_word(p, "TABLES")?;
    }
    Ok(Statement::RenameTable(comma_separated(p, |p| {
        let from = table_name(p)?;
        expect_word(p, "TO")?;
        Ok((from, table_name(p)?))
    })?))
}

pub(super) fn alter(p: &mut Parser) -> Result<Outcome> {
    take_word(p, "IGNORE");
    if !take_word(p, "TABLE") {
        let Token::Word(word) = &p.peek_token_ref().token else { return unexpected(p) };
        return Ok(Err(errors::unsupported(format!("ALTER {}", word.value.to_ascii_uppercase()))));
    }
    let table = table_name(p)?;
    let mut items = Vec::new();
    loop {
        match alter_item(p, &mut items)? {
            Ok(()) => {}
            Err(error) => return Ok(Err(error)),
        }
        if !p.consume_token(&Token::Comma) {
            break;
        }
    }
    Ok(Ok(Statement::AlterTable { table, items }))
}

fn place(p: &mut Parser) -> Result<Place> {
    if take_word(p, "FIRST") {
        Ok(Place::First)
    } else if take_word(p, "AFTER") {
        Ok(Place::After(identifier(p)?.value))
    } else {
        Ok(Place::Same)
    }
}

fn alter_item(p: &mut Parser, items: &mut Vec<AlterItem>) -> Result<Refused<()>> {
    if take_word(p, "ADD") {
        return alter_add(p, items);
    }
    let item = if take_word(p, "DROP") {
        alter_drop(p)?
    } else if take_word(p, "MODIFY") || is_word(p.peek_token_ref(), "CHANGE") {
        let change = take_word(p, "CHANGE");
        take_word(p, "COLUMN");
        if_exists(p);
        let old = identifier(p)?.value;
        let new = if change { identifier(p)?.value } else { old.clone() };
        match column_rest(p, new)? {
            Ok(spec) => AlterItem::ChangeColumn { old, spec, place: place(p)? },
            Err(error) => return Ok(Err(error)),
        }
    } else if take_word(p, "ALTER") {
        take_word(p, "COLUMN");
        let column = identifier(p)?.value;
        if take_words(p, &["DROP", "DEFAULT"]) {
            AlterItem::AlterDefault { column, default: DefaultSpec::None }
        } else if take_words(p, &["SET", "DEFAULT"]) {
            match default(p)? {
                Ok(default) => AlterItem::AlterDefault { column, default },
                Err(error) => return Ok(Err(error)),
            }
        } else {
            return unexpected(p);
        }
    } else if take_word(p, "RENAME") {
        alter_rename(p)?
    } else if take_words(p, &["CONVERT", "TO"]) {
        if !take_words(p, &["CHARACTER", "SET"]) {
            expect_word(p, "CHARSET")?;
        }
        let charset = word_or_string(p)?;
        let collation = if take_word(p, "COLLATE") { Some(word_or_string(p)?) } else { None };
        AlterItem::Convert { charset, collation }
    } else if take_words(p, &["ENABLE", "KEYS"]) || take_words(p, &["DISABLE", "KEYS"]) || take_word(p, "FORCE") {
        AlterItem::Nothing
    } else if take_word(p, "ALGORITHM") || take_word(p, "LOCK") {
        skip(p, &Token::Eq);
        p.advance_token();
        AlterItem::Nothing
    } else if take_words(p, &["ORDER", "BY"]) {
        comma_separated(p, |p| p.parse_order_by_expr())?;
        AlterItem::Nothing
    } else {
        let before = p.index();
        let options = table_options(p)?;
        if p.index() == before {
            return unexpected(p);
        }
        AlterItem::Options(options)
    };
    items.push(item);
    Ok(Ok(()))
}

fn alter_add(p: &mut Parser, items: &mut Vec<AlterItem>) -> Result<Refused<()>> {
    let quoted = matches!(&p.peek_token_ref().token, Token::Word(word) if word.quote_style.is_some());
    if !quoted && let Some(item) = constraint(p)? {
        return Ok(item.map(|item| items.push(item)));
    }
    take_word(p, "COLUMN");
    let if_not_exists = if_not_exists(p);
    if p.consume_token(&Token::LParen) {
        loop {
            match column(p)? {
                Ok(spec) => items.push(AlterItem::AddColumn { spec, place: Place::Same, if_not_exists }),
                Err(error) => return Ok(Err(error)),
            }
            if !p.consume_token(&Token::Comma) {
                break;
            }
        }
        p.expect_token(&Token::RParen)?;
        return Ok(Ok(()));
    }
    match column(p)? {
        Ok(spec) => {
            let place = place(p)?;
            items.push(AlterItem::AddColumn { spec, place, if_not_exists });
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn alter_drop(p: &mut Parser) -> Result<AlterItem> {
    if take_words(p, &["PRIMARY", "KEY"]) {
        return Ok(AlterItem::DropPrimary);
    }
    if take_words(p, &["FOREIGN", "KEY"]) || take_word(p, "CONSTRAINT") {
        if_exists(p);
        return Ok(AlterItem::DropForeignKey(identifier(p)?.value));
    }
    if take_word(p, "INDEX") || take_word(p, "KEY") {
        let if_exists = if_exists(p);
        return Ok(AlterItem::DropIndex { name: identifier(p)?.value, if_exists });
    }
    take_word(p, "COLUMN");
    let if_exists = if_exists(p);
    let name = identifier(p)?.value;
    if !take_word(p, "CASCADE") {
        take_word(p, "RESTRICT");
    }
    Ok(AlterItem::DropColumn { name, if_exists })
}

fn alter_rename(p: &mut Parser) -> Result<AlterItem> {
    if take_word(p, "COLUMN") {
        let old = identifier(p)?.value;
        expect_word(p, "TO")?;
        return Ok(AlterItem::RenameColumn { old, new: identifier(p)?.value });
    }
    if take_word(p, "INDEX") || take_word(p, "KEY") {
        let old = identifier(p)?.value;
        expect_word(p, "TO")?;
        return Ok(AlterItem::RenameIndex { old, new: identifier(p)?.value });
    }
    if !take_word(p, "TO") {
        take_word(p, "AS");
    }
    Ok(AlterItem::RenameTable(table_name(p)?))
}

/// Reads a type as [`SqlType::sql_name`] writes it: how the catalogue stores it.
pub(crate) fn type_from_catalog(text: &str, is_json: bool) -> Option<SqlType> {
    // No definition says this, but a view's column may be NULL and nothing else.
    if text == "null" {
        return Some(SqlType::new(Base::Null));
    }
    let dialect = crate::dialect::MySql::default();
    let mode = crate::lexer::LexMode { no_backslash_escapes: true, ..Default::default() };
    let tokens = crate::lexer::tokens(text.as_bytes(), 0, mode, crate::lexer::Literals::Inline).ok()?;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let (mut ty, ..) = column_type(&mut parser, "").ok()?.ok()?;
    if is_json {
        ty.base = Base::Json;
    }
    (parser.peek_token_ref().token == Token::EOF).then_some(ty)
}
