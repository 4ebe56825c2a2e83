//! A worker: one thread with an event loop, the connections that it accepted, and the memory that they share.

use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::OwnedFd,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tidegate_http::RequestHead;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Notify, mpsc::UnboundedReceiver},
};

use crate::{
    clock,
    conf::Config,
    connection::{self, Connection, Peer},
    log::{self, Level},
    module::WorkerEnd,
    request::Request,
    server::{Control, WorkerBody, WorkerStart},
    sockets::{ListenAddr, Listener},
    stream::Stream,
};

/// How often time-outs are looked for, while there are any. They come late by this much at most.
const DEADLINE_CHECK: Duration = Duration::from_millis(100);

/// How long accepting pauses when the process has no descriptors left.
///
/// Source: nginx, `accept_mutex_delay`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Idle connections that are closed at a time when a worker has as many as it may.
///
/// Source: nginx, `ngx_drain_connections`.
const DRAINED_MAX: usize = 32;

/// A busy worker looks at the clock once in so many requests.
const CLOCK_REQUESTS: u64 = 16;

/// Buffers and requests that a worker keeps for reuse.
const SPARES_MAX: usize = 256;

/// A buffer that grew beyond this is given back to the system.
const SPARE_BUFFER_BYTES_MAX: usize = 64 << 10;

/// A worker, as its connections see it.
pub struct Worker {
    /// Number, counted from 0.
    pub id: usize,
    config: Arc<Config>,
    connections: RefCell<Vec<Weak<Connection>>>,
    /// Connections that are open now.
    open: Cell<usize>,
    /// Those of them that were told to go, to make room.
    surplus: Cell<usize>,
    /// `worker_connections`
    connections_max: usize,
    /// When it was last noted that idle connections are closed to make room, in milliseconds.
    drained_ms: Cell<u64>,
    requests: RefCell<Vec<Rc<Request>>>,
    active: Cell<usize>,
    /// Requests that are not in [`COUNTERS`] yet: a counter that all workers write to would cost each of them a miss.
    requests_uncounted: Cell<u64>,
    /// Changes that are not in there yet either.
    reading_uncounted: Cell<i64>,
    waiting_uncounted: Cell<i64>,
    quitting: Cell<bool>,
    /// It was told to quit by its own code.
    wants_to_quit: Cell<bool>,
    changed: Notify,
    nobody: Rc<Connection>,
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
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

pub(crate) fn next_connection_number() -> u64 {
    CONNECTION_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A buffer, empty, with memory.
pub(crate) fn take_buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(1024))
}

/// Takes a buffer back.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > SPARE_BUFFER_BYTES_MAX {
        return;
    }
    buffer.clear();
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < SPARES_MAX {
            buffers.push(buffer);
        }
    });
}

/// The worker whose thread this is.
pub fn current() -> Option<Rc<Worker>> {
    CURRENT.with_borrow(Weak::upgrade)
}

