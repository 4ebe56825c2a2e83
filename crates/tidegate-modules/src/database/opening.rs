//! How a data directory is opened, and what to do about one that cannot be.

use std::{
    ffi::CString,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    time::{Duration, Instant},
};

use tidegate_net::log::{self, Level};
use tidegate_sql::{Engine, OpenError};

use super::{Conf, EngineError, options};

/// Between two looks whether it is free.
const RETRY: Duration = Duration::from_millis(20);

/// Opens a data directory. While another process has it open this waits: for a moment, or, when that process is the
/// binary before this one, for as long as it serves.
pub(super) fn open(conf: &Conf, path: &Path, handover: Duration) -> Result<Engine, EngineError> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        match Engine::open(options(conf, path)) {
            Ok(engine) => return Ok(engine),
            Err(error @ OpenError::Locked { .. }) => {
                let patient = tidegate_net::generations::replaces_another();
                if !patient && begun.elapsed() >= handover {
                    let reason = format!("{error}; a data directory serves one process at a time");
                    return Err(EngineError::Refused(reason));
                }
                if patient && !told {
                    told = true;
                    log::note(Level::Notice, format_args!("database: {error}; waiting until it ends"));
                }
                std::thread::sleep(RETRY);
            }
            Err(error @ OpenError::Io { .. }) => return Err(EngineError::Unavailable(with_hint(&error, path))),
            Err(error) => return Err(EngineError::Refused(error.to_string())),
        }
    }
}

/// The error with what to do about it, where that is known.
fn with_hint(error: &OpenError, path: &Path) -> String {
    let OpenError::Io { source, .. } = error else { return error.to_string() };
    if source.kind() != io::ErrorKind::PermissionDenied {
        return error.to_string();
    }
    // SAFETY: the call takes nothing and cannot fail.
    let uid = unsafe { libc::geteuid() };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above: Vec<_> = path.ancestors().skip(1).collect();
    match above.into_iter().rev().find(|directory| !may_enter(directory)) {
        Some(closed) => {
            let owner = std::fs::metadata(closed).map_or(0, |found| found.uid());
            format!(
                "{error}: the server works as user {uid}, who may not enter \"{}\"; write \"user {};\" at the top of the \
                 configuration, or let \"path\" lead somewhere else",
                closed.display(),
                name_of(owner)
            )
        }
        None => format!(
            "{error}; the server works as user {uid}: the directory and its files must be that user's (see \"user\")"
        ),
    }
}

/// Whether the process may go through a directory.
fn may_enter(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return true };
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0 }
}

/// The name of a user, or the number if nobody has it.
fn name_of(uid: u32) -> String {
    nix::unistd::User::from_uid(uid.into()).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}
