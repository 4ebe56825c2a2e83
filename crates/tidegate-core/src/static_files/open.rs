//! Opening files, through the worker's cache.

use std::{
    cell::OnceCell,
    ffi::{CStr, CString},
    fs::{File, Metadata},
    io,
    mem::MaybeUninit,
    os::{
        fd::FromRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::BStr;
use bytes::Bytes;

use super::{SYMLINKS_ALLOWED, cache, nofollow, read};
use crate::{
    log::{Level, SysError},
    output::Buf,
    request::Request,
};

/// Files up to this size are kept in memory: copying them into the output costs less than `sendfile`.
pub const CONTENT_BYTES_MAX: u64 = 64 << 10;

/// The kinds of things on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

/// What tells a file from any other, and from itself after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileInfo {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, in seconds since 1970.
    pub mtime: i64,
    mtime_nsec: i64,
    ctime: i64,
    ctime_nsec: i64,
    dev: u64,
    ino: u64,
    /// Kind of the file.
    pub kind: FileKind,
}

impl FileInfo {
    fn new(size: i64, mtime: (i64, i64), ctime: (i64, i64), dev: u64, ino: u64, mode: u32) -> Self {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG => FileKind::File,
            libc::S_IFDIR => FileKind::Directory,
            _ => FileKind::Other,
        };
        let size = u64::try_from(size).unwrap_or(0);
        FileInfo { size, mtime: mtime.0, mtime_nsec: mtime.1, ctime: ctime.0, ctime_nsec: ctime.1, dev, ino, kind }
    }
    /// Of what `stat` says.
    pub fn of(meta: &Metadata) -> Self {
        let size = i64::try_from(meta.size()).unwrap_or(i64::MAX);
        let (mtime, ctime) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        FileInfo::new(size, mtime, ctime, meta.dev(), meta.ino(), meta.mode())
    }
    /// When it was changed last, its rights and links included, in milliseconds since 1970.
    pub(super) fn changed_ms(&self) -> i64 {
        let ms = |seconds: i64, nsec: i64| seconds.saturating_mul(1000).saturating_add(nsec / 1_000_000);
        ms(self.mtime, self.mtime_nsec).max(ms(self.ctime, self.ctime_nsec))
    }
}

/// A file as it was when it was opened.
#[derive(Debug)]
pub struct OpenFile {
    /// Result of `stat`.
    pub info: FileInfo,
    /// The value of its `ETag`.
    pub etag: Box<[u8]>,
    file: Option<Arc<File>>,
    content: OnceCell<Bytes>,
}

/// How much somebody wants of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// Whether it is there, and what it is.
    Info,
    /// Its content.
    Content,
}

/// Whether a look may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Only what the kernel has in memory; [`OpenFailure::is_cold`] otherwise.
    None,
    /// It may, and small files are read from there.
    Disk,
}

/// Why a file could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFailure {
    /// The system call that failed, as nginx writes it: `open()`.
    pub call: &'static str,
    /// The error's number.
    pub errno: i32,
}

impl OpenFailure {
    pub(super) fn new(call: &'static str, error: &io::Error) -> Self {
        OpenFailure { call, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    /// Whether the path could not be looked up without waiting for the disk.
    pub fn is_cold(&self) -> bool {
        self.errno == libc::EAGAIN
    }

    /// Whether there is no file of this name.
    pub fn is_not_found(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)
    }

    /// Whether it may not be opened: its rights, or a symbolic link on the way.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.errno, libc::EACCES | libc::EMLINK | libc::ELOOP)
    }

    /// The status that a request for the file ends with.
    pub fn status(&self) -> u16 {
        match (self.is_not_found(), self.is_forbidden()) {
            (true, _) => 404,
            (_, true) => 403,
            _ => 500,
        }
    }

    /// Writes the failure to the error log as nginx does, unless it is a missing file and `log_not_found` is off.
    pub fn log(&self, req: &Request, path: &[u8]) {
        if self.is_not_found() && req.http_conf().log_not_found == Some(false) {
            return;
        }
        self.log_at(req, path, if self.status() == 500 { Level::Crit } else { Level::Error });
    }

    /// Writes the failure to the error log.
    pub fn log_at(&self, req: &Request, path: &[u8], level: Level) {
        let error = io::Error::from_raw_os_error(self.errno);
        req.log(level, format_args!("{} \"{}\" failed {}", self.call, BStr::new(path), SysError(&error)));
    }
}

