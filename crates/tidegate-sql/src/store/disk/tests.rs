//! The machine loses its power, and the disk refuses: no acknowledged commit is lost.
//!
//! [`Journal`] notes every change of the files and every acknowledgement. A power cut is played by choosing a moment of
//! it and making the files as a disk may have them then: what was written before a sync that had ended is there; of what
//! was written since, any part may be, down to single sectors, in any order. The name of a new file is there
//! for certain once its directory was synced.
//!
//! `TIDEGATE_CRASH_ROUNDS` sets how many moments are chosen, and how many changes are refused.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    thread::ThreadId,
    time::Duration,
};

use tidegate_rows::{Column, Execute, Flow, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tokio::task::LocalSet;

use super::{
    Change, File,
    watch::{Watcher, Watching},
};
use crate::{Engine, EngineOptions, Session};

mod outbox;
mod refusing;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;
/// The log starts over at a sixteenth of this.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Keeps numbers.
#[derive(Default)]
struct Numbers(Vec<i64>);

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            if let Value::Int(value) = value {
                self.0.push(value);
            }
        });
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

async fn try_run(session: &mut Session, sql: &str) -> Result<Vec<i64>, u16> {
    let mut numbers = Numbers::default();
    match session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut numbers).await {
        Ok(()) => Ok(numbers.0),
        Err(QueryError::Server(error)) => Err(error.code),
        Err(error) => panic!("{sql}: {error}"),
    }
}

async fn run(session: &mut Session, sql: &str) -> Vec<i64> {
    try_run(session, sql).await.unwrap_or_else(|code| panic!("{sql}: error {code}"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-sql-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn open(path: &Path) -> Engine {
    let mut options = EngineOptions::new(path);
    options.log_bytes_max = LOG_BYTES_MAX;
    Engine::open(options).unwrap()
}

fn rounds(otherwise: usize) -> usize {
    std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(otherwise)
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }
}

/// A file, or the directory as the empty name.
type Name = Vec<u8>;

fn name_of(file: File<'_>) -> Name {
    let path =
        |path: &std::ffi::CStr| Path::new(OsStr::from_bytes(path.to_bytes())).file_name().unwrap().as_bytes().to_vec();
    match file {
        File::Database(database) => path(database),
        File::Log(database) => [&path(database)[..], b"-wal"].concat(),
        File::Directory(_) => Name::new(),
    }
}

/// What a session has been told, or is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Inserted(i64),
    Changed(i64),
    Paired(i64),
    Published(i64),
    Created(i64),
    Altered(i64),
    WillDrop(i64),
    Dropped(i64),
}

enum Event {
    Write {
        file: Name,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: Name,
        size: usize,
    },
    /// The file has this name from now on.
    Rename {
        from: Name,
        to: Name,
    },
    /// With `names` it is one of the directory too.
    Sync {
        file: Name,
        names: bool,
    },
    /// A sync has ended well that began with this event.
    Synced {
        begun: usize,
    },
    Said(Said),
}

/// Everything that happened, in order. A change is noted when it was made, a sync also when it begins.
#[derive(Default)]
struct Journal {
    events: Mutex<Vec<Event>>,
    syncs: Mutex<HashMap<ThreadId, usize>>,
    restarts: AtomicUsize,
}

impl Journal {
    fn note(&self, event: Event) -> usize {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
        events.len() - 1
    }

    fn say(&self, said: Said) {
        self.note(Event::Said(said));
    }
}

impl Watcher for Journal {
    fn before(&self, file: File<'_>, change: Change<'_>) -> bool {
        if change == Change::Sync {
            // SQLite's VFS syncs the directory when it first syncs a log that it may have made; the sync thread does so by itself.
            let own = std::thread::current().name() == Some("sql-sync");
            let names = matches!(file, File::Directory(_)) || matches!(file, File::Log(_)) && !own;
            let begun = self.note(Event::Sync { file: name_of(file), names });
            self.syncs.lock().unwrap().insert(std::thread::current().id(), begun);
        }
        true
    }

    fn after(&self, file: File<'_>, change: Change<'_>, good: bool) {
        assert!(good, "the disk of this machine fails");
        match change {
            Change::Write { offset, bytes } => {
                if offset == 0 && matches!(file, File::Log(_)) {
                    self.restarts.fetch_add(1, Ordering::Relaxed);
                }
                let offset = usize::try_from(offset).unwrap();
                self.note(Event::Write { file: name_of(file), offset, bytes: bytes.to_vec() });
            }
            Change::Truncate { size } => {
                self.note(Event::Truncate { file: name_of(file), size: usize::try_from(size).unwrap() });
            }
            Change::Rename { from } => {
                self.note(Event::Rename { from: name_of(File::Database(from)), to: name_of(file) });
            }
            Change::Sync => {
                let begun = self.syncs.lock().unwrap()[&std::thread::current().id()];
                self.note(Event::Synced { begun });
            }
        }
    }
}

/// A file as the disk may have it.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
    }

    /// Writes some of the sectors that a write touches.
    fn write_some(&mut self, offset: usize, bytes: &[u8], dice: &mut Dice) {
        let mut at = 0;
        while at < bytes.len() {
            let len = (SECTOR - (offset + at) % SECTOR).min(bytes.len() - at);
            if dice.roll(2) == 0 {
                self.write(offset + at, &bytes[at..at + len]);
            }
            at += len;
        }
    }
}

