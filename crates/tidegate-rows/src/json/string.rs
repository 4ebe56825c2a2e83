//! Strings of JSON: the search for bytes that need an escape, and what becomes of bytes that are not UTF-8.

/// What becomes of bytes that are not UTF-8, which JSON must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidUtf8 {
    /// U+FFFD stands for them.
    #[default]
    Replace,
    /// Each is escaped as if it were Latin-1: `\u00e9`.
    Escape,
    /// They are copied: for connections with another character set, whose clients expect it.
    Pass,
}

/// Options for the strings that texts become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Bytes that are not UTF-8.
    pub invalid: InvalidUtf8,
    /// `<`, `>`, `&`, U+2028 and U+2029 are escaped too, so that the JSON can stand within a page's script.
    pub for_pages: bool,
}

/// Appends `text` as a JSON string.
#[inline]
pub fn append_string(out: &mut Vec<u8>, text: &[u8], how: TextOptions) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    append_escaped(out, text, how);
    out.push(b'"');
}

/// Appends `text` with the escapes of a JSON string, without quotes.
#[inline]
pub fn append_escaped(out: &mut Vec<u8>, text: &[u8], how: TextOptions) {
    /// Longer texts are worth a search before they are copied.
    const SHORT: usize = 32;
    if text.len() > SHORT || how.for_pages {
        return append_long_escaped(out, text, how);
    }
    // Looked at in words, the last one overlapping with the one before, and copied at once.
    let is_plain = match text.last_chunk::<8>() {
        Some(last) => {
            let (words, _) = text.as_chunks::<8>();
            let special = words.iter().fold(0, |found, word| found | unusual_bytes(u64::from_le_bytes(*word)));
            special | unusual_bytes(u64::from_le_bytes(*last)) == 0
        }
        None => !text.iter().any(|byte| is_unusual(*byte)),
    };
    if is_plain { out.extend_from_slice(text) } else { append_long_escaped(out, text, how) }
}

fn append_long_escaped(out: &mut Vec<u8>, text: &[u8], how: TextOptions) {
    let plain = if how.for_pages { 0 } else { plain_len(text, unusual_bytes, is_unusual) };
    out.extend_from_slice(&text[..plain]);
    let rest = &text[plain..];
    if rest.is_empty() {
        return;
    }
    if how.invalid == InvalidUtf8::Pass && !how.for_pages {
        return append_valid(out, rest);
    }
    let append = if how.for_pages { append_for_pages } else { append_valid };
    if std::str::from_utf8(rest).is_ok() {
        return append(out, rest);
    }
    for chunk in rest.utf8_chunks() {
        append(out, chunk.valid().as_bytes());
        append_invalid(out, chunk.invalid(), how.invalid);
    }
}

#[cold]
fn append_invalid(out: &mut Vec<u8>, bytes: &[u8], how: InvalidUtf8) {
    match how {
        _ if bytes.is_empty() => {}
        InvalidUtf8::Replace => out.extend_from_slice("\u{fffd}".as_bytes()),
        InvalidUtf8::Escape => bytes.iter().for_each(|byte| append_code(out, u16::from(*byte))),
        InvalidUtf8::Pass => out.extend_from_slice(bytes),
    }
}

/// Appends text whose bytes from 0x80 up are good as they are.
fn append_valid(out: &mut Vec<u8>, mut text: &[u8]) {
    loop {
        let plain = plain_len(text, special_bytes, is_special);
        out.extend_from_slice(&text[..plain]);
        if plain == text.len() {
            return;
        }
        append_escape(out, text[plain]);
        text = &text[plain + 1..];
    }
}

/// Appends text that may stand within `<script>`, in an attribute, or in JavaScript before ES2019.
fn append_for_pages(out: &mut Vec<u8>, mut text: &[u8]) {
    let is_marked = |byte: &u8| is_special(*byte) || matches!(*byte, b'<' | b'>' | b'&' | 0xe2);
    while let Some(at) = text.iter().position(is_marked) {
        out.extend_from_slice(&text[..at]);
        let (code, len) = match text[at..] {
            [0xe2, 0x80, 0xa8, ..] => (0x2028, 3),
            [0xe2, 0x80, 0xa9, ..] => (0x2029, 3),
            [byte @ (b'<' | b'>' | b'&'), ..] => (u16::from(byte), 1),
            _ => (0, 1),
        };
        match (code, text[at]) {
            (0, 0xe2) => out.push(0xe2),
            (0, byte) => append_escape(out, byte),
            (code, _) => append_code(out, code),
        }
        text = &text[at + len..];
    }
    out.extend_from_slice(text);
}

