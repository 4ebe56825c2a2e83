//! Text in other notations: URI escapes, hex, base32, base64.

use base64::{Engine, alphabet, engine::GeneralPurpose, engine::GeneralPurposeConfig};
use tidegate_http::basic_auth::decode_base64 as decode;

const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new());
const URL: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, GeneralPurposeConfig::new().with_encode_padding(false));

/// The digits of base32, from 0 to 31.
pub(super) type Alphabet = [u8; 32];

/// The digits where `set_base32_alphabet` says nothing.
pub(super) const BASE32_ALPHABET: &Alphabet = b"0123456789abcdefghijklmnopqrstuv";

/// `text` with `%XX` for all that could mean something in an argument of a URI.
pub(super) fn escape_uri(text: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_graphic() && !b"\"#%&+/:;<=>?[\\]^{}".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out
}

/// The inverse; `+` is a space. Broken escapes shrink: `%z` gives `z`, `%4z` nothing.
pub(super) fn unescape_uri(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let Some(high) = rest.next() else { break };
                match hex_digit(high) {
                    None => out.push(high),
                    Some(high) => out.extend(rest.next().and_then(hex_digit).map(|low| high << 4 | low)),
                }
            }
            _ => out.push(byte),
        }
    }
    out
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Two digits for every byte.
pub(crate) fn encode_hex(bytes: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|&byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]).collect()
}

/// The bytes that digits stand for; none if it is not that.
pub(super) fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(hex_digit(high)? << 4 | hex_digit(low)?)).collect()
}

/// Base64 with padding.
pub(super) fn encode_base64(bytes: &[u8]) -> Vec<u8> {
    STANDARD.encode(bytes).into_bytes()
}

/// Bytes from base64; nothing if it is not that.
pub(super) fn decode_base64(text: &[u8]) -> Vec<u8> {
    decode(text).unwrap_or_default()
}

/// Base64 for URIs, without padding.
pub(super) fn encode_base64url(bytes: &[u8]) -> Vec<u8> {
    URL.encode(bytes).into_bytes()
}

/// Bytes from base64 for URIs; nothing if it is not that.
pub(crate) fn decode_base64url(text: &[u8]) -> Vec<u8> {
    let standard = |&byte: &u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' => None,
        _ => Some(byte),
    };
    text.iter().map(standard).collect::<Option<Vec<u8>>>().map(|text| decode_base64(&text)).unwrap_or_default()
}

/// Base32 with the digits of `alphabet`, with padding or without.
pub(super) fn encode_base32(bytes: &[u8], alphabet: &Alphabet, padding: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut word = [0; 8];
        word[3..3 + group.len()].copy_from_slice(group);
        let word = u64::from_be_bytes(word);
        let digits = (8 * group.len()).div_ceil(5);
        out.extend((0..digits).map(|digit| alphabet[(word >> (35 - 5 * digit)) as usize & 31]));
        if padding {
            out.extend((digits..8).map(|_| b'='));
        }
    }
    out
}

/// Bytes from base32, up to the first `=`; nothing if it is not that.
pub(super) fn decode_base32(text: &[u8], alphabet: &Alphabet) -> Vec<u8> {
    let text = text.split(|&byte| byte == b'=').next().unwrap_or_default();
    if matches!(text.len() % 8, 1 | 3 | 6) {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(text.len() / 8 * 5 + 5);
    for group in text.chunks(8) {
        let mut word = 0u64;
        for &byte in group {
            let Some(digit) = memchr::memrchr(byte, alphabet) else { return Vec::new() };
            word = word << 5 | digit as u64;
        }
        word <<= 5 * (8 - group.len());
        out.extend_from_slice(&word.to_be_bytes()[3..3 + group.len() * 5 / 8]);
    }
    out
}

#[cfg(test)]
mod tests {
    use bstr::BString;

    use super::*;

    #[track_caller]
    fn same(got: Vec<u8>, expected: &[u8]) {
        assert_eq!(BString::from(got), BString::from(expected));
    }

    #[test]
    fn escapes_and_unescapes() {
        same(escape_uri(b"a b&c/d=e+f"), b"a%20b%26c%2Fd%3De%2Bf");
        same(escape_uri(b"!$'()*,-.@_`|~"), b"!$'()*,-.@_`|~");
        same(escape_uri(b"\0\x7f\xff"), b"%00%7F%FF");
        for (text, expected) in [
            ("a%20b+c", "a b c"),
            ("%41%4a%4A", "AJJ"),
            ("%z1", "z1"),
            ("%4z1", "1"),
            ("%+", "+"),
            ("%%41", "%41"),
            ("%", ""),
        ] {
            same(unescape_uri(text.as_bytes()), expected.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        same(unescape_uri(&escape_uri(&all)), &all);
    }

    #[test]
    fn hex() {
        same(encode_hex(b"\0abc\xff"), b"00616263ff");
        assert_eq!(decode_hex(b"00616263fF").as_deref(), Some(&b"\0abc\xff"[..]));
        assert_eq!(decode_hex(b""), Some(Vec::new()));
        for bad in [&b"6"[..], b"6g", b"616"] {
            assert_eq!(decode_hex(bad), None);
        }
    }

    #[test]
    fn base64() {
        same(encode_base64(b"hello"), b"aGVsbG8=");
        same(decode_base64(b"aGVsbG8="), b"hello");
        same(decode_base64(b"a"), b"");
        same(encode_base64url(b"\xfb\xff\xfe"), b"-__-");
        same(encode_base64url(b"hello"), b"aGVsbG8");
        same(decode_base64url(b"-__-"), b"\xfb\xff\xfe");
        same(decode_base64url(b"+//+"), b"");
    }

    #[test]
    fn base32() {
        for (bytes, padded) in [
            (&b""[..], &b""[..]),
            (b"h", b"d0======"),
            (b"he", b"d1ig===="),
            (b"hel", b"d1imo==="),
            (b"hell", b"d1imor0="),
            (b"hello", b"d1imor3f"),
            (b"hello\xff", b"d1imor3fvs======"),
        ] {
            same(encode_base32(bytes, BASE32_ALPHABET, true), padded);
            let digits = padded.split(|&byte| byte == b'=').next().unwrap_or_default();
            same(encode_base32(bytes, BASE32_ALPHABET, false), digits);
            same(decode_base32(padded, BASE32_ALPHABET), bytes);
            same(decode_base32(digits, BASE32_ALPHABET), bytes);
        }
        let rfc = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        same(encode_base32(b"foobar", rfc, true), b"MZXW6YTBOI======");
        same(decode_base32(b"MZXW6YTBOI======", rfc), b"foobar");
        for bad in [&b"d"[..], b"d1i", b"d1imor", b"D0", b"w0"] {
            same(decode_base32(bad, BASE32_ALPHABET), b"");
        }
    }
}
