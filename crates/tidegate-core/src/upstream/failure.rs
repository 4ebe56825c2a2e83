//! How a try fails, and whether another peer is asked then.
//!
//! Source: nginx, `ngx_http_upstream_next`, `ngx_http_upstream_test_next`.

use tidegate_http::Method;

/// The kinds of failure of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or it broke.
    Error,
    /// It took too long.
    Timeout,
    /// The answer's head makes no sense.
    InvalidHeader,
    /// The peer answered with a status that is taken for a failure.
    Status(u16),
}

/// Kinds of failures, as `proxy_next_upstream` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures(pub u32);

const ERROR: u32 = 1;
const TIMEOUT: u32 = 2;
const INVALID_HEADER: u32 = 4;
const HTTP_500: u32 = 8;
const HTTP_502: u32 = 16;
const HTTP_503: u32 = 32;
const HTTP_504: u32 = 64;
const HTTP_403: u32 = 128;
const HTTP_404: u32 = 256;
const HTTP_429: u32 = 512;
const NON_IDEMPOTENT: u32 = 1024;
const OFF: u32 = 2048;
const UPDATING: u32 = 4096;

impl Failures {
    /// Words for a protocol whose answers are HTTP's.
    pub const HTTP_WORDS: &'static [(&'static str, Failures)] = &[
        ("error", Failures(ERROR)),
        ("timeout", Failures(TIMEOUT)),
        ("invalid_header", Failures(INVALID_HEADER)),
        ("non_idempotent", Failures(NON_IDEMPOTENT)),
        ("http_500", Failures(HTTP_500)),
        ("http_502", Failures(HTTP_502)),
        ("http_503", Failures(HTTP_503)),
        ("http_504", Failures(HTTP_504)),
        ("http_403", Failures(HTTP_403)),
        ("http_404", Failures(HTTP_404)),
        ("http_429", Failures(HTTP_429)),
        ("off", Failures(OFF)),
    ];

    /// Words for programs behind a gateway: what a gateway itself says (502, 504) is none of theirs.
    pub const CGI_WORDS: &'static [(&'static str, Failures)] = &[
        ("error", Failures(ERROR)),
        ("timeout", Failures(TIMEOUT)),
        ("invalid_header", Failures(INVALID_HEADER)),
        ("non_idempotent", Failures(NON_IDEMPOTENT)),
        ("http_500", Failures(HTTP_500)),
        ("http_503", Failures(HTTP_503)),
        ("http_403", Failures(HTTP_403)),
        ("http_404", Failures(HTTP_404)),
        ("http_429", Failures(HTTP_429)),
        ("off", Failures(OFF)),
    ];

    /// Words for stores of values: an answer that makes no sense, and a key that is not there.
    ///
    /// Source: nginx, `ngx_http_memcached_next_upstream_masks`.
    pub const STORE_WORDS: &'static [(&'static str, Failures)] = &[
        ("error", Failures(ERROR)),
        ("timeout", Failures(TIMEOUT)),
        ("invalid_response", Failures(INVALID_HEADER)),
        ("not_found", Failures(HTTP_404)),
        ("off", Failures(OFF)),
    ];

    /// Words for protocols whose answers are rows.
    pub const ROW_WORDS: &'static [(&'static str, Failures)] = &[
        ("error", Failures(ERROR)),
        ("timeout", Failures(TIMEOUT)),
        ("invalid_response", Failures(INVALID_HEADER)),
        ("non_idempotent", Failures(NON_IDEMPOTENT)),
        ("off", Failures(OFF)),
    ];

    /// `error timeout`
    pub const DEFAULT: Failures = Failures(ERROR | TIMEOUT);

    /// None.
    pub const NONE: Failures = Failures(0);

    /// A request that changes things may be sent twice.
    pub const NON_IDEMPOTENT: Failures = Failures(NON_IDEMPOTENT);

    /// No failure: another request is fetching the response anew (`…_cache_use_stale`).
    pub const UPDATING: Failures = Failures(UPDATING);

    /// These and others.
    pub fn and(self, other: Failures) -> Failures {
        Failures(self.0 | other.0)
    }

    /// Whether another peer may be asked after this failure. A request that was `sent` and changes things is not sent twice
    /// unless the configuration says so.
    pub fn allow(self, failure: Failure, sent: bool, is_repeatable: bool) -> bool {
        let mut wanted = failure.bit();
        if wanted == 0 {
            return false;
        }
        if sent && !is_repeatable {
            wanted |= NON_IDEMPOTENT;
        }
        self.0 & OFF == 0 && self.0 & wanted == wanted
    }

    /// Whether this failure is one of these.
    pub(super) fn covers(self, failure: Failure) -> bool {
        self.0 & OFF == 0 && self.0 & failure.bit() != 0
    }

    /// Whether all of `others` are among these.
    pub(super) fn contains(self, others: Failures) -> bool {
        self.0 & OFF == 0 && self.0 & others.0 == others.0
    }
}

