//! Who keeps the schema's write lock, and who waits for it: circles of waiting go through it too.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use super::{Deadlock, Owner, RowLocks, Wait, Waiting};

impl RowLocks {
    /// One to be shown as who waits for the schema's write lock, if a transaction keeps that.
    pub(crate) fn waits_for_writer(self: &Arc<Self>, connection: u64) -> Option<Owner> {
        let is_kept = self.lock().writer.is_some();
        is_kept.then(|| self.owner(connection))
    }
}

impl Owner {
    /// Runs `wait`, a wait for the schema's write lock.
    ///
    /// # Errors
    /// [`Deadlock`] if the transaction that keeps the write lock waits for this owner, which is the younger.
    pub(crate) async fn while_waiting_to_write<F: Future>(&self, wait: F) -> Result<F::Output, Deadlock> {
        self.locks.change(|state| {
            state.waits(self.id, Some(Wait::Writer));
            state.break_circles(self.id);
        });
        let _place = Waiting(self);
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            if let Poll::Ready(output) = wait.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            match self.poll_outcome(cx) {
                Poll::Ready(Err(_)) => Poll::Ready(Err(Deadlock)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Runs `commit`, which waits for nothing but the schema's write lock: in a circle somebody else gives up meanwhile, since
    /// clients repeat statements but not commits.
    pub(crate) fn while_committing<T>(&self, commit: impl FnOnce() -> T) -> T {
        self.set_commits(true);
        let done = commit();
        self.set_commits(false);
        done
    }

    fn set_commits(&self, commits: bool) {
        self.locks.change(|state| {
            if let Some(owner) = state.owners.get_mut(&self.id) {
                owner.commits = commits;
            }
        });
    }

    /// Notes that the owner does not keep the schema's write lock any more. To be called before that is free.
    pub(crate) fn keeps_writing_no_more(&self) {
        self.locks.change(|state| {
            if state.writer == Some(self.id) {
                state.writer = None;
            }
        });
    }

    /// Notes that the owner keeps the schema's write lock from now on, until it is dropped.
    pub(crate) fn keeps_writing(&self) {
        self.locks.change(|state| state.writer = Some(self.id));
    }

    /// Notes whether the owner, who keeps the schema's write lock, could give that back while it waits.
    pub(crate) fn may_step_back(&self, may: bool) {
        self.locks.change(|state| {
            if let Some(owner) = state.owners.get_mut(&self.id) {
                owner.may_step_back = may;
            }
        });
    }
}
