//! Commits that statements share.
//!
//! A commit costs several times what a short statement costs: pages are written to the log, and somebody has to wait for
//! the disk. So single writing statements of one thread go into one transaction of SQLite's, a *group*. The first takes
//! the write lock and opens the group; others join it; when the event loop has turned once, so that whatever was
//! ready has run, the group is committed for all. Each is acknowledged when that commit is (as `durability` asks) on the disk.
//! Until the commit nobody else sees what they have written.
//!
//! While the disk is busy with an earlier commit a group stays open for more, unless somebody wants the write lock: the
//! disk would have to wait anyway, and one commit of forty statements costs much less than ten of four. So two groups
//! take turns when there are many clients, one in the hands of the disk, one in those of its statements. A group that has
//! [`ENOUGH`] statements, or those of everybody who is expected ([`Returning`]), is committed all the same: the disk, whose next sync is
//! for all commits before it, then goes on without waiting for this thread to notice that it is idle.
//!
//! Who can do without its own commit behind a power cut is answered *early*: when the disk has what was committed before, as far as somebody
//! waits for that. So it has read nothing that goes, and does not wait for the disk if it is idle. Commits of none but such statements ask for a sync
//! when there are [`EARLY_MAX`] that the disk may not have, or somebody listens to them; the checkpoint thread asks for the rest.
//!
//! Invariants:
//! 1. A group is in its pool exactly while it is open, and holds the write lock for exactly as long.
//! 2. Its connection is away while a statement runs on it: nobody joins or commits then.
//! 3. A statement that fails leaves nothing behind in the group (`Core::write_on`). If SQLite has undone the whole
//!    transaction (a full disk), all statements of the group fail.
//! 4. Somebody is about to commit an open group: its opener, or, once the group is due, the statement that runs. The
//!    opener waits for the disk at most, which tells it also when a sync fails.
//! 5. When a group has settled its members are woken by one of them, the listener, which alone waits for the sync thread:
//!    a wake-up from another thread is a system call. Whoever leaves a committed group that nobody listens for wakes all.

mod returning;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
};

use tidegate_rows::ServerError;

use crate::{
    catalog::TableState,
    env::Env,
    errors,
    row_locks::{Deadlock, Owner},
    schema::Schema,
    session::pool::Pool,
    settings::Durability,
    shared::EngineInner,
    store::{
        conn::{Conn, to_server_error},
        writer::WriteGuard,
    },
    task,
    waits::Kind,
};

pub(crate) use returning::Returning;

type Res<T> = Result<T, ServerError>;

/// Statements of a group that does not wait for the disk any longer. A commit costs as much as a third of one of them.
const ENOUGH: u32 = 16;

/// So many commits to which all statements were early may be without a sync.
const EARLY_MAX: u64 = 16;

/// Statements that commit together.
pub(crate) struct Group {
    engine: Arc<EngineInner>,
    pool: Rc<Pool>,
    /// Away while a statement runs, and when the group is closed.
    conn: RefCell<Option<Box<Conn>>>,
    guard: RefCell<Option<WriteGuard>>,
    state: RefCell<State>,
    /// Tables changed so far.
    touched: RefCell<Vec<Arc<TableState>>>,
    /// The number of the commit.
    number: Cell<u64>,
    /// Statements that have run.
    members: Cell<u32>,
    /// The opener wanted to commit while a statement ran.
    due: Cell<bool>,
    /// The opener has gone: who waits in its group must look after the sync.
    is_orphan: Cell<bool>,
    /// The opener would commit if the disk were not busy.
    waits: Cell<bool>,
    /// A member waits for the sync thread.
    has_listener: Cell<bool>,
    /// There is a member that is answered early.
    has_early: Cell<bool>,
    /// There is one that is not.
    is_awaited: Cell<bool>,
    /// The first of its members has been answered.
    is_answered: Cell<bool>,
    waiters: RefCell<Vec<Waker>>,
}

enum State {
    Open,
    /// Committed with this ticket of the sync thread; `before` is the last one before it that somebody waits for.
    Committed {
        ticket: u64,
        before: u64,
    },
    /// Undone.
    Failed(ServerError),
}

