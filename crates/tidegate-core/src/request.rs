//! A request, from its head to its last word in the log.
//!
//! A request lives on one worker's thread. It is shared (`Rc`) between the engine, the handler that waits and the light
//! threads of its Lua code, so its parts are cells; nobody keeps a borrow over an `.await`.

use std::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    rc::Rc,
};

use bstr::{BStr, BString};
use tidegate_http::{Known, Method, RequestHead};
use tidegate_net::Peer;
use tidegate_reuse::{Keep, Reset};

use crate::{
    body::RequestBody,
    captured::Captured,
    client::Client,
    clock,
    conf::{Config, Level, LevelId, ServerId},
    connection::Connection,
    module::Module,
    output::{Progress, Response},
    phase::{Restart, URI_CHANGES_MAX},
    postpone::Postponed,
    regex::Captures,
    subrequest::VariableSharing,
    target::LastMatch,
    variable::Values,
    worker,
};

pub use crate::target::Uri;

/// The destination of a request's response.
#[derive(Debug)]
pub enum Sink {
    /// To the client: a main request.
    Client,
    /// Into memory: a sub-request whose parent wants the body.
    Capture(Rc<RefCell<Captured>>),
    /// Into the response of the request around it, in order.
    Parent,
    /// The same, when its turn comes; others run at the same time.
    Postponed(Rc<Postponed>),
    /// Nowhere: a sub-request of which only the head counts.
    Nowhere,
}

/// A request.
pub struct Request {
    /// The way to the client that it came from.
    pub client: Client,
    /// Method and fields, as parsed; a sub-request has a copy.
    pub head: RefCell<RequestHead>,
    /// The client: who the socket says it is, or who a trusted proxy says it is (`realip`). Sub-requests ask their main
    /// request, see [`Request::peer`].
    peer: Cell<Peer>,
    /// How many requests the connection had with this one: `$connection_requests`.
    number: Cell<u64>,
    /// Method; may be changed.
    pub method: Cell<Method>,
    /// Target, decoded.
    pub uri: RefCell<Uri>,
    /// The body.
    pub body: RequestBody,
    /// The response.
    pub response: RefCell<Response>,
    /// Destination of the response.
    pub sink: Sink,
    /// The request that this one is a sub-request of.
    pub parent: Option<Rc<Request>>,
    values: RefCell<Rc<Values>>,
    level: Cell<LevelId>,
    pub(crate) server: Cell<ServerId>,
    flags: Flags,
    restart: Cell<Restart>,
    last_match: RefCell<LastMatch>,
    contexts: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    lasting_contexts: RefCell<Vec<(TypeId, Rc<dyn Any>)>>,
    /// Bytes a second, if `$limit_rate` or the like was set.
    pub(crate) limit_rate: Cell<Option<u64>>,
    /// When the first byte arrived, in milliseconds of [`crate::clock::steady_ms`].
    pub start_ms: Cell<u64>,
    /// What the wall's clock showed then, once somebody has asked; 0 before.
    start_wall_ms: Cell<u64>,
    /// What became of asking upstreams.
    pub(crate) upstream: RefCell<crate::upstream::record::Slot>,
    /// How many requests stand above this one: 0 for a main request.
    pub subrequest_depth: u16,
}

/// Properties of a request that are true or false.
#[derive(Debug)]
pub struct Flags {
    /// Came to be through an internal redirect or is a sub-request: `internal` locations are open.
    pub internal: Cell<bool>,
    /// The path was rewritten and wants another location.
    pub uri_changed: Cell<bool>,
    /// How often it may still start over.
    pub uri_changes_left: Cell<u8>,
    /// The path was rewritten inside its location without choosing another (`rewrite … break`), so that `alias`
    /// cannot tell what stands behind the location's prefix.
    pub alias_blocked: Cell<bool>,
    /// `alias` of a location with a regular expression has the path appended: `try_files` chose it.
    pub add_uri_to_alias: Cell<bool>,
    /// An error page is being made.
    pub error_page: Cell<bool>,
    /// The status that the response will have whatever its handler says, because it is an error page; 0 for none.
    pub err_status: Cell<u16>,
    /// The path or the arguments are no longer those that the client sent: `$request_uri` does not stand for them.
    pub uri_rewritten: Cell<bool>,
    /// The connection may serve another request.
    pub keep_alive: Cell<bool>,
    /// It was there before the answer to the request before it.
    pub pipelined: Cell<bool>,
    /// The head could not be read.
    pub malformed: Cell<bool>,
    /// A filter failed, or a handler gave up without an answer: nothing more of the response can be sent. In a
    /// sub-request it is the end of the main request.
    pub output_failed: Cell<bool>,
}

