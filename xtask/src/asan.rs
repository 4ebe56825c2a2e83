//! `cargo xtask asan`: all cases against a server with AddressSanitizer, which watches our code, LuaJIT, SQLite and the other
//! C code. A report fails the case in which it comes.
//!
//! It needs a nightly compiler, which knows `-Zsanitizer`, and clang. Lua's objects lie on the system's heap in this build.

use crate::{paths, terminal, tools};
use clap::Args;
use std::path::PathBuf;
use std::process::Command;

/// What is chosen on the command line.
#[derive(Args)]
pub(crate) struct Options {
    /// Only cases whose name contains this
    name: Option<String>,
    /// Multiplies all time limits of the cases
    #[arg(long, value_name = "TIMES", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    patience: u32,
    /// How many cases run at once
    #[arg(long, short, default_value_t = 4)]
    jobs: usize,
}

/// Builds the server and runs the cases. False when one failed.
///
/// # Errors
/// When the compilers are missing or the build fails.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let target = host()?;
    if paths::program("clang").is_none() {
        return Err("clang is not installed: `apt-get install clang` does that".to_owned());
    }
    terminal::heading("build with AddressSanitizer");
    tools::run(&mut build(&target), "the build with AddressSanitizer failed")?;
    let binary = directory().join(&target).join("debug/tidegate");
    let mut cases = tools::cargo();
    cases.args(["xtask", "test", "--cases", "--binary"]).arg(binary);
    cases.args(["--patience", &options.patience.to_string(), "--jobs", &options.jobs.to_string()]);
    cases.args(options.name.as_deref());
    // What is left at the end of the process is no concern of these cases.
    cases.env("ASAN_OPTIONS", "detect_leaks=0");
    cases.status().map(|status| status.success()).map_err(|e| format!("cannot run cargo: {e}"))
}

/// The nightly compiler's target: this machine.
fn host() -> Result<String, String> {
    let missing = "no nightly compiler: `rustup toolchain install nightly --profile minimal` gets one";
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .output()
        .map_err(|e| format!("{missing} (cannot run rustup: {e})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).filter(|_| output.status.success());
    host.map(str::to_owned).ok_or_else(|| missing.to_owned())
}

/// Cargo's target directory for this build.
fn directory() -> PathBuf {
    paths::target().join("asan")
}

fn build(target: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "build", "--package", "tidegate", "--features", "sanitizer"]);
    command.args(["--target", target]).current_dir(paths::repository());
    // The cargo that runs us has set these for its own compiler.
    command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
    command.env("CARGO_TARGET_DIR", directory()).env("RUSTFLAGS", "-Zsanitizer=address").env("CC", "clang");
    let cflags = format!("CFLAGS_{}", target.replace('-', "_"));
    command.env(cflags, "-fsanitize=address -fno-omit-frame-pointer");
    // LuaJIT's makefile takes its flags from these.
    command.env("TARGET_CFLAGS", "-DLUAJIT_USE_SYSMALLOC").env("TARGET_LD", "gcc -fsanitize=address");
    command
}
