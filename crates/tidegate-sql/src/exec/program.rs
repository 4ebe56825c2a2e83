//! The interpreter: carries out the operations of a program, one after the other, without recursion.
//!
//! What has failed, or warned, is a condition that a handler may take. Some errors no handler takes ([`is_final`]): the statement
//! around the program has to end then, or to begin again.

use std::rc::Rc;

use tidegate_rows::ServerError;

use crate::{
    coerce::Target,
    column::{Column, same_name},
    env::{Env, UserValue},
    errors,
    parse::program::code::{Code, Condition, Diagnostics, DiagnosticsItem, FragmentId, Op, Place, Signal},
    sql_mode,
    store::conn::Cell,
    task,
    translate::programs::{Planned, PlannedKind},
    value::{Base, Datum, Rep, SqlType, collation::Collation, decimal::PRECISION_MAX, out::Out},
};

type Res<T> = Result<T, ServerError>;

/// Operations between two looks at whether the program has to stop, or others want their turn.
const STEPS: usize = 64;

/// Rows that SELECT … INTO asks for: a second one is an error.
pub(crate) const ROWS_OF_INTO: usize = 2;

/// Rows of a query of the program.
pub(crate) struct Table {
    columns: Columns,
    cells: Vec<Datum>,
}

/// Who knows what the columns are.
enum Columns {
    Planned(Rc<Planned>),
    /// What the values are; the names, and the types that variables have for them.
    Own(Vec<Out>, Vec<(String, SqlType)>),
}

/// What runs the program's statements.
pub(crate) trait Host {
    /// Gives the only value of a query to `take`.
    ///
    /// # Errors
    /// Those of the query and of `take`.
    fn value(&mut self, fragment: FragmentId, take: &mut dyn FnMut(&Out, Cell<'_>) -> Res<()>) -> Res<()>;

    /// The rows of a query, so many at most.
    ///
    /// # Errors
    /// Those of the query; 1235 for more than memory has room for.
    fn rows(&mut self, fragment: FragmentId, most: usize) -> Res<Table>;

    /// Runs a statement.
    ///
    /// # Errors
    /// The statement's.
    fn run(&mut self, fragment: FragmentId) -> Res<()>;

    /// A FOR loop has opened its cursor, whose query gives these columns: they are the fields of its record from now on.
    fn opened(&mut self, query: FragmentId, table: &Table);

    /// The type of a field of a record, by its slot; `None` if the query does not have it.
    fn field_type(&self, slot: usize) -> Option<SqlType>;

    /// The slot of a column of NEW, and where its values go.
    ///
    /// # Errors
    /// 1054
    fn column_of_new(&self, name: &str) -> Res<(usize, &Column, [&str; 2])>;
}

impl Table {
    pub(crate) fn new(planned: Rc<Planned>, cells: Vec<Datum>) -> Self {
        Self { columns: Columns::Planned(planned), cells }
    }

    /// Rows whose columns are these, with their names and the types that variables have for them.
    pub(crate) fn of(outs: Vec<Out>, named: Vec<(String, SqlType)>, cells: Vec<Datum>) -> Self {
        Self { columns: Columns::Own(outs, named), cells }
    }

    /// The name of a column.
    fn name(&self, position: usize) -> Option<&str> {
        match &self.columns {
            Columns::Own(_, named) => named.get(position).map(|(name, _)| name.as_str()),
            Columns::Planned(planned) => planned.names.get(position).map(String::as_str),
        }
    }

    /// Where the first column of a name stands.
    fn position(&self, name: &str) -> Option<usize> {
        (0..self.outs().len()).find(|position| self.name(*position).is_some_and(|known| same_name(known, name)))
    }

    /// The name of a column that another one before it has too.
    fn name_of_two(&self) -> Option<&str> {
        let names = (0..self.outs().len()).filter_map(|position| Some((position, self.name(position)?)));
        names.filter(|(position, name)| self.position(name) != Some(*position)).map(|(_, name)| name).next()
    }

    /// The type that a variable has for the values of a column.
    pub(crate) fn type_of(&self, name: &str) -> Option<SqlType> {
        let position = self.position(name)?;
        match &self.columns {
            Columns::Own(_, named) => named.get(position).map(|(_, ty)| ty.clone()),
            Columns::Planned(_) => self.outs().get(position).map(|out| out.ty.clone()),
        }
    }

    fn outs(&self) -> &[Out] {
        match &self.columns {
            Columns::Own(outs, _) => outs,
            Columns::Planned(planned) => match &planned.kind {
                PlannedKind::Query(feed) => &feed.outs,
                _ => &[],
            },
        }
    }
}

/// A cursor that is open: its rows, and how many of their values have been fetched.
struct OpenCursor {
    table: Table,
    at: usize,
}

/// A handler that runs.
struct Active {
    handler: usize,
    /// Where a CONTINUE handler goes back to.
    back: usize,
    condition: ServerError,
}

struct Run<'r, H> {
    host: H,
    code: &'r Code,
    env: &'r Env,
    at: usize,
    cursors: Vec<Option<OpenCursor>>,
    active: Vec<Active>,
}

/// What an operation has done, unless it has failed.
enum Done {
    /// The next one follows.
    Next,
    /// Another one follows.
    Goto(usize),
    /// There was no row.
    NoData,
    End,
}

/// Whether an error ends the statement around a program, whatever handlers there are: it is killed, was undone, or runs again.
fn is_final(error: &ServerError) -> bool {
    matches!(error.code, errors::INTERRUPTED | errors::STOPPED | errors::DEFINITION_CHANGED)
        || matches!(error.code, 1021 | 1030 | 1037 | 1038 | 1041 | 1205 | 1213 | 1815 | 1969 | 1927)
}

/// Runs a program to its end. Its variables are in the session's frame.
///
/// # Errors
/// The first condition that no handler takes.
pub(crate) fn run(host: impl Host, code: &Code, env: &Env) -> Res<()> {
    let cursors = code.cursors.iter().map(|_| None).collect();
    Run { host, code, env, at: 0, cursors, active: Vec::new() }.run()
}

impl<H: Host> Run<'_, H> {
    fn run(&mut self) -> Res<()> {
        let mut steps = 0;
        loop {
            steps += 1;
            if steps % STEPS == 0 && task::tick() {
                return Err(errors::interrupted());
            }
            let code = self.code;
            let Some(op) = code.ops.get(self.at) else { return Ok(()) };
            // The warnings of a procedure's last statement are those of CALL.
            if !matches!(op, Op::Jump(_) | Op::EndBlock | Op::EndHandler | Op::End | Op::Diagnostics(_)) {
                self.env.forget_warnings();
            }
            match self.step(op) {
                Ok(Done::End) => return Ok(()),
                Ok(Done::Next) if self.env.warning_count() > 0 => self.warned(op),
                Ok(Done::Next) => self.at += 1,
                Ok(Done::Goto(to)) => self.go(to),
                Ok(Done::NoData) => self.no_data(op)?,
                Err(error) => self.failed(op, error)?,
            }
        }
    }

