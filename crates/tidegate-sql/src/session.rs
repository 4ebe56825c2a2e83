//! A session: what a client talks to. It has a current schema, variables, and at most one open transaction.

mod changes;
mod env;
mod group;
mod pooled;
mod tables;
mod transaction;
mod writes;

use std::{cell::RefCell, rc::Rc, sync::Arc, sync::atomic::Ordering};

use tidegate_rows::{Execute, Param, QueryError, ServerError, Sink, Statement as Text, Summary};

pub use changes::{TableChange, TableRead};
pub(crate) use env::{Env, UserValue, Zone, local_to_timestamp, timestamp_to_local, today};
pub(crate) use group::Group;
use group::Turn;
pub use pooled::PooledSession;
use transaction::Transaction;
pub(crate) use transaction::acquire;

use crate::{
    cache::{Context, Entry},
    ddl,
    engine::{EngineInner, Schema, is_virtual},
    errors,
    exec::{Out, Plan, PlanKind, SelectPlan, bind::Constants, kind_of, pump, write::Written},
    functions,
    lexer::{self, Literals, Normalised},
    parse::{self, Statement},
    show,
    store::{
        conn::{Conn, SqliteError, Stmt, to_server_error},
        pool::Pool,
    },
    task,
    translate::{self, ParamKind, Translator, select::Wanted},
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
    pub(crate) schema: Option<Arc<Schema>>,
    pool: Option<Rc<Pool>>,
    pub(crate) env: Rc<Env>,
    transaction: Option<Transaction>,
    pub(crate) prepared: std::collections::HashMap<String, Vec<u8>>,
    /// The query that ran last: it knows what it has read.
    last_query: Option<Rc<Plan>>,
    /// What the last query read and the last commit changed, for those who asked to be told.
    watched: Option<Box<changes::Watched>>,
    /// A sleep that begins when the coroutine has ended.
    napping: Option<(Rc<Plan>, std::time::Duration)>,
    /// A statement that has run in a group; its commit is waited for when the coroutine has ended.
    joined: Option<(group::Member, Written)>,
}

/// How often a statement is planned whose tables others change while it waits to write.
const ATTEMPTS_MAX: usize = 10;

thread_local! {
    static SCRATCH: RefCell<Normalised> = RefCell::default();
}

