//! `disable_symlinks`: opens a file directory by directory, and no link on the way.
//!
//! Source: nginx, `ngx_open_file_wrapper`.

use std::{
    ffi::CString,
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd},
};

use super::{
    SYMLINKS_OF_OWNER,
    open::{OpenFailure, OpenFile, Patience, Want},
};

/// Length of the beginning of `path` that is not checked: `from=`.
pub(super) fn trusted_len(path: &[u8], from: &[u8]) -> usize {
    if from.is_empty() || !path.starts_with(from) {
        return 0;
    }
    match (path.get(from.len()), from.last()) {
        (None | Some(b'/'), _) => from.len(),
        (_, Some(b'/')) => from.len() - 1,
        _ => 0,
    }
}

/// Opens `path`; the first `trusted_len` bytes may lead over links.
pub(super) fn open(path: &[u8], trusted_len: usize, policy: u32) -> Result<OpenFile, OpenFailure> {
    if trusted_len >= path.len() {
        return OpenFile::look(path, Want::Content, Patience::Disk);
    }
    let (start, rest) = match (trusted_len, path.first()) {
        (0, Some(b'/')) => (&b"/"[..], &path[1..]),
        (0, _) => (&b"."[..], path),
        (len, _) => (&path[..len], &path[len..]),
    };
    let mut dir = open_at(None, start, libc::O_PATH | libc::O_DIRECTORY)?;
    // What has a slash behind it is a directory, the last part too.
    let last_flags = if rest.ends_with(b"/") { libc::O_DIRECTORY } else { 0 };
    let mut parts = rest.split(|&b| b == b'/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let flags = match parts.peek() {
            Some(_) => libc::O_PATH | libc::O_DIRECTORY,
            None => libc::O_RDONLY | libc::O_NONBLOCK | last_flags,
        };
        dir = if policy == SYMLINKS_OF_OWNER {
            let opened = open_at(Some(&dir), part, flags)?;
            check_owner(&dir, part, &opened)?;
            opened
        } else {
            open_at(Some(&dir), part, flags | libc::O_NOFOLLOW)?
        };
    }
    OpenFile::of(dir, Patience::Disk)
}

fn open_at(dir: Option<&File>, name: &[u8], flags: i32) -> Result<File, OpenFailure> {
    let name = CString::new(name).map_err(|_| OpenFailure { call: "openat()", errno: libc::ENOENT })?;
    let dir = dir.map_or(libc::AT_FDCWD, File::as_raw_fd);
    // SAFETY: the name ends in NUL and lives through the call; the directory is open.
    let fd = unsafe { libc::openat(dir, name.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(OpenFailure::new("openat()", &io::Error::last_os_error()));
    }
    // SAFETY: `openat` has just returned it to us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// A link may be followed if it belongs to whom the thing behind it belongs to.
fn check_owner(dir: &File, name: &[u8], opened: &File) -> Result<(), OpenFailure> {
    use std::os::unix::fs::MetadataExt;
    let failure = |error: io::Error| OpenFailure::new("openat()", &error);
    let name = CString::new(name).map_err(|_| OpenFailure { call: "openat()", errno: libc::ENOENT })?;
    let mut link = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the directory is open, the name ends in NUL, the structure is writable memory of its size.
    let result = unsafe { libc::fstatat(dir.as_raw_fd(), name.as_ptr(), link.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW) };
    if result != 0 {
        return Err(failure(io::Error::last_os_error()));
    }
    // SAFETY: `fstatat` succeeded, so it filled the structure.
    let link = unsafe { link.assume_init() };
    let target = opened.metadata().map_err(failure)?;
    if link.st_uid == target.uid() { Ok(()) } else { Err(OpenFailure { call: "openat()", errno: libc::ELOOP }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_a_prefix_of_whole_parts() {
        for (path, from, expected) in [
            ("/a/b/c", "", 0),
            ("/a/b/c", "/a", 2),
            ("/a/b/c", "/a/", 2),
            ("/a/b/c", "/a/b/c", 6),
            ("/ab/c", "/a", 0),
            ("/a/b", "/x", 0),
        ] {
            assert_eq!(trusted_len(path.as_bytes(), from.as_bytes()), expected, "{path} {from}");
        }
    }
}
