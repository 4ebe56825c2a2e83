//! `tests/pending.txt`: cases that are expected to fail for now, each with its reason.
//!
//! A line is `NAME-PREFIX -- reason`. A pending case still runs: once it passes, its line has to go.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The list, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    entries: Vec<Entry>,
    /// Comments at the head of the file.
    preamble: String,
}

#[derive(Debug)]
struct Entry {
    prefix: String,
    reason: String,
}

impl Pending {
    /// Reads the list; a missing file is an empty one.
    ///
    /// # Errors
    /// When a line has no reason.
    pub(crate) fn load(path: &Path) -> Result<Pending, String> {
        Pending::parse(&fs::read_to_string(path).unwrap_or_default()).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(text: &str) -> Result<Pending, String> {
        let mut pending = Pending::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                if pending.entries.is_empty() {
                    pending.preamble.push_str(line);
                    pending.preamble.push('\n');
                }
                continue;
            }
            let (prefix, reason) = line
                .split_once(" -- ")
                .ok_or_else(|| format!("line {}: \"NAME-PREFIX -- reason\" is needed", index + 1))?;
            pending.entries.push(Entry { prefix: prefix.trim().to_owned(), reason: reason.trim().to_owned() });
        }
        Ok(pending)
    }

    /// Why a case is expected to fail, or `None`.
    pub(crate) fn reason(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|e| name.starts_with(&e.prefix)).map(|e| e.reason.as_str())
    }

    /// Entries that no case begins with.
    pub(crate) fn stale<'a>(&'a self, names: &[&str]) -> Vec<&'a str> {
        let is_stale = |e: &&Entry| !names.iter().any(|n| n.starts_with(&e.prefix));
        self.entries.iter().filter(is_stale).map(|e| e.prefix.as_str()).collect()
    }

    /// The file's text without what passes now: `outcomes` holds name and success of every case that ran.
    ///
    /// An entry of which no case passed stays as it is; one of which some passed becomes one line per failing case.
    pub(crate) fn updated(&self, outcomes: &[(&str, bool)]) -> String {
        let mut text = self.preamble.clone();
        for (index, entry) in self.entries.iter().enumerate() {
            // A case belongs to the first entry that fits.
            let is_first = |name: &str| self.entries.iter().position(|e| name.starts_with(&e.prefix)) == Some(index);
            let mine: Vec<_> = outcomes.iter().filter(|(name, _)| is_first(name)).collect();
            if mine.iter().all(|(_, passed)| !passed) {
                if !mine.is_empty() {
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "{} -- {}", entry.prefix, entry.reason);
                }
                continue;
            }
            for (name, _) in mine.iter().filter(|(_, passed)| !passed) {
                let _ = writeln!(text, "{name} -- {}", entry.reason);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shrinks_as_cases_pass() {
        let pending = Pending::parse("# head\n\na/x: -- later\nb/ -- never\nc/ -- gone\nd/ -- done\n").unwrap();
        assert_eq!(pending.reason("b/1: TEST 2: x"), Some("never"));
        assert_eq!(pending.reason("x/a/x: TEST 1"), None);
        assert_eq!(pending.stale(&["a/x: 1", "b/", "d/1"]), ["c/"]);
        let text = pending.updated(&[("a/x: 1", true), ("a/x: 2", false), ("b/1: 1", false), ("d/1: 1", true)]);
        assert_eq!(text, "# head\n\na/x: 2 -- later\nb/ -- never\n");
    }

    #[test]
    fn a_reason_is_needed() {
        assert_eq!(Pending::parse("a/x\n").unwrap_err(), "line 1: \"NAME-PREFIX -- reason\" is needed");
    }
}
