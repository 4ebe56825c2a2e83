//! Searches of FULLTEXT indexes as SQLite's statements use them: `tg_found(SCHEMA, INDEX, COLLATION, MODE, SEARCH)` is the table of the
//! rows that are found, by their row ids, and `tg_match(ROWID, SCHEMA, INDEX, COLLATION, MODE, SEARCH)` the rank of a row.
//!
//! A search is carried out once for a statement: who asks first puts it into [`RECENT`], where others find it as long as somebody
//! holds it, which cursors and calls do until their statement is reset.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    rc::{Rc, Weak},
    slice,
};

use libsqlite3_sys as ffi;
use tidegate_rows::ServerError;

use super::{
    Mode,
    query::{self, Unreadable},
    search::{self, Index, Ranked},
    words::Words,
};
use crate::{
    errors,
    store::{
        stmt::{Cell, SqliteError, Step, Stmt, cell_of, error_of, to_server_error},
        virtual_table::{READ_ONLY, close, disconnect},
    },
    task,
    value::collation::Collation,
};

type Res<T> = Result<T, ServerError>;

/// What decides about the rows that are found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    db: usize,
    /// Rows that the connection has changed so far.
    changes: i64,
    schema: String,
    index: String,
    collation: i64,
    mode: i64,
    search: Vec<u8>,
}

thread_local! {
    /// The searches whose statements run.
    static RECENT: RefCell<Vec<(Key, Weak<Ranked>)>> = const { RefCell::new(Vec::new()) };
}

impl Key {
    /// # Safety
    /// The handle is open; the values are those of a call, as many as [`ARGUMENTS`].
    unsafe fn of(db: *mut ffi::sqlite3, values: &[*mut ffi::sqlite3_value]) -> Option<Self> {
        let text = |cell: Cell<'_>| match cell {
            Cell::Text(text) | Cell::Blob(text) => Some(text.to_vec()),
            _ => None,
        };
        let name = |cell: Cell<'_>| text(cell).and_then(|text| String::from_utf8(text).ok());
        let number = |cell: Cell<'_>| if let Cell::Int(number) = cell { Some(number) } else { None };
        let [schema, index, collation, mode, search] = [0, 1, 2, 3, 4].map(|at| match values.get(at) {
            // SAFETY: by the contract.
            Some(&value) => unsafe { cell_of(value) },
            None => Cell::Null,
        });
        // SAFETY: by the contract.
        let changes = unsafe { ffi::sqlite3_total_changes64(db) };
        Some(Self {
            db: db as usize,
            changes,
            schema: name(schema)?,
            index: name(index)?,
            collation: number(collation)?,
            mode: number(mode)?,
            search: text(search)?,
        })
    }

    /// The rows that are found.
    ///
    /// # Safety
    /// The handle is open, and that of the key.
    unsafe fn found(self, db: *mut ffi::sqlite3) -> Res<Rc<Ranked>> {
        let known = RECENT.with_borrow_mut(|recent| {
            recent.retain(|(_, found)| found.strong_count() > 0);
            recent.iter().find(|(key, _)| *key == self).and_then(|(_, found)| found.upgrade())
        });
        if let Some(found) = known {
            return Ok(found);
        }
        let words = Words::of(Collation(u16::try_from(self.collation).unwrap_or(0)));
        let query = query::read(&String::from_utf8_lossy(&self.search), &words, Mode::of(self.mode));
        let query = query.map_err(|error| match error {
            Unreadable::Unexpected(found, "") => errors::fulltext_syntax(found, ""),
            Unreadable::Unexpected(found, wanted) => errors::fulltext_syntax(found, format!(", expecting {wanted}")),
            Unreadable::TooDeep => errors::unsupported("brackets nested this deeply in a search"),
        })?;
        let mut stored = Stored { db, schema: &self.schema, index: &self.index };
        let found = Rc::new(search::search(&query, &mut stored)?);
        RECENT.with_borrow_mut(|recent| recent.push((self, Rc::downgrade(&found))));
        Ok(found)
    }
}

/// An index as FTS5 keeps it.
struct Stored<'n> {
    db: *mut ffi::sqlite3,
    schema: &'n str,
    index: &'n str,
}

