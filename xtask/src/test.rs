//! `cargo xtask test`: everything that must hold before a commit.

use crate::cases::{Counts, Selection, ServerKind, run_cases};
use crate::{install, links, paths, process, terminal, tools};
use clap::{Args, ValueEnum};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// No test says nothing for so long, on however busy a machine: it hangs, and the others with it.
const TEST_SILENCE_MAX: Duration = Duration::from_secs(600);

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// Only cases and unit tests whose name contains this
    name: Option<String>,
    /// Only end-to-end cases
    #[arg(long)]
    cases: bool,
    /// Which server the cases run against; nginx tells whether our expectations are right
    #[arg(long, value_enum, default_value = "tidegate")]
    server: ServerName,
    /// Runs the cases against this binary instead of the development build
    #[arg(long, env = "TIDEGATE_BIN", value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Multiplies all time limits of the cases: for a binary that is slow because something watches it
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    patience: u32,
    /// How many cases run at once
    #[arg(long, short, default_value_t = 4)]
    jobs: usize,
    /// Leaves the directories of the cases
    #[arg(long)]
    keep: bool,
    /// Prints every case, not only those that fail
    #[arg(long, short)]
    verbose: bool,
    /// Removes cases that pass from tests/pending.txt
    #[arg(long)]
    update_pending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServerName {
    Tidegate,
    Nginx,
}

/// Runs the steps and prints the plain last line `N passed, M failed`. True when nothing failed.
///
/// # Errors
/// When a step could not be carried out at all.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    if options.name.is_none() && !options.cases && options.server == ServerName::Tidegate {
        return everything(options);
    }
    let mut counts = Counts::default();
    process::be_patient(options.patience);
    let kind = match options.server {
        ServerName::Tidegate => ServerKind::Tidegate(tidegate(options.binary.as_deref(), false)?),
        ServerName::Nginx => ServerKind::Nginx(
            paths::program("nginx").ok_or("nginx is not installed: `cargo xtask install bench` does that")?,
        ),
    };
    terminal::heading("end-to-end cases");
    let found = run_cases(&Selection {
        name: options.name.as_deref(),
        kind,
        jobs: options.jobs,
        keep: options.keep,
        verbose: options.verbose || options.name.is_some(),
        update_pending: options.update_pending,
    })?;
    add(&mut counts, found);
    if options.name.is_some() && !options.cases && options.server == ServerName::Tidegate {
        unit_tests(options.name.as_deref(), &mut counts)?;
    }
    if counts.passed + counts.failed + counts.pending + counts.skipped == 0 {
        return Err("no test has that name".to_owned());
    }
    print_counts(counts);
    Ok(counts.failed == 0)
}

/// All steps. The end-to-end cases run beside the tests of cargo: both wait for servers most of the time.
fn everything(options: &Options) -> Result<bool, String> {
    let mut counts = Counts::default();
    terminal::heading("what the tests talk to");
    install::tests()?;
    check_sources(&mut counts)?;
    let cases = CasesBeside::start(&tidegate(options.binary.as_deref(), true)?, options)?;
    unit_tests(None, &mut counts)?;
    terminal::heading("end-to-end cases");
    add(&mut counts, cases.finish()?);
    print_counts(counts);
    Ok(counts.failed == 0)
}

/// The end-to-end cases in a process of their own, whose output comes when it has ended.
struct CasesBeside {
    process: Child,
    output: thread::JoinHandle<Vec<String>>,
}

impl CasesBeside {
    fn start(binary: &Path, options: &Options) -> Result<Self, String> {
        // As it was just built: the file of the program that runs may be gone.
        let mut command = Command::new(paths::target().join("debug/xtask"));
        command.args(["test", "--cases", "--binary"]).arg(binary);
        command.args(["--jobs", &options.jobs.to_string(), "--patience", &options.patience.to_string()]);
        for (is_set, flag) in
            [(options.keep, "--keep"), (options.verbose, "--verbose"), (options.update_pending, "--update-pending")]
        {
            if is_set {
                command.arg(flag);
            }
        }
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot run the cases: {e}"))?;
        let output = process.stdout.take().expect("stdout is piped");
        let output = thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).collect());
        Ok(Self { process, output })
    }

    /// Waits for their end, shows what they said and answers their results.
    fn finish(mut self) -> Result<Counts, String> {
        let lines = self.output.join().map_err(|_| "the output of the cases is lost")?;
        let status = self.process.wait().map_err(|e| format!("cannot wait for the cases: {e}"))?;
        let mut counts = Counts::default();
        let mut has_ended = false;
        for line in &lines {
            if let Some((passed, failed)) = last_line(line) {
                (counts.passed, counts.failed, has_ended) = (passed, failed, true);
            } else if !line.starts_with("== ") {
                println!("{line}");
            }
        }
        if !has_ended {
            counts.failed += 1;
            println!("{} the end-to-end cases have not come to their end: {status}", terminal::red("FAILED"));
        }
        Ok(counts)
    }
}

