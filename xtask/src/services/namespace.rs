//! A network namespace: a network of its own, with nothing in it but `lo`, where every port is free.

use super::{log_to, program};
use nix::sched::{CloneFlags, setns};
use nix::unistd::Pid;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Raises `lo`, then becomes the program.
const RAISE_AND_RUN: &str = r#"ip link set lo up && exec "$@""#;

/// Why there can be no namespace here, if that is so.
pub(super) fn unavailable() -> Option<String> {
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", RAISE_AND_RUN, "sh", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match output {
        Ok(status) if status.success() => None,
        _ => Some("no network namespace for port 3306: that needs root, unshare and ip".to_owned()),
    }
}

/// A command that runs the program in a new namespace, under the command's own process id.
pub(super) fn command(path: &Path, dir: &Path) -> Result<Command, String> {
    let mut command = Command::new(program("unshare")?);
    log_to(&mut command, dir)?;
    command.args(["--net", "sh", "-c", RAISE_AND_RUN, "sh"]).arg(path);
    Ok(command)
}

/// The network of a process.
#[derive(Clone)]
pub(crate) struct Network(Arc<File>);

impl Network {
    pub(super) fn of(pid: Pid) -> Result<Network, String> {
        open(&format!("/proc/{pid}/ns/net")).map(|file| Network(Arc::new(file)))
    }

    /// Moves the calling thread, and what it starts, into the network until the guard is dropped.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn enter(&self) -> Result<Visit, String> {
        let home = open("/proc/thread-self/ns/net")?;
        setns(&*self.0, CloneFlags::CLONE_NEWNET).map_err(|e| format!("cannot enter a network namespace: {e}"))?;
        Ok(Visit { home })
    }
}

/// A thread's stay in another network.
pub(crate) struct Visit {
    home: File,
}

impl Drop for Visit {
    fn drop(&mut self) {
        // A thread that stayed would run the next case where none of its services are, and that case would say so.
        let _ = setns(&self.home, CloneFlags::CLONE_NEWNET);
    }
}

fn open(path: &str) -> Result<File, String> {
    File::open(path).map_err(|e| format!("{path}: {e}"))
}
