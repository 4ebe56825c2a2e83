//! A session with a database: what an object holds while it is connected, and what its pool keeps.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;
use std::time::Duration;

use tidegate_mysql::{Conn, Histogram};
use tidegate_sql::Session;

use crate::socket::pool::{Place, Pooled, Pools};

/// What statements run on.
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
    /// How often it came out of its pool.
    pub(super) reused: u64,
    /// It counts in this pool.
    pub(super) place: Option<Place<Link>>,
}

impl Link {
    pub(super) fn new(backend: Backend, place: Option<Place<Link>>) -> Self {
        Self { backend, reused: 0, place }
    }

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

    /// Version of the server.
    pub(super) fn server_version(&self) -> &[u8] {
        match &self.backend {
            Backend::Server(conn) => conn.server_version(),
            Backend::Embedded(embedded) => embedded.version.as_bytes(),
        }
    }

    /// Notes how a statement went, if the session has a pool.
    pub(super) fn note_statement(&self, took: Duration, is_error: bool) {
        if let Some(place) = &self.place {
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
    const NAME: &'static str = "lua tcp socket";

    fn pools() -> &'static LocalKey<Pools<Self>> {
        &POOLS
    }

    fn is_quiet(&mut self) -> bool {
        self.is_open()
    }

    fn note_reuse(&mut self) {
        self.reused += 1;
    }
}
