//! Several statements under way on one connection.
//!
//! A server answers the statements of a connection in the order in which they came. So a second statement can be sent before
//! the first is answered, and their packets share system calls here and there: with many small reads that is about half of
//! what a page costs. The price is that a statement waits for those before it. Hence only statements that read and leave no traces
//! travel so, and only if the caller asks for it: for so many ([`Sharing::Depth`]), or for as many as have proved quick enough
//! ([`Sharing::Auto`], `pace.rs`).
//!
//! A [`Lane`] is such a connection while it has callers. The one at the front has the connection and reads its answer into
//! its own sink, as it would alone; then the next one does. Statements of the others go into the channel's outbox, which
//! the front's reading sends.
//!
//! Invariants:
//!
//! - L1: a lane is listed while callers may join it, and then all its statements are answered in the order of its queue.
//! - L2: the connection is in `conn` or in the hands of the front, who gives it back or breaks the lane up.
//! - L3: a lane that is broken up answers nobody but the front that has the connection; the others run their statements anew,
//!   which does no harm since they only read. Its connection goes back to the pool only when all answers were read that are still
//!   to come on it (`drain.rs`).
//! - L4: a session is ended on the server only when nobody waits for an answer of it any more: the lane was broken up before.
//!
//! A lane breaks up when its connection does, when the front is given up half-way or its time is over, when the front is overdue
//! (on a lane of [`Sharing::Auto`]), and when the front's receiver is slow: nobody may wait for somebody else's client. The answer to a
//! caller that left before it came to the front is skipped by the next one.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    task::{Context, Poll, Waker},
};

use tidegate_rows::{Column, Flow, QueryError, Row, Sink, SinkClosed, Stage, Statement, Summary};
use tokio::time::Instant;

use super::{
    CLOSED_BEFORE, Event, Pool, PooledConn, is_node_out,
    pace::{Allowance, Pace, Position, Watch},
};
use crate::{
    channel::{Outbox, after},
    conn::{Conn, Nowhere, Progress},
    options::Timeouts,
    packet::FRAME_MAX,
    session::leaves_traces,
    timer::LazyTimer,
};

/// Errors of a server that did not expect what it got: ER_NET_PACKETS_OUT_OF_ORDER, ER_NET_READ_ERROR.
const OUT_OF_ORDER: [u16; 2] = [1156, 1158];

thread_local! {
    /// The lanes of this worker, of all pools.
    static LANES: RefCell<Vec<Rc<Lane>>> = const { RefCell::new(Vec::new()) };
}

/// How many statements may be under way on a connection.
#[derive(Debug, Clone, Copy)]
pub enum Sharing<'a> {
    /// At most so many.
    Depth(usize),
    /// As many as have proved quick enough, by what is kept about this statement.
    Auto(&'a Pace),
}

/// A connection that several callers share.
struct Lane {
    /// Number of the pool.
    pool: u64,
    /// Its statements have proved quick; otherwise somebody said that they are.
    is_auto: bool,
    outbox: Outbox,
    /// The connection, before the first and between two fronts (L2).
    conn: RefCell<Option<PooledConn>>,
    queue: RefCell<VecDeque<Slot>>,
    /// Number of the caller at the front.
    front: Cell<u64>,
    /// Answers that come before that of the front, for callers that have gone.
    skips: Cell<usize>,
    /// How long those in the queue will take, by what is known of them, in nanoseconds.
    load: Cell<u64>,
    /// Wakes the front's task, so that it sends what came into the outbox.
    reader: RefCell<Option<Waker>>,
    /// Tells that the front is overdue.
    timer: RefCell<LazyTimer>,
    broken: Cell<bool>,
}

/// A caller's place in the queue.
#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    is_gone: bool,
    /// What it adds to the lane's load.
    gap: u64,
}

/// How a statement on a lane ended.
enum Ride {
    Done(Result<(), QueryError>),
    /// The lane broke up before the server answered.
    Lost,
}

/// How a statement may share: [`Sharing`], looked up.
#[derive(Clone, Copy)]
struct Terms<'a> {
    allowance: Allowance,
    pace: Option<&'a Pace>,
}

