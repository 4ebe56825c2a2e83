//! `upstream`: groups of servers, and how one of them is chosen.
//!
//! The block's own directives are here. Others that may stand in it belong to the modules that use them
//! (`drizzle_server` to drizzle). What modules ask of their upstreams goes through [`require`]: it answers the place
//! where the group will be when everything is read.
//!
//! Follows nginx's `ngx_http_upstream_module` and its companions for `hash`, `ip_hash`, `least_conn`, `random`,
//! `keepalive` and `zone`.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level, Span, ast, values};
use tidegate_core::{
    conf::{Build, LevelId},
    main_conf::block_of,
    module::{Context, Directive, Module},
    request::Request,
    resolver,
    upstream::{
        Address, Group, GroupOptions, Server,
        balance::{Balancer, Method},
        group::KeepAlive,
        url::{HostKind, Url},
        variables::VARIABLES,
    },
    worker,
};
use tidegate_net::{clock, log};

/// The place of a group; filled when the whole configuration is read.
pub type GroupSlot = Arc<OnceLock<Arc<Group>>>;

/// What the directives say: of one `upstream` block, and at the `http` level what all of them need.
#[derive(Default)]
pub struct Conf {
    servers: Vec<Draft>,
    method: Option<Method>,
    keepalive: Option<usize>,
    keepalive_requests: Option<u64>,
    keepalive_time: Option<Duration>,
    keepalive_timeout: Option<Duration>,
    zone: Option<BString>,
    /// Chooses instead of `method`; `balancer_by_lua` puts itself here.
    pub balancer: Option<Box<dyn Balancer>>,
    /// `balancer_keepalive`
    pub balancer_keepalive: Option<usize>,
    /// The group of this block.
    group: GroupSlot,
    /// At the `http` level: the groups of all `upstream` blocks.
    pub named: Vec<Arc<Group>>,
    /// At the `http` level: what modules asked for.
    required: Vec<Required>,
    /// At the `http` level: groups whose servers' names are looked up again and again.
    resolving: Vec<Resolving>,
}

/// A `server`.
struct Draft {
    server: Server,
    /// Name and port, with `resolve`.
    resolve: Option<(String, u16)>,
}

struct Resolving {
    group: Arc<Group>,
    servers: Vec<Draft>,
    /// The block, whose `resolver` counts.
    level: LevelId,
}

struct Required {
    url: Url,
    default_port: Option<u16>,
    span: Span,
    slot: GroupSlot,
}

const UPSTREAM: Context = Context::UPSTREAM;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::block("upstream", 1, 1, upstream)
            .within(Context::HTTP)
            .syntax("name { ... }")
            .doc("A group of servers."),
        Directive::custom("server", 1, u16::MAX, server)
            .within(UPSTREAM)
            .syntax("address [weight=n] [max_fails=n] [fail_timeout=time] [max_conns=n] [backup] [down] [resolve]")
            .doc("A server of the group."),
        Directive::custom("least_conn", 0, 0, |conf: &mut Conf, d, build| {
            set_method(conf, Method::LeastConn, d, build);
            Ok(())
        })
        .within(UPSTREAM)
        .doc("Requests go to the server with the fewest requests under way."),
        Directive::custom("ip_hash", 0, 0, |conf: &mut Conf, d, build| {
            set_method(conf, Method::IpHash, d, build);
            Ok(())
        })
        .within(UPSTREAM)
        .doc("Requests of the same client address go to the same server."),
        Directive::custom("hash", 1, 2, hash)
            .within(UPSTREAM)
            .syntax("key [consistent]")
            .doc("Requests with the same value of this text go to the same server."),
        Directive::custom("random", 0, 2, random)
            .within(UPSTREAM)
            .syntax("[two [least_conn]]")
            .doc("Requests go to servers chosen at random."),
        Directive::custom("keepalive", 1, 1, keepalive)
            .within(UPSTREAM)
            .syntax("connections")
            .doc("Idle connections to the servers of the group that each worker keeps."),
        Directive::number("keepalive_requests", |c: &mut Conf| &mut c.keepalive_requests)
            .within(UPSTREAM)
            .default("1000")
            .doc("Requests over one connection."),
        Directive::time("keepalive_time", |c: &mut Conf| &mut c.keepalive_time)
            .within(UPSTREAM)
            .default("1h")
            .doc("Connections are closed when they are this old."),
        Directive::time("keepalive_timeout", |c: &mut Conf| &mut c.keepalive_timeout)
            .within(UPSTREAM)
            .default("60s")
            .doc("Longest time that an idle connection is kept."),
        Directive::custom("zone", 1, 2, |conf: &mut Conf, d, _| {
            conf.zone = Some(d.args[0].value.clone());
            Ok(())
        })
        .within(UPSTREAM)
        .syntax("name [size]")
        .doc("Accepted: workers always share what is known about servers."),
    ],
    variables: VARIABLES,
    finish: Some(finish),
    init_worker: Some(init_worker),
    example: "
        upstream backend {
            least_conn;
            server 127.0.0.1:8081 weight=3 max_fails=2 fail_timeout=10s;
            server 127.0.0.1:8082;
            server 127.0.0.1:8083 backup;
            keepalive 32;
        }
    ",
    ..Module::named("upstream")
};

