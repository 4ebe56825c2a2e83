//! `listen … handlersocket`: the embedded engine's tables for clients of DeNA's HandlerSocket.
//!
//! The protocol is [`tidegate_http::handlersocket`]'s, the rows are [`tidegate_sql::table`]'s. Here they meet: when a client is waited
//! for and how long ([`Talk`]), which indexes it has open ([`indexes`]), how the requests of one arrival become one batch of the
//! engine ([`batch`]) and its results their answers ([`replies`]).
//!
//! A connection has no session of the engine: a batch takes one of those that the port keeps. A client on which nothing happens
//! is parked, with the indexes that it has open and nothing else; clients share what they know of an index.

mod batch;
mod indexes;
mod replies;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use tidegate_conf::{Diagnostic, Diagnostics, Span, ast};
use tidegate_core::{
    conf::{Build, Config},
    listen,
};
use tidegate_http::handlersocket::request;
use tidegate_net::{
    buffers,
    listeners::ListenAddr,
    log::Level,
    service::{Conversation, HasSession, Memo, Opening, Service},
    session::{End, Session, Wait},
    worker::Worker,
};

use self::{
    indexes::{Client, Shared},
    replies::Outbox,
};
use super::{BLOCK, Conf, guarded, listen::add, reopen};

/// The port of an address without one, for reading and for writing.
///
/// Source: HandlerSocket, `handlersocket_port` and `handlersocket_port_wr`.
const PORTS_DEFAULT: [u16; 2] = [9998, 9999];
/// How long a client may send nothing, where `handlersocket_timeout` says nothing else.
///
/// Source: HandlerSocket, `handlersocket_timeout`.
const IDLE_TIME_MAX: Duration = Duration::from_secs(300);
/// How long the rest of a line may take to arrive.
///
/// Source: MariaDB, `net_read_timeout`.
const READ_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes of the longest line, where `packet_size_max` says nothing.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Bytes of the longest line of a client that has not told the secret yet.
const LOGIN_LINE_BYTES_MAX: usize = 4 << 10;
/// Bytes that are read before the lines in them are carried out together.
const ARRIVAL_BYTES_MAX: usize = 64 << 10;
/// Least room for bytes of a client.
const READ_BYTES_MIN: usize = 1 << 10;
/// Lines that need no rows, or are wrong, until other connections have their turn: a client may send nothing else.
const ALONE_MAX: usize = 256;
/// Sessions of the engine that a port of a worker keeps for its next batches.
const SESSIONS_MAX: usize = 64;
/// A line that begins so ends the connection at once.
const HANG_UP: u8 = b'/';

/// What the directives of the block say about these ports.
#[derive(Default, Clone)]
pub(super) struct Settings {
    /// `handlersocket_plain_secret`
    pub(super) handlersocket_plain_secret: Option<bstr::BString>,
    /// `handlersocket_plain_secret_wr`
    pub(super) handlersocket_plain_secret_wr: Option<bstr::BString>,
    /// `handlersocket_timeout`
    pub(super) handlersocket_timeout: Option<Duration>,
    /// Where addresses stand that others can reach over the network, and what they are for.
    open_to_others: Vec<(Span, Access)>,
}

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Settings {
    /// Takes what is not said here from the level around it.
    pub(super) fn inherit(&mut self, parent: &Settings) {
        let Settings {
            handlersocket_plain_secret,
            handlersocket_plain_secret_wr,
            handlersocket_timeout,
            open_to_others: _,
        } = self;
        let or = |own: &mut Option<bstr::BString>, outer: &Option<bstr::BString>| {
            if own.is_none() {
                own.clone_from(outer);
            }
        };
        or(handlersocket_plain_secret, &parent.handlersocket_plain_secret);
        or(handlersocket_plain_secret_wr, &parent.handlersocket_plain_secret_wr);
        *handlersocket_timeout = handlersocket_timeout.or(parent.handlersocket_timeout);
    }

    fn secret(&self, access: Access) -> &[u8] {
        let secret = match access {
            Access::Read => &self.handlersocket_plain_secret,
            Access::Write => &self.handlersocket_plain_secret_wr,
        };
        secret.as_ref().map_or(b"", |secret| secret.as_slice())
    }
}

/// `listen … handlersocket [write]`
pub(super) fn listen(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let is_write = |arg: &ast::Arg| *arg.value == b"write"[..];
    let (access, port) = match directive.args.iter().skip(2).any(is_write) {
        true => (Access::Write, PORTS_DEFAULT[1]),
        false => (Access::Read, PORTS_DEFAULT[0]),
    };
    let specs = listen::of_service(directive, port, &["write"], |arg| Ok(is_write(arg)))?;
    let is_near = |addr: &ListenAddr| match addr {
        ListenAddr::Unix(_) => true,
        ListenAddr::Tcp(address) => address.ip().to_canonical().is_loopback(),
    };
    if !specs.iter().all(|spec| is_near(&spec.addr)) {
        conf.handlersocket.open_to_others.push((directive.args[0].span, access));
    }
    add(directive, specs, build, Arc::new(move |config| Port::open(config, access)));
    Ok(())
}

