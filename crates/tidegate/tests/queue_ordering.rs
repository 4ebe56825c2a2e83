//! Messages of one ordering key come one at a time, in their order, whatever happens to those before them.

mod support;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::eventually;
use support::queues::{Jobs, ask, finish, post, started};

const OUTBOX: &str = "queue_outbox shop;";

const LOCATIONS: &str = r#"
    location / { queue_api; queue_wait_max 5m; }
    location = /lua {
        content_by_lua_block {
            local queue = require "tidegate.queue"
            ngx.print(require("cjson").encode({ queue.publish("mail", "4", { ordering_key = "k" }) }))
        }
    }
"#;

/// Pulls all that is to be had: bodies with their receipts.
fn pull_all(port: u16, queue: &str) -> Vec<(String, String)> {
    let (_, pulled) = post(port, &format!("{queue}/pull?max=100&lease=5m"), "");
    let text = |message: &Value, name: &str| message[name].as_str().expect("text").to_owned();
    let messages = pulled["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| (text(message, "body"), text(message, "receipt"))).collect()
}

/// Pulls the only message that is to be had; answers its receipt.
#[track_caller]
fn only(port: u16, queue: &str, body: &str) -> String {
    let pulled = pull_all(port, queue);
    assert_eq!(pulled.iter().map(|(body, _)| &**body).collect::<Vec<_>>(), [body], "{queue}");
    pulled.into_iter().next().map(|(_, receipt)| receipt).unwrap_or_default()
}

fn settle(port: u16, queue: &str, how: &str, receipt: &str) {
    assert_eq!(post(port, &format!("{queue}/{how}?receipt={receipt}"), ""), (200, json!({"settled": 1})));
}

/// What is told of a queue: ready, leased, delayed, blocked, dead. The table says the same.
#[track_caller]
fn check(port: u16, queue: &str, expected: [u64; 5]) {
    // A message may be seen before whoever has stored it says so.
    eventually("the numbers are told", || {
        let told = ask(port, "GET", queue, "").1;
        let number = |name: &str| told[name].as_u64().expect("a number");
        let told = ["ready", "leased", "delayed", "blocked", "dead"].map(number);
        (told == expected).then_some(())
    });
    let (_, rows) =
        post(port, "sql", &format!("SELECT state, COUNT(*) AS n FROM messages WHERE queue = '{queue}' GROUP BY state"));
    let rows = rows.as_array().cloned().unwrap_or_default();
    let count = |state: u64| {
        rows.iter().find(|row| row["state"] == state).map_or(0, |row| row["n"].as_u64().expect("a number"))
    };
    let [ready, leased, delayed, blocked, dead] = expected;
    assert_eq!([count(0), count(1), count(3), count(2)], [ready + leased, delayed, blocked, dead], "{queue}");
}

/// Nobody has or wants a turn.
#[track_caller]
fn check_nothing_left(port: u16) {
    for table in ["turns", "blocked"] {
        assert_eq!(post(port, "sql", &format!("SELECT * FROM {table}")).1, json!({}), "{table}");
    }
}

#[test]
fn one_message_of_a_key_comes_after_the_other() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    let batch = r#"[{"body":"1","ordering_key":"k","priority":9},{"body":"2","ordering_key":"k","priority":1},{"body":"other"}]"#;
    assert_eq!(post(port, "mail/batch", batch).0, 200);
    assert_eq!(post(port, "mail?ordering_key=k", "3").0, 200);
    assert_eq!(ask(port, "GET", "lua", "").0, 200);
    let sql = "INSERT INTO tidegate_outbox (queue, body, ordering_key) VALUES ('mail', '5', 'k'), ('mail', 'j', 'j'), ('done', '', NULL)";
    assert_eq!(post(port, "sql?schema=shop", sql).0, 200);
    assert_eq!(post(port, "done/pull?wait=5m", "").0, 200);
    check(port, "mail", [3, 0, 0, 4, 0]);
    let (_, pulled) = post(port, "mail/pull?max=9&lease=5m", "");
    let bodies: Vec<_> =
        pulled["messages"].as_array().expect("messages").iter().map(|one| one["body"].clone()).collect();
    assert_eq!(bodies, ["1", "other", "j"]);
    assert_eq!(pulled["messages"][0]["ordering_key"], "k");
    let receipt = |at: usize| pulled["messages"][at]["receipt"].as_str().expect("a receipt").to_owned();
    // One that fails stands where it stood, at once or later.
    settle(port, "mail", "refuse", &receipt(0));
    let first = only(port, "mail", "1");
    assert_eq!(post(port, &format!("mail/refuse?receipt={first}&delay=1h"), "").0, 200);
    check(port, "mail", [0, 2, 1, 4, 0]);
    assert_eq!(post(port, "sql", "UPDATE messages SET due_ms = 1 WHERE body = '1'").0, 200);
    assert_eq!(post(port, "mail?delay=1ms", "wakes").0, 200);
    let mut came = HashMap::new();
    eventually("both have come", || {
        came.extend(pull_all(port, "mail"));
        (came.len() == 2).then_some(())
    });
    settle(port, "mail", "ack", &came["wakes"]);
    // Its death lets the next one come; sent again it waits until that is done, and is the first then.
    ask(port, "PATCH", "mail?attempts_max=1", "");
    settle(port, "mail", "refuse", &came["1"]);
    let second = only(port, "mail", "2");
    check(port, "mail", [0, 3, 0, 3, 1]);
    assert_eq!(post(port, "mail/dead/resend", ""), (200, json!({"resent": 1})));
    check(port, "mail", [0, 3, 0, 4, 0]);
    assert_eq!(post(port, &format!("mail/ack?receipt={second}"), "a result").0, 200);
    // Its time to live, or the end of its lease, does the same.
    let first = only(port, "mail", "1");
    settle(port, "mail", "ack", &first);
    let (_, third) = post(port, "mail/pull?lease=1ms", "");
    assert_eq!(third["messages"][0]["body"], "3");
    let (_, fourth) = post(port, "mail/pull?wait=5m&lease=5m", "");
    assert_eq!(fourth["messages"][0]["body"], "4", "one attempt");
    settle(port, "mail", "ack", fourth["messages"][0]["receipt"].as_str().expect("a receipt"));
    assert_eq!(post(port, "sql", "UPDATE messages SET expires_ms = 1 WHERE body = '5'").0, 200);
    assert_eq!(post(port, "mail?ordering_key=k", "6").0, 200);
    assert_eq!(post(port, "other?ttl=1ms", "wakes the keeper").0, 200);
    let (_, sixth) = post(port, "mail/pull?wait=5m&lease=5m", "");
    assert_eq!(sixth["messages"][0]["body"], "6");
    settle(port, "mail", "ack", sixth["messages"][0]["receipt"].as_str().expect("a receipt"));
    assert_eq!(post(port, &format!("mail/ack?receipt={}&receipt={}", receipt(1), receipt(2)), "").0, 200);
    check(port, "mail", [0, 0, 0, 0, 1]);
    check_nothing_left(port);
    finish(site);
}

