//! The runner's results as a table.
//!
//! The runner writes `{"suites": {NAME: {"rev": …, "files": {PATH: {"blocks": [{"r": LETTER, …}]}}}}}`. The letters are
//! P, p (matched debug lines), R (passed when run again); F, X, D, T, N for failures; S and E make no statement, `.` was
//! left out.

use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Results of one suite.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suite {
    name: String,
    revision: String,
    /// Path and counts, in the order of their paths.
    files: Vec<(String, Counts)>,
    failures: Vec<Failure>,
}

/// A block that fails.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    path: String,
    /// What the suite calls it: `TEST 3: title`.
    title: String,
    /// The first assertion that does not hold, or why there was no start.
    why: String,
}

impl Failure {
    /// `TEST 3: title` by its number alone.
    fn number(&self) -> &str {
        let rest = self.title.trim_start_matches("TEST ");
        rest.split(':').next().unwrap_or(rest)
    }
}

/// The causes of failures that somebody has looked into: the lines of `conformance/causes.txt`.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<(Regex, String)>);

impl Causes {
    /// Reads lines of the form `PATTERN -- cause`; empty lines and those with `#` in front are left out.
    ///
    /// # Errors
    /// A line without ` -- `, or a pattern that is none.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut causes = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (pattern, cause) =
                line.split_once(" -- ").ok_or(format!("line {number} of the causes has no \" -- \""))?;
            let pattern = Regex::new(pattern.trim()).map_err(|e| format!("line {number} of the causes: {e}"))?;
            causes.push((pattern, cause.trim().to_owned()));
        }
        Ok(Self(causes))
    }

    /// The first cause whose pattern matches `PATH TITLE: WHY`.
    fn of(&self, failure: &Failure) -> &str {
        self.of_text(&format!("{} {}: {}", failure.path, failure.title, failure.why))
    }

    /// The first cause whose pattern matches `text`.
    pub(super) fn of_text(&self, text: &str) -> &str {
        self.0.iter().find(|(pattern, _)| pattern.is_match(text)).map_or("not looked into", |(_, cause)| cause)
    }
}

/// How many blocks ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    no_start: usize,
    died: usize,
    skipped: usize,
}

impl Counts {
    fn count(&mut self, letter: &str) {
        match letter {
            "P" | "p" | "R" => self.passed += 1,
            "F" => self.failed += 1,
            "X" => self.no_start += 1,
            "D" | "T" | "N" => self.died += 1,
            "S" | "E" => self.skipped += 1,
            _ => {}
        }
    }

    fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.no_start += other.no_start;
        self.died += other.died;
        self.skipped += other.skipped;
    }

    fn judged(&self) -> usize {
        self.passed + self.failed + self.no_start + self.died
    }

    fn share(&self) -> String {
        match self.judged() {
            0 => "-".to_owned(),
            judged => format!("{:.1} %", 100.0 * self.passed as f64 / judged as f64),
        }
    }

    fn row(&self, name: &str) -> String {
        let Counts { passed, failed, no_start, died, skipped } = self;
        format!(
            "| {name} | {passed} of {} | {} | {failed} | {no_start} | {died} | {skipped} |\n",
            self.judged(),
            self.share()
        )
    }
}

impl Suite {
    fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.files.iter().for_each(|(_, counts)| total.add(counts));
        total
    }
}

/// Reads the runner's results.
///
/// # Errors
/// When they are no JSON or have no suites.
pub(super) fn read(text: &str) -> Result<Vec<Suite>, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("the runner's results: {e}"))?;
    let suites = value["suites"].as_object().ok_or("the runner's results have no suites")?;
    Ok(suites.iter().map(|(name, suite)| read_suite(name, suite)).collect())
}

