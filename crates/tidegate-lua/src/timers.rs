//! Timers of a virtual machine: what is pending, what runs, and their end with the worker.

mod queue;

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use mlua_sys as ffi;
use mlua_sys::lua_Debug;

use crate::budget::Meter;
use crate::function::c_bytes;
use crate::host::{Host, LogLevel};
use crate::phase::Phase;
use crate::scheduler::{LightThread, Run, Started};
use crate::stack::Lua;
use crate::vm::{Vm, VmUse};

use queue::Queue;

/// Counts and bounds of a virtual machine's timers.
pub(crate) struct Timers {
    pending_max: usize,
    running_max: usize,
    running: Cell<usize>,
    pending: Cell<usize>,
    exiting: Cell<bool>,
    /// Those that are pending. The task that starts them owns it, and is there as long as there are any.
    queue: RefCell<Weak<Queue>>,
    /// Who waits for the last timer to end.
    idle_waker: Cell<Option<Waker>>,
}

/// Why a timer is not created.
pub(crate) enum Refusal {
    Exiting,
    TooManyPending,
}

impl Timers {
    pub(crate) fn new(pending_max: usize, running_max: usize) -> Self {
        Self {
            pending_max,
            running_max,
            running: Cell::new(0),
            pending: Cell::new(0),
            exiting: Cell::new(false),
            queue: RefCell::default(),
            idle_waker: Cell::new(None),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.get()
    }

    /// Whether a timer with a delay of so many milliseconds may be created now.
    pub(crate) fn check(&self, delay_ms: u64) -> Result<(), Refusal> {
        if self.exiting.get() && delay_ms > 0 {
            return Err(Refusal::Exiting);
        }
        if self.pending.get() >= self.pending_max { Err(Refusal::TooManyPending) } else { Ok(()) }
    }

    fn queue(&self) -> Rc<Queue> {
        let found = self.queue.borrow().upgrade();
        found.unwrap_or_else(|| {
            let queue = Queue::begin();
            self.queue.replace(Rc::downgrade(&queue));
            queue
        })
    }

    fn wake_idle(&self) {
        if self.pending.get() == 0
            && self.running.get() == 0
            && let Some(waker) = self.idle_waker.take()
        {
            waker.wake();
        }
    }
}

impl Vm {
    /// Ends all pending timers now: their functions run with `premature` true, and no timer with a delay is created
    /// any more. The worker calls it when it begins to exit.
    pub fn end_timers(&self) {
        self.timers.exiting.set(true);
        let queue = self.timers.queue.borrow().upgrade();
        if let Some(queue) = queue {
            queue.end_all();
        }
    }

    /// How many timers are pending.
    pub(crate) fn pending_timers(&self) -> usize {
        self.timers.pending()
    }

