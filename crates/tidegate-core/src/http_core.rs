//! The core directives of `http`, `server` and `location`: addresses, names, locations, limits, error pages.
//!
//! Source: nginx, `ngx_http_core_module`.

use std::{sync::Arc, time::Duration};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast, values};
use tidegate_http::{
    HeadLimits, HeadOptions,
    escape::{Escape, escape_uri},
};

use crate::{
    accepted,
    conf::{
        Build,
        build::{ListenDraft, ListenFlags},
    },
    inherit,
    listeners::{ListenAddr, ListenOptions, ListenSpec},
    location::{LocationDraft, Match},
    log::{ErrorLog, Level, LogFile},
    main_conf::{bad_value, block_of, check_temp_levels, error_log_target},
    module::{Context, Directive, Module},
    regex::{Regex, RegexOptions},
    request::Request,
    template::Template,
};

/// The status that closes the connection without an answer.
///
/// Source: nginx, `NGX_HTTP_CLOSE`.
pub const STATUS_CLOSE: u16 = 444;

/// `satisfy all`
pub const SATISFY_ALL: u32 = 0;
/// `satisfy any`
pub const SATISFY_ANY: u32 = 1;

/// The kinds of targets of `error_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorTarget {
    /// A path of this server.
    Uri,
    /// A named location.
    Named,
    /// Another site: a redirect.
    Url,
}

/// One `error_page`.
#[derive(Debug, Clone)]
pub struct ErrorPage {
    /// The statuses that the page is for.
    pub statuses: Vec<u16>,
    /// `=code`; 0 for a bare `=`: the page's own status.
    pub answer: Option<u16>,
    /// Kind of `target`.
    pub kind: ErrorTarget,
    /// URI, name or URL that the request is sent to.
    pub target: Template,
}

/// What the core's directives say at one level.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "each field is named as its directive, whose table entry documents it")]
pub struct Conf {
    pub absolute_redirect: Option<bool>,
    pub auth_delay: Option<Duration>,
    pub chunked_transfer_encoding: Option<bool>,
    pub client_body_buffer_size: Option<usize>,
    pub client_body_in_file_only: Option<u32>,
    pub client_body_in_single_buffer: Option<bool>,
    pub client_body_temp_path: Option<BString>,
    pub client_body_timeout: Option<Duration>,
    pub client_header_buffer_size: Option<usize>,
    pub client_header_timeout: Option<Duration>,
    pub client_max_body_size: Option<u64>,
    pub error_log: Option<Arc<ErrorLog>>,
    error_log_targets: Vec<(Level, Arc<LogFile>)>,
    pub error_pages: Arc<Vec<ErrorPage>>,
    pub ignore_invalid_headers: Option<bool>,
    pub internal: Option<bool>,
    pub large_client_header_buffers: Option<(usize, usize)>,
    pub log_not_found: Option<bool>,
    pub log_subrequest: Option<bool>,
    pub max_headers: Option<u64>,
    pub merge_slashes: Option<bool>,
    pub port_in_redirect: Option<bool>,
    pub postpone_output: Option<usize>,
    pub recursive_error_pages: Option<bool>,
    pub satisfy: Option<u32>,
    pub send_timeout: Option<Duration>,
    /// `subrequest_capture_max`
    pub subrequest_capture_max: Option<u64>,
    pub server_name_in_redirect: Option<bool>,
    pub server_tokens: Option<bool>,
    pub underscores_in_headers: Option<bool>,
    /// Set by the module `rewrite`, whose directive it is.
    pub uninitialized_variable_warn: Option<bool>,
    has_listen: bool,
}

