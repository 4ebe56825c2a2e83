//! Handlers: Lua code in the phases of a request.
//!
//! A chunk that does not wait answers at once ([`Ready::Now`]): the request then needs no future of ours.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use bstr::BStr;
use tidegate_core::output::{Buf, Chunk, Closed, Progress};
use tidegate_core::phase::{Outcome as Answer, Phase as CorePhase, Program, Ready, Step};
use tidegate_core::product::product;
use tidegate_core::request::Request;
use tidegate_http::error_page::write_error_page;
use tidegate_net::log;

use crate::api::output;
use crate::code::Code;
use crate::host::{Host, LogLevel};
use crate::phase::Phase;
use crate::request_context::LuaContext;
use crate::scheduler::{Outcome, Started, Stop, Waiting, start, start_with};
use crate::settings;
use crate::socket::OpenSockets;
use crate::stack::Ref;
use crate::vm::Vm;
use crate::worker;

/// nginx's codes that `ngx.exit` takes beside HTTP statuses.
pub(crate) mod code {
    /// `ngx.OK`
    pub(crate) const OK: i32 = 0;
    /// `ngx.ERROR`
    pub(crate) const ERROR: i32 = -1;
    /// `ngx.DECLINED`
    pub(crate) const DECLINED: i32 = -5;
}

/// What follows from how a run ended.
type Conclude = fn(&Rc<Request>, Outcome) -> Answer;

/// Installs `server_rewrite_by_lua*`, before the directives of the rewrite module.
pub(crate) fn install_server_rewrite(code: &Arc<Code>, program: &mut Program) {
    let code = code.clone();
    program.on_first(CorePhase::ServerRewrite, move |req| run(req, &code, Phase::ServerRewrite, conclude_early));
}

/// Installs code of a phase before the content; `first` puts it before the handlers of other modules.
pub(crate) fn install_early(phase: CorePhase, code: &Arc<Code>, program: &mut Program, first: bool) {
    let code = code.clone();
    let (lua_phase, conclude): (Phase, Conclude) = match phase {
        CorePhase::Access => (Phase::Access, conclude_access),
        CorePhase::Precontent => (Phase::Precontent, conclude_early),
        _ => (Phase::Rewrite, conclude_early),
    };
    let handler = move |req: &Rc<Request>| {
        if lua_phase == Phase::Rewrite && req.flags().uri_changed.get() {
            // `rewrite … last` chose another location: this one's code is not meant any more.
            return Ready::Now(Step::Declined);
        }
        run_with_body(req, &code, lua_phase, conclude)
    };
    if first {
        program.on_first(phase, handler);
    } else {
        program.on(phase, handler);
    }
}

/// Installs `content_by_lua*`.
pub(crate) fn install_content(code: &Arc<Code>, program: &mut Program) {
    let code = code.clone();
    program.content(move |req| run_with_body(req, &code, Phase::Content, conclude_content));
}

/// Runs code after the request's body was read, where `lua_need_request_body` wants that.
fn run_with_body(req: &Rc<Request>, code: &Arc<Code>, phase: Phase, conclude: Conclude) -> Answer {
    if req.module_conf(&settings::MODULE).lua_need_request_body != Some(true) {
        return run(req, code, phase, conclude);
    }
    run_after_body(req, code, phase, conclude)
}

#[inline(never)]
fn run_after_body(req: &Rc<Request>, code: &Arc<Code>, phase: Phase, conclude: Conclude) -> Answer {
    let (req, code) = (req.clone(), code.clone());
    req.read_body().then(move |read| match read {
        Ok(()) => run(&req, &code, phase, conclude),
        Err(error) => Ready::Now(error.step()),
    })
}

#[inline]
fn run(req: &Rc<Request>, code: &Code, phase: Phase, conclude: Conclude) -> Answer {
    match begin(req, code, phase) {
        Err(status) => Ready::Now(Step::Status(status)),
        Ok(Started::Done(outcome)) => conclude(req, outcome),
        Ok(Started::Waiting(waiting)) => wait_for(req, waiting, conclude),
    }
}

fn wait_for(req: &Rc<Request>, waiting: Waiting, conclude: Conclude) -> Answer {
    let req = req.clone();
    if req.module_conf(&settings::MODULE).lua_check_client_abort == Some(true) {
        return Ready::later(async move {
            let outcome = unless_client_goes(&req, waiting).await;
            conclude(&req, outcome).wait().await
        });
    }
    Ready::later(async move {
        let outcome = waiting.await;
        match conclude(&req, outcome) {
            Ready::Now(step) => step,
            Ready::Later(future) => future.await,
        }
    })
}

/// nginx's status for a client that closed its connection.
const CLIENT_CLOSED: i32 = 499;

