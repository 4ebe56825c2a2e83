//! Heads of HTTP/1 responses: only what a load generator wants of them.
//!
//! `tidegate_http::parse_response` keeps all fields and says why a head is refused, as a proxy needs. Here a head is looked at
//! once, in place, and only three fields of it count.

use tidegate_http::BodyLength;
use tidegate_http::status::is_bodiless;

/// A longer head is refused; servers have limits of 8 to 64 KB for theirs.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Whether the server keeps the connection.
    pub(crate) keep_alive: bool,
    pub(crate) body: BodyLength,
    /// Length of the head with its empty line.
    pub(crate) bytes: usize,
}

/// Reads a head at the start of `buf`; `None` while it is incomplete. `to_head` says that the request was HEAD.
///
/// # Errors
/// What is wrong with it, in a few words.
///
/// Source: RFC 9112, sections 4 and 6.3.
pub(crate) fn parse(buf: &[u8], to_head: bool) -> Result<Option<Head>, &'static str> {
    let Some(end) = memchr::memchr(b'\n', buf) else {
        return if begins_as_head(buf) { too_long(buf) } else { Err("the response begins with no status line") };
    };
    let (status, minor) = status_line(&buf[..end]).ok_or("the response begins with no status line")?;
    let mut fields = Fields::default();
    let mut at = end + 1;
    loop {
        let Some(rest) = buf.get(at..) else { return too_long(buf) };
        let Some(end) = memchr::memchr(b'\n', rest) else { return too_long(buf) };
        let line = &rest[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        at += end + 1;
        match line.first() {
            None => return fields.finish(status, minor, to_head, at).map(Some),
            Some(b'C' | b'c' | b'T' | b't') => fields.read(line)?,
            Some(_) if memchr::memchr(b':', line).is_some() => {}
            Some(_) => return Err("a header line has no colon"),
        }
    }
}

fn too_long(buf: &[u8]) -> Result<Option<Head>, &'static str> {
    if buf.len() > HEAD_BYTES_MAX { Err("the response's head is longer than 64 KB") } else { Ok(None) }
}

fn begins_as_head(buf: &[u8]) -> bool {
    let len = buf.len().min(b"HTTP/1.".len());
    buf[..len] == b"HTTP/1."[..len]
}

/// Status and minor version.
fn status_line(line: &[u8]) -> Option<(u16, u8)> {
    let [minor @ b'0'..=b'9', b' ', a, b, c, rest @ ..] = line.strip_prefix(b"HTTP/1.")? else { return None };
    let is_whole =
        [a, b, c].iter().all(|digit| digit.is_ascii_digit()) && matches!(rest.first(), None | Some(b' ' | b'\r'));
    let digit = |byte: &u8| u16::from(byte - b'0');
    is_whole.then(|| (digit(a) * 100 + digit(b) * 10 + digit(c), minor - b'0'))
}

/// The fields that count.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep: bool,
}

impl Fields {
    fn read(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let colon = memchr::memchr(b':', line).ok_or("a header line has no colon")?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let number = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length: u64 = number.and_then(|text| text.parse().ok()).ok_or("Content-Length is no number")?;
            if self.length.replace(length).is_some_and(|other| other != length) {
                return Err("two different Content-Length");
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
            if !self.chunked {
                return Err("Transfer-Encoding is not chunked");
            }
        } else if name.eq_ignore_ascii_case(b"connection") {
            for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= word.eq_ignore_ascii_case(b"close");
                self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    fn finish(&self, status: u16, minor: u8, to_head: bool, bytes: usize) -> Result<Head, &'static str> {
        if self.chunked && self.length.is_some() {
            return Err("Content-Length and Transfer-Encoding at once");
        }
        let body = match self.length {
            _ if to_head || is_bodiless(status) => BodyLength::Known(0),
            _ if self.chunked => BodyLength::Chunked,
            Some(length) => BodyLength::Known(length),
            None => BodyLength::UntilClose,
        };
        let keep_alive = !self.close && (minor > 0 || self.keep) && body != BodyLength::UntilClose;
        Ok(Head { status, keep_alive, body, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(u16, bool, BodyLength), &str>) {
        let seen = parse(text.as_bytes(), false).map(|head| {
            let head = head.expect("a whole head");
            assert_eq!(head.bytes, text.len());
            (head.status, head.keep_alive, head.body)
        });
        assert_eq!(seen, expected, "{text:?}");
        if seen.is_ok() {
            for end in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..end], false), Ok(None), "{end}");
            }
        }
    }

    #[test]
    fn heads() {
        use BodyLength::{Chunked, Known, UntilClose};
        check("HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n", Ok((200, true, Known(14))));
        check("HTTP/1.1 200 OK\nDate: x\ncontent-length:0\n\n", Ok((200, true, Known(0))));
        check("HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\n\r\n", Ok((404, true, Chunked)));
        check("HTTP/1.1 200 OK\r\nServer: a\r\n\r\n", Ok((200, false, UntilClose)));
        check("HTTP/1.1 204 No\r\n\r\n", Ok((204, true, Known(0))));
        check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n", Ok((200, false, Known(1))));
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", Ok((200, false, Known(1))));
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n", Ok((200, true, Known(1))));
        check("HTTP/2 200 OK\r\n\r\n", Err("the response begins with no status line"));
        check("HTTP/1.1 2000 OK\r\n\r\n", Err("the response begins with no status line"));
        check("HTTP/1.1 200 OK\r\nx\r\n\r\n", Err("a header line has no colon"));
        check("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", Err("Content-Length is no number"));
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Err("Transfer-Encoding is not chunked"));
        assert_eq!(parse(b"SSH-2.0", false), Err("the response begins with no status line"));
        let long = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'a'; HEAD_BYTES_MAX]].concat();
        assert_eq!(parse(&long, false), Err("the response's head is longer than 64 KB"));
        let head = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n", true).expect("a head").expect("whole");
        assert_eq!((head.body, head.keep_alive), (Known(0), true));
    }
}
