//! `drizzle_cache`: answers that are kept until a commit changes what they were made of.
//!
//! An answer of the embedded engine is kept with the versions that its tables had before its statement ran, and is good while
//! they stand ([`Freshness`]). Commits raise versions before they are acknowledged, so no answer is older than the last commit
//! that anybody was told of. The embedded engine says when a result depends on more than tables, on the clock for instance; such
//! answers are not kept. What other servers answer is kept for `max_age`, and until it is purged.
//!
//! The key holds everything that decides about the bytes ([`key_of`]). What new sessions begin with (`sql_mode`, time zone,
//! character set) is a part of the [`Freshness`] instead, because the session that runs a statement may be older than the request.

use std::{
    cell::Cell,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bstr::{BString, ByteSlice};
use bytes::Bytes;
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_core::{
    conf::Build,
    output::{Buf, Chunk, Closed},
    phase::{Outcome, Ready, Step},
    request::Request,
};
use tidegate_http::Known;
use tidegate_net::clock;
use tidegate_rows::Param;
use tidegate_sql::Freshness;

use super::{
    Conf, MODULE, Running,
    backend::Backend,
    params::Statements,
    server::split_word,
    sink::{ResponseSink, SEND_BYTES, drain, has_backlog},
};
use crate::{
    row_format::RowFormat,
    zone::{self, State, Weigh},
};

/// The largest answer that is kept without `max_size`, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What the parts of an answer cost beside its bytes.
const ANSWER_OVERHEAD: usize = 256;

/// A zone: answers that all workers share.
pub(super) type Memory = State<Arc<Answer>>;

/// An answer, ready to send.
pub(super) struct Answer {
    pieces: Box<[Bytes]>,
    bytes: usize,
    /// `None` for one of a server that tells nothing about its tables.
    freshness: Option<Freshness>,
    etag: Option<Box<[u8]>>,
    /// When it was made, by [`clock::steady_ms`].
    made_ms: u64,
}

impl Weigh for Arc<Answer> {
    fn bytes(&self) -> usize {
        self.bytes + ANSWER_OVERHEAD
    }
}

/// `drizzle_cache`
#[derive(Debug, Clone)]
pub(super) enum Rule {
    Off,
    Zone(ZoneRule),
}

/// How answers are kept in a zone.
#[derive(Debug, Clone)]
pub(super) struct ZoneRule {
    name: BString,
    /// How old an answer may become.
    pub(super) max_age: Option<Duration>,
    /// How large.
    max_size: usize,
}

/// What `$drizzle_cache_status` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Hit,
    Miss,
    Bypass,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Status::Hit => "HIT",
            Status::Miss => "MISS",
            Status::Bypass => "BYPASS",
        }
    }
}

impl Rule {
    /// Reads `zone=name [max_age=time] [max_size=size] | off`; answers also which argument names the zone.
    fn parse(directive: &ast::Directive) -> Result<(Self, Option<usize>), Diagnostic> {
        const WORDS: [&str; 4] = ["zone=", "max_age=", "max_size=", "off"];
        if let [arg] = &directive.args[..]
            && arg.value == "off"
        {
            return Ok((Rule::Off, None));
        }
        let mut rule = ZoneRule { name: BString::default(), max_age: None, max_size: ANSWER_BYTES_MAX };
        let mut zone = None;
        for (index, arg) in directive.args.iter().enumerate() {
            let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, WORDS);
            match split_word(&arg.value).ok_or_else(invalid)? {
                (b"zone", name) if !name.is_empty() => {
                    rule.name = name.into();
                    zone = Some(index);
                }
                (b"max_age", time) => {
                    let time = values::time(time.as_bstr()).ok().filter(|time| !time.is_zero());
                    rule.max_age = Some(time.ok_or_else(invalid)?);
                }
                (b"max_size", size) => {
                    let size = values::size(size.as_bstr()).map_err(|_| invalid())?;
                    rule.max_size = usize::try_from(size).unwrap_or(usize::MAX);
                }
                _ => return Err(invalid()),
            }
        }
        let Some(zone) = zone else {
            let message = "\"drizzle_cache\" must have \"zone\" parameter".to_owned();
            return Err(Diagnostic::new(Severity::Emerg, directive.name.span, message));
        };
        Ok((Rule::Zone(rule), Some(zone)))
    }
}

