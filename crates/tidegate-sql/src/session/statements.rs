//! Statements that have no plan: transactions, settings, prepared statements, definitions.

use tidegate_rows::{QueryError, Sink, Summary};

use super::{
    Core, Prepared, Res, account_statements, checks,
    set::{set, set_back},
    transaction::Transaction,
    values::{evaluate, prepare_source, select_into},
};
use crate::{
    clients::Kill,
    env::{CompletionType, Numbers, UserValue},
    errors,
    isolation::Characteristics,
    lexer::{self, Normalised},
    parse::{self, Completion, KillTarget, PrepareSource, SetItem, Span, Statement},
    schema::is_virtual,
    session::pool::Pool,
    task,
    translate::params::{Params, Text},
    variables,
};

impl Core {
    /// Runs a statement that has no plan.
    pub(super) fn other(
        &mut self,
        statement: Statement,
        text: Text<'_>,
        from: usize,
        to: usize,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        checks::check(self, &statement)?;
        match statement {
            Statement::Nothing => {}
            Statement::Account(statement) => return account_statements::run(self, *statement, more, sink),
            Statement::Use(name) => self.use_schema(&name)?,
            Statement::Set(items) => set(self, &items, text)?,
            Statement::LockTables(tables) => self.lock_tables(&tables)?,
            Statement::LockAll => self.lock_all()?,
            Statement::UnlockTables => self.unlock_tables()?,
            Statement::Deallocate(name) => {
                self.prepared.remove(&name.to_lowercase()).ok_or_else(|| errors::unknown_prepared(&name))?;
            }
            Statement::Do => {
                self.run_part(Text { sql: &query_of_do(&text.sql[from..to]), ..text }, more, &mut Discard)?;
            }
            Statement::Begin { .. }
            | Statement::Commit(_)
            | Statement::Rollback(_)
            | Statement::Savepoint(_)
            | Statement::RollbackTo(_)
            | Statement::Release(_) => self.control_transaction(statement)?,
            // Those below answer in ways of their own.
            Statement::SelectInto { cut, variables } => {
                let found = select_into(self, Text { sql: &without(&text.sql[..to], from, cut), ..text }, &variables)?;
                self.ok(found, more, sink);
                return Ok(());
            }
            Statement::SelectIntoFile { cut, into } => {
                let query = without(&text.sql[..to], from, cut);
                return self.select_into_file(Text { sql: &query, ..text }, &into, more, sink);
            }
            Statement::SetFor { items, from } => return self.set_for(&items, text, (from, to), more, sink),
            Statement::Load(load) => return self.load(&load, text.sql, more, sink),
            Statement::Prepare { name, source } => {
                self.prepare(&name, &source)?;
                self.ok_with(0, "Statement prepared", more, sink);
                return Ok(());
            }
            Statement::ExecuteImmediate { source, using } => {
                return self.execute_immediate(source, &using, text, more, sink);
            }
            Statement::Execute { name, variables } => return self.execute_prepared(&name, &variables, more, sink),
            Statement::Show(request) => return (self.above.show)(self, &request, text, more, sink),
            Statement::Explain { from, json } => return (self.above.explain)(self, text, (from, to), json, more, sink),
            Statement::Admin { verb, tables } => return (self.above.admin)(self, verb, &tables, more, sink),
            Statement::Call(call) => return super::call::call(self, &call, text, more, sink),
            Statement::Block(block) => return super::call::block(self, &block, more, sink),
            Statement::Kill { target, kill } => self.kill(&target, kill)?,
            Statement::Signal { state, number, message } => {
                return Err(errors::signalled(&state, number, message).into());
            }
            definition => return self.define(definition, text, more, sink),
        }
        self.ok(0, more, sink);
        Ok(())
    }

    /// PREPARE.
    fn prepare(&mut self, name: &str, source: &PrepareSource) -> Res<()> {
        let sql = prepare_source(self, source)?;
        self.check_prepared(&sql)?;
        self.prepared.insert(name.to_lowercase(), Prepared { sql, context: self.prepared_context() });
        Ok(())
    }

    /// SET STATEMENT: the part of the text that is the statement runs with other settings, which are as before when it has ended.
    fn set_for(
        &mut self,
        items: &[SetItem],
        text: Text<'_>,
        (from, to): (usize, usize),
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let names = items.iter().filter_map(|item| match item {
            SetItem::System { name, .. } => Some(name.clone()),
            _ => None,
        });
        let before: Vec<(String, Option<String>)> = names
            .map(|name| {
                let value = variables::value_of(&self.engine, &self.env, &name);
                (name, value)
            })
            .collect();
        let done = set(self, items, text).map_err(QueryError::from).and_then(|()| {
            let part = &text.sql[from..to];
            let params = text.params_within((from, to), self.env.lex_mode());
            let mut scan = Normalised::default();
            lexer::normalise(part, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(part, error.at))?;
            self.one(Text { sql: part, params }, 0, &scan, more, sink)?;
            if self.napping.is_none() {
                return Ok(());
            }
            // Its time limit is one of the settings.
            let slept = task::block_on_to_end(self.finish_nap(text.sql, sink));
            slept.unwrap_or_else(|task::Cancelled| Err(errors::interrupted().into()))
        });
        for (name, value) in before.into_iter().rev() {
            // One that could not be set cannot be set back either, and those before it are.
            if let Some(value) = value
                && let Err(error) = set_back(self, &name, &value)
                && done.is_ok()
            {
                return Err(error.into());
            }
        }
        done
    }

