//! Lines of the error log that tell which request they are about.

use std::{fmt, fmt::Write, rc::Rc};

use bstr::BStr;
use tidegate_net::rare::{Many, Rare};

use crate::{
    clock,
    connection::Connection,
    log::{ErrorLog, Level, Line},
    request::Request,
};

/// Calls `use_log` with the log that a request's lines go to: that of its level, of the top level, of the process, which has
/// what the top level lacks.
fn with_log<T>(req: &Request, use_log: impl FnOnce(&ErrorLog) -> T) -> T {
    match req
        .http_conf()
        .error_log
        .as_ref()
        .or_else(|| req.conf().main().error_log.as_ref().filter(|log| log.has_file()))
    {
        Some(log) => use_log(log),
        None => use_log(&crate::log::main()),
    }
}

/// Whether lines of this level are written for a request: nothing is worth formatting otherwise.
#[inline]
pub fn enabled(req: &Request, level: Level) -> bool {
    (level != Level::Debug || crate::log::any_debug()) && with_log(req, |log| log.enabled(level))
}

/// The most talkative level that is written for a request; nothing when there is no target.
pub fn level(req: &Request) -> Option<Level> {
    with_log(req, ErrorLog::level)
}

/// Writes a line with the request's context: client, server, request line, sub-request, host.
pub fn write_for_request(req: &Request, level: Level, message: fmt::Arguments<'_>) {
    with_log(req, |log| {
        if log.enabled(level) {
            log.write(level, Some(req.connection().number), message, |line| append_context(req, line));
        }
    });
}

/// As [`write_for_request`], for a message of bytes (`ngx.log`).
pub fn write_bytes_for_request(req: &Request, level: Level, message: &[u8]) {
    with_log(req, |log| {
        if log.enabled(level) {
            log.write_bytes(level, Some(req.connection().number), message, |line| append_context(req, line));
        }
    });
}

/// Appends the context as nginx does.
///
/// Source: nginx, `ngx_http_log_error_handler`.
fn append_context(req: &Request, line: &mut Line<'_>) {
    let main = req.main();
    // `Line` takes everything.
    let _ = write!(line, ", client: {}", req.peer());
    let _ = write!(line, ", server: {}", main.config_server().name);
    let head = main.head.borrow();
    let request_line = head.request_line();
    if !request_line.is_empty() {
        let _ = write!(line, ", request: \"{}\"", BStr::new(request_line));
    }
    if req.is_subrequest() {
        let _ = write!(line, ", subrequest: \"{}\"", BStr::new(&req.uri.borrow().path));
    }
    if let Some(upstream) = req.upstream_for_log() {
        let _ = write!(line, ", upstream: \"{}\"", BStr::new(&upstream));
    }
    if let Some(host) = head.fields.get(tidegate_http::Known::Host) {
        let _ = write!(line, ", host: \"{}\"", BStr::new(host));
    }
    if let Some(referer) = head.fields.get(tidegate_http::Known::Referer) {
        let _ = write!(line, ", referrer: \"{}\"", BStr::new(referer));
    }
}

/// What a module is talking to for a request; shown in the error log.
#[derive(Debug, Default)]
pub struct UpstreamForLog(pub std::cell::RefCell<Vec<u8>>);

impl Request {
    fn upstream_for_log(&self) -> Option<Vec<u8>> {
        if let Some(shown) = self.find_context::<UpstreamForLog>() {
            let text = shown.0.borrow().clone();
            return (!text.is_empty()).then_some(text);
        }
        self.upstream_in_log()
    }

    /// Sets what the error log shows as `upstream:` from now on; empty for nothing.
    pub fn show_upstream_in_log(&self, text: &[u8]) {
        let shown: Rc<UpstreamForLog> = self.context();
        *shown.0.borrow_mut() = text.to_vec();
    }
}

/// Calls `use_log` with the log of a connection that has no request yet: that of the default server of its port.
fn with_log_of_connection<T>(conn: &Connection, use_log: impl FnOnce(&ErrorLog) -> T) -> T {
    let config = conn.config();
    let of_server = config.listens.get(conn.port).and_then(|_| conn.default_level().core.http.error_log.as_ref());
    match of_server.or_else(|| config.main().error_log.as_ref().filter(|log| log.has_file())) {
        Some(log) => use_log(log),
        None => use_log(&crate::log::main()),
    }
}

/// Whether lines of this level are written for a connection that has no request yet.
pub fn enabled_for_connection(conn: &Connection, level: Level) -> bool {
    (level != Level::Debug || crate::log::any_debug()) && with_log_of_connection(conn, |log| log.enabled(level))
}

/// Writes a line about a connection that has no request yet.
pub fn write_for_connection(conn: &Connection, level: Level, message: fmt::Arguments<'_>) {
    with_log_of_connection(conn, |log| {
        if log.enabled(level) {
            log.write(level, Some(conn.number), message, |line| append_connection(conn, line));
        }
    });
}

/// Counts something that a client has done and that should be rare. When it is not, the log has a line, of the client too that did it last.
pub fn count_for_connection(conn: &Connection, rare: &Rare, what: &str) {
    if let Some(Many { count, seconds, total }) = rare.count(clock::steady_ms()) {
        write_for_connection(
            conn,
            Level::Warn,
            format_args!("{count} {what} within {seconds} s, {total} since the start; level \"info\" tells of each"),
        );
    }
}

/// As [`write_for_connection`], for a message of bytes (`ngx.log`) in a context that the line names.
pub fn write_bytes_for_connection(conn: &Connection, level: Level, message: &[u8], context: &str) {
    with_log_of_connection(conn, |log| {
        if log.enabled(level) {
            log.write_bytes(level, Some(conn.number), message, |line| {
                // `Line` takes everything.
                let _ = write!(line, ", context: {context}");
                append_connection(conn, line);
            });
        }
    });
}

fn append_connection(conn: &Connection, line: &mut Line<'_>) {
    // `Line` takes everything.
    let _ = write!(line, ", client: {}", conn.peer);
    if let Some(address) = conn.listen_addr() {
        let _ = write!(line, ", server: {address}");
    }
}
