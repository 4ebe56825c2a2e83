//! From the fields of a header block to the head of a request.
//!
//! A head becomes text as HTTP/1 has it and is then read by [`parse_request`](crate::parse_request): limits, odd names,
//! hosts and paths are judged in one place, and a head that is the one before it is not read again. What HTTP/1 could
//! misread is refused here, first of all line ends.

use super::priority::Priority;
use crate::request::HeadLimits;

/// A head that breaks the rules of RFC 9113, section 8: the stream ends with PROTOCOL_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A name has a byte that it must not have, a capital letter for one.
    #[error("client sent invalid header name")]
    Name,
    /// A value has a line end or a zero in it.
    #[error("client sent invalid header value")]
    Value,
    /// A pseudo-header that there is not, is there twice, or stands behind other fields.
    #[error("client sent invalid pseudo-header")]
    Pseudo,
    /// `:method`, `:scheme` or `:path` is missing or empty.
    #[error("client sent no :method, :scheme or :path header")]
    Incomplete,
    /// A field that belongs to a connection of HTTP/1.
    #[error("client sent a connection-specific header")]
    Connection,
}

/// Collects the fields of a head.
#[derive(Debug, Default)]
pub struct HeadText {
    method: Vec<u8>,
    scheme: Vec<u8>,
    path: Vec<u8>,
    authority: Vec<u8>,
    seen: Seen,
    /// Fields, as lines.
    lines: Vec<u8>,
    cookie: Vec<u8>,
    text: Vec<u8>,
    malformed: Option<Malformed>,
    priority: Option<Priority>,
    /// What is to be spoken on the stream (`:protocol`).
    protocol: Vec<u8>,
    /// Bytes of the text that are worth keeping: the parser refuses a longer one.
    bytes_max: usize,
}

/// Capacity of a buffer that is kept between heads. Few heads need more, and a connection may be idle for long behind one.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Which pseudo-headers there were, and whether the other fields have begun.
#[derive(Debug, Default)]
struct Seen {
    method: bool,
    scheme: bool,
    path: bool,
    authority: bool,
    protocol: bool,
    websocket_key: bool,
    host: bool,
    fields: bool,
}

impl HeadText {
    /// Makes ready for a head that may be so long.
    pub fn begin(&mut self, limits: &HeadLimits) {
        let HeadText {
            method,
            scheme,
            path,
            authority,
            seen,
            lines,
            cookie,
            text,
            malformed,
            priority,
            protocol,
            bytes_max,
        } = self;
        for buf in [method, scheme, path, authority, lines, cookie, text, protocol] {
            buf.clear();
        }
        *seen = Seen::default();
        *malformed = None;
        *priority = None;
        // One byte more than is accepted is enough to be refused.
        *bytes_max = limits.head_bytes_max() + 1;
    }

    /// Gives the memory back that a long head has taken, when nobody wants its text any more.
    pub fn release(&mut self) {
        let HeadText { method, scheme, path, authority, lines, cookie, text, protocol, .. } = self;
        for buf in [method, scheme, path, authority, lines, cookie, text, protocol] {
            if buf.capacity() > KEPT_BYTES_MAX {
                *buf = Vec::new();
            }
        }
    }

