//! `ngx.say` and `ngx.print`.
//!
//! A response without Lua filters goes straight from the Lua string to the client's buffer, in a call that compiles.
//! With a Lua filter the call would run Lua inside an FFI function, so the classic function does it.

use std::ffi::c_int;
use std::rc::Rc;

use tidegate_core::output::{Chunk, Closed};
use tidegate_core::phase::Ready;
use tidegate_core::request::Request;

use super::{Family, ffi_error, ffi_functions, ffi_lua_error};
use crate::directives;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::phases::prepare_head;
use crate::scheduler::{Answer, Run, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "output",
    cdef: "",
    ffi: ffi_functions! {
        send as "send": "int (*)(const char *, size_t, int)",
    },
    functions: &[("send_slow", function(send_slow))],
};

/// Answers of [`send`], beside -1 for an error.
mod answer {
    /// Done.
    pub(super) const DONE: i32 = 0;
    /// The Lua half is to await.
    pub(super) const AWAIT: i32 = 1;
    /// The Lua half is to call `send_slow` instead.
    pub(super) const SLOW: i32 = 2;
    /// The client has gone.
    pub(super) const CLOSED: i32 = 3;
}

const PHASES: Phases =
    Phases::of(&[Phase::Rewrite, Phase::ServerRewrite, Phase::Access, Phase::Precontent, Phase::Content]);

/// Sends `len` bytes, and a line end if `newline` is not 0.
///
/// # Safety
/// `data` points to `len` bytes.
unsafe extern "C" fn send(data: *const u8, len: usize, newline: c_int) -> c_int {
    // SAFETY: the Lua half passes a string with its length; it stays alive during the call.
    let bytes = unsafe { std::slice::from_raw_parts(data, len) };
    with_run(|run| {
        let req = match run.request_in(PHASES) {
            Ok(req) => req,
            Err(error) => return ffi_lua_error(&error),
        };
        if req.module_conf(&directives::MODULE).has_filters() {
            return answer::SLOW;
        }
        prepare_head(req);
        let sent = if newline == 0 { req.send_slice(bytes) } else { send_line(req, bytes) };
        match sent {
            Ready::Now(Ok(())) => answer::DONE,
            Ready::Now(Err(Closed)) => answer::CLOSED,
            Ready::Later(future) => match run.wait_ffi(async { to_answer(future.await) }) {
                Ok(()) => answer::AWAIT,
                Err(error) => ffi_lua_error(&error),
            },
        }
    })
    .unwrap_or_else(|| ffi_error(b"no request found"))
}

fn send_line(req: &Rc<Request>, bytes: &[u8]) -> Ready<Result<(), Closed>> {
    // One piece, so that chunked framing goes around both.
    req.send_slice(&[bytes, b"\n"].concat())
}

fn to_answer(sent: Result<(), Closed>) -> Answer {
    match sent {
        Ok(()) => Answer::One,
        Err(Closed) => Answer::NilError("nginx output filter error".into()),
    }
}

/// `send_slow(text)`: results, or nothing when the Lua half is to await.
fn send_slow(lua: Lua) -> CResult {
    let bytes = lua.check_bytes(1)?.to_vec();
    let req =
        with_run(|run: &Run| run.request_in(PHASES).cloned()).unwrap_or(Err(LuaError::new("no request found")))?;
    prepare_head(&req);
    match req.send(Chunk::bytes(bytes)) {
        Ready::Now(sent) => to_answer(sent).push(lua),
        Ready::Later(future) => {
            with_run(|run| run.wait(lua, async { to_answer(future.await) })).unwrap_or(Ok(()))?;
            Ok(0)
        }
    }
}
