//! A connection to a peer: connecting, reading and writing with time limits, while the client is watched.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use bytes::BytesMut;
use tokio::net::TcpSocket;

use tidegate_net::{client_socket::ClientSocket, tls::HandshakeError};
use tidegate_tls::{failure::Reason, verify::VerifyError};

use super::{Address, tls::TlsPeer};
use crate::{clock, deadline::Deadline, request::Request, stream::Stream};

/// A connection to a peer.
pub struct Socket {
    /// The socket.
    pub stream: Stream,
    /// Bytes that were read and not used yet.
    pub input: BytesMut,
    /// Requests that were sent over it.
    pub requests: u64,
    /// When it was made, in milliseconds of [`clock::steady_ms`].
    pub opened_ms: u64,
    /// Bytes sent for the request under way.
    pub sent: u64,
    /// Bytes received for the request under way.
    pub received: u64,
    lines: Lines,
}

/// What stays with a connection from one request to the next.
#[derive(Clone)]
pub(super) struct Lines {
    /// The settings that the connection was made with.
    destination: Rc<OwnedDestination>,
    deadline: Rc<Deadline>,
}

impl Lines {
    /// What the connection was made for.
    pub(super) fn destination(&self) -> Destination<'_> {
        self.destination.borrow()
    }
}

/// All that a connection depends on. Only this goes into making one, and only a request with the same gets one that was
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'a> {
    /// Number of the group: each keeps its own connections.
    pub group: u32,
    /// Protocol of the connection.
    pub scheme: &'static str,
    /// The peer.
    pub address: &'a Address,
    /// Local address of the connection (`proxy_bind`).
    pub bind: Option<Bind>,
    /// The system probes it while nothing happens.
    pub socket_keepalive: bool,
    /// Text of a balancer that must agree as well.
    pub key: &'a BStr,
    /// What the protocol has told the peer when the connection was made.
    pub state: &'a BStr,
    /// How TLS is spoken, if it is.
    pub tls: Option<&'a TlsPeer>,
}

/// A [`Destination`] that stays with its connection.
struct OwnedDestination {
    group: u32,
    scheme: &'static str,
    address: Address,
    bind: Option<Bind>,
    socket_keepalive: bool,
    key: BString,
    state: BString,
    tls: Option<TlsPeer>,
}

impl Destination<'_> {
    fn to_owned(self) -> OwnedDestination {
        let Destination { group, scheme, address, bind, socket_keepalive, key, state, tls } = self;
        let (address, key, state, tls) = (address.clone(), key.into(), state.into(), tls.cloned());
        OwnedDestination { group, scheme, address, bind, socket_keepalive, key, state, tls }
    }
}

impl OwnedDestination {
    fn borrow(&self) -> Destination<'_> {
        let OwnedDestination { group, scheme, address, bind, socket_keepalive, key, state, tls } = self;
        Destination {
            group: *group,
            scheme,
            address,
            bind: *bind,
            socket_keepalive: *socket_keepalive,
            key: key.as_bstr(),
            state: state.as_bstr(),
            tls: tls.as_ref(),
        }
    }
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The event came.
    Ready,
    /// The event did not come in time.
    TimedOut,
    /// The client has closed its connection.
    ClientGone,
}

/// Looks whether the client is still there while its answer is waited for.
pub struct Watch<'a> {
    req: &'a Request,
    active: Cell<bool>,
}

impl<'a> Watch<'a> {
    /// Watches the client of `req`, if `wanted`. Sub-requests are not watched: their main request's end is theirs.
    pub fn new(req: &'a Request, wanted: bool) -> Self {
        Watch { req, active: Cell::new(wanted && !req.is_subrequest()) }
    }

    /// Whether the client has gone, as far as is known now.
    pub(super) async fn is_gone(&self) -> bool {
        poll_fn(|cx| Poll::Ready(self.poll_gone(cx))).await
    }

    /// Whether the client has gone; otherwise the task of `cx` is woken when it goes.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> bool {
        if self.active.get() {
            match self.req.client.poll_closed(cx) {
                Poll::Pending => {}
                Poll::Ready(Some(())) => return true,
                // Its next request: what comes after that is not seen.
                Poll::Ready(None) => self.active.set(false),
            }
        }
        false
    }
}

