//! What stands beside HTTP/2: priorities of responses (RFC 9218), other protocols on a stream (RFC 8441).

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use support::Site;
use support::http2::{Client, head};
use tidegate_http::hpack::encode;
use tidegate_http::http2::{ErrorCode, STREAM_MAX, flag, kind, setting, write_window_update};

/// Length of `/big`, in bytes: ten frames.
const BIG_BYTES: usize = 10 * 8192;

fn site(server: &str) -> Site {
    let locations = "location = / { return 200 ok; } location = /big { alias big; }";
    let mut site = Site::new("", &format!("http2 on; {locations} {server}"));
    std::fs::write(site.dir.join("big"), vec![b'b'; BIG_BYTES]).expect("written");
    site.start();
    site
}

fn update(client: &mut Client<TcpStream>, stream: u32, field: &str) {
    client.send(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes(), field.as_bytes()].concat());
}

/// Asks for `/big` once for each field, in an order of turns that does not show yet: the window of the connection is used up.
fn ask(site: &Site, early: &[(u32, &str)], fields: &[Option<&str>]) -> Client<TcpStream> {
    let mut client = Client::with_settings(site.port, &[(setting::INITIAL_WINDOW_SIZE, STREAM_MAX)]);
    client.get(1, "/big");
    let mut left = 65_535;
    while left > 0 {
        left -= client.frame_of(kind::DATA).expect("a part").payload.len();
    }
    update(&mut client, 1, "u=7");
    for (stream, field) in early {
        update(&mut client, *stream, field);
    }
    client.frame_of(kind::HEADERS).expect("the head");
    for (at, field) in fields.iter().enumerate() {
        let field = field.map(|field| ("priority", field));
        client.send_bytes(&head(2 * at as u32 + 3, "GET", "/big", field.as_slice(), true));
    }
    for _ in fields {
        client.frame_of(kind::HEADERS).expect("a head");
    }
    client
}

/// Opens the window; gives the streams in the order in which their bodies came, without those that are the same.
#[track_caller]
fn order(mut client: Client<TcpStream>, streams: usize) -> Vec<u32> {
    let mut out = Vec::new();
    write_window_update(0, 1 << 24, &mut out);
    client.send_bytes(&out);
    let mut order = Vec::new();
    let mut ended = 0;
    while ended < streams {
        let frame = client.frame_of(kind::DATA).expect("a part");
        order.push(frame.header.stream);
        ended += usize::from(frame.header.has(flag::END_STREAM));
    }
    order.dedup();
    order
}

#[test]
fn urgent_responses_come_first() {
    let mut site = site("");
    let client = ask(&site, &[], &[Some("u=5"), Some("u=1"), Some("u=1"), None, Some("u=0, i")]);
    assert_eq!(order(client, 6), [11, 5, 7, 9, 3, 1]);
    site.quit();
}

#[test]
fn responses_of_which_a_part_is_of_use_take_turns() {
    let mut site = site("");
    let client = ask(&site, &[], &[Some("u=2, i"), Some("i, u=2")]);
    let expected: Vec<u32> = [3, 5].repeat(10).into_iter().chain([1]).collect();
    assert_eq!(order(client, 3), expected);
    // So do those of a client that says nothing.
    let client = ask(&site, &[], &[None, None]);
    assert_eq!(order(client, 3), expected);
    site.quit();
}

#[test]
fn frames_change_priorities() {
    let mut site = site("");
    // The one that comes before the request has the last word.
    let mut client = ask(&site, &[(5, "u=0")], &[Some("u=1"), Some("u=6"), Some("u=5")]);
    update(&mut client, 7, "u=2");
    update(&mut client, 7, "u=4");
    assert_eq!(order(client, 4), [5, 3, 7, 1]);
    // There may be any number of them, for any streams.
    let mut client = Client::new(site.port);
    for stream in 0..500 {
        update(&mut client, 2 * stream + 1, "u=1");
    }
    client.get(1, "/");
    assert_eq!(client.answer(1).text(), "ok");
    update(&mut client, 1, "u=2");
    update(&mut client, 0, "u=2");
    assert_eq!(client.goaway(), ErrorCode::ProtocolError as u32);
    let mut client = Client::new(site.port);
    client.send(kind::PRIORITY_UPDATE, 0, 0, b"123");
    assert_eq!(client.goaway(), ErrorCode::FrameSizeError as u32);
    site.quit();
}

#[test]
fn priorities_that_change_without_end_are_too_many() {
    let mut site = site("");
    let mut client = ask(&site, &[], &[None]);
    let mut frames = Vec::new();
    for number in 0..1000 {
        let payload = [&3u32.to_be_bytes()[..], format!("u={}", number % 8).as_bytes()].concat();
        tidegate_http::http2::write_frame(kind::PRIORITY_UPDATE, 0, 0, &payload, &mut frames);
    }
    while client.try_send(&frames) {}
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    site.quit();
}

/// A server that consents to another protocol, says hello and sends back what it gets, until the end of it. Gives the head
/// that it got.
fn echo() -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let mut socket = support::accept(&listener);
        let mut text = Vec::new();
        let mut piece = [0; 4096];
        while !text.ends_with(b"\r\n\r\n") {
            let count = socket.read(&mut piece).expect("a head");
            text.extend_from_slice(&piece[..count]);
        }
        let consent = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                       Sec-WebSocket-Accept: x\r\nX-More: y\r\n\r\nhello";
        socket.write_all(consent.as_bytes()).expect("sent");
        loop {
            match socket.read(&mut piece) {
                Ok(count @ 1..) if !piece[..count].ends_with(b"bye") => {
                    socket.write_all(&piece[..count]).expect("sent")
                }
                _ => return String::from_utf8(text).expect("text"),
            }
        }
    });
    (port, server)
}

