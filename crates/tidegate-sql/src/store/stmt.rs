//! Prepared statements, the values in them, and SQLite's errors.

use std::{
    ffi::{CStr, c_int},
    ptr, slice,
};

use libsqlite3_sys as ffi;

use super::vfs;
pub(crate) use crate::value::Cell;
use crate::{errors, task};
use tidegate_rows::ServerError;

/// The result of one step of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Row,
    Done,
}

/// An error of SQLite: its extended code and message.
#[derive(Debug, Clone)]
pub(crate) struct SqliteError {
    pub(crate) code: c_int,
    pub(crate) message: String,
}

impl SqliteError {
    /// The code without its extension.
    pub(crate) fn primary(&self) -> c_int {
        self.code & 0xff
    }

    /// Whether a unique index or the primary key refused a row.
    pub(crate) fn is_unique(&self) -> bool {
        matches!(
            self.code,
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID
        )
    }
}

pub(super) fn error_of(db: *mut ffi::sqlite3, code: c_int) -> SqliteError {
    // SAFETY: sqlite3_errmsg accepts any handle including null and returns a NUL-terminated text.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(db)) }.to_string_lossy().into_owned();
    if code == ffi::SQLITE_PROTOCOL {
        // The next begin is a new one: it must see what was committed before it.
        // SAFETY: only open handles fail to begin; the operation takes no argument.
        unsafe { ffi::sqlite3_file_control(db, c"main".as_ptr(), vfs::FCNTL_GIVEN_UP, ptr::null_mut()) };
    }
    SqliteError { code, message }
}

/// A prepared statement. Finalised when dropped.
pub(crate) struct Stmt {
    pub(super) raw: *mut ffi::sqlite3_stmt,
}

impl Stmt {
    pub(super) fn prepare(db: *mut ffi::sqlite3, sql: &str) -> Result<Self, SqliteError> {
        Ok(Self::prepare_first(db, sql)?.0)
    }

