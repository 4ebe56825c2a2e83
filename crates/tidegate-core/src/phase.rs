//! The phases of a request, and the engine that drives a request through them.
//!
//! A handler answers at once ([`Ready::Now`]) or hands back a future ([`Ready::Later`]); a request whose handlers all
//! answer at once runs from head to response in one plain call, without a future.

use std::{cell::Cell, future::Future, pin::Pin, rc::Rc, time::Duration};

use bstr::BStr;

use crate::{
    log::Level,
    output::{Chunk, Closed},
    panics,
    request::{Request, Sink},
    ssl,
    worker::{self, Hold},
};

/// A future that stays on its worker's thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// An answer, or the promise of one.
pub enum Ready<T> {
    /// Here it is.
    Now(T),
    /// It takes a wait.
    Later(LocalFuture<T>),
}

impl<T: 'static> Ready<T> {
    /// Wraps a future.
    pub fn later(future: impl Future<Output = T> + 'static) -> Self {
        Ready::Later(Box::pin(future))
    }
    /// Waits, if it takes a wait.
    pub async fn wait(self) -> T {
        match self {
            Ready::Now(value) => value,
            Ready::Later(future) => future.await,
        }
    }
    /// Changes the answer when it comes.
    pub fn map<U: 'static>(self, change: impl FnOnce(T) -> U + 'static) -> Ready<U> {
        match self {
            Ready::Now(value) => Ready::Now(change(value)),
            Ready::Later(future) => Ready::later(async move { change(future.await) }),
        }
    }
    /// Goes on with another step when the answer comes.
    pub fn then<U: 'static>(self, next: impl FnOnce(T) -> Ready<U> + 'static) -> Ready<U> {
        match self {
            Ready::Now(value) => next(value),
            Ready::Later(future) => Ready::later(async move { next(future.await).wait().await }),
        }
    }
}

/// The phases, in the order of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// After the head was read, before anything else.
    PostRead,
    /// Rewriting in the server, before a location is chosen.
    ServerRewrite,
    /// Rewriting in the location.
    Rewrite,
    /// Limits.
    Preaccess,
    /// Permission.
    Access,
    /// `try_files`, `mirror`.
    Precontent,
    /// Content of locations without a content handler of their own: index, static files.
    Content,
    /// After the response.
    Log,
}

const PHASE_COUNT: usize = Phase::Log as usize + 1;

/// The decision of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the next handler's turn.
    Declined,
    /// The phase is done. In the access phase: permission given. In the content phase: the response is complete (the
    /// engine sends what is missing: the head, the end of the body).
    Ok,
    /// The request ends with this status: an error page, or an empty response for statuses below 300.
    Status(u16),
    /// The request got another URI or a named location ([`Request::redirect_internally`] and the like): start over.
    Redirected,
    /// In any phase: the response has been sent, or all that will be sent of it; the request is over.
    Done,
    /// The connection is to be closed without a further word.
    Close,
}

/// The answer of a handler.
pub type Outcome = Ready<Step>;

/// A handler of a phase.
pub type Handler = Box<dyn Fn(&Rc<Request>) -> Outcome + Send + Sync>;

/// Sees the response's head before it is sent, and may change it.
pub type HeaderFilter = Box<dyn Fn(&Rc<Request>) -> Ready<Result<(), Closed>> + Send + Sync>;

/// Sees each piece of the response's body, and may change it.
pub type BodyFilter = Box<dyn Fn(&Rc<Request>, Chunk) -> Ready<Result<Chunk, Closed>> + Send + Sync>;

/// Sees the body as it goes to the client, with what sub-requests added to it, and may change it.
pub type Encoder = Box<dyn Fn(&Rc<Request>, Chunk) -> Result<Chunk, Closed> + Send + Sync>;

/// The handlers of one location, in the order of the registry.
#[derive(Default)]
pub struct Program {
    phases: [Vec<Handler>; PHASE_COUNT],
    content: Option<Handler>,
    pub(crate) header_filters: Vec<HeaderFilter>,
    pub(crate) body_filters: Vec<BodyFilter>,
    pub(crate) encoders: Vec<Encoder>,
    /// The location's content handler wants a slash at the end of the path: others are redirected to add it.
    pub auto_redirect: bool,
    /// Kind of level that the program is for.
    kind: Option<crate::module::Context>,
    /// The module that installs its handlers has no directive of its own at this level.
    pub(crate) is_inherited: bool,
    /// The content handler is that of a module with directives of its own here.
    has_own_content: bool,
}

