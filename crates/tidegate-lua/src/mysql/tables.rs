//! Results become Lua tables, value by value as they arrive.
//!
//! While a result is being built its parts stand on the stack of a protected call:
//!
//! ```text
//! base+1  the array of rows
//! base+2  ngx.null
//! base+3  a row of this shape, or false
//! ```
//!
//! Between polls they are kept in the registry. Rows are copies of one whose values are written in place
//! ([`super::row`]); with `compact_arrays`, arrays.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::future::poll_fn;
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rows::number::{append_float, append_int, append_uint};
use tidegate_rows::{Column, ColumnType, Flow, Sink, SinkClosed, Summary, Value};

use super::row::{self, Int64, Slots};
use crate::api::fault;
use crate::error::{Failure, LuaError};
use crate::stack::{Coroutine, Lua, Ref};
use crate::vm::Vm;

/// What becomes of `BIGINT` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BigInt {
    /// Strings of digits, as lua-resty-mysql has them.
    #[default]
    String,
    /// `int64_t` and `uint64_t` of LuaJIT's FFI.
    Cdata,
    /// Lua numbers, exact up to 2^53.
    Number,
}

/// The form of the Lua tables that rows become.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// Rows are arrays of values rather than tables by column name.
    pub(super) compact: bool,
    /// How many rows the script expects.
    pub(super) rows_hint: c_int,
    pub(super) bigint: BigInt,
}

/// Rows that room is made for when the script does not say.
pub(super) const ROWS_HINT_DEFAULT: c_int = 4;
/// Room that is made in advance at most, whatever the script says.
pub(super) const ROWS_HINT_MAX: c_int = 1 << 20;

/// The largest integer below which a Lua number holds every one.
const EXACT_MAX: u64 = 1 << 53;

/// A value kept in the registry until it is pushed or dropped.
pub(super) struct Kept {
    vm: Rc<Vm>,
    reference: Ref,
}

impl Kept {
    /// Pops the value on top. *May raise* (memory).
    fn take(vm: &Rc<Vm>, lua: &mut Lua) -> Self {
        Self { vm: vm.clone(), reference: lua.make_ref() }
    }

    pub(super) fn push(&self, lua: &mut Lua) {
        lua.push_ref(self.reference);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.vm.main().unref(self.reference);
    }
}

/// A result that is complete.
pub(super) struct Built {
    pub(super) table: Kept,
    /// Another result of the same batch follows.
    pub(super) more: bool,
}

/// The parts of a result between two polls.
struct Parts {
    rows: Kept,
    template: Kept,
}

/// What a sink and the one who polls its statement share.
pub(super) struct Tables {
    vm: Rc<Vm>,
    /// Where tables are built, within [`Tables::enter`] and [`Tables::leave`].
    lua: Cell<Coroutine>,
    base: Cell<c_int>,
    /// The row under way, as long as it is on top of the stack.
    copy: Cell<Option<row::Copy>>,
    /// A result with rows is under way.
    has_rows: Cell<bool>,
    parts: RefCell<Option<Parts>>,
    built: RefCell<Vec<Built>>,
}

const ROWS: c_int = 1;
const NULL: c_int = 2;
const TEMPLATE: c_int = 3;
/// Slots that a row under way may take.
const WORK_SLOTS: c_int = 8;

impl Tables {
    pub(super) fn new(vm: Rc<Vm>) -> Rc<Self> {
        Rc::new(Self {
            lua: Cell::new(vm.main()),
            vm,
            base: Cell::new(0),
            copy: Cell::new(None),
            has_rows: Cell::new(false),
            parts: RefCell::default(),
            built: RefCell::default(),
        })
    }

    /// The results that are complete.
    pub(super) fn take_built(&self) -> Vec<Built> {
        self.built.take()
    }