    pub(super) fn prepare_first(db: *mut ffi::sqlite3, sql: &str) -> Result<(Self, usize), SqliteError> {
        let mut raw = ptr::null_mut();
        let mut tail = ptr::null();
        let len = c_int::try_from(sql.len())
            .map_err(|_| SqliteError { code: ffi::SQLITE_TOOBIG, message: "statement too long".into() })?;
        // SAFETY: the text is passed with its length; `raw` and `tail` receive results.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(db, sql.as_ptr().cast(), len, ffi::SQLITE_PREPARE_PERSISTENT, &mut raw, &mut tail)
        };
        if code != ffi::SQLITE_OK {
            return Err(error_of(db, code));
        }
        // SAFETY: SQLite sets `tail` inside of the text or at its end.
        let used = unsafe { tail.cast::<u8>().offset_from(sql.as_ptr()) } as usize;
        Ok((Self { raw }, used))
    }

    /// Whether the text held no statement.
    pub(super) fn is_empty(&self) -> bool {
        self.raw.is_null()
    }

    /// Runs to the end and resets.
    ///
    /// # Errors
    /// What SQLite says.
    pub(crate) fn run(&mut self) -> Result<(), SqliteError> {
        let result = loop {
            match self.step() {
                Ok(Step::Row) => {}
                Ok(Step::Done) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.reset();
        result
    }

    /// Runs to the next row or to the end.
    ///
    /// # Errors
    /// What SQLite says; the statement must be reset before it runs again.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<Step, SqliteError> {
        // SAFETY: the statement is valid until dropped.
        match unsafe { ffi::sqlite3_step(self.raw) } {
            ffi::SQLITE_ROW => Ok(Step::Row),
            ffi::SQLITE_DONE => Ok(Step::Done),
            code => Err(self.error(code)),
        }
    }

    #[cold]
    fn error(&self, code: c_int) -> SqliteError {
        // SAFETY: a valid statement has its connection.
        error_of(unsafe { ffi::sqlite3_db_handle(self.raw) }, code)
    }

    /// Makes the statement ready to run again. Bound values stay.
    #[inline]
    pub(crate) fn reset(&mut self) {
        // SAFETY: the statement is valid; the code repeats the error that `step` returned.
        unsafe { ffi::sqlite3_reset(self.raw) };
    }

    /// The statement for one run with values that it borrows.
    pub(crate) fn borrow_values(&mut self) -> Bound<'_> {
        Bound(self)
    }

    /// How often the statement was compiled anew since it was prepared.
    #[cfg(test)]
    pub(crate) fn compilations(&self) -> c_int {
        // SAFETY: the statement is valid.
        unsafe { ffi::sqlite3_stmt_status(self.raw, ffi::SQLITE_STMTSTATUS_REPREPARE, 0) }
    }

    /// Forgets bound values, which may point to memory that goes away.
    #[inline]
    pub(crate) fn clear_bindings(&mut self) {
        // SAFETY: the statement is valid.
        unsafe { ffi::sqlite3_clear_bindings(self.raw) };
    }

    /// Binds parameter `number` (from 1) to a copy of `cell`.
    ///
    /// # Errors
    /// Out of range or too big.
    #[inline]
    pub(crate) fn bind(&mut self, number: usize, cell: Cell<'_>) -> Result<(), SqliteError> {
        self.bind_with(number, cell, ffi::SQLITE_TRANSIENT())
    }

    /// Binds without copying.
    ///
    /// # Safety
    /// The bytes stay where they are until the statement is reset and the binding replaced or cleared.
    #[inline]
    unsafe fn bind_borrowed(&mut self, number: usize, cell: Cell<'_>) -> Result<(), SqliteError> {
        self.bind_with(number, cell, ffi::SQLITE_STATIC())
    }

    #[inline]
    fn bind_with(
        &mut self,
        number: usize,
        cell: Cell<'_>,
        destructor: ffi::sqlite3_destructor_type,
    ) -> Result<(), SqliteError> {
        let index = number as c_int;
        // SAFETY: the statement is valid; lengths belong to their pointers; a borrowed binding is covered by the
        // contract of `bind_borrowed`. An empty slice has a dangling but non-null pointer, which SQLite does not read.
        let code = unsafe {
            match cell {
                Cell::Null => ffi::sqlite3_bind_null(self.raw, index),
                Cell::Int(value) => ffi::sqlite3_bind_int64(self.raw, index, value),
                Cell::Real(value) => ffi::sqlite3_bind_double(self.raw, index, value),
                Cell::Text(text) => ffi::sqlite3_bind_text64(
                    self.raw,
                    index,
                    text.as_ptr().cast(),
                    text.len() as u64,
                    destructor,
                    ffi::SQLITE_UTF8 as u8,
                ),
                Cell::Blob(blob) => {
                    ffi::sqlite3_bind_blob64(self.raw, index, blob.as_ptr().cast(), blob.len() as u64, destructor)
                }
            }
        };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(self.error(code)) }
    }

    /// The value in column `index` of the current row.
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> Cell<'_> {
        // SAFETY: the statement stands on a row; pointers stay good until it moves, which needs `&mut self`. No other
        // thread uses the connection, so the value need not be protected. One call finds the value, where the
        // functions for columns would find it again for each of its parts.
        unsafe { cell_of(ffi::sqlite3_column_value(self.raw, index as c_int)) }
    }

    /// Number of columns of the result.
    pub(crate) fn column_count(&self) -> usize {
        // SAFETY: the statement is valid.
        unsafe { ffi::sqlite3_column_count(self.raw) as usize }
    }

    /// Number of the highest parameter.
    pub(crate) fn parameter_count(&self) -> usize {
        // SAFETY: the statement is valid.
        unsafe { ffi::sqlite3_bind_parameter_count(self.raw) as usize }
    }

    /// Whether the statement was prepared from this text.
    pub(crate) fn sql_is(&self, sql: &str) -> bool {
        // SAFETY: SQLite keeps the text, NUL-terminated, while the statement lives.
        let text = unsafe { ffi::sqlite3_sql(self.raw) };
        // SAFETY: not null for a statement prepared by prepare_v3.
        !text.is_null() && unsafe { CStr::from_ptr(text) }.to_bytes() == sql.as_bytes()
    }

    pub(super) fn finalize(&mut self) {
        // SAFETY: finalising null is allowed; afterwards the pointer is null.
        unsafe { ffi::sqlite3_finalize(self.raw) };
        self.raw = ptr::null_mut();
    }
}

/// A statement with values that it may borrow: however its run ends, it is reset and forgets them when this is dropped.
pub(crate) struct Bound<'s>(&'s mut Stmt);

impl Bound<'_> {
    /// Binds parameter `number` (from 1) to bytes that outlive the run.
    ///
    /// # Errors
    /// Out of range or too big.
    ///
    /// # Safety
    /// The bytes stay where they are until this is dropped, and it is dropped.
    #[inline]
    pub(crate) unsafe fn bind_borrowed(&mut self, number: usize, cell: Cell<'_>) -> Result<(), SqliteError> {
        // SAFETY: the drop below resets the statement and clears the binding.
        unsafe { self.0.bind_borrowed(number, cell) }
    }
}

