//! HTTP/1 as the engine of upstreams speaks it.

use std::rc::Rc;

use tidegate_core::{
    phase::Step,
    request::Request,
    upstream::{HeadPart, Promise, Protocol, SendBody, Source, Written},
};
use tidegate_http::{
    BodyDecoder, BodyLength, BodyPart, Fields, Known, Method, Parsed, ResponseHead,
    chunked::{LAST_CHUNK, write_chunk},
    parse_response,
};
use tidegate_net::log::Level;

use super::{
    Location, pass,
    pass::Target,
    redirect,
    request::{self, Announced},
};

/// Interim responses (1xx) that may come ahead of an answer.
const INTERIM_COUNT_MAX: u32 = 100;

/// One request's conversation with a server.
pub(super) struct Http<'a> {
    location: &'a Location,
    target: Target,
    /// Interim responses (1xx) that came ahead of the answer.
    interim_count: u32,
    /// The method that the server sees is HEAD.
    to_head: bool,
    decoder: BodyDecoder,
}

impl<'a> Http<'a> {
    pub(super) fn new(location: &'a Location, target: Target) -> Self {
        Http { location, target, interim_count: 0, to_head: false, decoder: BodyDecoder::new(BodyLength::Known(0)) }
    }
}

/// What the head says of `body`. A main request that came with one says so even when nothing is left of it.
fn announced(req: &Request, body: SendBody) -> Announced {
    let length = match body {
        SendBody::Framed(_) => return Announced::Chunked,
        SendBody::Raw(Source::Arriving(BodyLength::Known(length)) | Source::Loaded(length)) => length,
        SendBody::Raw(Source::Arriving(_)) | SendBody::None => 0,
    };
    let head = req.head.borrow();
    let had_one = !req.is_subrequest() && (head.chunked || head.content_length.is_some());
    if length > 0 || had_one { Announced::Length(length) } else { Announced::Nothing }
}

impl Protocol for Http<'_> {
    const SCHEME: &'static str = "http://";
    const TLS_SCHEME: &'static str = "https://";
    const NAMES_ITSELF: bool = true;
    const ASKS_GET_FOR_HEAD: bool = true;

    fn body(&self, req: &Request) -> SendBody {
        let location = self.location;
        if location.conf.set_body.is_some() || !location.settings.pass_request_body {
            return SendBody::None;
        }
        match Source::of(req, &location.settings) {
            source @ Source::Arriving(BodyLength::Chunked) => SendBody::Framed(source),
            source => SendBody::Raw(source),
        }
    }

    fn write_request(&mut self, req: &Rc<Request>, body: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        let location = self.location;
        match &location.conf.method {
            Some(method) if !request::asks_get(req) => method.write(req, out),
            _ => request::write_method(req, out),
        }
        self.to_head = out == b"HEAD" || (out.is_empty() && req.method.get() == Method::Head);
        out.push(b' ');
        let start = out.len();
        pass::write_uri(&location.pass, &self.target, req, out);
        let uri = start..out.len();
        if uri.is_empty() {
            req.log(Level::Error, format_args!("zero length URI to proxy"));
            return Err(Step::Status(500));
        }
        out.extend_from_slice(if location.is_http_11 { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });
        let set_body = location.conf.set_body.as_ref().map(|body| body.eval(req));
        let announced = match &set_body {
            Some(set_body) => Announced::Length(set_body.len() as u64),
            None => announced(req, body),
        };
        let names = match (&self.target.variable, location.pass.names()) {
            (Some((names, _)), _) => names,
            (None, Some(names)) => names,
            (None, None) => return Err(Step::Status(500)),
        };
        let pass_fields = location.settings.pass_request_headers;
        let fills_cache = req.upstream_record(|record| record.cache.fills).unwrap_or(false);
        let fields = if fills_cache { &location.cache_fields } else { &location.fields };
        let mut promise = fields.write(req, names.host.as_ref(), announced, pass_fields, out).promise();
        out.extend_from_slice(b"\r\n");
        if let Some(set_body) = &set_body {
            let written = if let Promise::Bytes(count) = &mut promise {
                let written = set_body.len().min(usize::try_from(*count).unwrap_or(usize::MAX));
                *count -= written as u64;
                written
            } else {
                set_body.len()
            };
            out.extend_from_slice(&set_body[..written]);
        }
        Ok(Written { uri, promise })
    }

    fn write_cache_key(&self, req: &Rc<Request>, scheme: &str, out: &mut Vec<u8>) {
        let names = match (&self.target.variable, self.location.pass.names()) {
            (Some((names, _)), _) => Some(names),
            (None, names) => names,
        };
        out.extend_from_slice(scheme.as_bytes());
        out.extend_from_slice(names.map_or(b"", |names| &names.host));
        pass::write_uri(&self.location.pass, &self.target, req, out);
    }

    fn frame(&self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        write_chunk(piece, out);
        if last {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    fn begin_try(&mut self) {
        self.interim_count = 0;
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        let mut used = 0;
        loop {
            match parse_response(&input[used..], head).map_err(|error| error.to_string())? {
                Parsed::Partial => return Ok(HeadPart::Partial(used)),
                Parsed::Complete(count) => used += count,
            }
            // 101 ends the protocol, so it is an answer.
            if !(100..200).contains(&head.status) || head.status == 101 {
                return Ok(HeadPart::Complete(used));
            }
            head.clear();
            self.interim_count += 1;
            if self.interim_count > INTERIM_COUNT_MAX {
                return Err("upstream sent too many interim responses".to_owned());
            }
        }
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        let length = BodyLength::of_response(head, self.to_head);
        self.decoder = BodyDecoder::new(length);
        length != BodyLength::Known(0)
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        self.decoder.decode(input).map_err(|_| "upstream sent invalid chunked response".to_owned())
    }

    fn announced_left(&self) -> Option<u64> {
        self.decoder.announced_left()
    }

    fn is_complete_at_close(&self) -> bool {
        self.decoder.is_complete_at_close()
    }

    fn is_reusable(&self, head: &ResponseHead) -> bool {
        head.is_reusable(self.to_head)
    }

    fn is_upgrade(&self, req: &Request, head: &ResponseHead) -> bool {
        head.status == 101 && !req.is_subrequest() && req.head.borrow().upgrade
    }

    fn rewrite_field(&self, req: &Request, known: Known, value: &[u8]) -> Option<Vec<u8>> {
        let location = self.location;
        match known {
            Known::Location => redirect::rewrite_location(&location.redirects, req, value),
            Known::Refresh => redirect::rewrite_refresh(&location.redirects, req, value),
            Known::SetCookie if !location.cookies.is_empty() => location.cookies.rewrite(req, value),
            _ => None,
        }
    }

    fn trailers(&self) -> Option<&Fields> {
        self.decoder.trailers()
    }
}
