//! A worker: one thread with an event loop, the connections that it accepted, and the memory that they share.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use slab::Slab;
use socket2::SockRef;
use tidegate_reuse::{Keep, Pool, Reset};
use tokio::{
    io::Interest,
    sync::{Notify, mpsc::UnboundedReceiver},
    time::Instant,
};

use crate::{
    client_socket::{self, ClientSocket},
    clock,
    conf::Config,
    connection::{Connection, Peer},
    generations::{Control, WorkerBody, WorkerStart},
    listeners::Listener,
    log::{self, Level},
    module::WorkerEnd,
    parked,
    request::Request,
    serve::{self, serve},
    stream::Stream,
};

/// Time between two searches for time-outs, while there are any. A time-out fires this much too late at most.
const DEADLINE_CHECK: Duration = Duration::from_millis(100);

/// A worker with more connections than this parks them early: what they hold adds up.
const UNPARKED_MAX: usize = 256;

/// Time between two searches for connections to park while many new ones arrive.
const PARK_EARLY_CHECK_MS: u64 = 10;

/// Places of connections that an idle worker keeps.
const CONNECTIONS_KEPT: usize = 1024;

/// Time without a byte after which a worker with more than [`UNPARKED_MAX`] connections parks a connection.
const PARK_EARLY_AFTER_MS: u64 = 20;

/// Connections that are parked or closed in one go. Requests wait meanwhile, and thousands of connections can be due at
/// the same moment when thousands of clients have come at the same moment.
const TURN_MAX: usize = 16;

/// How long accepting pauses when the process has no descriptors left.
///
/// Source: nginx, `accept_mutex_delay`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Connections that are accepted at a time, before those that wait for an answer have their turn.
const ACCEPTED_MAX: usize = 16;

/// Idle connections that are closed at a time when a worker has as many as it may.
///
/// Source: nginx, `ngx_drain_connections`.
const DRAINED_MAX: usize = 32;

/// A busy worker looks at the clock once in so many requests.
const CLOCK_REQUESTS: u64 = 16;

/// Buffers and requests that a worker keeps for reuse.
const SPARES_MAX: usize = 256;

/// Capacity of a new buffer, in bytes.
const BUFFER_BYTES: usize = 1024;

/// A buffer that grew beyond this is given back to the system.
const SPARE_BUFFER_BYTES_MAX: usize = 64 << 10;

/// A worker, as its connections see it.
pub struct Worker {
    /// Number, counted from 0.
    pub id: usize,
    config: Arc<Config>,
    /// Connections that have tasks.
    connections: RefCell<Slab<Weak<Connection>>>,
    /// Connections that have none.
    pub(crate) parked: RefCell<parked::Table>,
    /// When it was last looked for some to park, in milliseconds.
    looked_ms: Cell<u64>,
    /// Connections are being parked, a few at a time.
    parking: Cell<bool>,
    /// Parked connections whose time is over are being ended, a few at a time.
    pub(crate) ending_parked: Cell<bool>,
    /// The next look for time-outs comes later than [`DEADLINE_CHECK`] from now, or never.
    dozes: Cell<bool>,
    /// There were many connections with tasks, and now there is none: memory may go back to the system.
    rush_is_over: Cell<bool>,
    /// Connections that are open now.
    open: Cell<usize>,
    /// Those of them that were told to go, to make room.
    surplus: Cell<usize>,
    /// `worker_connections`
    connections_max: usize,
    /// `park_after`
    park_after_ms: u64,
    /// When it was last noted that idle connections are closed to make room, in milliseconds.
    drained_ms: Cell<u64>,
    active: Cell<usize>,
    /// Requests that are not in [`COUNTERS`] yet: a counter that all workers write to would cost each of them a miss.
    requests_uncounted: Cell<u64>,
    /// Changes that are not in there yet either.
    reading_uncounted: Cell<i64>,
    waiting_uncounted: Cell<i64>,
    quitting: Cell<bool>,
    /// It was told to quit by its own code.
    wants_to_quit: Cell<bool>,
    /// Work that must end before the worker accepts connections.
    setting_up: Cell<usize>,
    changed: Notify,
}

static CONNECTION_NUMBER: AtomicU64 = AtomicU64::new(1);

/// Counters over all workers, as `stub_status` shows them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Requests begun.
    pub requests: AtomicU64,
    /// Connections open.
    pub active: AtomicU64,
    /// Connections on which a part of a head has arrived.
    pub reading: AtomicI64,
    /// Connections that wait for a head.
    pub waiting: AtomicI64,
}