impl Drop for Bound<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.reset();
        self.0.clear_bindings();
    }
}

impl std::ops::Deref for Bound<'_> {
    type Target = Stmt;
    fn deref(&self) -> &Stmt {
        self.0
    }
}

impl std::ops::DerefMut for Bound<'_> {
    fn deref_mut(&mut self) -> &mut Stmt {
        self.0
    }
}

impl Drop for Stmt {
    fn drop(&mut self) {
        self.finalize();
    }
}

/// What a value of SQLite's holds.
///
/// # Safety
/// The value is valid, and neither changed nor used by another thread during `'a`.
#[inline]
pub(super) unsafe fn cell_of<'a>(value: *mut ffi::sqlite3_value) -> Cell<'a> {
    // SAFETY: by the contract.
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

/// Gives a value to SQLite, which copies texts and bytes.
///
/// # Safety
/// The context is that of the call which is under way.
#[inline]
pub(crate) unsafe fn give(context: *mut ffi::sqlite3_context, cell: Cell<'_>) {
    // SAFETY: by the contract; SQLite copies what it is given (TRANSIENT).
    unsafe {
        match cell {
            Cell::Null => ffi::sqlite3_result_null(context),
            Cell::Int(value) => ffi::sqlite3_result_int64(context, value),
            Cell::Real(value) => ffi::sqlite3_result_double(context, value),
            Cell::Text(text) => ffi::sqlite3_result_text64(
                context,
                text.as_ptr().cast(),
                text.len() as u64,
                ffi::SQLITE_TRANSIENT(),
                ffi::SQLITE_UTF8 as u8,
            ),
            Cell::Blob(blob) => {
                ffi::sqlite3_result_blob64(context, blob.as_ptr().cast(), blob.len() as u64, ffi::SQLITE_TRANSIENT());
            }
        }
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

/// Checks a file from end to end.
pub(crate) fn check_file(conn: &super::conn::Conn) -> Result<(), ServerError> {
    let internal = |error| to_server_error(&error);
    let mut check = conn.prepare("PRAGMA integrity_check(1)").map_err(internal)?;
    check.step().map_err(internal)?;
    match check.cell(0) {
        Cell::Text(b"ok") => Ok(()),
        Cell::Text(problem) => Err(errors::corrupt(String::from_utf8_lossy(problem))),
        _ => Err(errors::corrupt("the check says nothing")),
    }
}

/// A string in SQLite's quotes. NUL cannot stand in SQLite's text.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

/// What a client sees of an error that none of the statement's own checks explains.
pub(crate) fn to_server_error(error: &SqliteError) -> ServerError {
    if let Some(pending) = task::take_error() {
        return pending;
    }
    match error.primary() {
        ffi::SQLITE_INTERRUPT => errors::interrupted(),
        ffi::SQLITE_FULL => errors::disk_full(),
        ffi::SQLITE_NOMEM => errors::out_of_memory(),
        ffi::SQLITE_TOOBIG => errors::too_big(),
        ffi::SQLITE_BUSY if error.code == ffi::SQLITE_BUSY_SNAPSHOT => errors::deadlock(),
        vfs::OPEN_ELSEWHERE => errors::storage("another program has the schema's file open"),
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => errors::lock_wait_timeout(),
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN | ffi::SQLITE_READONLY => errors::storage(&error.message),
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => errors::corrupt(&error.message),
        ffi::SQLITE_ERROR => beyond_limit(&error.message).unwrap_or_else(|| errors::internal(&error.message)),
        _ => errors::internal(&error.message),
    }
}

/// Tables that SQLite joins.
const TABLES_MAX: usize = 64;

/// MySQL's error for a statement that is larger than SQLite takes.
fn beyond_limit(message: &str) -> Option<ServerError> {
    let begins = |words: &[&str]| words.iter().any(|words| message.starts_with(words));
    if begins(&["too many columns"]) {
        return Some(errors::too_many_columns());
    }
    if begins(&["at most 64 tables in a join", "too many FROM clause terms"]) {
        return Some(errors::too_many_tables(TABLES_MAX));
    }
    let deep = begins(&["Expression tree is too large", "parser stack overflow", "Recursion limit"]);
    deep.then(|| errors::unsupported("expressions nested this deeply"))
}
