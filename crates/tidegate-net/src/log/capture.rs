//! The ring behind `lua_capture_error_log`: the latest error-log lines of this worker, kept in memory.
//!
//! Each worker thread has its own, as each nginx worker process has. When it is full, the oldest lines go.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::Level;
use crate::clock;

/// Bytes that an entry counts for beside its text, so that many short lines are bounded too.
///
/// Source: lua-nginx-module, the header of an entry.
const ENTRY_OVERHEAD_BYTES: usize = 16;

/// A captured line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Level of the line.
    pub level: Level,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The line as written to the log, without its newline.
    pub line: Vec<u8>,
}

/// Entries have places as in lua-nginx-module's buffer, where each lies in one piece: how many lines fit is then the same.
struct Ring {
    bytes_max: usize,
    /// Where the next entry goes, if it fits there.
    tail: usize,
    entries: VecDeque<(usize, Entry)>,
}

impl Ring {
    /// Puts an entry; those in its place go.
    fn put(&mut self, entry: Entry) {
        let size = entry.size();
        if size > self.bytes_max {
            return;
        }
        if self.entries.is_empty() {
            self.tail = 0;
        }
        if self.bytes_max - self.tail < size {
            // Nothing of it goes to the end of the buffer: what is there is older than all that is at the beginning.
            while self.entries.front().is_some_and(|&(at, _)| at >= self.tail) {
                self.entries.pop_front();
            }
            self.tail = 0;
        }
        let end = self.tail + size;
        while self.entries.front().is_some_and(|&(at, _)| (self.tail..end).contains(&at)) {
            self.entries.pop_front();
        }
        self.entries.push_back((self.tail, entry));
        self.tail = end;
    }
}

thread_local! {
    /// Lines as bad as this are kept; nothing while there is no ring.
    static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
    static RING: RefCell<Option<Ring>> = const { RefCell::new(None) };
}

/// Gives this thread a ring of `bytes_max`, or takes it away with 0. What was captured is gone.
pub fn install(bytes_max: usize) {
    let ring = (bytes_max > 0).then(|| Ring { bytes_max, tail: 0, entries: VecDeque::new() });
    LEVEL.set(ring.is_some().then_some(Level::Debug));
    RING.set(ring);
}

/// Whether this thread has a ring.
pub fn is_installed() -> bool {
    LEVEL.get().is_some()
}

/// Keeps only lines as bad as `level` from now on. Returns whether there is a ring.
pub fn set_filter(level: Level) -> bool {
    let installed = is_installed();
    if installed {
        LEVEL.set(Some(level));
    }
    installed
}

/// Takes the oldest line.
pub fn take() -> Option<Entry> {
    RING.with_borrow_mut(|ring| Some(ring.as_mut()?.entries.pop_front()?.1))
}

/// Puts a line that was written to the log.
pub(super) fn offer(level: Level, line: &[u8]) {
    let wanted = LEVEL.try_with(Cell::get).ok().flatten().is_some_and(|worst| level <= worst);
    if wanted {
        put(level, line);
    }
}

/// Puts a line, whatever the filter says.
fn put(level: Level, line: &[u8]) {
    let entry = Entry { level, time_ms: clock::now_ms(), line: line.to_vec() };
    // What ends with its thread may have something to say when the ring has gone.
    let _ = RING.try_with(|ring| {
        if let Some(ring) = &mut *ring.borrow_mut() {
            ring.put(entry);
        }
    });
}

impl Entry {
    fn size(&self) -> usize {
        ENTRY_OVERHEAD_BYTES + self.line.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_make_room() {
        assert!(!set_filter(Level::Warn));
        offer(Level::Error, b"before the ring");
        install(2 * (ENTRY_OVERHEAD_BYTES + 3));
        assert_eq!(take(), None);
        for line in [b"one", b"two", b"six"] {
            offer(Level::Error, line);
        }
        assert_eq!(take().map(|entry| entry.line), Some(b"two".to_vec()));
        assert!(set_filter(Level::Error));
        offer(Level::Warn, b"not");
        assert_eq!(take().map(|entry| entry.line), Some(b"six".to_vec()));
        assert_eq!(take(), None);
        offer(Level::Crit, &[b'x'; 500]);
        assert_eq!(take(), None);
        install(0);
        assert!(!is_installed());
    }
}