impl Index for Stored<'_> {
    fn places(&mut self, form: &str, is_beginning: bool, each: &mut dyn FnMut(&[u8], i64, i64) -> Res<()>) -> Res<()> {
        let internal = |error: SqliteError| to_server_error(&error);
        let Self { schema, index, .. } = self;
        let condition = if is_beginning { "term >= ?1 AND term <= ?2" } else { "term = ?1" };
        let sql = format!("SELECT term, doc, offset FROM {schema}tg_places{index} WHERE {condition}");
        let mut stmt = Stmt::prepare(self.db, &sql).map_err(internal)?;
        stmt.bind(1, Cell::Text(form.as_bytes())).map_err(internal)?;
        if is_beginning {
            let last = format!("{form}{}", char::MAX);
            stmt.bind(2, Cell::Text(last.as_bytes())).map_err(internal)?;
        }
        while stmt.step().map_err(internal)? == Step::Row {
            if let (Cell::Text(term), Cell::Int(row), Cell::Int(at)) = (stmt.cell(0), stmt.cell(1), stmt.cell(2)) {
                each(term, row, at)?;
            }
        }
        Ok(())
    }

    fn rows(&mut self) -> Res<u64> {
        let internal = |error: SqliteError| to_server_error(&error);
        let sql = format!("SELECT count(*) FROM {}tg_words{}_docsize", self.schema, self.index);
        let mut stmt = Stmt::prepare(self.db, &sql).map_err(internal)?;
        stmt.step().map_err(internal)?;
        Ok(match stmt.cell(0) {
            Cell::Int(count) => count as u64,
            _ => 0,
        })
    }
}

/// The rows that a call asks for; none if the search is NULL.
///
/// # Safety
/// As [`Key::of`].
unsafe fn found(db: *mut ffi::sqlite3, values: &[*mut ffi::sqlite3_value]) -> Res<Rc<Ranked>> {
    // Nothing unwinds into SQLite.
    let found = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the contract.
        let Some(key) = (unsafe { Key::of(db, values) }) else { return Ok(Rc::default()) };
        // SAFETY: by the contract; the key was made with this handle.
        unsafe { key.found(db) }
    }));
    found.unwrap_or_else(|_| Err(errors::internal("a search panicked")))
}

/// Arguments that say what is searched for, and where.
const ARGUMENTS: c_int = 5;

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

/// Makes the table and the function known to a connection.
///
/// # Errors
/// SQLite's: memory.
pub(in crate::store) fn register(db: *mut ffi::sqlite3) -> Result<(), SqliteError> {
    // SAFETY: the handle is open, the names end with NUL, the module is static; neither takes a state.
    let codes = unsafe {
        [
            ffi::sqlite3_create_module_v2(db, c"tg_found".as_ptr(), &MODULE, ptr::null_mut(), None),
            ffi::sqlite3_create_function_v2(
                db,
                c"tg_match".as_ptr(),
                ARGUMENTS + 1,
                ffi::SQLITE_UTF8,
                ptr::null_mut(),
                Some(rank),
                None,
                None,
                None,
            ),
        ]
    };
    match codes.into_iter().find(|code| *code != ffi::SQLITE_OK) {
        None => Ok(()),
        Some(code) => Err(error_of(db, code)),
    }
}

/// The table of a connection. SQLite's part is the first, so that a pointer to one is a pointer to the other.
#[repr(C)]
struct Table {
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
}

/// A walk over the rows that were found, as above.
#[repr(C)]
struct Cursor {
    base: ffi::sqlite3_vtab_cursor,
    found: Rc<Ranked>,
    at: usize,
}

unsafe extern "C" fn connect(
    db: *mut ffi::sqlite3,
    _: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    table: *mut *mut ffi::sqlite3_vtab,
    _: *mut *mut c_char,
) -> c_int {
    let columns = c"CREATE TABLE x(rank, schema HIDDEN, name HIDDEN, collation HIDDEN, mode HIDDEN, search HIDDEN)";
    // SAFETY: SQLite calls this with an open handle and a place for the table, which it gives back to `disconnect`; its structure
    // is one of C, for which zeros are the beginning that SQLite asks for.
    unsafe {
        let code = ffi::sqlite3_declare_vtab(db, columns.as_ptr());
        if code == ffi::SQLITE_OK {
            *table = Box::into_raw(Box::new(Table { base: std::mem::zeroed(), db })).cast();
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
            if (1..=ARGUMENTS).contains(&constraint.iColumn) && equal && constraint.usable != 0 {
                let usage = &mut *(*info).aConstraintUsage.add(index);
                usage.argvIndex = constraint.iColumn;
                usage.omit = 1;
                given += 1;
            }
        }
        (*info).estimatedCost = 100.0;
        (*info).estimatedRows = 100;
    }
    if given == ARGUMENTS { ffi::SQLITE_OK } else { ffi::SQLITE_CONSTRAINT }
}

