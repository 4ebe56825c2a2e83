//! Statements without a text: their plans are made of names and numbers (`crate::table`).
//!
//! They are cached, run, joined to the commits of others and stopped by locks as those are that were translated. In place of a
//! normalised text they have words, and their parameters are of a kind that those of no text are, so that none has their plans.

use std::rc::Rc;

use tidegate_rows::{QueryError, Sink};

use super::{Core, Res, Session, group, select::run_select, statements::Discard};
use crate::{
    cache::{Entry, StatementCache},
    errors,
    exec::{bind::Constants, write::Written},
    lexer::Normalised,
    session::pool::Pool,
    store::conn::{Conn, to_server_error},
    task,
    translate::{
        ParamKind,
        literals::Looked,
        params::{Made, Params},
        plan::{Plan, PlanKind},
    },
};

/// A statement without a text.
pub(crate) struct MadeStatement<'a> {
    /// What stands for it in the cache of statements.
    pub(crate) words: Normalised,
    pub(crate) params: Made<'a>,
    /// The connections of the schema that it is about.
    pub(crate) pool: &'a Rc<Pool>,
}

/// A statement that has run; its commit is still to be waited for.
pub(crate) struct Pending {
    member: group::Member,
    written: Written,
}

impl Core {
    /// Runs a statement, planned by `plan` unless its plan is known. If it answers something to wait for, that
    /// is to be given to [`finish`](Self::finish) outside of the coroutine; otherwise the sink has got everything.
    ///
    /// # Errors
    /// The plan's and the statement's.
    pub(crate) fn run_made(
        &mut self,
        made: &MadeStatement<'_>,
        plan: impl Fn(&Self) -> Res<Plan>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Pending>, QueryError> {
        if let Some(transaction) = &mut self.transaction
            && let Err(error) = transaction.resume()
        {
            self.transaction = None;
            return Err(error.into());
        }
        let words = &made.words;
        let params = Params::Made(made.params);
        let constants = Constants { sql: b"", literals: &[], params, env: &Rc::clone(&self.env) };
        let result = self.attempts(|core| {
            if let Some(done) = core.cached(Some(made.pool), words, constants, false, sink) {
                return done;
            }
            let kinds: Vec<ParamKind> = params.kinds().collect();
            let plan = Rc::new(plan(core)?);
            let entry = Entry::new(words, b"", core.inputs(), &kinds, &Looked::default(), plan);
            core.run_entry(entry, words, constants, false, true, sink)
        });
        if let Some(transaction) = &mut self.transaction {
            transaction.rest(&self.env);
        }
        match result {
            Ok(()) => Ok(self.take_pending()),
            Err(mut error) => {
                self.explain_interruption(&mut error);
                Err(error)
            }
        }
    }

    /// As [`run_made`](Self::run_made), in the group that this thread has open; `None` if that does not know the statement, or
    /// cannot run it without waiting: then it has done nothing.
    pub(crate) fn join_made(&mut self, made: &MadeStatement<'_>) -> Option<Result<Pending, QueryError>> {
        let words = &made.words;
        let params = Params::Made(made.params);
        self.env.begin_statement();
        let constants = Constants { sql: b"", literals: &[], params, env: &Rc::clone(&self.env) };
        let inputs = self.inputs();
        match self.cached_in_group(made.pool, words, &inputs, constants, false, &mut Discard)? {
            Err(QueryError::Server(error)) if matches!(error.code, errors::STOPPED | errors::DEFINITION_CHANGED) => {
                self.env.stopped.take();
                None
            }
            Err(error) => Some(Err(error)),
            Ok(()) => Some(self.take_pending().ok_or_else(|| errors::internal("a group without its member").into())),
        }
    }

    /// Whether queries of their own may share a snapshot.
    pub(crate) fn reads_alone(&self) -> bool {
        self.transaction.is_none() && self.env.autocommit.get()
    }

    /// Runs something that reads, on a connection whose snapshot stays the same meanwhile; `None` if definitions change just now.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn in_snapshot<T>(
        &mut self,
        pool: &Rc<Pool>,
        read: impl FnOnce(&mut Self, &mut Conn) -> T,
    ) -> Res<Option<T>> {
        let version = pool.schema.version();
        let mut conn = pool.take()?;
        let begun = conn.begin().and_then(|()| conn.hold_snapshot()).map_err(|error| to_server_error(&error));
        let done = begun.map(|()| {
            let is_current = pool.schema.version() == version && !pool.schema.redefinition.runs();
            is_current.then(|| task::while_reading(&pool.schema.readers, None, || read(self, &mut conn)))
        });
        // If this fails, giving it back rolls back.
        let _ = conn.commit();
        pool.put(conn);
        done
    }

    /// Runs a query within [`in_snapshot`](Self::in_snapshot). Error 1412 if definitions have changed: then the sink has got nothing.
    ///
    /// # Errors
    /// The plan's and the query's.
    pub(crate) fn find_made(
        &mut self,
        conn: &mut Conn,
        made: &MadeStatement<'_>,
        plan: impl FnOnce(&Self) -> Res<Plan>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.begin_attempts();
        self.begin_reads();
        let params = Params::Made(made.params);
        let constants = Constants { sql: b"", literals: &[], params, env: &Rc::clone(&self.env) };
        let known = StatementCache::of(conn).take(&made.words, b"", &self.inputs(), params);
        let mut entry = match known {
            Some(entry) => entry,
            None => {
                let kinds: Vec<ParamKind> = params.kinds().collect();
                Entry::new(&made.words, b"", self.inputs(), &kinds, &Looked::default(), Rc::new(plan(self)?))
            }
        };
        let plan = Rc::clone(&entry.plan);
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query").into()) };
        self.note_reads(&plan, true);
        let rows = run_select(conn, &mut entry.stmts, &plan, select, constants, sink);
        StatementCache::of(conn).put(made.words.hash, entry);
        match rows {
            Ok(rows) => {
                self.finish_select(&plan, rows, false, sink);
                Ok(())
            }
            Err(error) => {
                let mut error = self.error_of_names(&plan, true, error);
                self.explain_interruption(&mut error);
                Err(error)
            }
        }
    }

    /// Opens the current schema anew if it is gone and there again.
    pub(crate) fn renew(&mut self) {
        self.renew_schema();
    }

    fn take_pending(&mut self) -> Option<Pending> {
        self.joined.take().map(|(member, written)| Pending { member, written })
    }

    /// Waits for the commit of a statement, and tells the sink what it has done.
    ///
    /// # Errors
    /// The commit's.
    pub(crate) async fn finish(
        &mut self,
        Pending { member, written }: Pending,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.joined = Some((member, written));
        self.finish_joined(sink).await
    }
}

impl Session {
    /// The session's state.
    pub(crate) fn core(&mut self) -> &mut Core {
        &mut self.core
    }
}
