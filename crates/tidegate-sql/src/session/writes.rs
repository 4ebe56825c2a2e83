//! Statements that write, and queries inside of transactions.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tidegate_rows::{QueryError, ServerError, Sink, Summary};

use super::{
    Core, Res,
    group::{Member, Turn},
    private::{Holds, under_watch},
    reach::Reach,
    select::run_select,
    sequences::write_marks,
    transaction::{Need, Place, Transaction},
};
use crate::{
    cache::{Entry, StatementCache},
    catalog::TableState,
    env::Env,
    errors,
    exec::{
        bind::Constants,
        write::{Writer, Written},
    },
    lexer::Normalised,
    parse::program::Event,
    row_locks::Mode,
    schema::Schema,
    session::pool::Pool,
    store::{
        conn::{Conn, to_server_error},
        prepared::Prepared,
        private::{former::Former, watch::Watch},
    },
    task,
    translate::{
        Inputs,
        dml::InsertPlan,
        plan::{Plan, PlanKind, SelectPlan},
        target_table::TargetTable,
    },
};

/// What a statement of a transaction has given.
pub(super) enum Done {
    Rows((u64, u64)),
    Written(Written),
}

impl Core {
    /// Whether a statement may share its commit with others.
    #[inline]
    pub(super) fn may_join(&self, entry: &Entry) -> bool {
        let plan = &entry.plan;
        entry.brief
            && !matches!(plan.kind, PlanKind::Select(_))
            && plan.attached.is_empty()
            && plan.home.is_some()
            && self.transaction.is_none()
            && self.env.autocommit.get()
            && self.env.foreign_keys.get()
            && !self.env.has_tables()
            && self.env.begins_as_always()
            && !plan.home.as_ref().is_some_and(|home| self.is_kept_from(plan, home))
    }

    /// Whether LOCK TABLES keeps a table that the plan writes to from the session.
    #[inline]
    fn is_kept_from(&self, plan: &Plan, home: &Schema) -> bool {
        home.table_locks.any() && home.keeps_from(&self.env, &names_of(plan))
    }

