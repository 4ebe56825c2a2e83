//! `database`: the embedded engine.
//!
//! One data directory for a process, with a file for each schema. It is opened when the first worker starts, not while
//! the configuration is read: `-t` leaves the lock of a running server alone. It stays open over reloads, which change
//! its settings; a reload that names another directory opens that one for the new workers.
//!
//! Without a `database` block, an upstream with `drizzle_server embedded` opens `data` below the prefix, and schemas are made
//! when they are first named: nobody has said which there are.
//!
//! A directory that cannot be opened takes nothing else down: the server starts, and statements fail until it can be
//! ([`reopen`]).
//!
//! `user` names the accounts. Who comes over the network needs one; inside of the process a name is optional, but one that
//! is given must be right ([`check_user`]).

pub(crate) mod beanstalk;
pub mod control;
pub(crate) mod guarded;
mod handlersocket;
mod listen;
mod memcached;
mod opening;
mod port;
pub(crate) mod schemas;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, Diagnostics, Level as Severity, Span, ast};
use tidegate_core::{
    conf::{Build, Config, LevelId},
    inherit,
    main_conf::{block_of, duplicate},
    module::{Checked, Context, Directive, Module},
    ssl::files::Located,
};
use tidegate_net::log::{self, Level, SysError};
use tidegate_rows::QueryError;
use tidegate_sql::{ConfiguredUser, Durability, Engine, EngineOptions, Report, Session};

use crate::services;

/// The data directory of a configuration that names none.
const PATH_DEFAULT: &str = "data";
/// MySQL's number for a schema that does not exist.
const UNKNOWN_DATABASE: u16 = 1049;

/// What the directives of the block say.
#[derive(Default)]
pub struct Conf {
    /// `path`
    pub path: Option<BString>,
    /// `durability`
    pub durability: Option<u32>,
    /// `sql_mode`
    pub sql_mode: Option<BString>,
    /// `lock_wait_timeout`
    pub lock_wait_timeout: Option<Duration>,
    /// `rollback_on_timeout`
    pub rollback_on_timeout: Option<bool>,
    /// `event_scheduler`
    pub event_scheduler: Option<bool>,
    /// `statement_memory_max`
    pub statement_memory_max: Option<u64>,
    /// `statement_time_max`
    pub statement_time_max: Option<Duration>,
    /// `log_size_max`
    pub log_size_max: Option<u64>,
    /// `user`s
    pub users: Option<Vec<User>>,
    /// `schema`s: names, each with the file that fills it when it is made.
    pub schemas: Option<Vec<(BString, Option<PathBuf>)>>,
    /// Where the files of `schemas` are named, in their order.
    schema_spans: Vec<Span>,
    /// `secure_file_priv`
    secure_file_priv: Option<PathBuf>,
    /// `server_version`
    server_version: Option<String>,
    /// `packet_size_max`
    packet_size_max: Option<usize>,
    /// `ssl_certificate`
    ssl_certificate: Option<Located>,
    /// `ssl_certificate_key`
    ssl_certificate_key: Option<Located>,
    /// What is said about `listen … handlersocket`.
    handlersocket: handlersocket::Settings,
    /// What these two come to.
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Where the first `listen` stands.
    listen_span: Option<Span>,
    /// `listen … memcached`, `memcached_zone`
    memcached: memcached::Conf,
    /// What is said about `listen … beanstalk`.
    pub(crate) beanstalk: beanstalk::Settings,
    /// Schemas that embedded upstreams name.
    pub upstreams: Option<Vec<String>>,
    declared: Option<bool>,
    engine: OnceLock<Engine>,
    failure: Mutex<Option<Failure>>,
}

/// Why the engine is not open, and when that was found out.
struct Failure {
    at: Instant,
    reason: String,
    /// A statement is trying to open it again.
    is_retried: bool,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The directory cannot be used as it is; that may change while the server runs.
    #[error("{0}")]
    Unavailable(String),
    /// The configuration is wrong, or another process has the directory.
    #[error("{0}")]
    Refused(String),
}

