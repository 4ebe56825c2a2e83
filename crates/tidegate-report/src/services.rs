//! MariaDB, memcached and Redis of a report, in directories of their own, on the servers' cores.

use crate::mariadb;
use crate::matrix::Service;
use crate::places::{Scratch, program};
use crate::ports::free_port;
use crate::process::{POLL, Process};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to end before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Rows of `City`, as many as the well-known sample table has.
pub(crate) const CITIES: usize = 4079;

/// Services that run until this is dropped.
pub struct Services {
    running: Vec<Running>,
    missing: Vec<(Service, String)>,
}

struct Running {
    service: Service,
    process: Process,
    port: u16,
    _scratch: Scratch,
}

impl Services {
    /// Starts what can be started; what is missing or does not answer is noted, with its last words.
    #[must_use]
    pub fn start(wanted: &[Service], cores: &str) -> Services {
        let mut services = Services { running: Vec::new(), missing: Vec::new() };
        for &service in wanted {
            match check(service).and_then(|()| Running::start(service, cores)) {
                Ok(running) => services.running.push(running),
                Err(problem) => {
                    println!("{service:?}: {problem}");
                    services.missing.push((service, problem));
                }
            }
        }
        services
    }

    /// Where a service listens; `None` if it is missing.
    #[must_use]
    pub fn port(&self, service: Service) -> Option<u16> {
        self.running.iter().find(|running| running.service == service).map(|running| running.port)
    }

    /// Its name and process.
    #[must_use]
    pub fn part(&self, service: Service) -> Option<(&'static str, Pid)> {
        let running = self.running.iter().find(|running| running.service == service)?;
        Some((name(service), running.process.pid()))
    }

    /// Why a service does not run.
    #[must_use]
    pub fn why_missing(&self, service: Service) -> Option<&str> {
        self.missing.iter().find(|(missing, _)| *missing == service).map(|(_, reason)| reason.as_str())
    }
}

impl Running {
    /// Starts a service that is installed, and fills it.
    fn start(service: Service, cores: &str) -> Result<Running, String> {
        let scratch = Scratch::new("report", false)?;
        let port = free_port();
        let mut process = match service {
            Service::MariaDb => spawn_mariadb(scratch.path(), port, cores, &[])?,
            Service::Memcached => spawn_memcached(scratch.path(), port, cores)?,
            Service::Redis => spawn_redis(scratch.path(), port, cores)?,
        };
        wait_for_port(&mut process, port, scratch.path())?;
        match service {
            Service::MariaDb => fill(scratch.path())?,
            Service::Redis => fill_redis(scratch.path(), port)?,
            Service::Memcached => {}
        }
        Ok(Running { service, process, port, _scratch: scratch })
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for running in &self.running {
            running.process.signal(Signal::SIGTERM);
        }
        for running in &mut self.running {
            running.process.wait(STOP_TIMEOUT);
        }
    }
}

fn name(service: Service) -> &'static str {
    match service {
        Service::MariaDb => "mariadbd",
        Service::Memcached => "memcached",
        Service::Redis => "redis-server",
    }
}

/// What a service is and which version of it.
#[must_use]
pub fn version(service: Service) -> Option<String> {
    check(service).ok()?;
    let program = program(name(service))?;
    Some(crate::machine::first_line(&program.to_string_lossy(), &["--version"]))
}

/// Whether a service can be started here.
fn check(service: Service) -> Result<(), String> {
    let needed: &[&str] = match service {
        Service::MariaDb => &["mariadbd", "mariadb-install-db", "mariadb"],
        Service::Memcached => &["memcached"],
        Service::Redis => &["redis-server", "redis-cli"],
    };
    match needed.iter().find(|needed| program(needed).is_none()) {
        Some(missing) => Err(format!("{missing} is not installed")),
        None => Ok(()),
    }
}

/// A command on some cores, in a directory, whose output goes to `output.log` there.
///
/// # Errors
/// When the directory cannot be written.
pub fn command(program: &Path, cores: &str, dir: &Path) -> Result<Command, String> {
    let log = File::create(dir.join("output.log")).map_err(|e| format!("{}: {e}", dir.display()))?;
    let copy = log.try_clone().map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(program);
    command.current_dir(dir).stdin(Stdio::null()).stdout(log).stderr(copy);
    Ok(command)
}

