//! Transactions that write privately (`store::private`): how they come to their connection, keep it on the newest commit, and commit.

use std::{
    future::Future,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    time::Instant,
};

use tidegate_rows::ServerError;

use super::{
    Core, Res,
    reach::Reach,
    transaction::{Need, Place, Transaction},
    waiting::{WaitLimit, acquire_for, wait_at_most, wait_for, wait_for_definitions, wait_for_table_locks},
    writes::targets_of,
};
use crate::{
    cache::Entry,
    env::{Env, Stopped},
    errors,
    exec::bind::Constants,
    readers::Reader,
    row_locks::{Deadlock, Mode, Owner, Resource, RowFilter, RowLocks},
    schema::Schema,
    store::{
        conn::{Cell, Conn, SqliteError, Step, to_server_error},
        prepared::Prepared,
        private::{
            former::Former,
            log::Log,
            notes::Notes,
            watch::{Check, LOCKS_MAX, Purpose, Stop, Watch},
        },
        writer::WriteGuard,
    },
    task,
    translate::{
        locking::{LockWait, LockedRows, Locking},
        plan::{Plan, PlanKind, SelectPlan},
    },
    waits::{Blockers, Kind},
};

/// Throws away the pages of a private connection that is about to wait: what it waits for has it begin on a newer commit
/// anyway. Meanwhile it has no snapshot, which would keep the log from starting over ([`crate::background`]).
fn forget_pages(conn: &mut Conn, reader: &mut Option<Arc<Reader>>) {
    if conn.is_private() {
        conn.rollback();
        *reader = None;
    }
}

impl Place {
    /// Whether the transaction has changed something here that is not in a transaction of SQLite's writer.
    pub(super) fn has_private_changes(&mut self) -> bool {
        self.conn.is_private() && self.log().is_some_and(|log| !log.is_empty())
    }

    /// Whether it has changed more than a private transaction should.
    pub(super) fn has_long_list(&mut self) -> bool {
        self.conn.is_private() && self.log().is_some_and(|log| log.is_full())
    }

    fn log(&mut self) -> Option<&mut Log> {
        self.conn.watch().and_then(Watch::log)
    }

    /// Who takes locks here for the transaction.
    pub(super) fn owner(&mut self) -> Arc<Owner> {
        let rows = &self.pool.schema.rows;
        let connection = self.connection_id;
        Arc::clone(self.owner.get_or_insert_with(|| Arc::new(rows.owner(connection))))
    }

    /// As [`owner`](Self::owner), about to wait for a row: others may be waiting for its write lock.
    pub(super) fn owner_that_waits(&mut self) -> Arc<Owner> {
        let owner = self.owner();
        if self.guard.is_some() {
            owner.keeps_writing();
            owner.may_step_back(self.former.as_ref().is_some_and(Former::is_whole));
        }
        forget_pages(&mut self.conn, &mut self.reader);
        owner
    }

    /// Waits for the schema's write lock, to write to these tables.
    ///
    /// # Errors
    /// 1205 if it takes too long; 1213 if the one who has it waits for this transaction, or may do so: one who has locked a
    /// table, while this transaction has locked rows.
    pub(super) fn wait_to_write(&mut self, env: &Env, tables: &[&str], kind: Kind) -> Res<WriteGuard> {
        let owner = self.owner();
        let schema = &self.pool.schema;
        let limit = WaitLimit::begin(env);
        loop {
            limit.set_rest();
            if schema.table_locks.any() && !owner.has_locks() {
                wait_for_table_locks(schema, env, tables)?;
            }
            let guard = match schema.writer.try_acquire() {
                Some(guard) => guard,
                None => {
                    forget_pages(&mut self.conn, &mut self.reader);
                    let acquired = owner.while_waiting_to_write(schema.writer.acquire());
                    wait_for(env, kind, || schema.rows.blockers_of(env.connection_id), acquired)?
                        .map_err(|Deadlock| errors::deadlock())?
                }
            };
            // It may have been dropped by whoever had the lock.
            schema.may_write()?;
            if !schema.keeps_from(env, tables) {
                return Ok(guard);
            }
            if owner.has_locks() {
                return Err(errors::deadlock());
            }
        }
    }