/// An account.
#[derive(Clone)]
pub struct User {
    /// The name to log in with.
    pub name: BString,
    /// The password; empty for none.
    pub password: BString,
}

const INSIDE: Context = Context::DATABASE;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[Directive::block("database", 0, 0, |conf: &mut Conf, directive, build| {
        if conf.declared.replace(true).is_some() {
            return Err(duplicate(directive));
        }
        let level = build.level();
        build.walk(level, Context::DATABASE, block_of(directive));
        port::tls::load(level, build)?;
        if build.conf_mut(&BLOCK, level).path.is_none() {
            build.data_path(PATH_DEFAULT.as_bytes());
        }
        Ok(())
    })
    .within(Context::MAIN)
    .doc("The embedded database.")],
    inherit: |child, parent, _| {
        inherit!(child, parent; declared);
    },
    init_worker: Some(|_| match tidegate_core::worker::config() {
        Some(config) if is_declared(&config) || config.http_conf(&BLOCK).upstreams.is_some() => start(&config),
        _ => Ok(()),
    }),
    example: "
        database {
            path data;
            schema shop;
            durability full;
        }
    ",
    ..Module::named("database")
};

/// The module of what stands inside the block.
pub static BLOCK: Module<Conf> = Module {
    directives: &[
        Directive::custom("path", 1, 1, |conf: &mut Conf, directive, build| {
            let path = directive.args[0].value.clone();
            build.data_path(path.as_bstr());
            conf.path = Some(path);
            Ok(())
        })
        .within(INSIDE)
        .syntax("directory")
        .default("data")
        .doc("The data directory: a file for each schema."),
        Directive::choice("durability", |c: &mut Conf| &mut c.durability, &[("full", 0), ("normal", 1)])
            .within(INSIDE)
            .default("full")
            .doc("Commits are answered when they are on the disk (full), or at once (normal)."),
        Directive::text("sql_mode", |c: &mut Conf| &mut c.sql_mode).within(INSIDE).doc("sql_mode of new sessions."),
        Directive::time("lock_wait_timeout", |c: &mut Conf| &mut c.lock_wait_timeout)
            .within(INSIDE)
            .default("50s")
            .doc("Longest time that a statement waits for other writing statements."),
        Directive::flag("rollback_on_timeout", |c: &mut Conf| &mut c.rollback_on_timeout)
            .within(INSIDE)
            .default("off")
            .doc("Waiting too long for a lock rolls back the whole transaction (innodb_rollback_on_timeout)."),
        Directive::flag("event_scheduler", |c: &mut Conf| &mut c.event_scheduler)
            .within(INSIDE)
            .default("off")
            .doc("Events run from the start (event_scheduler)."),
        Directive::offset("statement_memory_max", |c: &mut Conf| &mut c.statement_memory_max)
            .within(INSIDE)
            .default("1g")
            .doc("Most memory that one statement may use for the rows that it changes."),
        Directive::time("statement_time_max", |c: &mut Conf| &mut c.statement_time_max)
            .within(INSIDE)
            .doc("Longest time that a statement may run (max_statement_time of new sessions)."),
        Directive::offset("log_size_max", |c: &mut Conf| &mut c.log_size_max)
            .within(INSIDE)
            .default("1g")
            .doc("Largest size of a write-ahead log; beyond it a statement that has been reading for long is ended."),
        Directive::custom("user", 2, 2, user).within(INSIDE).syntax("name password=password").doc(
            "A user who may log in with this password; without the directive logins inside the process need no name, and there are none from outside.",
        ),
        Directive::custom("listen", 2, u16::MAX, listen::listen)
            .within(INSIDE)
            .syntax("address[:port] | port | unix:path mysql | handlersocket [write] | memcached zone=name|table=schema.table [auth] | beanstalk [backlog=number] [reuseport] [so_keepalive=on|off|...]")
            .doc("Serves clients of this protocol at this address; if no port is given it is 3306 for MySQL and MariaDB, 9998 for HandlerSocket, 9999 for HandlerSocket with write, 11211 for memcached and 11300 for beanstalkd."),
        Directive::text("handlersocket_plain_secret", |c: &mut Conf| &mut c.handlersocket.handlersocket_plain_secret)
            .within(INSIDE)
            .doc("What clients of HandlerSocket's ports for reading have to know; required where other hosts can reach one."),
        Directive::text("handlersocket_plain_secret_wr", |c: &mut Conf| &mut c.handlersocket.handlersocket_plain_secret_wr)
            .within(INSIDE)
            .doc("What clients of HandlerSocket's ports for writing have to know; required where other hosts can reach one."),
        Directive::time("handlersocket_timeout", |c: &mut Conf| &mut c.handlersocket.handlersocket_timeout)
            .within(INSIDE)
            .default("300s")
            .doc("How long a client of HandlerSocket may send nothing."),
        Directive::custom("memcached_zone", 2, 2, |c: &mut Conf, directive, _| memcached::zone(&mut c.memcached, directive))
            .within(INSIDE)
            .syntax("name size")
            .doc("Memory for listen ... memcached zone=name: what was not used for the longest time makes room."),
        Directive::size("memcached_item_size_max", |c: &mut Conf| &mut c.memcached.item_size_max)
            .within(INSIDE)
            .default("1m")
            .doc("Largest item that clients of memcached may store, key and 60 bytes of administration included."),
        Directive::size("beanstalk_job_size_max", |c: &mut Conf| &mut c.beanstalk.job_size_max)
            .within(INSIDE)
            .default("65535")
            .doc("Largest job that clients of beanstalkd may put."),
        Directive::number("beanstalk_jobs_max", |c: &mut Conf| &mut c.beanstalk.jobs_max)
            .within(INSIDE)
            .default("65536")
            .doc("Jobs that a client of beanstalkd may have at once (OUT_OF_MEMORY)."),
        Directive::flag("beanstalk_drain", |c: &mut Conf| &mut c.beanstalk.drain)
            .within(INSIDE)
            .default("off")
            .doc("Clients of beanstalkd may put no more jobs (DRAINING)."),
        Directive::custom("ssl_certificate", 1, 1, |c: &mut Conf, directive, _| port::tls::once(&mut c.ssl_certificate, directive))
            .within(INSIDE)
            .syntax("file | data:text")
            .doc("The certificate for clients of listen that want TLS, with those that lead to an authority."),
        Directive::custom("ssl_certificate_key", 1, 1, |c: &mut Conf, directive, _| {
            port::tls::once(&mut c.ssl_certificate_key, directive)
        })
        .within(INSIDE)
        .syntax("file | data:text")
        .doc("The key of the certificate."),
        Directive::size("packet_size_max", |c: &mut Conf| &mut c.packet_size_max)
            .within(INSIDE)
            .default("64m")
            .doc("Largest statement that a client of listen may send (max_allowed_packet)."),
        Directive::custom("secure_file_priv", 1, 1, |conf: &mut Conf, directive, build| {
            let path = build.full_path(directive.args[0].value.as_bstr());
            if conf.secure_file_priv.replace(path).is_some() { Err(duplicate(directive)) } else { Ok(()) }
        })
        .within(INSIDE)
        .syntax("directory")
        .doc("The directory whose files LOAD DATA may read and SELECT ... INTO OUTFILE may write; without it, none."),
        Directive::custom("server_version", 1, 1, server_version)
            .within(INSIDE)
            .syntax("version")
            .doc("The version that clients are told, in the greeting and as @@version; it begins with three numbers."),
        Directive::custom("schema", 1, 2, schema)
            .within(INSIDE)
            .syntax("name [init=file]")
            .doc("Makes the schema if there is none, and runs the statements of a file in it then."),
    ],
    inherit: |child, parent, _| {
        memcached::inherit(&mut child.memcached, &parent.memcached);
        child.beanstalk.inherit(&parent.beanstalk);
        inherit!(child, parent; path, durability, sql_mode, lock_wait_timeout, rollback_on_timeout, event_scheduler,
            statement_memory_max, statement_time_max, log_size_max, secure_file_priv, server_version, packet_size_max, tls, users, schemas, upstreams);
        child.handlersocket.inherit(&parent.handlersocket);
    },
    finish: Some(|conf, build| {
        // Nothing else gives the default directory to the server's user.
        if conf.upstreams.is_some() && build.conf_at(&MODULE, LevelId(0)).is_none_or(|main| main.declared.is_none()) {
            build.data_path(PATH_DEFAULT.as_bytes());
        }
        Ok(())
    }),
    check: Some(check),
    ..Module::named("database_block")
};

