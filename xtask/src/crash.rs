//! `cargo xtask crash`: the embedded engine killed in the middle of its work, and without a disk to write to.
//!
//! These are tests of `tidegate-sql` (`tests/crash.rs`, `tests/wal.rs`, `tests/full_disk.rs`) that run in CI too, with a few
//! rounds; here the process is killed many times. The full disk is a small tmpfs in a mount namespace of its own.

use crate::{paths, terminal};
use clap::Args;
use std::env;
use std::process::Command;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the process is killed
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Tests the release build
    #[arg(long)]
    release: bool,
}

/// Runs the rounds. False when a commit was lost or the engine did not go on.
///
/// # Errors
/// When cargo cannot be run.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    terminal::heading(&format!("kill -9, {} times", options.rounds));
    let rounds = options.rounds.to_string();
    let variable = ("TIDEGATE_CRASH_ROUNDS", rounds.as_str());
    let survived = test(options, "crash", variable)?;
    println!("{}", if survived { "no acknowledged commit was lost" } else { "see above" });
    terminal::heading("the write-ahead log beside readers");
    let survived = test(options, "wal", variable)? && survived;
    terminal::heading("a full disk");
    Ok(test(options, "full_disk", variable)? && survived)
}

fn test(options: &Options, file: &str, variable: (&str, &str)) -> Result<bool, String> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--package", "tidegate-sql", "--test", file]);
    if options.release {
        command.arg("--release");
    }
    command.args(["--", "--nocapture"]).env(variable.0, variable.1);
    let status = command.current_dir(paths::repository()).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    Ok(status.success())
}
