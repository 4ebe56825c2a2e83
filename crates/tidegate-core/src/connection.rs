//! A client's connection: its socket, what was read and is to be written, and the waits for both.
//!
//! What happens on it, request by request, is [`crate::http1`]; a connection on which nothing happens for a while is
//! parked by its worker.

use std::{
    any::Any,
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use tidegate_http::proxy_protocol::ProxyHeader;
use tidegate_net::{
    Peer, buffers,
    service::{HasSession, Memo, Opening},
    session::{Session, Wait},
};
use tokio::sync::{Notify, futures::Notified};

use crate::{
    clock,
    conf::{Config, Level, ServerId},
    listeners::ListenAddr,
    output_queue::OutputQueue,
    ssl::client::Facts,
};

/// A client's connection.
pub struct Connection {
    /// The socket and its waits.
    session: Session,
    // Few have one, and an idle connection is to be small.
    pub(crate) proxy_header: OnceCell<Box<ProxyHeader>>,
    /// What the handshake told, where there was one.
    pub(crate) tls: OnceCell<Box<Facts>>,
    pub(crate) output: RefCell<OutputQueue>,
    /// Bytes that were read and not used yet.
    pub(crate) input: RefCell<Vec<u8>>,
    config: Arc<Config>,
    broken: Cell<bool>,
    /// How long it may wait for the next request: what the last one's location says.
    pub(crate) idle_timeout_ms: Cell<u64>,
    /// It ends because the client was too slow, or is not wanted: `reset_timedout_connection`.
    pub(crate) timed_out: Cell<bool>,
    /// What was spoken instead of HTTP has ended as it should, and the client was told.
    pub(crate) tunnel_ended: Cell<bool>,
    /// The system's error code of the write that failed; the request that ends says so.
    pub(crate) send_errno: Cell<i32>,
    /// A request outlives its response: the socket is not closed by the connection's end alone.
    pub(crate) kept: Cell<bool>,
    /// A task waits until the socket takes more. The socket wakes no more than one, and there is one time limit.
    draining: Cell<bool>,
    /// Wakes the other tasks that want to write, when that one has come further or has ended. Few have such.
    drained: OnceCell<Box<Notify>>,
}

/// What is kept of a connection that is parked, beside its session and its input.
#[derive(Default)]
struct Kept {
    proxy_header: Option<Box<ProxyHeader>>,
    tls: Option<Box<Facts>>,
}

/// The turn of the task that waits for the socket. However it ends, the others go on.
struct Draining<'a>(&'a Connection);

impl<'a> Draining<'a> {
    fn begin(conn: &'a Connection) -> Self {
        conn.draining.set(true);
        Draining(conn)
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.0.draining.set(false);
        if let Some(drained) = self.0.drained.get() {
            drained.notify_waiters();
        }
    }
}

impl std::ops::Deref for Connection {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl HasSession for Connection {
    fn session(&self) -> &Session {
        &self.session
    }
}

impl Connection {
    /// A connection that was accepted, or was parked.
    pub(crate) fn new(opening: Opening, config: Arc<Config>) -> Self {
        let Opening { session, input, memo } = opening;
        let kept = memo.and_then(|memo| (*memo).downcast::<Kept>().ok());
        let Kept { proxy_header, tls } = kept.map(|kept| *kept).unwrap_or_default();
        Connection {
            session,
            proxy_header: proxy_header.map_or_else(OnceCell::new, OnceCell::from),
            tls: tls.map_or_else(OnceCell::new, OnceCell::from),
            output: RefCell::default(),
            input: RefCell::new(input),
            config,
            broken: Cell::new(false),
            idle_timeout_ms: Cell::new(0),
            timed_out: Cell::new(false),
            tunnel_ended: Cell::new(false),
            send_errno: Cell::new(0),
            kept: Cell::new(false),
            draining: Cell::new(false),
            drained: OnceCell::new(),
        }
    }

    /// The connection of requests that belong to nobody.
    pub(crate) fn nobody(config: Arc<Config>) -> Self {
        Self::new(Opening { session: Session::nobody(), input: Vec::new(), memo: None }, config)
    }

