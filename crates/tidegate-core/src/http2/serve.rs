//! The task of a connection: frames come in, output goes out.

use std::{io, rc::Rc, task::Poll};

use tidegate_http::http2::{
    ErrorCode, FRAME_BYTES_MAX, HEADER_BYTES, PREFACE, STREAM_MAX, WINDOW_BYTES, WINDOW_BYTES_MAX, kind, setting,
    write_frame, write_window_update,
};
use tidegate_net::{buffers, counters::COUNTERS, session::Wait};

use super::{
    input::{FAREWELL_PING, Farewell, Fault, Input},
    linger::linger,
    mux::{Mux, Sent},
};
use crate::{
    clock,
    connection::Connection,
    error_log::{count_for_connection, write_for_connection},
    http2_settings::{Conf, is_on},
    log::Level,
    worker::Worker,
};

/// Output up to which frames are read. Each frame is answered by a few bytes at most; a client that does not read the
/// answers has to wait.
const UNREAD_BYTES_MAX: u64 = 128 << 10;

/// Capacity of a buffer that a connection without streams keeps: it may be idle for long.
const IDLE_BUFFER_BYTES_MAX: usize = 4 << 10;

/// How long a client has to answer that it has heard of the end, in milliseconds. Streams that it begins until then are
/// served.
const FAREWELL_MS: u64 = 1000;

/// Whether the client asked for HTTP/2 in its handshake, and got it.
pub(crate) fn was_agreed(conn: &Connection) -> bool {
    conn.stream.with_tls(|tls| tls.alpn_protocol() == Some(b"h2")) == Some(true)
}

/// Whether what has come in clear text begins as the preface does, where that is looked for. A request of HTTP/1 with
/// this method, of which nothing else has come yet, is one of HTTP/2 (RFC 9113, section 3.4).
pub(crate) fn is_preface(conn: &Connection) -> bool {
    let input = conn.input.borrow();
    let begins =
        input.first_chunk::<3>() == Some(b"PRI") && PREFACE.starts_with(&input[..input.len().min(PREFACE.len())]);
    begins && conn.stream.as_tls().is_none() && (is_on(conn.default_level()) || conn.listens_http2())
}

/// Serves a connection on which the client speaks HTTP/2, until it ends. What has been read of it begins with the preface,
/// or with a part of it.
pub(crate) async fn serve(conn: &Rc<Connection>, worker: &Rc<Worker>) {
    let level = conn.default_level();
    let conf = level.core.http2.clone();
    let mux = Mux::new(conn, &conf);
    let input = Input::new(mux.clone(), &conf, level.core.http.head_limits());
    announce(conn, &conf, &mux);
    conn.set_nodelay();
    let now_ms = clock::steady_ms();
    let mut serving = Serving {
        input,
        worker,
        quiet_since_ms: now_ms,
        moved_ms: now_ms,
        coming_head: None,
        stall_ms: None,
        farewell_until_ms: 0,
        is_wanted_gone: false,
        is_silent: false,
    };
    if let Err(end) = serving.run().await {
        serving.end(end);
    }
    serving.finish().await;
}

/// Says what the client may do.
fn announce(conn: &Connection, conf: &Conf, mux: &Mux) {
    let mut settings = Vec::with_capacity(24);
    let values = [
        (setting::MAX_CONCURRENT_STREAMS, conf.streams_max() as u32),
        (setting::INITIAL_WINDOW_SIZE, mux.receive_window as u32),
        (setting::ENABLE_CONNECT_PROTOCOL, 1),
        (setting::NO_RFC7540_PRIORITIES, 1),
    ];
    for (name, value) in values {
        settings.extend_from_slice(&name.to_be_bytes());
        settings.extend_from_slice(&value.to_be_bytes());
    }
    let out = &mut conn.output.borrow_mut().buf;
    write_frame(kind::SETTINGS, 0, 0, &settings, out);
    // Each stream has a limit of its own; all together may have what they may each.
    write_window_update(0, (WINDOW_BYTES_MAX - WINDOW_BYTES) as u32, out);
}

