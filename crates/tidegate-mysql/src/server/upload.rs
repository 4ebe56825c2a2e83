//! A file that a client sends for a statement (`LOAD DATA LOCAL INFILE`).
//!
//! ```text
//! server   0xfb | name of the file
//! client   packets with its bytes, and an empty one at its end
//! server   the statement's result
//! ```
//!
//! A client sends all of it, also when the statement has failed meanwhile: the rest is read and thrown away.
//!
//! Source: MySQL internals, "LOCAL INFILE Request".

use std::{
    cell::RefCell,
    io,
    task::{Context, Poll, Waker},
};

use super::{Frames, Transport, line::Line};
use crate::packet::PacketBuffer;

/// Bytes of the file that wait for the statement before the client has to.
const BACKLOG_BYTES: usize = 256 << 10;
/// Read at once.
const READ_BYTES: usize = 16 << 10;

/// The state of a command's upload.
#[derive(Default)]
pub(super) struct Upload(RefCell<State>);

#[derive(Default)]
struct State {
    /// What has come; `None` before a file was asked for.
    packets: Option<PacketBuffer>,
    has_ended: bool,
    /// Bytes of the file that the statement has not taken.
    file: Vec<u8>,
    /// The statement that waits for bytes.
    waiter: Option<Waker>,
}

impl Upload {
    /// The client is asked for a file; its packets count on from `sequence`.
    pub(super) fn begin(&self, sequence: u8, packet_bytes_max: usize) {
        let mut packets = PacketBuffer::new(packet_bytes_max);
        packets.sequence = sequence;
        *self.0.borrow_mut() = State { packets: Some(packets), ..State::default() };
    }

    /// Whether a part of the file is still to come.
    pub(super) fn is_open(&self) -> bool {
        let state = self.0.borrow();
        state.packets.is_some() && !state.has_ended
    }

    /// Whether a file was asked for.
    pub(super) fn has_begun(&self) -> bool {
        self.0.borrow().packets.is_some()
    }

    /// Number of the packet that follows those of the client.
    pub(super) fn sequence(&self) -> u8 {
        self.0.borrow().packets.as_ref().map_or(1, |packets| packets.sequence)
    }

    /// What came behind the file, in packets.
    pub(super) fn take_rest(&self) -> Vec<u8> {
        self.0.borrow_mut().packets.as_mut().map_or_else(Vec::new, PacketBuffer::take_all)
    }

    /// Appends what has come to `out`; `true` unless that was the end of the file.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        let mut state = self.0.borrow_mut();
        if state.file.is_empty() && !state.has_ended {
            state.waiter = Some(cx.waker().clone());
            return Poll::Pending;
        }
        out.append(&mut state.file);
        Poll::Ready(!state.has_ended)
    }

    /// Reads from the client, `ahead` first, until as much waits as may.
    ///
    /// # Errors
    /// The socket's; packets that are none.
    pub(super) fn poll_fill(
        &self,
        io: &impl Transport,
        (frames, line, ahead): (&mut Frames, &Line, &mut Vec<u8>),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        let result = loop {
            if let Err(error) = state.sort() {
                break Poll::Ready(Err(error));
            }
            if state.has_ended || state.file.len() >= BACKLOG_BYTES {
                break Poll::Pending;
            }
            let Some(packets) = &mut state.packets else { break Poll::Pending };
            if !ahead.is_empty() {
                frames.pass(ahead, packets, line);
                ahead.clear();
                continue;
            }
            let mut room = [0; READ_BYTES];
            match io.poll_read_soon(cx, &mut room) {
                Poll::Pending => break Poll::Pending,
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(count)) => frames.pass(&room[..count], packets, line),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
            }
            if matches!(frames, Frames::Broken) {
                break Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        };
        if (state.has_ended || !state.file.is_empty())
            && let Some(waiter) = state.waiter.take()
        {
            waiter.wake();
        }
        result
    }

    /// Reads what is left of the file and throws it away.
    ///
    /// # Errors
    /// As [`poll_fill`](Self::poll_fill).
    pub(super) fn poll_drain(
        &self,
        io: &impl Transport,
        (frames, line, ahead): (&mut Frames, &Line, &mut Vec<u8>),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            self.0.borrow_mut().file = Vec::new();
            if let Poll::Ready(Err(error)) = self.poll_fill(io, (frames, line, ahead), cx) {
                return Poll::Ready(Err(error));
            }
            let state = self.0.borrow();
            if state.has_ended {
                return Poll::Ready(Ok(()));
            }
            if state.file.len() < BACKLOG_BYTES {
                return Poll::Pending;
            }
        }
    }
}

impl State {
    /// Takes the bytes of the file out of the packets that are complete.
    fn sort(&mut self) -> io::Result<()> {
        let Some(packets) = &mut self.packets else { return Ok(()) };
        while !self.has_ended && self.file.len() < BACKLOG_BYTES {
            match packets.take() {
                Ok(Some(taken)) if taken.is_empty() => self.has_ended = true,
                Ok(Some(taken)) => self.file.extend_from_slice(packets.payload(taken)),
                Ok(None) => break,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(())
    }
}