    /// A transaction that has locked nothing lets statements pass that wait until the tables of its plan have no locks.
    /// Nobody waits for it meanwhile.
    ///
    /// # Errors
    /// 1205 if it takes too long.
    pub(super) fn let_definitions_pass(&mut self, env: &Env, plan: &Plan) -> Res<()> {
        let owner = self.owner();
        if !owner.locks().any_wanted() || owner.has_locks() {
            return Ok(());
        }
        let tables: Vec<i64> = match &plan.kind {
            PlanKind::Select(select) if plan.called.is_empty() => {
                let rows = select.locking.as_ref().and_then(|locking| locking.rows.as_ref());
                rows.into_iter().flatten().flat_map(|rows| rows.tables.iter().copied()).collect()
            }
            _ => targets_of(plan).into_iter().map(|target| target.table.id).collect(),
        };
        wait_at_most(env, owner.locks().tables_are_unwanted(&tables))
    }

    /// Has the private connection begin anew on the newest commit, with the changes that it has made so far.
    fn renew(&mut self, env: &Env) -> Res<()> {
        loop {
            self.conn.rollback();
            self.defined = self.pool.schema.version();
            self.conn.begin_immediate().map_err(|error| to_server_error(&error))?;
            if self.is_as_defined() {
                break;
            }
            self.conn.rollback();
            wait_for_definitions(env, &self.pool.schema)?;
        }
        self.reader =
            Some(self.pool.schema.readers.add(env.connection_id, Instant::now(), Some(self.transaction.clone())));
        let mut watch = self.conn.set_watch(None);
        let applied = match watch.as_deref_mut().and_then(Watch::log) {
            Some(log) => log.apply(&mut self.conn),
            None => Err(errors::internal("a private transaction without a list")),
        };
        self.conn.set_watch(watch);
        if applied.is_err() {
            // Half a list is worse than none: the next statement tries again.
            self.conn.rollback();
        }
        applied
    }

    /// As [`renew`](Self::renew), if others have committed since.
    fn renew_if_behind(&mut self, env: &Env) -> Res<()> {
        self.conn.enforce_foreign_keys(env.foreign_keys.get());
        if self.conn.is_autocommit() || self.conn.is_behind() { self.renew(env) } else { Ok(()) }
    }

    /// Does the changes again on a connection of the writer, which checks foreign keys `for_more` statements. The caller holds the
    /// write lock.
    fn apply_as_writer(&mut self, env: &Env, for_more: bool) -> Res<Box<Conn>> {
        let pool = Rc::clone(&self.pool);
        let Some(log) = self.log() else { return Err(errors::internal("a private transaction without a list")) };
        let mut conn = if !for_more && log.has_foreign_keys() { pool.take_unchecked()? } else { pool.take()? };
        if for_more {
            conn.enforce_foreign_keys(env.foreign_keys.get());
        }
        let begun = pool.schema.begin_to_commit(&mut conn).map_err(|error| to_server_error(&error));
        let learned = begun.and_then(|()| pool.schema.teach(&mut conn, log.tables()));
        match learned.and_then(|()| log.apply_to_commit(&mut conn)) {
            Ok(()) => Ok(conn),
            Err(error) => {
                pool.put(conn);
                Err(error)
            }
        }
    }
}

impl Transaction {
    /// Makes the transaction ready for a statement that writes privately: it has the write lock until
    /// [`end_turn`](Self::end_turn), and sees the newest commit. `stmts` are forgotten if they belong to a connection
    /// that the transaction leaves.
    ///
    /// # Errors
    /// 1205 if the write lock takes too long, 1213 if its holder waits for this transaction, storage errors.
    pub(super) fn write_privately(&mut self, env: &Env, tables: &[&str], stmts: &mut Prepared) -> Res<()> {
        let savepoints = self.savepoints.clone();
        let place = self.place()?;
        place.pool.schema.may_write()?;
        if !place.conn.is_private() {
            stmts.clear();
            place.become_private(Former::new(&savepoints).log)?;
        }
        place.turn = Some(place.wait_to_write(env, tables, Kind::Rows)?);
        place.renew_if_behind(env)
    }

