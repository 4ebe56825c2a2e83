//! The head that a server sees: request line, `proxy_set_header`, and the client's fields.
//!
//! Source: nginx, `ngx_http_proxy_create_request`.

use std::rc::Rc;

use bstr::{BStr, BString};
use tidegate_core::{request::Request, template::Template, upstream::Promise};
use tidegate_http::{Known, Method, date::http_date, response::write_field};

/// Fields that a server gets unless `proxy_set_header` says otherwise; empty ones are left out.
const DEFAULTS: &[(&str, Source)] = &[
    ("Host", Source::Host),
    ("Connection", Source::Text("close")),
    ("Content-Length", Source::BodyLength),
    ("Transfer-Encoding", Source::Chunked),
    ("TE", Source::Text("")),
    ("Keep-Alive", Source::Text("")),
    ("Expect", Source::Text("")),
    ("Upgrade", Source::Text("")),
];

/// As [`DEFAULTS`], for a response that is kept: it is to be whole, and the same for all.
pub(super) const FOR_CACHE: &[(&str, Source)] = &[
    ("If-Modified-Since", Source::Modified),
    ("If-Unmodified-Since", Source::Text("")),
    ("If-None-Match", Source::ETag),
    ("If-Match", Source::Text("")),
    ("Range", Source::Text("")),
    ("If-Range", Source::Text("")),
];

#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Text(&'static str),
    /// `Last-Modified` of what is in the cache and out of date.
    Modified,
    /// The `ETag` of that.
    ETag,
    Host,
    BodyLength,
    Chunked,
}

/// One line of the head.
#[derive(Debug)]
enum Line {
    /// The same for every request.
    Static(BString),
    /// Made for each request; left out if it is empty.
    Template(BString, Template),
    /// `Content-Length` or `Transfer-Encoding`, as the configuration has them.
    Framing(BString, Template),
    Host,
    BodyLength,
    Chunked,
    Modified,
    ETag,
}

/// The fields of a location's requests.
#[derive(Debug)]
pub(super) struct Fields {
    lines: Vec<Line>,
    /// Fields of the client that do not go on, because a line above speaks of them.
    taken: Box<[bool]>,
    taken_others: Vec<BString>,
}

/// What the head of a request says of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Announced {
    /// Nothing: there is none.
    Nothing,
    /// It has so many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// The configuration says something else than a length.
    Unclear,
}

impl Announced {
    /// What the server takes for a part of the request behind this head.
    pub(super) fn promise(self) -> Promise {
        match self {
            Announced::Nothing => Promise::Bytes(0),
            Announced::Length(length) => Promise::Bytes(length),
            Announced::Chunked => Promise::LastFrame,
            Announced::Unclear => Promise::Unclear,
        }
    }

    /// This, and another field beside it.
    fn and(self, field: Announced) -> Self {
        if self == Announced::Nothing { field } else { Announced::Unclear }
    }
}

/// A `proxy_set_header`: name and value.
pub(super) type SetHeader = (BString, Template);

impl Fields {
    /// Of `proxy_set_header`, and of what goes without saying: [`DEFAULTS`] and `more`.
    pub(super) fn new(set: &[SetHeader], more: &[(&str, Source)]) -> Self {
        let mut fields =
            Fields { lines: Vec::new(), taken: vec![false; Known::ALL.len() + 1].into(), taken_others: Vec::new() };
        for (name, value) in set {
            fields.take(name);
            match value.as_literal() {
                Some(b"") => {}
                _ if matches!(Known::of(name), Known::ContentLength | Known::TransferEncoding) => {
                    fields.lines.push(Line::Framing(name.clone(), value.clone()));
                }
                Some(text) => fields.lines.push(static_line(name, text)),
                None => fields.lines.push(Line::Template(name.clone(), value.clone())),
            }
        }
        for (name, source) in DEFAULTS.iter().chain(more) {
            if set.iter().any(|(set, _)| set.eq_ignore_ascii_case(name.as_bytes())) {
                continue;
            }
            fields.take(name.as_bytes());
            match source {
                Source::Text("") => {}
                Source::Text(text) => fields.lines.push(static_line(name.as_bytes(), text.as_bytes())),
                Source::Host => fields.lines.push(Line::Host),
                Source::BodyLength => fields.lines.push(Line::BodyLength),
                Source::Chunked => fields.lines.push(Line::Chunked),
                Source::Modified => fields.lines.push(Line::Modified),
                Source::ETag => fields.lines.push(Line::ETag),
            }
        }
        fields
    }

