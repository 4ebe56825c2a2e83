//! Everything that is counted.

use hdrhistogram::Histogram;

use crate::failure::{Failure, Kind};

/// The longest latency that is told apart: an hour, in microseconds.
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;

/// Three digits of a latency count: 0.1 % is finer than any two runs agree.
const DIGITS: u8 = 3;

/// Digits of the latencies of a single URL, whose histogram is an eighth as large so.
const DIGITS_OF_PART: u8 = 2;

/// With more URLs than these none has figures of its own: each takes 35 KB in several places, and all of that is gone through each second.
pub(crate) const PARTS_MAX: usize = 256;

/// Statuses have three digits.
const STATUSES: usize = 1000;

/// An empty histogram of latencies in microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    with_digits(DIGITS)
}

fn with_digits(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, digits).expect("bounds that the library takes")
}

/// What became of some requests.
#[derive(Debug)]
pub(crate) struct Part {
    /// Latencies of complete responses, in microseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) responses: u64,
    /// Requests without a complete response.
    pub(crate) failed: u64,
    statuses: Box<[u64; STATUSES]>,
}

impl Part {
    fn new(digits: u8) -> Self {
        Self { latency: with_digits(digits), responses: 0, failed: 0, statuses: Box::new([0; STATUSES]) }
    }
    #[inline]
    fn response(&mut self, status: u16, micros: u64) {
        self.latency.saturating_record(micros);
        self.responses += 1;
        self.statuses[usize::from(status) % STATUSES] += 1;
    }
    fn add(&mut self, other: &Part) {
        if other.is_empty() {
            return;
        }
        // Both have the same bounds.
        let _ = self.latency.add(&other.latency);
        self.responses += other.responses;
        self.failed += other.failed;
        for (sum, count) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *sum += count;
        }
    }
    fn is_empty(&self) -> bool {
        self.responses == 0 && self.failed == 0
    }
    fn reset(&mut self) {
        if self.is_empty() {
            return;
        }
        let Part { latency, responses, failed, statuses } = self;
        latency.reset();
        (*responses, *failed) = (0, 0);
        statuses.fill(0);
    }
    /// The statuses that came, with their counts.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        self.statuses.iter().enumerate().filter(|(_, count)| **count > 0).map(|(status, count)| (status as u16, *count))
    }
    /// Responses that report a failure: 400 and above.
    pub(crate) fn error_statuses(&self) -> u64 {
        self.statuses[400..].iter().sum()
    }
}

/// Failures by kind.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    counts: [u64; Kind::ALL.len()],
    /// The first words of each kind.
    texts: [Option<String>; Kind::ALL.len()],
}

impl Failures {
    pub(crate) fn count(&mut self, failure: &Failure) {
        self.counts[failure.kind as usize] += 1;
        self.texts[failure.kind as usize].get_or_insert_with(|| failure.text.clone());
    }
    /// The kinds that there were, with count and an example.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Kind, u64, &str)> {
        Kind::ALL.iter().filter_map(|kind| {
            let count = self.counts[*kind as usize];
            (count > 0).then(|| (*kind, count, self.texts[*kind as usize].as_deref().unwrap_or_default()))
        })
    }
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
    fn add(&mut self, other: &Failures) {
        for kind in Kind::ALL {
            let at = kind as usize;
            self.counts[at] += other.counts[at];
            if self.texts[at].is_none() {
                self.texts[at].clone_from(&other.texts[at]);
            }
        }
    }
}

/// All that a thread, or a run, has counted in some time.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) all: Part,
    /// By URL, where there are several and at most [`PARTS_MAX`].
    pub(crate) parts: Vec<Part>,
    pub(crate) failures: Failures,
    /// Bytes of responses with their heads, after decryption.
    pub(crate) bytes: u64,
    /// Connections that came about.
    pub(crate) opened: u64,
    /// Responses behind the end of the measured time, to requests of that time.
    pub(crate) late: u64,
}

impl Tally {
    /// An empty one for requests to so many URLs.
    pub(crate) fn new(urls: usize) -> Self {
        let parts = if (2..=PARTS_MAX).contains(&urls) { urls } else { 0 };
        Self {
            all: Part::new(DIGITS),
            parts: std::iter::repeat_with(|| Part::new(DIGITS_OF_PART)).take(parts).collect(),
            failures: Failures::default(),
            bytes: 0,
            opened: 0,
            late: 0,
        }
    }
    /// Counts a complete response.
    #[inline]
    pub(crate) fn response(&mut self, url: usize, status: u16, micros: u64) {
        self.all.response(status, micros);
        if let Some(part) = self.parts.get_mut(url) {
            part.response(status, micros);
        }
    }
    /// Counts a request that has failed.
    pub(crate) fn failure(&mut self, url: usize, failure: &Failure) {
        self.failures.count(failure);
        self.all.failed += 1;
        if let Some(part) = self.parts.get_mut(url) {
            part.failed += 1;
        }
    }
    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: &Tally) {
        self.all.add(&other.all);
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.add(other);
        }
        self.failures.add(&other.failures);
        self.bytes += other.bytes;
        self.opened += other.opened;
        self.late += other.late;
    }
    /// Back to nothing; keeps the memory.
    pub(crate) fn reset(&mut self) {
        let Tally { all, parts, failures, bytes, opened, late } = self;
        all.reset();
        parts.iter_mut().for_each(Part::reset);
        *failures = Failures::default();
        (*bytes, *opened, *late) = (0, 0, 0);
    }
    /// Whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.bytes == 0 && self.opened == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_urls_have_figures_of_their_own_and_many_have_those_of_all() {
        for (urls, parts) in [(1, 0), (2, 2), (PARTS_MAX, PARTS_MAX), (PARTS_MAX + 1, 0), (60_000, 0)] {
            let mut tally = Tally::new(urls);
            tally.response(urls - 1, 200, 1234);
            tally.failure(urls - 1, &Failure::new(Kind::Reset, "gone"));
            let mut sum = Tally::new(urls);
            sum.add(&tally);
            sum.add(&Tally::new(urls));
            assert_eq!((sum.parts.len(), sum.all.responses, sum.all.failed), (parts, 1, 1));
            if let Some(part) = sum.parts.last() {
                assert_eq!((part.responses, part.failed, part.latency.len()), (1, 1, 1));
                // Two digits.
                assert!(part.latency.max().abs_diff(1234) <= 12, "{}", part.latency.max());
            }
            sum.reset();
            assert!(sum.is_empty() && sum.parts.iter().all(|part| part.is_empty() && part.latency.is_empty()));
        }
    }
}
