//! The variables that every request has: `$uri`, `$args`, `$http_*` and so on.
//!
//! Source: nginx, "Embedded Variables" of `ngx_http_core_module`.

use std::{cell::OnceCell, io::Write, rc::Rc};

use bstr::ByteSlice;
use tidegate_http::Known;

use crate::{clock, output::Progress, request::Request, variable::VariableDef};

mod connection;

/// The core's variables.
pub(crate) static VARIABLES: &[VariableDef] = &[
    VariableDef::changeable("args", args, set_args, "Arguments."),
    VariableDef::new("query_string", args, "The same as $args."),
    VariableDef::new("is_args", is_args, "\"?\" if there are arguments."),
    VariableDef::new("uri", uri, "Path, decoded and normalised."),
    VariableDef::new("document_uri", uri, "The same as $uri."),
    VariableDef::new("request_uri", request_uri, "Target as the client sent it."),
    VariableDef::new("request", request_line, "Request line."),
    VariableDef::new("request_method", request_method, "Method."),
    VariableDef::new("server_protocol", |req, _, out| put(out, req.main().head.borrow().protocol()), "Protocol."),
    VariableDef::new("host", host, "Host of the request, or the server's name."),
    VariableDef::new("request_port", request_port, "Port that the request names behind its host."),
    VariableDef::new("is_request_port", is_request_port, "A colon if the request names a port."),
    VariableDef::new("hostname", |_, _, out| put(out, hostname().as_bytes()), "Name of the machine."),
    VariableDef::new("scheme", |req, _, out| put(out, req.scheme().as_bytes()), "http or https."),
    VariableDef::new("server_name", |req, _, out| put(out, &req.config_server().name), "Name of the server."),
    VariableDef::new("server_port", connection::server_port, "Port that accepted the connection."),
    VariableDef::new("server_addr", connection::server_addr, "Address that accepted the connection."),
    VariableDef::new("remote_addr", connection::remote_addr, "Address of the client."),
    VariableDef::new("remote_port", connection::remote_port, "Port of the client."),
    VariableDef::new("binary_remote_addr", connection::binary_remote_addr, "Address of the client, 4 or 16 bytes."),
    VariableDef::new("remote_user", remote_user, "Name given for Basic authentication."),
    VariableDef::new("connection", |req, _, out| number(out, req.connection().number), "Number of the connection."),
    VariableDef::new(
        "connection_requests",
        |req, _, out| number(out, req.number()),
        "Requests of the connection so far.",
    ),
    VariableDef::new("connection_time", connection::time, "Seconds since the connection was made."),
    VariableDef::new("proxy_protocol_addr", connection::proxy_addr, "Client of the PROXY protocol's header."),
    VariableDef::new(
        "proxy_protocol_port",
        connection::proxy_port,
        "Port of the client in the header of the PROXY protocol.",
    ),
    VariableDef::new("proxy_protocol_server_addr", connection::proxy_server_addr, "Server of that header."),
    VariableDef::new(
        "proxy_protocol_server_port",
        connection::proxy_server_port,
        "Port of the server in the header of the PROXY protocol.",
    ),
    VariableDef::new("proxy_protocol_tlv_", connection::proxy_tlv, "A value of that header, e.g. alpn or 0x01."),
    VariableDef::new("tcpinfo_rtt", connection::tcpinfo_rtt, "Round-trip time that the kernel measured, in us."),
    VariableDef::new("tcpinfo_rttvar", connection::tcpinfo_rttvar, "Variance of the round-trip time, in us."),
    VariableDef::new("tcpinfo_snd_cwnd", connection::tcpinfo_snd_cwnd, "Congestion window, in packets."),
    VariableDef::new("tcpinfo_rcv_space", connection::tcpinfo_rcv_space, "Receive buffer, in bytes."),
    VariableDef::new("request_id", request_id, "32 random hexadecimal digits."),
    VariableDef::new("request_completion", request_completion, "\"OK\" when the response was complete."),
    VariableDef::new("status", status, "Status of the response."),
    VariableDef::new("body_bytes_sent", body_bytes_sent, "Bytes of the response's body."),
    VariableDef::new("bytes_sent", bytes_sent, "Bytes of the response."),
    VariableDef::new("request_time", request_time, "Seconds since the first byte of the request."),
    VariableDef::new("msec", |_, _, out| seconds(out, clock::now_ms()), "Seconds since 1970."),
    VariableDef::new(
        "time_local",
        |_, _, out| put(out, clock::local_time().as_str().as_bytes()),
        "Local time, in the format of access logs.",
    ),
    VariableDef::new(
        "time_iso8601",
        |_, _, out| put(out, clock::iso8601_time().as_str().as_bytes()),
        "Local time, in the format of ISO 8601.",
    ),
    VariableDef::new("pid", |_, _, out| number(out, u64::from(std::process::id())), "Number of the process."),
    VariableDef::new(
        "nginx_version",
        |_, _, out| put(out, crate::NGINX_VERSION.as_bytes()),
        "Version of nginx that the server is compatible with.",
    ),
    VariableDef::new("request_length", request_length, "Bytes of the request: its head and what was read of its body."),
    VariableDef::new("pipe", pipe, "\"p\" if the request was sent before the answer to the one before it."),
    VariableDef::new("content_length", content_length, "Content-Length of the request."),
    VariableDef::new("content_type", |req, _, out| field(req, Known::ContentType, out), "Content-Type of the request."),
    VariableDef::new("request_body_file", request_body_file, "Path of the file that holds the request's body."),
    VariableDef::new("request_body", request_body, "Body of the request, if it was read into memory."),
    VariableDef::new("arg_", arg, "An argument."),
    VariableDef::new("http_", http, "A field of the request."),
    VariableDef::new("sent_http_", sent_http, "A field of the response."),
    VariableDef::new("sent_trailer_", sent_trailer, "A field that was sent behind the response's body."),
    VariableDef::new("cookie_", cookie, "A cookie of the request."),
];