/// Waits for the end of a run and, with `lua_check_client_abort`, for the client to go away: then the script's
/// `ngx.on_abort` function starts, or else the run ends.
async fn unless_client_goes(req: &Rc<Request>, waiting: Waiting) -> Outcome {
    let mut waiting = pin!(waiting);
    let mut gone = pin!(req.client.closed());
    let mut watches = true;
    let sockets = OpenSockets::of(&Host::Request(req.clone()));
    poll_fn(|cx| {
        // Who reads from the client's connection learns of its end there.
        let is_read = sockets.reads_downstream() || (sockets.body_acquired.get() && !req.body.is_consumed());
        if watches && !is_read && gone.as_mut().poll(cx).is_ready() {
            watches = false;
            Host::Request(req.clone()).log(LogLevel::Info, b"client prematurely closed connection");
            if !waiting.client_aborted() {
                return Poll::Ready(Outcome::Stopped(Stop::Exit(CLIENT_CLOSED)));
            }
        }
        waiting.as_mut().poll(cx)
    })
    .await
}

/// Starts code for a request; an error is a status, its cause stands in the log.
#[inline]
pub(crate) fn begin(req: &Rc<Request>, code: &Code, phase: Phase) -> Result<Started, u16> {
    let (vm, function) = prepare(req, code, phase)?;
    Ok(start(&vm, Host::Request(req.clone()), phase, function))
}

/// The virtual machine for a request and the function to run in it.
#[inline]
fn prepare(req: &Rc<Request>, code: &Code, phase: Phase) -> Result<(Rc<Vm>, Ref), u16> {
    #[cold]
    fn fail(req: &Rc<Request>, message: &[u8], status: u16) -> u16 {
        Host::Request(req.clone()).log(LogLevel::Error, message);
        status
    }
    if log::any_debug() {
        tell(req, phase);
    }
    let vm = worker::vm_for(req).map_err(|failure| fail(req, &failure.message, 500))?;
    let function = code.load(&vm, Some(req)).map_err(|error| fail(req, &error.message, error.status))?;
    Ok((vm, function))
}

/// Writes what lua-nginx-module says at the debug level as its handler begins.
#[cold]
fn tell(req: &Rc<Request>, phase: Phase) {
    let uri = req.uri.borrow();
    let uri = BStr::new(&uri.path);
    let text = match phase {
        Phase::ServerRewrite => format!("lua server rewrite handler, uri:\"{uri}\" c:1"),
        Phase::Rewrite => format!("lua rewrite handler, uri:\"{uri}\" c:1"),
        Phase::Access => format!("lua access handler, uri:\"{uri}\" c:1"),
        Phase::Content => format!("lua content handler, uri:\"{uri}\" c:1"),
        Phase::Log => format!("lua log handler, uri:\"{uri}\" c:0"),
        Phase::HeaderFilter => format!("lua header filter for user lua code, uri \"{uri}\""),
        Phase::BodyFilter => format!("lua body filter for user lua code, uri \"{uri}\""),
        _ => return,
    };
    Host::Request(req.clone()).log_debug(text.as_bytes());
}

/// After `content_by_lua*`: the response is complete.
fn conclude_content(req: &Rc<Request>, outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exit(code::OK)) => end_response(req, Step::Ok),
        Outcome::Failed => Ready::Now(Step::Status(500)),
        // There is no content handler to decline to.
        Outcome::Stopped(Stop::Exit(code::DECLINED)) => Ready::Now(Step::Close),
        Outcome::Stopped(Stop::Exit(status)) => exit(req, status),
        Outcome::Stopped(Stop::Exec | Stop::Rewrite) => Ready::Now(Step::Redirected),
    }
}

/// After `rewrite_by_lua*` and its like: the next handler's turn, unless a response was begun.
fn conclude_early(req: &Rc<Request>, outcome: Outcome) -> Answer {
    conclude_phase(req, outcome, Step::Declined)
}

/// After `access_by_lua*`: permission is given, unless a response was begun.
fn conclude_access(req: &Rc<Request>, outcome: Outcome) -> Answer {
    match outcome {
        Outcome::Stopped(Stop::Exit(code::DECLINED)) => Ready::Now(Step::Declined),
        other => conclude_phase(req, other, Step::Ok),
    }
}

fn conclude_phase(req: &Rc<Request>, outcome: Outcome, go_on: Step) -> Answer {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exit(code::OK | code::DECLINED)) => {
            if req.header_sent() {
                // It is no longer safe to go on to handlers that make a response.
                end_response(req, Step::Done)
            } else {
                Ready::Now(go_on)
            }
        }
        Outcome::Failed => Ready::Now(Step::Status(500)),
        Outcome::Stopped(Stop::Exit(status)) => exit(req, status),
        Outcome::Stopped(Stop::Exec | Stop::Rewrite) => Ready::Now(Step::Redirected),
    }
}

