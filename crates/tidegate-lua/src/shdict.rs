//! `lua_shared_dict`: zones of keys and values that all workers share, of bounded size.
//!
//! Follows lua-nginx-module's dictionaries. A zone is a few maps with a lock each; a key's map is chosen by its hash, so
//! that workers rarely meet. A lock is held for one look-up or one change, never over a wait. Memory is counted for the
//! whole zone, in `memory`, as nginx's slab allocator would use it: what fits into nginx's zone fits into ours, and
//! `free_space` gives the same figures. The entry that was not used for the longest time goes first, chosen per map
//! (exactly so in zones below 2 MB, which have one map).
//!
//! A zone outlives a reload that keeps its name and size.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bstr::BString;
mod list;
mod map;
mod memory;
mod recency;

use map::{EXPIRED_MS, Entry, Map};
use memory::{Block, Memory};

pub(crate) use list::End;
pub(crate) use map::Keys;

/// The most maps that a zone is divided into.
const SHARDS_MAX: usize = 16;

/// A zone has one map per so many bytes.
const SHARD_BYTES: usize = 1 << 20;

/// How many entries one lock of a map may throw out.
///
/// Source: lua-nginx-module tries as often before it gives up.
const EVICTIONS_PER_LOCK: usize = 30;

/// How many expired entries each change throws out.
const EXPIRED_PER_CHANGE: usize = 2;

/// How many expired entries `flush_expired` throws out while it has the lock of a map.
const DROPPED_PER_LOCK: usize = 256;

/// How many places of a map it looks at while it has the lock.
const LOOKED_AT_PER_LOCK: usize = 1024;

/// Bytes of an entry beside key and value, as in lua-nginx-module.
const ENTRY_BYTES: usize = 68;

/// A value, owned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Boolean(bool),
    Number(f64),
    String(Box<[u8]>),
    List(VecDeque<list::Item>),
}

/// A value that is stored or read, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Boolean(bool),
    Number(f64),
    String(&'a [u8]),
}

impl Scalar<'_> {
    fn to_value(self) -> Value {
        match self {
            Self::Boolean(value) => Value::Boolean(value),
            Self::Number(value) => Value::Number(value),
            Self::String(value) => Value::String(value.into()),
        }
    }

    /// Bytes that lua-nginx-module stores.
    fn size(self) -> usize {
        match self {
            Self::Boolean(_) => 1,
            Self::Number(_) => 8,
            Self::String(value) => value.len(),
        }
    }
}

/// What a change may not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Set,
    Add,
    Replace,
}

/// Why nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotFound,
    Exists,
    NoMemory,
    NotANumber,
    NotAList,
}

/// A result and whether live entries had to go for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed<T> {
    pub(crate) result: Result<T, Refusal>,
    pub(crate) forcible: bool,
}

/// What [`Zone::get`] hands over.
pub(crate) enum Found<'a> {
    Scalar { value: Scalar<'a>, flags: u32, stale: bool },
    List,
}

/// A shared dictionary.
pub struct Zone {
    name: BString,
    size_bytes: usize,
    memory: Memory,
    hasher: RandomState,
    shards: Box<[Mutex<Map>]>,
}

/// Milliseconds since the process first asked.
fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX) + 2
}

/// The moment `ttl_ms` from now; 0 (never) for no time.
fn expiry(ttl_ms: f64) -> u64 {
    // The cast saturates; fractions are cut off as lua-nginx-module does.
    if ttl_ms >= 1.0 { now_ms().saturating_add(ttl_ms as u64) } else { 0 }
}

