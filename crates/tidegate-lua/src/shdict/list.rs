//! Values that are lists: `lpush`, `rpush`, `lpop`, `rpop`, `llen`.

use std::collections::VecDeque;

use super::memory::Block;
use super::{Changed, ENTRY_BYTES, Entry, Refusal, Scalar, Value, Zone};

/// Bytes of a list's element beside its value, as in lua-nginx-module.
const ITEM_BYTES: usize = 24;

/// An element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Number(f64),
    String(Box<[u8]>),
}

impl Item {
    fn of(value: Scalar<'_>) -> Self {
        match value {
            Scalar::Boolean(value) => Self::Number(f64::from(u8::from(value))),
            Scalar::Number(value) => Self::Number(value),
            Scalar::String(value) => Self::String(value.into()),
        }
    }

    fn as_scalar(&self) -> Scalar<'_> {
        match self {
            Self::Number(value) => Scalar::Number(*value),
            Self::String(value) => Scalar::String(value),
        }
    }

    pub(super) fn block(&self) -> Block {
        Block::of(ITEM_BYTES + self.as_scalar().size())
    }
}

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

impl Zone {
    /// Adds an element to the list under `key`, which begins with it if there is none, and gives the list's length.
    pub(crate) fn push(&self, key: &[u8], end: End, value: Scalar<'_>) -> Result<usize, Refusal> {
        let block = Block::of(ENTRY_BYTES + key.len());
        let item = Item::of(value);
        let mut map = self.shard(key);
        self.drop_expired(&mut map);
        let generation = map.generation;
        if map.entries.get(key).is_some_and(|entry| entry.is_expired(generation)) {
            self.remove(&mut map, key);
        }
        let known = map.entries.contains(key);
        if !known && !self.memory.take(block) {
            return Err(Refusal::NoMemory);
        }
        if !self.memory.take(item.block()) {
            if !known {
                self.memory.give(block);
            }
            return Err(Refusal::NoMemory);
        }
        if !known {
            let entry = Entry { value: Value::List(VecDeque::new()), flags: 0, generation, expires_ms: 0, block };
            self.insert(&mut map, key, entry);
        }
        let Some(Value::List(items)) = map.entries.get_mut(key).map(|entry| &mut entry.value) else {
            self.memory.give(item.block());
            return Err(Refusal::NotAList);
        };
        match end {
            End::Left => items.push_front(item),
            End::Right => items.push_back(item),
        }
        Ok(items.len())
    }

    /// Takes an element off the list under `key`; an empty list goes. `found` sees it under the map's lock.
    pub(crate) fn pop<T>(
        &self,
        key: &[u8],
        end: End,
        found: impl FnOnce(Scalar<'_>) -> T,
    ) -> Result<Option<T>, Refusal> {
        let mut map = self.shard(key);
        self.drop_expired(&mut map);
        let generation = map.generation;
        let items = match map.entries.get_mut(key) {
            Some(entry) if !entry.is_expired(generation) => match &mut entry.value {
                Value::List(items) => items,
                _ => return Err(Refusal::NotAList),
            },
            _ => return Ok(None),
        };
        let item = match end {
            End::Left => items.pop_front(),
            End::Right => items.pop_back(),
        };
        let empty = items.is_empty();
        if let Some(item) = &item {
            self.memory.give(item.block());
        }
        if empty {
            self.remove(&mut map, key);
        }
        Ok(item.map(|item| found(item.as_scalar())))
    }

    /// Length of the list under `key`; 0 if there is none.
    pub(crate) fn list_len(&self, key: &[u8]) -> Changed<usize> {
        let mut map = self.shard(key);
        self.drop_expired(&mut map);
        let generation = map.generation;
        let result = match map.entries.get(key) {
            Some(entry) if !entry.is_expired(generation) => match &entry.value {
                Value::List(items) => Ok(items.len()),
                _ => Err(Refusal::NotAList),
            },
            _ => Ok(0),
        };
        Changed { result, forcible: false }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    #[test]
    fn both_ends() {
        let zone = Zone::new(&"test".into(), 100 << 10);
        let free = zone.free_space();
        assert_eq!(zone.push(b"l", End::Left, Scalar::Number(1.0)), Ok(1));
        assert_eq!(zone.push(b"l", End::Right, Scalar::String(b"r")), Ok(2));
        assert_eq!(zone.push(b"l", End::Left, Scalar::Number(0.0)), Ok(3));
        assert_eq!(zone.list_len(b"l").result, Ok(3));
        let text = |value: Scalar<'_>| format!("{value:?}");
        assert_eq!(zone.pop(b"l", End::Right, text), Ok(Some("String([114])".to_owned())));
        assert_eq!(zone.pop(b"l", End::Left, text), Ok(Some("Number(0.0)".to_owned())));
        assert_eq!(zone.pop(b"l", End::Left, text), Ok(Some("Number(1.0)".to_owned())));
        assert_eq!(zone.pop(b"l", End::Left, text), Ok(None));
        assert_eq!(zone.free_space(), free, "an empty list is gone");
        let _ = zone.store(Store::Set, false, b"s", Scalar::Boolean(true), 0.0, 0);
        assert_eq!(zone.push(b"s", End::Left, Scalar::Number(1.0)), Err(Refusal::NotAList));
        assert_eq!(zone.pop(b"s", End::Left, text), Err(Refusal::NotAList));
        assert_eq!(zone.list_len(b"s").result, Err(Refusal::NotAList));
    }
}
