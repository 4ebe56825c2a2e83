//! CALL: runs a procedure in the session of whoever calls it.
//!
//! A statement of a procedure is one of the session's own: it takes the same way through plans, transactions, commits and locks
//! as if the client had sent it, and its rows are the client's. Its local variables are names that the translation knows
//! ([`Env::program`]); its plan is kept under the number of the program besides its text.

use std::{mem, rc::Rc, sync::Arc};

use tidegate_rows::{Column as SinkColumn, Flow, QueryError, Row, ServerError, Sink, SinkClosed, Summary};

use super::{
    Core, Session,
    prepared::Context,
    statements::Discard,
    status,
    values::{First, type_of},
};
use crate::{
    account_name::Name,
    accounts::Privileges,
    column::Column,
    env::{Env, programs::Reading},
    errors,
    exec::{
        self,
        program::{self, Host, ROWS_OF_INTO, Table},
        write::ReturnedRows,
    },
    lexer::{self, Normalised},
    parse::{
        self, Argument, ArgumentPlace, Call, TableName,
        program::{
            RoutineKind,
            code::{Code, FragmentId, FragmentKind, Shape},
            compile, definition,
            event::Event,
            routine::{self, Routine},
            signature::{Mode, Parameter, Signature},
        },
    },
    schema::Schema,
    sql_mode,
    store::conn::Cell,
    task,
    translate::{
        calls::may_execute,
        params::{Params, Text},
        returning::Returned,
    },
    value::{Datum, SqlType, collation::Collation, out::Out},
    variables,
};

type Res<T> = Result<T, ServerError>;

/// Procedures that call each other. Each level takes some ten kilobytes of the statement's stack.
const DEPTH_MAX: usize = 32;

/// A value with what it is.
struct Given {
    out: Out,
    value: Datum,
}

/// Runs the statements of a procedure.
struct CallHost<'h> {
    core: &'h mut Core,
    code: &'h Arc<Code>,
    /// What the fields of its records are.
    shape: Arc<Shape>,
    sink: &'h mut dyn Sink,
    /// What has ended the call besides an error of a statement: the client does not read any more.
    lost: &'h mut Option<QueryError>,
    /// Rows that the statements have changed, all together.
    affected: &'h mut u64,
}

fn schema_of(core: &Core, name: &TableName) -> Res<Arc<Schema>> {
    match (&name.schema, &core.schema) {
        (Some(name), _) => core.engine.schema(name),
        (None, Some(schema)) => Ok(Arc::clone(schema)),
        (None, None) => Err(errors::no_database()),
    }
}

/// Carries out CALL; `text` is that of the statement.
///
/// # Errors
/// 1305, 1318, 1370, 1414, 1456; those of the procedure's statements that none of its handlers takes.
pub(super) fn call(
    core: &mut Core,
    call: &Call,
    text: Text<'_>,
    more: bool,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let schema = match (&call.name.schema, schema_of(core, &call.name)) {
        (Some(name), Err(_)) => return Err(errors::unknown_procedure(name, &call.name.name).into()),
        (_, schema) => schema?,
    };
    let shown = format!("{}.{}", schema.name, call.name.name);
    let routine = routine::named(schema.catalog()?.routines(), RoutineKind::Procedure, &call.name.name).cloned();
    let access = core.env.access();
    may_execute(Some(&access), &schema, RoutineKind::Procedure, routine.as_deref(), &call.name.name)?;
    let routine = routine.ok_or_else(|| errors::unknown_procedure(&schema.name, &call.name.name))?;
    let (signature, code) = routine.read()?;
    if call.arguments.len() != signature.params.len() {
        let (expected, got) = (signature.params.len(), call.arguments.len());
        return Err(errors::wrong_argument_count("PROCEDURE", shown, expected, got).into());
    }
    may_go_deeper(core, code, &routine)?;
    let given = arguments(core, call, signature, text, &shown)?;
    let context = Context { schema: Some(schema.name.clone()), sql_mode: routine.kept.sql_mode };
    let (mut frame, mut affected) = (Vec::new(), 0);
    core.within(&context, |core| {
        let acting = (!signature.says.as_invoker).then(|| routine.kept.definer.clone());
        frame = in_frame(core, (acting, routine.kept.sql_mode), code, given, &mut affected, sink)?;
        Ok(())
    })?;
    let mut for_client = Vec::new();
    for ((argument, param), value) in call.arguments.iter().zip(&signature.params).zip(frame) {
        match (param.mode, &argument.place, text.params) {
            (Mode::In, ..) => {}
            (_, ArgumentPlace::Parameter, Params::Variables(_)) => {
                let value = program::user_value(&Out::of(&param.ty), &value);
                core.given_back.push((argument.params.start, value));
            }
            (_, ArgumentPlace::Parameter, _) => for_client.push((param, value)),
            (_, place, _) => give_back(&core.env, place, &Out::of(&param.ty), &value)?,
        }
    }
    if !for_client.is_empty() {
        core.send_out_parameters(&for_client, sink)?;
    }
    core.end_nested();
    core.ok(affected, more, sink);
    Ok(())
}

