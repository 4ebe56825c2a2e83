//! `connect`: a session from the pool, or a new one.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::worker;
use tidegate_modules::database;
use tidegate_mysql::handshake::capability::{FOUND_ROWS, IGNORE_SPACE, INTERACTIVE};
use tidegate_mysql::{Address, Conn, ConnectOptions, Timeouts, TlsClient, TlsMode};

use super::db::{Busy, Call, Db, Operation, State, call};
use super::link::{Backend, Embedded, Link, Membership};
use super::login::{Encryption, Login, Server, utf8};
use super::refusal::{Doing, Refusal};
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::phase::Phases;
use crate::rows::Integers;
use crate::scheduler::{Answer, with_run};
use crate::socket::pool::{self, Grant, Offer, Place, Queued};
use crate::socket::{Closing, Settings, Target, debug, host_target, push_nil_error, resolve};
use crate::stack::Lua;

/// lua-resty-mysql's limit of an answer's packets.
const PACKET_BYTES_MAX: usize = 1 << 20;
/// How many prepared statements a connection keeps.
const STATEMENTS_MAX: usize = 256;

/// What a connection has beside what it was made with; the script that takes it from the pool may want others.
#[derive(Debug, Clone, Copy)]
struct Tuning {
    limit: Duration,
    packet_bytes_max: usize,
}

/// The back end that `connect` will connect to.
enum Plan {
    Server { target: Target, options: Box<ConnectOptions> },
    Embedded { schema: String },
}

/// The arguments of a login begin here.
const LOGIN: i32 = 7;

/// `connect(handle, key, pool_size?, backlog?, max_packet_size?, int64?, host?, port?, path?, embedded?, user?, password?,
/// database?, charset?, ssl?, ssl_verify?)`: results, or nothing when the Lua half is to await.
pub(super) fn connect(lua: &mut Lua) -> CResult {
    with_run(|run| Phases::YIELDABLE.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))?;
    let Call { db, host } = call(lua)?;
    if let Some(operation) = db.busy() {
        return push_nil_error(lua, &format!("failed to connect: {}", operation.busy()));
    }
    if db.is_open() {
        db.check_owner(&host)?;
    }
    db.close_now();
    lua.check_bytes(2)?;
    let backlog = count(lua, 4, 0)?;
    let size = count(lua, 3, 1)?.or(backlog.map(|_| Settings::of(&host).pool_size));
    let tuning = Tuning { limit: db.limit(&host), packet_bytes_max: count(lua, 5, 1)?.unwrap_or(PACKET_BYTES_MAX) };
    db.integers.set(match lua.to_bytes(6) {
        None | Some(b"string") => Integers::String,
        Some(b"cdata") => Integers::Cdata,
        Some(b"number") => Integers::Number,
        Some(_) => return push_nil_error(lua, "int64 must be \"string\", \"cdata\" or \"number\""),
    });
    let login = match Login::of_arguments(lua, LOGIN, &host) {
        Ok(login) => login,
        Err(refusal) => return refusal.push(lua),
    };
    let key = lua.check_bytes(2)?;
    {
        let mut own = db.key.borrow_mut();
        own.clear();
        own.extend_from_slice(key);
    }
    let pool = match size {
        Some(size) => match pool::find_or_make::<Link>(&host, key, size, backlog) {
            Ok(pool) => Some(pool),
            Err(why) => return push_nil_error(lua, &format!("failed to connect: {why}")),
        },
        None => pool::find::<Link>(key),
    };
    let (queued, place) = match pool.map(|pool| pool.ask(login.clone())) {
        Some(Offer::Grant(Grant::Conn(link))) => {
            debug(&host, || "lua mysql get keepalive peer".to_owned());
            attach(&db, link, tuning, &host);
            lua.push_integer(1);
            return Ok(1);
        }
        Some(Offer::Full) => return push_nil_error(lua, "failed to connect: too many waiting connect operations"),
        Some(Offer::Queue(queued)) => (Some(queued), None),
        Some(Offer::Grant(Grant::Place(place))) => (None, Some(place)),
        None => (None, None),
    };
    let login = Rc::new(login.into_owned());
    let plan = match plan(&login, tuning) {
        Ok(plan) => plan,
        Err(refusal) => return refusal.push(lua),
    };
    let busy = db.occupy(Operation::Connect);
    let job = Job { db, host, login, plan, tuning };
    with_run(|run| run.wait(lua, job.run(queued, place, busy)))
        .unwrap_or(Err(LuaError::new("no request found")))
        .map(|()| 0)
}

/// The whole number at `index`, if there is one.
fn count(lua: &mut Lua, index: i32, least: usize) -> Result<Option<usize>, LuaError> {
    const NAMES: [&str; 3] = ["pool_size", "backlog", "max_packet_size"];
    if lua.is_none_or_nil(index) {
        return Ok(None);
    }
    let number = lua.to_number(index).map(|number| number as i64);
    match number.and_then(|number| usize::try_from(number).ok()).filter(|&number| number >= least) {
        Some(number) => Ok(Some(number)),
        None => {
            let name = NAMES.get(usize::try_from(index - 3).unwrap_or(0)).unwrap_or(&"");
            let value = match number {
                Some(number) => format!("value: {number}"),
                None => format!("type: {}", lua.type_name(index)),
            };
            Err(LuaError::from(format!("bad \"{name}\" option {value}")))
        }
    }
}

