//! Connections to a schema's file.
//!
//! SQLite opens a database and its log by their paths, one after the other, and builds the index of the log when the first
//! connection reads. Whoever did that while the schema was dropped and another one of the same name made could have the old
//! database open and the new log, or the new database with the plans of the old one. So there is a gate, which
//! [`Schema::end`] takes too, and behind it all of a connection is open or nothing:
//!
//! 1. A connection is opened with the gate held, after a look whether the schema has ended. When it is open it has read, and never
//!    goes by a path again.
//! 2. The files of a dropped schema are removed after it has ended, and those of the next one get their names after that
//!    ([`crate::directory`]).
//! 3. Nobody waits behind the gate: it is held for a few system calls, and no other statement of the thread has its turn meanwhile.

use std::{path::Path, sync::PoisonError};

use tidegate_rows::ServerError;

use super::{End, Schema};
use crate::{
    store::conn::{Conn, SqliteError, to_server_error},
    task,
};

impl Schema {
    /// Opens a connection.
    ///
    /// # Errors
    /// 1049 or 1030 if the schema was dropped or lost; what SQLite says when it cannot open the file.
    pub(crate) fn open(&self) -> Result<Box<Conn>, ServerError> {
        self.open_by(Conn::open)
    }

    /// Opens a connection for private changes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_private(&self) -> Result<Box<Conn>, ServerError> {
        self.open_by(Conn::open_private)
    }

    /// Makes the schema reachable on a connection to another one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn attach_to(&self, conn: &mut Conn, name: &str) -> Result<(), ServerError> {
        self.open_by(|path| conn.attach(path, name))
    }

    /// Opens a connection to the files as their engine leaves them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_to_leave(&self) -> Result<Box<Conn>, ServerError> {
        self.open_unless(|end| end != End::EngineClosed, Conn::open)
    }

    fn open_by<T>(&self, open: impl FnOnce(&Path) -> Result<T, SqliteError>) -> Result<T, ServerError> {
        self.open_unless(|_| true, open)
    }

    /// Opens what is open, or has ended in a way that keeps nobody out.
    fn open_unless<T>(
        &self,
        keeps_out: impl FnOnce(End) -> bool,
        open: impl FnOnce(&Path) -> Result<T, SqliteError>,
    ) -> Result<T, ServerError> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if self.end.get().copied().is_some_and(keeps_out) {
            return Err(self.why_closed());
        }
        let opened = task::unbroken(|| open(&self.path));
        drop(gate);
        opened.map_err(|error| {
            let is_there = !self.is_closed() && self.is_in_place();
            if is_there { to_server_error(&error) } else { self.why_closed() }
        })
    }

    /// Has no more statements run, unless the schema has ended before; answers whether it has not. Nobody who opens a connection is
    /// half-way when this has returned.
    pub(crate) fn end(&self, why: End) -> bool {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = self.end.set(why).is_ok();
        drop(gate);
        self.commits.end();
        is_first
    }
}
