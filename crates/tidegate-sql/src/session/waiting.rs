//! How a statement waits for what other sessions hold: within `innodb_lock_wait_timeout`, and not in a circle.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use super::Res;
use crate::{
    env::Env,
    errors,
    parse::Statement,
    row_locks::Deadlock,
    schema::Schema,
    store::writer::WriteGuard,
    task,
    translate::locking::LockWait,
    waits::{Blockers, Kind},
};

/// How long NOWAIT waits for the write lock, which others have while one of their statements runs.
const NOWAIT: Duration = Duration::from_secs(1);

/// Waits for the right to write to tables of a schema: until nobody else has them locked, and for the write lock.
///
/// # Errors
/// 1205 if it takes too long.
pub(crate) fn acquire_for(schema: &Arc<Schema>, env: &Env, tables: &[&str]) -> Res<WriteGuard> {
    let limit = WaitLimit::begin(env);
    loop {
        limit.set_rest();
        wait_for_table_locks(schema, env, tables)?;
        let guard = acquire(schema, env)?;
        if !schema.keeps_from(env, tables) {
            return Ok(guard);
        }
    }
}

/// The limit for waiting of a statement that waits several times: it is for all of them together.
pub(super) struct WaitLimit<'a> {
    env: &'a Env,
    time: Duration,
    begun: Instant,
}

impl<'a> WaitLimit<'a> {
    pub(super) fn begin(env: &'a Env) -> Self {
        Self { env, time: env.lock_wait.get(), begun: Instant::now() }
    }

    /// The next wait has what is left.
    pub(super) fn set_rest(&self) {
        self.env.lock_wait.set(self.time.saturating_sub(self.begun.elapsed()));
    }
}

impl Drop for WaitLimit<'_> {
    fn drop(&mut self) {
        self.env.lock_wait.set(self.time);
    }
}

/// Waits for a lock of other sessions.
///
/// # Errors
/// 1205 if it takes too long.
pub(super) fn wait_at_most<T>(env: &Env, lock: impl Future<Output = T>) -> Res<T> {
    match task::block_on(tokio::time::timeout(env.lock_wait.get(), lock)) {
        Ok(Ok(locked)) => Ok(locked),
        Ok(Err(_)) => Err(errors::lock_wait_timeout()),
        Err(task::Cancelled) => Err(errors::interrupted()),
    }
}

/// Waits until nobody is about to make new definitions of a schema visible that its file has already.
///
/// # Errors
/// 1205 if it takes too long.
pub(super) fn wait_for_definitions(env: &Env, schema: &Schema) -> Res<()> {
    let over = schema.redefinition.over();
    if schema.redefinition.runs() { wait_at_most(env, over) } else { Ok(()) }
}

/// As [`wait_at_most`]; `blockers` tells for whom it is, if it is for anybody.
///
/// # Errors
/// Also 1213, if the session waits in a circle.
pub(super) fn wait_for<T>(
    env: &Env,
    kind: Kind,
    blockers: impl FnOnce() -> Blockers,
    lock: impl Future<Output = T>,
) -> Res<T> {
    let waits = env.waits().run(env.connection_id, kind, blockers, lock);
    wait_at_most(env, waits)?.map_err(|Deadlock| errors::deadlock())
}

/// Waits until no other session has one of the tables locked.
///
/// # Errors
/// As [`wait_for`].
pub(super) fn wait_for_table_locks(schema: &Schema, env: &Env, tables: &[&str]) -> Res<()> {
    let locks = &schema.table_locks;
    if !locks.any() {
        return Ok(());
    }
    let session = env.connection_id;
    let blockers = || -> Blockers {
        let (locks, tables) = (Arc::clone(locks), tables.iter().map(|&table| table.to_owned()).collect::<Vec<_>>());
        Box::new(move || locks.sessions_on(session, &tables))
    };
    wait_for(env, Kind::LockedTable, blockers, locks.wait(session, tables))
}

impl Env {
    /// Has the statement that runs wait for locks for this time at most.
    pub(crate) fn wait_at_most(&self, time: Duration) {
        let usual = self.lock_wait.replace(time);
        self.lock_wait_before.set(self.lock_wait_before.get().or(Some(usual)));
    }

    /// The statement has ended, with the limit of its own if it had one.
    pub(crate) fn wait_as_usual(&self) {
        if let Some(time) = self.lock_wait_before.take() {
            self.lock_wait.set(time);
        }
    }

    /// Has a query wait for the write lock as its clause says; answers for how long it waits for rows, which is to be set then.
    pub(super) fn limit_for(&self, wait: LockWait) -> Duration {
        if let LockWait::AtMost(time) = wait {
            self.wait_at_most(time);
        }
        let usual = self.lock_wait.get();
        if wait == LockWait::Fail {
            self.lock_wait.set(usual.min(NOWAIT));
        }
        usual
    }

    /// A statement without the clause that says how long it waits, which is noted.
    pub(super) fn own_wait(&self, statement: Statement) -> Statement {
        match statement {
            Statement::Waits { seconds, statement } => {
                self.wait_at_most(Duration::from_secs(seconds));
                *statement
            }
            statement => statement,
        }
    }
}

impl Schema {
    /// Whether LOCK TABLES keeps one of these tables from the session. Asked with the write lock in hand.
    pub(super) fn keeps_from(&self, env: &Env, tables: &[&str]) -> bool {
        self.table_locks.any() && tables.iter().any(|table| self.table_locks.is_kept_from(env.connection_id, table))
    }
}

/// Waits for the write lock of a schema.
///
/// # Errors
/// 1205 if it takes too long.
pub(super) fn acquire(schema: &Arc<Schema>, env: &Env) -> Res<WriteGuard> {
    let lent = env.lend(schema).or_else(|| env.lend_to_define(schema));
    if let Some(guard) = lent.or_else(|| schema.writer.try_acquire()) {
        return Ok(guard);
    }
    match schema.rows.waits_for_writer(env.connection_id) {
        Some(owner) => {
            let acquired = owner.while_waiting_to_write(schema.writer.acquire());
            wait_for(env, Kind::Rows, || schema.rows.blockers_of(env.connection_id), acquired)?
                .map_err(|Deadlock| errors::deadlock())
        }
        None => wait_at_most(env, schema.writer.acquire()),
    }
}
