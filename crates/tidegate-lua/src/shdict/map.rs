//! A part of a zone: entries in the order of their use, all of which can expire at once.

use super::{Scalar, Value, memory::Block, now_ms, recency::Entries};

/// An entry of a zone.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) flags: u32,
    /// That of its map when the entry was stored.
    pub(super) generation: u32,
    /// Milliseconds on the zone's clock; 0 for never.
    pub(super) expires_ms: u64,
    pub(super) block: Block,
}

impl Entry {
    /// `generation`: the map's.
    pub(super) fn is_expired(&self, generation: u32) -> bool {
        self.is_expired_at(generation, now_ms)
    }
    /// The same for many entries, with one look at the clock or none.
    pub(super) fn is_expired_at(&self, generation: u32, now_ms: impl FnOnce() -> u64) -> bool {
        self.generation != generation || (self.expires_ms != 0 && self.expires_ms <= now_ms())
    }
    /// Replaces a scalar by one of the same block.
    pub(super) fn put(&mut self, value: Scalar<'_>, flags: u32, generation: u32, expires_ms: u64) {
        match (&mut self.value, value) {
            (Value::String(old), Scalar::String(new)) if old.len() == new.len() => old.copy_from_slice(new),
            (old, new) => *old = new.to_value(),
        }
        (self.flags, self.generation) = (flags, generation);
        self.expires_ms = expires_ms;
    }
}

/// A map with its entries in the order of their use.
pub(super) struct Map {
    pub(super) entries: Entries<Entry>,
    /// Entries of another generation have expired: `flush_all` touches none of them.
    pub(super) generation: u32,
}

impl Map {
    pub(super) fn new() -> Self {
        Map { entries: Entries::new(), generation: 0 }
    }
    /// Lets every entry expire.
    pub(super) fn flush(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // No entry comes to life again because the numbers do.
            for entry in self.entries.values_mut() {
                (entry.expires_ms, entry.generation) = (EXPIRED_MS, 0);
            }
        }
    }
}

/// A time that is over, on the zone's clock.
pub(super) const EXPIRED_MS: u64 = 1;

/// Keys, one behind the other.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut begin, *end)..*end])
    }
    pub(super) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}
