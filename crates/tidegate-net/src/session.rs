//! A client's connection as its worker knows it: the socket, the waits, and whether it may be closed or parked.
//!
//! What this does not know: what is said on it. That is its [`Service`](crate::service::Service)'s.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use crate::{Peer, clock, stream::Stream, turns};

/// How long a worker that shuts down waits for the first byte of a connection that it has accepted: long enough for a
/// client far away, short enough for those who wait for the shutdown.
pub(crate) const FRESH_WAIT_MS_MAX: u64 = 2000;

/// A client whose last answer is no older than this may be sending its next request right now.
pub(crate) const BUSY_IDLE_MS_MAX: u64 = 1000;

/// How long a worker that shuts down waits for that request: a client that finds the connection closed would take it for
/// a failure.
pub(crate) const BUSY_WAIT_MS: u64 = 400;

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A client's connection.
pub struct Session {
    /// Number, unique in the process: `$connection`.
    pub number: u64,
    /// The socket.
    pub stream: Stream,
    /// Who the socket says the client is. Who a trusted proxy says it is stands with each request.
    pub peer: Peer,
    /// Position of the port, among the application's, at which it was accepted.
    pub port: usize,
    /// When it was accepted, in milliseconds of [`clock::steady_ms`].
    pub accepted_ms: u64,
    /// Requests so far: `$connection_requests`.
    pub requests: Cell<u64>,
    /// Not a byte of a request has come yet.
    pub(crate) fresh: Cell<bool>,
    /// Small packets are sent at once.
    pub(crate) nodelay: Cell<bool>,
    /// When the wait under way is over, in milliseconds; 0 for never.
    pub(crate) deadline_ms: Cell<u64>,
    pub(crate) expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// It may be closed at once when the worker shuts down.
    idle: Cell<bool>,
    /// It waits for the first byte of a request.
    awaits_request: Cell<bool>,
    /// The worker has too many, and chose this one to go.
    pub(crate) surplus: Cell<bool>,
    /// When it became idle, in milliseconds.
    pub(crate) idle_since_ms: Cell<u64>,
    /// When the first byte came of the request that it waits for, in milliseconds; 0 while there is none.
    pub head_since_ms: Cell<u64>,
    /// Since when it waits for more of a request, in milliseconds; 0 while it does not.
    waiting_since_ms: Cell<u64>,
    /// That took so long that it is to be parked.
    parking: Cell<bool>,
    pub(crate) closing: Cell<bool>,
}

/// The outcome of a wait.
#[derive(Debug)]
pub enum Wait<T> {
    /// The event came.
    Ready(T),
    /// The event did not come in time.
    TimedOut,
    /// The connection is to be closed or parked.
    Closing,
}

/// Why a conversation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection is closed when nobody refers to it any more.
    Closed,
    /// Nothing has happened on it for a while: it may be parked.
    Idle,
}

impl Session {
    /// A new client's.
    pub(crate) fn new(stream: Stream, peer: Peer, port: usize) -> Self {
        Session { number: NUMBER.fetch_add(1, Ordering::Relaxed), stream, peer, port, ..Session::nobody() }
    }

    /// One without a socket.
    pub fn nobody() -> Self {
        Session {
            number: 0,
            stream: Stream::Closed,
            peer: Peer::Unix,
            port: 0,
            accepted_ms: clock::steady_ms(),
            requests: Cell::new(0),
            fresh: Cell::new(true),
            nodelay: Cell::new(false),
            deadline_ms: Cell::new(0),
            expired: Cell::new(false),
            waker: RefCell::new(None),
            idle: Cell::new(false),
            awaits_request: Cell::new(true),
            surplus: Cell::new(false),
            idle_since_ms: Cell::new(clock::steady_ms()),
            head_since_ms: Cell::new(0),
            waiting_since_ms: Cell::new(0),
            parking: Cell::new(false),
            closing: Cell::new(false),
        }
    }

    /// Begins to wait for a request. `closable`: the session may be closed meanwhile when the worker shuts down.
    pub fn await_request(&self, closable: bool) {
        let now_ms = clock::steady_ms();
        self.waiting_since_ms.set(now_ms);
        self.idle_since_ms.set(now_ms);
        self.awaits_request.set(true);
        self.idle.set(closable || self.surplus.get());
    }
    /// Begins to wait for whatever comes next of a protocol whose requests share the connection. Such a wait ends when the
    /// worker shuts down, and the session is not parked meanwhile. `is_idle`: no request is under way, so that the session
    /// may be closed to make room.
    pub fn await_frames(&self, is_idle: bool) {
        self.waiting_since_ms.set(0);
        if is_idle && !self.awaits_request.replace(true) {
            self.idle_since_ms.set(clock::steady_ms());
        }
        self.awaits_request.set(is_idle);
        self.idle.set(true);
    }
    /// Begins to wait for the rest of a request.
    pub fn await_rest(&self) {
        self.waiting_since_ms.set(clock::steady_ms());
    }
    /// The wait for a request, or for more of it, is over.
    pub fn end_await(&self) {
        self.idle.set(false);
        self.waiting_since_ms.set(0);
    }
    /// Bytes of a request are there, awaited or not: the worker does not close the session to make room.
    pub fn request_has_come(&self) {
        self.awaits_request.set(false);
    }
    /// Whether the session was told to be parked; it does so then, or goes on.
    pub fn take_parking(&self) -> bool {
        self.parking.take()
    }
    /// Sends small packets at once from now on.
    pub fn set_nodelay(&self) {
        if !self.nodelay.replace(true) {
            self.stream.set_nodelay();
        }
    }
    /// Takes note of bytes of a request, or that those that came were none of a request.
    pub fn set_fresh(&self, fresh: bool) {
        self.fresh.set(fresh);
    }

