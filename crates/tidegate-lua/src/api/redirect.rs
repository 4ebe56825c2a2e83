//! `ngx.exec` and `ngx.redirect`.

use std::borrow::Cow;

use tidegate_core::request::Request;
use tidegate_http::Known;
use tidegate_http::uri::parse_unsafe_uri;

use super::req::{escape_unsafe, unsafe_byte};
use super::{Family, request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::host::LogLevel;
use crate::phase::{Phase, Phases};
use crate::scheduler::{Stop, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "redirect",
    cdef: "",
    ffi: &[],
    functions: &[("exec", function(exec)), ("redirect", function(redirect))],
};

const PHASES: Phases =
    Phases::of(&[Phase::ServerRewrite, Phase::Rewrite, Phase::Access, Phase::Precontent, Phase::Content]);

fn stop(lua: &mut Lua, reason: Stop) -> Result<(), LuaError> {
    with_run(|run| run.stop(lua, reason)).unwrap_or(Ok(()))
}

/// `exec(uri, args?)`: the Lua half made a string of the arguments, and awaits next.
fn exec(lua: &mut Lua) -> CResult {
    let uri = lua.check_bytes(1)?.to_vec();
    let args = lua.to_bytes(2).map(<[u8]>::to_vec);
    let req = request(PHASES)?;
    if uri.is_empty() {
        return Err(LuaError::new("The uri argument is empty"));
    }
    if req.header_sent() {
        return Err(LuaError::new("attempt to call ngx.exec after sending out response headers"));
    }
    if uri[0] == b'@' {
        // A named location has no arguments of its own.
        let name = &uri[..memchr::memchr(b'?', &uri).unwrap_or(uri.len())];
        stop(lua, Stop::Exec)?;
        if !req.redirect_to_named(name) {
            let name = bstr::BStr::new(name);
            req.log(LogLevel::Error, format_args!("could not find named location \"{name}\""));
            stop(lua, Stop::Exit(500))?;
        }
        return Ok(0);
    }
    let Some((path, uri_args)) = split_uri(&req, &uri) else { return Err(LuaError::new("unsafe uri")) };
    let mut all_args = uri_args.to_vec();
    if let Some(args) = args.filter(|args| !args.is_empty()) {
        if !all_args.is_empty() {
            all_args.push(b'&');
        }
        all_args.extend_from_slice(&args);
    }
    stop(lua, Stop::Exec)?;
    req.redirect_internally(&path, Some(&all_args));
    Ok(0)
}

/// Splits a URI that a script made: its path, decoded, and its arguments. `None` for one that leaves the tree of
/// locations; the log says so.
pub(super) fn split_uri<'u>(req: &Request, uri: &'u [u8]) -> Option<(Cow<'u, [u8]>, &'u [u8])> {
    let split = parse_unsafe_uri(uri);
    if split.is_none() {
        req.log(LogLevel::Error, format_args!("unsafe URI \"{}\" was detected", bstr::BStr::new(uri)));
    }
    split
}

const STATUSES: [i64; 5] = [301, 302, 303, 307, 308];

/// `redirect(uri, status?)`: the Lua half awaits next.
fn redirect(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if !(1..=2).contains(&count) {
        return Err(LuaError::new("expecting one or two arguments"));
    }
    let uri = lua.check_bytes(1)?.to_vec();
    let status = if count == 2 { lua.check_integer(2)? } else { 302 };
    if count == 2 && !STATUSES.contains(&status) {
        return Err(LuaError::new(
            "only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_PERMANENT_REDIRECT, \
             ngx.HTTP_SEE_OTHER, and ngx.HTTP_TEMPORARY_REDIRECT are allowed",
        ));
    }
    let req = request(PHASES)?;
    if req.header_sent() {
        return Err(LuaError::new("attempt to call ngx.redirect after sending out the headers"));
    }
    if let Some(byte) = unsafe_byte(&uri) {
        let mut shown = Vec::new();
        escape_unsafe(&uri, &mut shown);
        let shown = String::from_utf8_lossy(&shown);
        return Err(LuaError::from(format!("unsafe byte \"0x{byte:02x}\" in redirect uri \"{shown}\"")));
    }
    stop(lua, Stop::Exit(i32::try_from(status).unwrap_or(302)))?;
    let mut response = req.response.borrow_mut();
    response.fields.set_known(Known::Location, &uri);
    response.keep_location = true;
    response.status = u16::try_from(status).unwrap_or(302);
    Ok(0)
}
