//! One try: a connection to the peer, the request over it, the head of the answer.

use std::{io, io::IoSlice};

use bytes::Buf as _;
use tidegate_http::Parsed;

use super::{
    Address,
    balance::Lease,
    exchange::{CONNECTING, Exchange, Promise, Protocol, READING_HEAD, SENDING, SendBody, Stop},
    failure::{Failure, is_repeatable},
    keepalive,
    record::Record,
    socket::{ConnectError, Destination, Socket, Wait, with_timeout},
};
use crate::{
    body::BodyError,
    log::{Level, SysError},
    phase::Step,
};

/// Bytes of a request's body that come together before they are sent, when it is sent as it comes.
const BODY_PIECE_BYTES: usize = 32 << 10;

/// Interim responses (1xx) that may come ahead of an answer.
const INTERIM_COUNT_MAX: u32 = 100;

/// The outcome of sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// Everything has been sent.
    All,
    /// The peer answers before it has everything.
    Part,
}

impl<P: Protocol> Exchange<'_, P> {
    /// Asks one peer; answers the connection when a head has come that is not to be taken for a failure.
    pub(super) async fn attempt(&mut self, lease: &Lease) -> Result<Socket, Stop> {
        self.sent = false;
        let mut kept = self.take_kept(self.destination(lease));
        loop {
            let reused = kept.is_some();
            let mut socket = match kept.take() {
                Some(socket) => socket,
                // Boxed, as is all that most requests never do: the future of a request is copied once, so its size
                // counts.
                None => Box::pin(self.connect(self.destination(lease))).await?,
            };
            match self.converse(&mut socket, reused).await {
                Err(Stop::Dead) if self.can_repeat() => {}
                Err(stop) => return Err(stop),
                Ok(()) => return Ok(socket),
            }
        }
    }

    /// Where the request goes, and over which connections it may.
    fn destination<'l>(&'l self, lease: &'l Lease) -> Destination<'l> {
        let attempt = &self.selection.attempt;
        Destination {
            group: self.selection.group().id,
            scheme: P::SCHEME,
            address: &lease.peer.address,
            bind: attempt.bind.or_else(|| self.settings.bind(self.req)),
            socket_keepalive: self.settings.socket_keepalive,
            key: attempt.keepalive_key.as_ref(),
        }
    }

    fn take_kept(&self, destination: Destination<'_>) -> Option<Socket> {
        if self.selection.attempt.keepalive.connections == 0 {
            return None;
        }
        let mut socket = keepalive::take(destination)?;
        (socket.sent, socket.received) = (0, 0);
        Some(socket)
    }

    fn can_repeat(&self) -> bool {
        !self.sent || (is_repeatable(self.req.method.get()) && !self.body.is_framed())
    }

    async fn connect(&self, destination: Destination<'_>) -> Result<Socket, Stop> {
        let connecting = Socket::connect(destination);
        match with_timeout(self.selection.attempt.timeouts.connect_ms, &self.watch, connecting).await {
            Ok(Ok(socket)) => Ok(socket),
            Ok(Err(ConnectError::Bind(local, error))) => {
                let error = SysError(&error);
                // nginx names the port only if the configuration does.
                let shown: &dyn std::fmt::Display = if local.port() == 0 { &local.ip() } else { &local };
                self.req.log(Level::Crit, format_args!("bind({shown}) failed {error} while {CONNECTING}"));
                Err(Stop::End(Step::Status(500)))
            }
            Ok(Err(ConnectError::Connect(error))) => {
                self.report_connect(destination.address, &error);
                Err(Failure::Error.into())
            }
            Err(Wait::ClientGone) => Err(Stop::ClientGone),
            Err(_) => Err(self.timed_out(CONNECTING)),
        }
    }

    /// A socket in the file system that is not there is a mistake of the configuration, more than a server that is down.
    #[cold]
    fn report_connect(&self, address: &Address, error: &io::Error) {
        let is_bad = matches!(
            error.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied | io::ErrorKind::AddrNotAvailable
        );
        let level = match (address, error.kind()) {
            (Address::Inet(_), _) | (_, io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock) => Level::Error,
            (Address::Unix(_), _) => Level::Crit,
        };
        let error = SysError(error);
        match address {
            // Refused by the system, before a packet was sent.
            Address::Inet(_) if is_bad => {
                self.req.log(Level::Crit, format_args!("connect() to {address} failed {error} while {CONNECTING}"))
            }
            Address::Inet(_) => self.req.log(level, format_args!("connect() failed {error} while {CONNECTING}")),
            Address::Unix(_) => {
                self.req.log(level, format_args!("connect() to {address} failed {error} while {CONNECTING}"));
            }
        }
    }

    pub(super) fn timed_out(&self, doing: &str) -> Stop {
        self.req.log(Level::Error, format_args!("upstream timed out (110: Connection timed out) while {doing}"));
        Failure::Timeout.into()
    }

    #[cold]
    fn broken(&self, call: &str, error: &io::Error, doing: &str, socket: &Socket, reused: bool) -> Stop {
        if reused && socket.received == 0 {
            return Stop::Dead;
        }
        self.req.log(Level::Error, format_args!("{call} failed {} while {doing}", SysError(error)));
        Failure::Error.into()
    }

    /// Sends the request and reads the head of the answer.
    async fn converse(&mut self, socket: &mut Socket, reused: bool) -> Result<(), Stop> {
        self.req.update_try(|last| last.connect_ms = Some(last.elapsed_ms()));
        self.req.upstream_record_mut(|record| record.head.clear());
        self.is_whole = false;
        // Nobody has asked yet: what is there is not the answer to this request, or not it alone.
        let is_quiet = !matches!(socket.stream.try_peek(), Ok(true));
        let sent = self.send(socket, reused).await;
        self.req.update_try(|last| last.bytes_sent = socket.sent);
        self.is_whole = sent? == Sent::All && is_quiet && self.kept_promise(socket);
        socket.requests = socket.requests.saturating_add(1);
        let head = self.read_head(socket, reused).await;
        self.req.update_try(|last| last.bytes_received = socket.received);
        head?;
        let status = self.req.upstream_record_mut(|record| record.head.status);
        self.req.update_try(|last| {
            last.header_ms = Some(last.elapsed_ms());
            last.status = status;
        });
        if status == 101 && !self.req.upstream_record_mut(|record| self.protocol.is_upgrade(self.req, &record.head)) {
            self.req.log(Level::Error, format_args!("upstream sent unexpected status 101 while {READING_HEAD}"));
            return Err(Failure::InvalidHeader.into());
        }
        self.check_status(status)
    }

    /// Takes statuses for failures as far as another peer can be asked.
    fn check_status(&self, status: u16) -> Result<(), Stop> {
        let failure = Failure::Status(status);
        let allowed = status >= 300
            && self.selection.tries > 1
            && self.settings.next.allow(failure, self.sent, self.req.method.get());
        if allowed { Err(failure.into()) } else { Ok(()) }
    }

    /// Whether everything that was sent is what the head announced.
    fn kept_promise(&self, socket: &Socket) -> bool {
        let head_bytes = self.req.upstream_record(|record| record.request.len() as u64).unwrap_or(0);
        match self.promise {
            Promise::Bytes(count) => socket.sent.checked_sub(head_bytes) == Some(count),
            Promise::LastFrame => true,
            Promise::Unclear => false,
        }
    }

    /// Most bytes that may follow the head: the peer would take more for another request.
    fn body_bytes_max(&self) -> u64 {
        match self.promise {
            Promise::Bytes(count) => count,
            Promise::LastFrame | Promise::Unclear => u64::MAX,
        }
    }

    async fn send(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        self.sent = true;
        let sent = self.send_head(socket, reused).await?;
        if sent == Sent::Part {
            return Ok(sent);
        }
        match self.body {
            SendBody::None => Ok(sent),
            SendBody::Loaded(_) if self.req.body.file.borrow().is_none() => Ok(sent),
            SendBody::Loaded(_) => Box::pin(self.send_file(socket, reused)).await,
            SendBody::Framed(_) => Box::pin(self.send_pieces(socket, reused)).await,
        }
    }

    /// Sends the head, and a body that is in memory together with it.
    async fn send_head(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        let mut done = 0;
        let body_bytes_max = usize::try_from(self.body_bytes_max()).unwrap_or(usize::MAX);
        loop {
            let written = {
                let slot = self.req.upstream.borrow();
                let head = slot.get().map_or(&[][..], |record: &Record| &record.request);
                let memory = self.req.body.memory.borrow();
                let body: &[u8] = if matches!(self.body, SendBody::Loaded(_)) { &memory } else { &[] };
                let body = &body[..body.len().min(body_bytes_max)];
                if done == head.len() + body.len() {
                    return Ok(Sent::All);
                }
                match (head.get(done..), body) {
                    (Some(head), []) => socket.stream.try_write(head),
                    (Some(head), body) => socket.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
                    (None, body) => socket.stream.try_write(&body[done - head.len()..]),
                }
            };
            match self.after_write(socket, written, "writev()", reused).await? {
                Some(count) => done += count,
                None => return Ok(Sent::Part),
            }
        }
    }

    /// Takes the result of a write; waits when the socket is full. Answers how much was written, `None` when the peer
    /// answers already.
    async fn after_write(
        &mut self,
        socket: &mut Socket,
        written: io::Result<usize>,
        call: &str,
        reused: bool,
    ) -> Result<Option<usize>, Stop> {
        match written {
            Ok(count) => {
                socket.sent += count as u64;
                return Ok(Some(count));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(self.broken(call, &error, SENDING, socket, reused)),
        }
        let mut answers = false;
        let timeout_ms = self.selection.attempt.timeouts.send_ms;
        let wait = socket.wait(timeout_ms, &self.watch, |stream, cx| {
            if stream.poll_read_ready(cx).is_ready() {
                answers = true;
                return std::task::Poll::Ready(Ok(()));
            }
            stream.poll_write_ready(cx)
        });
        match wait.await {
            Ok(Wait::Ready) if answers => Ok(None),
            Ok(Wait::Ready) => Ok(Some(0)),
            Ok(Wait::TimedOut) => Err(self.timed_out(SENDING)),
            Ok(Wait::ClientGone) => Err(Stop::ClientGone),
            Err(error) => Err(self.broken(call, &error, SENDING, socket, reused)),
        }
    }

    /// Sends a body that is in a file.
    async fn send_file(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        let Some((file, len)) = self.req.body.file.borrow().as_ref().map(|body| (body.file.clone(), body.len)) else {
            return Ok(Sent::All);
        };
        let len = len.min(self.body_bytes_max());
        let mut offset = 0;
        while offset < len {
            let written = socket.stream.try_sendfile(&file, offset, len - offset);
            if matches!(written, Ok(0)) {
                let message = format_args!("sendfile() reported that the request body was truncated at {offset}");
                self.req.log(Level::Alert, message);
                return Err(Stop::End(Step::Status(500)));
            }
            match self.after_write(socket, written, "sendfile()", reused).await? {
                Some(count) => offset += count as u64,
                None => return Ok(Sent::Part),
            }
            // Others have their turn in between.
            tokio::task::yield_now().await;
        }
        Ok(Sent::All)
    }

    /// Sends a body as it comes from the client.
    async fn send_pieces(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        socket.stream.set_nodelay();
        // Whatever becomes of it, no other handler gets the rest of this body for a whole one.
        self.req.body.mark_loaded();
        let timeout_ms = self.req.http_conf().client_body_timeout_ms();
        let (mut piece, mut framed) = (Vec::with_capacity(BODY_PIECE_BYTES), Vec::new());
        let mut left = self.body_bytes_max();
        loop {
            piece.clear();
            framed.clear();
            let last = {
                let reading = self.req.read_body_piece(&mut piece, timeout_ms);
                let answer = std::future::poll_fn(|cx| socket.stream.poll_read_ready(cx));
                tokio::select! {
                    biased;
                    read = reading => read.map_err(|error| self.body_failed(&error))?,
                    _ = answer => return Ok(Sent::Part),
                }
            };
            self.protocol.frame(&piece, last, &mut framed);
            framed.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= framed.len() as u64;
            let mut done = 0;
            while done < framed.len() {
                let written = socket.stream.try_write(&framed[done..]);
                match self.after_write(socket, written, "send()", reused).await? {
                    Some(count) => done += count,
                    None => return Ok(Sent::Part),
                }
            }
            if last {
                return Ok(Sent::All);
            }
        }
    }

    fn body_failed(&self, error: &BodyError) -> Stop {
        self.req.report_body_error(error);
        match error {
            BodyError::Gone => Stop::ClientGone,
            error => Stop::End(error.step()),
        }
    }

    async fn read_head(&mut self, socket: &mut Socket, reused: bool) -> Result<(), Stop> {
        let head_bytes_max = self.settings.head_bytes_max;
        socket.reserve(head_bytes_max);
        let mut interim_count = 0;
        loop {
            match socket.try_read() {
                Ok(0) if reused && socket.received == 0 => return Err(Stop::Dead),
                Ok(0) => {
                    self.req
                        .log(Level::Error, format_args!("upstream prematurely closed connection while {READING_HEAD}"));
                    return Err(Failure::Error.into());
                }
                Ok(_) => {
                    if self.parse_head(socket, &mut interim_count)? {
                        return Ok(());
                    }
                    if socket.input.len() >= head_bytes_max {
                        self.req.log(Level::Error, format_args!("upstream sent too big header while {READING_HEAD}"));
                        return Err(Failure::InvalidHeader.into());
                    }
                    socket.input.reserve(1);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout_ms = self.selection.attempt.timeouts.read_ms;
                    match socket.wait(timeout_ms, &self.watch, |stream, cx| stream.poll_read_ready(cx)).await {
                        Ok(Wait::Ready) => {}
                        Ok(Wait::TimedOut) => return Err(self.timed_out(READING_HEAD)),
                        Ok(Wait::ClientGone) => return Err(Stop::ClientGone),
                        Err(error) => return Err(self.broken("recv()", &error, READING_HEAD, socket, reused)),
                    }
                }
                Err(error) => return Err(self.broken("recv()", &error, READING_HEAD, socket, reused)),
            }
        }
    }

    /// Parses what has come; answers whether the head is complete. Interim responses are skipped.
    fn parse_head(&mut self, socket: &mut Socket, interim_count: &mut u32) -> Result<bool, Stop> {
        loop {
            let parsed = self.req.upstream_record_mut(|record| {
                let parsed = self.protocol.read_head(&socket.input, &mut record.head)?;
                let status = record.head.status;
                let interim = parsed != Parsed::Partial && (100..200).contains(&status) && status != 101;
                if interim {
                    record.head.clear();
                }
                Ok::<_, String>((parsed, interim))
            });
            match parsed {
                Ok((Parsed::Partial, _)) => return Ok(false),
                Ok((Parsed::Complete(count), interim)) => {
                    socket.input.advance(count);
                    if !interim {
                        return Ok(true);
                    }
                    *interim_count += 1;
                    if *interim_count > INTERIM_COUNT_MAX {
                        let message = format_args!("upstream sent too many interim responses while {READING_HEAD}");
                        self.req.log(Level::Error, message);
                        return Err(Failure::InvalidHeader.into());
                    }
                    if socket.input.is_empty() {
                        return Ok(false);
                    }
                }
                Err(text) => {
                    self.req.log(Level::Error, format_args!("{text} while {READING_HEAD}"));
                    return Err(Failure::InvalidHeader.into());
                }
            }
        }
    }
}
