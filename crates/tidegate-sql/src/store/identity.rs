//! Which file stands at a path.

use std::{
    ffi::{CStr, CString, c_int},
    fs::{self, File, Metadata},
    io,
    mem::MaybeUninit,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

/// A file, whatever its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file at a path.
    ///
    /// # Errors
    /// The system's, when there is none.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        Self::ask(libc::AT_FDCWD, &name, 0).or_else(|_| fs::metadata(path).map(Self::from))
    }

    /// An open file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Self::ask(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH).or_else(|_| file.metadata().map(Self::from))
    }

    /// Asks for nothing but the identity. When somebody has asked for the time of the last change, Linux (since 6.13) notes an exact
    /// one with the next write, and the file system writes that down; otherwise only once in some milliseconds. Sandboxes may refuse.
    fn ask(directory: c_int, path: &CStr, flags: c_int) -> io::Result<Self> {
        let mut about = MaybeUninit::<libc::statx>::uninit();
        // SAFETY: the path ends with NUL; the call fills the structure if it succeeds.
        unsafe {
            if libc::statx(directory, path.as_ptr(), flags, libc::STATX_INO, about.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let about = about.assume_init();
            let device = libc::makedev(about.stx_dev_major, about.stx_dev_minor);
            Ok(Self { device, inode: about.stx_ino })
        }
    }
}

impl From<Metadata> for Identity {
    fn from(file: Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_however_it_is_asked_for() {
        let path = std::env::current_exe().unwrap();
        let at = Identity::at(&path).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!((Identity::of(&file).unwrap(), Identity::from(file.metadata().unwrap())), (at, at));
        assert_ne!(Identity::at(Path::new("/")).unwrap(), at);
        assert_eq!(Identity::at(&path.join("none")).map_err(|error| error.raw_os_error()), Err(Some(libc::ENOTDIR)));
    }
}
