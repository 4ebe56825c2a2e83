//! What every family's Lua half builds on: the phase, error messages of FFI functions, the answer of a wait.

use std::ffi::c_int;

use super::Family;
use super::compiled::ffi_functions;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "base",
    cdef: "typedef struct { const uint8_t *data; size_t len; } tg_str;",
    ffi: ffi_functions! {
        phase as "phase": () -> c_int,
    },
    functions: &[
        ("collect", function(collect)),
        ("message", function(super::take_ffi_error)),
        ("raise", function(super::raise_ffi_error)),
        ("fail", function(fail)),
    ],
};

/// The number of the running phase; 0 outside of any run.
fn phase() -> c_int {
    with_run(|run| run.phase() as c_int).unwrap_or(0)
}

/// `collect()`: the results of the wait that just ended.
fn collect(lua: &mut Lua) -> CResult {
    let Some(answer) = with_run(|run| run.take_answer()) else { return Ok(0) };
    let thread = if let Answer::Thread(thread) = &answer { Some(*thread) } else { None };
    let results = answer.push(lua);
    if let Some(thread) = thread {
        with_run(|run| run.release(thread));
    }
    results
}

/// `fail(message)`: raises an error at the place of the script that called the API function.
fn fail(lua: &mut Lua) -> CResult {
    let message = String::from_utf8_lossy(lua.check_bytes(1)?).into_owned();
    Err(LuaError::from(message))
}
