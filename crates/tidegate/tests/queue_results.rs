//! Results of messages: kept for their publishers, who may wait for them.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};
use support::queues::{ask, configure, count, finish, post, send, started, text, try_count, whole};
use support::{connect, eventually};

/// Nothing that opens the queues.
const NO_QUEUES: &str = "location / { return 200 ok; }";

const QUEUES: &str = r#"
    location / { queue_api; queue_wait_max 5m; queue_message_size_max 1k; }
    location = /lua {
        content_by_lua_block {
            local queue = require "tidegate.queue"
            local told = {}
            local function tell(...)
                told[#told + 1] = tostring((...)) .. "," .. tostring((select(2, ...)))
            end
            local id = assert(queue.publish("lua", "question", { result = 60 }))
            tell(queue.result("lua", id))
            local message = queue.pull("lua")[1]
            tell(message:ack("an\0swer"))
            tell(message:ack("again"))
            tell(queue.result("lua", id, { wait = 10 }) == "an\0swer")
            tell(queue.result("lua", id + 1))
            tell(pcall(queue.publish, "lua", "x", { result = -1 }))
            ngx.print(require("cjson").encode(told))
        }
    }
"#;

fn published(port: u16, path: &str, body: &str) -> u64 {
    let (status, told) = post(port, path, body);
    assert_eq!(status, 200, "{told}");
    told["id"].as_u64().expect("a number")
}

/// Pulls a message: its number and its receipt.
fn pulled(port: u16, queue: &str) -> (u64, String) {
    let (status, told) = post(port, &format!("{queue}/pull?wait=5m&lease=5m"), "");
    assert_eq!(status, 200, "{told}");
    let message = &told["messages"][0];
    (message["id"].as_u64().expect("a number"), message["receipt"].as_str().expect("a receipt").to_owned())
}

fn result(port: u16, id: u64) -> (u16, String) {
    text(send(port, "GET", &format!("jobs/results/{id}"), ""))
}

#[test]
fn publishers_wait_for_the_answer_whichever_worker_they_are_connected_to() {
    let site = started("", QUEUES);
    let port = site.port;
    let clients: Vec<TcpStream> = (0..20).map(|n| send(port, "POST", "jobs?wait=5m", &n.to_string())).collect();
    // One leaves: its message goes on, and nobody minds.
    let mut clients = clients.into_iter();
    let left = clients.next().expect("a client");
    eventually("all are stored", || (try_count(port, "messages") == Some(20)).then_some(()));
    left.shutdown(Shutdown::Both).expect("shut");
    drop(left);
    for _ in 0..20 {
        let (id, receipt) = pulled(port, "jobs");
        assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), &format!("answer {id}")).0, 200);
    }
    for client in clients {
        let (status, head, body) = whole(client);
        let id = body.strip_prefix("answer ").expect("an answer");
        let has = |field: &str| head.lines().any(|line| line == field);
        assert!(status == 200 && has(&format!("Queue-Message: {id}")), "{head}");
        assert!(has("Content-Type: application/octet-stream"), "{head}");
    }
    // Several may wait for the same, also while the message fails.
    let id = published(port, "jobs?result=1h", "work");
    let path = format!("jobs/results/{id}?wait=5m");
    let clients: Vec<TcpStream> = (0..8).map(|_| send(port, "GET", &path, "")).collect();
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/refuse?receipt={receipt}"), "not yet").0, 200);
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "").0, 200);
    for client in clients {
        assert_eq!(text(client), (200, String::new()), "an empty result");
    }
    finish(site);
}

