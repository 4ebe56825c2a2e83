//! What LOCK TABLES has locked.

use std::sync::Arc;

use tidegate_rows::ServerError;

use super::Env;
use crate::{errors, row_locks::Owner, schema::Schema, store::writer::WriteGuard, table_locks::LockedIn};

/// What LOCK TABLES has locked.
pub(crate) struct LockedTables {
    /// The locks in each schema.
    pub(crate) _locks: Vec<LockedIn>,
    /// The write locks that FLUSH TABLES WITH READ LOCK has taken.
    pub(crate) schemas: Vec<(Arc<Schema>, WriteGuard, Owner)>,
    /// Schema, table, whether it may be written; empty when everything is locked for reading.
    pub(crate) tables: Vec<(u64, String, bool)>,
}

impl LockedTables {
    /// Whether the session may write to a table.
    ///
    /// # Errors
    /// 1099 for a table that is locked for reading, 1100 for one that is not locked.
    pub(crate) fn check(&self, schema: &Schema, name: &str) -> Result<(), ServerError> {
        match self.tables.iter().find(|(id, known, _)| *id == schema.id && known == name) {
            Some((.., true)) => Ok(()),
            Some(_) => Err(errors::table_locked_for_read(name)),
            None if self.tables.is_empty() => Err(errors::table_locked_for_read(name)),
            None => Err(errors::table_not_locked(name)),
        }
    }
}

impl Env {
    /// Whether LOCK TABLES lets the session make a table anew.
    ///
    /// # Errors
    /// Those of [`LockedTables::check`].
    pub(crate) fn may_replace(&self, schema: &Schema, name: &str) -> Result<(), ServerError> {
        self.tables.borrow().as_ref().map_or(Ok(()), |locked| locked.check(schema, name))
    }

    /// Gives back what LOCK TABLES has locked.
    pub(crate) fn release_tables(&self) {
        self.tables.borrow_mut().take();
    }

    /// Whether LOCK TABLES has locked something.
    #[inline]
    pub(crate) fn has_tables(&self) -> bool {
        self.tables.borrow().is_some()
    }

    /// The write lock of a schema, if FLUSH TABLES WITH READ LOCK has it.
    pub(crate) fn lend(&self, schema: &Arc<Schema>) -> Option<WriteGuard> {
        let tables = self.tables.borrow();
        let held = tables.as_ref()?.schemas.iter().any(|(held, ..)| Arc::ptr_eq(held, schema));
        held.then(|| WriteGuard::lent(&schema.writer))
    }
}
