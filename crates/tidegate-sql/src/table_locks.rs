//! Which tables of a schema LOCK TABLES keeps from other sessions.
//!
//! A schema has one writer at a time, its write lock. A locked table does not hold that lock: the session that has locked the
//! table writes like any other, statement by statement, and others write to other tables in between. So an import that
//! locks its table stops nobody else. A session locks a table in two steps: it lists the lock, from when on no statement that
//! comes to wait for the write lock passes; then it takes the write lock once, so that whoever wrote already has ended.
//!
//! Invariant: a session writes to a table only while it has the write lock, and after it has found, with the write lock, that
//! no other session has the table locked ([`TableLocks::is_kept_from`]).

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

/// The locks of a schema's tables.
#[derive(Default)]
pub(crate) struct TableLocks {
    /// Locks in the list: almost always none, and then a write costs one load.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    locks: Vec<Lock>,
    waiting: Vec<Waker>,
}

/// A table that a session has locked, or is about to lock.
struct Lock {
    session: u64,
    /// `None` for all tables: those that a view shows are not looked up.
    table: Option<String>,
    is_exclusive: bool,
    /// Whoever wrote to the table before has ended.
    is_granted: bool,
}

impl Lock {
    fn covers(&self, table: &str) -> bool {
        self.table.as_deref().is_none_or(|locked| locked == table)
    }

    fn excludes(&self, wanted: &WantedLock) -> bool {
        let same = match &wanted.table {
            Some(table) => self.covers(table),
            None => true,
        };
        same && (self.is_exclusive || wanted.is_exclusive)
    }
}

/// A lock that a session asks for.
#[derive(Clone)]
pub(crate) struct WantedLock {
    /// `None` for all tables of the schema.
    pub(crate) table: Option<String>,
    pub(crate) is_exclusive: bool,
}

/// The locks of a session in one schema; they end when this is dropped.
pub(crate) struct LockedIn {
    locks: Arc<TableLocks>,
    session: u64,
}

impl TableLocks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any table is locked.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Whether another session has locked a table. Asked with the schema's write lock in hand.
    pub(crate) fn is_kept_from(&self, session: u64, table: &str) -> bool {
        self.any()
            && self.state().locks.iter().any(|lock| lock.is_granted && lock.session != session && lock.covers(table))
    }

    /// The other sessions that have locked one of the tables or are about to lock it.
    pub(crate) fn sessions_on(&self, session: u64, tables: &[String]) -> Vec<u64> {
        let state = self.state();
        let others = state.locks.iter().filter(|lock| lock.session != session);
        others.filter(|lock| tables.iter().any(|table| lock.covers(table))).map(|lock| lock.session).collect()
    }

    /// The sessions whose locks are in the way of others.
    pub(crate) fn sessions_against(&self, wanted: &[WantedLock]) -> Vec<u64> {
        let state = self.state();
        let taken = state.locks.iter().filter(|lock| wanted.iter().any(|wanted| lock.excludes(wanted)));
        taken.map(|lock| lock.session).collect()
    }

    /// Waits until no other session has one of the tables locked or is about to lock it.
    pub(crate) async fn wait(&self, session: u64, tables: &[&str]) {
        poll_fn(|cx| {
            let mut state = self.state();
            let others = state.locks.iter().filter(|lock| lock.session != session);
            if !others.into_iter().any(|lock| tables.iter().any(|table| lock.covers(table))) {
                return Poll::Ready(());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lists the locks of a session that has none in this schema, all at once, when no other session's are in the way. They
    /// hold from [`LockedIn::granted`] on.
    pub(crate) async fn list(self: &Arc<Self>, session: u64, wanted: Vec<WantedLock>) -> LockedIn {
        let mut wanted = Some(wanted);
        poll_fn(|cx| {
            let mut state = self.state();
            let is_taken = |wanted: &WantedLock| state.locks.iter().any(|lock| lock.excludes(wanted));
            if wanted.iter().flatten().any(is_taken) {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            for WantedLock { table, is_exclusive } in wanted.take().into_iter().flatten() {
                state.locks.push(Lock { session, table, is_exclusive, is_granted: false });
            }
            self.count.store(state.locks.len(), Ordering::Release);
            Poll::Ready(LockedIn { locks: Arc::clone(self), session })
        })
        .await
    }
}

impl LockedIn {
    /// Whoever wrote to the tables has ended: the session has had the write lock since it listed its locks.
    pub(crate) fn granted(&self) {
        for lock in self.locks.state().locks.iter_mut().filter(|lock| lock.session == self.session) {
            lock.is_granted = true;
        }
    }
}

impl Drop for LockedIn {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        state.locks.retain(|lock| lock.session != self.session);
        self.locks.count.store(state.locks.len(), Ordering::Release);
        for waker in state.waiting.drain(..) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, task::Context};

    fn lock(table: &str, is_exclusive: bool) -> Vec<WantedLock> {
        vec![WantedLock { table: (!table.is_empty()).then(|| table.to_owned()), is_exclusive }]
    }

    #[test]
    fn a_table_is_kept_from_others_once_its_lock_is_granted() {
        let locks = Arc::new(TableLocks::default());
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(locks.list(1, lock("a", true))).poll(&mut cx) else { panic!("it is free") };
        assert!(!locks.is_kept_from(2, "a"));
        assert!(pin!(locks.wait(2, &["b", "a"])).poll(&mut cx).is_pending());
        first.granted();
        assert!(locks.is_kept_from(2, "a") && !locks.is_kept_from(1, "a") && !locks.is_kept_from(2, "b"));
        assert!(pin!(locks.list(2, lock("a", false))).poll(&mut cx).is_pending());
        assert!(pin!(locks.list(2, lock("", false))).poll(&mut cx).is_pending());
        drop(first);
        assert!(!locks.any());
        let Poll::Ready(all) = pin!(locks.list(2, lock("", false))).poll(&mut cx) else { panic!("it is free") };
        all.granted();
        assert!(locks.is_kept_from(1, "b"));
        assert!(pin!(locks.list(1, lock("b", false))).poll(&mut cx).is_ready());
    }
}
