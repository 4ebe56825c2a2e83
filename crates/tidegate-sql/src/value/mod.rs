//! Values: their types, their stored form and the arithmetic that SQLite does not have.
//!
//! | MySQL | stored as (`docs/storage-format.md`) |
//! | --- | --- |
//! | integers, YEAR | INTEGER |
//! | BIGINT UNSIGNED, BIT, SET | INTEGER up to 2^63-1, above an 8-byte big-endian BLOB |
//! | DECIMAL | BLOB of [`decimal`], in numeric order |
//! | FLOAT, DOUBLE | REAL |
//! | DATE, DATETIME | INTEGER, [`temporal`]'s packed form |
//! | TIMESTAMP | INTEGER, microseconds since 1970 in UTC |
//! | TIME | INTEGER, microseconds |
//! | ENUM | INTEGER, the member's number |
//! | characters, JSON | TEXT in UTF-8 |
//! | binary strings | BLOB |
//! | UUID, INET4, INET6 | BLOB of [`fixed`], in their order |

pub(crate) mod beginning;
mod cell;
pub(crate) mod collation;
pub(crate) mod decimal;
pub(crate) mod fixed;
pub(crate) mod json;
pub(crate) mod latin1;
pub(crate) mod local;
pub(crate) mod number;
pub(crate) mod one_byte;
pub(crate) mod out;
pub(crate) mod prefix;
pub(crate) mod temporal;
pub(crate) mod texts;
pub(crate) mod types;
pub(crate) mod uca;
pub(crate) mod val;
mod weights;

pub(crate) use cell::Cell;
pub(crate) use fixed::Fixed;
pub(crate) use types::{Base, Rep, SqlType};
pub(crate) use val::Val;

/// A stored value that owns its bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Datum {
    #[default]
    Null,
    Int(i64),
    Real(f64),
    Text(Box<[u8]>),
    Blob(Box<[u8]>),
}

impl Datum {
    /// Bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        let outside = match self {
            Datum::Text(data) | Datum::Blob(data) => data.len(),
            Datum::Null | Datum::Int(_) | Datum::Real(_) => 0,
        };
        size_of::<Self>() + outside
    }

    /// The value as SQLite takes it.
    pub(crate) fn as_cell(&self) -> Cell<'_> {
        match self {
            Datum::Null => Cell::Null,
            Datum::Int(value) => Cell::Int(*value),
            Datum::Real(value) => Cell::Real(*value),
            Datum::Text(text) => Cell::Text(text),
            Datum::Blob(blob) => Cell::Blob(blob),
        }
    }

    /// An unsigned integer in its stored form.
    pub(crate) fn from_u64(value: u64) -> Self {
        match i64::try_from(value) {
            Ok(value) => Datum::Int(value),
            Err(_) => Datum::Blob(Box::new(value.to_be_bytes())),
        }
    }

    /// Text.
    pub(crate) fn text(text: impl AsRef<[u8]>) -> Self {
        Datum::Text(text.as_ref().into())
    }

    /// Whether this is NULL.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}

/// An unsigned integer from its stored form; negative numbers wrap, as MySQL's casts do.
pub(crate) fn uint_of(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Int(value) => value as u64,
        Cell::Blob(blob) => blob.iter().fold(0, |value: u64, byte| (value << 8) | u64::from(*byte)),
        Cell::Real(value) => value as u64,
        Cell::Null | Cell::Text(_) => 0,
    }
}
