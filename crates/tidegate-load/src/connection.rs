//! A connection, from connecting to closing, again and again.
//!
//! A connection has *places* for requests: one over HTTP/1, one for each stream over HTTP/2. A place is always at exactly one
//! of these: eager, idle or pausing (lists of [`Core`]), or with a request under way ([`Flight`]), which waits here for the
//! connection or is with the protocol.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::time::Instant;

use mio::Token;
use mio::event::Event;

use crate::core::{Core, Flight};
use crate::failure::{Failure, Kind};
use crate::http1::{Http1, Step};
use crate::http2::Http2;
use crate::pace::Pace;
use crate::transport::Transport;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Connecting,
    Handshake,
    Open,
}

/// What is spoken.
#[derive(Debug)]
enum Wire {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

impl Wire {
    /// Nothing is asked for.
    fn is_idle(&self) -> bool {
        match self {
            Wire::Http1(http1) => http1.is_idle(),
            Wire::Http2(http2) => http2.is_idle(),
        }
    }
}

/// One of the run's connections.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u32,
    state: State,
    transport: Option<Transport>,
    wire: Wire,
    /// Requests that wait until the connection stands.
    waiting: Vec<Flight>,
    /// When connecting began.
    since: Instant,
    /// It has stood once.
    was_open: bool,
}

impl Connection {
    pub(crate) fn new(number: u32, core: &Core) -> Self {
        let wire = if core.plan.is_http2 { Wire::Http2(Box::default()) } else { Wire::Http1(Box::default()) };
        Self {
            number,
            state: State::Closed,
            transport: None,
            wire,
            waiting: Vec::new(),
            since: core.now,
            was_open: false,
        }
    }

    /// One of its places looks for a request; the script may want a delay first.
    pub(crate) fn seek(&mut self, core: &mut Core) {
        match core.script.as_mut().and_then(|script| script.delay()) {
            Some(delay) if !core.is_ending => core.later.push(Reverse((core.now + delay, self.number))),
            _ => self.seek_now(core),
        }
    }

    /// As [`Self::seek`], without a delay.
    pub(crate) fn seek_now(&mut self, core: &mut Core) {
        match core.begin() {
            Some(flight) => self.dispatch(flight, core),
            None => core.idle.push_back(self.number),
        }
    }

    /// Sends a request, on a new connection if there is none.
    pub(crate) fn dispatch(&mut self, flight: Flight, core: &mut Core) {
        if self.state == State::Open {
            if let Err(failure) = self.send(flight, core) {
                self.fail(&failure, core);
            }
            return;
        }
        self.waiting.push(flight);
        if self.state == State::Closed {
            self.connect(core);
        }
    }

    /// Connects ahead of the first request.
    pub(crate) fn stand_by(&mut self, core: &mut Core) {
        if self.state == State::Closed {
            self.connect(core);
        }
    }

    /// Begins to connect.
    fn connect(&mut self, core: &mut Core) {
        self.since = core.now;
        let address = core.script.as_ref().and_then(|script| script.address()).unwrap_or(&core.plan.address);
        let token = Token(self.number as usize);
        match Transport::connect(address, core.plan.tls.as_ref(), &core.registry, token) {
            Ok(transport) => {
                self.transport = Some(transport);
                self.state = State::Connecting;
            }
            // A Unix socket whose queue is full, a process without further descriptors: others may have to end first.
            Err(error) => self.fail(&Failure::connecting(&error), core),
        }
    }

    /// An event of its socket has come.
    #[inline]
    pub(crate) fn ready(&mut self, event: &Event, core: &mut Core) {
        let done = match self.state {
            State::Closed => Ok(()),
            State::Connecting | State::Handshake => self.advance(core),
            State::Open => self.work(event, core),
        };
        if let Err(failure) = done {
            self.fail(&failure, core);
        }
    }

