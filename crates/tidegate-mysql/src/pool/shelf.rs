//! What a pool's connections stand on: permits, shelves, and the queue of those that wait.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{sync::oneshot, time::Instant};

use crate::{conn::Conn, histogram::Recorder, timer::LazyTimer};

/// What connections hold on to, idle ones too; so it must not hold any of them.
pub(super) struct Core {
    pub(super) id: u64,
    pub(super) max: usize,
    pub(super) open: AtomicUsize,
    pub(super) idle: AtomicUsize,
    pub(super) waiting: AtomicUsize,
    pub(super) next_waiter: AtomicU64,
    pub(super) queue: Mutex<VecDeque<Waiter>>,
}

pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) sender: oneshot::Sender<Grant>,
}

/// The thing that a waiter gets.
pub(super) enum Grant {
    Conn(Box<Pooled>),
    Permit(Permit),
}

/// The right to have a connection open (I1).
pub(super) struct Permit(Arc<Core>);

impl Drop for Permit {
    fn drop(&mut self) {
        // The right goes to whoever waits; with nobody there, it lapses. I2: a waiter that comes in between looks at
        // `open` again after it joined the queue.
        if self.0.waiting.load(SeqCst) > 0
            && self.0.open.load(SeqCst) <= self.0.max
            && let Some(waiter) = self.0.next_waiter()
        {
            let permit = Permit(Arc::clone(&self.0));
            // A waiter that has gone drops the permit again, which looks for the next.
            let _ = waiter.sender.send(Grant::Permit(permit));
            return;
        }
        self.0.open.fetch_sub(1, SeqCst);
        if self.0.waiting.load(SeqCst) > 0
            && let Some(permit) = Core::permit(&self.0)
        {
            // Somebody joined meanwhile. Dropping the permit anew finds them, or nobody.
            drop(permit);
        }
    }
}

impl Core {
    pub(super) fn queue(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        // A panic elsewhere leaves the queue as it was.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_waiter(&self) -> Option<Waiter> {
        let mut queue = self.queue();
        let waiter = queue.pop_front()?;
        // Under the lock, so that nobody finds the queue empty and somebody waiting.
        self.waiting.fetch_sub(1, SeqCst);
        Some(waiter)
    }

    /// Whether one more connection may be open.
    pub(super) fn has_room(&self) -> bool {
        self.max == 0 || self.open.load(SeqCst) < self.max
    }

    /// A permit, unless `max` are out.
    pub(super) fn permit(self: &Arc<Self>) -> Option<Permit> {
        let room = |open: usize| (self.max == 0 || open < self.max).then_some(open + 1);
        self.open.fetch_update(SeqCst, SeqCst, room).ok()?;
        Some(Permit(Arc::clone(self)))
    }

    /// A permit beyond `max`.
    pub(super) fn extra_permit(self: &Arc<Self>) -> Permit {
        self.open.fetch_add(1, SeqCst);
        Permit(Arc::clone(self))
    }
}

/// A connection of the pool.
pub(super) struct Pooled {
    pub(super) conn: Conn,
    pub(super) permit: Permit,
    /// Index of its server.
    pub(super) server: usize,
    /// Number of the shelf of the worker that it is registered with.
    pub(super) home: usize,
    /// How many statements have succeeded on it.
    pub(super) uses: u64,
    pub(super) made: Instant,
    pub(super) used: Instant,
    /// The timer of its lane.
    pub(super) patience: LazyTimer,
}

/// Idle connections and statistics of a worker.
pub(super) struct Shelf {
    pub(super) number: usize,
    pub(super) core: Arc<Core>,
    /// The one used last is at the back.
    pub(super) idle: Mutex<VecDeque<Box<Pooled>>>,
    /// The worker or the pool has gone.
    pub(super) closed: AtomicBool,
    pub(super) counters: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) lent: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) connect_errors: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) shared: AtomicU64,
    pub(super) cancelled: AtomicU64,
    pub(super) query_errors: AtomicU64,
    pub(super) latency: Recorder,
}

impl Shelf {
    pub(super) fn idle(&self) -> MutexGuard<'_, VecDeque<Box<Pooled>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last, of this server if one is given.
    pub(super) fn take(&self, server: Option<usize>) -> Option<Box<Pooled>> {
        let mut idle = self.idle();
        let at = match server {
            None => idle.len().checked_sub(1)?,
            Some(server) => idle.iter().rposition(|pooled| pooled.server == server)?,
        };
        let pooled = idle.remove(at)?;
        self.core.idle.fetch_sub(1, SeqCst);
        Some(pooled)
    }

    /// Takes the connection that was not used for longest.
    pub(super) fn take_oldest(&self) -> Option<Box<Pooled>> {
        let pooled = self.idle().pop_front()?;
        self.core.idle.fetch_sub(1, SeqCst);
        Some(pooled)
    }

    /// Puts a connection back.
    pub(super) fn put(&self, pooled: Box<Pooled>) {
        let mut idle = self.idle();
        if !self.closed.load(SeqCst) {
            self.core.idle.fetch_add(1, SeqCst);
            idle.push_back(pooled);
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, SeqCst);
        let idle = std::mem::take(&mut *self.idle());
        self.core.idle.fetch_sub(idle.len(), SeqCst);
    }
}

/// The shelves of one worker, one for each pool that it has used.
#[derive(Default)]
pub(super) struct WorkerShelves(pub(super) Vec<Arc<Shelf>>);

impl Drop for WorkerShelves {
    fn drop(&mut self) {
        for shelf in &self.0 {
            shelf.close();
        }
    }
}

impl Core {
    /// A core for at most `max` connections; 0 for no limit.
    pub(super) fn new(id: u64, max: usize) -> Arc<Self> {
        Arc::new(Self {
            id,
            max,
            open: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            next_waiter: AtomicU64::new(0),
            queue: Mutex::default(),
        })
    }
}

impl Shelf {
    /// An empty shelf.
    pub(super) fn new(number: usize, core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self {
            number,
            core,
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }
}
