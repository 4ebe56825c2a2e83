//! What is known of tubes beside their jobs: who uses and watches them, and what was done with them.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use super::stats::Counters;

/// Tubes that nobody uses are forgotten when there are twice as many as were left the last time, and at least this many.
const TUBES_KEPT_MIN: usize = 1024;

/// The tube of clients that have named none.
pub(super) const DEFAULT: &str = "default";

/// A tube. Counted since the server, or the first who used it, came.
pub(super) struct Tube {
    pub(super) name: Arc<str>,
    pub(super) using: AtomicUsize,
    pub(super) watching: AtomicUsize,
    pub(super) jobs_total: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) pauses: AtomicU64,
    /// Seconds of the last pause.
    pub(super) pause_s: AtomicU64,
}

/// What all workers share of a data directory, beside the jobs.
pub(super) struct Common {
    tubes: Mutex<Tubes>,
    pub(super) counters: Counters,
}

struct Tubes {
    by_name: HashMap<Arc<str>, Arc<Tube>>,
    /// They are looked through when there are so many.
    count_max: usize,
}

static COMMONS: Mutex<Vec<(PathBuf, Arc<Common>)>> = Mutex::new(Vec::new());

impl Common {
    /// What is shared of a data directory.
    pub(super) fn of(path: PathBuf) -> Arc<Self> {
        let mut commons = COMMONS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, common)) = commons.iter().find(|(known, _)| *known == path) {
            return common.clone();
        }
        let tubes = Tubes { by_name: HashMap::new(), count_max: 2 * TUBES_KEPT_MIN };
        let common = Arc::new(Common { tubes: Mutex::new(tubes), counters: Counters::default() });
        commons.push((path, common.clone()));
        common
    }

    fn tubes(&self) -> MutexGuard<'_, Tubes> {
        self.tubes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tube of a name; known from now on.
    pub(super) fn tube(&self, name: &str) -> Arc<Tube> {
        let mut tubes = self.tubes();
        if let Some(tube) = tubes.by_name.get(name) {
            return tube.clone();
        }
        if tubes.by_name.len() >= tubes.count_max {
            tubes.by_name.retain(|_, tube| Arc::strong_count(tube) > 1);
            tubes.count_max = 2 * tubes.by_name.len().max(TUBES_KEPT_MIN);
        }
        let name: Arc<str> = name.into();
        let tube = Arc::new(Tube {
            name: name.clone(),
            using: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            jobs_total: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            pause_s: AtomicU64::new(0),
        });
        tubes.by_name.insert(name, tube.clone());
        tube
    }

    /// The tube of a name, if anything is known of it.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Tube>> {
        self.tubes().by_name.get(name).cloned()
    }

    /// Names of tubes that somebody uses or watches.
    pub(super) fn names_in_use(&self) -> BTreeSet<String> {
        let tubes = self.tubes();
        let in_use = tubes.by_name.values().filter(|tube| tube.is_in_use());
        in_use.map(|tube| tube.name.to_string()).collect()
    }
}

impl Tube {
    /// Whether somebody uses or watches it.
    pub(super) fn is_in_use(&self) -> bool {
        *self.name == *DEFAULT || self.using.load(Ordering::Relaxed) > 0 || self.watching.load(Ordering::Relaxed) > 0
    }
}

/// A client uses a tube.
pub(super) struct Used(pub(super) Arc<Tube>);

impl Used {
    pub(super) fn new(tube: Arc<Tube>) -> Self {
        tube.using.fetch_add(1, Ordering::Relaxed);
        Used(tube)
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.0.using.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client watches a tube.
pub(super) struct Watched(pub(super) Arc<Tube>);

impl Watched {
    pub(super) fn new(tube: Arc<Tube>) -> Self {
        tube.watching.fetch_add(1, Ordering::Relaxed);
        Watched(tube)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watching.fetch_sub(1, Ordering::Relaxed);
    }
}
