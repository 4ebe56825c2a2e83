//! By the hash of a text.
//!
//! The plain form is that of Perl's `Cache::Memcached`, the consistent one that of `Cache::Memcached::Fast` (ketama with
//! 160 points for each unit of weight).
//!
//! Source: nginx, `ngx_http_upstream_hash_module`.

use std::sync::Arc;

use crc32fast::Hasher;

use super::{HASH_TRIES_MAX, Position, Tried, by_weight, is_usable, mark_checked, round_robin};
use crate::upstream::{
    Peer,
    group::{PeerSet, Tier},
};

/// Points for each unit of weight.
const POINTS: u32 = 160;

fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// The text's peer, or the next one that it leads to.
pub(super) fn choose(tier: &Tier, tried: &Tried, position: &mut Position, now_s: u64) -> Option<usize> {
    if tier.peers.len() < 2 || position.key.is_empty() || tier.weight_total == 0 {
        return None;
    }
    let mut states = tier.lock();
    while position.tries <= HASH_TRIES_MAX {
        let rehash = if position.rehash > 0 { position.rehash.to_string() } else { String::new() };
        position.hash += u64::from(crc32(&[rehash.as_bytes(), &position.key]) >> 16 & 0x7fff);
        position.rehash += 1;
        let index = by_weight(tier, position.hash % tier.weight_total);
        if !tried.contains(index) && is_usable(&tier.peers[index], &states[index], now_s) {
            mark_checked(&tier.peers[index], &mut states[index], now_s);
            return Some(index);
        }
        position.tries += 1;
    }
    None
}

/// The circle of the consistent hash: places in order, each with the server that it belongs to.
pub(crate) struct Ring {
    points: Box<[(u32, u32)]>,
    /// Peers of each server.
    servers: Vec<Vec<usize>>,
}

impl Ring {
    pub(crate) fn new(peers: &[Arc<Peer>]) -> Self {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut servers: Vec<Vec<usize>> = Vec::new();
        let mut points = Vec::new();
        for (index, peer) in peers.iter().enumerate() {
            let server = names.iter().position(|name| **name == **peer.server).unwrap_or_else(|| {
                names.push(&peer.server);
                servers.push(Vec::new());
                names.len() - 1
            });
            servers[server].push(index);
            let (host, port) = split(&peer.server);
            let mut previous = 0u32;
            for _ in 0..peer.weight.saturating_mul(POINTS) {
                previous = crc32(&[host, b"\0", port, &previous.to_le_bytes()]);
                points.push((previous, u32::try_from(server).unwrap_or(u32::MAX)));
            }
        }
        points.sort_by_key(|(hash, _)| *hash);
        points.dedup_by_key(|(hash, _)| *hash);
        Ring { points: points.into(), servers }
    }

    /// The first point at or behind `hash`.
    fn find(&self, hash: u32) -> usize {
        self.points.partition_point(|(point, _)| *point < hash)
    }
}

/// Host and port of a server's name, of which either may be missing.
fn split(server: &[u8]) -> (&[u8], &[u8]) {
    if server.len() >= 5 && server[..5].eq_ignore_ascii_case(b"unix:") {
        return (&server[5..], b"");
    }
    let digits = server.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let at = server.len() - digits;
    match server[..at].strip_suffix(b":") {
        Some(host) => (host, &server[at..]),
        None => (server, b""),
    }
}

/// Finds the place of the text.
pub(super) fn begin_consistent(peers: &PeerSet, position: &mut Position) {
    if let Some(ring) = &peers.ring {
        position.hash = ring.find(crc32(&[&position.key])) as u64;
    }
}

/// A peer of the text's server, or of the next one on the circle.
pub(super) fn choose_consistent(
    ring: &Ring,
    tier: &Tier,
    tried: &Tried,
    position: &mut Position,
    now_s: u64,
) -> Option<usize> {
    if ring.points.is_empty() || tier.peers.len() < 2 || position.key.is_empty() {
        return None;
    }
    let mut states = tier.lock();
    while position.tries <= HASH_TRIES_MAX {
        let at = usize::try_from(position.hash).unwrap_or(0) % ring.points.len();
        let server = &ring.servers[ring.points[at].1 as usize];
        let candidates = server.iter().copied().filter(|&index| !tried.contains(index));
        if let Some(index) = round_robin::choose_among(tier, &mut states, candidates, now_s) {
            return Some(index);
        }
        position.hash += 1;
        position.tries += 1;
    }
    None
}
