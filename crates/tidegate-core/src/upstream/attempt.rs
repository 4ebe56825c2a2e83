//! One try: a connection to the peer, the request over it, the head of the answer.

use std::io;

use bytes::Buf as _;
use rustls::HandshakeKind;
use tidegate_net::tls::HandshakeError;
use tidegate_tls::verify::VerifyError;

use super::{
    Address,
    balance::Lease,
    exchange::{CONNECTING, Exchange, HeadPart, Protocol, READING_HEAD, SHAKING_HANDS, Stop},
    failure::Failure,
    keepalive,
    lane::UnderWay,
    send::Sent,
    socket::{ConnectError, Destination, Socket, Turn, Wait, with_timeout},
};
use crate::{
    log::{Level, SysError},
    phase::Step,
    ssl::failure::HandshakeFailure,
};

impl<P: Protocol> Exchange<'_, P> {
    /// Asks one peer; answers the connection when a head has come that is not to be taken for a failure.
    pub(super) async fn attempt(&mut self, lease: &Lease) -> Result<Socket, Stop> {
        self.sent = false;
        let sharing = self.protocol.shares().map(|measure| (measure, UnderWay::begin()));
        // A request without company has nobody to share with, and needs no detour.
        if let Some((measure, (_, true))) = sharing
            && let Some(socket) = self.attempt_shared(lease, measure).await?
        {
            return Ok(socket);
        }
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
    pub(super) fn destination<'l>(&'l self, lease: &'l Lease) -> Destination<'l> {
        let attempt = &self.selection.attempt;
        Destination {
            group: self.selection.group().id,
            scheme: self.scheme(),
            address: &lease.peer.address,
            bind: attempt.bind.or_else(|| self.settings.bind(self.req)),
            socket_keepalive: self.settings.socket_keepalive,
            key: attempt.keepalive_key.as_ref(),
            state: self.protocol.connection_state(),
            tls: self.tls(),
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
        !self.sent || (self.protocol.is_repeatable(self.req) && !self.body.is_arriving())
    }

    async fn connect(&self, destination: Destination<'_>) -> Result<Socket, Stop> {
        let connecting = Socket::connect(self.req, destination);
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
            Ok(Err(ConnectError::Certificate(message))) => {
                self.req.log(Level::Error, format_args!("{message} while {SHAKING_HANDS}"));
                Err(Stop::End(Step::Status(500)))
            }
            Ok(Err(error @ (ConnectError::Refused(_) | ConnectError::Verdict(_)))) => {
                self.req.log(Level::Error, format_args!("{error} while {SHAKING_HANDS}"));
                Err(Failure::Error.into())
            }
            Ok(Err(ConnectError::Tls(error))) => {
                self.report_handshake(&error);
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

    /// Source: nginx, `ngx_http_upstream_ssl_handshake`.
    #[cold]
    fn report_handshake(&self, error: &HandshakeError) {
        let HandshakeError::Tls(cause) = error else {
            let failure = HandshakeFailure(error);
            return self.req.log(Level::Error, format_args!("{failure} while {SHAKING_HANDS}"));
        };
        match (VerifyError::of(cause), self.tls()) {
            (Some(VerifyError::Name), Some(tls)) => self.req.log(
                Level::Error,
                format_args!("upstream SSL certificate does not match \"{}\" while {SHAKING_HANDS}", tls.name()),
            ),
            (Some(why), _) => {
                let number = why.number();
                let message = format_args!("upstream SSL certificate verify error: ({number}:{why})");
                self.req.log(Level::Error, format_args!("{message} while {SHAKING_HANDS}"));
            }
            (None, _) => {
                let failure = HandshakeFailure(error);
                self.req.log(Level::Error, format_args!("{failure} while {SHAKING_HANDS}"));
            }
        }
    }

    pub(super) fn timed_out(&self, doing: &str) -> Stop {
        self.req.log(Level::Error, format_args!("upstream timed out (110: Connection timed out) while {doing}"));
        Failure::Timeout.into()
    }

    #[cold]
    pub(super) fn broken(&self, call: &str, error: &io::Error, doing: &str, socket: &Socket, reused: bool) -> Stop {
        if reused && socket.received == 0 {
            return Stop::Dead;
        }
        self.req.log(Level::Error, format_args!("{call} failed {} while {doing}", SysError(error)));
        Failure::Error.into()
    }

    /// Sends the request and reads the head of the answer.
    async fn converse(&mut self, socket: &mut Socket, reused: bool) -> Result<(), Stop> {
        self.begin_answer();
        self.greet(reused);
        // Nobody has asked yet: what is there is not the answer to this request, or not it alone.
        let is_quiet = !matches!(socket.stream.try_peek(), Ok(true));
        let sent = self.send(socket, reused).await;
        self.req.update_try(|last| {
            last.bytes_sent = socket.sent;
            last.resumed = socket.stream.with_tls(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed));
        });
        let sent = sent?;
        self.is_whole = sent == Sent::All && is_quiet && self.kept_promise(socket);
        socket.requests = socket.requests.saturating_add(1);
        let head = if sent == Sent::UpToAnswer { Ok(()) } else { self.read_head(socket, reused).await };
        self.req.update_try(|last| last.bytes_received = socket.received);
        head?;
        self.head_came(socket)
    }

    /// Puts ahead of the request what a new connection has to begin with, and nothing on one that was kept.
    fn greet(&mut self, reused: bool) {
        let former = std::mem::take(&mut self.greeting_bytes);
        let mut greeting = Vec::new();
        if !reused {
            self.protocol.write_greeting(&mut greeting);
        }
        if former == 0 && greeting.is_empty() {
            return;
        }
        self.greeting_bytes = greeting.len();
        self.req.upstream_record_mut(|record| {
            let move_along = |at: usize| at - former + greeting.len();
            record.uri = move_along(record.uri.start)..move_along(record.uri.end);
            record.request.splice(..former, greeting.iter().copied());
        });
    }

    /// There is a connection: forgets what another peer has said.
    pub(super) fn begin_answer(&mut self) {
        self.req.update_try(|last| last.connect_ms = Some(last.elapsed_ms()));
        self.req.upstream_record_mut(|record| record.head.clear());
        self.protocol.begin_try();
        self.unsent = None;
        self.is_whole = false;
    }

    /// A head is complete.
    pub(super) fn head_came(&self, socket: &Socket) -> Result<(), Stop> {
        let status = self.req.upstream_record_mut(|record| record.head.status);
        self.req.update_try(|last| {
            (last.bytes_sent, last.bytes_received) = (socket.sent, socket.received);
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
            && self.settings.next.allow(failure, self.sent, self.protocol.is_repeatable(self.req));
        if allowed { Err(failure.into()) } else { Ok(()) }
    }

    pub(super) async fn read_head(&mut self, socket: &mut Socket, reused: bool) -> Result<(), Stop> {
        while !self.read_head_at_hand(socket, reused).await? {
            match self.wait_readable(socket).await {
                Ok(Wait::Ready) => {}
                Ok(Wait::TimedOut) => return Err(self.timed_out(READING_HEAD)),
                Ok(Wait::ClientGone) => return Err(Stop::ClientGone),
                Err(error) => return Err(self.broken("recv()", &error, READING_HEAD, socket, reused)),
            }
        }
        Ok(())
    }

    /// Reads what has come of the head; answers whether that is all of it.
    pub(super) async fn read_head_at_hand(&mut self, socket: &mut Socket, reused: bool) -> Result<bool, Stop> {
        let head_bytes_max = self.settings.head_bytes_max;
        socket.reserve(head_bytes_max);
        let mut turn = Turn::default();
        loop {
            match socket.try_read() {
                Ok(0) if reused && socket.received == 0 => return Err(Stop::Dead),
                Ok(0) => {
                    self.req
                        .log(Level::Error, format_args!("upstream prematurely closed connection while {READING_HEAD}"));
                    return Err(Failure::Error.into());
                }
                Ok(_) => {
                    if self.parse_head(socket)? {
                        return Ok(true);
                    }
                    if socket.input.len() >= head_bytes_max {
                        self.req.log(Level::Error, format_args!("upstream sent too big header while {READING_HEAD}"));
                        return Err(Failure::InvalidHeader.into());
                    }
                    socket.input.reserve(1);
                    // What comes ahead of a head may have no end: interim responses, words of an error stream.
                    if turn.note_read().await && self.watch.is_gone().await {
                        return Err(Stop::ClientGone);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(self.broken("recv()", &error, READING_HEAD, socket, reused)),
            }
        }
    }

    /// Parses what has come; answers whether the head is complete.
    pub(super) fn parse_head(&mut self, socket: &mut Socket) -> Result<bool, Stop> {
        let read = self.req.upstream_record_mut(|record| self.protocol.read_head(&socket.input, &mut record.head));
        self.log_messages(READING_HEAD);
        let (used, is_complete) = match read {
            Ok(HeadPart::Partial(used)) => (used, false),
            Ok(HeadPart::Complete(used)) => (used, true),
            Err(text) => {
                self.req.log(Level::Error, format_args!("{text} while {READING_HEAD}"));
                return Err(Failure::InvalidHeader.into());
            }
        };
        socket.input.advance(used);
        Ok(is_complete)
    }

    /// Logs what the protocol has to say.
    pub(super) fn log_messages(&mut self, doing: &str) {
        for (level, message) in self.protocol.take_messages() {
            self.req.log(level, format_args!("{message} while {doing}"));
        }
    }
}
