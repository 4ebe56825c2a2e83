//! How much of a table has changed since its statistics were made.

use std::sync::atomic::{AtomicU64, Ordering};

/// Rows that have to change in a table before it is looked at for the first time.
pub(crate) const CHANGED_MIN: u64 = 100;

/// What has happened to a table since its statistics were made.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Rows inserted, updated or deleted, those of transactions that were undone too.
    rows: AtomicU64,
    /// As many make new statistics worth their price.
    enough: AtomicU64,
}

impl Default for Changes {
    fn default() -> Self {
        Self { rows: AtomicU64::new(0), enough: AtomicU64::new(CHANGED_MIN) }
    }
}

impl Changes {
    /// A statement has changed so many rows.
    #[inline]
    pub(crate) fn note(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// The statistics are not those of this table any more.
    pub(crate) fn forget(&self) {
        self.enough.store(0, Ordering::Relaxed);
    }

    /// Whether the table has changed so much that its statistics should be renewed.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.rows.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed)
    }

    /// The statistics are those of a table of `rows` rows. The next ones are made when it is half as large again.
    pub(crate) fn renewed(&self, rows: u64) {
        self.rows.store(0, Ordering::Relaxed);
        self.enough.store(CHANGED_MIN.max(rows / 2), Ordering::Relaxed);
    }
}
