//! SQL functions as SQLite calls them: arguments, results, aggregates.

use std::{
    ffi::{CString, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
};

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use crate::{
    env, errors,
    store::{
        beneath,
        conn::{Cell, Conn, SqliteError, give},
        prepared::Prepared,
    },
    task,
    value::{Datum, Rep, Val, decimal::Decimal, uint_of},
};

/// A function in Rust: reads its arguments, sets the result (NULL if it sets none).
pub(crate) type Scalar = fn(&Args<'_>, &mut Out) -> Result<(), ServerError>;

/// A function known to SQLite.
pub(crate) struct Udf {
    pub(crate) name: &'static str,
    /// Number of arguments, -1 for any.
    pub(crate) count: i32,
    pub(crate) call: Scalar,
    /// The same arguments give the same result within a statement.
    pub(crate) pure: bool,
    /// The call has an effect, or its result depends on how often it was called.
    pub(crate) ordered: bool,
    /// NULL for any argument gives NULL without a call.
    pub(crate) strict: bool,
}

impl Udf {
    /// A function that gives NULL for NULL and depends on its arguments alone.
    pub(crate) const fn new(name: &'static str, count: i32, call: Scalar) -> Self {
        Self { name, count, call, pure: true, ordered: false, strict: true }
    }

    /// One that sees NULL itself.
    pub(crate) const fn lenient(name: &'static str, count: i32, call: Scalar) -> Self {
        Self { strict: false, ..Self::new(name, count, call) }
    }

    /// One with effects, or whose result depends on the calls before it.
    pub(crate) const fn volatile(name: &'static str, count: i32, call: Scalar) -> Self {
        Self { ordered: true, ..Self::fresh(name, count, call) }
    }

    /// One whose result is new at each call.
    pub(crate) const fn fresh(name: &'static str, count: i32, call: Scalar) -> Self {
        Self { pure: false, strict: false, ..Self::new(name, count, call) }
    }
}

/// The arguments of a call.
pub(crate) struct Args<'a> {
    values: &'a [*mut ffi::sqlite3_value],
}

impl<'a> Args<'a> {
    /// Number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// An argument; NULL if it is not there.
    pub(crate) fn cell(&self, index: usize) -> Cell<'a> {
        let Some(&value) = self.values.get(index) else { return Cell::Null };
        // SAFETY: SQLite keeps the values alive and unchanged during the call.
        unsafe {
            match ffi::sqlite3_value_type(value) {
                ffi::SQLITE_INTEGER => Cell::Int(ffi::sqlite3_value_int64(value)),
                ffi::SQLITE_FLOAT => Cell::Real(ffi::sqlite3_value_double(value)),
                ffi::SQLITE_TEXT => {
                    let ptr = ffi::sqlite3_value_text(value);
                    Cell::Text(bytes(ptr.cast(), ffi::sqlite3_value_bytes(value)))
                }
                ffi::SQLITE_BLOB => {
                    let ptr = ffi::sqlite3_value_blob(value);
                    Cell::Blob(bytes(ptr.cast(), ffi::sqlite3_value_bytes(value)))
                }
                _ => Cell::Null,
            }
        }
    }

    /// Whether an argument is NULL.
    pub(crate) fn is_null(&self, index: usize) -> bool {
        self.cell(index) == Cell::Null
    }

    /// A whole number; 0 for NULL and what is none.
    pub(crate) fn int(&self, index: usize) -> i64 {
        match self.cell(index) {
            Cell::Int(value) => value,
            Cell::Real(value) => value as i64,
            // An unsigned number from 2^63 on.
            Cell::Blob(bytes) if bytes.len() == 8 => i64::MAX,
            _ => 0,
        }
    }

    /// An unsigned number in its stored form.
    pub(crate) fn uint(&self, index: usize) -> u64 {
        uint_of(self.cell(index))
    }

    /// A floating-point number; 0 for NULL and what is none.
    pub(crate) fn real(&self, index: usize) -> f64 {
        match self.cell(index) {
            Cell::Int(value) => value as f64,
            Cell::Real(value) => value,
            _ => 0.0,
        }
    }

    /// An exact number in its stored form.
    pub(crate) fn dec(&self, index: usize) -> Decimal {
        match self.cell(index) {
            Cell::Blob(blob) => Decimal::decode(blob).unwrap_or(Decimal::ZERO),
            Cell::Int(value) => Decimal::from_int(i128::from(value)),
            _ => Decimal::ZERO,
        }
    }

    /// Characters or bytes; empty for anything else.
    pub(crate) fn bytes(&self, index: usize) -> &'a [u8] {
        match self.cell(index) {
            Cell::Text(text) | Cell::Blob(text) => text,
            _ => &[],
        }
    }

    /// An argument as a typed value.
    pub(crate) fn val(&self, index: usize, rep: Rep) -> Val<'a> {
        Val::of(self.cell(index), rep)
    }

    /// Whether any argument is a binary string.
    pub(crate) fn any_blob(&self) -> bool {
        (0..self.len()).any(|index| matches!(self.cell(index), Cell::Blob(_)))
    }
}

