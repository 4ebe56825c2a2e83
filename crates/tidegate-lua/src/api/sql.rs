//! The Rust half of `require "tidegate.sql"` (`lualib/tidegate/api/sql.lua`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Family;
use super::sleep::let_others_run;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phases;
use crate::scheduler::{Answer, with_run};
use crate::socket::{Closing, OpenSockets};
use crate::sql::{
    self, Failed, Job, Place, changes, default_schema, engine, link, link::Link, params, stream, stream::Stream,
};
use crate::stack::{Lua, Type};
use crate::userdata::{check_userdata, push_userdata, to_userdata};
use crate::vm::Vm;

pub(crate) static FAMILY: Family = Family {
    name: "sql",
    cdef: "",
    ffi: &[],
    functions: &[
        ("query", function(query)),
        ("exec", function(exec)),
        ("open", function(open)),
        ("is_open", function(is_open)),
        ("is_closed", function(is_closed)),
        ("close", function(close)),
        ("rows", function(rows)),
        ("next", function(next)),
        ("columns", function(columns)),
        ("version", function(version)),
        ("changes", function(changes)),
        ("next_change", function(next_change)),
        ("default_schema", function(push_default_schema)),
    ],
};

/// Reads `place, watch, statement, parameters…`; a place is a transaction or the name of a schema.
fn job(lua: &mut Lua) -> Result<Job, LuaError> {
    let place = match to_userdata::<link::Handle>(lua, 1) {
        Some(handle) => Place::Link(Rc::clone(&handle.0)),
        None => Place::Schema(String::from_utf8_lossy(lua.check_bytes(1)?).into_owned()),
    };
    let watch = lua.to_bool(2);
    if lua.type_of(3) != Type::String {
        let kind = lua.type_name(3);
        return Err(LuaError::from(format!("bad statement (string expected, got {kind})")));
    }
    let sql = lua.check_bytes(3)?.to_vec();
    Ok(Job { place, sql, params: params(lua, 4)?, watch })
}

/// Demands that the script may wait here: a statement may have to, whatever it is.
fn check_wait(lua: &mut Lua) -> Result<(), LuaError> {
    with_run(|run| Phases::YIELDABLE.check(run.phase())).unwrap_or(Err(LuaError::new("no request found")))?;
    if lua.is_yieldable() { Ok(()) } else { Err(LuaError::new("attempt to yield across C-call boundary")) }
}

/// Answers at once where the statement needs no wait, or has the Lua half await.
fn settle<T: 'static>(
    lua: &mut Lua,
    mut future: Pin<Box<dyn Future<Output = Result<T, Failed>>>>,
    push: impl FnOnce(&T, &mut Lua) -> CResult + 'static,
) -> CResult {
    let give = move |lua: &mut Lua, ended: Result<T, Failed>| match ended {
        Ok(ended) => push(&ended, lua),
        Err(failed) => failed.push(lua),
    };
    if let Poll::Ready(ended) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return give(lua, ended);
    }
    wait(lua, async move {
        let ended = future.await;
        Answer::Push(Box::new(move |lua| give(lua, ended)))
    })
}

/// The machine of the script that runs.
fn vm() -> Result<Rc<Vm>, LuaError> {
    with_run(|run| run.vm().clone()).ok_or(LuaError::new("no request found"))
}

fn wait(lua: &mut Lua, future: impl Future<Output = Answer> + 'static) -> CResult {
    with_run(|run| run.wait(lua, future)).unwrap_or(Err(LuaError::new("no request found")))?;
    Ok(0)
}

/// `query(place, watch, statement, …)`: rows, and with `watch` what was read; or nothing when the Lua half is to await.
fn query(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let job = job(lua)?;
    let watch = job.watch;
    settle(lua, Box::pin(sql::query(job, vm()?)), move |rows, lua| rows.push(lua, watch))
}

/// `exec(place, watch, statement, …)`: what the statement did, value by value, as `query` otherwise.
fn exec(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let job = job(lua)?;
    let watch = job.watch;
    settle(lua, Box::pin(sql::exec(job)), move |done, lua| done.push(lua, watch))
}

/// Has something closed at the end of the request or timer.
fn own(closing: &Rc<impl Closing + 'static>) {
    let closing = Rc::downgrade(closing);
    with_run(|run| OpenSockets::of(run.host()).add(closing));
}

/// `open(schema)`: a session for a transaction.
fn open(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let schema = String::from_utf8_lossy(lua.check_bytes(1)?).into_owned();
    match Link::open(&schema) {
        Ok(link) => {
            own(&link);
            push_userdata(lua, link::Handle(link));
            Ok(1)
        }
        Err(refusal) => Ok(refusal.push(lua)),
    }
}

/// `is_open(transaction)`: whether it can still be committed.
fn is_open(lua: &mut Lua) -> CResult {
    let open = check_userdata::<link::Handle>(lua, 1)?.0.is_open();
    lua.push_bool(open);
    Ok(1)
}

