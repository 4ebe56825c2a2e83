//! Files that a configuration is made of: its own text, keys, password files, Lua code that is read at load time.
//!
//! At a reload the server process reads them again, and it has given up its rights by then. The supervisor has read
//! them just before, so it knows which ones there are, and sends those open that not everybody may read. Everything that
//! reads a file while a configuration loads therefore calls [`open`] or [`read`] instead of the standard library.
//!
//! What this does not know: who may read what. Only files that the supervisor itself needed are ever sent.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static STATE: Mutex<State> = Mutex::new(State { record: None, provided: None });

struct State {
    record: Option<Vec<PathBuf>>,
    provided: Option<HashMap<PathBuf, OwnedFd>>,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a file of the configuration for reading.
///
/// # Errors
/// As [`File::open`].
pub fn open(path: &Path) -> io::Result<File> {
    let provided = {
        let mut state = state();
        if let Some(record) = &mut state.record {
            record.push(path.to_owned());
        }
        state.provided.as_ref().and_then(|provided| provided.get(path)).map(OwnedFd::try_clone)
    };
    match provided {
        None => File::open(path),
        Some(fd) => {
            let mut file = File::from(fd?);
            // A file that is read twice is one open file with one position.
            file.rewind()?;
            Ok(file)
        }
    }
}

/// Reads a whole file of the configuration.
///
/// # Errors
/// As [`std::fs::read`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes note of all files that are opened until [`take_record`].
pub fn start_record() {
    state().record = Some(Vec::new());
}

/// The files opened since [`start_record`], each once.
pub fn take_record() -> Vec<PathBuf> {
    let mut record = state().record.take().unwrap_or_default();
    record.sort_unstable();
    record.dedup();
    record
}

/// Makes [`open`] answer with an open file for this path.
pub fn provide(path: PathBuf, fd: OwnedFd) {
    state().provided.get_or_insert_default().insert(path, fd);
}

/// Closes what was [provided](provide).
pub fn withdraw_provided() {
    state().provided = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provided_files_are_read_and_reads_are_recorded() {
        let dir = std::env::temp_dir().join(format!("tidegate-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let real = dir.join("real");
        std::fs::write(&real, "text").expect("written");
        provide("/no/such".into(), File::open(&real).expect("opened").into());
        start_record();
        for _ in 0..2 {
            assert_eq!(read(Path::new("/no/such")).expect("provided"), b"text");
        }
        assert_eq!(read(&real).expect("there"), b"text");
        let record = take_record();
        assert!(record.contains(&real) && record.iter().filter(|path| **path == *"/no/such").count() == 1);
        withdraw_provided();
        assert!(read(Path::new("/no/such")).is_err());
        let _ = std::fs::remove_dir_all(&dir);
    }
}
