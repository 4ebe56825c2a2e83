//! Result sets become Lua tables, row by row, straight from the page or packet that a row lies in.
//!
//! | file | what lives there |
//! | --- | --- |
//! | this one | a result under way, and the sink that builds it |
//! | `conversion` | what a value becomes in Lua |
//! | `slots` | copies of a row whose values are written in place |
//!
//! While a statement is polled, the parts of its result stand on the main state's stack:
//!
//! ```text
//! base+1  the array of rows
//! base+2  ngx.null
//! base+3  a row of this shape, or false
//! ```
//!
//! Between polls they are kept in the registry. Rows are copies of one whose values are written in place; with
//! `compact_arrays`, arrays.
//!
//! The embedded engine runs a statement on a stack of its own, through which no error may unwind. So each call of the sink
//! works within [`Lua::shelter`], where a want of memory ends that call alone: the sink is closed then, the statement ends by
//! that, and who has polled it gets the [`Failure`].

mod conversion;
mod slots;

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::future::poll_fn;
use std::pin::pin;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Field, Flow, Row, Sink, SinkClosed, Summary, Value};

use crate::error::{Failure, LuaError};
use crate::stack::{Coroutine, Lua, Ref};
use crate::vm::Vm;
use conversion::{Cooked, EXACT_MAX, Kind, cook, whole_number};
use slots::Slots;

pub(crate) use conversion::Integers;
pub(crate) use slots::{Int64, Shapes, to_int64};

/// The form of the Lua tables that rows become, and how much there may be of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Rows are arrays of values rather than tables by column name.
    pub(crate) compact: bool,
    /// How many rows the script expects.
    pub(crate) rows_hint: c_int,
    pub(crate) integers: Integers,
    pub(crate) results: Results,
    /// Bytes of values, with [`VALUE_BYTES`] for each, after which a result is given up.
    pub(crate) bytes_max: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            compact: false,
            rows_hint: ROWS_HINT_DEFAULT,
            integers: Integers::default(),
            results: Results::default(),
            bytes_max: usize::MAX,
        }
    }
}

/// The results of a batch that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Results {
    /// All of them.
    #[default]
    All,
    /// The rows of the last one; none where it has none.
    LastRows,
    /// Its rows one by one, while the statement waits: see [`Tables::push_next`].
    OneByOne,
}

/// Rows that room is made for when the script does not say.
pub(crate) const ROWS_HINT_DEFAULT: c_int = 4;
/// Room that is made in advance at most, whatever the script says.
pub(crate) const ROWS_HINT_MAX: c_int = 1 << 20;

/// Memory of a value beside its bytes, for [`Shape::bytes_max`].
const VALUE_BYTES: usize = 16;

/// Rows that are taken one by one are handed over in pieces of about this size.
const PIECE_BYTES: usize = 64 << 10;

