//! After an upgrade: what a server has said ahead of its end reaches the client whole, over each protocol.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;

use rustls::version::{TLS12, TLS13};
use support::authority::{Authority, secure};
use support::http2::{Client, NO_WINDOW, head};
use support::{Site, connect, eventually, free_port};
use tidegate_http::http2::{STREAM_MAX, flag, kind, setting, write_window_update};

/// More than the sockets on the way keep.
const LAST_WORDS_BYTES: usize = 12 << 20;

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n";

fn last_words() -> Vec<u8> {
    (0..LAST_WORDS_BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// What the other side's system has not acknowledged.
fn unsent_bytes(socket: &TcpStream) -> i32 {
    let mut count = 0;
    // SAFETY: the socket is open, and `count` is where the number goes.
    assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut count) }, 0);
    count
}

/// A server that consents to another protocol, says all of its words at once, and nothing more. It hears what the client says until that
/// has ended too, or closes as soon as its words have left it, so that whatever the client says gets a reset.
fn server(words: Vec<u8>, hears: bool) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        let mut socket = support::accept(&listener);
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a head");
            text.push(byte[0]);
        }
        let consent = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n";
        socket.write_all(consent.as_bytes()).and_then(|()| socket.write_all(&words)).expect("sent");
        socket.shutdown(Shutdown::Write).expect("shut down");
        if hears {
            let _ = socket.read_to_end(&mut Vec::new());
        } else {
            eventually("the words have left", || (unsent_bytes(&socket) == 0).then_some(()));
        }
    });
    (port, server)
}

fn site(upstream: u16) -> (Site, Authority, u16) {
    let (mut site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    authority.certify(&site, "localhost");
    site.configure(
        "",
        &format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key; http2 on;\n\
             location = /chat {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1;\n\
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}"
        ),
    );
    site.start();
    (site, authority, port)
}

/// Reads to the end, and says something all the time.
#[track_caller]
fn check(mut stream: impl Read + Write) {
    stream.write_all(UPGRADE.as_bytes()).expect("sent");
    let mut text = Vec::new();
    let mut piece = vec![0; 100_000];
    loop {
        // Over TLS an end without a farewell is an error.
        let count = stream.read(&mut piece).expect("more, or a clean end");
        if count == 0 {
            break;
        }
        text.extend_from_slice(&piece[..count]);
        // Nobody listens any more after the end.
        let _ = stream.write_all(b"and I").and_then(|()| stream.flush());
    }
    let end = text.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    assert!(text.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&text[..end]));
    assert_eq!(text.len() - end, LAST_WORDS_BYTES);
    assert!(text[end..] == last_words(), "the bytes are others");
}

#[test]
fn over_http1() {
    let (upstream, server) = server(last_words(), true);
    let (mut site, _, _) = site(upstream);
    check(connect(site.port).expect("the server accepts"));
    server.join().expect("no panic");
    site.quit();
}

#[test]
fn over_tls() {
    for version in [&TLS12, &TLS13] {
        let (upstream, server) = server(last_words(), true);
        let (mut site, authority, port) = site(upstream);
        check(secure(&authority.client(&[version]), connect(port).expect("the server accepts"), "localhost"));
        server.join().expect("no panic");
        site.quit();
    }
}

/// Asks for a WebSocket, and says something with each frame that comes.
#[track_caller]
fn check_stream<S: Read + Write>(mut client: Client<S>) {
    let mut out = Vec::new();
    write_window_update(0, 1 << 30, &mut out);
    client.send_bytes(&out);
    client.send_bytes(&head(1, "CONNECT", "/chat", &[(":protocol", "chat")], false));
    let mut text = Vec::new();
    loop {
        let frame = client.frame_of(kind::DATA).expect("more");
        text.extend_from_slice(&frame.payload);
        if frame.header.has(flag::END_STREAM) {
            break;
        }
        client.send(kind::DATA, 0, 1, b"and I");
    }
    assert_eq!(text.len(), LAST_WORDS_BYTES);
    assert!(text == last_words(), "the bytes are others");
}

#[test]
fn over_http2() {
    let window = (setting::INITIAL_WINDOW_SIZE, STREAM_MAX);
    let (upstream, server) = server(last_words(), true);
    let (mut site, _, _) = site(upstream);
    check_stream(Client::with_settings(site.port, &[window]));
    server.join().expect("no panic");
    site.quit();
}

#[test]
fn over_http2_and_tls() {
    let window = (setting::INITIAL_WINDOW_SIZE, STREAM_MAX);
    let (upstream, server) = server(last_words(), true);
    let (mut site, authority, port) = site(upstream);
    let mut config = (*authority.client(&[&TLS13])).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = secure(&config.into(), connect(port).expect("the server accepts"), "localhost");
    check_stream(Client::over(stream, &[window]));
    server.join().expect("no panic");
    site.quit();
}

#[test]
fn of_a_server_that_takes_nothing_more() {
    // More than waits in between: some of it is still with the system when the server's reset comes.
    let words = last_words()[..120_000].to_vec();
    let (upstream, server) = server(words.clone(), false);
    let (mut site, _, _) = site(upstream);
    let mut client = Client::with_settings(site.port, &[NO_WINDOW]);
    client.send_bytes(&head(1, "CONNECT", "/chat", &[(":protocol", "chat")], false));
    server.join().expect("no panic");
    eventually("the client's words get no further", || {
        client.send(kind::DATA, 0, 1, b"and I");
        site.log().contains("send() failed (").then_some(())
    });
    let mut out = Vec::new();
    for stream in [0, 1] {
        write_window_update(stream, 1 << 20, &mut out);
    }
    client.send_bytes(&out);
    let answer = client.answer(1);
    assert!(answer.head.starts_with(":status: 200\n"), "{}", answer.head);
    assert_eq!((answer.reset, answer.body.len()), (None, words.len()));
    assert!(answer.body == words, "the bytes are others");
    site.quit();
}
