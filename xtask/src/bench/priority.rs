//! A measurement comes before whatever else the machine does.
//!
//! A p99 of a second shows everything that takes a core for more than ten milliseconds: whoever lists all sockets of the
//! machine now and then, the kernel's search for idle memory. Both work longer while there are thousands of connections,
//! so that a measurement with those finds what one without them does not.

use nix::libc;
use std::fs;

/// Where the kernel keeps the priority of all processes of a session, if it groups them so (`sched_autogroup_enabled`).
const SESSION: &str = "/proc/self/autogroup";

/// The highest priority among ordinary processes.
const HIGHEST: i32 = -20;

/// This thread, what it starts from now on and its session come first while the guard lives; where that is allowed.
pub(super) struct Priority {
    session_before: Option<i32>,
}

impl Priority {
    pub(super) fn raise() -> Priority {
        let session_before = fs::read_to_string(SESSION).ok().and_then(|text| parse_session(&text));
        if session_before.is_some() {
            // Whoever may not has a figure that is merely worse.
            let _ = fs::write(SESSION, HIGHEST.to_string());
        }
        set_own(HIGHEST);
        Priority { session_before }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        set_own(0);
        if let Some(before) = self.session_before {
            // It has what it had if it could not be raised.
            let _ = fs::write(SESSION, before.to_string());
        }
    }
}

fn set_own(nice: i32) {
    // SAFETY: the call takes no memory. Where it is refused the priority stays what it is.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// The number in `/autogroup-123 nice 0`.
fn parse_session(text: &str) -> Option<i32> {
    text.trim().rsplit_once("nice ")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_says() {
        assert_eq!(parse_session("/autogroup-18171 nice 0\n"), Some(0));
        assert_eq!(parse_session("/autogroup-1 nice -20\n"), Some(-20));
        assert_eq!(parse_session(""), None);
    }
}
