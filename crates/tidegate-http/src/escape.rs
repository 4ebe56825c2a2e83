//! Escaping and unescaping of bytes for URIs, HTML and memcached keys, as nginx's functions of these names do.

use std::borrow::Cow;

/// Which bytes [`escape_uri`] escapes. Source: nginx, `ngx_escape_uri` and its `NGX_ESCAPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Escape {
    /// A path: all that RFC 3986 forbids, and `#`, `%`, `?`.
    Uri = 1,
    /// One argument: as a path, and `&`, `+`, `;`.
    Args = 2,
    /// One component: all but letters, digits, `-`, `.`, `_`, `~`.
    UriComponent = 4,
    /// A URI inside HTML: as a path, and `'`, but `?` stays.
    Html = 8,
    /// A URI that is whole already, in a `Refresh` header.
    Refresh = 16,
    /// A memcached key: control characters, space, `%`.
    Memcached = 32,
    /// A value of the mail authentication protocol: the same as a memcached key.
    MailAuth = 64,
}

/// Byte → the kinds that escape it.
static ESCAPED_BY: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        let mut kinds = 0;
        if byte <= b' ' || byte == b'%' {
            kinds |= Escape::Memcached as u8 | Escape::MailAuth as u8;
        }
        // What RFC 3986 allows nowhere.
        let forbidden = !byte.is_ascii_graphic() || one_of(byte, b"\"<>\\^`{|}");
        if forbidden || one_of(byte, b"#%?") {
            kinds |= Escape::Uri as u8;
        }
        if forbidden || one_of(byte, b"#%?&+;") {
            kinds |= Escape::Args as u8;
        }
        if forbidden || one_of(byte, b"#%'") {
            kinds |= Escape::Html as u8;
        }
        if forbidden || byte == b'\'' {
            kinds |= Escape::Refresh as u8;
        }
        if !byte.is_ascii_alphanumeric() && !one_of(byte, b"-._~") {
            kinds |= Escape::UriComponent as u8;
        }
        table[i] = kinds;
        i += 1;
    }
    table
};

const fn one_of(byte: u8, set: &[u8]) -> bool {
    let mut i = 0;
    while i < set.len() {
        if set[i] == byte {
            return true;
        }
        i += 1;
    }
    false
}

impl Escape {
    #[inline]
    fn escapes(self, byte: u8) -> bool {
        ESCAPED_BY[byte as usize] & self as u8 != 0
    }
}

/// Appends `bytes` to `out`, with `%XX` for every byte that `kind` escapes.
pub fn escape_uri(bytes: &[u8], kind: Escape, out: &mut Vec<u8>) {
    percent_encode(bytes, |byte| kind.escapes(byte), out);
}

/// Appends `bytes` to `out`, with `%XX` for every byte of which `escapes` is true.
pub fn percent_encode(bytes: &[u8], escapes: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = bytes;
    // Runs that stay as they are go in one copy.
    while let Some(at) = rest.iter().position(|&byte| escapes(byte)) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// `bytes` escaped; borrowed when there is nothing to escape.
pub fn escaped_uri(bytes: &[u8], kind: Escape) -> Cow<'_, [u8]> {
    match bytes.iter().filter(|&&byte| kind.escapes(byte)).count() {
        0 => Cow::Borrowed(bytes),
        count => {
            let mut out = Vec::with_capacity(bytes.len() + 2 * count);
            escape_uri(bytes, kind, &mut out);
            Cow::Owned(out)
        }
    }
}

/// What [`unescape_uri`] does with some bytes. Source: nginx, `NGX_UNESCAPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unescape {
    /// Everything is decoded.
    All,
    /// A path: decoding ends behind the first `?`, even an escaped one.
    Uri,
    /// A path for a redirect: only printable bytes above `%` are decoded; ends behind the first `?`.
    Redirect,
}

