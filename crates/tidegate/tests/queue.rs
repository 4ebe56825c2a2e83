//! `queue_api`: consumers that wait, leave or crash, and a server that does.

mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::queues::{self, answer, finish};
use support::{Site, connect, eventually, get};

const SERVER: &str = r#"
    location / { return 200 ok; }
    location /q/ { queue_api; queue_wait_max 5m; }
    location = /q/sql {
        content_by_lua_block {
            ngx.req.read_body()
            local sql = require("tidegate.sql").schema("tidegate_queue")
            local done, message = sql:query(ngx.req.get_body_data())
            local text = require("cjson").encode(done or message)
            ngx.header.content_length = #text
            ngx.print(text)
        }
    }
"#;

fn started(main: &str) -> Site {
    let mut site = Site::new(main, SERVER);
    site.start();
    site
}

/// Sends a request to where the queues are.
fn send(port: u16, method: &str, path: &str, body: &str) -> TcpStream {
    queues::send(port, method, &format!("q/{path}"), body)
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
fn a_pull_gets_as_many_messages_as_it_asks_for() {
    let site = started("");
    let port = site.port;
    let batch = json!((0..300).map(|number| json!({"body": number.to_string()})).collect::<Vec<_>>());
    assert_eq!(post(port, "jobs/batch", &batch.to_string()).0, 200);
    let mut came = 0;
    for (max, expected) in [(100, 100), (7, 7), (100, 100), (100, 93)] {
        let (_, pulled) = post(port, &format!("jobs/pull?max={max}&lease=5m"), "");
        let bodies: Vec<&str> =
            pulled["messages"].as_array().expect("messages").iter().filter_map(|m| m["body"].as_str()).collect();
        let numbers: Vec<String> = (came..came + expected).map(|number| number.to_string()).collect();
        assert_eq!(bodies, numbers);
        came += expected;
    }
    assert_eq!(post(port, "jobs/pull?max=100", "").0, 204);
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
fn a_message_whose_time_comes_as_its_consumer_s_ends_is_given() {
    let site = started("worker_processes 2;");
    for wait in 1..=10 {
        let time = format!("{}ms", 20 * wait);
        let (status, _) = post(site.port, &format!("later?delay={time}"), "x");
        assert_eq!(status, 200);
        // It waits from now on, so that the message is due when its time is over.
        let (body, receipt) = only(post(site.port, &format!("later/pull?wait={time}&lease=1m"), ""));
        assert_eq!(body, "x");
        assert_eq!(post(site.port, &format!("later/ack?receipt={receipt}"), "").0, 200);
    }
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

#[test]
fn settings_that_sql_has_changed_are_noticed() {
    let mut site = started("worker_processes 2;");
    let port = site.port;
    assert_eq!(post(port, "jobs", "first").0, 200);
    assert_eq!(ask(port, "GET", "jobs", "").1["paused"], false);
    let paused = |value: bool| {
        eventually("the pause is noticed", || (ask(port, "GET", "jobs", "").1["paused"] == value).then_some(()))
    };
    assert_eq!(post(port, "sql", "INSERT INTO queues (name, attempts_max, is_paused) VALUES ('jobs', 1, 1)").0, 200);
    paused(true);
    assert_eq!(post(port, "jobs/pull", "").0, 204);
    let waits = send(port, "POST", "jobs/pull?wait=5m&lease=5m", "");
    eventually("the consumer waits", || (waiting(port, "jobs") == 1).then_some(()));
    assert_eq!(post(port, "sql", "UPDATE queues SET is_paused = 0").0, 200);
    let (_, receipt) = only(answer(waits));
    assert_eq!(post(port, &format!("jobs/refuse?receipt={receipt}"), "").0, 200);
    assert_eq!(ask(port, "GET", "jobs", "").1["dead"], 1, "one attempt, as SQL has said");
    // The same behind a schema that was dropped: it is made anew, and heard of.
    assert_eq!(post(port, "sql", "DROP DATABASE tidegate_queue").0, 200);
    eventually("there are tables", || (post(port, "jobs", "second").0 == 200).then_some(()));
    eventually("settings are heard of", || {
        post(port, "sql", "REPLACE INTO queues (name, is_paused) VALUES ('jobs', 1)");
        (ask(port, "GET", "jobs", "").1["paused"] == true).then_some(())
    });
    // Requests that have met no schema were refused, and the log says so.
    site.quit();
}

#[test]
fn a_message_whose_time_is_over_while_somebody_has_it_is_deleted_when_it_is_given_back() {
    let site = started("worker_processes 2;");
    let port = site.port;
    assert_eq!(post(port, "jobs?ttl=1h", "a").0, 200);
    let (_, receipt) = only(post(port, "jobs/pull?lease=5m", ""));
    assert_eq!(post(port, "sql", "UPDATE messages SET expires_ms = 1").0, 200);
    assert_eq!(post(port, &format!("jobs/refuse?receipt={receipt}"), "").0, 200);
    eventually("the row is gone", || {
        (post(port, "sql", "SELECT COUNT(*) AS n FROM messages").1 == json!([{"n": 0}])).then_some(())
    });
    finish(site);
}

#[test]
fn dead_messages_are_sent_again_and_deleted_by_their_numbers() {
    let site = started("worker_processes 2;");
    let port = site.port;
    let die = |queue: &str, parameters: &str| {
        let (status, stored) = post(port, &format!("{queue}{parameters}"), "a");
        assert_eq!(status, 200, "{stored}");
        let (_, receipt) = only(post(port, &format!("{queue}/pull?lease=5m"), ""));
        assert_eq!(post(port, &format!("{queue}/refuse?receipt={receipt}"), "").0, 200);
        stored["id"].as_u64().expect("a number")
    };
    for queue in ["jobs", "other"] {
        assert_eq!(ask(port, "PATCH", &format!("{queue}?attempts_max=1"), "").0, 200);
    }
    let key = "?ordering_key=k";
    let mine = ["", "", key, key, ""].map(|parameters| die("jobs", parameters));
    let others = die("other", "");
    let [first, second, third, fourth, fifth] = mine;
    // Those of another queue are not meant, nor those that there are not.
    let resend = format!("jobs/dead/resend?id={third}&id={first}&id={third}&id={others}&id=999");
    assert_eq!(post(port, &resend, ""), (200, json!({"resent": 2})));
    // One that waits is not dead.
    let delete = format!("jobs/dead?id={fourth}&id={second}&id={first}&id={others}");
    assert_eq!(ask(port, "DELETE", &delete, ""), (200, json!({"deleted": 2})));
    let (_, told) = ask(port, "GET", "jobs", "");
    assert_eq!((&told["ready"], &told["dead"]), (&json!(2), &json!(1)), "{told}");
    assert_eq!(ask(port, "GET", "other", "").1["dead"], 1);
    let (_, pulled) = post(port, "jobs/pull?max=10&lease=5m", "");
    let ids: Vec<_> = pulled["messages"].as_array().expect("messages").iter().map(|one| one["id"].as_u64()).collect();
    assert_eq!(ids, [Some(first), Some(third)]);
    for wrong in ["id=", "id=x", "id=-1", "id=18446744073709551616", "max=1"] {
        assert_eq!(post(port, &format!("jobs/dead/resend?{wrong}"), "").0, 400, "{wrong}");
        assert_eq!(ask(port, "DELETE", &format!("jobs/dead?{wrong}"), "").0, 400, "{wrong}");
    }
    let many = "id=1&".repeat(1001);
    assert_eq!(ask(port, "DELETE", &format!("jobs/dead?{many}"), "").0, 400);
    assert_eq!(ask(port, "GET", "jobs/dead", "").1["messages"][0]["id"], fifth);
    assert_eq!(ask(port, "DELETE", "jobs/dead", ""), (200, json!({"deleted": 1})));
    finish(site);
}

#[test]
fn an_answer_ends_behind_eight_megabytes_and_the_rest_waits() {
    let site = started("worker_processes 2;");
    let port = site.port;
    assert_eq!(ask(port, "PATCH", "jobs?attempts_max=1", "").0, 200);
    let large = "a".repeat(1 << 20);
    (0..20).for_each(|_| assert_eq!(post(port, "jobs", &large).0, 200));
    let refuse = |pulled: &Value| {
        let messages = pulled["messages"].as_array().expect("messages");
        assert_eq!(messages.len(), 8);
        let receipts: Vec<_> =
            messages.iter().filter_map(|one| Some(format!("receipt={}", one["receipt"].as_str()?))).collect();
        let path = format!("jobs/refuse?{}", receipts.join("&"));
        assert_eq!(post(port, &path, "too large").1, json!({"settled": 8}));
    };
    (0..2).for_each(|_| refuse(&post(port, "jobs/pull?max=100&lease=5m", "").1));
    assert_eq!(post(port, "jobs/pull?max=100&lease=5m", "").1["messages"].as_array().map(Vec::len), Some(4));
    // So does one that shows dead messages.
    let (_, dead) = ask(port, "GET", "jobs/dead?max=256", "");
    let dead = dead["messages"].as_array().expect("messages");
    assert_eq!(dead.len(), 8);
    assert!(dead.iter().all(|one| one["reason"] == "too large" && one["body"] == large));
    finish(site);
}

#[test]
fn headers_count_for_the_bytes_of_an_answer() {
    let site = started("worker_processes 2;");
    let port = site.port;
    let message = json!([{"body": "", "headers": {"large": "a".repeat(1_000_000)}}]).to_string();
    (0..20).for_each(|_| assert_eq!(post(port, "jobs/batch", &message).0, 200));
    let pulled = || post(port, "jobs/pull?max=100&lease=5m", "").1["messages"].as_array().map(Vec::len);
    assert_eq!((pulled(), pulled()), (Some(16), Some(4)));
    finish(site);
}

/// A flag that is set when this goes.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Posts to a worker that may end before it answers, or before it reads.
fn post_to_who_may_end(port: u16, path: &str, body: &str) {
    let Ok(mut client) = connect(port) else { return };
    let length = body.len();
    let head = format!("POST /q/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = client.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
    let _ = client.read_to_end(&mut Vec::new());
}

#[test]
fn workers_that_end_amid_commits_leave_no_message_unseen() {
    const MAIN: &str = "worker_processes 2; worker_shutdown_timeout 1ms;";
    let mut site = started(MAIN);
    let port = site.port;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let (path, body) =
                        if number % 2 == 0 { ("jobs", "a") } else { ("jobs/batch", r#"[{"body":"a"},{"body":"b"}]"#) };
                    post_to_who_may_end(port, path, body);
                }
            });
        }
        // Also when something below fails.
        let _ending = Raised(&is_over);
        for round in 0..10 {
            site.configure(MAIN, &SERVER.replace("200 ok", &format!("200 round{round}")));
            site.signal(Signal::SIGHUP);
            let has_come = |answer: String| answer.ends_with(&format!("round{round}")).then_some(());
            eventually("new workers serve", || get(port, "/").ok().and_then(has_come));
            // Somebody looks while others commit.
            post_to_who_may_end(port, "jobs/pull?lease=1h", "");
        }
    });
    // Each row is with a consumer by now, or to be had.
    eventually("all messages are seen", || {
        while post(port, "jobs/pull?lease=1h&max=100", "").0 == 200 {}
        let (_, rows) = post(port, "sql", "SELECT COUNT(*) AS n FROM messages");
        let stored = rows[0]["n"].as_u64().expect("a number");
        let told = ask(port, "GET", "jobs", "").1;
        let leased = told["leased"].as_u64().expect("a number");
        // Nor is any counted that is not there.
        (stored > 10 && stored == leased && told["ready"] == 0).then_some(())
    });
    site.quit();
}

