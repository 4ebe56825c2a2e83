//! `drizzle`: statements to MySQL, MariaDB and what speaks their protocol, and to the embedded engine; rows as responses.
//!
//! Follows drizzle-nginx-module. New here: `drizzle_param` binds a variable to `:name` in the statement, so that nothing
//! needs to be quoted; `drizzle_query_timeout` bounds the whole statement.
//!
//! The rows become what the location asks for while they arrive: JSON (`rds_json`), CSV (`rds_csv`), or RDS.

mod backend;
mod params;
mod sink;
mod status;

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::{BStr, BString, ByteSlice};
use tidegate_conf::{Diagnostic, Level as Severity, ast};
use tidegate_core::{
    conf::{Build, LevelId},
    inherit,
    log::Level,
    module::{Context, Directive, Module},
    phase::{Outcome, Program, Ready, Step},
    request::Request,
    template::Template,
    variable::VariableDef,
};
use tidegate_rows::{Column, Format, Param, QueryError, Statement, Summary, Value, csv::Csv, json::Json, rds::Rds};

use self::{
    backend::{Backend, ServerDraft},
    params::Statements,
    sink::ResponseSink,
};
use crate::{rds_csv, rds_json};

/// What the directives say at one level.
#[derive(Default)]
pub struct Conf {
    /// `drizzle_query`
    pub drizzle_query: Option<Template>,
    /// `drizzle_pass`
    pub drizzle_pass: Option<Template>,
    /// `drizzle_param`: names with values.
    pub drizzle_param: Option<Vec<(BString, Template)>>,
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
    /// `drizzle_status`
    pub drizzle_status: bool,
    /// `drizzle_server`s of an `upstream`.
    servers: Vec<ServerDraft>,
    /// `drizzle_keepalive` of an `upstream`.
    keepalive: Option<backend::Keepalive>,
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
            .syntax("host[:port] | embedded [dbname=name] [user=user] [password=pass] [protocol=mysql] [charset=name]")
            .doc("A database server; \"embedded\" is the one inside the process."),
        Directive::custom("drizzle_keepalive", 1, 4, drizzle_keepalive)
            .within(Context::UPSTREAM)
            .syntax("max=number [mode=single|multi] [overflow=ignore|reject|wait] [wait=time]")
            .doc("How many connections there are over all workers, and what happens when all are in use."),
        Directive::template("drizzle_query", |c: &mut Conf| &mut c.drizzle_query)
            .within(PLACES)
            .syntax("statement")
            .doc("The statement to run; variables in it are not quoted."),
        Directive::template("drizzle_pass", |c: &mut Conf| &mut c.drizzle_pass)
            .within(CONTENT)
            .syntax("upstream")
            .doc("Runs the statement there and answers with its rows."),
        Directive::custom("drizzle_param", 2, 2, drizzle_param)
            .within(PLACES)
            .syntax("name value")
            .doc("Binds a value to \":name\" in the statement: never part of its text, so nothing needs quoting."),
        Directive::time("drizzle_connect_timeout", |c: &mut Conf| &mut c.drizzle_connect_timeout)
            .within(PLACES)
            .default("60s")
            .doc("How long connecting may take, login included."),
        Directive::time("drizzle_send_query_timeout", |c: &mut Conf| &mut c.drizzle_send_query_timeout)
            .within(PLACES)
            .default("60s")
            .doc("How long sending the statement may take."),
        Directive::time("drizzle_recv_cols_timeout", |c: &mut Conf| &mut c.drizzle_recv_cols_timeout)
            .within(PLACES)
            .default("60s")
            .doc("How long the first answer may take."),
        Directive::time("drizzle_recv_rows_timeout", |c: &mut Conf| &mut c.drizzle_recv_rows_timeout)
            .within(PLACES)
            .default("60s")
            .doc("Longest pause between rows."),
        Directive::time("drizzle_query_timeout", |c: &mut Conf| &mut c.drizzle_query_timeout)
            .within(PLACES)
            .doc("How long the whole statement may take."),
        Directive::size("drizzle_buffer_size", |c: &mut Conf| &mut c.drizzle_buffer_size)
            .within(PLACES)
            .doc("Accepted: buffers grow with the result."),
        Directive::custom("drizzle_status", 0, 0, |conf: &mut Conf, _, _| {
            conf.drizzle_status = true;
            Ok(())
        })
        .within(CONTENT)
        .doc("Answers with the state of all pools."),
        Directive::flag("drizzle_module_header", |c: &mut Conf| &mut c.drizzle_module_header)
            .within(PLACES)
            .default("on")
            .doc("RDS responses name their maker in a field."),
    ],
    variables: &[VariableDef::new("drizzle_thread_id", thread_id, "Number of the database connection on its server.")],
    inherit: |child, parent, kind| {
        inherit!(child, parent; drizzle_query, drizzle_param, drizzle_connect_timeout, drizzle_send_query_timeout,
            drizzle_recv_cols_timeout, drizzle_recv_rows_timeout, drizzle_query_timeout, drizzle_buffer_size,
            drizzle_module_header);
        if kind.is_unnamed() {
            inherit!(child, parent; drizzle_pass);
            child.drizzle_status |= parent.drizzle_status;
        }
    },
    install,
    init_worker: Some(|_| {
        if let Some(worker) = tidegate_core::worker::current() {
            let config = worker.config();
            if backends(config).any(|(_, conf)| conf.servers.iter().any(ServerDraft::is_embedded)) {
                crate::database::engine(config)?;
            }
            tokio::task::spawn_local(sweep(config.clone()));
        }
        Ok(())
    }),
    ..Module::named("drizzle")
};