fn set_args(req: &Rc<Request>, _: &[u8], value: &[u8]) {
    let mut uri = req.uri.borrow_mut();
    uri.args.clear();
    uri.args.extend_from_slice(value);
    req.flags().uri_rewritten.set(true);
}

fn put(out: &mut Vec<u8>, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    true
}

fn number(out: &mut Vec<u8>, value: u64) -> bool {
    put(out, itoa::Buffer::new().format(value).as_bytes())
}

/// Appends milliseconds as seconds with three digits.
fn seconds(out: &mut Vec<u8>, ms: u64) -> bool {
    write!(out, "{}.{:03}", ms / 1000, ms % 1000).is_ok()
}

fn field(req: &Request, known: Known, out: &mut Vec<u8>) -> bool {
    match req.head.borrow().fields.get(known) {
        Some(value) => put(out, value),
        None => false,
    }
}

fn uri(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let uri = req.uri.borrow();
    // A target that makes no sense has an empty path, none has no path.
    (!uri.path.is_empty() || !req.main().uri.borrow().unparsed.is_empty()) && put(out, &uri.path)
}

fn args(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let uri = req.uri.borrow();
    !uri.args.is_empty() && put(out, &uri.args)
}

fn is_args(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if !req.uri.borrow().args.is_empty() {
        out.push(b'?');
    }
    true
}

fn request_uri(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let main = req.main();
    let uri = main.uri.borrow();
    !uri.unparsed.is_empty() && put(out, &uri.unparsed)
}

fn request_method(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    // nginx shows the main request's method here, in sub-requests too.
    let main = req.main();
    let head = main.head.borrow();
    let method = main.method_text(&head);
    !method.is_empty() && put(out, method)
}

fn host(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let head = req.head.borrow();
    put(out, if head.host().is_empty() { &req.config_server().name } else { head.host() })
}

/// `$request_port`: from the request line, or else from `Host`.
///
/// Source: nginx 1.29, `ngx_http_core_module`.
fn request_port(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let main = req.main();
    let head = main.head.borrow();
    let target = head.request_line().split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let authority = match target.split_once_str(b"://") {
        // A target in absolute form.
        Some((_, rest)) if target[0] != b'/' => rest.split(|byte| matches!(byte, b'/' | b'?')).next(),
        _ => head.fields.get(Known::Host),
    };
    let Some((_, port)) = authority.and_then(|text| text.rsplit_once_str(b":")) else { return false };
    !port.is_empty() && port.iter().all(u8::is_ascii_digit) && put(out, port)
}

fn is_request_port(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    if request_port(req, name, &mut Vec::new()) {
        out.push(b':');
    }
    true
}

/// Name of the machine.
pub(crate) fn hostname() -> &'static str {
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    NAME.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_lowercase()).unwrap_or_default()
    })
}

/// `$remote_user`: what stands before the colon in `Authorization: Basic`.
fn remote_user(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let head = req.main().head.borrow();
    match head.fields.get(Known::Authorization).and_then(tidegate_http::basic_auth::credentials) {
        Some((user, _)) => put(out, &user),
        None => false,
    }
}

/// `$request_id`: made when first asked for.
#[derive(Default)]
struct RequestId(OnceCell<[u8; 16]>);