pub(crate) fn ms(time: Option<Duration>, default_ms: u64) -> u64 {
    time.map_or(default_ms, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// As [`ms`], for a wait that ends in any case: where 0 stands for one without limit, it is the shortest there is.
pub(crate) fn limit_ms(time: Option<Duration>, default_ms: u64) -> u64 {
    ms(time, default_ms).max(1)
}

#[allow(missing_docs, reason = "each method is its directive's value, or nginx's default")]
impl Conf {
    pub fn client_body_buffer_bytes(&self) -> usize {
        self.client_body_buffer_size.unwrap_or(16 << 10)
    }
    /// How much of a body that is read stays in memory.
    pub fn client_body_memory_bytes(&self) -> usize {
        match self.client_body_in_file_only {
            None | Some(0) => self.client_body_buffer_bytes(),
            Some(_) => 0,
        }
    }
    /// Whether files with bodies stay when their requests end.
    pub fn keeps_body_files(&self) -> bool {
        self.client_body_in_file_only == Some(1)
    }
    pub fn client_body_temp_path(&self) -> &[u8] {
        self.client_body_temp_path.as_deref().map_or(b"client_body_temp", |path| path)
    }
    pub fn client_body_timeout_ms(&self) -> u64 {
        limit_ms(self.client_body_timeout, 60_000)
    }
    pub fn client_header_timeout_ms(&self) -> u64 {
        limit_ms(self.client_header_timeout, 60_000)
    }
    pub fn client_max_body_bytes(&self) -> u64 {
        self.client_max_body_size.unwrap_or(1 << 20)
    }
    pub fn head_limits(&self) -> HeadLimits {
        let (large_buffer_count, large_buffer_bytes) = self.large_client_header_buffers.unwrap_or((4, 8192));
        HeadLimits {
            buffer_bytes: self.client_header_buffer_size.unwrap_or(1024),
            large_buffer_count,
            large_buffer_bytes,
            fields_max: usize::try_from(self.max_headers.unwrap_or(1000)).unwrap_or(usize::MAX),
        }
    }
    pub fn head_options(&self) -> HeadOptions {
        HeadOptions {
            ignore_invalid_headers: self.ignore_invalid_headers.unwrap_or(true),
            underscores_in_headers: self.underscores_in_headers.unwrap_or(false),
            merge_slashes: self.merge_slashes.unwrap_or(true),
            framed: false,
        }
    }
    pub fn postpone_output_bytes(&self) -> usize {
        self.postpone_output.unwrap_or(1460)
    }
    pub fn capture_bytes_max(&self) -> u64 {
        self.subrequest_capture_max.unwrap_or(100 << 20)
    }
    /// How long a client may take nothing.
    pub fn send_timeout_ms(&self) -> u64 {
        limit_ms(self.send_timeout, 60_000)
    }
}

const MAIN_SERVER: Context = Context::HTTP.or(Context::SERVER);

/// Smallest of `large_client_header_buffers`: what `connection_pool_size` is unless it is set.
const LARGE_BUFFER_BYTES_MIN: u64 = 512;

/// The core's module for requests.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::block("server", 0, 0, server).within(Context::HTTP).doc("A virtual server."),
        Directive::block("location", 1, 2, location)
            .within(Context::SERVER.or(Context::LOCATION))
            .syntax("[ = | ~ | ~* | ^~ ] uri { ... } | @name { ... }")
            .doc("Configuration for requests whose path matches."),
        Directive::custom("listen", 1, u16::MAX, listen)
            .within(Context::SERVER)
            .syntax("address[:port[-port]] | port[-port] | unix:path [default_server] [options]")
            .default("*:80")
            .doc("Address that the server accepts connections on."),
        Directive::custom("server_name", 1, u16::MAX, server_name)
            .within(Context::SERVER)
            .syntax("name ...")
            .doc("Names of the server."),
        Directive::flag("absolute_redirect", |c: &mut Conf| &mut c.absolute_redirect)
            .default("on")
            .doc("Redirects name scheme and host."),
        Directive::time("auth_delay", |c: &mut Conf| &mut c.auth_delay)
            .default("0s")
            .doc("Delay of a refusal with 401, against guessing of passwords."),
        Directive::flag("chunked_transfer_encoding", |c: &mut Conf| &mut c.chunked_transfer_encoding)
            .default("on")
            .doc("Bodies of unknown length go out in chunks to HTTP/1.1 clients."),
        Directive::size("client_body_buffer_size", |c: &mut Conf| &mut c.client_body_buffer_size)
            .default("16k")
            .doc("Size up to which a request body stays in memory."),
        Directive::choice(
            "client_body_in_file_only",
            |c: &mut Conf| &mut c.client_body_in_file_only,
            &[("off", 0), ("on", 1), ("clean", 2)],
        )
        .default("off")
        .doc("Every request body goes to a file."),
        Directive::flag("client_body_in_single_buffer", |c: &mut Conf| &mut c.client_body_in_single_buffer)
            .default("off")
            .doc("Accepted: request bodies in memory are always in one piece."),
        Directive::custom("client_body_temp_path", 1, 4, |conf: &mut Conf, directive, build| {
            check_temp_levels(directive)?;
            build.temp_path(&directive.args[0].value);
            conf.client_body_temp_path = Some(directive.args[0].value.clone());
            Ok(())
        })
        .syntax("path [level1 [level2 [level3]]]")
        .default("client_body_temp")
        .doc("Directory for large request bodies."),
        Directive::time("client_body_timeout", |c: &mut Conf| &mut c.client_body_timeout)
            .default("60s")
            .doc("Longest pause between two pieces of a request body."),
        Directive::size("client_header_buffer_size", |c: &mut Conf| &mut c.client_header_buffer_size)
            .within(MAIN_SERVER)
            .default("1k")
            .doc("Memory that every request head starts with."),
        Directive::time("client_header_timeout", |c: &mut Conf| &mut c.client_header_timeout)
            .within(MAIN_SERVER)
            .default("60s")
            .doc("Longest time for a request head to arrive, and before that for a TLS handshake."),
        Directive::offset("client_max_body_size", |c: &mut Conf| &mut c.client_max_body_size)
            .default("1m")
            .doc("Largest request body; 0 for any."),
        Directive::custom("error_log", 1, 2, |conf: &mut Conf, directive, build| {
            conf.error_log_targets.push(error_log_target(directive, build)?);
            conf.error_log = Some(Arc::new(ErrorLog::new(conf.error_log_targets.clone())));
            Ok(())
        })
        .syntax("file | stderr | syslog:... | memory:size [level]")
        .default("logs/error.log error")
        .doc("File or other destination of the error log, and the lowest level that is written."),
        Directive::custom("error_page", 2, u16::MAX, error_page)
            .within(Context::ALL_IF)
            .syntax("code ... [=[response]] uri")
            .doc("Page, URI or named location that answers a request which ends with one of these codes."),
        Directive::flag("ignore_invalid_headers", |c: &mut Conf| &mut c.ignore_invalid_headers)
            .within(MAIN_SERVER)
            .default("on")
            .doc("Drops fields with odd names."),
        Directive::custom("internal", 0, 0, |conf: &mut Conf, _, _| {
            conf.internal = Some(true);
            Ok(())
        })
        .within(Context::LOCATION)
        .doc("The location serves internal requests only; others get 404."),
        Directive::custom("large_client_header_buffers", 2, 2, |conf: &mut Conf, directive, build| {
            let number = |index: usize, parse: fn(&bstr::BStr) -> Result<u64, values::ValueError>| {
                let arg: &ast::Arg = &directive.args[index];
                parse(arg.value.as_bstr()).map_err(|error| error.diagnostic(&directive.name.value, arg))
            };
            let (count, size) = (number(0, values::integer)?, number(1, values::size)?);
            if count == 0 {
                return Err(bad_value(directive));
            }
            if size < large_buffer_bytes_min(build) {
                let message = "the \"large_client_header_buffers\" size must be equal to or greater than \
                               \"connection_pool_size\"";
                return Err(emerg(&directive.args[1], message.to_owned()));
            }
            conf.large_client_header_buffers = Some((count as usize, size as usize));
            Ok(())
        })
        .within(MAIN_SERVER)
        .syntax("number size")
        .default("4 8k")
        .doc("Number and size of the buffers for a large request head; a line has to fit into one."),
        Directive::flag("log_not_found", |c: &mut Conf| &mut c.log_not_found)
            .default("on")
            .doc("Missing files are written to the error log."),
        Directive::flag("log_subrequest", |c: &mut Conf| &mut c.log_subrequest)
            .default("off")
            .doc("Sub-requests are written to the access log."),
        Directive::number("max_headers", |c: &mut Conf| &mut c.max_headers)
            .within(MAIN_SERVER)
            .default("1000")
            .doc("Most fields that a request may have."),
        Directive::flag("merge_slashes", |c: &mut Conf| &mut c.merge_slashes)
            .within(MAIN_SERVER)
            .default("on")
            .doc("Several slashes in a path count as one."),
        Directive::flag("port_in_redirect", |c: &mut Conf| &mut c.port_in_redirect)
            .default("on")
            .doc("Redirects name the port."),
        Directive::size("postpone_output", |c: &mut Conf| &mut c.postpone_output)
            .default("1460")
            .doc("Size up to which output is collected before it is sent, if more output follows."),
        Directive::flag("recursive_error_pages", |c: &mut Conf| &mut c.recursive_error_pages)
            .within(Context::ALL_IF)
            .default("off")
            .doc("An error page may lead to another."),
        Directive::choice("satisfy", |c: &mut Conf| &mut c.satisfy, &[("all", SATISFY_ALL), ("any", SATISFY_ANY)])
            .default("all")
            .doc("A request needs the permission of all access checks, or of any one."),
        Directive::offset("subrequest_capture_max", |c: &mut Conf| &mut c.subrequest_capture_max)
            .default("100m")
            .doc("Size of a response that is kept in memory for ngx.location.capture and the like; 0 for any size."),
        Directive::time("send_timeout", |c: &mut Conf| &mut c.send_timeout)
            .default("60s")
            .doc("Longest pause while a client takes a response."),
        Directive::flag("server_name_in_redirect", |c: &mut Conf| &mut c.server_name_in_redirect)
            .default("off")
            .doc("Redirects name the server by its first name instead of the client's Host."),
        Directive::custom("server_tokens", 1, 1, server_tokens)
            .syntax("on | off | build")
            .default("on")
            .doc("The Server field and error pages tell the version."),
        Directive::flag("underscores_in_headers", |c: &mut Conf| &mut c.underscores_in_headers)
            .within(MAIN_SERVER)
            .default("off")
            .doc("Names of fields may have underscores."),
    ],
    variables: crate::variables::VARIABLES,
    inherit: |child, parent, kind| {
        inherit!(child, parent; absolute_redirect, auth_delay, chunked_transfer_encoding, client_body_buffer_size,
            client_body_in_file_only, client_body_in_single_buffer, client_body_temp_path, client_body_timeout,
            client_header_buffer_size, client_header_timeout, client_max_body_size, error_log,
            ignore_invalid_headers, large_client_header_buffers,
            log_not_found, log_subrequest, max_headers,
            merge_slashes, port_in_redirect, postpone_output, recursive_error_pages,
            satisfy, send_timeout, subrequest_capture_max, server_name_in_redirect, server_tokens, underscores_in_headers,
            uninitialized_variable_warn);
        if kind.is_unnamed() {
            inherit!(child, parent; internal);
        }
        if child.error_pages.is_empty() {
            child.error_pages = parent.error_pages.clone();
        }
    },
    example: "
        server {
            listen 127.0.0.1:8081;
            server_name example.com *.example.com;
            client_max_body_size 10m;
            error_page 404 /404.html;
            location = /404.html { internal; }
        }
    ",
    ..Module::named("http_core")
};

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

