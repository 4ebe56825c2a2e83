//! Room at the end of a write-ahead log.
//!
//! `fdatasync` of a file that has grown waits for the file system's journal too: two times as long as for one that has
//! not, and fifty times on a busy machine. So the sync thread writes zeros ahead of the log's end, and commits go into
//! bytes that the file has already. SQLite takes zeros for the end of the log, as it takes what an earlier round has left.
//!
//! Invariants:
//! 1. Zeros go only to bytes from `allocated` on, with the lock held.
//! 2. SQLite's writes go beyond `allocated` only with the lock held, and raise it.
//! 3. `allocated` sinks only when the log is cut, while SQLite lets nobody write to it.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use super::disk::{self, Change};

/// Room for a log that has just begun.
const ROOM_MIN: i64 = 64 << 10;
/// Room for a large one: half a millisecond of writing zeros.
const ROOM_MAX: i64 = 2 << 20;
/// Zeros that are written at once.
const BLOCK: usize = 64 << 10;

/// Where a log ends, and where its file does.
#[derive(Default)]
pub(crate) struct Room {
    /// Behind SQLite's last write.
    end: AtomicI64,
    /// No byte from here on has been written by SQLite; not behind the end of the file.
    allocated: AtomicI64,
    extending: Mutex<()>,
    /// There was no room on the disk.
    full: AtomicBool,
    /// How often a write was refused for want of room.
    refused: AtomicU64,
}

impl Room {
    /// Carries out a write of SQLite's to the bytes before `end`.
    pub(super) fn write<R>(&self, end: i64, write: impl FnOnce() -> R) -> R {
        let written = if end <= self.allocated.load(Ordering::Acquire) {
            write()
        } else {
            let _extending = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
            let written = write();
            // Also after an error: a part may have been written.
            self.allocated.fetch_max(end, Ordering::AcqRel);
            written
        };
        self.end.store(end, Ordering::Release);
        written
    }

    /// The disk had no room for a write.
    #[cold]
    pub(super) fn is_refused(&self) {
        self.refused.fetch_add(1, Ordering::AcqRel);
    }

    /// How often the disk had no room.
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Acquire)
    }

    /// Bytes of the file, or a little less.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Acquire).unsigned_abs()
    }

    /// The file was opened and has this size.
    pub(super) fn is_at_least(&self, size: i64) {
        // Not less: somebody may be writing there without the lock.
        self.allocated.fetch_max(size, Ordering::AcqRel);
    }

    /// Carries out a cut of the log to `size` bytes; SQLite has locked all writers out. `cut` answers whether it has been.
    pub(super) fn cut(&self, size: i64, cut: impl FnOnce() -> bool) {
        let _extending = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
        if cut() {
            self.allocated.store(size, Ordering::Release);
            self.end.store(size, Ordering::Release);
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Gives a log that has been cut `bytes` again, as far as the disk has them.
    pub(crate) fn refill(&self, log: &File, database: &CStr, bytes: u64) {
        let _extending = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.allocated.load(Ordering::Acquire);
        if let Ok(to) = extend(log, database, from, bytes.cast_signed()) {
            self.allocated.fetch_max(to, Ordering::AcqRel);
        }
    }

    /// Writes zeros ahead when little room is left; they are on the disk with the next `fdatasync`.
    pub(crate) fn keep(&self, log: &File, database: &CStr) {
        let end = self.end.load(Ordering::Acquire);
        let room = end.clamp(ROOM_MIN, ROOM_MAX);
        if self.allocated.load(Ordering::Acquire) - end >= room / 2 || self.full.load(Ordering::Relaxed) {
            return;
        }
        let _extending = self.extending.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.allocated.load(Ordering::Acquire);
        match extend(log, database, from, from.max(end) + room) {
            Ok(to) => self.allocated.store(to, Ordering::Release),
            Err(_) => {
                // The last bytes of a disk are not for zeros.
                let change = Change::Truncate { size: from.unsigned_abs() };
                let _ = disk::carry_out(disk::File::Log(database), change, || log.set_len(from.unsigned_abs()));
                self.full.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn extend(log: &File, database: &CStr, from: i64, to: i64) -> io::Result<i64> {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let mut at = from.unsigned_abs();
    let to = to.unsigned_abs();
    while at < to {
        let block = &ZEROS[..usize::try_from(to - at).unwrap_or(BLOCK).min(BLOCK)];
        let change = Change::Write { offset: at, bytes: block };
        disk::carry_out(disk::File::Log(database), change, || log.write_all_at(block, at))?;
        at += block.len() as u64;
    }
    Ok(at.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_stay_ahead_and_touch_nothing() {
        let path = std::env::temp_dir().join(format!("tidegate-sql-room-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        let room = Room::default();
        let mut at = 0u64;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (room, file, stop) = (&room, &file, &done);
            let keeper = scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    room.keep(file, c"none");
                }
            });
            for number in 0..2000u64 {
                let bytes = vec![number as u8 | 1; 1000 + (number % 7) as usize * 4000];
                let end = at + bytes.len() as u64;
                room.write(end as i64, || file.write_all_at(&bytes, at)).unwrap();
                at = end;
            }
            done.store(true, Ordering::Relaxed);
            keeper.join().unwrap();
        });
        room.keep(&file, c"none");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(bytes[..at as usize].iter().all(|byte| *byte != 0));
        assert!(bytes[at as usize..].iter().all(|byte| *byte == 0));
        assert!(bytes.len() as u64 > at);
    }
}
