//! Sockets and TLS: bytes out, bytes in, never waiting.

use std::io::{self, ErrorKind, Read, Write};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustls::ClientConnection;

use crate::plan::{Address, Tls};

/// A socket of either kind.
#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buf),
            Socket::Unix(socket) => socket.read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection's way to the server.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// What the socket has not taken yet, from `sent` on; not used with TLS, which keeps its own.
    out: Vec<u8>,
    sent: usize,
}

impl Transport {
    /// Begins a connection. The socket is watched in both directions from here on: its events tell of changes only, so
    /// that a direction nobody waits for costs nothing.
    pub(crate) fn connect(address: &Address, tls: Option<&Tls>, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = match address {
            Address::Tcp(address) => Socket::Tcp(TcpStream::connect(*address)?),
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
        };
        let source: &mut dyn Source = match &mut socket {
            Socket::Tcp(socket) => {
                // Not every kind of network has it; without it, requests are only slower.
                let _ = socket.set_nodelay(true);
                socket
            }
            Socket::Unix(socket) => socket,
        };
        source.register(registry, token, Interest::READABLE | Interest::WRITABLE)?;
        let tls = match tls {
            Some(tls) => {
                let mut tls = ClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(io::Error::other)?;
                // A body is handed over whole; it leaves at the pace of the socket.
                tls.set_buffer_limit(None);
                Some(Box::new(tls))
            }
            None => None,
        };
        Ok(Self { socket, tls, out: Vec::new(), sent: 0 })
    }

    /// Whether the connection stands; an event has come.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match &self.socket {
            Socket::Tcp(socket) => (socket.take_error()?, socket.peer_addr().map(drop)),
            Socket::Unix(socket) => (socket.take_error()?, socket.peer_addr().map(drop)),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }

    /// Goes on with the handshake; whether it is done. Without TLS there is none.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.flush()?;
            match self.read_records() {
                Ok(0) => return Err(io::Error::new(ErrorKind::InvalidData, "the server closed within the handshake")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.flush()?;
        Ok(true)
    }

    /// The protocol that the server has chosen in the handshake.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// Sends bytes; what the socket does not take now goes with [`Self::flush`].
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            return self.flush();
        }
        let mut rest = bytes;
        if self.out.is_empty() {
            while !rest.is_empty() {
                match self.socket.write(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.out.extend_from_slice(rest);
        Ok(())
    }

    /// Sends what is left over; the socket takes more.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Whether bytes wait for the socket.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads; 0 at the end, `WouldBlock` when there is nothing.
    #[inline]
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(tls) = &mut self.tls {
                match tls.reader().read(buf) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    other => return other,
                }
                // At the end of the socket the reader knows whether it is a clean one.
                self.read_records()?;
                continue;
            }
            match self.socket.read(buf) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Whether a read that filled less than the buffer has emptied the socket: the next bytes are a new event.
    pub(crate) fn tells_emptiness(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads and decrypts what has come.
    fn read_records(&mut self) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let count = loop {
            match tls.read_tls(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        let processed = tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
        if processed.is_err() {
            // The alert that says why; if the socket does not take it, nothing is lost.
            let _ = tls.write_tls(&mut self.socket);
        }
        processed.map(|_| count)
    }
}
