//! `ngx.say`, `ngx.print`, `ngx.send_headers`, `ngx.flush`, `ngx.eof`.
//!
//! A response without Lua filters goes straight from the Lua string to the client's buffer, in a call that compiles.
//! With a Lua filter the call would run Lua inside an FFI function, so the classic function does it.

use std::ffi::c_int;
use std::rc::Rc;

use tidegate_core::output::{Chunk, Closed, Progress};
use tidegate_core::phase::Ready;
use tidegate_core::request::Request;

use super::compiled::ffi_functions;
use super::{Family, ffi_error, ffi_lua_error, log_debug, request};
use crate::directives;
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::host::Host;
use crate::phase::{Phase, Phases};
use crate::phases::prepare_head;
use crate::request_context::LuaContext;
use crate::scheduler::{Answer, with_run};
use crate::settings;
use crate::socket::OpenSockets;
use crate::stack::{Lua, Type};

pub(crate) static FAMILY: Family = Family {
    name: "output",
    cdef: "",
    ffi: ffi_functions! {
        send as "send": (Bytes, c_int) -> c_int,
    },
    functions: &[
        ("send_slow", function(send_slow)),
        ("send_headers", function(send_headers)),
        ("flush", function(flush)),
        ("eof", function(eof)),
    ],
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
    /// The request wants no body.
    pub(super) const HEADER_ONLY: i32 = 4;
    /// The body is over.
    pub(super) const ENDED: i32 = 5;
    /// The script has the client's connection for itself.
    pub(super) const RAW: i32 = 6;
}

const PHASES: Phases =
    Phases::of(&[Phase::Rewrite, Phase::ServerRewrite, Phase::Access, Phase::Precontent, Phase::Content]);

