//! HTTP/2: what clients get over it, and what becomes of those that break or abuse it.

mod support;

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use rustls::version::TLS13;
use support::Site;
use support::authority::{Authority, ask, secure};
use support::http2::{Client, NO_WINDOW, head};
use tidegate_http::hpack::encode;
use tidegate_http::http2::{ErrorCode, PREFACE, STREAM_MAX, flag, kind, setting, write_frame, write_window_update};

const LOCATIONS: &str = "
    http2 on;
    http2_max_concurrent_streams 128;
    http2_body_preread_size 64k;
    client_max_body_size 0;
    location = / { return 200 ok; }
    location = /told { return 200 '$http2 $server_protocol $scheme $host $request_method $http_cookie'; }
    location = /none { return 204; }
    location = /big { alias big; }
    location = /trailers { add_trailer x-end '$status'; return 200 body; }
    location = /proxied { proxy_pass http://127.0.0.1:$server_port/echo; }
    location = /echo { content_by_lua_block {
        ngx.req.read_body() local file = ngx.req.get_body_file()
        ngx.print(file and io.open(file, 'rb'):read('*a') or ngx.req.get_body_data() or 'nothing') } }
    location = /lua { content_by_lua_block {
        ngx.say(1) ngx.flush(true) ngx.sleep(0.001)
        ngx.print(ngx.location.capture('/told').body) } }
    location = /hangs { content_by_lua_block { ngx.log(ngx.WARN, 'hanging')
        local file repeat ngx.sleep(0.001) file = io.open(ngx.config.prefix() .. 'go') until file
        file:close() ngx.say('at last') } }
    location = /socket { content_by_lua_block {
        local sock, err = ngx.req.socket(true) ngx.say(sock and 'got one' or 'refused') } }
";

fn site() -> Site {
    let mut site = Site::new("", LOCATIONS);
    std::fs::write(site.dir.join("big"), big()).expect("written");
    site.start();
    site
}

/// A body of a megabyte.
fn big() -> Vec<u8> {
    (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Ends the requests for `/hangs`.
fn go(site: &Site) {
    std::fs::write(site.dir.join("go"), "").expect("written");
}

/// The server is as it was: it answers a new client, and its log tells of no panic.
#[track_caller]
fn check_unharmed(site: &Site) {
    let mut client = Client::new(site.port);
    client.get(1, "/");
    assert_eq!(client.answer(1).text(), "ok");
    assert!(!site.log().contains("[alert]") && !site.log().contains("panicked"), "{}", site.log());
}

#[test]
fn requests_share_a_connection() {
    let mut site = site();
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "GET", "/told", &[("cookie", "a=1"), ("cookie", "b=2")], true));
    client.get(3, "/lua");
    client.send_bytes(&head(5, "HEAD", "/big", &[], true));
    client.get(7, "/none");
    client.get(9, "/missing");
    client.post(11, "/echo", b"some body");
    client.get(13, "/trailers");
    client.post(15, "/proxied", b"through two servers");
    client.get(17, "/socket");
    let told = client.answer(1);
    assert_eq!(told.text(), "h2c HTTP/2.0 http localhost GET a=1; b=2");
    assert!(told.head.starts_with(":status: 200\nserver: tidegate"), "{}", told.head);
    assert!(!told.head.contains("connection") && !told.head.contains("transfer-encoding"), "{}", told.head);
    assert_eq!(client.answer(3).text(), "1\nh2c HTTP/2.0 http localhost GET ");
    let answer = client.answer(5);
    assert!(answer.head.contains("content-length: 1048576\n") && answer.body.is_empty(), "{answer:?}");
    assert!(client.answer(7).head.starts_with(":status: 204\n"));
    let answer = client.answer(9);
    assert!(answer.head.starts_with(":status: 404\n") && answer.text().contains("404 Not Found"));
    assert_eq!(client.answer(11).text(), "some body");
    let answer = client.answer(13);
    assert_eq!((answer.text(), &answer.trailers[..]), ("body", "x-end: 200\n"));
    assert_eq!(client.answer(15).text(), "through two servers");
    assert_eq!(client.answer(17).text(), "refused\n");
    // HTTP/1 is spoken at the same port.
    assert!(support::get(site.port, "/told").expect("an answer").contains(" HTTP/1.1 http localhost GET "));
    site.quit();
}

#[test]
fn a_handshake_agrees_on_the_protocol() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::new(), support::free_port());
    authority.certify(&site, "localhost");
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
    site.configure("", &format!("listen 127.0.0.1:{port} ssl; {tls} {LOCATIONS}"));
    site.start();
    let config = (*authority.client(&[&TLS13])).clone();
    let connect = |offered: &[&[u8]]| {
        let mut config = config.clone();
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        secure(&Arc::new(config), support::connect(port).expect("the server accepts"), "localhost")
    };
    let mut client = Client::over(connect(&[b"http/1.1", b"h2"]), &[]);
    client.get(1, "/told");
    assert_eq!(client.answer(1).text(), "h2 HTTP/2.0 https localhost GET ");
    // Who does not offer it speaks HTTP/1, and so does whoever says the preface all the same.
    let told = ask(&mut connect(&[b"http/1.1"]), "GET /told HTTP/1.0\r\n\r\n");
    assert!(told.ends_with(" HTTP/1.0 https localhost GET "), "{told}");
    let refused = ask(&mut connect(&[]), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    // Without TLS, a port that wants it does not serve the preface either.
    let mut socket = support::connect(port).expect("the server accepts");
    std::io::Write::write_all(&mut socket, PREFACE).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut socket, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    site.quit();
}

