//! Time limits that hardly ever strike: cheap to set, looked at ten times a second.
//!
//! A wait for a peer has a limit of seconds, and almost always ends long before. Setting one of these costs two stores,
//! where an exact timer would enter and leave a timer wheel. They come late by one look at most
//! ([`crate::worker`], `DEADLINE_CHECK`).
//!
//! A deadline belongs to a connection and is used for one wait after another.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    task::{Context, Waker},
};

use crate::clock;

/// A time limit for whoever waits.
#[derive(Debug, Default)]
pub struct Deadline {
    /// When the wait is over, in milliseconds of [`clock::steady_ms`]; 0 for never.
    at_ms: Cell<u64>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

thread_local! {
    static ALL: RefCell<Vec<Weak<Deadline>>> = const { RefCell::new(Vec::new()) };
}

impl Deadline {
    /// A deadline that the worker of this thread looks at; nothing is limited yet.
    pub fn new() -> Rc<Self> {
        if let Some(worker) = crate::worker::current() {
            worker.check_from_now_on();
        }
        let deadline = Rc::new(Deadline::default());
        ALL.with_borrow_mut(|all| all.push(Rc::downgrade(&deadline)));
        deadline
    }
    /// Begins a wait of at most `timeout_ms`; 0 for one without limit.
    pub fn arm(&self, timeout_ms: u64) {
        self.expired.set(false);
        self.at_ms.set(if timeout_ms == 0 { 0 } else { clock::steady_ms().saturating_add(timeout_ms) });
    }
    /// Whether a wait has begun that has a limit.
    pub fn is_armed(&self) -> bool {
        self.at_ms.get() != 0
    }
    /// The wait is over.
    pub fn disarm(&self) {
        self.at_ms.set(0);
        self.expired.set(false);
    }
    /// Whether the time is up; otherwise the task of `cx` is woken when it is.
    pub fn poll_expired(&self, cx: &Context<'_>) -> bool {
        if self.expired.get() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }
    fn check(&self, now_ms: u64) {
        let at_ms = self.at_ms.get();
        if at_ms != 0 && now_ms >= at_ms {
            self.at_ms.set(0);
            self.expired.set(true);
            if let Some(waker) = self.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    }
}

/// Whether this thread has none.
pub(crate) fn is_empty() -> bool {
    ALL.with_borrow(Vec::is_empty)
}

/// Wakes whose time is up; called a few times a second on each worker's thread.
pub(crate) fn check_all(now_ms: u64) {
    ALL.with_borrow_mut(|all| {
        all.retain(|deadline| match deadline.upgrade() {
            Some(deadline) => {
                deadline.check(now_ms);
                true
            }
            None => false,
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strikes_when_time_is_up() {
        let deadline = Deadline::new();
        let cx = Context::from_waker(Waker::noop());
        deadline.arm(50);
        let now_ms = clock::steady_ms();
        check_all(now_ms + 49);
        assert!(!deadline.poll_expired(&cx));
        check_all(now_ms + 50);
        assert!(deadline.poll_expired(&cx));
        deadline.disarm();
        deadline.arm(0);
        check_all(u64::MAX);
        assert!(!deadline.poll_expired(&cx));
    }
}
