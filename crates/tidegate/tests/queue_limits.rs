//! Limits of queues, whichever way messages come, and what is told of how many there are.

mod support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::queues::{self, Jobs, ask, configure, post, started};
use support::{Site, eventually};

const OUTBOX: &str = "queue_outbox shop;";

const LOCATIONS: &str = r#"
    location / { queue_api; queue_wait_max 5m; }
    location = /lua {
        content_by_lua_block {
            local queue = require "tidegate.queue"
            ngx.print(require("cjson").encode({ queue.publish(ngx.var.arg_queue, "by Lua") }))
        }
    }
"#;

fn set(port: u16, queue: &str, settings: &str) -> Value {
    let (status, told) = ask(port, "PATCH", &format!("{queue}?{settings}"), "");
    assert_eq!(status, 200, "{told}");
    told
}

fn full(queue: &str, length_max: u64) -> (u16, Value) {
    let error = format!("the queue \"{queue}\" is full: it may have {length_max} messages");
    (507, json!({ "error": error }))
}

/// The bodies of a queue's messages in a state, as the table has them, in the order of their numbers.
fn bodies(port: u16, queue: &str, state: u8) -> Vec<String> {
    let sql = format!("SELECT body FROM messages WHERE queue = '{queue}' AND state = {state} ORDER BY id");
    let (_, rows) = post(port, "sql", &sql);
    let rows = rows.as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| row["body"].as_str().expect("a body").to_owned()).collect()
}

/// What is told of a queue is what the table has.
#[track_caller]
fn check_counts(port: u16, queue: &str) {
    // A message may be seen before whoever has stored it says so.
    eventually("the numbers are those of the table", || {
        let told = ask(port, "GET", queue, "").1;
        let number = |name: &str| told[name].as_u64().expect("a number");
        let rows = |state: u8| bodies(port, queue, state).len() as u64;
        let told = [number("ready") + number("leased"), number("delayed"), number("dead")];
        (told == [rows(0), rows(1), rows(2)]).then_some(())
    });
}

fn pull(port: u16, queue: &str) -> (String, String) {
    let (status, pulled) = post(port, &format!("{queue}/pull?wait=5m&lease=5m"), "");
    assert_eq!(status, 200, "{pulled}");
    let text = |name: &str| pulled["messages"][0][name].as_str().expect("text").to_owned();
    (text("body"), text("receipt"))
}

/// Ends the server, which may have told of messages that it refused.
fn finish(site: Site) {
    queues::finish_after(site, " is refused: ");
}

