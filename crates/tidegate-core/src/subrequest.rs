//! Sub-requests: requests that a request makes of its own server, without a connection of their own.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use tidegate_http::{
    Fields, Method,
    escape::{Unescape, unescape_uri},
    uri::split_args,
};
use tidegate_net::buffers;

use crate::{
    captured::Captured,
    output::{Closed, Progress},
    phase::{self, LocalFuture},
    postpone::Postponed,
    request::{Request, Sink},
    worker,
};

/// How deep sub-requests may nest.
///
/// Source: nginx, `NGX_HTTP_MAX_SUBREQUESTS`.
pub const DEPTH_MAX: u16 = 50;

/// Which variables a sub-request sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VariableSharing {
    /// Its parent's: assignments are seen on both sides.
    #[default]
    Shared,
    /// Copies of its parent's.
    Copied,
    /// Its own, all without a value yet.
    Fresh,
}

/// Settings of a sub-request.
#[derive(Debug, Default)]
pub struct Options {
    /// Method; GET by default.
    pub method: Option<Method>,
    /// Body; none by default.
    pub body: Option<Vec<u8>>,
    /// Fields instead of the parent's.
    pub fields: Option<Fields>,
    /// Which variables it sees.
    pub variables: VariableSharing,
    /// The response is kept in memory instead of becoming part of the parent's.
    pub capture: bool,
    /// The response's body is thrown away; only its head counts.
    pub discard: bool,
    /// The response becomes part of the parent's when [`Subrequest::take_turn`] says so; the sub-request may run before.
    pub postpone: bool,
    /// A postponed sub-request with an error status ends with that status and no page.
    pub bare_status: bool,
}

/// A sub-request that can be run and then looked at. Dropping this ends it.
pub struct Subrequest {
    /// The request; its response's head can be read when [`run`](Self::run) is over.
    pub req: Rc<Request>,
    /// The captured body.
    pub body: Rc<RefCell<Captured>>,
}

/// Why a sub-request cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubrequestError {
    /// Too many inside one another.
    #[error("subrequests cycle while processing")]
    Cycle,
}

impl Subrequest {
    /// A sub-request of `parent` for `path` (decoded) and `args`.
    ///
    /// # Errors
    /// [`SubrequestError::Cycle`] beyond [`DEPTH_MAX`].
    pub fn new(parent: &Rc<Request>, path: &[u8], args: &[u8], options: Options) -> Result<Self, SubrequestError> {
        if parent.subrequest_depth >= DEPTH_MAX {
            return Err(SubrequestError::Cycle);
        }
        let memory = if options.capture { buffers::take() } else { Vec::new() };
        let body = Rc::new(RefCell::new(Captured::new(memory)));
        let sink = match (options.capture, options.discard) {
            (true, _) => Sink::Capture(body.clone()),
            (false, true) => Sink::Nowhere,
            (false, false) if options.postpone => Sink::Postponed(Postponed::new(options.bare_status)),
            (false, false) => Sink::Parent,
        };
        let req = Request::subrequest(parent, sink, options.variables);
        req.method.set(options.method.unwrap_or(Method::Get));
        {
            let mut uri = req.uri.borrow_mut();
            uri.path.extend_from_slice(path);
            uri.args.extend_from_slice(args);
        }
        if let Some(fields) = options.fields {
            req.head.borrow_mut().fields = fields;
        }
        req.body.set(options.body.unwrap_or_default());
        Ok(Subrequest { req, body })
    }

    /// Another request like `parent`, with another destination. See [`run_again`](Self::run_again).
    ///
    /// # Errors
    /// [`SubrequestError::Cycle`] beyond [`DEPTH_MAX`].
    pub fn repeat(parent: &Rc<Request>, sink: Sink) -> Result<Self, SubrequestError> {
        if parent.subrequest_depth >= DEPTH_MAX {
            return Err(SubrequestError::Cycle);
        }
        let req = Request::subrequest(parent, sink, VariableSharing::Copied);
        req.go_where(parent);
        req.body.share(&parent.body);
        Ok(Subrequest { req, body: Rc::default() })
    }

    /// Runs the sub-request to its end, beginning with the content handler of the location that its parent is in.
    pub fn run_again(&self) -> LocalFuture<()> {
        match phase::run_content(&self.req) {
            phase::Ready::Now(()) => Box::pin(std::future::ready(())),
            phase::Ready::Later(future) => future,
        }
    }

    /// The captured body, if it came to its end.
    ///
    /// # Errors
    /// The sub-request broke off, or is larger than `subrequest_capture_max`; the log has the reason.
    pub fn take_body(&self) -> Result<Bytes, Closed> {
        let is_whole = self.req.response.borrow().progress == Progress::Ended;
        if is_whole { Ok(self.body.borrow_mut().take()) } else { Err(Closed) }
    }

    /// Lets the client's connection end without the sub-request, which runs in the background: it may take longer than the
    /// response.
    pub fn detach(&self) {
        self.req.client.keep();
    }

    /// Gives the memory to the requests that come. What somebody else still holds stays his.
    pub fn recycle(self) {
        let (req, body) = (self.req.clone(), self.body.clone());
        drop(self);
        worker::give_request(req);
        if let Ok(body) = Rc::try_unwrap(body) {
            buffers::give(body.into_inner().into_memory());
        }
    }

    /// Runs the sub-request to its end.
    pub fn run(&self) -> LocalFuture<()> {
        match phase::run(&self.req) {
            phase::Ready::Now(()) => Box::pin(std::future::ready(())),
            phase::Ready::Later(future) => future,
        }
    }
}

impl Drop for Subrequest {
    fn drop(&mut self) {
        if let Sink::Postponed(postponed) = &self.req.sink {
            postponed.give_up();
        }
        // Its contexts may hold sub-requests of its own, which hold it; and tasks, which end with them.
        if !self.req.has_late_log() {
            self.req.forget_contexts();
        }
    }
}

/// Splits `/path?args` as texts of pages and directives name targets of sub-requests, and decodes the path; `None` for one
/// that leaves the root, and for none at all.
///
/// Source: nginx, `ngx_http_parse_unsafe_uri`.
pub fn parse_target(target: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (path, args) = split_args(target);
    let mut decoded = Vec::with_capacity(path.len());
    unescape_uri(path, Unescape::All, &mut decoded);
    let is_unsafe =
        decoded.is_empty() || decoded.contains(&0) || decoded.split(|&b| b == b'/').any(|part| part == b"..");
    (!is_unsafe).then(|| (decoded, args.to_vec()))
}