/// Whether sending a request twice is the same as sending it once, as nginx sees it.
pub fn is_repeatable(method: Method) -> bool {
    !matches!(method, Method::Post | Method::Lock | Method::Patch)
}

impl Failure {
    fn bit(self) -> u32 {
        match self {
            Failure::Error => ERROR,
            Failure::Timeout => TIMEOUT,
            Failure::InvalidHeader => INVALID_HEADER,
            Failure::Status(500) => HTTP_500,
            Failure::Status(502) => HTTP_502,
            Failure::Status(503) => HTTP_503,
            Failure::Status(504) => HTTP_504,
            Failure::Status(403) => HTTP_403,
            Failure::Status(404) => HTTP_404,
            Failure::Status(429) => HTTP_429,
            Failure::Status(_) => 0,
        }
    }

    /// The status that the client gets when nobody else can be asked.
    pub fn status(self) -> u16 {
        match self {
            Failure::Error | Failure::InvalidHeader => 502,
            Failure::Timeout => 504,
            Failure::Status(status) => status,
        }
    }
    /// nginx's number for it, which its debug log shows.
    ///
    /// Source: nginx, `NGX_HTTP_UPSTREAM_FT_ERROR` and its kin.
    pub(super) fn number(self) -> u32 {
        match self {
            Failure::Error => 0x2,
            Failure::Timeout => 0x4,
            Failure::InvalidHeader => 0x8,
            Failure::Status(500) => 0x10,
            Failure::Status(502) => 0x20,
            Failure::Status(503) => 0x40,
            Failure::Status(504) => 0x80,
            Failure::Status(403) => 0x100,
            Failure::Status(404) => 0x200,
            Failure::Status(429) => 0x400,
            Failure::Status(_) => 0,
        }
    }
    /// Whether it says something about the peer's health.
    pub fn is_peers_fault(self) -> bool {
        !matches!(self, Failure::Status(403 | 404))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], failure: Failure, sent: bool, method: Method, expected: bool) {
        let set = Failures::HTTP_WORDS.iter().filter(|(word, _)| words.contains(word));
        let set = set.fold(Failures(0), |set, (_, failures)| set.and(*failures));
        assert_eq!(set.allow(failure, sent, is_repeatable(method)), expected, "{words:?} {failure:?}");
    }

    #[test]
    fn allows() {
        check(&["error"], Failure::Error, false, Method::Post, true);
        check(&["error"], Failure::Error, true, Method::Get, true);
        check(&["error"], Failure::Error, true, Method::Post, false);
        check(&["error", "non_idempotent"], Failure::Error, true, Method::Post, true);
        check(&["error", "off"], Failure::Error, false, Method::Get, false);
        check(&["error"], Failure::Timeout, false, Method::Get, false);
        check(&["http_503"], Failure::Status(503), true, Method::Get, true);
        check(&["http_503"], Failure::Status(500), true, Method::Get, false);
        check(&["http_503"], Failure::Status(418), true, Method::Get, false);
    }
}
