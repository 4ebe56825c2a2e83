//! What happens on a client's connection: reads heads, runs requests, writes what they say, and takes the next.

use std::{
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
};

use bstr::ByteSlice;
use tidegate_http::{BadRequest, Method, Parsed, RequestHead, parse_request, proxy_protocol::parse_proxy_header};
use tidegate_net::{
    service::{Conversation, Opening, Service},
    session::{End, Wait},
};

use crate::{
    clock,
    conf::Config,
    connection::Connection,
    http_core::Conf as HttpConf,
    log::{Level, SysError},
    output::Progress,
    phase::{self, LateLog, LocalFuture, Ready},
    request::Request,
    transfer::OutputQueue,
    worker::{self, Worker},
};

/// Output of pipelined requests that comes together before it is written.
const PIPELINE_BYTES_MAX: u64 = 64 << 10;

/// A part of a head that has become longer than this is parsed, whether its line has ended or not.
const PARKED_BYTES_MAX: usize = 1024;

/// The outcome of reading a head.
enum Head {
    Complete(Rc<Request>),
    Bad(Rc<Request>, BadRequest),
    /// The rest does not come; the request has what came of its head.
    Unfinished(Rc<Request>, Cause),
    /// Nothing came for a while.
    Idle,
    End,
}

/// Why the rest of a head does not come.
enum Cause {
    /// The client is too slow.
    TimedOut,
    /// The client has closed its end.
    Closed,
    /// The socket failed.
    Failed(io::Error),
}

/// HTTP at an address.
pub(crate) struct HttpPort {
    config: Arc<Config>,
    /// Position of the address among the configuration's.
    listen: usize,
}

impl HttpPort {
    /// HTTP as `config` has it, at its address of this position.
    pub(crate) fn new(config: Arc<Config>, listen: usize) -> Self {
        HttpPort { config, listen }
    }
}

impl Service for HttpPort {
    fn begin(&self, worker: &Rc<Worker>, opening: Opening) {
        worker.start(Connection::new(opening, self.config.clone()));
    }
    fn head_timeout_ms(&self) -> u64 {
        self.config.default_http(self.listen).client_header_timeout_ms()
    }
    /// Parsing what ends no line would come to nothing.
    fn stays_parked(&self, input: &[u8], before: usize) -> bool {
        input.len() < PARKED_BYTES_MAX && memchr::memchr(b'\n', &input[before..]).is_none()
    }
}

impl Conversation for Connection {
    async fn converse(self: &Rc<Self>, worker: &Rc<Worker>) -> End {
        serve(self, worker).await
    }
    fn park(self) -> Opening {
        Connection::park(self)
    }
}

/// Serves a connection until it ends, or nothing has happened on it for a while. A panic outside of a request's handlers ends the connection, not the worker.
async fn serve(conn: &Rc<Connection>, worker: &Rc<Worker>) -> End {
    let mut serving = std::pin::pin!(serve_to_end(conn, worker));
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(panic) => {
            let message = format_args!("connection handler panicked: {}", panic_text(&*panic));
            crate::error_log::write_for_connection(conn, Level::Alert, message);
            conn.mark_broken();
            conn.stream.shutdown();
            Poll::Ready(End::Closed)
        }
    })
    .await
}

/// Serves a connection until it ends, or nothing has happened on it for a while.
async fn serve_to_end(conn: &Rc<Connection>, worker: &Rc<Worker>) -> End {
    let mut end = End::Closed;
    if read_proxy_header(conn).await {
        loop {
            match serve_one(conn, worker).await {
                Next::Request => {}
                Next::Close => break,
                Next::Park => {
                    end = End::Idle;
                    break;
                }
            }
        }
    }
    if end == End::Closed {
        close(conn).await;
    }
    conn.release();
    end
}

