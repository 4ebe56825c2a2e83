//! A layer over SQLite's `unix` VFS that keeps the WAL index in the process.
//!
//! The stock VFS shares the WAL index through a mapped file and takes its locks with `fcntl`: two system calls for
//! each autocommit read. All connections to a schema live in this process (the engine holds an exclusive lock on the data
//! directory), so the index is heap memory and a lock is an atomic. Main database files are wrapped, and WAL files for the
//! sake of their [`Room`]; temporary files are in [memory](temporary).
//!
//! Invariants:
//! 1. One [`Node`] per database file while any connection has it open: all see the same index and lock slots. Files are
//!    told apart by their paths; [`forget`] ends that when a file is removed. A log has the node of the database that it was opened for.
//! 2. A connection never asks for an exclusive lock on a slot that it holds shared (SQLite's WAL code guarantees it).
//! 3. All connections of a node have the same file open: a node knows which, and refuses others ([`Identity`]). A node that
//!    was forgotten writes no more: other connections may have its file open under a node of their own by then.
//! 4. `size` of a node is the file's size or -1; only writes and truncations through this layer change it.
//! 5. A private connection (opened with [`PRIVATE_NAME`]) reads like any other and may change pages in its cache, but no file:
//!    it gets SQLite's write lock without holding it, and a copy of the index that stands still ([`Region::renew`]).

mod log;
mod shm;
mod temporary;

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    mem::size_of,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use libsqlite3_sys as ffi;

use super::{
    alone::Alone,
    disk::{self, Change},
    identity::Identity,
    pace,
    reserve::Reserve,
    room::Room,
    wal_index::{Checkpoints, Region},
};
pub(super) use shm::is_behind;
use shm::{release_all, shm_barrier, shm_lock, shm_map, shm_unmap};

/// Name to open databases with.
pub(crate) const NAME: &CStr = c"tidegate";
/// SQLite's result code, which it has no use for itself, when another program has the database open.
pub(super) const OPEN_ELSEWHERE: c_int = ffi::SQLITE_PERM;
/// Tells the file of a private connection that SQLite has given up to begin.
pub(crate) const FCNTL_GIVEN_UP: c_int = 0x5467_0001;
/// Name to open private connections with.
pub(crate) const PRIVATE_NAME: &CStr = c"tidegate-private";

const LOCK_SLOTS: usize = 8;

/// What all connections to one database file share.
struct Node {
    /// Its path.
    database: CString,
    slots: [AtomicU32; LOCK_SLOTS],
    /// Boxed: their addresses stay while the vector grows.
    regions: Mutex<Vec<Box<Region>>>,
    checkpoints: Checkpoints,
    size: AtomicI64,
    /// The file that its connections have open.
    file: Option<Identity>,
    /// The node was forgotten.
    is_retired: AtomicBool,
    /// Held while the size is unknown and somebody measures or changes it.
    measuring: Mutex<()>,
    /// Of the database's WAL.
    room: Arc<Room>,
    /// For the database itself.
    reserve: Reserve,
    /// Keeps other programs out once there is an index.
    alone: Mutex<Option<Alone>>,
}

/// An open main database file; the stock VFS's file object follows it in memory.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    node: *const Node,
    shared: u32,
    exclusive: u32,
    /// Of a private connection.
    is_private: bool,
    /// The copy of the index' first region that a private connection has, null for others and for a WAL.
    own: *mut Region,
    /// Count of checkpoints when the copy was made, if SQLite tries to begin again because of that copy.
    tried: Option<u64>,
    /// The frame of a WAL that is being written, null until there is one.
    frame: *mut log::Frame,
}

impl File {
    /// The node of a file that this connection may write.
    fn writable(&self) -> Option<&Node> {
        // SAFETY: an open file has its node (invariant 1).
        let node = unsafe { &*self.node };
        (!self.is_private && !node.is_retired()).then_some(node)
    }
}

const _: () = assert!(size_of::<temporary::TemporaryFile>() <= size_of::<File>());

const REAL_OFFSET: usize = size_of::<File>().next_multiple_of(16);

static NODES: OnceLock<Mutex<HashMap<CString, Weak<Node>>>> = OnceLock::new();
static REGISTERED: OnceLock<c_int> = OnceLock::new();

