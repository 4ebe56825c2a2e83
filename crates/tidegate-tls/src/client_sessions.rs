//! A session as a value: whoever has made it gives it to the handshakes that may resume it, and to no others.
//!
//! It begins empty, with a handshake. What the server sends to resume it by is put into it then, or later: servers of TLS 1.3 send
//! tickets behind the handshake. Each ticket is shown once (RFC 8446, appendix C.4), so that a session may be used up.
//!
//! A proxy has many servers of one name, each of which knows its own sessions only: [`SharedClient`] keeps those apart.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustls::{
    ClientConfig, NamedGroup,
    client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
};

/// Tickets that a session keeps; the newest count.
///
/// Source: as many as rustls' own memory has for each server.
const TICKETS_MAX: usize = 8;

/// Servers whose sessions a configuration keeps; the newest count.
///
/// Source: as many as rustls' own memory has.
const SERVERS_MAX: usize = 256;

/// A configuration that keeps sessions with each of its servers.
///
/// Source: nginx, `ngx_http_upstream_save_round_robin_peer_session`.
#[derive(Debug)]
pub struct SharedClient {
    config: Arc<ClientConfig>,
    /// None where sessions are not to be resumed.
    servers: Option<Mutex<Servers>>,
}

/// Where a server is, and the name that it is asked for.
type Server = (String, ServerName<'static>);

/// The configuration with the session of each server.
#[derive(Debug, Default)]
struct Servers {
    known: HashMap<Server, Arc<ClientConfig>>,
    /// The oldest one first.
    order: VecDeque<Server>,
}

impl SharedClient {
    pub(crate) fn new(config: Arc<ClientConfig>, resumes: bool) -> Self {
        Self { config, servers: resumes.then(Mutex::default) }
    }

    /// The configuration; what its handshakes keep of sessions is not that of [`with`](Self::with).
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// The configuration for handshakes with the server of this name at this address.
    pub fn with(&self, address: String, name: ServerName<'static>) -> Arc<ClientConfig> {
        let Some(servers) = &self.servers else { return self.config.clone() };
        let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = (address, name);
        if let Some(config) = servers.known.get(&server) {
            return config.clone();
        }
        if servers.order.len() == SERVERS_MAX
            && let Some(oldest) = servers.order.pop_front()
        {
            servers.known.remove(&oldest);
        }
        let config = Arc::new(Arc::<ClientSession>::default().config(&self.config));
        servers.order.push_back(server.clone());
        servers.known.insert(server, config.clone());
        config
    }
}

/// A session of a client with one server.
#[derive(Debug, Default)]
pub struct ClientSession(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whom it is with; nobody before the server has sent anything.
    server: Option<ServerName<'static>>,
    tls12: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
    group: Option<NamedGroup>,
}

impl State {
    /// Forgets what was another server's.
    fn belongs_to(&mut self, server: ServerName<'static>) -> &mut Self {
        if self.server.as_ref() != Some(&server) {
            *self = Self { server: Some(server), ..Self::default() };
        }
        self
    }

    fn is_with(&self, server: &ServerName<'_>) -> bool {
        self.server.as_ref() == Some(server)
    }
}

impl ClientSession {
    /// Whether a handshake could resume it.
    pub fn is_resumable(&self) -> bool {
        let state = self.state();
        state.tls12.is_some() || !state.tickets.is_empty()
    }

    /// `base` for a handshake that resumes the session, if it can, and fills it.
    pub fn config(self: &Arc<Self>, base: &ClientConfig) -> ClientConfig {
        let mut config = base.clone();
        config.resumption = Resumption::store(self.clone());
        config
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for ClientSession {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.state().belongs_to(server).group = Some(group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        let state = self.state();
        state.group.filter(|_| state.is_with(server))
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.state().belongs_to(server).tls12 = Some(value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let state = self.state();
        state.tls12.clone().filter(|_| state.is_with(server))
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        let mut state = self.state();
        if state.is_with(server) {
            state.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut state = self.state();
        let tickets = &mut state.belongs_to(server).tickets;
        if tickets.len() == TICKETS_MAX {
            tickets.pop_front();
        }
        tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut state = self.state();
        if state.is_with(server) { state.tickets.pop_back() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientOptions;

    #[test]
    fn each_server_has_a_session_of_its_own_and_old_ones_are_forgotten() {
        let name = |text: &str| ServerName::try_from(text.to_owned()).expect("a name");
        let shared = ClientOptions::default().shared().expect("options that fit");
        let first = shared.with("10.0.0.1:443".to_owned(), name("one.example"));
        let again = shared.with("10.0.0.1:443".to_owned(), name("one.example"));
        assert!(Arc::ptr_eq(&first, &again));
        for (address, other) in [("10.0.0.2:443", "one.example"), ("10.0.0.1:443", "two.example")] {
            assert!(!Arc::ptr_eq(&first, &shared.with(address.to_owned(), name(other))));
        }
        for port in 0..SERVERS_MAX {
            shared.with(format!("10.0.0.3:{port}"), name("one.example"));
        }
        assert!(!Arc::ptr_eq(&first, &shared.with("10.0.0.1:443".to_owned(), name("one.example"))));
        let servers = shared.servers.as_ref().expect("sessions").lock().expect("no test has failed");
        assert_eq!((servers.known.len(), servers.order.len()), (SERVERS_MAX, SERVERS_MAX));
    }

    #[test]
    fn without_sessions_all_servers_have_one_configuration() {
        let shared = ClientOptions { resumes: false, ..ClientOptions::default() }.shared().expect("options that fit");
        let config = shared.with("10.0.0.1:443".to_owned(), ServerName::try_from("one.example").expect("a name"));
        assert!(Arc::ptr_eq(&config, shared.config()));
    }

    #[test]
    fn a_session_is_with_one_server() {
        let session = Arc::new(ClientSession::default());
        let name = |text: &'static str| ServerName::try_from(text).expect("a name");
        assert!(!session.is_resumable());
        session.set_kx_hint(name("one.example"), NamedGroup::secp256r1);
        assert_eq!(session.kx_hint(&name("one.example")), Some(NamedGroup::secp256r1));
        assert_eq!(session.kx_hint(&name("two.example")), None);
        session.set_kx_hint(name("two.example"), NamedGroup::X25519);
        assert_eq!(session.kx_hint(&name("one.example")), None, "it has another server now");
        assert!(session.take_tls13_ticket(&name("two.example")).is_none() && !session.is_resumable());
    }
}
