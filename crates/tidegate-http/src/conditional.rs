//! Conditional requests: entity tags and dates.

use crate::date::parse_http_date;

/// The two ways of comparing entity tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `If-Match`: a weak tag never matches a strong one.
    Strong,
    /// `If-None-Match`: the mark `W/` does not count.
    Weak,
}

/// Whether a list of entity tags, or `*`, matches the tag of the content.
///
/// Without a tag only `*` matches. As in nginx, a strong comparison takes two equal weak tags for a match.
///
/// Source: nginx, `ngx_http_test_if_match`.
pub fn etag_matches(list: &[u8], etag: Option<&[u8]>, comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let plain = |tag: &'_ [u8]| match comparison {
        Comparison::Weak if tag.len() > 2 && tag.starts_with(b"W/") => 2,
        _ => 0,
    };
    let etag = &etag[plain(etag)..];
    let mut rest = list;
    while !rest.is_empty() {
        rest = &rest[plain(rest)..];
        if let Some(behind) = rest.strip_prefix(etag) {
            let behind = behind.trim_ascii_start();
            if behind.is_empty() || behind[0] == b',' {
                return true;
            }
        }
        let Some(comma) = memchr::memchr(b',', rest) else { return false };
        rest = &rest[comma..];
        while let [b' ' | b'\t' | b',', behind @ ..] = rest {
            rest = behind;
        }
    }
    false
}

/// `if_modified_since`: how the date of the field is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// The field is ignored.
    Off,
    /// Unmodified only if the dates are equal.
    #[default]
    Exact,
    /// Unmodified if the content is not younger than the field's date.
    Before,
}

/// Whether content was modified, by its `Last-Modified` (in seconds since 1970) and the value of `If-Modified-Since`.
///
/// Content without date, and a field that is no date, count as modified.
pub fn is_modified_since(value: &[u8], last_modified: Option<i64>, rule: IfModifiedSince) -> bool {
    let (Some(last_modified), Some(since)) = (last_modified, parse_http_date(value)) else { return true };
    match rule {
        IfModifiedSince::Off => true,
        IfModifiedSince::Exact => since != last_modified,
        IfModifiedSince::Before => since < last_modified,
    }
}

/// Whether `If-Unmodified-Since` holds: content without date, and a field that is no date, fail it.
pub fn is_unmodified_since(value: &[u8], last_modified: Option<i64>) -> bool {
    match (last_modified, parse_http_date(value)) {
        (Some(last_modified), Some(since)) => since >= last_modified,
        _ => false,
    }
}

/// Whether `If-Range` allows to send ranges: its value is the content's strong tag or exact date.
///
/// Source: nginx, `ngx_http_range_header_filter`.
pub fn if_range(value: &[u8], etag: Option<&[u8]>, last_modified: Option<i64>) -> bool {
    if value.len() >= 2 && value.ends_with(b"\"") {
        return etag == Some(value);
    }
    last_modified.is_some() && parse_http_date(value) == last_modified
}

/// The fields of a request that make it conditional.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
}

/// What the conditions of a request say about an answer with status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Send,
    /// 304: the client has it.
    NotModified,
    /// 412: it is not what the client expects.
    PreconditionFailed,
}

