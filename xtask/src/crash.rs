//! `cargo xtask crash`: the embedded engine killed in the middle of its work, its machine without power, its disk broken
//! or full.
//!
//! These are tests of `tidegate-sql` (`tests/crash.rs`, `src/store/disk/tests.rs`, `tests/wal.rs`, `tests/full_disk.rs`) and of
//! `tidegate` (`tests/mysql_port_crash.rs`, `tests/all_doors_crash.rs`, `tests/queue_crash.rs`) that run in CI too, with a few rounds; here there are many. The full disk is a small tmpfs in a mount namespace of its own.

use crate::{terminal, tools};
use clap::Args;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// How often the process is killed, the power cut, a write or sync refused
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
    let survived = test(options, &["--test", "crash"], variable)?;
    terminal::heading(&format!("the same through the MySQL port, {} times", options.rounds));
    let survived = test(options, &["--test", "mysql_port_crash"], variable)? && survived;
    terminal::heading(&format!("through all doors at once, {} times", options.rounds));
    let survived = test(options, &["--test", "all_doors_crash"], variable)? && survived;
    terminal::heading(&format!("messages of queues, {} times", options.rounds));
    let survived = test(options, &["--test", "queue_crash"], variable)? && survived;
    println!("{}", if survived { "no acknowledged commit was lost" } else { "see above" });
    terminal::heading(&format!("power cuts and a disk that refuses, {} times each", options.rounds));
    let survived = test(options, &["--lib", "store::disk"], variable)? && survived;
    terminal::heading("the write-ahead log beside readers");
    let survived = test(options, &["--test", "wal"], variable)? && survived;
    terminal::heading("a full disk");
    Ok(test(options, &["--test", "full_disk"], variable)? && survived)
}

fn test(options: &Options, tests: &[&str], variable: (&str, &str)) -> Result<bool, String> {
    let mut command = tools::cargo();
    // One package alone wants other features of what it depends on than `cargo xtask test`: everything would be compiled again.
    command.args(["test", "--workspace"]).args(tests);
    if options.release {
        command.arg("--release");
    }
    command.args(["--", "--nocapture"]).env(variable.0, variable.1);
    let status = command.status().map_err(|e| format!("cannot run cargo: {e}"))?;
    Ok(status.success())
}
