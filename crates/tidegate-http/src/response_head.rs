//! Heads of responses, as a proxy reads them from an upstream server.

use bstr::BStr;

use crate::bad_request::Duplicate;
use crate::body::BodyLength;
use crate::field_line::{FieldLine, parse_field_line, parse_length};
use crate::fields::{Entry, Fields, Span};
use crate::known::{Known, KnownSet};
use crate::request::Parsed;

/// Why a response head was refused. The fault is the upstream's: the answer to the client is 502, another server may
/// be tried, and the connection cannot be used further.
///
/// The text is what nginx writes to its error log, at level `error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// The first line is no status line. nginx takes the whole as the body of an HTTP/0.9 response.
    #[error("upstream sent no valid HTTP/1.0 header")]
    NoStatusLine,
    /// A byte that a header line must not have; the text before it and the byte.
    #[error("upstream sent invalid header: \"{}\\x{:02x}...\"", BStr::new(.0), .1)]
    InvalidHeader(Box<[u8]>, u8),
    /// Two fields that decide about the body.
    #[error("upstream sent duplicate header line: {0}")]
    DuplicateHeader(Box<Duplicate>),
    /// `Content-Length` is not a number of at most 63 bits; the line.
    #[error("upstream sent invalid \"Content-Length\" header: \"{}\"", BStr::new(.0))]
    InvalidContentLength(Box<[u8]>),
    /// Both framings at once.
    #[error("upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    LengthAndTransferEncoding,
    /// `Transfer-Encoding` is not exactly `chunked`.
    #[error("upstream sent unknown \"Transfer-Encoding\": \"{}\"", BStr::new(.0))]
    UnknownTransferEncoding(Box<[u8]>),
    /// The `Status` of a program behind a gateway is no final code of three digits; its value.
    #[error("upstream sent invalid status \"{}\"", BStr::new(.0))]
    InvalidStatus(Box<[u8]>),
}

/// A response head; kept and reused like a request head.
#[derive(Debug, Default)]
pub struct ResponseHead {
    /// The status code: three digits.
    pub status: u16,
    /// Major and minor version, each at most 255.
    pub version: (u8, u8),
    /// The header fields in their order, without ignored duplicates.
    pub fields: Fields,
    /// The value of `Content-Length`.
    pub content_length: Option<u64>,
    /// Whether the body comes in chunks.
    pub chunked: bool,
    /// Whether the server keeps the connection open: HTTP/1.1 without `Connection: close`. A body without known end
    /// still ends with the connection, see [`ResponseHead::is_reusable`].
    pub keep_alive: bool,

    /// Code and text as sent, e.g. `404 Not Found`.
    status_text: Vec<u8>,
    /// Lines that repeated a field which must be alone, for the log.
    ignored: Vec<Vec<u8>>,
    is_done: bool,
    /// Start of the first line that is not parsed yet.
    line_start: usize,
    fields_start: usize,
    /// The line that starts there has no LF before this place; 0 if it was not looked at.
    searched: usize,
    entries: Vec<Entry>,
    present: KnownSet,
    /// The bytes that an incomplete head was read from: what was found counts for them alone.
    seen: Vec<u8>,
}

/// Field names of which nginx keeps the first and ignores others, with a warning.
const FIRST_COUNTS: KnownSet = KnownSet::of(&[
    Known::Status,
    Known::ContentType,
    Known::Date,
    Known::LastModified,
    Known::ETag,
    Known::Server,
    Known::Location,
    Known::Refresh,
    Known::Expires,
    Known::XAccelRedirect,
    Known::XAccelExpires,
]);