impl Terms<'_> {
    /// Whether the statement may join this lane of its pool.
    fn allow(self, lane: &Lane) -> bool {
        lane.is_auto == self.pace.is_some()
            && lane.len() < self.allowance.depth
            && self.allowance.bears(lane.load.get())
    }
}

impl Pool {
    /// Runs a statement, perhaps together with others on one connection. That is for statements that are quick and only read; it is
    /// up to the caller to know what they do. All others, and statements whose lane breaks up, run as [`run`](Self::run) does it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_together<S: Sink>(
        &self,
        sql: &[u8],
        sharing: Sharing<'_>,
        timeouts: Timeouts,
        sink: &mut S,
        mut notice: impl FnMut(Event<'_>),
    ) -> Result<(), QueryError> {
        if let Some(terms) = self.terms(sql, sharing) {
            let begin = Instant::now();
            if let Some(ticket) = self.board(sql, terms, timeouts, &mut notice).await? {
                let counters = &self.shelf().counters;
                counters.shared.fetch_add(u64::from(!ticket.is_first), Relaxed);
                match ticket.ride(begin, timeouts, terms.pace, sink, &mut notice).await {
                    Ride::Done(result) => {
                        counters.latency.record(begin.elapsed());
                        counters.query_errors.fetch_add(u64::from(result.is_err()), Relaxed);
                        return result;
                    }
                    Ride::Lost => drop(counters.retries.fetch_add(1, Relaxed)),
                }
            }
        }
        let mut watch = match sharing {
            Sharing::Auto(pace) => Some(pace.watch_later(Position::Alone)),
            Sharing::Depth(_) => None,
        };
        let notice = |event: Event<'_>| {
            if let (Event::Began(_), Some(watch)) = (event, &mut watch) {
                watch.begin();
            }
            notice(event);
        };
        self.run(Statement { sql, params: &[] }, timeouts, sink, notice).await
    }

    /// How a statement may share a connection now, if at all.
    fn terms<'a>(&self, sql: &[u8], sharing: Sharing<'a>) -> Option<Terms<'a>> {
        let terms = match sharing {
            Sharing::Depth(depth) => {
                Terms { allowance: (depth > 1).then_some(Allowance { depth, gap: 0 })?, pace: None }
            }
            // Without idle connections each statement is to have a new one.
            Sharing::Auto(_) if self.0.options.idle_max == 0 => return None,
            Sharing::Auto(pace) => {
                let in_use = self.0.core.open.load(Relaxed).saturating_sub(self.0.core.idle.load(Relaxed));
                Terms { allowance: pace.allowance(in_use)?, pace: Some(pace) }
            }
        };
        (sql.len() < FRAME_MAX - 1 && !leaves_traces(sql)).then_some(terms)
    }

    /// A place on a lane, with the statement on its way; none if the connection cannot be shared.
    async fn board(
        &self,
        sql: &[u8],
        terms: Terms<'_>,
        timeouts: Timeouts,
        notice: &mut impl FnMut(Event<'_>),
    ) -> Result<Option<Ticket>, QueryError> {
        let core = &self.0.core;
        let gap = terms.allowance.gap;
        // Those that came at the same moment travel together.
        if let Some(lane) = find(|lane| lane.pool == core.id && terms.allow(lane) && !lane.outbox().is_empty()) {
            return Ok(Some(lane.join(sql, gap)));
        }
        // While somebody waits for a connection of his own nobody joins: lanes would never come to their end.
        if core.waiting.load(SeqCst) == 0 && core.idle.load(SeqCst) == 0 && !core.has_room() {
            let lane = LANES.with_borrow(|lanes| {
                let open = lanes.iter().filter(|lane| lane.pool == core.id && terms.allow(lane));
                open.min_by_key(|lane| lane.len()).cloned()
            });
            if let Some(lane) = lane {
                return Ok(Some(lane.join(sql, gap)));
            }
        }
        if terms.pace.is_some_and(|pace| !pace.opens()) {
            return Ok(None);
        }
        let lane = Rc::new(Lane::new(core.id, terms.pace.is_some()));
        if lane.is_auto {
            // A connection that has to be made or waited for takes longer than a statement that others may wait for.
            let conn = self.obtain(timeouts, notice).await?;
            let ticket = lane.join(sql, gap);
            return Ok(lane.board(conn).then(|| {
                lane.list();
                ticket
            }));
        }
        // Listed before it has its connection, which may have to be made or waited for: others join meanwhile.
        lane.list();
        let ticket = lane.join(sql, gap);
        let conn = self.obtain(timeouts, notice).await?;
        Ok(lane.board(conn).then_some(ticket))
    }
}

