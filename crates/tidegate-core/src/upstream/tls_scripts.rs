//! Scripts in handshakes with peers: what they see, and what they decide.
//!
//! ```text
//! certificate ─ handshake, with what is trusted ─ verify ─ the request
//! ```
//!
//! They run for the request that opens the connection; requests that use it later do not run them again. Both may wait: the TLS
//! library is asked only between them.
//!
//! Source: lua-nginx-module, "proxy_ssl_certificate_by_lua_block", "proxy_ssl_verify_by_lua_block".

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    sync::Arc,
};

use rustls::{
    ClientConfig, Connection, ProtocolVersion, SignatureScheme,
    client::{ResolvesClientCert, Resumption},
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tidegate_tls::{client::certified, versions::Versions};

use crate::{inherit, phase::Ready, request::Request, ssl::script::Refused};

/// Code that runs in handshakes with peers.
pub trait PeerScript: fmt::Debug + Send + Sync {
    /// Runs it for the request that wants the connection. What it decides goes into `handshake`.
    fn run(&self, req: &Rc<Request>, handshake: &Rc<PeerHandshake>) -> Ready<Result<(), Refused>>;
}

/// The scripts of a location.
#[derive(Debug, Default, Clone)]
pub struct PeerScripts {
    /// Chooses the certificate that the peer is shown, before the handshake.
    pub certificate: Option<Arc<dyn PeerScript>>,
    /// Judges the peer's certificate, after the handshake and before the request.
    pub verify: Option<Arc<dyn PeerScript>>,
}

impl PeerScripts {
    /// Whether there is one.
    pub(super) fn is_any(&self) -> bool {
        self.certificate.is_some() || self.verify.is_some()
    }

    /// What the directives of those that there are begin with.
    pub fn directives(&self) -> impl Iterator<Item = &'static str> {
        let certificate = self.certificate.as_ref().map(|_| "proxy_ssl_certificate_by_lua");
        let verify = self.verify.as_ref().map(|_| "proxy_ssl_verify_by_lua");
        certificate.into_iter().chain(verify)
    }

    /// Takes the outer level's script for each that the inner one lacks.
    pub(super) fn inherit(&mut self, parent: &Self) {
        let child = self;
        inherit!(child, parent; certificate, verify);
    }
}

impl PartialEq for PeerScripts {
    /// Whether they are the same scripts.
    fn eq(&self, other: &Self) -> bool {
        let address = |script: &Option<Arc<dyn PeerScript>>| script.as_ref().map(|script| Arc::as_ptr(script).addr());
        let addresses = |scripts: &Self| (address(&scripts.certificate), address(&scripts.verify));
        addresses(self) == addresses(other)
    }
}

/// The certificate that the peer is to be shown.
#[derive(Debug, Default)]
struct Shown {
    /// That of the configuration is not shown.
    is_cleared: bool,
    chain: Option<Vec<CertificateDer<'static>>>,
    key: Option<Arc<PrivateKeyDer<'static>>>,
}

/// A handshake with a peer, as scripts see it.
#[derive(Debug, Default)]
pub struct PeerHandshake {
    shown: RefCell<Shown>,
    /// The version that is spoken, once it is known.
    version: Cell<Option<u16>>,
    /// The peer's certificate, once it has come.
    certificate: RefCell<Option<CertificateDer<'static>>>,
    /// OpenSSL's number of what is wrong with it.
    verdict: Cell<i64>,
}

impl PeerHandshake {
    /// A handshake of one who speaks `versions`.
    pub(super) fn with(versions: Versions) -> Self {
        let version = match versions {
            Versions { tls12: true, tls13: false } => Some(ProtocolVersion::TLSv1_2.into()),
            Versions { tls12: false, tls13: true } => Some(ProtocolVersion::TLSv1_3.into()),
            // The peer chooses.
            _ => None,
        };
        Self { version: Cell::new(version), ..Self::default() }
    }

    /// Shows no certificate that was chosen so far, nor that of the configuration.
    pub fn clear_certificates(&self) {
        *self.shown.borrow_mut() = Shown { is_cleared: true, ..Shown::default() };
    }

    /// Shows a certificate and those that lead to its authority, in place of others.
    pub fn set_certificate(&self, chain: Vec<CertificateDer<'static>>) {
        self.shown.borrow_mut().chain = Some(chain);
    }

    /// Proves the certificate with `key`.
    pub fn set_key(&self, key: Arc<PrivateKeyDer<'static>>) {
        self.shown.borrow_mut().key = Some(key);
    }

    /// The version that is spoken, as a number; `None` before the handshake, if the peer may choose.
    pub fn version(&self) -> Option<u16> {
        self.version.get()
    }

    /// The peer's certificate; `None` before the handshake.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificate.borrow().clone()
    }

    /// What is wrong with the peer's certificate, as a number of OpenSSL's; 0 for nothing.
    pub fn verdict(&self) -> i64 {
        self.verdict.get()
    }

    /// Sets it.
    pub fn set_verdict(&self, verdict: i64) {
        self.verdict.set(verdict);
    }

    /// Takes note of a handshake that is done.
    pub(super) fn met(&self, tls: &Connection) {
        self.version.set(tls.protocol_version().map(u16::from));
        *self.certificate.borrow_mut() = tls.peer_certificates().and_then(|list| list.first()).cloned();
    }

    /// The settings of the handshake: `base` with the certificate that the script has chosen.
    ///
    /// # Errors
    /// Why that cannot be shown, as a sentence for the log.
    pub(super) fn settings(&self, base: Arc<ClientConfig>) -> Result<Arc<ClientConfig>, String> {
        let shown = self.shown.take();
        let resolver: Arc<dyn ResolvesClientCert> = match (shown.chain, shown.key) {
            (Some(chain), Some(key)) => {
                let pair = certified(chain, key.clone_key(), &tidegate_tls::provider());
                Arc::new(SingleCertAndKey::from(pair.map_err(|error| format!("bad client certificate: {error}"))?))
            }
            (None, None) if shown.is_cleared => Arc::new(NoCertificate),
            (None, None) => return Ok(base),
            (Some(_), None) => return Err("a script has set a client certificate without its key".to_owned()),
            (None, Some(_)) => return Err("a script has set the key of a client certificate without that".to_owned()),
        };
        let mut config = ClientConfig::clone(&base);
        config.client_auth_cert_resolver = resolver;
        // A session is that of the certificate which was shown when it began.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Shows nothing.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}
