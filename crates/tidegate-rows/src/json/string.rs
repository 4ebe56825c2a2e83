//! Strings of JSON: the search for bytes that need an escape.

/// Appends `text` as a JSON string. Bytes from 0x80 up are copied: their character set is the connection's.
#[inline]
pub fn append_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    append_escaped(out, text);
    out.push(b'"');
}

/// Appends `text` with the escapes of a JSON string, without quotes.
#[inline]
pub fn append_escaped(out: &mut Vec<u8>, text: &[u8]) {
    /// Longer texts are worth a search before they are copied.
    const SHORT: usize = 32;
    if text.len() > SHORT {
        return append_long_escaped(out, text);
    }
    // Looked at in words, the last one overlapping with the one before, and copied at once.
    let is_plain = match text.last_chunk::<8>() {
        Some(last) => {
            let (words, _) = text.as_chunks::<8>();
            let special = words.iter().fold(0, |found, word| found | special_bytes(u64::from_le_bytes(*word)));
            special | special_bytes(u64::from_le_bytes(*last)) == 0
        }
        None => !text.iter().any(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\'),
    };
    if is_plain { out.extend_from_slice(text) } else { append_long_escaped(out, text) }
}

fn append_long_escaped(out: &mut Vec<u8>, mut text: &[u8]) {
    loop {
        let plain = plain_len(text);
        out.extend_from_slice(&text[..plain]);
        if plain == text.len() {
            return;
        }
        append_escape(out, text[plain]);
        text = &text[plain + 1..];
    }
}

#[cold]
fn append_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Number of bytes before the first one that needs an escape.
#[inline]
fn plain_len(text: &[u8]) -> usize {
    let (words, tail) = text.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    tail.iter().position(special).map_or(text.len(), |at| words.len() * 8 + at)
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

    #[test]
    fn escapes() {
        let mut out = Vec::new();
        append_escaped(&mut out, "a\r\nb\u{8}你好\u{1a}\"\\\u{c}\t\u{0}\u{7f}/".as_bytes());
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
                        append_escaped(&mut out, &text);
                        assert_eq!(out, escape_slowly(&text), "{text:?}");
                    }
                }
            }
        }
    }
}
