//! The memory of the WAL index, and copies of its first part for connections with a view of their own.
//!
//! A private connection changes pages in its own cache and never writes them to the log (`store::private`). SQLite lets a connection
//! write only while the index says that nobody has committed since its snapshot, and takes the header from there when it
//! rolls back. So a private connection has a copy of the index' first region, of the moment when it took its snapshot.
//! SQLite asks for the address of a region once in a connection's life, therefore the copy stays where it is and is renewed.
//!
//! ```text
//! byte    0        48       96                                         136
//!         header   header   nBackfill aReadMark[5] locks nBackfillAttempted   page numbers and hash of the first frames
//! ```
//!
//! The frames before a snapshot never change while somebody reads them, nor do their entries here; later entries mean
//! nothing to SQLite, because it looks for frames up to its header's last one only. Regions behind the first hold entries
//! alone, so that they need no copies.
//!
//! Invariants:
//! 1. A copy is renewed when its connection has just locked a read mark, and at no other time. SQLite then compares what it
//!    knows with the copy, and begins anew if they differ, just as it does with the shared index.
//! 2. A read mark that a private connection has set is carried over to the shared index before its lock is given back.
//!
//! SQLite begins anew when it finds another header than before it had the lock: the log may have started over, and a
//! checkpoint may have moved later frames into the database. Beside a writer that never waits that would happen each time,
//! until SQLite gives up with SQLITE_PROTOCOL. A copy that was made for an earlier try of the same begin is kept instead if
//! neither has happened and its mark still stands ([`Region::may_stay`], [`Checkpoints`]): whoever moves frames later sees
//! the lock and the mark, so that the copy's frames stay in the log and those behind it stay out of the database.

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// SQLite asks for the WAL index in regions of this many bytes.
pub(super) const REGION_BYTES: usize = 32 * 1024;
const WORDS: usize = REGION_BYTES / 8;
/// Words of one of the two copies of the header.
const HEADER_WORDS: usize = 6;
/// The word of the header that is different after each time that the log has started over.
const SALT_WORD: usize = 4;
/// Where the checkpoint's numbers begin, and what comes behind them.
const CHECKPOINT_WORDS: std::ops::Range<usize> = 2 * HEADER_WORDS..17;
/// Offset of the read marks, in numbers of four bytes.
const READ_MARKS: usize = 25;
/// How often a header that is just being written is read again before the connection waits in SQLite's way.
const TRIES: usize = 100;

/// Counts the checkpoints of a database: how often one began or ended, so that the count is odd during one.
#[derive(Default)]
pub(super) struct Checkpoints(AtomicU64);

impl Checkpoints {
    /// Notes that a connection has taken or is about to give back the lock for checkpoints. What it does with the index
    /// comes after its beginning, and before its end.
    pub(super) fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The count, unless a checkpoint is under way.
    fn at_rest(&self) -> Option<u64> {
        fence(Ordering::SeqCst);
        Some(self.0.load(Ordering::SeqCst)).filter(|count| count.is_multiple_of(2))
    }
}

/// What [`Region::renew`] has found.
#[derive(Debug, PartialEq)]
pub(super) enum Renewed {
    /// The header is still that of the copy.
    Same,
    /// The copy has another header now. SQLite tries again, and may keep it then if this is the count of checkpoints.
    Changed(Option<u64>),
}

/// A part of the WAL index: SQLite's connections read and write it from all threads by rules of their own, so that no
/// reference to its words may exist, only pointers.
pub(super) struct Region(UnsafeCell<[u64; WORDS]>);

