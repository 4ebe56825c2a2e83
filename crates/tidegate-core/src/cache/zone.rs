//! A directory of entries with its index: `…_cache_path`.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::Duration,
};

use bstr::BString;

use super::{
    file::{self, ReadError, Stored, Times},
    index::{ENTRY_BYTES, Ending, Held, Index, Presence, Waiting},
    key::{Key, Levels},
    memory::Memory,
};
use crate::clock;

/// How the entries of a zone are looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Care {
    /// Entries that were not used for so long are removed.
    pub(super) inactive: Duration,
    /// Most bytes on disk.
    pub(super) max_bytes: u64,
    /// Least bytes that are left free on the disk.
    pub(super) min_free_bytes: u64,
    /// Files that are loaded in one go, the pause behind them, and the longest that they may take.
    pub(super) loader: Goes,
    /// The same of files that are removed.
    pub(super) manager: Goes,
    /// Most bytes of entries that are also in memory.
    pub(super) memory_bytes: u64,
}

/// Work in portions, so that the disk has time for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Goes {
    pub(super) files: u64,
    pub(super) pause: Duration,
    pub(super) longest: Duration,
}

/// What tells a zone from others: a configuration with the same one goes on with its entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) name: BString,
    pub(super) directory: PathBuf,
    pub(super) levels: Levels,
    /// Most entries in memory.
    pub(super) capacity: usize,
}

/// A zone. Its entries are shared by all workers and by the configurations that have the same [`Place`].
pub(crate) struct Zone {
    /// Its entries.
    pub(super) state: Arc<State>,
    /// New files are written in the directory for temporary files first.
    pub(crate) use_temp_path: bool,
    pub(super) care: Care,
}

/// The part of a zone that outlives a configuration.
pub(super) struct State {
    pub(super) place: Place,
    index: Mutex<Index>,
    pub(super) memory: Memory,
    /// Not all files have been found yet.
    pub(super) is_cold: AtomicBool,
    pub(super) thread: Mutex<Option<Thread>>,
    /// Set by the configuration that was loaded last.
    pub(super) care: Mutex<Care>,
}

static STATES: LazyLock<Mutex<HashMap<Place, Weak<State>>>> = LazyLock::new(Mutex::default);

/// A panic in a look-up leaves what is locked whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zone({})", self.state.place.name)
    }
}

/// How many entries a zone of so many bytes has.
pub(super) fn capacity_of(zone_bytes: u64) -> usize {
    usize::try_from(zone_bytes / ENTRY_BYTES).unwrap_or(usize::MAX).clamp(1, u32::MAX as usize - 1)
}

impl Zone {
    pub(super) fn new(place: Place, use_temp_path: bool, care: Care) -> Zone {
        let mut states = lock(&STATES);
        states.retain(|_, state| state.strong_count() > 0);
        let state = states.get(&place).and_then(Weak::upgrade).unwrap_or_else(|| {
            let state = Arc::new(State {
                index: Mutex::new(Index::new(place.capacity)),
                memory: Memory::new(),
                is_cold: AtomicBool::new(true),
                thread: Mutex::default(),
                care: Mutex::new(care),
                place: place.clone(),
            });
            states.insert(place, Arc::downgrade(&state));
            state
        });
        Zone { state, use_temp_path, care }
    }

    /// Where the file of an entry is.
    pub(crate) fn path(&self, key: Key) -> PathBuf {
        self.state.path(key)
    }

    /// Whether there may be files that the index does not know.
    pub(crate) fn is_cold(&self) -> bool {
        self.state.is_cold.load(Ordering::Acquire)
    }

    /// Looks an entry up, or makes one; see [`Index::touch`].
    pub(crate) fn touch(&self, key: Key, min_uses: u16, counts: bool) -> Presence {
        let now = unix_now();
        let (presence, gone) = self.state.index().touch(key, now, min_uses, counts);
        if let Some(gone) = gone {
            self.remove_file(gone);
        }
        presence
    }

