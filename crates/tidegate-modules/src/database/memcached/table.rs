//! `listen … memcached table=SCHEMA.TABLE`: rows as items. What has come together runs together: requests that read see one snapshot,
//! those that write share a commit, and each is answered when it is durable. Nobody blocks the worker.
//!
//! Storing is a decision with the writer's lock in hand ([`Step`]): no other writer, be it SQL, comes in between. Rows that have expired
//! are not there for clients, and are deleted in the background ([`sweep`]).

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use tidegate_core::conf::Config;
use tidegate_http::memcached_server::{Exptime, Op, write_value};
use tidegate_net::{
    clock,
    log::{self, Level},
    worker::Worker,
};
use tidegate_rows::{Column, Flow, Param, QueryError, Sink, SinkClosed, Summary, Value};
use tidegate_sql::{
    Engine, Session,
    table::{
        Answer, Comparison, Filter, OpenTable, Opening, Otherwise, Request, Revise, Revision, Rows, Strictness, Test,
    },
};

use super::{
    item::{self, Content, Effect, Moment, apply},
    rows::{Columns, Row, create_table, next_cas},
    stats::Counters,
};
use crate::database::{reopen, schemas::execute};

/// Time between two searches for rows that have expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// Rows that a search deletes in one transaction.
const SWEEP_ROWS: u64 = 500;
/// Sessions that a worker keeps for the next requests.
const SESSIONS_KEPT: usize = 16;
/// MySQL's number for a table that does not exist.
const NO_SUCH_TABLE: u16 = 1146;

/// Where a table is, and what has happened to it, for all workers.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) counters: Mutex<Counters>,
    /// When rows that have expired were last looked for, in milliseconds.
    swept_ms: AtomicU64,
}

impl Place {
    pub(super) fn new(schema: &str, table: &str) -> Self {
        Place {
            schema: schema.to_owned(),
            table: table.to_owned(),
            counters: Mutex::default(),
            swept_ms: AtomicU64::new(0),
        }
    }

    /// What has happened so far.
    pub(super) fn counters(&self) -> Counters {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to count anew.
    pub(super) fn reset_counters(&self) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = Counters::default();
    }

    pub(super) fn count(&self, more: &Counters) {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner).add(more);
    }

    /// Makes the table if there is none, and looks whether its rows can be items. Waits for the disk.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub(super) async fn prepare(&self, engine: &Engine) -> Result<(), String> {
        let Place { schema, table, .. } = self;
        let failed =
            |error: &dyn std::fmt::Display| format!("\"listen ... memcached table={schema}.{table}\": {error}");
        let mut session = engine.session(schema).map_err(|error| failed(&error.message))?;
        let shape = match session.shape_of("", table) {
            Err(error) if error.code == NO_SUCH_TABLE => {
                let made = execute(&mut session, create_table(table).as_bytes()).await;
                made.map_err(|error| failed(&error))?;
                session.shape_of("", table)
            }
            shape => shape,
        };
        let shape = shape.map_err(|error| failed(&error.message))?;
        Columns::of(&shape).map(drop).map_err(|error| failed(&error))
    }
}

/// A table with its columns, as it was when it was opened.
pub(super) struct Opened {
    pub(super) table: OpenTable,
    pub(super) columns: Columns,
    /// Those of the schema: with others the table may have other columns.
    definitions: (u64, u64),
}

/// The table of a port, for the connections of a worker.
pub(super) struct Table {
    config: Arc<Config>,
    pub(super) place: Arc<Place>,
    opened: RefCell<Option<Rc<Opened>>>,
    sessions: RefCell<Vec<Session>>,
}

impl Table {
    pub(super) fn new(config: &Arc<Config>, place: &Arc<Place>) -> Self {
        Table { config: config.clone(), place: place.clone(), opened: RefCell::default(), sessions: RefCell::default() }
    }

    /// A session and the table.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub(super) fn open(&self) -> Result<(Session, Rc<Opened>), String> {
        let engine = reopen(&self.config)?;
        let kept = self.sessions.borrow_mut().pop();
        let mut session = match kept.and_then(Session::up_to_date) {
            Some(session) => session,
            None => engine.session(&self.place.schema).map_err(|error| error.message)?,
        };
        let definitions = session.definitions();
        if let Some(opened) = self.opened.borrow().as_ref().filter(|opened| opened.definitions == definitions) {
            return Ok((session, opened.clone()));
        }
        let table = &*self.place.table;
        let shape = session.shape_of("", table).map_err(|error| error.message)?;
        let columns = Columns::of(&shape)?;
        let names: Vec<&str> = columns.names.iter().map(String::as_str).collect();
        let opening = Opening {
            schema: &self.place.schema,
            table,
            index: "PRIMARY",
            columns: &names,
            filters: &[],
            strictness: Strictness::Exact,
        };
        let table = session.open_table(&opening).map_err(|error| error.message)?;
        let opened = Rc::new(Opened { table, columns, definitions });
        *self.opened.borrow_mut() = Some(opened.clone());
        Ok((session, opened))
    }

    /// Takes a session back whose requests have ended.
    pub(super) fn give_back(&self, session: Session) {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() < SESSIONS_KEPT {
            sessions.push(session);
        }
    }

    /// The table may have another definition now: it is opened anew.
    pub(super) fn forget(&self) {
        *self.opened.borrow_mut() = None;
    }
}

/// What is decided about a row.
#[derive(Debug)]
pub(super) enum What<'a> {
    /// By the rules of memcached.
    Op(&'a Op<'a>),
    /// `gat`: it expires at another time.
    Touch { key: &'a [u8], exptime: Exptime, with_cas: bool },
}

/// A decision about the row of a key, with the answer to the client.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) what: What<'a>,
    opened: &'a Columns,
    now_ms: u64,
    value_bytes_max: usize,
    decided: RefCell<Decided>,
}