    /// Whether it remains the writer of a schema until it ends.
    pub(super) fn is_writer(&self) -> bool {
        self.places.iter().any(|place| place.guard.is_some())
    }

    /// The schema whose write lock it holds.
    pub(super) fn written_schema(&self) -> Option<Arc<Schema>> {
        self.places.iter().find(|place| place.guard.is_some()).map(|place| Arc::clone(&place.pool.schema))
    }

    /// Gives the write lock back that a statement had.
    pub(super) fn end_turn(&mut self) {
        for place in &mut self.places {
            place.turn = None;
        }
    }

    /// Makes a private transaction ready to read: under READ COMMITTED it sees what others have committed until now.
    pub(super) fn read_privately(&mut self, env: &Env) -> Res<()> {
        let commits = self.reads_committed();
        let place = self.place()?;
        if commits || place.conn.is_autocommit() { place.renew_if_behind(env) } else { Ok(()) }
    }

    /// Makes the transaction the schema's writer until it ends: for what cannot be done privately.
    ///
    /// # Errors
    /// As [`write_privately`](Self::write_privately).
    pub(super) fn become_writer(&mut self, env: &Env) -> Res<()> {
        let place = self.place()?;
        if !place.conn.is_private() {
            return Ok(());
        }
        let guard = match place.turn.take() {
            Some(guard) => guard,
            None => place.wait_to_write(env, &[], Kind::Rows)?,
        };
        place.pool.schema.may_write()?;
        let conn = place.apply_as_writer(env, true)?;
        place.owner().keeps_writing();
        let log = place.log().map(std::mem::take).unwrap_or_default();
        place.former = Some(Former::of(log));
        place.pool.put(std::mem::replace(&mut place.conn, conn));
        place.guard = Some(guard);
        Ok(())
    }
}

impl Core {
    /// Commits what a transaction has changed privately in one of its places.
    ///
    /// # Errors
    /// 1205 if another transaction remains the schema's writer, which leaves this one open; 1213, storage errors: nothing is
    /// committed then, except after a failed sync.
    pub(super) fn commit_privately(&mut self, mut transaction: Transaction, index: usize) -> Res<()> {
        let Some(place) = transaction.places.get_mut(index) else { return Ok(()) };
        let schema = Arc::clone(&place.pool.schema);
        let owner = place.owner();
        let guard = match owner.while_committing(|| place.wait_to_write(&self.env, &[], Kind::Commit)) {
            Ok(guard) => guard,
            Err(error) => {
                if error.code == errors::lock_wait_timeout().code {
                    self.transaction = Some(transaction);
                }
                return Err(error);
            }
        };
        if task::is_cancelled() {
            return Err(errors::interrupted());
        }
        schema.may_write()?;
        let mut conn = place.apply_as_writer(&self.env, false)?;
        let committed = schema.commits.reserve(&mut conn).and_then(|reserved| {
            conn.commit().map_err(|error| to_server_error(&error))?;
            Ok(reserved)
        });
        place.pool.put(conn);
        let reserved = committed?;
        self.note_changes(&schema, reserved, &transaction.touched);
        transaction.touched.clear();
        transaction.leave();
        drop((owner, guard));
        self.make_durable(&schema)
    }

    /// Waits until the statement that was stopped can run again.
    ///
    /// # Errors
    /// 1205 if it takes too long; 1213 if others wait for this transaction in turn, which is rolled back then.
    #[cold]
    pub(super) fn wait_to_go_on(&mut self) -> Res<()> {
        let Some(Stopped { rows, stop }) = self.env.stopped.take() else {
            return Err(errors::internal("a statement stopped without a reason"));
        };
        let gone_on = match (stop, &mut self.transaction) {
            (Stop::Outgrown, Some(transaction)) => transaction.become_writer(&self.env),
            (Stop::Outgrown, None) => Err(errors::internal("a statement alone has outgrown its transaction")),
            (Stop::Blocked(resource, mode), Some(transaction)) => transaction.wait_for(&self.env, resource, mode),
            (Stop::Blocked(resource, mode), None) => {
                let owner = self.waits_as.get_or_insert_with(|| Arc::new(rows.owner(self.env.connection_id)));
                let blockers = || rows.blockers_of(self.env.connection_id);
                wait_for(&self.env, Kind::Rows, blockers, owner.wait(resource, mode))?.map_err(|_| errors::deadlock())
            }
        };
        if gone_on.as_ref().is_err_and(|error| self.ends_transaction(error))
            && let Some(mut transaction) = self.transaction.take()
        {
            transaction.rollback();
        }
        gone_on
    }
}

