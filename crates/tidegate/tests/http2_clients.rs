//! HTTP/2: clients that stay for long, take much, give no leave, or change their minds.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rustls::version::TLS13;
use support::authority::{Authority, secure};
use support::http2::{Client, NO_WINDOW, head};
use support::{Site, connect, eventually, free_port};
use tidegate_http::http2::{ErrorCode, STREAM_MAX, flag, kind, setting, write_frame, write_window_update};

const LOCATIONS: &str = "
    http2 on;
    location = / { return 204; }
    location = /file { alias file; }
    location = /page { content_by_lua_block { ngx.print(string.rep('p', 400000)) } }
    location = /late { content_by_lua_block { ngx.sleep(0.001) ngx.exit(204) } }
    location = /hangs { content_by_lua_block {
        local file repeat ngx.sleep(0.001) file = io.open(ngx.config.prefix() .. 'go') until file
        file:close() ngx.say('at last') } }
";

/// A site with a file of so many bytes.
fn site(server: &str, file_bytes: usize) -> Site {
    let mut site = Site::new("", &format!("{server} {LOCATIONS}"));
    std::fs::write(site.dir.join("file"), vec![b'f'; file_bytes]).expect("written");
    site.start();
    site
}

/// Has a request answered that needs no window.
#[track_caller]
fn check_goes_on(client: &mut Client<TcpStream>, stream: u32) {
    client.get(stream, "/");
    let answer = client.answer(stream);
    assert!(answer.head.starts_with(":status: 204\n"), "{answer:?}");
}

#[test]
fn a_connection_lasts_as_long_as_requests_come() {
    let mut site = site("keepalive_timeout 1s;", 1);
    let mut client = Client::new(site.port);
    let begin = Instant::now();
    let mut stream = 1;
    // Each is answered in the moment in which it comes.
    while begin.elapsed() < Duration::from_secs(3) {
        check_goes_on(&mut client, stream);
        stream += 2;
        std::thread::sleep(Duration::from_millis(200));
    }
    // Questions are no requests.
    let begin = Instant::now();
    let goodbye = loop {
        // It may have ended.
        let _ = client.try_send(b"\0\0\x08\x06\0\0\0\0\0question");
        match client.frame() {
            Some(frame) if frame.header.kind != kind::GOAWAY => std::thread::sleep(Duration::from_millis(20)),
            other => break other,
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "it ends");
    };
    assert_eq!(goodbye.map(|frame| frame.payload[4..].to_vec()), Some(vec![0; 4]));
    site.quit();
}

#[test]
fn who_takes_much_may_give_much_leave() {
    let mut site = site("", 1 << 20);
    let mut client = Client::with_settings(site.port, &[(setting::INITIAL_WINDOW_SIZE, STREAM_MAX)]);
    let mut out = Vec::new();
    write_window_update(0, 1 << 30, &mut out);
    client.send_bytes(&out);
    out.clear();
    for _ in 0..1000 {
        write_window_update(0, 1, &mut out);
    }
    // Some ten megabytes of such frames for eight of a body: alone they would be too many.
    for number in 0..8 {
        for _ in 0..100 {
            client.send_bytes(&out);
        }
        client.get(2 * number + 1, "/file");
        assert_eq!(client.answer(2 * number + 1).body.len(), 1 << 20);
    }
    check_goes_on(&mut client, 17);
    site.quit();
}

#[test]
fn responses_that_are_not_taken_share_the_memory_of_their_connection() {
    const PAGES: u32 = 60;
    let mut site = site("", 1);
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    for number in 0..PAGES {
        client.get(2 * number + 1, "/page");
    }
    // 8 MB are twenty pages and a part of one more.
    let in_files = || site.log().matches("a response is buffered to a temporary file").count();
    eventually("forty pages are in files", || (in_files() >= 38).then_some(()));
    check_goes_on(&mut client, 2 * PAGES + 1);
    assert!(in_files() <= 42, "{}", in_files());
    // All of them come when they are wanted.
    let window = [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &STREAM_MAX.to_be_bytes()].concat();
    client.send(kind::SETTINGS, 0, 0, &window);
    let mut leave = Vec::new();
    write_window_update(0, 1 << 30, &mut leave);
    client.send_bytes(&leave);
    for number in 0..PAGES {
        let answer = client.answer(2 * number + 1);
        assert!(answer.body.len() == 400_000 && answer.body.iter().all(|&byte| byte == b'p'), "{}", answer.body.len());
    }
    site.quit();
}