/// Waits until something listens at a port.
///
/// # Errors
/// When the process has ended, or takes too long; holds its last words.
pub fn wait_for_port(process: &mut Process, port: u16, dir: &Path) -> Result<(), String> {
    let deadline = Instant::now() + START_TIMEOUT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = process.exited() {
            return Err(format!("it ended at its start ({status}): {}", last_words(dir)));
        }
        if Instant::now() > deadline {
            return Err(format!("it does not listen after {START_TIMEOUT:?}: {}", last_words(dir)));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The ends of the logs of a directory.
#[must_use]
pub fn last_words(dir: &Path) -> String {
    let mut words = String::new();
    for file in ["output.log", "error.log", "logs/error.log"] {
        let text = fs::read(dir.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(8)..] {
            let _ = write!(words, "\n{line}");
        }
    }
    words
}

/// Starts a MariaDB with the schema `world`, with settings besides those of the service.
///
/// # Errors
/// When it does not start or answer; holds its last words.
pub(crate) fn start_mariadb(dir: &Path, port: u16, cores: &str, settings: &[String]) -> Result<Process, String> {
    let mut process = spawn_mariadb(dir, port, cores, settings)?;
    wait_for_port(&mut process, port, dir)?;
    fill(dir)?;
    Ok(process)
}

fn spawn_mariadb(dir: &Path, port: u16, cores: &str, settings: &[String]) -> Result<Process, String> {
    let find = |name: &str| program(name).ok_or_else(|| format!("{name} is not installed"));
    let install = command(&find("mariadb-install-db")?, cores, dir)?;
    mariadb::install(install, dir).map_err(|problem| format!("{problem}: {}", last_words(dir)))?;
    let mut server = command(&find("mariadbd")?, cores, dir)?;
    mariadb::configure(&mut server, dir, port, &MARIADB);
    server.args(settings);
    Process::spawn(&mut server)
}

/// Settings for many connections: eight ways to the database, whose pools keep up to 1024 each, are there at once. A commit is as durable as the embedded database's.
const MARIADB: [&str; 5] = [
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=128M",
    "--max-connections=10000",
    "--thread-cache-size=2000",
    "--back-log=4000",
];

/// Makes the user and the schema, once the server listens.
fn fill(dir: &Path) -> Result<(), String> {
    let mut sql = "CREATE USER monty@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('some_pass');\n\
                   CREATE USER monty@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('some_pass');\n\
                   GRANT ALL PRIVILEGES ON *.* TO monty@'%', monty@localhost;\n\
                   CREATE DATABASE world CHARACTER SET utf8mb4;\nUSE world;\n"
        .to_owned();
    sql += &world();
    let file = dir.join("world.sql");
    fs::write(&file, sql).map_err(|e| format!("{}: {e}", file.display()))?;
    let client = program("mariadb").ok_or("mariadb is not installed")?;
    mariadb::run_file(Command::new(client), dir, &file)
}

/// Starts a memcached.
///
/// # Errors
/// When it is not installed, or the directory cannot be written.
pub(crate) fn spawn_memcached(dir: &Path, port: u16, cores: &str) -> Result<Process, String> {
    let program = program("memcached").ok_or("memcached is not installed")?;
    let mut command = command(&program, cores, dir)?;
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-m", "64", "-t", "1", "-c", "4096"]);
    if nix::unistd::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    Process::spawn(&mut command)
}

fn spawn_redis(dir: &Path, port: u16, cores: &str) -> Result<Process, String> {
    let program = program("redis-server").ok_or("redis-server is not installed")?;
    let mut command = command(&program, cores, dir)?;
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.args(["--maxclients", "10000"]);
    Process::spawn(&mut command)
}

/// What retwis has.
fn fill_redis(dir: &Path, port: u16) -> Result<(), String> {
    let client = program("redis-cli").ok_or("redis-cli is not installed")?;
    let file = dir.join("retwis.txt");
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    fs::write(&file, crate::retwis::commands()).map_err(failed)?;
    let commands = File::open(&file).map_err(failed)?;
    let mut command = Command::new(client);
    let output =
        command.args(["-p", &port.to_string()]).stdin(commands).output().map_err(|e| format!("redis-cli: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    // It answers each command with a line, and goes on after errors.
    let is_number = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    match said.lines().find(|line| !is_number(line)) {
        Some(problem) => Err(format!("redis-cli: {problem}")),
        None => Ok(()),
    }
}

/// The schema `world` of the seeds: `City` with rows of the shape of the well-known sample table (its names are made up),
/// and a table for messages. MariaDB and the embedded database read it.
#[must_use]
pub fn world() -> String {
    let mut sql =
        "CREATE TABLE City (ID INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, Name CHAR(35) NOT NULL DEFAULT '', \
                   CountryCode CHAR(3) NOT NULL DEFAULT '', District CHAR(20) NOT NULL DEFAULT '', \
                   Population INTEGER NOT NULL DEFAULT 0);\n\
                   CREATE TABLE test (id INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY, msg VARCHAR(1000) NOT NULL);\n"
            .to_owned();
    let letter = |number: usize| char::from(b'A' + (number % 26) as u8);
    for first in (1..=CITIES).step_by(500) {
        sql += "INSERT INTO City VALUES ";
        for id in first..=CITIES.min(first + 499) {
            let code: String = [letter(id), letter(id / 26), letter(id / 676)].iter().collect();
            let (district, population) = (id % 97, id * 7919 % 9_999_991);
            let comma = if id == first { "" } else { "," };
            let _ = write!(sql, "{comma}({id},'City {id}','{code}','District {district}',{population})");
        }
        sql += ";\n";
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_has_all_its_cities() {
        let sql = world();
        assert_eq!(sql.matches("'City ").count(), CITIES);
        assert!(sql.contains("(1,'City 1','BAA','District 1',7919)"), "{}", &sql[..600]);
        assert!(sql.ends_with(");\n"));
    }

    #[test]
    fn versions_of_what_is_installed() {
        // Whatever this machine has, a version is told only of what can be started.
        for service in Service::ALL {
            assert_eq!(version(service).is_some(), check(service).is_ok(), "{service:?}");
        }
    }
}
