//! `listen … mysql`: the embedded engine for clients that speak MySQL's protocol.
//!
//! The protocol is [`tidegate_mysql::server`]'s, the connection the worker's. Here they meet: when a client is waited for
//! and how long ([`Talk`]), what answers it ([`answers`]), and who may log in ([`logins`], [`full_logins`]). A connection on which nothing
//! happens is parked: its session keeps variables and statements, but neither a task nor buffers, and no connection of the
//! engine.

mod answers;
mod full_logins;
pub(super) mod logins;
mod proxied;
pub(super) mod socket;
pub(super) mod tls;
mod transcoding;

use std::{
    cell::Cell,
    io,
    rc::Rc,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use tidegate_conf::{Diagnostic, Diagnostics, ast};
use tidegate_core::{
    conf::{Build, Config},
    listen,
};
use tidegate_mysql::{
    answer,
    packet::put_packet,
    server::{Next, Server},
};
use tidegate_net::{
    Peer,
    log::Level,
    service::{Conversation, HasSession, Memo, Opening, Service},
    session::{End, Session, Wait},
    worker::Worker,
};
use tidegate_rows::ServerError;

use self::{answers::Answers, socket::Socket};
use super::{BLOCK, Conf, guarded, listen::add};

/// The protocol's name in the log.
const PROTOCOL: &str = "mysql";
/// The port of an address without one.
const PORT_DEFAULT: u16 = 3306;
/// Number of an error that has none of its own.
const UNKNOWN_ERROR: u16 = 1105;
/// How long a login may take.
///
/// Source: MariaDB, `connect_timeout`.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the rest of a command may take to arrive.
///
/// Source: MariaDB, `net_read_timeout`.
const READ_TIME_MAX: Duration = Duration::from_secs(30);
/// Commands that are answered before other connections have their turn.
const TURN_COMMANDS: u32 = 16;

/// `listen … mysql`
pub(super) fn listen(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.listen_span.get_or_insert(directive.args[0].span);
    let mut proxied = false;
    let specs = listen::of_service(directive, PORT_DEFAULT, &["proxy_protocol"], |arg| {
        let is_own = *arg.value == *b"proxy_protocol";
        proxied |= is_own;
        Ok(is_own)
    })?;
    add(directive, specs, build, Arc::new(move |config| Port::open(config, proxied)));
    Ok(())
}

/// Finds ports at which nobody could log in.
pub(super) fn check(conf: &Conf, diagnostics: &mut Diagnostics) {
    if let Some(span) = conf.listen_span
        && conf.users.is_none()
    {
        diagnostics
            .error(span, "nobody may log in through \"listen\": there is no \"user\"")
            .hint("write \"user name password=...;\" for each account");
    }
}

/// MySQL's protocol at an address.
struct Port {
    config: Arc<Config>,
    /// A balancer says first who the client is.
    proxied: bool,
}

impl Port {
    fn open(config: &Arc<Config>, proxied: bool) -> Rc<dyn Service> {
        Rc::new(Port { config: config.clone(), proxied })
    }
}

impl Service for Port {
    fn begin(&self, worker: &Rc<Worker>, opening: Opening) {
        worker.start(Talk::new(opening, &self.config, self.proxied));
    }
    /// Only whole commands are waited for at length.
    fn head_timeout_ms(&self) -> u64 {
        READ_TIME_MAX.as_millis() as u64
    }
    fn stays_parked(&self, _: &[u8], _: usize) -> bool {
        false
    }
}

/// The talk with a client.
struct Talk {
    session: Session,
    /// `None` while it is used, and where there is no engine.
    server: Cell<Option<Box<Server<Answers>>>>,
    /// Bytes that came while it was parked.
    input: Cell<Vec<u8>>,
    /// The header of the PROXY protocol is still to come.
    awaits_header: Cell<bool>,
}

impl Talk {
    fn new(opening: Opening, config: &Arc<Config>, proxied: bool) -> Self {
        let Opening { mut session, input, memo } = opening;
        let awaits_header = Cell::new(proxied && memo.is_none());
        let server = match memo.and_then(|memo| (*memo).downcast::<Server<Answers>>().ok()) {
            Some(server) => {
                // The socket is watched again: nobody has to shut it down from outside.
                server.backend.client().forget_waker();
                Some(server)
            }
            None => {
                session.set_nodelay();
                let tls = config.http_conf(&BLOCK).tls.is_some();
                if tls {
                    // Bytes pass as they are until the client asks for TLS.
                    session.stream = session.stream.into_tls();
                }
                let begun = Answers::begin(config, session.peer).and_then(|answers| Server::new(answers, tls));
                let begun = begun.map(|mut server| {
                    // Behind a balancer the client may be anywhere.
                    if matches!(session.peer, Peer::Unix) && !proxied {
                        server.set_local();
                    }
                    server
                });
                begun.map(Box::new).map_err(|error| refuse(&session, &error)).ok()
            }
        };
        Talk { session, server: Cell::new(server), input: Cell::new(input), awaits_header }
    }
}

impl HasSession for Talk {
    fn session(&self) -> &Session {
        &self.session
    }
}

impl Conversation for Talk {
    async fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> End {
        let Some(mut server) = self.server.take() else { return End::Closed };
        if self.awaits_header.take() {
            let Some((peer, rest)) = proxied::read_header(&self.session).await else { return End::Closed };
            server.backend.set_peer(peer);
            self.input.set(rest);
        }
        let talking = talk(&self.session, &mut server, self.input.take(), worker);
        let end = guarded::guarded(&self.session, PROTOCOL, talking).await;
        if end == End::Idle {
            server.release();
            self.server.set(Some(server));
        }
        end
    }

    fn park(self) -> Opening {
        let Talk { session, server, input, awaits_header: _ } = self;
        let memo = server.into_inner().map(|server| {
            if let Some(fd) = session.stream.as_fd() {
                socket::shut_down_when_killed(server.backend.client(), fd);
            }
            Memo::new(server)
        });
        Opening { session, input: input.into_inner(), memo }
    }
}

/// Tells a client in place of the greeting why there is none. Such an error has no SQLSTATE.
fn refuse(session: &Session, error: &io::Error) {
    note(session, Level::Error, format_args!("no session: {error}"));
    let [low, high] = UNKNOWN_ERROR.to_le_bytes();
    let mut packet = Vec::new();
    put_packet(&mut packet, &mut 0, &[&[answer::ERR, low, high], error.to_string().as_bytes()]);
    // The socket is new, and takes so much at once.
    let _ = session.stream.try_write(&packet);
}

/// Writes a line about a connection to the error log.
fn note(session: &Session, level: Level, message: std::fmt::Arguments<'_>) {
    guarded::note(session, PROTOCOL, level, message);
}

/// What a wait for the client has come to.
enum Came {
    Bytes(usize),
    /// Somebody has ended the connection.
    Kill,
}

/// Talks until the connection ends, or nothing has happened on it for a while.
async fn talk(session: &Session, server: &mut Server<Answers>, input: Vec<u8>, worker: &Rc<Worker>) -> End {
    let socket = Socket::of(session, server.backend.client().clone());
    server.give(&input);
    drop(input);
    if server.send(&socket).await.is_err() {
        return End::Closed;
    }
    let mut answered = 0u32;
    loop {
        match server.answer(&socket).await {
            Err(_) | Ok(Next::Close) => return End::Closed,
            Ok(Next::Tls) => {
                if !tls::shake_hands(session, server).await {
                    return End::Closed;
                }
                continue;
            }
            Ok(Next::Again) => {
                answered = answered.wrapping_add(1);
                if answered.is_multiple_of(TURN_COMMANDS) {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            Ok(Next::Read) => {}
        }
        let may_be_left = server.is_idle() && server.backend.may_be_left();
        if may_be_left {
            session.requests.set(session.requests.get() + 1);
            session.await_request(true);
        }
        // A client that never pauses would keep a worker that is to end: it is told behind its answer.
        let came = match may_be_left && worker.is_quitting() && answered > 0 {
            true => Ok(Wait::Closing),
            false => wait(session, server, worker).await,
        };
        session.end_await();
        let (code, state, message) = match came {
            Ok(Wait::Ready(Came::Bytes(count @ 1..))) => {
                session.set_fresh(false);
                session.request_has_come();
                server.backend.client().count_received(count);
                server.arrived(count);
                continue;
            }
            Ok(Wait::Closing) if may_be_left && session.take_parking() => return End::Idle,
            Ok(Wait::Ready(Came::Kill)) => (1927, b"70100", "Connection was killed"),
            Ok(Wait::Closing) => (1053, b"08S01", "Server shutdown in progress"),
            Ok(Wait::TimedOut) => {
                note(session, Level::Info, format_args!("client timed out"));
                return End::Closed;
            }
            Ok(Wait::Ready(Came::Bytes(_))) | Err(_) => return End::Closed,
        };
        server.say_farewell(&ServerError::new(code, state, message), &socket).await;
        return End::Closed;
    }
}

/// Waits for the client's next bytes, for as long as it may take.
async fn wait(session: &Session, server: &mut Server<Answers>, worker: &Worker) -> io::Result<Wait<Came>> {
    let is_idle = server.is_idle();
    let time_max = match () {
        () if is_idle => server.backend.idle_time_max(),
        () if server.is_logged_in() => READ_TIME_MAX,
        () => LOGIN_TIME_MAX,
    };
    let _waiting = is_idle.then(|| worker.waiting());
    let client = server.backend.client().clone();
    let came = session.wait(time_max.as_millis() as u64, |cx| {
        client.wakes(cx.waker());
        if client.is_gone() {
            return Poll::Ready(Ok(Came::Kill));
        }
        loop {
            ready!(session.stream.poll_read_ready(cx))?;
            match session.stream.try_read(server.space()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(Came::Bytes)),
            }
        }
    });
    came.await
}
