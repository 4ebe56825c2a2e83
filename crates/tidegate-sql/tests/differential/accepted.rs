//! The list of differences that are meant: `accepted.txt`.
//!
//! A line is `FILE | DIFFERENCE | PATTERN | REASON`. FILE is a corpus file or `*`, DIFFERENCE as [`Difference`] is written, PATTERN a
//! text with `%` for anything that the statement must be like (`\%` is a per cent sign). A REASON that begins with
//! `releases:` is about a difference between the MariaDB of one release and the next: such a line need not be used.

use crate::outcome::Difference;

/// One line of the list.
struct Line {
    file: String,
    difference: String,
    pieces: Vec<String>,
    text: String,
    /// Whether it depends on the release of MariaDB.
    varies: bool,
    used: usize,
}

/// The list.
pub(crate) struct Accepted {
    lines: Vec<Line>,
}

impl Accepted {
    /// Reads the list.
    pub(crate) fn read() -> Self {
        let lines = include_str!("accepted.txt")
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
            .map(|line| {
                let parts: Vec<&str> = line.splitn(4, " | ").map(str::trim).collect();
                let [file, difference, pattern, reason] = parts.as_slice() else {
                    panic!("accepted.txt: {line:?} is not FILE | DIFFERENCE | PATTERN | REASON")
                };
                let pieces = pattern.replace("\\%", "\u{1}");
                Line {
                    file: (*file).to_owned(),
                    difference: (*difference).to_owned(),
                    pieces: pieces.split('%').map(|piece| piece.replace('\u{1}', "%").to_lowercase()).collect(),
                    text: line.to_owned(),
                    varies: reason.starts_with("releases:"),
                    used: 0,
                }
            })
            .collect();
        Self { lines }
    }

    /// Whether a difference is listed.
    pub(crate) fn covers(&mut self, file: &str, sql: &str, difference: Difference) -> bool {
        let sql = sql.to_lowercase();
        let line = self.lines.iter_mut().find(|line| {
            (line.file == "*" || line.file == file) && line.difference == difference.to_string() && line.fits(&sql)
        });
        line.map(|line| line.used += 1).is_some()
    }

    /// Lines that no statement needs any more.
    pub(crate) fn unused(&self) -> Vec<&str> {
        self.lines
            .iter()
            .filter(|line| line.used == 0 && !line.varies && line.file != "random")
            .map(|line| line.text.as_str())
            .collect()
    }

    /// How often each line was needed.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().map(|line| (line.used, line.text.as_str()))
    }
}

impl Line {
    fn fits(&self, sql: &str) -> bool {
        let (first, rest) = self.pieces.split_first().expect("a piece");
        let Some(mut left) = sql.strip_prefix(first.as_str()) else { return false };
        let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
        for piece in middle {
            let Some(at) = left.find(piece.as_str()) else { return false };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last.as_str())
    }
}
