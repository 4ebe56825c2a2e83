//! Timers of a virtual machine: what is pending, what runs, and their end with the worker.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use mlua_sys as ffi;
use mlua_sys::lua_Debug;
use tidegate_net::{clock, sleep};

use crate::budget::Meter;
use crate::function::c_bytes;
use crate::host::{Host, LogLevel};
use crate::phase::Phase;
use crate::scheduler::{LightThread, Run, Started};
use crate::stack::Lua;
use crate::vm::{Vm, VmUse};

/// Counts and bounds of a virtual machine's timers.
pub(crate) struct Timers {
    pending_max: usize,
    running_max: usize,
    running: Cell<usize>,
    exiting: Cell<bool>,
    waiting: RefCell<Vec<Weak<Alarm>>>,
    pending: Cell<usize>,
    /// Who waits for the last timer to end.
    idle_waker: Cell<Option<Waker>>,
}

/// Why a timer is not created.
pub(crate) enum Refusal {
    Exiting,
    TooManyPending,
}

/// Lets the end of the worker wake a pending timer before its time.
#[derive(Default)]
struct Alarm {
    waker: Cell<Option<Waker>>,
}

impl Timers {
    pub(crate) fn new(pending_max: usize, running_max: usize) -> Self {
        Self {
            pending_max,
            running_max,
            running: Cell::new(0),
            exiting: Cell::new(false),
            waiting: RefCell::default(),
            pending: Cell::new(0),
            idle_waker: Cell::new(None),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.get()
    }

    /// Whether a timer with `delay` may be created now.
    pub(crate) fn check(&self, delay: Duration) -> Result<(), Refusal> {
        if self.exiting.get() && !delay.is_zero() {
            return Err(Refusal::Exiting);
        }
        if self.pending.get() >= self.pending_max { Err(Refusal::TooManyPending) } else { Ok(()) }
    }

    fn add_alarm(&self) -> Rc<Alarm> {
        let alarm = Rc::new(Alarm::default());
        let mut waiting = self.waiting.borrow_mut();
        // Amortised: the list is swept when it would grow.
        if waiting.len() == waiting.capacity() {
            waiting.retain(|alarm| alarm.strong_count() > 0);
        }
        waiting.push(Rc::downgrade(&alarm));
        alarm
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
        let waiting = self.timers.waiting.take();
        for alarm in waiting.iter().filter_map(Weak::upgrade) {
            if let Some(waker) = alarm.waker.take() {
                waker.wake();
            }
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

/// Counts a pending timer for as long as it lives.
struct Pending(Rc<Vm>);

impl Pending {
    fn new(vm: &Rc<Vm>) -> Self {
        vm.timers.pending.set(vm.timers.pending.get() + 1);
        Self(vm.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.timers.pending.set(self.0.timers.pending.get() - 1);
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

/// A pooled coroutine that goes back to its pool if the timer never runs.
struct Prepared {
    vm: Rc<Vm>,
    thread: Option<Rc<LightThread>>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.vm.give_thread(thread);
        }
    }
}

thread_local! {
    /// The time of the running timer and of those that led to it, until it waits.
    static CHAIN: RefCell<Option<Rc<Meter>>> = const { RefCell::new(None) };
}

/// Starts a timer whose function and arguments stand on the stack of `thread`.
pub(crate) fn launch(vm: &Rc<Vm>, host: Host, thread: Rc<LightThread>, delay: Duration, repeat: bool) {
    let pending = Pending::new(vm);
    let alarm = if delay.is_zero() { None } else { Some(vm.timers.add_alarm()) };
    // A timer without a delay goes on with what created it, if that is a timer as well.
    let chain = if delay.is_zero() { CHAIN.with_borrow(Clone::clone) } else { None };
    let mut prepared = Prepared { vm: vm.clone(), thread: Some(thread) };
    let vm_use = VmUse::another(vm);
    let vm = vm.clone();
    tokio::task::spawn_local(async move {
        if chain.is_some() {
            // Timers that create timers without end leave the worker time to look at its connections.
            tokio::task::yield_now().await;
        }
        let premature = match &alarm {
            Some(alarm) => expire(&vm, alarm, delay).await,
            None => false,
        };
        clock::update();
        host.log_debug(b"lua ngx.timer expired");
        // The next one is pending before this one runs: the interval does not depend on how long it takes.
        let next =
            if repeat && !premature { prepared.thread.as_ref().and_then(|thread| copy(&vm, thread)) } else { None };
        drop(pending);
        if let Some(next) = next {
            launch(&vm, host.clone(), next, delay, true);
        }
        if let Some(thread) = prepared.thread.take() {
            run(&vm, host, thread, premature, chain).await;
        }
        vm.timers.wake_idle();
        drop(vm_use);
    });
}

/// Waits for `delay` or the end of the worker; `true` for the latter.
async fn expire(vm: &Rc<Vm>, alarm: &Alarm, delay: Duration) -> bool {
    let mut sleep = pin!(sleep::sleep(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)));
    poll_fn(|cx| {
        if sleep.as_mut().poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        if vm.timers.exiting.get() {
            return Poll::Ready(true);
        }
        alarm.waker.set(Some(cx.waker().clone()));
        Poll::Pending
    })
    .await
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

async fn run(vm: &Rc<Vm>, host: Host, thread: Rc<LightThread>, premature: bool, chain: Option<Rc<Meter>>) {
    // SAFETY: it does not run yet, and only its timer works with its stack.
    let lua = unsafe { thread.coroutine().lua() };
    if vm.timers.running() >= vm.timers.running_max {
        let place = place_of_function(lua);
        let text = format!(": {} lua_max_running_timers are not enough", vm.timers.running_max);
        let text = [b"lua failed to run timer with function defined at ", place.as_slice(), text.as_bytes()].concat();
        host.log(LogLevel::Alert, &text);
        host.log_debug(b"http lua close fake http connection");
        vm.give_thread(thread);
        return;
    }
    let _running = Running::new(vm);
    lua.push_bool(premature);
    lua.insert(2);
    let args = lua.top() - 1;
    let chain = chain.inspect(|chain| chain.start()).unwrap_or_default();
    if let Started::Waiting(waiting) = start(vm, host.clone(), thread, args, chain) {
        waiting.await;
    }
    host.log_debug(b"http lua close fake http connection");
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