/// # Safety
/// `ptr` is null or points to `len` bytes that outlive `'a`.
unsafe fn bytes<'a>(ptr: *const u8, len: c_int) -> &'a [u8] {
    if ptr.is_null() || len <= 0 {
        return &[];
    }
    // SAFETY: by the contract.
    unsafe { slice::from_raw_parts(ptr, len as usize) }
}

/// Where the result goes.
pub(crate) struct Out {
    context: *mut ffi::sqlite3_context,
}

impl Out {
    /// Runs `f` with a connection beneath the statement that calls, and with what is prepared there.
    ///
    /// # Errors
    /// Those of `f`.
    pub(crate) fn within<R>(
        &mut self,
        f: impl FnOnce(&mut Conn, &mut Prepared) -> Result<R, ServerError>,
    ) -> Result<R, ServerError> {
        // SAFETY: the context is valid during the call, which runs on this thread.
        unsafe { beneath::within(ffi::sqlite3_context_db_handle(self.context), f) }
    }

    /// Sets any stored value.
    pub(crate) fn cell(&mut self, cell: Cell<'_>) {
        // SAFETY: the context is valid during the call.
        unsafe { give(self.context, cell) };
    }

    /// Sets a whole number.
    pub(crate) fn int(&mut self, value: i64) {
        self.cell(Cell::Int(value));
    }

    /// Sets a truth value.
    pub(crate) fn bool(&mut self, value: bool) {
        self.int(i64::from(value));
    }

    /// Sets an unsigned number.
    pub(crate) fn uint(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            Err(_) => self.cell(Cell::Blob(&value.to_be_bytes())),
        }
    }

    /// Sets a floating-point number.
    pub(crate) fn real(&mut self, value: f64) {
        self.cell(Cell::Real(value));
    }

    /// Sets an exact number.
    pub(crate) fn dec(&mut self, value: Decimal) {
        let mut buf = Vec::with_capacity(24);
        value.encode(&mut buf);
        self.cell(Cell::Blob(&buf));
    }

    /// Sets characters.
    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) {
        self.cell(Cell::Text(text.as_ref()));
    }

    /// Sets a string: binary if an argument is.
    pub(crate) fn string(&mut self, args: &Args<'_>, bytes: impl AsRef<[u8]>) {
        if args.any_blob() { self.cell(Cell::Blob(bytes.as_ref())) } else { self.cell(Cell::Text(bytes.as_ref())) }
    }

    /// Sets an owned value.
    pub(crate) fn datum(&mut self, datum: &Datum) {
        self.cell(datum.as_cell());
    }

    fn error(&mut self, error: ServerError) {
        task::set_error(error);
        // SAFETY: the context is valid; the text is static and its length given.
        unsafe { ffi::sqlite3_result_error(self.context, c"error in function".as_ptr(), -1) };
    }
}

unsafe extern "C" fn trampoline(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: the user data is the static Udf that was registered; SQLite passes `count` values.
    let (udf, values) = unsafe {
        let udf = &*ffi::sqlite3_user_data(context).cast::<Udf>();
        let values = if count > 0 { slice::from_raw_parts(values, count as usize) } else { &[] };
        (udf, values)
    };
    let args = Args { values };
    if udf.strict && (0..args.len()).any(|index| args.is_null(index)) {
        return;
    }
    let mut out = Out { context };
    match catch_unwind(AssertUnwindSafe(|| (udf.call)(&args, &mut out))) {
        Ok(Ok(())) if task::has_warned() => {
            if let Some(Err(error)) = env::current(|env| env.check_aborted()) {
                out.error(error);
            }
        }
        Ok(Ok(())) => {}
        Ok(Err(error)) => out.error(error),
        Err(_) => out.error(errors::internal(format!("function {} panicked", udf.name))),
    }
}

/// Makes a function known to a connection.
///
/// # Errors
/// SQLite's, when it has no memory.
pub(crate) fn register(db: *mut ffi::sqlite3, udf: &'static Udf) -> Result<(), SqliteError> {
    let name = CString::new(udf.name).unwrap_or_default();
    let flags = ffi::SQLITE_UTF8 | if udf.pure { ffi::SQLITE_DETERMINISTIC } else { 0 };
    // SAFETY: the handle is open; the user data is static; SQLite copies the name.
    let code = unsafe {
        ffi::sqlite3_create_function_v2(
            db,
            name.as_ptr(),
            udf.count,
            flags,
            std::ptr::from_ref(udf).cast_mut().cast::<c_void>(),
            Some(trampoline),
            None,
            None,
            None,
        )
    };
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(SqliteError { code, message: format!("cannot register {}", udf.name) })
    }
}

