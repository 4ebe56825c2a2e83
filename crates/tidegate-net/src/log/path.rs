//! Access logs whose path has variables: many files, opened by the writer, a bounded number kept open.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::file::{open_append, write_all};
use super::registry;

/// `open_log_file_cache max=… inactive=… min_uses=… valid=…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLogFileCache {
    /// Files kept open, at most; the one used longest ago goes first.
    pub count_max: usize,
    /// A file that was used less than `uses_min` times within this time is closed.
    pub inactive: Duration,
    /// Uses within `inactive` that keep a file open.
    pub uses_min: u32,
    /// How long a file is taken to be the one under its name without looking.
    pub valid: Duration,
}

/// The open files of one `access_log` with a computed path. Only the thread that writes comes here.
#[derive(Debug)]
pub(super) struct PathFiles {
    settings: Option<OpenLogFileCache>,
    open: Mutex<HashMap<Box<[u8]>, OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    fd: OwnedFd,
    used_last: Instant,
    /// Uses since `period_start`.
    uses: u32,
    period_start: Instant,
    checked: Instant,
}

impl PathFiles {
    pub(super) fn new(settings: Option<OpenLogFileCache>) -> Arc<Self> {
        let files = Arc::new(Self { settings, open: Mutex::default() });
        registry::register_path_files(&files);
        files
    }

    /// Closes what is open: after rotation the names lead to other files.
    pub(super) fn close_all(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn write(&self, path: &[u8], bytes: &[u8]) -> io::Result<()> {
        let as_path = Path::new(std::ffi::OsStr::from_bytes(path));
        let open = |path| open_append(path, false).map_err(|error| error.source);
        let Some(settings) = self.settings else {
            return write_all(open(as_path)?.as_fd(), bytes);
        };
        let now = Instant::now();
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get_mut(path) {
            let stale = now.duration_since(file.checked) > settings.valid && !same_file(as_path, file);
            if !stale {
                file.touch(now, &settings);
                return write_all(file.fd.as_fd(), bytes);
            }
            files.remove(path);
        }
        let fd = open(as_path)?;
        write_all(fd.as_fd(), bytes)?;
        make_room(&mut files, now, &settings);
        if settings.count_max > 0 {
            let file = OpenFile { fd, used_last: now, uses: 1, period_start: now, checked: now };
            files.insert(path.into(), file);
        }
        Ok(())
    }
}

impl OpenFile {
    fn touch(&mut self, now: Instant, settings: &OpenLogFileCache) {
        self.used_last = now;
        self.uses = self.uses.saturating_add(1);
        if now.duration_since(self.checked) > settings.valid {
            self.checked = now;
        }
        if now.duration_since(self.period_start) > settings.inactive {
            (self.period_start, self.uses) = (now, 1);
        }
    }

    fn is_idle(&self, now: Instant, settings: &OpenLogFileCache) -> bool {
        now.duration_since(self.used_last) > settings.inactive
            || (now.duration_since(self.period_start) > settings.inactive && self.uses < settings.uses_min)
    }
}

fn make_room(files: &mut HashMap<Box<[u8]>, OpenFile>, now: Instant, settings: &OpenLogFileCache) {
    if files.len() < settings.count_max {
        return;
    }
    files.retain(|_, file| !file.is_idle(now, settings));
    while !files.is_empty() && files.len() >= settings.count_max {
        let oldest = files.iter().min_by_key(|(_, file)| file.used_last).map(|(path, _)| path.clone());
        match oldest {
            Some(path) => files.remove(&path),
            None => break,
        };
    }
}

/// Whether the name still leads to the open file.
fn same_file(path: &Path, file: &OpenFile) -> bool {
    let Ok(named) = std::fs::metadata(path) else { return false };
    let Ok(clone) = file.fd.try_clone() else { return false };
    std::fs::File::from(clone).metadata().is_ok_and(|open| open.dev() == named.dev() && open.ino() == named.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_up_to_the_bound_and_follow_their_names() {
        let dir = std::env::temp_dir().join(format!("tidegate-pathlog-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let settings =
            OpenLogFileCache { count_max: 2, inactive: Duration::from_secs(10), uses_min: 1, valid: Duration::ZERO };
        let files = PathFiles::new(Some(settings));
        let path = |name: &str| dir.join(name).into_os_string().into_encoded_bytes();
        for name in ["a", "b", "c", "a"] {
            files.write(&path(name), b"line\n").expect("written");
        }
        assert_eq!(files.open.lock().expect("free").len(), 2);
        std::fs::rename(dir.join("a"), dir.join("a.old")).expect("renamed");
        std::thread::sleep(Duration::from_millis(2));
        files.write(&path("a"), b"new\n").expect("written");
        assert_eq!(std::fs::read(dir.join("a")).expect("there"), b"new\n");
        assert_eq!(std::fs::read(dir.join("a.old")).expect("there"), b"line\nline\n");
        assert!(files.write(&path("no/such/dir"), b"x").is_err());
        let _ = std::fs::remove_dir_all(&dir);
    }
}
