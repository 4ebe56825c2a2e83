//! DeNA's HandlerSocket protocol, which reaches the rows of a MySQL table by an index: what clients ask ([`request`]), what a
//! server answers ([`answer`]), and how a client reads that ([`reply`]).
//!
//! Requests and answers are lines of tokens. A token is NULL, which is a byte 0 alone, or a string, in which bytes below 16
//! stand as 1 and the byte plus 64.
//!
//! ```text
//! P 1 test cats PRIMARY id,name \n            0 1 \n                          open index 1, with two columns
//! 1 = 1 7 \n                                  0 2 7 Tom \n                    the row whose first part of the key is 7
//! 1 >= 1 7 10 0 F = 0 5 U Tim \n              0 1 3 \n                        three rows of at most ten were changed
//! 1 + 2 8 Kit \n                              0 1 \n                          a new row
//! nonsense \n                                 2 1 cmd \n                      an error of class 2 and its word
//! ```
//!
//! (blanks stand for tabs.) What is odd about DeNA's server is kept where clients can see it: digits count wherever they stand in
//! a number's token, and tokens that are missing are empty strings.
//!
//! Source: DeNA, HandlerSocket plugin, `docs-en/protocol.en.txt`, and the behaviour of MariaDB 10.11's.

pub mod answer;
pub mod reply;
pub mod request;

/// Between two tokens.
pub const SEPARATOR: u8 = b'\t';
/// The end of a line. A carriage return ahead of it belongs to no token.
pub const END: u8 = b'\n';
/// The token that is NULL.
pub const NULL: u8 = 0;
/// Leads a byte below [`PLAIN_MIN`].
const PREFIX: u8 = 1;
/// The least byte that stands for itself.
const PLAIN_MIN: u8 = 0x10;
/// What is added to a byte behind [`PREFIX`].
const SHIFT: u8 = 0x40;

/// Appends a value as a token, without the separator: `None` is NULL.
pub fn put_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(mut rest) = value else { return out.push(NULL) };
    // Few values have such a byte, and a look at many bytes at once costs less than one at each.
    let is_plain = |bytes: &[u8]| bytes.iter().fold(true, |so_far, byte| so_far & (*byte >= PLAIN_MIN));
    let plain = rest.chunks(32).take_while(|chunk| is_plain(chunk)).map(<[u8]>::len).sum();
    out.extend_from_slice(&rest[..plain]);
    rest = &rest[plain..];
    while let Some(at) = rest.iter().position(|byte| *byte < PLAIN_MIN) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[PREFIX, rest[at] + SHIFT]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// The value of a token, decoded in place; `None` is NULL. The value ends where a prefix leads no byte that it can lead.
pub fn value_of(token: &mut [u8]) -> Option<&[u8]> {
    if *token == [NULL] {
        return None;
    }
    let Some(mut read) = memchr::memchr(PREFIX, token) else { return Some(token) };
    let mut write = read;
    while read < token.len() {
        token[write] = match (token[read], token.get(read + 1)) {
            (PREFIX, Some(byte @ SHIFT..)) => {
                read += 1;
                byte - SHIFT
            }
            (PREFIX, _) => break,
            (byte, _) => byte,
        };
        read += 1;
        write += 1;
    }
    Some(&token[..write])
}

/// The tokens of a line, one after the other.
struct Tokens<'a> {
    rest: &'a mut [u8],
    /// The separator behind the last token has not been passed yet.
    at_separator: bool,
}

impl<'a> Tokens<'a> {
    fn of(line: &'a mut [u8]) -> Self {
        Tokens { rest: line, at_separator: false }
    }

    /// The next token, empty behind the last one.
    fn next(&mut self) -> &'a mut [u8] {
        self.pass_separator();
        let end = memchr::memchr(SEPARATOR, self.rest).unwrap_or(self.rest.len());
        let (token, rest) = std::mem::take(&mut self.rest).split_at_mut(end);
        self.rest = rest;
        self.at_separator = true;
        token
    }

    /// The first byte of the next token, if anything is left of the line.
    fn peek(&mut self) -> Option<u8> {
        self.pass_separator();
        self.rest.first().copied()
    }

    /// Whether the last token has ended the line.
    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn pass_separator(&mut self) {
        if self.at_separator && !self.rest.is_empty() {
            self.rest = &mut std::mem::take(&mut self.rest)[1..];
        }
        self.at_separator = false;
    }
}

/// The number of a token: its digits, whatever else is in it, modulo 2^32.
fn number_of(token: &[u8]) -> u32 {
    let digits = token.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u32, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Option<&[u8]>, token: &[u8]) {
        let mut out = Vec::new();
        put_value(value, &mut out);
        assert_eq!(out, token);
        assert_eq!(value_of(&mut out), value);
    }

    #[test]
    fn values_are_tokens() {
        check(None, b"\0");
        check(Some(b""), b"");
        check(Some(b"\0"), b"\x01@");
        check(Some(b"Tom"), b"Tom");
        check(Some(b"a\tb\nc\x01\x0f\x10\xff"), b"a\x01Ib\x01Jc\x01A\x01O\x10\xff");
    }

    #[test]
    fn a_value_ends_at_a_wrong_prefix() {
        for (token, value) in
            [(&b"\x01"[..], &b""[..]), (b"ab\x01", b"ab"), (b"a\x01Ib\x01\x3fc", b"a\tb"), (b"\x01\xff", b"\xbf")]
        {
            assert_eq!(value_of(&mut token.to_vec()), Some(value), "{token:?}");
        }
    }

    #[test]
    fn numbers_are_the_digits_of_their_token() {
        for (token, number) in [(&b""[..], 0), (b"12", 12), (b"-1", 1), (b"1x2", 12), (b"4294967297", 1)] {
            assert_eq!(number_of(token), number, "{token:?}");
        }
    }
}
