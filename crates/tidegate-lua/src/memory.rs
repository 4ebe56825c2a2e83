//! `lua_memory_limit`: a script that takes too much gets `not enough memory`, and the process lives on.
//!
//! The limit sits in front of the allocator ([`crate::allocator`]). LuaJIT collects garbage by pace, not by need, so that a heap may
//! reach twice its live size before a cycle ends; near the limit a full collection runs between two resumes.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use mlua_sys as ffi;
use mlua_sys::lua_State;

use crate::stack::{Coroutine, Lua};

unsafe extern "C" {
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_allocation_count(state: *mut lua_State) -> *const usize;
}

/// A full collection runs when this share of the limit is in use, in percent.
const RELIEF_PERCENT: usize = 75;

/// Looks at what one virtual machine allocates. LuaJIT counts it for its collector anyway.
pub(crate) struct MemoryLimit {
    inner: ffi::lua_Alloc,
    inner_data: *mut c_void,
    used: *const usize,
    limit: usize,
    /// Use after the last relief; the next waits until a tenth of the limit was added.
    relieved_at: Cell<usize>,
    /// An allocation was refused since the last relief.
    refused: Cell<bool>,
}

impl MemoryLimit {
    /// Puts a limit of `limit` bytes on the virtual machine of `main`.
    pub(crate) fn install(main: Coroutine, limit: usize) -> Box<Self> {
        let mut inner_data = ptr::null_mut();
        // SAFETY: a live state.
        let inner = unsafe { ffi::lua_getallocf(main.raw(), &raw mut inner_data) };
        let memory = Box::new(Self {
            inner,
            inner_data,
            // SAFETY: a live state.
            used: unsafe { tidegate_lua_allocation_count(main.raw()) },
            limit,
            relieved_at: Cell::new(0),
            refused: Cell::new(false),
        });
        // SAFETY: the box keeps its address and lives until `uninstall`; the allocator forwards to the one before.
        unsafe { ffi::lua_setallocf(main.raw(), allocate, ptr::from_ref(&*memory).cast_mut().cast()) };
        memory
    }

    /// The limit in bytes.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    #[inline]
    fn used(&self) -> usize {
        // SAFETY: the count lives as long as the state, which is used no more after `uninstall`. LuaJIT writes it between calls
        // only, on this thread.
        unsafe { self.used.read() }
    }

    /// Puts the allocator back, before the state ends.
    pub(crate) fn uninstall(&self, main: Coroutine) {
        // SAFETY: every block came from the inner allocator.
        unsafe { ffi::lua_setallocf(main.raw(), self.inner, self.inner_data) };
    }

    /// Collects garbage when the limit is near. Called between runs, when a script's last objects are garbage.
    /// `guard` watches over finalizers.
    pub(crate) fn relieve<G>(&self, main: Coroutine, guard: impl FnOnce() -> G) {
        let used = self.used();
        let near = used >= self.limit / 100 * RELIEF_PERCENT && used >= self.relieved_at.get() + self.limit / 10;
        if !near && !self.refused.replace(false) {
            return;
        }
        let _guarded = guard();
        // SAFETY: a full collection raises nothing: errors of finalizers are swallowed by LuaJIT.
        unsafe { ffi::lua_gc(main.raw(), ffi::LUA_GCCOLLECT, 0) };
        self.relieved_at.set(self.used());
    }
}

/// Whether `bytes` more would fit into the memory of the machine of `lua`.
pub(crate) fn has_room(lua: &Lua, bytes: usize) -> bool {
    let mut data = ptr::null_mut();
    // SAFETY: a live state.
    let allocator = unsafe { ffi::lua_getallocf(lua.raw(), &raw mut data) };
    if !ptr::fn_addr_eq(allocator, allocate as ffi::lua_Alloc) {
        return true;
    }
    // SAFETY: `install` passed this address with this function, and the box outlives the state's use of both.
    let memory = unsafe { &*data.cast::<MemoryLimit>() };
    memory.used().saturating_add(bytes) <= memory.limit
}

unsafe extern "C" fn allocate(data: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `install` passed this address, and the box outlives the state's use of it.
    let memory = unsafe { &*data.cast::<MemoryLimit>() };
    if new > old && memory.used().saturating_add(new - old) > memory.limit {
        memory.refused.set(true);
        return ptr::null_mut();
    }
    // SAFETY: forwards LuaJIT's request to the allocator that the state was made with.
    unsafe { (memory.inner)(memory.inner_data, block, old, new) }
}
