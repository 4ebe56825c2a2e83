//! Splits a statement into tokens, once for the cache key and once, on a miss, for the parser.
//!
//! [`mod@normalise`] writes the statement without comments and superfluous space and with each literal replaced by its kind, and
//! remembers where the literals are. Two statements with the same normalised text have the same tree up to their literals.
//! [`tokens`] produces the parser's tokens from the same scan, so both agree on what a literal is.

mod literal;
mod normalise;
mod programs;
mod rows;

use sqlparser::{
    ast::DollarQuotedString,
    tokenizer::{Location, Span, Token, TokenWithSpan},
};

use crate::sql_mode;

pub(crate) use literal::{Literal, LiteralKind};
pub(crate) use normalise::{Normalised, normalise, params_within};
pub(crate) use programs::BLOCKS;
pub(crate) use rows::{Item, Rows};

/// Bits of sql_mode that the lexer obeys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LexMode {
    pub(crate) ansi_quotes: bool,
    pub(crate) no_backslash_escapes: bool,
}

impl LexMode {
    /// What a `sql_mode` says of it.
    #[inline]
    pub(crate) fn of(mode: u64) -> Self {
        Self {
            ansi_quotes: mode & sql_mode::ANSI_QUOTES != 0,
            no_backslash_escapes: mode & sql_mode::NO_BACKSLASH_ESCAPES != 0,
        }
    }
}

/// Why a text cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LexError {
    /// Where the trouble begins.
    pub(crate) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Word,
    /// Quoted name; the inside.
    Name(u8),
    Literal(LiteralKind),
    Param,
    Operator,
    /// `@name` or `@@name`, with everything that belongs to it.
    Variable,
    Semicolon,
    End,
}