// SAFETY: Rust code hands out the address, or copies words as SQLite does.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self(UnsafeCell::new([0; WORDS])))
    }

    /// The address for SQLite.
    pub(super) fn address(&self) -> *mut u64 {
        self.0.get().cast()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: the word is within the region, aligned, and lives as long as `self`. SQLite's accesses from other threads
        // are single stores of at most this size.
        unsafe { AtomicU64::from_ptr(self.address().add(index)) }
    }

    fn mark(&self, number: usize) -> &AtomicU32 {
        assert!(number < 5);
        // SAFETY: as in `word`; SQLite reads and writes marks atomically.
        unsafe { AtomicU32::from_ptr(self.address().cast::<u32>().add(READ_MARKS + number)) }
    }

    fn header(&self, copy: usize) -> [u64; HEADER_WORDS] {
        std::array::from_fn(|index| self.word(copy * HEADER_WORDS + index).load(Ordering::Relaxed))
    }

    /// The header, unless it is just being written or nobody has written it yet.
    fn whole_header(&self) -> Option<[u64; HEADER_WORDS]> {
        // SQLite writes the second copy first.
        let first = self.header(0);
        fence(Ordering::SeqCst);
        (first == self.header(1) && first[0] != 0).then_some(first)
    }

    /// Makes this a copy of `shared`; `None` if that could not be one of a single moment.
    pub(super) fn renew(&self, shared: &Self, checkpoints: &Checkpoints) -> Option<Renewed> {
        for _ in 0..TRIES {
            let count = checkpoints.at_rest();
            let Some(header) = shared.whole_header() else {
                std::hint::spin_loop();
                continue;
            };
            let checkpoint: [u64; CHECKPOINT_WORDS.end - CHECKPOINT_WORDS.start] =
                std::array::from_fn(|index| shared.word(CHECKPOINT_WORDS.start + index).load(Ordering::Acquire));
            let is_known = header == self.header(0);
            if !is_known {
                for index in CHECKPOINT_WORDS.end..WORDS {
                    self.word(index).store(shared.word(index).load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            fence(Ordering::SeqCst);
            // Otherwise the checkpoint may have known a later commit than this header; and a log that has started over has other
            // entries, and a count of moved frames that says nothing about the frames of before.
            let has_stood = count.is_some() && count == checkpoints.at_rest() && shared.salt() == header[SALT_WORD];
            if !has_stood && shared.whole_header() != Some(header) {
                continue;
            }
            if !is_known {
                for (index, word) in header.iter().chain(&header).enumerate() {
                    self.word(index).store(*word, Ordering::Relaxed);
                }
            }
            for (index, word) in CHECKPOINT_WORDS.zip(checkpoint) {
                self.word(index).store(word, Ordering::Relaxed);
            }
            return Some(if is_known { Renewed::Same } else { Renewed::Changed(count) });
        }
        None
    }

    /// Whether this copy, which was made while the count of checkpoints was `count`, is good for a reader that holds a lock on
    /// read mark `number` now, although others have committed since.
    pub(super) fn may_stay(&self, shared: &Self, number: usize, checkpoints: &Checkpoints, count: u64) -> bool {
        // Number 0 is no mark: its readers leave the log alone, and whoever moves frames waits for them.
        checkpoints.at_rest() == Some(count)
            && shared.salt() == self.salt()
            && (number == 0 || shared.mark(number).load(Ordering::Acquire) == self.mark(number).load(Ordering::Relaxed))
    }

    fn salt(&self) -> u64 {
        self.word(SALT_WORD).load(Ordering::Acquire)
    }

    /// Whether somebody has committed since this was a copy of `shared`.
    pub(super) fn is_behind(&self, shared: &Self) -> bool {
        shared.whole_header() != Some(self.header(0))
    }

    /// Carries a read mark over to `shared`.
    pub(super) fn publish_mark(&self, shared: &Self, number: usize) {
        shared.mark(number).store(self.mark(number).load(Ordering::Relaxed), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(shared: &Region, header: u64) {
        for index in 0..2 * HEADER_WORDS {
            shared.word(index).store(header, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_copy_is_of_one_moment() {
        let (shared, own, checkpoints) = (Region::new(), Region::new(), Checkpoints::default());
        assert_eq!(own.renew(&shared, &checkpoints), None, "nobody has written a header");
        written(&shared, 7);
        shared.word(WORDS - 1).store(70, Ordering::Relaxed);
        assert!(own.is_behind(&shared));
        assert_eq!(own.renew(&shared, &checkpoints), Some(Renewed::Changed(Some(0))));
        assert!(!own.is_behind(&shared));
        assert_eq!(own.word(WORDS - 1).load(Ordering::Relaxed), 70);
        // The entries of later frames do not matter before the header tells of them.
        shared.word(WORDS - 1).store(80, Ordering::Relaxed);
        shared.mark(3).store(42, Ordering::Relaxed);
        assert_eq!(own.renew(&shared, &checkpoints), Some(Renewed::Same));
        assert_eq!((own.word(WORDS - 1).load(Ordering::Relaxed), own.mark(3).load(Ordering::Relaxed)), (70, 42));
        // Half a header.
        shared.word(HEADER_WORDS).store(8, Ordering::Relaxed);
        assert!(own.is_behind(&shared));
        assert_eq!(own.renew(&shared, &checkpoints), None);
        assert_eq!(own.whole_header(), Some([7; HEADER_WORDS]));
    }

    #[test]
    fn a_copy_stays_until_a_checkpoint_another_mark_or_a_log_that_starts_over() {
        let (shared, own, checkpoints) = (Region::new(), Region::new(), Checkpoints::default());
        written(&shared, 7);
        checkpoints.turn();
        assert_eq!(own.renew(&shared, &checkpoints), Some(Renewed::Changed(None)), "a checkpoint is under way");
        checkpoints.turn();
        written(&shared, 8);
        assert_eq!(own.renew(&shared, &checkpoints), Some(Renewed::Changed(Some(2))));
        let stays = |number| own.may_stay(&shared, number, &checkpoints, 2);
        // Another commit to the same log.
        for copy in 0..2 {
            shared.word(copy * HEADER_WORDS).store(9, Ordering::Relaxed);
        }
        assert!(own.is_behind(&shared) && stays(0) && stays(1));
        shared.mark(1).store(3, Ordering::Relaxed);
        assert!(stays(0) && !stays(1) && stays(2));
        checkpoints.turn();
        assert!(!stays(0) && !stays(2));
        checkpoints.turn();
        assert!(!stays(0) && !stays(2));
        assert!(own.may_stay(&shared, 2, &checkpoints, 4));
        written(&shared, 10);
        assert!(!own.may_stay(&shared, 2, &checkpoints, 4));
    }

    #[test]
    fn marks_are_carried_over() {
        let (shared, own) = (Region::new(), Region::new());
        own.mark(2).store(9, Ordering::Relaxed);
        own.publish_mark(&shared, 2);
        assert_eq!(shared.mark(2).load(Ordering::Relaxed), 9);
    }
}
