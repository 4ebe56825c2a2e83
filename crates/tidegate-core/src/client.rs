//! The client as a request speaks to it, whatever protocol is between them.
//!
//! What this does not know: what is said. Heads, framing and the order of requests are each protocol's own.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use tidegate_http::chunked::write_last_chunk;
use tidegate_http::http2::ErrorCode;

use crate::{
    connection::Connection, http2::Stream, output::Response, output_queue::OutputQueue, request::Request, stream,
};

/// What a client that expects it is told before it sends its body.
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The way to the client of a request. A sub-request has that of its main request.
#[derive(Clone)]
pub struct Client {
    /// Stands beside the stream, since every look at the configuration goes through it.
    conn: Rc<Connection>,
    /// The stream of the request among others (HTTP/2). Without one, the request has the connection to itself until its
    /// response has been queued.
    stream: Option<Rc<Stream>>,
}

impl Client {
    /// The client of a request that has the connection to itself.
    pub(crate) fn http1(conn: Rc<Connection>) -> Self {
        Client { conn, stream: None }
    }
    /// The client of a request that has a stream among others.
    pub(crate) fn http2(stream: Rc<Stream>) -> Self {
        Client { conn: stream.connection().clone(), stream: Some(stream) }
    }

    /// The connection: addresses, times and TLS are those of all its requests.
    #[inline]
    pub fn connection(&self) -> &Rc<Connection> {
        &self.conn
    }
    /// The stream of the request, where others share the connection.
    #[inline]
    pub(crate) fn http2_stream(&self) -> Option<&Rc<Stream>> {
        self.stream.as_ref()
    }
    /// Output of the request that waits for the client.
    #[inline]
    pub(crate) fn output(&self) -> &RefCell<OutputQueue> {
        match &self.stream {
            None => &self.conn.output,
            Some(stream) => &stream.output,
        }
    }
    /// Input of the request that was read and not used yet.
    #[inline]
    pub(crate) fn input(&self) -> &RefCell<Vec<u8>> {
        match &self.stream {
            None => &self.conn.input,
            Some(stream) => &stream.input,
        }
    }
    /// Bytes of output that the client has not taken.
    #[inline]
    pub fn unsent_bytes(&self) -> u64 {
        match &self.stream {
            None => self.conn.unsent_bytes(),
            Some(stream) => stream.unsent_bytes(),
        }
    }

    /// Whether so many more bytes may wait for the client in memory; `output` is this client's.
    #[inline]
    pub(crate) fn has_room(&self, output: &OutputQueue, bytes: u64) -> bool {
        output.has_room(bytes) && self.stream.as_ref().is_none_or(|stream| stream.shares(output, bytes))
    }

