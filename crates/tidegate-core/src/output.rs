//! The response: its head, the pieces of its body, and their way through the filters to the client.

use std::{fs::File, rc::Rc, sync::Arc};

use bstr::BString;
use bytes::Bytes;
use smallvec::SmallVec;
use tidegate_http::{Fields, Known, date::parse_http_date};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    byte_ranges::ByteRanges,
    log::{Level, SysError},
    output_queue::COPY_BYTES_MAX,
    panics,
    phase::{LocalFuture, Ready},
    postpone,
    request::{Request, Sink},
    static_files,
};

/// Output that may wait for the client while a filter or handler makes more of it in parts ([`Request::pace`]).
const PACE_BYTES: u64 = 128 << 10;

/// Parts of files that filters get at a time.
const FILE_PIECE_BYTES: usize = 64 << 10;

/// The client has gone, or the response cannot be completed: the connection will be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// A piece of a body.
#[derive(Debug, Clone)]
pub enum Buf {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A part of an open file.
    File {
        /// The file.
        file: Arc<File>,
        /// Position in the file at which the part begins.
        offset: u64,
        /// Length of the part, in bytes.
        len: u64,
    },
}

impl Buf {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Buf::Bytes(bytes) => bytes.len() as u64,
            Buf::File { len, .. } => *len,
        }
    }
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What goes through the body filters at a time.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The pieces, in order.
    pub bufs: SmallVec<[Buf; 1]>,
    /// Everything so far should reach the client now.
    pub flush: bool,
    /// The body ends here.
    pub last: bool,
    /// The filter that made this chunk has more to say of what it was given: it is asked again, with an empty chunk, when the
    /// client has taken most of this. A filter that makes much of little says so, and then neither flushes nor ends.
    pub more: bool,
}

impl Chunk {
    /// A chunk of bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let mut chunk = Chunk::default();
        if !bytes.is_empty() {
            chunk.bufs.push(Buf::Bytes(bytes));
        }
        chunk
    }
    /// An empty chunk that ends the body.
    pub fn end() -> Self {
        Chunk { last: true, ..Chunk::default() }
    }
    /// Marks the chunk as the last one.
    pub fn and_last(mut self) -> Self {
        self.last = true;
        self
    }
    /// Marks the chunk as one to be sent at once.
    pub fn and_flush(mut self) -> Self {
        self.flush = true;
        self
    }
    /// Length of the pieces together.
    pub fn len(&self) -> u64 {
        self.bufs.iter().map(Buf::len).sum()
    }
    /// Leaves at most the first `len` bytes.
    pub fn truncate(&mut self, len: u64) {
        let mut left = len;
        self.bufs.retain(|buf| {
            match buf {
                Buf::Bytes(bytes) => bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX)),
                Buf::File { len, .. } => *len = left.min(*len),
            }
            left -= buf.len();
            !buf.is_empty()
        });
    }
    /// Reads the parts of files into memory, for filters that look at the bytes. Such a filter sets
    /// [`Response::filter_need_in_memory`]; parts of files that reach it are then small.
    ///
    /// # Errors
    /// A file cannot be read, or has become shorter.
    pub fn read_files(&mut self) -> Result<(), Closed> {
        for buf in &mut self.bufs {
            if let Buf::File { .. } = buf {
                let mut bytes = Vec::new();
                crate::transfer::append_to(buf, &mut bytes)?;
                *buf = Buf::Bytes(bytes.into());
            }
        }
        Ok(())
    }
    /// Whether the pieces are empty.
    pub fn is_empty(&self) -> bool {
        self.bufs.iter().all(Buf::is_empty)
    }
}

/// The part of a response that has been sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Progress {
    /// The head can still be changed.
    #[default]
    Open,
    /// The head is on its way.
    HeadSent,
    /// The last piece of the body is on its way.
    Ended,
}

