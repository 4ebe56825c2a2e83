//! What sessions and the thread that runs events (`crate::events`) know of each other.

use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

/// Starts the thread of a number.
type Start = Box<dyn Fn(u64) + Send + Sync>;

/// An event, by the numbers of its schema and its own.
pub(crate) type EventId = (u64, i64);

/// Whether events run, and what has changed since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The number of the thread that is to run events; `None` for none.
    pub(crate) thread: Option<u64>,
    threads: u64,
    changes: u64,
}

/// The state of the event scheduler.
#[derive(Default)]
pub(crate) struct EventQueue {
    wanted: watch::Sender<Wanted>,
    start: OnceLock<Start>,
    running: Mutex<HashSet<EventId>>,
}

impl EventQueue {
    /// Says how a thread is started.
    pub(crate) fn start_by(&self, start: Start) {
        let _ = self.start.set(start);
    }

    /// Has events run from now on, or not. Those that run go on.
    pub(crate) fn switch(&self, on: bool) {
        let mut number = None;
        self.wanted.send_modify(|wanted| match (on, wanted.thread) {
            (true, Some(_)) => {}
            (true, None) => {
                wanted.threads += 1;
                wanted.thread = Some(wanted.threads);
                number = wanted.thread;
            }
            (false, _) => wanted.thread = None,
        });
        if let (Some(number), Some(start)) = (number, self.start.get()) {
            start(number);
        }
    }

    /// Whether events run.
    pub(crate) fn is_on(&self) -> bool {
        self.wanted.borrow().thread.is_some()
    }

    /// Events have changed.
    pub(crate) fn note_change(&self) {
        self.wanted.send_modify(|wanted| wanted.changes += 1);
    }

    /// Where a thread hears of changes.
    pub(crate) fn listen(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// An event begins to run; answers whether it did not run already.
    pub(crate) fn begin(&self, event: EventId) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(event)
    }

    /// An event has ended.
    pub(crate) fn end(&self, event: EventId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&event);
    }
}
