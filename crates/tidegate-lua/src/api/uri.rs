//! Escaping: `ngx.escape_uri`, `ngx.unescape_uri`.

use std::ffi::c_int;

use tidegate_http::escape::{percent_encode, unescape_form};

use super::Family;
use super::compiled::ffi_functions;

pub(crate) static FAMILY: Family = Family {
    name: "uri",
    cdef: "",
    ffi: ffi_functions! {
        escape as "escape": (Bytes, c_int, TextOut),
        unescape as "unescape": (Bytes, TextOut),
        replace as "replace": (Bytes, c_int, c_int, TextOut),
    },
    functions: &[],
};

/// Which bytes are escaped. The sets are lua-nginx-module's, which are smaller than nginx's: `!'()*` stay.
///
/// The numbers are the second argument of `ngx.escape_uri`.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    Uri = 0,
    Args = 1,
    Component = 2,
    Html = 3,
    Refresh = 4,
    Memcached = 5,
    HeaderName = 7,
    HeaderValue = 8,
    /// What would end or split the line of a request.
    RequestLine = 9,
}

impl Kind {
    const fn escapes(self, byte: u8) -> bool {
        let outside = byte <= b' ' || byte >= 0x7f;
        match self {
            Kind::RequestLine => byte <= b' ' || byte == 0x7f,
            Kind::Uri => outside || one_of(byte, b"#%?"),
            Kind::Args => outside || one_of(byte, b"#%?+"),
            Kind::Component => outside || one_of(byte, b"\"#$%&+,/:;<=>?@[\\]^`{|}"),
            Kind::Html => outside || one_of(byte, b"\"#%'"),
            Kind::Refresh => outside || one_of(byte, b"\"'"),
            Kind::Memcached => byte <= b' ' || byte == b'%',
            Kind::HeaderName => outside || one_of(byte, b"\"(),/:;<=>?@[\\]{}"),
            Kind::HeaderValue => byte < b' ' && byte != b'\t' || byte == 0x7f,
        }
    }
}

const fn one_of(byte: u8, set: &[u8]) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether `text` has bytes to escape.
pub(crate) fn needs_escape(text: &[u8], kind: Kind) -> bool {
    text.iter().any(|&byte| kind.escapes(byte))
}

/// Appends `text` to `out`, with `%XX` for the bytes that `kind` escapes.
pub(crate) fn escape_into(text: &[u8], kind: Kind, out: &mut Vec<u8>) {
    percent_encode(text, |byte| kind.escapes(byte), out);
}

/// Puts the byte `new` in the place of each `old`.
fn replace(text: &[u8], old: c_int, new: c_int, out: &mut Vec<u8>) {
    out.extend(text.iter().map(|&byte| if c_int::from(byte) == old { new as u8 } else { byte }));
}

/// Escapes a text for a place of this number.
fn escape(text: &[u8], kind: c_int, out: &mut Vec<u8>) {
    let kind = match kind {
        0 => Kind::Uri,
        1 => Kind::Args,
        3 => Kind::Html,
        4 => Kind::Refresh,
        5 | 6 => Kind::Memcached,
        _ => Kind::Component,
    };
    escape_into(text, kind, out);
}

fn unescape(text: &[u8], out: &mut Vec<u8>) {
    unescape_form(text, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        #[track_caller]
        fn check(kind: Kind, text: &str, expected: &str) {
            let mut out = Vec::new();
            escape_into(text.as_bytes(), kind, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            assert_eq!(needs_escape(text.as_bytes(), kind), text != expected);
        }
        check(Kind::Component, "a b\r&=/?!'()*-._~\u{e9}", "a%20b%0D%26%3D%2F%3F!'()*-._~%C3%A9");
        check(Kind::Uri, "/a b?#%+&", "/a%20b%3F%23%25+&");
        check(Kind::Args, "a+b", "a%2Bb");
        check(Kind::Html, "a\"b'c#", "a%22b%27c%23");
        check(Kind::Refresh, "a'%#", "a%27%#");
        check(Kind::Memcached, "a b%\u{e9}", "a%20b%25\u{e9}");
        check(Kind::HeaderName, "X-A:b", "X-A%3Ab");
        check(Kind::HeaderValue, "a\tb\r\n", "a\tb%0D%0A");
    }
}