#[test]
fn clients_of_beanstalkd_purges_and_limits_keep_the_order() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    let publish = |queue: &str, bodies: &[&str]| {
        bodies.iter().for_each(|body| assert_eq!(post(port, &format!("{queue}?ordering_key=k"), body).0, 200));
    };
    publish("jobs", &["1", "2", "3"]);
    let mut client = Jobs::using(&site, "jobs");
    assert_eq!(client.tell(b"watch jobs\r\n"), "WATCHING 2");
    let reserve = |client: &mut Jobs, body: &str| {
        let reserved = client.tell(b"reserve-with-timeout 0\r\n");
        assert_eq!(client.line(), body, "{reserved}");
        reserved.split(' ').nth(1).expect("a number").to_owned()
    };
    let first = reserve(&mut client, "1");
    assert_eq!(client.tell(b"reserve-with-timeout 0\r\n"), "TIMED_OUT");
    assert_eq!(client.tell(format!("bury {first} 5\r\n").as_bytes()), "BURIED");
    let second = reserve(&mut client, "2");
    // A buried job comes in its turn.
    assert_eq!(client.tell(format!("reserve-job {first}\r\n").as_bytes()), "NOT_FOUND");
    assert_eq!(client.tell(format!("kick-job {first}\r\n").as_bytes()), "KICKED");
    check(port, "jobs", [0, 1, 0, 2, 0]);
    assert_eq!(client.tell(format!("delete {second}\r\n").as_bytes()), "DELETED");
    let first = reserve(&mut client, "1");
    assert_eq!(client.tell(format!("release {first} 7 0\r\n").as_bytes()), "RELEASED");
    assert_eq!(client.tell(format!("delete {first}\r\n").as_bytes()), "DELETED", "nobody has it");
    let third = reserve(&mut client, "3");
    assert_eq!(client.tell(format!("delete {third}\r\n").as_bytes()), "DELETED");
    check(port, "jobs", [0; 5]);
    check_nothing_left(port);
    // All that wait are deleted; what consumers have goes on, and lets nobody in before it is done.
    publish("mail", &["1", "2", "3"]);
    let receipt = only(port, "mail", "1");
    assert_eq!(ask(port, "DELETE", "mail", ""), (200, json!({"deleted": 2})));
    publish("mail", &["4"]);
    check(port, "mail", [0, 1, 0, 1, 0]);
    settle(port, "mail", "ack", &receipt);
    assert_eq!(ask(port, "DELETE", "mail", ""), (200, json!({"deleted": 1})));
    check_nothing_left(port);
    // Those that make room let others come.
    ask(port, "PATCH", "short?length_max=2&overflow=drop_oldest", "");
    publish("short", &["1", "2", "3", "4"]);
    check(port, "short", [1, 0, 0, 1, 0]);
    let third = only(port, "short", "3");
    publish("short", &["5"]);
    settle(port, "short", "ack", &third);
    settle(port, "short", "ack", &only(port, "short", "5"));
    // A known message takes no turn.
    assert_eq!(post(port, "known?unique=u", "1").0, 200);
    assert_eq!(post(port, "known?unique=u&ordering_key=k", "1").1["duplicate"], true);
    check_nothing_left(port);
    // A subscription that ends takes its order with it.
    assert_eq!(post(port, "news/subscriptions?name=a", "").0, 200);
    publish("news", &["1", "2"]);
    assert_eq!(ask(port, "DELETE", "news/subscriptions?name=a", "").0, 200);
    settle(port, "news", "ack", &only(port, "news", "1"));
    settle(port, "news", "ack", &only(port, "news", "2"));
    check_nothing_left(port);
    for bad in ["mail?ordering_key=", &format!("mail?ordering_key={}", "k".repeat(201))] {
        assert_eq!(post(port, bad, "x").0, 400, "{bad}");
    }
    finish(site);
}

