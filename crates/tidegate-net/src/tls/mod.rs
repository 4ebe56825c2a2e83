//! TLS on a socket, in the shape of the other [streams](crate::stream): calls that never wait, and polls. A client's
//! stream has the server's part of it, a stream to a server the client's.
//!
//! - T1: plain text is taken only while no record waits to be sent, so that at most [`TLS_BUFFER_BYTES_MAX`] of them
//!   wait. Whoever writes may therefore see all plain text taken while the last records still wait: they leave with the
//!   next call that writes, flushes or awaits input.
//! - T2: records are read only while no plain text waits to be read, so that one read's worth of it waits at most.
//!
//! - T3: what a client sends ahead of the end of its handshake ([early data](TlsStream::is_early)) is read before all else, and counts
//!   as plain text: the handshake goes on below, while the stream is read.
//!
//! - T4: the tickets at the end of a handshake wait for the first response, and leave in one packet with it; or ahead of the first wait for
//!   input. The farewell leaves with the [last write](TlsStream::write_is_last).
//!
//! A client may speak without TLS: the stream then passes everything through, and its owner decides what to answer.

use std::{
    cell::{Cell, RefCell},
    io::{self, BufRead as _, Read, Write},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::BufMut;
use rustls::{
    ClientConnection, Connection, ServerConfig,
    server::{Accepted, Acceptor, ClientHello},
};
use tidegate_tls::hello;

mod alerts;
mod early;
mod gone;
mod output;
mod parked;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use parked::ParkedTls;

use self::{
    early::Early,
    gone::{forget_unsent, has_no_more_than_tickets, is_gone},
    records::{FirstBytes, Listener, Records},
};

use crate::{buffers, stream::Stream};

/// Records of one connection that wait for its socket, in bytes.
///
/// Source: rustls, `DEFAULT_BUFFER_LIMIT`; that much in one write is also where larger ones gain nothing.
pub const TLS_BUFFER_BYTES_MAX: usize = 64 << 10;

/// First byte of a handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// A socket that TLS is, or is to be, spoken on.
#[derive(Debug)]
pub struct TlsStream {
    /// Any but one of TLS.
    socket: Stream,
    state: RefCell<State>,
    /// Who waits until the socket takes more.
    writer: RefCell<Option<Waker>>,
    /// The client's first bytes are kept for who wants to read them in full; see [`TlsStream::keep_hello`].
    heard: RefCell<Option<Vec<u8>>>,
    /// Early data that waits to be read; see T3.
    early: RefCell<Early>,
    /// Nothing waits to be sent but tickets; see T4.
    has_tickets: Cell<bool>,
    /// The next write is the last one.
    is_last: Cell<bool>,
    /// The client offers a session; see [`TlsStream::offers_session`].
    offers_session: Cell<bool>,
    /// See [`Stream::was_cut`].
    was_cut: Cell<bool>,
}

/// A first record that is larger is read piece by piece: those of browsers and libraries have 0.5 to 2 KB.
const FIRST_RECORD_BYTES_MAX: usize = 4096;

/// A client's first message that is coming.
#[derive(Default)]
struct Opening {
    acceptor: Acceptor,
    first: FirstBytes,
}

enum State {
    /// Bytes pass as they are: before the handshake, or because the client does not begin one.
    Plain,
    /// A part of the client's first message has come.
    Hello(Box<Opening>),
    /// The client's first message, for which settings are being looked for.
    Greeted(Box<Accepted>),
    /// A connection that has its settings.
    Open(Box<Connection>),
}

impl State {
    fn is_greeted(&self) -> bool {
        matches!(self, State::Greeted(_))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Plain => "Plain",
            State::Hello(_) => "Hello",
            State::Greeted(_) => "Greeted",
            State::Open(_) => "Open",
        })
    }
}

