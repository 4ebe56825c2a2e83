//! Byte ranges: the `Range` field, and the parts of an answer with several ranges.

use std::ops::Range;

/// What a `Range` field asks for, of content of a known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole content with status 200: no byte range, too many, or so much that the whole is cheaper.
    Whole,
    /// Send these parts with status 206; never empty, each lies within the content.
    Parts(Vec<Range<u64>>),
    /// Send status 416 with `Content-Range: bytes */length`.
    NotSatisfiable,
}

/// The limit of `max_ranges` when it is not configured.
pub const MAX_RANGES_UNLIMITED: usize = i32::MAX as usize;

/// What a part of a multipart answer costs at most beside its content, and what an answer may cost more than the whole;
/// only without a configured limit.
const PART_BYTES: u64 = 256;
const EXTRA_BYTES_MAX: u64 = 4096;

/// Reads a `Range` field for content of `length` bytes; at most `ranges_max` ranges are honoured.
///
/// Ranges beyond the end are dropped, ends are cut; ranges that together are longer than the content give the whole,
/// which answers the overlapping-ranges attack. `If-Range` is the caller's, see [`crate::conditional::if_range`].
///
/// Source: nginx, `ngx_http_range_parse`.
pub fn parse_range(value: &[u8], length: u64, ranges_max: usize) -> Ranges {
    let Some((unit, list)) = value.split_first_chunk::<6>() else { return Ranges::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes=") || list.is_empty() || ranges_max == 0 {
        return Ranges::Whole;
    }
    let mut parts = Vec::new();
    let mut total = 0u64;
    for spec in list.split(|&byte| byte == b',') {
        let Some((start, end)) = parse_spec(spec, length) else { return Ranges::NotSatisfiable };
        if start < end {
            if parts.len() == ranges_max {
                return Ranges::Whole;
            }
            total = match total.checked_add(end - start) {
                Some(total) if total <= i64::MAX as u64 => total,
                _ => return Ranges::NotSatisfiable,
            };
            parts.push(start..end);
        } else if start == 0 {
            // `-0`, or anything of empty content.
            return Ranges::Whole;
        }
    }
    match parts.len() {
        0 => Ranges::NotSatisfiable,
        1 => Ranges::Parts(parts),
        _ if total > length => Ranges::Whole,
        count if ranges_max >= MAX_RANGES_UNLIMITED && total + count as u64 * PART_BYTES > length + EXTRA_BYTES_MAX => {
            Ranges::Whole
        }
        _ => Ranges::Parts(parts),
    }
}

/// Reads `first-last`, `first-` or `-suffix` and returns the start and the end behind the last byte, cut to the length.
fn parse_spec(spec: &[u8], length: u64) -> Option<(u64, u64)> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (trim(&spec[..dash]), trim(&spec[dash + 1..]));
    let number = crate::field_line::parse_length;
    match (first, last) {
        // nginx allows spaces everywhere but here.
        (b"", _) if spec[dash + 1..].starts_with(b" ") => None,
        (b"", suffix) => Some((length.saturating_sub(number(suffix)?), length)),
        (first, b"") => Some((number(first)?, length)),
        (first, last) => Some((number(first)?, number(last)?.saturating_add(1).min(length))),
    }
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

/// The value of `Content-Range` for a part, e.g. `bytes 0-99/1234`.
pub fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1))
}

/// The value of `Content-Range` for an answer with status 416, e.g. `bytes */1234`.
pub fn content_range_unsatisfied(length: u64) -> String {
    format!("bytes */{length}")
}

/// An answer with several ranges: `multipart/byteranges`.
///
/// ```text
/// CR LF --boundary CR LF
/// Content-Type: type CR LF
/// Content-Range: bytes 0-99/1234 CR LF
/// CR LF
/// <100 bytes>
/// … more parts …
/// CR LF --boundary-- CR LF
/// ```
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    /// What stands before the numbers of every part.
    header: Vec<u8>,
    length: u64,
}

impl Multipart {
    /// An answer for content of `length` bytes; `boundary_number` must be hard to guess from outside.
    pub fn new(boundary_number: u64, content_type: Option<&[u8]>, charset: Option<&[u8]>, length: u64) -> Multipart {
        let boundary = format!("{boundary_number:020}");
        let mut header = format!("\r\n--{boundary}\r\n").into_bytes();
        if let Some(content_type) = content_type {
            header.extend_from_slice(b"Content-Type: ");
            header.extend_from_slice(content_type);
            if let Some(charset) = charset {
                header.extend_from_slice(b"; charset=");
                header.extend_from_slice(charset);
            }
            header.extend_from_slice(b"\r\n");
        }
        header.extend_from_slice(b"Content-Range: bytes ");
        Multipart { boundary, header, length }
    }