impl<'a> Conditions<'a> {
    /// The conditions among the fields of a request.
    pub fn of(fields: &'a crate::Fields) -> Conditions<'a> {
        use crate::Known;
        Conditions {
            if_unmodified_since: fields.get(Known::IfUnmodifiedSince),
            if_match: fields.get(Known::IfMatch),
            if_modified_since: fields.get(Known::IfModifiedSince),
            if_none_match: fields.get(Known::IfNoneMatch),
        }
    }

    /// Whether there is one among them.
    #[inline]
    pub fn stand_in(fields: &crate::Fields) -> bool {
        use crate::Known::{IfMatch, IfModifiedSince, IfNoneMatch, IfUnmodifiedSince};
        [IfUnmodifiedSince, IfMatch, IfModifiedSince, IfNoneMatch].into_iter().any(|known| fields.contains(known))
    }

    /// Tests the conditions in nginx's order. With both `If-Modified-Since` and `If-None-Match`, both must say that the
    /// content is unmodified.
    ///
    /// Source: nginx, `ngx_http_not_modified_header_filter`.
    pub fn test(&self, etag: Option<&[u8]>, last_modified: Option<i64>, rule: IfModifiedSince) -> Verdict {
        if self.if_unmodified_since.is_some_and(|value| !is_unmodified_since(value, last_modified)) {
            return Verdict::PreconditionFailed;
        }
        if self.if_match.is_some_and(|list| !etag_matches(list, etag, Comparison::Strong)) {
            return Verdict::PreconditionFailed;
        }
        if self.if_modified_since.is_none() && self.if_none_match.is_none() {
            return Verdict::Send;
        }
        if self.if_modified_since.is_some_and(|value| is_modified_since(value, last_modified, rule)) {
            return Verdict::Send;
        }
        if self.if_none_match.is_some_and(|list| !etag_matches(list, etag, Comparison::Weak)) {
            return Verdict::Send;
        }
        Verdict::NotModified
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const SECONDS: i64 = 784_111_777;

    #[test]
    fn compares_tags() {
        #[track_caller]
        fn check(list: &str, etag: &str, strong: bool, weak: bool) {
            let etag = (!etag.is_empty()).then_some(etag.as_bytes());
            assert_eq!(etag_matches(list.as_bytes(), etag, Comparison::Strong), strong, "strong {list}");
            assert_eq!(etag_matches(list.as_bytes(), etag, Comparison::Weak), weak, "weak {list}");
        }
        check("*", "", true, true);
        check("*", "\"a\"", true, true);
        check("\"a\"", "", false, false);
        check("\"a\"", "\"a\"", true, true);
        check("\"b\", \"a\"", "\"a\"", true, true);
        check("\"b\",,\t \"a\" , \"c\"", "\"a\"", true, true);
        check("\"ab\"", "\"a\"", false, false);
        check("\"a\"b", "\"a\"", false, false);
        check("\"a\"b, \"a\"", "\"a\"", true, true);
        check("W/\"a\"", "\"a\"", false, true);
        check("\"a\"", "W/\"a\"", false, true);
        check("W/\"a\"", "W/\"a\"", true, true);
        check("\"b\", W/\"a\"", "\"a\"", false, true);
        check("", "\"a\"", false, false);
        check(",", "\"a\"", false, false);
        check("W/", "\"a\"", false, false);
    }

    #[test]
    fn compares_dates() {
        use IfModifiedSince::{Before, Exact, Off};
        for (last_modified, rule, expected) in [
            (Some(SECONDS), Exact, false),
            (Some(SECONDS), Before, false),
            (Some(SECONDS), Off, true),
            (Some(SECONDS - 1), Exact, true),
            (Some(SECONDS - 1), Before, false),
            (Some(SECONDS + 1), Before, true),
            (None, Before, true),
        ] {
            assert_eq!(is_modified_since(DATE, last_modified, rule), expected, "{last_modified:?} {rule:?}");
        }
        assert!(is_modified_since(b"yesterday", Some(SECONDS), Before));
        assert!(is_unmodified_since(DATE, Some(SECONDS)));
        assert!(!is_unmodified_since(DATE, Some(SECONDS + 1)));
        assert!(!is_unmodified_since(DATE, None));
        assert!(!is_unmodified_since(b"x", Some(SECONDS)));
        assert!(if_range(DATE, None, Some(SECONDS)));
        assert!(!if_range(DATE, None, Some(SECONDS - 1)));
        assert!(!if_range(b"x", None, None));
        assert!(if_range(b"\"a\"", Some(b"\"a\""), None));
        assert!(!if_range(b"\"a\"", Some(b"\"b\""), Some(SECONDS)));
        assert!(!if_range(b"\"a\"", None, Some(SECONDS)));
    }

    #[test]
    fn tests_in_order() {
        let test = |conditions: Conditions<'_>| conditions.test(Some(b"\"a\""), Some(SECONDS), IfModifiedSince::Exact);
        let none = Conditions::default();
        assert_eq!(test(none), Verdict::Send);
        assert_eq!(test(Conditions { if_match: Some(b"\"b\""), ..none }), Verdict::PreconditionFailed);
        assert_eq!(test(Conditions { if_match: Some(b"\"a\""), ..none }), Verdict::Send);
        assert_eq!(test(Conditions { if_unmodified_since: Some(b"x"), ..none }), Verdict::PreconditionFailed);
        assert_eq!(test(Conditions { if_modified_since: Some(DATE), ..none }), Verdict::NotModified);
        assert_eq!(test(Conditions { if_none_match: Some(b"W/\"a\""), ..none }), Verdict::NotModified);
        let both = Conditions { if_modified_since: Some(DATE), if_none_match: Some(b"\"b\""), ..none };
        assert_eq!(test(both), Verdict::Send);
    }
}
