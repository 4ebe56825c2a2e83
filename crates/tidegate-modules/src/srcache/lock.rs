//! `srcache_lock`: one request has a response made that several want.
//!
//! The request that comes first holds the lock of the key until the response is kept, or known not to be, or the request ends
//! in any other way. The others, of all workers, wait for that. Once the response is kept they look for it again. When it is one
//! that is not to be kept, each has its own made, for the next response would probably not be kept either. When nothing came of
//! it (an error, a client that has left), one of the others takes the lock.
//!
//! A look-up that was in vain may have been overtaken: the response may have been kept before the lock was taken. [`fills`]
//! changes with each response that is kept; who gets a lock after it has changed looks again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{sync::watch, time::Instant};

/// How the making of a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    UnderWay,
    /// The response is there for the others.
    Kept,
    /// It is none that is kept.
    Refused,
    /// There is none.
    Abandoned,
}

/// Locks that are held, by key.
type Locks = HashMap<Arc<[u8]>, watch::Receiver<Outcome>>;

static LOCKS: Mutex<Option<Locks>> = Mutex::new(None);
static FILLS: AtomicU64 = AtomicU64::new(0);

fn locks() -> MutexGuard<'static, Option<Locks>> {
    // What is done under the lock leaves the map whole.
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that changes with each response that was kept under a lock.
pub(super) fn fills() -> u64 {
    FILLS.load(Ordering::Acquire)
}

/// A lock that is held; dropping it lets another request have the response made.
pub(super) struct Filling {
    key: Arc<[u8]>,
    outcome: watch::Sender<Outcome>,
}

/// What became of the wish for a lock.
pub(super) enum Lock {
    Held(Filling),
    /// Another request holds it.
    Busy(Waiting),
}

/// A lock that another request holds.
pub(super) struct Waiting(watch::Receiver<Outcome>);

/// Takes the lock of a key, if nobody holds it.
pub(super) fn take(key: &[u8]) -> Lock {
    let mut locks = locks();
    let locks = locks.get_or_insert_default();
    if let Some(outcome) = locks.get(key) {
        return Lock::Busy(Waiting(outcome.clone()));
    }
    let key: Arc<[u8]> = key.into();
    let (outcome, receiver) = watch::channel(Outcome::UnderWay);
    locks.insert(key.clone(), receiver);
    Lock::Held(Filling { key, outcome })
}

impl Filling {
    /// Ends it: the response is kept.
    pub(super) fn end_kept(self) {
        FILLS.fetch_add(1, Ordering::Release);
        self.outcome.send_replace(Outcome::Kept);
    }

    /// Ends it: the response is not to be kept.
    pub(super) fn end_refused(self) {
        self.outcome.send_replace(Outcome::Refused);
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(locks) = &mut *locks() {
            locks.remove(&self.key);
        }
        self.outcome.send_if_modified(|outcome| {
            let ends = *outcome == Outcome::UnderWay;
            if ends {
                *outcome = Outcome::Abandoned;
            }
            ends
        });
    }
}

impl Waiting {
    /// Waits for the one that holds the lock, no longer than until `deadline`: then it is under way still.
    pub(super) async fn wait(mut self, deadline: Instant) -> Outcome {
        let ended = self.0.wait_for(|outcome| *outcome != Outcome::UnderWay);
        match tokio::time::timeout_at(deadline, ended).await {
            Ok(Ok(outcome)) => *outcome,
            Ok(Err(_)) => Outcome::Abandoned,
            Err(_) => Outcome::UnderWay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late() -> Instant {
        Instant::now() + std::time::Duration::from_secs(60)
    }

    fn held(key: &str) -> Filling {
        match take(key.as_bytes()) {
            Lock::Held(filling) => filling,
            Lock::Busy(_) => panic!("nobody has it"),
        }
    }

    fn busy(key: &str) -> Waiting {
        match take(key.as_bytes()) {
            Lock::Held(_) => panic!("it is held"),
            Lock::Busy(waiting) => waiting,
        }
    }

    #[tokio::test]
    async fn others_wait_for_the_one_that_has_it() {
        let filling = held("a");
        let (first, second) = (busy("a"), busy("a"));
        drop(held("b"));
        let before = fills();
        filling.end_kept();
        assert!(fills() > before);
        assert_eq!((first.wait(late()).await, second.wait(late()).await), (Outcome::Kept, Outcome::Kept));
        drop(held("a"));
    }

    #[tokio::test]
    async fn whoever_gives_up_says_so() {
        let filling = held("c");
        let waiting = busy("c");
        drop(filling);
        assert_eq!(waiting.wait(late()).await, Outcome::Abandoned);
        let filling = held("c");
        assert_eq!(busy("c").wait(Instant::now()).await, Outcome::UnderWay, "time is up");
        let waiting = busy("c");
        filling.end_refused();
        assert_eq!(waiting.wait(late()).await, Outcome::Refused);
        drop(held("c"));
    }
}
