//! Locks on rows and unique keys, held by transactions until they end.
//!
//! Those who wait stand in a queue, first come first served. Waiting in a circle is found when the last one joins it; the
//! youngest of the circle has to give up. The locks are about what transactions want, not about memory: they are taken
//! and given back under one mutex, and no two threads ever meet at a row.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
    time::SystemTime,
};

mod circles;
mod filter;
mod seen;
mod tables;
mod writing;

pub(crate) use crate::waits::Deadlock;
pub(crate) use filter::RowFilter;
pub(crate) use seen::Seen;

/// What can be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    Row {
        table: i64,
        rowid: i64,
    },
    /// A key of a unique index, by a hash of what it compares by: two keys with one hash wait for each other needlessly.
    Key {
        table: i64,
        index: i64,
        hash: u64,
    },
}

impl Resource {
    /// The table that it belongs to.
    pub(crate) fn table(self) -> i64 {
        match self {
            Resource::Row { table, .. } | Resource::Key { table, .. } => table,
        }
    }
}

/// How it is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

impl Mode {
    fn goes_with(self, other: Self) -> bool {
        self == Mode::Shared && other == Mode::Shared
    }
}

/// Why a wait for a lock has ended without it: a circle of waiting transactions was broken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The transaction has to end.
    Deadlock,
    /// It has to give the schema's write lock back, for which others of the circle wait, and may wait again then.
    StepBack,
}

/// The locks of a schema.
#[derive(Default)]
pub(crate) struct RowLocks {
    /// Locks that are held.
    held: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    locks: HashMap<Resource, Lock>,
    owners: HashMap<u64, OwnerState>,
    held: usize,
    /// Locks that are held in each table.
    tables: HashMap<i64, usize>,
    /// Statements that want each table without locks.
    wanted: HashMap<i64, usize>,
    /// Those who wait until a table has no locks, or until nobody wants it so.
    table_waiters: Vec<Waker>,
    /// The transaction that keeps the schema's write lock.
    writer: Option<u64>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(u64, Mode)>,
    queue: VecDeque<(u64, Mode)>,
}

#[derive(Default)]
struct OwnerState {
    connection: u64,
    held: Vec<Resource>,
    waits: Option<Wait>,
    waits_since: Option<SystemTime>,
    waker: Option<Waker>,
    broken: Option<Broken>,
    /// It waits to commit.
    commits: bool,
    /// It could give the schema's write lock back if it has to.
    may_step_back: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Lock(Resource, Mode),
    /// For the schema's write lock.
    Writer,
}

/// One who takes locks; gives them back when dropped. The larger the number the younger.
pub(crate) struct Owner {
    locks: Arc<RowLocks>,
    id: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A number that no owner and no transaction has had.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl RowLocks {
    /// Whether nobody holds a lock. Who holds the schema's write lock can rely on it (`store::private`, invariant 2).
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// As [`is_idle`](Self::is_idle), apart from the locks that `owner` holds itself.
    #[inline]
    pub(crate) fn is_idle_for(&self, owner: Option<u64>) -> bool {
        self.is_idle() || owner.is_some_and(|owner| self.has_all(owner))
    }

    fn has_all(&self, owner: u64) -> bool {
        let state = self.lock();
        state.owners.get(&owner).map_or(0, |owner| owner.held.len()) == state.held
    }

    /// A new owner without locks, for a connection.
    pub(crate) fn owner(self: &Arc<Self>, connection: u64) -> Owner {
        let id = next_id();
        self.change(|state| state.owners.insert(id, OwnerState { connection, ..OwnerState::default() }));
        Owner { locks: Arc::clone(self), id }
    }

    /// Whether `owner`, or a stranger, would get a lock at once.
    pub(crate) fn admits(&self, owner: Option<u64>, resource: Resource, mode: Mode) -> bool {
        self.lock().locks.get(&resource).is_none_or(|lock| lock.admits(owner.unwrap_or(0), mode))
    }

    /// Gives back all that an owner holds, whose transaction has ended without it.
    pub(crate) fn release_all(&self, owner: u64) {
        self.change(|state| state.release_all(owner));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and publishes how many locks there are when all is done.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        self.held.store(state.held, Ordering::Release);
        result
    }
}

impl Lock {
    /// Whether the holders and those who wait leave room for one more.
    fn admits(&self, owner: u64, mode: Mode) -> bool {
        let mine = self.holders.iter().find(|(id, _)| *id == owner);
        if mine.is_some_and(|(_, held)| *held >= mode) {
            return true;
        }
        let others = self.holders.iter().filter(|(id, _)| *id != owner);
        // Who holds it already does not queue behind those who wait for it to go.
        let ahead = self.queue.iter().filter(|(id, _)| mine.is_none() && *id != owner);
        others.chain(ahead).all(|(_, held)| held.goes_with(mode))
    }
}

impl Owner {
    /// The owner's number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The locks that it takes part in.
    pub(crate) fn locks(&self) -> &Arc<RowLocks> {
        &self.locks
    }

