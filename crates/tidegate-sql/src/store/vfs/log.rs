//! The methods of a write-ahead log's file.
//!
//! SQLite writes a frame in two pieces, its head and its page. Here they become one write: a head that goes where the log ends for
//! this connection is kept until its page comes, which SQLite's `walWriteOneFrame` writes next. A head of a frame that
//! is there already (`walRewriteChecksums`) stands before that end, and is written at once.

use std::ffi::{c_int, c_void};

use libsqlite3_sys as ffi;

use super::{File, forward, real, write_of};
use crate::store::disk::{self, Change};

pub(super) static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size_of_file),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    ..super::METHODS
};

/// Bytes of the head of the log.
const LOG_HEAD: usize = 32;
/// Bytes of the head of a frame.
const FRAME_HEAD: usize = 24;
/// Bytes of a page, which the catalogue's file is made with.
const PAGE: usize = 4096;

/// Bytes that are copied at a time. More of them the C library leaves to `rep movsb`, which processors of AMD run at a twentieth of their speed where
/// the copy lies up to 31 bytes behind its source within a page of memory, as it may behind the head.
const PIECE: usize = 2048;

/// A frame on its way into the log.
///
/// ```text
/// 0   number of the page, pages of the database after a commit or 0
/// 8   salts and checksums
/// 24  the page
/// ```
///
/// Source: SQLite's "WAL-mode file format".
pub(super) struct Frame {
    bytes: [u8; FRAME_HEAD + PAGE],
    /// Where the head goes that is kept in `bytes`.
    head_at: Option<i64>,
    /// Behind the frame that this connection has written last, or behind the head of a log that it has begun; -1 if it has written
    /// something else since.
    end: i64,
}

impl Frame {
    /// Takes a head that is to go to `offset`; answers whether it is kept.
    fn keep_head(&mut self, head: &[u8; FRAME_HEAD], offset: i64) -> bool {
        let is_next = offset == self.end;
        if is_next {
            self.bytes[..FRAME_HEAD].copy_from_slice(head);
        }
        (self.head_at, self.end) = (is_next.then_some(offset), -1);
        is_next
    }

    /// The frame of a page that is to go to `offset`, if its head is kept, and where it goes.
    fn with_page(&mut self, page: &[u8], offset: i64) -> Option<(&[u8], i64)> {
        let is_its_page = |at: &mut i64| *at + FRAME_HEAD as i64 == offset && page.len() == PAGE;
        let head_at = self.head_at.take_if(is_its_page)?;
        for (to, from) in self.bytes[FRAME_HEAD..].chunks_mut(PIECE).zip(page.chunks(PIECE)) {
            to.copy_from_slice(from);
        }
        Some((&self.bytes, head_at))
    }

    /// A head that is kept while something else than its page is written, and where it goes.
    fn take_head(&mut self) -> Option<(&[u8], i64)> {
        let at = self.head_at.take()?;
        Some((&self.bytes[..FRAME_HEAD], at))
    }

    /// Something of `size` bytes was written to `offset`.
    fn wrote(&mut self, size: usize, offset: i64) {
        let is_end = size == PAGE || size == FRAME_HEAD + PAGE || size == LOG_HEAD && offset == 0;
        self.end = if is_end { offset + size as i64 } else { -1 };
    }
}

