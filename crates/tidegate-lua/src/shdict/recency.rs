//! Entries by key, in the order of their use, in one piece of memory.
//!
//! The entries stand in a list of places, one behind the other, and know their neighbours in the order of use by place. So
//! all of them can be looked at as fast as memory is read, and in parts: an entry keeps its place for as long as it is
//! there. (`lru` has a block of memory for each, which a look at all of them follows from one to the next.)

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

/// The place of no entry.
const NONE: usize = usize::MAX;

/// So many places are kept when the last entry goes; more are given back.
const PLACES_KEPT: usize = 1024;

/// An entry with its neighbours.
#[derive(Debug)]
struct Node<T> {
    key: Box<[u8]>,
    value: T,
    hash: u64,
    /// Who was used after it.
    newer: usize,
    /// Who was used before it.
    older: usize,
}

/// Values by key.
#[derive(Debug)]
pub(super) struct Entries<T> {
    hasher: DefaultHashBuilder,
    /// Places of keys.
    places: HashTable<usize>,
    nodes: Slab<Node<T>>,
    newest: usize,
    oldest: usize,
}

impl<T> Entries<T> {
    pub(super) fn new() -> Self {
        Entries {
            hasher: DefaultHashBuilder::default(),
            places: HashTable::new(),
            nodes: Slab::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.find(self.hasher.hash_one(key), key).is_some()
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let is_same = |&place: &usize| self.nodes.get(place).is_some_and(|node| *node.key == *key);
        self.places.find(hash, is_same).copied()
    }

    /// The value of `key`, which counts as used.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<&T> {
        self.get_mut(key).map(|value| &*value)
    }

    /// The value of `key`, which counts as used.
    pub(super) fn get_mut(&mut self, key: &[u8]) -> Option<&mut T> {
        let place = self.find(self.hasher.hash_one(key), key)?;
        if place != self.newest {
            self.unlink(place);
            self.link(place);
        }
        self.nodes.get_mut(place).map(|node| &mut node.value)
    }

    /// Stores a value, which counts as used, and gives the one that was there.
    pub(super) fn put(&mut self, key: &[u8], value: T) -> Option<T> {
        if let Some(known) = self.get_mut(key) {
            return Some(std::mem::replace(known, value));
        }
        let hash = self.hasher.hash_one(key);
        let place = self.nodes.insert(Node { key: key.into(), value, hash, newer: NONE, older: NONE });
        self.places.insert_unique(hash, place, |&other| self.nodes.get(other).map_or(0, |node| node.hash));
        self.link(place);
        None
    }

    /// Takes `key` out.
    pub(super) fn pop(&mut self, key: &[u8]) -> Option<T> {
        let place = self.find(self.hasher.hash_one(key), key)?;
        self.take(place)
    }

    /// Takes out what was not used for the longest time.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        self.take(self.oldest)
    }

    /// What was not used for the longest time.
    pub(super) fn peek_oldest(&self) -> Option<&T> {
        self.nodes.get(self.oldest).map(|node| &node.value)
    }

    /// Takes out what stands in a place.
    pub(super) fn take(&mut self, place: usize) -> Option<T> {
        let hash = self.nodes.get(place)?.hash;
        self.unlink(place);
        if let Ok(found) = self.places.find_entry(hash, |&other| other == place) {
            found.remove();
        }
        let node = self.nodes.try_remove(place)?;
        if self.nodes.is_empty() && self.nodes.capacity() > PLACES_KEPT {
            (self.nodes, self.places) = (Slab::new(), HashTable::new());
        }
        Some(node.value)
    }

    /// Keys and values, those used last first.
    pub(super) fn by_use(&self) -> impl Iterator<Item = (&[u8], &T)> {
        let mut next = self.newest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next)?;
            next = node.older;
            Some((&*node.key, &node.value))
        })
    }

    /// Keys and values, in no order, but fast.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.nodes.iter().map(|(_, node)| (&*node.key, &node.value))
    }

    /// All values, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|(_, node)| &mut node.value)
    }

    /// How many places there are, with an entry or without.
    pub(super) fn place_count(&self) -> usize {
        self.nodes.capacity()
    }

    /// What stands in a place.
    pub(super) fn at(&self, place: usize) -> Option<&T> {
        self.nodes.get(place).map(|node| &node.value)
    }

    /// Makes what stands in `place`, and has no neighbours, the newest.
    fn link(&mut self, place: usize) {
        let older = std::mem::replace(&mut self.newest, place);
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = place,
            None => self.oldest = place,
        }
        if let Some(node) = self.nodes.get_mut(place) {
            (node.newer, node.older) = (NONE, older);
        }
    }

    /// Takes what stands in `place` out of the order.
    fn unlink(&mut self, place: usize) {
        let Some(node) = self.nodes.get(place) else { return };
        let (newer, older) = (node.newer, node.older);
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(entries: &Entries<u32>) -> String {
        entries.by_use().map(|(key, _)| char::from(key[0])).collect()
    }

    #[test]
    fn the_order_is_that_of_use() {
        let mut entries = Entries::new();
        assert!(entries.is_empty() && entries.peek_oldest().is_none() && entries.pop_oldest().is_none());
        for (number, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            assert_eq!(entries.put(key, number as u32), None);
        }
        assert_eq!(keys(&entries), "dcba");
        assert_eq!(entries.get(b"a"), Some(&0));
        assert_eq!(entries.get(b"x"), None);
        assert_eq!(keys(&entries), "adcb");
        assert_eq!(entries.put(b"c", 7), Some(2));
        assert_eq!(keys(&entries), "cadb");
        assert_eq!((entries.pop(b"a"), entries.pop(b"a")), (Some(0), None));
        assert_eq!(keys(&entries), "cdb");
        assert_eq!(entries.peek_oldest(), Some(&1));
        assert_eq!(entries.pop_oldest(), Some(1));
        assert_eq!(entries.put(b"e", 5), None);
        assert_eq!(keys(&entries), "ecd");
        assert!(entries.contains(b"c") && !entries.contains(b"a"));
        let mut all: Vec<_> = entries.iter().map(|(_, value)| *value).collect();
        all.sort_unstable();
        assert_eq!(all, [3, 5, 7]);
        for key in [b"c", b"e", b"d"] {
            assert!(entries.pop(key).is_some());
        }
        assert!(entries.is_empty() && keys(&entries).is_empty() && entries.pop_oldest().is_none());
    }

    #[test]
    fn places_stay_and_are_used_again() {
        let mut entries = Entries::new();
        for number in 0..1000_u32 {
            entries.put(&number.to_be_bytes(), number);
        }
        let odd: Vec<_> =
            (0..entries.place_count()).filter(|place| entries.at(*place).is_some_and(|n| n % 2 == 1)).collect();
        let mut taken: Vec<_> = odd.iter().filter_map(|place| entries.take(*place)).collect();
        taken.sort_unstable();
        assert!(taken.into_iter().eq((0..1000).filter(|number| number % 2 == 1)));
        for number in 0..1000_u32 {
            assert_eq!(entries.get(&number.to_be_bytes()).copied(), (number % 2 == 0).then_some(number));
        }
        for number in 0..1000_u32 {
            entries.put(&number.to_be_bytes(), number);
        }
        assert_eq!(
            entries.by_use().map(|(_, number)| *number).collect::<Vec<_>>(),
            (0..1000).rev().collect::<Vec<_>>()
        );
        let used = (0..entries.place_count()).filter(|place| entries.at(*place).is_some()).count();
        assert_eq!(used, 1000);
    }
}