/// Runs a block that stands by itself, as a procedure without a name. Its names are nobody else's: `text` is read where it runs.
///
/// # Errors
/// 1064; those of its statements that none of its handlers takes.
pub(super) fn block(core: &mut Core, text: &str, more: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let context = core.prepared_context();
    let collation = match &core.schema {
        Some(schema) => schema.catalog()?.collation.unwrap_or(Collation::DEFAULT),
        None => Collation::DEFAULT,
    };
    let sql_mode = context.sql_mode;
    let pipes_as_concat = sql_mode & sql_mode::PIPES_AS_CONCAT != 0;
    let reading = compile::Reading { mode: core.env.lex_mode(), pipes_as_concat, collation };
    let code = Arc::new(definition::read_block(text, reading)?);
    let mut affected = 0;
    core.within(&context, |core| in_frame(core, (None, sql_mode), &code, Vec::new(), &mut affected, sink).map(drop))?;
    core.end_nested();
    core.ok(affected, more, sink);
    Ok(())
}

impl Session {
    /// Runs an event, as its definer may.
    ///
    /// # Errors
    /// 1044 for a definer who may not have events there, 1449 for one who is gone; those of its statements that none of its handlers takes.
    pub(crate) async fn run_event(&mut self, schema: &Arc<Schema>, event: &Event) -> Result<(), QueryError> {
        self.in_own_coroutine(|core| {
            let (head, code) = event.read()?;
            core.use_schema(&schema.name)?;
            let zone = variables::text_value(&head.time_zone);
            variables::set_system(&core.engine, &core.env, false, "time_zone", Some(&zone), || Ok(()))?;
            if let Some(definer) = &event.kept.definer {
                let state = core.env.accounts.now();
                if state.find(definer).is_some() {
                    state.access(definer, &definer.host, None).want_in_schema(&schema.name, Privileges::EVENT)?;
                }
            }
            let context = Context { schema: Some(schema.name.clone()), sql_mode: event.kept.sql_mode };
            core.within(&context, |core| {
                let how = (Some(event.kept.definer.clone()), event.kept.sql_mode);
                let mut affected = 0;
                in_frame(core, how, code, Vec::new(), &mut affected, &mut Discard).map(drop)
            })
        })
        .await
    }

    /// Runs what is no client's statement.
    pub(crate) async fn in_own_coroutine<E: Into<QueryError>>(
        &mut self,
        run: impl FnOnce(&mut Core) -> Result<(), E>,
    ) -> Result<(), QueryError> {
        let env = Rc::clone(&self.core.env);
        let core = &mut self.core;
        match task::run(&*env, b"", || run(core).map_err(Into::into)).await {
            Ok(result) => result,
            Err(_) => Err(errors::out_of_memory().into()),
        }
    }
}

