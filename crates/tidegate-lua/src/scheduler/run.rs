//! One execution of one chunk and its light threads.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use mlua_sys as ffi;
use tidegate_core::request::Request;

use super::thread::{LightThread, Wait};
use crate::budget::{Meter, Slice};
use crate::error::{CResult, FailureKind, LuaError};
use crate::host::{Host, LogLevel};
use crate::panics;
use crate::phase::{Phase, Phases};
use crate::request_context::{LuaContext, ScriptTable};
use crate::stack::{Lua, Ref};
use crate::traceback;
use crate::vm::Vm;

/// Light threads resumed in one turn before other tasks of the worker get theirs.
const RESUMES_PER_TURN: u32 = 256;
/// After so long a turn ends as soon as the thread that runs yields.
const TURN: Duration = Duration::from_millis(5);

/// What a wait ends with: the results of the API function that waited.
pub enum Answer {
    /// No values.
    Nothing,
    /// `true`.
    True,
    /// `1`, the old API's way to say yes.
    One,
    /// `nil` and a message.
    NilError(Cow<'static, str>),
    /// `false` and a message.
    FalseError(Cow<'static, str>),
    /// Whatever the function pushes, or the error that it returns. It runs inside the coroutine.
    Push(Box<dyn FnOnce(Lua) -> CResult>),
    /// The results of a light thread that ended; they stand on its stack.
    Thread(Lua),
}

impl Answer {
    /// Pushes the results onto the coroutine that waited.
    pub(crate) fn push(self, lua: Lua) -> CResult {
        match self {
            Self::Nothing => Ok(0),
            Self::True => {
                lua.push_bool(true);
                Ok(1)
            }
            Self::One => {
                lua.push_integer(1);
                Ok(1)
            }
            Self::NilError(message) => {
                lua.push_nil();
                lua.push_bytes(message.as_bytes());
                Ok(2)
            }
            Self::FalseError(message) => {
                lua.push_bool(false);
                lua.push_bytes(message.as_bytes());
                Ok(2)
            }
            Self::Push(push) => push(lua),
            Self::Thread(thread) => {
                let count = thread.top();
                lua.reserve(count)?;
                thread.move_to(lua, count);
                Ok(count)
            }
        }
    }
}

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
    vm: Rc<Vm>,
    host: Host,
    phase: Cell<Phase>,
    entry: Rc<LightThread>,
    current: Cell<*const LightThread>,
    stop: Cell<Option<Stop>>,
    keep_result: bool,
    result: Cell<Option<Vec<u8>>>,
    /// What most runs never need: they have one thread, which neither yields by itself nor fails.
    rest: OnceCell<Box<Rest>>,
}

/// The part of a [`Run`] that is made when it is first needed.
#[derive(Default)]
struct Rest {
    users: RefCell<Vec<Rc<LightThread>>>,
    /// Threads to resume next, in order.
    posted: RefCell<VecDeque<Rc<LightThread>>>,
    /// Ended threads whose results a waiting parent has yet to take.
    lingering: RefCell<Vec<Rc<LightThread>>>,
    /// Where the next search for woken threads begins: none is favoured.
    poll_next: Cell<usize>,
    failure: RefCell<Option<NotedFailure>>,
    /// `ngx.on_abort`: a thread that starts when the client goes away.
    on_abort: RefCell<Option<Rc<LightThread>>>,
    /// Measures turns that follow one another without a wait.
    meter: OnceCell<Meter>,
    /// `ngx.ctx` where there is no request.
    script_table: ScriptTable,
}

/// How long one run has the worker for itself.
#[derive(Default)]
struct Turn {
    resumes: u32,
    began: Option<Instant>,
}

impl Turn {
    /// Whether the turn is over. To be asked before each resume; the first costs no look at a clock.
    fn is_over(&mut self) -> bool {
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

/// Stacks of coroutines that an error has gone through so far.
struct NotedFailure {
    message: Vec<u8>,
    coroutines: Vec<Vec<u8>>,
}

thread_local! {
    static CURRENT: Cell<*const Run> = const { Cell::new(ptr::null()) };
}

/// Calls `body` with the run whose Lua code is executing, if any is: `None` in finalizers during the end of a virtual
/// machine only.
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
    prepare: impl FnOnce(Lua) -> c_int,
) -> Result<Started, LuaError> {
    let entry = vm.take_thread()?;
    let args = prepare(entry.lua());
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

    fn rest(&self) -> &Rest {
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
        &self.rest().script_table
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
    pub fn wait(&self, lua: Lua, future: impl Future<Output = Answer> + 'static) -> Result<(), LuaError> {
        self.wait_boxed(lua, Box::pin(future))
    }

    /// As [`Run::wait`], for a future that is large: each function that it is handed through may copy it.
    ///
    /// # Errors
    /// As [`Run::wait`].
    pub fn wait_boxed(&self, lua: Lua, future: Pin<Box<dyn Future<Output = Answer>>>) -> Result<(), LuaError> {
        self.check_wait(lua)?;
        self.current_thread().wait_for(Wait::Future(future));
        Ok(())
    }

    /// As [`Run::wait`], from a function called through the FFI, which has no Lua state: a place that cannot be
    /// suspended shows when `await()` yields.
    ///
    /// # Errors
    /// In a phase where scripts do not wait.
    pub fn wait_ffi(&self, future: impl Future<Output = Answer> + 'static) -> Result<(), LuaError> {
        Phases::YIELDABLE.check(self.phase())?;
        self.current_thread().wait_for(Wait::Future(Box::pin(future)));
        Ok(())
    }

    /// Whether [`Run::wait`] would let the running function wait.
    pub(crate) fn can_wait(&self, lua: Lua) -> bool {
        self.check_wait(lua).is_ok()
    }

    fn check_wait(&self, lua: Lua) -> Result<(), LuaError> {
        Phases::YIELDABLE.check(self.phase())?;
        if lua.is_yieldable() { Ok(()) } else { Err(LuaError::new("attempt to yield across C-call boundary")) }
    }

    /// Ends the run for `reason` as soon as the running function has called `await()`.
    ///
    /// # Errors
    /// When the code that runs cannot be suspended.
    pub fn stop(&self, lua: Lua, reason: Stop) -> Result<(), LuaError> {
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

    fn current_thread(&self) -> &LightThread {
        // SAFETY: points into an `Rc` that `entry` or `users` holds: it is set by `step`, which holds one as well.
        unsafe { &*self.current.get() }
    }

    /// Whether `lua` is the coroutine of a light thread of this run that has not ended.
    pub(crate) fn is_alive(&self, lua: Lua) -> bool {
        (self.entry.lua == lua && self.entry.alive.get())
            || self.rest().users.borrow().iter().any(|user| user.lua == lua)
    }

    /// Adds a light thread whose coroutine holds a function and `args` arguments, kept alive by `anchor`. It runs next;
    /// its spawner, the running coroutine `parent`, goes on after those that are ready (it must call `await()`).
    pub(crate) fn spawn(&self, lua: Lua, anchor: Ref, args: c_int, parent: Lua) {
        let thread = LightThread::new(lua, anchor);
        thread.begin(args, Some(parent));
        self.rest().users.borrow_mut().push(thread.clone());
        let current = self.current_rc();
        let mut posted = self.rest().posted.borrow_mut();
        posted.push_front(thread);
        posted.extend(current);
    }

    /// Keeps a thread, whose coroutine holds a function, for the case that the client goes away. `false` if there is one
    /// already.
    pub(crate) fn set_on_abort(&self, lua: Lua, anchor: Ref, parent: Lua) -> bool {
        let mut slot = self.rest().on_abort.borrow_mut();
        if slot.is_some() {
            return false;
        }
        let thread = LightThread::new(lua, anchor);
        thread.begin(0, Some(parent));
        *slot = Some(thread);
        true
    }

    /// The client went away: starts the thread kept for that. `false` if there is none.
    fn client_aborted(&self) -> bool {
        let Some(thread) = self.rest().on_abort.take() else { return false };
        self.rest().users.borrow_mut().push(thread.clone());
        self.rest().posted.borrow_mut().push_back(thread);
        true
    }

    fn current_rc(&self) -> Option<Rc<LightThread>> {
        let current = self.current.get();
        if ptr::eq(current, Rc::as_ptr(&self.entry)) {
            return Some(self.entry.clone());
        }
        self.rest().users.borrow().iter().find(|user| ptr::eq(current, Rc::as_ptr(user))).cloned()
    }

    /// Lets the running function wait for the first of `threads` to end.
    ///
    /// # Errors
    /// As [`Run::wait`].
    pub(crate) fn wait_threads(&self, lua: Lua, threads: Vec<Lua>) -> Result<(), LuaError> {
        self.check_wait(lua)?;
        self.current_thread().wait_for(Wait::Threads(threads));
        Ok(())
    }

    /// Ends the light thread of coroutine `lua` where it stands; `false` if it is none or ended before.
    pub(crate) fn kill(&self, lua: Lua) -> bool {
        let at = self.rest().users.borrow().iter().position(|user| user.lua == lua);
        let Some(at) = at else { return false };
        let killed = self.remove_user(at);
        self.rest().posted.borrow_mut().retain(|thread| !Rc::ptr_eq(thread, &killed));
        killed.end();
        lua.reset();
        self.vm.main().unref(killed.anchor);
        true
    }

    fn remove_user(&self, at: usize) -> Rc<LightThread> {
        // Those behind move up: the search for woken threads must not skip one of them (the entry thread is number 0).
        let next = self.rest().poll_next.get();
        if at + 1 < next {
            self.rest().poll_next.set(next - 1);
        }
        self.rest().users.borrow_mut().remove(at)
    }

    /// Resumes `thread` once. Gives the run's outcome when that ended it.
    #[inline]
    fn step(&self, thread: &Rc<LightThread>) -> Option<Outcome> {
        let status = self.resume(thread);
        match status {
            ffi::LUA_YIELD => {
                if let Some(reason) = self.stop.take() {
                    return Some(Outcome::Stopped(reason));
                }
                let waits = thread.lua.top() == 1 && self.vm.is_token(thread.lua, 1);
                thread.lua.set_top(0);
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
        let status = thread.lua.resume(thread.args.replace(0));
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
            if self.keep_result {
                self.result.set(thread.lua.to_bytes(1).map(<[u8]>::to_vec));
            }
            thread.end();
            thread.lua.set_top(0);
        } else {
            self.end_user_thread(thread, end.is_ok());
        }
        let over = !self.entry.alive.get() && self.is_alone();
        over.then(|| self.stop.take().map_or(Outcome::Done, Outcome::Stopped))
    }

    /// Leaves `ok, results…` on the ended thread's stack and wakes a parent that waits for it.
    #[inline(never)]
    fn end_user_thread(&self, thread: &Rc<LightThread>, ok: bool) {
        let lua = thread.lua;
        if ok {
            lua.push_bool(true);
            lua.insert(1);
        } else {
            // The error value is all that remains of the failed function. As in lua-nginx-module it is what `error`
            // was given, without the position that it put in front.
            let shelf = self.vm.main();
            if lua.top() > 1
                && let (Some(given), Some(raised)) = (lua.to_bytes(1), lua.to_bytes(-1))
                && raised.ends_with(given)
            {
                lua.set_top(1);
            }
            lua.move_to(shelf, 1);
            lua.reset();
            lua.push_bool(false);
            shelf.move_to(lua, 1);
        }
        thread.end();
        let at = self.rest().users.borrow().iter().position(|user| Rc::ptr_eq(user, thread));
        if let Some(at) = at {
            self.remove_user(at);
        }
        match self.find_waiter(lua) {
            Some(waiter) => {
                waiter.wait.take();
                waiter.answer.set(Some(Answer::Thread(lua)));
                self.rest().posted.borrow_mut().push_front(waiter);
                self.rest().lingering.borrow_mut().push(thread.clone());
            }
            // From here on only the script's own reference keeps it: an ended thread that nobody can wait for is garbage.
            None => self.vm.main().unref(thread.anchor),
        }
    }

    /// Lets go of an ended thread whose results were taken.
    pub(crate) fn release(&self, lua: Lua) {
        let released = {
            let mut lingering = self.rest().lingering.borrow_mut();
            let at = lingering.iter().position(|thread| thread.lua == lua);
            at.map(|at| lingering.swap_remove(at))
        };
        if let Some(thread) = released {
            self.vm.main().unref(thread.anchor);
        }
    }

    fn find_waiter(&self, ended: Lua) -> Option<Rc<LightThread>> {
        let waits =
            |thread: &LightThread| matches!(&*thread.wait.borrow(), Wait::Threads(list) if list.contains(&ended));
        if self.entry.alive.get() && waits(&self.entry) {
            return Some(self.entry.clone());
        }
        self.rest().users.borrow().iter().find(|user| waits(user)).cloned()
    }

    /// Remembers the stack of a coroutine whose error goes on to the coroutine that resumed it (`coroutine.wrap`).
    pub(crate) fn note_failure(&self, lua: Lua, message: &[u8]) {
        let levels = traceback::levels(lua);
        let mut slot = self.rest().failure.borrow_mut();
        match &mut *slot {
            Some(failure) if failure.message == message => failure.coroutines.push(levels),
            _ => *slot = Some(NotedFailure { message: message.to_vec(), coroutines: vec![levels] }),
        }
    }

    #[cold]
    fn log_failure(&self, thread: &Rc<LightThread>, kind: FailureKind) {
        let message = traceback::error_text(thread.lua);
        let is_entry = Rc::ptr_eq(thread, &self.entry);
        let (mut text, trace) = match (self.phase().failure_prefix(), is_entry) {
            (Some(prefix), true) => {
                let trace = [b"stack traceback:", traceback::levels(thread.lua).as_slice()].concat();
                (format!("{prefix}: ").into_bytes(), trace)
            }
            _ => {
                let noted = self.rest().failure.take().filter(|failure| failure.message == message);
                let below = noted.map_or_else(Vec::new, |failure| failure.coroutines);
                let own = self.parents(thread).into_iter().map(traceback::levels);
                let who = if is_entry { "entry" } else { "user" };
                let text = format!("lua {who} thread aborted: {}: ", kind.as_str()).into_bytes();
                (text, traceback::of_coroutines(below.into_iter().chain(own)))
            }
        };
        text.extend_from_slice(&message);
        text.push(b'\n');
        text.extend_from_slice(&trace);
        self.host.log(LogLevel::Error, &text);
    }

    /// The coroutine that failed and the light threads above it that are still alive.
    fn parents(&self, thread: &LightThread) -> Vec<Lua> {
        let mut chain = vec![thread.lua];
        let mut above = thread.parent.get();
        while let Some(lua) = above {
            // A parent that is no light thread may be collected by now: it is compared, not looked into.
            if !self.is_alive(lua) || chain.contains(&lua) {
                break;
            }
            chain.push(lua);
            above = self.rest().users.borrow().iter().find(|user| user.lua == lua).and_then(|user| user.parent.get());
        }
        chain
    }

    fn next_posted(&self) -> Option<Rc<LightThread>> {
        self.rest.get()?.posted.borrow_mut().pop_front()
    }

    /// Resumes posted threads until none is left, the turn is over or the run ends.
    fn drive_posted(&self) -> Option<Outcome> {
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
    fn slice(&self) -> Option<Slice<'_>> {
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
        let count = self.rest.get().map_or(0, |rest| rest.users.borrow().len());
        if count == 0 {
            return self.entry.poll_alone(cx).then(|| self.entry.clone());
        }
        let first = self.rest().poll_next.get();
        for step in 0..=count {
            let index = (first + step) % (count + 1);
            let thread = match index.checked_sub(1) {
                None => self.entry.clone(),
                Some(user) => match self.rest().users.borrow().get(user) {
                    Some(user) => user.clone(),
                    None => continue,
                },
            };
            if thread.poll_woken(cx) {
                self.rest().poll_next.set(index + 1);
                return Some(thread);
            }
        }
        None
    }
}

impl Rest {
    /// Ends the threads where they stand.
    #[cold]
    fn end(self: Box<Self>, vm: &Vm) {
        let kept = self.on_abort.take();
        for user in self.users.take().into_iter().chain(kept) {
            user.end();
            user.lua.reset();
            vm.main().unref(user.anchor);
        }
        for ended in self.lingering.take() {
            vm.main().unref(ended.anchor);
        }
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

/// A run that waits. Dropping it ends its threads where they stand.
pub struct Waiting {
    run: Box<Run>,
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
