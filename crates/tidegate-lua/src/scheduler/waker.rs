//! Wakers of light threads: those that were woken stand in a queue, so that nobody looks at the others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// A queue of so few keys is never looked through.
const TIDY_FROM: usize = 64;

/// The light threads of one run that want to be polled.
#[derive(Default)]
pub(super) struct WokenQueue(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    /// Keys of light threads. Each stands here once at most; it may have ended meanwhile.
    keys: VecDeque<usize>,
    /// The task of the run.
    task: Option<Waker>,
    /// The task was woken and has not looked since: one wake-up serves all who come until then.
    told: bool,
}

impl WokenQueue {
    fn lock(&self) -> MutexGuard<'_, Woken> {
        // Nothing under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes `task` from now on; answers how many light threads were woken so far.
    pub(super) fn begin_poll(&self, task: &Waker) -> usize {
        let mut woken = self.lock();
        if !woken.task.as_ref().is_some_and(|known| known.will_wake(task)) {
            woken.task = Some(task.clone());
        }
        woken.told = false;
        woken.keys.len()
    }

    /// The one that was woken first.
    pub(super) fn pop(&self) -> Option<usize> {
        self.lock().keys.pop_front()
    }

    /// Forgets those that `is_known` does not know, if most may be such.
    pub(super) fn tidy(&self, known_count: usize, is_known: impl Fn(usize) -> bool) {
        let mut woken = self.lock();
        if woken.keys.len() > 2 * known_count + TIDY_FROM {
            woken.keys.retain(|key| is_known(*key));
        }
    }

    /// The run has ended. Wakers that are left wake nothing, and do not keep the memory of its task.
    pub(super) fn close(&self) {
        let ended = std::mem::take(&mut *self.lock());
        drop(ended);
    }
}

/// Puts one light thread into the queue and wakes the task of its run.
pub(super) struct ThreadWaker {
    key: usize,
    /// It stands in the queue.
    woken: AtomicBool,
    queue: Arc<WokenQueue>,
}

impl ThreadWaker {
    /// A waker for the light thread with this key.
    pub(super) fn new(key: usize, queue: &Arc<WokenQueue>) -> Arc<Self> {
        Arc::new(Self { key, woken: AtomicBool::new(false), queue: queue.clone() })
    }

    /// Counts as woken from now on, without waking the task.
    pub(super) fn mark(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.queue.lock().keys.push_back(self.key);
        }
    }

    /// It was taken out of the queue, and is about to be polled: the next wake-up counts anew.
    pub(super) fn clear(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut woken = self.queue.lock();
            woken.keys.push_back(self.key);
            if woken.told {
                return;
            }
            woken.told = woken.task.is_some();
            woken.task.clone()
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}
