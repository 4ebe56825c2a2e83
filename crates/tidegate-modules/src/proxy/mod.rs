//! `proxy`: passes requests to HTTP servers.
//!
//! The way to the server and back is the engine of [`tidegate_core::upstream`]; here stands what is HTTP's and
//! nginx's `proxy_*` about it. In reading order: [`pass`] (where a request goes), [`request`] (what the server sees),
//! [`http`] (the protocol), [`redirect`] and [`cookie`] (what the server's answers are made to say).
//!
//! Follows nginx's `ngx_http_proxy_module`.

mod cookie;
mod http;
mod pass;
mod redirect;
mod request;

use std::{rc::Rc, sync::Arc};

use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    template::Template,
    upstream::{Settings, UpstreamConf, directives::fill, failure::Failures},
    upstream_directives,
    variable::VariableDef,
};
use tidegate_http::Known;

use self::{
    cookie::{CookieRules, FlagRules, Rules},
    http::Http,
    pass::{Names, Pass, Scheme},
    redirect::{Redirects, Rule},
    request::{Fields, SetHeader},
};

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// What proxies have in common.
    pub upstream: UpstreamConf,
    pass: Option<Pass>,
    /// The path of the location ends with a slash: without it, requests are redirected to add it.
    adds_slash: bool,
    method: Option<Template>,
    http_version: Option<u32>,
    set_headers: Option<Arc<Vec<SetHeader>>>,
    set_body: Option<Template>,
    redirects: Option<Redirects>,
    cookie_domain: Option<Rules>,
    cookie_path: Option<Rules>,
    cookie_flags: Option<FlagRules>,
    headers_hash_max_size: Option<u64>,
    headers_hash_bucket_size: Option<u64>,
}

/// Directory of temporary files, unless `proxy_temp_path` names another.
const TEMP_PATH: &str = "proxy_temp";

const HTTP_10: u32 = 10;
const HTTP_11: u32 = 11;

/// Fields of servers' responses that clients do not get.
const HIDDEN: &[&str] = &[
    "Date",
    "Server",
    "X-Pad",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: upstream_directives!("proxy", Conf, upstream;
        sockets, aborts,
        retries(Failures::HTTP_WORDS, "error | timeout | invalid_header | http_500 | ... | non_idempotent | off ..."),
        requests, responses, headers, store,
        cache(Failures::HTTP_WORDS, "error | timeout | invalid_header | updating | http_500 | ... | off ...",
            crate::sql_versions::cache_tables),
        tls, lowat;
        Directive::custom("proxy_pass", 1, 1, proxy_pass)
            .within(Context::LOCATION.or(Context::LOCATION_IF).or(Context::LIMIT_EXCEPT))
            .syntax("URL")
            .doc("Passes requests to a server."),
        Directive::template("proxy_method", |c: &mut Conf| &mut c.method)
            .doc("Method of the request to the server, instead of the client's."),
        Directive::choice("proxy_http_version", |c: &mut Conf| &mut c.http_version, &[("1.0", HTTP_10), ("1.1", HTTP_11)])
            .default("1.0")
            .doc("Version of HTTP in requests to servers."),
        Directive::custom("proxy_set_header", 2, 2, |conf: &mut Conf, d, build| {
            let header = (d.args[0].value.clone(), build.template(&d.args[1])?);
            Arc::make_mut(conf.set_headers.get_or_insert_default()).push(header);
            Ok(())
        })
        .syntax("field value")
        .doc("A field of the request; an empty value leaves it out."),
        Directive::template("proxy_set_body", |c: &mut Conf| &mut c.set_body)
            .doc("Body of the request to the server, instead of the client's."),
        Directive::flag("proxy_cache_convert_head", |c: &mut Conf| &mut c.upstream.cache.cache_convert_head)
            .default("on")
            .doc("The server is asked GET where a client asks HEAD of what a cache may have."),
        Directive::flag("proxy_pass_trailers", |c: &mut Conf| &mut c.upstream.pass_trailers)
            .default("off")
            .doc("Clients get the trailers of responses."),
        Directive::custom("proxy_redirect", 1, 2, |c: &mut Conf, d, b| redirect::parse(&mut c.redirects, d, b))
            .syntax("default | off | redirect replacement")
            .default("default")
            .doc("Rewrites Location and Refresh of responses."),
        Directive::custom("proxy_cookie_domain", 1, 2, |c: &mut Conf, d, b| {
            cookie::parse_domain(&mut c.cookie_domain, d, b)
        })
            .syntax("off | domain replacement")
            .default("off")
            .doc("Rewrites the domains of cookies."),
        Directive::custom("proxy_cookie_path", 1, 2, |c: &mut Conf, d, b| cookie::parse(&mut c.cookie_path, d, b))
            .syntax("off | path replacement")
            .default("off")
            .doc("Rewrites the paths of cookies."),
        Directive::custom("proxy_cookie_flags", 1, 5, |c: &mut Conf, d, b| cookie::parse_flags(&mut c.cookie_flags, d, b))
            .syntax("off | cookie flag ...")
            .default("off")
            .doc("Sets or takes away flags of cookies."),
        Directive::number("proxy_headers_hash_max_size", |c: &mut Conf| &mut c.headers_hash_max_size)
            .default("512")
            .doc("Accepted: no such hash is built."),
        Directive::number("proxy_headers_hash_bucket_size", |c: &mut Conf| &mut c.headers_hash_bucket_size)
            .default("64")
            .doc("Accepted: no such hash is built."),
    ),
    variables: &[
        VariableDef::new(
            "proxy_host",
            |req, _, out| with_names(req, |names| out.extend_from_slice(&names.host)),
            "Host that proxy_pass names, with a port that is not the usual one.",
        ),
        VariableDef::new(
            "proxy_port",
            |req, _, out| with_names(req, |names| out.extend_from_slice(&names.port)),
            "Port that proxy_pass names.",
        ),
        VariableDef::new(
            "proxy_add_x_forwarded_for",
            add_x_forwarded_for,
            "X-Forwarded-For of the request with the client's address behind it.",
        ),
    ],
    inherit: |child, parent, kind| {
        child.upstream.inherit(&parent.upstream);
        inherit!(child, parent; method, http_version, set_headers, set_body, redirects, cookie_domain, cookie_path,
            cookie_flags, headers_hash_max_size, headers_hash_bucket_size);
        if kind.is_unnamed() {
            inherit!(child, parent; pass);
        }
    },
    finish: Some(|conf, build| {
        if conf.upstream.temp_path.is_none() {
            build.temp_path(TEMP_PATH.as_bytes());
        }
        Ok(())
    }),
    check: Some(|conf, checked, diagnostics| match &conf.pass {
        Some(pass) if pass.may_need_tls() => conf.upstream.tls.load(checked.config, "proxy", diagnostics),
        Some(Pass::Fixed(fixed)) => {
            for directive in conf.upstream.tls.scripts.directives() {
                let message = format!("{directive}* should be used with proxy_pass https url, not \"{}\"", fixed.url);
                diagnostics.error(None, message);
            }
        }
        _ => {}
    }),
    install,
    example: "
        location /app/ {
            proxy_pass http://127.0.0.1:8081/;
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_read_timeout 30s;
            proxy_next_upstream error timeout http_502;
        }
    ",
    ..Module::named("proxy")
};

