//! Requests on their way through a session.

use std::{cell::Cell, rc::Rc, time::Instant};

use tidegate_rows::{QueryError, ServerError, Sink, Value};

use super::{
    Answers, Change, OpenTable, Request, Rows, Strictness,
    plans::{Known, is_null},
};
use crate::{
    coerce::implicit_default,
    errors,
    lexer::Normalised,
    session::{Core, MadeStatement, Over, Pending, Session},
    sql_mode,
    store::conn::Conn,
    task,
    translate::params::{Made, MadeParam},
    value::Val,
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
        match task::run(&*env, SHOWN, || core.run_open(open, request, sink)).await {
            Ok(Ok(Some(pending))) => core.finish(pending, sink).await,
            Ok(done) => done.map(drop),
            Err(_) => Err(errors::out_of_memory().into()),
        }
    }

    /// Carries out requests one after the other; those in a row that write share a commit as far as they can. Answers come in
    /// the order of the requests. When the future is dropped, requests that have not been answered may have been carried out.
    pub async fn run_requests<A: Answers>(&mut self, requests: &[(&OpenTable, Request<'_>)], answers: &mut A) {
        self.run_batch(requests, answers, false).await;
    }

    /// As [`run_requests`](Self::run_requests), where nobody minds that a power cut takes what these requests write: they are
    /// answered when they have committed and the disk has all commits before theirs, as far as somebody waits for those. It has theirs
    /// with the next one that somebody waits for, or within about a tenth of a second. Requests that cannot share a commit are answered as
    /// always.
    pub async fn run_requests_early<A: Answers>(&mut self, requests: &[(&OpenTable, Request<'_>)], answers: &mut A) {
        self.run_batch(requests, answers, true).await;
    }

    async fn run_batch<A: Answers>(&mut self, requests: &[(&OpenTable, Request<'_>)], answers: &mut A, is_early: bool) {
        let core = self.core();
        let env = Rc::clone(&core.env);
        let _over = Over::of(&env.client);
        let _early = Early::begin(&env.answers_early, is_early);
        let mut rest = requests;
        while !rest.is_empty() {
            let mut outcomes = Vec::new();
            let ran = task::run(&*env, SHOWN, || {
                let mut slice = (rest.len() > 1).then(Instant::now);
                while let Some(((open, request), others)) = rest.split_first() {
                    task::next_of_batch(slice.as_mut());
                    if task::is_cancelled() {
                        break;
                    }
                    if outcomes.is_empty() {
                        let found = core.find_together(rest, answers);
                        if found > 0 {
                            rest = &rest[found..];
                            continue;
                        }
                    }
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
                    Outcome::Failed(error) => Err(error),
                };
                answers.ended(result);
            }
        }
    }
}

/// How a session answers single statements, until this is dropped.
struct Early<'a>(&'a Cell<bool>);

impl<'a> Early<'a> {
    fn begin(answers_early: &'a Cell<bool>, is_early: bool) -> Self {
        answers_early.set(is_early);
        Self(answers_early)
    }
}

impl Drop for Early<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// What a request of a batch has come to that cannot be answered yet.
enum Outcome {
    /// It waits for its commit.
    Written(Pending),
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
        if outcomes.is_empty() {
            let result = match self.run_open(open, request, answers) {
                Ok(Some(pending)) => return Some(Some(Outcome::Written(pending))),
                done => done.map(drop),
            };
            answers.ended(result);
            return Some(None);
        }
        // It has to see what those before have written; and nothing that waits may run while they hold the write lock.
        if matches!(request, Request::Find(_)) {
            return None;
        }
        let result = self.join_open(open, request)?;
        Some(Some(result.map_or_else(Outcome::Failed, Outcome::Written)))
    }

    /// Carries out the requests of the beginning that find rows of one schema, if there are several, in one snapshot. Answers how
    /// many those were that could be: the next one is to be carried out alone.
    fn find_together<A: Answers>(&mut self, requests: &[(&OpenTable, Request<'_>)], answers: &mut A) -> usize {
        let [(open, Request::Find(_)), (_, Request::Find(_)), ..] = requests else { return 0 };
        let Ok(first) = open.known(self) else { return 0 };
        if !self.reads_alone() {
            return 0;
        }
        let mut found = 0;
        let read = self.in_snapshot(&first.pool, |core, conn| {
            for (open, request) in requests {
                let Ok(known) = open.known(core) else { break };
                if !matches!(request, Request::Find(_)) || !known.is_like(&first) {
                    break;
                }
                let result = core.find(conn, open, &known, request, answers);
                if matches!(&result, Err(QueryError::Server(error)) if error.code == errors::DEFINITION_CHANGED) {
                    break;
                }
                answers.ended(result);
                found += 1;
            }
        });
        // Whatever is wrong, the request that is carried out alone meets it again.
        drop(read);
        found
    }

    fn find<A: Answers>(
        &mut self,
        conn: &mut Conn,
        open: &OpenTable,
        known: &Known,
        request: &Request<'_>,
        answers: &mut A,
    ) -> Result<(), QueryError> {
        let values = self.values_of(known, open.strictness, request)?;
        let words = Normalised::made(known.words(request), values.len());
        let made = MadeStatement { words, params: made_of(&values, request), pool: &known.pool };
        self.find_made(conn, &made, |_| known.plan(request), answers)
    }

    fn run_open(
        &mut self,
        open: &OpenTable,
        request: &Request<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<Pending>, QueryError> {
        let known = open.known(self)?;
        let values = self.values_of(&known, open.strictness, request)?;
        let words = Normalised::made(known.words(request), values.len());
        let made = MadeStatement { words, params: made_of(&values, request), pool: &known.pool };
        // Definitions that change meanwhile: the next attempt plans by the newer ones.
        let plan = |core: &Self| open.known(core)?.plan(request);
        self.as_strict_as(open.strictness, |core| core.run_made(&made, plan, sink))
    }

    fn join_open(&mut self, open: &OpenTable, request: &Request<'_>) -> Option<Result<Pending, QueryError>> {
        let known = open.known(self).ok()?;
        let values = self.values_of(&known, open.strictness, request).ok()?;
        let words = Normalised::made(known.words(request), values.len());
        let made = MadeStatement { words, params: made_of(&values, request), pool: &known.pool };
        self.as_strict_as(open.strictness, |core| core.join_made(&made))
    }

    /// Runs something with the `sql_mode` that its values are to be converted by; rows count when they are found.
    fn as_strict_as<T>(&mut self, strictness: Strictness, run: impl FnOnce(&mut Self) -> T) -> T {
        let mode = self.env.sql_mode.get();
        let counts_found = self.env.found_rows_flag.replace(true);
        if strictness == Strictness::Nearest {
            self.env.sql_mode.set(mode & !(sql_mode::STRICT_TRANS_TABLES | sql_mode::STRICT_ALL_TABLES));
        }
        let done = run(self);
        self.env.sql_mode.set(mode);
        self.env.found_rows_flag.set(counts_found);
        done
    }

    /// The parameters of a request's plan.
    fn values_of<'v>(&self, known: &Known, strictness: Strictness, request: &Request<'v>) -> Res<Vec<MadeParam<'v>>> {
        let mut values = Vec::new();
        match request {
            Request::Find(rows) | Request::Delete(rows, _) | Request::Revise(rows, _) => {
                self.rows_of(known, strictness, rows, &mut values)?;
            }
            Request::Insert(given, _) => values.extend(given.iter().copied().map(MadeParam::Given)),
            Request::Update(rows, changes, _) => {
                self.rows_of(known, strictness, rows, &mut values)?;
                values.extend(changes.iter().map(|change| match change {
                    Change::Keep => MadeParam::Given(Value::Null),
                    Change::Set(value) => MadeParam::Given(*value),
                    Change::Add(number) | Change::Subtract(number) => MadeParam::Given(Value::Int(*number)),
                }));
            }
        }
        // Values that stand in another one's place are behind all others.
        if let Some((rows, each)) = rows_of(request).and_then(|rows| Some((rows, rows.each?))) {
            let part = known.parts.get(each.part).filter(|_| each.part < rows.key.len());
            let part = part.ok_or_else(|| errors::unsupported("several values for no part of the key"))?;
            let stored = each.values.iter().map(|value| self.stored_key(known, strictness, *part, *value));
            values.push(MadeParam::Each(stored.collect::<Res<_>>()?));
        }
        Ok(values)
    }

    /// The key, limit and offset, the filters.
    fn rows_of<'v>(
        &self,
        known: &Known,
        strictness: Strictness,
        rows: &Rows<'v>,
        values: &mut Vec<MadeParam<'v>>,
    ) -> Res<()> {
        for (at, (&part, value)) in known.parts.iter().zip(rows.key).enumerate() {
            let stands_for_others = rows.each.as_ref().is_some_and(|each| each.part == at);
            values.push(if stands_for_others {
                MadeParam::Given(Value::Null)
            } else {
                self.stored_key(known, strictness, part, *value)?
            });
        }
        let at_most = |count: u64| MadeParam::Given(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)));
        values.extend([at_most(rows.limit), at_most(rows.offset)]);
        for filter in rows.filters {
            // A column that there is not is an error of the plan.
            let value = match known.filters.get(filter.column) {
                Some(&column) => self.stored(known, strictness, column, filter.value)?,
                None => MadeParam::Given(Value::Null),
            };
            values.push(value);
        }
        Ok(())
    }

    /// A part of a key in the stored form of its column.
    fn stored_key<'v>(
        &self,
        known: &Known,
        strictness: Strictness,
        column: usize,
        value: Value<'v>,
    ) -> Res<MadeParam<'v>> {
        if is_null(&value) && !known.knows_null(column) {
            let ty = &known.table.columns[column].ty;
            return Ok(MadeParam::Stored(implicit_default(ty), ty.rep()));
        }
        self.stored(known, strictness, column, value)
    }

    /// A value in the stored form of a column.
    pub(super) fn stored<'v>(
        &self,
        known: &Known,
        strictness: Strictness,
        column: usize,
        value: Value<'v>,
    ) -> Res<MadeParam<'v>> {
        let target = known.target.target(column, 1, strictness == Strictness::Exact, &self.env);
        Ok(MadeParam::Stored(target.coerce(Val::given(value))?, target.column.ty.rep()))
    }
}

/// What a request's plan is run with.
fn made_of<'a>(values: &'a [MadeParam<'a>], request: &Request<'a>) -> Made<'a> {
    let revise = if let Request::Revise(_, revise) = request { Some(*revise) } else { None };
    Made { values, revise }
}

/// The rows that a request is about; an INSERT is about none.
fn rows_of<'r, 'a>(request: &'r Request<'a>) -> Option<&'r Rows<'a>> {
    match request {
        Request::Find(rows) | Request::Update(rows, ..) | Request::Delete(rows, _) | Request::Revise(rows, _) => {
            Some(rows)
        }
        Request::Insert(..) => None,
    }
}
