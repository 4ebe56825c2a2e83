//! The client as a request speaks to it, whatever protocol is between them.
//!
//! What this does not know: what is said. Heads, framing and the order of requests are each protocol's own.

use std::{
    cell::RefCell,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use crate::{connection::Connection, output_queue::OutputQueue, stream::Stream};

/// What a client that expects it is told before it sends its body.
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The way to the client of a request. A sub-request has that of its main request.
#[derive(Clone)]
pub enum Client {
    /// The request has the connection to itself until its response has been queued.
    Http1(Rc<Connection>),
}

impl Client {
    /// The connection: addresses, times and TLS are those of all its requests.
    #[inline]
    pub fn connection(&self) -> &Rc<Connection> {
        match self {
            Client::Http1(conn) => conn,
        }
    }
    /// Output of the request that waits for the client.
    #[inline]
    pub(crate) fn output(&self) -> &RefCell<OutputQueue> {
        match self {
            Client::Http1(conn) => &conn.output,
        }
    }
    /// Input of the request that was read and not used yet.
    #[inline]
    pub(crate) fn input(&self) -> &RefCell<Vec<u8>> {
        match self {
            Client::Http1(conn) => &conn.input,
        }
    }
    /// Bytes of output that the client has not taken.
    #[inline]
    pub fn unsent_bytes(&self) -> u64 {
        match self {
            Client::Http1(conn) => conn.unsent_bytes(),
        }
    }

    /// Whether nothing more can be sent.
    #[inline]
    pub fn is_broken(&self) -> bool {
        match self {
            Client::Http1(conn) => conn.is_broken(),
        }
    }
    /// Gives the client up: nothing more is sent, and it learns that the response is not whole.
    pub fn abort(&self) {
        match self {
            Client::Http1(conn) => conn.mark_broken(),
        }
    }
    /// Takes note that the client did not send in time what the request waits for.
    pub(crate) fn note_timeout(&self) {
        match self {
            Client::Http1(conn) => conn.timed_out.set(true),
        }
    }
    /// Lets the response end before everything that the request began has ended.
    pub(crate) fn keep(&self) {
        match self {
            Client::Http1(conn) => conn.kept.set(true),
        }
    }

    /// Sends what the client takes at once; answers whether that was everything. When sending fails, the client is given
    /// up.
    ///
    /// # Errors
    /// Those of the socket.
    #[inline]
    pub(crate) fn write_now(&self) -> io::Result<bool> {
        match self {
            Client::Http1(conn) => conn.write_now(),
        }
    }
    /// Sends everything.
    ///
    /// # Errors
    /// Those of the socket; `TimedOut` when the client takes nothing for `timeout_ms`.
    pub async fn flush(&self, timeout_ms: u64) -> io::Result<()> {
        self.drain_to(0, timeout_ms).await
    }
    /// Sends until at most `bytes` wait.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn drain_to(&self, bytes: u64, timeout_ms: u64) -> io::Result<()> {
        match self {
            Client::Http1(conn) => conn.drain_to(bytes, timeout_ms).await,
        }
    }
    /// Tells a client that waits for permission to send the body of its request, with what is sent next.
    pub(crate) fn queue_go_on(&self) {
        match self {
            Client::Http1(conn) => conn.output.borrow_mut().buf.extend_from_slice(GO_ON),
        }
    }
    /// Bytes of files that are sent before others have their turn; 0 for any number. `None` stands for nginx's default.
    pub fn set_turn_bytes_max(&self, bytes: Option<u64>) {
        self.output().borrow_mut().turn_bytes_max = bytes;
    }

    /// Reads more input; answers how many bytes came, 0 at the end.
    ///
    /// # Errors
    /// Those of the socket; `TimedOut` when nothing comes for `timeout_ms`.
    pub(crate) async fn read_more(&self, timeout_ms: u64) -> io::Result<usize> {
        match self {
            Client::Http1(conn) => conn.read_more(timeout_ms).await,
        }
    }
    /// As [`read_more`](Self::read_more), without a limit of time, for who has one already.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self {
            Client::Http1(conn) => conn.poll_read_more(cx),
        }
    }
    /// Reads what has come already, if anything has; nobody is woken.
    pub(crate) fn read_more_now(&self) -> Poll<io::Result<usize>> {
        self.poll_read_more(&mut Context::from_waker(std::task::Waker::noop()))
    }
    /// Moves input that was not used yet to the end of `out`: for those who take the connection over.
    pub fn take_input(&self, out: &mut Vec<u8>) {
        out.append(&mut self.input().borrow_mut());
    }

    /// Waits until the client leaves while its request is served. A client that sends something instead (the next
    /// request, a body that nobody reads) is no longer watched: the future then never ends.
    pub async fn closed(&self) {
        match self {
            Client::Http1(conn) => conn.closed_by_client().await,
        }
    }
    /// Whether the client has left; otherwise the task of `cx` is woken when it does. Answers `None` when that can no
    /// longer be told, since the client has sent something that nobody reads yet.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        match self {
            Client::Http1(conn) => conn.poll_closed(cx),
        }
    }

    /// The socket, for who takes the connection over ([`Request::take_over_connection`]); `None` where other requests
    /// share it.
    ///
    /// [`Request::take_over_connection`]: crate::request::Request::take_over_connection
    #[inline]
    pub fn socket(&self) -> Option<&Stream> {
        match self {
            Client::Http1(conn) => Some(&conn.stream),
        }
    }
}
