//! A thin layer over the raw Lua API: one `lua_State`, typed pushes and reads.
//!
//! # Where errors may be raised
//!
//! Most API calls can raise a Lua error, if only for want of memory. An error leaves the function by unwinding to the
//! nearest `lua_pcall` or `lua_resume`. Hence the two rules of this crate:
//!
//! 1. A method of [`Lua`] whose documentation says *may raise* is called in a **protected context** only: inside a
//!    function that Lua called ([`crate::function`]), or inside [`Lua::protect`].
//! 2. Around such a call no Rust value with a destructor that *must* run may be alive (a lock guard, a `RefCell` borrow).
//!    Plain memory is safe either way: LuaJIT on the platforms that we build for unwinds through Rust frames and runs
//!    their destructors, but a borrow released late or a lock held across a script is a bug that no test finds.
//!
//! # Who has a stack
//!
//! A [`Lua`] is the stack of one function: everything that it gives away, strings above all, is borrowed from it. What only
//! reads or pushes takes `&self`, since values that are below stay where they are; what removes values takes `&mut self`,
//! so that no borrowed string outlives its slot. A function gets its own `&mut Lua` when Lua calls it, and cannot keep it. A
//! [`Coroutine`] is what may be kept, copied and compared; getting at its stack is `unsafe`.
//!
//! Errors of our own are never raised from inside Rust code: functions return `Err(`[`LuaError`]`)` and the shim raises
//! after everything was dropped.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::{ptr, slice};

use mlua_sys as ffi;
use mlua_sys::lua_State;

use crate::error::{Failure, FailureKind, LuaError};
use crate::{panics, traceback};

unsafe extern "C-unwind" {
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_resetthread(state: *mut lua_State) -> c_int;
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_allocated(state: *mut lua_State) -> usize;
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_gc_room(state: *mut lua_State, room: usize);
    /// See `tidegate-luajit/extension.c`.
    fn tidegate_lua_mainthread(state: *mut lua_State) -> *mut lua_State;
    /// See `tidegate-luajit/guard.c`.
    fn tidegate_lua_guard_stack(state: *mut lua_State);
    /// See `tidegate-luajit/guard.c`.
    fn tidegate_lua_has_room() -> c_int;
    /// See `tidegate-luajit/guard.c`.
    fn tidegate_lua_has_hook(state: *mut lua_State) -> c_int;
    /// See `tidegate-luajit/guard.c`.
    fn tidegate_lua_may_nest() -> c_int;
    /// See `tidegate-luajit/stack.c`, which has the functions below too.
    fn tidegate_lua_pop(state: *mut lua_State, count: c_int);
    fn tidegate_lua_raw_get(state: *mut lua_State, table: c_int);
    fn tidegate_lua_raw_set(state: *mut lua_State, table: c_int);
    fn tidegate_lua_raw_get_index(state: *mut lua_State, table: c_int, index: c_int);
    fn tidegate_lua_raw_set_index(state: *mut lua_State, table: c_int, index: c_int);
    fn tidegate_lua_raw_next(state: *mut lua_State, table: c_int) -> c_int;
    fn tidegate_lua_type(state: *mut lua_State, index: c_int) -> c_int;
    fn tidegate_lua_is_c_function(state: *mut lua_State, index: c_int) -> c_int;
    fn tidegate_lua_to_bytes(state: *mut lua_State, index: c_int, len: *mut usize) -> *const c_char;
    fn tidegate_lua_to_bool(state: *mut lua_State, index: c_int) -> c_int;
    fn tidegate_lua_to_number(state: *mut lua_State, index: c_int, number: *mut f64) -> c_int;
    fn tidegate_lua_to_thread(state: *mut lua_State, index: c_int) -> *mut lua_State;
    fn tidegate_lua_to_userdata(state: *mut lua_State, index: c_int) -> *mut c_void;
    fn tidegate_lua_raw_len(state: *mut lua_State, index: c_int) -> usize;
    fn tidegate_lua_push_value(state: *mut lua_State, index: c_int);
    fn tidegate_lua_push_coroutine(state: *mut lua_State, coroutine: *mut lua_State);
    fn tidegate_lua_move(from: *mut lua_State, to: *mut lua_State, count: c_int);
    fn tidegate_lua_take(to: *mut lua_State, from: *mut lua_State) -> c_int;
    /// In LuaJIT since 2.1, missing in mlua-sys' list for Lua 5.1.
    fn lua_isyieldable(state: *mut lua_State) -> c_int;
}

