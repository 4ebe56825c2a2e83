//! What is known of a cache's entries without a look at the disk.
//!
//! Entries stand in a slab, in a table by key, and in a list by their last use. [`ENTRY_BYTES`] counts all of it.
//!
//! Invariants:
//! - **I1** There are at most `capacity` entries; the one that was not used for the longest time makes room.
//! - **I2** An entry that is being filled is not the one to go, so that those who wait for it find it.
//! - **I3** Whoever fills an entry has a [`Held`]; what ends after another has begun changes nothing of the other's.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hashbrown::{HashTable, hash_table};
use tokio::sync::Semaphore;

use super::key::Key;

/// What an entry takes: itself, its place in the table when that is as empty as it gets, and the room of those to come.
///
/// Source: nginx, whose documentation counts 8,000 keys for each megabyte of a zone.
pub(super) const ENTRY_BYTES: u64 = 128;

/// What sizes on disk are counted in: a block of most file systems.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Entries that are made room for at once.
const CHUNK_LEN: usize = 4096;

/// Entries that the table has room for from the beginning: six megabytes.
const TABLE_LEN_FIRST: usize = 1 << 20;

/// Nobody, at the ends of lists.
const NONE: u32 = u32::MAX;

/// Entries that are looked at for one that may go.
const TRIES_MAX: usize = 20;

#[derive(Debug)]
struct Entry {
    key: Key,
    /// When others may fill it too, in milliseconds of [`clock::steady_ms`](crate::clock::steady_ms).
    held_until_ms: u64,
    /// Who is filling it; 0 for nobody.
    holder: u32,
    newer: u32,
    older: u32,
    /// Time of the last use, in seconds since 1970.
    used_at: u32,
    /// Until when `error` is the answer, in seconds since 1970.
    error_until: u32,
    blocks: u32,
    /// A status that is answered without a file; 0 for none.
    error: u16,
    uses: u16,
    exists: bool,
}

/// What the index says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nothing was known of it until now.
    New,
    /// It was asked for too seldom to be kept.
    Scarce,
    /// It is known, and its file may be there.
    Known {
        /// The file was there when it was looked at last.
        exists: bool,
    },
    /// An answer without a file: this status.
    Error(u16),
}

/// The right to fill an entry; see [`Index::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held(u32);

/// What filling an entry came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A file of so many bytes.
    Stored(u64),
    /// This status until then, in seconds since 1970.
    Error(u16, u64),
    /// Nothing: another is to try.
    Nothing,
    /// Nothing: the response is none that is kept, and the next one would not be either.
    Refused,
}

/// An entry that somebody else is filling.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Closed when that is over. When it gives a permit instead, the response is not kept: nobody shall wait for the next.
    pub(crate) end: Arc<Semaphore>,
    /// When it takes too long, in milliseconds of [`clock::steady_ms`](crate::clock::steady_ms).
    pub(crate) until_ms: u64,
}

pub(super) struct Index {
    chunks: Vec<Vec<Entry>>,
    table: HashTable<u32>,
    hasher: RandomState,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
    /// There was no room for somebody once.
    was_full: bool,
    blocks: u64,
    last_holder: u32,
    waiting: HashMap<Key, Arc<Semaphore>>,
}

fn seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}