    /// The value of `Content-Type` for the answer.
    pub fn content_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// What goes before the content of a part.
    pub fn part_header(&self, part: &Range<u64>) -> Vec<u8> {
        let mut out = self.header.clone();
        let numbers = format!("{}-{}/{}\r\n\r\n", part.start, part.end.saturating_sub(1), self.length);
        out.extend_from_slice(numbers.as_bytes());
        out
    }

    /// What goes behind the content of the last part.
    pub fn end(&self) -> Vec<u8> {
        format!("\r\n--{}--\r\n", self.boundary).into_bytes()
    }

    /// The length of the whole answer's body.
    pub fn content_length(&self, parts: &[Range<u64>]) -> u64 {
        let parts = parts.iter().map(|part| self.part_header(part).len() as u64 + (part.end - part.start));
        parts.sum::<u64>() + self.end().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_with(value: &str, length: u64, ranges_max: usize, expected: &str) {
        let found = match parse_range(value.as_bytes(), length, ranges_max) {
            Ranges::Whole => "whole".to_owned(),
            Ranges::NotSatisfiable => "416".to_owned(),
            Ranges::Parts(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("{}..{}", part.start, part.end)).collect();
                parts.join(" ")
            }
        };
        assert_eq!(found, expected, "{value} of {length}");
    }

    #[test]
    fn reads_ranges() {
        #[track_caller]
        fn check(value: &str, expected: &str) {
            check_with(value, 1000, MAX_RANGES_UNLIMITED, expected);
        }
        check("bytes=0-0", "0..1");
        check("bytes=0-", "0..1000");
        check("Bytes=10-19", "10..20");
        check("bytes=990-2000", "990..1000");
        check("bytes=-10", "990..1000");
        check("bytes=-2000", "0..1000");
        check("bytes= 1 - 2 ", "1..3");
        check("bytes=- 5", "416");
        check("bytes=1000-", "416");
        check("bytes=1000-1001", "416");
        check("bytes=5-4", "416");
        check("bytes=0-1,1000-", "0..2");
        check("bytes=0-1,5-6", "0..2 5..7");
        check("bytes=0-1, -1", "0..2 999..1000");
        check("bytes=0-599,500-999", "whole");
        check("bytes=-0", "416");
        check("bytes=", "whole");
        check("bytes=x", "416");
        check("bytes=1", "416");
        check("bytes=1-x", "416");
        check("bytes=1-2x", "416");
        check("bytes=1-2,", "416");
        check("bytes=--1", "416");
        check("bytes=9223372036854775808-", "416");
        check("bytes=0-9223372036854775807", "0..1000");
        check("items=0-1", "whole");
        check("", "whole");
    }

    #[test]
    fn bounds_ranges() {
        check_with("bytes=0-0,2-2", 10, 1, "whole");
        check_with("bytes=0-0,2-2", 10, 2, "0..1 2..3");
        check_with("bytes=0-0", 10, 0, "whole");
        check_with("bytes=0-0", 0, 1, "whole");
        check_with("bytes=-5", 0, 1, "whole");
        check_with("bytes=1-", 0, 1, "416");
        let many = format!("bytes={}", (0..20).map(|i| format!("{}-{}", 2 * i, 2 * i)).collect::<Vec<_>>().join(","));
        check_with(&many, 100, MAX_RANGES_UNLIMITED, "whole");
    }

    #[test]
    fn frames_parts() {
        let multipart = Multipart::new(7, Some(b"text/plain"), Some(b"utf-8"), 100);
        assert_eq!(multipart.content_type(), "multipart/byteranges; boundary=00000000000000000007");
        let (first, second) = (0..2, 90..100);
        let mut body = multipart.part_header(&first);
        assert_eq!(
            body,
            b"\r\n--00000000000000000007\r\nContent-Type: text/plain; charset=utf-8\r\n\
              Content-Range: bytes 0-1/100\r\n\r\n"
        );
        body.extend_from_slice(b"ab");
        body.extend_from_slice(&multipart.part_header(&second));
        body.extend_from_slice(b"0123456789");
        body.extend_from_slice(&multipart.end());
        assert_eq!(multipart.content_length(&[first.clone(), second]), body.len() as u64);
        assert_eq!(content_range(&first, 100), "bytes 0-1/100");
        assert_eq!(content_range_unsatisfied(100), "bytes */100");
    }
}
