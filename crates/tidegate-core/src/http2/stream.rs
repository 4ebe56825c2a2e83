//! The client of one request: a stream.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use smallvec::SmallVec;
use tidegate_http::{
    Fields,
    http2::{ErrorCode, FrameHeader, flag, kind, priority::Priority, response::encode_fields, write_block},
};

use super::mux::{Mux, Sent};
use crate::{clock, connection::Connection, deadline::Deadline, output_queue::OutputQueue};

/// A stream. It lives until its request has ended and all of the response is queued on the connection.
///
/// - **S1** What has left `output` is within both windows, and is in the connection's queue.
/// - **S2** Bytes of the request that nobody has used are in `input` or credited: the client cannot send more than the
///   window that it was given.
pub struct Stream {
    pub(super) mux: Rc<Mux>,
    pub(super) id: u32,
    /// Bytes of the request's header block.
    head_bytes: u64,
    /// The head, until it is queued on the connection.
    head: RefCell<Vec<u8>>,
    pub(crate) output: RefCell<OutputQueue>,
    trailers: RefCell<Vec<u8>>,
    /// All of the response is in `head`, `output` and `trailers`.
    ended: Cell<bool>,
    /// The end is queued on the connection, or the stream was reset.
    pub(super) end_queued: Cell<bool>,
    /// It stands in the mux's line.
    pub(super) in_line: Cell<bool>,
    pub(super) priority: Cell<Priority>,
    /// The client wants to speak another protocol on it (RFC 8441).
    pub(super) is_tunnel: Cell<bool>,
    /// `http2_chunk_size` where the head was sent.
    chunk_bytes: Cell<usize>,
    /// Bytes that the client has leave for.
    pub(super) send_window: Cell<i64>,
    pub(crate) input: RefCell<Vec<u8>>,
    /// The client has sent the end.
    pub(super) input_ended: Cell<bool>,
    /// The client has taken the request back.
    pub(super) was_reset: Cell<bool>,
    /// Bytes that the client may still send.
    pub(super) receive_window: Cell<i64>,
    /// Bytes that the client may have sent and nobody has used; it grows while they are used as fast as they come.
    window: Cell<i64>,
    /// Bytes that were used and for which the client has got no leave.
    used: Cell<u32>,
    /// Bytes that `Content-Length` promises and that have not come.
    pub(super) promised: Cell<Option<u64>>,
    /// What the client did wrong on it: the stream is reset for that behind its response.
    fault: Cell<Option<ErrorCode>>,
    /// The client did not send in time what the request waited for.
    timed_out: Cell<bool>,
    /// Nothing more can be sent, since the stream was reset or the connection broke.
    broken: Cell<bool>,
    /// The request has ended.
    pub(super) done: Cell<bool>,
    /// When it ended, or a part of the body was last queued on the connection, in milliseconds.
    pub(super) moved_ms: Cell<u64>,
    /// Those who wait for anything to happen.
    waiting: RefCell<SmallVec<[Waker; 2]>>,
}

/// What became of a turn of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has more to send.
    More,
    /// It has nothing to send now, or no leave to.
    Over,
    /// The connection has no leave to send.
    Full,
}

