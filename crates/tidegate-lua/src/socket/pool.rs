//! Connections kept for later, by key (`host:port`, or the name that `pool` gives). Each worker has its own; each kind of
//! connection ([`Pooled`]: cosockets, sessions with a database) has pools of its own.
//!
//! A pool bounds its idle connections; where `backlog` is given it bounds all that are open, and who wants one more
//! waits in a queue. What becomes free is handed to the one that has waited longest, never raced for.
//!
//! A pool may be named by scripts, so that its connections need not be alike: each asks for what it wants
//! ([`Pooled::Wanted`]) and gets only a connection that is that. Others make room when the pool is full.
//!
//! Idle connections are looked at a few times a second: one that the peer has closed, that says something unasked or
//! that was idle for too long goes. That costs nothing for each use, unlike a watcher for each connection.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::thread::LocalKey;
use std::time::Duration;

use tidegate_net::clock;

use super::failure::debug;
use crate::host::{Detached, Host};

/// How long a connection that its peer has closed may stay unnoticed while nobody asks for it.
const SWEEP: Duration = Duration::from_millis(100);

/// Pools that a worker has at a time, of each kind.
const POOLS_MAX: usize = 4096;

/// The longest name of a pool.
const NAME_BYTES_MAX: usize = 4096;

/// A kind of connection that pools keep.
pub(crate) trait Pooled: Sized + 'static {
    /// What is noted about a pool beside [`Counts`].
    type Notes: Default;
    /// What one who asks for a connection wants it to be.
    type Wanted<'a>;
    /// How debug lines begin.
    const NAME: &'static str;
    /// This worker's pools.
    fn pools() -> &'static LocalKey<Pools<Self>>;
    /// Whether the idle connection is as it should be: open, and silent.
    fn is_quiet(&mut self) -> bool;
    /// It leaves its pool to be used again.
    fn note_reuse(&mut self);
    /// Whether it serves one who wants this.
    fn is_wanted(&self, wanted: &Self::Wanted<'_>) -> bool;
    /// The wish of one who must wait.
    fn own_wish(wanted: Self::Wanted<'_>) -> Self::Wanted<'static>;
}

/// A worker's pools of one kind.
pub(crate) struct Pools<C: Pooled> {
    by_key: RefCell<HashMap<Box<[u8]>, Rc<Pool<C>>>>,
    /// The one that was found last: most scripts want one.
    last: RefCell<Weak<Pool<C>>>,
    /// A task looks at the idle connections.
    sweeping: Cell<bool>,
}

impl<C: Pooled> Default for Pools<C> {
    fn default() -> Self {
        Self { by_key: RefCell::default(), last: RefCell::default(), sweeping: Cell::new(false) }
    }
}

/// What has happened in a pool so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Connections made.
    pub(crate) made: u64,
    /// Idle connections that were used again, or handed to one who waited.
    pub(crate) reused: u64,
    /// Idle connections that were found closed, or too old.
    pub(crate) expired: u64,
    /// Callers that had to wait.
    pub(crate) waited: u64,
    /// Callers that were turned away since too many waited.
    pub(crate) rejected: u64,
}

/// Connections to one place.
pub(crate) struct Pool<C: Pooled> {
    key: Box<[u8]>,
    /// Idle connections that are kept.
    size: usize,
    /// How many may wait for a connection when `size` are open; `None` for no bound on open ones.
    backlog: Option<usize>,
    /// The one used last comes last.
    idle: RefCell<VecDeque<Idle<C>>>,
    /// Open connections that count here.
    open: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<Waiter<C>>>>,
    counts: Cell<Counts>,
    notes: C::Notes,
}

struct Idle<C> {
    conn: C,
    /// In milliseconds of [`clock::steady_ms`]; `u64::MAX` for no limit.
    until_ms: u64,
}

/// An open connection's place in its pool, given up when dropped.
pub(crate) struct Place<C: Pooled>(Rc<Pool<C>>);

