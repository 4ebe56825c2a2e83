//! `queue_api nq`: senders and receivers as nq's clients are, on two workers.

mod support;

use std::collections::BTreeSet;
use std::net::TcpStream;

use serde_json::{Value, json};
use support::queues::{SQL, finish, send, text};
use support::{Site, eventually};

const SERVER: &str = r#"
    location / { return 200 ok; }
    client_max_body_size 100m;
    location /nq/ { queue_api nq schema=work timeout=5m fail_timeout=5m; queue_wait_max 5m; }
    location /late/ { queue_api nq schema=late timeout=5m; }
    location = /status { stub_status; }
"#;

fn started() -> Site {
    let mut site = Site::new("worker_processes 2; database { schema work; }", &format!("{SERVER} {SQL}"));
    site.start();
    site
}

fn post(port: u16, messages: &Value) -> (u16, String) {
    let request = json!({"sender": "ann", "messages": messages}).to_string();
    text(send(port, "POST", "nq/post", &request))
}

fn pull(port: u16, request: &Value) -> (u16, String) {
    text(send(port, "POST", "nq/pull", &request.to_string()))
}

/// What a receiver gets of the queue `q` without waiting: numbers of messages.
fn got(port: u16, receiver: &str, wanted: &Value) -> Vec<u64> {
    ids(&pull(port, &json!({"receiver": receiver, "timeout": 0, "queues": {"q": wanted}})))
}

/// Numbers of an answer's messages in the queue `q`.
fn ids((status, body): &(u16, String)) -> Vec<u64> {
    if *status == 204 {
        return Vec::new();
    }
    assert_eq!(*status, 200, "{body}");
    let answer: Value = serde_json::from_str(body).expect("JSON");
    let messages = answer["messages"]["q"].as_array().expect("messages");
    messages.iter().map(|message| message["id"].as_u64().expect("a number")).collect()
}

