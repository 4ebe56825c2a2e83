//! Sessions of clients: in memory of so many bytes, for some time, and those that somebody else
//! keeps, who is asked before a handshake and told after it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use lru::LruCache;
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

/// Bytes that a session in memory needs beside its name and its content.
const ENTRY_BYTES: usize = 128;

/// Sessions in memory of so many bytes. The oldest ones go.
///
/// A session has the certificates that the client has shown: clients choose how large it is.
#[derive(Debug)]
pub struct MemorySessions {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    sessions: LruCache<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

fn weight(id: &[u8], session: &[u8]) -> usize {
    id.len() + session.len() + ENTRY_BYTES
}

impl MemorySessions {
    /// Memory of `bytes_max`.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, kept: Mutex::new(Kept { sessions: LruCache::unbounded(), bytes: 0 }) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoresServerSessions for MemorySessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let added = weight(&id, &session);
        if added > self.bytes_max {
            return false;
        }
        let mut kept = self.kept();
        if let Some(before) = kept.sessions.pop(&id) {
            kept.bytes -= weight(&id, &before);
        }
        while kept.bytes + added > self.bytes_max {
            let Some((id, oldest)) = kept.sessions.pop_lru() else { break };
            kept.bytes -= weight(&id, &oldest);
        }
        kept.bytes += added;
        kept.sessions.put(id, session);
        true
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.kept().sessions.peek(id).cloned()
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let mut kept = self.kept();
        let session = kept.sessions.pop(id)?;
        kept.bytes -= weight(id, &session);
        Some(session)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// The sessions of one handshake until it is known whether the client is accepted: one that is not leaves none.
///
/// Source: nginx, `ngx_ssl_remove_cached_session`.
#[derive(Debug)]
pub struct HeldSessions {
    state: Mutex<Held>,
    below: Arc<dyn StoresServerSessions>,
}

#[derive(Debug)]
enum Held {
    Undecided(Vec<(Vec<u8>, Vec<u8>)>),
    Decided { accepted: bool },
}

impl HeldSessions {
    /// Sessions that are to go into `below`.
    pub fn new(below: Arc<dyn StoresServerSessions>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(Held::Undecided(Vec::new())), below })
    }

    /// Decides on those that were made, and that will be.
    pub fn decide(&self, accepted: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Held::Undecided(made) = std::mem::replace(&mut *state, Held::Decided { accepted })
            && accepted
        {
            for (id, session) in made {
                self.below.put(id, session);
            }
        }
    }
}

impl StoresServerSessions for HeldSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            Held::Undecided(made) => {
                made.push((id, session));
                true
            }
            Held::Decided { accepted } => *accepted && self.below.put(id, session),
        }
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.below.get(id)
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.below.take(id)
    }

    fn can_cache(&self) -> bool {
        self.below.can_cache()
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

    /// The session in what was put, if it is good at a time since 1970.
    fn still_good(kept: &[u8], now: Duration) -> Option<Vec<u8>> {
        let (until, session) = kept.split_first_chunk::<TIME_BYTES>()?;
        (now.as_secs() <= u64::from_be_bytes(*until)).then(|| session.to_vec())
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl StoresServerSessions for TimedSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        self.put_at(now(), id, &session)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        Self::still_good(&self.below.get(id)?, now())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        Self::still_good(&self.below.take(id)?, now())
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
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(300);

    #[test]
    fn sessions_end_with_their_time() {
        let sessions = TimedSessions::new(MemorySessions::new(10_000), LIFETIME);
        assert!(sessions.put(b"new".to_vec(), b"session".to_vec()));
        assert_eq!(sessions.get(b"new").as_deref(), Some(&b"session"[..]));
        assert_eq!(sessions.take(b"new").as_deref(), Some(&b"session"[..]));
        assert_eq!(sessions.take(b"new"), None, "once");
        assert!(sessions.put_at(now() - Duration::from_secs(302), b"old".to_vec(), b"session"));
        assert_eq!((sessions.get(b"old"), sessions.take(b"old")), (None, None));
        let kept = [&300_u64.to_be_bytes()[..], b"session"].concat();
        assert_eq!(TimedSessions::still_good(&kept, Duration::from_secs(300)).as_deref(), Some(&b"session"[..]));
        assert_eq!(TimedSessions::still_good(&kept, Duration::from_secs(301)), None);
        assert_eq!(TimedSessions::still_good(b"short", Duration::ZERO), None);
    }

    #[test]
    fn memory_is_of_so_many_bytes() {
        let memory = MemorySessions::new(10 * (ENTRY_BYTES + 101));
        let id = |number: u8| vec![number];
        for number in 0..20 {
            assert!(memory.put(id(number), vec![0; 100]));
            assert!(memory.kept().bytes <= memory.bytes_max);
        }
        assert_eq!((memory.get(&id(9)), memory.get(&id(10)).map(|one| one.len())), (None, Some(100)));
        // A large one takes the place of several, and one that is too large that of none.
        assert!(memory.put(id(30), vec![0; 1000]));
        assert_eq!(memory.kept().sessions.len(), 6);
        assert!(!memory.put(id(31), vec![0; 3000]));
        assert!(memory.put(id(30), vec![0; 10]));
        assert_eq!(memory.take(&id(30)), Some(vec![0; 10]));
        assert_eq!(memory.kept().bytes, 5 * (ENTRY_BYTES + 101));
    }

    #[test]
    fn who_is_not_accepted_leaves_no_session() {
        let memory = MemorySessions::new(10_000);
        for (accepted, kept) in [(false, None), (true, Some(b"session".to_vec()))] {
            let held = HeldSessions::new(memory.clone());
            assert!(held.put(b"before".to_vec(), b"session".to_vec()));
            assert_eq!(memory.get(b"before"), None);
            held.decide(accepted);
            held.put(b"behind".to_vec(), b"session".to_vec());
            assert_eq!((memory.get(b"before"), memory.get(b"behind")), (kept.clone(), kept));
        }
    }
}
