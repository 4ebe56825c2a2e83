//! `slice`: large files are asked of an upstream, and kept in its cache, in parts of one size.
//!
//! The request asks for the part in which the response to the client begins ([`$slice_range`](MODULE)); requests like it, one
//! after the other, ask for those behind it until the client has all that it wants.
//!
//! Follows nginx's `ngx_http_slice_module`.

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
    sync::Arc,
};

use tidegate_core::{
    byte_ranges::{ByteRanges, Part},
    inherit,
    module::{Directive, Module},
    output::{Chunk, Closed, Response},
    phase::Ready,
    request::{Request, Sink},
    subrequest::Subrequest,
    upstream::caching::ALL_PARTS,
    variable::VariableDef,
};
use tidegate_http::Known;
use tidegate_net::log::Level;

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    slice: Option<usize>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::size("slice", |c: &mut Conf| &mut c.slice)
        .default("0")
        .doc("Size of the parts that $slice_range asks for; 0 for no parts.")],
    variables: &[VariableDef::new(
        "slice_range",
        slice_range,
        "Range of the part that the upstream is to be asked for, as the field Range has it.",
    )],
    inherit: |child, parent, _| inherit!(child, parent; slice),
    install: |conf, program| {
        if let Some(size) = conf.size() {
            program.header_filter(filter_header);
            program.body_filter(move |req, chunk| filter_body(req, chunk, size));
        }
    },
    example: "
        proxy_cache_path /var/cache/tidegate keys_zone=parts:10m;
        server {
            location /video/ {
                slice 1m;
                proxy_cache parts;
                proxy_cache_key $uri$is_args$args$slice_range;
                proxy_set_header Range $slice_range;
                proxy_cache_valid 200 206 1h;
                proxy_pass http://127.0.0.1:8081;
            }
        }
    ",
    ..Module::named("slice")
};

impl Conf {
    fn size(self: &Arc<Self>) -> Option<u64> {
        self.slice.filter(|size| *size > 0).map(|size| size as u64)
    }
}

/// The part that a request asks for, of the whole content.
#[derive(Debug, Default)]
struct Slice {
    /// The part begins here.
    start: Cell<u64>,
    size: Cell<u64>,
    /// The parts have to be of one version: the `ETag` of the first; empty for none.
    etag: RefCell<Vec<u8>>,
    /// What the client gets of the whole; nothing for all of it.
    wanted: RefCell<Option<Range<u64>>>,
    /// Where the response ends that has come; nothing before it has come, or where it is not in parts.
    end: Cell<Option<u64>>,
    /// Length of the whole content.
    complete_bytes: Cell<u64>,
    /// The first part is on its way, and the others are to follow.
    fetches: Cell<bool>,
}

fn slice_range(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let purges = req.upstream_record(|record| record.cache.purges) == Some(true);
    if purges && req.module_conf(&MODULE).slice.is_some_and(|size| size > 0) {
        req.upstream_record_mut(|record| record.cache.purges_parts = true);
        out.extend_from_slice(ALL_PARTS);
        return true;
    }
    let slice = match req.find_context::<Slice>() {
        Some(slice) => slice,
        None => {
            // Nobody puts the parts of a sub-request together, and a response that has begun is in none.
            if req.is_subrequest() || req.response.borrow().status != 0 {
                return false;
            }
            let Some(size) = req.module_conf(&MODULE).slice.filter(|size| *size > 0) else { return false };
            let slice = req.context::<Slice>();
            slice.size.set(size as u64);
            slice.start.set(first_byte(req) / size as u64 * size as u64);
            slice
        }
    };
    let (start, size) = (slice.start.get(), slice.size.get());
    out.extend_from_slice(format!("bytes={start}-{}", start.saturating_add(size - 1)).as_bytes());
    true
}

