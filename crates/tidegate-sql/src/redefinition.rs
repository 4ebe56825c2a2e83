//! When the definitions of a schema change: its file has the new ones a moment before its catalogue shows them.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, futures::Notified};

/// Whether the file of a schema may have other definitions than its catalogue shows.
#[derive(Debug, Default)]
pub(crate) struct Redefinition {
    runs: AtomicBool,
    over: Notify,
}

/// Definitions change until this is dropped.
#[derive(Debug)]
pub(crate) struct Redefining<'a>(&'a Redefinition);

impl Redefinition {
    /// Definitions are about to change. The caller has the schema's write lock: there is no other one.
    pub(crate) fn begin(&self) -> Redefining<'_> {
        self.runs.store(true, Ordering::Release);
        Redefining(self)
    }

    /// Whether they change right now.
    pub(crate) fn runs(&self) -> bool {
        self.runs.load(Ordering::Acquire)
    }

    /// Ends with the next change that ends, counted from this call.
    pub(crate) fn over(&self) -> Notified<'_> {
        self.over.notified()
    }
}

impl Drop for Redefining<'_> {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Release);
        self.0.over.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_it_is_over() {
        let redefinition = Redefinition::default();
        let redefining = redefinition.begin();
        let over = redefinition.over();
        assert!(redefinition.runs());
        drop(redefining);
        assert!(!redefinition.runs());
        over.await;
    }
}
