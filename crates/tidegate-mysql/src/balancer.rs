//! Which server a new connection goes to: smooth weighted round robin, as nginx does it.
//!
//! A server that failed `max_fails` times within `fail_timeout` is left out for `fail_timeout`, then tried again. Servers
//! marked `backup` serve while all others are left out. A server that is alone is never left out.
//!
//! Source: nginx, `ngx_http_upstream_round_robin.c` (the behaviour, not the code).

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::options::ConnectOptions;

/// A server of a pool.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address, login and other settings of connections to the server.
    pub connect: Arc<ConnectOptions>,
    /// Share of the connections, relative to the other servers.
    pub weight: u32,
    /// Used only while no other server is available.
    pub backup: bool,
    /// Never used.
    pub down: bool,
    /// Failures that make the server unavailable; 0 for none.
    pub max_fails: u32,
    /// Time in which failures are counted, and for which the server is then unavailable.
    pub fail_timeout: Duration,
}

impl ServerOptions {
    /// A server with nginx's defaults: weight 1, one failure, 10 seconds.
    pub fn new(connect: ConnectOptions) -> Self {
        Self {
            connect: Arc::new(connect),
            weight: 1,
            backup: false,
            down: false,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
        }
    }
}

/// A server and what is known of it.
#[derive(Debug)]
struct Peer {
    options: ServerOptions,
    /// Weight, less while the server fails.
    effective_weight: i64,
    current_weight: i64,
    fails: u32,
    /// When the last failure was.
    failed: Option<Instant>,
    /// When the server was last tried after a failure.
    checked: Option<Instant>,
    addresses: Vec<SocketAddr>,
    addresses_until: Option<Instant>,
    rotation: usize,
}

impl Peer {
    fn is_available(&self, now: Instant) -> bool {
        let failing = self.options.max_fails > 0 && self.fails >= self.options.max_fails;
        let resting = self.checked.is_some_and(|checked| now.duration_since(checked) <= self.options.fail_timeout);
        !(self.options.down || failing && resting)
    }
}

/// The servers of a pool.
#[derive(Debug)]
pub(crate) struct Balancer {
    peers: Vec<Peer>,
}

impl Balancer {
    pub(crate) fn new(servers: Vec<ServerOptions>) -> Self {
        let peer = |options: ServerOptions| Peer {
            effective_weight: i64::from(options.weight),
            current_weight: 0,
            fails: 0,
            failed: None,
            checked: None,
            addresses: Vec::new(),
            addresses_until: None,
            rotation: 0,
            options,
        };
        Self { peers: servers.into_iter().map(peer).collect() }
    }

    pub(crate) fn options(&self, index: usize) -> &ServerOptions {
        &self.peers[index].options
    }

    /// The servers, each with the number of addresses that it was last found to have.
    pub(crate) fn servers(&self) -> Vec<(String, usize)> {
        let server = |peer: &Peer| (peer.options.connect.address.to_string(), peer.addresses.len().max(1));
        self.peers.iter().map(server).collect()
    }

    /// Chooses a server that is not among `tried`.
    pub(crate) fn choose(&mut self, tried: &[usize], now: Instant) -> Option<usize> {
        if let [peer] = &self.peers[..] {
            return (tried.is_empty() && !peer.options.down).then_some(0);
        }
        self.choose_among(false, tried, now).or_else(|| self.choose_among(true, tried, now))
    }

    fn choose_among(&mut self, backup: bool, tried: &[usize], now: Instant) -> Option<usize> {
        let mut best: Option<usize> = None;
        let mut total = 0;
        for index in 0..self.peers.len() {
            let peer = &self.peers[index];
            if peer.options.backup != backup || tried.contains(&index) || !peer.is_available(now) {
                continue;
            }
            let peer = &mut self.peers[index];
            peer.current_weight += peer.effective_weight;
            total += peer.effective_weight;
            if peer.effective_weight < i64::from(peer.options.weight) {
                peer.effective_weight += 1;
            }
            let current = peer.current_weight;
            if best.is_none_or(|best| current > self.peers[best].current_weight) {
                best = Some(index);
            }
        }
        let peer = &mut self.peers[best?];
        peer.current_weight -= total;
        if peer.checked.is_some_and(|checked| now.duration_since(checked) > peer.options.fail_timeout) {
            peer.checked = Some(now);
        }
        best
    }