impl Program {
    /// An empty program for a level of this kind.
    pub fn new(kind: crate::module::Context) -> Self {
        Program { kind: Some(kind), ..Program::default() }
    }
    /// Kind of level that the program is for.
    pub fn kind(&self) -> crate::module::Context {
        self.kind.unwrap_or(crate::module::Context::LOCATION)
    }
    /// Adds a handler to a phase.
    pub fn on(&mut self, phase: Phase, handler: impl Fn(&Rc<Request>) -> Outcome + Send + Sync + 'static) {
        self.phases[phase as usize].push(Box::new(handler));
    }
    /// Adds a handler to a phase before those that are there.
    pub fn on_first(&mut self, phase: Phase, handler: impl Fn(&Rc<Request>) -> Outcome + Send + Sync + 'static) {
        self.phases[phase as usize].insert(0, Box::new(handler));
    }
    /// Makes `handler` the one that gives the location's content; the last one to say so wins. In an `if` what its own directives
    /// say goes before what stands around it.
    pub fn content(&mut self, handler: impl Fn(&Rc<Request>) -> Outcome + Send + Sync + 'static) {
        if self.is_inherited && self.has_own_content {
            return;
        }
        self.has_own_content |= !self.is_inherited;
        self.content = Some(Box::new(handler));
    }
    /// Adds a header filter.
    pub fn header_filter(
        &mut self,
        filter: impl Fn(&Rc<Request>) -> Ready<Result<(), Closed>> + Send + Sync + 'static,
    ) {
        self.header_filters.push(Box::new(filter));
    }
    /// Adds a body filter.
    pub fn body_filter(
        &mut self,
        filter: impl Fn(&Rc<Request>, Chunk) -> Ready<Result<Chunk, Closed>> + Send + Sync + 'static,
    ) {
        self.body_filters.push(Box::new(filter));
    }
    /// Adds a filter that sees the whole body of a main request, sub-requests included: a content encoding.
    pub fn encoder(&mut self, filter: impl Fn(&Rc<Request>, Chunk) -> Result<Chunk, Closed> + Send + Sync + 'static) {
        self.encoders.push(Box::new(filter));
    }
    fn handlers(&self, phase: Phase) -> &[Handler] {
        &self.phases[phase as usize]
    }
    /// Whether nothing comes before the location's own content handler.
    fn has_content_alone(&self) -> bool {
        self.content.is_some()
            && self.phases[Phase::Rewrite as usize..Phase::Content as usize].iter().all(Vec::is_empty)
    }
}

/// Times that a request may start over before it is taken for a loop.
///
/// Source: nginx, `NGX_HTTP_MAX_URI_CHANGES`.
pub const URI_CHANGES_MAX: u8 = 10;

/// The place at which a request starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// With the server's rewrite phase: an internal redirect.
    ServerRewrite,
    /// With the choice of a location: `rewrite … last`.
    FindLocation,
    /// In the location that was set already: a named location.
    Rewrite,
}

/// The position of a request in the phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    phase: Phase,
    index: usize,
    /// The location's own content handler was called.
    in_content_handler: bool,
    /// With `satisfy any`: the status that a refusal gave, 0 for none.
    refused: u16,
    /// The refusal under way was held up already (`auth_delay`).
    delayed: bool,
}

impl Cursor {
    const fn at(phase: Phase) -> Self {
        Cursor { phase, index: 0, in_content_handler: false, refused: 0, delayed: false }
    }
    fn restart(restart: Restart) -> Self {
        match restart {
            Restart::ServerRewrite => Cursor::at(Phase::ServerRewrite),
            // Behind the last handler: the next thing is to choose the location.
            Restart::FindLocation => Cursor { index: usize::MAX, ..Cursor::at(Phase::ServerRewrite) },
            Restart::Rewrite => Cursor::at(Phase::Rewrite),
        }
    }
}

/// How far the engine came.
enum Progress {
    /// The request is over: this is its last word.
    End(Step),
    /// A handler waits; the cursor says where to go on.
    Wait(Cursor, LocalFuture<Step>),
}

/// Runs a request from its first phase to the end of its response, the log phase included.
pub fn run(req: &Rc<Request>) -> Ready<()> {
    if req.is_subrequest() {
        return drive(req, Cursor::at(Phase::ServerRewrite), None);
    }
    match ssl::client::refusal(req) {
        Some(status) => reject(req, status),
        None => drive(req, Cursor::at(Phase::PostRead), None),
    }
}

/// Runs the content handler of the location that the request is in, and what follows it.
pub(crate) fn run_content(req: &Rc<Request>) -> Ready<()> {
    drive(req, Cursor::at(Phase::Content), None)
}

/// Ends a request whose head could not be read with `status`: error pages apply, phases do not.
pub fn reject(req: &Rc<Request>, status: u16) -> Ready<()> {
    drive(req, Cursor::at(Phase::PostRead), Some(Step::Status(status)))
}

