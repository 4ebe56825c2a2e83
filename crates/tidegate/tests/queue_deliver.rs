//! `queue_deliver`: a location runs for each message.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use support::queues::{send, text};
use support::{PATIENCE, Site, accept, eventually};

/// What the location `= /told` answers: a list of what scripts have noted in the shared dictionary, sorted.
const TOLD: &str = r#"
    location = /told { content_by_lua_block {
        local told = {}
        for _, key in ipairs(ngx.shared.told:get_keys(0)) do told[#told + 1] = key .. "=" .. ngx.shared.told:get(key) end
        table.sort(told)
        ngx.print(require("cjson").encode({ told = told }))
    } }
"#;

fn configure(site: &Site, server: &str) {
    let port = site.port;
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{}}
         database {{ schema tidegate_queue; }}
         http {{ lua_shared_dict told 1m;
             log_format short '$status $request_uri';
             server {{ listen 127.0.0.1:{port}; server_name example.com; {TOLD} {server}
                 location / {{ queue_api; }} }} }}",
    ));
}

fn started(server: &str) -> Site {
    let mut site = Site::new("", "");
    configure(&site, server);
    site.start();
    site
}

fn publish(port: u16, path: &str, body: &str) {
    let (status, told) = text(send(port, "POST", path, body));
    assert_eq!(status, 200, "{told}");
}

fn told(port: u16) -> Value {
    serde_json::from_str::<Value>(&text(send(port, "GET", "told", "")).1).expect("JSON")["told"].clone()
}

fn statistics(port: u16, queue: &str) -> Value {
    serde_json::from_str(&text(send(port, "GET", queue, "")).1).expect("JSON")
}

/// Waits until no message of the queue is left.
fn wait_until_empty(port: u16, queue: &str) {
    eventually("all messages are delivered", || {
        let told = statistics(port, queue);
        ["ready", "leased", "delayed"].iter().all(|name| told[name] == 0).then_some(())
    });
}

#[test]
fn a_script_gets_the_message_and_its_headers() {
    let mut site = started(
        r#"queue_deliver mail /hooks/mail?from=queue;
           location = /hooks/mail { internal; access_log logs/hooks.log short; deny all; content_by_lua_block {
               local headers = ngx.req.get_headers()
               ngx.req.read_body()
               ngx.shared.told:set(headers["Queue-Message"], table.concat({
                   ngx.req.get_method(), ngx.var.arg_from, headers["Queue-Name"], headers["Queue-Attempts"], headers["Content-Type"],
                   tostring(headers["Queue-Header-lang"]), tostring(headers["Queue-Header-bad"]), headers.Host, ngx.req.get_body_data() or "-",
               }, " "))
               ngx.print("done")
           } }"#,
    );
    let port = site.port;
    let batch = json!([
        {"body": "a", "headers": {"lang": "en", "bad": "x\r\ny: z", "content-type": "text/plain"}},
        {"body": "b\r\n\r\nc"},
        {"body": ""},
    ]);
    publish(port, "mail/batch", &batch.to_string());
    wait_until_empty(port, "mail");
    let expected = json!([
        "1=POST queue mail 0 text/plain en nil example.com a",
        "2=POST queue mail 0 application/octet-stream nil nil example.com b\r\n\r\nc",
        "3=POST queue mail 0 application/octet-stream nil nil example.com -",
    ]);
    assert_eq!(told(port), expected);
    let logged = std::fs::read_to_string(site.dir.join("logs/hooks.log")).expect("a log");
    assert_eq!(logged, "200 /hooks/mail?from=queue\n".repeat(3));
    // Whoever publishes may wait for what the location answers.
    assert_eq!(text(send(port, "POST", "mail?wait=1m", "d")), (200, "done".to_owned()));
    // Fields of a request are headers of its message.
    let with_fields = |fields: &[u8]| {
        let mut client = support::connect(port).expect("the server accepts");
        let head = b"POST /mail?wait=1m HTTP/1.0\r\nHost: a\r\nContent-Length: 1\r\n";
        client.write_all(&[head, fields, b"\r\ne"].concat()).expect("sent");
        text(client)
    };
    let fields = b"queue-header-LANG: de\r\nQueue-Header-Content-Type: text/html\r\nQueue-Header-Lang: en\r\n";
    assert_eq!(with_fields(fields), (200, "done".to_owned()));
    let (status, refused) = with_fields(b"Queue-Header-Bad: \xff\r\n");
    assert!(status == 400 && refused.contains("is not UTF-8"), "{status} {refused}");
    assert_eq!(told(port)[4], "5=POST queue mail 0 text/html de, en nil example.com e");
    assert_eq!(told(port).as_array().map(Vec::len), Some(5));
    site.quit();
    assert!(!site.log().contains("[error]") && !site.log().contains("[alert]"), "{}", site.log());
}