    /// Waits until no timer is pending or runs. One caller at a time.
    pub async fn timers_ended(&self) {
        poll_fn(|cx| {
            if self.timers.pending() == 0 && self.timers.running() == 0 {
                return Poll::Ready(());
            }
            self.timers.idle_waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Counts a running timer for as long as it lives.
struct Running(Rc<Vm>);

impl Running {
    fn new(vm: &Rc<Vm>) -> Self {
        vm.timers.running.set(vm.timers.running.get() + 1);
        Self(vm.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.timers.running.set(self.0.timers.running.get() - 1);
        self.0.timers.wake_idle();
    }
}

thread_local! {
    /// The time of the running timer and of those that led to it, until it waits.
    static CHAIN: RefCell<Option<Rc<Meter>>> = const { RefCell::new(None) };
}

/// Creates a timer whose function and arguments stand on the stack of `thread`.
pub(crate) fn launch(vm: &Rc<Vm>, host: Host, thread: Rc<LightThread>, delay_ms: u64, repeats: bool) {
    let timers = &vm.timers;
    timers.pending.set(timers.pending.get() + 1);
    // A timer without a delay goes on with what created it, if that is a timer as well.
    let chain = if delay_ms == 0 { CHAIN.with_borrow(Clone::clone) } else { None };
    let thread = Some(thread);
    let vm_use = VmUse::another(vm);
    timers.queue().add(Timer { vm: vm.clone(), host, thread, delay_ms, repeats, premature: false, chain, vm_use });
}

/// A timer that is pending.
struct Timer {
    vm: Rc<Vm>,
    host: Host,
    /// A pooled coroutine, which goes back to its pool if the timer never runs. `None` when the timer is pending no more.
    thread: Option<Rc<LightThread>>,
    delay_ms: u64,
    /// Another one follows each that ends (`ngx.timer.every`).
    repeats: bool,
    /// The worker ends before its time.
    premature: bool,
    chain: Option<Rc<Meter>>,
    vm_use: Option<VmUse>,
}

impl Timer {
    /// Runs its function, in a task of its own from its first wait on.
    fn start(mut self) {
        self.host.log_debug(b"lua ngx.timer expired");
        // The next one is pending before this one runs: the interval does not depend on how long it takes.
        let next = self.thread.as_ref().filter(|_| self.repeats && !self.premature);
        let next = next.and_then(|thread| copy(&self.vm, thread));
        let Some(thread) = self.take_thread() else { return };
        if let Some(next) = next {
            launch(&self.vm, self.host.clone(), next, self.delay_ms, true);
        }
        let (vm, host) = (self.vm.clone(), self.host.clone());
        if vm.timers.running() >= vm.timers.running_max {
            refuse(&vm, &host, thread);
            return;
        }
        let running = Running::new(&vm);
        // SAFETY: it does not run yet, and only its timer works with its stack.
        let lua = unsafe { thread.coroutine().lua() };
        lua.push_bool(self.premature);
        lua.insert(2);
        let args = lua.top() - 1;
        let chain = self.chain.take().inspect(|chain| chain.start()).unwrap_or_default();
        match start(&vm, host.clone(), thread, args, chain) {
            Started::Done(_) => host.log_debug(b"http lua close fake http connection"),
            Started::Waiting(waiting) => {
                let vm_use = self.vm_use.take();
                tokio::task::spawn_local(async move {
                    waiting.await;
                    host.log_debug(b"http lua close fake http connection");
                    drop(running);
                    drop(vm_use);
                });
            }
        }
    }

    /// It is pending no more.
    fn take_thread(&mut self) -> Option<Rc<LightThread>> {
        let thread = self.thread.take()?;
        self.vm.timers.pending.set(self.vm.timers.pending.get() - 1);
        Some(thread)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(thread) = self.take_thread() {
            self.vm.give_thread(thread);
        }
    }
}

/// Says that a timer's function does not run since too many do.
#[cold]
fn refuse(vm: &Rc<Vm>, host: &Host, thread: Rc<LightThread>) {
    // SAFETY: it does not run, and only its timer works with its stack.
    let place = place_of_function(unsafe { thread.coroutine().lua() });
    let text = format!(": {} lua_max_running_timers are not enough", vm.timers.running_max);
    let text = [b"lua failed to run timer with function defined at ", place.as_slice(), text.as_bytes()].concat();
    host.log(LogLevel::Alert, &text);
    host.log_debug(b"http lua close fake http connection");
    vm.give_thread(thread);
    vm.timers.wake_idle();
}

/// A second coroutine with the same function and arguments.
fn copy(vm: &Rc<Vm>, thread: &LightThread) -> Option<Rc<LightThread>> {
    let next = vm.take_thread().ok()?;
    // SAFETY: it does not run, and only its timer works with its stack.
    let from = unsafe { thread.coroutine().lua() };
    let count = from.top();
    if from.reserve(count).is_err() || next.coroutine().reserve(count).is_err() {
        vm.give_thread(next);
        return None;
    }
    for index in 1..=count {
        from.push_value(index);
    }
    from.move_to(next.coroutine(), count);
    Some(next)
}

/// Runs a timer's function up to its first wait, on the time of `chain`.
fn start(vm: &Rc<Vm>, host: Host, thread: Rc<LightThread>, args: c_int, chain: Rc<Meter>) -> Started {
    let slice = vm.slice();
    let _counting = slice.as_ref().and_then(|slice| chain.count(slice));
    let around = CHAIN.replace(Some(chain.clone()));
    let started = Run::launch(vm, host, Phase::Timer, false, thread, args);
    CHAIN.set(around);
    started
}

/// `source:line` of the function at the bottom of the stack.
fn place_of_function(lua: &mut Lua) -> Vec<u8> {
    let mut debug = MaybeUninit::<lua_Debug>::zeroed();
    lua.push_value(1);
    // SAFETY: the function is on top, which ">" pops; `source` belongs to the function below, which stays.
    let (source, line): (&[u8], c_int) = unsafe {
        ffi::lua_getinfo(lua.raw(), c">S".as_ptr(), debug.as_mut_ptr());
        let debug = debug.assume_init_ref();
        (c_bytes(debug.source.cast::<c_char>()), debug.linedefined)
    };
    [source, b":", line.to_string().as_bytes()].concat()
}
