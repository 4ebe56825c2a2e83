//! A LuaJIT virtual machine: one per worker thread (and one per request with `lua_code_cache off`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mlua_sys as ffi;

use crate::allocator;
use crate::api;
use crate::api::ctx::Numbers;
use crate::api::shdict::OpenDict;
use crate::budget::{self, Slice, Watch};
use crate::chunk::ChunkId;
use crate::error::{Failure, FailureKind, LuaError};
use crate::host::{Detached, LogLevel};
use crate::memory::MemoryLimit;
use crate::panics;
use crate::phase::Phase;
use crate::rows::Shapes;
use crate::scheduler::LightThread;
use crate::shdict::Zone;
use crate::stack::{Coroutine, Lua, Ref};
use crate::timers::Timers;

/// What the `lua_*` directives of the `http` level say.
#[derive(Debug, Clone)]
pub struct VmConfig {
    /// `lua_package_path`, if given.
    pub package_path: Option<Vec<u8>>,
    /// `lua_package_cpath`, if given.
    pub package_cpath: Option<Vec<u8>>,
    /// `lua_prefer_bundled`: modules in the binary win over copies on the paths.
    pub prefers_bundled: bool,
    /// The server's prefix: `$prefix` in the two paths, `ngx.config.prefix()`.
    pub prefix: PathBuf,
    /// `lua_thread_cache_max_entries`: coroutines kept for reuse.
    pub thread_cache_max_entries: usize,
    /// `lua_max_pending_timers`
    pub max_pending_timers: usize,
    /// `lua_max_running_timers`
    pub max_running_timers: usize,
    /// `lua_memory_limit`: bytes of Lua objects, if limited.
    pub memory_limit: Option<usize>,
    /// `lua_cpu_budget`: processor time that a script may use without waiting, if limited.
    pub cpu_budget: Option<Duration>,
    /// `lua_blocking_warn`: calls of `io.*` and `os.*` that take so long are named in the log.
    pub blocking_warn: Option<Duration>,
    /// `lua_os_exit`
    pub os_exit: OsExit,
    /// `lua_regex_cache_max_entries`: compiled patterns that are kept.
    pub regex_cache_max_entries: usize,
    /// `lua_regex_match_limit`; 0 for PCRE's own.
    pub regex_match_limit: u32,
    /// `lua_shared_dict`
    pub shared_dicts: Vec<Arc<Zone>>,
}

impl Default for VmConfig {
    /// lua-nginx-module's defaults.
    fn default() -> Self {
        Self {
            package_path: None,
            package_cpath: None,
            prefers_bundled: false,
            prefix: PathBuf::from("/"),
            thread_cache_max_entries: 1024,
            max_pending_timers: 1024,
            max_running_timers: 256,
            memory_limit: None,
            cpu_budget: None,
            blocking_warn: None,
            os_exit: OsExit::Request,
            regex_cache_max_entries: 1024,
            regex_match_limit: 0,
            shared_dicts: Vec::new(),
        }
    }
}

/// What `os.exit` does. In nginx it ends a worker process, and the supervisor starts another; here the workers are threads
/// of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OsExit {
    /// Ends the request.
    Request,
    /// Raises an error.
    Error,
    /// Ends the process.
    Process,
}

impl OsExit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Request, Self::Error, Self::Process];
}

/// A virtual machine and what the Rust side keeps beside it.
pub struct Vm {
    main: Coroutine,
    config: VmConfig,
    dicts: Vec<OpenDict>,
    idle: RefCell<Vec<Rc<LightThread>>>,
    /// Compiled inline chunks by [`ChunkId`].
    pub(crate) chunks: RefCell<Vec<Option<Ref>>>,
    /// Compiled files by path.
    pub(crate) files: RefCell<HashMap<Vec<u8>, Ref>>,
    pub(crate) timers: Timers,
    /// What rows of `resty.mysql` look like.
    pub(crate) row_shapes: Shapes,
    /// Numbers of the tables that are `ngx.ctx`.
    pub(crate) script_tables: Numbers,
    result: Cell<Option<Vec<u8>>>,
    /// Requests and timers that keep a machine of `lua_code_cache off` alive; 0 for one of a worker.
    users: Cell<u32>,
    /// A hook was set as the worker started.
    keeps_hook: Cell<bool>,
    budget: Option<Watch>,
    /// Freed after the state: its allocations go through it.
    memory: Option<Box<MemoryLimit>>,
}

/// Garbage that may gather between two cycles of the collector. LuaJIT's measure is the heap's own size, and that of most
/// applications is some 100 KB: all of it would be marked again every hundred requests.
const GC_ROOM: usize = 4 << 20;

