//! `cargo xtask conformance --drivers DIR`: the test suites of MySQL's drivers at Debian's MariaDB and at our port.
//!
//! `DIR` holds checkouts of the drivers, one directory each, under the names of their repositories; those that are not there are
//! left out. Each suite runs in a copy, with what it needs from its language's package registry, first at MariaDB and then at ours.
//! What passes at MariaDB must pass at ours, or stand in `conformance/drivers-causes.txt` with the reason.

use super::binary;
use super::cache_tests::wait_for;
use super::nginx_tests::said_by;
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

/// Longest time for one suite at one server; the longest takes minutes.
const SUITE_MAX: Duration = Duration::from_secs(1200);

/// The schemas that the suites use.
const SCHEMAS: [&str; 6] = ["test", "gotest", "test1", "test2", "testn", "testj"];

/// The user that all suites log in as, from this machine and with no password.
pub(crate) const USER: &str = "drivers";

/// A driver's suite.
pub(super) struct Suite {
    /// Name of the checkout.
    pub(super) name: &'static str,
    /// What makes a copy ready to run, in its directory.
    pub(super) prepare: &'static [&'static str],
    /// The command that runs it. `$PORT` is the server's port and `$SHARED` a directory that suites share.
    pub(super) run: &'static str,
    /// Names of tests and how they have ended, of what the command has printed.
    pub(super) read: fn(&str) -> Outcome,
}

/// Whether each test has passed.
pub(super) type Outcome = BTreeMap<String, bool>;

/// What makes an environment for Python in the directory that suites share.
pub(super) const VENV: &str = "test -x $SHARED/venv/bin/python || python3 -m venv $SHARED/venv";

const SUITES: &[Suite] = &[
    Suite {
        name: "mysql",
        prepare: &["GOFLAGS=-mod=mod go vet ."],
        // The test that is left out wants an address outside of this machine.
        run: "GOFLAGS=-mod=mod MYSQL_TEST_ADDR=127.0.0.1:$PORT MYSQL_TEST_USER=drivers MYSQL_TEST_PASS= \
              go test -count=1 -json -skip '^TestConnectorReturnsTimeout$' .",
        read: read_go,
    },
    Suite {
        name: "PyMySQL",
        prepare: &[VENV, "$SHARED/venv/bin/pip -q install pytest cryptography PyNaCl"],
        run: "echo '[{\"host\":\"127.0.0.1\",\"port\":'$PORT',\"user\":\"drivers\",\"password\":\"\",\"database\":\"test1\",\
              \"use_unicode\":true,\"local_infile\":true},{\"host\":\"127.0.0.1\",\"port\":'$PORT',\"user\":\"drivers\",\
              \"password\":\"\",\"database\":\"test2\"}]' > pymysql/tests/databases.json; \
              $SHARED/venv/bin/python -m pytest -q -rA pymysql/tests",
        read: read_pytest,
    },
    Suite {
        name: "mysqlclient",
        prepare: &[VENV, "$SHARED/venv/bin/pip -q install pytest .", "rm -rf src"],
        run: "printf '[MySQLdb-tests]\\nhost=127.0.0.1\\nport=%s\\nuser=drivers\\ndatabase=test\\n\
              default-character-set=utf8mb4\\n' $PORT > tests/here.cnf; \
              cd tests && TESTDB=here.cnf $SHARED/venv/bin/python -m pytest -q -rA .",
        read: read_pytest,
    },
    Suite {
        name: "node-mysql2",
        prepare: &["npm ci --silent --no-audit --no-fund --ignore-scripts"],
        run: "MYSQL_HOST=127.0.0.1 MYSQL_PORT=$PORT MYSQL_USER=drivers NO_COLOR=1 npx poku",
        read: read_poku,
    },
    Suite {
        name: "mariadb-connector-nodejs",
        prepare: &["npm install --silent --no-audit --no-fund --ignore-scripts"],
        run: "TEST_DB_HOST=127.0.0.1 TEST_DB_PORT=$PORT TEST_DB_USER=drivers NO_COLOR=1 \
              npx vitest --no-file-parallelism --isolate --reporter=verbose run",
        read: read_vitest,
    },
    Suite {
        name: "mariadb-connector-j",
        prepare: &["mvn -q -B test-compile"],
        // A test that hangs at one server would take the time of all others.
        run: "rm -rf target/surefire-reports; TEST_DB_HOST=127.0.0.1 TEST_DB_PORT=$PORT TEST_DB_USER=drivers \
              mvn -q -B test -Dmaven.test.failure.ignore=true -Djunit.jupiter.execution.timeout.default=60s \
              -Djunit.jupiter.execution.timeout.thread.mode.default=SEPARATE_THREAD; cat target/surefire-reports/TEST-*.xml",
        read: read_surefire,
    },
];

