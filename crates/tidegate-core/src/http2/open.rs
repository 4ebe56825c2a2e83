//! From a header block to a request that runs.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tidegate_http::{
    BadRequest, HeadLimits, HeadOptions, Parsed,
    http2::{ErrorCode, head::HeadText},
    parse_request,
};
use tidegate_net::counters::COUNTERS;

use super::{
    input::{Farewell, Fault, Input},
    stream::Stream,
};
use crate::{
    client::Client,
    clock,
    connection::Connection,
    http2_settings::is_on,
    lifecycle::{begin, begin_unfinished, leave, note_ignored_lines, recycle, unshared},
    log::Level,
    panics::{catch_panic, report_panic},
    phase::{self, LocalFuture, Ready},
    request::Request,
    waiting::Waiting,
    worker::{self, Worker},
};

/// Opens a stream whose header block has been read into `input.head`.
///
/// A malformed one is answered with 400, and the stream is reset behind that (RFC 9113, section 8.1.1).
pub(super) fn open(
    input: &mut Input,
    id: u32,
    head_bytes: usize,
    end_stream: bool,
    worker: &Rc<Worker>,
) -> Result<(), Fault> {
    if !has_place(input, id) {
        return Ok(());
    }
    let stream = Stream::new(&input.mux, id, head_bytes, end_stream);
    input.begin_priority(&stream);
    if input.head.is_extended_connect() {
        add_websocket_key(&mut input.head);
    }
    let finished = input.head.finish();
    stream.is_tunnel.set(finished.is_ok() && input.head.is_extended_connect());
    let (req, verdict) = read_head(&input.mux.conn, &stream, &input.head, &input.limits, worker);
    let length = req.head.borrow().content_length;
    let malformed = match finished {
        Err(malformed) => {
            req.log(Level::Info, format_args!("{malformed} while reading client request headers"));
            true
        }
        Ok(()) if end_stream && length.is_some_and(|length| length > 0) => {
            req.log(Level::Info, format_args!("client prematurely closed stream"));
            true
        }
        Ok(()) => false,
    };
    if malformed {
        stream.note_fault(ErrorCode::ProtocolError);
    }
    stream.promised.set(length);
    // What comes on a tunnel is no body.
    begin_body(&req, end_stream || malformed || stream.is_tunnel.get());
    input.mux.add(stream.clone());
    limit_requests(input, &req);
    match verdict {
        _ if malformed => refuse(&stream, req, worker, 400),
        Ok(()) if !is_served(&input.mux.conn, &req) => {
            req.log(
                Level::Info,
                format_args!("client attempted to request a server name for which HTTP/2 is not enabled"),
            );
            run(&stream, req, worker, |req| phase::reject(req, 421));
        }
        Ok(()) => run(&stream, req, worker, phase::run),
        Err(bad) => {
            req.log(Level::Info, format_args!("{bad} while {}", bad.action()));
            refuse(&stream, req, worker, bad.status());
        }
    }
    input.head.release();
    Ok(())
}

/// Whether there is a place for one more stream. A client that is told otherwise knows that nothing was done for it.
fn has_place(input: &mut Input, id: u32) -> bool {
    if input.farewell == Farewell::Final {
        // The client learns it from GOAWAY.
        return false;
    }
    if input.mux.count() >= input.streams_max {
        COUNTERS.http2_refused.fetch_add(1, Relaxed);
        input.note(format_args!("concurrent streams exceeded {}", input.streams_max));
        input.mux.queue_reset(id, ErrorCode::RefusedStream);
        input.note_refusal();
        return false;
    }
    if input.mux.count_all() >= input.streams_max {
        input.mux.cut_oldest();
    }
    true
}

/// Answers a request that cannot be understood.
fn refuse(stream: &Rc<Stream>, req: Rc<Request>, worker: &Rc<Worker>, status: u16) {
    req.flags().malformed.set(true);
    run(stream, req, worker, move |req| phase::reject(req, status));
}