/// A site with a schema whose outbox is looked after. `buy?name=` stores an order and publishes it, together.
fn shop() -> Site {
    const ORDERS: &str = r#"
        location = /q/buy {
            content_by_lua_block {
                local name, fails = ngx.var.arg_name, ngx.var.arg_fails
                local shop = require("tidegate.sql").schema("shop")
                local done, message = shop:transaction(function(tx)
                    assert(tx:exec("INSERT INTO orders VALUES (?)", name))
                    assert(tx:exec("INSERT INTO tidegate_outbox (queue, body) VALUES ('orders', ?)", name))
                    if fails then return nil, "rolled back" end
                end)
                local text = require("cjson").encode(done or message)
                ngx.header.content_length = #text
                ngx.print(text)
            }
        }
        location = /q/shop {
            content_by_lua_block {
                ngx.req.read_body()
                local done, message = require("tidegate.sql").schema("shop"):query(ngx.req.get_body_data())
                local text = require("cjson").encode(done or message)
                ngx.header.content_length = #text
                ngx.print(text)
            }
        }
    "#;
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{}}
         database {{ schema shop; }}
         http {{ queue_outbox shop; server {{ listen 127.0.0.1:{port}; {SERVER} {ORDERS} }} }}"
    ));
    site.start();
    let create = "CREATE TABLE IF NOT EXISTS orders (name VARCHAR(50) PRIMARY KEY)";
    assert!(post(port, "shop", create).1.is_object());
    site
}

