//! Commits: the number of each, and who hears of it.
//!
//! A commit that has changed tables of others gets the next number of its schema while its session still has the write lock, so
//! that numbers grow as commits do; it becomes the version of each table that the commit has changed. Nothing is written for
//! that: the file holds a number behind which none has been given ([`Commits::reserve`]), renewed once in [`RESERVED`] commits.
//! After a restart numbers go on behind that one, or at a number of the time of day if that is higher, and leave out some by
//! chance. So they do not come twice: not after a power cut that the reservation itself did not survive, nor in a schema that
//! was dropped and made anew, nor in a file that an older copy has replaced. From one number to the next is often one, but
//! nobody may rely on that.
//!
//! Once somebody listens ([`Listening`](crate::listening::Listening)) commits are listed. A commit that is to be durable before it is acknowledged
//! waits in the list for the sync thread, which shows it to listeners before it lets the acknowledgement go, and wakes them behind
//! that. Listeners share the
//! list and have a place in it each, so that one who is slow costs nothing: the list has a limit, and who falls behind that is
//! told so.
//!
//! Who also wants the keys of changed rows ([`Commits::want_keys`]) has each commit that begins from then on note them
//! ([`crate::store::keys`]), until those who were listening have been away for as long as the list goes back.
//!
//! Invariants:
//! 1. `number` and `list` are called with the schema's write lock, behind the commit.
//! 2. What the sync thread shows was listed before its `fdatasync` began.
//! 3. A commit that the list does not have has a number up to `complete_from`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
    time::{SystemTime, UNIX_EPOCH},
};

use tidegate_rows::ServerError;

use super::Schema;
use crate::{
    catalog::{Catalog, Table, TableState},
    changed_keys::{TableKeys, of_tables},
    settings::Durability,
    store::{
        conn::{Cell, Conn, to_server_error},
        keys::Difference,
    },
    temporary_name,
};

/// Numbers that one write of the file reserves.
const RESERVED: u64 = 1 << 20;
/// Commits that the list of a schema keeps for those who come back or are slow.
pub(crate) const LISTED_MAX: usize = 4096;
/// Bytes of the keys of the commits in that list; the oldest commits are kept without.
pub(crate) const LISTED_KEYS_BYTES_MAX: usize = 16 << 20;
/// Numbers of one second. With them numbers have up to 14 digits for decades, as many as Lua shows of a number.
const PER_SECOND: u64 = 1 << 16;
/// 2026-01-01 00:00:00 UTC, in seconds since 1970: the second of number 0.
const FIRST_SECOND: u64 = 1_767_225_600;

/// What schemas that are closed have given in this process: one of the same name begins behind that.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// A commit that has changed tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Its number: larger than those of all commits of the schema before it.
    pub number: u64,
    /// The names of the tables and views that it has changed or defined, sorted; a table that was renamed has both names.
    pub tables: Box<[Box<str>]>,
    /// What it has done to the rows of each of the `tables`, in their order; none if that is [unknown](TableKeys::Unknown).
    pub keys: Box<[TableKeys]>,
}

impl Commit {
    /// The tables with what it has done to their rows.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &TableKeys)> {
        let keys = self.keys.iter().chain(std::iter::repeat(&TableKeys::Unknown));
        self.tables.iter().map(|table| &**table).zip(keys)
    }

    fn keys_size(&self) -> usize {
        self.keys.iter().map(TableKeys::size).sum()
    }
}

/// The commits of a schema.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// The number of the last commit; 0 until the file was read.
    last: AtomicU64,
    /// Numbers up to this one may be given. 0 until the first commit: those that the file has reserved may be in use already.
    reserved: AtomicU64,
    /// Whether commits are listed.
    is_listed: AtomicBool,
    /// Transactions that begin before this commit note the keys of the rows that they change.
    keys_until: AtomicU64,
    list: Mutex<List>,
}

/// The commits that listeners can hear of.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// What everybody may hear of, oldest first.
    pub(crate) shown: VecDeque<Arc<Commit>>,
    /// What the disk does not have yet.
    waiting: VecDeque<Arc<Commit>>,
    pub(crate) complete_from: u64,
    /// No commit comes any more.
    pub(crate) is_over: bool,
    /// One for each thread that has listeners which have heard everything.
    pub(crate) wakers: Vec<Waker>,
    /// Listeners that want keys.
    with_keys: usize,
    /// Bytes of the keys of what is shown.
    keys_bytes: usize,
    /// Commits that are shown before this one have no keys.
    keys_from: usize,
}