/// Makes the files in `directory` as a power cut behind `events` may leave them; a harsh one takes all that was not safe.
fn cut<'e>(events: &'e [Event], directory: &Path, dice: &mut Dice, harsh: bool) {
    let mut renamed = BTreeMap::<&[u8], (&[u8], usize)>::new();
    for (number, event) in events.iter().enumerate() {
        if let Event::Rename { from, to } = event {
            renamed.insert(from, (to, number));
        }
    }
    // The last name of what had a name at a moment, and since when it has it, if that is another one.
    let last_name = |file: &'e [u8], number: usize| match renamed.get(file) {
        Some((to, since)) if number < *since => (*to, Some(*since)),
        _ => (file, None),
    };
    // Where the last sync of a file that has ended began: all before is on the disk.
    let (mut safe, mut names_safe) = (BTreeMap::<&[u8], usize>::new(), 0);
    for event in events {
        if let Event::Synced { begun } = event
            && let Event::Sync { file, names } = &events[*begun]
        {
            let place = safe.entry(last_name(file, *begun).0).or_default();
            *place = (*place).max(*begun);
            if *names {
                names_safe = names_safe.max(*begun);
            }
        }
    }
    // Of what is not safe: nothing, all, some writes, or some sectors.
    let mut files: BTreeMap<&[u8], (Image, usize, usize)> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        let (Event::Write { file, .. } | Event::Truncate { file, .. }) = event else { continue };
        let (file, since) = last_name(file, number);
        let (image, _, mood) = files
            .entry(file)
            .or_insert_with(|| (Image::default(), since.unwrap_or(number), if harsh { 0 } else { dice.roll(4) }));
        let is_safe = safe.get(file).is_some_and(|safe| number < *safe);
        match event {
            _ if !is_safe && (*mood == 0 || *mood == 2 && dice.roll(2) == 0) => {}
            Event::Write { offset, bytes, .. } if !is_safe && *mood == 3 => image.write_some(*offset, bytes, dice),
            Event::Write { offset, bytes, .. } => image.write(*offset, bytes),
            Event::Truncate { size, .. } => image.bytes.resize(*size, 0),
            _ => {}
        }
    }
    for (name, (image, made, _)) in files {
        if made < names_safe || !harsh && dice.roll(2) == 0 {
            std::fs::write(directory.join(OsStr::from_bytes(name)), image.bytes).unwrap();
        }
    }
}

/// What was said before a moment, sorted by kind.
fn said(events: &[Event]) -> BTreeSet<Said> {
    events.iter().filter_map(|event| if let Event::Said(said) = event { Some(*said) } else { None }).collect()
}

/// Everything that was acknowledged is there, and all is in order.
async fn check(path: &Path, said: &BTreeSet<Said>) {
    let engine = open(path);
    let Ok(mut session) = engine.session("test") else {
        return assert!(said.is_empty(), "the schema is gone");
    };
    engine.check("test").await.unwrap_or_else(|error| panic!("{error}"));
    let mut set = async |sql: &str| match try_run(&mut session, sql).await {
        Ok(numbers) => numbers.into_iter().collect::<BTreeSet<i64>>(),
        // The power went before the table was made.
        Err(1146) => BTreeSet::new(),
        Err(code) => panic!("{sql}: error {code}"),
    };
    let rows = set("SELECT n FROM t").await;
    let changed = set("SELECT n FROM t WHERE filler = 'changed'").await;
    let left = set("SELECT n FROM a").await;
    let right = set("SELECT n FROM b").await;
    assert_eq!(left, right, "half a transaction");
    for said in said {
        match *said {
            Said::Inserted(n) => assert!(rows.contains(&n), "{said:?}"),
            Said::Changed(n) => assert!(changed.contains(&n), "{said:?}"),
            Said::Paired(n) => assert!(left.contains(&n), "{said:?}, there are {left:?}"),
            _ => {}
        }
    }
    for statement in said {
        let (n, columns) = match *statement {
            Said::Created(n) => (n, "n"),
            Said::Altered(n) => (n, "n, m"),
            Said::Dropped(n) => {
                assert_eq!(try_run(&mut session, &format!("SELECT n FROM d{n}")).await, Err(1146), "{statement:?}");
                continue;
            }
            _ => continue,
        };
        if !said.contains(&Said::WillDrop(n)) {
            run(&mut session, &format!("SELECT {columns} FROM d{n}")).await;
        }
    }
    if !said.is_empty() {
        run(&mut session, "INSERT INTO t VALUES (-1, 'and on it goes')").await;
    }
}

