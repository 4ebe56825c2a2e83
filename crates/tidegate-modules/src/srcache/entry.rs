//! A response as it is kept.
//!
//! ```text
//! HTTP/1.1 200 OK\r\n
//! Content-Type: text/html; charset=utf-8\r\n
//! X-SRCache-Allow-Ranges: 1\r\n                the body may be served in ranges
//! X-SRCache-Fresh-Until: 1000000000\r\n        with `srcache_stale`: when it ends, in seconds since 1970
//! …\r\n
//! \r\n
//! body
//! ```
//!
//! But for that line the format is that of srcache-nginx-module: both read what the other kept.

use bstr::BString;
use bytes::Bytes;
use tidegate_core::output::Response;
use tidegate_http::{
    Known, ResponseHead,
    date::{http_date, parse_http_date},
    parse_response, reason,
    request::Parsed,
};
use tidegate_net::clock;

const ALLOW_RANGES: &[u8] = b"X-SRCache-Allow-Ranges";
const FRESH_UNTIL: &[u8] = b"X-SRCache-Fresh-Until";

/// What an entry costs in memory beside the bytes that it was made of.
const ENTRY_BYTES: usize = 1024;

/// Writes the head of a response, which is fresh until then.
pub(super) fn write_head(response: &Response, hidden: &[BString], fresh_until: Option<i64>) -> Vec<u8> {
    let is_hidden = |name: &[u8]| hidden.iter().any(|hidden| hidden.eq_ignore_ascii_case(name));
    let mut out = Vec::with_capacity(512);
    let mut field = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    let mut digits = itoa::Buffer::new();
    let status = if response.status == 0 { 200 } else { response.status };
    if response.status_line.is_empty() {
        let text = reason(status).unwrap_or_default().as_bytes();
        field(&[b"HTTP/1.1 ", digits.format(status).as_bytes(), b" ", text, b"\r\n"]);
    } else {
        field(&[b"HTTP/1.1 ", digits.format(status).as_bytes(), b" ", &response.status_line, b"\r\n"]);
    }
    if !response.content_type.is_empty() && !is_hidden(b"Content-Type") {
        let charset: [&[u8]; 2] =
            if response.charset.is_empty() { [b"", b""] } else { [b"; charset=", &response.charset] };
        field(&[b"Content-Type: ", &response.content_type, charset[0], charset[1], b"\r\n"]);
    }
    if let Some(time) = response.last_modified.filter(|_| matches!(status, 200 | 204 | 206 | 304))
        && !is_hidden(b"Last-Modified")
    {
        field(&[b"Last-Modified: ", &http_date(time), b"\r\n"]);
    }
    if response.allow_ranges {
        field(&[ALLOW_RANGES, b": 1\r\n"]);
    }
    if let Some(time) = fresh_until {
        field(&[FRESH_UNTIL, b": ", itoa::Buffer::new().format(time).as_bytes(), b"\r\n"]);
    }
    for (name, value, _) in response.fields.iter().filter(|(name, ..)| !is_hidden(name)) {
        field(&[name, b": ", value, b"\r\n"]);
    }
    field(&[b"\r\n"]);
    out
}

/// A response that was kept.
#[derive(Debug)]
pub(super) struct Entry {
    head: ResponseHead,
    head_bytes: usize,
    /// When it ends, in seconds since 1970.
    fresh_until: Option<i64>,
    /// The body.
    pub(super) body: Bytes,
}