fn drive(req: &Rc<Request>, cursor: Cursor, step: Option<Step>) -> Ready<()> {
    match advance(req, cursor, step) {
        Progress::End(step) => finish(req, step),
        Progress::Wait(mut cursor, mut future) => {
            let req = req.clone();
            Ready::later(async move {
                let last = loop {
                    let step = future.await;
                    match advance(&req, cursor, Some(step)) {
                        Progress::End(step) => break step,
                        Progress::Wait(next, waiting) => (cursor, future) = (next, waiting),
                    }
                };
                finish(&req, last).wait().await;
            })
        }
    }
}

/// Sends what is missing of the response and runs the log phase.
fn finish(req: &Rc<Request>, step: Step) -> Ready<()> {
    if step == Step::Close {
        // A captured response just stays incomplete; its parent decides what that means.
        if matches!(req.sink, Sink::Capture(_)) {
            let mut response = req.response.borrow_mut();
            if response.status == 0 {
                response.status = 500;
            }
        } else {
            req.close_connection();
        }
        log(req);
        return Ready::Now(());
    }
    match req.finish_response() {
        Ready::Now(()) if !req.wants_finalize() && req.is_sent_soon() && !req.has_end_work() => {
            log(req);
            Ready::Now(())
        }
        response => {
            let req = req.clone();
            Ready::later(async move {
                response.wait().await;
                if let Some(status) = req.take_finalize() {
                    // Too late for error pages.
                    let _ = req.send_plain_error(status).wait().await;
                }
                req.wait_until_sent().await;
                req.wait_for_end_work().await;
                log(&req);
            })
        }
    }
}

/// Runs the log phase: its handlers have no say in anything any more.
pub(crate) fn log(req: &Rc<Request>) {
    if !req.is_logged() {
        return;
    }
    for handler in req.level().program.handlers(Phase::Log) {
        if let Ready::Later(future) = panics::call_log_handler(req, || handler(req)) {
            log_later(req, future);
        }
    }
}

/// Lets a log handler go on behind the response. The request stays as it is meanwhile; its connection takes the next one.
#[cold]
fn log_later(req: &Rc<Request>, future: LocalFuture<Step>) {
    let running = LogRun::begin(req);
    tokio::task::spawn_local(async move {
        panics::wait_for_log_handler(&running.req, future).await;
    });
}

/// Kept with a request whose log handlers wait, until the last of them has ended.
#[derive(Debug, Default)]
pub(crate) struct LateLog {
    running: Cell<u32>,
    /// The connection has left the request to them.
    left: Cell<bool>,
}

impl LateLog {
    /// Leaves the request to the handlers; `false` if none runs any more.
    pub(crate) fn take_over(&self) -> bool {
        let runs = self.running.get() > 0;
        self.left.set(runs);
        runs
    }
}

impl Request {
    /// Whether log handlers of this request, or of one that it belongs with, still run.
    pub(crate) fn has_late_log(&self) -> bool {
        self.find_lasting_context::<LateLog>().is_some_and(|late_log| late_log.running.get() > 0)
    }
}

/// A log handler that waits. The last one to end takes the request apart, which the connection has left to it.
struct LogRun {
    req: Rc<Request>,
    late_log: Rc<LateLog>,
    _hold: Option<Hold>,
}

impl LogRun {
    fn begin(req: &Rc<Request>) -> Self {
        let late_log = req.lasting_context::<LateLog>();
        late_log.running.set(late_log.running.get() + 1);
        req.client.keep();
        LogRun { req: req.clone(), late_log, _hold: worker::current().map(|worker| worker.hold()) }
    }
}

impl Drop for LogRun {
    fn drop(&mut self) {
        let left = self.late_log.running.get() - 1;
        self.late_log.running.set(left);
        if left == 0 && self.late_log.left.get() {
            let main = self.req.main_rc();
            main.end_lasting_contexts();
            main.forget_contexts();
        }
    }
}

/// Calls handlers until one waits or the request is over. `step` is what the handler at the cursor answered, if it
/// was called already.
fn advance(req: &Rc<Request>, mut cursor: Cursor, mut step: Option<Step>) -> Progress {
    loop {
        let answer = match step.take() {
            Some(answer) => answer,
            None => match call(req, &mut cursor) {
                Ready::Now(answer) => answer,
                Ready::Later(future) => return Progress::Wait(cursor, future),
            },
        };
        if answer == Step::Status(401)
            && cursor.phase == Phase::Access
            && !req.satisfy_any()
            && !std::mem::replace(&mut cursor.delayed, true)
            && let Ready::Later(future) = refuse_slowly(req)
        {
            return Progress::Wait(cursor, future);
        }
        if let Some(last) = apply(req, &mut cursor, answer) {
            return Progress::End(last);
        }
    }
}

