//! The client's end of a connection: raw bytes out, responses in, with a deadline on everything.

use super::response::{self, Parsed, Response};
use super::sockets;
use crate::process::patient;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How long a server that is busy may take to read what was sent before a pause; some never do.
const READ_PATIENCE: Duration = Duration::from_secs(1);

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

    /// Waits until the server has read everything that was sent.
    pub(crate) fn wait_until_read(&self) {
        sockets::wait_until_read(&self.stream, patient(READ_PATIENCE));
    }

    /// Waits until `bytes` have been received.
    ///
    /// # Errors
    /// When time is up or the server closes before; shows what came.
    pub(crate) fn wait_until_received(&mut self, bytes: &[u8]) -> Result<(), String> {
        let deadline = Instant::now() + self.timeout;
        while !self.received.windows(bytes.len()).any(|window| window == bytes) {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.closed || left.is_zero() {
                return Err(format!("\"{}\" did not come{}", bytes.escape_ascii(), self.excerpt()));
            }
            self.read_once(left);
        }
        Ok(())
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

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
