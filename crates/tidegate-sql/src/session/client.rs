//! What a session is to those who serve it to a client from outside.

use std::{sync::Arc, time::Duration};

use tidegate_rows::{QueryError, ServerError};

use super::{Core, Session, checks};
use crate::{
    clients::{Client, Kill},
    errors,
    parse::{KillTarget, account::RoleChoice},
    task, variables,
};

/// `wait_timeout` of a new session.
const WAIT_TIMEOUT_SECONDS: u64 = 28_800;

impl Session {
    /// Who the session belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.core.env.client
    }

    /// Makes it the session of somebody from outside, who is listed until the session goes and may do what the account may:
    /// the user's name, the host that the user has come from with its port, and the host of the account (`%` for any).
    pub fn connect(&self, user: &str, host: &str, account_host: &str) {
        self.client().identify(user, host, account_host);
        self.client().connect();
        self.core.env.set_role(RoleChoice::Default);
    }

    /// Ends what another client does, or its connection.
    ///
    /// # Errors
    /// 1094 if there is none of this number, 1095 if it is somebody else's and that takes a privilege.
    pub fn kill(&self, id: u64, kill: Kill) -> Result<(), ServerError> {
        checks::check_kill(&self.core, &KillTarget::Id(id))?;
        if self.core.engine.clients.kill(id, kill) { Ok(()) } else { Err(errors::unknown_thread(id)) }
    }

    /// Has another current schema from now on.
    ///
    /// # Errors
    /// 1049 if it does not exist, 1044 if its user may do nothing there.
    pub fn change_schema(&mut self, name: &str) -> Result<(), ServerError> {
        self.core.env.access().want_schema(name)?;
        self.core.use_schema(name)
    }

    /// Has no current schema from now on.
    pub fn leave_schema(&mut self) {
        self.core.leave_schema();
    }

    /// The server's status bits, as an OK packet has them.
    pub fn status(&self) -> u16 {
        self.core.status()
    }

    /// Has the character set and collation of this number for texts that come and go, as after SET NAMES. Those of a new
    /// session stay where the engine does not know the number.
    pub fn set_collation(&self, number: u16) {
        variables::set_connection(&self.core.env, number);
    }

    /// Whether a text may hold several statements (`CLIENT_MULTI_STATEMENTS`), as in a new session; otherwise none of it runs: 1064.
    pub fn set_batches(&mut self, allowed: bool) {
        self.core.batches = allowed;
    }

    /// Whether affected rows are those that an UPDATE has found rather than changed (`CLIENT_FOUND_ROWS`).
    pub fn set_found_rows(&mut self, found: bool) {
        self.core.env.found_rows_flag.set(found);
    }

    /// What `@@name` shows for the session of a variable whose value the session's owner decides.
    pub fn show_variable(&self, name: &'static str, value: String) {
        self.core.env.system.borrow_mut().insert(name, value);
    }

    /// How long the client may be idle: `wait_timeout`, which it may have set.
    pub fn idle_time_max(&self) -> Duration {
        let system = self.core.env.system.borrow();
        let seconds = system.get("wait_timeout").and_then(|seconds| seconds.parse().ok());
        Duration::from_secs(seconds.unwrap_or(WAIT_TIMEOUT_SECONDS))
    }
}

impl Core {
    /// Says in an error that a statement was interrupted why it was, and notes it for SHOW WARNINGS.
    pub(super) fn explain_interruption(&self, error: &mut QueryError) {
        let QueryError::Server(error) = error else { return };
        if error.code == errors::INTERRUPTED && task::has_read_for_too_long() {
            *error = errors::read_for_too_long();
        } else if error.code == errors::INTERRUPTED && self.env.client.is_killed() {
            *error = self.env.client.kill_error();
        } else if error.code == errors::INTERRUPTED && task::is_out_of_time() {
            *error = errors::statement_timeout();
        }
        self.env.note_error(error);
    }
}

/// A text that runs for a client.
pub(crate) struct Over<'a>(&'a Client);

impl<'a> Over<'a> {
    /// It begins.
    pub(crate) fn of(client: &'a Client) -> Self {
        client.begin();
        Self(client)
    }
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