/// Reads after which other requests have their turn.
const READS_IN_A_ROW: u32 = 16;

/// Reads from one peer. A peer that sends faster than it is read never makes a request wait, so the request has to stand
/// back by itself.
#[derive(Debug, Default)]
pub(super) struct Turn {
    reads: u32,
}

impl Turn {
    /// Counts a read that gave something. Once in a while it lets other requests have their turn, and answers `true`.
    pub(super) async fn note_read(&mut self) -> bool {
        self.reads = self.reads.wrapping_add(1);
        let is_over = self.reads.is_multiple_of(READS_IN_A_ROW);
        if is_over {
            tokio::task::yield_now().await;
        }
        is_over
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address that it was to come from cannot be had: no peer's fault.
    #[error("bind({0}) failed")]
    Bind(SocketAddr, #[source] io::Error),
    /// The peer cannot be reached.
    #[error("connect() failed")]
    Connect(#[from] io::Error),
    /// The certificate that the peer was to be shown cannot be used: no peer's fault.
    #[error("{0}")]
    Certificate(String),
    /// A script does not want TLS with the peer, or has failed.
    #[error("SSL_do_handshake() failed (SSL: {0})")]
    Refused(Reason),
    /// A script has found something wrong with the peer's certificate; a number of OpenSSL's.
    #[error("upstream SSL certificate verify error: ({0}:{text})", text = text_of(*.0))]
    Verdict(i64),
    /// The peer is reached, but there is no TLS with it.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
}

/// OpenSSL's words for one of its numbers.
fn text_of(verdict: i64) -> String {
    let known = u16::try_from(verdict).ok().and_then(VerifyError::of_number);
    known.map_or_else(|| "unknown certificate verification error".to_owned(), |error| error.to_string())
}

/// Where connections come from (`proxy_bind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// Our address.
    pub ip: IpAddr,
    /// Our port; 0 for any.
    pub port: u16,
    /// The address need not be one of this machine's.
    pub transparent: bool,
}

impl Socket {
    /// Connects for a request, TLS and all, without a limit of time.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn connect(req: &Rc<Request>, destination: Destination<'_>) -> Result<Socket, ConnectError> {
        let stream = match destination.address {
            Address::Inet(address) => {
                let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                if let Some(bind) = destination.bind {
                    if bind.transparent && bind.ip.is_ipv4() {
                        socket2::SockRef::from(&socket).set_ip_transparent_v4(true)?;
                    }
                    let local = SocketAddr::new(bind.ip, bind.port);
                    socket.bind(local).map_err(|error| ConnectError::Bind(local, error))?;
                }
                Stream::Tcp(socket.connect(*address).await?)
            }
            Address::Unix(path) => Stream::Client(ClientSocket::connect_local(path)?),
        };
        if destination.socket_keepalive {
            stream.set_keepalive();
        }
        let stream = match destination.tls {
            None => stream,
            Some(tls) => tls.secure(req, stream, destination.address).await?,
        };
        Ok(Socket {
            lines: Lines { destination: Rc::new(destination.to_owned()), deadline: Deadline::new() },
            stream,
            input: BytesMut::new(),
            requests: 0,
            opened_ms: clock::steady_ms(),
            sent: 0,
            received: 0,
        })
    }

    /// An answer that was read over a connection with other requests', to a request of so many bytes. There is nothing more to read or
    /// to write.
    pub(super) fn answered(lines: Lines, answer: BytesMut, sent_bytes: usize) -> Socket {
        Socket {
            lines,
            stream: Stream::Closed,
            requests: 0,
            opened_ms: clock::steady_ms(),
            sent: sent_bytes as u64,
            received: answer.len() as u64,
            input: answer,
        }
    }

    pub(super) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Waits for `poll`, at most `timeout_ms` (0: forever).
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn wait(
        &self,
        timeout_ms: u64,
        watch: &Watch<'_>,
        mut poll: impl FnMut(&Stream, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> io::Result<Wait> {
        let mut armed = false;
        let result = poll_fn(|cx| {
            if let Poll::Ready(result) = poll(&self.stream, cx) {
                return Poll::Ready(result.map(|()| Wait::Ready));
            }
            if watch.poll_gone(cx) {
                return Poll::Ready(Ok(Wait::ClientGone));
            }
            if !armed {
                armed = true;
                self.lines.deadline.arm(timeout_ms);
            }
            if self.lines.deadline.poll_expired(cx) {
                return Poll::Ready(Ok(Wait::TimedOut));
            }
            Poll::Pending
        })
        .await;
        if armed {
            self.lines.deadline.disarm();
            clock::update();
        }
        result
    }

    /// What it was made for, and may be used for again.
    pub fn destination(&self) -> Destination<'_> {
        self.lines.destination()
    }

    /// Reads what is there into `input`, within its capacity.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read(&mut self) -> io::Result<usize> {
        let count = self.stream.try_read_buf(&mut self.input)?;
        self.received += count as u64;
        Ok(count)
    }

    /// Whether an idle connection can be used again. It costs a system call only if something has happened on it.
    pub fn is_idle_and_alive(&self) -> bool {
        let nothing =
            |result: &io::Result<bool>| result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        self.input.is_empty() && nothing(&self.stream.try_peek())
    }

    /// Gives the buffer back while the connection is idle.
    pub fn release_buffer(&mut self) {
        give_buffer(std::mem::take(&mut self.input));
    }

    /// Has at least `bytes` of room for input.
    pub fn reserve(&mut self, bytes: usize) {
        if self.input.capacity() == 0 {
            self.input = take_buffer();
        }
        self.input.reserve(bytes);
    }
}

/// Time limit of connecting, for which a timer is worth it.
pub(super) async fn with_timeout<T>(
    timeout_ms: u64,
    watch: &Watch<'_>,
    future: impl Future<Output = T>,
) -> Result<T, Wait> {
    let mut future = std::pin::pin!(future);
    // Connections to this machine are made or refused at once; only others get as far as a timer.
    let first = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    if let Poll::Ready(result) = first {
        return Ok(result);
    }
    let limit = if timeout_ms == 0 { Duration::MAX } else { Duration::from_millis(timeout_ms) };
    let watched = poll_fn(|cx| {
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(result));
        }
        if watch.poll_gone(cx) { Poll::Ready(Err(Wait::ClientGone)) } else { Poll::Pending }
    });
    let result = tokio::time::timeout(limit, watched).await.unwrap_or(Err(Wait::TimedOut));
    clock::update();
    result
}

