//! A worker: one thread with an event loop that accepts connections for the services of its application.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::{Rc, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc::UnboundedReceiver},
    time::Instant,
};

use crate::{
    accept, clock,
    counters::{Counted, Uncounted},
    deadline,
    generations::{self, Control, Ready, WorkerBody, WorkerStart},
    listeners::Listener,
    log::{self, Level},
    memory,
    places::{Newcomer, Place},
    service::{Application, Port, Settings, WorkerEnd},
    sessions::Sessions,
};

/// Time between two searches for time-outs, while there are any. A time-out fires this much too late at most.
const DEADLINE_CHECK: Duration = Duration::from_millis(100);

/// A busy worker looks at the clock once in so many requests.
const CLOCK_REQUESTS: u64 = 16;

/// A worker, as its connections see it.
pub struct Worker {
    /// Number, counted from 0.
    pub id: usize,
    pub(crate) settings: Settings,
    ports: Vec<Port>,
    pub(crate) place: Place,
    pub(crate) sessions: Sessions,
    pub(crate) uncounted: Uncounted,
    /// The next look for time-outs comes later than [`DEADLINE_CHECK`] from now, or never.
    dozes: Cell<bool>,
    /// Work that keeps it from ending.
    held: Cell<usize>,
    quitting: Cell<bool>,
    /// It was told to quit by its own code.
    wants_to_quit: Cell<bool>,
    /// Work that must end before the worker accepts connections.
    setting_up: Cell<usize>,
    changed: Notify,
}

thread_local! {
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
    static QUITTING: Cell<bool> = const { Cell::new(false) };
}

/// The worker whose thread this is.
pub fn current() -> Option<Rc<Worker>> {
    CURRENT.with_borrow(Weak::upgrade)
}

/// Whether the worker whose thread this is accepts no more.
pub fn is_quitting() -> bool {
    QUITTING.get()
}

impl Worker {
    fn new(id: usize, place: Place, application: &dyn Application) -> io::Result<Rc<Self>> {
        let worker = Rc::new(Worker {
            id,
            settings: application.settings(),
            ports: application.ports(),
            place,
            sessions: Sessions::new()?,
            uncounted: Uncounted::default(),
            dozes: Cell::new(true),
            held: Cell::new(0),
            quitting: Cell::new(false),
            wants_to_quit: Cell::new(false),
            setting_up: Cell::new(0),
            changed: Notify::new(),
        });
        CURRENT.set(Rc::downgrade(&worker));
        QUITTING.set(false);
        Ok(worker)
    }

