//! An authority that wants to be asked later says so by the status 429 or 503 and `Retry-After`.
//!
//! 429 is about what was asked for: the certificate waits for which it was asked, and no other. 503 is about the authority: nobody asks
//! it anything until the time has come.
//!
//! Source: RFC 8555, section 6.6; RFC 9110, section 10.2.3.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use hyper::{HeaderMap, StatusCode, header::RETRY_AFTER};
use serde_json::Value;

/// Longest wait that an authority can ask for: eight days. The longest one that Let's Encrypt has is about a week.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(691_200);

/// The authority wants to be asked later; then there may be an answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the authority wants to be asked later ({status}{detail})")]
pub(crate) struct Later {
    status: StatusCode,
    /// What the authority says of it, behind a colon, if it says anything.
    detail: String,
    until: Instant,
}

impl Later {
    /// What a response says, if it is such a one.
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap, content: &[u8]) -> Option<Self> {
        if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return None;
        }
        let until = Instant::now() + wait(headers, SystemTime::now())?;
        let problem = serde_json::from_slice::<Value>(content).ok();
        let detail = problem.as_ref().and_then(|problem| problem.get("detail")?.as_str());
        let detail = detail.map(|detail| format!(": {}", detail.escape_debug())).unwrap_or_default();
        Some(Self { status, detail, until })
    }

    /// How long that is from now.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// How long `Retry-After` says to wait, [`WAIT_MAX`] at most.
pub(crate) fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a long time.
        text.parse().map_or(WAIT_MAX, Duration::from_secs)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(WAIT_MAX))
}

/// What an authority that is busy has said to all who ask it by the same account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patience(Arc<Mutex<Option<Later>>>);

impl Patience {
    /// Takes note of what a response has said.
    pub(crate) fn note(&self, later: &Later) {
        if later.status == StatusCode::SERVICE_UNAVAILABLE {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(later.clone());
        }
    }
    /// Why the authority is not to be asked now, if it is not.
    pub(crate) fn reason(&self) -> Option<Later> {
        let later = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        later.clone().filter(|later| later.left() > Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().expect("a value"));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_700);
        assert_eq!(wait(&headers, now).map(|wait| wait.as_secs()), expected, "{text}");
    }

    #[test]
    fn waits_are_seconds_or_dates() {
        check("120", Some(120));
        check(" 0 ", Some(0));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(77));
        check("Sun, 06 Nov 1993 08:49:37 GMT", None);
        check("Sat, 06 Nov 1993 08:49:37 GMT", Some(0));
        check("18446744073709551616", Some(WAIT_MAX.as_secs()));
        check("18446744073709551615", Some(WAIT_MAX.as_secs()));
        for nothing in ["", "-1", "+1", "soon", "1.5"] {
            check(nothing, None);
        }
        assert_eq!(wait(&HeaderMap::new(), SystemTime::now()), None);
    }

    #[test]
    fn a_busy_authority_is_asked_nothing() {
        let mut headers = HeaderMap::new();
        assert!(Later::of(StatusCode::SERVICE_UNAVAILABLE, &headers, b"").is_none());
        headers.insert(RETRY_AFTER, "60".parse().expect("a value"));
        assert!(Later::of(StatusCode::BAD_REQUEST, &headers, b"").is_none());
        let patience = Patience::default();
        let too_many = Later::of(StatusCode::TOO_MANY_REQUESTS, &headers, br#"{"detail":"one\ntwo"}"#).expect("a wait");
        assert_eq!(too_many.to_string(), "the authority wants to be asked later (429 Too Many Requests: one\\ntwo)");
        patience.note(&too_many);
        assert!(patience.reason().is_none());
        patience.note(&Later::of(StatusCode::SERVICE_UNAVAILABLE, &headers, b"<html>").expect("a wait"));
        assert!(patience.reason().is_some_and(|later| later.left() > Duration::from_secs(50)));
    }
}
