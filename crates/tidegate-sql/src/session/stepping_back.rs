//! A transaction that has become the schema's writer because it changes much is a private one again when that was in vain, and
//! when others of a circle wait for nothing but its write lock.

use std::sync::Arc;

use super::{
    Res,
    transaction::{Place, Transaction},
    waiting::{WaitLimit, wait_for},
};
use crate::{
    catalog::TableState,
    env::Env,
    errors,
    row_locks::{Broken, Mode, Resource},
    store::{
        conn::Conn,
        private::{
            difference::{Listed, Room, list},
            former::Former,
            log::Log,
            watch::{Purpose, Watch},
        },
    },
    waits::Kind,
};

impl Place {
    /// Changes to a private connection, which begins with a list when it is used next. Gives the write lock back.
    ///
    /// # Errors
    /// Those of opening a connection; nothing has changed then.
    pub(super) fn become_private(&mut self, log: Log) -> Res<()> {
        let mut conn = self.pool.take_private()?;
        log.forget_stored_autos();
        let owner = self.owner();
        conn.set_watch(Some(Box::new(Watch::new(Purpose::Private { owner, log }))));
        self.leave_writer(conn);
        Ok(())
    }

    fn leave_writer(&mut self, conn: Box<Conn>) {
        self.pool.put(std::mem::replace(&mut self.conn, conn));
        self.reader = None;
        self.former = None;
        if self.guard.is_some() {
            self.owner().keeps_writing_no_more();
            self.guard = None;
        }
    }

    /// Is the private transaction of before again, if the writer has changed nothing since. Answers whether it is.
    fn give_up_in_vain(&mut self) -> bool {
        let owner = self.owner();
        let is_in_vain = |former: &mut Former| !former.has_written && former.notes.lock(&owner, &|| true);
        let Some(former) = self.former.take_if(is_in_vain) else { return false };
        // One that cannot be opened leaves a writer that has to end.
        self.become_private(former.log).is_ok()
    }

    /// Is the private transaction of before again, as it was at a savepoint of then. Answers whether it is.
    ///
    /// # Errors
    /// As [`become_private`](Self::become_private).
    pub(super) fn go_back_to(&mut self, savepoint: &str) -> Res<bool> {
        let owner = self.owner();
        // What was changed since is locked as it was, like all that a private transaction takes back.
        let can_go = |former: &mut Former| former.log.has_savepoint(savepoint) && former.notes.lock(&owner, &|| true);
        let Some(mut former) = self.former.take_if(can_go) else { return Ok(false) };
        former.log.rollback_to(savepoint);
        self.become_private(former.log)?;
        Ok(true)
    }

    /// Is a private transaction with all its changes: those in `tables` that the list of before does not have are found by
    /// comparison. False if that is not possible; it is the writer then.
    ///
    /// # Errors
    /// Storage errors.
    fn step_back(&mut self, tables: &[Arc<TableState>], savepoints: &[String]) -> Res<bool> {
        let catalog = self.pool.schema.catalog()?;
        let definitions = (self.pool.schema.version(), &*catalog);
        // What it was at a savepoint of later cannot be found.
        let Some(mut former) = self.former.take_if(|former| former.knows(savepoints)) else { return Ok(false) };
        let mut conn = self.pool.take_private()?;
        let owner = self.owner();
        match list(definitions, &self.conn, &mut conn, &owner, &mut former, tables, Room::default(), &|| true) {
            Ok(Listed::All) => {
                self.leave_writer(conn);
                Ok(true)
            }
            other => {
                self.pool.put(conn);
                other.map(|_| false)
            }
        }
    }
}

impl Transaction {
    /// Is not the schema's writer any more if nothing that the transaction has done needs it: the statement that has made it
    /// that has failed, or waits for a row and will run again. `was_writer` before that statement began.
    pub(super) fn give_up_writing(&mut self, env: &Env, was_writer: bool) {
        let has_reason =
            was_writer || env.has_tables() || self.runs_alone() || self.changed > 0 || !self.touched.is_empty();
        let Some(place) = self.place().ok().filter(|place| place.guard.is_some()) else { return };
        if place.give_up_in_vain() || has_reason || place.former.is_some() {
            return;
        }
        place.conn.rollback();
        place.reader = None;
        place.owner().keeps_writing_no_more();
        place.guard = None;
    }

    /// Gives the write lock back for which others wait in a circle, if nothing but the amount of changes needs it. Otherwise it
    /// keeps that, and somebody in the circle has to end.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn step_back(&mut self) -> Res<bool> {
        let (touched, savepoints) = (self.touched.clone(), self.savepoints.clone());
        let has_stepped_back = self.place()?.step_back(&touched, &savepoints)?;
        if has_stepped_back {
            self.forget_stored_autos();
        }
        Ok(has_stepped_back)
    }

    /// Waits for a row or key, as somebody who keeps the write lock only if it must.
    ///
    /// # Errors
    /// 1205 if it takes too long; 1213 if others wait for this transaction in turn, storage errors.
    pub(super) fn wait_for(&mut self, env: &Env, resource: Resource, mode: Mode) -> Res<()> {
        let limit = WaitLimit::begin(env);
        loop {
            limit.set_rest();
            let owner = self.place()?.owner_that_waits();
            let rows = Arc::clone(owner.locks());
            let blockers = || rows.blockers_of(env.connection_id);
            match wait_for(env, Kind::Rows, blockers, owner.wait(resource, mode))? {
                Ok(()) => return Ok(()),
                Err(Broken::Deadlock) => return Err(errors::deadlock()),
                Err(Broken::StepBack) if self.step_back()? => {}
                Err(Broken::StepBack) => self.place()?.former = None,
            }
        }
    }
}
