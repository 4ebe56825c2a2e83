//! The client's end of a connection: raw bytes out, responses in, with a deadline on everything.

use super::response::{self, Parsed, Response};
use crate::process::POLL;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// A connection to the server under test.
pub(crate) struct Client {
    stream: TcpStream,
    timeout: Duration,
    /// Received and not yet part of a response.
    unread: Vec<u8>,
    /// Everything received.
    pub(crate) received: Vec<u8>,
    /// Whether the server has closed its side.
    pub(crate) closed: bool,
}

impl Client {
    /// Connects to the loopback address.
    ///
    /// # Errors
    /// When nothing listens there.
    pub(crate) fn connect(port: u16, timeout: Duration) -> Result<Client, String> {
        let address = ([127, 0, 0, 1], port).into();
        let stream =
            TcpStream::connect_timeout(&address, timeout).map_err(|e| format!("cannot connect to port {port}: {e}"))?;
        stream.set_nodelay(true).map_err(|e| format!("cannot set TCP_NODELAY: {e}"))?;
        Ok(Client { stream, timeout, unread: Vec::new(), received: Vec::new(), closed: false })
    }

    /// Sends all of `bytes`. A server that closed early is no error: its response tells more.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let deadline = Instant::now() + self.timeout;
        // A server may answer before it has read everything, so reading goes on between the writes.
        while !rest.is_empty() && Instant::now() < deadline {
            self.set_write_timeout(Duration::from_millis(50));
            match self.stream.write(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(e) if is_timeout(&e) => {
                    self.read_once(Duration::from_millis(1));
                }
                Err(_) => return,
            }
        }
    }

    /// Waits until the server has read everything that was sent, or has closed the connection; gives up after a time, since
    /// a server may mean to leave bytes where they are.
    pub(crate) fn wait_until_read(&self, at_most: Duration) {
        let port = |address: std::io::Result<SocketAddr>| address.map_or(0, |address| address.port());
        let (ours, theirs) = (port(self.stream.local_addr()), port(self.stream.peer_addr()));
        let deadline = Instant::now() + at_most;
        // The case may run in a network of its own, and then only its thread does.
        while Instant::now() < deadline
            && fs::read_to_string("/proc/thread-self/net/tcp").is_ok_and(|table| is_unread(&table, theirs, ours))
        {
            thread::sleep(POLL);
        }
    }

    /// Tells the server that nothing more will be sent.
    pub(crate) fn finish_sending(&mut self) {
        // A connection that is gone already needs no shutdown.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Waits for the next response.
    ///
    /// # Errors
    /// When time is up, the connection ends within the response or its bytes are malformed; shows what came.
    pub(crate) fn response(&mut self, method: &str) -> Result<Response, String> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match response::parse(&self.unread, method, self.closed) {
                Parsed::Complete(response, used) => {
                    self.unread.drain(..used);
                    return Ok(*response);
                }
                Parsed::Malformed(problem) => return Err(format!("{problem}{}", self.excerpt())),
                Parsed::Incomplete => {}
            }
            if self.closed {
                return Err(format!("the server closed the connection within a response{}", self.excerpt()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("no complete response after {:?}{}", self.timeout, self.excerpt()));
            }
            self.read_once(left);
        }
    }

    /// Reads until the server closes its side.
    ///
    /// # Errors
    /// When it stays open until time is up.
    pub(crate) fn wait_closed(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.timeout;
        while !self.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the server did not close the connection in {:?}{}", self.timeout, self.excerpt()));
            }
            self.read_once(left);
        }
        Ok(())
    }

    /// Reads for that long whatever comes.
    pub(crate) fn read_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while !self.closed && Instant::now() < deadline {
            self.read_once(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Bytes that belong to no response, which there must not be.
    pub(crate) fn surplus(&self) -> Option<String> {
        (!self.unread.is_empty()).then(|| format!("bytes after the last response{}", self.excerpt()))
    }

    fn read_once(&mut self, at_most: Duration) {
        let mut buf = [0; 64 * 1024];
        // Zero would mean no timeout at all.
        let timeout = at_most.max(Duration::from_millis(1));
        if self.stream.set_read_timeout(Some(timeout)).is_err() {
            self.closed = true;
            return;
        }
        match self.stream.read(&mut buf) {
            Ok(0) => self.closed = true,
            Ok(count) => {
                self.unread.extend_from_slice(&buf[..count]);
                self.received.extend_from_slice(&buf[..count]);
            }
            Err(e) if is_timeout(&e) => {}
            // A reset also ends the connection; what came before it counts.
            Err(_) => self.closed = true,
        }
    }

    fn set_write_timeout(&self, timeout: Duration) {
        // Fails only for a zero timeout.
        let _ = self.stream.set_write_timeout(Some(timeout));
    }

    fn excerpt(&self) -> String {
        if self.unread.is_empty() {
            return ", nothing was received".to_owned();
        }
        let shown = &self.unread[..self.unread.len().min(600)];
        format!(", received:\n{}", shown.escape_ascii().to_string().replace("\\r\\n", "\\r\\n\n"))
    }
}

/// Whether a connection is open of which the local side has not been accepted or has bytes to read, in the kernel's table.
/// From proc(5): local address, remote address, state (1 is open), queues and, as the tenth word, the number of the socket, 0
/// until it was accepted.
fn is_unread(table: &str, local_port: u16, remote_port: u16) -> bool {
    let ends_with = |word: &str, port: u16| word.ends_with(&format!(":{port:04X}"));
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|row| {
        row.len() > 9
            && ends_with(row[1], local_port)
            && ends_with(row[2], remote_port)
            && row[3] == "01"
            && (row[9] == "0" || !row[4].ends_with(":00000000"))
    })
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_was_not_read_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = Client::connect(port, Duration::from_secs(60)).unwrap();
        let ours = client.stream.local_addr().unwrap().port();
        let is_unread = || is_unread(&fs::read_to_string("/proc/thread-self/net/tcp").unwrap(), port, ours);
        assert!(is_unread());
        let (mut server, _) = listener.accept().unwrap();
        assert!(!is_unread());
        client.send(b"x");
        assert!(is_unread());
        server.read_exact(&mut [0]).unwrap();
        assert!(!is_unread());
        client.wait_until_read(Duration::from_secs(60));
    }
}