/// Reads the header of the PROXY protocol, where one is expected; `false` when it does not come or is malformed.
async fn read_proxy_header(conn: &Rc<Connection>) -> bool {
    let expected = conn.config().listens.get(conn.port).is_some_and(|listen| listen.proxy_protocol);
    if !expected || conn.proxy_header.get().is_some() {
        return true;
    }
    let core = conn.config().default_http(conn.port);
    loop {
        // All of it is to come in time, however small the pieces.
        let elapsed_ms = clock::now_ms().saturating_sub(conn.accepted_ms);
        let left_ms = core.client_header_timeout_ms().saturating_sub(elapsed_ms).max(1);
        match conn.read_more(left_ms).await {
            Ok(1..) => clock::update(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let message = format_args!("client timed out (110: Connection timed out) while reading PROXY protocol");
                crate::error_log::write_for_connection(conn, Level::Info, message);
                conn.timed_out.set(true);
                return false;
            }
            _ => return false,
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
                conn.set_fresh(conn.input.borrow().is_empty());
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
    Park,
    Close,
}

async fn serve_one(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Next {
    let req = match read_head(conn, worker).await {
        Head::Complete(req) => req,
        Head::Bad(req, bad) => {
            req.log(Level::Info, format_args!("{bad} while {}", bad.action()));
            req.flags().malformed.set(true);
            run(conn, &req, |req| phase::reject(req, bad.status())).await;
            return end(conn, req).await;
        }
        Head::Unfinished(req, cause) => {
            give_up_head(conn, &req, &cause);
            return end(conn, req).await;
        }
        Head::End => return Next::Close,
        Head::Idle => return Next::Park,
    };
    run(conn, &req, phase::run).await;
    let is_left = leave(&req);
    if conn.is_broken() {
        return end(conn, req).await;
    }
    let idle_timeout_ms = req.keepalive_conf().timeout_ms();
    let keep_alive = req.flags().keep_alive.get() && !worker.is_quitting() && idle_timeout_ms > 0;
    if !keep_alive {
        return end(conn, req).await;
    }
    conn.idle_timeout_ms.set(idle_timeout_ms);
    let timeout_ms = send_timeout_ms(&req);
    if !req.body.is_consumed() && !matches!(req.discard_buffered_body(), Ok(true)) {
        // The client may wait for the answer before it sends the rest.
        if conn.flush(timeout_ms).await.is_err() || req.discard_body().await.is_err() {
            return end(conn, req).await;
        }
    }
    // A client that sends requests ahead gets the answers together.
    let pipelined = !conn.input.borrow().is_empty();
    let may_wait = pipelined && conn.unsent_bytes() < PIPELINE_BYTES_MAX;
    if !(may_wait || conn.flush_now()) && conn.flush(timeout_ms).await.is_err() {
        return end(conn, req).await;
    }
    if req.files_conf().tcp_nodelay != Some(false) {
        conn.set_nodelay();
    }
    if !is_left {
        recycle(req);
    }
    Next::Request
}

/// Logs a request whose head was never complete. The client gets no response: it is too slow to read one, or has gone.
#[cold]
fn give_up_head(conn: &Connection, req: &Rc<Request>, cause: &Cause) {
    let part = if req.head.borrow().has_request_line() { "headers" } else { "line" };
    let log = |what: std::fmt::Arguments<'_>| {
        req.log(Level::Info, format_args!("{what} while reading client request {part}"));
    };
    let status = match cause {
        Cause::TimedOut => {
            log(format_args!("client timed out (110: Connection timed out)"));
            conn.timed_out.set(true);
            408
        }
        Cause::Closed => {
            log(format_args!("client prematurely closed connection"));
            400
        }
        Cause::Failed(error) => {
            log(format_args!("recv() failed {}", SysError(error)));
            400
        }
    };
    req.response.borrow_mut().status = status;
    phase::log(req);
    conn.mark_broken();
}

/// Gives the memory of a request that is over to those that come.
fn recycle(req: Rc<Request>) {
    // While it is whole: what is dropped may look at the request.
    req.forget_contexts();
    worker::give_request(req);
}

/// Ends what a request keeps, unless log handlers still run: then the request is left to them, and `true`.
fn leave(req: &Rc<Request>) -> bool {
    let is_left = req.find_lasting_context::<LateLog>().is_some_and(|late_log| late_log.take_over());
    if !is_left {
        req.end_lasting_contexts();
    }
    is_left
}

/// Ends a connection with its last response.
async fn end(conn: &Rc<Connection>, req: Rc<Request>) -> Next {
    let flushed = !conn.is_broken() && conn.flush(send_timeout_ms(&req)).await.is_ok();
    match conn.send_errno.take() {
        0 => {}
        errno => report_send_error(&req, errno),
    }
    let conf = req.keepalive_conf();
    if conn.timed_out.get() && conf.resets_timed_out() {
        conn.stream.reset_on_close();
        conn.kept.set(false);
    } else if flushed && conf.lingers(!req.body.is_consumed() || !conn.input.borrow().is_empty()) {
        linger(conn, &req).await;
    }
    if !leave(&req) {
        recycle(req);
    }
    Next::Close
}

/// Runs a request to its end; a panic inside ends the request, not the worker.
async fn run(conn: &Rc<Connection>, req: &Rc<Request>, start: impl FnOnce(&Rc<Request>) -> Ready<()>) {
    // The answers to requests that came with this one.
    let owes = conn.unsent_bytes() > 0;
    match catch_unwind(AssertUnwindSafe(|| start(req))) {
        Ok(Ready::Now(())) => {}
        Ok(Ready::Later(future)) => drive(conn, req, future, owes).await,
        Err(panic) => report_panic(req, &*panic),
    }
}

/// Polls a waiting request; meanwhile output that was flushed goes out. `owes`: so do answers to earlier requests, which
/// are not to wait with this one.
async fn drive(conn: &Rc<Connection>, req: &Rc<Request>, mut future: LocalFuture<()>, mut owes: bool) {
    // Runs while `limit_rate` wants a pause.
    let mut pause: Option<Pin<Box<tokio::time::Sleep>>> = None;
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            // Time has passed.
            clock::update();
        }
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Ready(())) => return Poll::Ready(()),
            Ok(Poll::Pending) => {}
            Err(panic) => {
                report_panic(req, &*panic);
                return Poll::Ready(());
            }
        }
        let mut output = conn.output.borrow_mut();
        output.flush |= std::mem::take(&mut owes);
        while output.flush && !conn.is_broken() && output.poll_read(cx).is_ready() {
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
            if let Err(error) = output.write_to(conn) {
                conn.send_failed(&error);
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

/// Clients that go away are everyday life, so this is for those who look.
#[cold]
fn report_send_error(req: &Request, errno: i32) {
    let error = io::Error::from_raw_os_error(errno);
    let what = if errno == libc::ETIMEDOUT { "client timed out" } else { "writev() failed" };
    req.log(Level::Info, format_args!("{what} {} while sending response to client", SysError(&error)));
}

/// What `future` comes to; a panic inside ends the request, not the worker: `None`.
pub(crate) async fn catch_panic<T>(req: &Rc<Request>, mut future: LocalFuture<T>) -> Option<T> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(panic) => {
            report_panic(req, &*panic);
            Poll::Ready(None)
        }
    })
    .await
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("unknown cause")
}

