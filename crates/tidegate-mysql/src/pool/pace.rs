//! How quick a statement is: what decides whether it may share a connection when nobody has said so.
//!
//! A server answers the statements of a connection one after the other, so one that shares waits for those before it. That is
//! no loss while all of them together take less time than one round trip under load, and it is a loss as soon as one of them
//! is slow. Nobody can tell that from a text, but a configuration runs the same few statements again and again. So three moving
//! averages are kept for each of them, and it shares only while all three allow it:
//!
//! - `mean`: how long it takes alone or in front of others. A statement that waits for something (a lock, a disk, a
//!   clock) never shares; under load everything takes longer, which is no reason against sharing but one for it.
//! - `gap`: how much longer those behind wait for each one before them. It bounds what a lane may hold: [`WAIT_MAX`] in all.
//! - `slow`: the share of those that were overdue. Sharing must not make more than about one in a hundred
//!   ([`SLOW_MAX`]) wait for somebody else's slow statement, so fewer share the more of them there are. This one starts at its
//!   limit, so that a statement proves itself alone some hundred times before it shares.
//!
//! Whoever opens a lane waits a moment for company, which costs about as much as a tenth of a small statement. Where nobody came
//! for a while, only one in [`OPENS_EVERY`] does.
//!
//! Some proxies lose what comes before they asked for it. A statement behind others that hears nothing for [`SILENCE`] runs again
//! elsewhere, and from then on the statement stays alone for a long time ([`Pace::distrust`]).
//!
//! Who is behind a statement that is [`overdue`](Pace::overdue) does not wait for it: see `lane.rs`.
//!
//! Workers share these figures without a lock. An update that another overwrites is no harm.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::Instant;

/// How many statements share a connection at most.
const DEPTH_MAX: u64 = 16;
/// How long a statement may have to wait for those before it, by what is known of them, in nanoseconds.
const WAIT_MAX: u64 = 1_000_000;
/// Longest mean that shares, in nanoseconds, on a server that has little to do.
const MEAN_MAX: u64 = 5_000_000;
/// What each connection in use may add to that: statements queue in the server, too.
const MEAN_PER_CONNECTION: u64 = 80_000;
/// What a gap is believed to be before it was measured: two or three statements share then.
const GAP_START: u64 = 400_000;
/// Longest gap that counts: from there it takes about two thousand statements alone until another attempt.
const GAP_MAX: u64 = 8_000_000;
/// A fraction of one.
const ONE: u64 = 1 << 30;
/// The share of overdue statements behind which nobody waits.
const SLOW_MAX: u64 = ONE / 100;
/// When a statement is overdue: after this time, or this many times its mean, but never later than this.
const OVERDUE_MIN: u64 = 10_000_000;
const OVERDUE_TIMES: u64 = 8;
const OVERDUE_MAX: u64 = 50_000_000;

/// After so many lanes without company, statements stay alone ...
const LONELY_MAX: u64 = 16;
/// ... but for one in so many.
const OPENS_EVERY: u64 = 8;

/// How long a statement behind others waits for the first word of its answer once it is its turn.
const SILENCE: Duration = Duration::from_millis(500);
/// How many times a statement runs alone after such a silence; twice as often after the next one, up to a million times.
const BARRED: u64 = 2048;

/// The position of a statement on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// On a connection of its own.
    Alone,
    /// The first on a shared connection.
    First,
    /// Behind others; its time is that from the end of the one before.
    Behind,
}

/// How quick a statement of the configuration has been lately.
#[derive(Debug)]
pub struct Pace {
    mean: AtomicU64,
    gap: AtomicU64,
    slow: AtomicU64,
    /// Lanes without company since the last with it.
    lonely: AtomicU64,
    /// Statements that could have opened a lane since then.
    openers: AtomicU64,
    /// How many times more it runs alone, whatever else is known.
    barred: AtomicU64,
    strikes: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::of(0, GAP_START, SLOW_MAX)
    }
}

/// What a statement may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// How many may be on one connection.
    pub(super) depth: usize,
    /// What it adds to the wait of those behind it, in nanoseconds.
    pub(super) gap: u64,
}

impl Allowance {
    /// Whether it may join those that wait this long already.
    pub(super) fn bears(self, wait: u64) -> bool {
        wait <= WAIT_MAX
    }
}

impl Pace {
    /// That of a statement of which it is known beforehand that it is quick.
    pub fn proved() -> Self {
        Self::of(100_000, 100_000, 0)
    }

