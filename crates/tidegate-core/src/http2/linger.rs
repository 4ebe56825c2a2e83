//! What ends on our side before it ends on the client's: streams, and at last the connection.
//!
//! A client that sends a body may get its response before it has sent everything. To reset the stream at once would be
//! allowed (RFC 9113, section 8.1), but the client may take it for a failure, and what it has sent already could no longer
//! be told from what it must not send. So the stream lingers: what comes on it is checked and dropped, until the client
//! ends it, has used its window up, or has taken too long.

use std::{collections::VecDeque, rc::Rc};

use tidegate_http::http2::ErrorCode;
use tidegate_net::session::Wait;

use super::{mux::Mux, stream::Stream};
use crate::{clock, connection::Connection, keepalive, lingering::read_on};

/// Bytes of a client that breaks the rules, or is told to go, that are read and dropped before the connection is closed.
const LINGERING_BYTES_MAX: u64 = 1 << 20;

/// How often to look whether the last word has come to a client, in milliseconds.
const DELIVERY_LOOK_MS: u64 = 100;

/// The state of a connection whose end the other side has not acknowledged.
///
/// Source: Linux, `include/net/tcp_states.h`.
const TCP_FIN_WAIT1: u8 = 4;

/// The streams that linger, those that have done so for the longest time first.
pub(super) struct Lingering {
    /// Until when, in milliseconds, and the number of the stream.
    streams: VecDeque<(u64, u32)>,
    /// How long; 0 for not at all.
    timeout_ms: u64,
}

impl Lingering {
    pub(super) fn new(conf: &keepalive::Conf) -> Self {
        let timeout_ms = if conf.lingers(true) { conf.lingering_timeout_ms() } else { 0 };
        Lingering { streams: VecDeque::new(), timeout_ms }
    }
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }
    pub(super) fn remove(&mut self, id: u32) {
        self.streams.retain(|&(_, other)| other != id);
    }
    /// When the first one has taken too long.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.streams.front().map(|&(until_ms, _)| until_ms)
    }
}

impl Mux {
    /// Lets a stream linger, if there is anything to wait for; answers whether it does.
    pub(super) fn linger(&self, stream: &Stream) -> bool {
        if !stream.is_half_closed() {
            return false;
        }
        let mut lingering = self.lingering.borrow_mut();
        if lingering.streams.iter().any(|&(_, id)| id == stream.id) {
            return true;
        }
        if lingering.timeout_ms == 0 || stream.receive_window.get() <= 0 {
            self.queue_reset(stream.id, ErrorCode::NoError);
            return false;
        }
        let until_ms = clock::steady_ms() + lingering.timeout_ms;
        lingering.streams.push_back((until_ms, stream.id));
        // The connection's task looks at the time.
        self.wake();
        true
    }
    /// Ends a stream that lingers if its client cannot send more.
    pub(super) fn cut_if_full(&self, stream: &Stream) {
        if stream.done.get() && stream.is_half_closed() && stream.receive_window.get() <= 0 {
            self.queue_reset(stream.id, ErrorCode::NoError);
            self.forget(stream);
        }
    }
    /// Ends the stream that has lingered for the longest time: its place is wanted.
    pub(super) fn cut_oldest(&self) {
        let Some((_, id)) = self.lingering.borrow_mut().streams.pop_front() else { return };
        if let Some(stream) = self.find(id) {
            self.queue_reset(id, ErrorCode::NoError);
            self.forget(&stream);
        }
    }
    /// Ends the streams that have lingered for too long at that time.
    pub(super) fn cut_late(&self, now_ms: u64) {
        while self.lingering.borrow().deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms) {
            self.cut_oldest();
        }
    }
}

/// Reads what a client still sends after the last word, so that this word is not lost to a reset.
///
/// Of a client that `is_silent` nothing is to be expected: it is enough that its system has got that word.
///
/// Source: nginx, `lingering_close`, `lingering_time`, `lingering_timeout`.
pub(super) async fn linger(conn: &Rc<Connection>, is_silent: bool) {
    let conf = &conn.default_level().core.keepalive;
    if !conf.lingers(true) {
        return;
    }
    conn.end_await();
    let until_ms = clock::steady_ms().saturating_add(conf.lingering_time_ms());
    if is_silent && is_delivered(conn, until_ms.min(clock::steady_ms() + conf.lingering_timeout_ms())).await {
        return;
    }
    let pause_ms = || {
        let left_ms = until_ms.saturating_sub(clock::steady_ms());
        (left_ms > 0).then(|| left_ms.min(conf.lingering_timeout_ms()))
    };
    read_on(conn, LINGERING_BYTES_MAX, pause_ms).await;
}

/// Says that nothing more will come, and waits until the client's system has got everything; `false` if something comes from the client, or
/// the time is over.
async fn is_delivered(conn: &Rc<Connection>, until_ms: u64) -> bool {
    conn.stream.shutdown_write();
    while clock::steady_ms() < until_ms {
        let waited = conn.readable(DELIVERY_LOOK_MS).await;
        clock::update();
        match waited {
            Ok(Wait::Ready(())) => return false,
            // Sockets of the system's own have delivered what they took.
            Ok(Wait::TimedOut) if conn.stream.tcp_info().is_some_and(|info| info.tcpi_state == TCP_FIN_WAIT1) => {}
            _ => return true,
        }
    }
    false
}
