//! What a client hears of changes of its session (`CLIENT_SESSION_TRACK`).

use tidegate_rows::SessionChange;

use super::Session;

impl Session {
    /// Has the ends of results tell what has changed of the session. It ends with [`reset`](Session::reset).
    pub fn tell_changes(&self) {
        self.core.env.tell_changes();
    }

    /// Takes the changes that no result has told of yet.
    pub fn changes_to_tell(&self) -> Box<[SessionChange]> {
        self.core.env.take_changes()
    }
}