/// Makes the VFS known to SQLite, once for the process.
///
/// # Errors
/// SQLite's result code if there is no stock VFS or it refuses the registration.
pub(crate) fn register() -> Result<(), c_int> {
    let code = *REGISTERED.get_or_init(|| {
        // SAFETY: the calls are thread-safe; the VFS object is leaked, so it lives as long as SQLite needs it.
        unsafe {
            let real = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            if real.is_null() {
                return ffi::SQLITE_ERROR;
            }
            let mut vfs = ptr::read(real);
            vfs.pNext = ptr::null_mut();
            vfs.zName = NAME.as_ptr();
            vfs.szOsFile = REAL_OFFSET as c_int + (*real).szOsFile;
            vfs.pAppData = real.cast();
            vfs.xOpen = Some(open);
            let mut private = ptr::read(&vfs);
            private.zName = PRIVATE_NAME.as_ptr();
            private.xOpen = Some(open_private);
            match ffi::sqlite3_vfs_register(Box::leak(Box::new(vfs)), 0) {
                ffi::SQLITE_OK => ffi::sqlite3_vfs_register(Box::leak(Box::new(private)), 0),
                code => code,
            }
        }
    });
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

fn path_of(database: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(database.to_bytes()))
}

/// The node of a database that has just been opened; `None` if its connections have another file open than the path leads
/// to by now.
fn node(path: &CStr) -> Option<Arc<Node>> {
    let file = Identity::at(path_of(path)).ok();
    let nodes = NODES.get_or_init(Mutex::default);
    let mut nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(node) = nodes.get(path).and_then(Weak::upgrade) {
        return (file.is_some() && node.file == file).then_some(node);
    }
    nodes.retain(|_, node| node.strong_count() > 0);
    let node = Arc::new(Node {
        database: path.to_owned(),
        slots: std::array::from_fn(|_| AtomicU32::new(0)),
        regions: Mutex::default(),
        checkpoints: Checkpoints::default(),
        size: AtomicI64::new(-1),
        file,
        is_retired: AtomicBool::new(false),
        measuring: Mutex::default(),
        room: Arc::default(),
        reserve: Reserve::default(),
        alone: Mutex::default(),
    });
    nodes.insert(path.to_owned(), Arc::downgrade(&node));
    Some(node)
}

/// The node of a database whose log has just been opened; `None` if it was forgotten, since its path may lead to another's log.
///
/// # Safety
/// `name` is SQLite's name of the log, with which it calls `xOpen`.
unsafe fn node_of_log(name: *const c_char) -> Option<Arc<Node>> {
    // SAFETY: by the contract SQLite knows the file of the database, which is open. One whose methods are ours is one of ours, and
    // has its node (invariant 1), which came from an `Arc`.
    let node = unsafe {
        let database = ffi::sqlite3_database_file_object(name);
        if !ptr::eq((*database).pMethods, &METHODS) {
            return None;
        }
        let node = (*database.cast::<File>()).node;
        Arc::increment_strong_count(node);
        Arc::from_raw(node)
    };
    (!node.is_retired()).then_some(node)
}

/// Whether an open file is not at its path any more.
///
/// # Safety
/// `file` is an open one of the stock VFS.
unsafe fn has_moved(file: *mut ffi::sqlite3_file) -> bool {
    let mut has_moved: c_int = 0;
    // SAFETY: by the contract; the operation writes one integer.
    unsafe {
        if let Some(control) = (*file).pMethods.as_ref().and_then(|methods| methods.xFileControl) {
            control(file, ffi::SQLITE_FCNTL_HAS_MOVED, ptr::from_mut(&mut has_moved).cast());
        }
    }
    has_moved != 0
}

impl Node {
    fn is_displaced(&self) -> bool {
        Identity::at(path_of(&self.database)).ok() != self.file
    }

    fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }
}

/// The databases that connections have open and that are not at their paths any more: removed, moved or replaced.
pub(crate) fn displaced() -> Vec<PathBuf> {
    let nodes = NODES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let open: Vec<_> = nodes.values().filter_map(Weak::upgrade).collect();
    // Not under the lock: a path may lead to a disk that is slow.
    drop(nodes);
    open.iter().filter(|node| node.is_displaced()).map(|node| path_of(&node.database).to_owned()).collect()
}