fn find(suits: impl Fn(&Lane) -> bool) -> Option<Rc<Lane>> {
    LANES.with_borrow(|lanes| lanes.iter().find(|lane| suits(lane)).cloned())
}

impl Lane {
    fn new(pool: u64, is_auto: bool) -> Self {
        Self {
            pool,
            is_auto,
            outbox: Outbox::default(),
            conn: RefCell::default(),
            queue: RefCell::default(),
            front: Cell::new(0),
            skips: Cell::new(0),
            load: Cell::new(0),
            reader: RefCell::default(),
            timer: RefCell::default(),
            broken: Cell::new(false),
        }
    }

    /// Takes the connection that its callers will share. Returns whether it can be shared, and anybody still wants it.
    fn board(&self, mut conn: PooledConn) -> bool {
        if self.broken.get() || !conn.share(&self.outbox) {
            return false;
        }
        if let Some(pooled) = &mut conn.pooled {
            self.timer.replace(std::mem::take(&mut pooled.patience));
        }
        self.conn.replace(Some(conn));
        true
    }

    fn list(self: &Rc<Self>) {
        LANES.with_borrow_mut(|lanes| lanes.push(Rc::clone(self)));
    }

    fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    fn outbox(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.outbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Joins the queue and hands the statement over for sending.
    fn join(self: &Rc<Self>, sql: &[u8], gap: u64) -> Ticket {
        Conn::put_shared(&mut self.outbox(), sql);
        let mut queue = self.queue.borrow_mut();
        let number = self.front.get() + queue.len() as u64;
        queue.push_back(Slot { gap, ..Slot::default() });
        self.load.set(self.load.get() + gap);
        drop(queue);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Ticket { lane: Rc::clone(self), number, is_first: number == 0 }
    }

    /// Closes the lane: no further statement may join.
    fn close(&self) {
        // Without the list (the thread ends) there is nothing to leave.
        let _ = LANES.try_with(|lanes| {
            if let Ok(mut lanes) = lanes.try_borrow_mut() {
                lanes.retain(|lane| !std::ptr::eq(&**lane, self));
            }
        });
    }

    /// Sends everybody but the front away (L3).
    fn break_up(&self) {
        if self.broken.replace(true) {
            return;
        }
        self.close();
        let wakers: Vec<Waker> = self.queue.borrow_mut().iter_mut().filter_map(|slot| slot.waker.take()).collect();
        wakers.into_iter().for_each(Waker::wake);
        // Between two fronts: answers are still to come.
        let conn = self.conn.take();
        if let Some(conn) = conn {
            self.finish(conn, self.len());
        }
    }

    /// The front has its answer: the next one's turn.
    fn pass_on(&self, conn: PooledConn) {
        if !conn.is_idle() {
            // Broken, or in the midst of a statement that its pool will end on the server (L4).
            self.break_up();
            return;
        }
        let mut queue = self.queue.borrow_mut();
        self.take_first(&mut queue);
        if self.broken.get() {
            let left = queue.len();
            drop(queue);
            self.finish(conn, left);
            return;
        }
        drop(queue);
        self.call_next(conn);
    }

    /// Wakes the next caller that is still there; the answers of those before it will be skipped.
    fn call_next(&self, conn: PooledConn) {
        let mut queue = self.queue.borrow_mut();
        let mut skips = self.skips.take();
        while queue.front().is_some_and(|slot| slot.is_gone) {
            self.take_first(&mut queue);
            skips += 1;
        }
        self.skips.set(skips);
        let Some(next) = queue.front_mut() else {
            drop(queue);
            self.close();
            self.finish(conn, skips);
            return;
        };
        let waker = next.waker.take();
        drop(queue);
        self.conn.replace(Some(conn));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn take_first(&self, queue: &mut VecDeque<Slot>) {
        if let Some(slot) = queue.pop_front() {
            self.front.set(self.front.get() + 1);
            self.load.set(self.load.get() - slot.gap);
        }
    }

    /// The connection leaves the lane, with so many answers still to come on it.
    fn finish(&self, mut conn: PooledConn, answers: usize) {
        if let Some(pooled) = &mut conn.pooled {
            pooled.patience = self.timer.take();
        }
        conn.drain(answers);
    }

    /// Whether it is later than `due`, with nothing heard.
    fn is_silent(&self, due: Instant, cx: &mut Context<'_>) -> bool {
        self.timer.borrow_mut().poll_deadline(due, cx).is_ready()
    }

    /// Sees that nobody waits behind a front that is overdue.
    fn watch_front(&self, due: Instant, cx: &mut Context<'_>) {
        if self.broken.get() || self.len() < 2 {
            return;
        }
        if self.timer.borrow_mut().poll_deadline(due, cx).is_ready() {
            self.break_up();
        }
    }
}

/// A caller's place on a lane. Dropped, it is given up.
struct Ticket {
    lane: Rc<Lane>,
    number: u64,
    is_first: bool,
}

impl Ticket {
    /// Waits for its turn and reads the answer. The caller has waited since `begin`.
    async fn ride<S: Sink>(
        self,
        begin: Instant,
        timeouts: Timeouts,
        pace: Option<&Pace>,
        sink: &mut S,
        notice: &mut impl FnMut(Event<'_>),
    ) -> Ride {
        let due = timeouts.query.map(after);
        let turn = match due {
            None => self.turn().await,
            Some(due) => match tokio::time::timeout_at(due, self.turn()).await {
                Ok(turn) => turn,
                Err(_) => return Ride::Done(Err(QueryError::Timeout { stage: Stage::Query })),
            },
        };
        let Some(conn) = turn else { return Ride::Lost };
        if let (true, Some(pace)) = (self.is_first, pace) {
            pace.note_company(self.lane.len() > 1);
        }
        let mut front = Front { lane: &self.lane, conn: Some(conn) };
        let conn = front.conn.as_mut().expect("just put there");
        let position = if self.is_first { Position::First } else { Position::Behind };
        let watch = pace.map(|pace| pace.watch(position));
        let has_begun = Cell::new(false);
        let mut sink = Patient { sink, lane: &self.lane, has_begun: &has_begun };
        let skips = self.lane.skips.take();
        let reading = read(conn, skips, (begin, timeouts), &mut sink, due, notice);
        let result = self.attend(reading, &has_begun, timeouts, pace).await;
        drop::<Option<Watch<'_>>>(watch);
        self.lane.reader.take();
        let Some(result) = result else { return Ride::Lost };
        let is_unanswered = conn.progress() != Progress::Answered;
        if let (true, Some(pooled)) = (result.is_ok(), &mut conn.pooled) {
            pooled.uses += 1;
        }
        drop(front);
        match result {
            // It only reads, so it may run again.
            Err(QueryError::Lost { .. }) if is_unanswered => Ride::Lost,
            // Another connection does better.
            Err(QueryError::Server(error)) if error.code == CLOSED_BEFORE || is_node_out(&error) => Ride::Lost,
            Err(QueryError::Server(error)) if pace.is_some() && OUT_OF_ORDER.contains(&error.code) => {
                pace.into_iter().for_each(Pace::distrust);
                Ride::Lost
            }
            result => Ride::Done(result),
        }
    }

    /// Reads at the front, and has an eye on the time meanwhile.
    async fn attend<R>(
        &self,
        reading: impl Future<Output = Option<R>>,
        has_begun: &Cell<bool>,
        timeouts: Timeouts,
        pace: Option<&Pace>,
    ) -> Option<R> {
        let begin = Instant::now();
        let overdue = pace.map(|pace| begin + pace.overdue());
        let limit = timeouts.send_query.into_iter().chain(timeouts.query).min();
        let silent = (pace.is_some() && !self.is_first).then(|| begin + Pace::silence(limit));
        let mut reading = pin!(reading);
        poll_fn(|cx| {
            if let Poll::Ready(result) = reading.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            self.lane.reader.replace(Some(cx.waker().clone()));
            overdue.into_iter().for_each(|overdue| self.lane.watch_front(overdue, cx));
            if silent.is_some_and(|silent| !has_begun.get() && self.lane.is_silent(silent, cx)) {
                pace.into_iter().for_each(Pace::distrust);
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until this one is at the front, and takes the connection; none if the lane breaks up before.
    async fn turn(&self) -> Option<PooledConn> {
        let lane = &self.lane;
        // Whoever opens a lane lets those join that are about to run: the statements leave together.
        let mut waits_for_others = self.is_first;
        poll_fn(|cx| {
            if lane.broken.get() {
                return Poll::Ready(None);
            }
            // The first one has seen to the connection before.
            if lane.front.get() == self.number && !std::mem::take(&mut waits_for_others) {
                return Poll::Ready(lane.conn.take());
            }
            if self.is_first {
                cx.waker().wake_by_ref();
            } else if let Some(slot) = lane.queue.borrow_mut().get_mut((self.number - lane.front.get()) as usize) {
                slot.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let lane = &self.lane;
        let Some(place) = self.number.checked_sub(lane.front.get()) else { return };
        if let Some(slot) = lane.queue.borrow_mut().get_mut(place as usize) {
            slot.is_gone = true;
        }
        if place > 0 || lane.broken.get() {
            return;
        }
        let conn = lane.conn.take();
        match conn {
            // Its turn came and it did not take it.
            Some(conn) => lane.call_next(conn),
            // There is no connection yet, and will be none.
            None => lane.break_up(),
        }
    }
}

/// Reads the answer at the front, behind those of callers that have gone; none if the connection broke with one of those.
async fn read<S: Sink>(
    conn: &mut PooledConn,
    skips: usize,
    (begin, timeouts): (Instant, Timeouts),
    sink: &mut S,
    due: Option<Instant>,
    notice: &mut impl FnMut(Event<'_>),
) -> Option<Result<(), QueryError>> {
    let deadline = due.map(|due| (due, Stage::Query));
    for _ in 0..skips {
        conn.begin_shared(begin, timeouts, deadline);
        match Box::pin(conn.read_result(&mut Nowhere)).await {
            Err(QueryError::Server(_)) if conn.is_idle() => {}
            // The time is that of the caller at the front.
            Err(error @ QueryError::Timeout { .. }) => return Some(Err(error)),
            result => result.ok()?,
        }
    }
    conn.begin_shared(begin, timeouts, deadline);
    notice(Event::Began(conn));
    Some(conn.read_result(sink).await)
}

/// The connection in the hands of the front. Dropped half-way, it breaks the lane up.
struct Front<'a> {
    lane: &'a Lane,
    conn: Option<PooledConn>,
}

impl Drop for Front<'_> {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.lane.pass_on(conn);
        }
    }
}

/// The sink of the front: once it is full, nobody waits behind it any more.
struct Patient<'a, S> {
    sink: &'a mut S,
    lane: &'a Lane,
    has_begun: &'a Cell<bool>,
}

impl<S: Sink> Sink for Patient<'_, S> {
    fn columns(&mut self, columns: &[Column]) {
        self.has_begun.set(true);
        self.sink.columns(columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        let flow = self.sink.row(row);
        if flow == Flow::Full {
            if self.lane.len() > 1 {
                self.lane.break_up();
            } else {
                self.lane.close();
            }
        }
        flow
    }
    fn end_result(&mut self, summary: &Summary) {
        self.sink.end_result(summary);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.sink.poll_ready(cx)
    }
}
