//! Rows that the engine has made, as a table for SQLite: `tg_rows(NUMBER)`, with the columns `column1`, `column2`, ….
//!
//! A module of virtual tables without a table in any file. SQLite asks for the columns that a statement uses, row by row: no row
//! becomes a part of the statement's text, which would have to be read and compiled.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ffi::{CString, c_char, c_int, c_void},
    ptr,
    rc::Rc,
};

use libsqlite3_sys as ffi;

use super::{
    stmt::{self, SqliteError, error_of, give},
    virtual_table::{READ_ONLY, close, disconnect},
};

/// A value in a row.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Null,
    Int(i64),
    Text(String),
}

impl From<&str> for Item {
    fn from(text: &str) -> Self {
        Item::Text(text.to_owned())
    }
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        Item::Text(text)
    }
}

impl From<i64> for Item {
    fn from(value: i64) -> Self {
        Item::Int(value)
    }
}

/// Rows of one table.
pub(crate) type Rows = Vec<Vec<Item>>;

/// Most columns of a table; what a row does not have is NULL.
pub(crate) const COLUMNS_MAX: usize = 48;

/// Rows that statements of this thread can read while it lives.
#[derive(Debug)]
pub(crate) struct MadeRows {
    number: i64,
    /// The rows are found on this thread alone.
    _here: std::marker::PhantomData<Rc<()>>,
}

thread_local! {
    static ALL: RefCell<HashMap<i64, Rc<Rows>>> = RefCell::default();
    static NEXT: Cell<i64> = const { Cell::new(1) };
}

impl MadeRows {
    /// Keeps rows for statements.
    pub(crate) fn new(rows: Rows) -> Self {
        let number = NEXT.get();
        NEXT.set(number + 1);
        ALL.with_borrow_mut(|all| all.insert(number, Rc::new(rows)));
        Self { number, _here: std::marker::PhantomData }
    }

    /// The table in SQLite's FROM.
    pub(crate) fn table(&self) -> String {
        format!("{NAME}({})", self.number)
    }
}

impl Drop for MadeRows {
    fn drop(&mut self) {
        // The thread may be at its end.
        let _ = ALL.try_with(|all| all.borrow_mut().remove(&self.number));
    }
}

const NAME: &str = "tg_rows";
/// The hidden column behind the others: the number of the rows, which stands in brackets.
const NUMBER_COLUMN: c_int = COLUMNS_MAX as c_int;

/// What SQLite calls.
static MODULE: ffi::sqlite3_module = ffi::sqlite3_module {
    xConnect: Some(connect),
    xBestIndex: Some(best_index),
    xDisconnect: Some(disconnect::<ffi::sqlite3_vtab>),
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
pub(super) fn register(db: *mut ffi::sqlite3) -> Result<(), SqliteError> {
    // SAFETY: the handle is open, the name ends with NUL, the module is static; it takes no state.
    let code = unsafe { ffi::sqlite3_create_module_v2(db, c"tg_rows".as_ptr(), &MODULE, ptr::null_mut(), None) };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(error_of(db, code)) }
}

/// A walk over rows. SQLite's part is the first, so that a pointer to one is a pointer to the other.
#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    rows: Option<Rc<Rows>>,
    at: usize,
}

impl Cursor {
    fn row(&self) -> Option<&Vec<Item>> {
        self.rows.as_ref()?.get(self.at)
    }
}

unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    _: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    table: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    let columns: Vec<String> = (1..=COLUMNS_MAX).map(|number| format!("column{number}")).collect();
    let Ok(declaration) = CString::new(format!("CREATE TABLE x({}, number HIDDEN)", columns.join(", "))) else {
        return ffi::SQLITE_INTERNAL;
    };
    // SAFETY: SQLite calls this with an open handle and a place for the table, which it gives back to `disconnect`; the structure
    // is one of C, for which zeros are the beginning that SQLite asks for.
    unsafe {
        let code = ffi::sqlite3_declare_vtab(db, declaration.as_ptr());
        if code == ffi::SQLITE_OK {
            *table = Box::into_raw(Box::new(std::mem::zeroed()));
        }
        code
    }
}

unsafe extern "C" fn best_index(_: *mut ffi::sqlite3_vtab, info: *mut ffi::sqlite3_index_info) -> c_int {
    // SAFETY: SQLite gives a description whose two arrays have as many elements as it says.
    unsafe {
        for index in 0..(*info).nConstraint as usize {
            let constraint = &*(*info).aConstraint.add(index);
            let equal = c_int::from(constraint.op) == c_int::from(ffi::SQLITE_INDEX_CONSTRAINT_EQ as u8);
            if constraint.iColumn == NUMBER_COLUMN && equal && constraint.usable != 0 {
                let usage = &mut *(*info).aConstraintUsage.add(index);
                usage.argvIndex = 1;
                usage.omit = 1;
                (*info).estimatedCost = 1000.0;
                (*info).estimatedRows = 1000;
                return ffi::SQLITE_OK;
            }
        }
    }
    ffi::SQLITE_CONSTRAINT
}

unsafe extern "C" fn open(_: *mut ffi::sqlite3_vtab, cursor: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let new = Cursor { base: ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() }, rows: None, at: 0 };
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
    // SAFETY: the cursor came from `open`, and nobody else borrows it during a call.
    let cursor = unsafe { &mut *cursor.cast::<Cursor>() };
    if count < 1 {
        return ffi::SQLITE_INTERNAL;
    }
    // SAFETY: SQLite gives as many values as it says; `best_index` asks for one.
    let number = unsafe { ffi::sqlite3_value_int64(*values) };
    cursor.rows = ALL.try_with(|all| all.borrow().get(&number).cloned()).ok().flatten();
    cursor.at = 0;
    // A statement outlives its plan nowhere.
    if cursor.rows.is_some() { ffi::SQLITE_OK } else { ffi::SQLITE_INTERNAL }
}

unsafe extern "C" fn next(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as in `filter`.
    unsafe { (*cursor.cast::<Cursor>()).at += 1 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn eof(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    c_int::from(cursor.row().is_none())
}

unsafe extern "C" fn column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    index: c_int,
) -> c_int {
    // SAFETY: as in `filter`.
    let cursor = unsafe { &*cursor.cast::<Cursor>() };
    let item = cursor.row().and_then(|row| row.get(usize::try_from(index).ok()?));
    let cell = match item {
        Some(Item::Int(value)) => stmt::Cell::Int(*value),
        Some(Item::Text(text)) => stmt::Cell::Text(text.as_bytes()),
        Some(Item::Null) | None => stmt::Cell::Null,
    };
    // SAFETY: SQLite gives the context of this call.
    unsafe { give(context, cell) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn rowid(cursor: *mut ffi::sqlite3_vtab_cursor, number: *mut i64) -> c_int {
    // SAFETY: as in `filter`; SQLite gives a place for the number.
    unsafe { *number = (*cursor.cast::<Cursor>()).at as i64 };
    ffi::SQLITE_OK
}