#[test]
fn what_fails_comes_again_until_it_is_dead() {
    let mut site = started(
        r#"queue_deliver mail /hooks/mail concurrency=3 backoff=10ms backoff_max=20ms;
           location = /hooks/mail { content_by_lua_block {
               local headers = ngx.req.get_headers()
               ngx.req.read_body()
               local body = ngx.req.get_body_data()
               ngx.shared.told:incr(body, 1, 0)
               if body == "panic" then error("no") end
               if body == "once" and headers["Queue-Attempts"] == "1" then return ngx.exit(204) end
               ngx.exit(body == "good" and 200 or 503)
           } }"#,
    );
    let port = site.port;
    assert_eq!(text(send(port, "PATCH", "mail?attempts_max=3", "")).0, 200);
    for body in ["once", "never", "panic", "good"] {
        publish(port, "mail", body);
    }
    wait_until_empty(port, "mail");
    assert_eq!(told(port), json!(["good=1", "never=3", "once=2", "panic=3"]));
    assert_eq!(statistics(port, "mail")["dead"], 2);
    assert!(site.log().contains("has failed: status 503"), "{}", site.log());
    site.quit();
}

/// A web hook: answers the request on `client` with a status, when its body has come.
fn answer(mut client: &TcpStream, status: u16) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    while !text.ends_with(b"!") {
        let count = client.read(&mut buffer).expect("a request");
        assert!(count > 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&buffer[..count]);
    }
    if status > 0 {
        write!(client, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("answered");
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn hook(concurrency: usize, upstream: u16) -> String {
    format!(
        "queue_deliver mail /hooks/mail concurrency={concurrency} backoff=10ms backoff_max=20ms; queue_lease 5m;
         location = /hooks/mail {{ internal; proxy_pass http://127.0.0.1:{upstream}/in; proxy_next_upstream off; }}"
    )
}

#[test]
fn a_web_hook_gets_so_many_at_a_time_and_a_reload_cuts_none_off() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream_port = upstream.local_addr().expect("an address").port();
    let mut site = started(&hook(2, upstream_port));
    let port = site.port;
    for number in 0..4 {
        publish(port, "mail", &format!("{number}!"));
    }
    let (first, second) = (accept(&upstream), accept(&upstream));
    // As many as may run at a time, over both workers.
    assert_eq!(statistics(port, "mail")["leased"], 2);
    let text = answer(&first, 500);
    assert!(text.starts_with("POST /in HTTP/1.") && text.contains("Queue-Name: mail\r\n"), "{text}");
    // A server that says nothing, and closes.
    answer(&second, 0);
    drop(second);
    // In the middle of deliveries, which end as they would have, and their places are taken until then.
    let third = accept(&upstream);
    site.signal(nix::sys::signal::Signal::SIGHUP);
    site.wait_for_log("reconfiguring");
    answer(&third, 200);
    eventually("all messages are delivered", || {
        if let Ok((client, _)) = upstream.accept() {
            client.set_nonblocking(false).expect("set");
            client.set_read_timeout(Some(PATIENCE)).expect("set");
            answer(&client, 204);
        }
        let told = statistics(port, "mail");
        ["ready", "leased", "delayed"].iter().all(|name| told[name] == 0).then_some(())
    });
    assert_eq!(statistics(port, "mail")["dead"], 0);
    site.quit();
    assert!(!site.log().contains("[alert]"), "{}", site.log());
}

#[test]
fn a_killed_server_delivers_again() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut site = started(&hook(1, upstream.local_addr().expect("an address").port()));
    publish(site.port, "mail", "a!");
    let first = accept(&upstream);
    site.kill();
    drop(first);
    site.start();
    let again = accept(&upstream);
    assert!(answer(&again, 200).ends_with("a!"));
    wait_until_empty(site.port, "mail");
    site.quit();
}

#[test]
fn a_location_that_takes_too_long_is_given_up() {
    let mut site = started(
        r#"queue_lease 50ms; queue_deliver mail /hooks/mail backoff=10ms backoff_max=10ms;
           location = /hooks/mail { content_by_lua_block {
               if ngx.req.get_headers()["Queue-Attempts"] == "0" then ngx.sleep(1000) end
           } }"#,
    );
    publish(site.port, "mail", "a");
    site.wait_for_log("has failed: no answer within 0.05 s");
    wait_until_empty(site.port, "mail");
    site.quit();
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    for (directive, expected) in [
        ("queue_deliver mail hooks;", "this is no path of a location: \"hooks\""),
        ("queue_deliver ma/il /hooks;", "a queue's name has"),
        ("queue_deliver mail /hooks concurrency=0;", "invalid parameter \"concurrency=0\""),
        ("queue_deliver mail /hooks backoff=soon;", "invalid parameter \"backoff=soon\""),
        ("queue_deliver mail /hooks; queue_deliver mail /hooks concurrency=2;", "duplicate delivery"),
        ("queue_deliver mail;", "invalid number of arguments"),
    ] {
        let site = Site::new("", "");
        configure(&site, directive);
        let output = site.run(&["-t"]);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains(expected), "{directive}: {err}");
    }
}
