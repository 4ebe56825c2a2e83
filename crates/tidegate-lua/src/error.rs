//! Errors on their way into Lua, and errors that came out of it.

use std::borrow::Cow;
use std::ffi::c_int;

use crate::host::{Detached, LogLevel};
use crate::scheduler::with_run;
use crate::stack::Lua;
use crate::{panics, traceback};

/// Why a function that Lua called gives up. The shim in [`crate::function`] turns it into a Lua error.
///
/// The texts are those of LuaJIT's own library, which users know: `bad argument #1 to 'sleep' (number expected, got nil)`.
#[derive(Debug)]
pub enum LuaError {
    /// A message; the position of the Lua code that called the function is put in front.
    Message(Cow<'static, str>),
    /// A message that is not UTF-8 or must not be prefixed with a position.
    Bare(Vec<u8>),
    /// Argument number `argument` is wrong for the reason given.
    Argument {
        /// Counted from 1.
        argument: c_int,
        /// The text between the parentheses.
        reason: Cow<'static, str>,
    },
    /// Argument number `argument` has a wrong type.
    ArgumentType {
        /// Counted from 1.
        argument: c_int,
        /// The name of the type that was wanted.
        expected: &'static str,
    },
    /// The error value is on top of the stack already.
    OnStack,
}

impl LuaError {
    /// An error with a fixed text.
    pub const fn new(message: &'static str) -> Self {
        Self::Message(Cow::Borrowed(message))
    }

    /// A complaint about argument number `argument`.
    pub fn argument(argument: c_int, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Argument { argument, reason: reason.into() }
    }
}

impl From<String> for LuaError {
    fn from(message: String) -> Self {
        Self::Message(Cow::Owned(message))
    }
}

/// What a function called by Lua returns: the count of values that it left on top of the stack.
pub type CResult = Result<c_int, LuaError>;

/// An error that left Lua: what was said, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(message))]
pub struct Failure {
    /// The error's text; `unknown reason` when the value was neither a string nor a number, as OpenResty says.
    pub message: Vec<u8>,
    /// `stack traceback:` and its lines, or empty where there is none (syntax errors).
    pub traceback: Vec<u8>,
    /// Kind of the error.
    pub kind: FailureKind,
}

impl Failure {
    /// A want of memory outside of any script.
    pub fn memory() -> Self {
        Self { message: b"not enough memory".to_vec(), traceback: Vec::new(), kind: FailureKind::Memory }
    }
}

/// Called by LuaJIT with the error of a finalizer (`__gc`), which has ended nothing else: the log gets it, with the request
/// during which the collector has run.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn tidegate_lua_finalizer_failed(state: *mut mlua_sys::lua_State) -> c_int {
    // SAFETY: LuaJIT passes the state that calls, in a frame of its own.
    let lua = unsafe { Lua::from_raw(state) };
    // A panic in here has been noted, and goes on when the script has ended.
    let _ = panics::guard(lua, |lua| {
        let text = [b"lua finalizer failed: ", traceback::error_text(lua).as_slice()].concat();
        let host = with_run(|run| run.host().clone()).unwrap_or_else(|| Detached::host(""));
        host.log(LogLevel::Error, &text);
    });
    0
}

/// LuaJIT's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// An error raised by a script or by the virtual machine.
    Runtime,
    /// The source does not compile.
    Syntax,
    /// The memory limit was reached.
    Memory,
    /// An error while handling an error.
    Handler,
}

impl FailureKind {
    /// From a status that `lua_pcall`, `lua_resume` or `lua_load` returned.
    pub fn from_status(status: c_int) -> Self {
        match status {
            mlua_sys::LUA_ERRSYNTAX => Self::Syntax,
            mlua_sys::LUA_ERRMEM => Self::Memory,
            mlua_sys::LUA_ERRERR => Self::Handler,
            _ => Self::Runtime,
        }
    }

    /// The words that OpenResty's log uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime error",
            Self::Syntax => "syntax error",
            Self::Memory => "memory allocation error",
            Self::Handler => "error handler error",
        }
    }
}