impl OpenFile {
    fn new(info: FileInfo, file: Option<Arc<File>>) -> Self {
        let etag = format!("\"{:x}-{:x}\"", info.mtime, info.size).into_bytes().into();
        OpenFile { info, etag, file, content: OnceCell::new() }
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.info.kind == FileKind::File
    }
    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.info.kind == FileKind::Directory
    }
    /// The content, where it is in memory.
    pub fn content(&self) -> Option<&Bytes> {
        self.content.get()
    }
    /// The open file; only of regular files that were opened for their content.
    pub fn file(&self) -> Option<&Arc<File>> {
        self.file.as_ref()
    }
    /// The whole content as a piece of a body: in memory or in the file.
    pub fn body(&self) -> Buf {
        match (self.content.get(), &self.file) {
            (Some(content), _) => Buf::Bytes(content.clone()),
            (None, Some(file)) => Buf::File { file: file.clone(), offset: 0, len: self.info.size },
            (None, None) => Buf::Bytes(Bytes::new()),
        }
    }
    /// The same without its content.
    pub(super) fn without_content(&self) -> OpenFile {
        OpenFile { info: self.info, etag: self.etag.clone(), file: None, content: OnceCell::new() }
    }
    /// Bytes in memory.
    pub(super) fn content_bytes(&self) -> usize {
        self.content.get().map_or(0, Bytes::len)
    }
    /// Whether somebody who wants this much has it here.
    pub(super) fn has(&self, want: Want) -> bool {
        want == Want::Info || self.info.kind != FileKind::File || self.file.is_some() || self.content.get().is_some()
    }

    /// Looks at `path` without the cache.
    pub(super) fn look(path: &[u8], want: Want, patience: Patience) -> Result<OpenFile, OpenFailure> {
        if want == Want::Info {
            return info_of(path, patience).map(|info| OpenFile::new(info, None));
        }
        // Not to hang on a pipe that nobody writes to.
        let file = open(&c_path(path), libc::O_RDONLY | libc::O_NONBLOCK, patience)
            .map_err(|error| OpenFailure::new("open()", &error))?;
        OpenFile::of(file, patience)
    }

    /// Takes an open file over: reads it into memory if it is small and in the page cache, keeps it open otherwise.
    pub(super) fn of(file: File, patience: Patience) -> Result<OpenFile, OpenFailure> {
        let meta = file.metadata().map_err(|error| OpenFailure::new("fstat()", &error))?;
        let info = FileInfo::of(&meta);
        if info.kind != FileKind::File {
            return Ok(OpenFile::new(info, None));
        }
        if info.size <= CONTENT_BYTES_MAX
            && let Some(content) = read::content(&file, info.size, patience)
        {
            let small = OpenFile::new(info, None);
            let _ = small.content.set(content);
            return Ok(small);
        }
        Ok(OpenFile::new(info, Some(Arc::new(file))))
    }
}

/// The path for the system. As in nginx a NUL ends it, which only a rewritten URI can have: a request's own gets 400.
fn c_path(path: &[u8]) -> CString {
    let end = memchr::memchr(0, path).unwrap_or(path.len());
    CString::new(&path[..end]).unwrap_or_default()
}

fn stat(path: &CStr) -> Result<FileInfo, OpenFailure> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends in NUL, the structure is writable memory of its size.
    if unsafe { libc::stat(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(OpenFailure::new("stat()", &io::Error::last_os_error()));
    }
    // SAFETY: `stat` succeeded, so it filled the structure.
    let s = unsafe { stat.assume_init() };
    Ok(FileInfo::new(
        s.st_size,
        (s.st_mtime, s.st_mtime_nsec),
        (s.st_ctime, s.st_ctime_nsec),
        s.st_dev,
        s.st_ino,
        s.st_mode,
    ))
}

/// What `stat` says of a path now.
pub(super) fn info_of(path: &[u8], patience: Patience) -> Result<FileInfo, OpenFailure> {
    let path = c_path(path);
    if patience == Patience::Disk {
        return stat(&path);
    }
    let failure = |error: io::Error| OpenFailure::new("stat()", &error);
    let file = open(&path, libc::O_PATH, patience).map_err(failure)?;
    file.metadata().map(|meta| FileInfo::of(&meta)).map_err(failure)
}

/// Opens a file for reading if the kernel knows all parts of its path; `None` where that takes a look at the disk.
pub(crate) fn open_at_once(path: &Path) -> Option<io::Result<File>> {
    match open(&c_path(path.as_os_str().as_bytes()), libc::O_RDONLY | libc::O_NONBLOCK, Patience::None) {
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => None,
        opened => Some(opened),
    }
}

fn open(path: &CStr, flags: i32, patience: Patience) -> io::Result<File> {
    let flags = flags | libc::O_CLOEXEC;
    if patience == Patience::None
        && let Some(result) = open_cached(path, flags)
    {
        return result;
    }
    // SAFETY: the path ends in NUL and lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `open` has just returned it to us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Opens a path if the kernel knows all its parts, and fails with `EAGAIN` otherwise; `None` where the kernel (before
/// Linux 5.12) or a sandbox does not know the call.
///
/// Source: openat2(2), `RESOLVE_CACHED`.
fn open_cached(path: &CStr, flags: i32) -> Option<io::Result<File>> {
    static IS_KNOWN: AtomicBool = AtomicBool::new(true);
    if !IS_KNOWN.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the structure consists of integers, for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    (how.flags, how.resolve) = (flags as u64, libc::RESOLVE_CACHED);
    let size = size_of::<libc::open_how>();
    // SAFETY: the path ends in NUL, the structure has the size that is passed, and both live through the call.
    let fd = unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &how, size) };
    if let Ok(fd) = i32::try_from(fd)
        && fd >= 0
    {
        // SAFETY: the call has just returned it to us alone.
        return Some(Ok(unsafe { File::from_raw_fd(fd) }));
    }
    let error = io::Error::last_os_error();
    if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EPERM)) {
        IS_KNOWN.store(false, Ordering::Relaxed);
        return None;
    }
    Some(Err(error))
}

impl Request {
    /// Whether `disable_symlinks` applies, so that only [`open_file`](Self::open_file) knows what may be seen.
    pub fn checks_symlinks(&self) -> bool {
        !matches!(self.files_conf().disable_symlinks, None | Some(SYMLINKS_ALLOWED))
    }

    /// Opens a file, or finds it in the worker's cache. It may wait for the disk: handlers use [`look_up`](Self::look_up).
    ///
    /// # Errors
    /// The system call that failed. Nothing has been logged.
    pub fn open_file(&self, path: &[u8], want: Want) -> Result<Rc<OpenFile>, OpenFailure> {
        let conf = self.files_conf();
        match conf.disable_symlinks {
            None | Some(SYMLINKS_ALLOWED) => cache::open(conf, path, want, Patience::Disk),
            Some(policy) => {
                let from = conf.disable_symlinks_from.as_ref().map(|from| from.eval(self)).unwrap_or_default();
                nofollow::open(path, nofollow::trusted_len(path, &from), policy).map(Rc::new)
            }
        }
    }
}
