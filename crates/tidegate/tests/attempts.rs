//! What clients try to do to TLS and HTTP/2 is counted, and told when it is much.

mod support;

use std::io::{Read, Write};

use rustls::version::{TLS12, TLS13};
use support::authority::{Authority, ask, secure};
use support::http2::{Client, head};
use support::{Site, connect, free_port};
use tidegate_http::http2::{ErrorCode, flag, kind, write_frame};

/// Handshakes and HTTP/2 as `stub_status full` shows them.
fn shown(site: &Site) -> String {
    let answer = support::get(site.port, "/status").expect("an answer");
    let lines: Vec<_> = answer.lines().skip_while(|line| !line.starts_with("TLS")).map(str::trim).collect();
    lines.join(", ")
}

fn site(server: &str) -> (Site, Authority, u16) {
    let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    authority.certify(&site, "localhost");
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key; ssl_protocols TLSv1.3;";
    site.configure(
        "",
        &format!(
            "listen 127.0.0.1:{port} ssl; {tls} http2 on; location = / {{ return 200 ok; }}\n\
             location = /status {{ stub_status full; }} {server}"
        ),
    );
    site.start();
    (site, authority, port)
}

#[test]
fn handshakes_are_counted() {
    let (mut site, authority, port) = site("client_header_timeout 300ms;");
    assert_eq!(
        shown(&site),
        "TLS handshakes: 0 resumed 0 failed 0 timed out 0, HTTP/2: faults 0 floods 0 resets 0 refused 0"
    );
    let client = authority.client(&[&TLS13]);
    for _ in 0..3 {
        let mut stream = secure(&client, connect(port).expect("the server accepts"), "localhost");
        ask(&mut stream, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    }
    // The protocol is none of the server's; a client that goes; one that goes without a word, which tries nothing.
    let old = authority.client(&[&TLS12]);
    let mut stream = secure(&old, connect(port).expect("the server accepts"), "localhost");
    assert!(stream.write_all(b"GET").is_err(), "a version that the server does not speak");
    connect(port).and_then(|mut socket| socket.write_all(b"\x16\x03\x01")).expect("sent");
    drop(connect(port).expect("the server accepts"));
    let mut slow = connect(port).expect("the server accepts");
    slow.write_all(b"\x16\x03").expect("sent");
    let _ = slow.read_to_end(&mut Vec::new());
    let expected = "TLS handshakes: 3 resumed 2 failed 2 timed out 1, HTTP/2: faults 0 floods 0 resets 0 refused 0";
    support::eventually("the failures are counted", || (shown(&site) == expected).then_some(()));
    assert!(!site.log().contains("within"), "{}", site.log());
    site.quit();
}

#[test]
fn many_failures_are_told_once() {
    let (mut site, _, port) = site("location = /told { return 200 $ssl_handshakes_failed; }");
    for _ in 0..250 {
        connect(port).and_then(|mut socket| socket.write_all(b"\x16\x03\x01\x00\x05hello")).expect("sent");
    }
    support::eventually("the failures are counted", || {
        support::get(site.port, "/told").expect("an answer").ends_with("\r\n\r\n250").then_some(())
    });
    // Another thread writes the log.
    site.wait_for_log("100 TLS handshakes have failed within");
    let log = site.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("100 TLS handshakes have failed within")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("[warn]") && told[0].contains(", 100 since the start;"), "{told:?}");
    assert!(told[0].contains(&format!(", client: 127.0.0.1, server: 127.0.0.1:{port}")), "{told:?}");
    site.quit();
}

#[test]
fn faults_and_floods_of_http2_are_counted() {
    let (mut site, _, _) = site(
        "http2_max_concurrent_streams 2;\n\
         location = /hangs { content_by_lua_block {
             local file repeat ngx.sleep(0.001) file = io.open(ngx.config.prefix() .. 'go') until file file:close() } }",
    );
    // A frame that breaks the rules; header blocks and settings without end.
    let mut client = Client::new(site.port);
    client.send(kind::DATA, 0, 0, b"");
    assert_eq!(client.goaway(), ErrorCode::ProtocolError as u32);
    let mut frames = Vec::new();
    for _ in 0..1000 {
        write_frame(kind::SETTINGS, flag::ACK, 0, b"", &mut frames);
    }
    let mut client = Client::new(site.port);
    while client.try_send(&frames) {}
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    let mut client = Client::new(site.port);
    client.send(kind::HEADERS, 0, 1, b"\x82");
    for _ in 0..100 {
        client.try_send(b"\0\0\0\x09\0\0\0\0\x01");
    }
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    // Two requests are taken back, and count until they have ended: a third one is refused.
    let mut client = Client::new(site.port);
    for stream in [1, 3] {
        client.send_bytes(&head(stream, "GET", "/hangs", &[], true));
        client.send(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes());
    }
    client.get(5, "/");
    assert_eq!(client.reset(), (5, ErrorCode::RefusedStream as u32));
    // Whoever makes the server reset a request takes it back as well.
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "GET", "/hangs", &[], true));
    client.send(kind::WINDOW_UPDATE, 0, 1, &[0; 4]);
    assert_eq!(client.reset(), (1, ErrorCode::ProtocolError as u32));
    std::fs::write(site.dir.join("go"), "").expect("written");
    let expected = "TLS handshakes: 0 resumed 0 failed 0 timed out 0, HTTP/2: faults 1 floods 2 resets 3 refused 1";
    support::eventually("all is counted", || (shown(&site) == expected).then_some(()));
    site.quit();
}
