//! The supervisor: holds pid file and sockets, keeps a server process alive, passes signals on.
//!
//! One thread, one loop. It reads the configuration only to know that it can be read, what to listen on and which
//! logs to open; requests never reach it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use tidegate_core::files;
use tidegate_net::listeners::{Provided, Purpose, Sockets};
use tidegate_net::log::{self, Level, SysError, note};

use crate::channel::{Channel, ServerEnd, SupervisorEnd, ToSupervisor};
use crate::engine::{self, Loader, Settings};
use crate::pid_file::PidFile;
use crate::privileges::{self, Account};
use crate::server_process::{self, EXIT_FAILED, Link, Served};
use crate::signals::{Received, Signals, wait};
use crate::stdio::{self, Starter};
use crate::upgrade;

/// A server process that dies at once is started again after this time; one that lived longer, at once.
const RESPAWN_PAUSE: Duration = Duration::from_secs(1);

/// How long the server process may take to end after TERM until it is killed, as in nginx.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);

struct Child {
    pid: Pid,
    end: ServerEnd,
    started: Instant,
}

/// How the supervisor is coming to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Graceful,
    /// The server process is killed at this time.
    Fast(Instant),
    Killed,
}

struct Supervisor<'a> {
    loader: &'a Loader,
    signals: Signals,
    serving: Served,
    /// A reload that the server process is working on; there is one at a time.
    pending: Option<Served>,
    /// Another one was asked for meanwhile.
    reload_again: bool,
    pid_file: PidFile,
    starter: Option<Starter>,
    has_served: bool,
    child: Option<Child>,
    /// Server processes that were told to go while the supervisor stays (WINCH).
    resting: bool,
    respawn_at: Option<Instant>,
    ending: Option<Ending>,
    new_binary: Option<Pid>,
    exit: Option<i32>,
}

/// Supervises until told to end. Returns the exit code.
pub(crate) fn run(
    loader: &Loader,
    served: Served,
    signals: Signals,
    pid_file: PidFile,
    starter: Option<Starter>,
) -> i32 {
    let mut supervisor = Supervisor {
        loader,
        signals,
        serving: served,
        pending: None,
        reload_again: false,
        pid_file,
        starter,
        has_served: false,
        child: None,
        resting: false,
        respawn_at: None,
        ending: None,
        new_binary: None,
        exit: None,
    };
    note(Level::Notice, format_args!("start worker processes"));
    supervisor.spawn();
    while supervisor.exit.is_none() {
        supervisor.turn();
    }
    supervisor.finish()
}

