//! `drizzle_coalesce`: requests for the same rows at the same time share one statement.
//!
//! The first of them starts a *flight*: the statement, run by a task of its own, whose output collects in pieces. Requests
//! with the same text, parameters, upstream and location join it as long as it is under way, and get all pieces from the
//! first. So an answer may be as old as the statement that was under way when its request came, and no older.
//!
//! 1. A client that leaves takes nothing away from the others; when the last has left, the statement ends.
//! 2. A flight may be joined until its output has grown to [`JOIN_BYTES_MAX`]: up to there every piece is kept, so nobody
//!    waits for another client.
//! 3. Beyond, pieces that all have taken are dropped, and the database waits for the slowest client once it lies
//!    [`HELD_BYTES_MAX`] behind: memory has a bound. A client that takes nothing for `send_timeout` leaves.
//! 4. Flights belong to a worker: nothing here is shared between threads.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tidegate_core::{
    output::{Buf, Chunk, Closed},
    phase::Step,
    request::Request,
    worker,
};
use tidegate_rows::{Column, Flow, Format, Param, QueryError, Row, Sink, SinkClosed, Summary};
use tokio::task::AbortHandle;

use super::{
    Conf, Running,
    backend::{Backend, Event},
    params::Statements,
    pass::{failed, prepare_response},
    sink::{SEND_BYTES, drain, has_backlog},
};
use crate::row_format::RowFormat;

/// Output up to which others may join, in bytes. Most results are smaller by far.
const JOIN_BYTES_MAX: usize = 1 << 20;
/// Output that may wait for the slowest client, in bytes.
const HELD_BYTES_MAX: usize = 2 << 20;

/// What makes two requests want the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Addresses of the upstream's back end and the location's configuration; a flight keeps both alive.
    backend: usize,
    location: usize,
    sql: Vec<u8>,
    /// Each with its kind, since the same bytes can be a text or a number.
    params: Vec<(u8, Bytes)>,
    /// What else the request says about the format.
    format: Vec<u8>,
}

thread_local! {
    /// Flights that may be joined.
    static FLIGHTS: RefCell<HashMap<Key, Weak<Flight>>> = RefCell::default();
}

struct Flight {
    key: Key,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Bytes>,
    /// Number of the first piece that is kept.
    first: usize,
    held_bytes: usize,
    total_bytes: usize,
    readers: Vec<Place>,
    next_reader: u64,
    end: Option<Result<(), Rc<QueryError>>>,
    thread_id: u32,
    writer: Option<Waker>,
    task: Option<AbortHandle>,
}

/// The position of a reader in the output of a flight.
struct Place {
    id: u64,
    /// Number of the piece that it takes next.
    next: usize,
    waker: Option<Waker>,
}

/// Answers a request from a flight: one that is under way, or a new one.
pub(super) async fn run(
    req: &Rc<Request>,
    conf: &Arc<Conf>,
    backend: Arc<Backend>,
    statements: Rc<Statements>,
) -> Step {
    let format = prepare_response(req, conf, &statements);
    let key = Key {
        backend: Arc::as_ptr(&backend) as usize,
        location: Arc::as_ptr(conf) as usize,
        format: [&(std::ptr::from_ref(req.level()) as usize).to_ne_bytes(), format.of_request()].concat(),
        sql: statements.sql.clone(),
        params: statements.params.iter().map(comparable).collect(),
    };
    let under_way = FLIGHTS.with_borrow(|flights| flights.get(&key).and_then(Weak::upgrade));
    let flight = under_way.unwrap_or_else(|| Flight::begin(key, conf.clone(), backend, statements, format));
    let mut reader = Reader::join(flight);
    let running = req.context::<Running>();
    let mut is_untouched = true;
    // What has arrived at once is sent at once: a small result has its length announced.
    reader.first_words().await;
    running.thread_id.set(reader.flight.state.borrow().thread_id);
    loop {
        match reader.next().await {
            Next::Pieces(chunk) => {
                if is_untouched && chunk.last {
                    req.response.borrow_mut().content_length = Some(chunk.len());
                }
                is_untouched = false;
                let is_last = chunk.last;
                if req.send(chunk).wait().await.is_err() {
                    return Step::Close;
                }
                if is_last {
                    return Step::Ok;
                }
                if has_backlog(req)
                    && let Err(Closed) = drain(req).await
                {
                    return Step::Close;
                }
            }
            Next::Failed(error) => return failed(req, &error, is_untouched),
        }
    }
}

