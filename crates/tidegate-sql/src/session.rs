//! A session: what a client talks to. It has a current schema, variables, and at most one open transaction.

pub(crate) mod above;
mod account_statements;
mod analyse;
mod call;
mod changes;
mod checks;
mod client;
mod definitions;
mod describe;
pub(crate) mod event_runs;
pub(crate) mod explain;
mod files;
mod freshness;
mod group;
mod loading;
mod made;
mod plan;
pub(crate) mod pool;
mod pooled;
mod prepared;
mod private;
pub(crate) mod reach;
mod resting;
pub(crate) mod rows;
mod savepoints;
mod select;
pub(crate) mod sequences;
mod set;
pub(crate) mod settling;
mod statements;
mod stepping_back;
mod tables;
pub(crate) mod temporary;
mod texts;
mod told;
mod transaction;
mod values;
mod waiting;
mod writes;

use std::{cell::RefCell, rc::Rc, sync::Arc, sync::atomic::Ordering};

use tidegate_rows::{Execute, QueryError, ServerError, Sink};

use above::Above;
pub use changes::{TableChange, TableRead};
pub(crate) use client::Over;
pub use describe::Description;
pub use freshness::Freshness;
pub(crate) use group::Group;
use group::Turn;
pub(crate) use made::{MadeStatement, Pending};
pub use pooled::PooledSession;
pub use prepared::Context;
pub(crate) use private::acquire_unused;
use transaction::{Transaction, writes_for_others};

use crate::{
    cache::{self, Entry, StatementCache},
    env::{Env, UserValue},
    errors,
    exec::{bind::Constants, write::Written},
    lexer::{self, Literals, Normalised},
    parse::{self, Statement},
    row_locks::Owner,
    schema::Schema,
    session::pool::Pool,
    shared::EngineInner,
    sql_mode,
    store::{conn::Conn, file_source::FileSource},
    task,
    translate::{
        Inputs, ParamKind,
        params::{Params, Text},
        plan::{Plan, PlanKind, SelectPlan},
    },
    variables,
};

type Res<T> = Result<T, ServerError>;

/// A session with the engine; stays on the thread that made it.
pub struct Session {
    core: Core,
}

/// The session's state, used from inside of its coroutine.
pub(crate) struct Core {
    pub(crate) engine: Arc<EngineInner>,
    pub(crate) above: &'static Above,
    pub(crate) schema: Option<Arc<Schema>>,
    pool: Option<Rc<Pool>>,
    pub(crate) env: Rc<Env>,
    transaction: Option<Transaction>,
    pub(crate) prepared: std::collections::HashMap<String, Prepared>,
    /// Whether a text may hold several statements.
    batches: bool,
    /// The query that ran last: it knows what it has read.
    last_query: Option<Rc<Plan>>,
    /// What the last query read and the last commit changed, for those who asked to be told.
    watched: Option<Box<changes::Watched>>,
    /// A sleep that begins when the coroutine has ended.
    napping: Option<(Rc<Plan>, std::time::Duration)>,
    /// A statement that has run in a group; its commit is waited for when the coroutine has ended.
    joined: Option<(group::Member, Written)>,
    /// Who has the row locks that the statement has waited for, when it runs outside of a transaction.
    waits_as: Option<Arc<Owner>>,
    /// In what the next statement was prepared.
    context: Option<Context>,
    /// The schema that is current again when a prepared statement has ended that runs in another.
    away_from: Option<Option<String>>,
    /// Whether plans are kept and used again; only tests turn it off.
    caches: bool,
    /// The values of OUT parameters in the places of an EXECUTE's variables, by their numbers.
    given_back: Vec<(usize, UserValue)>,
    /// The file of the LOAD DATA that runs, however often it has to begin again.
    loads: Option<Rc<FileSource>>,
}

/// What PREPARE keeps.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    sql: Vec<u8>,
    context: Context,
}

/// How often a statement is planned whose tables others change while it waits to write.
const ATTEMPTS_MAX: usize = 100;
/// After so many of them nobody begins to define anything until the statement has ended: those who do so without pause would stand
/// in front of it each time.
const ATTEMPTS_BEFORE_CALM: usize = 3;