/// Takes a session for `db` and gives it what this script wants.
fn attach(db: &Rc<Db>, mut link: Link, tuning: Tuning, host: &Host) {
    if let Backend::Server(conn) = &mut link.backend {
        conn.set_timeouts(timeouts(tuning.limit));
        conn.set_packet_bytes_max(tuning.packet_bytes_max);
    }
    db.attach(link, host);
    db.state.set(State::Connected);
}

/// Each wait may take `limit`, as with a cosocket.
pub(super) fn timeouts(limit: Duration) -> Timeouts {
    let limit = Some(limit);
    Timeouts { connect: limit, send_query: limit, recv_columns: limit, recv_rows: limit, query: None }
}

/// What `login` asks for, and nothing else decides.
fn plan(login: &Login<'_>, tuning: Tuning) -> Result<Plan, Refusal> {
    let Login { server, user, password, schema, charset, encryption } = login;
    let schema = utf8(schema, "database")?;
    let (target, address) = match server {
        Server::Embedded => {
            if let Some(config) = worker::config() {
                database::check_user(&config, user, password).map_err(|why| format!("failed to connect: {why}"))?;
            }
            return Ok(Plan::Embedded { schema });
        }
        Server::Inet { host, port } => {
            let name = utf8(host, "host")?;
            let target = host_target(&name, *port).map_err(|why| format!("failed to connect: {why}"))?;
            (target, Address::tcp(name.trim_start_matches('[').trim_end_matches(']'), *port))
        }
        Server::Unix(path) => {
            let path = utf8(path, "path")?;
            (Target::Unix(path.clone().into()), Address::Unix(path.into()))
        }
    };
    let mut options = Box::new(ConnectOptions::new(address, utf8(user, "user")?, password.to_vec()));
    options.schema = schema;
    options.charset = utf8(charset, "charset")?;
    options.server_charset = true;
    // What lua-resty-mysql asks for: an UPDATE counts the rows that it finds, blanks may stand before parentheses.
    options.extra_capabilities = FOUND_ROWS | IGNORE_SPACE | INTERACTIVE;
    options.packet_bytes_max = tuning.packet_bytes_max;
    options.statements_max = STATEMENTS_MAX;
    options.timeouts = timeouts(tuning.limit);
    if let Some(Encryption(client)) = encryption {
        options.tls_mode = TlsMode::Required;
        // The name is not verified, as in lua-resty-mysql; any will do.
        options.tls = Some(TlsClient::from_config(client.clone(), Some("localhost".to_owned())));
    }
    Ok(Plan::Server { target, options })
}

/// One `connect`.
struct Job {
    db: Rc<Db>,
    host: Host,
    login: Rc<Login<'static>>,
    plan: Plan,
    tuning: Tuning,
}

impl Job {
    async fn run(self, queued: Option<Queued<Link>>, place: Option<Place<Link>>, busy: Busy) -> Answer {
        let result = self.link(queued, place).await;
        drop(busy);
        match result {
            Ok(link) => {
                attach(&self.db, link, self.tuning, &self.host);
                Answer::One
            }
            Err(refusal) => Answer::Push(Box::new(move |lua| refusal.push(lua))),
        }
    }

    async fn link(&self, queued: Option<Queued<Link>>, place: Option<Place<Link>>) -> Result<Link, Refusal> {
        let mut place = place;
        if let Some(queued) = queued {
            let granted = tokio::time::timeout(self.tuning.limit, queued.granted()).await;
            let Ok(grant) = granted else {
                if Settings::of(&self.host).log_errors {
                    self.host.log(LogLevel::Error, b"lua tcp socket queued connect timed out");
                }
                return Err("failed to connect: timeout".into());
            };
            queued.leave();
            match grant {
                Grant::Conn(link) => return Ok(link),
                Grant::Place(own) => place = Some(own),
            }
        }
        let backend = match &self.plan {
            Plan::Server { target, options } => self.connect_server(target, options).await?,
            Plan::Embedded { schema } => self.open_session(schema).await?,
        };
        Ok(Link { backend, membership: Membership::new(self.login.clone(), place) })
    }

    async fn connect_server(&self, target: &Target, options: &ConnectOptions) -> Result<Backend, Refusal> {
        let addresses: Vec<SocketAddr> = match target {
            Target::Inet(address) => vec![*address],
            Target::Unix(_) => Vec::new(),
            Target::Name(name, port) => {
                resolve(&self.host, name, *port).await.map_err(|why| format!("failed to connect: {why}"))?
            }
        };
        let connecting = Conn::connect_to(Arc::new(options.clone()), &addresses, options.timeouts);
        match connecting.await {
            Ok(conn) => Ok(Backend::Server(Box::new(conn))),
            Err(error) => Err(Refusal::logged(error, Doing::Connecting, &self.host)),
        }
    }

    async fn open_session(&self, schema: &str) -> Result<Backend, Refusal> {
        let Some(config) = worker::config() else { return Err("failed to connect: no embedded engine here".into()) };
        let engine = match database::open_engine(&config) {
            Some(engine) => engine.clone(),
            // No `database` block: the directory is opened now, which reads files.
            None => tokio::task::spawn_blocking({
                let config = config.clone();
                move || database::engine(&config)
            })
            .await
            .map_err(|error| format!("failed to connect: {error}"))?
            .map_err(|error| format!("failed to connect: {error}"))?,
        };
        let mut session = match database::session(&config, &engine, schema).await {
            Ok(session) => session,
            Err(error) => return Err(Refusal::logged(error, Doing::Connecting, &self.host)),
        };
        session.set_found_rows(true);
        Ok(Backend::Embedded(Box::new(Embedded { session, version: engine.server_version().into() })))
    }
}