/// A parameter as something that can be a part of a key.
fn comparable(param: &Param) -> (u8, Bytes) {
    match param {
        Param::Null => (0, Bytes::new()),
        Param::Bytes(bytes) => (1, bytes.clone()),
        Param::Int(value) => (2, Bytes::copy_from_slice(&value.to_le_bytes())),
        Param::Uint(value) => (3, Bytes::copy_from_slice(&value.to_le_bytes())),
        Param::Double(value) => (4, Bytes::copy_from_slice(&value.to_le_bytes())),
        Param::Typed(kind, text) => (5, [&[*kind as u8], &text[..]].concat().into()),
    }
}

impl Flight {
    /// Starts a statement that others may join.
    fn begin(
        key: Key,
        conf: Arc<Conf>,
        backend: Arc<Backend>,
        statements: Rc<Statements>,
        format: RowFormat,
    ) -> Rc<Self> {
        let flight = Rc::new(Flight { key: key.clone(), state: RefCell::default() });
        FLIGHTS.with_borrow_mut(|flights| flights.insert(key, Rc::downgrade(&flight)));
        let mut pilot = Pilot { flight: flight.clone(), format, out: Vec::new() };
        let task = tokio::task::spawn_local(async move {
            let result = match worker::config() {
                Some(config) => {
                    let flight = pilot.flight.clone();
                    let notice = move |event: Event<'_>| {
                        if let Event::Began(id) = event {
                            flight.state.borrow_mut().thread_id = id;
                        }
                    };
                    backend.execute(&config, &conf, statements.run(&conf), &mut pilot, notice).await
                }
                None => Err(abandoned()),
            };
            pilot.end(result);
        });
        flight.state.borrow_mut().task = Some(task.abort_handle());
        flight
    }

    /// Lets nobody join any more.
    fn close(&self) {
        FLIGHTS.with_borrow_mut(|flights| {
            // Another flight may have begun in its place.
            if flights.get(&self.key).is_some_and(|other| std::ptr::eq(other.as_ptr(), self)) {
                flights.remove(&self.key);
            }
        });
    }
}

#[cold]
fn abandoned() -> QueryError {
    QueryError::Lost { peer: "the database".to_owned(), source: io::Error::other("the statement was abandoned") }
}

impl State {
    /// Drops the pieces that all readers have taken, if nobody can join any more.
    fn trim(&mut self) {
        if self.total_bytes <= JOIN_BYTES_MAX && self.end.is_none() {
            return;
        }
        let needed = self.readers.iter().map(|reader| reader.next).min().unwrap_or(usize::MAX);
        while self.first < needed
            && let Some(piece) = self.pieces.pop_front()
        {
            self.first += 1;
            self.held_bytes -= piece.len();
        }
        if self.held_bytes <= HELD_BYTES_MAX
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
    }

    fn wake_readers(&mut self) {
        self.readers.iter_mut().filter_map(|reader| reader.waker.take()).for_each(Waker::wake);
    }

    /// Where a reader stands; it has a place as long as it lives.
    fn place(&mut self, id: u64) -> Option<&mut Place> {
        self.readers.iter_mut().find(|reader| reader.id == id)
    }
}

/// The sink of a flight's statement.
struct Pilot {
    flight: Rc<Flight>,
    format: RowFormat,
    out: Vec<u8>,
}