/// The response's head.
#[derive(Debug, Default)]
pub struct Response {
    /// Status code; 0 means that nobody set it (200).
    pub status: u16,
    /// Status line after the version, when it is not the standard one, e.g. from an upstream.
    pub status_line: BString,
    /// `Content-Type` without the charset; empty for none.
    pub content_type: Vec<u8>,
    /// Charset that is added to the content type; empty for none.
    pub charset: Vec<u8>,
    /// The upstream wants [`charset`](Self::charset) (`X-Accel-Charset`), and the body may be in another one: in this, or, if it
    /// is empty, in one that only the configuration knows.
    pub charset_before: Option<Vec<u8>>,
    /// `Content-Length`, where the length is known.
    pub content_length: Option<u64>,
    /// `Last-Modified`, in seconds since 1970.
    pub last_modified: Option<i64>,
    /// All other fields.
    pub fields: Fields,
    /// Fields that go behind the body, if it goes out in chunks.
    pub trailers: Fields,
    /// There will be trailers: the body goes out in chunks even if its length is known.
    pub expect_trailers: bool,
    /// The body may be served in ranges.
    pub allow_ranges: bool,
    /// Of several ranges at once none is served: the body comes in pieces.
    pub single_range: bool,
    /// A header filter wants the request to end with this status instead; 0 for none. Set by
    /// [`Request::finalize_from_filter`].
    finalize: u16,
    /// The part of the response that has been sent so far.
    pub progress: Progress,
    /// There is no body: HEAD, 204, 304.
    pub header_only: bool,
    /// The body goes out in chunks (RFC 9112, section 7.1).
    pub chunked: bool,
    /// An upstream's response is passed on as if from it, but has no `Server`: neither gets the client one.
    pub omit_server: bool,
    /// The same of `Date`.
    pub omit_date: bool,
    /// `Location` stays as it is, even where `absolute_redirect` would add the host.
    pub keep_location: bool,
    /// Another server has tested the request's conditions (`If-Modified-Since` and the like).
    pub conditions_are_tested: bool,
    /// The client is told that the response depends on `Accept-Encoding`.
    pub vary_accept_encoding: bool,
    /// A filter wants the body in memory: files are read for it.
    pub filter_need_in_memory: bool,
    /// Bytes of the whole content that are ahead of the body: the part that was asked for begins there.
    pub body_offset: u64,
    /// The ranges of the body that the client gets; `None` for the whole body.
    pub ranges: Option<Box<ByteRanges>>,
    /// Bytes of the body that the client writer took, with the framing of chunks, as nginx counts them.
    pub body_bytes: u64,
    /// Length of the head as it was written.
    pub header_bytes: u64,
    /// Bytes that the head promised and that have not been written; `None` where no length was promised.
    pub(crate) body_left: Option<u64>,
    /// The body is longer or shorter than that.
    pub(crate) breaks_promise: bool,
    /// It is captured, and is larger than may be kept.
    pub(crate) capture_is_full: bool,
    /// A filter has waited: from then on one piece at a time goes through the filters, in the order of sending.
    turns: Option<Arc<Mutex<()>>>,
}

impl Response {
    /// When the content changed, by our own word or an upstream's; in seconds since 1970.
    pub fn modified(&self) -> Option<i64> {
        self.last_modified.or_else(|| self.fields.get(Known::LastModified).and_then(parse_http_date))
    }

    /// Makes it one that nobody has said anything about; memory stays. Field by field, for it happens with each request.
    pub(crate) fn reset(&mut self) {
        let Response {
            status,
            status_line,
            content_type,
            charset,
            charset_before,
            content_length,
            last_modified,
            fields,
            trailers,
            expect_trailers,
            allow_ranges,
            single_range,
            finalize,
            progress,
            header_only,
            chunked,
            omit_server,
            omit_date,
            keep_location,
            conditions_are_tested,
            vary_accept_encoding,
            filter_need_in_memory,
            body_offset,
            ranges,
            body_bytes,
            header_bytes,
            body_left,
            breaks_promise,
            capture_is_full,
            turns,
        } = self;
        (*status, *finalize, *progress) = (0, 0, Progress::Open);
        (*content_length, *last_modified, *body_bytes, *header_bytes) = (None, None, 0, 0);
        status_line.clear();
        content_type.clear();
        charset.clear();
        fields.clear();
        trailers.clear();
        for flag in [
            expect_trailers,
            allow_ranges,
            single_range,
            header_only,
            chunked,
            omit_server,
            omit_date,
            keep_location,
            conditions_are_tested,
            vary_accept_encoding,
            filter_need_in_memory,
            breaks_promise,
            capture_is_full,
        ] {
            *flag = false;
        }
        (*ranges, *turns, *body_left, *body_offset, *charset_before) = (None, None, None, 0, None);
    }

    /// The body will not be the one that the handler announced: its length and ranges mean nothing any more, and its
    /// `ETag` becomes a weak one.
    pub fn body_is_changed(&mut self) {
        self.content_length = None;
        self.allow_ranges = false;
        self.fields.remove(Known::AcceptRanges);
        self.weaken_etag();
    }