/// The stack of a function that runs, or of a coroutine that does not: always behind a reference, which is the pointer
/// that the C API takes.
///
/// A string is borrowed from it, so that it cannot be kept when its slot goes:
///
/// ```compile_fail,E0502
/// # use tidegate_lua::stack::Lua;
/// fn keep(lua: &mut Lua) -> Option<usize> {
///     let text = lua.to_bytes(-1)?;
///     lua.pop(1);
///     Some(text.len())
/// }
/// ```
#[repr(C)]
pub struct Lua {
    _opaque: [u8; 0],
    /// Of one thread, and at a place that LuaJIT works with as well.
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A coroutine, or the main state of a machine: what may be kept and compared. Its stack is somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Coroutine {
    state: *mut lua_State,
}

/// Types of Lua values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// No such stack slot: an argument that was not given.
    None,
    /// `nil`.
    Nil,
    /// `true` or `false`.
    Boolean,
    /// A bare pointer.
    LightUserdata,
    /// A double, or an integer that LuaJIT keeps as such.
    Number,
    /// Bytes.
    String,
    /// A table.
    Table,
    /// A Lua or C function.
    Function,
    /// A block of memory with a metatable.
    Userdata,
    /// A coroutine.
    Thread,
    /// An FFI value.
    Cdata,
}

/// A value kept alive in the registry, by its number. Freed with [`Coroutine::unref`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ref(c_int);

/// Whether the C stack has room for another coroutine, which runs on top of the one that resumes it.
pub(crate) fn has_room() -> bool {
    // SAFETY: has no preconditions.
    unsafe { tidegate_lua_has_room() != 0 }
}

/// Whether the C stack has room for one more level of a function that calls itself as deep as a script's values are
/// nested. Such functions ask at each level.
pub(crate) fn may_nest() -> bool {
    // SAFETY: has no preconditions.
    unsafe { tidegate_lua_may_nest() != 0 }
}

impl Lua {
    /// The stack of the function that runs in `state`, or of the coroutine itself where none runs.
    ///
    /// # Safety
    /// `state` is live for `'a`, and nobody else uses a reference to the same function's stack meanwhile.
    #[inline]
    pub unsafe fn from_raw<'a>(state: *mut lua_State) -> &'a mut Self {
        // SAFETY: live, hence not null; a value without a size is nowhere misaligned or uninitialised.
        unsafe { &mut *state.cast::<Self>() }
    }

    /// The raw state, for API that this layer does not cover.
    #[inline]
    pub fn raw(&self) -> *mut lua_State {
        ptr::from_ref(self).cast_mut().cast::<lua_State>()
    }

    /// Whose stack it is.
    #[inline]
    pub fn coroutine(&self) -> Coroutine {
        Coroutine { state: self.raw() }
    }

    /// How many values the current function has on its stack.
    pub fn top(&self) -> c_int {
        // SAFETY: `state` is live (from_raw).
        unsafe { ffi::lua_gettop(self.raw()) }
    }

    /// Cuts the stack to `top` values, or fills it up with `nil`; a negative number counts as none.
    pub fn set_top(&mut self, top: c_int) {
        // SAFETY: `state` is live; LuaJIT grows the stack where there is no room.
        unsafe { ffi::lua_settop(self.raw(), top.max(0)) }
    }

    /// Removes `count` values from the top, or all that there are.
    pub fn pop(&mut self, count: c_int) {
        // SAFETY: any count is acceptable.
        unsafe { tidegate_lua_pop(self.raw(), count) }
    }