unsafe extern "C" fn open(_: *mut ffi::sqlite3_vtab, cursor: *mut *mut ffi::sqlite3_vtab_cursor) -> c_int {
    let new = Cursor { base: ffi::sqlite3_vtab_cursor { pVtab: ptr::null_mut() }, found: Rc::default(), at: 0 };
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
    let result = unsafe {
        let cursor = &mut *cursor.cast::<Cursor>();
        let values = if count > 0 { slice::from_raw_parts(values, count as usize) } else { &[] };
        let db = (*cursor.base.pVtab.cast::<Table>()).db;
        found(db, values).map(|found| (cursor.found, cursor.at) = (found, 0))
    };
    match result {
        Ok(()) => ffi::SQLITE_OK,
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
    c_int::from(cursor.at >= cursor.found.len())
}

unsafe extern "C" fn column(
    cursor: *mut ffi::sqlite3_vtab_cursor,
    context: *mut ffi::sqlite3_context,
    index: c_int,
) -> c_int {
    // SAFETY: as in `filter`; SQLite gives the context of this call.
    unsafe {
        let cursor = &*cursor.cast::<Cursor>();
        if let (0, Some((_, rank))) = (index, cursor.found.get(cursor.at)) {
            ffi::sqlite3_result_double(context, f64::from(*rank));
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn rowid(cursor: *mut ffi::sqlite3_vtab_cursor, number: *mut i64) -> c_int {
    // SAFETY: as in `filter`; SQLite gives a place for the number.
    unsafe {
        let cursor = &*cursor.cast::<Cursor>();
        *number = cursor.found.get(cursor.at).map_or(0, |(row, _)| *row);
    }
    ffi::SQLITE_OK
}

/// What a call keeps for the next one of its statement.
struct Kept {
    search: Vec<u8>,
    found: Rc<Ranked>,
}

/// The argument that is the same text at each call, to which SQLite ties what a call keeps: the index's name.
const KEPT_WITH: c_int = 2;

unsafe extern "C" fn rank(context: *mut ffi::sqlite3_context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite gives as many values as it says, a valid context, and with it the handle.
    let (values, db) = unsafe {
        let values = if count > 0 { slice::from_raw_parts(values, count as usize) } else { &[] };
        (values, ffi::sqlite3_context_db_handle(context))
    };
    let [row, arguments @ ..] = values else { return };
    // SAFETY: the values stay as they are during the call.
    let (row, search) = unsafe { (cell_of(*row), arguments.last().map_or(Cell::Null, |&value| cell_of(value))) };
    // A row that an outer join has not found, or a search for nothing.
    let rank = match (row, search) {
        (Cell::Int(row), Cell::Text(search) | Cell::Blob(search)) => {
            // SAFETY: what SQLite keeps came from below, and stays until the statement ends or another takes its place.
            let kept = unsafe { ffi::sqlite3_get_auxdata(context, KEPT_WITH).cast::<Kept>().as_ref() };
            let known = kept.filter(|kept| kept.search == search).map(|kept| Rc::clone(&kept.found));
            // SAFETY: the handle and the values are those of the call.
            let found = known.map_or_else(|| unsafe { found(db, arguments) }, Ok);
            match found {
                Ok(found) => {
                    let rank = found.binary_search_by_key(&row, |(row, _)| *row).map_or(0.0, |at| found[at].1);
                    if kept.is_none_or(|kept| !Rc::ptr_eq(&kept.found, &found)) {
                        let kept = Box::new(Kept { search: search.to_vec(), found });
                        // SAFETY: SQLite gives the box back to `forget` once, also if it has no memory.
                        unsafe {
                            ffi::sqlite3_set_auxdata(context, KEPT_WITH, Box::into_raw(kept).cast(), Some(forget));
                        }
                    }
                    rank
                }
                Err(error) => {
                    task::set_error(error);
                    // SAFETY: the context is valid; the text is static and its length given.
                    unsafe { ffi::sqlite3_result_error(context, c"error in a search".as_ptr(), -1) };
                    return;
                }
            }
        }
        _ => 0.0,
    };
    // SAFETY: the context is valid.
    unsafe { ffi::sqlite3_result_double(context, f64::from(rank)) };
}

unsafe extern "C" fn forget(kept: *mut c_void) {
    // SAFETY: SQLite gives back what `rank` has given it.
    drop(unsafe { Box::from_raw(kept.cast::<Kept>()) });
}
