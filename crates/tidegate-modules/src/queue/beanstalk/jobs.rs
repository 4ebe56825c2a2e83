//! Jobs in the store: put, read, changed.

use std::cell::Cell;

use bytes::Bytes;
use tidegate_queue::Place;
use tidegate_rows::{Column, Execute, Flow, Param, QueryError, Row, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::table::{Answers, Each, OnDuplicate, Request, Revise, Revision, Rows};

use crate::database::schemas::execute;
use crate::queue::{
    counts::{Changing, Excess, Spot},
    gather::{Gather, bytes, number},
    limits::spot_of,
    message::NewMessage,
    ordering::{Keyed, block, ended, take_turn},
    store::{Open, Store, StoreError},
    tables::{BLOCKED, DEAD, DELAYED, READY},
    time_of_day,
};

/// A job that is to be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewJob<'a> {
    pub(super) priority: u32,
    pub(super) delay_ms: u64,
    pub(super) ttr_ms: u64,
    pub(super) body: &'a [u8],
}

impl<'a> NewJob<'a> {
    /// The row of a job that is put now.
    fn row(&self, tube: &'a str, now_ms: u64, ttl_ms: Option<u64>) -> [Value<'a>; 8] {
        let later = |ms: Option<u64>| ms.map_or(Value::Null, |ms| Value::Uint(now_ms.saturating_add(ms)));
        let delay_ms = Some(self.delay_ms).filter(|ms| *ms > 0);
        [
            Value::Bytes(tube.as_bytes()),
            Value::Int(if delay_ms.is_some() { DELAYED } else { READY }),
            Value::Uint(self.priority.into()),
            Value::Uint(now_ms),
            later(delay_ms),
            later(ttl_ms),
            Value::Uint(self.ttr_ms),
            Value::Bytes(self.body),
        ]
    }

    fn message(&self) -> NewMessage {
        NewMessage {
            priority: self.priority,
            delay_ms: self.delay_ms,
            lease_ms: Some(self.ttr_ms),
            ..NewMessage::new(Bytes::copy_from_slice(self.body))
        }
    }
}

/// A job as it is stored.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) place: Place,
    pub(super) tube: String,
    pub(super) state: i64,
    pub(super) published_ms: u64,
    pub(super) due_ms: u64,
    pub(super) expires_ms: u64,
    pub(super) attempts: u64,
    /// How long a client may have it, if whoever has published it said so.
    pub(super) ttr_ms: Option<u64>,
    pub(super) releases: u64,
    pub(super) burials: u64,
    pub(super) kicks: u64,
    /// Neither a result nor the next message of a key depends on its end.
    pub(super) is_plain: bool,
    pub(super) body: Bytes,
}

impl Job {
    /// The job of a row of `JobTables::job` or `JobTables::facts`.
    fn of(row: &[Param]) -> Option<Self> {
        let at = |column: usize| number(row.get(column));
        Some(Job {
            place: Place { priority: u32::try_from(at(3)).ok()?, id: at(0) },
            tube: String::from_utf8(bytes(row.get(1))?.to_vec()).ok()?,
            state: i64::try_from(at(2)).ok()?,
            published_ms: at(4),
            due_ms: at(5),
            expires_ms: at(6),
            attempts: at(7),
            ttr_ms: Some(at(8)).filter(|ms| *ms > 0),
            releases: at(9),
            burials: at(10),
            kicks: at(11),
            is_plain: at(12) == 0 && bytes(row.get(13)).is_none(),
            body: bytes(row.get(14)).unwrap_or_default(),
        })
    }
}

/// What a command does to a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    /// Its client gives it back.
    Release { priority: u32, due_ms: Option<u64>, attempts_max: u64 },
    /// Its client puts it aside.
    Bury { priority: u32 },
    /// It waits again, from wherever it is.
    Kick,
    /// A client has got it, from wherever it was.
    Reserve,
}

/// Where a job is behind a deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It is not there, or not in a state for this.
    Nowhere,
    Ready,
    Delayed,
    Buried,
    /// It waits for its turn.
    Blocked,
}

/// A deed on its way into the store.
#[derive(Debug)]
pub(super) struct Turn {
    deed: Deed,
    after: Cell<After>,
    /// Where the job was, and where it is now.
    moved: Cell<Option<(Spot, Spot)>>,
    /// What is known of the turn of its key; `None` leaves jobs with keys alone.
    key: Option<HasTurn>,
    /// It has a key, and was left alone.
    is_left: Cell<bool>,
}