fn emerg(arg: &ast::Arg, message: String) -> Diagnostic {
    Diagnostic::new(Severity::Emerg, arg.span, message)
}

fn drizzle_server(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let server = ServerDraft::parse(directive)?;
    if conf.servers.iter().any(|other| other.is_embedded() || server.is_embedded()) {
        let message = "the embedded engine cannot share an upstream with other servers".to_owned();
        return Err(emerg(&directive.args[0], message));
    }
    conf.servers.push(server);
    Ok(())
}

fn drizzle_keepalive(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.keepalive = Some(backend::Keepalive::parse(directive)?);
    Ok(())
}

fn drizzle_param(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = directive.args[0].value.strip_prefix(b":").unwrap_or(&directive.args[0].value);
    if name.is_empty() || !name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(emerg(&directive.args[0], format!("invalid parameter name \"{}\"", directive.args[0].value)));
    }
    let value = build.template(&directive.args[1])?;
    conf.drizzle_param.get_or_insert_default().push((name.into(), value));
    Ok(())
}

/// What the module keeps with a request.
#[derive(Debug, Default)]
struct Running {
    thread_id: Cell<u32>,
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
            if let Backend::Mysql(pool) = &**backend {
                pool.sweep();
            }
        }
    }
}

/// All upstreams that have `drizzle_server`s, in the order of the file.
fn backends(config: &tidegate_core::conf::Config) -> impl Iterator<Item = (&BStr, &Conf)> {
    config
        .levels
        .iter()
        .filter(|level| level.kind == Context::UPSTREAM)
        .map(|level| (level.name.as_bstr(), level.conf(&MODULE)))
        .filter(|(_, conf)| !conf.servers.is_empty())
}

fn install(conf: &Arc<Conf>, program: &mut Program) {
    if conf.drizzle_status {
        program.content(status::answer);
    }
    if conf.drizzle_pass.is_some() {
        let conf = conf.clone();
        program.content(move |req| pass(req, &conf));
    }
}

/// How rows are written, as the location says.
enum RowFormat {
    Json(Json<Arc<tidegate_rows::json::JsonOptions>>),
    Csv(Csv),
    Rds(Rds),
}

macro_rules! each_format {
    ($self:ident, $format:ident => $call:expr) => {
        match $self {
            RowFormat::Json($format) => $call,
            RowFormat::Csv($format) => $call,
            RowFormat::Rds($format) => $call,
        }
    };
}

impl Format for RowFormat {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        each_format!(self, format => format.columns(columns, out));
    }
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        each_format!(self, format => format.begin_row(out));
    }
    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        each_format!(self, format => format.value(index, value, out));
    }
    fn end_row(&mut self, out: &mut Vec<u8>) {
        each_format!(self, format => format.end_row(out));
    }
    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        each_format!(self, format => format.end_result(summary, out));
    }
}

fn pass(req: &Rc<Request>, conf: &Arc<Conf>) -> Outcome {
    // As upstream's module: a HEAD gets the head of what GET would get.
    let Some(backend) = backend_of(req, conf) else {
        return Ready::Now(Step::Status(500));
    };
    let statements = match Statements::of(req, conf) {
        Ok(statements) => statements,
        Err(message) => {
            req.log(Level::Error, format_args!("{message}"));
            return Ready::Now(Step::Status(500));
        }
    };
    let (req, conf) = (req.clone(), conf.clone());
    Ready::later(async move { run(req, conf, backend, statements).await })
}