/// Whether a procedure may be called where the session is: within itself only as often as `max_sp_recursion_depth` says.
fn may_go_deeper(core: &Core, code: &Arc<Code>, routine: &Routine) -> Res<()> {
    let depth_max = variables::value_of(&core.engine, &core.env, "max_sp_recursion_depth");
    let depth_max = depth_max.and_then(|value| value.parse().ok()).unwrap_or(0usize);
    let (all, same) = core.env.calls_of(code);
    if same > depth_max {
        return Err(errors::recursion_limit(depth_max, &routine.kept.name));
    }
    if all >= DEPTH_MAX { Err(errors::unsupported("procedures that call each other this deeply")) } else { Ok(()) }
}

/// The values of the arguments, worked out where the caller is; `None` for OUT.
fn arguments(
    core: &mut Core,
    call: &Call,
    signature: &Signature,
    text: Text<'_>,
    shown: &str,
) -> Result<Vec<Option<Given>>, QueryError> {
    let mut given = Vec::with_capacity(call.arguments.len());
    for (index, (argument, param)) in call.arguments.iter().zip(&signature.params).enumerate() {
        let is_known = match &argument.place {
            ArgumentPlace::Nowhere => false,
            ArgumentPlace::Name(name) => {
                core.env.program().is_some_and(|reading| reading.code.slot(reading.scope, name).is_some())
            }
            ArgumentPlace::Variable(_) | ArgumentPlace::Parameter => true,
        };
        if param.mode != Mode::In && !is_known {
            return Err(errors::out_argument(index + 1, shown).into());
        }
        given.push(if param.mode == Mode::Out { None } else { Some(argument_value(core, argument, text)?) });
    }
    Ok(given)
}

fn argument_value(core: &mut Core, argument: &Argument, text: Text<'_>) -> Result<Given, QueryError> {
    let (from, to) = argument.span;
    let sql = [b"SELECT ", &text.sql[from..to]].concat();
    let params = text.params.part(argument.params.clone());
    let mut rows = Collected::new(1, usize::MAX);
    core.run_nested(Text { sql: &sql, params }, &mut rows)?;
    let value = rows.cells.pop().ok_or_else(|| errors::internal("an expression without a value"))?;
    let out = rows.outs().pop().ok_or_else(|| errors::internal("an expression without a column"))?;
    Ok(Given { out, value })
}

/// Runs the program with its variables, as whom and by which mode it runs; answers what its variables are in the end.
fn in_frame(
    core: &mut Core,
    (acting, sql_mode): (Option<Option<Name>>, u64),
    code: &Arc<Code>,
    given: Vec<Option<Given>>,
    affected: &mut u64,
    sink: &mut dyn Sink,
) -> Result<Vec<Datum>, QueryError> {
    let env = Rc::clone(&core.env);
    if let Some(Some(definer)) = &acting
        && env.accounts.now().find(definer).is_none()
    {
        return Err(errors::no_such_definer(&definer.user, &definer.host).into());
    }
    let outside = env.enter_call(code, vec![Datum::Null; code.variables.len()], sql_mode);
    let before = acting.map(|definer| env.act_as(Some(definer)));
    let mut lost = None;
    let ran = take_arguments(&env, code, given).and_then(|()| {
        let host = CallHost { core: &mut *core, code, shape: Arc::default(), sink, lost: &mut lost, affected };
        program::run(host, code, &env)
    });
    if let Some(before) = before {
        env.act_as(before);
    }
    let frame = env.leave_call(outside);
    match (lost, ran) {
        (Some(lost), _) => Err(lost),
        // What has met other definitions a hundred times must not have the whole call begin again.
        (None, Err(error)) if error.code == errors::DEFINITION_CHANGED => Err(errors::lock_wait_timeout().into()),
        (None, ran) => Ok(ran.map(|()| frame)?),
    }
}

