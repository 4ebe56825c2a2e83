//! `drizzle`: statements to MySQL, MariaDB and what speaks their protocol, and to the embedded engine; rows as responses.
//!
//! Follows drizzle-nginx-module. New here: `drizzle_param` binds a variable to `:name` in the statement, so that nothing
//! needs to be quoted; `drizzle_query_timeout` bounds the whole statement; `drizzle_coalesce` answers requests for the
//! same rows from one statement.
//!
//! The rows become what the location asks for while they arrive: JSON (`rds_json`), CSV (`rds_csv`), or RDS.
//!
//! Reading order: [`server`] and [`backend`] (what an upstream leads to), [`query`] and [`params`] (what is sent there),
//! [`pass`] and [`sink`] (the content handler), [`cache`], [`coalesce`], [`status`]; [`check`] finds what could only fail later.

mod backend;
mod cache;
mod check;
mod coalesce;
mod params;
mod pass;
mod query;
mod server;
mod sink;
mod status;

use std::{
    cell::Cell,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, Span, ast};
use tidegate_core::{
    conf::{Build, Level, LevelId},
    inherit,
    module::{Context, Directive, Module},
    phase::Program,
    request::Request,
    resolver,
    template::Template,
    variable::VariableDef,
};

use self::{backend::Backend, query::Queries, server::ServerDraft};
use crate::{bound::Bound, zone::Zones};

/// What the directives say at one level.
#[derive(Default)]
pub struct Conf {
    /// `drizzle_query`
    pub drizzle_query: Option<Arc<Queries>>,
    /// `drizzle_pass`
    pub drizzle_pass: Option<Template>,
    /// Place of `drizzle_pass` in the configuration.
    pass_span: Option<Span>,
    /// `drizzle_param`: names with values.
    drizzle_param: Option<Vec<(BString, Bound)>>,
    /// `drizzle_connect_timeout`
    pub drizzle_connect_timeout: Option<Duration>,
    /// `drizzle_send_query_timeout`
    pub drizzle_send_query_timeout: Option<Duration>,
    /// `drizzle_recv_cols_timeout`
    pub drizzle_recv_cols_timeout: Option<Duration>,
    /// `drizzle_recv_rows_timeout`
    pub drizzle_recv_rows_timeout: Option<Duration>,
    /// `drizzle_query_timeout`
    pub drizzle_query_timeout: Option<Duration>,
    /// `drizzle_buffer_size`, accepted: the size follows the result.
    pub drizzle_buffer_size: Option<usize>,
    /// `drizzle_module_header`
    pub drizzle_module_header: Option<bool>,
    /// `drizzle_coalesce`
    pub drizzle_coalesce: Option<bool>,
    /// `drizzle_cache`
    drizzle_cache: Option<cache::Rule>,
    /// `drizzle_cache_purge`: conditions of which one must be met.
    drizzle_cache_purge: Option<Arc<Vec<Template>>>,
    /// `drizzle_cache_zone`
    zones: Zones<cache::Memory>,
    /// `drizzle_pipeline`
    pub drizzle_pipeline: Option<backend::Pipeline>,
    /// How quick the statements of this level are: what `drizzle_pipeline auto` goes by.
    pace: tidegate_mysql::Pace,
    /// `drizzle_status`: how much of it.
    drizzle_status: Option<status::Detail>,
    /// `drizzle_server`s of an `upstream`.
    servers: Vec<ServerDraft>,
    /// `drizzle_keepalive` of an `upstream`.
    keepalive: Option<backend::Keepalive>,
    /// `drizzle_multi_statements` of an `upstream`.
    drizzle_multi_statements: Option<bool>,
    /// The upstream that a literal `drizzle_pass` names.
    upstream: OnceLock<Option<LevelId>>,
    /// What an `upstream` with `drizzle_server`s leads to.
    backend: OnceLock<Arc<Backend>>,
}

