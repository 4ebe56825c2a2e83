//! What is on its way to a client, and the sink that a statement's results go into.

use std::{
    cell::{Cell, RefCell},
    io,
    task::{Context, Poll, Waker, ready},
};

use tidegate_rows::{Column, Flow, Format, Input, Row, Sink, SinkClosed, Summary};

use super::{Transport, commands::Numbered, put, upload::Upload};
use crate::compress::{Algorithm, Deflater};

/// First byte of the packet that asks for a file.
const FILE_WANTED: u8 = 0xfb;

/// Bytes on their way to a client before the statement waits.
const BACKLOG_BYTES: usize = 256 << 10;
/// Bytes that are sent while the statement goes on; fewer wait until it is done.
const SEND_BYTES: usize = 16 << 10;
/// Room that an empty line keeps.
const KEPT_BYTES: usize = 64 << 10;

/// Bytes on their way to a client.
#[derive(Default)]
pub(super) struct Line {
    out: RefCell<Vec<u8>>,
    sent: Cell<usize>,
    /// A result is complete: the client gets it though the statement goes on.
    due: Cell<bool>,
    /// The statement that waits for room.
    waiter: Cell<Option<Waker>>,
    /// Where packets travel in frames: those frames.
    packed: RefCell<Option<Box<Packed>>>,
}

/// Frames on their way to a client.
#[derive(Default)]
struct Packed {
    algorithm: Algorithm,
    /// Made when there is something to compress.
    deflater: Option<Deflater>,
    out: Vec<u8>,
    sent: usize,
    /// Number of the next frame.
    sequence: u8,
}

impl Line {
    /// Appends what `write` writes.
    pub(super) fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out.borrow_mut());
    }

    /// What is added from now on travels in frames.
    pub(super) fn compress(&self, algorithm: Algorithm) {
        let packed = Packed { algorithm, out: self.out.take(), sent: self.sent.replace(0), ..Packed::default() };
        self.packed.replace(Some(Box::new(packed)));
    }

    /// The number of the next frame.
    pub(super) fn count_from(&self, sequence: u8) {
        if let Some(packed) = &mut *self.packed.borrow_mut() {
            packed.sequence = sequence;
        }
    }

    fn waiting(&self) -> usize {
        let framed = self.packed.borrow().as_ref().map_or(0, |packed| packed.out.len() - packed.sent);
        framed + self.out.borrow().len() - self.sent.get()
    }

    /// Whether there is anything to send.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Whether what there is should be sent though more comes at once.
    pub(super) fn is_due(&self) -> bool {
        self.due.get() || self.waiting() >= SEND_BYTES
    }

    fn is_full(&self) -> bool {
        self.waiting() >= BACKLOG_BYTES
    }

    /// Sends all there is.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn poll_send(&self, io: &impl Transport, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match &mut *self.packed.borrow_mut() {
            Some(packed) => self.poll_send_packed(packed, io, cx),
            None => {
                let mut sent = self.sent.get();
                let result = poll_send_all(&mut self.out.borrow_mut(), &mut sent, io, cx);
                self.sent.set(sent);
                result
            }
        };
        if matches!(result, Poll::Ready(Ok(()))) {
            self.due.set(false);
        }
        if !self.is_full()
            && let Some(waker) = self.waiter.take()
        {
            waker.wake();
        }
        result
    }

    fn poll_send_packed(&self, packed: &mut Packed, io: &impl Transport, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(poll_send_all(&mut packed.out, &mut packed.sent, io, cx))?;
            let mut out = self.out.borrow_mut();
            if out.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let Packed { algorithm, deflater, out: frames, sequence, .. } = packed;
            deflater.get_or_insert_with(|| Deflater::new(*algorithm)).compress(&out, sequence, frames);
            out.clear();
        }
    }

    /// Whether a statement waits for room that there is by now; it is to be polled again.
    pub(super) fn has_waiter(&self) -> bool {
        let waiter = self.waiter.take();
        let waits = waiter.is_some();
        self.waiter.set(waiter);
        waits
    }

    /// Gives its memory back.
    pub(super) fn release(&self) {
        if self.is_empty() {
            self.out.take();
            self.sent.set(0);
            if let Some(packed) = &mut *self.packed.borrow_mut() {
                **packed = Packed { sequence: packed.sequence, algorithm: packed.algorithm, ..Packed::default() };
            }
        }
    }
}

/// Sends all that `out` has from `sent` on, and empties it then.
fn poll_send_all(
    out: &mut Vec<u8>,
    sent: &mut usize,
    io: &impl Transport,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let result = loop {
        if *sent == out.len() {
            break Ok(());
        }
        match ready!(io.poll_write(cx, &out[*sent..])) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *sent += count,
            Err(error) => break Err(error),
        }
    };
    out.clear();
    *sent = 0;
    if out.capacity() > KEPT_BYTES {
        *out = Vec::new();
    }
    Poll::Ready(result)
}

/// Where the results of a statement go: in the packets of a protocol to the line.
pub(super) struct Results<'a, F> {
    pub(super) line: &'a Line,
    pub(super) format: F,
    /// The file that the client may be asked for; `None` if it has said that it sends none.
    pub(super) upload: Option<&'a Upload>,
    /// Bytes of a packet that the client may send.
    pub(super) packet_bytes_max: usize,
}

impl<F: Numbered> Input for Results<'_, F> {
    fn open(&mut self, name: &[u8]) {
        let Some(upload) = self.upload else { return };
        let mut sequence = self.format.next_number();
        put(self.line, &mut sequence, |out| {
            out.push(FILE_WANTED);
            out.extend_from_slice(name);
        });
        self.line.due.set(true);
        upload.begin(sequence, self.packet_bytes_max);
    }
    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, SinkClosed>> {
        let Some(upload) = self.upload else { return Poll::Ready(Err(SinkClosed)) };
        let more = ready!(upload.poll_take(cx, out));
        if !more {
            self.format.count_from(upload.sequence());
        }
        Poll::Ready(Ok(more))
    }
}

impl<F: Format + Numbered> Sink for Results<'_, F> {
    fn columns(&mut self, columns: &[Column]) {
        self.format.columns(columns, &mut self.line.out.borrow_mut());
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.format.row(row, &mut self.line.out.borrow_mut());
        if self.line.is_full() { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, summary: &Summary) {
        self.format.end_result(summary, &mut self.line.out.borrow_mut());
        self.line.due.set(true);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if !self.line.is_full() {
            return Poll::Ready(Ok(()));
        }
        self.line.waiter.set(Some(cx.waker().clone()));
        Poll::Pending
    }
    fn input(&mut self) -> Option<&mut dyn Input> {
        if self.upload.is_some_and(|upload| !upload.has_begun()) { Some(self) } else { None }
    }
}

/// Reads what a client sends while its statement runs, into room that is made for it.
///
/// # Errors
/// The socket's; `UnexpectedEof` when the client has left.
pub(super) fn poll_ahead(io: &impl Transport, ahead: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    /// Commands that a client may send ahead; the rest waits in its socket.
    const AHEAD_BYTES_MAX: usize = 16 << 10;
    const READ_BYTES: usize = 1 << 10;
    while ahead.len() < AHEAD_BYTES_MAX {
        let mut room = [0; READ_BYTES];
        match ready!(io.poll_read(cx, &mut room))? {
            0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            count => ahead.extend_from_slice(&room[..count]),
        }
    }
    Poll::Pending
}
