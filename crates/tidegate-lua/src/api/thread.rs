//! `ngx.thread.*`: light threads.
//!
//! Results of a thread that ended stand on its own stack, so that the thread needs no record: what nobody waits for is
//! garbage with the coroutine object. Its mark ([`crate::mark`]) says which coroutine spawned it.

use super::{Family, check_lua_function};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::scheduler::{Run, with_run};
use crate::settings;
use crate::stack::{Coroutine, Lua, Ref};

pub(crate) static FAMILY: Family = Family {
    name: "thread",
    cdef: "",
    ffi: &[],
    functions: &[
        ("spawn", function(spawn)),
        ("wait", function(wait)),
        ("kill", function(kill)),
        ("on_abort", function(on_abort)),
    ],
};

/// Light threads that a script has at a time, beside its entry thread.
const LIGHT_THREADS_MAX: usize = 16384;

fn in_run(lua: &mut Lua, body: impl FnOnce(&Run, &mut Lua) -> CResult) -> CResult {
    with_run(|run| {
        Phases::YIELDABLE.check(run.phase())?;
        if !lua.is_yieldable() {
            return Err(LuaError::new("attempt to yield across C-call boundary"));
        }
        body(run, lua)
    })
    .unwrap_or(Err(LuaError::new("no request found")))
}

/// `spawn(function, …)`: the new light thread. The Lua half awaits next: the new one runs first.
fn spawn(lua: &mut Lua) -> CResult {
    check_lua_function(lua, 1)?;
    in_run(lua, |run, lua| {
        if run.light_thread_count() >= LIGHT_THREADS_MAX {
            return Err(LuaError::new("too many light threads"));
        }
        let count = lua.top();
        let (thread, anchor) = prepare(lua)?;
        run.spawn(thread, anchor, count - 1, lua.coroutine());
        Ok(1)
    })
}

/// Moves the function and its arguments from the stack to a new coroutine, which takes their place.
fn prepare(lua: &mut Lua) -> Result<(Coroutine, Ref), LuaError> {
    let count = lua.top();
    lua.reserve(8)?;
    let thread = lua.push_new_thread();
    thread.reserve(count)?;
    thread.mark_scheduled(Some(lua.coroutine()));
    lua.push_value(-1);
    let anchor = lua.make_ref();
    lua.insert(1);
    lua.move_to(thread, count);
    Ok((thread, anchor))
}

/// `ngx.on_abort(function)`: 1, or nil and why not.
fn on_abort(lua: &mut Lua) -> CResult {
    with_run(|run| {
        if run.request().is_none() {
            ABORTABLE.check(run.phase())?;
        }
        let req = run.any_request()?;
        if req.module_conf(&settings::MODULE).lua_check_client_abort != Some(true) {
            return refuse(lua, b"lua_check_client_abort is off");
        }
        ABORTABLE.check(run.phase())?;
        check_lua_function(lua, 1)?;
        lua.set_top(1);
        let (thread, anchor) = prepare(lua)?;
        if !run.set_on_abort(thread, anchor, lua.coroutine()) {
            lua.coroutine().unref(anchor);
            return refuse(lua, b"duplicate call");
        }
        lua.push_integer(1);
        Ok(1)
    })
    .unwrap_or(Err(LuaError::new("no request found")))
}

/// `nil` and why not.
fn refuse(lua: &mut Lua, reason: &[u8]) -> CResult {
    lua.push_nil();
    lua.push_bytes(reason);
    Ok(2)
}

/// Where `ngx.on_abort` may be called.
const ABORTABLE: Phases = Phases::of(&[Phase::Rewrite, Phase::Access, Phase::Precontent, Phase::Content]);

/// `wait(thread, …)`: the results of the first that ended; nothing when all run and the Lua half is to await.
fn wait(lua: &mut Lua) -> CResult {
    in_run(lua, |run, lua| {
        let count = lua.top();
        if count == 0 {
            return Err(LuaError::new("at least one coroutine should be specified"));
        }
        lua.reserve(4)?;
        let mut waited = Vec::new();
        for index in 1..=count {
            let Some(thread) = lua.to_thread(index) else {
                return Err(LuaError::argument(index, "lua thread expected"));
            };
            match thread.is_child_of(lua.coroutine()) {
                None => return Err(LuaError::new("attempt to wait on a coroutine that is not a user thread")),
                Some(false) => return Err(LuaError::new("only the parent coroutine can wait on the thread")),
                Some(true) => {}
            }
            if run.is_alive(thread) {
                waited.push(thread);
                continue;
            }
            lua.reserve(thread.top())?;
            let results = lua.take(thread);
            if results > 0 {
                return Ok(results);
            }
            if index == count && waited.is_empty() {
                lua.push_nil();
                lua.push_bytes(b"already waited or killed");
                return Ok(2);
            }
        }
        run.wait_threads(lua, waited)?;
        Ok(0)
    })
}

/// `kill(thread)`: 1, or nil and why not.
fn kill(lua: &mut Lua) -> CResult {
    let Some(thread) = lua.to_thread(1) else { return Err(LuaError::argument(1, "lua thread expected")) };
    let Some(killed) = with_run(|run| -> Result<Option<&str>, LuaError> {
        Phases::YIELDABLE.check(run.phase())?;
        match thread.is_child_of(lua.coroutine()) {
            None => Ok(Some("not user thread")),
            Some(false) => Ok(Some("killer not parent")),
            Some(true) => Ok(if run.kill(thread) {
                None
            } else if thread.top() > 0 {
                thread.reset();
                Some("already terminated")
            } else {
                Some("already waited or killed")
            }),
        }
    }) else {
        return Err(LuaError::new("no request found"));
    };
    match killed? {
        Some(reason) => refuse(lua, reason.as_bytes()),
        None => {
            lua.push_integer(1);
            Ok(1)
        }
    }
}
