//! All destinations of the process: opened together, reopened together.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::file::{Destination, LogFile, OpenError};
use super::path::PathFiles;
use super::writer;

/// Destinations live as long as a configuration names them.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { files: Vec::new(), paths: Vec::new(), provided: None });

struct Registry {
    files: Vec<Weak<LogFile>>,
    paths: Vec<Weak<PathFiles>>,
    /// Files that somebody with more rights opened for us.
    provided: Option<HashMap<PathBuf, OwnedFd>>,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn register(destination: Destination) -> Arc<LogFile> {
    let mut registry = registry();
    registry.files.retain(|file| file.strong_count() > 0);
    let known = registry.files.iter().filter_map(Weak::upgrade).find(|file| file.is(&destination));
    known.unwrap_or_else(|| {
        let file = Arc::new(LogFile::new(destination));
        registry.files.push(Arc::downgrade(&file));
        file
    })
}

pub(super) fn register_path_files(files: &Arc<PathFiles>) {
    let mut registry = registry();
    registry.paths.retain(|files| files.strong_count() > 0);
    registry.paths.push(Arc::downgrade(files));
}

fn live() -> Vec<Arc<LogFile>> {
    registry().files.iter().filter_map(Weak::upgrade).collect()
}

/// Whether some log goes to the standard error.
pub fn is_stderr_used() -> bool {
    live().iter().any(|file| file.is_stderr())
}

/// Opens every registered file that is not open: the last step of reading a configuration.
///
/// # Errors
/// One [`OpenError`] for each file that cannot be opened; the others are open.
pub fn open_registered() -> Result<(), Vec<OpenError>> {
    let errors: Vec<_> = live().iter().filter_map(|file| file.open().err()).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Calls `visit` with path and descriptor of every open file, to pass them to another process.
pub fn open_files(mut visit: impl FnMut(&Path, BorrowedFd<'_>)) {
    for file in live() {
        if let (Some(path), Some(fd)) = (file.path(), file.fd()) {
            visit(path, fd);
        }
    }
}

/// Keeps an open file for whoever opens `path` next: the supervisor may open what the server process may not.
pub fn provide(path: PathBuf, fd: OwnedFd) {
    registry().provided.get_or_insert_default().insert(path, fd);
}

pub(super) fn take_provided(path: &Path) -> Option<OwnedFd> {
    registry().provided.as_mut()?.remove(path)
}

/// Closes what was [provided](provide) and not used.
pub fn withdraw_provided() {
    registry().provided = None;
}

/// Writes what is queued, then opens every file anew: log rotation.
///
/// # Errors
/// One [`OpenError`] for each file that could not be opened; those stay on their old file.
pub fn reopen() -> Result<(), Vec<OpenError>> {
    reopen_with(&mut |_| None)
}

/// As [`reopen`], with the new files from `replacement` where it has one.
///
/// # Errors
/// As [`reopen`].
pub fn reopen_with(replacement: &mut dyn FnMut(&Path) -> Option<OwnedFd>) -> Result<(), Vec<OpenError>> {
    writer::flush();
    let paths: Vec<_> = registry().paths.iter().filter_map(Weak::upgrade).collect();
    for files in paths {
        files.close_all();
    }
    let reopened = live().into_iter().filter_map(|file| {
        let replacement = file.path().and_then(&mut *replacement);
        file.reopen(replacement).err()
    });
    let errors: Vec<_> = reopened.collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Calls `report` with every destination that lost lines since the last call, and how many.
pub(super) fn each_lossy(mut report: impl FnMut(&LogFile, u64)) {
    for file in live() {
        let lines = file.take_lost();
        if lines > 0 {
            report(&file, lines);
        }
    }
}
