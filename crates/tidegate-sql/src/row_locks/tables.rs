//! Tables without locks, which statements that change definitions wait for.

use std::{
    future::poll_fn,
    task::{Poll, Waker},
};

use super::{Owner, RowLocks, State};

/// Tables that a statement wants without locks, until it is dropped.
pub(crate) struct Wanted<'a> {
    locks: &'a RowLocks,
    tables: Vec<i64>,
}

impl RowLocks {
    /// Waits until nobody holds locks in these tables. New ones may be taken as soon as this has returned.
    pub(crate) async fn tables_are_free(&self, tables: &[i64]) {
        self.wait_for_tables(|state| tables.iter().all(|table| !state.tables.contains_key(table))).await;
    }

    /// Makes it known that somebody wants these tables without locks. Whoever has no lock yet waits in
    /// [`tables_are_unwanted`](Self::tables_are_unwanted) instead of taking the first one there.
    pub(crate) fn want(&self, tables: Vec<i64>) -> Wanted<'_> {
        let mut state = self.lock();
        for table in &tables {
            *state.wanted.entry(*table).or_default() += 1;
        }
        Wanted { locks: self, tables }
    }

    /// Whether somebody wants tables without locks.
    pub(crate) fn any_wanted(&self) -> bool {
        !self.lock().wanted.is_empty()
    }

    /// Waits until nobody wants these tables without locks.
    pub(crate) async fn tables_are_unwanted(&self, tables: &[i64]) {
        self.wait_for_tables(|state| tables.iter().all(|table| !state.wanted.contains_key(table))).await;
    }

    async fn wait_for_tables(&self, is_over: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if is_over(&state) {
                return Poll::Ready(());
            }
            state.table_waiters.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Owner {
    /// Gives back what the owner has locked in a table that nobody else can reach.
    pub(crate) fn release_table(&self, table: i64) {
        self.locks.change(|state| {
            let Some(owner) = state.owners.get_mut(&self.id) else { return };
            let there = owner.held.extract_if(.., |resource| resource.table() == table).collect::<Vec<_>>();
            there.into_iter().for_each(|resource| state.release(self.id, resource));
        });
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.lock();
        for table in &self.tables {
            let Some(count) = state.wanted.get_mut(table) else { continue };
            *count -= 1;
            if *count == 0 {
                state.wanted.remove(table);
            }
        }
        state.table_waiters.drain(..).for_each(Waker::wake);
    }
}
