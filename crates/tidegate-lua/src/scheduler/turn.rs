//! How a run gets on: its light threads are resumed in turns, between which the worker does other work.

use std::ffi::c_int;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mlua_sys as ffi;

use super::run::{CURRENT, Outcome, Run};
use super::thread::LightThread;
use crate::budget::{Meter, Slice};
use crate::error::FailureKind;
use crate::panics;
use crate::phase::Phase;

/// Light threads resumed, or timers started, in one turn before other tasks of the worker get theirs.
const RESUMES_PER_TURN: u32 = 256;
/// After so long a turn ends as soon as the thread that runs yields.
const TURN: Duration = Duration::from_millis(5);

/// How long one run, or the timers of a virtual machine, have the worker for themselves.
#[derive(Default)]
pub(crate) struct Turn {
    resumes: u32,
    began: Option<Instant>,
}

impl Turn {
    /// Whether the turn is over. To be asked before each resume; the first costs no look at a clock.
    pub(crate) fn is_over(&mut self) -> bool {
        self.resumes += 1;
        match self.began {
            _ if self.resumes > RESUMES_PER_TURN => true,
            Some(began) => began.elapsed() > TURN,
            None => {
                if self.resumes > 1 {
                    self.began = Some(Instant::now());
                }
                false
            }
        }
    }
}

impl Run {
    /// Resumes `thread` once. Gives the run's outcome when that ended it.
    #[inline]
    pub(super) fn step(&self, thread: &Rc<LightThread>) -> Option<Outcome> {
        let status = self.resume(thread);
        match status {
            ffi::LUA_YIELD => {
                if let Some(reason) = self.stop.take() {
                    return Some(Outcome::Stopped(reason));
                }
                // SAFETY: it does not run, and nobody but the scheduler works with what it has left.
                let lua = unsafe { thread.coroutine.lua() };
                let waits = lua.top() == 1 && self.vm.is_token(lua, 1);
                lua.set_top(0);
                if !waits {
                    // The user's own coroutine.yield in a light thread: the others go first.
                    self.rest().posted.borrow_mut().push_back(thread.clone());
                }
                None
            }
            ffi::LUA_OK => self.end_thread(thread, Ok(())),
            error => self.end_thread(thread, Err(FailureKind::from_status(error))),
        }
    }

    #[inline]
    fn resume(&self, thread: &Rc<LightThread>) -> c_int {
        self.current.set(Rc::as_ptr(thread));
        let outer = CURRENT.replace(self);
        // SAFETY: `args` counts the values that were pushed for it, above its function if it is new.
        let status = unsafe { thread.coroutine.resume(thread.args.replace(0)) };
        CURRENT.set(outer);
        panics::go_on();
        status
    }

    #[inline]
    fn end_thread(&self, thread: &Rc<LightThread>, end: Result<(), FailureKind>) -> Option<Outcome> {
        if let Err(kind) = end {
            self.log_failure(thread, kind);
        }
        if Rc::ptr_eq(thread, &self.entry) {
            if end.is_err() {
                return Some(Outcome::Failed);
            }
            // SAFETY: it has ended, and nobody but the scheduler works with what it has left.
            let lua = unsafe { thread.coroutine.lua() };
            if self.keep_result {
                self.result.set(lua.to_bytes(1).map(<[u8]>::to_vec));
            }
            thread.end();
            lua.set_top(0);
        } else {
            self.end_user_thread(thread, end.is_ok());
        }
        let over = !self.entry.alive.get() && self.is_alone();
        over.then(|| self.stop.take().map_or(Outcome::Done, Outcome::Stopped))
    }

    fn next_posted(&self) -> Option<Rc<LightThread>> {
        let mut posted = self.rest.get()?.posted.borrow_mut();
        loop {
            let thread = posted.pop_front()?;
            if thread.alive.get() {
                return Some(thread);
            }
        }
    }

    /// Resumes posted threads until none is left, the turn is over or the run ends.
    pub(super) fn drive_posted(&self) -> Option<Outcome> {
        let mut turn = Turn::default();
        while !turn.is_over() {
            let thread = self.next_posted()?;
            if let Some(outcome) = self.step(&thread) {
                return Some(outcome);
            }
        }
        None
    }

    /// Scripts run from here on. Those that set up a worker may take their time: nobody waits for that worker yet.
    #[inline]
    pub(super) fn slice(&self) -> Option<Slice<'_>> {
        if matches!(self.phase(), Phase::Init | Phase::InitWorker) { None } else { self.vm.slice() }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let slice = self.slice();
        let meter = self.rest.get().and_then(|rest| rest.meter.get());
        let counting = slice.as_ref().zip(meter).and_then(|(slice, meter)| meter.count(slice));
        let outcome = self.take_turn(cx);
        drop(counting);
        match outcome {
            Poll::Ready(Some(outcome)) => Poll::Ready(outcome),
            Poll::Ready(None) => {
                self.rest().meter.get_or_init(Meter::default).start();
                // Not before the worker has looked at its connections: a wake-up alone would leave them out for long.
                let mut turn = pin!(tokio::task::yield_now());
                let _ = turn.as_mut().poll(cx);
                Poll::Pending
            }
            Poll::Pending => {
                // It waits: others had their turn, and its time counts anew.
                if let Some(meter) = self.rest.get().and_then(|rest| rest.meter.get()) {
                    meter.reset();
                }
                Poll::Pending
            }
        }
    }

    /// Resumes what is ready. `Ready(None)` when the turn is over before all is.
    fn take_turn(&self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let mut turn = Turn::default();
        loop {
            let next = self.next_posted();
            let Some(thread) = next.or_else(|| self.poll_waiting(cx)) else { return Poll::Pending };
            if turn.is_over() {
                self.rest().posted.borrow_mut().push_front(thread);
                return Poll::Ready(None);
            }
            if let Some(outcome) = self.step(&thread) {
                return Poll::Ready(Some(outcome));
            }
        }
    }

    /// Polls what was woken until one thread has its answer.
    fn poll_waiting(&self, cx: &mut Context<'_>) -> Option<Rc<LightThread>> {
        let rest = match self.rest.get() {
            Some(rest) if !rest.users.borrow().is_empty() => rest,
            _ => return self.entry.poll_alone(cx).then(|| self.entry.clone()),
        };
        // A future that wakes itself stands in the queue again: its next turn is the task's.
        for _ in 0..rest.woken.begin_poll(cx.waker()) {
            let thread = self.find_thread(rest.woken.pop()?);
            if let Some(thread) = thread.filter(|thread| thread.poll_queued()) {
                return Some(thread);
            }
        }
        None
    }
}

/// A run that waits. Dropping it ends its threads where they stand.
pub struct Waiting {
    pub(super) run: Box<Run>,
}

impl Waiting {
    /// The run, to ask for its phase and host.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Tells the script that the client went away. `false` when it has no `ngx.on_abort` function (any more); the run
    /// is then to be dropped.
    pub fn client_aborted(&self) -> bool {
        self.run.client_aborted()
    }

    /// The first value that the chunk returned, when it was started to keep it.
    pub fn take_result(&self) -> Option<Vec<u8>> {
        self.run.result.take()
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.run.poll(cx)
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("phase", &self.run.phase()).finish_non_exhaustive()
    }
}