thread_local! {
    static SCRATCH: RefCell<Normalised> = RefCell::default();
}

impl Session {
    pub(crate) fn new(engine: Arc<EngineInner>, above: &'static Above) -> Self {
        let env = Rc::new(variables::environment(&engine, &engine.clients.make()));
        env.belongs_to(&engine);
        env.reserves_by(sequences::reserve);
        Self {
            core: Core {
                engine,
                above,
                schema: None,
                pool: None,
                env,
                transaction: None,
                prepared: std::collections::HashMap::new(),
                batches: true,
                last_query: None,
                watched: None,
                napping: None,
                joined: None,
                waits_as: None,
                context: None,
                away_from: None,
                caches: true,
                given_back: Vec::new(),
                loads: None,
            },
        }
    }

    pub(crate) fn use_schema(&mut self, name: &str) -> Res<()> {
        self.core.use_schema(name)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.core.transaction.is_some()
    }

    /// The tables that the last statement has read, as schema and name.
    pub fn tables_read(&self) -> &[(String, String)] {
        self.core.last_query.as_ref().map_or(&[], |plan| &plan.read_names)
    }

    /// Which definitions the current schema has: its number, and one that changes with them. Zeros if there is no schema.
    pub fn definitions(&self) -> (u64, u64) {
        self.core.schema.as_ref().map_or((0, 0), |schema| (schema.id, schema.version()))
    }

    /// The name of the current schema, empty if there is none.
    pub fn schema(&self) -> &str {
        self.core.schema.as_ref().map_or("", |schema| &schema.name)
    }

    /// The session's number, as `connection_id()` answers.
    pub fn id(&self) -> u64 {
        self.core.env.connection_id
    }

    /// What SQL functions see.
    pub(crate) fn env(&self) -> &Env {
        &self.core.env
    }

    /// Whether the session uses plans again: results must not depend on it, and tests compare them.
    #[doc(hidden)]
    pub fn set_statement_cache(&mut self, on: bool) {
        self.core.caches = on;
    }
}

impl Execute for Session {
    async fn execute<S: Sink>(
        &mut self,
        statement: tidegate_rows::Statement<'_>,
        sink: &mut S,
    ) -> Result<(), QueryError> {
        let env = Rc::clone(&self.core.env);
        let core = &mut self.core;
        let sink: &mut dyn Sink = sink;
        let statement = Text { sql: statement.sql, params: Params::Bound(statement.params) };
        let text = statement.sql;
        let _over = Over::of(&env.client);
        match task::run(&*env, text, || core.run(statement, sink)).await {
            Ok(Ok(())) if core.joined.is_some() => core.finish_joined(sink).await,
            Ok(Ok(())) if core.napping.is_some() => core.finish_nap(text, sink).await,
            Ok(result) => result,
            Err(_) => Err(errors::out_of_memory().into()),
        }
    }
}

/// Server status bits of the protocol.
mod status {
    pub(super) const IN_TRANSACTION: u16 = 1;
    pub(super) const AUTOCOMMIT: u16 = 2;
    pub(super) const NO_BACKSLASH_ESCAPES: u16 = 512;
    /// The result holds the OUT parameters of a prepared CALL.
    pub(super) const OUT_PARAMETERS: u16 = 4096;
}

impl Core {
    /// Runs the statements of a text, in the open transaction if there is one, which rests otherwise.
    fn run(&mut self, text: Text<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        if let Some(transaction) = &mut self.transaction
            && let Err(error) = transaction.resume()
        {
            self.transaction = None;
            self.env.begin_statement();
            self.env.note_error(&error);
            return Err(error.into());
        }
        let result = self.run_all(text, sink);
        if let Some(transaction) = &mut self.transaction {
            transaction.rest(&self.env);
        }
        result
    }

    fn run_all(&mut self, statement: Text<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        self.come_back();
        match self.context.take() {
            Some(context) => self.within(&context, |core| core.run_batch(statement, sink)),
            None => self.run_batch(statement, sink),
        }
    }