    /// Whether `index` is a slot of the running function, counted from the bottom (1, 2, …) or the top (-1, -2, …).
    #[inline]
    fn is_slot(&self, index: c_int) -> bool {
        index != 0 && index.unsigned_abs() <= self.top().unsigned_abs()
    }

    /// Makes sure of `count` free slots.
    ///
    /// # Errors
    /// When the stack would exceed LuaJIT's limit.
    pub fn reserve(&self, count: c_int) -> Result<(), LuaError> {
        self.coroutine().reserve(count)
    }

    /// The type of the value at `index`.
    pub fn type_of(&self, index: c_int) -> Type {
        // SAFETY: any index is acceptable to lua_type.
        match unsafe { tidegate_lua_type(self.raw(), index) } {
            ffi::LUA_TNIL => Type::Nil,
            ffi::LUA_TBOOLEAN => Type::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Type::LightUserdata,
            ffi::LUA_TNUMBER => Type::Number,
            ffi::LUA_TSTRING => Type::String,
            ffi::LUA_TTABLE => Type::Table,
            ffi::LUA_TFUNCTION => Type::Function,
            ffi::LUA_TUSERDATA => Type::Userdata,
            ffi::LUA_TTHREAD => Type::Thread,
            10 => Type::Cdata,
            _ => Type::None,
        }
    }

