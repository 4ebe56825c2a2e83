//! A JSON text as a tree. Numbers and strings keep the form in which they were written.

use std::cmp::Ordering;

use tidegate_rows::ServerError;

use crate::errors;

/// Arrays and objects inside of each other, as MariaDB allows.
pub(crate) const DEPTH_MAX: usize = 32;

/// A value and, if it was read, where it stands in its text.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Json,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(Vec<u8>),
    /// The inside of the quotes, escapes as written.
    String(Vec<u8>),
    Array(Vec<Node>),
    /// Keys as the inside of their quotes, in the order of the text.
    Object(Vec<(Vec<u8>, Node)>),
}

/// How a tree is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Compact,
    Loose,
    /// On lines of their own, with so many spaces for each level.
    Detailed(usize),
}

/// Why a text is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// At a byte, counted from 1.
    Syntax(usize),
    End,
    Depth(usize),
}

impl Broken {
    /// What a function says of an argument, whose number counts from 1.
    #[cold]
    pub(crate) fn error(self, argument: usize, function: &str) -> ServerError {
        match self {
            Self::Syntax(at) => errors::json_syntax(argument, function, at),
            Self::End => errors::json_end(argument, function),
            Self::Depth(at) => errors::json_depth(DEPTH_MAX, argument, function, at),
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    pos: usize,
}

/// Reads a text that is one JSON value.
///
/// # Errors
/// What is wrong first.
pub(crate) fn parse(text: &[u8]) -> Result<Node, Broken> {
    let mut reader = Reader { text, pos: 0 };
    let node = reader.value(0)?;
    reader.space();
    if reader.pos < text.len() { Err(reader.syntax()) } else { Ok(node) }
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.pos += 1;
        }
    }

    fn syntax(&self) -> Broken {
        if self.pos >= self.text.len() { Broken::End } else { Broken::Syntax(self.pos + 1) }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.pos < self.text.len() && self.peek() == byte;
        self.pos += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Node, Broken> {
        self.space();
        let start = self.pos;
        if depth >= DEPTH_MAX && matches!(self.peek(), b'{' | b'[') {
            return Err(Broken::Depth(self.pos + 1));
        }
        let value = match self.peek() {
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => Json::String(self.string()?),
            b't' => self.word(b"true", Json::Bool(true))?,
            b'f' => self.word(b"false", Json::Bool(false))?,
            b'n' => self.word(b"null", Json::Null)?,
            _ => Json::Number(self.number()?),
        };
        Ok(Node { value, start, end: self.pos })
    }

    fn array(&mut self, depth: usize) -> Result<Json, Broken> {
        self.pos += 1;
        self.space();
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return Err(self.syntax());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Broken> {
        self.pos += 1;
        self.space();
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.syntax());
            }
            members.push((key, self.value(depth + 1)?));
            self.space();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.syntax());
            }
        }
    }

    fn string(&mut self) -> Result<Vec<u8>, Broken> {
        if !self.take(b'"') {
            return Err(self.syntax());
        }
        let start = self.pos;
        loop {
            if self.pos >= self.text.len() {
                return Err(Broken::End);
            }
            match self.peek() {
                b'"' => {
                    self.pos += 1;
                    return Ok(self.text[start..self.pos - 1].to_vec());
                }
                b'\\' => {
                    self.pos += 1;
                    match self.peek() {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.pos += 1,
                        b'u' if self.text.get(self.pos + 1..self.pos + 5).is_some_and(is_hex) => self.pos += 5,
                        _ => return Err(self.syntax()),
                    }
                }
                0..=0x1f => return Err(self.syntax()),
                _ => self.pos += 1,
            }
        }
    }

    fn word(&mut self, word: &[u8], value: Json) -> Result<Json, Broken> {
        for byte in word {
            if !self.take(*byte) {
                return Err(self.syntax());
            }
        }
        Ok(value)
    }

    fn digits(&mut self) -> Result<usize, Broken> {
        let start = self.pos;
        while self.peek().is_ascii_digit() {
            self.pos += 1;
        }
        if self.pos == start { Err(self.syntax()) } else { Ok(self.pos - start) }
    }

    fn number(&mut self) -> Result<Vec<u8>, Broken> {
        let start = self.pos;
        self.take(b'-');
        let zero = self.peek() == b'0';
        if self.digits()? > 1 && zero {
            return Err(Broken::Syntax(start + 2));
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'-') {
                self.take(b'+');
            }
            self.digits()?;
        }
        Ok(self.text[start..self.pos].to_vec())
    }
}

