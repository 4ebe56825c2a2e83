//! `cargo xtask crash`: the embedded engine killed in the middle of its work, and without a disk to write to.
//!
//! The rounds themselves are tests of `tidegate-sql` (`tests/crash.rs`, `tests/full_disk.rs`), a few of which run in CI;
//! here they run for long, and on a disk that really is full: a small tmpfs, which takes a superuser to mount.

use crate::{paths, terminal};
use clap::Args;
use std::env;
use std::path::Path;
use std::process::Command;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the process is killed
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Leaves out the full disk
    #[arg(long)]
    no_full_disk: bool,
    /// Tests the release build
    #[arg(long)]
    release: bool,
}

/// Size of the disk that gets full.
const DISK: &str = "size=8m";

/// Runs the rounds. False when a commit was lost or the engine did not go on.
///
/// # Errors
/// When cargo or mount cannot be run.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    terminal::heading(&format!("kill -9, {} times", options.rounds));
    let rounds = options.rounds.to_string();
    let variable = ("TIDEGATE_CRASH_ROUNDS", Path::new(&rounds));
    let survived = test(options, "crash", "no_acknowledged_commit_is_lost", variable)?;
    println!("{}", if survived { "no acknowledged commit was lost" } else { "see above" });
    terminal::heading("the write-ahead log beside a reader");
    let survived = test(options, "wal", "the_log_starts_over_beside_readers", variable)? && survived;
    if options.no_full_disk {
        return Ok(survived);
    }
    if !nix::unistd::geteuid().is_root() {
        println!("the full disk is left out: mounting one takes a superuser");
        return Ok(survived);
    }
    terminal::heading("a full disk");
    let disk = paths::Scratch::new("disk", false)?;
    call("mount", &["-t", "tmpfs", "-o", DISK, "tmpfs"], disk.path())?;
    let went_on = test(options, "full_disk", "a_full_disk", ("TIDEGATE_SMALL_DISK", disk.path()));
    call("umount", &[], disk.path())?;
    Ok(survived && went_on?)
}

fn test(options: &Options, file: &str, name: &str, variable: (&str, &Path)) -> Result<bool, String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--package", "tidegate-sql", "--test", file]);
    if options.release {
        command.arg("--release");
    }
    command.args(["--", "--nocapture", "--include-ignored", "--exact", name]).env(variable.0, variable.1);
    let status = command.current_dir(paths::repository()).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    Ok(status.success())
}

fn call(program: &str, arguments: &[&str], last: &Path) -> Result<(), String> {
    let status = Command::new(program).args(arguments).arg(last).status().map_err(|e| format!("{program}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} ended with {status}")) }
}