    /// Makes the `ETag` a weak one: other bytes, the same content.
    ///
    /// Source: nginx, `ngx_http_weak_etag`.
    pub fn weaken_etag(&mut self) {
        match self.fields.get(Known::ETag) {
            None => {}
            Some(tag) if tag.len() > 2 && tag.starts_with(b"W/") => {}
            Some(tag) if tag.starts_with(b"\"") => {
                let weak = [b"W/", tag].concat();
                self.fields.set_known(Known::ETag, &weak);
            }
            Some(_) => {
                self.fields.remove(Known::ETag);
            }
        }
    }

    /// Takes back everything that a handler said about a body, before an error page takes its place.
    pub fn clear_body_headers(&mut self) {
        self.content_length = None;
        self.last_modified = None;
        self.allow_ranges = false;
        self.charset.clear();
        self.charset_before = None;
        for known in [Known::ContentEncoding, Known::AcceptRanges, Known::ETag] {
            self.fields.remove(known);
        }
    }

    /// Drops the head that was prepared, before another response takes its place: nothing that belongs to the old one
    /// (cookies, lifetimes for caches, an encoding) may go out with the new one.
    pub fn drop_head(&mut self) {
        self.clear_body_headers();
        self.status = 0;
        self.status_line.clear();
        self.content_type.clear();
        self.fields.clear();
        self.trailers.clear();
        self.expect_trailers = false;
    }
}

impl Request {
    /// Sends the response's head through the header filters and on its way. Does nothing when it has been sent.
    ///
    /// When a filter waits, what is on its way goes on without the caller: dropping the future takes nothing back.
    pub fn send_header(self: &Rc<Self>) -> Ready<Result<(), Closed>> {
        self.output(None)
    }

    /// Sends a chunk of the body through the body filters and on its way; the head goes first. Waits as
    /// [`send_header`](Self::send_header) does.
    pub fn send(self: &Rc<Self>, chunk: Chunk) -> Ready<Result<(), Closed>> {
        self.output(Some(chunk))
    }

    /// Sends bytes of the body; makes a chunk of them only where somebody wants to see it.
    pub fn send_slice(self: &Rc<Self>, bytes: &[u8]) -> Ready<Result<(), Closed>> {
        self.send_piece(bytes, None)
    }

    /// Sends bytes and a line end, as one piece of the body.
    pub fn send_line(self: &Rc<Self>, bytes: &[u8]) -> Ready<Result<(), Closed>> {
        self.send_piece(bytes, Some(b'\n'))
    }

    fn send_piece(self: &Rc<Self>, bytes: &[u8], end: Option<u8>) -> Ready<Result<(), Closed>> {
        match self.pass_header_straight() {
            Ok(()) => Ready::Now(self.write_slice_to_client(bytes, end)),
            Err(passed) => {
                let bytes = [bytes, end.as_slice()].concat();
                self.send_behind(passed, Chunk::bytes(bytes))
            }
        }
    }

    /// Ends the body; the head goes first.
    pub fn send_end(self: &Rc<Self>) -> Ready<Result<(), Closed>> {
        match self.pass_header_straight() {
            Ok(()) => Ready::Now(self.check_passed(self.write_whole_to_client(b""))),
            Err(passed) => self.send_behind(passed, Chunk::end()),
        }
    }

    /// Sends the head, if it was not sent, for a body that nobody between a handler and the client wants to see. Otherwise it
    /// answers what became of the head, or `None` where the body has to wait for its turn.
    #[inline]
    fn pass_header_straight(self: &Rc<Self>) -> Result<(), Option<Ready<Result<(), Closed>>>> {
        if self.response.borrow().turns.is_some() {
            return Err(None);
        }
        match self.pass_header() {
            Ready::Now(Ok(())) if self.takes_slices() => Ok(()),
            passed => Err(Some(passed)),
        }
    }

    /// Sends a piece of the body after what [`pass_header_straight`](Self::pass_header_straight) answered.
    fn send_behind(
        self: &Rc<Self>,
        passed: Option<Ready<Result<(), Closed>>>,
        chunk: Chunk,
    ) -> Ready<Result<(), Closed>> {
        let passed = match passed {
            None => return self.output(Some(chunk)),
            Some(Ready::Now(Ok(()))) => begin_body_filters(self, chunk),
            Some(Ready::Now(Err(closed))) => Ready::Now(Err(closed)),
            Some(Ready::Later(head)) => self.pass_body_after(head, chunk),
        };
        self.end_pass(passed)
    }

