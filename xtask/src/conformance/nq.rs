//! `cargo xtask conformance --nq DIR`: nq's own tests at `queue_api nq`, with one worker and with two; with `--app` also at nq itself,
//! whose Lua runs on our server: with the embedded database, and with Debian's MariaDB.
//!
//! `DIR` is a checkout of yanxurui/nq, which stays as it is. The tests run in a copy, unchanged but for the addresses in
//! `tests/config.py` and `tests/config.lua`. They stop and start the server before each test, and look into its tables; they are
//! written for Python 2: `conformance/nq/` has what they need of it. nq's own configuration is taken as it is but for the port, and a `database`
//! block in front of it where it is to be the embedded one.

use super::binary;
use super::cache_tests::wait_for;
use super::drivers::{VENV, copy_of, prepare, statements};
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{Process, patient};
use crate::services::{self, Service};
use crate::terminal;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest time for all tests at one server; they take half a minute.
const TESTS_MAX: Duration = Duration::from_secs(600);

/// What the tests log in as.
const USER: &str = "nq";
const PASSWORD: &str = "123456";
/// The schema that they make anew before each test.
const SCHEMA: &str = "nq_test";

/// What the tests talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `queue_api nq`, with so many workers.
    Api(usize),
    /// nq itself on the embedded database.
    Embedded,
    /// nq itself on MariaDB.
    MariaDb,
}

/// Whether each test has passed.
type Outcome = BTreeMap<String, bool>;

/// Runs the tests. False when one of them fails.
///
/// # Errors
/// When the checkout, Python, MariaDB or the binary is missing, or a server does not start.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let suite = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    if !suite.join("tests/common.py").is_file() || !suite.join("src/api.lua").is_file() {
        return Err(format!("{} is no checkout of nq", suite.display()));
    }
    let ours = binary(options)?;
    let ours = fs::canonicalize(&ours).map_err(|e| format!("{}: {e}", ours.display()))?;
    let scratch = Scratch::new("nq", false)?;
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).map_err(|e| format!("{}: {e}", shared.display()))?;
    for step in [VENV, "$SHARED/venv/bin/pip -q install gevent PyMySQL requests"] {
        prepare(step, scratch.path(), &shared)?;
    }
    let mut places = vec![Place::Api(1), Place::Api(2)];
    if options.app {
        places.extend([Place::Embedded, Place::MariaDb]);
    }
    let mut is_good = true;
    for (number, place) in places.into_iter().enumerate() {
        terminal::heading(&place.title());
        let dir = scratch.path().join(number.to_string());
        let outcome = run_at(place, (&suite, &ours), &dir, &shared)?;
        let failed: Vec<&String> = outcome.iter().filter(|(_, passed)| !**passed).map(|(name, _)| name).collect();
        println!("{} of {} pass", outcome.len() - failed.len(), outcome.len());
        for name in &failed {
            println!("{}", terminal::red(&format!("{name} fails")));
        }
        if !failed.is_empty() || outcome.is_empty() {
            is_good = false;
            println!("{}", fs::read_to_string(dir.join("complaints")).unwrap_or_default());
        }
    }
    Ok(is_good)
}

impl Place {
    fn title(self) -> String {
        match self {
            Place::Api(1) => "queue_api nq, one worker".to_owned(),
            Place::Api(workers) => format!("queue_api nq, {workers} workers"),
            Place::Embedded => "nq itself on the embedded database".to_owned(),
            Place::MariaDb => "nq itself on MariaDB".to_owned(),
        }
    }

    /// The configuration of the server, at these ports for HTTP and for MySQL's protocol; `nq` is nq's own.
    ///
    /// # Errors
    /// nq's listens on another port than it did.
    fn configuration(self, nq: &str, http: u16, mysql: u16) -> Result<String, String> {
        let mut text = String::new();
        if nix::unistd::geteuid().is_root() {
            text.push_str("user root;\n");
        }
        if self != Place::MariaDb {
            let _ = writeln!(
                text,
                "database {{ path data; user {USER} password={PASSWORD}; listen 127.0.0.1:{mysql} mysql; }}"
            );
        }
        let Place::Api(workers) = self else {
            let listen = "listen 8001;";
            if !nq.contains(listen) {
                return Err(format!("nq's configuration has no \"{listen}\""));
            }
            text.push_str(&nq.replace(listen, &format!("listen 127.0.0.1:{http};")));
            return Ok(text);
        };
        // The times are those of nq's tests/config.lua.
        let _ = write!(
            text,
            "worker_processes {workers};\npid logs/nginx.pid;\nerror_log logs/error.log;\nevents {{ }}\n\
             http {{\naccess_log off; client_max_body_size 100m;\nserver {{\nlisten 127.0.0.1:{http};\n\
             location / {{ queue_api nq schema={SCHEMA} timeout=500ms fail_timeout=500ms retry_num=2; }}\n}}\n}}\n"
        );
        Ok(text)
    }
}

/// A server in the background, which the tests stop and start too.
struct Daemon<'a> {
    program: &'a Path,
    prefix: PathBuf,
}

