//! From the command line to a running server, to a tested configuration or to a signal that was sent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidegate_core::conf::Config;
use tidegate_core::product::{product, set_configure_arguments, set_product};
use tidegate_net::listeners::{Provided, Purpose, Sockets};
use tidegate_net::log::{self, Destination, ErrorLog, Level, LogFile, SysError, note};

use crate::cli::{self, Options, SignalName};
use crate::engine::{self, Loader, Settings};
use crate::identity::Identity;
use crate::pid_file::{self, PidFile};
use crate::server_process::{self, EXIT_FAILED, Link, Served};
use crate::signals::Signals;
use crate::stdio::{self, Daemonized, Starter};
use crate::{configure, privileges, supervisor, upgrade};

/// Does what the options say. Returns the exit code.
pub(crate) fn run(options: Options, identity: Identity) -> i32 {
    // SAFETY: nothing before this point of the program starts a thread.
    let inherited = unsafe { upgrade::take_variable() };
    if inherited.is_some() {
        tidegate_net::generations::set_replaces_another();
    }
    log::echo_to_stderr(Some(identity.name()));
    set_product(identity.product());
    set_configure_arguments(|| configure::arguments(engine::registry()));
    let loader = match loader(&options, identity) {
        Ok(loader) => loader,
        Err(reason) => {
            note(Level::Emerg, format_args!("{reason}"));
            return EXIT_FAILED;
        }
    };
    let config = match loader.load() {
        Ok(config) => config,
        Err(engine::BadConfiguration) => {
            if !loader.conf_path.exists() {
                eprintln!("{}: {}", identity.name(), missing_configuration(&options, &loader.prefix));
            }
            if options.test {
                eprintln!("{}: configuration file {} test failed", identity.name(), loader.conf_path.display());
            }
            return EXIT_FAILED;
        }
    };
    if let Some(signal) = options.signal {
        return send(signal, &Settings::of(&config).pid);
    }
    if options.test {
        return test(&options, &loader, &config);
    }
    match prepare(&loader, config, inherited) {
        Ok(prepared) => serve(&loader, prepared),
        Err(engine::BadConfiguration) => EXIT_FAILED,
    }
}

/// Reads the configuration that the options name, and nothing else.
///
/// # Errors
/// After the reasons were printed.
pub(crate) fn load(options: &Options, identity: Identity) -> Result<Arc<Config>, engine::BadConfiguration> {
    log::echo_to_stderr(Some(identity.name()));
    let loader = loader(options, identity).map_err(|reason| {
        note(Level::Emerg, format_args!("{reason}"));
        engine::BadConfiguration
    })?;
    loader.load()
}

/// What to do about a configuration that is not there.
fn missing_configuration(options: &Options, prefix: &Path) -> String {
    match (&options.conf, &options.prefix) {
        (None, None) => {
            format!("name a configuration with -c FILE, or with -p DIR a directory that has {}", cli::CONF_PATH)
        }
        (Some(conf), None) if conf.is_relative() && conf.exists() => {
            format!("relative paths start at {}; with \"-p .\" they start here", prefix.display())
        }
        _ => format!("relative paths start at {}", prefix.display()),
    }
}

/// Finds prefix, files and the error log that is used until the configuration names one.
fn loader(options: &Options, identity: Identity) -> Result<Loader, String> {
    let here = std::env::current_dir().map_err(|error| format!("getcwd() failed {}", SysError(&error)))?;
    let Places { prefix, conf_path } = Places::find(options, identity, &here);
    let globals = options.globals.as_ref().map(|globals| globals.to_string_lossy().into_owned());
    let error_log = first_error_log(options, &prefix);
    log::set_main(Arc::clone(&error_log));
    Ok(Loader {
        identity,
        prefix,
        conf_path,
        text: None,
        globals,
        testing: options.test,
        interactive: std::cell::Cell::new(true),
        error_log,
    })
}