/// Writes rows one by one, and changes some of them.
async fn write_rows(mut session: Session, journal: &Journal, next: &AtomicI64, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        run(&mut session, &format!("INSERT INTO t VALUES ({n}, '{}')", "x".repeat((n * 37 % 1500) as usize))).await;
        journal.say(Said::Inserted(n));
        if n % 5 == 0 {
            run(&mut session, &format!("UPDATE t SET filler = 'changed' WHERE n = {n}")).await;
            journal.say(Said::Changed(n));
        }
    }
}

/// Writes to two tables in one transaction.
async fn write_pairs(mut session: Session, journal: &Journal, next: &AtomicI64, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        run(&mut session, &format!("BEGIN; INSERT INTO a VALUES ({n}); INSERT INTO b VALUES ({n}); COMMIT")).await;
        journal.say(Said::Paired(n));
    }
}

/// Makes, changes and drops tables.
async fn define(mut session: Session, journal: &Journal, done: &AtomicBool) {
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        run(&mut session, &format!("CREATE TABLE d{n} (n INT PRIMARY KEY, s VARCHAR(100))")).await;
        journal.say(Said::Created(n));
        run(&mut session, &format!("INSERT INTO d{n} VALUES (1, 'a'), (2, 'b'), (3, 'c')")).await;
        run(&mut session, &format!("ALTER TABLE d{n} ADD COLUMN m INT DEFAULT 7, ADD INDEX (s)")).await;
        journal.say(Said::Altered(n));
        if n >= 2 {
            journal.say(Said::WillDrop(n - 2));
            run(&mut session, &format!("DROP TABLE d{}", n - 2)).await;
            journal.say(Said::Dropped(n - 2));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Events that a run looks at; each power cut goes through all of them.
const EVENTS_MAX: usize = 10_000;

/// Works until the log has started over a few times, or until enough has happened.
async fn work(engine: &Engine, journal: &Arc<Journal>) {
    let mut session = engine.session("").unwrap();
    let setup = "CREATE DATABASE test; USE test; CREATE TABLE t (n BIGINT PRIMARY KEY, filler VARCHAR(2000)); \
        CREATE TABLE a (n BIGINT PRIMARY KEY); CREATE TABLE b (n BIGINT PRIMARY KEY)";
    run(&mut session, setup).await;
    let (done, next) = (Rc::new(AtomicBool::new(false)), Rc::new(AtomicI64::new(0)));
    let local = LocalSet::new();
    let mut working = Vec::new();
    for number in 0..6 {
        let session = engine.session("test").unwrap();
        let (journal, done, next) = (Arc::clone(journal), Rc::clone(&done), Rc::clone(&next));
        working.push(local.spawn_local(async move {
            match number {
                0 => define(session, &journal, &done).await,
                1 => write_pairs(session, &journal, &next, &done).await,
                _ => write_rows(session, &journal, &next, &done).await,
            }
        }));
    }
    let journal = Arc::clone(journal);
    local.spawn_local(async move {
        // The first time it begins. Beside transactions in a steady stream the log may be long before it starts over.
        while journal.restarts.load(Ordering::Relaxed) < 5 && journal.events.lock().unwrap().len() < EVENTS_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        done.store(true, Ordering::Relaxed);
    });
    local.await;
    for worker in working {
        worker.await.unwrap();
    }
}

#[test]
fn a_power_cut_loses_no_acknowledged_commit() {
    let path = directory("power");
    let journal = Arc::new(Journal::default());
    {
        let _watching = Watching::new(&path, Arc::clone(&journal) as Arc<dyn Watcher>);
        let engine = open(&path);
        runtime().block_on(work(&engine, &journal));
    }
    let events = std::mem::take(&mut *journal.events.lock().unwrap());
    cut_at_many_moments(&events, "power-image", check);
    let _ = std::fs::remove_dir_all(&path);
}

/// Plays power cuts at moments of what has happened; `check` looks at a directory and what was said before.
fn cut_at_many_moments(events: &[Event], name: &str, check: impl AsyncFn(&Path, &BTreeSet<Said>)) {
    let image = directory(name);
    let rounds = rounds(40);
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for round in 0..rounds {
        // Every other time right behind an acknowledgement.
        let harsh = round % 2 == 0;
        let mut moment = dice.roll(events.len());
        if harsh {
            moment += events[moment..].iter().take_while(|event| !matches!(event, Event::Said(_))).count() + 1;
        }
        let moment = moment.min(events.len());
        let before = &events[..moment];
        let state = dice.0;
        let _ = std::fs::remove_dir_all(&image);
        std::fs::create_dir_all(&image).unwrap();
        cut(before, &image, &mut dice, harsh);
        let looking = AssertUnwindSafe(|| runtime().block_on(check(&image, &said(before))));
        assert!(
            std::panic::catch_unwind(looking).is_ok(),
            "round {round}, event {moment} of {}, dice {state:#x}: see {}",
            events.len(),
            image.display()
        );
    }
    println!(
        "{} changes and acknowledgements; {rounds} power cuts, {} acknowledgements",
        events.len(),
        said(events).len()
    );
    let _ = std::fs::remove_dir_all(&image);
}
