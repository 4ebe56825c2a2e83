//! Query arguments: `ngx.decode_args`, `ngx.req.get_uri_args`, `ngx.req.get_post_args`, `ngx.req.set_uri_args`.

use std::ffi::c_int;

use tidegate_http::escape::unescape_form;

use super::compiled::ffi_functions;
use super::uri::{Kind, escape_into};
use super::{Family, ffi_request, log_debug, request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::Phases;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "args",
    cdef: "",
    ffi: ffi_functions! {
        set_uri_args as "set_uri_args": (Bytes) -> c_int,
    },
    functions: &[("decode", function(decode)), ("uri_args", function(uri_args)), ("post_args", function(post_args))],
};

/// Arguments that are decoded when the script does not say how many.
///
/// Source: lua-nginx-module, `NGX_HTTP_LUA_MAX_ARGS`.
const COUNT_MAX: i64 = 100;

/// Decodes arguments into the table at `table`; answers whether there were more than `max` (0 or less: no limit).
///
/// An argument without `=` is `true`, one without a name is left out, one that comes again gets a list.
fn decode_into(lua: &mut Lua, table: c_int, args: &[u8], max: i64) -> bool {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut count = 0;
    let mut rest = Some(args);
    while let Some(text) = rest {
        let end = memchr::memchr(b'&', text);
        let pair = &text[..end.unwrap_or(text.len())];
        rest = end.map(|end| &text[end + 1..]);
        let equals = memchr::memchr(b'=', pair);
        key.clear();
        unescape_form(&pair[..equals.unwrap_or(pair.len())], &mut key);
        if !key.is_empty() {
            match equals {
                Some(at) => {
                    value.clear();
                    unescape_form(&pair[at + 1..], &mut value);
                    lua.add_multi(table, &key, |lua| lua.push_bytes(&value));
                }
                None => lua.add_multi(table, &key, |lua| lua.push_bool(true)),
            }
        }
        count += 1;
        if max > 0 && count == max && rest.is_some() {
            log_debug(|| format!("lua hit query args limit {max}"));
            return true;
        }
    }
    false
}

/// The limit in argument `n`, or the default.
fn limit(lua: &mut Lua, n: c_int) -> Result<i64, LuaError> {
    if lua.is_none_or_nil(n) { Ok(COUNT_MAX) } else { lua.check_integer(n) }
}

/// The results: the table on top, and why it is not complete.
fn finish(lua: &mut Lua, truncated: bool) -> CResult {
    if truncated {
        lua.push_bytes(b"truncated");
        return Ok(2);
    }
    Ok(1)
}

/// Pushes the table that the script gave as argument `n`, or a new one.
fn push_result_table(lua: &mut Lua, n: c_int, args: &[u8]) {
    if lua.type_of(n) == Type::Table {
        lua.push_value(n);
    } else {
        let count = args.iter().filter(|&&byte| byte == b'&').count() + usize::from(!args.is_empty());
        lua.push_table(0, c_int::try_from(count.min(COUNT_MAX as usize)).unwrap_or(0));
    }
}

/// `decode(text, max?, table?)`; the Lua half emptied the table.
fn decode(lua: &mut Lua) -> CResult {
    let text = lua.check_bytes(1)?.to_vec();
    let max = limit(lua, 2)?;
    push_result_table(lua, 3, &text);
    let truncated = decode_into(lua, lua.top(), &text, max);
    finish(lua, truncated)
}

/// `uri_args(max?, table?)`
fn uri_args(lua: &mut Lua) -> CResult {
    let max = limit(lua, 1)?;
    let req = request(Phases::EVERYWHERE)?;
    // A copy: building the table may raise, and must not leave the request borrowed.
    let args = req.uri.borrow().args.clone();
    drop(req);
    push_result_table(lua, 2, &args);
    let truncated = decode_into(lua, lua.top(), &args, max);
    finish(lua, truncated)
}

/// `post_args(max?, table?)`
fn post_args(lua: &mut Lua) -> CResult {
    let max = limit(lua, 1)?;
    let req = request(Phases::EVERYWHERE)?;
    if !req.body.is_loaded() {
        return Err(LuaError::new("no request body found; maybe you should turn on lua_need_request_body?"));
    }
    if req.body.file.borrow().is_some() {
        lua.push_nil();
        lua.push_bytes(b"request body in temp file not supported");
        return Ok(2);
    }
    let text = req.body.memory.borrow().clone();
    drop(req);
    push_result_table(lua, 2, &text);
    let truncated = !text.is_empty() && decode_into(lua, lua.top(), &text, max);
    finish(lua, truncated)
}

/// Sets the arguments of the request's URI.
fn set_uri_args(args: &[u8]) -> c_int {
    ffi_request(|_, req| {
        let mut uri = req.uri.borrow_mut();
        uri.args.clear();
        escape_into(args, Kind::RequestLine, &mut uri.args);
        req.flags().uri_rewritten.set(true);
        0
    })
}
