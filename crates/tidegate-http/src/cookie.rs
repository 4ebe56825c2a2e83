//! Cookies of a request, for `$cookie_name`.

use crate::fields::Fields;
use crate::known::Known;

/// The value of the first cookie of this name, which is looked for in any case.
///
/// As in nginx, a value ends at `;`, but a cookie may also start behind a `,`; spaces around `=` do not count.
///
/// Source: nginx 1.22-1.27, `ngx_http_parse_multi_header_lines`.
pub fn cookie<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a [u8]> {
    fields.iter_known(Known::Cookie).find_map(|line| cookie_in(line, name))
}

/// The value of a cookie within one `Cookie` field; see [`cookie`].
pub fn cookie_in<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = line;
    while !rest.is_empty() {
        if let Some(value) = value_of(rest, name) {
            let end = memchr::memchr(b';', value).unwrap_or(value.len());
            return Some(&value[..end]);
        }
        let separator = memchr::memchr2(b';', b',', rest)?;
        rest = skip_spaces(&rest[separator + 1..]);
    }
    None
}

/// What follows `name =` at the start of `text`.
fn value_of<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(name.len())?;
    if !start.eq_ignore_ascii_case(name) {
        return None;
    }
    Some(skip_spaces(skip_spaces(rest).strip_prefix(b"=")?))
}

/// The value of a cookie that an upstream sets, from its `Set-Cookie` fields: for `$upstream_cookie_name`.
pub fn set_cookie<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a [u8]> {
    fields.iter_known(Known::SetCookie).find_map(|line| {
        let value = value_of(line, name)?;
        let end = memchr::memchr(b';', value).unwrap_or(value.len());
        Some(&value[..end])
    })
}

fn skip_spaces(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b" ") {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_cookies() {
        #[track_caller]
        fn check(line: &str, name: &str, expected: Option<&str>) {
            let found = cookie_in(line.as_bytes(), name.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{line} {name}");
        }
        check("a=1; b=2", "a", Some("1"));
        check("a=1; b=2", "b", Some("2"));
        check("a=1;b=2", "B", Some("2"));
        check("a=1, b=2", "b", Some("2"));
        check("a=1, b=2", "a", Some("1, b=2"));
        check("a = 1 ; b", "a", Some("1 "));
        check("ab=1; a=2", "a", Some("2"));
        check("xa=1", "a", None);
        check("a", "a", None);
        check("a=", "a", Some(""));
        check("a; a=1", "a", Some("1"));
        check("", "a", None);
        check(";;", "a", None);
        check("=1", "", Some("1"));
    }

    #[test]
    fn looks_into_all_fields() {
        let mut fields = Fields::new();
        fields.append(b"Cookie", b"a=1");
        fields.append(b"cookie", b"b=2; a=3");
        assert_eq!(cookie(&fields, b"a"), Some(&b"1"[..]));
        assert_eq!(cookie(&fields, b"b"), Some(&b"2"[..]));
        assert_eq!(cookie(&fields, b"c"), None);
        fields.append(b"Set-Cookie", b"s=1; Path=/");
        fields.append(b"Set-Cookie", b"t=2");
        assert_eq!(set_cookie(&fields, b"S"), Some(&b"1"[..]));
        assert_eq!(set_cookie(&fields, b"t"), Some(&b"2"[..]));
        assert_eq!(set_cookie(&fields, b"Path"), None);
    }
}
