//! A client's connection: reads heads, runs requests, writes what they say, and takes the next.
//!
//! While a connection is idle it holds no buffers and no request: they go back to the worker and are taken again when
//! bytes arrive.

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bstr::ByteSlice;
use tidegate_http::{
    BadRequest, Method, Parsed, RequestHead, parse_request,
    proxy_protocol::{ProxyHeader, parse_proxy_header},
};

use crate::{
    clock,
    conf::{Config, ServerId},
    limit_rate::Throttle,
    log::Level,
    output::Progress,
    phase::{self, LocalFuture, Ready},
    request::Request,
    stream::Stream,
    transfer::OutputQueue,
    worker::Worker,
};

/// How long a worker that shuts down waits for the first byte of a connection that it has accepted: long enough for a
/// client far away, short enough for those who wait for the shutdown.
const FRESH_WAIT_MS_MAX: u64 = 2000;

/// A client whose last answer is no older than this may be sending its next request right now.
const BUSY_IDLE_MS_MAX: u64 = 1000;

/// How long a worker that shuts down waits for that request: a client that finds the connection closed would take it for
/// a failure.
const BUSY_WAIT_MS: u64 = 400;

/// How long a connection keeps its buffers while it waits for the next request: a busy one never gives them back.
const RELEASE_MS: u64 = 50;

/// Output of pipelined requests that comes together before it is written.
const PIPELINE_BYTES_MAX: u64 = 64 << 10;

/// Address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// An IP address with port.
    Inet(SocketAddr),
    /// A unix domain socket.
    Unix,
}

/// A client's connection.
pub struct Connection {
    /// Number, unique in the process: `$connection`.
    pub number: u64,
    /// The socket.
    pub stream: Stream,
    /// The client: who the socket says it is, or for one request who a trusted proxy says it is (`realip`).
    pub peer: Cell<Peer>,
    /// Who the socket says the client is.
    pub socket_peer: Peer,
    // Few have one, and an idle connection is to be small.
    proxy_header: OnceCell<Box<ProxyHeader>>,
    /// Our end.
    pub local: Peer,
    /// Position of the address among the configuration's.
    pub listen: usize,
    /// Requests so far: `$connection_requests`.
    pub requests: Cell<u64>,
    /// When it was accepted, in milliseconds of [`clock::now_ms`].
    pub accepted_ms: u64,
    /// Bytes written.
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
    idle: Cell<bool>,
    /// It waits for the first byte of a head.
    waits_for_head: Cell<bool>,
    /// The worker has too many, and chose this one to go.
    surplus: Cell<bool>,
    /// Small packets are sent at once.
    nodelay: Cell<bool>,
    /// When it became idle, in milliseconds.
    idle_since_ms: Cell<u64>,
    /// Since when it waits for a head, in milliseconds; 0 while it does not.
    waiting_since_ms: Cell<u64>,
    /// The request of before, to be used again. It refers back to the connection: see [`Connection::release`].
    spare: RefCell<Option<Rc<Request>>>,
    closing: Cell<bool>,
    /// How long it may wait for the next request: what the last one's location says.
    idle_timeout_ms: Cell<u64>,
    /// It ends because the client was too slow, or is not wanted: `reset_timedout_connection`.
    pub(crate) timed_out: Cell<bool>,
}

/// What became of a wait.
#[derive(Debug)]
pub enum Wait {
    /// What was waited for.
    Ready,
    /// It took too long.
    TimedOut,
    /// The connection is to be closed.
    Closing,
}

