//! How the rows of an index are walked through (`exec/walk.rs`).

/// How rows are walked through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    /// A parameter that has several values: the last one holds them. Of each the first row counts.
    pub(crate) each: Option<usize>,
    /// The parameter that limits the rows which are counted; the one behind it is how many of those are left out.
    pub(crate) limit: usize,
}