/// The counters of the process.
pub static COUNTERS: Counters = Counters {
    accepted: AtomicU64::new(0),
    requests: AtomicU64::new(0),
    active: AtomicU64::new(0),
    reading: AtomicI64::new(0),
    waiting: AtomicI64::new(0),
};

thread_local! {
    static BUFFERS: Pool<Buffer> = const { Pool::new(SPARES_MAX) };
    static REQUESTS: Pool<Rc<Request>> = const { Pool::new(SPARES_MAX) };
    static NOBODY: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
    static QUITTING: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn next_connection_number() -> u64 {
    CONNECTION_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The connection of requests that belong to nobody.
pub(crate) fn nobody() -> Rc<Connection> {
    NOBODY.with_borrow(Clone::clone).expect("requests are made on threads of workers")
}

/// A request that belongs to nobody yet.
pub(crate) fn take_request() -> Rc<Request> {
    REQUESTS.with(Pool::take)
}

/// Takes a request back, if nobody else has it. The next one, of any connection, finds its memory in the processor's cache.
pub(crate) fn give_request(req: Rc<Request>) {
    REQUESTS.with(|requests| requests.give(req));
}

/// A buffer.
#[derive(Debug)]
struct Buffer(Vec<u8>);

impl Reset for Buffer {
    fn reset(&mut self) -> Keep {
        let Buffer(bytes) = self;
        bytes.clear();
        if (1..=SPARE_BUFFER_BYTES_MAX).contains(&bytes.capacity()) { Keep::Yes } else { Keep::No }
    }
    fn fresh() -> Self {
        Buffer(Vec::with_capacity(BUFFER_BYTES))
    }
}

/// A buffer, empty, with memory.
pub(crate) fn take_buffer() -> Vec<u8> {
    BUFFERS.with(Pool::take).0
}

/// Takes a buffer back.
pub(crate) fn give_buffer(buffer: Vec<u8>) {
    BUFFERS.with(|buffers| buffers.give(Buffer(buffer)));
}

/// The worker whose thread this is.
pub fn current() -> Option<Rc<Worker>> {
    CURRENT.with_borrow(Weak::upgrade)
}

/// Whether the worker whose thread this is accepts no more.
pub(crate) fn is_quitting() -> bool {
    QUITTING.get()
}

impl Worker {
    fn new(id: usize, config: Arc<Config>) -> io::Result<Rc<Self>> {
        NOBODY.set(Some(Rc::new(Connection::nobody(config.clone()))));
        let worker = Rc::new(Worker {
            id,
            connections_max: config.events().connections_max(),
            park_after_ms: config.events().park_after_ms(),
            config,
            connections: RefCell::default(),
            parked: RefCell::new(parked::Table::new()?),
            looked_ms: Cell::new(0),
            parking: Cell::new(false),
            ending_parked: Cell::new(false),
            dozes: Cell::new(true),
            rush_is_over: Cell::new(false),
            open: Cell::new(0),
            surplus: Cell::new(0),
            drained_ms: Cell::new(0),
            active: Cell::new(0),
            requests_uncounted: Cell::new(0),
            reading_uncounted: Cell::new(0),
            waiting_uncounted: Cell::new(0),
            quitting: Cell::new(false),
            wants_to_quit: Cell::new(false),
            setting_up: Cell::new(0),
            changed: Notify::new(),
        });
        CURRENT.set(Rc::downgrade(&worker));
        QUITTING.set(false);
        Ok(worker)
    }

    /// The configuration of the worker.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }
    /// Whether the worker accepts no more (`ngx.worker.exiting`).
    pub fn is_quitting(&self) -> bool {
        self.quitting.get()
    }
    /// Whether this is the agent of [`start_agent`].
    pub fn is_agent(&self) -> bool {
        self.id == AGENT_ID
    }
    /// Lets the worker finish its requests and end. Its place in the server is filled again.
    pub fn quit_gracefully(&self) {
        self.wants_to_quit.set(true);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
    /// Keeps the worker from accepting connections while the guard lives; for use in `init_worker` of a module.
    pub fn set_up(self: &Rc<Self>) -> SettingUp {
        self.setting_up.set(self.setting_up.get() + 1);
        SettingUp(self.clone())
    }
    /// Waits until the worker begins to quit.
    pub async fn quitting(&self) {
        loop {
            let changed = self.changed.notified();
            if self.quitting.get() {
                return;
            }
            changed.await;
        }
    }
    /// Keeps the worker from ending while the guard lives: timers, for example.
    pub fn hold(self: &Rc<Self>) -> Hold {
        self.active.set(self.active.get() + 1);
        Hold(self.clone())
    }

    /// A request for `conn`.
    pub(crate) fn begin_request(&self, conn: &Rc<Connection>) -> Rc<Request> {
        let count = self.requests_uncounted.get() + 1;
        self.requests_uncounted.set(count);
        // A thread that has always something to do does not wake, which is when it would look.
        if count.is_multiple_of(CLOCK_REQUESTS) {
            clock::update();
        }
        let mut req = take_request();
        Rc::get_mut(&mut req).expect("a spare request belongs to nobody").attach(conn.clone());
        req
    }

    /// Adds what this worker counted to [`COUNTERS`]; done a few times a second.
    pub fn publish_counters(&self) {
        COUNTERS.requests.fetch_add(self.requests_uncounted.take(), Ordering::Relaxed);
        COUNTERS.reading.fetch_add(self.reading_uncounted.take(), Ordering::Relaxed);
        COUNTERS.waiting.fetch_add(self.waiting_uncounted.take(), Ordering::Relaxed);
    }
    /// Counts a connection as reading a head while the guard lives.
    pub(crate) fn reading(&self) -> Counted<'_> {
        Counted::new(&self.reading_uncounted)
    }
    /// Counts a connection as waiting for a head while the guard lives.
    pub(crate) fn waiting(&self) -> Counted<'_> {
        Counted::new(&self.waiting_uncounted)
    }

    fn quit(&self) {
        self.quitting.set(true);
        QUITTING.set(true);
        clock::update();
        for conn in self.connections.borrow().iter().filter_map(|(_, conn)| conn.upgrade()) {
            conn.close_when_idle();
        }
        self.quit_parked(clock::now_ms());
        self.changed.notify_waiters();
    }

    fn accept(self: &Rc<Self>, socket: OwnedFd, peer: Peer, listen: usize) {
        clock::update();
        if self.open.get() - self.surplus.get() >= self.connections_max && !self.drain() {
            let count = self.connections_max;
            log::note(Level::Alert, format_args!("{count} worker_connections are not enough"));
            return;
        }
        let stream = match ClientSocket::register(socket) {
            Ok(socket) => Stream::Client(socket),
            Err(error) => {
                return log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error)));
            }
        };
        COUNTERS.accepted.fetch_add(1, Ordering::Relaxed);
        COUNTERS.active.fetch_add(1, Ordering::Relaxed);
        self.open.set(self.open.get() + 1);
        let now_ms = clock::now_ms();
        if self.connections.borrow().len() > UNPARKED_MAX
            && now_ms.saturating_sub(self.looked_ms.get()) >= PARK_EARLY_CHECK_MS
        {
            self.check_connections(now_ms);
        }
        self.start(Connection::new(stream, peer, listen, self.config.clone()));
    }

    /// Makes a parked connection a task again. `expired`: because its time is over.
    pub(crate) fn resume(self: &Rc<Self>, parked: parked::Parked, expired: bool) {
        match Connection::resume(parked, self.config.clone(), self, expired) {
            Ok(conn) => self.start(conn),
            Err(error) => {
                log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error)));
                self.forget_open();
            }
        }
    }

    /// Starts the task of a connection that is counted as open.
    fn start(self: &Rc<Self>, conn: Connection) {
        self.check_from_now_on();
        let conn = Rc::new(conn);
        let key = self.connections.borrow_mut().insert(Rc::downgrade(&conn));
        let task = Task { worker: self.clone(), key, parked: Cell::new(false), surplus: Cell::new(false) };
        tokio::task::spawn_local(async move {
            let mut conn = conn;
            while serve(&conn, &task.worker).await == serve::End::Idle {
                match task.park(conn) {
                    Ok(()) => return,
                    Err(shared) => conn = shared,
                }
            }
            task.surplus.set(conn.surplus.get());
        });
    }

    /// Counts parked connections as waiting for a head or as reading one.
    pub(crate) fn count_parked(&self, is_reading: bool, change: i64) {
        let count = if is_reading { &self.reading_uncounted } else { &self.waiting_uncounted };
        count.set(count.get() + change);
    }
    /// A connection is closed.
    pub(crate) fn forget_open(&self) {
        self.open.set(self.open.get() - 1);
        COUNTERS.active.fetch_sub(1, Ordering::Relaxed);
        self.note_end();
    }
    /// Something that kept the worker from ending has gone.
    fn note_end(&self) {
        if self.quitting.get() && self.is_done() {
            self.changed.notify_waiters();
        }
    }
    /// Whether nothing keeps the worker from ending.
    fn is_done(&self) -> bool {
        self.active.get() == 0 && self.open.get() == 0
    }

    /// Closes some idle connections, those first that are idle for longest; answers whether there were any.
    #[cold]
    fn drain(&self) -> bool {
        enum Idle {
            Serving(Rc<Connection>),
            Parked(usize),
        }
        let mut idle: Vec<_> = {
            let connections = self.connections.borrow();
            let serving = connections.iter().filter_map(|(_, conn)| conn.upgrade()).filter(|conn| conn.is_idle());
            let parked = self.parked.borrow();
            let parked = parked.idle().map(|(since_ms, key)| (since_ms, Idle::Parked(key)));
            serving.map(|conn| (conn.idle_since_ms.get(), Idle::Serving(conn))).chain(parked).collect()
        };
        idle.sort_by_key(|(since_ms, _)| *since_ms);
        idle.truncate((idle.len() / 8).clamp(1, DRAINED_MAX));
        for (_, idle) in &idle {
            match idle {
                Idle::Serving(conn) => {
                    self.surplus.set(self.surplus.get() + 1);
                    conn.give_up();
                }
                Idle::Parked(key) => self.drop_parked(*key),
            }
        }
        let now_ms = clock::now_ms();
        if !idle.is_empty() && now_ms.saturating_sub(self.drained_ms.get()) >= 1000 {
            self.drained_ms.set(now_ms);
            let count = self.connections_max;
            log::note(Level::Warn, format_args!("{count} worker_connections are not enough, reusing connections"));
        }
        !idle.is_empty()
    }

    /// When to look for time-outs next, after a look at `last`; `None` when there is nothing to look for.
    fn next_check(&self, last: Instant) -> Option<Instant> {
        let soon = last + DEADLINE_CHECK;
        let has_waits = !self.connections.borrow().is_empty() || !crate::deadline::is_empty();
        self.dozes.set(!has_waits);
        if has_waits {
            return Some(soon);
        }
        if self.rush_is_over.take() {
            crate::memory::collect();
        }
        match self.parked.borrow().earliest_ms() {
            0 => None,
            earliest_ms => {
                let wait = Duration::from_millis(earliest_ms.saturating_sub(clock::now_ms()));
                Some(soon.max(Instant::now() + wait))
            }
        }
    }
    /// Called when there is something to check.
    pub(crate) fn check_from_now_on(&self) {
        if self.dozes.replace(false) {
            self.changed.notify_waiters();
        }
    }

    /// Wakes connections whose time is over and forgets those that have gone.
    fn check_deadlines(self: &Rc<Self>) {
        clock::update();
        self.publish_counters();
        let now_ms = clock::now_ms();
        crate::deadline::check_all(now_ms);
        crate::upstream::keepalive::sweep(now_ms);
        self.check_parked(now_ms);
        self.check_connections(now_ms);
    }

    /// Wakes connections whose time is over, and those that have waited long enough to be parked.
    fn check_connections(self: &Rc<Self>, now_ms: u64) {
        self.looked_ms.set(now_ms);
        let connections = self.connections.borrow();
        let park_after_ms = if connections.len() > UNPARKED_MAX { PARK_EARLY_AFTER_MS } else { self.park_after_ms };
        let mut quiet = Vec::new();
        for (key, conn) in connections.iter() {
            let Some(conn) = conn.upgrade() else { continue };
            conn.check_deadline(now_ms);
            if !self.parking.get() && conn.is_quiet(now_ms, park_after_ms) {
                quiet.push(key);
            }
        }
        drop(connections);
        self.in_turns(
            |worker| &worker.parking,
            quiet,
            move |worker, key| {
                let conn = worker.connections.borrow().get(key).and_then(Weak::upgrade);
                // Another connection may have the place by now.
                if let Some(conn) = conn.filter(|conn| conn.is_quiet(now_ms, park_after_ms)) {
                    conn.begin_parking();
                }
            },
        );
    }

    /// Does `act` for each of `keys`, [`TURN_MAX`] at a time, with other work in between. Meanwhile `under_way` is set: who
    /// looks for more waits, so that no two such rounds add up.
    pub(crate) fn in_turns(
        self: &Rc<Self>,
        under_way: fn(&Self) -> &Cell<bool>,
        keys: Vec<usize>,
        act: impl Fn(&Rc<Self>, usize) + 'static,
    ) {
        if keys.len() <= TURN_MAX {
            return keys.into_iter().for_each(|key| act(self, key));
        }
        under_way(self).set(true);
        let round = Round { worker: self.clone(), under_way };
        tokio::task::spawn_local(async move {
            for keys in keys.chunks(TURN_MAX) {
                keys.iter().for_each(|key| act(&round.worker, *key));
                tokio::task::yield_now().await;
            }
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.publish_counters();
    }
}

/// A round of [`Worker::in_turns`]: however it ends, another may begin.
struct Round {
    worker: Rc<Worker>,
    under_way: fn(&Worker) -> &Cell<bool>,
}

impl Drop for Round {
    fn drop(&mut self) {
        (self.under_way)(&self.worker).set(false);
    }
}

/// Counts something while it lives.
pub(crate) struct Counted<'w>(&'w Cell<i64>);

