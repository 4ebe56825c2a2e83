//! Threads of `ngx.run_worker_thread`: they run Lua functions that compute or block, away from the event loops.
//!
//! Each `thread_pool` has up to `threads=` threads, started when there is work for them and ended when there was none for
//! a while. A thread keeps a virtual machine of its own, with the API that needs neither request nor event loop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use bstr::{BStr, BString};
use tidegate_core::conf::Config;
use tidegate_net::clock;
use tokio::sync::oneshot;

use crate::api::push_registry;
use crate::host::Detached;
use crate::phase::Phase;
use crate::portable::{Value, collect_garbage};
use crate::scheduler::{Run, Started};
use crate::settings;
use crate::vm::Vm;

/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(30);

/// nginx has this pool without being told.
const DEFAULT_POOL: (&str, usize) = ("default", 32);

/// The results of a function, or why there are none.
pub(crate) type Results = Result<Vec<Value>, Vec<u8>>;

/// A function to call.
pub(crate) struct Task {
    pub(crate) config: Arc<Config>,
    pub(crate) module: Vec<u8>,
    pub(crate) function: Vec<u8>,
    pub(crate) arguments: Vec<Value>,
    pub(crate) reply: oneshot::Sender<Results>,
    pub(crate) slot: Slot,
}

/// One of the virtual machines that a worker may use at a time (`lua_worker_thread_vm_pool_size`).
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    /// Slots that this worker has taken.
    static TAKEN: Arc<AtomicUsize> = Arc::default();
    /// What the function that runs on this thread came to.
    static RESULTS: RefCell<Option<Results>> = const { RefCell::new(None) };
}

impl Slot {
    /// Takes one of `limit`; `None` if there is none left.
    pub(crate) fn take(limit: usize) -> Option<Slot> {
        TAKEN.with(|taken| {
            if taken.load(Ordering::Relaxed) >= limit {
                return None;
            }
            taken.fetch_add(1, Ordering::Relaxed);
            Some(Slot(taken.clone()))
        })
    }
}

/// Keeps what the function on this thread came to.
pub(crate) fn keep_results(results: Results) {
    RESULTS.set(Some(results));
}

/// The threads of a `thread_pool`.
pub(crate) struct Pool {
    name: BString,
    threads_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    threads: usize,
    idle: usize,
}

static POOLS: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

impl Pool {
    /// The pool of this name, if the configuration has it.
    pub(crate) fn find(config: &Config, name: &BStr) -> Option<Arc<Pool>> {
        let configured = config.main().thread_pools.iter().find(|(pool, _)| *pool == name);
        let threads = match configured {
            Some((_, threads)) => usize::try_from(*threads).unwrap_or(usize::MAX).max(1),
            None if name == DEFAULT_POOL.0 => DEFAULT_POOL.1,
            None => return None,
        };
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.iter().find(|pool| pool.name == name && pool.threads_max == threads) {
            return Some(pool.clone());
        }
        let pool =
            Arc::new(Pool { name: name.into(), threads_max: threads, state: Mutex::default(), work: Condvar::new() });
        pools.push(pool.clone());
        Some(pool)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a thread of the pool run `task`.
    ///
    /// # Errors
    /// When no thread can be started and none is there.
    pub(crate) fn post(self: &Arc<Self>, task: Task) -> std::io::Result<()> {
        let mut state = self.lock();
        if state.idle <= state.tasks.len() && state.threads < self.threads_max {
            let pool = self.clone();
            match thread::Builder::new().name("tidegate-lua".into()).spawn(move || pool.serve()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(error),
                Err(_) => {}
            }
        }
        state.tasks.push_back(task);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// What a thread does.
    fn serve(&self) {
        let mut machine: Option<(Weak<Config>, Rc<Vm>)> = None;
        while let Some(task) = self.next() {
            clock::update();
            let Task { config, module, function, arguments, reply, slot } = task;
            let config_now = Arc::downgrade(&config);
            machine = machine.filter(|(of, _)| of.ptr_eq(&config_now));
            if machine.is_none() {
                machine = make_machine(&config).map(|vm| (config_now, vm));
            }
            drop(config);
            let results = match &machine {
                // A panic is in the log; what it has left behind in this thread's machine is nobody's any more.
                Some((_, vm)) => match catch_unwind(AssertUnwindSafe(|| call(vm, &module, &function, &arguments))) {
                    Ok(results) => results,
                    Err(_) => {
                        machine = None;
                        Err(b"the function panicked".to_vec())
                    }
                },
                None => Err(b"no available Lua vm".to_vec()),
            };
            drop((slot, arguments));
            // Whoever has asked may have gone.
            let _ = reply.send(results);
            if let Some((_, vm)) = &machine {
                collect_garbage(vm.main());
            }
        }
    }

    /// The next task; `None` when the thread is to end.
    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                return Some(task);
            }
            state.idle += 1;
            let (again, wait) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if wait.timed_out() && state.tasks.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

fn make_machine(config: &Arc<Config>) -> Option<Rc<Vm>> {
    let mut settings = config.http_conf(&settings::MODULE).vm_config(config.prefix.clone());
    // Long computations are what these threads are for.
    settings.cpu_budget = None;
    settings.blocking_warn = None;
    Vm::new(settings).ok()
}

static RUNNER_KEY: u8 = 0;

/// Where the registry has the Lua function that calls the user's.
pub(crate) fn runner_key() -> *const c_void {
    (&raw const RUNNER_KEY).cast()
}

fn call(vm: &Rc<Vm>, module: &[u8], function: &[u8], arguments: &[Value]) -> Results {
    let no_memory = |_| b"no memory".to_vec();
    let thread = vm.take_thread().map_err(no_memory)?;
    // SAFETY: the body uses its own stack only.
    let prepared = unsafe { vm.main().lua() }.protect(|lua| {
        lua.reserve(8)?;
        push_registry(lua, runner_key());
        lua.push_bytes(module);
        lua.push_bytes(function);
        for argument in arguments {
            argument.push(lua)?;
        }
        let count = lua.top();
        thread.coroutine().reserve(count)?;
        lua.move_to(thread.coroutine(), count);
        Ok(())
    });
    if let Err(failure) = prepared {
        vm.give_thread(thread);
        return Err(failure.message);
    }
    let args = thread.coroutine().top() - 1;
    let host = Detached::host(Phase::WorkerThread.context_name());
    RESULTS.set(None);
    match Run::launch(vm, host, Phase::WorkerThread, false, thread, args) {
        Started::Done(_) => RESULTS.take().unwrap_or_else(|| Err(b"the function did not come to its end".to_vec())),
        Started::Waiting(_) => Err(b"attempt to yield in a worker thread".to_vec()),
    }
}