    /// Goes on elsewhere, which may be outside of handlers and blocks. Cursors of blocks that a handler goes back to stay open.
    fn go(&mut self, to: usize) {
        let code = self.code;
        while self.active.last().is_some_and(|active| !code.handlers[active.handler].body.has(to)) {
            self.active.pop();
        }
        for (cursor, open) in code.cursors.iter().zip(&mut self.cursors) {
            if !cursor.within.has(to) && !self.active.iter().any(|active| cursor.within.has(active.back)) {
                *open = None;
            }
        }
        self.at = to;
    }

    /// Has a handler take a condition; answers whether there is one.
    fn handle(&mut self, op: &Op, condition: ServerError, is_warning: bool) -> bool {
        let found = self.code.handler(self.at, condition.code, &condition.sqlstate, is_warning);
        let Some(handler) = found else { return false };
        let back = match op {
            Op::Unless { behind, .. } | Op::Branch { behind, .. } | Op::FetchRecord { behind, .. } => *behind,
            _ => self.at + 1,
        };
        self.active.push(Active { handler, back, condition });
        self.at = self.code.handlers[handler].body.from;
        true
    }

    fn failed(&mut self, op: &Op, error: ServerError) -> Res<()> {
        // The first error that is a warning elsewhere counts.
        let error = self.env.check_aborted().err().unwrap_or(error);
        if is_final(&error) || !self.handle(op, error.clone(), false) {
            return Err(error);
        }
        Ok(())
    }

    fn no_data(&mut self, op: &Op) -> Res<()> {
        if self.handle(op, errors::no_data(), false) {
            return Ok(());
        }
        if matches!(op, Op::Fetch { .. }) {
            return Err(errors::no_data());
        }
        self.env.warn(errors::no_data());
        self.at += 1;
        Ok(())
    }

