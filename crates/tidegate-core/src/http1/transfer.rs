//! The last stretch of a response: framing, and the connection's output queue.
//!
//! The head and small bodies are collected in one buffer and leave in one write; large pieces and files are queued
//! behind it without a copy.

use std::{
    collections::VecDeque,
    fs::File,
    future::Future as _,
    io::IoSlice,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tidegate_http::chunked::write_last_chunk;
use tokio::task::JoinHandle;

use super::connection::Connection;
use crate::{
    log::{Level, SysError},
    output::{Buf, Chunk, Closed, Progress, Response},
    request::{Request, Sink},
    spill::{OUTPUT_MEMORY_BYTES_MAX, Spill, SpillError, Spilled},
    static_files::read,
};

/// Pieces longer than this are queued instead of copied behind the others.
pub(crate) const COPY_BYTES_MAX: usize = 4096;

/// Output of a request that may wait while the next one begins.
const UNSENT_BYTES_MAX: u64 = 64 << 10;

/// Bytes of files that one connection is sent before others have their turn.
///
/// Source: nginx, `sendfile_max_chunk`.
const TURN_BYTES_MAX: u64 = 2 << 20;

/// Capacity of the buffer that stays when all of it has been sent.
const BUF_KEPT_BYTES_MAX: usize = 64 << 10;

/// What goes to a file at a time; in between the socket is asked whether it takes more.
const SPILL_PIECE_BYTES: usize = 64 << 10;

/// Slices that one `writev` takes.
const SLICES_MAX: usize = 16;

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
    nopush: bool,
    disk: Disk,
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
    fn push_buf(&mut self, buf: Buf) {
        match buf {
            Buf::Bytes(bytes) if bytes.len() <= COPY_BYTES_MAX => self.buf.extend_from_slice(&bytes),
            Buf::Bytes(bytes) => self.push(Segment::Bytes(bytes)),
            Buf::File { file, offset, len } if len > 0 => self.push(Segment::File { file, offset, len }),
            Buf::File { .. } => {}
        }
    }
    /// Bytes that it was ever given.
    fn taken(&self) -> u64 {
        self.gone + self.len()
    }
    /// Bytes that are kept in memory.
    fn memory_bytes(&self) -> u64 {
        self.len() - self.queued_in_files
    }
    /// Whether so many more bytes may be kept in memory.
    fn has_room(&self, bytes: u64) -> bool {
        self.memory_bytes() + bytes <= OUTPUT_MEMORY_BYTES_MAX
    }
    /// Whether no files and no large pieces wait.
    pub(crate) fn is_small(&self) -> bool {
        self.queue.is_empty()
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
    pub(crate) fn write_to(&mut self, conn: &Connection) -> std::io::Result<bool> {
        let turn_bytes_max = match self.turn_bytes_max {
            None => TURN_BYTES_MAX,
            Some(0) => u64::MAX,
            Some(bytes) => bytes,
        };
        let mut turn_bytes = 0;
        loop {
            if self.is_empty() {
                match conn.stream.try_flush() {
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
                self.flush = false;
                // Room on disk is given back with the last byte, not with the connection.
                self.spill = None;
                return Ok(true);
            }
            let room = conn.room();
            if room == 0 {
                return Ok(false);
            }
            if turn_bytes >= turn_bytes_max {
                self.turn_ended = true;
                return Ok(false);
            }
            let is_file = matches!(self.queue.front(), Some(Segment::File { .. }));
            if is_file && !self.is_in_memory(room.min(turn_bytes_max)) {
                return Ok(false);
            }
            let written = match self.queue.front() {
                None => conn.stream.try_write(within(&self.buf, room)),
                Some(Segment::File { file, offset, len }) => {
                    conn.stream.try_sendfile(file, *offset, room.min(*len).min(turn_bytes_max))
                }
                Some(Segment::Bytes(bytes)) if room < self.len() => conn.stream.try_write(within(bytes, room)),
                Some(Segment::Bytes(bytes)) if matches!(self.queue.get(1), Some(Segment::File { .. })) => {
                    if self.nopush { conn.stream.try_write_more(bytes) } else { conn.stream.try_write(bytes) }
                }
                Some(Segment::Bytes(_)) => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let count = self.slices(&mut slices);
                    conn.stream.try_write_vectored(&slices[..count])
                }
            };
            match written {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    conn.sent.set(conn.sent.get() + count as u64);
                    if is_file {
                        turn_bytes += count as u64;
                    }
                    self.consume(count);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
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

/// Appends `<size in hex>\r\n`.
fn chunk_size_line(size: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0u8; 16];
    if size < 16 {
        return out.extend_from_slice(&[DIGITS[size as usize], b'\r', b'\n']);
    }
    let (mut rest, mut at) = (size, digits.len());
    loop {
        at -= 1;
        digits[at] = DIGITS[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

impl Request {
    /// Takes bytes of the body that need no filter, and a byte that follows them.
    pub(crate) fn write_slice_to_client(&self, bytes: &[u8], end: Option<u8>) -> Result<(), Closed> {
        let mut response = self.response.borrow_mut();
        if self.conn.is_broken() {
            return Err(Closed);
        }
        let len = bytes.len() + usize::from(end.is_some());
        if response.header_only || len == 0 {
            return Ok(());
        }
        let admitted = self.admit(&mut response, len as u64, false) as usize;
        let mut output = self.conn.output.borrow_mut();
        let before = output.taken();
        if response.chunked {
            chunk_size_line(len as u64, &mut output.buf);
        }
        self.take_bytes(&mut output, &bytes[..bytes.len().min(admitted)])?;
        let buf = &mut output.buf;
        buf.extend(end.filter(|_| admitted == len));
        if response.chunked {
            buf.extend_from_slice(b"\r\n");
        }
        response.body_bytes += output.taken() - before;
        let may_wait = output.len() < self.http_conf().postpone_output_bytes() as u64;
        drop(output);
        drop(response);
        if may_wait { Ok(()) } else { self.maybe_flush(false) }
    }

    /// Takes the whole body of a response, few bytes that need no filter. They leave with the head.
    pub(crate) fn write_whole_to_client(&self, bytes: &[u8]) -> Result<(), Closed> {
        let mut response = self.response.borrow_mut();
        if self.conn.is_broken() {
            return Err(Closed);
        }
        let admitted = self.admit(&mut response, bytes.len() as u64, true) as usize;
        let bytes = &bytes[..admitted];
        let mut output = self.conn.output.borrow_mut();
        let before = output.buf.len();
        if !response.header_only {
            if response.chunked && !bytes.is_empty() {
                chunk_size_line(bytes.len() as u64, &mut output.buf);
            }
            output.buf.extend_from_slice(bytes);
            if response.chunked && !bytes.is_empty() {
                output.buf.extend_from_slice(b"\r\n");
            }
        }
        if response.progress != Progress::Ended {
            response.progress = Progress::Ended;
            if response.chunked && !response.header_only {
                write_last_chunk(&response.trailers, &mut output.buf);
            }
        }
        response.body_bytes += (output.buf.len() - before) as u64;
        Ok(())
    }

    /// Takes a chunk that has passed the filters.
    pub(crate) fn write_chunk(self: &Rc<Self>, chunk: Chunk) -> Result<(), Closed> {
        match &self.sink {
            Sink::Client => self.write_chunk_to_client(chunk),
            Sink::Capture(body) => {
                if !self.response.borrow().header_only {
                    let mut body = body.borrow_mut();
                    self.check_capture(body.len() as u64 + chunk.len())?;
                    for buf in &chunk.bufs {
                        append_to(buf, &mut body)?;
                    }
                }
                self.end_if(chunk.last);
                Ok(())
            }
            Sink::Nowhere => {
                self.end_if(chunk.last);
                Ok(())
            }
            // Comes to the main request's writer, see `encode_and_write`.
            Sink::Parent => Ok(()),
        }
    }

    /// Refuses a captured response that does not fit into memory as the configuration has it.
    fn check_capture(&self, bytes: u64) -> Result<(), Closed> {
        let max = self.http_conf().capture_bytes_max();
        let was_full = self.response.borrow().capture_is_full;
        if !was_full && (max == 0 || bytes <= max) {
            return Ok(());
        }
        if !was_full {
            self.response.borrow_mut().capture_is_full = true;
            let message =
                format_args!("captured response is larger than \"subrequest_capture_max\" allows: {max} bytes");
            self.log(Level::Error, message);
        }
        Err(Closed)
    }

    fn end_if(&self, last: bool) {
        if last {
            self.response.borrow_mut().progress = Progress::Ended;
        }
    }

    /// How many of `len` further bytes the client may get: no more than the head promised, for it would take the others for
    /// another response. `last`: no more will come. A body that is not what was promised is the last of its connection.
    fn admit(&self, response: &mut Response, len: u64, last: bool) -> u64 {
        let Some(left) = response.body_left else { return len };
        let admitted = len.min(left);
        response.body_left = Some(left - admitted);
        if admitted < len || (last && admitted < left) {
            self.break_promise(response, left, len);
        }
        admitted
    }

    #[cold]
    fn break_promise(&self, response: &mut Response, left: u64, len: u64) {
        self.flags().keep_alive.set(false);
        if !std::mem::replace(&mut response.breaks_promise, true) {
            let (what, bytes) = if len > left { ("longer", len - left) } else { ("shorter", left - len) };
            let message = format_args!("response body is {what} than its \"Content-Length\" by {bytes} bytes");
            self.log(Level::Warn, message);
        }
    }

    /// Queues bytes: in memory, or in a file where the client has not taken what is there.
    #[inline]
    fn take_bytes(&self, output: &mut OutputQueue, bytes: &[u8]) -> Result<(), Closed> {
        if !output.has_room(bytes.len() as u64) {
            return self.take_many_bytes(output, bytes);
        }
        output.buf.extend_from_slice(bytes);
        Ok(())
    }

    #[cold]
    fn take_many_bytes(&self, output: &mut OutputQueue, bytes: &[u8]) -> Result<(), Closed> {
        for piece in bytes.chunks(SPILL_PIECE_BYTES) {
            if !output.has_room(piece.len() as u64)
                && let Err(error) = output.write_to(&self.conn)
            {
                self.conn.send_failed(&error);
                return Err(Closed);
            }
            if output.has_room(piece.len() as u64) {
                output.buf.extend_from_slice(piece);
                continue;
            }
            let directory = self.conf().full_path(self.http_conf().client_body_temp_path());
            let waiting_bytes = output.queued_in_files;
            match Spill::append(&mut output.spill, &directory, piece, waiting_bytes) {
                Ok(Spilled { buf, created }) => {
                    if let Some(path) = created {
                        let path = path.display();
                        self.log(Level::Warn, format_args!("a response is buffered to a temporary file {path}"));
                    }
                    output.push_buf(buf);
                }
                Err(error) => {
                    self.report_spill(&error);
                    self.conn.mark_broken();
                    return Err(Closed);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn report_spill(&self, error: &SpillError) {
        match error {
            SpillError::Full => self.log(Level::Error, format_args!("{error} while sending to client")),
            SpillError::File(source) => {
                let source = SysError(source);
                self.log(Level::Crit, format_args!("{error} {source} while sending to client"));
            }
        }
    }

    /// Frames a chunk and queues it.
    fn write_chunk_to_client(&self, mut chunk: Chunk) -> Result<(), Closed> {
        if self.conn.is_broken() {
            return Err(Closed);
        }
        let mut response = self.response.borrow_mut();
        let admitted = self.admit(&mut response, chunk.len(), chunk.last);
        chunk.truncate(admitted);
        let mut output = self.conn.output.borrow_mut();
        let (len, flush, last) = (admitted, chunk.flush, chunk.last);
        let before = output.taken();
        if !response.header_only && len > 0 {
            if response.chunked {
                chunk_size_line(len, &mut output.buf);
            }
            for buf in chunk.bufs {
                match buf {
                    Buf::File { .. } => output.nopush = self.files_conf().tcp_nopush == Some(true),
                    Buf::Bytes(bytes) if !output.has_room(bytes.len() as u64) => {
                        self.take_bytes(&mut output, &bytes)?;
                        continue;
                    }
                    Buf::Bytes(_) => {}
                }
                output.push_buf(buf);
            }
            if response.chunked {
                output.buf.extend_from_slice(b"\r\n");
            }
        }
        if last && response.progress != Progress::Ended {
            response.progress = Progress::Ended;
            if response.chunked && !response.header_only {
                write_last_chunk(&response.trailers, &mut output.buf);
            }
        }
        response.body_bytes += output.taken() - before;
        drop(output);
        drop(response);
        self.maybe_flush(flush)
    }

    /// Writes what is queued when somebody asked for it or enough has come together; never waits.
    fn maybe_flush(&self, flush: bool) -> Result<(), Closed> {
        let mut output = self.conn.output.borrow_mut();
        let postpone = self.http_conf().postpone_output_bytes() as u64;
        if flush || (output.len() >= postpone && !self.response_ended()) {
            output.flush = true;
            if let Err(error) = output.write_to(&self.conn) {
                self.conn.send_failed(&error);
                return Err(Closed);
            }
        }
        Ok(())
    }

    /// Whether what is left of the response is little enough for the client's socket, or is none of this request's
    /// business. The log tells how long a large or slowed response took, so it waits for that.
    pub(crate) fn is_sent_soon(&self) -> bool {
        if self.is_subrequest() {
            return true;
        }
        let conn = &self.conn;
        if conn.unsent_bytes() <= UNSENT_BYTES_MAX && conn.throttle.get().is_none() {
            return true;
        }
        // A socket with room takes it without a wait.
        let written = conn.output.borrow_mut().write_to(conn);
        matches!(written, Ok(true))
    }

    /// Waits until the client has taken the response, or is gone.
    pub(crate) async fn wait_until_sent(&self) {
        if self.is_sent_soon() {
            return;
        }
        let timeout_ms = self.http_conf().send_timeout_ms();
        if self.conn.flush(timeout_ms).await.is_err() {
            let mut response = self.response.borrow_mut();
            response.body_bytes = response.body_bytes.saturating_sub(self.conn.unsent_bytes());
        }
    }

    /// Takes note of bytes that went to the client past the queue, after an upgrade.
    pub(crate) fn count_sent(&self, count: u64) {
        self.response.borrow_mut().body_bytes += count;
        self.conn.sent.set(self.conn.sent.get() + count);
    }

    fn response_ended(&self) -> bool {
        self.response.borrow().progress == Progress::Ended
    }
}

/// Reads a piece into memory. A file's part is read at once: it is small, large ones were read ahead of the filters.
pub(crate) fn append_to(buf: &Buf, out: &mut Vec<u8>) -> Result<(), Closed> {
    use std::os::unix::fs::FileExt;
    match buf {
        Buf::Bytes(bytes) => out.extend_from_slice(bytes),
        Buf::File { file, offset, len } => {
            let start = out.len();
            out.resize(start + usize::try_from(*len).map_err(|_| Closed)?, 0);
            file.read_exact_at(&mut out[start..], *offset).map_err(|_| Closed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes() {
        for size in [0u64, 1, 15, 16, 255, 4096, u64::MAX] {
            let mut out = Vec::new();
            chunk_size_line(size, &mut out);
            assert_eq!(out, format!("{size:x}\r\n").into_bytes());
        }
    }

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
