//! `error_log`, and the line that everybody greps.
//!
//! ```text
//! 2026/11/20 09:30:00 [error] 4711#4712: *17 message, client: 127.0.0.1, server: localhost, request: "GET / HTTP/1.1", …
//! └ local time         └ level  └ pid#tid └ connection └ context of the request; not at level debug
//! ```

use std::cell::Cell;
use std::fmt::{self, Write};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::file::{LogFile, write_all};
use super::{Level, capture, writer};
use crate::clock;

/// Longest line. nginx cuts at 2 KiB, which loses the end of stack traces; a bound there must be, since clients choose
/// parts of it.
const LINE_BYTES_MAX: usize = 32 << 10;

/// Bytes that the context may take beyond [`LINE_BYTES_MAX`], so that a long message does not hide who sent it.
const CONTEXT_BYTES_MAX: usize = 8 << 10;

/// Where errors go, by level: the `error_log` directives of one configuration level.
#[derive(Debug, Default)]
pub struct ErrorLog {
    targets: Vec<(Level, Arc<LogFile>)>,
    /// The most talkative level of all targets.
    most: Option<Level>,
}

/// A log line under construction. Text is appended with `write!`, bytes with [`Self::push_bytes`].
#[derive(Debug)]
pub struct Line<'a> {
    bytes: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl Line<'_> {
    /// Appends bytes as they are; what exceeds the longest line is left out.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let room = self.bytes_max.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_bytes(text.as_bytes());
        Ok(())
    }
}

