//! Which commits of a schema are on the disk, and who waits for that.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// Which commits of a schema are safe on the disk.
#[derive(Default)]
pub(crate) struct SyncState {
    pub(crate) committed: AtomicU64,
    /// The last commit that is no [early](Self::commit_early) one.
    awaited: AtomicU64,
    synced: AtomicU64,
    pub(crate) requested: AtomicBool,
    failed: AtomicBool,
    pub(crate) watched: AtomicBool,
    waiters: Mutex<Vec<(u64, Waker)>>,
}

impl SyncState {
    /// A ticket for a commit that has just been written.
    pub(crate) fn commit(&self) -> u64 {
        let ticket = self.commit_early();
        self.awaited.fetch_max(ticket, Ordering::SeqCst);
        ticket
    }

    /// As [`commit`](Self::commit), for a commit which nobody waits for.
    pub(crate) fn commit_early(&self) -> u64 {
        // Whoever gives up to watch looks at this after that, and whoever commits looks whether it is watched after this.
        self.committed.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The last commit that somebody waits for: its sync was asked for, or is about to be.
    pub(crate) fn awaited(&self) -> u64 {
        self.awaited.load(Ordering::SeqCst)
    }

    /// How many commits the disk may not have.
    pub(crate) fn unsynced(&self) -> u64 {
        self.commits().saturating_sub(self.synced.load(Ordering::Acquire))
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Whether a sync has failed: what was committed since may be lost in a crash.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether the commit with `ticket` is on the disk (false if it never will be); wakes `cx` when that is known.
    pub(crate) fn poll(&self, ticket: u64, cx: Option<&Context<'_>>) -> Poll<bool> {
        if self.synced.load(Ordering::Acquire) >= ticket {
            return Poll::Ready(true);
        }
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if self.synced.load(Ordering::Acquire) >= ticket {
            return Poll::Ready(true);
        }
        if self.has_failed() {
            return Poll::Ready(false);
        }
        if let Some(cx) = cx {
            waiters.push((ticket, cx.waker().clone()));
        }
        Poll::Pending
    }

    /// Has the schema not watched any more, if it has not more than these commits; answers whether that is so. The next commit
    /// has it watched again.
    pub(crate) fn gives_up(&self, commits: u64) -> bool {
        if self.commits() != commits {
            return false;
        }
        self.watched.store(false, Ordering::SeqCst);
        // A commit since has found it watched, and so it has to stay; or it has not, and has asked for another one to watch.
        self.commits() == commits || self.watched.swap(true, Ordering::SeqCst)
    }

    /// No commit becomes durable any more.
    pub(crate) fn fail(&self) {
        self.finish(None);
    }

    /// All commits up to a ticket are on the disk; `None` if that has failed.
    pub(crate) fn finish(&self, ticket: Option<u64>) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        match ticket {
            Some(ticket) => self.synced.fetch_max(ticket, Ordering::AcqRel),
            None => {
                self.failed.store(true, Ordering::Release);
                0
            }
        };
        let done = ticket.unwrap_or(u64::MAX);
        waiters.retain(|(waiting, waker)| {
            if *waiting <= done {
                waker.wake_by_ref();
            }
            *waiting > done
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_an_early_commit() {
        let sync = SyncState::default();
        assert_eq!((sync.awaited(), sync.unsynced()), (0, 0));
        assert_eq!((sync.commit_early(), sync.commit(), sync.commit_early()), (1, 2, 3));
        assert_eq!((sync.awaited(), sync.commits(), sync.unsynced()), (2, 3, 3));
        assert_eq!((sync.poll(0, None), sync.poll(sync.awaited(), None)), (Poll::Ready(true), Poll::Pending));
        sync.finish(Some(2));
        assert_eq!((sync.poll(sync.awaited(), None), sync.unsynced()), (Poll::Ready(true), 1));
    }

    #[test]
    fn who_commits_while_a_watch_is_given_up_is_watched() {
        let sync = SyncState::default();
        let wants_watch = || !sync.watched.load(Ordering::SeqCst) && !sync.watched.swap(true, Ordering::SeqCst);
        for _ in 0..2 {
            let seen = sync.commit();
            assert!(wants_watch(), "the first commit, and the first one after the watch has ended");
            assert!(!wants_watch());
            assert!(!sync.gives_up(seen - 1), "a commit that was not moved");
            assert!(!wants_watch());
            assert!(sync.gives_up(seen));
        }
        let (mut watches, mut seen) = (0u32, 0);
        std::thread::scope(|scope| {
            let commits = scope.spawn(|| (0..20_000).filter(|_| sync.commit() > 0 && wants_watch()).count() as u32);
            while !commits.is_finished() {
                seen = sync.commits();
                watches += u32::from(sync.watched.load(Ordering::SeqCst) && sync.gives_up(seen));
            }
            let asked = commits.join().unwrap();
            assert!(asked == watches || asked == watches + 1, "{asked} watches were wanted, {watches} have ended");
            assert_eq!(sync.watched.load(Ordering::SeqCst), asked > watches, "the last commit is watched, or was seen");
        });
    }
}