    /// Ends the connection as soon as it is idle; called when the worker shuts down.
    pub(crate) fn close_when_idle(&self) {
        self.closing.set(true);
        self.parking.set(false);
        let now_ms = clock::steady_ms();
        if self.idle.get() && now_ms.saturating_sub(self.idle_since_ms.get()) < BUSY_IDLE_MS_MAX {
            // Another request may be on its way: it is answered, with `Connection: close`.
            self.idle.set(false);
            self.end_wait_by(now_ms + BUSY_WAIT_MS);
        } else if self.idle.get() {
            self.wake();
        } else if self.fresh.get() {
            self.end_wait_by(now_ms + FRESH_WAIT_MS_MAX);
        }
    }
    /// Makes the wait under way end at this time at the latest.
    fn end_wait_by(&self, latest_ms: u64) {
        self.deadline_ms.set(match self.deadline_ms.get() {
            0 => latest_ms,
            deadline_ms => deadline_ms.min(latest_ms),
        });
    }
    /// Whether it waits for a request, its first or another, and may be closed.
    pub(crate) fn is_idle(&self) -> bool {
        self.awaits_request.get() && !self.closing.get()
    }
    /// Ends the connection, which is idle: others need its place.
    pub(crate) fn give_up(&self) {
        self.surplus.set(true);
        self.closing.set(true);
        self.parking.set(false);
        self.idle.set(true);
        self.wake();
    }
    /// Wakes the connection when its wait is over; called a few times a second.
    pub(crate) fn check_deadline(&self, now_ms: u64) {
        let deadline_ms = self.deadline_ms.get();
        if deadline_ms != 0 && now_ms >= deadline_ms {
            self.deadline_ms.set(0);
            self.expired.set(true);
            self.wake();
        }
    }
    /// Whether nothing has come for so long that it may be [parked](crate::parked).
    pub(crate) fn is_quiet(&self, now_ms: u64, park_after_ms: u64) -> bool {
        let since_ms = self.waiting_since_ms.get();
        let is_quiet = since_ms != 0 && now_ms.saturating_sub(since_ms) >= park_after_ms;
        is_quiet && !self.closing.get() && !self.expired.get() && self.stream.may_be_parked()
    }
    /// Ends the wait for a request, so that the connection is [parked](crate::parked).
    pub(crate) fn begin_parking(&self) {
        self.waiting_since_ms.set(0);
        self.parking.set(true);
        self.wake();
    }
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
    fn remember_waker(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Waits for `poll` to be ready, at most `timeout_ms` (0: forever).
    ///
    /// # Errors
    /// Those of `poll`.
    pub async fn wait<T>(
        &self,
        timeout_ms: u64,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<Wait<T>> {
        let mut armed = false;
        let result = poll_fn(|cx| {
            if let Poll::Ready(result) = poll(cx) {
                turns::note();
                return Poll::Ready(result.map(Wait::Ready));
            }
            if self.closing.get() && self.idle.get() {
                return Poll::Ready(Ok(Wait::Closing));
            }
            // A time limit as short as the wait for parking is over at the same look: it comes first.
            if self.expired.replace(false) {
                return Poll::Ready(Ok(Wait::TimedOut));
            }
            if self.parking.get() {
                return Poll::Ready(Ok(Wait::Closing));
            }
            if !armed {
                armed = true;
                let timeout_ms = match timeout_ms {
                    _ if !(self.closing.get() && self.fresh.get()) => timeout_ms,
                    0 => FRESH_WAIT_MS_MAX,
                    _ => timeout_ms.min(FRESH_WAIT_MS_MAX),
                };
                self.deadline_ms.set(if timeout_ms == 0 { 0 } else { clock::steady_ms() + timeout_ms });
            }
            self.remember_waker(cx);
            Poll::Pending
        })
        .await;
        self.expired.set(false);
        if !matches!(result, Ok(Wait::Closing)) {
            self.parking.set(false);
        }
        // Who parks the connection takes the deadline along.
        if !self.parking.get() {
            self.deadline_ms.set(0);
        }
        result
    }

    /// Waits until there is something to read.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn readable(&self, timeout_ms: u64) -> io::Result<Wait<()>> {
        self.wait(timeout_ms, |cx| self.stream.poll_read_ready(cx)).await
    }
}
