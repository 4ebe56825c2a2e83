//! Bytes that were read and not given to the script yet.

use std::cell::RefCell;

/// Buffers that a worker keeps, and the size beyond which one is given back to the system.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Bytes in the order in which they came. The memory is taken from the worker while there are any.
#[derive(Default)]
pub(crate) struct Input {
    buf: Vec<u8>,
    start: usize,
}

impl Input {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf[self.start..]
    }

    pub(super) fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the first `count` bytes.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.buf.len() {
            self.buf.clear();
            self.start = 0;
        }
    }

    /// The buffer with room for `bytes` more.
    pub(super) fn room(&mut self, bytes: usize) -> &mut Vec<u8> {
        if self.buf.capacity() == 0 {
            self.buf = SPARES.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
        if self.buf.capacity() - self.buf.len() < bytes && self.start > 0 {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.reserve(bytes);
        &mut self.buf
    }

    /// Gives the memory back while nothing is kept.
    pub(super) fn release(&mut self) {
        if self.is_empty() && (1..=SPARE_BYTES_MAX).contains(&self.buf.capacity()) {
            let mut buf = std::mem::take(&mut self.buf);
            buf.clear();
            self.start = 0;
            // Without the thread's list (the thread ends) it just goes.
            let _ = SPARES.try_with(|spares| {
                let mut spares = spares.borrow_mut();
                if spares.len() < SPARES_MAX {
                    spares.push(buf);
                }
            });
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.start = self.buf.len();
        self.release();
    }
}
