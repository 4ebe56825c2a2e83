//! A server behind ours that answers with any bytes, and what a client makes of the response.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use super::{PATIENCE, connect};

/// A server that answers each request with the next bytes of the channel and closes the connection.
pub(crate) struct Answerer {
    pub(crate) answers: mpsc::Sender<Vec<u8>>,
    pub(crate) port: u16,
    thread: std::thread::JoinHandle<()>,
}

impl Answerer {
    /// Starts it; each of its requests ends with `request_end`.
    pub(crate) fn start(request_end: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let (answers, next) = mpsc::channel::<Vec<u8>>();
        let thread = std::thread::spawn(move || {
            for answer in next {
                let (mut stream, _) = listener.accept().expect("accepted");
                stream.set_read_timeout(Some(PATIENCE)).expect("set");
                let mut request = Vec::new();
                let mut piece = [0; 4096];
                while !request.ends_with(request_end) {
                    let count = stream.read(&mut piece).expect("the request comes");
                    assert!(count > 0, "the request was cut");
                    request.extend_from_slice(&piece[..count]);
                }
                // A server that has seen enough closes the connection.
                let _ = stream.write_all(&answer);
            }
        });
        Answerer { answers, port, thread }
    }

    pub(crate) fn finish(self) {
        drop(self.answers);
        self.thread.join().expect("it saw whole requests");
    }
}

/// What a client makes of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A response of the server's own: 502.
    Error,
    /// It ends before it should.
    Cut(Vec<u8>),
    /// Its status and content.
    Whole(u16, Vec<u8>),
}

pub(crate) fn ask(port: u16, path: &str) -> Seen {
    seen_by(send(port, path))
}

/// A client that has asked, and reads nothing yet.
pub(crate) fn send(port: u16, path: &str) -> TcpStream {
    let mut client: TcpStream = connect(port).expect("the server accepts");
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).expect("sent");
    client
}

/// What the client gets when it reads at last.
pub(crate) fn seen_by(mut client: TcpStream) -> Seen {
    let mut response = Vec::new();
    client.read_to_end(&mut response).expect("the response ends");
    // One character for each byte, so that lengths stay what they are.
    let text: String = response.iter().map(|&byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect();
    let status: u16 = text.get(9..12).and_then(|status| status.parse().ok()).expect("a status line");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    if status == 502 {
        return Seen::Error;
    }
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return unchunk(status, body);
    }
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse::<usize>().ok());
    match length {
        Some(length) if body.len() < length => Seen::Cut(body.into()),
        _ => Seen::Whole(status, body.into()),
    }
}

fn unchunk(status: u16, body: &str) -> Seen {
    let (mut rest, mut content) = (body, String::new());
    loop {
        let Some((size, chunk)) = rest.split_once("\r\n") else { return Seen::Cut(content.into()) };
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return Seen::Whole(status, content.into());
        }
        content.push_str(chunk.get(..size).unwrap_or(chunk));
        let Some(next) = chunk.get(size + 2..) else { return Seen::Cut(content.into()) };
        rest = next;
    }
}