/// Where `lua_memory_limit` has room for fewer of them, the collector keeps LuaJIT's pace.
const GC_ROOMS_MIN: usize = 32;

/// The address that scripts yield to say "suspend me": see [`crate::scheduler`].
static TOKEN: u8 = 0;

impl Vm {
    /// Creates a virtual machine with the whole API loaded.
    ///
    /// # Errors
    /// When there is no memory, or bundled code fails (a bug).
    pub fn new(config: VmConfig) -> Result<Rc<Self>, Failure> {
        let state = allocator::new_state();
        if state.is_null() {
            return Err(Failure {
                message: b"no memory for a Lua virtual machine".to_vec(),
                traceback: Vec::new(),
                kind: FailureKind::Memory,
            });
        }
        // SAFETY: just created; `Vm` closes it when dropped.
        let main = unsafe { Coroutine::from_raw(state) };
        main.guard_stack();
        let vm = Rc::new(Self {
            main,
            budget: config.cpu_budget.map(Watch::new),
            memory: config.memory_limit.map(|limit| MemoryLimit::install(main, limit)),
            timers: Timers::new(config.max_pending_timers, config.max_running_timers),
            row_shapes: Shapes::default(),
            script_tables: Numbers::default(),
            dicts: config.shared_dicts.iter().map(OpenDict::new).collect(),
            config,
            idle: RefCell::default(),
            chunks: RefCell::default(),
            files: RefCell::default(),
            result: Cell::new(None),
            users: Cell::new(0),
            keeps_hook: Cell::new(false),
        });
        budget::outside(|| {
            // SAFETY: nobody else works with the new state.
            unsafe { main.lua() }.protect(|lua| {
                // SAFETY: a fresh state in a protected context.
                unsafe { ffi::luaL_openlibs(lua.raw()) };
                Ok(())
            })?;
            api::load(&vm)
        })?;
        Ok(vm)
    }

    /// The main state. Its stack is empty between calls.
    pub fn main(&self) -> Coroutine {
        self.main
    }

    /// The configuration that it was made with.
    pub fn config(&self) -> &VmConfig {
        &self.config
    }

    /// The zones of `lua_shared_dict`.
    pub(crate) fn dicts(&self) -> &[OpenDict] {
        &self.dicts
    }

    /// Bytes of Lua objects in use.
    pub fn allocated_bytes(&self) -> usize {
        self.main.allocated_bytes()
    }

    /// The token's address.
    pub(crate) fn token() -> *const c_void {
        (&raw const TOKEN).cast()
    }

    /// Whether the value at `index` is the token.
    pub(crate) fn is_token(&self, lua: &Lua, index: c_int) -> bool {
        std::ptr::eq(lua.to_userdata(index), Self::token())
    }

    /// A coroutine with an empty stack, from the cache if it has one.
    #[inline]
    pub(crate) fn take_thread(&self) -> Result<Rc<LightThread>, LuaError> {
        self.relieve_memory();
        let cached = self.idle.borrow_mut().pop();
        match cached {
            Some(thread) => Ok(thread),
            None => self.new_thread(),
        }
    }

    #[cold]
    fn new_thread(&self) -> Result<Rc<LightThread>, LuaError> {
        let mut created = None;
        // SAFETY: the body uses its own stack only.
        let made = unsafe { self.main.lua() }.protect(|lua| {
            let thread = lua.push_new_thread();
            created = Some((thread, lua.make_ref()));
            Ok(())
        });
        match (made, created) {
            (Ok(()), Some((thread, anchor))) => {
                thread.mark_scheduled(None);
                Ok(LightThread::new(thread, anchor))
            }
            _ => Err(LuaError::new("no memory for a coroutine")),
        }
    }

    /// Collects garbage when `lua_memory_limit` is near; without a limit leaves the collector [`GC_ROOM`].
    pub(crate) fn relieve_memory(&self) {
        match &self.memory {
            Some(memory) if memory.limit() < GC_ROOM * GC_ROOMS_MIN => memory.relieve(self.main, || self.slice()),
            Some(memory) => {
                self.main.set_gc_room(GC_ROOM);
                memory.relieve(self.main, || self.slice());
            }
            None => self.main.set_gc_room(GC_ROOM),
        }
    }

