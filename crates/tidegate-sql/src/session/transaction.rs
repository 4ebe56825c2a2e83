//! Transactions: which connection a session holds, and how it comes to write.
//!
//! A transaction belongs to one schema: the first statement's. It starts reading with a snapshot of its own (or, READ
//! COMMITTED, with none) and takes the schema's write lock with its first write. If others have committed
//! since the snapshot, writing on it would lose their changes: that is error 1213, which clients repeat.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::{Core, Env};
use crate::{
    catalog::TableState,
    engine::{Durability, Schema},
    errors,
    store::{
        conn::{Conn, to_server_error},
        pool::Pool,
        readers::Reader,
        writer::WriteGuard,
    },
    task,
};

type Res<T> = Result<T, ServerError>;

/// An open transaction, explicit or around one statement.
pub(super) struct Transaction {
    explicit: bool,
    pub(super) read_only: bool,
    place: Option<Place>,
    /// Savepoints made before there was a connection.
    savepoints: Vec<String>,
    touched: Vec<Arc<TableState>>,
}

/// The connection of a transaction that has begun to work.
struct Place {
    conn: Option<Box<Conn>>,
    pool: Rc<Pool>,
    guard: Option<WriteGuard>,
    /// Its place among the readers of the schema, once it has a snapshot.
    reader: Option<Arc<Reader>>,
}

impl Transaction {
    /// A transaction that has not touched anything yet.
    pub(super) fn new(explicit: bool) -> Self {
        Self { explicit, read_only: false, place: None, savepoints: Vec::new(), touched: Vec::new() }
    }

    /// Whether the user has begun it (or autocommit is off).
    pub(super) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// Whether it belongs to a schema yet.
    pub(super) fn has_schema(&self) -> bool {
        self.place.is_some()
    }

    /// Binds the transaction to a schema.
    ///
    /// # Errors
    /// 1235 if it belongs to another one.
    pub(super) fn open(&mut self, schema: &Arc<Schema>) -> Res<()> {
        if self.reader().is_some_and(|reader| reader.has_ended()) {
            return Err(errors::read_for_too_long());
        }
        if let Some(place) = &self.place {
            if Arc::ptr_eq(&place.pool.schema, schema) {
                return Ok(());
            }
            return Err(errors::unsupported("a transaction over several schemas"));
        }
        let pool = Pool::of(schema);
        let conn = pool.take().map_err(|error| to_server_error(&error))?;
        self.place = Some(Place { conn: Some(conn), pool, guard: None, reader: None });
        Ok(())
    }

    /// The connection, if there is one.
    pub(super) fn conn_mut(&mut self) -> Option<&mut Conn> {
        self.place.as_mut()?.conn.as_deref_mut()
    }

    /// The connection.
    ///
    /// # Errors
    /// None after [`open`](Self::open).
    pub(super) fn conn(&mut self) -> Res<&mut Conn> {
        self.conn_mut().ok_or_else(|| errors::internal("a transaction without connection"))
    }

    fn begun(
        &mut self,
        env: &Env,
        begin: impl FnOnce(&mut Conn) -> Result<(), crate::store::conn::SqliteError>,
    ) -> Res<()> {
        let savepoints = self.savepoints.clone();
        let conn = self.conn()?;
        if conn.is_autocommit() {
            conn.check_foreign_keys(env.foreign_keys.get()).map_err(|error| to_server_error(&error))?;
            begin(conn).map_err(|error| to_server_error(&error))?;
            for name in savepoints {
                conn.execute(&format!("SAVEPOINT {}", savepoint_name(&name)))
                    .map_err(|error| to_server_error(&error))?;
            }
        }
        Ok(())
    }

