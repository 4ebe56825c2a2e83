//! The time of a statement: what it asks for first, and where its session is.

use std::{
    cell::Cell,
    time::{SystemTime, UNIX_EPOCH},
};

use chrono::{Offset, TimeZone};

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The machine's.
    System,
    /// Seconds east of UTC.
    Fixed(i32),
}

/// The clock of a session. Moments are microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) zone: Cell<Zone>,
    /// `SET timestamp = …`.
    pub(crate) fixed_time: Cell<Option<i64>>,
    now_known: Cell<Option<i64>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { zone: Cell::new(Zone::System), fixed_time: Cell::new(None), now_known: Cell::new(None) }
    }
}

impl Clock {
    /// A statement begins: its time is unknown until it asks.
    #[inline]
    pub(crate) fn begin_statement(&self) {
        self.now_known.set(None);
    }

    /// Whether the statement has asked for the time.
    pub(crate) fn has_been_asked(&self) -> bool {
        self.now_known.get().is_some()
    }

    /// The statement's time.
    pub(crate) fn now(&self) -> i64 {
        if let Some(now) = self.now_known.get() {
            return now;
        }
        let now = self.fixed_time.get().unwrap_or_else(Self::machine);
        self.now_known.set(Some(now));
        now
    }

    /// The time of the machine's clock.
    pub(crate) fn machine() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
    }

    /// Seconds east of UTC at a moment.
    pub(crate) fn offset_at(&self, micros: i64) -> i64 {
        match self.zone.get() {
            Zone::Fixed(seconds) => i64::from(seconds),
            Zone::System => chrono::Local
                .timestamp_opt(micros.div_euclid(1_000_000), 0)
                .single()
                .map_or(0, |moment| i64::from(moment.offset().fix().local_minus_utc())),
        }
    }
}