    /// Takes a field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.malformed.is_none()
            && let Err(malformed) = self.take(name, value)
        {
            self.malformed = Some(malformed);
        }
    }

    #[inline]
    fn take(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if self.lines.len() >= self.bytes_max || self.cookie.len() >= self.bytes_max {
            // It is refused for its length: nobody looks at the rest.
            return Ok(());
        }
        check_value(value)?;
        if let Some(pseudo) = name.strip_prefix(b":") {
            return self.take_pseudo(pseudo, value);
        }
        check_field(name, value)?;
        self.seen.fields = true;
        match name {
            b"cookie" => {
                // Pieces of one field (section 8.2.3).
                if !self.cookie.is_empty() {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(&value[..value.len().min(self.bytes_max)]);
                self.cookie.truncate(self.bytes_max);
                return Ok(());
            }
            // The same host once more.
            b"host" if self.seen.authority && value == self.authority => return Ok(()),
            b"host" => self.seen.host = true,
            b"priority" => self.priority = Some(Priority::parse(value)),
            b"sec-websocket-key" => self.seen.websocket_key = true,
            _ => {}
        }
        if self.lines.len() <= self.bytes_max {
            add_line(&mut self.lines, name, value);
        }
        Ok(())
    }

    fn take_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let Seen { method, scheme, path, authority, protocol, .. } = &mut self.seen;
        let (seen, text) = match name {
            b"method" => (method, &mut self.method),
            b"scheme" => (scheme, &mut self.scheme),
            b"path" => (path, &mut self.path),
            b"authority" => (authority, &mut self.authority),
            b"protocol" => (protocol, &mut self.protocol),
            _ => return Err(Malformed::Pseudo),
        };
        if std::mem::replace(seen, true) || self.seen.fields {
            return Err(Malformed::Pseudo);
        }
        text.extend_from_slice(&value[..value.len().min(self.bytes_max)]);
        Ok(())
    }

    /// The priority that the client wants for the response.
    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }
    /// Whether the client wants to speak another protocol on the stream (RFC 8441).
    pub fn is_extended_connect(&self) -> bool {
        self.seen.protocol
    }
    /// Gives an extended CONNECT the key that servers of HTTP/1 want for a WebSocket. It is not needed for what it was made:
    /// the client knows that the server understands it.
    pub fn add_websocket_key(&mut self, key: &[u8]) {
        if !self.seen.websocket_key {
            add_line(&mut self.lines, b"sec-websocket-key", key);
        }
    }

    /// The head as text, when [`finish`](Self::finish) was called.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
    /// Whether the client has said which host is meant in the protocol's own way.
    pub fn has_authority(&self) -> bool {
        self.seen.authority
    }

    /// Makes text of the head. An extended CONNECT becomes the request of HTTP/1 that means the same: a GET with `Upgrade`.
    ///
    /// # Errors
    /// See [`Malformed`]. The text then has as much of the head as can be understood for sure: method, target and host,
    /// or nothing.
    pub fn finish(&mut self) -> Result<(), Malformed> {
        let finished = match self.malformed {
            Some(malformed) => Err(malformed),
            None => self.write_text(),
        };
        if finished.is_err() {
            self.write_remains();
        }
        finished
    }

    fn write_text(&mut self) -> Result<(), Malformed> {
        let is_extended = self.seen.protocol;
        let is_connect = self.method == b"CONNECT" && !is_extended;
        if is_extended {
            let is_right = self.method == b"CONNECT" && self.seen.authority && !self.protocol.is_empty();
            if !is_right || !self.protocol.iter().all(|&byte| is_token(byte)) {
                return Err(Malformed::Pseudo);
            }
            self.method.clear();
            self.method.extend_from_slice(b"GET");
        }
        let has_all = !self.method.is_empty() && (is_connect || !self.scheme.is_empty() && !self.path.is_empty());
        if !has_all {
            return Err(Malformed::Incomplete);
        }
        let is_right = self.method.iter().all(|&byte| is_token(byte))
            && (is_connect && self.scheme.is_empty() || is_scheme(&self.scheme))
            && is_authority(&self.authority);
        if !is_right {
            return Err(Malformed::Pseudo);
        }
        let target = if is_connect && self.path.is_empty() { &self.authority } else { &self.path };
        let names_authority = is_connect && self.path.is_empty();
        if !(names_authority && target.iter().all(|&byte| is_graphic(byte)) || is_target(target)) {
            return Err(Malformed::Pseudo);
        }
        let text = &mut self.text;
        for piece in [&self.method, &b" "[..], target, b" HTTP/2.0\r\n"] {
            text.extend_from_slice(piece);
        }
        if self.seen.authority {
            add_line(text, b"host", &self.authority);
        }
        if is_extended {
            add_line(text, b"connection", b"upgrade");
            add_line(text, b"upgrade", &self.protocol);
        }
        text.extend_from_slice(&self.lines);
        if !self.cookie.is_empty() {
            add_line(text, b"cookie", &self.cookie);
        }
        text.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn write_remains(&mut self) {
        let HeadText { method, path, authority, text, .. } = self;
        if method.is_empty() || !method.iter().all(|&byte| is_token(byte)) || !is_target(path) {
            return;
        }
        for piece in [method, &b" "[..], path, b" HTTP/2.0\r\n"] {
            text.extend_from_slice(piece);
        }
        if !authority.is_empty() {
            add_line(text, b"host", authority);
        }
        text.extend_from_slice(b"\r\n");
    }
}

/// Whether these bytes are a path with its arguments, or `*`. Anything else would say which server is meant, or be more
/// than a target.
fn is_target(bytes: &[u8]) -> bool {
    (bytes.starts_with(b"/") || bytes == b"*") && bytes.iter().all(|&byte| is_graphic(byte))
}

