//! Sleeps of milliseconds, for thousands of sleepers: `ngx.sleep` and `ngx.timer`.
//!
//! Time is counted as nginx counts it, in whole milliseconds of the worker's clock ([`clock::steady_ms`]): a sleep begins
//! with the millisecond that the clock shows and ends with that in which it is due, so that it may be a part of one shorter.
//! All who are due in the same millisecond wake together, and come back together: one wait of the event loop serves them
//! all. All sleepers of a worker share one timer of the kernel, set to the first of them. tokio's timers serve everything
//! else; for short sleeps they cost more: each new first one interrupts the event loop's wait by a write, and what it waits
//! for is rounded up twice, so that a millisecond takes two or three.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    pin::Pin,
    ptr,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    time::Instant,
};

use crate::{clock, worker};

/// How far ahead the kernel's timer is set at most; sleepers may wait longer.
const TIMER_MAX_MS: u64 = 24 * 3600 * 1000;

/// The sleepers of a thread.
struct Sleepers {
    timer: AsyncFd<OwnedFd>,
    /// By the millisecond in which they are due. No crowd is empty.
    waiting: RefCell<BTreeMap<u64, Crowd>>,
    /// Everybody due in this millisecond or before was woken.
    passed_ms: Cell<u64>,
    /// What the timer is set to.
    armed_ms: Cell<u64>,
}

/// Those who are due in the same millisecond.
#[derive(Default)]
struct Crowd {
    /// By arrival; `None` for those who wait no more. They came within a millisecond: nothing is won by closing the gaps.
    wakers: Vec<Option<Waker>>,
    waiting_count: usize,
}

thread_local! {
    /// What [`now_ms`] counts from on a thread without a worker.
    static BEGINNING: Instant = Instant::now();
    /// Those of the worker that runs; its task that waits for the timer owns them.
    static SLEEPERS: RefCell<Weak<Sleepers>> = const { RefCell::new(Weak::new()) };
}

/// Sleeps for `ms` milliseconds, counted from the time that the thread's clock shows.
///
/// Source: nginx, `ngx_add_timer`.
pub fn sleep(ms: u64) -> impl Future<Output = ()> {
    until(now_ms().saturating_add(ms))
}

