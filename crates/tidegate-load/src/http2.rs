//! HTTP/2 on a connection (RFC 9113): a client that sends requests, follows windows and throws responses away.

use std::io;
use std::time::{Duration, Instant};

use tidegate_http::hpack::Decoder;
use tidegate_http::http2::{
    ErrorCode, FRAME_BYTES_MAX, FrameHeader, HEADER_BYTES, PREFACE, STREAM_MAX, WINDOW_BYTES, WINDOW_BYTES_MAX, flag,
    kind, setting, write_block, write_frame, write_reset, write_window_update,
};

use crate::block::Block;
use crate::core::{Core, Flight};
use crate::failure::{Failure, Kind};
use crate::head::HEAD_BYTES_MAX;
use crate::http1::{SHOWN_BYTES_MAX, Step};
use crate::script::Script;
use crate::transport::Transport;

/// What a server may send before it hears of it: responses are thrown away, so that it never has to wait.
const WINDOW: u32 = WINDOW_BYTES_MAX as u32;

/// The connection's window is filled up again when so much of it is used.
const REFILL_BYTES: u32 = WINDOW / 2;

/// Streams that are begun ahead of the server's settings, which may allow fewer than is usual but, as the standard has it, should not
/// (section 6.5.2).
const STREAMS_AT_FIRST: u32 = 100;

/// A server that ends connections without a look at any request is asked again so many times: one that closes a connection because it
/// was idle may meet a request on its way, one that does nothing else would get the same request for ever.
const REFUSALS_MAX: u8 = 3;

/// A request under way.
#[derive(Debug)]
struct Stream {
    number: u32,
    flight: Flight,
    status: u16,
    /// The body of the request: where it is, how much was sent, and what the server takes.
    body: Body,
    sent: usize,
    window: i64,
    /// Fields and body of the response, where a script wants to see them.
    shown: (Vec<u8>, Vec<u8>),
}

/// Where a request's body is.
#[derive(Debug)]
enum Body {
    /// With the run's requests.
    OfPlan,
    /// A script has made it.
    OfScript(Vec<u8>),
}

impl Body {
    /// That of a request to a URL.
    fn bytes<'b>(&'b self, url: u16, core: &Core<'b>) -> &'b [u8] {
        match self {
            Body::OfPlan => &core.plan.requests[usize::from(url)].block.body,
            Body::OfScript(body) => body,
        }
    }
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    streams: Vec<Stream>,
    /// Requests that wait for a stream: the server allows no more at a time, or the connection ends.
    queued: Vec<Flight>,
    next: u32,
    received: Vec<u8>,
    decoder: Decoder,
    /// A header block of several frames.
    block: Vec<u8>,
    block_of: Option<(u32, u8)>,
    /// The server's settings have come.
    has_settings: bool,
    /// What the server allows.
    streams_max: u32,
    initial_window: i64,
    frame_bytes_max: usize,
    window: i64,
    /// Bytes of bodies since the window was filled up.
    unacknowledged: u32,
    /// The server takes no more streams.
    is_leaving: bool,
    out: Vec<u8>,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            queued: Vec::new(),
            next: 1,
            received: Vec::new(),
            decoder: Decoder::default(),
            block: Vec::new(),
            block_of: None,
            has_settings: false,
            streams_max: STREAMS_AT_FIRST,
            initial_window: WINDOW_BYTES,
            frame_bytes_max: FRAME_BYTES_MAX,
            window: WINDOW_BYTES,
            unacknowledged: 0,
            is_leaving: false,
            out: Vec::new(),
        }
    }
}

fn protocol(text: impl Into<String>) -> Failure {
    Failure::new(Kind::Malformed, text)
}

impl Http2 {
    /// Says the preface on a new connection.
    pub(crate) fn open(&mut self, transport: &mut Transport) -> io::Result<()> {
        *self = Self { queued: std::mem::take(&mut self.queued), ..Self::default() };
        let mut payload = Vec::new();
        for (name, value) in [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WINDOW)] {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.out.extend_from_slice(PREFACE);
        write_frame(kind::SETTINGS, 0, 0, &payload, &mut self.out);
        write_window_update(0, WINDOW - WINDOW_BYTES as u32, &mut self.out);
        self.flush(transport)
    }