struct Scan<'a> {
    sql: &'a [u8],
    pos: usize,
    mode: LexMode,
    /// Inside of a `/*! … */`, whose content counts.
    in_hint: bool,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit()
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.sql.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Skips space and comments.
    fn skip(&mut self) -> Result<(), LexError> {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.pos += 1,
                b'#' => self.skip_line(),
                b'-' if self.peek(1) == b'-'
                    && (self.peek(2).is_ascii_whitespace()
                        || self.pos + 2 >= self.sql.len()
                        || self.peek(2).is_ascii_control()) =>
                {
                    self.skip_line();
                }
                b'/' if self.peek(1) == b'*' => self.comment()?,
                b'*' if self.in_hint && self.peek(1) == b'/' => {
                    self.in_hint = false;
                    self.pos += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.sql[self.pos..];
        self.pos += memchr::memchr(b'\n', rest).map_or(rest.len(), |index| index + 1);
    }

    /// A comment, or the opening of `/*! … */`: its content counts, unless it asks for a newer server.
    fn comment(&mut self) -> Result<(), LexError> {
        let start = self.pos;
        let maria = self.peek(2) == b'M' && self.peek(3) == b'!';
        if (self.peek(2) == b'!' || maria) && !self.in_hint {
            let digits_at = if maria { 4 } else { 3 };
            let digits = (0..6).take_while(|index| self.peek(digits_at + index).is_ascii_digit()).count();
            let version = self.sql[self.pos + digits_at..self.pos + digits_at + digits]
                .iter()
                .fold(0u32, |value, byte| value * 10 + u32::from(byte - b'0'));
            // MariaDB runs MySQL's conditional comments up to 5.6 and its own up to its version.
            if digits == 0 || version <= 50_699 || (100_000..=101_100).contains(&version) {
                self.pos += digits_at + if digits >= 5 { digits } else { 0 };
                self.in_hint = true;
                return Ok(());
            }
        }
        match memchr::memmem::find(&self.sql[self.pos + 2..], b"*/") {
            Some(end) => {
                self.pos += end + 4;
                Ok(())
            }
            None => Err(LexError { at: start }),
        }
    }

    /// The next piece with its bytes.
    fn next(&mut self) -> Result<(Piece, usize, usize), LexError> {
        self.skip()?;
        let start = self.pos;
        if start >= self.sql.len() {
            return Ok((Piece::End, start, start));
        }
        let byte = self.peek(0);
        match byte {
            b'\'' => self.quoted_text(b'\'', start),
            b'"' if !self.mode.ansi_quotes => self.quoted_text(b'"', start),
            b'"' | b'`' => self.quoted_name(byte, start),
            b'0'..=b'9' => Ok(self.number(start)),
            b'.' if self.peek(1).is_ascii_digit() && !self.after_name(start) => Ok(self.number(start)),
            b'x' | b'X' if self.peek(1) == b'\'' => self.based(LiteralKind::Hex, start),
            b'b' | b'B' if self.peek(1) == b'\'' => self.based(LiteralKind::Bits, start),
            b'n' | b'N' if self.peek(1) == b'\'' => {
                self.pos += 1;
                self.quoted_text(b'\'', start)
            }
            b'@' => self.variable(start),
            b'?' => {
                self.pos += 1;
                Ok((Piece::Param, start, self.pos))
            }
            b';' => {
                self.pos += 1;
                Ok((Piece::Semicolon, start, self.pos))
            }
            b'\\' if self.peek(1) == b'N' => {
                self.pos += 2;
                Ok((Piece::Word, start, self.pos))
            }
            _ if is_word_start(byte) => {
                while self.pos < self.sql.len() && is_word(self.peek(0)) {
                    self.pos += 1;
                }
                Ok((Piece::Word, start, self.pos))
            }
            _ => {
                self.pos += self.operator_len()?;
                Ok((Piece::Operator, start, self.pos))
            }
        }
    }

    /// Whether a point at `start` belongs to a name such as in `t.1a`.
    fn after_name(&self, start: usize) -> bool {
        start > 0 && (is_word(self.sql[start - 1]) || self.sql[start - 1] == b'`')
    }

    fn operator_len(&self) -> Result<usize, LexError> {
        let three: [u8; 3] = [self.peek(0), self.peek(1), self.peek(2)];
        match &three {
            b"<=>" | b"->>" => return Ok(3),
            _ => {}
        }
        match &three[..2] {
            b"<=" | b">=" | b"<>" | b"!=" | b"<<" | b">>" | b"&&" | b"||" | b":=" | b"->" => return Ok(2),
            _ => {}
        }
        match three[0] {
            b'+' | b'-' | b'*' | b'/' | b'%' | b'=' | b'<' | b'>' | b'!' | b'&' | b'|' | b'^' | b'~' | b'(' | b')'
            | b',' | b'.' | b'{' | b'}' | b':' => Ok(1),
            _ => Err(LexError { at: self.pos }),
        }
    }

    fn quoted_text(&mut self, quote: u8, start: usize) -> Result<(Piece, usize, usize), LexError> {
        let inside = self.pos + 1;
        let mut escaped = false;
        let mut pos = inside;
        loop {
            let rest = self.sql.get(pos..).unwrap_or_default();
            let found = if self.mode.no_backslash_escapes {
                memchr::memchr(quote, rest)
            } else {
                memchr::memchr2(quote, b'\\', rest)
            };
            let Some(found) = found else { return Err(LexError { at: start }) };
            pos += found;
            let backslash = self.sql[pos] == b'\\' && !self.mode.no_backslash_escapes;
            if backslash || self.sql.get(pos + 1) == Some(&quote) {
                escaped = true;
                pos += 2;
            } else {
                break;
            }
        }
        self.pos = pos + 1;
        Ok((Piece::Literal(LiteralKind::Text { quote, escaped }), inside, pos))
    }

    fn quoted_name(&mut self, quote: u8, start: usize) -> Result<(Piece, usize, usize), LexError> {
        let mut pos = start + 1;
        loop {
            let found = memchr::memchr(quote, self.sql.get(pos..).unwrap_or_default());
            pos += found.ok_or(LexError { at: start })?;
            if self.sql.get(pos + 1) != Some(&quote) {
                break;
            }
            pos += 2;
        }
        self.pos = pos + 1;
        Ok((Piece::Name(quote), start + 1, pos))
    }

    fn based(&mut self, kind: LiteralKind, start: usize) -> Result<(Piece, usize, usize), LexError> {
        let inside = start + 2;
        let end = inside + memchr::memchr(b'\'', &self.sql[inside..]).ok_or(LexError { at: start })?;
        let digits = &self.sql[inside..end];
        let good = match kind {
            LiteralKind::Hex => digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit),
            _ => digits.iter().all(|digit| matches!(digit, b'0' | b'1')),
        };
        if !good {
            return Err(LexError { at: start });
        }
        self.pos = end + 1;
        Ok((Piece::Literal(kind), inside, end))
    }

    fn variable(&mut self, start: usize) -> Result<(Piece, usize, usize), LexError> {
        self.pos += 1;
        if self.peek(0) == b'@' {
            self.pos += 1;
        }
        match self.peek(0) {
            quote @ (b'\'' | b'"' | b'`') => {
                let inside = self.pos;
                self.quoted_name(quote, inside)?;
            }
            _ => {
                while self.pos < self.sql.len() && (is_word(self.peek(0)) || self.peek(0) == b'.') {
                    self.pos += 1;
                }
            }
        }
        Ok((Piece::Variable, start, self.pos))
    }

    fn number(&mut self, start: usize) -> (Piece, usize, usize) {
        let sql = self.sql;
        let digits = |from: usize| sql[from.min(sql.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if sql[start] == b'0' && matches!(self.peek(1), b'x' | b'b') {
            let hex = self.peek(1) == b'x';
            let good = |byte: &&u8| if hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') };
            let len = sql[start + 2..].iter().take_while(good).count();
            let end = start + 2 + len;
            if len > 0 && !sql.get(end).is_some_and(|byte| is_word(*byte)) {
                self.pos = end;
                let kind = if hex { LiteralKind::HexNumber } else { LiteralKind::Bits };
                return (Piece::Literal(kind), start + 2, end);
            }
        }
        let whole = digits(start);
        let mut end = start + whole;
        // A word may begin with digits: `1ea10` is a name.
        let exponent = |at: usize| {
            let sign = usize::from(matches!(sql.get(at + 1), Some(b'-' | b'+')));
            let len = digits(at + 1 + sign);
            (len > 0).then_some(1 + sign + len)
        };
        let (mut scale, mut point, mut double) = (0, false, false);
        if sql.get(end) == Some(&b'.') {
            point = true;
            scale = digits(end + 1);
            end += 1 + scale;
        }
        if matches!(sql.get(end), Some(b'e' | b'E'))
            && let Some(len) = exponent(end)
            && !sql.get(end + len).is_some_and(|byte| is_word(*byte))
        {
            double = true;
            end += len;
        }
        if !point && !double && sql.get(end).is_some_and(|byte| is_word(*byte)) {
            self.pos = end;
            while self.pos < sql.len() && is_word(self.peek(0)) {
                self.pos += 1;
            }
            return (Piece::Word, start, self.pos);
        }
        self.pos = end;
        let kind = if double {
            LiteralKind::Double
        } else if point {
            let leading = sql[start..start + whole].iter().take_while(|digit| **digit == b'0').count();
            let precision = (whole - leading + scale).max(1);
            LiteralKind::Decimal(precision.min(255) as u8, scale.min(255) as u8)
        } else {
            int_kind(&sql[start..end])
        };
        (Piece::Literal(kind), start, end)
    }
}

fn int_kind(digits: &[u8]) -> LiteralKind {
    let text = std::str::from_utf8(digits).unwrap_or("");
    if digits.len() < 10 || text.parse::<i32>().is_ok() {
        LiteralKind::Int
    } else if text.parse::<i64>().is_ok() {
        LiteralKind::Long
    } else if text.parse::<u64>().is_ok() {
        LiteralKind::Uint
    } else {
        LiteralKind::Decimal(text.trim_start_matches('0').len().min(255) as u8, 0)
    }
}

/// Whether nothing but space, comments and `;` follows.
pub(crate) fn is_blank(sql: &[u8], from: usize, mode: LexMode) -> bool {
    if from >= sql.len() {
        return true;
    }
    let mut scan = Scan { sql, pos: from, mode, in_hint: false };
    loop {
        match scan.next() {
            Ok((Piece::End, ..)) => return true,
            Ok((Piece::Semicolon, ..)) => {}
            _ => return false,
        }
    }
}

/// Whether a text without any statement has no comment either: then it is an error, and with a comment it is not.
///
/// Source: MariaDB, `sql_yacc.yy`, `query: END_OF_INPUT`.
pub(crate) fn is_without_comment(blank: &[u8]) -> bool {
    blank.iter().all(|byte| byte.is_ascii_whitespace() || *byte == b';')
}

/// Whether the statement may keep its literals as placeholders: DDL and the like need them in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Literals {
    /// Each literal becomes `Placeholder(":n")`, n counting from 0.
    Numbered,
    /// Literals stand as they are.
    Inline,
}

