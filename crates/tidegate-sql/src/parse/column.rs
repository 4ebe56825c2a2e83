//! The definition of a column: type, attributes, default, CHECK.

use sqlparser::{parser::Parser, tokenizer::Token};

use super::{
    Result, Span,
    ddl::{ColumnSpec, DefaultSpec, KeyKind, Refused, number},
    parenthesised, word_or_string,
};
use crate::{
    dialect::{identifier, is_word, skip, take_word, take_words, unexpected},
    errors,
    value::{Base, Fixed, SqlType, collation::Collation, decimal, types::NOT_FIXED},
};

pub(super) fn column(p: &mut Parser) -> Result<Refused<ColumnSpec>> {
    let name = identifier(p)?.value;
    column_rest(p, name)
}

/// The type of a local variable of a stored program, with its character set and collation.
///
/// # Errors
/// 1115, 1273; 1235 for types that are those of a column or row.
pub(crate) fn variable_type(p: &mut Parser, otherwise: Collation) -> Result<Refused<SqlType>> {
    if is_word(p.peek_token_ref(), "TYPE") || is_word(p.peek_token_ref(), "ROW") {
        return Ok(Err(errors::unsupported("TYPE OF and ROW of local variables")));
    }
    let (mut ty, mut charset) = match column_type(p, "")? {
        Ok((ty, charset, _)) => (ty, charset),
        Err(error) => return Ok(Err(error)),
    };
    let mut collation = None;
    loop {
        if takes_charset(p, &ty) {
            charset = Some(word_or_string(p)?);
        } else if take_word(p, "COLLATE") {
            collation = Some(word_or_string(p)?);
        } else {
            break;
        }
    }
    if !ty.base.is_character() || ty.base == Base::Json {
        return Ok(Ok(ty));
    }
    Ok(ty.set_charset(charset.as_deref(), collation.as_deref(), otherwise).map(|()| ty))
}

/// The type and attributes of a column.
pub(super) fn column_rest(p: &mut Parser, name: String) -> Result<Refused<ColumnSpec>> {
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
        } else if takes_charset(p, &spec.ty) {
            spec.charset = Some(word_or_string(p)?);
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

/// Takes the words before a character set, where the type may have one.
fn takes_charset(p: &mut Parser, ty: &SqlType) -> bool {
    !matches!(ty.base, Base::Fixed(_)) && (take_words(p, &["CHARACTER", "SET"]) || take_word(p, "CHARSET"))
}

/// An expression in parentheses, for its place in the text.
pub(super) fn in_parentheses(p: &mut Parser) -> Result<Span> {
    p.expect_token(&Token::LParen)?;
    let span = super::span_of(p)?;
    p.expect_token(&Token::RParen)?;
    Ok(span)
}

/// Takes `(json_valid(column))`, which makes a LONGTEXT column JSON.
pub(super) fn takes_json_check(p: &mut Parser, spec: &ColumnSpec) -> bool {
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

pub(super) fn now(p: &mut Parser) -> bool {
    let found = ["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"].into_iter().any(|word| take_word(p, word));
    if found && p.consume_token(&Token::LParen) {
        let _ = number(p);
        return p.consume_token(&Token::RParen);
    }
    found
}

pub(super) fn default(p: &mut Parser) -> Result<Refused<DefaultSpec>> {
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

/// What MariaDB takes behind LONG: BYTE, VARBINARY, CHAR VARYING, VARCHAR or nothing.
fn after_long(p: &mut Parser) -> Base {
    if take_word(p, "BYTE") || take_word(p, "VARBINARY") {
        return Base::MediumBlob;
    }
    if take_word(p, "CHAR") || take_word(p, "CHARACTER") {
        take_word(p, "VARYING");
    } else {
        let _ = take_word(p, "VARCHAR") || take_word(p, "VARCHARACTER");
    }
    Base::MediumText
}

/// Reads a type: the type, a character set named with it, whether it was SERIAL.
pub(super) fn column_type(p: &mut Parser, name: &str) -> Result<Refused<(SqlType, Option<String>, bool)>> {
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
            let mut ty = SqlType::new(Base::Double);
            ty.marks.real = word == "real";
            ty
        }
        "decimal" | "dec" | "numeric" | "fixed" => SqlType::new(Base::Decimal),
        "date" => SqlType::new(Base::Date),
        "time" => SqlType::new(Base::Time),
        "datetime" => SqlType::new(Base::Datetime),
        "timestamp" => SqlType::new(Base::Timestamp),
        "char" | "character" | "nchar" => {
            SqlType::new(if take_word(p, "VARYING") { Base::Varchar } else { Base::Char })
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
        "mediumtext" => SqlType::new(Base::MediumText),
        "long" => SqlType::new(after_long(p)),
        "longtext" => SqlType::new(Base::LongText),
        "tinyblob" => SqlType::new(Base::TinyBlob),
        "blob" => SqlType::new(Base::Blob),
        "mediumblob" => SqlType::new(Base::MediumBlob),
        "longblob" => SqlType::new(Base::LongBlob),
        "json" => SqlType { collation: Collation::UTF8MB4_BIN, ..SqlType::new(Base::Json) },
        "enum" => SqlType::new(Base::Enum),
        "set" => SqlType::new(Base::Set),
        word if let Some(kind) = Fixed::named(word) => SqlType::new(Base::Fixed(kind)),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" => {
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

pub(super) fn set_length(ty: &mut SqlType, first: u32, second: Option<u32>, column: &str) -> Refused<()> {
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
        Base::Fixed(_) => {}
        // Any other size means four digits.
        Base::Year => ty.length = if first == 2 { 2 } else { 4 },
        Base::Date | Base::Json => return Err(errors::syntax("(")),
        _ => ty.length = first,
    }
    Ok(())
}

pub(super) fn type_attributes(p: &mut Parser, ty: &mut SqlType) -> Result<Option<String>> {
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

/// Reads a type as [`SqlType::sql_name`] writes it: how the catalogue stores it.
pub(crate) fn type_from_catalog(text: &str, is_json: bool) -> Option<SqlType> {
    // No definition says this, but a view's column may be NULL and nothing else.
    if text == "null" {
        return Some(SqlType::new(Base::Null));
    }
    let dialect = crate::dialect::MySql::default();
    let mode = crate::lexer::LexMode { no_backslash_escapes: true, ..Default::default() };
    let tokens = crate::lexer::tokens(text.as_bytes(), 0, mode, crate::lexer::Literals::Inline).ok()?.tokens;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let (mut ty, ..) = column_type(&mut parser, "").ok()?.ok()?;
    if is_json {
        ty.base = Base::Json;
    }
    (parser.peek_token_ref().token == Token::EOF).then_some(ty)
}
