//! A destination of log lines, and the file behind it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::error::SysError;
use super::syslog::{Sender, Server, SyslogTarget};
use super::{Level, registry, writer};

/// The places that lines can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file, appended to.
    File(PathBuf),
    /// A file of secrets, appended to: others may not read it.
    Secret(PathBuf),
    /// The standard error of the process.
    Stderr,
    /// A syslog server.
    Syslog(SyslogTarget),
    /// This many bytes of memory, written over from the start when full.
    Memory(u64),
}

/// Why a destination in the configuration is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadDestination(pub String);

/// Why a log file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("open() \"{}\" failed {}", path.display(), SysError(source))]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

impl Destination {
    /// Parses the first argument of `error_log` or `access_log`; a relative file is taken from `prefix`.
    ///
    /// # Errors
    /// [`BadDestination`] for a malformed `syslog:` target.
    pub fn parse(text: &str, prefix: &Path) -> Result<Self, BadDestination> {
        if text == "stderr" {
            return Ok(Self::Stderr);
        }
        if let Some(parameters) = text.strip_prefix("syslog:") {
            return SyslogTarget::parse(parameters).map(Self::Syslog).map_err(BadDestination);
        }
        // `join` keeps an absolute path as it is.
        Ok(Self::File(prefix.join(text)))
    }

    /// As [`parse`](Self::parse), for `error_log`, which also takes `memory:SIZE`.
    ///
    /// # Errors
    /// [`BadDestination`] for a malformed `syslog:` target, or a size that is none or too small.
    pub fn parse_error_log(text: &str, prefix: &Path) -> Result<Self, BadDestination> {
        let Some(size) = text.strip_prefix("memory:") else { return Self::parse(text, prefix) };
        match tidegate_conf::values::size(size.into()) {
            Ok(bytes) if bytes >= MEMORY_BYTES_MIN => Ok(Self::Memory(bytes)),
            _ => Err(BadDestination(format!("invalid buffer size \"{size}\""))),
        }
    }
}

/// A destination, shared by everything in the configuration that names it.
///
/// A file opens once ([`registry::open_registered`], after the configuration was read, so that a bad configuration
/// creates no files) and keeps its descriptor number for life: reopening puts the new file under the old number.
#[derive(Debug)]
pub struct LogFile {
    sink: Sink,
    /// Lines that found no room or could not be written, since the last report.
    lost: AtomicU64,
}

#[derive(Debug)]
enum Sink {
    File { path: PathBuf, fd: OnceLock<OwnedFd>, is_secret: bool },
    Stderr,
    Syslog(Box<Sender>),
    Memory(MemoryRing),
}

/// Smallest ring of `error_log memory:`: room for one line of usual length.
const MEMORY_BYTES_MIN: u64 = 4096;

