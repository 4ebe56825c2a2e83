//! What a pool is made of.

use std::{fmt, future::Future, io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use crate::balancer::ServerOptions;

/// What happens when `max` connections are open and all are busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Callers queue, first come, first served.
    Wait {
        /// How long; `None` for ever.
        timeout: Option<Duration>,
        /// How many may wait; the next is turned away at once.
        queue_max: usize,
    },
    /// The caller is turned away at once.
    Reject,
    /// Another connection is made, and closed after use.
    Ignore,
}

/// Which idle connections fit a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolMode {
    /// Any: the servers are as good as each other.
    #[default]
    Single,
    /// Those to the server whose turn it is.
    Multi,
}

/// Addresses of a host.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Addresses, with the port.
    pub addresses: Vec<SocketAddr>,
    /// How long they may be used without asking again.
    pub valid: Duration,
}

/// Looks up a host: name and port to addresses.
pub type Resolver = Arc<dyn Fn(&str, u16) -> Pin<Box<dyn Future<Output = io::Result<Resolved>>>> + Send + Sync>;

/// The settings that a pool is made with.
#[derive(Clone)]
pub struct PoolOptions {
    /// Name for messages, e.g. that of the upstream.
    pub name: String,
    /// Servers.
    pub servers: Vec<ServerOptions>,
    /// Connections open at the same time, over all workers; 0 for no limit.
    pub max: usize,
    /// What happens when they are all busy.
    pub overflow: Overflow,
    /// Connections that are kept idle, over all workers; 0 closes each connection after use.
    pub idle_max: usize,
    /// How long a connection may lie idle.
    pub idle_timeout: Option<Duration>,
    /// How old a connection may become.
    pub lifetime: Option<Duration>,
    /// Which idle connections fit.
    pub mode: PoolMode,
    /// Whether a session that a statement has changed is reset before its next use.
    pub reset: bool,
    /// Whether the server is told to end a statement that nobody waits for any more.
    pub cancel: bool,
    /// Looks up host names; without it the system does.
    pub resolver: Option<Resolver>,
}

impl PoolOptions {
    /// A pool with its defaults: no limit, 100 idle connections for at most a minute, dirty sessions reset.
    pub fn new(name: impl Into<String>, servers: Vec<ServerOptions>) -> Self {
        Self {
            name: name.into(),
            servers,
            max: 0,
            overflow: Overflow::Wait { timeout: Some(Duration::from_secs(60)), queue_max: usize::MAX },
            idle_max: 100,
            idle_timeout: Some(Duration::from_secs(60)),
            lifetime: None,
            mode: PoolMode::Single,
            reset: true,
            cancel: true,
            resolver: None,
        }
    }
}

impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("name", &self.name)
            .field("servers", &self.servers)
            .field("max", &self.max)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}
