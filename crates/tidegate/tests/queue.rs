//! `queue_api`: consumers that wait, leave or crash, and a server that does.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{PATIENCE, Site, connect, eventually};

const SERVER: &str = "location / { return 200 ok; } location /q/ { queue_api; queue_wait_max 5m; }";

fn started(main: &str) -> Site {
    let mut site = Site::new(main, SERVER);
    site.start();
    site
}

/// Sends a request on a connection of its own.
fn send(port: u16, method: &str, path: &str, body: &str) -> TcpStream {
    let mut client = connect(port).expect("the server accepts");
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let length = body.len();
    write!(client, "{method} /q/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
    client
}

/// Reads a response: its status and its body.
fn answer(client: TcpStream) -> (u16, Value) {
    let mut reader = BufReader::new(client);
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).expect("a head") > 0, "closed without an answer");
        let line = line.trim_end();
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().expect("a status");
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.parse().expect("a length");
        } else if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn ask(port: u16, method: &str, path: &str, body: &str) -> (u16, Value) {
    answer(send(port, method, path, body))
}

fn post(port: u16, path: &str, body: &str) -> (u16, Value) {
    ask(port, "POST", path, body)
}

/// The body and the receipt of the only message of an answer.
fn only((status, answer): (u16, Value)) -> (String, String) {
    assert_eq!(status, 200, "{answer}");
    let messages = answer["messages"].as_array().expect("messages");
    assert_eq!(messages.len(), 1, "{answer}");
    let text = |name: &str| messages[0][name].as_str().expect("text").to_owned();
    (text("body"), text("receipt"))
}

fn waiting(port: u16, queue: &str) -> u64 {
    ask(port, "GET", queue, "").1["waiting_consumers"].as_u64().expect("a number")
}

/// Ends the server, whose log must not speak of a panic.
fn finish(mut site: Site) {
    site.quit();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[crit]") && !log.contains("[error]"), "{log}");
}

#[test]
fn consumers_wait_in_line_whichever_worker_has_them() {
    let site = started("worker_processes 2;");
    let port = site.port;
    let mut consumers = Vec::new();
    for count in 1..=50 {
        consumers.push(send(port, "POST", "jobs/pull?wait=5m&lease=5m", ""));
        eventually("the consumer waits", || (waiting(port, "jobs") == count).then_some(()));
    }
    // One leaves: nobody's message is lost by that.
    drop(consumers.remove(20));
    eventually("it has left", || (waiting(port, "jobs") == 49).then_some(()));
    for number in 0..49 {
        let (status, _) = post(port, "jobs", &format!("message {number}"));
        assert_eq!(status, 200);
        let (body, receipt) = only(answer(consumers.remove(0)));
        assert_eq!(body, format!("message {number}"));
        assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), ""), (200, json!({"settled": 1})));
    }
    let (_, statistics) = ask(port, "GET", "jobs", "");
    assert_eq!((&statistics["ready"], &statistics["leased"]), (&json!(0), &json!(0)));
    finish(site);
}

#[test]
fn many_publishers_and_consumers_share_the_work_and_nothing_comes_twice() {
    let site = started("worker_processes 2;");
    let port = site.port;
    const EACH: usize = 20;
    const CLIENTS: usize = 25;
    let received: Vec<String> = std::thread::scope(|scope| {
        for publisher in 0..CLIENTS {
            scope.spawn(move || {
                for number in 0..EACH {
                    assert_eq!(post(port, "work", &format!("{publisher}-{number}")).0, 200);
                }
            });
        }
        let consume = || {
            let mut received = Vec::new();
            for _ in 0..EACH {
                let (body, receipt) = only(post(port, "work/pull?wait=5m&lease=5m", ""));
                assert_eq!(post(port, &format!("work/ack?receipt={receipt}"), "").0, 200);
                received.push(body);
            }
            received
        };
        let consumers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(consume)).collect();
        consumers.into_iter().flat_map(|consumer| consumer.join().expect("no panic")).collect()
    });
    let distinct: BTreeSet<&String> = received.iter().collect();
    assert_eq!((received.len(), distinct.len()), (CLIENTS * EACH, CLIENTS * EACH));
    assert_eq!(post(port, "work/pull", "").0, 204);
    finish(site);
}

