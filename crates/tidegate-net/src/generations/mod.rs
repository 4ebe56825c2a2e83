//! The worker threads of a process: started, replaced when they die, exchanged at a reload, ended.
//!
//! A *generation* is the set of workers that one configuration runs on. It goes through these states:
//!
//! ```text
//! starting ──all ready──► serving ──quit, or the next generation serves──► quitting ──► gone
//!    └──one failed──► gone (the generation before it goes on serving)
//! ```
//!
//! - G1: a generation quits only when its successor is ready, so somebody accepts at any time during a reload.
//! - G2: one generation at most is starting and one at most is serving; any number may be quitting.
//! - G3: a worker that panics while serving is replaced, not sooner than [`RESTART_PAUSE`] after it was started.
//!
//! The owner polls [`Generations::fd`] beside its signals and calls [`Generations::turn`] when it is readable or when
//! [`Generations::deadline`] has passed. Nothing here blocks.
//!
//! What this does not know: configuration. A worker's body is a function.

pub mod affinity;

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::LocalOptions;
use tokio::sync::mpsc as channel;

use self::affinity::CpuSet;
use crate::listeners::{Listener, Sockets};
use crate::log::{Level, SysError, note};
use crate::places::{Place, Places};

/// A worker that dies again and again is started at most once in this time.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long workers may take to notice that they are to stop at once; nginx kills its own after the same time.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Stack of a worker thread: the main thread's usual size, since handlers of nested requests nest.
const STACK_BYTES: usize = 8 << 20;

static REPLACES_ANOTHER: AtomicBool = AtomicBool::new(false);

/// Notes that this process was started by the binary before it, which still serves.
pub fn set_replaces_another() {
    REPLACES_ANOTHER.store(true, Ordering::Relaxed);
}

/// Whether this process was started by the binary before it: what both need at once may be free only when that one
/// has ended.
pub fn replaces_another() -> bool {
    REPLACES_ANOTHER.load(Ordering::Relaxed)
}

/// Orders to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Close the listeners and idle connections now, finish the requests, then return.
    Quit,
    /// The time for finishing requests is over: log those that are left, then return.
    Cut,
    /// Return now.
    Stop,
}

/// The things that a worker starts with.
pub struct WorkerStart {
    /// Its number, from 0, stable over restarts and reloads.
    pub id: usize,
    /// Number of workers.
    pub worker_count: usize,
    /// Listening sockets that it accepts connections from.
    pub listeners: Vec<Listener>,
    /// Its place among the workers of its generation.
    pub place: Place,
    /// Orders to the worker; the channel is closed only when the process ends.
    pub control: channel::UnboundedReceiver<Control>,
    /// To be called once the worker can serve.
    pub ready: Ready,
}

/// Says that a worker is ready. A worker that returns without it failed to start.
pub struct Ready(Box<dyn FnOnce() + Send>);

impl Ready {
    /// Tells nobody.
    pub fn nobody() -> Self {
        Self(Box::new(|| {}))
    }
    /// The worker serves from now on.
    pub fn report(self) {
        (self.0)();
    }
}

/// A worker's whole life as a future on its own thread. `Err` says in a sentence why it could not start.
pub type WorkerFuture = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// Makes a worker; runs on the worker's thread, inside its runtime.
pub type WorkerBody = Arc<dyn Fn(WorkerStart) -> WorkerFuture + Send + Sync>;

/// The workers that a generation starts.
#[derive(Clone)]
pub struct Workers {
    /// The code that each worker runs.
    pub body: WorkerBody,
    /// Number of workers.
    pub count: usize,
    /// Processors of the workers: one set for each, the last for the rest; empty for anywhere.
    pub affinity: Vec<CpuSet>,
    /// How long requests may take to finish when this generation quits; forever without it.
    pub shutdown_timeout: Option<Duration>,
}

/// Events that the owner waits for.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The generation that was started last serves; its predecessor quits.
    Serving,
    /// The generation that was started last could not start, and why. Its predecessor, if any, goes on.
    StartFailed(String),
    /// No worker is left.
    Finished,
}

