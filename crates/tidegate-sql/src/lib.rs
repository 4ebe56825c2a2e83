//! The embedded engine: MySQL's dialect over SQLite, inside the process.
//!
//! The rule of this crate: **right or refused, never silently different**. What the engine cannot do as MySQL does is an
//! error (1235 or 1064) that names it.
//!
//! A statement's way:
//!
//! 1. [`lexer`] runs over the text once, replaces literals by placeholders and hashes the rest;
//! 2. the connection's statement cache ([`cache`]) answers with a plan, or [`dialect`] and [`parse`] build a tree
//!    and [`translate`] makes a plan of it: typed expressions as SQLite text, typed binds, described columns;
//! 3. [`exec`] binds, steps and hands the rows to the sink. Values that enter a table are coerced in Rust
//!    ([`coerce`]), row by row, with MySQL's errors; SQLite never converts anything;
//! 4. the session's driver ([`task`]) runs all of this in a stackful coroutine that suspends when a slice of time is
//!    used up, the sink is full, the write lock is taken, a `sleep()` runs or a commit waits for the disk.
//!
//! What lives where, in reading order: [`engine`] (data directory, schemas), [`session`] (what a client talks to), [`clients`] (which there are, and KILL), [`accounts`] (who may do what), [`locks`] (those of GET_LOCK),
//! [`task`] (coroutines), [`commits`] (their numbers, and who hears of them), [`row_locks`] (those of transactions), [`waits`] (circles of sessions that wait), `store/` (SQLite itself: VFS, connections, write lock, sync and checkpoint threads),
//! [`catalog`] (the shadow catalogue), `value/` (types, decimals, dates, collations and their stored form, see
//! `docs/storage-format.md`), `translate/`, `functions/` (one file for a family and one line in its registry), `program/` (triggers and the interpreter of their bodies).
//!
//! FULLTEXT indexes are tables of FTS5, in which `store/fulltext` searches.
//!
//! [`table`] is for those who know the index and the columns that they want, and spare the text.
//!
//! This crate knows nothing of HTTP, Lua, configuration or wire protocols.

pub mod engine;
pub mod session;

mod accounts;
mod accounts_file;
mod backup;
mod cache;
mod catalog;
mod changed_keys;
mod clients;
mod coerce;
mod coerce_fixed;
mod commits;
mod ddl;
mod dialect;
mod directory;
mod errors;
mod exec;
mod file_names;
mod functions;
mod lexer;
mod listening;
mod locks;
mod other_programs;
mod parse;
mod pcre;
mod program;
mod redefinition;
mod row_locks;
mod show;
mod store;
pub mod table;
mod table_locks;
mod task;
mod translate;
mod value;
mod variables;
mod waits;

pub use accounts::{ConfiguredUser, Login, Origin, Plugin, Secret};
pub use changed_keys::{ChangedKeys, Key, KeyValue, TableKeys};
pub use clients::{Client, Kill};
pub use commits::Commit;
pub use engine::{
    Durability, Engine, EngineOptions, OpenError, Report, file_of_schema, file_to_restore, schema_of_file,
};
pub use listening::{Heard, Listening};
pub use session::{Charset, Context, Description, Freshness, PooledSession, Session, TableChange, TableRead, Texts};