fn take_arguments(env: &Env, code: &Code, given: Vec<Option<Given>>) -> Res<()> {
    for (slot, given) in given.into_iter().enumerate() {
        if let Some(Given { out, value }) = given {
            env.set_local(slot, program::converted(env, &code.variables[slot], (["", ""], 1), &out, &value)?);
        }
    }
    Ok(())
}

/// Gives the value of a parameter to what stands in its place.
fn give_back(env: &Env, place: &ArgumentPlace, out: &Out, value: &Datum) -> Res<()> {
    match place {
        ArgumentPlace::Variable(name) => env.set_user_variable(name, program::user_value(out, value)),
        ArgumentPlace::Name(name) => {
            let Some(Reading { code, scope, .. }) = env.program() else { return Ok(()) };
            if let Some(slot) = code.slot(scope, name) {
                env.set_local(slot, program::converted(env, &code.variables[slot], (["", ""], 0), out, value)?);
            }
        }
        // These have been dealt with.
        ArgumentPlace::Parameter | ArgumentPlace::Nowhere => {}
    }
    Ok(())
}

impl Core {
    /// Runs one statement inside of another one, to its end: its commit is durable then.
    ///
    /// # Errors
    /// The statement's.
    fn run_nested(&mut self, text: Text<'_>, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut scan = Normalised::default();
        lexer::normalise(text.sql, 0, self.env.lex_mode(), &mut scan)
            .map_err(|error| parse::near(text.sql, error.at))?;
        // As if others followed: nothing of it is left for when the coroutine has ended.
        self.one(text, 0, &scan, true, sink)
    }

    /// Sends what is in the OUT and INOUT parameters whose arguments are `?`: a result of one row, marked as what it is.
    ///
    /// Source: MySQL's documentation of the protocol, "COM_STMT_EXECUTE response" and SERVER_PS_OUT_PARAMS.
    fn send_out_parameters(&mut self, values: &[(&Parameter, Datum)], sink: &mut dyn Sink) -> Result<(), QueryError> {
        let columns = values.iter().map(|(param, _)| param.ty.describe(param.name.as_bytes(), false)).collect();
        let outs = values.iter().map(|(param, _)| Out::of(&param.ty)).collect();
        let mut rows = ReturnedRows::new(&Arc::new(Returned { columns, outs }));
        for (_, value) in values {
            rows.push(value.clone(), usize::MAX)?;
        }
        exec::send_returned(&rows, sink)?;
        sink.end_result(&Summary {
            status: self.status() | status::OUT_PARAMETERS,
            more_results: true,
            ..Summary::default()
        });
        Ok(())
    }

    /// A statement that has run others ends: what its results depend on is not known.
    fn end_nested(&mut self) {
        self.last_query = None;
        self.reads_more();
    }
}

impl CallHost<'_> {
    fn run_fragment(&mut self, fragment: FragmentId, sink: Option<&mut dyn Sink>) -> Res<()> {
        let fragment = &self.code.fragments[fragment];
        let (code, shape) = (Arc::clone(self.code), Arc::clone(&self.shape));
        let before = self.core.env.reads_as(Some(Reading { code, scope: fragment.scope, shape }));
        let text = Text { sql: fragment.text.as_bytes(), params: Params::NONE };
        let ran = match sink {
            Some(sink) => self.core.run_nested(text, sink),
            None => self.core.run_nested(text, &mut ResultSets { sink: &mut *self.sink, is_open: false }),
        };
        self.core.env.reads_as(before);
        ran.map_err(|error| match error {
            QueryError::Server(error) => error,
            other => {
                *self.lost = Some(other);
                // No handler takes it.
                errors::interrupted()
            }
        })
    }

    fn collected(&mut self, fragment: FragmentId, most: usize) -> Res<Collected> {
        let mut rows = Collected::new(most, self.core.engine.settings.statement_memory_max());
        self.run_fragment(fragment, Some(&mut rows))?;
        if rows.is_too_much {
            return Err(errors::unsupported("a cursor over more rows than memory has room for"));
        }
        Ok(rows)
    }
}

