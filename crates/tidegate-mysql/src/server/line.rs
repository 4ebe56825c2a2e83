//! What is on its way to a client, and the sink that a statement's results go into.

use std::{
    cell::{Cell, RefCell},
    io,
    task::{Context, Poll, Waker, ready},
};

use tidegate_rows::{Column, Flow, Format, Sink, SinkClosed, Summary, Value};

use super::Transport;

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
}

impl Line {
    /// Appends what `write` writes.
    pub(super) fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out.borrow_mut());
    }

    fn waiting(&self) -> usize {
        self.out.borrow().len() - self.sent.get()
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
        let mut out = self.out.borrow_mut();
        let result = loop {
            let sent = self.sent.get();
            if sent == out.len() {
                self.due.set(false);
                break Poll::Ready(Ok(()));
            }
            match io.poll_write(cx, &out[sent..]) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.sent.set(sent + count),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        if result.is_ready() {
            out.clear();
            self.sent.set(0);
            if out.capacity() > KEPT_BYTES {
                *out = Vec::new();
            }
        }
        drop(out);
        if !self.is_full()
            && let Some(waker) = self.waiter.take()
        {
            waker.wake();
        }
        result
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
        }
    }
}

/// Where the results of a statement go: in the packets of a protocol to the line.
pub(super) struct Results<'a, F> {
    pub(super) line: &'a Line,
    pub(super) format: F,
}

impl<F: Format> Sink for Results<'_, F> {
    fn columns(&mut self, columns: &[Column]) {
        self.format.columns(columns, &mut self.line.out.borrow_mut());
    }
    fn begin_row(&mut self) {
        self.format.begin_row(&mut self.line.out.borrow_mut());
    }
    fn value(&mut self, index: usize, value: Value<'_>) {
        self.format.value(index, value, &mut self.line.out.borrow_mut());
    }
    fn end_row(&mut self) -> Flow {
        self.format.end_row(&mut self.line.out.borrow_mut());
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
