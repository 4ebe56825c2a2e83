//! The TLS handshake of a connection, ahead of its first request.

use std::rc::Rc;

use rustls::server::ClientHello;
use tidegate_net::{session::Wait, tls::HandshakeError};

use crate::{connection::Connection, error_log::write_for_connection, log::Level, worker::Worker};

/// Does the handshake, where the port wants one; `false` when there is nothing to be served. A client that speaks
/// without TLS gets its answer as a request ([`Connection::lacks_tls`]).
///
/// Source: nginx, `ngx_http_ssl_handshake`.
pub(super) async fn shake_hands(conn: &Rc<Connection>, worker: &Worker) -> bool {
    let Some(stream) = conn.stream.as_tls() else { return true };
    let _reading = worker.reading();
    let config = conn.config();
    let listen = &config.listens[conn.port];
    let choose = |hello: &ClientHello<'_>| {
        let named = hello.server_name().and_then(|name| listen.names.find(name.as_bytes()));
        let of_name = named.and_then(|(server, _)| config.servers[server.0 as usize].tls.clone());
        of_name.or_else(|| config.servers[listen.default.0 as usize].tls.clone())
    };
    let timeout_ms = config.default_http(conn.port).client_header_timeout_ms();
    let done = conn.wait(timeout_ms, |cx| {
        // The outcome of the handshake is one thing, that of the wait another.
        stream.poll_handshake(cx, &mut conn.input.borrow_mut(), choose).map(Ok)
    });
    let log = |level, message: std::fmt::Arguments<'_>| {
        write_for_connection(conn, level, format_args!("{message} while SSL handshaking"));
    };
    match done.await {
        Ok(Wait::Ready(Ok(()))) => return true,
        Ok(Wait::Ready(Err(error @ HandshakeError::NoSettings))) => log(Level::Error, format_args!("{error}")),
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
