//! Programs of this machine and scratch directories.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs, process, thread};

/// The first program of that name on `PATH` or in the system's `sbin` directories, which a user's `PATH` often lacks.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A program of that name, or with its version behind the name, as in Debian's `php-fpm8.2`.
pub fn versioned_program(name: &str) -> Option<PathBuf> {
    let is_version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .filter_map(|dir| dir.read_dir().ok())
        .flatten()
        .flatten()
        .find(|entry| entry.file_name().to_str().and_then(|file| file.strip_prefix(name)).is_some_and(is_version))
        .map(|entry| entry.path())
}

/// The scratch directories that there are, for [`remove_all`].
static SCRATCHES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all scratch directories, whose owners will not come to it: they wait for the end of this process where they make or remove one.
pub(crate) fn remove_all() {
    /// How often it is tried: a process that was killed just now may still write.
    const TRIES: u32 = 20;
    let scratches = SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    for path in scratches.iter() {
        for _ in 0..TRIES {
            if fs::remove_dir_all(path).is_ok() || !path.exists() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    std::mem::forget(scratches);
}

/// A directory of this run below the system's temporary directory, removed when dropped.
pub struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Creates `tidegate-LABEL-PID-N`, readable for every user, since workers may run as another one.
    ///
    /// # Errors
    /// When the directory cannot be created.
    pub fn new(label: &str, keep: bool) -> Result<Scratch, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tidegate-{label}-{}-{number}", process::id()));
        if !keep {
            SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        }
        fs::create_dir_all(&path).map_err(|e| format!("cannot create {}: {e}", path.display()))?;
        Ok(Scratch { path, keep })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Nothing depends on it: a leftover in the temporary directory is only untidy.
            let _ = fs::remove_dir_all(&self.path);
            SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
        }
    }
}
