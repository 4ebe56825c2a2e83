//! One execution of one chunk and its light threads.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tidegate_core::request::Request;

use super::answer::Answer;
use super::failure::NotedFailure;
use super::thread::{LightThread, Wait};
use super::turn::Waiting;
use super::waker::WokenQueue;
use crate::budget::Meter;
use crate::error::LuaError;
use crate::host::Host;
use crate::phase::{Phase, Phases};
use crate::request_context::{LuaContext, ScriptTable};
use crate::stack::{Lua, Ref};
use crate::vm::Vm;

/// Why a script ended a run before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `ngx.exit(status)`, and what is built on it (`ngx.redirect`).
    Exit(i32),
    /// `ngx.exec`: the host knows where to.
    Exec,
    /// `ngx.req.set_uri(…, true)`: locations are searched again.
    Rewrite,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every thread came to its end.
    Done,
    /// A script stopped the run.
    Stopped(Stop),
    /// The entry thread failed; the error stands in the log.
    Failed,
}

/// A chunk after [`start`].
pub enum Started {
    /// It came to its end without waiting.
    Done(Outcome),
    /// It waits.
    Waiting(Waiting),
}

/// One execution of one chunk: its entry thread, its other light threads and whom they serve.
pub struct Run {
    pub(super) vm: Rc<Vm>,
    pub(super) host: Host,
    pub(super) phase: Cell<Phase>,
    pub(super) entry: Rc<LightThread>,
    pub(super) current: Cell<*const LightThread>,
    pub(super) stop: Cell<Option<Stop>>,
    pub(super) keep_result: bool,
    pub(super) result: Cell<Option<Vec<u8>>>,
    /// What most runs never need: they have one thread, which neither yields by itself nor fails.
    pub(super) rest: OnceCell<Box<Rest>>,
}

/// The part of a [`Run`] that is made when it is first needed.
#[derive(Default)]
pub(super) struct Rest {
    /// All but the entry thread, by their keys.
    pub(super) users: RefCell<FxHashMap<usize, Rc<LightThread>>>,
    /// Threads to resume next, in order. Those that were killed meanwhile are passed over.
    pub(super) posted: RefCell<VecDeque<Rc<LightThread>>>,
    /// Ended threads whose results a waiting parent has yet to take, by their keys.
    pub(super) lingering: RefCell<FxHashMap<usize, Rc<LightThread>>>,
    /// Those that wait and may have their answer.
    pub(super) woken: Arc<WokenQueue>,
    pub(super) failure: RefCell<Option<NotedFailure>>,
    /// `ngx.on_abort`: a thread that starts when the client goes away.
    pub(super) on_abort: RefCell<Option<Rc<LightThread>>>,
    /// Measures turns that follow one another without a wait.
    pub(super) meter: OnceCell<Meter>,
    /// `ngx.ctx` where there is no request.
    pub(super) script_table: ScriptTable,
}

thread_local! {
    pub(super) static CURRENT: Cell<*const Run> = const { Cell::new(ptr::null()) };
}

/// Calls `body` with the run whose Lua code is executing, if any is: `None` in finalizers during the end of a virtual
/// machine only.
#[inline]
pub fn with_run<R>(body: impl FnOnce(&Run) -> R) -> Option<R> {
    let run = CURRENT.get();
    if run.is_null() {
        return None;
    }
    // SAFETY: the pointer is set while `Run::resume`, which borrows the run, is on the stack of this thread (I2).
    Some(body(unsafe { &*run }))
}

/// Runs `chunk` (a function kept in the registry) for `host` until it ends or waits.
#[inline]
pub fn start(vm: &Rc<Vm>, host: Host, phase: Phase, chunk: Ref) -> Started {
    match start_with(vm, host, phase, false, |lua| {
        lua.push_ref(chunk);
        0
    }) {
        Ok(started) => started,
        Err(_) => Started::Done(Outcome::Failed),
    }
}

/// Runs the function that `prepare` pushes, followed by arguments whose count it returns.
///
/// `keep_result` keeps the first value that the function returns for [`Waiting::take_result`] and
/// [`Vm::take_result`].
///
/// # Errors
/// When there is no memory for a coroutine.
#[inline]
pub fn start_with(
    vm: &Rc<Vm>,
    host: Host,
    phase: Phase,
    keep_result: bool,
    prepare: impl FnOnce(&mut Lua) -> c_int,
) -> Result<Started, LuaError> {
    let entry = vm.take_thread()?;
    // SAFETY: a coroutine from the cache is nobody else's.
    let args = prepare(unsafe { entry.coroutine().lua() });
    Ok(Run::launch(vm, host, phase, keep_result, entry, args))
}

impl Run {
    /// Starts `entry`, on whose stack stand a function and `args` arguments.
    #[inline]
    pub(crate) fn launch(
        vm: &Rc<Vm>,
        host: Host,
        phase: Phase,
        keep_result: bool,
        entry: Rc<LightThread>,
        args: c_int,
    ) -> Started {
        entry.begin(args, None);
        let run = Run {
            vm: vm.clone(),
            host,
            phase: Cell::new(phase),
            current: Cell::new(Rc::as_ptr(&entry)),
            entry,
            stop: Cell::new(None),
            keep_result,
            result: Cell::new(None),
            rest: OnceCell::new(),
        };
        let slice = run.slice();
        // The commonest end of all comes first: one thread, no wait.
        let first = match run.step(&run.entry) {
            Some(outcome) => Some(outcome),
            None => run.drive_posted(),
        };
        drop(slice);
        match first {
            Some(outcome) => {
                if keep_result {
                    vm.keep_result(run.result.take());
                }
                Started::Done(outcome)
            }
            None => Started::Waiting(Waiting { run: Box::new(run) }),
        }
    }

