//! Subscriptions of queues: each gets everything, whichever way it was published and whoever was away.

mod support;

use serde_json::json;
use support::eventually;
use support::queues::{Jobs, answer, ask, configure, count, finish, post, send, started};

/// Nothing that opens the queues.
const NO_QUEUES: &str = "location / { return 200 ok; }";

const QUEUES: &str = r#"
    location / { queue_api; queue_wait_max 5m; }
    location = /lua {
        content_by_lua_block {
            local queue = require "tidegate.queue"
            assert(queue.publish("lua", "too early"))
            local sent = {}
            for message in queue.subscribe("lua", { name = "script", wait = 0 }) do
                error("nothing was published since there is a subscription")
            end
            assert(queue.publish("lua", "one"))
            assert(queue.publish("lua", "two"))
            for message in queue.subscribe("lua", { name = "script", wait = 0 }) do
                sent[#sent + 1] = message.queue .. "=" .. message.body
            end
            sent[#sent + 1] = tostring(queue.unsubscribe("lua", "script"))
            sent[#sent + 1] = tostring(queue.unsubscribe("lua", "script"))
            sent[#sent + 1] = select(2, queue.pull("lua@script"))
            sent[#sent + 1] = select(2, queue.publish("lua@script", "x"))
            sent[#sent + 1] = select(2, pcall(queue.subscribe, "lua", { name = "a/b" }))
            ngx.print(require("cjson").encode(sent))
        }
    }
"#;

/// Pulls what there is, and acknowledges it.
#[track_caller]
fn check(port: u16, queue: &str, expected: &[&str]) {
    let (_, pulled) = post(port, &format!("{queue}/pull?max=100&lease=5m"), "");
    let messages = pulled["messages"].as_array().cloned().unwrap_or_default();
    let bodies: Vec<&str> = messages.iter().filter_map(|message| message["body"].as_str()).collect();
    assert_eq!(bodies, expected, "{queue}");
    for message in &messages {
        let receipt = message["receipt"].as_str().expect("a receipt");
        assert_eq!(post(port, &format!("{queue}/ack?receipt={receipt}"), "").0, 200);
    }
}

#[test]
fn each_subscriber_gets_everything_beside_consumers_that_share_the_work() {
    let mut site = started("queue_outbox shop;", QUEUES);
    let port = site.port;
    assert_eq!(post(port, "mail", "before").0, 200);
    let described = |name: &str| json!({"name": name, "queue": format!("mail@{name}")});
    for name in ["billing", "audit", "billing"] {
        assert_eq!(post(port, &format!("mail/subscriptions?name={name}"), ""), (200, described(name)));
    }
    let both = json!({"subscriptions": [described("audit"), described("billing")]});
    assert_eq!(ask(port, "GET", "mail/subscriptions", ""), (200, both.clone()));
    // One waits, whichever worker it is connected to; the other is away, and stays subscribed over a crash.
    let waits = send(port, "POST", "mail@billing/pull?wait=5m&lease=5m", "");
    eventually("it waits", || (ask(port, "GET", "mail@billing", "").1["waiting_consumers"] == 1).then_some(()));
    assert_eq!(post(port, "mail", "one").0, 200);
    let (_, got) = answer(waits);
    assert_eq!(got["messages"][0]["body"], "one");
    assert_eq!(post(port, "mail/batch", r#"[{"body":"two","unique":"k"},{"body":"three"}]"#).0, 200);
    let (_, again) = post(port, "mail?unique=k", "two again");
    assert_eq!(again["duplicate"], true);
    site.kill();
    site.start();
    assert_eq!(ask(port, "GET", "mail/subscriptions", "").1, both);
    check(port, "mail", &["before", "one", "two", "three"]);
    check(port, "mail@audit", &["one", "two", "three"]);
    check(port, "mail@billing", &["one", "two", "three"]);
    // What is only for subscribers is stored for them alone, and for consumers where there are none.
    assert_eq!(ask(port, "PATCH", "mail?subscribers_only=true", "").1["subscribers_only"], true);
    assert_eq!(post(port, "mail?ttl=1h", "four").0, 200);
    check(port, "mail", &[]);
    check(port, "mail@audit", &["four"]);
    assert_eq!(ask(port, "DELETE", "mail/subscriptions?name=billing", ""), (200, described("billing")));
    assert_eq!(ask(port, "DELETE", "mail/subscriptions?name=billing", "").0, 404);
    assert_eq!(post(port, "mail@billing/pull", "").0, 404);
    assert_eq!(count(port, "messages"), 0, "nobody gets what a former subscriber has not had");
    assert_eq!(ask(port, "DELETE", "mail/subscriptions?name=audit", "").0, 200);
    assert_eq!(post(port, "mail", "five").0, 200);
    check(port, "mail", &["five"]);
    // SQL may subscribe too.
    assert_eq!(post(port, "sql", "INSERT INTO subscriptions VALUES ('mail', 'sql'), ('a/b', 'c')").0, 200);
    eventually("it is noticed", || (post(port, "mail@sql/pull", "").0 == 204).then_some(()));
    finish(site);
}

#[test]
fn a_subscription_has_nothing_of_a_former_one_of_its_name() {
    let mut site = started("queue_outbox shop;", QUEUES);
    let port = site.port;
    let subscribe = || assert_eq!(post(port, "mail/subscriptions?name=audit", "").0, 200);
    subscribe();
    let new = ask(port, "GET", "mail@audit", "").1;
    let change = "mail@audit?attempts_max=3&paused=true&length_max=1&age_max=1h&overflow=drop_oldest";
    assert_ne!(ask(port, "PATCH", change, "").1, new);
    assert_eq!(post(port, "mail", "former").0, 200);
    assert_eq!(ask(port, "DELETE", "mail/subscriptions?name=audit", "").0, 200);
    assert_eq!(count(port, "queues"), 0);
    subscribe();
    assert_eq!(ask(port, "GET", "mail@audit", "").1, new);
    // Nor if SQL has ended it, which leaves what it had.
    assert_ne!(ask(port, "PATCH", change, "").1, new);
    assert_eq!(post(port, "sql", "DELETE FROM subscriptions").0, 200);
    eventually("it is noticed", || (post(port, "mail@audit/pull", "").0 == 404).then_some(()));
    assert_eq!(count(port, "queues"), 1);
    subscribe();
    site.kill();
    site.start();
    assert_eq!(ask(port, "GET", "mail@audit", "").1, new);
    for body in ["one", "two"] {
        assert_eq!(post(port, "mail", body).0, 200);
    }
    check(port, "mail@audit", &["one", "two"]);
    finish(site);
}

#[test]
fn what_cannot_be_subscribed_is_refused() {
    let site = started("queue_outbox shop;", QUEUES);
    let port = site.port;
    let long = format!("mail/subscriptions?name={}", "n".repeat(196));
    for (method, path) in [
        ("POST", "mail/subscriptions"),
        ("POST", "mail/subscriptions?name="),
        ("POST", "mail/subscriptions?name=a%2Fb"),
        ("POST", "mail/subscriptions?name=a%40b"),
        ("POST", "mail/subscriptions?name=a%00"),
        ("POST", "mail/subscriptions?name=a%27"),
        ("POST", "mail/subscriptions?name=a&color=red"),
        ("POST", &long),
        ("DELETE", "mail/subscriptions"),
        ("GET", "mail/subscriptions?name=a"),
        ("POST", "mail@a@b/pull"),
        ("PATCH", "mail?subscribers_only=1"),
    ] {
        assert_eq!(ask(port, method, path, "").0, 400, "{method} {path}");
    }
    assert_eq!(ask(port, "PUT", "mail/subscriptions?name=a", "").0, 405);
    assert_eq!(post(port, "mail@a", "x").0, 404);
    assert_eq!(post(port, "mail/subscriptions?name=a", "").0, 200);
    for path in ["mail@a", "mail@a/batch", "mail@a/subscriptions?name=b", "mail@a/schedules?name=b&cron=@daily"] {
        assert_eq!(post(port, path, "x").0, 400, "messages come in from the queue alone: {path}");
    }
    for number in 1..100 {
        assert_eq!(post(port, &format!("mail/subscriptions?name=n{number}"), "").0, 200);
    }
    let (status, told) = post(port, "mail/subscriptions?name=more", "");
    assert_eq!((status, told), (409, json!({"error": "a queue has at most 100 subscriptions"})));
    finish(site);
}

#[test]
fn whichever_way_a_message_comes_its_subscribers_get_it() {
    let site = started("queue_outbox shop;", QUEUES);
    let port = site.port;
    let answer = post(port, "lua", "").1;
    let expected = json!([
        "lua@script=one",
        "lua@script=two",
        "true",
        "false",
        "there is no subscription \"lua@script\"",
        "a queue's name has 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\"",
        answer[6],
    ]);
    assert_eq!(answer, expected);
    assert!(answer[6].as_str().is_some_and(|text| text.contains("a subscription's name has")), "{answer}");
    // An outbox.
    assert_eq!(post(port, "orders/subscriptions?name=stock", "").0, 200);
    let insert = "INSERT INTO tidegate_outbox (queue, body) VALUES ('orders', 'row')";
    assert!(post(port, "sql?schema=shop", insert).1.is_object());
    eventually("it has come", || (count(port, "messages WHERE queue LIKE 'orders%'") == 2).then_some(()));
    check(port, "orders", &["row"]);
    check(port, "orders@stock", &["row"]);
    // A client of beanstalkd.
    let mut jobs = Jobs::using(&site, "orders");
    assert!(jobs.tell(b"put 7 0 60 3\r\njob\r\n").starts_with("INSERTED "));
    check(port, "orders", &["job"]);
    check(port, "orders@stock", &["job"]);
    finish(site);
}

#[test]
fn tables_of_the_version_before_are_brought_up_to_date() {
    let mut site = started("", NO_QUEUES);
    let port = site.port;
    let name = "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL";
    for statement in [
        "DROP TABLE messages, queues, outboxes",
        &*format!(
            "CREATE TABLE messages (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, queue {name},
             state TINYINT UNSIGNED NOT NULL DEFAULT 0, priority INT UNSIGNED NOT NULL DEFAULT 1024,
             published_ms BIGINT UNSIGNED NOT NULL, due_ms BIGINT UNSIGNED NULL, expires_ms BIGINT UNSIGNED NULL,
             attempts INT UNSIGNED NOT NULL DEFAULT 0, reason VARCHAR(1000) NULL, unique_key VARBINARY(200) NULL,
             lease_ms BIGINT UNSIGNED NULL, releases INT UNSIGNED NOT NULL DEFAULT 0,
             burials INT UNSIGNED NOT NULL DEFAULT 0, kicks INT UNSIGNED NOT NULL DEFAULT 0, headers LONGTEXT NULL,
             body LONGBLOB NOT NULL, KEY next (queue, state, priority, id), KEY due (due_ms), KEY expires (expires_ms),
             UNIQUE KEY unique_key (queue, unique_key))"
        ),
        &*format!(
            "CREATE TABLE queues (name {name} PRIMARY KEY, attempts_max INT UNSIGNED NOT NULL DEFAULT 0,
             is_paused TINYINT UNSIGNED NOT NULL DEFAULT 0)"
        ),
        "CREATE TABLE outboxes (schema_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
         carried TEXT NOT NULL)",
        "INSERT INTO messages (queue, published_ms, body) VALUES ('mail', 1, 'old')",
        "INSERT INTO queues VALUES ('mail', 3, 0)",
    ] {
        let (_, told) = post(port, "sql", statement);
        assert!(told.is_object(), "{statement}: {told}");
    }
    configure(&site, "queue_outbox shop;", QUEUES);
    site.quit();
    site.start();
    let (status, told) = ask(port, "GET", "mail", "");
    assert_eq!((status, &told["attempts_max"], &told["subscribers_only"]), (200, &json!(3), &json!(false)), "{told}");
    assert_eq!(post(port, "mail/subscriptions?name=new", "").0, 200);
    assert_eq!(post(port, "mail", "new").0, 200);
    check(port, "mail", &["old", "new"]);
    check(port, "mail@new", &["new"]);
    finish(site);
}
