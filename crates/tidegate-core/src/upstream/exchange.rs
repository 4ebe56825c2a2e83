//! One request's way to a peer and back, and to the next peer when that fails.
//!
//! The whole is one future without further allocations: it connects or takes a connection that was kept, sends the
//! request in one write where it can, reads the head, and hands the body on.

use std::{
    ops::Range,
    rc::Rc,
    sync::{Arc, LazyLock},
};

use bstr::{BStr, BString};
use tidegate_http::{BodyPart, Known, ResponseHead};

use super::{
    Group, GroupOptions, Settings,
    balance::{Lease, NoPeer, Selection},
    body::{Promise, SendBody},
    caching::Caching,
    failure::{Failure, is_repeatable},
    lane::Measure,
    record::{Asked, Try},
    send::Unsent,
    socket::Watch,
    tee::Tee,
    tls::TlsPeer,
};
use crate::{clock, log::Level, phase::Step, request::Request};

/// The status in the access log when the client did not wait for the answer.
///
/// Source: nginx, `NGX_HTTP_CLIENT_CLOSED_REQUEST`.
pub const STATUS_CLIENT_GONE: u16 = 499;

/// What a protocol brings to the engine. One value serves one request.
pub trait Protocol {
    /// Scheme of the peers' addresses in the error log, e.g. `http://`.
    const SCHEME: &'static str;
    /// The same over TLS, where there is a way to say that.
    const TLS_SCHEME: &'static str = Self::SCHEME;
    /// Peers say who they are and when they answer: a `Server` or `Date` that the client may see but a peer left out is not
    /// added.
    const NAMES_ITSELF: bool = false;
    /// A peer may be asked GET where the client asks HEAD of what a cache may have. Elsewhere the method stands in parameters that
    /// are the configuration's, and what such a request gets is no answer to a GET.
    const ASKS_GET_FOR_HEAD: bool = false;

    /// What is sent behind the request's head, as things are now.
    fn body(&self, req: &Request) -> SendBody;

    /// Appends what is sent first, all but `body`, which follows. What the head announces comes from `body` alone.
    ///
    /// # Errors
    /// The request ends with this step.
    fn write_request(&mut self, req: &Rc<Request>, body: SendBody, out: &mut Vec<u8>) -> Result<Written, Step>;

    /// Appends the key that tells responses apart in a cache, where the configuration has none. `scheme` is the one that peers
    /// are asked with.
    fn write_cache_key(&self, _req: &Rc<Request>, _scheme: &str, _out: &mut Vec<u8>) {}

    /// What [`write_greeting`](Self::write_greeting) says: a connection that is kept serves only requests that would say the same.
    fn connection_state(&self) -> &BStr {
        BStr::new(b"")
    }

    /// Appends what a new connection needs ahead of its first request, whose answers come ahead of that request's. Called for
    /// each new connection, behind [`begin_try`](Self::begin_try). A protocol that greets does not [share](Self::shares).
    fn write_greeting(&mut self, _out: &mut Vec<u8>) {}

    /// Whether sending the request twice is the same as sending it once.
    fn is_repeatable(&self, req: &Request) -> bool {
        is_repeatable(req.method.get())
    }

    /// The request may be under way on a connection together with others, and be sent again if that connection breaks: it only
    /// reads, what [`write_request`](Self::write_request) wrote is all of it, and the server answers in order. Answers how
    /// to tell where an answer ends.
    fn shares(&self) -> Option<Measure> {
        None
    }

    /// Frames a piece of a body that is [`SendBody::Framed`]; `last` ends it.
    fn frame(&self, piece: &[u8], _last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
    }

    /// A peer is asked: what was read of another one's answer is void.
    fn begin_try(&mut self) {}

    /// Reads a response's head off the start of `input`, which lacks what earlier calls for the same head have used up.
    ///
    /// # Errors
    /// Text for the log: why it makes no sense.
    fn read_head(&mut self, input: &[u8], head: &mut ResponseHead) -> Result<HeadPart, String>;

    /// What is to be said of the answer, or was said beside it, since the last call.
    fn take_messages(&mut self) -> Vec<(Level, String)> {
        Vec::new()
    }

    /// The head is complete, and its body begins. Answers whether there may be one.
    fn begin_body(&mut self, head: &ResponseHead) -> bool;

