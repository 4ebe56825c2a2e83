//! One light thread: a coroutine that the scheduler resumes.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::answer::Answer;
use super::waker::ThreadWaker;
use crate::stack::{Coroutine, Ref};

/// What a light thread waits for.
#[derive(Default)]
pub(super) enum Wait {
    /// Nothing: it runs, is about to, or ended.
    #[default]
    Nothing,
    /// An API call's future.
    Future(Pin<Box<dyn Future<Output = Answer>>>),
    /// The first of some light threads to end.
    Threads(Vec<Coroutine>),
}

/// One light thread. Entry threads are pooled by the virtual machine and reused.
pub(crate) struct LightThread {
    pub(super) coroutine: Coroutine,
    /// Keeps the coroutine alive.
    pub(crate) anchor: Ref,
    pub(super) alive: Cell<bool>,
    /// The coroutine that spawned it: only that one may wait for it or kill it. Never dereferenced.
    pub(super) parent: Cell<Option<Coroutine>>,
    /// Values on its stack that the next resume takes as arguments.
    pub(super) args: Cell<c_int>,
    pub(super) wait: RefCell<Wait>,
    pub(super) answer: Cell<Option<Answer>>,
    waker: RefCell<Option<(Arc<ThreadWaker>, Waker)>>,
    /// The last poll used the task's own waker: there is no bit, so the next poll of several must include this one.
    polled_directly: Cell<bool>,
}

impl LightThread {
    pub(crate) fn new(coroutine: Coroutine, anchor: Ref) -> Rc<Self> {
        Rc::new(Self {
            coroutine,
            anchor,
            alive: Cell::new(false),
            parent: Cell::new(None),
            args: Cell::new(0),
            wait: RefCell::default(),
            answer: Cell::new(None),
            waker: RefCell::new(None),
            polled_directly: Cell::new(false),
        })
    }

    /// Its coroutine.
    pub(crate) fn coroutine(&self) -> Coroutine {
        self.coroutine
    }

    pub(super) fn begin(&self, args: c_int, parent: Option<Coroutine>) {
        self.alive.set(true);
        self.args.set(args);
        self.parent.set(parent);
    }

    /// Forgets everything of the run that it served: the only way back into the pool leads through here, and then through
    /// [`Coroutine::reset`]. A new field does not compile until somebody decides what becomes of it.
    #[inline]
    pub(super) fn end(&self) {
        let Self { coroutine: _, anchor: _, alive, parent, args, wait, answer, waker, polled_directly } = self;
        alive.set(false);
        parent.set(None);
        args.set(0);
        answer.set(None);
        polled_directly.set(false);
        // Taken out first: destructors may do anything, but not find a cell borrowed (I3). A waker holds the memory of its task.
        let taken = (wait.take(), waker.take());
        drop(taken);
    }

    /// Waits for `future` from now on.
    pub(super) fn wait_for(&self, wait: Wait) {
        if let Some((waker, _)) = &*self.waker.borrow() {
            waker.mark();
        }
        let old = self.wait.replace(wait);
        drop(old);
    }

    /// Polls as the only waiting thread of its run.
    pub(super) fn poll_alone(&self, cx: &mut Context<'_>) -> bool {
        self.polled_directly.set(true);
        self.poll(cx)
    }

    /// Polls if it was woken since the last time.
    pub(super) fn poll_woken(&self, cx: &mut Context<'_>) -> bool {
        if !matches!(&*self.wait.borrow(), Wait::Future(_)) {
            return false;
        }
        let waker = {
            let mut slot = self.waker.borrow_mut();
            let (own, waker) = match &mut *slot {
                Some(pair) if pair.0.wakes(cx.waker()) => pair,
                _ => {
                    let own = ThreadWaker::new(cx.waker());
                    slot.insert((own.clone(), Waker::from(own)))
                }
            };
            if !(own.take() || self.polled_directly.get()) {
                return false;
            }
            waker.clone()
        };
        self.polled_directly.set(false);
        self.poll(&mut Context::from_waker(&waker))
    }

    /// Polls the future, if there is one. When it is ready the answer is stored.
    fn poll(&self, cx: &mut Context<'_>) -> bool {
        let Wait::Future(mut future) = self.wait.take() else { return false };
        match future.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                self.answer.set(Some(answer));
                true
            }
            Poll::Pending => {
                self.wait.replace(Wait::Future(future));
                false
            }
        }
    }
}