/// Whether a job has the turn of its key when it waits again.
type HasTurn = bool;

impl Turn {
    fn new(deed: Deed, key: Option<HasTurn>) -> Self {
        Turn { deed, after: Cell::new(After::Nowhere), moved: Cell::new(None), key, is_left: Cell::new(false) }
    }

    /// The state from `state`; `None` where the deed cannot be done.
    fn state_after(&self, state: i64, attempts: u64) -> Option<(i64, After)> {
        match self.deed {
            // Nobody comes before its turn.
            _ if state == BLOCKED => None,
            Deed::Reserve if state == DEAD && self.key.is_some() => None,
            Deed::Kick if state == DEAD && self.key == Some(false) => Some((BLOCKED, After::Blocked)),
            Deed::Release { .. } | Deed::Bury { .. } if state != READY => None,
            Deed::Release { attempts_max, .. } if attempts_max > 0 && attempts >= attempts_max => {
                Some((DEAD, After::Buried))
            }
            Deed::Release { due_ms: Some(_), .. } => Some((DELAYED, After::Delayed)),
            Deed::Release { due_ms: None, .. } | Deed::Reserve => Some((READY, After::Ready)),
            Deed::Bury { .. } => Some((DEAD, After::Buried)),
            Deed::Kick => (state != READY).then_some((READY, After::Ready)),
        }
    }
}

impl Revise for Turn {
    fn revise(&self, old: Option<&[Param]>) -> Revision {
        self.after.set(After::Nowhere);
        self.moved.set(None);
        let Some(old) = old else { return Revision::Keep };
        self.is_left.set(self.key.is_none() && bytes(old.get(8)).is_some());
        if self.is_left.get() {
            return Revision::Keep;
        }
        let at = |column: usize| number(old.get(column));
        let plus = |column: usize, more: bool| Param::Uint((at(column) + u64::from(more)).min(u32::MAX.into()));
        let has_failed = matches!(self.deed, Deed::Release { .. } | Deed::Bury { .. });
        let attempts = at(3) + u64::from(has_failed);
        let state = i64::try_from(at(0)).unwrap_or(READY);
        let Some((state, after)) = self.state_after(state, attempts) else { return Revision::Keep };
        self.after.set(after);
        let (priority, due_ms) = match self.deed {
            Deed::Release { priority, due_ms, .. } => (u64::from(priority), due_ms),
            Deed::Bury { priority } => (u64::from(priority), None),
            Deed::Kick | Deed::Reserve => (at(1), None),
        };
        let kept = |column: usize| old.get(column).cloned().unwrap_or(Param::Null);
        let to = u32::try_from(priority).ok().map(|priority| Spot { state, priority });
        self.moved.set(spot_of(old).zip(to));
        Revision::Put(vec![
            Param::Int(state),
            Param::Uint(priority),
            due_ms.filter(|_| after == After::Delayed).map_or(Param::Null, Param::Uint),
            plus(3, has_failed),
            // A buried job does not keep others with its key out.
            if after == After::Buried { Param::Null } else { kept(4) },
            plus(5, matches!(self.deed, Deed::Release { .. })),
            plus(6, matches!(self.deed, Deed::Bury { .. })),
            plus(7, matches!(self.deed, Deed::Kick)),
            kept(8),
        ])
    }
}

/// The numbers that new jobs have got.
#[derive(Default)]
struct Numbers {
    last: u64,
    of_each: Vec<Result<u64, StoreError>>,
}

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.last = summary.insert_id;
    }
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

impl Answers for Numbers {
    fn ended(&mut self, result: Result<(), QueryError>) {
        self.of_each.push(result.map(|()| self.last).map_err(StoreError::Query));
    }
}

