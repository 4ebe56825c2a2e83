//! The response's head: `ngx.header`, `ngx.status`, `ngx.headers_sent`, `ngx.resp.*`.

use std::ffi::c_int;

use smallvec::SmallVec;
use tidegate_core::output::Response;
use tidegate_core::request::Request;
use tidegate_http::Known;
use tidegate_http::date::{http_date, parse_http_date};

use super::compiled::ffi_functions;
use super::req::{FIELD_COUNT_MAX, escaped, push_fields};
use super::uri::Kind;
use super::{Family, ffi_error, ffi_request, request};
use crate::error::CResult;
use crate::function::function;
use crate::host::LogLevel;
use crate::phase::{Phase, Phases};
use crate::request_context::LuaContext;
use crate::settings;
use crate::stack::Lua;

pub(crate) static FAMILY: Family = Family {
    name: "resp",
    cdef: "",
    ffi: ffi_functions! {
        get as "get": (Bytes, TextOut) -> c_int,
        set as "set": (Bytes, Bytes, c_int) -> c_int,
        status as "status": () -> c_int,
        set_status as "set_status": (c_int) -> c_int,
        set_reason as "set_reason": (Bytes) -> c_int,
        headers_sent as "headers_sent": () -> c_int,
        bypass_conditions as "bypass_conditions": () -> c_int,
    },
    functions: &[("headers", function(headers))],
};

/// `name` with `-` for `_`, unless `lua_transform_underscores_in_response_headers` is off.
fn dashed<'a>(req: &Request, name: &'a [u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    if !name.contains(&b'_')
        || req.module_conf(&settings::MODULE).lua_transform_underscores_in_response_headers == Some(false)
    {
        return name;
    }
    out.extend(name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }));
    out
}

/// Appends the content type with its charset, as the field shows it; answers whether there is one.
fn write_content_type(response: &Response, out: &mut Vec<u8>) -> bool {
    if response.content_type.is_empty() {
        return false;
    }
    out.extend_from_slice(&response.content_type);
    if !response.charset.is_empty() {
        out.extend_from_slice(b"; charset=");
        out.extend_from_slice(&response.charset);
    }
    true
}

/// Gives the value of a field. Answers how many values there are; several stand one behind the other after their lengths,
/// which are numbers of four bytes.
fn get(name: &[u8], out: &mut Vec<u8>) -> c_int {
    ffi_request(|_, req| {
        let mut dashes = Vec::new();
        let name = dashed(req, name, &mut dashes);
        get_field(&req.response.borrow(), name, out)
    })
}

fn get_field(response: &Response, name: &[u8], out: &mut Vec<u8>) -> c_int {
    match Known::of(name) {
        Known::ContentType if write_content_type(response, out) => return 1,
        Known::ContentLength => {
            if let Some(length) = response.content_length {
                out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
                return 1;
            }
        }
        Known::LastModified => {
            if let Some(seconds) = response.last_modified {
                out.extend_from_slice(&http_date(seconds));
                return 1;
            }
        }
        _ => {}
    }
    let mut values = response.fields.values_of_name(name);
    let Some(first) = values.next() else { return 0 };
    let Some(second) = values.next() else {
        out.extend_from_slice(first);
        return 1;
    };
    let all: SmallVec<[&[u8]; 8]> = [first, second].into_iter().chain(values).collect();
    for value in &all {
        out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(0).to_ne_bytes());
    }
    all.iter().for_each(|value| out.extend_from_slice(value));
    c_int::try_from(all.len()).unwrap_or(0)
}

/// Sets a field of the response. A null `value` takes the field away; without `replace` it is added to others of its
/// name.
fn set(name: &[u8], value: &[u8], replace: c_int) -> c_int {
    ffi_request(|run, req| {
        if req.header_sent() && run.phase() != crate::phase::Phase::HeaderFilter {
            run.host().log(LogLevel::Error, b"attempt to set ngx.header.HEADER after sending out response headers");
            return 0;
        }
        let (mut dashes, mut escaped_name, mut escaped_value) = (Vec::new(), Vec::new(), Vec::new());
        let name = escaped(dashed(req, name, &mut dashes), Kind::HeaderName, &mut escaped_name);
        let value = escaped(value, Kind::HeaderValue, &mut escaped_value);
        if set_field(req, name, value, replace != 0) { 0 } else { ffi_error(b"failed to set header") }
    })
}