/// A text as the parser reads it.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<TokenWithSpan>,
    /// The rows of an INSERT's VALUES if they are literals alone; `()` stands for them among the tokens.
    pub(crate) rows: Option<Rows>,
}

/// The parser's tokens. A token's span holds its byte offsets in `column`.
///
/// # Errors
/// As [`normalise()`]; a name that is not UTF-8.
pub(crate) fn tokens(sql: &[u8], from: usize, mode: LexMode, literals: Literals) -> Result<Tokens, LexError> {
    let program_end = programs::program_end(sql, from, mode)?;
    let mut scan = Scan { sql, pos: from, mode, in_hint: false };
    let (mut tokens, mut passed, mut rows) = (Vec::new(), rows::Passed::default(), None);
    let mut after_period = false;
    // Rows are looked for at the first VALUES of an INSERT, unless a query comes before it.
    let mut may_have_rows = literals == Literals::Numbered;
    loop {
        let (piece, start, end) = scan.next()?;
        let text = || std::str::from_utf8(&sql[start..end]).map_err(|_| LexError { at: start });
        let token = match piece {
            Piece::Semicolon if program_end.is_some_and(|end| scan.pos < end) => Token::SemiColon,
            Piece::End | Piece::Semicolon => break,
            Piece::Word if sql[start] == b'\\' => Token::make_word("NULL", None),
            // Behind a point every word is a name.
            Piece::Word if after_period => Token::make_word(text()?, Some('`')),
            Piece::Word => Token::make_word(text()?, None),
            Piece::Name(quote) => {
                let (double, single) = if quote == b'`' { ("``", "`") } else { ("\"\"", "\"") };
                Token::make_word(&text()?.replace(double, single), Some('`'))
            }
            Piece::Literal(kind) => {
                passed.literals += 1;
                // All of them or none: the cache leaves every literal of a numbered statement out of its key.
                match literals {
                    Literals::Numbered => Token::Placeholder(format!(":{}", passed.literals - 1)),
                    Literals::Inline => inline_token(kind, &sql[start..end], mode, start)?,
                }
            }
            Piece::Param => {
                passed.params += 1;
                Token::Placeholder(format!("?{}", passed.params - 1))
            }
            Piece::Variable => Token::DollarQuotedString(DollarQuotedString { value: text()?.to_owned(), tag: None }),
            Piece::Operator => operator_token(&sql[start..end]).ok_or(LexError { at: start })?,
        };
        after_period = token == Token::Period;
        let end = scan.pos;
        let start = match piece {
            Piece::Literal(_) | Piece::Name(_) => token_start(sql, start),
            _ => start,
        };
        let word = if piece == Piece::Word { &sql[start..end] } else { b"" };
        let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()));
        may_have_rows &= !tokens.is_empty() || is(&["INSERT", "REPLACE"]);
        may_have_rows &= !is(&["SELECT", "WITH", "SET"]);
        tokens.push(token_at(token, start, end));
        if may_have_rows && is(&["VALUES", "VALUE"]) {
            may_have_rows = false;
            rows = scan.rows(&mut passed)?;
            if rows.is_some() {
                tokens.push(token_at(Token::LParen, end, scan.pos));
                tokens.push(token_at(Token::RParen, end, scan.pos));
            }
        }
    }
    let at = Location { line: 1, column: scan.pos as u64 };
    tokens.push(TokenWithSpan { token: Token::EOF, span: Span::new(at, at) });
    Ok(Tokens { tokens, rows })
}