thread_local! {
    /// See [`panic_at_next_result`].
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Has the next result set panic, as a mistake of ours would (`tidegate.fault`).
pub(crate) fn panic_at_next_result() {
    PANICS.set(true);
}

/// A value kept in the registry until it is pushed or dropped.
pub(crate) struct Kept {
    vm: Rc<Vm>,
    reference: Ref,
}

impl Kept {
    /// Pops the value on top. *May raise* (memory).
    fn take(vm: &Rc<Vm>, lua: &mut Lua) -> Self {
        Self { vm: vm.clone(), reference: lua.make_ref() }
    }

    pub(crate) fn push(&self, lua: &Lua) {
        lua.push_ref(self.reference);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.vm.main().unref(self.reference);
    }
}

/// A result that is complete.
pub(crate) struct Built {
    pub(crate) table: Kept,
    /// Another result of the same batch follows.
    pub(crate) more: bool,
}

/// The parts of a result between two polls.
struct Parts {
    rows: Kept,
    template: Kept,
}

/// Where tables are built while a statement is polled.
#[derive(Clone, Copy)]
struct Place {
    lua: Coroutine,
    base: c_int,
}

/// What a sink and the one who polls its statement share.
pub(crate) struct Tables {
    vm: Rc<Vm>,
    /// `None` between two polls, when nothing is built: a statement that is dropped may still call its sink.
    place: Cell<Option<Place>>,
    /// A result with rows is under way.
    has_rows: Cell<bool>,
    /// Rows in its array.
    row_count: Cell<c_int>,
    /// Those of them that were taken one by one.
    taken: Cell<c_int>,
    /// The size of its rows.
    bytes: Cell<usize>,
    parts: RefCell<Option<Parts>>,
    built: RefCell<Vec<Built>>,
    failure: RefCell<Option<Failure>>,
    /// The result was larger than [`Shape::bytes_max`].
    too_big: Cell<bool>,
    /// Not one row can be built: there is no room for the columns.
    too_wide: Cell<bool>,
}

const ROWS: c_int = 1;
const NULL: c_int = 2;
const TEMPLATE: c_int = 3;
/// Slots that a row under way may take.
const WORK_SLOTS: c_int = 8;

impl Tables {
    pub(crate) fn new(vm: Rc<Vm>) -> Rc<Self> {
        Rc::new(Self {
            vm,
            place: Cell::new(None),
            has_rows: Cell::new(false),
            row_count: Cell::new(0),
            taken: Cell::new(0),
            bytes: Cell::new(0),
            parts: RefCell::default(),
            built: RefCell::default(),
            failure: RefCell::default(),
            too_big: Cell::new(false),
            too_wide: Cell::new(false),
        })
    }

    /// The results that are complete.
    pub(crate) fn take_built(&self) -> Vec<Built> {
        self.built.take()
    }

    /// The want of memory that has closed the sink.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.take()
    }

    /// Whether there was more than may be held.
    pub(crate) fn is_too_big(&self) -> bool {
        self.too_big.get()
    }

    /// Whether a result had more columns than Lua's stack has room for, so that its rows are missing.
    pub(crate) fn is_too_wide(&self) -> bool {
        self.too_wide.get()
    }

    /// Polls a statement whose [`TableSink`] has these tables.
    pub(crate) fn during<R>(&self, poll: impl FnOnce() -> R) -> R {
        /// Leaves the stack as it was, after a panic too.
        struct Entered<'a>(&'a Tables, Place);
        impl Drop for Entered<'_> {
            fn drop(&mut self) {
                self.0.place.set(None);
                // SAFETY: what was borrowed of the stack meanwhile was given back with the poll.
                unsafe { self.1.lua.lua() }.set_top(self.1.base);
            }
        }
        let lua = self.vm.main();
        let place = Place { lua, base: lua.top() };
        self.place.set(Some(place));
        let entered = Entered(self, place);
        self.build(|lua, _| self.enter(lua));
        let result = poll();
        if self.has_rows.get() && self.parts.borrow().is_none() {
            self.build(|lua, base| self.keep(lua, base));
        }
        drop(entered);
        // SAFETY: as above.
        unsafe { lua.lua() }.collect();
        result
    }

    /// Puts the result under way back on the stack. *May raise* (memory).
    fn enter(&self, lua: &mut Lua) {
        if lua.reserve(TEMPLATE + WORK_SLOTS).is_err() {
            return self.fail(Failure::memory());
        }
        if let Some(parts) = &*self.parts.borrow() {
            parts.rows.push(lua);
            lua.push_light(ptr::null());
            parts.template.push(lua);
        }
    }

    /// Keeps the result under way until the next poll. *May raise* (memory).
    fn keep(&self, lua: &mut Lua, base: c_int) {
        let mut keep = |index: c_int| {
            lua.push_value(base + index);
            Kept::take(&self.vm, lua)
        };
        let parts = Parts { rows: keep(ROWS), template: keep(TEMPLATE) };
        self.parts.replace(Some(parts));
    }

    fn fail(&self, failure: Failure) {
        self.has_rows.set(false);
        self.failure.borrow_mut().get_or_insert(failure);
    }

    /// Whether nothing more is wanted.
    fn is_closed(&self) -> bool {
        self.place.get().is_none() || self.too_big.get() || self.failure.borrow().is_some()
    }

    /// Has `body` work on the stack, whose part of it begins above `base`. Answers whether it has done so: it does nothing when the
    /// sink is closed, and closes it when it fails.
    #[inline]
    fn build(&self, body: impl FnOnce(&mut Lua, c_int)) -> bool {
        let Some(Place { lua, base }) = self.place.get().filter(|_| !self.is_closed()) else { return false };
        // SAFETY: what the calls before have borrowed of the stack they have given back; the body works above `base`.
        let built = unsafe { lua.lua() }.shelter(|lua| body(lua, base));
        match built {
            Ok(()) => true,
            Err(failure) => {
                self.fail(failure);
                false
            }
        }
    }

    /// A result set begins.
    fn begin(&self) {
        drop(self.parts.take());
        self.has_rows.set(true);
        self.row_count.set(0);
        self.taken.set(0);
        self.bytes.set(0);
    }

    /// Whether there are rows that wait to be taken one by one.
    pub(crate) fn has_waiting_rows(&self) -> bool {
        self.taken.get() < self.row_count.get()
    }

    /// Whether the statement has to wait until some rows were taken.
    pub(crate) fn is_full(&self) -> bool {
        self.has_waiting_rows() && self.bytes.get() >= PIECE_BYTES
    }

    /// Pushes the next of the rows that wait, between two polls; nothing if there is none. *May raise* (memory).
    ///
    /// # Errors
    /// No room on Lua's stack.
    pub(crate) fn push_next(&self, lua: &mut Lua) -> Result<bool, LuaError> {
        lua.reserve(WORK_SLOTS)?;
        let parts = self.parts.borrow();
        let Some(parts) = parts.as_ref().filter(|_| self.has_waiting_rows()) else { return Ok(false) };
        parts.rows.push(lua);
        let rows = lua.top();
        let number = self.taken.get() + 1;
        lua.raw_get_index(rows, number);
        lua.push_nil();
        lua.raw_set_index(rows, number);
        self.taken.set(number);
        if !self.has_waiting_rows() {
            // The next piece takes the same places.
            self.row_count.set(0);
            self.taken.set(0);
            self.bytes.set(0);
        }
        Ok(true)
    }

    /// Forgets the rows that nobody has taken.
    pub(crate) fn clear(&self) {
        self.has_rows.set(false);
        self.row_count.set(0);
        self.taken.set(0);
        drop(self.parts.take());
    }

    /// Pops a result.
    fn finish(&self, lua: &mut Lua, more: bool) {
        let table = Kept::take(&self.vm, lua);
        self.built.borrow_mut().push(Built { table, more });
    }
}

