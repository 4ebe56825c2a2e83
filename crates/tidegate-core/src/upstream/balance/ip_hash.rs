//! By the client's address: the first three bytes of an IPv4 address, all of an IPv6 address.
//!
//! Source: nginx, `ngx_http_upstream_get_ip_hash_peer`.

use std::{net::IpAddr, rc::Rc};

use tidegate_net::Peer;

use super::{HASH_TRIES_MAX, Position, Tried, by_weight, is_usable, mark_checked};
use crate::{request::Request, upstream::group::Tier};

const HASH_START: u64 = 89;
const HASH_FACTOR: u64 = 113;
const HASH_MODULUS: u64 = 6271;

/// Takes the client's address.
pub(super) fn begin(req: &Rc<Request>, position: &mut Position) {
    position.hash = HASH_START;
    match req.peer() {
        Peer::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => position.key.extend_from_slice(&ip.octets()[..3]),
            IpAddr::V6(ip) => position.key.extend_from_slice(&ip.octets()),
        },
        Peer::Unix => position.key.extend_from_slice(&[0; 3]),
    }
}

/// The client's peer, or the next one that its address leads to.
pub(super) fn choose(tier: &Tier, tried: &Tried, position: &mut Position, now_s: u64) -> Option<usize> {
    if tier.peers.len() < 2 || tier.weight_total == 0 {
        return None;
    }
    let mut states = tier.lock();
    while position.tries <= HASH_TRIES_MAX {
        for &byte in &position.key {
            position.hash = (position.hash * HASH_FACTOR + u64::from(byte)) % HASH_MODULUS;
        }
        let index = by_weight(tier, position.hash % tier.weight_total);
        if !tried.contains(index) && is_usable(&tier.peers[index], &states[index], now_s) {
            mark_checked(&tier.peers[index], &mut states[index], now_s);
            return Some(index);
        }
        position.tries += 1;
    }
    None
}
