//! By chance, by weight; of two, the one with fewer requests under way.
//!
//! Source: nginx, `ngx_http_upstream_random_module`.

use std::cell::Cell;

use super::{HASH_TRIES_MAX, Tried, by_weight, is_usable, mark_checked};
use crate::{clock, upstream::group::Tier};

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// A number that need not be hard to guess (xorshift64*).
fn next_random() -> u64 {
    let mut state = STATE.get();
    if state == 0 {
        // Each thread starts elsewhere: its stack does.
        let here = std::ptr::from_ref(&state).addr() as u64;
        state = (clock::now_ms() << 20 ^ here).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    STATE.set(state);
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// A peer that was not tried.
pub(super) fn choose(tier: &Tier, tried: &Tried, two: bool, now_s: u64) -> Option<usize> {
    if tier.peers.len() < 2 || tier.weight_total == 0 {
        return None;
    }
    let mut states = tier.lock();
    let mut first: Option<usize> = None;
    for _ in 0..=HASH_TRIES_MAX {
        let index = by_weight(tier, next_random() % tier.weight_total);
        if first == Some(index) || tried.contains(index) || !is_usable(&tier.peers[index], &states[index], now_s) {
            continue;
        }
        let chosen = match first {
            None if two => {
                first = Some(index);
                continue;
            }
            None => index,
            Some(other) => {
                let load =
                    |index: usize, by: usize| u64::from(tier.peers[index].conns()) * u64::from(tier.peers[by].weight);
                if load(other, index) < load(index, other) { other } else { index }
            }
        };
        mark_checked(&tier.peers[chosen], &mut states[chosen], now_s);
        return Some(chosen);
    }
    first
}
