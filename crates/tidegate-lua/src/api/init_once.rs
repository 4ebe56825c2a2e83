//! The Rust half of what `init_by_lua*` does once (`crate::init_once`).

use std::ffi::{c_int, c_void};

use super::{Family, push_registry};
use crate::error::{CResult, Failure, LuaError};
use crate::function::function;
use crate::init_once;
use crate::portable::Value;
use crate::stack::{Coroutine, Lua};

pub(crate) static FAMILY: Family = Family {
    name: "init_once",
    cdef: "",
    ffi: &[],
    functions: &[
        ("keep", function(keep)),
        ("recall", function(recall)),
        ("hold_clock", function(hold_clock)),
        ("set_switch", function(set_switch)),
    ],
};

/// The part that this run of `init_by_lua*` has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `init_by_lua*` has ended.
    Over = 0,
    /// The first worker: what the script does, happens.
    First = 1,
    /// Another worker: it hears what the first one heard.
    Repeat = 2,
}

/// Tells the Lua half in the machine of the main state `main`.
///
/// # Errors
/// When it fails, which would be a bug.
pub(crate) fn switch(main: Coroutine, mode: Mode) -> Result<(), Failure> {
    let mut result = Ok(());
    // SAFETY: the body uses its own stack only.
    unsafe { main.lua() }.protect(|lua| {
        lua.reserve(4)?;
        push_registry(lua, switch_key());
        lua.push_integer(mode as i64);
        result = lua.call(1, 0);
        Ok(())
    })?;
    result
}

/// `set_switch(function)`: the function that [`switch`] calls.
fn set_switch(lua: &mut Lua) -> CResult {
    lua.set_top(1);
    lua.push_light(switch_key());
    lua.insert(1);
    lua.raw_set(mlua_sys::LUA_REGISTRYINDEX);
    Ok(0)
}

fn switch_key() -> *const c_void {
    static KEY: u8 = 0;
    (&raw const KEY).cast()
}

fn function_number(lua: &mut Lua) -> Result<u32, LuaError> {
    Ok(u32::try_from(lua.check_integer(1)?).unwrap_or(u32::MAX))
}

/// `keep(function, …)`: keeps the results of a call.
fn keep(lua: &mut Lua) -> CResult {
    let number = function_number(lua)?;
    let results = (2..=lua.top()).map(|index| Value::copy(lua, index)).collect::<Result<Vec<_>, _>>();
    if let Ok(results) = results {
        init_once::keep(number, results);
    }
    Ok(0)
}

/// `recall(function)`: true and the results of the same call in the first run; false when there was none.
fn recall(lua: &mut Lua) -> CResult {
    let results = init_once::recall(function_number(lua)?);
    lua.push_bool(results.is_some());
    let results = results.unwrap_or_default();
    let count = c_int::try_from(results.len()).unwrap_or(0);
    lua.reserve(count)?;
    for value in &results {
        value.push(lua)?;
    }
    Ok(count + 1)
}

/// `hold_clock(ms)`: the worker's clock shows this time until it is read again.
fn hold_clock(lua: &mut Lua) -> CResult {
    // The cast saturates.
    tidegate_net::clock::hold(lua.check_number(1)? as u64);
    Ok(0)
}
