//! `stats`: what was asked for, and what came of it.

use std::fmt::Display;

/// How often what has happened, by memcached's names.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    get_hits: u64,
    get_misses: u64,
    cmd_set: u64,
    total_items: u64,
    cas_hits: u64,
    cas_misses: u64,
    cas_badval: u64,
    delete_hits: u64,
    delete_misses: u64,
    incr_hits: u64,
    incr_misses: u64,
    decr_hits: u64,
    decr_misses: u64,
    touch_hits: u64,
    touch_misses: u64,
    pub(super) get_expired: u64,
    pub(super) get_flushed: u64,
    pub(super) evictions: u64,
    pub(super) reclaimed: u64,
    pub(super) cmd_flush: u64,
}

impl Counters {
    /// So many items were removed because they had expired.
    pub(super) fn of_reclaimed(count: u64) -> Self {
        Counters { reclaimed: count, ..Counters::default() }
    }
    pub(super) fn got(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.get_hits } else { &mut self.get_misses }) += 1;
    }
    pub(super) fn touched(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.touch_hits } else { &mut self.touch_misses }) += 1;
    }
    pub(super) fn deleted(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.delete_hits } else { &mut self.delete_misses }) += 1;
    }
    pub(super) fn counted(&mut self, is_down: bool, is_hit: bool) {
        *(match (is_down, is_hit) {
            (false, true) => &mut self.incr_hits,
            (false, false) => &mut self.incr_misses,
            (true, true) => &mut self.decr_hits,
            (true, false) => &mut self.decr_misses,
        }) += 1;
    }
    /// A value came. `compares`: to be stored if the item has a number.
    pub(super) fn stored(&mut self, compares: bool, is_there: bool, is_stored: bool) {
        self.cmd_set += 1;
        self.total_items += u64::from(is_stored);
        if compares {
            *(match (is_there, is_stored) {
                (false, _) => &mut self.cas_misses,
                (true, true) => &mut self.cas_hits,
                (true, false) => &mut self.cas_badval,
            }) += 1;
        }
    }

    /// Takes those of others in.
    pub(super) fn add(&mut self, other: &Counters) {
        let mine = self.all_mut();
        let theirs = other.all();
        for (mine, (_, count)) in mine.into_iter().zip(theirs) {
            *mine += count;
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 20] {
        [
            &mut self.get_hits,
            &mut self.get_misses,
            &mut self.cmd_set,
            &mut self.total_items,
            &mut self.cas_hits,
            &mut self.cas_misses,
            &mut self.cas_badval,
            &mut self.delete_hits,
            &mut self.delete_misses,
            &mut self.incr_hits,
            &mut self.incr_misses,
            &mut self.decr_hits,
            &mut self.decr_misses,
            &mut self.touch_hits,
            &mut self.touch_misses,
            &mut self.get_expired,
            &mut self.get_flushed,
            &mut self.evictions,
            &mut self.reclaimed,
            &mut self.cmd_flush,
        ]
    }

    /// Names and counts, in the order of [`all_mut`](Self::all_mut).
    pub(super) fn all(&self) -> [(&'static str, u64); 20] {
        [
            ("get_hits", self.get_hits),
            ("get_misses", self.get_misses),
            ("cmd_set", self.cmd_set),
            ("total_items", self.total_items),
            ("cas_hits", self.cas_hits),
            ("cas_misses", self.cas_misses),
            ("cas_badval", self.cas_badval),
            ("delete_hits", self.delete_hits),
            ("delete_misses", self.delete_misses),
            ("incr_hits", self.incr_hits),
            ("incr_misses", self.incr_misses),
            ("decr_hits", self.decr_hits),
            ("decr_misses", self.decr_misses),
            ("touch_hits", self.touch_hits),
            ("touch_misses", self.touch_misses),
            ("get_expired", self.get_expired),
            ("get_flushed", self.get_flushed),
            ("evictions", self.evictions),
            ("reclaimed", self.reclaimed),
            ("cmd_flush", self.cmd_flush),
        ]
    }

    /// Requests for values, and those for another time of expiry.
    pub(super) fn requests(&self) -> [(&'static str, u64); 2] {
        [("cmd_get", self.get_hits + self.get_misses), ("cmd_touch", self.touch_hits + self.touch_misses)]
    }
}

/// Appends a line of statistics.
pub(super) fn write_stat(name: impl Display, value: impl Display, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_their_names() {
        let mut counters = Counters::default();
        for (number, count) in counters.all_mut().into_iter().enumerate() {
            *count = number as u64;
        }
        let mut sum = Counters::default();
        sum.add(&counters);
        sum.add(&counters);
        for (number, (name, count)) in sum.all().into_iter().enumerate() {
            assert_eq!(count, 2 * number as u64, "{name}");
        }
    }
}
