//! Pools of connections.
//!
//! A pool is shared by all workers. Each worker has a shelf of its own for idle connections, whose lock only its owner
//! takes, unless another worker has nothing on its own shelf: then it borrows. `max` counts over all workers, since it
//! is what the database sees.
//!
//! Invariants:
//!
//! - I1: each open connection, and each one being made, holds a [`Permit`]; `open` is the number of permits.
//! - I2: whoever gives something back (a connection, a permit) first looks for waiters, and looks again after it put a
//!   connection on a shelf. Whoever waits looks at the shelves again after it joined the queue. So nobody waits while
//!   something lies idle.
//! - I3: a connection lies on at most one shelf, and only while it is idle: not broken, not in the midst of a statement.
//! - I4: a connection that changes workers is registered with the event loop of its new one before it is used.

mod cancel;
mod connect;
mod drain;
mod lane;
mod options;
mod pace;
mod reset;
mod shelf;

use std::{
    cell::RefCell,
    fmt, io,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Duration,
};

use tidegate_rows::{Execute, QueryError, ServerError, Sink, Statement};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    balancer::Balancer,
    channel::after,
    conn::{Conn, Progress},
    histogram::Histogram,
    options::Timeouts,
    read_only::only_reads,
};

use cancel::Cancellations;
pub use lane::Sharing;
pub use options::{Overflow, PoolMode, PoolOptions, Resolved, Resolver};
pub use pace::Pace;
use shelf::{Core, Grant, Permit, Pooled, Shelf, Waiter, WorkerShelves};

/// What a pool has done and what it holds, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Connections open or being made.
    pub open: usize,
    /// Connections that lie idle.
    pub idle: usize,
    /// Callers that wait.
    pub waiting: usize,
    /// Callers that found an idle connection of their worker.
    pub hits: u64,
    /// Callers that borrowed one from another worker, or were handed one while they waited.
    pub lent: u64,
    /// Connections made.
    pub connects: u64,
    /// Connections that could not be made.
    pub connect_errors: u64,
    /// Callers that had to wait.
    pub waits: u64,
    /// Callers that were turned away, at once or after their wait.
    pub rejected: u64,
    /// Idle connections that were found closed or too old.
    pub expired: u64,
    /// Statements that ran again on a new connection, since the idle one that they were given had died.
    pub retries: u64,
    /// Statements that shared a connection with others ([`Pool::run_together`]).
    pub shared: u64,
    /// Connections that were closed in the midst of a statement that nobody waited for any more.
    pub cancelled: u64,
    /// For each idle connection how many statements have succeeded on it; those used last come first.
    pub idle_uses: Vec<u64>,
    /// Servers, each with the number of addresses that its name was last found to have.
    pub servers: Vec<(String, usize)>,
    /// Statements run.
    pub queries: u64,
    /// Statements that ended with an error.
    pub query_errors: u64,
    /// How long statements took, with all their rows.
    pub latency: Histogram,
}

/// What happens while a statement is on its way.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// It begins on this connection.
    Began(&'a Conn),
    /// A server could not be reached, so another one is tried.
    PassedOver(&'a QueryError),
}

/// A pool. Clones are the same pool; any thread may hold one, and read the statistics.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    options: PoolOptions,
    core: Arc<Core>,
    balancer: Mutex<Balancer>,
    shelves: RwLock<Vec<Arc<Shelf>>>,
    cancellations: Mutex<Cancellations>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for shelf in self.shelves.get_mut().unwrap_or_else(PoisonError::into_inner) {
            shelf.close();
        }
    }
}

thread_local! {
    static SHELVES: RefCell<WorkerShelves> = RefCell::default();
}

