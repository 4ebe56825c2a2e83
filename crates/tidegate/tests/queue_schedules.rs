//! Schedules of queues: each time has one message, whoever publishes it and whenever the server ends.

mod support;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::Site;
use support::queues::{send, text};

fn site() -> Site {
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        r#"worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{}}
         database {{ schema tidegate_queue; }}
         http {{ server {{ listen 127.0.0.1:{port}; location / {{ queue_api; queue_wait_max 5m; }}
             location = /sql {{ content_by_lua_block {{
                 ngx.req.read_body()
                 local sql = require("tidegate.sql").schema("tidegate_queue")
                 local done, message = sql:query(ngx.req.get_body_data())
                 ngx.print(require("cjson").encode(done or message))
             }} }} }} }}"#
    ));
    site.start();
    site
}

#[track_caller]
fn json_of(site: &Site, method: &str, path: &str, body: &str) -> Value {
    let (status, answer) = text(send(site.port, method, path, body));
    assert_eq!(status, 200, "{method} {path}: {answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// Waits for so many messages, acknowledges each, and answers the seconds in which they were published.
#[track_caller]
fn seconds(site: &Site, queue: &str, count: usize) -> Vec<u64> {
    let pull = || {
        let pulled = json_of(site, "POST", &format!("{queue}/pull?wait=1m"), "");
        let message = &pulled["messages"][0];
        assert_eq!(message["body"], "tick");
        let receipt = message["receipt"].as_str().expect("a receipt");
        json_of(site, "POST", &format!("{queue}/ack?receipt={receipt}"), "");
        message["published_ms"].as_u64().expect("a time") / 1000
    };
    (0..count).map(|_| pull()).collect()
}

#[test]
fn a_time_has_one_message() {
    let mut site = site();
    json_of(&site, "POST", "ticks/subscriptions?name=too", "");
    let made = json_of(&site, "POST", "ticks/schedules?name=a&cron=*+*+*+*+*+*&priority=7&ttl=1h", "tick");
    assert_eq!((&made["name"], &made["zone"], &made["priority"]), (&json!("a"), &json!("UTC"), &json!(7)));
    let mut seen = seconds(&site, "ticks", 3);
    site.kill();
    site.start();
    seen.extend(seconds(&site, "ticks", 3));
    site.signal(nix::sys::signal::Signal::SIGHUP);
    seen.extend(seconds(&site, "ticks", 2));
    let different: BTreeSet<u64> = seen.iter().copied().collect();
    // Published late, two times may share a second; that is no message for one time twice, which the row's time would tell.
    assert!(different.len() + 2 >= seen.len(), "{seen:?}");
    assert_eq!(json_of(&site, "DELETE", "ticks/schedules?name=a", ""), json!({"removed": 1}));
    // Who subscribes gets them too, as many as there were times.
    let rows = json_of(
        &site,
        "POST",
        "sql",
        "SELECT COUNT(*) AS n, COUNT(DISTINCT published_ms) AS d FROM messages WHERE queue = 'ticks@too'",
    );
    let number = |name: &str| rows[0][name].as_u64().expect("a number");
    assert!(number("n") >= 8 && number("n") == number("d"), "{rows}");
    site.quit();
}

#[test]
fn times_that_have_passed_have_one_message_together() {
    let mut site = site();
    json_of(&site, "POST", "nightly/schedules?name=a&cron=0+3+*+*+*&zone=Asia/Tokyo", "tick");
    // As if the server had not run for ten days.
    json_of(&site, "POST", "sql", "UPDATE schedules SET next_ms = next_ms - 10 * 86400000");
    assert_eq!(seconds(&site, "nightly", 1).len(), 1);
    let list = json_of(&site, "GET", "nightly/schedules", "");
    let next_ms = list["schedules"][0]["next_ms"].as_u64().expect("a time");
    assert_eq!(next_ms / 1000 % 86400, 18 * 3600, "3 o'clock in Tokyo");
    assert_eq!(text(send(site.port, "POST", "nightly/pull", "")).0, 204);
    // Another one of the name takes its place; SQL sees it.
    json_of(&site, "POST", "nightly/schedules?name=a&cron=@hourly", "tock");
    let rows = json_of(&site, "POST", "sql", "SELECT name, cron, zone, body FROM schedules");
    assert_eq!(rows, json!([{"name": "a", "cron": "@hourly", "zone": "UTC", "body": "tock"}]));
    json_of(&site, "POST", "sql", "DELETE FROM schedules");
    assert_eq!(json_of(&site, "GET", "nightly/schedules", ""), json!({"schedules": []}));
    site.quit();
}

#[test]
fn what_is_no_schedule_is_refused() {
    let mut site = site();
    for (path, why) in [
        ("q/schedules", "a schedule needs"),
        ("q/schedules?name=a", "a schedule needs"),
        ("q/schedules?name=a/b&cron=@daily", "must have 1 to 200 letters"),
        ("q/schedules?name=a&cron=61+*+*+*+*", "is no line of cron"),
        ("q/schedules?name=a&cron=%00", "is no line of cron"),
        ("q/schedules?name=a&cron=0+0+30+2+*", "names no time to come"),
        ("q/schedules?name=a&cron=@daily&zone=Mars", "is no time zone"),
        ("q/schedules?name=a&cron=@daily&priority=-1", "is no number"),
        ("q/schedules?name=a&cron=@daily&delay=1", "unknown parameter"),
    ] {
        let (status, answer) = text(send(site.port, "POST", path, "tick"));
        assert!(status == 400 && answer.contains(why), "{path}: {status} {answer}");
    }
    assert_eq!(text(send(site.port, "DELETE", "q/schedules?name=a", "")).0, 404);
    assert_eq!(text(send(site.port, "PUT", "q/schedules?name=a", "")).0, 405);
    assert_eq!(json_of(&site, "GET", "q/schedules", ""), json!({"schedules": []}));
    // As many as a queue may have.
    let digits = "SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9";
    let fill = format!(
        "INSERT INTO schedules (queue, name, cron, zone, priority, body) SELECT 'q', CONCAT('s', a.d, b.d, c.d), '@daily', 'UTC', 1, '' \
         FROM ({digits}) a, ({digits}) b, ({digits}) c"
    );
    json_of(&site, "POST", "sql", &fill);
    assert_eq!(text(send(site.port, "POST", "q/schedules?name=more&cron=@daily", "tick")).0, 409);
    assert_eq!(text(send(site.port, "POST", "q/schedules?name=s000&cron=@daily", "tick")).0, 200);
    site.quit();
}