/// The thing that a waiter gets from a pool.
pub(crate) enum Grant<C: Pooled> {
    /// A connection.
    Conn(C),
    /// Leave to make one.
    Place(Place<C>),
}

struct Waiter<C: Pooled> {
    wanted: C::Wanted<'static>,
    grant: Cell<Option<Grant<C>>>,
    waker: Cell<Option<Waker>>,
}

/// The answer of a pool to a caller that wants a connection.
pub(crate) enum Offer<C: Pooled> {
    /// A connection, or permission to make one.
    Grant(Grant<C>),
    /// No connection now: a place in the queue.
    Queue(Queued<C>),
    /// The queue is full as well.
    Full,
}

/// A place in the queue, left when dropped.
pub(crate) struct Queued<C: Pooled> {
    pool: Rc<Pool<C>>,
    waiter: Rc<Waiter<C>>,
    /// Its turn came.
    done: bool,
}

/// The pool `key`, if there is one.
pub(crate) fn find<C: Pooled>(key: &[u8]) -> Option<Rc<Pool<C>>> {
    C::pools().with(|pools| {
        let last = pools.last.borrow().upgrade();
        if let Some(last) = last.filter(|last| *last.key == *key) {
            return Some(last);
        }
        let found = pools.by_key.borrow().get(key).cloned()?;
        pools.last.replace(Rc::downgrade(&found));
        Some(found)
    })
}

/// The pool `key`, made if there is none: then `size` and `backlog` hold from now on.
///
/// # Errors
/// When the name is too long, or there are too many pools.
pub(crate) fn find_or_make<C: Pooled>(
    host: &Host,
    key: &[u8],
    size: usize,
    backlog: Option<usize>,
) -> Result<Rc<Pool<C>>, &'static str> {
    if let Some(pool) = find(key) {
        return Ok(pool);
    }
    if key.len() > NAME_BYTES_MAX {
        return Err("the name of the connection pool is too long");
    }
    if C::pools().with(|pools| pools.by_key.borrow().len()) >= POOLS_MAX {
        return Err("too many connection pools");
    }
    debug(host, || {
        let backlog = backlog.map_or(-1, |backlog| i64::try_from(backlog).unwrap_or(i64::MAX));
        format!("{} connection pool size: {size}, backlog: {backlog}", C::NAME)
    });
    debug(host, || {
        format!("{} keepalive create connection pool for key \"{}\"", C::NAME, String::from_utf8_lossy(key))
    });
    let pool = Rc::new(Pool {
        key: key.into(),
        size,
        backlog,
        idle: RefCell::default(),
        open: Cell::new(0),
        waiters: RefCell::default(),
        counts: Cell::default(),
        notes: C::Notes::default(),
    });
    C::pools().with(|pools| pools.by_key.borrow_mut().insert(key.into(), pool.clone()));
    Ok(pool)
}

/// This worker's pools of a kind.
pub(crate) fn all<C: Pooled>() -> Vec<Rc<Pool<C>>> {
    C::pools().with(|pools| pools.by_key.borrow().values().cloned().collect())
}

/// Closes all idle connections of a kind of this worker.
pub(crate) fn close_all<C: Pooled>() {
    let pools = C::pools().with(|pools| {
        pools.last.take();
        pools.by_key.take()
    });
    for pool in pools.values() {
        let idle = pool.idle.take();
        drop(idle);
    }
}

impl<C: Pooled> Pool<C> {
    /// Its name.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Idle connections that it keeps.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// How many are open, idle, and waited for.
    pub(crate) fn numbers(&self) -> [usize; 3] {
        [self.open.get(), self.idle.borrow().len(), self.waiters.borrow().len()]
    }

