//! Room on the disk for a database file that is about to grow.
//!
//! A commit goes into the write-ahead log, and into the database file later. If the disk is full by then the log cannot be
//! moved and so never starts over: nothing can be written any more, not even what would delete. So a commit takes the
//! room that it needs in the database file at once, or fails.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

/// Taken at once beyond what is needed, at least and at most: an eighth of the file.
const AHEAD_MIN: i64 = 64 << 10;
const AHEAD_MAX: i64 = 1 << 20;

/// The room of a database file.
#[derive(Default)]
pub(super) struct Reserve {
    /// For the room alone, open for as long as connections have the file open: the system drops a process' locks of a file with
    /// the first descriptor that is closed. `None` if it cannot be opened.
    file: OnceLock<Option<File>>,
    /// Bytes that the file has room for.
    bytes: AtomicI64,
    taking: Mutex<()>,
}

impl Reserve {
    /// Has room for a file of `size` bytes. False if the disk has none; true as well where it cannot tell.
    pub(super) fn take(&self, database: &CStr, size: i64) -> bool {
        size <= self.bytes.load(Ordering::Acquire) || self.take_more(database, size)
    }

    #[cold]
    fn take_more(&self, database: &CStr, size: i64) -> bool {
        let _taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let path = Path::new(std::ffi::OsStr::from_bytes(database.to_bytes()));
        let Some(file) = self.file.get_or_init(|| File::options().write(true).open(path).ok()) else { return true };
        let there =
            file.metadata().map_or(0, |metadata| metadata.len().cast_signed()).max(self.bytes.load(Ordering::Acquire));
        for end in [size + (size / 8).clamp(AHEAD_MIN, AHEAD_MAX), size] {
            if end <= there {
                return true;
            }
            match allocate(file, there, end - there) {
                Ok(()) => {
                    self.bytes.store(end, Ordering::Release);
                    return true;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
                // File systems that cannot do it.
                Err(_) => {
                    self.bytes.store(end, Ordering::Release);
                    return true;
                }
            }
        }
        false
    }

    /// The file was cut to this size, which gives back what was taken behind it.
    pub(super) fn is_cut(&self, size: i64) {
        let _taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes.fetch_min(size, Ordering::AcqRel);
    }
}

/// Takes blocks for a part of a file, whose size stays as it is.
fn allocate(file: &File, from: i64, bytes: i64) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open while `file` is borrowed.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, from, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Bytes of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    /// All of them.
    pub(crate) size: u64,
    /// Those that this process may still take.
    pub(crate) left: u64,
}

/// The disk of a file; `None` if it does not tell.
pub(crate) fn space_on_disk(file: &File) -> Option<Space> {
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open while `file` is borrowed, and the call fills the structure if it succeeds.
    unsafe {
        (libc::fstatvfs(file.as_raw_fd(), about.as_mut_ptr()) == 0).then(|| {
            let about = about.assume_init();
            Space {
                size: about.f_blocks.saturating_mul(about.f_frsize),
                left: about.f_bavail.saturating_mul(about.f_frsize),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn room_is_taken_behind_the_end_and_given_back() {
        let path = std::env::temp_dir().join(format!("tidegate-sql-reserve-{}", std::process::id()));
        std::fs::write(&path, [1; 4096]).unwrap();
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        let reserve = Reserve::default();
        assert!(reserve.take(&name, 4096));
        assert!(reserve.take(&name, 100_000));
        let taken = std::fs::metadata(&path).unwrap();
        assert_eq!(taken.len(), 4096, "the file has not grown");
        assert!(reserve.bytes.load(Ordering::Relaxed) >= 100_000);
        let blocks = taken.blocks() * 512;
        // Where the file system can do it.
        assert!(blocks >= 100_000 || blocks <= 8192, "{blocks}");
        let space = space_on_disk(&File::open(&path).unwrap()).unwrap();
        assert!(space.left <= space.size);
        reserve.is_cut(4096);
        assert_eq!(reserve.bytes.load(Ordering::Relaxed), 4096);
        std::fs::remove_file(&path).unwrap();
    }
}
