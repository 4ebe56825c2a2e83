//! The entries of a table one by one (`entries.c` of `tidegate-luajit`): cheaper than `lua_next` by far.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::slice;

use mlua_sys::lua_State;

use crate::stack::Lua;

/// As in `entries.c`.
#[repr(C)]
struct RawEntry {
    key_kind: c_int,
    value_kind: c_int,
    key: *const c_char,
    key_size: usize,
    value: *const c_char,
    value_size: usize,
    key_number: f64,
    value_number: f64,
}

const STRING: c_int = 1;
const NUMBER: c_int = 2;

unsafe extern "C-unwind" {
    fn tidegate_lua_entry(state: *mut lua_State, index: c_int, cursor: *mut u32, entry: *mut RawEntry) -> c_int;
    fn tidegate_lua_is_keyed(state: *mut lua_State, index: c_int) -> c_int;
}

/// A key or a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// A string, which the table holds.
    String(&'a [u8]),
    /// A number.
    Number(f64),
    /// Anything else. As a value it was pushed.
    Other,
}

/// Walks over a table.
pub(crate) struct Entries {
    lua: Lua,
    index: c_int,
    cursor: u32,
}

impl Entries {
    /// Over the table at `index` of the stack, counted from 1, which must not change meanwhile. The caller reserved a
    /// slot for values that are pushed.
    pub(crate) fn of(lua: Lua, index: c_int) -> Self {
        Self { lua, index, cursor: 0 }
    }

    /// The next key and value, in the order of `lua_next`.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Part<'_>, Part<'_>)> {
        let mut entry = MaybeUninit::<RawEntry>::uninit();
        // SAFETY: a table stands at the index and a slot is free by the caller's bookkeeping. What is read of the entry
        // is what its kinds say was written, and the table keeps its strings alive.
        unsafe {
            if tidegate_lua_entry(self.lua.raw(), self.index, &raw mut self.cursor, entry.as_mut_ptr()) == 0 {
                return None;
            }
            let entry = entry.as_ptr();
            let key = match (*entry).key_kind {
                STRING => Part::String(slice::from_raw_parts((*entry).key.cast(), (*entry).key_size)),
                NUMBER => Part::Number((*entry).key_number),
                _ => Part::Other,
            };
            let value = match (*entry).value_kind {
                STRING => Part::String(slice::from_raw_parts((*entry).value.cast(), (*entry).value_size)),
                NUMBER => Part::Number((*entry).value_number),
                _ => Part::Other,
            };
            Some((key, value))
        }
    }
}

/// Whether the first entry of the table at `index` of the stack, counted from 1, has a string for its key.
pub(crate) fn is_keyed(lua: Lua, index: c_int) -> bool {
    // SAFETY: a table stands at the index by the caller's bookkeeping.
    unsafe { tidegate_lua_is_keyed(lua.raw(), index) != 0 }
}