/// The frame of an open log.
///
/// # Safety
/// `file` is an open log, of which nobody else has the frame.
unsafe fn frame<'f>(file: *mut ffi::sqlite3_file) -> &'f mut Frame {
    // SAFETY: by the contract; the pointer is null or came from a box that lives as long as the file is open.
    unsafe {
        let place = &mut (*file.cast::<File>()).frame;
        if place.is_null() {
            *place = Box::into_raw(Box::new(Frame { bytes: [0; FRAME_HEAD + PAGE], head_at: None, end: -1 }));
        }
        &mut **place
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, buf: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: an open file has its node; SQLite passes as many bytes as it says, and uses a connection on one thread at a time.
    let (ours, given, frame) = unsafe { (&*file.cast::<File>(), write_of(buf, amount, offset), frame(file)) };
    let Some(node) = ours.writable() else { return ffi::SQLITE_IOERR_WRITE };
    let Change::Write { bytes: given, .. } = given else { return ffi::SQLITE_IOERR_WRITE };
    if let Some((bytes, at)) = frame.with_page(given, offset) {
        let (size, code) = (bytes.len(), put(file, node, bytes, at));
        if code == ffi::SQLITE_OK {
            frame.wrote(size, at);
        }
        return told(node, code);
    }
    if let Some((bytes, at)) = frame.take_head() {
        let code = put(file, node, bytes, at);
        if code != ffi::SQLITE_OK {
            return told(node, code);
        }
    }
    let code = if let Ok(head) = <&[u8; FRAME_HEAD]>::try_from(given) {
        if size_after_commit(head).is_some_and(|size| !node.reserve.take(&node.database, size)) {
            ffi::SQLITE_FULL
        } else if frame.keep_head(head, offset) {
            ffi::SQLITE_OK
        } else {
            put(file, node, given, offset)
        }
    } else {
        let code = put(file, node, given, offset);
        if code == ffi::SQLITE_OK {
            frame.wrote(given.len(), offset);
        }
        code
    };
    told(node, code)
}

/// The outcome of a write, of which the node hears when the disk is full.
fn told(node: &super::Node, code: c_int) -> c_int {
    if code == ffi::SQLITE_FULL {
        node.room.is_refused();
    }
    code
}

/// Writes bytes to the log at `offset`.
fn put(file: *mut ffi::sqlite3_file, node: &super::Node, bytes: &[u8], offset: i64) -> c_int {
    let change = Change::Write { offset: offset.unsigned_abs(), bytes };
    let amount = bytes.len() as c_int;
    node.room.write(offset + i64::from(amount), || {
        disk::carry_out(disk::File::Log(&node.database), change, || {
            forward!(file, xWrite, bytes.as_ptr().cast(), amount, offset)
        })
    })
}

/// The size of the database after the commit whose last frame has this head; `None` for other frames.
fn size_after_commit(head: &[u8; FRAME_HEAD]) -> Option<i64> {
    let pages = u32::from_be_bytes(head[4..8].try_into().ok()?);
    (pages > 0).then(|| i64::from(pages) * PAGE as i64)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: as in `write`.
    let ours = unsafe { &*file.cast::<File>() };
    let Some(node) = ours.writable() else { return ffi::SQLITE_IOERR_TRUNCATE };
    let change = Change::Truncate { size: size.unsigned_abs() };
    let mut code = ffi::SQLITE_IOERR_TRUNCATE;
    node.room.cut(size, || {
        code = disk::carry_out(disk::File::Log(&node.database), change, || forward!(file, xTruncate, size));
        code == ffi::SQLITE_OK
    });
    code
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as in `write`.
    let node = unsafe { &*(*file.cast::<File>()).node };
    disk::carry_out(disk::File::Log(&node.database), Change::Sync, || forward!(file, xSync, flags))
}

unsafe extern "C" fn size_of_file(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    forward!(file, xFileSize, size)
}

/// A log was opened: it has these methods, and its node knows how large it is.
///
/// # Safety
/// `file` is an open WAL that has its node.
pub(super) unsafe fn opened(file: *mut ffi::sqlite3_file) {
    // SAFETY: by the contract.
    let node = unsafe {
        (*file.cast::<File>()).base.pMethods = &METHODS;
        &*(*file.cast::<File>()).node
    };
    let mut size = 0;
    if forward!(file, xFileSize, &mut size) == ffi::SQLITE_OK {
        node.room.is_at_least(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_at_the_end_waits_for_its_page() {
        let mut frame = Frame { bytes: [0; FRAME_HEAD + PAGE], head_at: None, end: -1 };
        let (head, page) = ([1; FRAME_HEAD], [2; PAGE]);
        let of = |number: i64| LOG_HEAD as i64 + number * (FRAME_HEAD + PAGE) as i64;
        let page_of = |number| of(number) + FRAME_HEAD as i64;
        assert!(!frame.keep_head(&head, of(7)), "nobody knows where the log ends");
        assert!(frame.with_page(&page, page_of(7)).is_none());
        frame.wrote(PAGE, page_of(7));
        for number in 8..10 {
            assert!(frame.keep_head(&head, of(number)));
            let (bytes, at) = frame.with_page(&page, page_of(number)).unwrap();
            assert_eq!((at, &bytes[..FRAME_HEAD], &bytes[FRAME_HEAD..]), (of(number), &head[..], &page[..]));
            frame.wrote(FRAME_HEAD + PAGE, at);
        }
        // Checksums that are written again, from the third frame before the end on: no page comes behind any of them.
        for number in 7..10 {
            assert!(!frame.keep_head(&head, of(number)), "{number}");
        }
        assert!(!frame.keep_head(&head, of(10)));
        frame.wrote(LOG_HEAD, 0);
        assert!(frame.keep_head(&head, of(0)));
        assert!(frame.with_page(&page, page_of(3)).is_none(), "the page of another frame");
        frame.wrote(PAGE, page_of(3));
        assert!(frame.keep_head(&head, of(4)));
    }
}
