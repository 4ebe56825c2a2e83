//! Functions of Lua's own library: `table.sort` in a form that LuaJIT compiles, `os.exit` that loses no line of the log,
//! `ffi.cdef` that finds OpenSSL.

use bstr::ByteSlice;
use mlua_sys::lua_CFunction;
use tidegate_core::{environment, log, worker};

use super::Family;
use crate::error::CResult;
use crate::function::function;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family { name: "stdlib", cdef: "", ffi: &[], functions: FUNCTIONS };

static FUNCTIONS: &[(&str, lua_CFunction)] = &[("flush_logs", function(flush_logs)), ("getenv", function(getenv))];

/// `getenv(name)`: the variable's value under the worker's configuration, which a reload may have changed.
fn getenv(lua: Lua) -> CResult {
    let name = lua.check_bytes(1)?.as_bstr();
    let value = match worker::current() {
        Some(worker) => environment::variable(&worker.config().main().env, name),
        None => name.to_os_str().ok().and_then(std::env::var_os),
    };
    match value {
        Some(value) => lua.push_bytes(value.as_encoded_bytes()),
        None => lua.push_nil(),
    }
    Ok(1)
}

/// `flush_logs()`: writes what waits for the thread that writes logs.
fn flush_logs(_: Lua) -> CResult {
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
