//! Transactions: which connection a session holds, and how it comes to write.
//!
//! A transaction has a place in each schema that it reads: a connection with a snapshot of that schema (or, READ COMMITTED,
//! with none). It writes to one schema only. One that the user has begun writes privately (`private`); a statement of its own,
//! and what cannot be done privately, takes the write lock until it commits.

use std::{
    rc::Rc,
    sync::{Arc, Weak, atomic::Ordering},
    time::Instant,
};

use tidegate_rows::ServerError;

use super::{
    Core,
    reach::Reach,
    resting::Resting,
    waiting::{acquire_for, wait_for_definitions},
    writes::names_of,
};
use crate::{
    cache::{Entry, StatementCache},
    catalog::TableState,
    env::Env,
    errors,
    isolation::{Characteristics, Isolation},
    readers::Reader,
    row_locks::Owner,
    schema::{Schema, transactions::Open},
    session::{pool::Pool, settling::settle},
    settings::Durability,
    shared::EngineInner,
    store::{
        conn::{Conn, to_server_error},
        prepared::Prepared,
        private::{
            former::{Former, savepoint_name},
            log::ROWS_MAX,
        },
        writer::WriteGuard,
    },
    task, temporary_name,
    translate::plan::{Plan, PlanKind, SelectPlan},
    waits::Kind,
};

type Res<T> = Result<T, ServerError>;

/// An open transaction, explicit or around one statement.
pub(super) struct Transaction {
    explicit: bool,
    /// It is open because autocommit is off.
    implicit: bool,
    isolation: Isolation,
    pub(super) read_only: bool,
    /// One for each schema; few.
    pub(super) places: Vec<Place>,
    /// The place of the statement that runs, or has run last.
    current: usize,
    /// The savepoints, oldest first. A place that begins later begins with all of them.
    pub(super) savepoints: Vec<String>,
    pub(super) touched: Vec<Arc<TableState>>,
    /// Rows that its statements have changed.
    pub(super) changed: u64,
    pub(super) resting: Resting,
}

/// How a statement that writes, or locks what it reads, has to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It can run privately.
    Private,
    /// As the schema's writer, because it changes much.
    Bulk,
    /// As the schema's writer, which its transaction must be until it ends.
    Writer,
}

/// The connection of a transaction to a schema.
pub(super) struct Place {
    pub(super) conn: Box<Conn>,
    pub(super) pool: Rc<Pool>,
    /// The write lock of a transaction that is the schema's writer.
    pub(super) guard: Option<WriteGuard>,
    /// What it was before it changed so much that it became the writer.
    pub(super) former: Option<Former>,
    /// The version of the schema's definitions when its snapshot was taken.
    pub(super) defined: u64,
    /// The write lock of a statement that runs privately.
    pub(super) turn: Option<WriteGuard>,
    /// Its place among the readers of the schema, once it has a snapshot.
    pub(super) reader: Option<Arc<Reader>>,
    /// Who has its row locks.
    pub(super) owner: Option<Arc<Owner>>,
    /// The transaction, as others see it.
    pub(super) transaction: Weak<Open>,
    pub(super) connection_id: u64,
}

impl Place {
    fn is_of(&self, schema: &Schema) -> bool {
        self.pool.schema.id == schema.id
    }

    /// Whether a table that a plan reads has been redefined since the snapshot was taken.
    pub(super) fn is_redefined(&self, plan: &Plan) -> Res<bool> {
        let schema = &self.pool.schema;
        if self.conn.is_autocommit() {
            return Ok(false);
        }
        if plan.is_older(schema, self.defined) {
            return Ok(true);
        }
        if schema.version() == self.defined {
            return Ok(false);
        }
        let catalog = schema.catalog()?;
        let here = plan.read_names.iter().filter(|(name, _)| *name == schema.name);
        let mut tables = here.filter_map(|(_, table)| catalog.table(table)).filter(|table| !table.is_view());
        Ok(tables.any(|table| table.state.defined.load(Ordering::Acquire) > self.defined))
    }

