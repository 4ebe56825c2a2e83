//! Statements and their results.

use std::ffi::c_int;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_mysql::Conn;
use tidegate_rows::{Param, QueryError};

use super::argument;
use super::connect::timeouts;
use super::db::{Busy, Call, Db, Operation, State, call};
use super::embedded::{self, Wanted};
use super::link::{Backend, Link};
use super::refusal::{Doing, Refusal};
use crate::error::{CResult, Failure, LuaError};
use crate::host::Host;
use crate::rows::{Built, ROWS_HINT_DEFAULT, ROWS_HINT_MAX, Shape, TableSink, Tables, building};
use crate::scheduler::{Answer, with_run};
use crate::socket::push_nil_error;
use crate::stack::{Lua, Type};
use crate::vm::Vm;

/// What a command of one frame needs beside its text: the frame's head and the command's number.
const COMMAND_EXTRA: usize = 5;

/// A statement that may begin: its session, taken out of the object (M1).
pub(super) struct Begun {
    pub(super) db: Rc<Db>,
    pub(super) host: Host,
    pub(super) link: Link,
    pub(super) vm: Rc<Vm>,
    /// Longest time of each wait.
    pub(super) limit: Duration,
}

/// The forms in which a statement runs.
pub(super) enum Command {
    Text(Vec<u8>),
    Prepared(Vec<u8>, Vec<Param>),
}

impl Command {
    /// The text, and the parameters that travel beside it.
    pub(super) fn parts(&self) -> (&[u8], &[Param]) {
        match self {
            Self::Text(sql) => (sql, &[]),
            Self::Prepared(sql, params) => (sql, params),
        }
    }
}

/// Demands that a statement may begin, or says why not, with `prefix` in front.
fn begin(lua: &mut Lua, prefix: &str) -> Result<Result<Begun, c_int>, LuaError> {
    let Call { db, host } = call(lua)?;
    let mut refuse = |message: &str| push_nil_error(lua, &format!("{prefix}{message}")).map(Err);
    if db.state.get() != State::Connected {
        return refuse(&format!("cannot send query in the current context: {}", db.state.get().as_str()));
    }
    if let Some(operation) = db.busy() {
        return refuse(operation.busy());
    }
    if db.is_open() {
        db.check_owner(&host)?;
    }
    let vm = with_run(|run| run.vm().clone()).ok_or(LuaError::new("no request found"))?;
    let limit = db.limit(&host);
    match db.take_link() {
        Some(link) => Ok(Ok(Begun { db, host, link, vm, limit })),
        None => refuse("closed"),
    }
}

/// The shape of tables: `nrows` and `compact` at these indexes.
fn shape(lua: &mut Lua, rows: c_int, compact: c_int, db: &Db) -> Shape {
    let hint = lua.to_number(rows).map_or(ROWS_HINT_DEFAULT, |rows| (rows as c_int).clamp(0, ROWS_HINT_MAX));
    Shape { compact: lua.to_bool(compact), rows_hint: hint, integers: db.integers.get(), ..Shape::default() }
}

pub(super) fn wait(lua: &mut Lua, future: impl Future<Output = Answer> + 'static) -> CResult {
    let future = Box::pin(future);
    with_run(|run| run.wait_boxed(lua, future)).unwrap_or(Err(LuaError::new("no request found"))).map(|()| 0)
}

/// `send_query(handle, sql, compact?)`: the count of bytes sent.
///
/// The embedded engine runs the statement now: its results follow the count, for the Lua half to keep.
pub(super) fn send_query(lua: &mut Lua) -> CResult {
    let sql = argument::sql(lua, 2)?;
    let begun = match begin(lua, "")? {
        Ok(begun) => begun,
        Err(count) => return Ok(count),
    };
    let bytes = sql.len() + COMMAND_EXTRA;
    match begun.link.backend {
        Backend::Server(_) => {
            let busy = begun.db.occupy(Operation::Write);
            wait(lua, send(begun, sql, bytes, busy))
        }
        Backend::Embedded(_) => {
            let shape = Shape { compact: lua.to_bool(3), integers: begun.db.integers.get(), ..Shape::default() };
            embedded::run(lua, begun, Command::Text(sql), shape, Wanted::Bytes(bytes))
        }
    }
}

