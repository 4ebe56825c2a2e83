//! What an `upstream` of `drizzle_server`s leads to.

use std::{cell::RefCell, collections::HashMap, sync::Arc, time::Duration};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_mysql::{Address, Conn, ConnectOptions, Timeouts};
use tidegate_rows::{Execute, QueryError, Sink, Statement};

use super::{Conf, Running};

/// A `drizzle_server`.
#[derive(Debug, Clone)]
pub(super) struct ServerDraft {
    address: Address,
    dbname: String,
    user: String,
    password: Vec<u8>,
    charset: String,
}

/// `drizzle_keepalive`
#[derive(Debug, Clone, Copy)]
pub(super) struct Keepalive {
    pub(super) max: usize,
    pub(super) reject: bool,
}

/// MySQL's port.
const PORT_DEFAULT: u16 = 3306;

impl ServerDraft {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        const WORDS: [&str; 6] = ["dbname=", "user=", "password=", "protocol=", "charset=", "port="];
        let name = &directive.args[0];
        let mut server = ServerDraft {
            address: parse_address(name)?,
            dbname: String::new(),
            user: String::new(),
            password: Vec::new(),
            charset: String::new(),
        };
        for arg in &directive.args[1..] {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            let (word, value) = arg.value.split_once_str(b"=").ok_or_else(invalid)?;
            let text = || String::from_utf8(value.to_vec()).map_err(|_| invalid());
            match word {
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

    fn options(&self, timeouts: Timeouts) -> ConnectOptions {
        let mut options = ConnectOptions::new(self.address.clone(), self.user.clone(), self.password.clone());
        options.schema.clone_from(&self.dbname);
        options.charset.clone_from(&self.charset);
        options.timeouts = timeouts;
        options
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
        const WORDS: [&str; 3] = ["max=", "mode=", "overflow="];
        let mut keepalive = Keepalive { max: 0, reject: false };
        for arg in &directive.args {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            match arg.value.split_once_str(b"=").ok_or_else(invalid)? {
                (b"max", number) => {
                    keepalive.max = number.to_str().ok().and_then(|n| n.parse().ok()).ok_or_else(invalid)?;
                }
                (b"mode", b"single" | b"multi") => {}
                (b"overflow", b"ignore") => keepalive.reject = false,
                (b"overflow", b"reject") => keepalive.reject = true,
                _ => return Err(invalid()),
            }
        }
        Ok(keepalive)
    }
}

/// What an `upstream` of `drizzle_server`s leads to.
pub(super) struct Backend {
    name: String,
    servers: Vec<ServerDraft>,
    keepalive: Keepalive,
}

thread_local! {
    static IDLE: RefCell<HashMap<String, Vec<Conn>>> = RefCell::default();
}

impl Backend {
    pub(super) fn new(name: &BStr, servers: &[ServerDraft], keepalive: Option<Keepalive>) -> Arc<Self> {
        Arc::new(Backend {
            name: name.to_string(),
            servers: servers.to_vec(),
            keepalive: keepalive.unwrap_or(Keepalive { max: 0, reject: false }),
        })
    }

    /// Runs a statement on a connection of the pool.
    pub(super) async fn execute<S: Sink>(
        &self,
        conf: &Conf,
        statement: Statement<'_>,
        sink: &mut S,
        running: &Running,
    ) -> Result<(), QueryError> {
        let mut conn = match IDLE.with_borrow_mut(|idle| idle.get_mut(&self.name).and_then(Vec::pop)) {
            Some(conn) => conn,
            None => Conn::connect(Arc::new(self.servers[0].options(timeouts(conf)))).await?,
        };
        running.thread_id.set(conn.thread_id());
        conn.execute(statement, sink).await?;
        IDLE.with_borrow_mut(|idle| {
            let idle = idle.entry(self.name.clone()).or_default();
            if idle.len() < self.keepalive.max {
                idle.push(conn);
            }
        });
        Ok(())
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
