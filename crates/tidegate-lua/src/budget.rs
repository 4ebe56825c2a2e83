//! `lua_cpu_budget`: stops a request whose scripts compute for too long without waiting.
//!
//! The time counts for a [`Slice`]: one turn of a request's light threads, nested scripts (filters) included. A request that
//! takes turn after turn without waiting is measured by a [`Meter`] over all of them.
//!
//! One watchdog thread looks at every watched worker a few times per budget. When the same slice has used more than
//! its budget of processor time, the watchdog sends the worker's thread a signal; the handler, now on the right thread,
//! sets an instruction hook, and the hook raises an error in the script. LuaJIT is built to look at the hook mask in
//! compiled loops too (`LUAJIT_ENABLE_CHECKHOOK`), and its pattern matcher and parser look as well
//! (`tidegate-luajit/guard.c`). The hook stays until the slice ends: a `pcall` around the loop does not save the script.
//!
//! The hot path pays two stores per slice.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread;
use std::time::Duration;

use mlua_sys::lua_State;

use crate::error::LuaError;
use crate::function::place_of_script;
use crate::panics;
use crate::stack::{Coroutine, Lua};

/// The signal that interrupts a worker. Its default action is to do nothing, so that a late one harms nobody.
const SIGNAL: c_int = libc::SIGURG;
/// Looks per budget: a script is stopped at most this fraction of its budget late.
const LOOKS_PER_BUDGET: u32 = 4;
/// The watchdog never looks more often than this.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Functions of Lua's library that may stand between a script and the place where it is stopped.
const LIBRARY_LEVELS_MAX: c_int = 4;

/// One worker's entry in the watchdog's list.
struct Watched {
    /// Odd while a script runs; grows with every begin and end.
    sequence: AtomicU64,
    /// The sequence that the signal is meant for: one that comes late must not stop the next script.
    target: AtomicU64,
    /// The hook was set.
    fired: AtomicBool,
    thread: libc::pid_t,
    limit: Duration,
}

/// The budget of one virtual machine, which must stay on the thread that made it.
pub(crate) struct Watch {
    shared: Arc<Watched>,
}

/// A stretch of time in which scripts of one request run. Dropping it ends it.
pub(crate) struct Slice<'a> {
    watch: &'a Watch,
    lua: Coroutine,
    /// The script around this one, or null.
    outer: *mut lua_State,
}

unsafe extern "C-unwind" {
    /// See `tidegate-luajit/guard.c`.
    pub(crate) fn tidegate_lua_stop(state: *mut lua_State);
    /// See `tidegate-luajit/guard.c`.
    pub(crate) fn tidegate_lua_unstop(state: *mut lua_State);
}

thread_local! {
    /// The main state of the machine whose script runs, for the signal handler; null while none runs.
    static RUNNING: Cell<*mut lua_State> = const { Cell::new(ptr::null_mut()) };
    /// The entry of the machine whose slice is the outermost.
    static RUNNING_WATCH: Cell<*const Watched> = const { Cell::new(ptr::null()) };
    /// The error that the running script was stopped with; empty until then.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

static WATCHED: Mutex<Vec<Weak<Watched>>> = Mutex::new(Vec::new());

impl Watch {
    pub(crate) fn new(limit: Duration) -> Self {
        let shared = Arc::new(Watched {
            sequence: AtomicU64::new(0),
            target: AtomicU64::new(0),
            fired: AtomicBool::new(false),
            // SAFETY: has no preconditions.
            thread: unsafe { libc::gettid() },
            limit,
        });
        watched().push(Arc::downgrade(&shared));
        start_watchdog();
        Self { shared }
    }

    /// Scripts of the machine with the main state `lua` run from here on.
    #[inline]
    pub(crate) fn begin(&self, lua: Coroutine) -> Slice<'_> {
        let outer = RUNNING.replace(lua.raw());
        if outer.is_null() {
            RUNNING_WATCH.set(Arc::as_ptr(&self.shared));
            self.shared.sequence.fetch_add(1, Ordering::Relaxed);
        }
        Slice { watch: self, lua, outer }
    }

    /// The budget.
    pub(crate) fn limit(&self) -> Duration {
        self.shared.limit
    }
}

