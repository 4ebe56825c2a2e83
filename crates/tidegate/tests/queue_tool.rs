//! `tidegate queue`, beside a running server and on a directory that nobody has open.

mod support;

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;
use support::{Site, binary, eventually, finish, get};

const SERVER: &str = "location /q/ { queue_api; queue_wait_max 5m; }";

fn queue(site: &Site, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = binary();
    command.arg("queue").args(arguments).arg("--data").arg(site.dir.join("data"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("begun");
    child.stdin.take().expect("a pipe").write_all(input).expect("written");
    finish(child)
}

#[track_caller]
fn prints(site: &Site, arguments: &[&str], input: &[u8], expected: &str) {
    let output = queue(site, arguments, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{arguments:?}: {said}");
}

#[track_caller]
fn fails(site: &Site, arguments: &[&str], input: &[u8], expected: &str) {
    let output = queue(site, arguments, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
}

/// The bodies of a file that was drained into; each line has a whole message.
fn drained(site: &Site, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(site.dir.join(file)).expect("the file");
    let bodies = text.lines().map(|line| {
        let message: Value = serde_json::from_str(line).expect("JSON");
        message["body"].as_str().or(message["base64"].as_str()).expect("a body").to_owned()
    });
    bodies.collect()
}

fn request(site: &Site, method: &str, path: &str) -> String {
    let mut client = support::connect(site.port).expect("the server accepts");
    let head = format!("{method} /q/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    client.write_all(head.as_bytes()).expect("sent");
    std::io::read_to_string(client).expect("an answer")
}

fn started() -> Site {
    let mut site = Site::new("worker_processes 2;", SERVER);
    site.start();
    site
}

#[test]
fn messages_go_in_and_out_beside_a_server() {
    let site = started();
    // A consumer that waits is woken by the command line.
    let port = site.port;
    let consumer = std::thread::spawn(move || {
        let mut client = support::connect(port).expect("the server accepts");
        let head = "POST /q/mail/pull?wait=5m HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        client.write_all(head.as_bytes()).expect("sent");
        std::io::read_to_string(client).expect("an answer")
    });
    eventually("the consumer waits", || {
        get(port, "/q/mail").unwrap_or_default().contains("\"waiting_consumers\":1").then_some(())
    });
    prints(&site, &["publish", "mail"], b"one\n\ntwo\n\xff\xfe\nlast", "4 messages\n");
    assert!(consumer.join().expect("pulled").contains("\"body\":\"one\""));
    prints(&site, &["publish", "mail", "--whole", "--priority", "1"], b"a\nb\n", "1 messages\n");
    let file = site.dir.join("out.json");
    let file = file.to_str().expect("a path");
    // What the consumer has stays with it. A line that a crash has cut is left alone.
    std::fs::write(file, "\"cut").expect("written");
    prints(&site, &["drain", "mail", file], b"", "4 messages\n");
    let text = std::fs::read_to_string(file).expect("the file");
    std::fs::write(file, text.strip_prefix("\"cut\n").expect("the line ends")).expect("written");
    assert_eq!(drained(&site, "out.json"), ["a\nb\n", "two", "//4=", "last"]);
    prints(&site, &["drain", "mail", file], b"", "0 messages\n");
    // What was drained can be published as it was.
    let lines = std::fs::read(file).expect("the file");
    prints(&site, &["publish", "other", "--json"], &lines, "4 messages\n");
    let again = site.dir.join("again.json");
    prints(&site, &["drain", "other", again.to_str().expect("a path")], b"", "4 messages\n");
    assert_eq!(drained(&site, "again.json"), drained(&site, "out.json"));
    // More than one commit and one pull take.
    let many: String = (0..1000).map(|number| format!("{number}\n")).collect();
    prints(&site, &["publish", "many"], many.as_bytes(), "1000 messages\n");
    let all = site.dir.join("many.json");
    prints(&site, &["drain", "many", all.to_str().expect("a path")], b"", "1000 messages\n");
    assert_eq!(drained(&site, "many.json"), (0..1000).map(|number| number.to_string()).collect::<Vec<_>>());
    fails(&site, &["publish", "a/b"], b"x", "a queue's name has");
    fails(&site, &["publish", "mail", "--json"], b"{\"body\":1}", "wrong type");
    fails(&site, &["publish", "mail", "--json"], b"{", "no JSON");
    fails(&site, &["publish", "mail", "--delay", "soon"], b"x", "is no time");
    fails(&site, &["drain", "mail", "/nowhere/file"], b"", "/nowhere/file");
    // A file that takes nothing: the messages stay.
    prints(&site, &["publish", "full"], b"x\n", "1 messages\n");
    fails(&site, &["drain", "full", "/dev/full"], b"", "/dev/full");
    let kept = site.dir.join("full.json");
    prints(&site, &["drain", "full", kept.to_str().expect("a path")], b"", "1 messages\n");
}

#[test]
fn dead_messages_are_sent_again_or_deleted() {
    let mut site = started();
    request(&site, "PATCH", "mail?attempts_max=1");
    prints(&site, &["publish", "mail"], b"a\nb\nc\n", "3 messages\n");
    for _ in 0..3 {
        let pulled = request(&site, "POST", "mail/pull");
        let receipt = pulled.split("\"receipt\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a receipt");
        request(&site, "POST", &format!("mail/refuse?receipt={receipt}"));
    }
    prints(&site, &["list"], b"", "queue\twaiting\tdelayed\tdead\nmail\t0\t0\t3\n");
    prints(&site, &["resend", "mail", "2"], b"", "1 messages\n");
    prints(&site, &["delete", "mail", "1", "7"], b"", "1 messages\n");
    prints(&site, &["list"], b"", "queue\twaiting\tdelayed\tdead\nmail\t1\t0\t1\n");
    site.quit();
    // Without a server the directory is opened here.
    prints(&site, &["resend", "mail"], b"", "1 messages\n");
    prints(&site, &["delete", "mail"], b"", "0 messages\n");
    let published = queue(&site, &["publish", "mail"], b"d\n");
    assert_eq!(String::from_utf8_lossy(&published.stdout), "1 messages\n");
    let said = String::from_utf8_lossy(&published.stderr);
    assert!(said.contains("limits of its configuration are not known"), "{said}");
    let file = site.dir.join("out.json");
    prints(&site, &["drain", "mail", file.to_str().expect("a path")], b"", "3 messages\n");
    assert_eq!(drained(&site, "out.json"), ["b", "c", "d"]);
}