    /// What must not be forgotten of an idle connection.
    pub(crate) fn park(self) -> Opening {
        let Connection {
            session,
            proxy_header,
            input,
            tls,
            // It is that of the worker, which keeps it.
            config: _,
            // They are of the request that is over.
            output: _,
            broken: _,
            idle_timeout_ms: _,
            timed_out: _,
            tunnel_ended: _,
            send_errno: _,
            kept: _,
            draining: _,
            drained: _,
        } = self;
        let kept = Kept { proxy_header: proxy_header.into_inner(), tls: tls.into_inner() };
        let memo = (kept.proxy_header.is_some() || kept.tls.is_some()).then(|| Memo::new(Box::new(kept)));
        Opening { session, input: input.into_inner(), memo }
    }

    /// The configuration that the connection was accepted under.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Whether the address that accepted it speaks HTTP/2, whatever the servers say.
    pub(crate) fn listens_http2(&self) -> bool {
        self.config.listens.get(self.port).is_some_and(|listen| listen.http2)
    }
    /// What a balancer said ahead of the connection's bytes, where `listen … proxy_protocol` expects that.
    pub fn proxy_header(&self) -> Option<&ProxyHeader> {
        self.proxy_header.get().map(|header| &**header)
    }
    /// Our end.
    pub fn local(&self) -> Peer {
        match self.listen_addr() {
            Some(ListenAddr::Tcp(address)) => Peer::Inet(*address),
            _ => Peer::Unix,
        }
    }
    /// Our end, with the address that the client connected to where the socket listens on all.
    pub fn local_addr(&self) -> Peer {
        match self.local() {
            Peer::Inet(address) if address.ip().is_unspecified() => {
                Peer::Inet(self.stream.local_addr().unwrap_or(address))
            }
            local => local,
        }
    }
    /// The address of the listening socket, as the configuration has it.
    pub fn listen_addr(&self) -> Option<&ListenAddr> {
        self.config.listens.get(self.port).map(|listen| &listen.spec.addr)
    }
    /// The server for names that no other has.
    pub fn default_server(&self) -> ServerId {
        self.config.default_server(self.port)
    }
    /// The level of the server for names that no other has.
    pub fn default_level(&self) -> &Level {
        &self.config.levels[self.config.servers[self.default_server().0 as usize].level.0 as usize]
    }
    /// Whether the client speaks without TLS at a port that wants it.
    pub(crate) fn lacks_tls(&self) -> bool {
        self.stream.as_tls().is_some() && self.stream.with_tls(|_| ()).is_none()
    }
    /// What the module of scripts has kept in the handshake.
    pub fn handshake_memo(&self) -> Option<&Rc<dyn Any>> {
        self.tls.get()?.memo.as_ref()
    }
    /// Whether there is no client: a request that the server makes of itself.
    pub(crate) fn is_nobodys(&self) -> bool {
        self.number == 0
    }
    /// Whether nothing more can be written.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }
    /// Gives the connection up: nothing more is written, and it is closed when its request has ended.
    pub fn mark_broken(&self) {
        self.broken.set(true);
    }

    /// As [`mark_broken`](Self::mark_broken), since a write failed.
    pub(crate) fn send_failed(&self, error: &io::Error) {
        self.broken.set(true);
        self.send_errno.set(error.raw_os_error().unwrap_or(0));
    }

    /// Waits until the client closes its end while a request is being served. A client that sends something instead
    /// (the next request, a body that nobody reads) is no longer watched: the future then never ends.
    pub(crate) async fn closed_by_client(&self) {
        poll_fn(|cx| {
            if !self.input.borrow().is_empty() {
                return Poll::Pending;
            }
            match self.poll_closed(cx) {
                Poll::Ready(Some(())) => Poll::Ready(()),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await;
    }

    /// Whether the client has closed its end, `None` when it has sent something instead; otherwise the task of `cx` is
    /// woken when either happens.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        if self.is_nobodys() {
            // Nobody leaves.
            return Poll::Pending;
        }
        loop {
            if std::task::ready!(self.stream.poll_read_ready(cx)).is_err() {
                return Poll::Ready(Some(()));
            }
            match self.stream.try_peek() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(false) | Err(_) => return Poll::Ready(Some(())),
                Ok(true) => return Poll::Ready(None),
            }
        }
    }

