//! `cargo xtask release`: the server for production, compiled with a profile of itself at work.
//!
//! What a request runs is spread over megabytes of code, and fetching it costs more than running it. A build that counts
//! what the benchmarks run tells the compiler which code belongs together, what is worth inlining and what hardly ever
//! happens (rustc's book, "Profile-guided Optimization"). Three steps, some ten minutes: a build that counts, the
//! benchmarks as its work, the build that counts on it.

use crate::{bench, install, paths, terminal, tools};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `target/profiled/tidegate`.
///
/// # Errors
/// When a step fails; nothing of an earlier release is replaced then.
pub(crate) fn run() -> Result<bool, String> {
    install::benchmarks()?;
    let host = host()?;
    let profdata = profdata(&host)?;
    let dir = paths::target().join("profiled");
    let counts = dir.join("counts");
    let profile = dir.join("tidegate.profdata");

    terminal::heading("a build that counts what it runs");
    if counts.exists() {
        fs::remove_dir_all(&counts).map_err(|e| format!("cannot remove {}: {e}", counts.display()))?;
    }
    let counting = build(&host, &dir.join("counting"), "generate", &counts)?;
    terminal::heading("its work: the benchmarks");
    bench::train(counting)?;
    merge(&profdata, &counts, &profile)?;
    terminal::heading("the build that uses the counts");
    let built = build(&host, &dir.join("counted"), "use", &profile)?;
    let release = dir.join("tidegate");
    fs::copy(&built, &release).map_err(|e| format!("cannot write {}: {e}", release.display()))?;
    println!("{}", release.display());
    Ok(true)
}

/// A release build in a target directory of its own. With `--target`, cargo spares build scripts and macros the flags.
fn build(host: &str, target: &Path, what: &str, file: &Path) -> Result<PathBuf, String> {
    let mut flag = OsString::from(format!("-Cprofile-{what}="));
    flag.push(file);
    let mut command = tools::cargo();
    command.args(["build", "--release", "--package", "tidegate", "--target", host]);
    command.env("CARGO_TARGET_DIR", target).env("CARGO_ENCODED_RUSTFLAGS", flag);
    tools::run(&mut command, "the build failed")?;
    Ok(target.join(host).join("release/tidegate"))
}

/// One file from those that the processes have written.
fn merge(profdata: &Path, counts: &Path, profile: &Path) -> Result<(), String> {
    let entries =
        fs::read_dir(counts).map_err(|e| format!("the server has counted nothing: {}: {e}", counts.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|name| name == "profraw"));
    let mut command = Command::new(profdata);
    command.arg("merge").arg("--output").arg(profile).args(files);
    tools::run(&mut command, "the counts cannot be merged")
}

/// The compiler's own target.
fn host() -> Result<String, String> {
    let said = rustc(&["-vV"])?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say for what machine it compiles".to_owned())
}

/// `llvm-profdata` of the compiler's own LLVM; rustup brings it if it is missing.
fn profdata(host: &str) -> Result<PathBuf, String> {
    let sysroot = rustc(&["--print", "sysroot"])?;
    let path = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    if !path.exists() {
        println!("rustup component add llvm-tools");
        tools::run(
            Command::new("rustup").args(["component", "add", "llvm-tools"]).current_dir(paths::repository()),
            "llvm-profdata is missing: without rustup, install your compiler's llvm-tools",
        )?;
    }
    if path.exists() { Ok(path) } else { Err(format!("{} is missing still", path.display())) }
}

fn rustc(arguments: &[&str]) -> Result<String, String> {
    let output = tools::rustc().args(arguments).output().map_err(|e| format!("cannot run rustc: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
