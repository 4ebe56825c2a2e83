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
        let [p50, _, p99, max] = second.latency.map(|micros| show_micros(micros as f64));
        let line = format!(
            "{:4.0} s {:>10.0} requests/s   50 % {p50:>8}   99 % {p99:>8}   max {max:>8}   errors {}",
            measured.as_secs_f64(),
            second.rate(),
            self.errors,
        );
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
