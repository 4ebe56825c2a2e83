//! Counters over all workers, as `stub_status` shows them.
//!
//! A counter that all workers write to would cost each of them a miss, so that a worker keeps the changes of the busy
//! ones to itself and adds them a few times a second.

use std::{
    cell::Cell,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use crate::rare::Rare;

/// Counters over all workers.
#[derive(Debug)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Requests begun.
    pub requests: AtomicU64,
    /// Connections open.
    pub active: AtomicU64,
    /// Connections on which a part of a request has arrived.
    pub reading: AtomicI64,
    /// Connections that wait for a request.
    pub waiting: AtomicI64,
    /// TLS handshakes of clients that were done.
    pub handshakes: AtomicU64,
    /// Those among them that took up an earlier session.
    pub handshakes_resumed: AtomicU64,
    /// TLS handshakes that came to nothing, except for those that took too long.
    pub handshakes_failed: Rare,
    /// TLS handshakes that took too long.
    pub handshakes_timed_out: Rare,
    /// HTTP/2 connections that ended since the client broke the rules.
    pub http2_faults: Rare,
    /// HTTP/2 connections that ended since the client made more work than it was worth.
    pub http2_floods: Rare,
    /// HTTP/2 requests that clients took back, or made us reset, before they were answered.
    pub http2_resets: AtomicU64,
    /// HTTP/2 requests that were not taken, since their connections had as many as they may have.
    pub http2_refused: AtomicU64,
}

/// The counters of the process.
pub static COUNTERS: Counters = Counters {
    accepted: AtomicU64::new(0),
    requests: AtomicU64::new(0),
    active: AtomicU64::new(0),
    reading: AtomicI64::new(0),
    waiting: AtomicI64::new(0),
    handshakes: AtomicU64::new(0),
    handshakes_resumed: AtomicU64::new(0),
    handshakes_failed: Rare::new(),
    handshakes_timed_out: Rare::new(),
    http2_faults: Rare::new(),
    http2_floods: Rare::new(),
    http2_resets: AtomicU64::new(0),
    http2_refused: AtomicU64::new(0),
};

/// What a worker counted and has not added to [`COUNTERS`] yet.
#[derive(Debug, Default)]
pub(crate) struct Uncounted {
    pub(crate) requests: Cell<u64>,
    pub(crate) reading: Cell<i64>,
    pub(crate) waiting: Cell<i64>,
}

impl Uncounted {
    /// Adds everything to [`COUNTERS`].
    pub(crate) fn publish(&self) {
        COUNTERS.requests.fetch_add(self.requests.take(), Relaxed);
        COUNTERS.reading.fetch_add(self.reading.take(), Relaxed);
        COUNTERS.waiting.fetch_add(self.waiting.take(), Relaxed);
    }
}

/// Counts something while it lives.
pub struct Counted<'w>(&'w Cell<i64>);

impl<'w> Counted<'w> {
    pub(crate) fn new(count: &'w Cell<i64>) -> Self {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