/// Smallest of `large_client_header_buffers`: the `connection_pool_size` that was read before it.
fn large_buffer_bytes_min(build: &mut Build<'_>) -> u64 {
    let levels = [Some(build.level()), build.http_level()];
    let mut sizes =
        levels.into_iter().flatten().map(|level| build.conf_mut(&accepted::MODULE, level).connection_pool_size);
    sizes.find_map(|size| size).map_or(LARGE_BUFFER_BYTES_MIN, |size| size as u64)
}

fn server(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (server, level) = build.open_server(build.level());
    build.walk(level, Context::SERVER, block_of(directive));
    if !build.conf_mut(&MODULE, level).has_listen {
        // SAFETY of the default: as nginx, 8000 for those who may not bind port 80.
        // SAFETY: `geteuid` cannot fail.
        let port = if unsafe { libc::geteuid() } == 0 { 80 } else { 8000 };
        let addr = ListenAddr::Tcp(std::net::SocketAddr::from(([0, 0, 0, 0], port)));
        let spec = ListenSpec { addr, options: ListenOptions::default() };
        let flags = ListenFlags::default();
        build.listens.push(ListenDraft { spec, server, flags, span: None });
    }
    if build.server_names[server.0 as usize].is_empty() {
        build.server_names[server.0 as usize].push((BString::default(), None));
    }
    Ok(())
}