fn read_suite(name: &str, suite: &Value) -> Suite {
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for (path, file) in suite["files"].as_object().into_iter().flatten() {
        let mut counts = Counts::default();
        for block in file["blocks"].as_array().into_iter().flatten() {
            let letter = block["r"].as_str().unwrap_or_default();
            counts.count(letter);
            if matches!(letter, "F" | "X" | "D" | "T" | "N") {
                let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                failures.push(Failure { path: path.clone(), title: text("title"), why: text("why") });
            }
        }
        files.push((path.clone(), counts));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    failures.sort_by(|a, b| a.path.cmp(&b.path));
    Suite { name: name.to_owned(), revision: suite["rev"].as_str().unwrap_or("?").to_owned(), files, failures }
}

/// One line per suite.
pub(super) fn short(suites: &[Suite]) -> String {
    suites.iter().fold(String::new(), |mut text, suite| {
        let total = suite.total();
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{}: {} of {} blocks pass ({})", suite.name, total.passed, total.judged(), total.share());
        text
    })
}

const HEAD: &str = "| pass | | an assertion fails | no start | died, hung or not run | skipped |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";

/// The page `conformance/summary.md`.
pub(super) fn markdown(suites: &[Suite], held_to: Option<&str>, causes: &Causes) -> String {
    let mut text = "# Conformance\n\nMade by `cargo xtask conformance`. ".to_owned();
    match held_to {
        Some(baseline) => {
            let _ = writeln!(text, "Only blocks that the real thing passes are counted (`{baseline}`).\n");
        }
        None => text.push_str("All blocks are counted, also those that the real thing fails here.\n\n"),
    }
    let _ = write!(text, "| suite {HEAD}");
    for suite in suites {
        text.push_str(&suite.total().row(&format!("{} {}", suite.name, suite.revision)));
    }
    for suite in suites.iter().filter(|suite| !suite.failures.is_empty()) {
        let _ = write!(text, "\n## {}: what fails, by cause\n", suite.name);
        text.push_str(&by_cause(suite, causes));
    }
    for suite in suites {
        let _ = write!(text, "\n## {}: files\n\n| file {HEAD}", suite.name);
        for (path, counts) in suite.files.iter().filter(|(_, counts)| counts.judged() > 0) {
            text.push_str(&counts.row(path));
        }
    }
    text
}

/// The failing blocks under their causes, the commonest first.
fn by_cause(suite: &Suite, causes: &Causes) -> String {
    let mut groups: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
    for failure in &suite.failures {
        groups.entry(causes.of(failure)).or_default().push(failure);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, failures)| std::cmp::Reverse(failures.len()));
    let mut text = String::new();
    for (cause, failures) in groups {
        let _ = writeln!(text, "\n**{cause}** ({})\n", failures.len());
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for failure in failures {
            files.entry(&failure.path).or_default().push(failure.number());
        }
        for (path, numbers) in files {
            let _ = writeln!(text, "- {path}: {}", numbers.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_a_table() {
        let text = r#"{"suites": {"s": {"rev": "v1", "files": {"t/b.t": {"blocks": [{"r": "P"}, {"r": "F"}, {"r": "."}]},
            "t/a.t": {"blocks": [{"r": "p"}, {"r": "X"}, {"r": "N"}, {"r": "S"}]}}}}}"#;
        let suites = read(text).unwrap();
        assert_eq!(short(&suites), "s: 2 of 5 blocks pass (40.0 %)\n");
        let page = markdown(&suites, Some("base.json"), &Causes::default());
        assert!(page.contains("| s v1 | 2 of 5 | 40.0 % | 1 | 1 | 1 | 1 |\n"), "{page}");
        assert!(
            page.contains("| t/a.t | 1 of 3 | 33.3 % | 0 | 1 | 1 | 1 |\n| t/b.t | 1 of 2 | 50.0 % | 1 | 0 | 0 | 0 |\n")
        );
        assert!(read("{}").is_err());
    }

    #[test]
    fn failures_are_grouped_by_cause() {
        let text = r#"{"suites": {"s": {"files": {"t/a.t": {"blocks": [
            {"r": "F", "title": "TEST 1: x", "why": "no directive"}, {"r": "X", "title": "TEST 3: y", "why": "memc"},
            {"r": "F", "title": "TEST 4: z", "why": "body differs"}, {"r": "P", "title": "TEST 5: p"}]}}}}}"#;
        let causes = Causes::read("# a comment\n\nmemc|directive -- a module is missing\n").unwrap();
        let page = markdown(&read(text).unwrap(), None, &causes);
        let expected = "**a module is missing** (2)\n\n- t/a.t: 1, 3\n\n**not looked into** (1)\n\n- t/a.t: 4\n";
        assert!(page.contains(expected), "{page}");
        assert!(Causes::read("no arrow").is_err() && Causes::read("( -- x").is_err());
    }
}