    /// Puts the result under way back on the stack. *May raise* (memory).
    fn enter(&self, lua: &mut Lua) -> Result<(), LuaError> {
        self.lua.set(lua.coroutine());
        self.base.set(lua.top());
        lua.reserve(TEMPLATE + WORK_SLOTS)?;
        let parts = self.parts.take();
        let Some(parts) = parts else { return Ok(()) };
        parts.rows.push(lua);
        lua.push_light(ptr::null());
        parts.template.push(lua);
        self.parts.replace(Some(parts));
        Ok(())
    }

    /// Keeps the result under way until the next poll. *May raise* (memory).
    fn leave(&self, lua: &mut Lua) {
        if !self.has_rows.get() || self.parts.borrow().is_some() {
            return;
        }
        let base = self.base.get();
        let mut keep = |index: c_int| {
            lua.push_value(base + index);
            Kept::take(&self.vm, lua)
        };
        let parts = Parts { rows: keep(ROWS), template: keep(TEMPLATE) };
        self.parts.replace(Some(parts));
    }

    /// Runs `body` with the result under way on the stack of a protected call.
    pub(super) fn within(&self, body: impl FnOnce() -> bool) -> Result<(), Failure> {
        // SAFETY: the body brings nothing that it has borrowed of the main state's stack.
        let main = unsafe { self.vm.main().lua() };
        let outcome = main.protect(|lua| {
            self.enter(lua)?;
            if !body() {
                self.leave(lua);
            }
            Ok(())
        });
        self.copy.set(None);
        outcome
    }

    /// The stack that [`Tables::within`] has entered, and where its part of it begins.
    ///
    /// # Safety
    /// Called within [`Tables::within`] only, and what the last call gave is not used any more.
    unsafe fn stack<'a>(&self) -> (&'a mut Lua, c_int) {
        // SAFETY: `within` keeps nothing that it has borrowed of the stack while its body runs; a method of the sink drops it at its end.
        (unsafe { self.lua.get().lua() }, self.base.get())
    }

    /// Hands a record's calls to `sink`, whose tables these are.
    ///
    /// # Errors
    /// A want of memory.
    pub(super) fn play(&self, record: &super::record::Record, sink: &mut TableSink) -> Result<(), Failure> {
        self.within(|| {
            record.play(sink);
            false
        })
    }
}

/// Polls a statement whose [`TableSink`] has these tables until it has ended.
///
/// # Errors
/// A want of memory; the statement was given up then.
pub(super) async fn building<F: Future>(tables: Rc<Tables>, mut statement: Pin<Box<F>>) -> Result<F::Output, Failure> {
    poll_fn(move |cx| {
        let mut polled = Poll::Pending;
        let result = tables.within(|| {
            polled = statement.as_mut().poll(cx);
            polled.is_ready()
        });
        match result {
            Ok(()) => polled.map(Ok),
            Err(failure) => Poll::Ready(Err(failure)),
        }
    })
    .await
}

/// What a column's values become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A Lua number.
    Number,
    /// `int64_t` or `uint64_t` of LuaJIT's FFI.
    Cdata { unsigned: bool },
    /// A string.
    Text,
}

impl Kind {
    fn of(column: &Column, bigint: BigInt) -> Self {
        use ColumnType::*;
        match column.kind {
            Decimal | Tiny | Short | Long | Float | Double | Int24 | Year | NewDecimal => Self::Number,
            LongLong => match bigint {
                BigInt::String => Self::Text,
                BigInt::Number => Self::Number,
                BigInt::Cdata => Self::Cdata { unsigned: column.flags.is_unsigned() },
            },
            _ => Self::Text,
        }
    }
}

/// A value on its way into a table.
enum Cooked<'a> {
    Null,
    /// A number that is none: the field stays away, as with `tonumber`.
    Nothing,
    Number(f64),
    Bytes(&'a [u8]),
    Int64(Int64),
}

