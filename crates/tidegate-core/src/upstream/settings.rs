//! What the common directives of modules that ask upstreams say: at one level, and for the requests of a location.
//!
//! A module embeds an [`UpstreamConf`] in its configuration; [`super::directives`] fills it.

use std::{ops::Range, sync::Arc, time::Duration};

use bstr::{BString, ByteSlice};
use tidegate_http::Known;

use super::{
    balance::Timeouts,
    caching::rules::{CacheConf, CacheRules},
    failure::Failures,
    socket::Bind,
    store::ACCESS_DEFAULT,
    tls::{TlsConf, TlsSettings},
    url::{HostKind, Url},
};
use crate::{
    http_core::{limit_ms, ms},
    inherit,
    request::Request,
    template::Template,
};

/// What the common directives say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct UpstreamConf {
    pub bind: Option<Option<(Template, bool)>>,
    pub buffer_size: Option<usize>,
    pub buffering: Option<bool>,
    pub buffers: Option<(usize, usize)>,
    /// The directives of its cache.
    pub cache: CacheConf,
    pub busy_buffers_size: Option<usize>,
    pub connect_timeout: Option<Duration>,
    pub force_ranges: Option<bool>,
    pub hide_headers: Option<Arc<Vec<BString>>>,
    pub ignore_client_abort: Option<bool>,
    pub ignore_headers: Option<Ignored>,
    pub intercept_errors: Option<bool>,
    pub limit_rate: Option<Template>,
    pub max_temp_file_size: Option<u64>,
    pub next_upstream: Option<Failures>,
    pub next_upstream_timeout: Option<Duration>,
    pub next_upstream_tries: Option<u64>,
    pub pass_headers: Option<Arc<Vec<BString>>>,
    pub pass_request_body: Option<bool>,
    pub pass_request_headers: Option<bool>,
    pub pass_trailers: Option<bool>,
    pub read_timeout: Option<Duration>,
    pub request_buffering: Option<bool>,
    pub send_lowat: Option<usize>,
    pub send_timeout: Option<Duration>,
    pub socket_keepalive: Option<bool>,
    /// `None` inside for `off`.
    pub store: Option<Option<StoreTo>>,
    pub store_access: Option<u32>,
    pub temp_file_write_size: Option<usize>,
    pub temp_path: Option<BString>,
    pub tls: TlsConf,
}

/// Where a response is stored (`proxy_store`).
#[derive(Debug, Clone)]
pub enum StoreTo {
    /// As the file that the request's path means.
    File,
    /// Under this name.
    Path(Template),
}

/// Fields of responses that have no effect (`proxy_ignore_headers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored(u32);

pub(super) const IGNORABLE: &[(&str, Ignored)] = &[
    ("X-Accel-Redirect", Ignored::REDIRECT),
    ("X-Accel-Expires", Ignored::EXPIRES_HERE),
    ("X-Accel-Limit-Rate", Ignored::LIMIT_RATE),
    ("X-Accel-Buffering", Ignored::BUFFERING),
    ("X-Accel-Charset", Ignored::CHARSET),
    ("Expires", Ignored::EXPIRES),
    ("Cache-Control", Ignored::CACHE_CONTROL),
    ("Set-Cookie", Ignored::SET_COOKIE),
    ("Vary", Ignored::VARY),
];

impl Ignored {
    /// These and others.
    pub(super) fn and(self, other: Ignored) -> Ignored {
        Ignored(self.0 | other.0)
    }

    /// `X-Accel-Redirect`
    pub const REDIRECT: Ignored = Ignored(1);
    /// `X-Accel-Limit-Rate`
    pub const LIMIT_RATE: Ignored = Ignored(4);
    /// `X-Accel-Buffering`
    pub const BUFFERING: Ignored = Ignored(8);
    /// `X-Accel-Charset`
    pub const CHARSET: Ignored = Ignored(16);
    /// `X-Accel-Expires`
    pub const EXPIRES_HERE: Ignored = Ignored(2);
    /// `Expires`
    pub const EXPIRES: Ignored = Ignored(32);
    /// `Cache-Control`
    pub const CACHE_CONTROL: Ignored = Ignored(64);
    /// `Set-Cookie`
    pub const SET_COOKIE: Ignored = Ignored(128);
    /// `Vary`
    pub const VARY: Ignored = Ignored(256);

