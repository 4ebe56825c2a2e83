//! Sessions that somebody else keeps: who does is asked before a handshake, and told after it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::server::StoresServerSessions;

/// What a serialized session begins with, so that other bytes are not taken for one.
const MAGIC: &[u8] = b"TGS1";

/// The sessions of one handshake: one that was found for it, and those that it makes.
#[derive(Debug)]
pub struct HandshakeSessions {
    found: Mutex<Option<Vec<u8>>>,
    made: Mutex<Vec<Made>>,
    below: Arc<dyn StoresServerSessions>,
}

/// A session that a handshake has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub id: Vec<u8>,
    /// Its content, as [`HandshakeSessions::new`] takes it. It is secret.
    pub serialized: Vec<u8>,
}

/// Whether bytes are a session as [`Made::serialized`] has it.
pub fn is_serialized(bytes: &[u8]) -> bool {
    bytes.len() > MAGIC.len() && bytes.starts_with(MAGIC)
}

impl HandshakeSessions {
    /// `found` is a serialized session, that of the name by which the client asks; others are in `below`.
    pub fn new(found: Option<Vec<u8>>, below: Arc<dyn StoresServerSessions>) -> Arc<Self> {
        let found = found.filter(|bytes| is_serialized(bytes)).map(|bytes| bytes[MAGIC.len()..].to_vec());
        Arc::new(Self { found: Mutex::new(found), made: Mutex::default(), below })
    }

    /// Takes the sessions that were made.
    pub fn take_made(&self) -> Vec<Made> {
        std::mem::take(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_found(&self) -> Option<Vec<u8>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Sessions that are good for some time only, in memory that others may share.
#[derive(Debug)]
pub struct TimedSessions {
    below: Arc<dyn StoresServerSessions>,
    lifetime: Duration,
}

/// Bytes of the time that stands ahead of a session.
const TIME_BYTES: usize = 8;

impl TimedSessions {
    /// Sessions that are put here are good for `lifetime`. All that share `below` have to be such.
    pub fn new(below: Arc<dyn StoresServerSessions>, lifetime: Duration) -> Self {
        Self { below, lifetime }
    }

    fn put_at(&self, now: Duration, id: Vec<u8>, session: &[u8]) -> bool {
        let until = now.saturating_add(self.lifetime).as_secs();
        self.below.put(id, [&until.to_be_bytes(), session].concat())
    }
}

/// The session in `timed`, if it is good at a time since 1970.
fn still_good(mut timed: Vec<u8>, now: Duration) -> Option<Vec<u8>> {
    let until = u64::from_be_bytes(*timed.first_chunk()?);
    (now.as_secs() <= until).then(|| timed.split_off(TIME_BYTES))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl StoresServerSessions for TimedSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.put_at(now(), id, &session)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        still_good(self.below.get(id)?, now())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        still_good(self.below.take(id)?, now())
    }

    fn can_cache(&self) -> bool {
        self.below.can_cache()
    }
}

impl StoresServerSessions for HandshakeSessions {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        let serialized = [MAGIC, &value].concat();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(Made { id: id.clone(), serialized });
        self.below.put(id, value);
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.take_found().or_else(|| self.below.get(id))
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.take_found().or_else(|| self.below.take(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    #[test]
    fn sessions_end_with_their_time() {
        let sessions = TimedSessions::new(ServerSessionMemoryCache::new(10), Duration::from_secs(300));
        assert!(sessions.put(b"new".to_vec(), b"session".to_vec()));
        assert_eq!(sessions.get(b"new").as_deref(), Some(&b"session"[..]));
        assert_eq!(sessions.take(b"new").as_deref(), Some(&b"session"[..]));
        assert_eq!(sessions.take(b"new"), None, "once");
        assert!(sessions.put_at(now() - Duration::from_secs(302), b"old".to_vec(), b"session"));
        assert_eq!((sessions.get(b"old"), sessions.take(b"old")), (None, None));
        let timed = [&300_u64.to_be_bytes()[..], b"session"].concat();
        assert_eq!(still_good(timed.clone(), Duration::from_secs(300)).as_deref(), Some(&b"session"[..]));
        assert_eq!(still_good(timed, Duration::from_secs(301)), None);
        assert_eq!(still_good(b"short".to_vec(), Duration::ZERO), None);
    }
}