const PLACES: Context = Context::ALL_IF;
const CONTENT: Context = Context::LOCATION.or(Context::LOCATION_IF);

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::custom("drizzle_server", 1, u16::MAX, drizzle_server)
            .within(Context::UPSTREAM)
            .syntax("host[:port] | unix:path | embedded [dbname=name] [user=user] [password=pass] [protocol=mysql] [charset=name] [ssl=on|prefer|off] ...")
            .doc("A database server; \"embedded\" is the one inside the process."),
        Directive::custom("drizzle_keepalive", 1, 7, drizzle_keepalive)
            .within(Context::UPSTREAM)
            .syntax("max=number [mode=single|multi] [overflow=ignore|reject|wait] [wait=time] [idle=time] [lifetime=time] [cancel=on|off]")
            .doc("Number of connections over all workers; action when all of them are in use."),
        Directive::flag("drizzle_multi_statements", |c: &mut Conf| &mut c.drizzle_multi_statements)
            .within(Context::UPSTREAM)
            .default("off")
            .doc("The text of a query may hold several statements; with \"off\" a second one that was slipped in does not run."),
        Directive::custom("drizzle_query", 1, u16::MAX, drizzle_query)
            .within(PLACES)
            .syntax("[method ...] statement")
            .doc("The statement to run, for all methods or some; variables in it are not quoted."),
        Directive::custom("drizzle_pass", 1, 1, drizzle_pass)
            .within(CONTENT)
            .syntax("upstream")
            .doc("Runs the statement there and answers with its rows."),
        Directive::custom("drizzle_param", 2, 3, drizzle_param)
            .within(PLACES)
            .syntax("name value [raw]")
            .doc("Binds a value to \":name\" in the statement, with arguments of the request decoded: never part of its text, so nothing needs quoting."),
        Directive::time("drizzle_connect_timeout", |c: &mut Conf| &mut c.drizzle_connect_timeout)
            .within(PLACES)
            .default("60s")
            .doc("Longest time for connecting, login included."),
        Directive::time("drizzle_send_query_timeout", |c: &mut Conf| &mut c.drizzle_send_query_timeout)
            .within(PLACES)
            .default("60s")
            .doc("Longest time for sending the statement and waiting for the first bytes of its answer."),
        Directive::time("drizzle_recv_cols_timeout", |c: &mut Conf| &mut c.drizzle_recv_cols_timeout)
            .within(PLACES)
            .default("60s")
            .doc("Longest pause while the columns arrive."),
        Directive::time("drizzle_recv_rows_timeout", |c: &mut Conf| &mut c.drizzle_recv_rows_timeout)
            .within(PLACES)
            .default("60s")
            .doc("Longest pause between rows."),
        Directive::time("drizzle_query_timeout", |c: &mut Conf| &mut c.drizzle_query_timeout)
            .within(PLACES)
            .doc("Longest time for the whole statement."),
        Directive::flag("drizzle_coalesce", |c: &mut Conf| &mut c.drizzle_coalesce)
            .within(PLACES)
            .default("off")
            .doc("Answers requests for the same rows at the same time from one statement."),
        Directive::custom("drizzle_cache_zone", 2, 2, |conf: &mut Conf, directive, _| cache::define(conf, directive))
            .within(Context::HTTP)
            .syntax("name size")
            .doc("Memory in which all workers keep answers for drizzle_cache."),
        Directive::custom("drizzle_cache", 1, 3, cache::use_zone)
            .within(PLACES)
            .syntax("zone=name [max_age=time] [max_size=size] | off")
            .doc("Keeps answers of the embedded engine until a commit changes what they were made of, those of other servers for max_age."),
        Directive::custom("drizzle_cache_purge", 1, u16::MAX, |conf: &mut Conf, directive, build| {
            tidegate_core::upstream::caching::rules::conditions(&mut conf.drizzle_cache_purge, directive, build)
        })
        .within(PLACES)
        .syntax("string ...")
        .doc("A request for which one of the strings is neither empty nor 0 removes its answer from the zone: 204, or 404 if there was none."),
        Directive::custom("drizzle_pipeline", 1, 1, |conf: &mut Conf, directive, _| {
            conf.drizzle_pipeline = Some(backend::Pipeline::parse(directive)?);
            Ok(())
        })
        .within(PLACES)
        .default("auto")
        .syntax("auto | off | number")
        .doc("Most reading statements that may be under way on one connection; with \"auto\" only those that have proved quick share."),
        Directive::size("drizzle_buffer_size", |c: &mut Conf| &mut c.drizzle_buffer_size)
            .within(PLACES)
            .doc("Accepted: buffers grow with the result."),
        Directive::custom("drizzle_status", 0, 1, |conf: &mut Conf, directive, _| {
            conf.drizzle_status = Some(status::Detail::parse(directive)?);
            Ok(())
        })
        .within(CONTENT)
        .syntax("[full]")
        .doc("Answers with the state of all pools; \"full\" adds counts and times."),
        Directive::flag("drizzle_module_header", |c: &mut Conf| &mut c.drizzle_module_header)
            .within(PLACES)
            .default("on")
            .doc("RDS responses name their maker in a field."),
    ],
    variables: &[
        VariableDef::new("drizzle_thread_id", thread_id, "Number of the database connection on its server."),
        VariableDef::new("drizzle_cache_status", cache_status, "HIT, MISS, or BYPASS for an answer that is not kept."),
    ],
    inherit: |child, parent, kind| {
        inherit!(child, parent; drizzle_query, drizzle_param, drizzle_connect_timeout, drizzle_send_query_timeout,
            drizzle_recv_cols_timeout, drizzle_recv_rows_timeout, drizzle_query_timeout, drizzle_buffer_size,
            drizzle_module_header, drizzle_coalesce, drizzle_pipeline, drizzle_cache, drizzle_cache_purge);
        if child.zones.defined.is_empty() {
            child.zones.clone_from(&parent.zones);
        }
        if kind.is_unnamed() {
            inherit!(child, parent; drizzle_pass, pass_span, drizzle_status);
        }
    },
    install,
    finish: Some(|conf, _| conf.zones.check()),
    check: Some(check::check),
    init_worker: Some(|_| {
        if let Some(config) = tidegate_core::worker::config() {
            for server in backends(&config).flat_map(|(_, conf)| &conf.servers).filter(|server| server.is_embedded()) {
                crate::database::start(&config)?;
                server.check_user(&config).map_err(|why| format!("drizzle_server embedded: {why}"))?;
            }
            tokio::task::spawn_local(sweep(config));
        }
        Ok(())
    }),
    example: r#"
        upstream cats {
            drizzle_server 127.0.0.1:3306 dbname=test user=monty password=some_pass;
            drizzle_keepalive max=200 overflow=reject;
        }
        server {
            listen 127.0.0.1:8081;
            location /cat {
                drizzle_query "select * from cats where name = :name";
                drizzle_param name $arg_name;
                drizzle_pass cats;
                rds_json on;
            }
        }
    "#,
    ..Module::named("drizzle")
};

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn drizzle_query(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let queries = conf.drizzle_query.get_or_insert_default();
    Arc::get_mut(queries).expect("levels share after all was read").add(directive, build)
}