    /// Notes that a server could not be reached.
    pub(crate) fn failed(&mut self, index: usize, now: Instant) {
        let peer = &mut self.peers[index];
        peer.fails += 1;
        peer.failed = Some(now);
        peer.checked = Some(now);
        if let Some(step) = i64::from(peer.options.weight).checked_div(i64::from(peer.options.max_fails)) {
            peer.effective_weight = (peer.effective_weight - step).max(0);
        }
    }

    /// Notes that a server was reached: failures before its last trial are forgotten.
    pub(crate) fn reached(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if peer.failed < peer.checked {
            peer.fails = 0;
        }
    }

    /// The addresses of a server's host that are still valid, beginning with another one each time.
    pub(crate) fn addresses(&mut self, index: usize, now: Instant) -> Option<Vec<SocketAddr>> {
        let peer = &self.peers[index];
        if peer.addresses_until.is_none_or(|until| now >= until) {
            return None;
        }
        self.last_addresses(index)
    }

    /// The addresses that a server's host had when it was last looked up.
    pub(crate) fn last_addresses(&mut self, index: usize) -> Option<Vec<SocketAddr>> {
        let peer = &mut self.peers[index];
        let mut addresses = peer.addresses.clone();
        let count = addresses.len().max(1);
        addresses.rotate_left(peer.rotation % count);
        peer.rotation = peer.rotation.wrapping_add(1);
        (!addresses.is_empty()).then_some(addresses)
    }

    /// Remembers the addresses of a server's host.
    pub(crate) fn set_addresses(&mut self, index: usize, addresses: Vec<SocketAddr>, until: Instant) {
        let peer = &mut self.peers[index];
        peer.addresses = addresses;
        peer.addresses_until = Some(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Address;

    fn server(weight: u32) -> ServerOptions {
        ServerOptions { weight, ..ServerOptions::new(ConnectOptions::new(Address::tcp("x", 1), "", "")) }
    }

    fn order(balancer: &mut Balancer, count: usize, now: Instant) -> String {
        (0..count).map(|_| balancer.choose(&[], now).map_or("-".to_owned(), |index| index.to_string())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn weights_are_spread_smoothly() {
        let mut balancer = Balancer::new(vec![server(5), server(1), server(1)]);
        assert_eq!(order(&mut balancer, 7, Instant::now()), "0010200");
    }

    #[tokio::test(start_paused = true)]
    async fn failing_servers_rest() {
        let backup = ServerOptions { backup: true, ..server(1) };
        let down = ServerOptions { down: true, ..server(1) };
        let twice = ServerOptions { max_fails: 2, ..server(1) };
        let mut balancer = Balancer::new(vec![server(1), twice, backup, down]);
        let now = Instant::now();
        assert_eq!(order(&mut balancer, 4, now), "0101");
        balancer.failed(0, now);
        assert_eq!(order(&mut balancer, 3, now), "111");
        balancer.failed(1, now);
        assert_eq!(order(&mut balancer, 2, now), "11");
        balancer.failed(1, now);
        assert_eq!(order(&mut balancer, 2, now), "22");
        assert_eq!(balancer.choose(&[2], now), None);
        let later = now + Duration::from_secs(11);
        let found = order(&mut balancer, 2, later);
        assert!(found.contains('0') && found.contains('1'), "{found}");
        balancer.reached(0);
        balancer.reached(1);
        assert_eq!(balancer.peers[0].fails + balancer.peers[1].fails, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lonely_server_does_not_rest() {
        let mut balancer = Balancer::new(vec![server(1)]);
        balancer.failed(0, Instant::now());
        assert_eq!(balancer.choose(&[], Instant::now()), Some(0));
        assert_eq!(balancer.choose(&[0], Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_rotate_and_expire() {
        let mut balancer = Balancer::new(vec![server(1)]);
        let now = Instant::now();
        let list: Vec<SocketAddr> = ["127.0.0.1:1", "127.0.0.2:1"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(balancer.addresses(0, now), None);
        balancer.set_addresses(0, list.clone(), now + Duration::from_secs(5));
        assert_eq!(balancer.addresses(0, now).unwrap()[0], list[0]);
        assert_eq!(balancer.addresses(0, now).unwrap()[0], list[1]);
        assert_eq!(balancer.addresses(0, now + Duration::from_secs(5)), None);
        assert_eq!(balancer.last_addresses(0).unwrap()[0], list[0]);
    }
}
