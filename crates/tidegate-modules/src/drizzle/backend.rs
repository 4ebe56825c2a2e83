//! What an `upstream` of `drizzle_server`s leads to: a pool of connections.

use std::{sync::Arc, time::Duration};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::request::Request;
use tidegate_mysql::{Address, ConnectOptions, Overflow, Pool, PoolMode, PoolOptions, ServerOptions, Timeouts};
use tidegate_rows::{Execute, QueryError, Sink, Stage, Statement};

use super::{Conf, Running};
use crate::database;

/// A `drizzle_server`.
#[derive(Debug, Clone)]
pub(super) struct ServerDraft {
    /// `None` for the embedded engine.
    address: Option<Address>,
    dbname: String,
    user: String,
    password: Vec<u8>,
    charset: String,
    weight: u32,
    backup: bool,
    down: bool,
    max_fails: u32,
    fail_timeout: Duration,
}

/// What happens when all connections are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OverflowWord {
    Ignore,
    Reject,
    Wait,
}

/// `drizzle_keepalive`
#[derive(Debug, Clone, Copy)]
pub(super) struct Keepalive {
    pub(super) max: usize,
    pub(super) mode: PoolMode,
    pub(super) overflow: OverflowWord,
    /// `wait=`: how long a request may wait for a connection.
    pub(super) wait: Duration,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive { max: 0, mode: PoolMode::Single, overflow: OverflowWord::Ignore, wait: Duration::from_secs(60) }
    }
}

/// MySQL's port.
const PORT_DEFAULT: u16 = 3306;

impl ServerDraft {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        const WORDS: [&str; 10] = [
            "dbname=",
            "user=",
            "password=",
            "protocol=",
            "charset=",
            "weight=",
            "max_fails=",
            "fail_timeout=",
            "backup",
            "down",
        ];
        let name = &directive.args[0];
        let mut server = ServerDraft {
            address: if name.value == "embedded" { None } else { Some(parse_address(name)?) },
            dbname: String::new(),
            user: String::new(),
            password: Vec::new(),
            charset: String::new(),
            weight: 1,
            backup: false,
            down: false,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
        };
        for arg in &directive.args[1..] {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            let (word, value) = arg.value.split_once_str(b"=").unwrap_or((&arg.value, b""));
            let text = || String::from_utf8(value.to_vec()).map_err(|_| invalid());
            let number = || value.to_str().ok().and_then(|number| number.parse().ok()).ok_or_else(invalid);
            match word {
                b"backup" if value.is_empty() => server.backup = true,
                b"down" if value.is_empty() => server.down = true,
                b"weight" => server.weight = number()?,
                b"max_fails" => server.max_fails = number()?,
                b"fail_timeout" => server.fail_timeout = values::time(value.as_bstr()).map_err(|_| invalid())?,
                b"dbname" => server.dbname = text()?,
                b"user" => server.user = text()?,
                b"password" => server.password = value.to_vec(),
                b"charset" => server.charset = text()?,
                b"protocol" if value == b"mysql" => {}
                b"protocol" => {
                    let message =
                        format!("drizzle: invalid protocol: {} in \"drizzle_server\" directive", value.as_bstr());
                    return Err(
                        Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("the protocol is \"mysql\"")
                    );
                }
                _ => return Err(invalid()),
            }
        }
        Ok(server)
    }

    /// Whether this is the engine inside the process.
    pub(super) fn is_embedded(&self) -> bool {
        self.address.is_none()
    }

    fn options(&self) -> Option<ServerOptions> {
        let address = self.address.clone()?;
        let mut connect = ConnectOptions::new(address, self.user.clone(), self.password.clone());
        connect.schema.clone_from(&self.dbname);
        connect.charset.clone_from(&self.charset);
        Some(ServerOptions {
            weight: self.weight,
            backup: self.backup,
            down: self.down,
            max_fails: self.max_fails,
            fail_timeout: self.fail_timeout,
            ..ServerOptions::new(connect)
        })
    }
}