/// The state of one aggregate over one group.
pub(crate) trait Accumulate: Send {
    /// Takes a row in; NULLs come too.
    ///
    /// # Errors
    /// What the statement shall fail with.
    fn add(&mut self, args: &Args<'_>) -> Result<(), ServerError>;
    /// Takes a row out again, for window frames that move.
    ///
    /// # Errors
    /// 1235 if the aggregate cannot.
    fn remove(&mut self, _args: &Args<'_>) -> Result<(), ServerError> {
        Err(errors::unsupported("this aggregate over a moving frame"))
    }
    /// Sets the result so far.
    ///
    /// # Errors
    /// What the statement shall fail with.
    fn value(&self, out: &mut Out) -> Result<(), ServerError>;
}

/// An aggregate known to SQLite.
pub(crate) struct Aggregate {
    pub(crate) name: &'static str,
    pub(crate) count: i32,
    pub(crate) make: fn() -> Box<dyn Accumulate>,
}

type State = Option<Box<Box<dyn Accumulate>>>;

/// The state in SQLite's memory: null bytes are `None`.
///
/// # Safety
/// `context` is that of a call of this aggregate.
unsafe fn state<'a>(context: *mut ffi::sqlite3_context, create: bool) -> Option<&'a mut State> {
    let size = if create { size_of::<State>() as c_int } else { 0 };
    // SAFETY: SQLite gives zeroed memory of that size, aligned for pointers, which lives until xFinal; zeroes are `None`.
    unsafe { ffi::sqlite3_aggregate_context(context, size).cast::<State>().as_mut() }
}

/// # Safety
/// As [`trampoline`].
unsafe fn feed(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
    f: fn(&mut dyn Accumulate, &Args<'_>) -> Result<(), ServerError>,
) {
    // SAFETY: by the contract.
    let (aggregate, values, state) = unsafe {
        let aggregate = &*ffi::sqlite3_user_data(context).cast::<Aggregate>();
        let values = if count > 0 { slice::from_raw_parts(values, count as usize) } else { &[] };
        (aggregate, values, state(context, true))
    };
    let mut out = Out { context };
    let Some(state) = state else { return out.error(errors::out_of_memory()) };
    let accumulator = state.get_or_insert_with(|| Box::new((aggregate.make)()));
    let args = Args { values };
    match catch_unwind(AssertUnwindSafe(|| f(&mut ***accumulator, &args))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => out.error(error),
        Err(_) => out.error(errors::internal(format!("aggregate {} panicked", aggregate.name))),
    }
}

unsafe extern "C" fn step(context: *mut ffi::sqlite3_context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite's contract.
    unsafe { feed(context, count, values, |accumulator, args| accumulator.add(args)) }
}

unsafe extern "C" fn inverse(context: *mut ffi::sqlite3_context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite's contract.
    unsafe { feed(context, count, values, |accumulator, args| accumulator.remove(args)) }
}

unsafe extern "C" fn value(context: *mut ffi::sqlite3_context) {
    // SAFETY: the user data is the registered aggregate; the state belongs to this call.
    let (aggregate, state) = unsafe { (&*ffi::sqlite3_user_data(context).cast::<Aggregate>(), state(context, false)) };
    let mut out = Out { context };
    let empty;
    let accumulator = match state {
        Some(Some(accumulator)) => &***accumulator,
        _ => {
            empty = (aggregate.make)();
            &*empty
        }
    };
    match catch_unwind(AssertUnwindSafe(|| accumulator.value(&mut out))) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => out.error(error),
        Err(_) => out.error(errors::internal(format!("aggregate {} panicked", aggregate.name))),
    }
}

unsafe extern "C" fn finish(context: *mut ffi::sqlite3_context) {
    // SAFETY: SQLite's contract; after this call it forgets the state, so the box is taken out.
    unsafe {
        value(context);
        if let Some(state) = state(context, false) {
            drop(state.take());
        }
    }
}

/// Makes an aggregate known to a connection, also as a window function.
///
/// # Errors
/// SQLite's, when it has no memory.
pub(crate) fn register_aggregate(db: *mut ffi::sqlite3, aggregate: &'static Aggregate) -> Result<(), SqliteError> {
    let name = CString::new(aggregate.name).unwrap_or_default();
    // SAFETY: as in `register`.
    let code = unsafe {
        ffi::sqlite3_create_window_function(
            db,
            name.as_ptr(),
            aggregate.count,
            ffi::SQLITE_UTF8,
            std::ptr::from_ref(aggregate).cast_mut().cast::<c_void>(),
            Some(step),
            Some(finish),
            Some(value),
            Some(inverse),
            None,
        )
    };
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(SqliteError { code, message: format!("cannot register {}", aggregate.name) })
    }
}
