//! Choosing a peer for a request, and one more when that failed.
//!
//! The methods are nginx's, number for number: a cache behind `hash … consistent` finds its keys where nginx had put them,
//! and where libketama's `Cache::Memcached::Fast` looks for them.
//!
//! A [`Selection`] belongs to a request and knows what was tried already. Each choice is a [`Lease`] on the peer: it
//! counts as a request under way until it is dropped, however the request ends.

mod hash;
mod ip_hash;
mod least_conn;
mod random;
mod round_robin;

use std::{fmt, rc::Rc, sync::Arc};

use bstr::BString;
pub(super) use hash::Ring;
use smallvec::SmallVec;

use super::{
    Peer,
    failure::Failure,
    group::{Group, KeepAlive, PeerSet, PeerState, Tier},
    socket::Bind,
};
use crate::{clock, phase::Ready, request::Request, template::Template};

/// The methods of choosing a peer.
#[derive(Debug, Default, Clone)]
pub enum Method {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest requests under way, by weight.
    LeastConn,
    /// By the client's address.
    IpHash,
    /// By a text.
    Hash {
        /// The text.
        key: Template,
        /// A change of the servers moves few keys.
        consistent: bool,
    },
    /// By chance.
    Random {
        /// Of two, the one with fewer requests under way.
        two: bool,
    },
}

impl Method {
    pub(super) fn counts_conns(&self) -> bool {
        matches!(self, Method::LeastConn | Method::Random { two: true })
    }
    pub(super) fn is_consistent(&self) -> bool {
        matches!(self, Method::Hash { consistent: true, .. })
    }
}

/// Time limits of a try, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for connecting.
    pub connect_ms: u64,
    /// Limit for pauses while the request is sent.
    pub send_ms: u64,
    /// Limit for pauses while the answer is read.
    pub read_ms: u64,
}

/// What a [`Balancer`] sees and decides before a try.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Tries before this one.
    pub number: u32,
    /// Failure of the last of those tries.
    pub last_failure: Option<Failure>,
    /// The peer, when one was chosen; otherwise the group's method chooses.
    pub peer: Option<Arc<Peer>>,
    /// Tries left, this one included.
    pub tries: u32,
    /// Most tries of the request (`proxy_next_upstream_tries`); 0 for any number.
    pub tries_max: u32,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Rules for keeping the connection after the response.
    pub keepalive: KeepAlive,
    /// Idle connections that a worker keeps when the balancer wants them kept (`balancer_keepalive`).
    pub keepalive_connections: usize,
    /// Only connections that were kept under the same key are used again.
    pub keepalive_key: BString,
    /// Where the connection comes from, instead of what the location says.
    pub bind: Option<Bind>,
    /// The location speaks TLS with its servers.
    pub offers_tls: bool,
    /// TLS is left out all the same, until the balancer says otherwise.
    pub omits_tls: bool,
    /// The request is to be made anew: what it consists of has changed.
    pub recreate_request: bool,
}

/// Chooses peers by a program of the user's (`balancer_by_lua`).
pub trait Balancer: Send + Sync {
    /// Decides about the next try, and gives `attempt` back with what it decided. `Err` is the status with which the
    /// request ends.
    fn choose(&self, req: &Rc<Request>, attempt: Attempt) -> Ready<(Attempt, Result<(), u16>)>;
}

/// Peers of a tier that were tried.
#[derive(Debug, Default)]
pub(super) struct Tried(SmallVec<[u64; 1]>);

impl Tried {
    pub(super) fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }
    fn insert(&mut self, index: usize) {
        if self.0.len() <= index / 64 {
            self.0.resize(index / 64 + 1, 0);
        }
        self.0[index / 64] |= 1 << (index % 64);
    }
}

/// Attempts of the hashing methods to find a peer that works before they take any.
///
/// Source: nginx.
pub(super) const HASH_TRIES_MAX: u32 = 20;

/// Where a hashing method stands.
#[derive(Debug, Default)]
pub(super) struct Position {
    pub(super) key: Vec<u8>,
    pub(super) hash: u64,
    pub(super) rehash: u32,
    pub(super) tries: u32,
}