/// `3 passed, 1 failed` as (3, 1).
fn last_line(line: &str) -> Option<(usize, usize)> {
    let (passed, failed) = line.strip_suffix(" failed")?.split_once(" passed, ")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

fn add(counts: &mut Counts, more: Counts) {
    counts.passed += more.passed;
    counts.failed += more.failed;
    counts.pending += more.pending;
    counts.skipped += more.skipped;
}

fn print_counts(counts: Counts) {
    for (count, what) in [(counts.pending, "pending (tests/pending.txt)"), (counts.skipped, "skipped")] {
        if count > 0 {
            println!("{}", terminal::yellow(&format!("{count} {what}")));
        }
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
}

/// The binary under test: the one that was named, or the development build, which is brought up to date first.
fn tidegate(named: Option<&Path>, with_tests: bool) -> Result<PathBuf, String> {
    if let Some(path) = named {
        // Cases run in directories of their own.
        return path.canonicalize().map_err(|e| format!("{}: {e}", path.display()));
    }
    terminal::heading("build");
    // Cargo chooses the features of dependencies by what is built together: after the unit tests the same choice again
    // finds everything compiled, without them the smaller one is faster.
    let targets: &[&str] = if with_tests { &["--bins", "--tests"] } else { &[] };
    if !cargo(&[&["build", "--workspace"], targets].concat())? {
        return Err("the server does not compile".to_owned());
    }
    Ok(paths::target().join("debug/tidegate"))
}

/// What the sources must hold to without being run, each counted as one test.
fn check_sources(counts: &mut Counts) -> Result<(), String> {
    // One target directory: the fuzz targets' workspace finds the libraries checked that both have.
    let steps: [(&str, &[&str]); 4] = [
        ("formatting", &["fmt", "--all", "--check"]),
        ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        ("documentation", &["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]),
        ("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target", "--quiet"]),
    ];
    terminal::heading("links of the pages");
    let broken = links::broken()?;
    counts.passed += usize::from(broken.is_empty());
    counts.failed += usize::from(!broken.is_empty());
    for problem in broken {
        println!("{} {problem}", terminal::red("FAILED"));
    }
    for (title, arguments) in steps {
        terminal::heading(title);
        let mut command = cargo_command(arguments);
        command.env("RUSTDOCFLAGS", "-D warnings");
        if command.status().map_err(|e| format!("cannot run cargo: {e}"))?.success() {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            println!("{} cargo {}", terminal::red("FAILED"), arguments.join(" "));
        }
    }
    Ok(())
}

fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = tools::cargo();
    command.args(arguments);
    command
}

fn cargo(arguments: &[&str]) -> Result<bool, String> {
    let status = cargo_command(arguments).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    Ok(status.success())
}

/// Runs `cargo test`, shows its output and adds up its results.
fn unit_tests(name: Option<&str>, counts: &mut Counts) -> Result<(), String> {
    terminal::heading("unit and integration tests");
    let failed_before = counts.failed;
    // Compiling takes as long as it takes.
    let mut succeeded = cargo(&["test", "--workspace", "--no-run", "--quiet"])?;
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast", "--", "--quiet"];
    arguments.extend(name);
    if succeeded {
        let mut command = cargo_command(&arguments);
        // Most tests wait for servers.
        let threads = thread::available_parallelism().map_or(2, usize::from) * 2;
        command.env("RUST_TEST_THREADS", threads.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot run cargo: {e}"))?;
        let output = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.map_while(|line| sender.send(line).ok()).for_each(drop);
        });
        show_results(&lines, child.id(), counts);
        succeeded = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?.success();
    }
    if !succeeded && counts.failed == failed_before {
        // It did not compile, or a test binary crashed.
        counts.failed += 1;
        println!("{} cargo {}", terminal::red("FAILED"), arguments.join(" "));
    }
    Ok(())
}

/// Shows what tests say and adds up their results. Ends tests that hang; then the last line above names the test, as the
/// harness does after a minute, and the others go on.
fn show_results(lines: &mpsc::Receiver<String>, cargo: u32, counts: &mut Counts) {
    loop {
        match lines.recv_timeout(TEST_SILENCE_MAX) {
            Ok(line) => match test_result(&line) {
                Some((passed, failed)) => {
                    counts.passed += passed;
                    counts.failed += failed;
                }
                None if is_noise(&line) => {}
                None => println!("{line}"),
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                println!("{} nothing has happened for {TEST_SILENCE_MAX:?}", terminal::red("FAILED"));
                counts.failed += 1;
                process::kill_children(cargo);
            }
        }
    }
}

/// `test result: ok. 3 passed; 0 failed; …` as (3, 0).
fn test_result(line: &str) -> Option<(usize, usize)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut parts = rest.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

fn is_noise(line: &str) -> bool {
    line.is_empty() || line.starts_with("running ") || line.chars().all(|c| c == '.' || c == 'i')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_cargo_test() {
        let line = "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(test_result(line), Some((3, 1)));
        assert_eq!(test_result("test a ... ok"), None);
        assert_eq!(last_line("3 passed, 1 failed"), Some((3, 1)));
        assert_eq!(last_line("2 pending (tests/pending.txt)"), None);
    }
}