impl Supervisor<'_> {
    fn turn(&mut self) {
        let kill_at = match self.ending {
            Some(Ending::Fast(at)) => Some(at),
            _ => None,
        };
        let deadline = [self.respawn_at, kill_at].into_iter().flatten().min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.child.iter().map(|child| child.end.fd()));
        if let Err(error) = wait(&fds, timeout) {
            note(Level::Alert, format_args!("poll() failed {}", SysError(&error)));
        }
        // Messages first: a server process may report and end in one breath.
        self.hear_child();
        while let Some(received) = self.signals.take() {
            self.obey(received);
        }
        self.do_what_is_due();
        if self.pending.is_none() && std::mem::take(&mut self.reload_again) {
            self.reload();
        }
    }

    fn obey(&mut self, Received { signal, from }: Received) {
        let action = match signal {
            Signal::SIGTERM | Signal::SIGINT => ", exiting",
            Signal::SIGQUIT => ", shutting down",
            Signal::SIGWINCH => ", graceful shutdown of the server process",
            Signal::SIGHUP => ", reconfiguring",
            Signal::SIGUSR1 => ", reopening logs",
            Signal::SIGUSR2 => ", changing binary",
            _ => "",
        };
        note(Level::Notice, format_args!("signal {} ({signal}) received from {from}{action}", signal as i32));
        match signal {
            Signal::SIGTERM | Signal::SIGINT => self.stop(),
            Signal::SIGQUIT => self.quit(),
            Signal::SIGWINCH => self.rest(),
            Signal::SIGHUP => self.reload(),
            Signal::SIGUSR1 => self.reopen(),
            Signal::SIGUSR2 => self.upgrade(),
            Signal::SIGCHLD => self.reap(),
            _ => {}
        }
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.respawn_at.is_some_and(|at| at <= now) {
            self.respawn_at = None;
            self.spawn();
        }
        if let (Some(Ending::Fast(at)), Some(child)) = (self.ending, &self.child)
            && at <= now
        {
            note(Level::Alert, format_args!("worker process {} does not stop, killing it", child.pid));
            let _ = kill(child.pid, Signal::SIGKILL);
            self.ending = Some(Ending::Killed);
        }
    }

    /// Starts the server process.
    fn spawn(&mut self) {
        let (ours, theirs) = match Channel::pair() {
            Ok(pair) => pair,
            Err(error) => return self.spawn_failed("socketpair()", &error),
        };
        // A signal between the fork and the child's own handlers would be taken for one to the supervisor.
        let all = SigSet::all();
        let mut before = SigSet::empty();
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&all), Some(&mut before));
        // SAFETY: the supervisor has one thread, so the child finds everything as it was.
        let forked = unsafe { fork() };
        match forked {
            Ok(ForkResult::Child) => {
                drop(ours);
                let code = self.become_server(SupervisorEnd(theirs), &before);
                std::process::exit(code);
            }
            Ok(ForkResult::Parent { child: pid }) => {
                let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
                note(Level::Notice, format_args!("start worker process {pid}"));
                self.child = Some(Child { pid, end: ServerEnd(ours), started: Instant::now() });
            }
            Err(error) => {
                let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
                self.spawn_failed("fork()", &error.into());
            }
        }
    }

    fn spawn_failed(&mut self, call: &str, error: &io::Error) {
        note(Level::Alert, format_args!("{call} failed while spawning the worker process {}", SysError(error)));
        if self.has_served {
            self.respawn_at = Some(Instant::now() + RESPAWN_PAUSE);
        } else {
            self.exit = Some(EXIT_FAILED);
        }
    }

    /// The child's side of the fork. Returns its exit code.
    fn become_server(&mut self, end: SupervisorEnd, signal_mask: &SigSet) -> i32 {
        log::after_fork();
        // The command that was typed must see the supervisor's end of its pipe close, not this copy.
        drop(self.starter.take());
        let settings = Settings::of(&self.serving.config);
        let signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => {
                note(Level::Emerg, format_args!("cannot listen to signals {}", SysError(&error)));
                return EXIT_FAILED;
            }
        };
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(signal_mask), None);
        // Checked when the configuration was loaded.
        let account = Account::find(settings.user.as_ref()).unwrap_or(None);
        // SAFETY: fork(2) leaves this process the calling thread alone; the next are those that `server_process::run` starts.
        unsafe { privileges::limit_environment(&settings.env) };
        if let Err(reason) = privileges::apply(&settings, account.as_ref()) {
            note(Level::Emerg, format_args!("{reason}"));
            return EXIT_FAILED;
        }
        // No copy may stay here: a port is free only when its last descriptor is closed.
        let sockets = std::mem::take(&mut self.serving.sockets);
        let served = Served { config: Arc::clone(&self.serving.config), sockets };
        server_process::run(self.loader, served, &signals, Link::Supervised(end))
    }

    fn hear_child(&mut self) {
        loop {
            let Some(child) = &self.child else { return };
            match child.end.take() {
                Ok(Some(ToSupervisor::Serving)) => self.child_serves(),
                Ok(Some(ToSupervisor::Failed(_))) => {
                    if let Some(failed) = self.pending.take() {
                        failed.sockets.unlink_removed(&self.serving.sockets);
                    }
                }
                // Its end is told by SIGCHLD.
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn child_serves(&mut self) {
        if let Some(next) = self.pending.take() {
            let previous = std::mem::replace(&mut self.serving, next);
            previous.sockets.unlink_removed(&self.serving.sockets);
            log::set_main(engine::error_log(&self.serving.config, self.loader));
            stdio::stderr_follows_error_log();
            if let Err(reason) = self.pid_file.change(&Settings::of(&self.serving.config).pid) {
                note(Level::Emerg, format_args!("{reason}"));
            }
        }
        if !std::mem::replace(&mut self.has_served, true) {
            self.loader.interactive.set(false);
            stdio::stderr_follows_error_log();
            log::echo_to_stderr(None);
            if let Some(starter) = self.starter.take() {
                starter.report_running();
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            let pid = match status {
                WaitStatus::Exited(pid, code) => {
                    note(Level::Notice, format_args!("worker process {pid} exited with code {code}"));
                    pid
                }
                WaitStatus::Signaled(pid, signal, core) => {
                    let core = if core { " (core dumped)" } else { "" };
                    note(Level::Alert, format_args!("worker process {pid} exited on signal {}{core}", signal as i32));
                    pid
                }
                WaitStatus::StillAlive => return,
                _ => continue,
            };
            if self.new_binary == Some(pid) {
                self.new_binary = None;
                self.pid_file.move_back();
            }
            if self.child.as_ref().is_some_and(|child| child.pid == pid) {
                // What it said last decides what its end means.
                self.hear_child();
                self.child_ended();
            }
        }
    }

    fn child_ended(&mut self) {
        let Some(child) = self.child.take() else { return };
        // Whether the new configuration was to blame is not known; the old one is known to work.
        if let Some(failed) = self.pending.take() {
            failed.sockets.unlink_removed(&self.serving.sockets);
        }
        if self.ending.is_some() {
            self.exit = Some(0);
        } else if !self.has_served {
            self.exit = Some(EXIT_FAILED);
        } else if !self.resting {
            self.respawn_at = Some((child.started + RESPAWN_PAUSE).max(Instant::now()));
        }
    }

    fn quit(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(Ending::Graceful);
            self.end(|child| child.end.quit());
        }
    }

    fn stop(&mut self) {
        if !matches!(self.ending, Some(Ending::Fast(_) | Ending::Killed)) {
            self.ending = Some(Ending::Fast(Instant::now() + STOP_WAIT_MAX));
            self.end(|child| child.end.stop());
        }
    }

    fn end(&mut self, tell: impl FnOnce(&Child) -> io::Result<()>) {
        self.respawn_at = None;
        // Files go now, like ports; nginx does the same. A binary that took over uses them.
        if self.new_binary.is_none() && !upgrade::predecessor_lives() {
            for served in self.pending.iter().chain([&self.serving]) {
                served.sockets.unlink_removed(&Sockets::default());
            }
        }
        self.pending = None;
        self.serving.sockets = Sockets::default();
        match &self.child {
            // One that cannot be told has ended; SIGCHLD is on its way.
            Some(child) => drop(tell(child)),
            None => self.exit = Some(0),
        }
    }

    /// Lets the server process go and stays: the old binary's part in an upgrade.
    fn rest(&mut self) {
        self.resting = true;
        self.respawn_at = None;
        if let Some(child) = &self.child {
            let _ = child.end.quit();
        }
    }

    fn reload(&mut self) {
        if self.ending.is_some() {
            return;
        }
        if self.pending.is_some() {
            self.reload_again = true;
            return;
        }
        note(Level::Notice, format_args!("reconfiguring"));
        if std::mem::take(&mut self.resting) && self.child.is_none() {
            // The new binary was not wanted; this one serves again.
            self.spawn();
            return;
        }
        files::start_record();
        let prepared = self.prepare();
        let files = files::take_record();
        let Some(next) = prepared else { return };
        let Some(child) = &self.child else {
            // Dead and about to be started again: with the new configuration.
            self.serving = next;
            return;
        };
        match send_reload(&child.end, &next, &files) {
            Ok(()) => self.pending = Some(next),
            Err(error) => {
                note(Level::Alert, format_args!("cannot reach the worker process {}", SysError(&error)));
                if error.kind() == io::ErrorKind::BrokenPipe {
                    // It has ended, which SIGCHLD is about to tell, and the new configuration had no part in that.
                    self.serving = next;
                }
            }
        }
    }

    /// Everything that a reload needs, or nothing after the reasons were logged.
    fn prepare(&self) -> Option<Served> {
        let config = self.loader.load().ok()?;
        engine::open_logs().ok()?;
        engine::prepare_directories(&config).ok()?;
        let count = Settings::of(&config).worker_count;
        let mut provided = Provided::default();
        let specs = config.listen_specs();
        let sockets = Sockets::open(&specs, count, &self.serving.sockets, &mut provided, Purpose::Serve).ok()?;
        Some(Served { config, sockets })
    }

    fn reopen(&mut self) {
        note(Level::Notice, format_args!("reopening logs"));
        if let Err(errors) = log::reopen() {
            for error in errors {
                note(Level::Emerg, format_args!("{error}"));
            }
        }
        stdio::stderr_follows_error_log();
        let Some(child) = &self.child else { return };
        let mut sent = Ok(());
        log::open_files(|path, fd| {
            if sent.is_ok() {
                sent = child.end.send_log(path, fd.as_fd());
            }
        });
        if let Err(error) = sent.and_then(|()| child.end.reopen()) {
            note(Level::Alert, format_args!("cannot reach the worker process {}", SysError(&error)));
        }
    }

    fn upgrade(&mut self) {
        if self.new_binary.is_some() || self.ending.is_some() {
            note(Level::Crit, format_args!("the changing binary signal is ignored: another one is under way"));
            return;
        }
        if let Err(error) = self.pid_file.move_aside() {
            note(Level::Alert, format_args!("rename() of the pid file failed {}", SysError(&error)));
            return;
        }
        match upgrade::start_new_binary(&self.serving.sockets) {
            Ok(pid) => {
                note(Level::Notice, format_args!("start new binary process {pid}"));
                self.new_binary = Some(pid);
            }
            Err(error) => {
                note(Level::Alert, format_args!("cannot start the new binary {}", SysError(&error)));
                self.pid_file.move_back();
            }
        }
    }

    fn finish(self) -> i32 {
        let Self { pid_file, starter, serving, exit, .. } = self;
        let code = exit.unwrap_or(0);
        if !upgrade::predecessor_lives() {
            serving.sockets.unlink_removed(&Sockets::default());
        }
        drop(serving);
        note(Level::Notice, format_args!("exit"));
        pid_file.remove();
        drop(starter);
        code
    }
}

/// Sends a reload and what the server process may not open for itself.
fn send_reload(end: &ServerEnd, next: &Served, files: &[PathBuf]) -> io::Result<()> {
    /// Files that everybody may read are not worth a descriptor.
    const OTHERS_READ: u32 = 0o004;
    for fd in next.sockets.fds() {
        end.send_socket(fd)?;
    }
    let mut sent = Ok(());
    log::open_files(|path, fd| {
        if sent.is_ok() {
            sent = end.send_log(path, fd);
        }
    });
    sent?;
    for path in files {
        let Ok(file) = File::open(path) else { continue };
        if file.metadata()?.permissions().mode() & OTHERS_READ == 0 {
            end.send_file(path, file.as_fd())?;
        }
    }
    end.reload()
}
