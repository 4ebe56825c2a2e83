//! Directives of the top level and of `events`: processes, files, limits.
//!
//! Source: nginx, "Core functionality".

use std::{sync::Arc, time::Duration};

use bstr::{BString, ByteSlice};
use tidegate_conf::{Body, Diagnostic, Span, ast, values};

use crate::{
    conf::Build,
    inherit,
    log::{Destination, ErrorLog, Level, LogFile},
    module::{Context, Directive, Module},
};

/// What the directives of the top level say.
#[derive(Debug, Default)]
pub struct Conf {
    /// `daemon`
    pub daemon: Option<bool>,
    /// `master_process`
    pub master_process: Option<bool>,
    /// `worker_processes`; 0 stands for `auto`.
    pub worker_processes: Option<u64>,
    /// `worker_cpu_affinity`: one mask for each worker, or `auto`.
    pub worker_cpu_affinity: Option<Vec<BString>>,
    /// `worker_rlimit_nofile`
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_rlimit_core`
    pub worker_rlimit_core: Option<u64>,
    /// `worker_shutdown_timeout`
    pub worker_shutdown_timeout: Option<Duration>,
    /// `worker_priority`
    pub worker_priority: Option<i32>,
    /// `working_directory`
    pub working_directory: Option<BString>,
    /// `pid`
    pub pid: Option<BString>,
    /// `lock_file`, accepted for old configurations
    pub lock_file: Option<BString>,
    /// `user`: name and group.
    pub user: Option<(BString, Option<BString>)>,
    /// Where `user` stands: accounts are looked up when everything is read.
    pub user_span: Option<Span>,
    /// `env`: names, or names with values.
    pub env: Vec<(BString, Option<BString>)>,
    /// `timer_resolution`, accepted: time is cached anyway.
    pub timer_resolution: Option<Duration>,
    /// `pcre_jit`, accepted: patterns are always compiled where possible.
    pub pcre_jit: Option<bool>,
    /// `thread_pool`: names with numbers of threads.
    pub thread_pools: Vec<(BString, u64)>,
    /// There is an `events` block. nginx wants one, which catches files that are empty or cut.
    pub has_events: bool,
    /// `error_log` of the top level.
    pub error_log: Option<Arc<ErrorLog>>,
    error_log_targets: Vec<(Level, Arc<LogFile>)>,
}

/// What the directives of `events` say.
#[derive(Debug, Default)]
pub struct EventsConf {
    /// `worker_connections`
    pub worker_connections: Option<u64>,
    /// `use`
    pub use_: Option<BString>,
    /// `multi_accept`
    pub multi_accept: Option<bool>,
    /// `accept_mutex`, accepted
    pub accept_mutex: Option<bool>,
    /// `accept_mutex_delay`, accepted
    pub accept_mutex_delay: Option<Duration>,
    /// `debug_connection`, accepted
    pub debug_connection: Vec<BString>,
    /// `worker_aio_requests`, accepted
    pub worker_aio_requests: Option<u64>,
    /// `park_after`
    pub park_after: Option<Duration>,
}

/// How long a connection waits for a head before it is parked: a busy client's next request comes sooner.
const PARK_AFTER: Duration = Duration::from_secs(1);

impl EventsConf {
    /// How many connections of clients a worker may have.
    pub fn connections_max(&self) -> usize {
        self.worker_connections.map_or(512, |count| usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// How many milliseconds a connection waits for a head before it is parked.
    pub(crate) fn park_after_ms(&self) -> u64 {
        u64::try_from(self.park_after.unwrap_or(PARK_AFTER).as_millis()).unwrap_or(u64::MAX)
    }
}

/// What nginx knows on Linux; here it is always the first.
const EVENT_METHODS: [&str; 3] = ["epoll", "poll", "select"];

const MAIN: Context = Context::MAIN;

/// The module of the top level.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("daemon", |c: &mut Conf| &mut c.daemon)
            .within(MAIN)
            .default("on")
            .doc("Goes to the background."),
        Directive::flag("master_process", |c: &mut Conf| &mut c.master_process)
            .within(MAIN)
            .default("on")
            .doc("Runs the server under a supervisor that restarts it."),
        Directive::custom("worker_processes", 1, 1, worker_processes)
            .within(MAIN)
            .syntax("number | auto")
            .default("1")
            .doc("Number of workers (threads with an event loop each) that serve."),
        Directive::custom("worker_cpu_affinity", 1, u16::MAX, |conf: &mut Conf, directive, _| {
            conf.worker_cpu_affinity = Some(directive.args.iter().map(|arg| arg.value.clone()).collect());
            Ok(())
        })
        .within(MAIN)
        .syntax("auto [mask] | mask ...")
        .doc("Binds workers to processors."),
        Directive::number("worker_rlimit_nofile", |c: &mut Conf| &mut c.worker_rlimit_nofile)
            .within(MAIN)
            .doc("Most files and connections that the server process may have open."),
        Directive::offset("worker_rlimit_core", |c: &mut Conf| &mut c.worker_rlimit_core)
            .within(MAIN)
            .doc("Largest size of a core file."),
        Directive::time("worker_shutdown_timeout", |c: &mut Conf| &mut c.worker_shutdown_timeout)
            .within(MAIN)
            .doc("Time that old requests have to finish after a reload or a graceful stop."),
        Directive::custom("worker_priority", 1, 1, |conf: &mut Conf, directive, _| {
            let text = directive.args[0].value.to_str_lossy();
            let error = || {
                let message = "\"worker_priority\" directive invalid number";
                Diagnostic::new(tidegate_conf::Level::Emerg, directive.args[0].span, message)
            };
            conf.worker_priority = Some(text.parse().map_err(|_| error())?);
            Ok(())
        })
        .within(MAIN)
        .syntax("number")
        .default("0")
        .doc("Scheduling priority, as nice(1) has it."),
        Directive::text("working_directory", |c: &mut Conf| &mut c.working_directory)
            .within(MAIN)
            .doc("Directory for core files."),
        Directive::text("pid", |c: &mut Conf| &mut c.pid)
            .within(MAIN)
            .default("logs/nginx.pid")
            .doc("File that holds the number of the supervisor process."),
        Directive::text("lock_file", |c: &mut Conf| &mut c.lock_file)
            .within(MAIN)
            .doc("Accepted for old configurations; locks need no file."),
        Directive::custom("user", 1, 2, |conf: &mut Conf, directive, _| {
            if conf.user.is_some() {
                return Err(duplicate(directive));
            }
            let group = directive.args.get(1).map(|arg| arg.value.clone());
            conf.user = Some((directive.args[0].value.clone(), group));
            conf.user_span = Some(directive.args[0].span);
            Ok(())
        })
        .within(MAIN)
        .syntax("user [group]")
        .default("nobody")
        .doc("User and group of the server process when the server is started by root."),
        Directive::custom("env", 1, 1, env)
            .within(MAIN)
            .syntax("variable[=value]")
            .doc("Keeps or sets an environment variable."),
        Directive::time("timer_resolution", |c: &mut Conf| &mut c.timer_resolution)
            .within(MAIN)
            .doc("Accepted: the time is read once for each turn of the event loop."),
        Directive::flag("pcre_jit", |c: &mut Conf| &mut c.pcre_jit)
            .within(MAIN)
            .doc("Accepted: regular expressions are compiled wherever possible."),
        Directive::custom("thread_pool", 2, 3, thread_pool)
            .within(MAIN)
            .syntax("name threads=number [max_queue=number]")
            .doc("Accepted, nothing to tune: threads for work that waits are started as needed."),
        Directive::custom("load_module", 1, 1, |_, directive, build| {
            let module = &directive.args[0];
            let mut message = format!("\"{}\" is not loaded: its features are built in", module.value);
            if !build.full_path(module.value.as_bstr()).exists() {
                message += "; there is no such file either";
            }
            build.diagnostics.push(Diagnostic::new(tidegate_conf::Level::Notice, module.span, message));
            Ok(())
        })
        .within(MAIN)
        .syntax("file")
        .doc("Accepted: modules are built in."),
        Directive::custom("error_log", 1, 2, |conf: &mut Conf, directive, build| {
            conf.error_log_targets.push(error_log_target(directive, build)?);
            conf.error_log = Some(Arc::new(ErrorLog::new(conf.error_log_targets.clone())));
            Ok(())
        })
        .within(MAIN)
        .syntax("file | stderr | syslog:... | memory:size [level]")
        .default("logs/error.log error")
        .doc("File or other destination of the error log, and the lowest level that is written."),
        Directive::block("events", 0, 0, |conf: &mut Conf, directive, build| {
            if conf.has_events {
                return Err(duplicate(directive));
            }
            conf.has_events = true;
            let level = build.level();
            build.walk(level, Context::EVENTS, block_of(directive));
            Ok(())
        })
        .within(MAIN)
        .doc("Settings of the processing of connections."),
        Directive::block("http", 0, 0, |_, directive, build| {
            if build.http_level().is_some() {
                return Err(duplicate(directive));
            }
            let level = build.open_level(Context::HTTP, Some(build.level()), BString::default());
            build.walk(level, Context::HTTP, block_of(directive));
            Ok(())
        })
        .within(MAIN)
        .doc("The web server."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; error_log, pid, user);
    },
    example: "
        user www-data;
        worker_processes auto;
        error_log logs/error.log warn;
        pid logs/nginx.pid;
    ",
    ..Module::named("core")
};

/// The module of `events`.
pub static EVENTS: Module<EventsConf> = Module {
    directives: &[
        Directive::number("worker_connections", |c: &mut EventsConf| &mut c.worker_connections)
            .within(Context::EVENTS)
            .default("512")
            .doc("Most connections of clients that a worker may have; idle ones make room for new ones."),
        Directive::custom("use", 1, 1, |conf: &mut EventsConf, directive, _| {
            if conf.use_.is_some() {
                return Err(duplicate(directive));
            }
            let arg = &directive.args[0];
            if !EVENT_METHODS.iter().any(|method| arg.value == *method) {
                let message = format!("invalid event type \"{}\"", arg.value);
                return Err(Diagnostic::new(tidegate_conf::Level::Emerg, arg.span, message));
            }
            conf.use_ = Some(arg.value.clone());
            Ok(())
        })
        .syntax("method")
        .within(Context::EVENTS)
        .doc("Accepted: epoll is used."),
        Directive::flag("multi_accept", |c: &mut EventsConf| &mut c.multi_accept)
            .within(Context::EVENTS)
            .default("off")
            .doc("Accepted, nothing to tune: connections that wait are all accepted in one turn."),
        Directive::flag("accept_mutex", |c: &mut EventsConf| &mut c.accept_mutex)
            .within(Context::EVENTS)
            .doc("Accepted: workers need no turns."),
        Directive::time("accept_mutex_delay", |c: &mut EventsConf| &mut c.accept_mutex_delay)
            .within(Context::EVENTS)
            .doc("Accepted: workers need no turns."),
        Directive::custom("debug_connection", 1, 1, |conf: &mut EventsConf, directive, _| {
            conf.debug_connection.push(directive.args[0].value.clone());
            Ok(())
        })
        .within(Context::EVENTS)
        .syntax("address | CIDR | unix:")
        .doc("Accepted: the level of error_log applies to all connections."),
        Directive::number("worker_aio_requests", |c: &mut EventsConf| &mut c.worker_aio_requests)
            .within(Context::EVENTS)
            .doc("Accepted, nothing to tune: there is no such queue."),
        Directive::time("park_after", |c: &mut EventsConf| &mut c.park_after)
            .within(Context::EVENTS)
            .default("1s")
            .doc("A connection that has waited so long for a request gives up its buffers until bytes come; sooner in a crowd."),
    ],
    example: "
        events { worker_connections 4096; }
    ",
    ..Module::named("events")
};

/// The directives inside a block; the shape was checked before.
pub fn block_of(directive: &ast::Directive) -> &[ast::Directive] {
    match &directive.body {
        Body::Block(directives) => directives,
        _ => &[],
    }
}

/// A diagnostic for a directive whose first argument is bad.
pub fn bad_value(directive: &ast::Directive) -> Diagnostic {
    let arg = directive.args.first().unwrap_or(&directive.name);
    Diagnostic::invalid_value(directive.name(), arg.span)
}

/// Checks the levels of a `…_temp_path`: how many characters name each directory below the path.
///
/// # Errors
/// A level that is no number, or 0.
pub fn check_temp_levels(directive: &ast::Directive) -> Result<(), Diagnostic> {
    let is_level = |arg: &&ast::Arg| matches!(values::integer(arg.value.as_bstr()), Ok(1..));
    match directive.args[1..].iter().find(|arg| !is_level(arg)) {
        None => Ok(()),
        Some(arg) => Err(Diagnostic::invalid_value(directive.name(), arg.span)),
    }
}

/// A diagnostic for a directive that stands there already.
pub fn duplicate(directive: &ast::Directive) -> Diagnostic {
    Diagnostic::duplicate(&directive.name.value, directive.name.span)
}

fn worker_processes(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    if conf.worker_processes.is_some() {
        return Err(duplicate(directive));
    }
    let arg = &directive.args[0];
    conf.worker_processes = Some(if arg.value == "auto" {
        0
    } else {
        match values::integer(arg.value.as_bstr()) {
            Ok(number) if number > 0 => number,
            _ => return Err(bad_value(directive)),
        }
    });
    Ok(())
}

fn env(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let text = &directive.args[0].value;
    conf.env.push(match text.find_byte(b'=') {
        Some(at) => (text[..at].into(), Some(text[at + 1..].into())),
        None => (text.clone(), None),
    });
    Ok(())
}

fn thread_pool(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    let name = &directive.args[0];
    let emerg = |arg: &ast::Arg, message: String| Diagnostic::new(tidegate_conf::Level::Emerg, arg.span, message);
    if conf.thread_pools.iter().any(|(other, _)| *other == name.value) {
        return Err(emerg(name, format!("duplicate thread pool \"{}\"", name.value)));
    }
    let mut threads = None;
    for arg in &directive.args[1..] {
        let number = |prefix: &str| arg.value.strip_prefix(prefix.as_bytes()).map(|n| values::integer(n.as_bstr()));
        match (number("threads="), number("max_queue=")) {
            (Some(Ok(number @ 1..)), _) => threads = Some(number),
            (Some(_), _) => return Err(emerg(arg, format!("invalid threads value \"{}\"", arg.value))),
            (_, Some(Ok(_))) => {}
            _ => return Err(Diagnostic::invalid_parameter(&arg.value, arg.span, ["threads=", "max_queue="])),
        }
    }
    conf.thread_pools.push((directive.args[0].value.clone(), threads.unwrap_or(1)));
    Ok(())
}

/// Reads the arguments of an `error_log`.
///
/// # Errors
/// A bad destination or level.
pub fn error_log_target(
    directive: &ast::Directive,
    build: &mut Build<'_>,
) -> Result<(Level, Arc<LogFile>), Diagnostic> {
    let arg = &directive.args[0];
    let level = match directive.args.get(1) {
        None => Level::Error,
        Some(word) => Level::ALL.into_iter().find(|level| word.value == level.name()).ok_or_else(|| {
            Diagnostic::new(tidegate_conf::Level::Emerg, word.span, format!("invalid log level \"{}\"", word.value))
        })?,
    };
    let destination = Destination::parse_error_log(&arg.value.to_str_lossy(), &build.prefix)
        .map_err(|error| Diagnostic::new(tidegate_conf::Level::Emerg, arg.span, error.to_string()))?;
    Ok((level, LogFile::register(destination)))
}