    /// Makes the transaction ready to read.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn read(&mut self, env: &Env) -> Res<()> {
        // READ COMMITTED: each statement sees the newest commit until the transaction writes.
        if env.read_committed.get() && self.savepoints.is_empty() {
            return Ok(());
        }
        if !self.explicit {
            return Ok(());
        }
        self.begun(env, Conn::begin)?;
        if let Some(place) = &mut self.place
            && place.reader.is_none()
        {
            place.reader = Some(place.pool.schema.readers.add(env.connection_id, Instant::now()));
        }
        Ok(())
    }

    /// Its place among those who hold a snapshot, if it does.
    pub(super) fn reader(&self) -> Option<&Arc<Reader>> {
        self.place.as_ref()?.reader.as_ref()
    }

    /// Makes the transaction ready to write: waits for the lock.
    ///
    /// # Errors
    /// 1205 if the wait takes too long, 1213 if others have committed since the snapshot, 1792 in a read-only transaction.
    pub(super) fn write(&mut self, env: &Env) -> Res<()> {
        if self.read_only {
            return Err(errors::read_only_transaction());
        }
        let place = self.place.as_mut().ok_or_else(|| errors::internal("a transaction without schema"))?;
        let schema = Arc::clone(&place.pool.schema);
        if place.guard.is_none() {
            if schema.sync.has_failed() {
                return Err(errors::read_only());
            }
            place.guard = Some(acquire(&schema, env)?);
        }
        let conn = self.conn()?;
        if conn.is_autocommit() {
            return self.begun(env, Conn::begin_immediate);
        }
        // The transaction reads already: this takes SQLite's own write lock on the same snapshot, or fails.
        match conn.execute("UPDATE tg_meta SET value = value WHERE 0") {
            Ok(()) => Ok(()),
            Err(error) if error.code == ffi::SQLITE_BUSY_SNAPSHOT => Err(errors::deadlock()),
            Err(error) => Err(to_server_error(&error)),
        }
    }

    /// Notes tables that have changed.
    pub(super) fn touch(&mut self, tables: &[Arc<TableState>]) {
        for table in tables {
            if !self.touched.iter().any(|known| Arc::ptr_eq(known, table)) {
                self.touched.push(Arc::clone(table));
            }
        }
    }

    /// Undoes everything and gives the connection back.
    pub(super) fn rollback(&mut self) {
        if let Some(mut place) = self.place.take()
            && let Some(mut conn) = place.conn.take()
        {
            conn.rollback();
            place.pool.put(conn);
            for table in self.touched.drain(..) {
                // What the file says about AUTO_INCREMENT has been undone too.
                table.stored_auto.store(0, Ordering::Release);
            }
        }
    }

    /// Makes a savepoint; one of the same name goes.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn savepoint(&mut self, name: &str) -> Res<()> {
        self.savepoints.retain(|known| !known.eq_ignore_ascii_case(name));
        if let Some(conn) = self.conn_mut().filter(|conn| !conn.is_autocommit()) {
            conn.execute(&format!("SAVEPOINT {}", savepoint_name(name))).map_err(|error| to_server_error(&error))?;
        }
        self.savepoints.push(name.to_owned());
        Ok(())
    }

    /// Undoes what happened since a savepoint.
    ///
    /// # Errors
    /// 1305 if there is none of this name.
    pub(super) fn rollback_to(&mut self, name: &str) -> Res<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        if let Some(conn) = self.conn_mut().filter(|conn| !conn.is_autocommit()) {
            conn.execute(&format!("ROLLBACK TO {}", savepoint_name(name))).map_err(|error| to_server_error(&error))?;
        }
        Ok(())
    }

    /// Forgets a savepoint and those after it.
    ///
    /// # Errors
    /// 1305 if there is none of this name.
    pub(super) fn release(&mut self, name: &str) -> Res<()> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        if let Some(conn) = self.conn_mut().filter(|conn| !conn.is_autocommit()) {
            conn.execute(&format!("RELEASE {}", savepoint_name(name))).map_err(|error| to_server_error(&error))?;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Res<usize> {
        let found = self.savepoints.iter().position(|known| known.eq_ignore_ascii_case(name));
        found.ok_or_else(|| errors::unknown_savepoint(name))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.rollback();
    }
}

/// SQLite's name of a savepoint: letters and digits only.
fn savepoint_name(name: &str) -> String {
    let plain: String = name.bytes().map(|byte| format!("{:02x}", byte.to_ascii_lowercase())).collect();
    format!("sp{plain}")
}

/// Waits for the write lock of a schema.
///
/// # Errors
/// 1205 if it takes too long.
pub(crate) fn acquire(schema: &Arc<Schema>, env: &Env) -> Res<WriteGuard> {
    if let Some(guard) = env.lend(schema).or_else(|| schema.writer.try_acquire()) {
        return Ok(guard);
    }
    let wait = tokio::time::timeout(env.lock_wait.get(), schema.writer.acquire());
    match task::block_on(wait) {
        Ok(Ok(guard)) => Ok(guard),
        Ok(Err(_)) => Err(errors::lock_wait_timeout()),
        Err(task::Cancelled) => Err(errors::interrupted()),
    }
}

impl Core {
    /// With autocommit off a statement opens a transaction.
    pub(super) fn begin_implicitly(&mut self) {
        if !self.env.autocommit.get() && self.transaction.is_none() {
            self.transaction = Some(Transaction::new(true));
        }
    }

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) fn commit_open(&mut self) -> Res<()> {
        match self.transaction.take() {
            Some(transaction) => self.commit(transaction),
            None => Ok(()),
        }
    }

    /// Commits a transaction and waits, as the durability asks, until it is on the disk.
    ///
    /// # Errors
    /// 1452 for deferred foreign keys, storage errors. Nothing is committed then, except after a failed sync.
    pub(super) fn commit(&mut self, mut transaction: Transaction) -> Res<()> {
        let Some(place) = &mut transaction.place else { return Ok(()) };
        let Some(conn) = &mut place.conn else { return Ok(()) };
        if conn.is_autocommit() {
            transaction.finish();
            return Ok(());
        }
        if task::is_cancelled() {
            transaction.rollback();
            return Err(errors::interrupted());
        }
        let wrote = place.guard.is_some();
        if let Err(error) = conn.commit() {
            transaction.rollback();
            return Err(to_server_error(&error));
        }
        let schema = Arc::clone(&place.pool.schema);
        if wrote {
            self.note_changes(&schema, transaction.touched.drain(..));
        }
        transaction.finish();
        if wrote { self.make_durable(&schema) } else { Ok(()) }
    }

    /// Has the last commit of a schema written to the disk; waits for it when durability is full.
    ///
    /// # Errors
    /// 1030 if the disk refuses.
    pub(crate) fn make_durable(&self, schema: &Arc<Schema>) -> Res<()> {
        let ticket = schema.sync.commit();
        self.engine.background.watch_once(schema);
        self.engine.background.request_sync(schema);
        if self.engine.settings.durability() == Durability::Normal {
            return Ok(());
        }
        match task::block_on_to_end(schema.sync.wait(ticket)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(errors::storage("the commit could not be made durable")),
            Err(task::Cancelled) => Err(errors::interrupted()),
        }
    }
}

impl Transaction {
    /// Gives connection and lock back after a commit.
    fn finish(&mut self) {
        if let Some(mut place) = self.place.take()
            && let Some(conn) = place.conn.take()
        {
            place.pool.put(conn);
        }
        self.touched.clear();
    }
}