#[test]
fn requests_that_are_answered_later_pay_too() {
    let mut site = site("", 1 << 20);
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    for number in 0..300 {
        let stream = 4 * number + 1;
        client.get(stream, "/file");
        client.send(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes());
        client.get(stream + 2, "/late");
        let answer = client.answer(stream + 2);
        assert!(answer.head.starts_with(":status: 204\n"), "{answer:?}");
    }
    check_goes_on(&mut client, 4 * 300 + 1);
    site.quit();
}

#[test]
fn quick_answers_do_not_pay_for_requests_that_are_taken_back() {
    let mut site = site("keepalive_requests 10000;", 1);
    let mut client = Client::new(site.port);
    let mut frames = Vec::new();
    for number in 0..2000u32 {
        let stream = 2 * number + 1;
        frames.extend(head(stream, "GET", "/", &[], true));
        write_frame(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes(), &mut frames);
    }
    // The server may have heard enough.
    let _ = client.try_send(&frames);
    assert_eq!(client.goaway(), ErrorCode::EnhanceYourCalm as u32);
    site.quit();
}

#[test]
fn who_gives_no_leave_loses_what_waits_and_nothing_else() {
    // 60,000 bytes that are there at once.
    let text = format!("set $a {}; set $b $a$a$a$a$a$a$a$a$a$a; set $c $b$b$b$b$b$b$b$b$b$b;", "x".repeat(100));
    let body = format!("location = /body {{ {text} return 200 $c$c$c$c$c$c; }}");
    let mut site = site(&format!("send_timeout 500ms; {body}"), 1);
    let mut client = Client::new(site.port);
    client.get(1, "/hangs");
    // The window of the connection is large enough for each of them, and not for both.
    client.send_bytes(&[head(3, "GET", "/body", &[], true), head(5, "GET", "/body", &[], true)].concat());
    let begin = Instant::now();
    let mut resets = Vec::new();
    while resets.len() < 2 {
        // Whoever says something all the time has no more time for that.
        client.send(kind::PING, 0, 0, b"question");
        let frame = client.frame().expect("the connection goes on");
        if frame.header.kind == kind::RST_STREAM {
            resets.push((frame.header.stream, frame.payload));
        }
        assert!(!frame.header.has(flag::END_STREAM) || frame.header.kind != kind::DATA, "a whole body fits no window");
        assert!(begin.elapsed() < Duration::from_secs(30), "{resets:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let cancel = (ErrorCode::Cancel as u32).to_be_bytes().to_vec();
    assert_eq!(resets, [(3, cancel.clone()), (5, cancel)]);
    check_goes_on(&mut client, 7);
    let mut out = Vec::new();
    write_window_update(0, 1 << 20, &mut out);
    client.send_bytes(&out);
    std::fs::write(site.dir.join("go"), "").expect("written");
    assert_eq!(client.answer(1).text(), "at last\n");
    site.quit();
}

#[test]
fn the_last_of_many_windows_counts() {
    let mut site = site("", 100_000);
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    client.get(1, "/file");
    let windows = |sizes: &[u32]| -> Vec<u8> {
        let one = |size: &u32| [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &size.to_be_bytes()].concat();
        sizes.iter().flat_map(one).collect()
    };
    client.send(kind::SETTINGS, 0, 0, &windows(&[(1 << 31) - 1, 0, 9, 3]));
    assert_eq!(client.frame_of(kind::DATA).expect("a part").payload, b"fff");
    // As many as a frame has room for.
    client.send(kind::SETTINGS, 0, 0, &windows(&[4, 5].repeat(1365)));
    assert_eq!(client.frame_of(kind::DATA).expect("a part").payload, b"ff");
    check_goes_on(&mut client, 3);
    client.send(kind::SETTINGS, 0, 0, &windows(&[1 << 31, 5]));
    assert_eq!(client.goaway(), ErrorCode::FlowControlError as u32);
    site.quit();
}

/// Leave for all that a site has, on each stream.
const WIDE: &[(u16, u32)] = &[(setting::INITIAL_WINDOW_SIZE, 1 << 30)];

/// Answers the server's question whether the client has heard of the end, if a frame is that.
fn hear(client: &mut Client<impl Read + Write>, frame: &support::http2::Frame) {
    if frame.header.kind == kind::PING && !frame.header.has(flag::ACK) {
        client.send(kind::PING, flag::ACK, 0, &frame.payload);
    }
}

/// A reload comes while a client takes two files; it gives leave for each piece that it has read, as all clients do, and says more
/// after the end.
#[track_caller]
fn check_takes_all_over_a_reload(site: &Site, mut client: Client<impl Read + Write>, file_bytes: usize) {
    let leave = |bytes: usize| {
        let mut out = Vec::new();
        write_window_update(0, bytes as u32, &mut out);
        out
    };
    client.send_bytes(&leave(1 << 30));
    client.get(1, "/file");
    client.get(3, "/file");
    client.frame_of(kind::HEADERS).expect("an answer");
    site.signal(Signal::SIGHUP);
    let (mut taken, mut farewells) = (0, Vec::new());
    while let Some(frame) = client.frame() {
        hear(&mut client, &frame);
        match frame.header.kind {
            kind::DATA if !frame.payload.is_empty() => {
                taken += frame.payload.len();
                client.send_bytes(&leave(frame.payload.len()));
            }
            kind::GOAWAY => farewells.push(frame.payload),
            _ => {}
        }
    }
    assert_eq!(taken, 2 * file_bytes);
    let farewell = |last: u32| [last.to_be_bytes(), (ErrorCode::NoError as u32).to_be_bytes()].concat();
    assert_eq!(farewells, [farewell(STREAM_MAX), farewell(3)]);
    for _ in 0..20 {
        client.send_bytes(&leave(1));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_is_told_to_go_takes_all_along() {
    let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    authority.certify(&site, "localhost");
    let tls = format!("listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;");
    site.configure("", &format!("{tls} lingering_time 1d; lingering_timeout 1d; {LOCATIONS}"));
    let file_bytes = 6 << 20;
    std::fs::write(site.dir.join("file"), vec![b'f'; file_bytes]).expect("written");
    site.start();
    check_takes_all_over_a_reload(&site, Client::with_settings(site.port, WIDE), file_bytes);
    let mut config = (*authority.client(&[&TLS13])).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let socket = secure(&Arc::new(config), connect(port).expect("the server accepts"), "localhost");
    check_takes_all_over_a_reload(&site, Client::over(socket, WIDE), file_bytes);
    // All have closed: nobody is waited for.
    site.quit();
}

#[test]
fn who_is_told_to_go_and_stays_is_not_waited_for() {
    let for_ever = "lingering_time 1d; lingering_timeout 1d;";
    let limits = [
        ("", "lingering_time 1d; lingering_timeout 10ms;"),
        ("", "lingering_time 1s; lingering_timeout 1d;"),
        ("", "lingering_close off; lingering_time 1d; lingering_timeout 1d;"),
        ("worker_shutdown_timeout 1s;", for_ever),
    ];
    for (main, server) in limits {
        let mut site = Site::new(main, &format!("{server} {LOCATIONS}"));
        site.start();
        let mut client = Client::new(site.port);
        check_goes_on(&mut client, 1);
        site.signal(Signal::SIGQUIT);
        while let Some(frame) = client.frame() {
            hear(&mut client, &frame);
        }
        assert_eq!(site.wait().code(), Some(0), "{}", site.log());
    }
}
