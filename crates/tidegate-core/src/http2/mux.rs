//! What the streams of a connection share: its windows, its output and the line for it.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    rc::Rc,
    task::{Context, Waker},
};

use tidegate_http::{
    hpack::encode,
    http2::{
        ErrorCode, FRAME_BYTES_MAX, WINDOW_BYTES, priority::Priority, write_goaway, write_reset, write_window_update,
    },
};

use super::{
    flood::Outgoing,
    line::Line,
    linger::Lingering,
    stream::{Stream, Turn},
};
use crate::{clock, connection::Connection, http2_settings::Conf};

/// Frames that wait for the socket; streams queue no more beyond that. Large enough for one write to be worth its
/// call, small enough for a stream that becomes ready to be heard soon.
const BACKLOG_BYTES: u64 = 64 << 10;

/// Streams that are remembered when they are over.
const CUT_MAX: usize = 64;

/// Bytes that one connection sends before others have their turn.
///
/// Source: nginx, `sendfile_max_chunk`.
const TURN_BYTES_MAX: u64 = 2 << 20;

/// A stream's window for bodies, once somebody reads them as fast as they come, is between these: the first lets a client
/// send what most forms have in one go, the second fills a path of 80 Mbit/s and 100 ms.
const WINDOW_GROWN_BYTES_MIN: i64 = 64 << 10;
const WINDOW_GROWN_BYTES_MAX: i64 = 1 << 20;

/// Bytes by which the windows of all streams of a connection may grow. They may wait in memory where the readers stop.
const WINDOW_GROWTH_BYTES_MAX: i64 = 8 << 20;

/// Bytes of output that the streams of a connection keep in memory together. Without it a client that takes nothing would cost as much on one
/// connection as on a hundred ([`crate::spill`]).
const KEPT_BYTES_MAX: u64 = 8 << 20;

/// Bytes that a stream keeps in memory whatever the others keep: what waits for the end of a turn is no reason for a file.
const KEPT_BYTES_MIN: u64 = 32 << 10;

/// How far sending came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All that may be sent has left.
    All,
    /// The socket or the disk has to be waited for, which is up to the connection's task.
    Blocked,
    /// There is more, but others should have their turn.
    TurnOver,
}

/// The streams of a connection.
pub(crate) struct Mux {
    pub(super) conn: Rc<Connection>,
    /// In the order of their numbers.
    streams: RefCell<Vec<Rc<Stream>>>,
    /// Those with something to send.
    line: RefCell<Line<Rc<Stream>>>,
    /// Bytes that the client has leave for on all streams together.
    pub(super) send_window: Cell<i64>,
    /// The same on a new stream.
    pub(super) initial_window: Cell<i64>,
    /// What a stream's client may send before somebody reads it.
    pub(super) receive_window: i64,
    /// Bytes by which the windows of streams may still grow.
    growth_left: Cell<i64>,
    /// The longest payload that the client takes.
    pub(super) frame_bytes_max: Cell<usize>,
    /// What the streams have queued on the connection and nobody has counted.
    outgoing: Cell<Outgoing>,
    /// When they last queued a part of a body, in milliseconds.
    moved_ms: Cell<u64>,
    /// Streams that were ended before the client had said all, the last ones.
    cut: RefCell<VecDeque<u32>>,
    /// Streams of which nothing but the rest of the client's request is to come.
    pub(super) lingering: RefCell<Lingering>,
    /// A header block was sent.
    has_sent_block: Cell<bool>,
    /// The connection's task.
    task: RefCell<Option<Waker>>,
    /// It has something to do.
    woken: Cell<bool>,
}

