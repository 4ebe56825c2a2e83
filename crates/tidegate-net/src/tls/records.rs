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