    fn run_batch(&mut self, statement: Text<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut from = 0;
        let mut first = true;
        self.forget_reads();
        loop {
            let mut scratch = SCRATCH.take();
            let result = lexer::normalise(statement.sql, from, self.env.lex_mode(), &mut scratch);
            let outcome = match result {
                Err(error) => Err(parse::near(statement.sql, error.at).into()),
                Ok(()) if scratch.text.is_empty() => {
                    SCRATCH.replace(scratch);
                    return match first {
                        true if lexer::is_without_comment(statement.sql) => Err(errors::empty_query().into()),
                        true => {
                            self.ok(0, false, sink);
                            Ok(())
                        }
                        false => Ok(()),
                    };
                }
                Ok(()) => {
                    let more = !lexer::is_blank(statement.sql, scratch.rest, self.env.lex_mode());
                    if more && (statement.params.len() > 0 || !self.batches) {
                        Err(errors::syntax(String::from_utf8_lossy(&statement.sql[scratch.rest..])).into())
                    } else {
                        if let Some(transaction) = &self.transaction {
                            transaction.runs(&statement.sql[from..scratch.rest]);
                        }
                        let ran = self.one(statement, from, &scratch, more, sink);
                        self.end_reads(ran.is_err());
                        ran.map(|()| more)
                    }
                }
            };
            from = scratch.rest;
            SCRATCH.replace(scratch);
            first = false;
            match outcome {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(mut error) => {
                    self.explain_interruption(&mut error);
                    return Err(error);
                }
            }
        }
    }

    /// Runs one statement of a batch.
    fn one(
        &mut self,
        text: Text<'_>,
        from: usize,
        scan: &Normalised,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        if scan.params != text.params.len() {
            self.env.begin_statement();
            return Err(errors::wrong_execute_arguments().into());
        }
        let constants =
            Constants { sql: text.sql, literals: &scan.literals, params: text.params, env: &Rc::clone(&self.env) };
        self.attempts(|core| core.attempt(text, from, scan, constants, more, sink))
    }

    /// Begins a statement and tries to run it until it neither meets other definitions than its plan's nor stops for others' rows.
    fn attempts(&mut self, attempt: impl FnMut(&mut Self) -> Result<(), QueryError>) -> Result<(), QueryError> {
        let done = self.attempt_often(attempt);
        self.loads = None;
        // Who gets these locks next writes behind the commit of this statement (`store::private`, invariant 2).
        self.waits_as = None;
        self.env.wait_as_usual();
        done
    }

