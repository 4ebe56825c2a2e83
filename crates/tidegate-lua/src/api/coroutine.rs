//! Which coroutines scripts must not resume, and what `coroutine.status` says of light threads.
//!
//! A mark in each of them ([`crate::mark`]) tells the coroutines that belong to the scheduler (entry threads, light threads)
//! and user coroutines while a wait runs through them. The Lua half asks for it before it resumes.

use mlua_sys as ffi;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::mark::{tidegate_lua_exchange, tidegate_lua_may_resume};
use crate::scheduler::with_run;
use crate::stack::{self, Lua};

pub(crate) static FAMILY: Family = Family {
    name: "coroutine",
    cdef: "",
    ffi: &[],
    functions: &[
        ("may_resume", tidegate_lua_may_resume),
        ("exchange", tidegate_lua_exchange),
        ("thread_status", function(thread_status)),
        ("note_failure", function(note_failure)),
        ("has_room", function(has_room)),
    ],
};

/// `thread_status(co)` for a guarded coroutine that LuaJIT calls suspended: it waits, or it ended and has results.
fn thread_status(lua: &mut Lua) -> CResult {
    let thread = lua.to_thread(1).ok_or(LuaError::argument(1, "coroutine expected"))?;
    let alive = with_run(|run| run.is_alive(thread)).unwrap_or(false) || thread.status() == ffi::LUA_YIELD;
    let status: &[u8] = match (alive, thread.top()) {
        (true, _) => b"running",
        (false, 0) => b"dead",
        (false, _) => b"zombie",
    };
    lua.push_bytes(status);
    Ok(1)
}

/// `has_room()`: whether the C stack has room for another coroutine, which runs on top of the one that resumes it.
fn has_room(lua: &mut Lua) -> CResult {
    lua.push_bool(stack::has_room());
    Ok(1)
}

/// `note_failure(co, error)`: the error of a wrapped coroutine goes on to its caller; a traceback will want its stack.
fn note_failure(lua: &mut Lua) -> CResult {
    if let (Some(thread), Some(message)) = (lua.to_thread(1), lua.to_bytes(2)) {
        with_run(|run| run.note_failure(thread, message));
    }
    Ok(0)
}
