//! What belongs to a connection: the tubes that it uses and watches, and the jobs that it has.

use std::sync::{Arc, atomic::Ordering};

use tidegate_net::clock;

use super::{
    held::HeldJobs,
    tubes::{Common, DEFAULT, Used, Watched},
};

/// Tubes that a connection may watch at once.
pub(super) const WATCHED_MAX: usize = 1024;
/// So long before the time of a job is over its client does not wait for others.
///
/// Source: beanstalkd, `doc/protocol.txt`, `DEADLINE_SOON`.
const SAFETY_MARGIN_MS: u64 = 1000;

/// A client, counted while it is connected.
pub(super) struct Client {
    pub(super) common: Arc<Common>,
    pub(super) used: Used,
    pub(super) watched: Vec<Watched>,
    pub(super) held: HeldJobs,
    is_producer: bool,
    is_worker: bool,
}

impl Client {
    pub(super) fn new(common: &Arc<Common>) -> Self {
        common.counters.connections.fetch_add(1, Ordering::Relaxed);
        common.counters.connections_total.fetch_add(1, Ordering::Relaxed);
        let tube = common.tube(DEFAULT);
        Client {
            common: common.clone(),
            used: Used::new(tube.clone()),
            watched: vec![Watched::new(tube)],
            held: HeldJobs::default(),
            is_producer: false,
            is_worker: false,
        }
    }

    /// It has put a job.
    pub(super) fn produces(&mut self) {
        if !std::mem::replace(&mut self.is_producer, true) {
            self.common.counters.producers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has asked for a job.
    pub(super) fn works(&mut self) {
        if !std::mem::replace(&mut self.is_worker, true) {
            self.common.counters.workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Watches a tube.
    ///
    /// # Errors
    /// It watches too many.
    pub(super) fn watch(&mut self, name: &str) -> Result<(), ()> {
        if self.watched.iter().any(|watched| *watched.0.name == *name) {
            return Ok(());
        }
        if self.watched.len() >= WATCHED_MAX {
            return Err(());
        }
        self.watched.push(Watched::new(self.common.tube(name)));
        Ok(())
    }

    /// Watches a tube no more.
    ///
    /// # Errors
    /// It is the only one.
    pub(super) fn ignore(&mut self, name: &str) -> Result<(), ()> {
        let at = self.watched.iter().position(|watched| *watched.0.name == *name);
        match at {
            Some(_) if self.watched.len() == 1 => return Err(()),
            Some(at) => drop(self.watched.remove(at)),
            None => {}
        }
        Ok(())
    }

    /// Forgets jobs whose time is over. They are not given back: whoever looks after time has them fail.
    pub(super) fn forget_late(&mut self) {
        let now_ms = clock::steady_ms();
        while let Some(held) = self.held.take_late(now_ms) {
            held.lease.keep();
        }
    }

    /// How long the client may wait for other jobs; zero if it may not. `None` for ever.
    pub(super) fn may_wait_ms(&mut self) -> Option<u64> {
        self.forget_late();
        let now_ms = clock::steady_ms();
        let soonest = self.held.first_deadline_ms();
        soonest.map(|deadline_ms| deadline_ms.saturating_sub(now_ms + SAFETY_MARGIN_MS))
    }

    /// How long the client has jobs.
    pub(super) fn holds_ms(&self) -> u64 {
        let last = self.held.last_deadline_ms();
        last.map_or(0, |deadline_ms| deadline_ms.saturating_sub(clock::steady_ms()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let counters = &self.common.counters;
        counters.connections.fetch_sub(1, Ordering::Relaxed);
        if self.is_producer {
            counters.producers.fetch_sub(1, Ordering::Relaxed);
        }
        if self.is_worker {
            counters.workers.fetch_sub(1, Ordering::Relaxed);
        }
        // One that is late has failed, which is for others to say.
        self.forget_late();
    }
}