impl Host for CallHost<'_> {
    fn value(&mut self, fragment: FragmentId, take: &mut dyn FnMut(&Out, Cell<'_>) -> Res<()>) -> Res<()> {
        let rows = self.collected(fragment, 1)?;
        let [out] = rows.outs().try_into().map_err(|_| errors::operand_columns(1))?;
        take(&out, rows.cells.first().map_or(Cell::Null, Datum::as_cell))
    }

    fn rows(&mut self, fragment: FragmentId, most: usize) -> Res<Table> {
        let rows = self.collected(fragment, most)?;
        if most == ROWS_OF_INTO {
            *self.affected += rows.rows.min(1) as u64;
        }
        Ok(Table::of(rows.outs(), rows.named, rows.cells))
    }

    fn opened(&mut self, query: FragmentId, table: &Table) {
        self.shape = Arc::new(self.shape.with(self.code, query, |name| table.type_of(name)));
    }

    fn field_type(&self, slot: usize) -> Option<SqlType> {
        self.shape.type_of(slot).cloned()
    }

    fn run(&mut self, fragment: FragmentId) -> Res<()> {
        // A query that is a statement is what DO evaluates: nobody sees its row.
        let is_do = self.code.fragments[fragment].kind == FragmentKind::Query;
        self.run_fragment(fragment, is_do.then_some(&mut Discard as &mut dyn Sink))?;
        *self.affected += u64::try_from(self.core.env.row_count.get()).unwrap_or(0);
        Ok(())
    }

    fn column_of_new(&self, name: &str) -> Res<(usize, &Column, [&str; 2])> {
        Err(errors::unknown_column(name, "NEW"))
    }
}

/// Lets rows through to the client, and no end of a statement that has none: the call has one end of its own.
struct ResultSets<'s> {
    sink: &'s mut dyn Sink,
    is_open: bool,
}

impl Sink for ResultSets<'_> {
    fn columns(&mut self, columns: &[SinkColumn]) {
        self.is_open = true;
        self.sink.columns(columns);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.sink.row(row)
    }
    fn end_result(&mut self, summary: &Summary) {
        if mem::take(&mut self.is_open) {
            self.sink.end_result(summary);
        }
    }
    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        self.sink.poll_ready(cx)
    }
}

/// Keeps the first rows of a query.
struct Collected {
    columns: Vec<First>,
    /// Their names, each with the type that a variable has for all that may be in the column.
    named: Vec<(String, SqlType)>,
    cells: Vec<Datum>,
    rows: usize,
    most: usize,
    bytes: usize,
    memory_max: usize,
    is_too_much: bool,
}

impl Collected {
    fn new(most: usize, memory_max: usize) -> Self {
        Self {
            columns: Vec::new(),
            named: Vec::new(),
            cells: Vec::new(),
            rows: 0,
            most,
            bytes: 0,
            memory_max,
            is_too_much: false,
        }
    }

    fn outs(&self) -> Vec<Out> {
        self.columns.iter().map(|column| Out::of(&column.shown_type())).collect()
    }
}

impl Sink for Collected {
    fn columns(&mut self, columns: &[SinkColumn]) {
        self.columns = columns.iter().map(First::of).collect();
        let named = |column: &SinkColumn| (String::from_utf8_lossy(&column.name).into_owned(), type_of(column));
        self.named = columns.iter().map(named).collect();
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.rows += 1;
        if self.rows > self.most || self.is_too_much {
            return Flow::More;
        }
        row.each(|index, value| {
            if let Some(column) = self.columns.get_mut(index) {
                column.keep(value);
                let value = column.take();
                self.bytes += value.size();
                self.cells.push(value);
            }
        });
        self.is_too_much = self.bytes > self.memory_max;
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
