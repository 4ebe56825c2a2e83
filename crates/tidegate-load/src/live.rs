//! What is shown while a run lasts: on a terminal one line that changes, else a line each second.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::run::Second;
use crate::tally::Tally;
use crate::units::show_micros;

/// The display, on standard error.
#[derive(Debug)]
pub(crate) struct Live {
    is_quiet: bool,
    is_terminal: bool,
    warm_up: Duration,
    errors: u64,
    has_line: bool,
}

impl Live {
    pub(crate) fn new(is_quiet: bool, warm_up: Duration) -> Self {
        Self { is_quiet, is_terminal: std::io::stderr().is_terminal(), warm_up, errors: 0, has_line: false }
    }

    /// Shows a second of the run, which is so old; `tally` is what was counted in it.
    pub(crate) fn second(&mut self, second: &Second, age: Duration, tally: &Tally) {
        self.errors += tally.failures.total() + tally.all.error_statuses();
        if self.is_quiet {
            return;
        }
        let measured = age.saturating_sub(self.warm_up);
        let line =
            if self.is_terminal { short(second, measured, self.errors) } else { long(second, measured, self.errors) };
        let mut out = std::io::stderr().lock();
        // Nobody reads the display if it cannot be written.
        let _ = if self.is_terminal { write!(out, "\r{line}\x1b[K") } else { writeln!(out, "{line}") };
        let _ = out.flush();
        self.has_line = true;
    }

    /// Leaves the line.
    pub(crate) fn end(&mut self) {
        if self.is_terminal && std::mem::take(&mut self.has_line) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// For a terminal: what is longer than its line could not be written over.
fn short(second: &Second, age: Duration, errors: u64) -> String {
    let [p50, _, p99, max] = second.latency.map(|micros| show_micros(micros as f64));
    let (age, rate) = (age.as_secs_f64(), second.rate());
    format!("{age:4.0} s {rate:>8.0}/s  50 % {p50:>7}  99 % {p99:>7}  max {max:>7}  errors {errors}")
}

fn long(second: &Second, age: Duration, errors: u64) -> String {
    let [p50, _, p99, max] = second.latency.map(|micros| show_micros(micros as f64));
    let (age, rate) = (age.as_secs_f64(), second.rate());
    format!("{age:4.0} s {rate:>10.0} requests/s   50 % {p50:>8}   99 % {p99:>8}   max {max:>8}   errors {errors}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_terminal_is_short_enough_for_the_usual_one() {
        let second =
            Second { seconds: 1.0, responses: 1_234_567, failed: 0, latency: [999_000, 999_000, 99_900, 12_345_678] };
        let line = short(&second, Duration::from_secs(3600), 1_234_567);
        assert!(line.chars().count() < 80 && line.contains(" 1234567/s ") && line.ends_with(" 1234567"), "{line}");
        assert!(long(&second, Duration::from_secs(1), 0).contains(" requests/s "));
    }
}