/// Runs the suites and writes `conformance/drivers.md`. False when a test that MariaDB passes fails here for a reason that is not
/// known, or passes against expectation.
///
/// # Errors
/// When there is no checkout, MariaDB or a tool is missing, or the page cannot be written.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let dir = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    let suites = chosen(SUITES, &dir, options)?;
    let causes = read_causes("drivers-causes.txt")?;
    let ours = binary(options)?;
    let scratch = Scratch::new("drivers", false)?;
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).map_err(|e| format!("{}: {e}", shared.display()))?;
    let mut results = Vec::new();
    for suite in suites {
        terminal::heading(suite.name);
        let copy = scratch.path().join(suite.name);
        copy_of(&dir.join(suite.name), &copy)?;
        for step in suite.prepare {
            prepare(step, &copy, &shared)?;
        }
        let theirs = {
            let mariadb = services::start(&[Service::MariaDb])?;
            let port = mariadb.vars().get("TEST_MARIADB_PORT").map(str::to_owned).ok_or("MariaDB has no port")?;
            let socket = mariadb.vars().get("TEST_MARIADB_SOCKET").map(str::to_owned).ok_or("MariaDB has no socket")?;
            let user = format!(
                "CREATE OR REPLACE USER {USER}@'%'; GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION; \
                 SET GLOBAL local_infile = 1; {}",
                schemas()
            );
            statements(&["--socket", &socket, "-uroot"], &user)?;
            run_suite(suite, &copy, &shared, &[("PORT", port)])?
        };
        let here = {
            let (_server, port) = start(&ours, &scratch.path().join(format!("site-{}", suite.name)))?;
            statements(&["-h", "127.0.0.1", "-P", &port, &format!("-u{USER}")], &schemas())?;
            run_suite(suite, &copy, &shared, &[("PORT", port)])?
        };
        results.push(Compared { name: suite.name, revision: revision(&dir.join(suite.name)), theirs, here });
    }
    let page = Page { name: "drivers.md", head: HEAD, other: "MariaDB" };
    page.conclude(&results, &causes, options.suites.is_empty())
}

/// Those of `suites` that `dir` has checkouts of, and that are named where some are.
///
/// # Errors
/// When there are none.
pub(super) fn chosen(
    suites: &'static [Suite],
    dir: &Path,
    options: &super::Options,
) -> Result<Vec<&'static Suite>, String> {
    let wanted = |suite: &&Suite| {
        dir.join(suite.name).is_dir()
            && (options.suites.is_empty() || options.suites.iter().any(|name| name == suite.name))
    };
    let chosen: Vec<&Suite> = suites.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<_> = suites.iter().map(|suite| suite.name).collect();
        return Err(format!("{} has no checkout of {}", dir.display(), names.join(", ")));
    }
    Ok(chosen)
}

/// The commit of a checkout, and its day.
pub(super) fn revision(checkout: &Path) -> String {
    said_by("git", &["-C", &checkout.to_string_lossy(), "log", "-1", "--format=%h of %cs"])
}

fn schemas() -> String {
    SCHEMAS.iter().map(|name| format!("CREATE DATABASE IF NOT EXISTS {name};")).collect()
}

/// How a suite has ended at both servers.
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) revision: String,
    pub(super) theirs: Outcome,
    pub(super) here: Outcome,
}

impl Compared {
    /// Tests that pass at the other server, and how many of them pass here.
    fn counts(&self) -> (usize, usize) {
        let passes = |name: &&String| self.theirs[*name];
        let names: Vec<&String> = self.theirs.keys().filter(passes).collect();
        let here = names.iter().filter(|name| self.here.get(**name) == Some(&true)).count();
        (names.len(), here)
    }

    /// Those that pass at the other server and not here.
    fn missing(&self) -> impl Iterator<Item = &String> {
        let fails = |name: &&String| self.here.get(*name) != Some(&true);
        self.theirs.iter().filter(|(_, passed)| **passed).map(|(name, _)| name).filter(fails)
    }

