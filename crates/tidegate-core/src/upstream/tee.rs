//! A response goes two ways: to the client, and into a file that is kept. `…_store` and the cache are the users.
//!
//! The file gets its name when the response is complete. What cannot be written goes to the client all the same; a client that
//! leaves does not keep the others from having the response.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    caching::Filling,
    exchange::{Exchange, Protocol, READING},
};
use crate::{
    cache::Times,
    log::{Level, SysError},
    spool::{Draft, Spool, SpoolError},
};

/// A response on its way to a file.
pub(super) struct Tee {
    spool: Spool,
    to: Destination,
}

/// What the file is for.
enum Destination {
    /// `…_store`
    Store,
    /// The cache.
    Entry(Box<Filling>),
}

impl<P: Protocol> Exchange<'_, P> {
    /// Begins to write the response to a file, where somebody wants that.
    pub(super) fn begin_tee(&mut self) {
        self.tee = match self.begin_filling() {
            Some((spool, filling)) => Some(Box::new(Tee { spool, to: Destination::Entry(Box::new(filling)) })),
            None => self.begin_store().map(|spool| Box::new(Tee { spool, to: Destination::Store })),
        };
    }

    /// The times of the entry that the response becomes, if it becomes one.
    pub(super) fn entry_times(&self) -> Option<Times> {
        match &self.tee.as_ref()?.to {
            Destination::Entry(filling) => Some(filling.times()),
            Destination::Store => None,
        }
    }

    /// Takes a piece of the body.
    pub(super) async fn tee_piece(&mut self, piece: &[u8]) {
        let Some(tee) = &mut self.tee else { return };
        if let Err(error) = tee.spool.append(piece).await {
            self.tee = None;
            self.leave_cache();
            self.report_tee(&error);
        }
    }

    /// The response is complete.
    pub(super) async fn finish_tee(&mut self) {
        let Some(tee) = self.tee.take() else { return };
        let Tee { spool, to } = *tee;
        let finished = match to {
            Destination::Store => self.finish_store(spool).await,
            Destination::Entry(filling) => filling.finish(spool).await,
        };
        if let Err(error) = finished {
            self.report_tee(&error);
        }
    }

    #[cold]
    fn report_tee(&self, SpoolError { call, path, source }: &SpoolError) {
        let (path, source) = (path.display(), SysError(source));
        self.req.log(Level::Crit, format_args!("{call} \"{path}\" failed {source} while {READING}"));
    }
}

/// Gives a file its name, rights and time; the directories above it are made.
///
/// # Errors
/// The system refuses. There is no part of a file under the name then.
pub(super) fn move_to(draft: &mut Draft, target: &Path, access: u32, modified: Option<u64>) -> Result<(), SpoolError> {
    let moved = name(draft, target, access, modified);
    moved.map_err(|source| SpoolError { call: "rename() to", path: target.to_owned(), source })
}

fn name(draft: &mut Draft, target: &Path, access: u32, modified: Option<u64>) -> io::Result<()> {
    draft.file.set_permissions(Permissions::from_mode(access))?;
    if let Some(seconds) = modified {
        draft.file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
    }
    match fs::rename(&draft.path, target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Who may read a file may look into its directory.
            let mode = access | (access & 0o444) >> 2;
            let directory = target.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(mode).create(directory)?;
            rename_or_copy(draft, target, modified)
        }
        Err(_) => rename_or_copy(draft, target, modified),
        Ok(()) => {
            draft.mark_moved();
            Ok(())
        }
    }
}

/// A file on another file system is copied there first, so that nobody sees a part of it.
fn rename_or_copy(draft: &mut Draft, target: &Path, modified: Option<u64>) -> io::Result<()> {
    match fs::rename(&draft.path, target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        Ok(()) => {
            draft.mark_moved();
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let mut beside = target.as_os_str().to_owned();
    beside.push(".");
    beside.push(draft.path.file_name().unwrap_or_default());
    let copied = fs::copy(&draft.path, &beside).and_then(|_| {
        if let Some(seconds) = modified {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::options().write(true).open(&beside)?.set_modified(time)?;
        }
        fs::rename(&beside, target)
    });
    if copied.is_err() {
        let _ = fs::remove_file(&beside);
    }
    copied
}
