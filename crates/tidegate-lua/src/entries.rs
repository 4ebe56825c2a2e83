//! The entries of a table (`entries.c` of `tidegate-luajit`), read several at a time: cheaper than `lua_next` by far.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use mlua_sys::lua_State;

use crate::stack::{Coroutine, Lua};

/// As in `entries.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawPart {
    kind: u32,
    size: u32,
    data: RawData,
}

/// As in `entries.c`.
#[repr(C)]
#[derive(Clone, Copy)]
union RawData {
    bytes: *const u8,
    number: f64,
    slot: *const c_void,
}

/// As in `entries.c`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawEntry {
    key: RawPart,
    value: RawPart,
}

const STRING: u32 = 0;
const NUMBER: u32 = 1;

unsafe extern "C-unwind" {
    fn tidegate_lua_entries(
        state: *mut lua_State,
        index: c_int,
        cursor: *mut u32,
        entries: *mut RawEntry,
        max: u32,
    ) -> u32;
    fn tidegate_lua_push_part(state: *mut lua_State, slot: *const c_void);
    fn tidegate_lua_is_keyed(state: *mut lua_State, index: c_int, meta: *mut *const c_void) -> c_int;
}

/// A key or a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// A string, which the table holds.
    String(&'a [u8]),
    /// A number.
    Number(f64),
    /// Anything else.
    Other(Other<'a>),
}

/// A value that is neither a string nor a number, where its table has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Other<'a>(*const c_void, PhantomData<&'a ()>);

impl Other<'_> {
    /// Pushes the value. *May raise* (the stack grows).
    #[inline]
    pub(crate) fn push(self, lua: &Lua) {
        // SAFETY: the slot is one of the table's, which does not change (`Entries::of`).
        unsafe { tidegate_lua_push_part(lua.raw(), self.0) }
    }
}

impl RawPart {
    /// # Safety
    /// `tidegate_lua_entries` wrote it, and the table lives on unchanged as long as the result is used.
    #[inline]
    unsafe fn part<'a>(&self) -> Part<'a> {
        // SAFETY: what is read is what the kind says was written.
        unsafe {
            match self.kind {
                STRING => Part::String(slice::from_raw_parts(self.data.bytes, self.size as usize)),
                NUMBER => Part::Number(self.data.number),
                _ => Part::Other(Other(self.data.slot, PhantomData)),
            }
        }
    }
}

/// Entries that are read at a time: enough for most rows, and little on the stack of one that encodes nested tables.
const BATCH: u32 = 8;

/// Walks over a table.
pub(crate) struct Entries {
    lua: Coroutine,
    index: c_int,
    cursor: u32,
    at: u32,
    count: u32,
    batch: [MaybeUninit<RawEntry>; BATCH as usize],
}

impl Entries {
    /// Over the table at `index` of the stack, counted from 1.
    ///
    /// # Safety
    /// The table stays in that slot and does not change as long as the entries are in use.
    #[inline]
    pub(crate) unsafe fn of(lua: &Lua, index: c_int) -> Self {
        let batch = [const { MaybeUninit::uninit() }; BATCH as usize];
        Self { lua: lua.coroutine(), index, cursor: 0, at: BATCH, count: BATCH, batch }
    }

    /// The next key and value, in the order of `lua_next`.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Part<'_>, Part<'_>)> {
        if self.at == self.count {
            if self.count < BATCH {
                return None;
            }
            let (batch, cursor) = (self.batch.as_mut_ptr().cast(), &raw mut self.cursor);
            // SAFETY: any index and value are acceptable; the batch has room for as many.
            self.count = unsafe { tidegate_lua_entries(self.lua.raw(), self.index, cursor, batch, BATCH) };
            self.at = 0;
            if self.count == 0 {
                return None;
            }
        }
        let entry = &self.batch[self.at as usize];
        self.at += 1;
        // SAFETY: the first `count` were written, and the table keeps its strings alive (`Entries::of`).
        unsafe {
            let entry = entry.assume_init_ref();
            Some((entry.key.part(), entry.value.part()))
        }
    }
}

/// Whether the first entry of the table at `index` of the stack, counted from 1, has a string for its key; and the
/// metatable's identity, or null.
pub(crate) fn is_keyed(lua: &Lua, index: c_int) -> (bool, *const c_void) {
    let mut meta = ptr::null();
    // SAFETY: any index and value are acceptable.
    let keyed = unsafe { tidegate_lua_is_keyed(lua.raw(), index, &raw mut meta) } != 0;
    (keyed, meta)
}
