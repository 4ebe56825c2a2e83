//! A transaction that is its schema's only writer because it has changed much, and whose client does nothing, becomes a private one
//! when others wait to write: a thread lists its changes and locks them. The client's next statement stops that thread, if it has
//! not ended, and has the transaction as it was.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tidegate_rows::ServerError;

use super::transactions::{Bulk, Held, Open, Phase, State};
use crate::store::private::difference::{Listed, Room, list};

/// Has a transaction step back that has rested for `time` at least, if others wait for it and it can.
pub(super) fn begin(open: Arc<Open>, time: Duration) {
    if can_step_back(&open.state(), time).is_some() {
        // If the system has no thread to give, the next look tries again.
        let _ = std::thread::Builder::new().name("sql-step-back".into()).spawn(move || run(open, time));
    }
}

/// What of its parts is to step back.
fn can_step_back(state: &State, time: Duration) -> Option<usize> {
    state.rested().filter(|rested| *rested >= time)?;
    state.held.iter().position(|held| held.bulk.is_some() && held.is_waited_for())
}

fn run(open: Arc<Open>, time: Duration) {
    let mut state = open.state();
    // It may have run and rested again since.
    let Some(index) = can_step_back(&state, time) else { return };
    state.phase = Phase::SteppingBack;
    open.is_wanted.store(false, Ordering::Relaxed);
    let held = state.held.remove(index);
    drop(state);
    let mut place = Place { open, index, held: Some(held) };
    let Place { open, held: Some(held), .. } = &mut place else { return };
    // Whatever goes wrong leaves a transaction that writes alone, as before.
    let _ = held.step_back(&|| !open.is_wanted.load(Ordering::Relaxed));
}

/// Where a transaction has what the thread has taken; that goes back when this is dropped.
struct Place {
    open: Arc<Open>,
    index: usize,
    held: Option<Held>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.open.state();
        if let Some(held) = self.held.take() {
            state.held.insert(self.index, held);
        }
        state.phase = Phase::Resting;
        self.open.stepped.notify_all();
    }
}

impl Held {
    /// Becomes what a private transaction holds, if that is possible before `goes_on` says no.
    ///
    /// # Errors
    /// Storage errors.
    fn step_back(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), ServerError> {
        let Some(Bulk { mut former, tables, owner }) = self.bulk.take() else { return Ok(()) };
        let mut private = self.schema.open_private()?;
        let catalog = self.schema.catalog()?;
        let definitions = (self.schema.version(), &*catalog);
        match list(definitions, &self.conn, &mut private, &owner, &mut former, &tables, Room::default(), goes_on)? {
            Listed::All => {}
            Listed::TooMuch => return Ok(()),
            Listed::Interrupted => {
                self.bulk = Some(Bulk { former, tables, owner });
                return Ok(());
            }
        }
        let mut left = std::mem::replace(&mut self.conn, private);
        left.rollback_elsewhere();
        self.left = Some(left);
        if let Some(reader) = self.reader.take() {
            reader.let_go();
        }
        tables.iter().for_each(|table| table.stored_auto.store(0, Ordering::Release));
        owner.keeps_writing_no_more();
        // Behind the rollback: the next writer must find SQLite's own lock free.
        self.guard = None;
        Ok(())
    }
}