fn drizzle_server(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let server = ServerDraft::parse(directive, build)?;
    if conf.servers.iter().any(|other| other.is_embedded() || server.is_embedded()) {
        let message = "the embedded engine cannot share an upstream with other servers".to_owned();
        return Err(emerg(&directive.args[0], message));
    }
    if server.is_embedded() {
        let level = build.http_level().unwrap_or(build.level());
        let upstreams = build.conf_mut(&crate::database::BLOCK, level).upstreams.get_or_insert_default();
        upstreams.push(server.dbname.clone());
    }
    conf.servers.push(server);
    Ok(())
}

fn drizzle_keepalive(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.keepalive = Some(backend::Keepalive::parse(directive)?);
    Ok(())
}

fn drizzle_pass(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.drizzle_pass.is_some() {
        return Err(Diagnostic::duplicate(directive.name(), directive.name.span));
    }
    conf.drizzle_pass = Some(build.template(&directive.args[0])?);
    conf.pass_span = Some(directive.args[0].span);
    Ok(())
}

fn drizzle_param(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = directive.args[0].value.strip_prefix(b":").unwrap_or(&directive.args[0].value);
    if name.is_empty() || !name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(emerg(&directive.args[0], format!("invalid parameter name \"{}\"", directive.args[0].value)));
    }
    let is_raw = match directive.args.get(2) {
        None => false,
        Some(word) if word.value == "raw" => true,
        Some(word) => return Err(Diagnostic::invalid_parameter(&word.value, word.span, ["raw"])),
    };
    let value = Bound::new(build.template(&directive.args[1])?, is_raw, build);
    conf.drizzle_param.get_or_insert_default().push((name.into(), value));
    Ok(())
}

