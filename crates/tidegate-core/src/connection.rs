//! A client's connection: its socket, what was read and is to be written, and the waits for both.
//!
//! What happens on it, request by request, is [`crate::serve`]; a connection on which nothing happens for a while becomes
//! a small entry in [`crate::parked`].

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate_http::proxy_protocol::ProxyHeader;
pub use tidegate_net::Peer;

use crate::{
    client_socket::ClientSocket,
    clock,
    conf::{Config, ServerId},
    limit_rate::Throttle,
    listeners::ListenAddr,
    parked::Parked,
    stream::Stream,
    transfer::OutputQueue,
    worker::Worker,
};

/// How long a worker that shuts down waits for the first byte of a connection that it has accepted: long enough for a
/// client far away, short enough for those who wait for the shutdown.
pub(crate) const FRESH_WAIT_MS_MAX: u64 = 2000;

/// A client whose last answer is no older than this may be sending its next request right now.
pub(crate) const BUSY_IDLE_MS_MAX: u64 = 1000;

/// How long a worker that shuts down waits for that request: a client that finds the connection closed would take it for
/// a failure.
pub(crate) const BUSY_WAIT_MS: u64 = 400;

/// A client's connection.
pub struct Connection {
    /// Number, unique in the process: `$connection`.
    pub number: u64,
    /// The socket.
    pub stream: Stream,
    /// Who the socket says the client is. Who a trusted proxy says it is stands with each request.
    pub peer: Peer,
    // Few have one, and an idle connection is to be small.
    pub(crate) proxy_header: OnceCell<Box<ProxyHeader>>,
    /// Position of the address among the configuration's.
    pub listen: usize,
    /// Requests so far: `$connection_requests`.
    pub requests: Cell<u64>,
    /// When it was accepted, in milliseconds of [`clock::now_ms`].
    pub accepted_ms: u64,
    /// Bytes written since it was accepted, or last [parked](crate::parked).
    pub(crate) sent: Cell<u64>,
    /// How fast output may be; `None` for any speed.
    pub(crate) throttle: Cell<Option<Throttle>>,
    pub(crate) output: RefCell<OutputQueue>,
    /// Bytes that were read and not used yet.
    pub(crate) input: RefCell<Vec<u8>>,
    config: Arc<Config>,
    /// When the wait under way is over, in milliseconds; 0 for never.
    deadline_ms: Cell<u64>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    broken: Cell<bool>,
    /// It may be closed at once when the worker shuts down.
    pub(crate) idle: Cell<bool>,
    /// It waits for the first byte of a head.
    pub(crate) waits_for_head: Cell<bool>,
    /// The worker has too many, and chose this one to go.
    pub(crate) surplus: Cell<bool>,
    /// Small packets are sent at once.
    pub(crate) nodelay: Cell<bool>,
    /// When it became idle, in milliseconds.
    pub(crate) idle_since_ms: Cell<u64>,
    /// When the first byte of the head came that it waits for, in milliseconds; 0 while there is none.
    pub(crate) head_since_ms: Cell<u64>,
    /// Since when it waits for more of a head, in milliseconds; 0 while it does not.
    pub(crate) waiting_since_ms: Cell<u64>,
    /// That took so long that it is to be parked.
    pub(crate) parking: Cell<bool>,
    closing: Cell<bool>,
    /// How long it may wait for the next request: what the last one's location says.
    pub(crate) idle_timeout_ms: Cell<u64>,
    /// It ends because the client was too slow, or is not wanted: `reset_timedout_connection`.
    pub(crate) timed_out: Cell<bool>,
    /// The system's error code of the write that failed; the request that ends says so.
    pub(crate) send_errno: Cell<i32>,
    /// A request outlives its response: the socket is not closed by the connection's end alone.
    pub(crate) kept: Cell<bool>,
}

/// The outcome of a wait.
#[derive(Debug)]
pub enum Wait<T> {
    /// The event came.
    Ready(T),
    /// The event did not come in time.
    TimedOut,
    /// The connection is to be closed.
    Closing,
}

