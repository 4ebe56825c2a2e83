//! The head of a response as it is written.
//!
//! Source: nginx, `ngx_http_header_filter`.

use std::{cell::RefCell, ops::Deref, rc::Rc};

use tidegate_http::{
    Known,
    response::{ConnectionField, ResponseParts},
};
use tidegate_net::{Peer, buffers};

use crate::{
    clock,
    http_core::Conf,
    log::Level,
    output::{Closed, Response},
    product::product,
    request::{Request, Sink},
};

impl Request {
    /// Decides how the body is framed and writes the head.
    pub(crate) fn write_head(self: &Rc<Self>) -> Result<(), Closed> {
        if !matches!(self.sink, Sink::Client) {
            return Ok(());
        }
        self.begin_throttle();
        let conf = self.http_conf();
        if self.client.http2_stream().is_none() && !self.choose_framing(conf) {
            return Ok(());
        }
        self.judge_tunnel();
        let is_made_absolute = self.make_location_absolute(conf);
        let mut response = self.response.borrow_mut();
        let response = &mut *response;
        if response.status < 200 && !(response.status == 101 && response.header_only) {
            // A filter has set it.
            self.refuse_interim(response);
        }
        if response.status == 204 {
            response.content_type.clear();
        }
        if !matches!(response.status, 200 | 206 | 304) {
            // The time of an error page's file says nothing about what was asked for.
            response.last_modified = None;
        }
        let location = is_made_absolute.then(|| response.fields.get(Known::Location).map(<[u8]>::to_vec)).flatten();
        if location.is_some() {
            response.fields.remove(Known::Location);
        }
        let mut parts = self.head_parts(conf, response, location.as_deref());
        let body_left = parts.content_length.filter(|_| !response.header_only && !response.chunked);
        let has_date = !response.fields.contains(Known::Date) && !response.omit_date;
        let date = has_date.then_some(clock::http_date);
        let written = match self.client.http2_stream() {
            None => {
                parts.connection = match (response.status, self.flags().keep_alive.get()) {
                    (101, _) => ConnectionField::Upgrade,
                    (_, true) => ConnectionField::KeepAlive,
                    (_, false) => ConnectionField::Close,
                };
                parts.keep_alive_timeout = self.keepalive_conf().header_seconds();
                self.write_lines(conf, &parts, date)
            }
            Some(stream) => {
                if parts.status == 101 {
                    // Source: RFC 8441, section 5.
                    parts.status = 200;
                }
                Ok(stream.send_head(self.level().core.http2.chunk_bytes(), |out| {
                    BLOCK_START.with_borrow_mut(|start| start.encode(&parts, date, out))
                }))
            }
        };
        response.body_left = body_left;
        if let Some(location) = location {
            response.fields.set_known(Known::Location, &location);
        }
        response.header_bytes = written?;
        Ok(())
    }

    /// A client that wants to speak another protocol on a stream takes any success for leave to do so.
    fn judge_tunnel(&self) {
        if !self.client.http2_stream().is_some_and(|stream| stream.is_tunnel()) {
            return;
        }
        let mut response = self.response.borrow_mut();
        match response.status {
            101 => {
                response.fields.remove_name(b"sec-websocket-accept");
            }
            status @ 200..=299 => {
                response.status = 501;
                response.status_line.clear();
                self.log(
                    Level::Error,
                    format_args!("a request for another protocol gets {status}, 501 is sent instead"),
                );
            }
            _ => {}
        }
    }

    /// A response begins whose status says that another will follow. None will, except after 101: what the client takes for
    /// that would be the response to its next request, and over HTTP/2 a fault of the whole connection.
    #[cold]
    pub(crate) fn begin_interim(&self, response: &mut Response) {
        if !matches!(self.sink, Sink::Client) {
            return;
        }
        if response.status == 101 && self.client.http2_stream().is_none_or(|stream| stream.is_tunnel()) {
            // What follows is no HTTP, even if nobody takes the connection over.
            self.flags().keep_alive.set(false);
        } else {
            self.refuse_interim(response);
        }
    }

    /// Makes the status of a response that says that another will follow 500.
    #[cold]
    pub(crate) fn refuse_interim(&self, response: &mut Response) {
        let status = std::mem::replace(&mut response.status, 500);
        response.status_line.clear();
        self.log(Level::Error, format_args!("a response ends with the interim status {status}, 500 is sent instead"));
    }

