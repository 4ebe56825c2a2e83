//! Entries that are also in memory (`memory=size`): those that were asked for last, as far as they are small. Of larger ones the
//! head is here, with the open file.
//!
//! What is here is what a file had when it was read. Whoever changes a file has the entry forgotten, and what was read before
//! that is not taken any more. Files that somebody else removes are only missed on the disk.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use lru::LruCache;

use super::{
    file::{Body, Stored},
    key::Key,
    zone::lock,
};

/// What an entry takes beside its file's bytes: its places in a list and a table, and its allocations.
const OVERHEAD_BYTES: u64 = 256;

/// Files that are kept open at a time. The system lets a process open 1,024 unless it is told otherwise, most of them for clients.
const FILES_MAX: usize = 128;

/// Entries that are looked at while others wait.
const FORGET_LEN: usize = 64;

/// Entries of a zone that are in memory.
pub(super) struct Memory {
    bytes_max: AtomicU64,
    kept: Mutex<Kept>,
}

struct Kept {
    entries: LruCache<Key, Arc<Stored>>,
    /// Those of `entries` whose body is a file.
    files: LruCache<Key, ()>,
    bytes: u64,
    /// Counts the changes of files.
    changes: u64,
}

/// How many changes there were when a file was about to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading(u64);

impl Memory {
    pub(super) fn new() -> Memory {
        let kept = Kept {
            entries: LruCache::unbounded(),
            files: LruCache::new(NonZeroUsize::new(FILES_MAX).expect("not zero")),
            bytes: 0,
            changes: 0,
        };
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
        let stored = kept.entries.get(&key).cloned().ok_or(Reading(changes))?;
        if matches!(stored.body, Body::File { .. }) {
            kept.files.promote(&key);
        }
        Ok(stored)
    }

    /// Keeps an entry that was read, unless a file has been changed meanwhile.
    pub(super) fn keep(&self, key: Key, stored: &Arc<Stored>, reading: Reading) {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        if bytes_max == 0 {
            return;
        }
        let mut kept = lock(&self.kept);
        if Reading(kept.changes) == reading {
            kept.remove(key);
            kept.bytes += size_of(stored);
            kept.entries.put(key, stored.clone());
            if matches!(stored.body, Body::File { .. })
                && let Some((oldest, ())) = kept.files.push(key, ())
            {
                kept.remove(oldest);
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
        kept.remove(key)
    }

    /// Forgets entries that `is_gone` says are no more, a few at a time.
    pub(super) fn forget_where(&self, is_gone: impl Fn(Key, &Stored) -> bool) {
        let keys: Vec<Key> = lock(&self.kept).entries.iter().map(|(key, _)| *key).collect();
        for some in keys.chunks(FORGET_LEN) {
            let mut kept = lock(&self.kept);
            for key in some {
                if kept.entries.peek(key).is_some_and(|stored| is_gone(*key, stored)) {
                    kept.remove(*key);
                }
            }
        }
    }
}

impl Kept {
    fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max
            && let Some((key, _)) = self.entries.peek_lru()
        {
            let key = *key;
            self.remove(key);
        }
    }

    /// Answers whether it was there.
    fn remove(&mut self, key: Key) -> bool {
        self.files.pop(&key);
        let old = self.entries.pop(&key);
        self.bytes -= old.as_deref().map_or(0, size_of);
        old.is_some()
    }
}

fn size_of(stored: &Stored) -> u64 {
    let bytes = match stored.body {
        Body::Bytes(_) => stored.file_bytes,
        Body::File { offset, .. } => offset,
    };
    bytes + OVERHEAD_BYTES
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
    fn so_many_files_and_no_more() {
        let memory = Memory::new();
        memory.set_bytes_max(1 << 20);
        let file = Arc::new(std::fs::File::open("/dev/null").expect("it is there"));
        let large = || {
            let mut large = stored(1 << 30);
            Arc::make_mut(&mut large).body = Body::File { file: file.clone(), offset: 100, len: (1 << 30) - 100 };
            large
        };
        let keys: Vec<Key> = (0..=FILES_MAX).map(|number| Key::of(&number.to_le_bytes())).collect();
        for key in &keys[1..] {
            memory.keep(*key, &large(), Reading(0));
        }
        memory.keep(Key::of(b"small"), &stored(100), Reading(0));
        assert!(memory.get(keys[1]).is_ok());
        memory.keep(keys[0], &large(), Reading(0));
        let is_there = |key: Key| memory.get(key).is_ok();
        assert_eq!([keys[0], keys[1], keys[2], Key::of(b"small")].map(is_there), [true, true, false, true]);
        let open = Arc::strong_count(&file) - 1;
        assert_eq!((open, lock(&memory.kept).bytes), (FILES_MAX, 356 * (FILES_MAX as u64 + 1)));
        memory.set_bytes_max(0);
        assert_eq!((Arc::strong_count(&file), lock(&memory.kept).bytes), (1, 0));
        assert!(lock(&memory.kept).files.is_empty());
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