    /// Sends the head, if it was not sent, and a chunk.
    fn output(self: &Rc<Self>, chunk: Option<Chunk>) -> Ready<Result<(), Closed>> {
        let turns = self.response.borrow().turns.clone();
        if let Some(turns) = turns {
            return self.output_in_turn(turns, chunk);
        }
        let passed = self.pass(chunk);
        self.end_pass(passed)
    }

    /// As [`output`](Self::output), after what was sent before.
    #[cold]
    fn output_in_turn(self: &Rc<Self>, turns: Arc<Mutex<()>>, chunk: Option<Chunk>) -> Ready<Result<(), Closed>> {
        match turns.clone().try_lock_owned() {
            Ok(turn) => match self.pass(chunk) {
                Ready::Later(chain) => self.go_on(chain, turn),
                Ready::Now(passed) => Ready::Now(self.check_passed(passed)),
            },
            Err(_) => {
                let req = self.clone();
                Ready::later(async move {
                    let turn = turns.lock_owned().await;
                    match req.pass(chunk) {
                        Ready::Later(chain) => req.go_on(chain, turn).wait().await,
                        Ready::Now(passed) => req.check_passed(passed),
                    }
                })
            }
        }
    }

    /// Lets a chain of filters that waits go on by itself, as the first one of this response.
    #[inline]
    fn end_pass(self: &Rc<Self>, passed: Ready<Result<(), Closed>>) -> Ready<Result<(), Closed>> {
        let chain = match passed {
            Ready::Now(passed) => return Ready::Now(self.check_passed(passed)),
            Ready::Later(chain) => chain,
        };
        let turns = Arc::new(Mutex::new(()));
        let turn = turns.clone().try_lock_owned().expect("nobody else has it yet");
        self.response.borrow_mut().turns = Some(turns);
        self.go_on(chain, turn)
    }

    /// When a filter fails, what follows cannot be sent either: the client learns of it by the end of its connection.
    #[inline]
    fn check_passed(self: &Rc<Self>, passed: Result<(), Closed>) -> Result<(), Closed> {
        // Who captures sees that the end is missing.
        if passed.is_err() && !self.wants_finalize() && !self.response.borrow().capture_is_full {
            self.flags().output_failed.set(true);
            if matches!(self.sink, Sink::Client | Sink::Parent | Sink::Postponed(_)) && !self.is_given_up() {
                self.close_connection();
            }
        }
        passed
    }

    /// Runs the rest of a chain of filters in a task of its own: a caller that ends early (a light thread that is killed,
    /// `ngx.exit` in another one) must not leave a response with half a head.
    #[cold]
    fn go_on(
        self: &Rc<Self>,
        chain: LocalFuture<Result<(), Closed>>,
        turn: OwnedMutexGuard<()>,
    ) -> Ready<Result<(), Closed>> {
        let req = self.clone();
        let task = tokio::task::spawn_local(async move {
            let passed = panics::catch_panic(&req, chain).await.unwrap_or(Err(Closed));
            drop(turn);
            req.check_passed(passed)
        });
        Ready::later(async move { task.await.unwrap_or(Err(Closed)) })
    }

    fn pass(self: &Rc<Self>, chunk: Option<Chunk>) -> Ready<Result<(), Closed>> {
        match (self.pass_header(), chunk) {
            (Ready::Now(Ok(())), Some(chunk)) => begin_body_filters(self, chunk),
            (Ready::Later(head), Some(chunk)) => self.pass_body_after(head, chunk),
            (passed, _) => passed,
        }
    }

    fn pass_body_after(
        self: &Rc<Self>,
        head: LocalFuture<Result<(), Closed>>,
        chunk: Chunk,
    ) -> Ready<Result<(), Closed>> {
        let req = self.clone();
        Ready::later(async move {
            head.await?;
            begin_body_filters(&req, chunk).wait().await
        })
    }

    #[inline]
    fn pass_header(self: &Rc<Self>) -> Ready<Result<(), Closed>> {
        let response = self.response.borrow();
        if response.finalize != 0 {
            return Ready::Now(Err(Closed));
        }
        if response.progress != Progress::Open {
            return Ready::Now(Ok(()));
        }
        let is_error = response.status >= 400;
        drop(response);
        if !self.body.is_consumed() && !is_error && !self.is_subrequest() && self.has_malformed_body() {
            return self.finalize_from_filter(400);
        }
        self.begin_header()
    }