#[test]
fn what_is_not_done_is_told_at_the_end_of_the_time() {
    let site = started("", QUEUES);
    let port = site.port;
    let (status, told) = post(port, "jobs?wait=1ms", "slow");
    let id = told["id"].as_u64().expect("a number");
    assert_eq!((status, told), (202, json!({"id": id, "state": "waiting"})));
    assert_eq!(result(port, id).0, 202);
    // It dies while somebody waits.
    assert_eq!(ask(port, "PATCH", "jobs?attempts_max=1", "").0, 200);
    let waits = send(port, "GET", &format!("jobs/results/{id}?wait=5m"), "");
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/refuse?receipt={receipt}"), "broken").0, 200);
    assert_eq!(text(waits).0, 410);
    // It is deleted while somebody waits.
    let id = published(port, "jobs?result=1h", "purged");
    let waits = send(port, "GET", &format!("jobs/results/{id}?wait=5m"), "");
    assert_eq!(ask(port, "DELETE", "jobs", "").0, 200);
    assert_eq!(text(waits).0, 404);
    // It expires.
    assert_eq!(post(port, "jobs?ttl=1ms&wait=5m", "short-lived").0, 404);
    // Nobody has asked for its result.
    let id = published(port, "jobs", "plain");
    assert_eq!(result(port, id).0, 404);
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "for nobody").0, 200);
    assert_eq!((result(port, id).0, count(port, "results")), (404, 0));
    finish(site);
}

#[test]
fn results_survive_a_crash_and_are_deleted_when_their_time_is_over() {
    let mut site = started("", QUEUES);
    let port = site.port;
    let long = published(port, "jobs?result=1h", "long");
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "kept").0, 200);
    let waits = published(port, "jobs?result=1h", "not done");
    site.kill();
    site.start();
    assert_eq!(result(port, long), (200, "kept".to_owned()));
    assert_eq!(text(send(port, "GET", &format!("other/results/{long}"), "")).0, 404, "it is another queue's");
    let (id, receipt) = pulled(port, "jobs");
    assert_eq!(id, waits);
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "done later").0, 200);
    assert_eq!(result(port, waits), (200, "done later".to_owned()));
    let short = published(port, "jobs?result=1ms", "short");
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "gone").0, 200);
    eventually("it is not to be had", || (result(port, short).0 == 404).then_some(()));
    eventually("it is deleted", || {
        // Any message whose time comes has the keeper look.
        assert_eq!(post(port, "other?delay=1ms", "x").0, 200);
        (count(port, "results") == 2).then_some(())
    });
    finish(site);
}

#[test]
fn what_cannot_be_a_result_is_refused_and_the_message_stays() {
    let site = started("", QUEUES);
    let port = site.port;
    let id = published(port, "jobs?result=1h", "a");
    published(port, "jobs?result=1h", "b");
    let (_, first) = pulled(port, "jobs");
    let (_, second) = pulled(port, "jobs");
    let ack = format!("jobs/ack?receipt={first}");
    assert_eq!(post(port, &format!("{ack}&receipt={second}"), "whose?").0, 400);
    assert_eq!(post(port, &ack, &"x".repeat(1025)).0, 413);
    // A body that is cut is no result.
    let mut cut = connect(port).expect("the server accepts");
    write!(cut, "POST /{ack} HTTP/1.0\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf").expect("sent");
    cut.shutdown(Shutdown::Write).expect("shut");
    let _ = cut.read_to_end(&mut Vec::new());
    assert_eq!((result(port, id).0, count(port, "results"), count(port, "messages")), (202, 0, 2));
    assert_eq!(post(port, &ack, &"x".repeat(1024)).0, 200);
    assert_eq!(result(port, id), (200, "x".repeat(1024)));
    assert_eq!(post(port, &ack, "twice").0, 410);
    assert_eq!(result(port, id), (200, "x".repeat(1024)));
    for (method, path, status) in [
        ("GET", "jobs/results/", 400),
        ("GET", "jobs/results/x", 400),
        ("GET", "jobs/results/-1", 400),
        ("GET", "jobs/results/99999999999999999999", 400),
        ("GET", "jobs/results/18446744073709551615", 404),
        ("GET", "jobs/results/999", 404),
        ("GET", "jobs/results/1?color=red", 400),
        ("GET", "jobs/results/1?wait=x", 400),
        ("POST", "jobs/results/1", 405),
        ("POST", "jobs?result=x", 400),
        ("POST", "jobs?result=101y", 400),
        ("POST", "jobs?wait=x", 400),
        ("POST", "jobs/batch?wait=1", 400),
    ] {
        assert_eq!(ask(port, method, path, "").0, status, "{method} {path}");
    }
    finish(site);
}