impl Default for Flags {
    fn default() -> Self {
        Flags {
            internal: Cell::new(false),
            uri_changed: Cell::new(false),
            uri_changes_left: Cell::new(URI_CHANGES_MAX + 1),
            alias_blocked: Cell::new(false),
            add_uri_to_alias: Cell::new(false),
            error_page: Cell::new(false),
            err_status: Cell::new(0),
            uri_rewritten: Cell::new(false),
            keep_alive: Cell::new(false),
            pipelined: Cell::new(false),
            malformed: Cell::new(false),
            output_failed: Cell::new(false),
        }
    }
}

/// A request that belongs to nobody keeps its memory alone.
impl Reset for Request {
    fn reset(&mut self) -> Keep {
        let Request {
            client,
            head,
            peer,
            number,
            method,
            uri,
            body,
            response,
            sink,
            parent,
            values,
            level,
            server,
            flags,
            restart,
            last_match,
            contexts,
            lasting_contexts,
            limit_rate,
            start_ms,
            start_wall_ms,
            upstream,
            subrequest_depth,
        } = self;
        // Contexts first: what they drop may still want to know the connection.
        contexts.get_mut().clear();
        lasting_contexts.get_mut().clear();
        *client = Client::http1(worker::nobody());
        head.get_mut().reset();
        uri.get_mut().clear();
        body.reset();
        response.get_mut().reset();
        match Rc::get_mut(values.get_mut()) {
            Some(values) => values.clear(),
            // Those of its parent.
            None => *values.get_mut() = Rc::default(),
        }
        last_match.get_mut().clear();
        upstream.get_mut().clear();
        (*sink, *parent, *flags, *subrequest_depth) = (Sink::Client, None, Flags::default(), 0);
        peer.set(Peer::Unix);
        number.set(0);
        method.set(Method::Get);
        level.set(LevelId(0));
        server.set(ServerId(0));
        restart.set(Restart::ServerRewrite);
        limit_rate.set(None);
        start_ms.set(0);
        start_wall_ms.set(0);
        Keep::Yes
    }

    fn fresh() -> Self {
        Request {
            client: Client::http1(worker::nobody()),
            head: RefCell::default(),
            peer: Cell::new(Peer::Unix),
            number: Cell::new(0),
            method: Cell::new(Method::Get),
            uri: RefCell::default(),
            body: RequestBody::default(),
            response: RefCell::default(),
            sink: Sink::Client,
            parent: None,
            values: RefCell::default(),
            level: Cell::new(LevelId(0)),
            server: Cell::new(ServerId(0)),
            flags: Flags::default(),
            restart: Cell::new(Restart::ServerRewrite),
            last_match: RefCell::default(),
            contexts: RefCell::default(),
            lasting_contexts: RefCell::default(),
            limit_rate: Cell::new(None),
            start_ms: Cell::new(0),
            start_wall_ms: Cell::new(0),
            upstream: RefCell::default(),
            subrequest_depth: 0,
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Request {
            client,
            head,
            peer,
            number,
            method,
            uri,
            body,
            response,
            sink,
            parent,
            values,
            level,
            server,
            flags,
            restart,
            last_match,
            contexts,
            lasting_contexts,
            limit_rate,
            start_ms,
            start_wall_ms: _,
            upstream,
            subrequest_depth,
        } = self;
        let contexts = (contexts.borrow().len(), lasting_contexts.borrow().len());
        f.debug_struct("Request")
            .field("conn", &client.connection().number)
            .field("head", head)
            .field("client", &(peer, number, start_ms))
            .field("target", &(method, uri))
            .field("body", body)
            .field("response", response)
            .field("place", &(sink, parent.is_some(), subrequest_depth, level, server, restart))
            .field("values", values)
            .field("flags", flags)
            .field("last_match", last_match)
            .field("contexts", &contexts)
            .field("limit_rate", limit_rate)
            .field("upstream", upstream)
            .finish()
    }
}

impl Request {
    /// Makes a request that is as good as new one of `client`. Its head is filled in by the client's protocol.
    pub(crate) fn attach(&mut self, client: Client) {
        let conn = client.connection();
        let slot_count = conn.config().variables.slot_count();
        Rc::get_mut(self.values.get_mut()).expect("nobody shares the values of a new request").make_room(slot_count);
        self.peer.set(conn.peer);
        let server = conn.default_server();
        self.client = client;
        self.set_server(server);
    }

