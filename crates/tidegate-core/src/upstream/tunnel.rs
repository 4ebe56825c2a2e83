//! After an upgrade (RFC 9110, section 7.8): both sides send what they like until one closes.

use std::{io, rc::Rc, task::Poll};

use bytes::{Buf as _, BytesMut};

use super::{
    balance::Timeouts,
    socket::{Socket, Wait, Watch},
};
use crate::{
    log::{Level, SysError},
    request::Request,
    stream::Stream,
};

/// Bytes on their way in one direction.
const BUFFER_BYTES: usize = 16 << 10;

/// One direction.
struct Direction {
    pending: BytesMut,
    /// The sender has closed.
    ended: bool,
}

/// Which side failed.
enum Failed {
    Client(io::Error),
    Peer(io::Error),
}

/// Copies in both directions until both senders have closed, one side fails, or nothing moves for the time limit.
pub(super) async fn run(req: &Rc<Request>, socket: &mut Socket, timeouts: Timeouts) {
    let Some(client) = req.client.socket() else { return };
    if req.client.flush(req.http_conf().send_timeout_ms()).await.is_err() {
        return;
    }
    socket.stream.set_nodelay();
    client.set_nodelay();
    let mut up = Direction { pending: BytesMut::with_capacity(BUFFER_BYTES), ended: false };
    up.pending.extend_from_slice(&std::mem::take(&mut *req.client.input().borrow_mut()));
    let mut down = Direction { pending: std::mem::take(&mut socket.input), ended: false };
    let watch = Watch::new(req, false);
    loop {
        match step(req, client, socket, &mut up, &mut down) {
            Ok(true) => {
                // Others have their turn in between.
                tokio::task::yield_now().await;
                continue;
            }
            Ok(false) if up.is_over() || down.is_over() => return,
            Ok(false) => {}
            Err(Failed::Client(error)) => {
                let error = SysError(&error);
                return req.log(Level::Info, format_args!("recv() failed {error} while proxying upgraded connection"));
            }
            Err(Failed::Peer(error)) => {
                let error = SysError(&error);
                return req.log(Level::Error, format_args!("recv() failed {error} while proxying upgraded connection"));
            }
        }
        let wait = socket.wait(timeouts.read_ms, &watch, |peer, cx| {
            let mut ready = false;
            ready |= up.wants_input() && client.poll_read_ready(cx).is_ready();
            ready |= down.wants_input() && peer.poll_read_ready(cx).is_ready();
            ready |= !up.pending.is_empty() && peer.poll_write_ready(cx).is_ready();
            ready |= !down.pending.is_empty() && client.poll_write_ready(cx).is_ready();
            if ready { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        match wait.await {
            Ok(Wait::Ready) => {}
            _ => {
                let message = "upstream timed out (110: Connection timed out) while proxying upgraded connection";
                return req.log(Level::Error, format_args!("{message}"));
            }
        }
    }
}

impl Direction {
    fn wants_input(&self) -> bool {
        !self.ended && self.pending.len() < BUFFER_BYTES
    }
    fn is_over(&self) -> bool {
        self.ended && self.pending.is_empty()
    }
    /// Reads what is there; answers how much came.
    fn read(&mut self, from: &Stream) -> io::Result<usize> {
        if !self.wants_input() {
            return Ok(0);
        }
        self.pending.reserve(BUFFER_BYTES - self.pending.len());
        match from.try_read_buf(&mut self.pending) {
            Ok(0) => {
                self.ended = true;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
    /// Writes what the receiver takes; answers how much.
    fn write(&mut self, to: &Stream) -> io::Result<usize> {
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
    client: &Stream,
    socket: &mut Socket,
    up: &mut Direction,
    down: &mut Direction,
) -> Result<bool, Failed> {
    let read_up = up.read(client).map_err(Failed::Client)?;
    let sent_up = up.write(&socket.stream).map_err(Failed::Peer)?;
    let read_down = down.read(&socket.stream).map_err(Failed::Peer)?;
    let sent_down = down.write(client).map_err(Failed::Client)?;
    socket.sent += sent_up as u64;
    socket.received += read_down as u64;
    req.count_sent(sent_down as u64);
    Ok(read_up + sent_up + read_down + sent_down > 0)
}