/// Builds tables. It may be called within [`building`] or [`Tables::play`] only.
pub(super) struct TableSink {
    tables: Rc<Tables>,
    shape: Shape,
    kinds: Vec<Kind>,
    row_count: c_int,
    /// Those of the rows; `None` with `compact_arrays`.
    slots: Option<Slots>,
    /// Not one row can be built: there is no room for the columns.
    too_wide: bool,
    text: Vec<u8>,
}

impl TableSink {
    pub(super) fn new(tables: Rc<Tables>, shape: Shape) -> Self {
        Self { tables, shape, kinds: Vec::new(), row_count: 0, slots: None, too_wide: false, text: Vec::new() }
    }

    /// Whether a result had more columns than Lua's stack has room for, so that its rows are missing.
    pub(super) fn is_too_wide(&self) -> bool {
        self.too_wide
    }

    fn any_value(&mut self, index: usize, value: Value<'_>) {
        let Some(kind) = self.kinds.get(index).copied().filter(|_| !self.too_wide) else { return };
        // SAFETY: a sink is called while its statement is polled, within `within`.
        let (lua, _) = unsafe { self.tables.stack() };
        let mut text = std::mem::take(&mut self.text);
        let value = cook(kind, value, &mut text);
        match (self.tables.copy.get(), &self.slots) {
            (Some(copy), Some(slots)) => self.set_in_copy(lua, copy, slots, index, value),
            _ => self.set_element(lua, index, value),
        }
        self.text = text;
    }

    fn finish(&self, lua: &mut Lua, more: bool) {
        let table = Kept::take(&self.tables.vm, lua);
        self.tables.built.borrow_mut().push(Built { table, more });
    }

    fn set_in_copy(&self, lua: &mut Lua, copy: row::Copy, slots: &Slots, index: usize, value: Cooked<'_>) {
        // SAFETY: `Tables::copy` holds it as long as it is on top; what is pushed here is popped again.
        unsafe {
            match value {
                Cooked::Number(number) => slots.set_number(copy, index, number),
                Cooked::Bytes(bytes) => slots.set_bytes(copy, index, bytes),
                Cooked::Null => slots.set_value(copy, index, self.tables.base.get() + NULL),
                Cooked::Nothing => {
                    lua.push_nil();
                    slots.set_value(copy, index, lua.top());
                    lua.pop(1);
                }
                Cooked::Int64(value) => {
                    row::push_int64(lua, value);
                    slots.set_value(copy, index, lua.top());
                    lua.pop(1);
                }
            }
        }
    }

    /// Sets an element of the array on top.
    fn set_element(&self, lua: &mut Lua, index: usize, value: Cooked<'_>) {
        match value {
            Cooked::Number(value) => lua.push_number(value),
            Cooked::Bytes(bytes) => lua.push_bytes(bytes),
            Cooked::Null => lua.push_light(ptr::null()),
            Cooked::Nothing => lua.push_nil(),
            Cooked::Int64(value) => row::push_int64(lua, value),
        }
        lua.raw_set_index(-2, c_int::try_from(index).unwrap_or(0) + 1);
    }
}

impl Sink for TableSink {
    fn columns(&mut self, columns: &[Column]) {
        fault::result_set_begins();
        // SAFETY: as in `any_value`.
        let (lua, base) = unsafe { self.tables.stack() };
        self.kinds.clear();
        self.kinds.extend(columns.iter().map(|column| Kind::of(column, self.shape.bigint)));
        self.row_count = 0;
        self.slots = None;
        self.tables.copy.set(None);
        lua.set_top(base);
        let count = c_int::try_from(columns.len()).unwrap_or(c_int::MAX);
        self.too_wide = lua.reserve(count.saturating_add(TEMPLATE + WORK_SLOTS)).is_err();
        lua.push_table(self.shape.rows_hint, 0);
        lua.push_light(ptr::null());
        if self.too_wide || self.shape.compact {
            lua.push_bool(false);
        } else {
            self.slots = self.tables.vm.row_shapes.push(lua, columns);
        }
        self.tables.has_rows.set(true);
    }

