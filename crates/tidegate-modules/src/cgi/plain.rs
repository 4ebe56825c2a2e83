//! SCGI and uwsgi: a head of parameters, the body as it is, and an answer as it is, up to the end of the connection or as
//! long as it says.
//!
//! Source: nginx, `ngx_http_scgi_process_status_line`, `ngx_http_scgi_input_filter_init`.

use std::rc::Rc;

use tidegate_core::{
    phase::Step,
    request::Request,
    upstream::{HeadPart, Promise, Protocol, SendBody, Settings, Source, Written},
};
use tidegate_http::{BodyDecoder, BodyLength, BodyPart, Parsed, ResponseHead, parse_gateway_response};

/// The part of such a protocol that is its own.
pub(crate) trait Head {
    /// Scheme of the servers' addresses in the error log.
    const SCHEME: &'static str;
    /// The same over TLS, where there is a way to say that.
    const TLS_SCHEME: &'static str = Self::SCHEME;

    /// The location's settings.
    fn settings(&self) -> &Settings;

    /// Appends what is sent ahead of a body of so many bytes.
    ///
    /// # Errors
    /// The request ends with this step.
    fn write(&self, req: &Rc<Request>, body_bytes: u64, out: &mut Vec<u8>) -> Result<(), Step>;
}

/// One request's conversation with a server.
pub(crate) struct Plain<'a, H> {
    head: &'a H,
    /// The client asked for the head alone.
    to_head: bool,
    body: BodyDecoder,
}

impl<'a, H: Head> Plain<'a, H> {
    pub(crate) fn new(head: &'a H, to_head: bool) -> Self {
        Plain { head, to_head, body: BodyDecoder::new(BodyLength::Known(0)) }
    }
}

impl<H: Head> Protocol for Plain<'_, H> {
    const SCHEME: &'static str = H::SCHEME;
    const TLS_SCHEME: &'static str = H::TLS_SCHEME;

    fn body(&self, req: &Request) -> SendBody {
        let settings = self.head.settings();
        if settings.pass_request_body { SendBody::Raw(Source::of(req, settings)) } else { SendBody::None }
    }

    fn write_request(&mut self, req: &Rc<Request>, body: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        let length = match body {
            SendBody::Raw(Source::Loaded(length) | Source::Arriving(BodyLength::Known(length))) => length,
            _ => 0,
        };
        self.head.write(req, length, out)?;
        Ok(Written { uri: 0..0, promise: Promise::Bytes(length) })
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        match parse_gateway_response(input, head).map_err(|error| error.to_string())? {
            Parsed::Partial => Ok(HeadPart::Partial(0)),
            // Neither protocol has a head behind the head.
            Parsed::Complete(_) if head.status < 200 => {
                Err(format!("upstream sent the interim status {}", head.status))
            }
            Parsed::Complete(count) => Ok(HeadPart::Complete(count)),
        }
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        let length = match BodyLength::of_response(head, self.to_head) {
            // Programs leave chunks to the server.
            BodyLength::Chunked => BodyLength::UntilClose,
            length => length,
        };
        self.body = BodyDecoder::new(length);
        length != BodyLength::Known(0)
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        self.body.decode(input).map_err(|error| error.to_string())
    }

    fn announced_left(&self) -> Option<u64> {
        self.body.announced_left()
    }

    fn is_complete_at_close(&self) -> bool {
        self.body.is_complete_at_close()
    }

    /// Both protocols carry one request over a connection.
    fn is_reusable(&self, _: &ResponseHead) -> bool {
        false
    }
}
