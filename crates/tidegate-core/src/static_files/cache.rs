//! The open files of a worker.
//!
//! Without `open_file_cache` a file is kept too, but compared with the disk once a second at least: a change is seen by
//! the first request that comes a second later. A file that changed within the last seconds is compared for every
//! request, because what changed may change again. With `open_file_cache` its settings apply.
//!
//! Each worker has caches of its own, one for each `open_file_cache` and one for the default, so nothing is locked.
//! Entries are numbers in a slab, linked in the order of use; the one unused for longest goes first.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    Conf,
    open::{FileInfo, OpenFailure, OpenFile, Patience, Want, info_of},
};
use crate::clock;

/// How long a file is not compared with the disk by default.
const VALID_MS: u64 = 1000;

/// A file that changed this recently is compared for every request.
const FRESH_MS: i64 = 2000;

/// A file that was read so soon after its last change may have been changed within the same tick of the file system's
/// clock, so that its times do not show it.
const TICK_MS: i64 = 50;

/// Files kept by default, for a worker.
const COUNT_MAX: usize = 2048;

/// Descriptors kept by default, for a worker: well below the usual limit of 1024 for a process.
const DESCRIPTORS_MAX: usize = 256;

/// Content kept in memory, for each cache of a worker.
const CONTENT_BYTES_MAX: usize = 32 << 20;

/// How often unused files are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// One `open_file_cache`.
#[derive(Debug)]
pub struct Settings {
    /// Tells the caches of a worker apart; 0 is the default one.
    id: u64,
    count_max: usize,
    inactive_ms: u64,
}

impl Settings {
    /// `open_file_cache off`
    pub(super) fn by_default() -> Self {
        Settings { id: 0, count_max: COUNT_MAX, inactive_ms: 60_000 }
    }
    /// `open_file_cache max=… inactive=…`
    pub(super) fn configured(count_max: usize, inactive: Duration) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let inactive_ms = u64::try_from(inactive.as_millis()).unwrap_or(u64::MAX);
        Settings { id: NEXT.fetch_add(1, Ordering::Relaxed), count_max, inactive_ms }
    }
}

/// What applies to one look-up.
struct Rules {
    valid_ms: u64,
    uses_min: u64,
    keep_errors: bool,
    /// Files that changed recently are compared each time.
    distrust_fresh: bool,
}

impl Rules {
    fn of(conf: &Conf) -> Self {
        if conf.open_file_cache.as_ref().is_none_or(|settings| settings.id == 0) {
            return Rules { valid_ms: VALID_MS, uses_min: 1, keep_errors: false, distrust_fresh: true };
        }
        let valid_ms = conf.open_file_cache_valid.map_or(60_000, |valid| valid.as_millis() as u64);
        Rules {
            valid_ms,
            uses_min: conf.open_file_cache_min_uses.unwrap_or(1),
            keep_errors: conf.open_file_cache_errors == Some(true),
            distrust_fresh: false,
        }
    }
}

type Found = Result<Rc<OpenFile>, OpenFailure>;

struct Entry {
    path: Rc<[u8]>,
    found: Found,
    checked_ms: u64,
    used_ms: u64,
    uses: u64,
    /// Read so soon after its last change that another change may not show.
    doubtful: bool,
    newer: Option<usize>,
    older: Option<usize>,
}

/// One cache of one worker.
struct Cache {
    id: u64,
    count_max: usize,
    descriptors_max: usize,
    inactive_ms: u64,
    by_path: HashMap<Rc<[u8]>, usize>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    newest: Option<usize>,
    oldest: Option<usize>,
    content_bytes: usize,
    descriptors: usize,
}

#[derive(Default)]
struct Caches {
    list: Vec<Cache>,
    sweeping: bool,
}

thread_local! {
    static CACHES: RefCell<Caches> = RefCell::default();
}

/// Opens `path` under the settings of `conf`.
pub(super) fn open(conf: &Conf, path: &[u8], want: Want, patience: Patience) -> Found {
    with_cache(conf, |cache, rules| cache.open(rules, path, want, patience, clock::steady_ms()))
}