    fn begin_row(&mut self) {
        if self.too_wide {
            return;
        }
        // SAFETY: as in `any_value`.
        let (lua, base) = unsafe { self.tables.stack() };
        match &self.slots {
            Some(slots) => self.tables.copy.set(Some(slots.copy(lua, base + TEMPLATE))),
            None => lua.push_table(c_int::try_from(self.kinds.len()).unwrap_or(0), 0),
        }
    }

    #[inline]
    fn value(&mut self, index: usize, value: Value<'_>) {
        // What nearly all values are: a text of the text protocol, or a whole number.
        if let (Some(copy), Some(slots), Value::Bytes(bytes)) = (self.tables.copy.get(), &self.slots, value) {
            match self.kinds.get(index) {
                // SAFETY: `Tables::copy` holds it as long as it is on top.
                Some(Kind::Text) => return unsafe { slots.set_bytes(copy, index, bytes) },
                Some(Kind::Number) => {
                    if let Some(number) = whole_number(bytes) {
                        // SAFETY: as above.
                        return unsafe { slots.set_number(copy, index, number) };
                    }
                }
                _ => {}
            }
        }
        self.any_value(index, value);
    }

    fn end_row(&mut self) -> Flow {
        if self.too_wide {
            return Flow::More;
        }
        // SAFETY: as in `any_value`.
        let (lua, base) = unsafe { self.tables.stack() };
        self.tables.copy.set(None);
        self.row_count += 1;
        lua.raw_set_index(base + ROWS, self.row_count);
        Flow::More
    }

    fn end_result(&mut self, summary: &Summary) {
        // SAFETY: as in `any_value`.
        let (lua, base) = unsafe { self.tables.stack() };
        if self.tables.has_rows.replace(false) {
            lua.set_top(base + ROWS);
            let parts = self.tables.parts.take();
            drop(parts);
        } else {
            push_summary(lua, self.shape.bigint, summary);
        }
        self.finish(lua, summary.more_results);
        lua.set_top(base);
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

/// What a statement without rows gives.
fn push_summary(lua: &mut Lua, bigint: BigInt, summary: &Summary) {
    lua.push_table(0, 5);
    for (name, value) in [
        ("affected_rows", summary.affected_rows),
        ("insert_id", summary.insert_id),
        ("server_status", u64::from(summary.status)),
        ("warning_count", u64::from(summary.warnings)),
    ] {
        match bigint {
            BigInt::Cdata if value > EXACT_MAX => row::push_int64(lua, Int64::Unsigned(value)),
            _ => lua.push_number(value as f64),
        }
        lua.raw_set_field(-2, name.as_bytes());
    }
    if !summary.info.is_empty() {
        lua.push_bytes(&summary.info);
        lua.raw_set_field(-2, b"message");
    }
}

/// What a value becomes. `text` is memory to write numbers into.
fn cook<'a>(kind: Kind, value: Value<'a>, text: &'a mut Vec<u8>) -> Cooked<'a> {
    match (value, kind) {
        (Value::Null, _) => Cooked::Null,
        (Value::Bytes(bytes), Kind::Text) => Cooked::Bytes(bytes),
        (Value::Bytes(bytes), Kind::Number) => parse_number(bytes),
        (Value::Bytes(bytes), Kind::Cdata { unsigned }) => {
            parse_int64(bytes, unsigned).map_or(Cooked::Bytes(bytes), Cooked::Int64)
        }
        (Value::Int(value), Kind::Cdata { unsigned: false }) => Cooked::Int64(Int64::Signed(value)),
        (Value::Int(value), Kind::Cdata { unsigned: true }) => Cooked::Int64(Int64::Unsigned(value.cast_unsigned())),
        (Value::Uint(value), Kind::Cdata { .. }) => Cooked::Int64(Int64::Unsigned(value)),
        (Value::Int(value), Kind::Number) => Cooked::Number(value as f64),
        (Value::Uint(value), Kind::Number) => Cooked::Number(value as f64),
        (Value::Int(value), _) => {
            text.clear();
            append_int(text, value);
            Cooked::Bytes(text)
        }
        (Value::Uint(value), _) => {
            text.clear();
            append_uint(text, value);
            Cooked::Bytes(text)
        }
        // By its shortest text, as the text protocol has it: 1.1 rather than 1.10000002384.
        (Value::Float(value), _) => {
            text.clear();
            append_float(text, value);
            parse_number(text)
        }
        (Value::Double(value), _) => Cooked::Number(value),
    }
}

/// A number of one to fifteen digits and nothing else.
#[inline]
fn whole_number(text: &[u8]) -> Option<f64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    let mut number = 0_i64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(number as f64)
}

/// A number as servers write them. The common ones, of up to 15 digits, need no general parser.
#[inline]
fn parse_number<'a>(text: &[u8]) -> Cooked<'a> {
    const DIGITS_MAX: usize = 15;
    const POWERS: [f64; DIGITS_MAX + 1] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (digits, negative) = match text.split_first() {
        Some((b'-', digits)) => (digits, true),
        _ => (text, false),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return parse_any_number(text);
    }
    let (mut number, mut fraction, mut point) = (0_u64, 0_usize, false);
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                number = number * 10 + u64::from(byte - b'0');
                fraction += usize::from(point);
            }
            b'.' if !point && digits.len() > 1 => point = true,
            _ => return parse_any_number(text),
        }
    }
    // Both are exact, hence the quotient is the nearest number.
    let number = number as f64 / POWERS[fraction];
    Cooked::Number(if negative { -number } else { number })
}

