//! The variables of `echo`.

use std::{
    cell::{Cell, RefCell},
    io::Write,
};

use tidegate_core::{request::Request, variable::VariableDef};
use tidegate_net::clock;

/// What the module keeps with a request.
#[derive(Debug, Default)]
pub(super) struct State {
    /// `$echo_it`
    pub(super) item: RefCell<Option<Vec<u8>>>,
    /// When the timer was set to zero, in milliseconds; 0 for the start of the request.
    pub(super) timer_ms: Cell<u64>,
}

/// `$echo_incr` of a main request.
#[derive(Debug, Default)]
struct Incr(Cell<u64>);

/// The variables.
pub(super) static VARIABLES: &[VariableDef] = &[
    VariableDef::new("echo_it", item, "The part that echo_foreach_split is at."),
    VariableDef::new("echo_timer_elapsed", elapsed, "Seconds since the request began or echo_reset_timer."),
    VariableDef::new("echo_request_method", method, "Method of this request or sub-request."),
    VariableDef::new("echo_client_request_method", client_method, "Method of the client's request."),
    VariableDef::new("echo_client_request_headers", client_headers, "Head of the client's request as sent."),
    VariableDef::new("echo_request_uri", uri, "Path and arguments of this request or sub-request."),
    VariableDef::new("echo_cacheable_request_uri", uri, "Path and arguments, not from a cache."),
    VariableDef::new("echo_request_body", body, "Body of the request, if it was read into memory."),
    VariableDef::new("echo_response_status", status, "Status of the response, once it is known."),
    VariableDef::new("echo_incr", incr, "A number that grows with each use in a request."),
];

fn put(out: &mut Vec<u8>, value: &[u8]) -> bool {
    out.extend_from_slice(value);
    true
}

fn item(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let state = req.context::<State>();
    let item = state.item.borrow();
    item.as_deref().is_some_and(|item| put(out, item))
}

fn elapsed(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    clock::update();
    let state = req.context::<State>();
    let from_ms = match state.timer_ms.get() {
        0 => req.start_ms.get(),
        from_ms => from_ms,
    };
    let ms = clock::steady_ms().saturating_sub(from_ms);
    write!(out, "{}.{:03}", ms / 1000, ms % 1000).is_ok()
}

fn method(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    put(out, req.method_text(&req.head.borrow()))
}

fn client_method(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let main = req.main();
    put(out, main.method_text(&main.head.borrow()))
}

fn client_headers(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    put(out, req.main().head.borrow().raw())
}

fn uri(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let uri = req.uri.borrow();
    put(out, &uri.path);
    if !uri.args.is_empty() {
        out.push(b'?');
        put(out, &uri.args);
    }
    true
}

fn body(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let in_memory = req.body.file.borrow().is_none() && !req.body.is_empty();
    in_memory && put(out, &req.body.memory.borrow())
}

fn status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let status = req.response.borrow().status;
    status != 0 && put(out, itoa::Buffer::new().format(status).as_bytes())
}

fn incr(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let counter = req.main().context::<Incr>();
    counter.0.set(counter.0.get() + 1);
    put(out, itoa::Buffer::new().format(counter.0.get()).as_bytes())
}