fn sql(port: u16, statement: &str) -> Value {
    let (status, body) = text(send(port, "POST", "sql?schema=work", statement));
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn each_receiver_gets_everything_and_those_of_one_name_share() {
    let site = started();
    let port = site.port;
    assert_eq!(post(port, &json!({"q": ["a/\u{e4}", "b"], "r": ["c"]})), (200, r#"{"q":[1,2],"r":[1]}"#.into()));
    assert_eq!(post(port, &json!({"q": ["d"]})), (200, r#"{"q":[3]}"#.into()));
    let both = json!({"receiver": "bob", "queues": {"q": {}, "r": {}}});
    let first = "{\"messages\":{\"q\":[{\"id\":1,\"sender\":\"ann\",\"message\":\"a\\/\u{e4}\"}],\
                 \"r\":[{\"id\":1,\"sender\":\"ann\",\"message\":\"c\"}]}}";
    assert_eq!(pull(port, &both), (200, first.to_owned()));
    assert_eq!(got(port, "bob", &json!({"max": 9})), [2, 3]);
    assert_eq!(got(port, "bob", &json!({})), [0; 0]);
    assert_eq!(got(port, "eve", &json!({"start": -2})), [0; 0]);
    assert_eq!(got(port, "eve", &json!({"start": -1})), [3]);
    assert_eq!(got(port, "dan", &json!({"start": 2, "max": 1})), [2]);
    assert_eq!(got(port, "dan", &json!({"start": 1, "max": 9})), [3], "nobody goes back");
    let saved = pull(port, &json!({"receiver": "bob", "results": {"q": {"2": "done", "3": 7}}}));
    assert_eq!(saved, (200, String::new()));
    let rows = sql(port, "SELECT m_id, status, result FROM q_rst WHERE receiver = 'bob' ORDER BY m_id");
    let told = rows.to_string();
    assert!(told.contains("processing") && told.contains("done") && told.contains("\"7\""), "{told}");

    // Forty pulls at once on two workers: each message comes once.
    let more: Vec<String> = (4..=43).map(|id| id.to_string()).collect();
    assert_eq!(post(port, &json!({"q": more})).0, 200);
    let request = json!({"receiver": "eve", "timeout": 0, "queues": {"q": {}}}).to_string();
    let clients: Vec<TcpStream> = (0..40).map(|_| send(port, "POST", "nq/pull", &request)).collect();
    let taken: Vec<u64> = clients.into_iter().flat_map(|client| ids(&text(client))).collect();
    assert_eq!(taken.len(), 40);
    assert_eq!(taken.into_iter().collect::<BTreeSet<u64>>(), (4..=43).collect());
    finish(site);
}

#[test]
fn receivers_wait_for_messages_whoever_has_written_them() {
    let site = started();
    let port = site.port;
    // Nobody has made the tables yet.
    let wait = |receiver: &str| {
        let request = json!({"receiver": receiver, "queues": {"q": {"max": 5}, "r": {}}});
        send(port, "POST", "nq/pull", &request.to_string())
    };
    let waiting: Vec<TcpStream> = (0..20).map(|number| wait(&format!("receiver{number}"))).collect();
    assert_eq!(post(port, &json!({"q": ["for all"]})).0, 200);
    for client in waiting {
        assert_eq!(ids(&text(client)), [1]);
    }
    assert_eq!(ids(&text(wait("bob"))), [1]);
    let second = wait("bob");
    assert_eq!(sql(port, "INSERT INTO q_msg (message) VALUES ('by SQL') RETURNING id"), json!([{"id": 2}]));
    let (status, body) = text(second);
    assert_eq!((status, body.as_str()), (200, r#"{"messages":{"q":[{"id":2,"message":"by SQL"}]}}"#));
    // One that has left takes nothing.
    drop(wait("bob"));
    eventually("it is gone", || {
        text(send(port, "GET", "status", "")).1.contains("Active connections: 1 ").then_some(())
    });
    let waiting = wait("bob");
    assert_eq!(post(port, &json!({"r": ["there"]})).0, 200);
    let (status, body) = text(waiting);
    assert_eq!(status, 200);
    assert!(body.contains(r#""r":[{"id":1,"#), "{body}");
    finish(site);
}

#[test]
fn whoever_waits_makes_no_schema_and_hears_of_one_that_is_made() {
    let site = started();
    let port = site.port;
    let request = |timeout: u64| json!({"receiver": "bob", "timeout": timeout, "queues": {"q": {}}}).to_string();
    let wait = || send(port, "POST", "late/pull", &request(300));
    let first = wait();
    // It is in the line, or gets there later: this one is looked at there.
    assert_eq!(text(send(port, "POST", "late/pull", &request(0))).0, 204);
    assert_eq!(sql(port, "SHOW DATABASES LIKE 'late'"), json!({}));
    sql(port, "CREATE DATABASE late");
    let late = json!({"messages": {"q": ["a"]}}).to_string();
    assert_eq!(text(send(port, "POST", "late/post", &late)), (200, r#"{"q":[1]}"#.into()));
    assert_eq!(ids(&text(first)), [1]);
    // What others drop while somebody waits stays away until somebody makes it.
    let second = wait();
    assert_eq!(text(send(port, "POST", "late/pull", &request(0))).0, 204);
    sql(port, "DROP DATABASE late");
    assert_eq!(text(send(port, "POST", "late/pull", &request(0))).0, 204);
    sql(port, "CREATE DATABASE late");
    assert_eq!(text(send(port, "POST", "late/post", &late)), (200, r#"{"q":[1]}"#.into()));
    assert_eq!(ids(&text(second)), [1]);
    finish(site);
}

#[test]
fn what_has_no_result_comes_again_as_often_as_wanted() {
    let site = started();
    let port = site.port;
    assert_eq!(post(port, &json!({"q": ["a", "b"]})).0, 200);
    let now = json!({"fail_timeout": 0, "retry_num": 2});
    assert_eq!(got(port, "bob", &json!({"max": 2})), [1, 2]);
    assert_eq!(got(port, "bob", &json!({})), [0; 0], "it has five minutes");
    assert_eq!(pull(port, &json!({"receiver": "bob", "results": {"q": {"2": "done"}}})).0, 200);
    // The time of the first delivery is over as soon as the clock has gone on.
    let again = || eventually("it comes again", || Some(got(port, "bob", &now)).filter(|ids| !ids.is_empty()));
    let request = json!({"receiver": "bob", "timeout": 0, "queues": {"q": now}});
    let (_, body) = eventually("it comes again", || Some(pull(port, &request)).filter(|answer| answer.0 == 200));
    assert!(body.contains("\"created_time\":\"2") && body.contains("\"id\":1,"), "{body}");
    assert_eq!(again(), [1]);
    assert_eq!(got(port, "bob", &now), [0; 0], "it has failed");
    let rows = sql(port, "SELECT m_id, fail_count FROM q_rst WHERE status = 'failed'");
    assert_eq!(rows, json!([{"m_id": 1, "fail_count": 2}]));
    assert_eq!(got(port, "eve", &json!({"max": 2, "retry_num": 0})), [1, 2]);
    assert_eq!(got(port, "eve", &now), [0; 0]);
    finish(site);
}

#[test]
fn many_results_are_saved_and_many_messages_come_again_together() {
    let site = started();
    let port = site.port;
    let texts: Vec<String> = (1..=150).map(|id| format!("text {id}")).collect();
    assert_eq!(post(port, &json!({"q": texts, "r": ["c"]})).0, 200);
    let all: Vec<u64> = (1..=150).collect();
    assert_eq!(got(port, "bob", &json!({"max": 200})), all);
    assert_eq!(got(port, "eve", &json!({"max": 200})), all);
    assert_eq!(pull(port, &json!({"receiver": "bob", "timeout": 0, "queues": {"r": {}}})).0, 200);
    // Those of 1 to 100, each its own; one that nobody has had, and another queue's.
    let mut results: serde_json::Map<String, Value> = (1..=100).map(|id| (id.to_string(), json!(id * 3))).collect();
    results.insert("999".into(), json!("nobody's"));
    let saved = pull(port, &json!({"receiver": "bob", "results": {"q": results, "r": {"1": "other"}}}));
    assert_eq!(saved, (200, String::new()));
    let count = "SELECT COUNT(*) AS n FROM q_rst WHERE receiver = 'bob' AND status = 'finished' \
                 AND result = CAST(m_id * 3 AS CHAR)";
    assert_eq!(sql(port, count), json!([{"n": 100}]));
    let others = sql(port, "SELECT COUNT(*) AS n FROM q_rst WHERE receiver = 'eve' AND status <> 'processing'");
    assert_eq!(others, json!([{"n": 0}]));
    assert_eq!(sql(port, "SELECT status, result FROM r_rst"), json!([{"status": "finished", "result": "other"}]));

    // More than are read at once come again with one answer, in their order; what has a result does not.
    let now = json!({"fail_timeout": 0, "retry_num": 2, "max": 40});
    let again = || eventually("they come again", || Some(got(port, "bob", &now)).filter(|ids| !ids.is_empty()));
    assert_eq!(again(), (101..=140).collect::<Vec<u64>>());
    let failed = sql(port, "SELECT COUNT(*) AS n FROM q_rst WHERE receiver = 'bob' AND fail_count = 1");
    assert_eq!(failed, json!([{"n": 40}]));
    finish(site);
}

#[test]
fn bad_requests_are_refused_and_store_nothing() {
    let site = started();
    let port = site.port;
    let refused = |path: &str, body: &str, expected: &str| {
        let answered = text(send(port, "POST", path, body));
        assert_eq!(answered, (400, format!("\"{expected}\"")), "{body}");
    };
    refused("nq/post", "{}", "bad parameter `messages`");
    refused("nq/post", r#"{"messages":{}}"#, "messages should not be empty");
    refused("nq/post", r#"{"messages":{"q":[]}}"#, "messages should not be empty");
    refused("nq/post", r#"{"messages":{"q":"a"}}"#, "bad paramter `messages`");
    refused("nq/post", r#"{"messages":{"q":["a",7]}}"#, "messages must be strings");
    refused("nq/post", r#"{"sender":7,"messages":{"q":["a"]}}"#, "bad parameter `sender`");
    refused("nq/pull", "{}", "receiver name is required");
    refused("nq/pull", r#"{"receiver":"bob"}"#, "queues or results are required");
    refused("nq/pull", r#"{"receiver":"bob","queues":{"q":{"max":0}}}"#, "bad parameter `max`");
    refused("nq/pull", r#"{"receiver":"bob","queues":{"q":{"start":-3}}}"#, "bad parameter `start`");
    refused("nq/pull", r#"{"receiver":"bob","timeout":"x","queues":{"q":{}}}"#, "bad parameter `timeout`");
    let many = json!({"messages": {"q": vec!["a"; 1001]}}).to_string();
    refused("nq/post", &many, "a queue gets up to 1000 messages at once");
    let queues: serde_json::Map<String, Value> = (0..1001).map(|number| (format!("q{number}"), json!([]))).collect();
    refused("nq/post", &json!({"messages": queues}).to_string(), "a request is of up to 1000 queues");
    for wanted in ["queues", "results"] {
        let request = json!({"receiver": "bob", wanted: queues}).to_string();
        refused("nq/pull", &request, "a request is of up to 1000 queues");
    }
    let large = json!({"messages": {"q": ["a".repeat((1 << 20) + 1)]}}).to_string();
    refused("nq/post", &large, "a message has more than 1048576 bytes");
    for name in ["a/b", "a'b", "a`b", "a\u{0}", "", &"a".repeat(61)] {
        assert_eq!(post(port, &json!({ name: ["a"] })).0, 400, "{name:?}");
        assert_eq!(pull(port, &json!({"receiver": "bob", "queues": {name: {}}})).0, 400, "{name:?}");
    }
    assert_eq!(text(send(port, "POST", "nq/post", "{")).0, 400);
    assert_eq!(text(send(port, "GET", "nq/pull", "")).0, 501);
    assert_eq!(text(send(port, "POST", "nq/query", "{}")).0, 400);
    assert_eq!(sql(port, "SHOW TABLES").to_string().matches("q_").count(), 0);
    // Texts are values, whatever stands in them.
    let text = "'); DROP TABLE q_msg; -- \u{0}\\ \"`";
    assert_eq!(post(port, &json!({"q": [text]})), (200, r#"{"q":[1]}"#.into()));
    let (_, body) = pull(port, &json!({"receiver": text, "queues": {"q": {}}}));
    let answer: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(answer["messages"]["q"][0]["message"], json!(text));
    finish(site);
}

#[test]
fn an_answer_ends_behind_eight_megabytes() {
    let site = started();
    let port = site.port;
    let large = "a".repeat(1 << 20);
    assert_eq!(post(port, &json!({"q": vec![large.as_str(); 20]})).0, 200);
    assert_eq!(got(port, "bob", &json!({"max": 20})), (1..=8).collect::<Vec<u64>>());
    assert_eq!(got(port, "bob", &json!({"max": 20})), (9..=16).collect::<Vec<u64>>());
    assert_eq!(got(port, "bob", &json!({"max": 20})), [17, 18, 19, 20]);
    finish(site);
}