/// Whether the database at `path` is the one that connections have open, as far as there are any.
pub(crate) fn is_in_place(path: &CStr) -> bool {
    let nodes = NODES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let node = nodes.get(path).and_then(Weak::upgrade);
    drop(nodes);
    node.is_none_or(|node| !node.is_displaced())
}

/// What all connections to a database share, kept while none is open: its index of the log, the lock that keeps other programs
/// out, and which file it is.
pub(crate) struct Anchor(#[allow(dead_code, reason = "kept")] Arc<Node>);

/// Keeps what the connections to the database at `path` share. One of them is open.
pub(crate) fn anchor(path: &CStr) -> Option<Anchor> {
    let nodes = NODES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    nodes.get(path)?.upgrade().map(Anchor)
}

/// The room in the WAL of the database at `path`, while a connection has it open.
pub(crate) fn room(path: &CStr) -> Option<Arc<Room>> {
    let nodes = NODES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::clone(&nodes.get(path)?.upgrade()?.room))
}

/// Makes the next connection to `path` start an index of its own: the file there was removed or replaced, and connections
/// that still have it open must not share their index with a new file of the same name. They write no more: what they
/// have open may come back to the path.
pub(crate) fn forget(path: &CStr) {
    let nodes = NODES.get_or_init(Mutex::default);
    let node = nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    if let Some(node) = node.and_then(|node| node.upgrade()) {
        node.is_retired.store(true, Ordering::Release);
        node.alone.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The stock VFS's file object behind `file`.
///
/// # Safety
/// `file` was given to [`open`] by SQLite for a main database.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` makes SQLite allocate REAL_OFFSET bytes before the real object.
    unsafe { file.cast::<u8>().add(REAL_OFFSET).cast() }
}

unsafe extern "C" fn open_private(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's, for a call of `open`. A file whose methods are ours is one of ours.
    unsafe {
        let code = open(vfs, name, file, flags, out_flags);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let ours = file.cast::<File>();
        if ptr::eq((*file).pMethods, &METHODS) {
            (*ours).is_private = true;
            (*ours).own = Box::into_raw(Region::new());
        } else if ptr::eq((*file).pMethods, &log::METHODS) {
            (*ours).is_private = true;
        }
        code
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `pAppData` is the stock VFS (set in `register`); `file` has room for our object and the real one.
    unsafe {
        let stock = (*vfs).pAppData.cast::<ffi::sqlite3_vfs>();
        let Some(stock_open) = (*stock).xOpen else { return ffi::SQLITE_ERROR };
        if temporary::is_temporary(flags) {
            return temporary::open(file);
        }
        if name.is_null() || flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) == 0 {
            return stock_open(stock, name, file, flags, out_flags);
        }
        (*file).pMethods = ptr::null();
        let inner = real(file);
        (*inner).pMethods = ptr::null();
        let code = stock_open(stock, name, inner, flags, out_flags);
        let node = match code {
            ffi::SQLITE_OK if flags & ffi::SQLITE_OPEN_WAL != 0 => node_of_log(name),
            ffi::SQLITE_OK => node(CStr::from_ptr(name)).filter(|_| !has_moved(inner)),
            _ => None,
        };
        let Some(node) = node else {
            // SQLite calls xClose only if pMethods is set on ours, so a half-open file is closed here.
            if let Some(close) = (*inner).pMethods.as_ref().and_then(|methods| methods.xClose) {
                close(inner);
            }
            return if code == ffi::SQLITE_OK { ffi::SQLITE_CANTOPEN } else { code };
        };
        let ours = file.cast::<File>();
        (*ours).node = Arc::into_raw(node);
        (*ours).shared = 0;
        (*ours).exclusive = 0;
        (*ours).is_private = false;
        (*ours).own = ptr::null_mut();
        (*ours).tried = None;
        (*ours).frame = ptr::null_mut();
        (*ours).base.pMethods = &METHODS;
        if flags & ffi::SQLITE_OPEN_WAL != 0 {
            log::opened(file);
        }
        ffi::SQLITE_OK
    }
}

/// Calls the stock method; a method that the stock VFS does not have is an I/O error.
macro_rules! forward {
    ($file:ident, $method:ident $(, $arg:expr)*) => {{
        // SAFETY: SQLite calls this with a file that `open` initialised; the real object behind it is open.
        unsafe {
            let inner = real($file);
            match (*inner).pMethods.as_ref().and_then(|methods| methods.$method) {
                Some(method) => method(inner $(, $arg)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}
use forward;

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let code = forward!(file, xClose);
    // SAFETY: the pointer came from Arc::into_raw in `open`, and SQLite closes a file once.
    unsafe {
        release_all(file.cast());
        let ours = file.cast::<File>();
        drop(Arc::from_raw((*ours).node));
        (*ours).node = ptr::null();
        if !(*ours).own.is_null() {
            drop(Box::from_raw((*ours).own));
        }
        if !(*ours).frame.is_null() {
            drop(Box::from_raw((*ours).frame));
        }
        (*ours).base.pMethods = ptr::null();
    }
    code
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, buf: *mut c_void, amount: c_int, offset: i64) -> c_int {
    forward!(file, xRead, buf, amount, offset)
}

/// A write of SQLite's.
///
/// # Safety
/// `buf` holds `amount` bytes.
unsafe fn write_of<'a>(buf: *const c_void, amount: c_int, offset: i64) -> Change<'a> {
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(buf.cast(), amount.unsigned_abs() as usize) };
    Change::Write { offset: offset.unsigned_abs(), bytes }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, buf: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: an open file has its node (invariant 1); SQLite passes as many bytes as it says.
    let (ours, change) = unsafe { (&*file.cast::<File>(), write_of(buf, amount, offset)) };
    let Some(node) = ours.writable() else { return ffi::SQLITE_IOERR_WRITE };
    let write = || {
        disk::carry_out(disk::File::Database(&node.database), change, || forward!(file, xWrite, buf, amount, offset))
    };
    if node.size.load(Ordering::Acquire) < 0 {
        let _measuring = node.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        return write();
    }
    let code = write();
    if code == ffi::SQLITE_OK {
        // Writers of the database file exclude each other (SQLite's checkpoint lock), so no truncation comes between.
        node.size.fetch_max(offset + i64::from(amount), Ordering::AcqRel);
        pace::wrote(offset.unsigned_abs()..offset.unsigned_abs() + u64::from(amount.unsigned_abs()));
    } else {
        node.size.store(-1, Ordering::Release);
    }
    code
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: as in `write`.
    let ours = unsafe { &*file.cast::<File>() };
    let Some(node) = ours.writable() else { return ffi::SQLITE_IOERR_TRUNCATE };
    let _measuring = node.measuring.lock().unwrap_or_else(PoisonError::into_inner);
    let change = Change::Truncate { size: size.unsigned_abs() };
    let code = disk::carry_out(disk::File::Database(&node.database), change, || forward!(file, xTruncate, size));
    node.reserve.is_cut(size);
    node.size.store(-1, Ordering::Release);
    code
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as in `write`.
    let node = unsafe { &*(*file.cast::<File>()).node };
    disk::carry_out(disk::File::Database(&node.database), Change::Sync, || forward!(file, xSync, flags))
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: as in `write`; SQLite passes a valid pointer for the result.
    let (node, size) = unsafe { (&*(*file.cast::<File>()).node, &mut *size) };
    let known = node.size.load(Ordering::Acquire);
    if known >= 0 {
        *size = known;
        return ffi::SQLITE_OK;
    }
    let _measuring = node.measuring.lock().unwrap_or_else(PoisonError::into_inner);
    let code = forward!(file, xFileSize, size);
    if code == ffi::SQLITE_OK {
        node.size.store(*size, Ordering::Release);
    }
    code
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    forward!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    forward!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    forward!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    if op == ffi::SQLITE_FCNTL_SIZE_HINT || op == ffi::SQLITE_FCNTL_CHUNK_SIZE {
        // Growing ahead changes the size behind our back.
        return ffi::SQLITE_OK;
    }
    if op == FCNTL_GIVEN_UP {
        // SAFETY: SQLite calls this with a file that `open` initialised.
        unsafe { (*file.cast::<File>()).tried = None };
        return ffi::SQLITE_OK;
    }
    forward!(file, xFileControl, op, arg)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xDeviceCharacteristics)
}
