//! Signals of the supervisor and the server process, as bytes in a pipe.
//!
//! Handlers instead of blocked signals: a program that a script starts inherits blocked signals and would not end at
//! a TERM, whereas handlers are gone after exec.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;

/// What is listened to. Others keep their default.
const SIGNALS: [Signal; 10] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGALRM,
    Signal::SIGIO,
    Signal::SIGCHLD,
];

/// One signal and who sent it: two integers of four bytes each in the pipe.
const RECORD_BYTES: usize = 8;

static PIPE: AtomicI32 = AtomicI32::new(-1);

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    pub(crate) from: i32,
}

/// The reading end.
pub(crate) struct Signals {
    read: OwnedFd,
    _write: OwnedFd,
}

impl Signals {
    /// Listens from now on. A process does this once, and its child again after the fork.
    pub(crate) fn listen() -> io::Result<Self> {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        PIPE.store(write.as_raw_fd(), Ordering::SeqCst);
        for signal in SIGNALS {
            // SAFETY: all-zero bytes are a valid sigaction, filled in below.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = handler as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: the handler does nothing but an atomic load and a write, both safe in a handler.
            if unsafe { libc::sigaction(signal as i32, &raw const action, std::ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { read, _write: write })
    }

    /// Readable when a signal has come.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// The next signal, without waiting.
    pub(crate) fn take(&self) -> Option<Received> {
        let mut record = [0u8; RECORD_BYTES];
        match nix::unistd::read(&self.read, &mut record) {
            Ok(RECORD_BYTES) => {
                let [a, b, c, d, rest @ ..] = record;
                let signal = Signal::try_from(i32::from_ne_bytes([a, b, c, d])).ok()?;
                Some(Received { signal, from: i32::from_ne_bytes(rest) })
            }
            _ => None,
        }
    }
}

extern "C" fn handler(number: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: errno belongs to this thread; whatever was interrupted finds it as it left it.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: with SA_SIGINFO the kernel passes a valid pointer.
    let from = unsafe { (*info).si_pid() };
    let mut record = [0u8; RECORD_BYTES];
    record[..4].copy_from_slice(&number.to_ne_bytes());
    record[4..].copy_from_slice(&from.to_ne_bytes());
    // SAFETY: writes eight live bytes to a descriptor that is open, or fails; a full pipe has signals enough.
    unsafe { libc::write(PIPE.load(Ordering::SeqCst), record.as_ptr().cast(), RECORD_BYTES) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Waits until one of the descriptors is readable or the time is over.
pub(crate) fn wait(fds: &[BorrowedFd<'_>], timeout: Option<std::time::Duration>) -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    // A fraction of a millisecond is rounded up: waking too early would spin.
    let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
        PollTimeout::try_from(timeout + std::time::Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut polled, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_arrives_with_its_sender() {
        let signals = Signals::listen().expect("listening");
        assert_eq!(signals.take(), None);
        nix::sys::signal::raise(Signal::SIGUSR1).expect("raised");
        wait(&[signals.fd()], Some(std::time::Duration::from_secs(5))).expect("waited");
        let received = signals.take().expect("one signal");
        assert_eq!(received.signal, Signal::SIGUSR1);
        assert_eq!(received.from, std::process::id() as i32);
    }
}