    /// The last warning that a handler is for counts.
    fn warned(&mut self, op: &Op) {
        let warnings = self.env.warnings_now();
        for warning in warnings.into_iter().rev().filter(|warning| warning.level != "Error") {
            let condition = ServerError::new(warning.code, &warning.state, warning.message);
            if self.handle(op, condition, true) {
                return;
            }
        }
        self.at += 1;
    }

    fn step(&mut self, op: &Op) -> Res<Done> {
        match op {
            Op::Assign { to, value } => self.assign_value(to, *value)?,
            Op::Clear(slot) => self.env.set_local(*slot, Datum::Null),
            Op::Jump(to) => return Ok(Done::Goto(*to)),
            Op::Unless { condition, to, .. } => {
                if !self.is_true(*condition)? {
                    return Ok(Done::Goto(*to));
                }
            }
            Op::Branch { value, starts, .. } => {
                let number = self.number(*value)?.unwrap_or(0);
                let start = usize::try_from(number - 1).ok().and_then(|index| starts.get(index));
                return start.map(|start| Done::Goto(*start)).ok_or_else(|| errors::internal("a CASE without branch"));
            }
            Op::Run(statement) => self.host.run(*statement)?,
            Op::Into { query, places } => return self.into(*query, places),
            Op::Open { cursor, record } => {
                if self.cursors[*cursor].is_some() {
                    return Err(errors::cursor_already_open());
                }
                let query = self.code.cursors[*cursor].query;
                let table = self.host.rows(query, usize::MAX)?;
                if record.is_some() {
                    if let Some(name) = table.name_of_two() {
                        return Err(errors::duplicate_column(name));
                    }
                    self.host.opened(query, &table);
                }
                self.cursors[*cursor] = Some(OpenCursor { table, at: 0 });
            }
            Op::FetchRecord { record, behind } => return self.fetch_record(*record, *behind),
            Op::Fetch { cursor, places } => return self.fetch(*cursor, places),
            Op::Close(cursor) => {
                self.cursors[*cursor].take().ok_or_else(errors::cursor_not_open)?;
            }
            Op::Signal(signal) => self.signal(signal)?,
            Op::Diagnostics(wanted) => {
                self.diagnostics(wanted)?;
                return Ok(Done::Goto(self.at + 1));
            }
            Op::NoBranch => return Err(errors::no_case()),
            Op::EndHandler => {
                let back = self.active.pop().map(|active| active.back);
                self.at = back.ok_or_else(|| errors::internal("the end of no handler"))?;
                return Ok(Done::Goto(self.at));
            }
            Op::Return(value) => {
                let to = self.code.result.ok_or_else(errors::return_outside_function)?;
                self.assign_value(&Place::Local(to), *value)?;
                return Ok(Done::End);
            }
            Op::NoReturn => return Err(errors::ended_without_return(&self.code.name)),
            Op::EndBlock => return Ok(Done::Goto(self.at + 1)),
            Op::End => return Ok(Done::End),
        }
        Ok(Done::Next)
    }

    fn is_true(&mut self, condition: FragmentId) -> Res<bool> {
        let mut is_true = false;
        self.host.value(condition, &mut |out, cell| {
            is_true = match crate::value::Val::of(cell, out.rep) {
                crate::value::Val::Null => false,
                value => value.to_f64().unwrap_or_else(|(value, _)| value) != 0.0,
            };
            Ok(())
        })?;
        Ok(is_true)
    }

    fn number(&mut self, value: FragmentId) -> Res<Option<i64>> {
        let mut number = None;
        self.host.value(value, &mut |_, cell| {
            if let Cell::Int(value) = cell {
                number = Some(value);
            }
            Ok(())
        })?;
        Ok(number)
    }

    fn text(&mut self, value: FragmentId) -> Res<Option<String>> {
        let mut text = None;
        self.host.value(value, &mut |out, cell| {
            if cell != Cell::Null {
                let mut bytes = Vec::new();
                out.write(cell, &mut bytes);
                text = Some(String::from_utf8_lossy(&bytes).into_owned());
            }
            Ok(())
        })?;
        Ok(text)
    }

    fn assign_value(&mut self, to: &Place, value: FragmentId) -> Res<()> {
        let env = self.env;
        let mut kept = (Datum::Null, None);
        // A conversion that loses something is an error in strict mode, except for user variables.
        env.set_abort_on_warning(is_strict(env) && !matches!(to, Place::User(_)));
        let found = self.host.value(value, &mut |out, cell| {
            kept = (cell.to_owned(), Some(out.clone()));
            Ok(())
        });
        let checked = env.check_aborted();
        env.set_abort_on_warning(false);
        found?;
        checked?;
        match kept {
            (value, Some(out)) => self.assign(to, &out, &value),
            (_, None) => Err(errors::internal("an expression without a value")),
        }
    }