    /// KILL. Who ends itself does so before the answer.
    fn kill(&mut self, target: &KillTarget, kill: Kill) -> Res<()> {
        checks::check_kill(self, target)?;
        match target {
            KillTarget::Id(id) if *id == self.env.connection_id => self.env.client.kill(kill),
            KillTarget::Id(id) if self.engine.clients.kill(*id, kill) => {}
            // A session inside of the process is not listed while it does nothing; its transaction is.
            KillTarget::Id(id) if kill == Kill::Connection && self.engine.transactions.end_of(*id) => {}
            KillTarget::Id(id) => return Err(errors::unknown_thread(*id)),
            KillTarget::User(user) => drop(self.engine.clients.kill_user(user, kill)),
        }
        if task::is_killed() { Err(errors::interrupted()) } else { Ok(()) }
    }

    /// BEGIN, COMMIT, ROLLBACK and savepoints.
    fn control_transaction(&mut self, statement: Statement) -> Res<()> {
        match statement {
            Statement::Begin { read_only, snapshot } => {
                self.commit_open()?;
                self.env.release_tables();
                let mut transaction = self.begun_transaction();
                if let Some(read_only) = read_only {
                    transaction.set_read_only(read_only);
                }
                if snapshot && !transaction.reads_committed() && !transaction.runs_alone() {
                    // Of all schemas: mysqldump begins like this and names its schema afterwards.
                    for schema in self.engine.all_schemas() {
                        transaction.snapshot(&schema, &self.env)?;
                    }
                }
                self.transaction = Some(transaction);
            }
            Statement::Commit(completion) => {
                let next = self.chained(completion);
                self.commit_open()?;
                self.complete(completion, next);
            }
            Statement::Rollback(completion) => {
                let next = self.chained(completion);
                if let Some(mut transaction) = self.transaction.take() {
                    transaction.rollback();
                }
                self.complete(completion, next);
            }
            Statement::Savepoint(name) => {
                self.begin_implicitly();
                if let Some(transaction) = &mut self.transaction {
                    transaction.savepoint(&name)?;
                }
            }
            Statement::RollbackTo(name) => {
                let transaction = self.transaction.as_mut().ok_or_else(|| errors::unknown_savepoint(&name))?;
                transaction.rollback_to(&name)?;
            }
            Statement::Release(name) => {
                let transaction = self.transaction.as_mut().ok_or_else(|| errors::unknown_savepoint(&name))?;
                transaction.release(&name)?;
            }
            _ => return Err(errors::internal("not a statement of transactions")),
        }
        Ok(())
    }

    /// How the next transaction begins, if the end of the open one begins one: as that has begun.
    fn chained(&self, completion: Completion) -> Option<Characteristics> {
        let chains = completion.chain.unwrap_or(self.env.numbers.get().completion == CompletionType::Chain);
        chains.then(|| self.transaction.as_ref().map_or_else(Characteristics::default, Transaction::characteristics))
    }

    /// What COMMIT and ROLLBACK do when the transaction has ended.
    fn complete(&mut self, completion: Completion, next: Option<Characteristics>) {
        if let Some(Characteristics { isolation, read_only }) = next {
            let env = &self.env;
            env.next_isolation.set(isolation.or(env.next_isolation.get()));
            env.next_read_only.set(read_only.or(env.next_read_only.get()));
            self.transaction = Some(self.begun_transaction());
        }
        if completion.release.unwrap_or(self.env.numbers.get().completion == CompletionType::Release) {
            self.env.client.kill(Kill::Connection);
        }
    }

    /// EXECUTE.
    fn execute_prepared(
        &mut self,
        name: &str,
        variables: &[String],
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let prepared =
            self.prepared.get(&name.to_lowercase()).cloned().ok_or_else(|| errors::unknown_prepared(name))?;
        let Prepared { sql, context } = prepared;
        let values: Vec<UserValue> = variables.iter().map(|name| self.env.user_variable(name)).collect();
        // The statement has not been a part of the procedure that runs it.
        let program = self.env.reads_as(None);
        let done = self.within(&context, |core| core.execute(&sql, &values, more, sink));
        self.env.reads_as(program);
        for (index, value) in std::mem::take(&mut self.given_back) {
            if let Some(name) = variables.get(index) {
                self.env.set_user_variable(name, value);
            }
        }
        done
    }