    pub(super) fn rest(&self) -> &Rest {
        self.rest.get_or_init(Box::default)
    }

    /// The virtual machine.
    pub fn vm(&self) -> &Rc<Vm> {
        &self.vm
    }

    /// The request, timer or worker start that the script runs for.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The request that the script serves, if it serves one.
    pub fn request(&self) -> Option<&Rc<Request>> {
        self.host.request()
    }

    /// `ngx.ctx` of a run without a request.
    pub(crate) fn script_table(&self) -> &ScriptTable {
        let lasting = match &self.host {
            Host::Other(other) => other.script_table(),
            Host::Request(_) => None,
        };
        lasting.unwrap_or_else(|| &self.rest().script_table)
    }

    /// Whether its entry thread is all there is: nobody else could run while that waits.
    pub(crate) fn is_alone(&self) -> bool {
        self.rest.get().is_none_or(|rest| rest.users.borrow().is_empty())
    }

    /// The phase.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// The request, for API that needs one, in the phases of `allowed` only.
    ///
    /// # Errors
    /// `API disabled in the context of …`, or the words that lua-nginx-module has where there is no request at all.
    pub fn request_in(&self, allowed: Phases) -> Result<&Rc<Request>, LuaError> {
        allowed.check(self.phase())?;
        self.any_request()
    }

    /// The request, for API that needs one, in any phase.
    ///
    /// # Errors
    /// lua-nginx-module's message for code that runs without a request.
    pub fn any_request(&self) -> Result<&Rc<Request>, LuaError> {
        self.request().ok_or(match self.phase() {
            Phase::Init => LuaError::new("no request found"),
            _ => LuaError::new("API disabled in the current context"),
        })
    }

    /// Lets the running API function wait for `future`: its Lua half must call `await()` next.
    ///
    /// # Errors
    /// In a phase where scripts do not wait, or when the code that runs cannot be suspended (inside a metamethod, an
    /// iterator or a callback of a C function).
    pub fn wait(&self, lua: &Lua, future: impl Future<Output = Answer> + 'static) -> Result<(), LuaError> {
        self.wait_boxed(lua, Box::pin(future))
    }

    /// As [`Run::wait`], for a future that is large: each function that it is handed through may copy it.
    ///
    /// # Errors
    /// As [`Run::wait`].
    pub fn wait_boxed(&self, lua: &Lua, future: Pin<Box<dyn Future<Output = Answer>>>) -> Result<(), LuaError> {
        self.check_wait(lua)?;
        self.wait_for(future);
        Ok(())
    }

    /// As [`Run::wait`], from a function called through the FFI, which has no Lua state: a place that cannot be
    /// suspended shows when `await()` yields.
    ///
    /// # Errors
    /// In a phase where scripts do not wait.
    pub fn wait_ffi(&self, future: impl Future<Output = Answer> + 'static) -> Result<(), LuaError> {
        Phases::YIELDABLE.check(self.phase())?;
        self.wait_for(Box::pin(future));
        Ok(())
    }

    fn wait_for(&self, future: Pin<Box<dyn Future<Output = Answer>>>) {
        let thread = self.current_thread();
        thread.wait_for(Wait::Future(future));
        // A thread that is alone needs no queue.
        if let Some(rest) = self.rest.get() {
            thread.queue(&rest.woken);
        }
    }

    /// Whether [`Run::wait`] would let the running function wait.
    pub(crate) fn can_wait(&self, lua: &Lua) -> bool {
        self.check_wait(lua).is_ok()
    }

    pub(crate) fn check_wait(&self, lua: &Lua) -> Result<(), LuaError> {
        Phases::YIELDABLE.check(self.phase())?;
        if lua.is_yieldable() { Ok(()) } else { Err(LuaError::new("attempt to yield across C-call boundary")) }
    }

    /// Ends the run for `reason` as soon as the running function has called `await()`.
    ///
    /// # Errors
    /// When the code that runs cannot be suspended.
    pub fn stop(&self, lua: &Lua, reason: Stop) -> Result<(), LuaError> {
        if !lua.is_yieldable() {
            return Err(LuaError::new("attempt to yield across C-call boundary"));
        }
        /// What ends the connection ends sub-requests too: `ngx.ERROR`, 408, 444, 499.
        const ENDS_ALL: [i32; 4] = [-1, 408, 444, 499];
        if let Some(context) = self.request().and_then(|req| req.find_context::<LuaContext>())
            && !matches!(reason, Stop::Exit(status) if ENDS_ALL.contains(&status))
            && context.pending_subrequests.get() > 0
        {
            return Err(LuaError::new("attempt to abort with pending subrequests"));
        }
        self.stop.set(Some(reason));
        Ok(())
    }

    /// Makes `reason` the run's outcome when it comes to its end.
    pub fn stop_at_end(&self, reason: Stop) {
        self.stop.set(Some(reason));
    }

    /// The answer that the running function waited for.
    pub(crate) fn take_answer(&self) -> Answer {
        self.current_thread().answer.take().unwrap_or(Answer::Nothing)
    }

    pub(super) fn current_thread(&self) -> &LightThread {
        // SAFETY: points into an `Rc` that `entry` or `users` holds: it is set by `step`, which holds one as well.
        unsafe { &*self.current.get() }
    }
}

impl Drop for Run {
    #[inline]
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            rest.end(&self.vm);
        }
        if self.entry.alive.get() {
            self.entry.end();
        }
        self.vm.give_thread(self.entry.clone());
        if CURRENT.get().is_null() {
            self.vm.drop_hook(self.phase());
        }
    }
}
