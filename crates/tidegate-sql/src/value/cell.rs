//! A value as SQLite has it.

use super::Datum;

/// A value that stays good until the statement is stepped again, bound to a parameter or read from a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl Cell<'_> {
    /// A copy that owns its bytes.
    pub(crate) fn to_owned(self) -> Datum {
        match self {
            Cell::Null => Datum::Null,
            Cell::Int(value) => Datum::Int(value),
            Cell::Real(value) => Datum::Real(value),
            Cell::Text(text) => Datum::Text(text.into()),
            Cell::Blob(blob) => Datum::Blob(blob.into()),
        }
    }
}
