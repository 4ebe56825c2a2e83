//! `ngx.location.capture` and `ngx.location.capture_multi`: sub-requests whose responses a script gets.
//!
//! A sub-request that needs no wait is over when the function returns, unless other light threads could run meanwhile:
//! they go on first, as in OpenResty.

use std::borrow::Cow;
use std::ffi::c_int;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use smallvec::SmallVec;
use tidegate_core::output::{Progress, Response};
use tidegate_core::phase::{LocalFuture, Ready};
use tidegate_core::request::Request;
use tidegate_core::subrequest::{Options, Subrequest, SubrequestError, VariableSharing};
use tidegate_http::date::http_date;
use tidegate_http::{Known, Method, RequestHead};

use super::ctx;
use super::redirect::split_uri;
use super::req::{method_of, set_field};
use super::{Family, log_debug, request};
use crate::error::{CResult, LuaError};
use crate::function::function;
use crate::host::LogLevel;
use crate::phase::{Phase, Phases};
use crate::phases::code;
use crate::request_context::LuaContext;
use crate::scheduler::{Answer, Stop, with_run};
use crate::stack::{Lua, Type};
use crate::vm::Vm;

pub(crate) static FAMILY: Family =
    Family { name: "capture", cdef: "", ffi: &[], functions: &[("capture", function(capture))] };

const PHASES: Phases = Phases::of(&[
    Phase::ServerRewrite,
    Phase::Rewrite,
    Phase::Access,
    Phase::Precontent,
    Phase::Content,
    Phase::Set,
    Phase::HeaderFilter,
    Phase::BodyFilter,
    Phase::Log,
    Phase::Balancer,
]);

/// Nesting up to which a sub-request runs on the stack of its parent's script.
const SYNCHRONOUS_DEPTH_MAX: u16 = 4;

/// Values on the stack for one sub-request: URI, arguments, options.
const VALUES: c_int = 3;

/// Values for one result: status, truncated, body, content type, content length, table of header fields. Where there is
/// such a table, it holds the type and the length as well; else the Lua half makes one of them.
const RESULT_VALUES: c_int = 6;

/// The sub-requests of one call: mostly one.
type List = SmallVec<[Subrequest; 1]>;

/// `capture(uri, args, options, …)`: the values of a result for each, or nothing when the Lua half is to await them; the
/// scheduler's token, which the Lua half yields, when a sub-request has ended the whole request. `args` is a string or
/// nil, `options` a table or nil.
fn capture(lua: &mut Lua) -> CResult {
    let req = request(PHASES)?;
    let count = lua.top() / VALUES;
    let mut list = List::new();
    for index in 0..count {
        list.push(prepare(lua, &req, index * VALUES + 1)?);
    }
    let alone = with_run(|run| run.is_alone()).unwrap_or(false);
    let here = alone && req.subrequest_depth < SYNCHRONOUS_DEPTH_MAX;
    let mut pending: SmallVec<[Option<LocalFuture<()>>; 1]> = SmallVec::new();
    for sub in &list {
        let sub = sub.req.clone();
        pending.push(if here {
            match tidegate_core::phase::run(&sub) {
                Ready::Now(()) => None,
                Ready::Later(future) => Some(future),
            }
        } else {
            Some(Box::pin(async move { tidegate_core::phase::run(&sub).wait().await }))
        });
    }
    if pending.iter().all(Option::is_none) {
        return push_results(lua, list);
    }
    let wait = with_run(|run| {
        let pending_guard = PendingGuard::new(&req);
        run.wait(lua, async move {
            join(pending).await;
            drop(pending_guard);
            Answer::Push(Box::new(move |lua| push_results(lua, list)))
        })
    });
    wait.unwrap_or(Ok(()))?;
    Ok(0)
}

/// Counts a wait for sub-requests for as long as it lives.
struct PendingGuard(Rc<LuaContext>);

impl PendingGuard {
    fn new(req: &Request) -> Self {
        let context: Rc<LuaContext> = req.context();
        context.pending_subrequests.set(context.pending_subrequests.get() + 1);
        Self(context)
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.0.pending_subrequests.set(self.0.pending_subrequests.get() - 1);
    }
}

