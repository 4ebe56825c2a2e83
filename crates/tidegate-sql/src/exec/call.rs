//! Stored functions, which SQLite calls while it runs the statement around them, and procedures that triggers and functions call.
//!
//! The statements of a function run beneath that one ([`crate::store::beneath`]), on its connection, in its snapshot or transaction. Plans know
//! beforehand what a function may write to ([`crate::translate::calls`]): a query that calls one which writes runs as a
//! writing statement does. The tables that it has changed are noted in the session, where that statement finds them.

use super::{
    bind::Constants,
    fire::BodyHost,
    program,
    write::{Res, Writer},
};
use crate::{
    env::{self, Env},
    errors,
    functions::abi::{self, Args, Out, Udf},
    store::{
        conn::{Conn, SqliteError},
        prepared::Prepared,
    },
    translate::{
        calls::{CallPlan, Called},
        params::Params,
        programs::Body,
    },
    value::{Datum, out},
};

/// `tg_call(number, argument, …)`: a call of a stored function.
static CALL: Udf = Udf::volatile("tg_call", -1, call);
/// The same for one that gives the same result for the same arguments, within a statement.
static CALL_SAME: Udf = Udf::lenient("tg_call_same", -1, call);

/// Makes what calls stored functions known to a connection.
///
/// # Errors
/// SQLite's, when it has no memory.
pub(crate) fn register(db: *mut libsqlite3_sys::sqlite3) -> Result<(), SqliteError> {
    abi::register(db, &CALL)?;
    abi::register(db, &CALL_SAME)
}

fn call(args: &Args<'_>, out: &mut Out) -> Res<()> {
    let called = Called::of(args.uint(0)).ok_or_else(|| errors::internal("a call that nobody knows"))?;
    let result = env::current(|env| out.within(|conn, stmts| returned(conn, stmts, env, &called, args)));
    out.datum(&result.ok_or_else(|| errors::internal("a stored function outside of a session"))??);
    Ok(())
}

/// What a function returns for these arguments.
fn returned(conn: &mut Conn, stmts: &mut Prepared, env: &Env, called: &Called, args: &Args<'_>) -> Res<Datum> {
    let body = &called.function()?.body;
    let engine = env.engine().ok_or_else(|| errors::internal("a stored function without its engine"))?;
    let constants = Constants { sql: b"", literals: &[], params: Params::NONE, env };
    let memory_max = engine.settings.statement_memory_max();
    let mut writer = Writer { memory_max, ..Writer::new(conn, constants, env, stmts) };
    let given = called.args.iter().enumerate().map(|(index, of)| (index, of, args.cell(index + 1).to_owned()));
    let ran = writer.run_body(body, given);
    env.touch(std::mem::take(&mut writer.touched));
    let mut frame = ran?;
    let result = body.code.result.and_then(|slot| frame.get_mut(slot));
    result.map(std::mem::take).ok_or_else(|| errors::internal("a function without a result"))
}

impl Writer<'_> {
    /// Runs a body with these values in its parameters; answers what its variables are in the end.
    fn run_body<'o>(
        &mut self,
        body: &Body,
        given: impl Iterator<Item = (usize, &'o out::Out, Datum)>,
    ) -> Res<Vec<Datum>> {
        let (env, code) = (self.env, &body.code);
        let outside = env.enter_program(vec![Datum::Null; code.variables.len()], body.sql_mode);
        let mut given = given;
        let taken = given.try_for_each(|(slot, of, value)| {
            env.set_local(slot, program::converted(env, &code.variables[slot], (["", ""], 1), of, &value)?);
            Ok(())
        });
        let ran = taken.and_then(|()| program::run(BodyHost { writer: self, body, to: None }, code, env));
        let frame = match code.result {
            Some(_) => env.leave_function(outside, ran.is_ok()),
            None => env.leave_program(outside, ran.is_ok()),
        };
        ran.map(|()| frame)
    }

    /// Runs a procedure that a trigger or function calls; answers the values of its OUT and INOUT parameters, each with its type, in
    /// their order.
    ///
    /// # Errors
    /// Those of the procedure, and of its arguments.
    pub(super) fn call_procedure(&mut self, plan: &CallPlan) -> Res<Vec<(out::Out, Datum)>> {
        let body = &plan.called.function()?.body;
        let values = self.collect_some(&plan.given, 1)?;
        let outs = &plan.given.outs;
        let given = plan.taken.iter().zip(outs).zip(values).map(|((slot, of), value)| (*slot, of, value));
        let mut frame = self.run_body(body, given)?;
        let places = plan.places.iter();
        let given_back = |(slot, _): &(usize, _)| {
            let value = frame.get_mut(*slot).map(std::mem::take).unwrap_or_default();
            (out::Out::of(&body.code.variables[*slot].ty), value)
        };
        Ok(places.map(given_back).collect())
    }
}
