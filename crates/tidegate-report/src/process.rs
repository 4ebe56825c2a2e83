//! Children that never outlive us: servers that are measured and the services beside them.
//!
//! Every child leads a process group of its own, so that what it starts can be found and ended, and gets SIGKILL when
//! the thread that started it ends. A child must therefore be started by the thread that also waits for it.

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, killpg, sigaction};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a state that has no event to wait for is looked at.
pub const POLL: Duration = Duration::from_millis(2);

/// The groups that there are, for [`end_all`].
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<Pid>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group that [`end_all`] knows until this is dropped.
pub(crate) struct Group(Pid);

impl Group {
    /// That of a child which [`lead_group`] has prepared.
    pub(crate) fn of(child: &Child) -> Group {
        Group::among(&mut groups(), child)
    }

    fn among(groups: &mut Vec<Pid>, child: &Child) -> Group {
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("Linux process ids are below 2^22"));
        groups.push(pid);
        Group(pid)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut groups = groups();
        if let Some(place) = groups.iter().position(|group| *group == self.0) {
            groups.swap_remove(place);
        }
    }
}

/// How long children that lead no group of ours have for what they do at their end.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// Ends all groups at once: what their leaders have started does not end with them. Then all others below this process: those end by
/// themselves, or are ended. Whoever starts or ends a [`Process`] after that waits for the end of this one.
pub(crate) fn end_all() {
    let below = descendants(std::process::id());
    end_groups();
    let mut left: Vec<Pid> = below.into_iter().filter(|pid| kill(*pid, Signal::SIGTERM).is_ok()).collect();
    let deadline = Instant::now() + LAST_STEPS;
    while !left.is_empty() && Instant::now() < deadline {
        thread::sleep(POLL);
        left.retain(|pid| is_running(*pid));
    }
    for pid in left {
        // ESRCH: it has ended now.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

fn end_groups() {
    let groups = groups();
    for group in groups.iter() {
        // ESRCH: there is nothing left to end.
        let _ = killpg(*group, Signal::SIGKILL);
    }
    std::mem::forget(groups);
}

/// All processes below one, found by their parents (proc(5)).
fn descendants(root: u32) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent_and_state(pid)?.0))).collect();
    let (mut found, mut at) = (vec![root], 0);
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let pid = |id: &u32| i32::try_from(*id).ok().map(Pid::from_raw);
    found[1..].iter().filter_map(pid).collect()
}

/// From proc(5): the name in parentheses, the state, the parent.
fn parent_and_state(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?.to_owned();
    Some((fields.next()?.parse().ok()?, state))
}

/// Neither gone nor a zombie, which waits for a parent that does not look after it any more.
fn is_running(pid: Pid) -> bool {
    parent_and_state(pid.as_raw().unsigned_abs()).is_some_and(|(_, state)| state != "Z")
}

/// Where [`wake`] writes.
static WAKE: OnceLock<io::PipeWriter> = OnceLock::new();

/// A byte comes for each of these signals. They stay unblocked, as children inherit what is blocked; a handler ends with `exec`.
pub(crate) fn hear(signals: &[Signal]) -> io::Result<io::PipeReader> {
    let (reader, writer) = io::pipe()?;
    if WAKE.set(writer).is_err() {
        return Err(io::Error::other("somebody does already"));
    }
    let action = SigAction::new(SigHandler::Handler(wake), SaFlags::SA_RESTART, SigSet::empty());
    for signal in signals {
        // SAFETY: `wake` does nothing but write(2) to a pipe, which is async-signal-safe, and leaves errno as it was.
        unsafe { sigaction(*signal, &action) }?;
    }
    Ok(reader)
}

extern "C" fn wake(_: libc::c_int) {
    let errno = Errno::last();
    if let Some(pipe) = WAKE.get() {
        // A pipe that is full has woken already.
        let _ = nix::unistd::write(pipe, &[0]);
    }
    errno.set();
}

/// Makes the child of `command` the leader of a group of its own, which ends with the thread that starts it.
pub(crate) fn lead_group(command: &mut Command) {
    command.process_group(0);
    // SAFETY: prctl is async-signal-safe and touches no memory of ours between fork and exec.
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
        // Until the group is known nobody may end all groups.
        let mut groups = groups();
        let child = command.spawn().map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))?;
        let group = Group::among(&mut groups, &child);
        drop(groups);
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

/// What a child does before it becomes its program: it will die with its parent.
fn begin() -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    #[test]
    fn children_of_children_are_found() {
        let mut shell = Command::new("sh");
        let mut shell =
            shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let sleeper = Pid::from_raw(line.trim().parse().expect("a process"));
        assert_eq!(descendants(shell.id()), [sleeper]);
        assert!(is_running(sleeper));
        kill(sleeper, Signal::SIGKILL).expect("it runs");
        shell.wait().expect("it ends with its child");
        assert!(!is_running(sleeper));
        assert!(descendants(shell.id()).is_empty());
    }
}
