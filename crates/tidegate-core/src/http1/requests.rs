//! What happens on a client's connection, request by request: each is read, run and answered, and the next one taken.

use std::{
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    task::Poll,
};

use tidegate_net::session::End;

use super::{
    handshake::{self, shake_hands},
    head::{Cause, Head, read_head, read_proxy_header},
};
use crate::{
    clock,
    connection::Connection,
    http2,
    lifecycle::{leave, recycle},
    lingering::read_on,
    log::{Level, SysError},
    output_queue::OutputQueue,
    panics::{panic_text, report_panic},
    phase::{self, LocalFuture, Ready},
    request::Request,
    waiting::Waiting,
    worker::Worker,
};

/// Output of pipelined requests that comes together before it is written.
const PIPELINE_BYTES_MAX: u64 = 64 << 10;

/// Serves a connection until it ends, or nothing has happened on it for a while. A panic outside of a request's handlers ends the connection, not the worker.
pub(super) async fn serve(conn: &Rc<Connection>, worker: &Rc<Worker>) -> End {
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
    if read_proxy_header(conn).await && shake_hands(conn, worker).await {
        let mut next = if http2::was_agreed(conn) { Next::Http2 } else { Next::Request };
        loop {
            match next {
                Next::Request => next = serve_one(conn, worker).await,
                Next::Http2 => {
                    // Boxed: it is as large as all that HTTP/1 needs.
                    Box::pin(http2::serve(conn, worker)).await;
                    break;
                }
                Next::Close => break,
                Next::Park => {
                    end = End::Idle;
                    break;
                }
            }
        }
    }
    if end == End::Closed {
        close(conn, worker).await;
    }
    conn.release();
    end
}

/// Whether a connection goes on.
enum Next {
    Request,
    /// With another protocol.
    Http2,
    Park,
    Close,
}

async fn serve_one(conn: &Rc<Connection>, worker: &Rc<Worker>) -> Next {
    let req = match read_head(conn, worker).await {
        Head::Complete(req) if conn.lacks_tls() => {
            let message = "client sent plain HTTP request to HTTPS port while reading client request headers";
            req.log(Level::Info, format_args!("{message}"));
            run(conn, &req, |req| phase::reject(req, 497)).await;
            return end(conn, req).await;
        }
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
        Head::Preface => return Next::Http2,
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

/// Ends a connection with its last response.
async fn end(conn: &Rc<Connection>, req: Rc<Request>) -> Next {
    if conn.output.borrow().is_one_write() {
        conn.stream.write_is_last();
    }
    let flushed = !conn.is_broken() && conn.flush(send_timeout_ms(&req)).await.is_ok();
    match conn.send_errno.take() {
        0 => {}
        errno => report_send_error(&req, errno),
    }
    let conf = req.keepalive_conf();
    if conn.timed_out.get() && conf.resets_timed_out() {
        conn.stream.reset_on_close();
        conn.kept.set(false);
    } else if flushed && conf.lingers(!req.body.is_consumed() || !conn.input.borrow().is_empty())
        || conn.tunnel_ended.get() && conf.lingers(true)
    {
        // Source: nginx, `lingering_close`.
        read_on(conn, u64::MAX, || req.lingering_pause_ms()).await;
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
    let _waiting = Waiting::begin(req);
    // Runs while `limit_rate` wants a pause.
    let mut pause: Option<Pin<Box<tokio::time::Sleep>>> = None;
    let mut has_waited = false;
    // Runs while another task may have the socket's wake-up.
    let mut others = None;
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
            if let Some(time) = output.pause() {
                let sleep = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
                if sleep.as_mut().poll(cx).is_pending() {
                    break;
                }
                pause = None;
                continue;
            }
            if conn.is_draining() || conn.stream.poll_write_ready(cx).is_pending() {
                let ended = others.get_or_insert_with(|| Box::pin(conn.drained()));
                if ended.as_mut().poll(cx).is_pending() {
                    break;
                }
                others = None;
                continue;
            }
            if let Err(error) = output.write_to(&conn.stream) {
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

fn send_timeout_ms(req: &Request) -> u64 {
    req.http_conf().send_timeout_ms()
}

async fn close(conn: &Rc<Connection>, worker: &Worker) {
    if !conn.is_broken() && conn.unsent_bytes() > 0 {
        let timeout_ms = 60_000;
        let _ = conn.flush(timeout_ms).await;
    }
    if !conn.is_broken() {
        handshake::complete(conn, worker).await;
    }
    if !conn.is_broken() {
        conn.stream.say_farewell();
    }
    conn.input.borrow_mut().clear();
    *conn.output.borrow_mut() = OutputQueue::default();
    if conn.kept.get() {
        conn.stream.shutdown();
    }
}
