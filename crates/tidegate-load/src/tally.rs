//! Everything that is counted.

use hdrhistogram::Histogram;

use crate::failure::{Failure, Kind};

/// The longest latency that is told apart: an hour, in microseconds.
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;

/// Three digits of a latency count: 0.1 % is finer than any two runs agree.
const DIGITS: u8 = 3;

/// Statuses have three digits.
const STATUSES: usize = 1000;

/// An empty histogram of latencies in microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, DIGITS).expect("bounds that the library takes")
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
    fn new() -> Self {
        Self { latency: histogram(), responses: 0, failed: 0, statuses: Box::new([0; STATUSES]) }
    }
    #[inline]
    fn response(&mut self, status: u16, micros: u64) {
        self.latency.saturating_record(micros);
        self.responses += 1;
        self.statuses[usize::from(status) % STATUSES] += 1;
    }
    fn add(&mut self, other: &Part) {
        // Both have the same bounds.
        let _ = self.latency.add(&other.latency);
        self.responses += other.responses;
        self.failed += other.failed;
        for (sum, count) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *sum += count;
        }
    }
    fn reset(&mut self) {
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
    /// By URL, where there are several.
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
        let parts = if urls > 1 { urls } else { 0 };
        Self {
            all: Part::new(),
            parts: std::iter::repeat_with(Part::new).take(parts).collect(),
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
        self.all.responses == 0 && self.all.failed == 0 && self.bytes == 0 && self.opened == 0
    }
}
