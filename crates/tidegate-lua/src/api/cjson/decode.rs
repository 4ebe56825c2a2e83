//! JSON to Lua values.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::{ARRAY_MT, Config, NESTING_MAX, push_shared_table};
use crate::error::{CResult, LuaError};
use crate::stack::{Lua, may_nest};

/// What comes next in the text. The value of a string or a number stands in the parser.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    /// The name in error messages.
    fn name(self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Error(text) => text,
        }
    }
}

struct Parser<'a> {
    config: Config,
    text: &'a [u8],
    /// Offset of what was not read yet.
    at: usize,
    /// Where the token that was read last begins, or where it went wrong.
    token_at: usize,
    /// Where the string that was read last lies, quotes not counted; or it stands in `unescaped`.
    string: Option<(usize, usize)>,
    unescaped: Vec<u8>,
    /// How many members the last object of each depth had, and elements the last array.
    sizes: [Sizes; SIZED_DEPTHS],
}

/// Rows look alike: a table made as large as the last one at its depth need not grow member by member.
#[derive(Clone, Copy, Default)]
struct Sizes {
    members: u8,
    elements: u8,
}

/// Depths for which sizes are remembered; deeper tables share the last.
const SIZED_DEPTHS: usize = 8;

/// The largest size that is remembered: a large table followed by many small ones must not cost memory.
const SIZE_MAX: c_int = 32;

