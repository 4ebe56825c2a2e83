//! Isolation levels.

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Isolation {
    /// As READ COMMITTED: what this level allows need not happen.
    ReadUncommitted,
    /// Each statement sees what is committed when it begins.
    ReadCommitted,
    /// The first read takes a snapshot.
    #[default]
    RepeatableRead,
}

impl Isolation {
    /// All levels.
    pub(crate) const ALL: [Self; 3] = [Self::ReadUncommitted, Self::ReadCommitted, Self::RepeatableRead];

    /// Its name with a hyphen, as in `@@transaction_isolation`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ-UNCOMMITTED",
            Self::ReadCommitted => "READ-COMMITTED",
            Self::RepeatableRead => "REPEATABLE-READ",
        }
    }

    /// Whether each statement sees what others have committed until then.
    pub(crate) fn reads_committed(self) -> bool {
        matches!(self, Self::ReadUncommitted | Self::ReadCommitted)
    }
}
