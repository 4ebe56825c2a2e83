//! Scripts in a handshake: what they can see of it, what they decide, and how that becomes its settings.
//!
//! ```text
//! client's first message ─ client_hello ─ (server by name) ─ session_fetch ─ certificate ─ settings ─ handshake ─ session_store
//! ```
//!
//! All may wait: the TLS library is asked only between them, with what they have decided.
//!
//! Source: lua-nginx-module, "ssl_client_hello_by_lua_block" and its like.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
    sync::Arc,
};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::danger::ClientCertVerifier,
    sign::CertifiedKey,
};
use tidegate_tls::{
    bound::Context,
    client::certified,
    hello::Hello,
    server::{AnyClient, ClientRules},
    sessions::{HandshakeSessions, HeldSessions, Made},
    versions::Versions,
};

use super::{ServerTls, keys::Certificates};
use crate::{connection::Connection, phase::Ready};

/// The handshake must not go on. The log knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// Code that runs in handshakes.
pub trait Script: fmt::Debug + Send + Sync {
    /// Runs it. What it decides goes into `handshake`.
    fn run(&self, handshake: &Rc<Handshake>) -> Ready<Result<(), Refused>>;
}

/// The scripts of a server.
#[derive(Debug, Default, Clone)]
#[allow(missing_docs, reason = "each field is named as its directive")]
pub struct Scripts {
    pub client_hello: Option<Arc<dyn Script>>,
    pub session_fetch: Option<Arc<dyn Script>>,
    pub session_store: Option<Arc<dyn Script>>,
    pub certificate: Option<Arc<dyn Script>>,
}

impl Scripts {
    /// Whether there is one.
    pub(crate) fn is_any(&self) -> bool {
        let Self { client_hello, session_fetch, session_store, certificate } = self;
        [client_hello, session_fetch, session_store, certificate].into_iter().any(Option::is_some)
    }

    /// Takes the outer level's script for each that the inner one lacks.
    pub(super) fn inherit(&mut self, parent: &Scripts) {
        let Self { client_hello, session_fetch, session_store, certificate } = self;
        for (own, outer) in [
            (client_hello, &parent.client_hello),
            (session_fetch, &parent.session_fetch),
            (session_store, &parent.session_store),
            (certificate, &parent.certificate),
        ] {
            if own.is_none() {
                own.clone_from(outer);
            }
        }
    }

    /// What tells these from others.
    pub(super) fn addresses(&self) -> [usize; 4] {
        let Self { client_hello, session_fetch, session_store, certificate } = self;
        [client_hello, session_fetch, session_store, certificate]
            .map(|script| script.as_ref().map_or(0, |script| Arc::as_ptr(script).addr()))
    }
}

/// Certificates that scripts have chosen.
#[derive(Debug, Default)]
struct Shown {
    /// Those of the configuration are not shown.
    is_cleared: bool,
    /// Chains, each with its key when that has come too.
    chains: Vec<(Vec<CertificateDer<'static>>, Option<Arc<CertifiedKey>>)>,
    /// A key whose chain is to come.
    key: Option<Arc<PrivateKeyDer<'static>>>,
    status: Option<Vec<u8>>,
}

/// How the client has to prove who it is.
struct ClientDemand {
    rules: ClientRules,
    verifier: Arc<dyn ClientCertVerifier>,
    /// The authorities whose names the client is told.
    named: Context,
}

/// How a script asks, beside the ways that `ssl_verify_client` has.
const WAY_OF_SCRIPTS: u8 = u8::MAX;

/// A handshake that has not been answered yet, as scripts see it.
pub struct Handshake {
    conn: Rc<Connection>,
    hello: Option<Hello>,
    /// Versions that the server speaks.
    versions: Cell<Versions>,
    /// A script has said which.
    has_chosen_versions: Cell<bool>,
    shown: RefCell<Shown>,
    /// Cipher suites that the server takes.
    suites: RefCell<Vec<u16>>,
    demand: RefCell<Option<ClientDemand>>,
    /// The session that was found.
    session: RefCell<Option<Vec<u8>>>,
    /// The session that is to be stored.
    made: RefCell<Option<Made>>,
    /// What the scripts' module keeps with the connection. It must not hold the handshake.
    memo: RefCell<Option<Rc<dyn Any>>>,
}

/// Why a certificate and key cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// A key has come without a certificate.
    #[error("no certificate is set")]
    NoCertificate,
    /// The key is not that of the certificate, or of a kind that nobody can sign with.
    #[error("{0}")]
    Key(#[source] rustls::Error),
}

impl Handshake {
    /// `heard` is what the client began with.
    pub(crate) fn new(conn: Rc<Connection>, heard: &[u8], versions: Versions) -> Rc<Self> {
        Rc::new(Self {
            conn,
            hello: Hello::of_records(heard),
            versions: Cell::new(versions),
            has_chosen_versions: Cell::new(false),
            shown: RefCell::default(),
            suites: RefCell::default(),
            demand: RefCell::default(),
            session: RefCell::default(),
            made: RefCell::default(),
            memo: RefCell::default(),
        })
    }

