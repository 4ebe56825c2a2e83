//! Several requests under way on one connection, for protocols whose servers answer in the order of the requests.
//!
//! Requests that come in the same turn of the event loop leave in one write, and their answers are read together: with short
//! answers that is half of the system calls. A [`Lane`] is a connection while it is used so; a task of its own (`Driver`) sends
//! what the requests have put into the outbox, cuts what comes into answers and gives each to its request. So no request
//! waits for another one's client.
//!
//! Invariants:
//! - **L1** The requests in the queue are those that the lane still has to hear an answer to, in the order in which they are in the
//!   outbox or were sent. Nothing is taken for the answer to a request of which a byte is unsent.
//! - **L2** A request gets the whole of its answer, and nothing else; what is no answer of a known length ends the lane (L3).
//! - **L3** A lane ends when it is idle, when its connection breaks, when the answer at its front is too long or makes no sense, and when
//!   its front has waited for too long. All that still wait ask again, each alone, which does no harm: they only read. None of
//!   them gets the connection, for behind a length that is a lie stands what belongs to the others. Only a request without
//!   company whose answer is strange or long goes on with it, as if it had been alone from the beginning.
//! - **L4** A connection is kept for others only when every answer has been read and nothing stands behind the last.
//!
//! A request whose client leaves stays in the queue, and its answer is thrown away.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf as _, BytesMut};
use smallvec::SmallVec;

use super::{
    group::KeepAlive,
    keepalive,
    socket::{Destination, Lines, Socket, Watch, take_buffer},
};
use crate::clock;

/// How long an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Too little of it is here to tell.
    Unknown,
    /// So many bytes. If all of them are here, they end as an answer ends.
    Bytes(u64),
    /// It makes no sense, or nobody can tell where it ends.
    Broken,
}

/// Finds the length of the answer to a request, both given as bytes.
pub type Measure = fn(request: &[u8], input: &[u8]) -> Extent;

/// Most requests under way in a lane: so many wait longer when one of them does.
const REQUESTS_MAX: usize = 64;

/// Answers up to this length stay in memory until their clients have taken them; longer ones go at the pace of the client,
/// over a connection that nobody else uses.
const ANSWER_BYTES_MAX: u64 = 128 << 10;

/// Bytes of answers that may be ahead of a request, by the average of the answers before: 20 us of a processor's time.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// How long a request waits in a lane, in milliseconds, if its own time-out is not shorter: a server that answers late, or not at all
/// because it lost what was sent in advance, is asked by each request alone. Most servers answer a thousand times faster.
const WAIT_MS_MAX: u64 = 500;

/// Requests of a group that stay alone after a lane was given up for the length or the lateness of an answer: what is
/// asked twice is a small part of the whole.
const PAUSE_REQUESTS: u32 = 2048;

/// Bytes of an answer that must tell its length.
const HEAD_BYTES_MAX: usize = 4096;

/// Room for what is read at a time, in bytes.
const READ_BYTES: usize = 16 << 10;

/// Answers up to this length are copied, longer ones are cut off their buffer.
const COPY_BYTES_MAX: usize = 16 << 10;

/// Reads after which other requests have their turn.
const READS_IN_A_ROW: u32 = 16;

thread_local! {
    /// The lanes of this worker that are not at their end.
    static LANES: RefCell<Vec<Rc<Lane>>> = const { RefCell::new(Vec::new()) };
    /// What is known of each group's answers, by its number. Groups are few, so they are just gone through.
    static PACES: RefCell<Vec<(u32, Pace)>> = const { RefCell::new(Vec::new()) };
    /// Requests under way that may share.
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// Counts a request that may share a connection for as long as it waits for an answer.
pub(super) struct UnderWay(());

impl UnderWay {
    /// Begins to count. Answers whether there are others.
    pub(super) fn begin() -> (UnderWay, bool) {
        let others = UNDER_WAY.get();
        UNDER_WAY.set(others + 1);
        (UnderWay(()), others > 0)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get() - 1);
    }
}

/// What is known of a group's answers.
#[derive(Debug, Default, Clone, Copy)]
struct Pace {
    /// Requests that stay alone from now on.
    pause: u32,
    /// A moving average of the answers' lengths.
    answer_bytes: u64,
}