    /// Sends the request of `flight`, as soon as the server allows one more.
    pub(crate) fn send(&mut self, transport: &mut Transport, flight: Flight, core: &mut Core) -> io::Result<()> {
        self.queued.push(flight);
        self.begin_queued(core);
        self.flush(transport)
    }

    fn begin_queued(&mut self, core: &mut Core) {
        while !self.queued.is_empty() && !self.is_leaving && (self.streams.len() as u64) < u64::from(self.streams_max) {
            if self.next > STREAM_MAX {
                self.is_leaving = true;
                return;
            }
            let flight = self.queued.remove(0);
            self.begin(flight, core);
        }
    }

    fn begin(&mut self, mut flight: Flight, core: &mut Core) {
        flight.sent = core.now;
        let number = self.next;
        let plan = core.plan;
        let (body, has_body) = match &mut core.script {
            None => {
                let block = &plan.requests[usize::from(flight.url)].block;
                write_block(number, block.body.is_empty(), &block.head, &mut self.out);
                (Body::OfPlan, !block.body.is_empty())
            }
            Some(script) => {
                let Some(message) = script.request(plan) else {
                    core.abandon();
                    return;
                };
                let Block { head, body } = message.block(plan.tls.is_some());
                write_block(number, body.is_empty(), &head, &mut self.out);
                let has_body = !body.is_empty();
                (Body::OfScript(body), has_body)
            }
        };
        self.next += 2;
        let window = self.initial_window;
        let mut stream = Stream { number, flight, status: 0, body, sent: 0, window, shown: (Vec::new(), Vec::new()) };
        if has_body {
            push_body(&mut stream, &mut self.window, self.frame_bytes_max, core, &mut self.out);
        }
        self.streams.push(stream);
    }

