//! `cjson` and `cjson.safe`: JSON to Lua values and back.
//!
//! Follows OpenResty's lua-cjson: its options, its defaults and its error messages. Every function of a module is a
//! closure over that module's settings, so that instances made by `new` do not share them.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use mlua_sys as ffi;

use super::Family;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::stack::{Lua, Type};
use crate::userdata::{Userdata, push_plain_userdata, set_upvalue, upvalue};

mod decode;
mod encode;

pub(crate) static FAMILY: Family = Family {
    name: "cjson",
    cdef: "",
    ffi: &[],
    functions: &[("new", function(new)), ("new_safe", function(new_safe))],
};

/// What becomes of numbers that JSON does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

/// The settings of an instance.
#[derive(Clone, Copy)]
struct Config {
    encode_sparse_convert: bool,
    encode_sparse_ratio: i64,
    encode_sparse_safe: i64,
    encode_max_depth: i64,
    encode_invalid_numbers: InvalidNumbers,
    encode_number_precision: i64,
    encode_keep_buffer: bool,
    encode_empty_table_as_object: bool,
    encode_escape_forward_slash: bool,
    encode_skip_unsupported: bool,
    decode_max_depth: i64,
    decode_invalid_numbers: bool,
    decode_array_with_array_mt: bool,
    /// The identities of two metatables, which the registry keeps as long as the machine lives.
    array_mt: *const c_void,
    empty_array_mt: *const c_void,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            encode_sparse_convert: false,
            encode_sparse_ratio: 2,
            encode_sparse_safe: 10,
            encode_max_depth: 1000,
            encode_invalid_numbers: InvalidNumbers::Refused,
            encode_number_precision: 14,
            encode_keep_buffer: true,
            encode_empty_table_as_object: true,
            encode_escape_forward_slash: true,
            encode_skip_unsupported: false,
            decode_max_depth: 1000,
            decode_invalid_numbers: true,
            decode_array_with_array_mt: false,
            array_mt: ptr::null(),
            empty_array_mt: ptr::null(),
        }
    }
}

/// Light pointers that stand for an empty array, and keys of the two metatables in the registry.
static EMPTY_ARRAY: u8 = 0;
static EMPTY_ARRAY_MT: u8 = 1;
static ARRAY_MT: u8 = 2;

fn pointer(to: &'static u8) -> *const c_void {
    ptr::from_ref(to).cast()
}

/// How deep values may nest whatever the options say: a worker's stack is finite.
const NESTING_MAX: i64 = 2000;

impl Userdata for Config {
    const NAME: &'static CStr = c"tidegate.cjson";
    const TYPE_NAME: &'static str = "JSON settings";
}

/// The settings behind the running closure: its first upvalue.
fn config(lua: &Lua) -> Result<Config, LuaError> {
    upvalue(lua, 1).ok_or(LuaError::new("the module has lost its settings"))
}