/// Keeps what another thread found just now.
pub(super) fn keep(conf: &Conf, path: &[u8], found: &Found) {
    with_cache(conf, |cache, rules| match cache.by_path.get(path) {
        Some(&index) => cache.replace(index, found.clone(), rules, clock::steady_ms()),
        None => cache.insert(path, found.clone(), rules, clock::steady_ms()),
    });
}

fn with_cache<T>(conf: &Conf, use_it: impl FnOnce(&mut Cache, &Rules) -> T) -> T {
    CACHES.with_borrow_mut(|caches| {
        let id = conf.open_file_cache.as_ref().map_or(0, |settings| settings.id);
        let index = match caches.list.iter().position(|cache| cache.id == id) {
            Some(index) => index,
            None => {
                caches.list.push(Cache::new(conf.open_file_cache.as_deref()));
                caches.list.len() - 1
            }
        };
        let result = use_it(&mut caches.list[index], &Rules::of(conf));
        if !caches.sweeping && crate::worker::current().is_some() {
            caches.sweeping = true;
            tokio::task::spawn_local(sweep());
        }
        result
    })
}

/// Forgets unused files every second until there are none left.
async fn sweep() {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let done = CACHES.with_borrow_mut(|caches| {
            caches.list.iter_mut().for_each(|cache| cache.forget_unused(clock::steady_ms()));
            caches.list.retain(|cache| !cache.by_path.is_empty());
            caches.sweeping = !caches.list.is_empty();
            !caches.sweeping
        });
        if done {
            return;
        }
    }
}

impl Cache {
    fn new(settings: Option<&Settings>) -> Self {
        let default = Settings::by_default();
        let settings = settings.unwrap_or(&default);
        Cache {
            id: settings.id,
            count_max: settings.count_max,
            descriptors_max: if settings.id == 0 { DESCRIPTORS_MAX } else { settings.count_max },
            inactive_ms: settings.inactive_ms,
            by_path: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: None,
            oldest: None,
            content_bytes: 0,
            descriptors: 0,
        }
    }

    fn open(&mut self, rules: &Rules, path: &[u8], want: Want, patience: Patience, now_ms: u64) -> Found {
        let Some(&index) = self.by_path.get(path) else {
            let found = self.look(path, want, patience);
            if !is_cold(&found) {
                self.insert(path, found.clone(), rules, now_ms);
            }
            return found;
        };
        self.touch(index, now_ms);
        let Some(entry) = &mut self.entries[index] else { return self.look(path, want, patience) };
        let age_ms = now_ms.saturating_sub(entry.checked_ms);
        let is_fresh = |info: &FileInfo| rules.distrust_fresh && clock::now_ms() as i64 - info.changed_ms() < FRESH_MS;
        let valid = match &entry.found {
            Ok(file) => age_ms < rules.valid_ms && !is_fresh(&file.info) && file.has(want),
            Err(_) => age_ms < rules.valid_ms && rules.keep_errors,
        };
        if valid {
            return entry.found.clone();
        }
        // The same file as before needs no opening.
        if let Ok(file) = &entry.found
            && file.has(want)
            && !entry.doubtful
            && info_of(path, patience) == Ok(file.info)
        {
            entry.checked_ms = now_ms;
            return Ok(file.clone());
        }
        let found = self.look(path, want, patience);
        if !is_cold(&found) {
            self.replace(index, found.clone(), rules, now_ms);
        }
        found
    }

    /// Looks at the disk. When there are no descriptors left, those in the cache are given up.
    fn look(&mut self, path: &[u8], want: Want, patience: Patience) -> Found {
        match OpenFile::look(path, want, patience) {
            Err(OpenFailure { errno: libc::EMFILE | libc::ENFILE, .. }) if self.descriptors > 0 => {
                self.clear();
                OpenFile::look(path, want, patience).map(Rc::new)
            }
            found => found.map(Rc::new),
        }
    }