#[test]
fn what_sql_publishes_comes_with_its_transaction_or_not_at_all() {
    let site = shop();
    let port = site.port;
    let waits = send(port, "POST", "orders/pull?wait=5m", "");
    eventually("the consumer waits", || (waiting(port, "orders") == 1).then_some(()));
    assert_eq!(post(port, "buy?name=undone&fails=1", "").1, "rolled back");
    assert_eq!(post(port, "buy?name=done", "").1, true);
    assert_eq!(only(answer(waits)).0, "done");
    // All that a message can have.
    let row = "INSERT INTO tidegate_outbox (queue, body, priority, delay_ms, ttl_ms, unique_key, headers)
               VALUES ('full', X'00ff', 7, 1, 3600000, 'k', '{\"type\":\"x\"}'), ('full', 'again', 7, 0, NULL, 'k', NULL)";
    assert_eq!(post(port, "shop", row).0, 200);
    let (_, pulled) = post(port, "full/pull?wait=5m&max=10", "");
    let message = &pulled["messages"][0];
    assert_eq!(pulled["messages"].as_array().map(Vec::len), Some(1), "{pulled}");
    let expected = (&json!("AP8="), &json!(7), &json!({"type": "x"}));
    assert_eq!((&message["base64"], &message["priority"], &message["headers"]), expected);
    eventually("the outbox is empty", || {
        (post(port, "shop", "SELECT COUNT(*) AS n FROM tidegate_outbox").1 == json!([{"n": 0}])).then_some(())
    });
    // Large ones follow each other, in more steps than one.
    let large = "INSERT INTO tidegate_outbox (queue, body) VALUES ('large', REPEAT('a', 5000000)), ('large', REPEAT('b', 5000000)), \
                 ('large', REPEAT('c', 5000000)), ('large', 'd')";
    post(port, "shop", large);
    for (letter, length) in [("a", 5_000_000), ("b", 5_000_000), ("c", 5_000_000), ("d", 1)] {
        assert_eq!(only(post(port, "large/pull?wait=5m&lease=5m", "")).0, letter.repeat(length));
    }
    // What no message can be is an error of the statement.
    for values in ["('a/b', '', NULL)", "('', '', NULL)", "('a', '', '{')", "('a', NULL, NULL)"] {
        let (_, told) =
            post(port, "shop", &format!("INSERT INTO tidegate_outbox (queue, body, headers) VALUES {values}"));
        assert!(told.is_string(), "{values}: {told}");
    }
    // JSON, but no object of strings: nothing is lost, and the next one is not held up.
    let rows = "INSERT INTO tidegate_outbox (queue, body, headers) VALUES ('odd', 'odd', '[1]'), ('odd', 'next', NULL)";
    post(port, "shop", rows);
    assert_eq!(only(post(port, "odd/pull?wait=5m", "")).0, "next");
    assert_eq!(only(post(port, "tidegate.outbox.refused/pull?wait=5m", "")).0, "odd");
    let mut site = site;
    site.quit();
}

