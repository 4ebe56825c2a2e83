//! `srcache`: responses of any location, kept wherever a sub-request can put them.
//!
//! | file | what it does |
//! | --- | --- |
//! | `target` | where responses are kept: behind sub-requests, or in a zone |
//! | `memory` | zones: responses in memory that all workers share |
//! | `lock` | one request makes a response that several want |
//! | `fetch` | looks for the response before the location's handler makes it |
//! | `store` | collects the response on its way to the client, and keeps it |
//! | `entry` | a response as it is kept: a status line, fields and the body |
//! | `control` | what `Cache-Control`, `Pragma` and `Expires` say |
//!
//! A look-up is the last thing before the content phase. What is kept is the response as the location's handler, Lua and
//! `headers_more` leave it: `add_header`, `sub_filter`, compression and the like work on hits as well. The client has its
//! response before it is kept; its connection takes the next request after that.
//!
//! Difference from srcache-nginx-module: the request's own `Cache-Control: no-store` counts without `no-cache`, too.
//!
//! Source: the documentation of srcache-nginx-module.

mod control;
mod entry;
mod fetch;
mod lock;
mod memory;
mod store;
mod target;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bstr::BString;
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Phase, Ready, Step},
    request::Request,
    template::Template,
    variable::VariableDef,
};
use tidegate_http::Method;
use tidegate_net::clock;

use self::{lock::Filling, memory::Memory, store::Collected, target::Target};
use crate::{
    sql_versions::Tables,
    zone::{self, Zones},
};

/// The longest line of a kept response's head, unless `srcache_header_buffer_size` says it.
///
/// Source: srcache-nginx-module, a page of memory.
const HEADER_BYTES_MAX: usize = 4096;

/// Statuses of responses that are kept by default.
const STATUSES: [u16; 5] = [200, 301, 302, 307, 308];

/// Fields that are not kept unless `srcache_store_pass_header` names them.
const HIDDEN: [&str; 9] = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "TE",
    "Trailers",
    "Transfer-Encoding",
    "Upgrade",
    "Set-Cookie",
];

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    srcache_fetch: Option<Target>,
    srcache_store: Option<Target>,
    srcache_fetch_skip: Option<Template>,
    srcache_store_skip: Option<Template>,
    srcache_store_max_size: Option<u64>,
    srcache_store_statuses: Option<Arc<[u16]>>,
    srcache_store_ranges: Option<bool>,
    srcache_header_buffer_size: Option<usize>,
    srcache_store_hide_header: Option<Vec<BString>>,
    srcache_store_pass_header: Option<Vec<BString>>,
    /// One bit for each of [`METHODS`].
    srcache_methods: Option<u8>,
    srcache_ignore_content_encoding: Option<bool>,
    srcache_request_cache_control: Option<bool>,
    srcache_response_cache_control: Option<bool>,
    srcache_store_no_store: Option<bool>,
    srcache_store_no_cache: Option<bool>,
    srcache_store_private: Option<bool>,
    srcache_default_expire: Option<Duration>,
    srcache_max_expire: Option<Duration>,
    srcache_lock: Option<bool>,
    srcache_lock_timeout: Option<Duration>,
    srcache_stale: Option<Duration>,
    srcache_cache_tables: Option<Tables>,
    zones: Zones<Memory>,
}

/// Methods whose responses may be kept.
const METHODS: [Method; 5] = [Method::Get, Method::Head, Method::Post, Method::Put, Method::Delete];

/// Those that `srcache_methods` need not name: GET and HEAD.
const METHODS_ALWAYS: u8 = 0b11;