/// Calls the handler at the cursor; moves the cursor over empty phases.
fn call(req: &Rc<Request>, cursor: &mut Cursor) -> Outcome {
    loop {
        let program = &req.level().program;
        if cursor.phase == Phase::Content
            && cursor.index == 0
            && !cursor.in_content_handler
            && let Some(content) = &program.content
        {
            cursor.in_content_handler = true;
            return content(req);
        }
        if let Some(handler) = program.handlers(cursor.phase).get(cursor.index) {
            return handler(req);
        }
        let any_refused = cursor.refused == 401;
        if let Some(decision) = next_phase(req, cursor) {
            return if any_refused { refuse_slowly(req) } else { Ready::Now(decision) };
        }
    }
}

/// `auth_delay`: 401, at once or after a while.
fn refuse_slowly(req: &Rc<Request>) -> Outcome {
    let refusal = Step::Status(401);
    match req.http_conf().auth_delay {
        None | Some(Duration::ZERO) => Ready::Now(refusal),
        Some(delay) => {
            req.log(Level::Info, format_args!("delaying unauthorized request"));
            Ready::later(async move {
                tokio::time::sleep(delay).await;
                refusal
            })
        }
    }
}

/// Moves to the next phase. Answers a step when something was decided in between.
fn next_phase(req: &Rc<Request>, cursor: &mut Cursor) -> Option<Step> {
    let refused = cursor.refused;
    let next = match cursor.phase {
        Phase::PostRead => Phase::ServerRewrite,
        Phase::ServerRewrite => Phase::Rewrite,
        Phase::Rewrite => Phase::Preaccess,
        // Permission was given to the main request.
        Phase::Preaccess if req.is_subrequest() => Phase::Precontent,
        Phase::Preaccess => Phase::Access,
        Phase::Access => Phase::Precontent,
        Phase::Precontent => Phase::Content,
        Phase::Content | Phase::Log => {
            return Some(Step::Status(nobody_answers(req)));
        }
    };
    *cursor = Cursor::at(next);
    match next {
        // The URI stands: choose the location. It may answer itself, e.g. with a redirect that adds a slash.
        Phase::Rewrite => {
            let answer = req.find_location();
            if answer.is_none() && req.level().program.has_content_alone() {
                *cursor = Cursor::at(Phase::Content);
            }
            answer.map(Step::Status)
        }
        // `rewrite … last` in a location: choose again.
        Phase::Preaccess if req.take_uri_changed() => {
            req.restart_at(Restart::FindLocation);
            Some(Step::Redirected)
        }
        // `satisfy any`, and nobody gave permission.
        Phase::Precontent if refused != 0 => {
            if refused == 403 {
                req.log(Level::Error, format_args!("access forbidden by rule"));
            }
            Some(Step::Status(refused))
        }
        _ => None,
    }
}

/// The status where no content handler has an answer.
fn nobody_answers(req: &Request) -> u16 {
    if !req.uri_ends_with_slash() {
        req.log(Level::Error, format_args!("no handler found"));
        return 404;
    }
    let mut path = Vec::new();
    if req.map_uri_to_path(&mut path).is_some() {
        req.log(Level::Error, format_args!("directory index of \"{}\" is forbidden", BStr::new(&path)));
    }
    403
}

/// Takes a handler's answer. Returns the last step when the request is over.
fn apply(req: &Rc<Request>, cursor: &mut Cursor, step: Step) -> Option<Step> {
    if let Some(status) = req.take_finalize() {
        return finalize(req, cursor, status);
    }
    match step {
        Step::Declined if cursor.in_content_handler => finalize(req, cursor, 404),
        Step::Declined => {
            cursor.index += 1;
            None
        }
        Step::Ok => match cursor.phase {
            Phase::Content => Some(Step::Ok),
            Phase::Access if !req.satisfy_any() => {
                cursor.index += 1;
                None
            }
            Phase::Access => {
                *cursor = Cursor::at(Phase::Precontent);
                None
            }
            _ => {
                let decision = next_phase(req, cursor)?;
                apply(req, cursor, decision)
            }
        },
        Step::Status(status @ (401 | 403)) if cursor.phase == Phase::Access && req.satisfy_any() => {
            if status == 401 || cursor.refused == 0 {
                cursor.refused = status;
            }
            cursor.index += 1;
            None
        }
        Step::Status(status) => finalize(req, cursor, status),
        Step::Redirected if req.count_uri_change() => {
            *cursor = Cursor::restart(req.take_restart());
            None
        }
        Step::Redirected => {
            req.log_cycle();
            finalize(req, cursor, 500)
        }
        Step::Done => Some(Step::Ok),
        Step::Close => Some(Step::Close),
    }
}

/// Ends a request with a status: an error page takes over, or the built-in page is sent.
fn finalize(req: &Rc<Request>, cursor: &mut Cursor, status: u16) -> Option<Step> {
    match req.end_with_status(status) {
        Step::Redirected => {
            *cursor = Cursor::restart(req.take_restart());
            None
        }
        last => Some(last),
    }
}
