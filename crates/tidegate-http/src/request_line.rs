//! The first line of a request.

use crate::bad_request::BadRequest;
use crate::fields::Span;
use crate::method::{Method, is_method_byte};
use crate::uri::{TargetShape, scan_target};

/// A request line, in positions of the buffer it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestLine {
    pub(crate) method: Method,
    pub(crate) method_end: usize,
    /// Scheme and host of a target in absolute form.
    pub(crate) authority: Option<Authority>,
    /// Path and arguments; empty for an absolute form that ends behind its host.
    pub(crate) target: Span,
    /// Shape of the target; `plain` only if it also starts with a slash.
    pub(crate) shape: TargetShape,
    /// `HTTP/1.1` as sent; empty for HTTP/0.9.
    pub(crate) protocol: Span,
    pub(crate) version: (u8, u8),
    /// The end of the line without CR and LF.
    pub(crate) end: usize,
    /// The next byte after the line.
    pub(crate) next: usize,
}

/// Scheme and host of an absolute form; the host has no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) scheme: Span,
    pub(crate) host: Span,
}

/// `None` while the line is incomplete.
type Read<T> = Result<Option<T>, BadRequest>;

/// Unwraps a complete part, or returns from the function because the line is incomplete.
macro_rules! complete {
    ($part:expr) => {
        match $part {
            Some(part) => part,
            None => return Ok(None),
        }
    };
}

/// Reads the request line at the start of `buf` into `line`; `false` while it is incomplete. `framed`: it came in frames
/// of HTTP/2, which no other line may say.
///
/// `line` is only meaningful after success. It is written in place: moving the struct costs more than reading a usual
/// line.
///
/// Source: nginx 1.22-1.27, `ngx_http_parse_request_line`.
pub(crate) fn parse_request_line(buf: &[u8], framed: bool, line: &mut RequestLine) -> Result<bool, BadRequest> {
    Ok(read_line(buf, framed, line)?.is_some())
}

#[inline]
fn read_line(buf: &[u8], framed: bool, line: &mut RequestLine) -> Read<()> {
    let method_end = complete!(buf.iter().position(|&byte| !is_method_byte(byte)));
    if buf[method_end] != b' ' || method_end == 0 {
        return Err(BadRequest::InvalidMethod);
    }
    line.method = Method::of(&buf[..method_end]);
    line.method_end = method_end;
    line.authority = None;

    let mut at = method_end + 1;
    while *complete!(buf.get(at)) == b' ' {
        at += 1;
    }
    if buf[at] != b'/' {
        let (authority, path) = complete!(parse_authority(buf, at)?);
        line.authority = Some(authority);
        at = path;
    }
    line.shape = complete!(scan_target(buf, at));
    line.shape.plain &= buf[at] == b'/';
    line.target = Span::new(at, line.shape.end);

    const USUAL_END: &[u8] = b" HTTP/1.1\r\n";
    at = line.shape.end;
    if buf[at..].starts_with(USUAL_END) {
        line.end = at + USUAL_END.len() - 2;
        line.next = at + USUAL_END.len();
        line.protocol = Span::new(at + 1, line.end);
        line.version = (1, 1);
        return Ok(Some(()));
    }
    const FRAMED_END: &[u8] = b" HTTP/2.0\r\n";
    if framed && buf[at..].starts_with(FRAMED_END) {
        line.end = at + FRAMED_END.len() - 2;
        line.next = at + FRAMED_END.len();
        line.protocol = Span::new(at + 1, line.end);
        line.version = (2, 0);
        return Ok(Some(()));
    }
    parse_version(buf, line)
}