/// The workers of a process.
pub struct Generations {
    generations: Vec<Generation>,
    number_next: u64,
    events: mpsc::Receiver<Event>,
    sender: Sender,
    /// [`Self::quit`] or [`Self::stop`] was called: nothing is started any more.
    ending: bool,
}

struct Generation {
    number: u64,
    state: State,
    workers: Workers,
    sockets: Sockets,
    places: Places,
    seats: Vec<Seat>,
    /// When stragglers are told to stop, and after that, are given up.
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Serving,
    Quitting,
    Stopping,
}

/// A worker's place in its generation.
struct Seat {
    control: channel::UnboundedSender<Control>,
    thread: Option<JoinHandle<()>>,
    ready: bool,
    started: Instant,
    /// When a replacement is due.
    restart: Option<Instant>,
}

struct Event {
    generation: u64,
    id: usize,
    what: What,
}

enum What {
    Ready,
    Ended(Ended),
}

enum Ended {
    Returned,
    Failed(String),
    Panicked,
}

/// The workers' way back: a queue, and a descriptor that becomes readable.
#[derive(Clone)]
struct Sender {
    events: mpsc::Sender<Event>,
    wake: Arc<OwnedFd>,
}

impl Sender {
    fn send(&self, event: Event) {
        // The receiver is gone only when the process ends.
        let _ = self.events.send(event);
        let one = 1u64;
        // SAFETY: the descriptor is open, and eight bytes of a live integer are read.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }
}

impl Generations {
    /// No workers yet.
    ///
    /// # Errors
    /// The system gives no event descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes two integers and returns a new descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let wake = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let (sender, events) = mpsc::channel();
        let sender = Sender { events: sender, wake };
        Ok(Self { generations: Vec::new(), number_next: 1, events, sender, ending: false })
    }

