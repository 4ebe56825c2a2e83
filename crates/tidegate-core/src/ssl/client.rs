//! What the handshake told of a client, and whether a request of it is served.
//!
//! Source: nginx, `ngx_http_process_request`, `ngx_http_set_virtual_server`.

use std::{any::Any, rc::Rc, sync::Arc};

use rustls::{CipherSuite, NamedGroup, server::ClientHello};
use tidegate_ocsp::inquiry::StatusError;
use tidegate_tls::{server::ClientRules, verify::VerifyError};

use super::{MODULE, VerifyClient};
use crate::{conf::ServerId, log::Level, request::Request};

/// Why a client's certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAccepted {
    /// It is not trusted.
    #[error("{0}")]
    Verify(#[from] VerifyError),
    /// Its status is not good.
    #[error("{0}")]
    Status(#[from] StatusError),
}

/// What is remembered of a connection's handshake.
pub(crate) struct Facts {
    /// The server whose settings were used.
    pub(crate) server: ServerId,
    /// Suites that the client offered.
    pub(super) suites: Box<[CipherSuite]>,
    /// Groups that the client offered.
    pub(super) groups: Box<[NamedGroup]>,
    /// Whether the client's certificate is accepted; `None` if it has shown none, or was asked for none.
    pub(crate) verified: Option<Result<(), NotAccepted>>,
    /// By what that is decided, where a script has asked for it.
    pub(crate) rules: Option<ClientRules>,
    /// What the module of the scripts keeps with the connection.
    pub(crate) memo: Option<Rc<dyn Any>>,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").field("server", &self.server).field("verified", &self.verified).finish_non_exhaustive()
    }
}

impl Facts {
    pub(crate) fn new(server: ServerId, hello: &ClientHello<'_>) -> Self {
        let groups = hello.named_groups().unwrap_or_default();
        Self {
            server,
            suites: hello.cipher_suites().into(),
            groups: groups.into(),
            verified: None,
            rules: None,
            memo: None,
        }
    }
}

/// The status that a request is answered with because of what its client has shown, or has not.
pub(crate) fn refusal(req: &Request) -> Option<u16> {
    let facts = req.connection().tls.get()?;
    let mode = req.module_conf(&MODULE).verify_client.unwrap_or(VerifyClient::Off);
    if mode == VerifyClient::Off {
        return None;
    }
    if is_misdirected(req, facts) {
        let message = "client attempted to request the server name different from the one that was negotiated";
        req.log(Level::Info, format_args!("{message}"));
        return Some(421);
    }
    const READING: &str = "while reading client request headers";
    match facts.verified {
        Some(Err(NotAccepted::Verify(error))) if mode != VerifyClient::OptionalNoCa || !error.is_lack_of_trust() => {
            let number = error.number();
            let message = format_args!("client SSL certificate verify error: ({number}:{error}) {READING}");
            req.log(Level::Info, message);
            Some(495)
        }
        Some(Err(NotAccepted::Status(error))) => {
            req.log(Level::Info, format_args!("client SSL certificate verify error: {error} {READING}"));
            Some(495)
        }
        None if mode == VerifyClient::On => {
            req.log(Level::Info, format_args!("client sent no required SSL certificate {READING}"));
            Some(496)
        }
        _ => None,
    }
}

/// The host that a client names in its handshake: a dot at the end is no part of it, as in `Host`.
///
/// Source: nginx, `ngx_http_ssl_servername`, `ngx_http_validate_host`.
pub(crate) fn host_of(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Whether the client asks for another server than the one whose rules its certificate was verified by.
fn is_misdirected(req: &Request, facts: &Facts) -> bool {
    let Facts { server: negotiated, verified, .. } = facts;
    let is_other_name = req.connection().stream.with_tls(|tls| match tls {
        rustls::Connection::Server(tls) => {
            let head = req.head.borrow();
            tls.server_name().is_some_and(|name| !head.host().eq_ignore_ascii_case(host_of(name).as_bytes()))
        }
        rustls::Connection::Client(_) => false,
    });
    if is_other_name == Some(true) {
        return true;
    }
    let tls_of_negotiated = req.conf().tls_of(*negotiated).map(Arc::as_ptr);
    // Without a name in the handshake, and for servers without certificates, the rules are those of the default server.
    verified.is_some() && tls_of_negotiated != req.conf().tls_of(req.server.get()).map(Arc::as_ptr)
}