impl Connection {
    pub(crate) fn new(stream: Stream, peer: Peer, local: Peer, listen: usize, config: Arc<Config>) -> Rc<Self> {
        Rc::new(Connection {
            number: crate::worker::next_connection_number(),
            stream,
            peer: Cell::new(peer),
            socket_peer: peer,
            proxy_header: OnceCell::new(),
            local,
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
            waiting_since_ms: Cell::new(0),
            spare: RefCell::new(None),
            closing: Cell::new(false),
            idle_timeout_ms: Cell::new(0),
            timed_out: Cell::new(false),
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
    /// Our end, with the address that the client connected to where the socket listens on all.
    pub fn local_addr(&self) -> Peer {
        match (&self.stream, self.local) {
            (Stream::Tcp(socket), Peer::Inet(address)) if address.ip().is_unspecified() => {
                socket.local_addr().map_or(self.local, Peer::Inet)
            }
            _ => self.local,
        }
    }
    /// The address of the listening socket, as the configuration has it.
    pub fn listen_addr(&self) -> Option<&crate::sockets::ListenAddr> {
        self.config.listens.get(self.listen).map(|listen| &listen.spec.addr)
    }
    /// The server for names that no other has.
    pub fn default_server(&self) -> ServerId {
        self.config.listens.get(self.listen).map_or(ServerId(0), |listen| listen.default)
    }
    /// Whether nothing more can be written.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }
    /// Gives the connection up: nothing more is written, and it is closed when its request has ended.
    pub fn mark_broken(&self) {
        self.broken.set(true);
    }

    /// Ends the connection as soon as it is idle; called when the worker shuts down.
    pub(crate) fn close_when_idle(&self) {
        self.closing.set(true);
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
        self.idle.set(true);
        self.wake();
    }
    /// Whether it was [given up](Self::give_up).
    pub(crate) fn is_surplus(&self) -> bool {
        self.surplus.get()
    }
    /// Since when it does, in milliseconds.
    pub(crate) fn idle_since_ms(&self) -> u64 {
        self.idle_since_ms.get()
    }
    /// Whether not a byte of a request has come yet.
    fn is_fresh(&self) -> bool {
        self.requests.get() == 0 && self.input.borrow().is_empty()
    }
    /// Wakes the connection when its wait is over, and takes from one that waits what it does not need; called a few
    /// times a second.
    pub(crate) fn check_deadline(&self, now_ms: u64, worker: &Worker) {
        let since_ms = self.waiting_since_ms.get();
        if since_ms != 0 && now_ms.saturating_sub(since_ms) >= RELEASE_MS {
            self.waiting_since_ms.set(0);
            self.release(worker);
        }
        let deadline_ms = self.deadline_ms.get();
        if deadline_ms != 0 && now_ms >= deadline_ms {
            self.deadline_ms.set(0);
            self.expired.set(true);
            self.wake();
        }
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
    async fn wait(
        &self,
        timeout_ms: u64,
        mut poll: impl FnMut(&Stream, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> io::Result<Wait> {
        let mut armed = false;
        let result = poll_fn(|cx| {
            if let Poll::Ready(result) = poll(&self.stream, cx) {
                return Poll::Ready(result.map(|()| Wait::Ready));
            }
            if self.closing.get() && self.idle.get() {
                return Poll::Ready(Ok(Wait::Closing));
            }
            if self.expired.replace(false) {
                return Poll::Ready(Ok(Wait::TimedOut));
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
        self.deadline_ms.set(0);
        self.expired.set(false);
        result
    }

    /// Waits until there is something to read.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn readable(&self, timeout_ms: u64) -> io::Result<Wait> {
        self.wait(timeout_ms, Stream::poll_read_ready).await
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
                    self.broken.set(true);
                    return Err(error);
                }
            }
            if self.output.borrow_mut().take_turn_end() {
                tokio::task::yield_now().await;
                clock::update();
                continue;
            }
            if let Some(pause) = self.pause() {
                tokio::time::sleep(pause).await;
                clock::update();
                continue;
            }
            if let Wait::TimedOut = self.wait(timeout_ms, Stream::poll_write_ready).await? {
                self.broken.set(true);
                self.timed_out.set(true);
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// How many bytes may be written now.
    pub(crate) fn room(&self) -> u64 {
        self.throttle.get().map_or(u64::MAX, |throttle| throttle.room(self.sent.get()))
    }
    /// How long to wait until something may be written; `None` when it may be now.
    fn pause(&self) -> Option<Duration> {
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
        loop {
            match self.readable(timeout_ms).await? {
                Wait::Ready => {}
                Wait::TimedOut => return Err(io::ErrorKind::TimedOut.into()),
                Wait::Closing => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
            let mut input = self.input.borrow_mut();
            if input.capacity() == 0 {
                *input = crate::worker::take_buffer();
            }
            match self.stream.try_read_buf(&mut *input) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
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

    /// Gives buffers and the spare request back to the worker.
    fn release(&self, worker: &Worker) {
        if let Some(req) = self.spare.take() {
            worker.give_request(req);
        }
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

/// What reading a head came to.
enum Head {
    Complete(Rc<Request>),
    Bad(Rc<Request>, BadRequest),
    TimedOut(Option<Rc<Request>>),
    End,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(conn: Rc<Connection>, worker: Rc<Worker>) {
    if read_proxy_header(&conn).await {
        while let Next::Request = serve_one(&conn, &worker).await {}
    }
    close(&conn).await;
    conn.release(&worker);
}

/// Reads the header of the PROXY protocol, where one is expected; `false` when it does not come or is malformed.
async fn read_proxy_header(conn: &Rc<Connection>) -> bool {
    if !conn.config().listens.get(conn.listen).is_some_and(|listen| listen.proxy_protocol) {
        return true;
    }
    let server_level = conn.config().servers[conn.default_server().0 as usize].level;
    let core = conn.config().levels[server_level.0 as usize].conf(&crate::http_core::MODULE);
    loop {
        if !matches!(conn.read_more(core.client_header_timeout_ms()).await, Ok(1..)) {
            return false;
        }
        let parsed = parse_proxy_header(&conn.input.borrow());
        match parsed {
            Ok(None) => {
                let mut input = conn.input.borrow_mut();
                if input.len() == input.capacity() {
                    input.reserve(core.head_limits().large_buffer_bytes);
                }
            }
            Ok(Some((header, used))) => {
                conn.consume_input(used);
                let _ = conn.proxy_header.set(Box::new(header));
                return true;
            }
            Err(error) => {
                let input = conn.input.borrow();
                let message = format_args!("{error}: \"{}\" while reading PROXY protocol", input.as_bstr());
                crate::error_log::write_for_connection(conn, Level::Error, message);
                return false;
            }
        }
    }
}

/// Whether a connection goes on.
enum Next {
    Request,
    Close,
}

async fn serve_one(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Next {
    let req = match read_head(conn, worker).await {
        Head::Complete(req) => req,
        Head::Bad(req, bad) => {
            req.log(Level::Info, format_args!("{bad} while {}", bad.action()));
            req.flags().malformed.set(true);
            run(conn, &req, |req| phase::reject(req, bad.status())).await;
            return end(conn, &req).await;
        }
        Head::TimedOut(Some(req)) => {
            req.log(
                Level::Info,
                format_args!("client timed out (110: Connection timed out) while reading client request headers"),
            );
            conn.timed_out.set(true);
            // Somebody this slow is not told; the access log shows it.
            req.response.borrow_mut().status = 408;
            phase::log(&req);
            conn.mark_broken();
            return end(conn, &req).await;
        }
        Head::TimedOut(None) | Head::End => return Next::Close,
    };
    run(conn, &req, phase::run).await;
    req.end_lasting_contexts();
    if conn.is_broken() {
        return end(conn, &req).await;
    }
    let idle_timeout_ms = req.keepalive_conf().timeout_ms();
    let keep_alive = req.flags().keep_alive.get() && !worker.is_quitting() && idle_timeout_ms > 0;
    if !keep_alive {
        return end(conn, &req).await;
    }
    conn.idle_timeout_ms.set(idle_timeout_ms);
    let timeout_ms = send_timeout_ms(&req);
    if !req.body.is_consumed() && !matches!(req.discard_buffered_body(), Ok(true)) {
        // The client may wait for the answer before it sends the rest.
        if conn.flush(timeout_ms).await.is_err() || req.discard_body().await.is_err() {
            return end(conn, &req).await;
        }
    }
    // A client that sends requests ahead gets the answers together.
    let pipelined = !conn.input.borrow().is_empty();
    if !(pipelined && conn.unsent_bytes() < PIPELINE_BYTES_MAX) && conn.flush(timeout_ms).await.is_err() {
        return end(conn, &req).await;
    }
    if !conn.nodelay.get() && req.files_conf().tcp_nodelay != Some(false) {
        conn.nodelay.set(true);
        conn.stream.set_nodelay();
    }
    req.forget_contexts();
    *conn.spare.borrow_mut() = Some(req);
    Next::Request
}

/// Ends a connection with its last response.
async fn end(conn: &Rc<Connection>, req: &Rc<Request>) -> Next {
    let flushed = !conn.is_broken() && conn.flush(send_timeout_ms(req)).await.is_ok();
    let conf = req.keepalive_conf();
    if conn.timed_out.get() && conf.resets_timed_out() {
        conn.stream.reset_on_close();
    } else if flushed && conf.lingers(!req.body.is_consumed() || !conn.input.borrow().is_empty()) {
        linger(conn, req).await;
    }
    req.forget_contexts();
    // The worker gets it back with the rest.
    *conn.spare.borrow_mut() = Some(req.clone());
    Next::Close
}

/// Runs a request to its end; a panic inside ends the request, not the worker.
async fn run(conn: &Rc<Connection>, req: &Rc<Request>, start: impl FnOnce(&Rc<Request>) -> Ready<()>) {
    match catch_unwind(AssertUnwindSafe(|| start(req))) {
        Ok(Ready::Now(())) => {}
        Ok(Ready::Later(future)) => drive(conn, req, future).await,
        Err(panic) => report_panic(req, &*panic),
    }
}

/// Polls a waiting request; meanwhile output that was flushed goes out.
async fn drive(conn: &Rc<Connection>, req: &Rc<Request>, mut future: LocalFuture<()>) {
    // Runs while `limit_rate` wants a pause.
    let mut pause: Option<Pin<Box<tokio::time::Sleep>>> = None;
    poll_fn(|cx| {
        // Time has passed while the request waited.
        clock::update();
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(())) => return Poll::Ready(()),
            Ok(Poll::Pending) => {}
            Err(panic) => {
                report_panic(req, &*panic);
                return Poll::Ready(());
            }
        }
        let mut output = conn.output.borrow_mut();
        while output.flush && !conn.is_broken() {
            if let Some(time) = conn.pause() {
                let sleep = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                if sleep.as_mut().poll(cx).is_pending() {
                    break;
                }
                pause = None;
                continue;
            }
            if conn.stream.poll_write_ready(cx).is_pending() {
                break;
            }
            if output.write_to(conn).is_err() {
                conn.mark_broken();
            }
            if output.take_turn_end() {
                cx.waker().wake_by_ref();
                break;
            }
        }
        Poll::Pending
    })
    .await;
}

#[cold]
fn report_panic(req: &Rc<Request>, panic: &(dyn std::any::Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    req.log(Level::Alert, format_args!("request handler panicked: {}", text.unwrap_or("unknown cause")));
    if req.response.borrow().progress == Progress::Open {
        req.flags().keep_alive.set(false);
        // The engine's state is gone, so the page is sent without it.
        let _ = catch_unwind(AssertUnwindSafe(|| req.send_plain_error(500)));
    } else {
        req.close_connection();
    }
}

fn send_timeout_ms(req: &Request) -> u64 {
    req.http_conf().send_timeout_ms()
}

/// Reads the next head. A connection that waits for it holds nothing.
async fn read_head(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Head {
    let first = conn.requests.get() == 0;
    let server_level = conn.config().servers[conn.default_server().0 as usize].level;
    let core = conn.config().levels[server_level.0 as usize].conf(&crate::http_core::MODULE);
    let limits = core.head_limits();
    let options = core.head_options();
    let header_timeout_ms = core.client_header_timeout_ms();
    let waits = conn.input.borrow().is_empty();
    let pipelined = !waits && !first;
    if waits {
        conn.waiting_since_ms.set(clock::now_ms());
        conn.idle_since_ms.set(clock::now_ms());
        conn.waits_for_head.set(true);
        // Whoever has just connected is about to ask, and would take a closed connection for a failure.
        conn.idle.set(!first || conn.surplus.get());
        let timeout_ms = if first { header_timeout_ms } else { conn.idle_timeout_ms.get() };
        let waiting = worker.waiting();
        let read = conn.read_more(timeout_ms).await;
        drop(waiting);
        conn.idle.set(false);
        conn.waiting_since_ms.set(0);
        match read {
            Ok(1..) => {}
            end => {
                note_end_of_wait(conn, first, &end);
                return Head::End;
            }
        }
    }
    // Without a wait too: the head may have come with the header of the PROXY protocol.
    conn.waits_for_head.set(false);
    let mut req = worker.take_request(conn, conn.spare.take());
    let started_ms = clock::now_ms();
    loop {
        let parsed = {
            let request = Rc::get_mut(&mut req).expect("nobody else has the request yet");
            let input = conn.input.borrow();
            parse_request(&input, &limits, &options, request.head.get_mut())
        };
        match parsed {
            Ok(Parsed::Complete(consumed)) => {
                conn.consume_input(consumed);
                let begun = begin(&mut req, started_ms);
                req.flags().pipelined.set(pipelined);
                note_ignored_lines(&req);
                return match begun {
                    Ok(()) => Head::Complete(req),
                    Err(bad) => Head::Bad(req, bad),
                };
            }
            Ok(Parsed::Partial) => {}
            Err(bad) => {
                let request = Rc::get_mut(&mut req).expect("nobody else has the request yet");
                request.head.get_mut().keep_bad_line(&conn.input.borrow());
                let _ = begin(&mut req, started_ms);
                return Head::Bad(req, bad);
            }
        }
        {
            let mut input = conn.input.borrow_mut();
            if input.len() == input.capacity() {
                let more = limits.large_buffer_bytes.max(input.capacity());
                input.reserve(more);
            }
        }
        let elapsed_ms = clock::now_ms().saturating_sub(started_ms);
        let left_ms = header_timeout_ms.saturating_sub(elapsed_ms).max(u64::from(header_timeout_ms > 0));
        let reading = worker.reading();
        let read = conn.read_more(left_ms).await;
        drop(reading);
        match read {
            Ok(1..) => clock::update(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                conn.requests.set(conn.requests.get() + 1);
                return Head::TimedOut(Some(req));
            }
            _ => return Head::End,
        }
    }
}

/// `ignore_invalid_headers`: says what was dropped.
fn note_ignored_lines(req: &Request) {
    for line in req.head.borrow().ignored_lines() {
        let line = line.as_bstr();
        req.log(
            Level::Info,
            format_args!("client sent invalid header line: \"{line}\" while reading client request headers"),
        );
    }
}

/// Nothing came where a head was awaited.
fn note_end_of_wait(conn: &Connection, first: bool, end: &io::Result<usize>) {
    let log = crate::log::main();
    if !log.enabled(Level::Info) {
        return;
    }
    let for_connection = |message| crate::error_log::write_for_connection(conn, Level::Info, message);
    match end {
        Ok(_) if first => for_connection(format_args!("client closed connection while waiting for request")),
        Ok(_) => {
            let message = format_args!("client {} closed keepalive connection", conn.peer.get());
            log.write(Level::Info, Some(conn.number), message, |_| ());
        }
        Err(error) if first && error.kind() == io::ErrorKind::TimedOut => {
            for_connection(format_args!("client timed out (110: Connection timed out) while waiting for request"));
        }
        Err(_) => {}
    }
}

/// Makes a request of the head that was read into it: server, URI, body framing.
fn begin(req: &mut Rc<Request>, started_ms: u64) -> Result<(), BadRequest> {
    let request = Rc::get_mut(req).expect("nobody else has the request yet");
    let conn = &request.conn;
    conn.requests.set(conn.requests.get() + 1);
    request.start_ms.set(started_ms);
    conn.peer.set(conn.socket_peer);
    conn.throttle.set(None);
    let head: &mut RequestHead = request.head.get_mut();
    request.method.set(head.method);
    let uri = request.uri.get_mut();
    uri.path.clear();
    uri.path.extend_from_slice(head.path());
    uri.args.clear();
    uri.args.extend_from_slice(head.args());
    uri.unparsed.clear();
    uri.unparsed.extend_from_slice(head.target());
    request.body.begin(head.content_length, head.chunked);
    let keep_alive = head.keep_alive;
    request.choose_server();
    request.flags().keep_alive.set(keep_alive);
    if request.method.get() == Method::Trace {
        return Err(BadRequest::Trace);
    }
    Ok(())
}

/// Reads what a client still sends after an answer that it did not wait for, so that the answer is not lost to a reset.
///
/// Source: nginx, `lingering_close`.
async fn linger(conn: &Rc<Connection>, req: &Rc<Request>) {
    let conf = req.keepalive_conf();
    let (total_ms, pause_ms) = (conf.lingering_time_ms(), conf.lingering_timeout_ms());
    conn.stream.shutdown_write();
    let end_ms = clock::now_ms() + total_ms;
    let mut buf = vec![0u8; 4096];
    loop {
        clock::update();
        if clock::now_ms() >= end_ms {
            return;
        }
        match conn.readable(pause_ms).await {
            Ok(Wait::Ready) => {}
            _ => return,
        }
        match conn.stream.try_read(&mut buf) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

async fn close(conn: &Rc<Connection>) {
    if !conn.is_broken() && !conn.output.borrow().is_empty() {
        let timeout_ms = 60_000;
        let _ = conn.flush(timeout_ms).await;
    }
    conn.input.borrow_mut().clear();
    *conn.output.borrow_mut() = OutputQueue::default();
}
