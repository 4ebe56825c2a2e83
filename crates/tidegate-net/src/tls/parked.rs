//! TLS on a connection that is [parked](crate::parked): its socket is outside of the event loop, and is read from here.

use std::{
    io::{self, BufRead as _, Read, Write},
    os::fd::{AsRawFd, BorrowedFd},
};

use rustls::Connection;

/// What TLS on a parked connection must not forget.
pub(crate) struct ParkedTls(Box<Connection>);

impl ParkedTls {
    pub(super) fn of(mut conn: Box<Connection>) -> Self {
        // It fails as a socket does that has nothing, and says nothing of the connection.
        let _ = conn.read_tls(&mut NothingHasCome);
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

/// A socket without input. Whoever asks it has a buffer for records that nothing is in, and needs no memory for it: of a connection on which
/// nothing happens that buffer would be more than half.
///
/// Source: rustls, `DeframerVecBuffer`: 4 KB that it never gives back; what it reads into beyond them it gives back ahead of the next read.
struct NothingHasCome;

impl Read for NothingHasCome {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        give_pages_back(buf);
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Gives the whole pages of a buffer back to the system, which has others, filled with zeros, for who touches them next.
fn give_pages_back(buffer: &mut [u8]) {
    // SAFETY: asks for a number.
    let Ok(page_bytes) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else { return };
    let ahead = buffer.as_ptr().align_offset(page_bytes);
    let Some(rest) = buffer.get_mut(ahead..) else { return };
    let whole = rest.len() - rest.len() % page_bytes;
    if whole > 0 {
        // SAFETY: these pages are all within the slice, which is borrowed for writing, and any bytes are good ones for it. A system that
        // leaves them as they are does no harm.
        unsafe { libc::madvise(rest.as_mut_ptr().cast(), whole, libc::MADV_DONTNEED) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_given_back_and_nothing_else_is_touched() {
        // SAFETY: asks for a number.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size");
        let mut memory = vec![1; 5 * page_bytes];
        let first = memory.as_ptr().align_offset(page_bytes);
        // A page of which the first byte is another's, two whole ones, and a byte of a third.
        give_pages_back(&mut memory[first + 1..=first + 3 * page_bytes]);
        let (kept, given) = (first + page_bytes, first + 3 * page_bytes);
        assert!(memory[..kept].iter().chain(&memory[given..]).all(|byte| *byte == 1));
        assert!(memory[kept..given].iter().all(|byte| *byte == 0));
        // No whole page.
        give_pages_back(&mut memory[first + 1..first + page_bytes]);
        give_pages_back(&mut []);
        assert!(memory[..kept].iter().all(|byte| *byte == 1));
    }
}
