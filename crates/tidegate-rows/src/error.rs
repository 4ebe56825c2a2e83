//! Why a query gave no complete result.

use std::{fmt, io, time::Duration};

/// An error that the database reports for a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code}, {})", self.sqlstate())]
pub struct ServerError {
    /// MySQL's error number, e.g. 1146 for a missing table.
    pub code: u16,
    /// SQLSTATE, five characters.
    pub sqlstate: [u8; 5],
    /// The text for people.
    pub message: String,
}

impl ServerError {
    /// An error with its SQLSTATE.
    pub fn new(code: u16, sqlstate: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, sqlstate: *sqlstate, message: message.into() }
    }

    /// SQLSTATE as text.
    pub fn sqlstate(&self) -> &str {
        std::str::from_utf8(&self.sqlstate).unwrap_or("HY000")
    }
}

/// What was under way when a time-out struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Connecting, including the handshake.
    Connect,
    /// Sending the statement and waiting for the first word of its answer.
    SendQuery,
    /// Waiting for the columns.
    RecvColumns,
    /// Waiting for rows.
    RecvRows,
    /// The whole statement.
    Query,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting to the database",
            Self::SendQuery => "sending the statement and waiting for its answer",
            Self::RecvColumns => "waiting for the columns",
            Self::RecvRows => "waiting for rows",
            Self::Query => "the statement",
        })
    }
}

/// Why a query gave no complete result.
///
/// Whose fault: [`Server`](Self::Server) is the statement's; [`PoolBusy`](Self::PoolBusy) is a matter of capacity;
/// the others are the database's or the network's. Only `PoolBusy` and [`Connect`](Self::Connect) are safe to retry:
/// for the rest the statement may have run.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The database answered with an error. The session stays usable.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// All connections stayed busy for the whole wait.
    #[error("no free connection in pool \"{pool}\" after {waited:?}")]
    PoolBusy {
        /// Name of the pool.
        pool: String,
        /// Time that the caller waited.
        waited: Duration,
    },
    /// No connection could be made.
    #[error("cannot connect to {peer}: {source}")]
    Connect {
        /// Address.
        peer: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A stage took too long.
    #[error("{stage} timed out")]
    Timeout {
        /// Which one.
        stage: Stage,
    },
    /// The connection broke while the statement ran.
    #[error("connection to {peer} lost: {source}")]
    Lost {
        /// Address.
        peer: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The server broke the protocol.
    #[error("protocol error from {peer}: {what}")]
    Protocol {
        /// Address.
        peer: String,
        /// Description of the mistake.
        what: String,
    },
    /// The receiver of the rows has gone.
    #[error(transparent)]
    SinkClosed(#[from] crate::SinkClosed),
}
