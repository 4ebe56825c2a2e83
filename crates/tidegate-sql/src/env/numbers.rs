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

/// AUTO_INCREMENT values that a statement has taken from one table: if it is undone and runs again, it takes the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TakenAutos {
    table: i64,
    /// The first that it has taken this time, and what comes behind the last.
    taken: Option<(u64, u64)>,
    /// What is left of those that it had taken when it was undone.
    left: Option<(u64, u64)>,
}

impl TakenAutos {
    /// The next value for a table that the statement has had before, and what comes behind the last of them.
    pub(crate) fn next(self, table: i64) -> Option<(u64, u64)> {
        self.left.filter(|(next, behind)| self.table == table && next < behind)
    }

    /// With values that the statement takes from `value` on; `behind` comes after them.
    pub(crate) fn with(self, table: i64, value: u64, behind: u64) -> Self {
        if self.table != table {
            return Self { table, taken: Some((value, behind)), left: None };
        }
        let left = self.left.map(|(next, last)| (next.max(behind), last));
        // Others may have taken what lies between: the newer ones are kept then.
        let first = self.taken.filter(|(_, end)| *end == value).map_or(value, |(first, _)| first);
        Self { table, taken: Some((first, behind)), left }
    }

    /// The statement is undone.
    pub(crate) fn given_back(self) -> Self {
        let (first, behind) = match (self.taken, self.left) {
            (Some((first, taken)), left) => (first, left.map_or(taken, |(_, last)| last.max(taken))),
            (None, Some(left)) => left,
            (None, None) => return self,
        };
        Self { taken: None, left: Some((first, behind)), ..self }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_is_undone_takes_the_same_numbers_again() {
        let fresh = TakenAutos::default();
        assert_eq!((fresh.next(1), fresh.given_back()), (None, fresh));
        let first = fresh.with(1, 5, 6).with(1, 6, 7);
        assert_eq!(first.next(1), None, "those are taken");
        let second = first.given_back();
        assert_eq!((second.next(1), second.next(2)), (Some((5, 7)), None));
        // It is undone earlier this time, and later the third time.
        let third = second.with(1, 5, 6).given_back();
        assert_eq!(third.next(1), Some((5, 7)));
        let third = third.with(1, 5, 6).with(1, 6, 7);
        assert_eq!(third.next(1), None);
        assert_eq!(third.with(1, 9, 10).given_back().next(1), Some((9, 10)), "7 and 8 may be somebody else's");
        // Nothing was taken before it was undone again.
        assert_eq!(second.given_back().next(1), Some((5, 7)));
        assert_eq!(second.with(2, 1, 2).next(1), None, "another table");
    }
}
