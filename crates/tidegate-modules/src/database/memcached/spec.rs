//! What a `listen` says, what has happened there, and `stats`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bstr::BString;
use tidegate_http::memcached_server::write_line;
use tidegate_net::clock;

use super::{
    stats::{Counters, write_stat},
    table::Place,
    zone::{Sizes, Zone},
};

/// Most keys that `stats cachedump` lists.
const DUMP_KEYS_MAX: usize = 10_000;

/// Where items are.
pub(super) enum Items {
    /// In a zone of this name.
    Zone(BString),
    /// In a table.
    Table(Arc<Place>),
}

/// What a `listen` says, and what has happened there.
pub(super) struct Spec {
    /// Where the items are.
    pub(super) items: Items,
    /// Clients have to log in.
    pub(super) asks_for_password: bool,
    pub(super) connections: AtomicU64,
    pub(super) connections_total: AtomicU64,
    pub(super) logins: AtomicU64,
    pub(super) logins_failed: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    since_ms: u64,
}

impl Spec {
    pub(super) fn new(items: Items, asks_for_password: bool) -> Self {
        Spec {
            items,
            asks_for_password,
            connections: AtomicU64::new(0),
            connections_total: AtomicU64::new(0),
            logins: AtomicU64::new(0),
            logins_failed: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            since_ms: clock::steady_ms(),
        }
    }
}

/// What statistics tell.
pub(super) struct Facts {
    pub(super) counters: Counters,
    /// `None` for a table: nobody counts its rows.
    pub(super) sizes: Option<Sizes>,
    pub(super) item_bytes_max: usize,
}

/// The answer to `version`: that of the protocol comes first, because clients compare it.
pub(super) fn version() -> &'static str {
    concat!("VERSION 1.6.18-tidegate-", env!("CARGO_PKG_VERSION"))
}

pub(super) fn write_general(spec: &Spec, facts: &Facts, out: &mut Vec<u8>) {
    let counters = &facts.counters;
    let uptime_s = clock::steady_ms().saturating_sub(spec.since_ms) / 1000;
    write_stat("pid", std::process::id(), out);
    write_stat("uptime", uptime_s, out);
    write_stat("time", clock::now_ms() / 1000, out);
    write_stat("version", version().trim_start_matches("VERSION "), out);
    write_stat("pointer_size", usize::BITS, out);
    let counted = [
        ("curr_connections", &spec.connections),
        ("total_connections", &spec.connections_total),
        ("auth_cmds", &spec.logins),
        ("auth_errors", &spec.logins_failed),
        ("bytes_read", &spec.bytes_read),
        ("bytes_written", &spec.bytes_written),
    ];
    counted.into_iter().for_each(|(name, count)| write_stat(name, count.load(Ordering::Relaxed), out));
    for (name, count) in counters.requests().into_iter().chain(counters.all()) {
        write_stat(name, count, out);
    }
    if let Some(sizes) = &facts.sizes {
        write_stat("limit_maxbytes", sizes.bytes_max, out);
        write_stat("bytes", sizes.bytes, out);
        write_stat("curr_items", sizes.items, out);
    }
}

/// All items are of one class: memory is not divided into slabs.
pub(super) fn write_items(facts: &Facts, out: &mut Vec<u8>) {
    let Some(sizes) = facts.sizes.as_ref().filter(|sizes| sizes.items > 0) else { return };
    write_stat("items:1:number", sizes.items, out);
    write_stat("items:1:mem_requested", sizes.bytes, out);
    for (name, count) in facts.counters.all() {
        match name {
            "evictions" => write_stat("items:1:evicted", count, out),
            "reclaimed" => write_stat("items:1:reclaimed", count, out),
            _ => {}
        }
    }
}

pub(super) fn write_slabs(facts: &Facts, out: &mut Vec<u8>) {
    if let Some(sizes) = &facts.sizes {
        write_stat("1:mem_requested", sizes.bytes, out);
        write_stat("1:used_chunks", sizes.items, out);
    }
    for (name, count) in facts.counters.all() {
        if name.ends_with("_hits") || name == "cmd_set" {
            write_stat(format_args!("1:{name}"), count, out);
        }
    }
    write_stat("active_slabs", 1, out);
    write_stat("total_malloced", facts.sizes.as_ref().map_or(0, |sizes| sizes.bytes_max), out);
}

pub(super) fn write_settings(spec: &Spec, facts: &Facts, out: &mut Vec<u8>) {
    write_stat("maxbytes", facts.sizes.as_ref().map_or(0, |sizes| sizes.bytes_max), out);
    write_stat("item_size_max", facts.item_bytes_max, out);
    write_stat("evictions", if facts.sizes.is_some() { "on" } else { "off" }, out);
    write_stat("cas_enabled", "yes", out);
    write_stat("flush_enabled", "yes", out);
    write_stat("dump_enabled", if facts.sizes.is_some() { "yes" } else { "no" }, out);
    write_stat("auth_enabled_ascii", if spec.asks_for_password { "yes" } else { "no" }, out);
}

pub(super) fn write_keys(zone: &Zone, limit: usize, out: &mut Vec<u8>) {
    let max = if limit == 0 { DUMP_KEYS_MAX } else { limit.min(DUMP_KEYS_MAX) };
    for (key, bytes, expires_s) in zone.list(max, clock::now_ms() / 1000) {
        out.extend_from_slice(b"ITEM ");
        out.extend_from_slice(&key);
        write_line(format!(" [{bytes} b; {expires_s} s]").as_bytes(), out);
    }
}