    /// Decides how a client that speaks HTTP/1 learns where the body ends; `false` for HTTP/0.9, which has no heads.
    fn choose_framing(&self, conf: &Conf) -> bool {
        let version = self.head.borrow().version;
        // A head that could not be read has no version; its sender understands an answer all the same.
        if version < (1, 0) && !self.flags().malformed.get() {
            self.flags().keep_alive.set(false);
            return false;
        }
        let mut response = self.response.borrow_mut();
        let has_body = !response.header_only;
        let may_chunk = version >= (1, 1) && conf.chunked_transfer_encoding != Some(false);
        if has_body && response.expect_trailers && may_chunk {
            response.content_length = None;
        }
        if has_body && response.content_length.is_none() {
            if may_chunk {
                response.chunked = true;
            } else {
                self.flags().keep_alive.set(false);
            }
        }
        if crate::worker::is_quitting() {
            self.flags().keep_alive.set(false);
        }
        if self.level_id() == self.config_server().level {
            // No location was looked for.
            self.limit_keep_alive();
        }
        true
    }

    /// What the head says, but for the connection and the date.
    fn head_parts<'r>(&self, conf: &Conf, response: &'r Response, location: Option<&'r [u8]>) -> ResponseParts<'r> {
        let own_server = response.fields.contains(Known::Server);
        ResponseParts {
            reason: (!response.status_line.is_empty()).then_some(response.status_line.as_slice()),
            server: (!own_server && !response.omit_server).then(|| server_token(conf.server_tokens)),
            content_type: (!response.content_type.is_empty()).then_some(&response.content_type),
            charset: (!response.charset.is_empty()).then_some(&response.charset),
            content_length: response.content_length.filter(|_| !matches!(response.status, 101 | 204)),
            last_modified: response.last_modified,
            location,
            chunked: response.chunked,
            vary_accept_encoding: response.vary_accept_encoding,
            ..ResponseParts::new(response.status, &response.fields)
        }
    }

    /// Queues the head as HTTP/1 has it; answers its length.
    fn write_lines<D: Deref<Target = [u8]>>(
        &self,
        conf: &Conf,
        parts: &ResponseParts<'_>,
        date: Option<impl FnOnce() -> D>,
    ) -> Result<u64, Closed> {
        let mut output = self.client.output().borrow_mut();
        if output.buf.capacity() == 0 {
            output.buf = buffers::take();
        }
        let before = output.len();
        LINES_START.with_borrow_mut(|start| start.write(parts, date, &mut output.buf));
        let written = output.len() - before;
        if conf.postpone_output.is_some_and(|bytes| output.len() >= bytes as u64) {
            // Whoever sets the limit has a head as long as that leave by itself, as nginx does: the next write then finds
            // out that the client has gone. By default the head waits for the body's first piece.
            output.flush = true;
            drop(output);
            self.client.write_now().map_err(|_| Closed)?;
        }
        Ok(written)
    }

    /// `Location: /path` becomes `Location: scheme://host/path`, unless `absolute_redirect off`; answers whether it did.
    fn make_location_absolute(&self, conf: &Conf) -> bool {
        if conf.absolute_redirect == Some(false) {
            return false;
        }
        let mut response = self.response.borrow_mut();
        if response.keep_location {
            return false;
        }
        let Some(path) = response.fields.get(Known::Location).filter(|value| value.starts_with(b"/")) else {
            return false;
        };
        let mut url = [self.scheme().as_bytes(), b"://"].concat();
        let port_default = if self.is_secure() { 443 } else { 80 };
        if conf.server_name_in_redirect == Some(true) {
            url.extend_from_slice(&self.config_server().name);
        } else {
            let head = self.head.borrow();
            if head.host().is_empty() {
                append_address(self, &mut url);
            } else {
                url.extend_from_slice(head.host());
            }
        }
        if conf.port_in_redirect != Some(false)
            && let Peer::Inet(address) = self.connection().local()
            && address.port() != port_default
        {
            url.push(b':');
            url.extend_from_slice(itoa::Buffer::new().format(address.port()).as_bytes());
        }
        url.extend_from_slice(path);
        response.fields.set_known(Known::Location, &url);
        true
    }
}

