//! `cargo xtask conformance --nginx-tests DIR`: nginx's public test suite (nginx-tests) against nginx itself and our binary.
//!
//! `DIR` is a checkout. Each of its Perl files runs once with the machine's nginx, whose passing assertions are what counts,
//! and once with ours under the name `nginx`. As root each run has a network and a process namespace of its own and the rights of
//! nobody; elsewhere the files' ports (8000 to 8999) must be free.

use super::{binary, named_nginx, summary::Causes};
use crate::paths::{self, Scratch};
use crate::terminal;
use nix::unistd::Uid;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Files about what this server does not have at all: other protocols, and modules of nginx's that nobody
/// plans. What is left may still skip itself, for want of a module in `-V`.
const LEFT_OUT: &str = "^(h2_|h2\\.|h3_|quic|mail_|stream_|grpc|proxy_h2|perl|image_filter|xslt\
    |dav|geoip|.*_perl|gzip_flush|.*win32|mp4|range_mp4|range_flv|tunnel|.*sticky|.*_h2\\.|.*_mail|worker_shutdown_timeout_stream\
    |proxy_bind_transparent|proxy_if|proxy_early_hints|proxy_trailers\
    |proxy_connection_headers|proxy_protocol_ipv6|proxy_protocol_unix|sub_filter_ssi)";

/// Files about HTTP/2. They want `http2 on`, which nginx has since 1.25.1.
const HTTP2: &str = "^(h2_|h2\\.|worker_shutdown_timeout_h2)";

/// Seconds that one file may take.
const FILE_SECONDS_MAX: &str = "120";

/// Who runs the files where root starts them: nobody, in Debian.
const NOBODY: u32 = 65_534;

/// What one run of a file came to.
#[derive(Debug, Default)]
struct Outcome {
    /// Assertions that hold, as `NUMBER TITLE`.
    passed: BTreeSet<String>,
    /// Those of them that the suite does not expect to hold with the version that the program says it is.
    unexpected: BTreeSet<String>,
    /// Why the file left itself out.
    skipped: Option<String>,
}

/// Runs the suite and writes `page`. `only` names files; without any, all are run.
///
/// # Errors
/// When the checkout, nginx or the binary is missing, or the page cannot be written.
pub(super) fn run(options: &super::Options) -> Result<bool, String> {
    let suite = fs::canonicalize(&options.dir).map_err(|e| format!("{}: {e}", options.dir.display()))?;
    if !suite.join("lib/Test/Nginx.pm").is_file() {
        return Err(format!("{} is no checkout of nginx-tests", suite.display()));
    }
    let files = if options.suites.is_empty() { files(&suite, options.http2)? } else { options.suites.clone() };
    let nginx = match &options.nginx {
        Some(nginx) => fs::canonicalize(nginx).map_err(|e| format!("{}: {e}", nginx.display()))?,
        None => paths::program("nginx").ok_or("there is no nginx to compare with")?,
    };
    let scratch = Scratch::new("nginx-tests", false)?;
    let reference = without_dynamic_modules(&nginx, scratch.path())?;
    let ours = named_nginx(&binary(options)?, scratch.path())?;
    terminal::heading(&format!("{} files with {}", files.len(), nginx.display()));
    let expected = run_all(&suite, &files, &reference, scratch.path(), options.jobs);
    terminal::heading(&format!("{} files with {}", files.len(), ours.display()));
    let found = run_all(&suite, &files, &ours, scratch.path(), options.jobs);
    let causes = paths::repository().join("conformance/nginx-causes.txt");
    let causes = Causes::read(&fs::read_to_string(&causes).map_err(|e| format!("{}: {e}", causes.display()))?)?;
    let head = if options.http2 { HTTP2_HEAD } else { HEAD };
    let text = page(
        &format!("{head}\nCompared with {}. ", version_of(&nginx)),
        &expected,
        &found,
        &causes,
        &said_by("git", &["-C", &suite.to_string_lossy(), "log", "-1", "--format=%h of %cs"]),
    );
    if !options.suites.is_empty() {
        print!("{text}");
        return Ok(true);
    }
    let name = if options.http2 { "conformance/nginx-http2.md" } else { "conformance/nginx.md" };
    let page = paths::repository().join(name);
    fs::write(&page, text).map_err(|e| format!("{}: {e}", page.display()))?;
    println!("page: {}", page.display());
    Ok(true)
}

