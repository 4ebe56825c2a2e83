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
    /// As if it ran alone: from its first statement on it is the schema's only writer. One that only reads needs no more than a
    /// snapshot for that, because those that write come one after the other.
    Serializable,
}

impl Isolation {
    /// All levels.
    pub(crate) const ALL: [Self; 4] =
        [Self::ReadUncommitted, Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    /// Its name with a hyphen, as in `@@transaction_isolation`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ-UNCOMMITTED",
            Self::ReadCommitted => "READ-COMMITTED",
            Self::RepeatableRead => "REPEATABLE-READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }

    /// Whether each statement sees what others have committed until then.
    pub(crate) fn reads_committed(self) -> bool {
        matches!(self, Self::ReadUncommitted | Self::ReadCommitted)
    }
}

/// How a transaction begins; `None` for what the session says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Characteristics {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) read_only: Option<bool>,
}