async fn send(begun: Begun, sql: Vec<u8>, bytes: usize, busy: Busy) -> Answer {
    let Begun { db, host, mut link, limit, .. } = begun;
    let Backend::Server(conn) = &mut link.backend else { return Answer::NilError("closed".into()) };
    conn.set_timeouts(timeouts(limit));
    let sent = conn.send_query(&sql).await;
    drop(busy);
    match sent {
        Ok(()) => {
            db.state.set(State::CommandSent);
            db.put_back(link);
            Answer::Push(Box::new(move |lua| {
                lua.push_integer(i64::try_from(bytes).unwrap_or(i64::MAX));
                Ok(1)
            }))
        }
        Err(error) => refused(Refusal::logged(error, Doing::Sending, &host)),
    }
}

pub(super) fn refused(refusal: Refusal) -> Answer {
    Answer::Push(Box::new(move |lua| refusal.push(lua)))
}

/// `query(handle, sql, params | nil, nrows?, compact?)`: the first result. With a table of parameters the statement is
/// prepared, once for each connection, and the parameters travel beside it.
pub(super) fn query(lua: &mut Lua) -> CResult {
    let sql = argument::sql(lua, 2)?;
    let command = match lua.type_of(3) {
        Type::Table => Command::Prepared(sql, argument::params(lua, 3)?),
        _ => Command::Text(sql),
    };
    let begun = match begin(lua, "failed to send query: ")? {
        Ok(begun) => begun,
        Err(count) => return Ok(count),
    };
    let shape = shape(lua, 4, 5, &begun.db);
    match begun.link.backend {
        Backend::Server(_) => {
            begun.db.state.set(State::CommandSent);
            let busy = begun.db.occupy(Operation::Read);
            wait(lua, run(begun, Some(command), shape, busy))
        }
        Backend::Embedded(_) => embedded::run(lua, begun, command, shape, Wanted::First),
    }
}

/// `read_result(handle, nrows?, compact?)`: the next result.
pub(super) fn read_result(lua: &mut Lua) -> CResult {
    let Call { db, host } = call(lua)?;
    if db.state.get() != State::CommandSent {
        let state = db.state.get().as_str();
        return push_nil_error(lua, &format!("cannot read result in the current context: {state}"));
    }
    if let Some(operation) = db.busy() {
        return push_nil_error(lua, &format!("failed to receive packet header: {}", operation.busy()));
    }
    if db.is_open() {
        db.check_owner(&host)?;
    }
    let vm = with_run(|run| run.vm().clone()).ok_or(LuaError::new("no request found"))?;
    let limit = db.limit(&host);
    let Some(link) = db.take_link() else {
        return push_nil_error(lua, "failed to receive packet header: closed");
    };
    let shape = shape(lua, 2, 3, &db);
    let busy = db.occupy(Operation::Read);
    wait(lua, run(Begun { db, host, link, vm, limit }, None, shape, busy))
}

/// Sends a command, if there is one, and reads a result.
async fn run(begun: Begun, command: Option<Command>, shape: Shape, busy: Busy) -> Answer {
    let Begun { db, host, mut link, vm, limit } = begun;
    let tables = Tables::new(vm);
    let mut sink = TableSink::new(tables.clone(), shape);
    let began = Instant::now();
    let read = {
        let Backend::Server(conn) = &mut link.backend else { return Answer::NilError("closed".into()) };
        conn.set_timeouts(timeouts(limit));
        building(&tables, Box::pin(one_result(conn, command, &mut sink))).await
    };
    drop(busy);
    let read = match read {
        Ok(read) => read,
        Err(failure) => return failed(failure),
    };
    link.note_statement(began.elapsed(), read.is_err());
    let Backend::Server(conn) = &link.backend else { return Answer::NilError("closed".into()) };
    if conn.has_more_results() {
        db.put_back(link);
    } else if conn.is_idle() {
        db.state.set(State::Connected);
        db.put_back(link);
    }
    match read {
        Err((error, doing)) => refused(Refusal::logged(error, doing, &host)),
        Ok(()) if tables.is_too_wide() => refused(TOO_WIDE.into()),
        Ok(()) => first_of(tables.take_built()),
    }
}

