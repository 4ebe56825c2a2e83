//! What others may know about the locks of a schema.

use std::{collections::HashSet, time::SystemTime};

use super::{Mode, Resource, RowLocks, Wait};

/// One who holds locks, waits for one, or keeps the write lock.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) owner: u64,
    pub(crate) connection: u64,
    /// Locks that it holds.
    pub(crate) locks: usize,
    /// Of them, those on rows.
    pub(crate) rows: usize,
    pub(crate) tables: usize,
    pub(crate) waits: Option<SeenWait>,
}

/// A wait and whom it is for.
#[derive(Debug)]
pub(crate) struct SeenWait {
    /// `None` for the schema's write lock.
    pub(crate) lock: Option<(Resource, Mode)>,
    pub(crate) since: SystemTime,
    /// Those ahead, holders first, each with what it holds or waits for.
    pub(crate) blockers: Vec<(u64, Mode)>,
}

impl RowLocks {
    /// All who hold or want something, in the order of their age.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let state = self.lock();
        let mut all: Vec<Seen> = state
            .owners
            .iter()
            .filter(|(id, owner)| !owner.held.is_empty() || owner.waits.is_some() || state.writer == Some(**id))
            .map(|(id, owner)| {
                let rows = owner.held.iter().filter(|resource| matches!(resource, Resource::Row { .. })).count();
                let tables: HashSet<i64> = owner.held.iter().map(|resource| resource.table()).collect();
                let lock = match owner.waits {
                    Some(Wait::Lock(resource, mode)) => Some((resource, mode)),
                    _ => None,
                };
                let mode_of = |other: u64| {
                    let lock = lock.and_then(|(resource, _)| state.locks.get(&resource));
                    let mut known = lock.into_iter().flat_map(|lock| lock.holders.iter().chain(&lock.queue));
                    known.find(|(known, _)| *known == other).map_or(Mode::Exclusive, |(_, mode)| *mode)
                };
                let waits = owner.waits.map(|_| SeenWait {
                    lock,
                    since: owner.waits_since.unwrap_or(SystemTime::UNIX_EPOCH),
                    blockers: state.blockers(*id, true).into_iter().map(|other| (other, mode_of(other))).collect(),
                });
                Seen {
                    owner: *id,
                    connection: owner.connection,
                    locks: owner.held.len(),
                    rows,
                    tables: tables.len(),
                    waits,
                }
            })
            .collect();
        all.sort_by_key(|seen| seen.owner);
        all
    }
}