/// Gives large buffers back that nothing is in.
fn give_back(conn: &Connection) {
    let mut input = conn.input.borrow_mut();
    if input.is_empty() && input.capacity() > IDLE_BUFFER_BYTES_MAX {
        buffers::give(std::mem::take(&mut *input));
    }
    let mut output = conn.output.borrow_mut();
    if output.is_empty() && output.buf.capacity() > IDLE_BUFFER_BYTES_MAX {
        buffers::give(std::mem::take(&mut output.buf));
    }
}

/// Why a connection ends.
enum End {
    /// The client breaks the rules.
    Fault(Fault),
    /// It has gone, or the socket failed.
    Gone,
    /// Nothing moves.
    TimedOut,
}

struct Serving<'a> {
    input: Input,
    worker: &'a Rc<Worker>,
    /// Since when there is no stream.
    quiet_since_ms: u64,
    /// When output last moved, or there was none.
    moved_ms: u64,
    /// The stream of a head that is coming, and since when, in milliseconds.
    coming_head: Option<(u32, u64)>,
    /// When the first response has waited in vain for too long, in milliseconds.
    stall_ms: Option<u64>,
    /// Until when the client has time to hear of the end.
    farewell_until_ms: u64,
    /// Its place is wanted for others.
    is_wanted_gone: bool,
    /// Not a byte has come since it was told of the end.
    is_silent: bool,
}

