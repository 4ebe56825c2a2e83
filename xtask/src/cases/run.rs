//! All chosen cases at once: threads, the report, the counts.

use super::case::{self, Case};
use super::execute::{self, Settings};
use super::pending::Pending;
use super::server::ServerKind;
use crate::bench;
use crate::paths;
use crate::services::{self, Service};
use crate::terminal::{self, Progress};
use std::fs;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Which cases run, and how.
pub(crate) struct Selection<'a> {
    /// Only cases whose name contains this.
    pub(crate) name: Option<&'a str>,
    pub(crate) kind: ServerKind,
    /// How many at once. Most of a case is waiting, so more than there are cores.
    pub(crate) jobs: usize,
    /// Keeps the directories of failing cases.
    pub(crate) keep: bool,
    /// Prints every case.
    pub(crate) verbose: bool,
    /// Rewrites `tests/pending.txt` instead of complaining about cases that pass by now.
    pub(crate) update_pending: bool,
}

/// Results of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Failed as expected.
    pub(crate) pending: usize,
    pub(crate) skipped: usize,
}

enum Verdict {
    Passed,
    Failed(Vec<String>),
    Pending(Vec<String>),
    PassedUnexpectedly,
    Skipped(String),
}

/// Runs the cases of `tests/cases` and prints what failed.
///
/// # Errors
/// When a file of cases is malformed or a service does not start.
pub(crate) fn run_cases(selection: &Selection) -> Result<Counts, String> {
    let root = paths::repository().join("tests");
    let mut all = case::load(&root.join("cases"))?;
    for (label, block) in bench::smoke_blocks()? {
        all.push(case::from_block(&label, block)?);
    }
    let pending_file = root.join("pending.txt");
    let pending = match selection.kind {
        ServerKind::Tidegate(_) => Pending::load(&pending_file)?,
        // What our binary lacks says nothing about the real one.
        ServerKind::Nginx(_) => Pending::default(),
    };
    let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
    if let [stale, ..] = pending.stale(&names).as_slice() {
        return Err(format!("tests/pending.txt: no case begins with \"{stale}\""));
    }
    let chosen: Vec<&Case> = all.iter().filter(|c| selection.name.is_none_or(|part| c.name.contains(part))).collect();
    let mut wanted: Vec<Service> = chosen.iter().flat_map(|c| c.services.iter().copied()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    // Started here, since a child dies with the thread that started it.
    let running = services::start(&wanted)?;
    let settings = Settings {
        kind: selection.kind.clone(),
        services: running.vars(),
        absent: running.absent(),
        network: running.network()?,
        keep: selection.keep,
    };
    let verdicts = run_all(&chosen, selection, &settings, &pending);
    finish(selection, &chosen, &verdicts, &pending, &pending_file)
}

fn run_all(chosen: &[&Case], selection: &Selection, settings: &Settings, pending: &Pending) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let progress = Mutex::new(Progress::new());
    let mut verdicts: Vec<(usize, Verdict)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..selection.jobs.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while let Some((index, case)) = next_case(&next, chosen) {
                        let verdict = judge(case, settings, pending);
                        report(&progress, selection, case, &verdict, index + 1, chosen.len());
                        mine.push((index, verdict));
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker has no panic of its own")).collect()
    });
    progress.into_inner().expect("no worker panicked with the lock").clear();
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

fn next_case<'a>(next: &AtomicUsize, chosen: &[&'a Case]) -> Option<(usize, &'a Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    chosen.get(index).map(|case| (index, *case))
}

fn judge(case: &Case, settings: &Settings, pending: &Pending) -> Verdict {
    if let Some(reason) = &case.skip {
        return Verdict::Skipped(reason.clone());
    }
    if let (Some(reason), ServerKind::Nginx(_)) = (&case.tidegate_only, &settings.kind) {
        return Verdict::Skipped(format!("not for nginx: {reason}"));
    }
    if let Some((_, reason)) = settings.absent.iter().find(|(service, _)| case.services.contains(service)) {
        return Verdict::Skipped(reason.clone());
    }
    if case.needs_ipv6 && TcpListener::bind("[::1]:0").is_err() {
        return Verdict::Skipped("this machine has no IPv6".to_owned());
    }
    let problems = execute::run(case, settings);
    match (problems.is_empty(), pending.reason(&case.name)) {
        (true, None) => Verdict::Passed,
        (true, Some(_)) => Verdict::PassedUnexpectedly,
        (false, None) => Verdict::Failed(problems),
        (false, Some(_)) => Verdict::Pending(problems),
    }
}

fn report(progress: &Mutex<Progress>, selection: &Selection, case: &Case, verdict: &Verdict, number: usize, of: usize) {
    let mut progress = progress.lock().expect("no worker panicked with the lock");
    let line = match verdict {
        Verdict::Failed(problems) => Some(failure(&terminal::red("FAILED"), case, problems)),
        Verdict::Skipped(reason) => Some(format!("{} {}: {reason}", terminal::yellow("skipped"), case.name)),
        Verdict::Passed if selection.verbose => Some(format!("{} {}", terminal::green("passed"), case.name)),
        // Whoever asks for a case by name wants to know what it lacks.
        Verdict::Pending(problems) if selection.verbose => Some(failure(&terminal::yellow("pending"), case, problems)),
        _ => None,
    };
    if let Some(line) = line {
        progress.clear();
        println!("{line}");
    }
    progress.show(&format!("[{number}/{of}] {}", case.name));
}

fn failure(word: &str, case: &Case, problems: &[String]) -> String {
    let mut text = format!("{word} {} ({})", case.name, case.place);
    for problem in problems {
        text.push_str(&format!("\n    {}", problem.trim_end()));
    }
    text
}

fn finish(
    selection: &Selection,
    chosen: &[&Case],
    verdicts: &[Verdict],
    pending: &Pending,
    file: &std::path::Path,
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let mut unexpected = Vec::new();
    for (case, verdict) in chosen.iter().zip(verdicts) {
        match verdict {
            Verdict::Passed => counts.passed += 1,
            Verdict::Failed(_) => counts.failed += 1,
            Verdict::Pending(_) => counts.pending += 1,
            Verdict::Skipped(_) => counts.skipped += 1,
            Verdict::PassedUnexpectedly => unexpected.push(case.name.as_str()),
        }
    }
    if selection.update_pending && selection.name.is_none() {
        let outcome = |v: &Verdict| matches!(v, Verdict::Passed | Verdict::PassedUnexpectedly);
        let outcomes: Vec<(&str, bool)> =
            chosen.iter().zip(verdicts).map(|(c, v)| (c.name.as_str(), outcome(v))).collect();
        fs::write(file, pending.updated(&outcomes)).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("tests/pending.txt: {} cases passed and left the list", unexpected.len());
        counts.passed += unexpected.len();
        return Ok(counts);
    }
    if !unexpected.is_empty() {
        println!(
            "{} these cases pass, so their lines in tests/pending.txt must go (`cargo xtask test --update-pending`):",
            terminal::red("FAILED")
        );
        unexpected.iter().for_each(|name| println!("    {name}"));
        counts.failed += unexpected.len();
    }
    Ok(counts)
}