fn emerg(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(Level::Emerg, span, message)
}

fn upstream(_: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = &directive.args[0];
    // nginx compares these names in any case, as those of hosts.
    let key = BString::from(name.value.to_ascii_lowercase());
    if build.upstreams.contains_key(&key) {
        return Err(emerg(name.span, format!("duplicate upstream \"{}\"", name.value)));
    }
    let level = build.open_level(UPSTREAM, Some(build.level()), name.value.clone());
    build.upstreams.insert(key, level);
    let inside = block_of(directive);
    build.walk(level, UPSTREAM, inside);
    // `drizzle_server` and the like name servers of other kinds.
    if !inside.iter().any(|inner| inner.name().ends_with(b"server") || inner.name().starts_with(b"balancer_by_lua")) {
        return Err(emerg(name.span, "no servers are inside upstream".to_owned()));
    }
    let servers = &build.conf_mut(&MODULE, level).servers;
    if !servers.is_empty() && servers.iter().all(|draft| draft.server.backup) {
        return Err(emerg(name.span, format!("no servers in upstream \"{}\"", name.value)));
    }
    Ok(())
}

/// `balancer_keepalive` by default.
const BALANCER_KEEPALIVE: usize = 32;

/// Port of a server without one.
const DEFAULT_PORT: u16 = 80;

fn server(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    let mut server = Server::new(arg.value.clone(), Vec::new());
    let mut resolve = false;
    for parameter in &directive.args[1..] {
        match parameter.value == "resolve" {
            true => resolve = true,
            false => server_parameter(&mut server, parameter)?,
        }
    }
    let url = Url::parse(arg.value.as_bstr(), false)
        .map_err(|error| emerg(arg.span, format!("{error} in upstream \"{}\"", arg.value)))?;
    let resolve =
        (resolve && url.kind == HostKind::Name).then(|| (url.host.to_string(), url.port.unwrap_or(DEFAULT_PORT)));
    server.addresses = match look_up(&url, DEFAULT_PORT, arg.span) {
        // The name may come to be known later.
        Err(_) if resolve.is_some() => Vec::new(),
        found => found?,
    };
    if server.backup && conf.method.as_ref().is_some_and(refuses_backup) {
        let message = "balancing method does not support parameter \"backup\"".to_owned();
        return Err(emerg(arg.span, message));
    }
    conf.servers.push(Draft { server, resolve });
    Ok(())
}

fn refuses_backup(method: &Method) -> bool {
    matches!(method, Method::IpHash | Method::Hash { .. } | Method::Random { .. })
}

fn look_up(url: &Url, default_port: u16, span: Span) -> Result<Vec<Address>, Diagnostic> {
    url.look_up(default_port).map_err(|_| emerg(span, format!("host not found in upstream \"{}\"", url.text)))
}

const PARAMETERS: [&str; 7] = ["weight=", "max_fails=", "fail_timeout=", "max_conns=", "backup", "down", "resolve"];

fn server_parameter(server: &mut Server, arg: &ast::Arg) -> Result<(), Diagnostic> {
    let text: &[u8] = &arg.value;
    let invalid = || Diagnostic::invalid_parameter(&arg.value, arg.span, PARAMETERS);
    let number = |digits: &[u8]| {
        values::integer(digits.as_bstr()).ok().and_then(|number| u32::try_from(number).ok()).ok_or_else(invalid)
    };
    match text {
        b"backup" => server.backup = true,
        b"down" => server.down = true,
        _ => match text.split_once_str("=") {
            Some((b"weight", digits)) => {
                server.weight = number(digits)?;
                if server.weight == 0 {
                    return Err(invalid());
                }
            }
            Some((b"max_fails", digits)) => server.max_fails = number(digits)?,
            Some((b"max_conns", digits)) => server.max_conns = number(digits)?,
            Some((b"fail_timeout", time)) => {
                server.fail_timeout = values::time_seconds(time.as_bstr()).map_err(|_| invalid())?;
            }
            Some((b"slow_start" | b"service" | b"route" | b"drain", _)) => {
                return Err(invalid().with_hint("this parameter is part of nginx's commercial subscription only"));
            }
            _ => return Err(invalid()),
        },
    }
    Ok(())
}

