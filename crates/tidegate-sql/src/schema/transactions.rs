//! The open transactions of an engine: who sees them, and how one ends that its client has left alone.
//!
//! A transaction belongs to its session's thread, which runs nothing of it while the client thinks. What it holds then (rows, a
//! snapshot, the right to write) it would hold until the client comes back. So between two statements a transaction *rests*: its
//! connections and write locks are here, where the engine's own thread can take from them what others need.
//!
//! Invariants:
//! 1. A transaction that rests has no connection in its session. Other threads roll its connections back and do nothing else with
//!    them, with the state locked; or one thread lists what it has changed ([`super::stepping_back`]), for which the others wait.
//!    SQLite lets any thread use a connection, one at a time.
//! 2. What a transaction has left here goes back to its session's thread, also when it has ended here.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use super::Schema;
use crate::{
    catalog::TableState,
    clients::{Client, Kill},
    isolation::Isolation,
    readers::{Holder, Reader},
    row_locks::{self, Owner, RowLocks},
    store::{conn::Conn, private::former::Former, writer::WriteGuard},
};

/// A transaction that is its schema's only writer by nothing but the amount of its changes, and rests for this time, becomes a
/// private one if somebody waits to write. Those who load much rest for less between their statements.
const STEPS_BACK_AFTER: Duration = Duration::from_millis(50);
/// Any other that is its schema's only writer and rests is ended after this time if somebody waits to write.
const ONLY_WRITER_RESTS_MAX: Duration = Duration::from_secs(30);
/// Bytes of a statement's text that are shown, as InnoDB shows.
const SHOWN_BYTES_MAX: usize = 1024;

/// The open transactions of an engine.
#[derive(Default)]
pub(crate) struct Transactions {
    open: Arc<Mutex<BTreeMap<u64, Weak<Open>>>>,
}

/// An open transaction, shared by its session and those who look after it.
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) client: Arc<Client>,
    pub(crate) begun: SystemTime,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: AtomicBool,
    list: Arc<Mutex<BTreeMap<u64, Weak<Open>>>>,
    state: Mutex<State>,
    /// A thread has stopped stepping back.
    pub(super) stepped: Condvar,
    /// That thread is to stop at once.
    pub(super) is_wanted: AtomicBool,
}

pub(super) struct State {
    pub(super) phase: Phase,
    /// When the phase began.
    since: Instant,
    /// How long the transaction may rest.
    limit: Option<Limit>,
    /// Rows that it had changed when it rested last.
    changed: u64,
    pub(super) held: Vec<Held>,
    /// The beginning of the statement that runs.
    sql: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Resting,
    /// It rests, and a thread has one of those that it [holds](State::held).
    SteppingBack,
    Ended,
}

/// How long a transaction may rest, and the variable that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) time: Duration,
    pub(crate) variable: &'static str,
}

/// What a resting transaction holds in one schema.
pub(crate) struct Held {
    pub(crate) schema: Arc<Schema>,
    pub(crate) conn: Box<Conn>,
    /// The write lock of a transaction that is the schema's only writer.
    pub(crate) guard: Option<WriteGuard>,
    /// The version of the definitions that its snapshot goes with.
    pub(crate) defined: u64,
    pub(crate) reader: Option<Arc<Reader>>,
    /// Whose row locks it has.
    pub(crate) owner: Option<u64>,
    /// What it needs to be a private transaction again.
    pub(crate) bulk: Option<Bulk>,
    /// The connection that it has written with until it became one; nothing is open there.
    pub(crate) left: Option<Box<Conn>>,
}

/// A transaction that is the schema's only writer by nothing but the amount of its changes.
pub(crate) struct Bulk {
    pub(crate) former: Former,
    /// Those that it has changed.
    pub(crate) tables: Vec<Arc<TableState>>,
    pub(crate) owner: Arc<Owner>,
}

// SAFETY: the state leaves its thread only by invariant 1. Other threads call `Conn::rollback_elsewhere` with the state
// locked, and drop nothing but locks, which are made for that; the one that steps back uses the connection as a plain one of
// SQLite's, and touches neither its cache of plans nor anything else that is shared with others of the session's thread.
// Connections are dropped where they came from (invariant 2).
unsafe impl Send for State {}

