//! A private MariaDB with the databases `test`, `world` and `ngx_test` of `tests/fixtures/mariadb.sql`.

use super::{command, last_words, program};
use crate::cases::Vars;
use crate::paths;
use crate::process::Process;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Creates the system tables and starts the server.
pub(super) fn spawn(dir: &Path, port: u16, durable: bool, vars: &mut Vars) -> Result<Process, String> {
    let data = dir.join("data");
    let socket = dir.join("mysqld.sock");
    let is_root = nix::unistd::geteuid().is_root();
    let mut install = command("mariadb-install-db", dir)?;
    install.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    ]);
    install.arg(format!("--datadir={}", data.display()));
    if is_root {
        install.arg("--user=root");
    }
    let status = install.status().map_err(|e| format!("mariadb-install-db: {e}"))?;
    if !status.success() {
        return Err(format!("mariadb-install-db ended with {status}:\n{}", last_words(dir)));
    }
    vars.set("TEST_MARIADB_PORT", port);
    vars.set("TEST_MARIADB_SOCKET", socket.display());
    let fixtures = paths::repository().join("tests/fixtures");
    let certificate = fixtures.join("mariadb-cert.pem");
    vars.set("TEST_MARIADB_CA", certificate.display());
    let mut server = command("mariadbd", dir)?;
    // Nothing here has to survive, so nothing waits for a disk unless that is what is measured.
    let flush = if durable { "--innodb-flush-log-at-trx-commit=1" } else { "--innodb-flush-log-at-trx-commit=0" };
    server.args(["--no-defaults", "--skip-log-bin", "--skip-name-resolve", "--bind-address=127.0.0.1"]);
    server.args([flush, "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M"]);
    server.args([
        "--character-set-server=utf8mb4",
        "--max-connections=2200",
        "--thread-stack=256K",
        "--performance-schema=OFF",
    ]);
    // It signs itself, for the name localhost.
    server.arg(format!("--ssl-cert={}", certificate.display()));
    server.arg(format!("--ssl-key={}", fixtures.join("mariadb-key.pem").display()));
    server.arg(format!("--port={port}")).arg(format!("--socket={}", socket.display()));
    server.arg(format!("--datadir={}", data.display()));
    server.arg(format!("--pid-file={}", dir.join("mysqld.pid").display()));
    if is_root {
        server.arg("--user=root");
    }
    Process::spawn(&mut server)
}

/// Runs the fixture's statements on a server that listens by now.
pub(super) fn load_fixtures(dir: &Path) -> Result<(), String> {
    let file = paths::repository().join("tests/fixtures/mariadb.sql");
    let sql = File::open(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let errors = dir.join("fixtures.log");
    let log = File::create(&errors).map_err(|e| format!("{}: {e}", errors.display()))?;
    let status = Command::new(program("mariadb")?)
        .args(["--no-defaults", "--user=root"])
        .arg(format!("--socket={}", dir.join("mysqld.sock").display()))
        .stdin(sql)
        .stdout(Stdio::null())
        .stderr(log)
        .status()
        .map_err(|e| format!("mariadb: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", file.display(), fs::read_to_string(&errors).unwrap_or_default().trim()))
}
