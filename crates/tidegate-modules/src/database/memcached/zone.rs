//! `memcached_zone`: items in memory that all workers share, of bounded size.
//!
//! A zone is a few maps with a lock each; the hash of a key chooses its map. A lock is held for one look-up or one change, never over
//! a wait. Each map has its share of the zone's size; when that is used up the items that nobody has used for the longest time go.
//! An item counts with its key, its content and [`ITEM_BYTES`], what the map and the allocator need for it.
//!
//! Items that have expired or were flushed are not there for anybody. Their memory is free when somebody asks for them, or when
//! they are the ones that were not used for the longest time.
//!
//! A zone outlives a reload that keeps its name; its size may change then.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use lru::LruCache;
use tidegate_http::memcached_server::{Exptime, Key, Op, write_value};

use super::{
    item::{Attributes, Effect, Item, Moment, apply},
    stats::Counters,
};

/// Bytes that an item counts with beside its key and content.
pub(super) const ITEM_BYTES: usize = 160;
/// The smallest zone, in bytes.
pub(super) const ZONE_BYTES_MIN: usize = 1 << 20;
/// The most maps that a zone is divided into.
const SHARDS_MAX: usize = 16;
/// A map holds at least so many of the largest items.
const LARGEST_IN_SHARD: usize = 8;
/// Items that one lock of a map throws out before others have their turn.
const EVICTIONS_PER_LOCK: usize = 32;
/// Items that each change throws out if they have expired.
const EXPIRED_PER_CHANGE: usize = 2;

struct Entry {
    value: Box<[u8]>,
    attributes: Attributes,
    /// When it was stored, as a number of the zone's.
    number: u64,
    accessed_s: u64,
    is_fetched: bool,
}

/// A map with its lock's worth of counters.
struct Shard {
    map: LruCache<Box<[u8]>, Entry>,
    bytes: usize,
    counters: Counters,
}

/// A zone.
pub(super) struct Zone {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// Bytes of each map.
    shard_bytes_max: AtomicUsize,
    item_bytes_max: usize,
    /// The last number that was given away.
    number: AtomicU64,
    /// Items with numbers up to this one were flushed.
    flushed: AtomicU64,
    /// When all items are to be flushed, in seconds since 1970; 0 for not at all.
    flush_at_s: AtomicU64,
    flushes: AtomicU64,
}

/// What [`Zone::sizes`] tells.
pub(super) struct Sizes {
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    pub(super) items: usize,
}

fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
    ITEM_BYTES + key.len() + value.len()
}

impl Zone {
    fn new(bytes_max: usize, item_bytes_max: usize) -> Self {
        let count = (bytes_max / (item_bytes_max * LARGEST_IN_SHARD)).clamp(1, SHARDS_MAX);
        let shard = || Shard { map: LruCache::unbounded(), bytes: 0, counters: Counters::default() };
        Zone {
            shards: (0..count).map(|_| Mutex::new(shard())).collect(),
            hasher: RandomState::new(),
            shard_bytes_max: AtomicUsize::new(bytes_max / count),
            // Even a small zone holds a few items.
            item_bytes_max: item_bytes_max.min(bytes_max / LARGEST_IN_SHARD),
            number: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            flush_at_s: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        }
    }

    /// The zone of this name, with this size from now on: the one that is in use, or a new one. Another size of the largest item
    /// makes another zone.
    pub(super) fn open(name: &[u8], bytes_max: usize, item_bytes_max: usize) -> Arc<Zone> {
        type Zones = HashMap<(Vec<u8>, usize), Weak<Zone>>;
        static ZONES: Mutex<Option<Zones>> = Mutex::new(None);
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let zones = zones.get_or_insert_default();
        zones.retain(|_, zone| zone.strong_count() > 0);
        let place = zones.entry((name.to_vec(), item_bytes_max));
        let known = match &place {
            std::collections::hash_map::Entry::Occupied(place) => place.get().upgrade(),
            std::collections::hash_map::Entry::Vacant(_) => None,
        };
        let zone = known.unwrap_or_else(|| Arc::new(Zone::new(bytes_max, item_bytes_max)));
        zone.resize(bytes_max);
        place.insert_entry(Arc::downgrade(&zone));
        zone
    }

    /// Changes the size; what is too much goes now, a few items at a time.
    fn resize(&self, bytes_max: usize) {
        let shard_bytes_max = bytes_max / self.shards.len();
        if self.shard_bytes_max.swap(shard_bytes_max, Ordering::Relaxed) > shard_bytes_max {
            (0..self.shards.len()).for_each(|index| drop(self.lock_with_room(index, 0)));
        }
    }

