//! Statements that run beneath another one of the same connection, because that calls a stored function.
//!
//! SQLite hands a function its own handle alone. With that comes a [`Conn`] which uses the handle and does not own it: it prepares and
//! runs statements in the snapshot and the transaction of the statement around it, whose owner holds the connection itself meanwhile.
//! Nothing of the two is shared but what SQLite and the [`Eyes`] are: neither begins, ends or closes anything for the other.

use std::{
    cell::{Cell, RefCell},
    ptr,
};

use libsqlite3_sys as ffi;

use super::{conn::Conn, eyes::Eyes, prepared::Prepared, stmt::Stmt};
use crate::errors;
use tidegate_rows::ServerError;

/// The name under which SQLite keeps the address of a connection's [`Beneath`].
const NAME: &std::ffi::CStr = c"tidegate";

/// What those need who run statements beneath others.
pub(super) struct Beneath {
    /// The connection's.
    eyes: *mut Eyes,
    /// The connection's.
    pub(super) private: Cell<*mut ffi::sqlite3_file>,
    /// Statements that are prepared, of each depth of functions that call each other; the last is of the outermost.
    stmts: RefCell<Vec<Prepared>>,
}

impl Beneath {
    /// Has those find it whom the handle calls. It must not be moved or dropped before the handle is closed.
    pub(super) fn lay(db: *mut ffi::sqlite3, eyes: *mut Eyes) -> Box<Self> {
        let beneath = Box::new(Self { eyes, private: Cell::new(ptr::null_mut()), stmts: RefCell::default() });
        // SAFETY: the handle is open, the name ends with NUL, and nothing is to be called when the address goes.
        unsafe {
            ffi::sqlite3_set_clientdata(db, NAME.as_ptr(), ptr::from_ref(&*beneath).cast_mut().cast(), None);
        }
        beneath
    }

    /// Drops what is prepared: the connection is about to be closed.
    pub(super) fn clear(&self) {
        drop(self.stmts.take());
    }
}

/// Runs `f` with a connection beneath the statement that calls a function, and with what is prepared there.
///
/// # Errors
/// Those of `f`.
///
/// # Safety
/// The handle is that of the call of a function which is under way on this thread.
pub(crate) unsafe fn within<R>(
    db: *mut ffi::sqlite3,
    f: impl FnOnce(&mut Conn, &mut Prepared) -> Result<R, ServerError>,
) -> Result<R, ServerError> {
    // SAFETY: the handle is open, the name ends with NUL.
    let found = unsafe { ffi::sqlite3_get_clientdata(db, NAME.as_ptr()).cast::<Beneath>().as_ref() };
    let beneath = found.ok_or_else(|| errors::internal("a function of a connection that has none"))?;
    let known = beneath.stmts.borrow_mut().pop();
    let mut stmts = known.unwrap_or_else(Prepared::of_functions);
    let mut conn = Conn::lent(db, beneath.eyes, beneath.private.get());
    let result = f(&mut conn, &mut stmts);
    beneath.stmts.borrow_mut().push(stmts);
    result
}

impl Stmt {
    /// None: the place of one that is not needed.
    pub(super) fn none() -> Self {
        Self { raw: ptr::null_mut() }
    }
}
