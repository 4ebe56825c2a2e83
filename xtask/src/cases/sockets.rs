//! The kernel's table of TCP connections: what a case waits for instead of a time.

use crate::process::POLL;
use std::fs;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// States of a connection whose own side is open: the other side is open, too, or has closed.
const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";

/// One end of a connection.
struct Socket<'a> {
    local: u16,
    remote: u16,
    state: &'a str,
    /// Whether the process has accepted it and has read all that came.
    is_read: bool,
}

impl<'a> Socket<'a> {
    /// From proc(5): local address, remote address, state, queues and, as the tenth word, the number of the socket, 0 until
    /// it was accepted.
    fn of_row(row: &'a str) -> Option<Self> {
        let words: Vec<&str> = row.split_whitespace().collect();
        let port = |word: &str| u16::from_str_radix(word.rsplit(':').next()?, 16).ok();
        let is_read = *words.get(9)? != "0" && words[4].ends_with(":00000000");
        Some(Self { local: port(words[1])?, remote: port(words[2])?, state: words[3], is_read })
    }
}

/// Waits until no connection is left for which `holds_up`; `false` when time is up.
fn wait_while(at_most: Duration, holds_up: impl Fn(&Socket<'_>) -> bool) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        // The case may run in a network of its own, and then only its threads do.
        let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        if !table.lines().filter_map(Socket::of_row).any(|socket| holds_up(&socket)) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Waits until the other side of `stream` has read everything that was sent, or has closed the connection; gives up after a
/// time, since a server may mean to leave bytes where they are.
pub(crate) fn wait_until_read(stream: &TcpStream, at_most: Duration) {
    let (Ok(ours), Ok(theirs)) = (stream.local_addr(), stream.peer_addr()) else { return };
    wait_while(at_most, |socket| {
        socket.local == theirs.port() && socket.remote == ours.port() && socket.state == ESTABLISHED && !socket.is_read
    });
}

/// Waits until all clients of the server on `port` have closed their connections.
pub(crate) fn wait_until_left(port: u16, at_most: Duration) -> bool {
    wait_while(at_most, |socket| socket.local == port && socket.state == ESTABLISHED)
}

/// Waits until no client has a connection to the server on `port` open any more, though the server has closed it.
pub(crate) fn wait_until_disconnected(port: u16, at_most: Duration) -> bool {
    wait_while(at_most, |socket| socket.remote == port && matches!(socket.state, ESTABLISHED | CLOSE_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_not_read_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let ours = client.local_addr().unwrap().port();
        let is_unread = || !wait_while(NOW, |s| s.local == port && s.remote == ours && !s.is_read);
        assert!(is_unread());
        let (mut server, _) = listener.accept().unwrap();
        assert!(!is_unread());
        client.write_all(b"x").unwrap();
        assert!(is_unread());
        server.read_exact(&mut [0]).unwrap();
        assert!(!is_unread());
        wait_until_read(&client, LONG);
    }

    #[test]
    fn sides_that_close_are_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!wait_until_left(port, NOW) && !wait_until_disconnected(port, NOW));
        drop(server);
        assert!(wait_until_left(port, LONG) && !wait_until_disconnected(port, NOW));
        drop(client);
        assert!(wait_until_disconnected(port, LONG));
    }
}
