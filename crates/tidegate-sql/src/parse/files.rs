//! Statements that read and write files: LOAD DATA and SELECT … INTO OUTFILE, DUMPFILE.

use sqlparser::{
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use super::{Outcome, Result, Span, Statement, TableName, comma_separated, parenthesised, span_of, table_name};
use crate::{
    dialect::{MySql, expect_word, identifier, is_word, take_word, take_words, unexpected},
    errors,
    value::number::hex_bytes,
};

/// How fields and lines stand in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileFormat {
    /// FIELDS TERMINATED BY
    pub(crate) field_end: Vec<u8>,
    /// ENCLOSED BY
    pub(crate) enclosed: Option<u8>,
    /// OPTIONALLY: only texts are enclosed.
    pub(crate) optionally: bool,
    /// ESCAPED BY
    pub(crate) escape: Option<u8>,
    /// LINES STARTING BY
    pub(crate) line_start: Vec<u8>,
    /// LINES TERMINATED BY
    pub(crate) line_end: Vec<u8>,
}

impl Default for FileFormat {
    fn default() -> Self {
        Self {
            field_end: b"\t".to_vec(),
            enclosed: None,
            optionally: false,
            escape: Some(b'\\'),
            line_start: Vec::new(),
            line_end: b"\n".to_vec(),
        }
    }
}

/// LOAD DATA.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// The client sends the file.
    pub(crate) local: bool,
    pub(crate) file: String,
    pub(crate) replace: bool,
    pub(crate) ignore: bool,
    pub(crate) table: TableName,
    pub(crate) charset: Option<String>,
    pub(crate) format: FileFormat,
    /// Lines to be left out.
    pub(crate) skip: u64,
    /// Where the fields go; none for all columns.
    pub(crate) fields: Vec<LoadField>,
    pub(crate) set: Vec<(String, Span)>,
}

/// Where a field of a file goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadField {
    Column(String),
    /// A user variable, without its `@`.
    Variable(String),
}

/// INTO OUTFILE or DUMPFILE.
#[derive(Debug, Clone)]
pub(crate) struct IntoFile {
    pub(crate) file: String,
    pub(crate) charset: Option<String>,
    /// `None` for DUMPFILE: the bytes of one row.
    pub(crate) format: Option<FileFormat>,
}

/// LOAD, behind this word.
///
/// # Errors
/// Syntax errors.
pub(super) fn load(p: &mut Parser) -> Result<Outcome> {
    if !take_word(p, "DATA") {
        return Ok(Err(errors::unsupported("LOAD of anything but DATA")));
    }
    let _ = take_word(p, "LOW_PRIORITY") || take_word(p, "CONCURRENT");
    let local = take_word(p, "LOCAL");
    expect_word(p, "INFILE")?;
    let file = file_name(p)?;
    let replace = take_word(p, "REPLACE");
    let ignore = !replace && take_word(p, "IGNORE");
    if !take_words(p, &["INTO", "TABLE"]) {
        return unexpected(p);
    }
    let table = table_name(p)?;
    if take_word(p, "PARTITION") {
        return Ok(Err(errors::unsupported("LOAD DATA into a partition")));
    }
    let charset = charset(p)?;
    let format = match format(p)? {
        Ok(format) => format,
        Err(error) => return Ok(Err(error)),
    };
    let mut skip = 0;
    if take_word(p, "IGNORE") {
        skip = number(p)?;
        if !take_word(p, "LINES") {
            expect_word(p, "ROWS")?;
        }
    }
    let mut fields = Vec::new();
    if p.peek_token_ref().token == Token::LParen {
        if p.peek_nth_token_ref(1).token == Token::RParen {
            p.advance_token();
            p.advance_token();
        } else {
            fields = parenthesised(p, field)?;
        }
    }
    let mut set = Vec::new();
    if take_word(p, "SET") {
        set = comma_separated(p, |p| {
            let name = column(p)?;
            if !p.consume_token(&Token::Eq) && !p.consume_token(&Token::Assignment) {
                return unexpected(p);
            }
            Ok((name, span_of(p)?))
        })?;
    }
    let load = Load { local, file, replace, ignore, table, charset, format, skip, fields, set };
    Ok(Ok(Statement::Load(Box::new(load))))
}

fn field(p: &mut Parser) -> Result<LoadField> {
    if let Token::DollarQuotedString(variable) = &p.peek_token_ref().token {
        let Some(name) = variable.value.strip_prefix('@').filter(|name| !name.starts_with('@')) else {
            return unexpected(p);
        };
        let name = name.trim_matches(['`', '\'', '"']).to_owned();
        p.advance_token();
        return Ok(LoadField::Variable(name));
    }
    Ok(LoadField::Column(column(p)?))
}

/// A column, perhaps with its table in front.
fn column(p: &mut Parser) -> Result<String> {
    let mut name = identifier(p)?.value;
    while p.consume_token(&Token::Period) {
        name = identifier(p)?.value;
    }
    Ok(name)
}

fn number(p: &mut Parser) -> Result<u64> {
    let Token::Number(text, _) = &p.peek_token_ref().token else { return unexpected(p) };
    let Ok(number) = text.parse() else { return unexpected(p) };
    p.advance_token();
    Ok(number)
}

fn file_name(p: &mut Parser) -> Result<String> {
    let Token::SingleQuotedString(name) = &p.peek_token_ref().token else { return unexpected(p) };
    let name = name.clone();
    p.advance_token();
    Ok(name)
}

fn charset(p: &mut Parser) -> Result<Option<String>> {
    if !take_words(p, &["CHARACTER", "SET"]) && !take_word(p, "CHARSET") {
        return Ok(None);
    }
    super::word_or_string(p).map(Some)
}

