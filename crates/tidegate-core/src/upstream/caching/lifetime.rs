//! For how long a response may be kept, by its own word.
//!
//! Source: nginx, `ngx_http_upstream_process_cache_control` and its neighbours; RFC 9111, RFC 5861.

use tidegate_http::{Known, ResponseHead, date::parse_http_date};

use super::status::AGE_SECS_MAX;
use crate::{cache::names_in, upstream::settings::Ignored};

/// Longest list of fields in `Vary`.
///
/// Source: nginx, `NGX_HTTP_CACHE_VARY_LEN`.
const VARY_BYTES_MAX: usize = 128;

/// What a response says of its own keeping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Lifetime {
    /// It must not be kept.
    pub(super) is_forbidden: bool,
    /// It is fresh until then, in seconds since 1970; nothing where it does not say.
    pub(super) valid_until: Option<u64>,
    /// That is the word of `X-Accel-Expires`.
    pub(super) is_own_word: bool,
    /// It may be served for so many seconds more while it is fetched anew.
    pub(super) updating_secs: u32,
    /// It may be served for so many seconds more when that fails.
    pub(super) error_secs: u32,
    /// The fields of requests that it depends on; empty for none.
    pub(super) vary: Vec<u8>,
}

impl Lifetime {
    /// Of the response with this head, which came `now`, but for the `ignored` fields.
    pub(super) fn of(head: &ResponseHead, ignored: Ignored, now: u64) -> Lifetime {
        let mut lifetime = Lifetime::default();
        let values =
            |known: Known, field: Ignored| head.fields.iter_known(known).filter(move |_| !ignored.contains(field));
        lifetime.is_forbidden = values(Known::SetCookie, Ignored::SET_COOKIE).next().is_some();
        let own_word = values(Known::XAccelExpires, Ignored::EXPIRES_HERE).next();
        let is_set = own_word.is_some_and(|value| lifetime.take_own_word(value, now));
        lifetime.is_own_word = is_set;
        let mut says_no = false;
        for value in values(Known::CacheControl, Ignored::CACHE_CONTROL) {
            says_no |= !lifetime.take_cache_control(value, is_set, now);
        }
        let expires = values(Known::Expires, Ignored::EXPIRES).next();
        if let Some(value) = expires.filter(|_| lifetime.valid_until.is_none()) {
            match parse_http_date(value).and_then(|time| u64::try_from(time).ok()) {
                Some(time) if time > now => lifetime.valid_until = Some(time),
                _ => says_no = true,
            }
        }
        lifetime.is_forbidden |= says_no && !is_set;
        for value in values(Known::Vary, Ignored::VARY) {
            lifetime.take_vary(value);
        }
        lifetime
    }

    /// The response was so old already when it came: it is fresh for so much less. What an upstream says to this
    /// server alone, and the rules of the configuration, count from now on.
    pub(super) fn grow_older(&mut self, age_secs: u64, now: u64) {
        if let Some(until) = self.valid_until.as_mut().filter(|_| !self.is_own_word) {
            // Ages are cut there, so lifetimes have to be.
            *until = (*until).min(now.saturating_add(AGE_SECS_MAX)).saturating_sub(age_secs);
            self.is_forbidden |= *until <= now;
        }
    }

    /// `X-Accel-Expires`: what an upstream says to this server alone, and more than what it says to all. Answers whether it
    /// gives a time.
    fn take_own_word(&mut self, value: &[u8], now: u64) -> bool {
        let (number, is_time) = match value.strip_prefix(b"@") {
            Some(time) => (time, true),
            None => (value, false),
        };
        match tidegate_conf::values::integer(number.into()) {
            Ok(time) if is_time => self.valid_until = Some(time),
            Ok(0) => self.is_forbidden = true,
            Ok(seconds) => self.valid_until = Some(now.saturating_add(seconds)),
            Err(_) => {}
        }
        self.valid_until.is_some()
    }

    /// `Cache-Control`; answers whether it allows the response to be kept.
    fn take_cache_control(&mut self, value: &[u8], is_set: bool, now: u64) -> bool {
        let text = value.to_ascii_lowercase();
        let has = |word: &[u8]| memchr::memmem::find(&text, word).is_some();
        if !is_set {
            if has(b"no-cache") || has(b"no-store") || has(b"private") {
                return false;
            }
            match seconds_of(&text, b"s-maxage=").or_else(|| seconds_of(&text, b"max-age=")) {
                None => {}
                Some(Ok(0)) => return false,
                Some(Ok(seconds)) => self.valid_until = Some(now.saturating_add(seconds)),
                Some(Err(NoNumber)) => {
                    self.is_forbidden = true;
                    return true;
                }
            }
        }
        let as_u32 = |seconds| u32::try_from(seconds).unwrap_or(u32::MAX);
        for (word, is_update) in [(&b"stale-while-revalidate="[..], true), (b"stale-if-error=", false)] {
            match seconds_of(&text, word) {
                None => {}
                Some(Ok(seconds)) if is_update => {
                    (self.updating_secs, self.error_secs) = (as_u32(seconds), as_u32(seconds))
                }
                Some(Ok(seconds)) => self.error_secs = as_u32(seconds),
                Some(Err(NoNumber)) => self.is_forbidden = true,
            }
        }
        true
    }

    fn take_vary(&mut self, value: &[u8]) {
        if !self.vary.is_empty() {
            self.vary.extend_from_slice(b", ");
        }
        self.vary.extend_from_slice(value);
        // A `*`, or something else that no field can be called, says nothing about which requests get the same response.
        let is_name =
            |name: &[u8]| name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'+^`|~".contains(byte));
        self.is_forbidden |= !names_in(value).all(is_name) || self.vary.len() > VARY_BYTES_MAX;
    }
}

/// It says something, but no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NoNumber;