    /// Whether the client has given leave for so many bytes, as far as its protocol knows of that.
    pub(crate) fn has_leave_for(&self, bytes: u64) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream.has_leave_for(bytes))
    }

    /// Whether nothing more can be sent.
    #[inline]
    pub fn is_broken(&self) -> bool {
        match &self.stream {
            None => self.conn.is_broken(),
            Some(stream) => stream.is_broken(),
        }
    }
    /// Gives the client up: nothing more is sent, and it learns that the response is not whole.
    pub fn abort(&self) {
        match &self.stream {
            None => self.conn.mark_broken(),
            Some(stream) => stream.abort(ErrorCode::InternalError),
        }
    }
    /// Takes note that the client did not send in time what the request waits for.
    pub(crate) fn note_timeout(&self) {
        match &self.stream {
            None => self.conn.timed_out.set(true),
            // The connection does not end with a stream.
            Some(stream) => stream.note_timeout(),
        }
    }
    /// Lets the response end before everything that the request began has ended.
    pub(crate) fn keep(&self) {
        self.conn.kept.set(true);
    }

    /// Sends what the client takes at once; answers whether that was everything. When sending fails, the client is given
    /// up.
    ///
    /// # Errors
    /// Those of the socket.
    #[inline]
    pub(crate) fn write_now(&self) -> io::Result<bool> {
        match &self.stream {
            None => self.conn.write_now(),
            Some(stream) => stream.write_now(),
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
        match &self.stream {
            None => self.conn.drain_to(bytes, timeout_ms).await,
            Some(stream) => stream.drain_to(bytes, timeout_ms).await,
        }
    }
    /// Tells a client that waits for permission to send the body of its request, with what is sent next.
    pub(crate) fn queue_go_on(&self) {
        // The window of a stream has given that permission. Source: nginx, `ngx_http_test_expect`.
        if self.stream.is_none() {
            self.conn.output.borrow_mut().buf.extend_from_slice(GO_ON);
        }
    }
    /// Bytes of files that are sent before others have their turn; 0 for any number. `None` stands for nginx's default.
    pub fn set_turn_bytes_max(&self, bytes: Option<u64>) {
        self.output().borrow_mut().turn_bytes_max = bytes;
    }

    /// A request begins whose head was read.
    pub(crate) fn begin_request(&self) {
        if self.stream.is_none() {
            // They were of the request before.
            self.conn.head_since_ms.set(0);
            self.conn.output.borrow_mut().set_throttle(None);
        }
    }
    /// The response ends; `output` is this client's.
    pub(crate) fn end(&self, response: &Response, output: &mut OutputQueue) {
        match &self.stream {
            None if response.chunked && !response.header_only => {
                write_last_chunk(&response.trailers, &mut output.buf);
            }
            None => {}
            // A body that is shorter than was promised must not end as if it were whole.
            Some(_) if response.body_left.is_some_and(|left| left > 0) => {}
            Some(stream) => stream.end((!response.header_only).then_some(&response.trailers)),
        }
    }

    /// What was spoken instead of HTTP, and was sent, ends as it should. A connection of HTTP/1 is closed after that.
    pub(crate) async fn end_tunnel(&self) {
        match &self.stream {
            None => {
                self.conn.stream.shutdown_write();
                // The client may be saying something meanwhile.
                self.conn.tunnel_ended.set(true);
            }
            Some(stream) => {
                stream.end(None);
                let timeout_ms = self.conn.default_level().core.http.send_timeout_ms();
                // Whoever does not take it is given up, as at the end of any response.
                let _ = stream.drain_to(0, timeout_ms).await;
            }
        }
    }

    /// Takes note that so many bytes of the input were used.
    #[inline]
    pub(crate) fn note_used(&self, bytes: usize) {
        match &self.stream {
            None => {}
            Some(stream) => stream.note_used(bytes),
        }
    }
    /// Whether what has come of the request behind its head breaks the rules of the client's protocol.
    pub(crate) fn is_malformed(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_malformed())
    }
    /// Bytes that the head took, which has `text_bytes` as text.
    pub(crate) fn head_bytes(&self, text_bytes: usize) -> u64 {
        self.stream.as_ref().map_or(text_bytes as u64, |stream| stream.head_bytes())
    }
    /// Whether all of the request has come, where the client's protocol tells; `false` where the body does.
    pub(crate) fn is_input_whole(&self) -> bool {
        match &self.stream {
            None => false,
            Some(stream) => stream.is_input_whole(),
        }
    }
    /// Reads more input; answers how many bytes came, 0 at the end.
    ///
    /// # Errors
    /// Those of the socket; `TimedOut` when nothing comes for `timeout_ms`.
    pub(crate) async fn read_more(&self, timeout_ms: u64) -> io::Result<usize> {
        match &self.stream {
            None => self.conn.read_more(timeout_ms).await,
            Some(stream) => stream.read_more(timeout_ms).await,
        }
    }
    /// As [`read_more`](Self::read_more), without a limit of time, for who has one already.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match &self.stream {
            None => self.conn.poll_read_more(cx),
            Some(stream) => stream.poll_read_more(cx),
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
        match &self.stream {
            None => self.conn.closed_by_client().await,
            Some(stream) => poll_fn(|cx| stream.poll_closed(cx)).await,
        }
    }
    /// Whether the client has left; otherwise the task of `cx` is woken when it does. Answers `None` when that can no
    /// longer be told, since the client has sent something that nobody reads yet.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        match &self.stream {
            None => self.conn.poll_closed(cx),
            Some(stream) => stream.poll_closed(cx).map(Some),
        }
    }

    /// The socket, for who takes the connection over ([`Request::take_over_connection`]); `None` where other requests
    /// share it.
    #[inline]
    pub fn socket(&self) -> Option<&stream::Stream> {
        match &self.stream {
            None => Some(&self.conn.stream),
            Some(_) => None,
        }
    }
}

impl Request {
    /// The connection is closed without another word of this request; it takes no more.
    pub fn close_connection(&self) {
        let main = self.main();
        main.flags().keep_alive.set(false);
        if main.response.borrow().header_bytes == 0 && !self.client.is_broken() {
            // What waits belongs to pipelined requests before this one.
            let _ = self.client.write_now();
        }
        self.client.abort();
    }
}