fn set_method(conf: &mut Conf, method: Method, directive: &ast::Directive, build: &mut Build<'_>) {
    if conf.method.is_some() || conf.balancer.is_some() {
        build.diagnostics.warn(directive.name.span, "load balancing method redefined");
    }
    conf.method = Some(method);
}

fn hash(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let consistent = match directive.args.get(1) {
        None => false,
        Some(word) if word.value == "consistent" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["consistent"])),
    };
    let key = build.template(&directive.args[0])?;
    set_method(conf, Method::Hash { key, consistent }, directive, build);
    Ok(())
}

fn random(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let two = match directive.args.first() {
        None => false,
        Some(word) if word.value == "two" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["two"])),
    };
    if let Some(word) = directive.args.get(1).filter(|word| word.value != "least_conn") {
        return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["least_conn"]));
    }
    set_method(conf, Method::Random { two }, directive, build);
    Ok(())
}

fn keepalive(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let arg = &directive.args[0];
    if conf.keepalive.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    match values::integer(arg.value.as_bstr()).ok().and_then(|number| usize::try_from(number).ok()) {
        Some(number) if number > 0 => conf.keepalive = Some(number),
        _ => {
            let message = format!("invalid value \"{}\" in \"{}\" directive", arg.value, directive.name());
            return Err(emerg(arg.span, message));
        }
    }
    Ok(())
}

/// Asks for the group of a URL's host: an `upstream` block of that name, or the addresses of the host itself. Without
/// `default_port`, the URL of a host has to name a port.
pub fn require(build: &mut Build<'_>, url: Url, default_port: Option<u16>, span: Span) -> GroupSlot {
    let slot = GroupSlot::default();
    let http = build.http_level().unwrap_or(LevelId(0));
    let required = Required { url, default_port, span, slot: slot.clone() };
    build.conf_mut(&MODULE, http).required.push(required);
    slot
}

/// The group of an `upstream` block, by name, while a request runs.
pub fn find<'r>(req: &'r Request, name: &BStr) -> Option<&'r Arc<Group>> {
    let level = req.conf().find_upstream(name)?;
    req.conf().levels[level.0 as usize].conf(&MODULE).group.get()
}

fn finish(http: &mut Conf, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let mut blocks: Vec<(BString, LevelId)> =
        build.upstreams.values().map(|level| (build.name_of(*level).to_owned(), *level)).collect();
    blocks.sort_by_key(|(_, level)| level.0);
    for (name, level) in blocks {
        let conf = build.conf_mut(&MODULE, level);
        let group = Arc::new(conf.make_group(name));
        let _ = conf.group.set(group.clone());
        http.named.push(group.clone());
        let servers = std::mem::take(&mut conf.servers);
        if servers.iter().any(|draft| draft.resolve.is_some()) {
            http.resolving.push(Resolving { group, servers, level });
        }
    }
    // Locations that name the same server share what is known about it.
    let mut implicit: Vec<(BString, Option<u16>, Arc<Group>)> = Vec::new();
    for required in std::mem::take(&mut http.required) {
        let Required { url, default_port, span, slot } = required;
        let key = url.host.to_ascii_lowercase();
        let block = build.upstreams.get(key.as_bstr()).copied().filter(|_| url.kind != HostKind::Unix);
        if let (Some(_), Some(port)) = (block, url.port) {
            build.diagnostics.push(emerg(span, format!("upstream \"{}\" may not have port {port}", url.host)));
            continue;
        }
        let known = implicit.iter().find(|(text, port, _)| *text == url.text && *port == default_port);
        let group = match (block, known) {
            (Some(level), _) => build.conf_mut(&MODULE, level).group.get().cloned(),
            (None, Some((_, _, group))) => Some(group.clone()),
            (None, None) => match implicit_group(&url, default_port, span) {
                Ok(group) => {
                    implicit.push((url.text.clone(), default_port, group.clone()));
                    Some(group)
                }
                Err(diagnostic) => {
                    build.diagnostics.push(diagnostic);
                    None
                }
            },
        };
        if let Some(group) = group {
            let _ = slot.set(group);
        }
    }
    Ok(())
}

