//! Transactions of one thread that have committed and wait for the disk.
//!
//! One of them, the *listener*, waits for the sync thread and wakes the others whose commits the same sync has covered: a wake-up from
//! another thread is a system call. A commit asks for its sync when the event loop has turned once, so that whatever was ready
//! has committed too: the disk then takes all of it together, and does not begin anew for each.
//!
//! Invariants:
//! 1. Somebody listens while anybody waits, or has been woken and will listen.
//! 2. Each commit asks for a sync, also one whose session does not wait any more.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, btree_map::Entry},
    future::{Future, poll_fn},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::pool::Pool;
use crate::{background::Background, schema::Schema, task};

/// Those who wait.
#[derive(Default)]
pub(crate) struct Settling {
    has_listener: Cell<bool>,
    /// Tickets of the sync thread, and whom to wake.
    others: RefCell<BTreeMap<u64, Waker>>,
}

/// A commit that has not asked for its sync.
struct Asks<'a> {
    background: &'a Background,
    schema: &'a Arc<Schema>,
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.background.request_sync(self.schema);
    }
}

/// One who waits, until the wait has ended one way or another.
struct Waiting<'a> {
    pool: &'a Pool,
    listens: bool,
    /// Its ticket, if it is one of the [others](Settling::others).
    listed: Option<u64>,
}

/// Waits until the commit with `ticket` is on the disk; answers whether it is.
pub(crate) fn settle<'a>(
    background: &'a Background,
    pool: &'a Rc<Pool>,
    ticket: u64,
) -> impl Future<Output = bool> + use<'a> {
    // Not within the future: who is told to end does not poll it.
    let asks = Asks { background, schema: &pool.schema };
    async move {
        task::next_turn().await;
        drop(asks);
        let mut waiting = Waiting { pool, listens: false, listed: None };
        poll_fn(|cx| waiting.poll(ticket, cx)).await
    }
}

impl Waiting<'_> {
    fn poll(&mut self, ticket: u64, cx: &Context<'_>) -> Poll<bool> {
        let settling = &self.pool.settling;
        let listens = self.listens || !settling.has_listener.get();
        let outcome = self.pool.schema.sync.poll(ticket, listens.then_some(cx));
        if outcome.is_pending() {
            if listens {
                settling.has_listener.set(true);
                self.listens = true;
            } else {
                self.listed = Some(ticket);
                match settling.others.borrow_mut().entry(ticket) {
                    Entry::Occupied(mut waker) => waker.get_mut().clone_from(cx.waker()),
                    Entry::Vacant(place) => drop(place.insert(cx.waker().clone())),
                }
            }
        }
        outcome
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let settling = &self.pool.settling;
        if self.listens {
            settling.has_listener.set(false);
        }
        // Who has left would be woken to listen for nobody.
        if let Some(ticket) = self.listed {
            settling.others.borrow_mut().remove(&ticket);
        }
        // It may have been woken to listen, and not have come to it.
        if !settling.has_listener.get() {
            settling.wake(&self.pool.schema);
        }
    }
}

impl Settling {
    /// Wakes those whose outcome is known, and one more to listen.
    fn wake(&self, schema: &Schema) {
        // A sync covers all tickets up to its own: the first that waits on is the one to listen.
        while let Some((ticket, waker)) = { self.others.borrow_mut().pop_first() } {
            let is_known = schema.sync.poll(ticket, None).is_ready();
            waker.wake();
            if !is_known {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions, value::collation::Collation};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn another_listens_when_one_leaves() {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-settling-{}", std::process::id()));
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        engine.inner.directory.create_schema("d", Collation::DEFAULT, false).unwrap();
        let schema = engine.inner.schema("d").unwrap();
        // Whoever opens the schema makes its log, which is what is synced.
        schema.catalog().unwrap();
        let pool = Pool::of(&schema);
        let tickets: [u64; 3] = std::array::from_fn(|_| schema.sync.commit());
        let [mut first, mut second, mut third] =
            std::array::from_fn(|_| Waiting { pool: &pool, listens: false, listed: None });
        let woken: [Arc<Woken>; 2] = Default::default();
        let wakers = woken.clone().map(Waker::from);
        let is_woken = || [0, 1].map(|index: usize| woken[index].0.swap(false, Ordering::Relaxed));
        assert!(first.poll(tickets[0], &Context::from_waker(Waker::noop())).is_pending());
        assert!(second.poll(tickets[1], &Context::from_waker(&wakers[0])).is_pending());
        assert!(third.poll(tickets[2], &Context::from_waker(&wakers[1])).is_pending());
        assert!(first.listens && !second.listens && is_woken() == [false, false]);
        drop(first);
        assert_eq!(is_woken(), [true, false]);
        // It leaves too, before it has come to listen.
        drop(second);
        assert_eq!(is_woken(), [false, true]);
        assert!(third.poll(tickets[2], &Context::from_waker(&wakers[1])).is_pending() && third.listens);
        // One that has left without being woken is not told to listen.
        let [mut fourth, mut fifth] = std::array::from_fn(|_| Waiting { pool: &pool, listens: false, listed: None });
        let later: [u64; 2] = std::array::from_fn(|_| schema.sync.commit());
        assert!(fourth.poll(later[0], &Context::from_waker(Waker::noop())).is_pending());
        assert!(fifth.poll(later[1], &Context::from_waker(&wakers[0])).is_pending());
        drop(fourth);
        drop(third);
        assert_eq!(is_woken(), [true, false]);
        let mut third = Waiting { pool: &pool, listens: false, listed: None };
        engine.inner.background.request_sync(&schema);
        assert!(poll_fn(|cx| third.poll(tickets[2], cx)).await);
        drop((third, fifth));
        drop((pool, schema, engine));
        let _ = std::fs::remove_dir_all(&dir);
    }
}
