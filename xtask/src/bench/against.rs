//! `cargo xtask bench --against COMMIT`: which works a change has made dearer or cheaper, by more than their spread.
//!
//! Both commits are built in worktrees of their own, with what registries bring compiled once, and run in turns on the same core.

use super::definition::{self, Bench, Kind};
use super::load::{self, Sample};
use super::server::Contestant;
use super::{Options, is_chosen, vars};
use crate::{paths, services, terminal, tools};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tidegate_report::machine;
use tidegate_report::stats::{Difference, Figure};

/// One work: CPU time for a request, before and now.
struct Change {
    title: String,
    before: Figure,
    now: Figure,
}

impl Change {
    fn of(title: &str, rounds: &[Vec<Sample>]) -> Option<Change> {
        let figure = |samples: &Vec<Sample>| Figure::of(samples.iter().map(|sample| sample.us_per_request));
        Some(Change { title: title.to_owned(), before: figure(rounds.first()?)?, now: figure(rounds.get(1)?)? })
    }

    fn difference(&self) -> Difference {
        self.now.compared_with(&self.before)
    }

    fn verdict(&self) -> String {
        match self.difference() {
            Difference::None => "no difference".to_owned(),
            Difference::Higher => format!("DEARER: {:.2} x", self.now.median / self.before.median),
            Difference::Lower => format!("cheaper: {:.2} x", self.now.median / self.before.median),
        }
    }

    fn line(&self) -> String {
        let shown = |figure: &Figure| format!("{:.2} us ±{:.0} %", figure.median, figure.percent());
        let verdict = match self.difference() {
            Difference::None => self.verdict(),
            Difference::Higher => terminal::red(&self.verdict()),
            Difference::Lower => terminal::green(&self.verdict()),
        };
        format!("{:64}  {:>16} then, {:>16} now  {verdict}", self.title, shown(&self.before), shown(&self.now))
    }
}

/// Builds both, measures in turns, prints what has changed, and writes the page. False when a work got dearer.
///
/// # Errors
/// When a commit is not there or cannot be built.
pub(super) fn run(options: &Options, commit: &str) -> Result<bool, String> {
    // Ahead of two builds and an hour of measuring.
    let directory_of = |page: &Path| page.parent().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_owned);
    if let Some(missing) = options.page.as_deref().and_then(directory_of).filter(|dir| !dir.is_dir()) {
        return Err(format!("the page cannot be written: there is no directory {}", missing.display()));
    }
    let (before, now) = (Commit::find(commit)?, Commit::find(&options.of)?);
    if before.id == now.id {
        return Err(format!("{commit} and {} are the same commit", options.of));
    }
    let contestants = [Contestant::former(before.build()?), Contestant::tidegate(now.build()?)];
    let mut changes = Vec::new();
    let mut left_out = Vec::new();
    for (file, benches) in definition::load()? {
        let chosen = benches.iter().filter(|bench| is_chosen(&options.names, &file, &bench.title));
        let mut is_named = false;
        for bench in chosen {
            if bench.kind != Kind::Http {
                left_out.push(format!("{}: its figure is no CPU time for a request of HTTP", bench.title));
                continue;
            }
            if !std::mem::replace(&mut is_named, true) {
                terminal::heading(&file);
            }
            match measure(bench, options, &contestants) {
                Ok(change) => {
                    println!("{}", change.line());
                    changes.push(change);
                }
                // A work that the older commit cannot do yet is no reason to look at none.
                Err(problem) => {
                    println!("{}: {}", bench.title, problem.lines().next().unwrap_or_default());
                    left_out.push(format!("{}: {}", bench.title, problem.lines().next().unwrap_or_default()));
                }
            }
        }
    }
    if changes.is_empty() {
        return Err("no work has that name, or none could be measured".to_owned());
    }
    let usual = directory().join(format!("{}-{}.md", before.short(), now.short()));
    let page = options.page.clone().unwrap_or(usual);
    let text = markdown(&before, &now, &changes, &left_out, options);
    fs::write(&page, text).map_err(|e| format!("{}: {e}", page.display()))?;
    let dearer = changes.iter().filter(|change| change.difference() == Difference::Higher).count();
    let cheaper = changes.iter().filter(|change| change.difference() == Difference::Lower).count();
    println!("{} works: {dearer} dearer, {cheaper} cheaper; {}", changes.len(), page.display());
    Ok(dearer == 0)
}

fn measure(bench: &Bench, options: &Options, contestants: &[Contestant]) -> Result<Change, String> {
    let running = services::start(&bench.services)?;
    let counted = if bench.counts_services { running.pids() } else { Vec::new() };
    let vars = vars(options, &running);
    let time = Duration::from_secs(options.seconds);
    let rounds = load::interleaved(bench, &vars, contestants, options.rounds, time, &counted)?;
    Change::of(&bench.title, &rounds).ok_or_else(|| "there is no round".to_owned())
}

/// Where builds and pages are.
fn directory() -> PathBuf {
    paths::target().join("against")
}

/// A commit of this repository.
struct Commit {
    id: String,
    title: String,
}

impl Commit {
    fn find(name: &str) -> Result<Commit, String> {
        let id = git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
            .map_err(|_| format!("there is no commit {name}"))?;
        let title = git(&["log", "-1", "--format=%h of %cs: %s", &id])?;
        Ok(Commit { id, title })
    }

