//! The TLS handshake of a connection, ahead of its first request.

use std::{
    future::Future as _,
    io,
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use rustls::{HandshakeKind, ServerConfig, pki_types::CertificateDer, server::ClientHello};
use tidegate_net::{
    counters::COUNTERS,
    session::Wait,
    tls::{HandshakeError, TlsStream},
};
use tidegate_ocsp::{Inquiry, inquiry::AskError};
use tidegate_tls::{
    alpn_challenge,
    bound::Unbound,
    failure::Reason,
    sessions::{HeldSessions, Made},
    summary,
    verify::Link,
    versions::Versions,
};

use super::head::with_nobodys_request;
use crate::{
    clock,
    conf::ServerId,
    connection::Connection,
    error_log::{count_for_connection, enabled_for_connection, write_for_connection},
    log::Level,
    ssl::{
        self, ServerTls,
        client::{Facts, NotAccepted},
        failure::HandshakeFailure,
        script::{Handshake, Refused, Script},
    },
    worker::Worker,
};

/// When a handshake has to be done: the client's messages, scripts and what is asked about its certificate, all together.
#[derive(Clone, Copy)]
struct Deadline(u64);

impl Deadline {
    /// Time runs from when the client came.
    ///
    /// Source: nginx, `ngx_http_init_connection`: nothing sets its timer again before the handshake is over.
    fn of(conn: &Connection) -> Self {
        Self(conn.accepted_ms.saturating_add(conn.config().default_http(conn.port).client_header_timeout_ms()))
    }

    /// What is left; at least a millisecond, since 0 is no limit for those who wait.
    fn left_ms(self) -> u64 {
        self.0.saturating_sub(clock::steady_ms()).max(1)
    }
}

/// Does the handshake, where the port wants one; `false` when there is nothing to be served. A client that speaks
/// without TLS gets its answer as a request ([`Connection::lacks_tls`]).
///
/// Source: nginx, `ngx_http_ssl_handshake`.
pub(super) async fn shake_hands(conn: &Rc<Connection>, worker: &Worker) -> bool {
    let Some(stream) = conn.stream.as_tls() else { return true };
    if conn.tls.get().is_some() {
        // It was parked since.
        return true;
    }
    let _reading = worker.reading();
    let deadline = Deadline::of(conn);
    if conn.config().has_handshake_scripts() {
        stream.keep_hello();
    }
    // The outcome of the handshake is one thing, that of the wait another.
    let hello = conn.wait(deadline.left_ms(), |cx| stream.poll_hello(cx, &mut conn.input.borrow_mut()).map(Ok)).await;
    if let Ok(Wait::Ready(Ok(false))) = hello {
        return true;
    }
    let Some(true) = outcome(conn, hello) else {
        // Who connects and leaves without a word has tried nothing: so do those who look whether the port is open.
        return give_up(conn, stream.has_begun() && !worker.is_quitting());
    };
    if stream.with_hello(alpn_challenge::is_asked) == Some(true) {
        prove_name(conn, stream, deadline).await;
        conn.mark_broken();
        return false;
    }
    let served = if conn.config().has_handshake_scripts() {
        // Boxed, since most handshakes have no scripts.
        Box::pin(serve_with_scripts(conn, stream, deadline)).await
    } else {
        serve(conn, stream, deadline).await
    };
    if served.is_none() {
        return give_up(conn, !worker.is_quitting());
    }
    COUNTERS.handshakes.fetch_add(1, Relaxed);
    if conn.stream.with_tls(|tls| tls.handshake_kind()) == Some(Some(HandshakeKind::Resumed)) {
        COUNTERS.handshakes_resumed.fetch_add(1, Relaxed);
    }
    true
}

/// Answers the client's first message and does the rest of the handshake; `None` when there is nothing to be served.
async fn serve(conn: &Rc<Connection>, stream: &TlsStream, deadline: Deadline) -> Option<()> {
    let (facts, tls) = match choose(conn, stream) {
        Some((facts, tls)) => (Some(facts), Some(tls)),
        None => (None, None),
    };
    let config = match (&facts, tls) {
        (Some(facts), Some(tls)) => {
            config_of(conn, stream, facts.server, tls).await.map_err(|message| report(conn, &message)).ok()
        }
        _ => None,
    };
    let held = tls.and_then(|tls| held_sessions(tls, tls.client.is_some()));
    let config = match (config, tls, &held) {
        (Some(config), Some(tls), Some(held)) => Some(with_held(config, tls, held)),
        (config, ..) => config,
    };
    outcome(conn, Ok(Wait::Ready(stream.answer(config))))?;
    finish(conn, stream, deadline).await?;
    remember(conn, facts?, deadline).await?;
    decide_sessions(conn, held.as_deref());
    Some(())
}

/// Where the sessions of a handshake wait for [`decide_sessions`], if the client is verified and sessions are kept in memory.
fn held_sessions(tls: &ServerTls, verifies: bool) -> Option<Arc<HeldSessions>> {
    let sessions = &tls.unbound.sessions;
    (verifies && sessions.can_cache()).then(|| HeldSessions::new(sessions.clone()))
}

/// `config` with sessions that wait.
fn with_held(config: Arc<ServerConfig>, tls: &ServerTls, held: &Arc<HeldSessions>) -> Arc<ServerConfig> {
    let mut config = ServerConfig::clone(&config);
    tls.context.bind(&Unbound { sessions: held.clone(), ..tls.unbound.clone() }, &mut config);
    Arc::new(config)
}

/// Keeps the sessions of a client that is accepted.
fn decide_sessions(conn: &Connection, held: Option<&HeldSessions>) {
    if let Some(held) = held {
        held.decide(conn.tls.get().is_some_and(|facts| !matches!(facts.verified, Some(Err(_)))));
    }
}

/// As [`serve`], with scripts that decide.
///
/// Source: lua-nginx-module, `ngx_http_lua_ssl_client_hello_handler` and its like.
async fn serve_with_scripts(conn: &Rc<Connection>, stream: &TlsStream, deadline: Deadline) -> Option<()> {
    let default = &conn.default_level().conf(&ssl::MODULE).scripts;
    let handshake = Handshake::new(conn.clone(), &stream.take_heard(), Versions::ALL);
    if enabled_for_connection(conn, Level::Debug) {
        write_for_connection(conn, Level::Debug, format_args!("reusable connection: 0"));
    }
    demand(&handshake, default.client_hello.as_ref(), stream, deadline, Reason::CALLBACK_FAILED).await?;
    let Some((mut facts, tls)) = choose(conn, stream) else {
        outcome(conn, Ok(Wait::Ready(stream.answer(None))));
        return None;
    };
    handshake.enter(tls);
    if default.certificate.is_some()
        && let Some(server) = named_without_script(conn, stream)
    {
        let name = &conn.config().servers[server.0 as usize].name;
        let message = format_args!("no ssl_certificate_by_lua* defined in server {name}");
        write_for_connection(conn, Level::Alert, message);
        return refuse(conn, stream, Reason::CERT_CB_ERROR);
    }
    if handshake.session_id().is_some()
        && let Some(script) = &tls.scripts.session_fetch
    {
        // A session that is not found costs this handshake some time, and nothing else.
        let _ = wait_for(&handshake, script, deadline).await?;
    }
    demand(&handshake, tls.scripts.certificate.as_ref(), stream, deadline, Reason::CERT_CB_ERROR).await?;
    if handshake.shows_nothing() {
        say_refused(conn, Reason::NO_SHARED_CIPHER);
        stream.refuse_all();
        return None;
    }
    let base = config_of(conn, stream, facts.server, tls).await;
    let held = held_sessions(tls, tls.client.is_some() || handshake.has_demand());
    let settings = match base.and_then(|base| handshake.settings(tls, base, held.clone())) {
        Ok(settings) => settings,
        Err(message) => {
            report(conn, &message);
            stream.refuse();
            return None;
        }
    };
    outcome(conn, Ok(Wait::Ready(stream.answer(Some(settings.config)))))?;
    finish(conn, stream, deadline).await?;
    if let (Some(sessions), Some(script)) = (settings.sessions, &tls.scripts.session_store) {
        store_sessions(&handshake, sessions.take_made(), script, deadline).await?;
    }
    facts.rules = handshake.take_rules();
    facts.memo = handshake.memo();
    remember(conn, facts, deadline).await?;
    decide_sessions(conn, held.as_deref());
    Some(())
}

/// The server that a client asks for, if that has no script which would choose its certificate.
fn named_without_script(conn: &Connection, stream: &TlsStream) -> Option<ServerId> {
    let config = conn.config();
    let name = stream.server_name()?;
    let (server, _) = config.listens[conn.port].names.find(ssl::client::host_of(&name).as_bytes())?;
    let level = &config.levels[config.servers[server.0 as usize].level.0 as usize];
    level.conf(&ssl::MODULE).scripts.certificate.is_none().then_some(server)
}

/// Has a script store the sessions of a handshake. Those of TLS 1.3 are in tickets, which clients keep.
async fn store_sessions(
    handshake: &Rc<Handshake>,
    made: Vec<Made>,
    script: &Arc<dyn Script>,
    deadline: Deadline,
) -> Option<()> {
    const TLS13: u16 = 0x0304;
    if let Some(version) = handshake.version().filter(|version| *version >= TLS13) {
        let message = format_args!("ssl_session_store_by_lua*: skipped since TLS version >= 1.3 ({version})");
        if enabled_for_connection(handshake.connection(), Level::Debug) {
            write_for_connection(handshake.connection(), Level::Debug, message);
        }
        return Some(());
    }
    for made in made {
        handshake.set_made(made);
        // A session that is not kept costs the next handshake some time, this one nothing.
        let _ = wait_for(handshake, script, deadline).await?;
    }
    Some(())
}

/// Runs a script that can refuse the handshake; `None` when it must not go on, of which the client was told.
async fn demand(
    handshake: &Rc<Handshake>,
    script: Option<&Arc<dyn Script>>,
    stream: &TlsStream,
    deadline: Deadline,
    failure: Reason,
) -> Option<()> {
    let Some(script) = script else { return Some(()) };
    match wait_for(handshake, script, deadline).await? {
        Ok(()) => Some(()),
        Err(Refused) => refuse(handshake.connection(), stream, failure),
    }
}

fn refuse(conn: &Connection, stream: &TlsStream, failure: Reason) -> Option<()> {
    say_refused(conn, failure);
    stream.refuse();
    None
}

fn say_refused(conn: &Connection, failure: Reason) {
    let message = format_args!("SSL_do_handshake() failed (SSL: {failure}) while SSL handshaking");
    write_for_connection(conn, Level::Info, message);
}

/// Runs a script to its end; `None` when the connection ends before that.
async fn wait_for(
    handshake: &Rc<Handshake>,
    script: &Arc<dyn Script>,
    deadline: Deadline,
) -> Option<Result<(), Refused>> {
    let mut decided = pin!(script.run(handshake).wait());
    let conn = handshake.connection();
    match conn.wait(deadline.left_ms(), |cx| decided.as_mut().poll(cx).map(Ok)).await {
        Ok(Wait::Ready(decision)) => Some(decision),
        Ok(Wait::TimedOut) => outcome(conn, Ok(Wait::TimedOut)),
        Ok(Wait::Closing) | Err(_) => None,
    }
}

/// Does the rest of a handshake that was answered.
async fn finish(conn: &Rc<Connection>, stream: &TlsStream, deadline: Deadline) -> Option<()> {
    let done =
        conn.wait(deadline.left_ms(), |cx| stream.poll_handshake(cx, &mut conn.input.borrow_mut()).map(Ok)).await;
    outcome(conn, done)?;
    if enabled_for_connection(conn, Level::Debug) {
        tell(conn);
    }
    Some(())
}

/// Does what is left of a handshake whose client has spoken early, ahead of the connection's end: to close at once would send a reset, which takes
/// what the client has not read yet away from it.
pub(super) async fn complete(conn: &Rc<Connection>, worker: &Worker) {
    let Some(stream) = conn.stream.as_tls().filter(|stream| stream.is_early()) else { return };
    let _reading = worker.reading();
    // A worker that shuts down waits for it no longer than for any handshake.
    conn.set_fresh(true);
    let timeout_ms = conn.config().default_http(conn.port).client_header_timeout_ms();
    let done = conn.wait(timeout_ms, |cx| stream.poll_complete(cx).map(Ok)).await;
    if outcome(conn, done).is_none() {
        conn.mark_broken();
    }
}

/// Writes what nginx says at the debug level of a handshake that is done.
#[cold]
fn tell(conn: &Connection) {
    let lines = conn.stream.with_tls(summary::of);
    for line in lines.into_iter().flatten() {
        write_for_connection(conn, Level::Debug, format_args!("{line}"));
    }
}

fn report(conn: &Connection, message: &str) {
    write_for_connection(conn, Level::Error, format_args!("{message} while SSL handshaking"));
}

/// The server that a client gets, and what is remembered of it.
fn choose<'c>(conn: &'c Connection, stream: &TlsStream) -> Option<(Facts, &'c ServerTls)> {
    let chosen = stream.with_hello(|hello| {
        let (server, tls) = settings_for(conn, hello)?;
        Some((Facts::new(server, hello), tls))
    });
    chosen.flatten()
}