fn tunnels(port: u16) -> String {
    let fields = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";
    format!("location = /chat {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; {fields} }}")
}

/// Asks for a WebSocket.
fn connect(client: &mut Client<TcpStream>, stream: u32, path: &str) {
    client.send_bytes(&head(stream, "CONNECT", path, &[(":protocol", "websocket")], false));
}

/// Reads so many bytes of any stream.
#[track_caller]
fn read(client: &mut Client<TcpStream>, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        bytes.extend(client.frame_of(kind::DATA).expect("more").payload);
    }
    bytes
}

#[test]
fn a_websocket_has_a_stream() {
    let (port, server) = echo();
    let mut site = site(&tunnels(port));
    let mut client = Client::with_settings(site.port, &[(setting::INITIAL_WINDOW_SIZE, STREAM_MAX)]);
    let mut out = Vec::new();
    write_window_update(0, 1 << 24, &mut out);
    client.send_bytes(&out);
    let settings = client.frame_of(kind::SETTINGS).expect("settings").payload;
    assert!(settings.as_chunks::<6>().0.contains(&[0, 8, 0, 0, 0, 1]), "the client may ask for it: {settings:?}");
    connect(&mut client, 1, "/chat");
    assert_eq!(read(&mut client, 5), b"hello");
    for _ in 0..10 {
        client.send(kind::DATA, 0, 1, &[b'x'; 10_000]);
        assert_eq!(read(&mut client, 10_000), [b'x'; 10_000]);
    }
    // Others share the connection.
    client.get(3, "/");
    assert_eq!(client.answer(3).text(), "ok");
    client.send(kind::DATA, flag::END_STREAM, 1, b"");
    let answer = client.answer(1);
    assert!(answer.head.starts_with(":status: 200\n") && answer.head.contains("x-more: y\n"), "{}", answer.head);
    assert!(!answer.head.contains("sec-websocket-accept") && answer.reset.is_none(), "{answer:?}");
    let head = server.join().expect("no panic").to_ascii_lowercase();
    assert!(head.starts_with("get /chat http/1.1\r\n") && head.contains("\r\nupgrade: websocket\r\n"), "{head}");
    assert!(head.contains("\r\nsec-websocket-key: "), "{head}");
    site.quit();
}

#[test]
fn a_websocket_that_the_other_side_ends() {
    let (port, server) = echo();
    let mut site = site(&tunnels(port));
    let mut client = Client::new(site.port);
    connect(&mut client, 1, "/chat");
    client.send(kind::DATA, 0, 1, b"bye");
    let answer = client.answer(1);
    assert_eq!((answer.text(), answer.reset), ("hello", None));
    // The client need say nothing more.
    client.get(3, "/");
    assert_eq!(client.answer(3).text(), "ok");
    server.join().expect("no panic");
    site.quit();
}

#[test]
fn a_websocket_whose_client_leaves() {
    for is_reset in [false, true] {
        let (port, server) = echo();
        let mut site = site(&tunnels(port));
        let mut client = Client::new(site.port);
        connect(&mut client, 1, "/chat");
        assert_eq!(read(&mut client, 5), b"hello");
        if is_reset {
            client.send(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes());
        } else {
            drop(client);
        }
        // It sees the end of its connection.
        server.join().expect("no panic");
        site.quit();
    }
}

#[test]
fn a_name_whose_server_speaks_no_http2() {
    let mut site = Site::new("", "");
    let other =
        format!("server {{ listen 127.0.0.1:{}; server_name other; location = / {{ return 200 other; }}", site.port);
    site.configure("", &format!("http2 on; location = / {{ return 200 ok; }} }} {other}"));
    site.start();
    let mut client = Client::new(site.port);
    let ask = |client: &mut Client<TcpStream>, stream, name: &str| {
        let mut block = Vec::new();
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", name)] {
            encode::field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        client.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &block);
        client.answer(stream)
    };
    assert_eq!(ask(&mut client, 1, "localhost").text(), "ok");
    assert!(ask(&mut client, 3, "other").head.starts_with(":status: 421\n"));
    assert_eq!(ask(&mut client, 5, "localhost").text(), "ok");
    site.quit();
}

#[test]
fn without_keep_alive_there_is_one_request() {
    let mut site = site("keepalive_timeout 0;");
    let mut client = Client::new(site.port);
    client.frame_of(kind::SETTINGS).expect("settings");
    client.get(1, "/");
    assert_eq!(client.answer(1).text(), "ok");
    assert_eq!(client.farewell(), (1, ErrorCode::NoError as u32));
    assert!(client.frame().is_none());
    site.quit();
}

#[test]
fn connect_is_not_allowed() {
    let mut site = site("");
    let mut client = Client::new(site.port);
    client.send_bytes(&head(1, "CONNECT", "/", &[], true));
    assert!(client.answer(1).head.starts_with(":status: 405\n"));
    site.quit();
}

#[test]
fn who_does_not_consent() {
    let mut site = site("location = /no { return 403; }");
    let mut client = Client::new(site.port);
    // Any success would be leave to go on.
    connect(&mut client, 1, "/");
    let answer = client.answer(1);
    assert!(answer.head.starts_with(":status: 501\n"), "{answer:?}");
    connect(&mut client, 3, "/no");
    assert!(client.answer(3).head.starts_with(":status: 403\n"));
    client.send_bytes(&head(5, "GET", "/", &[(":protocol", "websocket")], true));
    assert!(client.answer(5).head.starts_with(":status: 400\n"));
    assert_eq!(client.reset(), (5, ErrorCode::ProtocolError as u32));
    client.get(7, "/");
    assert_eq!(client.answer(7).text(), "ok");
    site.quit();
}