    /// Whether it holds any lock.
    pub(crate) fn has_locks(&self) -> bool {
        self.locks.lock().owners.get(&self.id).is_some_and(|owner| !owner.held.is_empty())
    }

    /// Takes a lock; answers how many the owner has then, or `None` if it is not free.
    pub(crate) fn take(&self, resource: Resource, mode: Mode) -> Option<usize> {
        self.locks.change(|state| {
            let admitted = state.locks.entry(resource).or_default().admits(self.id, mode);
            if admitted {
                state.grant(self.id, resource, mode);
            }
            admitted.then(|| state.owners.get(&self.id).map_or(0, |owner| owner.held.len()))
        })
    }

    /// Waits for a lock and takes it. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Broken::Deadlock`] if others wait for this owner in turn and it is the youngest of them; [`Broken::StepBack`] if they
    /// wait for nothing but the write lock, which it [may give back](Self::may_step_back).
    pub(crate) async fn wait(&self, resource: Resource, mode: Mode) -> Result<(), Broken> {
        let waits = self.locks.change(|state| {
            let lock = state.locks.entry(resource).or_default();
            if lock.admits(self.id, mode) {
                state.grant(self.id, resource, mode);
                return false;
            }
            // An upgrade goes first: nobody else gets the lock before its holders have gone.
            if lock.holders.iter().any(|(id, _)| *id == self.id) {
                lock.queue.push_front((self.id, mode));
            } else {
                lock.queue.push_back((self.id, mode));
            }
            state.waits(self.id, Some(Wait::Lock(resource, mode)));
            state.break_circles(self.id);
            true
        });
        if !waits {
            return Ok(());
        }
        let _place = Waiting(self);
        poll_fn(|cx| self.poll_outcome(cx)).await
    }

    fn poll_outcome(&self, cx: &std::task::Context<'_>) -> Poll<Result<(), Broken>> {
        let mut state = self.locks.lock();
        let Some(owner) = state.owners.get_mut(&self.id) else { return Poll::Ready(Err(Broken::Deadlock)) };
        if let Some(broken) = owner.broken {
            return Poll::Ready(Err(broken));
        }
        if owner.waits.is_none() {
            return Poll::Ready(Ok(()));
        }
        owner.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.locks.change(|state| {
            state.release_all(self.id);
            state.owners.remove(&self.id);
        });
    }
}

/// An owner that waits, until its wait ends one way or another.
struct Waiting<'a>(&'a Owner);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.locks.change(|state| {
            state.stop_waiting(self.0.id);
            if let Some(owner) = state.owners.get_mut(&self.0.id) {
                owner.broken = None;
            }
        });
    }
}

