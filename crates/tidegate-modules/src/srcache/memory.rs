//! `srcache_zone`: responses in memory that all workers share.

use std::sync::Arc;

use tidegate_net::clock;

use super::entry::Entry;
use crate::zone::{State, Weigh};

/// A zone.
pub(super) type Memory = State<Kept>;

/// A response in a zone.
pub(super) struct Kept {
    entry: Arc<Entry>,
    /// When it goes, in seconds since 1970; `None` for never.
    until: Option<i64>,
}

impl Weigh for Kept {
    fn bytes(&self) -> usize {
        self.entry.bytes()
    }
}

/// The response that is kept under a key.
pub(super) fn find(memory: &Memory, key: &[u8]) -> Option<Arc<Entry>> {
    let mut shard = memory.shard(key);
    let kept = shard.entries.get(key)?;
    if kept.until.is_none_or(|until| clock::now_unix() < until) {
        return Some(kept.entry.clone());
    }
    shard.remove(key);
    None
}

/// Keeps a response for `seconds`, without an end for 0; answers whether it fits in. Those that were not asked for the longest
/// make room.
pub(super) fn keep(memory: &Memory, key: &[u8], entry: Entry, seconds: i64) -> bool {
    let bytes = entry.bytes();
    let until = (seconds != 0).then(|| clock::now_unix().saturating_add(seconds));
    let mut shard = memory.shard(key);
    shard.remove(key);
    if !shard.could_hold(key, bytes) {
        return false;
    }
    while !shard.has_room_for(key, bytes) && shard.remove_oldest(|_| true) {}
    shard.insert(key, Kept { entry: Arc::new(entry), until });
    true
}
