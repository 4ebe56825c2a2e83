//! Rows that a function computes of what stands beside it in FROM, as a table for SQLite: `tg_json_table(SPEC, DOCUMENT)`, with the
//! columns `c0`, `c1`, ….
//!
//! A module of virtual tables without a table in any file, as [`made_rows`](super::made_rows). Its arguments may be columns of other
//! tables of the FROM: SQLite computes the rows anew for each of theirs.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, slice,
};

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::{
    stmt::{Cell, SqliteError, cell_of, error_of, give},
    virtual_table::{READ_ONLY, close, disconnect},
};
use crate::{errors, task, value::Datum};

/// Rows as the columns of the table have them.
pub(crate) type Rows = Vec<Vec<Datum>>;

/// What computes rows of the two arguments.
pub(crate) type Compute = fn(&[u8], Cell<'_>) -> Result<Rows, ServerError>;

/// Most columns of a table.
pub(crate) const COLUMNS_MAX: usize = 128;

/// The hidden columns behind the others, which stand in brackets.
const ARGUMENTS: [c_int; 2] = [COLUMNS_MAX as c_int, COLUMNS_MAX as c_int + 1];

/// What SQLite calls.
static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect::<Table>),
    xOpen: Some(open),
    xClose: Some(close::<Cursor>),
    xFilter: Some(filter),
    xNext: Some(next),
    xEof: Some(eof),
    xColumn: Some(column),
    xRowid: Some(rowid),
    ..READ_ONLY
};

/// Makes the table known to a connection.
///
/// # Errors
/// SQLite's: memory.
pub(crate) fn register(db: *mut ffi::sqlite3, compute: &'static Compute) -> Result<(), SqliteError> {
    let state = ptr::from_ref(compute).cast_mut().cast();
    // SAFETY: the handle is open, the name ends with NUL, the module is static, and so is what it is given, which is only read.
    let code = unsafe { ffi::sqlite3_create_module_v2(db, c"tg_json_table".as_ptr(), &MODULE, state, None) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(error_of(db, code)) }
}

/// The table. SQLite's part is the first, so that a pointer to one is a pointer to the other.
#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    compute: Compute,
}

/// A walk over rows, as [`Table`] with SQLite's part.
#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    rows: Rows,
    at: usize,
}

unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    state: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    table: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    let columns: Vec<String> = (0..COLUMNS_MAX).map(|number| format!("c{number}")).collect();
    let text = format!("CREATE TABLE x({}, spec HIDDEN, document HIDDEN)", columns.join(", "));
    let Ok(declaration) = CString::new(text) else { return ffi::SQLITE_INTERNAL };
    // SAFETY: SQLite calls this with an open handle, what `register` has given, and a place for the table, which it gives back to
    // `disconnect`; its part is a structure of C, for which zeros are the beginning that SQLite asks for.
    unsafe {
        let code = ffi::sqlite3_declare_vtab(db, declaration.as_ptr());
        if code == ffi::SQLITE_OK {
            let new = Table { base: std::mem::zeroed(), compute: *state.cast::<Compute>() };
            *table = Box::into_raw(Box::new(new)).cast();
        }
        code
    }
}

unsafe extern "C" fn best_index(_: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    let mut given = 0;
    // SAFETY: SQLite gives a description whose two arrays have as many elements as it says.
    unsafe {
        for index in 0..(*info).nConstraint as usize {
            let constraint = &*(*info).aConstraint.add(index);
            let equal = c_int::from(constraint.op) == c_int::from(ffi::SQLITE_INDEX_CONSTRAINT_EQ as u8);
            let argument = ARGUMENTS.iter().position(|column| *column == constraint.iColumn);
            let Some(argument) = argument.filter(|_| equal) else { continue };
            if constraint.usable == 0 {
                // The tables that it is computed of have to come first.
                return ffi::SQLITE_CONSTRAINT;
            }
            let usage = &mut *(*info).aConstraintUsage.add(index);
            usage.argvIndex = argument as c_int + 1;
            usage.omit = 1;
            given += 1;
        }
        (*info).estimatedCost = 100.0;
        (*info).estimatedRows = 20;
    }
    if given == ARGUMENTS.len() { ffi::SQLITE_OK } else { ffi::SQLITE_CONSTRAINT }
}

unsafe extern "C" fn open(_: *mut ffi::sqlite3_vtab, cursor: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let new = Cursor { base: ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() }, rows: Rows::new(), at: 0 };
    // SAFETY: SQLite gives a place for the cursor, which it gives back to `close`.
    unsafe { *cursor = Box::into_raw(Box::new(new)).cast() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn filter(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    _: c_int,
    _: *const c_char,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) -> c_int {
    // SAFETY: the cursor came from `open`, and nobody else borrows it during a call; SQLite has put its table there, which came from
    // `connect`. It gives as many values as it says, which stay as they are during the call.
    let (cursor, compute, values) = unsafe {
        let cursor = &mut *cursor.cast::<Cursor>();
        let values = if count > 0 { slice::from_raw_parts(values, count as usize) } else { &[] };
        let compute = (*cursor.base.pVtab.cast::<Table>()).compute;
        (cursor, compute, values)
    };
    let [spec, document] = values else { return ffi::SQLITE_INTERNAL };
    // SAFETY: as above.
    let (spec, document) = unsafe { (cell_of(*spec), cell_of(*document)) };
    let Cell::Text(spec) = spec else { return ffi::SQLITE_INTERNAL };
    let computed = catch_unwind(AssertUnwindSafe(|| compute(spec, document)));
    match computed.unwrap_or_else(|_| Err(errors::internal("a panic in JSON_TABLE"))) {
        Ok(rows) => {
            (cursor.rows, cursor.at) = (rows, 0);
            ffi::SQLITE_OK
        }
        Err(error) => {
            task::set_error(error);
            ffi::SQLITE_ERROR
        }
    }
}

unsafe extern "C" fn next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as in `filter`.
    unsafe { (*cursor.cast::<Cursor>()).at += 1 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    c_int::from(cursor.at >= cursor.rows.len())
}

unsafe extern "C" fn column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    index: c_int,
) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    let value = cursor.rows.get(cursor.at).and_then(|row| row.get(usize::try_from(index).ok()?));
    // SAFETY: SQLite gives the context of this call.
    unsafe { give(context, value.map_or(Cell::Null, Datum::as_cell)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn rowid(cursor: *mut ffi::sqlite3_vtab_cursor, number: *mut i64) -> c_int {
    // SAFETY: as in `filter`; SQLite gives a place for the number.
    unsafe { *number = (*cursor.cast::<Cursor>()).at as i64 };
    ffi::SQLITE_OK
}