fn token_at(token: Token, start: usize, end: usize) -> TokenWithSpan {
    let at = |column: usize| Location { line: 1, column: column as u64 };
    TokenWithSpan { token, span: Span::new(at(start), at(end)) }
}

/// Where the token begins whose inside begins at `inside`: at the quote or prefix.
fn token_start(sql: &[u8], inside: usize) -> usize {
    let before = |back: usize| inside.checked_sub(back).map_or(0, |index| sql[index]);
    match before(1) {
        b'\'' if matches!(before(2), b'x' | b'X' | b'b' | b'B' | b'n' | b'N') => inside - 2,
        b'\'' | b'"' | b'`' => inside - 1,
        b'x' | b'b' if before(2) == b'0' => inside - 2,
        _ => inside,
    }
}

fn inline_token(kind: LiteralKind, text: &[u8], mode: LexMode, at: usize) -> Result<Token, LexError> {
    let utf8 = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| LexError { at });
    Ok(match kind {
        LiteralKind::Text { quote, .. } => {
            let mut out = Vec::new();
            unescape(text, quote, mode, &mut out);
            Token::SingleQuotedString(utf8(&out)?)
        }
        LiteralKind::HexNumber => Token::HexStringLiteral(utf8(text)?),
        LiteralKind::Hex => Token::NationalStringLiteral(utf8(text)?),
        LiteralKind::Bits => Token::SingleQuotedByteStringLiteral(utf8(text)?),
        _ => Token::Number(utf8(text)?, false),
    })
}