impl Pool {
    /// A pool without connections.
    pub fn new(options: PoolOptions) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let core = Core::new(NEXT_ID.fetch_add(1, Relaxed), options.max);
        let balancer = Mutex::new(Balancer::new(options.servers.clone()));
        Self(Arc::new(Shared { options, core, balancer, shelves: RwLock::default(), cancellations: Mutex::default() }))
    }

    /// The settings that the pool was made with.
    pub fn options(&self) -> &PoolOptions {
        &self.0.options
    }

    /// A connection for the calling worker, with these time-outs. An idle one, if there is one; else a new one, if one
    /// more may be open; else what [`Overflow`] says.
    ///
    /// The future may be dropped at any time.
    ///
    /// # Errors
    /// [`QueryError::PoolBusy`], and all that connecting can run into. A login that is refused is [`QueryError::Connect`], but for
    /// a character set that the server does not know.
    pub async fn get(&self, timeouts: Timeouts) -> Result<PooledConn, QueryError> {
        self.obtain(timeouts, &mut |_: Event<'_>| {}).await
    }

    async fn obtain(&self, timeouts: Timeouts, notice: &mut impl FnMut(Event<'_>)) -> Result<PooledConn, QueryError> {
        let shelf = self.shelf();
        let server = match self.0.options.mode {
            PoolMode::Single => None,
            PoolMode::Multi => Some(self.choose(&[])?),
        };
        let permit = loop {
            // Whoever waits comes first.
            let queue = self.0.core.waiting.load(SeqCst) > 0;
            let Some(pooled) = (if queue { None } else { self.idle(&shelf, server) }) else {
                match self.permit(&shelf, server).await? {
                    Grant::Permit(permit) => break permit,
                    Grant::Conn(pooled) => match self.fit(pooled, &shelf, server, timeouts).await {
                        Ok(conn) => return Ok(conn),
                        Err(permit) => break permit,
                    },
                }
            };
            match self.fit(pooled, &shelf, server, timeouts).await {
                Ok(conn) => return Ok(conn),
                // There may be others.
                Err(permit) => drop(permit),
            }
        };
        // In a box: connecting is rare, and its future is large.
        Box::pin(self.connect(permit, shelf, server, timeouts, notice)).await
    }

    /// Runs a statement on a connection of the pool. `notice` is told of each connection that it runs on, and of servers that
    /// could not be reached.
    ///
    /// A Galera node that is not part of its cluster is taken for a server that is down: the statement runs on another one.
    ///
    /// An idle connection that turns out to be dead is replaced once by a new one, if nothing of the answer has come and
    /// the server cannot have run the statement, or running it twice does no harm.
    ///
    /// The future may be dropped at any time; the server is then told to stop.
    ///
    /// # Errors
    /// Those of [`get`](Self::get), and all that a statement can run into.
    pub async fn run<S: Sink>(
        &self,
        statement: Statement<'_>,
        timeouts: Timeouts,
        sink: &mut S,
        mut notice: impl FnMut(Event<'_>),
    ) -> Result<(), QueryError> {
        let mut conn = self.obtain(timeouts, &mut notice).await?;
        notice(Event::Began(&conn));
        match conn.execute(statement, sink).await {
            Err(error) if conn.may_run_again(&error, statement.sql) => {
                let mut conn = Box::pin(conn.replace(timeouts, &mut notice)).await?;
                notice(Event::Began(&conn));
                conn.execute(statement, sink).await
            }
            // The node has not run it, so another one may, whatever it does.
            Err(QueryError::Server(error)) if is_node_out(&error) && self.0.options.servers.len() > 1 => {
                let server = conn.server();
                self.balancer().failed(server, Instant::now());
                notice(Event::PassedOver(&QueryError::Server(error)));
                let mut conn = Box::pin(conn.replace_elsewhere(timeouts, &mut notice)).await?;
                notice(Event::Began(&conn));
                conn.execute(statement, sink).await
            }
            result => result,
        }
    }

    /// Closes idle connections that have become too old. To be called now and then by each worker; what lies on a shelf
    /// is otherwise looked at only when it is taken.
    pub fn sweep(&self) {
        let shelf = self.shelf();
        let now = Instant::now();
        while shelf.idle().front().is_some_and(|pooled| self.is_too_old(pooled, now)) {
            if shelf.take_oldest().is_some() {
                shelf.counters.expired.fetch_add(1, Relaxed);
            }
        }
    }

    /// What the pool has done and holds.
    pub fn stats(&self) -> PoolStats {
        let core = &self.0.core;
        let mut stats = PoolStats {
            open: core.open.load(Relaxed),
            idle: core.idle.load(Relaxed),
            waiting: core.waiting.load(Relaxed),
            ..PoolStats::default()
        };
        for shelf in self.shelves() {
            let counters = &shelf.counters;
            stats.hits += counters.hits.load(Relaxed);
            stats.lent += counters.lent.load(Relaxed);
            stats.connects += counters.connects.load(Relaxed);
            stats.connect_errors += counters.connect_errors.load(Relaxed);
            stats.waits += counters.waits.load(Relaxed);
            stats.rejected += counters.rejected.load(Relaxed);
            stats.expired += counters.expired.load(Relaxed);
            stats.retries += counters.retries.load(Relaxed);
            stats.shared += counters.shared.load(Relaxed);
            stats.cancelled += counters.cancelled.load(Relaxed);
            stats.idle_uses.extend(shelf.idle().iter().rev().map(|pooled| pooled.uses));
            stats.query_errors += counters.query_errors.load(Relaxed);
            counters.latency.add_to(&mut stats.latency);
        }
        stats.queries = stats.latency.count();
        stats.servers = self.balancer().servers();
        stats
    }

    fn shelves(&self) -> Vec<Arc<Shelf>> {
        self.0.shelves.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The shelf of the calling worker.
    fn shelf(&self) -> Arc<Shelf> {
        SHELVES.with_borrow_mut(|own| {
            let found = own.0.iter().find(|shelf| shelf.core.id == self.0.core.id);
            found.map(Arc::clone).unwrap_or_else(|| self.add_shelf(own))
        })
    }

    #[cold]
    fn add_shelf(&self, own: &mut WorkerShelves) -> Arc<Shelf> {
        own.0.retain(|shelf| !shelf.closed.load(SeqCst));
        let mut shelves = self.0.shelves.write().unwrap_or_else(PoisonError::into_inner);
        let shelf = Shelf::new(shelves.len(), Arc::clone(&self.0.core));
        shelves.push(Arc::clone(&shelf));
        own.0.push(Arc::clone(&shelf));
        shelf
    }

    fn balancer(&self) -> MutexGuard<'_, Balancer> {
        self.0.balancer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn choose(&self, tried: &[usize]) -> Result<usize, QueryError> {
        let chosen = self.balancer().choose(tried, Instant::now());
        chosen.ok_or_else(|| QueryError::Connect {
            peer: self.0.options.name.clone(),
            source: io::Error::other("no live upstreams"),
        })
    }

    /// An idle connection, of this worker or of another.
    fn idle(&self, own: &Shelf, server: Option<usize>) -> Option<Box<Pooled>> {
        if let Some(pooled) = own.take(server) {
            return Some(pooled);
        }
        if self.0.core.idle.load(SeqCst) == 0 {
            return None;
        }
        let shelves = self.0.shelves.read().unwrap_or_else(PoisonError::into_inner);
        // Each worker begins behind itself, so that not all fall on the same one.
        let (before, behind) = shelves.split_at((own.number + 1).min(shelves.len()));
        behind.iter().chain(before).find_map(|shelf| shelf.take(server))
    }

    /// A permit, or a connection that somebody gave back.
    async fn permit(&self, shelf: &Shelf, server: Option<usize>) -> Result<Grant, QueryError> {
        let core = &self.0.core;
        if core.waiting.load(SeqCst) == 0
            && let Some(permit) = core.permit()
        {
            return Ok(Grant::Permit(permit));
        }
        // With the wrong server's connections on the shelves, one of them makes room.
        if server.is_some()
            && let Some(pooled) = self.shelves().iter().find_map(|shelf| shelf.take_oldest())
        {
            return Ok(Grant::Permit(pooled.permit));
        }
        let busy = |waited: Duration| {
            shelf.counters.rejected.fetch_add(1, Relaxed);
            QueryError::PoolBusy { pool: self.0.options.name.clone(), waited }
        };
        match self.0.options.overflow {
            Overflow::Reject => Err(busy(Duration::ZERO)),
            Overflow::Ignore => Ok(Grant::Permit(core.extra_permit())),
            Overflow::Wait { queue_max, .. } if core.waiting.load(SeqCst) >= queue_max => Err(busy(Duration::ZERO)),
            Overflow::Wait { timeout, .. } => {
                shelf.counters.waits.fetch_add(1, Relaxed);
                let begin = Instant::now();
                let place = Place::join(self);
                // I2: look again.
                self.serve_waiters(shelf);
                place.wait(timeout).await.ok_or_else(|| busy(begin.elapsed()))
            }
        }
    }

    /// Hands what lies idle or is free to those that wait.
    fn serve_waiters(&self, shelf: &Shelf) {
        let core = &self.0.core;
        while core.waiting.load(SeqCst) > 0 {
            let grant = match self.idle(shelf, None) {
                Some(pooled) => Grant::Conn(pooled),
                None => match core.permit() {
                    Some(permit) => Grant::Permit(permit),
                    None => return,
                },
            };
            let Some(waiter) = core.next_waiter() else {
                if let Grant::Conn(pooled) = grant {
                    shelf.put(pooled);
                }
                return;
            };
            // A waiter that has gone meanwhile leaves what it would have got.
            if let Err(Grant::Conn(pooled)) = waiter.sender.send(grant) {
                shelf.put(pooled);
            }
        }
    }

    fn is_too_old(&self, pooled: &Pooled, now: Instant) -> bool {
        let options = &self.0.options;
        options.idle_timeout.is_some_and(|limit| now.duration_since(pooled.used) >= limit)
            || options.lifetime.is_some_and(|limit| now.duration_since(pooled.made) >= limit)
    }

    /// Makes sure that a connection can be used by this worker. If not, what is left is its permit.
    async fn fit(
        &self,
        mut pooled: Box<Pooled>,
        shelf: &Arc<Shelf>,
        server: Option<usize>,
        timeouts: Timeouts,
    ) -> Result<PooledConn, Permit> {
        if server.is_some_and(|server| server != pooled.server) {
            return Err(pooled.permit);
        }
        let is_at_home = pooled.home == shelf.number;
        if self.is_too_old(&pooled, Instant::now())
            || (!is_at_home && pooled.conn.rebind().is_err())
            || !pooled.conn.is_open()
        {
            shelf.counters.expired.fetch_add(1, Relaxed);
            return Err(pooled.permit);
        }
        if !is_at_home {
            pooled.patience.reset();
        }
        pooled.home = shelf.number;
        pooled.conn.set_timeouts(timeouts);
        if pooled.conn.needs_reset_now() && Box::pin(pooled.conn.reset()).await.is_err() {
            return Err(pooled.permit);
        }
        let counter = if is_at_home { &shelf.counters.hits } else { &shelf.counters.lent };
        counter.fetch_add(1, Relaxed);
        Ok(PooledConn { pooled: Some(pooled), pool: self.clone(), shelf: Arc::clone(shelf), is_reused: true })
    }

    /// Takes a connection back.
    fn give_back(&self, mut pooled: Box<Pooled>, shelf: &Shelf) {
        let core = &self.0.core;
        let beyond_max = core.max > 0 && core.open.load(SeqCst) > core.max;
        if pooled.conn.is_abandoned() {
            shelf.counters.cancelled.fetch_add(1, Relaxed);
            if self.0.options.cancel {
                self.cancel(pooled);
            }
            return;
        }
        if !pooled.conn.is_idle() || beyond_max || self.0.options.idle_max == 0 {
            return;
        }
        if self.0.options.reset {
            pooled.conn.reset_before_next();
            if !pooled.conn.can_be_reset() {
                return;
            }
        }
        pooled.conn.shrink();
        pooled.used = Instant::now();
        shelf.put(pooled);
        if core.waiting.load(SeqCst) > 0 {
            self.serve_waiters(shelf);
        } else if core.idle.load(SeqCst) > self.0.options.idle_max {
            drop(shelf.take_oldest());
        }
    }
}

/// Whether a Galera node says that it is not part of its cluster: "WSREP has not yet prepared node for application use". The same
/// number without these letters is an unknown command.
pub fn is_node_out(error: &ServerError) -> bool {
    error.code == 1047 && error.message.starts_with("WSREP")
}

/// A place in the queue. Dropped before its turn, it leaves the queue and passes on what it may have got.
struct Place<'a> {
    pool: &'a Pool,
    id: u64,
    receiver: oneshot::Receiver<Grant>,
}

impl<'a> Place<'a> {
    fn join(pool: &'a Pool) -> Self {
        let core = &pool.0.core;
        let (sender, receiver) = oneshot::channel();
        let mut queue = core.queue();
        // Under the lock, so that the queue stays in order.
        let id = core.next_waiter.fetch_add(1, Relaxed);
        queue.push_back(Waiter { id, sender });
        core.waiting.fetch_add(1, SeqCst);
        Self { pool, id, receiver }
    }

    async fn wait(mut self, timeout: Option<Duration>) -> Option<Grant> {
        let granted = match timeout {
            Some(timeout) => tokio::time::timeout_at(after(timeout), &mut self.receiver).await.ok()?,
            None => (&mut self.receiver).await,
        };
        granted.ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let core = &self.pool.0.core;
        {
            let mut queue = core.queue();
            // Those who wait stand in the order of their numbers.
            if let Ok(at) = queue.binary_search_by_key(&self.id, |waiter| waiter.id) {
                queue.remove(at);
                core.waiting.fetch_sub(1, SeqCst);
                return;
            }
        }
        self.receiver.close();
        if let Ok(Grant::Conn(pooled)) = self.receiver.try_recv() {
            let shelf = self.pool.shelf();
            shelf.put(pooled);
            self.pool.serve_waiters(&shelf);
        }
    }
}

/// A connection that returns to its pool when it is dropped, if it is idle then: a broken one, or one whose results
/// were not read to their end, is closed.
pub struct PooledConn {
    /// Present until dropped.
    pooled: Option<Box<Pooled>>,
    pool: Pool,
    shelf: Arc<Shelf>,
    is_reused: bool,
}

/// Errors of a server that closed an idle connection before it read the statement: ER_CLIENT_INTERACTION_TIMEOUT.
const CLOSED_BEFORE: u16 = 4031;
/// Errors of a server that is about to close a connection: ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED.
const CLOSED: [u16; 2] = [1053, 1927];

impl PooledConn {
    /// Whether the statement that ended with `error` may run again on another connection: this one lay idle, has died,
    /// and the statement has not run, or does no harm if it did.
    fn may_run_again(&self, error: &QueryError, sql: &[u8]) -> bool {
        let is_dead = match error {
            QueryError::Lost { .. } => true,
            QueryError::Server(error) => error.code == CLOSED_BEFORE || CLOSED.contains(&error.code),
            _ => false,
        };
        if !self.is_reused || !is_dead {
            return false;
        }
        match self.progress() {
            Progress::Unsent => true,
            Progress::Sent => only_reads(sql),
            Progress::Answered => matches!(error, QueryError::Server(error) if error.code == CLOSED_BEFORE),
        }
    }

    /// Closes the connection and makes a new one in its place: it keeps its permit, so nobody is in between.
    async fn replace(self, timeouts: Timeouts, notice: &mut (dyn FnMut(Event<'_>) + '_)) -> Result<Self, QueryError> {
        let server = (self.pool.0.options.mode == PoolMode::Multi).then_some(self.server());
        self.replace_by(server, timeouts, notice).await
    }

    /// The same with a connection to another server.
    async fn replace_elsewhere(
        self,
        timeouts: Timeouts,
        notice: &mut (dyn FnMut(Event<'_>) + '_),
    ) -> Result<Self, QueryError> {
        let server = self.pool.choose(&[self.server()])?;
        self.replace_by(Some(server), timeouts, notice).await
    }

    async fn replace_by(
        mut self,
        server: Option<usize>,
        timeouts: Timeouts,
        notice: &mut (dyn FnMut(Event<'_>) + '_),
    ) -> Result<Self, QueryError> {
        self.shelf.counters.retries.fetch_add(1, Relaxed);
        let pooled = self.pooled.take().expect("present until dropped");
        let (pool, shelf) = (self.pool.clone(), Arc::clone(&self.shelf));
        let Pooled { conn, permit, .. } = *pooled;
        drop(conn);
        pool.connect(permit, shelf, server, timeouts, notice).await
    }

    /// Index of the server in the pool's options.
    pub fn server(&self) -> usize {
        self.pooled.as_ref().map_or(0, |pooled| pooled.server)
    }
}

impl Deref for PooledConn {
    type Target = Conn;
    fn deref(&self) -> &Conn {
        &self.pooled.as_ref().expect("present until dropped").conn
    }
}

impl DerefMut for PooledConn {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.pooled.as_mut().expect("present until dropped").conn
    }
}

impl fmt::Debug for PooledConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConn").field("peer", &self.peer()).finish_non_exhaustive()
    }
}

impl Execute for PooledConn {
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError> {
        let begin = Instant::now();
        let result = Conn::execute(self, statement, sink).await;
        let counters = &self.shelf.counters;
        counters.latency.record(begin.elapsed());
        match &result {
            Ok(()) => self.pooled.iter_mut().for_each(|pooled| pooled.uses += 1),
            Err(_) => drop(counters.query_errors.fetch_add(1, Relaxed)),
        }
        result
    }
}

impl Drop for PooledConn {
    fn drop(&mut self) {
        if let Some(pooled) = self.pooled.take() {
            if self.pool.0.options.reset && pooled.conn.holds_locks() && pooled.conn.is_idle() {
                self.pool.reset_first(pooled, &self.shelf);
            } else {
                self.pool.give_back(pooled, &self.shelf);
            }
        }
    }
}
