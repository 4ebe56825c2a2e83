//! Which rows SKIP LOCKED lets through.

use std::sync::Arc;

use super::{Mode, Resource, RowLocks};

/// The eye of a query that leaves out what others have locked.
#[derive(Clone)]
pub(crate) struct RowFilter {
    pub(crate) locks: Arc<RowLocks>,
    /// Who locks what the query finds; nobody for a query alone.
    pub(crate) owner: Option<u64>,
    /// Only rows that the owner has locked: the query has found and locked them and now reads them.
    pub(crate) only_own: bool,
}

impl RowFilter {
    /// Whether a row is one of the query's.
    pub(crate) fn lets_through(&self, row: Resource, mode: Mode) -> bool {
        if self.only_own { self.locks.holds(self.owner, row, mode) } else { self.locks.admits(self.owner, row, mode) }
    }
}

impl RowLocks {
    fn holds(&self, owner: Option<u64>, resource: Resource, mode: Mode) -> bool {
        let state = self.lock();
        let mut holders = state.locks.get(&resource).into_iter().flat_map(|lock| &lock.holders);
        holders.any(|(id, held)| Some(*id) == owner && *held >= mode)
    }
}
