//! Counts of durations by size, cheap enough to be fed by every statement.
//!
//! Each power of two has four buckets, so that a quantile is off by at most a quarter. A worker has a histogram of its
//! own; readers add them up.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Buckets up to 2^36 microseconds, 19 hours; what takes longer counts in the last.
const BUCKETS: usize = 4 * 35;

/// Counts that one thread feeds and others read.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum_us: AtomicU64::new(0) }
    }
}

impl Recorder {
    pub(crate) fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(us)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn add_to(&self, total: &mut Histogram) {
        for (sum, count) in total.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Relaxed);
        }
        total.sum_us += self.sum_us.load(Relaxed);
    }
}

/// Counts of durations at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum_us: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// The duration that the share `quantile` (0 to 1) of all does not exceed, rounded up to the end of its bucket.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let rank = (self.count() as f64 * quantile.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (end, count) in self.buckets() {
            seen += count;
            if seen >= rank {
                return end;
            }
        }
        Duration::ZERO
    }

    /// The buckets that are not empty: their ends (exclusive) and counts, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        all.map(|(index, count)| (Duration::from_micros(start(index + 1)), *count))
    }
}

/// Index of the bucket for a duration in microseconds.
fn bucket(us: u64) -> usize {
    if us < 4 {
        return us as usize;
    }
    let power = us.ilog2() as usize;
    let quarter = (us >> (power - 2)) as usize & 3;
    ((power - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// Smallest duration of a bucket in microseconds.
fn start(index: usize) -> u64 {
    if index < 4 {
        return index as u64;
    }
    let (power, quarter) = (index / 4 + 1, index as u64 % 4);
    (4 + quarter) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(start(index)), index);
            assert_eq!(bucket(start(index + 1) - 1), index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles() {
        let recorder = Recorder::default();
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for us in 1..=1000 {
            recorder.record(Duration::from_micros(us));
        }
        recorder.add_to(&mut histogram);
        assert_eq!(histogram.count(), 1000);
        assert_eq!(histogram.sum(), Duration::from_micros(500_500));
        for (quantile, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0), (0.0, 1.0)] {
            let found = histogram.quantile(quantile).as_micros() as f64;
            assert!((exact..=exact * 1.25 + 1.0).contains(&found), "{quantile}: {found}");
        }
    }
}