    fn begin_header(self: &Rc<Self>) -> Ready<Result<(), Closed>> {
        {
            let mut response = self.response.borrow_mut();
            response.progress = Progress::HeadSent;
            let err_status = self.flags().err_status.get();
            if err_status != 0 && err_status != response.status {
                response.status = err_status;
                response.status_line.clear();
            }
            if response.status == 0 {
                response.status = 200;
            }
            if response.status < 200 {
                self.begin_interim(&mut response);
            }
            response.header_only = self.is_head() || matches!(response.status, 204 | 304 | 100..=199);
        }
        run_header_filters(self, 0)
    }

    /// Leaves the client's connection to somebody who reads and writes it himself: nothing is sent from now on, and the
    /// connection closes with the request. `false` when bytes wait that the client does not take.
    pub fn take_over_connection(&self) -> bool {
        if self.client.socket().is_none() || !matches!(self.client.write_now(), Ok(true)) {
            return false;
        }
        self.response.borrow_mut().progress = Progress::Ended;
        self.flags().keep_alive.set(false);
        self.body.mark_loaded();
        true
    }

    /// Called by a header filter: the response that was prepared is dropped, and the request ends with `status`, for
    /// which error pages apply.
    pub fn finalize_from_filter(&self, status: u16) -> Ready<Result<(), Closed>> {
        self.response.borrow_mut().drop_head();
        self.finalize_with_head(status)
    }

    /// As [`finalize_from_filter`](Self::finalize_from_filter), but the fields of the prepared head go out with the new
    /// status: they describe the resource and not its body.
    pub fn finalize_with_head(&self, status: u16) -> Ready<Result<(), Closed>> {
        self.response.borrow_mut().finalize = status;
        Ready::Now(Err(Closed))
    }

    /// Whether a header filter wants another response.
    pub(crate) fn wants_finalize(&self) -> bool {
        self.response.borrow().finalize != 0
    }

    /// The status that a header filter wants; the response can be begun anew.
    pub(crate) fn take_finalize(&self) -> Option<u16> {
        let mut response = self.response.borrow_mut();
        if response.finalize == 0 {
            return None;
        }
        response.progress = Progress::Open;
        response.ranges = None;
        Some(std::mem::take(&mut response.finalize))
    }

    /// Whether a filter sees the body: in which pieces it is sent then makes a difference.
    pub fn has_body_filters(&self) -> bool {
        !self.level().program.body_filters.is_empty()
    }

    /// Whether the parts of files are read into memory on their way: by a filter, or because the whole response is kept there.
    pub fn reads_files(self: &Rc<Self>) -> bool {
        let responder = self.final_responder();
        matches!(responder.sink, Sink::Capture(_))
            || self.response.borrow().filter_need_in_memory
            || responder.response.borrow().filter_need_in_memory
    }

    /// Whether the response, or the one that it becomes a part of, is kept in memory or dropped: no client takes it.
    pub(crate) fn is_captured(self: &Rc<Self>) -> bool {
        !matches!(self.responder().sink, Sink::Client)
    }

    /// Waits until the client has taken most of the output, for who makes much of it; others have their turn meanwhile.
    /// Nobody takes what is captured or dropped: there it only is the others' turn.
    ///
    /// # Errors
    /// The client has gone, or takes nothing for `send_timeout`.
    pub async fn pace(self: &Rc<Self>) -> Result<(), Closed> {
        tokio::task::yield_now().await;
        self.wait_for_turn().await?;
        if self.is_captured() || self.client.unsent_bytes() <= PACE_BYTES {
            return Ok(());
        }
        let timeout_ms = self.http_conf().send_timeout_ms();
        self.client.drain_to(PACE_BYTES, timeout_ms).await.map_err(|_| Closed)
    }

    /// Whether nobody between a handler and the client wants to see the body.
    fn takes_slices(&self) -> bool {
        let program = &self.level().program;
        program.body_filters.is_empty()
            && program.encoders.is_empty()
            && !self.is_subrequest()
            && self.response.borrow().ranges.is_none()
    }

    /// Sends a complete response whose body is `body`, with `Content-Length`.
    pub fn send_complete(self: &Rc<Self>, status: u16, body: Bytes) -> Ready<Result<(), Closed>> {
        {
            let mut response = self.response.borrow_mut();
            response.status = status;
            response.content_length = Some(body.len() as u64);
        }
        if body.len() > COPY_BYTES_MAX {
            return self.send(Chunk::bytes(body).and_last());
        }
        match self.pass_header_straight() {
            Ok(()) => Ready::Now(self.write_whole_to_client(&body)),
            Err(passed) => self.send_behind(passed, Chunk::bytes(body).and_last()),
        }
    }
}

