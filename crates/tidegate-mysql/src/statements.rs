//! Prepared statements of a connection: the packets, and which statements are kept.
//!
//! Source: MySQL internals, "Prepared Statements".

use std::hash::{BuildHasher, RandomState};

use tidegate_rows::Param;

use crate::wire::{Malformed, Reader, put_lenenc_bytes};

/// Command that prepares a statement.
pub const COM_STMT_PREPARE: u8 = 0x16;
/// Command that runs one.
pub const COM_STMT_EXECUTE: u8 = 0x17;
/// Command that forgets one; it has no answer.
pub const COM_STMT_CLOSE: u8 = 0x19;

/// Types of parameters, see [`tidegate_rows::ColumnType`]; the high byte says unsigned.
const TYPE_NULL: u16 = 6;
const TYPE_LONGLONG: u16 = 8;
const TYPE_LONGLONG_UNSIGNED: u16 = 8 | 0x8000;
const TYPE_DOUBLE: u16 = 5;
const TYPE_VAR_STRING: u16 = 253;

/// A statement that the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The server's number for it.
    pub id: u32,
    /// Number of parameters.
    pub params: u16,
    /// Number of columns.
    pub columns: u16,
}

impl Prepared {
    /// Reads the answer to [`COM_STMT_PREPARE`].
    ///
    /// # Errors
    /// Another packet.
    pub fn read(packet: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(packet);
        if reader.u8()? != 0 {
            return Err(Malformed("not the answer to a prepare"));
        }
        let (id, columns, params) = (reader.u32()?, reader.u16()?, reader.u16()?);
        Ok(Self { id, params, columns })
    }
}

/// Appends the payload of [`COM_STMT_EXECUTE`].
///
/// ```text
/// 0x17 | id u32 | cursor u8 (0: none) | 1 u32 | bits of NULL | 1 u8 | types u16 … | values …
/// ```
pub fn put_execute(out: &mut Vec<u8>, id: u32, params: &[Param]) {
    out.push(COM_STMT_EXECUTE);
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    if params.is_empty() {
        return;
    }
    let nulls = out.len();
    out.resize(nulls + params.len().div_ceil(8), 0);
    out.push(1);
    for (index, param) in params.iter().enumerate() {
        let kind = match param {
            Param::Null => {
                out[nulls + index / 8] |= 1 << (index % 8);
                TYPE_NULL
            }
            Param::Int(_) => TYPE_LONGLONG,
            Param::Uint(_) => TYPE_LONGLONG_UNSIGNED,
            Param::Double(_) => TYPE_DOUBLE,
            Param::Bytes(_) | Param::Typed(..) => TYPE_VAR_STRING,
        };
        out.extend_from_slice(&kind.to_le_bytes());
    }
    for param in params {
        match param {
            Param::Null => {}
            Param::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::Uint(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::Bytes(value) | Param::Typed(_, value) => put_lenenc_bytes(out, value),
        }
    }
}

/// The statements that a connection keeps; the one that was not used for longest goes first.
#[derive(Debug)]
pub struct StatementCache {
    /// Beside each other so that a search touches little memory: at most [`max`](Self::max) of them.
    hashes: Vec<u64>,
    entries: Vec<Entry>,
    max: usize,
    clock: u64,
    hasher: RandomState,
}

#[derive(Debug)]
struct Entry {
    sql: Box<[u8]>,
    prepared: Prepared,
    used: u64,
}

impl StatementCache {
    /// An empty cache for `max` statements.
    pub fn new(max: usize) -> Self {
        Self { hashes: Vec::new(), entries: Vec::new(), max: max.max(1), clock: 0, hasher: RandomState::new() }
    }

    /// The statement with this text.
    pub fn get(&mut self, sql: &[u8]) -> Option<Prepared> {
        self.clock += 1;
        let at = self.position(sql)?;
        self.entries[at].used = self.clock;
        Some(self.entries[at].prepared)
    }

    /// Keeps a statement. Returns the one that had to go, which the server must be told.
    pub fn insert(&mut self, sql: &[u8], prepared: Prepared) -> Option<Prepared> {
        let gone = if self.entries.len() >= self.max { self.remove_oldest() } else { None };
        self.hashes.push(self.hasher.hash_one(sql));
        self.entries.push(Entry { sql: sql.into(), prepared, used: self.clock });
        gone
    }

    /// Forgets a statement.
    pub fn remove(&mut self, sql: &[u8]) -> Option<Prepared> {
        let at = self.position(sql)?;
        self.hashes.swap_remove(at);
        Some(self.entries.swap_remove(at).prepared)
    }

    /// Forgets all: the server has.
    pub fn clear(&mut self) {
        self.hashes.clear();
        self.entries.clear();
    }

    fn position(&self, sql: &[u8]) -> Option<usize> {
        if self.hashes.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(sql);
        let mut candidates = self.hashes.iter().zip(&self.entries);
        candidates.position(|(found, entry)| *found == hash && *entry.sql == *sql)
    }

    fn remove_oldest(&mut self) -> Option<Prepared> {
        let at = (0..self.entries.len()).min_by_key(|at| self.entries[*at].used)?;
        self.hashes.swap_remove(at);
        Some(self.entries.swap_remove(at).prepared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn prepared(id: u32) -> Prepared {
        Prepared { id, params: 0, columns: 0 }
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut cache = StatementCache::new(2);
        assert_eq!(cache.get(b"a"), None);
        assert_eq!(cache.insert(b"a", prepared(1)), None);
        assert_eq!(cache.get(b"b"), None);
        assert_eq!(cache.insert(b"b", prepared(2)), None);
        assert_eq!(cache.get(b"a"), Some(prepared(1)));
        assert_eq!(cache.get(b"c"), None);
        assert_eq!(cache.insert(b"c", prepared(3)), Some(prepared(2)));
        assert_eq!((cache.get(b"a"), cache.get(b"b"), cache.get(b"c")), (Some(prepared(1)), None, Some(prepared(3))));
        assert_eq!(cache.remove(b"a"), Some(prepared(1)));
        assert_eq!(cache.get(b"a"), None);
        cache.clear();
        assert_eq!(cache.get(b"c"), None);
    }

    #[test]
    fn answers() {
        let found = Prepared::read(b"\0\x07\0\0\0\x02\0\x03\0\0\0\0").unwrap();
        assert_eq!(found, Prepared { id: 7, columns: 2, params: 3 });
        assert!(Prepared::read(b"\x01").is_err());
        assert!(Prepared::read(b"\0\x07\0").is_err());
    }

    #[test]
    fn executions() {
        let mut out = Vec::new();
        let params =
            [Param::Int(-1), Param::Null, Param::Uint(2), Param::Double(1.5), Param::Bytes(Bytes::from_static(b"x'"))];
        put_execute(&mut out, 7, &params);
        let expected: &[&[u8]] = &[
            b"\x17\x07\0\0\0\0\x01\0\0\0",
            b"\x02\x01",
            b"\x08\0\x06\0\x08\x80\x05\0\xfd\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x02\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\xf8\x3f",
            b"\x02x'",
        ];
        assert_eq!(out, expected.concat());
        let mut out = Vec::new();
        put_execute(&mut out, 7, &[]);
        assert_eq!(out, b"\x17\x07\0\0\0\0\x01\0\0\0");
    }
}