impl<'w> Counted<'w> {
    fn new(count: &'w Cell<i64>) -> Self {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The task of a connection, as its worker knows it.
struct Task {
    worker: Rc<Worker>,
    key: usize,
    /// The connection stays open when the task ends.
    parked: Cell<bool>,
    /// It was told to go.
    surplus: Cell<bool>,
}

impl Task {
    /// Puts the connection, on which nothing has happened for a while, into the table of those; it is given back if
    /// somebody else refers to it, who may have plans.
    fn park(&self, conn: Rc<Connection>) -> Result<(), Rc<Connection>> {
        let conn = Rc::try_unwrap(conn)?;
        let deadline_ms = conn.deadline_ms();
        let parked = conn.park().and_then(|parked| {
            let is_reading = !parked.input.is_empty();
            self.worker.parked.borrow_mut().insert(parked, deadline_ms).map(|()| is_reading)
        });
        match parked {
            Ok(is_reading) => {
                self.worker.count_parked(is_reading, 1);
                self.parked.set(true);
            }
            Err(error) => log::note(Level::Alert, format_args!("cannot watch a connection {}", log::SysError(&error))),
        }
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let worker = &self.worker;
        let mut connections = worker.connections.borrow_mut();
        connections.try_remove(self.key);
        if connections.is_empty() && connections.capacity() > CONNECTIONS_KEPT {
            // Nothing holds on to the memory of a rush.
            *connections = Slab::new();
            worker.rush_is_over.set(true);
        }
        drop(connections);
        if self.surplus.get() {
            worker.surplus.set(worker.surplus.get() - 1);
        }
        if !self.parked.get() {
            worker.forget_open();
        }
    }
}

/// Keeps a worker from accepting connections.
pub struct SettingUp(Rc<Worker>);

impl Drop for SettingUp {
    fn drop(&mut self) {
        self.0.setting_up.set(self.0.setting_up.get() - 1);
        self.0.changed.notify_one();
    }
}

/// Keeps a worker from ending.
pub struct Hold(Rc<Worker>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        self.0.note_end();
    }
}

/// The number of the agent.
const AGENT_ID: usize = usize::MAX;

/// Starts a worker beside the others that accepts no connections (`ngx.process.enable_privileged_agent`). It quits with
/// `worker`, which waits for it.
///
/// # Errors
/// The system refuses a thread.
pub fn start_agent(worker: &Rc<Worker>) -> io::Result<()> {
    let (control, receiver) = tokio::sync::mpsc::unbounded_channel();
    let start = WorkerStart {
        id: AGENT_ID,
        worker_count: 1,
        listeners: Vec::new(),
        control: receiver,
        ready: crate::generations::Ready::nobody(),
    };
    let (ended, mut end) = tokio::sync::oneshot::channel();
    crate::generations::spawn_agent(body(worker.config.clone()), start, move || {
        // The worker may have gone first.
        let _ = ended.send(());
    })?;
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        tokio::select! {
            _ = &mut end => return,
            () = worker.quitting() => {}
        }
        let hold = worker.hold();
        // An agent that has gone needs no telling.
        let _ = control.send(Control::Quit);
        let _ = end.await;
        drop(hold);
    });
    Ok(())
}