    /// The connection that it came over.
    #[inline]
    pub fn connection(&self) -> &Connection {
        self.client.connection()
    }
    /// The client: who the socket says it is, or who a trusted proxy says it is.
    pub fn peer(&self) -> Peer {
        self.main().peer.get()
    }
    /// Believes a proxy that says who the client is: for this request and its sub-requests.
    pub fn set_peer(&self, peer: Peer) {
        self.main().peer.set(peer);
    }
    /// How many requests the connection had with this one.
    pub fn number(&self) -> u64 {
        self.main().number.get()
    }
    /// Counts it as the connection's next request.
    pub(crate) fn count(&mut self) {
        let requests = &self.client.connection().requests;
        let number = requests.get() + 1;
        requests.set(number);
        self.number.set(number);
    }

    /// A sub-request of `parent`, with a copy of its head; in the memory of a request that is over, where the worker has
    /// one.
    pub fn subrequest(parent: &Rc<Self>, sink: Sink, variables: VariableSharing) -> Rc<Self> {
        let mut req = worker::take_request();
        let request = Rc::get_mut(&mut req).expect("a spare request belongs to nobody");
        request.attach(parent.client.clone());
        match variables {
            VariableSharing::Fresh => {}
            VariableSharing::Shared => *request.values.get_mut() = parent.values(),
            VariableSharing::Copied => *request.values.get_mut() = Rc::new(parent.values().copy()),
        }
        request.head.get_mut().copy_from(&parent.head.borrow());
        request.sink = sink;
        request.parent = Some(parent.clone());
        request.subrequest_depth = parent.subrequest_depth + 1;
        request.set_server(parent.server.get());
        request.start_ms.set(clock::steady_ms());
        request.flags.internal.set(true);
        req
    }

    /// When the first byte arrived, in milliseconds since 1970; the same however often it is asked.
    pub fn started_at_ms(&self) -> u64 {
        if self.start_wall_ms.get() == 0 {
            let elapsed_ms = clock::steady_ms().saturating_sub(self.start_ms.get());
            self.start_wall_ms.set(clock::now_ms().saturating_sub(elapsed_ms));
        }
        self.start_wall_ms.get()
    }

    /// Gives it the target of `other`, and its place in the configuration.
    pub(crate) fn go_where(&self, other: &Request) {
        self.method.set(other.method.get());
        self.uri.borrow_mut().clone_from(&other.uri.borrow());
        self.last_match.borrow_mut().clone_from(&other.last_match.borrow());
        self.flags.internal.set(other.flags.internal.get());
        self.flags.uri_rewritten.set(other.flags.uri_rewritten.get());
        self.flags.alias_blocked.set(other.flags.alias_blocked.get());
        self.set_server(other.server.get());
        self.set_level(other.level_id());
    }

    /// The configuration that the request was accepted under.
    #[inline]
    pub fn conf(&self) -> &Config {
        self.client.connection().config()
    }
    /// The level of the configuration that applies now: the server, then the location, then an `if` inside it.
    pub fn level(&self) -> &Level {
        &self.conf().levels[self.level.get().0 as usize]
    }
    /// Number of the level that applies now.
    pub fn level_id(&self) -> LevelId {
        self.level.get()
    }
    /// Makes another level apply.
    pub fn set_level(&self, level: LevelId) {
        self.level.set(level);
    }
    /// What a module's directives say at the level that applies now.
    pub fn module_conf<C: Send + Sync + 'static>(&self, module: &'static Module<C>) -> &C {
        self.level().conf(module)
    }
    /// What the core's own directives say at the level that applies now.
    pub fn http_conf(&self) -> &crate::http_core::Conf {
        &self.level().core.http
    }
    /// The server that was chosen by name.
    pub fn config_server(&self) -> &crate::conf::Server {
        &self.conf().servers[self.server.get().0 as usize]
    }
    /// Chooses a server; its level applies.
    pub fn set_server(&self, server: ServerId) {
        self.server.set(server);
        self.level.set(self.conf().servers[server.0 as usize].level);
    }
    /// Values of variables.
    pub(crate) fn values(&self) -> Rc<Values> {
        self.values.borrow().clone()
    }
    /// Properties of the request that are true or false.
    pub fn flags(&self) -> &Flags {
        &self.flags
    }