impl Store {
    /// Stores jobs, each for itself, in one commit. Answers their numbers, and tells those who wait.
    ///
    /// # Errors
    /// The database cannot be used.
    pub(super) async fn put_jobs<'a>(
        &self,
        tube: &'a str,
        jobs: &[NewJob<'a>],
    ) -> Result<Vec<Result<u64, StoreError>>, StoreError> {
        let held = self.subscriptions().await?;
        let limits = self.limits(tube).await?;
        if !held.of(tube).is_empty() {
            drop(held);
            return Ok(self.publish_jobs(tube, jobs).await);
        }
        let mut open = self.open().await?;
        let mut changing = self.changing([tube]).await;
        if changing.take_room(tube, jobs.len() as u64, &limits) != Excess::default() {
            changing.nothing();
            drop(held);
            return Ok(self.publish_jobs(tube, jobs).await);
        }
        let now_ms = time_of_day::now_ms();
        let rows: Vec<[Value<'_>; 8]> = jobs.iter().map(|job| job.row(tube, now_ms, limits.ttl_ms(None))).collect();
        let tables = open.tables.clone();
        let requests: Vec<_> =
            rows.iter().map(|row| (&tables.jobs.put, Request::Insert(row, OnDuplicate::Fail))).collect();
        let mut numbers = Numbers::default();
        open.session.run_requests(&requests, &mut numbers).await;
        for (job, _) in jobs.iter().zip(&numbers.of_each).filter(|(_, number)| number.is_ok()) {
            let state = if job.delay_ms > 0 { DELAYED } else { READY };
            changing.moved(tube, None, Some(Spot { state, priority: job.priority }));
        }
        // Nobody knows of a commit whose end is an error.
        if numbers.of_each.iter().all(Result::is_ok) {
            changing.certain();
        } else {
            drop(changing);
        }
        self.give_back(open);
        for (job, number) in jobs.iter().zip(&numbers.of_each) {
            match number {
                Ok(id) if job.delay_ms == 0 => self.broker().waits(tube, Place { priority: job.priority, id: *id }),
                Ok(_) => self.home.due_changed.notify_one(),
                Err(StoreError::Query(error)) => self.doubt(error),
                Err(_) => {}
            }
        }
        if limits.ttl_ms(None).is_some() {
            self.home.due_changed.notify_one();
        }
        Ok(numbers.of_each)
    }

    /// Stores jobs where others have to make room for them, or subscribers get them: one after the other.
    async fn publish_jobs(&self, tube: &str, jobs: &[NewJob<'_>]) -> Vec<Result<u64, StoreError>> {
        let mut numbers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let published = self.publish_now(tube, &[job.message()]).await;
            numbers.push(published.map(|published| published.first().map_or(0, |put| put.number())));
        }
        numbers
    }

    /// Reads jobs, whatever their state, in no particular order.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn read_jobs(&self, ids: &[u64], with_bodies: bool) -> Result<Vec<Job>, StoreError> {
        let values: Vec<Value<'_>> = ids.iter().map(|id| Value::Uint(*id)).collect();
        let rows = Rows { each: Some(Each { part: 0, values: &values }), ..Rows::with_key(&[Value::Null]) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let table = if with_bodies { &tables.jobs.job } else { &tables.jobs.facts };
        let found = self.carry_out(open, &[(table, Request::Find(rows))]).await?;
        let now_ms = time_of_day::now_ms();
        let jobs: Vec<Job> = found.rows.iter().filter_map(|row| Job::of(row)).collect();
        let is_over = |job: &Job| job.expires_ms != 0 && job.expires_ms <= now_ms;
        if jobs.iter().any(is_over) {
            // Somebody may have had it when the keeper came for it.
            self.home.due_changed.notify_one();
        }
        Ok(jobs.into_iter().filter(|job| !is_over(job)).collect())
    }

    /// Reads one job.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn read_job(&self, id: u64, with_body: bool) -> Result<Option<Job>, StoreError> {
        Ok(self.read_jobs(&[id], with_body).await?.pop())
    }