    fn short(&self) -> &str {
        &self.id[..self.id.len().min(12)]
    }

    /// The server of that commit, built once.
    fn build(&self) -> Result<PathBuf, String> {
        let kept = directory().join("bin").join(self.short()).join("tidegate");
        if kept.is_file() {
            return Ok(kept);
        }
        // Of two runs at once one would build what the other has checked out, or keep its binary.
        let _turn = turn()?;
        if kept.is_file() {
            return Ok(kept);
        }
        terminal::heading(&format!("release build of {}", self.title));
        let tree = Worktree::add(self)?;
        let build = directory().join("build");
        let mut cargo = tools::cargo();
        cargo.current_dir(&tree.path).env("CARGO_TARGET_DIR", &build);
        let problem = format!("the release build of {} failed", self.title);
        tools::run(cargo.args(["build", "--release", "--package", "tidegate"]), &problem)?;
        let place = |e: std::io::Error| format!("{}: {e}", kept.display());
        fs::create_dir_all(kept.parent().unwrap_or(&kept)).map_err(place)?;
        let new = kept.with_extension("new");
        fs::copy(build.join("release/tidegate"), &new).and_then(|_| fs::rename(&new, &kept)).map_err(place)?;
        Ok(kept)
    }
}

/// The right to build, until it is dropped.
fn turn() -> Result<File, String> {
    let path = directory().join("building");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(directory()).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    if file.try_lock().is_err() {
        println!("another run builds; this one waits for it");
        file.lock().map_err(failed)?;
    }
    Ok(file)
}

/// A checkout of a commit, removed when dropped.
struct Worktree {
    path: PathBuf,
}

impl Worktree {
    fn add(commit: &Commit) -> Result<Worktree, String> {
        let path = directory().join(format!("tree-{}", commit.short()));
        let tree = Worktree { path };
        // One that a run was broken off with is in the way.
        tree.remove();
        git(&["worktree", "add", "--quiet", "--force", "--detach", &tree.path.to_string_lossy(), &commit.id])?;
        Ok(tree)
    }

    fn remove(&self) {
        // Where there is none, there is nothing to remove.
        let _ = git(&["worktree", "remove", "--force", &self.path.to_string_lossy()]);
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(paths::repository()).output();
    let output = output.map_err(|e| format!("git: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn markdown(before: &Commit, now: &Commit, changes: &[Change], left_out: &[String], options: &Options) -> String {
    let mut text = "# One commit beside another\n\n".to_owned();
    let page = options.page.as_deref().unwrap_or(Path::new("target/against/"));
    let _ = writeln!(text, "Made by `cargo xtask bench --against {}`, into {}.\n", before.short(), page.display());
    let _ = writeln!(text, "- then: {}\n- now: {}", before.title, now.title);
    let _ = writeln!(text, "- machine: {}", machine::describe());
    let _ = writeln!(
        text,
        "- {} rounds of {} s in turns, their median; the spread is that of the middle half. A work whose difference is not wider than the \
         spread of both has none\n",
        options.rounds, options.seconds
    );
    text += "| work | us/request then | spread | us/request now | spread | |\n| --- | --- | --- | --- | --- | --- |\n";
    for change in changes {
        let (before, now) = (&change.before, &change.now);
        let _ = writeln!(
            text,
            "| {} | {:.2} | ±{:.0} % | {:.2} | ±{:.0} % | {} |",
            change.title,
            before.median,
            before.percent(),
            now.median,
            now.percent(),
            change.verdict()
        );
    }
    if !left_out.is_empty() {
        text += "\nLeft out:\n\n";
        left_out.iter().for_each(|sentence| {
            let _ = writeln!(text, "- {sentence}");
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::Load;

    fn samples(values: [f64; 5]) -> Vec<Sample> {
        values.map(|us_per_request| Sample { us_per_request, user_us: 0.0, load: Load::default() }).into()
    }

    #[test]
    fn a_change_is_one_when_it_is_wider_than_the_spread() {
        let before = [10.0, 10.1, 9.9, 10.0, 30.0];
        for (now, expected) in [
            ([11.0, 11.1, 10.9, 11.0, 11.0], "DEARER: 1.10 x"),
            ([9.0, 9.1, 8.9, 9.0, 9.0], "cheaper: 0.90 x"),
            ([10.1, 10.0, 10.1, 9.9, 10.0], "no difference"),
            ([9.0, 14.0, 11.0, 8.0, 13.0], "no difference"),
        ] {
            let change = Change::of("a work", &[samples(before), samples(now)]).unwrap();
            assert_eq!(change.verdict(), expected);
            assert!(change.line().contains("a work"), "{}", change.line());
        }
        assert!(Change::of("a work", &[samples(before)]).is_none());
    }

    #[test]
    fn commits_are_found_by_their_names() {
        let head = Commit::find("HEAD").unwrap();
        assert_eq!(Commit::find(&head.id).unwrap().title, head.title);
        assert_eq!(head.short().len(), 12);
        assert_eq!(Commit::find("no-such-commit").err().as_deref(), Some("there is no commit no-such-commit"));
    }
}
