//! A connected socket, whatever its kind.
//!
//! The calls that every request makes go to the kernel without libc's functions around them: those make a thread with
//! company cancellable before each call and take it back after, four locked instructions for a request that nobody
//! could ever cancel.

use std::{
    fs::File,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    task::{Context, Poll},
};

use bytes::BufMut;
use rustls::{ClientConnection, Connection};
use tokio::{io::Interest, net::TcpStream};

use crate::{
    client_socket::ClientSocket,
    tls::{ParkedTls, TlsStream},
};

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// A client's, or ours to a unix domain socket.
    Client(ClientSocket),
    /// Any of the others, with TLS.
    Tls(Box<TlsStream>),
    /// TCP.
    Tcp(TcpStream),
    /// No socket any more.
    Closed,
}

/// Most bytes that one `sendfile` takes.
///
/// Source: sendfile(2).
const SENDFILE_BYTES_MAX: u64 = 0x7fff_f000;

macro_rules! on_socket {
    ($self:ident, $socket:ident => $call:expr, $closed:expr) => {
        match $self.socket() {
            Stream::Client($socket) => $call,
            Stream::Tcp($socket) => $call,
            // The socket of TLS is another one.
            Stream::Tls(_) | Stream::Closed => $closed,
        }
    };
}

fn closed<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotConnected.into())
}