/// Does the handshake of an authority that wants a name to be proved. Nothing follows it.
///
/// Source: RFC 8737, section 3.
async fn prove_name(conn: &Rc<Connection>, stream: &TlsStream, deadline: Deadline) {
    let config = stream.with_hello(alpn_challenge::find).flatten();
    if outcome(conn, Ok(Wait::Ready(stream.answer(config)))).is_some() {
        finish(conn, stream, deadline).await;
    }
}

/// What a step came to; `None` when there is nothing more to do, and the log knows why.
fn outcome<T>(conn: &Connection, waited: io::Result<Wait<Result<T, HandshakeError>>>) -> Option<T> {
    let log = |message: std::fmt::Arguments<'_>| {
        write_for_connection(conn, Level::Info, format_args!("{message} while SSL handshaking"));
    };
    match waited {
        Ok(Wait::Ready(Ok(done))) => return Some(done),
        Ok(Wait::Ready(Err(error))) => log(format_args!("{}", HandshakeFailure(&error))),
        Ok(Wait::TimedOut) => {
            log(format_args!("client timed out (110: Connection timed out)"));
            conn.timed_out.set(true);
        }
        Ok(Wait::Closing) | Err(_) => {}
    }
    None
}

/// Ends a connection without a handshake; `counts` says whether it has failed.
fn give_up(conn: &Connection, counts: bool) -> bool {
    if conn.timed_out.get() {
        count_for_connection(conn, &COUNTERS.handshakes_timed_out, "TLS handshakes have taken too long");
    } else if counts {
        count_for_connection(conn, &COUNTERS.handshakes_failed, "TLS handshakes have failed");
    }
    conn.mark_broken();
    false
}

