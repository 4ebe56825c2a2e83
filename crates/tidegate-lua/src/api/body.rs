//! The request's body: `ngx.req.read_body`, `get_body_data`, `set_body_data` and their like.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use tidegate_core::body::BodyError;
use tidegate_core::body_file::{open_for_body, open_now};
use tidegate_core::phase::{Ready, Step};
use tidegate_core::request::Request;
use tidegate_http::Known;

use super::req::set_field;
use super::{Family, request, some_request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::request_context::LuaContext;
use crate::scheduler::{Answer, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "body",
    cdef: "",
    ffi: &[],
    functions: &[
        ("read", function(read)),
        ("discard", function(discard)),
        ("data", function(data)),
        ("file", function(file)),
        ("set_data", function(set_data)),
        ("set_file", function(set_file)),
        ("init", function(init)),
        ("append", function(append)),
        ("finish", function(finish)),
    ],
};

/// Where a body is read and changed. OpenResty lacks the filters for all but reading; nothing here is unsound there.
const PHASES: Phases = Phases::of(&[
    Phase::ServerRewrite,
    Phase::Rewrite,
    Phase::Access,
    Phase::Precontent,
    Phase::Content,
    Phase::Balancer,
]);

fn no_arguments(lua: &mut Lua) -> Result<(), LuaError> {
    match lua.top() {
        0 => Ok(()),
        count => Err(LuaError::from(format!("expecting 0 arguments but seen {count}"))),
    }
}

/// What a script is told of a body that cannot be read: the status to exit with.
fn status_of(error: &BodyError) -> i64 {
    match error.step() {
        // nginx closes the connection of a client that is too slow.
        Step::Status(408) => 499,
        Step::Status(status) => status.into(),
        _ => 499,
    }
}

/// `read()`: `false` when that is all, a status to exit with, or nothing when the Lua half is to await one of these.
fn read(lua: &mut Lua) -> CResult {
    no_arguments(lua)?;
    let req = request(PHASES)?;
    match req.read_body() {
        Ready::Now(read) => push_read(lua, &read),
        Ready::Later(future) => {
            let wait = with_run(|run| {
                let context: Rc<LuaContext> = req.context();
                context.reads_body.set(true);
                run.wait(lua, async move {
                    let read = future.await;
                    context.reads_body.set(false);
                    Answer::Push(Box::new(move |lua| push_read(lua, &read)))
                })
            });
            wait.unwrap_or(Ok(()))?;
            Ok(0)
        }
    }
}

fn push_read(lua: &mut Lua, read: &Result<(), BodyError>) -> CResult {
    match read {
        Ok(()) => lua.push_bool(false),
        Err(error) => lua.push_integer(status_of(error)),
    }
    Ok(1)
}

/// `discard()`: what is left of the body is dropped when the response has been sent.
fn discard(lua: &mut Lua) -> CResult {
    no_arguments(lua)?;
    let req = some_request(PHASES)?;
    req.body.mark_loaded();
    Ok(0)
}

const GET: Phases = Phases::EVERYWHERE;

/// `data(max?)`: the body in memory; nil when there is none or it went to a file.
fn data(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if count > 1 {
        return Err(LuaError::from(format!("expecting 0 or 1 arguments but seen {count}")));
    }
    let max = if lua.is_none_or_nil(1) { 0 } else { lua.check_integer(1)? };
    let req = some_request(GET)?;
    if !req.body.is_loaded() || req.body.file.borrow().is_some() {
        lua.push_nil();
        return Ok(1);
    }
    let text = {
        let memory = req.body.memory.borrow();
        let len = match usize::try_from(max) {
            Ok(max) if max > 0 => memory.len().min(max),
            _ => memory.len(),
        };
        memory[..len].to_vec()
    };
    drop(req);
    if text.is_empty() {
        lua.push_nil();
    } else {
        lua.push_bytes(&text);
    }
    Ok(1)
}

/// `file()`: the path of the file that holds the body, or nil.
fn file(lua: &mut Lua) -> CResult {
    no_arguments(lua)?;
    let req = some_request(GET)?;
    let path = req.body.file.borrow().as_ref().map(|file| file.path().as_os_str().as_bytes().to_vec());
    drop(req);
    match path {
        Some(path) => lua.push_bytes(&path),
        None => lua.push_nil(),
    }
    Ok(1)
}

/// The request, whose body must have been read.
fn with_read_body() -> Result<Rc<Request>, LuaError> {
    let req = some_request(PHASES)?;
    if !req.body.is_loaded() && !req.body.is_consumed() {
        return Err(LuaError::new("request body not read yet"));
    }
    if !req.body.is_consumed() {
        return Err(LuaError::new("request body already discarded asynchronously"));
    }
    Ok(req)
}

/// Makes the request's fields say what its new body is.
fn describe(req: &Request, len: u64) {
    {
        let mut head = req.head.borrow_mut();
        head.chunked = false;
        head.fields.remove(Known::TransferEncoding);
    }
    set_field(req, b"Content-Length", Some(len.to_string().as_bytes()), true);
}

fn arguments(lua: &mut Lua, wanted: c_int) -> Result<(), LuaError> {
    match lua.top() {
        count if count == wanted => Ok(()),
        count => Err(LuaError::from(format!("expecting {wanted} arguments but seen {count}"))),
    }
}

/// `set_data(text)`
fn set_data(lua: &mut Lua) -> CResult {
    arguments(lua, 1)?;
    let text = lua.check_bytes(1)?.to_vec();
    let req = with_read_body()?;
    let len = text.len() as u64;
    req.body.set(text);
    describe(&req, len);
    Ok(0)
}

/// `set_file(path, auto_clean?)`: `true`, or nothing when the Lua half is to await that.
fn set_file(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if !(1..=2).contains(&count) {
        return Err(LuaError::from(format!("expecting 1 or 2 arguments but seen {count}")));
    }
    let path = lua.check_bytes(1)?.to_vec();
    let clean = lua.to_bool(2);
    let req = with_read_body()?;
    let full = req.conf().full_path(&path);
    let opened = match open_for_body(&full) {
        Ready::Now(opened) => opened,
        Ready::Later(opening) => {
            let can_wait = with_run(|run| run.can_wait(lua)).unwrap_or(false);
            if can_wait {
                let wait = with_run(|run| {
                    run.wait(lua, async move {
                        let opened = opening.await;
                        Answer::Push(Box::new(move |lua| push_body_file(lua, &req, &path, full, opened, clean)))
                    })
                });
                wait.unwrap_or(Ok(()))?;
                return Ok(0);
            }
            open_now(&full)
        }
    };
    push_body_file(lua, &req, &path, full, opened, clean)
}

/// Makes an open file the body; pushes `true`. `name` is the path as the script has it.
fn push_body_file(
    lua: &mut Lua,
    req: &Request,
    name: &[u8],
    path: PathBuf,
    opened: io::Result<File>,
    clean: bool,
) -> CResult {
    let error = match opened.and_then(|file| req.body.set_file(file, path, !clean)) {
        Ok(len) => {
            describe(req, len);
            lua.push_bool(true);
            return Ok(1);
        }
        Err(error) => error,
    };
    let name = bstr::BStr::new(name);
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default();
    let code = error.raw_os_error().unwrap_or(0);
    req.log(crate::host::LogLevel::Crit, format_args!("open() \"{name}\" failed ({code}: {reason})"));
    Err(LuaError::from(format!("open() \"{name}\" failed")))
}

/// `init(size?)`: begins a new body.
fn init(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if count > 1 {
        return Err(LuaError::from(format!("expecting 0 or 1 argument but seen {count}")));
    }
    let size = if count == 1 { Some(lua.check_integer(1)?) } else { None };
    let size = match size.map(usize::try_from) {
        Some(Err(_)) => return Err(LuaError::from(format!("bad size argument: {}", size.unwrap_or_default()))),
        Some(Ok(size)) => Some(size),
        None => None,
    };
    let req = some_request(PHASES)?;
    // With `ngx.req.socket` the script itself reads the body, and this is what becomes of it.
    if !req.body.is_loaded() {
        return Err(LuaError::new("request body not read yet"));
    }
    let size = size.unwrap_or_else(|| req.http_conf().client_body_buffer_bytes());
    *req.context::<LuaContext>().new_body.borrow_mut() = Some((Vec::new(), size));
    Ok(0)
}

/// `append(text)`
fn append(lua: &mut Lua) -> CResult {
    arguments(lua, 1)?;
    let req = some_request(PHASES)?;
    let text = lua.check_bytes(1)?;
    let context: Rc<LuaContext> = req.context();
    match &mut *context.new_body.borrow_mut() {
        Some((body, _)) => {
            body.extend_from_slice(text);
            Ok(0)
        }
        None => Err(LuaError::new("request_body not initialized")),
    }
}

/// `finish()`: the new body takes the old one's place; `true`, or nothing when the Lua half is to await that.
fn finish(lua: &mut Lua) -> CResult {
    if lua.top() != 0 {
        return Err(LuaError::from(format!("expecting 0 argument but seen {}", lua.top())));
    }
    let req = some_request(PHASES)?;
    let context: Rc<LuaContext> = req.context();
    let size = context.new_body.borrow().as_ref().map(|(body, size)| (body.len(), *size));
    let Some((len, size)) = size else { return Err(LuaError::new("request_body not initialized")) };
    if len > size {
        with_run(|run| run.check_wait(lua)).unwrap_or(Ok(()))?;
    }
    let body = context.new_body.borrow_mut().take().map(|(body, _)| body).unwrap_or_default();
    if !req.body.is_consumed() {
        // What is left of the old body cannot be told from a next request.
        req.flags().keep_alive.set(false);
    }
    match req.replace_body(body, size) {
        Ready::Now(replaced) => push_finished(lua, &req, len, &replaced),
        Ready::Later(future) => {
            let wait = with_run(|run| {
                run.wait(lua, async move {
                    let replaced = future.await;
                    Answer::Push(Box::new(move |lua| push_finished(lua, &req, len, &replaced)))
                })
            });
            wait.unwrap_or(Ok(()))?;
            Ok(0)
        }
    }
}

fn push_finished(lua: &mut Lua, req: &Request, len: usize, replaced: &Result<(), BodyError>) -> CResult {
    if let Err(error) = replaced {
        return Err(LuaError::from(format!("fail to write file: {error}")));
    }
    describe(req, len as u64);
    lua.push_bool(true);
    Ok(1)
}