    fn attempt_often(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        self.begin_attempts();
        let begun = self.env.begun();
        self.renew_schema();
        let (mut attempts, mut calmed) = (1, None);
        loop {
            self.begin_reads();
            match attempt(self) {
                Err(QueryError::Server(error))
                    if error.code == errors::DEFINITION_CHANGED && attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    if attempts > ATTEMPTS_BEFORE_CALM && calmed.is_none() {
                        calmed = Some(self.engine.calm.keep());
                    }
                }
                Err(QueryError::Server(error)) if error.code == errors::STOPPED => {
                    self.wait_to_go_on()?;
                    self.env.begin_again(begun);
                    set::set_back_all(self)?;
                }
                done => return done,
            }
        }
    }

    fn begin_attempts(&mut self) {
        self.engine.questions.fetch_add(1, Ordering::Relaxed);
        self.env.begin_statement();
        self.env.in_transaction.set(self.in_begun_transaction());
        self.env.reads_only(self.transaction.as_ref().map_or(self.env.begins_read_only(), |open| open.read_only));
        // Also without a limit: the statement before it in the same text may have had one. That of CALL is for all of its
        // procedure.
        if !self.env.is_calling() {
            task::limit(self.env.statement_time.get());
        }
    }

    /// Runs a statement by the definitions of this moment. Error 1412 if they change while it waits for the write lock:
    /// then it has done nothing.
    fn attempt(
        &mut self,
        text: Text<'_>,
        from: usize,
        scan: &Normalised,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        if self.caches
            && let Some(done) = self.cached(None, scan, constants, more, sink)
        {
            return done;
        }
        if let Some(statement) = parse::transaction::of_few_words(&scan.text) {
            return self.other(statement, text, from, scan.rest, more, sink);
        }
        let kinds: Vec<ParamKind> = text.params.kinds().collect();
        let mode = self.env.lex_mode();
        let concat = self.env.statement_mode() & sql_mode::PIPES_AS_CONCAT != 0;
        let parsed = parse::parse(text.sql, from, mode, concat, Literals::Numbered);
        let numbered = matches!(
            &parsed,
            Ok((Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_), _))
        );
        // Statements of other kinds, and the few forms that need their literals in place, are read again with them.
        let (statement, tokens) = match parsed {
            Ok(parsed) if numbered => parsed,
            _ => parse::parse(text.sql, from, mode, concat, Literals::Inline)?,
        };
        let plan = match &statement {
            Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                self.translate(&statement, constants, &kinds, &tokens)?
            }
            _ => {
                self.reads_more();
                return self.other(self.env.own_wait(statement), text, from, scan.rest, more, sink);
            }
        };
        let (plan, looked, cacheable) = plan;
        for (schema, _) in &plan.catalogs {
            if !schema.statistics_begun.swap(true, Ordering::AcqRel) {
                self.engine.request_statistics(schema);
            }
        }
        let cacheable = cacheable && self.caches && cache::keeps(scan);
        let looked = if numbered { looked } else { looked.and_all(scan.literals.len()) };
        let entry = Entry::new(scan, text.sql, self.inputs(), &kinds, &looked, Rc::new(plan));
        if cacheable && let Some(pool) = &self.pool {
            pool.plans.borrow_mut().put(scan.hash, entry.twin());
        }
        self.run_entry(entry, scan, constants, more, cacheable, sink)
    }

    fn inputs(&self) -> Inputs {
        Inputs::of(self.schema.as_ref(), &self.env)
    }

    /// Runs the statement by a plan that its connection or this thread has cached; `None` if there is none. `pool` is that of the
    /// schema which the statement is about, if that need not be the current one.
    #[inline]
    fn cached(
        &mut self,
        pool: Option<&Rc<Pool>>,
        scan: &Normalised,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Option<Result<(), QueryError>> {
        let inputs = self.inputs();
        let take = |conn: &mut Conn| StatementCache::of(conn).take(scan, constants.sql, &inputs, constants.params);
        let known = |pool: &Pool| pool.plans.borrow_mut().twin(scan, constants.sql, &inputs, constants.params);
        if let Some(transaction) = &mut self.transaction {
            let found = transaction.cached(scan.hash, take);
            let entry = found.or_else(|| pool.or(self.pool.as_ref()).and_then(|pool| known(pool)))?;
            return Some(self.run_entry(entry, scan, constants, more, true, sink));
        }
        let pool = pool.or(self.pool.as_ref()).cloned()?;
        if let Some(done) = self.cached_in_group(&pool, scan, &inputs, constants, more, sink) {
            return Some(done);
        }
        let mut conn = pool.take().ok()?;
        let Some(entry) = take(&mut conn).or_else(|| known(&pool)) else {
            pool.put(conn);
            return None;
        };
        if let PlanKind::Select(SelectPlan { nap: true, .. }) = entry.plan.kind {
            let plan = Rc::clone(&entry.plan);
            StatementCache::of(&mut conn).put(scan.hash, entry);
            pool.put(conn);
            return Some(self.nap(&plan, constants, more, sink));
        }
        if let PlanKind::Select(SelectPlan { locking: None, .. }) = entry.plan.kind
            && entry.plan.called.is_empty()
            && entry.plan.is_current()
            && entry.plan.home.as_ref().is_none_or(|home| Arc::ptr_eq(home, &pool.schema))
            && self.env.autocommit.get()
        {
            return Some(self.select_on(conn, &pool, entry, scan.hash, constants, more, true, sink));
        }
        if !entry.plan.is_current() {
            pool.put(conn);
            return None;
        }
        if self.may_join(&entry)
            && entry.plan.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, &pool.schema))
            && let Some(guard) = pool.schema.writer.try_acquire()
        {
            let turn = Turn::open(&self.engine, &pool, guard, conn).map_err(QueryError::from);
            return Some(turn.and_then(|turn| self.run_in_group(turn, entry, scan.hash, constants, more, true, sink)));
        }
        if self.may_join(&entry) || !self.env.autocommit.get() && !matches!(entry.plan.kind, PlanKind::Select(_)) {
            // Somebody else writes, or a transaction will, on a private connection: that, or a group, knows the statement or learns it.
            let twin = entry.twin();
            StatementCache::of(&mut conn).put(scan.hash, entry);
            pool.put(conn);
            return Some(self.run_entry(twin, scan, constants, more, true, sink));
        }
        pool.put(conn);
        Some(self.run_entry(entry, scan, constants, more, true, sink))
    }

    /// The server's status bits.
    pub(crate) fn status_bits(&self) -> u16 {
        self.status()
    }

    fn status(&self) -> u16 {
        let transaction = if self.transaction.is_some() { status::IN_TRANSACTION } else { 0 };
        let plain = self.env.sql_mode.get() & sql_mode::NO_BACKSLASH_ESCAPES != 0;
        let quoting = if plain { status::NO_BACKSLASH_ESCAPES } else { 0 };
        transaction | quoting | if self.env.autocommit.get() { status::AUTOCOMMIT } else { 0 }
    }

    /// Makes the schemas that a plan needs reachable on a connection.
    fn attach(&self, conn: &mut Conn, plan: &Plan) -> Res<()> {
        for schema in &plan.attached {
            let name = format!("x{}", schema.id);
            if conn.attached.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if !conn.is_autocommit() {
                return Err(errors::unsupported(
                    "a transaction that reaches another schema later than with its first statement",
                ));
            }
            schema.attach_to(conn, &name)?;
            conn.attached.push((name, schema.id));
        }
        Ok(())
    }

    /// Runs a plan in whatever transaction it belongs to.
    fn run_entry(
        &mut self,
        entry: Entry,
        scan: &Normalised,
        constants: Constants<'_>,
        more: bool,
        cacheable: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        self.begin_implicitly();
        if self.transaction.is_none() {
            // A statement of its own is a transaction, too: the next one is another.
            self.env.next_isolation.set(None);
            let reads_only = self.env.begins_read_only();
            self.env.next_read_only.set(None);
            if reads_only && writes_for_others(&plan) {
                return Err(errors::read_only_transaction().into());
            }
        }
        // FOR UPDATE waits for the writer also where no transaction keeps the lock afterwards.
        let is_select = plan.called.is_empty()
            && matches!(&plan.kind, PlanKind::Select(select) if select.locking.is_none() || plan.home.is_none());
        if self.transaction.is_none() && is_select {
            let pool = match &plan.home {
                Some(home) => Pool::of(home),
                None => match &self.pool {
                    Some(pool) if !pool.schema.is_closed() => Rc::clone(pool),
                    _ => return self.select_without_schema(entry, constants, more, sink),
                },
            };
            let mut conn = pool.take()?;
            if let PlanKind::Select(SelectPlan { nap: true, .. }) = plan.kind {
                if cacheable {
                    StatementCache::of(&mut conn).put(scan.hash, entry);
                }
                pool.put(conn);
                return self.nap(&plan, constants, more, sink);
            }
            return self.select_on(conn, &pool, entry, scan.hash, constants, more, cacheable, sink);
        }
        if let (Some(transaction), PlanKind::Select(_)) = (&self.transaction, &plan.kind)
            && plan.home.is_none()
            && transaction.schema().is_none()
        {
            return self.select_without_schema(entry, constants, more, sink);
        }
        self.in_transaction(entry, scan, constants, more, cacheable, sink)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.env.client.disconnect();
        self.leave_temporary();
        if let Some(mut transaction) = self.transaction.take() {
            transaction.rollback();
        }
    }
}
