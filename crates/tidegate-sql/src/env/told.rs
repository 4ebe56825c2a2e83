//! What a client hears of changes of its session (`CLIENT_SESSION_TRACK`).

use std::cell::{Cell, RefCell};

use tidegate_rows::SessionChange;

use super::Env;

/// Changes that the next OK packet tells of.
#[derive(Default)]
pub(crate) struct Told {
    /// Whether anybody listens.
    on: Cell<bool>,
    changes: RefCell<Vec<SessionChange>>,
}

impl Env {
    /// Takes the changes that were noted.
    #[inline]
    pub(crate) fn take_changes(&self) -> Box<[SessionChange]> {
        if !self.told.on.get() {
            return Box::default();
        }
        self.told.changes.take().into()
    }

    /// Notes that the session has another current schema.
    pub(crate) fn note_schema(&self, name: &str) {
        let wanted = self.told.on.get() && self.is_on("session_track_schema", true);
        if wanted {
            self.note_change(SessionChange::Schema(name.to_owned()));
        }
    }

    /// Whether anybody hears of changes.
    #[inline]
    pub(crate) fn tells_changes(&self) -> bool {
        self.told.on.get()
    }

    /// Has changes heard of from now on.
    pub(crate) fn tell_changes(&self) {
        self.told.on.set(true);
    }

    /// Notes that a system variable was set.
    pub(crate) fn note_variable(&self, name: &'static str, value: String) {
        self.note_change(SessionChange::Variable(name, value));
    }

    fn note_change(&self, change: SessionChange) {
        let mut changes = self.told.changes.borrow_mut();
        // The last value is the one that counts; a statement may set a variable many times.
        changes.retain(|known| match (known, &change) {
            (SessionChange::Variable(known, _), SessionChange::Variable(new, _)) => known != new,
            (known, new) => std::mem::discriminant(known) != std::mem::discriminant(new),
        });
        changes.push(change);
        if self.is_on("session_track_state_change", false) && !changes.contains(&SessionChange::State) {
            changes.push(SessionChange::State);
        }
    }

    fn is_on(&self, name: &str, initially: bool) -> bool {
        self.system.borrow().get(name).map_or(initially, |value| matches!(value.as_str(), "1" | "ON" | "TRUE"))
    }
}