#[test]
fn a_crash_neither_loses_nor_doubles_what_sql_has_published() {
    let mut site = shop();
    let port = site.port;
    for round in 0..5 {
        let answered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let answered = &answered;
                scope.spawn(move || {
                    for number in 0.. {
                        let Ok(mut stream) = connect(port) else { return };
                        let path = format!("/q/buy?name={round}-{client}-{number}");
                        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                        let mut told = String::new();
                        if stream.read_to_string(&mut told).is_err() || !told.ends_with("true") {
                            return;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            eventually("some were stored", || (answered.load(Ordering::Relaxed) >= 40).then_some(()));
            site.kill();
        });
        site.start();
    }
    let (_, orders) = post(port, "shop", "SELECT name FROM orders");
    let names: BTreeSet<&str> =
        orders.as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect();
    let mut bodies = Vec::new();
    while bodies.len() < names.len() {
        let (status, pulled) = post(port, "orders/pull?wait=1m&lease=1h&max=100", "");
        assert_eq!(status, 200, "{} of {} orders have come", bodies.len(), names.len());
        let messages = pulled["messages"].as_array().expect("messages").clone();
        bodies.extend(messages.iter().filter_map(|message| message["body"].as_str().map(str::to_owned)));
    }
    eventually("the outbox is empty", || {
        (post(port, "shop", "SELECT COUNT(*) AS n FROM tidegate_outbox").1 == json!([{"n": 0}])).then_some(())
    });
    assert_eq!(post(port, "orders/pull", "").0, 204, "a message more than orders");
    assert_eq!(bodies.len(), names.len());
    assert_eq!(bodies.iter().map(String::as_str).collect::<BTreeSet<_>>(), names);
    site.quit();
}