    /// What is not as the causes say.
    fn surprises(&self, causes: &[Cause]) -> Vec<String> {
        let unknown = self.missing().filter(|name| cause_of(causes, self.name, name).is_none());
        let unknown = unknown.map(|name| format!("{}: {name} fails here, and nobody knows why", self.name));
        let stale = causes
            .iter()
            .filter(|cause| cause.suite == self.name && !self.missing().any(|name| name.contains(&cause.pattern)));
        let stale = stale.map(|cause| format!("{}: nothing like {} fails any more", self.name, cause.pattern));
        unknown.chain(stale).collect()
    }
}

/// Why tests fail here.
pub(super) struct Cause {
    suite: String,
    /// A part of their names.
    pattern: String,
    reason: String,
}

fn cause_of<'a>(causes: &'a [Cause], suite: &str, test: &str) -> Option<&'a Cause> {
    causes.iter().find(|cause| cause.suite == suite && test.contains(&cause.pattern))
}

/// Reads `suite: pattern -- reason` lines of a file of `conformance/`.
///
/// # Errors
/// When it cannot be read, or a line is no such line.
pub(super) fn read_causes(name: &str) -> Result<Vec<Cause>, String> {
    let path = paths::repository().join("conformance").join(name);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (suite, rest) = line.split_once(": ").ok_or_else(|| format!("no suite in \"{line}\""))?;
            let (pattern, reason) = rest.split_once(" -- ").ok_or_else(|| format!("no reason in \"{line}\""))?;
            Ok(Cause { suite: suite.into(), pattern: pattern.into(), reason: reason.into() })
        })
        .collect()
}

/// Copies a directory.
///
/// # Errors
/// Why it cannot be copied.
pub(crate) fn copy_of(from: &Path, to: &Path) -> Result<(), String> {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().map_err(|e| format!("cp: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cannot copy {}", from.display())) }
}

/// A command of the shell in `dir`, with `$SHARED`.
pub(crate) fn shell(command: &str, dir: &Path, shared: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(dir).env("SHARED", shared).stdin(Stdio::null());
    shell
}

