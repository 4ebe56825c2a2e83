//! Clients of beanstalkd that do not read what they are answered.

mod support;

use std::io::Write;
use std::os::unix::net::UnixStream;

use support::queues::{Jobs, answer, ask, count, finish, post, send, started};
use support::{Site, eventually};

const QUEUES: &str = "location / { queue_api; queue_wait_max 5m; }";
/// Bytes of a job that is looked at again and again.
const JOB_BYTES: usize = 500;

/// A figure of `stats`.
#[track_caller]
fn figure(jobs: &mut Jobs, name: &str) -> usize {
    let line = jobs.tell(b"stats\r\n");
    let length = line.strip_prefix("OK ").and_then(|length| length.parse().ok()).expect("a length");
    let text = jobs.text(length);
    let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    figure.and_then(|figure| figure.parse().ok()).expect("a number")
}

/// A client that looks at a job so often and then asks for one of the tube `work`, without reading anything.
#[track_caller]
fn looks(site: &Site, job: &str, count: usize) -> UnixStream {
    let mut client = UnixStream::connect(site.dir.join("logs/jobs.sock")).expect("connected");
    let commands = format!("peek {job}\r\n").repeat(count);
    write!(client, "watch work\r\nignore default\r\n{commands}reserve\r\n").expect("sent");
    client
}

/// What `stats` counts of looks and of requests for a job, when the server has stopped to do anything for `of`.
#[track_caller]
fn still(jobs: &mut Jobs) -> (usize, usize) {
    let (mut seen, mut same) = ((0, 0), 0);
    eventually("it comes to rest", || {
        let now = (figure(jobs, "cmd-peek"), figure(jobs, "cmd-reserve"));
        same = if now == seen { same + 1 } else { 0 };
        seen = now;
        (same > 50).then_some(now)
    })
}

/// A client that has asked for a job of the tube `work` and has unread answers in the server, and the number of its looks.
///
/// How many answers the system takes before it has no room depends on the pieces in which they leave, so the number that
/// brings a client just that far is looked for, from the one at which the server stopped to read.
#[track_caller]
fn behind(site: &Site, jobs: &mut Jobs, job: &str) -> (UnixStream, usize) {
    let full = looks(site, job, 2000);
    let (most, asked) = still(jobs);
    assert!(most > 0 && most < 2000 && asked == 0, "the system has room for all of it");
    drop(full);
    let mut looked = most - 1;
    for _ in 0..200 {
        let (before, asked) = still(jobs);
        let client = looks(site, job, looked);
        eventually("it is looked at", || (figure(jobs, "cmd-peek") > before).then_some(()));
        if still(jobs).1 == asked {
            looked -= 1;
        } else if figure(jobs, "current-waiting") > 0 {
            looked += 1;
        } else {
            return (client, looked);
        }
        drop(client);
        eventually("it is gone", || (figure(jobs, "current-waiting") == 0).then_some(()));
    }
    panic!("no number of answers is taken by the server and not by the system");
}

#[test]
fn a_client_that_does_not_read_keeps_no_job_from_others() {
    let site = started("", QUEUES);
    let port = site.port;
    let mut jobs = Jobs::connect(&site);
    let put = format!("put 0 0 60 {JOB_BYTES}\r\n{}\r\n", "x".repeat(JOB_BYTES));
    let job = jobs.tell(put.as_bytes()).strip_prefix("INSERTED ").expect("a number").to_owned();
    let (mut slow, looked) = behind(&site, &mut jobs, &job);
    eventually("it does not wait for one", || (ask(port, "GET", "work", "").1["waiting_consumers"] == 0).then_some(()));
    assert_eq!(figure(&mut jobs, "current-waiting"), 0);
    let other = send(port, "POST", "work/pull?wait=5m&lease=5m", "");
    eventually("another one waits", || (ask(port, "GET", "work", "").1["waiting_consumers"] == 1).then_some(()));
    assert_eq!(post(port, "work", "first").0, 200);
    let (_, pulled) = answer(other);
    assert_eq!(pulled["messages"][0]["body"], "first");
    // Now it reads, and waits.
    let mut lines = Jobs::of(slow.try_clone().expect("cloned"));
    assert_eq!((lines.line().as_str(), lines.line().as_str()), ("WATCHING 2", "WATCHING 1"));
    for _ in 0..looked {
        assert_eq!(lines.line(), format!("FOUND {job} {JOB_BYTES}"));
        lines.text(JOB_BYTES);
    }
    eventually("it waits", || (figure(&mut jobs, "current-waiting") == 1).then_some(()));
    assert_eq!(post(port, "work", "second").0, 200);
    let reserved = lines.line();
    assert!(reserved.starts_with("RESERVED ") && lines.text(6) == "second\r\n", "{reserved}");
    slow.write_all(b"quit\r\n").expect("sent");
    eventually("it is given back", || {
        let (_, told) = ask(port, "GET", "work", "");
        (told["leased"] == 1 && told["ready"] == 1).then_some(())
    });
    assert_eq!(count(port, "messages"), 3);
    finish(site);
}
