//! What the tables share that the engine computes when SQLite asks for their rows: modules of virtual tables, which nobody can write to,
//! and which no statement can make.

use std::ffi::c_int;

use libsqlite3_sys as ffi;

/// A module whose calls are still to be said. Without `xCreate` no statement can make a table of this kind.
pub(super) const READ_ONLY: ffi::sqlite3_module = ffi::sqlite3_module {
    iVersion: 0,
    xCreate: None,
    xConnect: None,
    xBestIndex: None,
    xDisconnect: None,
    xDestroy: None,
    xOpen: None,
    xClose: None,
    xFilter: None,
    xNext: None,
    xEof: None,
    xColumn: None,
    xRowid: None,
    xUpdate: None,
    xBegin: None,
    xSync: None,
    xCommit: None,
    xRollback: None,
    xFindFunction: None,
    xRename: None,
    xSavepoint: None,
    xRelease: None,
    xRollbackTo: None,
    xShadowName: None,
    xIntegrity: None,
};

/// `xDisconnect` of a module whose `xConnect` gives tables in boxes.
///
/// # Safety
/// The table came from a `Box<T>` of this module; SQLite gives it back once.
pub(super) unsafe extern "C" fn disconnect<T>(table: *mut ffi::sqlite3_vtab) -> c_int {
    // SAFETY: by the contract.
    drop(unsafe { Box::from_raw(table.cast::<T>()) });
    ffi::SQLITE_OK
}

/// `xClose` of a module whose `xOpen` gives cursors in boxes.
///
/// # Safety
/// The cursor came from a `Box<C>` of this module; SQLite gives it back once.
pub(super) unsafe extern "C" fn close<C>(cursor: *mut ffi::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: by the contract.
    drop(unsafe { Box::from_raw(cursor.cast::<C>()) });
    ffi::SQLITE_OK
}
