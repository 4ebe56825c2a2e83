//! FastCGI as the engine of upstreams speaks it.
//!
//! Source: nginx, `ngx_http_fastcgi_create_request`, `ngx_http_fastcgi_process_header`, `ngx_http_fastcgi_input_filter`.

use std::rc::Rc;

use bstr::{BStr, ByteSlice};
use tidegate_core::{
    phase::Step,
    request::Request,
    upstream::{HeadPart, Promise, Protocol, SendBody, Source, Written},
};
use tidegate_http::{
    BodyLength, BodyPart, Parsed, ResponseHead,
    fastcgi::{AfterRequest, RecordDecoder, RecordPart, write_begin_request, write_param, write_params, write_stdin},
    parse_cgi_response,
};
use tidegate_net::log::Level;

use super::Location;
use crate::cgi::params::Encode;

/// Parameters as FastCGI writes them.
pub(super) struct Encoding;

impl Encode for Encoding {
    fn write_param(name: &[u8], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        write_param(name, out, write)
    }
}

/// One request's conversation with an application.
pub(super) struct FastCgi<'a> {
    location: &'a Location,
    /// The client asked for the head alone.
    to_head: bool,
    records: RecordDecoder,
    /// The beginning of the head, where it comes in several records.
    head: Vec<u8>,
    body: Body,
    /// The answer ended with the request, and nothing came behind it.
    is_clean: bool,
    messages: Vec<(Level, String)>,
}

/// What is still to come of the answer's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// As much as comes.
    Open,
    /// So many bytes, as the head announced.
    Announced(u64),
    /// Nothing that the client gets: its request or the status wants no body.
    Unwanted,
    /// Nothing: the application has closed the stream.
    Ended,
}

/// What of a part of the stream the client gets.
enum Content {
    /// So many bytes of its beginning.
    Bytes(usize),
    /// Nothing.
    Nothing,
    /// Nothing: the client has got all that the head announced.
    Excess,
}

impl<'a> FastCgi<'a> {
    pub(super) fn new(location: &'a Location, to_head: bool) -> Self {
        FastCgi {
            location,
            to_head,
            records: RecordDecoder::default(),
            head: Vec::new(),
            body: Body::Open,
            is_clean: false,
            messages: Vec::new(),
        }
    }

    fn next_part(&mut self, input: &[u8]) -> Result<RecordPart, String> {
        self.records.decode(input).map_err(|error| error.to_string())
    }

    /// Takes a piece of the answer's head. When that is complete, answers how many bytes of the piece are behind it; they
    /// are read again.
    fn take_head_piece(&mut self, piece: &[u8], head: &mut ResponseHead) -> Result<Option<usize>, String> {
        let is_first = self.head.is_empty();
        let known: &[u8] = if is_first {
            piece
        } else {
            self.head.extend_from_slice(piece);
            &self.head
        };
        match parse_cgi_response(known, head).map_err(|error| error.to_string())? {
            Parsed::Complete(used) => {
                let unread = known.len() - used;
                self.records.put_back(unread);
                return Ok(Some(unread));
            }
            Parsed::Partial if is_first => self.head.extend_from_slice(piece),
            Parsed::Partial => {}
        }
        if self.head.len() >= self.location.settings.head_bytes_max {
            return Err("upstream sent too big header".to_owned());
        }
        Ok(None)
    }

    /// # Errors
    /// The text is one that makes the answer invalid.
    fn take_stderr(&mut self, text: &[u8]) -> Result<(), String> {
        let shown = BStr::new(text.trim_end_with(|end| matches!(end, '\n' | '\r' | '.' | ' ')));
        let message = format!("FastCGI sent in stderr: \"{shown}\"");
        if self.location.catch_stderr.iter().any(|caught| shown.contains_str(caught)) {
            return Err(message);
        }
        self.messages.push((Level::Error, message));
        Ok(())
    }

    /// The stream of the answer, or the request, has ended.
    fn end(&self, what: &str) -> Result<(), String> {
        match self.body {
            Body::Announced(1..) => Err(format!("upstream prematurely closed FastCGI {what}")),
            _ => Ok(()),
        }
    }