    /// Readable when [`Self::turn`] has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.sender.wake.as_fd()
    }

    /// Starts a generation: the first one, or the one of a reload.
    ///
    /// [`Self::turn`] says later how it went. A generation that was still starting is given up for this one.
    ///
    /// # Errors
    /// The system refuses a thread; nothing has changed then.
    pub fn start(&mut self, workers: Workers, sockets: Sockets) -> io::Result<()> {
        if self.ending {
            return Ok(());
        }
        // Some of its workers may have accepted connections while the others still start.
        let starting = self.generations.iter_mut().filter(|generation| generation.state == State::Starting);
        starting.for_each(Generation::quit);
        let number = self.number_next;
        self.number_next += 1;
        let count = workers.count.max(1);
        let mut generation = Generation {
            number,
            state: State::Starting,
            workers,
            sockets,
            places: Places::new(count),
            seats: Vec::with_capacity(count),
            deadline: None,
        };
        for id in 0..count {
            match generation.spawn(id, &self.sender) {
                Ok(seat) => generation.seats.push(seat),
                Err(error) => {
                    generation.stop();
                    self.generations.push(generation);
                    return Err(error);
                }
            }
        }
        self.generations.push(generation);
        Ok(())
    }

    /// Lets all workers finish their requests and go.
    pub fn quit(&mut self) {
        self.ending = true;
        for generation in &mut self.generations {
            match generation.state {
                State::Starting | State::Serving => generation.quit(),
                State::Quitting | State::Stopping => {}
            }
        }
    }

    /// Makes all workers go now.
    pub fn stop(&mut self) {
        self.ending = true;
        for generation in &mut self.generations {
            generation.stop();
        }
    }

    /// Whether workers accept connections.
    pub fn is_serving(&self) -> bool {
        self.generations.iter().any(|generation| generation.state == State::Serving)
    }

    /// Whether any worker is left, starting and quitting ones included.
    pub fn has_workers(&self) -> bool {
        !self.generations.is_empty()
    }

    /// When [`Self::turn`] wants to be called, whatever happens.
    pub fn deadline(&self) -> Option<Instant> {
        let restarts = |generation: &Generation| generation.seats.iter().filter_map(|seat| seat.restart).min();
        self.generations
            .iter()
            .filter_map(|generation| generation.deadline.into_iter().chain(restarts(generation)).min())
            .min()
    }

    /// Takes note of what the workers reported and does what has fallen due.
    pub fn turn(&mut self) -> Vec<Outcome> {
        let mut count = 0u64;
        // SAFETY: the descriptor is open, and eight bytes of a live integer are written.
        unsafe { libc::read(self.sender.wake.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        let mut outcomes = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            self.note_event(event, &mut outcomes);
        }
        self.do_what_is_due();
        let had_any = !self.generations.is_empty();
        self.generations
            .retain(|generation| generation.seats.iter().any(|seat| seat.thread.is_some() || seat.restart.is_some()));
        if had_any && self.generations.is_empty() && (self.ending || outcomes.is_empty()) {
            outcomes.push(Outcome::Finished);
        }
        outcomes
    }

    fn note_event(&mut self, event: Event, outcomes: &mut Vec<Outcome>) {
        let Event { generation: number, id, what } = event;
        let Some(index) = self.generations.iter().position(|generation| generation.number == number) else { return };
        let generation = &mut self.generations[index];
        match what {
            What::Ready => {
                generation.seats[id].ready = true;
                if generation.state == State::Starting && generation.seats.iter().all(|seat| seat.ready) {
                    generation.state = State::Serving;
                    outcomes.push(Outcome::Serving);
                    let older = self.generations.iter_mut().filter(|other| other.number != number);
                    older.filter(|other| other.state == State::Serving).for_each(Generation::quit); // G1
                }
            }
            What::Ended(ended) => {
                if let Some(thread) = generation.seats[id].thread.take() {
                    // The thread has sent its last message; this waits for its end only.
                    let _ = thread.join();
                }
                match (generation.state, ended) {
                    (State::Starting, ended) => {
                        outcomes.push(Outcome::StartFailed(ended.reason(id)));
                        generation.quit();
                    }
                    (State::Serving, ended) => {
                        // A worker may end by itself when a script says so (`ngx.process.signal_graceful_exit`).
                        let level = if matches!(ended, Ended::Returned) { Level::Notice } else { Level::Alert };
                        note(level, format_args!("{}, it is replaced", ended.reason(id)));
                        let seat = &mut generation.seats[id];
                        seat.restart = Some(Instant::now().max(seat.started + RESTART_PAUSE)); // G3
                    }
                    (State::Quitting | State::Stopping, Ended::Panicked) => {
                        note(Level::Alert, format_args!("{} while it shut down", Ended::Panicked.reason(id)));
                    }
                    (State::Quitting | State::Stopping, _) => {}
                }
            }
        }
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        for generation in &mut self.generations {
            if generation.deadline.is_some_and(|deadline| deadline <= now) {
                if generation.state == State::Stopping {
                    generation.give_up();
                } else {
                    generation.end_by(Control::Cut);
                }
            }
            for id in 0..generation.seats.len() {
                if generation.seats[id].restart.is_some_and(|due| due <= now) {
                    match generation.spawn(id, &self.sender) {
                        Ok(seat) => generation.seats[id] = seat,
                        Err(error) => {
                            note(Level::Alert, format_args!("cannot start a worker thread {}", SysError(&error)));
                            generation.seats[id].restart = Some(now + RESTART_PAUSE);
                        }
                    }
                }
            }
        }
    }
}

impl Ended {
    fn reason(self, id: usize) -> String {
        match self {
            Self::Returned => format!("worker {id} ended"),
            Self::Failed(reason) => reason,
            Self::Panicked => format!("worker {id} panicked"),
        }
    }
}

impl Generation {
    fn tell(&mut self, control: Control) {
        for seat in &mut self.seats {
            seat.restart = None;
            // A worker that is gone needs no telling.
            let _ = seat.control.send(control);
        }
        // Workers hold their own descriptors until they have noticed; the last one to close frees the port.
        self.sockets = Sockets::default();
    }

