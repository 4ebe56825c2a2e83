//! `ngx.timer.*`: functions that run later, on behalf of nobody's request.

use super::{Family, check_lua_function};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::scheduler::with_run;
use crate::stack::Lua;
use crate::timers::{self, Refusal};

pub(crate) static FAMILY: Family = Family {
    name: "timer",
    cdef: "",
    ffi: &[],
    functions: &[
        ("at", function(at)),
        ("every", function(every)),
        ("running_count", function(running_count)),
        ("pending_count", function(pending_count)),
    ],
};

/// `ngx.timer.at(delay, function, …)`
fn at(lua: &mut Lua) -> CResult {
    create(lua, false)
}

/// `ngx.timer.every(delay, function, …)`
fn every(lua: &mut Lua) -> CResult {
    create(lua, true)
}

fn create(lua: &mut Lua, repeat: bool) -> CResult {
    let count = lua.top();
    if count < 2 {
        return Err(LuaError::from(format!("expecting at least 2 arguments but got {count}")));
    }
    // Milliseconds, fractions cut off, as in nginx; negative delays are none.
    let delay_ms = (lua.check_number(1)? * 1000.0) as u64;
    if repeat && delay_ms == 0 {
        return Err(LuaError::new("delay cannot be zero"));
    }
    check_lua_function(lua, 2)?;
    let Some(context) = with_run(|run| (run.vm().clone(), run.host().clone(), run.phase())) else {
        return Err(LuaError::new("no request"));
    };
    let (vm, host, phase) = context;
    if matches!(phase, Phase::Init | Phase::WorkerThread) {
        return Err(LuaError::new("no request"));
    }
    Phases::except(&[Phase::ExitWorker]).check(phase)?;
    if let Err(refusal) = vm.timers.check(delay_ms) {
        lua.push_nil();
        lua.push_bytes(match refusal {
            Refusal::Exiting => b"process exiting",
            Refusal::TooManyPending => b"too many pending timers",
        });
        return Ok(2);
    }
    let thread = vm.take_thread()?;
    thread.coroutine().reserve(count)?;
    // The function and its arguments; the delay below them stays.
    lua.move_to(thread.coroutine(), count - 1);
    timers::launch(&vm, host.timer_host(), thread, delay_ms, repeat);
    lua.push_integer(1);
    Ok(1)
}

fn running_count(lua: &mut Lua) -> CResult {
    let count = with_run(|run| run.vm().timers.running()).unwrap_or(0);
    lua.push_integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(1)
}

fn pending_count(lua: &mut Lua) -> CResult {
    let count = with_run(|run| run.vm().timers.pending()).unwrap_or(0);
    lua.push_integer(i64::try_from(count).unwrap_or(i64::MAX));
    Ok(1)
}