impl Stream {
    /// What carries the bytes: the stream itself, or the socket below TLS.
    #[inline]
    fn socket(&self) -> &Stream {
        if let Stream::Tls(stream) = self { stream.socket() } else { self }
    }
    /// Takes a client's socket out of the event loop.
    ///
    /// # Errors
    /// `NotConnected` for anything else.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        match self {
            Stream::Client(socket) => Ok(socket.into_fd()),
            _ => closed(),
        }
    }
    /// Takes a client's socket out of the event loop, and what TLS on it must not forget.
    ///
    /// # Errors
    /// `NotConnected` for anything else.
    pub(crate) fn park(self) -> io::Result<(OwnedFd, Option<ParkedTls>)> {
        let (socket, tls) = match self {
            Stream::Tls(stream) => stream.park(),
            plain => (plain, None),
        };
        Ok((socket.into_fd()?, tls))
    }
    /// The stream of a socket that was parked.
    pub(crate) fn unpark(socket: ClientSocket, tls: Option<ParkedTls>) -> Self {
        let socket = Stream::Client(socket);
        match tls {
            Some(tls) => Stream::Tls(Box::new(TlsStream::resuming(socket, tls))),
            None => socket,
        }
    }
    /// Reads what is there; appends to `buf` within its capacity, which must not be used up.
    ///
    /// A read that leaves room has taken everything there was, so the socket counts as not ready from then on: the next
    /// wait needs no further call to find that out.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read_buf(&self, buf: &mut impl BufMut) -> io::Result<usize> {
        match self {
            Stream::Client(socket) => receive(socket, buf),
            Stream::Tls(stream) => stream.try_read_buf(buf),
            Stream::Tcp(socket) => receive(socket, buf),
            Stream::Closed => closed(),
        }
    }
    /// Looks whether there is something to read without taking it; `Ok(false)` at the end of the input.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there and the peer has not closed.
    pub fn try_peek(&self) -> io::Result<bool> {
        if let Stream::Tls(stream) = self {
            return stream.try_peek();
        }
        on_socket!(self, socket => socket.try_io(Interest::READABLE, || peek(socket.as_fd())), closed())
            .map(|byte| byte.is_some())
    }
    /// Looks, as [`try_peek`](Self::try_peek), but asks the socket itself: what came since the last turn of the event
    /// loop counts too.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there and the peer has not closed.
    pub fn peek_now(&self) -> io::Result<bool> {
        if let Stream::Tls(stream) = self {
            return stream.try_peek();
        }
        on_socket!(self, socket => peek(socket.as_fd()), closed()).map(|byte| byte.is_some())
    }
    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read(&self, mut buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tls(stream) => stream.try_read_buf(&mut buf),
            _ => on_socket!(self, socket => socket.try_read(buf), closed()),
        }
    }
    /// Writes what the socket takes.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, libc::MSG_NOSIGNAL)
    }
    /// Writes what the socket takes.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing now.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tls(stream) => stream.try_write_vectored(slices),
            _ => on_socket!(self, socket => socket.try_write_vectored(slices), closed()),
        }
    }
    /// Writes what the socket takes; more follows at once, so the kernel waits with the last packet.
    ///
    /// # Errors
    /// `WouldBlock` when it takes nothing now.
    pub fn try_write_more(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, libc::MSG_MORE | libc::MSG_NOSIGNAL)
    }
    fn send(&self, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_write_vectored(&[IoSlice::new(bytes)]);
        }
        let nobody = std::ptr::null::<libc::sockaddr>();
        let send = |socket: BorrowedFd<'_>| {
            let (fd, start, len) = (socket.as_raw_fd(), bytes.as_ptr(), bytes.len());
            // SAFETY: the descriptor is open and the bytes live through the call.
            let sent = unsafe { libc::syscall(libc::SYS_sendto, fd, start, len, flags, nobody, 0) };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        };
        on_socket!(self, socket => socket.try_io(Interest::WRITABLE, || send(socket.as_fd())), closed())
    }
    /// Whether there is something to read.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tls(stream) => stream.poll_read_ready(cx),
            _ => on_socket!(self, socket => socket.poll_read_ready(cx), Poll::Ready(closed())),
        }
    }
    /// Whether the socket takes something.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Tls(stream) => stream.poll_write_ready(cx),
            _ => on_socket!(self, socket => socket.poll_write_ready(cx), Poll::Ready(closed())),
        }
    }
    /// Sends a part of a file from the page cache.
    ///
    /// # Errors
    /// `WouldBlock` when the socket takes nothing now; `UnexpectedEof` when the file has become shorter.
    pub fn try_sendfile(&self, file: &File, offset: u64, len: u64) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_sendfile(file, offset, len);
        }
        let send = |socket: BorrowedFd<'_>| {
            let mut at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
            let count = usize::try_from(len.min(SENDFILE_BYTES_MAX)).unwrap_or(usize::MAX);
            // SAFETY: both descriptors are open for the time of the call, `at` is a live local.
            let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut at, count) };
            match sent {
                -1 => Err(io::Error::last_os_error()),
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                sent => Ok(sent as usize),
            }
        };
        on_socket!(self, socket => socket.try_io(Interest::WRITABLE, || send(socket.as_fd())), closed())
    }
    /// Our end, if it has an IP address.
    pub fn local_addr(&self) -> Option<std::net::SocketAddr> {
        let fd = self.as_fd()?;
        socket2::SockRef::from(&fd).local_addr().ok()?.as_socket()
    }
    /// Sends what a write before has left: records of TLS, nothing on other sockets.
    ///
    /// # Errors
    /// `WouldBlock` while some of it still waits.
    #[inline]
    pub fn try_flush(&self) -> io::Result<()> {
        if let Stream::Tls(stream) = self { stream.try_flush() } else { Ok(()) }
    }
    /// Whether a write before has left something to be sent by [`try_flush`](Self::try_flush).
    #[inline]
    pub fn has_unsent(&self) -> bool {
        if let Stream::Tls(stream) = self { stream.has_unsent() } else { false }
    }
    /// Says that the next write is the last one. Where its protocol has a word for the end ([`say_farewell`](Self::say_farewell)), that leaves
    /// with it if the write is taken whole: a packet of its own costs as much as the response.
    pub fn write_is_last(&self) {
        if let Stream::Tls(stream) = self {
            stream.write_is_last();
        }
    }
    /// Tells a client that what it got is complete, where its protocol has a word for that: TLS.
    pub fn say_farewell(&self) {
        if let Stream::Tls(stream) = self {
            stream.say_farewell();
        }
    }
    /// Whether the end of the input has been read without the word for it, where the protocol has one: the peer may have been about to say more.
    pub fn was_cut(&self) -> bool {
        self.as_tls().is_some_and(TlsStream::was_cut)
    }
    /// Whether what has to be remembered of the stream has a place with parked connections.
    pub(crate) fn may_be_parked(&self) -> bool {
        self.as_tls().is_none_or(TlsStream::may_be_parked)
    }
    /// A client's socket, for TLS to be spoken on; its handshake comes first.
    #[must_use]
    pub fn into_tls(self) -> Self {
        match self {
            Stream::Client(_) => Stream::Tls(Box::new(TlsStream::accepting(self))),
            other => other,
        }
    }
    /// A connection to a server, for TLS to be spoken on; its handshake ([`TlsStream::poll_connect`]) comes first.
    #[must_use]
    pub fn connect_tls(self, conn: ClientConnection) -> Self {
        match self {
            Stream::Client(_) | Stream::Tcp(_) => Stream::Tls(Box::new(TlsStream::connecting(self, conn))),
            other => other,
        }
    }
    /// The stream, if TLS is or is to be spoken on it.
    pub fn as_tls(&self) -> Option<&TlsStream> {
        if let Stream::Tls(stream) = self { Some(stream) } else { None }
    }
    /// Calls `read` with the TLS connection, if there is one.
    pub fn with_tls<T>(&self, read: impl FnOnce(&Connection) -> T) -> Option<T> {
        self.as_tls().and_then(|stream| stream.with_connection(read))
    }
    /// What the kernel knows of a TCP connection.
    pub fn tcp_info(&self) -> Option<libc::tcp_info> {
        // Other sockets refuse the option.
        let socket = self.as_fd()?;
        // SAFETY: all bytes of the struct are integers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = std::mem::size_of::<libc::tcp_info>() as libc::socklen_t;
        let out = std::ptr::from_mut(&mut info).cast();
        // SAFETY: `out` and `len` describe a live local that is large enough for what the option gives.
        let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, out, &mut len) };
        (result == 0).then_some(info)
    }
    /// Sends small packets at once.
    pub fn set_nodelay(&self) {
        // Failing changes nothing but a delay; unix domain sockets have none.
        let _ = match self.socket() {
            Stream::Client(socket) => socket.set_nodelay(true),
            Stream::Tcp(socket) => socket.set_nodelay(true),
            Stream::Tls(_) | Stream::Closed => Ok(()),
        };
    }
    /// Makes the system look after a connection that is idle.
    pub fn set_keepalive(&self) {
        let fd = on_socket!(self, socket => socket.as_fd(), return);
        // Failing changes nothing but when a dead peer is noticed.
        let _ = socket2::SockRef::from(&fd).set_keepalive(true);
    }
    /// Tells the peer that nothing more will be sent.
    pub fn shutdown_write(&self) {
        self.say_farewell();
        let fd = on_socket!(self, socket => socket.as_fd(), return);
        let _ = socket2::SockRef::from(&fd).shutdown(std::net::Shutdown::Write);
    }
    /// Ends both directions, though the socket stays open for those who still hold it.
    pub fn shutdown(&self) {
        let fd = on_socket!(self, socket => socket.as_fd(), return);
        let _ = socket2::SockRef::from(&fd).shutdown(std::net::Shutdown::Both);
    }
    /// Makes closing send a reset, so that the kernel keeps nothing for a peer that does not read.
    pub fn reset_on_close(&self) {
        let fd = on_socket!(self, socket => socket.as_fd(), return);
        let _ = socket2::SockRef::from(&fd).set_linger(Some(std::time::Duration::ZERO));
    }
    /// The socket's descriptor.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        on_socket!(self, socket => Some(socket.as_fd()), None)
    }
}

