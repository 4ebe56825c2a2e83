//! `lua_cpu_budget`: stops a script that computes for too long without waiting.
//!
//! One watchdog thread looks at every watched worker a few times per budget. When the same resume has used more than
//! its budget of processor time, the watchdog sends the worker's thread a signal; the handler, now on the right thread,
//! sets an instruction hook, and the hook raises an error in the script. LuaJIT is built to look at the hook mask in
//! compiled loops too (`LUAJIT_ENABLE_CHECKHOOK`). The hook stays until the resume ends: a `pcall` around the loop does
//! not save the script.
//!
//! The hot path pays two stores per resume, and only with the directive on.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread;
use std::time::Duration;

use mlua_sys as ffi;
use mlua_sys::{lua_Debug, lua_State};

use crate::function::place_of_script;
use crate::stack::Lua;

/// The signal that interrupts a worker. Its default action is to do nothing, so that a late one harms nobody.
const SIGNAL: c_int = libc::SIGURG;
/// Looks per budget: a script is stopped at most this fraction of its budget late.
const LOOKS_PER_BUDGET: u32 = 4;
/// The watchdog never looks more often than this.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(1);

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

/// What [`Watch::end`] must restore.
#[derive(Default)]
pub(crate) struct Nesting {
    outer: Option<*mut lua_State>,
}

thread_local! {
    /// The running script's state, for the signal handler; null while none runs.
    static RUNNING: Cell<*mut lua_State> = const { Cell::new(ptr::null_mut()) };
    /// The entry of the virtual machine that it belongs to.
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

    /// A script starts or goes on.
    pub(crate) fn begin(&self, lua: Lua) -> Nesting {
        let outer = RUNNING.replace(lua.raw());
        if outer.is_null() {
            RUNNING_WATCH.set(Arc::as_ptr(&self.shared));
            self.shared.sequence.fetch_add(1, Ordering::Relaxed);
        }
        Nesting { outer: Some(outer) }
    }

    /// The script ended or waits.
    pub(crate) fn end(&self, nesting: Nesting) {
        let Some(outer) = nesting.outer else { return };
        let lua = RUNNING.replace(outer);
        if !outer.is_null() {
            return;
        }
        self.shared.sequence.fetch_add(1, Ordering::Relaxed);
        if self.shared.fired.swap(false, Ordering::Relaxed) {
            // SAFETY: removes the hook that the handler set.
            unsafe { ffi::lua_sethook(lua, None, 0, 0) };
            MESSAGE.take();
        }
    }
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
    let state = RUNNING.get();
    let watched = RUNNING_WATCH.get();
    if state.is_null() || watched.is_null() {
        return;
    }
    // SAFETY: a script runs, hence its virtual machine and that one's entry exist.
    let watched = unsafe { &*watched };
    if watched.target.load(Ordering::Relaxed) == watched.sequence.load(Ordering::Relaxed) {
        watched.fired.store(true, Ordering::Relaxed);
        // SAFETY: the script that runs on this very thread; LuaJIT allows setting hooks from a signal handler.
        unsafe { ffi::lua_sethook(state, Some(on_hook), ffi::LUA_MASKCOUNT, 1) };
    }
}

/// Runs in the script, between two instructions.
unsafe extern "C-unwind" fn on_hook(state: *mut lua_State, _debug: *mut lua_Debug) {
    // SAFETY: LuaJIT passes the state that runs.
    let lua = unsafe { Lua::from_raw(state) };
    push_message(lua);
    // SAFETY: a hook may raise errors; nothing with a destructor is alive.
    unsafe { ffi::lua_error(state) };
}

/// Pushes the error. A script that caught it gets it again, with the place where it was stopped first.
fn push_message(lua: Lua) {
    MESSAGE.with_borrow_mut(|message| {
        if message.is_empty() {
            let watched = RUNNING_WATCH.get();
            // SAFETY: set while a script runs, see `on_signal`.
            let limit_ms = unsafe { watched.as_ref() }.map_or(0, |watched| watched.limit.as_millis());
            // A hook adds no frame: level 0 is the interrupted function.
            *message = place_of_script(lua, 0);
            message.extend_from_slice(format!("CPU budget of {limit_ms}ms exceeded").as_bytes());
        }
    });
    let message = MESSAGE.with_borrow(Clone::clone);
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
    let clock = (!thread << 3) | PER_THREAD_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a local; an unknown clock gives an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
