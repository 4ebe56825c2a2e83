//! `ngx.req.*`: method, URI and fields of the request.

use std::ffi::c_int;
use std::io::Write;

use tidegate_core::phase::Restart;
use tidegate_core::request::Request;
use tidegate_http::{Known, Method};

use super::compiled::ffi_functions;
use super::uri::{Kind, escape_into, needs_escape};
use super::{Family, ffi_error, ffi_request, log_debug, request, some_request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::phase::{Phase, Phases};
use crate::request_context::LuaContext;
use crate::scheduler::{Stop, with_run};
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "req",
    cdef: "",
    ffi: ffi_functions! {
        method as "method": (TextOut) -> c_int,
        set_method as "set_method": (c_int) -> c_int,
        set_header as "set_header": (Bytes, OptBytes, c_int) -> c_int,
        start_time as "start_time": () -> f64,
        http_version as "http_version": () -> c_int,
        is_internal as "is_internal": () -> c_int,
        is_subrequest as "is_subrequest": () -> c_int,
    },
    functions: &[("headers", function(headers)), ("raw_header", function(raw_header)), ("set_uri", function(set_uri))],
};

/// Fields that are given when the script does not say how many.
///
/// Source: lua-nginx-module, `NGX_HTTP_LUA_MAX_HEADERS`.
pub(super) const FIELD_COUNT_MAX: i64 = 100;

/// The method that a constant such as `ngx.HTTP_POST` stands for.
pub(super) fn method_of(bit: i64) -> Option<Method> {
    Method::ALL.iter().copied().find(|&method| i64::from(method.nginx_bit()) == bit && method != Method::Connect)
}

/// Gives the method's name.
fn method(out: &mut Vec<u8>) -> c_int {
    ffi_request(|_, req| {
        match req.method.get() {
            Method::Other => out.extend_from_slice(req.main().head.borrow().method_text()),
            known => out.extend_from_slice(known.name().as_bytes()),
        }
        1
    })
}

fn set_method(bit: c_int) -> c_int {
    ffi_request(|_, req| match method_of(bit.into()) {
        Some(method) => {
            req.method.set(method);
            0
        }
        None => ffi_error(format!("unsupported HTTP method: {bit}").as_bytes()),
    })
}

/// Sets a field of the request. A null `value` takes the field away; without `replace` it is added to others of its name.
fn set_header(name: &[u8], value: Option<&[u8]>, replace: c_int) -> c_int {
    ffi_request(|_, req| {
        if req.head.borrow().version < (1, 0) {
            // HTTP/0.9 has no fields.
            return 0;
        }
        set_field(req, name, value, replace != 0);
        0
    })
}

/// Sets a field of the request's head and what the server derived from it.
pub(super) fn set_field(req: &Request, name: &[u8], value: Option<&[u8]>, replace: bool) {
    let mut escaped_name = Vec::new();
    let name = escaped(name, Kind::HeaderName, &mut escaped_name);
    let mut escaped_value = Vec::new();
    let value = value.map(|value| escaped(value, Kind::HeaderValue, &mut escaped_value));
    let known = Known::of(name);
    let single = !matches!(known, Known::Other | Known::Cookie | Known::XForwardedFor | Known::Via);
    let mut head = req.head.borrow_mut();
    match value {
        None => {
            head.fields.remove_name(name);
        }
        Some(value) if replace || single => head.fields.set(name, value),
        Some(value) => head.fields.append(name, value),
    }
    match known {
        Known::Host => {
            let host = value.unwrap_or_default();
            head.set_host(&host_of(host).to_ascii_lowercase());
        }
        Known::ContentLength => {
            head.content_length = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
            if head.content_length.is_some_and(|length| !req.body.is_loaded() && req.body.shorten(length)) {
                req.flags().keep_alive.set(false);
            }
        }
        _ => {}
    }
}

/// A host without its port.
fn host_of(host: &[u8]) -> &[u8] {
    let from = memchr::memrchr(b']', host).unwrap_or(0);
    match memchr::memchr(b':', &host[from..]) {
        Some(at) => &host[..from + at],
        None => host,
    }
}

pub(super) fn escaped<'a>(text: &'a [u8], kind: Kind, out: &'a mut Vec<u8>) -> &'a [u8] {
    if !needs_escape(text, kind) {
        return text;
    }
    escape_into(text, kind, out);
    out
}

/// Seconds since 1970 with three digits behind the point; negative for an error.
fn start_time() -> f64 {
    let mut ms = 0;
    if ffi_request(|_, req| {
        ms = req.started_at_ms();
        0
    }) < 0
    {
        return -1.0;
    }
    ms as f64 / 1000.0
}

/// 9, 10, 11, …
fn http_version() -> c_int {
    ffi_request(|_, req| {
        let (major, minor) = req.main().head.borrow().version;
        c_int::from(major) * 10 + c_int::from(minor)
    })
}

fn is_internal() -> c_int {
    ffi_request(|_, req| c_int::from(req.flags().internal.get()))
}

fn is_subrequest() -> c_int {
    ffi_request(|_, req| c_int::from(req.is_subrequest()))
}

