//! The engine's threads: one makes commits durable, one moves the WAL into the database file, one makes statistics
//! ([`statistics`]).
//!
//! A commit writes its WAL frames without waiting for the disk and takes a ticket. The sync thread calls `fdatasync` on the
//! WAL and releases all tickets that were taken before the call, so that commits of many sessions share one wait.
//! Whoever waits for a commit waits for that thread to wake as well, twice: it asks to be woken promptly ([`mod@slice`]).
//! After a failed `fdatasync` nobody can tell what reached the disk: the schema refuses writes until it is opened again.

mod slice;
mod statistics;

use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::CString,
    fs::File,
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    task::Waker,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use libsqlite3_sys as ffi;

use crate::{
    directory::Directory,
    other_programs,
    schema::{Schema, transactions::Transactions},
    settings::Settings,
    store::{
        conn::Conn,
        disk::{self, Change},
        identity::Identity,
        pace,
        reserve::{self, Space},
        room::Room,
        vfs,
    },
};

/// How often the WAL moves into the database file.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(100);
/// A schema to which nobody has written for this long is not watched any more: its files are closed.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// With more than that, those are given up that have nothing to do.
const WATCHED_MAX: usize = 128;
/// Logs that the sync thread keeps open; opening one again costs a sync of its directory.
const LOGS_MAX: usize = 256;
/// How often the files of schemas that nobody writes to are looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a page in the WAL, with its head.
const FRAME_BYTES: u64 = 4096 + 24;
/// A WAL that has grown to this part of what it may is to start over: writers pause for it. 64 MiB with the default.
const START_OVER_PART: u64 = 16;
/// What a log keeps of a scarce disk, at least, and as a part of the disk: whoever wants to delete needs it.
const KEPT_MIN: u64 = 1 << 20;
const KEPT_PART: u64 = 16;
/// How long writers are paused for that at most, the first time: readers that began before must have ended. The larger
/// the WAL the longer the pause, so that statements that are short but many do not keep it for good.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Only who has been reading for this long is ended for the sake of the WAL: others end within a pause.
const LONG_READ: Duration = Duration::from_secs(1);
/// Between two looks whether the readers have ended.
const PAUSE_STEP: Duration = Duration::from_micros(500);
/// How long writers are left alone after a pause that was in vain.
const PAUSE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a statement that was ended has to notice, before another one is ended.
const READER_ENDS: Duration = Duration::from_millis(50);
/// How much longer writers are paused for a full WAL: all who read when the pause began have been reading for long by then.
const FULL_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The threads; they end when this is dropped.
pub(crate) struct Background {
    /// `None` when they are to end.
    requests: Option<Requests>,
    statistics: Option<Sender<Arc<Schema>>>,
    threads: Vec<JoinHandle<()>>,
}

/// How work comes to the threads that write to the disk.
#[derive(Clone)]
pub(super) struct Requests {
    sync: Sender<Arc<Schema>>,
    checkpoint: Sender<Arc<Schema>>,
}

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's, when it has no thread to give.
    pub(crate) fn start(
        settings: &Arc<Settings>,
        directory: &Arc<Directory>,
        transactions: &Arc<Transactions>,
    ) -> io::Result<Self> {
        let (sync, sync_requests) = channel();
        let (checkpoint, checkpoint_requests) = channel();
        let (statistics, schemas) = channel();
        let requests = Requests { sync, checkpoint };
        let (settings, directory, transactions, own) =
            (Arc::clone(settings), Arc::clone(directory), Arc::clone(transactions), requests.clone());
        let sync = requests.sync.clone();
        let threads = vec![
            std::thread::Builder::new().name("sql-sync".into()).spawn(move || sync_loop(&sync_requests))?,
            std::thread::Builder::new()
                .name("sql-checkpoint".into())
                .spawn(move || checkpoint_loop(&checkpoint_requests, &sync, &settings, &directory, &transactions))?,
            std::thread::Builder::new().name("sql-statistics".into()).spawn(move || statistics::run(&schemas, &own))?,
        ];
        Ok(Self { requests: Some(requests), statistics: Some(statistics), threads })
    }

    /// Asks for a sync of everything that the schema has committed so far.
    pub(crate) fn request_sync(&self, schema: &Arc<Schema>) {
        if let Some(requests) = &self.requests {
            requests.request_sync(schema);
        }
    }

    /// Has the schema's WAL moved into its file from now on.
    pub(crate) fn watch_once(&self, schema: &Arc<Schema>) {
        if let Some(requests) = &self.requests {
            requests.watch_once(schema);
        }
    }

    /// Has the statistics of tables made that have none or have changed much.
    pub(crate) fn request_statistics(&self, schema: &Arc<Schema>) {
        if !schema.statistics_wanted.swap(true, Ordering::AcqRel)
            && let Some(statistics) = &self.statistics
        {
            let _ = statistics.send(Arc::clone(schema));
        }
    }
}

