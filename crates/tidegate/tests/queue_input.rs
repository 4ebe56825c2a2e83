//! What queues do with what cannot be, at each door: by HTTP, nq's interface, in Lua, by SQL, by beanstalkd's protocol and on the command
//! line. Ten thousand queues, names and values of all kinds: an answer that is documented, and nothing stored by half.

mod support;

use std::io::Write;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::queues::{Jobs, SQL, send, text};
use support::{Site, binary, eventually, finish as output_of};

const LOCATIONS: &str = r#"
    location / { return 200 ok; }
    location /q/ { queue_api; }
    location /nq/ { queue_api nq schema=work; }
"#;

/// A server whose data is in this directory.
fn started(data: &str) -> Site {
    let mut site = Site::new("", "");
    configure(&site, data);
    site.start();
    site
}

fn configure(site: &Site, data: &str) {
    let port = site.port;
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}
         database {{ path {data}; schema shop; schema work; listen unix:logs/jobs.sock beanstalk; }}
         http {{ queue_outbox shop; client_max_body_size 64m; client_body_buffer_size 64m;
                 server {{ listen 127.0.0.1:{port}; server_name localhost; {SQL} {LOCATIONS} }} }}"
    ));
}

/// A server whose data is on a disk of sixteen megabytes that nobody else sees, and that goes with it. `None` where this user may not mount.
fn started_on_a_small_disk() -> Option<(Site, Child)> {
    let mounts = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let site = Site::new("", "");
    let small = site.dir.join("small");
    std::fs::create_dir(&small).expect("made");
    configure(&site, "small/data");
    let mut server = Command::new("unshare");
    server.args(["-m", "sh", "-c", "mount -t tmpfs -o size=16m none \"$1\" && shift && exec \"$@\"", "sh"]).arg(&small);
    let command = site.command();
    server.arg(command.get_program()).args(command.get_args()).args(["-g", "daemon off;"]);
    let server = server.stdin(Stdio::null()).spawn().expect("started");
    site.wait_until_serving();
    Some((site, server))
}

