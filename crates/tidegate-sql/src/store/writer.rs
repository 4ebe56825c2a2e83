//! The write lock of a schema: one writer at a time, and whoever waits is a suspended session, never a thread.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
    time::{Duration, Instant},
};

/// The lock with its queue, first come first served.
#[derive(Default)]
pub(crate) struct WriteLock {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: bool,
    next_ticket: u64,
    queue: VecDeque<Waiter>,
    /// The holder could give the lock back, and does when somebody wants it.
    holder: Option<Waker>,
}

struct Waiter {
    ticket: u64,
    /// The lock was handed to this waiter while it slept.
    granted: bool,
    waker: Option<Waker>,
}

/// The right to write; gives it back when dropped.
pub(crate) struct WriteGuard {
    lock: Arc<WriteLock>,
    /// Another guard of the same session holds the lock.
    lent: bool,
}

impl WriteGuard {
    /// Whether somebody waits for this guard to go.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.lent && !self.lock.lock().queue.is_empty()
    }

    /// The right to write under a guard that the session keeps for longer.
    pub(crate) fn lent(lock: &Arc<WriteLock>) -> Self {
        Self { lock: Arc::clone(lock), lent: true }
    }
}

impl WriteLock {
    /// Takes the lock if nobody holds it or waits for it.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<WriteGuard> {
        let mut state = self.lock();
        if state.held {
            return None;
        }
        state.held = true;
        Some(WriteGuard { lock: Arc::clone(self), lent: false })
    }

    /// Whether somebody waits for the lock. If nobody does, `holder` is woken by the first who comes.
    pub(crate) fn is_wanted(&self, holder: &Waker) -> bool {
        let mut state = self.lock();
        let is_wanted = !state.queue.is_empty();
        state.holder = (!is_wanted).then(|| holder.clone());
        is_wanted
    }

    /// Waits for the lock. Dropping the future leaves the queue.
    pub(crate) async fn acquire(self: &Arc<Self>) -> WriteGuard {
        if let Some(guard) = self.try_acquire() {
            return guard;
        }
        let ticket = {
            let mut state = self.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.queue.push_back(Waiter { ticket, granted: false, waker: None });
            if let Some(holder) = state.holder.take() {
                holder.wake();
            }
            ticket
        };
        let place = Place { lock: self, ticket };
        let guard = poll_fn(|cx| {
            let mut state = self.lock();
            if !state.held {
                // Released between `try_acquire` and joining the queue: the first in it takes the lock.
                state.hand_over();
            }
            let Some(waiter) = state.queue.iter_mut().find(|waiter| waiter.ticket == ticket) else {
                return Poll::Pending;
            };
            if waiter.granted {
                state.queue.retain(|waiter| waiter.ticket != ticket);
                return Poll::Ready(WriteGuard { lock: Arc::clone(self), lent: false });
            }
            waiter.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        drop(place);
        guard
    }

    /// Takes the lock on a thread that may block, the checkpoint thread; `None` if it is not free in time.
    pub(crate) fn acquire_within(self: &Arc<Self>, time: Duration) -> Option<WriteGuard> {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = std::task::Context::from_waker(&waker);
        let mut future = std::pin::pin!(self.acquire());
        let begun = Instant::now();
        loop {
            if let Poll::Ready(guard) = future.as_mut().poll(&mut cx) {
                return Some(guard);
            }
            std::thread::park_timeout(time.checked_sub(begun.elapsed())?);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

use std::future::Future;

impl State {
    /// Gives the free lock to the first in the queue.
    fn hand_over(&mut self) {
        self.held = false;
        self.holder = None;
        if let Some(waiter) = self.queue.iter_mut().find(|waiter| !waiter.granted) {
            waiter.granted = true;
            self.held = true;
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        self.lock.lock().hand_over();
    }
}

/// A place in the queue, left when the wait ends early.
struct Place<'a> {
    lock: &'a WriteLock,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.lock();
        let Some(index) = state.queue.iter().position(|waiter| waiter.ticket == self.ticket) else { return };
        if state.queue.remove(index).is_some_and(|waiter| waiter.granted) {
            state.hand_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    #[test]
    fn first_come_first_served_and_leaving_early() {
        let lock = Arc::new(WriteLock::default());
        let held = lock.try_acquire().unwrap();
        assert!(lock.try_acquire().is_none());
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = Box::pin(lock.acquire());
        let mut second = Box::pin(lock.acquire());
        let mut third = Box::pin(lock.acquire());
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(third.as_mut().poll(&mut cx).is_pending());
        drop(held);
        drop(first); // was granted; the lock moves on
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(guard) = second.as_mut().poll(&mut cx) else { panic!("second has the lock") };
        drop(guard);
        assert!(third.as_mut().poll(&mut cx).is_ready());
        assert!(lock.try_acquire().is_some());
    }
}
