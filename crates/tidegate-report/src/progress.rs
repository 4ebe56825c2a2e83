//! How far a run is, and how long it still takes: one line that is written over on a terminal, a line each elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is to be done, in seconds of load, and what is done.
pub struct Progress {
    all: Duration,
    done: Duration,
    begun: Instant,
    is_terminal: bool,
}

impl Progress {
    /// Nothing is done.
    #[must_use]
    pub fn new(all: Duration) -> Progress {
        Progress { all, done: Duration::ZERO, begun: Instant::now(), is_terminal: std::io::stdout().is_terminal() }
    }

    /// One round is done.
    pub fn advance(&mut self, load: Duration, text: &str) {
        self.done += load;
        let line = line(self.done, self.all, self.begun.elapsed(), text);
        if self.is_terminal {
            let short: String = line.chars().take(110).collect();
            print!("\r\x1b[K{short}");
            // A closed terminal is noticed by the next line.
            let _ = std::io::stdout().flush();
        } else {
            println!("{line}");
        }
    }

    /// Ends the line, so that other text can follow.
    pub fn end_line(&self) {
        if self.is_terminal {
            println!();
        }
    }
}

/// The time left is that of the load that is left, as much longer as things have taken up to now.
fn line(done: Duration, all: Duration, took: Duration, text: &str) -> String {
    let part = if all.is_zero() { 1.0 } else { done.as_secs_f64() / all.as_secs_f64() };
    let left = if part > 0.0 { took.as_secs_f64() / part * (1.0 - part) } else { 0.0 };
    format!("{:3.0} %, {} left  {text}", part * 100.0, spoken(Duration::from_secs_f64(left.max(0.0))))
}

/// `1:02:03` or `2:03`.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left() {
        let seconds = Duration::from_secs;
        assert_eq!(line(seconds(25), seconds(100), seconds(30), "rows"), " 25 %, 1:30 left  rows");
        assert_eq!(line(seconds(1), seconds(4000), seconds(1), ""), "  0 %, 1:06:39 left  ");
        assert_eq!(line(seconds(0), seconds(0), seconds(0), ""), "100 %, 0:00 left  ");
    }
}
