//! HTTP/1 on a connection: one message of requests at a time, then their responses.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use tidegate_http::{BodyLength, BodyPart, ChunkedDecoder};

use crate::core::{Core, Flight};
use crate::failure::{Failure, Kind};
use crate::head;
use crate::script::Script;
use crate::transport::Transport;

/// What a script may be shown of one response; the rest is dropped.
pub(crate) const SHOWN_BYTES_MAX: usize = 64 << 20;

/// What the connection is to do after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read on.
    Go,
    /// Close: the responses that were expected are complete, and the server takes no more.
    Close,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Http1 {
    flight: Option<Flight>,
    /// Responses that are to come.
    pending: u32,
    to_head: bool,
    /// Whether those of a script's message are to HEAD, in their order.
    script_heads: VecDeque<bool>,
    /// The beginning of a head that was cut between two reads.
    stash: Vec<u8>,
    /// The body of the response that comes; `None` ahead of its head.
    body: Option<BodyLength>,
    chunked: ChunkedDecoder,
    status: u16,
    keep_alive: bool,
    shown: Shown,
}

/// A response for a script.
#[derive(Debug, Default)]
struct Shown {
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Http1 {
    /// Sends the request of `flight`.
    #[inline]
    pub(crate) fn send(&mut self, transport: &mut Transport, mut flight: Flight, core: &mut Core) -> io::Result<()> {
        let request = &core.plan.requests[usize::from(flight.url)];
        flight.sent = core.now;
        let start = flight.start;
        self.flight = Some(flight);
        self.pending = 1;
        self.to_head = request.to_head;
        let Some(script) = &mut core.script else { return transport.send(&request.text) };
        let Some(message) = script.request(core.plan) else {
            self.flight = None;
            self.pending = 0;
            core.abandon();
            return Ok(());
        };
        self.script_heads.clear();
        self.script_heads.extend(message.to_heads());
        self.pending = self.script_heads.len() as u32;
        let sent = transport.send(message.text());
        core.begin_more(start, u64::from(self.pending.saturating_sub(1)));
        sent
    }

    /// No request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flight.is_none()
    }

    /// The request under way, if there is one.
    pub(crate) fn take_flight(&mut self) -> Option<Flight> {
        self.flight.take()
    }

    /// Whether the request under way has waited too long.
    pub(crate) fn is_late(&self, now: Instant, timeout: Duration) -> bool {
        self.flight.as_ref().is_some_and(|flight| now.saturating_duration_since(flight.sent) > timeout)
    }

    /// A new connection.
    pub(crate) fn reset(&mut self) {
        let Http1 { flight, pending, to_head, script_heads, stash, body, chunked, status, keep_alive, shown } = self;
        (*flight, *pending, *to_head, *body, *status, *keep_alive) = (None, 0, false, None, 0, false);
        script_heads.clear();
        stash.clear();
        chunked.reset();
        shown.head.clear();
        shown.body.clear();
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// The connection is of no more use; the request under way has failed with this.
    pub(crate) fn feed(&mut self, connection: u32, mut input: &[u8], core: &mut Core) -> Result<Step, Failure> {
        loop {
            let Some(body) = &mut self.body else {
                if input.is_empty() {
                    return Ok(Step::Go);
                }
                match self.read_head(input, core)? {
                    Some(used) => input = &input[used..],
                    None => return Ok(Step::Go),
                }
                continue;
            };
            let (content, rest, is_done) = match body {
                BodyLength::Known(left) => {
                    let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                    *left -= len as u64;
                    (&input[..len], &input[len..], *left == 0)
                }
                BodyLength::UntilClose => (input, &[][..], false),
                BodyLength::Chunked => match self.chunked.decode(input) {
                    Ok(BodyPart::Data { start, end }) => (&input[start..end], &input[end..], false),
                    Ok(BodyPart::Partial) => (&[][..], &[][..], false),
                    Ok(BodyPart::End(end)) => (&[][..], &input[end..], true),
                    Err(error) => return Err(Failure::new(Kind::Malformed, error.to_string())),
                },
            };
            input = rest;
            if core.script.as_ref().is_some_and(Script::wants_responses) && self.shown.body.len() < SHOWN_BYTES_MAX {
                self.shown.body.extend_from_slice(content);
            }
            if is_done {
                if self.finish(connection, core) == Step::Close {
                    return match self.pending {
                        0 => Ok(Step::Close),
                        _ => Err(Failure::new(Kind::Closed, "the connection ended before the response")),
                    };
                }
            } else if input.is_empty() {
                return Ok(Step::Go);
            }
        }
    }

    /// Reads a head at the start of what has come; answers how many bytes of `input` it took, or `None` if more must come.
    fn read_head(&mut self, input: &[u8], core: &mut Core) -> Result<Option<usize>, Failure> {
        let malformed = |text: &str| Failure::new(Kind::Malformed, text);
        if self.pending == 0 {
            return Err(malformed("bytes behind the response"));
        }
        let before = self.stash.len();
        let buf = if before == 0 {
            input
        } else {
            self.stash.extend_from_slice(input);
            &self.stash[..]
        };
        let to_head = self.script_heads.front().copied().unwrap_or(self.to_head);
        let Some(head) = head::parse(buf, to_head).map_err(malformed)? else {
            if before == 0 {
                self.stash.extend_from_slice(input);
            }
            return Ok(None);
        };
        // An interim response: the final one is still to come. After 101 the connection speaks something else.
        let is_interim = head.status < 200 && head.status != 101;
        if !is_interim {
            self.body = Some(head.body);
            (self.status, self.keep_alive) = (head.status, head.keep_alive && head.status != 101);
            self.chunked.reset();
            if core.script.as_ref().is_some_and(Script::wants_responses) {
                self.shown.head.clear();
                // Without the status line.
                let fields = memchr::memchr(b'\n', buf).map_or(0, |end| end + 1);
                self.shown.head.extend_from_slice(&buf[fields..head.bytes]);
                self.shown.body.clear();
            }
        }
        let used = head.bytes - before;
        self.stash.clear();
        Ok(Some(used))
    }

    /// A response is complete.
    fn finish(&mut self, connection: u32, core: &mut Core) -> Step {
        self.body = None;
        self.pending -= 1;
        self.script_heads.pop_front();
        if let Some(flight) = &self.flight {
            core.responded(flight, self.status);
        }
        if let Some(script) = core.script.as_mut().filter(|script| script.wants_responses()) {
            script.response(self.status, &self.shown.head, &self.shown.body);
        }
        let is_last = self.pending == 0;
        if is_last && self.flight.take().is_some() {
            core.land(connection);
        }
        if self.keep_alive && (core.plan.keep_alive || !is_last) { Step::Go } else { Step::Close }
    }

    /// The server has closed. A body without another end is complete now.
    ///
    /// # Errors
    /// A response was expected, or is not whole.
    pub(crate) fn close(&mut self, connection: u32, core: &mut Core) -> Result<(), Failure> {
        if self.body == Some(BodyLength::UntilClose) {
            self.finish(connection, core);
        }
        let is_begun = self.body.is_some() || !self.stash.is_empty();
        match self.pending {
            0 => Ok(()),
            _ if is_begun => Err(Failure::new(Kind::Cut, "the connection ended within the response")),
            _ => Err(Failure::new(Kind::Closed, "the connection ended before the response")),
        }
    }
}