    /// The connection.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.conn
    }

    /// The client's first message.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_ref()
    }

    /// The version that will be spoken, as a number.
    pub fn version(&self) -> Option<u16> {
        self.hello.as_ref()?.version_with(self.versions.get())
    }

    /// Restricts the versions; to be called before the server is chosen by its name.
    pub fn set_versions(&self, versions: Versions) {
        self.versions.set(versions);
        self.has_chosen_versions.set(true);
    }

    /// The server is known by which this handshake goes on.
    pub(crate) fn enter(&self, tls: &ServerTls) {
        if !self.has_chosen_versions.get() {
            self.versions.set(tls.versions);
        }
        let taken = tls.configs.new.crypto_provider().cipher_suites.iter().map(|suite| u16::from(suite.suite()));
        self.suites.replace(taken.collect());
    }

    /// Cipher suites that both sides can speak, in the client's order, as far as the server is known.
    pub fn shared_suites(&self) -> Vec<u16> {
        let taken = self.suites.borrow();
        let offered = self.hello.iter().flat_map(|hello| hello.suites());
        offered.filter(|suite| taken.contains(suite)).collect()
    }

    /// Shows no certificate that was chosen so far, nor those of the configuration.
    pub fn clear_certificates(&self) {
        let mut shown = self.shown.borrow_mut();
        *shown = Shown { is_cleared: true, status: shown.status.take(), ..Shown::default() };
    }

    /// Whether there is nothing to show: a script has cleared what there was and chosen nothing.
    pub(crate) fn shows_nothing(&self) -> bool {
        let shown = self.shown.borrow();
        shown.is_cleared && shown.chains.iter().all(|(_, pair)| pair.is_none())
    }

    /// Shows a certificate and those that lead to its authority.
    ///
    /// # Errors
    /// A key came before, and is that of another certificate.
    pub fn set_certificate(&self, chain: Vec<CertificateDer<'static>>) -> Result<(), ShowError> {
        let mut shown = self.shown.borrow_mut();
        let pair = match shown.key.take() {
            Some(key) => Some(pair(&chain, &key)?),
            None => None,
        };
        shown.chains.push((chain, pair));
        Ok(())
    }

    /// Proves the certificate that has no key yet with `key`; without any, that which comes next.
    ///
    /// # Errors
    /// The key is not that of the certificate.
    pub fn set_key(&self, key: &Arc<PrivateKeyDer<'static>>) -> Result<(), ShowError> {
        let mut shown = self.shown.borrow_mut();
        match shown.chains.iter_mut().find(|(_, pair)| pair.is_none()) {
            Some((chain, slot)) => *slot = Some(pair(chain, key)?),
            None => shown.key = Some(key.clone()),
        }
        Ok(())
    }

    /// Shows the status of the certificate, an OCSP response in DER.
    pub fn set_status(&self, response: Vec<u8>) {
        self.shown.borrow_mut().status = Some(response);
    }

    /// Asks the client for a certificate, and verifies that by `rules`; `named` are authorities whose names the client is told.
    pub fn demand(&self, rules: ClientRules, named: &[CertificateDer<'_>]) {
        let verifier = Arc::new(AnyClient::new(named));
        let named = Context::of(named.iter().map(|authority| &**authority));
        *self.demand.borrow_mut() = Some(ClientDemand { rules, verifier, named });
    }

    /// Whether a script asks the client for a certificate.
    pub(crate) fn has_demand(&self) -> bool {
        self.demand.borrow().is_some()
    }

    /// The name of the session that is to be fetched or stored.
    pub fn session_id(&self) -> Option<Vec<u8>> {
        if let Some(made) = &*self.made.borrow() {
            return Some(made.id.clone());
        }
        self.hello.as_ref()?.session(self.versions.get()).map(<[u8]>::to_vec)
    }

    /// The session that is to be stored. It is secret.
    pub fn serialized_session(&self) -> Option<Vec<u8>> {
        self.made.borrow().as_ref().map(|made| made.serialized.clone())
    }

    /// Gives the session that the client wants to resume.
    pub fn set_session(&self, serialized: Vec<u8>) {
        *self.session.borrow_mut() = Some(serialized);
    }

    /// The session that is to be stored now.
    pub(crate) fn set_made(&self, made: Made) {
        *self.made.borrow_mut() = Some(made);
    }

    /// What the scripts' module keeps with the connection.
    pub fn memo(&self) -> Option<Rc<dyn Any>> {
        self.memo.borrow().clone()
    }

    /// Keeps it. It must not hold the handshake.
    pub fn set_memo(&self, memo: Rc<dyn Any>) {
        *self.memo.borrow_mut() = Some(memo);
    }

    /// By what the client's certificate is verified, if a script wants that.
    pub(crate) fn take_rules(&self) -> Option<ClientRules> {
        self.demand.take().map(|demand| demand.rules)
    }

    /// The settings of this handshake: `base`, which are those of `tls`, with what the scripts have decided. Its sessions go into `held`, if any.
    ///
    /// # Errors
    /// Why there are none, as a sentence for the log.
    pub(crate) fn settings(
        &self,
        tls: &ServerTls,
        base: Arc<ServerConfig>,
        held: Option<Arc<HeldSessions>>,
    ) -> Result<Settings, String> {
        let shown = self.shown.borrow();
        let demand = self.demand.borrow();
        let is_rebuilt = demand.is_some() || self.has_chosen_versions.get();
        let mut config = if is_rebuilt {
            let verifier = demand.as_ref().map_or(&tls.verifier, |demand| &demand.verifier);
            rebuilt(&base, self.versions.get(), verifier.clone()).map_err(|error| error.to_string())?
        } else {
            ServerConfig::clone(&base)
        };
        let chosen: Vec<Arc<CertifiedKey>> = shown.chains.iter().filter_map(|(_, pair)| pair.clone()).collect();
        if shown.is_cleared || !chosen.is_empty() || shown.status.is_some() {
            let below = (!shown.is_cleared).then(|| base.cert_resolver.clone());
            config.cert_resolver = Arc::new(Certificates::chosen(chosen, shown.status.clone(), below));
        }
        let mut unbound = tls.unbound.clone();
        if let Some(held) = held {
            unbound.sessions = held;
        }
        let sessions = (tls.scripts.session_fetch.is_some() || tls.scripts.session_store.is_some()).then(|| {
            let sessions = HandshakeSessions::new(self.session.take(), unbound.sessions.clone());
            unbound.sessions = sessions.clone();
            sessions
        });
        // Who was not asked for a certificate could show none in a handshake that resumes.
        let asked = |demand: &ClientDemand| tls.context.asked(WAY_OF_SCRIPTS, demand.named);
        demand.as_ref().map_or(tls.context, asked).bind(&unbound, &mut config);
        Ok(Settings { config: Arc::new(config), sessions })
    }
}

/// Settings of one handshake.
pub(crate) struct Settings {
    pub(crate) config: Arc<ServerConfig>,
    /// Where its sessions go, for scripts to store.
    pub(crate) sessions: Option<Arc<HandshakeSessions>>,
}

fn pair(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Result<Arc<CertifiedKey>, ShowError> {
    let provider = tidegate_tls::provider();
    certified(chain.to_vec(), key.clone_key(), &provider).map(Arc::new).map_err(ShowError::Key)
}

/// Settings with other versions, or another verifier of clients.
fn rebuilt(
    base: &ServerConfig,
    versions: Versions,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(base.crypto_provider().clone())
        .with_protocol_versions(&versions.list())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(base.cert_resolver.clone());
    config.alpn_protocols.clone_from(&base.alpn_protocols);
    config.ignore_client_order = base.ignore_client_order;
    config.session_storage = base.session_storage.clone();
    config.ticketer = base.ticketer.clone();
    config.send_tls13_tickets = base.send_tls13_tickets;
    config.max_early_data_size = base.max_early_data_size;
    config.send_half_rtt_data = base.send_half_rtt_data;
    config.key_log = base.key_log.clone();
    Ok(config)
}