fn files(suite: &Path, http2: bool) -> Result<Vec<String>, String> {
    let [left_out, about_http2] = [LEFT_OUT, HTTP2].map(|pattern| Regex::new(pattern).expect("a pattern"));
    let entries = fs::read_dir(suite).map_err(|e| format!("{}: {e}", suite.display()))?;
    let mut files: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    files.retain(|name| {
        let is_meant = if http2 { about_http2.is_match(name) } else { !left_out.is_match(name) };
        name.ends_with(".t") && is_meant
    });
    files.sort();
    Ok(files)
}

/// What an nginx says it is, for instance `nginx/1.22.1`.
fn version_of(nginx: &Path) -> String {
    let output = Command::new(nginx).arg("-v").output();
    let text = output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stderr).into_owned());
    text.trim().trim_start_matches("nginx version: ").to_owned()
}

/// The suite loads dynamic modules that `-V` names; those of a distribution need not be installed.
fn without_dynamic_modules(nginx: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let directory = scratch.join("reference");
    let path = directory.join("nginx");
    let shown = nginx.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -V ] && {{ {shown} -V 2>&1 | sed 's/--with-[a-z_]*=dynamic//g' >&2; exit 0; }}\nexec {shown} \"$@\"\n"
    );
    let written = fs::create_dir(&directory).and_then(|()| fs::write(&path, script));
    written
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn run_all(suite: &Path, files: &[String], binary: &Path, scratch: &Path, jobs: usize) -> BTreeMap<String, Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_file(suite, file, binary, scratch);
                    println!(
                        "{file}: {} passed{}",
                        outcome.passed.len(),
                        outcome.skipped.as_deref().map_or(String::new(), |why| format!(" ({why})"))
                    );
                    outcomes.lock().expect("no thread panics").insert(file.clone(), outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no thread panics")
}

