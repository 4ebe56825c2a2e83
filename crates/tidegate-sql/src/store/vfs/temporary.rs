//! Temporary files, in memory: sorted runs, tables of a statement, journals of savepoints.
//!
//! SQLite could keep these things in memory itself (`temp_store=MEMORY`). But then its sorter allocates each row alone and walks them
//! in an order that no cache foresees: grouping a million rows took four times as long, the more often the longer. With files it sorts
//! runs that fit its cache and merges them. A file on a disk would have the worker wait.

use std::{
    ffi::{c_int, c_void},
    ptr, slice,
};

use libsqlite3_sys as ffi;

/// Bytes are allocated in pieces of this size: small enough for the allocator to use again, and to be left half empty.
const PIECE_BYTES: usize = 64 * 1024;

/// An open temporary file. SQLite's part is the first, so that a pointer to one is a pointer to the other.
#[repr(C)]
pub(super) struct TemporaryFile {
    base: ffi::sqlite3_file,
    /// Owned.
    content: *mut Content,
}

/// The bytes of a file.
#[derive(Debug, Default)]
struct Content {
    pieces: Vec<Vec<u8>>,
    size: usize,
}

/// There is no memory for more.
struct OutOfMemory;

impl Content {
    /// Writes bytes; those between the end until now and `at` become zeros.
    fn write(&mut self, at: usize, mut bytes: &[u8]) -> Result<(), OutOfMemory> {
        let end = at.checked_add(bytes.len()).ok_or(OutOfMemory)?;
        while self.pieces.len() * PIECE_BYTES < end {
            let mut piece = Vec::new();
            piece.try_reserve_exact(PIECE_BYTES).map_err(|_| OutOfMemory)?;
            piece.resize(PIECE_BYTES, 0);
            self.pieces.push(piece);
        }
        let mut at = at;
        while !bytes.is_empty() {
            let piece = &mut self.pieces[at / PIECE_BYTES][at % PIECE_BYTES..];
            let (now, rest) = bytes.split_at(bytes.len().min(piece.len()));
            piece[..now.len()].copy_from_slice(now);
            at += now.len();
            bytes = rest;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Reads bytes and answers how many there were; the rest of `out` becomes zeros.
    fn read(&self, at: usize, out: &mut [u8]) -> usize {
        let count = out.len().min(self.size.saturating_sub(at));
        let (mut wanted, beyond) = out.split_at_mut(count);
        beyond.fill(0);
        let mut at = at;
        while !wanted.is_empty() {
            let piece = &self.pieces[at / PIECE_BYTES][at % PIECE_BYTES..];
            let length = wanted.len().min(piece.len());
            let (now, rest) = std::mem::take(&mut wanted).split_at_mut(length);
            now.copy_from_slice(&piece[..now.len()]);
            at += now.len();
            wanted = rest;
        }
        count
    }

    /// Makes the file shorter; a longer one stays as it is.
    fn truncate(&mut self, size: usize) {
        if size >= self.size {
            return;
        }
        self.pieces.truncate(size.div_ceil(PIECE_BYTES));
        if let Some(last) = self.pieces.last_mut().filter(|_| !size.is_multiple_of(PIECE_BYTES)) {
            last[size % PIECE_BYTES..].fill(0);
        }
        self.size = size;
    }
}

/// Whether SQLite opens a temporary file.
pub(super) fn is_temporary(flags: c_int) -> bool {
    let kinds = ffi::SQLITE_OPEN_TEMP_DB
        | ffi::SQLITE_OPEN_TRANSIENT_DB
        | ffi::SQLITE_OPEN_TEMP_JOURNAL
        | ffi::SQLITE_OPEN_SUBJOURNAL;
    flags & kinds != 0
}

/// Opens an empty temporary file.
///
/// # Safety
/// `file` is SQLite's, for a call of `xOpen`, with room for a [`TemporaryFile`].
pub(super) unsafe fn open(file: *mut ffi::sqlite3_file) -> c_int {
    let new = TemporaryFile {
        base: ffi::sqlite3_file { pMethods: &METHODS },
        content: Box::into_raw(Box::new(Content::default())),
    };
    // SAFETY: by the contract; what is there has no destructor.
    unsafe { file.cast::<TemporaryFile>().write(new) };
    ffi::SQLITE_OK
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(nothing),
    xFileSize: Some(size),
    xLock: Some(nothing),
    xUnlock: Some(nothing),
    xCheckReservedLock: Some(no_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The bytes of a file.
///
/// # Safety
/// `file` was opened by [`open`] and not closed; no other borrow of its bytes lives.
unsafe fn content<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Content {
    // SAFETY: by the contract.
    unsafe { &mut *(*file.cast::<TemporaryFile>()).content }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file that it has opened, once.
    unsafe { drop(Box::from_raw((*file.cast::<TemporaryFile>()).content)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, out: *mut c_void, count: c_int, at: i64) -> c_int {
    let (Ok(count), Ok(at)) = (usize::try_from(count), usize::try_from(at)) else { return ffi::SQLITE_IOERR_READ };
    // SAFETY: SQLite gives room for so many bytes, and an open file; it uses a file from one thread at a time.
    let (content, out) = unsafe {
        ptr::write_bytes(out.cast::<u8>(), 0, count);
        (content(file), slice::from_raw_parts_mut(out.cast::<u8>(), count))
    };
    if content.read(at, out) == count { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, bytes: *const c_void, count: c_int, at: i64) -> c_int {
    let (Ok(count), Ok(at)) = (usize::try_from(count), usize::try_from(at)) else { return ffi::SQLITE_IOERR_WRITE };
    // SAFETY: SQLite gives so many bytes, and an open file; it uses a file from one thread at a time.
    let (content, bytes) = unsafe { (content(file), slice::from_raw_parts(bytes.cast::<u8>(), count)) };
    match content.write(at, bytes) {
        Ok(()) => ffi::SQLITE_OK,
        Err(OutOfMemory) => ffi::SQLITE_IOERR_NOMEM,
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let Ok(size) = usize::try_from(size) else { return ffi::SQLITE_IOERR_TRUNCATE };
    // SAFETY: SQLite gives an open file.
    unsafe { content(file).truncate(size) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: SQLite gives an open file and room for the number.
    unsafe { *size = content(file).size as i64 };
    ffi::SQLITE_OK
}

/// Syncs and locks: nobody else has the file, and nothing of it outlives the process.
unsafe extern "C" fn nothing(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn no_lock(_: *mut ffi::sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: SQLite gives room for the answer.
    unsafe { *held = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::{Content, PIECE_BYTES};

    /// Does the same to a file and to a vector, and compares all of both.
    struct Both {
        file: Content,
        model: Vec<u8>,
    }

    impl Both {
        #[track_caller]
        fn check(&self, at: usize, count: usize) {
            let mut out = vec![7; count];
            let expected = self.model.get(at..).unwrap_or_default();
            let expected = &expected[..count.min(expected.len())];
            assert_eq!(self.file.read(at, &mut out), expected.len(), "{count} bytes at {at}");
            assert!(out[..expected.len()] == *expected, "{count} bytes at {at}");
            assert!(out[expected.len()..].iter().all(|byte| *byte == 0), "zeros behind the end");
        }

        #[track_caller]
        fn write(&mut self, at: usize, count: usize, byte: u8) {
            assert!(self.file.write(at, &vec![byte; count]).is_ok());
            self.model.resize(self.model.len().max(at + count), 0);
            self.model[at..at + count].fill(byte);
            self.check(0, self.model.len() + 10);
        }

        #[track_caller]
        fn truncate(&mut self, size: usize) {
            self.file.truncate(size);
            self.model.truncate(size);
            self.check(0, self.model.len() + 10);
        }
    }

    #[test]
    fn a_file_holds_what_was_written() {
        let mut both = Both { file: Content::default(), model: Vec::new() };
        both.check(0, 0);
        both.check(5, 3);
        both.write(0, 10, 1);
        both.write(PIECE_BYTES - 5, 10, 2);
        both.write(3 * PIECE_BYTES, 2 * PIECE_BYTES, 3);
        both.write(PIECE_BYTES, 1, 4);
        both.check(PIECE_BYTES - 1, 3);
        both.check(5 * PIECE_BYTES, 1);
        both.check(usize::MAX, 1);
        both.truncate(9 * PIECE_BYTES);
        both.truncate(3 * PIECE_BYTES + 1);
        // What was cut off comes back as zeros.
        both.write(4 * PIECE_BYTES - 1, 2, 5);
        both.truncate(PIECE_BYTES);
        both.write(2 * PIECE_BYTES, 1, 6);
        both.truncate(0);
        both.write(1, 1, 7);
    }
}
