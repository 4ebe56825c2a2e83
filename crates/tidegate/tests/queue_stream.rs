//! Messages of a queue as Server-Sent Events.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::Value;
use support::queues::{ask, send};
use support::{Site, eventually};

fn started(main: &str) -> Site {
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        "{main} worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{}}
         database {{ schema tidegate_queue; schema shop; }}
         http {{ queue_outbox shop; server {{ listen 127.0.0.1:{port};
             location / {{ queue_api; queue_wait_max 5m; }}
             location = /sql {{ content_by_lua_block {{
                 ngx.req.read_body()
                 local sql = require('tidegate.sql').schema('shop')
                 local done, message = sql:exec(ngx.req.get_body_data())
                 ngx.print(require('cjson').encode({{ done = done ~= nil, message = message }}))
             }} }}
         }} }}",
    ));
    site.start();
    site
}

fn publish(port: u16, queue: &str, body: &str) {
    let (status, told) = ask(port, "POST", queue, body);
    assert_eq!(status, 200, "{told}");
}

/// A client of a stream.
struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    fn of(port: u16, path: &str) -> Self {
        let mut events = Events { lines: BufReader::new(send(port, "GET", path, "")) };
        let head = events.until_blank();
        assert!(
            head[0].contains(" 200 ") && head.iter().any(|line| line == "Content-Type: text/event-stream"),
            "{head:?}"
        );
        assert_eq!(events.event(), ["retry: 1000"]);
        events
    }

    fn until_blank(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("a line") > 0, "the stream has ended behind {lines:?}");
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                return lines;
            }
            lines.push(line.to_owned());
        }
    }

    /// The lines of the next event; comments are none.
    fn event(&mut self) -> Vec<String> {
        loop {
            let lines = self.until_blank();
            if !lines.iter().all(|line| line.starts_with(':')) {
                return lines;
            }
        }
    }

    fn message(&mut self) -> Value {
        let event = self.event();
        assert_eq!(event[0], "event: message", "{event:?}");
        serde_json::from_str(event[1].strip_prefix("data: ").expect("data")).expect("JSON on one line")
    }
}

fn settle(port: u16, queue: &str, action: &str, message: &Value) {
    let receipt = message["receipt"].as_str().expect("a receipt");
    let (status, told) = ask(port, "POST", &format!("{queue}/{action}?receipt={receipt}"), "");
    assert_eq!(status, 200, "{told}");
}

fn statistics(port: u16, queue: &str) -> (u64, u64) {
    let (_, told) = ask(port, "GET", queue, "");
    (told["ready"].as_u64().expect("a number"), told["leased"].as_u64().expect("a number"))
}

#[test]
fn a_client_has_so_many_messages_at_a_time() {
    let mut site = started("");
    let port = site.port;
    let mut events = Events::of(port, "mail/stream?prefetch=2&lease=5m");
    for body in ["a", "b\n\"b", "c", "d"] {
        publish(port, "mail", body);
    }
    let (first, second) = (events.message(), events.message());
    assert_eq!((&first["body"], &second["body"]), (&"a".into(), &"b\n\"b".into()));
    assert_eq!(statistics(port, "mail"), (2, 2));
    settle(port, "mail", "ack", &second);
    let third = events.message();
    assert_eq!(third["body"], "c");
    // Who refuses a message has room for another, or for the same again.
    settle(port, "mail", "refuse", &first);
    let again = events.message();
    assert_eq!((&again["body"], &again["attempts"]), (&"a".into(), &1.into()));
    assert_eq!(statistics(port, "mail"), (1, 2));
    // What the client has when it leaves waits at once, and has not failed.
    drop(events);
    eventually("the messages are given back", || (statistics(port, "mail") == (3, 0)).then_some(()));
    let mut others = Events::of(port, "mail/stream?prefetch=3");
    let bodies: Vec<_> = (0..3).map(|_| others.message()).map(|message| message["body"].clone()).collect();
    assert_eq!(bodies, ["a", "c", "d"]);
    drop(others);
    site.quit();
    assert!(!site.log().contains("[alert]") && !site.log().contains("[error]"), "{}", site.log());
}

#[test]
fn a_message_whose_time_is_over_comes_again() {
    let mut site = started("");
    let port = site.port;
    let mut events = Events::of(port, "mail/stream?lease=50ms");
    publish(port, "mail", "a");
    let (first, again) = (events.message(), events.message());
    assert_eq!((&first["id"], &first["attempts"]), (&again["id"], &0.into()));
    assert_eq!(again["attempts"], 1);
    drop(events);
    site.quit();
}

#[test]
fn clients_share_a_queue_and_subscribers_do_not() {
    let mut site = started("");
    let port = site.port;
    assert_eq!(ask(port, "POST", "mail/subscriptions?name=audit", "").0, 200);
    let mut clients: Vec<_> = (0..20).map(|_| Events::of(port, "mail/stream?lease=5m")).collect();
    let mut audit = Events::of(port, "mail@audit/stream?prefetch=100");
    for number in 0..20 {
        publish(port, "mail", &number.to_string());
    }
    let mut bodies: Vec<u64> = clients
        .iter_mut()
        .map(|client| client.message()["body"].as_str().and_then(|body| body.parse().ok()).expect("a number"))
        .collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..20).collect::<Vec<_>>());
    for number in 0..20 {
        assert_eq!(audit.message()["body"], number.to_string());
    }
    drop((clients, audit));
    site.quit();
}

#[test]
fn an_event_is_one_line_whatever_sql_has_published() {
    let mut site = started("");
    let port = site.port;
    let mut events = Events::of(port, "mail/stream");
    let insert = "INSERT INTO tidegate_outbox (queue, body, headers) VALUES ('mail', 'x', '{\\n\\r\"a\":\\n\"b\"}')";
    assert_eq!(ask(port, "POST", "sql", insert).1["done"], true);
    assert_eq!(events.message()["headers"]["a"], "b");
    drop(events);
    site.quit();
}

#[test]
fn what_is_no_stream_is_refused() {
    let mut site = started("");
    let port = site.port;
    for (method, path, expected) in [
        ("GET", "mail/stream?prefetch=0", 400),
        ("GET", "mail/stream?prefetch=101", 400),
        ("GET", "mail/stream?lease=soon", 400),
        ("GET", "mail/stream?lease=0", 400),
        ("GET", "mail/stream?wait=1", 400),
        ("POST", "mail/stream", 405),
        ("GET", "mail@nobody/stream", 404),
        ("HEAD", "mail/stream", 200),
    ] {
        assert_eq!(ask(port, method, path, "").0, expected, "{method} {path}");
    }
    site.quit();
}
