//! After an upgrade (RFC 9110, section 7.8): both sides send what they like until one closes.
//!
//! What the server has said ahead of its end reaches the client whole, though the server may take nothing more, and though its
//! connection may have failed.

use std::{
    io,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf as _, BytesMut};

use super::{
    balance::Timeouts,
    socket::{Socket, Wait, Watch},
};
use crate::{
    http2,
    log::{Level, SysError},
    request::Request,
    stream::Stream,
};

/// Bytes on their way in one direction.
const BUFFER_BYTES: usize = 16 << 10;

/// One side: a socket, or a stream among others.
#[derive(Clone, Copy)]
enum Side<'a> {
    Socket(&'a Stream),
    Stream(&'a Rc<http2::Stream>),
}

/// One direction.
struct Direction {
    pending: BytesMut,
    /// The sender has closed.
    ended: bool,
    /// The receiver takes nothing more.
    refused: bool,
}

/// What is left to do for the client at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It may be told that this was all: a sender has closed.
    Closed,
    /// It has to be able to tell that this was not all.
    Broken,
    /// Nothing.
    ClientGone,
}

/// Which side failed.
enum Failed {
    Client(io::Error),
    Peer(io::Error),
}

/// Copies in both directions until one sender has closed, one side fails, or nothing moves for the time limit; gives whether
/// the end was a sender's, and the client has all that came before it.
pub(super) async fn run(req: &Rc<Request>, socket: &mut Socket, timeouts: Timeouts) -> bool {
    let send_timeout_ms = req.http_conf().send_timeout_ms();
    if req.client.flush(send_timeout_ms).await.is_err() {
        return false;
    }
    let mut down = Direction::new(std::mem::take(&mut socket.input));
    let end = copy(req, socket, timeouts, &mut down).await;
    if end == End::ClientGone {
        return false;
    }
    req.client.output().borrow_mut().buf.extend_from_slice(&down.pending);
    req.count_sent(down.pending.len() as u64);
    req.client.flush(send_timeout_ms).await.is_ok() && end == End::Closed
}

async fn copy(req: &Rc<Request>, socket: &mut Socket, timeouts: Timeouts, down: &mut Direction) -> End {
    socket.stream.set_nodelay();
    let mut up = Direction::new(BytesMut::with_capacity(BUFFER_BYTES));
    let client = match (req.client.http2_stream(), req.client.socket()) {
        (Some(stream), _) => Side::Stream(stream),
        (None, Some(socket)) => {
            socket.set_nodelay();
            up.pending.extend_from_slice(&std::mem::take(&mut *req.client.input().borrow_mut()));
            Side::Socket(socket)
        }
        (None, None) => return End::ClientGone,
    };
    let watch = Watch::new(req, false);
    let log = |level: Level, what: &str, error: &io::Error| {
        req.log(level, format_args!("{what} failed {} while proxying upgraded connection", SysError(error)));
    };
    loop {
        match step(req, client, socket, &mut up, down) {
            Ok(true) => {
                // Others have their turn in between.
                tokio::task::yield_now().await;
                continue;
            }
            Ok(false) if up.is_over() || down.is_over() => return End::Closed,
            Ok(false) => {}
            Err(Failed::Client(error)) => {
                log(Level::Info, "recv()", &error);
                return End::ClientGone;
            }
            Err(Failed::Peer(error)) => {
                log(Level::Error, "recv()", &error);
                return End::Broken;
            }
        }
        let wait = socket.wait(timeouts.read_ms, &watch, |peer, cx| {
            let mut ready = false;
            ready |= up.wants_input() && client.is_readable(cx);
            ready |= down.wants_input() && peer.poll_read_ready(cx).is_ready();
            ready |= !up.pending.is_empty() && peer.poll_write_ready(cx).is_ready();
            ready |= !down.pending.is_empty() && client.is_writable(cx);
            if ready { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        if !matches!(wait.await, Ok(Wait::Ready)) {
            let message = "upstream timed out (110: Connection timed out) while proxying upgraded connection";
            req.log(Level::Error, format_args!("{message}"));
            return End::Broken;
        }
    }
}

impl Side<'_> {
    /// Appends what is there to `buf`, at most as much as it has room for.
    fn try_read(self, buf: &mut BytesMut) -> io::Result<usize> {
        match self {
            Side::Socket(socket) => socket.try_read_buf(buf),
            Side::Stream(stream) => stream.try_read(buf, BUFFER_BYTES - buf.len()),
        }
    }
    fn try_write(self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Side::Socket(socket) => socket.try_write(bytes),
            Side::Stream(stream) => stream.try_write(bytes),
        }
    }
    fn is_readable(self, cx: &mut Context<'_>) -> bool {
        match self {
            Side::Socket(socket) => socket.poll_read_ready(cx).is_ready(),
            Side::Stream(stream) => stream.poll_readable(cx).is_ready(),
        }
    }
    fn is_writable(self, cx: &mut Context<'_>) -> bool {
        match self {
            Side::Socket(socket) => socket.poll_write_ready(cx).is_ready(),
            Side::Stream(stream) => stream.poll_writable(cx).is_ready(),
        }
    }
}

impl Direction {
    fn new(pending: BytesMut) -> Self {
        Self { pending, ended: false, refused: false }
    }
    fn wants_input(&self) -> bool {
        !self.ended && !self.refused && self.pending.len() < BUFFER_BYTES
    }
    fn is_over(&self) -> bool {
        self.ended && !self.refused && self.pending.is_empty()
    }
    /// Drops what the receiver does not take, and what comes after it.
    fn refuse(&mut self) {
        self.refused = true;
        self.pending.clear();
    }
    /// Reads what is there; answers how much came.
    fn read(&mut self, from: Side<'_>) -> io::Result<usize> {
        if !self.wants_input() {
            return Ok(0);
        }
        self.pending.reserve(BUFFER_BYTES - self.pending.len());
        match from.try_read(&mut self.pending) {
            Ok(0) => {
                self.ended = true;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
    /// Writes what the receiver takes; answers how much.
    fn write(&mut self, to: Side<'_>) -> io::Result<usize> {
        if self.pending.is_empty() {
            return Ok(0);
        }
        match to.try_write(&self.pending) {
            Ok(count) => {
                self.pending.advance(count);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Moves what can be moved; answers whether anything could.
fn step(
    req: &Request,
    client: Side<'_>,
    socket: &mut Socket,
    up: &mut Direction,
    down: &mut Direction,
) -> Result<bool, Failed> {
    let read_up = up.read(client).map_err(Failed::Client)?;
    let peer = Side::Socket(&socket.stream);
    // A server that takes nothing more may have said something ahead of that.
    let sent_up = up.write(peer).unwrap_or_else(|error| {
        let error = SysError(&error);
        req.log(Level::Error, format_args!("send() failed {error} while proxying upgraded connection"));
        up.refuse();
        0
    });
    let read_down = down.read(peer).map_err(Failed::Peer)?;
    let sent_down = down.write(client).map_err(Failed::Client)?;
    socket.sent += sent_up as u64;
    socket.received += read_down as u64;
    req.count_sent(sent_down as u64);
    Ok(read_up + sent_up + read_down + sent_down > 0)
}
