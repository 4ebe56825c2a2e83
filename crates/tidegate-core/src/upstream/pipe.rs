//! The body of an answer on its way to the client.
//!
//! With buffering, the peer is read as fast as it sends and let go: what the client has not taken stays in memory up to
//! `…_buffers` and goes to a file beyond that, which is sent from there. Without, the peer is read as fast as the client
//! takes it.
//!
//! Invariants:
//! - **I1** The client's output queue holds at most `buffer_bytes` and one piece in memory, whatever client and peer do; what
//!   filters make of it, at most [`crate::spill::OUTPUT_MEMORY_BYTES_MAX`].
//! - **I2** The queue keeps the order, so memory and file may alternate in it.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes};
use tidegate_http::BodyPart;

use super::{
    balance::Lease,
    exchange::{Exchange, Protocol, READING, Stop},
    keepalive,
    socket::{Socket, Turn, Wait},
    tunnel,
};
use crate::{
    clock,
    log::{Level, SysError},
    output::{Buf, Chunk, Closed},
    phase::Step,
    spill::OUTPUT_FILE_BYTES_MAX,
    temp_file,
};

/// Pieces up to this size are copied into the output instead of being shared with it.
const COPY_BYTES_MAX: usize = 4096;

/// Largest read of a body: as large as the buffers, but no larger than this.
const READ_BYTES_MAX: usize = 64 << 10;

/// A file that takes what a slow client leaves.
struct TempFile {
    file: Arc<File>,
    len: u64,
}

/// Why a body does not go on.
enum Cut {
    /// The client has gone.
    Client,
    /// The peer failed; the log has it.
    Peer,
}

impl From<Closed> for Cut {
    fn from(_: Closed) -> Self {
        Cut::Client
    }
}