/// `ngx.exit(status)` with anything but `ngx.OK` and `ngx.DECLINED`.
///
/// Source: lua-nginx-module, `ngx_http_lua_handle_exit`.
fn exit(req: &Rc<Request>, status: i32) -> Answer {
    let sent = req.header_sent();
    if status <= code::ERROR || matches!(status, 444 | 499) || (status == 408 && sent) {
        // The connection is closed; a sub-request closes its parent's, but `ngx.ERROR` becomes the parent's status 500.
        req.flags().output_failed.set(req.is_subrequest() && status != code::ERROR);
        return Ready::Now(Step::Close);
    }
    let status = u16::try_from(status).unwrap_or(500);
    if !sent && req.response.borrow().status == 0 && status >= 200 {
        req.response.borrow_mut().status = status;
    }
    let holds_output =
        || req.find_context::<LuaContext>().is_some_and(|context| context.held_output.borrow().is_some());
    match status {
        204 if !sent => Ready::Now(Step::Status(204)),
        200..=299 => end_response(req, Step::Done),
        // The status went out already, or is about to with the body held back: what the script sent is the response.
        _ if sent || holds_output() => end_response(req, Step::Done),
        _ => Ready::Now(Step::Status(status)),
    }
}

/// Sends what is missing of the response: the head, made as for any output of Lua, and the end of the body.
fn end_response(req: &Rc<Request>, step: Step) -> Answer {
    if req.response.borrow().progress == Progress::Ended {
        return Ready::Now(step);
    }
    // What is held back is so only as long as the head is.
    let ended = if req.header_sent() { req.send_end() } else { end_late_response(req) };
    match ended {
        Ready::Now(sent) => Ready::Now(after_sending(sent, step)),
        ended => ended.map(move |sent| after_sending(sent, step)),
    }
}

/// The end of a response of which nothing has been sent.
fn end_late_response(req: &Rc<Request>) -> Ready<Result<(), Closed>> {
    match output::release_held(req) {
        Ready::Now(Ok(())) => {
            prepare_head(req);
            req.send_end()
        }
        held => {
            let req = req.clone();
            held.then(move |sent| match sent {
                Ok(()) => req.send_end(),
                Err(Closed) => Ready::Now(Err(Closed)),
            })
        }
    }
}

fn after_sending(sent: Result<(), Closed>, step: Step) -> Step {
    match sent {
        Ok(()) => step,
        Err(Closed) => Step::Close,
    }
}

/// Gives the head what Lua's output gets by default, if it can still be changed.
pub(crate) fn prepare_head(req: &Rc<Request>) {
    if req.header_sent() {
        return;
    }
    if req.response.borrow().status != 304
        && req.module_conf(&settings::MODULE).lua_use_default_type != Some(false)
        && !req.find_context::<LuaContext>().is_some_and(|context| context.no_default_type.get())
    {
        req.set_default_content_type();
    }
}

/// Installs `header_filter_by_lua*`, and the body filter that puts another body in the place of the response's when the
/// code exits with a status.
pub(crate) fn install_header_filter(code: &Arc<Code>, program: &mut Program) {
    let code = code.clone();
    program.header_filter(move |req| match begin(req, &code, Phase::HeaderFilter) {
        Ok(Started::Done(outcome)) => Ready::Now(conclude_header_filter(req, outcome)),
        Err(_) => Ready::Now(Err(Closed)),
        Ok(Started::Waiting(waiting)) => {
            let req = req.clone();
            Ready::later(async move {
                let outcome = waiting.await;
                conclude_header_filter(&req, outcome)
            })
        }
    });
    program.body_filter(|req, chunk| {
        let body = req
            .find_context::<LuaContext>()
            .and_then(|context| context.replacement.borrow_mut().as_mut().map(mem::take));
        Ready::Now(Ok(match body {
            None => chunk,
            // All of it with the first piece, nothing with the others.
            Some(body) => Chunk { last: chunk.last, flush: chunk.flush, ..Chunk::bytes(body) },
        }))
    });
}

