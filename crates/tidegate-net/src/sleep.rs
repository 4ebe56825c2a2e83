//! Sleeps of milliseconds, for thousands of sleepers: `ngx.sleep`.
//!
//! All sleepers of a worker share one timer of the kernel, set to the first of them. Nobody wakes early. A crowd whose
//! members are due within a millisecond wakes together, with the last: whoever was woken together tends to come back
//! together, so that one wait of the event loop serves them all. Where they are due all the time, some wake every
//! millisecond. tokio's timers serve everything else; for short sleeps they cost more: each new first one interrupts the
//! event loop's wait by a write, and what it waits for is rounded up twice, so that a millisecond takes two or three.

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

/// So many sleepers are a crowd. Fewer wake one by one, on time.
const CROWD: usize = 8;

/// How much later than its time somebody in a crowd may wake.
///
/// Source: nginx, whose clock stands still for as long as an `epoll_wait` of a millisecond takes.
const GATHERING_MAX: Duration = Duration::from_millis(1);

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
    /// From the first to the last of the crowd that was woken last: how long to wait for the next one. Zero after fewer, or
    /// where others were due soon after.
    spread: Cell<Duration>,
    /// A crowd waits for its last.
    gathered: Cell<bool>,
}

/// Time and number of arrival.
type Key = (Duration, u64);

thread_local! {
    /// Those of the worker that runs; its task that waits for the timer owns them.
    static SLEEPERS: RefCell<Weak<Sleepers>> = const { RefCell::new(Weak::new()) };
}

/// Sleeps for `ms` milliseconds, in a crowd for up to [`GATHERING_MAX`] more. The sleep begins when the future is first polled.
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
            spread: Cell::new(Duration::ZERO),
            gathered: Cell::new(false),
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
        self.armed.set(Duration::MAX);
        if let Some(at) = self.better_time(now) {
            self.set_timer(at, now);
            return;
        }
        self.passed.set(now);
        let (mut count, mut first, mut last) = (0, now, now);
        // Nobody finds the map borrowed: a waker belongs to somebody else.
        while let Some((due, waker)) = self.take_due(now) {
            (count, first, last) = (count + 1, first.min(due), due);
            waker.wake();
        }
        let next = self.waiting.borrow().first_key_value().map(|(&(due, _), _)| due);
        let is_all = count >= CROWD && next.is_none_or(|next| next > now + GATHERING_MAX);
        self.spread.set(if is_all { (last - first).min(GATHERING_MAX) } else { Duration::ZERO });
        if let Some(due) = next {
            self.arm(due);
        }
    }

    /// When it is better to wake a crowd whose first could wake now.
    fn better_time(&self, now: Duration) -> Option<Duration> {
        let waiting = self.waiting.borrow();
        // A crowd waits for its last once: those who come meanwhile do not make it longer.
        if self.gathered.take() || waiting.len() < CROWD {
            return None;
        }
        let (&(first, _), _) = waiting.first_key_value()?;
        let latest = first + GATHERING_MAX;
        let (&(last, _), _) = waiting.range(..=(latest, u64::MAX)).next_back()?;
        if waiting.range((latest, u64::MAX)..=(latest + GATHERING_MAX, u64::MAX)).next().is_none() {
            self.gathered.set(last > now);
            return (last > now).then_some(last);
        }
        // There is no last one.
        let at = self.passed.get() + GATHERING_MAX;
        (at > now).then_some(at)
    }

    fn take_due(&self, now: Duration) -> Option<(Duration, Waker)> {
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        let due = first.key().0;
        (due <= now).then(|| (due, first.remove()))
    }

    /// Sets the timer for somebody who is due at `due`, unless it comes before that anyway.
    fn arm(&self, due: Duration) {
        let at = due.saturating_add(self.spread.get());
        if at < self.armed.get() {
            self.set_timer(at, self.epoch.elapsed());
        }
    }

    fn set_timer(&self, at: Duration, now: Duration) {
        self.armed.set(at);
        // Zero would stop the timer.
        set(&self.timer, at.saturating_sub(now).clamp(Duration::from_nanos(1), TIMER_MAX));
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
    fn a_crowd_waits_for_its_last_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        runtime.expect("a runtime").block_on(async {
            let us = Duration::from_micros;
            let sleepers = Sleepers::begin().expect("a timer");
            let add = |number: u64, due| sleepers.waiting.borrow_mut().insert((due, number), Waker::noop().clone());
            for number in 1..CROWD as u64 {
                add(number, us(1000 + number));
            }
            assert_eq!(sleepers.better_time(us(1001)), None, "no crowd");
            add(8, us(1300));
            assert_eq!(sleepers.better_time(us(1001)), Some(us(1300)));
            add(9, us(1900));
            assert_eq!(sleepers.better_time(us(1300)), None, "it waited");
            assert_eq!(sleepers.better_time(us(1301)), Some(us(1900)));
            sleepers.gathered.set(false);
            assert_eq!(sleepers.better_time(us(3000)), None, "all are due");
            add(10, us(2002));
            sleepers.passed.set(us(700));
            assert_eq!(sleepers.better_time(us(1301)), Some(us(1700)), "no end: a millisecond after the last wake");
            assert_eq!(sleepers.better_time(us(1700)), None, "that is over");
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
