//! The writer thread, and the lanes on which lines travel to it.
//!
//! Every thread that logs has a lane of its own: a mutex around two vectors. Nobody else takes that mutex but the
//! writer, and only to swap the vectors for empty ones, so a worker practically never waits. Considered and left: one
//! shared queue (workers wait for each other), a lock-free ring (unsafe code for the same cost).
//!
//! The states of the writer: *awake*, it will look at the lanes within [`PAUSE`]; *parked*, somebody must wake it. A line
//! now and then is written at once: after writing, the writer parks right away as long as it has [`Turns`] left.
//!
//! - W1: the writer declares itself parked before it looks at the lanes for the last time. A worker looks at that
//!   declaration after it has put its line. The lane's mutex orders the two, so one of them sees the other.
//! - W2: whoever swaps a lane's vectors out holds `DRAIN` until the bytes are written: lines of one lane stay in order.
//! - W3: a buffered access log is written when full, when its flush time has come, at reopening and at exit.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::access::BufferLane;
use super::error::{SysError, note, note_in_files};
use super::file::LogFile;
use super::path::PathFiles;
use super::syslog::Server as SyslogServer;
use super::{Level, registry};
use crate::clock;

/// How long the writer rests after writing before it looks again: bounds both the delay of a line and the wake-ups
/// that busy workers pay for.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// Turns without a [`PAUSE`] behind them that a quiet writer has; whoever makes a few requests finds their lines.
const QUICK_TURNS_MAX: u32 = 64;

/// Time in which a turn comes back: busy workers pay for this few wake-ups and no more.
const QUICK_TURN_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes waiting on one lane, at most. A disk that stands still for longer than this lasts loses lines, not memory.
const LANE_BYTES_MAX: usize = 4 << 20;

/// Capacity that an emptied lane keeps.
const LANE_BYTES_KEPT: usize = 64 << 10;

/// A full disk is reported once in this time, as nginx does.
const FAILURE_INTERVAL: Duration = Duration::from_secs(60);

/// So many lines that syslog servers did not get are told in a second.
const UNSENT_A_SECOND_MAX: u32 = 16;

/// Lost lines are reported once in this time.
const LOST_INTERVAL: Duration = Duration::from_secs(1);

/// How long [`flush`] waits for a writer that hangs in a system call.
const FLUSH_WAIT_MAX: Duration = Duration::from_millis(500);

static RUNNING: AtomicBool = AtomicBool::new(false);
static PARKED: AtomicBool = AtomicBool::new(false);
static THREAD: OnceLock<Thread> = OnceLock::new();
/// Lines for [computed paths](Target::Path) that found no room.
static LOST_TO_PATHS: AtomicU64 = AtomicU64::new(0);
static SOURCES: Mutex<Vec<Source>> = Mutex::new(Vec::new());
static DRAIN: Mutex<Drain> = Mutex::new(Drain {
    spare: Queue::EMPTY,
    scratch: Vec::new(),
    failure_last: None,
    unsent: Unsent::NONE,
    lost_last: None,
});

/// What the writer empties.
enum Source {
    Lane(Arc<Lane>),
    Buffer(Arc<BufferLane>),
}

#[derive(Default)]
struct Lane {
    queue: Mutex<Queue>,
}

/// Lines one after the other in `bytes`; `records` says where each run of them goes.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Queue {
    const EMPTY: Self = Self { bytes: Vec::new(), records: Vec::new() };
}

struct Record {
    target: Target,
    level: Option<Level>,
    size: usize,
}

enum Target {
    File(Arc<LogFile>),
    /// The record begins with a path of `path_size` bytes.
    Path {
        files: Arc<PathFiles>,
        path_size: usize,
    },
}

/// What is needed while draining.
struct Drain {
    spare: Queue,
    scratch: Vec<u8>,
    failure_last: Option<Instant>,
    unsent: Unsent,
    lost_last: Option<Instant>,
}

/// Lines of the last second that syslog servers did not get.
struct Unsent {
    since: Option<Instant>,
    told: u32,
}

impl Unsent {
    const NONE: Self = Self { since: None, told: 0 };

    /// Whether one more may be told; it then counts as told.
    fn may_be_told(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            *self = Self { since: Some(now), told: 0 };
        }
        self.told += 1;
        self.told <= UNSENT_A_SECOND_MAX
    }
}

