//! Sessions that somebody else keeps: who does is asked before a handshake, and told after it.

use std::sync::{Arc, Mutex, PoisonError};

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