    /// What has happened so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// What its kind of connection notes.
    pub(crate) fn notes(&self) -> &C::Notes {
        &self.notes
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// A connection that is as wanted and can be used, the one used last first; or else leave to make one.
    pub(crate) fn ask(self: &Rc<Self>, wanted: C::Wanted<'_>) -> Offer<C> {
        if let Some(conn) = self.take_idle(&wanted) {
            return Offer::Grant(Grant::Conn(conn));
        }
        if self.is_full() {
            // No caller in the queue wants the idle connections: it would have got one. So the oldest makes room.
            let other = self.idle.borrow_mut().pop_front();
            drop(other);
        }
        if let Some(backlog) = self.backlog
            && self.is_full()
        {
            let mut waiters = self.waiters.borrow_mut();
            if waiters.len() >= backlog {
                self.count(|counts| counts.rejected += 1);
                return Offer::Full;
            }
            self.count(|counts| counts.waited += 1);
            let wanted = C::own_wish(wanted);
            let waiter = Rc::new(Waiter { wanted, grant: Cell::new(None), waker: Cell::new(None) });
            waiters.push_back(waiter.clone());
            return Offer::Queue(Queued { pool: self.clone(), waiter, done: false });
        }
        Offer::Grant(Grant::Place(self.enter()))
    }

    /// Whether no connection may be added to those that are open.
    fn is_full(&self) -> bool {
        self.backlog.is_some() && self.open.get() >= self.size
    }

    /// An idle connection that is as wanted.
    fn take_idle(&self, wanted: &C::Wanted<'_>) -> Option<C> {
        loop {
            let mut all = self.idle.borrow_mut();
            let at = all.iter().rposition(|idle| idle.conn.is_wanted(wanted))?;
            let mut idle = all.remove(at)?;
            drop(all);
            if idle.until_ms > clock::steady_ms() && idle.conn.is_quiet() {
                idle.conn.note_reuse();
                self.count(|counts| counts.reused += 1);
                return Some(idle.conn);
            }
            self.count(|counts| counts.expired += 1);
        }
    }

    /// Counts a connection that is open.
    pub(crate) fn enter(self: &Rc<Self>) -> Place<C> {
        // An idle connection that was found closed a moment ago may have been the last, with which the pool left the list.
        // Without the list (the thread ends) there is nothing to join.
        let _ = C::pools().try_with(|pools| {
            let mut pools = pools.by_key.try_borrow_mut().ok()?;
            let is_listed = pools.contains_key(&self.key);
            if is_listed { None } else { pools.insert(self.key.clone(), self.clone()) }
        });
        self.open.set(self.open.get() + 1);
        self.count(|counts| counts.made += 1);
        Place(self.clone())
    }

    /// Keeps `conn`, or hands it to one who waits; if that one wants another, `conn` is closed, which leaves its place
    /// to him. When there are too many, the one unused for longest goes.
    pub(crate) fn keep(self: &Rc<Self>, mut conn: C, timeout: Option<Duration>) {
        let fits = self.waiters.borrow().front().map(|waiter| conn.is_wanted(&waiter.wanted));
        if fits == Some(false) {
            return drop(conn);
        }
        let waiter = self.waiters.borrow_mut().pop_front();
        if let Some(waiter) = waiter {
            conn.note_reuse();
            self.count(|counts| counts.reused += 1);
            waiter.give(Grant::Conn(conn));
            return;
        }
        let until_ms = match timeout {
            Some(timeout) => clock::steady_ms().saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            None => u64::MAX,
        };
        let mut idle = self.idle.borrow_mut();
        let oldest = if idle.len() >= self.size { idle.pop_front() } else { None };
        idle.push_back(Idle { conn, until_ms });
        drop(idle);
        drop(oldest);
        start_sweeping::<C>(timeout);
    }

    /// Closes what has gone bad; gives the time of the next that will, and whether any is left.
    fn sweep(&self, now_ms: u64, next_ms: &mut u64) -> bool {
        let mut gone = Vec::new();
        let mut idle = self.idle.borrow_mut();
        let mut index = 0;
        while let Some(entry) = idle.get_mut(index) {
            let expired = entry.until_ms <= now_ms;
            if expired || !entry.conn.is_quiet() {
                debug(&Detached::host(""), || {
                    let why = if expired { "max idle timeout, " } else { "" };
                    format!("{0} keepalive {why}{0} keepalive close handler: fd:", C::NAME)
                });
                gone.extend(idle.remove(index));
                self.count(|counts| counts.expired += 1);
            } else {
                *next_ms = entry.until_ms.min(*next_ms);
                index += 1;
            }
        }
        let left = !idle.is_empty();
        drop(idle);
        drop(gone);
        left
    }
}

/// Looks after idle connections from now on; the first of them may stay for `timeout`.
fn start_sweeping<C: Pooled>(timeout: Option<Duration>) {
    if C::pools().with(|pools| pools.sweeping.replace(true)) {
        return;
    }
    let mut pause = timeout.map_or(SWEEP, |timeout| SWEEP.min(timeout));
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(pause).await;
            clock::update();
            let now_ms = clock::steady_ms();
            let mut next_ms = u64::MAX;
            let mut left = false;
            for pool in all::<C>() {
                left |= pool.sweep(now_ms, &mut next_ms);
            }
            if !left {
                C::pools().with(|pools| pools.sweeping.set(false));
                return;
            }
            pause = SWEEP.min(Duration::from_millis(next_ms.saturating_sub(now_ms).max(1)));
        }
    });
}

