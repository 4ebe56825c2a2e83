//! SQLite's hook before each change of a row.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    marker::PhantomData,
    ptr,
};

use libsqlite3_sys as ffi;

use super::{
    eyes::Eyes,
    stmt::{Cell, Stmt, cell_of},
};

/// What happens to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Delete,
}

/// A row that is about to change, or has changed.
pub(crate) struct Change<'a> {
    rows: Rows<'a>,
    pub(crate) kind: Kind,
    /// The physical name of its table.
    pub(crate) table: &'a [u8],
    /// Its row id before; nothing for a new row.
    pub(crate) from: i64,
    /// Its row id afterwards; nothing for one that goes.
    pub(crate) to: i64,
}

/// Where the values of a row are.
enum Rows<'a> {
    /// With SQLite, which calls the hook.
    Hook(*mut ffi::sqlite3, PhantomData<&'a ()>),
    /// In the rows of two queries, behind the row id.
    Queries { before: &'a Stmt, after: &'a Stmt },
}

impl<'a> Change<'a> {
    /// What has happened to the row with a row id, of which two queries have the row id and then the columns.
    pub(super) fn between(kind: Kind, rowid: i64, before: &'a Stmt, after: &'a Stmt) -> Self {
        Self { rows: Rows::Queries { before, after }, kind, table: b"", from: rowid, to: rowid }
    }

    /// The number of its table; `None` for one of the catalogue.
    pub(super) fn table_number(&self) -> Option<i64> {
        std::str::from_utf8(self.table).ok()?.strip_prefix('t')?.parse().ok()
    }

    /// A value of the row before; NULL for a new row.
    pub(crate) fn before(&self, column: usize) -> Cell<'a> {
        match &self.rows {
            _ if self.kind == Kind::Insert => Cell::Null,
            Rows::Hook(db, _) => value(*db, ffi::sqlite3_preupdate_old, column),
            Rows::Queries { before, .. } => before.cell(column + 1),
        }
    }

    /// A value of the row afterwards; NULL for one that goes.
    pub(crate) fn after(&self, column: usize) -> Cell<'a> {
        match &self.rows {
            _ if self.kind == Kind::Delete => Cell::Null,
            Rows::Hook(db, _) => value(*db, ffi::sqlite3_preupdate_new, column),
            Rows::Queries { after, .. } => after.cell(column + 1),
        }
    }
}

/// A value of the row that the hook is called for.
fn value<'a>(
    db: *mut ffi::sqlite3,
    get: unsafe extern "C" fn(*mut ffi::sqlite3, c_int, *mut *mut ffi::sqlite3_value) -> c_int,
    column: usize,
) -> Cell<'a> {
    let mut value = ptr::null_mut();
    // SAFETY: a change of the hook exists only while SQLite calls that; `value` receives the result. SQLite checks the column's
    // number, and keeps the value until the hook returns.
    unsafe {
        match get(db, column as c_int, &mut value) {
            ffi::SQLITE_OK if !value.is_null() => cell_of(value),
            _ => Cell::Null,
        }
    }
}

/// Has `eyes` told of each row before it changes; nobody if it is null.
///
/// # Safety
/// The handle is open. Until the next call `eyes` is valid, and nobody else uses it while a statement is stepped.
pub(super) unsafe fn set(db: *mut ffi::sqlite3, eyes: *mut Eyes) {
    // SAFETY: by the contract.
    unsafe {
        if eyes.is_null() {
            ffi::sqlite3_preupdate_hook(db, None, ptr::null_mut());
        } else {
            ffi::sqlite3_preupdate_hook(db, Some(before_change), eyes.cast());
        }
    }
}

unsafe extern "C" fn before_change(
    eyes: *mut c_void,
    db: *mut ffi::sqlite3,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    from: i64,
    to: i64,
) {
    // SAFETY: SQLite passes NUL-terminated names; the context is what `set` was given.
    let (eyes, schema, table) =
        unsafe { (&mut *eyes.cast::<Eyes>(), CStr::from_ptr(schema), CStr::from_ptr(table).to_bytes()) };
    let kind = match operation {
        ffi::SQLITE_INSERT => Kind::Insert,
        ffi::SQLITE_UPDATE => Kind::Update,
        _ => Kind::Delete,
    };
    // Tables for intermediate results are nobody's concern, nor those of FULLTEXT indexes, which follow the rows.
    if schema != c"main" || table.starts_with(b"tg_words") {
        return;
    }
    let change = Change { rows: Rows::Hook(db, PhantomData), kind, table, from, to };
    if let Some(mut keys) = eyes.keys.take() {
        let shape = change.table_number().and_then(|table| eyes.shapes().get(table));
        keys.note(&change, shape);
        eyes.keys = Some(keys);
    }
    if let Some(watch) = &mut eyes.watch {
        watch.note(&change);
        if watch.has_outgrown() {
            // More private pages are of no use: SQLite undoes them all, and the list remains.
            // SAFETY: the handle is open while its hook runs.
            unsafe { ffi::sqlite3_interrupt(db) };
        }
    }
}
