//! What an `upstream` of `drizzle_server`s leads to: a pool of connections, or the engine inside the process.

use std::{io, sync::Arc, time::Duration};

use bstr::{BStr, ByteSlice};
use tidegate_conf::{Diagnostic, ast, values};
use tidegate_core::{conf::Config, resolver};
use tidegate_mysql::{Overflow, Pool, PoolMode, PoolOptions, Resolved, Resolver, Sharing, Timeouts};
use tidegate_net::clock;
use tidegate_rows::{Execute, QueryError, Sink, Stage, Statement};
use tidegate_sql::Freshness;

use super::{
    Conf,
    server::{ServerDraft, split_word, time},
};
use crate::database;

/// What happens when all connections are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OverflowWord {
    Ignore,
    Reject,
    Wait,
}

impl OverflowWord {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            OverflowWord::Ignore => "ignore",
            OverflowWord::Reject => "reject",
            OverflowWord::Wait => "wait",
        }
    }
}

/// `drizzle_keepalive`
#[derive(Debug, Clone, Copy)]
pub(super) struct Keepalive {
    pub(super) max: usize,
    pub(super) mode: PoolMode,
    pub(super) overflow: OverflowWord,
    /// `wait=`: how long a request may wait for a connection.
    wait: Duration,
    /// `idle=`: how long a connection may lie idle.
    idle: Duration,
    /// `lifetime=`: how old a connection may become.
    lifetime: Option<Duration>,
    /// `cancel=`: whether the server is told of statements that nobody waits for any more.
    cancel: bool,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive {
            max: 0,
            mode: PoolMode::Single,
            overflow: OverflowWord::Ignore,
            wait: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            lifetime: None,
            cancel: true,
        }
    }
}

impl Keepalive {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        const WORDS: [&str; 7] = ["max=", "mode=", "overflow=", "wait=", "idle=", "lifetime=", "cancel="];
        let mut keepalive = Keepalive::default();
        for arg in &directive.args {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            let (word, value) = split_word(&arg.value).ok_or_else(invalid)?;
            match (word, value) {
                (b"max", number) => {
                    keepalive.max = number.to_str().ok().and_then(|n| n.parse().ok()).ok_or_else(invalid)?;
                }
                (b"mode", b"single") => keepalive.mode = PoolMode::Single,
                (b"mode", b"multi") => keepalive.mode = PoolMode::Multi,
                (b"overflow", b"ignore") => keepalive.overflow = OverflowWord::Ignore,
                (b"overflow", b"reject") => keepalive.overflow = OverflowWord::Reject,
                (b"overflow", b"wait") => keepalive.overflow = OverflowWord::Wait,
                (b"wait", value) => keepalive.wait = time(value).ok_or_else(invalid)?,
                (b"idle", value) => keepalive.idle = time(value).ok_or_else(invalid)?,
                (b"lifetime", value) => keepalive.lifetime = Some(time(value).ok_or_else(invalid)?),
                (b"cancel", value) => keepalive.cancel = values::flag(value.as_bstr()).map_err(|_| invalid())?,
                _ => return Err(invalid()),
            }
        }
        Ok(keepalive)
    }
}

/// `drizzle_pipeline`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// As many statements on a connection as have proved quick enough.
    Auto,
    /// At most so many.
    Depth(usize),
}

impl Pipeline {
    pub(super) fn parse(directive: &ast::Directive) -> Result<Self, Diagnostic> {
        let arg = &directive.args[0];
        match arg.value.as_slice() {
            b"auto" => Ok(Pipeline::Auto),
            b"off" => Ok(Pipeline::Depth(1)),
            number => {
                let depth = number.to_str().ok().and_then(|number| number.parse().ok());
                let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, ["auto", "off"]);
                depth.map(Pipeline::Depth).ok_or_else(invalid)
            }
        }
    }
}

/// A statement, and how it may run.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) statement: Statement<'a>,
    /// How many statements may share a connection with it, if it may share one at all.
    pub(super) sharing: Option<Sharing<'a>>,
    /// Whether to tell what the result depends on.
    pub(super) watches: bool,
}

/// What happens while a statement is on its way.
pub(super) enum Event<'a> {
    /// It begins, in the session of this number.
    Began(u32),
    /// A server could not be reached, so another one is tried.
    PassedOver(&'a QueryError),
    /// It has ended well, and its result depends on nothing else than this.
    Depends(Freshness),
}

impl<'a> From<tidegate_mysql::Event<'a>> for Event<'a> {
    fn from(event: tidegate_mysql::Event<'a>) -> Self {
        match event {
            tidegate_mysql::Event::Began(conn) => Event::Began(conn.thread_id()),
            tidegate_mysql::Event::PassedOver(error) => Event::PassedOver(error),
        }
    }
}

/// What an `upstream` of `drizzle_server`s leads to.
pub(super) enum Backend {
    /// Servers that speak MySQL's protocol.
    Mysql { pool: Pool, identity: Box<[u8]> },
    /// The engine inside the process, in this schema.
    Embedded { schema: String, batches: bool },
}

