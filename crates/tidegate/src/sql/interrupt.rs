//! Ctrl-C while a statement of the shell runs: the statement ends, the shell does not.
//!
//! While a line is typed the terminal gives the key to the editor. While a statement runs it sends `SIGINT`, whose handler
//! writes a frame to the server: that is all that a handler may do here, and all that is needed, because the
//! server then answers with error 1317.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use tidegate_rows::frames::tag;

/// The connection whose statement runs, or -1.
static RUNNING: AtomicI32 = AtomicI32::new(-1);

/// A frame that ends the statement: its tag, no payload.
const CANCEL: [u8; 5] = [tag::CANCEL, 0, 0, 0, 0];

/// From now on `SIGINT` ends the running statement instead of the process.
///
/// # Errors
/// The system's.
pub(super) fn install() -> nix::Result<()> {
    // Whatever waits goes on waiting: the server's answer ends it.
    let action = SigAction::new(SigHandler::Handler(cancel), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler reads an atomic and calls write, which signal handlers may.
    unsafe { sigaction(Signal::SIGINT, &action) }.map(drop)
}

extern "C" fn cancel(_: i32) {
    let socket = RUNNING.load(Ordering::Acquire);
    if socket >= 0 {
        // SAFETY: the bytes are static; a socket that has gone is an error, which nobody needs to hear of. MSG_DONTWAIT
        // keeps a handler from waiting, MSG_NOSIGNAL from dying of a server that has left.
        unsafe { libc::send(socket, CANCEL.as_ptr().cast(), CANCEL.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    }
}

/// A statement runs; [`install`]ed handlers cancel it until this is dropped.
pub(super) struct Running;

impl Running {
    /// The statement has been sent to the server behind `socket`.
    pub(super) fn on(socket: &UnixStream) -> Self {
        RUNNING.store(socket.as_raw_fd(), Ordering::Release);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.store(-1, Ordering::Release);
    }
}
