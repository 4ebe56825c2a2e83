//! Sleeps of milliseconds, for thousands of sleepers: `ngx.sleep`.
//!
//! All sleepers of a worker share one timer of the kernel, set to the first of them. Nobody wakes early; where many
//! sleep, those whose time is up within half a millisecond wake together. tokio's timers serve everything else; for
//! short sleeps they cost more: each new first one interrupts the event loop's wait by a write, and what it waits for is
//! rounded up twice, so that a millisecond takes two or three.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    io,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    pin::Pin,
    ptr,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tokio::io::{Interest, unix::AsyncFd};

use crate::worker;

/// What the kernel's timer is set to at most; sleepers may wait longer.
const TIMER_MAX: Duration = Duration::from_secs(24 * 3600);

/// The least time between two wakes.
const WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// The sleepers of a thread.
struct Sleepers {
    timer: AsyncFd<OwnedFd>,
    /// Times are counted from here.
    epoch: Instant,
    /// Wakers by the time at which they are due, then by arrival.
    waiting: RefCell<BTreeMap<Key, Waker>>,
    arrivals: Cell<u64>,
    /// Everybody due at this time or before was woken.
    passed: Cell<Duration>,
    /// The time that the timer is set to.
    armed: Cell<Duration>,
}

/// Time and number of arrival.
type Key = (Duration, u64);

thread_local! {
    /// Those of the worker that runs; its task that waits for the timer owns them.
    static SLEEPERS: RefCell<Weak<Sleepers>> = const { RefCell::new(Weak::new()) };
}

/// Sleeps for `ms` milliseconds, and up to [`WAKE_INTERVAL`] more. The sleep begins when the future is first polled.
pub async fn sleep(ms: u64) {
    match Sleepers::of_this_worker() {
        Some(sleepers) => Nap { key: (sleepers.due(ms), 0), sleepers: Rc::downgrade(&sleepers) }.await,
        // Boxed: rare and large.
        None => Box::pin(tokio::time::sleep(Duration::from_millis(ms))).await,
    }
}

impl Sleepers {
    /// `None` on threads without a worker, and where the system has no timer left.
    fn of_this_worker() -> Option<Rc<Self>> {
        let found = SLEEPERS.with_borrow(Weak::upgrade);
        found.or_else(|| worker::current().and_then(|_| Self::begin()))
    }

    #[cold]
    fn begin() -> Option<Rc<Self>> {
        let timer = timer().ok()?;
        // SAFETY: an owned descriptor, which stays open and the same until the `AsyncFd` goes.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }.ok()?;
        let sleepers = Rc::new(Sleepers {
            timer,
            epoch: Instant::now(),
            waiting: RefCell::default(),
            arrivals: Cell::new(0),
            passed: Cell::new(Duration::ZERO),
            armed: Cell::new(Duration::MAX),
        });
        SLEEPERS.set(Rc::downgrade(&sleepers));
        let owned = sleepers.clone();
        tokio::task::spawn_local(async move {
            // The descriptor is ours and stays open: waiting for it does not fail before the runtime ends.
            while let Ok(mut ready) = owned.timer.readable().await {
                ready.clear_ready();
                owned.wake_due();
            }
        });
        Some(sleepers)
    }

    fn due(&self, ms: u64) -> Duration {
        self.epoch.elapsed().saturating_add(Duration::from_millis(ms))
    }

    fn wake_due(&self) {
        let now = self.epoch.elapsed();
        self.passed.set(now);
        self.armed.set(Duration::MAX);
        // Nobody finds the map borrowed: a waker belongs to somebody else.
        while let Some(waker) = self.take_due(now) {
            waker.wake();
        }
        let next = self.waiting.borrow().first_key_value().map(|(&(due, _), _)| due);
        if let Some(due) = next {
            self.arm(due);
        }
    }

    fn take_due(&self, now: Duration) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Sets the timer for somebody who is due at `due`, unless it comes before that anyway.
    fn arm(&self, due: Duration) {
        let at = due.max(self.passed.get().saturating_add(WAKE_INTERVAL));
        if at >= self.armed.get() {
            return;
        }
        self.armed.set(at);
        let left = at.saturating_sub(self.epoch.elapsed());
        // Zero would stop the timer.
        set(&self.timer, left.clamp(Duration::from_nanos(1), TIMER_MAX));
    }
}

/// A timer of the kernel, not set yet.
fn timer() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, or answers -1.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(timer: &AsyncFd<OwnedFd>, left: Duration) {
    // SAFETY: a zeroed itimerspec is valid: no interval.
    let mut spec = unsafe { MaybeUninit::<libc::itimerspec>::zeroed().assume_init() };
    // At most a day (`TIMER_MAX`), which fits.
    spec.it_value.tv_sec = left.as_secs() as libc::time_t;
    spec.it_value.tv_nsec = libc::c_long::from(left.subsec_nanos() as i32);
    // SAFETY: reads the value and writes nothing; it cannot fail for an open timer and a valid time.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const spec, ptr::null_mut()) };
}

/// A sleep on the worker's timer. The number of arrival is 0 until it is first polled.
struct Nap {
    key: Key,
    sleepers: Weak<Sleepers>,
}

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Only with the runtime do they go, and this future as well.
        let Some(sleepers) = self.sleepers.upgrade() else { return Poll::Pending };
        let (due, number) = self.key;
        if number == 0 {
            let number = sleepers.arrivals.get() + 1;
            sleepers.arrivals.set(number);
            self.key = (due, number);
            sleepers.waiting.borrow_mut().insert(self.key, cx.waker().clone());
            sleepers.arm(due);
            return Poll::Pending;
        }
        if sleepers.passed.get() >= due {
            return Poll::Ready(());
        }
        let replace = |waker: &mut Waker| mem::replace(waker, cx.waker().clone());
        let old = sleepers.waiting.borrow_mut().get_mut(&self.key).map(replace);
        // The last waker of a task takes that with it: not while the map is borrowed.
        drop(old);
        Poll::Pending
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        if self.key.1 != 0
            && let Some(sleepers) = self.sleepers.upgrade()
            && sleepers.passed.get() < self.key.0
        {
            let waker = sleepers.waiting.borrow_mut().remove(&self.key);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_wake_in_order_and_never_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.expect("a runtime").block_on(async {
            let sleepers = Sleepers::begin().expect("a timer");
            let woken = Rc::new(RefCell::new(Vec::new()));
            let begun = Instant::now();
            let tasks: Vec<_> = [4, 2, 3, 2]
                .into_iter()
                .enumerate()
                .map(|(index, ms)| {
                    let woken = woken.clone();
                    tokio::task::spawn_local(async move {
                        sleep(ms).await;
                        assert!(begun.elapsed() >= Duration::from_millis(ms));
                        woken.borrow_mut().push(index);
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            assert_eq!(*woken.borrow(), [1, 3, 2, 0]);
            assert!(sleepers.waiting.borrow().is_empty());
        });
    }

    #[test]
    fn a_sleep_that_is_dropped_leaves_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.expect("a runtime").block_on(async {
            let sleepers = Sleepers::begin().expect("a timer");
            let mut nap = Box::pin(sleep(60_000));
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..2 {
                assert!(nap.as_mut().poll(&mut cx).is_pending());
                assert_eq!(sleepers.waiting.borrow().len(), 1);
            }
            drop(nap);
            assert!(sleepers.waiting.borrow().is_empty());
        });
    }
}