/// A socket of the event loop.
pub(crate) trait Readable: AsFd {
    /// Calls `io`, whose `WouldBlock` means that the next wait for input is a real one.
    fn try_input<R>(&self, io: impl FnOnce() -> io::Result<R>) -> io::Result<R>;
}

impl Readable for ClientSocket {
    fn try_input<R>(&self, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, io)
    }
}

impl Readable for TcpStream {
    fn try_input<R>(&self, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, io)
    }
}

/// Reads what is there, see [`Stream::try_read_buf`].
pub(crate) fn receive(socket: &impl Readable, buf: &mut impl BufMut) -> io::Result<usize> {
    let mut partial = 0;
    let nobody = std::ptr::null::<libc::sockaddr>();
    let receive = || {
        let room = buf.chunk_mut();
        let (start, len) = (room.as_mut_ptr(), room.len());
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: `start` and `len` describe writable memory of `buf`.
        let count = unsafe { libc::syscall(libc::SYS_recvfrom, fd, start, len, 0, nobody, nobody) };
        let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
        // SAFETY: the kernel has written the first `count` bytes.
        unsafe { buf.advance_mut(count) };
        if 0 < count && count < len {
            partial = count;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(count)
    };
    let result = socket.try_input(receive);
    if partial > 0 { Ok(partial) } else { result }
}

/// Looks for a byte without taking it; `None` at the end of the input.
pub(crate) fn peek(socket: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    let mut byte = 0u8;
    // SAFETY: the buffer is a live local of one byte.
    let count = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::from_mut(&mut byte).cast(), 1, libc::MSG_PEEK) };
    if count < 0 { Err(io::Error::last_os_error()) } else { Ok((count > 0).then_some(byte)) }
}
