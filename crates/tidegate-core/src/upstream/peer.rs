//! One address that requests can be sent to, with what is known about its health.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bstr::BString;

use super::Address;

/// One address of a server.
#[derive(Debug)]
pub struct Peer {
    /// Address of the peer.
    pub address: Address,
    /// The address as text: `$upstream_addr`.
    pub name: BString,
    /// The server as the configuration names it; consistent hashing goes by this.
    pub server: BString,
    /// Its share of the requests.
    pub weight: u32,
    /// Failures within `fail_timeout_s` after which the peer is left alone; 0: never.
    pub max_fails: u32,
    /// How long failures count, and how long the peer is left alone, in seconds.
    pub fail_timeout_s: u64,
    /// Most requests at a time; 0 for any number.
    pub max_conns: u32,
    /// Never chosen, for the time being.
    down: AtomicBool,
    /// Requests under way, where somebody wants to know.
    conns: AtomicU32,
}

impl Peer {
    /// A peer with the parameters that `server` has by default.
    pub fn new(address: Address, server: BString) -> Self {
        Peer {
            name: address.to_string().into(),
            address,
            server,
            weight: 1,
            max_fails: 1,
            fail_timeout_s: 10,
            max_conns: 0,
            down: AtomicBool::new(false),
            conns: AtomicU32::new(0),
        }
    }

    /// Requests under way. Counted only in groups that need it.
    pub fn conns(&self) -> u32 {
        self.conns.load(Ordering::Relaxed)
    }
    /// Whether it is never chosen: the configuration says so, or somebody who has looked after it.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }
    /// Takes it out of the group, or back in; for all workers.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }
    pub(super) fn begin(&self) {
        self.conns.fetch_add(1, Ordering::Relaxed);
    }
    pub(super) fn end(&self) {
        self.conns.fetch_sub(1, Ordering::Relaxed);
    }
    pub(super) fn is_full(&self) -> bool {
        self.max_conns > 0 && self.conns() >= self.max_conns
    }
}
