//! Rust values as Lua userdata, dropped when Lua collects them.

use std::ffi::{CStr, c_int, c_void};
use std::mem;
use std::ptr;

use mlua_sys as ffi;
use mlua_sys::lua_State;

unsafe extern "C-unwind" {
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_userdata(state: *mut lua_State, index: c_int, tag: f64, size: usize) -> *mut c_void;
}

use crate::error::LuaError;
use crate::stack::Lua;

/// A Rust type that scripts hold. Its destructor runs in Lua's collector: it must not call Lua.
pub trait Userdata: 'static {
    /// Key of its metatable in the registry, unique among all types.
    const NAME: &'static CStr;
    /// The name in error messages.
    const TYPE_NAME: &'static str;
}

/// What tells a type's metatable, at its index 1: a number made of the type's name.
const fn tag<T: Userdata>() -> f64 {
    // FNV-1a, as many bits as a number holds.
    let (name, mut hash, mut at) = (T::NAME.to_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < name.len() {
        hash = (hash ^ name[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    (hash >> 12) as f64
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
        lua.push_number(const { tag::<T>() });
        lua.raw_set_index(-2, 1);
    }
}

/// Argument `n` as a `T`. The reference is valid while the userdata stays on the stack.
///
/// # Errors
/// When it is something else.
pub fn check_userdata<T: Userdata>(lua: &Lua, n: c_int) -> Result<&T, LuaError> {
    to_userdata(lua, n).ok_or(LuaError::ArgumentType { argument: n, expected: T::TYPE_NAME })
}

/// The value at `index` as a `T`, if it is one. No pseudo-index will do.
pub fn to_userdata<T: Userdata>(lua: &Lua, index: c_int) -> Option<&T> {
    // SAFETY: looks at a value and its metatable, and raises nothing. A metatable with our tag is ours, hence the block
    // holds a `T` (scripts cannot set metatables of userdata; with the debug library they could, and with it they can
    // crash LuaJIT in simpler ways).
    unsafe { tidegate_lua_userdata(lua.raw(), index, const { tag::<T>() }, size_of::<T>()).cast::<T>().as_ref() }
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
