//! The orders of collations as functions that SQLite calls.

use std::{ffi::CString, os::raw::c_void, slice};

use libsqlite3_sys as ffi;

use super::stmt::SqliteError;
use crate::value::{
    collation::{compare_bin, compare_general_ci, compare_latin1},
    latin1,
    uca::{self, LANGUAGES, Language},
};

/// Makes the collations known to a connection.
///
/// # Errors
/// SQLite's, when it has no memory.
pub(crate) fn register(db: *mut ffi::sqlite3) -> Result<(), SqliteError> {
    let all: [(&str, Compare); 10] = [
        ("mci", general_ci),
        ("mbin", bin),
        ("muca400", unicode_400),
        ("muca520", unicode_520),
        ("muca900", unicode_900),
        ("latin1_swedish_ci", latin1_swedish_ci),
        ("latin1_bin", latin1_bin),
        ("latin1_general_ci", latin1_general_ci),
        ("latin1_general_cs", latin1_general_cs),
        ("latin1_german1_ci", latin1_german1_ci),
    ];
    for (name, compare) in all {
        create(db, name, std::ptr::null(), compare)?;
    }
    // The language is the function's state.
    LANGUAGES.iter().try_for_each(|language| create(db, language.sqlite_name, language, of_language))
}

type Compare = unsafe extern "C" fn(
    *mut c_void,
    std::ffi::c_int,
    *const c_void,
    std::ffi::c_int,
    *const c_void,
) -> std::ffi::c_int;

/// Makes one of them known. `language` is one of [`LANGUAGES`], or null for a function without state.
fn create(db: *mut ffi::sqlite3, name: &str, language: *const Language, compare: Compare) -> Result<(), SqliteError> {
    let name = CString::new(name).unwrap_or_default();
    let state = language.cast_mut().cast();
    // SAFETY: the handle is open, the name is copied, the state lives as long as the program and is only read.
    let code =
        unsafe { ffi::sqlite3_create_collation_v2(db, name.as_ptr(), ffi::SQLITE_UTF8, state, Some(compare), None) };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    Err(SqliteError { code, message: "cannot register collations".into() })
}

unsafe extern "C" fn of_language(
    state: *mut c_void,
    a_len: std::ffi::c_int,
    a: *const c_void,
    b_len: std::ffi::c_int,
    b: *const c_void,
) -> std::ffi::c_int {
    // SAFETY: SQLite's contract for collation functions; the state is a language, see `register`.
    let (language, a, b) = unsafe { (&*state.cast::<Language>(), text(a, a_len), text(b, b_len)) };
    language.table().compare(a, b) as std::ffi::c_int
}

/// # Safety
/// SQLite passes a pointer to `len` bytes.
unsafe fn text<'a>(ptr: *const c_void, len: std::ffi::c_int) -> &'a [u8] {
    if ptr.is_null() || len <= 0 {
        return &[];
    }
    // SAFETY: by the contract.
    unsafe { slice::from_raw_parts(ptr.cast(), len as usize) }
}

/// Makes a comparison of texts a collation function of SQLite's.
macro_rules! collation_function {
    ($name:ident, $compare:expr) => {
        unsafe extern "C" fn $name(
            _: *mut c_void,
            a_len: std::ffi::c_int,
            a: *const c_void,
            b_len: std::ffi::c_int,
            b: *const c_void,
        ) -> std::ffi::c_int {
            // SAFETY: SQLite's contract for collation functions.
            let (a, b) = unsafe { (text(a, a_len), text(b, b_len)) };
            $compare(a, b) as std::ffi::c_int
        }
    };
}

collation_function!(general_ci, compare_general_ci);
collation_function!(unicode_400, |a, b| uca::v400().compare(a, b));
collation_function!(unicode_520, |a, b| uca::v520().compare(a, b));
collation_function!(unicode_900, |a, b| uca::v900().compare(a, b));
collation_function!(bin, compare_bin);
collation_function!(latin1_swedish_ci, |a, b| compare_latin1(&latin1::SWEDISH, a, b));
collation_function!(latin1_bin, |a, b| compare_latin1(&latin1::BIN, a, b));
collation_function!(latin1_general_ci, |a, b| compare_latin1(&latin1::GENERAL_CI, a, b));
collation_function!(latin1_general_cs, |a, b| compare_latin1(&latin1::GENERAL_CS, a, b));
collation_function!(latin1_german1_ci, |a, b| compare_latin1(&latin1::GERMAN1, a, b));
