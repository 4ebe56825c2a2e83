//! What LOCK TABLES has locked.

use std::sync::Arc;

use super::Env;
use crate::{row_locks::Owner, schema::Schema, store::writer::WriteGuard, table_locks::LockedIn};

/// What LOCK TABLES has locked.
pub(crate) struct LockedTables {
    /// The locks in each schema.
    pub(crate) _locks: Vec<LockedIn>,
    /// The write locks that FLUSH TABLES WITH READ LOCK has taken.
    pub(crate) schemas: Vec<(Arc<Schema>, WriteGuard, Owner)>,
    /// Schema, table, whether it may be written; empty when everything is locked for reading.
    pub(crate) tables: Vec<(u64, String, bool)>,
}

impl Env {
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