fn operator_token(text: &[u8]) -> Option<Token> {
    Some(match text {
        b"<=>" => Token::Spaceship,
        b"->>" => Token::LongArrow,
        b"->" => Token::Arrow,
        b"<=" => Token::LtEq,
        b">=" => Token::GtEq,
        b"<>" | b"!=" => Token::Neq,
        b"<<" => Token::ShiftLeft,
        b">>" => Token::ShiftRight,
        b"&&" => Token::Overlap,
        b"||" => Token::StringConcat,
        b":=" => Token::Assignment,
        b"+" => Token::Plus,
        b"-" => Token::Minus,
        b"*" => Token::Mul,
        b"/" => Token::Div,
        b"%" => Token::Mod,
        b"=" => Token::Eq,
        b"<" => Token::Lt,
        b">" => Token::Gt,
        b"!" => Token::ExclamationMark,
        b"&" => Token::Ampersand,
        b"|" => Token::Pipe,
        b"^" => Token::Caret,
        b"~" => Token::Tilde,
        b"(" => Token::LParen,
        b")" => Token::RParen,
        b"," => Token::Comma,
        b"." => Token::Period,
        b"{" => Token::LBrace,
        b"}" => Token::RBrace,
        b":" => Token::Colon,
        _ => return None,
    })
}

/// Appends the inside of quotes with its escapes resolved. `\%` and `\_` stay as they are: LIKE reads them.
pub(crate) fn unescape(text: &[u8], quote: u8, mode: LexMode, out: &mut Vec<u8>) {
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if !mode.no_backslash_escapes => match bytes.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'r') => out.push(b'\r'),
                Some(b'b') => out.push(8),
                Some(b'0') => out.push(0),
                Some(b'Z') => out.push(0x1a),
                Some(byte @ (b'%' | b'_')) => out.extend_from_slice(&[b'\\', byte]),
                Some(byte) => out.push(byte),
                None => out.push(b'\\'),
            },
            _ if byte == quote => {
                // Inside of the quotes it can only be the first of a doubled one.
                out.push(byte);
                bytes.next();
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(sql: &str) -> (String, Vec<String>) {
        let mut out = Normalised::default();
        normalise(sql.as_bytes(), 0, LexMode::default(), &mut out).unwrap();
        let literals = out.literals.iter().map(|l| sql[l.start as usize..l.end as usize].to_owned()).collect();
        (String::from_utf8_lossy(&out.text).replace('\0', "~"), literals)
    }

    #[test]
    fn literals_leave_the_key() {
        assert_eq!(
            normal("select  * from t where a=1 -- x\n and b='it''s'"),
            ("select *from t where a =~iand b =~s".into(), vec!["1".into(), "it''s".into()])
        );
        assert_eq!(normal("select 1").0, normal("select/* */2").0);
        assert_ne!(normal("select 1").0, normal("select '1'").0);
        assert_ne!(normal("select 1.5").0, normal("select 1.25").0);
        assert_eq!(normal("select 1ea10 from t").1, Vec::<String>::new());
        assert_eq!(normal("select 1e10, .5, 0x41, x'42', 0b1").1, ["1e10", ".5", "41", "42", "1"]);
        assert_eq!(normal("/*!40101 select 7 */").1, ["7"]);
        assert_eq!(normal("select /*!99999 nothing */ 7").1, ["7"]);
    }

    #[test]
    fn unfinished_is_an_error() {
        for sql in ["select 'a", "select `a", "select /* a", "select x'4", "select 'a\\'", "select \\"] {
            assert!(normalise(sql.as_bytes(), 0, LexMode::default(), &mut Normalised::default()).is_err(), "{sql}");
        }
    }

    #[test]
    fn escapes() {
        let check = |text: &str, quote, expected: &str| {
            let mut out = Vec::new();
            unescape(text.as_bytes(), quote, LexMode::default(), &mut out);
            assert_eq!(out, expected.as_bytes());
        };
        check(r"a\'b\n\%\x", b'\'', "a'b\n\\%x");
        check("it''s", b'\'', "it's");
        check(r#"say ""hi"""#, b'\'', r#"say ""hi"""#);
        check(r#"say ""hi"""#, b'"', r#"say "hi""#);
    }

    #[test]
    fn every_cut_is_safe() {
        let sql = b"select /*!40101 a */ 'x\\'y', `b``c`, @@global.x, @`v`, 0x4f, 1.5e-3 <=> ? -- end\n;";
        for end in 0..sql.len() {
            let mut out = Normalised::default();
            let a = normalise(&sql[..end], 0, LexMode::default(), &mut out);
            let b = tokens(&sql[..end], 0, LexMode::default(), Literals::Inline);
            assert_eq!(a.is_ok(), b.is_ok());
        }
    }
}