#[test]
fn scripts_ask_for_results_and_subscribers_leave_theirs_alone() {
    let site = started("", QUEUES);
    let port = site.port;
    let told = post(port, "lua", "").1;
    let expected = ["nil,waiting", "1,nil", "0,nil", "true,nil", "nil,unknown"];
    let told: Vec<&str> = told.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(told[..5], expected);
    assert!(told[5].starts_with("false,") && told[5].contains("bad option \"result\""), "{told:?}");
    // The copy of a subscriber is a message of its own.
    assert_eq!(post(port, "jobs/subscriptions?name=audit", "").0, 200);
    let id = published(port, "jobs?result=1h", "for both");
    let (copy, receipt) = pulled(port, "jobs@audit");
    assert_eq!(post(port, &format!("jobs@audit/ack?receipt={receipt}"), "seen").0, 200);
    assert_eq!((result(port, copy).0, result(port, id).0), (404, 202));
    let (_, receipt) = pulled(port, "jobs");
    assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "done").0, 200);
    assert_eq!(result(port, id), (200, "done".to_owned()));
    // Where only subscribers get messages, the first of them answers.
    assert_eq!(ask(port, "PATCH", "jobs?subscribers_only=true", "").0, 200);
    let id = published(port, "jobs?result=1h", "for one");
    let (_, receipt) = pulled(port, "jobs@audit");
    assert_eq!(post(port, &format!("jobs@audit/ack?receipt={receipt}"), "by audit").0, 200);
    assert_eq!(result(port, id), (200, "by audit".to_owned()));
    finish(site);
}

#[test]
fn tables_of_the_version_before_get_what_results_need() {
    for with_subscribers in [false, true] {
        let mut site = started("", NO_QUEUES);
        let port = site.port;
        let name = "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL";
        let more = if with_subscribers { ", subscribers_only TINYINT UNSIGNED NOT NULL DEFAULT 0" } else { "" };
        for statement in [
            "DROP TABLE messages, queues, results",
            &*format!(
                "CREATE TABLE messages (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, queue {name},
                 state TINYINT UNSIGNED NOT NULL DEFAULT 0, priority INT UNSIGNED NOT NULL DEFAULT 1024,
                 published_ms BIGINT UNSIGNED NOT NULL, due_ms BIGINT UNSIGNED NULL, expires_ms BIGINT UNSIGNED NULL,
                 attempts INT UNSIGNED NOT NULL DEFAULT 0, reason VARCHAR(1000) NULL, unique_key VARBINARY(200) NULL,
                 lease_ms BIGINT UNSIGNED NULL, releases INT UNSIGNED NOT NULL DEFAULT 0,
                 burials INT UNSIGNED NOT NULL DEFAULT 0, kicks INT UNSIGNED NOT NULL DEFAULT 0, headers LONGTEXT NULL,
                 body LONGBLOB NOT NULL, KEY next (queue, state, priority, id), KEY due (due_ms),
                 KEY expires (expires_ms), UNIQUE KEY unique_key (queue, unique_key))"
            ),
            &*format!(
                "CREATE TABLE queues (name {name} PRIMARY KEY, attempts_max INT UNSIGNED NOT NULL DEFAULT 0,
                 is_paused TINYINT UNSIGNED NOT NULL DEFAULT 0{more})"
            ),
            "INSERT INTO messages (queue, published_ms, body) VALUES ('jobs', 1, 'old')",
        ] {
            let (_, told) = post(port, "sql", statement);
            assert!(told.is_object(), "{statement}: {told}");
        }
        configure(&site, "", QUEUES);
        site.quit();
        site.start();
        let new = published(port, "jobs?result=1h", "new");
        let (old, receipt) = pulled(port, "jobs");
        assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "for nobody").0, 200);
        let (_, receipt) = pulled(port, "jobs");
        assert_eq!(post(port, &format!("jobs/ack?receipt={receipt}"), "for me").0, 200);
        assert_eq!((result(port, old).0, result(port, new)), (404, (200, "for me".to_owned())));
        finish(site);
    }
}
