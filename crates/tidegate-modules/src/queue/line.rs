//! Those who wait for room in a queue, one behind the other.
//!
//! Who wants room may find that others have taken what there is and have not filled it yet. Were all of them to try again at each
//! change, each would keep the others from it; so the first of them tries, and the others wait for their turn.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedMutexGuard, futures::Notified};

/// The lines of all queues; there is one where somebody stands in it.
#[derive(Default)]
pub(super) struct Lines(Mutex<HashMap<String, Arc<Line>>>);

#[derive(Default)]
struct Line {
    /// Whose turn it is has this; tokio's lock is fair.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Somebody has filled the room that was taken, or has given it back.
    filled: Notify,
}

/// A place in a line. The next one's turn comes when it is dropped.
pub(super) struct Turn<'a> {
    lines: &'a Lines,
    queue: String,
    line: Arc<Line>,
    has_come: Option<OwnedMutexGuard<()>>,
}

impl Lines {
    /// Waits for the turn to try.
    pub(super) async fn stand(&self, queue: &str) -> Turn<'_> {
        let line = self.lock().entry(queue.to_owned()).or_default().clone();
        let mut turn = Turn { lines: self, queue: queue.to_owned(), line, has_come: None };
        turn.has_come = Some(turn.line.turn.clone().lock_owned().await);
        turn
    }

    /// Somebody has filled room of a queue, or has given it back.
    pub(super) fn filled(&self, queue: &str) {
        if let Some(line) = self.lock().get(queue) {
            line.filled.notify_waiters();
        }
    }

    /// So much has happened that all should try again.
    pub(super) fn all_filled(&self) {
        self.lock().values().for_each(|line| line.filled.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Whose line it is.
    pub(super) fn queue(&self) -> &str {
        &self.queue
    }

    /// Waits until somebody fills room of the queue, or gives it back.
    pub(super) fn filled(&self) -> Notified<'_> {
        self.line.filled.notified()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.has_come = None;
        let mut lines = self.lines.lock();
        // The list's own, and this one.
        if Arc::strong_count(&self.line) <= 2 {
            lines.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    #[tokio::test]
    async fn one_behind_the_other_and_nobody_is_left() {
        let lines = Lines::default();
        let first = lines.stand("q").await;
        let mut second = Box::pin(lines.stand("q"));
        let mut third = Box::pin(lines.stand("q"));
        let poll = async |turn: std::pin::Pin<&mut dyn Future<Output = Turn<'_>>>| {
            let mut turn = Some(turn);
            std::future::poll_fn(|cx| Poll::Ready(turn.take().map(|turn| turn.poll(cx).is_ready()))).await
        };
        assert_eq!(poll(second.as_mut()).await, Some(false));
        assert_eq!(poll(third.as_mut()).await, Some(false));
        // One who has left keeps nobody out.
        drop(third);
        drop(first);
        let second = second.await;
        lines.stand("other").await;
        assert_eq!(lines.lock().len(), 1);
        {
            let mut filled = pin!(second.filled());
            filled.as_mut().enable();
            lines.filled("other");
            lines.filled("q");
            filled.await;
        }
        drop(second);
        assert!(lines.lock().is_empty());
    }
}