impl Mux {
    pub(super) fn new(conn: &Rc<Connection>, conf: &Conf) -> Rc<Self> {
        conn.output.borrow_mut().gathers = true;
        Rc::new(Mux {
            conn: conn.clone(),
            streams: RefCell::default(),
            line: RefCell::default(),
            send_window: Cell::new(WINDOW_BYTES),
            initial_window: Cell::new(WINDOW_BYTES),
            receive_window: conf.body_preread_bytes(),
            growth_left: Cell::new(WINDOW_GROWTH_BYTES_MAX),
            frame_bytes_max: Cell::new(FRAME_BYTES_MAX),
            outgoing: Cell::default(),
            moved_ms: Cell::new(clock::steady_ms()),
            cut: RefCell::default(),
            lingering: RefCell::new(Lingering::new(&conn.default_level().core.keepalive)),
            has_sent_block: Cell::new(false),
            task: RefCell::new(None),
            woken: Cell::new(false),
        })
    }

    /// How many streams have a request under way, or a response that is not all queued.
    pub(super) fn count(&self) -> usize {
        self.streams.borrow().len() - self.lingering.borrow().count()
    }
    /// How many streams there are, with those that linger.
    pub(super) fn count_all(&self) -> usize {
        self.streams.borrow().len()
    }
    pub(super) fn find(&self, id: u32) -> Option<Rc<Stream>> {
        let streams = self.streams.borrow();
        streams.binary_search_by_key(&id, |stream| stream.id).ok().map(|at| streams[at].clone())
    }
    /// Adds a stream; its number is the highest so far.
    pub(super) fn add(&self, stream: Rc<Stream>) {
        self.streams.borrow_mut().push(stream);
    }
    /// Forgets a stream whose request has ended and whose end is queued, or lets it linger where the client has not ended it.
    pub(super) fn remove_if_over(&self, stream: &Stream) {
        if !stream.done.get() || !stream.end_queued.get() {
            return;
        }
        match stream.take_fault() {
            Some(code) if !stream.is_broken() => self.queue_reset(stream.id, code),
            Some(_) => {}
            None if self.linger(stream) => return,
            None => {}
        }
        self.forget(stream);
    }
    /// Forgets a stream, whatever has become of it.
    pub(super) fn forget(&self, stream: &Stream) {
        if !stream.input_ended.get() && !stream.was_reset.get() {
            self.note_cut(stream.id);
        }
        self.lingering.borrow_mut().remove(stream.id);
        let mut streams = self.streams.borrow_mut();
        if let Ok(at) = streams.binary_search_by_key(&stream.id, |other| other.id) {
            streams.remove(at);
            self.growth_left.set(self.growth_left.get() + stream.window_growth());
        }
    }
    /// Remembers a stream that was ended before the client had said all.
    pub(super) fn note_cut(&self, id: u32) {
        let mut cut = self.cut.borrow_mut();
        if cut.len() >= CUT_MAX {
            cut.pop_front();
        }
        cut.push_back(id);
    }
    pub(super) fn forget_cut(&self, id: u32) {
        self.cut.borrow_mut().retain(|&cut| cut != id);
    }
    /// Whether a stream was ended before the client had said all, not long ago.
    pub(super) fn was_cut(&self, id: u32) -> bool {
        self.cut.borrow().contains(&id)
    }
    /// Doubles the window of a stream, as far as it may grow; gives by how much.
    pub(super) fn widen(&self, window: &Cell<i64>) -> i64 {
        widen(window, &self.growth_left)
    }
    /// Whether a stream may have `bytes` of output in memory, beside what the others have there. Nobody may be changing their output.
    pub(super) fn has_memory_for(&self, id: u32, bytes: u64) -> bool {
        let streams = self.streams.borrow();
        let others =
            streams.iter().filter(|stream| stream.id != id).map(|stream| stream.output.borrow().memory_bytes());
        bytes <= KEPT_BYTES_MIN || bytes + others.sum::<u64>() <= KEPT_BYTES_MAX
    }
    /// Takes note of a head that a stream has queued.
    pub(super) fn note_head(&self, bytes: u64) {
        let mut outgoing = self.outgoing.get();
        outgoing.add_frame(bytes);
        self.outgoing.set(outgoing);
    }
    /// Takes note of a part of a body.
    pub(super) fn note_body(&self, bytes: u64, now_ms: u64) {
        self.note_head(bytes);
        self.moved_ms.set(now_ms);
    }
    /// Takes note that all of a response is queued.
    pub(super) fn note_answer(&self) {
        let mut outgoing = self.outgoing.get();
        outgoing.add_answer();
        self.outgoing.set(outgoing);
    }
    /// What was queued since the last call.
    pub(super) fn take_outgoing(&self) -> Outgoing {
        self.outgoing.take()
    }