    /// Takes a coroutine back, whatever state it is in.
    pub(crate) fn give_thread(&self, thread: Rc<LightThread>) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < self.config.thread_cache_max_entries && thread.coroutine().reset() {
            idle.push(thread);
            return;
        }
        drop(idle);
        self.main.unref(thread.anchor);
    }

    /// A script of `phase` has ended. A hook that it leaves behind (`debug.sethook`) is the machine's and would run in all
    /// others, so that it goes; one that was set as the worker started, a profiler's say, is meant for all.
    #[inline]
    pub(crate) fn drop_hook(&self, phase: Phase) {
        if self.main.has_hook() && !self.keeps_hook.get() {
            match phase {
                Phase::Init | Phase::InitWorker => self.keeps_hook.set(true),
                _ => self.main.drop_hook(),
            }
        }
    }

    /// Coroutines that wait for their next use.
    #[cfg(test)]
    pub(crate) fn idle_threads(&self) -> usize {
        self.idle.borrow().len()
    }

    pub(crate) fn keep_result(&self, result: Option<Vec<u8>>) {
        self.result.set(result);
    }

    /// The first value that a chunk returned which was started to keep it and ended at once.
    pub fn take_result(&self) -> Option<Vec<u8>> {
        self.result.take()
    }

    /// The compiled inline chunk `id`, if it was compiled before.
    pub(crate) fn chunk(&self, id: ChunkId) -> Option<Ref> {
        self.chunks.borrow().get(id.index()).copied().flatten()
    }

    /// Scripts run from here on, on the machine's budget if it has one.
    #[inline]
    pub(crate) fn slice(&self) -> Option<Slice<'_>> {
        self.budget.as_ref().map(|watch| watch.begin(self.main))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Finalizers run in here.
        let _slice = self.budget.as_ref().map(|watch| watch.begin(self.main));
        if let Some(memory) = &self.memory {
            memory.uninstall(self.main);
        }
        // SAFETY: the last use: runs and timers hold the `Rc` that just went away.
        unsafe { ffi::lua_close(self.main.raw()) };
        panics::forget(self.main);
    }
}

/// A reason why a virtual machine that is not a worker's lives on.
pub(crate) struct VmUse(Rc<Vm>);

impl VmUse {
    /// The request that the machine was made for.
    pub(crate) fn first(vm: &Rc<Vm>) -> Self {
        vm.users.set(1);
        Self(vm.clone())
    }

    /// A timer. `None` for a worker's machine, which nobody counts.
    pub(crate) fn another(vm: &Rc<Vm>) -> Option<Self> {
        let users = vm.users.get();
        (users > 0).then(|| {
            vm.users.set(users + 1);
            Self(vm.clone())
        })
    }

    pub(crate) fn vm(&self) -> &Rc<Vm> {
        &self.0
    }
}

impl Drop for VmUse {
    fn drop(&mut self) {
        let users = self.0.users.get();
        let host = Detached::host("");
        if host.logs(LogLevel::Debug) {
            let text = format!("lua decrementing the reference count for Lua VM: {users}");
            host.log(LogLevel::Debug, text.as_bytes());
            if users == 1 {
                host.log(LogLevel::Debug, b"lua close the global Lua VM");
            }
        }
        self.0.users.set(users - 1);
    }
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vm").field("allocated_bytes", &self.allocated_bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    /// How many tables a machine of `config` makes before the collector frees the first one.
    fn tables_until_collected(config: VmConfig) -> usize {
        let vm = Vm::new(config).unwrap();
        let mut made = 0;
        // SAFETY: nobody else works with the main state.
        let counted = unsafe { vm.main().lua() }.protect(|lua| {
            // SAFETY: a protected context.
            unsafe { ffi::lua_gc(lua.raw(), ffi::LUA_GCCOLLECT, 0) };
            vm.relieve_memory();
            let mut before = vm.allocated_bytes();
            loop {
                lua.push_table(100, 0);
                lua.pop(1);
                let now = vm.allocated_bytes();
                if now <= before {
                    return Ok(());
                }
                (before, made) = (now, made + 1);
            }
        });
        assert!(counted.is_ok());
        made
    }

    #[test]
    fn small_heaps_gather_some_garbage() {
        let table = 100 * size_of::<u64>();
        assert!(tables_until_collected(VmConfig::default()) * table > GC_ROOM / 2);
        // Where memory is scarce the collector keeps LuaJIT's pace.
        let limited = VmConfig { memory_limit: Some(64 << 20), ..VmConfig::default() };
        assert!(tables_until_collected(limited) * table < GC_ROOM / 2);
    }

    #[test]
    fn scripts_set_the_pace_of_the_collector() {
        check("out(collectgarbage('setpause', 150), collectgarbage('setpause', 200))", &["200 150"]);
    }
}