impl Zone {
    fn new(name: &BString, size_bytes: usize) -> Self {
        let count = (size_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        Self {
            name: name.clone(),
            size_bytes,
            memory: Memory::new(size_bytes),
            hasher: RandomState::new(),
            shards: (0..count).map(|_| Mutex::new(Map::new())).collect(),
        }
    }

    /// The zone of this name and size: the one that is in use, or a new one.
    pub(crate) fn open(name: &BString, size_bytes: usize) -> Arc<Self> {
        static ZONES: Mutex<Option<HashMap<(BString, usize), Weak<Zone>>>> = Mutex::new(None);
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        let zones = zones.get_or_insert_default();
        zones.retain(|_, zone| zone.strong_count() > 0);
        let slot = (name.clone(), size_bytes);
        if let Some(known) = zones.get(&slot).and_then(Weak::upgrade) {
            return known;
        }
        let zone = Arc::new(Self::new(name, size_bytes));
        zones.insert(slot, Arc::downgrade(&zone));
        zone
    }

    /// Its name.
    pub fn name(&self) -> &BString {
        &self.name
    }

    fn shard_index(&self, key: &[u8]) -> usize {
        if self.shards.len() == 1 { 0 } else { self.hasher.hash_one(key) as usize % self.shards.len() }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Map> {
        // A panic in a look-up leaves the map whole.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Map> {
        self.lock(self.shard_index(key))
    }

    /// Looks `key` up, an expired entry too if `stale` says so, and hands it to `found` under the map's lock.
    pub(crate) fn get<T>(&self, key: &[u8], stale: bool, found: impl FnOnce(Found<'_>) -> T) -> Option<T> {
        let mut map = self.shard(key);
        let generation = map.generation;
        let entry = map.entries.get(key)?;
        let expired = entry.is_expired(generation);
        if expired && !stale {
            return None;
        }
        let value = match &entry.value {
            Value::Boolean(value) => Scalar::Boolean(*value),
            Value::Number(value) => Scalar::Number(*value),
            Value::String(value) => Scalar::String(value),
            Value::List(_) => return Some(found(Found::List)),
        };
        Some(found(Found::Scalar { value, flags: entry.flags, stale: expired }))
    }

    /// Stores `value` under `key`. With `safe` no live entry is thrown out for it.
    pub(crate) fn store(
        &self,
        how: Store,
        safe: bool,
        key: &[u8],
        value: Scalar<'_>,
        ttl_ms: f64,
        flags: u32,
    ) -> Changed<()> {
        let block = Block::of(ENTRY_BYTES + key.len() + value.size());
        let mut forcible = false;
        loop {
            let mut map = self.shard(key);
            self.drop_expired(&mut map);
            let generation = map.generation;
            if let Some(entry) = map.entries.get_mut(key) {
                let live = !entry.is_expired(generation);
                match how {
                    Store::Add if live => return Changed { result: Err(Refusal::Exists), forcible },
                    Store::Replace if !live => return Changed { result: Err(Refusal::NotFound), forcible },
                    _ => {}
                }
                if entry.block == block && !matches!(entry.value, Value::List(_)) {
                    entry.put(value, flags, generation, expiry(ttl_ms));
                    return Changed { result: Ok(()), forcible };
                }
                self.remove(&mut map, key);
            } else if how == Store::Replace && !forcible {
                return Changed { result: Err(Refusal::NotFound), forcible };
            }
            if self.memory.take(block) {
                let entry = Entry { value: value.to_value(), flags, generation, expires_ms: expiry(ttl_ms), block };
                self.insert(&mut map, key, entry);
                return Changed { result: Ok(()), forcible };
            }
            drop(map);
            if safe || !self.make_room(key, block, &mut forcible) {
                return Changed { result: Err(Refusal::NoMemory), forcible };
            }
        }
    }

    /// Removes `key`.
    pub(crate) fn delete(&self, key: &[u8]) {
        let mut map = self.shard(key);
        self.drop_expired(&mut map);
        self.remove(&mut map, key);
    }

    /// Adds `by` to the number under `key`; where there is none, to `init` if given, to live for `ttl_ms`.
    pub(crate) fn incr(&self, key: &[u8], by: f64, init: Option<(f64, f64)>) -> Changed<f64> {
        let block = Block::of(ENTRY_BYTES + key.len() + 8);
        let mut forcible = false;
        loop {
            let mut map = self.shard(key);
            if init.is_some() {
                self.drop_expired(&mut map);
            }
            let generation = map.generation;
            if let Some(entry) = map.entries.get_mut(key) {
                if !entry.is_expired(generation) {
                    let Value::Number(number) = &mut entry.value else {
                        return Changed { result: Err(Refusal::NotANumber), forcible };
                    };
                    *number += by;
                    return Changed { result: Ok(*number), forcible };
                }
                let Some((start, ttl_ms)) = init else {
                    return Changed { result: Err(Refusal::NotFound), forcible };
                };
                if entry.block == block && !matches!(entry.value, Value::List(_)) {
                    entry.put(Scalar::Number(start + by), 0, generation, expiry(ttl_ms));
                    return Changed { result: Ok(start + by), forcible };
                }
                self.remove(&mut map, key);
            }
            let Some((start, ttl_ms)) = init else {
                return Changed { result: Err(Refusal::NotFound), forcible };
            };
            if self.memory.take(block) {
                let value = Value::Number(start + by);
                let entry = Entry { value, flags: 0, generation, expires_ms: expiry(ttl_ms), block };
                self.insert(&mut map, key, entry);
                return Changed { result: Ok(start + by), forcible };
            }
            drop(map);
            if !self.make_room(key, block, &mut forcible) {
                return Changed { result: Err(Refusal::NoMemory), forcible };
            }
        }
    }

    /// Milliseconds that `key` has to live, 0 for ever, negative when it is expired but not yet gone.
    pub(crate) fn ttl_ms(&self, key: &[u8]) -> Option<i64> {
        let mut map = self.shard(key);
        let generation = map.generation;
        let entry = map.entries.get(key)?;
        match entry.expires_ms {
            _ if entry.generation != generation => Some(EXPIRED_MS.cast_signed() - now_ms().cast_signed()),
            0 => Some(0),
            expires_ms => Some(expires_ms.cast_signed().wrapping_sub(now_ms().cast_signed())),
        }
    }

    /// Gives `key` a new time to live, 0 for ever; `false` when there is no such key. As in lua-nginx-module one that is
    /// expired but not yet gone lives again.
    pub(crate) fn expire(&self, key: &[u8], ttl_ms: f64) -> bool {
        let mut map = self.shard(key);
        let generation = map.generation;
        match map.entries.get_mut(key) {
            Some(entry) => {
                (entry.expires_ms, entry.generation) = (expiry(ttl_ms), generation);
                true
            }
            None => false,
        }
    }

    /// Lets every entry expire.
    pub(crate) fn flush_all(&self) {
        for index in 0..self.shards.len() {
            self.lock(index).flush();
        }
    }

    /// Removes up to `max` expired entries (all of them for 0), and gives their number.
    pub(crate) fn flush_expired(&self, max: usize) -> usize {
        let max = if max == 0 { usize::MAX } else { max };
        let mut count = 0;
        for index in 0..self.shards.len() {
            // Most of those that have expired are the oldest. Others may have the lock in between.
            loop {
                let dropped = self.drop_oldest_expired(&mut self.lock(index), DROPPED_PER_LOCK.min(max - count));
                count += dropped;
                if dropped < DROPPED_PER_LOCK {
                    break;
                }
            }
            count += self.drop_expired_anywhere(index, max - count);
            if count >= max {
                break;
            }
        }
        count
    }

    /// Removes up to `max` expired entries of a map, wherever they stand, and gives their number.
    fn drop_expired_anywhere(&self, index: usize, max: usize) -> usize {
        let (mut count, mut begin) = (0, 0);
        let now_ms = now_ms();
        loop {
            // Others may have the lock in between: what they store has not expired.
            let mut map = self.lock(index);
            let end = map.entries.place_count();
            if begin >= end || count >= max {
                return count;
            }
            let part = begin..end.min(begin + LOOKED_AT_PER_LOCK);
            begin = part.end;
            for place in part {
                let generation = map.generation;
                let is_expired = |entry: &Entry| entry.is_expired_at(generation, || now_ms);
                if count < max && map.entries.at(place).is_some_and(is_expired) {
                    if let Some(entry) = map.entries.take(place) {
                        self.give_back(&entry);
                    }
                    count += 1;
                }
            }
        }
    }

    /// Up to `max` keys, those used last first, or all of them for 0, in no order. One map after the other is locked for it.
    pub(crate) fn keys(&self, max: usize) -> Keys {
        let now_ms = now_ms();
        let mut keys = Keys::default();
        for index in 0..self.shards.len() {
            let map = self.lock(index);
            let is_live = |(_, entry): &(&[u8], &Entry)| !entry.is_expired_at(map.generation, || now_ms);
            if max == 0 {
                map.entries.iter().filter(is_live).for_each(|(key, _)| keys.push(key));
            } else {
                let newest = map.entries.by_use().filter(is_live);
                newest.take(max - keys.len()).for_each(|(key, _)| keys.push(key));
            }
        }
        keys
    }

    /// The size that the directive gives.
    pub(crate) fn capacity(&self) -> usize {
        self.size_bytes
    }

    /// Bytes of pages that nothing is in.
    pub(crate) fn free_space(&self) -> usize {
        self.memory.free_bytes()
    }

    fn insert(&self, map: &mut Map, key: &[u8], entry: Entry) {
        if let Some(old) = map.entries.put(key, entry) {
            self.give_back(&old);
        }
    }

    fn remove(&self, map: &mut Map, key: &[u8]) {
        if let Some(entry) = map.entries.pop(key) {
            self.give_back(&entry);
        }
    }

    fn give_back(&self, entry: &Entry) {
        self.memory.give(entry.block);
        if let Value::List(items) = &entry.value {
            for item in items {
                self.memory.give(item.block());
            }
        }
    }

    /// Removes the oldest entries of `map` if they are expired.
    fn drop_expired(&self, map: &mut Map) {
        self.drop_oldest_expired(map, EXPIRED_PER_CHANGE);
    }

    /// Removes up to `max` of the oldest entries of `map`, as far as they are expired, and gives their number.
    fn drop_oldest_expired(&self, map: &mut Map, max: usize) -> usize {
        for count in 0..max {
            match map.entries.peek_oldest() {
                Some(entry) if entry.is_expired(map.generation) => {
                    if let Some(entry) = map.entries.pop_oldest() {
                        self.give_back(&entry);
                    }
                }
                _ => return count,
            }
        }
        max
    }

    /// Throws out the oldest entries, of the map of `key` first, until `block` fits in. `false` when it cannot.
    fn make_room(&self, key: &[u8], block: Block, forcible: &mut bool) -> bool {
        let first = self.shard_index(key);
        let possible = self.memory.could_hold(block);
        for offset in 0..self.shards.len() {
            let index = (first + offset) % self.shards.len();
            loop {
                let mut map = self.lock(index);
                for _ in 0..EVICTIONS_PER_LOCK {
                    let Some(entry) = map.entries.pop_oldest() else { break };
                    *forcible |= !entry.is_expired(map.generation);
                    self.give_back(&entry);
                    if self.memory.has_room(block) {
                        return true;
                    }
                }
                if !possible {
                    return false;
                }
                if map.entries.is_empty() {
                    break;
                }
            }
        }
        self.memory.has_room(block)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(size: usize) -> Zone {
        Zone::new(&"test".into(), size)
    }

    fn set(zone: &Zone, key: &str, value: Scalar<'_>) -> Changed<()> {
        zone.store(Store::Set, false, key.as_bytes(), value, 0.0, 0)
    }

    fn text(zone: &Zone, key: &str) -> Option<String> {
        zone.get(key.as_bytes(), false, |found| match found {
            Found::List => "list".to_owned(),
            Found::Scalar { value, .. } => format!("{value:?}"),
        })
    }

    #[test]
    fn store_add_replace_delete() {
        let zone = zone(100 << 10);
        let change = |how| zone.store(how, false, b"k", Scalar::Number(1.0), 0.0, 7).result;
        assert_eq!(change(Store::Replace), Err(Refusal::NotFound));
        assert_eq!(change(Store::Add), Ok(()));
        assert_eq!(change(Store::Add), Err(Refusal::Exists));
        assert_eq!(change(Store::Replace), Ok(()));
        assert_eq!(text(&zone, "k").as_deref(), Some("Number(1.0)"));
        assert_eq!(set(&zone, "k", Scalar::String(b"abc")).result, Ok(()));
        assert_eq!(text(&zone, "k").as_deref(), Some("String([97, 98, 99])"));
        assert_eq!(zone.incr(b"k", 1.0, None).result, Err(Refusal::NotANumber));
        zone.delete(b"k");
        assert_eq!(text(&zone, "k"), None);
        assert_eq!(zone.incr(b"k", 1.0, None).result, Err(Refusal::NotFound));
        assert_eq!(zone.incr(b"k", 1.0, Some((5.0, 0.0))).result, Ok(6.0));
        assert_eq!(zone.incr(b"k", -0.5, None).result, Ok(5.5));
        assert_eq!(zone.keys(0).len(), 1);
    }

    #[test]
    fn the_oldest_goes_when_memory_is_short() {
        let zone = zone(16 << 10);
        assert_eq!(zone.free_space(), 4096);
        let mut count = 0;
        while !set(&zone, &format!("{count:04}"), Scalar::Number(1.0)).forcible {
            count += 1;
        }
        assert_eq!(count, 31 + 32, "blocks of 128 bytes: beside the root, and a page of them");
        assert_eq!(text(&zone, "0000"), None);
        assert!(text(&zone, "0001").is_some());
        assert_eq!(set(&zone, "big", Scalar::String(&[0; 20000])).result, Err(Refusal::NoMemory));
        let safe = zone.store(Store::Set, true, &[1; 300], Scalar::Boolean(true), 0.0, 0);
        assert_eq!(safe, Changed { result: Err(Refusal::NoMemory), forcible: false });
        zone.flush_all();
        assert!(zone.flush_expired(1) == 1 && zone.keys(0).len() == 0);
        zone.flush_expired(0);
        assert_eq!(zone.free_space(), 4096);
    }

    #[test]
    fn what_is_flushed_expires_until_it_is_stored_again() {
        let zone = zone(4 << 20);
        for round in 0..3 {
            for number in 0..1000 {
                set(&zone, &format!("{number}"), Scalar::Number(1.0));
            }
            if round == 2 {
                // The numbers of generations come round.
                for shard in &zone.shards {
                    shard.lock().expect("no panic").generation = u32::MAX;
                }
                for number in 0..1000 {
                    set(&zone, &format!("{number}"), Scalar::Number(1.0));
                }
            }
            assert_eq!(zone.keys(0).len(), 1000);
            assert_eq!(zone.keys(10).iter().count(), 10);
            zone.flush_all();
            assert_eq!((zone.keys(0).len(), text(&zone, "7")), (0, None));
            assert!(zone.get(b"7", true, |_| ()).is_some() && zone.ttl_ms(b"7").is_some_and(|ttl_ms| ttl_ms < 0));
            assert!(zone.expire(b"7", 0.0) && text(&zone, "7").is_some());
            set(&zone, "8", Scalar::Number(1.0));
            assert_eq!(zone.incr(b"9", 1.0, Some((4.0, 0.0))).result, Ok(5.0));
            assert_eq!(zone.keys(0).len(), 3);
            let dropped = zone.flush_expired(600);
            assert_eq!(dropped, 600);
            zone.flush_expired(0);
            assert_eq!(zone.keys(0).len(), 3);
            (7..10).for_each(|number| zone.delete(format!("{number}").as_bytes()));
            assert_eq!(zone.free_space(), Memory::new(4 << 20).free_bytes());
        }
    }

    #[test]
    fn a_zone_is_shared_while_in_use() {
        let first = Zone::open(&"shared".into(), 1 << 20);
        assert!(Arc::ptr_eq(&first, &Zone::open(&"shared".into(), 1 << 20)));
        assert!(!Arc::ptr_eq(&first, &Zone::open(&"shared".into(), 2 << 20)));
    }

    #[test]
    fn many_threads() {
        let zone = zone(8 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let zone = &zone;
                scope.spawn(move || {
                    for number in 0..2000u32 {
                        let value = vec![b'x'; (number as usize * 7 + thread) % 9000];
                        set(zone, &format!("{thread}-{number}"), Scalar::String(&value));
                        zone.incr(b"count", 1.0, Some((0.0, 0.0)));
                    }
                });
            }
        });
        zone.flush_all();
        zone.flush_expired(0);
        assert_eq!(zone.free_space(), Memory::new(8 << 20).free_bytes());
    }
}