/// What consumers have of each key.
#[derive(Default)]
struct Seen {
    /// The last message that was given, and whether it was settled.
    last: HashMap<u64, (u64, bool)>,
}

#[test]
fn fifty_consumers_on_two_workers_keep_the_order_of_each_key() {
    const KEYS: u64 = 8;
    const EACH: u64 = 12;
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    let (seen, done) = (Mutex::new(Seen::default()), AtomicUsize::new(0));
    let consume = || {
        while done.load(Ordering::Relaxed) < (KEYS * EACH) as usize {
            let (status, pulled) = post(port, "work/pull?wait=200ms&lease=5m", "");
            if status == 204 {
                continue;
            }
            let message = &pulled["messages"][0];
            let body = message["body"].as_str().expect("a body");
            let (key, number) = body.split_once(' ').expect("a key and a number");
            let (key, number): (u64, u64) = (key.parse().expect("a key"), number.parse().expect("a number"));
            let fails = message["attempts"] == 0 && number % 3 == 0;
            {
                let mut seen = seen.lock().expect("not poisoned");
                let (last, is_settled) = seen.last.get(&key).copied().unwrap_or((0, true));
                assert!(is_settled, "{key}: {number} came while somebody had {last}");
                assert!(
                    number == last + 1 || (number == last && message["attempts"] == 1),
                    "{key}: {number} behind {last}"
                );
                // Before the request: another one has it as soon as the server has settled it.
                seen.last.insert(key, (number, true));
            }
            let receipt = message["receipt"].as_str().expect("a receipt");
            settle(port, "work", if fails { "refuse" } else { "ack" }, receipt);
            done.fetch_add(usize::from(!fails), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..50).map(|_| scope.spawn(consume)).collect();
        for key in 0..KEYS {
            scope.spawn(move || {
                for number in 1..=EACH {
                    assert_eq!(post(port, &format!("work?ordering_key={key}"), &format!("{key} {number}")).0, 200);
                }
            });
        }
        consumers.into_iter().for_each(|consumer| consumer.join().expect("no panic"));
    });
    check(port, "work", [0; 5]);
    check_nothing_left(port);
    finish(site);
}
