//! How bytes travel: plain, encrypted, or as part of a client's request.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use tidegate_core::body::BodyError;
use tidegate_core::request::Request;
use tidegate_net::stream::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::settings;

/// The stream that carries the bytes of a cosocket.
pub(super) enum Transport {
    /// A socket of ours.
    Plain(Stream),
    /// The same, encrypted.
    Tls(Box<RefCell<TlsStream<Io>>>),
    /// The body of a client's request: for reading.
    Body(Weak<Request>),
    /// A client's connection.
    Raw(Weak<Request>),
}

/// A socket as tokio's traits want it.
pub(super) struct Io(pub(super) Stream);

fn gone<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

fn poll_read_stream(stream: &Stream, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
    loop {
        // Without a system call unless something has happened.
        match stream.try_read_buf(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        ready!(stream.poll_read_ready(cx))?;
    }
}

fn poll_write_stream(stream: &Stream, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
    loop {
        let written = match slices {
            [one] => stream.try_write(one),
            _ => stream.try_write_vectored(slices),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return Poll::Ready(result),
        }
        ready!(stream.poll_write_ready(cx))?;
    }
}

fn poll_flush_stream(stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        match stream.try_flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(stream.poll_write_ready(cx))?,
            result => return Poll::Ready(result),
        }
    }
}

impl Transport {
    /// Reads into the room that `buf` has; 0 is the end.
    pub(super) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => poll_read_stream(stream, cx, buf),
            Self::Tls(stream) => poll_read_tls(&mut stream.borrow_mut(), cx, buf),
            Self::Body(req) => match req.upgrade() {
                Some(req) => poll_read_body(&req, cx, buf),
                None => gone(),
            },
            Self::Raw(req) => match req.upgrade() {
                Some(req) => poll_read_raw(&req, cx, buf),
                None => gone(),
            },
        }
    }

    /// Writes some of `slices`.
    pub(super) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => poll_write_stream(stream, cx, slices),
            Self::Tls(stream) => Pin::new(&mut *stream.borrow_mut()).poll_write_vectored(cx, slices),
            Self::Body(_) => gone(),
            Self::Raw(req) => with_socket(req, |stream| poll_write_stream(stream, cx, slices)),
        }
    }

    /// Sees to it that what was written leaves.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(stream) => Pin::new(&mut *stream.borrow_mut()).poll_flush(cx),
            Self::Raw(req) => with_socket(req, |stream| poll_flush_stream(stream, cx)),
            Self::Plain(_) | Self::Body(_) => Poll::Ready(Ok(())),
        }
    }

    /// Tells the peer that nothing more is sent.
    pub(super) fn shutdown_write(&self) {
        match self {
            Self::Plain(stream) => stream.shutdown_write(),
            Self::Tls(stream) => {
                let mut stream = stream.borrow_mut();
                let _ = Pin::new(&mut *stream).poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
            }
            Self::Raw(req) => {
                if let Some(req) = req.upgrade() {
                    req.client.socket().inspect(|stream| stream.shutdown_write());
                }
            }
            Self::Body(_) => {}
        }
    }

    /// Whether the peer has closed a connection without anything left to read, as of this moment.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Self::Plain(stream) => matches!(stream.peek_now(), Ok(false)),
            _ => false,
        }
    }

    /// Calls `body` with the socket, if there is one.
    pub(super) fn with_stream<R>(&self, body: impl FnOnce(&Stream) -> R) -> Option<R> {
        match self {
            Self::Plain(stream) => Some(body(stream)),
            Self::Tls(stream) => Some(body(&stream.borrow().get_ref().0.0)),
            Self::Body(req) | Self::Raw(req) => req.upgrade().map(|req| body(&req.connection().stream)),
        }
    }
}

/// Calls `body` with the socket of a request that has taken it over.
fn with_socket<T>(req: &Weak<Request>, body: impl FnOnce(&Stream) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    match req.upgrade() {
        Some(req) => req.client.socket().map_or_else(gone, body),
        None => gone(),
    }
}

fn poll_read_tls(stream: &mut TlsStream<Io>, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
    let before = buf.len();
    let room = buf.spare_capacity_mut();
    let mut read = ReadBuf::uninit(room);
    let result = ready!(Pin::new(stream).poll_read(cx, &mut read));
    let count = read.filled().len();
    match result {
        // SAFETY: the reader has filled that many bytes behind the vector's end.
        Ok(()) => unsafe { buf.set_len(before + count) },
        // A peer that closes without a farewell: nothing was cut that the protocol above would not notice.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
        Err(error) => return Poll::Ready(Err(error)),
    }
    Poll::Ready(Ok(count))
}

fn poll_read_body(req: &Rc<Request>, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
    let before = buf.len();
    match ready!(req.poll_body_piece(cx, buf)) {
        Ok(_) => Poll::Ready(Ok(buf.len() - before)),
        Err(BodyError::Gone) => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
        Err(error) => Poll::Ready(Err(io::Error::other(error))),
    }
}

/// With `lua_check_client_abort` the end of the input is the client's abort.
fn poll_read_raw(req: &Rc<Request>, cx: &mut Context<'_>, buf: &mut Vec<u8>) -> Poll<io::Result<usize>> {
    let Some(stream) = req.client.socket() else { return gone() };
    match ready!(poll_read_stream(stream, cx, buf)) {
        Ok(0) if req.module_conf(&settings::MODULE).lua_check_client_abort == Some(true) => {
            Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
        }
        result => Poll::Ready(result),
    }
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Stream::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
            // TLS is spoken over connections that were made, not accepted.
            Stream::Client(_) | Stream::Tls(_) | Stream::Closed => gone(),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        poll_write_stream(&self.0, cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_write_stream(&self.0, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shutdown_write();
        Poll::Ready(Ok(()))
    }
}