    fn of(mean: u64, gap: u64, slow: u64) -> Self {
        let [mean, gap, slow] = [mean, gap, slow].map(AtomicU64::new);
        let [lonely, openers, barred, strikes] = [0; 4].map(AtomicU64::new);
        Self { mean, gap, slow, lonely, openers, barred, strikes }
    }

    /// Whether the statement may share a connection now, while so many connections are in use.
    pub(super) fn allowance(&self, in_use: usize) -> Option<Allowance> {
        let (mean, gap) = (self.mean.load(Relaxed), self.gap.load(Relaxed));
        let depth = DEPTH_MAX.min(SLOW_MAX / self.slow.load(Relaxed).max(1));
        let is_quick = mean <= MEAN_MAX.max(MEAN_PER_CONNECTION.saturating_mul(in_use as u64)) && gap <= WAIT_MAX;
        let is_trusted = self.barred.load(Relaxed) == 0;
        (is_quick && depth > 1 && is_trusted).then_some(Allowance { depth: depth as usize, gap })
    }

    /// Whether the statement, which found nobody to join, opens a lane for others.
    pub(super) fn opens(&self) -> bool {
        if self.lonely.load(Relaxed) < LONELY_MAX {
            return true;
        }
        let openers = self.openers.load(Relaxed);
        self.openers.store(openers.wrapping_add(1), Relaxed);
        openers.is_multiple_of(OPENS_EVERY)
    }

    /// Notes whether somebody joined a lane before its first statement was sent.
    pub(super) fn note_company(&self, came: bool) {
        let lonely = if came { 0 } else { self.lonely.load(Relaxed).saturating_add(1) };
        self.lonely.store(lonely, Relaxed);
    }

    /// Notes that the server did not answer what came in advance.
    pub(super) fn distrust(&self) {
        let strikes = self.strikes.load(Relaxed);
        self.strikes.store((strikes + 1).min(9), Relaxed);
        self.barred.store(BARRED << strikes, Relaxed);
    }

    /// How long a statement behind others waits for an answer once it is its turn, if it may take this long at all.
    pub(super) fn silence(limit: Option<Duration>) -> Duration {
        limit.map_or(SILENCE, |limit| SILENCE.min(limit / 2))
    }

    /// When nobody waits behind it any more.
    pub(super) fn overdue(&self) -> Duration {
        let times = self.mean.load(Relaxed).saturating_mul(OVERDUE_TIMES);
        Duration::from_nanos(times.clamp(OVERDUE_MIN, OVERDUE_MAX))
    }

    /// Notes how long it took.
    pub(super) fn note(&self, took: Duration, position: Position) {
        let overdue = self.overdue();
        let nanos = took.as_nanos().min(u128::from(OVERDUE_MAX * 20)) as u64;
        match position {
            Position::Alone | Position::First if self.mean.load(Relaxed) == 0 => self.mean.store(nanos, Relaxed),
            Position::Alone | Position::First => approach(&self.mean, nanos, 64),
            Position::Behind => approach(&self.gap, nanos.min(GAP_MAX), 32),
        }
        if position == Position::Alone && self.barred.load(Relaxed) > 0 {
            self.barred.store(self.barred.load(Relaxed).saturating_sub(1), Relaxed);
        }
        if position == Position::Alone && self.gap.load(Relaxed) > GAP_START {
            // What was too long once is tried again some day.
            approach(&self.gap, GAP_START, 1024);
        }
        approach(&self.slow, if took > overdue { ONE } else { 0 }, 1024);
    }

    /// Measures a run from now on.
    pub(super) fn watch(&self, position: Position) -> Watch<'_> {
        Watch { pace: self, begin: Some(Instant::now()), position }
    }

    /// Measures a run once it has begun.
    pub(super) fn watch_later(&self, position: Position) -> Watch<'_> {
        Watch { pace: self, begin: None, position }
    }
}

/// Moves an average towards a value, by a part of their distance.
fn approach(average: &AtomicU64, value: u64, part: u64) {
    let old = average.load(Relaxed);
    // Rounded so that it arrives at 0.
    let new = if value >= old { old + (value - old) / part } else { old - (old - value).div_ceil(part) };
    average.store(new, Relaxed);
}

/// Notes how long a run took when it is dropped, however it ended; nothing if it never began.
pub(super) struct Watch<'a> {
    pace: &'a Pace,
    begin: Option<Instant>,
    position: Position,
}

