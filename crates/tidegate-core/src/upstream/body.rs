//! The body of a request to a peer: how it is sent is the protocol's, where it lies is the request's.

use tidegate_http::BodyLength;

use super::Settings;
use crate::{body::BodyError, phase::Ready, request::Request};

/// What is sent behind the head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendBody {
    /// Nothing.
    None,
    /// The bytes as they are.
    Raw(Source),
    /// Pieces that [`Protocol::frame`](super::Protocol::frame) puts into frames.
    Framed(Source),
}

/// Where a body lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In memory or in a file, so many bytes: another peer can get it too.
    Loaded(u64),
    /// On its way from the client; not a byte of it has been read. Only one peer can get it.
    Arriving(BodyLength),
}

impl SendBody {
    /// The body is gone once a part of it was sent.
    pub(super) fn is_arriving(self) -> bool {
        matches!(self, SendBody::Raw(Source::Arriving(_)) | SendBody::Framed(Source::Arriving(_)))
    }
}

impl Source {
    /// Where the client's body lies when the handler has done what [`Settings::read_body`] says.
    pub fn of(req: &Request, settings: &Settings) -> Source {
        match req.body.untouched() {
            Some(length) if !settings.request_buffering => Source::Arriving(length),
            _ => Source::Loaded(req.body.len()),
        }
    }
}

/// What the head of a request announces. A peer that gets less waits for more, and one that gets more takes that for
/// another request: a connection serves another request only after a promise that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Promise {
    /// So many bytes. No more than those are sent.
    Bytes(u64),
    /// Pieces up to the one that is framed as the last.
    LastFrame,
    /// Nobody can tell: the configuration wrote these fields itself. The connection serves no other request.
    #[default]
    Unclear,
}

impl Settings {
    /// Reads the client's body, unless it is to go to the peer as it comes (`…_request_buffering off`). `takes_chunks`
    /// says that the peer gets on with a body whose length is not known before its end.
    pub fn read_body(&self, req: &std::rc::Rc<Request>, takes_chunks: bool) -> Ready<Result<(), BodyError>> {
        let streams =
            !self.request_buffering && self.pass_request_body && (takes_chunks || !req.head.borrow().chunked) && {
                req.load_body_at_hand();
                // A body that is malformed from its beginning reaches no other server: reading it tells.
                req.body.untouched().is_some() && !req.has_malformed_body()
            };
        if streams { Ready::Now(Ok(())) } else { req.read_body() }
    }
}