    /// Takes a part of the answer's stream behind its head.
    fn take_content(&mut self, part_bytes: usize) -> Content {
        match &mut self.body {
            Body::Open => Content::Bytes(part_bytes),
            Body::Unwanted | Body::Ended => Content::Nothing,
            Body::Announced(0) => {
                let message = "upstream sent more data than specified in \"Content-Length\" header".to_owned();
                self.messages.push((Level::Warn, message));
                Content::Excess
            }
            Body::Announced(left) => {
                let bytes = usize::try_from(*left).unwrap_or(usize::MAX).min(part_bytes);
                *left -= bytes as u64;
                self.records.put_back(part_bytes - bytes);
                Content::Bytes(bytes)
            }
        }
    }
}

impl Protocol for FastCgi<'_> {
    const SCHEME: &'static str = "fastcgi://";

    fn body(&self, req: &Request) -> SendBody {
        if !self.location.settings.pass_request_body {
            return SendBody::None;
        }
        match Source::of(req, &self.location.settings) {
            Source::Loaded(0) => SendBody::None,
            source => SendBody::Framed(source),
        }
    }

    fn write_request(&mut self, req: &Rc<Request>, body: SendBody, out: &mut Vec<u8>) -> Result<Written, Step> {
        let location = self.location;
        write_begin_request(location.after, out);
        write_params(out, |out| location.params.write(req, location.settings.pass_request_headers, out));
        if body == SendBody::None {
            write_stdin(b"", true, out);
        }
        Ok(Written { uri: 0..0, promise: Promise::LastFrame })
    }

    fn frame(&self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        write_stdin(piece, last, out);
    }

    fn begin_try(&mut self) {
        self.records = RecordDecoder::default();
        self.head.clear();
        self.is_clean = false;
    }

    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.next_part(rest)? {
                RecordPart::Stdout(part) => {
                    let end = at + part.end;
                    if let Some(unread) = self.take_head_piece(&rest[part], head)? {
                        return Ok(HeadPart::Complete(end - unread));
                    }
                    at = end;
                }
                RecordPart::Stderr(part) => {
                    at += part.end;
                    self.take_stderr(&rest[part])?;
                }
                RecordPart::StdoutEnd(_) => return Err("upstream prematurely closed FastCGI stdout".to_owned()),
                RecordPart::End(_) => return Err("upstream sent unexpected FastCGI record: 3".to_owned()),
                RecordPart::Partial => return Ok(HeadPart::Partial(input.len())),
            }
        }
    }

    fn take_messages(&mut self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.messages)
    }

    fn begin_body(&mut self, head: &ResponseHead) -> bool {
        self.body = match BodyLength::of_response(head, self.to_head) {
            BodyLength::Known(0) if self.to_head || head.content_length != Some(0) => Body::Unwanted,
            BodyLength::Known(length) => Body::Announced(length),
            BodyLength::Chunked | BodyLength::UntilClose => Body::Open,
        };
        !matches!(self.body, Body::Unwanted | Body::Announced(0))
    }

    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.next_part(rest)? {
                RecordPart::Stdout(part) => match self.take_content(part.len()) {
                    Content::Bytes(bytes) => {
                        let start = at + part.start;
                        return Ok(BodyPart::Data { start, end: start + bytes });
                    }
                    Content::Nothing => at += part.end,
                    Content::Excess => return Ok(BodyPart::End(input.len())),
                },
                RecordPart::Stderr(part) => {
                    at += part.end;
                    // The head was accepted: nothing makes the answer invalid any more.
                    if let Err(message) = self.take_stderr(&rest[part]) {
                        self.messages.push((Level::Error, message));
                    }
                }
                RecordPart::StdoutEnd(used) => {
                    at += used;
                    self.end("stdout")?;
                    self.body = Body::Ended;
                }
                RecordPart::End(used) => {
                    self.end("request")?;
                    self.is_clean = at + used == input.len();
                    return Ok(BodyPart::End(input.len()));
                }
                // The rest may be long, and nobody wants it.
                RecordPart::Partial if self.body == Body::Unwanted => return Ok(BodyPart::End(input.len())),
                RecordPart::Partial => return Ok(BodyPart::Partial),
            }
        }
    }

    /// Applications that close the connection need not say that the request is over.
    fn is_complete_at_close(&self) -> bool {
        match self.body {
            Body::Open => self.location.after == AfterRequest::Close && self.records.is_between_records(),
            Body::Announced(left) => left == 0,
            Body::Unwanted | Body::Ended => true,
        }
    }

    fn is_reusable(&self, _: &ResponseHead) -> bool {
        self.location.after == AfterRequest::Keep && self.is_clean
    }
}