impl Index {
    pub(super) fn new(capacity: usize) -> Self {
        Index {
            chunks: Vec::new(),
            // Growing holds everybody up for a moment.
            table: HashTable::with_capacity(capacity.min(TABLE_LEN_FIRST)),
            hasher: RandomState::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity,
            was_full: false,
            blocks: 0,
            last_holder: 0,
            waiting: HashMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether entries should go before there is no room: in an index that was full once, an eighth is kept free, so that
    /// requests need not remove other entries themselves.
    ///
    /// Source: nginx, the watermark of `ngx_http_file_cache_manager`.
    pub(super) fn is_crowded(&self) -> bool {
        self.was_full && self.len() > self.capacity - self.capacity / 8
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    fn entry(&self, at: u32) -> &Entry {
        &self.chunks[at as usize / CHUNK_LEN][at as usize % CHUNK_LEN]
    }

    fn entry_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.chunks[at as usize / CHUNK_LEN][at as usize % CHUNK_LEN]
    }

    fn find(&self, key: Key) -> Option<u32> {
        self.table.find(self.hasher.hash_one(key), |at| self.entry(*at).key == key).copied()
    }

    /// Looks an entry up, or makes one. A use counts unless this is the second look of the same request. When there is no
    /// room and nobody may go, the entry is [`Presence::Scarce`]. The second value is what had to make room: a file to be
    /// removed.
    pub(super) fn touch(&mut self, key: Key, now: u64, min_uses: u16, counts: bool) -> (Presence, Option<Key>) {
        let mut gone = None;
        let Some(at) = self.find(key) else {
            if self.len() >= self.capacity {
                self.was_full = true;
                match self.remove_oldest(|_| true) {
                    Some((old, exists)) => gone = exists.then_some(old),
                    None => return (Presence::Scarce, None),
                }
            }
            self.insert(key, now);
            return (if min_uses > 1 { Presence::Scarce } else { Presence::New }, gone);
        };
        self.unlink(at);
        self.link(at);
        let entry = self.entry_mut(at);
        entry.used_at = seconds(now);
        if counts {
            entry.uses = entry.uses.saturating_add(1);
        }
        let presence = match entry {
            Entry { error: error @ 1.., error_until, .. } if u64::from(*error_until) >= now => Presence::Error(*error),
            Entry { error: 1.., exists: false, .. } => {
                entry.error = 0;
                Presence::New
            }
            Entry { exists, uses, .. } if *exists || *uses >= min_uses => Presence::Known { exists: *exists },
            _ => Presence::Scarce,
        };
        (presence, gone)
    }

    /// Makes an entry known that was found on disk, unless it is or there is no room.
    pub(super) fn adopt(&mut self, key: Key, file_bytes: u64, now: u64) {
        let at = match self.find(key) {
            Some(at) => at,
            None if self.len() < self.capacity => self.insert(key, now),
            None => return,
        };
        if !self.entry(at).exists {
            self.set_file(at, Some(file_bytes));
        }
    }

    /// The file is not there any more.
    pub(super) fn forget_file(&mut self, key: Key) {
        if let Some(at) = self.find(key) {
            self.set_file(at, None);
        }
    }

    /// Forgets all that is known of an entry but who fills it; answers whether it was an answer.
    pub(super) fn purge(&mut self, key: Key, now: u64) -> bool {
        let Some(at) = self.find(key) else { return false };
        let entry = self.entry_mut(at);
        let was_there = entry.exists || (entry.error > 0 && u64::from(entry.error_until) >= now);
        entry.error = 0;
        if entry.holder == 0 {
            self.take_out(at);
        } else {
            self.set_file(at, None);
        }
        was_there
    }

    /// Forgets the statuses that are answered without a file, of the portion of entries with this number; answers whether
    /// there is a next one.
    pub(super) fn forget_errors(&mut self, portion: usize) -> bool {
        if let Some(entries) = self.chunks.get_mut(portion) {
            entries.iter_mut().for_each(|entry| entry.error = 0);
        }
        portion + 1 < self.chunks.len()
    }

    /// Gives the right to fill an entry, unless somebody else has it for less than `age_ms`. `now` is in seconds since 1970,
    /// `now_ms` in milliseconds of [`clock::steady_ms`](crate::clock::steady_ms).
    ///
    /// # Errors
    /// Who to wait for.
    pub(super) fn hold(&mut self, key: Key, now: u64, now_ms: u64, age_ms: u64) -> Result<Held, Waiting> {
        let at = match self.find(key) {
            Some(at) => at,
            // It had to make room in the meantime.
            None => self.insert(key, now),
        };
        let entry = self.entry(at);
        if entry.holder != 0 && entry.held_until_ms > now_ms {
            let until_ms = entry.held_until_ms;
            let end = self.waiting.entry(key).or_insert_with(|| Arc::new(Semaphore::new(0))).clone();
            return Err(Waiting { end, until_ms });
        }
        let holder = self.next_holder();
        let entry = self.entry_mut(at);
        (entry.holder, entry.held_until_ms) = (holder, now_ms.saturating_add(age_ms));
        Ok(Held(holder))
    }

    /// Gives the right to fill an entry anew whose file is out of date, if nobody has it.
    pub(super) fn hold_stale(&mut self, key: Key) -> Option<Held> {
        let at = self.find(key)?;
        if self.entry(at).holder != 0 {
            return None;
        }
        let holder = self.next_holder();
        self.entry_mut(at).holder = holder;
        Some(Held(holder))
    }

    fn next_holder(&mut self) -> u32 {
        self.last_holder = self.last_holder.wrapping_add(1).max(1);
        self.last_holder
    }

    /// Takes note of what filling an entry came to, and wakes those who wait for it. `held` is missing where nobody was kept
    /// waiting.
    pub(super) fn end(&mut self, key: Key, held: Option<Held>, ending: Ending, now: u64) {
        let at = match (self.find(key), ending) {
            (Some(at), _) => at,
            (None, Ending::Nothing | Ending::Refused) => return,
            // No room: the file is there all the same, and is found when it is asked for again.
            (None, _) if self.len() >= self.capacity && self.remove_oldest(|old| !old.exists).is_none() => return,
            (None, _) => self.insert(key, now),
        };
        match ending {
            Ending::Stored(file_bytes) => {
                self.set_file(at, Some(file_bytes));
                self.entry_mut(at).error = 0;
            }
            Ending::Error(status, until) => {
                let entry = self.entry_mut(at);
                (entry.error, entry.error_until) = (status, seconds(until));
            }
            Ending::Nothing | Ending::Refused => {}
        }
        let entry = self.entry_mut(at);
        if held == Some(Held(entry.holder)) {
            (entry.holder, entry.held_until_ms) = (0, 0);
        }
        if entry.holder == 0
            && let Some(end) = self.waiting.remove(&key)
        {
            match ending {
                Ending::Refused => end.add_permits(Semaphore::MAX_PERMITS),
                _ => end.close(),
            }
        }
    }

    fn set_file(&mut self, at: u32, file_bytes: Option<u64>) {
        let blocks = file_bytes.map_or(0, |bytes| seconds(bytes.div_ceil(BLOCK_BYTES)));
        let entry = self.entry_mut(at);
        let before = std::mem::replace(&mut entry.blocks, blocks);
        entry.exists = file_bytes.is_some();
        self.blocks = self.blocks - u64::from(before) + u64::from(blocks);
    }

    /// Takes out the entry that was not used for the longest time, of those that `may_go`; answers it, and whether it has a
    /// file.
    pub(super) fn remove_oldest(&mut self, may_go: impl Fn(&Old) -> bool) -> Option<(Key, bool)> {
        let mut at = self.oldest;
        for _ in 0..TRIES_MAX {
            if at == NONE {
                break;
            }
            let entry = self.entry(at);
            let old = Old { exists: entry.exists, used_at: u64::from(entry.used_at) };
            if entry.holder == 0 && may_go(&old) {
                return Some(self.take_out(at));
            }
            at = entry.newer;
        }
        None
    }

    /// When the oldest entry was used last, in seconds since 1970.
    pub(super) fn oldest_use(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| u64::from(self.entry(self.oldest).used_at))
    }

    fn insert(&mut self, key: Key, now: u64) -> u32 {
        let entry = Entry {
            key,
            held_until_ms: 0,
            holder: 0,
            newer: NONE,
            older: NONE,
            used_at: seconds(now),
            error_until: 0,
            blocks: 0,
            error: 0,
            uses: 1,
            exists: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                *self.entry_mut(at) = entry;
                at
            }
            None => {
                if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LEN) {
                    self.chunks.push(Vec::with_capacity(CHUNK_LEN.min(self.capacity)));
                }
                let before = (self.chunks.len() - 1) * CHUNK_LEN;
                let chunk = self.chunks.last_mut().expect("one was pushed");
                chunk.push(entry);
                (before + chunk.len() - 1) as u32
            }
        };
        let Index { chunks, table, hasher, .. } = self;
        let hash_of = |at: &u32| hasher.hash_one(chunks[*at as usize / CHUNK_LEN][*at as usize % CHUNK_LEN].key);
        table.insert_unique(hasher.hash_one(key), at, hash_of);
        self.link(at);
        at
    }

    fn take_out(&mut self, at: u32) -> (Key, bool) {
        self.unlink(at);
        let exists = self.entry(at).exists;
        self.set_file(at, None);
        let key = self.entry(at).key;
        let hash = self.hasher.hash_one(key);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == at) {
            let _: (u32, hash_table::VacantEntry<'_, u32>) = found.remove();
        }
        self.free.push(at);
        if let Some(end) = self.waiting.remove(&key) {
            end.close();
        }
        (key, exists)
    }

    /// Puts it at the end of those that were just used.
    fn link(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        let entry = self.entry_mut(at);
        (entry.older, entry.newer) = (before, NONE);
        match before {
            NONE => self.oldest = at,
            before => self.entry_mut(before).newer = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.entry(at).newer, self.entry(at).older);
        match newer {
            NONE => self.newest = older,
            newer => self.entry_mut(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entry_mut(older).newer = newer,
        }
    }
}

