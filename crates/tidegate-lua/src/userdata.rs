//! Rust values as Lua userdata, dropped when Lua collects them.

use std::ffi::{CStr, c_int};
use std::mem;
use std::ptr;

use mlua_sys as ffi;
use mlua_sys::lua_State;

use crate::error::LuaError;
use crate::stack::Lua;

/// A Rust type that scripts hold. Its destructor runs in Lua's collector: it must not call Lua.
pub trait Userdata: 'static {
    /// Key of its metatable in the registry, unique among all types.
    const NAME: &'static CStr;
    /// The name in error messages.
    const TYPE_NAME: &'static str;
}

/// Pushes `value` as a userdata with the metatable of its type. *May raise* (memory).
///
/// The metatable is made at the first use, with only `__gc`; Lua halves add `__index` where methods are wanted.
pub fn push_userdata<T: Userdata>(lua: Lua, value: T) {
    const { assert!(mem::align_of::<T>() <= 8, "LuaJIT aligns userdata to 8 bytes") };
    // The block comes first: an error for want of memory then drops nothing but `value` itself, by unwinding.
    // SAFETY: a protected context by this function's contract; the block has the size of a `T`.
    let block = unsafe { ffi::lua_newuserdata(lua.raw(), mem::size_of::<T>()) }.cast::<T>();
    push_metatable::<T>(lua);
    // SAFETY: the block is aligned, large enough and not yet initialised; nothing raises between here and the metatable.
    unsafe { block.write(value) };
    lua.set_metatable(-2);
}

/// Pushes the metatable of `T`. *May raise* (memory).
pub fn push_metatable<T: Userdata>(lua: Lua) {
    // SAFETY: a protected context by this function's contract.
    if unsafe { ffi::luaL_newmetatable_(lua.raw(), T::NAME.as_ptr()) } != 0 {
        lua.push_function(collect::<T>);
        lua.raw_set_field(-2, b"__gc");
    }
}

/// Argument `n` as a `T`. The reference is valid while the userdata stays on the stack.
///
/// # Errors
/// When it is something else.
pub fn check_userdata<T: Userdata>(lua: &Lua, n: c_int) -> Result<&T, LuaError> {
    to_userdata(lua, n).ok_or(LuaError::ArgumentType { argument: n, expected: T::TYPE_NAME })
}

/// The value at `index` as a `T`, if it is one.
pub fn to_userdata<T: Userdata>(lua: &Lua, index: c_int) -> Option<&T> {
    if lua.type_of(index) != crate::stack::Type::Userdata {
        return None;
    }
    let state = lua.raw();
    // SAFETY: index holds a full userdata; looking at a metatable in the registry allocates nothing: the key string
    // exists once the type's metatable does, and else is small.
    unsafe {
        if ffi::lua_getmetatable(state, index) == 0 {
            return None;
        }
        ffi::lua_getfield_(state, ffi::LUA_REGISTRYINDEX, T::NAME.as_ptr());
        let same = ffi::lua_rawequal(state, -1, -2) != 0;
        lua.pop(2);
        if !same {
            return None;
        }
        // The metatable is ours, hence the block holds a `T` (scripts cannot set metatables of userdata; with the debug
        // library they could, and with it they can crash LuaJIT in simpler ways).
        lua.to_userdata(index).cast::<T>().as_ref()
    }
}

unsafe extern "C-unwind" fn collect<T: Userdata>(state: *mut lua_State) -> c_int {
    // SAFETY: LuaJIT calls `__gc` with the userdata as its argument.
    let lua = unsafe { Lua::from_raw(state) };
    if to_userdata::<T>(&lua, 1).is_some() {
        let block = lua.to_userdata(1).cast::<T>();
        // A script that calls `__gc` by hand must not make us drop twice: the metatable goes first.
        lua.push_nil();
        lua.set_metatable(1);
        // SAFETY: the block holds a `T`, dropped exactly once as just made sure of.
        unsafe { ptr::drop_in_place(block) };
    }
    0
}
