//! What requests and responses say about keeping: `Cache-Control`, `Pragma`, `Expires`.

use tidegate_core::output::Response;
use tidegate_http::{Fields, Known, date::parse_http_date};

/// What a request says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// It wants no response that was kept.
    pub(super) no_cache: bool,
    /// Its response is not to be kept.
    pub(super) no_store: bool,
}

impl Wish {
    pub(super) fn of(fields: &Fields) -> Wish {
        let says =
            |known: Known, directive: &[u8]| fields.iter_known(known).any(|value| find(value, directive).is_some());
        Wish {
            no_cache: says(Known::CacheControl, b"no-cache") || says(Known::Pragma, b"no-cache"),
            no_store: says(Known::CacheControl, b"no-store"),
        }
    }
}

/// Directives of responses that are not heeded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ignored {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) private: bool,
}

/// When the response expires, in seconds since 1970; `Ok(None)` if it does not say so.
///
/// # Errors
/// The response is not to be kept.
pub(super) fn expiry(response: &Response, ignored: Ignored, now: i64) -> Result<Option<i64>, NotToBeKept> {
    let mut expires = None;
    for value in response.fields.iter_known(Known::CacheControl) {
        let says = |directive: &[u8]| find(value, directive).is_some();
        if (says(b"private") && !ignored.private)
            || (says(b"no-store") && !ignored.no_store)
            || (says(b"no-cache") && !ignored.no_cache)
        {
            return Err(NotToBeKept);
        }
        if let Some(age) = find(value, b"max-age").filter(|_| expires.is_none()) {
            let seconds: i64 = std::str::from_utf8(age).ok().and_then(|age| age.parse().ok()).unwrap_or(0);
            if seconds <= 0 {
                return Err(NotToBeKept);
            }
            expires = Some(now.saturating_add(seconds));
        }
    }
    if let Some(value) = response.fields.get(Known::Expires).filter(|_| expires.is_none()) {
        match parse_http_date(value) {
            Some(time) if time > now => expires = Some(time),
            _ => return Err(NotToBeKept),
        }
    }
    Ok(expires)
}

/// A response that says it is not to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotToBeKept;

/// The argument of a directive in a list of them; empty if it has none.
fn find<'v>(value: &'v [u8], directive: &[u8]) -> Option<&'v [u8]> {
    value.split(|byte| matches!(byte, b',' | b';')).find_map(|part| {
        let part = part.trim_ascii();
        let (name, argument) = match memchr::memchr(b'=', part) {
            Some(at) => (part[..at].trim_ascii_end(), part[at + 1..].trim_ascii()),
            None => (part, &b""[..]),
        };
        name.eq_ignore_ascii_case(directive)
            .then(|| argument.strip_prefix(b"\"").unwrap_or(argument))
            .map(|argument| argument.strip_suffix(b"\"").unwrap_or(argument))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes() {
        #[track_caller]
        fn check(name: &str, value: &str, no_cache: bool, no_store: bool) {
            let mut fields = Fields::new();
            fields.append(name.as_bytes(), value.as_bytes());
            assert_eq!(Wish::of(&fields), Wish { no_cache, no_store }, "{name}: {value}");
        }
        check("Cache-Control", "no-cache", true, false);
        check("cache-control", "max-age=0, NO-CACHE , no-store", true, true);
        check("Cache-Control", "no-store", false, true);
        check("Pragma", "no-cache", true, false);
        check("Pragma", "no-store", false, false);
        check("Cache-Control", "x-no-cache", false, false);
        check("Cache-Control", "", false, false);
    }

    #[test]
    fn expiries() {
        #[track_caller]
        fn check(fields: &[(&str, &str)], ignored: Ignored, expected: Result<Option<i64>, NotToBeKept>) {
            let mut response = Response::default();
            fields.iter().for_each(|(name, value)| response.fields.append(name.as_bytes(), value.as_bytes()));
            assert_eq!(expiry(&response, ignored, 1_000_000_000), expected, "{fields:?}");
        }
        let none = Ignored::default();
        check(&[], none, Ok(None));
        check(&[("Cache-Control", "public, max-age=10")], none, Ok(Some(1_000_000_010)));
        check(&[("Cache-Control", "max-age=\"10\"")], none, Ok(Some(1_000_000_010)));
        check(&[("Cache-Control", "max-age=99999999999999999999")], none, Err(NotToBeKept));
        check(&[("Cache-Control", "max-age=9223372036854775807")], none, Ok(Some(i64::MAX)));
        for value in ["private", "no-store", "no-cache=\"x\"", "max-age=0", "max-age=x", "max-age", "max-age=-1"] {
            check(&[("Cache-Control", value)], none, Err(NotToBeKept));
        }
        check(&[("Cache-Control", "private")], Ignored { private: true, ..none }, Ok(None));
        check(&[("Cache-Control", "no-store")], Ignored { no_store: true, ..none }, Ok(None));
        check(&[("Cache-Control", "no-cache, max-age=1")], Ignored { no_cache: true, ..none }, Ok(Some(1_000_000_001)));
        check(&[("Expires", "Sun, 09 Sep 2001 01:46:41 GMT")], none, Ok(Some(1_000_000_001)));
        check(&[("Expires", "Sun, 09 Sep 2001 01:46:40 GMT")], none, Err(NotToBeKept));
        check(&[("Expires", "0")], none, Err(NotToBeKept));
        check(&[("Expires", "0"), ("Cache-Control", "max-age=5")], none, Ok(Some(1_000_000_005)));
    }
}
