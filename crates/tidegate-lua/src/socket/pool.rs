//! Connections kept for later, by key (`host:port`, or the name that `pool` gives). Each worker has its own.
//!
//! A pool bounds its idle connections; where `backlog` is given it bounds all that are open, and who wants one more
//! waits in a queue. What becomes free is handed to the one that has waited longest, never raced for.
//!
//! Idle connections are looked at a few times a second: one that the peer has closed, that says something unasked or
//! that was idle for too long goes. That costs nothing for each use, unlike a watcher for each connection.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_core::clock;

use super::conn::Conn;
use super::failure::debug;
use crate::host::{Detached, Host};

/// How long a connection that its peer has closed may stay unnoticed while nobody asks for it.
const SWEEP: Duration = Duration::from_millis(100);

/// Connections to one place.
pub(super) struct Pool {
    key: Box<[u8]>,
    /// Idle connections that are kept.
    size: usize,
    /// How many may wait for a connection when `size` are open; `None` for no bound on open ones.
    backlog: Option<usize>,
    /// The one used last comes last.
    idle: RefCell<VecDeque<Idle>>,
    /// Open connections that count here.
    open: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Idle {
    conn: Rc<Conn>,
    /// In milliseconds of [`clock::now_ms`]; `u64::MAX` for no limit.
    until_ms: u64,
}

/// An open connection's place in its pool, given up when dropped.
pub(super) struct Place(Rc<Pool>);

/// What a waiter gets.
pub(super) enum Grant {
    /// A connection.
    Conn(Rc<Conn>),
    /// Leave to make one.
    Place(Place),
}

#[derive(Default)]
struct Waiter {
    grant: Cell<Option<Grant>>,
    waker: Cell<Option<Waker>>,
}

/// What there is for one who wants a connection.
pub(super) enum Offer {
    /// A connection, or leave to make one.
    Grant(Grant),
    /// Nothing now: a place in the queue.
    Queue(Queued),
    /// Not even that.
    Full,
}

/// A place in the queue, left when dropped.
pub(super) struct Queued {
    pool: Rc<Pool>,
    waiter: Rc<Waiter>,
    /// Its turn came.
    done: bool,
}

thread_local! {
    static POOLS: RefCell<HashMap<Box<[u8]>, Rc<Pool>>> = RefCell::default();
    static SWEEPING: Cell<bool> = const { Cell::new(false) };
}

/// The pool `key`, if there is one.
pub(super) fn find(key: &[u8]) -> Option<Rc<Pool>> {
    POOLS.with_borrow(|pools| pools.get(key).cloned())
}

/// The pool `key`, made if there is none: then `size` and `backlog` hold from now on.
pub(super) fn find_or_make(host: &Host, key: &[u8], size: usize, backlog: Option<usize>) -> Rc<Pool> {
    if let Some(pool) = find(key) {
        return pool;
    }
    debug(host, || {
        let backlog = backlog.map_or(-1, |backlog| i64::try_from(backlog).unwrap_or(i64::MAX));
        format!("lua tcp socket connection pool size: {size}, backlog: {backlog}")
    });
    debug(host, || {
        format!("lua tcp socket keepalive create connection pool for key \"{}\"", String::from_utf8_lossy(key))
    });
    let pool = Rc::new(Pool {
        key: key.into(),
        size,
        backlog,
        idle: RefCell::default(),
        open: Cell::new(0),
        waiters: RefCell::default(),
    });
    POOLS.with_borrow_mut(|pools| pools.insert(key.into(), pool.clone()));
    pool
}

/// Closes all idle connections of this worker.
pub(crate) fn close_all() {
    let pools = POOLS.take();
    for pool in pools.values() {
        let idle = pool.idle.take();
        drop(idle);
    }
}

impl Pool {
    /// A connection that can be used, the one used last first; or else leave to make one.
    pub(super) fn ask(self: &Rc<Self>) -> Offer {
        if let Some(conn) = self.take_idle() {
            return Offer::Grant(Grant::Conn(conn));
        }
        if let Some(backlog) = self.backlog
            && self.open.get() >= self.size
        {
            let mut waiters = self.waiters.borrow_mut();
            if waiters.len() >= backlog {
                return Offer::Full;
            }
            let waiter = Rc::new(Waiter::default());
            waiters.push_back(waiter.clone());
            return Offer::Queue(Queued { pool: self.clone(), waiter, done: false });
        }
        Offer::Grant(Grant::Place(self.enter()))
    }

