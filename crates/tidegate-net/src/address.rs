//! Who is at the other end of a connection.

use std::{fmt, net::SocketAddr};

/// Address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An IP address with port.
    Inet(SocketAddr),
    /// A unix domain socket.
    Unix,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Inet(address) => write!(f, "{}", address.ip()),
            Peer::Unix => f.write_str("unix:"),
        }
    }
}