/// What the module keeps with a request.
#[derive(Debug, Default)]
struct Running {
    thread_id: Cell<u32>,
    cache_status: Cell<Option<cache::Status>>,
}

fn cache_status(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    let status = req.find_context::<Running>().and_then(|running| running.cache_status.get());
    out.extend_from_slice(status.map_or("", cache::Status::as_str).as_bytes());
    status.is_some()
}

fn thread_id(req: &Request, _: &[u8], out: &mut Vec<u8>) -> bool {
    match req.find_context::<Running>().map(|running| running.thread_id.get()) {
        Some(id) if id != 0 => {
            out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
            true
        }
        _ => false,
    }
}

/// How often idle connections are looked over on each worker.
const SWEEP_PAUSE: Duration = Duration::from_secs(5);

/// Closes connections that have been idle for too long, as long as the worker lives.
async fn sweep(config: Arc<tidegate_core::conf::Config>) {
    let backends: Vec<_> = backends(&config).map(|(_, conf)| conf).collect();
    if backends.is_empty() {
        return;
    }
    loop {
        tokio::time::sleep(SWEEP_PAUSE).await;
        for backend in backends.iter().filter_map(|conf| conf.backend.get()) {
            if let Backend::Mysql { pool, .. } = &**backend {
                pool.sweep();
            }
        }
    }
}

/// What the pools of all upstreams have done and hold, over all workers: name, `max`, and the rest.
pub fn pool_stats(config: &tidegate_core::conf::Config) -> Vec<(BString, usize, tidegate_mysql::PoolStats)> {
    let pools = backends(config).filter_map(|(level, conf)| match &**conf.backend(level) {
        Backend::Mysql { pool, .. } => Some((level.name.clone(), conf.keepalive.unwrap_or_default().max, pool.stats())),
        Backend::Embedded { .. } => None,
    });
    pools.collect()
}

/// All upstreams that have `drizzle_server`s, in the order of the file.
fn backends(config: &tidegate_core::conf::Config) -> impl Iterator<Item = (&Level, &Conf)> {
    config
        .levels
        .iter()
        .filter(|level| level.kind == Context::UPSTREAM)
        .map(|level| (level, level.conf(&MODULE)))
        .filter(|(_, conf)| !conf.servers.is_empty())
}

impl Conf {
    /// Whether a request is to remove its answer from the cache. A sub-request has the main request's method and fields, and whoever
    /// made it, `auth_request` for instance, wants another answer.
    fn purges(&self, req: &Request) -> bool {
        if req.is_subrequest() {
            return false;
        }
        let mut conditions = self.drizzle_cache_purge.iter().flat_map(|conditions| &**conditions);
        conditions.any(|condition| !matches!(&*condition.eval_cow(req), b"" | b"0"))
    }

    /// What the `upstream` at `level`, whose configuration this is, leads to; made when first asked for.
    fn backend(&self, level: &Level) -> &Arc<Backend> {
        self.backend.get_or_init(|| {
            let batches = self.drizzle_multi_statements.unwrap_or(false);
            Backend::new(level.name.as_bstr(), &self.servers, self.keepalive, batches, level.conf(&resolver::MODULE))
        })
    }
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    if let Some(detail) = conf.drizzle_status {
        program.content(move |req| status::answer(req, detail));
    }
    if conf.drizzle_pass.is_some() {
        let conf = conf.clone();
        program.content(move |req| pass::pass(req, &conf));
    }
}
