//! One light thread: a coroutine that the scheduler resumes.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::answer::Answer;
use super::waker::{ThreadWaker, WokenQueue};
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

/// What finds the light thread of a coroutine.
pub(super) fn key_of(coroutine: Coroutine) -> usize {
    coroutine.raw().addr()
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
    /// The light thread that waits for this one to end, if it has not found another meanwhile.
    waiter: RefCell<Option<Rc<LightThread>>>,
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
            waiter: RefCell::new(None),
        })
    }

    /// What finds it among the light threads of its run.
    pub(super) fn key(&self) -> usize {
        key_of(self.coroutine)
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
        let Self { coroutine: _, anchor: _, alive, parent, args, wait, answer, waker, waiter } = self;
        alive.set(false);
        parent.set(None);
        args.set(0);
        answer.set(None);
        // Taken out first: destructors may do anything, but not find a cell borrowed (I3). A waker holds the memory of its task.
        let taken = (wait.take(), waker.take(), waiter.take());
        drop(taken);
    }

    /// Waits for `future` from now on.
    pub(super) fn wait_for(&self, wait: Wait) {
        let old = self.wait.replace(wait);
        drop(old);
    }

    /// Makes `waiter` the one that waits for this one to end.
    pub(super) fn set_waiter(&self, waiter: &Rc<LightThread>) {
        let old = self.waiter.replace(Some(waiter.clone()));
        drop(old);
    }
    /// The light thread that waits for this one to end.
    pub(super) fn take_waiter(&self) -> Option<Rc<LightThread>> {
        let waits = |thread: &LightThread| matches!(&*thread.wait.borrow(), Wait::Threads(list) if list.contains(&self.coroutine));
        self.waiter.take().filter(|waiter| waits(waiter))
    }

    /// Puts it into the queue of those that are to be polled.
    pub(super) fn queue(&self, queue: &Arc<WokenQueue>) {
        let mut slot = self.waker.borrow_mut();
        let (own, _) = slot.get_or_insert_with(|| {
            let own = ThreadWaker::new(self.key(), queue);
            (own.clone(), Waker::from(own))
        });
        own.mark();
    }
    /// Polls after it was taken out of the queue.
    pub(super) fn poll_queued(&self) -> bool {
        let waker = match &*self.waker.borrow() {
            Some((own, waker)) => {
                own.clear();
                waker.clone()
            }
            // Of an earlier thread in the same place.
            None => return false,
        };
        self.poll(&mut Context::from_waker(&waker))
    }
    /// Polls as the only waiting thread of its run.
    pub(super) fn poll_alone(&self, cx: &mut Context<'_>) -> bool {
        self.poll(cx)
    }

    /// Polls the future, if there is one. When it is ready the answer is stored.
    fn poll(&self, cx: &mut Context<'_>) -> bool {
        // One that waits for others goes on waiting: it may be in the queue for a wait that is over.
        if !matches!(&*self.wait.borrow(), Wait::Future(_)) {
            return false;
        }
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