/// One request's choices.
pub struct Selection {
    group: Arc<Group>,
    peers: Arc<PeerSet>,
    backup: bool,
    tried: Tried,
    position: Position,
    /// Tries left.
    pub tries: u32,
    /// The decisions of the balancer, if the group has one.
    pub attempt: Attempt,
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selection").field("group", &self.group).field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// A request's hold on a peer.
#[derive(Debug)]
pub struct Lease {
    /// The peer.
    pub peer: Arc<Peer>,
    index: Option<usize>,
    backup: bool,
    counted: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.counted {
            self.peer.end();
        }
    }
}

/// Why there is no peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPeer {
    /// All are down, have failed or are full.
    NoneLive,
    /// The balancer ends the request with this status.
    Refused(u16),
    /// The balancer chose none, and the group has none.
    NotChosen,
}

impl Selection {
    /// Begins to choose for `req`.
    pub fn new(group: Arc<Group>, req: &Rc<Request>, timeouts: Timeouts) -> Self {
        let peers = group.peers();
        let mut position = Position::default();
        if !peers.single {
            match &group.options.method {
                Method::IpHash => ip_hash::begin(req, &mut position),
                Method::Hash { key, consistent } => {
                    key.write(req, &mut position.key);
                    if *consistent {
                        hash::begin_consistent(&peers, &mut position);
                    }
                }
                _ => {}
            }
        }
        // The first try is the balancer's, even in a group without servers.
        let tries = peers.tries().max(u32::from(group.options.balancer.is_some()));
        let attempt = Attempt {
            number: 0,
            last_failure: None,
            peer: None,
            tries,
            tries_max: 0,
            timeouts,
            keepalive: group.options.keepalive,
            keepalive_connections: group.options.balancer_keepalive,
            keepalive_key: BString::default(),
            bind: None,
            offers_tls: false,
            omits_tls: false,
            recreate_request: false,
        };
        Selection { group, peers, backup: false, tried: Tried::default(), position, tries, attempt }
    }

    /// The group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Whether a program of the user's chooses: [`balance`](Self::balance) then comes before [`choose`](Self::choose).
    pub fn has_balancer(&self) -> bool {
        self.group.options.balancer.is_some()
    }

    /// Lets the user's program decide about the next try.
    ///
    /// # Errors
    /// [`NoPeer::Refused`].
    pub async fn balance(&mut self, req: &Rc<Request>) -> Result<(), NoPeer> {
        let Some(balancer) = &self.group.options.balancer else { return Ok(()) };
        let mut attempt = self.attempt.clone();
        attempt.tries = self.tries;
        attempt.peer = None;
        attempt.keepalive_key.clear();
        attempt.keepalive = self.group.options.keepalive;
        attempt.recreate_request = false;
        let (attempt, decision) = balancer.choose(req, attempt).wait().await;
        self.attempt = attempt;
        self.attempt.number += 1;
        self.tries = self.attempt.tries;
        decision.map_err(NoPeer::Refused)
    }

    /// Chooses the next peer.
    ///
    /// # Errors
    /// [`NoPeer`].
    pub fn choose(&mut self) -> Result<Lease, NoPeer> {
        if let Some(peer) = self.attempt.peer.take() {
            return Ok(Lease { peer, index: None, backup: false, counted: false });
        }
        if self.has_balancer() && self.peers.is_empty() {
            return Err(NoPeer::NotChosen);
        }
        self.next_of_group().ok_or(NoPeer::NoneLive)
    }