fn with_pace<T>(group: u32, change: impl FnOnce(&mut Pace) -> T) -> T {
    PACES.with_borrow_mut(|paces| {
        let at = paces.iter().position(|(number, _)| *number == group).unwrap_or_else(|| {
            paces.push((group, Pace::default()));
            paces.len() - 1
        });
        change(&mut paces[at].1)
    })
}

/// What has become of a request in a lane.
enum State {
    /// Its answer is still to come.
    Waiting,
    /// All of its answer.
    Answered(BytesMut),
    /// It has no company: the connection is its own from now on, with what has come of its answer.
    Alone(Box<Socket>),
    /// The lane has ended, or it has waited there for too long: it has to ask again.
    Lost,
    /// It waits no longer.
    Gone,
}

/// A request in a lane.
struct Slot {
    request: SmallVec<[u8; 64]>,
    measure: Measure,
    /// Where its last byte is in all that is sent over the lane.
    end: u64,
    /// When it came, and when its wait in the lane is over, in milliseconds of [`clock::steady_ms`].
    joined_ms: u64,
    until_ms: u64,
    state: RefCell<State>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn is_waiting(&self) -> bool {
        matches!(*self.state.borrow(), State::Waiting)
    }

    /// Ends the wait, if it is not over.
    fn settle(&self, state: State) {
        if self.is_waiting() {
            self.state.replace(state);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }
}

/// A connection with several requests under way.
struct Lane {
    /// What the connection was made with.
    lines: Lines,
    rules: KeepAlive,
    /// What is still to be sent.
    outbox: RefCell<Vec<u8>>,
    queue: RefCell<VecDeque<Rc<Slot>>>,
    /// Bytes that went through the outbox, and requests over the connection.
    queued_bytes: Cell<u64>,
    requests: Cell<u64>,
    /// The front has waited for too long.
    is_overdue: Cell<bool>,
    /// Somebody has left since the driver looked.
    has_leavers: Cell<bool>,
    driver: RefCell<Option<Waker>>,
}

impl Lane {
    /// Whether one more request fits in.
    fn has_room(&self) -> bool {
        let ahead = self.queue.borrow().len();
        let expected = || ahead as u64 * with_pace(self.group(), |pace| pace.answer_bytes);
        ahead < REQUESTS_MAX
            && !self.is_overdue.get()
            && self.requests.get() < self.rules.requests
            && expected() < AHEAD_BYTES_MAX
    }

    fn group(&self) -> u32 {
        self.lines.destination().group
    }

    fn add(self: Rc<Self>, request: &[u8], measure: Measure, timeout_ms: u64) -> Place {
        self.outbox.borrow_mut().extend_from_slice(request);
        self.queued_bytes.set(self.queued_bytes.get() + request.len() as u64);
        self.requests.set(self.requests.get() + 1);
        let joined_ms = clock::steady_ms();
        let slot = Rc::new(Slot {
            request: SmallVec::from_slice(request),
            measure,
            end: self.queued_bytes.get(),
            joined_ms,
            until_ms: if timeout_ms == 0 { u64::MAX } else { joined_ms.saturating_add(timeout_ms) },
            state: RefCell::new(State::Waiting),
            waker: RefCell::default(),
        });
        self.queue.borrow_mut().push_back(slot.clone());
        self.wake_driver();
        Place { slot, lane: self }
    }