/// The newest lines, in a file that has no name on any disk: `/proc/PID/fd/N` shows it, under the name
/// `memfd:error_log`. Where the ring is written over, an old line is cut.
#[derive(Debug)]
struct MemoryRing {
    size: u64,
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    file: Option<File>,
    at: u64,
    /// Whose the file is: after a fork each process has its own.
    process: u32,
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a constant that ends with a zero byte.
    let fd = unsafe { libc::memfd_create(c"error_log".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above and belongs to nobody else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

impl MemoryRing {
    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if state.process != process {
            *state = MemoryState { file: Some(memory_file()?), at: 0, process };
        }
        let mut at = state.at;
        let Some(file) = &state.file else { return Ok(()) };
        while !bytes.is_empty() {
            let room = usize::try_from(self.size - at).unwrap_or(usize::MAX);
            let (piece, rest) = bytes.split_at(bytes.len().min(room));
            file.write_all_at(piece, at)?;
            at = (at + piece.len() as u64) % self.size;
            bytes = rest;
        }
        state.at = at;
        Ok(())
    }
}

impl LogFile {
    /// The destination's one object; creates it, unopened, when nobody named it before.
    pub fn register(destination: Destination) -> Arc<Self> {
        registry::register(destination)
    }

    pub(super) fn new(destination: Destination) -> Self {
        let sink = match destination {
            Destination::File(path) => Sink::File { path, fd: OnceLock::new(), is_secret: false },
            Destination::Secret(path) => Sink::File { path, fd: OnceLock::new(), is_secret: true },
            Destination::Stderr => Sink::Stderr,
            Destination::Syslog(target) => Sink::Syslog(Box::new(Sender::new(target))),
            Destination::Memory(size) => Sink::Memory(MemoryRing { size, state: Mutex::default() }),
        };
        Self { sink, lost: AtomicU64::new(0) }
    }

    /// Whether this is the destination.
    pub(super) fn is(&self, destination: &Destination) -> bool {
        match (&self.sink, destination) {
            (Sink::File { path, is_secret, .. }, Destination::File(other)) => path == other && !is_secret,
            (Sink::File { path, is_secret, .. }, Destination::Secret(other)) => path == other && *is_secret,
            (Sink::Stderr, Destination::Stderr) => true,
            (Sink::Syslog(sender), Destination::Syslog(target)) => sender.target() == target,
            _ => false,
        }
    }

    /// The file's path; nothing for other destinations.
    pub fn path(&self) -> Option<&Path> {
        match &self.sink {
            Sink::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether lines go to the standard error.
    pub fn is_stderr(&self) -> bool {
        matches!(self.sink, Sink::Stderr)
    }

    /// The syslog server that lines go to, if they go to one.
    pub(super) fn syslog_server(&self) -> Option<&Server> {
        match &self.sink {
            Sink::Syslog(sender) => Some(sender.target().server()),
            _ => None,
        }
    }

    /// Whether each line must stay apart from the next, because each is a datagram.
    pub(super) fn is_datagrams(&self) -> bool {
        matches!(self.sink, Sink::Syslog(_))
    }

    /// The open file.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.sink {
            Sink::File { fd, .. } => fd.get().map(AsFd::as_fd),
            _ => None,
        }
    }

    /// Opens the file unless it is open.
    ///
    /// # Errors
    /// [`OpenError`] in nginx's words.
    pub fn open(&self) -> Result<(), OpenError> {
        let Sink::File { path, fd, is_secret } = &self.sink else { return Ok(()) };
        if fd.get().is_none() {
            let opened = match registry::take_provided(path) {
                Some(provided) => provided,
                None => open_append(path, *is_secret)?,
            };
            // Whoever was faster opened the same file.
            let _ = fd.set(opened);
        }
        Ok(())
    }

    /// Puts a newly opened file of the same path, or `replacement`, under the descriptor.
    ///
    /// # Errors
    /// [`OpenError`]; the old file stays in use.
    pub(super) fn reopen(&self, replacement: Option<OwnedFd>) -> Result<(), OpenError> {
        let Sink::File { path, fd, is_secret } = &self.sink else { return Ok(()) };
        let Some(current) = fd.get() else { return Ok(()) };
        let fresh = match replacement {
            Some(fd) => fd,
            None => open_append(path, *is_secret)?,
        };
        // SAFETY: both descriptors are open and owned; the number of `current` stays valid and owned by it.
        if unsafe { libc::dup3(fresh.as_raw_fd(), current.as_raw_fd(), libc::O_CLOEXEC) } < 0 {
            return Err(OpenError { path: path.clone(), source: io::Error::last_os_error() });
        }
        Ok(())
    }

    /// Hands over one line, newline included. `level` is the severity of a syslog datagram.
    pub(super) fn submit(self: &Arc<Self>, level: Option<Level>, line: &[u8]) {
        writer::submit(self, level, line);
    }

    /// Writes now, on this thread; counts what cannot be written.
    pub(super) fn write_now(&self, level: Option<Level>, bytes: &[u8]) -> io::Result<()> {
        let result = match &self.sink {
            // A file that is not open yet belongs to a configuration that is not in force yet.
            Sink::File { fd, .. } => fd.get().map_or(Ok(()), |fd| write_all(fd.as_fd(), bytes)),
            Sink::Stderr => write_all(io::stderr().as_fd(), bytes),
            Sink::Syslog(sender) => sender.send(level, bytes),
            Sink::Memory(ring) => ring.write(bytes),
        };
        if result.is_err() {
            self.count_lost(1);
        }
        result
    }

    pub(super) fn count_lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Takes the number of lines lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        match self.lost.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.lost.swap(0, Ordering::Relaxed),
        }
    }
}

impl std::fmt::Display for LogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.sink {
            Sink::File { path, .. } => write!(f, "{}", path.display()),
            Sink::Stderr => f.write_str("stderr"),
            Sink::Syslog(_) => f.write_str("syslog"),
            Sink::Memory(_) => f.write_str("memory"),
        }
    }
}

/// Opens a log file as nginx does: appending, created with mode 0644; a secret one is its owner's.
pub(super) fn open_append(path: &Path, is_secret: bool) -> Result<OwnedFd, OpenError> {
    let mode = if is_secret { 0o600 } else { 0o644 };
    let opened = OpenOptions::new().append(true).create(true).mode(mode).open(path);
    opened.map(OwnedFd::from).map_err(|source| OpenError { path: path.to_owned(), source })
}

/// Writes to a descriptor that the caller keeps open.
pub(super) fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the descriptor is open for as long as it is borrowed; pointer and length describe one live slice.
        let written = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// Compresses `bytes` into one gzip member, as `access_log … gzip` wants each buffer.
pub(super) fn gzip(bytes: &[u8], level: u32) -> io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_full_ring_begins_anew() {
        let ring = MemoryRing { size: 8, state: Mutex::default() };
        for line in ["one\n", "two\n", "six\n"] {
            ring.write(line.as_bytes()).expect("there is memory");
        }
        let mut text = String::new();
        let state = ring.state.lock().expect("nobody panicked");
        state.file.as_ref().expect("it was written").read_to_string(&mut text).expect("readable");
        // Writing by offset leaves the position at the beginning.
        assert_eq!(text, "six\ntwo\n");
    }

    #[test]
    fn destinations() {
        let parse = |text: &str| Destination::parse_error_log(text, Path::new("/p")).map_err(|error| error.0);
        assert_eq!(parse("memory:1m"), Ok(Destination::Memory(1 << 20)));
        for text in ["memory:", "memory:x", "memory:10"] {
            let expected = format!("invalid buffer size \"{}\"", &text[7..]);
            assert_eq!(parse(text), Err(expected));
        }
        assert_eq!(parse("logs/x"), Ok(Destination::File("/p/logs/x".into())));
        assert_eq!(parse("stderr"), Ok(Destination::Stderr));
    }
}
