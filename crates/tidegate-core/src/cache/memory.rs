//! Entries that are also in memory (`memory=size`): those that were asked for last, as far as they are small.
//!
//! What is here is what a file had when it was read. Whoever changes a file has the entry forgotten, and what was read before
//! that is not taken any more. Files that somebody else removes are only missed on the disk.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use lru::LruCache;

use super::{
    file::{Body, Stored},
    key::Key,
    zone::lock,
};

/// What an entry takes beside its file's bytes: its places in a list and a table, and its allocations.
const OVERHEAD_BYTES: u64 = 256;

/// Entries that are looked at while others wait.
const FORGET_LEN: usize = 64;

/// Entries of a zone that are in memory.
pub(super) struct Memory {
    bytes_max: AtomicU64,
    kept: Mutex<Kept>,
}

struct Kept {
    entries: LruCache<Key, Arc<Stored>>,
    bytes: u64,
    /// Counts the changes of files.
    changes: u64,
}

/// How many changes there were when a file was about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading(u64);

impl Memory {
    pub(super) fn new() -> Memory {
        let kept = Kept { entries: LruCache::unbounded(), bytes: 0, changes: 0 };
        Memory { bytes_max: AtomicU64::new(0), kept: Mutex::new(kept) }
    }

    /// Sets how many bytes there may be.
    pub(super) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        lock(&self.kept).shrink(bytes_max);
    }

    /// The entry, or else what [`keep`](Self::keep) wants to know when it has been read.
    pub(super) fn get(&self, key: Key) -> Result<Arc<Stored>, Reading> {
        if self.bytes_max.load(Ordering::Relaxed) == 0 {
            return Err(Reading(0));
        }
        let mut kept = lock(&self.kept);
        let changes = kept.changes;
        kept.entries.get(&key).cloned().ok_or(Reading(changes))
    }

    /// Keeps an entry that was read, unless a file has been changed meanwhile.
    pub(super) fn keep(&self, key: Key, stored: &Arc<Stored>, reading: Reading) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        if bytes_max == 0 || !matches!(stored.body, Body::Bytes(_)) {
            return;
        }
        let mut kept = lock(&self.kept);
        if Reading(kept.changes) == reading {
            kept.bytes += size_of(stored);
            if let Some(old) = kept.entries.put(key, stored.clone()) {
                kept.bytes -= size_of(&old);
            }
            kept.shrink(bytes_max);
        }
    }

    /// The file has changed or is gone. Answers whether it was here.
    pub(super) fn forget(&self, key: Key) -> bool {
        if self.bytes_max.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut kept = lock(&self.kept);
        kept.changes += 1;
        let old = kept.entries.pop(&key);
        kept.bytes -= old.as_deref().map_or(0, size_of);
        old.is_some()
    }

    /// Forgets entries that `is_gone` says are no more, a few at a time.
    pub(super) fn forget_where(&self, is_gone: impl Fn(Key, &Stored) -> bool) {
        let keys: Vec<Key> = lock(&self.kept).entries.iter().map(|(key, _)| *key).collect();
        for some in keys.chunks(FORGET_LEN) {
            let mut kept = lock(&self.kept);
            for key in some {
                if kept.entries.peek(key).is_some_and(|stored| is_gone(*key, stored))
                    && let Some(old) = kept.entries.pop(key)
                {
                    kept.bytes -= size_of(&old);
                }
            }
        }
    }
}

impl Kept {
    fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max
            && let Some((_, old)) = self.entries.pop_lru()
        {
            self.bytes -= size_of(&old);
        }
    }
}

fn size_of(stored: &Stored) -> u64 {
    stored.file_bytes + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::cache::file::{Front, Times};

    fn stored(file_bytes: u64) -> Arc<Stored> {
        let front = Front {
            times: Times::default(),
            key_text: Vec::new(),
            vary: None,
            last_modified: None,
            head: Vec::new(),
            is_bodiless: false,
            began: 0,
            family: 0,
        };
        Arc::new(Stored { front, body: Body::Bytes(Bytes::new()), file_bytes })
    }

    #[test]
    fn so_many_bytes_and_no_more() {
        let memory = Memory::new();
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| Key::of(text));
        let reading = memory.get(a).expect_err("nothing is there");
        memory.keep(a, &stored(100), reading);
        assert!(memory.get(a).is_err(), "it is switched off");
        memory.set_bytes_max(2 * (100 + OVERHEAD_BYTES));
        for key in [a, b] {
            memory.keep(key, &stored(100), memory.get(key).expect_err("nothing is there"));
        }
        assert!(memory.get(a).is_ok());
        memory.keep(c, &stored(100), memory.get(c).expect_err("nothing is there"));
        assert!(memory.get(b).is_err(), "it was not used for longest");
        assert!(memory.get(a).is_ok() && memory.get(c).is_ok());
        // The same again takes no more room; one that is too large does not stay.
        memory.keep(c, &stored(100), Reading(0));
        assert!(memory.get(a).is_ok());
        memory.keep(b, &stored(10_000), Reading(0));
        assert!([a, b, c].iter().all(|key| memory.get(*key).is_err()));
        memory.keep(a, &stored(100), Reading(0));
        memory.set_bytes_max(0);
        memory.set_bytes_max(1000);
        assert!(memory.get(a).is_err());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept() {
        let memory = Memory::new();
        memory.set_bytes_max(1000);
        let key = Key::of(b"a");
        let reading = memory.get(key).expect_err("nothing is there");
        memory.forget(key);
        memory.keep(key, &stored(100), reading);
        let reading = memory.get(key).expect_err("it is an old one");
        memory.keep(key, &stored(100), reading);
        assert!(memory.get(key).is_ok());
        memory.forget(key);
        assert!(memory.get(key).is_err());
    }
}