const NOT_IN_IF: Context = Context::ALL;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("srcache_fetch", 2, 3, |conf: &mut Conf, directive, build| {
            let target = Target::parse(conf, directive, build)?;
            fill(&mut conf.srcache_fetch, target, directive)
        })
        .within(Context::ALL_IF)
        .syntax("method uri [args] | zone=name key")
        .doc("Looks for the response, with a sub-request or in a zone, before the location makes it."),
        Directive::custom("srcache_store", 2, 3, |conf: &mut Conf, directive, build| {
            let target = Target::parse(conf, directive, build)?;
            fill(&mut conf.srcache_store, target, directive)
        })
        .within(Context::ALL_IF)
        .syntax("method uri [args] | zone=name key")
        .doc("Keeps the response: as the body of a sub-request, or in a zone."),
        Directive::custom("srcache_zone", 1, 1, |conf: &mut Conf, directive, _| {
            let (name, memory) = zone::parse_named("srcache", &directive.args[0])?;
            match conf.zones.defined.insert(name, memory) {
                None => Ok(()),
                Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
            }
        })
        .within(Context::HTTP)
        .syntax("zone=name:size")
        .doc("Memory for responses that all workers share; those that were not asked for the longest go first."),
        Directive::custom("srcache_cache_tables", 1, u16::MAX, |conf: &mut Conf, directive, _| {
            let tables = Tables::parse(directive, &directive.args)?;
            fill(&mut conf.srcache_cache_tables, tables, directive)
        })
        .within(NOT_IN_IF)
        .syntax("schema.table ...")
        .doc(
            "Tables of the embedded database that responses in zones are made of: none is served that was begun before a commit to one \
             of them.",
        ),
        Directive::flag("srcache_lock", |c: &mut Conf| &mut c.srcache_lock)
            .within(NOT_IN_IF)
            .default("off")
            .doc("Of the requests that look for the same response in vain, one has it made; the others wait for it."),
        Directive::time("srcache_lock_timeout", |c: &mut Conf| &mut c.srcache_lock_timeout)
            .within(NOT_IN_IF)
            .default("5s")
            .doc("Time after which those that wait have the response made for themselves."),
        Directive::time("srcache_stale", |c: &mut Conf| &mut c.srcache_stale)
            .within(NOT_IN_IF)
            .default("0")
            .doc("Time behind its end in which a response is still served while one request has it made anew."),
        Directive::template("srcache_fetch_skip", |c: &mut Conf| &mut c.srcache_fetch_skip)
            .within(Context::ALL_IF)
            .syntax("flag")
            .default("0")
            .doc("Looks for nothing if this is neither empty nor 0."),
        Directive::template("srcache_store_skip", |c: &mut Conf| &mut c.srcache_store_skip)
            .within(Context::ALL_IF)
            .syntax("flag")
            .default("0")
            .doc("Keeps nothing if this is neither empty nor 0, before the body or behind it."),
        Directive::offset("srcache_store_max_size", |c: &mut Conf| &mut c.srcache_store_max_size)
            .within(Context::ALL_IF)
            .default("0")
            .doc("Size of a response that is kept, with its head; 0 for what subrequest_capture_max allows."),
        Directive::custom("srcache_store_statuses", 1, u16::MAX, statuses)
            .within(Context::ALL_IF)
            .syntax("status ...")
            .default("200 301 302 307 308")
            .doc("Statuses of responses that are kept."),
        Directive::flag("srcache_store_ranges", |c: &mut Conf| &mut c.srcache_store_ranges)
            .within(Context::ALL_IF)
            .default("off")
            .doc("Keeps the parts of responses that clients ask for; keys then need $http_range."),
        Directive::size("srcache_header_buffer_size", |c: &mut Conf| &mut c.srcache_header_buffer_size)
            .within(Context::ALL_IF)
            .default("4k")
            .doc("Longest line in the head of a response that was kept."),
        Directive::custom("srcache_store_hide_header", 1, 1, |conf: &mut Conf, directive, _| {
            conf.srcache_store_hide_header.get_or_insert_default().push(directive.args[0].value.clone());
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("field")
        .doc("A field that is not kept."),
        Directive::custom("srcache_store_pass_header", 1, 1, |conf: &mut Conf, directive, _| {
            conf.srcache_store_pass_header.get_or_insert_default().push(directive.args[0].value.clone());
            Ok(())
        })
        .within(Context::ALL_IF)
        .syntax("field")
        .doc("A field that is kept, of those that usually are not: Set-Cookie and those of connections."),
        Directive::custom("srcache_methods", 1, u16::MAX, methods)
            .within(NOT_IN_IF)
            .syntax("method ...")
            .default("GET HEAD")
            .doc("Methods of requests that are looked for and kept, beside GET and HEAD."),
        Directive::flag("srcache_ignore_content_encoding", |c: &mut Conf| &mut c.srcache_ignore_content_encoding)
            .within(Context::ALL_IF)
            .default("off")
            .doc("Keeps responses that are compressed already."),
        Directive::flag("srcache_request_cache_control", |c: &mut Conf| &mut c.srcache_request_cache_control)
            .within(NOT_IN_IF)
            .default("off")
            .doc("Heeds the request's Cache-Control and Pragma."),
        Directive::flag("srcache_response_cache_control", |c: &mut Conf| &mut c.srcache_response_cache_control)
            .within(NOT_IN_IF)
            .default("on")
            .doc("Heeds the response's Cache-Control and Expires."),
        Directive::flag("srcache_store_no_store", |c: &mut Conf| &mut c.srcache_store_no_store)
            .within(NOT_IN_IF)
            .default("off")
            .doc("Keeps responses with Cache-Control: no-store."),
        Directive::flag("srcache_store_no_cache", |c: &mut Conf| &mut c.srcache_store_no_cache)
            .within(NOT_IN_IF)
            .default("off")
            .doc("Keeps responses with Cache-Control: no-cache."),
        Directive::flag("srcache_store_private", |c: &mut Conf| &mut c.srcache_store_private)
            .within(NOT_IN_IF)
            .default("off")
            .doc("Keeps responses with Cache-Control: private."),
        Directive::time("srcache_default_expire", |c: &mut Conf| &mut c.srcache_default_expire)
            .within(Context::ALL_IF)
            .default("60s")
            .doc("$srcache_expire of a response that does not say it."),
        Directive::time("srcache_max_expire", |c: &mut Conf| &mut c.srcache_max_expire)
            .within(Context::ALL_IF)
            .default("0")
            .doc("The most that $srcache_expire says; 0 for any time."),
    ],
    variables: &[
        VariableDef::new(
            "srcache_expire",
            expire,
            "Seconds that the response should be kept, with those of srcache_stale.",
        ),
        VariableDef::new(
            "srcache_fetch_status",
            fetch_status,
            "What came of the look-up: HIT, STALE, EXPIRED, MISS or BYPASS.",
        ),
        VariableDef::new("srcache_store_status", store_status, "STORE or BYPASS: whether the response is kept."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; srcache_fetch, srcache_store, srcache_fetch_skip, srcache_store_skip,
            srcache_store_max_size, srcache_store_statuses, srcache_store_ranges, srcache_header_buffer_size,
            srcache_store_hide_header, srcache_store_pass_header, srcache_methods, srcache_ignore_content_encoding,
            srcache_request_cache_control, srcache_response_cache_control, srcache_store_no_store,
            srcache_store_no_cache, srcache_store_private, srcache_default_expire, srcache_max_expire, srcache_lock,
            srcache_lock_timeout, srcache_stale, srcache_cache_tables);
        if child.zones.defined.is_empty() {
            child.zones.clone_from(&parent.zones);
        }
    },
    finish: Some(|conf, _| conf.zones.check()),
    check: Some(|conf, _, diagnostics| {
        let is_elsewhere = |target: &Option<Target>| matches!(target, Some(Target::Subrequest(_)));
        if conf.srcache_cache_tables.is_some()
            && (is_elsewhere(&conf.srcache_fetch) || is_elsewhere(&conf.srcache_store))
        {
            let message = "\"srcache_cache_tables\" is about responses in a \"zone=\" only: other keys need a variable of \"sql_versions\"";
            diagnostics.warn(None, message.to_owned());
        }
    }),
    install: |conf, program| {
        if conf.srcache_fetch.is_none() && conf.srcache_store.is_none() {
            return;
        }
        if let Some(tables) = conf.srcache_cache_tables.clone() {
            program.on_first(Phase::Rewrite, move |req| fetch::note_versions(&tables, req));
        }
        let for_fetch = conf.clone();
        program.on_first(Phase::Precontent, move |req| fetch::run(&for_fetch, req));
        if conf.srcache_store.is_some() {
            let hidden = conf.hidden();
            let for_header = conf.clone();
            program.header_filter(move |req| store::filter_header(req, &for_header, &hidden));
            let for_body = conf.clone();
            program.body_filter(move |req, chunk| store::filter_body(req, chunk, &for_body));
        }
        if conf.locks() {
            // However the response ended, nobody waits for it any more.
            program.on(Phase::Log, |req| {
                drop(req.find_context::<State>().and_then(|state| state.filling.take()));
                Ready::Now(Step::Declined)
            });
        }
    },
    example: r#"
        location = /memc {
            internal;
            set $memc_key $query_string;
            set $memc_exptime 300;
            memc_pass 127.0.0.1:11211;
        }
        location / {
            set $key $uri$args;
            srcache_fetch GET /memc $key;
            srcache_store PUT /memc $key;
        }
    "#,
    ..Module::named("srcache")
};