/// The settings of a handshake, with certificates whose names have variables.
async fn config_of(
    conn: &Rc<Connection>,
    stream: &TlsStream,
    server: ServerId,
    tls: &ServerTls,
) -> Result<Arc<ServerConfig>, String> {
    let base = tls.config_at(conn.listens_http2(), stream.offers_session());
    let Some(dynamic) = &tls.dynamic else { return Ok(base.clone()) };
    let names = with_nobodys_request(conn, server, |req| dynamic.names(req));
    dynamic.settings(base, names).await
}

/// The server whose settings a client gets: that of the name that it asks for, or the default one. `None` where handshakes are
/// refused.
fn settings_for<'c>(conn: &'c Connection, hello: &ClientHello<'_>) -> Option<(ServerId, &'c ServerTls)> {
    let config = conn.config();
    let listen = &config.listens[conn.port];
    let settings = |server: ServerId| Some((server, &**config.tls_of(server)?));
    let name = hello.server_name().map(ssl::client::host_of);
    let named = name.and_then(|name| listen.names.find(name.as_bytes()));
    let of_name = named.and_then(|(server, _)| settings(server));
    of_name.or_else(|| settings(listen.default)).filter(|(_, tls)| !tls.rejects)
}

/// Verifies what the client has shown, once for all requests of the connection; `None` when that ends before.
async fn remember(conn: &Rc<Connection>, mut facts: Facts, deadline: Deadline) -> Option<()> {
    let tls = conn.config().tls_of(facts.server).map(|tls| &**tls);
    let inquiry = tls.and_then(|tls| tls.inquiry.as_ref());
    if let Some(rules) = facts.rules.as_ref().or_else(|| tls?.client.as_ref()) {
        facts.verified = match inquiry {
            None => shown(conn, |chain| rules.verify(chain)).map(|verified| verified.map_err(NotAccepted::from)),
            Some(inquiry) => match shown(conn, |chain| rules.verify_with_links(chain)) {
                None => None,
                Some(Err(error)) => Some(Err(error.into())),
                // Boxed, since most connections have no clients with certificates.
                Some(Ok(links)) => Some(Box::pin(check_status(conn, inquiry, &links, deadline)).await?),
            },
        };
    }
    // A connection has one handshake.
    let _ = conn.tls.set(Box::new(facts));
    Some(())
}

/// Calls `look` with the certificates that the client has shown, if it has.
fn shown<T>(conn: &Connection, look: impl FnOnce(&[CertificateDer<'_>]) -> T) -> Option<T> {
    conn.stream.with_tls(|tls| Some(look(tls.peer_certificates()?))).flatten()
}

/// Asks for the status of what the client has shown; `None` when the connection ends before there is an answer.
async fn check_status(
    conn: &Rc<Connection>,
    inquiry: &Inquiry,
    links: &[Link],
    deadline: Deadline,
) -> Option<Result<(), NotAccepted>> {
    let report = |error: &AskError| {
        write_for_connection(conn, Level::Error, format_args!("{error} while requesting certificate status"));
    };
    let mut answered = pin!(inquiry.check(links, clock::now_unix(), report));
    match conn.wait(deadline.left_ms(), |cx| answered.as_mut().poll(cx).map(Ok)).await {
        Ok(Wait::Ready(answer)) => Some(answer.map_err(NotAccepted::from)),
        Ok(Wait::TimedOut) => outcome(conn, Ok(Wait::TimedOut)),
        Ok(Wait::Closing) | Err(_) => None,
    }
}