#[cold]
fn parse_any_number<'a>(text: &[u8]) -> Cooked<'a> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<f64>().ok());
    number.map_or(Cooked::Nothing, Cooked::Number)
}

fn parse_int64(text: &[u8], unsigned: bool) -> Option<Int64> {
    let text = std::str::from_utf8(text).ok()?;
    if unsigned { text.parse().ok().map(Int64::Unsigned) } else { text.parse().ok().map(Int64::Signed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<f64>) {
        let found = match parse_number(text.as_bytes()) {
            Cooked::Number(number) => Some(number),
            _ => None,
        };
        assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{text}: {found:?}");
    }

    #[test]
    fn numbers() {
        check("0", Some(0.0));
        check("-1", Some(-1.0));
        check("00042", Some(42.0));
        check("0.1", Some(0.1));
        check("-0.30", Some(-0.3));
        check("123456789.12345", Some(123_456_789.123_45));
        check("999999999999999", Some(999_999_999_999_999.0));
        check("12345678901234567890", Some(12_345_678_901_234_567_000.0));
        check("1e300", Some(1e300));
        check("1.7976931348623157e308", Some(f64::MAX));
        check("-1.5e-7", Some(-1.5e-7));
        check(".5", Some(0.5));
        check("", None);
        check("-", None);
        check(".", None);
        check("1.2.3", None);
        check("abc", None);
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole_number(b"0"), Some(0.0));
        assert_eq!(whole_number(b"00790"), Some(790.0));
        assert_eq!(whole_number(b"999999999999999"), Some(999_999_999_999_999.0));
        for text in [&b""[..], b"-1", b"1.5", b"1e3", b" 1", b"9999999999999999"] {
            assert_eq!(whole_number(text), None);
        }
    }

    #[test]
    fn integers() {
        assert_eq!(parse_int64(b"-9223372036854775808", false), Some(Int64::Signed(i64::MIN)));
        assert_eq!(parse_int64(b"18446744073709551615", true), Some(Int64::Unsigned(u64::MAX)));
        assert_eq!(parse_int64(b"18446744073709551615", false), None);
        assert_eq!(parse_int64(b"x", false), None);
    }
}