/// Why there is no TLS connection. No try is worth repeating with the same peer.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer has gone before the handshake was done.
    #[error("peer closed connection in SSL handshake")]
    Closed,
    /// There is no certificate for the name that the client asks for, nor for any.
    #[error("SSL handshake failed: no settings for the client's server name")]
    NoSettings,
    /// The socket failed.
    #[error("SSL handshake failed: {0}")]
    Socket(#[source] io::Error),
    /// The two sides do not agree, or the peer breaks the protocol or has a certificate that is not accepted.
    #[error("SSL handshake failed: {0}")]
    Tls(#[source] rustls::Error),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Socket(error),
        }
    }
}

impl TlsStream {
    fn new(socket: Stream, state: State) -> Self {
        TlsStream {
            socket,
            state: RefCell::new(state),
            writer: RefCell::default(),
            heard: RefCell::default(),
            early: RefCell::default(),
            has_tickets: Cell::new(false),
            is_last: Cell::new(false),
            offers_session: Cell::new(false),
            was_cut: Cell::new(false),
        }
    }
    /// The server's side; [`poll_handshake`](Self::poll_handshake) comes next.
    pub(crate) fn accepting(socket: Stream) -> Self {
        Self::new(socket, State::Plain)
    }
    /// The client's side; [`poll_connect`](Self::poll_connect) comes next.
    pub(crate) fn connecting(socket: Stream, conn: ClientConnection) -> Self {
        Self::new(socket, State::Open(Box::new(Connection::Client(conn))))
    }
    /// A connection that was parked.
    pub(crate) fn resuming(socket: Stream, parked: ParkedTls) -> Self {
        Self::new(socket, State::Open(parked.into_connection()))
    }
    /// The socket and what must not be forgotten; `None` without a connection that has its settings.
    pub(crate) fn park(self) -> (Stream, Option<ParkedTls>) {
        let TlsStream {
            socket,
            state,
            writer: _,
            heard: _,
            early: _,
            has_tickets: _,
            is_last: _,
            offers_session: _,
            was_cut: _,
        } = self;
        match state.into_inner() {
            State::Open(conn) => (socket, Some(ParkedTls::of(conn))),
            State::Plain | State::Hello(_) | State::Greeted(_) => (socket, None),
        }
    }
    /// Whether nothing is under way but the wait for more input.
    pub(crate) fn may_be_parked(&self) -> bool {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => {
                let has_input = !matches!(conn.reader().fill_buf(), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
                let has_early = !self.early.borrow().unread().is_empty();
                !conn.is_handshaking() && !conn.wants_write() && !has_input && !has_early
            }
            State::Plain | State::Hello(_) | State::Greeted(_) => false,
        }
    }
    pub(crate) fn socket(&self) -> &Stream {
        &self.socket
    }
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }
    /// Calls `read` with the connection, if TLS is spoken.
    pub(crate) fn with_connection<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        match &*self.state.borrow() {
            State::Open(conn) => Some(read(conn)),
            State::Plain | State::Hello(_) | State::Greeted(_) => None,
        }
    }

    /// Reads the client's first message. `prefix` are bytes that were read already; those of TLS are taken out. Answers
    /// `false` for a client that begins with anything else: `prefix` has its first bytes, and the rest pass as they are.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client was told then, as far as its socket took it.
    pub fn poll_hello(&self, cx: &mut Context<'_>, prefix: &mut Vec<u8>) -> Poll<Result<bool, HandshakeError>> {
        let mut state = self.state.borrow_mut();
        loop {
            match &mut *state {
                State::Plain => match ready!(self.poll_first_byte(cx, prefix))? {
                    HANDSHAKE => {
                        self.complete_record(prefix)?;
                        self.offers_session.set(hello::offers_session(prefix));
                        *state = State::Hello(Box::default());
                    }
                    _ => return Poll::Ready(Ok(false)),
                },
                State::Hello(opening) => {
                    let Opening { acceptor, first } = &mut **opening;
                    ready!(self.poll_records(cx, prefix, |records| {
                        let mut records = first.of(records);
                        match &mut *self.heard.borrow_mut() {
                            None => acceptor.read_tls(&mut records),
                            Some(heard) => acceptor.read_tls(&mut Listener { records: &mut records, heard }),
                        }
                    }))?;
                    match acceptor.accept() {
                        Ok(None) => {}
                        Ok(Some(accepted)) => *state = State::Greeted(Box::new(accepted)),
                        Err((error, mut alert)) => {
                            let old = alerts::of_old_version(first.version(), &error);
                            // The client may have gone: then nobody misses the alert.
                            let _ = match &old {
                                Some((_, record)) => Records(&self.socket).write_all(record),
                                None => alert.write_all(&mut Records(&self.socket)),
                            };
                            let error = old.map_or(error, |(error, _)| error);
                            return Poll::Ready(Err(HandshakeError::Tls(error)));
                        }
                    }
                }
                State::Greeted(_) | State::Open(_) => return Poll::Ready(Ok(true)),
            }
        }
    }

    /// Whether a client has begun a handshake, however far it has come.
    pub fn has_begun(&self) -> bool {
        !matches!(&*self.state.borrow(), State::Plain)
    }

    /// Calls `read` with the client's first message, between [`poll_hello`](Self::poll_hello) and [`answer`](Self::answer).
    pub fn with_hello<T>(&self, read: impl FnOnce(&ClientHello<'_>) -> T) -> Option<T> {
        match &*self.state.borrow() {
            State::Greeted(accepted) => Some(read(&accepted.client_hello())),
            _ => None,
        }
    }

    /// Whether the client's first message offers a session of TLS 1.3, as far as its first packet tells.
    pub fn offers_session(&self) -> bool {
        self.offers_session.get()
    }

    /// Keeps the client's first records, for [`take_heard`](Self::take_heard). To be called ahead of
    /// [`poll_hello`](Self::poll_hello), whose bounds count for them too.
    pub fn keep_hello(&self) {
        self.heard.replace(Some(Vec::new()));
    }

    /// The records that were read until the client's first message was complete: perhaps more than those of that message.
    pub fn take_heard(&self) -> Vec<u8> {
        self.heard.take().unwrap_or_default()
    }

    /// Goes on with the handshake by `config`; without any, the client is told that there is nothing for its name.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client was told then, as far as its socket took it.
    pub fn answer(&self, config: Option<Arc<ServerConfig>>) -> Result<(), HandshakeError> {
        let mut state = self.state.borrow_mut();
        if !matches!(&*state, State::Greeted(_)) {
            return Ok(());
        }
        let State::Greeted(accepted) = std::mem::replace(&mut *state, State::Plain) else { return Ok(()) };
        let Some(config) = config else {
            let _ = Records(&self.socket).write_all(&alerts::UNRECOGNIZED_NAME);
            return Err(HandshakeError::NoSettings);
        };
        match accepted.into_connection(config) {
            Ok(conn) => {
                *state = State::Open(Box::new(Connection::Server(conn)));
                Ok(())
            }
            Err((error, mut alert)) => {
                let _ = alert.write_all(&mut Records(&self.socket));
                Err(HandshakeError::Tls(error))
            }
        }
    }

    /// Does the rest of the server's part of the handshake, after [`answer`](Self::answer), or as much of it as comes ahead of
    /// early data.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client was told then, as far as its socket took it.
    pub fn poll_handshake(&self, cx: &mut Context<'_>, prefix: &mut Vec<u8>) -> Poll<Result<(), HandshakeError>> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => self.poll_finish(cx, conn, prefix),
            _ => Poll::Ready(Err(HandshakeError::NoSettings)),
        }
    }

    /// Whether the client speaks ahead of the end of its handshake: what it has said may be somebody else's repetition. Only
    /// settings with a `max_early_data_size` let it.
    pub fn is_early(&self) -> bool {
        self.early.borrow().is_any && self.with_connection(|conn| conn.is_handshaking()) == Some(true)
    }

    /// Does what is left of the handshake of a client that has said something ahead of its end. What it says more is dropped.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client was told then, as far as its socket took it.
    pub fn poll_complete(&self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        while self.is_early() {
            self.early.borrow_mut().drop_unread();
            let State::Open(conn) = &mut *self.state.borrow_mut() else { break };
            ready!(self.poll_send(cx, conn))?;
            ready!(self.poll_records(cx, &mut Vec::new(), |records| conn.read_tls(records)))?;
            self.process(conn)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Does all of the server's part of the handshake by one configuration. A client that begins with anything else is left to
    /// be understood.
    ///
    /// # Errors
    /// [`HandshakeError`]; the client was told then, as far as its socket took it.
    pub fn poll_accept(
        &self,
        cx: &mut Context<'_>,
        prefix: &mut Vec<u8>,
        config: &Arc<ServerConfig>,
    ) -> Poll<Result<(), HandshakeError>> {
        if !ready!(self.poll_hello(cx, prefix))? {
            return Poll::Ready(Ok(()));
        }
        self.answer(Some(config.clone()))?;
        self.poll_handshake(cx, prefix)
    }

    /// The name that the client asks for.
    pub fn server_name(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Greeted(accepted) => accepted.client_hello().server_name().map(str::to_owned),
            State::Open(conn) => match &**conn {
                Connection::Server(conn) => conn.server_name().map(str::to_owned),
                Connection::Client(_) => None,
            },
            State::Plain | State::Hello(_) => None,
        }
    }

    /// Does the client's part of the handshake.
    ///
    /// # Errors
    /// [`HandshakeError`]; the server was told then, as far as its socket took it.
    pub fn poll_connect(&self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => self.poll_finish(cx, conn, &mut Vec::new()),
            State::Plain | State::Hello(_) | State::Greeted(_) => Poll::Ready(Err(HandshakeError::NoSettings)),
        }
    }

    /// The handshake of a connection that has its settings.
    fn poll_finish(
        &self,
        cx: &mut Context<'_>,
        conn: &mut Connection,
        prefix: &mut Vec<u8>,
    ) -> Poll<Result<(), HandshakeError>> {
        loop {
            // Behind the client's first message there may be more already.
            self.process(conn)?;
            if has_no_more_than_tickets(conn) {
                self.has_tickets.set(conn.wants_write());
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_send(cx, conn))?;
            if !conn.is_handshaking() || self.early.borrow().is_any {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_records(cx, prefix, |records| conn.read_tls(records)))?;
        }
    }

    /// Processes the records that were read.
    fn process(&self, conn: &mut Connection) -> Result<(), HandshakeError> {
        if let Err(error) = conn.process_new_packets() {
            let _ = self.send(conn);
            return Err(HandshakeError::Tls(error));
        }
        self.early.borrow_mut().take(conn);
        Ok(())
    }

    /// The first byte that the client says, which is left in `prefix` with what came behind it.
    fn poll_first_byte(&self, cx: &mut Context<'_>, prefix: &mut Vec<u8>) -> Poll<io::Result<u8>> {
        loop {
            if let Some(first) = prefix.first() {
                return Poll::Ready(Ok(*first));
            }
            ready!(self.socket.poll_read_ready(cx))?;
            if prefix.capacity() == 0 {
                *prefix = buffers::take();
            }
            match self.socket.try_read_buf(prefix) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Reads what has come of a first record that `prefix` had no room for, and behind it: key shares of post-quantum groups are large.
    fn complete_record(&self, prefix: &mut Vec<u8>) -> io::Result<()> {
        let size = hello::record_bytes(prefix).unwrap_or(0);
        if prefix.len() == prefix.capacity() && prefix.len() < size && size <= FIRST_RECORD_BYTES_MAX {
            prefix.reserve_exact(FIRST_RECORD_BYTES_MAX - prefix.len());
            match self.socket.try_read_buf(prefix) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                // Whoever reads next hears of an end.
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets `take` read records, those in `prefix` first; an end is an error.
    fn poll_records(
        &self,
        cx: &mut Context<'_>,
        prefix: &mut Vec<u8>,
        mut take: impl FnMut(&mut dyn Read) -> io::Result<usize>,
    ) -> Poll<io::Result<()>> {
        loop {
            let taken = if prefix.is_empty() {
                take(&mut Records(&self.socket))
            } else {
                let taken = take(&mut prefix.as_slice());
                prefix.drain(..taken.as_ref().map_or(0, |count| *count));
                if prefix.is_empty() {
                    buffers::give(std::mem::take(prefix));
                }
                taken
            };
            match taken {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.socket.poll_read_ready(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends records that wait, as far as the socket takes them.
    fn send(&self, conn: &mut Connection) -> io::Result<()> {
        while conn.wants_write() {
            conn.write_tls(&mut Records(&self.socket))?;
        }
        Ok(())
    }

    fn poll_send(&self, cx: &mut Context<'_>, conn: &mut Connection) -> Poll<io::Result<()>> {
        loop {
            match self.send(conn) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.socket.poll_write_ready(cx))?,
                result => return Poll::Ready(result),
            }
        }
    }

    /// Sees to it that plain text waits in `conn`, if any comes or the end does; see T2.
    fn fill(&self, conn: &mut Connection) -> io::Result<()> {
        loop {
            if !self.early.borrow().unread().is_empty() {
                return Ok(());
            }
            match conn.reader().fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A peer that closes without a farewell. What it was saying mostly tells by itself whether it was complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.was_cut.set(true);
                    return Ok(());
                }
                result => return result.map(drop),
            }
            conn.read_tls(&mut Records(&self.socket))?;
            if let Err(error) = conn.process_new_packets() {
                let _ = self.send(conn);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.early.borrow_mut().take(conn);
        }
    }

    /// As [`Stream::try_read_buf`](crate::stream::Stream::try_read_buf).
    pub(crate) fn try_read_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => {
                self.fill(conn)?;
                let mut early = self.early.borrow_mut();
                if !early.unread().is_empty() {
                    let count = early.unread().len().min(buf.chunk_mut().len());
                    buf.put_slice(&early.unread()[..count]);
                    early.consume(count);
                    return Ok(count);
                }
                let mut reader = conn.reader();
                let text = reader.fill_buf().unwrap_or_default();
                let count = text.len().min(buf.chunk_mut().len());
                buf.put_slice(&text[..count]);
                reader.consume(count);
                Ok(count)
            }
            State::Plain | State::Hello(_) | State::Greeted(_) => self.socket.try_read_buf(buf),
        }
    }
    /// As [`Stream::try_peek`](crate::stream::Stream::try_peek).
    pub(crate) fn try_peek(&self) -> io::Result<bool> {
        match &mut *self.state.borrow_mut() {
            State::Open(conn) => {
                self.fill(conn)?;
                let has_early = !self.early.borrow().unread().is_empty();
                Ok(has_early || !conn.reader().fill_buf().unwrap_or_default().is_empty())
            }
            State::Plain | State::Hello(_) | State::Greeted(_) => self.socket.try_peek(),
        }
    }
    /// Whether there is plain text to read, or the end, or an error. Records without any, such as tickets, are not that.
    /// Meanwhile records that wait leave; see T1.
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Open(conn) = &mut *self.state.borrow_mut() else { return self.socket.poll_read_ready(cx) };
        let has_tickets = self.has_tickets.get();
        if has_tickets {
            match self.fill(conn) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_tickets.set(false),
                result => return Poll::Ready(result),
            }
        }
        if conn.wants_write()
            && let Poll::Ready(Err(error)) =
                self.poll_send(&mut Context::from_waker(&self.with_writer(cx.waker())), conn)
        {
            if !(has_tickets && is_gone(&error)) {
                return Poll::Ready(Err(error));
            }
            forget_unsent(conn);
        }
        loop {
            match self.fill(conn) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.socket.poll_read_ready(cx))?,
                result => return Poll::Ready(result),
            }
        }
    }
}