impl State {
    fn grant(&mut self, id: u64, resource: Resource, mode: Mode) {
        let lock = self.locks.entry(resource).or_default();
        if let Some((_, held)) = lock.holders.iter_mut().find(|(holder, _)| *holder == id) {
            *held = mode.max(*held);
            return;
        }
        lock.holders.push((id, mode));
        self.held += 1;
        *self.tables.entry(resource.table()).or_default() += 1;
        if let Some(owner) = self.owners.get_mut(&id) {
            owner.held.push(resource);
        }
    }

    fn release_all(&mut self, id: u64) {
        if self.writer == Some(id) {
            self.writer = None;
        }
        let held = self.owners.get_mut(&id).map(|owner| std::mem::take(&mut owner.held));
        for resource in held.into_iter().flatten() {
            self.release(id, resource);
        }
    }

    fn release(&mut self, id: u64, resource: Resource) {
        let Some(lock) = self.locks.get_mut(&resource) else { return };
        lock.holders.retain(|(holder, _)| *holder != id);
        self.held -= 1;
        self.hand_over(resource);
        let Some(count) = self.tables.get_mut(&resource.table()) else { return };
        *count -= 1;
        if *count == 0 {
            self.tables.remove(&resource.table());
            self.table_waiters.drain(..).for_each(Waker::wake);
        }
    }

    /// Gives a lock to those at the front of its queue who can have it now.
    fn hand_over(&mut self, resource: Resource) {
        while let Some(lock) = self.locks.get_mut(&resource) {
            let Some(&(id, mode)) = lock.queue.front() else {
                if lock.holders.is_empty() {
                    self.locks.remove(&resource);
                }
                return;
            };
            let others = lock.holders.iter().filter(|(holder, _)| *holder != id);
            if !others.clone().all(|(_, held)| held.goes_with(mode)) {
                return;
            }
            lock.queue.pop_front();
            self.grant(id, resource, mode);
            self.waits(id, None);
        }
    }

    /// Notes what an owner waits for; wakes it if that is nothing any more.
    fn waits(&mut self, id: u64, wait: Option<Wait>) {
        let Some(owner) = self.owners.get_mut(&id) else { return };
        owner.waits = wait;
        owner.waits_since = wait.map(|_| SystemTime::now());
        if wait.is_none()
            && let Some(waker) = owner.waker.take()
        {
            waker.wake();
        }
    }

