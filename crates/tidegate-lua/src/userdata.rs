//! Rust values as Lua userdata, dropped when Lua collects them.
//!
//! # What tells a value's type
//!
//! The block of a userdata begins with Rust's own number of the type, which no script can read or write. Metatables say
//! nothing: `debug.setmetatable` gives any of them to any userdata. A value that was taken out of its block, by the collector
//! or by a script that calls `__gc`, leaves an empty one behind, which is of no use any more.
//!
//! A function gets a clone (of an `Rc`, as a rule), not a reference into the block: the script may end the value at any time
//! that it runs, even while one of our functions works with it.

use std::any::TypeId;
use std::ffi::{CStr, c_int, c_void};
use std::mem;

use mlua_sys as ffi;
use mlua_sys::lua_State;

unsafe extern "C-unwind" {
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_userdata(state: *mut lua_State, index: c_int, size: usize) -> *mut c_void;
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_userdata_upvalue(state: *mut lua_State, number: c_int, size: usize) -> *mut c_void;
}

use crate::error::LuaError;
use crate::function::function;
use crate::stack::{Lua, Type};

/// A Rust type that scripts hold. Its destructor runs in Lua's collector: it must not call Lua.
///
/// Clones stand for the same object.
pub trait Userdata: Clone + 'static {
    /// Key of its metatable in the registry, unique among all types.
    const NAME: &'static CStr;
    /// The name in error messages, and what `getmetatable` says.
    const TYPE_NAME: &'static str;
}

/// What a userdata of ours holds.
#[repr(C)]
struct Block<T> {
    type_id: TypeId,
    /// Goes when Lua collects the userdata.
    value: Option<T>,
}

/// Pushes `value` as a userdata with the metatable of its type. *May raise* (memory).
///
/// The metatable is made at the first use, with only `__gc`; Lua halves add `__index` where methods are wanted.
pub fn push_userdata<T: Userdata>(lua: &mut Lua, value: T) {
    push_block(lua, value);
    push_metatable::<T>(lua);
    lua.set_metatable(-2);
}

/// Pushes `value` as a userdata without a metatable: only closures see it, and it is never dropped. *May raise* (memory).
pub fn push_plain_userdata<T: Userdata>(lua: &mut Lua, value: T) {
    const { assert!(!mem::needs_drop::<T>(), "without a metatable nothing drops it") };
    push_block(lua, value);
}

fn push_block<T: Userdata>(lua: &mut Lua, value: T) {
    const { assert!(mem::align_of::<Block<T>>() <= 8, "LuaJIT aligns userdata to 8 bytes") };
    // SAFETY: any size is acceptable; LuaJIT raises an error for want of memory, and nothing with a destructor that must run
    // is alive here.
    let block = unsafe { ffi::lua_newuserdata(lua.raw(), mem::size_of::<Block<T>>()) }.cast::<Block<T>>();
    // SAFETY: the block is aligned, large enough and not yet initialised.
    unsafe { block.write(Block { type_id: TypeId::of::<T>(), value: Some(value) }) };
}

/// Pushes the metatable of `T`. *May raise* (memory).
pub fn push_metatable<T: Userdata>(lua: &mut Lua) {
    lua.raw_get_field(ffi::LUA_REGISTRYINDEX, T::NAME.to_bytes());
    // With the debug library a script may have put something else there.
    if lua.type_of(-1) == Type::Table {
        return;
    }
    lua.pop(1);
    lua.push_table(0, 4);
    lua.push_function(function(collect::<T>));
    lua.raw_set_field(-2, b"__gc");
    lua.push_bytes(T::TYPE_NAME.as_bytes());
    lua.raw_set_field(-2, b"__metatable");
    lua.push_value(-1);
    lua.raw_set_field(ffi::LUA_REGISTRYINDEX, T::NAME.to_bytes());
}

/// Argument `n` as a `T`.
///
/// # Errors
/// When it is something else, or was collected.
pub fn check_userdata<T: Userdata>(lua: &Lua, n: c_int) -> Result<T, LuaError> {
    to_userdata(lua, n).ok_or(LuaError::ArgumentType { argument: n, expected: T::TYPE_NAME })
}

/// The value at `index` as a `T`, if it is one that was not collected. No pseudo-index will do.
#[inline]
pub fn to_userdata<T: Userdata>(lua: &Lua, index: c_int) -> Option<T> {
    // SAFETY: looks at a value and raises nothing.
    let block = unsafe { tidegate_lua_userdata(lua.raw(), index, mem::size_of::<Block<T>>()) };
    // SAFETY: the block of a userdata with the size of a `Block<T>`; nobody holds a reference into one while Lua code runs.
    unsafe { block_of::<T>(block) }?.value.clone()
}

/// Upvalue `n` of the running function as a `T`, if it is one.
#[inline]
pub fn upvalue<T: Userdata>(lua: &Lua, n: c_int) -> Option<T> {
    // SAFETY: looks at a value and raises nothing.
    let block = unsafe { tidegate_lua_userdata_upvalue(lua.raw(), n, mem::size_of::<Block<T>>()) };
    // SAFETY: as in `to_userdata`.
    unsafe { block_of::<T>(block) }?.value.clone()
}

/// Puts another value into upvalue `n` of the running function, if that is a `T`.
pub fn set_upvalue<T: Userdata>(lua: &Lua, n: c_int, value: T) {
    // SAFETY: looks at a value and raises nothing.
    let block = unsafe { tidegate_lua_userdata_upvalue(lua.raw(), n, mem::size_of::<Block<T>>()) };
    // SAFETY: as in `to_userdata`.
    if let Some(block) = unsafe { block_of::<T>(block) } {
        block.value = Some(value);
    }
}

/// The block at `block`, if it is one of a `T`.
///
/// # Safety
/// `block` is null, or a userdata's block with the size of a `Block<T>` into which nobody has a reference; the result is
/// not used after Lua code may have run.
#[inline]
unsafe fn block_of<'a, T: Userdata>(block: *mut c_void) -> Option<&'a mut Block<T>> {
    if block.is_null() {
        return None;
    }
    // SAFETY: the block is aligned and has the room. Any bytes make a `TypeId`, which is a number; that of `T` stands at the
    // head of blocks that `push_block` filled for it, and of nothing else that a script can make.
    let type_id = unsafe { block.cast::<TypeId>().read() };
    if type_id != TypeId::of::<T>() {
        return None;
    }
    // SAFETY: such a block holds a `Block<T>`; it is nobody else's by the function's contract.
    Some(unsafe { &mut *block.cast::<Block<T>>() })
}

/// `__gc`: called by LuaJIT, or by a script with whatever it likes.
fn collect<T: Userdata>(lua: &mut Lua) -> crate::error::CResult {
    // SAFETY: looks at a value and raises nothing.
    let block = unsafe { tidegate_lua_userdata(lua.raw(), 1, mem::size_of::<Block<T>>()) };
    // SAFETY: as in `to_userdata`. The value leaves its block before its destructor runs.
    let value = unsafe { block_of::<T>(block) }.and_then(|block| block.value.take());
    drop(value);
    Ok(0)
}
