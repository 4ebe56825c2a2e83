//! The least that a server can do: it waits, reads, writes an answer that was made before, and looks at nothing.
//!
//! Its figures are what the kernel and the load take; the distance to them is what a server could still save. The answer
//! has as many bytes of content as the number at the end of the request's path says, so that it stands for files as well.

use crate::poll::{EVENTS, Poll};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};

/// The most that a path may ask for.
const CONTENT_BYTES_MAX: usize = 16 << 20;
/// Answers that are kept: a report asks for four sizes.
const ANSWERS_MAX: usize = 16;
/// A connection and what of its answer is not sent yet.
struct Client {
    stream: TcpStream,
    size: usize,
    sent: usize,
    closes: bool,
    /// The kernel has had no room for all of the answer.
    is_full: bool,
}

/// Whether the connection goes on.
#[derive(PartialEq)]
enum Next {
    Stay,
    Close,
}

/// Serves at a port of this machine until the process ends.
///
/// # Errors
/// When the port is taken, or the kernel refuses.
pub fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let poll = Poll::new()?;
    let entrance = listener.as_raw_fd();
    poll.add(entrance)?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let mut clients: HashMap<RawFd, Client> = HashMap::new();
    let mut answers = Answers::default();
    loop {
        let count = match poll.wait(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        for event in &events[..count] {
            let fd = (event.u64 as u32).cast_signed();
            if fd == entrance {
                accept(&listener, &poll, &mut clients)?;
            } else if let Some(client) = clients.get_mut(&fd)
                && client.turn(&poll, &mut answers) == Next::Close
            {
                clients.remove(&fd);
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &Poll, clients: &mut HashMap<RawFd, Client>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let fd = stream.as_raw_fd();
                poll.add(fd)?;
                clients.insert(fd, Client { stream, size: 0, sent: 0, closes: false, is_full: false });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The client has gone again.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Client {
    fn turn(&mut self, poll: &Poll, answers: &mut Answers) -> Next {
        if self.is_full {
            return self.send(poll, answers);
        }
        let mut buf = [0; 4096];
        match self.stream.read(&mut buf) {
            Ok(0) => Next::Close,
            Ok(count) => {
                (self.size, self.closes) = wanted(&buf[..count]);
                self.send(poll, answers)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Next::Stay,
            Err(_) => Next::Close,
        }
    }

    fn send(&mut self, poll: &Poll, answers: &mut Answers) -> Next {
        let answer = answers.of(self.size, self.closes);
        match self.stream.write(&answer[self.sent..]) {
            Ok(count) => self.sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Next::Close,
        }
        let was_full = self.is_full;
        self.is_full = self.sent < answer.len();
        let fd = self.stream.as_raw_fd();
        if was_full != self.is_full && poll.wait_for_room(fd, self.is_full).is_err() {
            return Next::Close;
        }
        if self.is_full {
            return Next::Stay;
        }
        self.sent = 0;
        if self.closes { Next::Close } else { Next::Stay }
    }
}

/// Answers that were made before, by the size of their content and whether the connection ends with them.
#[derive(Default)]
struct Answers(HashMap<(usize, bool), Vec<u8>>);

impl Answers {
    fn of(&mut self, size: usize, closes: bool) -> &[u8] {
        if self.0.len() == ANSWERS_MAX {
            self.0.clear();
        }
        self.0.entry((size, closes)).or_insert_with(|| {
            let close = if closes { "Connection: close\r\n" } else { "" };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n{close}\r\n");
            let mut bytes = head.into_bytes();
            bytes.extend("Hello, world!\n".bytes().cycle().take(size));
            bytes
        })
    }
}

/// The number at the end of the path (13 if there is none), and whether the connection is to be closed.
fn wanted(request: &[u8]) -> (usize, bool) {
    let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let digits = path.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&path[path.len() - digits..]).ok().and_then(|text| text.parse().ok());
    let closes = request.windows(7).any(|seven| seven == b": close");
    (number.unwrap_or(13).min(CONTENT_BYTES_MAX), closes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_wants() {
        for (request, expected) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], (13, false)),
            (b"GET /bytes/102400 HTTP/1.1\r\nConnection: close\r\n\r\n", (102_400, true)),
            (b"GET /99999999999999999999999 HTTP/1.1\r\n\r\n", (13, false)),
            (b"GET /999999999 HTTP/1.1\r\n\r\n", (CONTENT_BYTES_MAX, false)),
            (b"nonsense", (13, false)),
        ] {
            assert_eq!(wanted(request), expected, "{}", String::from_utf8_lossy(request));
        }
    }

    #[test]
    fn an_answer_has_the_size_that_was_asked_for() {
        let mut answers = Answers::default();
        let answer = answers.of(20, true);
        let text = std::str::from_utf8(answer).expect("text");
        let (head, content) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.ends_with("Content-Length: 20\r\nConnection: close"), "{head}");
        assert_eq!(content, "Hello, world!\nHello,");
    }
}