fn run_file(suite: &Path, file: &str, binary: &Path, scratch: &Path) -> Outcome {
    let temp = scratch.join(format!("{file}.tmp"));
    let is_root = Uid::effective().is_root();
    let made =
        fs::create_dir(&temp).and_then(|()| if is_root { chown(&temp, Some(NOBODY), Some(NOBODY)) } else { Ok(()) });
    if let Err(error) = made {
        return Outcome { skipped: Some(format!("{}: {error}", temp.display())), ..Outcome::default() };
    }
    let mut command = Command::new("timeout");
    command.args(["-k", "1", FILE_SECONDS_MAX]);
    if is_root {
        command.args(["unshare", "-n", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c"]);
        command.arg(format!(
            "ip link set lo up; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups perl -Ilib \"$0\""
        ));
        command.arg(file);
    } else {
        command.args(["perl", "-Ilib", file]);
    }
    command.current_dir(suite).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("TEST_NGINX_BINARY", binary).env("TMPDIR", &temp).env("HOME", &temp);
    if is_root {
        // What the suite calls unsafe could reach beyond its own processes and addresses, which the namespaces prevent.
        command.env("TEST_NGINX_UNSAFE", "1");
    }
    let outcome = match command.output() {
        Ok(output) => read_tap(&String::from_utf8_lossy(&output.stdout)),
        Err(error) => Outcome { skipped: Some(format!("timeout: {error}")), ..Outcome::default() },
    };
    let _ = fs::remove_dir_all(&temp);
    outcome
}

fn read_tap(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for line in text.lines().map(str::trim_end) {
        if let Some(why) = line.strip_prefix("1..0 # SKIP ") {
            outcome.skipped = Some(why.to_owned());
        } else if let Some((number, title)) = line.strip_prefix("ok ").and_then(|rest| rest.split_once(" - "))
            && !title.contains("# skip")
        {
            match title.split_once(" # TODO") {
                Some((title, _)) => outcome.unexpected.insert(format!("{number} {title}")),
                None => outcome.passed.insert(format!("{number} {title}")),
            };
        }
    }
    outcome
}

/// What a program prints; nothing if there is no such program.
pub(super) fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

const HTTP2_HEAD: &str = "# nginx's own tests of HTTP/2

`cargo xtask conformance --nginx-tests DIR --http2 --nginx NGINX` runs the files about HTTP/2 of a checkout of nginx's public test suite (nginx-tests on
GitHub) and writes this page. They want `http2 on`, which Debian's nginx 1.22 does not have: NGINX is one that was built of nginx's sources. Each file runs
with it and with our debug build, in namespaces of its own, as [the others](nginx.md) do. Only assertions that nginx passes are counted.
";

const HEAD: &str = "# nginx's own tests

`cargo xtask conformance --nginx-tests DIR` runs a checkout of nginx's public test suite (nginx-tests on GitHub) and writes this page. Each file runs with
Debian's nginx and with our debug build, under the name `nginx`, in namespaces of its own. Only assertions that nginx passes are counted. Files about
HTTP/2 and 3, mail, stream and modules that are not planned are left out by name
(`xtask/src/conformance/nginx_tests.rs`); `nginx-causes.txt` has the causes of failures. A few assertions read a log within microseconds after a response,
and fail by chance on a busy machine.
";

fn page(
    head: &str,
    expected: &BTreeMap<String, Outcome>,
    found: &BTreeMap<String, Outcome>,
    causes: &Causes,
    revision: &str,
) -> String {
    let (mut rows, mut totals) = (String::new(), (0, 0));
    let mut failures: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (file, expected) in expected.iter().filter(|(_, outcome)| !outcome.passed.is_empty()) {
        let Some(found) = found.get(file) else { continue };
        let held = &found.passed | &found.unexpected;
        let passed = expected.passed.intersection(&held).count();
        let _ = writeln!(rows, "| {file} | {} | {passed} |", expected.passed.len());
        totals = (totals.0 + expected.passed.len(), totals.1 + passed);
        if let Some(why) = &found.skipped {
            let all = format!("{file} (all {}, {why})", expected.passed.len());
            failures.entry(causes.of_text(&all)).or_default().push(all);
            continue;
        }
        for title in expected.passed.difference(&held) {
            let text = format!("{file} {title}");
            failures.entry(causes.of_text(&text)).or_default().push(text);
        }
    }
    let (of_nginx, ours, today) = (totals.0, totals.1, said_by("date", &["+%F"]));
    let mut text = format!(
        "{head}Revision {revision}, run on {today}: nginx passes {of_nginx} assertions, we pass {ours} of them.\n"
    );
    text.push_str("\n## What fails, by cause\n");
    let mut failures: Vec<_> = failures.into_iter().collect();
    failures.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
    for (cause, list) in failures {
        let _ = write!(text, "\n**{cause}**\n\n");
        for failure in list {
            let _ = writeln!(text, "- {failure}");
        }
    }
    let _ = write!(text, "\n## Files\n\n| file | nginx | ours |\n| --- | ---: | ---: |\n{rows}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_files_print() {
        let outcome = read_tap(
            "1..4\nok 1 - one\nnot ok 2 - two\nok 3 - three # TODO not yet\nok 4 # skip why\n# ok 5 - five\r\n",
        );
        assert_eq!(outcome.passed.into_iter().collect::<Vec<_>>(), ["1 one"]);
        assert_eq!(outcome.unexpected.into_iter().collect::<Vec<_>>(), ["3 three"]);
        assert_eq!(read_tap("1..0 # SKIP no ssi available\n").skipped.as_deref(), Some("no ssi available"));
    }
}