/// `is_closed(transaction)`: whether it was committed, rolled back, or left with its request.
fn is_closed(lua: &mut Lua) -> CResult {
    let closed = check_userdata::<link::Handle>(lua, 1)?.0.is_closed();
    lua.push_bool(closed);
    Ok(1)
}

/// `close(transaction, rows or changes)`: rolls back, ends the statement, or listens no more.
fn close(lua: &mut Lua) -> CResult {
    if let Some(handle) = to_userdata::<changes::Handle>(lua, 1) {
        handle.0.close_now();
    } else if let Some(handle) = to_userdata::<stream::Handle>(lua, 1) {
        handle.0.close_now();
    } else {
        check_userdata::<link::Handle>(lua, 1)?.0.close_now();
    }
    Ok(0)
}

/// `rows(place, false, statement, …)`: a stream whose columns are known, or the error; or nothing when the Lua half is
/// to await.
fn rows(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let stream = match Stream::new(job(lua)?, vm()?) {
        Ok(stream) => stream,
        Err(refusal) => return Ok(refusal.push(lua)),
    };
    own(&stream);
    let give = |lua: &mut Lua, stream: Rc<Stream>| match stream.take_early_failure() {
        Some(refusal) => Ok(refusal.push(lua)),
        None => {
            push_userdata(lua, stream::Handle(stream));
            Ok(1)
        }
    };
    if stream.poll_begin(&mut Context::from_waker(Waker::noop())).is_ready() {
        return give(lua, stream);
    }
    wait(lua, async move {
        poll_fn(|cx| stream.poll_begin(cx)).await;
        Answer::Push(Box::new(move |lua| give(lua, stream)))
    })
}

/// `next(rows)`: a row, `nil` at the end, `nil` and the error; or nothing when the Lua half is to await.
fn next(lua: &mut Lua) -> CResult {
    let stream = check_userdata::<stream::Handle>(lua, 1)?.0;
    let yields = stream.has_used_its_slice();
    if !yields && stream.poll_row(&mut Context::from_waker(Waker::noop())).is_ready() {
        return stream.push_next(lua);
    }
    wait(lua, async move {
        if yields {
            let_others_run().await;
        }
        poll_fn(|cx| stream.poll_row(cx)).await;
        Answer::Push(Box::new(move |lua| stream.push_next(lua)))
    })
}

/// `columns(rows)`: a list of names.
fn columns(lua: &mut Lua) -> CResult {
    check_userdata::<stream::Handle>(lua, 1)?.0.push_columns(lua)
}

/// `version(schema, table, true or nothing)`: the number of the table's last commit; of one that is not there that of its
/// schema's newest commit, or nil without `true`.
fn version(lua: &mut Lua) -> CResult {
    let schema = String::from_utf8_lossy(lua.check_bytes(1)?).into_owned();
    let table = String::from_utf8_lossy(lua.check_bytes(2)?).into_owned();
    let or_newest = lua.type_of(3) == Type::Boolean;
    match engine() {
        Ok(engine) => {
            match engine.table_version(&schema, &table).or_else(|| engine.newest_commit(&schema).filter(|_| or_newest))
            {
                Some(version) => lua.push_number(version as f64),
                None => lua.push_nil(),
            }
        }
        Err(refusal) => return Ok(refusal.push(lua)),
    }
    Ok(1)
}

/// `changes(schema, after or nil, whether keys are wanted, table…)`: what hears of commits, or the error.
fn changes(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let schema = String::from_utf8_lossy(lua.check_bytes(1)?).into_owned();
    let after = if lua.type_of(2) == Type::Nil { None } else { Some(lua.check_number(2)? as u64) };
    let mut tables = Vec::new();
    for index in 4..=lua.top() {
        tables.push(String::from_utf8_lossy(lua.check_bytes(index)?).into_owned());
    }
    let wanted = changes::Wanted { tables, keys: lua.to_bool(3) };
    match changes::Changes::new(&schema, wanted, after) {
        Ok(changes) => {
            own(&changes);
            push_userdata(lua, changes::Handle(changes));
            Ok(1)
        }
        Err(refusal) => Ok(refusal.push(lua)),
    }
}

/// `next_change(changes, seconds or nil)`: a commit as [`changes::Next::push`] gives it; or nothing when the Lua half is to
/// await.
fn next_change(lua: &mut Lua) -> CResult {
    check_wait(lua)?;
    let changes = check_userdata::<changes::Handle>(lua, 1)?.0;
    let time = match lua.type_of(2) {
        Type::Nil => None,
        _ => Some(Duration::try_from_secs_f64(lua.check_number(2)?.max(0.0)).unwrap_or(Duration::MAX)),
    };
    let mut next = Box::pin(changes.next(time));
    if let Poll::Ready(next) = next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return next.push(lua);
    }
    wait(lua, async move {
        let next = next.await;
        Answer::Push(Box::new(move |lua| next.push(lua)))
    })
}

/// `default_schema()`: the first schema of the `database` block, empty if it names none.
fn push_default_schema(lua: &mut Lua) -> CResult {
    lua.push_bytes(default_schema().as_bytes());
    Ok(1)
}
