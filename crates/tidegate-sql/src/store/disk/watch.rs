//! Who watches the changes of a data directory's files.

use std::{
    ffi::{OsStr, c_int},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use libsqlite3_sys as ffi;

use super::{Change, File};

/// The result of a change.
pub(crate) trait Outcome {
    /// Of a change that the disk refuses.
    fn refused(change: Change<'_>) -> Self;
    /// Whether the change was made.
    fn is_good(&self) -> bool;
}

impl Outcome for c_int {
    fn refused(change: Change<'_>) -> Self {
        match change {
            Change::Write { .. } => ffi::SQLITE_IOERR_WRITE,
            Change::Truncate { .. } => ffi::SQLITE_IOERR_TRUNCATE,
            Change::Sync => ffi::SQLITE_IOERR_FSYNC,
            Change::Rename { .. } => ffi::SQLITE_IOERR,
        }
    }

    fn is_good(&self) -> bool {
        *self == ffi::SQLITE_OK
    }
}

impl Outcome for io::Result<()> {
    fn refused(_: Change<'_>) -> Self {
        Err(io::Error::from_raw_os_error(libc::EIO))
    }

    fn is_good(&self) -> bool {
        self.is_ok()
    }
}

/// Told of every change, on the thread that makes it.
pub(crate) trait Watcher: Send + Sync {
    /// Before a change; whether the disk takes it.
    fn before(&self, file: File<'_>, change: Change<'_>) -> bool;
    /// After one that it took, unless that failed by itself.
    fn after(&self, file: File<'_>, change: Change<'_>, good: bool);
}

static WATCHERS: Mutex<Vec<(PathBuf, Arc<dyn Watcher>)>> = Mutex::new(Vec::new());

/// A directory is watched while this lives.
pub(crate) struct Watching(PathBuf);

impl Watching {
    /// Watches `directory`, which exists.
    pub(crate) fn new(directory: &Path, watcher: Arc<dyn Watcher>) -> Self {
        let directory = directory.canonicalize().unwrap();
        WATCHERS.lock().unwrap().push((directory.clone(), watcher));
        Self(directory)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|(directory, _)| *directory != self.0);
    }
}

/// The watcher of a file's directory.
pub(super) fn watcher_of(file: File<'_>) -> Option<Arc<dyn Watcher>> {
    let (File::Database(path) | File::Log(path) | File::Directory(path)) = file;
    let directory = Path::new(OsStr::from_bytes(path.to_bytes())).parent()?;
    let watchers = WATCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    watchers.iter().find(|(watched, _)| watched == directory).map(|(_, watcher)| Arc::clone(watcher))
}
