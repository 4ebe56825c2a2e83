//! Early data: requests that come ahead of the end of a handshake, and what becomes of their repetitions.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::version::TLS13;
use support::authority::{Authority, Secure, ask, secure};
use support::{Site, connect, eventually, free_port};

/// A site that tells each request whether it came early, and counts those of `/count`.
struct Early {
    site: Site,
    authority: Authority,
    port: u16,
}

impl Early {
    fn start(server: &str) -> Self {
        let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
        authority.certify(&site, "localhost");
        site.write_conf(&format!(
            "error_log logs/error.log info; pid logs/nginx.pid; worker_processes 2; events {{ }}\n\
             http {{ lua_shared_dict counts 1m; server {{ listen 127.0.0.1:{}; listen 127.0.0.1:{port} ssl;\n\
             ssl_certificate localhost.crt; ssl_certificate_key localhost.key; ssl_early_data on; chunked_transfer_encoding off; {server}\n\
             location / {{ return 200 \"[$ssl_early_data]\"; }}\n\
             location = /late {{ if ($ssl_early_data) {{ return 425; }} return 200 late; }}\n\
             location = /passed {{ proxy_set_header Early-Data $ssl_early_data; proxy_pass http://127.0.0.1:{0}/heard; }}\n\
             location = /heard {{ return 200 \"heard $http_early_data\"; }}\n\
             location = /size {{ client_body_buffer_size 1m; content_by_lua_block {{ ngx.req.read_body() ngx.print(#ngx.req.get_body_data()) }} }}\n\
             location = /count {{ content_by_lua_block {{ ngx.print(ngx.shared.counts:incr('all', 1, 0)) }} }}\n\
             location = /counted {{ content_by_lua_block {{ ngx.print(ngx.shared.counts:get('all') or 0) }} }} }} }}",
            site.port
        ));
        site.start();
        Self { site, authority, port }
    }

    fn client(&self) -> Arc<ClientConfig> {
        let mut client = ClientConfig::clone(&self.authority.client(&[&TLS13]));
        client.enable_early_data = true;
        Arc::new(client)
    }

    fn stream(&self, client: &Arc<ClientConfig>) -> Secure {
        secure(client, connect(self.port).expect("the server accepts"), "localhost")
    }

    /// Sends a request as early as that is possible; how much of it was early, and the answer.
    fn ask(&self, client: &Arc<ClientConfig>, request: &[u8]) -> (usize, String) {
        let mut stream = self.stream(client);
        let early = match stream.conn.early_data() {
            Some(mut writer) => writer.write(request).expect("taken"),
            None => 0,
        };
        stream.write_all(&request[early..]).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a complete answer");
        let accepted = if stream.conn.is_early_data_accepted() { early } else { 0 };
        (accepted, answer)
    }

    /// What a client sends first, with a request in it.
    fn first_flight(&self, client: &Arc<ClientConfig>, request: &str) -> Vec<u8> {
        let mut stream = self.stream(client);
        stream.conn.early_data().expect("a session with early data").write_all(request.as_bytes()).expect("taken");
        let mut flight = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut flight).expect("memory");
        }
        flight
    }

    fn counted(&self) -> String {
        body(&support::get(self.site.port, "/counted").expect("an answer")).to_owned()
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

#[test]
fn a_client_that_comes_again_speaks_early() {
    let mut early = Early::start("");
    let client = early.client();
    let (sent, answer) = early.ask(&client, get("/").as_bytes());
    assert_eq!((sent, body(&answer)), (0, "[]"));
    // Two workers, whoever accepts.
    for _ in 0..20 {
        let (sent, answer) = early.ask(&client, get("/").as_bytes());
        assert_eq!((sent, body(&answer)), (get("/").len(), "[1]"));
    }
    assert!(early.ask(&client, get("/late").as_bytes()).1.starts_with("HTTP/1.1 425"));
    assert_eq!(body(&early.ask(&client, get("/passed").as_bytes()).1), "heard 1");
    // The next request of the same connection has seen the end of the handshake.
    let mut stream = early.stream(&client);
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.conn.early_data().expect("a session").write_all(request.as_bytes()).expect("taken");
    let mut answer = Vec::new();
    while !answer.ends_with(b"[1]") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.push(byte[0]);
    }
    assert_eq!(body(&ask(&mut stream, &get("/"))), "[]");
    // A body goes on behind the handshake.
    for size in [10, 16_000, 100_000] {
        let head =
            format!("POST /size HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n");
        let request = [head.into_bytes(), vec![b'x'; size]].concat();
        let (sent, answer) = early.ask(&client, &request);
        assert_eq!((sent, body(&answer)), (request.len().min(16 << 10), size.to_string().as_str()));
    }
    early.site.quit();
}