#[cold]
fn report_panic(req: &Rc<Request>, panic: &(dyn std::any::Any + Send)) {
    req.log(Level::Alert, format_args!("request handler panicked: {}", panic_text(panic)));
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

/// A request for `conn`.
fn begin_request(conn: &Rc<Connection>, worker: &Worker) -> Rc<Request> {
    worker.count_request();
    let mut req = worker::take_request();
    unshared(&mut req).attach(conn.clone());
    req
}

/// Reads the next head.
async fn read_head(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Head {
    let first = conn.requests.get() == 0;
    let core = conn.config().default_http(conn.port);
    let waits = conn.input.borrow().is_empty();
    let pipelined = !waits && !first && conn.head_since_ms.get() == 0;
    if waits && let Err(head) = begin_to_read(conn, worker, core, first).await {
        return head;
    }
    // Without a wait too: the head may have come with the header of the PROXY protocol.
    conn.request_has_come();
    let mut req = begin_request(conn, worker);
    if conn.head_since_ms.get() == 0 {
        conn.head_since_ms.set(clock::now_ms());
    }
    req.start_ms.set(conn.head_since_ms.get());
    loop {
        req = match parse_head(conn, req, core, pipelined) {
            Ok(head) => return head,
            Err(req) => req,
        };
        // Whoever has sent a part of a request may wait for the answers to those before it.
        if conn.unsent_bytes() > 0 {
            let has_more = matches!(conn.read_more_now(), Poll::Ready(Ok(1..)));
            if !has_more && conn.flush(core.send_timeout_ms()).await.is_err() {
                return Head::End;
            }
            continue;
        }
        req = match read_rest(conn, worker, core, req).await {
            Ok(req) => req,
            Err(head) => return head,
        };
    }
}

/// Waits for the first bytes of a head; an error is what reading it comes to without them.
async fn begin_to_read(conn: &Rc<Connection>, worker: &Worker, core: &HttpConf, first: bool) -> Result<(), Head> {
    // Whoever has just connected is about to ask, and would take a closed connection for a failure.
    conn.await_request(!first);
    let timeout_ms = if first { core.client_header_timeout_ms() } else { conn.idle_timeout_ms.get() };
    let waiting = worker.waiting();
    let read = conn.read_more(timeout_ms).await;
    drop(waiting);
    conn.end_await();
    match read {
        Ok(1..) => Ok(()),
        Err(_) if conn.take_parking() => Err(Head::Idle),
        end => {
            note_end_of_wait(conn, first, &end);
            Err(Head::End)
        }
    }
}

/// Waits for more bytes of a head of which a part has come; an error is what reading it comes to without them.
async fn read_rest(
    conn: &Rc<Connection>,
    worker: &Worker,
    core: &HttpConf,
    mut req: Rc<Request>,
) -> Result<Rc<Request>, Head> {
    let elapsed_ms = clock::now_ms().saturating_sub(req.start_ms.get());
    let left_ms = core.client_header_timeout_ms().saturating_sub(elapsed_ms).max(1);
    let reading = worker.reading();
    conn.await_rest();
    let read = conn.read_more(left_ms).await;
    conn.end_await();
    drop(reading);
    let cause = match read {
        Ok(1..) => {
            clock::update();
            return Ok(req);
        }
        Err(_) if conn.take_parking() => {
            // It will be parsed again, from its beginning.
            worker::give_request(req);
            return Err(Head::Idle);
        }
        Ok(_) => Cause::Closed,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Cause::TimedOut,
        Err(error) => Cause::Failed(error),
    };
    unshared(&mut req).head.get_mut().end_early();
    begin_unfinished(&mut req);
    Err(Head::Unfinished(req, cause))
}

/// Makes a request of the head that has been read; gives `req` back, and makes room for more, where that is only a part.
fn parse_head(conn: &Connection, mut req: Rc<Request>, core: &HttpConf, pipelined: bool) -> Result<Head, Rc<Request>> {
    let limits = core.head_limits();
    skip_blank_lines(&mut conn.input.borrow_mut());
    let head = unshared(&mut req).head.get_mut();
    let parsed = parse_request(&conn.input.borrow(), &limits, &core.head_options(), head);
    match parsed {
        Ok(Parsed::Complete(consumed)) => {
            conn.consume_input(consumed);
            let begun = begin(&mut req);
            req.flags().pipelined.set(pipelined);
            note_ignored_lines(&req);
            Ok(match begun {
                Ok(()) => Head::Complete(req),
                Err(bad) => Head::Bad(req, bad),
            })
        }
        Ok(Parsed::Partial) => {
            let mut input = conn.input.borrow_mut();
            if input.len() == input.capacity() {
                let more = limits.large_buffer_bytes.max(input.capacity());
                input.reserve(more);
            }
            Err(req)
        }
        Err(bad) => {
            head.keep_bad_line(&conn.input.borrow());
            begin_unfinished(&mut req);
            Ok(Head::Bad(req, bad))
        }
    }
}

/// A request that nobody else has yet.
fn unshared(req: &mut Rc<Request>) -> &mut Request {
    Rc::get_mut(req).expect("nobody else has the request yet")
}

/// Drops empty lines ahead of a request, however many: they take no room, and time is limited.
#[inline]
fn skip_blank_lines(input: &mut Vec<u8>) {
    if let Some(b'\r' | b'\n') = input.first() {
        let count = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        input.drain(..count);
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
            let message = format_args!("client {} closed keepalive connection", conn.peer);
            log.write(Level::Info, Some(conn.number), message, |_| ());
        }
        Err(error) if first && error.kind() == io::ErrorKind::TimedOut => {
            for_connection(format_args!("client timed out (110: Connection timed out) while waiting for request"));
        }
        Err(_) => {}
    }
}

/// Makes a request of the head that was read into it: server, URI, body framing.
fn begin(req: &mut Rc<Request>) -> Result<(), BadRequest> {
    let request = unshared(req);
    request.count();
    let conn = &request.conn;
    conn.head_since_ms.set(0);
    conn.throttle.set(None);
    let head: &mut RequestHead = request.head.get_mut();
    request.method.set(head.method);
    let uri = request.uri.get_mut();
    uri.path.extend_from_slice(head.path());
    uri.args.extend_from_slice(head.args());
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

/// Makes a request of a head that was not complete, for its response and the log.
fn begin_unfinished(req: &mut Rc<Request>) {
    // Its end is decided already.
    let _ = begin(req);
    let uri = unshared(req).uri.get_mut();
    if uri.path.is_empty() {
        // Of a target that makes no sense nothing is known but its text.
        uri.args.clear();
    }
}

/// Reads what a client still sends after an answer that it did not wait for, so that the answer is not lost to a reset.
///
/// Source: nginx, `lingering_close`.
async fn linger(conn: &Rc<Connection>, req: &Rc<Request>) {
    conn.stream.shutdown_write();
    let mut buf = vec![0u8; 4096];
    loop {
        clock::update();
        let Some(pause_ms) = req.lingering_pause_ms() else { return };
        match conn.readable(pause_ms).await {
            Ok(Wait::Ready(())) => {}
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
    if conn.kept.get() {
        conn.stream.shutdown();
    }
}