fn proxy_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.adds_slash = crate::pass::adds_slash(build);
    let pass = pass::parse(&directive.args[0], build)?;
    fill(&mut conf.pass, pass, directive)
}

/// All that a location's requests need, made once.
struct Location {
    conf: Arc<Conf>,
    pass: Pass,
    settings: Settings,
    fields: Fields,
    /// Those of requests whose responses are kept for all.
    cache_fields: Fields,
    redirects: Vec<Rule>,
    cookies: CookieRules,
    is_http_11: bool,
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    let Some(pass) = &conf.pass else { return };
    let location = Arc::new(Location {
        settings: conf.upstream.settings(HIDDEN, TEMP_PATH),
        fields: Fields::new(conf.set_headers.as_deref().map_or(&[], Vec::as_slice), &[]),
        cache_fields: Fields::new(conf.set_headers.as_deref().map_or(&[], Vec::as_slice), request::FOR_CACHE),
        redirects: redirect::compile(conf.redirects.as_ref(), pass),
        cookies: CookieRules {
            domain: conf.cookie_domain.clone(),
            path: conf.cookie_path.clone(),
            flags: conf.cookie_flags.clone(),
        },
        is_http_11: conf.http_version == Some(HTTP_11),
        pass: pass.clone(),
        conf: conf.clone(),
    });
    program.auto_redirect |= conf.adds_slash;
    program.content(move |req| handle(&location, req));
}

fn handle(location: &Arc<Location>, req: &Rc<Request>) -> Outcome {
    let (location, req) = (location.clone(), req.clone());
    Ready::later(async move {
        let reading = match &location.conf.set_body {
            Some(_) => req.read_body(),
            None => location.settings.read_body(&req, location.is_http_11),
        };
        let read = match reading {
            Ready::Now(read) => read,
            Ready::Later(reading) => reading.await,
        };
        if let Err(error) = read {
            return error.step();
        }
        let target = match location.pass.target(&req) {
            Ok(target) => target,
            Err(step) => return step,
        };
        if let Some((names, _)) = &target.variable {
            req.set_context(Rc::new(names.clone()));
        }
        let servers = target.servers.clone();
        let tls = match target.scheme {
            Scheme::Http => None,
            Scheme::Https => match location.settings.tls.peer(&req, &target.host) {
                Some(peer) => Some(peer),
                None => return Step::Status(500),
            },
        };
        let http = Http::new(&location, target);
        servers.answer(&req, &location.settings, tls, http).await
    })
}

fn with_names(req: &Request, write: impl FnOnce(&Names)) -> bool {
    if let Some(names) = req.find_context::<Names>() {
        write(&names);
        return true;
    }
    match req.module_conf(&MODULE).pass.as_ref().and_then(Pass::names) {
        Some(names) => {
            write(names);
            true
        }
        None => false,
    }
}

fn add_x_forwarded_for(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    use std::io::Write;
    for value in req.head.borrow().fields.iter_known(Known::XForwardedFor) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    write!(out, "{}", req.peer()).is_ok()
}
