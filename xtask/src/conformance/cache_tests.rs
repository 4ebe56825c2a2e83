//! `cargo xtask conformance --cache-tests DIR`: the public tests for HTTP caches (http-tests/cache-tests) through nginx and through
//! our binary.
//!
//! `DIR` is a checkout in which `npm install` has run. Its server is the origin, its client asks the caches; a script that it is
//! given here says of which kind each test is, and how it ended. The tests wait for entries to grow old: a run takes two minutes.

use super::binary;
use crate::paths::{self, Scratch};
use crate::ports::free_port;
use crate::process::{POLL, Process};
use crate::terminal;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until a server listens.
const START_MAX: Duration = Duration::from_secs(20);

/// Runs the tests against the cache at the URL, and prints a line for each that a shared cache has.
const SCRIPT: &str = "
import tests from './tests/index.mjs'
import { runTests, getResults } from './test-engine/client/runner.mjs'
import { determineTestResult } from './test-engine/lib/results.mjs'
await runTests(tests, false, process.argv[1])
const results = getResults()
const words = { '✅': 'pass', 'Y': 'pass', '⛔️': 'fail', '⚠️': 'fail', 'N': 'fail' }
for (const suite of tests) for (const test of suite.tests) {
  if (test.browser_only) continue
  const [, , symbol] = determineTestResult(tests, test.id, results, false)
  console.log(['TEST', test.kind || 'required', test.id, words[symbol] || 'none'].join(' '))
}
process.exit(0)
";

/// Who is tested, and with which directives more than nginx's own of the suite.
const CACHES: [(&str, bool, &str); 3] =
    [("nginx", false, ""), ("ours", true, ""), ("ours, `proxy_cache_rfc9111 on`", true, "proxy_cache_rfc9111 on;")];

/// Kinds of tests as the suite calls them, and what they mean there.
const KINDS: [(&str, &str); 3] = [
    ("required", "what a cache must do to follow the standards"),
    ("optimal", "where a cache could answer, but need not"),
    ("check", "questions without a right answer: yes"),
];

/// How one test ended: `pass`, `fail`, or `none` where the cache did not let it begin.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    kind: String,
    word: String,
}

type Outcome = BTreeMap<String, Ended>;

/// Runs the suite and writes `conformance/cache-tests.md`.
///
/// # Errors
/// When the checkout, node, nginx or the binary is missing, or the page cannot be written.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let suite = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    if !suite.join("test-engine/client/runner.mjs").is_file() || !suite.join("node_modules").is_dir() {
        return Err(format!("{} is no checkout of cache-tests in which `npm install` has run", suite.display()));
    }
    let nginx = paths::program("nginx").ok_or("there is no nginx to compare with")?;
    let ours = binary(options)?;
    let scratch = Scratch::new("cache-tests", false)?;
    let origin_port = free_port();
    let mut origin = Command::new("node");
    origin.arg("test-engine/server/server.mjs").current_dir(&suite).stdin(Stdio::null()).stdout(Stdio::null());
    origin.env("npm_config_protocol", "http").env("npm_config_port", origin_port.to_string());
    origin.env("npm_config_pidfile", scratch.path().join("origin.pid"));
    let _origin = Process::spawn(&mut origin)?;
    wait_for(origin_port)?;
    let mut outcomes = Vec::new();
    for (index, (name, is_ours, more)) in CACHES.iter().enumerate() {
        terminal::heading(name);
        let program = if *is_ours { &ours } else { &nginx };
        let site = scratch.path().join(index.to_string());
        let outcome = run_through(program, &site, &suite, origin_port, more)?;
        for (kind, _) in KINDS {
            println!("{kind}: {} of {}", count(&outcome, kind, "pass"), of_kind(&outcome, kind).count());
        }
        outcomes.push(outcome);
    }
    let page = paths::repository().join("conformance/cache-tests.md");
    let revision =
        super::nginx_tests::said_by("git", &["-C", &suite.to_string_lossy(), "log", "-1", "--format=%h of %cs"]);
    fs::write(&page, markdown(&outcomes, &revision)).map_err(|e| format!("{}: {e}", page.display()))?;
    println!("page: {}", page.display());
    Ok(true)
}

/// The suite's own configuration for nginx; updates in the background let `stale-while-revalidate` be seen.
fn configuration(directory: &Path, port: u16, origin_port: u16, more: &str) -> String {
    let temporary: String = ["proxy", "client_body", "fastcgi", "scgi", "uwsgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", directory.display()))
        .concat();
    format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\nevents {{ }}\nhttp {{\naccess_log off;\n{temporary}\
         proxy_cache_path {}/cache levels=1:2 keys_zone=my-cache:8m max_size=1000m inactive=600m;\n\
         server {{ listen 127.0.0.1:{port}; location / {{\n\
         proxy_pass http://127.0.0.1:{origin_port}; proxy_cache my-cache; proxy_cache_revalidate on; proxy_http_version 1.1;\n\
         proxy_cache_background_update on; {more}\n}} }} }}\n",
        directory.display()
    )
}

