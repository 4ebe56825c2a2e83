//! Single values: what a row holds, and what a statement's parameters are.

use bytes::Bytes;

use crate::ColumnType;

/// A value of a row, borrowed from the buffer that it arrived in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL's NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Double(f64),
    /// Everything else, and every type in MySQL's text protocol: the column's type tells what the text means
    /// (a decimal, a date, characters in the connection's character set, raw bytes).
    Bytes(&'a [u8]),
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    /// Bytes, or NULL.
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Value::Null, Value::Bytes)
    }
}

/// A value bound to a statement's parameter. Never part of the statement's text.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// SQL's NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A double-precision number.
    Double(f64),
    /// Characters or raw bytes.
    Bytes(Bytes),
    /// The text of a DATE, DATETIME, TIME or DECIMAL.
    Typed(ColumnType, Bytes),
}