/// Parses as much of a response head as `buf` holds.
///
/// `buf` starts with the first byte of the response. While it starts with the bytes of the call before, a head that was
/// incomplete is read on; other bytes, and any call after completion or an error, begin a new head. Skipping interim (1xx) responses and bounding the
/// buffer (`upstream sent too big header`) are the caller's.
///
/// # Errors
/// [`BadResponse`].
///
/// Source: nginx 1.22-1.27, `ngx_http_parse_status_line`, `ngx_http_upstream.c`.
pub fn parse_response(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, BadResponse> {
    read_on(buf, head, |head| head.parse(buf))
}

fn read_on(
    buf: &[u8],
    head: &mut ResponseHead,
    parse: impl FnOnce(&mut ResponseHead) -> Result<Parsed, BadResponse>,
) -> Result<Parsed, BadResponse> {
    if head.is_done || !buf.starts_with(&head.seen) {
        head.clear();
    }
    let parsed = parse(head);
    head.is_done = parsed != Ok(Parsed::Partial);
    if !head.is_done {
        // The rest begins the buffer already.
        head.seen.extend_from_slice(&buf[head.seen.len()..]);
    }
    parsed
}

/// Parses as much of a program's response head (CGI) as `buf` holds: fields without a status line. The field `Status` says
/// the status; without it, a `Location` means 302, and anything else 200.
///
/// `buf` and calls as with [`parse_response`].
///
/// # Errors
/// [`BadResponse`].
///
/// Source: RFC 3875, section 6; nginx, `ngx_http_fastcgi_process_header`.
pub fn parse_cgi_response(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, BadResponse> {
    read_on(buf, head, |head| {
        let parsed = head.parse_fields(buf)?;
        if parsed != Parsed::Partial {
            head.take_cgi_status()?;
        }
        Ok(parsed)
    })
}

/// Parses a program's response head that may begin with a status line, as SCGI and uwsgi allow.
///
/// `buf` and calls as with [`parse_response`].
///
/// # Errors
/// [`BadResponse`].
///
/// Source: nginx, `ngx_http_scgi_process_status_line`.
pub fn parse_gateway_response(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, BadResponse> {
    match parse_response(buf, head) {
        Err(BadResponse::NoStatusLine) => parse_cgi_response(buf, head),
        parsed => parsed,
    }
}

impl ResponseHead {
    /// An empty head.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        let ResponseHead {
            status,
            version,
            fields,
            content_length,
            chunked,
            keep_alive,
            status_text,
            ignored,
            is_done,
            line_start,
            fields_start,
            searched,
            entries,
            present,
            seen,
        } = self;
        (*status, *version, *content_length, *present) = (0, (0, 0), None, KnownSet::default());
        (*chunked, *keep_alive, *is_done) = (false, false, false);
        (*line_start, *fields_start, *searched) = (0, 0, 0);
        fields.clear();
        status_text.clear();
        ignored.clear();
        entries.clear();
        seen.clear();
    }

    /// Code and text as sent, e.g. `404 Not Found`.
    pub fn status_text(&self) -> &[u8] {
        &self.status_text
    }

    /// The text behind the code; empty without one.
    pub fn reason(&self) -> &[u8] {
        self.status_text.get(4..).unwrap_or_default()
    }

    /// Lines that were dropped because they repeat an earlier field, for the log.
    pub fn ignored_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.ignored.iter().map(Vec::as_slice)
    }

    /// Whether the connection can serve another request once the body has been read.
    pub fn is_reusable(&self, to_head: bool) -> bool {
        self.keep_alive && self.status != 101 && BodyLength::of_response(self, to_head) != BodyLength::UntilClose
    }

    /// Whether no line can be complete that was not complete before: an incomplete one is read again only when its LF has
    /// come.
    fn lacks_line(&mut self, buf: &[u8]) -> bool {
        let searched = std::mem::replace(&mut self.searched, buf.len());
        searched != 0 && memchr::memchr(b'\n', buf.get(searched..).unwrap_or_default()).is_none()
    }

    fn parse(&mut self, buf: &[u8]) -> Result<Parsed, BadResponse> {
        if self.fields_start == 0 {
            if self.lacks_line(buf) {
                return Ok(Parsed::Partial);
            }
            let Some(line) = parse_status_line(buf)? else { return Ok(Parsed::Partial) };
            self.status = line.status;
            self.version = line.version;
            self.keep_alive = line.version >= (1, 1);
            self.status_text.extend_from_slice(line.text.of(buf));
            self.fields_start = line.next;
            self.line_start = line.next;
            self.searched = 0;
        }
        self.parse_fields(buf)
    }

    fn parse_fields(&mut self, buf: &[u8]) -> Result<Parsed, BadResponse> {
        if self.lacks_line(buf) {
            return Ok(Parsed::Partial);
        }
        loop {
            let line = buf.get(self.line_start..).unwrap_or_default();
            // IIS is known to repeat its status line among the fields.
            if line.starts_with(b"HTTP/") {
                let Some(newline) = memchr::memchr(b'\n', line) else { return Ok(Parsed::Partial) };
                self.line_start += newline + 1;
                continue;
            }
            match parse_field_line(buf, self.line_start, true) {
                FieldLine::Incomplete => return Ok(Parsed::Partial),
                FieldLine::Bad(at) => {
                    return Err(BadResponse::InvalidHeader(buf[self.line_start..at].into(), buf[at]));
                }
                FieldLine::Field { name, value, next, .. } => {
                    self.line_start = next;
                    self.add(buf, Entry { name, value, known: Known::of(name.of(buf)) })?;
                }
                FieldLine::End(next) => {
                    self.fields.adopt(&buf[..next], self.fields_start, &mut self.entries, self.present);
                    return Ok(Parsed::Complete(next));
                }
            }
        }
    }

    fn take_cgi_status(&mut self) -> Result<(), BadResponse> {
        let text = match self.fields.get(Known::Status) {
            Some(text) => {
                self.status = cgi_status(text).ok_or_else(|| BadResponse::InvalidStatus(text.into()))?;
                text
            }
            None if self.fields.contains(Known::Location) => {
                self.status = 302;
                b"302 Moved Temporarily"
            }
            None => {
                self.status = 200;
                b"200 OK"
            }
        };
        self.status_text.extend_from_slice(text);
        Ok(())
    }

    fn add(&mut self, buf: &[u8], entry: Entry) -> Result<(), BadResponse> {
        let value = entry.value.of(buf);
        let text = |entry: &Entry| [entry.name.of(buf), b": ", entry.value.of(buf)].concat();
        let known = entry.known;
        let is_repeated = self.present.contains(known);
        match known {
            Known::ContentLength | Known::TransferEncoding if is_repeated => {
                let previous = self.entries.iter().find(|old| old.known == known).map(text).unwrap_or_default();
                return Err(BadResponse::DuplicateHeader(Box::new(Duplicate { line: text(&entry), previous })));
            }
            Known::ContentLength if self.chunked => return Err(BadResponse::LengthAndTransferEncoding),
            Known::ContentLength => {
                let length = parse_length(value);
                self.content_length =
                    Some(length.ok_or_else(|| BadResponse::InvalidContentLength(text(&entry).into()))?);
            }
            Known::TransferEncoding if self.content_length.is_some() => {
                return Err(BadResponse::LengthAndTransferEncoding);
            }
            Known::TransferEncoding if !value.eq_ignore_ascii_case(b"chunked") => {
                return Err(BadResponse::UnknownTransferEncoding(value.into()));
            }
            Known::TransferEncoding => self.chunked = true,
            Known::Connection if value.windows(5).any(|word| word.eq_ignore_ascii_case(b"close")) => {
                self.keep_alive = false;
            }
            _ if is_repeated && FIRST_COUNTS.contains(known) => {
                self.ignored.push(text(&entry));
                return Ok(());
            }
            _ => {}
        }
        self.present.insert(known);
        self.entries.push(entry);
        Ok(())
    }
}