/// After `header_filter_by_lua*`: a status from `ngx.exit` takes the place of the response.
fn conclude_header_filter(req: &Rc<Request>, outcome: Outcome) -> Result<(), Closed> {
    match outcome {
        Outcome::Done | Outcome::Stopped(Stop::Exit(code::OK) | Stop::Exec | Stop::Rewrite) => Ok(()),
        Outcome::Failed => Err(Closed),
        Outcome::Stopped(Stop::Exit(status)) => {
            let status = u16::try_from(status).map_err(|_| Closed)?;
            let context: Rc<LuaContext> = req.context();
            if context.filter_exit.replace(status) == status {
                // The page for that very status goes through here as well.
                return Ok(());
            }
            if status >= 300 && status != 444 && !req.is_subrequest() {
                // Error pages apply: the response that was prepared is dropped.
                return match req.finalize_from_filter(status) {
                    Ready::Now(result) => result,
                    Ready::Later(_) => Err(Closed),
                };
            }
            let mut page = Vec::new();
            let has_page = write_error_page(status, product_of(req), &mut page);
            let mut response = req.response.borrow_mut();
            response.drop_head();
            response.status = status;
            if has_page {
                response.content_type.extend_from_slice(b"text/html");
            }
            response.content_length = Some(page.len() as u64);
            drop(response);
            context.replacement.replace(Some(page));
            Ok(())
        }
    }
}

/// The product as the foot of error pages names it.
fn product_of(req: &Request) -> &'static str {
    match req.http_conf().server_tokens {
        Some(false) => product().name,
        _ => product().name_and_version,
    }
}

/// Installs `body_filter_by_lua*`.
pub(crate) fn install_body_filter(code: &Arc<Code>, program: &mut Program) {
    let code = code.clone();
    program.header_filter(|req| {
        req.response.borrow_mut().filter_need_in_memory = true;
        Ready::Now(Ok(()))
    });
    program.body_filter(move |req, chunk| filter_body(req, &code, chunk));
}

/// Gives a piece of the body to `body_filter_by_lua*` and takes what the script made of it.
fn filter_body(req: &Rc<Request>, code: &Code, mut chunk: Chunk) -> Ready<Result<Chunk, Closed>> {
    let context: Rc<LuaContext> = req.context();
    if context.body_ended.get() {
        // A script said that the body is over: the rest is not for the client.
        return Ready::Now(Ok(Chunk { flush: chunk.flush, ..Chunk::default() }));
    }
    if chunk.read_files().is_err() {
        return Ready::Now(Err(Closed));
    }
    {
        let mut filtered = context.filtered.borrow_mut();
        filtered.data.clear();
        for buf in &chunk.bufs {
            if let Buf::Bytes(bytes) = buf {
                filtered.data.extend_from_slice(bytes);
            }
        }
        filtered.last = chunk.last;
        filtered.changed = false;
    }
    let Ok((vm, function)) = prepare(req, code, Phase::BodyFilter) else { return Ready::Now(Err(Closed)) };
    let started = start_with(&vm, Host::Request(req.clone()), Phase::BodyFilter, true, |lua| {
        lua.push_ref(function);
        0
    });
    match started {
        Ok(Started::Done(outcome)) => Ready::Now(filtered(&context, outcome, vm.take_result(), chunk)),
        Err(_) => Ready::Now(Err(Closed)),
        Ok(Started::Waiting(mut waiting)) => Ready::later(async move {
            let outcome = (&mut waiting).await;
            filtered(&context, outcome, waiting.take_result(), chunk)
        }),
    }
}

/// Whether a body filter returned `ngx.ERROR` or a status.
fn says_error(result: Option<Vec<u8>>) -> bool {
    let Some(text) = result else { return false };
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse::<f64>().ok());
    number.is_some_and(|number| number as i64 == i64::from(code::ERROR) || number >= 300.0)
}

fn filtered(
    context: &LuaContext,
    outcome: Outcome,
    result: Option<Vec<u8>>,
    mut chunk: Chunk,
) -> Result<Chunk, Closed> {
    if outcome == Outcome::Failed || says_error(result) {
        return Err(Closed);
    }
    let mut filtered = context.filtered.borrow_mut();
    if filtered.changed {
        chunk.bufs.clear();
        if !filtered.data.is_empty() {
            chunk.bufs.push(Buf::Bytes(std::mem::take(&mut filtered.data).into()));
        }
        chunk.last = filtered.last;
    }
    context.body_ended.set(chunk.last);
    Ok(chunk)
}

/// Installs `log_by_lua*`.
pub(crate) fn install_log(code: &Arc<Code>, program: &mut Program) {
    let code = code.clone();
    program.on(CorePhase::Log, move |req| {
        let context: Rc<LuaContext> = req.context();
        context.logs_request.set(true);
        match begin(req, &code, Phase::Log) {
            Ok(Started::Waiting(waiting)) => Ready::later(async move {
                waiting.await;
                Step::Declined
            }),
            Ok(Started::Done(_)) | Err(_) => Ready::Now(Step::Declined),
        }
    });
}
