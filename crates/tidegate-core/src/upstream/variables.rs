//! `$upstream_*`: one value for each try, divided by commas, and by colons after an internal redirect.
//!
//! Source: nginx, `ngx_http_upstream_vars`.

use std::io::Write;

use tidegate_http::{cookie::set_cookie, date::http_date};

use super::record::{Asked, Record, Try};
use crate::{request::Request, variable::VariableDef};

/// The variables; the module `upstream` brings them.
pub static VARIABLES: &[VariableDef] = &[
    VariableDef::new("upstream_addr", |req, _, out| each(req, out, name), "Addresses of the peers that were asked."),
    VariableDef::new("upstream_status", |req, _, out| each(req, out, status), "Statuses that they answered."),
    VariableDef::new(
        "upstream_connect_time",
        |req, _, out| each(req, out, |t, out| seconds(t.connect_ms, out)),
        "Seconds until a connection was made.",
    ),
    VariableDef::new(
        "upstream_header_time",
        |req, _, out| each(req, out, |t, out| seconds(t.header_ms, out)),
        "Seconds until the response's head was there.",
    ),
    VariableDef::new(
        "upstream_response_time",
        |req, _, out| each(req, out, |t, out| seconds(t.response_ms, out)),
        "Seconds until the response was complete.",
    ),
    VariableDef::new(
        "upstream_response_length",
        |req, _, out| each(req, out, |t, out| number(t.response_length, out)),
        "Bytes of the responses' bodies.",
    ),
    VariableDef::new(
        "upstream_bytes_received",
        |req, _, out| each(req, out, |t, out| number(t.bytes_received, out)),
        "Bytes received.",
    ),
    VariableDef::new(
        "upstream_bytes_sent",
        |req, _, out| each(req, out, |t, out| number(t.bytes_sent, out)),
        "Bytes sent.",
    ),
    VariableDef::new("upstream_cache_status", cache_status, "Where the response came from: HIT, MISS and others."),
    VariableDef::new(
        "upstream_cache_last_modified",
        |req, _, out| {
            let seconds = req.upstream_record(|record| record.cache.last_modified).flatten();
            seconds.is_some_and(|seconds| {
                out.extend_from_slice(&http_date(seconds));
                true
            })
        },
        "Last-Modified of a response in the cache that is out of date and may still be good.",
    ),
    VariableDef::new(
        "upstream_cache_etag",
        |req, _, out| {
            let append = |record: &Record| {
                out.extend_from_slice(&record.cache.etag);
                !record.cache.etag.is_empty()
            };
            req.upstream_record(append).unwrap_or(false)
        },
        "ETag of a response in the cache that is out of date and may still be good.",
    ),
    VariableDef::new("upstream_http_", http, "A field of the upstream's response."),
    VariableDef::new("upstream_trailer_", trailer, "A trailer of the upstream's response."),
    VariableDef::new("upstream_cookie_", cookie, "A cookie that the upstream sets."),
];

fn each(req: &Request, out: &mut Vec<u8>, write: fn(&Try, &mut Vec<u8>)) -> bool {
    req.upstream_record(|record| join(&record.tries, out, write)).unwrap_or(false)
}

fn join(tries: &[Try], out: &mut Vec<u8>, write: fn(&Try, &mut Vec<u8>)) -> bool {
    let mut first = true;
    let mut divider: &[u8] = b", ";
    for one in tries {
        if matches!(one.asked, Asked::Divider) {
            divider = b" : ";
            continue;
        }
        if !first {
            out.extend_from_slice(divider);
        }
        (first, divider) = (false, b", ");
        write(one, out);
    }
    !first
}

fn name(one: &Try, out: &mut Vec<u8>) {
    out.extend_from_slice(one.name());
}

fn status(one: &Try, out: &mut Vec<u8>) {
    match one.status {
        0 => out.push(b'-'),
        status => number(status.into(), out),
    }
}

fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn seconds(ms: Option<u64>, out: &mut Vec<u8>) {
    match ms {
        None => out.push(b'-'),
        // A vector takes everything.
        Some(ms) => drop(write!(out, "{}.{:03}", ms / 1000, ms % 1000)),
    }
}

fn cache_status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let status = req.upstream_record(|record| record.cache.status).flatten();
    status.is_some_and(|status| {
        out.extend_from_slice(status.name().as_bytes());
        true
    })
}

fn http(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let join = |record: &Record| append_all(record.head.fields.iter_underscored(name), out);
    req.upstream_record(join).unwrap_or(false)
}

fn trailer(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let join = |record: &Record| append_all(record.trailers.iter_underscored(name), out);
    req.upstream_record(join).unwrap_or(false)
}

fn append_all<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for value in values {
        if found {
            out.extend_from_slice(b", ");
        }
        found = true;
        out.extend_from_slice(value);
    }
    found
}

fn cookie(req: &Request, name: &[u8], out: &mut Vec<u8>) -> bool {
    let find = |record: &Record| match set_cookie(&record.head.fields, name) {
        Some(value) => {
            out.extend_from_slice(value);
            true
        }
        None => false,
    };
    req.upstream_record(find).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::upstream::{Address, Peer};

    fn one(port: u16, status: u16) -> Try {
        let peer = Peer::new(Address::Inet(([127, 0, 0, 1], port).into()), "p".into());
        Try {
            asked: Asked::Peer(Arc::new(peer)),
            status,
            started_ms: 0,
            connect_ms: Some(1),
            header_ms: None,
            response_ms: Some(1234),
            response_length: 7,
            bytes_sent: 0,
            bytes_received: 0,
            resumed: None,
            was_cut: false,
        }
    }

    #[track_caller]
    fn check(tries: &[Try], expected: &str) {
        let mut text = Vec::new();
        join(tries, &mut text, name);
        text.push(b'|');
        join(tries, &mut text, status);
        text.push(b'|');
        join(tries, &mut text, |t, out| seconds(t.response_ms, out));
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn joins() {
        check(&[one(1, 200)], "127.0.0.1:1|200|1.234");
        check(&[one(1, 502), one(2, 0)], "127.0.0.1:1, 127.0.0.1:2|502, -|1.234, 1.234");
        let divider = Try { asked: Asked::Divider, ..one(0, 0) };
        check(
            &[one(1, 502), divider, one(2, 200), one(3, 200)],
            "127.0.0.1:1 : 127.0.0.1:2, 127.0.0.1:3|502 : 200, 200|1.234 : 1.234, 1.234",
        );
    }
}
