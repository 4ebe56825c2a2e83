//! Why an operation on a socket fails, in the words that scripts compare with.

use std::borrow::Cow;
use std::io;

use crate::error::CResult;
use crate::host::{Host, LogLevel};
use crate::stack::Lua;

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It took too long; the connection can be used on.
    TimedOut,
    /// The peer has closed the connection, or we have.
    Closed,
    /// The client has gone, of sockets on its connection.
    ClientAborted,
    /// An error of the system, by its number.
    System(i32),
    /// Anything else.
    Text(Cow<'static, str>),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::System(number),
            None if error.kind() == io::ErrorKind::UnexpectedEof => Self::Closed,
            None if error.kind() == io::ErrorKind::NotConnected => Self::Closed,
            None => Self::Text(error.to_string().into()),
        }
    }
}

/// The system's text for an error number.
pub(crate) fn system_text(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

impl Failure {
    /// What the script gets; system errors in lower case, as LuaSocket has them.
    pub(crate) fn message(&self) -> Cow<'static, str> {
        match self {
            Self::TimedOut => "timeout".into(),
            Self::Closed => "closed".into(),
            Self::ClientAborted => "client aborted".into(),
            Self::System(number) => system_text(*number).to_lowercase().into(),
            Self::Text(text) => text.clone(),
        }
    }

    /// OpenResty's bit for it, shown in log lines.
    pub(crate) fn bit(&self) -> u32 {
        match self {
            Self::TimedOut => 2,
            Self::Closed => 4,
            Self::ClientAborted => 0x80,
            Self::System(_) | Self::Text(_) => 1,
        }
    }

    /// Pushes `nil` and the message.
    pub(crate) fn push(&self, lua: &mut Lua) -> CResult {
        push_nil_error(lua, &self.message())
    }

    /// Logs a failed system call as nginx does: `recv() failed (104: Connection reset by peer)`.
    pub(crate) fn log_call(&self, host: &Host, call: &str) {
        if let Self::System(number) = self {
            let level = if matches!(
                *number,
                libc::ECONNREFUSED
                    | libc::ECONNRESET
                    | libc::EPIPE
                    | libc::ETIMEDOUT
                    | libc::EHOSTUNREACH
                    | libc::ENETUNREACH
                    | libc::EHOSTDOWN
                    | libc::ENETDOWN
                    | libc::ENOTCONN
            ) {
                LogLevel::Error
            } else {
                LogLevel::Crit
            };
            host.log(level, format!("{call} failed ({number}: {})", system_text(*number)).as_bytes());
        }
    }
}

/// Writes a line that only `error_log … debug` shows; suites and people tell by them what a socket did.
#[inline]
pub(crate) fn debug(host: &Host, message: impl FnOnce() -> String) {
    if host.logs(LogLevel::Debug) {
        host.log(LogLevel::Debug, message().as_bytes());
    }
}

/// Pushes `nil` and `message`.
pub(crate) fn push_nil_error(lua: &mut Lua, message: &str) -> CResult {
    lua.push_nil();
    lua.push_bytes(message.as_bytes());
    Ok(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_openresty() {
        for (failure, expected) in [
            (Failure::TimedOut, "timeout"),
            (Failure::Closed, "closed"),
            (Failure::System(libc::ECONNREFUSED), "connection refused"),
            (Failure::System(libc::ECONNRESET), "connection reset by peer"),
            (Failure::System(libc::ENOENT), "no such file or directory"),
            (Failure::from(io::Error::from(io::ErrorKind::UnexpectedEof)), "closed"),
        ] {
            assert_eq!(failure.message(), expected);
        }
    }
}
