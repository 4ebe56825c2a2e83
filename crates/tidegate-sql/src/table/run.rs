//! Requests on their way through a session.

use std::rc::Rc;

use tidegate_rows::{Column, Flow, QueryError, ServerError, Sink, SinkClosed, Summary, Value};

use super::{Answers, Change, OpenTable, Request, Rows, Strictness, plans::Known};
use crate::{
    coerce::Target,
    errors,
    exec::params::{MadeParam, Params},
    lexer::Normalised,
    session::{Core, Over, Pending, Session},
    task,
    value::Val,
    variables,
};

type Res<T> = Result<T, ServerError>;

/// What others see of a session that carries out requests.
const SHOWN: &[u8] = b"requests to tables";

impl Session {
    /// Carries out one request, in the open transaction if there is one. The sink receives what it does for a statement.
    ///
    /// # Errors
    /// Those of the statement that does the same; those of [`open_table`](Session::open_table) if definitions have changed;
    /// 1136 for more values than open columns, 1235 for a key that is not one of the index.
    pub async fn run_request<S: Sink>(
        &mut self,
        open: &OpenTable,
        request: &Request<'_>,
        sink: &mut S,
    ) -> Result<(), QueryError> {
        let core = self.core();
        let env = Rc::clone(&core.env);
        let _over = Over::of(&env.client);
        match task::run(&env, SHOWN, || core.run_open(open, request, sink)).await {
            Ok(Ok(Some(pending))) => core.finish(pending, sink).await,
            Ok(done) => done.map(drop),
            Err(_) => Err(errors::out_of_memory().into()),
        }
    }