/// The code of a `Status` field: its first three bytes, which are digits, and no other digit behind them. A program has one response to give, so that
/// an interim code is none: a client would wait for another head behind it.
///
/// Source: RFC 3875 section 6.3.3.
fn cgi_status(text: &[u8]) -> Option<u16> {
    let (digits, rest) = text.split_at_checked(3)?;
    let is_whole = digits.iter().all(u8::is_ascii_digit) && !rest.first().is_some_and(u8::is_ascii_digit);
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (is_whole && status >= 200).then_some(status)
}

struct StatusLine {
    version: (u8, u8),
    status: u16,
    text: Span,
    next: usize,
}

/// Reads the status line at the start of `buf`; `None` while it is incomplete.
fn parse_status_line(buf: &[u8]) -> Result<Option<StatusLine>, BadResponse> {
    const BAD: BadResponse = BadResponse::NoStatusLine;
    let mut at = 0;
    /// The next byte of the line, which moves on.
    macro_rules! next {
        () => {
            match buf.get(at) {
                Some(&byte) => {
                    at += 1;
                    byte
                }
                None => return Ok(None),
            }
        };
    }
    for &expected in b"HTTP/" {
        if next!() != expected {
            return Err(BAD);
        }
    }
    let mut version = [0u16; 2];
    for (part, end) in version.iter_mut().zip([b'.', b' ']) {
        let start = at;
        loop {
            match next!() {
                digit @ b'0'..=b'9' if at - start <= 3 => *part = *part * 10 + u16::from(digit - b'0'),
                byte if byte == end && at - start > 1 => break,
                _ => return Err(BAD),
            }
        }
    }
    if version[0] == 0 {
        return Err(BAD);
    }
    let mut digit = next!();
    while digit == b' ' {
        digit = next!();
    }
    let text_start = at - 1;
    let mut status = 0;
    for i in 0..3 {
        if i > 0 {
            digit = next!();
        }
        if !digit.is_ascii_digit() {
            return Err(BAD);
        }
        status = status * 10 + u16::from(digit - b'0');
    }
    // IIS may send codes such as 403.1.
    match next!() {
        b' ' | b'.' => {}
        b'\r' | b'\n' => at -= 1,
        _ => return Err(BAD),
    }
    let rest = buf.get(at..).unwrap_or_default();
    let Some(len) = memchr::memchr2(b'\r', b'\n', rest) else { return Ok(None) };
    let text = Span::new(text_start, at + len);
    at += len;
    if next!() == b'\r' && next!() != b'\n' {
        return Err(BAD);
    }
    let [major, minor] = version.map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    Ok(Some(StatusLine { version: (major, minor), status, text, next: at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(result: &Result<Parsed, BadResponse>, head: &ResponseHead) -> String {
        match result {
            Ok(Parsed::Partial) => "partial".to_owned(),
            Err(error) => error.to_string().replace("upstream sent ", ""),
            Ok(Parsed::Complete(consumed)) => {
                let mut text =
                    format!("{consumed} {}.{} {}", head.version.0, head.version.1, BStr::new(head.status_text()));
                for (name, value, _) in head.fields.iter() {
                    text += &format!(" {}={}", BStr::new(name), BStr::new(value));
                }
                if head.keep_alive {
                    text += " +keep-alive";
                }
                format!("{text} {:?}", BodyLength::of_response(head, false))
            }
        }
    }

    #[track_caller]
    fn check(input: &str, expected: &str) {
        let input = input.as_bytes();
        let mut head = ResponseHead::new();
        for cut in 0..=input.len() {
            let mut result = parse_response(&input[..cut], &mut head);
            if result == Ok(Parsed::Partial) {
                result = parse_response(input, &mut head);
            }
            assert_eq!(summary(&result, &head), expected, "cut at {cut}: {}", BStr::new(input));
            head.clear();
        }
        let mut result = Ok(Parsed::Partial);
        for end in 0..=input.len() {
            result = parse_response(&input[..end], &mut head);
            if result != Ok(Parsed::Partial) {
                break;
            }
        }
        assert_eq!(summary(&result, &head), expected, "byte by byte: {}", BStr::new(input));
    }

    #[test]
    fn reads_heads() {
        check("HTTP/1.1 200 OK\r\n\r\nbody", "19 1.1 200 OK +keep-alive UntilClose");
        check(
            "HTTP/1.0 404 Not Found\r\nContent-Length: 5\r\nX_y: a b \r\n\r\n",
            "56 1.0 404 Not Found Content-Length=5 X_y=a b Known(5)",
        );
        check("HTTP/1.1  200\nA:b\n\n", "19 1.1 200 A=b +keep-alive UntilClose");
        check("HTTP/1.1 200 \r\n\r\n", "17 1.1 200  +keep-alive UntilClose");
        check("HTTP/1.1 403.1 Denied\r\n\r\n", "25 1.1 403.1 Denied +keep-alive UntilClose");
        check("HTTP/1.1 204 No Content\r\n\r\n", "27 1.1 204 No Content +keep-alive Known(0)");
        check("HTTP/1.1 304 a\r\nContent-Length: 9\r\n\r\n", "37 1.1 304 a Content-Length=9 +keep-alive Known(0)");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nConnection: Close\r\n\r\n",
            "66 1.1 200 OK Transfer-Encoding=CHUNKED Connection=Close Chunked",
        );
        check("HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nA: b\r\n\r\n", "42 1.1 200 OK A=b +keep-alive UntilClose");
        check("HTTP/1.1 200 OK\r\nDate: a\r\nDate: b\r\n\r\n", "37 1.1 200 OK Date=a +keep-alive UntilClose");
        check("HTTP/2.0 200 OK\r\n\r\n", "19 2.0 200 OK +keep-alive UntilClose");
        check("HTTP/1.1 200 OK\r\n", "partial");
    }

    #[test]
    fn refuses() {
        for bad in [
            "hello",
            "\r\n",
            "HTTP/0.9 200 OK\r\n",
            "HTTP/1 200 OK\r\n",
            "HTTP/1. 200 OK\r\n",
            "HTTP/1.1\r\n",
            "HTTP/1.1 20\r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 abc OK\r\n",
            "HTTP/1.1 200 OK\rx\n",
            "HTTP/1.1111 200 OK\r\n",
        ] {
            check(bad, "no valid HTTP/1.0 header");
        }
        let check_fields = |fields: &str, expected| check(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), expected);
        check_fields("A b: c", "invalid header: \"A\\x20...\"");
        check_fields("Content-Length: x", "invalid \"Content-Length\" header: \"Content-Length: x\"");
        check_fields(
            "Content-Length: 1\r\ncontent-length: 1",
            "duplicate header line: \"content-length: 1\", previous value: \"Content-Length: 1\"",
        );
        let both = "\"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
        check_fields("Content-Length: 1\r\nTransfer-Encoding: chunked", both);
        check_fields("Transfer-Encoding: chunked\r\nContent-Length: 1", both);
        check_fields("Transfer-Encoding: gzip", "unknown \"Transfer-Encoding\": \"gzip\"");
    }

    #[test]
    fn reads_heads_of_programs() {
        #[track_caller]
        fn check(parse: fn(&[u8], &mut ResponseHead) -> Result<Parsed, BadResponse>, input: &str, expected: &str) {
            let mut head = ResponseHead::new();
            for cut in 0..=input.len() {
                let mut result = parse(&input.as_bytes()[..cut], &mut head);
                if result == Ok(Parsed::Partial) {
                    result = parse(input.as_bytes(), &mut head);
                }
                assert_eq!(summary(&result, &head), expected, "cut at {cut}: {input:?}");
                head.clear();
            }
        }
        check(parse_cgi_response, "A: b\r\n\r\nbody", "8 0.0 200 OK A=b UntilClose");
        check(parse_cgi_response, "\n", "1 0.0 200 OK UntilClose");
        check(parse_cgi_response, "Status: 404 Not Found\n\n", "23 0.0 404 Not Found Status=404 Not Found UntilClose");
        check(parse_cgi_response, "Status: 204\n\n", "13 0.0 204 Status=204 Known(0)");
        check(parse_cgi_response, "Location: /a\n\n", "14 0.0 302 Moved Temporarily Location=/a UntilClose");
        check(
            parse_cgi_response,
            "Location: /a\nStatus: 201 x\n\n",
            "28 0.0 201 x Location=/a Status=201 x UntilClose",
        );
        check(parse_cgi_response, "HTTP/1.1 404 No\nContent-Length: 1\n\n", "35 0.0 200 OK Content-Length=1 Known(1)");
        check(parse_cgi_response, "Status: ok\n\n", "invalid status \"ok\"");
        check(parse_cgi_response, "Status: 099 x\n\n", "invalid status \"099 x\"");
        check(parse_cgi_response, "Status: 100 Continue\n\n", "invalid status \"100 Continue\"");
        check(parse_cgi_response, "Status: 1000\n\n", "invalid status \"1000\"");
        check(parse_cgi_response, "Status: 20\n\n", "invalid status \"20\"");
        check(parse_cgi_response, "A: b\n", "partial");
        check(parse_gateway_response, "HTTP/1.0 404 No\nA: b\n\n", "22 1.0 404 No A=b UntilClose");
        check(parse_gateway_response, "HTTPS: on\n\n", "11 0.0 200 OK HTTPS=on UntilClose");
        check(parse_gateway_response, "Status: 500 x\n\n", "15 0.0 500 x Status=500 x UntilClose");
    }

    #[test]
    fn knows_what_is_reusable() {
        #[track_caller]
        fn check(input: &str, to_head: bool, expected: bool) {
            let mut head = ResponseHead::new();
            parse_response(input.as_bytes(), &mut head).expect("a valid head");
            assert_eq!(head.is_reusable(to_head), expected, "{input}");
        }
        check("HTTP/1.1 200 OK\r\n\r\n", false, false);
        check("HTTP/1.1 200 OK\r\n\r\n", true, true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", false, true);
        check("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n", false, false);
        check("HTTP/1.1 101 Switching\r\n\r\n", false, false);
    }
}
