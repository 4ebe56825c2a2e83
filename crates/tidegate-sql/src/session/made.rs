//! Statements without a text: their plans are made of names and numbers (`crate::table`).
//!
//! They are cached, run, joined to the commits of others and stopped by locks as those are that were translated. In place of a
//! normalised text they have words, and their parameters are of a kind that those of no text are, so that none has their plans.

use std::rc::Rc;

use tidegate_rows::{QueryError, Sink};

use super::{Core, Res, Session, group};
use crate::{
    cache::Entry,
    errors,
    exec::{Plan, bind::Constants, params::Params, write::Written},
    lexer::Normalised,
    translate::{ParamKind, literals::Looked},
};

/// A statement that has run; its commit is still to be waited for.
pub(crate) struct Pending {
    member: group::Member,
    written: Written,
}

impl Core {
    /// Runs a statement with these words, planned by `plan` unless its plan is known. If it answers something to wait for, that
    /// is to be given to [`finish`](Self::finish) outside of the coroutine; otherwise the sink has got everything.
    ///
    /// # Errors
    /// The plan's and the statement's.
    pub(crate) fn run_made(
        &mut self,
        words: &Normalised,
        params: Params<'_>,
        plan: impl Fn(&Self) -> Res<Plan>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Pending>, QueryError> {
        if let Some(transaction) = &mut self.transaction
            && let Err(error) = transaction.resume()
        {
            self.transaction = None;
            return Err(error.into());
        }
        let constants = Constants { sql: b"", literals: &[], params, env: &Rc::clone(&self.env) };
        let result = self.attempts(|core| {
            if let Some(done) = core.cached(words, constants, false, sink) {
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
    pub(crate) fn join_made(
        &mut self,
        words: &Normalised,
        params: Params<'_>,
        sink: &mut dyn Sink,
    ) -> Option<Result<Option<Pending>, QueryError>> {
        let pool = self.pool.clone()?;
        self.env.begin_statement();
        let constants = Constants { sql: b"", literals: &[], params, env: &Rc::clone(&self.env) };
        let inputs = self.inputs();
        match self.cached_in_group(&pool, words, &inputs, constants, false, sink)? {
            Err(QueryError::Server(error)) if matches!(error.code, errors::STOPPED | errors::DEFINITION_CHANGED) => {
                self.env.stopped.take();
                None
            }
            Err(error) => Some(Err(error)),
            Ok(()) => Some(Ok(self.take_pending())),
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