/// Finds ports that anybody could use from elsewhere.
pub(super) fn check(conf: &Conf, diagnostics: &mut Diagnostics) {
    for (span, access) in &conf.handlersocket.open_to_others {
        if conf.handlersocket.secret(*access).is_empty() {
            let directive = match access {
                Access::Read => "handlersocket_plain_secret",
                Access::Write => "handlersocket_plain_secret_wr",
            };
            diagnostics
                .error(*span, format!("anybody could use this port over the network: there is no \"{directive}\""))
                .hint(format!("write \"{directive} text;\", or listen on 127.0.0.1 or a Unix socket"));
        }
    }
}

/// HandlerSocket at an address.
struct Port {
    config: Arc<Config>,
    access: Access,
    /// What clients have to tell; empty if anybody may ask.
    secret: Box<[u8]>,
    idle_time_max: Duration,
    line_bytes_max: usize,
    /// Sessions that no batch uses.
    sessions: RefCell<Vec<tidegate_sql::Session>>,
    /// Indexes that clients have open.
    shared: Shared,
}

impl Port {
    fn open(config: &Arc<Config>, access: Access) -> Rc<dyn Service> {
        let block = config.http_conf(&BLOCK);
        let settings = &block.handlersocket;
        Rc::new(PortService(Rc::new(Port {
            config: config.clone(),
            access,
            secret: settings.secret(access).into(),
            idle_time_max: settings.handlersocket_timeout.unwrap_or(IDLE_TIME_MAX),
            line_bytes_max: block.packet_size_max.unwrap_or(LINE_BYTES_MAX),
            sessions: RefCell::default(),
            shared: Shared::default(),
        })))
    }

    /// A session of the engine.
    ///
    /// # Errors
    /// Why there is none.
    fn take_session(&self) -> Result<tidegate_sql::Session, String> {
        let kept = self.sessions.borrow_mut().pop();
        match kept.and_then(tidegate_sql::Session::up_to_date) {
            Some(session) => Ok(session),
            None => reopen(&self.config)?.session("").map_err(|error| error.to_string()),
        }
    }

    /// Takes a session back whose batch has ended.
    fn give_session(&self, session: tidegate_sql::Session) {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() < SESSIONS_MAX && !session.client().is_gone() {
            sessions.push(session);
        }
    }
}

struct PortService(Rc<Port>);

impl Service for PortService {
    fn begin(&self, worker: &Rc<Worker>, opening: Opening) {
        worker.start(Talk::new(opening, &self.0));
    }
    /// Only whole lines are waited for at length.
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
    port: Rc<Port>,
    client: Cell<Client>,
    /// Bytes that came while it was parked.
    input: Cell<Vec<u8>>,
}

impl Talk {
    fn new(opening: Opening, port: &Rc<Port>) -> Self {
        let Opening { session, input, memo } = opening;
        let client = match memo.and_then(|memo| (*memo).downcast::<Client>().ok()) {
            Some(client) => *client,
            None => {
                session.set_nodelay();
                Client::default()
            }
        };
        Talk { session, port: port.clone(), client: Cell::new(client), input: Cell::new(input) }
    }
}

impl HasSession for Talk {
    fn session(&self) -> &Session {
        &self.session
    }
}

impl Conversation for Talk {
    async fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> End {
        let mut client = self.client.take();
        let end = guarded::guarded(&self.session, PROTOCOL, talk(self, &mut client, worker)).await;
        self.client.set(client);
        end
    }

    fn park(self) -> Opening {
        let Talk { session, client, input, port: _ } = self;
        let client = client.into_inner();
        let memo = (!client.is_new()).then(|| -> Memo { Box::new(Box::new(client)) });
        Opening { session, input: input.into_inner(), memo }
    }
}

/// The protocol's name in the error log.
const PROTOCOL: &str = "handlersocket";

/// Writes a line about a connection to the error log.
fn note(session: &Session, level: Level, message: std::fmt::Arguments<'_>) {
    guarded::note(session, PROTOCOL, level, message);
}

/// Talks until the connection ends, or nothing has happened on it for a while.
async fn talk(talk: &Talk, client: &mut Client, worker: &Rc<Worker>) -> End {
    let mut input = talk.input.take();
    let mut outbox = Outbox::new(&talk.session);
    let end = exchange(talk, client, &mut input, &mut outbox, worker).await;
    outbox.give_back();
    buffers::give(input);
    end
}

