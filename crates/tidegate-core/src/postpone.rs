//! Sub-requests that run side by side, and whose responses stand one behind the other in the response around them.
//!
//! A sub-request with [`Sink::Postponed`] keeps its output until its turn comes; from then on its output goes straight into
//! the response of its parent. Responses nest: the parent may wait for its own turn.
//!
//! Source: nginx, `ngx_http_postpone_filter_module`.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use bytes::Bytes;
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    output::{Buf, Chunk, Closed, Progress},
    panics,
    phase::{self, Ready},
    request::{Request, Sink},
    subrequest::Subrequest,
};

/// Output that a sub-request may keep in memory before its turn while its handler goes on. A handler that waits for its
/// output to be taken waits from there; what one that does not wait may send is bounded by `subrequest_capture_max`.
const KEPT_BYTES_MAX: u64 = 128 << 10;

/// Whether the output of a sub-request may go into the response around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Not yet.
    Waits,
    /// It goes there at once.
    Has,
    /// Nobody wants it any more.
    Never,
}

/// The place of a sub-request's output in the response around it.
#[derive(Debug)]
pub struct Postponed {
    kept: RefCell<Vec<Buf>>,
    /// Of [`kept`](Self::kept), those in memory.
    kept_bytes: Cell<u64>,
    turn: Cell<Turn>,
    has_output: Cell<bool>,
    /// The sub-request answers an error status with its status alone: its parent has another body for that.
    bare_status: bool,
    turn_changed: Notify,
}

impl Postponed {
    pub(crate) fn new(bare_status: bool) -> Rc<Self> {
        Rc::new(Postponed {
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            turn: Cell::new(Turn::Waits),
            has_output: Cell::new(false),
            bare_status,
            turn_changed: Notify::new(),
        })
    }

    pub(crate) fn has_turn(&self) -> bool {
        self.turn.get() == Turn::Has
    }

    fn is_full(&self) -> bool {
        self.turn.get() == Turn::Waits && self.kept_bytes.get() > KEPT_BYTES_MAX
    }

    fn set_turn(&self, turn: Turn) -> Vec<Buf> {
        self.turn.set(turn);
        self.turn_changed.notify_waiters();
        self.kept_bytes.set(0);
        self.kept.take()
    }

    /// Ends the wait for a turn that will not come, and drops what was kept for it. Filters wait in tasks of their own, which
    /// would otherwise keep the request and its connection for ever.
    pub(crate) fn give_up(&self) {
        drop(self.set_turn(Turn::Never));
    }

    /// Takes output that comes before the turn.
    fn keep(&self, req: &Request, chunk: Chunk) -> Result<(), Closed> {
        if self.turn.get() == Turn::Never {
            return Err(Closed);
        }
        let is_bytes = |buf: &&Buf| matches!(buf, Buf::Bytes(_));
        let bytes = self.kept_bytes.get() + chunk.bufs.iter().filter(is_bytes).map(Buf::len).sum::<u64>();
        req.check_capture(bytes)?;
        self.kept_bytes.set(bytes);
        self.kept.borrow_mut().extend(chunk.bufs);
        Ok(())
    }
}

/// Work for a request, a sub-request for instance, in a task of its own. Dropping this ends it.
#[derive(Debug)]
pub struct Running(JoinHandle<()>);

impl Running {
    /// Waits for the end of the work.
    pub async fn wait(&mut self) {
        // What a panic left was reported by the task.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Subrequest {
    /// Runs the sub-request beside its parent.
    pub fn spawn(&self) -> Running {
        let req = self.req.clone();
        self.req.spawn(async move { phase::run(&req).wait().await })
    }

    /// Gives a postponed sub-request its turn: what it has kept goes into the response around it, and so does what
    /// follows.
    ///
    /// # Errors
    /// The response around it cannot go on.
    pub fn take_turn(&self) -> Result<(), Closed> {
        let (Sink::Postponed(postponed), Some(parent)) = (&self.req.sink, &self.req.parent) else { return Ok(()) };
        let chunk = Chunk { bufs: postponed.set_turn(Turn::Has).into(), ..Chunk::default() };
        if chunk.is_empty() { Ok(()) } else { write_behind_filters(parent, chunk) }
    }

    /// Whether any of a postponed sub-request's body has come.
    pub fn has_output(&self) -> bool {
        matches!(&self.req.sink, Sink::Postponed(postponed) if postponed.has_output.get())
    }

    /// Sends `body` as the response of a sub-request that has ended without one, through the filters of its location.
    pub fn answer_instead(&self, content_type: &[u8], body: Bytes) -> Ready<Result<(), Closed>> {
        {
            let mut response = self.req.response.borrow_mut();
            response.drop_head();
            response.progress = Progress::Open;
            response.header_only = false;
            response.status = 200;
            response.content_type.extend_from_slice(content_type);
        }
        self.req.flags().err_status.set(0);
        self.req.send(Chunk::bytes(body).and_last())
    }
}

impl Request {
    /// Runs work for this request beside its handler. A panic ends the request.
    pub fn spawn(self: &Rc<Self>, work: impl Future<Output = ()> + 'static) -> Running {
        let req = self.clone();
        Running(tokio::task::spawn_local(async move {
            panics::catch_panic(&req, Box::pin(work)).await;
        }))
    }