/// Source: RFC 3986, section 3.1.
fn is_scheme(bytes: &[u8]) -> bool {
    let is_in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.iter().all(is_in_scheme)
}

/// Whether these bytes can be a host with its port. The name of a user must not stand there (RFC 9113, section 8.3.1), nor what would end it
/// in a URI (RFC 3986, section 3.2).
fn is_authority(bytes: &[u8]) -> bool {
    !bytes.iter().any(|byte| b"@/?#\\".contains(byte))
}

fn is_graphic(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

fn add_line(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for piece in [name, b": ", value, b"\r\n"] {
        text.extend_from_slice(piece);
    }
}

/// Looks at the value of a field of a head or of trailers (section 8.2.1).
///
/// # Errors
/// [`Malformed::Value`].
pub fn check_value(value: &[u8]) -> Result<(), Malformed> {
    match value.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')) {
        true => Err(Malformed::Value),
        false => Ok(()),
    }
}

/// Looks at a field of a head or of trailers, but for its value's bytes (section 8.2).
///
/// # Errors
/// See [`Malformed`].
pub fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    let is_named = |&byte: &u8| byte > b' ' && byte < 0x7f && byte != b':' && !byte.is_ascii_uppercase();
    if name.is_empty() || !name.iter().all(is_named) {
        return Err(Malformed::Name);
    }
    match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            Err(Malformed::Connection)
        }
        b"te" if !value.eq_ignore_ascii_case(b"trailers") => Err(Malformed::Connection),
        _ => Ok(()),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

    #[track_caller]
    fn check(fields: &[(&str, &str)], expected: Result<&str, Malformed>) {
        let mut head = HeadText::default();
        head.begin(&HeadLimits::default());
        for (name, value) in fields {
            head.field(name.as_bytes(), value.as_bytes());
        }
        let finished = head.finish();
        let text = String::from_utf8_lossy(head.text());
        assert_eq!(finished.map(|()| &*text), expected);
    }

    #[track_caller]
    fn check_more(more: &[(&str, &str)], expected: Result<&str, Malformed>) {
        check(&[&GET[..], more].concat(), expected);
    }

    #[test]
    fn heads_become_text() {
        check(&GET, Ok("GET / HTTP/2.0\r\nhost: a\r\n\r\n"));
        check(&GET[..3], Ok("GET / HTTP/2.0\r\n\r\n"));
        check_more(
            &[("cookie", "a=1"), ("x-y", " v\tw "), ("cookie", "b=2"), ("te", "trailers")],
            Ok("GET / HTTP/2.0\r\nhost: a\r\nx-y:  v\tw \r\nte: trailers\r\ncookie: a=1; b=2\r\n\r\n"),
        );
        check_more(&[("host", "a")], Ok("GET / HTTP/2.0\r\nhost: a\r\n\r\n"));
        // Two hosts are the parser's to refuse.
        check_more(&[("host", "b")], Ok("GET / HTTP/2.0\r\nhost: a\r\nhost: b\r\n\r\n"));
        check(&[(":method", "OPTIONS"), (":scheme", "http"), (":path", "*")], Ok("OPTIONS * HTTP/2.0\r\n\r\n"));
        check(&[(":method", "CONNECT"), (":authority", "a:1")], Ok("CONNECT a:1 HTTP/2.0\r\nhost: a:1\r\n\r\n"));
    }

    #[test]
    fn extended_connect() {
        let pseudo = |method, protocol| {
            [(":method", method), (":protocol", protocol), (":scheme", "https"), (":path", "/c"), (":authority", "a")]
        };
        check(
            &[&pseudo("CONNECT", "websocket")[..], &[("sec-websocket-version", "13")]].concat(),
            Ok("GET /c HTTP/2.0\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\n\r\n"),
        );
        check(&pseudo("GET", "websocket"), Err(Malformed::Pseudo));
        check(&pseudo("CONNECT", ""), Err(Malformed::Pseudo));
        check(&pseudo("CONNECT", "a b"), Err(Malformed::Pseudo));
        check(&pseudo("CONNECT", "websocket")[..4], Err(Malformed::Pseudo));
        let [method, protocol, _, path, authority] = pseudo("CONNECT", "websocket");
        check(&[method, protocol, path, authority], Err(Malformed::Incomplete));
        for key in [None, Some("theirs")] {
            let mut head = HeadText::default();
            head.begin(&HeadLimits::default());
            for (name, value) in
                pseudo("CONNECT", "websocket").into_iter().chain(key.map(|key| ("sec-websocket-key", key)))
            {
                head.field(name.as_bytes(), value.as_bytes());
            }
            assert!(head.is_extended_connect());
            head.add_websocket_key(b"ours");
            head.finish().expect("a head");
            let text = String::from_utf8_lossy(head.text());
            assert!(text.ends_with(&format!("\r\nsec-websocket-key: {}\r\n\r\n", key.unwrap_or("ours"))), "{text}");
        }
    }

    #[test]
    fn malformed_heads() {
        check(&GET[1..], Err(Malformed::Incomplete));
        check(&[(":method", "GET"), (":scheme", "http"), (":path", "")], Err(Malformed::Incomplete));
        check(&[(":method", "GET"), (":path", "/")], Err(Malformed::Incomplete));
        for path in ["/ HTTP/1.1", "http://b/", "/\t", "x", "/\r\nhost: b"] {
            let malformed = if path.contains('\r') { Malformed::Value } else { Malformed::Pseudo };
            check(&[(":method", "GET"), (":scheme", "http"), (":path", path)], Err(malformed));
        }
        check(&[(":method", "GET / HTTP/1.1"), (":scheme", "http"), (":path", "/")], Err(Malformed::Pseudo));
        for scheme in ["http ", " http", "1http", "h\ttp", "http:"] {
            check(&[(":method", "GET"), (":scheme", scheme), (":path", "/")], Err(Malformed::Pseudo));
        }
        for authority in ["user@host", "user:pass@host", "host/path", "host?x", "host#x", "a\\b"] {
            check(&[&GET[..3], &[(":authority", authority)]].concat(), Err(Malformed::Pseudo));
        }
        check_more(&[(":path", "/")], Err(Malformed::Pseudo));
        check_more(&[(":status", "200")], Err(Malformed::Pseudo));
        check_more(&[("a", "b"), (":protocol", "websocket")], Err(Malformed::Pseudo));
        check(&[("a", "b"), (":method", "GET")], Err(Malformed::Pseudo));
        for name in ["A", "", "a b", "a:b", "\u{e9}", "a\r\nb"] {
            check_more(&[(name, "1")], Err(Malformed::Name));
        }
        for value in ["a\nb", "a\rb", "a\0b"] {
            check_more(&[("x", value)], Err(Malformed::Value));
        }
        for name in ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection", "te"] {
            check_more(&[(name, "x")], Err(Malformed::Connection));
        }
    }

    #[test]
    fn what_remains_of_malformed_heads() {
        let remains = |fields: &[(&str, &str)]| {
            let mut head = HeadText::default();
            head.begin(&HeadLimits::default());
            for (name, value) in fields {
                head.field(name.as_bytes(), value.as_bytes());
            }
            head.finish().expect_err("malformed");
            String::from_utf8_lossy(head.text()).into_owned()
        };
        assert_eq!(remains(&[&GET[..], &[("x-y", "1"), ("A", "1")]].concat()), "GET / HTTP/2.0\r\nhost: a\r\n\r\n");
        let sent = |method, path| remains(&[(":method", method), (":path", path)]);
        assert_eq!(sent("GET", "/a?b"), "GET /a?b HTTP/2.0\r\n\r\n");
        for (method, path) in [("GET", "/ HTTP/1.1"), ("GET", "a"), ("G T", "/"), ("", "/"), ("GET", "")] {
            assert_eq!(sent(method, path), "");
        }
    }

    #[test]
    fn a_bomb_stays_small() {
        let mut head = HeadText::default();
        head.begin(&HeadLimits::default());
        for (name, value) in GET {
            head.field(name.as_bytes(), value.as_bytes());
        }
        let value = vec![b'x'; 4000];
        for _ in 0..10_000 {
            head.field(b"x-y", &value);
            head.field(b"cookie", &value);
        }
        let max = HeadLimits::default().head_bytes_max();
        head.finish().expect("a head");
        let len = head.text().len();
        assert!(len > max && len < 2 * max + 3 * 4000);
        // It is not remembered.
        head.release();
        assert_eq!((head.text.capacity(), head.lines.capacity(), head.cookie.capacity()), (0, 0, 0));
        assert!(head.path.capacity() > 0, "what is small stays");
    }
}