/// A transaction was ended while it rested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Transactions {
    /// Lists a transaction that begins, and runs a statement.
    pub(crate) fn open(&self, client: &Arc<Client>, isolation: Isolation) -> Arc<Open> {
        let id = row_locks::next_id();
        let state = State {
            phase: Phase::Running,
            since: Instant::now(),
            limit: None,
            changed: 0,
            held: Vec::new(),
            sql: Vec::new(),
        };
        let open = Arc::new(Open {
            id,
            client: Arc::clone(client),
            begun: SystemTime::now(),
            isolation,
            read_only: AtomicBool::new(false),
            list: Arc::clone(&self.open),
            state: Mutex::new(state),
            stepped: Condvar::new(),
            is_wanted: AtomicBool::new(false),
        });
        lock(&self.open).insert(id, Arc::downgrade(&open));
        open
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Open>> {
        lock(&self.open).values().filter_map(Weak::upgrade).collect()
    }

    /// Ends the transaction of a session if it rests; answers whether the session has one.
    pub(crate) fn end_of(&self, connection: u64) -> bool {
        let found = self.all().into_iter().find(|open| open.client.id == connection);
        found.is_some_and(|open| {
            open.end();
            true
        })
    }

    /// Ends those that have rested for too long, and `report` gets a sentence about each; has others step back who stop
    /// everybody from writing.
    pub(crate) fn look_after(&self, report: impl Fn(&str)) {
        for open in self.all() {
            if let Some(sentence) = open.end_if_forgotten() {
                report(&sentence);
            } else {
                super::stepping_back::begin(open, STEPS_BACK_AFTER);
            }
        }
    }

    /// Takes the snapshots from resting transactions that have written to a schema: their next statement makes their changes again,
    /// on the newest commit.
    pub(crate) fn forget_snapshots(&self, schema: &Schema) {
        for open in self.all() {
            let mut state = lock(&open.state);
            if state.phase != Phase::Resting {
                continue;
            }
            for held in state.held.iter_mut().filter(|held| held.schema.id == schema.id && held.conn.is_private()) {
                held.conn.rollback_elsewhere();
                if let Some(reader) = &held.reader {
                    reader.let_go();
                }
            }
        }
    }
}

impl Open {
    /// The session goes on with its transaction: `give` gets what it holds, schema by schema.
    ///
    /// # Errors
    /// [`Ended`] if the transaction was ended meanwhile; what it held has been given back all the same.
    pub(crate) fn resume(&self, give: impl FnMut(Held)) -> Result<(), Ended> {
        let mut state = self.at_rest();
        state.held.drain(..).for_each(give);
        if state.phase == Phase::Ended {
            return Err(Ended);
        }
        state.phase = Phase::Running;
        state.since = Instant::now();
        Ok(())
    }

    /// The session runs a statement of this text.
    pub(crate) fn runs(&self, sql: &[u8]) {
        let mut state = lock(&self.state);
        state.sql.clear();
        state.sql.extend_from_slice(&sql[..sql.len().min(SHOWN_BYTES_MAX)]);
    }

    /// The session leaves its transaction alone until [`resume`](Self::resume).
    pub(crate) fn rest(&self, limit: Option<Limit>, changed: u64, held: impl Iterator<Item = Held>) {
        let mut state = lock(&self.state);
        state.held.extend(held);
        if state.phase == Phase::Running {
            state.phase = Phase::Resting;
        }
        state.since = Instant::now();
        state.limit = limit;
        state.changed = changed;
        state.sql.clear();
    }

    /// Ends the transaction if it rests: all that it holds is free, and the session finds out with its next statement.
    pub(crate) fn end(&self) {
        self.at_rest().end();
    }