    /// Takes an owner out of the queue that it stands in.
    fn stop_waiting(&mut self, id: u64) {
        let Some(owner) = self.owners.get_mut(&id) else { return };
        owner.waker = None;
        if let Some(Wait::Lock(resource, _)) = owner.waits.take()
            && let Some(lock) = self.locks.get_mut(&resource)
        {
            lock.queue.retain(|(waiter, _)| *waiter != id);
            self.hand_over(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::Future, pin::Pin, task::Context};

    const fn row(rowid: i64) -> Resource {
        Resource::Row { table: 1, rowid }
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn those_who_wait_get_it_in_order_and_may_leave() {
        let locks = Arc::new(RowLocks::default());
        let [a, b, c, d] = std::array::from_fn(|_| locks.owner(0));
        assert!(locks.is_idle());
        assert_eq!([Mode::Exclusive, Mode::Shared].map(|mode| a.take(row(1), mode)), [Some(1), Some(1)]);
        assert!(locks.is_idle_for(Some(a.id())) && !locks.is_idle_for(Some(b.id())));
        assert!(
            !locks.is_idle() && b.take(row(1), Mode::Exclusive).is_none() && b.take(row(1), Mode::Shared).is_none()
        );
        assert!(b.take(row(2), Mode::Exclusive).is_some());
        let mut first = Box::pin(b.wait(row(1), Mode::Exclusive));
        let mut second = Box::pin(c.wait(row(1), Mode::Exclusive));
        let mut third = Box::pin(d.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(second);
        drop(a);
        assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
        assert!(poll(&mut third).is_pending());
        assert!(!locks.admits(None, row(1), Mode::Shared) && locks.admits(Some(b.id()), row(1), Mode::Exclusive));
        drop(first);
        drop(b);
        assert_eq!(poll(&mut third), Poll::Ready(Ok(())));
        drop(third);
        drop((c, d));
        assert!(locks.is_idle() && locks.lock().locks.is_empty() && locks.lock().tables.is_empty());
    }

    #[test]
    fn readers_share_and_upgrade() {
        let locks = Arc::new(RowLocks::default());
        let [a, b, c] = std::array::from_fn(|_| locks.owner(0));
        assert!(a.take(row(1), Mode::Shared).is_some() && b.take(row(1), Mode::Shared).is_some());
        let mut writer = Box::pin(c.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut writer).is_pending());
        // Those who hold it go before those who wait; others queue.
        let mut upgrade = Box::pin(a.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut upgrade).is_pending());
        assert!(!locks.admits(None, row(1), Mode::Shared));
        drop(b);
        assert_eq!(poll(&mut upgrade), Poll::Ready(Ok(())));
        assert!(poll(&mut writer).is_pending());
        drop(upgrade);
        drop(a);
        assert_eq!(poll(&mut writer), Poll::Ready(Ok(())));
    }

    #[test]
    fn the_youngest_of_a_circle_gives_up() {
        let locks = Arc::new(RowLocks::default());
        let owners: [Owner; 3] = std::array::from_fn(|_| locks.owner(0));
        for (number, owner) in owners.iter().enumerate() {
            assert!(owner.take(row(number as i64), Mode::Exclusive).is_some());
        }
        let [a, b, c] = &owners;
        let woken = Arc::new(Woken::default());
        let mut young = Box::pin(c.wait(row(0), Mode::Exclusive));
        let waker = Waker::from(Arc::clone(&woken));
        assert!(young.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut middle = Box::pin(b.wait(row(2), Mode::Exclusive));
        assert!(poll(&mut middle).is_pending());
        let mut old = Box::pin(a.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut old).is_pending(), "the oldest closes the circle and goes on waiting");
        assert!(woken.0.load(Ordering::Relaxed));
        assert_eq!(poll(&mut young), Poll::Ready(Err(Broken::Deadlock)));
        drop((young, middle, old));
        // The youngest itself closes a circle; two holders that both want more are one, too.
        assert!([a, b].into_iter().all(|owner| owner.take(row(9), Mode::Shared).is_some()));
        let mut first = Box::pin(a.wait(row(9), Mode::Exclusive));
        assert!(poll(&mut first).is_pending());
        let mut second = Box::pin(b.wait(row(9), Mode::Exclusive));
        assert_eq!(poll(&mut second), Poll::Ready(Err(Broken::Deadlock)));
        assert!(poll(&mut first).is_pending());
    }

    #[test]
    fn those_between_two_in_a_queue_are_left_alone() {
        let locks = Arc::new(RowLocks::default());
        let [a, b, bystander] = std::array::from_fn(|_| locks.owner(0));
        assert!(a.take(row(1), Mode::Exclusive).is_some() && b.take(row(2), Mode::Exclusive).is_some());
        let mut between = Box::pin(bystander.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut between).is_pending());
        let mut first = Box::pin(a.wait(row(2), Mode::Exclusive));
        assert!(poll(&mut first).is_pending());
        let mut second = Box::pin(b.wait(row(1), Mode::Exclusive));
        assert_eq!(poll(&mut second), Poll::Ready(Err(Broken::Deadlock)));
        assert!(poll(&mut between).is_pending());
    }

    #[test]
    fn a_circle_goes_through_a_queue_however_long() {
        let locks = Arc::new(RowLocks::default());
        let [holder, wants] = std::array::from_fn(|_| locks.owner(0));
        let crowd: Vec<Owner> = (0..300).map(|_| locks.owner(0)).collect();
        let last = locks.owner(0);
        assert!(holder.take(row(1), Mode::Shared).is_some() && last.take(row(2), Mode::Exclusive).is_some());
        let mut writer = Box::pin(wants.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut writer).is_pending());
        let modes = [Mode::Shared, Mode::Exclusive, Mode::Shared];
        let wait = |(number, owner)| Box::pin(Owner::wait(owner, row(1), modes[number % 3]));
        let mut waiting: Vec<_> = crowd.iter().enumerate().map(wait).collect();
        assert!(waiting.iter_mut().all(|wait| poll(wait).is_pending()));
        let mut reader = Box::pin(last.wait(row(1), Mode::Shared));
        assert!(poll(&mut reader).is_pending(), "behind those who write");
        let mut closes = Box::pin(holder.wait(row(2), Mode::Exclusive));
        assert!(poll(&mut closes).is_pending());
        assert_eq!(poll(&mut reader), Poll::Ready(Err(Broken::Deadlock)));
        assert!(waiting.iter_mut().all(|wait| poll(wait).is_pending()) && poll(&mut writer).is_pending());
    }

