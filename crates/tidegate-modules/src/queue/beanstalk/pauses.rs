//! Queues that are paused for a time. Such a pause is memory, and ends with the process, or with the tube that it was meant for.

use std::{
    collections::HashMap,
    rc::Rc,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_net::clock;

use crate::queue::store::{Store, StoreError};

/// When pauses are over, by the names of their queues, in milliseconds of [`clock::steady_ms`].
#[derive(Debug, Default)]
pub(in crate::queue) struct Pauses(Mutex<HashMap<String, u64>>);

impl Pauses {
    fn ends(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the queue is paused for a time.
    pub(in crate::queue) fn has(&self, queue: &str) -> bool {
        self.ends().contains_key(queue)
    }

    /// How long the queue is paused yet.
    pub(super) fn left_ms(&self, queue: &str) -> u64 {
        let ends = self.ends();
        ends.get(queue).map_or(0, |end| end.saturating_sub(clock::steady_ms()))
    }

    /// Those that are over, and how long no other one is.
    fn over(&self) -> (Vec<String>, Option<Duration>) {
        clock::update();
        let now_ms = clock::steady_ms();
        let ends = self.ends();
        let over = ends.iter().filter(|(_, end)| **end <= now_ms).map(|(queue, _)| queue.clone()).collect();
        let next = ends.values().filter(|end| **end > now_ms).min();
        (over, next.map(|end| Duration::from_millis(end - now_ms)))
    }

    /// Forgets one that is over; answers whether it was, and not renewed meanwhile.
    fn end(&self, queue: &str) -> bool {
        let mut ends = self.ends();
        let is_over = ends.get(queue).is_some_and(|end| *end <= clock::steady_ms());
        if is_over {
            ends.remove(queue);
        }
        is_over
    }
}

impl Store {
    /// Nobody gets messages of the queue for a time; zero ends such a pause.
    pub(super) fn pause_for(&self, queue: &str, time_ms: u64) {
        let end = clock::steady_ms().saturating_add(time_ms);
        self.home.pauses.ends().insert(queue.to_owned(), end);
        self.broker().pause(queue);
        self.home.due_changed.notify_one();
    }

    /// Ends the pause of a tube that is gone: one of its name begins without.
    ///
    /// # Errors
    /// Storage errors; the pause is over when its time is, then.
    ///
    /// Source: beanstalkd's `tube.c`: a tube that nobody uses or watches and that has no jobs is freed, with its pause.
    pub(super) async fn end_pause(&self, queue: &str) -> Result<(), StoreError> {
        self.end_if(queue, |pauses| pauses.ends().remove(queue).is_some()).await
    }

    /// Goes on with a queue whose pause `forget` has forgotten.
    async fn end_if(&self, queue: &str, forget: impl FnOnce(&Pauses) -> bool) -> Result<(), StoreError> {
        // Somebody may have paused it without a time.
        let is_paused = self.settings(queue).await?.is_paused;
        if forget(&self.home.pauses) && !is_paused {
            self.broker().resume(queue);
        }
        Ok(())
    }

    /// Ends pauses whose time is over; answers how long none is.
    ///
    /// # Errors
    /// Storage errors. Such queues stay paused until this is called again.
    pub(in crate::queue) async fn end_pauses(self: &Rc<Self>) -> Result<Option<Duration>, StoreError> {
        let (over, next) = self.home.pauses.over();
        for queue in over {
            self.end_if(&queue, |pauses| pauses.end(&queue)).await?;
        }
        Ok(next)
    }
}