    /// The type's name as Lua prints it: `nil`, `table`, `no value`, …
    pub fn type_name(&self, index: c_int) -> &'static str {
        match self.type_of(index) {
            Type::None => "no value",
            Type::Nil => "nil",
            Type::Boolean => "boolean",
            Type::LightUserdata | Type::Userdata => "userdata",
            Type::Number => "number",
            Type::String => "string",
            Type::Table => "table",
            Type::Function => "function",
            Type::Thread => "thread",
            Type::Cdata => "cdata",
        }
    }

    /// Whether `index` holds `nil` or nothing.
    pub fn is_none_or_nil(&self, index: c_int) -> bool {
        matches!(self.type_of(index), Type::None | Type::Nil)
    }

    /// Whether `index` holds a function written in C.
    pub fn is_c_function(&self, index: c_int) -> bool {
        // SAFETY: any index is acceptable.
        unsafe { tidegate_lua_is_c_function(self.raw(), index) != 0 }
    }

    /// Pushes `nil`.
    pub fn push_nil(&self) {
        // SAFETY: `state` is live; LuaJIT grows the stack where there is no room.
        unsafe { ffi::lua_pushnil(self.raw()) }
    }

    /// Pushes a boolean.
    pub fn push_bool(&self, value: bool) {
        // SAFETY: as for `push_nil`.
        unsafe { ffi::lua_pushboolean(self.raw(), c_int::from(value)) }
    }

    /// Pushes an integer.
    pub fn push_integer(&self, value: i64) {
        // SAFETY: as for `push_nil`.
        unsafe { ffi::lua_pushinteger(self.raw(), value as ffi::lua_Integer) }
    }

    /// Pushes a number.
    pub fn push_number(&self, value: f64) {
        // SAFETY: as for `push_nil`.
        unsafe { ffi::lua_pushnumber(self.raw(), value) }
    }

    /// Pushes a string. *May raise* (memory).
    pub fn push_bytes(&self, bytes: &[u8]) {
        // SAFETY: as for `push_nil`; pointer and length belong together.
        unsafe { ffi::lua_pushlstring_(self.raw(), bytes.as_ptr().cast::<c_char>(), bytes.len()) }
    }

    /// Pushes a bare pointer.
    pub fn push_light(&self, pointer: *const c_void) {
        // SAFETY: as for `push_nil`; Lua never dereferences it.
        unsafe { ffi::lua_pushlightuserdata(self.raw(), pointer.cast_mut()) }
    }

    /// Pushes a function without upvalues. *May raise* (memory).
    pub fn push_function(&self, function: ffi::lua_CFunction) {
        // SAFETY: as for `push_nil`; `function` comes from `crate::function` and keeps its rules.
        unsafe { ffi::lua_pushcclosure(self.raw(), function, 0) }
    }

    /// Pushes a copy of the value at `index`; nil where there is none.
    pub fn push_value(&self, index: c_int) {
        // SAFETY: as for `push_nil`; any index is acceptable.
        unsafe { tidegate_lua_push_value(self.raw(), index) }
    }

    /// Pushes a coroutine of the same machine; nil for one of another.
    pub fn push_coroutine(&self, coroutine: Coroutine) {
        // SAFETY: as for `push_nil`; the coroutine is live.
        unsafe { tidegate_lua_push_coroutine(self.raw(), coroutine.state) };
    }

    /// Pushes a new table with room for `array` and `hash` entries. *May raise* (memory).
    pub fn push_table(&self, array: c_int, hash: c_int) {
        // SAFETY: as for `push_nil`.
        unsafe { ffi::lua_createtable(self.raw(), array, hash) }
    }

    /// Moves the top value to the slot at `index`, shifting the others up. Without such a slot nothing happens.
    pub fn insert(&self, index: c_int) {
        if self.is_slot(index) {
            // SAFETY: there is a slot, hence a value on top.
            unsafe { ffi::lua_insert(self.raw(), index) }
        }
    }

    /// Pops the top value into the slot at `index`. Without such a slot nothing happens.
    pub fn replace(&mut self, index: c_int) {
        if self.is_slot(index) {
            // SAFETY: there is a slot, hence a value on top.
            unsafe { ffi::lua_replace(self.raw(), index) }
        }
    }

    /// Removes the value at `index`, shifting the others down. Without such a slot nothing happens.
    pub fn remove(&mut self, index: c_int) {
        if self.is_slot(index) {
            // SAFETY: there is a slot.
            unsafe { ffi::lua_remove(self.raw(), index) }
        }
    }

    /// Moves `count` values, or all that there are, to the top of `target`, another coroutine; just pops them if that is one
    /// of another machine. *May raise* (memory).
    pub fn move_to(&mut self, target: Coroutine, count: c_int) {
        // SAFETY: both are live; any count is acceptable.
        unsafe { tidegate_lua_move(self.raw(), target.state, count) }
    }

    /// Moves all values of `source` to the top of this stack, and gives their count: 0 for a coroutine that runs, or is one of
    /// another machine. *May raise* (memory).
    pub fn take(&self, source: Coroutine) -> c_int {
        // SAFETY: both are live; a coroutine that does not run is nobody else's ([`Coroutine::lua`]).
        unsafe { tidegate_lua_take(self.raw(), source.state) }
    }

    /// The value at `index` as a string, borrowed from the stack that it stays on. A number is
    /// converted in place (*may raise* then); other types give `None`.
    pub fn to_bytes(&self, index: c_int) -> Option<&[u8]> {
        let mut len = 0;
        // SAFETY: any index is acceptable; a non-null result is a string of `len` bytes which the stack keeps alive.
        unsafe {
            let pointer = tidegate_lua_to_bytes(self.raw(), index, &raw mut len);
            if pointer.is_null() { None } else { Some(slice::from_raw_parts(pointer.cast::<u8>(), len)) }
        }
    }

    /// Lua's truth of the value at `index`.
    pub fn to_bool(&self, index: c_int) -> bool {
        // SAFETY: any index is acceptable.
        unsafe { tidegate_lua_to_bool(self.raw(), index) != 0 }
    }

    /// The value at `index` as a number; strings that look like numbers count.
    pub fn to_number(&self, index: c_int) -> Option<f64> {
        let mut number = 0.0;
        // SAFETY: any index is acceptable; writes a number if there is one.
        let found = unsafe { tidegate_lua_to_number(self.raw(), index, &raw mut number) } != 0;
        found.then_some(number)
    }

    /// The coroutine at `index`.
    pub fn to_thread(&self, index: c_int) -> Option<Coroutine> {
        // SAFETY: any index is acceptable; a non-null result is a live state of this machine.
        let state = unsafe { tidegate_lua_to_thread(self.raw(), index) };
        if state.is_null() { None } else { Some(Coroutine { state }) }
    }

    /// The pointer in the userdata at `index` (light or full), or null.
    pub fn to_userdata(&self, index: c_int) -> *mut c_void {
        // SAFETY: any index is acceptable.
        unsafe { tidegate_lua_to_userdata(self.raw(), index) }
    }

    /// Argument `n` as a string.
    ///
    /// # Errors
    /// When it is neither a string nor a number.
    pub fn check_bytes(&self, n: c_int) -> Result<&[u8], LuaError> {
        self.to_bytes(n).ok_or(LuaError::ArgumentType { argument: n, expected: "string" })
    }

    /// As [`Lua::check_bytes`], for a function that works on the stack while it reads the string.
    ///
    /// # Errors
    /// When it is neither a string nor a number.
    ///
    /// # Safety
    /// The argument stays in its slot as long as the string is in use.
    pub unsafe fn held_bytes<'a>(&self, n: c_int) -> Result<&'a [u8], LuaError> {
        let bytes = ptr::from_ref(self.check_bytes(n)?);
        // SAFETY: the slot keeps the string alive, by this function's contract.
        Ok(unsafe { &*bytes })
    }

    /// Argument `n` as a number.
    ///
    /// # Errors
    /// When it is not a number and does not look like one.
    pub fn check_number(&self, n: c_int) -> Result<f64, LuaError> {
        self.to_number(n).ok_or(LuaError::ArgumentType { argument: n, expected: "number" })
    }

    /// Argument `n` as an integer, fractions cut off as LuaJIT does.
    ///
    /// # Errors
    /// When it is not a number and does not look like one.
    pub fn check_integer(&self, n: c_int) -> Result<i64, LuaError> {
        self.check_number(n).map(|number| number as i64)
    }

    /// Argument `n` as a number, or `default` when it is absent or nil.
    ///
    /// # Errors
    /// When it is present and not a number.
    pub fn opt_number(&self, n: c_int, default: f64) -> Result<f64, LuaError> {
        if self.is_none_or_nil(n) { Ok(default) } else { self.check_number(n) }
    }

    /// Demands that argument `n` is of type `wanted`.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn check_type(&self, n: c_int, wanted: Type) -> Result<(), LuaError> {
        if self.type_of(n) == wanted {
            return Ok(());
        }
        let expected = match wanted {
            Type::Table => "table",
            Type::Function => "function",
            Type::Thread => "thread",
            Type::Userdata | Type::LightUserdata => "userdata",
            Type::String => "string",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Cdata => "cdata",
            Type::Nil | Type::None => "nil",
        };
        Err(LuaError::ArgumentType { argument: n, expected })
    }

    /// `index` counted from the bottom: it stays right when values are pushed.
    fn absolute(&self, index: c_int) -> c_int {
        if index > 0 || index <= ffi::LUA_REGISTRYINDEX { index } else { self.top() + 1 + index }
    }

    /// Pushes `table[name]` without metamethods; nil if that is no table. *May raise* (memory).
    pub fn raw_get_field(&self, table: c_int, name: &[u8]) {
        let table = self.absolute(table);
        self.push_bytes(name);
        // SAFETY: any index is acceptable; the key that goes is the one just pushed.
        unsafe { tidegate_lua_raw_get(self.raw(), table) }
    }

    /// Pops a value into `table[name]` without metamethods. *May raise* (memory).
    pub fn raw_set_field(&mut self, table: c_int, name: &[u8]) {
        let table = self.absolute(table);
        self.push_bytes(name);
        self.insert(-2);
        self.raw_set(table);
    }

    /// Pushes `table[key]` without metamethods, the key being popped from the top; nil if that is no table.
    pub fn raw_get(&mut self, table: c_int) {
        // SAFETY: any index and any stack are acceptable.
        unsafe { tidegate_lua_raw_get(self.raw(), table) }
    }

    /// Pops value and key into `table[key]` without metamethods; just pops them if that is no table. *May raise* (memory,
    /// a key that is nil or no number).
    pub fn raw_set(&mut self, table: c_int) {
        // SAFETY: any index and any stack are acceptable.
        unsafe { tidegate_lua_raw_set(self.raw(), table) }
    }

    /// Pushes `table[index]` without metamethods; nil if that is no table.
    pub fn raw_get_index(&self, table: c_int, index: c_int) {
        // SAFETY: any index is acceptable.
        unsafe { tidegate_lua_raw_get_index(self.raw(), table, index) }
    }

    /// Pops a value into `table[index]` without metamethods; just pops it if that is no table. *May raise* (memory).
    pub fn raw_set_index(&mut self, table: c_int, index: c_int) {
        // SAFETY: any index and any stack are acceptable.
        unsafe { tidegate_lua_raw_set_index(self.raw(), table, index) }
    }

    /// Pops a key and pushes the next key and value of the table; pushes nothing at the end, and where there is no table.
    /// *May raise* (a key that the table does not have).
    pub fn next(&mut self, table: c_int) -> bool {
        // SAFETY: any index and any stack are acceptable.
        unsafe { tidegate_lua_raw_next(self.raw(), table) != 0 }
    }

    /// The length of a table's sequence, without metamethods.
    pub fn raw_len(&self, table: c_int) -> usize {
        // SAFETY: any index is acceptable.
        unsafe { tidegate_lua_raw_len(self.raw(), table) }
    }

    /// Adds `name` to the table at `table`: a name that is there already gets a list of its values. *May raise*
    /// (memory). `push` pushes the value.
    pub fn add_multi(&mut self, table: c_int, name: &[u8], push: impl FnOnce(&mut Lua)) {
        let table = self.absolute(table);
        self.push_bytes(name);
        self.push_value(-1);
        self.raw_get(table);
        match self.type_of(-1) {
            Type::Nil => {
                self.pop(1);
                push(self);
                self.raw_set(table);
            }
            Type::Table => {
                let count = self.raw_len(-1);
                push(self);
                self.raw_set_index(-2, c_int::try_from(count + 1).unwrap_or(c_int::MAX));
                self.pop(2);
            }
            _ => {
                self.push_table(4, 0);
                self.insert(-2);
                self.raw_set_index(-2, 1);
                push(self);
                self.raw_set_index(-2, 2);
                self.raw_set(table);
            }
        }
    }

    /// Pops a table and makes it the metatable of the value at `index`; just pops what is no table.
    pub fn set_metatable(&mut self, index: c_int) {
        if self.is_slot(index) && self.type_of(-1) == Type::Table {
            // SAFETY: there is a value at the index and a table on top.
            unsafe { ffi::lua_setmetatable(self.raw(), index) };
        } else {
            self.pop(1);
        }
    }

    /// Pops the top value into the registry. *May raise* (memory).
    pub fn make_ref(&mut self) -> Ref {
        if self.top() == 0 {
            self.push_nil();
        }
        // SAFETY: the stack has a value on top.
        Ref(unsafe { ffi::luaL_ref(self.raw(), ffi::LUA_REGISTRYINDEX) })
    }

    /// Pushes the value kept under `reference`.
    pub fn push_ref(&self, reference: Ref) {
        // SAFETY: as for `push_nil`; the registry is a table.
        unsafe { ffi::lua_rawgeti_(self.raw(), ffi::LUA_REGISTRYINDEX, reference.0) }
    }

    /// Creates a coroutine and pushes it. *May raise* (memory).
    pub fn push_new_thread(&self) -> Coroutine {
        // SAFETY: as for `push_nil`.
        Coroutine { state: unsafe { ffi::lua_newthread(self.raw()) } }
    }

    /// Compiles `source` under `name` (`=text` or `@file`) and pushes the function. Source and bytecode both do.
    ///
    /// # Errors
    /// When it does not compile; nothing is left on the stack then.
    pub fn load(&self, source: &[u8], name: &CStr) -> Result<(), Failure> {
        // SAFETY: as for `push_nil`; luaL_loadbuffer reports errors by its status and copies what it needs.
        let status =
            unsafe { ffi::luaL_loadbuffer(self.raw(), source.as_ptr().cast::<c_char>(), source.len(), name.as_ptr()) };
        if status == ffi::LUA_OK {
            return Ok(());
        }
        let failure = Failure {
            message: traceback::error_text(self),
            traceback: Vec::new(),
            kind: FailureKind::from_status(status),
        };
        // SAFETY: the error's text that goes is the one just pushed.
        unsafe { tidegate_lua_pop(self.raw(), 1) };
        Err(failure)
    }

    /// The bytecode of the function on top of the stack, which stays there. `None` for a C function.
    pub(crate) fn dump(&self) -> Option<Vec<u8>> {
        unsafe extern "C-unwind" fn append(
            _: *mut lua_State,
            data: *const c_void,
            len: usize,
            dump: *mut c_void,
        ) -> c_int {
            // SAFETY: `dump` below passes its own vector, and lua_dump calls with `len` bytes at `data`.
            unsafe {
                let dump = &mut *dump.cast::<Vec<u8>>();
                dump.extend_from_slice(std::slice::from_raw_parts(data.cast(), len));
            }
            0
        }
        let mut dump = Vec::new();
        // SAFETY: as for `push_nil`; the writer gets the vector that it expects, during the call only.
        let status = unsafe { ffi::lua_dump(self.raw(), append, (&raw mut dump).cast(), 0) };
        (status == 0).then_some(dump)
    }

    /// Calls the function below its `args` arguments; `results` values (or all of them: -1) take their place.
    ///
    /// # Errors
    /// The error that the function raised, with a traceback. Nothing is left on the stack then. Without a function that has
    /// so many arguments, nothing is called.
    pub fn call(&mut self, args: c_int, results: c_int) -> Result<(), Failure> {
        if !(0..self.top()).contains(&args) || results < ffi::LUA_MULTRET {
            let message = b"nothing to call".to_vec();
            return Err(Failure { message, traceback: Vec::new(), kind: FailureKind::Runtime });
        }
        let base = self.top() - args;
        // SAFETY: as for `push_nil`. A light C function without upvalues: pushing it may raise for want of memory
        // only, which `Vm` treats as fatal during set-up.
        unsafe { ffi::lua_pushcclosure(self.raw(), traceback::message_handler, 0) };
        self.insert(base);
        // SAFETY: function and arguments are on the stack, the handler below them.
        let status = unsafe { ffi::lua_pcall(self.raw(), args, results, base) };
        self.remove(base);
        if status == ffi::LUA_OK {
            panics::go_on();
            return Ok(());
        }
        let failure = traceback::take_handled(self, status);
        self.pop(1);
        panics::go_on();
        Err(failure)
    }

    /// Whether the running function may yield.
    pub fn is_yieldable(&self) -> bool {
        // SAFETY: `state` is live.
        unsafe { lua_isyieldable(self.raw()) != 0 }
    }
}