impl<'a> Daemon<'a> {
    fn start(program: &'a Path, prefix: &Path) -> Result<Self, String> {
        let daemon = Daemon { program, prefix: prefix.to_owned() };
        let status = daemon.command().status().map_err(|e| format!("{}: {e}", program.display()))?;
        if status.success() {
            return Ok(daemon);
        }
        let log = fs::read_to_string(prefix.join("logs/error.log")).unwrap_or_default();
        Err(format!("the server ended with {status}:\n{log}"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("-p").arg(&self.prefix).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // If it has ended nobody is there to be told.
        let _ = self.command().args(["-s", "stop"]).status();
    }
}

/// Runs the tests of a copy in `dir`.
fn run_at(place: Place, (suite, ours): (&Path, &Path), dir: &Path, shared: &Path) -> Result<Outcome, String> {
    let copy = dir.join("nq");
    fs::create_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    copy_of(suite, &copy)?;
    let [http, own] = [(); 2].map(|()| free_port());
    // It runs until the tests have ended.
    let mariadb = if place == Place::MariaDb { Some(mariadb()?) } else { None };
    let mysql = mariadb.as_ref().map_or(own, |(_, port)| *port);
    let prefix = if matches!(place, Place::Api(_)) { dir.join("site") } else { copy.clone() };
    for below in ["conf", "logs"] {
        let below = prefix.join(below);
        fs::create_dir_all(&below).map_err(|e| format!("{}: {e}", below.display()))?;
    }
    let nq = read(&copy.join("conf/nginx.conf"))?;
    write(&prefix.join("conf/nginx.conf"), &place.configuration(&nq, http, mysql)?)?;
    write(&copy.join("tests/config.py"), &addresses(ours, &prefix, http, mysql))?;
    let lua = copy.join("tests/config.lua");
    write(&lua, &read(&lua)?.replace("port=3306", &format!("port={mysql}")))?;
    let _daemon = Daemon::start(ours, &prefix)?;
    wait_for(http)?;
    wait_for(mysql)?;
    run_tests(dir, &copy, shared)
}

/// MariaDB with the user of the tests, and its port.
fn mariadb() -> Result<(services::Running, u16), String> {
    let running = services::start(&[Service::MariaDb])?;
    let vars = running.vars();
    let port = vars.get("TEST_MARIADB_PORT").and_then(|port| port.parse().ok()).ok_or("MariaDB has no port")?;
    let socket = vars.get("TEST_MARIADB_SOCKET").ok_or("MariaDB has no socket")?;
    let user = format!("CREATE OR REPLACE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON *.* TO {USER}@'%'");
    statements(&["--socket", socket, "-uroot"], &user)?;
    Ok((running, port))
}

/// The tests' `config.py`.
fn addresses(ours: &Path, prefix: &Path, http: u16, mysql: u16) -> String {
    format!(
        "NGX_BIN = '{}'\nPREFIX = '{}/'\nHOST = 'http://127.0.0.1:{http}'\nMYSQL = {{'HOST': '127.0.0.1', 'port': {mysql}, \
         'USRE': '{USER}', 'PASSWORD': '{PASSWORD}', 'DATABASE': '{SCHEMA}'}}\n",
        ours.display(),
        prefix.display()
    )
}

fn run_tests(dir: &Path, copy: &Path, shared: &Path) -> Result<Outcome, String> {
    let [printed, complaints] = ["printed", "complaints"].map(|name| dir.join(name));
    let create = |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    let mut command = Command::new(shared.join("venv/bin/python"));
    command.arg(paths::repository().join("conformance/nq/run.py")).arg("tests").current_dir(copy);
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    command.stdout(create(&printed)?).stderr(create(&complaints)?);
    let mut process = Process::spawn(&mut command)?;
    if process.wait(patient(TESTS_MAX)).is_none() {
        println!("not done after {TESTS_MAX:?}; what has ended counts");
    }
    drop(process);
    Ok(outcome_of(&read(&printed)?))
}

/// Lines of `run.py`.
fn outcome_of(text: &str) -> Outcome {
    let ended = |line: &str| match line.split_once(' ')? {
        ("PASSED", name) => Some((name.to_owned(), true)),
        ("FAILED", name) => Some((name.to_owned(), false)),
        _ => None,
    };
    text.lines().filter_map(ended).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_print() {
        let outcome =
            outcome_of("PASSED test_pull.TestPull.test_a\nstdout: x\nFAILED setUpClass (test_retry.TestRetry)\n");
        let expected =
            [("setUpClass (test_retry.TestRetry)".to_owned(), false), ("test_pull.TestPull.test_a".to_owned(), true)];
        assert_eq!(outcome, Outcome::from(expected));
    }

    #[test]
    fn nq_keeps_its_own_configuration() {
        let nq = "events { }\nhttp { server { listen 8001; } }\n";
        let of = |place: Place| place.configuration(nq, 1, 2).unwrap().replace("user root;\n", "");
        assert_eq!(of(Place::MariaDb), "events { }\nhttp { server { listen 127.0.0.1:1; } }\n");
        assert!(
            of(Place::Embedded)
                .starts_with("database { path data; user nq password=123456; listen 127.0.0.1:2 mysql; }\n")
        );
        assert!(of(Place::Embedded).ends_with(&of(Place::MariaDb)));
        assert!(of(Place::Api(2)).contains("worker_processes 2;"));
        assert!(Place::MariaDb.configuration("listen 80;", 1, 2).is_err());
    }
}