impl<P: Protocol> Exchange<'_, P> {
    /// Hands an answer whose head has come to the client.
    pub(super) async fn deliver(&mut self, lease: &Lease, mut socket: Socket) -> Step {
        if self.caching.is_some()
            && let Some(stored) = Box::pin(self.stored_instead()).await
        {
            if !self.req.upstream_record_mut(|record| self.protocol.begin_body(&record.head)) {
                self.keep(socket);
            }
            self.selection.free(lease, false);
            self.req.update_try(|last| last.response_ms = Some(last.elapsed_ms()));
            return Box::pin(self.answer_stored(&stored)).await;
        }
        self.judge();
        let upgrade = self.req.upstream_record_mut(|record| self.protocol.is_upgrade(self.req, &record.head));
        let step = match self.take_head() {
            Some(step) => {
                // Another location or an error page answers; a connection without more of this answer is as good as new.
                if !self.req.upstream_record_mut(|record| self.protocol.begin_body(&record.head)) {
                    self.keep(socket);
                }
                step
            }
            None if upgrade => Box::pin(self.run_tunnel(&mut socket)).await,
            None => self.deliver_body(socket).await,
        };
        self.selection.free(lease, false);
        self.req.update_try(|last| last.response_ms = Some(last.elapsed_ms()));
        step
    }

    async fn run_tunnel(&mut self, socket: &mut Socket) -> Step {
        self.req.main().flags().keep_alive.set(false);
        if self.req.send_header().wait().await.is_err() {
            return Step::Close;
        }
        if tunnel::run(self.req, socket, self.selection.attempt.timeouts).await {
            self.req.client.end_tunnel().await;
        }
        self.req.update_try(|last| (last.bytes_sent, last.bytes_received) = (socket.sent, socket.received));
        Step::Close
    }

    async fn deliver_body(&mut self, mut socket: Socket) -> Step {
        let has_body = self.req.upstream_record_mut(|record| self.protocol.begin_body(&record.head));
        self.begin_tee();
        self.tell_cache(self.entry_times());
        if !has_body
            && let Err(closed) = self.req.send_header().wait().await
            && self.client_left(closed.into()).is_err()
        {
            return Step::Close;
        }
        if has_body && self.caching.is_some() && self.tee.is_none() && self.req.is_head() && !self.req.is_subrequest() {
            // A body that nobody wants, of a request that was to fill the cache.
            return if self.req.send_header().wait().await.is_ok() { Step::Ok } else { Step::Close };
        }
        let received = socket.received;
        let delivered = self.pipe(&mut socket).await;
        self.req.update_try(|last| last.bytes_received = socket.received);
        debug_assert!(socket.received >= received);
        match delivered {
            Ok(()) => {
                // A body that turned out to be empty is the answer all the same, and no reason for an error page.
                if !self.req.header_sent() && self.req.send_header().wait().await.is_err() && self.tee.is_none() {
                    return Step::Close;
                }
                if self.tee.is_some() {
                    Box::pin(self.finish_tee()).await;
                }
                if self.is_deaf {
                    return self.client_gone();
                }
                self.take_trailers();
                self.keep(socket);
                Step::Ok
            }
            Err(Cut::Client) => self.client_gone(),
            Err(Cut::Peer) => {
                drop(socket);
                Box::pin(self.cut_off()).await
            }
        }
    }

    /// The client gets what there is, and a connection that closes too early tells it that this is not all.
    async fn cut_off(&self) -> Step {
        if !self.req.header_sent() {
            // What the peer said about a body is void, and so is the rest of its head.
            let mut response = self.req.response.borrow_mut();
            response.fields.clear();
            response.status_line.clear();
            return Step::Status(502);
        }
        self.req.main().flags().keep_alive.set(false);
        let _ = self.req.client.flush(self.req.http_conf().send_timeout_ms()).await;
        Step::Close
    }

    /// Keeps the connection for another request, if it can serve one.
    fn keep(&self, socket: Socket) {
        let rules = &self.selection.attempt.keepalive;
        if rules.connections == 0 || !self.is_whole {
            return;
        }
        let reusable = self.req.upstream_record(|record| self.protocol.is_reusable(&record.head)).unwrap_or(false);
        if reusable {
            keepalive::give(socket, rules);
        }
    }

    async fn pipe(&mut self, socket: &mut Socket) -> Result<(), Cut> {
        let mut temp: Option<TempFile> = None;
        let mut turn = Turn::default();
        let limit_rate = self.settings.limit_rate.as_ref().filter(|_| self.buffering);
        let pace = limit_rate.map(|rate| self.req.size_of(rate)).filter(|&rate| rate > 0).map(Pace::new);
        loop {
            let unfilled = self.unfilled_bytes(socket);
            if unfilled > 0
                && !self.req.header_sent()
                && let Err(closed) = self.req.send_header().wait().await
            {
                self.client_left(closed.into())?;
            }
            if self.decode_input(socket, unfilled, &mut temp).await? {
                if !socket.input.is_empty() {
                    self.req.log(
                        Level::Warn,
                        format_args!(
                            "upstream sent more data than specified in \"Content-Length\" header while {READING}"
                        ),
                    );
                }
                return Ok(());
            }
            if !self.buffering {
                Box::pin(self.push_out()).await?;
            }
            if turn.note_read().await && self.watch.is_gone().await {
                return Err(Cut::Client);
            }
            let mut wanted = if self.buffering { self.settings.buffer_bytes } else { self.settings.head_bytes_max };
            if let Some(pace) = &pace {
                wanted = wanted.min(Box::pin(pace.room(socket)).await);
            }
            match self.read(socket, wanted).await? {
                0 if self.protocol.is_complete_at_close() => {
                    if socket.stream.was_cut() {
                        self.doubt_end();
                    }
                    return Ok(());
                }
                0 => {
                    self.decode_input(socket, 0, &mut temp).await?;
                    self.req.log(Level::Error, format_args!("upstream prematurely closed connection while {READING}"));
                    return Err(Cut::Peer);
                }
                _ => {}
            }
        }
    }

    /// The body ends with a connection of TLS that was closed without a farewell: by a peer that never says one, by one that has died, or by
    /// somebody on the way. The client gets what there is; nobody else does.
    ///
    /// Source: RFC 9112, section 9.8; nginx, `SSL_OP_IGNORE_UNEXPECTED_EOF`, for the client.
    #[cold]
    fn doubt_end(&mut self) {
        self.req.update_try(|last| last.was_cut = true);
        let is_kept = self.tee.take().is_some();
        let level = if is_kept { Level::Warn } else { Level::Info };
        self.req.log(level, format_args!("upstream closed connection without close_notify while {READING}"));
        if is_kept {
            self.leave_cache();
        }
    }

    /// How many of the bytes that were read do not fill a buffer. With buffering they stay until they do, or the body is
    /// complete or the peer closes: of an answer that stops coming the client gets whole buffers.
    ///
    /// Source: nginx, `ngx_event_pipe_read_upstream`, which leaves an answer in chunks alone.
    fn unfilled_bytes(&self, socket: &Socket) -> usize {
        let input = socket.input.len();
        let Some(left) = self.protocol.announced_left().filter(|_| self.buffering) else { return 0 };
        if input as u64 >= left {
            return 0;
        }
        // The first buffer holds the head, too.
        let piece = self.settings.buffer_piece_bytes.clamp(1, READ_BYTES_MAX) as u64;
        match socket.received.checked_sub(self.settings.head_bytes_max as u64) {
            None => input,
            Some(behind) => input.min((behind % piece) as usize),
        }
    }

    /// Hands on the content of what was read, but for the last `unfilled` bytes; answers whether the body is complete.
    async fn decode_input(
        &mut self,
        socket: &mut Socket,
        unfilled: usize,
        temp: &mut Option<TempFile>,
    ) -> Result<bool, Cut> {
        loop {
            let filled = socket.input.len().saturating_sub(unfilled);
            let decoded = self.protocol.decode(&socket.input[..filled]);
            self.log_messages(READING);
            match decoded {
                Ok(BodyPart::Data { start, end }) => {
                    socket.input.advance(start);
                    self.req.update_try(|last| last.response_length += (end - start) as u64);
                    if self.tee.is_some() {
                        Box::pin(self.tee_piece(&socket.input[..end - start])).await;
                    }
                    if self.is_deaf {
                        self.client_left(Cut::Client)?;
                        socket.input.advance(end - start);
                    } else {
                        let rest = socket.input.len() - (end - start);
                        if let Err(cut) = self.forward(socket, end - start, temp).await {
                            self.client_left(cut)?;
                            // It may have been taken from the input, or not.
                            socket.input.advance(socket.input.len() - rest);
                        }
                    }
                }
                Ok(BodyPart::Partial) => {
                    socket.input.advance(filled);
                    return Ok(false);
                }
                Ok(BodyPart::End(used)) => {
                    socket.input.advance(used);
                    return Ok(true);
                }
                Err(text) => {
                    self.req.log(Level::Error, format_args!("{text} while {READING}"));
                    return Err(Cut::Peer);
                }
            }
        }
    }

    /// A response that others want, too, is read to its end without its client.
    fn client_left(&mut self, cut: Cut) -> Result<(), Cut> {
        match cut {
            Cut::Client if self.tee.is_some() => {
                self.is_deaf = true;
                Ok(())
            }
            cut => Err(cut),
        }
    }

    /// Sends the first `len` bytes of the input on.
    async fn forward(&mut self, socket: &mut Socket, len: usize, temp: &mut Option<TempFile>) -> Result<(), Cut> {
        // Nobody takes what is captured; the sub-request's own limit holds it.
        let unsent = if self.req.is_captured() { 0 } else { self.req.client.unsent_bytes() };
        let is_read = self.req.reads_files();
        let spills = self.buffering && !self.disk_failed && self.settings.temp_file_bytes_max > 0;
        let mut limit = self.settings.buffer_bytes as u64;
        if is_read && spills {
            // Filters see the bytes, so it is what they make of them that goes to disk (I1): the queue sees to that.
            limit = limit.saturating_add(self.settings.temp_file_bytes_max.min(OUTPUT_FILE_BYTES_MAX / 2));
        }
        let over = unsent > 0 && unsent + len as u64 > limit;
        if over
            && !is_read
            && spills
            && let Some(buf) = Box::pin(self.spill(&socket.input[..len], temp)).await?
        {
            socket.input.advance(len);
            let mut chunk = Chunk::default();
            chunk.bufs.push(buf);
            return Ok(self.req.send(chunk).wait().await?);
        }
        if over {
            let timeout_ms = self.req.http_conf().send_timeout_ms();
            let left = limit.saturating_sub(len as u64).max(1);
            self.req.client.drain_to(left, timeout_ms).await.map_err(|_| Cut::Client)?;
        }
        if len <= COPY_BYTES_MAX {
            let sent = self.req.send_slice(&socket.input[..len]);
            socket.input.advance(len);
            return Ok(sent.wait().await?);
        }
        let piece: Bytes = socket.input.split_to(len).freeze();
        Ok(self.req.send(Chunk::bytes(piece)).wait().await?)
    }

    /// Writes a piece to the file; answers its place there. When a file is full the client first gets all of it. `None`
    /// when it cannot be written: from then on the peer is read as fast as the client takes it.
    async fn spill(&mut self, piece: &[u8], temp: &mut Option<TempFile>) -> Result<Option<Buf>, Cut> {
        let mut is_first = true;
        if temp.as_ref().is_some_and(|temp| temp.len >= self.settings.temp_file_bytes_max) {
            let timeout_ms = self.req.http_conf().send_timeout_ms();
            self.req.client.drain_to(0, timeout_ms).await.map_err(|_| Cut::Client)?;
            // Another file, not the same one again: what `sendfile` took may still be on its way from the old pages.
            *temp = None;
            is_first = false;
        }
        match self.append_to_temp(piece, temp, is_first).await {
            Ok(buf) => Ok(Some(buf)),
            Err(error) => {
                self.disk_failed = true;
                let error = SysError(&error);
                self.req.log(Level::Crit, format_args!("cannot write a temporary file {error} while {READING}"));
                Ok(None)
            }
        }
    }

    /// Writes a piece to the file by another thread; answers its place there. The file is made when there is none.
    async fn append_to_temp(&self, piece: &[u8], temp: &mut Option<TempFile>, is_first: bool) -> io::Result<Buf> {
        let temp = match temp {
            Some(temp) => temp,
            None => temp.insert(self.create_temp_file(is_first).await?),
        };
        let (file, offset, len) = (temp.file.clone(), temp.len, piece.len() as u64);
        let piece = piece.to_vec();
        let writing = tokio::task::spawn_blocking(move || file.write_all_at(&piece, offset));
        writing.await.map_err(io::Error::other)??;
        temp.len += len;
        Ok(Buf::File { file: temp.file.clone(), offset, len })
    }

    async fn create_temp_file(&self, is_first: bool) -> io::Result<TempFile> {
        let directory = self.req.conf().full_path(&self.settings.temp_path);
        let creating = tokio::task::spawn_blocking(move || {
            let (file, path) = temp_file::create(&directory).map_err(|error| error.source)?;
            // Nobody else needs the name: the file goes with its last use.
            std::fs::remove_file(&path)?;
            io::Result::Ok((file, path))
        });
        let (file, path) = creating.await.map_err(io::Error::other)??;
        if is_first {
            let shown = path.display();
            self.req.log(
                Level::Warn,
                format_args!("an upstream response is buffered to a temporary file {shown} while {READING}"),
            );
        }
        Ok(TempFile { file: Arc::new(file), len: 0 })
    }

    /// Without buffering: sends everything, and waits until the client has most of it.
    async fn push_out(&self) -> Result<(), Cut> {
        self.req.send(Chunk::default().and_flush()).wait().await?;
        let left = self.settings.head_bytes_max as u64;
        if self.req.client.unsent_bytes() > left {
            let timeout_ms = self.req.http_conf().send_timeout_ms();
            self.req.client.drain_to(left, timeout_ms).await.map_err(|_| Cut::Client)?;
        }
        Ok(())
    }

    /// Reads more of the body.
    async fn read(&mut self, socket: &mut Socket, wanted: usize) -> Result<usize, Cut> {
        socket.reserve(wanted.clamp(1, READ_BYTES_MAX));
        loop {
            match socket.try_read() {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(self.read_failed(&error)),
            }
            match self.wait_readable(socket).await {
                Ok(Wait::Ready) => {}
                Ok(Wait::TimedOut) => {
                    let _: Stop = self.timed_out(READING);
                    return Err(Cut::Peer);
                }
                Ok(Wait::ClientGone) => return Err(Cut::Client),
                Err(error) => return Err(self.read_failed(&error)),
            }
        }
    }

    fn read_failed(&self, error: &io::Error) -> Cut {
        let call = if self.buffering { "readv()" } else { "recv()" };
        self.req.log(Level::Error, format_args!("{call} failed {} while {READING}", SysError(error)));
        Cut::Peer
    }
}

/// `…_limit_rate`: how much of a body may be read by now.
///
/// Source: nginx, `ngx_event_pipe_read_upstream`.
struct Pace {
    /// Bytes a second.
    rate: u64,
    start_ms: u64,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Pace { rate, start_ms: clock::steady_ms() }
    }
    /// Waits until something may be read: those bytes of the time that has passed and of one second ahead.
    async fn room(&self, socket: &Socket) -> usize {
        loop {
            let elapsed_ms = clock::steady_ms().saturating_sub(self.start_ms);
            let allowed = self.rate.saturating_mul(elapsed_ms + 1000) / 1000;
            if let Some(room @ 1..) = allowed.checked_sub(socket.received) {
                return usize::try_from(room).unwrap_or(usize::MAX);
            }
            let due_ms = (socket.received - allowed).saturating_mul(1000) / self.rate + 1;
            tokio::time::sleep(Duration::from_millis(due_ms.min(1000))).await;
            clock::update();
        }
    }
}
