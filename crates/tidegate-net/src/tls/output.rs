//! What leaves: plain text becomes records, which are sent as far as the socket takes them. See T1 and T4.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, IoSlice, Write as _},
    os::unix::fs::FileExt as _,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use super::{State, TLS_BUFFER_BYTES_MAX, TlsStream};

thread_local! {
    /// Where parts of files are encrypted from.
    static FILE_PART: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Wakes two tasks, or one twice.
struct Both(Waker, Waker);

impl Wake for Both {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
        self.1.wake_by_ref();
    }
}

impl TlsStream {
    /// As [`Stream::poll_write_ready`](crate::stream::Stream::poll_write_ready).
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.socket.poll_write_ready(cx);
        let mut writer = self.writer.borrow_mut();
        if ready.is_ready() {
            *writer = None;
        } else if !writer.as_ref().is_some_and(|writer| writer.will_wake(cx.waker())) {
            *writer = Some(cx.waker().clone());
        }
        ready
    }

    /// Wakes a reader, and the writer too: the socket wakes only one of those who wait until it takes more.
    pub(super) fn with_writer(&self, reader: &Waker) -> Waker {
        match &*self.writer.borrow() {
            Some(writer) if !writer.will_wake(reader) => Waker::from(Arc::new(Both(writer.clone(), reader.clone()))),
            _ => reader.clone(),
        }
    }

    /// As [`Stream::try_write_vectored`](crate::stream::Stream::try_write_vectored): sends what waits, then takes plain text, and sends that
    /// too as far as the socket takes it.
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => {
                if !self.has_tickets.take() {
                    self.send(conn)?;
                }
                let taken = conn.writer().write_vectored(slices)?;
                if self.is_last.get() && taken == slices.iter().map(|slice| slice.len()).sum::<usize>() {
                    conn.send_close_notify();
                }
                match self.send(conn) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(taken),
                }
            }
            State::Plain | State::Hello(_) | State::Greeted(_) => self.socket.try_write_vectored(slices),
        }
    }
    /// Says that the next write is the last one: if it is taken whole, the farewell leaves in one packet with it.
    pub(crate) fn write_is_last(&self) {
        self.is_last.set(!self.is_early());
    }
    /// As [`Stream::try_sendfile`](crate::stream::Stream::try_sendfile), through memory.
    pub(crate) fn try_sendfile(&self, file: &File, offset: u64, len: u64) -> io::Result<usize> {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(TLS_BUFFER_BYTES_MAX);
        FILE_PART.with_borrow_mut(|part| {
            part.resize(TLS_BUFFER_BYTES_MAX, 0);
            self.try_flush()?;
            let count = file.read_at(&mut part[..len], offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.try_write_vectored(&[IoSlice::new(&part[..count])])
        })
    }
    /// Sends the records that wait.
    ///
    /// # Errors
    /// `WouldBlock` while some still do.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => self.send(conn),
            State::Plain | State::Hello(_) | State::Greeted(_) => Ok(()),
        }
    }
    /// Whether records wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(&*self.state.borrow(), State::Open(conn) if conn.wants_write())
    }
    /// Says that nothing more will be sent. The client can tell that from a connection that was cut.
    pub(crate) fn say_farewell(&self) {
        if let State::Open(conn) = &mut *self.state.borrow_mut() {
            conn.send_close_notify();
            // A socket that takes nothing now has a client that has stopped reading.
            let _ = self.send(conn);
        }
    }
}