    fn assign(&mut self, to: &Place, out: &Out, value: &Datum) -> Res<()> {
        assign(&self.host, self.code, self.env, to, out, value)
    }

    /// GET DIAGNOSTICS: of the condition that is handled, or of the last statement that left any.
    fn diagnostics(&mut self, wanted: &Diagnostics) -> Res<()> {
        let conditions: Vec<ServerError> = match self.active.last() {
            Some(active) => vec![active.condition.clone()],
            None => {
                let warnings = self.env.warnings_now().into_iter();
                warnings.map(|warning| ServerError::new(warning.code, &warning.state, warning.message)).collect()
            }
        };
        let condition = match wanted.condition {
            None => None,
            Some(number) => {
                let number = self.number(number)?.and_then(|number| usize::try_from(number).ok());
                let found = number.and_then(|number| conditions.get(number.checked_sub(1)?));
                if found.is_none() {
                    // The statement tells what has been, and does not become that itself.
                    self.env.warn(errors::bad_condition_number());
                    return Ok(());
                }
                found
            }
        };
        for (place, item) in &wanted.items {
            let number = |number: i64| (SqlType::ubigint(), Datum::Int(number));
            let text = |text: &str| (SqlType::varchar(text.len() as u32, Collation::DEFAULT), Datum::text(text));
            let (ty, value) = match (item, condition) {
                (DiagnosticsItem::Number, _) => number(conditions.len() as i64),
                (DiagnosticsItem::RowCount, _) => (SqlType::bigint(), Datum::Int(self.env.row_count.get())),
                (DiagnosticsItem::Errno, Some(condition)) => number(i64::from(condition.code)),
                (DiagnosticsItem::State, Some(condition)) => text(&String::from_utf8_lossy(&condition.sqlstate)),
                (DiagnosticsItem::Message, Some(condition)) => text(&condition.message),
                _ => text(""),
            };
            self.assign(place, &Out::of(&ty), &value)?;
        }
        Ok(())
    }

    fn into(&mut self, query: FragmentId, places: &[Place]) -> Res<Done> {
        let table = self.host.rows(query, ROWS_OF_INTO)?;
        let outs = table.outs();
        if outs.len() != places.len() {
            return Err(errors::union_columns());
        }
        if table.cells.len() > outs.len() {
            return Err(errors::too_many_rows());
        }
        if table.cells.is_empty() {
            return Ok(Done::NoData);
        }
        for ((place, out), value) in places.iter().zip(outs).zip(&table.cells) {
            self.assign(place, out, value)?;
        }
        Ok(Done::Next)
    }

    fn fetch(&mut self, cursor: usize, places: &[Place]) -> Res<Done> {
        let mut open = self.cursors[cursor].take().ok_or_else(errors::cursor_not_open)?;
        let width = open.table.outs().len();
        let fetched = if width != places.len() {
            Err(errors::wrong_fetch_variables())
        } else if open.at >= open.table.cells.len() {
            Ok(Done::NoData)
        } else {
            let row = open.at..open.at + width;
            open.at += width;
            let mut values = places.iter().zip(open.table.outs()).zip(&open.table.cells[row]);
            values.try_for_each(|((place, out), value)| self.assign(place, out, value)).map(|()| Done::Next)
        };
        self.cursors[cursor] = Some(open);
        fetched
    }

    /// The next row of a FOR loop: into the fields that the program names.
    fn fetch_record(&mut self, record: usize, behind: usize) -> Res<Done> {
        let record = &self.code.records[record];
        let open = self.cursors[record.cursor].as_mut().ok_or_else(errors::cursor_not_open)?;
        let width = open.table.outs().len();
        if open.at >= open.table.cells.len() {
            return Ok(Done::Goto(behind));
        }
        let row = &open.table.cells[open.at..open.at + width];
        open.at += width;
        for (name, slot) in &record.fields {
            let Some(position) = open.table.position(name) else { continue };
            let Some(ty) = self.host.field_type(*slot) else { continue };
            let (out, value) = (&open.table.outs()[position], &row[position]);
            let value = match out.ty == ty {
                true => value.clone(),
                false => converted(self.env, &field(name, ty), (["", ""], 0), out, value)?,
            };
            self.env.set_local(*slot, value);
        }
        Ok(Done::Next)
    }

