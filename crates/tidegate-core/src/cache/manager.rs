//! A zone's own thread: finds the files that are there when it starts, and removes what is not used or does not fit.
//!
//! Source: nginx, `ngx_http_file_cache_loader`, `ngx_http_file_cache_manager`.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Weak, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    file::FIXED_BYTES,
    key::{Key, NAME_CHARS},
    purger,
    zone::{Goes, State, Zone, lock, unix_now},
};
use crate::clock;

/// Longest pause. Zones that no configuration has any more end within it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A file on its way that nobody has written to for so long belongs to nobody: a process that was killed left it.
const LEFT_AFTER: Duration = Duration::from_secs(3600);

/// Has the zone looked after as its configuration says, by a thread of its own.
///
/// # Errors
/// The system refuses a thread.
pub(super) fn start(zone: &Zone) -> io::Result<()> {
    *lock(&zone.state.care) = zone.care;
    zone.state.memory.set_bytes_max(zone.care.memory_bytes);
    let mut slot = lock(&zone.state.thread);
    if let Some(thread) = &*slot {
        thread.unpark();
        return Ok(());
    }
    // Without their file nobody knows what was purged.
    let restored = purger::restore(&zone.state);
    restored
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", zone.state.place.directory.display())))?;
    let state = Arc::downgrade(&zone.state);
    let handle = thread::Builder::new().name("cache".to_owned()).spawn(move || run(&state))?;
    *slot = Some(handle.thread().clone());
    Ok(())
}

fn run(zone: &Weak<State>) {
    if let Some(state) = zone.upgrade() {
        let care = *lock(&state.care);
        Loader { state: &state, turn: Portion::new(care.loader) }.load(&state.place.directory, 0);
        state.is_cold.store(false, Ordering::Release);
    }
    while let Some(state) = zone.upgrade() {
        clock::update();
        let next = state.clear();
        drop(state);
        match next {
            // Others have the disk for so long, whatever comes in between.
            Next::More(pause) => thread::sleep(pause.min(PAUSE_MAX)),
            Next::Nothing(pause) => thread::park_timeout(pause),
        }
    }
}

/// What there is to do after some work.
enum Next {
    /// More, after this pause.
    More(Duration),
    /// Nothing for so long, unless somebody says so.
    Nothing(Duration),
}

/// Work that pauses after so many files or so much time.
pub(super) struct Portion {
    goes: Goes,
    files: u64,
    began: Instant,
}

impl Portion {
    pub(super) fn new(goes: Goes) -> Self {
        Portion { goes, files: 0, began: Instant::now() }
    }

    /// Counts a file; answers whether it is time for a pause.
    pub(super) fn is_over(&mut self) -> bool {
        self.files += 1;
        self.files >= self.goes.files || self.began.elapsed() >= self.goes.longest
    }

    /// Leaves the disk to others, and begins anew.
    pub(super) fn pause(&mut self) {
        thread::sleep(self.goes.pause);
        *self = Portion::new(self.goes);
    }
}

struct Loader<'a> {
    state: &'a Arc<State>,
    turn: Portion,
}

impl Loader<'_> {
    /// Finds the files of a directory and of those in it, so deep as there are levels.
    fn load(&mut self, directory: &Path, depth: usize) {
        // What cannot be read is not there, for those who want it neither.
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            // Nobody else has the zone any more.
            if Arc::strong_count(self.state) == 1 {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_file() => self.take(&entry),
                Ok(kind) if kind.is_dir() && depth < self.state.place.levels.len() => {
                    self.load(&entry.path(), depth + 1);
                }
                _ => {}
            }
        }
    }

    /// Takes note of an entry's file. What has an entry's name and cannot be one is removed, as is what a process left that
    /// was killed while it wrote one. Files with other names are somebody else's, and stay.
    fn take(&mut self, entry: &fs::DirEntry) {
        let name = entry.file_name();
        let name = name.as_bytes();
        let Ok(meta) = entry.metadata() else { return };
        let path = entry.path();
        match Key::of_name(name) {
            Some(key) if meta.len() >= FIXED_BYTES as u64 && self.state.path(key) == path => {
                clock::update();
                self.state.index().adopt(key, meta.len(), unix_now());
            }
            Some(_) => drop(fs::remove_file(&path)),
            None if is_left(name, &meta) => drop(fs::remove_file(&path)),
            None => return,
        }
        if self.turn.is_over() {
            self.turn.pause();
        }
    }
}

/// Whether it is a file on its way to being an entry that nobody writes any more.
fn is_left(name: &[u8], meta: &fs::Metadata) -> bool {
    let is_ours = name.split_at_checked(NAME_CHARS).is_some_and(|(name, number)| {
        Key::of_name(name).is_some()
            && number.len() == 11
            && number[0] == b'.'
            && number[1..].iter().all(u8::is_ascii_digit)
    });
    let age = meta.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    is_ours && age.is_some_and(|age| age > LEFT_AFTER)
}

impl State {
    /// Removes what was not used for too long, then what is too much.
    fn clear(&self) -> Next {
        let care = *lock(&self.care);
        let mut turn = Portion::new(care.manager);
        let limit = unix_now().saturating_sub(care.inactive.as_secs());
        loop {
            let removed = self.index().remove_oldest(|old| old.used_at < limit);
            match removed {
                Some((key, exists)) => self.remove(key, exists),
                None => break,
            }
            if turn.is_over() {
                return Next::More(care.manager.pause);
            }
        }
        while self.is_too_large(care.max_bytes, care.min_free_bytes) {
            let removed = self.index().remove_oldest(|_| true);
            match removed {
                Some((key, exists)) => self.remove(key, exists),
                None => break,
            }
            if turn.is_over() {
                return Next::More(care.manager.pause);
            }
        }
        let oldest = self.index().oldest_use();
        let due = oldest
            .map(|used_at| Duration::from_secs((used_at + care.inactive.as_secs() + 1).saturating_sub(unix_now())));
        Next::Nothing(due.unwrap_or(PAUSE_MAX).clamp(Duration::from_millis(50), PAUSE_MAX))
    }

