//! A private MariaDB with the databases `test`, `world` and `ngx_test` of `tests/fixtures/mariadb.sql`.

use super::{command, last_words, namespace, program};
use crate::cases::Vars;
use crate::paths;
use crate::ports::free_port;
use crate::process::Process;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The plugin HandlerSocket, where Debian's package puts it.
const HANDLER_SOCKET: &str = "/usr/lib/mysql/plugin/handlersocket.so";

/// The port of MySQL's protocol.
pub(super) const USUAL_PORT: u16 = 3306;

/// Creates the system tables and starts the server.
pub(super) fn spawn(dir: &Path, port: u16, durable: bool, vars: &mut Vars) -> Result<Process, String> {
    install(dir)?;
    vars.set("TEST_MARIADB_PORT", port);
    vars.set("TEST_MARIADB_SOCKET", socket(dir).display());
    vars.set("TEST_MARIADB_CA", fixture("mariadb-cert.pem").display());
    let mut server = command("mariadbd", dir)?;
    server.env("TMPDIR", dir).args(arguments(dir, port, durable)).args(handler_socket(durable, vars));
    Process::spawn(&mut server)
}

/// Arguments for the plugin HandlerSocket, at ports for reading and for writing.
fn handler_socket(durable: bool, vars: &mut Vars) -> Vec<String> {
    if !Path::new(HANDLER_SOCKET).exists() {
        return Vec::new();
    }
    let (port, port_wr) = (free_port(), free_port());
    vars.set("TEST_HANDLERSOCKET_PORT", port);
    vars.set("TEST_HANDLERSOCKET_WRITE_PORT", port_wr);
    // What is measured is one thread that has it all to itself; by default there are sixteen.
    let threads = if durable { 16 } else { 1 };
    vec![
        "--plugin-maturity=beta".to_owned(),
        "--plugin-load-add=handlersocket.so".to_owned(),
        "--handlersocket-address=127.0.0.1".to_owned(),
        format!("--handlersocket-port={port}"),
        format!("--handlersocket-port-wr={port_wr}"),
        format!("--handlersocket-threads={threads}"),
        "--handlersocket-threads-wr=1".to_owned(),
        "--handlersocket-plain-secret=".to_owned(),
        "--handlersocket-plain-secret-wr=".to_owned(),
    ]
}

/// The same on [`USUAL_PORT`] in a network namespace of its own.
pub(super) fn spawn_in_namespace(dir: &Path) -> Result<Process, String> {
    install(dir)?;
    let mut server = namespace::command(&program("mariadbd")?, dir)?;
    server.env("TMPDIR", dir).args(arguments(dir, USUAL_PORT, false));
    Process::spawn(&mut server)
}

/// The server's socket.
pub(super) fn socket(dir: &Path) -> PathBuf {
    dir.join("mysqld.sock")
}

fn fixture(name: &str) -> PathBuf {
    paths::repository().join("tests/fixtures").join(name)
}

fn install(dir: &Path) -> Result<(), String> {
    let mut install = command("mariadb-install-db", dir)?;
    // Two installations that share a directory for temporary tables get into each other's way.
    install.env("TMPDIR", dir).args(["--no-defaults", "--auth-root-authentication-method=normal"]);
    // A machine may have no name that can be looked up.
    install.args(["--skip-test-db", "--skip-name-resolve", "--force"]);
    install.arg(format!("--datadir={}", dir.join("data").display()));
    if nix::unistd::geteuid().is_root() {
        install.arg("--user=root");
    }
    let status = install.status().map_err(|e| format!("mariadb-install-db: {e}"))?;
    if !status.success() {
        return Err(format!("mariadb-install-db ended with {status}:\n{}", last_words(dir)));
    }
    Ok(())
}

fn arguments(dir: &Path, port: u16, durable: bool) -> Vec<String> {
    // Nothing here has to survive, so nothing waits for a disk unless that is what is measured.
    let flush = if durable { "--innodb-flush-log-at-trx-commit=1" } else { "--innodb-flush-log-at-trx-commit=0" };
    let fixed = [
        "--no-defaults",
        "--skip-log-bin",
        "--skip-name-resolve",
        "--bind-address=127.0.0.1",
        flush,
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=16M",
        "--character-set-server=utf8mb4",
        "--max-connections=2200",
        "--thread-stack=256K",
        "--performance-schema=OFF",
    ];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    arguments.extend([
        // It signs itself, for the name localhost.
        format!("--ssl-cert={}", fixture("mariadb-cert.pem").display()),
        format!("--ssl-key={}", fixture("mariadb-key.pem").display()),
        format!("--port={port}"),
        format!("--socket={}", socket(dir).display()),
        format!("--datadir={}", dir.join("data").display()),
        format!("--pid-file={}", dir.join("mysqld.pid").display()),
    ]);
    if nix::unistd::geteuid().is_root() {
        arguments.push("--user=root".to_owned());
    }
    arguments
}

/// Runs the statements of a fixture on a server that listens by now.
pub(super) fn load_fixtures(dir: &Path, name: &str) -> Result<(), String> {
    let file = fixture(name);
    let sql = File::open(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let errors = dir.join("fixtures.log");
    let log = File::create(&errors).map_err(|e| format!("{}: {e}", errors.display()))?;
    let status = Command::new(program("mariadb")?)
        .args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4"])
        .arg(format!("--socket={}", socket(dir).display()))
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