/// Decodes argument 1.
pub(super) fn run(lua: &mut Lua, config: Config) -> CResult {
    // SAFETY: the argument stays where it is, below what the parser pushes and pops.
    let text = unsafe { lua.held_bytes(1) }?;
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err(LuaError::new("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser =
        Parser { config, text, at: 0, token_at: 0, string: None, unescaped: Vec::new(), sizes: Default::default() };
    let first = parser.token();
    parser.value(lua, first, 0)?;
    let last = parser.token();
    if last != Token::End {
        return Err(parser.expected("the end", last));
    }
    Ok(1)
}

impl Parser<'_> {
    /// The byte at `offset`; 0 behind the end.
    fn byte(&self, offset: usize) -> u8 {
        self.text.get(offset).copied().unwrap_or(0)
    }

    #[cold]
    fn expected(&self, what: &str, found: Token) -> LuaError {
        LuaError::from(format!("Expected {what} but found {} at character {}", found.name(), self.token_at + 1))
    }

    fn error(&mut self, text: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(text)
    }

    fn token(&mut self) -> Token {
        while matches!(self.byte(self.at), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let simple = match self.byte(self.at) {
            b'"' => return self.string_token(),
            b'-' | b'0'..=b'9' => return self.number_token(),
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            _ => return self.word(),
        };
        self.at += 1;
        simple
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let (token, len) = if rest.starts_with(b"true") {
            (Token::Boolean(true), 4)
        } else if rest.starts_with(b"false") {
            (Token::Boolean(false), 5)
        } else if rest.starts_with(b"null") {
            (Token::Null, 4)
        } else if self.config.decode_invalid_numbers && is_invalid_number(rest) {
            return self.c_number();
        } else {
            return self.error("invalid token");
        };
        self.at += len;
        token
    }

    /// Reads a number: plain integers by hand, other decimal ones with Rust's parser, the rest as C's `strtod` does.
    fn number_token(&mut self) -> Token {
        let rest = &self.text[self.at..];
        if is_invalid_number(rest) {
            return if self.config.decode_invalid_numbers { self.c_number() } else { self.error("invalid number") };
        }
        let negative = usize::from(rest[0] == b'-');
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(negative);
        let mut len = negative + whole;
        let next = rest.get(len).copied().unwrap_or(0);
        if whole == 0 {
            return self.c_number();
        }
        if !matches!(next, b'.' | b'e' | b'E') && whole <= 15 {
            let value = rest[negative..len].iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0')) as f64;
            self.at += len;
            return Token::Number(if negative == 1 { -value } else { value });
        }
        if next == b'.' {
            len += 1 + digits(len + 1);
        }
        if matches!(rest.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(rest.get(len + 1), Some(b'+' | b'-')));
            let exponent = rest.get(len + 1 + sign..).map_or(0, |_| digits(len + 1 + sign));
            if exponent > 0 {
                len += 1 + sign + exponent;
            }
        }
        let value = std::str::from_utf8(&rest[..len]).ok().and_then(|text| text.parse::<f64>().ok());
        match value {
            Some(value) => {
                self.at += len;
                Token::Number(value)
            }
            None => self.c_number(),
        }
    }

    fn c_number(&mut self) -> Token {
        let start = self.text[self.at..].as_ptr().cast::<c_char>();
        let mut end = ptr::null_mut();
        // SAFETY: Lua's strings end in a zero byte, so that the scan stays within; `start` lies within the string.
        let value = unsafe { libc::strtod(start, &raw mut end) };
        let len = end.addr() - start.addr();
        if len == 0 {
            return self.error("invalid number");
        }
        self.at += len;
        Token::Number(value)
    }

    fn string_token(&mut self) -> Token {
        self.at += 1;
        let start = self.at;
        match memchr::memchr3(b'"', b'\\', 0, &self.text[start..]) {
            Some(len) if self.text[start + len] == b'"' => {
                self.string = Some((start, start + len));
                self.at = start + len + 1;
                Token::String
            }
            _ => self.escaped_string(),
        }
    }

    /// Reads a string with escapes, or one without an end.
    fn escaped_string(&mut self) -> Token {
        self.string = None;
        self.unescaped.clear();
        loop {
            let rest = &self.text[self.at..];
            let Some(plain) = memchr::memchr3(b'"', b'\\', 0, rest) else {
                self.at = self.text.len();
                return self.error("unexpected end of string");
            };
            self.unescaped.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match rest[plain] {
                b'"' => {
                    self.at += 1;
                    return Token::String;
                }
                0 => return self.error("unexpected end of string"),
                _ => {}
            }
            let byte = match self.byte(self.at + 1) {
                b'u' => {
                    if !self.unicode_escape() {
                        return self.error("invalid unicode escape code");
                    }
                    continue;
                }
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                same @ (b'"' | b'\\' | b'/') => same,
                _ => return self.error("invalid escape code"),
            };
            self.unescaped.push(byte);
            self.at += 2;
        }
    }

    /// Reads `\uXXXX`, or two of them that make a pair.
    fn unicode_escape(&mut self) -> bool {
        let Some(mut code) = self.hex4(self.at + 2) else { return false };
        let mut len = 6;
        if (0xd800..0xe000).contains(&code) {
            if code >= 0xdc00 || self.byte(self.at + 6) != b'\\' || self.byte(self.at + 7) != b'u' {
                return false;
            }
            let Some(low @ 0xdc00..0xe000) = self.hex4(self.at + 8) else { return false };
            code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
            len = 12;
        }
        let Some(character) = char::from_u32(code) else { return false };
        self.unescaped.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += len;
        true
    }

    fn hex4(&self, offset: usize) -> Option<u32> {
        let digits = self.text.get(offset..offset + 4)?;
        digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
    }

    /// Pushes the string that was read last.
    fn push_string(&self, lua: &Lua) {
        match self.string {
            Some((start, end)) => lua.push_bytes(&self.text[start..end]),
            None => lua.push_bytes(&self.unescaped),
        }
    }

    /// Pushes the value that `token` begins.
    fn value(&mut self, lua: &mut Lua, token: Token, depth: i64) -> Result<(), LuaError> {
        match token {
            Token::String => self.push_string(lua),
            Token::Number(number) => lua.push_number(number),
            Token::Boolean(value) => lua.push_bool(value),
            Token::Null => lua.push_light(ptr::null()),
            Token::ObjectBegin => return self.object(lua, depth + 1),
            Token::ArrayBegin => return self.array(lua, depth + 1),
            other => return Err(self.expected("value", other)),
        }
        Ok(())
    }

    fn descend(&self, lua: &Lua, depth: i64) -> Result<(), LuaError> {
        if depth <= self.config.decode_max_depth.min(NESTING_MAX) && may_nest() && lua.reserve(4).is_ok() {
            return Ok(());
        }
        Err(LuaError::from(format!("Found too many nested data structures ({depth}) at character {}", self.at)))
    }

    fn sizes(&mut self, depth: i64) -> &mut Sizes {
        &mut self.sizes[usize::try_from(depth).unwrap_or(0).min(SIZED_DEPTHS - 1)]
    }

    fn object(&mut self, lua: &mut Lua, depth: i64) -> Result<(), LuaError> {
        self.descend(lua, depth)?;
        let mut token = self.token();
        if token == Token::ObjectEnd {
            lua.push_table(0, 0);
            return Ok(());
        }
        lua.push_table(0, c_int::from(self.sizes(depth).members));
        let mut count = 0;
        loop {
            if token != Token::String {
                return Err(self.expected("object key string", token));
            }
            self.push_string(lua);
            token = self.token();
            if token != Token::Colon {
                return Err(self.expected("colon", token));
            }
            token = self.token();
            self.value(lua, token, depth)?;
            lua.raw_set(-3);
            count += 1;
            token = self.token();
            match token {
                Token::ObjectEnd => {
                    self.sizes(depth).members = count.min(SIZE_MAX) as u8;
                    return Ok(());
                }
                Token::Comma => token = self.token(),
                other => return Err(self.expected("comma or object end", other)),
            }
        }
    }

    fn array(&mut self, lua: &mut Lua, depth: i64) -> Result<(), LuaError> {
        self.descend(lua, depth)?;
        let mut token = self.token();
        let elements = if token == Token::ArrayEnd { 0 } else { self.sizes(depth).elements };
        lua.push_table(c_int::from(elements), 0);
        if self.config.decode_array_with_array_mt {
            push_shared_table(lua, &ARRAY_MT);
            lua.set_metatable(-2);
        }
        if token == Token::ArrayEnd {
            return Ok(());
        }
        let mut index = 1;
        loop {
            self.value(lua, token, depth)?;
            lua.raw_set_index(-2, index);
            index += 1;
            token = self.token();
            match token {
                Token::ArrayEnd => {
                    self.sizes(depth).elements = (index - 1).min(SIZE_MAX) as u8;
                    return Ok(());
                }
                Token::Comma => token = self.token(),
                other => return Err(self.expected("comma or array end", other)),
            }
        }
    }
}

/// Whether `text` begins with a number that `strtod` reads and JSON does not know: hexadecimal, a leading zero, an
/// infinity, not a number.
fn is_invalid_number(text: &[u8]) -> bool {
    let text = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        _ => text,
    };
    match text {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [0..=b'9', ..] | [] => false,
        _ => text.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan")),
    }
}