fn user(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let (name, secret) = (&directive.args[0], &directive.args[1]);
    let Some(password) = secret.value.strip_prefix(b"password=") else {
        // The argument may be a password itself: it is not quoted.
        let message = format!("no password for user \"{}\"", name.value);
        let hint = format!("write it as \"user {} password=...\"; \"password=\" alone is an empty one", name.value);
        return Err(Diagnostic::new(Severity::Emerg, secret.span, message).with_hint(hint));
    };
    let users = conf.users.get_or_insert_default();
    if users.iter().any(|other| other.name == name.value) {
        let message = format!("duplicate user \"{}\"", name.value);
        return Err(Diagnostic::new(Severity::Emerg, name.span, message));
    }
    users.push(User { name: name.value.clone(), password: password.into() });
    Ok(())
}

/// `server_version`. Clients compute with the numbers, and leave the rest to people.
fn server_version(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    /// Characters of a version: those that all clients have room for.
    const VERSION_CHARS_MAX: usize = 60;
    let arg = &directive.args[0];
    let printable = arg.value.iter().all(|byte| matches!(byte, b'!'..=b'~'));
    let text = arg.value.to_str_lossy();
    let numbers: Vec<&str> = text.split('-').next().unwrap_or_default().split('.').collect();
    let is_number = |part: &&str| matches!(part.len(), 1..=3) && part.bytes().all(|byte| byte.is_ascii_digit());
    if !printable || text.len() > VERSION_CHARS_MAX || numbers.len() != 3 || !numbers.iter().all(is_number) {
        let message = format!("invalid version \"{}\"", arg.value);
        return Err(Diagnostic::new(Severity::Emerg, arg.span, message).with_hint("write it as 10.11.19-MariaDB"));
    }
    if conf.server_version.replace(text.into_owned()).is_some() {
        return Err(duplicate(directive));
    }
    Ok(())
}