/// Reads `drizzle_cache_zone name size`.
pub(super) fn define(conf: &mut Conf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let name = directive.args[0].value.clone();
    let memory = zone::of_size("drizzle_cache", &name, &directive.args[1])?;
    if conf.zones.defined.contains_key(&name) {
        let message = format!("the zone \"{name}\" is already defined");
        return Err(Diagnostic::new(Severity::Emerg, directive.args[0].span, message));
    }
    conf.zones.defined.insert(name, memory);
    Ok(())
}

/// Reads `drizzle_cache`.
pub(super) fn use_zone(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.drizzle_cache.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    let (rule, zone) = Rule::parse(directive)?;
    if let (Rule::Zone(rule), Some(index)) = (&rule, zone) {
        let arg = &directive.args[index];
        match build.http_level() {
            Some(http) if http != build.level() => {
                build.conf_mut(&MODULE, http).zones.use_zone(rule.name.as_bstr(), arg);
            }
            _ => conf.zones.use_zone(rule.name.as_bstr(), arg),
        }
    }
    conf.drizzle_cache = Some(rule);
    Ok(())
}

/// What a zone has for a request.
pub(super) enum Found {
    /// Nothing is to be looked for, nor to be kept.
    Bypass,
    Hit(Arc<Answer>),
    /// Nothing that is good; here an answer belongs.
    Miss(Place),
}

/// Where the answer to a request is kept.
pub(super) struct Place {
    memory: Arc<Memory>,
    key: Vec<u8>,
    max_size: usize,
    /// The server tells nothing about its tables.
    by_age: bool,
}

/// Looks for the answer to a request.
pub(super) fn find(
    req: &Request,
    conf: &Conf,
    backend: &Backend,
    statements: &Statements,
    format: &RowFormat,
) -> Found {
    let Some(Rule::Zone(rule)) = &conf.drizzle_cache else { return Found::Bypass };
    let by_age = matches!(backend, Backend::Mysql { .. });
    // The embedded engine says itself what a result depends on, when it has run.
    if by_age && (rule.max_age.is_none() || !statements.traits.may_be_shared) {
        return Found::Bypass;
    }
    let Some(memory) = conf.zones.defined.get(&rule.name) else { return Found::Bypass };
    let Some(key) = key_of(req, backend, statements, format) else { return Found::Bypass };
    let mut shard = memory.shard(&key);
    if let Some(answer) = shard.entries.get(&key[..]) {
        if answer.is_good(rule.max_age) {
            return Found::Hit(Arc::clone(answer));
        }
        shard.remove(&key);
    }
    drop(shard);
    Found::Miss(Place { memory: Arc::clone(memory), key, max_size: rule.max_size, by_age })
}

/// Removes the answer to a request; answers whether there was one.
pub(super) fn purge(
    req: &Request,
    conf: &Conf,
    backend: &Backend,
    statements: &Statements,
    format: &RowFormat,
) -> bool {
    let Some(Rule::Zone(rule)) = &conf.drizzle_cache else { return false };
    let Some(memory) = conf.zones.defined.get(&rule.name) else { return false };
    let Some(key) = key_of(req, backend, statements, format) else { return false };
    let mut shard = memory.shard(&key);
    let found = shard.entries.contains(&key[..]);
    shard.remove(&key);
    found
}

/// Everything that decides about an answer, but for what its tables hold and new sessions begin with. Each part has its length.
fn key_of(req: &Request, backend: &Backend, statements: &Statements, format: &RowFormat) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(256);
    format.append_identity(&mut key);
    let mut part = |write: &mut dyn FnMut(&mut Vec<u8>)| {
        let at = key.len();
        key.extend([0; 8]);
        write(&mut key);
        let length = (key.len() - at - 8) as u64;
        key[at..at + 8].copy_from_slice(&length.to_le_bytes());
    };
    let mut known = Ok(());
    part(&mut |key| known = backend.append_identity(req.conf(), key));
    known.ok()?;
    part(&mut |key| key.extend_from_slice(&statements.sql));
    for param in &statements.params {
        part(&mut |key| append_param(key, param));
    }
    Some(key)
}

fn append_param(key: &mut Vec<u8>, param: &Param) {
    match param {
        Param::Null => key.push(0),
        Param::Bytes(bytes) => {
            key.push(1);
            key.extend_from_slice(bytes);
        }
        Param::Int(value) => {
            key.push(2);
            key.extend_from_slice(&value.to_le_bytes());
        }
        Param::Uint(value) => {
            key.push(3);
            key.extend_from_slice(&value.to_le_bytes());
        }
        Param::Double(value) => {
            key.push(4);
            key.extend_from_slice(&value.to_le_bytes());
        }
        Param::Typed(kind, text) => {
            key.extend([5, *kind as u8]);
            key.extend_from_slice(text);
        }
    }
}