#[test]
fn a_full_queue_refuses_messages_whichever_way_they_come() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    assert_eq!(set(port, "mail", "length_max=3")["length_max"], 3);
    assert_eq!(post(port, "mail?unique=k", "1").0, 200);
    assert_eq!(post(port, "mail?delay=1h", "2").0, 200);
    // All or none.
    assert_eq!(post(port, "mail/batch", r#"[{"body":"3"},{"body":"4"}]"#), full("mail", 3));
    assert_eq!(post(port, "mail/batch", r#"[{"body":"3"},{"body":"4","unique":"k"}]"#).0, 200);
    check_counts(port, "mail");
    assert_eq!(post(port, "mail", "4"), full("mail", 3));
    assert_eq!(post(port, "mail?unique=k", "4").1["duplicate"], true, "there is room for what is there");
    assert_eq!(post(port, "mail?unique=l", "4"), full("mail", 3));
    let (_, by_lua) = ask(port, "GET", "lua?queue=mail", "");
    assert_eq!(by_lua[1], "the queue \"mail\" is full: it may have 3 messages");
    let mut client = Jobs::using(&site, "mail");
    assert_eq!(client.tell(b"put 1 0 60 1\r\na\r\nput 1 0 60 1\r\nb\r\n"), "OUT_OF_MEMORY");
    assert_eq!(client.line(), "OUT_OF_MEMORY");
    // An outbox does not hold up what comes behind.
    let sql = "INSERT INTO tidegate_outbox (queue, body) VALUES ('mail', 'by SQL'), ('other', 'behind')";
    assert_eq!(post(port, "sql?schema=shop", sql).0, 200);
    assert_eq!(pull(port, "other").0, "behind");
    assert_eq!(bodies(port, "tidegate.outbox.refused", 0), ["by SQL"]);
    // What is done or dead: the one makes room, the other does not.
    let (_, receipt) = pull(port, "mail");
    assert_eq!(post(port, &format!("mail/ack?receipt={receipt}"), "").0, 200);
    assert_eq!(client.tell(b"put 1 0 60 1\r\na\r\nput 1 0 60 1\r\nb\r\n").split(' ').next(), Some("INSERTED"));
    assert_eq!(client.line(), "OUT_OF_MEMORY");
    set(port, "mail", "attempts_max=1");
    let (_, receipt) = pull(port, "mail");
    assert_eq!(post(port, &format!("mail/refuse?receipt={receipt}"), "").0, 200);
    check_counts(port, "mail");
    assert_eq!(post(port, "mail", "4"), full("mail", 3));
    assert_eq!(ask(port, "DELETE", "mail/dead", "").0, 200);
    assert_eq!(post(port, "mail", "4").0, 200);
    // A subscriber who refuses has nobody else get it either.
    assert_eq!(post(port, "news/subscriptions?name=slow", "").0, 200);
    assert_eq!(post(port, "news/subscriptions?name=quick", "").0, 200);
    set(port, "news@slow", "length_max=1");
    assert_eq!(post(port, "news", "one").0, 200);
    assert_eq!(post(port, "news", "two"), full("news@slow", 1));
    assert_eq!(bodies(port, "news", 0), ["one"]);
    assert_eq!(bodies(port, "news@quick", 0), ["one"]);
    for queue in ["mail", "news", "news@slow", "other"] {
        check_counts(port, queue);
    }
    for bad in ["length_max=-1", "length_max=x", "age_max=-1", "overflow=drop", "overflow="] {
        assert_eq!(ask(port, "PATCH", &format!("mail?{bad}"), "").0, 400, "{bad}");
    }
    finish(site);
}

#[test]
fn the_oldest_messages_make_room() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    assert_eq!(post(port, "news/subscriptions?name=away", "").0, 200);
    assert_eq!(set(port, "news@away", "length_max=3&overflow=drop_oldest")["overflow"], "drop_oldest");
    set(port, "news", "subscribers_only=true");
    let publish = |body: &str, how: &str| assert_eq!(post(port, &format!("news{how}"), body).0, 200, "{body}");
    publish("urgent", "?priority=1");
    for number in 1..=5 {
        publish(&number.to_string(), "");
    }
    assert_eq!(bodies(port, "news@away", 0), ["urgent", "4", "5"]);
    assert_eq!(post(port, "news/batch", r#"[{"body":"6"},{"body":"7","delay":"1h"}]"#).0, 200);
    assert_eq!(
        (bodies(port, "news@away", 0), bodies(port, "news@away", 1)),
        (vec!["urgent".into(), "6".into()], vec!["7".into()])
    );
    check_counts(port, "news@away");
    // More than there may be at all.
    assert_eq!(post(port, "news/batch", r#"[{"body":"a"},{"body":"b"},{"body":"c"},{"body":"d"}]"#).0, 507);
    let mut client = Jobs::using(&site, "news");
    assert_eq!(client.tell(b"put 7 0 60 1\r\nx\r\n").split(' ').next(), Some("INSERTED"));
    assert_eq!(bodies(port, "news@away", 0), ["urgent", "x"]);
    // What consumers have stays; when that is all there is no room.
    let held: Vec<_> = ["urgent", "x"].map(|body| (body, pull(port, "news@away"))).into();
    held.iter().for_each(|(body, (pulled, _))| assert_eq!(body, pulled));
    publish("8", "");
    assert_eq!(bodies(port, "news@away", 1), Vec::<String>::new());
    let (body, _) = pull(port, "news@away");
    assert_eq!(body, "8");
    assert_eq!(post(port, "news", "9"), full("news@away", 3));
    assert_eq!(post(port, &format!("news@away/ack?receipt={}", held[0].1.1), "").0, 200);
    publish("9", "");
    check_counts(port, "news@away");
    // A smaller limit holds from the next message on.
    set(port, "news@away", "length_max=1");
    assert_eq!(post(port, "news", "10"), full("news@away", 1));
    // Rows of an outbox that are carried together make room for each other.
    set(port, "one", "length_max=1&overflow=drop_oldest");
    let sql = "INSERT INTO tidegate_outbox (queue, body) VALUES ('one', '1'), ('one', '2'), ('one', '3'), ('done', '')";
    assert_eq!(post(port, "sql?schema=shop", sql).0, 200);
    pull(port, "done");
    assert_eq!((bodies(port, "one", 0), bodies(port, "tidegate.outbox.refused", 0)), (vec!["3".into()], vec![]));
    check_counts(port, "one");
    // A known message makes nobody leave.
    set(port, "jobs", "length_max=1&overflow=drop_oldest");
    assert_eq!(post(port, "jobs?unique=k", "a").0, 200);
    assert_eq!(post(port, "jobs?unique=k", "b").1["duplicate"], true);
    assert_eq!(pull(port, "jobs").0, "a");
    finish(site);
}

#[test]
fn the_oldest_messages_die() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    set(port, "mail", "length_max=2&overflow=dead_letter");
    for number in 1..=7 {
        assert_eq!(post(port, "mail", &number.to_string()).0, 200);
    }
    assert_eq!(bodies(port, "mail", 0), ["6", "7"]);
    assert_eq!(bodies(port, "mail", 2), ["4", "5"], "as many dead messages as others");
    let (_, reason) = post(port, "sql", "SELECT reason FROM messages WHERE body = '5'");
    assert_eq!(reason, json!([{"reason": "the queue was full"}]));
    check_counts(port, "mail");
    // They may be sent again; the next message finds the limit.
    assert_eq!(post(port, "mail/dead/resend", ""), (200, json!({"resent": 2})));
    check_counts(port, "mail");
    assert_eq!(post(port, "mail", "8").0, 200);
    assert_eq!((bodies(port, "mail", 0).len(), bodies(port, "mail", 2).len()), (2, 2));
    check_counts(port, "mail");
    finish(site);
}

#[test]
fn messages_that_are_too_old_go_or_die() {
    let site = started("queue_age_max 1ms; queue_outbox shop;", LOCATIONS);
    let port = site.port;
    assert_eq!(ask(port, "GET", "mail", "").1["age_max_ms"], 1);
    assert_eq!(post(port, "mail?ttl=1h", "a").0, 200);
    let mut client = Jobs::using(&site, "mail");
    assert_eq!(client.tell(b"put 7 0 60 1\r\nx\r\n").split(' ').next(), Some("INSERTED"));
    let is_empty = |queue: &str| {
        let told = ask(port, "GET", queue, "").1;
        (told["ready"] == 0 && told["delayed"] == 0).then_some(())
    };
    eventually("they are gone", || is_empty("mail"));
    assert_eq!(bodies(port, "mail", 2), Vec::<String>::new());
    set(port, "letters", "overflow=dead_letter");
    assert_eq!(post(port, "letters", "b").0, 200);
    assert_eq!(post(port, "letters?delay=1h", "c").0, 200);
    eventually("they are dead", || is_empty("letters"));
    assert_eq!(bodies(port, "letters", 2), ["b", "c"]);
    let (_, dead) = post(port, "sql", "SELECT DISTINCT reason, expires_ms FROM messages WHERE queue = 'letters'");
    assert_eq!(dead[0]["reason"], "the message was too old");
    check_counts(port, "letters");
    // A queue of its own mind.
    assert_eq!(set(port, "kept", "age_max=0")["age_max_ms"], 0);
    assert_eq!(post(port, "kept", "d").0, 200);
    let (_, times) = post(port, "sql", "SELECT expires_ms FROM messages WHERE queue = 'kept' AND expires_ms IS NULL");
    assert_eq!(times.as_array().map(Vec::len), Some(1));
    finish(site);
}

#[test]
fn messages_that_are_dead_already_keep_nobody_waiting_when_they_are_too_old() {
    /// More than are looked at together.
    const DEAD: usize = 300;
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    set(port, "mail", "overflow=dead_letter&age_max=1h&attempts_max=1");
    let batch = Value::from(vec![json!({"body": "x"}); DEAD]).to_string();
    assert_eq!(post(port, "mail/batch", &batch).0, 200);
    let mut dead = 0;
    while dead < DEAD {
        let (_, pulled) = post(port, "mail/pull?max=100&lease=5m", "");
        let messages = pulled["messages"].as_array().expect("messages");
        let receipts: Vec<_> =
            messages.iter().filter_map(|one| Some(format!("receipt={}", one["receipt"].as_str()?))).collect();
        dead += receipts.len();
        let refused = post(port, &format!("mail/refuse?{}", receipts.join("&")), "").1;
        assert_eq!(refused, json!({"settled": receipts.len()}));
    }
    assert_eq!(post(port, "sql", "UPDATE messages SET published_ms = 1, expires_ms = 1").0, 200);
    // The first ones wake whoever looks after time, the others come if that goes on.
    for number in 0..3 {
        assert_eq!(post(port, "other?delay=1ms", &number.to_string()).0, 200);
        assert_eq!(pull(port, "other").0, number.to_string());
    }
    eventually("they stay, and nobody looks at them again", || {
        let sql = "SELECT COUNT(*) AS n FROM messages WHERE queue = 'mail' AND state = 2 AND expires_ms IS NULL";
        (post(port, "sql", sql).1[0]["n"] == DEAD).then_some(())
    });
    check_counts(port, "mail");
    finish(site);
}

#[test]
fn limits_of_the_configuration_hold_where_a_queue_has_none() {
    let mut site = started("queue_length_max 2; queue_overflow drop_oldest; queue_outbox shop;", LOCATIONS);
    let port = site.port;
    for number in 1..=3 {
        assert_eq!(post(port, "mail", &number.to_string()).0, 200);
    }
    assert_eq!(bodies(port, "mail", 0), ["2", "3"]);
    let told = set(port, "mail", "overflow=reject");
    assert_eq!((&told["length_max"], &told["overflow"]), (&json!(2), &json!("reject")));
    assert_eq!(post(port, "mail", "4"), full("mail", 2));
    set(port, "mail", "length_max=0");
    assert_eq!(post(port, "mail", "4").0, 200);
    assert_eq!(set(port, "mail", "length_max=default&overflow=default")["overflow"], "drop_oldest");
    configure(&site, "queue_length_max 1; server_tokens off; queue_outbox shop;", LOCATIONS);
    site.signal(Signal::SIGHUP);
    eventually("the new limit holds", || (ask(port, "GET", "mail", "").1["length_max"] == 1).then_some(()));
    assert_eq!(post(port, "mail", "5"), full("mail", 1));
    // SQL may say so too.
    let sql = "REPLACE INTO queues (name, length_max, overflow) VALUES ('mail', 9, 'dead_letter')";
    assert_eq!(post(port, "sql", sql).0, 200);
    eventually("what SQL has said holds", || {
        let told = ask(port, "GET", "mail", "").1;
        (told["length_max"] == 9 && told["overflow"] == "dead_letter").then_some(())
    });
    // Counts are those of the table behind a crash too.
    site.kill();
    site.start();
    check_counts(port, "mail");
    assert_eq!(post(port, "mail", "5").0, 200);
    check_counts(port, "mail");
    finish(site);
}

#[test]
fn no_commit_exceeds_a_limit_with_many_publishers() {
    const LENGTH_MAX: usize = 25;
    let site = started("queue_length_max 25; queue_outbox shop;", LOCATIONS);
    let port = site.port;
    let stored: usize = std::thread::scope(|scope| {
        let publish = move |publisher: usize| {
            let mut stored = 0;
            for number in 0..10 {
                let (path, body, count) = match publisher % 3 {
                    0 => ("mail".to_owned(), "a", 1),
                    1 => ("mail/batch".to_owned(), r#"[{"body":"a"},{"body":"b"},{"body":"c"}]"#, 3),
                    _ => (format!("mail?unique={publisher}-{number}"), "a", 1),
                };
                match post(port, &path, body).0 {
                    200 => stored += count,
                    status => assert_eq!(status, 507),
                }
                let (_, rows) = post(port, "sql", "SELECT COUNT(*) AS n FROM messages WHERE queue = 'mail'");
                assert!(rows[0]["n"].as_u64().expect("a number") <= LENGTH_MAX as u64, "{rows}");
            }
            stored
        };
        let publishers: Vec<_> = (0..9).map(|publisher| scope.spawn(move || publish(publisher))).collect();
        publishers.into_iter().map(|publisher| publisher.join().expect("no panic")).sum()
    });
    assert_eq!(stored, LENGTH_MAX);
    check_counts(port, "mail");
    // The same where others make room: as many stay as there may be.
    set(port, "news", "length_max=5&overflow=drop_oldest");
    std::thread::scope(|scope| {
        for publisher in 0..6 {
            scope.spawn(move || {
                for number in 0..10 {
                    assert_eq!(post(port, "news", &format!("{publisher}-{number}")).0, 200);
                }
            });
        }
    });
    assert_eq!(bodies(port, "news", 0).len(), 5);
    check_counts(port, "news");
    finish(site);
}

/// Runs `busy` on so many threads until `wanted` has ended.
fn beside(threads: usize, busy: impl Fn(usize) + Sync, wanted: impl FnOnce()) {
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn({
                let (is_over, busy) = (&is_over, &busy);
                move || {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        busy(number);
                    }
                }
            });
        }
        wanted();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn more_publishers_than_messages_that_can_leave() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    for overflow in ["drop_oldest", "dead_letter"] {
        set(port, overflow, &format!("length_max=3&overflow={overflow}"));
        std::thread::scope(|scope| {
            for number in 0..24 {
                scope.spawn(move || {
                    for message in 0..8 {
                        assert_eq!(post(port, overflow, &format!("{number}.{message}")).0, 200);
                    }
                });
            }
        });
        check_counts(port, overflow);
        assert_eq!(bodies(port, overflow, 0).len(), 3);
    }
    finish(site);
}

#[test]
fn a_queue_is_full_whatever_happens_to_others() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    set(port, "held", "length_max=2&overflow=drop_oldest");
    set(port, "busy", "length_max=50&overflow=drop_oldest");
    assert_eq!([post(port, "held", "1").0, post(port, "held", "2").0], [200, 200]);
    let held = [pull(port, "held"), pull(port, "held")];
    beside(
        4,
        |_| assert_eq!(post(port, "busy", "x").0, 200),
        || {
            for _ in 0..20 {
                assert_eq!(post(port, "held", "3"), full("held", 2));
            }
        },
    );
    assert_eq!(post(port, &format!("held/ack?receipt={}", held[0].1), "").0, 200);
    assert_eq!(post(port, "held", "3").0, 200);
    finish(site);
}

#[test]
fn a_unique_message_is_found_however_many_publish_it() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    let publish = || assert_eq!(post(port, "once?unique=k", "x").0, 200);
    beside(
        6,
        |_| publish(),
        || {
            for _ in 0..60 {
                let (_, receipt) = pull(port, "once");
                assert_eq!(post(port, &format!("once/ack?receipt={receipt}"), "").0, 200);
            }
        },
    );
    check_counts(port, "once");
    finish(site);
}

#[test]
fn emptying_a_queue_ends_while_messages_come() {
    let site = started(OUTBOX, LOCATIONS);
    let port = site.port;
    let batch: Vec<Value> = (0..50).map(|number| json!({ "body": "x", "priority": number % 3 })).collect();
    let batch = Value::from(batch).to_string();
    beside(
        6,
        |_| assert_eq!(post(port, "rush/batch", &batch).0, 200),
        || {
            for _ in 0..5 {
                assert_eq!(ask(port, "DELETE", "rush", "").0, 200);
            }
        },
    );
    check_counts(port, "rush");
    finish(site);
}