    /// Since when a response has waited for leave whose request has ended, in milliseconds; `None` for all others: a request that goes on looks at
    /// the time itself. One whose own window is open is not the one to blame while others use up that of the connection.
    fn waits_since(&self, stream: &Stream) -> Option<u64> {
        let since_ms = stream.moved_ms.get();
        let is_behind = stream.send_window.get() > 0;
        let waits = stream.done.get() && !stream.end_queued.get();
        waits.then(|| if is_behind { since_ms.max(self.moved_ms.get()) } else { since_ms })
    }
    /// When the first of these responses has waited for `limit_ms`.
    pub(super) fn stall_ms(&self, limit_ms: u64) -> Option<u64> {
        let streams = self.streams.borrow();
        streams.iter().filter_map(|stream| self.waits_since(stream)).min().map(|since_ms| since_ms + limit_ms)
    }
    /// Gives up those that have waited for `limit_ms`; answers how many.
    pub(super) fn cut_stalled(&self, now_ms: u64, limit_ms: u64) -> usize {
        let is_stalled =
            |stream: &&Rc<Stream>| self.waits_since(stream).is_some_and(|since_ms| since_ms + limit_ms <= now_ms);
        let stalled: Vec<Rc<Stream>> = self.streams.borrow().iter().filter(is_stalled).cloned().collect();
        for stream in &stalled {
            stream.abort(ErrorCode::Cancel);
            self.remove_if_over(stream);
        }
        stalled.len()
    }
    /// Calls `visit` with each stream.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&Rc<Stream>)) {
        let streams = self.streams.borrow().clone();
        streams.iter().for_each(&mut visit);
    }

    /// Makes a header block fit to be the next one that is sent.
    pub(super) fn begin_block(&self, block: &mut Vec<u8>) {
        if !self.has_sent_block.replace(true) {
            let mut first = Vec::with_capacity(block.len() + 1);
            encode::no_table(&mut first);
            first.append(block);
            *block = first;
        }
    }
    pub(super) fn queue_reset(&self, id: u32, code: ErrorCode) {
        write_reset(id, code, &mut self.conn.output.borrow_mut().buf);
        self.wake();
    }
    pub(super) fn queue_window_update(&self, id: u32, bytes: u32) {
        write_window_update(id, bytes, &mut self.conn.output.borrow_mut().buf);
        self.wake();
    }
    pub(super) fn queue_goaway(&self, last_stream: u32, code: ErrorCode) {
        write_goaway(last_stream, code, &mut self.conn.output.borrow_mut().buf);
    }

    /// Puts a stream at the end of the line.
    pub(super) fn line_up(&self, stream: &Rc<Stream>) {
        if !stream.in_line.replace(true) {
            self.line.borrow_mut().push(stream.priority.get(), stream.id, stream.clone());
            self.wake();
        }
    }
    /// Changes the priority of a stream.
    pub(super) fn set_priority(&self, stream: &Rc<Stream>, priority: Priority) {
        let former = stream.priority.replace(priority);
        let mut line = self.line.borrow_mut();
        if let Some(stream) = line.remove(former, stream.id) {
            line.push(priority, stream.id, stream);
        }
    }
    /// Lets the streams in the line have their turns, each a frame at a time, as long as there is room. A stream without leave of
    /// the client's leaves the line.
    fn fill(&self) {
        // Without leave for the connection only heads and ends can go.
        let mut blocked = Vec::new();
        loop {
            let mut output = self.conn.output.borrow_mut();
            if output.len() >= BACKLOG_BYTES {
                break;
            }
            let Some(stream) = self.line.borrow_mut().pop() else { break };
            match stream.take_turn(&mut output) {
                Turn::More => self.line.borrow_mut().push(stream.priority.get(), stream.id, stream),
                Turn::Full => blocked.push(stream),
                Turn::Over => {
                    stream.in_line.set(false);
                    drop(output);
                    self.remove_if_over(&stream);
                }
            }
        }
        for stream in blocked.into_iter().rev() {
            self.line.borrow_mut().put_back(stream.priority.get(), stream.id, stream);
        }
    }
    /// Sends what the socket takes at once. Unless that was all, the connection's task goes on: any other caller wakes it.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) fn send_now(&self) -> io::Result<Sent> {
        let turn_end = self.conn.output.borrow().sent() + TURN_BYTES_MAX;
        loop {
            self.fill();
            if self.conn.output.borrow().is_empty() && !self.conn.stream.has_unsent() {
                return Ok(Sent::All);
            }
            if !self.conn.write_now()? {
                return Ok(Sent::Blocked);
            }
            if self.conn.output.borrow().sent() >= turn_end {
                return Ok(Sent::TurnOver);
            }
        }
    }

    /// Wakes the connection's task.
    pub(super) fn wake(&self) {
        self.woken.set(true);
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }
    /// Whether the task was woken since it last asked; otherwise it will be.
    pub(super) fn take_woken(&self, cx: &Context<'_>) -> bool {
        if self.woken.replace(false) {
            return true;
        }
        *self.task.borrow_mut() = Some(cx.waker().clone());
        false
    }
    /// Gives all streams up: the connection ends.
    pub(super) fn break_off(&self) {
        self.for_each(|stream| {
            stream.break_off();
            self.remove_if_over(stream);
        });
        self.line.borrow_mut().clear();
    }
}

