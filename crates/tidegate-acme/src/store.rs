//! What outlives the process: accounts and certificates with their keys, in files for their owner alone.
//!
//! A file is there whole or not at all, after a crash at any moment too: it is written under another name, brought to the
//! disk, and then takes its name. A certificate and its key are one file, so that they belong together.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

/// Bytes of a file that are read at most: a chain has some 10 KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The directory of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The text of a file; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<String>> {
        let file = match File::open(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Puts `text` in the place of a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        self.make_directory()?;
        let new = self.path(&format!(".{name}.new"));
        let result = Self::write_new(&new, text).and_then(|()| std::fs::rename(&new, self.path(name)));
        if result.is_err() {
            // What could not be written whole is of no use.
            let _ = std::fs::remove_file(&new);
            return result;
        }
        // The name itself is brought to the disk too.
        File::open(&self.directory)?.sync_all()
    }

    fn write_new(path: &Path, text: &str) -> io::Result<()> {
        // Left by a process that ended in the middle, perhaps with other rights.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Keeps other processes from asking for the same certificate; `None` while one of them does.
    pub(crate) fn lock(&self, name: &str) -> io::Result<Option<File>> {
        self.make_directory()?;
        let path = self.path(&format!(".{name}.lock"));
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn make_directory(&self) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
}

/// The beginning of a hash, for names of files.
pub(crate) fn short_hash(hash: Sha256) -> String {
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_its_owners_and_is_replaced_whole() {
        let directory = std::env::temp_dir().join(format!("tidegate-acme-store-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let store = Store::new(directory.clone());
        assert_eq!(store.read("one").expect("no directory is no error"), None);
        store.write("one", "first").expect("written");
        // What a process leaves that ends in the middle of writing.
        std::fs::write(store.path(".one.new"), "torn").expect("written");
        assert_eq!(store.read("one").expect("read").as_deref(), Some("first"));
        store.write("one", "second").expect("written");
        assert_eq!(store.read("one").expect("read").as_deref(), Some("second"));
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&store.path("one"))), (0o700, 0o600));
        let names: Vec<_> =
            std::fs::read_dir(&directory).expect("a directory").map(|e| e.expect("read").file_name()).collect();
        assert_eq!(names, ["one"]);
        let held = store.lock("one").expect("a file");
        assert!(held.is_some());
        assert!(store.lock("one").expect("a file").is_none());
        drop(held);
        assert!(store.lock("one").expect("a file").is_some());
        store.remove("one").expect("removed");
        store.remove("one").expect("nothing to remove is no error");
        // A directory that cannot be made.
        let nowhere = Store::new(directory.join("no/such"));
        assert!(nowhere.write("one", "first").is_err());
        std::fs::remove_dir_all(directory).expect("removed");
    }
}