    /// Whether this is a sub-request.
    pub fn is_subrequest(&self) -> bool {
        self.parent.is_some()
    }
    /// The main request.
    pub fn main(&self) -> &Request {
        let mut req = self;
        while let Some(parent) = &req.parent {
            req = parent;
        }
        req
    }
    /// The main request, to keep.
    pub fn main_rc(self: &Rc<Self>) -> Rc<Request> {
        let mut req = self;
        while let Some(parent) = &req.parent {
            req = parent;
        }
        req.clone()
    }
    /// Text of the method that applies now; `head` is the request's.
    pub fn method_text<'h>(&self, head: &'h RequestHead) -> &'h [u8] {
        let method = self.method.get();
        if method == head.method { head.method_text() } else { method.name().as_bytes() }
    }
    /// Whether the client asked for the head alone.
    pub fn is_head(&self) -> bool {
        self.method.get() == Method::Head
    }
    /// Whether the response's head has been sent.
    pub fn header_sent(&self) -> bool {
        self.response.borrow().progress != Progress::Open
    }
    /// Whether the log phase runs for this request.
    pub fn is_logged(&self) -> bool {
        !self.is_subrequest()
            || self.http_conf().log_subrequest == Some(true)
            || self.subrequest_depth == 1 && self.client.connection().is_nobodys()
    }
    /// First value of a field of the request's head.
    pub fn header(&self, known: Known) -> Option<BString> {
        self.head.borrow().fields.get(known).map(BString::from)
    }
    pub(crate) fn uri_ends_with_slash(&self) -> bool {
        self.uri.borrow().path.ends_with(b"/")
    }
    pub(crate) fn satisfy_any(&self) -> bool {
        self.http_conf().satisfy == Some(crate::http_core::SATISFY_ANY)
    }

    /// The context that a module keeps with this request, made when first asked for.
    pub fn context<T: Default + 'static>(&self) -> Rc<T> {
        if let Some(found) = self.find_context::<T>() {
            return found;
        }
        let new = Rc::new(T::default());
        self.contexts.borrow_mut().push((TypeId::of::<T>(), new.clone()));
        new
    }
    /// The context that a module keeps with this request, if there is one.
    #[inline]
    pub fn find_context<T: 'static>(&self) -> Option<Rc<T>> {
        let contexts = self.contexts.borrow();
        let (_, found) = contexts.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        found.clone().downcast::<T>().ok()
    }
    /// Puts a module's context in place.
    pub fn set_context<T: 'static>(&self, context: Rc<T>) {
        let mut contexts = self.contexts.borrow_mut();
        contexts.retain(|(id, _)| *id != TypeId::of::<T>());
        contexts.push((TypeId::of::<T>(), context));
    }

    /// The context that a module keeps with the main request until its end, over internal redirects; made when first
    /// asked for. Dropping it is the end of the request.
    pub fn lasting_context<T: Default + 'static>(&self) -> Rc<T> {
        if let Some(found) = self.find_lasting_context::<T>() {
            return found;
        }
        let new = Rc::new(T::default());
        self.main().lasting_contexts.borrow_mut().push((TypeId::of::<T>(), new.clone()));
        new
    }
    /// Drops them: the request came to its end, though its memory may wait for the connection's next one.
    pub(crate) fn end_lasting_contexts(&self) {
        // One by one: what a destructor does may ask for contexts.
        while let Some(context) = { self.lasting_contexts.borrow_mut().pop() } {
            drop(context);
        }
    }
    /// The context that [`lasting_context`](Self::lasting_context) made, if it did.
    #[inline]
    pub fn find_lasting_context<T: 'static>(&self) -> Option<Rc<T>> {
        // Most requests have none, and are asked several times.
        let main = self.main();
        if main.lasting_contexts.borrow().is_empty() { None } else { main.search_lasting_contexts() }
    }
    fn search_lasting_contexts<T: 'static>(&self) -> Option<Rc<T>> {
        let contexts = self.lasting_contexts.borrow();
        let (_, found) = contexts.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        found.clone().downcast::<T>().ok()
    }

    /// Drops all contexts: the request has ended, though it may be kept to be used again.
    pub(crate) fn forget_contexts(&self) {
        for list in [&self.contexts, &self.lasting_contexts] {
            if !list.borrow().is_empty() {
                // What is dropped may look at the request, so the list is not borrowed meanwhile.
                let mut contexts = list.take();
                contexts.clear();
                *list.borrow_mut() = contexts;
            }
        }
    }

    /// Remembers a match: `$1` and so on mean its groups from now on.
    pub fn set_captures(&self, subject: &[u8], captures: Captures) {
        let mut last = self.last_match.borrow_mut();
        last.subject.clear();
        last.subject.extend_from_slice(subject);
        last.captures = captures;
    }
    /// Forgets the last match, after one that failed.
    pub fn clear_captures(&self) {
        self.last_match.borrow_mut().clear();
    }
    /// Appends group `group` of the last match to `out`; answers whether it took part.
    pub fn capture(&self, group: usize, out: &mut Vec<u8>) -> bool {
        let last = self.last_match.borrow();
        match last.captures.groups.get(group) {
            Some(&Some((start, end))) => {
                out.extend_from_slice(&last.subject[start..end]);
                true
            }
            _ => false,
        }
    }

    /// Makes the engine start over at `restart`; the handler then answers [`crate::phase::Step::Redirected`].
    pub fn restart_at(&self, restart: Restart) {
        self.restart.set(restart);
    }
    pub(crate) fn take_restart(&self) -> Restart {
        self.restart.get()
    }
    pub(crate) fn take_uri_changed(&self) -> bool {
        self.flags.uri_changed.replace(false)
    }
    /// Counts a start over; `false` when there were too many.
    pub(crate) fn count_uri_change(&self) -> bool {
        let left = self.flags.uri_changes_left.get().saturating_sub(1);
        self.flags.uri_changes_left.set(left);
        left > 0
    }
    pub(crate) fn log_cycle(&self) {
        let uri = self.uri.borrow();
        self.log(
            crate::log::Level::Error,
            format_args!("rewrite or internal redirection cycle while processing \"{}\"", BStr::new(&uri.path)),
        );
        self.flags.uri_changes_left.set(2);
    }

    /// Gives the request another URI and makes it start over with the server's rewrite phase, as an internal request.
    /// `args` of `None` leaves them empty.
    pub fn redirect_internally(&self, path: &[u8], args: Option<&[u8]>) {
        {
            let mut uri = self.uri.borrow_mut();
            uri.path.clear();
            uri.path.extend_from_slice(path);
            uri.args.clear();
            uri.args.extend_from_slice(args.unwrap_or_default());
        }
        self.flags.internal.set(true);
        self.flags.uri_rewritten.set(true);
        self.flags.alias_blocked.set(false);
        self.flags.add_uri_to_alias.set(false);
        self.contexts.borrow_mut().clear();
        self.set_server(self.server.get());
        self.restart.set(Restart::ServerRewrite);
    }

    /// Sends the request to the named location `name` (with its `@`); answers whether there is one.
    pub fn redirect_to_named(&self, name: &[u8]) -> bool {
        let Some(level) = self.config_server().named.get(BStr::new(name)).copied() else {
            return false;
        };
        self.flags.internal.set(true);
        self.flags.uri_changed.set(false);
        self.contexts.borrow_mut().clear();
        self.set_level(level);
        self.limit_keep_alive();
        self.apply_limit_except();
        self.restart.set(Restart::Rewrite);
        true
    }

    /// Writes a line to the error log, with the request's context behind it.
    pub fn log(&self, level: crate::log::Level, message: std::fmt::Arguments<'_>) {
        crate::error_log::write_for_request(self, level, message);
    }
}
