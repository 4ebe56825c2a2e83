//! `access_log`: lines that somebody else formats, written at once or in buffers.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::file::{LogFile, gzip};
use super::path::{OpenLogFileCache, PathFiles};
use super::writer::{self, Force};

/// Times its size that a buffer may grow while the writer is busy; what comes then is lost and counted.
const BUFFER_OVERFLOW_FACTOR: usize = 8;

/// `buffer=size flush=time gzip=level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes that are written together.
    pub size: usize,
    /// The longest that a line waits; without it, until the buffer is full.
    pub flush: Option<Duration>,
    /// Compression of each buffer, 1 to 9.
    pub gzip: Option<u32>,
}

/// One `access_log`, shared by the workers.
#[derive(Debug)]
pub struct AccessLog {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    AtOnce(Arc<LogFile>),
    Buffered { file: Arc<LogFile>, buffering: Buffering },
    Computed(Arc<PathFiles>),
}

thread_local! {
    /// This thread's buffers, found by the address of their log.
    static BUFFERS: RefCell<Vec<(usize, Arc<BufferLane>)>> = const { RefCell::new(Vec::new()) };
    /// Where lines are formatted.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl AccessLog {
    /// A log with a fixed destination.
    pub fn new(file: Arc<LogFile>, buffering: Option<Buffering>) -> Arc<Self> {
        let kind = match buffering {
            // Datagrams are not buffered, in nginx neither.
            Some(buffering) if !file.is_datagrams() => Kind::Buffered { file, buffering },
            _ => Kind::AtOnce(file),
        };
        Arc::new(Self { kind })
    }

    /// A log whose path is computed for each line; [`Self::write_to`] takes it.
    pub fn with_computed_path(cache: Option<OpenLogFileCache>) -> Arc<Self> {
        Arc::new(Self { kind: Kind::Computed(PathFiles::new(cache)) })
    }

    /// Whether lines need a path.
    pub fn has_computed_path(&self) -> bool {
        matches!(self.kind, Kind::Computed(_))
    }

    /// Writes the line that `format` appends; the newline is added.
    ///
    /// Does nothing for a log with a computed path.
    pub fn write(self: &Arc<Self>, format: impl FnOnce(&mut Vec<u8>)) {
        with_line(format, |line| match &self.kind {
            Kind::AtOnce(file) => file.submit(None, line),
            Kind::Buffered { file, buffering } => self.buffer(file, *buffering, line),
            Kind::Computed(_) => {}
        });
    }

    /// Writes the line that `format` appends to the file at `path`; the newline is added.
    pub fn write_to(self: &Arc<Self>, path: &[u8], format: impl FnOnce(&mut Vec<u8>)) {
        match &self.kind {
            Kind::Computed(files) => with_line(format, |line| writer::submit_to_path(files, path, line)),
            _ => self.write(format),
        }
    }

    fn buffer(self: &Arc<Self>, file: &Arc<LogFile>, buffering: Buffering, line: &[u8]) {
        if !writer::is_running() {
            file.submit(None, line);
            return;
        }
        let key = Arc::as_ptr(self) as usize;
        let buffered = BUFFERS.try_with(|buffers| {
            let mut buffers = buffers.borrow_mut();
            let lane = match buffers.iter().position(|(known, _)| *known == key) {
                Some(index) => &buffers[index].1,
                None => {
                    // Logs of configurations that are gone.
                    buffers.retain(|(_, lane)| lane.owner.strong_count() > 0);
                    let lane = BufferLane::new(Arc::downgrade(self), Arc::clone(file), buffering);
                    writer::add_buffer(Arc::clone(&lane));
                    buffers.push((key, lane));
                    &buffers[buffers.len() - 1].1
                }
            };
            lane.push(line);
        });
        if buffered.is_err() {
            file.submit(None, line);
        }
    }
}

/// Formats into the thread's scratch buffer. A formatter that logs in turn gets a buffer of its own.
fn with_line(format: impl FnOnce(&mut Vec<u8>), take: impl FnOnce(&[u8])) {
    /// A line of this length is an exception whose memory is not worth keeping.
    const SCRATCH_BYTES_KEPT: usize = 16 << 10;
    let mut line = SCRATCH.try_with(Cell::take).unwrap_or_default();
    line.clear();
    format(&mut line);
    line.push(b'\n');
    take(&line);
    line.shrink_to(SCRATCH_BYTES_KEPT);
    let _ = SCRATCH.try_with(|scratch| scratch.set(line));
}

