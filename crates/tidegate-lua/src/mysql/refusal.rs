//! Why an operation gives nothing: `nil, message, errcode, sqlstate`, in lua-resty-mysql's words.

use std::borrow::Cow;
use std::io;

use tidegate_mysql::NO_TLS;
use tidegate_rows::{QueryError, ServerError, Stage};

use crate::error::CResult;
use crate::host::{Host, LogLevel};
use crate::socket::{Failure, Settings, explain_certificate};
use crate::stack::Lua;

/// The operation that was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Connecting,
    /// `send_query`.
    Sending,
    /// The same within `query`.
    Querying,
    Reading,
}

/// What the script gets in the place of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    message: Cow<'static, str>,
    /// MySQL's error code and SQLSTATE, when the server said no.
    code: Option<(u16, [u8; 5])>,
}

impl From<&'static str> for Refusal {
    fn from(message: &'static str) -> Self {
        Self { message: message.into(), code: None }
    }
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message: message.into(), code: None }
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        Self { message: error.message.into(), code: Some((error.code, error.sqlstate)) }
    }
}

impl Refusal {
    /// For a failure while `doing` was under way.
    pub(super) fn of(error: QueryError, doing: Doing) -> Self {
        match error {
            QueryError::Server(error) => error.into(),
            QueryError::Timeout { .. } => Self::of_failure(&Failure::TimedOut, doing),
            QueryError::Lost { source, .. } => Self::of_io(source, doing),
            QueryError::Connect { source, .. } => {
                if let Some(certificate) = explain_certificate(&source) {
                    return format!("failed to do ssl handshake: {certificate}").into();
                }
                // The server was there, and left in the midst of the login.
                let left = matches!(
                    source.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                );
                Self::of_io(source, if left { Doing::Reading } else { Doing::Connecting })
            }
            QueryError::Protocol { what, .. } if what == NO_TLS => "ssl disabled on server".into(),
            QueryError::Protocol { what, .. } => what.into(),
            error @ (QueryError::PoolBusy { .. } | QueryError::SinkClosed(_)) => error.to_string().into(),
        }
    }

    fn of_io(source: io::Error, doing: Doing) -> Self {
        Self::of_failure(&Failure::from(source), doing)
    }

    fn of_failure(failure: &Failure, doing: Doing) -> Self {
        let message = failure.message();
        match doing {
            Doing::Connecting => format!("failed to connect: {message}").into(),
            Doing::Sending => Self { message, code: None },
            Doing::Querying => format!("failed to send query: {message}").into(),
            Doing::Reading => format!("failed to receive packet header: {message}").into(),
        }
    }

    /// As [`of`](Self::of), with what cosockets write to the error log.
    pub(super) fn logged(error: QueryError, doing: Doing, host: &Host) -> Self {
        if Settings::of(host).log_errors {
            log(&error, doing, host);
        }
        Self::of(error, doing)
    }

    /// Pushes `nil`, the message and, if there are, code and SQLSTATE.
    pub(super) fn push(&self, lua: &mut Lua) -> CResult {
        lua.push_nil();
        lua.push_bytes(self.message.as_bytes());
        let Some((code, sqlstate)) = &self.code else { return Ok(2) };
        lua.push_integer(i64::from(*code));
        lua.push_bytes(sqlstate);
        Ok(4)
    }
}

/// Writes what a cosocket would.
fn log(error: &QueryError, doing: Doing, host: &Host) {
    match (error, doing) {
        (QueryError::Timeout { .. }, Doing::Connecting) => {
            host.log(LogLevel::Error, b"lua tcp socket connect timed out");
        }
        (QueryError::Timeout { stage: Stage::SendQuery }, Doing::Sending | Doing::Querying) => {
            host.log(LogLevel::Error, b"lua tcp socket write timed out");
        }
        (QueryError::Timeout { .. }, _) => host.log(LogLevel::Error, b"lua tcp socket read timed out"),
        (QueryError::Connect { peer, source }, _) => {
            if let Some(certificate) = explain_certificate(source) {
                host.log(LogLevel::Error, format!("lua ssl certificate verify error: ({certificate})").as_bytes());
            } else if let Some(number) = source.raw_os_error() {
                Failure::System(number).log_call(host, &format!("connect() to {peer}"));
            }
        }
        (QueryError::Lost { source, .. }, _) => {
            if let Some(number) = source.raw_os_error() {
                let call = if doing == Doing::Reading { "recv()" } else { "send()" };
                Failure::System(number).log_call(host, call);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: QueryError, doing: Doing, expected: &str) {
        assert_eq!(Refusal::of(error, doing).message, expected);
    }

    fn peer() -> String {
        "127.0.0.1:3306".to_owned()
    }

    #[test]
    fn messages_are_those_of_lua_resty_mysql() {
        let refused = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let eof = || io::Error::from(io::ErrorKind::UnexpectedEof);
        check(
            QueryError::Connect { peer: peer(), source: refused },
            Doing::Connecting,
            "failed to connect: connection refused",
        );
        check(
            QueryError::Connect { peer: peer(), source: eof() },
            Doing::Connecting,
            "failed to receive packet header: closed",
        );
        check(QueryError::Timeout { stage: Stage::Connect }, Doing::Connecting, "failed to connect: timeout");
        check(
            QueryError::Timeout { stage: Stage::RecvRows },
            Doing::Reading,
            "failed to receive packet header: timeout",
        );
        check(QueryError::Lost { peer: peer(), source: eof() }, Doing::Sending, "closed");
        check(
            QueryError::Lost { peer: peer(), source: io::Error::from_raw_os_error(libc::ECONNRESET) },
            Doing::Reading,
            "failed to receive packet header: connection reset by peer",
        );
        check(
            QueryError::Protocol { peer: peer(), what: NO_TLS.to_owned() },
            Doing::Connecting,
            "ssl disabled on server",
        );
    }
}
