//! The settings of a server's handshakes, for clients that come for the first time and for those that come back.

use std::sync::Arc;

use rustls::ServerConfig;

/// Tickets of TLS 1.3 for a client that offers a session: one in the place of the one it uses up. A new client gets as many as rustls gives,
/// and so does one that may speak early: it may have its answer, and go, before its ticket comes.
///
/// Source: OpenSSL, `SSL_CTX_set_num_tickets`, which are two after a full handshake, and one after a resumed one.
const TICKETS_RETURNING: usize = 1;

/// Settings of handshakes, which differ in the number of tickets.
#[derive(Debug)]
pub(super) struct Configs {
    /// For clients that offer no session.
    pub(super) new: Arc<ServerConfig>,
    /// For those that do.
    pub(super) returning: Arc<ServerConfig>,
}

impl Configs {
    pub(super) fn of(config: ServerConfig) -> Self {
        let new = Arc::new(config);
        let mut returning = new.clone();
        if new.max_early_data_size == 0 && new.send_tls13_tickets > TICKETS_RETURNING {
            Arc::make_mut(&mut returning).send_tls13_tickets = TICKETS_RETURNING;
        }
        Self { new, returning }
    }
}