/// The right to run one statement in a group.
pub(super) struct Turn {
    group: Rc<Group>,
    /// Taken when the turn ends.
    conn: Option<Box<Conn>>,
    opener: bool,
}

/// A statement that has run in a group and waits for its commit.
pub(super) struct Member {
    group: Rc<Group>,
    /// This member has to commit.
    opener: Cell<bool>,
    /// This member waits for the sync thread.
    listens: Cell<bool>,
    /// It is answered early.
    is_early: bool,
}

impl Turn {
    /// A turn in the group that is open on this thread, if no statement runs in it.
    #[inline]
    pub(super) fn join(pool: &Rc<Pool>) -> Option<Self> {
        let group = pool.group()?;
        let conn = group.conn.borrow_mut().take()?;
        Some(Self { group, conn: Some(conn), opener: false })
    }

    /// Opens a group on `conn`.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn open(
        engine: &Arc<EngineInner>,
        pool: &Rc<Pool>,
        guard: WriteGuard,
        mut conn: Box<Conn>,
    ) -> Res<Self> {
        let begun = pool.schema.may_write().and_then(|()| {
            conn.enforce_foreign_keys(true);
            pool.schema.begin_to_commit(&mut conn).map_err(|error| to_server_error(&error))
        });
        if let Err(error) = begun {
            pool.put(conn);
            return Err(error);
        }
        let group = Rc::new(Group {
            engine: Arc::clone(engine),
            pool: Rc::clone(pool),
            conn: RefCell::default(),
            guard: RefCell::new(Some(guard)),
            state: RefCell::new(State::Open),
            touched: RefCell::default(),
            number: Cell::new(0),
            members: Cell::new(0),
            due: Cell::new(false),
            is_orphan: Cell::new(false),
            waits: Cell::new(false),
            has_listener: Cell::new(false),
            has_early: Cell::new(false),
            is_awaited: Cell::new(false),
            is_answered: Cell::new(false),
            waiters: RefCell::default(),
        });
        pool.set_group(Some(Rc::clone(&group)));
        Ok(Self { group, conn: Some(conn), opener: true })
    }

    /// Waits for a turn: in the open group, or in a new one once the write lock is free. Inside of a coroutine only. `owner`
    /// has row locks that others may wait for meanwhile.
    ///
    /// # Errors
    /// 1205 if it takes too long, 1213 if it would take for ever, storage errors.
    pub(super) fn wait(engine: &Arc<EngineInner>, pool: &Rc<Pool>, env: &Env, owner: Option<&Owner>) -> Res<Self> {
        let mut lock = pin!(pool.schema.writer.acquire());
        let turn = poll_fn(|cx| {
            if let Some(turn) = Self::join(pool) {
                return Poll::Ready(Ok(turn));
            }
            let Poll::Ready(guard) = lock.as_mut().poll(cx) else {
                pool.wait_for_group(cx.waker());
                return Poll::Pending;
            };
            Poll::Ready(pool.take().and_then(|conn| Self::open(engine, pool, guard, conn)))
        });
        let shown = if owner.is_none() { pool.schema.rows.waits_for_writer(env.connection_id) } else { None };
        let turn = async {
            let Some(owner) = owner.or(shown.as_ref()) else { return turn.await };
            let blockers = || pool.schema.rows.blockers_of(env.connection_id);
            let turn = owner.while_waiting_to_write(turn);
            let turn = env.waits().run(env.connection_id, Kind::Rows, blockers, turn).await;
            turn.and_then(|turn| turn).map_err(|Deadlock| errors::deadlock())?
        };
        match task::block_on(tokio::time::timeout(env.lock_wait.get(), turn)) {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => Err(errors::lock_wait_timeout()),
            Err(task::Cancelled) => Err(errors::interrupted()),
        }
    }

    /// The connection to run the statement on.
    ///
    /// # Errors
    /// None before the turn's end.
    #[inline]
    pub(super) fn conn(&mut self) -> Res<&mut Conn> {
        self.conn.as_deref_mut().ok_or_else(|| errors::internal("a group without connection"))
    }

    /// Ends the turn without having run anything.
    pub(super) fn give_up(self) {
        self.failed(None);
    }

    /// The statement has run and changed these tables. Whether it is answered early is its session's choice.
    pub(super) fn succeeded(mut self, touched: &[Arc<TableState>], is_early: bool) -> Member {
        let opener = self.opener;
        let group = Rc::clone(&self.group);
        {
            let mut known = group.touched.borrow_mut();
            for table in touched {
                if !known.iter().any(|known| Arc::ptr_eq(known, table)) {
                    known.push(Arc::clone(table));
                }
            }
        }
        group.members.set(group.members.get() + 1);
        let kind = if is_early { &group.has_early } else { &group.is_awaited };
        kind.set(true);
        if let Some(conn) = self.conn.take() {
            group.take_back(conn);
        }
        Member { group, opener: Cell::new(opener), listens: Cell::new(false), is_early }
    }

    /// The statement has failed and left nothing behind.
    pub(super) fn failed(mut self, error: Option<&ServerError>) {
        let Some(conn) = self.conn.take() else { return };
        if conn.is_autocommit() {
            let error = error.cloned().unwrap_or_else(|| errors::internal("a group has lost its transaction"));
            self.group.close(conn, State::Failed(error));
        } else if self.opener {
            // Nobody can have joined: the connection was away.
            self.group.close(conn, State::Failed(errors::interrupted()));
        } else {
            self.group.take_back(conn);
            // If that was what the commit has waited for, there is no member here to listen for the others.
            self.group.wake_if_unheard();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Only a panic comes here with the connection: nobody knows what stands in the transaction.
        if let Some(conn) = self.conn.take() {
            self.group.close(conn, State::Failed(errors::internal("a statement of the same commit has failed")));
        }
    }
}

