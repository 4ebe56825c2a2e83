//! Smooth weighted round robin.
//!
//! Each peer gains its weight; the one that has most is chosen and pays the sum of all weights. A peer that failed
//! weighs less and regains its weight step by step.
//!
//! Source: nginx, `ngx_http_upstream_get_peer`.

use super::{Tried, is_usable, mark_checked};
use crate::upstream::group::{PeerState, Tier};

/// The next peer that was not tried.
pub(super) fn choose(tier: &Tier, tried: &Tried, now_s: u64) -> Option<usize> {
    let mut states = tier.lock();
    let candidates = (0..tier.peers.len()).filter(|&index| !tried.contains(index));
    choose_among(tier, &mut states, candidates, now_s)
}

/// The next of some peers, of those that can be asked.
pub(super) fn choose_among(
    tier: &Tier,
    states: &mut [PeerState],
    candidates: impl Iterator<Item = usize>,
    now_s: u64,
) -> Option<usize> {
    let mut total = 0;
    let mut best: Option<usize> = None;
    for index in candidates {
        let (peer, state) = (&tier.peers[index], &mut states[index]);
        if !is_usable(peer, state, now_s) {
            continue;
        }
        state.current_weight += state.effective_weight;
        total += state.effective_weight;
        if state.effective_weight < i64::from(peer.weight) {
            state.effective_weight += 1;
        }
        let current = state.current_weight;
        if best.is_none_or(|best| current > states[best].current_weight) {
            best = Some(index);
        }
    }
    let best = best?;
    states[best].current_weight -= total;
    mark_checked(&tier.peers[best], &mut states[best], now_s);
    Some(best)
}
