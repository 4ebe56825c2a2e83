//! Jobs in the store: put, read, changed.

use std::{cell::Cell, collections::BTreeSet};

use bytes::Bytes;
use tidegate_net::clock;
use tidegate_queue::Place;
use tidegate_rows::{Column, Execute, Flow, Param, QueryError, Sink, SinkClosed, Statement, Summary, Value};
use tidegate_sql::table::{Answer, Answers, Comparison, Each, OnDuplicate, Request, Revise, Revision, Rows};

use crate::queue::{
    gather::{Gather, bytes, number},
    message::NewMessage,
    store::{Store, StoreError, Unsure},
    tables::{DEAD, DELAYED, READY},
};

/// A job that is to be put.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewJob<'a> {
    pub(super) priority: u32,
    pub(super) delay_ms: u64,
    pub(super) ttr_ms: u64,
    pub(super) body: &'a [u8],
}

impl NewJob<'_> {
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
            body: bytes(row.get(12)).unwrap_or_default(),
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
}

/// A deed on its way into the store.
#[derive(Debug)]
pub(super) struct Turn {
    deed: Deed,
    after: Cell<After>,
}

impl Turn {
    fn new(deed: Deed) -> Self {
        Turn { deed, after: Cell::new(After::Nowhere) }
    }

    /// The state from `state`; `None` where the deed cannot be done.
    fn state_after(&self, state: i64, attempts: u64) -> Option<(i64, After)> {
        match self.deed {
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
        let Some(old) = old else { return Revision::Keep };
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
        ])
    }
}

/// The numbers that new jobs have got.
#[derive(Default)]
struct Numbers {
    last: u64,
    of_each: Vec<Result<u64, QueryError>>,
}

impl Sink for Numbers {
    fn columns(&mut self, _: &[Column]) {}
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, _: Value<'_>) {}
    fn end_row(&mut self) -> Flow {
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
        self.of_each.push(result.map(|()| self.last));
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
    ) -> Result<Vec<Result<u64, QueryError>>, StoreError> {
        let held = self.subscriptions().await?;
        if !held.of(tube).is_empty() {
            drop(held);
            let messages: Vec<NewMessage> = jobs.iter().map(NewJob::message).collect();
            return Ok(self.publish_now(tube, &messages).await?.into_iter().map(|put| Ok(put.number())).collect());
        }
        let mut open = self.open().await?;
        let now_ms = clock::now_ms();
        let row = |job: &NewJob<'a>| {
            let is_delayed = job.delay_ms > 0;
            [
                Value::Bytes(tube.as_bytes()),
                Value::Int(if is_delayed { DELAYED } else { READY }),
                Value::Uint(job.priority.into()),
                Value::Uint(now_ms),
                if is_delayed { Value::Uint(now_ms + job.delay_ms) } else { Value::Null },
                Value::Uint(job.ttr_ms),
                Value::Bytes(job.body),
            ]
        };
        let rows: Vec<[Value<'_>; 7]> = jobs.iter().map(row).collect();
        let tables = open.tables.clone();
        let requests: Vec<_> =
            rows.iter().map(|row| (&tables.jobs.put, Request::Insert(row, OnDuplicate::Fail))).collect();
        let mut numbers = Numbers::default();
        let unsure = Unsure::new(&self.home, tube);
        open.session.run_requests(&requests, &mut numbers).await;
        unsure.certain();
        self.give_back(open);
        for (job, number) in jobs.iter().zip(&numbers.of_each) {
            match number {
                Ok(id) if job.delay_ms == 0 => self.broker().waits(tube, Place { priority: job.priority, id: *id }),
                Ok(_) => self.home.due_changed.notify_one(),
                Err(error) => self.doubt(error),
            }
        }
        Ok(numbers.of_each)
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
        let now_ms = clock::now_ms();
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
        let turns: Vec<_> = ids.iter().map(|id| ([Value::Uint(*id)], Turn::new(deed))).collect();
        let open = self.open().await?;
        let tables = open.tables.clone();
        let requests: Vec<_> =
            turns.iter().map(|(key, turn)| (&tables.jobs.turn, Request::Revise(Rows::with_key(key), turn))).collect();
        let unsure = Unsure::new(&self.home, tube);
        self.carry_out(open, &requests).await?;
        unsure.certain();
        self.home.waiters.tell(ids.iter().copied());
        Ok(turns.iter().map(|(_, turn)| turn.after.get()).collect())
    }

    /// Deletes a job of which nobody else knows now; answers whether it was there.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn delete_job(&self, id: u64) -> Result<bool, StoreError> {
        let key = [Value::Uint(id)];
        let open = self.open().await?;
        let tables = open.tables.clone();
        let delete = Request::Delete(Rows::with_key(&key), Answer::Number);
        let deleted = self.carry_out(open, &[(&tables.jobs.facts, delete)]).await?.changed()?;
        self.home.waiters.tell([id]);
        Ok(deleted > 0)
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

    /// Whether there is a job in the tube.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn has_jobs(&self, tube: &str) -> Result<bool, StoreError> {
        let key = [Value::Bytes(tube.as_bytes())];
        let rows = Rows { limit: 1, ..Rows::with_key(&key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        Ok(!self.carry_out(open, &[(&tables.jobs.names, Request::Find(rows))]).await?.rows.is_empty())
    }

    /// The names of all tubes with jobs: a look for each, however many jobs there are.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn tubes_with_jobs(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut names = BTreeSet::new();
        let mut last = Bytes::new();
        loop {
            let key = [Value::Bytes(&last)];
            let rows = Rows { limit: 1, ..Rows::new(Comparison::Greater, &key) };
            let open = self.open().await?;
            let tables = open.tables.clone();
            let found = self.carry_out(open, &[(&tables.jobs.names, Request::Find(rows))]).await?;
            let Some(name) = found.rows.first().and_then(|row| bytes(row.first())) else { return Ok(names) };
            names.insert(String::from_utf8_lossy(&name).into_owned());
            last = name;
        }
    }
}