    /// EXECUTE IMMEDIATE, whose expressions stand in `text`.
    fn execute_immediate(
        &mut self,
        source: Span,
        using: &[Span],
        text: Text<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let sql = variables::text(&evaluate(self, text, source)?).into_bytes();
        let values = using.iter().map(|value| evaluate(self, text, *value)).collect::<Res<Vec<_>>>()?;
        let program = self.env.reads_as(None);
        let done = self.execute(&sql, &values, more, sink);
        self.env.reads_as(program);
        self.given_back.clear();
        done
    }

    /// Runs the only statement of a text that was made while the session runs.
    fn execute(&mut self, sql: &[u8], values: &[UserValue], more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut scan = Normalised::default();
        lexer::normalise(sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(sql, error.at))?;
        if !lexer::is_blank(sql, scan.rest, self.env.lex_mode()) {
            return Err(parse::near(sql, scan.rest).into());
        }
        self.one(Text { sql, params: Params::Variables(values) }, 0, &scan, more, sink)
    }

    /// Makes a schema the current one.
    pub(crate) fn use_schema(&mut self, name: &str) -> Res<()> {
        if is_virtual(name) {
            self.env.set_virtual_schema(Some(name));
            self.env.client.set_schema(name);
            self.schema = None;
            self.pool = None;
            self.env.note_schema(name);
            return Ok(());
        }
        let schema = self.engine.schema(name)?;
        self.env.set_virtual_schema(None);
        self.env.client.set_schema(&schema.name);
        self.env.note_schema(&schema.name);
        self.pool = Some(Pool::of(&schema));
        self.schema = Some(schema);
        Ok(())
    }

    /// A current schema whose files were lost, or that was dropped, may be there again by now. If it is not, statements
    /// that need it say so.
    #[inline]
    pub(super) fn renew_schema(&mut self) {
        if let Some(schema) = self.schema.as_ref().filter(|schema| schema.is_closed()) {
            let name = schema.name.clone();
            let _ = self.use_schema(&name);
        }
    }

    /// Has no current schema any more.
    pub(crate) fn leave_schema(&mut self) {
        self.env.client.set_schema("");
        self.schema = None;
        self.pool = None;
    }

    /// An OK without rows.
    pub(crate) fn ok(&mut self, affected: u64, more: bool, sink: &mut dyn Sink) {
        self.ok_with(affected, "", more, sink);
    }

    /// An OK that says more.
    pub(super) fn ok_with(&mut self, affected: u64, info: &str, more: bool, sink: &mut dyn Sink) {
        self.env.row_count.set(affected as i64);
        sink.end_result(&Summary {
            affected_rows: affected,
            warnings: self.env.warning_count(),
            status: self.status(),
            info: info.as_bytes().into(),
            more_results: more,
            changes: self.env.take_changes(),
            ..Summary::default()
        });
    }

    /// Runs a statement that this engine itself has written, with the session's rights and variables.
    pub(crate) fn run_own(&mut self, sql: &str, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        self.run_part(Text { sql: sql.as_bytes(), params: Params::NONE }, more, sink)
    }

    /// The same for a statement that is made of a part of the client's, and has the values of its `?`.
    pub(crate) fn run_part(&mut self, own: Text<'_>, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut scan = Normalised::default();
        lexer::normalise(own.sql, 0, self.env.lex_mode(), &mut scan).map_err(|error| parse::near(own.sql, error.at))?;
        // `sql_select_limit` is about what clients ask.
        let select_limit = self.env.numbers.get().select_limit;
        self.env.numbers.set(Numbers { select_limit: u64::MAX, ..self.env.numbers.get() });
        let result = self.one(own, 0, &scan, more, sink);
        self.env.numbers.set(Numbers { select_limit, ..self.env.numbers.get() });
        result
    }
}

/// A sink that wants nothing.
pub(crate) struct Discard;

impl Sink for Discard {
    fn columns(&mut self, _: &[tidegate_rows::Column]) {}
    fn row(&mut self, _: tidegate_rows::Row<'_>) -> tidegate_rows::Flow {
        tidegate_rows::Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), tidegate_rows::SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// A query from `from` on without a part of its text.
fn without(sql: &[u8], from: usize, (start, end): Span) -> Vec<u8> {
    [&sql[from..start], b" ", &sql[end..]].concat()
}

/// The query that evaluates what stands behind DO.
fn query_of_do(sql: &[u8]) -> Vec<u8> {
    let start = sql.iter().take_while(|byte| !byte.is_ascii_alphabetic()).count();
    let behind = start + sql[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    [b"SELECT ", &sql[behind..]].concat()
}