    /// Whether an error status ends this request without a page: the one that made it as a sub-request has its own.
    pub(crate) fn wants_bare_status(&self) -> bool {
        match &self.sink {
            Sink::Capture(_) => true,
            Sink::Postponed(postponed) => postponed.bare_status,
            Sink::Client | Sink::Parent | Sink::Nowhere => false,
        }
    }

    /// Whose response this request's becomes a part of: a main request, or the sub-request around it that is kept in memory or
    /// thrown away.
    pub(crate) fn responder(self: &Rc<Self>) -> Rc<Request> {
        let mut req = self;
        loop {
            match (&req.sink, &req.parent) {
                (Sink::Parent, Some(parent)) => req = parent,
                (Sink::Postponed(postponed), Some(parent)) if postponed.has_turn() => req = parent,
                _ => return req.clone(),
            }
        }
    }

    /// The request whose response this one's will be a part of in the end: as [`responder`](Self::responder), when all
    /// turns have come.
    pub(crate) fn final_responder(self: &Rc<Self>) -> Rc<Request> {
        let mut req = self;
        while let (Sink::Parent | Sink::Postponed(_), Some(parent)) = (&req.sink, &req.parent) {
            req = parent;
        }
        req.clone()
    }

    /// Sends a piece of the body from the last of the body filters, when it has more to send than what it answers.
    ///
    /// # Errors
    /// The client has gone, or the response cannot go on.
    pub async fn send_behind_filters(self: &Rc<Self>, chunk: Chunk) -> Result<(), Closed> {
        write_behind_filters(self, chunk)?;
        self.pace().await
    }

    /// Waits while the output of this request, or of one around it, has kept enough and waits for its turn.
    ///
    /// # Errors
    /// The turn will not come.
    pub(crate) async fn wait_for_turn(self: &Rc<Self>) -> Result<(), Closed> {
        loop {
            let responder = self.responder();
            let Sink::Postponed(postponed) = &responder.sink else { return Ok(()) };
            let turn_changed = postponed.turn_changed.notified();
            if postponed.turn.get() == Turn::Never {
                return Err(Closed);
            }
            if !postponed.is_full() {
                return Ok(());
            }
            turn_changed.await;
        }
    }

    /// Whether nobody wants the output of this request any more. The client may be somebody else's by then.
    pub(crate) fn is_given_up(self: &Rc<Self>) -> bool {
        matches!(&self.responder().sink, Sink::Postponed(postponed) if postponed.turn.get() == Turn::Never)
    }

    /// Whether a handler that sends should wait for its turn first.
    fn is_kept_back(self: &Rc<Self>) -> bool {
        matches!(&self.responder().sink, Sink::Postponed(postponed) if postponed.is_full())
    }
}

/// The last stretch of a piece of a body. A sub-request that has kept enough waits there for its turn.
pub(crate) fn end_body_filters(req: &Rc<Request>, chunk: Chunk) -> Ready<Result<(), Closed>> {
    if matches!(req.sink, Sink::Client) && req.level().program.encoders.is_empty() {
        return Ready::Now(req.write_chunk(chunk));
    }
    let written = write_behind_filters(req, chunk);
    if written.is_ok() && matches!(req.sink, Sink::Parent | Sink::Postponed(_)) && req.is_kept_back() {
        let req = req.clone();
        return Ready::later(async move { req.wait_for_turn().await });
    }
    Ready::Now(written)
}

/// What a sub-request says becomes part of the body around it before that is encoded.
fn write_behind_filters(req: &Rc<Request>, mut chunk: Chunk) -> Result<(), Closed> {
    let (around, last) = match &req.sink {
        Sink::Capture(_) | Sink::Nowhere => return req.write_chunk(chunk),
        Sink::Client => (req.clone(), chunk.last),
        Sink::Parent | Sink::Postponed(_) => (req.responder(), std::mem::take(&mut chunk.last)),
    };
    if req.is_subrequest() {
        end_subresponse(req, &mut chunk, last);
    }
    match &around.sink {
        Sink::Client => {
            for encoder in &around.level().program.encoders {
                chunk = encoder(&around, chunk)?;
            }
        }
        Sink::Postponed(postponed) => return postponed.keep(&around, chunk),
        Sink::Capture(_) | Sink::Parent | Sink::Nowhere => {}
    }
    around.write_chunk(chunk)
}

/// Takes note of what a sub-request adds to the response around it.
fn end_subresponse(req: &Rc<Request>, chunk: &mut Chunk, last: bool) {
    let mut response = req.response.borrow_mut();
    if response.header_only {
        chunk.bufs.clear();
    }
    response.body_bytes += chunk.len();
    if last {
        response.progress = Progress::Ended;
    }
    drop(response);
    if chunk.is_empty() {
        return;
    }
    let mut part = req;
    while let (Sink::Parent | Sink::Postponed(_), Some(parent)) = (&part.sink, &part.parent) {
        if let Sink::Postponed(postponed) = &part.sink {
            postponed.has_output.set(true);
        }
        part = parent;
    }
}