    fn wake_driver(&self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }
}

/// Puts a request into a lane to the destination, or into a new one over a connection that was kept. `None`: the request is to
/// stay alone. After `timeout_ms` (0: never) it is lost to the lane: that time was spent on what is ahead of it.
pub(super) fn join(
    destination: Destination<'_>,
    rules: &KeepAlive,
    request: &[u8],
    measure: Measure,
    timeout_ms: u64,
) -> Option<Place> {
    let is_paused = with_pace(destination.group, |pace| {
        let is_paused = pace.pause > 0;
        pace.pause = pace.pause.saturating_sub(1);
        is_paused
    });
    if is_paused {
        return None;
    }
    let lane = LANES.with_borrow(|lanes| {
        lanes.iter().find(|lane| lane.lines.destination() == destination && lane.has_room()).cloned()
    });
    let lane = match lane {
        Some(lane) => lane,
        None => begin(destination, rules)?,
    };
    Some(lane.add(request, measure, timeout_ms))
}

fn begin(destination: Destination<'_>, rules: &KeepAlive) -> Option<Rc<Lane>> {
    let socket = keepalive::take(destination)?;
    let lane = Rc::new(Lane {
        lines: socket.lines().clone(),
        rules: *rules,
        outbox: RefCell::default(),
        queue: RefCell::default(),
        queued_bytes: Cell::new(0),
        requests: Cell::new(socket.requests),
        is_overdue: Cell::new(false),
        has_leavers: Cell::new(false),
        driver: RefCell::default(),
    });
    LANES.with_borrow_mut(|lanes| lanes.push(lane.clone()));
    let driver = Driver { lane: lane.clone(), socket: Some(socket), sent_bytes: 0, missing_bytes: 0, gave_long: false };
    tokio::task::spawn_local(driver);
    Some(lane)
}

/// Ends waits that took too long; called a few times a second. Those who waited ask alone, with the whole of their time-out: in a lane
/// they waited for others' answers, and for the last byte instead of the next.
pub(crate) fn sweep(now_ms: u64) {
    LANES.with_borrow(|lanes| {
        for lane in lanes {
            let queue = lane.queue.borrow();
            for slot in queue.iter().filter(|slot| now_ms >= slot.until_ms && slot.is_waiting()) {
                slot.settle(State::Lost);
                lane.has_leavers.set(true);
                lane.wake_driver();
            }
            if queue.front().is_some_and(|front| now_ms >= front.joined_ms.saturating_add(WAIT_MS_MAX)) {
                lane.is_overdue.set(true);
                lane.wake_driver();
            }
        }
    });
}

/// A request's place in a lane. Dropping it gives the answer up.
pub(super) struct Place {
    slot: Rc<Slot>,
    lane: Rc<Lane>,
}

/// What came of waiting in a lane.
pub(super) enum Outcome {
    /// The whole answer, in a connection that is none any more.
    Answered(Socket),
    /// The connection is this request's own.
    Alone(Box<Socket>),
    /// Nothing: the request has to ask again.
    Lost,
    /// The client has closed its connection.
    ClientGone,
}

impl Place {
    /// Waits for the answer.
    pub(super) fn poll(&self, cx: &mut Context<'_>, watch: &Watch<'_>) -> Poll<Outcome> {
        let settled = if self.slot.is_waiting() { None } else { Some(self.slot.state.replace(State::Gone)) };
        Poll::Ready(match settled {
            Some(State::Answered(answer)) => {
                Outcome::Answered(Socket::answered(self.lane.lines.clone(), answer, self.slot.request.len()))
            }
            Some(State::Alone(socket)) => Outcome::Alone(socket),
            Some(State::Lost | State::Gone) => Outcome::Lost,
            Some(State::Waiting) | None => {
                if watch.poll_gone(cx) {
                    return Poll::Ready(Outcome::ClientGone);
                }
                let mut waker = self.slot.waker.borrow_mut();
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.slot.is_waiting() {
            self.slot.state.replace(State::Gone);
            self.lane.has_leavers.set(true);
            self.lane.wake_driver();
        }
    }
}

/// The task of a lane.
struct Driver {
    lane: Rc<Lane>,
    /// `None` when a request has it.
    socket: Option<Socket>,
    sent_bytes: u64,
    /// Bytes that the answer at the front lacks, as far as that is known.
    missing_bytes: usize,
    /// A request has got a long answer since the last turn.
    gave_long: bool,
}

/// How a lane ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nobody waits for an answer, and nothing is there.
    Idle,
    /// The connection is of no use any more, or is somebody's own.
    Broken,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let end = ready!(this.advance(cx));
        if end == End::Idle
            && let Some(mut socket) = this.socket.take()
        {
            socket.requests = this.lane.requests.get();
            keepalive::give(socket, &this.lane.rules);
        }
        Poll::Ready(())
    }
}

impl Driver {
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        {
            let mut waker = self.lane.driver.borrow_mut();
            *waker = Some(cx.waker().clone());
        }
        if self.lane.is_overdue.get() {
            self.pause();
            return Poll::Ready(End::Broken);
        }
        if self.lane.has_leavers.take() && !self.lane.queue.borrow().iter().any(|slot| slot.is_waiting()) {
            return Poll::Ready(End::Broken);
        }
        if self.send(cx).is_err() {
            return Poll::Ready(End::Broken);
        }
        for _ in 0..READS_IN_A_ROW {
            if let Some(end) = self.hand_out() {
                return Poll::Ready(end);
            }
            if std::mem::take(&mut self.gave_long) {
                break;
            }
            self.make_room();
            let Some(socket) = &mut self.socket else { return Poll::Ready(End::Broken) };
            match socket.try_read() {
                Ok(0) => return Poll::Ready(End::Broken),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if ready!(socket.stream.poll_read_ready(cx)).is_err() {
                        return Poll::Ready(End::Broken);
                    }
                }
                Err(_) => return Poll::Ready(End::Broken),
            }
        }
        // A server that sends faster than it is read leaves others their turn, and a long answer goes out while it is in the
        // processor's cache.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends what the socket takes.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let mut outbox = self.lane.outbox.borrow_mut();
        while !outbox.is_empty() {
            match socket.stream.try_write(&outbox) {
                Ok(count) => {
                    outbox.drain(..count);
                    self.sent_bytes += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match socket.stream.poll_write_ready(cx) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(result) => result?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes room for what the front lacks, or for an answer as long as the last ones.
    fn make_room(&mut self) {
        let expected = with_pace(self.lane.group(), |pace| pace.answer_bytes);
        let Some(socket) = &mut self.socket else { return };
        let expected = usize::try_from(expected.min(ANSWER_BYTES_MAX)).unwrap_or(READ_BYTES);
        let wanted = if self.missing_bytes > 0 { self.missing_bytes } else { expected.max(READ_BYTES) };
        if socket.input.capacity() - socket.input.len() < wanted.min(READ_BYTES / 4).max(self.missing_bytes) {
            socket.reserve(wanted);
        }
    }

    /// Gives each request its answer, as far as answers are here.
    fn hand_out(&mut self) -> Option<End> {
        while !self.gave_long {
            let Some(socket) = &mut self.socket else { return Some(End::Broken) };
            let input = &mut socket.input;
            let Some(front) = self.lane.queue.borrow().front().cloned() else {
                return Some(if input.is_empty() { End::Idle } else { End::Broken });
            };
            if front.end > self.sent_bytes {
                // Nobody has asked for it yet (L1).
                return (!input.is_empty()).then_some(End::Broken);
            }
            self.missing_bytes = 0;
            match (front.measure)(&front.request, input) {
                Extent::Bytes(bytes) if bytes <= ANSWER_BYTES_MAX => {
                    let bytes = bytes as usize;
                    if input.len() < bytes {
                        self.missing_bytes = bytes - input.len();
                        return None;
                    }
                    let answer = cut_off(input, bytes);
                    self.lane.queue.borrow_mut().pop_front();
                    with_pace(self.lane.group(), |pace| {
                        pace.answer_bytes = (pace.answer_bytes * 7 + bytes as u64) / 8;
                    });
                    front.settle(State::Answered(answer));
                    self.gave_long = bytes > COPY_BYTES_MAX;
                }
                Extent::Unknown if input.len() < HEAD_BYTES_MAX => return None,
                extent => {
                    if extent != Extent::Broken {
                        self.pause();
                    }
                    return Some(self.hand_over());
                }
            }
        }
        None
    }

    /// Has the requests of the group stay alone for a while.
    #[cold]
    fn pause(&self) {
        with_pace(self.lane.group(), |pace| pace.pause = PAUSE_REQUESTS);
    }

    /// Gives the connection to a request that is the only one (L3).
    #[cold]
    fn hand_over(&mut self) -> End {
        let mut queue = self.lane.queue.borrow_mut();
        if queue.len() == 1
            && let Some(only) = queue.pop_front_if(|only| only.end <= self.sent_bytes && only.is_waiting())
            && let Some(mut socket) = self.socket.take()
        {
            socket.requests = self.lane.requests.get();
            (socket.sent, socket.received) = (only.request.len() as u64, socket.input.len() as u64);
            only.settle(State::Alone(Box::new(socket)));
        }
        End::Broken
    }
}

/// Takes the first bytes, with their memory or in memory of their own.
fn cut_off(input: &mut BytesMut, bytes: usize) -> BytesMut {
    if bytes <= COPY_BYTES_MAX {
        let mut copy = take_buffer();
        copy.extend_from_slice(&input[..bytes]);
        input.advance(bytes);
        copy
    } else if bytes == input.len() {
        std::mem::take(input)
    } else {
        input.split_to(bytes)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Without the thread's list (it is ending) there is nobody to join.
        let _ = LANES.try_with(|lanes| lanes.borrow_mut().retain(|lane| !Rc::ptr_eq(lane, &self.lane)));
        for slot in self.lane.queue.take() {
            slot.settle(State::Lost);
        }
    }
}
