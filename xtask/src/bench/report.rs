//! Ratios on the terminal and in `bench/results/NAME.md`.

use super::definition::{Bench, Kind};
use super::load::Sample;
use super::server::Contestant;
use crate::{paths, terminal};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The outcome of one benchmark.
pub(super) struct Row {
    title: String,
    unit: &'static str,
    /// Whose figure ours is divided by.
    rival: &'static str,
    /// The target is about our own figure, not about a ratio.
    absolute: bool,
    target: Option<f64>,
    user_target: Option<f64>,
    figures: Vec<(&'static str, Sample)>,
}

impl Row {
    /// No figures yet.
    pub(super) fn new(bench: &Bench) -> Row {
        // A reload must fail no request; every other target is in the definition.
        let target = if bench.kind == Kind::Reload { Some(0.0) } else { bench.ratio };
        Row {
            title: bench.title.clone(),
            unit: "us",
            rival: bench.against.name(),
            absolute: false,
            target,
            user_target: bench.user_ratio,
            figures: Vec::new(),
        }
    }

    pub(super) fn unit(&mut self, unit: &'static str) {
        self.unit = unit;
    }

    /// Adds to the title.
    pub(super) fn note(&mut self, text: &str) {
        self.title.push_str("; ");
        self.title.push_str(text);
    }

    pub(super) fn is_absolute(&mut self) {
        self.absolute = true;
    }

    pub(super) fn add(&mut self, contestant: &'static str, sample: Sample) {
        self.figures.push((contestant, sample));
    }

    fn of(&self, name: &str) -> Option<&Sample> {
        self.figures.iter().find(|(n, _)| *n == name).map(|(_, s)| s)
    }

    /// What is compared with the target: ours by nginx's, or ours alone.
    fn ratio(&self) -> Option<f64> {
        let ours = self.of("tidegate")?.us_per_request;
        if self.absolute {
            return Some(ours);
        }
        Some(ours / self.of(self.rival)?.us_per_request)
    }

    fn user_ratio(&self) -> Option<f64> {
        Some(self.of("tidegate")?.user_us / self.of(self.rival)?.user_us)
    }

    /// Whether every target is met; without nginx there is nothing to miss.
    pub(super) fn is_met(&self) -> bool {
        let fits = |figure: Option<f64>, target: Option<f64>| match (figure, target) {
            (Some(figure), Some(target)) => figure <= target,
            _ => true,
        };
        fits(self.ratio(), self.target) && fits(self.user_ratio(), self.user_target)
    }

    /// One line for the terminal.
    pub(super) fn line(&self) -> String {
        let mut text = format!("{:48}", self.title);
        for (name, sample) in &self.figures {
            let _ = write!(text, "  {name} {:.2} {}", sample.us_per_request, self.unit);
            if sample.user_us > 0.0 {
                let _ = write!(text, " ({:.2} user)", sample.user_us);
            }
        }
        if let Some(ratio) = self.ratio() {
            let shown = format!("  {ratio:.2}{}", self.target.map_or(String::new(), |t| format!(" (at most {t:.2})")));
            text.push_str(&if self.is_met() { terminal::green(&shown) } else { terminal::red(&shown) });
        }
        text
    }

    /// One row of the table.
    fn markdown(&self) -> String {
        let cell = |name: &str| {
            self.of(name).map_or_else(
                || "-".to_owned(),
                |s| {
                    if s.user_us > 0.0 {
                        format!("{:.2} ({:.2} + {:.2})", s.us_per_request, s.user_us, s.us_per_request - s.user_us)
                    } else {
                        format!("{:.2}", s.us_per_request)
                    }
                },
            )
        };
        let rate = |name: &str| match self.of(name) {
            Some(s) if s.load.per_second > 0.0 => format!("{:.0} / {:.0} us", s.load.per_second, s.load.p99_us),
            _ => "-".to_owned(),
        };
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        let user = if self.of("tidegate").is_some_and(|s| s.user_us > 0.0) { self.user_ratio() } else { None };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            self.title,
            self.unit,
            self.rival,
            cell(self.rival),
            cell("tidegate"),
            optional(self.ratio()),
            optional(self.target),
            optional(user),
            optional(self.user_target),
            rate(self.rival),
            rate("tidegate"),
        )
    }
}

/// Writes `bench/results/NAME.md`.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(
    name: &str,
    rows: &[Row],
    contestants: &[Contestant],
    rounds: usize,
    seconds: u64,
) -> Result<(), String> {
    let mut text = format!(
        "# {name}\n\nMade by `cargo xtask bench {name}`, {}.\n\n",
        first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"])
    );
    for contestant in contestants {
        let _ = writeln!(text, "- {}: {}, {}", contestant.name, contestant.version(), built(&contestant.binary));
    }
    let _ = writeln!(text, "- this tree: {}", first_line("git", &["describe", "--always", "--dirty"]));
    let _ = writeln!(text, "- machine: {}, kernel {}", processor(), first_line("uname", &["-r"]));
    let _ = writeln!(
        text,
        "- {rounds} rounds of {seconds} s, the lower quartile; one worker each; `us` is CPU time per request (user + system)\n"
    );
    text.push_str("| work | unit | rival | rival's | tidegate's | ratio | at most | user ratio | at most | rival's req/s, p99 | tidegate's req/s, p99 |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    rows.iter().for_each(|row| text.push_str(&row.markdown()));
    let dir = paths::repository().join("bench/results");
    let file = dir.join(format!("{name}.md"));
    fs::create_dir_all(&dir).and_then(|()| fs::write(&file, text)).map_err(|e| format!("{}: {e}", file.display()))
}

/// Which build it is: below the repository the path tells, elsewhere the name.
fn built(binary: &Path) -> String {
    let inside = binary.strip_prefix(paths::repository()).ok();
    inside.or(binary.file_name().map(Path::new)).unwrap_or(binary).display().to_string()
}

fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(paths::repository()).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|p| p.1)).collect();
    format!("{} x {}", models.len(), models.first().unwrap_or(&"unknown processor"))
}
