//! Receivers of one name take turns, whichever workers they are connected to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Mutex as Queued, OwnedMutexGuard};

/// Those who have a turn or wait for one, by schema, queue and receiver.
static TURNS: Mutex<Option<HashMap<Key, Arc<Queued<()>>>>> = Mutex::new(None);

type Key = [String; 3];

/// A turn; the next one has it when this is dropped.
pub(super) struct Turn {
    key: Key,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Waits for a turn, in the order of calls.
pub(super) async fn turn(schema: &str, queue: &str, receiver: &str) -> Turn {
    let key = [schema, queue, receiver].map(str::to_owned);
    let lock = {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get_or_insert_default().entry(key.clone()).or_default().clone()
    };
    // From here on dropping this forgets the key if nobody else wants it.
    let mut turn = Turn { key, guard: None };
    turn.guard = Some(lock.lock_owned().await);
    turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = turns.as_mut()
            && turns.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            turns.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(receiver: &str) -> bool {
        let turns = TURNS.lock().expect("not poisoned");
        turns.as_ref().is_some_and(|turns| turns.keys().any(|key| key[2] == receiver))
    }

    #[tokio::test]
    async fn one_receiver_of_a_name_has_the_turn_and_names_are_forgotten() {
        let first = turn("s", "q", "ann").await;
        assert!(known("ann"));
        let mut second = Box::pin(turn("s", "q", "ann"));
        assert!(futures_now(&mut second).is_none());
        let other = turn("s", "r", "ann").await;
        drop(first);
        let second = futures_now(&mut second).expect("its turn");
        drop(other);
        assert!(known("ann"));
        drop(second);
        assert!(!known("ann"));
    }

    /// What a future has come to by now.
    fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