/// An entry that may have to go.
pub(super) struct Old {
    exists: bool,
    /// Time of its last use, in seconds since 1970.
    pub(super) used_at: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::of(&number.to_be_bytes())
    }

    #[test]
    fn an_entry_is_small() {
        // Each place of the table takes five bytes, and at least 7 of 16 are taken. Once free, an entry takes a number more.
        assert!(size_of::<Entry>() as u64 + 5 * 16 / 7 + 1 + 4 <= ENTRY_BYTES);
    }

    #[test]
    fn the_longest_unused_makes_room() {
        let mut index = Index::new(3);
        for number in 0..3 {
            assert_eq!(index.touch(key(number), 10, 1, true), (Presence::New, None));
            index.end(key(number), None, Ending::Stored(5000), 10);
        }
        assert_eq!(index.bytes(), 3 * 8192);
        assert_eq!(index.touch(key(0), 11, 1, true), (Presence::Known { exists: true }, None));
        assert_eq!(index.touch(key(3), 12, 1, true), (Presence::New, Some(key(1))));
        assert_eq!((index.len(), index.bytes()), (3, 2 * 8192));
        // Those that are being filled stay.
        for number in [0, 2, 3] {
            index.hold_stale(key(number)).expect("nobody has it");
        }
        assert_eq!(index.touch(key(4), 12, 1, true), (Presence::Scarce, None));
        index.take_out(index.find(key(0)).expect("it is there"));
        assert_eq!(index.find(key(0)), None);
        assert_eq!(index.touch(key(4), 12, 1, true), (Presence::New, None));
        assert_eq!(index.oldest_use(), Some(10));
    }

    #[test]
    fn uses_are_counted_once_for_a_request() {
        let mut index = Index::new(10);
        assert_eq!(index.touch(key(1), 1, 3, true).0, Presence::Scarce);
        assert_eq!(index.touch(key(1), 1, 3, true).0, Presence::Scarce);
        assert_eq!(index.touch(key(1), 1, 3, false).0, Presence::Scarce);
        assert_eq!(index.touch(key(1), 1, 3, true).0, Presence::Known { exists: false });
    }

    #[test]
    fn errors_last_as_long_as_they_are_said_to() {
        let mut index = Index::new(10);
        index.end(key(1), None, Ending::Error(502, 20), 10);
        assert_eq!(index.touch(key(1), 20, 1, true).0, Presence::Error(502));
        assert_eq!(index.touch(key(1), 21, 1, true).0, Presence::New);
        assert_eq!(index.touch(key(1), 21, 1, true).0, Presence::Known { exists: false });
    }

    #[test]
    fn what_is_purged_is_not_known() {
        let mut index = Index::new(10);
        assert!(!index.purge(key(1), 10));
        index.end(key(1), None, Ending::Stored(5000), 10);
        assert!(index.purge(key(1), 10));
        assert_eq!((index.len(), index.bytes()), (0, 0));
        // Who waits for it goes on waiting: what is on its way is none of the old ones.
        index.touch(key(1), 10, 1, true);
        let held = index.hold(key(1), 10, 1000, 500).expect("nobody has it");
        let waiting = index.hold(key(1), 10, 1000, 500).expect_err("somebody has it");
        assert!(!index.purge(key(1), 10));
        assert!(!waiting.end.is_closed());
        index.end(key(1), Some(held), Ending::Nothing, 10);
        assert!(waiting.end.is_closed());
        for number in [1, 2] {
            index.end(key(number), None, Ending::Error(502, 20), 10);
        }
        assert!(index.purge(key(1), 20));
        assert!(!index.forget_errors(0));
        assert!(!index.purge(key(2), 20));
    }

    #[test]
    fn one_fills_and_the_others_wait() {
        let mut index = Index::new(10);
        index.touch(key(1), 1, 1, true);
        let first = index.hold(key(1), 1, 1000, 500).expect("nobody has it");
        let waiting = index.hold(key(1), 1, 1000, 500).expect_err("somebody has it");
        assert_eq!((waiting.until_ms, waiting.end.is_closed()), (1500, false));
        assert!(index.hold_stale(key(1)).is_none());
        // Too old: another one has it now, and the first one's end is not the other's.
        let second = index.hold(key(1), 1, 1500, 500).expect("it is too old");
        index.end(key(1), Some(first), Ending::Nothing, 1);
        assert!(!waiting.end.is_closed());
        index.end(key(1), Some(second), Ending::Stored(1), 1);
        assert!(waiting.end.is_closed());
        assert!(index.hold(key(1), 1, 1500, 500).is_ok());
        // A response that is not kept: those who wait have a permit to ask for themselves.
        let third = index.hold(key(2), 1, 1500, 500).expect("nobody has it");
        let waiting = index.hold(key(2), 1, 1500, 500).expect_err("somebody has it");
        index.end(key(2), Some(third), Ending::Refused, 1);
        assert!(waiting.end.try_acquire().is_ok() && !waiting.end.is_closed());
        // Who waits for an entry that goes is woken.
        let waiting = index.hold(key(1), 1, 1500, 500).expect_err("somebody has it");
        index.take_out(index.find(key(1)).expect("it is there"));
        assert!(waiting.end.is_closed());
    }

    #[test]
    fn many_come_and_go() {
        let mut index = Index::new(5000);
        for number in 0..20_000 {
            let (presence, gone) = index.touch(key(number), number, 1, true);
            assert_eq!(presence, Presence::New);
            assert_eq!(gone, number.checked_sub(5000).map(key));
            index.end(key(number), None, Ending::Stored(1), number);
        }
        assert_eq!((index.len(), index.bytes()), (5000, 5000 * BLOCK_BYTES));
        let old = |limit| move |old: &Old| old.used_at < limit;
        assert_eq!(index.remove_oldest(old(15_000)), None);
        while index.remove_oldest(old(19_000)).is_some() {}
        assert_eq!(index.len(), 1000);
        index.adopt(key(1), 1, 30_000);
        assert_eq!(index.touch(key(1), 1, 1, true).0, Presence::Known { exists: true });
        index.forget_file(key(1));
        assert_eq!(index.touch(key(1), 1, 1, true).0, Presence::Known { exists: false });
    }
}