/// Where the range begins that the client wants, if it wants one.
///
/// Source: nginx, `ngx_http_slice_get_start`.
fn first_byte(req: &Request) -> u64 {
    let head = req.head.borrow();
    if head.fields.contains(Known::IfRange) {
        return 0;
    }
    let Some(range) = head.fields.get(Known::Range) else { return 0 };
    let Some((unit, set)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || set.contains(&b',') {
        return 0;
    }
    let digits = set.trim_ascii_start().iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u64, |start, digit| start.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

fn filter_header(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    let Some(slice) = req.find_context::<Slice>() else { return Ready::Now(Ok(())) };
    let mut response = req.response.borrow_mut();
    if response.status != 206 && !req.is_subrequest() {
        // All of it, or an error: there are no parts.
        return Ready::Now(Ok(()));
    }
    match slice.take_head(&mut response) {
        Ok(()) => {}
        Err(message) => {
            drop(response);
            req.log(Level::Error, format_args!("{message}"));
            return Ready::Now(Err(Closed));
        }
    }
    if let Some(wanted) = &*slice.wanted.borrow() {
        let (start, end) = (slice.start.get(), slice.end.get().unwrap_or_default());
        let range = wanted.start.max(start) - start..wanted.end.min(end).saturating_sub(start);
        if range != (0..end - start) {
            response.ranges =
                Some(Box::new(ByteRanges::new(vec![Part { head: Default::default(), range }], Default::default())));
        }
    }
    Ready::Now(Ok(()))
}

impl Slice {
    /// Takes the head of a part's response, which becomes that of the whole content.
    ///
    /// # Errors
    /// Text for the log: it is not the part that was asked for.
    fn take_head(&self, response: &mut Response) -> Result<(), String> {
        if response.status != 206 {
            return Err(format!("unexpected status code {} in slice response", response.status));
        }
        let etag = response.fields.get(Known::ETag).unwrap_or_default();
        let mut first_etag = self.etag.borrow_mut();
        if !first_etag.is_empty() && etag != &first_etag[..] {
            return Err("etag mismatch in slice response".to_owned());
        }
        first_etag.clear();
        first_etag.extend_from_slice(etag);
        let value = response.fields.get(Known::ContentRange).unwrap_or_default();
        let (range, complete_bytes) =
            parse_content_range(value).ok_or_else(|| "invalid range in slice response".to_owned())?;
        let complete_bytes = complete_bytes.ok_or_else(|| "no complete length in slice response".to_owned())?;
        let end = range.start.saturating_add(self.size.get()).min(complete_bytes);
        if range.start != self.start.get() || range.end != end {
            return Err(format!("unexpected range in slice response: {}-{}", range.start, range.end));
        }
        self.end.set(Some(end));
        self.complete_bytes.set(complete_bytes);
        response.status = 200;
        response.status_line.clear();
        response.content_length = Some(complete_bytes);
        response.body_offset = range.start;
        response.fields.remove(Known::ContentRange);
        response.fields.remove(Known::AcceptRanges);
        response.allow_ranges = true;
        response.single_range = true;
        Ok(())
    }
}

/// `bytes 0-99/1000`: the range, and the length of the whole where it is known.
///
/// Source: nginx, `ngx_http_slice_parse_content_range`.
fn parse_content_range(value: &[u8]) -> Option<(Range<u64>, Option<u64>)> {
    let text = std::str::from_utf8(value.strip_prefix(b"bytes ")?).ok()?;
    let (range, complete) = text.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let text = text.trim_matches(' ');
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let complete = match complete.trim_matches(' ') {
        "*" => None,
        bytes => Some(number(bytes)?),
    };
    (start < end).then_some((start..end, complete))
}

fn filter_body(req: &Rc<Request>, mut chunk: Chunk, size: u64) -> Ready<Result<Chunk, Closed>> {
    let slice = match req.find_context::<Slice>() {
        Some(slice) if slice.end.get().is_some() && !req.is_subrequest() => slice,
        _ => return Ready::Now(Ok(chunk)),
    };
    if slice.fetches.get() {
        let req = req.clone();
        return Ready::later(async move { fetch_next(&req, &slice, size).await });
    }
    if chunk.last && !req.response.borrow().header_only {
        slice.fetches.set(true);
        slice.begin(&req.response.borrow(), size);
        (chunk.last, chunk.more) = (false, true);
    }
    Ready::Now(Ok(chunk))
}

impl Slice {
    /// The first part has been sent: finds out what is to follow.
    fn begin(&self, response: &Response, size: u64) {
        let complete_bytes = self.complete_bytes.get();
        let next = self.end.get().unwrap_or(complete_bytes);
        let part = response.ranges.as_ref().and_then(|ranges| ranges.bounds());
        let wanted = part.unwrap_or(0..complete_bytes);
        // Where the first part came before what the client gets.
        let start = if next + size <= wanted.start { wanted.start / size * size } else { next };
        self.start.set(start);
        *self.wanted.borrow_mut() = Some(wanted);
    }
}

/// Fetches the next part, which becomes a part of the response; ends the response behind the last one.
async fn fetch_next(req: &Rc<Request>, slice: &Rc<Slice>, size: u64) -> Result<Chunk, Closed> {
    let wanted_end = slice.wanted.borrow().as_ref().map_or(0, |wanted| wanted.end);
    if slice.start.get() >= wanted_end {
        slice.fetches.set(false);
        slice.end.set(None);
        return Ok(Chunk::end());
    }
    let sub = Subrequest::repeat(req, Sink::Parent).map_err(|error| {
        req.log(Level::Error, format_args!("{error} for a slice"));
        Closed
    })?;
    let part = Rc::new(Slice {
        start: slice.start.clone(),
        size: Cell::new(size),
        etag: slice.etag.clone(),
        wanted: slice.wanted.clone(),
        ..Slice::default()
    });
    sub.req.set_context(part.clone());
    sub.run_again().await;
    let Some(end) = part.end.get() else {
        req.log(Level::Error, format_args!("missing slice response"));
        return Err(Closed);
    };
    slice.start.set(end);
    Ok(Chunk { more: true, ..Chunk::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        #[track_caller]
        fn check(value: &str, expected: Option<(Range<u64>, Option<u64>)>) {
            assert_eq!(parse_content_range(value.as_bytes()), expected, "{value}");
        }
        check("bytes 0-99/1000", Some((0..100, Some(1000))));
        check("bytes 5-5/*", Some((5..6, None)));
        check("bytes  5 - 6 / 7 ", Some((5..7, Some(7))));
        for bad in [
            "",
            "bytes",
            "bytes 5-4/7",
            "bytes */7",
            "bytes 1-2",
            "bits 1-2/3",
            "bytes 1-x/3",
            "bytes 1-99999999999999999999/3",
        ] {
            check(bad, None);
        }
    }
}
