//! How many messages a consumer has at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The hands of a consumer that has several messages at a time, and wants to know when one of them is settled or its time is over: by
/// whomever, on whichever worker.
#[derive(Debug, Default)]
pub struct Hands {
    held: AtomicUsize,
    emptied: Notify,
}

impl Hands {
    /// Messages that are in them.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Waits until there are fewer than so many messages in them. One task at a time may wait for that.
    pub async fn have_less_than(&self, count: usize) {
        while self.held() >= count {
            // A message that goes meanwhile has left a permit.
            self.emptied.notified().await;
        }
    }

    pub(crate) fn take(&self) {
        self.held.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn let_go(&self) {
        self.held.fetch_sub(1, Ordering::AcqRel);
        self.emptied.notify_one();
    }
}