impl Core {
    /// Locks the rows that a query reads, before it sends them.
    ///
    /// # Errors
    /// [`errors::STOPPED`] if somebody else has locked one, 1205 if the query does not wait for that; 1412 if the tables'
    /// definition has changed meanwhile.
    pub(super) fn lock_rows(
        &self,
        transaction: &mut Transaction,
        plan: &Plan,
        locking: &Locking,
        home: &Arc<Schema>,
        entry: &mut Entry,
        constants: Constants<'_>,
    ) -> Res<()> {
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query")) };
        let reach = if transaction.runs_alone() { plan.reach(constants)? } else { Reach::NewRows };
        let privately = transaction.is_explicit() && locking.rows.is_some() && reach != Reach::Any;
        let need = if privately { Need::Private } else { Need::Writer };
        let lock_wait = self.env.limit_for(locking.wait);
        let ready = transaction.write_or_lock(&self.env, plan, &mut entry.stmts, need);
        self.env.lock_wait.set(lock_wait);
        ready?;
        if !plan.is_current() {
            return Err(errors::definition_changed());
        }
        let Some(rows) = &locking.rows else { return Ok(()) };
        let mode = rows.iter().map(|rows| rows.mode).max().unwrap_or(Mode::Shared);
        transaction.lock_reach(&self.env, reach, mode)?;
        let owner = transaction.owner_id();
        let place = transaction.place()?;
        let filter = RowFilter { locks: Arc::clone(&home.rows), owner, only_own: false };
        self.env.row_filter.replace(Some(filter.clone()));
        let mut found = Vec::new();
        let at_most = if place.conn.is_private() { LOCKS_MAX } else { usize::MAX };
        for rows in rows {
            find_rows(&mut place.conn, rows, select, constants, &mut found, at_most)?;
        }
        if found.len() > at_most {
            self.env.stopped.set(Some(Stopped { rows: Arc::clone(&home.rows), stop: Stop::Outgrown }));
            return Err(errors::stopped());
        }
        let lock = |conn: &mut Conn| {
            let Some(watch) = conn.watch() else { return Ok(()) };
            found.into_iter().for_each(|(resource, mode)| watch.lock(resource, mode));
            Ok(())
        };
        let Place { conn, former, .. } = place;
        let holds = Holds { owner, notes: former.as_mut().and_then(Former::notes) };
        let locked = under_watch(conn, &home.rows, holds, true, &self.env, |_| Ok(()), lock);
        if place.conn.is_private() {
            // From now on others may take and give back what was left out.
            self.env.row_filter.replace(Some(RowFilter { only_own: true, ..filter }));
        }
        transaction.end_turn();
        match locked {
            Err(error) if error.code == errors::STOPPED && locking.wait == LockWait::Fail => {
                Err(self.instead_of_waiting())
            }
            locked => locked,
        }
    }

    /// What NOWAIT says about a statement that was stopped.
    #[cold]
    fn instead_of_waiting(&self) -> ServerError {
        match self.env.stopped.take() {
            Some(Stopped { stop: Stop::Blocked(..), .. }) => errors::lock_wait_timeout(),
            other => {
                self.env.stopped.set(other);
                errors::stopped()
            }
        }
    }
}

/// Waits for the write lock of a schema in which no open transaction has changed or locked rows of `tables`, and no other
/// session has locked them.
///
/// # Errors
/// 1205 if it takes too long.
pub(crate) fn acquire_unused(schema: &Arc<Schema>, env: &Env, tables: &[&str]) -> Res<WriteGuard> {
    without_row_locks(schema, env, tables, || acquire_for(schema, env, tables))
}