    /// Bytes of the largest item, administration included.
    pub(super) fn item_bytes_max(&self) -> usize {
        self.item_bytes_max
    }

    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn index(&self, key: &[u8]) -> usize {
        match self.shards.len() {
            1 => 0,
            count => self.hasher.hash_one(key) as usize % count,
        }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        // A panic in a look-up leaves the map whole.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a map in which there is room for so many bytes.
    fn lock_with_room(&self, index: usize, bytes: usize) -> MutexGuard<'_, Shard> {
        loop {
            let mut shard = self.lock(index);
            for _ in 0..EVICTIONS_PER_LOCK {
                if shard.bytes + bytes <= self.shard_bytes_max.load(Ordering::Relaxed) || shard.map.is_empty() {
                    return shard;
                }
                shard.evict();
            }
        }
    }

    /// The number up to which items were flushed, which may be due now.
    fn flushed(&self, now_s: u64) -> u64 {
        let at_s = self.flush_at_s.load(Ordering::Acquire);
        if at_s != 0 && at_s <= now_s && self.flush_at_s.swap(0, Ordering::AcqRel) == at_s {
            self.flushed.fetch_max(self.next_number(), Ordering::AcqRel);
        }
        self.flushed.load(Ordering::Acquire)
    }

    /// Lets all items expire that were stored before `at`.
    pub(super) fn flush(&self, at: Exptime, now_s: u64) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        match at.at(now_s) {
            at_s if at_s > now_s => self.flush_at_s.store(at_s, Ordering::Release),
            _ => {
                self.flush_at_s.store(0, Ordering::Release);
                self.flushed.fetch_max(self.next_number(), Ordering::AcqRel);
            }
        }
    }

    /// Appends the item of a key as `get` does, if there is one; `touch`: when it expires from now on, in seconds since 1970.
    pub(super) fn get(&self, key: &[u8], with_cas: bool, touch: Option<Exptime>, now_s: u64, out: &mut Vec<u8>) {
        let flushed = self.flushed(now_s);
        let mut shard = self.lock(self.index(key));
        let shard = &mut *shard;
        let found = shard.find(key, now_s, flushed);
        let is_hit = found.is_some();
        if let Some(entry) = found {
            if let Some(exptime) = touch {
                entry.attributes.expires_s = exptime.at(now_s);
            }
            (entry.is_fetched, entry.accessed_s) = (true, now_s);
            let cas = with_cas.then_some(entry.attributes.cas);
            write_value(key, entry.attributes.flags, cas, &entry.value, out);
        }
        shard.counters.got(is_hit);
        if touch.is_some() {
            shard.counters.touched(is_hit);
        }
    }

    /// Carries out a request about one key, and appends the answer.
    pub(super) fn carry_out(&self, op: &Op<'_>, now_s: u64, out: &mut Vec<u8>) {
        let key = &*op.key.bytes;
        let flushed = self.flushed(now_s);
        let mut shard = self.lock_with_room(self.index(key), op.room_bytes());
        let Shard { map, counters, .. } = &mut *shard;
        let found = live(map.peek_mut(key), now_s, flushed);
        let item = found.map(|entry| Item {
            value: &entry.value,
            attributes: entry.attributes,
            is_fetched: entry.is_fetched,
            accessed_s: entry.accessed_s,
        });
        let next_cas = || self.next_number();
        let value_bytes_max = self.item_bytes_max.saturating_sub(ITEM_BYTES + key.len());
        let mut moment = Moment { now_s, next_cas: &next_cas, value_bytes_max, counters };
        match apply(op, item, &mut moment, out) {
            Effect::Nothing => {}
            Effect::Used => shard.note_use(key, now_s),
            Effect::Alter { attributes, bumps } => {
                if let Some(entry) = shard.map.peek_mut(key) {
                    entry.attributes = attributes;
                }
                if bumps {
                    shard.note_use(key, now_s);
                }
            }
            Effect::Put(attributes, content) => {
                let value = content.to_vec().into_boxed_slice();
                let entry =
                    Entry { value, attributes, number: self.next_number(), accessed_s: now_s, is_fetched: false };
                shard.put(key, entry, self.shard_bytes_max.load(Ordering::Relaxed));
                shard.drop_expired(now_s, flushed);
            }
            Effect::Remove => shard.remove(key),
        }
    }

    /// Removes an item.
    pub(super) fn remove(&self, key: &[u8]) {
        self.lock(self.index(key)).remove(key);
    }

    /// What `me` tells of an item.
    pub(super) fn describe(&self, key: &Key<'_>, now_s: u64) -> Option<String> {
        let flushed = self.flushed(now_s);
        let mut shard = self.lock(self.index(&key.bytes));
        let entry = live(shard.map.peek_mut(&*key.bytes), now_s, flushed)?;
        let expires = match entry.attributes.expires_s {
            0 => -1,
            at_s => i64::try_from(at_s - now_s).unwrap_or(i64::MAX),
        };
        Some(format!(
            "exp={expires} la={} cas={} fetch={} cls=1 size={}",
            now_s.saturating_sub(entry.accessed_s),
            entry.attributes.cas,
            if entry.is_fetched { "yes" } else { "no" },
            entry_bytes(&key.bytes, &entry.value),
        ))
    }

    /// What is in the zone; what has expired counts as long as it takes memory.
    pub(super) fn sizes(&self) -> Sizes {
        let bytes_max = self.shard_bytes_max.load(Ordering::Relaxed) * self.shards.len();
        (0..self.shards.len()).fold(Sizes { bytes: 0, bytes_max, items: 0 }, |sum, index| {
            let shard = self.lock(index);
            Sizes { bytes: sum.bytes + shard.bytes, items: sum.items + shard.map.len(), ..sum }
        })
    }

    /// What has happened so far.
    pub(super) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        sum.cmd_flush = self.flushes.load(Ordering::Relaxed);
        (0..self.shards.len()).for_each(|index| sum.add(&self.lock(index).counters));
        sum
    }

    /// Begins to count anew.
    pub(super) fn reset_counters(&self) {
        self.flushes.store(0, Ordering::Relaxed);
        (0..self.shards.len()).for_each(|index| self.lock(index).counters = Counters::default());
    }

    /// Up to `max` items of those used last: keys, sizes of contents, times of expiry.
    pub(super) fn list(&self, max: usize, now_s: u64) -> Vec<(Box<[u8]>, usize, u64)> {
        let flushed = self.flushed(now_s);
        let mut found = Vec::new();
        for index in 0..self.shards.len() {
            let shard = self.lock(index);
            let living = shard.map.iter().filter(|(_, entry)| entry.lives(now_s, flushed));
            let left = max - found.len();
            found.extend(
                living.take(left).map(|(key, entry)| (key.clone(), entry.value.len(), entry.attributes.expires_s)),
            );
        }
        found
    }
}