#[test]
fn an_address_speaks_it_whatever_its_servers_say() {
    let (mut site, authority) = (Site::new("", ""), Authority::new());
    authority.certify(&site, "localhost");
    let [plain, tls, with] = [(); 3].map(|()| support::free_port());
    let server = |name: &str, listens: &str, more: &str| {
        format!(
            "server {{ server_name {name}; {listens} ssl_certificate localhost.crt; ssl_certificate_key localhost.key; {more}\n\
             location / {{ return 200 '$http2 $server_name'; }} }}\n"
        )
    };
    // The second server says so of one of its addresses, the third of none.
    let both = format!("listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl;");
    let servers = [
        server("localhost", &format!("{both} listen 127.0.0.1:{with} ssl;"), ""),
        server("second", &format!("{both} listen 127.0.0.1:{with} ssl http2;"), ""),
        server("third", &both, "http2 on;"),
    ];
    site.write_conf(&format!(
        "error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{ server {{ listen 127.0.0.1:{}; return 200 ok; }} {} }}",
        site.port,
        servers.concat()
    ));
    site.start();
    let mut config = (*authority.client(&[&TLS13])).clone();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let agreed = |port: u16| {
        let mut stream = secure(&config, support::connect(port).expect("the server accepts"), "localhost");
        std::io::Write::flush(&mut stream).expect("a handshake");
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
        stream
    };
    let stream = agreed(with);
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = Client::over(stream, &[]);
    client.get(1, "/");
    assert_eq!(client.answer(1).text(), "h2 localhost");
    assert_eq!(agreed(tls).conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    let mut socket = support::connect(plain).expect("the server accepts");
    std::io::Write::write_all(&mut socket, PREFACE).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut socket, &mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    site.quit();
}

#[test]
fn large_bodies_keep_to_the_windows() {
    let mut site = site();
    let big = big();
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    client.get(1, "/big");
    client.get(3, "/big");
    let mut out = Vec::new();
    write_window_update(0, 1 << 24, &mut out);
    write_window_update(3, 1 << 24, &mut out);
    client.send_bytes(&out);
    // The first one has no leave, and holds nobody up.
    assert!(client.answer(3).body == big);
    let mut got = 0;
    for leave in [1, 1, 100, 20_000, 1 << 20] {
        out.clear();
        write_window_update(1, leave, &mut out);
        client.send_bytes(&out);
        let wanted = big.len().min(got + leave as usize);
        while got < wanted {
            let frame = client.frame_of(kind::DATA).expect("more of the body");
            assert_eq!(frame.payload, big[got..got + frame.payload.len()]);
            got += frame.payload.len();
            assert!(got <= wanted, "no more than there is leave for");
        }
    }
    // A body that is larger than its window, as the server gives leave for it.
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/proxied", &[], false));
    let (mut window, mut widest) = (65_535i64, 0);
    for piece in big.repeat(3).chunks(16_384) {
        while window < piece.len() as i64 {
            let frame = client.frame_of(kind::WINDOW_UPDATE).expect("leave for more");
            if frame.header.stream == 1 {
                window += i64::from(u32::from_be_bytes(*frame.payload.first_chunk().expect("a number")));
                widest = widest.max(window);
            }
        }
        client.send(kind::DATA, 0, 1, piece);
        window -= piece.len() as i64;
    }
    out.clear();
    write_window_update(0, 1 << 24, &mut out);
    write_window_update(1, 1 << 24, &mut out);
    client.send_bytes(&out);
    client.send(kind::DATA, flag::END_STREAM, 1, b"");
    assert!(client.answer(1).body == big.repeat(3));
    // A body that is read as it comes gets more leave, so that it need not wait for an answer to each piece.
    assert!((512 << 10..=1 << 20).contains(&widest), "{widest}");
    site.quit();
}

#[test]
fn bodies_wait_for_leave() {
    let mut site = Site::new("", &LOCATIONS.replace("http2_body_preread_size 64k", "http2_body_preread_size 0"));
    site.start();
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/echo", &[], false));
    let leave = std::iter::from_fn(|| client.frame_of(kind::WINDOW_UPDATE)).find(|frame| frame.header.stream == 1);
    assert_eq!(leave.expect("leave").payload, (64u32 << 10).to_be_bytes());
    client.send(kind::DATA, flag::END_STREAM, 1, b"a body");
    assert_eq!(client.answer(1).text(), "a body");
    // Without a reader there is no leave.
    client.post(3, "/hangs", b"a body");
    assert_eq!(client.answer(3).reset, Some(ErrorCode::FlowControlError as u32));
    go(&site);
    check_unharmed(&site);
    site.quit();
}

#[test]
fn malformed_requests_are_answered_and_reset() {
    let mut site = Site::new("", &format!("error_log logs/error.log info; {LOCATIONS}"));
    site.start();
    let mut client = Client::new(site.port);
    let fault = ErrorCode::ProtocolError as u32;
    let check = |client: &mut Client<_>, stream, head: &[u8], body: Option<&[u8]>| {
        client.send_bytes(head);
        if let Some(body) = body {
            client.send(kind::DATA, flag::END_STREAM, stream, body);
        }
        let answer = client.answer(stream);
        assert!(answer.head.starts_with(":status: 400\n") && answer.text().contains("400 Bad Request"), "{answer:?}");
        assert_eq!(client.reset(), (stream, fault));
    };
    for (at, field) in [("a name", "1"), ("connection", "close"), ("x-lines", "a\r\nb: c")].into_iter().enumerate() {
        let stream = 2 * at as u32 + 1;
        check(&mut client, stream, &head(stream, "GET", "/told?malformed", &[field], true), None);
    }
    check(&mut client, 7, &head(7, "GET", "without-slash", &[], true), None);
    check(&mut client, 9, &head(9, "GET", "/", &[("content-length", "1")], true), None);
    // Bodies of another length, which the handler reads: none of it arrives.
    check(&mut client, 11, &head(11, "POST", "/echo", &[("content-length", "5")], false), Some(b"less"));
    check(&mut client, 13, &head(13, "POST", "/proxied", &[("content-length", "3")], false), Some(b"more"));
    // A user in front of the host, and a scheme that is none.
    for (stream, scheme, authority) in [(15, "http", "user@localhost"), (17, "ht tp", "localhost")] {
        let fields = [(":method", "GET"), (":scheme", scheme), (":path", "/proxied"), (":authority", authority)];
        let mut block = Vec::new();
        for (name, value) in fields {
            encode::field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        let mut frame = Vec::new();
        write_frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block, &mut frame);
        check(&mut client, stream, &frame, None);
    }
    client.post(19, "/echo", b"as before");
    assert_eq!(client.answer(19).text(), "as before");
    site.quit();
    let access = std::fs::read_to_string(site.dir.join("logs/access.log")).expect("a log");
    assert_eq!(access.matches("\"GET /told?malformed HTTP/2.0\" 400 ").count(), 3, "{access}");
    assert!(access.contains("\"POST /echo HTTP/2.0\" 400 ") && access.contains("\"-\" 400 "), "{access}");
    let log = site.log();
    for text in [
        "client sent a connection-specific header while reading client request headers",
        "client prematurely closed stream",
    ] {
        assert!(log.contains(text), "{log}");
    }
}

#[test]
fn a_head_that_does_not_come_ends_its_stream() {
    let mut site = Site::new("", &format!("client_header_timeout 100ms; {LOCATIONS}"));
    site.start();
    let mut client = Client::new(site.port);
    // Within a frame, and between two.
    let whole = head(1, "GET", "/", &[("x-y", "remembered")], true);
    client.send_bytes(&whole[..20]);
    assert_eq!(client.reset(), (1, ErrorCode::ProtocolError as u32));
    client.send_bytes(&whole[20..]);
    let (block, whole) = (head(3, "GET", "/", &[], true).split_off(9), &mut Vec::new());
    write_frame(kind::HEADERS, flag::END_STREAM, 3, &block[..5], whole);
    client.send_bytes(whole);
    assert_eq!(client.reset(), (3, ErrorCode::ProtocolError as u32));
    client.send(kind::CONTINUATION, flag::END_HEADERS, 3, &block[5..]);
    client.get(5, "/");
    assert_eq!(client.answer(5).text(), "ok");
    // Beside a request that goes on.
    client.get(7, "/hangs");
    client.send(kind::HEADERS, flag::END_STREAM, 9, &block[..5]);
    assert_eq!(client.reset(), (9, ErrorCode::ProtocolError as u32));
    go(&site);
    assert_eq!(client.answer(7).text(), "at last\n");
    site.quit();
}

#[test]
fn a_shutdown_lets_requests_end() {
    let mut site = site();
    let mut client = Client::new(site.port);
    client.get(1, "/hangs");
    site.wait_for_log("hanging");
    let mut other = Client::new(site.port);
    other.get(1, "/");
    assert_eq!(other.answer(1).text(), "ok");
    let mut silent = Client::new(site.port);
    silent.frame_of(kind::SETTINGS).expect("settings");
    site.signal(Signal::SIGQUIT);
    // What the client begins before it has heard is served.
    assert_eq!(client.farewell(), (STREAM_MAX, ErrorCode::NoError as u32));
    client.get(3, "/");
    assert_eq!(client.answer(3).text(), "ok");
    let heard = |client: &mut Client<_>| {
        let ping = client.frame_of(kind::PING).expect("a question");
        client.send(kind::PING, flag::ACK, 0, &ping.payload);
    };
    heard(&mut client);
    assert_eq!(client.farewell(), (3, ErrorCode::NoError as u32));
    assert_eq!(other.farewell(), (STREAM_MAX, ErrorCode::NoError as u32));
    heard(&mut other);
    assert_eq!(other.farewell(), (1, ErrorCode::NoError as u32));
    assert!(other.frame().is_none(), "a connection without requests closes");
    drop(other);
    // A client that never answers has a moment.
    assert_eq!(silent.farewell(), (STREAM_MAX, ErrorCode::NoError as u32));
    assert_eq!(silent.farewell(), (0, ErrorCode::NoError as u32));
    drop(silent);
    // A stream that comes now is not taken; the one before it ends as if nothing had happened.
    client.get(5, "/");
    go(&site);
    assert_eq!(client.answer(1).text(), "at last\n");
    assert!(client.frame().is_none(), "nothing else comes");
    assert_eq!(site.wait().code(), Some(0), "{}", site.log());
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let mut site = site();
    let slow = &mut Client::with_settings(site.port, &[(setting::INITIAL_WINDOW_SIZE, STREAM_MAX)]);
    let mut out = Vec::new();
    write_window_update(0, STREAM_MAX - 65_535, &mut out);
    slow.send_bytes(&out);
    for number in 0..64 {
        slow.get(2 * number + 1, "/big");
    }
    // Long before these have had their turns, the socket of the first one is full.
    let mut quick = Client::new(site.port);
    for number in 0..200 {
        quick.get(2 * number + 1, "/");
        assert_eq!(quick.answer(2 * number + 1).text(), "ok");
    }
    assert!(slow.answer(127).body == big());
    site.quit();
}

#[test]
fn an_early_answer_lets_the_client_finish() {
    let mut site = site();
    let mut client = Client::new(site.port);
    let ask = |client: &mut Client<_>, stream| {
        client.send_bytes(&head(stream, "POST", "/", &[("content-length", "100000")], false));
        assert_eq!(client.answer(stream).text(), "ok");
    };
    // The rest of the request is still checked.
    ask(&mut client, 1);
    client.send(kind::WINDOW_UPDATE, 0, 1, &[0; 4]);
    assert_eq!(client.reset(), (1, ErrorCode::ProtocolError as u32));
    ask(&mut client, 3);
    client.send(kind::DATA, flag::END_STREAM, 3, b"less than promised");
    assert_eq!(client.reset(), (3, ErrorCode::ProtocolError as u32));
    // A window that is used up will not open again.
    ask(&mut client, 5);
    for _ in 0..4 {
        client.send(kind::DATA, 0, 5, &[0; 16_384]);
    }
    assert_eq!(client.reset(), (5, ErrorCode::NoError as u32));
    // What was on its way is no fault.
    client.send(kind::DATA, flag::END_STREAM, 5, b"late");
    // Those that linger give way to new ones.
    for number in 0..129 {
        client.send_bytes(&head(2 * number + 7, "POST", "/", &[], false));
        assert_eq!(client.answer(2 * number + 7).text(), "ok");
    }
    assert_eq!(client.reset(), (7, ErrorCode::NoError as u32));
    // One that its client ends is over without a word.
    client.send(kind::DATA, flag::END_STREAM, 9, b"");
    client.send(kind::RST_STREAM, 0, 11, &[0; 4]);
    client.send(kind::PING, 0, 0, b"8 bytes.");
    assert_eq!(client.frame().expect("a frame").payload, b"8 bytes.");
    site.quit();
}

#[test]
fn what_lingers_ends_by_time_and_bytes() {
    let mut site = Site::new("", &format!("lingering_timeout 100ms; lingering_time 200ms; {LOCATIONS}"));
    site.start();
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/", &[], false));
    assert_eq!(client.answer(1).text(), "ok");
    assert_eq!(client.reset(), (1, ErrorCode::NoError as u32));
    // A client that neither closes nor stops.
    client.send(kind::DATA, 0, 0, b"");
    assert_eq!(client.goaway(), ErrorCode::ProtocolError as u32);
    assert!(client.frame().is_none());
    while client.try_send(b"x") {
        std::thread::sleep(Duration::from_millis(10));
    }
    site.quit();
    let mut site = Site::new("", &format!("lingering_timeout 1d; lingering_time 1d; {LOCATIONS}"));
    site.start();
    let mut client = Client::new(site.port);
    client.send(kind::DATA, 0, 0, b"");
    assert_eq!(client.goaway(), ErrorCode::ProtocolError as u32);
    while client.try_send(&[0; 65_536]) {}
    check_unharmed(&site);
    site.quit();
}

/// Sends a frame until the server says farewell; answers the code.
#[track_caller]
fn flood(client: &mut Client<std::net::TcpStream>, frames: &[u8]) -> u32 {
    client.socket.set_write_timeout(Some(Duration::from_secs(60))).expect("set");
    while client.try_send(frames) {}
    client.goaway()
}

#[test]
fn floods_end_the_connection() {
    let mut site = site();
    let calm = ErrorCode::EnhanceYourCalm as u32;
    let repeat = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut out = Vec::new();
        for _ in 0..1000 {
            write_frame(kind, flags, stream, payload, &mut out);
        }
        out
    };
    // What is cheap to send and brings nothing.
    let mut client = Client::new(site.port);
    assert_eq!(flood(&mut client, &repeat(kind::SETTINGS, flag::ACK, 0, b"")), calm);
    let mut client = Client::new(site.port);
    assert_eq!(flood(&mut client, &repeat(kind::PRIORITY, 0, 9, b"\0\0\0\x01\x10")), calm);
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/echo", &[], false));
    assert_eq!(flood(&mut client, &repeat(kind::DATA, 0, 1, b"")), calm);
    // A header block without end.
    let mut client = Client::new(site.port);
    client.send(kind::HEADERS, 0, 1, b"\x82");
    assert_eq!(flood(&mut client, &repeat(kind::CONTINUATION, 0, 1, b"")), calm);
    // Streams for which there is no place.
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    let streams: Vec<u8> = (0..1000).flat_map(|number| head(2 * number + 1, "GET", "/big", &[], true)).collect();
    assert!(client.try_send(&streams));
    assert_eq!(client.goaway(), calm);
    check_unharmed(&site);
    site.quit();
}