impl Connection {
    pub(crate) fn new(stream: Stream, peer: Peer, listen: usize, config: Arc<Config>) -> Self {
        let number = crate::worker::next_connection_number();
        Connection { number, stream, peer, listen, ..Connection::nobody(config) }
    }

    /// The connection of requests that belong to nobody.
    pub(crate) fn nobody(config: Arc<Config>) -> Self {
        let (stream, peer, listen) = (Stream::Closed, Peer::Unix, 0);
        Connection {
            number: 0,
            stream,
            peer,
            proxy_header: OnceCell::new(),
            listen,
            requests: Cell::new(0),
            accepted_ms: clock::now_ms(),
            sent: Cell::new(0),
            throttle: Cell::new(None),
            output: RefCell::default(),
            input: RefCell::default(),
            config,
            deadline_ms: Cell::new(0),
            expired: Cell::new(false),
            waker: RefCell::new(None),
            broken: Cell::new(false),
            idle: Cell::new(false),
            waits_for_head: Cell::new(true),
            surplus: Cell::new(false),
            nodelay: Cell::new(false),
            idle_since_ms: Cell::new(clock::now_ms()),
            head_since_ms: Cell::new(0),
            waiting_since_ms: Cell::new(0),
            parking: Cell::new(false),
            closing: Cell::new(false),
            idle_timeout_ms: Cell::new(0),
            timed_out: Cell::new(false),
            send_errno: Cell::new(0),
            kept: Cell::new(false),
        }
    }

    /// The connection that was parked, with the bytes that have come of its next head. `expired`: none came in time.
    pub(crate) fn resume(parked: Parked, config: Arc<Config>, worker: &Worker, expired: bool) -> io::Result<Self> {
        let Parked { socket, peer, listen, nodelay, number, requests, accepted_ms, since_ms, proxy_header, input } =
            parked;
        let stream = Stream::Client(ClientSocket::register(socket)?);
        let head_since_ms = if input.is_empty() { 0 } else { since_ms };
        Ok(Connection {
            number,
            proxy_header: proxy_header.map_or_else(OnceCell::new, OnceCell::from),
            requests: Cell::new(requests),
            accepted_ms,
            input: RefCell::new(input),
            nodelay: Cell::new(nodelay),
            head_since_ms: Cell::new(head_since_ms),
            expired: Cell::new(expired),
            closing: Cell::new(worker.is_quitting()),
            ..Connection::new(stream, peer, listen as usize, config)
        })
    }

    /// The socket and what must not be forgotten.
    pub(crate) fn park(self) -> io::Result<Parked> {
        let Connection {
            number,
            stream,
            peer,
            proxy_header,
            listen,
            requests,
            accepted_ms,
            input,
            nodelay,
            idle_since_ms,
            head_since_ms,
            // It is that of the worker, which keeps it.
            config: _,
            // They are of the request or the wait that is over, or tell a connection to go, which is then not parked.
            sent: _,
            throttle: _,
            output: _,
            deadline_ms: _,
            expired: _,
            waker: _,
            broken: _,
            idle: _,
            waits_for_head: _,
            surplus: _,
            waiting_since_ms: _,
            parking: _,
            closing: _,
            idle_timeout_ms: _,
            timed_out: _,
            send_errno: _,
            kept: _,
        } = self;
        let mut input = input.into_inner();
        if !input.is_empty() {
            let part = input.as_slice().into();
            crate::worker::give_buffer(std::mem::replace(&mut input, part));
        }
        Ok(Parked {
            socket: stream.into_fd()?,
            peer,
            listen: listen as u32,
            nodelay: nodelay.get(),
            number,
            requests: requests.get(),
            accepted_ms,
            since_ms: if input.is_empty() { idle_since_ms.get() } else { head_since_ms.get() },
            proxy_header: proxy_header.into_inner(),
            input,
        })
    }

