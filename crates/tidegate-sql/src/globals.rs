//! Values of system variables that new sessions begin with. They go with the process.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// What SET GLOBAL has set.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    /// Whether anything was ever set: if not, a new session asks no further.
    any: AtomicBool,
    /// Grows when anything changes that new sessions begin with, behind the change.
    version: Arc<AtomicU64>,
    /// In the order in which they were set: some variables set others.
    values: Mutex<Vec<(&'static str, String)>>,
}

impl Globals {
    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a variable, if it was set.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.lock().iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }

    /// Keeps a value; `None` for the first one of the variable.
    pub(crate) fn set(&self, name: &'static str, value: Option<String>) {
        let mut values = self.lock();
        values.retain(|(known, _)| *known != name);
        values.extend(value.map(|value| (name, value)));
        self.any.store(true, Ordering::Release);
        drop(values);
        self.note_change();
    }

    /// What new sessions begin with has changed.
    pub(crate) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The number of changes so far, and where to look how many there are later.
    pub(crate) fn version(&self) -> (u64, &Arc<AtomicU64>) {
        (self.version.load(Ordering::Acquire), &self.version)
    }

    /// Everything that was set; nothing if nothing was.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        if self.any.load(Ordering::Acquire) { self.lock().clone() } else { Vec::new() }
    }
}