    fn insert(&mut self, path: &[u8], found: Found, rules: &Rules, now_ms: u64) {
        if found.is_err() && !rules.keep_errors {
            return;
        }
        let path: Rc<[u8]> = path.into();
        let (newer, older) = (None, None);
        let entry = Entry {
            path: path.clone(),
            found: Err(OpenFailure { call: "", errno: 0 }),
            checked_ms: now_ms,
            used_ms: now_ms,
            uses: 1,
            doubtful: false,
            newer,
            older,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        self.by_path.insert(path, index);
        self.link(index);
        self.replace(index, found, rules, now_ms);
    }

    /// Puts what was found into an entry, or takes the entry out if it is not to be kept; then makes room.
    fn replace(&mut self, index: usize, found: Found, rules: &Rules, now_ms: u64) {
        if found.is_err() && !rules.keep_errors {
            self.remove(index);
            return;
        }
        let Some(entry) = &mut self.entries[index] else { return };
        let kept = match found {
            // A file that is not used often enough does not stay open; that it is there is remembered.
            Ok(file) if entry.uses < rules.uses_min => Ok(Rc::new(file.without_content())),
            other => other,
        };
        let (old_bytes, old_descriptors) = weight(&entry.found);
        let (bytes, descriptors) = weight(&kept);
        let doubtful = |file: &Rc<OpenFile>| clock::now_ms() as i64 - file.info.changed_ms() < TICK_MS;
        entry.doubtful = kept.as_ref().is_ok_and(doubtful);
        entry.found = kept;
        entry.checked_ms = now_ms;
        self.content_bytes = self.content_bytes + bytes - old_bytes;
        self.descriptors = self.descriptors + descriptors - old_descriptors;
        while self.by_path.len() > self.count_max
            || self.content_bytes > CONTENT_BYTES_MAX
            || self.descriptors > self.descriptors_max
        {
            let Some(oldest) = self.oldest else { return };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, index: usize) {
        self.unlink(index);
        if let Some(entry) = self.entries[index].take() {
            let (bytes, descriptors) = weight(&entry.found);
            self.content_bytes -= bytes;
            self.descriptors -= descriptors;
            self.by_path.remove(&entry.path);
            self.free.push(index);
        }
    }

    fn clear(&mut self) {
        while let Some(oldest) = self.oldest {
            self.remove(oldest);
        }
    }

    fn forget_unused(&mut self, now_ms: u64) {
        while let Some(oldest) = self.oldest
            && let Some(entry) = &self.entries[oldest]
            && now_ms.saturating_sub(entry.used_ms) >= self.inactive_ms
        {
            self.remove(oldest);
        }
    }

    fn touch(&mut self, index: usize, now_ms: u64) {
        if let Some(entry) = &mut self.entries[index] {
            entry.used_ms = now_ms;
            entry.uses += 1;
        }
        if self.newest != Some(index) {
            self.unlink(index);
            self.link(index);
        }
    }

    /// Makes an entry the newest.
    fn link(&mut self, index: usize) {
        let newest = self.newest.replace(index);
        if let Some(entry) = &mut self.entries[index] {
            (entry.older, entry.newer) = (newest, None);
        }
        match newest.and_then(|newest| self.entries[newest].as_mut()) {
            Some(entry) => entry.newer = Some(index),
            None => self.oldest = Some(index),
        }
    }

    fn unlink(&mut self, index: usize) {
        let Some(entry) = &self.entries[index] else { return };
        let (newer, older) = (entry.newer, entry.older);
        match newer.and_then(|newer| self.entries[newer].as_mut()) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match older.and_then(|older| self.entries[older].as_mut()) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

fn is_cold(found: &Found) -> bool {
    matches!(found, Err(failure) if failure.is_cold())
}

/// Bytes in memory and open descriptors.
fn weight(found: &Found) -> (usize, usize) {
    found.as_ref().map_or((0, 0), |file| (file.content_bytes(), usize::from(file.file().is_some())))
}