/// Whether somebody inside of the process may work under a name: with a `user` directive the name and password must
/// be one of those, and no name at all means the process itself.
///
/// # Errors
/// MySQL's sentence for a login that fails.
pub fn check_user(config: &Config, name: &[u8], password: &[u8]) -> Result<(), String> {
    let Some(users) = &config.http_conf(&BLOCK).users else { return Ok(()) };
    if name.is_empty() || users.iter().any(|user| user.name == name && user.password == password) {
        return Ok(());
    }
    let word = if password.is_empty() { "NO" } else { "YES" };
    Err(format!("Access denied for user '{}'@'localhost' (using password: {word})", name.as_bstr()))
}

fn schema(conf: &mut Conf, directive: &ast::Directive, build: &mut Build<'_>) -> Result<(), Diagnostic> {
    let file = match directive.args.get(1) {
        None => None,
        Some(arg) => match arg.value.strip_prefix(b"init=") {
            Some(path) if !path.is_empty() => Some(build.full_path(path.as_bstr())),
            _ => return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["init="])),
        },
    };
    let name = directive.args[0].value.clone();
    let schemas = conf.schemas.get_or_insert_default();
    if schemas.iter().any(|(other, _)| *other == name) {
        let message = format!("duplicate schema \"{name}\"");
        return Err(Diagnostic::new(Severity::Emerg, directive.args[0].span, message));
    }
    schemas.push((name, file));
    conf.schema_spans.push(directive.args.last().map_or(directive.name.span, |arg| arg.span));
    Ok(())
}