    /// SIGNAL and RESIGNAL: a warning, or an error.
    fn signal(&mut self, signal: &Signal) -> Res<()> {
        let message = signal.message.map(|message| self.text(message)).transpose()?.flatten();
        let number = match signal.number {
            Some(number) => {
                let given = self.number(number)?;
                let number = given.and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0);
                Some(number.ok_or_else(|| errors::wrong_signal_item("MYSQL_ERRNO", given.unwrap_or(0)))?)
            }
            None => None,
        };
        let handled = self.active.last().map(|active| &active.condition);
        if signal.resignals && handled.is_none() {
            return Err(errors::resignal_outside());
        }
        let error = match (&signal.condition, handled) {
            (Some(Condition::State(state)), before) => {
                let state = std::str::from_utf8(state).unwrap_or("45000");
                let before = before.filter(|_| signal.resignals);
                let message = message.or_else(|| before.map(|before| before.message.clone()));
                errors::signalled(state, number.or_else(|| before.map(|before| before.code)), message)
            }
            (_, Some(before)) => {
                let mut error = before.clone();
                error.code = number.unwrap_or(error.code);
                error.message = message.unwrap_or(error.message);
                error
            }
            (_, None) => return Err(errors::resignal_outside()),
        };
        if error.sqlstate.starts_with(b"01") {
            self.env.warn(error);
            return Ok(());
        }
        Err(error)
    }
}

/// Gives a place a value.
///
/// # Errors
/// As [`converted`]; 1054 for a column that NEW does not have, 1906 for a generated one.
pub(crate) fn assign(host: &impl Host, code: &Code, env: &Env, to: &Place, out: &Out, value: &Datum) -> Res<()> {
    let of_record;
    let (slot, column, [schema, table]) = match to {
        Place::User(name) => {
            env.set_user_variable(name, user_value(out, value));
            return Ok(());
        }
        Place::Local(slot) => match code.field_at(*slot) {
            None => (*slot, &code.variables[*slot], ["", ""]),
            Some((record, name)) => {
                let ty = host.field_type(*slot).ok_or_else(|| errors::no_such_field(&record.name, name))?;
                of_record = field(name, ty);
                (*slot, &of_record, ["", ""])
            }
        },
        Place::New(name) => host.column_of_new(name)?,
    };
    if column.generated.is_some() {
        let error = errors::generated_value(&column.name, table);
        if is_strict(env) && !env.ignoring.get() {
            return Err(error);
        }
        env.warn(error);
        return Ok(());
    }
    let value = converted(env, column, ([schema, table], 0), out, value)?;
    if value.is_null() && !column.nullable && matches!(to, Place::Local(_)) {
        return Err(errors::null_not_allowed(&column.name));
    }
    env.set_local(slot, value);
    Ok(())
}

/// A field of a record.
fn field(name: &str, ty: SqlType) -> Column {
    Column::variable(0, name, ty)
}

/// A value as a variable or a column keeps it; errors name its table and row.
///
/// # Errors
/// 1366 and its like, in strict mode.
pub(crate) fn converted(
    env: &Env,
    column: &Column,
    ([schema, table], row): ([&str; 2], usize),
    out: &Out,
    value: &Datum,
) -> Res<Datum> {
    let target = Target { schema, table, view: None, column, row, strict: is_strict(env) && !env.ignoring.get(), env };
    target.coerce(out.value_for(value.as_cell(), &column.ty))
}

/// Whether the session is strict about values.
fn is_strict(env: &Env) -> bool {
    env.sql_mode.get() & (sql_mode::STRICT_TRANS_TABLES | sql_mode::STRICT_ALL_TABLES) != 0
}

/// What a user variable is that gets a value.
pub(crate) fn user_value(out: &Out, value: &Datum) -> UserValue {
    let ty = match out.rep {
        _ if value.is_null() => SqlType::new(Base::Null),
        Rep::Int if !out.ty.zerofill => SqlType::bigint(),
        Rep::Uint if !out.ty.zerofill && out.ty.base != Base::Bit => SqlType::ubigint(),
        Rep::Real => SqlType::new(Base::Double),
        Rep::Dec => SqlType::decimal(PRECISION_MAX, out.ty.decimals),
        Rep::Blob => SqlType::new(Base::LongBlob),
        _ => {
            let mut text = Vec::new();
            out.write(value.as_cell(), &mut text);
            let collation = match out.ty.base.is_character() {
                true => out.ty.collation,
                false => Collation::DEFAULT,
            };
            let ty = SqlType::varchar(text.len() as u32, collation);
            return UserValue { value: Datum::Text(text.into()), ty };
        }
    };
    UserValue { value: value.clone(), ty }
}
