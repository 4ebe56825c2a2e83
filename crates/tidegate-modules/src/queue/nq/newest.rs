//! The newest message of a queue at the moment in which a receiver comes that wants none of those before (`start` -2).
//!
//! The receiver's worker has to look for it, and a message may be posted meanwhile on another worker, where that takes less time. So
//! the moment is kept by what is known without waiting: the version of the table, and the last message that was posted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{by_queue::ByQueue, tables::Database};

/// The last message of each queue that was posted, not those that SQL has written.
static POSTED: Mutex<Option<ByQueue<u64>>> = Mutex::new(None);

/// What a queue had at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Newest {
    /// Of the table; `None` if there was none.
    version: Option<u64>,
    /// The last message that had been posted, if that is known.
    posted: Option<u64>,
}

fn posted() -> MutexGuard<'static, Option<ByQueue<u64>>> {
    POSTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message of this number was stored.
pub(super) fn note(database: &Database, queue: &str, id: u64) {
    // The table may be another one, whose numbers begin anew.
    posted().get_or_insert_default().set(database.at(queue), id);
}

impl Newest {
    /// What a queue has now.
    pub(super) fn of(database: &Database, queue: &str) -> Self {
        let posted = posted().as_ref().and_then(|posted| posted.get(database.at(queue)).copied());
        Newest { version: database.messages_version(queue), posted }
    }

    /// The last message of that moment, 0 for none. `last` is the last one now, when the table has the version `now`.
    pub(super) fn last(self, last: u64, now: Option<u64>) -> u64 {
        match (self.version, self.posted) {
            (None, _) => 0,
            (version, Some(posted)) if version != now => posted.min(last),
            _ => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: Option<u64>, posted: Option<u64>, now: Option<u64>, expected: u64) {
        assert_eq!(Newest { version, posted }.last(7, now), expected);
    }

    #[test]
    fn what_is_posted_while_somebody_looks_is_new() {
        check(Some(1), Some(5), Some(1), 7); // SQL has written two more before.
        check(Some(1), Some(5), Some(2), 5);
        check(Some(1), None, Some(2), 7); // Nobody knows which of them are new.
        check(Some(1), Some(9), Some(2), 7); // The table is another one.
        check(None, None, Some(2), 0);
    }
}
