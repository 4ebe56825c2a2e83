//! Which file stands at a path.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
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
        fs::metadata(path).map(|found| Self::from(&found))
    }

    /// An open file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self::from(&found))
    }
}

impl From<&Metadata> for Identity {
    fn from(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}
