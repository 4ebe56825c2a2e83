//! The toolchain's programs, called in the repository.

use crate::paths;
use std::env;
use std::process::Command;

/// Cargo, the one that runs us if it does.
pub(crate) fn cargo() -> Command {
    let mut command = tool("CARGO", "cargo");
    // What it told us about our own package is nothing to its child: build scripts that look at such variables, and all
    // that depends on them, would be built again after each change between the two.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// The compiler.
pub(crate) fn rustc() -> Command {
    tool("RUSTC", "rustc")
}

fn tool(variable: &str, name: &str) -> Command {
    let mut command = Command::new(env::var_os(variable).unwrap_or_else(|| name.into()));
    command.current_dir(paths::repository());
    command
}

/// Runs a command to its end.
///
/// # Errors
/// `problem` when it fails, with the reason if it cannot be run.
pub(crate) fn run(command: &mut Command, problem: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(problem.to_owned()),
        Err(e) => Err(format!("{problem}: cannot run {}: {e}", command.get_program().display())),
    }
}