thread_local! {
    static LANE: RefCell<Option<Arc<Lane>>> = const { RefCell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the writer thread of this process; from now on logging does no system calls of its own.
///
/// Called after the last fork, because threads do not survive one. Calling it again does nothing.
///
/// # Errors
/// The system refuses a thread.
pub fn start_writer() -> io::Result<()> {
    if RUNNING.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let spawned = std::thread::Builder::new().name("log".to_owned()).spawn(run);
    match spawned {
        Ok(handle) => {
            // Set by `run` as well; either value is the same thread.
            let _ = THREAD.set(handle.thread().clone());
            Ok(())
        }
        Err(error) => {
            RUNNING.store(false, Ordering::SeqCst);
            Err(error)
        }
    }
}

/// How many more times the writer may park right after writing.
struct Turns {
    left: u32,
    counted: Instant,
}

impl Turns {
    fn take(&mut self) -> bool {
        let back = self.counted.elapsed().as_nanos() / QUICK_TURN_INTERVAL.as_nanos();
        if back > 0 {
            let back = u32::try_from(back).unwrap_or(u32::MAX);
            (self.left, self.counted) = (self.left.saturating_add(back).min(QUICK_TURNS_MAX), Instant::now());
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

fn run() {
    let _ = THREAD.set(std::thread::current());
    let mut turns = Turns { left: QUICK_TURNS_MAX, counted: Instant::now() };
    loop {
        clock::update();
        let (wrote, _) = drain(&mut lock(&DRAIN), Force::No);
        if wrote && !turns.take() {
            std::thread::park_timeout(PAUSE);
            continue;
        }
        PARKED.store(true, Ordering::SeqCst); // W1
        clock::update();
        let (wrote, deadline) = drain(&mut lock(&DRAIN), Force::No);
        if wrote {
            PARKED.store(false, Ordering::SeqCst);
            continue;
        }
        while PARKED.load(Ordering::SeqCst) {
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => break,
                Some(wait) => std::thread::park_timeout(wait),
            }
        }
        PARKED.store(false, Ordering::SeqCst);
    }
}

/// Wakes the writer if it is parked.
pub(super) fn wake() {
    if PARKED.load(Ordering::SeqCst)
        && PARKED.swap(false, Ordering::SeqCst)
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

/// Whether lines go through the writer.
pub(super) fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Makes the writer look at a buffered access log from now on.
pub(super) fn add_buffer(buffer: Arc<BufferLane>) {
    lock(&SOURCES).push(Source::Buffer(buffer));
}

/// Hands over one line for a file, or writes it when there is no writer.
pub(super) fn submit(file: &Arc<LogFile>, level: Option<Level>, line: &[u8]) {
    let queued = with_queue(|queue| {
        if queue.bytes.len() + line.len() > LANE_BYTES_MAX {
            file.count_lost(1);
            return;
        }
        queue.bytes.extend_from_slice(line);
        match queue.records.last_mut() {
            Some(Record { target: Target::File(last), size, .. })
                if Arc::ptr_eq(last, file) && !file.is_datagrams() =>
            {
                *size += line.len();
            }
            _ => queue.records.push(Record { target: Target::File(Arc::clone(file)), level, size: line.len() }),
        }
    });
    if queued.is_none() {
        // The loss is counted in the file; there is nobody else to tell.
        let _ = file.write_now(level, line);
    }
}

/// Hands over one line for a computed path, or writes it when there is no writer.
pub(super) fn submit_to_path(files: &Arc<PathFiles>, path: &[u8], line: &[u8]) {
    let queued = with_queue(|queue| {
        let size = path.len() + line.len();
        if queue.bytes.len() + size > LANE_BYTES_MAX {
            LOST_TO_PATHS.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes.extend_from_slice(path);
        queue.bytes.extend_from_slice(line);
        let target = Target::Path { files: Arc::clone(files), path_size: path.len() };
        queue.records.push(Record { target, level: None, size });
    });
    if queued.is_none()
        && let Err(error) = files.write(path, line)
    {
        report_path_failure(path, &error);
    }
}

/// Puts something into this thread's lane and wakes the writer; `None` if there is no writer, or the thread is ending.
fn with_queue(put: impl FnOnce(&mut Queue)) -> Option<()> {
    if !is_running() {
        return None;
    }
    LANE.try_with(|lane| {
        let mut lane = lane.borrow_mut();
        let lane = lane.get_or_insert_with(|| {
            let lane = Arc::new(Lane::default());
            lock(&SOURCES).push(Source::Lane(Arc::clone(&lane)));
            lane
        });
        put(&mut lock(&lane.queue));
    })
    .ok()?;
    wake();
    Some(())
}

/// Writes everything that was handed over before this call, on the calling thread.
///
/// Gives up after half a second when the writer hangs in a system call, since the callers are ending the process.
pub fn flush() {
    if !is_running() {
        return;
    }
    let give_up = Instant::now() + FLUSH_WAIT_MAX;
    loop {
        match DRAIN.try_lock() {
            Ok(mut state) => {
                drain(&mut state, Force::Yes);
                return;
            }
            Err(TryLockError::Poisoned(poisoned)) => {
                drain(&mut poisoned.into_inner(), Force::Yes);
                return;
            }
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => std::thread::sleep(PAUSE / 4),
            Err(TryLockError::WouldBlock) => return,
        }
    }
}

/// Whether buffers are written before they are due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    Yes,
    No,
}

/// Empties every source. Returns whether anything was written and when the next buffer falls due.
fn drain(state: &mut Drain, force: Force) -> (bool, Option<Instant>) {
    let mut wrote = false;
    let mut deadline: Option<Instant> = None;
    let mut sources = std::mem::take(&mut *lock(&SOURCES));
    let now = Instant::now();
    for source in &sources {
        match source {
            Source::Lane(lane) => wrote |= drain_lane(state, lane),
            Source::Buffer(buffer) => match buffer.take_due(now, force, &mut state.scratch) {
                Ok(()) => {
                    wrote = true;
                    write_buffer(state, buffer);
                }
                Err(None) => {}
                Err(Some(due)) => deadline = Some(deadline.map_or(due, |other| other.min(due))),
            },
        }
    }
    // Lanes of threads that ended go once they are empty; this pass emptied them.
    sources.retain(|source| match source {
        Source::Lane(lane) => Arc::strong_count(lane) > 1 || !lock(&lane.queue).records.is_empty(),
        Source::Buffer(buffer) => Arc::strong_count(buffer) > 1 || !buffer.is_empty(),
    });
    let mut shared = lock(&SOURCES);
    sources.append(&mut shared);
    *shared = sources;
    drop(shared);
    report_lost(state, now);
    (wrote, deadline)
}

fn drain_lane(state: &mut Drain, lane: &Lane) -> bool {
    let mut queue = std::mem::take(&mut state.spare);
    {
        let mut theirs = lock(&lane.queue);
        if theirs.records.is_empty() {
            state.spare = queue;
            return false;
        }
        std::mem::swap(&mut *theirs, &mut queue);
    }
    let mut rest = &queue.bytes[..];
    for record in &queue.records {
        let (bytes, after) = rest.split_at(record.size);
        rest = after;
        match &record.target {
            Target::File(file) => {
                if let Err(error) = file.write_now(record.level, bytes) {
                    match file.syslog_server() {
                        Some(server) => report_unsent(&mut state.unsent, server, &error),
                        None => report_failure(&mut state.failure_last, format_args!("write() to \"{file}\""), &error),
                    }
                }
            }
            Target::Path { files, path_size } => {
                let (path, line) = bytes.split_at(*path_size);
                if let Err(error) = files.write(path, line) {
                    report_path_failure(path, &error);
                }
            }
        }
    }
    queue.bytes.clear();
    queue.records.clear();
    queue.bytes.shrink_to(LANE_BYTES_KEPT);
    state.spare = queue;
    true
}

fn write_buffer(state: &mut Drain, buffer: &BufferLane) {
    if let Err(error) = buffer.write(&state.scratch) {
        let what = format_args!("write() to \"{}\"", buffer.file());
        report_failure(&mut state.failure_last, what, &error);
    }
    state.scratch.clear();
}

#[cold]
fn report_failure(last: &mut Option<Instant>, what: std::fmt::Arguments<'_>, error: &io::Error) {
    let now = Instant::now();
    if last.is_none_or(|last| now.duration_since(last) >= FAILURE_INTERVAL) {
        *last = Some(now);
        note(Level::Alert, format_args!("{what} failed {}", SysError(error)));
    }
}

/// Tells of a line that a syslog server did not get, as nginx does. A server that is away is nothing that this machine does wrong.
#[cold]
fn report_unsent(unsent: &mut Unsent, server: &SyslogServer, error: &io::Error) {
    if unsent.may_be_told() {
        let failure = SysError(error);
        note_in_files(Level::Error, format_args!("send() failed {failure} while logging to syslog, server: {server}"));
    }
}

#[cold]
fn report_path_failure(path: &[u8], error: &io::Error) {
    let path = String::from_utf8_lossy(path);
    note(Level::Crit, format_args!("open() \"{path}\" failed {}", SysError(error)));
}

fn report_lost(state: &mut Drain, now: Instant) {
    if state.lost_last.is_some_and(|last| now.duration_since(last) < LOST_INTERVAL) {
        return;
    }
    state.lost_last = Some(now);
    match LOST_TO_PATHS.swap(0, Ordering::Relaxed) {
        0 => {}
        lines => note(Level::Alert, format_args!("{lines} lines for logs with computed paths were lost")),
    }
    registry::each_lossy(|file, lines| {
        note(Level::Alert, format_args!("{lines} lines for log \"{file}\" were lost: it took no more"));
    });
}