/// The group of a server that no block describes.
fn implicit_group(url: &Url, default_port: Option<u16>, span: Span) -> Result<Arc<Group>, Diagnostic> {
    if url.kind != HostKind::Unix && url.port.or(default_port).is_none() {
        return Err(emerg(span, format!("no port in upstream \"{}\"", url.text)));
    }
    let addresses = look_up(url, default_port.unwrap_or(0), span)?;
    let server = Server::new(url.text.clone(), addresses);
    Ok(Arc::new(Group::new(url.text.clone(), &[server], GroupOptions::default())))
}

impl Conf {
    /// Whether a directive has said how a server is chosen.
    pub fn has_method(&self) -> bool {
        self.method.is_some()
    }

    fn make_group(&mut self, name: BString) -> Group {
        let defaults = KeepAlive::default();
        let ms = |time: Option<Duration>, default| {
            time.map_or(default, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        let options = GroupOptions {
            method: self.method.take().unwrap_or_default(),
            keepalive: KeepAlive {
                connections: self.keepalive.unwrap_or(0),
                requests: self.keepalive_requests.unwrap_or(defaults.requests),
                time_ms: ms(self.keepalive_time, defaults.time_ms),
                timeout_ms: ms(self.keepalive_timeout, defaults.timeout_ms).max(1),
            },
            balancer: self.balancer.take(),
            balancer_keepalive: self.balancer_keepalive.unwrap_or(BALANCER_KEEPALIVE),
        };
        let servers: Vec<Server> = self.servers.iter().map(|draft| draft.server.clone()).collect();
        match self.servers.iter().any(|draft| draft.resolve.is_some()) {
            true => Group::changing(name, &servers, options),
            false => Group::new(name, &servers, options),
        }
    }
}

/// Shortest time between two looks at a name.
const RESOLVE_PAUSE_MIN_MS: u64 = 1_000;
/// Time until the next look at a name that could not be resolved.
const RESOLVE_RETRY_MS: u64 = 5_000;

/// Starts looking up names, on one of the workers for all.
fn init_worker(http: &Arc<Conf>) -> Result<(), String> {
    let is_first = worker::current().is_some_and(|worker| worker.id == 0);
    let Some(config) = worker::config().filter(|_| is_first) else { return Ok(()) };
    for index in 0..http.resolving.len() {
        let (http, config) = (http.clone(), config.clone());
        tokio::task::spawn_local(async move {
            let resolving = &http.resolving[index];
            let resolver = config.levels[resolving.level.0 as usize].conf(&resolver::MODULE);
            loop {
                let pause_ms = resolving.look_up(resolver).await;
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
        });
    }
    Ok(())
}

impl Resolving {
    /// Looks all names up and gives the group their addresses; answers when to do so again, in milliseconds. A name that
    /// cannot be resolved keeps the addresses that it had.
    async fn look_up(&self, resolver: &resolver::Conf) -> u64 {
        let (mut servers, mut pause_ms) = (Vec::new(), u64::MAX);
        let known = self.group.addresses();
        for draft in &self.servers {
            let mut server = draft.server.clone();
            if let Some((host, port)) = &draft.resolve {
                match resolver.resolve(host).await {
                    Ok(found) => {
                        let mut addresses: Vec<Address> =
                            found.addresses.iter().map(|ip| Address::Inet((*ip, *port).into())).collect();
                        // Name servers turn the order of their answers; the group's turns are its own.
                        addresses.sort_by_key(Address::to_string);
                        server.addresses = addresses;
                        pause_ms = pause_ms.min(found.until_ms.saturating_sub(clock::steady_ms()));
                    }
                    Err(error) => {
                        log::note(log::Level::Error, format_args!("{host} could not be resolved ({error})"));
                        server.addresses = self.group.addresses_of(&server.name);
                        pause_ms = pause_ms.min(RESOLVE_RETRY_MS);
                    }
                }
            }
            servers.push(server);
        }
        let (first, last): (Vec<&Server>, Vec<&Server>) = servers.iter().partition(|server| !server.backup);
        let now: Vec<&Address> = first.iter().chain(&last).flat_map(|server| &server.addresses).collect();
        if !now.into_iter().eq(&known) {
            self.group.set_servers(&servers);
        }
        pause_ms.max(RESOLVE_PAUSE_MIN_MS)
    }
}
