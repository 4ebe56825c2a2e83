//! Moments in the time zone of the session whose statement runs.

use super::temporal::{DAY_MICROS, Datetime, EPOCH_DAYS};
use crate::{clock::Clock, task};

/// A moment in UTC.
pub(crate) fn utc(micros: i64) -> Datetime {
    Datetime::from_total_micros(micros + EPOCH_DAYS * DAY_MICROS).unwrap_or_default()
}

/// A moment in a clock's time zone.
pub(crate) fn to_local(clock: &Clock, micros: i64) -> Datetime {
    utc(micros + clock.offset_at(micros) * 1_000_000)
}

/// The moment that is a date and time in a clock's time zone; `None` for dates with zeros.
pub(crate) fn timestamp_of(clock: &Clock, moment: Datetime) -> Option<i64> {
    let wall = moment.total_micros()? - EPOCH_DAYS * DAY_MICROS;
    let first = wall - clock.offset_at(wall) * 1_000_000;
    // Once more with the offset of the moment found: they differ around a change of the clocks.
    Some(wall - clock.offset_at(first) * 1_000_000)
}

/// The statement's date.
pub(crate) fn today() -> Datetime {
    task::clock(|clock| to_local(clock, clock.now()).date_only()).unwrap_or_default()
}

/// A stored TIMESTAMP in the session's zone. 0 is the zero date.
pub(crate) fn timestamp_to_local(micros: i64) -> Datetime {
    if micros == 0 {
        return Datetime::default();
    }
    task::clock(|clock| to_local(clock, micros)).unwrap_or_else(|| utc(micros))
}

/// A moment of the session's zone as a TIMESTAMP; `None` for dates with zeros.
pub(crate) fn local_to_timestamp(moment: Datetime) -> Option<i64> {
    task::clock(|clock| timestamp_of(clock, moment))
        .unwrap_or_else(|| Some(moment.total_micros()? - EPOCH_DAYS * DAY_MICROS))
}
