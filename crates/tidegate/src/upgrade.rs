//! Changing the binary without losing a connection: the new one inherits the listening sockets.
//!
//! As in nginx: USR2 starts the binary under the same arguments with the sockets named in the variable `NGINX`; both
//! serve; WINCH and then QUIT send the old one away, or QUIT to the new one takes everything back.

use std::io;
use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::{Pid, getppid};
use tidegate_net::listeners::Sockets;

/// The variable that names inherited sockets.
const VARIABLE: &str = "NGINX";

/// The process that started this one with its sockets.
static PREDECESSOR: OnceLock<Pid> = OnceLock::new();

/// Starts the binary anew, on these sockets.
pub(crate) fn start_new_binary(sockets: &Sockets) -> io::Result<Pid> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().ok_or(io::ErrorKind::NotFound)?;
    let set = |flag: FdFlag| -> io::Result<()> {
        for fd in sockets.fds() {
            set_fd_flag(fd, flag)?;
        }
        Ok(())
    };
    // Nothing else is started by this process, so nobody else inherits them meanwhile.
    set(FdFlag::empty())?;
    let spawned = Command::new(program).args(arguments).env(VARIABLE, sockets.to_variable()).spawn();
    set(FdFlag::FD_CLOEXEC)?;
    let pid = i32::try_from(spawned?.id()).map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid))
}

fn set_fd_flag(fd: BorrowedFd<'_>, flag: FdFlag) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(flag))?;
    Ok(())
}

/// The value of the variable, if the binary before us started us; nobody sees it afterwards.
///
/// # Safety
/// The process has no other thread: it would read the environment while that changes.
pub(crate) unsafe fn take_variable() -> Option<String> {
    let variable = std::env::var(VARIABLE).ok()?;
    // SAFETY: the process has no other thread, as this function demands.
    unsafe { std::env::remove_var(VARIABLE) };
    let _ = PREDECESSOR.set(getppid());
    Some(variable)
}

/// Whether the process that started this one, to take its place, is still there: then what both use stays when this one ends.
pub(crate) fn predecessor_lives() -> bool {
    PREDECESSOR.get().is_some_and(|predecessor| *predecessor == getppid())
}