/// Where relative paths start, and where the configuration is.
struct Places {
    prefix: PathBuf,
    conf_path: PathBuf,
}

impl Places {
    /// As nginx, with one addition: a configuration that `-c` names, without `-p`, on a machine where the built-in prefix
    /// is not there to write to (nothing is installed, or by somebody else), has its own directory as the prefix.
    fn find(options: &Options, identity: Identity, here: &Path) -> Self {
        let built_in = Path::new(cli::PREFIX);
        if let (None, Some(conf), Identity::Tidegate) = (&options.prefix, &options.conf, identity)
            && !is_usable_prefix(built_in)
        {
            let conf_path = here.join(conf);
            if !conf_path.starts_with(built_in)
                && let Some(directory) = conf_path.parent()
            {
                return Self { prefix: with_slash(directory), conf_path };
            }
        }
        let prefix = with_slash(&here.join(options.prefix.as_deref().unwrap_or(built_in)));
        let conf_path = prefix.join(options.conf.as_deref().unwrap_or(Path::new(cli::CONF_PATH)));
        Self { prefix, conf_path }
    }
}

/// Whether logs and the like can be put into the prefix.
fn is_usable_prefix(prefix: &Path) -> bool {
    prefix.is_dir() && nix::unistd::access(prefix, nix::unistd::AccessFlags::W_OK).is_ok()
}

/// The trailing slash is part of what `ngx.config.prefix()` shows.
fn with_slash(path: &Path) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    if !text.as_encoded_bytes().ends_with(b"/") {
        text.push("/");
    }
    text.into()
}

/// The log of `-e`, or the built-in one; the terminal if it cannot be opened.
fn first_error_log(options: &Options, prefix: &Path) -> Arc<ErrorLog> {
    let text = match &options.error_log {
        Some(path) => path.to_string_lossy().into_owned(),
        None => {
            // A first server in a directory of its own should not need `mkdir` first. A missing prefix is a mistake.
            if let Some(logs) = prefix.join(cli::ERROR_LOG_PATH).parent() {
                let _ = std::fs::create_dir(logs);
            }
            cli::ERROR_LOG_PATH.to_owned()
        }
    };
    let opened = Destination::parse(&text, prefix).map_err(|error| error.to_string()).and_then(|destination| {
        let file = LogFile::register(destination);
        file.open().map(|()| file).map_err(|error| error.to_string())
    });
    // nginx logs at this level until the configuration says otherwise.
    let level = Level::Notice;
    match opened {
        Ok(file) => Arc::new(ErrorLog::new(vec![(level, file)])),
        Err(reason) => {
            let stderr = LogFile::register(Destination::Stderr);
            log::set_main(Arc::new(ErrorLog::new(vec![(level, Arc::clone(&stderr))])));
            note(Level::Alert, format_args!("could not open error log file: {reason}"));
            Arc::new(ErrorLog::new(vec![(Level::Warn, stderr)]))
        }
    }
}

/// `-s`: sends a signal to the process of the pid file.
fn send(signal: SignalName, path: &Path) -> i32 {
    let signal = match signal {
        SignalName::Stop => Signal::SIGTERM,
        SignalName::Quit => Signal::SIGQUIT,
        SignalName::Reopen => Signal::SIGUSR1,
        SignalName::Reload => Signal::SIGHUP,
    };
    let pid = match pid_file::read(path) {
        Ok(pid) => pid,
        Err(reason) => {
            note(Level::Error, format_args!("{reason}"));
            return EXIT_FAILED;
        }
    };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => 0,
        Err(error) => {
            let number = signal as i32;
            note(Level::Alert, format_args!("kill({pid}, {number}) failed {}", SysError(&error.into())));
            EXIT_FAILED
        }
    }
}