impl List {
    /// The number of the newest commit that is shown.
    pub(crate) fn newest(&self) -> u64 {
        self.shown.back().map_or(self.complete_from, |commit| commit.number)
    }

    fn show(&mut self, commit: Arc<Commit>) {
        if self.shown.len() == LISTED_MAX
            && let Some(oldest) = self.shown.pop_front()
        {
            self.complete_from = oldest.number;
            self.keys_bytes -= oldest.keys_size();
            self.keys_from = self.keys_from.saturating_sub(1);
        }
        self.keys_bytes += commit.keys_size();
        self.shown.push_back(commit);
        while self.keys_bytes > LISTED_KEYS_BYTES_MAX
            && let Some(oldest) = self.shown.get_mut(self.keys_from)
        {
            self.keys_bytes -= oldest.keys_size();
            self.keys_from += 1;
            if !oldest.keys.is_empty() {
                *oldest = Arc::new(Commit { keys: Box::default(), tables: oldest.tables.clone(), ..**oldest });
            }
        }
    }
}

/// What is known of a transaction that is about to commit; to be handed back behind the commit.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation {
    /// The numbers that it reserves.
    to: Option<u64>,
    /// What it changes in each table, by the tables' numbers, if that was noted.
    differences: Option<BTreeMap<i64, Difference>>,
}

