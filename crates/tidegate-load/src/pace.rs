//! When the next request begins.

use std::time::{Duration, Instant};

/// How requests follow each other in a thread.
#[derive(Debug)]
pub(crate) enum Pace {
    /// Each connection sends as soon as it has its response.
    Closed,
    /// Requests are due at even distances, whatever the server does.
    Even(Schedule),
}

/// The times at which a thread's requests are due. The threads take turns, so that all together keep the distance too.
#[derive(Debug)]
pub(crate) struct Schedule {
    begin: Instant,
    /// Requests a second of the whole run.
    rate: f64,
    /// Number of the next request of this thread, among those of the whole run.
    next: u64,
    threads: u64,
    due: Instant,
}

impl Schedule {
    pub(crate) fn new(begin: Instant, rate: f64, thread: usize, threads: usize) -> Self {
        let mut schedule = Self { begin, rate, next: thread as u64, threads: threads as u64, due: begin };
        schedule.due = schedule.time(schedule.next);
        schedule
    }
    /// When the next request is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }
    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        self.next += self.threads;
        self.due = self.time(self.next);
    }
    /// How many requests of this thread are due before `end` and were not begun.
    pub(crate) fn left_before(&self, end: Instant) -> u64 {
        let Some(span) = end.checked_duration_since(self.due) else { return 0 };
        (span.as_secs_f64() * self.rate / self.threads as f64).ceil() as u64
    }
    fn time(&self, number: u64) -> Instant {
        // Counted from the beginning each time: errors do not add up.
        self.begin + Duration::from_secs_f64((number as f64 / self.rate).min(1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_at_even_distances() {
        let begin = Instant::now();
        let mut times = Vec::new();
        for thread in 0..3 {
            let mut schedule = Schedule::new(begin, 1000.0, thread, 3);
            for _ in 0..100 {
                times.push(schedule.due());
                schedule.advance();
            }
            assert_eq!(schedule.left_before(begin), 0);
            assert_eq!(schedule.left_before(schedule.due() + Duration::from_millis(30)), 10);
        }
        times.sort();
        for (number, time) in times.iter().enumerate() {
            let distance = time.duration_since(begin).abs_diff(Duration::from_millis(number as u64));
            assert!(distance < Duration::from_micros(1), "{number}: {distance:?}");
        }
    }
}
