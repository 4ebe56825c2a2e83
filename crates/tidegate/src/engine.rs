//! Where the binary meets the engine: loading a configuration and what the processes need to know of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bstr::ByteSlice;
use tidegate_conf::{Diagnostics, SourceMap};
use tidegate_core::conf::{self, Config, LoadOptions};
use tidegate_core::http_core;
use tidegate_core::registry::Registry;
use tidegate_core::worker;
use tidegate_net::generations::Workers;
use tidegate_net::generations::affinity::CpuSet;
use tidegate_net::log::{self, ErrorLog, Level, note};
use tidegate_net::memory;

use crate::identity::Identity;
use crate::privileges::{self, Account, to_path};

/// Pid file of a configuration that names none.
const PID_PATH: &str = "logs/nginx.pid";

/// The configuration is bad; the log says why.
#[derive(Debug)]
pub(crate) struct BadConfiguration;

/// Loads the configuration, at the start and at every reload.
#[derive(Debug)]
pub(crate) struct Loader {
    pub(crate) identity: Identity,
    pub(crate) prefix: PathBuf,
    pub(crate) conf_path: PathBuf,
    /// The configuration itself, in the place of the file's content.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) globals: Option<String>,
    pub(crate) testing: bool,
    /// Whether a person at a terminal reads the problems.
    pub(crate) interactive: std::cell::Cell<bool>,
    /// The error log of a configuration that names none (`-e`).
    pub(crate) error_log: Arc<ErrorLog>,
}

/// All modules that this binary was built with.
pub(crate) fn registry() -> &'static Registry {
    Registry::install(&[tidegate_modules::MODULES, tidegate_lua::MODULES, tidegate_modules::FILTERS])
}

impl Loader {
    /// Reads and checks the configuration. Problems go to the error log in nginx's words, and to a person with the
    /// lines that they are in.
    ///
    /// # Errors
    /// [`BadConfiguration`] after every problem was logged.
    pub(crate) fn load(&self) -> Result<Arc<Config>, BadConfiguration> {
        let options = LoadOptions {
            prefix: self.prefix.clone(),
            conf_path: self.conf_path.clone(),
            text: self.text.clone(),
            globals: self.globals.clone(),
            testing: self.testing,
            registry: registry(),
        };
        match conf::load(&options) {
            Ok(config) => {
                for (level, warning) in &config.warnings {
                    note(level_of(*level), format_args!("{warning}"));
                }
                self.check(&config)?;
                // The syntax tree of a long configuration was larger than what is left of it.
                memory::collect();
                Ok(config)
            }
            Err(error) => {
                self.report(&error.diagnostics, &error.sources);
                Err(BadConfiguration)
            }
        }
    }

    /// What only the process can tell.
    fn check(&self, config: &Config) -> Result<(), BadConfiguration> {
        if !config.main().has_events {
            note(Level::Emerg, format_args!("no \"events\" section in configuration"));
            return Err(BadConfiguration);
        }
        let settings = Settings::of(config);
        if settings.user.is_some() && !Account::can_change() {
            note(
                Level::Warn,
                format_args!(
                    "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored"
                ),
            );
        }
        let (connections, sockets) = (config.events().connections_max(), config.listens.len() + config.services.len());
        if connections < sockets + 1 {
            let message = format!("{connections} worker_connections are not enough for {sockets} listening sockets");
            note(Level::Emerg, format_args!("{message}"));
            return Err(BadConfiguration);
        }
        warn_of_few_files(config, &settings);
        if let Err(reason) = Account::find(settings.user.as_ref()) {
            let mut diagnostics = Diagnostics::new();
            diagnostics.error(config.main().user_span, reason);
            self.report(&diagnostics, &config.sources);
            return Err(BadConfiguration);
        }
        affinity(config, settings.worker_count).map(drop).map_err(|reason| {
            note(Level::Emerg, format_args!("{reason}"));
            BadConfiguration
        })
    }

    fn report(&self, diagnostics: &Diagnostics, sources: &SourceMap) {
        if self.interactive.get() {
            log::echo_to_stderr(None);
        }
        let main = log::main();
        let on_stderr = main.targets().iter().any(|(_, file)| file.is_stderr());
        for problem in diagnostics {
            note(level_of(problem.level), format_args!("{}", problem.one_line(sources)));
            // What a configuration merely notes is not why it was refused.
            if !self.interactive.get() || problem.level == tidegate_conf::Level::Notice {
                continue;
            }
            let shown = problem.render(sources);
            let (head, excerpt) = shown.split_once('\n').unwrap_or((&shown, ""));
            let name = self.identity.name();
            match self.identity {
                // The log has just written the sentence to the same place.
                _ if on_stderr => eprint!("{excerpt}"),
                Identity::Tidegate => eprint!("{name}: {head}\n{excerpt}"),
                // Scripts compare what nginx prints, which has no column.
                Identity::Nginx => {
                    let level = problem.level.as_str();
                    eprint!("{name}: [{level}] {}\n{excerpt}", problem.one_line(sources));
                }
            }
        }
        log::echo_to_stderr(Some(self.identity.name()));
    }
}

fn level_of(level: tidegate_conf::Level) -> Level {
    match level {
        tidegate_conf::Level::Emerg => Level::Emerg,
        tidegate_conf::Level::Alert => Level::Alert,
        tidegate_conf::Level::Warn => Level::Warn,
        tidegate_conf::Level::Notice => Level::Notice,
    }
}

