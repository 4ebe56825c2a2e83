//! The jobs that a connection has, by their numbers and by when their time is over: what a client with tens of thousands of jobs asks for
//! costs as little as what others do.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tidegate_queue::Lease;

use super::tubes::Tube;

/// A job that a connection has.
pub(super) struct Held {
    pub(super) lease: Lease,
    pub(super) tube: Arc<Tube>,
    pub(super) ttr_ms: u64,
    /// When its time is over, in milliseconds of [`clock::steady_ms`](tidegate_net::clock::steady_ms).
    pub(super) deadline_ms: u64,
}

/// The jobs of a connection. Dropping them gives them back.
#[derive(Default)]
pub(super) struct HeldJobs {
    by_id: HashMap<u64, Held>,
    /// Of each job of `by_id`, and of no other: when its time is over, and its number.
    deadlines: BTreeSet<(u64, u64)>,
}

impl HeldJobs {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn get(&self, id: u64) -> Option<&Held> {
        self.by_id.get(&id)
    }

    /// The client has a job from now on; answers what it has had under the same number.
    pub(super) fn insert(&mut self, held: Held) -> Option<Held> {
        let id = held.lease.message();
        let earlier = self.remove(id);
        self.deadlines.insert((held.deadline_ms, id));
        self.by_id.insert(id, held);
        earlier
    }

    /// The client has a job no more.
    pub(super) fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.by_id.remove(&id)?;
        self.deadlines.remove(&(held.deadline_ms, id));
        Some(held)
    }

    /// The time of a job begins anew; answers the job.
    pub(super) fn renew(&mut self, id: u64, now_ms: u64) -> Option<&Held> {
        let held = self.by_id.get_mut(&id)?;
        self.deadlines.remove(&(held.deadline_ms, id));
        held.deadline_ms = now_ms.saturating_add(held.ttr_ms);
        self.deadlines.insert((held.deadline_ms, id));
        Some(held)
    }

    /// Takes a job out whose time is over.
    pub(super) fn take_late(&mut self, now_ms: u64) -> Option<Held> {
        let &(_, id) = self.deadlines.first().filter(|(deadline_ms, _)| *deadline_ms <= now_ms)?;
        self.remove(id)
    }

    /// When the first job's time is over.
    pub(super) fn first_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// When the last job's time is over.
    pub(super) fn last_deadline_ms(&self) -> Option<u64> {
        self.deadlines.last().map(|(deadline_ms, _)| *deadline_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidegate_queue::{Broker, Place};

    use super::*;
    use crate::queue::beanstalk::tubes::Common;

    #[test]
    fn jobs_are_known_by_numbers_and_by_when_their_time_is_over() {
        let broker = Broker::new(1, || 0);
        let tube = Common::of(PathBuf::from("held")).tube("work");
        let held = |id, ttr_ms| {
            let lease = broker.claim("work", Place { priority: 0, id }, 1000).expect("nobody has it");
            Held { lease, tube: tube.clone(), ttr_ms, deadline_ms: ttr_ms }
        };
        let mut jobs = HeldJobs::default();
        assert_eq!((jobs.first_deadline_ms(), jobs.last_deadline_ms(), jobs.is_empty()), (None, None, true));
        for (id, ttr_ms) in [(7, 30), (8, 10), (9, 20), (10, 10)] {
            assert!(jobs.insert(held(id, ttr_ms)).is_none());
        }
        assert_eq!((jobs.first_deadline_ms(), jobs.last_deadline_ms(), jobs.len()), (Some(10), Some(30), 4));
        assert!(jobs.take_late(9).is_none());
        // One whose time begins anew leaves its old place.
        assert_eq!(jobs.renew(8, 100).map(|held| held.deadline_ms), Some(110));
        assert!(jobs.renew(11, 100).is_none());
        assert_eq!((jobs.first_deadline_ms(), jobs.last_deadline_ms()), (Some(10), Some(110)));
        let late: Vec<u64> = std::iter::from_fn(|| jobs.take_late(20)).map(|held| held.lease.message()).collect();
        assert_eq!(late, [10, 9]);
        // So does one that comes again under its number.
        let earlier = jobs.remove(7).expect("it is there");
        earlier.lease.gone();
        assert!(jobs.get(7).is_none() && jobs.insert(held(7, 5)).is_none());
        assert_eq!((jobs.first_deadline_ms(), jobs.len()), (Some(5), 2));
        drop(jobs);
        assert!(!broker.is_leased(7) && !broker.is_leased(8), "they were given back");
    }
}
