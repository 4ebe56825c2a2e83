//! Another protocol on a stream (RFC 8441): the client has sent an extended CONNECT, and the bytes of both sides follow.
//!
//! The request is a GET with `Upgrade` to everybody else ([`tidegate_http::http2::head`]); 101 is what the client takes for
//! consent, and is told as 200 (`write_head`).

use std::{
    io,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::BytesMut;

use super::stream::Stream;

/// Bytes that wait for leave of the client; the other side is not read beyond that.
const UNSENT_BYTES_MAX: u64 = 64 << 10;

impl Stream {
    /// Whether the client wants to speak another protocol.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.is_tunnel.get()
    }
    /// Appends at most `bytes_max` bytes of what has come to `out`; gives how many, 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; `ConnectionReset` when nothing more will come.
    pub(crate) fn try_read(&self, out: &mut BytesMut, bytes_max: usize) -> io::Result<usize> {
        let mut input = self.input.borrow_mut();
        if input.is_empty() {
            return match self.input_ended.get() {
                true => Ok(0),
                false if self.is_broken() => Err(io::ErrorKind::ConnectionReset.into()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let count = input.len().min(bytes_max);
        out.extend_from_slice(&input[..count]);
        input.drain(..count);
        drop(input);
        self.note_used(count);
        self.credit();
        Ok(count)
    }
    /// Whether [`try_read`](Self::try_read) has something to say; otherwise the task of `cx` is woken when it has.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_more(cx).map(drop)
    }
    /// Takes as many of the bytes as there is room for; gives how many.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room; those of the socket.
    pub(crate) fn try_write(self: &Rc<Self>, bytes: &[u8]) -> io::Result<usize> {
        let room = UNSENT_BYTES_MAX.saturating_sub(self.unsent_bytes());
        if room == 0 && !self.is_broken() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(room as usize);
        self.output.borrow_mut().buf.extend_from_slice(&bytes[..count]);
        self.write_now()?;
        Ok(count)
    }
    /// Whether there is room for more; otherwise the task of `cx` is woken when there is.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_broken() || self.unsent_bytes() < UNSENT_BYTES_MAX {
            return Poll::Ready(());
        }
        self.remember(cx);
        Poll::Pending
    }
}
