//! Reading a directory for the handlers that answer from one: `autoindex`, `random_index`.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use bstr::BStr;
use tidegate_core::{
    request::Request,
    static_files::open::{FileInfo, FileKind},
};
use tidegate_net::log::{Level, SysError};

/// Something in a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) info: FileInfo,
}

impl Entry {
    pub(crate) fn is_directory(&self) -> bool {
        self.info.kind == FileKind::Directory
    }
    pub(crate) fn is_file(&self) -> bool {
        self.info.kind == FileKind::File
    }
}

/// Why a directory cannot be read: the call with the path, and what the system said.
#[derive(Debug)]
pub(crate) struct DirectoryError {
    call: &'static str,
    path: Vec<u8>,
    error: io::Error,
}

impl DirectoryError {
    /// Writes it to the error log as nginx does, and returns the status of the response.
    pub(crate) fn log(&self, req: &Request) -> u16 {
        let (level, status) = match (self.call, self.error.raw_os_error()) {
            ("opendir()", Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)) => (Level::Error, 404),
            ("opendir()", Some(libc::EACCES)) => (Level::Error, 403),
            _ => (Level::Crit, 500),
        };
        let (call, path, error) = (self.call, BStr::new(&self.path), SysError(&self.error));
        req.log(level, format_args!("{call} \"{path}\" failed {error}"));
        status
    }
}

/// What stands in a directory, without names that begin with a dot. Reads on another thread.
pub(crate) async fn read(path: Vec<u8>) -> Result<Vec<Entry>, DirectoryError> {
    let task = tokio::task::spawn_blocking(move || read_now(&path));
    match task.await {
        Ok(result) => result,
        Err(error) => Err(DirectoryError { call: "readdir()", path: Vec::new(), error: io::Error::other(error) }),
    }
}

fn read_now(path: &[u8]) -> Result<Vec<Entry>, DirectoryError> {
    let failure = |call, path: &Path, error| DirectoryError { call, path: path.as_os_str().as_bytes().to_vec(), error };
    let dir = Path::new(OsStr::from_bytes(path));
    let names = fs::read_dir(dir).map_err(|error| failure("opendir()", dir, error))?;
    let mut entries = Vec::new();
    for name in names {
        let name: OsString = name.map_err(|error| failure("readdir()", dir, error))?.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let file = dir.join(&name);
        let meta = match fs::metadata(&file) {
            Ok(meta) => meta,
            // A link that leads nowhere is shown as itself.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ELOOP)) => {
                match fs::symlink_metadata(&file) {
                    Ok(meta) => meta,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(failure("lstat()", &file, error)),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(failure("stat()", &file, error)),
        };
        entries.push(Entry { name: name.into_vec(), info: FileInfo::of(&meta) });
    }
    Ok(entries)
}