/// Milliseconds of the clock that sleeps are counted by: the worker's, or tokio's on a thread without a worker.
pub fn now_ms() -> u64 {
    if SLEEPERS.with_borrow(|sleepers| sleepers.strong_count() > 0) || worker::current().is_some() {
        return clock::steady_ms();
    }
    let passed = BEGINNING.with(|beginning| Instant::now().saturating_duration_since(*beginning));
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// Sleeps until [`now_ms`] is `due_ms` or later.
pub async fn until(due_ms: u64) {
    match Sleepers::of_this_worker() {
        Some(sleepers) => Nap { due_ms, place: None, sleepers: Rc::downgrade(&sleepers) }.await,
        None => {
            let left = Duration::from_millis(due_ms.saturating_sub(now_ms()));
            // Boxed: rare and large.
            Box::pin(tokio::time::sleep(left)).await;
        }
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
            waiting: RefCell::default(),
            passed_ms: Cell::new(0),
            armed_ms: Cell::new(u64::MAX),
        });
        SLEEPERS.set(Rc::downgrade(&sleepers));
        let owned = sleepers.clone();
        tokio::task::spawn_local(async move {
            // The descriptor is ours and stays open: waiting for it does not fail before the runtime ends.
            while let Ok(mut ready) = owned.timer.readable().await {
                ready.clear_ready();
                clock::update();
                owned.wake_due(clock::steady_ms());
            }
        });
        Some(sleepers)
    }

    fn wake_due(&self, now_ms: u64) {
        self.armed_ms.set(u64::MAX);
        self.passed_ms.set(now_ms);
        // Nobody finds the map borrowed: a waker belongs to somebody else.
        while let Some(crowd) = self.take_due(now_ms) {
            crowd.wakers.into_iter().flatten().for_each(Waker::wake);
        }
        let next = self.waiting.borrow().first_key_value().map(|(&due_ms, _)| due_ms);
        if let Some(due_ms) = next {
            self.arm(due_ms);
        }
    }

    fn take_due(&self, now_ms: u64) -> Option<Crowd> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        (*first.key() <= now_ms).then(|| first.remove())
    }

    /// Sets the timer for somebody who is due at `due_ms`, unless it comes before that anyway.
    fn arm(&self, due_ms: u64) {
        if due_ms < self.armed_ms.get() {
            let at_ms = due_ms.min(clock::steady_ms().saturating_add(TIMER_MAX_MS));
            self.armed_ms.set(at_ms);
            set(&self.timer, at_ms);
        }
    }

    /// Adds a sleeper; answers its position in its crowd.
    fn add(&self, due_ms: u64, waker: Waker) -> usize {
        let mut waiting = self.waiting.borrow_mut();
        let crowd = waiting.entry(due_ms).or_default();
        crowd.wakers.push(Some(waker));
        crowd.waiting_count += 1;
        crowd.wakers.len() - 1
    }

    /// Wakes `waker` instead of the one that this sleeper had, which is returned.
    fn replace(&self, due_ms: u64, position: usize, waker: &Waker) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let slot = waiting.get_mut(&due_ms)?.wakers.get_mut(position)?;
        match slot {
            Some(known) if known.will_wake(waker) => None,
            slot => slot.replace(waker.clone()),
        }
    }

    /// Takes a sleeper out.
    fn remove(&self, due_ms: u64, position: usize) -> Option<Waker> {
        let mut waiting = self.waiting.borrow_mut();
        let crowd = waiting.get_mut(&due_ms)?;
        let waker = crowd.wakers.get_mut(position)?.take()?;
        crowd.waiting_count -= 1;
        if crowd.waiting_count == 0 {
            waiting.remove(&due_ms);
        }
        Some(waker)
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

/// Sets the timer to a millisecond of [`clock::steady_ms`], which shows the same clock. One that is over ends it at once.
fn set(timer: &AsyncFd<OwnedFd>, at_ms: u64) {
    // SAFETY: a zeroed itimerspec is valid: no interval.
    let mut spec = unsafe { MaybeUninit::<libc::itimerspec>::zeroed().assume_init() };
    let at = Duration::from_millis(at_ms);
    // At most a day (`TIMER_MAX_MS`) from now, which fits.
    spec.it_value.tv_sec = at.as_secs() as libc::time_t;
    // Zero would stop the timer.
    spec.it_value.tv_nsec = libc::c_long::from(at.subsec_nanos().max(1) as i32);
    // SAFETY: reads the value and writes nothing; it cannot fail for an open timer and a valid time.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const spec, ptr::null_mut()) };
}

/// A sleep on the worker's timer.
struct Nap {
    due_ms: u64,
    /// Its position in its crowd, once it was polled.
    place: Option<usize>,
    sleepers: Weak<Sleepers>,
}

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Only with the runtime do they go, and this future as well.
        let Some(sleepers) = self.sleepers.upgrade() else { return Poll::Pending };
        if sleepers.passed_ms.get() >= self.due_ms {
            return Poll::Ready(());
        }
        match self.place {
            // The last waker of a task takes that with it: it goes here, where the map is not borrowed.
            Some(position) => drop(sleepers.replace(self.due_ms, position, cx.waker())),
            None => {
                self.place = Some(sleepers.add(self.due_ms, cx.waker().clone()));
                sleepers.arm(self.due_ms);
            }
        }
        Poll::Pending
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        if let Some(position) = self.place
            && let Some(sleepers) = self.sleepers.upgrade()
            && sleepers.passed_ms.get() < self.due_ms
        {
            drop(sleepers.remove(self.due_ms, position));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    /// Runs `test` where a worker would run.
    fn on_a_loop(test: impl AsyncFnOnce(Rc<Sleepers>)) {
        let runtime = Builder::new_current_thread().enable_all().build_local(Default::default()).expect("a runtime");
        runtime.block_on(async { test(Sleepers::begin().expect("a timer")).await });
    }

    #[test]
    fn sleepers_wake_in_order_when_the_clock_says_so() {
        on_a_loop(async |sleepers| {
            clock::update();
            let began_ms = clock::steady_ms();
            let woken = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = [4, 2, 3, 2]
                .into_iter()
                .enumerate()
                .map(|(index, ms)| {
                    let woken = woken.clone();
                    let sleep = sleep(ms);
                    tokio::task::spawn_local(async move {
                        sleep.await;
                        assert!(clock::steady_ms() >= began_ms + ms);
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
    fn who_is_due_in_the_same_millisecond_wakes_together() {
        on_a_loop(async |sleepers| {
            let far_ms = clock::steady_ms() + 3_600_000;
            for due_ms in [far_ms, far_ms + 1, far_ms, far_ms + 2, far_ms + 3] {
                sleepers.add(due_ms, Waker::noop().clone());
            }
            sleepers.wake_due(far_ms - 1);
            assert_eq!(sleepers.waiting.borrow().len(), 4);
            assert_eq!(sleepers.armed_ms.get(), far_ms);
            sleepers.wake_due(far_ms + 1);
            assert_eq!(sleepers.waiting.borrow().keys().copied().collect::<Vec<_>>(), [far_ms + 2, far_ms + 3]);
            assert_eq!(sleepers.armed_ms.get(), far_ms + 2);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Box::pin(until(far_ms + 1)).as_mut().poll(&mut cx).is_ready(), "that is over");
        });
    }

    #[test]
    fn sleeps_that_are_dropped_leave_nothing() {
        on_a_loop(async |sleepers| {
            let due_ms = clock::steady_ms() + 3_600_000;
            let mut cx = Context::from_waker(Waker::noop());
            let mut naps = [0, 0, 1, u64::MAX - due_ms].map(|later| Box::pin(until(due_ms + later)));
            for nap in &mut naps {
                assert!(nap.as_mut().poll(&mut cx).is_pending());
                assert!(nap.as_mut().poll(&mut cx).is_pending());
            }
            let counts = || sleepers.waiting.borrow().values().map(|crowd| crowd.waiting_count).collect::<Vec<_>>();
            assert_eq!(counts(), [2, 1, 1]);
            let [first, second, third, endless] = naps;
            drop(first);
            assert_eq!(counts(), [1, 1, 1]);
            drop((second, third, endless));
            assert_eq!(counts(), []);
        });
    }
}