fn fill<T>(field: &mut Option<T>, value: T, directive: &ast::Directive) -> Result<(), Diagnostic> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Diagnostic::duplicate(directive.name(), directive.name.span)),
    }
}

fn statuses(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let status = |arg: &ast::Arg| match std::str::from_utf8(&arg.value).ok().and_then(|text| text.parse().ok()) {
        Some(status @ 100..=999) => Ok(status),
        _ => Err(Diagnostic::new(Severity::Emerg, arg.span, format!("invalid status code \"{}\"", arg.value))),
    };
    let statuses = directive.args.iter().map(status).collect::<Result<Arc<[u16]>, _>>()?;
    fill(&mut conf.srcache_store_statuses, statuses, directive)
}

fn methods(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut methods = METHODS_ALWAYS;
    for arg in &directive.args {
        let Some(index) = METHODS.iter().position(|method| arg.value.eq_ignore_ascii_case(method.name().as_bytes()))
        else {
            return Err(Diagnostic::unknown_value(&arg.value, arg.span, METHODS.iter().map(|method| method.name())));
        };
        methods |= 1 << index;
    }
    fill(&mut conf.srcache_methods, methods, directive)
}

impl Conf {
    fn has_method(&self, method: Method) -> bool {
        let methods = self.srcache_methods.unwrap_or(METHODS_ALWAYS);
        METHODS.iter().position(|&known| known == method).is_some_and(|index| methods & 1 << index != 0)
    }