impl Commits {
    /// Numbers go on behind those that the file has reserved. For the first time when its catalogue is read; later calls do nothing.
    pub(crate) fn begin(&self, reserved: u64) {
        if self.last() != 0 {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let by_clock = now.saturating_sub(FIRST_SECOND) * PER_SECOND;
        let first = by_clock.max(reserved).max(GIVEN.load(Ordering::Acquire)) + 1 + skipped();
        self.last.store(first, Ordering::SeqCst);
    }

    /// The number of the last commit.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Makes sure that the file knows of the number which the transaction open on `conn` will get, and sees what it has changed.
    ///
    /// # Errors
    /// Storage errors.
    #[inline]
    pub(crate) fn reserve(&self, conn: &mut Conn) -> Result<Reservation, ServerError> {
        if self.last.load(Ordering::Acquire) < self.reserved.load(Ordering::Acquire) {
            return Ok(Reservation { to: None, differences: conn.take_keys() });
        }
        self.reserve_more(conn)
    }

    #[cold]
    fn reserve_more(&self, conn: &mut Conn) -> Result<Reservation, ServerError> {
        let to = self.last.load(Ordering::Acquire) + RESERVED;
        let sql = "INSERT INTO tg_meta VALUES ('commits', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1";
        conn.run_kept(sql, std::iter::once(Cell::Int(to.cast_signed()))).map_err(|error| to_server_error(&error))?;
        Ok(Reservation { to: Some(to), differences: conn.take_keys() })
    }

    /// The list, locked.
    pub(crate) fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists commits from now on; answers the number of the last one that listeners can have heard of.
    pub(crate) fn begin_list(&self) -> u64 {
        let mut list = self.list();
        if !self.is_listed.swap(true, Ordering::SeqCst) {
            // Whoever did not list a commit has numbered it before.
            list.complete_from = self.last.load(Ordering::SeqCst);
        }
        list.newest()
    }

    /// Somebody listens who wants keys; to be [left](Self::leave_keys) again.
    pub(crate) fn listen_for_keys(&self) {
        self.list().with_keys += 1;
        self.keys_until.store(u64::MAX, Ordering::SeqCst);
    }

    /// Somebody does not listen any more who wanted keys.
    pub(crate) fn leave_keys(&self) {
        let mut list = self.list();
        list.with_keys -= 1;
        if list.with_keys == 0 {
            // Who comes back hears of commits since as far as they are listed.
            self.keys_until.store(self.last() + LISTED_MAX as u64, Ordering::SeqCst);
        }
    }

    /// Whether a transaction that begins is to note the keys of the rows that it changes.
    #[inline]
    pub(crate) fn want_keys(&self) -> bool {
        self.last() < self.keys_until.load(Ordering::Acquire)
    }

    /// Whether somebody may listen.
    pub(crate) fn are_listed(&self) -> bool {
        self.is_listed.load(Ordering::SeqCst)
    }

    /// How many commits wait for the disk. Those are shown when a sync is over that begins now.
    pub(crate) fn waiting(&self) -> usize {
        if self.is_listed.load(Ordering::SeqCst) { self.list().waiting.len() } else { 0 }
    }

    /// Shows the oldest of those who wait to whoever listens: the disk has them. Answers whom to wake for that.
    #[must_use]
    pub(crate) fn show(&self, count: usize) -> Vec<Waker> {
        if count == 0 {
            return Vec::new();
        }
        let mut list = self.list();
        let count = count.min(list.waiting.len());
        for _ in 0..count {
            let Some(commit) = list.waiting.pop_front() else { break };
            list.show(commit);
        }
        std::mem::take(&mut list.wakers)
    }

    /// No commit comes any more: the schema is gone, or its disk has failed.
    pub(crate) fn end(&self) {
        GIVEN.fetch_max(self.last(), Ordering::AcqRel);
        let wakers = {
            let mut list = self.list();
            list.is_over = true;
            std::mem::take(&mut list.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// How many numbers a process leaves out, by chance: two that go on from copies of one file must not give the same numbers to
/// different commits, be they one behind the other or beside each other.
fn skipped() -> u64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from(u32::from_le_bytes(bytes)) % RESERVED,
        // Then the clock alone tells them apart.
        Err(_) => 0,
    }
}

impl Schema {
    /// Numbers a commit of these tables, which has just been written, and lists it for those who listen. The caller has the
    /// write lock.
    pub(crate) fn note_commit<'t>(
        &self,
        reservation: Reservation,
        tables: impl Iterator<Item = &'t Arc<TableState>> + Clone,
    ) -> u64 {
        let number = self.number_commit(&reservation);
        tables.clone().for_each(|state| state.version.store(number, Ordering::Release));
        if self.commits.is_listed.load(Ordering::SeqCst)
            && let Ok(catalog) = self.catalog()
        {
            let tables = named(&catalog, tables);
            let names = tables.iter().map(|table| table.name.as_str().into()).collect();
            let keys = reservation.differences.map(|differences| of_tables(&tables, differences));
            self.list_commit(number, names, keys.unwrap_or_default());
        }
        number
    }

    /// As [`note_commit`](Self::note_commit), of definitions: the tables with these names were, or are now, others.
    pub(crate) fn note_definition(
        &self,
        reservation: Reservation,
        states: &[Arc<TableState>],
        mut names: Vec<Box<str>>,
    ) {
        let number = self.number_commit(&reservation);
        states.iter().for_each(|state| state.version.store(number, Ordering::Release));
        if self.commits.is_listed.load(Ordering::SeqCst) {
            names.retain(|name| !temporary_name::is_hidden(name));
            names.sort_unstable();
            names.dedup();
            self.list_commit(number, names, Box::default());
        }
    }

    fn number_commit(&self, reservation: &Reservation) -> u64 {
        if let Some(to) = reservation.to {
            self.commits.reserved.store(to, Ordering::Release);
        }
        self.commits.last.fetch_add(1, Ordering::SeqCst) + 1
    }

    #[cold]
    fn list_commit(&self, number: u64, tables: Vec<Box<str>>, keys: Box<[TableKeys]>) {
        if tables.is_empty() {
            return;
        }
        let waiting = {
            let mut list = self.commits.list();
            list.waiting.push_back(Arc::new(Commit { number, tables: tables.into(), keys }));
            list.waiting.len()
        };
        if self.durability() == Durability::Normal {
            // Acknowledged at once, so heard of at once.
            self.commits.show(waiting).into_iter().for_each(Waker::wake);
        }
    }
}

/// The tables that others know, by their names.
fn named<'c, 't>(catalog: &'c Catalog, tables: impl Iterator<Item = &'t Arc<TableState>> + Clone) -> Vec<&'c Table> {
    let is_among = |state: &Arc<TableState>| tables.clone().any(|known| Arc::ptr_eq(known, state));
    let named =
        catalog.tables.values().filter(|table| !temporary_name::is_hidden(&table.name) && is_among(&table.state));
    named.map(|table| &**table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_clock_and_never_go_back() {
        let first = Commits::default();
        first.begin(0);
        assert!(first.last() > 0 && first.last() < 100_000_000_000_000, "{}", first.last());
        // The clock was ahead when the file was written, or another file was there before.
        let ahead = first.last() + 1_000_000_000;
        let second = Commits::default();
        second.begin(ahead);
        assert!(second.last() > ahead);
        second.end();
        let third = Commits::default();
        third.begin(7);
        let begun = third.last();
        assert!(begun > second.last());
        third.begin(ahead * 2);
        assert_eq!(third.last(), begun, "once is enough");
    }
}