impl Answer {
    fn is_good(&self, max_age: Option<Duration>) -> bool {
        let is_young = || {
            let age = Duration::from_millis(clock::steady_ms().saturating_sub(self.made_ms));
            max_age.is_none_or(|max_age| age <= max_age)
        };
        self.freshness.as_ref().is_none_or(Freshness::holds) && is_young()
    }

    /// Answers a request whose response has been prepared.
    pub(super) fn send(self: Arc<Self>, req: &Rc<Request>) -> Outcome {
        {
            let mut response = req.response.borrow_mut();
            response.content_length = Some(self.bytes as u64);
            if let Some(etag) = &self.etag {
                response.fields.set_known(Known::ETag, etag);
            }
        }
        if self.pieces.len() == 1 && self.bytes <= SEND_BYTES {
            let sent = req.send(Chunk::bytes(self.pieces[0].clone()).and_last());
            let step = |sent: Result<(), Closed>| if sent.is_ok() { Step::Ok } else { Step::Close };
            return match sent {
                Ready::Now(sent) => Ready::Now(step(sent)),
                Ready::Later(sending) => Ready::later(async move { step(sending.await) }),
            };
        }
        let req = Rc::clone(req);
        Ready::later(async move {
            match self.send_slowly(&req).await {
                Ok(()) => Step::Ok,
                Err(Closed) => Step::Close,
            }
        })
    }

    /// Sends piece by piece, as fast as the client takes them.
    async fn send_slowly(&self, req: &Rc<Request>) -> Result<(), Closed> {
        for piece in &self.pieces {
            let mut chunk = Chunk::default();
            chunk.bufs.push(Buf::Bytes(piece.clone()));
            req.send(chunk).wait().await?;
            if has_backlog(req) {
                drain(req).await?;
            }
        }
        req.send(Chunk::end()).wait().await
    }
}

impl Place {
    /// How much of an answer is kept at most, in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.max_size
    }

    /// Keeps the answer that a sink has written, if it depends on nothing else than tables, and has its `ETag` sent with it.
    pub(super) fn keep(
        self,
        req: &Request,
        sink: &mut ResponseSink<RowFormat>,
        freshness: Option<Freshness>,
    ) -> Status {
        if freshness.is_none() && !self.by_age {
            return Status::Bypass;
        }
        let Some(pieces) = sink.pieces() else { return Status::Miss };
        let etag = freshness.as_ref().and_then(|freshness| etag_of(&self.key, freshness));
        if let Some(etag) = etag.as_ref().filter(|_| sink.is_untouched()) {
            req.response.borrow_mut().fields.set_known(Known::ETag, etag);
        }
        let bytes = pieces.iter().map(Bytes::len).sum();
        let answer = Answer { pieces: pieces.into(), bytes, freshness, etag, made_ms: clock::steady_ms() };
        let mut shard = self.memory.shard(&self.key);
        shard.remove(&self.key);
        let weight = bytes + ANSWER_OVERHEAD;
        if shard.could_hold(&self.key, weight) && answer.is_good(None) {
            while !shard.has_room_for(&self.key, weight) && shard.remove_oldest(|_| true) {}
            shard.insert(&self.key, Arc::new(answer));
        }
        Status::Miss
    }
}

/// The tag of an answer. What is asked, the versions of the tables, the definitions of functions and the settings are in it: never
/// do all of them come with another answer. Without a table there is none, because the others are not numbered beyond a restart,
/// behind which all tables have new versions.
fn etag_of(key: &[u8], freshness: &Freshness) -> Option<Box<[u8]>> {
    freshness.versions().next()?;
    let hash = |hash: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        hash(&mut hasher);
        hasher.finish()
    };
    let asked = hash(&|hasher| key.hash(hasher));
    let made_of = hash(&|hasher| {
        freshness.settings().hash(hasher);
        freshness.versions().for_each(|version| version.hash(hasher));
        freshness.definitions().for_each(|definitions| definitions.hash(hasher));
    });
    Some(format!("\"{asked:016x}{made_of:016x}\"").into_bytes().into())
}

/// What a request notes of the cache.
pub(super) fn note(req: &Request, status: Status) {
    req.context::<Running>().cache_status.set(Some(status));
}

/// Receives what a result depends on.
pub(super) type Depends = Cell<Option<Freshness>>;