    fn next_of_group(&mut self) -> Option<Lease> {
        if self.peers.single {
            let peer = &self.peers.primary.peers[0];
            if peer.is_down() || peer.is_full() {
                return None;
            }
            let counted = self.peers.counts;
            if counted {
                peer.begin();
            }
            return Some(Lease { peer: peer.clone(), index: Some(0), backup: false, counted });
        }
        let peers = self.peers.clone();
        let now_s = clock::steady_ms() / 1000;
        let chosen = if self.backup { None } else { self.by_method(&peers, now_s) };
        if let Some(index) = chosen.or_else(|| round_robin::choose(peers.tier(self.backup), &self.tried, now_s)) {
            return Some(self.lease(&peers, index));
        }
        if self.backup || peers.backup.peers.is_empty() {
            return None;
        }
        self.backup = true;
        self.tried = Tried::default();
        let index = match &self.group.options.method {
            Method::LeastConn => least_conn::choose(&peers.backup, &self.tried, now_s),
            _ => round_robin::choose(&peers.backup, &self.tried, now_s),
        }?;
        Some(self.lease(&peers, index))
    }

    /// The choice of the group's method among the first peers; `None` leaves it to round robin.
    fn by_method(&mut self, peers: &PeerSet, now_s: u64) -> Option<usize> {
        let tier = &peers.primary;
        match &self.group.options.method {
            Method::RoundRobin => None,
            Method::LeastConn => least_conn::choose(tier, &self.tried, now_s),
            Method::IpHash => ip_hash::choose(tier, &self.tried, &mut self.position, now_s),
            Method::Hash { consistent: false, .. } => hash::choose(tier, &self.tried, &mut self.position, now_s),
            Method::Hash { consistent: true, .. } => {
                let ring = peers.ring.as_ref()?;
                hash::choose_consistent(ring, tier, &self.tried, &mut self.position, now_s)
            }
            Method::Random { two } => random::choose(tier, &self.tried, *two, now_s),
        }
    }

    fn lease(&mut self, peers: &PeerSet, index: usize) -> Lease {
        self.tried.insert(index);
        let peer = peers.tier(self.backup).peers[index].clone();
        if peers.counts {
            peer.begin();
        }
        Lease { peer, index: Some(index), backup: self.backup, counted: peers.counts }
    }

    /// Takes note of how a try ended, and counts it. Answers whether the peer is left alone from now on.
    ///
    /// Source: nginx, `ngx_http_upstream_free_round_robin_peer`.
    pub fn free(&mut self, lease: &Lease, failed: bool) -> bool {
        self.tries = self.tries.saturating_sub(1);
        let Some(index) = lease.index else { return false };
        if self.peers.single {
            self.tries = 0;
            return false;
        }
        let peer = &lease.peer;
        if !failed && peer.max_fails == 0 {
            return false;
        }
        let mut states = self.peers.tier(lease.backup).lock();
        let state = &mut states[index];
        if !failed {
            // The peer works again once a try succeeded that began after its last failure.
            if state.accessed_s < state.checked_s {
                state.fails = 0;
            }
            return false;
        }
        let now_s = clock::steady_ms() / 1000;
        state.fails = state.fails.saturating_add(1);
        state.accessed_s = now_s;
        state.checked_s = now_s;
        if peer.max_fails == 0 {
            return false;
        }
        state.effective_weight = (state.effective_weight - i64::from(peer.weight / peer.max_fails)).max(0);
        state.fails >= peer.max_fails
    }
}

/// Whether a peer of a tier can be asked.
pub(super) fn is_usable(peer: &Peer, state: &PeerState, now_s: u64) -> bool {
    let failed = peer.max_fails > 0
        && state.fails >= peer.max_fails
        && now_s.saturating_sub(state.checked_s) <= peer.fail_timeout_s;
    !peer.is_down() && !failed && !peer.is_full()
}

/// Takes note that a peer is being tried.
pub(super) fn mark_checked(peer: &Peer, state: &mut PeerState, now_s: u64) {
    if now_s.saturating_sub(state.checked_s) > peer.fail_timeout_s {
        state.checked_s = now_s;
    }
}

/// The peer that place `at` of all weights in a row belongs to.
pub(super) fn by_weight(tier: &Tier, mut at: u64) -> usize {
    for (index, peer) in tier.peers.iter().enumerate() {
        if at < u64::from(peer.weight) {
            return index;
        }
        at -= u64::from(peer.weight);
    }
    0
}

#[cfg(test)]
mod tests;
