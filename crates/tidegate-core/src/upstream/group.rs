//! An upstream: the servers that can answer the same requests, and how one is chosen.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bstr::BString;

use super::{
    Address, Peer,
    balance::{Balancer, Method, Ring},
};

/// A `server` of an upstream.
#[derive(Debug, Clone)]
pub struct Server {
    /// As the configuration writes it.
    pub name: BString,
    /// Where it is; a name may stand for several addresses.
    pub addresses: Vec<Address>,
    /// `weight=`
    pub weight: u32,
    /// `max_fails=`
    pub max_fails: u32,
    /// `fail_timeout=`
    pub fail_timeout: Duration,
    /// `max_conns=`
    pub max_conns: u32,
    /// `down`
    pub down: bool,
    /// `backup`
    pub backup: bool,
}

impl Server {
    /// A server with the default parameters.
    pub fn new(name: BString, addresses: Vec<Address>) -> Self {
        Server {
            name,
            addresses,
            weight: 1,
            max_fails: 1,
            fail_timeout: Duration::from_secs(10),
            max_conns: 0,
            down: false,
            backup: false,
        }
    }

    fn peers(&self) -> impl Iterator<Item = Arc<Peer>> + '_ {
        self.addresses.iter().map(|address| {
            let mut peer = Peer::new(address.clone(), self.name.clone());
            peer.weight = self.weight;
            peer.max_fails = self.max_fails;
            peer.fail_timeout_s = self.fail_timeout.as_secs();
            peer.max_conns = self.max_conns;
            peer.set_down(self.down);
            Arc::new(peer)
        })
    }
}

/// How connections are kept open for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle connections that a worker keeps; 0 for none.
    pub connections: usize,
    /// Requests over one connection.
    pub requests: u64,
    /// How long a connection serves, in milliseconds.
    pub time_ms: u64,
    /// How long a connection stays idle, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for KeepAlive {
    fn default() -> Self {
        KeepAlive { connections: 0, requests: 1000, time_ms: 3_600_000, timeout_ms: 60_000 }
    }
}

/// Settings of a group, beside its peers.
#[derive(Default)]
pub struct GroupOptions {
    /// Method of choosing a peer.
    pub method: Method,
    /// Rules for keeping connections after a response.
    pub keepalive: KeepAlive,
    /// Chooses instead of `method` (`balancer_by_lua`).
    pub balancer: Option<Box<dyn Balancer>>,
    /// Idle connections that a worker keeps for the balancer (`balancer_keepalive`).
    pub balancer_keepalive: usize,
}

/// An upstream.
pub struct Group {
    /// Number, unique in the process; connections that are kept open go by it.
    pub(super) id: u32,
    /// Name: `$upstream_addr` when no peer could be chosen.
    pub name: BString,
    /// Its settings.
    pub(super) options: GroupOptions,
    peers: RwLock<Arc<PeerSet>>,
    /// The peers, when they never change: they are then had without a lock.
    fixed: Option<Arc<PeerSet>>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The peers of a group, as long as its servers' addresses stay the same.
pub struct PeerSet {
    /// Peers that are asked first.
    pub(super) primary: Tier,
    /// Peers that are asked when none of those can be.
    pub(super) backup: Tier,
    /// There is one peer and no backup: nothing is chosen.
    pub(super) single: bool,
    /// Requests under way are counted.
    pub(super) counts: bool,
    /// Points of the consistent hash.
    pub(super) ring: Option<Ring>,
}

/// Peers of the same rank.
#[derive(Default)]
pub(super) struct Tier {
    pub(super) peers: Box<[Arc<Peer>]>,
    pub(super) weight_total: u64,
    state: Mutex<Box<[PeerState]>>,
}

/// A peer and how it stands.
#[derive(Debug, Clone)]
pub struct PeerReport {
    /// The peer.
    pub peer: Arc<Peer>,
    /// Weight that the peer has saved up for the next choice (smooth weighted round robin).
    pub current_weight: i64,
    /// Its weight, lowered after failures.
    pub effective_weight: i64,
    /// Failures that count.
    pub fails: u32,
    /// When it failed last, in seconds since 1970; 0 for never.
    pub accessed_s: u64,
    /// When it was tried last, or failed last, in seconds since 1970; 0 for never.
    pub checked_s: u64,
}

/// What changes about a peer of a tier.
///
/// Source: nginx, `ngx_http_upstream_rr_peer_t`.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerState {
    pub(super) current_weight: i64,
    pub(super) effective_weight: i64,
    pub(super) fails: u32,
    /// When it failed last, in seconds.
    pub(super) accessed_s: u64,
    /// When it was tried last, or failed last, in seconds.
    pub(super) checked_s: u64,
}

