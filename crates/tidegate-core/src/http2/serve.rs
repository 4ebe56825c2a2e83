//! The task of a connection: frames come in, output goes out.

use std::{io, rc::Rc, task::Poll};

use tidegate_http::http2::{
    ErrorCode, FRAME_BYTES_MAX, HEADER_BYTES, PREFACE, WINDOW_BYTES, WINDOW_BYTES_MAX, kind, setting, write_frame,
    write_window_update,
};
use tidegate_net::session::Wait;

use super::{
    input::{Fault, Input},
    mux::Mux,
};
use crate::{
    clock,
    connection::Connection,
    error_log::write_for_connection,
    http2_settings::{Conf, is_on},
    log::Level,
    worker::Worker,
};

/// Output up to which frames are read. Each frame is answered by a few bytes at most; a client that does not read the
/// answers has to wait.
const UNREAD_BYTES_MAX: u64 = 128 << 10;

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
    begins && conn.stream.as_tls().is_none() && is_on(conn.default_level())
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
    let mut serving = Serving { input, worker, quiet_since_ms: clock::steady_ms(), moved_ms: clock::steady_ms() };
    if let Err(end) = serving.run().await {
        serving.end(end);
    }
    // Their requests end by themselves; the connection counts until then.
    let mux = &serving.input.mux;
    let _ = conn.write_now();
    if mux.count() > 0 {
        mux.break_off();
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

/// Says what the client may do.
fn announce(conn: &Connection, conf: &Conf, mux: &Mux) {
    let mut settings = Vec::with_capacity(12);
    let values = [
        (setting::MAX_CONCURRENT_STREAMS, conf.streams_max() as u32),
        (setting::INITIAL_WINDOW_SIZE, mux.receive_window as u32),
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
}

impl Serving<'_> {
    /// Serves until the end; an error says why that is no good one.
    async fn run(&mut self) -> Result<(), End> {
        loop {
            self.take_frames().map_err(End::Fault)?;
            let before = self.unsent();
            self.input.mux.send_now().map_err(|_| End::Gone)?;
            let now_ms = clock::steady_ms();
            if self.unsent() < before || before == 0 {
                self.moved_ms = now_ms;
            }
            if self.input.mux.count() > 0 {
                self.quiet_since_ms = now_ms;
            } else if self.input.going_away && self.unsent() == 0 {
                return Ok(());
            }
            self.wait().await?;
            clock::update();
        }
    }

    fn unsent(&self) -> u64 {
        self.input.mux.conn.unsent_bytes()
    }

    /// Takes the frames that have come, as long as their answers find room.
    fn take_frames(&mut self) -> Result<(), Fault> {
        let conn = self.input.mux.conn.clone();
        let mut bytes = conn.input.take();
        let mut used = 0;
        let taken = loop {
            if conn.output.borrow().len() > UNREAD_BYTES_MAX {
                break Ok(());
            }
            match self.input.take_frame(&bytes[used..], self.worker) {
                Ok(Some(len)) => used += len,
                Ok(None) => break Ok(()),
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
        if self.input.going_away {
            conn.end_await();
        } else {
            conn.await_frames(self.input.mux.count() == 0);
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
            Ok(Wait::Ready(true)) => Ok(()),
            Ok(Wait::Ready(false)) => {
                if !conn.input.borrow().is_empty() || self.input.mux.count() > 0 {
                    self.input.note(format_args!("client prematurely closed connection"));
                }
                Err(End::Gone)
            }
            Ok(Wait::Closing) => {
                self.go_away();
                Ok(())
            }
            Ok(Wait::TimedOut) if self.worker.is_quitting() && !self.input.going_away => {
                self.go_away();
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
        let mux = self.input.mux.clone();
        let core = &mux.conn.default_level().core;
        let now_ms = clock::steady_ms();
        let (since_ms, limit_ms) = if self.unsent() > 0 {
            (self.moved_ms, core.http.send_timeout_ms())
        } else if mux.count() == 0 && (self.input.is_within_block() || !mux.conn.input.borrow().is_empty()) {
            (self.quiet_since_ms, core.http.client_header_timeout_ms())
        } else if mux.count() == 0 {
            (self.quiet_since_ms, core.keepalive.timeout_ms().max(1))
        } else {
            self.moved_ms = if mux.has_leftovers() { self.moved_ms } else { now_ms };
            (self.moved_ms, if mux.has_leftovers() { core.http.send_timeout_ms() } else { 0 })
        };
        if limit_ms == 0 {
            return Ok(0);
        }
        match (since_ms + limit_ms).saturating_sub(now_ms) {
            0 => Err(End::TimedOut),
            left_ms => Ok(left_ms),
        }
    }

    /// Takes no more streams; those that are open end as they do.
    fn go_away(&mut self) {
        if !std::mem::replace(&mut self.input.going_away, true) {
            self.input.mux.queue_goaway(self.input.last_stream, ErrorCode::NoError);
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
                code
            }
        };
        self.input.mux.queue_goaway(self.input.last_stream, code);
    }
}