fn location(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let last = directive.args.last().unwrap_or(&directive.name);
    let (kind, text) = match &*directive.args {
        [modifier, text] => (location_match(modifier, text, build)?, text.value.clone()),
        _ => location_glued(last, build)?,
    };
    let outer = build.level();
    if build.kind() == Context::LOCATION {
        check_nesting(&kind, &text, last, build)?;
    }
    let level = build.open_level(Context::LOCATION, Some(outer), text.clone());
    build.add_location(LocationDraft { kind, text, level, span: last.span });
    build.walk(level, Context::LOCATION, block_of(directive));
    Ok(())
}

fn location_match(modifier: &ast::Arg, text: &ast::Arg, build: &mut Build<'_>) -> Result<Match, Diagnostic> {
    match &**modifier.value {
        b"=" => Ok(Match::Exact),
        b"^~" => Ok(Match::PrefixFinal),
        b"~" => location_regex(text, &text.value, RegexOptions::NONE, build),
        b"~*" => location_regex(text, &text.value, RegexOptions::CASELESS, build),
        _ => Err(emerg(modifier, format!("invalid location modifier \"{}\"", modifier.value))),
    }
}

/// `location =/path` and the like: modifier and text in one word.
fn location_glued(arg: &ast::Arg, build: &mut Build<'_>) -> Result<(Match, BString), Diagnostic> {
    let text = &arg.value;
    if arg.quoted {
        return Ok((Match::Prefix, text.clone()));
    }
    Ok(if let Some(rest) = text.strip_prefix(b"=") {
        (Match::Exact, rest.into())
    } else if let Some(rest) = text.strip_prefix(b"^~") {
        (Match::PrefixFinal, rest.into())
    } else if let Some(rest) = text.strip_prefix(b"~*") {
        (location_regex(arg, rest, RegexOptions::CASELESS, build)?, rest.into())
    } else if let Some(rest) = text.strip_prefix(b"~") {
        (location_regex(arg, rest, RegexOptions::NONE, build)?, rest.into())
    } else if text.starts_with(b"@") {
        (Match::Named, text.clone())
    } else {
        (Match::Prefix, text.clone())
    })
}

