//! Rust functions that Lua calls through the classic C API.
//!
//! ```ignore
//! fn pid(lua: &mut Lua) -> CResult {
//!     lua.push_integer(i64::from(std::process::id()));
//!     Ok(1)
//! }
//! static FUNCTIONS: &[(&str, lua_CFunction)] = &[("pid", function(pid))];
//! ```
//!
//! The body returns its count of results or a [`LuaError`]. Raising is the shim's very last act, when every Rust value
//! is gone: a function never raises a Lua error itself. A panic in a body ends the request ([`crate::panics`]).
//!
//! These functions may run Lua code. Functions called through the FFI must not ([`crate::api`] has the choice).

use std::ffi::{c_char, c_int};
use std::mem::{self, MaybeUninit};

use mlua_sys as ffi;
use mlua_sys::{lua_CFunction, lua_Debug, lua_State};

use crate::error::{CResult, LuaError};
use crate::panics::guard;
use crate::stack::Lua;

/// Makes a `lua_CFunction` of a Rust function. The function must be a plain `fn` item or a closure that captures nothing.
pub const fn function<F>(_body: F) -> lua_CFunction
where
    F: Fn(&mut Lua) -> CResult + Copy + 'static,
{
    const { assert!(mem::size_of::<F>() == 0, "a function for Lua captures nothing") };
    shim::<F>
}

unsafe extern "C-unwind" fn shim<F>(state: *mut lua_State) -> c_int
where
    F: Fn(&mut Lua) -> CResult + Copy + 'static,
{
    // SAFETY: `F` has no size (asserted in `function`) and is `Copy`: any bit pattern of no bits is a value of it.
    let body: F = unsafe { mem::zeroed() };
    // SAFETY: LuaJIT passes the state that calls.
    let lua = unsafe { Lua::from_raw(state) };
    let outcome = guard(lua, body).unwrap_or_else(Err);
    finish(lua, outcome)
}

/// Ends a function called by Lua: gives its count of results, or raises its error.
pub(crate) fn finish(lua: &mut Lua, outcome: CResult) -> c_int {
    let error = match outcome {
        Ok(count) => return count,
        Err(error) => error,
    };
    let raise = prepare(lua, error);
    let state = lua.raw();
    // Nothing with a destructor lives in this frame or, by the shim's form, in its caller's.
    // SAFETY: the message or error value is on top of the stack.
    unsafe {
        match raise {
            Raise::Value => ffi::lua_error(state),
            Raise::Argument(argument) => {
                ffi::luaL_argerror(state, argument, ffi::lua_tolstring(state, -1, std::ptr::null_mut()))
            }
            Raise::ArgumentType(argument) => {
                ffi::luaL_typerror(state, argument, ffi::lua_tolstring(state, -1, std::ptr::null_mut()))
            }
        }
    }
}

/// What is left to do once the Rust error was dropped.
enum Raise {
    Value,
    Argument(c_int),
    ArgumentType(c_int),
}

/// Puts the error's text on the stack and drops the error.
#[cold]
fn prepare(lua: &mut Lua, error: LuaError) -> Raise {
    match error {
        LuaError::Message(message) => {
            let text = [place_of_script(lua, 1).as_slice(), message.as_bytes()].concat();
            lua.push_bytes(&text);
            Raise::Value
        }
        LuaError::Bare(message) => {
            lua.push_bytes(&message);
            Raise::Value
        }
        LuaError::Argument { argument, reason } => {
            if let Some(text) = argument_error_of_half(lua, argument, &reason) {
                lua.push_bytes(&text);
                return Raise::Value;
            }
            lua.push_bytes(reason.as_bytes());
            Raise::Argument(argument)
        }
        LuaError::ArgumentType { argument, expected } => {
            let got = lua.type_name(argument);
            if let Some(text) = argument_error_of_half(lua, argument, &format!("{expected} expected, got {got}")) {
                lua.push_bytes(&text);
                return Raise::Value;
            }
            lua.push_bytes(expected.as_bytes());
            Raise::ArgumentType(argument)
        }
        LuaError::OnStack => Raise::Value,
    }
}

/// The complaint about an argument when the Lua half of one of our functions stands between us and the script: as if the
/// script had called us itself, by the name that it used.
fn argument_error_of_half(lua: &mut Lua, mut argument: c_int, reason: &str) -> Option<Vec<u8>> {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    // SAFETY: LuaJIT fills `debug` when the level exists; its texts belong to a live function or are static.
    let (name, is_method) = unsafe {
        if ffi::lua_getstack(lua.raw(), 1, debug.as_mut_ptr()) == 0 {
            return None;
        }
        ffi::lua_getinfo(lua.raw(), c"nS".as_ptr(), debug.as_mut_ptr());
        let debug = debug.assume_init_ref();
        if !is_internal(c_bytes(debug.source)) {
            return None;
        }
        (c_bytes(debug.name), c_bytes(debug.namewhat) == b"method")
    };
    let name = String::from_utf8_lossy(if name.is_empty() { b"?" } else { name });
    argument -= c_int::from(is_method);
    let text = match argument {
        0 => format!("calling '{name}' on bad self ({reason})"),
        _ => format!("bad argument #{argument} to '{name}' ({reason})"),
    };
    Some([place_of_script(lua, 2), text.into_bytes()].concat())
}

/// Chunks whose names begin so are ours: an error is not their fault.
const INTERNAL_CHUNKS: &[&[u8]] = &[b"=tidegate.", b"@tidegate:ngx."];

/// Whether a chunk with this name is a part of our API.
pub(crate) fn is_internal(source: &[u8]) -> bool {
    INTERNAL_CHUNKS.iter().any(|chunks| source.starts_with(chunks))
}

/// `file:line: ` of the script at `level` of the stack or above, past the Lua halves of our own API; empty when a C
/// function comes first.
pub(crate) fn place_of_script(lua: &mut Lua, mut level: c_int) -> Vec<u8> {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    // SAFETY: LuaJIT fills `debug` when the level exists; `source` belongs to a live function.
    unsafe {
        while ffi::lua_getstack(lua.raw(), level, debug.as_mut_ptr()) == 1 {
            ffi::lua_getinfo(lua.raw(), c"Sl".as_ptr(), debug.as_mut_ptr());
            let debug = debug.assume_init_ref();
            let internal = is_internal(c_bytes(debug.source));
            let tail_call = c_bytes(debug.what) == b"tail";
            if !internal && !tail_call {
                if debug.currentline <= 0 {
                    return Vec::new();
                }
                let source = c_bytes(debug.short_src.as_ptr().cast::<c_char>());
                return [source, format!(":{}: ", debug.currentline).as_bytes()].concat();
            }
            level += 1;
        }
    }
    Vec::new()
}

/// A zero-terminated string from LuaJIT's debug interface as bytes; empty for null.
///
/// # Safety
/// `text` is null or points to a zero-terminated string that outlives the result.
pub(crate) unsafe fn c_bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: not null, hence zero-terminated, as this function demands.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_bytes()
}
