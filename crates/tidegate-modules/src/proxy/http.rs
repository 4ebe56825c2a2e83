//! HTTP/1 as the engine of upstreams speaks it.

use std::{ops::Range, rc::Rc};

use tidegate_core::{
    log::Level,
    phase::Step,
    request::Request,
    upstream::{Protocol, SendBody},
};
use tidegate_http::{
    BodyDecoder, BodyLength, BodyPart, Fields, Known, Method, Parsed, ResponseHead,
    chunked::{LAST_CHUNK, write_chunk},
    parse_response,
};

use super::{Location, pass, pass::Target, redirect, request};

/// One request's conversation with a server.
pub(super) struct Http<'a> {
    location: &'a Location,
    target: Target,
    /// The request's body is sent as it comes.
    streams: bool,
    /// In chunks, that is.
    chunks: bool,
    /// The method that the server sees is HEAD.
    to_head: bool,
    decoder: BodyDecoder,
}

impl<'a> Http<'a> {
    pub(super) fn new(location: &'a Location, target: Target, req: &Request, streams: bool) -> Self {
        let chunks = streams && req.head.borrow().chunked;
        Http { location, target, streams, chunks, to_head: false, decoder: BodyDecoder::new(BodyLength::Known(0)) }
    }

    /// The length that the server is told.
    fn body_length(&self, req: &Request) -> request::BodyLength {
        use request::BodyLength;
        if self.chunks {
            return BodyLength::Chunked;
        }
        let head = req.head.borrow();
        if req.body.is_loaded() && (head.chunked || req.is_subrequest()) {
            let len = req.body.len();
            return if len == 0 && req.is_subrequest() { BodyLength::None } else { BodyLength::Known(len) };
        }
        head.content_length.map_or(BodyLength::None, BodyLength::Known)
    }
}

impl Protocol for Http<'_> {
    const SCHEME: &'static str = "http://";
    const DEFAULT_PORT: u16 = 80;

    fn write_request(&mut self, req: &Rc<Request>, out: &mut Vec<u8>) -> Result<Range<usize>, Step> {
        let location = self.location;
        match &location.conf.method {
            Some(method) => method.write(req, out),
            None => request::write_method(req, out),
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
        let body = location.conf.set_body.as_ref().map(|body| body.eval(req));
        let length = match &body {
            Some(body) => request::BodyLength::Known(body.len() as u64),
            None => self.body_length(req),
        };
        let names = match (&self.target.variable, location.pass.names()) {
            (Some((names, _)), _) => names,
            (None, Some(names)) => names,
            (None, None) => return Err(Step::Status(500)),
        };
        let pass_fields = location.settings.pass_request_headers;
        location.fields.write(req, names.host.as_ref(), length, pass_fields, out);
        out.extend_from_slice(b"\r\n");
        if let Some(body) = body {
            out.extend_from_slice(&body);
        }
        Ok(uri)
    }

    fn body(&self, _: &Request) -> SendBody {
        if self.location.conf.set_body.is_some() || !self.location.settings.pass_request_body {
            SendBody::None
        } else if self.streams {
            SendBody::Framed
        } else {
            SendBody::Loaded
        }
    }

    fn frame(&self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        if self.chunks {
            write_chunk(piece, out);
            if last {
                out.extend_from_slice(LAST_CHUNK);
            }
        } else {
            out.extend_from_slice(piece);
        }
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<Parsed, String> {
        parse_response(input, head).map_err(|error| error.to_string())
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        let length = BodyLength::of_response(head, self.to_head);
        self.decoder = BodyDecoder::new(length);
        length != BodyLength::Known(0)
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        self.decoder.decode(input).map_err(|_| "upstream sent invalid chunked response".to_owned())
    }

    fn is_done(&self) -> bool {
        self.decoder.is_done()
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