    /// Finds the content in the body.
    ///
    /// # Errors
    /// Text for the log: why it makes no sense.
    fn decode(&mut self, input: &[u8]) -> Result<BodyPart, String>;

    /// How many bytes of the body are still to come, where the head announced its length.
    fn announced_left(&self) -> Option<u64> {
        None
    }

    /// Whether the body is complete when the peer closes the connection now.
    fn is_complete_at_close(&self) -> bool;

    /// Whether the connection can serve another request once the body has been read.
    fn is_reusable(&self, head: &ResponseHead) -> bool;

    /// The protocol ends with this head, and both sides may send what they like.
    fn is_upgrade(&self, _req: &Request, _head: &ResponseHead) -> bool {
        false
    }

    /// Another value for a field of the response, e.g. for `Location`.
    fn rewrite_field(&self, _req: &Request, _known: Known, _value: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The fields behind the body, when it is complete.
    fn trailers(&self) -> Option<&tidegate_http::Fields> {
        None
    }
}

/// How far a head has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadPart {
    /// More is to come; so many bytes of the input are used up.
    Partial(usize),
    /// It ends behind so many bytes.
    Complete(usize),
}

/// What a protocol wrote ahead of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The part of it that the error log shows as the URI.
    pub uri: Range<usize>,
    /// The length of the body as the head announces it to the peer.
    pub promise: Promise,
}

/// Why a try ends without an answer to deliver.
pub(super) enum Stop {
    /// The peer failed.
    Failed(Failure),
    /// The client has gone.
    ClientGone,
    /// The request ends with this step.
    End(Step),
    /// A connection that was kept open had been closed by the peer: as if it had not been kept.
    Dead,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

/// What a peer is being used for, as the error log says it.
pub(super) const CONNECTING: &str = "connecting to upstream";
pub(super) const SHAKING_HANDS: &str = "SSL handshaking to upstream";
pub(super) const SENDING: &str = "sending request to upstream";
pub(super) const READING_HEAD: &str = "reading response header from upstream";
pub(super) const READING: &str = "reading upstream";

/// One request's exchange with an upstream.
pub struct Exchange<'a, P> {
    pub(super) req: &'a Rc<Request>,
    pub(super) settings: &'a Settings,
    pub(super) protocol: P,
    pub(super) watch: Watch<'a>,
    pub(super) selection: Selection,
    /// How TLS is spoken with the peers, if it is; see [`tls`](Self::tls).
    tls: Option<TlsPeer>,
    started_ms: u64,
    /// Something of the request has been sent to the peer.
    pub(super) sent: bool,
    /// The peer has got what the head promised, no more and no less.
    pub(super) is_whole: bool,
    pub(super) body: SendBody,
    pub(super) promise: Promise,
    /// How much of what is sent is what a new connection begins with.
    pub(super) greeting_bytes: usize,
    /// The rest of a loaded body, when the peer answers before it has all.
    pub(super) unsent: Option<Box<Unsent>>,
    /// The response is read as fast as it comes.
    pub(super) buffering: bool,
    /// Temporary files cannot be written.
    pub(super) disk_failed: bool,
    /// The response is also written to a file.
    pub(super) tee: Option<Box<Tee>>,
    /// The request is one that a cache may answer.
    pub(super) caching: Option<Box<Caching>>,
    /// The response comes out of the cache.
    pub(super) is_stored: bool,
    /// The client takes no more of a response that others want.
    pub(super) is_deaf: bool,
}

fn select(group: Arc<Group>, req: &Rc<Request>, settings: &Settings) -> Selection {
    let mut selection = Selection::new(group, req, settings.timeouts);
    if settings.next_tries > 0 {
        selection.tries = selection.tries.min(settings.next_tries);
        selection.attempt.tries_max = settings.next_tries;
    }
    selection
}

