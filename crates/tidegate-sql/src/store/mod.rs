//! SQLite itself: the VFS layer, connections and statements, the write lock, private changes.
//!
//! All `unsafe` code that calls SQLite stands here and in `functions/abi.rs`.

mod alone;
pub(crate) mod beneath;
mod collations;
pub(crate) mod computed_rows;
pub(crate) mod conn;
pub(crate) mod disk;
mod eyes;
pub(crate) mod file_source;
pub(crate) mod fulltext;
pub(crate) mod hook;
pub(crate) mod identity;
pub(crate) mod keys;
pub(crate) mod made_rows;
pub(crate) mod pace;
pub(crate) mod prepared;
pub(crate) mod private;
pub(crate) mod reserve;
pub(crate) mod room;
pub(crate) mod statistics;
mod stmt;
pub(crate) mod vfs;
mod virtual_table;
mod wal_index;
pub(crate) mod writer;