impl Requests {
    /// As [`Background::request_sync`].
    pub(super) fn request_sync(&self, schema: &Arc<Schema>) {
        request_sync(&self.sync, schema);
    }

    /// As [`Background::watch_once`].
    pub(super) fn watch_once(&self, schema: &Arc<Schema>) {
        if !schema.sync.watched.load(Ordering::SeqCst) && !schema.sync.watched.swap(true, Ordering::SeqCst) {
            let _ = self.checkpoint.send(Arc::clone(schema));
        }
    }
}

fn request_sync(sync: &Sender<Arc<Schema>>, schema: &Arc<Schema>) {
    if !schema.sync.requested.swap(true, Ordering::AcqRel) {
        let _ = sync.send(Arc::clone(schema));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The thread for statistics can ask the others, which end when nobody can.
        self.statistics = None;
        self.requests = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn sync_loop(requests: &Receiver<Arc<Schema>>) {
    slice::wake_promptly();
    let mut files: HashMap<u64, Log> = HashMap::new();
    for time in 0.. {
        let Ok(schema) = requests.recv() else { break };
        schema.sync.requested.store(false, Ordering::Release);
        if schema.is_closed() {
            files.retain(|_, log| !log.schema.is_closed());
        }
        if schema.is_lost() {
            // What stands at its path is not what it has written.
            continue;
        }
        let ticket = schema.sync.committed.load(Ordering::Acquire);
        // Behind the ticket: what is acknowledged with it has been listed before.
        let listed = schema.commits.waiting();
        if files.len() >= LOGS_MAX && !files.contains_key(&schema.id) {
            let oldest = files.iter().min_by_key(|(_, log)| log.used).map(|(id, _)| *id);
            oldest.map(|id| files.remove(&id));
        }
        let synced = match files.entry(schema.id) {
            Entry::Occupied(log) => log.into_mut().sync(time),
            Entry::Vacant(place) => Log::open(&schema).and_then(|log| place.insert(log).sync(time)),
        };
        if let Some(log) = files.get(&schema.id).filter(|log| synced.is_ok() && !log.is_in_place()) {
            log.schema.lose();
            if schema.is_dropped() {
                schema.sync.finish(Some(ticket));
            }
            continue;
        }
        let listeners = match synced {
            Ok(()) => schema.commits.show(listed),
            Err(_) => {
                schema.commits.end();
                Vec::new()
            }
        };
        schema.sync.finish(synced.is_ok().then_some(ticket));
        // Whoever has committed goes first.
        listeners.into_iter().for_each(Waker::wake);
    }
}

/// The WAL of a schema, as the sync thread has it open.
struct Log {
    schema: Arc<Schema>,
    file: File,
    path: PathBuf,
    /// Which file that is.
    identity: Identity,
    database: CString,
    /// When it was synced last, by the thread's count.
    used: u64,
}

/// The path of a schema's WAL.
fn log_of(schema: &Schema) -> PathBuf {
    let mut path = schema.path.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

impl Log {
    /// Opens the WAL of a schema and makes its directory entry durable.
    fn open(schema: &Arc<Schema>) -> io::Result<Self> {
        let path = &schema.path;
        let wal = log_of(schema);
        let file = File::options().read(true).write(true).open(&wal)?;
        let identity = Identity::of(&file)?;
        let database = CString::new(path.as_os_str().as_bytes())?;
        if let Some(directory) = path.parent() {
            let sync = || File::open(directory)?.sync_all();
            disk::carry_out(disk::File::Directory(&database), Change::Sync, sync)?;
        }
        Ok(Self { schema: Arc::clone(schema), file, path: wal, identity, database, used: 0 })
    }

    /// Whether what has been synced is what the paths lead to.
    fn is_in_place(&self) -> bool {
        Identity::at(&self.path).is_ok_and(|there| there == self.identity) && vfs::is_in_place(&self.database)
    }

    /// Has everything written to the disk, and room made for what comes.
    fn sync(&mut self, time: u64) -> io::Result<()> {
        self.used = time;
        if let Some(room) = vfs::room(&self.database) {
            room.keep(&self.file, &self.database);
        }
        disk::carry_out(disk::File::Log(&self.database), Change::Sync, || fdatasync(&self.file))
    }
}

fn fdatasync(file: &File) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open while `file` is borrowed.
        if unsafe { libc::fdatasync(file.as_raw_fd()) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

struct Watched {
    schema: Arc<Schema>,
    conn: Box<Conn>,
    /// The database, for [`pace`]; open for as long as `conn` is.
    file: Option<File>,
    commits: u64,
    /// The disk's room for it, and how often there was none when the WAL last began at its start for that.
    room: Option<Arc<Room>>,
    refusals: u64,
    /// When writers were last paused in vain.
    failed: Option<Instant>,
    /// When there was last something to do.
    worked: Instant,
}

fn checkpoint_loop(
    requests: &Receiver<Arc<Schema>>,
    sync: &Sender<Arc<Schema>>,
    settings: &Settings,
    directory: &Directory,
    transactions: &Transactions,
) {
    let mut watched: Vec<Watched> = Vec::new();
    let mut looked = Instant::now();
    loop {
        match requests.recv_timeout(CHECKPOINT_INTERVAL) {
            Ok(schema) => {
                if let Ok(conn) = schema.open() {
                    let file = File::open(&schema.path).ok();
                    let name = CString::new(schema.path.as_os_str().as_bytes()).ok();
                    let room = name.and_then(|name| vfs::room(&name));
                    let worked = Instant::now();
                    watched.push(Watched { schema, conn, file, commits: 0, room, refusals: 0, failed: None, worked });
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        transactions.look_after(|sentence| settings.report(sentence));
        if looked.elapsed() >= LOOK_INTERVAL {
            looked = Instant::now();
            directory.look_after_files();
        }
        let is_crowded = watched.len() > WATCHED_MAX;
        watched.retain(|watched| !watched.schema.is_closed() && !watched.is_given_up(is_crowded));
        for watched in &mut watched {
            if watched.schema.sync.unsynced() > 0 && !watched.schema.sync.has_failed() {
                // Nobody may have asked for the sync of commits that are answered early.
                request_sync(sync, &watched.schema);
            }
            watched.checkpoint(settings, transactions);
        }
    }
    other_programs::leave(directory, settings);
}

impl Watched {
    /// Whether nobody writes to the schema any more. The next commit has it watched again.
    fn is_given_up(&self, is_crowded: bool) -> bool {
        (is_crowded || self.worked.elapsed() >= WATCH_MAX) && self.schema.sync.gives_up(self.commits)
    }

    fn checkpoint(&mut self, settings: &Settings, transactions: &Transactions) {
        let commits = self.schema.sync.commits();
        let refusals = self.room.as_ref().map_or(0, |room| room.refusals());
        if commits == self.commits && refusals == self.refusals {
            return;
        }
        self.worked = Instant::now();
        let file = self.file.take();
        let schema = Arc::clone(&self.schema);
        let done = pace::gently(move || schema.is_closed(), file.as_ref(), || self.run(ffi::SQLITE_CHECKPOINT_PASSIVE));
        self.file = file;
        let Some((pages, moved)) = done else { return };
        let bytes = u64::try_from(pages).unwrap_or(0) * FRAME_BYTES;
        let space = self.file.as_ref().and_then(reserve::space_on_disk);
        let start_over = self.start_over_at(settings, space, refusals);
        let kept = self.kept_when_cut(space, refusals);
        if bytes > start_over || kept.is_some() {
            let times = u32::try_from(bytes / start_over.max(1)).unwrap_or(u32::MAX);
            let pause = PAUSE_MIN.saturating_mul(times).min(PAUSE_MAX);
            let full = bytes > settings.log_bytes_max();
            // Only what was not moved is kept by a reader: a WAL that starts over keeps its size on the disk.
            let unmoved = u64::try_from(pages - moved).unwrap_or(0) * FRAME_BYTES;
            match self.start_over(pause, full.then_some(bytes), kept, settings, transactions) {
                Some(true) => (self.commits, self.refusals) = (commits, refusals),
                None if full && unmoved > start_over => drop(self.end_reader(bytes, settings)),
                _ => {}
            }
        } else if pages == moved {
            self.commits = commits;
        }
    }

    /// How many bytes the WAL may have before it is to begin at its start again: not half of what the disk has left. On a
    /// disk without room it must not grow any more, and whoever wants to delete needs some of what it has already.
    fn start_over_at(&self, settings: &Settings, space: Option<Space>, refusals: u64) -> u64 {
        let at = settings.log_bytes_max() / START_OVER_PART;
        let left = space.map_or(at, |space| at.min(space.left / 2));
        match &self.room {
            Some(_) if refusals > self.refusals => 0,
            Some(room) => left.max(room.allocated() / 2).min(at),
            None => left,
        }
    }

    /// How many bytes the WAL is to keep, if it has to give others back: its file is larger than what the disk has left.
    fn kept_when_cut(&self, space: Option<Space>, refusals: u64) -> Option<u64> {
        let (room, space) = (self.room.as_ref()?, space?);
        let kept = KEPT_MIN.max(space.size / KEPT_PART);
        let is_scarce = refusals > self.refusals || space.left < room.allocated();
        // Cutting off little is not worth a pause of all writers.
        (is_scarce && room.allocated() > kept * 2).then_some(kept)
    }

    /// Has the WAL begin at its start again. A WAL that is written all the time never does so by itself: nobody may
    /// write, and nobody may read from it. While writers pause everything moves into the database file, after which new
    /// readers need no WAL, so that only those that have begun before are waited for. A `full` WAL, of so many bytes, is not waited
    /// for: those who keep it are ended, one after the other. Its file is cut to the bytes that are to be `kept`, if they are given.
    ///
    /// Answers whether it has begun anew; `None` if the writers did not pause.
    fn start_over(
        &mut self,
        pause: Duration,
        full: Option<u64>,
        kept: Option<u64>,
        settings: &Settings,
        transactions: &Transactions,
    ) -> Option<bool> {
        // At most a twentieth of the time.
        let interval = if full.is_some() { PAUSE_INTERVAL } else { PAUSE_INTERVAL.max(pause * 20) };
        if self.failed.is_some_and(|failed| failed.elapsed() < interval) {
            return Some(false);
        }
        self.failed = Some(Instant::now());
        let _guard = self.schema.writer.acquire_within(pause)?;
        let paused = Instant::now();
        let mut wait_until = paused + pause / 2;
        let mut has_forgotten = false;
        let mode = if kept.is_some() { ffi::SQLITE_CHECKPOINT_TRUNCATE } else { ffi::SQLITE_CHECKPOINT_RESTART };
        while self.run(mode).is_none() {
            let now = Instant::now();
            if now >= wait_until {
                wait_until = paused + pause;
                if !std::mem::replace(&mut has_forgotten, true) {
                    transactions.forget_snapshots(&self.schema);
                } else if let Some(bytes) = full.filter(|_| now < paused + pause + FULL_PAUSE_MAX) {
                    wait_until = now + if self.end_reader(bytes, settings) { READER_ENDS } else { PAUSE_STEP };
                } else {
                    self.failed = Some(now);
                    return Some(false);
                }
            }
            std::thread::sleep(PAUSE_STEP);
        }
        if let Some(kept) = kept {
            self.refill(kept);
        }
        self.failed = None;
        Some(true)
    }

    /// Gives a WAL that has been cut some bytes again, before others take them.
    fn refill(&self, bytes: u64) {
        let Some(room) = &self.room else { return };
        let Ok(database) = CString::new(self.schema.path.as_os_str().as_bytes()) else { return };
        // A disk that is full gives what it has.
        if let Ok(log) = File::options().write(true).open(log_of(&self.schema)) {
            room.refill(&log, &database, bytes);
        }
    }

    /// Ends the statement or transaction that has been reading for the longest time, if that is long; answers whether it is.
    fn end_reader(&self, bytes: u64, settings: &Settings) -> bool {
        let Some(reader) = self.schema.readers.longest() else { return false };
        let time = reader.since.elapsed();
        if time < LONG_READ {
            return false;
        }
        reader.end();
        settings.report(&format!(
            "the write-ahead log of schema \"{}\" has grown to {} MiB while connection {} was reading for {:.1} s: that is ended",
            self.schema.name,
            bytes >> 20,
            reader.connection_id,
            time.as_secs_f64()
        ));
        true
    }

    /// Runs a checkpoint; answers the pages in the WAL and those moved.
    fn run(&mut self, mode: i32) -> Option<(i32, i32)> {
        let (mut pages, mut moved) = (0, 0);
        // SAFETY: the connection belongs to this thread; the results are plain integers.
        let code = unsafe {
            ffi::sqlite3_wal_checkpoint_v2(self.conn.handle(), std::ptr::null(), mode, &mut pages, &mut moved)
        };
        (code == ffi::SQLITE_OK).then_some((pages, moved))
    }
}
