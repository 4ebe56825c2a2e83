//! The last stretch of a response: what has passed the filters is framed and queued for the client.

use std::rc::Rc;

use crate::{
    log::{Level, SysError},
    output::{Buf, Chunk, Closed, Progress, Response},
    request::{Request, Sink},
    spill::SpillError,
};

/// Output of a request that may wait while the next one begins.
const UNSENT_BYTES_MAX: u64 = 64 << 10;

/// What goes to a file at a time; in between the socket is asked whether it takes more.
const SPILL_PIECE_BYTES: usize = 64 << 10;

/// Most that is set aside for a captured body on the word of its head alone.
const CAPTURE_ROOM_BYTES_MAX: u64 = 1 << 20;

/// Appends `<size in hex>\r\n`.
#[inline]
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
        if self.client.is_broken() {
            return Err(Closed);
        }
        let len = bytes.len() + usize::from(end.is_some());
        if response.header_only || len == 0 {
            return Ok(());
        }
        let admitted = self.admit(&mut response, len as u64, false) as usize;
        let mut output = self.client.output().borrow_mut();
        let before = output.taken();
        if response.chunked {
            chunk_size_line(len as u64, &mut output.buf);
        }
        let piece = &bytes[..bytes.len().min(admitted)];
        if self.client.has_room(&output, piece.len() as u64) {
            output.buf.extend_from_slice(piece);
        } else {
            drop(output);
            self.take_many_bytes(piece)?;
            output = self.client.output().borrow_mut();
        }
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
        if self.client.is_broken() {
            return Err(Closed);
        }
        let admitted = self.admit(&mut response, bytes.len() as u64, true) as usize;
        let bytes = &bytes[..admitted];
        let mut output = self.client.output().borrow_mut();
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
            self.client.end(&response, &mut output);
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
                    self.check_capture(body.bytes().len() as u64 + chunk.len())?;
                    match &chunk.bufs[..] {
                        [Buf::Bytes(piece)] if body.adopt(piece) => {}
                        bufs => {
                            if body.is_empty() && !chunk.last {
                                self.make_capture_room(body.collected());
                            }
                            for buf in bufs {
                                append_to(buf, body.collected())?;
                            }
                        }
                    }
                }
                self.end_if(chunk.last);
                Ok(())
            }
            Sink::Nowhere => {
                self.end_if(chunk.last);
                Ok(())
            }
            // Comes to the main request's writer, see `postpone`.
            Sink::Parent | Sink::Postponed(_) => Ok(()),
        }
    }

    /// Makes room for all of a captured body whose length its head announced, instead of moving it as it grows.
    fn make_capture_room(&self, body: &mut Vec<u8>) {
        let announced = self.response.borrow().content_length.unwrap_or(0).min(CAPTURE_ROOM_BYTES_MAX);
        body.reserve_exact(usize::try_from(announced).unwrap_or(0));
    }

    /// Refuses a captured response that does not fit into memory as the configuration has it.
    pub(crate) fn check_capture(&self, bytes: u64) -> Result<(), Closed> {
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
    #[cold]
    fn take_many_bytes(&self, bytes: &[u8]) -> Result<(), Closed> {
        for piece in bytes.chunks(SPILL_PIECE_BYTES) {
            let has_room = || self.client.has_room(&self.client.output().borrow(), piece.len() as u64);
            if !has_room() {
                self.client.write_now().map_err(|_| Closed)?;
            }
            if has_room() {
                self.client.output().borrow_mut().buf.extend_from_slice(piece);
                continue;
            }
            let directory = self.conf().full_path(self.http_conf().client_body_temp_path());
            let spilled = self.client.output().borrow_mut().spill(&directory, piece);
            match spilled {
                Ok(None) => {}
                Ok(Some(path)) => {
                    let path = path.display();
                    self.log(Level::Warn, format_args!("a response is buffered to a temporary file {path}"));
                }
                Err(error) => {
                    self.report_spill(&error);
                    self.client.abort();
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
        if self.client.is_broken() {
            return Err(Closed);
        }
        let mut response = self.response.borrow_mut();
        let admitted = self.admit(&mut response, chunk.len(), chunk.last);
        chunk.truncate(admitted);
        let mut output = self.client.output().borrow_mut();
        let (len, flush, last) = (admitted, chunk.flush, chunk.last);
        let before = output.taken();
        if !response.header_only && len > 0 {
            if response.chunked {
                chunk_size_line(len, &mut output.buf);
            }
            for buf in chunk.bufs {
                match buf {
                    Buf::File { .. } => output.nopush = self.files_conf().tcp_nopush == Some(true),
                    Buf::Bytes(bytes) if !self.client.has_room(&output, bytes.len() as u64) => {
                        drop(output);
                        self.take_many_bytes(&bytes)?;
                        output = self.client.output().borrow_mut();
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
            self.client.end(&response, &mut output);
        }
        response.body_bytes += output.taken() - before;
        drop(output);
        drop(response);
        self.maybe_flush(flush)
    }

    /// Writes what is queued when somebody asked for it or enough has come together; never waits.
    fn maybe_flush(&self, flush: bool) -> Result<(), Closed> {
        let mut output = self.client.output().borrow_mut();
        let postpone = self.http_conf().postpone_output_bytes() as u64;
        if flush || (output.len() >= postpone && !self.response_ended()) {
            output.flush = true;
            drop(output);
            return self.client.write_now().map(drop).map_err(|_| Closed);
        }
        Ok(())
    }

    /// Whether what is left of the response is little enough for the client's socket, or is none of this request's
    /// business. The log tells how long a large or slowed response took, so it waits for that.
    pub(crate) fn is_sent_soon(&self) -> bool {
        if self.is_subrequest() {
            return true;
        }
        let unsent_bytes = self.client.unsent_bytes();
        let is_little = unsent_bytes <= UNSENT_BYTES_MAX && self.client.has_leave_for(unsent_bytes);
        if is_little && self.client.output().borrow().throttle().is_none() {
            return true;
        }
        // A socket with room takes it without a wait.
        matches!(self.client.write_now(), Ok(true))
    }

    /// Waits until the client has taken the response, or is gone.
    pub(crate) async fn wait_until_sent(&self) {
        if self.is_sent_soon() {
            return;
        }
        let timeout_ms = self.http_conf().send_timeout_ms();
        if self.client.flush(timeout_ms).await.is_err() {
            let mut response = self.response.borrow_mut();
            response.body_bytes = response.body_bytes.saturating_sub(self.client.unsent_bytes());
        }
    }

    /// Takes note of bytes that went to the client past the queue, after an upgrade.
    pub(crate) fn count_sent(&self, count: u64) {
        self.response.borrow_mut().body_bytes += count;
        self.client.output().borrow_mut().count_sent(count);
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
}