/// The number behind `word`, if that stands in `text`.
fn seconds_of(text: &[u8], word: &[u8]) -> Option<Result<u64, NoNumber>> {
    let at = memchr::memmem::find(text, word)?;
    let mut number = 0u64;
    for byte in &text[at + word.len()..] {
        match byte {
            b',' | b';' | b' ' => break,
            b'0'..=b'9' => number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
            _ => return Some(Err(NoNumber)),
        }
    }
    Some(Ok(number))
}

#[cfg(test)]
mod tests {
    use tidegate_http::parse_response;

    use super::*;

    const NOW: u64 = 1_000_000_000; // Sun, 09 Sep 2001 01:46:40 GMT

    fn of(fields: &str, ignored: Ignored) -> Lifetime {
        let mut head = ResponseHead::new();
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", fields.replace("; ", "\r\n"));
        parse_response(text.as_bytes(), &mut head).expect("a head");
        Lifetime::of(&head, ignored, NOW)
    }

    #[track_caller]
    fn check(fields: &str, expected: Option<Option<u64>>) {
        let lifetime = of(fields, Ignored::default());
        let said = (!lifetime.is_forbidden).then(|| lifetime.valid_until.map(|until| until - NOW));
        assert_eq!(said, expected, "{fields}");
    }

    #[test]
    fn lifetimes() {
        check("A: b", Some(None));
        check("Set-Cookie: a=b", None);
        check("Cache-Control: max-age=5", Some(Some(5)));
        check("Cache-Control: Max-Age=5, public", Some(Some(5)));
        check("Cache-Control: max-age=5, s-maxage=7", Some(Some(7)));
        check("Cache-Control: max-age=0", None);
        check("Cache-Control: max-age=5x", None);
        check("Cache-Control: max-age=99999999999999999999999", Some(Some(u64::MAX - NOW)));
        check("Cache-Control: no-cache", None);
        check("Cache-Control: public; Cache-Control: private", None);
        check("Cache-Control: max-age=5; Cache-Control: no-store", None);
        check("Expires: Sun, 09 Sep 2001 01:46:50 GMT", Some(Some(10)));
        check("Expires: Sun, 09 Sep 2001 01:46:39 GMT", None);
        // nginx keeps this one until the second is over.
        check("Expires: Sun, 09 Sep 2001 01:46:40 GMT", None);
        check("Expires: 0", None);
        check("Expires: 0; Cache-Control: max-age=5", Some(Some(5)));
        check("Cache-Control: max-age=0; Expires: Sun, 09 Sep 2001 01:46:50 GMT", None);
        check("X-Accel-Expires: 3; Cache-Control: no-cache; Expires: 0", Some(Some(3)));
        check("Cache-Control: max-age=9; X-Accel-Expires: 3", Some(Some(3)));
        check("X-Accel-Expires: @1000000007", Some(Some(7)));
        check("X-Accel-Expires: 0; Cache-Control: max-age=5", None);
        check("X-Accel-Expires: soon; Cache-Control: max-age=5", Some(Some(5)));
        check("X-Accel-Expires: 3; Set-Cookie: a=b", None);
        check("Vary: *", None);
        check("Vary: Accept; Vary: Cookie, *", None);
        check("Vary: Accept *", None);
        check("Vary: Accept Cookie,\tX-A_b", Some(None));
        check("Vary: \"Accept\"", None);
        check("Vary: Accept=1", None);
        check("Vary: Acc\u{e9}pt", None);
        check(&format!("Vary: {}", "x".repeat(129)), None);
    }

    #[test]
    fn ages_count_against_lifetimes() {
        #[track_caller]
        fn check(fields: &str, age_secs: u64, expected: Option<u64>) {
            let mut lifetime = of(fields, Ignored::default());
            lifetime.grow_older(age_secs, NOW);
            let left = (!lifetime.is_forbidden).then(|| lifetime.valid_until.map(|until| until - NOW)).flatten();
            assert_eq!(left, expected, "{fields}");
        }
        check("Cache-Control: max-age=5", 3, Some(2));
        check("Cache-Control: max-age=5", 5, None);
        check("X-Accel-Expires: 5", 7, Some(5));
        check("Cache-Control: max-age=4294967295", 0, Some(AGE_SECS_MAX));
        check("Cache-Control: max-age=4294967295", AGE_SECS_MAX, None);
    }

    #[test]
    fn ignored_fields_say_nothing() {
        #[track_caller]
        fn check(fields: &str, ignored: Ignored) {
            assert_eq!(of(fields, ignored), Lifetime::default(), "{fields}");
        }
        check("Set-Cookie: a=b", Ignored::SET_COOKIE);
        check("Cache-Control: no-cache", Ignored::CACHE_CONTROL);
        check("Expires: 0", Ignored::EXPIRES);
        check("X-Accel-Expires: 0", Ignored::EXPIRES_HERE);
        check("Vary: *", Ignored::VARY);
    }

    #[test]
    fn stale_times_and_fields_to_vary_by() {
        let lifetime = of("Cache-Control: max-age=1, stale-while-revalidate=20, stale-if-error=30", Ignored::default());
        assert_eq!((lifetime.updating_secs, lifetime.error_secs), (20, 30));
        let lifetime = of("Cache-Control: max-age=1, stale-while-revalidate=20", Ignored::default());
        assert_eq!((lifetime.updating_secs, lifetime.error_secs), (20, 20));
        let lifetime = of("X-Accel-Expires: 5; Cache-Control: no-cache, stale-if-error=30", Ignored::default());
        assert_eq!((lifetime.is_forbidden, lifetime.error_secs), (false, 30));
        assert_eq!(of("Vary: Accept; Vary: Cookie", Ignored::default()).vary, b"Accept, Cookie");
    }
}