impl Serving<'_> {
    /// Serves until the end; an error says why that is no good one.
    async fn run(&mut self) -> Result<(), End> {
        loop {
            let opened = self.input.last_stream;
            let has_more = self.take_frames().map_err(End::Fault)?;
            let has_opened = self.input.last_stream != opened;
            self.look_at_time();
            let before = self.unsent();
            let sent = self.input.mux.send_now().map_err(|_| End::Gone)?;
            if sent != Sent::All {
                // That was so much that time has passed.
                clock::update();
            }
            let now_ms = clock::steady_ms();
            if self.unsent() < before || before == 0 {
                self.moved_ms = now_ms;
            }
            // A stream may have come and gone in the same moment.
            if self.input.mux.count() > 0 || has_opened {
                self.quiet_since_ms = now_ms;
            }
            if self.input.mux.count() == 0 && self.input.farewell == Farewell::Final && self.unsent() == 0 {
                return Ok(());
            }
            match sent {
                Sent::TurnOver => tokio::task::yield_now().await,
                // Frames are there whose answers find room now: nothing else may come.
                Sent::All if has_more => {}
                Sent::All | Sent::Blocked => self.wait().await?,
            }
            clock::update();
        }
    }

    /// Does what it is time for.
    fn look_at_time(&mut self) {
        let Input { mux, .. } = &self.input;
        let now_ms = clock::steady_ms();
        mux.cut_late(now_ms);
        if self.stall_ms.is_some_and(|stall_ms| stall_ms <= now_ms) && self.unsent() == 0 {
            self.cut_stalled(now_ms);
        }
        self.look_at_head(now_ms);
        let Input { farewell, .. } = &self.input;
        let is_over = *farewell == Farewell::Announced && now_ms >= self.farewell_until_ms;
        if is_over || *farewell == Farewell::Heard {
            self.go_away();
        }
        if self.input.farewell == Farewell::Final && self.input.mux.count() == 0 {
            // The connection lingers in their place.
            self.input.mux.cut_late(u64::MAX);
        }
    }

    /// Gives up responses for which the client gives no leave: the streams beside them go on.
    fn cut_stalled(&mut self, now_ms: u64) {
        let limit_ms = self.input.mux.conn.default_level().core.http.send_timeout_ms();
        for _ in 0..self.input.mux.cut_stalled(now_ms, limit_ms) {
            self.input
                .note(format_args!("client timed out (110: Connection timed out) while sending response to client"));
        }
    }

    /// Gives up a request whose head does not come in time.
    fn look_at_head(&mut self, now_ms: u64) {
        let former = self.coming_head;
        let since_ms = |id| former.filter(|&(former, _)| former == id).map_or(now_ms, |(_, since_ms)| since_ms);
        self.coming_head = self.input.unfinished_head().map(|id| (id, since_ms(id)));
        if let Some((id, _)) = self.coming_head
            && self.head_deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
        {
            self.input.give_up_head(id);
            self.coming_head = None;
            // What else comes has the time that any connection without requests has.
            self.quiet_since_ms = now_ms;
        }
    }

    /// When a head that is coming has taken too long.
    fn head_deadline_ms(&self) -> Option<u64> {
        let limit_ms = self.input.mux.conn.default_level().core.http.client_header_timeout_ms();
        self.coming_head.filter(|_| limit_ms > 0).map(|(_, since_ms)| since_ms + limit_ms)
    }

    fn unsent(&self) -> u64 {
        self.input.mux.conn.unsent_bytes()
    }

    /// Takes the frames that have come, as long as their answers find room. Answers whether some may be left.
    fn take_frames(&mut self) -> Result<bool, Fault> {
        let conn = self.input.mux.conn.clone();
        let mut bytes = conn.input.take();
        let mut used = 0;
        let taken = loop {
            if conn.output.borrow().len() > UNREAD_BYTES_MAX {
                break Ok(true);
            }
            match self.input.take_frame(&bytes[used..], self.worker) {
                Ok(Some(len)) => used += len,
                Ok(None) => break Ok(false),
                Err(fault) => break Err(fault),
            }
        };
        bytes.drain(..used);
        if !bytes.is_empty() && bytes.capacity() < HEADER_BYTES + FRAME_BYTES_MAX {
            bytes.reserve(HEADER_BYTES + FRAME_BYTES_MAX - bytes.len());
        }
        *conn.input.borrow_mut() = bytes;
        taken
    }

    /// Waits for something to happen.
    async fn wait(&mut self) -> Result<(), End> {
        let conn = self.input.mux.conn.clone();
        let timeout_ms = self.timeout_ms()?;
        if self.input.mux.count() == 0 {
            give_back(&conn);
        }
        if self.input.farewell == Farewell::None {
            conn.await_frames(self.input.mux.count() == 0);
        } else {
            conn.end_await();
        }
        let mux = &self.input.mux;
        let waited = conn.wait(timeout_ms, |cx| {
            if mux.take_woken(cx) {
                return Poll::Ready(Ok(true));
            }
            let mut output = conn.output.borrow_mut();
            let may_write = !output.is_empty() || conn.stream.has_unsent();
            if may_write && output.poll_read(cx).is_ready() && conn.stream.poll_write_ready(cx).is_ready() {
                return Poll::Ready(Ok(true));
            }
            if output.len() > UNREAD_BYTES_MAX {
                return Poll::Pending;
            }
            drop(output);
            conn.poll_read_more(cx).map(|read| read.map(|count| count > 0))
        });
        match waited.await {
            Ok(Wait::Ready(true)) => {
                self.is_silent &= conn.input.borrow().is_empty();
                Ok(())
            }
            Ok(Wait::Ready(false)) => {
                if !conn.input.borrow().is_empty() || self.input.mux.count() > 0 {
                    self.input.note(format_args!("client prematurely closed connection"));
                }
                Err(End::Gone)
            }
            Ok(Wait::Closing) if !self.worker.is_quitting() => {
                self.is_wanted_gone = true;
                self.go_away();
                Ok(())
            }
            Ok(Wait::Closing) => {
                self.announce_end();
                Ok(())
            }
            Ok(Wait::TimedOut) if self.worker.is_quitting() && self.input.farewell == Farewell::None => {
                self.announce_end();
                Ok(())
            }
            // What the time was for is looked at anew.
            Ok(Wait::TimedOut) => Ok(()),
            Err(error) => {
                self.note_error(&error);
                Err(End::Gone)
            }
        }
    }

    #[cold]
    fn note_error(&self, error: &io::Error) {
        let error = crate::log::SysError(error);
        self.input.note(format_args!("recv() failed {error} while processing HTTP/2 connection"));
    }

    /// How long nothing may happen, in milliseconds; 0 for ever.
    fn timeout_ms(&mut self) -> Result<u64, End> {
        let now_ms = clock::steady_ms();
        let deadline_ms = self.deadline_ms(now_ms);
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
            return Err(End::TimedOut);
        }
        let farewell_ms = (self.input.farewell == Farewell::Announced).then_some(self.farewell_until_ms);
        let lingering_ms = self.input.mux.lingering.borrow().deadline_ms();
        let send_timeout_ms = self.input.mux.conn.default_level().core.http.send_timeout_ms();
        // While the socket takes nothing, that is to blame.
        let may_stall = send_timeout_ms > 0 && self.unsent() == 0;
        self.stall_ms = may_stall.then(|| self.input.mux.stall_ms(send_timeout_ms)).flatten();
        let times_ms = [deadline_ms, self.head_deadline_ms(), farewell_ms, lingering_ms, self.stall_ms];
        let first_ms = times_ms.into_iter().flatten().min();
        Ok(first_ms.map_or(0, |first_ms| first_ms.saturating_sub(now_ms).max(1)))
    }

    /// When the connection ends if nothing happens.
    fn deadline_ms(&mut self, now_ms: u64) -> Option<u64> {
        let mux = &self.input.mux;
        let core = &mux.conn.default_level().core;
        let (since_ms, limit_ms) = if self.unsent() > 0 {
            (self.moved_ms, core.http.send_timeout_ms())
        } else if mux.count() == 0 && self.coming_head.is_some() {
            return None;
        } else if mux.count() == 0 && self.input.awaits_first() {
            (self.quiet_since_ms, core.http.client_header_timeout_ms())
        } else if mux.count() == 0 {
            (self.quiet_since_ms, core.keepalive.timeout_ms().max(1))
        } else {
            self.moved_ms = now_ms;
            return None;
        };
        (limit_ms > 0).then(|| since_ms + limit_ms)
    }

    /// Takes no more streams; those that are open end as they do.
    fn go_away(&mut self) {
        if std::mem::replace(&mut self.input.farewell, Farewell::Final) != Farewell::Final {
            self.input.mux.queue_goaway(self.input.last_stream, ErrorCode::NoError);
        }
    }

    /// Tells the client to begin no more streams. What it has begun before it hears of that is served.
    fn announce_end(&mut self) {
        if self.input.farewell == Farewell::None {
            self.input.farewell = Farewell::Announced;
            self.farewell_until_ms = clock::steady_ms() + FAREWELL_MS;
            self.is_silent = true;
            self.input.mux.queue_goaway(STREAM_MAX, ErrorCode::NoError);
            write_frame(kind::PING, 0, 0, FAREWELL_PING, &mut self.input.mux.conn.output.borrow_mut().buf);
        }
    }

    /// Says the last word.
    fn end(&mut self, end: End) {
        let conn = self.input.mux.conn.clone();
        let code = match end {
            End::Gone => {
                conn.mark_broken();
                return;
            }
            End::TimedOut if self.unsent() > 0 || self.input.mux.count() > 0 => {
                self.input.note(format_args!("client timed out (110: Connection timed out)"));
                conn.timed_out.set(true);
                conn.mark_broken();
                return;
            }
            End::TimedOut => ErrorCode::NoError,
            End::Fault(Fault { code, text }) => {
                write_for_connection(&conn, Level::Info, format_args!("{text} while processing HTTP/2 connection"));
                let (rare, what) = match code {
                    ErrorCode::EnhanceYourCalm => (&COUNTERS.http2_floods, "HTTP/2 floods were stopped"),
                    _ => (&COUNTERS.http2_faults, "HTTP/2 connections have broken the rules"),
                };
                count_for_connection(&conn, rare, what);
                code
            }
        };
        self.input.mux.queue_goaway(self.input.last_stream, code);
    }

    /// Closes: no frame is read any more.
    async fn finish(self) {
        let mux = &self.input.mux;
        let conn = &mux.conn;
        mux.break_off();
        // Nothing more is read, and what was read is no use.
        *conn.input.borrow_mut() = Vec::new();
        let send_timeout_ms = conn.default_level().core.http.send_timeout_ms();
        let is_said = !conn.is_broken() && conn.flush(send_timeout_ms).await.is_ok();
        // Whoever has heard in time that the end comes begins no streams, but still gives leave for bodies that are on their
        // way: a reset for that would take them away.
        if is_said && !self.is_wanted_gone {
            linger(conn, self.is_silent).await;
        }
        if mux.count() == 0 {
            return;
        }
        if is_said {
            conn.stream.say_farewell();
        }
        // The requests end by themselves; the connection counts until then.
        conn.mark_broken();
        std::future::poll_fn(|cx| {
            while mux.count() > 0 {
                if !mux.take_woken(cx) {
                    return Poll::Pending;
                }
            }
            Poll::Ready(())
        })
        .await;
    }
}
