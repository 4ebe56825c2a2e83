//! Functions of Lua's own library: `table.sort` in a form that LuaJIT compiles, `os.exit` that ends nobody else's request,
//! `os.setlocale` that changes nothing, functions of `io` and `os` that are named when they block,
//! `ffi.cdef` that finds OpenSSL.

use std::ffi::c_char;
use std::time::Duration;

use bstr::ByteSlice;
use mlua_sys::{lua_CFunction, lua_State};
use tidegate_core::{environment, worker};
use tidegate_net::log;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::{c_bytes, function, place_of_script};
use crate::host::LogLevel;
use crate::phase::{Phase, Phases};
use crate::scheduler::{Stop, with_run};
use crate::stack::Lua;
use crate::vm::OsExit;

/// `ngx.ERROR`
const ERROR: i32 = -1;

pub(crate) static FAMILY: Family = Family { name: "stdlib", cdef: "", ffi: &[], functions: FUNCTIONS };

static FUNCTIONS: &[(&str, lua_CFunction)] =
    &[("flush_logs", function(flush_logs)), ("getenv", function(getenv)), ("exit", function(exit))];

/// Where `os.exit` ends the request; elsewhere it is an error.
const EXIT_PHASES: Phases = Phases::of(&[
    Phase::InitWorker,
    Phase::Set,
    Phase::Rewrite,
    Phase::ServerRewrite,
    Phase::Access,
    Phase::Precontent,
    Phase::Content,
    Phase::Timer,
]);

/// `exit(…)`: true when the process is to end, false when the Lua half is to await the end of the request.
fn exit(lua: &mut Lua) -> CResult {
    let ends_process = with_run(|run| match run.vm().config().os_exit {
        OsExit::Process => Ok(true),
        OsExit::Request if EXIT_PHASES.contains(run.phase()) => {
            // What a client of a worker that has gone would see.
            run.stop(lua, Stop::Exit(ERROR))?;
            let text = "os.exit() ends the request; \"lua_os_exit process\" lets it end the server";
            let line = [place_of_script(lua, 1).as_slice(), text.as_bytes()].concat();
            run.host().log(LogLevel::Error, &line);
            Ok(false)
        }
        OsExit::Request | OsExit::Error => {
            Err(LuaError::new("os.exit() is disabled here; \"lua_os_exit process\" lets it end the server"))
        }
    });
    lua.push_bool(ends_process.unwrap_or_else(|| Err(LuaError::new("os.exit() is disabled here")))?);
    Ok(1)
}

/// A function of Lua's library has kept the thread waiting for `ns` nanoseconds: tells it in the log.
///
/// # Safety
/// `state` runs, and `name` is a zero-terminated string.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn tidegate_lua_blocked(state: *mut lua_State, name: *const c_char, ns: u64) {
    // SAFETY: `guard.c` passes the state that runs, and a name out of its own table.
    let (lua, name) = unsafe { (Lua::from_raw(state), c_bytes(name)) };
    with_run(|run| {
        let took = Duration::from_nanos(ns);
        if matches!(run.phase(), Phase::Init | Phase::InitWorker | Phase::ExitWorker)
            || run.vm().config().blocking_warn.is_none_or(|limit| took < limit)
        {
            return;
        }
        let name = name.to_str_lossy();
        let name = match name.strip_prefix("io_method_") {
            Some(method) => format!("file:{method}"),
            None => name.replacen('_', ".", 1),
        };
        let text = format!("{name}() has blocked the worker for {}ms", took.as_millis());
        run.host().log(LogLevel::Warn, &[place_of_script(lua, 1).as_slice(), text.as_bytes()].concat());
    });
}

/// `getenv(name)`: the variable's value under the worker's configuration, which a reload may have changed.
fn getenv(lua: &mut Lua) -> CResult {
    let name = lua.check_bytes(1)?.as_bstr();
    let value = match worker::config() {
        Some(config) => environment::variable(&config.main().env, name),
        None => name.to_os_str().ok().and_then(std::env::var_os),
    };
    match value {
        Some(value) => lua.push_bytes(value.as_encoded_bytes()),
        None => lua.push_nil(),
    }
    Ok(1)
}

/// `flush_logs()`: writes what waits for the thread that writes logs.
fn flush_logs(_: &mut Lua) -> CResult {
    log::flush();
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn sort_sorts() {
        check(
            "math.randomseed(42)
             for _, n in ipairs { 0, 1, 2, 3, 4, 5, 10, 15, 16, 17, 18, 33, 100, 1000 } do
                 for _, kind in ipairs { 'random', 'equal', 'up', 'down', 'saw', 'strings' } do
                     local t, count = {}, {}
                     for i = 1, n do
                         t[i] = kind == 'random' and math.random(n) or kind == 'equal' and 7 or kind == 'up' and i
                             or kind == 'down' and -i or kind == 'saw' and i % 5 or 's' .. math.random(n)
                         count[t[i]] = (count[t[i]] or 0) + 1
                     end
                     table.sort(t)
                     for i = 1, n do
                         if i > 1 and t[i] < t[i - 1] then out('bad', kind, n, i) end
                         count[t[i]] = count[t[i]] - 1
                     end
                     for k, c in pairs(count) do if c ~= 0 then out('lost', kind, n, k) end end
                     local function greater(a, b) return a > b end
                     table.sort(t, greater)
                     for i = 2, n do if t[i] > t[i - 1] then out('bad order', kind, n, i) end end
                 end
             end
             out('done')",
            &["done"],
        );
    }

    #[test]
    fn sort_refuses_what_lua_refuses() {
        check(
            "local function try(...) local ok, message = pcall(table.sort, ...) out(ok, message) end
             try() try(1) try({}, 1) try({ 1, 'a' }) try({ 1, 2, nil, 4 }, nil) try({ {}, {} })
             local ok, message = pcall(table.sort, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 },
                 function() return true end)
             out(ok, message)
             out(select('#', table.sort({})))",
            &[
                "false bad argument #1 to 'sort' (table expected, got no value)",
                "false bad argument #1 to 'sort' (table expected, got number)",
                "false bad argument #2 to 'sort' (function expected, got number)",
                "false tidegate.api.stdlib:21: attempt to compare string with number",
                "false tidegate.api.stdlib:21: attempt to compare nil with number",
                "false tidegate.api.stdlib:21: attempt to compare two table values",
                "false invalid order function for sorting",
                "0",
            ],
        );
    }

    #[test]
    fn sort_waits_and_sees_metatables() {
        check(
            "local t = { 3, 1, 2 }
             table.sort(t, function(a, b) ngx.sleep(0) return a < b end)
             out(t[1], t[2], t[3])
             local mt = { __lt = function(a, b) return a.v < b.v end }
             local o = { setmetatable({ v = 2 }, mt), setmetatable({ v = 1 }, mt) }
             table.sort(o) out(o[1].v, o[2].v)",
            &["1 2 3", "1 2"],
        );
    }

    #[test]
    fn similar_strings_are_linear() {
        // The hash of LuaJIT 2.0 looked at a few bytes only; a quadratic run would take minutes.
        check(
            "local pad = ('x'):rep(200)
             local keep = {}
             for i = 1, 100000 do keep[i] = pad .. i .. pad end
             out(#keep)",
            &["100000"],
        );
    }
}
