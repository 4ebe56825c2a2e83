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
    output::Closed,
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
        let version = self.head.borrow().version;
        // A head that could not be read has no version; its sender understands an answer all the same.
        if version < (1, 0) && !self.flags().malformed.get() {
            // HTTP/0.9 has no heads.
            self.flags().keep_alive.set(false);
            return Ok(());
        }
        let is_made_absolute = self.make_location_absolute();
        let conf = self.http_conf();
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
        if response.status == 204 {
            response.content_type.clear();
        }
        if !matches!(response.status, 200 | 206 | 304) {
            // The time of an error page's file says nothing about what was asked for.
            response.last_modified = None;
        }
        let upgrade = response.status == 101;
        if crate::worker::is_quitting() {
            self.flags().keep_alive.set(false);
        }
        if self.level_id() == self.config_server().level {
            // No location was looked for.
            self.limit_keep_alive();
        }
        let keep_alive = self.flags().keep_alive.get();
        let response = &mut *response;
        let location = response.fields.get(Known::Location).filter(|_| is_made_absolute).map(<[u8]>::to_vec);
        if location.is_some() {
            response.fields.remove(Known::Location);
        }
        let mut parts = ResponseParts::new(response.status, &response.fields);
        parts.reason = (!response.status_line.is_empty()).then_some(response.status_line.as_slice());
        let own_server = response.fields.contains(Known::Server);
        parts.server = (!own_server && !response.omit_server).then(|| server_token(conf.server_tokens));
        let has_date = !response.fields.contains(Known::Date) && !response.omit_date;
        parts.content_type = (!response.content_type.is_empty()).then_some(&response.content_type);
        parts.charset = (!response.charset.is_empty()).then_some(&response.charset);
        parts.content_length = response.content_length.filter(|_| response.status != 204 && !upgrade);
        response.body_left = parts.content_length.filter(|_| has_body && !response.chunked);
        parts.last_modified = response.last_modified;
        parts.location = location.as_deref();
        parts.chunked = response.chunked;
        parts.connection = match (upgrade, keep_alive) {
            (true, _) => ConnectionField::Upgrade,
            (_, true) => ConnectionField::KeepAlive,
            (_, false) => ConnectionField::Close,
        };
        parts.keep_alive_timeout = self.keepalive_conf().header_seconds();
        parts.vary_accept_encoding = response.vary_accept_encoding;
        let mut output = self.client.output().borrow_mut();
        if output.buf.capacity() == 0 {
            output.buf = buffers::take();
        }
        let before = output.len();
        write_parts(&parts, has_date.then_some(clock::http_date), clock::now_unix(), &mut output.buf);
        response.header_bytes = output.len() - before;
        if conf.postpone_output.is_some_and(|bytes| output.len() >= bytes as u64) {
            // Whoever sets the limit has a head as long as that leave by itself, as nginx does: the next write then finds
            // out that the client has gone. By default the head waits for the body's first piece.
            output.flush = true;
            drop(output);
            self.client.write_now().map_err(|_| Closed)?;
        }
        if let Some(location) = location {
            response.fields.set_known(Known::Location, &location);
        }
        Ok(())
    }

    /// `Location: /path` becomes `Location: scheme://host/path`, unless `absolute_redirect off`; answers whether it did.
    fn make_location_absolute(&self) -> bool {
        let conf = self.http_conf();
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

/// The beginning of the last head that this thread wrote. Most heads begin as the one before.
struct HeadStart {
    status: u16,
    /// Second that `Date` shows.
    second: i64,
    server: Vec<u8>,
    content_type: Vec<u8>,
    text: Vec<u8>,
}

thread_local! {
    static HEAD_START: RefCell<HeadStart> = const {
        RefCell::new(HeadStart { status: 0, second: 0, server: Vec::new(), content_type: Vec::new(), text: Vec::new() })
    };
}

/// Writes a head, its beginning out of memory if it can; `date` tells the date of `second` where there is to be one.
fn write_parts<D: Deref<Target = [u8]>>(
    parts: &ResponseParts<'_>,
    date: Option<impl FnOnce() -> D>,
    second: i64,
    out: &mut Vec<u8>,
) {
    let (None, Some(server), Some(content_type), None, true) =
        (parts.reason, parts.server, parts.content_type, parts.charset, date.is_some())
    else {
        let date = date.map(|date| date());
        return ResponseParts { date: date.as_deref(), ..*parts }.write(out);
    };
    HEAD_START.with_borrow_mut(|start| {
        let is_same = start.status == parts.status
            && start.second == second
            && start.server == server
            && start.content_type == content_type;
        if !is_same {
            (start.status, start.second) = (parts.status, second);
            server.clone_into(&mut start.server);
            content_type.clone_into(&mut start.content_type);
            start.text.clear();
            let date = date.map(|date| date());
            ResponseParts { date: date.as_deref(), ..*parts }.write_start(&mut start.text);
        }
        out.extend_from_slice(&start.text);
    });
    parts.write_rest(out);
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
            write_parts(&parts, Some(|| date), second, &mut written);
            assert_eq!(written, expected);
        }
    }
}
