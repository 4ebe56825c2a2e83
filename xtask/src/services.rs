//! Real servers that cases talk to, started once per run in directories of their own.

mod mariadb;
mod mysql;
mod namespace;

use crate::cases::Vars;
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{POLL, Process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use namespace::Network;

/// How long a service may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a service may take to stop before it is killed. Its data is thrown away anyway.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    MariaDb,
    /// One whose commits are on the disk when they are answered.
    MariaDbDurable,
    /// One on port 3306, for configurations that are taken as they were written somewhere else. It lives in a network
    /// namespace of its own, where 3306 is always free, and its cases run there.
    MariaDb3306,
    /// MySQL 8 or 9, where there is one.
    MySql,
    Memcached,
    Redis,
    PhpFpm,
}

impl Service {
    /// The service that a case calls by this name.
    pub(crate) fn named(name: &str) -> Option<Service> {
        match name {
            "mariadb" => Some(Service::MariaDb),
            "mariadb-durable" => Some(Service::MariaDbDurable),
            "mariadb-3306" => Some(Service::MariaDb3306),
            "mysql" => Some(Service::MySql),
            "memcached" => Some(Service::Memcached),
            "redis" => Some(Service::Redis),
            "php-fpm" => Some(Service::PhpFpm),
            _ => None,
        }
    }
}

/// Services that run until this is dropped.
pub(crate) struct Running {
    vars: Vars,
    started: Vec<Started>,
    absent: Vec<(Service, String)>,
}

struct Started {
    service: Service,
    process: Process,
    scratch: Scratch,
    port: u16,
}

impl Running {
    /// Ports and sockets as `$TEST_…` variables.
    pub(crate) fn vars(&self) -> Vars {
        self.vars.clone()
    }

    /// The process of each.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.started.iter().map(|started| started.process.pid()).collect()
    }

    /// Services that this machine cannot have, each with the reason.
    pub(crate) fn absent(&self) -> Vec<(Service, String)> {
        self.absent.clone()
    }

    /// The network that cases of [`Service::MariaDb3306`] run in.
    ///
    /// # Errors
    /// When the service's process has ended.
    pub(crate) fn network(&self) -> Result<Option<Network>, String> {
        let found = self.started.iter().find(|started| started.service == Service::MariaDb3306);
        found.map(|started| Network::of(started.process.pid())).transpose()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for started in &self.started {
            started.process.signal(Signal::SIGTERM);
        }
        for started in &mut self.started {
            started.process.wait(STOP_TIMEOUT);
        }
    }
}

