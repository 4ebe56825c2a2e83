//! Transactions that write side by side.
//!
//! SQLite has one writer for each file, and its log must have. A transaction that stays open must not be that writer, or
//! nobody else writes meanwhile. So a transaction writes on a *private* connection ([`super::wal_index`]): its changes stay in
//! pages that only this connection has. Beside the pages a hook of SQLite's notes each changed row ([`log`]) and locks it and
//! its unique keys for the transaction ([`crate::row_locks`]). To commit is to apply that list in a short transaction of the real
//! writer: nothing can stand in its way, because the locks are held.
//!
//! Invariants:
//! 1. A statement that writes, or locks what it reads, holds the schema's write lock while it runs, and its connection sees
//!    the newest commit. So what it locks without waiting is what it sees.
//! 2. Row locks are taken under the write lock, or by a statement that has waited for them and runs again under the write
//!    lock. Whoever holds that lock and finds no row lock need not look again.
//! 3. Nobody waits for a row lock under the write lock, except a transaction that keeps the write lock (`Owner::keeps_writing`):
//!    the statement is undone, waits, and runs again on the newest commit, with the lock.
//! 4. The list of a transaction and its private pages say the same. The pages can be thrown away at any time and made anew
//!    from the list on a newer commit.
//!    One that changes much keeps the write lock, takes no locks and has no list. It may get one later, from the rows in which
//!    it differs from the last commit ([`difference`]), and is a private transaction again, which locks these rows and all else
//!    that it would have locked until then ([`notes`]).
//! 5. What is committed was locked until then, so that no list meets a row that is not as the list expects.

pub(crate) mod difference;
pub(crate) mod former;
pub(crate) mod log;
pub(crate) mod notes;
pub(crate) mod shape;
pub(crate) mod watch;

#[cfg(test)]
mod tests;
