//! `sslhandshake`.
//!
//! A session is resumed if the script gives it, as in OpenResty, and by no other handshake: see `session`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bstr::ByteSlice;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};
use tidegate_core::ssl::failure::HandshakeFailure;
use tidegate_core::worker;
use tidegate_net::stream::Stream;
use tidegate_net::tls::HandshakeError;
use tidegate_tls::client::{ClientOptions, Identity};
use tidegate_tls::client_sessions::ClientSession;
use tidegate_tls::failure::Reason;
use tidegate_tls::summary;
use tidegate_tls::verify::VerifyError;
use tidegate_tls::versions::Versions;

use super::conn::Conn;
use super::failure::{debug, push_nil_error};
use super::owner::Closing;
use super::session;
use super::settings::Settings;
use super::tcp::{Busy, Call, Operation, Tcp, call};
use super::tls_conf::{Conf, MODULE};
use super::transport::Transport;
use crate::error::{CResult, LuaError};
use crate::host::{Host, LogLevel};
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;

/// What a handshake demands of a connection, and what an encrypted connection has proved.
#[derive(Clone)]
pub(super) struct Demand {
    options: ClientOptions,
    server_name: Option<Vec<u8>>,
    /// The session, unless the script wanted none.
    pub(super) session: Option<Arc<ClientSession>>,
}

impl Demand {
    /// The name of the server; without any, an address that no certificate is for. `None` for a text that is no name.
    fn name(&self) -> Option<ServerName<'static>> {
        match &self.server_name {
            None => Some(ServerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED))),
            Some(name) => Some(ServerName::try_from(std::str::from_utf8(name).ok()?).ok()?.to_owned()),
        }
    }

    /// What is missing in a connection whose handshake has met `proved`, if anything is.
    ///
    /// A connection that shows a client certificate acts for its owner, so that it serves no script without that
    /// certificate.
    fn missing_in(&self, proved: &Self) -> Option<&'static str> {
        // How a server name is told and whether sessions are resumed says nothing about the peer; whether the name was
        // verified is in `verify`, as a name that is given is verified then.
        let ClientOptions {
            verify,
            check_name: _,
            continues: _,
            depth_max,
            versions,
            ciphers,
            sends_name: _,
            resumes: _,
            trusted,
            revoked,
            identity,
            secrets,
        } = &self.options;
        let other = &proved.options;
        let same_name =
            |name: &Vec<u8>| proved.server_name.as_ref().is_some_and(|other| other.eq_ignore_ascii_case(name));
        if *verify && !other.verify {
            return Some("its certificate was not verified");
        }
        if *verify && (*trusted != other.trusted || *revoked != other.revoked || *depth_max != other.depth_max) {
            return Some("its certificate was verified by other rules");
        }
        if !self.server_name.as_ref().is_none_or(same_name) {
            return Some("it was made for another server name");
        }
        if *identity != other.identity {
            return Some("it was made with another client certificate");
        }
        if (other.versions.tls12 && !versions.tls12) || (other.versions.tls13 && !versions.tls13) {
            return Some("it was made with other versions of TLS");
        }
        if *ciphers != other.ciphers {
            return Some("it was made with other ciphers");
        }
        if *secrets != other.secrets {
            return Some("its secrets were told to others");
        }
        None
    }
}

thread_local! {
    /// Configurations made before: they also keep the sessions.
    static CLIENTS: RefCell<Vec<(ClientOptions, Arc<ClientConfig>)>> = const { RefCell::new(Vec::new()) };
}

/// Configurations kept for each worker; reloads leave old ones behind.
const CLIENTS_MAX: usize = 64;

fn client(options: &ClientOptions) -> Result<Arc<ClientConfig>, String> {
    let known = CLIENTS
        .with_borrow(|clients| clients.iter().find(|(known, _)| known == options).map(|(_, client)| client.clone()));
    if let Some(client) = known {
        return Ok(client);
    }
    let client = options.client().map_err(|error| error.to_string())?;
    CLIENTS.with_borrow_mut(|clients| {
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.push((options.clone(), client.clone()));
    });
    Ok(client)
}

/// What a script says of sessions.
enum Wish {
    /// It wants none.
    None,
    /// It wants one, and has none to resume.
    New,
    /// It wants this one to be resumed.
    Resumed(Arc<ClientSession>),
}

