//! A private MariaDB with the databases `test`, `world` and `ngx_test` of `tests/fixtures/mariadb.sql`.

use super::{command, last_words, namespace, program};
use crate::cases::Vars;
use crate::paths;
use crate::ports::free_port;
use crate::process::Process;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_report::mariadb;

pub(super) use mariadb::socket;

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
    configure(&mut server, dir, port, durable);
    server.args(handler_socket(durable, vars));
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
    configure(&mut server, dir, USUAL_PORT, false);
    Process::spawn(&mut server)
}

fn fixture(name: &str) -> PathBuf {
    paths::repository().join("tests/fixtures").join(name)
}

fn install(dir: &Path) -> Result<(), String> {
    let install = command("mariadb-install-db", dir)?;
    mariadb::install(install, dir).map_err(|problem| format!("{problem}:\n{}", last_words(dir)))
}

fn configure(server: &mut Command, dir: &Path, port: u16, durable: bool) {
    // Nothing here has to survive, so nothing waits for a disk unless that is what is measured.
    let flush = if durable { "--innodb-flush-log-at-trx-commit=1" } else { "--innodb-flush-log-at-trx-commit=0" };
    // It signs itself, for the name localhost.
    let cert = format!("--ssl-cert={}", fixture("mariadb-cert.pem").display());
    let key = format!("--ssl-key={}", fixture("mariadb-key.pem").display());
    let sizes = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--max-connections=2200"];
    mariadb::configure(server, dir, port, &[&sizes[..], &[flush, &cert, &key]].concat());
}

/// Runs the statements of a fixture on a server that listens by now.
pub(super) fn load_fixtures(dir: &Path, name: &str) -> Result<(), String> {
    mariadb::run_file(Command::new(program("mariadb")?), dir, &fixture(name))
}
