//! `ngx.errlog`: lines of the error log that were captured, and lines of one's own.

use std::ffi::c_int;

use tidegate_core::error_log;
use tidegate_net::log::{self, capture};

use super::Family;
use super::compiled::ffi_functions;
use crate::error::CResult;
use crate::function::function;
use crate::host::{Detached, LogLevel};
use crate::scheduler::with_run;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "errlog",
    cdef: "",
    ffi: ffi_functions! {
        raw_log as "raw_log": (c_int, Bytes) -> bool,
    },
    functions: &[
        ("set_filter_level", function(set_filter_level)),
        ("get_logs", function(get_logs)),
        ("get_sys_filter_level", function(get_sys_filter_level)),
    ],
};

fn refuse(lua: &mut Lua, reason: &str) -> CResult {
    lua.push_nil();
    lua.push_bytes(reason.as_bytes());
    Ok(2)
}

const NOT_SET: &str = "directive \"lua_capture_error_log\" is not set";

/// The level with a number as scripts have it.
fn level_of(number: i64) -> Option<LogLevel> {
    match number {
        // ngx.STDERR; the worst level is the nearest that files have.
        0 => Some(LogLevel::Emerg),
        _ => u8::try_from(number).ok().and_then(LogLevel::from_number),
    }
}

/// `set_filter_level(level)`
fn set_filter_level(lua: &mut Lua) -> CResult {
    if lua.is_none_or_nil(1) || (lua.type_of(1) == Type::Boolean && !lua.to_bool(1)) {
        return refuse(lua, "missing \"level\" argument");
    }
    let number = lua.check_integer(1)?;
    if !capture::is_installed() {
        return refuse(lua, NOT_SET);
    }
    let Some(level) = level_of(number) else { return refuse(lua, &format!("bad log level: {number}")) };
    capture::set_filter(level);
    lua.push_bool(true);
    Ok(1)
}

/// `get_logs(max, table)`: the table with level, time and line of each, the oldest first; taken out of the buffer.
fn get_logs(lua: &mut Lua) -> CResult {
    let max = lua.opt_number(1, 10.0)? as u32;
    lua.set_top(2);
    if lua.type_of(2) != Type::Table {
        lua.push_table(30, 0);
        lua.insert(2);
        lua.set_top(2);
    }
    if !capture::is_installed() {
        return refuse(lua, NOT_SET);
    }
    let mut count = 0;
    for _ in 0..max {
        let Some(entry) = capture::take() else { break };
        lua.push_integer(entry.level.number().into());
        lua.raw_set_index(2, count + 1);
        lua.push_number(entry.time_ms as f64 / 1000.0);
        lua.raw_set_index(2, count + 2);
        lua.push_bytes(&entry.line);
        lua.raw_set_index(2, count + 3);
        count += 3;
    }
    lua.push_nil();
    lua.raw_set_index(2, count + 1);
    Ok(1)
}

/// `get_sys_filter_level()`: the level of the error log that lines from here go to.
fn get_sys_filter_level(lua: &mut Lua) -> CResult {
    let of_request = with_run(|run| run.request().and_then(|req| error_log::level(req))).flatten();
    let level = of_request.or_else(|| log::main().level()).unwrap_or(LogLevel::Error);
    lua.push_integer(level.number().into());
    Ok(1)
}

/// Writes a line without the place of the script; `false` for a level that is none.
fn raw_log(level: c_int, message: &[u8]) -> bool {
    let Some(level) = level_of(level.into()) else { return false };
    let host = with_run(|run| run.host().clone()).unwrap_or_else(|| Detached::host(""));
    host.log(level, message);
    true
}
