//! Numbers and switches of a session.

/// What COMMIT and ROLLBACK do afterwards unless they say it themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompletionType {
    NoChain,
    /// The next transaction begins.
    Chain,
    /// The connection ends.
    Release,
}

impl CompletionType {
    /// In the order of their numbers.
    pub(crate) const ALL: [(Self, &str); 3] =
        [(Self::NoChain, "NO_CHAIN"), (Self::Chain, "CHAIN"), (Self::Release, "RELEASE")];
}

/// Numbers and switches that a session may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// `sql_select_limit`
    pub(crate) select_limit: u64,
    /// `div_precision_increment`
    pub(crate) division_digits: u8,
    /// `sql_safe_updates`
    pub(crate) safe_updates: bool,
    /// `auto_increment_increment`
    pub(crate) auto_step: u64,
    /// `auto_increment_offset`
    pub(crate) auto_offset: u64,
    /// `insert_id`: what the next INSERT generates first.
    pub(crate) insert_id: Option<u64>,
    /// `completion_type`
    pub(crate) completion: CompletionType,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            select_limit: u64::MAX,
            division_digits: 4,
            safe_updates: false,
            auto_step: 1,
            auto_offset: 1,
            insert_id: None,
            completion: CompletionType::NoChain,
        }
    }
}

impl Numbers {
    /// The first value from `least` on that an AUTO_INCREMENT column may get.
    pub(crate) fn next_auto(self, least: u64) -> u64 {
        let offset = self.auto_offset % self.auto_step;
        let steps = least.saturating_sub(offset).div_ceil(self.auto_step);
        steps.saturating_mul(self.auto_step).saturating_add(offset)
    }

    /// Where the counter of a column stands behind a value.
    pub(crate) fn auto_behind(self, value: u64) -> u64 {
        // InnoDB takes an offset beyond the step for none.
        let auto_offset = if self.auto_offset > self.auto_step { 0 } else { self.auto_offset };
        Self { auto_offset, ..self }.next_auto(value.saturating_add(1))
    }
}
