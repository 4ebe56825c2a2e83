//! `tidegate report`: two points for a second each, on real stacks, and the pages of them.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{Site, binary, eventually};

fn report(out: &Path, arguments: &[&str]) -> Output {
    let mut command = binary();
    command.arg("report").arg("--out").arg(out).args(arguments);
    command.output().expect("it runs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn two_points_of_real_stacks_become_a_page_and_a_run_that_was_broken_off_goes_on() {
    // Its directory is all that is wanted of it.
    let site = Site::new("", "");
    let out = site.dir.join("report");
    let points = ["--only", "row/tidegate-embedded/drizzle/", "--only", "row/tidegate-mariadb/resty.mysql/"];
    let first = report(&out, &[&points[..], &["--rounds", "1"]].concat());
    let said = String::from_utf8_lossy(&first.stdout).into_owned() + &String::from_utf8_lossy(&first.stderr);
    assert!(first.status.success(), "{said}");
    assert_eq!(said.matches(" left  row/").count(), 2, "each round says how far it is: {said}");

    let embedded = out.join("points/row.tidegate-embedded.drizzle.30.json");
    let point: Value = serde_json::from_str(&read(&embedded)).expect("JSON");
    let round = &point["rounds"][0];
    assert!(round["per_second"].as_f64().is_some_and(|rate| rate > 1.0), "{point}");
    assert!(
        round["p50_us"].as_f64() <= round["p99_us"].as_f64() && round["p99_us"].as_f64() <= round["max_us"].as_f64()
    );
    let mariadb: Value =
        serde_json::from_str(&read(&out.join("points/row.tidegate-mariadb.resty_mysql.30.json"))).expect("JSON");
    let parts = mariadb["rounds"][0]["parts"].as_array().expect("parts");
    let names: Vec<_> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    assert_eq!(names, ["tidegate", "mariadbd"], "the database behind a server is its own part");
    for part in parts {
        assert!(part["us_per_request"].as_f64().is_some_and(|time| time > 0.0), "{part}");
        assert!(part["voluntary"].as_f64().is_some_and(|count| count > 0.0), "{part}");
        assert!(part["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{part}");
    }

    let (html, summary) = (read(&out.join("report.html")), read(&out.join("summary.md")));
    for part in
        ["One row as JSON", "Tidegate, embedded database: drizzle", "Tidegate, MariaDB: resty.mysql", "taskset -c"]
    {
        assert!(html.contains(part), "{part} is not on the page");
    }
    assert!(
        html.contains("tidegate report --matrix full --out again --only row/tidegate-embedded/drizzle/30"),
        "commands"
    );
    assert_eq!(html.matches("<svg").count(), 2, "requests a second, and latencies");
    assert!(summary.contains("plots/row-rate.svg") && out.join("plots/row-rate.svg").is_file());

    // The next run measures the second round alone.
    let second = report(&out, &[&points[..], &["--rounds", "2"]].concat());
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let again: Value = serde_json::from_str(&read(&embedded)).expect("JSON");
    assert_eq!(again["rounds"].as_array().map(Vec::len), Some(2));
    assert_eq!(again["rounds"][0], point["rounds"][0], "what was measured stays");
    // With other rounds it is another run.
    let other = report(&out, &[&points[..], &["--seconds", "2"]].concat());
    let refusal = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && refusal.contains("seconds of a round: 1 then, 2 now"), "{refusal}");
}

#[test]
fn points_are_listed_and_a_name_that_none_has_is_an_error() {
    let site = Site::new("", "");
    let out = site.dir.join("report");
    let list = report(&out, &["--list", "--only", "static-13/tidegate"]);
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.status.success() && text.starts_with("static-13/tidegate-embedded/-/32\n"), "{text}");
    let none = report(&out, &["--only", "no such point"]);
    assert!(!none.status.success());
    assert!(String::from_utf8_lossy(&none.stderr).contains("no point has that name"), "{none:?}");
}

#[test]
fn wrong_commands_say_what_is_wrong() {
    let site = Site::new("", "");
    let out = site.dir.join("report");
    for (arguments, expected) in [
        (&["--render"][..], "has no points of a report"),
        (&["--rounds", "0"], "0 is not in 1..=1000"),
        (&["--seconds", "0"], "0 is not in 1..=3600"),
        (&["--only", "static-13/floor/", "--server-cores", "4095"], "the cores 4095 are not there for the servers"),
        (&["--only", "static-13/floor/", "--load-cores", "first"], "the cores first are not there for the load"),
    ] {
        let output = report(&out, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
        assert!(!out.join("run.json").exists(), "{arguments:?} began a run");
    }
}

/// The processes that work in a directory below this one.
fn at_work_below(dir: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").expect("a directory").flatten();
    let at_work =
        processes.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir)));
    at_work.filter_map(|entry| Some(Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))).collect()
}

/// Begins to measure a file of Tidegate's, in these directories; scratch directories are below the second.
fn begun(site: &Site, arguments: &[&str]) -> (Child, PathBuf, PathBuf) {
    let [out, scratch, programs] = ["report", "scratch", "programs"].map(|name| site.dir.join(name));
    // Only what this point needs: to look for drivers and to build for other stacks takes its time.
    for dir in [&scratch, &programs] {
        fs::create_dir_all(dir).expect("made");
    }
    for program in ["taskset", "true"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{program}"), programs.join(program)).expect("linked");
    }
    let mut command = binary();
    command.env("PATH", &programs).env("TMPDIR", &scratch).arg("report").arg("--out").arg(&out);
    command.args(["--only", "static-13/tidegate-embedded/-/32"]).args(arguments);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("begun");
    (child, out, scratch)
}

#[test]
fn a_server_that_dies_is_started_again() {
    let site = Site::new("", "");
    let (mut child, out, scratch) = begun(&site, &["--rounds", "3"]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let measured = lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line.contains(" left  static-13/")));
    assert!(measured.is_some(), "the first round has been measured");
    for pid in at_work_below(&scratch) {
        // It may have ended with the one before.
        let _ = kill(pid, Signal::SIGKILL);
    }
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = support::finish(child);
    assert!(output.status.success(), "{rest:?} {}", String::from_utf8_lossy(&output.stderr));
    let point: Value =
        serde_json::from_str(&read(&out.join("points/static-13.tidegate-embedded..32.json"))).expect("JSON");
    // The round in which it died may be missing.
    let rounds = point["rounds"].as_array().map(Vec::len);
    assert!(rounds == Some(2) || rounds == Some(3), "{point:#}");
    assert_eq!(point["problem"], Value::Null, "{point:#}");
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let site = Site::new("", "");
    let (child, _, scratch) = begun(&site, &["--seconds", "600"]);
    // The server, and below it another process, which the kernel does not end with the report.
    eventually("the stack runs", || (at_work_below(&scratch).len() >= 2).then_some(()));
    // As Ctrl-C, which is ignored by what was started in the background.
    kill(Pid::from_raw(child.id().try_into().expect("a process number")), Signal::SIGTERM).expect("delivered");
    let output = support::finish(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && said.contains("interrupted: the same command goes on"), "{said}");
    eventually("all that was started has ended", || at_work_below(&scratch).is_empty().then_some(()));
    assert_eq!(fs::read_dir(&scratch).expect("a directory").count(), 0, "scratch directories");
}
