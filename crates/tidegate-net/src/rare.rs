//! Events that should be rare: they are counted, and whoever counts learns when they are not rare any more.
//!
//! A single failure of a client is its own affair, and the log tells of it at the level of details only. Many within a short
//! time may be somebody who tries what can be done to the server, which is worth a line for everybody; a line for each of them
//! would be one more thing to fill up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many events of one kind within [`SPAN_MS`] are worth a line in the error log.
const MANY: u64 = 100;

/// The time in which they are many, and for which the line that tells of them is the only one.
const SPAN_MS: u64 = 60_000;

/// Counts events over all workers.
#[derive(Debug)]
pub struct Rare {
    total: AtomicU64,
    /// When the span began in which events are being counted, as the steady clock has it.
    span_ms: AtomicU64,
    in_span: AtomicU64,
}

/// Events have become many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Many {
    /// How many.
    pub count: u64,
    /// Within how many seconds, rounded up.
    pub seconds: u64,
    /// How many since the start of the process.
    pub total: u64,
}

impl Rare {
    pub(crate) const fn new() -> Self {
        Rare { total: AtomicU64::new(0), span_ms: AtomicU64::new(0), in_span: AtomicU64::new(0) }
    }
    /// How many there were.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }
    /// Counts one, at this time of the steady clock. An answer is worth a line in the log; there is one in a span at most.
    pub fn count(&self, now_ms: u64) -> Option<Many> {
        let total = self.total.fetch_add(1, Relaxed) + 1;
        let since_ms = self.span_ms.load(Relaxed);
        let is_over = since_ms == 0 || now_ms.saturating_sub(since_ms) >= SPAN_MS;
        // The one who begins a span counts itself; others who count meanwhile may get lost, which matters to nobody.
        if is_over && self.span_ms.compare_exchange(since_ms, now_ms.max(1), Relaxed, Relaxed).is_ok() {
            self.in_span.store(1, Relaxed);
            return None;
        }
        let count = self.in_span.fetch_add(1, Relaxed) + 1;
        let seconds = now_ms.saturating_sub(since_ms).div_ceil(1000).max(1);
        (count == MANY).then_some(Many { count, seconds, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_told_once_in_a_span() {
        let rare = Rare::new();
        let told: Vec<_> = (0..1000).filter_map(|at| rare.count(5000 + at * 10)).collect();
        assert_eq!(told, [Many { count: MANY, seconds: 1, total: MANY }]);
        let told: Vec<_> = (0..1000).filter_map(|_| rare.count(5000 + SPAN_MS)).collect();
        assert_eq!(told, [Many { count: MANY, seconds: 1, total: 1000 + MANY }]);
        assert_eq!(rare.total(), 2000);
    }

    #[test]
    fn few_are_told_never() {
        let rare = Rare::new();
        for at in 0..10_000 {
            assert_eq!(rare.count(1 + at * (SPAN_MS / (MANY - 1) + 1)), None);
        }
    }
}