    /// Writes what is queued as far as the socket takes it at once; answers whether that was all.
    ///
    /// # Errors
    /// Those of the socket. The connection is given up then.
    pub(crate) fn write_now(&self) -> io::Result<bool> {
        let written = self.output.borrow_mut().write_to(&self.stream);
        if let Err(error) = &written {
            self.send_failed(error);
        }
        written
    }

    /// As [`write_now`](Self::write_now), where little is queued.
    pub(crate) fn flush_now(&self) -> bool {
        !self.broken.get() && self.output.borrow().is_small() && matches!(self.write_now(), Ok(true))
    }

    /// Writes everything that is queued.
    ///
    /// # Errors
    /// Those of the socket; `TimedOut` when the client takes nothing for `timeout_ms`.
    pub async fn flush(&self, timeout_ms: u64) -> io::Result<()> {
        self.drain_to(0, timeout_ms).await
    }

    /// Writes until at most `bytes` are queued.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn drain_to(&self, bytes: u64, timeout_ms: u64) -> io::Result<()> {
        loop {
            if self.broken.get() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let all = self.write_now()?;
            if all || (bytes > 0 && self.output.borrow().len() <= bytes) {
                return Ok(());
            }
            if self.is_draining() {
                self.drained().await;
                continue;
            }
            let _turn = Draining::begin(self);
            if self.output.borrow_mut().take_turn_end() {
                tokio::task::yield_now().await;
                clock::update();
                continue;
            }
            if self.output.borrow().is_reading() {
                poll_fn(|cx| self.output.borrow_mut().poll_read(cx)).await;
                clock::update();
                continue;
            }
            let pause = self.output.borrow().pause();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
                clock::update();
                continue;
            }
            if let Wait::TimedOut = self.wait(timeout_ms, |cx| self.stream.poll_write_ready(cx)).await? {
                self.timed_out.set(true);
                self.send_failed(&io::Error::from_raw_os_error(libc::ETIMEDOUT));
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Whether a task waits until the socket takes more: its wake-up must not be taken over.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Waits until such a task has come further or has ended.
    pub(crate) fn drained(&self) -> Notified<'_> {
        self.drained.get_or_init(Box::default).notified()
    }

    /// Bytes that wait to be written. What TLS has made of the last ones counts as one.
    pub fn unsent_bytes(&self) -> u64 {
        self.output.borrow().len() + u64::from(self.stream.has_unsent())
    }

    /// Reads more input; answers how many bytes came, 0 at the end.
    ///
    /// # Errors
    /// Those of the socket, `TimedOut`, `ConnectionAborted` when the worker wants the connection closed.
    pub(crate) async fn read_more(&self, timeout_ms: u64) -> io::Result<usize> {
        match self.wait(timeout_ms, |cx| self.poll_read_more(cx)).await? {
            Wait::Ready(count) => Ok(count),
            Wait::TimedOut => Err(io::ErrorKind::TimedOut.into()),
            Wait::Closing => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Reads more input without a limit of time, for who has one already; gives how many bytes came, 0 at the end.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn poll_read_more(&self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            std::task::ready!(self.stream.poll_read_ready(cx))?;
            let mut input = self.input.borrow_mut();
            if input.capacity() == 0 {
                *input = buffers::take();
            }
            match self.stream.try_read_buf(&mut *input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.set_fresh(false);
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// Reads what has come already, if anything has; as [`poll_read_more`](Self::poll_read_more), but nobody is woken.
    pub(crate) fn read_more_now(&self) -> Poll<io::Result<usize>> {
        self.poll_read_more(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// Takes `count` bytes off the front of the input.
    pub(crate) fn consume_input(&self, count: usize) {
        let mut input = self.input.borrow_mut();
        if count == input.len() {
            input.clear();
        } else {
            input.drain(..count);
        }
    }

    /// Gives buffers back to the worker.
    pub(crate) fn release(&self) {
        let mut input = self.input.borrow_mut();
        if input.is_empty() {
            buffers::give(std::mem::take(&mut *input));
        }
        let mut output = self.output.borrow_mut();
        if output.is_empty() {
            buffers::give(std::mem::take(&mut output.buf));
        }
    }
}
