//! What a transaction that writes alone would have locked beside others, apart from what it has changed for good.

use std::cmp::Reverse;

use crate::row_locks::{Mode, Owner, Resource};

/// Locks that are noted; with more the transaction remains the schema's writer.
const NOTES_MAX: usize = 250_000;
/// Notes that are not looked through for equal ones.
const UNSORTED_MAX: usize = 1 << 16;

/// Rows and keys that the schema's writer has met and would not find by a comparison with the last commit ([`super::difference`]):
/// found and not changed, in the way of a new row, changed twice. Noting is cheaper than locking, and nobody asks for the locks
/// until the transaction becomes a private one.
#[derive(Default)]
pub(crate) struct Notes {
    list: Vec<(Resource, Mode)>,
    /// How many there were when no two were equal.
    distinct: usize,
    too_many: bool,
}

impl Notes {
    /// Notes that something belongs to the transaction until it ends.
    pub(crate) fn add(&mut self, resource: Resource, mode: Mode) {
        if self.too_many || self.list.last() == Some(&(resource, mode)) {
            return;
        }
        self.list.push((resource, mode));
        if self.list.len() >= UNSORTED_MAX.max(2 * self.distinct) {
            self.leave_out_equal();
        }
    }

    fn leave_out_equal(&mut self) {
        self.list.sort_unstable_by_key(|&(resource, mode)| (resource, Reverse(mode)));
        self.list.dedup_by_key(|(resource, _)| *resource);
        self.distinct = self.list.len();
        self.too_many = self.distinct > NOTES_MAX;
        if self.too_many {
            self.list = Vec::new();
        }
    }

    /// Whether there were more than are noted: nobody knows all that the transaction should have locked.
    pub(crate) fn are_too_many(&self) -> bool {
        self.too_many
    }

    /// Locks all that was noted, as long as `goes_on` says so. False if it stopped, or if somebody else has locked something, which
    /// the writer's own care rules out.
    pub(crate) fn lock(&self, owner: &Owner, goes_on: &dyn Fn() -> bool) -> bool {
        !self.too_many && self.list.iter().all(|&(resource, mode)| goes_on() && owner.take(resource, mode).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::row_locks::RowLocks;

    fn row(rowid: i64) -> Resource {
        Resource::Row { table: 1, rowid }
    }

    #[test]
    fn equal_notes_are_one_of_the_stronger_kind() {
        let locks = Arc::new(RowLocks::default());
        let (owner, other) = (locks.owner(1), locks.owner(2));
        let mut notes = Notes::default();
        for round in 0..2 * NOTES_MAX as i64 {
            notes.add(row(round % 100), if round == 7 { Mode::Exclusive } else { Mode::Shared });
        }
        assert!(notes.list.capacity() <= 2 * UNSORTED_MAX && !notes.are_too_many());
        assert!(!notes.lock(&owner, &|| false) && !owner.has_locks());
        assert!(notes.lock(&owner, &|| true));
        assert_eq!(owner.take(row(0), Mode::Shared), Some(100));
        assert!(other.take(row(7), Mode::Shared).is_none() && other.take(row(8), Mode::Shared).is_some());
    }

    #[test]
    fn too_many_notes_are_none() {
        let locks = Arc::new(RowLocks::default());
        let owner = locks.owner(1);
        let mut notes = Notes::default();
        let mut rowid = 0;
        while !notes.are_too_many() {
            notes.add(row(rowid), Mode::Exclusive);
            rowid += 1;
        }
        assert!(rowid > NOTES_MAX as i64 && rowid <= 4 * NOTES_MAX as i64);
        notes.add(row(0), Mode::Exclusive);
        assert_eq!(notes.list.capacity(), 0);
        assert!(!notes.lock(&owner, &|| true) && !owner.has_locks());
    }
}
