//! Who reads a schema for long: a snapshot keeps the write-ahead log from starting over.
//!
//! A statement is listed when it first lets others run in between, a transaction when it takes its snapshot; what ends
//! sooner is of no concern to the log. The checkpoint thread ends the longest reader when the log has grown too much.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Instant,
};

/// Who holds a snapshot for longer than a statement.
pub(crate) trait Holder: Send + Sync {
    /// Gives the snapshot up, if no statement runs on it.
    fn end(&self);
}

/// A snapshot that somebody holds.
pub(crate) struct Reader {
    pub(crate) connection_id: u64,
    pub(crate) since: Instant,
    ended: AtomicBool,
    /// It holds no snapshot any more.
    has_let_go: AtomicBool,
    /// Whose snapshot it is, if it is a transaction's.
    transaction: Option<Weak<dyn Holder>>,
    /// Of the statement that runs on the snapshot and waits.
    waker: Mutex<Option<Waker>>,
}

impl Reader {
    /// Whether the snapshot must be given up.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Notes whom to wake when the snapshot must be given up.
    pub(crate) fn wakes(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *slot {
            Some(known) => known.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
    }

    /// Has the snapshot given up: by a statement that runs as soon as it can, by a transaction that rests at once.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
        if let Some(transaction) = self.transaction.as_ref().and_then(Weak::upgrade) {
            transaction.end();
        }
    }

    /// Notes that the snapshot was taken from whoever held it.
    pub(crate) fn let_go(&self) {
        self.has_let_go.store(true, Ordering::Release);
    }
}

/// The readers of a schema.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Weak<Reader>>>);

impl Readers {
    /// Lists a reader until its last reference goes.
    pub(crate) fn add(&self, connection_id: u64, since: Instant, transaction: Option<Weak<dyn Holder>>) -> Arc<Reader> {
        let reader = Arc::new(Reader {
            connection_id,
            since,
            ended: AtomicBool::new(false),
            has_let_go: AtomicBool::new(false),
            transaction,
            waker: Mutex::default(),
        });
        let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        reader
    }

    /// Who has been reading for the longest time and has not been told to end.
    pub(crate) fn longest(&self) -> Option<Arc<Reader>> {
        let readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = readers
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|reader| !reader.has_ended() && !reader.has_let_go.load(Ordering::Acquire));
        under_way.min_by_key(|reader| reader.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_longest_that_still_reads() {
        let readers = Readers::default();
        let now = Instant::now();
        let first = readers.add(1, now - Duration::from_secs(3), None);
        let second = readers.add(2, now - Duration::from_secs(2), None);
        drop(readers.add(3, now - Duration::from_secs(9), None));
        let longest = || readers.longest().map(|reader| reader.connection_id);
        assert_eq!(longest(), Some(1));
        first.end();
        assert!(first.has_ended());
        assert_eq!(longest(), Some(2));
        drop(second);
        assert_eq!(longest(), None);
    }
}
