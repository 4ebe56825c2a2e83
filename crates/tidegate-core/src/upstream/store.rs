//! `…_store`: complete responses become files, for the next request to find them.
//!
//! A response is written to a temporary file as it comes, and gets its name when it is complete. A client that leaves, or an
//! upstream that breaks off, leaves nothing behind.
//!
//! Source: nginx, `ngx_http_upstream_store`.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Write},
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tidegate_http::{Known, date::parse_http_date};

use super::{
    exchange::{Exchange, Protocol, READING},
    settings::StoreTo,
};
use crate::{
    log::{Level, SysError},
    request::Request,
    temp_file,
};

/// Rights of stored files, unless `…_store_access` says otherwise.
pub const ACCESS_DEFAULT: u32 = 0o600;

/// A response on its way to a file.
pub(super) struct Store {
    file: File,
    path: PathBuf,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Under its new name it is no longer here.
        let _ = fs::remove_file(&self.path);
    }
}

impl<P: Protocol> Exchange<'_, P> {
    /// Begins to store the response, where that is wanted. Only what `GET` and the like get with 200 is stored, and only with
    /// buffering.
    pub(super) fn begin_store(&mut self) {
        let status = self.req.upstream_record(|record| record.head.status);
        if self.settings.store.is_none() || !self.buffering || status != Some(200) || self.req.is_head() {
            return;
        }
        let directory = self.req.conf().full_path(&self.settings.temp_path);
        match temp_file::create(&directory) {
            Ok((file, path)) => self.store = Some(Box::new(Store { file, path })),
            Err(error) => self.report_store("open()", &error.path, &error.source),
        }
    }

    /// Stores a piece of the body. What cannot be stored goes to the client all the same.
    pub(super) fn store_piece(&mut self, piece: &[u8]) {
        if let Some(store) = &mut self.store
            && let Err(error) = store.file.write_all(piece)
        {
            let path = store.path.clone();
            self.store = None;
            self.report_store("write()", &path, &error);
        }
    }

    /// The response is complete: its file gets its name.
    pub(super) async fn finish_store(&mut self) {
        let (Some(store), Some(to)) = (self.store.take(), &self.settings.store) else { return };
        let Some(target) = target(self.req, to) else { return };
        let modified =
            self.req.upstream_record(|record| record.head.fields.get(Known::LastModified).map(<[u8]>::to_vec));
        let modified = modified.flatten().and_then(|text| parse_http_date(&text));
        let modified = modified.and_then(|seconds| u64::try_from(seconds).ok());
        let access = self.settings.store_access;
        let shown = target.clone();
        let moved = tokio::task::spawn_blocking(move || store.move_to(&target, access, modified)).await;
        if let Ok(Err(error)) = moved {
            self.report_store("rename() to", &shown, &error);
        }
    }

    #[cold]
    fn report_store(&self, call: &str, path: &Path, error: &io::Error) {
        let (shown, error) = (path.display(), SysError(error));
        self.req.log(Level::Crit, format_args!("{call} \"{shown}\" failed {error} while {READING}"));
    }
}

fn target(req: &Request, to: &StoreTo) -> Option<PathBuf> {
    match to {
        StoreTo::File => {
            let mut path = Vec::new();
            req.map_uri_to_path(&mut path)?;
            Some(std::ffi::OsString::from_vec(path).into())
        }
        StoreTo::Path(path) => Some(req.conf().full_path(&path.eval(req))),
    }
}

impl Store {
    fn move_to(&self, target: &Path, access: u32, modified: Option<u64>) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(access))?;
        if let Some(seconds) = modified {
            self.file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
        }
        match fs::rename(&self.path, target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Who may read a file may look into its directory.
                let mode = access | (access & 0o444) >> 2;
                let directory = target.parent().unwrap_or(Path::new("/"));
                DirBuilder::new().recursive(true).mode(mode).create(directory)?;
                self.rename_or_copy(target, modified)
            }
            Err(_) => self.rename_or_copy(target, modified),
            Ok(()) => Ok(()),
        }
    }

    /// A file on another file system is copied there first, so that nobody sees a part of it.
    fn rename_or_copy(&self, target: &Path, modified: Option<u64>) -> io::Result<()> {
        match fs::rename(&self.path, target) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
            result => return result,
        }
        let mut beside = target.as_os_str().to_owned();
        beside.push(".");
        beside.push(self.path.file_name().unwrap_or_default());
        let copied = fs::copy(&self.path, &beside).and_then(|_| {
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
}