trait SplitOnce {
    fn split_once_str(&self, separator: &[u8]) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for bstr::BString {
    fn split_once_str(&self, separator: &[u8]) -> Option<(&[u8], &[u8])> {
        let at = self.find(separator)?;
        Some((&self[..at], &self[at + separator.len()..]))
    }
}

fn parse_address(arg: &ast::Arg) -> Result<Address, Diagnostic> {
    let bad = || Diagnostic::new(Severity::Emerg, arg.span, format!("invalid address \"{}\"", arg.value));
    let text = arg.value.to_str().map_err(|_| bad())?;
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::Unix(path.into()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
        _ => (text, PORT_DEFAULT),
    };
    Ok(Address::tcp(host.trim_start_matches('[').trim_end_matches(']'), port))
}

impl Keepalive {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        const WORDS: [&str; 4] = ["max=", "mode=", "overflow=", "wait="];
        let mut keepalive = Keepalive::default();
        for arg in &directive.args {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            match arg.value.split_once_str(b"=").ok_or_else(invalid)? {
                (b"max", number) => {
                    keepalive.max = number.to_str().ok().and_then(|n| n.parse().ok()).ok_or_else(invalid)?;
                }
                (b"mode", b"single") => keepalive.mode = PoolMode::Single,
                (b"mode", b"multi") => keepalive.mode = PoolMode::Multi,
                (b"overflow", b"ignore") => keepalive.overflow = OverflowWord::Ignore,
                (b"overflow", b"reject") => keepalive.overflow = OverflowWord::Reject,
                (b"overflow", b"wait") => keepalive.overflow = OverflowWord::Wait,
                (b"wait", time) => keepalive.wait = values::time(time.as_bstr()).map_err(|_| invalid())?,
                _ => return Err(invalid()),
            }
        }
        Ok(keepalive)
    }
}

/// What an `upstream` of `drizzle_server`s leads to.
pub(super) enum Backend {
    /// Servers that speak MySQL's protocol.
    Mysql(Pool),
    /// The engine inside the process, in this schema.
    Embedded { schema: String },
}

impl Backend {
    pub(super) fn new(name: &BStr, servers: &[ServerDraft], keepalive: Option<Keepalive>) -> Arc<Self> {
        if let Some(embedded) = servers.iter().find(|server| server.is_embedded()) {
            return Arc::new(Backend::Embedded { schema: embedded.dbname.clone() });
        }
        let keepalive = keepalive.unwrap_or_default();
        let mut options = PoolOptions::new(name.to_string(), servers.iter().filter_map(ServerDraft::options).collect());
        options.max = keepalive.max;
        options.idle_max = keepalive.max;
        options.mode = keepalive.mode;
        options.overflow = match keepalive.overflow {
            OverflowWord::Ignore => Overflow::Ignore,
            OverflowWord::Reject => Overflow::Reject,
            OverflowWord::Wait => Overflow::Wait { timeout: Some(keepalive.wait), queue_max: usize::MAX },
        };
        Arc::new(Backend::Mysql(Pool::new(options)))
    }

    /// Runs a statement in a session of its own.
    pub(super) async fn execute<S: Sink>(
        &self,
        req: &Request,
        conf: &Conf,
        statement: Statement<'_>,
        sink: &mut S,
        running: &Running,
    ) -> Result<(), QueryError> {
        match self {
            Backend::Mysql(pool) => {
                let mut conn = pool.get(timeouts(conf)).await.map_err(refused)?;
                running.thread_id.set(conn.thread_id());
                conn.execute(statement, sink).await
            }
            Backend::Embedded { schema } => {
                let engine = database::engine(req.conf()).map_err(|error| QueryError::Connect {
                    peer: "the embedded engine".to_owned(),
                    source: std::io::Error::other(error),
                })?;
                let mut session = engine.session(schema)?;
                running.thread_id.set(u32::try_from(session.id()).unwrap_or(u32::MAX));
                let run = session.execute(statement, sink);
                match conf.drizzle_query_timeout {
                    None => run.await,
                    Some(time) => tokio::time::timeout(time, run)
                        .await
                        .unwrap_or(Err(QueryError::Timeout { stage: Stage::Query })),
                }
            }
        }
    }
}

/// A server that refuses the login is as good as one that is not there: the statement is not to blame.
fn refused(error: QueryError) -> QueryError {
    match error {
        QueryError::Server(error) => {
            QueryError::Connect { peer: "database".to_owned(), source: std::io::Error::other(error) }
        }
        error => error,
    }
}

fn timeouts(conf: &Conf) -> Timeouts {
    let minute = Some(Duration::from_secs(60));
    Timeouts {
        connect: conf.drizzle_connect_timeout.or(minute),
        send_query: conf.drizzle_send_query_timeout.or(minute),
        recv_columns: conf.drizzle_recv_cols_timeout.or(minute),
        recv_rows: conf.drizzle_recv_rows_timeout.or(minute),
        query: conf.drizzle_query_timeout,
    }
}