/// Doubles a window, as far as it may grow and `left` lets it; gives by how much.
fn widen(window: &Cell<i64>, left: &Cell<i64>) -> i64 {
    let wanted = (window.get() * 2).clamp(WINDOW_GROWN_BYTES_MIN, WINDOW_GROWN_BYTES_MAX);
    let more = (wanted - window.get()).clamp(0, left.get());
    left.set(left.get() - more);
    window.set(window.get() + more);
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_as_long_as_there_is_leave() {
        let left = Cell::new(WINDOW_GROWTH_BYTES_MAX);
        let windows: Vec<Cell<i64>> = (0..16).map(|_| Cell::new(0)).collect();
        let mut grown = 0;
        for _ in 0..10 {
            grown += windows.iter().map(|window| widen(window, &left)).sum::<i64>();
        }
        assert_eq!((grown, left.get()), (WINDOW_GROWTH_BYTES_MAX, 0));
        assert!(windows.iter().all(|window| (WINDOW_GROWN_BYTES_MIN..=WINDOW_GROWN_BYTES_MAX).contains(&window.get())));
        // As many streams as there may be, with the windows that they begin with: 16 MB for all bodies of a connection.
        let left = Cell::new(WINDOW_GROWTH_BYTES_MAX);
        let windows: Vec<Cell<i64>> = (0..128).map(|_| Cell::new(64 << 10)).collect();
        for _ in 0..10 {
            for window in &windows {
                widen(window, &left);
            }
        }
        assert_eq!(windows.iter().map(Cell::get).sum::<i64>(), 16 << 20);
        let wide = Cell::new(4 << 20);
        assert_eq!(widen(&wide, &Cell::new(WINDOW_GROWTH_BYTES_MAX)), 0);
    }
}
