//! How soon a thread runs that has work.

use std::mem::size_of;

/// What a thread that mostly waits may run at a time: the least that Linux lets one ask for.
const SLICE_NANOS: u64 = 100_000;

/// What `sched_getattr` tells of a thread.
///
/// Source: Linux, `include/uapi/linux/sched/types.h`, the first version of the structure.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice, of a thread without real-time priority.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has this thread run soon after it wakes, also on processors that are busy: of those that want to run the scheduler takes
/// one whose slice ends first, and a thread that does little at a time needs only a short one. A wake-up otherwise waits for up to the
/// usual slice of a thread that computes (1.4 ms with two processors), several times as long as the disk needs for a sync. No privilege is
/// needed, nor does anybody get less of the processor for it. Systems that do not know this (before Linux 6.12) do as they did.
pub(super) fn wake_promptly() {
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as u32;
    // SAFETY: the system writes as many bytes as it is told that there are, and reads as many as they say; 0 is this thread.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0 {
            attributes.size = size;
            attributes.runtime = SLICE_NANOS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_short_where_the_system_has_one() {
        let of_this_thread = || {
            let mut attributes = Attributes::default();
            let size = size_of::<Attributes>() as u32;
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
            attributes
        };
        std::thread::spawn(move || {
            let before = of_this_thread();
            wake_promptly();
            let after = of_this_thread();
            assert_eq!((before.policy, before.nice), (after.policy, after.nice));
            // Systems without slices tell of none.
            assert!(after.runtime == SLICE_NANOS || before.runtime == 0, "{} ns", after.runtime);
        })
        .join()
        .unwrap();
    }
}