/// Waits for all of `futures`.
async fn join(mut futures: SmallVec<[Option<LocalFuture<()>>; 1]>) {
    poll_fn(|cx| {
        let mut waiting = false;
        for slot in &mut futures {
            if let Some(future) = slot {
                match future.as_mut().poll(cx) {
                    Poll::Ready(()) => *slot = None,
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// What a script may say about a sub-request.
#[derive(Default)]
struct Query {
    method: Option<Method>,
    body: Option<Vec<u8>>,
    always_forward_body: bool,
    variables: VariableSharing,
    assignments: Vec<(Vec<u8>, Vec<u8>)>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Position of the `ctx` table on the stack.
    ctx: Option<c_int>,
}

fn prepare(lua: &mut Lua, parent: &Rc<Request>, at: c_int) -> Result<Subrequest, LuaError> {
    // SAFETY: both stay where they are, below what is pushed and popped here.
    let (uri, args) = unsafe { (lua.held_bytes(at)?, lua.held_bytes(at + 1).ok()) };
    let Some((path, uri_args)) = split_uri(parent, uri) else {
        let uri = String::from_utf8_lossy(uri);
        return Err(LuaError::from(format!("unsafe uri in argument #1: {uri}")));
    };
    let args = match args {
        None | Some(b"") => Cow::Borrowed(uri_args),
        Some(args) if uri_args.is_empty() => Cow::Borrowed(args),
        Some(more) => Cow::Owned([uri_args, b"&", more].concat()),
    };
    let mut query = Query { variables: VariableSharing::Fresh, ..Query::default() };
    if lua.type_of(at + 2) == Type::Table {
        lua.reserve(8)?;
        read_options(lua, at + 2, &mut query)?;
    }
    log_debug(|| {
        format!("lua http subrequest \"{}?{}\"", String::from_utf8_lossy(&path), String::from_utf8_lossy(&args))
    });
    let ctx = query.ctx;
    let sub = build(parent, &path, &args, query)?;
    if let Some(at) = ctx
        && let Some(number) = with_run(|run| sub.req.context::<LuaContext>().script_table.keep(run.vm()))
    {
        lua.push_value(at);
        ctx::put(lua, number);
    }
    Ok(sub)
}

/// Reads the options table at `table`. What it pushes stays on the stack until the function returns.
fn read_options(lua: &mut Lua, table: c_int, query: &mut Query) -> Result<(), LuaError> {
    lua.raw_get_field(table, b"method");
    if !lua.is_none_or_nil(-1) {
        let number = if lua.type_of(-1) == Type::Number { lua.to_number(-1) } else { None };
        let Some(number) = number else { return Err(LuaError::new("Bad http request method")) };
        query.method = method_of(number as i64);
        if query.method.is_none() {
            return Err(LuaError::from(format!("unsupported HTTP method: {number}")));
        }
    }
    lua.pop(1);
    lua.raw_get_field(table, b"body");
    match lua.type_of(-1) {
        Type::Nil => {}
        Type::String | Type::Number => query.body = lua.to_bytes(-1).map(<[u8]>::to_vec),
        _ => return Err(LuaError::new("Bad http request body")),
    }
    lua.pop(1);
    query.always_forward_body = flag(lua, table, b"always_forward_body", None)?;
    if flag(lua, table, b"copy_all_vars", Some("Bad copy_all_vars option value"))? {
        query.variables = VariableSharing::Copied;
    }
    if flag(lua, table, b"share_all_vars", Some("Bad share_all_vars option value"))? {
        query.variables = VariableSharing::Shared;
    }
    query.assignments = pairs(lua, table, b"vars", "Bad vars option value")?;
    query.fields = pairs(lua, table, b"headers", "Bad headers option value")?;
    lua.raw_get_field(table, b"ctx");
    match lua.type_of(-1) {
        Type::Nil => lua.pop(1),
        Type::Table => query.ctx = Some(lua.top()),
        _ => {
            let kind = lua.type_name(-1);
            return Err(LuaError::from(format!("Bad ctx option value type {kind}, expected a Lua table")));
        }
    }
    Ok(())
}

/// Reads a boolean option; `strict` is the complaint about other types, which otherwise count by Lua's rules.
fn flag(lua: &mut Lua, table: c_int, name: &[u8], strict: Option<&'static str>) -> Result<bool, LuaError> {
    lua.raw_get_field(table, name);
    let (kind, value) = (lua.type_of(-1), lua.to_bool(-1));
    lua.pop(1);
    match strict {
        Some(complaint) if !matches!(kind, Type::Nil | Type::Boolean) => Err(LuaError::new(complaint)),
        _ => Ok(value),
    }
}

/// Reads an option that is a table of texts.
fn pairs(
    lua: &mut Lua,
    table: c_int,
    name: &'static [u8],
    complaint: &'static str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, LuaError> {
    let mut list = Vec::new();
    lua.raw_get_field(table, name);
    match lua.type_of(-1) {
        Type::Nil => {
            lua.pop(1);
            return Ok(list);
        }
        Type::Table => {}
        _ => return Err(LuaError::new(complaint)),
    }
    let inner = lua.top();
    lua.push_nil();
    while lua.next(inner) {
        let option = String::from_utf8_lossy(name);
        if lua.type_of(-2) != Type::String {
            return Err(LuaError::from(format!("attempt to use a non-string key in the \"{option}\" option table")));
        }
        let key = lua.to_bytes(-2).unwrap_or_default().to_vec();
        if !matches!(lua.type_of(-1), Type::String | Type::Number) {
            let kind = lua.type_name(-1);
            return Err(LuaError::from(format!("attempt to use bad variable value type {kind}")));
        }
        list.push((key, lua.to_bytes(-1).unwrap_or_default().to_vec()));
        lua.pop(1);
    }
    lua.pop(1);
    Ok(list)
}

fn build(parent: &Rc<Request>, path: &[u8], args: &[u8], query: Query) -> Result<Subrequest, LuaError> {
    let method = query.method.unwrap_or(Method::Get);
    let forwards = query.always_forward_body || matches!(method, Method::Put | Method::Post);
    let takes_parents = query.body.is_none() && forwards && parent.body.is_loaded() && !parent.body.is_empty();
    let length =
        if takes_parents { Some(parent.body.len()) } else { query.body.as_ref().map(|body| body.len() as u64) };
    let options = Options {
        method: Some(method),
        body: query.body,
        variables: query.variables,
        capture: true,
        ..Options::default()
    };
    let sub = Subrequest::new(parent, path, args, options).map_err(|SubrequestError::Cycle| {
        let path = bstr::BStr::new(path);
        parent.log(LogLevel::Error, format_args!("lua subrequests cycle while processing \"{path}\""));
        LuaError::new("failed to issue subrequest: -1")
    })?;
    if takes_parents {
        sub.req.body.share(&parent.body);
    }
    describe_body(&mut sub.req.head.borrow_mut(), length);
    for (name, value) in &query.fields {
        set_field(&sub.req, name, Some(value), true);
    }
    for (name, value) in &query.assignments {
        let name = bstr::BStr::new(name);
        if let Err(error) = sub.req.set_variable_named(name, Some(value)) {
            use tidegate_core::variable::VariableError;
            match error {
                VariableError::NotChangeable => {
                    sub.req.log(LogLevel::Error, format_args!("variable \"{name}\" not changeable"));
                }
                _ => sub.req.log(
                    LogLevel::Error,
                    format_args!(
                        "variable \"{name}\" cannot be assigned a value (maybe you forgot to define it first?) "
                    ),
                ),
            }
            return Err(LuaError::new("failed to adjust the subrequest: -1"));
        }
    }
    Ok(sub)
}

/// Makes a copy of the parent's head tell of the sub-request's body.
fn describe_body(head: &mut RequestHead, length: Option<u64>) {
    head.content_length = length;
    head.chunked = false;
    head.fields.remove(Known::TransferEncoding);
    match length {
        Some(length) => {
            head.fields.set_known(Known::ContentLength, itoa::Buffer::new().format(length).as_bytes());
        }
        None => {
            head.fields.remove(Known::ContentLength);
        }
    }
}

fn push_results(lua: &mut Lua, list: List) -> CResult {
    if list.iter().any(|sub| sub.req.flags().output_failed.get()) {
        with_run(|run| run.stop(lua, Stop::Exit(code::ERROR))).unwrap_or(Ok(()))?;
        lua.push_light(Vm::token());
        return Ok(1);
    }
    let count = c_int::try_from(list.len()).unwrap_or(c_int::MAX / RESULT_VALUES).saturating_mul(RESULT_VALUES);
    lua.reserve(count.saturating_add(8))?;
    for sub in list {
        push_result(lua, &sub);
        sub.recycle();
    }
    Ok(count)
}

/// Pushes the [`RESULT_VALUES`] of a sub-request.
fn push_result(lua: &mut Lua, sub: &Subrequest) {
    let response = sub.req.response.borrow();
    let status = if response.status == 0 { 200 } else { response.status };
    lua.push_integer(status.into());
    lua.push_bool(response.progress != Progress::Ended);
    lua.push_bytes(sub.body.borrow().bytes());
    push_content_type(lua, &response);
    match response.content_length {
        Some(length) => lua.push_number(length as f64),
        None => lua.push_nil(),
    }
    if response.fields.is_empty() && response.last_modified.is_none() {
        lua.push_nil();
    } else {
        push_header(lua, &response);
    }
}

fn push_content_type(lua: &mut Lua, response: &Response) {
    match (&response.content_type[..], &response.charset[..]) {
        (b"", _) => lua.push_nil(),
        (content_type, b"") => lua.push_bytes(content_type),
        (content_type, charset) => lua.push_bytes(&[content_type, b"; charset=", charset].concat()),
    }
}

/// Pushes the table of all fields. Content type and length are the two values on top of the stack.
fn push_header(lua: &mut Lua, response: &Response) {
    let content_type = lua.top() - 1;
    lua.push_table(0, c_int::try_from(response.fields.len() + 3).unwrap_or(0));
    let table = lua.top();
    for (name, value, _) in response.fields.iter() {
        lua.add_multi(table, name, |lua| lua.push_bytes(value));
    }
    for (index, name) in [(content_type, &b"Content-Type"[..]), (content_type + 1, b"Content-Length")] {
        if !lua.is_none_or_nil(index) {
            lua.push_value(index);
            lua.raw_set_field(table, name);
        }
    }
    if let Some(seconds) = response.last_modified
        && matches!(response.status, 0 | 200 | 204 | 206 | 304)
    {
        lua.push_bytes(&http_date(seconds));
        lua.raw_set_field(table, b"Last-Modified");
    }
}
