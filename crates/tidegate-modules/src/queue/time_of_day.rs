//! The time of day as queues have it: one that does not go back for a while.
//!
//! Delays, times to live, results and schedules outlive the process, so their ends are stored as times of day. A machine's clock may be
//! set back, by a few seconds as a rule, when it is compared with others. Messages would wait longer by that, and be published before
//! those ahead of them. So the process keeps the time that it has shown and goes on from there with a clock that nobody can set, until
//! the machine's is ahead again. A step of more than [`STEP_BACK_MS_MAX`] is another matter: the clock was wrong before, and is
//! believed. Leases have nothing to do with all this: they are times of the clock that nobody can set.

use std::sync::atomic::{AtomicI64, Ordering};

use tidegate_net::clock;

/// The longest step back that is bridged.
const STEP_BACK_MS_MAX: i64 = 3_600_000;

/// By how much the time of day is ahead of the clock that nobody can set; all workers have the same.
static AHEAD_MS: AtomicI64 = AtomicI64::new(i64::MIN);

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    if clock::steady_ms() == 0 {
        // A thread that has not looked yet.
        clock::update();
    }
    let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let steady_ms = signed(clock::steady_ms());
    let shown_ms = signed(clock::now_ms()) - steady_ms;
    let before = AHEAD_MS.load(Ordering::Relaxed);
    let ahead_ms = ahead(before, shown_ms);
    if ahead_ms != before {
        // Another worker may say the same, or what its clock has shown a moment before.
        AHEAD_MS.store(ahead_ms, Ordering::Relaxed);
    }
    u64::try_from(steady_ms.saturating_add(ahead_ms)).unwrap_or(0)
}

/// By how much the time of day is ahead, where it was `before` and the machine's clock says `shown`.
fn ahead(before: i64, shown: i64) -> i64 {
    let is_small_step_back = before > shown && before.saturating_sub(shown) <= STEP_BACK_MS_MAX;
    if is_small_step_back { before } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_back_are_bridged_and_others_are_believed() {
        assert_eq!(ahead(i64::MIN, 5_000), 5_000, "the first look");
        assert_eq!(ahead(5_000, 6_000), 6_000, "forward");
        assert_eq!(ahead(6_000, 1_000), 6_000, "back");
        assert_eq!(ahead(6_000, 6_000 - STEP_BACK_MS_MAX), 6_000);
        assert_eq!(ahead(6_000, 5_999 - STEP_BACK_MS_MAX), 5_999 - STEP_BACK_MS_MAX, "it was wrong before");
    }

    #[test]
    fn it_is_the_time_of_day() {
        clock::update();
        assert!(now_ms().abs_diff(clock::now_ms()) < 60_000);
    }
}