impl Tier {
    fn new(peers: Vec<Arc<Peer>>) -> Self {
        let state = |peer: &Arc<Peer>| PeerState {
            current_weight: 0,
            effective_weight: i64::from(peer.weight),
            fails: 0,
            accessed_s: 0,
            checked_s: 0,
        };
        Tier {
            weight_total: peers.iter().map(|peer| u64::from(peer.weight)).sum(),
            state: Mutex::new(peers.iter().map(state).collect()),
            peers: peers.into(),
        }
    }
    /// Held for a few loads and stores only.
    pub(super) fn lock(&self) -> MutexGuard<'_, Box<[PeerState]>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes over what is known about peers that were there before.
    fn take_over(&mut self, old: &Tier) {
        let old_states = old.lock();
        let states = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (peer, state) in self.peers.iter_mut().zip(states.iter_mut()) {
            let same = |other: &Arc<Peer>| other.address == peer.address && other.server == peer.server;
            if let Some(index) = old.peers.iter().position(same) {
                *peer = old.peers[index].clone();
                *state = old_states[index];
            }
        }
    }
    fn tries(&self) -> u32 {
        u32::try_from(self.peers.iter().filter(|peer| !peer.is_down()).count()).unwrap_or(u32::MAX)
    }
}

impl PeerSet {
    fn new(servers: &[Server], method: &Method) -> Self {
        let tier = |backup| {
            let of_rank = servers.iter().filter(|server| server.backup == backup);
            Tier::new(of_rank.flat_map(Server::peers).collect())
        };
        let (primary, backup) = (tier(false), tier(true));
        let counts = method.counts_conns() || primary.peers.iter().chain(&backup.peers).any(|peer| peer.max_conns > 0);
        PeerSet {
            single: primary.peers.len() == 1 && backup.peers.is_empty(),
            ring: method.is_consistent().then(|| Ring::new(&primary.peers)),
            counts,
            primary,
            backup,
        }
    }
    /// How many tries a request has: as many as there are peers.
    pub(super) fn tries(&self) -> u32 {
        self.primary.tries().saturating_add(self.backup.tries())
    }
    /// Whether there is nobody to choose from.
    pub(super) fn is_empty(&self) -> bool {
        self.primary.peers.is_empty() && self.backup.peers.is_empty()
    }
    pub(super) fn tier(&self, backup: bool) -> &Tier {
        if backup { &self.backup } else { &self.primary }
    }
}

static NEXT_ID: AtomicU32 = AtomicU32::new(0);

impl Group {
    /// A group whose servers keep their addresses.
    pub fn new(name: BString, servers: &[Server], options: GroupOptions) -> Self {
        let peers = Arc::new(PeerSet::new(servers, &options.method));
        Group {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name,
            peers: RwLock::new(peers.clone()),
            fixed: Some(peers),
            options,
        }
    }

    /// A group whose servers may get other addresses: [`set_servers`](Self::set_servers).
    pub fn changing(name: BString, servers: &[Server], options: GroupOptions) -> Self {
        Group { fixed: None, ..Self::new(name, servers, options) }
    }

    /// Gives the group other servers. Requests under way stay with theirs; addresses that stay keep what is known about
    /// their health.
    pub fn set_servers(&self, servers: &[Server]) {
        let mut peers = PeerSet::new(servers, &self.options.method);
        let old = self.peers();
        peers.primary.take_over(&old.primary);
        peers.backup.take_over(&old.backup);
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(peers);
    }

    pub(super) fn peers(&self) -> Arc<PeerSet> {
        match &self.fixed {
            Some(peers) => peers.clone(),
            None => self.peers.read().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// What is known about the peers of one rank, in order.
    pub fn report(&self, backup: bool) -> Vec<PeerReport> {
        let peers = self.peers();
        let tier = peers.tier(backup);
        let states = tier.lock();
        let report = |(peer, state): (&Arc<Peer>, &PeerState)| PeerReport {
            peer: peer.clone(),
            current_weight: state.current_weight,
            effective_weight: state.effective_weight,
            fails: state.fails,
            accessed_s: state.accessed_s,
            checked_s: state.checked_s,
        };
        tier.peers.iter().zip(states.iter()).map(report).collect()
    }

    /// Takes the peer with this index out of its rank, or back in with its failures forgotten. `false` if there is none.
    pub fn set_peer_down(&self, backup: bool, index: usize, down: bool) -> bool {
        let peers = self.peers();
        let tier = peers.tier(backup);
        let mut states = tier.lock();
        let (Some(peer), Some(state)) = (tier.peers.get(index), states.get_mut(index)) else { return false };
        peer.set_down(down);
        if !down {
            state.fails = 0;
        }
        true
    }

    /// The addresses of all peers, in order, backups last.
    pub fn addresses(&self) -> Vec<Address> {
        let peers = self.peers();
        peers.primary.peers.iter().chain(&peers.backup.peers).map(|peer| peer.address.clone()).collect()
    }

    /// The addresses of one server.
    pub fn addresses_of(&self, server: &[u8]) -> Vec<Address> {
        let peers = self.peers();
        let all = peers.primary.peers.iter().chain(&peers.backup.peers);
        all.filter(|peer| peer.server == server).map(|peer| peer.address.clone()).collect()
    }
}
