//! `ngx.log` and `print`.

use std::ffi::{c_char, c_int};
use std::io::Write;
use std::mem::MaybeUninit;

use mlua_sys as ffi;
use mlua_sys::lua_Debug;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::{c_bytes, function};
use crate::host::LogLevel;
use crate::init_once;
use crate::scheduler::with_run;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family =
    Family { name: "log", cdef: "", ffi: &[], functions: &[("log", function(log)), ("print", function(print))] };

/// `ngx.log(level, …)`
fn log(lua: &mut Lua) -> CResult {
    let number = lua.check_integer(1)?;
    let level = match number {
        0 => Some(LogLevel::Stderr),
        _ => u8::try_from(number).ok().and_then(LogLevel::from_number),
    };
    let level = level.ok_or_else(|| LuaError::argument(1, format!("bad log level: {number}")))?;
    lua.remove(1);
    write(lua, level)
}

/// `print(…)`: `ngx.log(ngx.NOTICE, …)`
fn print(lua: &mut Lua) -> CResult {
    write(lua, LogLevel::Notice)
}

fn write(lua: &mut Lua, level: LogLevel) -> CResult {
    // The host outlives the call: its run is on the stack.
    let host = with_run(|run| run.host().clone()).filter(|host| host.logs(level) && !init_once::repeats());
    let Some(host) = host else { return Ok(0) };
    // Metamethods run here, and may raise: before there is anything to lose.
    let count = lua.top();
    for index in 1..=count {
        prepare(lua, index)?;
    }
    let mut line = b"[lua] ".to_vec();
    append_place(&mut line, lua);
    for index in 1..=count {
        append_value(&mut line, lua, index);
    }
    host.log(level, &line);
    Ok(0)
}

/// Turns the value at `index` into something that [`append_value`] knows, or refuses it.
fn prepare(lua: &mut Lua, index: c_int) -> Result<(), LuaError> {
    match lua.type_of(index) {
        Type::Number | Type::String | Type::Nil | Type::Boolean => Ok(()),
        Type::Table => {
            // SAFETY: a function called by Lua is a protected context.
            if unsafe { ffi::luaL_callmeta(lua.raw(), index, c"__tostring".as_ptr()) } == 0 {
                return Err(LuaError::argument(index, "expected table to have __tostring metamethod"));
            }
            // SAFETY: replaces the table by its text.
            unsafe { ffi::lua_replace(lua.raw(), index) };
            Ok(())
        }
        Type::LightUserdata if lua.to_userdata(index).is_null() => Ok(()),
        _ => {
            let reason = format!("string, number, boolean, or nil expected, got {}", lua.type_name(index));
            Err(LuaError::argument(index, reason))
        }
    }
}

fn append_value(line: &mut Vec<u8>, lua: &Lua, index: c_int) {
    match lua.type_of(index) {
        Type::Nil => line.extend_from_slice(b"nil"),
        Type::Boolean => line.extend_from_slice(if lua.to_bool(index) { b"true" } else { b"false" }),
        Type::LightUserdata => line.extend_from_slice(b"null"),
        _ => line.extend_from_slice(lua.to_bytes(index).unwrap_or_default()),
    }
}

/// `file.lua:12: name(): `, the place that logs.
fn append_place(line: &mut Vec<u8>, lua: &mut Lua) {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    // SAFETY: LuaJIT fills `debug` when level 1, the caller, exists.
    let debug = unsafe {
        if ffi::lua_getstack(lua.raw(), 1, debug.as_mut_ptr()) == 0 {
            return;
        }
        ffi::lua_getinfo(lua.raw(), c"Snl".as_ptr(), debug.as_mut_ptr());
        debug.assume_init_ref()
    };
    // SAFETY: short_src is a terminated array inside `debug`; the other texts are static or belong to live functions.
    let (source, what, name_what, name) = unsafe {
        (
            c_bytes(debug.short_src.as_ptr().cast::<c_char>()),
            c_bytes(debug.what),
            c_bytes(debug.namewhat),
            c_bytes(debug.name),
        )
    };
    let base = source.rsplit(|&byte| byte == b'/' || byte == b'\\').next().unwrap_or(source);
    line.extend_from_slice(base);
    let number = if debug.currentline > 0 { debug.currentline } else { debug.linedefined };
    let _ = write!(line, ":{number}: ");
    if !name_what.is_empty() && what.first() == Some(&b'L') {
        line.extend_from_slice(name);
        line.extend_from_slice(b"(): ");
    }
}
