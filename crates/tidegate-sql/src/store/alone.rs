//! Keeps other programs of SQLite's out of a database that this process has open.
//!
//! The index of the log is in this process, so another program would build an index of its own from what stands in the log
//! at that moment: it would soon read wrong pages, and what it writes would be lost or damage the file. SQLite's programs
//! share `NAME.db-shm`, in which they lock single bytes. This process behaves like one of them that is for ever about to
//! recover the index: the others find no index there, cannot make one, and fail with "database is locked".
//!
//! The bytes are documented in SQLite's "WAL-mode File Format", section 2.3.1.

use std::{
    ffi::{CStr, OsStr},
    fs::File,
    io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::PathBuf,
};

/// Locked shared by whoever has the file open, exclusively by who makes it anew.
const OPEN: libc::off_t = 128;
/// The locks of the writer, of the checkpoint and of the recovery.
const WRITE: libc::off_t = 120;
const WRITE_TO_RECOVER: libc::off_t = 3;
/// Size of the index' first part. While it holds zeros there is no index.
const INDEX_BYTES: u64 = 32 * 1024;
/// How often a lock is tried that this very process is about to give back.
const TRIES: usize = 1000;

/// The locks; they end when this is dropped.
pub(super) struct Alone(#[allow(dead_code, reason = "the locks live as long as the file is open")] File);

/// Another program has the database open.
pub(super) struct OpenElsewhere;

impl Alone {
    /// Locks the database at a path; `None` where the file of the locks cannot be made, as on a disk that is full.
    ///
    /// # Errors
    /// [`OpenElsewhere`].
    pub(super) fn lock(database: &CStr) -> Result<Option<Self>, OpenElsewhere> {
        let Ok(file) = open(database) else { return Ok(None) };
        for _ in 0..TRIES {
            if set_lock(&file, libc::F_WRLCK, OPEN, 1) {
                let is_empty = file.set_len(0).and_then(|()| file.set_len(INDEX_BYTES)).is_ok();
                let is_locked = is_empty
                    && set_lock(&file, libc::F_WRLCK, WRITE, WRITE_TO_RECOVER)
                    && set_lock(&file, libc::F_RDLCK, OPEN, 1);
                return Ok(is_locked.then_some(Self(file)));
            }
            match holder(&file) {
                // Locks of open files have no process: it is a connection of ours that is just being closed.
                Some(process) if process <= 0 => std::thread::yield_now(),
                Some(_) => return Err(OpenElsewhere),
                None => return Ok(None),
            }
        }
        Err(OpenElsewhere)
    }
}

/// Locks bytes for the open file, not for the process: SQLite's own locks come and go in this process.
fn set_lock(file: &File, kind: libc::c_int, first: libc::off_t, count: libc::off_t) -> bool {
    let mut lock = request(kind, first, count);
    // SAFETY: the descriptor is open and the lock is valid for the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) == 0 }
}

/// The process that has the file open; 0 or less if that is not known, `None` if the system cannot tell.
fn holder(file: &File) -> Option<libc::pid_t> {
    let mut lock = request(libc::F_WRLCK, OPEN, 1);
    // SAFETY: as in `set_lock`; the system writes into `lock`.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    (asked == 0).then_some(lock.l_pid)
}

fn request(kind: libc::c_int, first: libc::off_t, count: libc::off_t) -> libc::flock {
    // SAFETY: zeros are a valid value of this struct of integers; an open file's lock wants its `l_pid` to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = first;
    lock.l_len = count;
    lock
}

/// Opens the file of the locks, which belongs to whom the database belongs.
fn open(database: &CStr) -> io::Result<File> {
    let database = PathBuf::from(OsStr::from_bytes(database.to_bytes()));
    let mut path = database.clone().into_os_string();
    path.push("-shm");
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let (owner, made) = (std::fs::metadata(database)?, file.metadata()?);
    if (owner.uid(), owner.gid()) != (made.uid(), made.gid()) {
        // Only a superuser can and has to.
        let _ = std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(file)
}