#[test]
fn trailers_of_requests_are_read_and_dropped() {
    let mut site = site();
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/echo", &[], false));
    client.send(kind::DATA, 0, 1, b"body");
    client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, b"\x00\x05x-sum\x0242");
    assert_eq!(client.answer(1).text(), "body");
    // What HTTP/1 would take for another line is malformed there, too.
    client.send_bytes(&head(3, "POST", "/echo", &[], false));
    client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, b"\x00\x01x\x06a\r\nb:c");
    assert!(client.answer(3).head.starts_with(":status: 400\n"));
    assert_eq!(client.reset(), (3, ErrorCode::ProtocolError as u32));
    check_unharmed(&site);
    site.quit();
}

#[test]
fn requests_that_a_limited_end_cuts_are_logged() {
    let mut site = Site::new("worker_shutdown_timeout 100ms;", LOCATIONS);
    site.start();
    let mut client = Client::new(site.port);
    client.get(1, "/hangs");
    let mut other = support::connect(site.port).expect("the server accepts");
    std::io::Write::write_all(&mut other, b"GET /hangs HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    support::eventually("both hang", || (site.log().matches("hanging").count() == 2).then_some(()));
    site.quit();
    let access = std::fs::read_to_string(site.dir.join("logs/access.log")).expect("a log");
    for line in ["\"GET /hangs HTTP/2.0\" 000 0 ", "\"GET /hangs HTTP/1.1\" 000 0 "] {
        assert_eq!(access.matches(line).count(), 1, "{access}");
    }
}

#[test]
fn requests_that_are_taken_back_are_counted() {
    let mut site = site();
    let mut client = Client::new(site.port);
    let mut frames = Vec::new();
    for number in 0..1000u32 {
        let stream = 2 * number + 1;
        frames.extend(head(stream, "GET", "/hangs", &[], true));
        write_frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes(), &mut frames);
    }
    let _ = client.try_send(&frames);
    // Those that run count though nobody wants their answers: the others are refused.
    let refused = client.frame_of(kind::RST_STREAM).expect("a refusal");
    assert_eq!(refused.payload, (ErrorCode::RefusedStream as u32).to_be_bytes());
    assert_eq!(refused.header.stream, 2 * 128 + 1);
    drop(client);
    go(&site);
    check_unharmed(&site);
    site.quit();
}