impl Group {
    /// The connection comes back from a statement.
    fn take_back(&self, conn: Box<Conn>) {
        *self.conn.borrow_mut() = Some(conn);
        if self.due.get() || self.waits.get() && self.has_enough() {
            self.commit();
        } else {
            self.pool.wake_waiting();
        }
    }

    fn has_enough(&self) -> bool {
        self.members.get() >= ENOUGH || self.pool.returning.are_all(self.members.get())
    }

    /// Waits while the disk is busy with an earlier commit, nobody else wants to write, and there is room in the group.
    fn poll_due(&self, cx: &Context<'_>) -> Poll<()> {
        let is_open = matches!(*self.state.borrow(), State::Open);
        if !is_open || self.has_enough() || self.engine.settings.durability() == Durability::Normal {
            return Poll::Ready(());
        }
        let schema = &self.pool.schema;
        if schema.writer.is_wanted(cx.waker()) {
            return Poll::Ready(());
        }
        let busy = schema.sync.poll(schema.sync.awaited(), Some(cx)).is_pending();
        self.waits.set(busy);
        if busy { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Commits, or has the statement that runs do it.
    fn commit(&self) {
        if !matches!(*self.state.borrow(), State::Open) {
            return;
        }
        let conn = self.conn.borrow_mut().take();
        let Some(mut conn) = conn else {
            self.due.set(true);
            return;
        };
        let schema = &self.pool.schema;
        let reserved = schema.commits.reserve(&mut conn);
        let committed = reserved.and_then(|reserved| match conn.commit() {
            Ok(()) => Ok(reserved),
            Err(error) => Err(to_server_error(&error)),
        });
        let reserved = match committed {
            Ok(reserved) => reserved,
            Err(error) => return self.close(conn, State::Failed(error)),
        };
        let touched = self.touched.borrow();
        self.number.set(schema.note_commit(reserved, touched.iter()));
        if touched.iter().any(|table| table.changes.are_many()) {
            self.engine.request_statistics(schema);
        }
        drop(touched);
        self.pool.returning.committed(self.members.get());
        let before = schema.sync.awaited();
        let is_awaited = self.is_awaited.get();
        let ticket = if is_awaited { schema.sync.commit() } else { schema.sync.commit_early() };
        self.close(conn, State::Committed { ticket, before });
        self.engine.background.watch_once(schema);
        if is_awaited || schema.commits.are_listed() || schema.sync.unsynced() >= EARLY_MAX {
            self.engine.background.request_sync(schema);
        }
        if self.is_orphan.get() {
            self.wake_all();
        }
    }

    /// Gives connection and lock back. What is not committed is undone.
    fn close(&self, conn: Box<Conn>, state: State) {
        let failed = matches!(state, State::Failed(_));
        *self.state.borrow_mut() = state;
        self.pool.set_group(None);
        self.pool.put(conn);
        if failed {
            for table in self.touched.borrow_mut().drain(..) {
                // What the file says about AUTO_INCREMENT has been undone too.
                table.stored_auto.store(0, Ordering::Release);
            }
        }
        drop(self.guard.borrow_mut().take());
        self.pool.wake_waiting();
        if failed || self.has_early.get() || self.engine.settings.durability() == Durability::Normal {
            self.wake_all();
        }
    }

    /// Has the members look again when the group is closed and none of them listens.
    fn wake_if_unheard(&self) {
        if !self.has_listener.get() && !matches!(*self.state.borrow(), State::Open) {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        for waker in self.waiters.take() {
            waker.wake();
        }
    }

    /// A member is answered; the first one tells the pool.
    fn answered(&self) {
        if !self.is_answered.replace(true) {
            self.pool.returning.answered(self.members.get());
        }
    }
}

impl Member {
    /// Waits until the statement is committed and, as `durability` asks, on the disk.
    ///
    /// # Errors
    /// The commit's; 1030 if the disk refuses. Nothing is committed then, except after a failed sync.
    pub(super) async fn settle(&self) -> Res<()> {
        if self.opener.get() {
            task::next_turn().await;
            poll_fn(|cx| self.group.poll_due(cx)).await;
            self.opener.set(false);
            self.group.commit();
        }
        poll_fn(|cx| self.poll_settled(cx)).await
    }

    fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<Res<()>> {
        let group = &self.group;
        let ticket = match &*group.state.borrow() {
            State::Failed(error) => return Poll::Ready(Err(error.clone())),
            State::Committed { .. } if group.engine.settings.durability() == Durability::Normal => {
                return Poll::Ready(Ok(()));
            }
            State::Committed { before, .. } if self.is_early => return self.poll_early(*before, cx),
            State::Committed { ticket, .. } => *ticket,
            State::Open => {
                group.waiters.borrow_mut().push(cx.waker().clone());
                return Poll::Pending;
            }
        };
        let listens = self.listens.get() || !group.has_listener.get();
        let Poll::Ready(durable) = group.pool.schema.sync.poll(ticket, listens.then_some(cx)) else {
            if listens {
                group.has_listener.set(true);
                self.listens.set(true);
            } else {
                group.waiters.borrow_mut().push(cx.waker().clone());
            }
            return Poll::Pending;
        };
        self.listens.set(false);
        group.answered();
        if let Some(next) = group.pool.group().filter(|next| next.waits.take()) {
            // Before anything else: the disk is to work while those who have waited for it are answered.
            next.commit();
        }
        group.wake_all();
        Poll::Ready(if durable { Ok(()) } else { Err(errors::storage("the commit could not be made durable")) })
    }

    /// As [`poll_settled`](Self::poll_settled), for a member that is answered early.
    fn poll_early(&self, before: u64, cx: &Context<'_>) -> Poll<Res<()>> {
        let group = &self.group;
        let Poll::Ready(durable) = group.pool.schema.sync.poll(before, Some(cx)) else { return Poll::Pending };
        group.answered();
        Poll::Ready(if durable { Ok(()) } else { Err(errors::storage("what was read could not be made durable")) })
    }

    /// The schema that the group has written to.
    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.group.pool.schema
    }

    /// The number of the group's commit.
    pub(super) fn number(&self) -> u64 {
        self.group.number.get()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.opener.get() {
            self.group.is_orphan.set(true);
            self.group.commit();
        }
        if self.listens.get() {
            // Another one listens from now on.
            self.group.has_listener.set(false);
        }
        // It may have been the one to listen next.
        self.group.wake_if_unheard();
    }
}