/// What is said of a result that Lua has no room for.
pub(super) const TOO_WIDE: &str = "the result has too many columns";

async fn one_result(
    conn: &mut Conn,
    command: Option<Command>,
    sink: &mut TableSink,
) -> Result<(), (QueryError, Doing)> {
    match command {
        None => {}
        Some(Command::Text(sql)) => conn.send_query(&sql).await.map_err(|error| (error, Doing::Querying))?,
        Some(Command::Prepared(sql, params)) => {
            return conn.query_prepared(&sql, &params, sink).await.map_err(|error| (error, Doing::Reading));
        }
    }
    conn.read_result(sink).await.map_err(|error| (error, Doing::Reading))
}

/// A want of memory while a result was being built.
#[cold]
pub(super) fn failed(failure: Failure) -> Answer {
    Answer::Push(Box::new(move |_| Err(LuaError::Bare(failure.message))))
}

/// The first of the results: `res, "again" | nil`.
fn first_of(built: Vec<Built>) -> Answer {
    Answer::Push(Box::new(move |lua| match built.first() {
        Some(first) => Ok(push_result(lua, first)),
        None => push_nil_error(lua, "no result"),
    }))
}

/// Pushes a result and, unless it is the last one, `"again"`; gives the count of values.
pub(super) fn push_result(lua: &mut Lua, built: &Built) -> c_int {
    built.table.push(lua);
    if !built.more {
        return 1;
    }
    lua.push_bytes(b"again");
    2
}

/// `prepare(handle, sql)`: how many parameters the statement takes; `true` where only running it tells.
pub(super) fn prepare(lua: &mut Lua) -> CResult {
    let sql = argument::sql(lua, 2)?;
    let begun = match begin(lua, "")? {
        Ok(begun) => begun,
        Err(count) => return Ok(count),
    };
    if let Backend::Embedded(_) = begun.link.backend {
        begun.db.put_back(begun.link);
        lua.push_bool(true);
        return Ok(1);
    }
    let busy = begun.db.occupy(Operation::Read);
    wait(lua, prepare_on_server(begun, sql, busy))
}

async fn prepare_on_server(begun: Begun, sql: Vec<u8>, busy: Busy) -> Answer {
    let Begun { db, host, mut link, limit, .. } = begun;
    let Backend::Server(conn) = &mut link.backend else { return Answer::NilError("closed".into()) };
    conn.set_timeouts(timeouts(limit));
    let prepared = conn.prepare_statement(&sql).await;
    drop(busy);
    if conn.is_idle() {
        db.put_back(link);
    }
    match prepared {
        Ok(params) => Answer::Push(Box::new(move |lua| {
            lua.push_integer(i64::from(params));
            Ok(1)
        })),
        Err(error) => refused(Refusal::logged(error, Doing::Reading, &host)),
    }
}

/// `forget(handle, sql)`: a prepared statement is not needed any more.
pub(super) fn forget(lua: &mut Lua) -> CResult {
    let Call { db, .. } = call(lua)?;
    db.forget_statement(&argument::sql(lua, 2)?);
    Ok(0)
}

/// `results_read(handle)`: the Lua half has given the last of the results that it kept.
pub(super) fn results_read(lua: &mut Lua) -> CResult {
    let Call { db, .. } = call(lua)?;
    if db.state.get() == State::CommandSent && db.busy().is_none() && db.is_open() {
        db.state.set(State::Connected);
    }
    Ok(0)
}
