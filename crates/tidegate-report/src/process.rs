//! Children that never outlive us: servers that are measured and the services beside them.
//!
//! Every child leads a process group of its own, so that what it starts can be found and ended, and gets SIGKILL when
//! the thread that started it ends. A child must therefore be started by the thread that also waits for it.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a state that has no event to wait for is looked at.
pub const POLL: Duration = Duration::from_millis(2);

/// The groups that there are, for [`end_all`].
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A group that [`end_all`] knows until this is dropped.
pub(crate) struct Group(Pid);

impl Group {
    /// That of a child which [`lead_group`] has prepared.
    pub(crate) fn of(child: &Child) -> Group {
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("Linux process ids are below 2^22"));
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Group(pid)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = groups.iter().position(|group| *group == self.0) {
            groups.swap_remove(place);
        }
    }
}

/// Ends all groups at once: what their leaders have started does not end with them.
pub(crate) fn end_all() {
    for group in GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // ESRCH: there is nothing left to end.
        let _ = killpg(*group, Signal::SIGKILL);
    }
}

/// Makes the child of `command` the leader of a group of its own, which ends with the thread that starts it.
pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl and sigprocmask are async-signal-safe and touch no memory of ours between fork and exec.
    unsafe { command.pre_exec(begin) };
}

/// A running child and its group.
pub struct Process {
    child: Child,
    status: Option<ExitStatus>,
    group: Group,
}

impl Process {
    /// Starts `command` as the leader of a process group of its own.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Process, String> {
        lead_group(command);
        let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
        let group = Group::of(&child);
        Ok(Process { child, status: None, group })
    }

    /// The child's process id, which is also its group's.
    pub fn pid(&self) -> Pid {
        self.group.0
    }

    /// How the child ended, or `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or(None);
        }
        self.status
    }

    /// Sends a signal to the child alone. A child that is gone already is no error.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // ESRCH is the only possible failure, and the next wait tells how the child ended.
            let _ = kill(self.pid(), signal);
        }
    }

    /// Waits for the child's end, at most that long.
    pub fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + at_most;
        while self.exited().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        self.status
    }

    /// Whether a process of the child's group is left, apart from a child that has not been waited for.
    pub fn group_is_alive(&self) -> bool {
        !matches!(killpg(self.pid(), None), Err(Errno::ESRCH))
    }

    /// Ends the child and its group at once.
    pub fn kill_group(&mut self) {
        // ESRCH: there is nothing left to end.
        let _ = killpg(self.pid(), Signal::SIGKILL);
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() || self.group_is_alive() {
            self.kill_group();
        }
    }
}

/// What a child does before it becomes its program: it will die with its parent, and hears of the signals that its parent waits for.
fn begin() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    SigSet::empty().thread_set_mask().map_err(io::Error::from)
}