    fn take(&mut self, name: &[u8]) {
        match Known::of(name) {
            Known::Other => self.taken_others.push(name.into()),
            known => self.taken[known as usize] = true,
        }
    }

    fn is_taken(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.taken_others.iter().any(|taken| taken.eq_ignore_ascii_case(name)),
            known => self.taken[known as usize],
        }
    }

    /// Appends the lines of `proxy_set_header`, and the client's other fields if `pass` says so. Answers what the lines
    /// really say of the body: `body` is what they are to say.
    pub(super) fn write(
        &self,
        req: &Rc<Request>,
        host: &BStr,
        body: Announced,
        pass: bool,
        out: &mut Vec<u8>,
    ) -> Announced {
        let mut said = Announced::Nothing;
        for line in &self.lines {
            match line {
                Line::Static(text) => out.extend_from_slice(text),
                Line::Template(name, value) => {
                    write_template(name, value, req, out);
                }
                Line::Framing(name, value) => {
                    let text = write_template(name, value, req, out);
                    if !text.is_empty() {
                        said = said.and(announced_by(name, text));
                    }
                }
                Line::Host => write_field(b"Host", host, out),
                Line::BodyLength => {
                    if let Announced::Length(length) = body {
                        write_field(b"Content-Length", itoa::Buffer::new().format(length).as_bytes(), out);
                        said = said.and(body);
                    }
                }
                Line::Chunked if body == Announced::Chunked => {
                    out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                    said = said.and(body);
                }
                Line::Chunked => {}
                Line::Modified => {
                    if let Some(seconds) = req.upstream_record(|record| record.cache.last_modified).flatten() {
                        write_field(b"If-Modified-Since", &http_date(seconds), out);
                    }
                }
                Line::ETag => {
                    req.upstream_record(|record| match &record.cache.etag[..] {
                        b"" => {}
                        etag => write_field(b"If-None-Match", etag, out),
                    });
                }
            }
        }
        if pass {
            for (name, value, known) in req.head.borrow().fields.iter() {
                if !self.is_taken(known, name) {
                    write_field(name, value, out);
                }
            }
        }
        said
    }
}

/// Appends a line, unless its value is empty; answers the value.
fn write_template<'o>(name: &[u8], value: &Template, req: &Rc<Request>, out: &'o mut Vec<u8>) -> &'o [u8] {
    let start = out.len();
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let value_start = out.len();
    value.write(req, out);
    let value_end = out.len();
    if value_end == value_start {
        out.truncate(start);
        return b"";
    }
    out.extend_from_slice(b"\r\n");
    &out[value_start..value_end]
}

/// What a field of the configuration says of the body.
fn announced_by(name: &[u8], value: &[u8]) -> Announced {
    let is_number = value.iter().all(u8::is_ascii_digit);
    match std::str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse().ok()) {
        Some(length) if Known::of(name) == Known::ContentLength => Announced::Length(length),
        _ => Announced::Unclear,
    }
}

fn static_line(name: &[u8], text: &[u8]) -> Line {
    let mut line = Vec::new();
    write_field(name, text, &mut line);
    Line::Static(line.into())
}

/// Appends the method that the request has now.
pub(super) fn write_method(req: &Request, out: &mut Vec<u8>) {
    match req.method.get() {
        Method::Head if asks_get(req) => out.extend_from_slice(b"GET"),
        Method::Other => out.extend_from_slice(req.head.borrow().method_text()),
        method => out.extend_from_slice(method.name().as_bytes()),
    }
}

/// Whether the server is asked GET where the client asks HEAD.
pub(super) fn asks_get(req: &Request) -> bool {
    req.upstream_record(|record| record.cache.asks_get).unwrap_or(false)
}