fn sql(port: u16, statement: &str) -> Value {
    let (status, body) = text(send(port, "POST", "sql?schema=shop", statement));
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

fn count(port: u16, statement: &str) -> u64 {
    let rows = sql(port, statement);
    rows[0]["n"].as_u64().unwrap_or_else(|| panic!("{statement}: {rows}"))
}

/// `tidegate queue`; what it said if it has failed.
fn tool(data: &std::path::Path, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    let mut command = binary();
    command.arg("queue").args(arguments).arg("--data").arg(data);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("begun");
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = output_of(child);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Ends the server, whose log must not speak of a panic.
fn finish(mut site: Site) {
    site.quit();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panicked"), "{log}");
}

const MESSAGES: &str = "SELECT COUNT(*) AS n FROM tidegate_queue.messages";

#[test]
fn what_cannot_be_published_by_sql_is_refused_or_told() {
    let site = started("data");
    let port = site.port;
    let long = "a".repeat(201);
    for values in [
        "('a/b', 'x')",
        "('a''b', 'x')",
        "('a\"b', 'x')",
        "('a\\0b', 'x')",
        "('', 'x')",
        "('a b', 'x')",
        "('a\\n', 'x')",
        &format!("('{long}', 'x')"),
        "(NULL, 'x')",
        "('jobs', NULL)",
    ] {
        let refused = sql(port, &format!("INSERT INTO tidegate_outbox (queue, body) VALUES {values}"));
        assert!(refused.is_string(), "{values}: {refused}");
    }
    for (column, value) in [
        ("priority", "'soon'"),
        ("priority", "-1"),
        ("priority", "4294967296"),
        ("delay_ms", "-1"),
        ("delay_ms", "99999999999999999"),
        ("ttl_ms", "'x'"),
        ("headers", "'no json'"),
        ("unique_key", &format!("'{long}'")),
        ("ordering_key", &format!("'{long}'")),
        ("colour", "'red'"),
    ] {
        let insert = format!("INSERT INTO tidegate_outbox (queue, body, {column}) VALUES ('jobs', 'x', {value})");
        let refused = sql(port, &insert);
        assert!(refused.is_string(), "{insert}: {refused}");
    }
    // Of several rows none.
    let some = sql(port, "INSERT INTO tidegate_outbox (queue, body) VALUES ('jobs', 'x'), ('a/b', 'x')");
    assert!(some.is_string(), "{some}");
    let stored = sql(port, "INSERT INTO tidegate_outbox (queue, body) VALUES ('jobs', 'last')");
    assert!(!stored.is_string(), "{stored}");
    eventually("it is published", || (count(port, MESSAGES) == 1).then_some(()));
    finish(site);
}

#[test]
fn what_is_no_command_or_message_is_refused_by_the_other_doors() {
    let site = started("data");
    let port = site.port;
    let mut jobs = Jobs::connect(&site);
    let long = "a".repeat(201);
    for (command, expected) in [
        ("use a\"b\r\n".to_owned(), "BAD_FORMAT"),
        ("use a\0b\r\n".to_owned(), "BAD_FORMAT"),
        (format!("use {long}\r\n"), "BAD_FORMAT"),
        ("use -a\r\n".to_owned(), "BAD_FORMAT"),
        ("put -1 0 60 1\r\n".to_owned(), "BAD_FORMAT"),
        ("put 4294967296 0 60 1\r\n".to_owned(), "BAD_FORMAT"),
        ("put 0 0 60\r\n".to_owned(), "BAD_FORMAT"),
        ("put 0 0 60 x\r\n".to_owned(), "BAD_FORMAT"),
        ("publish a\r\n".to_owned(), "UNKNOWN_COMMAND"),
        (format!("put 0 0 60 65536\r\n{}\r\n", "a".repeat(65536)), "JOB_TOO_BIG"),
        ("put 0 0 60 1\r\nab\r\n".to_owned(), "EXPECTED_CRLF"),
    ] {
        let mut jobs = Jobs::connect(&site);
        assert_eq!(jobs.tell(command.as_bytes()), expected, "{command:.40}");
    }
    // The protocol allows what the API does not, and the API what it allows.
    assert_eq!(jobs.tell(b"use a/b\r\n"), "USING a/b");
    for path in ["q/a/b", "q/a%27b", "q/a%00b", "q/a%22b", "q/%ff", &format!("q/{long}")] {
        let (status, said) = text(send(port, "POST", path, "x"));
        assert!(matches!(status, 400 | 404 | 405), "{path}: {status} {said}");
    }
    let data = site.dir.join("data");
    for (arguments, input, expected) in [
        (&["publish", "a/b"][..], &b"x"[..], "a queue's name has"),
        (&["publish", "a'b"], b"x", "a queue's name has"),
        (&["publish", ""], b"x", "a queue's name has"),
        (&["publish", &long], b"x", "a queue's name has"),
        (&["publish", "jobs", "--json"], b"{\"body\":\"x\",\"colour\":1}", "unknown member"),
        (&["publish", "jobs", "--json"], b"[1]", "an object"),
        (&["publish", "jobs", "--priority", "-1"], b"x", "-1"),
        (&["publish", "jobs", "--colour", "red"], b"x", "--colour"),
        (&["peek", "jobs", "--max", "none"], b"", "none"),
        (&["resend", "jobs", "x"], b"", "x"),
    ] {
        let said = tool(&data, arguments, input).expect_err("it is refused");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert_eq!(count(port, MESSAGES), 0);
    finish(site);
}

#[test]
fn ten_thousand_queues_are_as_good_as_one() {
    let site = started("data");
    let port = site.port;
    let numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
    for thousand in 0..10 {
        let insert = format!(
            "INSERT INTO tidegate_outbox (queue, body) {numbers} \
             SELECT CONCAT('queue', i + {thousand}000), CONCAT('message ', i + {thousand}000) FROM n"
        );
        let stored = sql(port, &insert);
        assert!(!stored.is_string(), "{stored}");
    }
    eventually("all are published", || (count(port, MESSAGES) == 10_000).then_some(()));
    let data = site.dir.join("data");
    assert_eq!(tool(&data, &["list"], b"").expect("a list").lines().count(), 10_001);
    let listed = {
        let mut jobs = Jobs::connect(&site);
        let head = jobs.tell(b"list-tubes\r\n");
        let length: usize = head.strip_prefix("OK ").and_then(|length| length.parse().ok()).expect("a length");
        jobs.text(length).lines().filter(|line| line.starts_with("- queue")).count()
    };
    assert_eq!(listed, 10_000);
    let page = |parameters: &str| {
        let (status, body) = text(send(port, "GET", &format!("q/{parameters}"), ""));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).expect("JSON")["queues"].as_array().expect("a list").clone()
    };
    assert_eq!((page("").len(), page("?max=1000").len()), (100, 1000));
    let last = page("?after=queue9998&max=5");
    let expected = json!([{"queue": "queue9999", "ready": 1, "leased": 0, "delayed": 0, "blocked": 0, "dead": 0}]);
    assert_eq!(Value::from(last), expected);
    assert_eq!(page("?after=r"), [Value::Null; 0]);
    for wrong in ["?max=0", "?max=1001", "?before=a"] {
        assert_eq!(text(send(port, "GET", &format!("q/{wrong}"), "")).0, 400, "{wrong}");
    }
    for number in [1, 5000, 10_000] {
        let (status, body) = text(send(port, "POST", &format!("q/queue{number}/pull?lease=5m"), ""));
        assert!(status == 200 && body.contains(&format!("\"message {number}\"")), "{body}");
        let (_, statistics) = text(send(port, "GET", &format!("q/queue{number}"), ""));
        assert!(statistics.contains("\"ready\":0,\"leased\":1,"), "{statistics}");
    }
    finish(site);
}

/// Stores something until it is refused; answers how often it was not. A small disk has room for so many.
fn until_refused(mut ask: impl FnMut() -> bool) -> u64 {
    let stored = (0..1000).take_while(|_| ask()).count();
    assert!(stored < 1000, "the disk is never full");
    stored as u64
}

#[test]
fn a_full_disk_is_told_at_each_door_and_stores_nothing_by_half() {
    /// Messages of a batch.
    const TOGETHER: u64 = 3;
    let Some((site, mut server)) = started_on_a_small_disk() else {
        eprintln!("skipped: this user may not mount");
        return;
    };
    let port = site.port;
    let large = "x".repeat(60_000);
    let single = until_refused(|| match text(send(port, "POST", "q/jobs", &large)) {
        (200, _) => true,
        (status, said) => {
            let expected = "{\"error\":\"the queue cannot be used at the moment\"}\n";
            assert_eq!((status, said.as_str()), (503, expected));
            false
        }
    });
    let batch = json!(vec![json!({ "body": large }); TOGETHER as usize]).to_string();
    let batches = until_refused(|| match text(send(port, "POST", "q/jobs/batch", &batch)).0 {
        200 => true,
        status => {
            assert_eq!(status, 503);
            false
        }
    });
    let post = json!({ "sender": "a", "messages": { "mail": [large] } }).to_string();
    let posted = until_refused(|| match text(send(port, "POST", "nq/post", &post)) {
        (200, _) => true,
        refused => {
            assert_eq!(refused, (500, r#"{"_error":"mysql error"}"#.to_owned()));
            false
        }
    });
    let mut jobs = Jobs::connect(&site);
    let put = format!("put 0 0 60 {}\r\n{large}\r\n", large.len());
    let put = until_refused(|| match jobs.tell(put.as_bytes()).as_str() {
        "INTERNAL_ERROR" => false,
        answer => {
            assert!(answer.starts_with("INSERTED "), "{answer}");
            true
        }
    });
    assert_eq!(count(port, MESSAGES), single + TOGETHER * batches + put);
    // Its tables are made with the first message.
    let mail = sql(port, "SELECT COUNT(*) AS n FROM work.mail_msg");
    assert_eq!(mail[0]["n"].as_u64().unwrap_or(0), posted, "{mail}");
    // What is deleted makes room.
    let done = |method, path, body| (text(send(port, method, path, body)).0 == 200).then_some(());
    eventually("messages are deleted", || done("DELETE", "q/jobs", ""));
    eventually("there is room again", || done("POST", "q/jobs", &large));
    let (status, pulled) = text(send(port, "POST", "q/jobs/pull", ""));
    assert!(status == 200 && pulled.contains(&large), "{status} {pulled:.200}");
    drop(jobs);
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panicked"), "{log}");
    site.signal(Signal::SIGQUIT);
    assert!(eventually("it ends", || server.try_wait().expect("our child")).success());
    site.check_gone();
}
