//! What holds for any input. Driven by the fuzz target `http1` and, with random bytes, by the normal test run.

use tidegate_http::chunked::{ChunkHeader, write_chunk};
use tidegate_http::conditional::{Comparison, etag_matches};
use tidegate_http::escape::{Escape, Unescape, escape_uri, unescape_uri};
use tidegate_http::range::{MAX_RANGES_UNLIMITED, Ranges, parse_range};
use tidegate_http::{
    BadResponse, BodyPart, ChunkedDecoder, Fields, HeadLimits, HeadOptions, Known, Parsed, RequestHead, ResponseHead,
    args, cookie, date, host, parse_cgi_response, parse_gateway_response, parse_request, parse_response, uri,
};

/// Checks everything with `input`.
pub(crate) fn check(input: &[u8]) {
    requests(input);
    responses(input);
    chunks(input);
    uris(input);
    values(input);
    fields(input);
}

/// A head read at once and one read byte by byte say the same.
fn requests(input: &[u8]) {
    let small = HeadLimits { buffer_bytes: 64, large_buffer_count: 2, large_buffer_bytes: 96, fields_max: 5 };
    let lenient = HeadOptions {
        ignore_invalid_headers: false,
        underscores_in_headers: true,
        merge_slashes: false,
        framed: false,
    };
    for (limits, options) in [(HeadLimits::default(), HeadOptions::default()), (small, lenient)] {
        let (mut whole, mut cut) = (RequestHead::new(), RequestHead::new());
        let result = parse_request(input, &limits, &options, &mut whole);
        touch(&whole);
        let mut cut_result = Ok(Parsed::Partial);
        for end in 0..=input.len() {
            cut_result = parse_request(&input[..end], &limits, &options, &mut cut);
            touch(&cut);
            if cut_result != Ok(Parsed::Partial) {
                break;
            }
        }
        match &result {
            Ok(Parsed::Complete(consumed)) => {
                assert!(*consumed <= input.len());
                assert_eq!(cut_result, result);
                assert_eq!(
                    (whole.raw(), whole.target(), whole.path(), whole.args(), &whole.fields, whole.host()),
                    (cut.raw(), cut.target(), cut.path(), cut.args(), &cut.fields, cut.host())
                );
                assert!(input[..*consumed].ends_with(whole.raw()));
                assert!(whole.path().starts_with(b"/"));
                assert!(!whole.path().split(|&byte| byte == b'/').any(|segment| segment == b".." || segment == b"."));
                assert!(!(whole.chunked && whole.content_length.is_some()));
            }
            // An error in a line may be seen only when the line is complete, or it is a limit that comes first.
            Err(error) => {
                let _ = (error.to_string(), error.status(), error.action());
                assert!(!matches!(cut_result, Ok(Parsed::Complete(_))));
            }
            Ok(Parsed::Partial) => assert_eq!(cut_result, Ok(Parsed::Partial)),
        }
    }
}

/// Every accessor may be called at any time.
fn touch(head: &RequestHead) {
    let _ = (head.method_text(), head.request_line(), head.target(), head.protocol(), head.scheme(), head.path());
    let _ = (head.args(), head.raw(), head.request_line_bytes(), head.ignored_lines().count(), head.fields.len());
}

fn responses(input: &[u8]) {
    for parse in [parse_response, parse_cgi_response, parse_gateway_response] {
        responses_of(parse, input);
    }
}

fn responses_of(parse: fn(&[u8], &mut ResponseHead) -> Result<Parsed, BadResponse>, input: &[u8]) {
    let (mut whole, mut cut) = (ResponseHead::new(), ResponseHead::new());
    let result = parse(input, &mut whole);
    let mut cut_result = Ok(Parsed::Partial);
    for end in 0..=input.len() {
        cut_result = parse(&input[..end], &mut cut);
        if cut_result != Ok(Parsed::Partial) {
            break;
        }
    }
    match &result {
        Ok(Parsed::Complete(consumed)) => {
            assert!(*consumed <= input.len());
            assert_eq!(cut_result, result);
            assert_eq!((whole.status_text(), &whole.fields), (cut.status_text(), &cut.fields));
            assert!(whole.status < 1000);
        }
        Err(error) => {
            let _ = error.to_string();
            assert!(!matches!(cut_result, Ok(Parsed::Complete(_))));
        }
        Ok(Parsed::Partial) => assert_eq!(cut_result, Ok(Parsed::Partial)),
    }
}

/// Decodes `input` in pieces: content and how much was used, or `None` for an error.
fn decode(input: &[u8], piece: usize) -> Option<(Vec<u8>, usize, bool)> {
    let mut decoder = ChunkedDecoder::new();
    let (mut content, mut used) = (Vec::new(), 0);
    for piece in input.chunks(piece) {
        let mut at = 0;
        loop {
            match decoder.decode(&piece[at..]).ok()? {
                BodyPart::Data { start, end } => {
                    assert!(start < end && at + end <= piece.len());
                    content.extend_from_slice(&piece[at + start..at + end]);
                    at += end;
                }
                BodyPart::Partial => break,
                BodyPart::End(count) => return Some((content, used + at + count, true)),
            }
        }
        assert!(decoder.bytes_needed() > 0);
        used += piece.len();
    }
    Some((content, used, false))
}

