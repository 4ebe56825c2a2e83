//! Several statements under way on one connection, each for a caller of its own.
//!
//! A server answers the statements of a connection in their order, whenever they were sent. So callers that come at one
//! moment can share a connection: their statements leave in one write, most of their answers arrive in one read, and the
//! server wakes up once for all of them. What is saved is system calls, on both sides; what it costs is that an answer waits
//! for those before it. Hence only statements that read and leave no traces travel so, and only if the caller asks for it.
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
//!   which does no harm since they only read. Its connection is closed, never put back: answers are still to come on it.
//!
//! A lane breaks up when its connection does, when the front is given up half-way or its time is over, when a caller behind it
//! has gone, and when the front's receiver is slow: nobody may wait for somebody else's client.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    task::{Context, Poll, Waker},
};

use tidegate_rows::{Column, Flow, QueryError, Sink, SinkClosed, Stage, Statement, Summary, Value};
use tokio::time::Instant;

use super::{Event, Pool, PooledConn};
use crate::{
    channel::{Outbox, after},
    conn::{Conn, Progress},
    options::Timeouts,
    packet::FRAME_MAX,
    session::leaves_traces,
};

thread_local! {
    /// The lanes of this worker, of all pools.
    static LANES: RefCell<Vec<Rc<Lane>>> = const { RefCell::new(Vec::new()) };
}

/// A connection that several callers share.
struct Lane {
    /// Number of the pool.
    pool: u64,
    outbox: Outbox,
    /// The connection, before the first and between two fronts (L2).
    conn: RefCell<Option<PooledConn>>,
    queue: RefCell<VecDeque<Slot>>,
    /// Number of the caller at the front.
    front: Cell<u64>,
    /// Wakes the front's task, so that it sends what came into the outbox.
    reader: RefCell<Option<Waker>>,
    broken: Cell<bool>,
}

/// A caller's place in the queue.
#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    is_gone: bool,
}

/// How a statement on a lane ended.
enum Ride {
    Done(Result<(), QueryError>),
    /// The lane broke up before the server answered.
    Lost,
}

impl Pool {
    /// Runs a statement, perhaps together with others on one connection: at most `depth` of them. That is for statements that
    /// are quick and only read; it is up to the caller to know. All others, and statements whose lane breaks up, run
    /// as [`run`](Self::run) does it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_together<S: Sink>(
        &self,
        sql: &[u8],
        depth: usize,
        timeouts: Timeouts,
        sink: &mut S,
        mut notice: impl FnMut(Event<'_>),
    ) -> Result<(), QueryError> {
        if depth > 1 && sql.len() < FRAME_MAX - 1 && !leaves_traces(sql) {
            let begin = Instant::now();
            if let Some(ticket) = self.board(sql, depth, timeouts, &mut notice).await? {
                let counters = &self.shelf().counters;
                counters.shared.fetch_add(u64::from(!ticket.is_first), Relaxed);
                match ticket.ride(timeouts, sink, &mut notice).await {
                    Ride::Done(result) => {
                        counters.latency.record(begin.elapsed());
                        counters.query_errors.fetch_add(u64::from(result.is_err()), Relaxed);
                        return result;
                    }
                    Ride::Lost => drop(counters.retries.fetch_add(1, Relaxed)),
                }
            }
        }
        self.run(Statement { sql, params: &[] }, timeouts, sink, notice).await
    }

    /// A place on a lane, with the statement on its way; none if the connection cannot be shared.
    async fn board(
        &self,
        sql: &[u8],
        depth: usize,
        timeouts: Timeouts,
        notice: &mut impl FnMut(Event<'_>),
    ) -> Result<Option<Ticket>, QueryError> {
        let core = &self.0.core;
        // Those that came at the same moment travel together.
        if let Some(lane) = find(|lane| lane.pool == core.id && lane.len() < depth && !lane.outbox().is_empty()) {
            return Ok(Some(lane.join(sql)));
        }
        // While somebody waits for a connection of his own nobody joins: lanes would never come to their end.
        if core.waiting.load(SeqCst) == 0 && core.idle.load(SeqCst) == 0 && !core.has_room() {
            let lane = LANES.with_borrow(|lanes| {
                let open = lanes.iter().filter(|lane| lane.pool == core.id && lane.len() < depth);
                open.min_by_key(|lane| lane.len()).cloned()
            });
            if let Some(lane) = lane {
                return Ok(Some(lane.join(sql)));
            }
        }
        // Listed before it has its connection, which may have to be made or waited for: others join meanwhile.
        let lane = Rc::new(Lane::new(core.id));
        LANES.with_borrow_mut(|lanes| lanes.push(Rc::clone(&lane)));
        let ticket = lane.join(sql);
        let mut conn = self.obtain(timeouts, notice).await?;
        if lane.broken.get() || !conn.share(&lane.outbox) {
            return Ok(None);
        }
        lane.conn.replace(Some(conn));
        Ok(Some(ticket))
    }
}

fn find(suits: impl Fn(&Lane) -> bool) -> Option<Rc<Lane>> {
    LANES.with_borrow(|lanes| lanes.iter().find(|lane| suits(lane)).cloned())
}

impl Lane {
    fn new(pool: u64) -> Self {
        Self {
            pool,
            outbox: Outbox::default(),
            conn: RefCell::default(),
            queue: RefCell::default(),
            front: Cell::new(0),
            reader: RefCell::default(),
            broken: Cell::new(false),
        }
    }