/// Says how the body of a request ends; `ended`: it has none.
fn begin_body(req: &Request, ended: bool) {
    let length = req.head.borrow().content_length;
    req.body.begin_stream(length, ended);
    if !ended && length.is_none() {
        // Whoever asks how long it is hears what a body in chunks would make him hear. Source: nginx, `ngx_http_v2_run_request`.
        req.head.borrow_mut().chunked = true;
    }
}

/// Whether the server that the client names speaks HTTP/2.
fn is_served(conn: &Connection, req: &Request) -> bool {
    is_on(req.level()) || conn.listens_http2()
}

/// Gives a request for another protocol on its stream the key that servers of HTTP/1 want.
fn add_websocket_key(head: &mut HeadText) {
    let mut key = [0; 16];
    // It is no secret; whatever it is, the server behind takes it.
    let _ = getrandom::fill(&mut key);
    head.add_websocket_key(BASE64_STANDARD.encode(key).as_bytes());
}

/// Makes a request of a head.
fn read_head(
    conn: &Connection,
    stream: &Rc<Stream>,
    head: &HeadText,
    limits: &HeadLimits,
    worker: &Worker,
) -> (Rc<Request>, Result<(), BadRequest>) {
    worker.count_request();
    conn.request_has_come();
    let mut req = worker::take_request();
    unshared(&mut req).attach(Client::http2(stream.clone()));
    req.start_ms.set(clock::steady_ms());
    let options = HeadOptions { framed: true, ..conn.config().default_http(conn.port).head_options() };
    let text = head.text();
    // A pseudo-header is no field.
    let fields_max = limits.fields_max.saturating_add(usize::from(head.has_authority()));
    let limits = HeadLimits { fields_max, ..*limits };
    let parsed = parse_request(text, &limits, &options, unshared(&mut req).head.get_mut());
    let verdict = match parsed {
        Ok(Parsed::Complete(_)) => {
            let begun = begin(&mut req);
            note_ignored_lines(&req);
            begun
        }
        // The text is a whole head, or nothing where not even the target can be understood.
        Ok(Parsed::Partial) => {
            begin_unfinished(&mut req);
            Err(BadRequest::InvalidRequest)
        }
        Err(bad) => {
            unshared(&mut req).head.get_mut().keep_bad_line(text);
            begin_unfinished(&mut req);
            Err(bad)
        }
    };
    (req, verdict)
}

/// `keepalive_requests`, `keepalive_time`: says that this request is the last one.
fn limit_requests(input: &mut Input, req: &Request) {
    if !req.may_keep_alive(req.keepalive_conf()) {
        input.farewell = Farewell::Final;
        input.mux.queue_goaway(input.last_stream, ErrorCode::NoError);
    }
}

/// Runs a request to its end: at once, or in a task of its own when it waits.
fn run(stream: &Rc<Stream>, req: Rc<Request>, worker: &Rc<Worker>, start: impl FnOnce(&Rc<Request>) -> Ready<()>) {
    match catch_unwind(AssertUnwindSafe(|| start(&req))) {
        Ok(Ready::Now(())) => {}
        Ok(Ready::Later(future)) => return run_later(stream.clone(), req, future, worker),
        Err(panic) => report_panic(&req, &*panic),
    }
    end(stream, req);
}

fn run_later(stream: Rc<Stream>, req: Rc<Request>, mut future: LocalFuture<()>, worker: &Rc<Worker>) {
    let hold = worker.hold();
    let waiting = Waiting::begin(&req);
    tokio::task::spawn_local(async move {
        let timed = Box::pin(poll_fn(move |cx| {
            clock::update();
            future.as_mut().poll(cx)
        }));
        catch_panic(&req, timed).await;
        drop(waiting);
        end(&stream, req);
        drop(hold);
    });
}

/// Takes a request apart that has run.
fn end(stream: &Rc<Stream>, req: Rc<Request>) {
    stream.note_done();
    if !leave(&req) {
        recycle(req);
    }
    stream.mux.remove_if_over(stream);
    stream.mux.wake();
}