    #[test]
    fn the_one_who_keeps_writing_is_waited_for_too() {
        let locks = Arc::new(RowLocks::default());
        let [a, b] = std::array::from_fn(|_| locks.owner(0));
        assert!(b.take(row(1), Mode::Exclusive).is_some());
        a.keeps_writing();
        let mut write = Box::pin(b.while_waiting_to_write(std::future::pending::<()>()));
        assert!(poll(&mut write).is_pending());
        let mut wait = Box::pin(a.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut wait).is_pending());
        assert_eq!(poll(&mut write), Poll::Ready(Err(Deadlock)));
        drop(write);
        // Who commits is never the one, however young.
        b.while_committing(|| {
            let mut commit = Box::pin(b.while_waiting_to_write(std::future::pending::<()>()));
            assert!(poll(&mut commit).is_pending());
            assert_eq!(poll(&mut wait), Poll::Ready(Err(Broken::Deadlock)));
            assert!(poll(&mut commit).is_pending());
        });
    }

    #[test]
    fn the_writer_of_a_circle_steps_back_if_it_may() {
        let locks = Arc::new(RowLocks::default());
        let [a, b] = std::array::from_fn(|_| locks.owner(0));
        assert!(a.take(row(1), Mode::Exclusive).is_some());
        b.keeps_writing();
        b.may_step_back(true);
        let mut wait = Box::pin(b.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut wait).is_pending());
        let mut write = Box::pin(a.while_waiting_to_write(std::future::pending::<()>()));
        assert!(poll(&mut write).is_pending());
        assert_eq!(poll(&mut wait), Poll::Ready(Err(Broken::StepBack)));
        drop(wait);
        // It has not: now somebody has to end, and it is the younger one.
        let mut again = Box::pin(b.wait(row(1), Mode::Exclusive));
        assert_eq!(poll(&mut again), Poll::Ready(Err(Broken::Deadlock)));
        drop(again);
        // It has: it waits like any other.
        b.keeps_writing_no_more();
        let mut again = Box::pin(b.wait(row(1), Mode::Exclusive));
        assert!(poll(&mut again).is_pending() && poll(&mut write).is_pending());
        drop(write);
        drop(a);
        assert_eq!(poll(&mut again), Poll::Ready(Ok(())));
    }

    #[test]
    fn a_table_is_free_when_the_last_lock_has_gone() {
        let locks = Arc::new(RowLocks::default());
        let a = locks.owner(0);
        assert!(a.take(Resource::Key { table: 7, index: 1, hash: 2 }, Mode::Exclusive).is_some());
        let mut other = Box::pin(locks.tables_are_free(&[1, 2]));
        assert!(poll(&mut other).is_ready());
        let mut free = Box::pin(locks.tables_are_free(&[1, 7]));
        assert!(poll(&mut free).is_pending());
        drop(a);
        assert!(poll(&mut free).is_ready());
    }
}