fn location_regex(
    arg: &ast::Arg,
    pattern: &[u8],
    options: RegexOptions,
    build: &mut Build<'_>,
) -> Result<Match, Diagnostic> {
    let regex = Regex::new(pattern, options).map_err(|error| emerg(arg, error.to_string()))?;
    build.define_captures(&regex, arg.span)?;
    Ok(Match::Regex(Arc::new(regex)))
}

fn check_nesting(kind: &Match, text: &BString, arg: &ast::Arg, build: &Build<'_>) -> Result<(), Diagnostic> {
    let outer = build.name_of(build.level()).to_owned();
    let parent = build.parent_of(build.level());
    let siblings = parent.map_or(&[][..], |parent| build.locations_of(parent));
    let outer_kind = siblings.iter().find(|draft| draft.level == build.level()).map(|draft| &draft.kind);
    match (outer_kind, kind) {
        (Some(Match::Exact), _) => {
            Err(emerg(arg, format!("location \"{text}\" cannot be inside the exact location \"{outer}\"")))
        }
        (Some(Match::Named), _) => {
            Err(emerg(arg, format!("location \"{text}\" cannot be inside the named location \"{outer}\"")))
        }
        (_, Match::Named) => Err(emerg(arg, format!("named location \"{text}\" can be on the server level only"))),
        (Some(Match::Prefix | Match::PrefixFinal), Match::Prefix | Match::PrefixFinal | Match::Exact)
            if !text.starts_with(&outer) =>
        {
            Err(emerg(arg, format!("location \"{text}\" is outside location \"{outer}\"")))
        }
        _ => Ok(()),
    }
}