impl Watch<'_> {
    /// The run begins, perhaps once more on another connection.
    pub(super) fn begin(&mut self) {
        self.begin = Some(Instant::now());
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(begin) = self.begin {
            self.pace.note(begin.elapsed(), self.position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(150);

    fn long_proved() -> Pace {
        let pace = Pace::default();
        (0..5000).for_each(|_| pace.note(QUICK, Position::Alone));
        pace
    }

    #[track_caller]
    fn check(pace: &Pace, expected: Option<usize>) {
        assert_eq!(pace.allowance(1).map(|allowance| allowance.depth), expected, "{pace:?}");
    }

    #[test]
    fn statements_prove_themselves_first() {
        let pace = Pace::default();
        check(&pace, None);
        (0..500).for_each(|_| pace.note(QUICK, Position::Alone));
        check(&pace, None);
        (0..500).for_each(|_| pace.note(QUICK, Position::Alone));
        check(&pace, Some(2));
        check(&long_proved(), Some(16));
    }

    #[test]
    fn slow_statements_never_share() {
        for millis in [8, 30, 1000] {
            let pace = Pace::default();
            (0..20_000).for_each(|_| pace.note(Duration::from_millis(millis), Position::Alone));
            check(&pace, None);
        }
    }

    #[test]
    fn now_and_then_a_slow_one() {
        // One in fifty is too many.
        let pace = long_proved();
        for number in 0..5000 {
            pace.note(if number % 50 == 0 { Duration::from_secs(1) } else { QUICK }, Position::Alone);
        }
        check(&pace, None);
        // With one in five hundred a few may share.
        for number in 0..20_000 {
            pace.note(if number % 500 == 0 { Duration::from_millis(200) } else { QUICK }, Position::Alone);
        }
        let depth = pace.allowance(1).map_or(1, |allowance| allowance.depth);
        assert!((2..=8).contains(&depth), "{pace:?}");
    }

    #[test]
    fn those_behind_bear_only_so_much() {
        let pace = long_proved();
        assert!(pace.allowance(1).unwrap().gap <= GAP_START);
        (0..200).for_each(|_| pace.note(Duration::from_millis(4), Position::Behind));
        check(&pace, None);
        // Some day it is tried again.
        (0..4000).for_each(|_| pace.note(QUICK, Position::Alone));
        check(&pace, Some(16));
        (0..2000).for_each(|_| pace.note(Duration::from_micros(40), Position::Behind));
        let allowance = pace.allowance(1).unwrap();
        assert!(allowance.gap < 45_000, "{allowance:?}");
        assert!(allowance.bears(15 * allowance.gap) && !allowance.bears(WAIT_MAX + 1));
    }

    #[test]
    fn servers_that_lose_statements_are_distrusted() {
        let pace = Pace::proved();
        for times in [2048, 4096, 8192] {
            pace.distrust();
            (1..times).for_each(|_| pace.note(QUICK, Position::Alone));
            check(&pace, None);
            pace.note(QUICK, Position::Alone);
            check(&pace, Some(16));
        }
        assert_eq!(Pace::silence(None), Duration::from_millis(500));
        assert_eq!(Pace::silence(Some(Duration::from_millis(100))), Duration::from_millis(50));
    }

    #[test]
    fn few_lanes_open_where_nobody_comes() {
        let pace = Pace::proved();
        let opened = |pace: &Pace| {
            let open = |_: &i32| pace.opens().then(|| pace.note_company(false)).is_some();
            (0..100).filter(open).count()
        };
        assert_eq!(opened(&pace), 16 + 11);
        assert_eq!(opened(&pace), 12);
        pace.note_company(true);
        assert_eq!(opened(&pace), 16 + 11);
    }

    #[test]
    fn load_alone_ends_no_sharing() {
        let pace = long_proved();
        (0..500).for_each(|_| pace.note(Duration::from_millis(8), Position::First));
        assert_eq!(pace.allowance(10), None);
        assert!(pace.allowance(200).is_some());
    }

    #[test]
    fn overdue_follows_the_mean() {
        assert_eq!(long_proved().overdue(), Duration::from_millis(10));
        let pace = Pace::default();
        pace.note(Duration::from_millis(3), Position::Alone);
        assert_eq!(pace.overdue(), Duration::from_millis(24));
        (0..2000).for_each(|_| pace.note(Duration::from_secs(9), Position::Alone));
        assert_eq!(pace.overdue(), Duration::from_millis(50));
    }
}