/// A string of bytes: a text or a number in hexadecimal.
fn bytes(p: &mut Parser) -> Result<Vec<u8>> {
    let bytes = match &p.peek_token_ref().token {
        Token::SingleQuotedString(text) => text.clone().into_bytes(),
        Token::HexStringLiteral(digits) => hex_bytes(digits),
        _ => return unexpected(p),
    };
    p.advance_token();
    Ok(bytes)
}

/// FIELDS and LINES. One byte at most encloses or escapes: 1083.
fn format(p: &mut Parser) -> Result<std::result::Result<FileFormat, tidegate_rows::ServerError>> {
    let mut format = FileFormat::default();
    let mut one_byte = true;
    let mut one = |bytes: Vec<u8>| {
        one_byte &= bytes.len() <= 1;
        bytes.first().copied()
    };
    if take_word(p, "FIELDS") || take_word(p, "COLUMNS") {
        let mut count = 0;
        loop {
            if take_words(p, &["TERMINATED", "BY"]) {
                format.field_end = bytes(p)?;
            } else if take_words(p, &["OPTIONALLY", "ENCLOSED", "BY"]) {
                (format.enclosed, format.optionally) = (one(bytes(p)?), true);
            } else if take_words(p, &["ENCLOSED", "BY"]) {
                format.enclosed = one(bytes(p)?);
            } else if take_words(p, &["ESCAPED", "BY"]) {
                format.escape = one(bytes(p)?);
            } else if count == 0 {
                return unexpected(p);
            } else {
                break;
            }
            count += 1;
        }
    }
    if take_word(p, "LINES") {
        let mut count = 0;
        loop {
            if take_words(p, &["STARTING", "BY"]) {
                format.line_start = bytes(p)?;
            } else if take_words(p, &["TERMINATED", "BY"]) {
                format.line_end = bytes(p)?;
            } else if count == 0 {
                return unexpected(p);
            } else {
                break;
            }
            count += 1;
        }
    }
    Ok(if one_byte { Ok(format) } else { Err(errors::wrong_field_terminators()) })
}

/// INTO OUTFILE or DUMPFILE of a query, and where that stands in the text.
///
/// # Errors
/// Syntax errors behind these words.
pub(super) fn into_file(tokens: &[TokenWithSpan]) -> Result<Option<(Span, IntoFile)>> {
    let is_query = tokens
        .first()
        .is_some_and(|token| is_word(token, "SELECT") || is_word(token, "WITH") || token.token == Token::LParen);
    if !is_query {
        return Ok(None);
    }
    let mut depth = 0usize;
    let start = tokens.windows(2).position(|pair| {
        match pair[0].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(&pair[0], "INTO") && (is_word(&pair[1], "OUTFILE") || is_word(&pair[1], "DUMPFILE"))
    });
    let Some(start) = start else { return Ok(None) };
    let dialect = MySql::default();
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens[start..].to_vec());
    let p = &mut parser;
    p.advance_token();
    let dumps = take_word(p, "DUMPFILE");
    if !dumps {
        p.advance_token();
    }
    let file = file_name(p)?;
    let (mut charset, mut written) = (None, None);
    if !dumps {
        charset = self::charset(p)?;
        let Ok(format) = format(p)? else { return unexpected(p) };
        written = Some(format);
    }
    let from = tokens[start].span.start.column as usize;
    Ok(Some(((from, super::end_of_last(p)), IntoFile { file, charset, format: written })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lexer::{LexMode, Literals},
        parse::parse,
    };

    fn read(sql: &str) -> Statement {
        parse(sql.as_bytes(), 0, LexMode::default(), false, Literals::Inline).unwrap().0
    }

    #[test]
    fn all_clauses_of_load_data() {
        let sql = "LOAD DATA LOCAL INFILE 'a.csv' REPLACE INTO TABLE s.t CHARACTER SET latin1 FIELDS TERMINATED BY ',' \
                   OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES STARTING BY '>' TERMINATED BY 0x0D0A \
                   IGNORE 2 LINES (a, t.b, @c) SET d = @c + 1, e = concat(a, 'x')";
        let Statement::Load(load) = read(sql) else { panic!("another statement") };
        assert!(load.local && load.replace && !load.ignore);
        assert_eq!((load.file.as_str(), load.skip, load.charset.as_deref()), ("a.csv", 2, Some("latin1")));
        let format = FileFormat {
            field_end: b",".to_vec(),
            enclosed: Some(b'"'),
            optionally: true,
            escape: None,
            line_start: b">".to_vec(),
            line_end: b"\r\n".to_vec(),
        };
        assert_eq!(load.format, format);
        let column = |name: &str| LoadField::Column(name.into());
        assert_eq!(load.fields, [column("a"), column("b"), LoadField::Variable("c".into())]);
        let set: Vec<_> = load.set.iter().map(|(name, (from, to))| (name.as_str(), &sql[*from..*to])).collect();
        assert_eq!(set, [("d", "@c + 1"), ("e", "concat(a, 'x')")]);
    }

    #[test]
    fn the_words_behind_into_are_cut_out() {
        for (sql, cut) in [
            ("SELECT a INTO OUTFILE 'f' FIELDS TERMINATED BY ';' FROM t", "INTO OUTFILE 'f' FIELDS TERMINATED BY ';'"),
            ("SELECT a FROM t INTO DUMPFILE 'f'", "INTO DUMPFILE 'f'"),
        ] {
            let Statement::SelectIntoFile { cut: (from, to), into } = read(sql) else { panic!("another statement") };
            assert_eq!((&sql[from..to], into.file.as_str()), (cut, "f"));
        }
        let refused = parse(b"SELECT 1 INTO OUTFILE f", 0, LexMode::default(), false, Literals::Inline);
        assert_eq!(refused.unwrap_err().code, 1064);
    }
}