/// Has `acquire` take the write lock of a schema until no open transaction has changed or locked rows of `tables`.
///
/// # Errors
/// 1205 if it takes too long.
pub(super) fn without_row_locks(
    schema: &Arc<Schema>,
    env: &Env,
    tables: &[&str],
    acquire: impl Fn() -> Res<WriteGuard>,
) -> Res<WriteGuard> {
    let mut wanted = None;
    let limit = WaitLimit::begin(env);
    loop {
        limit.set_rest();
        let guard = acquire()?;
        schema.may_write()?;
        let catalog = schema.catalog()?;
        let ids: Vec<i64> = tables.iter().filter_map(|name| Some(catalog.table(name)?.id)).collect();
        // While this has the write lock nobody takes other locks.
        let mut free = pin!(schema.rows.tables_are_free(&ids));
        if free.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return Ok(guard);
        }
        drop(guard);
        // Otherwise others go on taking locks, and the table is never free.
        wanted.get_or_insert_with(|| schema.rows.want(ids.clone()));
        let blockers = || -> Blockers {
            let (rows, ids) = (Arc::clone(&schema.rows), ids.clone());
            Box::new(move || rows.connections_in(&ids))
        };
        wait_for(env, Kind::Name, blockers, free)?;
    }
}

/// Adds the rows that a locking query finds, in its order, until there are more than `at_most`.
fn find_rows(
    conn: &mut Conn,
    rows: &LockedRows,
    select: &SelectPlan,
    constants: Constants<'_>,
    found: &mut Vec<(Resource, Mode)>,
    at_most: usize,
) -> Res<()> {
    let internal = |error: SqliteError| to_server_error(&error);
    let mut kept = conn.take_kept(&rows.sql).map_err(internal)?;
    let used = kept.parameter_count();
    let mut stmt = constants.bind(&mut kept, &select.binds[..used.min(select.binds.len())])?;
    let first = stmt.column_count() - rows.tables.len();
    while found.len() <= at_most && stmt.step().map_err(internal)? == Step::Row {
        for (index, &table) in rows.tables.iter().enumerate() {
            // NULL where an outer join has found nothing.
            if let Cell::Int(rowid) = stmt.cell(first + index) {
                found.push((Resource::Row { table, rowid }, rows.mode));
            }
        }
    }
    drop(stmt);
    conn.keep(kept);
    Ok(())
}

/// The row locks of a transaction.
pub(super) struct Holds<'a> {
    /// Who has them.
    pub(super) owner: Option<u64>,
    /// What it is to lock when it is not the schema's writer any more, if that can be.
    pub(super) notes: Option<&'a mut Notes>,
}

/// Runs `write` with an eye on the rows that it meets and changes: on a private connection, where it `is_beside` others who hold
/// locks that it must respect, or where its own are noted. It may touch what it `holds` itself.
///
/// # Errors
/// Those of `write`; [`errors::STOPPED`] if it cannot stand, for the reason in [`Env::stopped`]. The caller undoes it.
pub(super) fn under_watch<T>(
    conn: &mut Conn,
    rows: &Arc<RowLocks>,
    holds: Holds<'_>,
    is_beside: bool,
    env: &Env,
    learn: impl FnOnce(&mut Conn) -> Res<()>,
    write: impl FnOnce(&mut Conn) -> Res<T>,
) -> Res<T> {
    let guest = !conn.is_private();
    let Holds { owner, mut notes } = holds;
    if guest {
        let notes = notes.as_deref_mut().map(std::mem::take);
        let check = Check { locks: Arc::clone(rows), owner, is_beside, notes };
        conn.set_watch(Some(Box::new(Watch::new(Purpose::Check(check)))));
    }
    let result = learn(conn).and_then(|()| {
        if let Some(watch) = conn.watch() {
            watch.begin();
        }
        write(conn)
    });
    let stop = conn.watch().and_then(|watch| watch.stop());
    if guest {
        let watch = conn.set_watch(None);
        if let Some((notes, taken)) = notes.zip(watch.and_then(|watch| watch.into_notes())) {
            *notes = taken;
        }
    }
    match stop {
        None => result,
        Some(stop) => {
            // Whatever else went wrong may have gone wrong because of it.
            task::take_error();
            env.stopped.set(Some(Stopped { rows: Arc::clone(rows), stop }));
            Err(errors::stopped())
        }
    }
}