    /// Whether one request has a response made that others want.
    fn locks(&self) -> bool {
        self.srcache_store.is_some() && (self.srcache_lock == Some(true) || self.stale_seconds() > 0)
    }

    /// Names of fields that are not kept.
    fn hidden(&self) -> Vec<BString> {
        let mut hidden: Vec<BString> = HIDDEN.iter().map(|&name| name.into()).collect();
        hidden.extend(self.srcache_store_hide_header.iter().flatten().cloned());
        let passed: Vec<_> = self.srcache_store_pass_header.iter().flatten().collect();
        hidden.retain(|name| !passed.iter().any(|passed| passed.eq_ignore_ascii_case(name)));
        hidden
    }

    /// Size of an entry, in bytes.
    fn entry_bytes_max(&self, req: &Request) -> u64 {
        let or_any = |bytes| if bytes == 0 { u64::MAX } else { bytes };
        or_any(self.srcache_store_max_size.unwrap_or(0)).min(or_any(req.http_conf().capture_bytes_max()))
    }
}

/// Whether `flag` says so: it is neither empty nor `0`.
fn skips(flag: &Option<Template>, req: &Request) -> bool {
    flag.as_ref().is_some_and(|flag| !matches!(&*flag.eval_cow(req), b"" | b"0"))
}

/// What came of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fetched {
    #[default]
    Bypass,
    Miss,
    /// Another request has it made anew.
    Stale,
    /// It has ended, and this request has it made anew.
    Expired,
    Hit,
}

impl Fetched {
    /// Whether the response is made by the location.
    fn is_made(self) -> bool {
        matches!(self, Fetched::Bypass | Fetched::Miss | Fetched::Expired)
    }
}

/// What happens to a main request; there is one where the response may be kept.
#[derive(Default)]
struct State {
    fetched: Cell<Fetched>,
    /// The response is kept, or will be.
    stores: Cell<bool>,
    collected: RefCell<Option<Collected>>,
    /// When the response says it expires, in seconds since 1970.
    expires: Cell<Option<i64>>,
    /// Others wait for the response.
    filling: RefCell<Option<Filling>>,
}

/// What tables held when a main request came to its location, as keys have it; `None` if nobody can tell.
#[derive(Default)]
struct Versions(RefCell<Option<Vec<u8>>>);

fn write(out: &mut Vec<u8>, text: &str) -> bool {
    out.extend_from_slice(text.as_bytes());
    true
}

fn expire(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(state) = req.main().find_context::<State>().filter(|state| state.stores.get()) else { return false };
    let conf = req.main().module_conf(&MODULE);
    let seconds = conf.expire_seconds(state.expires.get()).saturating_add(conf.stale_seconds());
    write(out, itoa::Buffer::new().format(seconds))
}

impl Conf {
    /// How long a response is served behind its end, in seconds.
    fn stale_seconds(&self) -> i64 {
        self.srcache_stale.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
    }

    /// When a response ends that may be served behind its end, in seconds since 1970.
    fn fresh_until(&self, expires: Option<i64>) -> Option<i64> {
        (self.stale_seconds() > 0).then(|| clock::now_unix().saturating_add(self.expire_seconds(expires)))
    }

    /// How long a response is fresh, in seconds.
    fn expire_seconds(&self, expires: Option<i64>) -> i64 {
        let in_seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let seconds = match expires {
            Some(expires) => expires - clock::now_unix(),
            None => self.srcache_default_expire.map_or(60, in_seconds),
        };
        match self.srcache_max_expire.map_or(0, in_seconds) {
            0 => seconds,
            max => seconds.min(max),
        }
    }
}

fn fetch_status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let state: Option<Rc<State>> = req.find_context();
    let fetched = state.map_or(Fetched::Bypass, |state| state.fetched.get());
    let text = match fetched {
        Fetched::Bypass => "BYPASS",
        Fetched::Miss => "MISS",
        Fetched::Stale => "STALE",
        Fetched::Expired => "EXPIRED",
        Fetched::Hit => "HIT",
    };
    write(out, text)
}

fn store_status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let stores = req.find_context::<State>().is_some_and(|state| state.stores.get());
    write(out, if stores { "STORE" } else { "BYPASS" })
}