fn run_through(program: &Path, site: &Path, suite: &Path, origin_port: u16, more: &str) -> Result<Outcome, String> {
    let port = free_port();
    let made = fs::create_dir(site)
        .and_then(|()| fs::write(site.join("nginx.conf"), configuration(site, port, origin_port, more)));
    made.map_err(|e| format!("{}: {e}", site.display()))?;
    let mut server = Command::new(program);
    server.arg("-p").arg(site).args(["-c", "nginx.conf"]).stdin(Stdio::null());
    let _server = Process::spawn(&mut server)?;
    wait_for(port)?;
    let mut client = Command::new("node");
    client.args(["--no-warnings", "--input-type=module", "-e", SCRIPT, &format!("http://127.0.0.1:{port}")]);
    let output = client.current_dir(suite).stdin(Stdio::null()).output().map_err(|e| format!("node: {e}"))?;
    let outcome = read(&String::from_utf8_lossy(&output.stdout));
    if outcome.is_empty() {
        return Err(format!("the client ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(outcome)
}

/// Waits until somebody listens on a port of this machine.
///
/// # Errors
/// When nobody does in time.
pub(super) fn wait_for(port: u16) -> Result<(), String> {
    let deadline = Instant::now() + START_MAX;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline {
            return Err(format!("nobody listens on port {port}"));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn read(text: &str) -> Outcome {
    let mut outcome = Outcome::new();
    for line in text.lines() {
        if let ["TEST", kind, id, word] = line.split(' ').collect::<Vec<_>>()[..] {
            outcome.insert(id.to_owned(), Ended { kind: kind.to_owned(), word: word.to_owned() });
        }
    }
    outcome
}

fn of_kind<'a>(outcome: &'a Outcome, kind: &'a str) -> impl Iterator<Item = (&'a String, &'a Ended)> {
    outcome.iter().filter(move |(_, ended)| ended.kind == kind)
}

fn count(outcome: &Outcome, kind: &str, word: &str) -> usize {
    of_kind(outcome, kind).filter(|(_, ended)| ended.word == word).count()
}

const HEAD: &str = "# Tests for HTTP caches

`cargo xtask conformance --cache-tests DIR` runs a checkout of http-tests/cache-tests (on GitHub; `npm install` in it first) through Debian's nginx and
through our debug build with the same configuration, which is the suite's own for nginx with `proxy_cache_background_update on`, and writes this page.
";

fn markdown(outcomes: &[Outcome], revision: &str) -> String {
    let today = super::nginx_tests::said_by("date", &["+%F"]);
    let names: Vec<&str> = CACHES.iter().map(|(name, ..)| *name).collect();
    let mut text =
        format!("{HEAD}\nRevision {revision}, run on {today}.\n\n| kind | tests | {} |\n", names.join(" | "));
    let _ = writeln!(text, "| --- | ---: |{}", " ---: |".repeat(names.len()));
    for (kind, meaning) in KINDS {
        let tests = outcomes.first().map_or(0, |outcome| of_kind(outcome, kind).count());
        let passed: Vec<String> = outcomes.iter().map(|outcome| count(outcome, kind, "pass").to_string()).collect();
        let _ = writeln!(text, "| {kind}: {meaning} | {tests} | {} |", passed.join(" | "));
    }
    text.push_str("\n## Where they differ, what is required and does not hold, and `stale-*`\n\n\"none\": the cache did not let the test begin, for instance because it keeps no such response.\n\n");
    let _ = writeln!(text, "| kind | test | {} |\n| --- | --- |{}", names.join(" | "), " --- |".repeat(names.len()));
    for (kind, _) in KINDS {
        for (id, first) in outcomes.iter().take(1).flat_map(|outcome| of_kind(outcome, kind)) {
            let words: Vec<&str> = outcomes.iter().map(|outcome| outcome.get(id).map_or("none", |e| &e.word)).collect();
            let differs = words.iter().any(|word| *word != first.word);
            let fails = kind == "required" && words.iter().any(|word| *word != "pass");
            if differs || fails || id.starts_with("stale-") {
                let _ = writeln!(text, "| {kind} | {id} | {} |", words.join(" | "));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_differs() {
        let ours =
            read("noise\nTEST required a pass\nTEST required b fail\nTEST check c pass\nTEST check stale-d fail\n");
        let nginx = read("TEST required a pass\nTEST required b fail\nTEST check c fail\nTEST check stale-d fail\n");
        let text = markdown(&[nginx, ours, Outcome::new()], "1");
        assert!(text.contains("| 2 | 1 | 1 | 0 |"), "{text}");
        assert!(text.contains("| required | b | fail | fail | none |"), "{text}");
        assert!(text.contains("| check | c | fail | pass | none |"), "{text}");
        assert!(text.contains("| check | stale-d | fail | fail | none |"), "{text}");
    }
}
