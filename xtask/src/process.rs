//! Children, how patient their tests are, and processes that a test finds. What a child is stands in `tidegate-report`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) use tidegate_report::process::{POLL, Process};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Scratch;
    use std::process::Command;
    use std::thread;

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