impl Session {
    pub(crate) fn new(engine: Arc<EngineInner>, id: u64) -> Self {
        let env = Rc::new(Env::new(id, &engine.settings, Arc::clone(&engine.locks)));
        Self {
            core: Core {
                engine,
                schema: None,
                pool: None,
                env,
                transaction: None,
                prepared: std::collections::HashMap::new(),
                last_query: None,
                watched: None,
                napping: None,
                joined: None,
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

    /// Makes the session as good as new, but for its number; answers whether it can serve another user.
    fn reset(&mut self) -> bool {
        let core = &mut self.core;
        if let Some(mut transaction) = core.transaction.take() {
            transaction.rollback();
        }
        core.prepared.clear();
        core.last_query = None;
        core.watched = None;
        core.leave_temporary();
        core.napping = None;
        core.joined = None;
        core.env.reset(&core.engine.settings);
        core.schema.as_ref().is_none_or(|schema| !schema.is_closed())
    }

    /// Whether affected rows count rows that an UPDATE has found rather than changed (`CLIENT_FOUND_ROWS`).
    pub fn set_found_rows(&mut self, found: bool) {
        self.core.env.found_rows_flag.set(found);
    }
}

impl Execute for Session {
    async fn execute<S: Sink>(&mut self, statement: Text<'_>, sink: &mut S) -> Result<(), QueryError> {
        let env = Rc::clone(&self.core.env);
        let core = &mut self.core;
        let sink: &mut dyn Sink = sink;
        match task::run(&env, || core.run(statement, sink)).await {
            Ok(Ok(())) if core.joined.is_some() => core.finish_joined(sink).await,
            Ok(Ok(())) if core.napping.is_some() => core.finish_nap(sink).await,
            Ok(result) => result,
            Err(_) => Err(errors::out_of_memory().into()),
        }
    }
}

/// Server status bits of the protocol.
mod status {
    pub(super) const IN_TRANSACTION: u16 = 1;
    pub(super) const AUTOCOMMIT: u16 = 2;
}

impl Core {
    fn run(&mut self, statement: Text<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut from = 0;
        let mut first = true;
        loop {
            let mut scratch = SCRATCH.take();
            let result = lexer::normalise(statement.sql, from, self.env.lex_mode(), &mut scratch);
            let outcome = match result {
                Err(error) => Err(parse::near(statement.sql, error.at).into()),
                Ok(()) if scratch.text.is_empty() => {
                    SCRATCH.replace(scratch);
                    return if first { Err(errors::empty_query().into()) } else { Ok(()) };
                }
                Ok(()) => {
                    let more = !lexer::is_blank(statement.sql, scratch.rest, self.env.lex_mode());
                    if more && !statement.params.is_empty() {
                        Err(errors::syntax(String::from_utf8_lossy(&statement.sql[scratch.rest..])).into())
                    } else {
                        self.one(statement, from, &scratch, more, sink).map(|()| more)
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
                    if let QueryError::Server(error) = &mut error {
                        if error.code == errors::INTERRUPTED && task::has_read_for_too_long() {
                            *error = errors::read_for_too_long();
                        } else if error.code == errors::INTERRUPTED && task::is_out_of_time() {
                            *error = errors::statement_timeout();
                        }
                        self.env.note_error(error);
                    }
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
        self.engine.questions.fetch_add(1, Ordering::Relaxed);
        self.env.begin_statement();
        // Also without a limit: the statement before it in the same text may have had one.
        task::limit(self.env.statement_time.get());
        if scan.params != text.params.len() {
            return Err(errors::wrong_execute_arguments().into());
        }
        let constants =
            Constants { sql: text.sql, literals: &scan.literals, params: text.params, env: &Rc::clone(&self.env) };
        let mut attempts = 1;
        loop {
            match self.attempt(text, from, scan, constants, more, sink) {
                Err(QueryError::Server(error))
                    if error.code == errors::DEFINITION_CHANGED && attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                }
                done => return done,
            }
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
        if let Some(done) = self.cached(scan, constants, more, sink) {
            return done;
        }
        let kinds: Vec<ParamKind> = text.params.iter().map(kind_of).collect();
        let mode = self.env.lex_mode();
        let concat = self.env.sql_mode.get() & variables::PIPES_AS_CONCAT != 0;
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
            _ => return self.other(statement, text, from, scan.rest, more, sink),
        };
        let (plan, fixed, cacheable) = plan;
        let fixed = if numbered { fixed } else { (0..scan.literals.len()).collect() };
        let entry = Entry::new(scan, text.sql, self.context(), &kinds, fixed, Rc::new(plan));
        self.run_entry(entry, scan, constants, more, cacheable, sink)
    }

    fn context(&self) -> Context {
        Context {
            sql_mode: self.env.sql_mode.get(),
            schema: self.schema.as_ref().map_or(0, |schema| schema.id),
            version: self.schema.as_ref().map_or(0, |schema| schema.version()),
            collation: self.env.collation.get().0,
        }
    }

    /// Runs the statement by a plan that the connection has cached; `None` if there is none.
    #[inline]
    fn cached(
        &mut self,
        scan: &Normalised,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Option<Result<(), QueryError>> {
        let context = self.context();
        if let Some(transaction) = &mut self.transaction {
            let entry = transaction.conn_mut()?.cache.take(scan, constants.sql, &context, constants.params)?;
            return Some(self.run_entry(entry, scan, constants, more, true, sink));
        }
        let pool = self.pool.clone()?;
        if let Some(done) = self.cached_in_group(&pool, scan, &context, constants, more, sink) {
            return Some(done);
        }
        let mut conn = pool.take().ok()?;
        let Some(entry) = conn.cache.take(scan, constants.sql, &context, constants.params) else {
            pool.put(conn);
            return None;
        };
        if let PlanKind::Select(SelectPlan { nap: true, .. }) = entry.plan.kind {
            let plan = Rc::clone(&entry.plan);
            conn.cache.put(scan.hash, entry);
            pool.put(conn);
            return Some(self.nap(&plan, constants, more, sink));
        }
        if let PlanKind::Select(SelectPlan { for_update: false, .. }) = entry.plan.kind
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
            return Some(match Turn::open(&self.engine, &pool, guard, conn) {
                Ok(turn) => self.run_in_group(turn, entry, scan.hash, constants, more, true, sink),
                Err(error) => Err(error.into()),
            });
        }
        if self.may_join(&entry) {
            // Somebody else writes. This connection keeps its statements; a group will know the statement, or learn it.
            let twin = entry.twin();
            conn.cache.put(scan.hash, entry);
            pool.put(conn);
            return Some(self.run_entry(twin, scan, constants, more, true, sink));
        }
        pool.put(conn);
        Some(self.run_entry(entry, scan, constants, more, true, sink))
    }

    /// Runs a query outside of transactions on a connection of its own.
    fn select_on(
        &mut self,
        mut conn: Box<Conn>,
        pool: &Rc<Pool>,
        mut entry: Entry,
        hash: u64,
        constants: Constants<'_>,
        more: bool,
        cacheable: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query").into()) };
        self.note_reads(&plan, true);
        let result = self.attach(&mut conn, &plan).map_err(QueryError::from).and_then(|()| {
            task::while_reading(&pool.schema, None, || run_select(&mut conn, &mut entry.stmts, select, constants, sink))
        });
        if cacheable && plan.attached.is_empty() {
            conn.cache.put(hash, entry);
        } else {
            drop(entry);
        }
        pool.put(conn);
        self.finish_select(&plan, result?, more, sink);
        Ok(())
    }

    /// Runs `SELECT SLEEP(n)`. As the last statement it leaves its coroutine first, whose stack others can use meanwhile.
    fn nap(
        &mut self,
        plan: &Rc<Plan>,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query").into()) };
        let bind = select.binds.first().ok_or_else(|| errors::internal("a sleep without a time"))?;
        let seconds = constants.real(bind)?;
        if more {
            functions::info::sleep(seconds)?;
            return task::block_on_to_end(self.wake(plan, more, sink))
                .unwrap_or_else(|task::Cancelled| Err(errors::interrupted().into()));
        }
        self.napping = Some((Rc::clone(plan), functions::info::sleep_time(seconds)?));
        Ok(())
    }

    /// The sleep that [`nap`](Self::nap) has left over.
    async fn finish_nap(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let Some((plan, time)) = self.napping.take() else { return Ok(()) };
        match self.env.statement_time.get() {
            Some(limit) if limit < time => {
                tokio::time::sleep(limit).await;
                let error = errors::statement_timeout();
                self.env.note_error(&error);
                Err(error.into())
            }
            _ => {
                tokio::time::sleep(time).await;
                self.wake(&plan, false, sink).await
            }
        }
    }

    /// The result of a sleep.
    async fn wake(&mut self, plan: &Rc<Plan>, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query").into()) };
        sink.columns(&select.columns);
        sink.begin_row();
        sink.value(0, tidegate_rows::Value::Int(0));
        if sink.end_row() == tidegate_rows::Flow::Full {
            std::future::poll_fn(|cx| sink.poll_ready(cx)).await?;
        }
        self.finish_select(plan, (1, 1), more, sink);
        Ok(())
    }

    fn finish_select(&mut self, plan: &Rc<Plan>, rows: (u64, u64), more: bool, sink: &mut dyn Sink) {
        self.env.found_rows.set(rows.1 as i64);
        self.env.row_count.set(-1);
        if self.last_query.as_ref().is_none_or(|last| !Rc::ptr_eq(last, plan)) {
            self.last_query = Some(Rc::clone(plan));
        }
        sink.end_result(&Summary {
            status: self.status(),
            warnings: self.env.warning_count(),
            more_results: more,
            ..Summary::default()
        });
    }

    /// The server's status bits.
    pub(crate) fn status_bits(&self) -> u16 {
        self.status()
    }

    /// The lines of SQLite's plan for the statement in a part of the text.
    pub(crate) fn explain(&mut self, text: Text<'_>, from: usize, to: usize) -> Result<Vec<String>, QueryError> {
        let part = &text.sql[from..to];
        let mut scan = Normalised::default();
        lexer::normalise(part, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(part, error.at))?;
        let concat = self.env.sql_mode.get() & variables::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(part, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        let constants = Constants { sql: part, literals: &[], params: text.params, env: &Rc::clone(&self.env) };
        let kinds: Vec<ParamKind> = text.params.iter().map(kind_of).collect();
        let (plan, ..) = self.translate(&statement, constants, &kinds, &tokens)?;
        let sql = match &plan.kind {
            PlanKind::Select(select) => &select.sql,
            PlanKind::Update(update) => &update.feed.sql,
            PlanKind::Delete(delete) => &delete.feed.sql,
            PlanKind::Insert(_) => return Ok(vec!["INSERT".into()]),
        };
        let Some(home) = plan.home.as_ref().or(self.schema.as_ref()) else { return Ok(vec!["No tables used".into()]) };
        let pool = Pool::of(home);
        let mut conn = pool.take().map_err(|error| to_server_error(&error))?;
        self.attach(&mut conn, &plan)?;
        let mut lines = Vec::new();
        let mut stmt = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).map_err(|error| to_server_error(&error))?;
        while stmt.step().map_err(|error| to_server_error(&error))? == crate::store::conn::Step::Row {
            if let crate::store::conn::Cell::Text(line) = stmt.cell(3) {
                lines.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        drop(stmt);
        pool.put(conn);
        Ok(lines)
    }

    fn status(&self) -> u16 {
        let transaction = if self.transaction.is_some() { status::IN_TRANSACTION } else { 0 };
        transaction | if self.env.autocommit.get() { status::AUTOCOMMIT } else { 0 }
    }

    /// Makes the schemas that a plan needs reachable on a connection.
    fn attach(&self, conn: &mut Conn, plan: &Plan) -> Res<()> {
        for (schema, _) in &plan.attached {
            let name = format!("x{}", schema.id);
            if conn.attached.iter().any(|(known, _)| *known == name) {
                continue;
            }
            if !conn.is_autocommit() {
                return Err(errors::unsupported(
                    "a transaction that reaches another schema later than with its first statement",
                ));
            }
            let path = schema.path.to_string_lossy();
            let sql = format!("ATTACH {} AS {name}", translate::quote(&path));
            conn.execute(&sql).map_err(|error| to_server_error(&error))?;
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
        // FOR UPDATE waits for the writer also where no transaction keeps the lock afterwards.
        let is_select = matches!(&plan.kind, PlanKind::Select(select) if !select.for_update || plan.home.is_none());
        if self.transaction.is_none() && is_select {
            let pool = match &plan.home {
                Some(home) => Pool::of(home),
                None => match &self.pool {
                    Some(pool) => Rc::clone(pool),
                    None => return self.select_without_schema(entry, constants, more, sink),
                },
            };
            let mut conn = pool.take().map_err(|error| to_server_error(&error))?;
            if let PlanKind::Select(SelectPlan { nap: true, .. }) = plan.kind {
                if cacheable {
                    conn.cache.put(scan.hash, entry);
                }
                pool.put(conn);
                return self.nap(&plan, constants, more, sink);
            }
            return self.select_on(conn, &pool, entry, scan.hash, constants, more, cacheable, sink);
        }
        if let (Some(transaction), PlanKind::Select(select)) = (&self.transaction, &plan.kind)
            && plan.home.is_none()
            && !transaction.has_schema()
        {
            let _ = select;
            return self.select_without_schema(entry, constants, more, sink);
        }
        self.in_transaction(entry, scan, constants, more, cacheable, sink)
    }

    /// A query without tables and without a current schema: any connection does.
    fn select_without_schema(
        &mut self,
        mut entry: Entry,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::no_database().into()) };
        let mut conn = Conn::open(std::path::Path::new(":memory:")).map_err(|error| to_server_error(&error))?;
        let rows = run_select(&mut conn, &mut entry.stmts, select, constants, sink);
        drop(entry);
        self.finish_select(&plan, rows?, more, sink);
        Ok(())
    }

    /// An OK without rows.
    pub(crate) fn ok(&mut self, affected: u64, more: bool, sink: &mut dyn Sink) {
        self.ok_with(affected, "", more, sink);
    }

    /// An OK that says more.
    fn ok_with(&mut self, affected: u64, info: &str, more: bool, sink: &mut dyn Sink) {
        self.env.row_count.set(affected as i64);
        sink.end_result(&Summary {
            affected_rows: affected,
            warnings: self.env.warning_count(),
            status: self.status(),
            info: info.as_bytes().into(),
            more_results: more,
            ..Summary::default()
        });
    }

    /// Translates a statement: the plan, the literals that shaped it, whether it can serve again.
    fn translate(
        &mut self,
        statement: &Statement,
        constants: Constants<'_>,
        kinds: &[ParamKind],
        tokens: &[sqlparser::tokenizer::TokenWithSpan],
    ) -> Res<(Plan, std::collections::BTreeSet<usize>, bool)> {
        let session = translate::Session { engine: &self.engine, schema: self.schema.as_ref(), env: &self.env };
        // Versions are read before the catalogue is: a change in between makes the plan stale, never wrong.
        let versions = self.engine.versions();
        let mut translator = Translator::new(session, constants.sql, constants.literals, kinds, tokens);
        translator.late = !matches!(statement, Statement::Query(_));
        let kind = match statement {
            Statement::Query(query) => {
                let rel = translator.query(query, None, Wanted::Any)?;
                let columns = rel.columns.iter().map(describe).collect();
                let outs = rel.columns.iter().map(|column| Out::of(&column.ex.ty)).collect();
                let found_rows_sql = rel.calc_found_rows.then(|| without_limit(&rel.sql)).flatten();
                if rel.calc_found_rows && found_rows_sql.is_none() && rel.sql.contains(" LIMIT ") {
                    return Err(errors::unsupported("SQL_CALC_FOUND_ROWS in this form"));
                }
                PlanKind::Select(SelectPlan {
                    nap: translator.home.is_none() && rel.sql == NAP_SQL,
                    sql: rel.sql,
                    columns,
                    outs,
                    binds: std::mem::take(&mut translator.binds).into(),
                    for_update: rel.for_update,
                    found_rows_sql,
                })
            }
            Statement::Insert(insert) => PlanKind::Insert(translator.insert(insert)?),
            Statement::Update(update) => PlanKind::Update(translator.update(update)?),
            Statement::Delete(delete) => PlanKind::Delete(translator.delete(delete)?),
            _ => return Err(errors::internal("this statement has no plan")),
        };
        let version_of =
            |schema: &Arc<Schema>| versions.iter().find(|(id, _)| *id == schema.id).map_or(0, |(_, version)| *version);
        let plan = Plan {
            kind,
            home_version: translator.home.as_ref().map_or(0, version_of),
            home: translator.home,
            attached: translator.attached.iter().map(|schema| (Arc::clone(schema), version_of(schema))).collect(),
            read_names: translator.read_names,
            named_to: translator.named_to,
        };
        Ok((plan, translator.fixed, translator.cacheable))
    }

    /// Runs a statement that this engine itself has written, with the session's rights and variables.
    pub(crate) fn run_own(&mut self, sql: &str, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut scan = Normalised::default();
        let own = Text { sql: sql.as_bytes(), params: &[] };
        lexer::normalise(own.sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(own.sql, error.at))?;
        self.one(own, 0, &scan, more, sink)
    }

    /// Makes a schema the current one.
    pub(crate) fn use_schema(&mut self, name: &str) -> Res<()> {
        if is_virtual(name) {
            self.env.set_virtual_schema(Some(name));
            self.schema = None;
            self.pool = None;
            return Ok(());
        }
        let schema = self.engine.schema(name)?;
        self.env.set_virtual_schema(None);
        self.pool = Some(Pool::of(&schema));
        self.schema = Some(schema);
        Ok(())
    }

    /// Has no current schema any more.
    pub(crate) fn leave_schema(&mut self) {
        self.schema = None;
        self.pool = None;
    }

    fn other(
        &mut self,
        statement: Statement,
        text: Text<'_>,
        from: usize,
        to: usize,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        match statement {
            Statement::Use(name) => {
                self.use_schema(&name)?;
                self.ok(0, more, sink);
            }
            Statement::Begin { read_only, snapshot } => {
                self.commit_open()?;
                self.env.release_tables();
                let mut transaction = Transaction::new(true);
                transaction.read_only = read_only;
                if snapshot && let Some(schema) = self.schema.clone() {
                    transaction.open(&schema)?;
                    transaction.read(&self.env)?;
                }
                self.transaction = Some(transaction);
                self.ok(0, more, sink);
            }
            Statement::Commit { chain } => {
                self.commit_open()?;
                self.transaction = chain.then(|| Transaction::new(true));
                self.ok(0, more, sink);
            }
            Statement::Rollback { chain } => {
                if let Some(mut transaction) = self.transaction.take() {
                    transaction.rollback();
                }
                self.transaction = chain.then(|| Transaction::new(true));
                self.ok(0, more, sink);
            }
            Statement::Savepoint(name) => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.savepoint(&name)?;
                }
                self.ok(0, more, sink);
            }
            Statement::RollbackTo(name) => {
                let transaction = self.transaction.as_mut().ok_or_else(|| errors::unknown_savepoint(&name))?;
                transaction.rollback_to(&name)?;
                self.ok(0, more, sink);
            }
            Statement::Release(name) => {
                let transaction = self.transaction.as_mut().ok_or_else(|| errors::unknown_savepoint(&name))?;
                transaction.release(&name)?;
                self.ok(0, more, sink);
            }
            Statement::SelectInto { cut, variables } => {
                let sql = [&text.sql[from..cut.0], b" ", &text.sql[cut.1..to]].concat();
                let sql = String::from_utf8_lossy(&sql).into_owned();
                let found = variables::select_into(self, sql.trim_end_matches(';'), &variables)?;
                self.ok(found, more, sink);
            }
            Statement::Set(items) => {
                variables::set(self, &items, text.sql)?;
                self.ok(0, more, sink);
            }
            Statement::Show(request) => show::show(self, &request, text.sql, more, sink)?,
            Statement::Explain { from } => show::explain(self, text, from, to, more, sink)?,
            Statement::Prepare { name, source } => {
                let sql = variables::prepare_source(self, &source)?;
                self.check_prepared(&sql)?;
                self.prepared.insert(name.to_lowercase(), sql);
                self.ok_with(0, "Statement prepared", more, sink);
            }
            Statement::Execute { name, variables } => {
                let sql =
                    self.prepared.get(&name.to_lowercase()).cloned().ok_or_else(|| errors::unknown_prepared(&name))?;
                let params: Vec<Param> = variables.iter().map(|name| self.env.user_variable(name).to_param()).collect();
                let mut scan = Normalised::default();
                lexer::normalise(&sql, 0, self.env.lex_mode(), &mut scan)
                    .map_err(|error| parse::near(&sql, error.at))?;
                self.one(Text { sql: &sql, params: &params }, 0, &scan, more, sink)?;
            }
            Statement::Deallocate(name) => {
                self.prepared.remove(&name.to_lowercase()).ok_or_else(|| errors::unknown_prepared(&name))?;
                self.ok(0, more, sink);
            }
            Statement::Do => {
                let sql = format!(
                    "SELECT {}",
                    String::from_utf8_lossy(&text.sql[after_word(text.sql, from)..to]).trim_end_matches(';')
                );
                self.run_own(&sql, more, &mut Discard)?;
                self.ok(0, more, sink);
            }
            Statement::LockTables(tables) => {
                self.lock_tables(&tables)?;
                self.ok(0, more, sink);
            }
            Statement::LockAll => {
                self.lock_all()?;
                self.ok(0, more, sink);
            }
            Statement::UnlockTables => {
                self.unlock_tables()?;
                self.ok(0, more, sink);
            }
            Statement::Call(name) => {
                let schema = name.schema.clone().or_else(|| self.schema.as_ref().map(|schema| schema.name.clone()));
                let schema = schema.ok_or_else(errors::no_database)?;
                return Err(errors::unknown_procedure(schema, name.name).into());
            }
            Statement::Kill(id) if id < self.engine.connections() => return Err(errors::unsupported("KILL").into()),
            Statement::Kill(id) => return Err(errors::unknown_thread(id).into()),
            Statement::Signal { state, number, message } => {
                return Err(errors::signalled(&state, number, message).into());
            }
            Statement::Admin { verb, tables } => show::admin(self, verb, &tables, more, sink)?,
            Statement::Nothing => self.ok(0, more, sink),
            ddl => {
                let temporary = match &ddl {
                    Statement::CreateTable(create) => create.temporary,
                    Statement::DropTable { temporary, .. } => *temporary,
                    _ => false,
                };
                if temporary && self.transaction.is_some() {
                    return Err(errors::unsupported("temporary tables made or dropped inside of a transaction").into());
                }
                self.commit_open()?;
                let alters = matches!(&ddl, Statement::AlterTable { items, .. } if items.iter().any(parse::AlterItem::is_change));
                let affected = ddl::run(self, ddl, text, more, sink)?;
                match affected {
                    Some(affected) if alters => {
                        let warnings = self.env.warning_count();
                        let info = format!("Records: {affected}  Duplicates: 0  Warnings: {warnings}");
                        self.ok_with(affected, &info, more, sink);
                    }
                    Some(affected) => self.ok(affected, more, sink),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// PREPARE reports what is wrong at once.
    fn check_prepared(&mut self, sql: &[u8]) -> Res<()> {
        let concat = self.env.sql_mode.get() & variables::PIPES_AS_CONCAT != 0;
        let (statement, tokens) = parse::parse(sql, 0, self.env.lex_mode(), concat, Literals::Inline)?;
        if !matches!(
            statement,
            Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
        ) {
            return Ok(());
        }
        let mut scan = Normalised::default();
        lexer::normalise(sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(sql, error.at))?;
        let kinds = vec![ParamKind::Null; scan.params];
        let env = Rc::clone(&self.env);
        let constants = Constants { sql, literals: &[], params: &[], env: &env };
        match self.translate(&statement, constants, &kinds, &tokens) {
            // What depends on the parameters is told when they are there.
            Err(error) if matches!(error.code, 1146 | 1054 | 1049 | 1046) => Err(error),
            _ => Ok(()),
        }
    }
}

/// What `SELECT SLEEP(n)` becomes.
const NAP_SQL: &str = "SELECT f_sleep(?1) AS r0";

/// A sink that wants nothing.
pub(crate) struct Discard;

impl Sink for Discard {
    fn columns(&mut self, _: &[tidegate_rows::Column]) {}
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, _: tidegate_rows::Value<'_>) {}
    fn end_row(&mut self) -> tidegate_rows::Flow {
        tidegate_rows::Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), tidegate_rows::SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// Where the text behind the first word begins.
fn after_word(sql: &[u8], from: usize) -> usize {
    let start = from + sql[from..].iter().take_while(|byte| !byte.is_ascii_alphabetic()).count();
    start + sql[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

/// Runs a query: rows sent, and rows there would have been without LIMIT.
fn run_select(
    conn: &mut Conn,
    stmts: &mut Vec<Stmt>,
    select: &SelectPlan,
    constants: Constants<'_>,
    sink: &mut dyn Sink,
) -> Result<(u64, u64), QueryError> {
    let internal = |error: SqliteError| to_server_error(&error);
    if stmts.is_empty() {
        stmts.push(conn.prepare(&select.sql).map_err(internal)?);
    }
    let stmt = &mut stmts[0];
    let bound = constants.bind(stmt, &select.binds);
    let result = match bound {
        Ok(()) => pump(stmt, &select.columns, &select.outs, sink),
        Err(error) => Err(error.into()),
    };
    stmt.reset();
    if !select.binds.is_empty() {
        stmt.clear_bindings();
    }
    let rows = result?;
    let Some(sql) = &select.found_rows_sql else { return Ok((rows, rows)) };
    let mut count = conn.prepare(&format!("SELECT count(*) FROM ({sql})")).map_err(internal)?;
    let used = count.parameter_count();
    constants.bind(&mut count, &select.binds[..used.min(select.binds.len())])?;
    count.step().map_err(internal)?;
    let all = match count.cell(0) {
        crate::store::conn::Cell::Int(all) => all as u64,
        _ => rows,
    };
    count.clear_bindings();
    Ok((rows, all))
}

/// A query without the LIMIT at its end.
fn without_limit(sql: &str) -> Option<String> {
    let at = sql.rfind(" LIMIT ")?;
    (!sql[at..].contains(" FROM ")).then(|| sql[..at].to_owned())
}

fn describe(column: &translate::select::RelColumn) -> tidegate_rows::Column {
    let mut described = column.ex.ty.describe(column.name.as_bytes(), !column.ex.nullable);
    if let Some(origin) = &column.ex.origin {
        described.schema = origin.schema.as_bytes().into();
        described.table = origin.alias.as_bytes().into();
        described.org_table = origin.table.as_bytes().into();
        described.org_name = origin.column.as_bytes().into();
        described.flags.0 |= origin.flags;
    }
    described
}

impl Plan {
    /// Whether the schemas still look as they did when the plan was made.
    fn is_current(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.version() == self.home_version && !home.is_closed())
            && self.attached.iter().all(|(schema, version)| schema.version() == *version && !schema.is_closed())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.leave_temporary();
        if let Some(mut transaction) = self.transaction.take() {
            transaction.rollback();
        }
    }
}
