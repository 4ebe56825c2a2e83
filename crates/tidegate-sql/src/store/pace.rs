//! A checkpoint that leaves the processor and the disk to others.
//!
//! A checkpoint of a large log copies thousands of pages and then waits for all of them in one `fsync`. Done at one go each
//! is a thread that only computes, and a worker on the same core gets no time for as long as the scheduler lets such a
//! thread run, some milliseconds. So the copying rests after every few pages, and asks the system to begin writing them to the
//! disk as it goes, which leaves little to the `fsync`.

use std::{
    cell::RefCell,
    fs::File,
    ops::Range,
    os::fd::{AsRawFd, RawFd},
    time::Duration,
};

/// Pages between two rests: about as much work as a slice of a statement.
const PAGES_PER_REST: u32 = 12;
/// A rest. The system adds about half of it.
const REST: Duration = Duration::from_micros(100);
/// Bytes that are handed to the disk together.
const WRITE_BACK_BYTES: u64 = 256 << 10;

thread_local! {
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Pace {
    /// Whether to go on without rests.
    hurries: Option<Box<dyn Fn() -> bool>>,
    /// The database, if it could be opened; good while [`gently`] runs.
    file: Option<RawFd>,
    pages: u32,
    /// What was written and not handed to the disk yet.
    written: Range<u64>,
}

/// Runs `checkpoint` without haste as long as `hurries` says no. `file` is the database.
///
/// The file stays open with whoever calls: closing it would end the locks that SQLite has on it.
pub(crate) fn gently<R>(
    hurries: impl Fn() -> bool + 'static,
    file: Option<&File>,
    checkpoint: impl FnOnce() -> R,
) -> R {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            PACE.set(None);
        }
    }
    let file = file.map(AsRawFd::as_raw_fd);
    PACE.set(Some(Pace { hurries: Some(Box::new(hurries)), file, ..Pace::default() }));
    let _over = Over;
    checkpoint()
}

/// A page was written to a database.
pub(super) fn wrote(range: Range<u64>) {
    // A thread that ends closes its connections, and the last of them writes the log into the file, when this may be gone.
    let rests = PACE.try_with(|pace| pace.borrow_mut().as_mut().is_some_and(|pace| pace.wrote(range)));
    if rests == Ok(true) {
        std::thread::sleep(REST);
    }
}

impl Pace {
    /// Answers whether it is time for a rest.
    fn wrote(&mut self, range: Range<u64>) -> bool {
        self.written = if self.written.is_empty() {
            range
        } else {
            self.written.start.min(range.start)..self.written.end.max(range.end)
        };
        self.pages += 1;
        if !self.pages.is_multiple_of(PAGES_PER_REST) {
            return false;
        }
        if self.written.end - self.written.start >= WRITE_BACK_BYTES {
            let range = std::mem::take(&mut self.written);
            if let Some(file) = self.file {
                write_back(file, range);
            }
        }
        !self.hurries.as_ref().is_some_and(|hurries| hurries())
    }
}

/// Has the system begin to write what of a file is only in memory. It may refuse: this is for speed alone.
fn write_back(file: RawFd, range: Range<u64>) {
    // SAFETY: the call takes numbers only, and reads and writes no memory of this process.
    unsafe {
        libc::sync_file_range(
            file,
            range.start.cast_signed(),
            (range.end - range.start).cast_signed(),
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LastPage;
    impl Drop for LastPage {
        fn drop(&mut self) {
            wrote(0..4096);
        }
    }
    thread_local! {
        static CONNECTION: RefCell<Option<LastPage>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_thread_that_ends_may_write() {
        let thread = std::thread::spawn(|| {
            CONNECTION.set(Some(LastPage));
            // What is made last goes first.
            wrote(0..4096);
        });
        assert!(thread.join().is_ok());
    }

    #[test]
    fn rests_come_again_and_again_and_pieces_are_handed_over() {
        let mut pace = Pace::default();
        let (mut rests, mut largest) = (0, 0);
        for page in 0..1000 {
            rests += u32::from(pace.wrote(page * 4096..(page + 1) * 4096));
            largest = largest.max(pace.written.end - pace.written.start);
        }
        assert_eq!(rests, 1000 / PAGES_PER_REST);
        assert!(largest < WRITE_BACK_BYTES + u64::from(PAGES_PER_REST) * 4096, "{largest}");
    }
}
