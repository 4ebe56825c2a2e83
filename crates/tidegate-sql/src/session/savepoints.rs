//! Savepoints of a transaction: in SQLite's connections, in the list of a private one, in the list that the schema's writer would
//! go back to.

use super::{Res, transaction::Transaction};
use crate::{
    errors,
    store::{
        conn::to_server_error,
        private::{former::savepoint_name, log::Log, watch::Watch},
    },
};

impl Transaction {
    /// Makes a savepoint; one of the same name goes.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn savepoint(&mut self, name: &str) -> Res<()> {
        self.savepoints.retain(|known| !known.eq_ignore_ascii_case(name));
        let physical = savepoint_name(name);
        self.places.iter_mut().filter_map(|place| place.former.as_mut()).for_each(|former| former.savepoint(&physical));
        self.on_savepoint("SAVEPOINT", &physical, Log::savepoint)?;
        self.savepoints.push(name.to_owned());
        Ok(())
    }

    /// Undoes what happened since a savepoint. A transaction that has become the schema's writer since then is private again.
    ///
    /// # Errors
    /// 1305 if there is none of this name.
    pub(super) fn rollback_to(&mut self, name: &str) -> Res<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        self.forget_stored_autos();
        let physical = savepoint_name(name);
        for place in &mut self.places {
            place.go_back_to(&physical)?;
        }
        self.on_savepoint("ROLLBACK TO", &physical, Log::rollback_to)
    }

    /// Forgets a savepoint and those after it.
    ///
    /// # Errors
    /// 1305 if there is none of this name.
    pub(super) fn release(&mut self, name: &str) -> Res<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        let physical = savepoint_name(name);
        self.places
            .iter_mut()
            .filter_map(|place| place.former.as_mut())
            .for_each(|former| former.log.release(&physical));
        self.on_savepoint("RELEASE", &physical, Log::release)
    }

    /// Does to a savepoint what `verb` says, in each place that has begun; the others get their savepoints when they begin.
    /// `note` does it in the list of a private place.
    fn on_savepoint(&mut self, verb: &str, name: &str, note: fn(&mut Log, &str)) -> Res<()> {
        for conn in self.places.iter_mut().map(|place| &mut place.conn) {
            if let Some(log) = conn.watch().and_then(Watch::log) {
                note(log, name);
            }
            if !conn.is_autocommit() {
                conn.execute(&format!("{verb} {name}")).map_err(|error| to_server_error(&error))?;
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Res<usize> {
        let found = self.savepoints.iter().position(|known| known.eq_ignore_ascii_case(name));
        found.ok_or_else(|| errors::unknown_savepoint(name))
    }
}