    /// Whether a field has no effect.
    pub fn contains(self, field: Ignored) -> bool {
        self.0 & field.0 != 0
    }
}

/// A page of memory: the size of one buffer by default.
const PAGE_BYTES: usize = 4096;

impl UpstreamConf {
    /// Takes the outer level's value for each field that the inner level left open.
    pub fn inherit(&mut self, parent: &UpstreamConf) {
        let child = self;
        // Responses are stored or kept in a cache, not both: what is said further in counts.
        if matches!(child.cache.cache, Some(Some(_))) {
            child.store.get_or_insert_default();
        } else if matches!(child.store, Some(Some(_))) {
            child.cache.cache.get_or_insert_default();
        }
        child.cache.inherit(&parent.cache);
        inherit!(child, parent; bind, buffer_size, buffering, buffers, busy_buffers_size, connect_timeout,
            force_ranges, hide_headers, ignore_client_abort, ignore_headers, intercept_errors, max_temp_file_size,
            next_upstream, next_upstream_timeout, next_upstream_tries, pass_headers, pass_request_body,
            limit_rate, pass_request_headers, pass_trailers, read_timeout, request_buffering, send_lowat, send_timeout,
            socket_keepalive, store, store_access, temp_file_write_size, temp_path);
        child.tls.inherit(&parent.tls);
    }

    /// Warns of a cache whose responses nothing tells apart: it keeps none. `prefix` is that of the module's directives.
    pub fn check_cache_key(&self, prefix: &str, diagnostics: &mut tidegate_conf::Diagnostics) {
        if matches!(self.cache.cache, Some(Some(_))) && self.cache.cache_key.is_none() {
            diagnostics.warn(None, format!("no \"{prefix}_cache_key\" for \"{prefix}_cache\": no response is kept"));
        }
    }

    /// The settings of a location. `hidden` are the fields that the module hides by default.
    pub fn settings(&self, hidden: &[&str], temp_path: &'static str) -> Settings {
        let (buffer_count, buffer_bytes) = self.buffers.unwrap_or((8, PAGE_BYTES));
        let head_bytes = self.buffer_size.unwrap_or(PAGE_BYTES);
        Settings {
            timeouts: Timeouts {
                connect_ms: limit_ms(self.connect_timeout, 60_000),
                send_ms: limit_ms(self.send_timeout, 60_000),
                read_ms: limit_ms(self.read_timeout, 60_000),
            },
            head_bytes_max: head_bytes,
            buffer_piece_bytes: buffer_bytes,
            buffer_bytes: buffer_count.saturating_mul(buffer_bytes).saturating_add(head_bytes),
            buffering: self.buffering.unwrap_or(true),
            request_buffering: self.request_buffering.unwrap_or(true),
            temp_file_bytes_max: self.max_temp_file_size.unwrap_or(1 << 30),
            temp_path: self.temp_path.clone().unwrap_or_else(|| temp_path.into()),
            watch_client: !self.ignore_client_abort.unwrap_or(false),
            ignored: self.ignore_headers.unwrap_or_default(),
            intercept_errors: self.intercept_errors.unwrap_or(false),
            intercept_always: 0..0,
            next: self.next_upstream.unwrap_or(Failures::DEFAULT),
            next_timeout_ms: ms(self.next_upstream_timeout, 0),
            next_tries: u32::try_from(self.next_upstream_tries.unwrap_or(0)).unwrap_or(u32::MAX),
            pass_request_body: self.pass_request_body.unwrap_or(true),
            pass_request_headers: self.pass_request_headers.unwrap_or(true),
            pass_trailers: self.pass_trailers.unwrap_or(false),
            force_ranges: self.force_ranges.unwrap_or(false),
            socket_keepalive: self.socket_keepalive.unwrap_or(false),
            limit_rate: self.limit_rate.clone(),
            cache: self.cache.rules(),
            store: self.store.clone().flatten(),
            store_access: self.store_access.unwrap_or(ACCESS_DEFAULT),
            bind: self.bind.clone().flatten(),
            tls: self.tls.settings(),
            hidden: HiddenFields::new(
                hidden,
                self.hide_headers.as_deref().map_or(&[], Vec::as_slice),
                self.pass_headers.as_deref().map_or(&[], Vec::as_slice),
            ),
        }
    }
}

