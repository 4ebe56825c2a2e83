//! The TLS handshake of a connection, ahead of its first request.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use rustls::{ServerConfig, server::ClientHello};
use tidegate_net::{session::Wait, tls::HandshakeError};

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
    let facts = RefCell::new(None);
    let choose = |hello: &ClientHello<'_>| -> Option<Arc<ServerConfig>> {
        let (server, tls) = settings_for(conn, hello)?;
        *facts.borrow_mut() = Some(Facts::new(server, hello));
        Some(tls.config.clone())
    };
    let timeout_ms = conn.config().default_http(conn.port).client_header_timeout_ms();
    let done = conn.wait(timeout_ms, |cx| {
        // The outcome of the handshake is one thing, that of the wait another.
        stream.poll_handshake(cx, &mut conn.input.borrow_mut(), choose).map(Ok)
    });
    let log = |level, message: std::fmt::Arguments<'_>| {
        write_for_connection(conn, level, format_args!("{message} while SSL handshaking"));
    };
    match done.await {
        Ok(Wait::Ready(Ok(()))) => {
            if let Some(facts) = facts.take() {
                remember(conn, facts);
            }
            return true;
        }
        Ok(Wait::Ready(Err(error @ HandshakeError::NoSettings))) => log(Level::Info, format_args!("{error}")),
        Ok(Wait::Ready(Err(error))) => log(Level::Info, format_args!("{error}")),
        Ok(Wait::TimedOut) => {
            log(Level::Info, format_args!("client timed out (110: Connection timed out)"));
            conn.timed_out.set(true);
        }
        Ok(Wait::Closing) | Err(_) => {}
    }
    conn.mark_broken();
    false
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
