//! Wakers of light threads: each has a bit of its own, so that only those woken are polled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Marks one light thread as woken and wakes the task of its run.
pub(super) struct ThreadWaker {
    woken: AtomicBool,
    task: Waker,
}

impl ThreadWaker {
    /// A waker for `task`; it counts as woken, so that the new future is polled.
    pub(super) fn new(task: &Waker) -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), task: task.clone() })
    }

    /// Whether it wakes the same task.
    pub(super) fn wakes(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    /// Counts as woken from now on, without waking the task.
    pub(super) fn mark(&self) {
        self.woken.store(true, Ordering::Release);
    }

    /// Whether it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        // The load keeps the common "not woken" from writing to the cache line.
        self.woken.load(Ordering::Acquire) && self.woken.swap(false, Ordering::AcqRel)
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.task.wake_by_ref();
        }
    }
}
