//! A transaction of a schema that writes.

use tidegate_rows::ServerError;

use super::Schema;
use crate::store::conn::{Conn, SqliteError};

impl Schema {
    /// Has whoever is told of the rows that change on a connection know these tables: [`Conn::learn`].
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn teach(&self, conn: &mut Conn, tables: impl Iterator<Item = i64>) -> Result<(), ServerError> {
        if !conn.is_watched() {
            return Ok(());
        }
        let catalog = self.catalog()?;
        conn.learn((self.version(), &catalog), tables)
    }

    /// Begins a transaction that may commit: [`Conn::begin_to_commit`].
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn begin_to_commit(&self, conn: &mut Conn) -> Result<(), SqliteError> {
        conn.begin_to_commit(self.commits.want_keys())
    }
}
