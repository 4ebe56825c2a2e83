//! A session with a database: what an object holds while it is connected, and what its pool keeps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::thread::LocalKey;
use std::time::Duration;

use tidegate_mysql::{Conn, Histogram};
use tidegate_rows::QueryError;
use tidegate_sql::Session;

use super::login::Login;
use crate::socket::pool::{Place, Pooled, Pools};

/// The back end that runs the statements.
pub(super) enum Backend {
    /// A connection to a server.
    Server(Box<Conn>),
    /// The engine inside the process.
    Embedded(Box<Embedded>),
}

/// A session with the embedded engine.
pub(super) struct Embedded {
    pub(super) session: Session,
    /// What the engine says that it is.
    pub(super) version: Box<str>,
}

/// A session.
pub(super) struct Link {
    pub(super) backend: Backend,
    pub(super) membership: Membership,
}

/// What a session has beside what statements run on: all that its pool must know.
pub(super) struct Membership {
    /// The login that the session was made for.
    pub(super) login: Rc<Login<'static>>,
    /// How often it came out of its pool.
    pub(super) reused: u64,
    /// It counts in this pool.
    pub(super) place: Option<Place<Link>>,
}

impl Membership {
    pub(super) fn new(login: Rc<Login<'static>>, place: Option<Place<Link>>) -> Self {
        Self { login, reused: 0, place }
    }
}

/// What it takes to make a session as new.
pub(super) enum Reset {
    /// Nothing more.
    Done,
    /// The server must do it: [`Link::reset_on_server`].
    Due,
    /// It cannot be made so, which is why.
    Impossible(&'static str),
}

impl Link {
    /// Whether it can take a statement, as far as can be told without asking the server.
    pub(super) fn is_open(&mut self) -> bool {
        match &mut self.backend {
            Backend::Server(conn) => conn.is_open(),
            Backend::Embedded(_) => true,
        }
    }

    /// Whether a transaction is open.
    pub(super) fn in_transaction(&self) -> bool {
        match &self.backend {
            Backend::Server(conn) => conn.in_transaction(),
            Backend::Embedded(embedded) => embedded.session.in_transaction(),
        }
    }

    /// Takes everything away that the last user left (variables, temporary tables, locks, settings, another schema), or
    /// says what it takes.
    pub(super) fn reset(&mut self) -> Reset {
        match &mut self.backend {
            Backend::Server(conn) if !conn.has_traces() => Reset::Done,
            Backend::Server(conn) if conn.can_be_reset() => Reset::Due,
            Backend::Server(_) => Reset::Impossible("its schema may have changed, and its login names none"),
            Backend::Embedded(embedded) => {
                if !embedded.session.reset() {
                    return Reset::Impossible("its database was closed");
                }
                if embedded.session.schema().as_bytes() != &*self.membership.login.schema {
                    return Reset::Impossible("its schema has changed");
                }
                embedded.session.set_found_rows(true);
                Reset::Done
            }
        }
    }

    /// The part of a reset that the server does.
    ///
    /// # Errors
    /// The server cannot do it, or does not answer: the session must not be kept.
    pub(super) async fn reset_on_server(&mut self) -> Result<(), QueryError> {
        match &mut self.backend {
            Backend::Server(conn) => conn.reset().await,
            Backend::Embedded(_) => Ok(()),
        }
    }

    /// Version of the server.
    pub(super) fn server_version(&self) -> &[u8] {
        match &self.backend {
            Backend::Server(conn) => conn.server_version(),
            Backend::Embedded(embedded) => embedded.version.as_bytes(),
        }
    }

    /// Notes how a statement went, if the session has a pool.
    pub(super) fn note_statement(&self, took: Duration, is_error: bool) {
        if let Some(place) = &self.membership.place {
            let statements = place.pool().notes();
            statements.latency.borrow_mut().record(took);
            statements.errors.set(statements.errors.get() + u64::from(is_error));
        }
    }

    /// Gives memory back that large results took.
    pub(super) fn shrink(&mut self) {
        if let Backend::Server(conn) = &mut self.backend {
            conn.shrink();
        }
    }
}

thread_local! {
    static POOLS: Pools<Link> = Pools::default();
}

/// What pools note about statements.
#[derive(Default)]
pub(super) struct Statements {
    /// How long they took, from sending to the end of a result.
    pub(super) latency: RefCell<Histogram>,
    pub(super) errors: Cell<u64>,
}

impl Pooled for Link {
    type Notes = Statements;
    type Wanted<'a> = Login<'a>;
    const NAME: &'static str = "lua tcp socket";

    fn pools() -> &'static LocalKey<Pools<Self>> {
        &POOLS
    }

    fn is_quiet(&mut self) -> bool {
        self.is_open()
    }

    fn note_reuse(&mut self) {
        self.membership.reused += 1;
    }

    fn is_wanted(&self, wanted: &Login<'_>) -> bool {
        *self.membership.login == *wanted
    }

    fn own_wish(wanted: Login<'_>) -> Login<'static> {
        wanted.into_owned()
    }
}