impl<C: Pooled> Place<C> {
    /// The pool that it is in.
    pub(crate) fn pool(&self) -> &Rc<Pool<C>> {
        &self.0
    }
}

impl<C: Pooled> Drop for Place<C> {
    fn drop(&mut self) {
        let pool = &self.0;
        pool.open.set(pool.open.get() - 1);
        if pool.backlog.is_none_or(|_| pool.open.get() < pool.size) {
            let waiter = pool.waiters.borrow_mut().pop_front();
            if let Some(waiter) = waiter {
                waiter.give(Grant::Place(pool.enter()));
                return;
            }
        }
        if pool.open.get() == 0 {
            debug(&Detached::host(""), || {
                let key = String::from_utf8_lossy(&pool.key);
                format!("{} keepalive: free connection pool for \"{key}\"", C::NAME)
            });
            // Without the list (the thread ends) there is nothing to leave.
            let removed = C::pools().try_with(|pools| {
                pools.last.try_borrow_mut().ok()?.clone_from(&Weak::new());
                let mut pools = pools.by_key.try_borrow_mut().ok()?;
                if pools.get(&pool.key).is_some_and(|listed| Rc::ptr_eq(listed, pool)) {
                    pools.remove(&pool.key)
                } else {
                    None
                }
            });
            drop(removed);
        }
    }
}

impl<C: Pooled> Waiter<C> {
    fn give(&self, grant: Grant<C>) {
        self.grant.set(Some(grant));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<C: Pooled> Queued<C> {
    /// Leaves the queue with its turn taken.
    pub(crate) fn leave(mut self) {
        self.done = true;
    }

    /// Waits for its turn.
    pub(crate) async fn granted(&self) -> Grant<C> {
        poll_fn(|cx| match self.waiter.grant.take() {
            Some(grant) => Poll::Ready(grant),
            None => {
                self.waiter.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

impl<C: Pooled> Drop for Queued<C> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.pool.waiters.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        debug(&Detached::host(""), || format!("{} abort queueing", C::NAME));
        // What was granted and not taken goes on to the next, by being dropped.
        let unused = self.waiter.grant.take();
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::conn::Conn;

    #[test]
    fn names_are_bounded_in_number_and_length() {
        let host = Detached::host("");
        let make = |key: &str| find_or_make::<Rc<Conn>>(&host, key.as_bytes(), 1, None).map(|_| ());
        let longest = "x".repeat(NAME_BYTES_MAX);
        assert_eq!(make(&longest), Ok(()));
        assert_eq!(make(&format!("{longest}x")), Err("the name of the connection pool is too long"));
        for number in 1..POOLS_MAX {
            assert_eq!(make(&number.to_string()), Ok(()));
        }
        assert_eq!(make("one more"), Err("too many connection pools"));
        assert_eq!(make("7"), Ok(()));
        close_all::<Rc<Conn>>();
        assert_eq!(make("one more"), Ok(()));
    }
}