fn is_hex(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

/// Appends a text as JSON writes it, without quotes around it.
pub(crate) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// The text that the inside of quotes means.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut pos = 0;
    let unit = |at: usize| {
        let digits = text.get(at..at + 4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    while pos < text.len() {
        if text[pos] != b'\\' {
            out.push(text[pos]);
            pos += 1;
            continue;
        }
        let escaped = text.get(pos + 1).copied().unwrap_or(b'\\');
        pos += 2;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'u' => {
                let first = unit(pos).unwrap_or(0xfffd);
                pos += 4;
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first)
                    && text.get(pos..pos + 2) == Some(b"\\u")
                    && let Some(second) = unit(pos + 2)
                {
                    units.push(second);
                    pos += 6;
                }
                out.extend_from_slice(String::from_utf16_lossy(&units).as_bytes());
            }
            other => out.push(other),
        }
    }
    out
}

impl Node {
    /// A value that was not read from a text.
    pub(crate) fn new(value: Json) -> Self {
        Self { value, start: 0, end: 0 }
    }

    /// A string of these characters.
    pub(crate) fn string(text: &[u8]) -> Self {
        let mut inside = Vec::with_capacity(text.len());
        escape(text, &mut inside);
        Self::new(Json::String(inside))
    }

    /// Whether this is neither an array nor an object.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self.value, Json::Array(_) | Json::Object(_))
    }

    /// Appends the text.
    pub(crate) fn write(&self, style: Style, out: &mut Vec<u8>) {
        self.write_at(style, 0, out);
    }

    fn write_at(&self, style: Style, level: usize, out: &mut Vec<u8>) {
        match &self.value {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Bool(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Json::Number(text) => out.extend_from_slice(text),
            Json::String(text) => {
                out.push(b'"');
                out.extend_from_slice(text);
                out.push(b'"');
            }
            Json::Array(items)
                if matches!(style, Style::Detailed(_)) && items.len() == 1 && items[0].is_scalar() && level > 0 =>
            {
                out.push(b'[');
                items[0].write_at(Style::Compact, 0, out);
                out.push(b']');
            }
            Json::Array(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    between(style, level, index, out);
                    item.write_at(style, level + 1, out);
                }
                close(style, level, items.is_empty(), b']', out);
            }
            Json::Object(members) => {
                out.push(b'{');
                for (index, (key, member)) in members.iter().enumerate() {
                    between(style, level, index, out);
                    out.push(b'"');
                    out.extend_from_slice(key);
                    out.extend_from_slice(if style == Style::Compact { b"\":" } else { b"\": " });
                    if let (Style::Detailed(width), false) = (style, member.is_scalar()) {
                        indent(width * (level + 1), out);
                    }
                    member.write_at(style, level + 1, out);
                }
                close(style, level, members.is_empty(), b'}', out);
            }
        }
    }

    /// How deep arrays and objects stand inside of each other; 1 for a scalar.
    pub(crate) fn depth(&self) -> usize {
        match &self.value {
            Json::Array(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Json::Object(members) => 1 + members.iter().map(|(_, member)| member.depth()).max().unwrap_or(0),
            _ => 1,
        }
    }

    /// Number of elements or members; 1 for a scalar.
    pub(crate) fn len(&self) -> usize {
        match &self.value {
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            _ => 1,
        }
    }

    /// The member with a key.
    pub(crate) fn member(&self, key: &[u8]) -> Option<&Node> {
        let Json::Object(members) = &self.value else { return None };
        members.iter().find(|(known, _)| same_key(known, key)).map(|(_, member)| member)
    }

    /// Whether both mean the same; the order of members does not count.
    pub(crate) fn equals(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Json::Null, Json::Null) => true,
            (Json::Bool(a), Json::Bool(b)) => a == b,
            (Json::Number(a), Json::Number(b)) => a == b || number(a) == number(b),
            (Json::String(a), Json::String(b)) => a == b || unescape(a) == unescape(b),
            (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b)),
            (Json::Object(a), Json::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| other.member(key).is_some_and(|b| a.equals(b)))
            }
            _ => false,
        }
    }

    /// Whether `candidate` is a part of this, as JSON_CONTAINS means it.
    pub(crate) fn contains(&self, candidate: &Node) -> bool {
        match (&self.value, &candidate.value) {
            (Json::Array(_), Json::Array(wanted)) => wanted.iter().all(|wanted| self.contains(wanted)),
            (Json::Array(items), _) => items.iter().any(|item| item.contains(candidate)),
            (Json::Object(_), Json::Object(wanted)) => {
                wanted.iter().all(|(key, wanted)| self.member(key).is_some_and(|member| member.contains(wanted)))
            }
            _ => self.equals(candidate),
        }
    }

    /// Whether both have an element or member in common, as JSON_OVERLAPS means it.
    pub(crate) fn overlaps(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Json::Array(a), Json::Array(b)) => a.iter().any(|a| b.iter().any(|b| a.equals(b))),
            (Json::Array(items), _) => items.iter().any(|item| item.equals(other)),
            (_, Json::Array(items)) => items.iter().any(|item| item.equals(self)),
            (Json::Object(a), Json::Object(_)) => {
                a.iter().any(|(key, a)| other.member(key).is_some_and(|b| a.equals(b)))
            }
            _ => self.equals(other),
        }
    }

    /// Members sorted, numbers in one form: what JSON_NORMALIZE gives.
    pub(crate) fn normalise(&mut self) {
        match &mut self.value {
            Json::Array(items) => items.iter_mut().for_each(Node::normalise),
            Json::Object(members) => {
                members.iter_mut().for_each(|(_, member)| member.normalise());
                members.sort_by(|(a, _), (b, _)| compare_keys(a, b));
            }
            Json::Number(text) => *text = scientific(text),
            _ => {}
        }
    }
}

fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    unescape(a).cmp(&unescape(b))
}

/// Whether two keys as written mean the same.
pub(crate) fn same_key(a: &[u8], b: &[u8]) -> bool {
    a == b || (a.contains(&b'\\') || b.contains(&b'\\')) && unescape(a) == unescape(b)
}

fn number(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// A number as `1.25E2`.
fn scientific(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.bytes().take_while(|digit| *digit == b'0').count();
    let significant = digits[leading..].trim_end_matches('0');
    if significant.is_empty() {
        return b"0.0E0".to_vec();
    }
    let exponent = exponent + whole.len() as i64 - leading as i64 - 1;
    let (first, more) = significant.split_at(1);
    let more = if more.is_empty() { "0" } else { more };
    format!("{sign}{first}.{more}E{exponent}").into_bytes()
}

fn between(style: Style, level: usize, index: usize, out: &mut Vec<u8>) {
    match style {
        Style::Compact if index > 0 => out.push(b','),
        Style::Loose if index > 0 => out.extend_from_slice(b", "),
        Style::Detailed(width) => {
            if index > 0 {
                out.push(b',');
            }
            indent(width * (level + 1), out);
        }
        _ => {}
    }
}

fn close(style: Style, level: usize, empty: bool, end: u8, out: &mut Vec<u8>) {
    if let Style::Detailed(width) = style
        && !(empty && end == b']')
    {
        indent(width * level, out);
    }
    out.push(end);
}

fn indent(width: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', width));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, style: Style, expected: &str) {
        let mut out = Vec::new();
        parse(text.as_bytes()).unwrap().write(style, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
    }

    #[test]
    fn styles() {
        check("[1,{\"a\" : 2.50}]", Style::Loose, "[1, {\"a\": 2.50}]");
        check(" [ 1 , { \"a\":null} ] ", Style::Compact, "[1,{\"a\":null}]");
        check("[]", Style::Detailed(4), "[]");
        check("{\"a\":[1,2]}", Style::Detailed(2), "{\n  \"a\": \n  [\n    1,\n    2\n  ]\n}");
    }

    #[test]
    fn broken_texts() {
        for (text, expected) in [
            ("", Broken::End),
            ("[1, 2", Broken::End),
            ("bad", Broken::Syntax(1)),
            ("[1,]", Broken::Syntax(4)),
            ("1 2", Broken::Syntax(3)),
            ("\"\\x\"", Broken::Syntax(3)),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        assert!(matches!(parse("[".repeat(100).as_bytes()), Err(Broken::Depth(_))));
    }

    #[test]
    fn numbers_in_one_form() {
        for (text, expected) in
            [("1.50", "1.5E0"), ("100", "1.0E2"), ("0", "0.0E0"), ("-0.025", "-2.5E-2"), ("1e2", "1.0E2")]
        {
            assert_eq!(scientific(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn escapes_there_and_back() {
        assert_eq!(unescape(b"a\\u00e9\\n\\ud83d\\ude00\\\\"), "aé\n😀\\".as_bytes());
        let mut out = Vec::new();
        escape("a\"\\\n\u{1}é".as_bytes(), &mut out);
        assert_eq!(out, "a\\\"\\\\\\n\\u0001é".as_bytes());
    }
}