fn run_header_filters(req: &Rc<Request>, from: usize) -> Ready<Result<(), Closed>> {
    let mut index = from;
    // The filter list is that of the level at which the head is sent; filters do not change levels.
    while let Some(filter) = req.level().program.header_filters.get(index) {
        index += 1;
        match filter(req) {
            Ready::Now(Ok(())) => {}
            Ready::Now(Err(closed)) => return Ready::Now(Err(closed)),
            Ready::Later(future) => {
                let req = req.clone();
                return Ready::later(async move {
                    future.await?;
                    run_header_filters(&req, index).wait().await
                });
            }
        }
    }
    Ready::Now(req.write_head())
}

/// The ranges that the client wants are cut out of the body first; the filters see those.
fn begin_body_filters(req: &Rc<Request>, chunk: Chunk) -> Ready<Result<(), Closed>> {
    let mut response = req.response.borrow_mut();
    let chunk = match &mut response.ranges {
        Some(ranges) => ranges.cut(chunk),
        None => chunk,
    };
    drop(response);
    let is_file = |buf: &Buf| matches!(buf, Buf::File { .. });
    if chunk.bufs.iter().any(is_file) && req.reads_files() {
        return read_and_filter(req, chunk);
    }
    run_body_filters(req, 0, chunk)
}

/// Gives what stands in files to the filters piece by piece, read without holding up the worker, as fast as the client takes
/// what they make of it.
#[cold]
fn read_and_filter(req: &Rc<Request>, chunk: Chunk) -> Ready<Result<(), Closed>> {
    let req = req.clone();
    Ready::later(async move {
        let Chunk { bufs, flush, last, .. } = chunk;
        for buf in bufs {
            let (file, start, end) = match buf {
                Buf::Bytes(bytes) => {
                    run_body_filters(&req, 0, Chunk::bytes(bytes)).wait().await?;
                    continue;
                }
                Buf::File { file, offset, len } => (file, offset, offset + len),
            };
            let mut at = start;
            while at < end {
                let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(FILE_PIECE_BYTES);
                let piece = match static_files::read::read_at(&file, at, len).await {
                    Ok(piece) if !piece.is_empty() => piece,
                    Ok(_) => {
                        req.log(Level::Alert, format_args!("file was truncated while it was sent"));
                        return Err(Closed);
                    }
                    Err(error) => {
                        req.log(Level::Crit, format_args!("read() failed {}", SysError(&error)));
                        return Err(Closed);
                    }
                };
                at += piece.len() as u64;
                run_body_filters(&req, 0, Chunk::bytes(piece)).wait().await?;
                req.pace().await?;
            }
        }
        run_body_filters(&req, 0, Chunk { flush, last, ..Chunk::default() }).wait().await
    })
}

fn run_body_filters(req: &Rc<Request>, from: usize, chunk: Chunk) -> Ready<Result<(), Closed>> {
    let mut chunk = chunk;
    let mut index = from;
    while let Some(filter) = req.level().program.body_filters.get(index) {
        index += 1;
        match filter(req, chunk) {
            Ready::Now(Ok(next)) if next.more => return pass_in_parts(req, index, next),
            Ready::Now(Ok(next)) => chunk = next,
            Ready::Now(Err(closed)) => return Ready::Now(Err(closed)),
            Ready::Later(future) => {
                let req = req.clone();
                return Ready::later(async move {
                    let next = future.await?;
                    if next.more {
                        return pass_in_parts(&req, index, next).wait().await;
                    }
                    run_body_filters(&req, index, next).wait().await
                });
            }
        }
    }
    postpone::end_body_filters(req, chunk)
}

/// Takes the parts that the filter before `from` makes of one chunk, as fast as the client takes them.
#[cold]
fn pass_in_parts(req: &Rc<Request>, from: usize, first: Chunk) -> Ready<Result<(), Closed>> {
    let req = req.clone();
    Ready::later(async move {
        let mut part = first;
        loop {
            let has_more = std::mem::take(&mut part.more);
            run_body_filters(&req, from, part).wait().await?;
            if !has_more {
                return Ok(());
            }
            req.pace().await?;
            let Some(filter) = req.level().program.body_filters.get(from - 1) else { return Err(Closed) };
            let made = filter(&req, Chunk::default());
            part = made.wait().await?;
        }
    })
}