    fn quit(&mut self) {
        self.tell(Control::Quit);
        self.state = State::Quitting;
        self.deadline = self.workers.shutdown_timeout.map(|timeout| Instant::now() + timeout);
    }

    fn stop(&mut self) {
        self.end_by(Control::Stop);
    }

    /// Tells the workers to return, by one of the orders to do so soon.
    fn end_by(&mut self, order: Control) {
        if self.state != State::Stopping {
            self.tell(order);
            self.state = State::Stopping;
            self.deadline = Some(Instant::now() + STOP_WAIT_MAX);
        }
    }

    /// Forgets threads that do not end; the process can end without them.
    fn give_up(&mut self) {
        self.deadline = None;
        for (id, seat) in self.seats.iter_mut().enumerate() {
            if seat.thread.take().is_some() {
                note(Level::Alert, format_args!("worker {id} does not stop, it is left behind"));
            }
        }
    }

    fn spawn(&self, id: usize, sender: &Sender) -> io::Result<Seat> {
        let (control, control_receiver) = channel::unbounded_channel();
        let number = self.number;
        let ready = {
            let sender = sender.clone();
            Ready(Box::new(move || sender.send(Event { generation: number, id, what: What::Ready })))
        };
        let worker_count = self.workers.count.max(1);
        let listeners = self.sockets.for_worker(id, worker_count);
        let start =
            WorkerStart { id, worker_count, listeners, place: self.places.place(id), control: control_receiver, ready };
        let body = Arc::clone(&self.workers.body);
        let cpus = self.workers.affinity.get(id).or(self.workers.affinity.last()).cloned();
        let sender = sender.clone();
        let run = move || {
            if let Some(Err(error)) = cpus.map(|cpus| cpus.apply()) {
                note(Level::Alert, format_args!("sched_setaffinity() failed {}", SysError(&error)));
            }
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| run_worker(&body, start)));
            let ended = ended.unwrap_or(Ended::Panicked);
            sender.send(Event { generation: number, id, what: What::Ended(ended) });
        };
        let thread = std::thread::Builder::new().name(format!("worker {id}")).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Seat { control, thread: Some(thread), ready: false, started: Instant::now(), restart: None })
    }
}

/// Runs one worker without listeners on this thread, until it ends.
///
/// # Errors
/// A sentence that says why it could not start.
pub fn run_alone(body: WorkerBody) -> Result<(), String> {
    let (control, receiver) = channel::unbounded_channel();
    let start = WorkerStart {
        id: 0,
        worker_count: 1,
        listeners: Vec::new(),
        place: Place::alone(),
        control: receiver,
        ready: Ready::nobody(),
    };
    let ended = run_worker(&body, start);
    drop(control);
    match ended {
        Ended::Returned => Ok(()),
        ended => Err(ended.reason(0)),
    }
}

/// Runs a worker that belongs to no generation on a thread of its own; `ended` is called when it is over.
///
/// # Errors
/// The system refuses a thread.
pub fn spawn_agent(body: WorkerBody, start: WorkerStart, ended: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| run_worker(&body, start)));
        match result.unwrap_or(Ended::Panicked) {
            Ended::Returned => {}
            Ended::Failed(reason) => note(Level::Alert, format_args!("{reason}")),
            Ended::Panicked => note(Level::Alert, format_args!("privileged agent panicked")),
        }
        ended();
    };
    std::thread::Builder::new().name("agent".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(())
}

fn run_worker(body: &WorkerBody, start: WorkerStart) -> Ended {
    // The time stands still while tasks run and is read when the thread wakes, as in nginx.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = match builder.enable_all().on_thread_unpark(crate::clock::update).build_local(LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => return Ended::Failed(format!("cannot start an event loop {}", SysError(&error))),
    };
    let result = runtime.block_on(body(start));
    // A look-up or a file on the blocking pool may hang; nobody waits for it any more.
    runtime.shutdown_background();
    match result {
        Ok(()) => Ended::Returned,
        Err(reason) => Ended::Failed(reason),
    }
}

#[cfg(test)]
mod tests;