impl Entry {
    fn lives(&self, now_s: u64, flushed: u64) -> bool {
        let expires_s = self.attributes.expires_s;
        self.number > flushed && (expires_s == 0 || expires_s > now_s)
    }
}

fn live(entry: Option<&mut Entry>, now_s: u64, flushed: u64) -> Option<&mut Entry> {
    entry.filter(|entry| entry.lives(now_s, flushed))
}

impl Shard {
    /// A living item, which becomes the one that was used last; one that is dead goes.
    fn find(&mut self, key: &[u8], now_s: u64, flushed: u64) -> Option<&mut Entry> {
        let entry = self.map.peek(key)?;
        if !entry.lives(now_s, flushed) {
            match entry.number > flushed {
                true => self.counters.get_expired += 1,
                false => self.counters.get_flushed += 1,
            }
            self.remove(key);
            return None;
        }
        self.map.get_mut(key)
    }

    fn note_use(&mut self, key: &[u8], now_s: u64) {
        if let Some(entry) = self.map.get_mut(key) {
            (entry.is_fetched, entry.accessed_s) = (true, now_s);
        }
    }

    fn put(&mut self, key: &[u8], entry: Entry, bytes_max: usize) {
        let bytes = entry_bytes(key, &entry.value);
        match self.map.get_mut(key) {
            Some(place) => {
                self.bytes = self.bytes + bytes - entry_bytes(key, &place.value);
                *place = entry;
            }
            None => {
                self.bytes += bytes;
                self.map.put(key.into(), entry);
            }
        }
        // The item itself was used last, so it is the last to go.
        while self.bytes > bytes_max && self.map.len() > 1 {
            self.evict();
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.map.pop(key) {
            self.bytes -= entry_bytes(key, &entry.value);
        }
    }

    fn evict(&mut self) {
        if let Some((key, entry)) = self.map.pop_lru() {
            self.bytes -= entry_bytes(&key, &entry.value);
            self.counters.evictions += 1;
        }
    }

    fn drop_expired(&mut self, now_s: u64, flushed: u64) {
        for _ in 0..EXPIRED_PER_CHANGE {
            match self.map.peek_lru() {
                Some((_, entry)) if !entry.lives(now_s, flushed) => {}
                _ => return,
            }
            if let Some((key, entry)) = self.map.pop_lru() {
                self.bytes -= entry_bytes(&key, &entry.value);
                self.counters.reclaimed += 1;
            }
        }
    }
}

/// The most that a request may need.
trait Room {
    /// Bytes that its item may count with, so far as the request alone tells.
    fn room_bytes(&self) -> usize;
}

impl Room for Op<'_> {
    fn room_bytes(&self) -> usize {
        use tidegate_http::memcached_server::Action;
        match self.action {
            Action::Store { value, .. } => entry_bytes(&self.key.bytes, value),
            Action::Count { .. } | Action::Read { vivify: Some(_), .. } => entry_bytes(&self.key.bytes, &[0; 20]),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