#[test]
fn requests_that_are_taken_back_one_by_one_are_too_many_at_last() {
    let mut site = site();
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    let mut farewell = None;
    for number in 0.. {
        let stream = 2 * number + 1;
        client.get(stream, "/big");
        client.send(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes());
        client.send(kind::PING, 0, 0, b"8 bytes.");
        farewell =
            std::iter::from_fn(|| client.frame()).find(|frame| matches!(frame.header.kind, kind::PING | kind::GOAWAY));
        if farewell.as_ref().is_none_or(|frame| frame.header.kind == kind::GOAWAY) {
            break;
        }
    }
    let farewell = farewell.expect("a farewell before the end");
    assert_eq!(farewell.payload[4..], (ErrorCode::EnhanceYourCalm as u32).to_be_bytes());
    check_unharmed(&site);
    site.quit();
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let mut site = Site::new("", &format!("send_timeout 100ms; {LOCATIONS}"));
    site.start();
    for (kind, payload) in [(kind::PING, &b"8 bytes."[..]), (kind::SETTINGS, b"")] {
        let mut client = Client::new(site.port);
        let mut frames = Vec::new();
        for _ in 0..1000 {
            write_frame(kind, 0, 0, payload, &mut frames);
        }
        client.socket.set_write_timeout(Some(Duration::from_secs(60))).expect("set");
        // The server stops to read, and then gives the connection up.
        while client.try_send(&frames) {}
    }
    check_unharmed(&site);
    site.quit();
}