/// Sends a piece of the body, and a line end if `newline` is not 0.
fn send(bytes: &[u8], newline: c_int) -> c_int {
    with_run(|run| {
        let req = match run.request_in(PHASES) {
            Ok(req) => req,
            Err(error) => return ffi_lua_error(&error),
        };
        if req.module_conf(&directives::MODULE).has_filters() {
            return answer::SLOW;
        }
        match state(req) {
            State::Open if req.header_sent() => {}
            State::Open if is_held(req) => {
                hold(req, bytes, newline != 0);
                return match release_excess(req) {
                    Ready::Now(Ok(())) => answer::DONE,
                    Ready::Now(Err(Closed)) => answer::CLOSED,
                    Ready::Later(future) => match run.wait_ffi(async { to_answer(future.await) }) {
                        Ok(()) => answer::AWAIT,
                        Err(error) => ffi_lua_error(&error),
                    },
                };
            }
            State::Open => prepare_head(req),
            State::HeaderOnly => return answer::HEADER_ONLY,
            State::Ended if OpenSockets::of(run.host()).raw_acquired.get() => return answer::RAW,
            State::Ended => return answer::ENDED,
        }
        let sent = if newline == 0 { req.send_slice(bytes) } else { req.send_line(bytes) };
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

/// Whether more of a body can be sent.
enum State {
    Open,
    HeaderOnly,
    Ended,
}

fn state(req: &Request) -> State {
    let response = req.response.borrow();
    match response.progress {
        Progress::Open => State::Open,
        Progress::Ended => State::Ended,
        Progress::HeadSent if response.header_only => State::HeaderOnly,
        Progress::HeadSent => State::Open,
    }
}

/// What a script is told that sends after the end.
fn why_ended(req: &Rc<Request>) -> &'static str {
    if OpenSockets::of(&Host::Request(req.clone())).raw_acquired.get() { RAW_ACQUIRED } else { "seen eof" }
}

const RAW_ACQUIRED: &str = "raw request socket acquired";

/// Whether output is held back, so that an HTTP/1.0 client learns how long the response is.
fn is_held(req: &Request) -> bool {
    req.head.borrow().version < (1, 1)
        && !req.is_subrequest()
        && !req.is_head()
        && !req.header_sent()
        && req.response.borrow().content_length.is_none()
        && req.module_conf(&settings::MODULE).lua_http10_buffering != Some(false)
}

#[cold]
fn hold(req: &Request, bytes: &[u8], newline: bool) {
    let context: Rc<LuaContext> = req.context();
    log_debug(|| "lua buffering output bufs for the HTTP 1.0 request".to_owned());
    let mut held = context.held_output.borrow_mut();
    let held = held.get_or_insert_default();
    held.extend_from_slice(bytes);
    if newline {
        held.push(b'\n');
    }
}

/// Output that is held back at most. A longer response goes out as it is made, and its end is the connection's.
const HELD_BYTES_MAX: usize = 1 << 20;

/// Sends what was held back when it is too much to go on with.
fn release_excess(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    let context: Rc<LuaContext> = req.context();
    let held_bytes = context.held_output.borrow().as_ref().map_or(0, Vec::len);
    if held_bytes <= HELD_BYTES_MAX {
        return Ready::Now(Ok(()));
    }
    let held = context.held_output.take().unwrap_or_default();
    prepare_head(req);
    req.send(Chunk::bytes(held))
}

/// Sends what was held back, with its length; nothing if nothing was.
pub(crate) fn release_held(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    let held = req.find_context::<LuaContext>().and_then(|context| context.held_output.take());
    let Some(held) = held else { return Ready::Now(Ok(())) };
    prepare_head(req);
    if !req.header_sent() {
        req.response.borrow_mut().content_length = Some(held.len() as u64);
    }
    req.send(Chunk::bytes(held))
}

fn to_answer(sent: Result<(), Closed>) -> Answer {
    match sent {
        Ok(()) => Answer::One,
        Err(Closed) => Answer::NilError("nginx output filter error".into()),
    }
}

/// Pushes the answer, or lets the Lua half await it.
fn settle(lua: &mut Lua, sent: Ready<Result<(), Closed>>) -> CResult {
    match sent {
        Ready::Now(sent) => to_answer(sent).push(lua),
        Ready::Later(future) => {
            with_run(|run| run.wait(lua, async { to_answer(future.await) })).unwrap_or(Ok(()))?;
            Ok(0)
        }
    }
}

fn refuse(lua: &mut Lua, why: &'static str) -> CResult {
    Answer::NilError(why.into()).push(lua)
}

/// `send_slow(text)`: results, or nothing when the Lua half is to await.
fn send_slow(lua: &mut Lua) -> CResult {
    let bytes = lua.check_bytes(1)?.to_vec();
    let req = request(PHASES)?;
    match state(&req) {
        State::Open => {}
        State::HeaderOnly => return refuse(lua, "header only"),
        State::Ended => return refuse(lua, why_ended(&req)),
    }
    if is_held(&req) {
        hold(&req, &bytes, false);
        return settle(lua, release_excess(&req));
    }
    prepare_head(&req);
    settle(lua, req.send(Chunk::bytes(bytes)))
}

/// `send_headers()`: results, or nothing when the Lua half is to await.
fn send_headers(lua: &mut Lua) -> CResult {
    let req = request(PHASES)?;
    if req.header_sent() || is_held(&req) {
        return Answer::One.push(lua);
    }
    prepare_head(&req);
    settle(lua, req.send_header())
}

/// `flush(wait?)`: results, or nothing when the Lua half is to await.
fn flush(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if count > 1 {
        return Err(LuaError::from(format!("attempt to pass {count} arguments, but accepted 0 or 1")));
    }
    if count == 1 {
        lua.check_type(1, Type::Boolean)?;
    }
    let wait = lua.to_bool(1);
    let req = request(PHASES)?;
    // After a 101 the script takes the connection over: it waits for the head to leave.
    let upgrades = req.response.borrow().status == 101;
    match state(&req) {
        State::Open => {}
        State::HeaderOnly if upgrades => {}
        State::HeaderOnly => return refuse(lua, "header only"),
        State::Ended => return refuse(lua, why_ended(&req)),
    }
    if is_held(&req) {
        log_debug(|| "lua http 1.0 buffering makes ngx.flush() a no-op".to_owned());
        return refuse(lua, "buffering");
    }
    if !req.header_sent() {
        return refuse(lua, "nothing to flush");
    }
    let flushed = req.send(Chunk::default().and_flush());
    if !wait || req.is_subrequest() {
        return settle(lua, flushed);
    }
    if let Ready::Now(Ok(())) = flushed
        && req.client.unsent_bytes() == 0
    {
        return Answer::One.push(lua);
    }
    let wait = with_run(|run| {
        run.wait(lua, async move {
            if flushed.wait().await.is_err() {
                return Answer::NilError("nginx output filter error".into());
            }
            match req.client.flush(req.http_conf().send_timeout_ms()).await {
                Ok(()) => Answer::One,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Answer::NilError("timeout".into()),
                Err(_) => Answer::NilError("client aborted".into()),
            }
        })
    });
    wait.unwrap_or(Ok(()))?;
    Ok(0)
}

/// `eof()`: results, or nothing when the Lua half is to await.
fn eof(lua: &mut Lua) -> CResult {
    if lua.top() != 0 {
        return Err(LuaError::new("no argument is expected"));
    }
    let req = request(PHASES)?;
    if let State::Ended = state(&req) {
        return refuse(lua, why_ended(&req));
    }
    let ended = end_body(&req);
    settle(lua, ended)
}

/// Ends the body: the head, what was held back and the last piece go out.
pub(crate) fn end_body(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    let req = req.clone();
    match release_held(&req) {
        Ready::Now(Ok(())) => {
            prepare_head(&req);
            req.send(Chunk::end().and_flush())
        }
        other => other.then(move |sent| match sent {
            Ok(()) => req.send(Chunk::end().and_flush()),
            Err(Closed) => Ready::Now(Err(Closed)),
        }),
    }
}