fn listen(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.has_listen = true;
    let server = build.server().expect("listen stands in a server");
    let arg = &directive.args[0];
    let mut flags = ListenFlags::default();
    let mut options = ListenOptions::default();
    for parameter in &directive.args[1..] {
        crate::listen::parameter(parameter, &mut options, &mut flags)?;
    }
    if flags.http2 {
        let message = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
        build.diagnostics.warn(arg.span, message);
    }
    for addr in crate::listen::addresses(arg)? {
        let spec = ListenSpec { addr, options: options.clone() };
        build.listens.push(ListenDraft { spec, server, flags, span: Some(arg.span) });
    }
    Ok(())
}

fn server_name(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let server = build.server().expect("server_name stands in a server");
    for arg in &directive.args {
        if matches!(&**arg.value, [b'*'] | [b'*', _] | [b'.'])
            || matches!(&**arg.value, [b'*', next, ..] if *next != b'.')
        {
            return Err(emerg(arg, format!("server name \"{}\" is invalid", arg.value)));
        }
        if arg.value.contains(&b'/') && !arg.value.starts_with(b"~") {
            build.diagnostics.warn(arg.span, format!("server name \"{}\" has suspicious symbols", arg.value));
        }
        if let Some(pattern) = arg.value.strip_prefix(b"~") {
            let regex = Regex::new(pattern, RegexOptions::CASELESS).map_err(|error| emerg(arg, error.to_string()))?;
            build.define_captures(&regex, arg.span)?;
        }
        let name = match &**arg.value {
            // The machine's own name.
            b"$hostname" => crate::variables::hostname().into(),
            name => BString::from(name),
        };
        build.server_names[server.0 as usize].push((name, Some(arg.span)));
    }
    Ok(())
}

fn server_tokens(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let on = match &**arg.value {
        // There is no name of a build to show.
        b"on" | b"build" => true,
        b"off" => false,
        _ => return Err(Diagnostic::unknown_value(&arg.value, arg.span, ["on", "off", "build"])),
    };
    match conf.server_tokens.replace(on) {
        None => Ok(()),
        Some(_) => Err(crate::main_conf::duplicate(directive)),
    }
}