impl Pilot {
    fn push(&mut self) -> Flow {
        if self.out.is_empty() {
            return Flow::More;
        }
        let piece = Bytes::from(std::mem::replace(&mut self.out, Vec::with_capacity(SEND_BYTES + 4096)));
        let mut state = self.flight.state.borrow_mut();
        state.held_bytes += piece.len();
        state.total_bytes += piece.len();
        state.pieces.push_back(piece);
        state.wake_readers();
        if state.total_bytes <= JOIN_BYTES_MAX {
            return Flow::More;
        }
        state.trim();
        let flow = if state.held_bytes > HELD_BYTES_MAX { Flow::Full } else { Flow::More };
        drop(state);
        self.flight.close();
        flow
    }

    fn end(mut self, result: Result<(), QueryError>) {
        if result.is_ok() {
            let _ = self.push();
        }
        self.finish(result);
    }

    fn finish(&self, result: Result<(), QueryError>) {
        let mut state = self.flight.state.borrow_mut();
        if state.end.is_none() {
            state.end = Some(result.map_err(Rc::new));
            state.wake_readers();
            drop(state);
            self.flight.close();
        }
    }
}

impl Drop for Pilot {
    /// The task ended early: nobody waits for ever.
    fn drop(&mut self) {
        self.finish(Err(abandoned()));
    }
}

impl Sink for Pilot {
    fn columns(&mut self, columns: &[Column]) {
        self.format.columns(columns, &mut self.out);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.format.row(row, &mut self.out);
        if self.out.len() < SEND_BYTES { Flow::More } else { self.push() }
    }
    fn end_result(&mut self, summary: &Summary) {
        self.format.end_result(summary, &mut self.out);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        let mut state = self.flight.state.borrow_mut();
        if state.held_bytes <= HELD_BYTES_MAX {
            return Poll::Ready(Ok(()));
        }
        state.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The next thing that a reader gets.
enum Next {
    /// All pieces that have come meanwhile; the last one if the statement has ended.
    Pieces(Chunk),
    Failed(Rc<QueryError>),
}

/// A request's part in a flight.
struct Reader {
    flight: Rc<Flight>,
    id: u64,
}

impl Reader {
    fn join(flight: Rc<Flight>) -> Self {
        let mut state = flight.state.borrow_mut();
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.push(Place { id, next: 0, waker: None });
        drop(state);
        Self { flight, id }
    }

    /// Waits until the statement has ended or has more than one piece of output.
    async fn first_words(&self) {
        self.wait(|state, _| state.pieces.len() > 1).await;
    }

    async fn next(&mut self) -> Next {
        self.wait(|state, next| next < state.first + state.pieces.len()).await;
        let mut state = self.flight.state.borrow_mut();
        let until = state.first + state.pieces.len();
        let from = state.place(self.id).map_or(until, |place| std::mem::replace(&mut place.next, until));
        if from >= until
            && let Some(Err(error)) = &state.end
        {
            return Next::Failed(error.clone());
        }
        let mut chunk = Chunk { last: matches!(state.end, Some(Ok(()))), ..Chunk::default() };
        chunk.bufs.extend(state.pieces.range(from - state.first..).cloned().map(Buf::Bytes));
        state.trim();
        Next::Pieces(chunk)
    }

    /// Waits until something holds of the state and the reader's next piece, or the statement has ended.
    async fn wait(&self, holds: impl Fn(&State, usize) -> bool) {
        poll_fn(|cx| {
            let mut state = self.flight.state.borrow_mut();
            let next = state.place(self.id).map_or(0, |place| place.next);
            if state.end.is_some() || holds(&state, next) {
                return Poll::Ready(());
            }
            if let Some(place) = state.place(self.id) {
                place.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.flight.state.borrow_mut();
        state.readers.retain(|reader| reader.id != self.id);
        if !state.readers.is_empty() {
            return state.trim();
        }
        let task = state.task.take();
        let is_over = state.end.is_some();
        drop(state);
        if !is_over {
            self.flight.close();
            task.iter().for_each(AbortHandle::abort);
        }
    }
}
