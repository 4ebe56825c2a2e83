//! TLS on a connection that is [parked](crate::parked): its socket is outside of the event loop, and is read from here.

use std::{
    io::{self, BufRead as _, Read, Write},
    os::fd::{AsRawFd, BorrowedFd},
};

use rustls::Connection;

/// What TLS on a parked connection must not forget.
pub(crate) struct ParkedTls(Box<Connection>);

impl ParkedTls {
    pub(super) fn of(conn: Box<Connection>) -> Self {
        ParkedTls(conn)
    }
    pub(super) fn into_connection(self) -> Box<Connection> {
        self.0
    }

    /// Appends the plain text that has come to `buffer`, within its capacity. `Ok(0)` at the end of the input. When there is
    /// room left, everything that has come was read.
    ///
    /// # Errors
    /// `WouldBlock` without any plain text; others when the connection is broken, also for who reads next.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let ParkedTls(conn) = self;
        let before = buffer.len();
        loop {
            let mut reader = conn.reader();
            match reader.fill_buf() {
                Ok([]) => return Ok(buffer.len() - before),
                Ok(text) => {
                    let count = text.len().min(buffer.capacity() - buffer.len());
                    buffer.extend_from_slice(&text[..count]);
                    reader.consume(count);
                    if buffer.len() == buffer.capacity() {
                        return Ok(buffer.len() - before);
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client has closed without a farewell.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(buffer.len() - before),
                Err(error) => return Err(error),
            }
            let read = conn.read_tls(&mut Socket(socket)).and_then(|_| {
                conn.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            });
            match read {
                Ok(_) => {}
                // What came before a failure is for the connection, which then meets that again.
                Err(_) if buffer.len() > before => return Ok(buffer.len() - before),
                Err(error) => return Err(error),
            }
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn say_farewell(&mut self, socket: BorrowedFd<'_>) {
        let ParkedTls(conn) = self;
        conn.send_close_notify();
        // A socket that takes nothing now has a client that has stopped reading.
        while conn.wants_write() && conn.write_tls(&mut Socket(socket)).is_ok() {}
    }
}

/// Reads and writes without waiting.
struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the slice is writable memory of its length.
        let count = unsafe { libc::recv(self.0.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the slice is readable memory of its length.
        let count = unsafe { libc::send(self.0.as_raw_fd(), buf.as_ptr().cast(), buf.len(), flags) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
