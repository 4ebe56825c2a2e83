//! A private MySQL 8 or 9: the program that `TIDEGATE_MYSQLD` names, else an installed `mysqld` that is not MariaDB's.

use super::{last_words, log_to, mariadb};
use crate::cases::Vars;
use crate::paths;
use crate::process::Process;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there is no MySQL here, if that is so.
pub(super) fn unavailable() -> Option<String> {
    server().is_none().then(|| "no MySQL is installed, and TIDEGATE_MYSQLD names none".to_owned())
}

fn server() -> Option<PathBuf> {
    if let Some(path) = env::var_os("TIDEGATE_MYSQLD") {
        return Some(path.into());
    }
    let path = paths::program("mysqld")?;
    let version = Command::new(&path).arg("--version").stdin(Stdio::null()).output().ok()?.stdout;
    // Some packages of MariaDB have a program of this name, too.
    (!String::from_utf8_lossy(&version).contains("MariaDB")).then_some(path)
}

/// Creates the system tables and starts the server.
pub(super) fn spawn(dir: &Path, port: u16, vars: &mut Vars) -> Result<Process, String> {
    let path = server().ok_or("no MySQL")?;
    let mut install = command(&path, dir)?;
    let status = install.arg("--initialize-insecure").status().map_err(|e| format!("{}: {e}", path.display()))?;
    if !status.success() {
        return Err(format!("{} --initialize-insecure ended with {status}:\n{}", path.display(), last_words(dir)));
    }
    vars.set("TEST_MYSQL_PORT", port);
    let mut server = command(&path, dir)?;
    server.args(["--bind-address=127.0.0.1", "--mysqlx=OFF", "--skip-name-resolve", "--skip-log-bin"]);
    server.args(["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF"]);
    server.arg(format!("--port={port}")).arg(format!("--socket={}", mariadb::socket(dir).display()));
    server.arg(format!("--pid-file={}", dir.join("mysqld.pid").display()));
    Process::spawn(&mut server)
}

fn command(path: &Path, dir: &Path) -> Result<Command, String> {
    let mut command = Command::new(path);
    log_to(&mut command, dir)?;
    command.arg("--no-defaults").arg(format!("--datadir={}", dir.join("data").display())).arg("--secure-file-priv=");
    if nix::unistd::geteuid().is_root() {
        command.arg("--user=root");
    }
    Ok(command)
}
