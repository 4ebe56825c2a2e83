//! Sessions that wait for their next user: making one anew costs as much as a point lookup.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tidegate_rows::{Execute, QueryError, ServerError, Sink, Statement};

use super::{Core, Session, sequences};
use crate::{shared::EngineInner, variables};

/// Idle sessions that a thread keeps for each schema.
const IDLE_MAX: usize = 256;

thread_local! {
    static IDLE: RefCell<Vec<Shelf>> = const { RefCell::new(Vec::new()) };
}

/// The idle sessions of an engine in one schema.
struct Shelf {
    engine: Arc<EngineInner>,
    schema: Box<str>,
    sessions: Vec<Session>,
}

/// A session that goes back to its thread's pool when it is dropped: its transaction is rolled back, its variables are
/// those of a new session. A session whose statement was abandoned half-way is closed instead.
pub struct PooledSession {
    session: Option<Session>,
    running: bool,
}

impl PooledSession {
    /// An idle session of this thread, or the one that `make` makes.
    ///
    /// # Errors
    /// Those of `make`.
    #[inline]
    pub(crate) fn take_or(
        engine: &Arc<EngineInner>,
        schema: &str,
        make: impl FnOnce() -> Result<Session, ServerError>,
    ) -> Result<Self, ServerError> {
        let idle = IDLE.with_borrow_mut(|shelves| {
            let shelf = shelves.iter_mut().find(|shelf| shelf.is(engine, schema))?;
            shelf.sessions.pop()
        });
        // `SET GLOBAL` may have been acknowledged after the session was reset.
        let session = match idle.filter(Session::is_open).and_then(Session::up_to_date) {
            Some(session) => session,
            None => make()?,
        };
        Ok(Self { session: Some(session), running: false })
    }
}

impl Session {
    /// Makes the session as good as new, but for its number; answers whether it can serve another user.
    pub fn reset(&mut self) -> bool {
        self.core.come_back();
        // The locks of GET_LOCK and LOCK TABLES go with the environment, after what was done under them.
        self.core.leave_temporary();
        let Core {
            engine,
            above: _,
            schema: _,
            pool: _,
            env,
            transaction,
            prepared,
            last_query,
            watched,
            napping,
            joined,
            waits_as,
            context,
            away_from: _,
            caches,
            batches,
            given_back,
            loads,
        } = &mut self.core;
        (*context, *loads) = (None, None);
        if let Some(mut transaction) = transaction.take() {
            transaction.rollback();
        }
        prepared.clear();
        given_back.clear();
        *last_query = None;
        *watched = None;
        *napping = None;
        *joined = None;
        *waits_as = None;
        (*caches, *batches) = (true, true);
        let fresh = variables::environment(engine, &env.client);
        fresh.belongs_to(engine);
        fresh.reserves_by(sequences::reserve);
        match Rc::get_mut(env) {
            Some(env) => *env = fresh,
            None => *env = Rc::new(fresh),
        }
        !env.client.is_gone() && self.is_open()
    }

    /// Whether its schema is still there.
    pub(crate) fn is_open(&self) -> bool {
        self.core.schema.as_ref().is_none_or(|schema| !schema.is_closed())
    }

    /// The session for its next user. If new ones begin with other settings by now (`SET GLOBAL`), it is made as good as new; `None`
    /// if it cannot go on. For those who keep sessions between two users.
    #[inline]
    pub fn up_to_date(mut self) -> Option<Self> {
        let (settings, _) = self.core.engine.globals.version();
        (self.core.env.begun_with == settings || self.reset()).then_some(self)
    }
}

impl Shelf {
    fn is(&self, engine: &Arc<EngineInner>, schema: &str) -> bool {
        Arc::ptr_eq(&self.engine, engine) && *self.schema == *schema
    }
}

impl PooledSession {
    /// The session.
    pub fn get(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// The session's number, as `connection_id()` answers.
    pub fn id(&self) -> u64 {
        self.session.as_ref().map_or(0, Session::id)
    }
}

impl Execute for PooledSession {
    async fn execute<S: Sink>(&mut self, statement: Statement<'_>, sink: &mut S) -> Result<(), QueryError> {
        let Some(session) = &mut self.session else { return Err(crate::errors::interrupted().into()) };
        self.running = true;
        let result = session.execute(statement, sink).await;
        self.running = false;
        result
    }
}

impl Drop for PooledSession {
    fn drop(&mut self) {
        let Some(mut session) = self.session.take() else { return };
        if self.running || !session.reset() {
            return;
        }
        // The thread may be ending, and its pool with it.
        let _ = IDLE.try_with(|shelves| {
            let mut shelves = shelves.borrow_mut();
            let schema = session.schema();
            let engine = &session.core.engine;
            let shelf = match shelves.iter().position(|shelf| shelf.is(engine, schema)) {
                Some(at) => &mut shelves[at],
                None => {
                    let shelf = Shelf { engine: Arc::clone(engine), schema: schema.into(), sessions: Vec::new() };
                    shelves.push(shelf);
                    let last = shelves.len() - 1;
                    &mut shelves[last]
                }
            };
            if shelf.sessions.len() < IDLE_MAX {
                shelf.sessions.push(session);
            }
        });
    }
}
