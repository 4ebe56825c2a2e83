//! What a person watches: colours and progress, both only on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

fn is_terminal() -> bool {
    static TERMINAL: OnceLock<bool> = OnceLock::new();
    *TERMINAL.get_or_init(|| {
        std::io::stdout().is_terminal() && std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    })
}

fn paint(code: &str, text: &str) -> String {
    if is_terminal() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Bad news.
pub(crate) fn red(text: &str) -> String {
    paint("31", text)
}

/// Good news.
pub(crate) fn green(text: &str) -> String {
    paint("32", text)
}

/// Neither.
pub(crate) fn yellow(text: &str) -> String {
    paint("33", text)
}

/// A heading of a step.
pub(crate) fn heading(text: &str) {
    println!("{}", paint("1", &format!("== {text}")));
}

/// One line at the bottom of the terminal that is written over again and again; nothing elsewhere.
pub(crate) struct Progress {
    shown: bool,
}

impl Progress {
    /// Nothing is shown yet.
    pub(crate) fn new() -> Progress {
        Progress { shown: false }
    }

    /// Replaces the line.
    pub(crate) fn show(&mut self, text: &str) {
        if is_terminal() {
            let short: String = text.chars().take(100).collect();
            print!("\r\x1b[K{short}");
            self.flush();
            self.shown = true;
        }
    }

    /// Removes the line, so that other output can follow.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            print!("\r\x1b[K");
            self.flush();
        }
    }

    fn flush(&self) {
        // A closed terminal is noticed by the next `println!`.
        let _ = std::io::stdout().flush();
    }
}