impl Coroutine {
    /// Wraps a raw state.
    ///
    /// # Safety
    /// `state` points to a live state, and the value is not used after that state was closed or collected.
    pub unsafe fn from_raw(state: *mut lua_State) -> Self {
        Self { state }
    }

    /// The raw state, for API that this layer does not cover.
    pub fn raw(self) -> *mut lua_State {
        self.state
    }

    /// Its stack, or that of the function that runs in it.
    ///
    /// # Safety
    /// It is live for `'a`, and nobody else uses a reference to the same stack meanwhile. A function that Lua calls has one,
    /// and so has the body of [`Lua::protect`]: both work with stacks of their own, above what was there before, but no code
    /// in them may use what its surroundings have borrowed of the same coroutine.
    #[inline]
    pub unsafe fn lua<'a>(self) -> &'a mut Lua {
        // SAFETY: this function's contract is the same.
        unsafe { Lua::from_raw(self.state) }
    }

    /// The main state of its machine, which lives as long as the machine does.
    pub(crate) fn main(self) -> Self {
        // SAFETY: `state` is live.
        Self { state: unsafe { tidegate_lua_mainthread(self.state) } }
    }

    /// Makes sure of `count` free slots.
    ///
    /// # Errors
    /// When the stack would exceed LuaJIT's limit.
    pub fn reserve(self, count: c_int) -> Result<(), LuaError> {
        // SAFETY: `state` is live; lua_checkstack reports failure instead of raising it, and moves values, not strings.
        if unsafe { ffi::lua_checkstack(self.state, count) } == 0 {
            return Err(LuaError::new("stack overflow"));
        }
        Ok(())
    }