async fn exchange(
    talk: &Talk,
    client: &mut Client,
    input: &mut Vec<u8>,
    outbox: &mut Outbox<'_>,
    worker: &Rc<Worker>,
) -> End {
    let Talk { session, port, .. } = talk;
    let mut answered = false;
    // Bytes at the front of the input in which no line ends.
    let mut seen = 0;
    loop {
        // A leading slash counts at the beginning of what has arrived, and nothing before it is answered any more.
        if input.first() == Some(&HANG_UP) {
            return End::Closed;
        }
        if memchr::memchr(tidegate_http::handlersocket::END, &input[seen..]).is_some() {
            let used = match port.answer(client, input, outbox, session).await {
                Ok(used) => used,
                Err(()) => return End::Closed,
            };
            if outbox.send().await.is_err() {
                return End::Closed;
            }
            input.drain(..used);
            answered = true;
        }
        seen = input.len();
        let is_idle = input.is_empty();
        let may_ask = client.may_ask(&port.secret);
        if seen > if may_ask { port.line_bytes_max } else { LOGIN_LINE_BYTES_MAX } {
            let bound =
                if may_ask { "packet_size_max" } else { "those of clients that have not told the secret may be" };
            note(session, Level::Warn, format_args!("a line is longer than {bound}"));
            return End::Closed;
        }
        if is_idle {
            session.requests.set(session.requests.get() + u64::from(answered));
            session.await_request(true);
        }
        // A client that never pauses would keep a worker that is to end: it finds the connection closed behind its answers.
        let came = match is_idle && worker.is_quitting() && answered {
            true => Ok(Wait::Closing),
            false => wait(session, port, input, worker).await,
        };
        session.end_await();
        match came {
            Ok(Wait::Ready(1..)) => {
                session.set_fresh(false);
                session.request_has_come();
            }
            Ok(Wait::Closing) if is_idle && session.take_parking() => return End::Idle,
            Ok(Wait::TimedOut) => {
                note(session, Level::Info, format_args!("client timed out"));
                return End::Closed;
            }
            Ok(Wait::Ready(0) | Wait::Closing) | Err(_) => return End::Closed,
        }
    }
}

/// Waits for the client's next bytes, for as long as they may take, and appends what is there to the input.
async fn wait(session: &Session, port: &Port, input: &mut Vec<u8>, worker: &Worker) -> std::io::Result<Wait<usize>> {
    let is_idle = input.is_empty();
    let time_max = if is_idle { port.idle_time_max } else { READ_TIME_MAX };
    let _waiting = is_idle.then(|| worker.waiting());
    let before = input.len();
    let came = session.wait(time_max.as_millis() as u64, |cx| {
        loop {
            ready!(session.stream.poll_read_ready(cx))?;
            if input.capacity() == 0 {
                *input = buffers::take();
            }
            input.reserve(READ_BYTES_MIN);
            match session.stream.try_read_buf(input) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // There may be more where so much has come.
                Ok(1..) if input.len() == input.capacity() && input.len() - before < ARRIVAL_BYTES_MAX => {}
                Err(error) if input.len() == before => return Poll::Ready(Err(error)),
                _ => return Poll::Ready(Ok(input.len() - before)),
            }
            if input.len() > before && input.len() < input.capacity() {
                return Poll::Ready(Ok(input.len() - before));
            }
        }
    });
    came.await
}

impl Port {
    /// Carries out the lines that are complete, and says how many bytes they have.
    ///
    /// # Errors
    /// The connection is to be closed.
    async fn answer(
        &self,
        client: &mut Client,
        input: &mut [u8],
        outbox: &mut Outbox<'_>,
        session: &Session,
    ) -> Result<usize, ()> {
        let mut rest = input;
        let (mut used, mut alone) = (0, 0);
        loop {
            let size = rest.len();
            let (batch, last) = batch::gather(self, client, &mut rest);
            if !batch.is_empty() {
                batch.run(self, outbox, session).await?;
            }
            used += size - rest.len();
            if matches!(last, batch::Last::Command(_) | batch::Last::Refused(_)) {
                alone += 1;
                if alone > ALONE_MAX {
                    alone = 0;
                    outbox.send().await.map_err(drop)?;
                    tokio::task::yield_now().await;
                }
            }
            match last {
                batch::Last::Command(command) => self.reply(command, client, outbox, session),
                batch::Last::Refused(refusal) => outbox.refuse(refusal),
                // Their answers leave before the next ones are made, and other connections have their turn.
                batch::Last::Full => {
                    outbox.send().await.map_err(drop)?;
                    tokio::task::yield_now().await;
                }
                batch::Last::None => return Ok(used),
            }
        }
    }

    /// Answers what needs no rows.
    fn reply(&self, command: request::Command<'_>, client: &mut Client, outbox: &mut Outbox<'_>, session: &Session) {
        use tidegate_http::handlersocket::answer::Refusal;
        let done = match command {
            request::Command::Open(_) if !client.may_ask(&self.secret) => Err(Refusal::Unauthorized),
            request::Command::Open(open) => client.open(self, &open),
            request::Command::Auth(auth) => client.authorize(self, &auth, session),
            request::Command::OnIndex(_) | request::Command::Unknown => Err(Refusal::Command),
        };
        match done {
            Ok(()) => outbox.done(),
            Err(refusal) => outbox.refuse(refusal),
        }
    }
}
