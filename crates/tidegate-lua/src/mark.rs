//! What the scheduler notes about a coroutine, in the coroutine itself (`tidegate-luajit/mark.c`).
//!
//! A note lives and dies with its coroutine: nobody has to remove it, and the collector has no table of coroutines to look
//! through.

use mlua_sys::lua_State;
use rustc_hash::FxBuildHasher;
use std::ffi::c_int;
use std::hash::BuildHasher;

use crate::stack::Coroutine;

unsafe extern "C-unwind" {
    /// See `tidegate-luajit/mark.c`.
    fn tidegate_lua_note(state: *mut lua_State) -> u32;
    /// See `tidegate-luajit/mark.c`.
    fn tidegate_lua_set_note(state: *mut lua_State, note: u32);
    /// See `tidegate-luajit/mark.c`: a function for Lua.
    pub(crate) fn tidegate_lua_may_resume(state: *mut lua_State) -> c_int;
    /// See `tidegate-luajit/mark.c`: a function for Lua.
    pub(crate) fn tidegate_lua_exchange(state: *mut lua_State) -> c_int;
}

/// Who may resume a coroutine: the lowest bits of its note. The Lua half (`lualib/tidegate/api/coroutine.lua`) has the others:
/// 2 for a user coroutine that waits, 3 for one that has resumed another one that waits.
const KINDS: u32 = 3;
/// Nobody but the scheduler.
const SCHEDULED: u32 = 1;

impl Coroutine {
    /// Makes it the scheduler's: a script that gets hold of it cannot resume it. It is a light thread of `parent`, if there is one.
    pub(crate) fn mark_scheduled(self, parent: Option<Coroutine>) {
        // SAFETY: `state` is live; a note changes nothing that LuaJIT looks at.
        unsafe { tidegate_lua_set_note(self.raw(), SCHEDULED | parent.map_or(0, tag)) }
    }

    /// What it was for others until it was reset does not count any more: it is the scheduler's.
    pub(crate) fn renew_mark(self) {
        // SAFETY: as above.
        unsafe { tidegate_lua_set_note(self.raw(), tidegate_lua_note(self.raw()) & !KINDS | SCHEDULED) }
    }

    /// Whether it is a light thread of `parent`. `None` when it is none that a script has spawned.
    pub(crate) fn is_child_of(self, parent: Coroutine) -> Option<bool> {
        // SAFETY: `state` is live.
        let note = unsafe { tidegate_lua_note(self.raw()) } & !KINDS;
        (note != 0).then(|| note == tag(parent))
    }
}

/// What tells a parent from others, in the bits that kinds leave; not zero. Two coroutines of one machine have the same by a chance
/// of one in half a billion, and then one may wait for a light thread of the other.
fn tag(parent: Coroutine) -> u32 {
    let hash = FxBuildHasher.hash_one(parent.raw().addr());
    ((hash >> 32) as u32 & !KINDS) | (KINDS + 1)
}
