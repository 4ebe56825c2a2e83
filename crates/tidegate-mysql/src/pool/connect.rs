//! New connections: which server, at which address.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tidegate_rows::{QueryError, Stage};
use tokio::time::Instant;

use super::{
    Event, Pool, PooledConn, Resolved,
    shelf::{Permit, Pooled, Shelf},
};
use crate::{
    channel::after,
    conn::Conn,
    options::{Address, Timeouts},
    timer::LazyTimer,
};

/// How long the system's answer is used if there is no [`Resolver`](super::Resolver).
const SYSTEM_ANSWER_VALID: Duration = Duration::from_secs(30);
/// ER_UNKNOWN_CHARACTER_SET.
const UNKNOWN_CHARSET: u16 = 1115;

impl Pool {
    /// A new connection to the server whose turn it is, or to the next one that answers.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(super) async fn connect(
        &self,
        permit: Permit,
        shelf: Arc<Shelf>,
        server: Option<usize>,
        timeouts: Timeouts,
        notice: &mut (dyn FnMut(Event<'_>) + '_),
    ) -> Result<PooledConn, QueryError> {
        let mut tried = Vec::new();
        let mut server = match server {
            Some(server) => server,
            None => self.choose(&tried)?,
        };
        loop {
            let error = match self.connect_to(server, timeouts).await {
                Ok(conn) => {
                    self.balancer().reached(server);
                    shelf.counters.connects.fetch_add(1, Relaxed);
                    let now = Instant::now();
                    let patience = LazyTimer::default();
                    let pooled =
                        Pooled { conn, permit, server, home: shelf.number, uses: 0, made: now, used: now, patience };
                    return Ok(PooledConn {
                        pooled: Some(Box::new(pooled)),
                        pool: self.clone(),
                        shelf,
                        is_reused: false,
                    });
                }
                Err(error) => error,
            };
            shelf.counters.connect_errors.fetch_add(1, Relaxed);
            if matches!(&error, QueryError::Server(refusal) if !is_overload(refusal.code)) {
                // A wrong password is no better on another server.
                return Err(self.refused(error));
            }
            self.balancer().failed(server, Instant::now());
            tried.push(server);
            server = match self.choose(&tried) {
                Ok(next) => next,
                Err(_) => return Err(self.refused(error)),
            };
            notice(Event::PassedOver(&error));
        }
    }

    /// A server that refuses the login is as good as one that is not there: the statement is not to blame. A character set
    /// that does not exist is a mistake of whoever wrote the configuration.
    fn refused(&self, error: QueryError) -> QueryError {
        match error {
            QueryError::Server(error) if error.code != UNKNOWN_CHARSET => {
                let peer = format!("upstream \"{}\"", self.0.options.name);
                QueryError::Connect { peer, source: io::Error::other(error) }
            }
            error => error,
        }
    }

    async fn connect_to(&self, server: usize, timeouts: Timeouts) -> Result<Conn, QueryError> {
        let options = Arc::clone(&self.balancer().options(server).connect);
        let addresses = match &options.address {
            Address::Unix(_) => Vec::new(),
            Address::Tcp { host, port } => {
                let resolving = self.addresses(server, host, *port);
                let resolved = match timeouts.connect {
                    Some(timeout) => tokio::time::timeout_at(after(timeout), resolving)
                        .await
                        .map_err(|_| QueryError::Timeout { stage: Stage::Connect })?,
                    None => resolving.await,
                };
                resolved.map_err(|source| QueryError::Connect { peer: options.address.to_string(), source })?
            }
        };
        Conn::connect_to(options, &addresses, timeouts).await
    }

    /// The addresses of a server's host.
    async fn addresses(&self, server: usize, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        if let Some(addresses) = self.balancer().addresses(server, Instant::now()) {
            return Ok(addresses);
        }
        let resolved = match &self.0.options.resolver {
            Some(resolver) => resolver(host, port).await,
            None => tokio::net::lookup_host((host, port))
                .await
                .map(|addresses| Resolved { addresses: addresses.collect(), valid: SYSTEM_ANSWER_VALID }),
        };
        let mut balancer = self.balancer();
        match resolved {
            Ok(resolved) if !resolved.addresses.is_empty() => {
                balancer.set_addresses(server, resolved.addresses, after(resolved.valid));
                Ok(balancer.last_addresses(server).unwrap_or_default())
            }
            // Old addresses are better than none while the name service is away.
            result => balancer.last_addresses(server).map(Ok).unwrap_or_else(|| {
                let none = io::Error::new(io::ErrorKind::NotFound, format!("host \"{host}\" has no address"));
                Err(result.err().unwrap_or(none))
            }),
        }
    }
}

/// Whether a refusal is the server's own trouble, so that another one may do better: ER_CON_COUNT_ERROR,
/// ER_HOST_IS_BLOCKED, ER_SERVER_SHUTDOWN.
fn is_overload(code: u16) -> bool {
    matches!(code, 1040 | 1129 | 1053)
}