fn error_page(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (target, words) = directive.args.split_last().expect("error_page has at least two arguments");
    let mut statuses = Vec::new();
    let mut answer = None;
    for (index, word) in words.iter().enumerate() {
        if let Some(code) = word.value.strip_prefix(b"=") {
            if index + 1 != words.len() || index == 0 {
                return Err(emerg(word, format!("invalid value \"{}\"", word.value)));
            }
            answer = Some(if code.is_empty() { 0 } else { status_code(code, word)? });
            continue;
        }
        let status = status_code(&word.value, word)?;
        if !(300..=599).contains(&status) {
            return Err(emerg(word, format!("value \"{}\" must be between 300 and 599", word.value)));
        }
        statuses.push(status);
    }
    let kind = match &**target.value {
        [b'@', ..] => ErrorTarget::Named,
        [b'/', ..] => ErrorTarget::Uri,
        _ => ErrorTarget::Url,
    };
    if statuses.is_empty() {
        return Err(bad_value(directive));
    }
    let target = build.template(target)?;
    Arc::make_mut(&mut conf.error_pages).push(ErrorPage { statuses, answer, kind, target });
    Ok(())
}

fn status_code(text: &[u8], arg: &ast::Arg) -> Result<u16, Diagnostic> {
    values::integer(text.as_bstr())
        .ok()
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| emerg(arg, format!("invalid value \"{}\"", arg.value)))
}

/// How a search for a location ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// With a prefix or nothing: regular expressions further out still count.
    Open,
    /// With the location to use.
    Final,
    /// With a location whose paths end with a slash, which the request's does not.
    AddSlash,
}

impl Request {
    /// Chooses the location by the path. Answers a status when that is an answer already: 404 for an `internal`
    /// location, 301 to add a slash, 413 for a body that is announced as too large.
    pub(crate) fn find_location(&self) -> Option<u16> {
        let server = self.config_server().level;
        self.set_level(server);
        self.flags().uri_changed.set(false);
        let redirect = {
            let uri = self.uri.borrow();
            self.find_location_in(&uri.path) == Search::AddSlash
        };
        if self.http_conf().internal == Some(true) && !self.flags().internal.get() {
            self.set_level(server);
            return Some(404);
        }
        self.limit_keep_alive();
        if redirect {
            self.add_slash();
            return Some(301);
        }
        if !self.is_subrequest() && self.check_announced_length().is_err() {
            return Some(413);
        }
        self.apply_limit_except();
        None
    }

    /// In a location with `limit_except`: other methods than its are at that level.
    pub(crate) fn apply_limit_except(&self) {
        if let Some((allowed, level)) = self.level().limit_except
            && !allowed.contains(self.method.get())
        {
            self.set_level(level);
        }
    }

    /// Searches inside the current level, and inside what it finds.
    fn find_location_in(&self, path: &[u8]) -> Search {
        let conf = self.conf();
        let locations = &conf.levels[self.level_id().0 as usize].locations;
        if locations.is_empty() {
            return Search::Open;
        }
        let found = locations.find(path);
        if let Some(level) = found.exact {
            self.set_level(level);
            return Search::Final;
        }
        if let Some(level) = locations.with_slash(path)
            && conf.levels[level.0 as usize].program.auto_redirect
        {
            self.set_level(level);
            return Search::AddSlash;
        }
        if let Some((level, final_)) = found.prefix {
            self.set_level(level);
            match self.find_location_in(path) {
                Search::Open if final_ => return Search::Open,
                Search::Open => {}
                search => return search,
            }
        }
        for (regex, level) in found.regexes {
            if let Ok(Some(captures)) = regex.captures(path) {
                self.set_named_captures(regex, path, &captures);
                self.set_captures(path, captures);
                self.set_level(*level);
                return match self.find_location_in(path) {
                    Search::Open => Search::Final,
                    search => search,
                };
            }
        }
        Search::Open
    }

    fn add_slash(&self) {
        let uri = self.uri.borrow();
        let mut location = Vec::with_capacity(uri.path.len() + 1);
        escape_uri(&uri.path, Escape::Uri, &mut location);
        location.push(b'/');
        if !uri.args.is_empty() {
            location.push(b'?');
            location.extend_from_slice(&uri.args);
        }
        self.response.borrow_mut().fields.set_known(tidegate_http::Known::Location, &location);
    }
}