impl Slice<'_> {
    /// Stops what runs in it, now and until it ends.
    #[cold]
    fn strike(&self) {
        if let Some(outermost) = outermost() {
            outermost.fired.store(true, Ordering::Relaxed);
            // SAFETY: the machine lives as long as the slice, on this thread.
            unsafe { tidegate_lua_stop(self.lua.raw()) };
        }
    }
}

impl Drop for Slice<'_> {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.outer);
        if self.outer.is_null() {
            let shared = &self.watch.shared;
            shared.sequence.fetch_add(1, Ordering::Relaxed);
            if shared.fired.swap(false, Ordering::Relaxed) {
                // SAFETY: the machine lives as long as the slice, on this thread.
                unsafe { tidegate_lua_unstop(self.lua.raw()) };
                MESSAGE.take();
            }
        } else if self.outer != self.lua.raw()
            && outermost().is_some_and(|watched| watched.fired.load(Ordering::Relaxed))
        {
            // Two machines: the script around this one is to stop as well.
            // SAFETY: both live on this thread; the outer one has a slice further up the stack.
            unsafe {
                tidegate_lua_unstop(self.lua.raw());
                tidegate_lua_stop(self.outer);
            }
        }
    }
}

/// The entry of the outermost slice of this thread, if a script runs.
fn outermost<'a>() -> Option<&'a Watched> {
    if RUNNING.get().is_null() {
        return None;
    }
    // SAFETY: set by the outermost slice, whose machine holds the entry; a script runs, so that slice has not ended.
    unsafe { RUNNING_WATCH.get().as_ref() }
}

/// Whether the script that runs is being stopped.
#[inline]
pub(crate) fn is_stopped() -> bool {
    outermost().is_some_and(|watched| watched.fired.load(Ordering::Relaxed)) || panics::stop_message().is_some()
}

/// The error of a function of ours that ends since its script is being stopped.
#[cold]
pub(crate) fn stop_error() -> LuaError {
    if let Some(message) = panics::stop_message() {
        return LuaError::Bare(message.to_vec());
    }
    LuaError::from(excess())
}

/// What a script is told that has used up its time.
fn excess() -> String {
    let limit_ms = outermost().map_or(0, |watched| watched.limit.as_millis());
    format!("CPU budget of {limit_ms}ms exceeded")
}

/// Calls `body`, which makes another machine, as if no script ran around it: that script's end is not the machine's.
pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
    /// Goes back in when it is dropped.
    struct Inside(*mut lua_State);
    impl Drop for Inside {
        fn drop(&mut self) {
            RUNNING.set(self.0);
            if outermost().is_some_and(|watched| watched.fired.load(Ordering::Relaxed)) {
                // SAFETY: a script of this machine runs further up the stack.
                unsafe { tidegate_lua_stop(self.0) };
            }
        }
    }
    let fired = outermost().is_some_and(|watched| watched.fired.load(Ordering::Relaxed));
    let inside = Inside(RUNNING.replace(ptr::null_mut()));
    if fired {
        // SAFETY: as above.
        unsafe { tidegate_lua_unstop(inside.0) };
    }
    body()
}

/// Processor time of scripts that take turn after turn without waiting. It costs system calls: for what is no common request.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// `None` while there is nothing to measure.
    spent: Cell<Option<Duration>>,
}

impl Meter {
    /// Measures from now on.
    pub(crate) fn start(&self) {
        self.spent.set(Some(self.spent.get().unwrap_or_default()));
    }

    /// Measures no more, and forgets what was spent.
    pub(crate) fn reset(&self) {
        self.spent.set(None);
    }

    /// Counts the time from here until the result is dropped. Stops the slice if the budget has been spent before.
    pub(crate) fn count<'a>(&'a self, slice: &Slice<'_>) -> Option<Counting<'a>> {
        if self.spent.get()? > slice.watch.limit() {
            slice.strike();
        }
        Some(Counting { meter: self, began: own_cpu() })
    }
}

/// See [`Meter::count`].
pub(crate) struct Counting<'a> {
    meter: &'a Meter,
    began: Duration,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let used = own_cpu().saturating_sub(self.began);
        self.meter.spent.set(self.meter.spent.get().map(|spent| spent + used));
    }
}