    /// The state, which no other thread has anything of: one that steps back stops at its next row.
    fn at_rest(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        while state.phase == Phase::SteppingBack {
            self.is_wanted.store(true, Ordering::Relaxed);
            state = self.stepped.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn end_if_forgotten(&self) -> Option<String> {
        let mut state = lock(&self.state);
        let rested = state.since.elapsed();
        let reason = state.forgotten(rested)?;
        let schemas: Vec<&str> = state.held.iter().map(|held| held.schema.name.as_str()).collect();
        let sentence = format!(
            "the transaction of connection {} in schema \"{}\" is rolled back: it did nothing for {:.1} s ({reason})",
            self.client.id,
            schemas.join("\", \""),
            rested.as_secs_f64()
        );
        state.end();
        drop(state);
        if self.client.is_connected() {
            self.client.kill(Kill::Connection);
        }
        Some(sentence)
    }

    /// The beginning of the statement that runs, if one does, and the rows that the ones before have changed.
    pub(crate) fn seen(&self) -> (Option<String>, u64) {
        let state = lock(&self.state);
        let statement = (!state.sql.is_empty()).then(|| String::from_utf8_lossy(&state.sql).into_owned());
        (statement, state.changed)
    }
}

impl Holder for Open {
    fn end(&self) {
        Self::end(self);
    }
}

impl Held {
    /// Whether others wait for its write lock.
    pub(super) fn is_waited_for(&self) -> bool {
        self.guard.as_ref().is_some_and(WriteGuard::is_waited_for)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.list).remove(&self.id);
    }
}

impl State {
    /// Why the transaction has rested for too long, if it has.
    fn forgotten(&self, rested: Duration) -> Option<&'static str> {
        if self.phase != Phase::Resting {
            return None;
        }
        if let Some(limit) = self.limit.filter(|limit| rested >= limit.time) {
            return Some(limit.variable);
        }
        let is_in_the_way = || self.held.iter().any(|held| held.bulk.is_none() && held.is_waited_for());
        (rested >= ONLY_WRITER_RESTS_MAX && is_in_the_way()).then_some("others wait to write")
    }

    /// How long it rests.
    pub(super) fn rested(&self) -> Option<Duration> {
        (self.phase == Phase::Resting).then(|| self.since.elapsed())
    }

    fn end(&mut self) {
        if self.phase != Phase::Resting {
            return;
        }
        self.phase = Phase::Ended;
        for held in &mut self.held {
            held.conn.rollback_elsewhere();
            if let Some(reader) = &held.reader {
                reader.let_go();
            }
            if let Some(owner) = held.owner {
                RowLocks::release_all(&held.schema.rows, owner);
            }
            // After the rollback: the next writer must find SQLite's own lock free.
            held.guard = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions, Session};
    use std::task::{Context, Waker};
    use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};

    async fn run(session: &mut Session, sql: &str) {
        let json = JsonOptions::default();
        let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
        session.execute(Statement { sql: sql.as_bytes(), params: &[] }, &mut sink).await.unwrap();
    }

    /// Why each resting transaction of the engine is ended that has rested for so long, if it is.
    fn forgotten(engine: &Engine, rested: Duration) -> Vec<Option<&'static str>> {
        engine.inner.transactions.all().iter().map(|open| lock(&open.state).forgotten(rested)).collect()
    }

    #[tokio::test]
    async fn only_writers_are_ended_for_those_who_wait() {
        let dir = std::env::temp_dir().join(format!("tidegate-sql-transactions-{}", std::process::id()));
        let engine = Engine::open(EngineOptions::new(&dir)).unwrap();
        let mut setup = engine.session("").unwrap();
        run(&mut setup, "CREATE DATABASE d; USE d; CREATE TABLE t (id INT); CREATE TABLE u (id INT)").await;
        let (mut private, mut writer) = (engine.session("d").unwrap(), engine.session("d").unwrap());
        run(&mut private, "BEGIN; INSERT INTO t VALUES (1)").await;
        let rows: Vec<String> = (0..1100).map(|id| format!("({id})")).collect();
        // It cannot be private again: nobody knows what it was at the savepoint.
        run(&mut writer, &format!("BEGIN; INSERT INTO t VALUES {}; SAVEPOINT s", rows.join(","))).await;
        assert_eq!(forgotten(&engine, ONLY_WRITER_RESTS_MAX), [None, None], "nobody waits");
        let mut waiting = Box::pin(run(&mut setup, "INSERT INTO u VALUES (1)"));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let reason = Some("others wait to write");
        assert_eq!(forgotten(&engine, ONLY_WRITER_RESTS_MAX), [None, reason]);
        assert_eq!(forgotten(&engine, ONLY_WRITER_RESTS_MAX - Duration::from_millis(1)), [None, None]);
        engine.inner.transactions.all()[1].end();
        waiting.await;
        assert_eq!(forgotten(&engine, ONLY_WRITER_RESTS_MAX), [None, None], "it has ended");
        run(&mut private, "COMMIT").await;
        drop((private, writer, setup, engine));
        let _ = std::fs::remove_dir_all(&dir);
    }
}