#[test]
fn heads_that_expand_are_bounded() {
    let mut site = site();
    // One field of four thousand bytes goes into the table, then is named so many times.
    let bomb = |times: usize| {
        let mut block = b"\x82\x86\x84\x41\x09localhost\x40\x01x\x7f\xa1\x1e".to_vec();
        block.extend(std::iter::repeat_n(b'y', 4000));
        block.extend(std::iter::repeat_n(0xbe, times));
        block
    };
    const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;
    let mut client = Client::new(site.port);
    client.send(kind::HEADERS, WHOLE, 1, &bomb(20));
    let answer = client.answer(1);
    assert!(answer.head.starts_with(":status: 400\n"), "{answer:?}");
    client.get(3, "/");
    assert_eq!(client.answer(3).text(), "ok");
    // Much more than a head may be ends the connection, wherever it stands.
    client.send(kind::HEADERS, WHOLE, 5, &bomb(3000));
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "POST", "/hangs", &[], false));
    client.send(kind::HEADERS, WHOLE, 1, &bomb(3000));
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    go(&site);
    check_unharmed(&site);
    site.quit();
}

#[test]
fn windows_that_make_no_sense() {
    let mut site = site();
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    client.get(1, "/big");
    let mut out = Vec::new();
    write_window_update(1, (1 << 31) - 1, &mut out);
    write_window_update(1, 1, &mut out);
    client.send_bytes(&out);
    assert_eq!(client.answer(1).reset, Some(ErrorCode::FlowControlError as u32));
    client.get(3, "/big");
    client.send(kind::WINDOW_UPDATE, 0, 3, &[0; 4]);
    assert_eq!(client.answer(3).reset, Some(ErrorCode::ProtocolError as u32));
    // More than the server gave leave for.
    client.send_bytes(&head(5, "POST", "/hangs", &[], false));
    for _ in 0..5 {
        client.send(kind::DATA, 0, 5, &[0; 16_384]);
    }
    assert_eq!(client.answer(5).reset, Some(ErrorCode::FlowControlError as u32));
    client.send(kind::WINDOW_UPDATE, 0, 0, &((1u32 << 31) - 1).to_be_bytes());
    assert_eq!(client.goaway(), ErrorCode::FlowControlError as u32);
    go(&site);
    check_unharmed(&site);
    site.quit();
}

#[test]
fn input_may_come_in_any_pieces_and_end_anywhere() {
    let mut site = site();
    let mut bytes = PREFACE.to_vec();
    write_frame(kind::SETTINGS, 0, 0, b"", &mut bytes);
    bytes.extend(head(1, "POST", "/echo", &[("content-length", "4")], false));
    write_frame(kind::DATA, flag::END_STREAM, 1, b"body", &mut bytes);
    for end in 0..bytes.len() {
        let mut socket = support::connect(site.port).expect("the server accepts");
        std::io::Write::write_all(&mut socket, &bytes[..end]).expect("sent");
    }
    let mut client = Client::over(support::connect(site.port).expect("the server accepts"), &[]);
    for byte in &bytes[PREFACE.len()..] {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.answer(1).text(), "body");
    check_unharmed(&site);
    site.quit();
}
