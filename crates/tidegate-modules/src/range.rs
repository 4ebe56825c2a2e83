//! Byte ranges: `Accept-Ranges`, 206 with one part or several, 416.
//!
//! The last header filter, so that what changes the length of the body has switched ranges off before. The parts are cut
//! out by the core's `byte_ranges`, before any body filter.
//!
//! Source: nginx, `ngx_http_range_filter_module`.

use std::{
    hash::{BuildHasher, Hasher},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use tidegate_core::{
    byte_ranges::{ByteRanges, Part},
    inherit,
    module::{Directive, Module},
    output::{Closed, Response},
    phase::Ready,
    request::Request,
};
use tidegate_http::{
    Known,
    conditional::if_range,
    range::{MAX_RANGES_UNLIMITED, Multipart, Ranges, content_range, content_range_unsatisfied, parse_range},
};

/// What the directive says at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `max_ranges`
    pub max_ranges: Option<u64>,
}

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::number("max_ranges", |c: &mut Conf| &mut c.max_ranges)
        .doc("Most ranges that a request may ask for; 0 switches ranges off.")],
    inherit: |child, parent, _| inherit!(child, parent; max_ranges),
    install: |conf, program| {
        if conf.max_ranges != Some(0) {
            let conf = conf.clone();
            program.header_filter(move |req| filter(req, &conf));
        }
    },
    example: "
        location /video/ { max_ranges 4; }
    ",
    ..Module::named("range")
};

fn filter(req: &Rc<Request>, conf: &Arc<Conf>) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    let Some(length) = response.content_length else { return Ready::Now(Ok(())) };
    let head = req.head.borrow();
    if !response.allow_ranges || response.status != 200 || req.is_subrequest() || head.version < (1, 0) {
        return Ready::Now(Ok(()));
    }
    let wanted = head.fields.get(Known::Range).filter(|_| {
        let condition = head.fields.get(Known::IfRange);
        condition.is_none_or(|value| if_range(value, response.fields.get(Known::ETag), response.modified()))
    });
    let max = match conf.max_ranges {
        _ if response.single_range => 1,
        Some(max) => usize::try_from(max).unwrap_or(MAX_RANGES_UNLIMITED),
        None => MAX_RANGES_UNLIMITED,
    };
    match wanted.map_or(Ranges::Whole, |value| parse_range(value, length, max)) {
        Ranges::Whole => response.fields.append_known(Known::AcceptRanges, b"bytes"),
        Ranges::Parts(parts) => serve_parts(&mut response, &parts, length),
        Ranges::NotSatisfiable => {
            response.fields.append_known(Known::ContentRange, content_range_unsatisfied(length).as_bytes());
            response.content_length = None;
            drop(response);
            return req.finalize_with_head(416);
        }
    }
    Ready::Now(Ok(()))
}

#[cold]
fn serve_parts(response: &mut Response, ranges: &[std::ops::Range<u64>], length: u64) {
    response.status = 206;
    response.status_line.clear();
    let (parts, tail) = match ranges {
        [range] => {
            response.content_length = Some(range.end - range.start);
            response.fields.append_known(Known::ContentRange, content_range(range, length).as_bytes());
            (vec![Part { head: Bytes::new(), range: range.clone() }], Bytes::new())
        }
        _ => {
            // Random, so that nobody can plant it in the content.
            let number = std::hash::RandomState::new().build_hasher().finish();
            let some = |text: &'_ [u8]| (!text.is_empty()).then(|| text.to_vec());
            let (content_type, charset) = (some(&response.content_type), some(&response.charset));
            let multipart = Multipart::new(number, content_type.as_deref(), charset.as_deref(), length);
            response.content_length = Some(multipart.content_length(ranges));
            response.content_type = multipart.content_type().into_bytes();
            response.charset.clear();
            let part = |range: &std::ops::Range<u64>| Part {
                head: Bytes::from(multipart.part_header(range)),
                range: range.clone(),
            };
            (ranges.iter().map(part).collect(), Bytes::from(multipart.end()))
        }
    };
    response.ranges = Some(Box::new(ByteRanges::new(parts, tail).starting_at(response.body_offset)));
}
