//! Connections of one thread to one schema.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    task::Waker,
};

use tidegate_rows::ServerError;

use super::{Group, group::Returning, settling::Settling};
use crate::{cache::StatementCache, schema::Schema, store::conn::Conn};

/// Connections kept open and idle per thread and schema, of each kind.
const IDLE_MAX: usize = 32;
/// Connections that a thread keeps open and idle, to all schemas.
const IDLE_OF_THREAD_MAX: usize = 128;

thread_local! {
    static POOLS: RefCell<HashMap<u64, Rc<Pool>>> = RefCell::default();
    /// How many idle connections this thread has.
    static IDLE: Cell<usize> = const { Cell::new(0) };
    /// Counts connections that were given back, as a clock.
    static GIVEN_BACK: Cell<u64> = const { Cell::new(0) };
}

/// The idle connections of this thread to a schema.
pub(crate) struct Pool {
    /// The schema that the connections are open on.
    pub(crate) schema: Arc<Schema>,
    #[allow(clippy::vec_box, reason = "connections move between owners; only their address moves")]
    idle: RefCell<Vec<Box<Conn>>>,
    /// Those that do not check foreign keys: to change that has a connection prepare all its statements anew.
    #[allow(clippy::vec_box, reason = "as above")]
    unchecked: RefCell<Vec<Box<Conn>>>,
    /// Those for private changes.
    #[allow(clippy::vec_box, reason = "as above")]
    private: RefCell<Vec<Box<Conn>>>,
    opened: Cell<usize>,
    /// The count of this thread when a connection was last given back.
    used: Cell<u64>,
    /// The plans that sessions with this current schema have made, for connections that do not know them yet.
    pub(crate) plans: RefCell<StatementCache>,
    /// The statements of this thread that are about to commit together.
    group: RefCell<Option<Rc<Group>>>,
    /// Whom the group may wait for.
    pub(super) returning: Returning,
    /// Statements that wait until they may join them.
    waiting: RefCell<Vec<Waker>>,
    /// Transactions of this thread that wait for the disk.
    pub(super) settling: Settling,
}

/// Entries of the caches of a pool, of its connections, and of its private connections.
#[cfg(test)]
pub(crate) struct Known {
    pub(crate) plans: usize,
    pub(crate) plain: usize,
    pub(crate) private: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("schema", &self.schema.name).finish_non_exhaustive()
    }
}

impl Pool {
    /// This thread's pool for `schema`.
    pub(crate) fn of(schema: &Arc<Schema>) -> Rc<Self> {
        POOLS.with_borrow_mut(|pools| {
            pools.retain(|_, pool| !pool.schema.is_closed());
            let pool = pools.entry(schema.id).or_insert_with(|| {
                Rc::new(Self {
                    schema: Arc::clone(schema),
                    idle: RefCell::default(),
                    unchecked: RefCell::default(),
                    private: RefCell::default(),
                    opened: Cell::new(0),
                    used: Cell::new(0),
                    plans: RefCell::default(),
                    group: RefCell::default(),
                    returning: Returning::default(),
                    waiting: RefCell::default(),
                    settling: Settling::default(),
                })
            });
            Rc::clone(pool)
        })
    }

    /// Closes this thread's idle connections to schemas that have been closed or dropped.
    pub(crate) fn purge() {
        let _ = POOLS.try_with(|pools| {
            if let Ok(mut pools) = pools.try_borrow_mut() {
                pools.retain(|_, pool| !pool.schema.is_closed());
            }
        });
    }

    /// An idle connection, or a new one. It may check foreign keys or not.
    ///
    /// # Errors
    /// 1049 or 1030 if the schema was dropped or lost; what SQLite says when it cannot open the file.
    #[inline]
    pub(crate) fn take(&self) -> Result<Box<Conn>, ServerError> {
        self.take_from(&self.idle, &self.unchecked)
    }

