//! On whose behalf a script runs: a request, a timer, the start or end of a worker.

use std::any::Any;
use std::fmt::{self, Display, Write};
use std::rc::Rc;

use tidegate_core::connection::Connection;
use tidegate_core::error_log;
use tidegate_core::request::Request;
use tidegate_net::Peer;
use tidegate_net::listeners::ListenAddr;
use tidegate_net::log::{self, Level};

use crate::phase::Phase;
use crate::request_context::{LuaContext, ScriptTable};
use crate::socket::OpenSockets;

/// nginx's log levels; the numbers are those of `ngx.ERR` and its kin.
pub type LogLevel = Level;

/// The request or other purpose that a run serves.
#[derive(Clone)]
pub enum Host {
    /// A request: everything is there.
    Request(Rc<Request>),
    /// No request: a timer, a worker's start or end, a test.
    Other(Rc<dyn Surroundings>),
}

/// The environment of a script that runs without a request.
pub trait Surroundings {
    /// Writes to the error log, with a tail that says where the script runs.
    fn log(&self, level: LogLevel, message: &[u8]);

    /// Whether the error log takes messages of `level`. Costly messages are not built otherwise.
    fn logs(&self, level: LogLevel) -> bool;

    /// The host of a timer that a script creates here.
    fn timer_host(&self) -> Host;

    /// The sockets that were opened here; they are closed when it ends.
    fn open_sockets(&self) -> Rc<OpenSockets>;

    /// The concrete type.
    fn as_any(&self) -> &dyn Any;

    /// `ngx.ctx`, where it outlives a run.
    fn script_table(&self) -> Option<&ScriptTable> {
        None
    }
}

impl Host {
    /// The request, if it is one.
    pub fn request(&self) -> Option<&Rc<Request>> {
        match self {
            Self::Request(req) => Some(req),
            Self::Other(_) => None,
        }
    }

    /// Writes to the error log with this host's tail.
    pub fn log(&self, level: LogLevel, message: &[u8]) {
        match self {
            Self::Request(req) => match action(req) {
                Some(action) => {
                    error_log::write_bytes_for_request(req, level, &[message, action.as_bytes()].concat());
                }
                None => error_log::write_bytes_for_request(req, level, message),
            },
            Self::Other(other) => other.log(level, message),
        }
    }

    /// Whether the error log takes messages of `level`.
    pub fn logs(&self, level: LogLevel) -> bool {
        match self {
            Self::Request(req) => error_log::enabled(req, level),
            Self::Other(other) => other.logs(level),
        }
    }

    /// Writes a line that lua-nginx-module writes at the debug level, and that test suites look for.
    pub fn log_debug(&self, message: &[u8]) {
        if self.logs(Level::Debug) {
            self.log(Level::Debug, message);
        }
    }

    /// The host of a timer that a script creates here.
    pub fn timer_host(&self) -> Host {
        match self {
            Self::Request(req) => timer_host(req.connection(), req.peer()),
            Self::Other(other) => other.timer_host(),
        }
    }
}

/// What nginx does for the request meanwhile, in the phases in which lines say so.
fn action(req: &Request) -> Option<&'static str> {
    let context = req.find_context::<LuaContext>()?;
    if context.attempt.borrow().is_some() {
        return Some(" while connecting to upstream");
    }
    match &*context.peer_handshake.borrow() {
        Some((_, Phase::ProxySslCertificate)) => return Some(" while loading proxy ssl certificate by lua"),
        Some(_) => return Some(" while loading proxy ssl verify by lua"),
        None => {}
    }
    context.logs_request.get().then_some(" while logging request")
}

/// The host of a timer that a script for a client's connection creates.
pub(crate) fn timer_host(conn: &Connection, peer: Peer) -> Host {
    let tail = Tail::Client { peer, server: conn.listen_addr().cloned() };
    Host::Other(Rc::new(Detached { tail, connection: Some(conn.number), sockets: Rc::default() }))
}

/// Surroundings that write to the error log of the process.
pub struct Detached {
    tail: Tail,
    connection: Option<u64>,
    sockets: Rc<OpenSockets>,
}

impl Detached {
    /// A host whose log lines end in `, context: CONTEXT`; in nothing for an empty context.
    pub fn host(context: &str) -> Host {
        Host::Other(Rc::new(Self { tail: Tail::Context(context.to_owned()), connection: None, sockets: Rc::default() }))
    }
}

/// What a log line says of where the script runs. It becomes text only when there is such a line.
#[derive(Clone)]
enum Tail {
    /// A name; nothing if it is empty.
    Context(String),
    /// The timer of a request.
    Client { peer: Peer, server: Option<ListenAddr> },
}

impl Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Context(name) if name.is_empty() => Ok(()),
            Self::Context(name) => write!(f, ", context: {name}"),
            Self::Client { peer, server } => {
                write!(f, ", context: ngx.timer, client: {peer}, server: ")?;
                server.as_ref().map_or(Ok(()), |server| write!(f, "{server}"))
            }
        }
    }
}

impl Surroundings for Detached {
    fn log(&self, level: LogLevel, message: &[u8]) {
        log::main().write_bytes(level, self.connection, message, |line| {
            // `Line` takes everything.
            let _ = write!(line, "{}", self.tail);
        });
    }

    fn logs(&self, level: LogLevel) -> bool {
        log::main().enabled(level)
    }

    fn timer_host(&self) -> Host {
        if self.connection.is_none() {
            return Detached::host(Phase::Timer.context_name());
        }
        // A timer that a request's timer starts is that request's all the same.
        let (tail, connection) = (self.tail.clone(), self.connection);
        Host::Other(Rc::new(Self { tail, connection, sockets: Rc::default() }))
    }

    fn open_sockets(&self) -> Rc<OpenSockets> {
        self.sockets.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