    /// Reads an entry. A file that is none is removed, and its entry forgotten.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) async fn read(&self, key: Key, key_text: &[u8]) -> Result<Arc<Stored>, ReadError> {
        let reading = match self.state.memory.get(key) {
            Ok(stored) if stored.front.key_text == key_text => return Ok(stored),
            Ok(_) => return Err(ReadError::Collision(self.path(key))),
            Err(reading) => reading,
        };
        let read = file::read(self.path(key), key_text).await.map(Arc::new);
        if let Ok(stored) = &read {
            self.state.memory.keep(key, stored, reading);
        }
        match &read {
            Ok(stored) if self.is_cold() => self.state.index().adopt(key, stored.file_bytes, unix_now()),
            Ok(_) | Err(ReadError::Collision(_) | ReadError::Io { .. }) => {}
            Err(ReadError::NotFound) => self.state.index().forget_file(key),
            Err(ReadError::Broken { .. }) => {
                self.state.index().forget_file(key);
                self.remove_file(key);
            }
        }
        read
    }

    /// Gives the right to fill an entry, unless somebody else has had it for less than `age_ms`.
    ///
    /// # Errors
    /// Who to wait for.
    pub(crate) fn hold(&self, key: Key, age_ms: u64) -> Result<Update, Waiting> {
        let held = self.state.index().hold(key, unix_now(), clock::steady_ms(), age_ms)?;
        Ok(Update { state: self.state.clone(), key, held })
    }

    /// Gives the right to fill an entry anew that is out of date, if nobody has it.
    pub(crate) fn hold_stale(&self, key: Key) -> Option<Update> {
        let held = self.state.index().hold_stale(key)?;
        Some(Update { state: self.state.clone(), key, held })
    }

    /// Takes note of what became of an entry that was filled without holding it.
    pub(crate) fn end(&self, key: Key, ending: Ending) {
        self.state.end(key, None, ending);
    }

    /// Says that an entry is good for longer, on disk, by another thread.
    pub(crate) async fn extend(&self, key: Key, old_stored_at: u64, times: Times) {
        let path = self.path(key);
        // A file that is gone is good for nothing; what else fails shows when the entry is wanted.
        let _ = tokio::task::spawn_blocking(move || file::write_times(&path, old_stored_at, times)).await;
        self.state.memory.forget(key);
    }

    fn remove_file(&self, key: Key) {
        let path = self.path(key);
        tokio::task::spawn_blocking(move || fs::remove_file(path));
    }
}

impl State {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    pub(super) fn path(&self, key: Key) -> PathBuf {
        key.path(&self.place.directory, self.place.levels)
    }

    /// Removes the file of an entry that has left the index.
    pub(super) fn remove_file(&self, key: Key) -> io::Result<()> {
        fs::remove_file(self.path(key))
    }

    fn end(&self, key: Key, held: Option<Held>, ending: Ending) {
        if matches!(ending, Ending::Stored(_)) {
            self.memory.forget(key);
        }
        let bytes = {
            let mut index = self.index();
            index.end(key, held, ending, unix_now());
            index.bytes()
        };
        if matches!(ending, Ending::Stored(_)) && bytes > lock(&self.care).max_bytes {
            self.wake();
        }
    }

    /// Has the thread look for something to do.
    fn wake(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}

/// The right to fill an entry. Dropping it lets those who wait for the entry look again.
pub(crate) struct Update {
    state: Arc<State>,
    key: Key,
    held: Held,
}

impl Update {
    /// Takes note of what filling the entry came to.
    pub(crate) fn end(self, ending: Ending) {
        self.state.end(self.key, Some(self.held), ending);
    }
    /// The entry that it is the right to.
    pub(crate) fn key(&self) -> Key {
        self.key
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        // After `end` it is somebody else's, or nobody's.
        self.state.end(self.key, Some(self.held), Ending::Nothing);
    }
}

pub(super) fn unix_now() -> u64 {
    clock::now_ms() / 1000
}