/// What came of the last time that somebody asked.
#[derive(Debug, Default)]
struct Decided {
    answer: Vec<u8>,
    counters: Counters,
}

impl<'a> Step<'a> {
    pub(super) fn new(what: What<'a>, opened: &'a Opened, now_ms: u64, value_bytes_max: usize) -> Self {
        Step { what, opened: &opened.columns, now_ms, value_bytes_max, decided: RefCell::default() }
    }

    /// The key.
    pub(super) fn key(&self) -> &[u8] {
        match &self.what {
            What::Op(op) => &op.key.bytes,
            What::Touch { key, .. } => key,
        }
    }

    /// Appends the answer for a key that no row can have, and counts.
    pub(super) fn miss(&self, counters: &mut Counters, out: &mut Vec<u8>) {
        let Step { what, now_ms, value_bytes_max, .. } = self;
        match what {
            What::Op(op) => {
                let (now_s, value_bytes_max) = (now_ms / 1000, *value_bytes_max);
                let next_cas = || next_cas(*now_ms);
                item::miss(op, Moment { now_s, next_cas: &next_cas, value_bytes_max, counters }, out);
            }
            What::Touch { .. } => {
                counters.got(false);
                counters.touched(false);
            }
        }
    }

    /// Appends the answer, and counts.
    pub(super) fn finish(&self, counters: &mut Counters, out: &mut Vec<u8>) {
        let decided = self.decided.borrow();
        out.extend_from_slice(&decided.answer);
        counters.add(&decided.counters);
    }
}

impl Revise for Step<'_> {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        let row = old.map(|values| Row::of(values, self.opened));
        let now_s = self.now_ms / 1000;
        let item = row.as_ref().and_then(|row| row.item(now_s));
        let mut decided = self.decided.borrow_mut();
        // What was decided before was undone.
        *decided = Decided::default();
        let Decided { answer, counters } = &mut *decided;
        let effect = match &self.what {
            What::Op(op) => {
                let next_cas = || next_cas(self.now_ms);
                let value_bytes_max = self.value_bytes_max;
                apply(op, item, &mut Moment { now_s, next_cas: &next_cas, value_bytes_max, counters }, answer)
            }
            What::Touch { key, exptime, with_cas } => {
                counters.got(item.is_some());
                counters.touched(item.is_some());
                match item {
                    None => Effect::Nothing,
                    Some(item) => {
                        let cas = with_cas.then_some(item.attributes.cas);
                        write_value(key, item.attributes.flags, cas, item.value, answer);
                        let mut attributes = item.attributes;
                        attributes.expires_s = exptime.at(now_s);
                        Effect::Alter { attributes, bumps: true }
                    }
                }
            }
        };
        let put = |attributes, content| Revision::Put(self.opened.values(self.key(), &attributes, content));
        match effect {
            Effect::Nothing | Effect::Used => Revision::Keep,
            Effect::Alter { attributes, .. } => {
                put(attributes, Content::Parts(item.map_or(&[], |item| item.value), b""))
            }
            Effect::Put(attributes, content) => put(attributes, content),
            Effect::Remove => Revision::Delete,
        }
    }
}

/// Deletes rows that have expired, as long as the worker serves.
pub(super) async fn sweep(table: Rc<Table>, worker: Rc<Worker>) {
    loop {
        tokio::select! {
            () = worker.quitting() => return,
            () = tokio::time::sleep(SWEEP_INTERVAL) => {}
        }
        // One worker looks, whichever comes first.
        let (now_ms, swept) = (clock::steady_ms(), &table.place.swept_ms);
        let last_ms = swept.load(Ordering::Relaxed);
        let is_due = now_ms.saturating_sub(last_ms) >= SWEEP_INTERVAL.as_millis() as u64 / 2;
        if is_due && swept.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let place = &table.place;
            if let Err(error) = sweep_once(&table).await {
                let (schema, name) = (&place.schema, &place.table);
                log::note(
                    Level::Warn,
                    format_args!("memcached: {schema}.{name}: rows that have expired stay: {error}"),
                );
            }
        }
    }
}

/// Deletes the rows that have expired by now.
pub(super) async fn sweep_once(table: &Table) -> Result<(), QueryError> {
    let Ok((mut session, opened)) = table.open() else { return Ok(()) };
    let columns = &opened.columns;
    let (Some(index), Some(name)) = (&columns.expires_index, columns.expires_name()) else {
        table.give_back(session);
        return Ok(());
    };
    let opening = Opening {
        schema: &table.place.schema,
        table: &table.place.table,
        index,
        columns: &[],
        filters: &[name],
        strictness: Strictness::Nearest,
    };
    let by_time = session.open_table(&opening)?;
    let now_s = i64::try_from(clock::now_ms() / 1000).unwrap_or(i64::MAX);
    // From now backwards, up to those that never expire.
    let filters = [Filter {
        column: 0,
        test: Test::Compares(Comparison::Greater),
        value: Value::Int(0),
        otherwise: Otherwise::Stop,
    }];
    let key = [Value::Int(now_s)];
    let rows = Rows { limit: SWEEP_ROWS, filters: &filters, ..Rows::new(Comparison::AtMost, &key) };
    loop {
        let mut counted = Affected::default();
        session.run_request(&by_time, &Request::Delete(rows, Answer::Number), &mut counted).await?;
        table.place.count(&Counters::of_reclaimed(counted.rows));
        if counted.rows < SWEEP_ROWS {
            table.give_back(session);
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Counts rows that a request has changed.
#[derive(Default)]
struct Affected {
    rows: u64,
}

impl Sink for Affected {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: tidegate_rows::Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.rows = summary.affected_rows;
    }
    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}