impl Entry {
    /// Reads an entry; lines of its head have at most `line_bytes_max` bytes.
    ///
    /// # Errors
    /// Why it is none, for the log.
    pub(super) fn parse(entry: Bytes, line_bytes_max: usize) -> Result<Entry, &'static str> {
        let mut head = ResponseHead::new();
        let head_len = match parse_response(&entry, &mut head) {
            Ok(Parsed::Complete(len)) => len,
            Ok(Parsed::Partial) => return Err("cache sent truncated status line or headers"),
            Err(_) if !entry.starts_with(b"HTTP/") => return Err("cache sent invalid status line"),
            Err(_) => return Err("cache sent invalid header"),
        };
        if entry[..head_len].split_inclusive(|&byte| byte == b'\n').skip(1).any(|line| line.len() > line_bytes_max) {
            let text = "header buffer overflown (maybe you should consider increasing srcache_header_buffer_size?)";
            return Err(text);
        }
        let fresh_until =
            head.fields.get_name(FRESH_UNTIL).and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
        Ok(Entry { head, head_bytes: head_len, fresh_until, body: entry.slice(head_len..) })
    }

    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        // Once as it came, once taken apart.
        ENTRY_BYTES + 2 * self.head_bytes + self.body.len()
    }

    /// Whether it may be served without a thought.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh_until.is_none_or(|until| clock::now_unix() < until)
    }

    /// Makes its head that of a response.
    pub(super) fn restore(&self, response: &mut Response) {
        response.status = self.head.status;
        let usual = reason(self.head.status).is_some_and(|reason| self.head.reason() == reason.as_bytes());
        if !usual {
            response.status_line.clear();
            response.status_line.extend_from_slice(self.head.reason());
        }
        for (name, value, known) in self.head.fields.iter() {
            match known {
                Known::ContentLength | Known::TransferEncoding | Known::Connection => {}
                Known::ContentType => response.set_content_type(value),
                Known::LastModified => match parse_http_date(value) {
                    Some(time) => response.last_modified = Some(time),
                    None => response.fields.append(name, value),
                },
                // It went to a client as it is.
                Known::Location => {
                    response.keep_location = true;
                    response.fields.append(name, value);
                }
                _ if name.eq_ignore_ascii_case(ALLOW_RANGES) => response.allow_ranges = true,
                _ if name.eq_ignore_ascii_case(FRESH_UNTIL) => {}
                _ => response.fields.append(name, value),
            }
        }
        response.content_length = Some(self.body.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Response {
        let mut response = Response::default();
        response.status = 200;
        response.set_content_type(b"text/html; charset=utf-8");
        response.last_modified = Some(1_000_000_000);
        response.allow_ranges = true;
        response.fields.append(b"ETag", b"\"x\"");
        response.fields.append(b"Set-Cookie", b"a=b");
        response.fields.append(b"X-A", b"1");
        response.fields.append(b"X-A", b"2");
        response
    }

    const KEPT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\
        Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\nX-SRCache-Allow-Ranges: 1\r\nETag: \"x\"\r\nX-A: 1\r\nX-A: 2\r\n\r\n";

    #[test]
    fn what_is_kept_comes_back() {
        let hidden = [BString::from("set-cookie")];
        let kept = write_head(&sample(), &hidden, None);
        assert_eq!(BString::from(&*kept), BString::from(KEPT));
        let entry = Entry::parse([&*kept, b"body"].concat().into(), 4096).expect("an entry");
        assert_eq!(&*entry.body, b"body");
        let mut restored = Response::default();
        entry.restore(&mut restored);
        assert_eq!(restored.content_length, Some(4));
        assert_eq!(write_head(&restored, &hidden, None), kept);
    }

    #[test]
    fn other_statuses() {
        let mut response = Response::default();
        response.status = 302;
        response.last_modified = Some(0);
        assert_eq!(write_head(&response, &[], None), b"HTTP/1.1 302 Moved Temporarily\r\n\r\n");
        response.status = 299;
        response.status_line = "Odd".into();
        let kept = write_head(&response, &[], None);
        assert_eq!(kept, b"HTTP/1.1 299 Odd\r\n\r\n");
        let mut restored = Response::default();
        Entry::parse(kept.clone().into(), 4096).expect("an entry").restore(&mut restored);
        assert_eq!(write_head(&restored, &[], None), kept);
    }

    #[test]
    fn an_end_is_kept_and_not_shown() {
        let kept = write_head(&sample(), &[], Some(1));
        let entry = Entry::parse(kept.into(), 4096).expect("an entry");
        assert!(!entry.is_fresh());
        let mut restored = Response::default();
        entry.restore(&mut restored);
        assert_eq!(write_head(&restored, &[], None), write_head(&sample(), &[], None));
        let kept = write_head(&sample(), &[], Some(i64::MAX));
        assert!(Entry::parse(kept.into(), 4096).expect("an entry").is_fresh());
    }

    #[test]
    fn what_is_no_entry() {
        for cut in 0..KEPT.len() {
            Entry::parse(KEPT[..cut].into(), 4096).expect_err("it is cut off");
        }
        let error = |entry: &[u8]| Entry::parse(entry.to_vec().into(), 16).expect_err("no entry");
        assert_eq!(error(b"hello"), "cache sent invalid status line");
        assert_eq!(error(b"HTTP/1.1 200 OK\r\na b\r\n\r\n"), "cache sent invalid header");
        let long = [b"HTTP/1.1 200 OK\r\nA: ", &[b'x'; 20][..], b"\r\n\r\n"].concat();
        assert!(error(&long).starts_with("header buffer overflown"));
    }
}
