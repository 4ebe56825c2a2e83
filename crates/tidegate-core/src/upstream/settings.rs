//! The directives that all modules which ask upstreams have in common: `proxy_read_timeout`, `fastcgi_read_timeout` …
//!
//! A module embeds an [`UpstreamConf`] in its configuration and makes its table with
//! [`upstream_directives!`](crate::upstream_directives), which puts the module's prefix before each name and the module's
//! own directives behind them.

use std::{sync::Arc, time::Duration};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_http::Known;

use super::{
    balance::Timeouts,
    failure::Failures,
    socket::Bind,
    store::ACCESS_DEFAULT,
    url::{HostKind, Url},
};
use crate::{
    conf::Build,
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

const IGNORABLE: &[(&str, Ignored)] = &[
    ("X-Accel-Redirect", Ignored::REDIRECT),
    ("X-Accel-Expires", Ignored(2)),
    ("X-Accel-Limit-Rate", Ignored::LIMIT_RATE),
    ("X-Accel-Buffering", Ignored::BUFFERING),
    ("X-Accel-Charset", Ignored::CHARSET),
    ("Expires", Ignored(32)),
    ("Cache-Control", Ignored(64)),
    ("Set-Cookie", Ignored(128)),
    ("Vary", Ignored(256)),
];

impl Ignored {
    /// `X-Accel-Redirect`
    pub const REDIRECT: Ignored = Ignored(1);
    /// `X-Accel-Limit-Rate`
    pub const LIMIT_RATE: Ignored = Ignored(4);
    /// `X-Accel-Buffering`
    pub const BUFFERING: Ignored = Ignored(8);
    /// `X-Accel-Charset`
    pub const CHARSET: Ignored = Ignored(16);

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
        inherit!(child, parent; bind, buffer_size, buffering, buffers, busy_buffers_size, connect_timeout,
            force_ranges, hide_headers, ignore_client_abort, ignore_headers, intercept_errors, max_temp_file_size,
            next_upstream, next_upstream_timeout, next_upstream_tries, pass_headers, pass_request_body,
            limit_rate, pass_request_headers, pass_trailers, read_timeout, request_buffering, send_lowat, send_timeout,
            socket_keepalive, store, store_access, temp_file_write_size, temp_path);
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
            next: self.next_upstream.unwrap_or(Failures::DEFAULT),
            next_timeout_ms: ms(self.next_upstream_timeout, 0),
            next_tries: u32::try_from(self.next_upstream_tries.unwrap_or(0)).unwrap_or(u32::MAX),
            pass_request_body: self.pass_request_body.unwrap_or(true),
            pass_request_headers: self.pass_request_headers.unwrap_or(true),
            pass_trailers: self.pass_trailers.unwrap_or(false),
            force_ranges: self.force_ranges.unwrap_or(false),
            socket_keepalive: self.socket_keepalive.unwrap_or(false),
            limit_rate: self.limit_rate.clone(),
            store: self.store.clone().flatten(),
            store_access: self.store_access.unwrap_or(ACCESS_DEFAULT),
            bind: self.bind.clone().flatten(),
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
    /// Complete responses become files.
    pub store: Option<StoreTo>,
    /// Rights of such files.
    pub store_access: u32,
    /// Fields without effect.
    pub ignored: Ignored,
    /// Statuses from 300 on lead to error pages.
    pub intercept_errors: bool,
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

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// `…_next_upstream error timeout …;`
///
/// # Errors
/// A word that is none of these.
pub fn next_upstream(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let mut set = Failures(0);
    for arg in &directive.args {
        let failures = values::word(arg.value.as_bstr(), Failures::WORDS).map_err(|_| {
            let known = Failures::WORDS.iter().map(|(word, _)| *word);
            Diagnostic::unknown_value(&arg.value, arg.span, known)
        })?;
        set = set.and(failures);
    }
    fill(&mut conf.next_upstream, set, directive)
}

/// `…_ignore_headers X-Accel-Redirect …;`
///
/// # Errors
/// A field that has no effect anyway.
pub fn ignore_headers(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let mut set = Ignored::default();
    for arg in &directive.args {
        let field = values::word(arg.value.as_bstr(), IGNORABLE).map_err(|_| {
            let known = IGNORABLE.iter().map(|(name, _)| *name);
            Diagnostic::unknown_value(&arg.value, arg.span, known)
        })?;
        set.0 |= field.0;
    }
    fill(&mut conf.ignore_headers, set, directive)
}

/// `…_hide_header name;`, `…_pass_header name;`
pub fn add_name(list: &mut Option<Arc<Vec<BString>>>, directive: &ast::Directive) {
    let list = list.get_or_insert_default();
    Arc::make_mut(list).push(directive.args[0].value.clone());
}

/// `…_buffers number size;`
///
/// # Errors
/// Not a number and a size.
pub fn buffers(conf: &mut UpstreamConf, directive: &ast::Directive) -> Result<(), Diagnostic> {
    let (number, size) = (&directive.args[0], &directive.args[1]);
    let bad = |error: values::ValueError, arg| error.diagnostic(directive.name(), arg);
    let count = values::integer(number.value.as_bstr()).map_err(|error| bad(error, number))?;
    let bytes = values::size(size.value.as_bstr()).map_err(|error| bad(error, size))?;
    if count < 2 {
        return Err(emerg(number, format!("there must be at least 2 \"{}\"", directive.name())));
    }
    if bytes == 0 {
        return Err(Diagnostic::invalid_value(directive.name(), size.span));
    }
    let as_usize = |number| usize::try_from(number).unwrap_or(usize::MAX);
    fill(&mut conf.buffers, (as_usize(count), as_usize(bytes)), directive)
}

/// `…_limit_rate rate;`
///
/// # Errors
/// Not a size.
pub fn limit_rate(
    conf: &mut UpstreamConf,
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(), Diagnostic> {
    crate::limit_rate::size(&mut conf.limit_rate, directive, build)
}

/// `…_bind address [transparent] | off;`
///
/// # Errors
/// No address.
pub fn bind(conf: &mut UpstreamConf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let address = &directive.args[0];
    if address.value == "off" {
        return fill(&mut conf.bind, None, directive);
    }
    let transparent = match directive.args.get(1) {
        None => false,
        Some(word) if word.value == "transparent" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["transparent"])),
    };
    let template = build.template(address)?;
    if let Some(text) = template.as_literal() {
        let url = Url::parse(text.as_bstr(), false);
        if !url.is_ok_and(|url| matches!(url.kind, HostKind::Ip(_))) {
            return Err(emerg(address, format!("invalid address \"{}\"", address.value)));
        }
    }
    fill(&mut conf.bind, Some((template, transparent)), directive)
}

/// Takes a value, once.
///
/// # Errors
/// There is one already.
pub fn fill<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

/// The table of a module that asks upstreams: the common directives with its prefix, then its own.
///
/// `upstream_directives!("proxy", Conf, upstream; Directive::…, …)`: `Conf` has a field `upstream` of the type
/// [`UpstreamConf`].
#[macro_export]
macro_rules! upstream_directives {
    ($prefix:literal, $conf:ty, $field:ident; $($more:expr),* $(,)?) => {
        &[
            $crate::module::Directive::time(concat!($prefix, "_connect_timeout"),
                |c: &mut $conf| &mut c.$field.connect_timeout)
                .default("60s").doc("Longest time to connect to a server."),
            $crate::module::Directive::time(concat!($prefix, "_send_timeout"),
                |c: &mut $conf| &mut c.$field.send_timeout)
                .default("60s").doc("Longest pause while a server takes a request."),
            $crate::module::Directive::time(concat!($prefix, "_read_timeout"),
                |c: &mut $conf| &mut c.$field.read_timeout)
                .default("60s").doc("Longest pause while a server sends a response."),
            $crate::module::Directive::flag(concat!($prefix, "_buffering"),
                |c: &mut $conf| &mut c.$field.buffering)
                .default("on").doc("Responses are read as fast as they come; a slow client holds no server."),
            $crate::module::Directive::flag(concat!($prefix, "_request_buffering"),
                |c: &mut $conf| &mut c.$field.request_buffering)
                .default("on").doc("Requests are sent when their body is complete."),
            $crate::module::Directive::size(concat!($prefix, "_buffer_size"),
                |c: &mut $conf| &mut c.$field.buffer_size)
                .default("4k").doc("Longest head of a response."),
            $crate::module::Directive::custom(concat!($prefix, "_buffers"), 2, 2,
                |c: &mut $conf, d, _| $crate::upstream::settings::buffers(&mut c.$field, d))
                .syntax("number size").default("8 4k").doc("Number and size of the buffers that keep a response in memory."),
            $crate::module::Directive::size(concat!($prefix, "_busy_buffers_size"),
                |c: &mut $conf| &mut c.$field.busy_buffers_size)
                .doc("Accepted: what is being sent to a client counts as the rest."),
            $crate::module::Directive::offset(concat!($prefix, "_max_temp_file_size"),
                |c: &mut $conf| &mut c.$field.max_temp_file_size)
                .default("1024m").doc("Largest temporary file for a response that exceeds the buffers in memory."),
            $crate::module::Directive::size(concat!($prefix, "_temp_file_write_size"),
                |c: &mut $conf| &mut c.$field.temp_file_write_size)
                .doc("Accepted: each piece is written as it was read."),
            $crate::module::Directive::custom(concat!($prefix, "_temp_path"), 1, 4,
                |c: &mut $conf, d, b| {
                    $crate::main_conf::check_temp_levels(d)?;
                    b.temp_path(&d.args[0].value);
                    $crate::upstream::settings::fill(&mut c.$field.temp_path, d.args[0].value.clone(), d)
                })
                .syntax("path [level1 [level2 [level3]]]").default(concat!($prefix, "_temp"))
                .doc("Directory for temporary files of large responses."),
            $crate::module::Directive::flag(concat!($prefix, "_ignore_client_abort"),
                |c: &mut $conf| &mut c.$field.ignore_client_abort)
                .default("off").doc("A request goes on when its client leaves."),
            $crate::module::Directive::flag(concat!($prefix, "_intercept_errors"),
                |c: &mut $conf| &mut c.$field.intercept_errors)
                .default("off").doc("Statuses from 300 on lead to error_page."),
            $crate::module::Directive::custom(concat!($prefix, "_next_upstream"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::settings::next_upstream(&mut c.$field, d))
                .syntax("error | timeout | invalid_header | http_500 | ... | non_idempotent | off ...")
                .default("error timeout").doc("Failures after which another server is asked."),
            $crate::module::Directive::number(concat!($prefix, "_next_upstream_tries"),
                |c: &mut $conf| &mut c.$field.next_upstream_tries)
                .default("0").doc("Most servers that are asked."),
            $crate::module::Directive::time(concat!($prefix, "_next_upstream_timeout"),
                |c: &mut $conf| &mut c.$field.next_upstream_timeout)
                .default("0").doc("Time after which no other server is asked."),
            $crate::module::Directive::flag(concat!($prefix, "_pass_request_headers"),
                |c: &mut $conf| &mut c.$field.pass_request_headers)
                .default("on").doc("The client's fields are sent to the server."),
            $crate::module::Directive::flag(concat!($prefix, "_pass_request_body"),
                |c: &mut $conf| &mut c.$field.pass_request_body)
                .default("on").doc("The client's body is sent to the server."),
            $crate::module::Directive::custom(concat!($prefix, "_pass_header"), 1, 1,
                |c: &mut $conf, d, _| { $crate::upstream::settings::add_name(&mut c.$field.pass_headers, d); Ok(()) })
                .syntax("field").doc("Lets a field of responses through that is hidden by default."),
            $crate::module::Directive::custom(concat!($prefix, "_hide_header"), 1, 1,
                |c: &mut $conf, d, _| { $crate::upstream::settings::add_name(&mut c.$field.hide_headers, d); Ok(()) })
                .syntax("field").doc("Hides a field of responses."),
            $crate::module::Directive::custom(concat!($prefix, "_ignore_headers"), 1, u16::MAX,
                |c: &mut $conf, d, _| $crate::upstream::settings::ignore_headers(&mut c.$field, d))
                .syntax("field ...").doc("Fields of responses that have no effect."),
            $crate::module::Directive::flag(concat!($prefix, "_force_ranges"),
                |c: &mut $conf| &mut c.$field.force_ranges)
                .default("off").doc("Ranges are served whatever the response says about them."),
            $crate::module::Directive::flag(concat!($prefix, "_socket_keepalive"),
                |c: &mut $conf| &mut c.$field.socket_keepalive)
                .default("off").doc("TCP looks after connections to servers."),
            $crate::module::Directive::custom(concat!($prefix, "_limit_rate"), 1, 1,
                |c: &mut $conf, d, b| $crate::upstream::settings::limit_rate(&mut c.$field, d, b))
                .syntax("rate").default("0")
                .doc("Bytes a second that a buffered response is read with; 0 for any speed."),
            $crate::module::Directive::size(concat!($prefix, "_send_lowat"),
                |c: &mut $conf| &mut c.$field.send_lowat)
                .default("0").doc("Accepted: has no effect on Linux."),
            $crate::module::Directive::custom(concat!($prefix, "_bind"), 1, 2,
                |c: &mut $conf, d, b| $crate::upstream::settings::bind(&mut c.$field, d, b))
                .syntax("address [transparent] | off").doc("Address that connections to servers come from."),
            $($more,)*
        ]
    };
}