    /// Does something to jobs of a tube; answers for each where it is now. Nobody is told.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn turn_jobs(&self, tube: &str, ids: &[u64], deed: Deed) -> Result<Vec<After>, StoreError> {
        let turns: Vec<_> = ids.iter().map(|id| ([Value::Uint(*id)], Turn::new(deed, None))).collect();
        let open = self.open().await?;
        let tables = open.tables.clone();
        let requests: Vec<_> =
            turns.iter().map(|(key, turn)| (&tables.jobs.turn, Request::Revise(Rows::with_key(key), turn))).collect();
        let mut changing = self.changing([tube]).await;
        self.carry_out(open, &requests).await?;
        for (from, to) in turns.iter().filter_map(|(_, turn)| turn.moved.get()) {
            changing.moved(tube, Some(from), Some(to));
        }
        changing.certain();
        let mut done: Vec<After> = turns.iter().map(|(_, turn)| turn.after.get()).collect();
        let left = turns.iter().zip(ids).enumerate().filter(|(_, ((_, turn), _))| turn.is_left.get());
        for (at, (_, id)) in left {
            done[at] = self.with_room(async || self.turn_keyed_job(tube, *id, deed).await).await?;
        }
        self.home.waiters.tell(ids.iter().copied());
        Ok(done)
    }

    /// Does something to a job that has an ordering key.
    async fn turn_keyed_job(&self, tube: &str, id: u64, deed: Deed) -> Result<After, StoreError> {
        let mut open = self.open().await?;
        let mut changing = self.changing([tube]).await;
        match turn_keyed(&mut open, (tube, id), deed, &mut changing).await {
            Ok(after) => {
                self.give_back(open);
                changing.certain();
                Ok(after)
            }
            Err(error) => {
                let error = error.into();
                self.failed(&error, changing);
                Err(error)
            }
        }
    }

    /// Deletes a job of which nobody else knows now; answers whether it was there.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn delete_job(&self, tube: &str, id: u64) -> Result<bool, StoreError> {
        let delete = async || {
            let mut changing = self.changing([tube]).await;
            let ended = self.end_messages(&[id], None, &mut changing).await?;
            changing.certain();
            Ok(ended.contains(&true))
        };
        let was_there = self.with_room(delete).await?;
        self.home.waiters.tell([id]);
        Ok(was_there)
    }

    /// Delayed jobs of a tube, those first whose time comes first. Looks at all of them.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn delayed_jobs(&self, tube: &str, count_max: usize) -> Result<Vec<Place>, StoreError> {
        let sql = format!(
            "SELECT id, priority FROM tidegate_queue.messages WHERE queue = ? AND state = {DELAYED} \
             ORDER BY due_ms, id LIMIT {count_max}"
        );
        let found = self.ask(&sql, tube).await?;
        let place = |row: &Vec<Param>| {
            Some(Place { id: number(row.first()), priority: u32::try_from(number(row.get(1))).ok()? })
        };
        Ok(found.iter().filter_map(place).collect())
    }

    /// Rows of a statement with the name of a tube as its parameter, if it has one.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn ask(&self, sql: &str, tube: &str) -> Result<Vec<Vec<Param>>, StoreError> {
        let params = [Param::Bytes(Bytes::copy_from_slice(tube.as_bytes()))];
        let params = if sql.contains('?') { &params[..] } else { &[] };
        let mut open = self.open().await?;
        let mut found = Gather::default();
        open.session.execute(Statement { sql: sql.as_bytes(), params }, &mut found).await?;
        self.give_back(open);
        Ok(found.rows)
    }
}

/// Does something to a job that has an ordering key, and what follows from it for others of the key, in a transaction.
async fn turn_keyed(
    open: &mut Open,
    (tube, id): (&str, u64),
    deed: Deed,
    changing: &mut Changing<'_>,
) -> Result<After, QueryError> {
    let tables = open.tables.clone();
    let row = [Value::Uint(id)];
    execute(&mut open.session, b"BEGIN").await?;
    let mut found = Gather::default();
    open.session.run_request(&tables.end, &Request::Find(Rows::with_key(&row)), &mut found).await?;
    let keyed = found.rows.first().and_then(|row| Keyed::of(row));
    let mut has_turn = true;
    if let Some(keyed) = keyed.as_ref().filter(|keyed| keyed.spot.state == DEAD && matches!(deed, Deed::Kick)) {
        has_turn = take_turn(open, tube, &keyed.key).await?;
    }
    let turn = Turn::new(deed, Some(has_turn));
    open.session
        .run_request(&tables.jobs.turn, &Request::Revise(Rows::with_key(&row), &turn), &mut Gather::default())
        .await?;
    let Some((keyed, (from, to))) = keyed.zip(turn.moved.get()) else {
        execute(&mut open.session, b"ROLLBACK").await?;
        return Ok(After::Nowhere);
    };
    changing.moved(tube, Some(from), Some(to));
    match turn.after.get() {
        After::Buried => ended(open, id, &Keyed { spot: from, ..keyed }, changing).await?,
        After::Blocked => block(open, tube, &keyed.key, id).await?,
        After::Nowhere | After::Ready | After::Delayed => {}
    }
    execute(&mut open.session, b"COMMIT").await?;
    Ok(turn.after.get())
}