/// Appends the decoded form of `bytes` to `out`; returns how many bytes of the input were used.
///
/// As in nginx, broken escapes shrink: `%z` gives `z`, `%4z` gives nothing.
pub fn unescape_uri(bytes: &[u8], kind: Unescape, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let (decoded, quoted) = match byte {
            b'%' => {
                let Some(&high) = bytes.get(at) else { break };
                at += 1;
                let Some(high_value) = hex_digit(high) else {
                    out.push(high);
                    continue;
                };
                let Some(&low) = bytes.get(at) else { break };
                at += 1;
                let Some(low_value) = hex_digit(low) else { continue };
                (high_value << 4 | low_value, Some((high, low)))
            }
            byte => (byte, None),
        };
        match (kind, decoded, quoted) {
            (Unescape::Uri | Unescape::Redirect, b'?', _) => {
                out.push(b'?');
                break;
            }
            (Unescape::Redirect, _, Some((high, low))) if decoded <= b'%' || decoded >= 0x7f => {
                out.extend_from_slice(&[b'%', high, low]);
            }
            _ => out.push(decoded),
        }
    }
    at
}

/// Appends the decoded form of a value of a form or a query string to `out`: `%20` and `+` are a space, and a broken
/// escape stays as it is.
///
/// Source: WHATWG URL, "application/x-www-form-urlencoded parsing".
pub fn unescape_form(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'+', _) => out.push(b' '),
            (b'%', [high, low, behind @ ..]) if let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) => {
                out.push(high << 4 | low);
                rest = behind;
            }
            _ => out.push(byte),
        }
    }
}

/// The value of a hex digit.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends `text` to `out` with `<`, `>`, `&` and `"` as HTML entities.
pub fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        #[track_caller]
        fn check(kind: Escape, stays: &str) {
            for byte in 0..=255u8 {
                let escaped = escaped_uri(&[byte], kind).into_owned();
                if byte.is_ascii_alphanumeric() || stays.as_bytes().contains(&byte) {
                    assert_eq!(escaped, [byte], "{kind:?}");
                } else {
                    assert_eq!(escaped, format!("%{byte:02X}").into_bytes(), "{kind:?}");
                }
            }
        }
        check(Escape::Uri, "-._~:/[]@!$&'()*+,;=");
        check(Escape::Args, "-._~:/[]@!$'()*,=");
        check(Escape::UriComponent, "-._~");
        check(Escape::Html, "-._~:/?[]@!$&()*+,;=");
        check(Escape::Refresh, "-._~:/?#[]@!$&()*+,;=%");
        assert_eq!(escaped_uri(b"a b%\xff\n", Escape::Memcached).as_ref(), b"a%20b%25\xff%0A");
        assert_eq!(escaped_uri(b"a b%\xff\n", Escape::MailAuth).as_ref(), b"a%20b%25\xff%0A");
        assert!(matches!(escaped_uri(b"/a/b.c", Escape::Uri), Cow::Borrowed(_)));
        assert_eq!(escaped_uri(b" /a?\xc3\xa9 ", Escape::Uri).as_ref(), b"%20/a%3F%C3%A9%20");
    }

    #[test]
    fn unescapes_forms() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let mut out = Vec::new();
            unescape_form(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
        check("a%20b+c", "a b c");
        check("try %search%%20%again%", "try %search% %again%");
        check("Tom%2BJerry", "Tom+Jerry");
        check("%", "%");
        check("%4", "%4");
        check("%4g%41", "%4gA");
    }

    #[test]
    fn unescapes() {
        #[track_caller]
        fn check(input: &str, kind: Unescape, expected: &str, used: usize) {
            let mut out = Vec::new();
            assert_eq!(unescape_uri(input.as_bytes(), kind, &mut out), used, "{input}");
            assert_eq!(String::from_utf8_lossy(&out), expected, "{input}");
        }
        check("a%20b%2fc+d", Unescape::All, "a b/c+d", 11);
        check("a?b%3fc", Unescape::All, "a?b?c", 7);
        check("%zz%4z%4", Unescape::All, "zz", 8);
        check("%", Unescape::All, "", 1);
        check("a%20?b%20", Unescape::Uri, "a ?", 5);
        check("a%3Fb", Unescape::Uri, "a?", 4);
        check("a%20%41%25%7f?b", Unescape::Redirect, "a%20A%25%7f?", 14);
        check("a%3fb", Unescape::Redirect, "a?", 4);
    }

    #[test]
    fn escapes_html() {
        let mut out = Vec::new();
        escape_html(b"<a href=\"x\">&'", &mut out);
        assert_eq!(out, b"&lt;a href=&quot;x&quot;&gt;&amp;'");
    }
}