impl Worker {
    fn new(id: usize, config: Arc<Config>) -> Rc<Self> {
        let nobody = Connection::new(Stream::Closed, Peer::Unix, Peer::Unix, 0, config.clone());
        let worker = Rc::new(Worker {
            id,
            connections_max: config.events().connections_max(),
            config,
            connections: RefCell::default(),
            open: Cell::new(0),
            surplus: Cell::new(0),
            drained_ms: Cell::new(0),
            requests: RefCell::default(),
            active: Cell::new(0),
            requests_uncounted: Cell::new(0),
            reading_uncounted: Cell::new(0),
            waiting_uncounted: Cell::new(0),
            quitting: Cell::new(false),
            wants_to_quit: Cell::new(false),
            changed: Notify::new(),
            nobody,
        });
        CURRENT.set(Rc::downgrade(&worker));
        worker
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

    /// A request for `conn`: the one of before if nobody has it any more, else one of the worker's, else a new one.
    pub(crate) fn take_request(&self, conn: &Rc<Connection>, spare: Option<Rc<Request>>) -> Rc<Request> {
        let count = self.requests_uncounted.get() + 1;
        self.requests_uncounted.set(count);
        // A thread that has always something to do does not wake, which is when it would look.
        if count.is_multiple_of(CLOCK_REQUESTS) {
            clock::update();
        }
        if let Some(mut req) = spare
            && let Some(request) = Rc::get_mut(&mut req)
        {
            request.reset();
            return req;
        }
        let mut req = match self.requests.borrow_mut().pop() {
            Some(req) => req,
            None => Request::main_request(conn.clone(), RequestHead::new()),
        };
        let request = Rc::get_mut(&mut req).expect("a spare request belongs to nobody");
        request.conn = conn.clone();
        request.reset();
        req
    }
    /// Takes a request back, if nobody else has it.
    pub(crate) fn give_request(&self, mut req: Rc<Request>) {
        if let Some(request) = Rc::get_mut(&mut req) {
            request.release(self.nobody.clone());
            let mut requests = self.requests.borrow_mut();
            if requests.len() < SPARES_MAX {
                requests.push(req);
            }
        }
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
        clock::update();
        for conn in self.connections.borrow().iter().filter_map(Weak::upgrade) {
            conn.close_when_idle();
        }
        self.changed.notify_waiters();
    }

    fn accept(self: &Rc<Self>, stream: Stream, peer: Peer, local: Peer, listen: usize) {
        clock::update();
        if self.open.get() - self.surplus.get() >= self.connections_max && !self.drain() {
            let count = self.connections_max;
            log::note(Level::Alert, format_args!("{count} worker_connections are not enough"));
            return;
        }
        let open = Open::new(self.clone());
        let conn = Connection::new(stream, peer, local, listen, self.config.clone());
        self.check_from_now_on();
        self.connections.borrow_mut().push(Rc::downgrade(&conn));
        let hold = self.hold();
        let worker = self.clone();
        tokio::task::spawn_local(async move {
            connection::serve(conn.clone(), worker.clone()).await;
            if conn.is_surplus() {
                worker.surplus.set(worker.surplus.get() - 1);
            }
            drop((open, hold));
        });
    }

    /// Closes some idle connections, those first that are idle for longest; answers whether there were any.
    #[cold]
    fn drain(&self) -> bool {
        let connections = self.connections.borrow();
        let mut idle: Vec<_> = connections.iter().filter_map(Weak::upgrade).filter(|conn| conn.is_idle()).collect();
        idle.sort_by_key(|conn| conn.idle_since_ms());
        idle.truncate((idle.len() / 8).clamp(1, DRAINED_MAX));
        self.surplus.set(self.surplus.get() + idle.len());
        idle.iter().for_each(|conn| conn.give_up());
        let now_ms = clock::now_ms();
        if !idle.is_empty() && now_ms.saturating_sub(self.drained_ms.get()) >= 1000 {
            self.drained_ms.set(now_ms);
            let count = self.connections_max;
            log::note(Level::Warn, format_args!("{count} worker_connections are not enough, reusing connections"));
        }
        !idle.is_empty()
    }

    /// Whether the worker need not wake: no connection has been there since the last look, and nobody waits for a peer.
    fn has_nothing_to_check(&self) -> bool {
        self.connections.borrow().is_empty() && crate::deadline::is_empty()
    }
    /// Called before there is something to check.
    pub(crate) fn check_from_now_on(&self) {
        if self.has_nothing_to_check() {
            self.changed.notify_waiters();
        }
    }

    /// Wakes connections whose time is over and forgets those that have gone.
    fn check_deadlines(&self) {
        clock::update();
        self.publish_counters();
        let now_ms = clock::now_ms();
        crate::deadline::check_all(now_ms);
        crate::upstream::keepalive::sweep(now_ms);
        self.connections.borrow_mut().retain(|conn| match conn.upgrade() {
            Some(conn) => {
                conn.check_deadline(now_ms, self);
                true
            }
            None => false,
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.publish_counters();
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

/// An open connection, as its worker and [`COUNTERS`] know it.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: Rc<Worker>) -> Self {
        COUNTERS.accepted.fetch_add(1, Ordering::Relaxed);
        COUNTERS.active.fetch_add(1, Ordering::Relaxed);
        worker.open.set(worker.open.get() + 1);
        Open(worker)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        COUNTERS.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps a worker from ending.
pub struct Hold(Rc<Worker>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.active.set(self.0.active.get() - 1);
        if self.0.active.get() == 0 {
            self.0.changed.notify_waiters();
        }
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
        ready: crate::server::Ready::nobody(),
    };
    let (ended, mut end) = tokio::sync::oneshot::channel();
    crate::server::spawn_agent(body(worker.config.clone()), start, move || {
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

/// Runs a worker to its end, on the current thread, inside a `LocalSet`.
async fn run(start: WorkerStart, config: Arc<Config>) -> Result<(), String> {
    let WorkerStart { id, listeners, mut control, ready, .. } = start;
    clock::update();
    let worker = Worker::new(id, config.clone());
    config.init_worker()?;
    let accepting: Vec<_> = listeners
        .into_iter()
        .filter_map(|listener| {
            let index = config.listens.iter().position(|listen| listen.spec.addr == listener.spec.addr)?;
            Some(tokio::task::spawn_local(accept_loop(worker.clone(), listener, index)))
        })
        .collect();
    ready.report();
    let mut ticks = tokio::time::interval(DEADLINE_CHECK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick(), if !worker.has_nothing_to_check() => worker.check_deadlines(),
            command = control.recv() => match command {
                Some(Control::Quit) if !worker.is_quitting() => {
                    accepting.iter().for_each(tokio::task::JoinHandle::abort);
                    worker.quit();
                }
                Some(Control::Quit) => {}
                Some(Control::Stop) | None => {
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
        if worker.is_quitting() && worker.active.get() == 0 {
            tokio::select! {
                () = config.exit_worker(WorkerEnd::Finished) => {}
                () = stopped(&mut control) => {}
            }
            return Ok(());
        }
    }
}

/// Waits until the worker is told to stop at once.
async fn stopped(control: &mut UnboundedReceiver<Control>) {
    while let Some(Control::Quit) = control.recv().await {}
}

async fn accept_loop(worker: Rc<Worker>, listener: Listener, index: usize) {
    let result = match listener.fd.try_clone() {
        Ok(fd) => match listener.spec.addr {
            ListenAddr::Tcp(_) => accept_tcp(&worker, fd, index).await,
            ListenAddr::Unix(_) => accept_unix(&worker, fd, index).await,
        },
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        log::note(Level::Alert, format_args!("cannot accept on {}: {error}", listener.spec.addr));
    }
}

async fn accept_tcp(worker: &Rc<Worker>, fd: OwnedFd, index: usize) -> io::Result<()> {
    let listener = TcpListener::from_std(fd.into())?;
    let local = Peer::Inet(listener.local_addr()?);
    let shared_with = &worker.config.listens[index].shared_with;
    loop {
        match listener.accept().await {
            Ok((socket, peer)) if shared_with.is_empty() => {
                worker.accept(Stream::Tcp(socket), Peer::Inet(peer), local, index);
            }
            Ok((socket, peer)) => {
                let reached = socket.local_addr().ok();
                let exact = shared_with.iter().find(|(address, _)| Some(*address) == reached);
                let (local, index) = exact.map_or((local, index), |&(address, index)| (Peer::Inet(address), index));
                worker.accept(Stream::Tcp(socket), Peer::Inet(peer), local, index);
            }
            Err(error) => pause_after(error).await,
        }
    }
}

async fn accept_unix(worker: &Rc<Worker>, fd: OwnedFd, index: usize) -> io::Result<()> {
    let listener = UnixListener::from_std(fd.into())?;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => worker.accept(Stream::Unix(socket), Peer::Unix, Peer::Unix, index),
            Err(error) => pause_after(error).await,
        }
    }
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