/// Polls a statement whose [`TableSink`] has these tables until it has ended.
///
/// # Errors
/// A want of memory, by which the statement was ended.
pub(crate) async fn building<F: Future>(tables: &Tables, statement: F) -> Result<F::Output, Failure> {
    let mut statement = pin!(statement);
    let ended = poll_fn(|cx| tables.during(|| statement.as_mut().poll(cx))).await;
    match tables.take_failure() {
        Some(failure) => Err(failure),
        None => Ok(ended),
    }
}

/// Builds tables while its statement is polled within [`Tables::during`].
pub(crate) struct TableSink {
    tables: Rc<Tables>,
    shape: Shape,
    kinds: Vec<Kind>,
    /// Those of the rows; `None` with `compact_arrays`.
    slots: Option<Slots>,
    /// Memory for texts.
    text: Vec<u8>,
    digits: Vec<u8>,
}

impl TableSink {
    pub(crate) fn new(tables: Rc<Tables>, shape: Shape) -> Self {
        Self { tables, shape, kinds: Vec::new(), slots: None, text: Vec::new(), digits: Vec::new() }
    }

    /// Pushes the parts of a result. *May raise* (memory).
    fn push_parts(&mut self, lua: &mut Lua, base: c_int, columns: &[Column]) {
        if PANICS.take() {
            panic!("a test wanted a panic in rows");
        }
        lua.set_top(base);
        let count = c_int::try_from(columns.len()).unwrap_or(c_int::MAX);
        let too_wide = lua.reserve(count.saturating_add(TEMPLATE + WORK_SLOTS)).is_err();
        self.tables.too_wide.set(too_wide);
        lua.push_table(self.shape.rows_hint, 0);
        lua.push_light(ptr::null());
        if too_wide || self.shape.compact {
            lua.push_bool(false);
        } else {
            self.slots = self.tables.vm.row_shapes.push(lua, columns);
        }
    }

    /// Pushes a row, and stores it behind those before. *May raise* (memory).
    fn build_row(&mut self, lua: &mut Lua, base: c_int, row: Row<'_>) {
        match &self.slots {
            Some(slots) => {
                let copy = slots.copy(lua, base + TEMPLATE);
                for ((index, field), kind) in row.0.iter().enumerate().zip(&self.kinds) {
                    // What nearly all values are: a text, or digits of a whole number.
                    if let Field::Plain(Value::Bytes(bytes)) = *field {
                        if *kind == Kind::Text {
                            // SAFETY: the copy is on top.
                            unsafe { slots.set_bytes(copy, index, bytes) };
                            continue;
                        }
                        if let (Kind::Number, Some(number)) = (*kind, whole_number(bytes)) {
                            // SAFETY: as above.
                            unsafe { slots.set_number(copy, index, number) };
                            continue;
                        }
                    }
                    let value = cook(*kind, field.read(&mut self.text), &mut self.digits);
                    set_in_copy(lua, base, copy, slots, index, value);
                }
            }
            None => {
                lua.push_table(c_int::try_from(self.kinds.len()).unwrap_or(0), 0);
                for ((number, field), kind) in (1..).zip(row.0).zip(&self.kinds) {
                    push(lua, cook(*kind, field.read(&mut self.text), &mut self.digits));
                    lua.raw_set_index(-2, number);
                }
            }
        }
        lua.raw_set_index(base + ROWS, self.tables.row_count.get() + 1);
    }