    /// Goes on with connecting.
    fn advance(&mut self, core: &mut Core) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        if self.state == State::Connecting {
            if !transport.is_connected().map_err(|error| Failure::connecting(&error))? {
                return Ok(());
            }
            self.state = State::Handshake;
        }
        let shaken = transport.shake_hands().map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Failure::new(Kind::Tls, error.to_string()),
            _ => Failure::connecting(&error),
        });
        if !shaken? {
            return Ok(());
        }
        let speaks_http2 = transport.protocol() == Some(b"h2");
        if core.plan.tls.is_some() && core.plan.is_http2 && !speaks_http2 {
            return Err(Failure::new(Kind::Tls, "the server does not speak HTTP/2"));
        }
        self.open(core)
    }

    /// The connection stands.
    fn open(&mut self, core: &mut Core) -> Result<(), Failure> {
        self.state = State::Open;
        core.tally.opened += 1;
        // The connections of a closed loop stand before their first request begins. One that is opened for a request, now or
        // later, is a part of what the request takes.
        let is_first = !std::mem::replace(&mut self.was_open, true);
        let begins_here = is_first && core.plan.keep_alive && matches!(core.pace, Pace::Closed);
        if begins_here {
            core.now = Instant::now();
        }
        if let (Wire::Http2(http2), Some(transport)) = (&mut self.wire, &mut self.transport) {
            http2.open(transport).map_err(|error| Failure::connected(&error))?;
        }
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        while let Some(mut flight) = waiting.next() {
            if begins_here {
                core.begin_again(&mut flight);
            }
            if let Err(failure) = self.send(flight, core) {
                self.waiting.extend(waiting);
                return Err(failure);
            }
        }
        // Bytes may have come together with the end of the handshake.
        self.read(core)
    }

    /// Sends the request of `flight` on the connection that stands.
    fn send(&mut self, flight: Flight, core: &mut Core) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        let sent = match &mut self.wire {
            Wire::Http1(http1) => http1.send(transport, flight, core),
            Wire::Http2(http2) => http2.send(transport, flight, core),
        };
        sent.map_err(|error| Failure::connected(&error))
    }

    /// Writes what is left over and reads what has come.
    #[inline]
    fn work(&mut self, event: &Event, core: &mut Core) -> Result<(), Failure> {
        if event.is_writable()
            && let Some(transport) = &mut self.transport
            && transport.has_output()
            && let Err(error) = transport.flush()
        {
            // What the server has answered before it stopped to read counts more than that it did.
            self.read(core)?;
            return if self.state == State::Open { Err(Failure::connected(&error)) } else { Ok(()) };
        }
        if event.is_readable() || event.is_error() { self.read_on(event.is_read_closed(), core) } else { Ok(()) }
    }

    /// Reads all that there is.
    fn read(&mut self, core: &mut Core) -> Result<(), Failure> {
        self.read_on(true, core)
    }

    /// Reads; `to_end` says that an emptied socket may have its end behind it, which no further event tells of.
    #[inline]
    fn read_on(&mut self, to_end: bool, core: &mut Core) -> Result<(), Failure> {
        let mut buf = std::mem::take(&mut core.buf);
        let done = self.read_into(&mut buf, to_end, core);
        core.buf = buf;
        done
    }

    fn read_into(&mut self, buf: &mut [u8], to_end: bool, core: &mut Core) -> Result<(), Failure> {
        while let Some(transport) = &mut self.transport {
            let count = match transport.read(buf) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // Many servers close idle connections without TLS's farewell: nothing is cut by that.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.wire.is_idle() => 0,
                Err(error) => return Err(Failure::connected(&error)),
            };
            core.received(count);
            if count == 0 {
                let closed = match &mut self.wire {
                    Wire::Http1(http1) => http1.close(self.number, core),
                    Wire::Http2(http2) => http2.close(),
                };
                self.close(core);
                return closed;
            }
            let is_emptied = count < buf.len() && transport.tells_emptiness() && !to_end;
            let step = match &mut self.wire {
                Wire::Http1(http1) => http1.feed(self.number, &buf[..count], core)?,
                Wire::Http2(http2) => http2.feed(self.number, &buf[..count], transport, core)?,
            };
            if step == Step::Close {
                self.close(core);
                return Ok(());
            }
            if is_emptied {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Closes the connection. A request that was not even looked at, because the server has said farewell, is sent again.
    fn close(&mut self, core: &mut Core) {
        self.transport = None;
        self.state = State::Closed;
        if let Wire::Http2(http2) = &mut self.wire {
            self.waiting.append(&mut http2.take_unheard());
        }
        if !self.waiting.is_empty() {
            self.connect(core);
        }
    }

    /// Closes the connection after a failure, which is that of all its requests.
    fn fail(&mut self, failure: &Failure, core: &mut Core) {
        self.transport = None;
        self.state = State::Closed;
        let mut flights = std::mem::take(&mut self.waiting);
        match &mut self.wire {
            Wire::Http1(http1) => {
                flights.extend(http1.take_flight());
                http1.reset();
            }
            Wire::Http2(http2) => flights.append(&mut http2.take_flights()),
        }
        if flights.is_empty() {
            core.fault(failure);
        }
        for flight in &flights {
            core.failed(self.number, flight, failure);
        }
    }

    /// Nothing is asked for on it.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.wire.is_idle()
    }

    /// Looks for requests that have waited too long, and, when the run ends, for connections that are needed no more.
    pub(crate) fn sweep(&mut self, core: &mut Core) {
        let (now, timeout) = (core.now, core.plan.timeout);
        match self.state {
            State::Closed => {}
            State::Connecting | State::Handshake => {
                if now.saturating_duration_since(self.since) > timeout {
                    self.fail(&Failure::new(Kind::ConnectTimeout, "no connection in time"), core);
                }
            }
            // The run is over. Whoever serves a connection by a process may have others that wait for theirs.
            State::Open if core.is_ending && self.is_idle() => {
                self.transport = None;
                self.state = State::Closed;
            }
            State::Open => {
                let late = Failure::late();
                match &mut self.wire {
                    Wire::Http1(http1) if http1.is_late(now, timeout) => self.fail(&late, core),
                    Wire::Http1(_) => {}
                    Wire::Http2(http2) => {
                        let Some(transport) = &mut self.transport else { return };
                        if let Err(error) = http2.give_up_late(self.number, transport, &late, core) {
                            self.fail(&Failure::connected(&error), core);
                        }
                    }
                }
            }
        }
    }
}