thread_local! {
    /// Process and thread number; 0 when not known yet.
    static IDS: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Called in a new process: its numbers differ from those of its parent.
pub(super) fn forget_process_id() {
    IDS.set((0, 0));
}

fn ids() -> (u32, i32) {
    let known = IDS.try_with(Cell::get).unwrap_or_default();
    if known.0 != 0 {
        return known;
    }
    // SAFETY: gettid takes nothing and cannot fail.
    let ids = (std::process::id(), unsafe { libc::gettid() });
    let _ = IDS.try_with(|cell| cell.set(ids));
    ids
}

/// Some log of the process was made to write everything.
static ANY_DEBUG: AtomicBool = AtomicBool::new(false);

/// Whether any log writes lines of the debug level: for places where asking the log itself would cost too much.
pub fn any_debug() -> bool {
    ANY_DEBUG.load(Ordering::Relaxed)
}

impl ErrorLog {
    /// A log that writes to each target what is as bad as its level.
    pub fn new(targets: Vec<(Level, Arc<LogFile>)>) -> Self {
        let most = targets.iter().map(|(level, _)| *level).max();
        if most == Some(Level::Debug) {
            ANY_DEBUG.store(true, Ordering::Relaxed);
        }
        Self { targets, most }
    }

    /// Whether a line of this level goes anywhere; nothing is worth formatting otherwise.
    pub fn enabled(&self, level: Level) -> bool {
        self.most.is_some_and(|most| level <= most)
    }

    /// The most talkative level that is written; nothing when there is no target.
    pub fn level(&self) -> Option<Level> {
        self.most
    }

    /// Whether one of the targets is a file or the standard error. Without one the process adds a file.
    pub fn has_file(&self) -> bool {
        self.targets.iter().any(|(_, target)| target.path().is_some() || target.is_stderr())
    }

    /// The targets with their levels.
    pub fn targets(&self) -> &[(Level, Arc<LogFile>)] {
        &self.targets
    }

    /// The file that the standard error of a daemon follows: the first target that is a file.
    pub fn file(&self) -> Option<&Arc<LogFile>> {
        self.targets.iter().map(|(_, file)| file).find(|file| file.path().is_some())
    }

    /// Writes one line: time, level, process, connection `conn`, `message`, then what `context` appends.
    ///
    /// The context (`, client: …, server: …`) is left out at [`Level::Debug`], as nginx does.
    pub fn write(&self, level: Level, conn: Option<u64>, message: impl fmt::Display, context: impl FnOnce(&mut Line)) {
        let message = |line: &mut Line| {
            // `Line` takes everything, so only a broken `Display` can fail; its line ends where it broke.
            let _ = write!(line, "{message}");
        };
        self.write_with(level, conn, message, context);
    }

    /// As [`Self::write`], for a message of bytes.
    pub fn write_bytes(&self, level: Level, conn: Option<u64>, message: &[u8], context: impl FnOnce(&mut Line)) {
        self.write_with(level, conn, |line| line.push_bytes(message), context);
    }

    fn write_with(
        &self,
        level: Level,
        conn: Option<u64>,
        message: impl FnOnce(&mut Line),
        context: impl FnOnce(&mut Line),
    ) {
        if !self.enabled(level) {
            return;
        }
        // A formatter that logs in turn gets a buffer of its own.
        let mut bytes = SCRATCH.try_with(Cell::take).unwrap_or_default();
        bytes.clear();
        let message_at = begin(&mut bytes, level, conn);
        message(&mut Line { bytes: &mut bytes, bytes_max: LINE_BYTES_MAX });
        if level != Level::Debug {
            context(&mut Line { bytes: &mut bytes, bytes_max: LINE_BYTES_MAX + CONTEXT_BYTES_MAX });
        }
        capture::offer(level, &bytes);
        bytes.push(b'\n');
        self.emit(level, &bytes, message_at);
        bytes.shrink_to(LINE_BYTES_MAX / 8);
        let _ = SCRATCH.try_with(|scratch| scratch.set(bytes));
    }

    fn emit(&self, level: Level, line: &[u8], message_at: usize) {
        let mut wrote_stderr = false;
        for (most, file) in &self.targets {
            if level <= *most {
                wrote_stderr |= file.is_stderr();
                file.submit(Some(level), line);
            }
        }
        if level == Level::Emerg {
            // Whoever writes this is about to end the process.
            writer::flush();
        }
        if level <= Level::Warn && !wrote_stderr && ECHO.load(Ordering::Relaxed) {
            echo(level, &line[message_at..]);
        }
    }
}

/// Appends time, level, process and connection. Returns where the message begins.
fn begin(bytes: &mut Vec<u8>, level: Level, conn: Option<u64>) -> usize {
    bytes.extend_from_slice(&clock::error_log_time());
    bytes.extend_from_slice(b" [");
    bytes.extend_from_slice(level.name().as_bytes());
    bytes.extend_from_slice(b"] ");
    let (pid, tid) = ids();
    let mut digits = itoa::Buffer::new();
    bytes.extend_from_slice(digits.format(pid).as_bytes());
    bytes.push(b'#');
    bytes.extend_from_slice(digits.format(tid).as_bytes());
    bytes.extend_from_slice(b": ");
    if let Some(conn) = conn {
        bytes.push(b'*');
        bytes.extend_from_slice(digits.format(conn).as_bytes());
        bytes.push(b' ');
    }
    bytes.len()
}

static ECHO: AtomicBool = AtomicBool::new(false);
static ECHO_NAME: OnceLock<String> = OnceLock::new();

/// Repeats warnings and worse on the standard error as `NAME: [level] message`, or stops it with `None`.
///
/// On while a person watches: at start-up, and for commands such as `-t`. The first name stays.
pub fn echo_to_stderr(name: Option<&str>) {
    if let Some(name) = name {
        ECHO_NAME.get_or_init(|| name.to_owned());
    }
    ECHO.store(name.is_some(), Ordering::Relaxed);
}

#[cold]
fn echo(level: Level, message: &[u8]) {
    let name = ECHO_NAME.get().map_or("tidegate", String::as_str);
    let mut text = Vec::with_capacity(message.len() + 32);
    let _ = write!(text, "{name}: [{level}] ");
    text.extend_from_slice(message);
    // Nobody to tell if the standard error is gone.
    let _ = write_all(io::stderr().as_fd(), &text);
}

static MAIN: RwLock<Option<Arc<ErrorLog>>> = RwLock::new(None);

/// The error log of the process: what the `error_log` outside of all blocks says.
pub fn main() -> Arc<ErrorLog> {
    let main = MAIN.read().unwrap_or_else(PoisonError::into_inner);
    main.as_ref().map(Arc::clone).unwrap_or_default()
}

/// Replaces the error log of the process.
pub fn set_main(log: Arc<ErrorLog>) {
    *MAIN.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Writes a line without connection or request to the error log of the process.
///
/// Reads the clock first: most callers run on threads without an event loop.
pub fn note(level: Level, message: fmt::Arguments<'_>) {
    clock::update();
    main().write(level, None, message, |_| ());
}

/// As [`note`], but for targets that are syslog servers: what tells of a line that one of them did not get would not get there either.
pub(super) fn note_in_files(level: Level, message: fmt::Arguments<'_>) {
    clock::update();
    let targets = main().targets.iter().filter(|(_, target)| target.syslog_server().is_none()).cloned().collect();
    ErrorLog::new(targets).write(level, None, message, |_| ());
}

/// Shows a system error as nginx does: `(98: Address already in use)`.
pub struct SysError<'a>(pub &'a io::Error);

impl fmt::Display for SysError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        match self.0.raw_os_error() {
            Some(code) => {
                let suffix = format!(" (os error {code})");
                write!(f, "({code}: {})", text.strip_suffix(&suffix).unwrap_or(&text))
            }
            None => write!(f, "({text})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Destination, open_registered};

    struct TempLog(std::path::PathBuf);

    impl TempLog {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("tidegate-{name}-{}.log", std::process::id())))
        }

        fn open(&self) -> Arc<LogFile> {
            let file = LogFile::register(Destination::File(self.0.clone()));
            open_registered().expect("opened");
            file
        }

        fn text(&self) -> String {
            std::fs::read_to_string(&self.0).expect("readable")
        }
    }

    impl Drop for TempLog {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn lines_look_like_those_of_nginx() {
        let temp = TempLog::new("error");
        let log = ErrorLog::new(vec![(Level::Debug, temp.open())]);
        let pid = std::process::id();
        log.write(Level::Error, Some(17), format_args!("open() failed"), |line| {
            line.push_bytes(b", client: 127.0.0.1");
        });
        log.write_bytes(Level::Debug, None, b"bytes \xff", |line| line.push_bytes(b", never"));
        writer::flush();
        let bytes = std::fs::read(&temp.0).expect("readable");
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains(&format!(" [error] {pid}#")), "{text}");
        assert!(lines[0].ends_with(": *17 open() failed, client: 127.0.0.1"), "{text}");
        assert!(lines[1].ends_with(": bytes \u{fffd}"), "{text}");
    }

    #[test]
    fn levels_choose_the_targets() {
        let (quiet, loud) = (TempLog::new("quiet"), TempLog::new("loud"));
        let log = ErrorLog::new(vec![(Level::Error, quiet.open()), (Level::Info, loud.open())]);
        assert!(log.enabled(Level::Info) && !log.enabled(Level::Debug));
        log.write(Level::Info, None, "info", |_| ());
        log.write(Level::Crit, None, "crit", |_| ());
        log.write(Level::Debug, None, "debug", |_| ());
        writer::flush();
        assert_eq!(quiet.text().lines().count(), 1);
        assert_eq!(loud.text().lines().count(), 2);
    }

    #[test]
    fn long_messages_are_cut_and_keep_their_context() {
        let temp = TempLog::new("long");
        let log = ErrorLog::new(vec![(Level::Error, temp.open())]);
        log.write(Level::Error, None, "x".repeat(2 * LINE_BYTES_MAX), |line| line.push_bytes(b", client: me"));
        writer::flush();
        let text = temp.text();
        assert!(text.len() < LINE_BYTES_MAX + 100 && text.ends_with(", client: me\n"));
    }

    #[test]
    fn system_errors_show_number_and_text() {
        let error = io::Error::from_raw_os_error(libc::EADDRINUSE);
        assert_eq!(SysError(&error).to_string(), "(98: Address already in use)");
    }
}
