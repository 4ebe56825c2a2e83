//! How bytes travel: plain, encrypted, or as part of a client's request.

use std::io::{self, IoSlice};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use tidegate_core::body::BodyError;
use tidegate_core::request::Request;
use tidegate_net::stream::Stream;

use crate::settings;

/// The stream that carries the bytes of a cosocket.
pub(super) enum Transport {
    /// A socket of ours, encrypted or not.
    Plain(Stream),
    /// The body of a client's request: for reading.
    Body(Weak<Request>),
    /// A client's connection.
    Raw(Weak<Request>),
}

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
            Self::Body(_) => gone(),
            Self::Raw(req) => with_socket(req, |stream| poll_write_stream(stream, cx, slices)),
        }
    }

    /// Sees to it that what was written leaves.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => poll_flush_stream(stream, cx),
            Self::Raw(req) => with_socket(req, |stream| poll_flush_stream(stream, cx)),
            Self::Body(_) => Poll::Ready(Ok(())),
        }
    }

    /// Tells the peer that nothing more is sent.
    pub(super) fn shutdown_write(&self) {
        match self {
            Self::Plain(stream) => stream.shutdown_write(),
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