/// Reads `scheme://host:port` at `at` and returns where the path starts.
///
/// Without a path, a target ends at the space behind the host and is empty.
fn parse_authority(buf: &[u8], at: usize) -> Read<(Authority, usize)> {
    if !buf[at].is_ascii_alphabetic() {
        return Err(BadRequest::InvalidRequest);
    }
    let end_of =
        |from: usize, accept: fn(u8) -> bool| buf[from..].iter().position(|&byte| !accept(byte)).map(|len| from + len);
    let scheme_end = complete!(end_of(at, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')));
    let host_start = scheme_end + 3;
    for (i, &expected) in b"://".iter().enumerate() {
        if *complete!(buf.get(scheme_end + i)) != expected {
            return Err(BadRequest::InvalidRequest);
        }
    }
    let host_end = if *complete!(buf.get(host_start)) == b'[' {
        let bracket = complete!(end_of(host_start + 1, is_literal_byte));
        if buf[bracket] != b']' {
            return Err(BadRequest::InvalidRequest);
        }
        bracket + 1
    } else {
        complete!(end_of(host_start, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')))
    };
    let path = match *complete!(buf.get(host_end)) {
        b':' => complete!(end_of(host_end + 1, |byte| byte.is_ascii_digit())),
        _ => host_end,
    };
    if !matches!(buf[path], b'/' | b'?' | b' ') {
        return Err(BadRequest::InvalidRequest);
    }
    let authority = Authority { scheme: Span::new(at, scheme_end), host: Span::new(host_start, host_end) };
    Ok(Some((authority, path)))
}

/// Whether an address literal in brackets may have this byte.
fn is_literal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b":-._~!$&'()*+,;=".contains(&byte)
}

/// Reads from the end of the target to the end of the line.
#[cold]
fn parse_version(buf: &[u8], line: &mut RequestLine) -> Read<()> {
    let mut at = line.shape.end;
    while *complete!(buf.get(at)) == b' ' {
        at += 1;
    }
    if matches!(buf[at], b'\r' | b'\n') {
        line.version = (0, 9);
        line.protocol = Span::default();
        return finish(buf, line, at);
    }
    let start = at;
    for &expected in b"HTTP/" {
        if *complete!(buf.get(at)) != expected {
            return Err(BadRequest::InvalidRequest);
        }
        at += 1;
    }
    line.version = (complete!(parse_major(buf, &mut at)?), complete!(parse_minor(buf, &mut at)?));
    while *complete!(buf.get(at)) == b' ' {
        at += 1;
    }
    line.protocol = Span::new(start, at);
    finish(buf, line, at)
}

fn parse_major(buf: &[u8], at: &mut usize) -> Read<u8> {
    // One digit decides: 1 is ours, anything above is a version that we do not speak.
    match *complete!(buf.get(*at)) {
        b'1' => {}
        b'2'..=b'9' => return Err(BadRequest::InvalidVersion),
        _ => return Err(BadRequest::InvalidRequest),
    }
    match *complete!(buf.get(*at + 1)) {
        b'.' => {}
        b'0'..=b'9' => return Err(BadRequest::InvalidVersion),
        _ => return Err(BadRequest::InvalidRequest),
    }
    *at += 2;
    Ok(Some(1))
}

/// At most three digits are read; what does not fit a byte is some minor version above 1.
fn parse_minor(buf: &[u8], at: &mut usize) -> Read<u8> {
    let start = *at;
    while complete!(buf.get(*at)).is_ascii_digit() {
        *at += 1;
        if *at - start > 3 {
            return Err(BadRequest::InvalidRequest);
        }
    }
    if *at == start {
        return Err(BadRequest::InvalidRequest);
    }
    let minor = buf[start..*at].iter().fold(0u16, |minor, digit| minor * 10 + u16::from(digit - b'0'));
    Ok(Some(u8::try_from(minor).unwrap_or(u8::MAX)))
}

/// Passes the end of the line at `at`.
fn finish(buf: &[u8], line: &mut RequestLine, at: usize) -> Read<()> {
    line.end = at;
    line.next = match buf[at] {
        b'\n' => at + 1,
        b'\r' if *complete!(buf.get(at + 1)) == b'\n' => at + 2,
        _ => return Err(BadRequest::InvalidRequest),
    };
    if line.version == (0, 9) && line.method != Method::Get {
        return Err(BadRequest::InvalidMethodIn09);
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let mut line = RequestLine::default();
            let mut read = |buf: &[u8]| match parse_request_line(buf, false, &mut line) {
                Ok(false) => "incomplete".to_owned(),
                Err(error) => error.to_string().replace("client sent ", ""),
                Ok(true) => {
                    let text = |span: Span| String::from_utf8_lossy(span.of(buf)).into_owned();
                    format!(
                        "{:?} {}{} {} {}.{} {} +{}",
                        line.method,
                        line.authority.map_or(String::new(), |a| format!("{}|{}|", text(a.scheme), text(a.host))),
                        text(line.target),
                        text(line.protocol),
                        line.version.0,
                        line.version.1,
                        line.end,
                        line.next - line.end
                    )
                }
            };
            let text = text.as_bytes();
            assert_eq!(read(text), expected, "{}", String::from_utf8_lossy(text));
            for cut in 0..text.len() {
                let part = read(&text[..cut]);
                assert!(part == "incomplete" || part == expected, "cut at {cut}: {part}");
            }
        }
        check("GET / HTTP/1.1\r\n", "Get / HTTP/1.1 1.1 14 +2");
        check("GET / HTTP/1.1\n", "Get / HTTP/1.1 1.1 14 +1");
        check("GET / HTTP/1.0\r\n", "Get / HTTP/1.0 1.0 14 +2");
        check("GET   /a?b   HTTP/1.1  \r\n", "Get /a?b HTTP/1.1   1.1 23 +2");
        check("GET / HTTP/1.2\r\n", "Get / HTTP/1.2 1.2 14 +2");
        check("GET / HTTP/1.999\r\n", "Get / HTTP/1.999 1.255 16 +2");
        check("GET / HTTP/1.9999\r\n", "invalid request");
        check("GET / HTTP/1.\r\n", "invalid request");
        check("GET / HTTP/1\r\n", "invalid request");
        check("GET / HTTP/2.0\r\n", "invalid version");
        check("GET / HTTP/11.0\r\n", "invalid version");
        check("GET / HTTP/0.9\r\n", "invalid request");
        check("GET / http/1.1\r\n", "invalid request");
        check("GET / HTTP/1.1 x\r\n", "invalid request");
        check("GET / HTTP/1.1\rx", "invalid request");
        check("GET / FTP/1.1\r\n", "invalid request");
        check("GET /a b HTTP/1.1\r\n", "invalid request");
        check("GET /\r\n", "Get /  0.9 5 +2");
        check("GET /\n", "Get /  0.9 5 +1");
        check("GET /  \r\n", "Get /  0.9 7 +2");
        check("POST /\r\n", "invalid method in HTTP/0.9 request");
        check("get / HTTP/1.1\r\n", "invalid method");
        check("G3T / HTTP/1.1\r\n", "invalid method");
        check(" GET / HTTP/1.1\r\n", "invalid method");
        check("GET\t/ HTTP/1.1\r\n", "invalid method");
        check("GET\r\n", "invalid method");
        check("\u{16}\u{3}\u{1}", "invalid method");
        check("M-SEARCH_ / HTTP/1.1\r\n", "Other / HTTP/1.1 1.1 20 +2");
        check("OPTIONS * HTTP/1.1\r\n", "invalid request");
        check("CONNECT a.b:443 HTTP/1.1\r\n", "invalid request");
        check("GET a HTTP/1.1\r\n", "invalid request");
        check("GET 1 HTTP/1.1\r\n", "invalid request");
        check("GET \r\n", "invalid request");
        check("GET /\u{1}a HTTP/1.1\r\n", "invalid request");
        check("GET /\u{7f}a HTTP/1.1\r\n", "invalid request");
        check("GET /a\tb HTTP/1.1\r\n", "invalid request");
        check("GET /\u{e9} HTTP/1.1\r\n", "Get /\u{e9} HTTP/1.1 1.1 16 +2");
        check("GET http://a.b/c HTTP/1.1\r\n", "Get http|a.b|/c HTTP/1.1 1.1 25 +2");
        check("GET http://a.b:80/c HTTP/1.1\r\n", "Get http|a.b|/c HTTP/1.1 1.1 28 +2");
        check("GET http://a.b: HTTP/1.1\r\n", "Get http|a.b| HTTP/1.1 1.1 24 +2");
        check("GET http://a.b?c HTTP/1.1\r\n", "Get http|a.b|?c HTTP/1.1 1.1 25 +2");
        check("GET http://a.b HTTP/1.1\r\n", "Get http|a.b| HTTP/1.1 1.1 23 +2");
        check("GET x+1://[::1]:8/ HTTP/1.1\r\n", "Get x+1|[::1]|/ HTTP/1.1 1.1 27 +2");
        check("GET http://[::1 HTTP/1.1\r\n", "invalid request");
        check("GET http://a_b/ HTTP/1.1\r\n", "invalid request");
        check("GET http://u@a/ HTTP/1.1\r\n", "invalid request");
        check("GET http:/a/ HTTP/1.1\r\n", "invalid request");
        check("GET http://a\r\n", "invalid request");
        check("GET http:///a HTTP/1.1\r\n", "Get http||/a HTTP/1.1 1.1 22 +2");
    }
}
