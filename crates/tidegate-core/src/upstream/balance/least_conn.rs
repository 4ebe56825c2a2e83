//! The peer with the fewest requests under way for its weight; among several, round robin.
//!
//! Source: nginx, `ngx_http_upstream_get_least_conn_peer`.

use super::{Tried, is_usable, round_robin};
use crate::upstream::group::Tier;

/// The next peer that was not tried.
pub(super) fn choose(tier: &Tier, tried: &Tried, now_s: u64) -> Option<usize> {
    let mut states = tier.lock();
    let usable =
        |index: usize, states: &[_]| !tried.contains(index) && is_usable(&tier.peers[index], &states[index], now_s);
    let load = |index: usize| (u64::from(tier.peers[index].conns()), u64::from(tier.peers[index].weight));
    let mut best: Option<usize> = None;
    for index in 0..tier.peers.len() {
        if !usable(index, &states) {
            continue;
        }
        let (conns, weight) = load(index);
        if best.map(load).is_none_or(|(best_conns, best_weight)| conns * best_weight < best_conns * weight) {
            best = Some(index);
        }
    }
    let (best_conns, best_weight) = load(best?);
    let equal = |index: &usize| {
        let (conns, weight) = load(*index);
        conns * best_weight == best_conns * weight
    };
    let candidates: smallvec::SmallVec<[usize; 16]> =
        (0..tier.peers.len()).filter(|&index| usable(index, &states)).filter(equal).collect();
    round_robin::choose_among(tier, &mut states, candidates.into_iter(), now_s)
}
