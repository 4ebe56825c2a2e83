//! What a response says of the cache: `Cache-Status` (`…_cache_status`), `Age` (`…_cache_rfc9111`).
//!
//! Source: RFC 9211; RFC 9111, sections 4.2.3 and 5.1.

use std::io::Write;

use tidegate_http::{Known, ResponseHead};

use crate::{
    cache::{Times, unix_now},
    upstream::{
        exchange::{Exchange, Protocol},
        record::{CacheStatus, Record},
    },
};

/// The largest age that is told apart from larger ones.
///
/// Source: RFC 9111, section 1.2.2.
pub(super) const AGE_SECS_MAX: u64 = 1 << 31;

/// For how many seconds caches have had a response before it came here: the first of its values of `Age`; 0 where that is no
/// number.
pub(super) fn age_secs(head: &ResponseHead) -> u64 {
    let Some(value) = head.fields.get(Known::Age) else { return 0 };
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    let mut digits = first.iter().map(|byte| char::from(*byte).to_digit(10));
    let number = digits.try_fold(0u64, |number, digit| Some((number * 10 + u64::from(digit?)).min(AGE_SECS_MAX)));
    number.unwrap_or(0)
}

/// How a cache is called in `Cache-Status`: a token as it is, anything else in quotes. Nothing for what cannot be written there.
///
/// Source: RFC 9211, section 2; RFC 8941, sections 3.3.3 and 3.3.4.
pub(super) fn written_name(name: &[u8]) -> Option<Vec<u8>> {
    let is_token_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte);
    if name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'*') && name.iter().all(is_token_char) {
        return Some(name.to_vec());
    }
    let is_printable = !name.is_empty() && name.iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_printable.then(|| {
        let mut quoted = vec![b'"'];
        for byte in name {
            if matches!(byte, b'"' | b'\\') {
                quoted.push(b'\\');
            }
            quoted.push(*byte);
        }
        quoted.push(b'"');
        quoted
    })
}

/// What there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    status: Option<CacheStatus>,
    /// The response comes out of the cache.
    is_stored: bool,
    /// The upstream has answered with this status, which is not the response's.
    forwarded: Option<u16>,
    /// The upstream was asked.
    is_forwarded: bool,
    /// The entry that leads to the variants is there, but not the variant.
    lacks_variant: bool,
    /// Another request asked the upstream meanwhile, and this one waited for it.
    is_collapsed: bool,
    /// Until when the entry is fresh, in seconds from now on.
    ttl_secs: Option<i64>,
}

impl Told {
    fn write(self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        let is_hit = self.is_stored && !self.is_forwarded && !self.is_collapsed;
        let why = match self.status {
            _ if is_hit => "; hit",
            None => "; fwd=method",
            Some(CacheStatus::Bypass) => "; fwd=bypass",
            Some(CacheStatus::Expired | CacheStatus::Stale | CacheStatus::Revalidated) => "; fwd=stale",
            Some(CacheStatus::Miss | CacheStatus::Hit | CacheStatus::Updating) if self.lacks_variant => {
                "; fwd=vary-miss"
            }
            Some(CacheStatus::Miss | CacheStatus::Hit | CacheStatus::Updating) => "; fwd=uri-miss",
        };
        out.extend_from_slice(why.as_bytes());
        // A vector takes everything.
        if let Some(status) = self.forwarded {
            let _ = write!(out, "; fwd-status={status}");
        }
        if !self.is_stored && self.ttl_secs.is_some() {
            out.extend_from_slice(b"; stored");
        }
        if self.is_collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(ttl_secs) = self.ttl_secs {
            let _ = write!(out, "; ttl={ttl_secs}");
        }
    }
}