/// `-t` and `-T`.
fn test(options: &Options, loader: &Loader, config: &Arc<Config>) -> i32 {
    let (name, path) = (loader.identity.name(), loader.conf_path.display());
    if !options.quiet {
        eprintln!("{name}: the configuration file {path} syntax is ok");
    }
    let specs = config.listen_specs();
    let tested = Sockets::open(&specs, 1, &Sockets::default(), &mut Provided::default(), Purpose::Test);
    if engine::open_logs().is_err() || tested.is_err() {
        eprintln!("{name}: configuration file {path} test failed");
        return EXIT_FAILED;
    }
    if !options.quiet {
        eprintln!("{name}: configuration file {path} test is successful");
    }
    if options.dump {
        let mut out = std::io::stdout().lock();
        // Whoever closed the pipe has read enough.
        let _ = tidegate_conf::dump(&config.sources, &mut out).and_then(|()| out.flush());
    }
    0
}

/// A configuration with its sockets open.
struct Prepared {
    served: Served,
    /// The old binary started us: it is in the background already.
    is_upgrade: bool,
}

fn prepare(
    loader: &Loader,
    config: Arc<Config>,
    inherited: Option<String>,
) -> Result<Prepared, engine::BadConfiguration> {
    let is_upgrade = inherited.is_some();
    engine::open_logs()?;
    log::set_main(engine::error_log(&config, loader));
    let mut inherited = inherited.map_or_else(Provided::default, |variable| Provided::inherit(&variable));
    let count = Settings::of(&config).worker_count;
    let specs = config.listen_specs();
    let sockets = Sockets::open(&specs, count, &Sockets::default(), &mut inherited, Purpose::Serve)
        .map_err(|_| engine::BadConfiguration)?;
    Ok(Prepared { served: Served { config, sockets }, is_upgrade })
}

fn serve(loader: &Loader, prepared: Prepared) -> i32 {
    let Prepared { served, is_upgrade } = prepared;
    let settings = Settings::of(&served.config);
    note_system();
    if settings.master_process && engine::prepare_directories(&served.config).is_err() {
        return EXIT_FAILED;
    }
    let starter = if settings.daemon && !is_upgrade {
        match stdio::daemonize() {
            Ok(Daemonized::Background(starter)) => Some(starter),
            Ok(Daemonized::Command(code)) => return i32::from(code),
            Err(error) => {
                note(Level::Emerg, format_args!("cannot go to the background {}", SysError(&error)));
                return EXIT_FAILED;
            }
        }
    } else {
        None
    };
    let code = run_processes(loader, served, &settings, starter);
    log::flush();
    code
}

fn run_processes(loader: &Loader, served: Served, settings: &Settings, starter: Option<Starter>) -> i32 {
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            note(Level::Emerg, format_args!("cannot listen to signals {}", SysError(&error)));
            return EXIT_FAILED;
        }
    };
    let pid_file = match PidFile::create(&settings.pid) {
        Ok(pid_file) => pid_file,
        Err(reason) => {
            note(Level::Emerg, format_args!("{reason}"));
            return EXIT_FAILED;
        }
    };
    if settings.master_process {
        return supervisor::run(loader, served, signals, pid_file, starter);
    }
    // As in nginx, a process without a supervisor keeps its user.
    privileges::apply_limits(settings);
    // SAFETY: the first threads are those that `server_process::run` starts.
    unsafe { privileges::limit_environment(&settings.env) };
    server_process::run(loader, served, &signals, Link::Alone { pid_file, starter })
}

/// What nginx notes at every start.
fn note_system() {
    note(Level::Notice, format_args!("using the \"epoll\" event method"));
    note(Level::Notice, format_args!("{}", product().name_and_version));
    if let Ok(system) = nix::sys::utsname::uname() {
        let (name, release) = (system.sysname().to_string_lossy(), system.release().to_string_lossy());
        note(Level::Notice, format_args!("OS: {name} {release}"));
    }
    if let Some((soft, hard)) = privileges::file_limits() {
        note(Level::Notice, format_args!("getrlimit(RLIMIT_NOFILE): {soft}:{hard}"));
    }
}