/// Starts the services side by side and waits until all of them answer. Those that only some machines can have are left
/// out on others: see [`Running::absent`].
///
/// # Errors
/// When a program is missing or a service does not answer in time; holds its last words.
pub(crate) fn start(wanted: &[Service]) -> Result<Running, String> {
    let mut running = Running { vars: Vars::default(), started: Vec::new(), absent: Vec::new() };
    for &service in wanted {
        let reason = match service {
            Service::MariaDb3306 => namespace::unavailable(),
            Service::MySql => mysql::unavailable(),
            _ => None,
        };
        if let Some(reason) = reason {
            running.absent.push((service, reason));
            continue;
        }
        let scratch = Scratch::new("service", false)?;
        let port = if service == Service::MariaDb3306 { mariadb::USUAL_PORT } else { free_port() };
        let vars = &mut running.vars;
        let process = match service {
            Service::MariaDb => mariadb::spawn(scratch.path(), port, false, vars)?,
            Service::MariaDbDurable => mariadb::spawn(scratch.path(), port, true, vars)?,
            Service::MariaDb3306 => mariadb::spawn_in_namespace(scratch.path())?,
            Service::MySql => mysql::spawn(scratch.path(), port, vars)?,
            Service::Memcached => spawn_memcached(scratch.path(), port, vars)?,
            Service::Redis => spawn_redis(scratch.path(), port, vars)?,
            Service::PhpFpm => spawn_php_fpm(scratch.path(), port, vars)?,
        };
        running.started.push(Started { service, process, scratch, port });
    }
    for started in &mut running.started {
        let dir = started.scratch.path();
        match started.service {
            // Its port is not to be seen from here.
            Service::MariaDb3306 => {
                let socket = mariadb::socket(dir);
                wait_until_answering(&mut started.process, dir, || UnixStream::connect(&socket).is_ok())?;
            }
            _ => {
                let port = started.port;
                wait_until_answering(&mut started.process, dir, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
            }
        }
    }
    for started in &running.started {
        match started.service {
            Service::MariaDb | Service::MariaDbDurable | Service::MariaDb3306 => {
                mariadb::load_fixtures(started.scratch.path(), "mariadb.sql")?;
            }
            Service::MySql => mariadb::load_fixtures(started.scratch.path(), "mysql.sql")?,
            Service::Memcached | Service::Redis | Service::PhpFpm => {}
        }
    }
    Ok(running)
}

/// Something listens; the service's own readiness is `mariadb::load_fixtures`' affair.
fn wait_until_answering(process: &mut Process, dir: &Path, answers: impl Fn() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + START_TIMEOUT;
    while !answers() {
        if let Some(status) = process.exited() {
            return Err(format!("a service ended at its start ({status}):\n{}", last_words(dir)));
        }
        if Instant::now() > deadline {
            return Err(format!("a service does not answer after {START_TIMEOUT:?}:\n{}", last_words(dir)));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn last_words(dir: &Path) -> String {
    let text = std::fs::read(dir.join("output.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    // The reason may stand far above general advice.
    let (before, last) = lines.split_at(lines.len().saturating_sub(15));
    let reasons = before.iter().filter(|line| line.contains("ERROR") || line.contains("rror:"));
    reasons.chain(last).copied().collect::<Vec<_>>().join("\n")
}

/// A program of that name.
fn program(name: &str) -> Result<PathBuf, String> {
    paths::program(name).ok_or_else(|| format!("{name} is not installed: `cargo xtask install` does that"))
}

/// A command whose output goes to `output.log` in its directory.
fn command(name: &str, dir: &Path) -> Result<Command, String> {
    let mut command = Command::new(program(name)?);
    log_to(&mut command, dir)?;
    Ok(command)
}

/// Sets directory and output of a service.
fn log_to(command: &mut Command, dir: &Path) -> Result<(), String> {
    let log = File::create(dir.join("output.log")).map_err(|e| format!("{}: {e}", dir.display()))?;
    let copy = log.try_clone().map_err(|e| format!("{}: {e}", dir.display()))?;
    command.current_dir(dir).stdin(Stdio::null()).stdout(log).stderr(copy);
    Ok(())
}

fn spawn_memcached(dir: &Path, port: u16, vars: &mut Vars) -> Result<Process, String> {
    vars.set("TEST_MEMCACHED_PORT", port);
    let mut command = command("memcached", dir)?;
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-m", "64"]);
    if nix::unistd::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    Process::spawn(&mut command)
}

fn spawn_redis(dir: &Path, port: u16, vars: &mut Vars) -> Result<Process, String> {
    let socket = dir.join("redis.sock");
    vars.set("TEST_REDIS_PORT", port);
    vars.set("TEST_REDIS_SOCKET", socket.display());
    let mut command = command("redis-server", dir)?;
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.arg("--unixsocket").arg(socket).arg("--dir").arg(dir);
    Process::spawn(&mut command)
}

fn spawn_php_fpm(dir: &Path, port: u16, vars: &mut Vars) -> Result<Process, String> {
    vars.set("TEST_PHP_FPM_PORT", port);
    let is_root = nix::unistd::geteuid().is_root();
    let user = if is_root { "user = root\ngroup = root\n" } else { "" };
    let socket = dir.join("php-fpm.sock");
    vars.set("TEST_PHP_FPM_SOCKET", socket.display());
    let pool = |name: &str, listen: &str| {
        format!("[{name}]\n{user}listen = {listen}\npm = static\npm.max_children = 6\npm.status_path = /status\n")
    };
    let conf = format!(
        "[global]\nerror_log = {}/php.log\n{}{}",
        dir.display(),
        pool("tcp", &format!("127.0.0.1:{port}")),
        pool("unix", &socket.display().to_string())
    );
    let file = dir.join("php-fpm.conf");
    std::fs::write(&file, conf).map_err(|e| format!("{}: {e}", file.display()))?;
    let program =
        paths::versioned_program("php-fpm").ok_or("php-fpm is not installed: `cargo xtask install` does that")?;
    let mut command = Command::new(program);
    log_to(&mut command, dir)?;
    command.args(["--nodaemonize", "--fpm-config"]).arg(file);
    if is_root {
        command.arg("--allow-to-run-as-root");
    }
    Process::spawn(&mut command)
}