fn request_id(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let id = req.lasting_context::<RequestId>();
    let bytes = id.0.get_or_init(|| {
        let mut bytes = [0; 16];
        // The system always has some; were it ever not so, an identifier of zeros harms nobody.
        let _ = getrandom::fill(&mut bytes);
        bytes
    });
    write!(out, "{:032x}", u128::from_be_bytes(*bytes)).is_ok()
}

fn request_completion(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    if req.response.borrow().progress == Progress::Ended && !req.client.is_broken() {
        out.extend_from_slice(b"OK");
    }
    true
}

fn request_body_file(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    use std::os::unix::ffi::OsStrExt;
    match &*req.body.file.borrow() {
        Some(file) => put(out, file.path().as_os_str().as_bytes()),
        None => false,
    }
}

fn status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    // In an error page's text it is the status that the page is for. Source: nginx, `ngx_http_variable_status`.
    let status = match req.flags().err_status.get() {
        0 => req.response.borrow().status,
        status => status,
    };
    match status {
        0 if req.head.borrow().version < (1, 0) => put(out, b"009"),
        0 => put(out, b"000"),
        status => write!(out, "{status:03}").is_ok(),
    }
}

fn body_bytes_sent(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    number(out, req.response.borrow().body_bytes)
}

fn bytes_sent(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let response = req.response.borrow();
    number(out, response.header_bytes + response.body_bytes)
}

fn request_time(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    seconds(out, clock::steady_ms().saturating_sub(req.start_ms.get()))
}

fn request_line(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let main = req.main();
    let head = main.head.borrow();
    // Without sense in a head that came in frames there is no line.
    let is_missing = head.request_line().is_empty() && main.client.http2_stream().is_some();
    !is_missing && put(out, head.request_line())
}

fn request_length(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let req = req.main();
    number(out, req.client.head_bytes(req.head.borrow().read_bytes()) + req.body.received_bytes())
}

fn pipe(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    put(out, if req.main().flags().pipelined.get() { b"p" } else { b"." })
}

fn content_length(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let main = req.main();
    // A body in chunks has a length when all of it has come.
    let has_length = main.body.is_loaded() && main.body.is_consumed() && main.head.borrow().chunked;
    field(req, Known::ContentLength, out) || has_length && number(out, main.body.received_bytes())
}

fn request_body(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let has_memory = req.body.file.borrow().is_none() && !req.body.memory.borrow().is_empty();
    has_memory && put(out, &req.body.memory.borrow())
}

/// `$arg_name`: the first argument of that name, any case.
fn arg(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let uri = req.uri.borrow();
    for pair in uri.args.split(|&b| b == b'&') {
        if pair.len() > name.len() && pair[name.len()] == b'=' && pair[..name.len()].eq_ignore_ascii_case(name) {
            return put(out, &pair[name.len() + 1..]);
        }
    }
    false
}

/// `$http_name`: all fields of that name; several are joined with commas.
fn http(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let head = req.head.borrow();
    let separator: &[u8] = if name == b"cookie" { b"; " } else { b", " };
    join(head.fields.iter_underscored(name), separator, out)
}

fn sent_trailer(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    join(req.response.borrow().trailers.iter_underscored(name), b", ", out)
}

fn sent_http(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let response = req.response.borrow();
    match name {
        b"content_type" if !response.content_type.is_empty() => {
            put(out, &response.content_type);
            if !response.charset.is_empty() {
                put(out, b"; charset=");
                put(out, &response.charset);
            }
            true
        }
        b"content_length" if response.content_length.is_some() => {
            response.content_length.is_some_and(|length| number(out, length))
        }
        b"last_modified" if response.last_modified.is_some() => {
            response.last_modified.is_some_and(|seconds| put(out, &tidegate_http::date::http_date(seconds)))
        }
        b"transfer_encoding" if response.chunked => put(out, b"chunked"),
        b"connection" if response.status == 101 => put(out, b"upgrade"),
        b"connection" => put(out, if req.flags().keep_alive.get() { b"keep-alive" } else { b"close" }),
        _ => join(response.fields.iter_underscored(name), b", ", out),
    }
}

fn join<'a>(values: impl Iterator<Item = &'a [u8]>, separator: &[u8], out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for value in values {
        if found {
            out.extend_from_slice(separator);
        }
        found = true;
        out.extend_from_slice(value);
    }
    found
}

/// `$cookie_name`: the value of a cookie, any case.
fn cookie(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let head = req.head.borrow();
    for line in head.fields.iter_known(Known::Cookie) {
        for pair in line.split(|&b| b == b';') {
            let pair = pair.trim_ascii();
            if let Some(at) = memchr::memchr(b'=', pair)
                && pair[..at].trim_ascii_end().eq_ignore_ascii_case(name)
            {
                return put(out, pair[at + 1..].trim_ascii());
            }
        }
    }
    false
}