    /// As [`take`](Self::take), one that does not check foreign keys.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn take_unchecked(&self) -> Result<Box<Conn>, ServerError> {
        let mut conn = self.take_from(&self.unchecked, &self.idle)?;
        conn.enforce_foreign_keys(false);
        Ok(conn)
    }

    #[inline]
    #[allow(clippy::vec_box, reason = "as above")]
    fn take_from(
        &self,
        first: &RefCell<Vec<Box<Conn>>>,
        second: &RefCell<Vec<Box<Conn>>>,
    ) -> Result<Box<Conn>, ServerError> {
        if self.schema.is_closed() {
            return Err(self.schema.why_closed());
        }
        let idle = first.borrow_mut().pop().or_else(|| second.borrow_mut().pop());
        if let Some(conn) = idle {
            IDLE.set(IDLE.get() - 1);
            return Ok(conn);
        }
        self.opened.set(self.opened.get() + 1);
        self.schema.open()
    }

    /// An idle private connection, or a new one.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn take_private(&self) -> Result<Box<Conn>, ServerError> {
        if self.schema.is_closed() {
            return Err(self.schema.why_closed());
        }
        if let Some(conn) = self.private.borrow_mut().pop() {
            IDLE.set(IDLE.get() - 1);
            return Ok(conn);
        }
        self.schema.open_private()
    }

    /// How many entries its caches have.
    #[cfg(test)]
    pub(crate) fn known(&self) -> Known {
        let of = |conns: &mut [Box<Conn>]| conns.iter_mut().map(|conn| StatementCache::of(conn).len()).sum();
        let plain = of(&mut self.idle.borrow_mut()) + of(&mut self.unchecked.borrow_mut());
        let private = of(&mut self.private.borrow_mut());
        Known { plans: self.plans.borrow().len(), plain, private }
    }

    /// The open group of this thread.
    #[inline]
    pub(crate) fn group(&self) -> Option<Rc<Group>> {
        self.group.borrow().clone()
    }

    /// Opens or closes the group of this thread.
    pub(crate) fn set_group(&self, group: Option<Rc<Group>>) {
        *self.group.borrow_mut() = group;
    }

    /// Wakes when a group has been opened or closed, or has its connection back.
    pub(crate) fn wait_for_group(&self, waker: &Waker) {
        self.waiting.borrow_mut().push(waker.clone());
    }

    /// Wakes whoever waits for a group.
    #[inline]
    pub(crate) fn wake_waiting(&self) {
        if !self.waiting.borrow().is_empty() {
            for waker in self.waiting.take() {
                waker.wake();
            }
        }
    }

    /// Gives a connection back. Whatever transaction is still open is rolled back.
    #[inline]
    pub(crate) fn put(&self, mut conn: Box<Conn>) {
        if !conn.is_autocommit() {
            conn.rollback();
        }
        drop(conn.set_watch(None));
        conn.forget_keys();
        let (idle, others) = match conn.is_private() {
            true => (&self.private, 0),
            false if conn.enforces_foreign_keys() => (&self.idle, self.unchecked.borrow().len()),
            false => (&self.unchecked, self.idle.borrow().len()),
        };
        if idle.borrow().len() + others >= IDLE_MAX || !conn.attached.is_empty() || self.schema.is_closed() {
            return;
        }
        let (count, now) = (IDLE.get() + 1, GIVEN_BACK.get() + 1);
        IDLE.set(count);
        GIVEN_BACK.set(now);
        self.used.set(now);
        idle.borrow_mut().push(conn);
        if count > IDLE_OF_THREAD_MAX {
            close_oldest();
        }
    }

    /// Closes an idle connection; answers whether there was one.
    fn close_one(&self) -> bool {
        let mut kinds = [&self.private, &self.unchecked, &self.idle].into_iter();
        let conn = kinds.find_map(|kind| kind.borrow_mut().pop());
        if conn.is_some() {
            IDLE.set(IDLE.get() - 1);
        }
        conn.is_some()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let closed = self.idle.get_mut().len() + self.unchecked.get_mut().len() + self.private.get_mut().len();
        // A thread that ends counts no more.
        let _ = IDLE.try_with(|idle| idle.set(idle.get() - closed));
    }
}

/// Closes an idle connection of this thread to the schema that it has not used for the longest time.
#[cold]
fn close_oldest() {
    POOLS.with_borrow(|pools| {
        let mut pools: Vec<&Rc<Pool>> = pools.values().collect();
        pools.sort_unstable_by_key(|pool| pool.used.get());
        // The first one, unless all its connections are in use.
        let _ = pools.into_iter().any(|pool| pool.close_one());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions, value::collation::Collation};

    #[test]
    fn a_thread_keeps_some_connections_to_all_schemas() {
        let path = std::env::temp_dir().join(format!("tidegate-sql-pool-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let engine = Engine::open(EngineOptions::new(&path)).unwrap();
        let pools: Vec<Rc<Pool>> = (0..6)
            .map(|number| {
                let name = format!("s{number}");
                engine.inner.directory.create_schema(&name, Collation::DEFAULT, false).unwrap();
                Pool::of(&engine.inner.schema(&name).unwrap())
            })
            .collect();
        let idle = |pool: &Pool| {
            [&pool.idle, &pool.unchecked, &pool.private].iter().map(|kind| kind.borrow().len()).sum::<usize>()
        };
        let use_some = |pool: &Pool, count: usize| {
            let conns: Vec<_> = (0..count).map(|_| pool.take().unwrap()).collect();
            conns.into_iter().for_each(|conn| pool.put(conn));
        };
        // One that has not checked foreign keys does so no more for others, but for who wants it so.
        pools[0].put(pools[0].take_unchecked().unwrap());
        let (unchecked, other) = (pools[0].take_unchecked().unwrap(), pools[0].take().unwrap());
        assert!(!unchecked.enforces_foreign_keys() && other.enforces_foreign_keys());
        for conn in [other, unchecked] {
            pools[0].put(conn);
        }
        assert!(pools[0].take_unchecked().is_ok_and(|conn| !conn.enforces_foreign_keys()));
        assert!(pools[0].take().is_ok_and(|conn| conn.enforces_foreign_keys()));
        // A private connection can be opened where another one is.
        use_some(&pools[0], 1);
        pools[0].put(pools[0].take_private().unwrap());
        for pool in &pools {
            use_some(pool, IDLE_MAX + 3);
        }
        // The one that was used first has given up what it had for the last one, and the next one the rest.
        let counts: Vec<usize> = pools.iter().map(|pool| idle(pool)).collect();
        assert_eq!(counts, [0, 0, IDLE_MAX, IDLE_MAX, IDLE_MAX, IDLE_MAX]);
        assert_eq!(IDLE.get(), IDLE_OF_THREAD_MAX);
        use_some(&pools[0], 1);
        assert_eq!((idle(&pools[0]), idle(&pools[2])), (1, IDLE_MAX - 1));
        drop((pools, engine));
        assert_eq!(IDLE.get(), 0, "connections that are closed do not count");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