    /// Runs the statement in the group that is open on this thread; `None` if that group does not know it.
    #[inline]
    pub(super) fn cached_in_group(
        &mut self,
        pool: &Rc<Pool>,
        scan: &Normalised,
        inputs: &Inputs,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Option<Result<(), QueryError>> {
        let mut turn = Turn::join(pool)?;
        let conn = turn.conn().ok()?;
        if let Some(entry) = StatementCache::of(conn).take(scan, constants.sql, inputs, constants.params) {
            let here = entry.plan.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, &pool.schema));
            if here && self.may_join(&entry) {
                return Some(self.run_in_group(turn, entry, scan.hash, constants, more, true, sink));
            }
            StatementCache::of(conn).put(scan.hash, entry);
        }
        turn.give_up();
        None
    }

    /// Runs a statement in a group and leaves the wait for its commit to [`finish_joined`](Self::finish_joined), unless
    /// the text goes on behind it.
    pub(super) fn run_in_group(
        &mut self,
        mut turn: Turn,
        mut entry: Entry,
        hash: u64,
        constants: Constants<'_>,
        more: bool,
        cacheable: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        let memory_max = self.engine.settings.statement_memory_max();
        let before = task::suspensions();
        let result = match &plan.home {
            Some(home) if plan.is_current() && !self.is_kept_from(&plan, home) => {
                let savepoint = !writes_once(&plan);
                let stmts = &mut entry.stmts;
                let owner = self.waits_as.as_ref().map(|owner| owner.id());
                let holds = Holds { owner, notes: None };
                turn.conn().and_then(|conn| write_on(conn, &plan, home, stmts, constants, memory_max, savepoint, holds))
            }
            // Somebody has changed the definition, or locked the table, while this statement waited for the lock.
            _ => Err(errors::definition_changed()),
        };
        entry.brief = task::suspensions() == before;
        if cacheable {
            StatementCache::of(turn.conn()?).put(hash, entry);
        } else {
            drop(entry);
        }
        let written = match result {
            Ok(written) => written,
            Err(error) => {
                turn.failed(Some(&error));
                return Err(error.into());
            }
        };
        let member = turn.succeeded(&written.touched, self.env.answers_early.get());
        if !more {
            self.joined = Some((member, written));
            return Ok(());
        }
        match task::block_on_commit(member.settle()) {
            Ok(settled) => settled?,
            Err(task::Cancelled) => return Err(errors::interrupted().into()),
        }
        self.note_joined(&member, &written);
        match written.returned {
            None => self.finish_write(written, more, sink),
            Some(ref rows) => {
                crate::exec::send_returned(rows, sink)?;
                self.finish_returned(written, more, sink);
            }
        }
        Ok(())
    }

    /// Waits for the commit of the group that the last statement has joined.
    pub(super) async fn finish_joined(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let Some((member, written)) = self.joined.take() else { return Ok(()) };
        if let Err(error) = member.settle().await {
            self.env.note_error(&error);
            return Err(error.into());
        }
        self.note_joined(&member, &written);
        match written.returned {
            None => self.finish_write(written, false, sink),
            Some(ref rows) => {
                crate::exec::deliver_returned(rows, sink).await?;
                self.finish_returned(written, false, sink);
            }
        }
        Ok(())
    }

    /// Notes what the statement has changed, for those who asked to be told.
    fn note_joined(&mut self, member: &Member, written: &Written) {
        self.env.settle_marks();
        self.list_changes(member.schema(), &written.touched, member.number());
    }

    /// Runs a statement in the open transaction, or alone in one of its own.
    pub(super) fn in_transaction(
        &mut self,
        mut entry: Entry,
        scan: &Normalised,
        constants: Constants<'_>,
        more: bool,
        cacheable: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        // A statement without tables runs wherever the transaction is.
        let own = self.transaction.as_ref().and_then(Transaction::schema).or(self.schema.as_ref());
        let home = plan.home.as_ref().or(own).cloned().ok_or_else(errors::no_database)?;
        let alone = self.transaction.is_none();
        if alone && self.may_join(&entry) {
            let pool = Pool::of(&home);
            let mut turn = Turn::wait(&self.engine, &pool, &self.env, self.waits_as.as_deref())?;
            // The entry's own statements belong to another connection.
            let known = if cacheable {
                StatementCache::of(turn.conn()?).take(scan, constants.sql, &self.inputs(), constants.params)
            } else {
                None
            };
            let entry = known.unwrap_or_else(|| entry.twin());
            return self.run_in_group(turn, entry, scan.hash, constants, more, cacheable, sink);
        }
        let mut transaction = self.transaction.take().unwrap_or_else(|| Transaction::new(false));
        let was_writer = transaction.is_writer();
        let result = self.step_of(&mut transaction, &plan, &home, &mut entry, scan.hash, constants, sink);
        transaction.end_turn();
        self.env.row_filter.take();
        if let Some(conn) = transaction.conn_to(&home)
            && cacheable
            && plan.attached.is_empty()
        {
            StatementCache::of(conn).put(scan.hash, entry);
        } else {
            drop(entry);
        }
        let written = match result {
            Ok(written) => written,
            Err(error) => {
                self.keep_or_undo(transaction, was_writer, &error);
                return Err(error);
            }
        };
        if alone {
            self.commit(transaction)?;
            self.env.settle_marks();
        } else {
            self.transaction = Some(transaction);
        }
        match written {
            Done::Rows(rows) => self.finish_select(&plan, rows, more, sink),
            Done::Written(written) => match written.returned {
                None => self.finish_write(written, more, sink),
                Some(ref rows) => {
                    // The rows are safe by now: however long the client takes for them, no lock waits for it.
                    crate::exec::send_returned(rows, sink)?;
                    self.finish_returned(written, more, sink);
                }
            },
        }
        Ok(())
    }

    /// Whether a statement that has failed like this has undone its transaction.
    pub(super) fn ends_transaction(&self, error: &ServerError) -> bool {
        let is_timeout = error.code == errors::lock_wait_timeout().code;
        // Who could not wait for a name keeps the transaction, as in MariaDB.
        error.code == errors::deadlock().code && !self.env.name_failed.get()
            || is_timeout && self.engine.settings.rollback_on_timeout()
    }

    /// What becomes of a transaction whose statement has failed.
    fn keep_or_undo(&mut self, mut transaction: Transaction, was_writer: bool, error: &QueryError) {
        let QueryError::Server(error) = error else { return transaction.rollback() };
        let fatal = matches!(error.code, 1021 | 1030) || transaction.has_ended() || transaction.is_undone();
        if !transaction.is_explicit() || fatal || self.ends_transaction(error) {
            return transaction.rollback();
        }
        // With the lock in hand a statement finds the definitions of its next attempt unchanged.
        if error.code != errors::DEFINITION_CHANGED {
            transaction.give_up_writing(&self.env, was_writer);
        }
        self.transaction = Some(transaction);
    }

    fn step_of(
        &mut self,
        transaction: &mut Transaction,
        plan: &Plan,
        home: &Arc<Schema>,
        entry: &mut Entry,
        hash: u64,
        constants: Constants<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Done, QueryError> {
        transaction.open(home, plan.attached.iter(), self.env.connection_id)?;
        if let Some(owner) = &self.waits_as {
            transaction.place()?.owner = Some(Arc::clone(owner));
        }
        self.attach(transaction.conn()?, plan)?;
        if let PlanKind::Select(select) = &plan.kind
            && plan.called.is_empty()
        {
            return self.read_of(transaction, plan, select, home, entry, hash, constants, sink).map(Done::Rows);
        }
        let memory_max = self.engine.settings.statement_memory_max();
        self.env.may_write(plan)?;
        let reach = if transaction.runs_alone() { plan.reach(constants)? } else { Reach::Any };
        transaction.write(&self.env, plan, &mut entry.stmts, reach)?;
        if !plan.is_current() {
            // Somebody has changed the definition while this statement waited for the lock.
            return Err(errors::definition_changed().into());
        }
        transaction.lock_reach(&self.env, reach, Mode::Exclusive)?;
        let savepoint = transaction.is_explicit();
        let owner = transaction.owner_id();
        let Place { conn, former, .. } = transaction.place()?;
        entry.prepared_on(conn, hash);
        let before = task::suspensions();
        let holds = Holds { owner, notes: former.as_mut().and_then(Former::notes) };
        let written = write_on(conn, plan, home, &mut entry.stmts, constants, memory_max, savepoint, holds);
        entry.brief = task::suspensions() == before;
        let written = match written {
            Ok(written) => written,
            Err(error) if plan.attached.is_empty() => return Err(error.into()),
            Err(error) => return Err(self.error_of_names(plan, false, error.into())),
        };
        if let Some(former) = &mut transaction.place()?.former {
            former.has_written = true;
        }
        transaction.touch(&written.touched);
        transaction.changed += written.affected;
        Ok(Done::Written(written))
    }

    /// The query of [`step_of`](Self::step_of): it has locked, at its isolation level, what it sends.
    fn read_of(
        &mut self,
        transaction: &mut Transaction,
        plan: &Plan,
        select: &SelectPlan,
        home: &Arc<Schema>,
        entry: &mut Entry,
        hash: u64,
        constants: Constants<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(u64, u64), QueryError> {
        match &select.locking {
            Some(locking) => self.lock_rows(transaction, plan, locking, home, entry, constants)?,
            None if transaction.runs_alone() => {
                let reach = plan.reach(constants)?;
                let need = if reach == Reach::Any { Need::Writer } else { Need::Private };
                transaction.write_or_lock(&self.env, plan, &mut entry.stmts, need)?;
                if !plan.is_current() {
                    return Err(errors::definition_changed().into());
                }
                transaction.lock_reach(&self.env, reach, Mode::Shared)?;
                transaction.end_turn();
            }
            None => transaction.read(&self.env)?,
        }
        if transaction.place()?.is_redefined(plan)? {
            return Err(errors::definition_changed().into());
        }
        self.note_reads(plan, !transaction.is_explicit());
        let reader = transaction.reader().cloned();
        let lock = transaction.written_schema().map(|schema| self.env.writes_to(&schema));
        let conn = transaction.conn()?;
        entry.prepared_on(conn, hash);
        let (stmts, had_snapshot) = (&mut entry.stmts, conn.has_snapshot());
        let rows = task::while_reading(&home.readers, reader.as_ref(), || {
            run_select(conn, stmts, plan, select, constants, sink)
        });
        drop(lock);
        let rows = rows.and_then(|rows| {
            write_marks(&self.env, conn)?;
            Ok(rows)
        });
        rows.map_err(|error| {
            // The plan is of the newest definitions, the transaction may be older.
            let error = self.error_of_names(plan, true, error);
            let is_outdated = |error: &ServerError| error.code == errors::DEFINITION_CHANGED;
            if !had_snapshot && matches!(&error, QueryError::Server(error) if is_outdated(error)) {
                // It was taken a moment before the transaction could know what it is of.
                let _ = transaction.place().map(Place::forget_snapshot);
            }
            error
        })
    }

    /// The end of a result that a writing statement has given: as that of a query.
    fn finish_returned(&mut self, written: Written, more: bool, sink: &mut dyn Sink) {
        if let Some(id) = written.last_insert_id {
            self.env.last_insert_id.set(id);
        }
        self.env.row_count.set(-1);
        self.last_query = None;
        sink.end_result(&Summary {
            warnings: self.env.warning_count(),
            status: self.status(),
            more_results: more,
            changes: self.env.take_changes(),
            ..Summary::default()
        });
    }

    fn finish_write(&mut self, written: Written, more: bool, sink: &mut dyn Sink) {
        if let Some(id) = written.last_insert_id {
            self.env.last_insert_id.set(id);
        }
        self.env.row_count.set(written.affected as i64);
        self.last_query = None;
        sink.end_result(&Summary {
            affected_rows: written.affected,
            insert_id: written.insert_id,
            warnings: self.env.warning_count(),
            status: self.status(),
            info: written.info.into_bytes().into(),
            more_results: more,
            changes: self.env.take_changes(),
        });
    }
}

/// Runs a writing statement on a connection whose transaction is open. It is undone alone if it fails; without a savepoint
/// it must be one that [writes once](writes_once), or have the transaction for itself. `holds` are its row locks.
///
/// # Errors
/// The statement's; [`errors::STOPPED`] if it needs what others have locked.
fn write_on(
    conn: &mut Conn,
    plan: &Plan,
    home: &Arc<Schema>,
    stmts: &mut Prepared,
    constants: Constants<'_>,
    memory_max: usize,
    savepoint: bool,
    holds: Holds<'_>,
) -> Res<Written> {
    // Nobody takes row locks while this statement has the write lock.
    let is_beside = !conn.is_private() && !home.rows.is_idle_for(holds.owner);
    // New rows are in nobody's way then, and a comparison finds them.
    let notes_rows = holds.notes.is_some() && !adds_rows(plan);
    let watched = conn.is_private() || is_beside || notes_rows;
    let savepoint = savepoint || watched;
    if savepoint {
        conn.begin_statement().map_err(|error| to_server_error(&error))?;
    }
    let mark = conn.watch().and_then(Watch::log).map(|log| log.mark());
    let env = constants.env;
    // Of a statement that has failed.
    drop(env.take_touched());
    let learn = |conn: &mut Conn| home.teach(conn, targets_of(plan).into_iter().map(|target| target.table.id));
    let _lock = if conn.is_private() { env.writes_privately_to(home) } else { env.writes_to(home) };
    let result = if watched {
        let write = |conn: &mut Conn| write_by(Writer { memory_max, ..Writer::new(conn, constants, env, stmts) }, plan);
        under_watch(conn, &home.rows, holds, is_beside, env, learn, write)
    } else {
        let learned = if conn.notes_keys() { learn(conn) } else { Ok(()) };
        learned.and_then(|()| {
            write_by(Writer { memory_max, notes: holds.notes, ..Writer::new(conn, constants, env, stmts) }, plan)
        })
    };
    let result = with_marks(env, conn, result);
    if result.is_err()
        && let Some((log, mark)) = conn.watch().and_then(Watch::log).zip(mark)
    {
        log.truncate(mark);
    }
    if savepoint {
        let ended = conn.end_statement(result.is_ok());
        if result.is_err() {
            if ended.is_err() {
                // Half a statement must not be committed.
                conn.rollback();
            }
            forget_stored_auto(plan);
        } else {
            ended.map_err(|error| to_server_error(&error))?;
        }
    }
    let mut written = result?;
    note_changes(plan, written.affected);
    if written.cascades || (written.affected > 0 && !matches!(plan.kind, PlanKind::Insert(_))) {
        note_reached(plan, &mut written.touched);
    }
    Ok(written)
}

/// What the file says about AUTO_INCREMENT has been undone with the statement.
fn forget_stored_auto(plan: &Plan) {
    for target in targets_of(plan) {
        target.table.state.stored_auto.store(0, Ordering::Release);
    }
}

/// What a statement has done, with what the file has to say of the numbers of sequences that it has taken.
fn with_marks(env: &Env, conn: &mut Conn, result: Res<Written>) -> Res<Written> {
    let result = result.and_then(|written| write_marks(env, conn).map(|()| written));
    if result.is_err() {
        env.forget_marks();
    }
    result
}

/// Notes what the statistics do not know. They tell of rows and of keys: an UPDATE of other columns leaves them as they are.
fn note_changes(plan: &Plan, rows: u64) {
    match &plan.kind {
        PlanKind::Update(update) => {
            let moved = update.targets.iter().filter(|target| target.changes_keys());
            moved.for_each(|target| target.to.table.state.changes.note(rows));
        }
        _ => plan.kind.targets().into_iter().for_each(|target| target.table.state.changes.note(rows)),
    }
}

/// Does what a plan says.
///
/// # Errors
/// The statement's; 1412 if it has read another schema that others have redefined meanwhile.
fn write_by(mut writer: Writer<'_>, plan: &Plan) -> Res<Written> {
    let mut written = match &plan.kind {
        PlanKind::Insert(insert) => writer.insert(insert),
        PlanKind::Update(update) => writer.update(update),
        PlanKind::Delete(delete) => writer.delete(delete),
        PlanKind::Select(select) => writer.select(select),
    }?;
    writer.touch(writer.env.take_touched());
    written.touched.append(&mut writer.touched);
    // The write lock keeps the definitions of the schema that it writes to, and of no other one.
    if plan.attached.is_empty() || plan.is_of_the_files() { Ok(written) } else { Err(errors::definition_changed()) }
}

/// The tables that a plan writes to, with those that its triggers and functions may change.
pub(super) fn targets_of(plan: &Plan) -> Vec<&Rc<TargetTable>> {
    let mut all = plan.kind.targets();
    all.extend(plan.called.iter());
    for at in 0..all.len() {
        let to = all[at];
        to.add_fired(&mut all);
    }
    all
}

/// Notes the tables that foreign keys may have changed together with those that a statement has changed.
fn note_reached(plan: &Plan, touched: &mut Vec<Arc<TableState>>) {
    for target in targets_of(plan).into_iter().filter(|target| !target.reached.is_empty()) {
        let is_in = |touched: &[Arc<TableState>], state| touched.iter().any(|known| Arc::ptr_eq(known, state));
        if !is_in(touched, &target.table.state) {
            continue;
        }
        for state in &target.reached {
            if !is_in(touched, state) {
                touched.push(Arc::clone(state));
            }
        }
    }
}

pub(super) fn names_of(plan: &Plan) -> Vec<&str> {
    targets_of(plan).into_iter().map(|target| target.table.name.as_str()).collect()
}

/// Whether a plan changes the file by one statement of SQLite's, which SQLite undoes alone when it fails.
fn writes_once(plan: &Plan) -> bool {
    match &plan.kind {
        _ if !plan.called.is_empty() => false,
        PlanKind::Insert(InsertPlan { to, rows, query, replace, on_duplicate, load: None, .. }) => {
            !to.fires_for(Event::Insert) && rows.len() == 1 && query.is_none() && !replace && on_duplicate.is_none()
        }
        _ => false,
    }
}

/// Whether a plan does nothing but add rows.
fn adds_rows(plan: &Plan) -> bool {
    plan.called.is_empty()
        && matches!(&plan.kind, PlanKind::Insert(insert)
        if !insert.replace && insert.on_duplicate.is_none() && !insert.to.fires_for(Event::Insert))
}

/// Rows of VALUES that a statement may have to be called brief before it has run.
const BRIEF_ROWS_MAX: usize = 64;

impl Plan {
    /// Whether a statement is short by its very form.
    pub(crate) fn is_brief(&self) -> bool {
        match &self.kind {
            PlanKind::Insert(insert) => {
                insert.query.is_none()
                    && insert.load.is_none()
                    && !insert.to.fires_for(Event::Insert)
                    // What a view wants of its rows may be queries.
                    && insert.to.view.is_none()
                    && insert.rows.len() <= BRIEF_ROWS_MAX
                    && insert.rows.iter().all(|row| row.feed.is_none())
            }
            _ => false,
        }
    }
}
