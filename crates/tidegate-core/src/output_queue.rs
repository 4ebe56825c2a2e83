//! What waits to be written to a client.
//!
//! Heads and small bodies are collected in one buffer and leave in one write; large pieces and files are queued behind
//! it without a copy.

use std::{
    cell::RefCell,
    collections::VecDeque,
    fs::File,
    future::Future as _,
    io::IoSlice,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use tokio::task::JoinHandle;

use crate::{
    limit_rate::Throttle,
    output::Buf,
    spill::{OUTPUT_MEMORY_BYTES_MAX, Spill, SpillError, Spilled},
    static_files::read,
    stream::Stream,
};

/// Pieces longer than this are queued instead of copied behind the others.
pub(crate) const COPY_BYTES_MAX: usize = 4096;

/// Bytes of files that one connection is sent before others have their turn.
///
/// Source: nginx, `sendfile_max_chunk`.
const TURN_BYTES_MAX: u64 = 2 << 20;

/// Capacity of the buffer that stays when all of it has been sent.
const BUF_KEPT_BYTES_MAX: usize = 64 << 10;

/// Slices that one `writev` takes.
const SLICES_MAX: usize = 16;

/// Bytes that come together for one write where parts of files are short.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Bytes ahead of those, which are never sent.
///
/// The kernel copies a page of a file at a sixth of its speed, on AMD's processors, to where it lies up to 31 bytes further in its page of memory. It
/// would there: behind the heads of frames, which have nine bytes each.
const GATHERED_GAP_BYTES: usize = 64;

thread_local! {
    /// Where they come together.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

enum Segment {
    Bytes(Bytes),
    File { file: Arc<File>, offset: u64, len: u64 },
}

/// What waits to be written to a connection, in order: the queue, then the buffer.
#[derive(Default)]
pub(crate) struct OutputQueue {
    queue: VecDeque<Segment>,
    pub(crate) buf: Vec<u8>,
    queued: u64,
    /// Bytes that have left the queue.
    gone: u64,
    /// How many of these bytes are in files.
    queued_in_files: u64,
    /// Where output goes that may not stay in memory.
    spill: Option<Box<Spill>>,
    /// Somebody wants everything so far to be sent now.
    pub(crate) flush: bool,
    /// Bytes of files after which other connections have their turn; `None` for [`TURN_BYTES_MAX`], 0 for any number.
    pub(crate) turn_bytes_max: Option<u64>,
    /// So many have been sent: there may be room for more, in the next turn.
    turn_ended: bool,
    /// `tcp_nopush`: the head of a file leaves in one packet with its beginning. That saves a packet. Without it, a
    /// client that is close by reads the head while the file is on its way, and takes part of the work off us.
    pub(crate) nopush: bool,
    /// Files come in short parts with other bytes between them, as frames have them: a few of them are read and written together,
    /// which costs less than a `sendfile` for each.
    pub(crate) gathers: bool,
    disk: Disk,
    /// How fast it may be emptied; `None` for any speed.
    throttle: Option<Throttle>,
}

/// Where the next bytes of a file are.
#[derive(Default)]
enum Disk {
    /// To be found out before they are sent.
    #[default]
    Unknown,
    /// On disk; another thread reads them into the page cache.
    Reading(JoinHandle<()>),
    /// In the page cache, where they were read into a moment ago.
    Read,
}

impl OutputQueue {
    pub(crate) fn len(&self) -> u64 {
        self.queued + self.buf.len() as u64
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.buf.is_empty()
    }
    fn push(&mut self, segment: Segment) {
        if !self.buf.is_empty() {
            let buf = std::mem::take(&mut self.buf);
            self.queued += buf.len() as u64;
            self.queue.push_back(Segment::Bytes(buf.into()));
        }
        self.queued += match &segment {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::File { len, .. } => {
                self.queued_in_files += *len;
                *len
            }
        };
        self.queue.push_back(segment);
    }
    pub(crate) fn push_buf(&mut self, buf: Buf) {
        match buf {
            Buf::Bytes(bytes) if bytes.len() <= COPY_BYTES_MAX => self.buf.extend_from_slice(&bytes),
            Buf::Bytes(bytes) => self.push(Segment::Bytes(bytes)),
            Buf::File { file, offset, len } if len > 0 => self.push(Segment::File { file, offset, len }),
            Buf::File { .. } => {}
        }
    }
    /// Bytes that it was ever given.
    pub(crate) fn taken(&self) -> u64 {
        self.gone + self.len()
    }
    /// Bytes that are kept in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.len() - self.queued_in_files
    }
    /// Whether so many more bytes may be kept in memory, as far as this queue goes; see [`crate::client::Client::has_room`].
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.memory_bytes() + bytes <= OUTPUT_MEMORY_BYTES_MAX
    }
    /// Puts bytes that may not stay in memory into a file below `directory`; gives its path when that is a new one.
    ///
    /// # Errors
    /// See [`SpillError`].
    pub(crate) fn spill(&mut self, directory: &Path, piece: &[u8]) -> Result<Option<PathBuf>, SpillError> {
        let Spilled { buf, created } = Spill::append(&mut self.spill, directory, piece, self.queued_in_files)?;
        self.push_buf(buf);
        Ok(created)
    }
    /// Limits how fast it may be emptied, from now on.
    pub(crate) fn set_throttle(&mut self, throttle: Option<Throttle>) {
        self.throttle = throttle;
    }
    /// How fast it may be emptied.
    pub(crate) fn throttle(&self) -> Option<Throttle> {
        self.throttle
    }
    /// Bytes that have left it.
    pub(crate) fn sent(&self) -> u64 {
        self.gone
    }
    /// Takes note of bytes that went past it.
    pub(crate) fn count_sent(&mut self, count: u64) {
        self.gone += count;
    }
    /// How many bytes may be written now.
    pub(crate) fn room(&self) -> u64 {
        self.throttle.map_or(u64::MAX, |throttle| throttle.room(self.gone))
    }
    /// How long to wait until something may be written; `None` when it may be now.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let throttle = self.throttle?;
        (throttle.room(self.gone) == 0).then(|| throttle.pause(self.gone))
    }
    /// Whether no files and no large pieces wait.
    pub(crate) fn is_small(&self) -> bool {
        self.queue.is_empty()
    }
    /// Whether all that waits can be written at once.
    pub(crate) fn is_one_write(&self) -> bool {
        self.is_small() && self.room() >= self.len()
    }
    /// Whether writing stopped because others should have their turn, not because the socket is full.
    pub(crate) fn take_turn_end(&mut self) -> bool {
        std::mem::take(&mut self.turn_ended)
    }
    /// Whether writing stopped because the disk has the next bytes.
    pub(crate) fn is_reading(&self) -> bool {
        matches!(self.disk, Disk::Reading(_))
    }
    /// Waits for them.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Disk::Reading(task) = &mut self.disk {
            // Whatever became of it, sending tells.
            let _ = ready!(Pin::new(task).poll(cx));
            self.disk = Disk::Read;
        }
        Poll::Ready(())
    }
    /// Whether the bytes of the file that come next can be sent without waiting for the disk; begins to read them otherwise.
    fn is_in_memory(&mut self, len_max: u64) -> bool {
        match (&self.disk, self.queue.front()) {
            (Disk::Unknown, Some(Segment::File { file, offset, len })) => {
                let Some(task) = read::fetch(file, *offset, len_max.min(*len)) else { return true };
                self.disk = Disk::Reading(task);
                false
            }
            (Disk::Reading(_), _) => false,
            _ => {
                self.disk = Disk::Unknown;
                true
            }
        }
    }
    /// Writes until everything is gone, the socket is full, the turn is over or the disk has to be waited for; answers
    /// whether everything is gone.
    pub(crate) fn write_to(&mut self, stream: &Stream) -> std::io::Result<bool> {
        let turn_bytes_max = match self.turn_bytes_max {
            None => TURN_BYTES_MAX,
            Some(0) => u64::MAX,
            Some(bytes) => bytes,
        };
        let mut turn_bytes = 0;
        loop {
            if self.is_empty() {
                match stream.try_flush() {
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
                self.flush = false;
                // Room on disk is given back with the last byte, not with the connection.
                self.spill = None;
                return Ok(true);
            }
            let room = self.room();
            if room == 0 {
                return Ok(false);
            }
            if turn_bytes >= turn_bytes_max {
                self.turn_ended = true;
                return Ok(false);
            }
            let Some(written) = self.write_front(stream, room, turn_bytes_max) else { return Ok(false) };
            match written {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    let in_files = self.queued_in_files;
                    self.consume(count);
                    turn_bytes += in_files - self.queued_in_files;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    /// Writes what comes first, as much as is worth a call; `None` when the disk has to be waited for.
    fn write_front(&mut self, stream: &Stream, room: u64, turn_bytes_max: u64) -> Option<std::io::Result<usize>> {
        if let Some(written) = self.write_gathered(stream, room) {
            return Some(written);
        }
        let is_file = matches!(self.queue.front(), Some(Segment::File { .. }));
        if is_file && !self.is_in_memory(room.min(turn_bytes_max)) {
            return None;
        }
        Some(match self.queue.front() {
            None => stream.try_write(within(&self.buf, room)),
            Some(Segment::File { file, offset, len }) => {
                stream.try_sendfile(file, *offset, room.min(*len).min(turn_bytes_max))
            }
            Some(Segment::Bytes(bytes)) if room < self.len() => stream.try_write(within(bytes, room)),
            Some(Segment::Bytes(bytes)) if matches!(self.queue.get(1), Some(Segment::File { .. })) => {
                if self.nopush {
                    stream.try_write_more(bytes)
                } else {
                    stream.try_write(bytes)
                }
            }
            Some(Segment::Bytes(_)) => {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = self.slices(&mut slices);
                stream.try_write_vectored(&slices[..count])
            }
        })
    }
    /// Writes parts of files and what is between them in one go; `None` where there are none, or the first is not in memory.
    fn write_gathered(&mut self, stream: &Stream, room: u64) -> Option<std::io::Result<usize>> {
        if !self.gathers || self.queued_in_files == 0 || self.is_reading() {
            return None;
        }
        let bytes_max = usize::try_from(room).unwrap_or(usize::MAX).min(GATHERED_BYTES_MAX);
        GATHERED.with_borrow_mut(|gathered| {
            gathered.clear();
            gathered.resize(GATHERED_GAP_BYTES, 0);
            for segment in &self.queue {
                let room = bytes_max + GATHERED_GAP_BYTES - gathered.len();
                match segment {
                    _ if room == 0 => break,
                    Segment::Bytes(bytes) => gathered.extend_from_slice(&bytes[..bytes.len().min(room)]),
                    Segment::File { file, offset, len } => {
                        let (end, part) = (gathered.len(), room.min(usize::try_from(*len).unwrap_or(usize::MAX)));
                        // Whoever cannot have it from memory waits for the disk, or learns of the error, once it is the first.
                        let read = read::append_cached(file, *offset, part, gathered);
                        if read.is_err() || gathered.len() < end + part {
                            break;
                        }
                    }
                }
            }
            let gathered = &gathered[GATHERED_GAP_BYTES..];
            if gathered.is_empty() {
                return None;
            }
            self.disk = Disk::Unknown;
            Some(stream.try_write(gathered))
        })
    }
    /// Moves the first `count` bytes to the end of `other`.
    pub(crate) fn move_to(&mut self, other: &mut OutputQueue, count: u64) {
        if self.queue.is_empty() && count < self.buf.len() as u64 {
            // Its pieces are shared from now on, instead of moving what is left again and again.
            let buf = std::mem::take(&mut self.buf);
            self.queued += buf.len() as u64;
            self.queue.push_back(Segment::Bytes(buf.into()));
        }
        let mut left = count;
        while left > 0 {
            let part = match self.queue.front() {
                None => {
                    other.buf.extend_from_slice(&self.buf[..left as usize]);
                    left
                }
                Some(Segment::Bytes(bytes)) => {
                    let part = left.min(bytes.len() as u64);
                    other.push_buf(Buf::Bytes(bytes.slice(..part as usize)));
                    part
                }
                Some(Segment::File { file, offset, len }) => {
                    let part = left.min(*len);
                    other.push_buf(Buf::File { file: file.clone(), offset: *offset, len: part });
                    part
                }
            };
            self.consume(part as usize);
            left -= part;
        }
        if self.is_empty() {
            self.spill = None;
        }
    }
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut count = 0;
        for segment in self.queue.iter().take(SLICES_MAX - 1) {
            match segment {
                Segment::Bytes(bytes) => slices[count] = IoSlice::new(bytes),
                Segment::File { .. } => return count,
            }
            count += 1;
        }
        if count == self.queue.len() && !self.buf.is_empty() {
            slices[count] = IoSlice::new(&self.buf);
            count += 1;
        }
        count
    }
    fn consume(&mut self, mut count: usize) {
        self.gone += count as u64;
        while count > 0 {
            match self.queue.front_mut() {
                None => {
                    // Only the buffer is left. Keep its capacity unless one large response made it grow.
                    if count == self.buf.len() && self.buf.capacity() > BUF_KEPT_BYTES_MAX {
                        self.buf = Vec::new();
                    } else if count == self.buf.len() {
                        self.buf.clear();
                    } else {
                        self.buf.drain(..count);
                    }
                    return;
                }
                Some(Segment::Bytes(bytes)) => {
                    let part = count.min(bytes.len());
                    bytes.advance(part);
                    count -= part;
                    self.queued -= part as u64;
                    if bytes.is_empty() {
                        self.queue.pop_front();
                    }
                }
                Some(Segment::File { offset, len, .. }) => {
                    let part = (count as u64).min(*len);
                    *offset += part;
                    *len -= part;
                    count -= part as usize;
                    self.queued -= part;
                    self.queued_in_files -= part;
                    if *len == 0 {
                        self.queue.pop_front();
                    }
                }
            }
        }
    }
}

/// The first `room` bytes.
fn within(bytes: &[u8], room: u64) -> &[u8] {
    &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_consumes_in_order() {
        let mut queue = OutputQueue::default();
        queue.buf.extend_from_slice(b"head");
        queue.push_buf(Buf::Bytes(Bytes::from(vec![b'x'; COPY_BYTES_MAX + 1])));
        queue.buf.extend_from_slice(b"tail");
        let total = queue.len();
        assert_eq!(total, 8 + COPY_BYTES_MAX as u64 + 1);
        queue.consume(5);
        assert_eq!(queue.len(), total - 5);
        queue.consume(COPY_BYTES_MAX + 1);
        assert_eq!(queue.buf, b"ail");
        queue.consume(3);
        assert!(queue.is_empty());
    }
}