    /// Whether the snapshot that it has just taken is of the definitions that it knows of.
    pub(super) fn is_as_defined(&self) -> bool {
        let schema = &self.pool.schema;
        !schema.redefinition.runs() && schema.version() == self.defined
    }

    /// Its next statement takes another snapshot, with the transaction's own changes.
    pub(super) fn forget_snapshot(&mut self) {
        self.conn.rollback();
        self.reader = None;
    }

    /// Gives the connection back, then the lock. What is not committed is undone.
    fn leave(self) {
        self.pool.put(self.conn);
    }
}

impl Transaction {
    /// A transaction that has not touched anything yet.
    pub(super) fn new(explicit: bool) -> Self {
        Self {
            explicit,
            implicit: false,
            isolation: Isolation::default(),
            read_only: false,
            places: Vec::new(),
            current: 0,
            savepoints: Vec::new(),
            touched: Vec::new(),
            changed: 0,
            resting: Resting::default(),
        }
    }

    /// A transaction that the user begins.
    pub(super) fn begun(engine: &EngineInner, env: &Env) -> Self {
        let mut transaction = Self::new(true);
        transaction.isolation = env.next_isolation.take().unwrap_or(env.isolation.get());
        transaction.resting = Resting::of(engine.transactions.open(&env.client, transaction.isolation));
        transaction.set_read_only(env.next_read_only.take().unwrap_or(env.read_only.get()));
        transaction
    }

    /// How it has begun.
    pub(super) fn characteristics(&self) -> Characteristics {
        Characteristics { isolation: Some(self.isolation), read_only: Some(self.read_only) }
    }

    /// Whether it has begun, as SET TRANSACTION understands it: with autocommit off savepoints alone begin none.
    pub(super) fn has_begun(&self) -> bool {
        self.explicit && !(self.implicit && self.places.is_empty())
    }