/// Buffers that a thread keeps for connections to peers.
const SPARES_MAX: usize = 64;

/// A buffer that grew beyond this is given back to the system.
const SPARE_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static BUFFERS: std::cell::RefCell<Vec<BytesMut>> = const { std::cell::RefCell::new(Vec::new()) };
}

pub(super) fn take_buffer() -> BytesMut {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default()
}

fn give_buffer(mut buffer: BytesMut) {
    buffer.clear();
    if (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
        BUFFERS.with_borrow_mut(|buffers| {
            if buffers.len() < SPARES_MAX {
                buffers.push(buffer);
            }
        });
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.stream.say_farewell();
        // Without the thread's pool (it is ending) the buffer just goes.
        let buffer = std::mem::take(&mut self.input);
        if BUFFERS.try_with(|_| ()).is_ok() {
            give_buffer(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Waker};

    use super::*;

    #[test]
    fn a_peer_that_is_always_ready_leaves_others_their_turn() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut turn = Turn::default();
        for _ in 0..2 {
            for _ in 1..READS_IN_A_ROW {
                assert_eq!(pin!(turn.note_read()).poll(&mut cx), Poll::Ready(false));
            }
            let mut last = pin!(turn.note_read());
            assert_eq!(last.as_mut().poll(&mut cx), Poll::Pending);
            assert_eq!(last.poll(&mut cx), Poll::Ready(true));
        }
    }
}