/// What the directives of the top level mean for processes, with nginx's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) daemon: bool,
    pub(crate) master_process: bool,
    pub(crate) pid: PathBuf,
    pub(crate) user: Option<(String, Option<String>)>,
    pub(crate) worker_count: usize,
    pub(crate) rlimit_nofile: Option<u64>,
    pub(crate) rlimit_core: Option<u64>,
    pub(crate) priority: Option<i32>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
}

impl Settings {
    pub(crate) fn of(config: &Config) -> Self {
        let main = config.main();
        let text = |bytes: &[u8]| bytes.to_str_lossy().into_owned();
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let user = main.user.as_ref();
        let pid = main.pid.as_deref().map_or(PID_PATH.as_bytes(), |pid| pid.as_bytes());
        Self {
            daemon: main.daemon.unwrap_or(true),
            master_process: main.master_process.unwrap_or(true),
            pid: config.full_path(pid),
            user: user.map(|(name, group)| (text(name), group.as_ref().map(|group| text(group)))),
            worker_count: worker_count(main.worker_processes),
            rlimit_nofile: main.worker_rlimit_nofile,
            rlimit_core: main.worker_rlimit_core,
            priority: main.worker_priority,
            working_directory: main.working_directory.as_deref().map(|path| to_path(path)),
            env: main.env.iter().map(|(name, value)| (os(name), value.as_ref().map(|value| os(value)))).collect(),
        }
    }
}

/// `worker_processes`: 1 by default, `auto` (0) for one on each processor that we may use.
fn worker_count(configured: Option<u64>) -> usize {
    match configured {
        None => 1,
        Some(0) => CpuSet::allowed().count().max(1),
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

fn affinity(config: &Config, worker_count: usize) -> Result<Vec<CpuSet>, String> {
    let masks = config.main().worker_cpu_affinity.as_deref().unwrap_or_default();
    let masks: Vec<_> = masks.iter().map(|mask| mask.to_str_lossy()).collect();
    let masks: Vec<_> = masks.iter().map(|mask| &**mask).collect();
    CpuSet::parse_all(&masks, worker_count)
}

/// Connections that the process could not have anyway are worth a word.
fn warn_of_few_files(config: &Config, settings: &Settings) {
    let limit = settings.rlimit_nofile.or_else(|| privileges::file_limits().map(|(_, hard)| hard));
    let count = config.events().connections_max();
    // Workers are threads: they share the limit.
    if let Some(limit) = limit
        && count.saturating_mul(settings.worker_count) as u64 > limit
    {
        note(Level::Warn, format_args!("{count} worker_connections exceed open file resource limit: {limit}"));
    }
}

/// The workers of a configuration.
pub(crate) fn workers(config: &Arc<Config>) -> Workers {
    let count = Settings::of(config).worker_count;
    // Checked when the configuration was loaded.
    let affinity = affinity(config, count).unwrap_or_default();
    let shutdown_timeout = config.main().worker_shutdown_timeout.filter(|timeout| *timeout > Duration::ZERO);
    Workers { body: worker::body(Arc::clone(config)), count, affinity, shutdown_timeout }
}

/// Makes the directories that workers write to theirs.
///
/// # Errors
/// [`BadConfiguration`] after the reason was logged.
pub(crate) fn prepare_directories(config: &Config) -> Result<(), BadConfiguration> {
    let settings = Settings::of(config);
    let default = config.full_path(config.http_conf(&http_core::MODULE).client_body_temp_path());
    let paths = config.temp_paths.iter().chain(config.http.is_some().then_some(&default));
    let account = Account::find(settings.user.as_ref());
    let prepared = account.and_then(|account| {
        let Some(account) = account else { return Ok(()) };
        for path in &config.data_paths {
            // Who needs the directory says so when it cannot be used.
            let _ = account.prepare_directories(std::iter::once(path.as_path()));
        }
        account.prepare_directories(paths.map(PathBuf::as_path))
    });
    prepared.map_err(|reason| {
        note(Level::Emerg, format_args!("{reason}"));
        BadConfiguration
    })
}

/// The error log of the process under a configuration.
pub(crate) fn error_log(config: &Config, loader: &Loader) -> Arc<ErrorLog> {
    let Some(configured) = &config.main().error_log else { return loader.error_log.clone() };
    if configured.has_file() {
        return configured.clone();
    }
    // Without a file among its targets errors go to the default one as well: a syslog server may be away.
    // Source: nginx, `ngx_log_open_default`.
    let default = loader.error_log.targets().iter().map(|(_, target)| (Level::Error, target.clone()));
    Arc::new(ErrorLog::new(configured.targets().iter().cloned().chain(default).collect()))
}

/// Opens the log files that a configuration names.
///
/// # Errors
/// [`BadConfiguration`] after every file that cannot be opened was logged.
pub(crate) fn open_logs() -> Result<(), BadConfiguration> {
    log::open_registered().map_err(|errors| {
        for error in errors {
            note(Level::Emerg, format_args!("{error}"));
        }
        BadConfiguration
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_and_variable_is_documented_and_unique() {
        assert_eq!(registry().problems(), Vec::<String>::new());
    }
}