    /// An idle connection.
    pub(super) fn take_idle(&self) -> Option<Rc<Conn>> {
        loop {
            let idle = self.idle.borrow_mut().pop_back()?;
            if idle.until_ms > clock::now_ms() && idle.conn.is_quiet() {
                idle.conn.reused.set(idle.conn.reused.get() + 1);
                return Some(idle.conn);
            }
        }
    }

    /// Counts a connection that is open.
    pub(super) fn enter(self: &Rc<Self>) -> Place {
        self.open.set(self.open.get() + 1);
        Place(self.clone())
    }

    /// Keeps `conn`, or hands it to one who waits. When there are too many, the one unused for longest goes.
    pub(super) fn keep(self: &Rc<Self>, conn: Rc<Conn>, timeout: Option<Duration>) {
        let waiter = self.waiters.borrow_mut().pop_front();
        if let Some(waiter) = waiter {
            conn.reused.set(conn.reused.get() + 1);
            waiter.give(Grant::Conn(conn));
            return;
        }
        let until_ms = match timeout {
            Some(timeout) => clock::now_ms().saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            None => u64::MAX,
        };
        let mut idle = self.idle.borrow_mut();
        let oldest = if idle.len() >= self.size { idle.pop_front() } else { None };
        idle.push_back(Idle { conn, until_ms });
        drop(idle);
        drop(oldest);
        start_sweeping();
    }

    /// Closes what has gone bad; gives the time of the next that will, and whether any is left.
    fn sweep(&self, now_ms: u64, next_ms: &mut u64) -> bool {
        let mut gone = Vec::new();
        let mut idle = self.idle.borrow_mut();
        let mut index = 0;
        while let Some(entry) = idle.get(index) {
            let expired = entry.until_ms <= now_ms;
            if expired || !entry.conn.is_quiet() {
                debug(&Detached::host(""), || {
                    let why = if expired { "max idle timeout, " } else { "" };
                    format!("lua tcp socket keepalive {why}lua tcp socket keepalive close handler: fd:")
                });
                gone.extend(idle.remove(index));
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

fn start_sweeping() {
    if SWEEPING.replace(true) {
        return;
    }
    tokio::task::spawn_local(async {
        let mut pause = SWEEP;
        loop {
            tokio::time::sleep(pause).await;
            clock::update();
            let now_ms = clock::now_ms();
            let mut next_ms = u64::MAX;
            let pools: Vec<Rc<Pool>> = POOLS.with_borrow(|pools| pools.values().cloned().collect());
            let mut left = false;
            for pool in pools {
                left |= pool.sweep(now_ms, &mut next_ms);
            }
            if !left {
                SWEEPING.set(false);
                return;
            }
            pause = SWEEP.min(Duration::from_millis(next_ms.saturating_sub(now_ms).max(1)));
        }
    });
}

impl Place {
    /// The pool that it is in.
    pub(super) fn pool(&self) -> &Rc<Pool> {
        &self.0
    }
}

impl Drop for Place {
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
                format!("lua tcp socket keepalive: free connection pool for \"{key}\"")
            });
            // Without the list (the thread ends) there is nothing to leave.
            let removed = POOLS.try_with(|pools| {
                let mut pools = pools.try_borrow_mut().ok()?;
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

impl Waiter {
    fn give(&self, grant: Grant) {
        self.grant.set(Some(grant));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Queued {
    /// Leaves the queue with its turn taken.
    pub(super) fn leave(mut self) {
        self.done = true;
    }

    /// Waits for its turn.
    pub(super) async fn granted(&self) -> Grant {
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

impl Drop for Queued {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.pool.waiters.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        debug(&Detached::host(""), || "lua tcp socket abort queueing".to_owned());
        // What was granted and not taken goes on to the next, by being dropped.
        let unused = self.waiter.grant.take();
        drop(unused);
    }
}