    /// Ends a result set, or makes the result of a statement that has none. *May raise* (memory).
    fn build_end(&self, lua: &mut Lua, base: c_int, summary: &Summary) {
        let tables = &self.tables;
        if self.shape.results == Results::LastRows {
            drop(tables.built.take());
        }
        if tables.has_rows.get() {
            lua.set_top(base + ROWS);
        } else if self.shape.results == Results::LastRows {
            lua.push_table(0, 0);
        } else {
            push_summary(lua, self.shape.integers, summary);
        }
        tables.finish(lua, summary.more_results);
        lua.set_top(base);
    }
}

impl Sink for TableSink {
    fn columns(&mut self, columns: &[Column]) {
        self.kinds.clear();
        self.kinds.extend(columns.iter().map(|column| Kind::of(column, self.shape.integers)));
        self.slots = None;
        let tables = self.tables.clone();
        if tables.build(|lua, base| self.push_parts(lua, base, columns)) {
            tables.begin();
        }
    }

    fn row(&mut self, row: Row<'_>) -> Flow {
        let tables = self.tables.clone();
        if tables.too_wide.get() {
            return Flow::More;
        }
        if !tables.build(|lua, base| self.build_row(lua, base, row)) {
            return Flow::Full;
        }
        tables.row_count.set(tables.row_count.get() + 1);
        let bytes = row.0.iter().map(|field| match field {
            Field::Plain(Value::Bytes(bytes)) => bytes.len() + VALUE_BYTES,
            _ => VALUE_BYTES,
        });
        tables.bytes.set(tables.bytes.get() + bytes.sum::<usize>());
        if tables.bytes.get() > self.shape.bytes_max {
            tables.too_big.set(true);
            return Flow::Full;
        }
        if self.shape.results == Results::OneByOne && tables.is_full() { Flow::Full } else { Flow::More }
    }

    fn end_result(&mut self, summary: &Summary) {
        let tables = self.tables.clone();
        if self.shape.results != Results::OneByOne && tables.build(|lua, base| self.build_end(lua, base, summary)) {
            tables.has_rows.set(false);
            drop(tables.parts.take());
        }
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if self.tables.is_closed() {
            return Poll::Ready(Err(SinkClosed));
        }
        // Nobody needs to be woken: the script asks for more when it has taken these rows.
        if self.shape.results == Results::OneByOne && self.tables.is_full() {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

/// Writes a value into a row.
fn set_in_copy(lua: &mut Lua, base: c_int, copy: slots::Copy, slots: &Slots, index: usize, value: Cooked<'_>) {
    // SAFETY: the copy is on top of what the caller has pushed; what is pushed here is popped again.
    unsafe {
        match value {
            Cooked::Number(number) => slots.set_number(copy, index, number),
            Cooked::Bytes(bytes) => slots.set_bytes(copy, index, bytes),
            Cooked::Null => slots.set_value(copy, index, base + NULL),
            Cooked::Nothing => {
                lua.push_nil();
                slots.set_value(copy, index, lua.top());
                lua.pop(1);
            }
            Cooked::Int64(value) => {
                slots::push_int64(lua, value);
                slots.set_value(copy, index, lua.top());
                lua.pop(1);
            }
        }
    }
}

/// Pushes a value. *May raise* (memory).
fn push(lua: &mut Lua, value: Cooked<'_>) {
    match value {
        Cooked::Number(value) => lua.push_number(value),
        Cooked::Bytes(bytes) => lua.push_bytes(bytes),
        Cooked::Null => lua.push_light(ptr::null()),
        Cooked::Nothing => lua.push_nil(),
        Cooked::Int64(value) => slots::push_int64(lua, value),
    }
}

/// Pushes what a statement without rows gives. *May raise* (memory).
fn push_summary(lua: &mut Lua, integers: Integers, summary: &Summary) {
    lua.push_table(0, 5);
    for (name, value) in [
        ("affected_rows", summary.affected_rows),
        ("insert_id", summary.insert_id),
        ("server_status", u64::from(summary.status)),
        ("warning_count", u64::from(summary.warnings)),
    ] {
        match integers {
            Integers::Cdata if value > EXACT_MAX => slots::push_int64(lua, Int64::Unsigned(value)),
            _ => lua.push_number(value as f64),
        }
        lua.raw_set_field(-2, name.as_bytes());
    }
    if !summary.info.is_empty() {
        lua.push_bytes(&summary.info);
        lua.raw_set_field(-2, b"message");
    }
}