/// The beginning of the last head that this thread wrote in a protocol. Most heads begin as the one before.
struct HeadStart {
    status: u16,
    /// Second that `Date` shows.
    second: i64,
    server: Vec<u8>,
    content_type: Vec<u8>,
    bytes: Vec<u8>,
}

thread_local! {
    static LINES_START: RefCell<HeadStart> = const { RefCell::new(HeadStart::new()) };
    static BLOCK_START: RefCell<HeadStart> = const { RefCell::new(HeadStart::new()) };
}

impl HeadStart {
    const fn new() -> Self {
        HeadStart { status: 0, second: 0, server: Vec::new(), content_type: Vec::new(), bytes: Vec::new() }
    }

    /// Writes a head as lines, its beginning out of memory if it can; `date` tells the date where there is to be one.
    fn write<D: Deref<Target = [u8]>>(
        &mut self,
        parts: &ResponseParts<'_>,
        date: Option<impl FnOnce() -> D>,
        out: &mut Vec<u8>,
    ) {
        self.append(parts, date, clock::now_unix(), out, |parts, out| parts.write_start(out));
        parts.write_rest(out);
    }

    /// As [`write`](Self::write), as a header block.
    fn encode<D: Deref<Target = [u8]>>(
        &mut self,
        parts: &ResponseParts<'_>,
        date: Option<impl FnOnce() -> D>,
        out: &mut Vec<u8>,
    ) {
        self.append(parts, date, clock::now_unix(), out, |parts, out| parts.encode_start(out));
        parts.encode_rest(out);
    }

    /// Appends the beginning that `write_start` makes; that of the same head in the same second is at hand.
    #[inline]
    fn append<D: Deref<Target = [u8]>>(
        &mut self,
        parts: &ResponseParts<'_>,
        date: Option<impl FnOnce() -> D>,
        second: i64,
        out: &mut Vec<u8>,
        write_start: impl FnOnce(&ResponseParts<'_>, &mut Vec<u8>),
    ) {
        let (None, Some(server), Some(content_type), None, true) =
            (parts.reason, parts.server, parts.content_type, parts.charset, date.is_some())
        else {
            let date = date.map(|date| date());
            return write_start(&ResponseParts { date: date.as_deref(), ..*parts }, out);
        };
        let is_same = self.status == parts.status
            && self.second == second
            && self.server == server
            && self.content_type == content_type;
        if !is_same {
            (self.status, self.second) = (parts.status, second);
            server.clone_into(&mut self.server);
            content_type.clone_into(&mut self.content_type);
            self.bytes.clear();
            let date = date.map(|date| date());
            write_start(&ResponseParts { date: date.as_deref(), ..*parts }, &mut self.bytes);
        }
        out.extend_from_slice(&self.bytes);
    }
}

fn append_address(req: &Request, out: &mut Vec<u8>) {
    if let Peer::Inet(address) = req.connection().local() {
        use std::io::Write;
        let _ = write!(out, "{}", address.ip());
    }
}

fn server_token(server_tokens: Option<bool>) -> &'static [u8] {
    match server_tokens {
        Some(false) => product().name.as_bytes(),
        _ => product().name_and_version.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_begin_as_their_parts_say() {
        let fields = tidegate_http::Fields::new();
        let cases: [(u16, &[u8], i64, &[u8], Option<&[u8]>); 8] = [
            (200, b"text/plain", 1, b"one", None),
            (200, b"text/plain", 1, b"one", None),
            (200, b"text/html", 1, b"one", None),
            (201, b"text/html", 1, b"one", None),
            (201, b"text/html", 2, b"two", None),
            (201, b"text/html", 2, b"two", Some(b"utf-8")),
            (201, b"text/html", 2, b"two", None),
            (200, b"text/plain", 1, b"one", None),
        ];
        let mut start = HeadStart::new();
        for (status, content_type, second, date, charset) in cases {
            let parts = ResponseParts {
                server: Some(b"tidegate"),
                content_type: Some(content_type),
                charset,
                content_length: Some(2),
                ..ResponseParts::new(status, &fields)
            };
            let (mut expected, mut written) = (Vec::new(), Vec::new());
            ResponseParts { date: Some(date), ..parts }.write(&mut expected);
            start.append(&parts, Some(|| date), second, &mut written, |parts, out| parts.write_start(out));
            parts.write_rest(&mut written);
            assert_eq!(written, expected);
        }
    }
}
