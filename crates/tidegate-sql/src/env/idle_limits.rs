//! `idle_transaction_timeout` and its like.

use std::time::Duration;

use crate::schema::transactions::Limit;

/// How long transactions may rest; `None` for as long as they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IdleLimits {
    /// `idle_transaction_timeout`
    any: Option<Duration>,
    /// `idle_readonly_transaction_timeout`
    read_only: Option<Duration>,
    /// `idle_write_transaction_timeout`
    write: Option<Duration>,
}

impl IdleLimits {
    /// The limits with another one of a variable's; 0 for none.
    pub(crate) fn with(mut self, variable: &str, seconds: u64) -> Self {
        *self.limit(variable) = (seconds > 0).then(|| Duration::from_secs(seconds));
        self
    }

    /// What a variable shows.
    pub(crate) fn seconds(mut self, variable: &str) -> u64 {
        self.limit(variable).unwrap_or_default().as_secs()
    }

    fn limit(&mut self, variable: &str) -> &mut Option<Duration> {
        match variable {
            "idle_readonly_transaction_timeout" => &mut self.read_only,
            "idle_write_transaction_timeout" => &mut self.write,
            _ => &mut self.any,
        }
    }

    /// The limit for a transaction that has written, or not.
    pub(crate) fn of(self, writes: bool) -> Option<Limit> {
        let (special, variable) = match writes {
            true => (self.write, "idle_write_transaction_timeout"),
            false => (self.read_only, "idle_readonly_transaction_timeout"),
        };
        let special = special.map(|time| Limit { time, variable });
        special.or(self.any.map(|time| Limit { time, variable: "idle_transaction_timeout" }))
    }
}
