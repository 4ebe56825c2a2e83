//! What can go wrong with a request, as the report names it.

use std::io::{self, ErrorKind};

/// Kinds of failures. A request that fails has one of them and no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nobody listens there.
    Refused,
    /// No way leads there.
    Unreachable,
    /// The connection did not come about in time.
    ConnectTimeout,
    /// Another fault ahead of the connection: no free port, too many open files.
    Connect,
    /// The handshake of TLS failed.
    Tls,
    /// The peer broke the connection.
    Reset,
    /// The peer closed the connection and had sent nothing of the response.
    Closed,
    /// The connection ended within the response.
    Cut,
    /// No complete response in time.
    Timeout,
    /// The response breaks the rules of HTTP.
    Malformed,
    /// The server gave up an HTTP/2 stream.
    Stream,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Refused,
        Kind::Unreachable,
        Kind::ConnectTimeout,
        Kind::Connect,
        Kind::Tls,
        Kind::Reset,
        Kind::Closed,
        Kind::Cut,
        Kind::Timeout,
        Kind::Malformed,
        Kind::Stream,
    ];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Refused => "refused",
            Kind::Unreachable => "unreachable",
            Kind::ConnectTimeout => "connect time-out",
            Kind::Connect => "connect",
            Kind::Tls => "TLS",
            Kind::Reset => "reset",
            Kind::Closed => "closed",
            Kind::Cut => "cut",
            Kind::Timeout => "time-out",
            Kind::Malformed => "malformed",
            Kind::Stream => "stream",
        }
    }

    /// Whether there was no connection to send the request on.
    pub(crate) fn is_connecting(self) -> bool {
        matches!(self, Kind::Refused | Kind::Unreachable | Kind::ConnectTimeout | Kind::Connect | Kind::Tls)
    }
}

/// A failure: its kind, and what exactly was said first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// A request that has waited for its response as long as it may.
    pub(crate) fn late() -> Self {
        Self::new(Kind::Timeout, "no complete response in time")
    }

    /// A fault while the connection was being made.
    pub(crate) fn connecting(error: &io::Error) -> Self {
        let kind = match error.kind() {
            // A Unix socket that is not there, or nobody's any more.
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Kind::Refused,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Kind::Unreachable,
            ErrorKind::TimedOut => Kind::ConnectTimeout,
            ErrorKind::ConnectionReset => Kind::Reset,
            _ => Kind::Connect,
        };
        Self::new(kind, plain(error))
    }

    /// A fault of a connection that was made.
    pub(crate) fn connected(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::new(Kind::Cut, "the connection ended without a farewell of TLS"),
            ErrorKind::InvalidData => Self::new(Kind::Tls, plain(error)),
            _ => Self::new(Kind::Reset, plain(error)),
        }
    }
}

/// The system's words for an error, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    words.to_ascii_lowercase()
}