    fn len(&self) -> usize {
        self.queue.borrow().len()
    }

    fn outbox(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.outbox.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Joins the queue and hands the statement over for sending.
    fn join(self: &Rc<Self>, sql: &[u8]) -> Ticket {
        Conn::put_shared(&mut self.outbox(), sql);
        let mut queue = self.queue.borrow_mut();
        let number = self.front.get() + queue.len() as u64;
        queue.push_back(Slot::default());
        drop(queue);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Ticket { lane: Rc::clone(self), number, is_first: number == 0 }
    }

    /// Nobody joins any more.
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
        // Between two fronts: answers are still to come that nobody reads.
        let conn = self.conn.take();
        if let Some(mut conn) = conn {
            conn.spoil();
        }
    }

    /// The front has its answer: the next one's turn.
    fn pass_on(&self, mut conn: PooledConn) {
        if self.broken.get() || !conn.is_idle() {
            self.break_up();
            conn.spoil();
            return;
        }
        let mut queue = self.queue.borrow_mut();
        queue.pop_front();
        self.front.set(self.front.get() + 1);
        let Some(next) = queue.front_mut() else {
            drop(queue);
            self.close();
            conn.unshare();
            return;
        };
        let (waker, is_gone) = (next.waker.take(), next.is_gone);
        drop(queue);
        self.conn.replace(Some(conn));
        if is_gone {
            self.break_up();
        } else if let Some(waker) = waker {
            waker.wake();
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
    async fn ride<S: Sink>(self, timeouts: Timeouts, sink: &mut S, notice: &mut impl FnMut(Event<'_>)) -> Ride {
        let due = timeouts.query.map(after);
        let turn = match due {
            None => self.turn().await,
            Some(due) => match tokio::time::timeout_at(due, self.turn()).await {
                Ok(turn) => turn,
                Err(_) => return Ride::Done(Err(QueryError::Timeout { stage: Stage::Query })),
            },
        };
        let Some(conn) = turn else { return Ride::Lost };
        let mut front = Front { lane: &self.lane, conn: Some(conn) };
        let conn = front.conn.as_mut().expect("just put there");
        conn.begin_shared(timeouts, due.map(|due| (due, Stage::Query)));
        notice(Event::Began(conn));
        let mut sink = Patient { sink, lane: &self.lane };
        let result = {
            let mut reading = pin!(conn.read_result(&mut sink));
            poll_fn(|cx| {
                let poll = reading.as_mut().poll(cx);
                if poll.is_pending() {
                    self.lane.reader.replace(Some(cx.waker().clone()));
                }
                poll
            })
            .await
        };
        self.lane.reader.take();
        let is_unanswered = conn.progress() != Progress::Answered;
        if let (true, Some(pooled)) = (result.is_ok(), &mut conn.pooled) {
            pooled.uses += 1;
        }
        drop(front);
        match result {
            // It only reads, so it may run again.
            Err(QueryError::Lost { .. }) if is_unanswered => Ride::Lost,
            result => Ride::Done(result),
        }
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
        if place == 0 {
            // Its turn came and it did not take it, or it was given up half-way: its connection has gone then.
            lane.break_up();
        } else if let Some(slot) = lane.queue.borrow_mut().get_mut(place as usize) {
            slot.is_gone = true;
        }
    }
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
}

impl<S: Sink> Sink for Patient<'_, S> {
    fn columns(&mut self, columns: &[Column]) {
        self.sink.columns(columns);
    }
    fn begin_row(&mut self) {
        self.sink.begin_row();
    }
    fn value(&mut self, index: usize, value: Value<'_>) {
        self.sink.value(index, value);
    }
    fn end_row(&mut self) -> Flow {
        let flow = self.sink.end_row();
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
