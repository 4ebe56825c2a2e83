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
//! What lives where, from the top: [`engine`] (opens a data directory), `table/` (requests without a text), `ddl/` and `show/`,
//! [`session`] (what a client talks to), [`cache`], `exec/`, `functions/` (one file for a family and one line in its registry), `translate/`, [`mod@env`]
//! (what SQL functions see of a session), [`shared`] (what sessions share), [`locks`] (those of GET_LOCK), [`directory`] and `schema/` (schemas, their
//! commits and open transactions), `store/` (SQLite itself: VFS, connections, write lock, private changes), [`catalog`] (the shadow catalogue),
//! [`accounts`] (who may do what), [`row_locks`] (those of transactions), `parse/` (statements and the bodies of triggers), `value/` (types, decimals,
//! dates, collations and their stored form, see `docs/storage-format.md`), [`task`] (coroutines), [`clients`] (which there are, and KILL), [`waits`] (circles
//! of sessions that wait). `ARCHITECTURE.md` has all modules in their order, in which none reaches up into another.
//!
//! FULLTEXT indexes are tables of FTS5, in which `store/fulltext` searches.
//!
//! [`table`] is for those who know the index and the columns that they want, and spare the text.
//!
//! This crate knows nothing of HTTP, Lua, configuration or wire protocols.

pub mod engine;
pub mod session;

mod account_name;
mod accounts;
mod accounts_file;
mod background;
mod backup;
mod cache;
mod catalog;
mod catalog_file;
mod changed_keys;
mod clients;
mod clock;
mod coerce;
mod coerce_fixed;
mod column;
mod ddl;
mod dialect;
mod directory;
mod env;
mod errors;
mod event_queue;
mod events;
mod exec;
mod file_names;
mod functions;
mod globals;
mod identifier;
mod isolation;
mod lexer;
mod listening;
mod locks;
mod login_key;
mod other_programs;
mod parse;
mod pcre;
mod readers;
mod redefinition;
mod row_locks;
mod schema;
mod settings;
mod shared;
mod show;
mod sql_mode;
mod store;
mod system_variables;
pub mod table;
mod table_locks;
mod task;
mod temporary_name;
mod translate;
mod value;
mod variables;
mod waits;

pub use accounts::{ConfiguredUser, Login, Origin, Plugin, Secret};
pub use changed_keys::{ChangedKeys, Key, KeyValue, TableKeys};
pub use clients::{Client, Kill};
pub use engine::Engine;
pub use env::{Charset, OneByte, Texts};
pub use file_names::{file_of_schema, file_to_restore, schema_of_file};
pub use listening::{Heard, Listening, NewSchemas};
pub use login_key::LoginKey;
pub use schema::commits::Commit;
pub use session::{Context, Description, Freshness, PooledSession, Session, TableChange, TableRead};
pub use settings::{Durability, EngineOptions, OpenError, Report};