impl Stream {
    pub(super) fn new(mux: &Rc<Mux>, id: u32, head_bytes: usize, input_ended: bool) -> Rc<Self> {
        Rc::new(Stream {
            mux: mux.clone(),
            id,
            head_bytes: head_bytes as u64,
            head: RefCell::default(),
            output: RefCell::default(),
            trailers: RefCell::default(),
            ended: Cell::new(false),
            end_queued: Cell::new(false),
            in_line: Cell::new(false),
            priority: Cell::new(Priority::UNSAID),
            is_tunnel: Cell::new(false),
            chunk_bytes: Cell::new(usize::MAX),
            send_window: Cell::new(mux.initial_window.get()),
            input: RefCell::default(),
            input_ended: Cell::new(input_ended),
            was_reset: Cell::new(false),
            receive_window: Cell::new(mux.receive_window),
            window: Cell::new(mux.receive_window),
            used: Cell::new(0),
            promised: Cell::new(None),
            fault: Cell::new(None),
            timed_out: Cell::new(false),
            broken: Cell::new(false),
            done: Cell::new(false),
            moved_ms: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// The connection.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.mux.conn
    }
    /// Whether nothing more can be sent.
    pub fn is_broken(&self) -> bool {
        self.broken.get() || self.mux.conn.is_broken()
    }
    /// Bytes of the request's header block.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.head_bytes
    }
    /// Whether the client has sent all of its request, and it makes sense.
    pub(crate) fn is_input_whole(&self) -> bool {
        self.input_ended.get() && !self.is_malformed()
    }

    /// Takes the head of the response. It waits for the body, or its end, as long as nobody wants it sent.
    /// `chunk_bytes`: the largest piece of the body that is to go out at a time.
    pub(crate) fn send_head(&self, chunk_bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
        self.chunk_bytes.set(chunk_bytes);
        let mut head = self.head.borrow_mut();
        encode(&mut head);
        head.len() as u64
    }
    /// Takes the end of the response.
    pub(crate) fn end(self: &Rc<Self>, trailers: Option<&Fields>) {
        if let Some(trailers) = trailers.filter(|trailers| !trailers.is_empty()) {
            encode_fields(trailers, &mut self.trailers.borrow_mut());
        }
        self.ended.set(true);
        self.mux.line_up(self);
    }
    /// Gives the stream up for a reason of ours. A client that has all of the response learns only that the rest of its
    /// request is not wanted.
    pub(crate) fn abort(&self, code: ErrorCode) {
        let has_end = self.end_queued.replace(true);
        let is_over = has_end && self.input_ended.get();
        if !is_over && !self.broken.get() {
            let code = match self.fault.get() {
                Some(fault) => fault,
                None if has_end => ErrorCode::NoError,
                // Source: nginx, `ngx_http_v2_close_stream`.
                None if self.timed_out.get() => ErrorCode::ProtocolError,
                None => code,
            };
            self.mux.queue_reset(self.id, code);
        }
        self.break_off();
    }
    /// Takes note that the client did not send in time what the request waited for.
    pub(crate) fn note_timeout(&self) {
        self.timed_out.set(true);
    }
    /// Takes note that the request is malformed. Who reads it learns that; the response may still come, and then the reset
    /// (RFC 9113, section 8.1.1).
    pub(super) fn note_fault(&self, code: ErrorCode) {
        self.fault.set(Some(code));
        *self.input.borrow_mut() = Vec::new();
        self.wake();
    }
    /// Whether the request is malformed.
    pub(crate) fn is_malformed(&self) -> bool {
        self.fault.get().is_some()
    }
    /// What the client did wrong and has not been told, if anything.
    pub(super) fn take_fault(&self) -> Option<ErrorCode> {
        self.fault.take()
    }
    /// Gives the stream up since the client breaks the rules on it.
    pub(super) fn reject(&self, code: ErrorCode) {
        if !self.broken.get() {
            self.mux.queue_reset(self.id, code);
        }
        self.break_off();
        self.mux.remove_if_over(self);
    }
    /// Whether the client has all of the response, and we do not have all of the request.
    pub(super) fn is_half_closed(&self) -> bool {
        self.end_queued.get() && !self.input_ended.get() && !self.broken.get()
    }
    /// The request has ended: resets the stream if the response is not whole.
    pub(super) fn note_done(&self) {
        self.done.set(true);
        self.moved_ms.set(clock::steady_ms());
        if !self.ended.get() {
            self.abort(ErrorCode::InternalError);
        }
        *self.input.borrow_mut() = Vec::new();
    }
    /// Takes note that nothing more can be sent or will come.
    pub(super) fn break_off(&self) {
        self.broken.set(true);
        self.end_queued.set(true);
        *self.output.borrow_mut() = OutputQueue::default();
        self.wake();
    }

    /// Queues the next frames on the connection: the head, and one frame of the body.
    pub(super) fn take_turn(&self, out: &mut OutputQueue) -> Turn {
        if self.end_queued.get() {
            return Turn::Over;
        }
        let mut output = self.output.borrow_mut();
        let has_trailers = !self.trailers.borrow().is_empty();
        let mut head = self.head.borrow_mut();
        if !head.is_empty() {
            let is_all = self.ended.get() && output.is_empty() && !has_trailers;
            self.mux.begin_block(&mut head);
            write_block(self.id, is_all, &head, &mut out.buf);
            self.mux.note_head(head.len() as u64);
            *head = Vec::new();
            if is_all {
                return self.note_end();
            }
        }
        if !output.is_empty() {
            let room = output.room().min(self.mux.frame_bytes_max.get().min(self.chunk_bytes.get()) as u64);
            let window = self.send_window.get().min(self.mux.send_window.get());
            let len = output.len().min(room).min(u64::try_from(window).unwrap_or(0));
            if len == 0 {
                let is_full = self.mux.send_window.get() <= 0 && self.send_window.get() > 0 && room > 0;
                return if is_full { Turn::Full } else { Turn::Over };
            }
            let is_last = self.ended.get() && len == output.len() && !has_trailers;
            let flags = if is_last { flag::END_STREAM } else { 0 };
            FrameHeader { len: len as usize, kind: kind::DATA, flags, stream: self.id }.write(&mut out.buf);
            output.move_to(out, len);
            self.send_window.set(self.send_window.get() - len as i64);
            self.mux.send_window.set(self.mux.send_window.get() - len as i64);
            self.moved_ms.set(clock::steady_ms());
            self.mux.note_body(len, self.moved_ms.get());
            self.wake();
            if is_last {
                return self.note_end();
            }
            if !output.is_empty() {
                return Turn::More;
            }
        }
        if self.ended.get() {
            if has_trailers {
                write_block(self.id, true, &self.trailers.borrow(), &mut out.buf);
            } else {
                FrameHeader { len: 0, kind: kind::DATA, flags: flag::END_STREAM, stream: self.id }.write(&mut out.buf);
            }
            return self.note_end();
        }
        Turn::Over
    }

    fn note_end(&self) -> Turn {
        self.end_queued.set(true);
        self.mux.note_answer();
        self.wake();
        Turn::Over
    }

    /// Whether output waits for leave of the client.
    pub(super) fn has_unsent(&self) -> bool {
        !self.end_queued.get() && (self.ended.get() || !self.output.borrow().is_empty())
    }
    /// Bytes of output that are not queued on the connection.
    pub fn unsent_bytes(&self) -> u64 {
        self.output.borrow().len()
    }

    /// Whether so many more bytes may wait in memory, as far as the other streams of the connection leave room; `output` is this stream's.
    pub(crate) fn shares(&self, output: &OutputQueue, bytes: u64) -> bool {
        self.mux.has_memory_for(self.id, output.memory_bytes() + bytes)
    }

    /// Whether the client has given leave for so many bytes.
    pub(crate) fn has_leave_for(&self, bytes: u64) -> bool {
        let window = self.send_window.get().min(self.mux.send_window.get());
        bytes == 0 || u64::try_from(window).is_ok_and(|window| bytes <= window)
    }
    /// Sends what the client takes at once; answers whether that was all.
    pub(crate) fn write_now(self: &Rc<Self>) -> io::Result<bool> {
        if self.is_broken() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.mux.line_up(self);
        if self.mux.send_now()? != Sent::All {
            self.mux.wake();
        }
        Ok(self.output.borrow().is_empty())
    }

    /// See [`Connection::drain_to`].
    pub(crate) async fn drain_to(self: &Rc<Self>, bytes: u64, timeout_ms: u64) -> io::Result<()> {
        loop {
            if self.write_now()? || (bytes > 0 && self.output.borrow().len() <= bytes) {
                return Ok(());
            }
            let before = self.output.borrow().len();
            let pause = self.output.borrow().pause();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
                clock::update();
                continue;
            }
            let moved = |_: &mut Context<'_>| {
                let is_moved = self.is_broken() || self.output.borrow().len() < before;
                if is_moved { Poll::Ready(()) } else { Poll::Pending }
            };
            if self.wait(timeout_ms, moved).await.is_none() {
                self.abort(ErrorCode::Cancel);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// See [`Connection::read_more`](crate::client::Client::read_more).
    pub(crate) async fn read_more(&self, timeout_ms: u64) -> io::Result<usize> {
        let read = self.wait(timeout_ms, |cx| self.poll_read_more(cx)).await;
        read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
    /// How many bytes of the request are there; 0 at its end.
    ///
    /// # Errors
    /// `InvalidData` when the request is malformed; `ConnectionAborted` when the client has gone.
    pub(crate) fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.credit();
        if self.is_malformed() {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        match self.input.borrow().len() {
            0 if self.input_ended.get() => Poll::Ready(Ok(0)),
            0 if self.is_broken() => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            0 => {
                self.remember(cx);
                Poll::Pending
            }
            count => Poll::Ready(Ok(count)),
        }
    }
    /// Takes note that so many bytes of the input were used.
    pub(crate) fn note_used(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_add(bytes as u32));
    }
    /// Gives leave for as much as was used, and for more the next time, when that is worth a frame.
    pub(super) fn credit(&self) {
        let (used, left) = (i64::from(self.used.get()), self.receive_window.get());
        let is_worth_it = used > 0 && (used * 2 >= self.window.get() || left <= 0);
        // Not a byte may come without leave where `http2_body_preread_size` is 0.
        let is_first = self.window.get() == 0 && self.input.borrow().is_empty();
        let is_wanted = self.promised.get().is_none_or(|promised| promised > left.unsigned_abs());
        if !(is_worth_it || is_first) || !is_wanted || self.input_ended.get() || self.broken.get() {
            return;
        }
        let more = used + self.mux.widen(&self.window);
        self.used.set(0);
        self.receive_window.set(left + more);
        self.mux.queue_window_update(self.id, more as u32);
    }
    /// Bytes that the window has grown by.
    pub(super) fn window_growth(&self) -> i64 {
        self.window.get() - self.mux.receive_window
    }

    /// Waits until the client is gone or does not want the response any more.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() {
            return Poll::Ready(());
        }
        self.remember(cx);
        Poll::Pending
    }

    /// Waits for `poll` to be ready, at most `timeout_ms` (0: for ever); `None` when the time is over.
    async fn wait<T>(&self, timeout_ms: u64, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        let first = poll_fn(|cx| Poll::Ready(poll(cx))).await;
        if let Poll::Ready(value) = first {
            return Some(value);
        }
        let deadline = Deadline::new();
        deadline.arm(timeout_ms);
        let outcome = poll_fn(|cx| {
            if let Poll::Ready(value) = poll(cx) {
                return Poll::Ready(Some(value));
            }
            if deadline.poll_expired(cx) {
                return Poll::Ready(None);
            }
            self.remember(cx);
            Poll::Pending
        })
        .await;
        clock::update();
        outcome
    }
    pub(super) fn remember(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }
    /// Wakes those who wait for something to happen on the stream.
    pub(super) fn wake(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).field("ended", &self.ended).finish_non_exhaustive()
    }
}