impl<'a, P: Protocol> Exchange<'a, P> {
    /// Prepares an exchange.
    pub fn new(req: &'a Rc<Request>, settings: &'a Settings, group: Arc<Group>, protocol: P) -> Self {
        let selection = select(group, req, settings);
        let body = protocol.body(req);
        // While the body is read from the client, reading tells whether it has gone.
        let watch = Watch::new(req, settings.watch_client && !body.is_arriving());
        Exchange {
            req,
            settings,
            protocol,
            watch,
            selection,
            tls: None,
            started_ms: clock::steady_ms(),
            sent: false,
            is_whole: false,
            body,
            promise: Promise::Unclear,
            greeting_bytes: 0,
            unsent: None,
            buffering: settings.buffering,
            disk_failed: false,
            tee: None,
            caching: None,
            is_stored: false,
            is_deaf: false,
        }
    }

    /// Speaks TLS with the peers, if there is a way to.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<TlsPeer>) -> Self {
        self.tls = tls;
        self
    }

    pub(super) fn scheme(&self) -> &'static str {
        if self.tls().is_some() { P::TLS_SCHEME } else { P::SCHEME }
    }

    /// How TLS is spoken with the next peer, if it is.
    pub(super) fn tls(&self) -> Option<&TlsPeer> {
        self.tls.as_ref().filter(|_| !self.selection.attempt.omits_tls)
    }

    /// Prepares an exchange whose servers are not known yet, for [`run_with`](Self::run_with).
    pub fn without_group(req: &'a Rc<Request>, settings: &'a Settings, protocol: P) -> Self {
        static NOBODY: LazyLock<Arc<Group>> =
            LazyLock::new(|| Arc::new(Group::new(BString::default(), &[], GroupOptions::default())));
        Self::new(req, settings, NOBODY.clone(), protocol)
    }

    /// Runs the exchange to the end of the response.
    pub async fn run(&mut self) -> Step {
        match self.begin().await {
            Some(step) => step,
            None => self.ask_and_note().await,
        }
    }

    /// Runs the exchange to the end of the response, with the group that is found if the cache has no answer.
    pub async fn run_with(&mut self, find: impl Future<Output = Result<Arc<Group>, Step>>) -> Step {
        if let Some(step) = self.begin().await {
            return step;
        }
        match find.await {
            Ok(group) => {
                self.selection = select(group, self.req, self.settings);
                self.ask_and_note().await
            }
            // The log has the reason. An old response is better than none where the name server does not answer.
            Err(step) => self.give_up(step, (step == Step::Status(502)).then_some(Failure::Error)).await,
        }
    }

    /// Asks the cache, where there is one.
    async fn begin(&mut self) -> Option<Step> {
        self.req.upstream_record_mut(|record| {
            record.cache.clear();
            record.cache.tries_before = record.tries.len();
        });
        match self.settings.cache {
            Some(_) => Box::pin(self.consult_cache()).await,
            None => None,
        }
    }

    /// Asks peers, and takes note of a failure that is kept.
    async fn ask_and_note(&mut self) -> Step {
        let step = self.ask().await;
        if let Step::Status(status @ (502 | 504)) = step {
            self.keep_error(status);
        }
        step
    }

    /// Asks peers until one has an answer, and delivers that.
    async fn ask(&mut self) -> Step {
        if let Err(step) = self.write_request() {
            return step;
        }
        self.req.upstream_record_mut(|record| record.group = Some(self.selection.group().clone()));
        loop {
            if self.selection.has_balancer()
                && let Err(step) = Box::pin(self.balance()).await
            {
                return step;
            }
            let lease = match self.selection.choose() {
                Ok(lease) => lease,
                Err(no_peer) => {
                    let step = self.no_peer(no_peer);
                    let is_failure = matches!(no_peer, NoPeer::NoneLive);
                    return self.give_up(step, is_failure.then_some(Failure::Error)).await;
                }
            };
            self.req.begin_try(Asked::Peer(lease.peer.clone()));
            match self.attempt(&lease).await {
                Ok(socket) => return self.deliver(&lease, socket).await,
                // A dead connection was replaced already, unless the request must not be sent twice.
                Err(stop @ (Stop::Failed(_) | Stop::Dead)) => {
                    let failure = if let Stop::Failed(failure) = stop { failure } else { Failure::Error };
                    if let Some(step) = self.after_failure(&lease, failure) {
                        return self.give_up(step, Some(failure)).await;
                    }
                }
                Err(Stop::ClientGone) => return self.client_gone(),
                Err(Stop::End(step)) => {
                    self.req.update_try(|last| last.response_ms = Some(last.elapsed_ms()));
                    return step;
                }
            }
        }
    }

    /// No peer has an answer: the cache may have one.
    async fn give_up(&mut self, step: Step, failure: Option<Failure>) -> Step {
        match failure.filter(|_| step != Step::Close).and_then(|failure| self.stale_on(failure)) {
            Some(stored) => Box::pin(self.answer_stored(&stored)).await,
            None => step,
        }
    }

    /// Lets the user's program decide about the next try.
    async fn balance(&mut self) -> Result<(), Step> {
        self.selection.attempt.offers_tls = self.tls.is_some();
        self.selection.balance(self.req).await.map_err(|no_peer| self.no_peer(no_peer))?;
        let scheme = self.scheme();
        self.req.upstream_record_mut(|record| record.scheme = scheme);
        if self.selection.attempt.recreate_request {
            self.body = self.protocol.body(self.req);
            self.make_request()?;
        }
        Ok(())
    }

    fn write_request(&mut self) -> Result<(), Step> {
        self.req.upstream_record_mut(|record| {
            if !record.tries.is_empty() {
                record.tries.push(Try::new(Asked::Divider));
            }
        });
        self.make_request()
    }

    fn make_request(&mut self) -> Result<(), Step> {
        // Variables in the request may look at the record, so it is not borrowed meanwhile.
        let mut request = self.req.upstream_record_mut(|record| std::mem::take(&mut record.request));
        request.clear();
        self.greeting_bytes = 0;
        let written = self.protocol.write_request(self.req, self.body, &mut request);
        let Written { uri, promise } = written.as_ref().cloned().unwrap_or_default();
        self.promise = promise;
        let scheme = self.scheme();
        self.req.upstream_record_mut(|record| {
            record.scheme = scheme;
            record.request = request;
            record.uri = uri;
        });
        written.map(|_| ())
    }

    #[cold]
    fn no_peer(&self, no_peer: NoPeer) -> Step {
        let status = match no_peer {
            NoPeer::NoneLive => 502,
            NoPeer::Refused(status) => status,
            NoPeer::NotChosen => 500,
        };
        self.req.begin_try(Asked::Nobody(self.selection.group().clone()));
        self.req.update_try(|last| (last.status, last.response_ms) = (status, Some(0)));
        match no_peer {
            NoPeer::NoneLive => self.req.log(Level::Error, format_args!("no live upstreams while {CONNECTING}")),
            NoPeer::NotChosen => {
                self.req.log(Level::Error, format_args!("lua balancer: no peer set while {CONNECTING}"));
            }
            NoPeer::Refused(_) => {}
        }
        Step::Status(status)
    }

    /// Takes note of a failure; answers the last step, unless another peer is to be asked.
    fn after_failure(&mut self, lease: &Lease, failure: Failure) -> Option<Step> {
        self.req.log(Level::Debug, format_args!("http next upstream, {:x}", failure.number()));
        let status = failure.status();
        self.req.update_try(|last| {
            last.status = status;
            last.response_ms = Some(last.elapsed_ms());
        });
        if self.selection.free(lease, failure.is_peers_fault()) {
            self.req.log(Level::Warn, format_args!("upstream server temporarily disabled while {CONNECTING}"));
        }
        self.selection.attempt.last_failure = Some(failure);
        if self.req.client.is_broken() && !self.fills_cache() {
            return Some(self.client_gone());
        }
        let settings = self.settings;
        let elapsed_ms = clock::steady_ms().saturating_sub(self.started_ms);
        let too_late = settings.next_timeout_ms > 0 && elapsed_ms >= settings.next_timeout_ms;
        let again = self.selection.tries > 0
            && settings.next.allow(failure, self.sent, self.protocol.is_repeatable(self.req))
            && !(self.sent && self.body.is_arriving())
            && !too_late;
        (!again).then_some(Step::Status(status))
    }

    pub(super) fn client_gone(&self) -> Step {
        self.req.log(
            Level::Info,
            format_args!("client prematurely closed connection, so upstream connection is closed too"),
        );
        self.req.update_try(|last| last.response_ms = Some(last.elapsed_ms()));
        if !self.req.header_sent() {
            self.req.response.borrow_mut().status = STATUS_CLIENT_GONE;
        }
        Step::Close
    }
}
