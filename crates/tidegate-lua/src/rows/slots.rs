//! Copies of a row's table whose values are written without looking their keys up (`tidegate-luajit/rows.c`).

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::rc::Rc;

use mlua_sys::lua_State;
use tidegate_rows::Column;

use crate::stack::{Coroutine, Lua, Ref};

unsafe extern "C-unwind" {
    fn tidegate_lua_row_slot(state: *mut lua_State, row: c_int, key: c_int) -> isize;
    fn tidegate_lua_row_copy(state: *mut lua_State, row: c_int, size: *mut usize) -> *mut c_char;
    fn tidegate_lua_slot_bytes(state: *mut lua_State, slot: *mut c_char, bytes: *const c_char, size: usize);
    fn tidegate_lua_slot_value(state: *mut lua_State, slot: *mut c_char, index: c_int);
    fn tidegate_lua_push_int64(state: *mut lua_State, bits: u64, is_unsigned: c_int);
    fn tidegate_lua_to_int64(state: *mut lua_State, index: c_int, bits: *mut u64) -> c_int;
}

/// A 64-bit integer as LuaJIT's FFI has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Int64 {
    Signed(i64),
    Unsigned(u64),
}

/// Pushes an `int64_t` or `uint64_t`. *May raise* (memory).
pub(super) fn push_int64(lua: &mut Lua, value: Int64) {
    let (bits, is_unsigned) = match value {
        Int64::Signed(value) => (value.cast_unsigned(), 0),
        Int64::Unsigned(value) => (value, 1),
    };
    // SAFETY: the state is live; LuaJIT grows the stack where there is no room.
    unsafe { tidegate_lua_push_int64(lua.raw(), bits, is_unsigned) }
}

/// The `int64_t` or `uint64_t` at `index`, counted from 1.
pub(crate) fn to_int64(lua: &mut Lua, index: c_int) -> Option<Int64> {
    let mut bits = 0;
    // SAFETY: any index and value are acceptable.
    match unsafe { tidegate_lua_to_int64(lua.raw(), index, &raw mut bits) } {
        1 => Some(Int64::Signed(bits.cast_signed())),
        2 => Some(Int64::Unsigned(bits)),
        _ => None,
    }
}

/// LuaJIT's not-a-number. Source: lj_obj.h, `setnanV`.
const CANONICAL_NAN: f64 = f64::from_bits(0xfff8_0000_0000_0000);

/// Where the columns' values stand in tables that are copies of one row.
#[derive(Debug, Clone)]
pub(super) struct Slots(Rc<[isize]>);

/// How many shapes a machine keeps.
const SHAPES_MAX: usize = 32;

/// Rows by the names of their columns: those that a machine had lately.
#[derive(Default)]
pub(crate) struct Shapes {
    known: RefCell<Vec<Shape>>,
    /// Which one goes next when there is no room.
    oldest: Cell<usize>,
}

/// Rows that have the same columns.
struct Shape {
    names: Vec<Box<[u8]>>,
    /// A table with all names, in the registry.
    template: Ref,
    slots: Slots,
}

impl Shapes {
    /// Pushes a table that has the columns' names for keys, of which rows are copies, and gives its slots; `None` and
    /// `false` if there are none. *May raise* (memory). The caller reserved a slot for each column and three more.
    pub(super) fn push(&self, lua: &mut Lua, columns: &[Column]) -> Option<Slots> {
        let fits = |shape: &&Shape| {
            shape.names.len() == columns.len()
                && shape.names.iter().zip(columns).all(|(name, column)| *name == column.name)
        };
        let known = self.known.borrow().iter().find(fits).map(|shape| (shape.template, shape.slots.clone()));
        if let Some((template, slots)) = known {
            lua.push_ref(template);
            return Some(slots);
        }
        let table = lua.top() + 1;
        lua.push_table(0, c_int::try_from(columns.len()).unwrap_or(0));
        for column in columns {
            lua.push_bytes(&column.name);
            lua.push_value(-1);
            lua.push_bool(false);
            lua.raw_set(table);
        }
        let slots = Slots::of(lua, table, table + 1, lua.top() - table);
        lua.set_top(table);
        if slots.is_none() {
            lua.pop(1);
            lua.push_bool(false);
        }
        let slots = slots?;
        lua.push_value(table);
        let template = lua.make_ref();
        let shape =
            Shape { names: columns.iter().map(|column| column.name.clone()).collect(), template, slots: slots.clone() };
        let mut known = self.known.borrow_mut();
        if known.len() < SHAPES_MAX {
            known.push(shape);
        } else {
            let oldest = self.oldest.replace((self.oldest.get() + 1) % SHAPES_MAX);
            lua.coroutine().unref(std::mem::replace(&mut known[oldest], shape).template);
        }
        Some(slots)
    }
}

/// A copy under way: the table on top of the stack.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    lua: Coroutine,
    base: *mut c_char,
    /// Of the slots, in bytes.
    size: usize,
}

impl Copy {
    /// The slot at an offset of [`Slots`]; `None` where the table that was copied has not so many: with the debug library a
    /// script may have put another one in the template's place.
    #[inline]
    fn slot(self, offset: isize) -> Option<*mut c_char> {
        let offset = offset.unsigned_abs();
        // SAFETY: the offset is a multiple of a node's size, at whose beginning its value stands, and lies within the slots.
        (offset < self.size).then(|| unsafe { self.base.add(offset) })
    }
}

