//! Counts answers by kind of statement and writes what differs.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use crate::{accepted::Accepted, outcome::Outcome};

/// Differences that the test prints; all of them are in the file.
const SHOWN_MAX: usize = 40;

#[derive(Default)]
struct Count {
    all: usize,
    same: usize,
}

/// What a run has found.
pub(crate) struct Report {
    accepted: Accepted,
    kinds: BTreeMap<String, Count>,
    details: BTreeMap<&'static str, usize>,
    unlisted: Vec<String>,
    listed: usize,
    text: String,
}

impl Report {
    pub(crate) fn new(accepted: Accepted) -> Self {
        Self {
            accepted,
            kinds: BTreeMap::new(),
            details: BTreeMap::new(),
            unlisted: Vec::new(),
            listed: 0,
            text: String::new(),
        }
    }

    /// Compares the answers to one statement.
    pub(crate) fn add(&mut self, file: &str, sql: &str, ours: Outcome, theirs: Outcome) {
        let kind = sql.split_ascii_whitespace().next().unwrap_or_default().trim_matches('(').to_uppercase();
        let count = self.kinds.entry(kind).or_default();
        count.all += 1;
        let ordered = sql.to_uppercase().contains("ORDER BY");
        let Some(difference) = ours.difference(&theirs, ordered) else {
            count.same += 1;
            for detail in ours.details(&theirs) {
                *self.details.entry(detail).or_default() += 1;
                let _ = writeln!(self.text, "{file}: {detail}: {sql}\n    ours:   {ours}\n    theirs: {theirs}");
            }
            return;
        };
        let listed = self.accepted.covers(file, sql, difference);
        let mark = if listed { " (listed)" } else { "" };
        let shown = format!("{file}: {difference}{mark}: {sql}\n    ours:   {ours}\n    theirs: {theirs}\n");
        self.text.push_str(&shown);
        if listed {
            self.listed += 1;
        } else {
            self.unlisted.push(shown);
        }
    }

    /// Writes the report, prints the figures, fails for what is not listed.
    pub(crate) fn finish(self, file: &str, complete: bool, same_percent_min: f64) {
        let (all, same) = self.kinds.values().fold((0, 0), |(all, same), kind| (all + kind.all, same + kind.same));
        let percent = |count: &Count| 100.0 * count.same as f64 / count.all.max(1) as f64;
        let total = Count { all, same };
        let mut figures = String::new();
        for (kind, count) in &self.kinds {
            let _ = writeln!(figures, "{kind:<12} {:>6} of {:>6}  {:6.2} %", count.same, count.all, percent(count));
        }
        let _ = writeln!(figures, "{:<12} {same:>6} of {all:>6}  {:6.2} %", "all", percent(&total));
        for (detail, count) in &self.details {
            let _ = writeln!(figures, "same but for {detail}: {count}");
        }
        let _ = writeln!(figures, "listed differences: {}, not listed: {}", self.listed, self.unlisted.len());
        let uses: Vec<String> = self.accepted.uses().map(|(used, line)| format!("{used:>5} {line}")).collect();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        let written = format!("{figures}\n{}\n\n{}", uses.join("\n"), self.text);
        std::fs::write(&path, written).expect("the report");
        println!("{figures}report: {}", path.display());
        for difference in self.unlisted.iter().take(SHOWN_MAX) {
            println!("{difference}");
        }
        let unused = self.accepted.unused();
        if complete {
            assert!(unused.is_empty(), "accepted.txt lists differences that are none any more:\n{}", unused.join("\n"));
        }
        assert!(
            !complete || self.unlisted.is_empty(),
            "{} differences that accepted.txt does not list",
            self.unlisted.len()
        );
        assert!(
            percent(&total) >= same_percent_min,
            "{:.2} % the same, at least {same_percent_min} wanted",
            percent(&total)
        );
    }
}
