//! What a server answers.
//!
//! ```text
//! 0 COLUMNS [VALUE …] \n      success, with rows one behind the other
//! 1 1 WORD-OR-NUMBER \n       the storage engine has failed: MySQL's number of its error
//! 2 1 WORD \n                 the request is wrong
//! 3 1 WORD \n                 the client has not told the secret
//! ```

use super::{END, SEPARATOR};

/// An error that a server knows without its tables, or by their definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such command.
    Command,
    /// There is no such table.
    OpenTable,
    /// Tables cannot be used now.
    LockTables,
    /// There is no such index.
    Index,
    /// There is no such column.
    Column,
    /// No index is open under that number, or the number is too large.
    IndexNumber,
    /// There is no such operator.
    Operator,
    /// There are no values.
    KeyLength,
    /// More values than the index has columns.
    KeyParts,
    /// `@` without values.
    WithinLength,
    /// A filter that is neither F nor W.
    FilterType,
    /// There is no such filter column.
    FilterColumn,
    /// A filter column that cannot be compared.
    FilterBlob,
    /// There is no such change.
    Change,
    /// The port is for reading.
    ReadOnly,
    /// Statements are not run.
    NotImplemented,
    /// The client has not told the secret, or a wrong one.
    Unauthorized,
    /// There is one way to tell secrets, and this is another.
    AuthType,
}

impl Refusal {
    /// The class of the error and its word.
    pub fn parts(self) -> (u8, &'static str) {
        match self {
            Refusal::OpenTable => (1, "open_table"),
            Refusal::LockTables => (1, "lock_tables"),
            Refusal::Command => (2, "cmd"),
            Refusal::Index => (2, "idxnum"),
            Refusal::Column => (2, "fld"),
            Refusal::IndexNumber => (2, "stmtnum"),
            Refusal::Operator => (2, "op"),
            Refusal::KeyLength => (2, "klen"),
            Refusal::KeyParts => (2, "kpnum"),
            Refusal::WithinLength => (2, "invalueslen"),
            Refusal::FilterType => (2, "filtertype"),
            Refusal::FilterColumn => (2, "filterfld"),
            Refusal::FilterBlob => (2, "filterblob"),
            Refusal::Change => (2, "modop"),
            Refusal::ReadOnly => (2, "readonly"),
            Refusal::NotImplemented => (2, "notimpl"),
            Refusal::Unauthorized => (3, "unauth"),
            Refusal::AuthType => (3, "authtype"),
        }
    }
}

/// Appends the answer to a request that is refused.
pub fn put_refusal(refusal: Refusal, out: &mut Vec<u8>) {
    let (class, word) = refusal.parts();
    out.extend_from_slice(&[b'0' + class, SEPARATOR, b'1', SEPARATOR]);
    out.extend_from_slice(word.as_bytes());
    out.push(END);
}

/// Appends the answer to a request that the storage engine could not carry out.
pub fn put_failure(number: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"1\t1\t");
    put_number(number.into(), out);
    out.push(END);
}

/// Appends the answer to a request that has nothing to tell.
pub fn put_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\t1\n");
}

/// Appends the answer to a request that has a number to tell.
pub fn put_count(count: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\t1\t");
    put_number(count, out);
    out.push(END);
}

/// Begins an answer with rows. Each value follows its separator; [`END`] ends it.
pub fn begin_rows(columns: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\t");
    put_number(columns as u64, out);
}

fn put_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
