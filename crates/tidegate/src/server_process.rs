//! The server process: owns the workers, obeys the supervisor or, without one, signals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_core::conf::Config;
use tidegate_core::{files, spool};
use tidegate_modules::database;
use tidegate_net::generations::{Generations, Outcome};
use tidegate_net::listeners::{Provided, Purpose, Sockets};
use tidegate_net::log::{self, ErrorLog, Level, SysError, note};

use crate::channel::{SupervisorEnd, ToServer, ToSupervisor};
use crate::engine::{self, Loader};
use crate::pid_file::PidFile;
use crate::signals::{Received, Signals, wait};
use crate::stdio::{self, Starter};

/// Exit code after a start that failed, as nginx's.
pub(crate) const EXIT_FAILED: i32 = 1;

/// How long the process waits at its end for files of requests to be removed: a disk may hang.
const FILES_TIMEOUT: Duration = Duration::from_secs(1);

/// Who controls this process.
pub(crate) enum Link {
    /// A supervisor.
    Supervised(SupervisorEnd),
    /// A supervisor that is gone: nothing remains but to finish.
    Orphaned,
    /// Nobody (`master_process off`).
    Alone { pid_file: PidFile, starter: Option<Starter> },
}

/// What this process serves.
pub(crate) struct Served {
    pub(crate) config: Arc<Config>,
    pub(crate) sockets: Sockets,
}

struct Process<'a> {
    loader: &'a Loader,
    link: Link,
    generations: Generations,
    serving: Served,
    /// A reload whose workers are starting, and the error log to go back to if they cannot.
    pending: Option<(Served, Arc<ErrorLog>)>,
    /// Another one was asked for meanwhile.
    reload_again: bool,
    provided: Provided,
    provided_logs: Vec<(std::path::PathBuf, std::os::fd::OwnedFd)>,
    has_served: bool,
    /// Somebody asked for the end.
    ending: bool,
    exit: Option<i32>,
}

/// Serves until told to end. Returns the exit code.
pub(crate) fn run(loader: &Loader, served: Served, signals: &Signals, link: Link) -> i32 {
    let generations = log::start_writer().and_then(|()| Generations::new());
    let generations = match generations {
        Ok(generations) => generations,
        Err(error) => {
            note(Level::Emerg, format_args!("cannot start {}", SysError(&error)));
            return EXIT_FAILED;
        }
    };
    let mut process = Process {
        loader,
        link,
        generations,
        serving: served,
        pending: None,
        reload_again: false,
        provided: Provided::default(),
        provided_logs: Vec::new(),
        has_served: false,
        ending: false,
        exit: None,
    };
    process.start_first();
    while process.exit.is_none() {
        process.turn(signals);
    }
    process.finish()
}