/// What a back end has in common with the one of the same configuration, before a reload too.
fn identity(name: &BStr, servers: &[ServerDraft], batches: bool) -> Box<[u8]> {
    let servers: Vec<String> = servers.iter().map(ServerDraft::identity).collect();
    format!("{name:?} {servers:?} {batches}").into_bytes().into()
}

impl Backend {
    pub(super) fn new(
        name: &BStr,
        servers: &[ServerDraft],
        keepalive: Option<Keepalive>,
        batches: bool,
        names: &resolver::Conf,
    ) -> Arc<Self> {
        if let Some(embedded) = servers.iter().find(|server| server.is_embedded()) {
            return Arc::new(Backend::Embedded { schema: embedded.dbname.clone(), batches });
        }
        let keepalive = keepalive.unwrap_or_default();
        let mut options =
            PoolOptions::new(name.to_string(), servers.iter().filter_map(|server| server.options(batches)).collect());
        options.max = keepalive.max;
        options.idle_max = keepalive.max;
        options.idle_timeout = Some(keepalive.idle);
        options.lifetime = keepalive.lifetime;
        options.cancel = keepalive.cancel;
        options.mode = keepalive.mode;
        options.overflow = match keepalive.overflow {
            OverflowWord::Ignore => Overflow::Ignore,
            OverflowWord::Reject => Overflow::Reject,
            OverflowWord::Wait => Overflow::Wait { timeout: Some(keepalive.wait), queue_max: usize::MAX },
        };
        options.resolver = Some(look_up_with(names));
        Arc::new(Backend::Mysql { pool: Pool::new(options), identity: identity(name, servers, batches) })
    }

    /// Appends what tells its statements from those of other back ends.
    ///
    /// # Errors
    /// Why there is no embedded engine.
    pub(super) fn append_identity(&self, config: &Config, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Backend::Mysql { identity, .. } => {
                out.push(b'm');
                out.extend_from_slice(identity);
            }
            Backend::Embedded { schema, batches } => {
                out.extend([b'e', u8::from(*batches)]);
                out.extend_from_slice(&database::reopen(config)?.id().to_le_bytes());
                out.extend_from_slice(schema.as_bytes());
            }
        }
        Ok(())
    }

    /// Runs a statement. `notice` is told when it begins, which may be more than once, and of servers that could not be
    /// reached.
    pub(super) async fn execute<S: Sink>(
        &self,
        config: &Config,
        conf: &Conf,
        run: Run<'_>,
        sink: &mut S,
        notice: impl Fn(Event<'_>),
    ) -> Result<(), QueryError> {
        let statement = run.statement;
        match self {
            Backend::Mysql { pool, .. } => {
                let notice = |event: tidegate_mysql::Event<'_>| notice(event.into());
                match run.sharing {
                    // What is prepared belongs to its connection.
                    Some(sharing) if statement.params.is_empty() => {
                        pool.run_together(statement.sql, sharing, timeouts(conf), sink, notice).await
                    }
                    _ => pool.run(statement, timeouts(conf), sink, notice).await,
                }
            }
            Backend::Embedded { schema, batches } => {
                let engine = database::reopen(config).map_err(|error| QueryError::Connect {
                    peer: "the embedded engine".to_owned(),
                    source: io::Error::other(error),
                })?;
                let mut session = engine.pooled_session(schema)?;
                if let Some(session) = session.get() {
                    session.set_batches(*batches);
                    if run.watches {
                        session.watch_tables();
                    }
                }
                notice(Event::Began(u32::try_from(session.id()).unwrap_or(u32::MAX)));
                let running = session.execute(statement, sink);
                match conf.drizzle_query_timeout {
                    None => running.await?,
                    Some(time) => tokio::time::timeout(time, running)
                        .await
                        .unwrap_or(Err(QueryError::Timeout { stage: Stage::Query }))?,
                }
                if let Some(freshness) = session.get().and_then(|session| session.freshness()) {
                    notice(Event::Depends(freshness));
                }
                Ok(())
            }
        }
    }
}

/// Looks names up as the `upstream` says (`resolver`), again whenever an answer has become too old.
fn look_up_with(names: &resolver::Conf) -> Resolver {
    let names = Arc::new(resolver::Conf { resolver: names.resolver.clone(), resolver_timeout: names.resolver_timeout });
    Arc::new(move |host, port| {
        let (names, host) = (names.clone(), host.to_owned());
        Box::pin(async move {
            let found = names.resolve(&host).await;
            let found = found.map_err(|error| io::Error::other(format!("{host} could not be resolved ({error})")))?;
            let addresses = found.addresses.iter().map(|ip| (*ip, port).into()).collect();
            Ok(Resolved { addresses, valid: Duration::from_millis(found.until_ms.saturating_sub(clock::steady_ms())) })
        })
    })
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
