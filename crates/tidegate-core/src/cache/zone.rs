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
    file::{self, Front, ReadError, Stored, Times},
    index::{ENTRY_BYTES, Ending, Held, Index, Presence, Waiting},
    key::{Key, Levels},
    memory::Memory,
    purge_log, purger,
    purges::{Covered, Purges, Task, TooMany},
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
    /// The same of files that are looked at for what was purged.
    pub(super) purger: Goes,
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
    pub(super) purges: Purges,
    /// One thread at a time changes the file of marks.
    log: Mutex<()>,
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
                purges: Purges::default(),
                log: Mutex::default(),
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
            let path = self.path(gone);
            tokio::task::spawn_blocking(move || fs::remove_file(path));
            self.state.wake();
        }
        presence
    }

    /// Reads an entry. A file that is none is removed, and its entry forgotten.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) async fn read(&self, key: Key, key_text: &[u8]) -> Result<Arc<Stored>, ReadError> {
        let reading = match self.state.memory.get(key) {
            Ok(stored) if self.state.purges.cover(key, &stored.front) => return Err(self.purged(key)),
            Ok(stored) if stored.front.key_text == key_text => return Ok(stored),
            Ok(_) => return Err(ReadError::Collision(self.path(key))),
            Err(reading) => reading,
        };
        let read = file::read(self.path(key), key_text).await.map(Arc::new);
        if let Ok(stored) = &read {
            if self.state.purges.cover(key, &stored.front) {
                return Err(self.purged(key));
            }
            self.state.memory.keep(key, stored, reading);
        }
        match &read {
            Ok(stored) if self.is_cold() => self.state.index().adopt(key, stored.file_bytes, unix_now()),
            Ok(_) | Err(ReadError::Collision(_) | ReadError::Io { .. }) => {}
            Err(ReadError::NotFound) => self.state.index().forget_file(key),
            Err(ReadError::Broken { .. }) => {
                self.state.index().forget_file(key);
                // Later it could be the file of the next one who fills the entry.
                self.remove(key).await;
            }
        }
        read
    }

    /// An entry that was read is one that was purged: it is not there.
    #[cold]
    fn purged(&self, key: Key) -> ReadError {
        self.state.index().forget_file(key);
        ReadError::NotFound
    }

    /// A response is about to be asked for that may become an entry.
    pub(crate) fn begin_fill(&self) -> Fill {
        Fill { began: self.state.purges.begin_fill(), state: self.state.clone() }
    }

    /// Removes the entry of a key with all its variants; answers whether there was one. A response to it that is on its way
    /// does not become an entry.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) async fn purge_key(&self, main: Key) -> Result<bool, PurgeError> {
        self.state.purges.mark_key(main);
        let path = self.path(main);
        let had_file = match unblocked(move || fs::remove_file(path)).await {
            Ok(()) => true,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => false,
            Err(source) => return Err(PurgeError::Io { call: "unlink()", path: self.path(main), source }),
        };
        // Now nobody can read it any more; what was read before does not stay in memory.
        let was_known = self.state.index().purge(main, unix_now());
        let was_in_memory = self.state.memory.forget(main);
        Ok(had_file || was_known || was_in_memory)
    }

    /// Purges all that is `covered`: from now on it is not there, also after a restart. The files go in the background.
    ///
    /// # Errors
    /// [`PurgeError`]. When the disk is to blame, the purge holds until the server ends.
    pub(crate) async fn purge_all(&self, covered: Vec<Covered>) -> Result<(), PurgeError> {
        let has_prefix = covered.iter().any(|covered| matches!(covered, Covered::Prefix(_)));
        let state = self.state.clone();
        let purged = tokio::task::spawn_blocking(move || {
            let logged = state.log_marks(covered)?;
            if has_prefix {
                state.forget_errors();
            }
            Ok::<_, TooMany>(logged.and(purger::employ(&state)))
        });
        let done = purged.await.unwrap_or_else(|error| Ok(Err(io::Error::other(error))))?;
        done.map_err(|source| {
            let path = self.state.place.directory.join(purge_log::NAME);
            PurgeError::Io { call: "write()", path, source }
        })
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

    /// Removes the file of an entry, if it is there.
    pub(crate) async fn remove(&self, key: Key) {
        let path = self.path(key);
        let _ = unblocked(move || fs::remove_file(path)).await;
    }
}

/// Has another thread do what waits for the disk.
async fn unblocked<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
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

    /// Removes an entry that was purged.
    pub(super) fn forget(&self, key: Key) {
        // It may be gone already.
        let _ = self.remove_file(key);
        self.index().forget_file(key);
        self.memory.forget(key);
    }

    /// Removes from memory what was purged.
    pub(super) fn forget_purged(&self) {
        self.memory.forget_where(|key, stored| self.purges.cover(key, &stored.front));
    }

    /// Forgets the statuses that are answered without a file: nobody knows their keys' texts.
    fn forget_errors(&self) {
        let mut portion = 0;
        while self.index().forget_errors(portion) {
            portion += 1;
        }
    }

    /// Marks what is `covered`, in memory and then in the file, which may fail: that is the inner result.
    fn log_marks(&self, covered: Vec<Covered>) -> Result<io::Result<()>, TooMany> {
        // A mark must not go before it is in the file: it would stay there.
        let _one_at_a_time = lock(&self.log);
        let marks = self.purges.mark(covered)?;
        Ok(purge_log::append(&self.place.directory, &marks))
    }

    /// Forgets the marks whose files are gone since `walked_at`; answers what the purger shall do next.
    pub(super) fn retire_marks(&self, walked_at: u64) -> Task {
        let _one_at_a_time = lock(&self.log);
        let mut gone = Vec::new();
        let task = self.purges.retire(walked_at, &mut gone);
        if !gone.is_empty() {
            // Marks that stay in the file cost another walk with the next start.
            let _ = purge_log::remove(&self.place.directory, &gone);
        }
        task
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

/// Why nothing, or not all of it, was purged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PurgeError {
    /// Later there will be room again.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// The system does not let us.
    #[error("{call} \"{}\" failed", path.display())]
    Io {
        /// The system call.
        call: &'static str,
        /// The file.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A response on its way into the cache, which what is purged meanwhile keeps from becoming an entry.
pub(crate) struct Fill {
    state: Arc<State>,
    /// When it was begun, by the zone's clock of purges.
    pub(crate) began: u64,
}

impl Fill {
    /// Whether it must not become an entry. `main` is the hash of its key's text.
    pub(crate) fn is_void(&self, main: Key, front: &Front) -> bool {
        self.state.purges.void(main, front)
    }

    /// Whether nothing was purged since it was begun that a response without tags could be of.
    pub(crate) fn is_untouched(&self, main: Key) -> bool {
        self.state.purges.is_untouched_since(self.began, main)
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.state.purges.end_fill(self.began);
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

/// Seconds since 1970, as times in entries are.
pub(crate) fn unix_now() -> u64 {
    clock::now_ms() / 1000
}