/// Runs a command of the shell in `dir`, with `$SHARED`.
///
/// # Errors
/// What it has complained of.
pub(crate) fn prepare(step: &str, dir: &Path, shared: &Path) -> Result<(), String> {
    let output = shell(step, dir, shared).output().map_err(|e| format!("sh: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{step} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Runs statements by the client of Debian's MariaDB.
///
/// # Errors
/// What it has complained of.
pub(crate) fn statements(arguments: &[&str], sql: &str) -> Result<(), String> {
    let output = Command::new("mariadb").arg("--no-defaults").args(arguments).args(["-e", sql]).output();
    let output = output.map_err(|e| format!("mariadb: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Our server, and its port.
///
/// # Errors
/// When it does not listen.
pub(crate) fn start(program: &Path, site: &Path) -> Result<(Process, String), String> {
    let [mysql, http] = [(); 2].map(|()| free_port());
    let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
    let fixture = |name: &str| paths::repository().join("tests/fixtures").join(name).display().to_string();
    let conf = format!(
        "{user} daemon off; master_process off; pid nginx.pid; error_log error.log;\nevents {{ }}\n\
         database {{\npath data; user {USER} password=; listen 127.0.0.1:{mysql} mysql;\n\
         ssl_certificate {}; ssl_certificate_key {};\n}}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{http}; }} }}\n",
        fixture("mariadb-cert.pem"),
        fixture("mariadb-key.pem"),
    );
    fs::create_dir(site)
        .and_then(|()| fs::write(site.join("nginx.conf"), conf))
        .map_err(|e| format!("{}: {e}", site.display()))?;
    let mut server = Command::new(program);
    server.arg("-p").arg(site).args(["-c", "nginx.conf", "-e", "error.log"]).stdin(Stdio::null());
    let server = Process::spawn(&mut server)?;
    wait_for(mysql)?;
    Ok((server, mysql.to_string()))
}

/// Runs a suite with these variables of the environment, `PORT` being the server's.
///
/// # Errors
/// When the shell does not start.
pub(super) fn run_suite(suite: &Suite, copy: &Path, shared: &Path, vars: &[(&str, String)]) -> Result<Outcome, String> {
    let printed: PathBuf = shared.join(format!("{}.out", suite.name));
    let file = File::create(&printed).map_err(|e| format!("{}: {e}", printed.display()))?;
    let mut command = shell(suite.run, copy, shared);
    command.envs(vars.iter().cloned()).stdout(file).stderr(Stdio::null());
    let mut process = Process::spawn(&mut command)?;
    if process.wait(patient(SUITE_MAX)).is_none() {
        println!("{} takes longer than {SUITE_MAX:?}; what has ended counts", suite.name);
    }
    drop(process);
    let text = fs::read(&printed).map_err(|e| format!("{}: {e}", printed.display()))?;
    Ok((suite.read)(&String::from_utf8_lossy(&text)))
}

/// Lines of `go test -json`.
fn read_go(text: &str) -> Outcome {
    let part = |line: &str, name: &str| {
        let from = line.find(&format!("\"{name}\":\""))? + name.len() + 4;
        Some(line[from..].split('"').next()?.to_owned())
    };
    let mut outcome = Outcome::new();
    for line in text.lines() {
        if let (Some(test), Some(action)) = (part(line, "Test"), part(line, "Action"))
            && matches!(action.as_str(), "pass" | "fail")
        {
            outcome.insert(test, action == "pass");
        }
    }
    outcome
}

/// The last lines of `pytest -rA`.
pub(super) fn read_pytest(text: &str) -> Outcome {
    let mut outcome = Outcome::new();
    for line in text.lines() {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let test = rest.split(" - ").next().unwrap_or(rest);
        if matches!(word, "PASSED" | "FAILED" | "ERROR") && test.contains("::") {
            // A test may have passed and failed to clean up.
            let passed = word == "PASSED" && outcome.get(test) != Some(&false);
            outcome.insert(test.to_owned(), passed);
        }
    }
    outcome
}

/// `PASS file` and `FAIL file`, in colours.
fn read_poku(text: &str) -> Outcome {
    let mut outcome = Outcome::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(test) = words.iter().find(|word| word.ends_with(".test.mts")) {
            let has = |name: &str| words.iter().any(|word| word.contains(name));
            if has("PASS") || has("FAIL") {
                outcome.insert((*test).to_owned(), has("PASS"));
            }
        }
    }
    outcome
}

/// Lines of the reporter `verbose`: `✓ file > group > test 12ms`.
pub(super) fn read_vitest(text: &str) -> Outcome {
    let mut outcome = Outcome::new();
    for line in text.lines() {
        let line = line.trim_start();
        let (passed, rest) = match line.strip_prefix("✓ ") {
            Some(rest) => (true, rest),
            None => match line.strip_prefix("× ") {
                Some(rest) => (false, rest),
                None => continue,
            },
        };
        // The time behind it is another one each time.
        let test = match rest.rsplit_once(' ') {
            Some((test, time)) if time.ends_with("ms") || time.ends_with('s') => test,
            _ => rest,
        };
        if test.contains(" > ") {
            outcome.insert(test.trim().to_owned(), passed);
        }
    }
    outcome
}

/// Surefire's reports, one behind the other: `<testcase name="…" classname="…">`, with `<failure>` or `<error>` within.
fn read_surefire(text: &str) -> Outcome {
    let mut outcome = Outcome::new();
    for case in text.split("<testcase ").skip(1) {
        let (head, rest) = case.split_once('>').unwrap_or((case, ""));
        let attribute = |name: &str| head.split(&format!("{name}=\"")).nth(1)?.split('"').next();
        // `name` is a part of `classname`.
        let name = head.strip_prefix("name=\"").and_then(|rest| rest.split('"').next());
        let (Some(name), Some(class)) = (name, attribute("classname")) else { continue };
        let inside = if head.ends_with('/') { "" } else { rest.split("</testcase>").next().unwrap_or_default() };
        if !inside.contains("<skipped") {
            let passed = !inside.contains("<failure") && !inside.contains("<error");
            outcome.insert(format!("{class}.{name}"), passed);
        }
    }
    outcome
}

const HEAD: &str = "# The drivers' own tests

`cargo xtask conformance --drivers DIR` runs the test suites of MySQL's drivers at Debian's MariaDB and at our port (a debug build), and writes this
page. `DIR` has checkouts of go-sql-driver/mysql, PyMySQL, mysqlclient (PyMySQL/mysqlclient), node-mysql2 (sidorares/node-mysql2),
mariadb-connector-nodejs and mariadb-connector-j, under the names of their repositories; each runs in a copy with what it needs from its language's registry. It wants Go, Python,
Node 20, Java with Maven and, for mysqlclient, a C compiler and `libmariadb-dev`. Names of checkouts behind `DIR` run these alone, and write no page.

Only tests that pass at MariaDB here are counted: others want servers of their own, files or other versions. A file is a test of node-mysql2.
";

/// A page of `conformance/` with suites at two servers.
pub(super) struct Page {
    pub(super) name: &'static str,
    pub(super) head: &'static str,
    /// The other server.
    pub(super) other: &'static str,
}

impl Page {
    /// Prints what has come out, and writes it where `writes`. False when something is not as the causes say.
    ///
    /// # Errors
    /// When the page cannot be written.
    pub(super) fn conclude(&self, results: &[Compared], causes: &[Cause], writes: bool) -> Result<bool, String> {
        for result in results {
            let (theirs, here) = result.counts();
            println!("{}: {here} of {theirs} that {} passes", result.name, self.other);
        }
        if writes {
            let path = paths::repository().join("conformance").join(self.name);
            fs::write(&path, self.markdown(results, causes)).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("page: {}", path.display());
        }
        let surprises: Vec<String> = results.iter().flat_map(|result| result.surprises(causes)).collect();
        for surprise in &surprises {
            println!("{}", terminal::red(surprise));
        }
        Ok(surprises.is_empty())
    }

    fn markdown(&self, results: &[Compared], causes: &[Cause]) -> String {
        let mut page = self.head.to_owned();
        let _ = write!(page, "\n| suite | revision | {} passes | of these ours | |\n", self.other);
        page.push_str("| --- | --- | ---: | ---: | ---: |\n");
        for result in results {
            let (theirs, here) = result.counts();
            let share = here as f64 * 100.0 / theirs.max(1) as f64;
            let _ = writeln!(page, "| {} | {} | {theirs} | {here} | {share:.1} % |", result.name, result.revision);
        }
        page.push_str("\n## What does not pass\n\n| suite | test | why |\n| --- | --- | --- |\n");
        for result in results {
            for test in result.missing() {
                let reason = cause_of(causes, result.name, test).map_or("not known", |cause| &cause.reason);
                let _ = writeln!(page, "| {} | `{}` | {reason} |", result.name, test.replace('|', "\\|"));
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runners_print() {
        let expected = |pairs: &[(&str, bool)]| -> Outcome {
            pairs.iter().map(|(name, passed)| ((*name).to_owned(), *passed)).collect()
        };
        let go = "{\"Action\":\"run\",\"Test\":\"TestA\"}\n{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}\n\
                  {\"Action\":\"fail\",\"Test\":\"TestB/x\"}\n{\"Action\":\"fail\",\"Package\":\"p\"}";
        assert_eq!(read_go(go), expected(&[("TestA", true), ("TestB/x", false)]));
        let pytest = "PASSED t.py::a\nPASSED t.py::b\nERROR t.py::b - no\nFAILED t.py::c - why\nFAILED (errors)\n";
        assert_eq!(read_pytest(pytest), expected(&[("t.py::a", true), ("t.py::b", false), ("t.py::c", false)]));
        let poku = "\u{1b}[102m\u{1b}[1m PASS \u{1b}[0m test/a.test.mts\n FAIL  test/b.test.mts \n";
        assert_eq!(read_poku(poku), expected(&[("test/a.test.mts", true), ("test/b.test.mts", false)]));
        let surefire = "<testsuite><testcase name=\"a\" classname=\"p.T\" time=\"1\"/>\n<testcase name=\"b\" classname=\"p.T\">\n\
                        <failure message=\"x\"/></testcase><testcase name=\"c\" classname=\"p.T\"><skipped/></testcase>";
        assert_eq!(read_surefire(surefire), expected(&[("p.T.a", true), ("p.T.b", false)]));
        let vitest = " ✓ a.js > group > one 12ms\n × a.js > group > two 1.2s\n ↓ a.js > group > left out\n";
        assert_eq!(read_vitest(vitest), expected(&[("a.js > group > one", true), ("a.js > group > two", false)]));
    }
}