/// The upstream that `drizzle_pass` names.
fn backend_of(req: &Request, conf: &Conf) -> Option<Arc<Backend>> {
    let pass = conf.drizzle_pass.as_ref()?;
    let config = req.conf();
    let find = |name: &[u8]| config.upstreams.get(BStr::new(name)).copied();
    let level = match pass.as_literal() {
        Some(name) => *conf.upstream.get_or_init(|| find(name)),
        None => find(&pass.eval(req)),
    };
    let Some(level) = level else {
        let name = pass.eval(req);
        req.log(Level::Error, format_args!("drizzle: upstream \"{}\" not found", name.as_bstr()));
        return None;
    };
    let level = &config.levels[level.0 as usize];
    let upstream = level.conf(&MODULE);
    if upstream.servers.is_empty() {
        req.log(Level::Error, format_args!("drizzle: no \"drizzle_server\" in upstream \"{}\"", level.name));
        return None;
    }
    Some(upstream.backend(level.name.as_bstr()).clone())
}

impl Conf {
    /// What this `upstream` leads to; made when first asked for.
    fn backend(&self, name: &BStr) -> &Arc<Backend> {
        self.backend.get_or_init(|| Backend::new(name, &self.servers, self.keepalive))
    }
}

async fn run(req: Rc<Request>, conf: Arc<Conf>, backend: Arc<Backend>, statements: Statements) -> Step {
    let format = prepare_response(&req, &conf);
    let mut sink = ResponseSink::new(req.clone(), format);
    let running = req.context::<Running>();
    let statement = Statement { sql: &statements.sql, params: &statements.params };
    let result = backend.execute(&req, &conf, statement, &mut sink, &running).await;
    match result {
        Ok(()) => match sink.finish().await {
            Ok(()) => Step::Ok,
            Err(_) => Step::Close,
        },
        Err(error) => {
            let untouched = sink.is_untouched();
            report(&req, &error);
            if untouched { Step::Status(status_of(&error)) } else { Step::Close }
        }
    }
}

/// Sets type and fields of the response; the head goes out with the first rows.
fn prepare_response(req: &Rc<Request>, conf: &Conf) -> RowFormat {
    let (json, csv) = (req.module_conf(&rds_json::MODULE), req.module_conf(&rds_csv::MODULE));
    let mut response = req.response.borrow_mut();
    response.status = 200;
    response.content_type.clear();
    if json.is_on() {
        response.content_type.extend_from_slice(json.content_type());
        return RowFormat::Json(json.format(req));
    }
    if csv.is_on() {
        response.content_type.extend_from_slice(csv.content_type());
        return RowFormat::Csv(csv.format());
    }
    response.content_type.extend_from_slice(b"application/x-resty-dbd-stream");
    if conf.drizzle_module_header != Some(false) {
        response.fields.set(b"X-Resty-DBD-Module", b"ngx_drizzle 0.1.11");
    }
    RowFormat::Rds(Rds::default())
}

/// The status for an error, as drizzle-nginx-module documents it.
fn status_of(error: &QueryError) -> u16 {
    /// Table does not exist.
    const NO_SUCH_TABLE: u16 = 1146;
    match error {
        QueryError::Server(error) if error.code == NO_SUCH_TABLE => 410,
        QueryError::Server(_) => 500,
        QueryError::PoolBusy { .. } => 503,
        QueryError::Timeout { .. } => 504,
        QueryError::Connect { .. } | QueryError::Lost { .. } | QueryError::Protocol { .. } => 502,
        QueryError::SinkClosed(_) => 499,
    }
}

#[cold]
fn report(req: &Rc<Request>, error: &QueryError) {
    let level = if matches!(error, QueryError::SinkClosed(_)) { Level::Info } else { Level::Error };
    req.log(level, format_args!("drizzle: {error}"));
}

/// A parameter of a variable's value: an empty one that was never set is NULL only if it has no value at all.
fn param_of(req: &Request, template: &Template) -> Param {
    match template.as_variable() {
        Some(id) => req.variable_bytes(id).map_or(Param::Null, |value| Param::Bytes(value.into())),
        None => Param::Bytes(template.eval(req).into()),
    }
}