/// What each worker thread does under `config`.
pub fn body(config: Arc<Config>) -> WorkerBody {
    Arc::new(move |start| Box::pin(run(start, config.clone())))
}

/// Runs a worker to its end, on the current thread.
async fn run(start: WorkerStart, config: Arc<Config>) -> Result<(), String> {
    let WorkerStart { id, listeners, mut control, ready, .. } = start;
    clock::update();
    let worker = Worker::new(id, config.clone())
        .map_err(|error| format!("cannot start an event loop {}", log::SysError(&error)))?;
    config.init_worker()?;
    while worker.setting_up.get() > 0 {
        tokio::select! {
            () = worker.changed.notified() => {}
            command = control.recv() => match command {
                // What waits is over with the worker; nothing has been accepted.
                Some(Control::Quit | Control::Stop) | None => {
                    config.exit_worker(WorkerEnd::Stopped).await;
                    return Ok(());
                }
            },
        }
    }
    let accepting: Vec<_> = listeners
        .into_iter()
        .filter_map(|listener| {
            let index = config.listens.iter().position(|listen| listen.spec.addr == listener.spec.addr)?;
            Some(tokio::task::spawn_local(accept_loop(worker.clone(), listener, index)))
        })
        .collect();
    ready.report();
    tokio::task::spawn_local(worker.clone().watch_parked());
    let mut checked = Instant::now();
    loop {
        let next_check = worker.next_check(checked);
        tokio::select! {
            () = wait_until(next_check) => {
                worker.check_deadlines();
                checked = Instant::now();
            }
            command = control.recv() => match command {
                Some(Control::Quit) if !worker.is_quitting() => {
                    accepting.iter().for_each(tokio::task::JoinHandle::abort);
                    worker.quit();
                }
                Some(Control::Quit) => {}
                Some(Control::Stop) | None => {
                    worker.drop_all_parked();
                    config.exit_worker(WorkerEnd::Stopped).await;
                    return Ok(());
                }
            },
            () = worker.changed.notified() => {}
        }
        if worker.wants_to_quit.get() && !worker.is_quitting() {
            accepting.iter().for_each(tokio::task::JoinHandle::abort);
            worker.quit();
        }
        if worker.is_quitting() && worker.is_done() {
            tokio::select! {
                () = config.exit_worker(WorkerEnd::Finished) => {}
                () = stopped(&mut control) => {}
            }
            return Ok(());
        }
    }
}

