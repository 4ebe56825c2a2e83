//! The socket as TLS reads and writes it: records.

use std::io::{self, IoSlice, Read, Write};

use crate::stream::Stream;

/// Reads records, and keeps a copy.
pub(super) struct Listener<'a> {
    pub(super) records: &'a mut dyn Read,
    pub(super) heard: &'a mut Vec<u8>,
}

impl Read for Listener<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.records.read(buf)?;
        self.heard.extend_from_slice(&buf[..count]);
        Ok(count)
    }
}

/// Bytes that come ahead of the version in a client's first message, and that: the heads of the record and the message.
const FIRST_BYTES: usize = 11;

/// What a client begins with, as far as its version.
#[derive(Default)]
pub(super) struct FirstBytes {
    bytes: [u8; FIRST_BYTES],
    len: usize,
}

impl FirstBytes {
    /// Reads records, and keeps what is to be kept.
    pub(super) fn of<'a>(&'a mut self, records: &'a mut dyn Read) -> impl Read + 'a {
        Beginning { records, first: self }
    }
    /// The version that the client's first message names, which TLS 1.3 has frozen (RFC 8446, section 4.1.2).
    pub(super) fn version(&self) -> Option<[u8; 2]> {
        let [.., major, minor] = self.bytes;
        (self.len == FIRST_BYTES).then_some([major, minor])
    }
}

struct Beginning<'a> {
    records: &'a mut dyn Read,
    first: &'a mut FirstBytes,
}

impl Read for Beginning<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.records.read(buf)?;
        let FirstBytes { bytes, len } = &mut *self.first;
        let more = count.min(FIRST_BYTES - *len);
        bytes[*len..*len + more].copy_from_slice(&buf[..more]);
        *len += more;
        Ok(count)
    }
}

/// A socket that records are read from and written to.
pub(super) struct Records<'s>(pub(super) &'s Stream);

impl Read for Records<'_> {
    fn read(&mut self, mut buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read_buf(&mut buf)
    }
}

impl Write for Records<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