/// Appends `\uXXXX`.
fn append_code(out: &mut Vec<u8>, code: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |shift: u16| HEX[usize::from(code >> shift & 15)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

#[cold]
fn append_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return append_code(out, u16::from(byte)),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn is_unusual(byte: u8) -> bool {
    is_special(byte) || byte >= 0x80
}

/// Number of bytes before the first one that is marked.
#[inline]
fn plain_len(text: &[u8], marks: impl Fn(u64) -> u64, is_marked: impl Fn(u8) -> bool) -> usize {
    let (words, tail) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    tail.iter().position(|byte| is_marked(*byte)).map_or(text.len(), |at| words.len() * 8 + at)
}

/// Marks the bytes of a word that need an escape or are not ASCII, as [`special_bytes`] does.
#[inline]
fn unusual_bytes(word: u64) -> u64 {
    special_bytes(word) | word & 0x8080_8080_8080_8080
}

/// Marks the bytes of a word that need an escape with their top bit.
///
/// The lowest mark is exact; marks above it may be wrong, since a subtraction borrows from the byte above.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = word ^ (ONES * b'"' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = word ^ (ONES * b'\\' as u64);
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & TOPS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The obvious way, against which the fast one is checked.
    fn escape_slowly(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &byte in text {
            match byte {
                0..0x20 | b'"' | b'\\' => append_escape(&mut out, byte),
                _ => out.push(byte),
            }
        }
        out
    }

    const PASS: TextOptions = TextOptions { invalid: InvalidUtf8::Pass, for_pages: false };

    #[track_caller]
    fn check(text: &[u8], how: TextOptions, expected: &[u8]) {
        // Alone, and where the search for longer texts finds it.
        for before in ["", "0123456789012345678901234567890123456789"] {
            let mut out = Vec::new();
            append_escaped(&mut out, &[before.as_bytes(), text].concat(), how);
            assert_eq!(out, [before.as_bytes(), expected].concat(), "{}", String::from_utf8_lossy(&out));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8() {
        let with = |invalid| TextOptions { invalid, for_pages: false };
        check(b"caf\xe9 \"x\"", with(InvalidUtf8::Replace), "caf\u{fffd} \\\"x\\\"".as_bytes());
        check(b"caf\xe9", with(InvalidUtf8::Escape), b"caf\\u00e9");
        check(b"caf\xe9", with(InvalidUtf8::Pass), b"caf\xe9");
        check("Zoë".as_bytes(), with(InvalidUtf8::Replace), "Zoë".as_bytes());
        // Half a character at the end, a surrogate, an overlong form.
        check(b"\xc3", with(InvalidUtf8::Replace), "\u{fffd}".as_bytes());
        check(b"\xed\xa0\x80!", with(InvalidUtf8::Escape), b"\\u00ed\\u00a0\\u0080!");
        check(b"\xc0\xaf", with(InvalidUtf8::Replace), "\u{fffd}\u{fffd}".as_bytes());
    }

    #[test]
    fn what_would_end_a_script() {
        let how = TextOptions { for_pages: true, ..TextOptions::default() };
        check(b"</script>&", how, b"\\u003c/script\\u003e\\u0026");
        check("a\u{2028}b\u{2029}c\u{2027}\n\"".as_bytes(), how, "a\\u2028b\\u2029c\u{2027}\\n\\\"".as_bytes());
        check(b"\xe2\x80", how, "\u{fffd}".as_bytes());
    }

    #[test]
    fn escapes() {
        let mut out = Vec::new();
        append_escaped(&mut out, "a\r\nb\u{8}你好\u{1a}\"\\\u{c}\t\u{0}\u{7f}/".as_bytes(), TextOptions::default());
        assert_eq!(out, "a\\r\\nb\\b你好\\u001a\\\"\\\\\\f\\t\\u0000\u{7f}/".as_bytes());
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255u8 {
            for len in (1..20).chain(31..35) {
                for at in 0..len {
                    for filler in [b'x', 0xff, 0x20, 0x21, b'#'] {
                        let mut text = vec![filler; len];
                        text[at] = byte;
                        let mut out = Vec::new();
                        append_escaped(&mut out, &text, PASS);
                        assert_eq!(out, escape_slowly(&text), "{text:?}");
                    }
                }
            }
        }
    }
}
