//! Queries outside of transactions, and `SELECT SLEEP(n)`, which needs no connection.

use std::rc::Rc;

use tidegate_rows::{QueryError, Row, Sink, Summary, Value};

use super::{Core, Res, waiting::wait_at_most};
use crate::{
    cache::{Entry, StatementCache},
    clients::Listing,
    errors,
    exec::{bind::Constants, pump, walk},
    functions,
    session::pool::Pool,
    store::{
        conn::{Cell, Conn, SqliteError, to_server_error},
        prepared::Prepared,
    },
    task,
    translate::plan::{Plan, PlanKind, SelectPlan},
};

impl Core {
    /// Runs a query outside of transactions on a connection of its own.
    pub(super) fn select_on(
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
            if select.walk.is_some() {
                // It may take several queries; giving the connection back ends their common snapshot.
                conn.begin().map_err(|error| to_server_error(&error))?;
            }
            task::while_reading(&pool.schema.readers, None, || {
                run_select(&mut conn, &mut entry.stmts, &plan, select, constants, sink)
            })
        });
        if cacheable && plan.attached.is_empty() {
            StatementCache::of(&mut conn).put(hash, entry);
        } else {
            drop(entry);
        }
        pool.put(conn);
        let rows = result.map_err(|error| self.error_of_names(&plan, false, error))?;
        self.finish_select(&plan, rows, more, sink);
        Ok(())
    }

    /// The error of a statement: 1412 if it has met a name that the file does not have since definitions have changed, or
    /// does not have in the snapshot of an `older` transaction. Whoever was about to publish newer ones has done so then.
    #[cold]
    pub(super) fn error_of_names(&self, plan: &Plan, older: bool, error: QueryError) -> QueryError {
        match &error {
            QueryError::Server(error) if error.code == errors::DEFINITION_CHANGED => {}
            QueryError::Server(error) if errors::is_of_unknown_name(error) => {}
            _ => return error,
        }
        match self.is_outdated(plan) {
            Ok(outdated) if outdated || older => errors::definition_changed().into(),
            Ok(_) => error,
            Err(error) => error.into(),
        }
    }

    /// Whether definitions have changed under a plan. Waits for whoever is about to publish newer ones.
    ///
    /// # Errors
    /// 1205 if that takes too long.
    fn is_outdated(&self, plan: &Plan) -> Res<bool> {
        for (schema, version) in &plan.catalogs {
            let over = schema.redefinition.over();
            if schema.redefinition.runs() && schema.version() == *version {
                wait_at_most(&self.env, over)?;
            }
        }
        Ok(!plan.is_current())
    }

    /// Runs `SELECT SLEEP(n)`. As the last statement it leaves its coroutine first, whose stack others can use meanwhile.
    pub(super) fn nap(
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
    pub(super) async fn finish_nap(&mut self, text: &[u8], sink: &mut dyn Sink) -> Result<(), QueryError> {
        let Some((plan, time)) = self.napping.take() else { return Ok(()) };
        let limit = self.env.statement_time.get().filter(|limit| *limit < time);
        let listing = Listing::of(&self.env.client, text);
        let ended = tokio::select! {
            () = tokio::time::sleep(limit.unwrap_or(time)) => limit.map(|_| errors::statement_timeout()),
            () = self.env.client.killed() => Some(self.env.client.kill_error()),
        };
        drop(listing);
        if let Some(error) = ended {
            self.env.note_error(&error);
            return Err(error.into());
        }
        self.wake(&plan, false, sink).await
    }

    /// The result of a sleep.
    pub(super) async fn wake(&mut self, plan: &Rc<Plan>, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::internal("not a query").into()) };
        sink.columns(&select.columns);
        if sink.row(Row(&[Value::Int(0).into()])) == tidegate_rows::Flow::Full {
            std::future::poll_fn(|cx| sink.poll_ready(cx)).await?;
        }
        self.finish_select(plan, (1, 1), more, sink);
        Ok(())
    }

    pub(super) fn finish_select(&mut self, plan: &Rc<Plan>, rows: (u64, u64), more: bool, sink: &mut dyn Sink) {
        self.env.found_rows.set(rows.1 as i64);
        self.env.row_count.set(-1);
        // The plan stays with the session for the names of its tables.
        plan.made_rows.borrow_mut().clear();
        if self.last_query.as_ref().is_none_or(|last| !Rc::ptr_eq(last, plan)) {
            self.last_query = Some(Rc::clone(plan));
        }
        sink.end_result(&Summary {
            status: self.status(),
            warnings: self.env.warning_count(),
            more_results: more,
            changes: self.env.take_changes(),
            ..Summary::default()
        });
    }

    /// A query without tables and without a current schema: any connection does.
    pub(super) fn select_without_schema(
        &mut self,
        mut entry: Entry,
        constants: Constants<'_>,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let plan = Rc::clone(&entry.plan);
        let PlanKind::Select(select) = &plan.kind else { return Err(errors::no_database().into()) };
        let mut conn = Conn::open(std::path::Path::new(":memory:")).map_err(|error| to_server_error(&error))?;
        let rows = run_select(&mut conn, &mut entry.stmts, &plan, select, constants, sink);
        drop(entry);
        self.finish_select(&plan, rows?, more, sink);
        Ok(())
    }
}

/// Runs a query: rows sent, and rows there would have been without LIMIT.
///
/// # Errors
/// 1412 if its snapshot may be of other definitions than the plan is; nothing is sent then.
pub(super) fn run_select(
    conn: &mut Conn,
    stmts: &mut Prepared,
    plan: &Plan,
    select: &SelectPlan,
    constants: Constants<'_>,
    sink: &mut dyn Sink,
) -> Result<(u64, u64), QueryError> {
    let internal = |error: SqliteError| to_server_error(&error);
    let stmt = stmts.query(|| conn.prepare(&select.sql)).map_err(internal)?;
    // The file has new definitions, and values that go with them, a moment before the catalogue shows them.
    let begun = || if plan.is_of_the_files() { Ok(()) } else { Err(errors::definition_changed()) };
    if let Some(walk) = &select.walk {
        let rows = walk::pump(walk, stmt, select, constants, begun, sink)?;
        return Ok((rows, rows));
    }
    let mut bound = constants.bind(stmt, &select.binds)?;
    let rows = pump(&mut bound, &select.columns, &select.outs, begun, sink)?;
    drop(bound);
    let Some(sql) = &select.found_rows_sql else { return Ok((rows, rows)) };
    let mut count = conn.prepare(&format!("SELECT count(*) FROM ({sql})")).map_err(internal)?;
    let used = count.parameter_count();
    let mut count = constants.bind(&mut count, &select.binds[..used.min(select.binds.len())])?;
    count.step().map_err(internal)?;
    let all = match count.cell(0) {
        Cell::Int(all) => all as u64,
        _ => rows,
    };
    Ok((rows, all))
}