#[test]
fn what_was_recorded_is_not_served_again() {
    let mut early = Early::start("");
    let client = early.client();
    early.ask(&client, get("/").as_bytes());
    let flight = early.first_flight(&client, &get("/count"));
    let mut recorded = connect(early.port).expect("the server accepts");
    recorded.write_all(&flight).expect("sent");
    eventually("it is served", || (early.counted() == "1").then_some(()));
    for _ in 0..4 {
        let mut repeated = connect(early.port).expect("the server accepts");
        repeated.write_all(&flight).expect("sent");
        repeated.shutdown(Shutdown::Write).expect("open");
        // The server answers with a handshake of its own, which nobody ends.
        let _ = repeated.read_to_end(&mut Vec::new());
    }
    assert_eq!(early.counted(), "1");
    // What a session was cut in is lost; others go on.
    drop(recorded);
    early.ask(&client, get("/").as_bytes());
    let flight = early.first_flight(&client, &get("/count"));
    for cut in [1, flight.len() - 40, flight.len() - 1] {
        let mut stream = connect(early.port).expect("the server accepts");
        stream.write_all(&flight[..cut]).expect("sent");
        stream.shutdown(Shutdown::Write).expect("open");
        let end = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        assert!(!matches!(end, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{cut}: {end:?}");
    }
    assert_eq!(early.counted(), "1");
    early.site.quit();
}

#[test]
fn many_speak_early_at_once() {
    let mut early = Early::start("");
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let client = early.client();
                for round in 0..4 {
                    let (sent, answer) = early.ask(&client, get("/").as_bytes());
                    assert_eq!(body(&answer), if round == 0 { "[]" } else { "[1]" });
                    assert_eq!(sent > 0, round > 0);
                }
            });
        }
    });
    // A client that never ends its handshake keeps nobody.
    let client = early.client();
    early.ask(&client, get("/").as_bytes());
    let mut stream = connect(early.port).expect("the server accepts");
    stream.write_all(&early.first_flight(&client, &get("/count"))).expect("sent");
    eventually("it is served", || (early.counted() == "1").then_some(()));
    early.site.quit();
}

#[test]
fn only_sessions_that_end_with_their_use_allow_it() {
    for (server, expected) in [
        ("ssl_session_cache shared:tls:1m;", true),
        ("ssl_session_tickets off; ssl_session_cache builtin;", true),
        ("ssl_session_ticket_key ticket.key;", true),
        ("ssl_session_tickets off;", false),
        ("ssl_protocols TLSv1.2;", false),
        ("ssl_session_fetch_by_lua_block { }", false),
        ("ssl_certificate_by_lua_block { }", true),
    ] {
        let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
        authority.certify(&site, "localhost");
        std::fs::write(site.dir.join("conf/ticket.key"), [7; 80]).expect("written");
        let (http, server) = match server.starts_with("ssl_session_fetch") {
            true => (server, ""),
            false => ("", server),
        };
        site.write_conf(&format!(
            "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
             http {{ {http} server {{ listen 127.0.0.1:{}; listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt;\n\
             ssl_certificate_key localhost.key; ssl_early_data on; {server} return 200 \"[$ssl_early_data]\"; }} }}",
            site.port
        ));
        let said = String::from_utf8_lossy(&site.run(&["-t"]).stderr).into_owned();
        let is_told = server.contains("ticket_key") || http.contains("fetch");
        assert_eq!(said.contains("ignored: "), is_told, "{server}{http}: {said}");
        site.start();
        let early = Early { site, authority, port };
        let mut client = ClientConfig::clone(&early.authority.client(&[&TLS13, &rustls::version::TLS12]));
        client.enable_early_data = true;
        let client = Arc::new(client);
        early.ask(&client, get("/").as_bytes());
        let (sent, answer) = early.ask(&client, get("/").as_bytes());
        assert_eq!((sent > 0, body(&answer)), (expected, if expected { "[1]" } else { "[]" }), "{server}{http}");
        let Early { mut site, .. } = early;
        site.quit();
    }
}
