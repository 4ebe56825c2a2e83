//! Reading the head of a request, and what a balancer says ahead of it.

use std::{io, rc::Rc, task::Poll};

use bstr::ByteSlice;
use tidegate_http::{BadRequest, Parsed, parse_request, proxy_protocol::parse_proxy_header};

use crate::{
    client::Client,
    clock,
    conf::ServerId,
    connection::Connection,
    http_core::Conf as HttpConf,
    http2,
    lifecycle::{begin, begin_unfinished, note_ignored_lines, unshared},
    log::Level,
    request::Request,
    worker::{self, Worker},
};

/// The outcome of reading a head.
pub(super) enum Head {
    Complete(Rc<Request>),
    Bad(Rc<Request>, BadRequest),
    /// The rest does not come; the request has what came of its head.
    Unfinished(Rc<Request>, Cause),
    /// What came is the preface of HTTP/2, or the part of it that has come.
    Preface,
    /// Nothing came for a while.
    Idle,
    End,
}

/// Why the rest of a head does not come.
pub(super) enum Cause {
    /// The client is too slow.
    TimedOut,
    /// The client has closed its end.
    Closed,
    /// The socket failed.
    Failed(io::Error),
}

/// Reads the header of the PROXY protocol, where one is expected; `false` when it does not come or is malformed.
pub(super) async fn read_proxy_header(conn: &Rc<Connection>) -> bool {
    let expected = conn.config().listens.get(conn.port).is_some_and(|listen| listen.proxy_protocol);
    if !expected || conn.proxy_header.get().is_some() {
        return true;
    }
    let core = conn.config().default_http(conn.port);
    loop {
        // All of it is to come in time, however small the pieces.
        let elapsed_ms = clock::steady_ms().saturating_sub(conn.accepted_ms);
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

/// A request for `conn`.
fn begin_request(conn: &Rc<Connection>, worker: &Worker) -> Rc<Request> {
    worker.count_request();
    let mut req = worker::take_request();
    unshared(&mut req).attach(Client::http1(conn.clone()));
    req
}

/// Calls `read` with a request of the connection that is no client's: for what variables say before there is one. It belongs to
/// `server`.
pub(super) fn with_nobodys_request<T>(conn: &Rc<Connection>, server: ServerId, read: impl FnOnce(&Request) -> T) -> T {
    let mut req = worker::take_request();
    unshared(&mut req).attach(Client::http1(conn.clone()));
    req.set_server(server);
    let result = read(&req);
    req.forget_contexts();
    worker::give_request(req);
    result
}

/// Reads the next head.
pub(super) async fn read_head(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Head {
    let first = conn.requests.get() == 0;
    let core = conn.config().default_http(conn.port);
    let waits = conn.input.borrow().is_empty();
    let pipelined = !waits && !first && conn.head_since_ms.get() == 0;
    if waits && let Err(head) = begin_to_read(conn, worker, core, first).await {
        return head;
    }
    // Without a wait too: the head may have come with the header of the PROXY protocol.
    conn.request_has_come();
    if first && http2::is_preface(conn) {
        conn.head_since_ms.set(0);
        return Head::Preface;
    }
    let mut req = begin_request(conn, worker);
    if conn.head_since_ms.get() == 0 {
        conn.head_since_ms.set(clock::steady_ms());
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
    let elapsed_ms = clock::steady_ms().saturating_sub(req.start_ms.get());
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

/// Drops empty lines ahead of a request, however many: they take no room, and time is limited.
#[inline]
fn skip_blank_lines(input: &mut Vec<u8>) {
    if let Some(b'\r' | b'\n') = input.first() {
        let count = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        input.drain(..count);
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