    /// Carries out requests one after the other; those in a row that write share a commit as far as they can. Answers come in
    /// the order of the requests. When the future is dropped, requests that have not been answered may have been carried out.
    pub async fn run_requests<A: Answers>(&mut self, requests: &[(&OpenTable, Request<'_>)], answers: &mut A) {
        let core = self.core();
        let env = Rc::clone(&core.env);
        let _over = Over::of(&env.client);
        let mut rest = requests;
        while !rest.is_empty() {
            let mut outcomes = Vec::new();
            let ran = task::run(&env, SHOWN, || {
                while let Some(((open, request), others)) = rest.split_first() {
                    let Some(outcome) = core.next_of_batch(open, request, &outcomes, answers) else { break };
                    rest = others;
                    outcomes.extend(outcome);
                }
            });
            if ran.await.is_err() {
                // No memory for a stack: nothing of the rest has run.
                rest.iter().for_each(|_| answers.ended(Err(errors::out_of_memory().into())));
                rest = &[];
            }
            for outcome in outcomes {
                let result = match outcome {
                    Outcome::Written(pending) => core.finish(pending, answers).await,
                    Outcome::Done(summary) => {
                        answers.end_result(&summary);
                        Ok(())
                    }
                    Outcome::Failed(error) => Err(error),
                };
                answers.ended(result);
            }
        }
    }
}

/// What a request of a batch has come to that cannot be answered yet.
enum Outcome {
    /// It waits for its commit.
    Written(Pending),
    Done(Summary),
    Failed(QueryError),
}

impl Core {
    /// Carries out the next request of a batch behind those with `outcomes`. Answers what is to be answered later, if anything;
    /// `None` if those before must be answered first.
    fn next_of_batch<A: Answers>(
        &mut self,
        open: &OpenTable,
        request: &Request<'_>,
        outcomes: &[Outcome],
        answers: &mut A,
    ) -> Option<Option<Outcome>> {
        let reads = matches!(request, Request::Find(_));
        if outcomes.is_empty() {
            if reads {
                answers_found(self.run_open(open, request, answers), answers);
                return Some(None);
            }
            let mut summary = Held::default();
            let result = self.run_open(open, request, &mut summary);
            return Some(Some(summary.outcome(result)));
        }
        // It has to see what those before have written; and nothing that waits may run while they hold the write lock.
        if reads {
            return None;
        }
        let mut summary = Held::default();
        let result = self.join_open(open, request, &mut summary)?;
        Some(Some(summary.outcome(result)))
    }

    fn run_open(
        &mut self,
        open: &OpenTable,
        request: &Request<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Pending>, QueryError> {
        self.renew();
        let known = open.known(self)?;
        let values = self.values_of(&known, open.strictness, request)?;
        let words = Normalised::made(known.words(request), values.len());
        // Definitions that change meanwhile: the next attempt plans by the newer ones.
        let plan = |core: &Self| open.known(core)?.plan(request);
        self.as_strict_as(open.strictness, |core| core.run_made(&words, Params::Made(&values), plan, sink))
    }

    fn join_open(
        &mut self,
        open: &OpenTable,
        request: &Request<'_>,
        sink: &mut dyn Sink,
    ) -> Option<Result<Option<Pending>, QueryError>> {
        let known = open.known(self).ok()?;
        let values = self.values_of(&known, open.strictness, request).ok()?;
        let words = Normalised::made(known.words(request), values.len());
        self.as_strict_as(open.strictness, |core| core.join_made(&words, Params::Made(&values), sink))
    }

    /// Runs something with the `sql_mode` that its values are to be converted by.
    fn as_strict_as<T>(&mut self, strictness: Strictness, run: impl FnOnce(&mut Self) -> T) -> T {
        let mode = self.env.sql_mode.get();
        if strictness == Strictness::Nearest {
            self.env.sql_mode.set(mode & !(variables::STRICT_TRANS_TABLES | variables::STRICT_ALL_TABLES));
        }
        let done = run(self);
        self.env.sql_mode.set(mode);
        done
    }

    /// The parameters of a request's plan.
    fn values_of<'v>(&self, known: &Known, strictness: Strictness, request: &Request<'v>) -> Res<Vec<MadeParam<'v>>> {
        let mut values = Vec::new();
        match request {
            Request::Find(rows) | Request::Delete(rows) => self.key_of(known, strictness, rows, &mut values)?,
            Request::Insert(given, _) => values.extend(given.iter().copied().map(MadeParam::Given)),
            Request::Update(rows, changes) => {
                self.key_of(known, strictness, rows, &mut values)?;
                values.extend(changes.iter().map(|change| match change {
                    Change::Set(value) => MadeParam::Given(*value),
                    Change::Add(number) => MadeParam::Given(Value::Int(*number)),
                }));
            }
        }
        Ok(values)
    }

    fn key_of<'v>(
        &self,
        known: &Known,
        strictness: Strictness,
        rows: &Rows<'v>,
        values: &mut Vec<MadeParam<'v>>,
    ) -> Res<()> {
        for (&part, value) in known.parts.iter().zip(rows.key) {
            let column = &known.table.columns[part];
            let target = Target {
                schema: &known.schema.name,
                table: &known.table.name,
                column,
                row: 1,
                strict: strictness == Strictness::Exact,
                env: &self.env,
            };
            let stored = target.coerce(Val::given(*value))?;
            values.push(MadeParam::Stored(stored, column.ty.rep()));
        }
        let at_most = |count: u64| MadeParam::Given(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)));
        values.extend([at_most(rows.limit), at_most(rows.offset)]);
        Ok(())
    }
}

fn answers_found<A: Answers>(result: Result<Option<Pending>, QueryError>, answers: &mut A) {
    answers.ended(result.map(drop));
}

/// Keeps the summary of a statement that gives no rows.
#[derive(Default)]
struct Held(Summary);

impl Held {
    fn outcome(self, result: Result<Option<Pending>, QueryError>) -> Outcome {
        match result {
            Ok(Some(pending)) => Outcome::Written(pending),
            Ok(None) => Outcome::Done(self.0),
            Err(error) => Outcome::Failed(error),
        }
    }
}

impl Sink for Held {
    fn columns(&mut self, _: &[Column]) {}
    fn begin_row(&mut self) {}
    fn value(&mut self, _: usize, _: Value<'_>) {}
    fn end_row(&mut self) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        self.0 = summary.clone();
    }
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