/// Processor time that this thread has used.
fn own_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn watched() -> std::sync::MutexGuard<'static, Vec<Weak<Watched>>> {
    // The list is valid whatever happened to a thread that held the lock.
    WATCHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn start_watchdog() {
    static START: Once = Once::new();
    START.call_once(|| {
        install_handler();
        // Without the thread there is no budget, but also no harm: the scripts run as if the directive were off.
        let _ = thread::Builder::new().name("lua-budget".into()).spawn(watchdog);
    });
}

fn install_handler() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a zeroed sigaction is valid; the handler is async-signal-safe as LuaJIT's own front end relies on it:
    // it reads a thread-local cell and calls lua_sethook.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(SIGNAL, action, ptr::null_mut());
    }
}

extern "C" fn on_signal(_signal: c_int) {
    let Some(watched) = outermost() else { return };
    if watched.target.load(Ordering::Relaxed) == watched.sequence.load(Ordering::Relaxed) {
        watched.fired.store(true, Ordering::Relaxed);
        // SAFETY: the machine whose script runs on this very thread; LuaJIT allows setting hooks from a signal handler.
        unsafe { tidegate_lua_stop(RUNNING.get()) };
    }
}

/// Pushes the error of a script that is stopped. One that caught it gets it again, with the place where it was stopped
/// first.
///
/// # Safety
/// `state` is the one that runs.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn tidegate_lua_push_stop_message(state: *mut lua_State, level: c_int) {
    // SAFETY: live, by this function's contract.
    let lua = unsafe { Lua::from_raw(state) };
    if let Some(message) = panics::stop_message() {
        return lua.push_bytes(message);
    }
    let message = MESSAGE.with_borrow_mut(|message| {
        if message.is_empty() {
            // The function of Lua's library may have been called by another one, by pcall say.
            let places = (level..level + LIBRARY_LEVELS_MAX).map(|level| place_of_script(lua, level));
            *message = places.into_iter().find(|place| !place.is_empty()).unwrap_or_default();
            message.extend_from_slice(excess().as_bytes());
        }
        message.clone()
    });
    lua.push_bytes(&message);
}

/// What the watchdog remembers of a worker between two looks.
struct Look {
    watched: Weak<Watched>,
    sequence: u64,
    cpu_at_start: Duration,
}

fn watchdog() {
    let mut looks: Vec<Look> = Vec::new();
    loop {
        let mut interval = Duration::from_secs(1);
        {
            let mut list = watched();
            list.retain(|entry| entry.strong_count() > 0);
            for entry in list.iter().filter_map(Weak::upgrade) {
                interval = interval.min(entry.limit / LOOKS_PER_BUDGET);
                look_at(&entry, &mut looks);
            }
        }
        looks.retain(|look| look.watched.strong_count() > 0);
        thread::sleep(interval.max(LOOK_INTERVAL_MIN));
    }
}

fn look_at(entry: &Arc<Watched>, looks: &mut Vec<Look>) {
    let sequence = entry.sequence.load(Ordering::Relaxed);
    let at = looks.iter().position(|look| ptr::eq(look.watched.as_ptr(), Arc::as_ptr(entry)));
    let Some(at) = at else {
        let cpu_at_start = thread_cpu(entry.thread);
        looks.push(Look { watched: Arc::downgrade(entry), sequence, cpu_at_start });
        return;
    };
    let look = &mut looks[at];
    if look.sequence != sequence {
        look.sequence = sequence;
        look.cpu_at_start = thread_cpu(entry.thread);
        return;
    }
    let runs = sequence % 2 == 1;
    if runs && thread_cpu(entry.thread).saturating_sub(look.cpu_at_start) > entry.limit {
        entry.target.store(sequence, Ordering::Relaxed);
        // SAFETY: a plain system call; a thread that is gone gives an error. (pthread_kill would be undefined then.)
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), entry.thread, SIGNAL) };
    }
}

/// Processor time that `thread` has used; zero if it is gone.
fn thread_cpu(thread: libc::pid_t) -> Duration {
    // The kernel's name for "this thread's CPU clock" (MAKE_THREAD_CPUCLOCK with CPUCLOCK_SCHED), from the thread's
    // number: pthread_getcpuclockid would want a pthread_t that may be stale.
    const PER_THREAD_SCHED: libc::clockid_t = 4 | 2;
    clock((!thread << 3) | PER_THREAD_SCHED)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a local; an unknown clock gives an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
