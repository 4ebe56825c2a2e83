//! HTTP/1 on a connection.
//!
//! - `requests`: request after request on it
//! - `handshake`: TLS, ahead of the first one
//! - `head`: reading the head of one
//!
//! What this does not know: what a request comes to. That is [`crate::phase`].

mod handshake;
mod head;
mod requests;

use std::{rc::Rc, sync::Arc};

use tidegate_net::{
    service::{Conversation, Opening, Service},
    session::End,
};

use crate::{conf::Config, connection::Connection, worker::Worker};

/// A part of a head that has become longer than this is parsed, whether its line has ended or not.
const PARKED_BYTES_MAX: usize = 1024;

/// HTTP at an address.
pub(crate) struct HttpPort {
    config: Arc<Config>,
    /// Position of the address among the configuration's.
    listen: usize,
}

impl HttpPort {
    /// HTTP as `config` has it, at its address of this position.
    pub(crate) fn new(config: Arc<Config>, listen: usize) -> Self {
        HttpPort { config, listen }
    }
}

impl Service for HttpPort {
    fn begin(&self, worker: &Rc<Worker>, mut opening: Opening) {
        if self.config.listens[self.listen].ssl.is_some() {
            opening.session.stream = opening.session.stream.into_tls();
        }
        worker.start(Connection::new(opening, self.config.clone()));
    }
    fn head_timeout_ms(&self) -> u64 {
        self.config.default_http(self.listen).client_header_timeout_ms()
    }
    /// Parsing what ends no line would come to nothing.
    fn stays_parked(&self, input: &[u8], before: usize) -> bool {
        input.len() < PARKED_BYTES_MAX && memchr::memchr(b'\n', &input[before..]).is_none()
    }
}

impl Conversation for Connection {
    async fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> End {
        requests::serve(self, worker).await
    }
    fn park(self) -> Opening {
        Connection::park(self)
    }
}
