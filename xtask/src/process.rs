//! Children that never outlive us: servers under test and the services beside them.
//!
//! Every child leads a process group of its own, so that what it starts can be found and ended, and gets SIGKILL when
//! the thread that started it ends. A child must therefore be started by the thread that also waits for it.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a state that has no event to wait for is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(2);

/// What time limits are multiplied with.
static PATIENCE: AtomicU32 = AtomicU32::new(1);

/// Makes every [`patient`] time limit so many times as long.
pub(crate) fn be_patient(times: u32) {
    PATIENCE.store(times, Ordering::Relaxed);
}

/// A time limit for what a server under test does.
pub(crate) fn patient(limit: Duration) -> Duration {
    limit.saturating_mul(PATIENCE.load(Ordering::Relaxed))
}

/// A running child and its group.
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` as the leader of a process group of its own.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub(crate) fn spawn(command: &mut Command) -> Result<Process, String> {
        command.process_group(0);
        // SAFETY: prctl is async-signal-safe and touches no memory of ours between fork and exec.
        unsafe { command.pre_exec(die_with_parent) };
        let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
        Ok(Process { child, status: None })
    }

    /// The child's process id, which is also its group's.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("Linux process ids are below 2^22"))
    }

    /// How the child ended, or `None` while it runs.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or(None);
        }
        self.status
    }

    /// Sends a signal to the child alone. A child that is gone already is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // ESRCH is the only possible failure, and the next wait tells how the child ended.
            let _ = kill(self.pid(), signal);
        }
    }

    /// Waits for the child's end, at most that long.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + at_most;
        while self.exited().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        self.status
    }

    /// Whether a process of the child's group is left, apart from a child that has not been waited for.
    pub(crate) fn group_is_alive(&self) -> bool {
        !matches!(killpg(self.pid(), None), Err(Errno::ESRCH))
    }

    /// Ends the child and its group at once.
    pub(crate) fn kill_group(&mut self) {
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

/// Processes whose working directory is `dir`: those that a server started there has left, daemons too, which no process
/// group and no parent leads to any more.
pub(crate) fn working_in(dir: &Path) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        // Unreadable: a zombie, a process of somebody else, or one that is gone by now.
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// Ends the processes whose parent this is.
pub(crate) fn kill_children(parent: u32) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        // From proc(5): the name in parentheses, the state, the parent.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let found = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        if found == Some(parent) {
            // ESRCH: it has ended by itself.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

fn die_with_parent() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Scratch;

    #[test]
    fn children_are_ended() {
        let command = "sleep 60; echo next";
        let mut shell =
            Process::spawn(Command::new("sh").args(["-c", command]).stdout(std::process::Stdio::null())).unwrap();
        while shell.exited().is_none() {
            kill_children(shell.pid().as_raw().unsigned_abs());
            thread::sleep(POLL);
        }
        assert!(shell.exited().unwrap().success());
    }

    #[test]
    fn a_process_is_found_by_its_directory_and_ends_when_dropped() {
        let scratch = Scratch::new("process", false).unwrap();
        let process = Process::spawn(Command::new("sleep").arg("60").current_dir(scratch.path())).unwrap();
        assert_eq!(working_in(scratch.path()), [process.pid()]);
        assert!(process.group_is_alive());
        drop(process);
        assert_eq!(working_in(scratch.path()), []);
    }
}