/// One thread's buffer of one access log.
#[derive(Debug)]
pub(super) struct BufferLane {
    /// Keeps the address that the thread finds the buffer by from being used again.
    owner: Weak<AccessLog>,
    file: Arc<LogFile>,
    buffering: Buffering,
    state: Mutex<BufferState>,
}

#[derive(Debug, Default)]
struct BufferState {
    bytes: Vec<u8>,
    /// When the first line came.
    since: Option<Instant>,
    /// Bytes at the beginning that are complete buffers.
    full: usize,
}

impl BufferLane {
    fn new(owner: Weak<AccessLog>, file: Arc<LogFile>, buffering: Buffering) -> Arc<Self> {
        Arc::new(Self { owner, file, buffering, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let wake = {
            let mut state = self.state();
            let waiting = state.bytes.len();
            if waiting + line.len() > self.buffering.size.saturating_mul(BUFFER_OVERFLOW_FACTOR).max(line.len()) {
                self.file.count_lost(1);
                return;
            }
            let overflows = waiting > state.full && waiting - state.full + line.len() > self.buffering.size;
            if overflows {
                state.full = waiting;
            }
            state.bytes.extend_from_slice(line);
            let first = state.since.is_none();
            if first {
                state.since = Some(Instant::now());
            }
            overflows || (first && self.buffering.flush.is_some())
        };
        if wake {
            writer::wake();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().bytes.is_empty()
    }

    pub(super) fn file(&self) -> &LogFile {
        &self.file
    }

    /// Moves what is due into `out`; otherwise says when something will be.
    pub(super) fn take_due(&self, now: Instant, force: Force, out: &mut Vec<u8>) -> Result<(), Option<Instant>> {
        out.clear();
        let mut state = self.state();
        let Some(since) = state.since else { return Err(None) };
        let due = self.buffering.flush.map(|flush| since + flush);
        // A log that left the configuration is written out: nobody will fill its buffer.
        let all = force == Force::Yes || due.is_some_and(|due| due <= now) || self.owner.strong_count() == 0;
        if !all && state.full == 0 {
            return Err(due);
        }
        let size = if all { state.bytes.len() } else { state.full };
        out.extend_from_slice(&state.bytes[..size]);
        state.bytes.drain(..size);
        state.full = 0;
        state.since = if state.bytes.is_empty() { None } else { Some(now) };
        Ok(())
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.buffering.gzip {
            Some(level) => self.file.write_now(None, &gzip(bytes, level)?),
            None => self.file.write_now(None, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Destination;

    #[test]
    fn a_buffer_waits_until_full_due_or_forced() {
        let file = LogFile::register(Destination::File("/never/opened".into()));
        let flush = Some(Duration::from_secs(10));
        let buffering = Buffering { size: 10, flush, gzip: None };
        let owner = AccessLog::new(Arc::clone(&file), Some(buffering));
        let lane = BufferLane::new(Arc::downgrade(&owner), file, buffering);
        let mut out = Vec::new();
        let now = Instant::now();
        assert_eq!(lane.take_due(now, Force::No, &mut out), Err(None));
        lane.push(b"1234\n");
        lane.push(b"5678\n");
        assert!(matches!(lane.take_due(now, Force::No, &mut out), Err(Some(_))));
        lane.push(b"9\n");
        assert_eq!(lane.take_due(now, Force::No, &mut out), Ok(()));
        assert_eq!(out, b"1234\n5678\n");
        assert!(matches!(lane.take_due(now, Force::No, &mut out), Err(Some(_))));
        assert_eq!(lane.take_due(now + Duration::from_secs(11), Force::No, &mut out), Ok(()));
        assert_eq!(out, b"9\n");
        lane.push(b"x\n");
        assert_eq!(lane.take_due(now, Force::Yes, &mut out), Ok(()));
        lane.push(b"y\n");
        drop(owner);
        assert_eq!(lane.take_due(now, Force::No, &mut out), Ok(()));
        assert_eq!(out, b"y\n");
        assert!(lane.is_empty());
    }

    #[test]
    fn a_buffer_that_nobody_empties_loses_lines() {
        let file = LogFile::register(Destination::File("/never/opened/either".into()));
        let buffering = Buffering { size: 10, flush: None, gzip: None };
        let owner = AccessLog::new(Arc::clone(&file), Some(buffering));
        let lane = BufferLane::new(Arc::downgrade(&owner), Arc::clone(&file), buffering);
        for _ in 0..20 {
            lane.push(b"12345678\n");
        }
        assert_eq!(file.take_lost(), 12);
    }
}
