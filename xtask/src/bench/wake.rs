//! Many clients that wait for an answer, and one request that wakes them all.

use super::definition::Bench;
use super::special::pin_to_load_core;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// How long the last answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it took.
pub(super) struct Woken {
    /// From the request until the last answer.
    pub(super) whole: Duration,
    /// From the first answer that tells of the commit, to whomever, until the last one.
    pub(super) last: Duration,
}

/// Opens `connections` that each send the section `request` (`POST PATH BODY`, in which `{n}` is the number of the client), has
/// `settled` wait until all of them wait, sends the section `wake` and reads all answers.
///
/// # Errors
/// A client is refused, or gets nothing.
pub(super) fn measure(port: u16, bench: &Bench, settled: impl FnOnce() -> Result<(), String>) -> Result<Woken, String> {
    let mut clients = Vec::with_capacity(bench.connections);
    for number in 0..bench.connections {
        let mut stream = connect(port)?;
        let text = request(&bench.value("request").replace("{n}", &number.to_string()));
        stream.write_all(&text).map_err(|error| format!("a client: {error}"))?;
        clients.push(stream);
    }
    settled()?;
    // Ahead of the request: what is slow here must not look slow there.
    let waker = connect(port)?;
    let wake = request(bench.value("wake"));
    for client in &clients {
        client.set_nonblocking(true).map_err(|error| error.to_string())?;
    }
    waker.set_nonblocking(true).map_err(|error| error.to_string())?;
    clients.push(waker);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // Without the right to, what is measured is the server all the same.
            let _ = pin_to_load_core();
            wake_all(clients, &wake)
        });
        reader.join().map_err(|_| "the client has panicked".to_owned())?
    })
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| format!("a client: {error}"))?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(stream)
}

/// The bytes of `METHOD PATH BODY`. A body that is `[REPEAT N text]` is a list of so many texts.
fn request(text: &str) -> Vec<u8> {
    let mut words = text.trim().splitn(3, ' ');
    let (method, path, body) =
        (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let body = repeated(body).unwrap_or_else(|| body.to_owned());
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn repeated(body: &str) -> Option<String> {
    let (count, text) = body.strip_prefix("[REPEAT ")?.strip_suffix(']')?.split_once(' ')?;
    let count: usize = count.parse().ok()?;
    Some(format!("[{}]", vec![text; count].join(",")))
}

/// Sends the request on the last connection, and waits for an answer on each of them.
fn wake_all(mut clients: Vec<TcpStream>, wake: &[u8]) -> Result<Woken, String> {
    let begun = Instant::now();
    let waker = clients.last_mut().ok_or("there are no clients")?;
    waker.write_all(wake).map_err(|error| error.to_string())?;
    let mut first = None;
    let mut buffer = [0; 64 << 10];
    while !clients.is_empty() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} clients were not woken", clients.len()));
        }
        let mut fds: Vec<PollFd<'_>> =
            clients.iter().map(|client| PollFd::new(client.as_fd(), PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::from(100u8)).map_err(|error| error.to_string())?;
        let now = begun.elapsed();
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut at = 0;
        let mut problem = None;
        clients.retain_mut(|client| {
            at += 1;
            if !ready[at - 1] {
                return true;
            }
            match client.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Ok(count) if buffer[..count].starts_with(b"HTTP/1.1 200") => {}
                Ok(count) => problem = Some(String::from_utf8_lossy(&buffer[..count.min(200)]).into_owned()),
                Err(error) => problem = Some(error.to_string()),
            }
            false
        });
        if let Some(problem) = problem {
            return Err(format!("unexpected answer: {problem:?}"));
        }
        if ready.contains(&true) {
            first.get_or_insert(now);
        }
    }
    let whole = begun.elapsed();
    Ok(Woken { whole, last: whole - first.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_sections_say() {
        let text = String::from_utf8(request("POST /q/a/batch [REPEAT 2 {\"body\":\"a b\"}]\n")).unwrap();
        assert!(text.starts_with("POST /q/a/batch HTTP/1.1\r\n"), "{text}");
        assert!(text.ends_with("Content-Length: 31\r\n\r\n[{\"body\":\"a b\"},{\"body\":\"a b\"}]"), "{text}");
        assert!(request("POST /pull").ends_with(b"Content-Length: 0\r\n\r\n"));
    }
}