/// `headers(max?, raw?)`: a table of the request's fields; the Lua half gives it its metatable.
fn headers(lua: &mut Lua) -> CResult {
    let max = if lua.is_none_or_nil(1) { FIELD_COUNT_MAX } else { lua.check_integer(1)? };
    let raw = lua.to_bool(2);
    let req = request(Phases::EVERYWHERE)?;
    // Kept as a list of its own while Lua allocates, which may raise.
    let fields = req.head.borrow().fields.clone();
    drop(req);
    push_fields(lua, fields.iter().map(|(name, value, _)| (name, value)), max, raw, "request")
}

/// Pushes a table of fields, and "truncated" if there are more than `max` (0 or less: no limit).
pub(super) fn push_fields<'f>(
    lua: &mut Lua,
    fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])>,
    max: i64,
    raw: bool,
    whose: &str,
) -> CResult {
    let count = match usize::try_from(max) {
        Ok(max) if max > 0 => max,
        _ => usize::MAX,
    };
    let fields_count = fields.len();
    let truncated = fields_count > count;
    lua.push_table(0, c_int::try_from(fields.len().min(count)).unwrap_or(0));
    let table = lua.top();
    let mut lower = Vec::new();
    for (name, value) in fields.take(count) {
        let key = if raw {
            name
        } else {
            lower.clear();
            lower.extend(name.iter().map(u8::to_ascii_lowercase));
            &lower
        };
        lua.add_multi(table, key, |lua| lua.push_bytes(value));
    }
    if truncated {
        log_debug(|| format!("lua exceeding {whose} header limit {fields_count} > {max}"));
        lua.push_bytes(b"truncated");
        return Ok(2);
    }
    Ok(1)
}

/// `raw_header(no_request_line?)`
fn raw_header(lua: &mut Lua) -> CResult {
    let no_line = lua.to_bool(1);
    let req = request(Phases::EVERYWHERE)?;
    let text = {
        let head = req.main().head.borrow();
        let from = if no_line { head.request_line_bytes() } else { 0 };
        head.raw().get(from..).unwrap_or_default().to_vec()
    };
    drop(req);
    lua.push_bytes(&text);
    Ok(1)
}

const SET_URI: Phases = Phases::of(&[
    Phase::Set,
    Phase::ServerRewrite,
    Phase::Rewrite,
    Phase::Access,
    Phase::Precontent,
    Phase::Content,
    Phase::HeaderFilter,
    Phase::BodyFilter,
    Phase::Log,
]);

/// `set_uri(path, jump?, binary?)`: `true` when the Lua half is to await the jump.
fn set_uri(lua: &mut Lua) -> CResult {
    let count = lua.top();
    if !(1..=3).contains(&count) {
        return Err(LuaError::from(format!("expecting 1, 2 or 3 arguments but seen {count}")));
    }
    let path = lua.check_bytes(1)?.to_vec();
    let req = some_request(SET_URI)?;
    if path.is_empty() {
        return Err(LuaError::new("attempt to use zero-length uri"));
    }
    let jump = if count >= 2 {
        lua.check_type(2, crate::stack::Type::Boolean)?;
        lua.to_bool(2)
    } else {
        false
    };
    if count == 3 {
        lua.check_type(3, crate::stack::Type::Boolean)?;
    }
    if !lua.to_bool(3)
        && let Some(byte) = unsafe_byte(&path)
    {
        let mut text = format!("unsafe byte \"0x{byte:02x}\" in uri \"").into_bytes();
        escape_unsafe(&path, &mut text);
        text.extend_from_slice(b"\" (maybe you want to set the 'binary' argument?)");
        return Err(LuaError::from(String::from_utf8_lossy(&text).into_owned()));
    }
    if jump {
        log_debug(|| format!("lua set uri jump to \"{}\"", String::from_utf8_lossy(&path)));
        let phase = with_run(|run| run.phase());
        phase.map_or(Ok(()), |phase| Phases::of(&[Phase::Rewrite, Phase::ServerRewrite]).check(phase))?;
        with_run(|run| run.stop(lua, Stop::Rewrite)).unwrap_or(Ok(()))?;
        req.restart_at(Restart::FindLocation);
    }
    {
        let mut uri = req.uri.borrow_mut();
        uri.path = path;
    }
    req.flags().uri_rewritten.set(true);
    req.flags().internal.set(true);
    if jump {
        // Like the run, what it kept ends here.
        if let Some(context) = req.find_context::<LuaContext>() {
            context.script_table.free();
        }
    } else {
        req.flags().alias_blocked.set(true);
    }
    lua.push_bool(jump);
    Ok(1)
}

/// A byte that does not belong into a URI, because it would end a line of a request.
pub(super) fn unsafe_byte(uri: &[u8]) -> Option<u8> {
    uri.iter().copied().find(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f)
}

/// Appends `text` with its unsafe bytes as `\x0A`, so that it can stand in a message.
pub(super) fn escape_unsafe(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte < b' ' || byte == 0x7f || byte == b'\\' || byte == b'"' {
            let _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_the_bits_of_nginx() {
        for (method, bit) in [
            (Method::Get, 2),
            (Method::Head, 4),
            (Method::Post, 8),
            (Method::Options, 0x200),
            (Method::Patch, 0x4000),
            (Method::Trace, 0x8000),
        ] {
            assert_eq!(method_of(bit), Some(method));
        }
        assert_eq!(method_of(1), None);
        assert_eq!(method_of(3), None);
    }

    #[test]
    fn hosts_lose_their_ports() {
        for (host, expected) in [("a.b", "a.b"), ("a:80", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")] {
            assert_eq!(host_of(host.as_bytes()), expected.as_bytes());
        }
    }
}