/// Waits until then, or forever.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until the worker is told to stop at once.
async fn stopped(control: &mut UnboundedReceiver<Control>) {
    while let Some(Control::Quit) = control.recv().await {}
}

async fn accept_loop(worker: Rc<Worker>, listener: Listener, index: usize) {
    if let Err(error) = accept_all(&worker, &listener, index).await {
        log::note(Level::Alert, format_args!("cannot accept on {}: {error}", listener.spec.addr));
    }
}

async fn accept_all(worker: &Rc<Worker>, listener: &Listener, index: usize) -> io::Result<()> {
    let shared_with = &worker.config.listens[index].shared_with;
    let socket = client_socket::watch(listener.fd.try_clone()?, Interest::READABLE)?;
    loop {
        // Whoever comes from now on is another event.
        socket.readable().await?.clear_ready();
        let mut left = client_socket::waiting(socket.as_fd()).unwrap_or(usize::MAX);
        while left > 0 {
            for _ in 0..left.min(ACCEPTED_MAX) {
                match client_socket::accept(socket.as_fd()) {
                    Ok((client, address)) => {
                        left -= 1;
                        let peer = address.as_socket().map_or(Peer::Unix, Peer::Inet);
                        let index = reached(&client, shared_with).unwrap_or(index);
                        worker.accept(client, peer, index);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        left = 0;
                        break;
                    }
                    Err(error) => pause_after(error).await,
                }
            }
            if left > 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The more exact address, among those that share a socket, that a client has connected to.
fn reached(client: &OwnedFd, shared_with: &[(SocketAddr, usize)]) -> Option<usize> {
    if shared_with.is_empty() {
        return None;
    }
    let reached = SockRef::from(client).local_addr().ok()?.as_socket()?;
    shared_with.iter().find(|(address, _)| *address == reached).map(|(_, index)| *index)
}

/// What fails on one connection leaves the others; what the process lacks comes back after a while.
async fn pause_after(error: io::Error) {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
            log::note(Level::Crit, format_args!("accept4() failed {}", log::SysError(&error)));
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        _ => log::note(Level::Info, format_args!("accept4() failed {}", log::SysError(&error))),
    }
}
