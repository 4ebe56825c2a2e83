//! The way to the disk: whatever changes a schema's files passes [`carry_out`].
//!
//! In the server it does nothing but let it pass. In tests a watcher of the data directory sees every change, in order,
//! and may refuse it: so a power cut and a broken disk are played (`disk/tests.rs`).

use std::ffi::CStr;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
pub(crate) mod watch;

/// A file of a schema, told by the path of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum File<'a> {
    Database(&'a CStr),
    /// Its write-ahead log.
    Log(&'a CStr),
    /// The directory of both.
    Directory(&'a CStr),
}

/// A change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests look inside"))]
pub(crate) enum Change<'a> {
    Write {
        offset: u64,
        bytes: &'a [u8],
    },
    Truncate {
        size: u64,
    },
    /// The file had another name until then.
    Rename {
        from: &'a CStr,
    },
    Sync,
}

/// Makes a change.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn carry_out<R>(_: File<'_>, _: Change<'_>, make: impl FnOnce() -> R) -> R {
    make()
}

/// Makes a change, if nobody who watches refuses it.
#[cfg(test)]
pub(crate) fn carry_out<R: watch::Outcome>(file: File<'_>, change: Change<'_>, make: impl FnOnce() -> R) -> R {
    let Some(watcher) = watch::watcher_of(file) else { return make() };
    if !watcher.before(file, change) {
        return R::refused(change);
    }
    let outcome = make();
    watcher.after(file, change, outcome.is_good());
    outcome
}