    fn flush(&mut self, transport: &mut Transport) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = transport.send(&self.out);
        self.out.clear();
        sent
    }

    /// No request is under way, or waits for a stream.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.queued.is_empty()
    }

    /// All requests of the connection, which has failed.
    pub(crate) fn take_flights(&mut self) -> Vec<Flight> {
        let mut flights = self.take_unheard();
        flights.extend(self.streams.drain(..).map(|stream| stream.flight));
        flights
    }

    /// Requests that the server has not looked at; the connection ends.
    pub(crate) fn take_unheard(&mut self) -> Vec<Flight> {
        std::mem::take(&mut self.queued)
    }

    /// The server has closed.
    ///
    /// # Errors
    /// Responses were expected.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        match self.streams.iter().any(|stream| stream.status != 0) {
            true => Err(Failure::new(Kind::Cut, "the connection ended within the response")),
            false if self.streams.is_empty() => Ok(()),
            false => Err(Failure::new(Kind::Closed, "the connection ended before the response")),
        }
    }

    /// Ends streams that have waited too long.
    pub(crate) fn give_up_late(
        &mut self,
        connection: u32,
        transport: &mut Transport,
        failure: &Failure,
        core: &mut Core,
    ) -> io::Result<()> {
        let (now, timeout): (Instant, Duration) = (core.now, core.plan.timeout);
        let is_late = |flight: &Flight| now.saturating_duration_since(flight.sent) > timeout;
        for flight in self.queued.extract_if(.., |flight| is_late(flight)) {
            core.failed(connection, &flight, failure);
        }
        for stream in self.streams.extract_if(.., |stream| is_late(&stream.flight)) {
            write_reset(stream.number, ErrorCode::Cancel, &mut self.out);
            core.failed(connection, &stream.flight, failure);
        }
        self.begin_queued(core);
        self.flush(transport)
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// The connection is of no more use; its requests have failed with this.
    pub(crate) fn feed(
        &mut self,
        connection: u32,
        input: &[u8],
        transport: &mut Transport,
        core: &mut Core,
    ) -> Result<Step, Failure> {
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(input);
        let mut rest = &received[..];
        while let Some(header) = FrameHeader::parse(rest) {
            if header.len > FRAME_BYTES_MAX {
                return Err(protocol("a frame is larger than the server may send"));
            }
            let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + header.len) else { break };
            self.frame(connection, &header, payload, core)?;
            rest = &rest[HEADER_BYTES + header.len..];
        }
        let used = received.len() - rest.len();
        received.drain(..used);
        self.received = received;
        self.begin_queued(core);
        self.flush(transport).map_err(|error| Failure::connected(&error))?;
        Ok(if self.is_leaving && self.streams.is_empty() { Step::Close } else { Step::Go })
    }

    fn frame(&mut self, connection: u32, header: &FrameHeader, payload: &[u8], core: &mut Core) -> Result<(), Failure> {
        if self.block_of.is_some() && header.kind != kind::CONTINUATION {
            return Err(protocol("a frame stands within a header block"));
        }
        match header.kind {
            kind::DATA => {
                self.unacknowledged += header.len as u32;
                if self.unacknowledged >= REFILL_BYTES {
                    write_window_update(0, self.unacknowledged, &mut self.out);
                    self.unacknowledged = 0;
                }
                if core.script.as_ref().is_some_and(Script::wants_responses) {
                    self.show(header, payload)?;
                }
                if header.has(flag::END_STREAM) {
                    self.finish(connection, header.stream, core);
                }
            }
            kind::HEADERS => {
                let block = header.content(payload).ok_or_else(|| protocol("the padding is longer than its frame"))?;
                self.block.clear();
                self.block.extend_from_slice(block);
                self.block_of = Some((header.stream, header.flags));
                self.end_block(connection, header, core)?;
            }
            kind::CONTINUATION => {
                if self.block_of.is_none_or(|(stream, _)| stream != header.stream) {
                    return Err(protocol("a header block goes on that has not begun"));
                }
                if self.block.len() + payload.len() > HEAD_BYTES_MAX {
                    return Err(protocol("the response's head is longer than 64 KB"));
                }
                self.block.extend_from_slice(payload);
                self.end_block(connection, header, core)?;
            }
            kind::RST_STREAM => self.reset(connection, header.stream, code(payload, 0)?, core),
            kind::SETTINGS if !header.has(flag::ACK) => self.settings(payload, core)?,
            kind::PUSH_PROMISE => return Err(protocol("the server pushes, although it must not")),
            kind::PING if !header.has(flag::ACK) => write_frame(kind::PING, flag::ACK, 0, payload, &mut self.out),
            kind::GOAWAY => self.goaway(connection, code(payload, 0)?, code(payload, 4)?, core),
            kind::WINDOW_UPDATE => self.widen(header.stream, code(payload, 0)?, core),
            _ => {}
        }
        Ok(())
    }

    /// Keeps a piece of a body for the script.
    fn show(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<(), Failure> {
        let content = header.content(payload).ok_or_else(|| protocol("the padding is longer than its frame"))?;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == header.stream)
            && stream.shown.1.len() < SHOWN_BYTES_MAX
        {
            stream.shown.1.extend_from_slice(content);
        }
        Ok(())
    }

    /// A header block may be complete.
    fn end_block(&mut self, connection: u32, header: &FrameHeader, core: &mut Core) -> Result<(), Failure> {
        if !header.has(flag::END_HEADERS) {
            return Ok(());
        }
        let Some((number, flags)) = self.block_of.take() else { return Ok(()) };
        let shows = core.script.as_ref().is_some_and(Script::wants_responses);
        let mut status = None;
        let mut head = Vec::new();
        let decoded = self.decoder.decode(&self.block, |name, value| {
            if name == b":status" {
                status = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u16>().ok());
            } else if shows {
                head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
        });
        decoded.map_err(|error| protocol(error.to_string()))?;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
            match status {
                // An interim response: the final one is still to come.
                Some(100..200) if flags & flag::END_STREAM == 0 => return Ok(()),
                Some(status @ 200..1000) if stream.status == 0 => stream.status = status,
                None if stream.status != 0 => head.clear(),
                _ => return Err(protocol("a header block has no status, or one too many")),
            }
            stream.shown.0.append(&mut head);
        }
        if flags & flag::END_STREAM != 0 {
            self.finish(connection, number, core);
        }
        Ok(())
    }

    /// A response is complete.
    fn finish(&mut self, connection: u32, number: u32, core: &mut Core) {
        // A stream that was given up is not there any more.
        let Some(at) = self.streams.iter().position(|stream| stream.number == number) else { return };
        let stream = self.streams.swap_remove(at);
        if stream.sent < stream.body.bytes(stream.flight.url, core).len() {
            // Otherwise the server would go on to wait for the rest, and the stream would stay one of those that it allows.
            write_reset(number, ErrorCode::Cancel, &mut self.out);
        }
        if stream.status == 0 {
            core.failed(connection, &stream.flight, &protocol("a body has no head"));
            return;
        }
        core.responded(&stream.flight, stream.status);
        if let Some(script) = core.script.as_mut().filter(|script| script.wants_responses()) {
            script.response(stream.status, &stream.shown.0, &stream.shown.1);
        }
        core.land(connection);
    }

    /// The server gives up a stream.
    fn reset(&mut self, connection: u32, number: u32, reason: u32, core: &mut Core) {
        let Some(at) = self.streams.iter().position(|stream| stream.number == number) else { return };
        let stream = self.streams.swap_remove(at);
        let failure = Failure::new(Kind::Stream, format!("the server reset the stream: {}", name(reason)));
        core.failed(connection, &stream.flight, &failure);
    }

    /// The server takes no more streams; those behind `last` it has not looked at.
    fn goaway(&mut self, connection: u32, last: u32, reason: u32, core: &mut Core) {
        self.is_leaving = true;
        let unheard = self.streams.extract_if(.., |stream| stream.number > last).map(|stream| stream.flight);
        let failure = Failure::new(Kind::Stream, format!("the server ended the connection: {}", name(reason)));
        for mut flight in unheard {
            flight.refusals += u8::from(last == 0);
            if reason == ErrorCode::NoError as u32 && flight.refusals <= REFUSALS_MAX {
                self.queued.push(flight);
            } else {
                core.failed(connection, &flight, &failure);
            }
        }
    }

    fn settings(&mut self, payload: &[u8], core: &mut Core) -> Result<(), Failure> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(protocol("settings are cut"));
        };
        if !std::mem::replace(&mut self.has_settings, true) {
            // What they do not say is without a limit.
            self.streams_max = u32::MAX;
        }
        for [a, b, c, d, e, f] in settings {
            let value = u32::from_be_bytes([*c, *d, *e, *f]);
            match u16::from_be_bytes([*a, *b]) {
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = value,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_window;
                    self.initial_window = i64::from(value);
                    self.streams.iter_mut().for_each(|stream| stream.window += change);
                    self.push_bodies(core);
                }
                setting::MAX_FRAME_SIZE => self.frame_bytes_max = (value as usize).max(FRAME_BYTES_MAX),
                _ => {}
            }
        }
        write_frame(kind::SETTINGS, flag::ACK, 0, &[], &mut self.out);
        Ok(())
    }

    /// The server takes more of a body, or of all.
    fn widen(&mut self, number: u32, bytes: u32, core: &mut Core) {
        if number == 0 {
            self.window += i64::from(bytes & STREAM_MAX);
        } else if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
            stream.window += i64::from(bytes & STREAM_MAX);
        }
        self.push_bodies(core);
    }

    fn push_bodies(&mut self, core: &Core) {
        for stream in &mut self.streams {
            push_body(stream, &mut self.window, self.frame_bytes_max, core, &mut self.out);
        }
    }
}

/// Appends as much of a request's body as the windows allow.
fn push_body(stream: &mut Stream, window: &mut i64, frame_bytes_max: usize, core: &Core, out: &mut Vec<u8>) {
    let body = stream.body.bytes(stream.flight.url, core);
    while stream.sent < body.len() {
        let allowed = (*window).min(stream.window).max(0);
        let len = (body.len() - stream.sent).min(frame_bytes_max).min(usize::try_from(allowed).unwrap_or(0));
        if len == 0 {
            return;
        }
        let piece = &body[stream.sent..stream.sent + len];
        stream.sent += len;
        stream.window -= len as i64;
        *window -= len as i64;
        let flags = if stream.sent == body.len() { flag::END_STREAM } else { 0 };
        write_frame(kind::DATA, flags, stream.number, piece, out);
    }
}

/// A number in a payload.
fn code(payload: &[u8], at: usize) -> Result<u32, Failure> {
    let bytes = payload.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or_else(|| protocol("a frame is cut"))
}

/// The standard's name for a reason (section 7).
fn name(reason: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(reason as usize).map_or_else(|| format!("code {reason}"), |name| (*name).to_owned())
}