/// The common settings of one location.
#[derive(Debug)]
pub struct Settings {
    /// Time limits.
    pub timeouts: Timeouts,
    /// Longest head of a response.
    pub head_bytes_max: usize,
    /// How much of a response is kept in memory for a slow client.
    pub buffer_bytes: usize,
    /// Size of one of these.
    pub buffer_piece_bytes: usize,
    /// A response is read as fast as it comes.
    pub buffering: bool,
    /// A request is sent when its body is complete.
    pub request_buffering: bool,
    /// Most bytes of a response in a file; 0 for no file.
    pub temp_file_bytes_max: u64,
    /// Directory of such files.
    pub temp_path: BString,
    /// A client that leaves ends the exchange.
    pub watch_client: bool,
    /// Responses are kept in a cache.
    pub cache: Option<Arc<CacheRules>>,
    /// Complete responses become files.
    pub store: Option<StoreTo>,
    /// Rights of such files.
    pub store_access: u32,
    /// Fields without effect.
    pub ignored: Ignored,
    /// Statuses from 300 on lead to error pages, where the configuration has them.
    pub intercept_errors: bool,
    /// These statuses lead to error pages even so: the server's own, if there is no other.
    pub intercept_always: Range<u16>,
    /// Failures after which another peer is asked.
    pub next: Failures,
    /// No more peers are asked after this time, in milliseconds; 0 for no limit.
    pub next_timeout_ms: u64,
    /// Most tries; 0 for no limit.
    pub next_tries: u32,
    /// The request's body is sent.
    pub pass_request_body: bool,
    /// The request's fields are sent.
    pub pass_request_headers: bool,
    /// The response's trailers reach the client.
    pub pass_trailers: bool,
    /// The body may be served in ranges.
    pub force_ranges: bool,
    /// TCP looks after idle connections.
    pub socket_keepalive: bool,
    /// Bytes a second that a response is read with, if it is buffered.
    pub limit_rate: Option<Template>,
    /// How TLS is spoken with peers that want it.
    pub tls: TlsSettings,
    /// Local address of connections.
    bind: Option<(Template, bool)>,
    /// Fields that the client does not get.
    pub hidden: HiddenFields,
}

impl Settings {
    /// Our end of a connection; `None` leaves it to the system.
    pub fn bind(&self, req: &Request) -> Option<Bind> {
        let (template, transparent) = self.bind.as_ref()?;
        let text = template.eval_cow(req);
        let url = Url::parse(text.as_bstr(), false).ok()?;
        match url.kind {
            HostKind::Ip(ip) => Some(Bind { ip, port: url.port.unwrap_or(0), transparent: *transparent }),
            HostKind::Name | HostKind::Unix => None,
        }
    }
}

/// Fields of responses that clients do not get.
#[derive(Debug)]
pub struct HiddenFields {
    known: Box<[bool]>,
    others: Vec<BString>,
}

impl HiddenFields {
    /// `defaults` and `hidden` without `passed`.
    fn new(defaults: &[&str], hidden: &[BString], passed: &[BString]) -> Self {
        let mut fields = HiddenFields { known: vec![false; Known::ALL.len() + 1].into(), others: Vec::new() };
        let defaults = defaults.iter().map(|name| name.as_bytes());
        let is_passed = |name: &[u8]| passed.iter().any(|passed| passed.eq_ignore_ascii_case(name));
        let hidden = hidden.iter().map(|name| name.as_bytes());
        for name in defaults.filter(|name| !is_passed(name)).chain(hidden) {
            match Known::of(name) {
                Known::Other => fields.others.push(name.into()),
                known => fields.known[known as usize] = true,
            }
        }
        fields
    }
    /// Whether the field is hidden.
    pub fn contains(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.others.iter().any(|other| other.eq_ignore_ascii_case(name)),
            known => self.known[known as usize],
        }
    }
}