impl Wish {
    fn of(lua: &Lua, host: &Host) -> Self {
        match lua.to_number(2).map(|number| session::given(host, number)) {
            Some(Some(given)) => Self::Resumed(given),
            Some(None) => Self::New,
            None if lua.is_none_or_nil(2) || lua.to_bool(2) => Self::New,
            None => Self::None,
        }
    }
}

/// `sslhandshake(socket, session?, server_name?, verify?, send_status_req?)`: `session` is a number, or tells whether one is wanted. The
/// number of a session; 0 for the given one, of a connection that has had its handshake; `true` where the script wants none.
/// Servers are always asked for the status of their certificates.
pub(super) fn handshake(lua: &mut Lua) -> CResult {
    if !(1..=5).contains(&lua.top()) {
        let text = "ngx.socket sslhandshake: expecting 1 ~ 5 arguments (including the object), but seen";
        return Err(LuaError::from(format!("{text} {}", lua.top())));
    }
    let Call { tcp, host } = call(lua)?;
    let server_name = lua.to_bytes(3).map(<[u8]>::to_vec);
    let verify = lua.to_bool(4);
    let conn = tcp.conn().filter(|conn| !conn.read_closed() && !conn.write_closed.get());
    let Some(conn) = conn else { return push_nil_error(lua, "closed") };
    let all = &[Operation::Connect, Operation::Read, Operation::Write];
    if let Err(refusal) = tcp.check_owner(&host).and_then(|()| tcp.check_idle(all)) {
        return refusal.end(lua);
    }
    if conn.is_downstream() {
        return push_nil_error(lua, "not supported for downstream sockets");
    }
    let identity = tcp.identity.borrow().clone();
    let options = options(&host, verify, server_name.is_some(), identity);
    let mut demand = Demand { options, server_name, session: None };
    // The handshake was done, perhaps for whoever gave the connection to a pool.
    let met = conn.proved.borrow().as_ref().map(|proved| (demand.missing_in(proved), proved.session.clone()));
    match met {
        Some((None, session)) => return push_met(lua, &host, session),
        Some((Some(missing), _)) => {
            tcp.close_now();
            return push_nil_error(lua, &format!("the connection of the pool does not fit: {missing}"));
        }
        None => {}
    }
    demand.session = match Wish::of(lua, &host) {
        Wish::None => None,
        Wish::New => Some(Arc::default()),
        Wish::Resumed(given) => Some(given),
    };
    let Some(name) = demand.name() else { return push_nil_error(lua, "invalid server name") };
    if let Some(name) = &demand.server_name {
        debug(&host, || format!("lua ssl server name: \"{}\"", name.as_bstr()));
    }
    if demand.options.versions == Versions::NONE {
        host.log(LogLevel::Error, format!("SSL_do_handshake() failed (SSL: {})", Reason::NO_PROTOCOLS).as_bytes());
        tcp.close_now();
        return push_nil_error(lua, "handshake failed");
    }
    let client = match client(&demand.options) {
        Ok(client) => client,
        Err(message) => return push_nil_error(lua, &message),
    };
    let settings = Settings::of(&host);
    let limit = tcp.connect_timeout.get().unwrap_or(settings.connect_timeout);
    let busy = tcp.occupy(Operation::Connect);
    let job = Job { tcp, conn, host, client, name, demand };
    with_run(|run| run.wait(lua, job.run(limit, settings.log_errors, busy)))
        .unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// Answers for a connection that has had its handshake, with `session`.
fn push_met(lua: &mut Lua, host: &Host, session: Option<Arc<ClientSession>>) -> CResult {
    if lua.to_number(2).is_some() {
        lua.push_integer(0);
        return Ok(1);
    }
    match Wish::of(lua, host) {
        Wish::None => push_session(lua, host, None),
        // One that was made without a session has none that could be resumed.
        Wish::New | Wish::Resumed(_) => push_session(lua, host, Some(session.unwrap_or_default())),
    }
}

/// What a handshake of a script of `host` is made with.
fn options(host: &Host, verify: bool, named: bool, identity: Option<Arc<Identity>>) -> ClientOptions {
    with_conf(host, |conf| conf.options(verify, named, identity))
}

/// The configuration of a client that verifies, if it verifies, whom the server's certificate is from, not whom it is
/// for; as the `lua_ssl_*` directives where `host` is have it.
///
/// # Errors
/// Why there is none, as a sentence.
pub(crate) fn client_without_name(host: &Host, verify: bool) -> Result<Arc<ClientConfig>, String> {
    client(&options(host, verify, false, None))
}

/// What scripts get for a certificate that was refused, in OpenSSL's words; `None` for other failures.
pub(crate) fn explain_certificate(error: &std::io::Error) -> Option<String> {
    explain(error.get_ref()?.downcast_ref::<Error>()?)
}

fn explain(error: &Error) -> Option<String> {
    VerifyError::of(error).map(|why| format!("{}: {why}", why.number()))
}

fn push_session(lua: &mut Lua, host: &Host, session: Option<Arc<ClientSession>>) -> CResult {
    match session {
        Some(session) => session::push_saved(lua, host, session),
        None => {
            lua.push_bool(true);
            Ok(1)
        }
    }
}

fn with_conf<R>(host: &Host, body: impl FnOnce(&Conf) -> R) -> R {
    match host.request() {
        Some(req) => body(req.module_conf(&MODULE)),
        None => match worker::config() {
            Some(config) => body(config.http_conf(&MODULE)),
            None => body(&Conf::default()),
        },
    }
}

struct Job {
    tcp: Rc<Tcp>,
    conn: Rc<Conn>,
    host: Host,
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
    demand: Demand,
}

impl Job {
    async fn run(self, limit: Duration, log_errors: bool, busy: Busy) -> Answer {
        let plain = self.conn.transport().replace(Transport::Plain(Stream::Closed));
        let Transport::Plain(stream) = plain else { return Answer::NilError("closed".into()) };
        let client = match &self.demand.session {
            Some(session) => Arc::new(session.config(&self.client)),
            None => self.client.clone(),
        };
        let connected = tokio::time::timeout(limit, shake_hands(client, &self.name, stream)).await;
        drop(busy);
        let message = match connected {
            Ok(Ok(stream)) => {
                if self.host.logs(LogLevel::Debug) {
                    for line in stream.with_tls(summary::of).into_iter().flatten() {
                        self.host.log(LogLevel::Debug, line.as_bytes());
                    }
                }
                self.conn.transport().replace(Transport::Plain(stream));
                let session = self.demand.session.clone();
                self.conn.proved.replace(Some(Box::new(self.demand)));
                let host = self.host;
                return Answer::Push(Box::new(move |lua| push_session(lua, &host, session)));
            }
            Err(_) => "timeout".to_owned(),
            Ok(Err(error)) => self.explain(&error, log_errors),
        };
        self.tcp.close_now();
        Answer::NilError(message.into())
    }

    /// What the script gets for a failed handshake, in OpenSSL's words.
    fn explain(&self, error: &HandshakeError, log_errors: bool) -> String {
        let log = |text: String| self.host.log(LogLevel::Error, text.as_bytes());
        let cause = match error {
            HandshakeError::Tls(cause) => VerifyError::of(cause),
            _ => None,
        };
        match cause {
            // What OpenSSL says goes to the log in any case, as in OpenResty.
            None => log(HandshakeFailure(error).to_string()),
            Some(_) if !log_errors => {}
            Some(VerifyError::Name) => {
                let name = self.demand.server_name.as_deref().unwrap_or_default().as_bstr();
                log(format!("lua ssl certificate does not match host \"{name}\""));
            }
            Some(why) => log(format!("lua ssl certificate verify error: ({}: {why})", why.number())),
        }
        match cause {
            None => "handshake failed".to_owned(),
            Some(VerifyError::Name) => "certificate host mismatch".to_owned(),
            Some(why) => format!("{}: {why}", why.number()),
        }
    }
}

async fn shake_hands(
    client: Arc<ClientConfig>,
    name: &ServerName<'static>,
    stream: Stream,
) -> Result<Stream, HandshakeError> {
    let conn = ClientConnection::new(client, name.clone()).map_err(HandshakeError::Tls)?;
    let stream = stream.connect_tls(conn);
    match stream.as_tls() {
        Some(tls) => poll_fn(|cx| tls.poll_connect(cx)).await?,
        None => return Err(HandshakeError::Closed),
    }
    Ok(stream)
}