impl Slots {
    /// Those of the table at `row` for the `count` keys from `first_key` on; `None` unless it has all of them, and some.
    fn of(lua: &mut Lua, row: c_int, first_key: c_int, count: c_int) -> Option<Self> {
        let slot = |key: c_int| {
            // SAFETY: any indexes and values are acceptable.
            let slot = unsafe { tidegate_lua_row_slot(lua.raw(), row, key) };
            (slot >= 0).then_some(slot)
        };
        (first_key..first_key + count).map(slot).collect::<Option<Rc<_>>>().filter(|_| count > 0).map(Self)
    }

    /// Pushes a copy of the table at `row`, which these slots are of. *May raise* (memory).
    ///
    /// Until the copy is stored somewhere, only its own methods may be called on the state.
    pub(super) fn copy(&self, lua: &mut Lua, row: c_int) -> Copy {
        let mut size = 0;
        // SAFETY: any index and value are acceptable; LuaJIT grows the stack where there is no room.
        let base = unsafe { tidegate_lua_row_copy(lua.raw(), row, &raw mut size) };
        Copy { lua: lua.coroutine(), base, size }
    }

    /// Writes bytes as column `column`'s value. *May raise* (memory).
    ///
    /// # Safety
    /// The copy is on top of its stack, as [`Slots::copy`] has left it there.
    #[inline]
    pub(super) unsafe fn set_bytes(&self, copy: Copy, column: usize, bytes: &[u8]) {
        let Some(slot) = copy.slot(self.0[column]) else { return };
        // SAFETY: the slot is one of the table on top, by this function's contract.
        unsafe { tidegate_lua_slot_bytes(copy.lua.raw(), slot, bytes.as_ptr().cast(), bytes.len()) }
    }

    /// Writes a number as column `column`'s value.
    ///
    /// # Safety
    /// As for [`Slots::set_bytes`].
    #[inline]
    pub(super) unsafe fn set_number(&self, copy: Copy, column: usize, number: f64) {
        // LuaJIT has one not-a-number: the others' bits are values of other types.
        let number = if number.is_nan() { CANONICAL_NAN } else { number };
        let Some(slot) = copy.slot(self.0[column]) else { return };
        // SAFETY: as for `set_bytes`. Slots are aligned to 8 bytes, and a number is its own 64 bits.
        unsafe { slot.cast::<f64>().write(number) }
    }

    /// Writes the value at `index` of the stack (counted from 1) as column `column`'s value.
    ///
    /// # Safety
    /// As for [`Slots::set_bytes`], but for values that were pushed on top of the copy.
    pub(super) unsafe fn set_value(&self, copy: Copy, column: usize, index: c_int) {
        let Some(slot) = copy.slot(self.0[column]) else { return };
        // SAFETY: as for `set_bytes`; any index is acceptable.
        unsafe { tidegate_lua_slot_value(copy.lua.raw(), slot, index) }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_rows::{Column, ColumnType};

    use super::*;
    use crate::vm::{Vm, VmConfig};

    fn columns(names: &[&str]) -> Vec<Column> {
        names.iter().map(|name| Column::expression(name.as_bytes(), ColumnType::Long)).collect()
    }

    /// The numbers of a row of `names` whose values count up from 1, by name; -1 where there is none.
    fn row_of(vm: &Vm, names: &[&str]) -> Vec<f64> {
        let mut found = Vec::new();
        // SAFETY: nobody else works with the main state.
        let made = unsafe { vm.main().lua() }.protect(|lua| {
            lua.reserve(20)?;
            let template = lua.top() + 1;
            let Some(slots) = vm.row_shapes.push(lua, &columns(names)) else { return Ok(()) };
            let copy = slots.copy(lua, template);
            for column in 0..names.len() {
                // SAFETY: the copy is on top.
                unsafe { slots.set_number(copy, column, column as f64 + 1.0) };
            }
            for name in names {
                lua.raw_get_field(-1, name.as_bytes());
                found.push(lua.to_number(-1).unwrap_or(-1.0));
                lua.pop(1);
            }
            Ok(())
        });
        assert!(made.is_ok());
        found
    }

    #[test]
    fn shapes_are_kept_and_replaced() {
        let vm = Vm::new(VmConfig::default()).unwrap();
        assert_eq!(row_of(&vm, &["id", "name"]), [1.0, 2.0]);
        assert_eq!(row_of(&vm, &["name", "id"]), [1.0, 2.0]);
        // The last of two columns with one name stays.
        assert_eq!(row_of(&vm, &["id", "id"]), [2.0, 2.0]);
        assert_eq!(row_of(&vm, &[""]), [1.0]);
        assert!(row_of(&vm, &[]).is_empty());
        assert_eq!(vm.row_shapes.known.borrow().len(), 4);
        for round in 0..3 * SHAPES_MAX {
            let names = [format!("a{round}"), "id".to_owned(), "__index".to_owned()];
            let names = names.each_ref().map(String::as_str);
            assert_eq!(row_of(&vm, &names), [1.0, 2.0, 3.0]);
            assert_eq!(row_of(&vm, &names), [1.0, 2.0, 3.0]);
        }
        assert_eq!(vm.row_shapes.known.borrow().len(), SHAPES_MAX);
    }
}