impl<P: Protocol> Exchange<'_, P> {
    /// Tells the client where the response comes from, and how old it is, as far as the configuration wants that. `times` are
    /// those of the entry that it comes from or becomes.
    pub(in crate::upstream) fn tell_cache(&self, times: Option<Times>) {
        let Some(rules) = &self.settings.cache else { return };
        let now = unix_now();
        if let (true, true, Some(times)) = (rules.follows_rfc, self.is_stored, times) {
            let age = now.saturating_sub(times.stored_at).min(AGE_SECS_MAX);
            self.req.response.borrow_mut().fields.set_known(Known::Age, itoa::Buffer::new().format(age).as_bytes());
        }
        let Some(name) = &rules.status_name else { return };
        let told = self.req.upstream_record(|record| self.told(record, times, now));
        if let Some(told) = told {
            let mut value = Vec::new();
            told.write(name, &mut value);
            self.req.response.borrow_mut().fields.append(b"Cache-Status", &value);
        }
    }

    fn told(&self, record: &Record, times: Option<Times>, now: u64) -> Told {
        let note = &record.cache;
        let last = record.tries.get(note.tries_before..).and_then(<[_]>::last);
        let forwarded = last.filter(|last| self.is_stored && last.header_ms.is_some()).map(|last| last.status);
        Told {
            status: note.status,
            is_stored: self.is_stored,
            forwarded,
            is_forwarded: last.is_some(),
            lacks_variant: note.lacks_variant,
            is_collapsed: note.is_collapsed,
            ttl_secs: times
                .map(|times| i64::try_from(times.valid_until).unwrap_or(i64::MAX).saturating_sub_unsigned(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_http::parse_response;

    use super::*;

    #[test]
    fn ages() {
        #[track_caller]
        fn check(fields: &str, expected: u64) {
            let mut head = ResponseHead::new();
            parse_response(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(), &mut head).expect("a head");
            assert_eq!(age_secs(&head), expected, "{fields}");
        }
        check("A: b", 0);
        check("Age: 7", 7);
        check("Age:  7 , 9", 7);
        for bad in ["", "x", "-7", "7.0", "7;a=b", "7 9", ","] {
            check(&format!("Age: {bad}"), 0);
        }
        check("Age: 99999999999999999999999999", 1 << 31);
    }

    #[test]
    fn names() {
        #[track_caller]
        fn check(name: &[u8], expected: Option<&str>) {
            assert_eq!(written_name(name).map(|name| String::from_utf8(name).expect("ASCII")).as_deref(), expected);
        }
        check(b"edge-1.example:80", Some("edge-1.example:80"));
        check(b"*", Some("*"));
        check(b"1", Some("\"1\""));
        check(b"a \"b\" \\", Some("\"a \\\"b\\\" \\\\\""));
        check(b"", None);
        check(b"a\n", None);
        check("ä".as_bytes(), None);
    }

    #[test]
    fn members() {
        #[track_caller]
        fn check(told: Told, expected: &str) {
            let mut text = Vec::new();
            told.write(b"t", &mut text);
            assert_eq!(String::from_utf8_lossy(&text), expected);
        }
        let miss = Told {
            status: Some(CacheStatus::Miss),
            is_stored: false,
            forwarded: None,
            is_forwarded: true,
            lacks_variant: false,
            is_collapsed: false,
            ttl_secs: None,
        };
        check(miss, "t; fwd=uri-miss");
        check(Told { ttl_secs: Some(9), ..miss }, "t; fwd=uri-miss; stored; ttl=9");
        check(Told { lacks_variant: true, is_collapsed: true, ..miss }, "t; fwd=vary-miss; collapsed");
        check(Told { status: Some(CacheStatus::Bypass), ..miss }, "t; fwd=bypass");
        check(Told { status: None, ..miss }, "t; fwd=method");
        let hit =
            Told { status: Some(CacheStatus::Hit), is_stored: true, is_forwarded: false, ttl_secs: Some(5), ..miss };
        check(hit, "t; hit; ttl=5");
        check(Told { is_collapsed: true, ..hit }, "t; fwd=uri-miss; collapsed; ttl=5");
        check(Told { status: Some(CacheStatus::Updating), ttl_secs: Some(-3), ..hit }, "t; hit; ttl=-3");
        let stale = Told { is_forwarded: true, ttl_secs: Some(-3), ..hit };
        let failed = Told { status: Some(CacheStatus::Stale), forwarded: Some(503), ..stale };
        check(failed, "t; fwd=stale; fwd-status=503; ttl=-3");
        check(Told { forwarded: None, ..failed }, "t; fwd=stale; ttl=-3");
        check(Told { status: Some(CacheStatus::Expired), is_stored: false, ..stale }, "t; fwd=stale; stored; ttl=-3");
    }
}