    /// Whether it writes to temporary tables only.
    pub(super) fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
        self.resting.shows_read_only(read_only);
    }

    /// Whether the user has begun it (or autocommit is off).
    pub(super) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// The schema in which it has its current place, once it has one.
    pub(super) fn schema(&self) -> Option<&Arc<Schema>> {
        self.places.get(self.current).map(|place| &place.pool.schema)
    }

    /// Gives the transaction a place in a schema, for a statement that reaches the `attached` ones from there.
    ///
    /// # Errors
    /// 1235 if the statement would not see what the transaction has seen or done in its other places.
    pub(super) fn open<'a>(
        &mut self,
        schema: &Arc<Schema>,
        attached: impl Iterator<Item = &'a Arc<Schema>>,
        connection_id: u64,
    ) -> Res<()> {
        if self.has_ended() {
            return Err(errors::read_for_too_long());
        }
        if let Some(place) = self.places.iter().find(|place| place.pool.schema.is_closed()) {
            return Err(place.pool.schema.why_closed());
        }
        let mut others = self.places.iter().filter(|place| !place.is_of(schema));
        for reached in attached {
            if others.clone().any(|place| place.is_of(reached)) {
                return Err(errors::unsupported("a statement over several schemas in a transaction that uses them"));
            }
        }
        if let Some(index) = self.places.iter().position(|place| place.is_of(schema)) {
            self.current = index;
            return Ok(());
        }
        if others.any(|place| place.conn.attached.iter().any(|(_, id)| *id == schema.id)) {
            return Err(errors::unsupported("a transaction that uses a schema after a statement over several"));
        }
        let pool = Pool::of(schema);
        let conn = pool.take()?;
        self.current = self.places.len();
        self.places.push(Place {
            conn,
            pool,
            guard: None,
            former: None,
            defined: 0,
            turn: None,
            reader: None,
            owner: None,
            transaction: self.resting.open(),
            connection_id,
        });
        Ok(())
    }

    /// Takes a snapshot of a schema now, not with the first read.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn snapshot(&mut self, schema: &Arc<Schema>, env: &Env) -> Res<()> {
        self.open(schema, std::iter::empty(), env.connection_id)?;
        loop {
            self.read(env)?;
            let place = self.place()?;
            place.conn.hold_snapshot().map_err(|error| to_server_error(&error))?;
            if place.is_as_defined() || place.conn.is_autocommit() {
                return Ok(());
            }
            place.forget_snapshot();
            wait_for_definitions(env, schema)?;
        }
    }

    /// What `take` finds in the caches of the places' connections. It has no statements of a connection that it will not run on.
    pub(super) fn cached(&mut self, hash: u64, mut take: impl FnMut(&mut Conn) -> Option<Entry>) -> Option<Entry> {
        let current = self.current;
        self.places.iter_mut().enumerate().find_map(|(index, place)| {
            let conn = &mut place.conn;
            let entry = take(conn)?;
            let stays = match entry.plan.kind {
                PlanKind::Select(SelectPlan { locking: None, .. }) if entry.plan.called.is_empty() => {
                    entry.plan.home.is_some() || index == current
                }
                _ => conn.is_private() || place.guard.is_some(),
            };
            if stays {
                return Some(entry);
            }
            let twin = entry.twin();
            StatementCache::of(conn).put(hash, entry);
            Some(twin)
        })
    }

    /// The connection to a schema, if the transaction has a place there.
    pub(super) fn conn_to(&mut self, schema: &Schema) -> Option<&mut Conn> {
        self.places.iter_mut().find(|place| place.is_of(schema)).map(|place| &mut *place.conn)
    }

    /// Has another place of its own from now on.
    pub(super) fn go_to(&mut self, index: usize) {
        self.current = index;
    }

    pub(super) fn place(&mut self) -> Res<&mut Place> {
        self.places.get_mut(self.current).ok_or_else(|| errors::internal("a transaction without schema"))
    }

    /// The connection of the statement that runs.
    ///
    /// # Errors
    /// None after [`open`](Self::open).
    pub(super) fn conn(&mut self) -> Res<&mut Conn> {
        Ok(&mut self.place()?.conn)
    }

    fn ready(
        &mut self,
        env: &Env,
        begin: impl FnOnce(&mut Conn) -> Result<(), crate::store::conn::SqliteError>,
    ) -> Res<()> {
        let savepoints = self.savepoints.clone();
        let place = self.place()?;
        let conn = &mut place.conn;
        conn.enforce_foreign_keys(env.foreign_keys.get());
        if conn.is_autocommit() {
            // Before the snapshot: one that is newer than this number is only taken for older.
            place.defined = place.pool.schema.version();
            begin(conn).map_err(|error| to_server_error(&error))?;
            for name in savepoints {
                conn.execute(&format!("SAVEPOINT {}", savepoint_name(&name)))
                    .map_err(|error| to_server_error(&error))?;
            }
        }
        Ok(())
    }

    /// Whether each of its statements sees what others have committed until then.
    pub(super) fn reads_committed(&self) -> bool {
        self.isolation.reads_committed()
    }

    /// Whether its statements must not run beside those of others that write, unless all that they [reach](Reach) can be locked.
    pub(super) fn runs_alone(&self) -> bool {
        self.explicit && self.isolation == Isolation::Serializable && !self.read_only
    }

    /// Makes the transaction ready to read.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn read(&mut self, env: &Env) -> Res<()> {
        if self.conn()?.is_private() {
            return self.read_privately(env);
        }
        // READ COMMITTED: each statement sees the newest commit until the transaction writes.
        if self.reads_committed() || !self.explicit {
            return Ok(());
        }
        self.ready(env, Conn::begin)?;
        let place = self.place()?;
        if place.reader.is_none() {
            place.reader =
                Some(place.pool.schema.readers.add(env.connection_id, Instant::now(), Some(place.transaction.clone())));
        }
        Ok(())
    }

    /// The place of the statement that runs among those who hold a snapshot, if it does.
    pub(super) fn reader(&self) -> Option<&Arc<Reader>> {
        self.places.get(self.current)?.reader.as_ref()
    }

    /// Whether one of its snapshots had to be given up.
    pub(super) fn has_ended(&self) -> bool {
        self.places.iter().filter_map(|place| place.reader.as_ref()).any(|reader| reader.has_ended())
    }

    /// Makes the transaction ready to write: privately if that is possible, otherwise as the schema's writer. `stmts` are
    /// forgotten if they belong to a connection that the transaction leaves.
    ///
    /// # Errors
    /// 1205 if waiting for the lock takes too long, 1213 if somebody waits for this transaction meanwhile or may do so while it
    /// would wait for their LOCK TABLES, 1792 in a read-only transaction, 1235 if it writes to another schema already.
    pub(super) fn write(&mut self, env: &Env, plan: &Plan, stmts: &mut Prepared, reach: Reach) -> Res<()> {
        if self.read_only && writes_for_others(plan) {
            return Err(errors::read_only_transaction());
        }
        let many = matches!(&plan.kind, PlanKind::Insert(insert) if insert.rows.len() > ROWS_MAX);
        let alone = self.runs_alone() && reach == Reach::Any;
        let need = match self.explicit && !plan.locks_rows && !alone {
            true if many => Need::Bulk,
            true => Need::Private,
            false => Need::Writer,
        };
        self.write_or_lock(env, plan, stmts, need)
    }

    /// As [`write`](Self::write), also for a query that locks rows.
    pub(super) fn write_or_lock(&mut self, env: &Env, plan: &Plan, stmts: &mut Prepared, need: Need) -> Res<()> {
        let (current, explicit) = (self.current, self.explicit);
        let mut others = self.places.iter_mut().enumerate().filter(|(index, _)| *index != current);
        if others.any(|(_, place)| place.guard.is_some() || place.has_private_changes()) {
            return Err(errors::unsupported("a transaction that writes to several schemas"));
        }
        let is_writer = self.place()?.guard.is_some();
        let tables = names_of(plan);
        let need = match need {
            _ if !plan.attached.is_empty() || env.has_tables() => Need::Writer,
            // It has been the writer already, and would be at once.
            Need::Private if !is_writer && self.place()?.has_long_list() => Need::Bulk,
            need => need,
        };
        if !is_writer && need == Need::Private {
            self.place()?.let_definitions_pass(env, plan)?;
            return self.write_privately(env, &tables, stmts);
        }
        if self.conn()?.is_private() {
            stmts.clear();
            self.become_writer(env)?;
        }
        let former = (need == Need::Bulk).then(|| Former::new(&self.savepoints));
        let place = self.place()?;
        if place.guard.is_none() {
            place.pool.schema.may_write()?;
            place.guard = Some(match env.lend(&place.pool.schema) {
                None if place.owner.is_some() => place.wait_to_write(env, &tables, Kind::Rows)?,
                _ => acquire_for(&place.pool.schema, env, &tables)?,
            });
            if explicit {
                place.owner().keeps_writing();
                place.former = former;
            }
            // A snapshot of before would not let it write.
            place.conn.rollback();
        } else if place.pool.schema.keeps_from(env, &tables) {
            return Err(errors::deadlock());
        }
        if need == Need::Writer {
            // What it reads is locked because nobody else writes.
            place.former = None;
        }
        let pool = Rc::clone(&self.place()?.pool);
        self.ready(env, |conn| pool.schema.begin_to_commit(conn))
    }

    /// Who holds the row locks of the statement that runs.
    pub(super) fn owner_id(&self) -> Option<u64> {
        self.places.get(self.current)?.owner.as_ref().map(|owner| owner.id())
    }

    /// Whether SQLite has undone all that it had written, as it does when the disk is full or fails, and when a writing
    /// statement is interrupted.
    pub(super) fn is_undone(&self) -> bool {
        self.places.iter().any(|place| place.guard.is_some() && place.conn.is_autocommit())
    }

    /// Notes tables that have changed.
    pub(super) fn touch(&mut self, tables: &[Arc<TableState>]) {
        for table in tables {
            if !self.touched.iter().any(|known| Arc::ptr_eq(known, table)) {
                self.touched.push(Arc::clone(table));
            }
        }
    }

    /// Undoes everything and gives the connections back.
    pub(super) fn rollback(&mut self) {
        self.leave();
        self.forget_stored_autos();
        self.touched.clear();
    }

    /// What the file says about AUTO_INCREMENT has been undone too.
    pub(super) fn forget_stored_autos(&self) {
        self.touched.iter().for_each(|table| table.stored_auto.store(0, Ordering::Release));
    }

    /// Gives connections and lock back.
    pub(super) fn leave(&mut self) {
        self.take_back();
        self.places.drain(..).for_each(Place::leave);
        self.savepoints.clear();
    }
}

