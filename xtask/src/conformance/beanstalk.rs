//! `cargo xtask conformance --beanstalk DIR`: the tests of beanstalkd's clients at Debian's beanstalkd and at our port.
//!
//! `DIR` holds checkouts of the clients, one directory each, under the names of their repositories; those that are not there are left
//! out. Each suite runs in a copy, unchanged but for the port, first at beanstalkd and then at ours with two workers. What passes at
//! beanstalkd must pass at ours, or stand in `conformance/beanstalk-causes.txt` with the reason. `conformance/beanstalk/` has what starts our
//! server, by the arguments of beanstalkd, for tests that start one themselves.

use super::binary;
use super::cache_tests::wait_for;
use super::drivers::{
    Compared, Outcome, Page, Suite, VENV, chosen, copy_of, prepare, read_causes, read_pytest, read_vitest, revision,
    run_suite,
};
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::Process;
use crate::terminal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What all clients from npm need.
const NPM: &str = "npm install --silent --no-audit --no-fund --ignore-scripts";

/// Suites: `$PORT` has a server, `$BEANSTALKD` starts one of the same kind. Whether it was there before the tests is not theirs to know.
const SUITES: &[Suite] = &[
    Suite {
        name: "greenstalk",
        prepare: &[VENV, "$SHARED/venv/bin/pip -q install pytest"],
        // They start a server for each test, at a port of their own and at a socket.
        run: "sed -i s/4444/$OWN/ tests/test_greenstalk.py; sed -i s,/tmp/greenstalk-test.sock,$SHARED/greenstalk.sock, tests/test_greenstalk.py; \
              PYTHONPATH=$TOOLS:src BEANSTALKD_PATH=$BEANSTALKD $SHARED/venv/bin/python -m pytest -p patient -q -rA tests",
        read: read_pytest,
    },
    Suite {
        name: "pystalkd",
        prepare: &[VENV, "$SHARED/venv/bin/pip -q install pytest PyYAML"],
        // The test that is left out is not in the list of the file either: it leaves a job for those that follow.
        run: "sed -i \"s/^DEFAULT_PORT = .*/DEFAULT_PORT = $PORT/\" pystalkd/Beanstalkd.py; \
              $SHARED/venv/bin/python -m pytest -q -rA --deselect test.py::TestBeanstalkd::test_timedelta test.py",
        read: read_pytest,
    },
    Suite {
        name: "jackd",
        prepare: &[NPM],
        run: "sed -i \"s/let port = [0-9]*/let port = $PORT/\" src/index.ts; NO_COLOR=1 npx vitest --reporter=verbose run src",
        read: read_vitest,
    },
    Suite {
        name: "fivebeans",
        prepare: &[NPM],
        run: "sed -i -E \"s/^(var port *= |.*DEFAULT_PORT *= |    port: )[0-9]+/\\1$PORT/; s/localhost/127.0.0.1/\" \
              lib/client.js test/*.js test/fixtures/*.yml; npx mocha -t 8000 -R tap test/",
        read: read_tap,
    },
];

/// Runs the suites and writes `conformance/beanstalk.md`. False when a test that beanstalkd passes fails here for a reason that is not
/// known, or passes against expectation.
///
/// # Errors
/// When there is no checkout, beanstalkd or a tool is missing, or the page cannot be written.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let dir = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    let suites = chosen(SUITES, &dir, options)?;
    let causes = read_causes("beanstalk-causes.txt")?;
    let ours = binary(options)?;
    let ours = fs::canonicalize(&ours).map_err(|e| format!("{}: {e}", ours.display()))?;
    let scratch = Scratch::new("beanstalk", false)?;
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).map_err(|e| format!("{}: {e}", shared.display()))?;
    let tools = paths::repository().join("conformance/beanstalk");
    let mut results = Vec::new();
    for suite in suites {
        terminal::heading(suite.name);
        let copy = scratch.path().join(suite.name);
        copy_of(&dir.join(suite.name), &copy)?;
        for step in suite.prepare {
            prepare(step, &copy, &shared)?;
        }
        // The copy keeps the ports, so they are those of both servers.
        let [port, own] = [(); 2].map(|()| free_port());
        let at = |server: &Path| {
            let vars = [
                ("PORT", port.to_string()),
                ("OWN", own.to_string()),
                ("TOOLS", tools.display().to_string()),
                ("BEANSTALKD", server.display().to_string()),
                ("TIDEGATE", ours.display().to_string()),
                ("SITES", shared.display().to_string()),
            ];
            let mut command = Command::new(server);
            command.args(["-l", "127.0.0.1", "-p", &port.to_string()]).stdin(Stdio::null()).envs(vars.clone());
            let _server = Process::spawn(&mut command)?;
            wait_for(port)?;
            run_suite(suite, &copy, &shared, &vars)
        };
        let theirs = at(Path::new("beanstalkd"))?;
        let here = at(&tools.join("server"))?;
        results.push(Compared { name: suite.name, revision: revision(&dir.join(suite.name)), theirs, here });
    }
    let page = Page { name: "beanstalk.md", head: HEAD, other: "beanstalkd" };
    page.conclude(&results, &causes, options.suites.is_empty())
}

/// Lines of mocha's reporter `tap`: `ok 1 group test` and `not ok 2 group test`.
fn read_tap(text: &str) -> Outcome {
    let ended = |line: &str| {
        let (passed, rest) = match line.strip_prefix("not ") {
            Some(rest) => (false, rest),
            None => (true, line),
        };
        let (_, test) = rest.strip_prefix("ok ")?.split_once(' ')?;
        (!test.contains("# SKIP")).then(|| (test.to_owned(), passed))
    };
    let mut outcome = Outcome::new();
    for (test, passed) in text.lines().filter_map(ended) {
        // Two tests may have one name.
        let same = outcome.keys().filter(|name| name.split(" (").next() == Some(&test)).count();
        let name = if same == 0 { test } else { format!("{test} ({})", same + 1) };
        outcome.insert(name, passed);
    }
    outcome
}

const HEAD: &str = "# Tests of beanstalkd's clients

`cargo xtask conformance --beanstalk DIR` runs the tests of clients for beanstalkd at Debian's beanstalkd and at our port, with two workers, and writes this page.
`DIR` has checkouts of greenstalk (justinmayhew/greenstalk), pystalkd (menezes-/pystalkd), jackd (getjackd/jackd) and fivebeans (ceejbot/fivebeans), under
the names of their repositories; each runs in a copy, unchanged but for the port, with what it needs from PyPI or npm. It wants Python, Node 20 and Debian's beanstalkd.
Names of checkouts behind `DIR` run these alone, and write no page. Only tests that pass at beanstalkd are counted.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mocha_prints() {
        let text = "1..4\nok 1 A one\nnot ok 2 A two\n  Error: x\nok 3 A one\nok 4 A three # SKIP -\n# tests 3\n";
        let expected = [("A one", true), ("A one (2)", true), ("A two", false)];
        assert_eq!(read_tap(text), expected.map(|(name, passed)| (name.to_owned(), passed)).into());
    }
}
