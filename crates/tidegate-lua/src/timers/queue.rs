//! Timers that are pending, and the task that starts them when their time has come.
//!
//! One task serves all timers of a virtual machine: a timer is an entry here, and gets a task of its own only when its
//! function waits for something. The task ends with the last entry.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tidegate_net::{clock, sleep};

use super::Timer;
use crate::scheduler::Turn;

/// Pending timers of a virtual machine.
#[derive(Default)]
pub(super) struct Queue {
    /// Those that wait, by the millisecond in which they are due. No list is empty.
    waiting: RefCell<BTreeMap<u64, Vec<Timer>>>,
    /// Those whose time has come, in the order in which it came.
    due: RefCell<VecDeque<Timer>>,
    /// The task, while it waits.
    waker: Cell<Option<Waker>>,
}

impl Queue {
    /// An empty queue with its task. The first timer is to be added at once.
    pub(super) fn begin() -> Rc<Self> {
        let queue = Rc::new(Self::default());
        tokio::task::spawn_local(queue.clone().run());
        queue
    }

    /// Adds a timer, which is due when its delay is over.
    pub(super) fn add(&self, timer: Timer) {
        if timer.delay_ms == 0 {
            self.due.borrow_mut().push_back(timer);
            return self.wake();
        }
        let due_ms = sleep::now_ms().saturating_add(timer.delay_ms);
        let is_first = self.first_ms().is_none_or(|first_ms| due_ms < first_ms);
        self.waiting.borrow_mut().entry(due_ms).or_default().push(timer);
        if is_first {
            self.wake();
        }
    }

    /// Makes all that wait due, before their time.
    pub(super) fn end_all(&self) {
        for mut timer in self.waiting.take().into_values().flatten() {
            timer.premature = true;
            self.due.borrow_mut().push_back(timer);
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// When the first of those that wait is due.
    fn first_ms(&self) -> Option<u64> {
        self.waiting.borrow().first_key_value().map(|(&due_ms, _)| due_ms)
    }

    /// Starts timers until there are none.
    async fn run(self: Rc<Self>) {
        loop {
            clock::update();
            self.take_turn(sleep::now_ms());
            if !self.due.borrow().is_empty() {
                // Timers that create timers without end leave the worker time to look at its connections.
                tokio::task::yield_now().await;
            } else if let Some(first_ms) = self.first_ms() {
                self.wait(first_ms).await;
            } else {
                return;
            }
        }
    }

    /// Starts those that are due now, in the order in which they became so; the rest is left when the turn is over.
    fn take_turn(&self, now_ms: u64) {
        while self.first_ms().is_some_and(|first_ms| first_ms <= now_ms) {
            let first = self.waiting.borrow_mut().pop_first();
            self.due.borrow_mut().extend(first.into_iter().flat_map(|(_, timers)| timers));
        }
        let count = self.due.borrow().len();
        let mut turn = Turn::default();
        for _ in 0..count {
            if turn.is_over() {
                return;
            }
            // Scripts run below: nothing is borrowed.
            let Some(timer) = self.due.borrow_mut().pop_front() else { return };
            // A panic, which is in the log, ends the timer; the others go on.
            let _ = catch_unwind(AssertUnwindSafe(|| timer.start()));
        }
    }

    /// Waits until the clock shows `first_ms`, or until there is something to do before that.
    async fn wait(&self, first_ms: u64) {
        let mut sleep = pin!(sleep::until(first_ms));
        poll_fn(|cx| {
            let has_news = !self.due.borrow().is_empty() || self.first_ms().is_none_or(|ms| ms < first_ms);
            if has_news {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            sleep.as_mut().poll(cx)
        })
        .await;
    }
}