    fn remove(&self, key: Key, exists: bool) {
        if exists {
            // It may be gone already: two processes may use one directory.
            let _ = self.remove_file(key);
        }
    }

    fn is_too_large(&self, max_bytes: u64, min_free_bytes: u64) -> bool {
        let (bytes, count, is_crowded) = {
            let index = self.index();
            (index.bytes(), index.len(), index.is_crowded())
        };
        count > 0
            && (is_crowded
                || bytes > max_bytes
                || (min_free_bytes > 0 && free_bytes(&self.place.directory) < min_free_bytes))
    }
}

/// Bytes that are left on the disk of `directory`; all there are where the system does not tell.
fn free_bytes(directory: &Path) -> u64 {
    let Ok(path) = std::ffi::CString::new(directory.as_os_str().as_bytes()) else { return u64::MAX };
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in NUL, the structure is writable memory of its size.
    if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: the call succeeded, so it filled the structure.
    let stat = unsafe { stat.assume_init() };
    stat.f_bavail.saturating_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cache::{
        index::Presence,
        zone::{Care, Place},
    };

    /// A directory that goes with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let scratch = Scratch(std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id())));
            fs::create_dir_all(&scratch.0).expect("made");
            scratch
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const GOES: Goes = Goes { files: 1, pause: Duration::ZERO, longest: Duration::from_secs(60) };

    fn zone(scratch: &Scratch, max_bytes: u64, inactive: Duration) -> Zone {
        let place = Place {
            name: scratch.0.display().to_string().into(),
            directory: scratch.0.clone(),
            levels: [1, 0, 0],
            capacity: 100,
        };
        let care =
            Care { inactive, max_bytes, min_free_bytes: 0, loader: GOES, manager: GOES, purger: GOES, memory_bytes: 0 };
        Zone::new(place, false, care)
    }

    fn write(path: &Path, bytes: &[u8]) {
        fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    fn load(zone: &Zone) {
        let user = zone.state.clone();
        Loader { state: &user, turn: Portion::new(GOES) }.load(&zone.state.place.directory, 0);
    }

    #[test]
    fn entries_are_found_and_the_rest_is_cleared_away() {
        let scratch = Scratch::new("cache-load");
        let zone = zone(&scratch, u64::MAX, Duration::from_secs(60));
        let (whole, torn) = (Key::of(b"whole"), Key::of(b"torn"));
        write(&zone.path(whole), &[0; FIXED_BYTES]);
        write(&zone.path(torn), &[0; FIXED_BYTES - 1]);
        let name = zone.path(whole).file_name().expect("a name").to_str().expect("digits").to_owned();
        let (misplaced, foreign) = (scratch.0.join(&name), scratch.0.join("mine"));
        let (old, new) = (scratch.0.join(format!("{name}.0123456789")), scratch.0.join(format!("{name}.0123456788")));
        for path in [&misplaced, &foreign, &old, &new] {
            write(path, &[0; FIXED_BYTES]);
        }
        let long_ago = SystemTime::now() - 2 * LEFT_AFTER;
        fs::File::options().write(true).open(&old).expect("there").set_modified(long_ago).expect("set");
        load(&zone);
        assert_eq!(zone.touch(whole, 1, true), Presence::Known { exists: true });
        assert_eq!(zone.touch(torn, 1, true), Presence::New);
        let there = [&zone.path(whole), &zone.path(torn), &misplaced, &foreign, &old, &new].map(|path| path.exists());
        assert_eq!(there, [true, false, false, true, false, true]);
    }

    #[test]
    fn a_zone_that_was_full_keeps_an_eighth_free() {
        let scratch = Scratch::new("cache-crowded");
        let zone = zone(&scratch, u64::MAX, Duration::from_secs(60));
        let touch = |number: u64| zone.state.index().touch(Key::of(&number.to_be_bytes()), unix_now(), 1, true);
        for number in 0..100 {
            touch(number);
        }
        assert!(matches!(zone.state.clear(), Next::Nothing(_)), "it has just enough room");
        touch(100);
        while matches!(zone.state.clear(), Next::More(_)) {}
        assert_eq!(zone.state.index().len(), 88);
        assert_eq!(touch(12).0, Presence::New);
        assert_eq!(touch(13).0, Presence::Known { exists: false });
    }

    #[test]
    fn what_is_too_much_or_too_old_goes() {
        let scratch = Scratch::new("cache-clear");
        let keys = [b"a", b"b", b"c"].map(|text| Key::of(text));
        let large = zone(&scratch, 2 * 4096, Duration::from_secs(60));
        for key in keys {
            write(&large.path(key), &[0; 100]);
            large.state.index().adopt(key, 100, unix_now());
        }
        let files = || keys.map(|key| large.path(key).exists());
        assert!(matches!(large.state.clear(), Next::More(_)), "one file at a time");
        assert_eq!(files(), [false, true, true]);
        assert!(matches!(large.state.clear(), Next::Nothing(_)));
        assert_eq!(files(), [false, true, true]);
        large.state.index().touch(keys[1], unix_now() - 100, 1, true);
        assert!(matches!(large.state.clear(), Next::More(_)));
        assert_eq!(files(), [false, false, true]);
    }
}
