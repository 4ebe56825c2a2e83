//! What is remembered of the status of clients' certificates: `ssl_ocsp_cache`.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use lru::LruCache;
use tidegate_tls::ocsp::{Answer, Status, Subject};

use crate::responder::Responder;

/// Answers that a megabyte is for.
const ANSWERS_IN_A_MEGABYTE: u64 = 4000;

/// How long an answer counts that does not say when there will be a new one, in seconds.
///
/// Source: nginx, `ngx_ssl_ocsp_cache_store`.
const SECONDS_DEFAULT: i64 = 3600;

/// All that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) subject: Subject,
    pub(crate) responder: Responder,
}

/// Answers that all workers share, those used least lately the first to go.
#[derive(Debug)]
pub struct Cache {
    answers: Mutex<LruCache<Key, (Status, i64)>>,
}

impl Cache {
    /// The cache of this name and size, which goes on over a reload.
    pub fn shared(name: &[u8], bytes: u64) -> Arc<Self> {
        type Named = (Vec<u8>, u64, Weak<Cache>);
        static KNOWN: Mutex<Vec<Named>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, _, cache)| cache.strong_count() > 0);
        let same = |(other, size, _): &&Named| other == name && *size == bytes;
        if let Some(cache) = known.iter().find(same).and_then(|(_, _, cache)| cache.upgrade()) {
            return cache;
        }
        let cache = Arc::new(Self::of_size(bytes));
        known.push((name.to_vec(), bytes, Arc::downgrade(&cache)));
        cache
    }

    fn of_size(bytes: u64) -> Self {
        let answers = usize::try_from(bytes.saturating_mul(ANSWERS_IN_A_MEGABYTE) >> 20).unwrap_or(usize::MAX);
        let mut cache = LruCache::unbounded();
        cache.resize(NonZeroUsize::new(answers).unwrap_or(NonZeroUsize::MIN));
        Self { answers: Mutex::new(cache) }
    }

    fn answers(&self) -> MutexGuard<'_, LruCache<Key, (Status, i64)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was answered, if that still counts at a time in seconds since 1970.
    pub(crate) fn find(&self, key: &Key, now: i64) -> Option<Status> {
        let mut answers = self.answers();
        let (status, until) = *answers.get(key)?;
        if now > until {
            answers.pop(key);
            return None;
        }
        Some(status)
    }

    /// Remembers an answer that came at a time in seconds since 1970.
    pub(crate) fn store(&self, key: Key, answer: Answer, now: i64) {
        let until = answer.next_update.unwrap_or(now + SECONDS_DEFAULT);
        if until >= now {
            self.answers().put(key, (answer.status, until));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &[u8] = include_bytes!("../../tidegate-tls/tests/ocsp/ca.der");
    const LEAF: &[u8] = include_bytes!("../../tidegate-tls/tests/ocsp/leaf.der");

    fn key(responder: usize) -> Key {
        let responder = Responder::parse(format!("http://{responder}.test/").as_bytes()).expect("an address");
        Key { subject: Subject::new(LEAF, CA).expect("certificates"), responder }
    }

    #[test]
    fn answers_count_for_their_time_and_their_responder() {
        let cache = Cache::of_size(32 << 10);
        cache.store(key(0), Answer { status: Status::Revoked, next_update: Some(20) }, 10);
        assert_eq!(cache.find(&key(0), 20), Some(Status::Revoked));
        assert_eq!(cache.find(&key(1), 20), None);
        assert_eq!(cache.find(&key(0), 21), None);
        assert_eq!(cache.find(&key(0), 20), None, "it has gone");
        cache.store(key(0), Answer { status: Status::Good, next_update: None }, 10);
        assert_eq!(cache.find(&key(0), 10 + SECONDS_DEFAULT), Some(Status::Good));
        cache.store(key(1), Answer { status: Status::Good, next_update: Some(9) }, 10);
        assert_eq!(cache.find(&key(1), 9), None, "too late already");
    }

    #[test]
    fn a_cache_is_bounded() {
        let cache = Cache::of_size(1 << 20);
        for responder in 0..5000 {
            cache.store(key(responder), Answer { status: Status::Good, next_update: None }, 0);
        }
        assert_eq!(cache.answers().len(), 4000);
        assert_eq!((cache.find(&key(0), 0), cache.find(&key(4999), 0)), (None, Some(Status::Good)));
    }

    #[test]
    fn caches_go_by_name_and_size() {
        let first = Cache::shared(b"one", 1 << 20);
        assert!(Arc::ptr_eq(&first, &Cache::shared(b"one", 1 << 20)));
        assert!(!Arc::ptr_eq(&first, &Cache::shared(b"one", 2 << 20)));
        assert!(!Arc::ptr_eq(&first, &Cache::shared(b"two", 1 << 20)));
    }
}