impl Process<'_> {
    fn start_first(&mut self) {
        let workers = engine::workers(&self.serving.config);
        if let Err(error) = self.generations.start(workers, self.serving.sockets.clone()) {
            self.fail_start(&format!("cannot start worker threads {}", SysError(&error)));
        }
    }

    fn turn(&mut self, signals: &Signals) {
        let timeout = self.generations.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let mut fds = vec![signals.fd(), self.generations.fd()];
        if let Link::Supervised(end) = &self.link {
            fds.push(end.fd());
        }
        if let Err(error) = wait(&fds, timeout) {
            note(Level::Alert, format_args!("poll() failed {}", SysError(&error)));
        }
        while let Some(received) = signals.take() {
            self.obey_signal(received);
        }
        self.obey_supervisor();
        for outcome in self.generations.turn() {
            self.note_outcome(outcome);
        }
        if self.pending.is_none() && std::mem::take(&mut self.reload_again) {
            self.reload();
        }
    }

    fn obey_signal(&mut self, Received { signal, from }: Received) {
        let alone = matches!(self.link, Link::Alone { .. });
        let action = match signal {
            Signal::SIGTERM | Signal::SIGINT => ", exiting",
            Signal::SIGQUIT => ", shutting down",
            Signal::SIGHUP if alone => ", reconfiguring",
            Signal::SIGUSR1 => ", reopening logs",
            Signal::SIGCHLD | Signal::SIGALRM => "",
            _ => ", ignoring",
        };
        note(Level::Notice, format_args!("signal {} ({signal}) received from {from}{action}", signal as i32));
        match signal {
            Signal::SIGTERM | Signal::SIGINT => self.stop(),
            Signal::SIGQUIT => self.quit(),
            Signal::SIGHUP if alone => self.reload(),
            Signal::SIGUSR1 => self.reopen(),
            _ => {}
        }
    }

    fn obey_supervisor(&mut self) {
        loop {
            let Link::Supervised(end) = &self.link else { return };
            match end.take() {
                Ok(Some(ToServer::Quit)) => self.quit(),
                Ok(Some(ToServer::Stop)) => self.stop(),
                Ok(Some(ToServer::Reload)) => self.reload(),
                Ok(Some(ToServer::Reopen)) => self.reopen(),
                Ok(Some(ToServer::Socket(fd))) => {
                    if let Err(error) = self.provided.add(fd) {
                        note(Level::Alert, format_args!("a socket from the supervisor is none {}", SysError(&error)));
                    }
                }
                Ok(Some(ToServer::Log(path, fd))) => self.provided_logs.push((path, fd)),
                Ok(Some(ToServer::File(path, fd))) => files::provide(path, fd),
                Ok(None) => return,
                Err(_) => {
                    // Nobody could control this process any more, and its ports would stay taken.
                    note(Level::Alert, format_args!("the supervisor is gone, shutting down gracefully"));
                    self.link = Link::Orphaned;
                    self.quit();
                    return;
                }
            }
        }
    }

    fn quit(&mut self) {
        note(Level::Notice, format_args!("gracefully shutting down"));
        self.generations.quit();
        self.release_sockets();
    }

    fn stop(&mut self) {
        note(Level::Notice, format_args!("exiting"));
        self.generations.stop();
        self.release_sockets();
    }

    /// Closes our descriptors; the ports are free once the workers have closed theirs.
    fn release_sockets(&mut self) {
        self.ending = true;
        let pending = self.pending.take().map(|(pending, _)| pending.sockets);
        let sockets = std::mem::take(&mut self.serving.sockets);
        if matches!(self.link, Link::Alone { .. }) {
            for sockets in pending.iter().chain([&sockets]) {
                sockets.unlink_removed(&Sockets::default());
            }
        }
        if !self.generations.has_workers() {
            self.exit = Some(0);
        }
    }

    fn reopen(&mut self) {
        note(Level::Notice, format_args!("reopening logs"));
        let mut provided: std::collections::HashMap<_, _> = self.provided_logs.drain(..).collect();
        if let Err(errors) = log::reopen_with(&mut |path| provided.remove(path)) {
            for error in errors {
                note(Level::Emerg, format_args!("{error}"));
            }
        }
        stdio::stderr_follows_error_log();
    }

    fn reload(&mut self) {
        if self.ending {
            return;
        }
        if self.pending.is_some() {
            self.reload_again = true;
            return;
        }
        note(Level::Notice, format_args!("reconfiguring"));
        let mut provided = std::mem::take(&mut self.provided);
        for (path, fd) in self.provided_logs.drain(..) {
            log::provide(path, fd);
        }
        let prepared = self.prepare(&mut provided);
        log::withdraw_provided();
        files::withdraw_provided();
        let Some(next) = prepared else {
            self.tell(&ToSupervisor::Failed("the configuration cannot be loaded".to_owned()));
            return;
        };
        let previous_log = log::main();
        log::set_main(engine::error_log(&next.config, self.loader));
        let workers = engine::workers(&next.config);
        let started = self.generations.start(workers, next.sockets.clone());
        self.pending = Some((next, previous_log));
        if let Err(error) = started {
            self.fail_start(&format!("cannot start worker threads {}", SysError(&error)));
        }
    }

    /// Everything that a reload needs, or nothing after the reasons were logged.
    fn prepare(&self, provided: &mut Provided) -> Option<Served> {
        let config = self.loader.load().ok()?;
        engine::open_logs().ok()?;
        let count = engine::Settings::of(&config).worker_count;
        let specs = config.listen_specs();
        let sockets = Sockets::open(&specs, count, &self.serving.sockets, provided, Purpose::Serve).ok()?;
        Some(Served { config, sockets })
    }

    fn note_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Serving => {
                if let Some((next, _)) = self.pending.take() {
                    let previous = std::mem::replace(&mut self.serving, next);
                    self.after_reload(&previous);
                }
                if !std::mem::replace(&mut self.has_served, true) {
                    self.loader.interactive.set(false);
                    stdio::stderr_follows_error_log();
                    log::echo_to_stderr(None);
                }
                self.tell(&ToSupervisor::Serving);
            }
            Outcome::StartFailed(reason) => self.fail_start(&reason),
            Outcome::Finished => self.exit = Some(if self.ending || self.has_served { 0 } else { EXIT_FAILED }),
        }
    }

    fn after_reload(&mut self, previous: &Served) {
        stdio::stderr_follows_error_log();
        if let Link::Alone { pid_file, .. } = &mut self.link {
            previous.sockets.unlink_removed(&self.serving.sockets);
            let path = engine::Settings::of(&self.serving.config).pid;
            if let Err(reason) = pid_file.change(&path) {
                note(Level::Emerg, format_args!("{reason}"));
            }
        }
    }

    /// The new workers cannot start: back to the old ones, or to the shell.
    fn fail_start(&mut self, reason: &str) {
        if !reason.is_empty() {
            note(Level::Error, format_args!("{reason}"));
        }
        if let Some((failed, previous_log)) = self.pending.take() {
            log::set_main(previous_log);
            if matches!(self.link, Link::Alone { .. }) {
                failed.sockets.unlink_removed(&self.serving.sockets);
            }
        }
        self.tell(&ToSupervisor::Failed(reason.to_owned()));
        if !self.generations.is_serving() && !self.has_served {
            self.exit = Some(EXIT_FAILED);
        }
    }

    /// Reports to whoever waits for news.
    fn tell(&mut self, message: &ToSupervisor) {
        match &mut self.link {
            Link::Supervised(end) => {
                // A supervisor that is gone is noticed by the loop.
                let _ = end.send(message);
            }
            Link::Alone { starter, .. } => {
                if *message == ToSupervisor::Serving
                    && let Some(starter) = starter.take()
                {
                    starter.report_running();
                }
            }
            Link::Orphaned => {}
        }
    }

    /// The last steps, in nginx's order except for the pid file: when it is gone, so is everything else.
    fn finish(self) -> i32 {
        let Self { link, generations, serving, exit, .. } = self;
        drop(generations);
        spool::settle_files(FILES_TIMEOUT);
        database::leave();
        let code = exit.unwrap_or(0);
        if let Link::Alone { pid_file, .. } = link {
            serving.sockets.unlink_removed(&Sockets::default());
            drop(serving.sockets);
            note(Level::Notice, format_args!("exit"));
            log::flush();
            pid_file.remove();
        } else {
            note(Level::Notice, format_args!("exit"));
            log::flush();
        }
        code
    }
}