#[test]
fn what_was_published_survives_a_crash_and_what_was_acknowledged_does_not_come_again() {
    let mut site = started("");
    let port = site.port;
    for number in 0..10 {
        assert_eq!(post(port, "jobs", &number.to_string()).0, 200);
    }
    let (_, done) = only(post(port, "jobs/pull?lease=5m", ""));
    let (body, held) = only(post(port, "jobs/pull?lease=5m", ""));
    assert_eq!(post(port, &format!("jobs/ack?receipt={done}"), "").0, 200);
    site.kill();
    site.start();
    // The consumer of the second has never heard of the crash.
    let (status, told) = post(port, &format!("jobs/ack?receipt={held}"), "");
    assert_eq!((status, told), (410, json!({"settled": 0, "over": [held]})));
    let (_, pulled) = post(port, "jobs/pull?max=100", "");
    let bodies: Vec<&str> =
        pulled["messages"].as_array().expect("messages").iter().filter_map(|m| m["body"].as_str()).collect();
    assert_eq!((body.as_str(), bodies), ("1", vec!["1", "2", "3", "4", "5", "6", "7", "8", "9"]));
    finish(site);
}

#[test]
fn a_message_that_nobody_settles_goes_to_the_next_consumer_by_itself() {
    let site = started("worker_processes 2;");
    let port = site.port;
    assert_eq!(post(port, "jobs", "a").0, 200);
    let (_, receipt) = only(post(port, "jobs/pull?lease=1ms", ""));
    let (status, second) = post(port, "jobs/pull?wait=5m&lease=5m", "");
    assert_eq!((status, &second["messages"][0]["attempts"]), (200, &json!(1)));
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "").0, 410);
    // One whose time comes wakes those who wait, be it a delay or a failure.
    let receipt = second["messages"][0]["receipt"].as_str().expect("a receipt");
    assert_eq!(post(port, &format!("jobs/refuse?receipt={receipt}&delay=1ms"), "broken").0, 200);
    let (_, receipt) = only(post(port, "jobs/pull?wait=5m&lease=5m", ""));
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "").0, 200);
    assert_eq!(post(port, "jobs?delay=5ms", "late").0, 200);
    assert_eq!(only(post(port, "jobs/pull?wait=5m&lease=5m", "")).0, "late");
    // One that expires is not to be had.
    assert_eq!(post(port, "other?ttl=1ms", "too late").0, 200);
    eventually("it is gone", || {
        let statistics = ask(port, "GET", "other", "").1;
        (statistics["ready"] == 0).then_some(())
    });
    assert_eq!(post(port, "other/pull", "").0, 204);
    finish(site);
}

#[test]
fn consumers_wait_on_over_a_reload_and_leases_hold() {
    let mut site = started("worker_processes 2;");
    let port = site.port;
    assert_eq!(post(port, "jobs", "first").0, 200);
    let (_, held) = only(post(port, "jobs/pull?lease=5m", ""));
    let waits = send(port, "POST", "jobs/pull?wait=5m", "");
    eventually("the consumer waits", || (waiting(port, "jobs") == 1).then_some(()));
    site.configure("worker_processes 2;", &SERVER.replace("200 ok", "200 anew"));
    site.signal(Signal::SIGHUP);
    eventually("new workers serve", || site.get().ends_with("anew").then_some(()));
    assert_eq!(post(port, "jobs", "second").0, 200);
    assert_eq!(only(answer(waits)).0, "second");
    assert_eq!(post(port, &format!("jobs/ack?receipt={held}"), "").0, 200);
    site.quit();
}
