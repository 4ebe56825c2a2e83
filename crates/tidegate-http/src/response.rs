//! Writing the head of a response.

use crate::date::http_date;
use crate::fields::Fields;
use crate::known::Known;
use crate::status::{write_status_line, write_status_line_with};

/// Everything that goes into the head of a response, in nginx's order.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParts<'a> {
    /// The status that the client sees.
    pub status: u16,
    /// Another text than nginx's own, as an upstream sent it.
    pub reason: Option<&'a [u8]>,
    /// `Server`; left out if `fields` has its own.
    pub server: Option<&'a [u8]>,
    /// `Date`, from a clock that formats once a second; left out if `fields` has its own.
    pub date: Option<&'a [u8]>,
    /// `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// Goes behind the content type, as `; charset=`.
    pub charset: Option<&'a [u8]>,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// `Last-Modified`, in seconds since 1970.
    pub last_modified: Option<i64>,
    /// `Location`.
    pub location: Option<&'a [u8]>,
    /// Whether the body goes in chunks.
    pub chunked: bool,
    /// Value of the field `Connection`.
    pub connection: ConnectionField,
    /// `Keep-Alive: timeout=`, in seconds; only with [`ConnectionField::KeepAlive`].
    pub keep_alive_timeout: Option<u64>,
    /// Whether to say `Vary: Accept-Encoding`.
    pub vary_accept_encoding: bool,
    /// All other fields.
    pub fields: &'a Fields,
}

/// The `Connection` field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// `close`.
    Close,
    /// `keep-alive`.
    KeepAlive,
    /// `upgrade`.
    Upgrade,
}

impl<'a> ResponseParts<'a> {
    /// A response with a status and fields, that closes the connection, and nothing else.
    pub fn new(status: u16, fields: &'a Fields) -> ResponseParts<'a> {
        ResponseParts {
            status,
            reason: None,
            server: None,
            date: None,
            content_type: None,
            charset: None,
            content_length: None,
            last_modified: None,
            location: None,
            chunked: false,
            connection: ConnectionField::Close,
            keep_alive_timeout: None,
            vary_accept_encoding: false,
            fields,
        }
    }

    /// Appends the head, with the empty line that ends it, to `out`.
    ///
    /// Values are written as they are: whoever takes them from outside has to refuse CR and LF, see [`is_safe_value`].
    ///
    /// Source: nginx, `ngx_http_header_filter`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_start(out);
        self.write_rest(out);
    }

    /// Appends the beginning of the head: status, reason, `Server`, `Date` and content type with charset.
    pub fn write_start(&self, out: &mut Vec<u8>) {
        match self.reason {
            Some(reason) => write_status_line_with(self.status, reason, out),
            None => write_status_line(self.status, out),
        }
        if let Some(server) = self.server {
            write_field(b"Server", server, out);
        }
        if let Some(date) = self.date {
            write_field(b"Date", date, out);
        }
        if let Some(content_type) = self.content_type {
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(content_type);
            if let Some(charset) = self.charset {
                out.extend_from_slice(b"; charset=");
                out.extend_from_slice(charset);
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends the rest of the head, with the empty line that ends it.
    pub fn write_rest(&self, out: &mut Vec<u8>) {
        if let Some(length) = self.content_length {
            write_number_field(b"Content-Length: ", length, out);
        }
        if let Some(seconds) = self.last_modified {
            write_field(b"Last-Modified", &http_date(seconds), out);
        }
        if let Some(location) = self.location {
            write_field(b"Location", location, out);
        }
        if self.chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        out.extend_from_slice(match self.connection {
            ConnectionField::Close => b"Connection: close\r\n",
            ConnectionField::KeepAlive => b"Connection: keep-alive\r\n",
            ConnectionField::Upgrade => b"Connection: upgrade\r\n",
        });
        if let (ConnectionField::KeepAlive, Some(seconds)) = (self.connection, self.keep_alive_timeout) {
            write_number_field(b"Keep-Alive: timeout=", seconds, out);
        }
        if self.vary_accept_encoding {
            out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        write_fields(self.fields, out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends one field as a line.
#[inline]
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends fields as lines, in their order. An empty `Server` or `Date` says that there is to be none.
pub fn write_fields(fields: &Fields, out: &mut Vec<u8>) {
    for (name, value, known) in fields.iter() {
        if !value.is_empty() || !matches!(known, Known::Server | Known::Date) {
            write_field(name, value, out);
        }
    }
}

#[inline]
fn write_number_field(prefix: &[u8], number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(prefix);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Whether a value can stand in a header line: without CR, LF and NUL.
pub fn is_safe_value(value: &[u8]) -> bool {
    memchr::memchr3(b'\r', b'\n', 0, value).is_none()
}

/// Whether a name can stand in a header line: a token of RFC 9110.
pub fn is_safe_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_heads() {
        let mut fields = Fields::new();
        fields.append(b"X-A", b"1");
        fields.append(b"ETag", b"\"x\"");
        let mut out = Vec::new();
        let plain = ResponseParts::new(404, &fields);
        plain.write(&mut out);
        assert_eq!(out, b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nX-A: 1\r\nETag: \"x\"\r\n\r\n");

        out.clear();
        let full = ResponseParts {
            reason: Some(b"Fine"),
            server: Some(b"nginx"),
            date: Some(b"now"),
            content_type: Some(b"text/plain"),
            charset: Some(b"utf-8"),
            content_length: Some(12),
            last_modified: Some(784_111_777),
            location: Some(b"/x"),
            chunked: true,
            connection: ConnectionField::KeepAlive,
            keep_alive_timeout: Some(60),
            vary_accept_encoding: true,
            ..plain
        };
        full.write(&mut out);
        let expected = "HTTP/1.1 404 Fine\r\nServer: nginx\r\nDate: now\r\nContent-Type: text/plain; charset=utf-8\r\n\
            Content-Length: 12\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nLocation: /x\r\n\
            Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nKeep-Alive: timeout=60\r\n\
            Vary: Accept-Encoding\r\nX-A: 1\r\nETag: \"x\"\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn knows_what_is_safe() {
        assert!(is_safe_value(b"a\tb \xff"));
        assert!(!is_safe_value(b"a\r\nb"));
        assert!(!is_safe_value(b"a\0"));
        assert!(is_safe_name(b"X-a_b.c"));
        assert!(!is_safe_name(b""));
        assert!(!is_safe_name(b"a b"));
        assert!(!is_safe_name(b"a:"));
    }
}