    /// The configuration that the connection was accepted under.
    pub fn config(&self) -> &Config {
        &self.config
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
        match (&self.stream, self.local()) {
            (Stream::Client(socket), Peer::Inet(address)) if address.ip().is_unspecified() => {
                Peer::Inet(socket.local_addr().unwrap_or(address))
            }
            (_, local) => local,
        }
    }
    /// The address of the listening socket, as the configuration has it.
    pub fn listen_addr(&self) -> Option<&ListenAddr> {
        self.config.listens.get(self.listen).map(|listen| &listen.spec.addr)
    }
    /// The server for names that no other has.
    pub fn default_server(&self) -> ServerId {
        self.config.default_server(self.listen)
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

    /// Ends the connection as soon as it is idle; called when the worker shuts down.
    pub(crate) fn close_when_idle(&self) {
        self.closing.set(true);
        self.parking.set(false);
        let now_ms = clock::now_ms();
        if self.idle.get() && now_ms.saturating_sub(self.idle_since_ms.get()) < BUSY_IDLE_MS_MAX {
            // Another request may be on its way: it is answered, with `Connection: close`.
            self.idle.set(false);
            self.end_wait_by(now_ms + BUSY_WAIT_MS);
        } else if self.idle.get() {
            self.wake();
        } else if self.is_fresh() {
            self.end_wait_by(now_ms + FRESH_WAIT_MS_MAX);
        }
    }
    /// Makes the wait under way end at this time at the latest.
    fn end_wait_by(&self, latest_ms: u64) {
        self.deadline_ms.set(match self.deadline_ms.get() {
            0 => latest_ms,
            deadline_ms => deadline_ms.min(latest_ms),
        });
    }
    /// Whether it waits for a request, its first or another, and may be closed.
    pub(crate) fn is_idle(&self) -> bool {
        self.waits_for_head.get() && !self.closing.get()
    }
    /// Ends the connection, which is idle: others need its place.
    pub(crate) fn give_up(&self) {
        self.surplus.set(true);
        self.closing.set(true);
        self.parking.set(false);
        self.idle.set(true);
        self.wake();
    }
    /// Whether not a byte of a request has come yet.
    fn is_fresh(&self) -> bool {
        self.requests.get() == 0 && self.input.borrow().is_empty()
    }
    /// Wakes the connection when its wait is over; called a few times a second.
    pub(crate) fn check_deadline(&self, now_ms: u64) {
        let deadline_ms = self.deadline_ms.get();
        if deadline_ms != 0 && now_ms >= deadline_ms {
            self.deadline_ms.set(0);
            self.expired.set(true);
            self.wake();
        }
    }
    /// Whether nothing has come for so long that it may be [parked](crate::parked).
    pub(crate) fn is_quiet(&self, now_ms: u64, park_after_ms: u64) -> bool {
        let since_ms = self.waiting_since_ms.get();
        since_ms != 0 && now_ms.saturating_sub(since_ms) >= park_after_ms && !self.closing.get() && !self.expired.get()
    }
    /// Ends the wait for a head, so that the connection is [parked](crate::parked).
    pub(crate) fn begin_parking(&self) {
        self.waiting_since_ms.set(0);
        self.parking.set(true);
        self.wake();
    }
    /// When the wait that was last under way is over, in milliseconds; 0 for never.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline_ms.get()
    }
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
    fn remember_waker(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Waits for `poll` to be ready, at most `timeout_ms` (0: forever).
    async fn wait<T>(
        &self,
        timeout_ms: u64,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<Wait<T>> {
        let mut armed = false;
        let result = poll_fn(|cx| {
            if let Poll::Ready(result) = poll(cx) {
                return Poll::Ready(result.map(Wait::Ready));
            }
            if self.closing.get() && self.idle.get() {
                return Poll::Ready(Ok(Wait::Closing));
            }
            // A time limit as short as the wait for parking is over at the same look: it comes first.
            if self.expired.replace(false) {
                return Poll::Ready(Ok(Wait::TimedOut));
            }
            if self.parking.get() {
                return Poll::Ready(Ok(Wait::Closing));
            }
            if !armed {
                armed = true;
                let timeout_ms = match timeout_ms {
                    _ if !(self.closing.get() && self.is_fresh()) => timeout_ms,
                    0 => FRESH_WAIT_MS_MAX,
                    _ => timeout_ms.min(FRESH_WAIT_MS_MAX),
                };
                self.deadline_ms.set(if timeout_ms == 0 { 0 } else { clock::now_ms() + timeout_ms });
            }
            self.remember_waker(cx);
            Poll::Pending
        })
        .await;
        self.expired.set(false);
        if !matches!(result, Ok(Wait::Closing)) {
            self.parking.set(false);
        }
        // Who parks the connection takes the deadline along.
        if !self.parking.get() {
            self.deadline_ms.set(0);
        }
        result
    }

    /// Waits until there is something to read.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn readable(&self, timeout_ms: u64) -> io::Result<Wait<()>> {
        self.wait(timeout_ms, |cx| self.stream.poll_read_ready(cx)).await
    }

    /// Waits until the client closes its end while a request is being served. A client that sends something instead
    /// (the next request, a body that nobody reads) is no longer watched: the future then never ends.
    pub async fn closed_by_client(&self) {
        poll_fn(|cx| {
            loop {
                if !self.input.borrow().is_empty() {
                    return Poll::Pending;
                }
                match self.stream.poll_read_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Ready(Ok(())) => {}
                }
                match self.stream.try_peek() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(false) | Err(_) => return Poll::Ready(()),
                    Ok(true) => return Poll::Pending,
                }
            }
        })
        .await;
    }

    /// Writes what is queued as far as the socket takes it at once; answers whether that was all.
    pub(crate) fn flush_now(&self) -> bool {
        if self.broken.get() || !self.output.borrow().is_small() {
            return false;
        }
        let written = self.output.borrow_mut().write_to(self);
        match written {
            Ok(all) => all,
            Err(error) => {
                self.send_failed(&error);
                false
            }
        }
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
            let written = self.output.borrow_mut().write_to(self);
            match written {
                Ok(true) => return Ok(()),
                Ok(false) if bytes > 0 && self.output.borrow().len() <= bytes => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.send_failed(&error);
                    return Err(error);
                }
            }
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
            if let Some(pause) = self.pause() {
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

    /// How many bytes may be written now.
    pub(crate) fn room(&self) -> u64 {
        self.throttle.get().map_or(u64::MAX, |throttle| throttle.room(self.sent.get()))
    }
    /// How long to wait until something may be written; `None` when it may be now.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let throttle = self.throttle.get()?;
        (throttle.room(self.sent.get()) == 0).then(|| throttle.pause(self.sent.get()))
    }

    /// Bytes of files that are sent before other connections have their turn; 0 for any number.
    /// `None` stands for nginx's default.
    pub fn set_turn_bytes_max(&self, bytes: Option<u64>) {
        self.output.borrow_mut().turn_bytes_max = bytes;
    }

    /// Bytes that wait to be written.
    pub fn unsent_bytes(&self) -> u64 {
        self.output.borrow().len()
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
                *input = crate::worker::take_buffer();
            }
            match self.stream.try_read_buf(&mut *input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Reads what has come already, if anything has; as [`poll_read_more`](Self::poll_read_more), but nobody is woken.
    pub(crate) fn read_more_now(&self) -> Poll<io::Result<usize>> {
        self.poll_read_more(&mut Context::from_waker(std::task::Waker::noop()))
    }

    /// Moves bytes that were read and not used yet to the end of `out`: for those who take the connection over.
    pub fn take_input(&self, out: &mut Vec<u8>) {
        out.append(&mut self.input.borrow_mut());
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
            crate::worker::give_buffer(std::mem::take(&mut *input));
        }
        let mut output = self.output.borrow_mut();
        if output.is_empty() {
            crate::worker::give_buffer(std::mem::take(&mut output.buf));
        }
    }
}