/// Whether a plan writes to tables that others see.
pub(super) fn writes_for_others(plan: &Plan) -> bool {
    names_of(plan).iter().any(|name| !temporary_name::is_hidden(name))
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.rollback();
    }
}

impl Core {
    /// A transaction that the user begins, as SET TRANSACTION wants the next one.
    pub(super) fn begun_transaction(&self) -> Transaction {
        Transaction::begun(&self.engine, &self.env)
    }

    /// Whether a transaction is open that has begun.
    pub(crate) fn in_begun_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(Transaction::has_begun)
    }

    /// With autocommit off a statement opens a transaction; one that has nothing but savepoints is as SET TRANSACTION has said since.
    pub(super) fn begin_implicitly(&mut self) {
        let is_set = self.env.next_isolation.get().is_some() || self.env.next_read_only.get().is_some();
        if self.env.autocommit.get() || self.in_begun_transaction() || self.transaction.is_some() && !is_set {
            return;
        }
        let before = self.transaction.take();
        if let Some(before) = &before {
            let Characteristics { isolation, read_only } = before.characteristics();
            self.env.next_isolation.set(self.env.next_isolation.get().or(isolation));
            self.env.next_read_only.set(self.env.next_read_only.get().or(read_only));
        }
        let mut transaction = self.begun_transaction();
        transaction.implicit = true;
        transaction.savepoints = before.map(|mut before| std::mem::take(&mut before.savepoints)).unwrap_or_default();
        self.transaction = Some(transaction);
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
        if let Some(index) = transaction.places.iter_mut().position(Place::has_private_changes) {
            return self.commit_privately(transaction, index);
        }
        // Places without the lock have only read: leaving them is all that is to be done.
        let Some(place) = transaction.places.iter_mut().find(|place| place.guard.is_some()) else {
            transaction.leave();
            return Ok(());
        };
        if place.conn.is_autocommit() {
            transaction.leave();
            return Ok(());
        }
        if task::is_cancelled() {
            transaction.rollback();
            return Err(errors::interrupted());
        }
        let schema = Arc::clone(&place.pool.schema);
        let committed = schema.commits.reserve(&mut place.conn).and_then(|reserved| {
            place.conn.commit().map_err(|error| to_server_error(&error))?;
            Ok(reserved)
        });
        let reserved = match committed {
            Ok(reserved) => reserved,
            Err(error) => {
                transaction.rollback();
                return Err(error);
            }
        };
        self.note_changes(&schema, reserved, &transaction.touched);
        transaction.touched.clear();
        transaction.leave();
        self.make_durable(&schema)
    }

    /// As [`make_durable`].
    pub(crate) fn make_durable(&self, schema: &Arc<Schema>) -> Res<()> {
        make_durable(&self.engine, schema)
    }
}

/// Has the last commit of a schema written to the disk; waits for it when durability is full.
///
/// # Errors
/// 1030 if the disk refuses.
pub(super) fn make_durable(engine: &EngineInner, schema: &Arc<Schema>) -> Res<()> {
    let ticket = schema.sync.commit();
    let background = &engine.background;
    background.watch_once(schema);
    if engine.settings.durability() == Durability::Normal {
        background.request_sync(schema);
        return Ok(());
    }
    match task::block_on_commit(settle(background, &Pool::of(schema), ticket)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(errors::storage("the commit could not be made durable")),
        Err(task::Cancelled) => Err(errors::interrupted()),
    }
}