/// Finds files of `init=` that are not there, where a schema will have to be made.
fn check(conf: &Conf, checked: &Checked<'_>, diagnostics: &mut Diagnostics) {
    port::check(conf, diagnostics);
    handlersocket::check(conf, diagnostics);
    memcached::check(conf, diagnostics);
    let data = data_directory(conf, checked.config);
    for ((name, file), span) in conf.schemas.iter().flatten().zip(&conf.schema_spans) {
        let is_made = data.join(tidegate_sql::file_of_schema(&name.to_str_lossy())).exists();
        if let Some(file) = file
            && !is_made
            && let Err(error) = std::fs::File::open(file)
        {
            let message = format!("open() \"{}\" failed {}", file.display(), SysError(&error));
            diagnostics.error(*span, message).hint(format!("the schema \"{name}\" is made of this file"));
        }
    }
}

fn data_directory(conf: &Conf, config: &Config) -> PathBuf {
    config.full_path(conf.path.as_ref().map_or(PATH_DEFAULT.as_bytes(), |path| path.as_bytes()))
}

/// The data directory of a configuration.
pub fn data_path(config: &Config) -> PathBuf {
    data_directory(config.http_conf(&BLOCK), config)
}

/// Engines of the process by data directory: a reload finds the one that is open.
static ENGINES: Mutex<Vec<(PathBuf, Engine)>> = Mutex::new(Vec::new());

/// The engine of a configuration, opened when first asked for. May take a while then: workers ask as they start.
///
/// # Errors
/// Why it cannot be opened.
pub fn engine(config: &Config) -> Result<Engine, EngineError> {
    engine_within(config, HANDOVER)
}

/// The engine of a configuration, for which another process may keep the directory for so long.
fn engine_within(config: &Config, handover: Duration) -> Result<Engine, EngineError> {
    let conf = config.http_conf(&BLOCK);
    if let Some(engine) = conf.engine.get() {
        return Ok(engine.clone());
    }
    let path = data_directory(conf, config);
    // Only one worker opens it; the others wait for that here, before they serve.
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = match engines.iter().find(|(open, _)| *open == path) {
        Some((_, engine)) => {
            let changed = engine.configure(options(conf, &path));
            changed.map_err(|error| EngineError::Refused(error.to_string()))?;
            schemas::make(engine, config).map_err(EngineError::Refused)?;
            memcached::prepare_tables(engine, &conf.memcached).map_err(EngineError::Refused)?;
            services::prepare_tables(engine, config);
            engine.clone()
        }
        None => {
            let engine = opening::open(conf, &path, handover)?;
            schemas::make(&engine, config).map_err(EngineError::Refused)?;
            memcached::prepare_tables(&engine, &conf.memcached).map_err(EngineError::Refused)?;
            services::prepare_tables(&engine, config);
            if let Err(error) = control::serve(engine.clone(), &path) {
                // Only `tidegate sql` needs it.
                let socket = path.join(control::SOCKET);
                log::note(Level::Warn, format_args!("database: no control socket {}: {error}", socket.display()));
            }
            engines.push((path, engine.clone()));
            engine
        }
    };
    Ok(conf.engine.get_or_init(|| engine).clone())
}

/// Whether workers have an engine, or go on trying to open one.
pub fn is_wanted(config: &Config) -> bool {
    open_engine(config).is_some() || failure(config).is_some()
}

fn is_declared(config: &Config) -> bool {
    config.http_conf(&MODULE).declared == Some(true)
}

/// Opens the engine as a worker starts. A directory that cannot be used is logged, and the worker starts without it.
///
/// # Errors
/// What the configuration has wrong, or who has the directory, as a sentence.
pub fn start(config: &Config) -> Result<(), String> {
    match engine(config) {
        Ok(_) => Ok(()),
        Err(EngineError::Refused(reason)) => Err(reason),
        Err(EngineError::Unavailable(reason)) => {
            let mut failure = failure(config);
            if failure.is_none() {
                log::note(Level::Crit, format_args!("database: {reason}; statements fail until it can be used"));
            }
            *failure = Some(Failure { at: Instant::now(), reason, is_retried: false });
            Ok(())
        }
    }
}

fn failure(config: &Config) -> MutexGuard<'_, Option<Failure>> {
    config.http_conf(&BLOCK).failure.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine that workers have opened, or why there is none; then, at most once a second, another thread tries again.
