//! The status of a certificate of ours: what was fetched last, and until when it is shown.
//!
//! A configuration that asks the same question as the one before it has the same staple, so that a reload loses nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use tidegate_tls::ocsp::{OcspError, Signers, Subject};

use crate::responder::{FetchError, Responder, Way};

/// Pauses between two answers are at least and at most so long, in seconds.
///
/// Source: nginx, `ngx_ssl_stapling_ocsp_handler`.
const REFRESH_SECONDS_MIN: i64 = 300;
const REFRESH_SECONDS_MAX: i64 = 3600;

/// What is asked, and whose word counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The certificate.
    pub subject: Subject,
    /// Who is asked.
    pub responder: Responder,
    /// Who may have signed the answer.
    pub signers: Signers,
}

/// The status of a certificate of ours.
#[derive(Debug)]
pub struct Staple {
    question: Question,
    way: Way,
    /// What the log calls the certificate.
    name: String,
    shown: RwLock<Option<Shown>>,
    is_kept: AtomicBool,
}

/// An answer that was good.
#[derive(Debug, Clone)]
struct Shown {
    response: Arc<Vec<u8>>,
    /// Last second that it is shown, since 1970.
    until: i64,
    /// When it is to be fetched again, in seconds since 1970.
    refresh: i64,
}

/// Why there is no new answer to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefreshError {
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("{0}")]
    Answer(#[from] OcspError),
}

impl Shown {
    fn new(response: Vec<u8>, next_update: Option<i64>, now: i64) -> Self {
        let until = next_update.unwrap_or(i64::MAX);
        let refresh = (until - REFRESH_SECONDS_MIN).min(now + REFRESH_SECONDS_MAX).max(now + REFRESH_SECONDS_MIN);
        Self { response: Arc::new(response), until, refresh }
    }
}

impl Staple {
    /// The staple of `question`, which all who ask it in the same way share. `name` is for the log.
    ///
    /// What another one has that asks the same in another way is taken over.
    pub fn shared(question: Question, way: Way, name: String) -> Arc<Self> {
        static KNOWN: Mutex<Option<HashMap<Question, Vec<Weak<Staple>>>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        let of_question = known.entry(question.clone()).or_default();
        of_question.retain(|staple| staple.strong_count() > 0);
        let alive: Vec<Arc<Self>> = of_question.iter().filter_map(Weak::upgrade).collect();
        if let Some(same) = alive.iter().find(|staple| staple.way.is_same(&way)) {
            return same.clone();
        }
        let shown = alive.iter().find_map(|staple| staple.shown());
        let staple = Arc::new(Self { question, way, name, shown: RwLock::new(shown), is_kept: AtomicBool::new(false) });
        of_question.push(Arc::downgrade(&staple));
        // What no configuration has any more goes when the table has doubled.
        if known.len().is_power_of_two() {
            known.retain(|_, staples| staples.iter().any(|staple| staple.strong_count() > 0));
        }
        staple
    }

    /// The answer to show at a time in seconds since 1970.
    pub fn current(&self, now: i64) -> Option<Arc<Vec<u8>>> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        shown.as_ref().filter(|shown| now <= shown.until).map(|shown| shown.response.clone())
    }

    fn shown(&self) -> Option<Shown> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the caller is the first to look after it.
    pub(crate) fn begin_keeping(&self) -> bool {
        !self.is_kept.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn responder(&self) -> &Responder {
        &self.question.responder
    }

    /// When it is to be fetched again, in seconds since 1970.
    pub(crate) fn due(&self) -> i64 {
        self.shown().map_or(0, |shown| shown.refresh)
    }

    /// Fetches an answer and shows it. One that is not good changes nothing.
    pub(crate) async fn refresh(&self, now: impl Fn() -> i64) -> Result<(), RefreshError> {
        let Question { subject, responder, signers } = &self.question;
        let response = responder.fetch(&subject.request(), &self.way).await?;
        let good = subject.answer(&response, now(), *signers)?.good()?;
        let shown = Shown::new(response, good.next_update, now());
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &[u8] = include_bytes!("../../tidegate-tls/tests/ocsp/ca.der");
    const LEAF: &[u8] = include_bytes!("../../tidegate-tls/tests/ocsp/leaf.der");

    #[test]
    fn answers_are_fetched_again_before_they_end() {
        let refresh = |next_update| Shown::new(Vec::new(), next_update, 10_000).refresh;
        assert_eq!(refresh(None), 13_600);
        assert_eq!(refresh(Some(1_000_000)), 13_600);
        assert_eq!(refresh(Some(12_000)), 11_700);
        assert_eq!(refresh(Some(10_001)), 10_300);
        assert_eq!(refresh(Some(1)), 10_300);
    }

    fn staple(responder: &[u8], resolver_timeout_s: u64) -> Arc<Staple> {
        let responder = Responder::parse(responder).expect("an address");
        let subject = Subject::new(LEAF, CA).expect("certificates");
        let way = Way { resolver: None, resolver_timeout: std::time::Duration::from_secs(resolver_timeout_s) };
        Staple::shared(Question { subject, responder, signers: Signers::Issuer }, way, "leaf.crt".to_owned())
    }

    #[test]
    fn the_same_question_has_the_same_answer() {
        let first = staple(b"http://a/", 1);
        assert!(Arc::ptr_eq(&first, &staple(b"http://a", 1)), "a reload");
        *first.shown.write().expect("no panic") = Some(Shown::new(b"good".to_vec(), Some(20), 10));
        // Asked in another way: what was told counts, who tells it next is another matter.
        let other_way = staple(b"http://a", 2);
        assert!(!Arc::ptr_eq(&first, &other_way));
        assert_eq!(other_way.current(20).as_deref().map(Vec::as_slice), Some(&b"good"[..]));
        assert_eq!(other_way.current(21), None, "out of date");
        // Whom another responder would have told something else gets nothing of this one.
        assert_eq!(staple(b"http://b", 1).current(10), None);
        drop((first, other_way));
        assert_eq!(staple(b"http://a", 1).current(10), None, "no configuration had it");
    }
}
