//! Text as a literal of SQL or JSON.

/// `text` as a string literal of MySQL: every byte comes back as data.
///
/// `$` is escaped too, as in the original module, so that what is quoted may stand in a string with variables.
pub(super) fn sql(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for &byte in text {
        let escape = match byte {
            0 => b'0',
            0x08 => b'b',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x1a => b'Z',
            b'\\' | b'\'' | b'"' | b'$' => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'\'');
    out
}

/// `text` as an escape string of PostgreSQL. Text that is not UTF-8 gets its bytes above 127 in the notation of a
/// `bytea`.
pub(super) fn pgsql(text: &[u8]) -> Vec<u8> {
    let mut out = sql(text);
    if text.is_empty() {
        return out;
    }
    out.insert(0, b'E');
    if std::str::from_utf8(text).is_ok() {
        return out;
    }
    let mut escaped = Vec::with_capacity(2 * out.len());
    for byte in out {
        if byte < 0x80 {
            escaped.push(byte);
        } else {
            let digits = [byte >> 6, byte >> 3 & 7, byte & 7].map(|digit| digit + b'0');
            escaped.extend_from_slice(b"\\\\");
            escaped.extend_from_slice(&digits);
        }
    }
    escaped
}

/// `text` as a string of JSON; `null` for none.
pub(super) fn json(text: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if text.is_empty() {
        return b"null".to_vec();
    }
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use bstr::BString;

    use super::*;

    #[track_caller]
    fn check(quote: fn(&[u8]) -> Vec<u8>, text: &[u8], expected: &[u8]) {
        assert_eq!(BString::from(quote(text)), BString::from(expected));
    }

    #[test]
    fn quotes_for_mysql() {
        check(sql, b"", b"''");
        check(sql, b"plain", b"'plain'");
        check(sql, b"it's \"x\"", br#"'it\'s \"x\"'"#);
        check(sql, b"\0\x08\t\n\r\x1a\\", br"'\0\b\t\n\r\Z\\'");
        check(sql, b"$a%_", br"'\$a%_'");
        check(sql, "h\u{e4}\u{4f60}".as_bytes(), "'h\u{e4}\u{4f60}'".as_bytes());
        check(sql, b"\xff\x80", b"'\xff\x80'");
    }

    /// How MySQL reads a literal: the inverse for every byte.
    #[test]
    fn mysql_reads_every_byte_back() {
        for byte in 0..=255 {
            let quoted = sql(&[b'a', byte, b'z']);
            let inner = quoted.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'")).expect("it is quoted");
            let mut read = Vec::new();
            let mut rest = inner.iter().copied();
            while let Some(next) = rest.next() {
                assert_ne!(next, b'\'', "the literal would end here");
                read.push(match next {
                    b'\\' => match rest.next().expect("something is escaped") {
                        b'0' => 0,
                        b'b' => 8,
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'Z' => 0x1a,
                        other => other,
                    },
                    plain => plain,
                });
            }
            assert_eq!(read, [b'a', byte, b'z']);
        }
    }

    #[test]
    fn quotes_for_postgresql() {
        check(pgsql, b"", b"''");
        check(pgsql, b"it's", br"E'it\'s'");
        check(pgsql, "\u{e4}".as_bytes(), "E'\u{e4}'".as_bytes());
        check(pgsql, b"a\xe4\xff", br"E'a\\344\\377'");
    }

    #[test]
    fn quotes_for_json() {
        check(json, b"", b"null");
        check(json, b"it's \"x\\\"", br#""it's \"x\\\"""#);
        check(json, b"\r\n\t\x0c\x08\x01\x1f\x7f", b"\"\\r\\n\\t\\f\\b\\u0001\\u001f\x7f\"");
    }
}
