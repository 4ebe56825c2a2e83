//! A session that a script holds from BEGIN to COMMIT.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::rc::Rc;

use tidegate_rows::QueryError;
use tidegate_sql::PooledSession;

use super::{Refusal, engine};
use crate::socket::Closing;
use crate::userdata::Userdata;

/// One transaction's session.
pub(crate) struct Link {
    session: RefCell<Option<PooledSession>>,
    state: Cell<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// BEGIN has not run yet.
    New,
    /// Between BEGIN and COMMIT.
    Open,
    /// The engine has rolled it back, for an error.
    RolledBack,
    /// A statement has ended it: DDL, or COMMIT as text.
    Ended,
    /// Given back.
    Closed,
}

/// What the script holds.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Rc<Link>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.sql.link";
    const TYPE_NAME: &'static str = "transaction";
}

/// The session while a statement runs on it.
pub(crate) struct Taken {
    link: Rc<Link>,
    session: Option<PooledSession>,
}

impl Link {
    /// A session in a schema.
    ///
    /// # Errors
    /// No engine, no such schema.
    pub(crate) fn open(schema: &str) -> Result<Rc<Self>, Refusal> {
        let session = engine()?.pooled_session(schema)?;
        Ok(Rc::new(Self { session: RefCell::new(Some(session)), state: Cell::new(State::New) }))
    }

    /// Takes the session for a statement.
    ///
    /// # Errors
    /// When another statement runs on it, or the transaction is over.
    pub(crate) fn take(self: &Rc<Self>) -> Result<Taken, Refusal> {
        let over = match self.state.get() {
            State::New | State::Open => None,
            State::RolledBack => Some("the transaction was rolled back by an earlier error"),
            State::Ended => Some("the transaction was ended by a statement in it"),
            State::Closed => Some("the transaction is over"),
        };
        if let Some(over) = over {
            return Err(Refusal::plain(over));
        }
        match self.session.take() {
            Some(session) => Ok(Taken { link: Rc::clone(self), session: Some(session) }),
            None => Err(Refusal::plain("the transaction is busy with another statement; were all its rows() read?")),
        }
    }

    /// Whether it can still be committed.
    pub(crate) fn is_open(&self) -> bool {
        self.state.get() == State::Open
    }

    /// Whether its session was given back.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.get() == State::Closed
    }
}

impl Closing for Link {
    /// Rolls back what is open and gives the session back.
    fn close_now(&self) {
        self.state.set(State::Closed);
        drop(self.session.take());
    }
}

impl Taken {
    /// The session.
    pub(crate) fn session(&mut self) -> &mut PooledSession {
        // Taken out only when this is dropped.
        self.session.as_mut().expect("a session until the end")
    }

    /// Looks whether the transaction has survived a statement.
    pub(crate) fn note_end(&mut self, ran: &Result<(), QueryError>) {
        let open = self.session().get().is_some_and(|session| session.in_transaction());
        let state = match (open, self.link.state.get()) {
            (_, State::Closed) => State::Closed,
            (true, _) => State::Open,
            (false, State::New) => State::New,
            (false, _) if ran.is_err() => State::RolledBack,
            (false, _) => State::Ended,
        };
        self.link.state.set(state);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.link.state.get() != State::Closed {
            *self.link.session.borrow_mut() = self.session.take();
        }
    }
}