    /// How many values it has on its stack.
    pub fn top(self) -> c_int {
        // SAFETY: `state` is live (from_raw).
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Frees `reference`, a value that the machine keeps.
    pub fn unref(self, reference: Ref) {
        // SAFETY: the slot exists, so that storing into it allocates nothing; what is pushed is popped again.
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, reference.0) }
    }

    /// Starts or continues it with `args` values on its stack; gives LuaJIT's status.
    ///
    /// # Safety
    /// There are so many values on its stack and, if it is new, a function below them. Nobody uses a reference to its stack
    /// meanwhile.
    pub unsafe fn resume(self, args: c_int) -> c_int {
        // SAFETY: by this function's contract; errors are reported by the status.
        unsafe { ffi::lua_resume_(self.state, args) }
    }

    /// LuaJIT's status of this coroutine: `LUA_OK` (new, ended or running), `LUA_YIELD`, or an error.
    pub fn status(self) -> c_int {
        // SAFETY: `state` is live.
        unsafe { ffi::lua_status(self.state) }
    }

    /// Makes a coroutine of the scheduler's that ended, failed or waits fit for a new function. `false` when it is running.
    pub fn reset(self) -> bool {
        // SAFETY: `state` is live; the function checks that it does not run.
        let was_reset = unsafe { tidegate_lua_resetthread(self.state) != 0 };
        if was_reset {
            self.renew_mark();
        }
        was_reset
    }

    /// Lets the heap grow by `room` bytes at least before the collector's next cycle begins.
    #[inline]
    pub(crate) fn set_gc_room(self, room: usize) {
        // SAFETY: `state` is live; changes a number of the collector's.
        unsafe { tidegate_lua_gc_room(self.state, room) }
    }

    /// Whether a hook is set in the machine, other than one that stops a script.
    #[inline]
    pub(crate) fn has_hook(self) -> bool {
        // SAFETY: `state` is live.
        unsafe { tidegate_lua_has_hook(self.state) != 0 }
    }

    /// Removes the machine's hook, and the function that `debug.sethook` keeps for it.
    #[cold]
    pub(crate) fn drop_hook(self) {
        /// Where the registry has that function: LuaJIT's `KEY_HOOK`, a number that nobody else uses.
        const KEY_HOOK: f64 = f64::from_bits(0x8100_0000_0000_0000 | b'h' as u64);
        // SAFETY: `state` is live; hooks may be set at any time.
        unsafe { ffi::lua_sethook(self.state, None, 0, 0) };
        // SAFETY: no script of the machine runs, hence nobody works with this stack; the body uses its own only.
        let lua = unsafe { self.lua() };
        // The key is there: nothing is allocated.
        let _ = lua.protect(|lua| {
            lua.push_number(KEY_HOOK);
            lua.push_nil();
            lua.raw_set(ffi::LUA_REGISTRYINDEX);
            Ok(())
        });
    }

    /// Lets every C function that Lua calls measure the C stack first: where it ends, the script gets an error.
    pub(crate) fn guard_stack(self) {
        // SAFETY: `state` is live; changes how it calls functions, which have the same form as before.
        unsafe { tidegate_lua_guard_stack(self.state) }
    }

    /// Bytes in use by the virtual machine.
    pub fn allocated_bytes(self) -> usize {
        // SAFETY: `state` is live.
        unsafe { tidegate_lua_allocated(self.state) }
    }
}
