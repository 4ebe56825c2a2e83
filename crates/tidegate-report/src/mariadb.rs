//! How a private MariaDB starts: one for a report, and those of `xtask`'s tests and benchmarks.
//!
//! Everything is below one directory. The caller makes the commands: where output goes, and on which cores or in which
//! network a server runs, is the caller's affair. So are the settings that differ.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of every server.
const SETTINGS: [&str; 7] = [
    "--no-defaults",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--bind-address=127.0.0.1",
    "--character-set-server=utf8mb4",
    "--thread-stack=256K",
    "--performance-schema=OFF",
];

/// The socket of the server that lives in `dir`.
#[must_use]
pub fn socket(dir: &Path) -> PathBuf {
    dir.join("mysqld.sock")
}

fn data(dir: &Path) -> String {
    format!("--datadir={}", dir.join("data").display())
}

/// Both programs refuse to run as root unless they are told to.
fn user() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=root")
}

/// Creates the system tables of a server in `dir`, whose user `root` has no password. `install` runs `mariadb-install-db`.
///
/// # Errors
/// When it does not start, or fails.
pub fn install(mut install: Command, dir: &Path) -> Result<(), String> {
    // Two installations that share a directory for temporary tables get into each other's way.
    install.env("TMPDIR", dir).args(["--no-defaults", "--auth-root-authentication-method=normal"]);
    // A machine may have no name that can be looked up.
    install.args(["--skip-test-db", "--skip-name-resolve", "--force"]).arg(data(dir)).args(user());
    let status = install.status().map_err(|e| format!("mariadb-install-db: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("mariadb-install-db ended with {status}")) }
}

/// Completes `server`, which runs `mariadbd`, for the tables in `dir`.
pub fn configure(server: &mut Command, dir: &Path, port: u16, settings: &[&str]) {
    server.env("TMPDIR", dir).args(SETTINGS).args(settings).arg(data(dir)).args(user());
    server.arg(format!("--port={port}")).arg(format!("--socket={}", socket(dir).display()));
    server.arg(format!("--pid-file={}", dir.join("mysqld.pid").display()));
}

/// Runs the statements of a file on the server in `dir`, which listens by now. `client` runs `mariadb`.
///
/// # Errors
/// When the file cannot be read or the client does not start; else what the client says.
pub fn run_file(mut client: Command, dir: &Path, file: &Path) -> Result<(), String> {
    let text = File::open(file).map_err(|e| format!("{}: {e}", file.display()))?;
    client.args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4"]);
    let output = client.arg(format!("--socket={}", socket(dir).display())).stdin(text).output();
    let output = output.map_err(|e| format!("mariadb: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim()))
}
