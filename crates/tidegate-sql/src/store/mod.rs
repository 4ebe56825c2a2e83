//! SQLite itself: the VFS layer, connections and statements, the write lock, the threads for sync, checkpoints and statistics.
//!
//! All `unsafe` code that calls SQLite stands here and in `functions/abi.rs`.

mod alone;
pub(crate) mod background;
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
pub(crate) mod pool;
pub(crate) mod private;
pub(crate) mod readers;
mod reserve;
pub(crate) mod room;
pub(crate) mod settling;
pub(crate) mod statistics;
mod stepping_back;
mod stmt;
pub(crate) mod transactions;
pub(crate) mod vfs;
mod wal_index;
pub(crate) mod writer;
