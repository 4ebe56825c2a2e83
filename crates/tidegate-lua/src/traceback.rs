//! Error texts and tracebacks, in the form of lua-nginx-module's log lines.
//!
//! For light threads the traceback is made of the coroutine that failed, whose stack is intact after `lua_resume`
//! reported the error, and of its parents: `coroutine 0:`, `coroutine 1:`, … Functions called from Rust
//! ([`Lua::call`]) collect theirs in a message handler, while the stack still stands.

use std::ffi::{c_char, c_int};
use std::io::Write;
use std::mem::MaybeUninit;

use mlua_sys as ffi;
use mlua_sys::{lua_Debug, lua_State};

use crate::error::{Failure, FailureKind};
use crate::function::{c_bytes, is_internal};
use crate::panics::guard;
use crate::stack::{Coroutine, Lua, Type};

/// Levels of one coroutine that a traceback shows; lua-nginx-module's number.
const LEVELS_MAX: c_int = 22;
/// Coroutines that a traceback shows; lua-nginx-module's number.
const COROUTINES_MAX: usize = 5;

/// The text of the error value on top of the stack.
pub(crate) fn error_text(lua: &Lua) -> Vec<u8> {
    match lua.type_of(-1) {
        Type::String | Type::Number => lua.to_bytes(-1).map_or_else(Vec::new, <[u8]>::to_vec),
        _ => b"unknown reason".to_vec(),
    }
}

/// The traceback of `chain`: the stacks of the coroutine that failed and of those that wait for it.
pub(crate) fn of_coroutines(chain: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut text = b"stack traceback:".to_vec();
    for (number, levels) in chain.take(COROUTINES_MAX).enumerate() {
        let _ = write!(text, "\ncoroutine {number}:");
        text.extend_from_slice(&levels);
    }
    text
}

/// The lines of one coroutine's stack.
pub(crate) fn levels(coroutine: Coroutine) -> Vec<u8> {
    let mut text = Vec::new();
    append_levels(&mut text, coroutine, 0);
    text
}

/// Appends the levels of one coroutine. The Lua halves of our API show as what they are to the user, one function:
/// `[C]: in function 'wait'`.
fn append_levels(text: &mut Vec<u8>, coroutine: Coroutine, first: c_int) {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    let mut level = first;
    // Where the lines of the functions begin that an internal one called.
    let mut called_at = text.len();
    let mut after_internal = false;
    // SAFETY: LuaJIT fills `debug` when it returns 1.
    while unsafe { ffi::lua_getstack(coroutine.raw(), level, debug.as_mut_ptr()) } == 1 {
        level += 1;
        if level - first > LEVELS_MAX {
            text.extend_from_slice(b"\n\t...");
            return;
        }
        // SAFETY: `debug` describes a live level of this very state, whose stack does not move meanwhile.
        let debug = unsafe {
            ffi::lua_getinfo(coroutine.raw(), c"Snl".as_ptr(), debug.as_mut_ptr());
            debug.assume_init_ref()
        };
        // SAFETY: filled just now.
        let frame = unsafe { Frame::new(debug) };
        if frame.is_internal() {
            text.truncate(called_at);
            frame.append_as_c(text);
            after_internal = true;
            continue;
        }
        if !frame.is_c() || after_internal {
            called_at = text.len();
        }
        frame.append(text);
        if !frame.is_c() {
            called_at = text.len();
        }
        after_internal = false;
    }
}

/// One level of a stack.
struct Frame<'a> {
    full_source: &'a [u8],
    source: &'a [u8],
    what: &'a [u8],
    name_what: &'a [u8],
    name: &'a [u8],
    line: c_int,
    line_defined: c_int,
}

impl<'a> Frame<'a> {
    /// # Safety
    /// `debug` was filled by `lua_getinfo(…, "Snl", …)` and its function is still on the stack.
    unsafe fn new(debug: &'a lua_Debug) -> Self {
        // SAFETY: short_src is a terminated array inside `debug`; the other texts are static or belong to live functions.
        unsafe {
            Self {
                full_source: c_bytes(debug.source),
                source: c_bytes(debug.short_src.as_ptr().cast::<c_char>()),
                what: c_bytes(debug.what),
                name_what: c_bytes(debug.namewhat),
                name: c_bytes(debug.name),
                line: debug.currentline,
                line_defined: debug.linedefined,
            }
        }
    }

    fn is_internal(&self) -> bool {
        is_internal(self.full_source)
    }

    fn is_c(&self) -> bool {
        matches!(self.what.first(), Some(b'C' | b't'))
    }

    fn append_as_c(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"\n\t[C]:");
        self.append_name(text, b" ?");
    }

    fn append_name(&self, text: &mut Vec<u8>, nameless: &[u8]) {
        if self.name_what.is_empty() {
            text.extend_from_slice(nameless);
        } else {
            text.extend_from_slice(b" in function '");
            text.extend_from_slice(self.name);
            text.push(b'\'');
        }
    }

    fn append(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"\n\t");
        text.extend_from_slice(self.source);
        text.push(b':');
        if self.line > 0 {
            let _ = write!(text, "{}:", self.line);
        }
        match self.what.first() {
            Some(b'm') => self.append_name(text, b" in main chunk"),
            Some(b'C' | b't') => self.append_name(text, b" ?"),
            _ => {
                let place = [b" in function <", self.source, format!(":{}>", self.line_defined).as_bytes()].concat();
                self.append_name(text, &place);
            }
        }
    }
}

/// Message handler of [`Lua::call`]: replaces the error value by `{value's text, traceback}` joined with a zero byte.
pub(crate) unsafe extern "C-unwind" fn message_handler(state: *mut lua_State) -> c_int {
    // SAFETY: LuaJIT passes the state that failed.
    let lua = unsafe { Lua::from_raw(state) };
    // If this panics, the error stays what it is.
    let _ = guard(lua, |lua| {
        let mut text = error_text(lua);
        text.push(0);
        text.extend_from_slice(b"stack traceback:");
        // Level 0 is this handler.
        append_levels(&mut text, lua.coroutine(), 1);
        lua.push_bytes(&text);
    });
    1
}

/// The failure whose text [`message_handler`] left on top of the stack.
pub(crate) fn take_handled(lua: &Lua, status: c_int) -> Failure {
    let text = error_text(lua);
    // A traceback holds no zero byte, a message might.
    let (message, traceback) = match text.iter().rposition(|&byte| byte == 0) {
        Some(at) => (text[..at].to_vec(), text[at + 1..].to_vec()),
        None => (text, Vec::new()),
    };
    Failure { message, traceback, kind: FailureKind::from_status(status) }
}