fn chunks(input: &[u8]) {
    let whole = decode(input, input.len().max(1));
    for piece in [1, 3, 7] {
        assert_eq!(decode(input, piece), whole);
    }
    let mut encoded = Vec::new();
    for part in input.chunks(5) {
        write_chunk(part, &mut encoded);
    }
    encoded.extend_from_slice(b"0\r\n\r\n");
    let len = encoded.len();
    assert_eq!(decode(&encoded, 4), Some((input.to_vec(), len, true)));
    assert!(ChunkHeader::new(input.len() as u64).as_ref().ends_with(b"\r\n"));
}

fn uris(input: &[u8]) {
    let (mut scratch, mut again) = (Vec::new(), Vec::new());
    for merge_slashes in [true, false] {
        let Ok(parsed) = uri::parse_uri(input, merge_slashes, &mut scratch) else { continue };
        assert!(parsed.path.starts_with(b"/"));
        assert!(!parsed.path.contains(&0) || input.contains(&0));
        let _ = uri::extension(parsed.path);
        // A normal form that is escaped again normalises to itself.
        let mut escaped = Vec::new();
        escape_uri(parsed.path, Escape::Uri, &mut escaped);
        if !parsed.path.contains(&0) {
            let normal = uri::parse_uri(&escaped, merge_slashes, &mut again).expect("a normal form is valid");
            assert_eq!(normal.path, parsed.path);
            assert_eq!(normal.args, b"");
        }
    }
    for kind in [Escape::Uri, Escape::Args, Escape::UriComponent, Escape::Html, Escape::Memcached] {
        let (mut escaped, mut back) = (Vec::new(), Vec::new());
        escape_uri(input, kind, &mut escaped);
        assert_eq!(unescape_uri(&escaped, Unescape::All, &mut back), escaped.len());
        assert_eq!(back, input);
    }
    for kind in [Unescape::All, Unescape::Uri, Unescape::Redirect] {
        let mut out = Vec::new();
        assert!(unescape_uri(input, kind, &mut out) <= input.len());
        assert!(out.len() <= input.len());
    }
    let mut name = Vec::new();
    assert_eq!(host::validate_host(input, &mut name).is_ok(), !name.is_empty());
}

fn values(input: &[u8]) {
    for length in [0, 1, 10, 1 << 40] {
        for ranges_max in [1, 3, MAX_RANGES_UNLIMITED] {
            let value = [b"bytes=", input].concat();
            if let Ranges::Parts(parts) = parse_range(&value, length, ranges_max) {
                assert!(!parts.is_empty() && parts.len() <= ranges_max);
                assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
                assert!(parts.len() == 1 || parts.iter().map(|part| part.end - part.start).sum::<u64>() <= length);
            }
        }
    }
    if let Some(seconds) = date::parse_http_date(input) {
        let expected = if (0..253_402_300_800).contains(&seconds) { Some(seconds) } else { None };
        let written = date::parse_http_date(&date::http_date(seconds));
        assert!(expected.is_none() || written == expected);
    }
    let (head, tail) = input.split_at(input.len() / 3);
    let _ = (args::arg(tail, head), args::iter(input).count(), cookie::cookie_in(tail, head));
    for comparison in [Comparison::Weak, Comparison::Strong] {
        let _ = (etag_matches(tail, Some(head), comparison), etag_matches(input, None, comparison));
    }
}

/// A list of fields behaves like a plain vector of pairs.
fn fields(input: &[u8]) {
    let mut fields = Fields::new();
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for step in input.chunks(3) {
        let [operation, name, size] = [step[0], step.get(1).copied().unwrap_or(0), step.get(2).copied().unwrap_or(0)];
        let name = match Known::ALL.get(usize::from(name % 8)) {
            Some(known) if name < 128 => known.name().to_ascii_lowercase().into_bytes(),
            _ => vec![b'x', b'0' + name % 4],
        };
        let value = vec![size; usize::from(size)];
        let is_same = |(other, _): &(Vec<u8>, Vec<u8>)| other.eq_ignore_ascii_case(&name);
        match operation % 4 {
            0 => {
                fields.append(&name, &value);
                model.push((name, value));
            }
            1 => {
                fields.set(&name, &value);
                match model.iter().position(is_same) {
                    Some(first) => {
                        model[first].1 = value;
                        let mut at = 0;
                        model.retain(|pair| {
                            at += 1;
                            at - 1 <= first || !is_same(pair)
                        });
                    }
                    None => model.push((name, value)),
                }
            }
            2 => {
                let removed = fields.remove_name(&name);
                let before = model.len();
                model.retain(|pair| !is_same(pair));
                assert_eq!(removed, model.len() < before);
            }
            _ => {
                let found = model.iter().find(|pair| is_same(pair)).map(|(_, value)| value.as_slice());
                assert_eq!(fields.get_name(&name), found);
            }
        }
    }
    assert!(fields.iter().map(|(name, value, _)| (name, value)).eq(model.iter().map(|(n, v)| (&n[..], &v[..]))));
}