    /// Whether the worker accepts no more (`ngx.worker.exiting`).
    pub fn is_quitting(&self) -> bool {
        self.quitting.get()
    }
    /// Whether this is the agent of [`start_agent`].
    pub fn is_agent(&self) -> bool {
        self.id == AGENT_ID
    }
    /// Lets the worker finish its requests and end. Its place in its generation is filled again.
    pub fn quit_gracefully(&self) {
        self.wants_to_quit.set(true);
        self.changed.notify_waiters();
        self.changed.notify_one();
    }
    /// Keeps the worker from accepting connections while the guard lives; for use in [`Application::begin`].
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
        self.held.set(self.held.get() + 1);
        Hold(self.clone())
    }

    /// Counts a request that begins.
    pub fn count_request(&self) {
        let count = self.uncounted.requests.get() + 1;
        self.uncounted.requests.set(count);
        // A thread that has always something to do does not wake, which is when it would look.
        if count.is_multiple_of(CLOCK_REQUESTS) {
            clock::update();
        }
    }
    /// Adds what this worker counted to [`COUNTERS`](crate::counters::COUNTERS); done a few times a second.
    pub fn publish_counters(&self) {
        self.uncounted.publish();
    }
    /// Counts a connection as reading a request while the guard lives.
    pub fn reading(&self) -> Counted<'_> {
        Counted::new(&self.uncounted.reading)
    }
    /// Counts a connection as waiting for a request while the guard lives.
    pub fn waiting(&self) -> Counted<'_> {
        Counted::new(&self.uncounted.waiting)
    }

    /// The port at this position.
    pub(crate) fn port(&self, position: usize) -> &Port {
        &self.ports[position]
    }

    fn quit(&self) {
        self.quitting.set(true);
        QUITTING.set(true);
        clock::update();
        for talk in self.sessions.talking.borrow().iter().filter_map(|(_, talk)| talk.upgrade()) {
            talk.session().close_when_idle();
        }
        self.quit_parked(clock::steady_ms());
        self.changed.notify_waiters();
    }
    /// Something that kept the worker from ending has gone.
    pub(crate) fn note_end(&self) {
        if self.quitting.get() && self.is_done() {
            self.changed.notify_waiters();
        }
    }
    /// Whether nothing keeps the worker from ending.
    fn is_done(&self) -> bool {
        self.held.get() == 0 && self.sessions.open.get() == 0
    }

    /// When to look for time-outs next, after a look at `last`; `None` when there is nothing to look for.
    fn next_check(&self, last: Instant) -> Option<Instant> {
        let soon = last + DEADLINE_CHECK;
        let has_waits = !self.sessions.talking.borrow().is_empty() || !deadline::is_empty();
        self.dozes.set(!has_waits);
        if has_waits {
            return Some(soon);
        }
        if self.sessions.rush_is_over.take() {
            memory::collect();
        }
        match self.sessions.parked.borrow().earliest_ms() {
            0 => None,
            earliest_ms => {
                let wait = Duration::from_millis(earliest_ms.saturating_sub(clock::steady_ms()));
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

    /// Wakes everything whose time is over.
    fn check_deadlines(self: &Rc<Self>, application: &dyn Application) {
        clock::update();
        self.publish_counters();
        let now_ms = clock::steady_ms();
        deadline::check_all(now_ms);
        application.check_deadlines(now_ms);
        self.check_parked(now_ms);
        self.check_sessions(now_ms);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.publish_counters();
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
        self.0.held.set(self.0.held.get() - 1);
        self.0.note_end();
    }
}

/// The number of the agent.
const AGENT_ID: usize = usize::MAX;

/// Starts a worker beside the others that accepts no connections (`ngx.process.enable_privileged_agent`). It quits with
/// `worker`, which waits for it. `body` is what the other workers do, too.
///
/// # Errors
/// The system refuses a thread.
pub fn start_agent(worker: &Rc<Worker>, body: WorkerBody) -> io::Result<()> {
    let (control, receiver) = tokio::sync::mpsc::unbounded_channel();
    let start = WorkerStart {
        id: AGENT_ID,
        worker_count: 1,
        listeners: Vec::new(),
        place: Place::alone(),
        control: receiver,
        ready: Ready::nobody(),
    };
    let (ended, mut end) = tokio::sync::oneshot::channel();
    generations::spawn_agent(body, start, move || {
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

/// Runs a worker to its end, on the current thread, for an application.
///
/// # Errors
/// A sentence that says why it could not start.
pub async fn run(start: WorkerStart, application: impl Application) -> Result<(), String> {
    let WorkerStart { id, listeners, place, mut control, ready, .. } = start;
    clock::update();
    let worker = Worker::new(id, place, &application)
        .map_err(|error| format!("cannot start an event loop {}", log::SysError(&error)))?;
    application.begin()?;
    while worker.setting_up.get() > 0 {
        tokio::select! {
            () = worker.changed.notified() => {}
            command = control.recv() => match command {
                // What waits is over with the worker; nothing has been accepted.
                Some(Control::Quit | Control::Cut | Control::Stop) | None => {
                    application.end(WorkerEnd::Stopped).await;
                    return Ok(());
                }
            },
        }
    }
    let stop_accepting = start_accepting(&worker, listeners);
    ready.report();
    tokio::task::spawn_local(worker.clone().watch_parked());
    let mut checked = Instant::now();
    loop {
        let next_check = worker.next_check(checked);
        tokio::select! {
            () = wait_until(next_check) => {
                worker.check_deadlines(&application);
                checked = Instant::now();
            }
            command = control.recv() => match command {
                Some(Control::Quit) if !worker.is_quitting() => {
                    stop_accepting();
                    worker.quit();
                }
                Some(Control::Quit) => {}
                command => {
                    worker.drop_all_parked();
                    let is_cut = matches!(command, Some(Control::Cut));
                    application.end(if is_cut { WorkerEnd::Cut } else { WorkerEnd::Stopped }).await;
                    return Ok(());
                }
            },
            () = worker.changed.notified() => {}
        }
        if worker.wants_to_quit.get() && !worker.is_quitting() {
            stop_accepting();
            worker.quit();
        }
        if worker.is_quitting() && worker.is_done() {
            tokio::select! {
                () = application.end(WorkerEnd::Finished) => {}
                () = stopped(&mut control) => {}
            }
            return Ok(());
        }
    }
}

/// Takes clients from now on, those who come to the sockets and those whom others give; what is returned ends that.
fn start_accepting(worker: &Rc<Worker>, listeners: Vec<Listener>) -> impl Fn() {
    let accepting: Vec<_> = listeners
        .into_iter()
        .filter_map(|listener| {
            let port = worker.ports.iter().position(|port| port.address == listener.spec.addr)?;
            Some(tokio::task::spawn_local(accept_loop(worker.clone(), listener, port)))
        })
        .collect();
    tokio::task::spawn_local(worker.clone().take_newcomers(worker.place.open()));
    let worker = worker.clone();
    move || {
        accepting.iter().for_each(tokio::task::JoinHandle::abort);
        worker.place.close();
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

async fn accept_loop(worker: Rc<Worker>, listener: Listener, port: usize) {
    let accepted = async {
        let socket = listener.fd.try_clone()?;
        accept::accept_all(socket, |socket, peer| worker.welcome(Newcomer { socket, peer, port })).await
    };
    if let Err(error) = accepted.await {
        log::note(Level::Alert, format_args!("cannot accept on {}: {error}", listener.spec.addr));
    }
}