type Method = (&'static str, ffi::lua_CFunction);

static METHODS: &[Method] = &[
    ("encode_sparse_array", function(encode_sparse_array)),
    ("encode_max_depth", function(|lua| depth(lua, |c| &mut c.encode_max_depth))),
    ("decode_max_depth", function(|lua| depth(lua, |c| &mut c.decode_max_depth))),
    ("encode_number_precision", function(encode_number_precision)),
    ("encode_keep_buffer", function(|lua| flag(lua, |c| &mut c.encode_keep_buffer))),
    ("encode_invalid_numbers", function(encode_invalid_numbers)),
    ("decode_invalid_numbers", function(|lua| flag(lua, |c| &mut c.decode_invalid_numbers))),
    ("decode_array_with_array_mt", function(|lua| flag(lua, |c| &mut c.decode_array_with_array_mt))),
    ("encode_empty_table_as_object", function(|lua| flag(lua, |c| &mut c.encode_empty_table_as_object))),
    ("encode_escape_forward_slash", function(|lua| flag(lua, |c| &mut c.encode_escape_forward_slash))),
    ("encode_skip_unsupported_value_types", function(|lua| flag(lua, |c| &mut c.encode_skip_unsupported))),
];

fn new(lua: &mut Lua) -> CResult {
    let own: [Method; 3] = [("encode", function(encode)), ("decode", function(decode)), ("new", function(new))];
    push_module(lua, b"cjson", &own);
    Ok(1)
}

fn new_safe(lua: &mut Lua) -> CResult {
    let own: [Method; 3] =
        [("encode", function(encode_safe)), ("decode", function(decode_safe)), ("new", function(new_safe))];
    push_module(lua, b"cjson.safe", &own);
    Ok(1)
}

/// Pushes a module with settings of its own. *May raise* (memory).
fn push_module(lua: &mut Lua, name: &[u8], own: &[Method]) {
    let (array_mt, empty_array_mt) = (shared_table(lua, &ARRAY_MT), shared_table(lua, &EMPTY_ARRAY_MT));
    push_plain_userdata(lua, Config { array_mt, empty_array_mt, ..Config::default() });
    let block = lua.top();
    lua.push_table(0, 24);
    for (name, method) in METHODS.iter().chain(own) {
        lua.push_value(block);
        // SAFETY: the upvalue is on top; the functions are made by `crate::function`.
        unsafe { ffi::lua_pushcclosure(lua.raw(), *method, 1) };
        lua.raw_set_field(-2, name.as_bytes());
    }
    lua.push_light(ptr::null());
    lua.raw_set_field(-2, b"null");
    lua.push_light(pointer(&EMPTY_ARRAY));
    lua.raw_set_field(-2, b"empty_array");
    push_shared_table(lua, &EMPTY_ARRAY_MT);
    lua.raw_set_field(-2, b"empty_array_mt");
    push_shared_table(lua, &ARRAY_MT);
    lua.raw_set_field(-2, b"array_mt");
    lua.push_bytes(name);
    lua.raw_set_field(-2, b"_NAME");
    lua.push_bytes(b"2.1.0.14");
    lua.raw_set_field(-2, b"_VERSION");
}

/// Pushes the metatable kept under `key`, made at the first use. *May raise* (memory).
fn push_shared_table(lua: &mut Lua, key: &'static u8) {
    super::push_registry(lua, pointer(key));
    if lua.type_of(-1) == Type::Table {
        return;
    }
    lua.pop(1);
    lua.push_table(0, 0);
    lua.push_light(pointer(key));
    lua.push_value(-2);
    lua.raw_set(ffi::LUA_REGISTRYINDEX);
}

/// The identity of the metatable kept under `key`. *May raise* (memory).
fn shared_table(lua: &mut Lua, key: &'static u8) -> *const c_void {
    push_shared_table(lua, key);
    // SAFETY: the value is on top.
    let table = unsafe { ffi::lua_topointer(lua.raw(), -1) };
    lua.pop(1);
    table
}

/// Demands exactly one argument.
fn one_argument(lua: &mut Lua) -> Result<(), LuaError> {
    if lua.top() == 1 { Ok(()) } else { Err(LuaError::argument(1, "expected 1 argument")) }
}

fn encode(lua: &mut Lua) -> CResult {
    one_argument(lua)?;
    let config = config(lua)?;
    encode::run(lua, config)
}

fn decode(lua: &mut Lua) -> CResult {
    one_argument(lua)?;
    let config = config(lua)?;
    decode::run(lua, config)
}

/// `nil, message` in the place of an error. lua-cjson calls itself through `pcall`, so that its function has no name.
fn caught(lua: &mut Lua, outcome: CResult) -> CResult {
    let message = match outcome {
        Err(LuaError::Message(message)) => message,
        Err(LuaError::Argument { argument, reason }) => format!("bad argument #{argument} to '?' ({reason})").into(),
        Err(LuaError::ArgumentType { argument, expected }) => {
            let got = lua.type_name(argument);
            format!("bad argument #{argument} to '?' ({expected} expected, got {got})").into()
        }
        other => return other,
    };
    lua.push_nil();
    lua.push_bytes(message.as_bytes());
    Ok(2)
}

fn encode_safe(lua: &mut Lua) -> CResult {
    one_argument(lua)?;
    let config = config(lua)?;
    let outcome = encode::run(lua, config);
    caught(lua, outcome)
}

fn decode_safe(lua: &mut Lua) -> CResult {
    one_argument(lua)?;
    let config = config(lua)?;
    let outcome = decode::run(lua, config);
    caught(lua, outcome)
}

/// Demands at most `max` arguments.
fn at_most(lua: &mut Lua, max: c_int) -> Result<(), LuaError> {
    if lua.top() <= max { Ok(()) } else { Err(LuaError::argument(max + 1, "found too many arguments")) }
}

/// Changes `value` if argument `n` is there.
fn integer_option(lua: &Lua, n: c_int, value: &mut i64, min: i64, max: i64) -> Result<(), LuaError> {
    if !lua.is_none_or_nil(n) {
        let number = lua.check_integer(n)?;
        if !(min..=max).contains(&number) {
            return Err(LuaError::argument(n, format!("expected integer between {min} and {max}")));
        }
        *value = number;
    }
    Ok(())
}

/// Changes `value` if argument `n` is there: a boolean, or `off` and `on`.
fn flag_option(lua: &Lua, n: c_int, value: &mut bool) -> Result<(), LuaError> {
    if lua.is_none_or_nil(n) {
        return Ok(());
    }
    if lua.type_of(n) == Type::Boolean {
        *value = lua.to_bool(n);
        return Ok(());
    }
    *value = match lua.check_bytes(n)? {
        b"off" => false,
        b"on" => true,
        other => return Err(invalid_option(n, other)),
    };
    Ok(())
}

fn invalid_option(n: c_int, given: &[u8]) -> LuaError {
    LuaError::argument(n, format!("invalid option '{}'", String::from_utf8_lossy(given)))
}

/// Lets `set` change the settings behind the running closure, which takes at most `max` arguments.
fn change(lua: &mut Lua, max: c_int, set: impl FnOnce(&Lua, &mut Config) -> CResult) -> CResult {
    at_most(lua, max)?;
    let mut changed = config(lua)?;
    let outcome = set(lua, &mut changed);
    set_upvalue(lua, 1, changed);
    outcome
}

fn depth(lua: &mut Lua, field: fn(&mut Config) -> &mut i64) -> CResult {
    change(lua, 1, |lua, config| {
        let value = field(config);
        integer_option(lua, 1, value, 1, i64::from(i32::MAX))?;
        lua.push_integer(*value);
        Ok(1)
    })
}

fn flag(lua: &mut Lua, field: fn(&mut Config) -> &mut bool) -> CResult {
    change(lua, 1, |lua, config| {
        let value = field(config);
        flag_option(lua, 1, value)?;
        lua.push_bool(*value);
        Ok(1)
    })
}

fn encode_sparse_array(lua: &mut Lua) -> CResult {
    change(lua, 3, |lua, config| {
        flag_option(lua, 1, &mut config.encode_sparse_convert)?;
        integer_option(lua, 2, &mut config.encode_sparse_ratio, 0, i64::from(i32::MAX))?;
        integer_option(lua, 3, &mut config.encode_sparse_safe, 0, i64::from(i32::MAX))?;
        lua.push_bool(config.encode_sparse_convert);
        lua.push_integer(config.encode_sparse_ratio);
        lua.push_integer(config.encode_sparse_safe);
        Ok(3)
    })
}

fn encode_number_precision(lua: &mut Lua) -> CResult {
    change(lua, 1, |lua, config| {
        let value = &mut config.encode_number_precision;
        integer_option(lua, 1, value, 1, 16)?;
        lua.push_integer(*value);
        Ok(1)
    })
}

fn encode_invalid_numbers(lua: &mut Lua) -> CResult {
    change(lua, 1, |lua, config| {
        let value = &mut config.encode_invalid_numbers;
        if lua.type_of(1) == Type::Boolean {
            *value = if lua.to_bool(1) { InvalidNumbers::Written } else { InvalidNumbers::Refused };
        } else if !lua.is_none_or_nil(1) {
            *value = match lua.check_bytes(1)? {
                b"off" => InvalidNumbers::Refused,
                b"on" => InvalidNumbers::Written,
                b"null" => InvalidNumbers::Null,
                other => return Err(invalid_option(1, other)),
            };
        }
        match value {
            InvalidNumbers::Refused => lua.push_bool(false),
            InvalidNumbers::Written => lua.push_bool(true),
            InvalidNumbers::Null => lua.push_bytes(b"null"),
        }
        Ok(1)
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{check, on_workers_stack};

    #[test]
    fn values() {
        check(
            "local cjson = require 'cjson'
             local function try(text) out(cjson.encode(cjson.decode(text))) end
             try('[1, 2.5, -3, 1e3, 0.1, 1e100, -0, 12345678901234567890]')
             try('{\"a\":{\"b\":[]}}') try('[true,false,null]') try('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\n\\\\/\\\\\"\\\\u0001\"')
             try(' [ [ ] , { } ] ') try('\"\\127\"')
             out(cjson.decode('null') == ngx.null, cjson.null == ngx.null)
             out(cjson.encode({ 1, nil, 3 }), cjson.encode({ [1] = 1, [3] = 3 }), cjson.encode({ a = 1 }))
             out(cjson.encode(cjson.empty_array), cjson.encode(setmetatable({}, cjson.empty_array_mt)))
             out(cjson.encode(setmetatable({ n = 1 }, cjson.array_mt)), cjson.encode({ [1.5] = true }))
             out(cjson._NAME, require('cjson.safe')._NAME, cjson.decode('0x10'), cjson.decode('-Infinity'))",
            &[
                "[1,2.5,-3,1000,0.1,1e+100,-0,1.2345678901235e+19]",
                "{\"a\":{\"b\":{}}}",
                "[true,false,null]",
                "\"\u{e9}\u{1f600}\\n\\/\\\"\\u0001\"",
                "[{},{}]",
                "\"\\u007f\"",
                "true true",
                "[1,null,3] [1,null,3] {\"a\":1}",
                "[] []",
                "[] {\"1.5\":true}",
                "cjson cjson.safe 16 -inf",
            ],
        );
    }

    #[test]
    fn errors() {
        on_workers_stack(errors_on_large_stack);
    }

    fn errors_on_large_stack() {
        check(
            "local cjson = require 'cjson.safe'
             local function try(...) out(select(2, cjson.decode(...))) end
             try('') try('[1,') try('{\"a\" 1}') try('{a:1}') try('[1 2]') try('{\"a\":1 ]') try('\"abc') try('\"\\\\x\"')
             try('\"\\\\ud800\"') try('[1] x') try('hello') try('\\0\\0') try(('['):rep(1001)) try('-')
             local function try(...) out(select(2, cjson.encode(...))) end
             try(print) try({ [{}] = 1 }) try(0/0) try(1/0) try({ [1000] = 1 })
             local t = {} t.t = t try(t)
             out(pcall(cjson.decode)) out(pcall(cjson.encode, 1, 2)) out(pcall(cjson.encode_max_depth, 0))
             out(pcall(cjson.encode_max_depth, 1, 2)) out(pcall(cjson.encode_keep_buffer, 'maybe'))
             out(pcall(require('cjson').decode, '['))",
            &[
                "Expected value but found T_END at character 1",
                "Expected value but found T_END at character 4",
                "Expected colon but found T_NUMBER at character 6",
                "Expected object key string but found invalid token at character 2",
                "Expected comma or array end but found T_NUMBER at character 4",
                "Expected comma or object end but found T_ARR_END at character 8",
                "Expected value but found unexpected end of string at character 5",
                "Expected value but found invalid escape code at character 2",
                "Expected value but found invalid unicode escape code at character 2",
                "Expected the end but found invalid token at character 5",
                "Expected value but found invalid token at character 1",
                "JSON parser does not support UTF-16 or UTF-32",
                "Found too many nested data structures (1001) at character 1001",
                "Expected value but found invalid number at character 1",
                "Cannot serialise function: type not supported",
                "Cannot serialise table: table key must be a number or string",
                "Cannot serialise number: must not be NaN or Infinity",
                "Cannot serialise number: must not be NaN or Infinity",
                "Cannot serialise table: excessively sparse array",
                "Cannot serialise, excessive depth (1001)",
                "false bad argument #1 to '?' (expected 1 argument)",
                "false bad argument #1 to '?' (expected 1 argument)",
                "false bad argument #1 to '?' (expected integer between 1 and 2147483647)",
                "false bad argument #2 to '?' (found too many arguments)",
                "false bad argument #1 to '?' (invalid option 'maybe')",
                "false Expected value but found T_END at character 2",
            ],
        );
    }

    #[test]
    fn options() {
        check(
            "local cjson = require('cjson').new()
             out(cjson.encode_sparse_array()) out(cjson.encode_sparse_array(true, 1, 2))
             out(cjson.encode({ [1000] = 1 }))
             out(cjson.encode_number_precision(3), cjson.encode(math.pi), cjson.encode(123456))
             out(cjson.encode_empty_table_as_object(false), cjson.encode({}))
             out(cjson.encode_escape_forward_slash('off'), cjson.encode('a/b'))
             out(cjson.encode_invalid_numbers('null'), cjson.encode(0/0), cjson.encode_invalid_numbers(true))
             out(cjson.encode(-1/0), cjson.encode(0/0))
             out(cjson.encode_skip_unsupported_value_types(true), cjson.encode({ a = print, 1, print }))
             out(cjson.decode_invalid_numbers(false), pcall(cjson.decode, '[0x10]'))
             out(cjson.decode_array_with_array_mt(true), getmetatable(cjson.decode('[]')) == cjson.array_mt)
             out(cjson.encode_max_depth(1), pcall(cjson.encode, {{}})) out(require('cjson').encode_max_depth())",
            &[
                "false 2 10",
                "true 1 2",
                "{\"1000\":1}",
                "3 3.14 1.23e+05",
                "false []",
                "false \"a/b\"",
                "null null true",
                "-Infinity NaN",
                "true {\"1\":1}",
                "false false Expected value but found invalid number at character 2",
                "true true",
                "1 false Cannot serialise, excessive depth (2)",
                "1000",
            ],
        );
    }
}