/// Sets a field; an empty value takes it away. `false` for a value that the field cannot have.
pub(super) fn set_field(req: &Request, name: &[u8], value: &[u8], replace: bool) -> bool {
    let mut response = req.response.borrow_mut();
    let known = Known::of(name);
    match known {
        Known::ContentType => {
            response.content_type.clear();
            response.content_type.extend_from_slice(value);
            response.charset.clear();
            if value.is_empty() {
                req.context::<LuaContext>().no_default_type.set(true);
            }
            return true;
        }
        Known::ContentLength => {
            response.content_length = None;
            if value.is_empty() {
                return true;
            }
            response.content_length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            return response.content_length.is_some();
        }
        Known::LastModified => {
            response.fields.remove(known);
            response.last_modified = parse_http_date(value).filter(|&seconds| http_date(seconds) == *value);
            if response.last_modified.is_some() || value.is_empty() {
                return true;
            }
        }
        // nginx would make a local redirect absolute; what a script says stands.
        Known::Location => response.keep_location = true,
        _ => {}
    }
    if value.is_empty() {
        if replace || is_single(known) {
            response.fields.remove_name(name);
        }
    } else if replace || is_single(known) {
        response.fields.set(name, value);
    } else {
        response.fields.append(name, value);
    }
    true
}

/// Fields that have one value whatever is added.
fn is_single(known: Known) -> bool {
    matches!(
        known,
        Known::Server
            | Known::Date
            | Known::ContentEncoding
            | Known::Location
            | Known::Refresh
            | Known::LastModified
            | Known::ContentRange
            | Known::AcceptRanges
            | Known::WwwAuthenticate
            | Known::Expires
            | Known::ETag
    )
}

/// The status so far; 0 when nobody set it.
fn status() -> c_int {
    ffi_request(|_, req| {
        let response = req.response.borrow();
        match (req.flags().err_status.get(), response.status) {
            (0, 0) if req.head.borrow().version < (1, 0) => 9,
            (0, status) => status.into(),
            (status, _) => status.into(),
        }
    })
}

fn set_status(status: c_int) -> c_int {
    ffi_request(|run, req| {
        if req.header_sent() && run.phase() != crate::phase::Phase::HeaderFilter {
            run.host().log(LogLevel::Error, b"attempt to set ngx.status after sending out response headers");
            return 0;
        }
        let mut response = req.response.borrow_mut();
        req.flags().err_status.set(0);
        response.status = u16::try_from(status).unwrap_or(0);
        response.status_line.clear();
        if status == 101 {
            // The connection belongs to another protocol from now on.
            req.flags().keep_alive.set(false);
            response.status_line.extend_from_slice(b"Switching Protocols");
        }
        0
    })
}

/// Sets the words behind the status; they stay until the status is set again.
fn set_reason(reason: &[u8]) -> c_int {
    ffi_request(|run, req| {
        if req.header_sent() && run.phase() != crate::phase::Phase::HeaderFilter {
            return 0;
        }
        let mut response = req.response.borrow_mut();
        response.status_line.clear();
        response.status_line.extend(reason.iter().map(|&byte| if byte < b' ' { b' ' } else { byte }));
        0
    })
}

/// The request's conditions (`If-None-Match` and its kin) are left alone.
fn bypass_conditions() -> c_int {
    ffi_request(|_, req| {
        req.response.borrow_mut().conditions_are_tested = true;
        0
    })
}

/// In a header filter the head can still be changed.
fn headers_sent() -> c_int {
    ffi_request(|run, req| c_int::from(req.header_sent() && run.phase() != Phase::HeaderFilter))
}

/// `headers(max?, raw?)`: a table of the response's fields; the Lua half gives it its metatable.
fn headers(lua: &mut Lua) -> CResult {
    let max = if lua.is_none_or_nil(1) { FIELD_COUNT_MAX } else { lua.check_integer(1)? };
    let raw = lua.to_bool(2);
    let req = request(Phases::EVERYWHERE)?;
    let (fields, builtin) = {
        let response = req.response.borrow();
        (response.fields.clone(), builtin_fields(&req, &response))
    };
    drop(req);
    let list: Vec<(&[u8], &[u8])> = builtin
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()))
        .chain(fields.iter().map(|(name, value, _)| (name, value)))
        .collect();
    push_fields(lua, list.into_iter(), max, raw, "response")
}

/// Fields that the server itself adds.
fn builtin_fields(req: &Request, response: &Response) -> Vec<(&'static str, Vec<u8>)> {
    let mut list = Vec::new();
    let mut content_type = Vec::new();
    if write_content_type(response, &mut content_type) {
        list.push(("content-type", content_type));
    }
    if let Some(length) = response.content_length {
        list.push(("content-length", length.to_string().into_bytes()));
    }
    if let Some(seconds) = response.last_modified {
        list.push(("last-modified", http_date(seconds).to_vec()));
    }
    let connection: &[u8] = match (response.status, req.flags().keep_alive.get()) {
        (101, _) => b"upgrade",
        (_, true) => b"keep-alive",
        (_, false) => b"close",
    };
    list.push(("connection", connection.to_vec()));
    if response.chunked {
        list.push(("transfer-encoding", b"chunked".to_vec()));
    }
    list
}
