//! The kernel's epoll, for the do-nothing server and the load of lookups.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{io, ptr};

/// Events of one wait.
pub(crate) const EVENTS: usize = 512;

/// An epoll instance.
pub(crate) struct Poll(OwnedFd);

impl Poll {
    pub(crate) fn new() -> io::Result<Poll> {
        // SAFETY: takes a flag and no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Poll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// From now on `fd` is reported when it can be read.
    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN)
    }

    /// From now on `fd` is reported when it can be written to, or, again, when it can be read.
    pub(crate) fn wait_for_room(&self, fd: RawFd, wants_room: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, if wants_room { libc::EPOLLOUT } else { libc::EPOLLIN })
    }

    fn control(&self, what: i32, fd: RawFd, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: u64::from(fd.cast_unsigned()) };
        // SAFETY: the event lives during the call; a descriptor that is none is an error of the call.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, ptr::from_mut(&mut event)) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits for events, as long as it takes or so many milliseconds; how many there are.
    pub(crate) fn wait(&self, events: &mut [libc::epoll_event; EVENTS], limit_ms: Option<u16>) -> io::Result<usize> {
        let limit = limit_ms.map_or(-1, i32::from);
        // SAFETY: the array has as many places as the call is told.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, limit) };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count.unsigned_abs() as usize) }
    }
}
