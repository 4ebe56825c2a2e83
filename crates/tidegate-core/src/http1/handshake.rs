//! The TLS handshake of a connection, ahead of its first request.

use std::{io, rc::Rc, sync::Arc};

use rustls::{ServerConfig, server::ClientHello};
use tidegate_net::{
    session::Wait,
    tls::{HandshakeError, TlsStream},
};
use tidegate_tls::alpn_challenge;

use super::head::with_nobodys_request;
use crate::{
    conf::ServerId,
    connection::Connection,
    error_log::write_for_connection,
    log::Level,
    ssl::{ServerTls, client::Facts},
    worker::Worker,
};

/// Does the handshake, where the port wants one; `false` when there is nothing to be served. A client that speaks
/// without TLS gets its answer as a request ([`Connection::lacks_tls`]).
///
/// Source: nginx, `ngx_http_ssl_handshake`.
pub(super) async fn shake_hands(conn: &Rc<Connection>, worker: &Worker) -> bool {
    let Some(stream) = conn.stream.as_tls() else { return true };
    let _reading = worker.reading();
    let timeout_ms = conn.config().default_http(conn.port).client_header_timeout_ms();
    // The outcome of the handshake is one thing, that of the wait another.
    let hello = conn.wait(timeout_ms, |cx| stream.poll_hello(cx, &mut conn.input.borrow_mut()).map(Ok)).await;
    if let Ok(Wait::Ready(Ok(false))) = hello {
        return true;
    }
    let Some(true) = outcome(conn, hello) else { return give_up(conn) };
    if stream.with_hello(alpn_challenge::is_asked) == Some(true) {
        prove_name(conn, stream, timeout_ms).await;
        return give_up(conn);
    }
    let chosen = stream.with_hello(|hello| {
        let (server, tls) = settings_for(conn, hello)?;
        Some((Facts::new(server, hello), tls))
    });
    let (facts, config) = match chosen.flatten() {
        None => (None, None),
        Some((facts, tls)) => match config_of(conn, facts.server, tls).await {
            Ok(config) => (Some(facts), Some(config)),
            Err(message) => {
                write_for_connection(conn, Level::Error, format_args!("{message} while SSL handshaking"));
                (None, None)
            }
        },
    };
    if outcome(conn, Ok(Wait::Ready(stream.answer(config)))).is_none() {
        return give_up(conn);
    }
    let done = conn.wait(timeout_ms, |cx| stream.poll_handshake(cx, &mut conn.input.borrow_mut()).map(Ok)).await;
    if outcome(conn, done).is_none() {
        return give_up(conn);
    }
    if let Some(facts) = facts {
        remember(conn, facts);
    }
    true
}

/// Does the handshake of an authority that wants a name to be proved. Nothing follows it.
///
/// Source: RFC 8737, section 3.
async fn prove_name(conn: &Rc<Connection>, stream: &TlsStream, timeout_ms: u64) {
    let config = stream.with_hello(alpn_challenge::find).flatten();
    if outcome(conn, Ok(Wait::Ready(stream.answer(config)))).is_some() {
        let done = conn.wait(timeout_ms, |cx| stream.poll_handshake(cx, &mut conn.input.borrow_mut()).map(Ok)).await;
        outcome(conn, done);
    }
}

/// What a step came to; `None` when there is nothing more to do, and the log knows why.
fn outcome<T>(conn: &Connection, waited: io::Result<Wait<Result<T, HandshakeError>>>) -> Option<T> {
    let log = |message: std::fmt::Arguments<'_>| {
        write_for_connection(conn, Level::Info, format_args!("{message} while SSL handshaking"));
    };
    match waited {
        Ok(Wait::Ready(Ok(done))) => return Some(done),
        Ok(Wait::Ready(Err(error))) => log(format_args!("{error}")),
        Ok(Wait::TimedOut) => {
            log(format_args!("client timed out (110: Connection timed out)"));
            conn.timed_out.set(true);
        }
        Ok(Wait::Closing) | Err(_) => {}
    }
    None
}

fn give_up(conn: &Connection) -> bool {
    conn.mark_broken();
    false
}

/// The settings of a handshake, with certificates whose names have variables.
async fn config_of(conn: &Rc<Connection>, server: ServerId, tls: &ServerTls) -> Result<Arc<ServerConfig>, String> {
    let Some(dynamic) = &tls.dynamic else { return Ok(tls.config.clone()) };
    let names = with_nobodys_request(conn, server, |req| dynamic.names(req));
    dynamic.settings(&tls.config, names).await
}

/// The server whose settings a client gets: that of the name that it asks for, or the default one. `None` where handshakes are
/// refused.
fn settings_for<'c>(conn: &'c Connection, hello: &ClientHello<'_>) -> Option<(ServerId, &'c ServerTls)> {
    let config = conn.config();
    let listen = &config.listens[conn.port];
    let settings = |server: ServerId| Some((server, &**config.servers[server.0 as usize].tls.as_ref()?));
    let named = hello.server_name().and_then(|name| listen.names.find(name.as_bytes()));
    let of_name = named.and_then(|(server, _)| settings(server));
    of_name.or_else(|| settings(listen.default)).filter(|(_, tls)| !tls.rejects)
}

/// Verifies what the client has shown, once for all requests of the connection.
fn remember(conn: &Connection, mut facts: Facts) {
    let tls = conn.config().servers[facts.server.0 as usize].tls.as_ref();
    if let Some(rules) = tls.and_then(|tls| tls.client.as_ref()) {
        facts.verified = conn.stream.with_tls(|tls| Some(rules.verify(tls.peer_certificates()?))).flatten();
    }
    // A connection has one handshake.
    let _ = conn.tls.set(Box::new(facts));
}