///
/// # Errors
/// Why the last try has failed, as a sentence.
pub fn reopen(config: &Config) -> Result<Engine, String> {
    if let Some(engine) = open_engine(config) {
        return Ok(engine.clone());
    }
    let mut failure = failure(config);
    let Some(failed) = failure.as_mut() else {
        return Err("there is no embedded database: the configuration has no \"database\" block".to_owned());
    };
    if !failed.is_retried
        && failed.at.elapsed() >= RETRY_INTERVAL
        && let Some(config) = tidegate_core::worker::config()
    {
        failed.is_retried = true;
        // Opening reads files, and may run a script that fills a schema.
        tokio::task::spawn_blocking(move || retry(&config));
    }
    Err(failed.reason.clone())
}

fn retry(config: &Config) {
    let opened = engine_within(config, Duration::ZERO);
    let mut failure = failure(config);
    *failure = match opened {
        Ok(_) => {
            log::note(Level::Notice, format_args!("database: the data directory can be used now"));
            None
        }
        Err(error) => Some(Failure { at: Instant::now(), reason: error.to_string(), is_retried: false }),
    };
}

/// Time until a statement tries again to open a directory that could not be used.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process that is about to leave may keep the directory: a restart, or the end of the one before.
const HANDOVER: Duration = Duration::from_secs(5);

fn configured(user: &User) -> ConfiguredUser {
    ConfiguredUser { name: user.name.to_str_lossy().into_owned(), password: user.password.as_slice().into() }
}

fn options(conf: &Conf, path: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    if conf.durability == Some(1) {
        options.durability = Durability::Normal;
    }
    if let Some(version) = &conf.server_version {
        options.server_version = version.clone();
    }
    if let Some(mode) = &conf.sql_mode {
        options.sql_mode = mode.to_string();
    }
    if let Some(timeout) = conf.lock_wait_timeout {
        options.lock_wait_timeout = timeout;
    }
    options.rollback_on_timeout = conf.rollback_on_timeout.unwrap_or(false);
    options.event_scheduler = conf.event_scheduler.unwrap_or(false);
    options.statement_time_max = conf.statement_time_max.filter(|time| !time.is_zero());
    if let Some(bytes) = conf.statement_memory_max {
        options.statement_memory_max = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    if let Some(bytes) = conf.log_size_max {
        options.log_bytes_max = bytes;
    }
    options.files.clone_from(&conf.secure_file_priv);
    options.users = conf.users.iter().flatten().map(configured).collect();
    options.report = Some(Report(Arc::new(|sentence: &str| {
        log::note(Level::Warn, format_args!("database: {sentence}"));
    })));
    options
}

/// Leaves the files of all engines to other programs: the process is about to end, and its workers have.
pub fn leave() {
    for (_, engine) in ENGINES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        engine.leave();
    }
}

/// The engine of a configuration whose workers have started.
pub fn open_engine(config: &Config) -> Option<&Engine> {
    config.http_conf(&BLOCK).engine.get()
}

/// The first schema that the `database` block names, or, without a block, an upstream.
pub fn first_schema(config: &Config) -> Option<String> {
    let conf = config.http_conf(&BLOCK);
    if !is_declared(config) {
        return conf.upstreams.as_ref()?.first().cloned();
    }
    conf.schemas.as_ref()?.first().map(|(name, _)| name.to_string())
}

/// A session in a schema. Without a `database` block the schema is made if there is none.
///
/// # Errors
/// 1049, storage errors.
pub async fn session(config: &Config, engine: &Engine, schema: &str) -> Result<Session, QueryError> {
    match engine.session(schema) {
        Err(error) if error.code == UNKNOWN_DATABASE && !is_declared(config) => {}
        session => return Ok(session?),
    }
    let create = format!("CREATE DATABASE IF NOT EXISTS `{}`", schema.replace('`', "``"));
    schemas::execute(&mut engine.session("")?, create.as_bytes()).await?;
    Ok(engine.session(schema)?)
}
