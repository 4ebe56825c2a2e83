//! The body of a request.
//!
//! Nothing is read before somebody asks. What is read stays in memory up to `client_body_buffer_size` and goes to a
//! temporary file beyond that (`body_file.rs`).

use std::{
    cell::{Cell, RefCell},
    io,
    path::PathBuf,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tidegate_http::{BodyLength, chunked::ChunkedDecoder};

use crate::{
    body_file::{BodyFile, Overflow},
    chunks::{decode_chunks, has_chunks},
    clock,
    log::{Level, SysError},
    phase::{Ready, Step},
    request::Request,
};

/// Most that one read of a body takes.
const READ_BYTES_MAX: usize = 64 << 10;

/// Memory for a body that a request keeps for the next.
const MEMORY_KEPT_MAX: usize = 64 << 10;

/// How the end of a body is known.
#[derive(Debug, Default)]
enum Framing {
    /// No body.
    #[default]
    None,
    /// This many bytes are still to come.
    Length(u64),
    /// Chunked.
    Chunked(Box<ChunkedDecoder>),
    /// All that comes on the request's stream. So many bytes are to come where the client has said how many.
    Stream(Option<u64>),
}

/// The body of a request.
#[derive(Debug, Default)]
pub struct RequestBody {
    framing: RefCell<Framing>,
    /// All of it has been read, or there is none.
    complete: Cell<bool>,
    /// It was read into memory or a file for the handlers.
    loaded: Cell<bool>,
    /// The part of the body that is in memory.
    pub memory: RefCell<Vec<u8>>,
    /// The file that holds the body, if it went to one.
    pub file: RefCell<Option<BodyFile>>,
    received: Cell<u64>,
    /// When reading what nobody wants of it is over, in milliseconds; 0 before that has begun.
    lingering_until_ms: Cell<u64>,
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client has gone, or the connection broke: nobody to answer to.
    #[error("client prematurely closed connection")]
    Gone,
    /// The body does not come in time: 408.
    #[error("client timed out (110: Connection timed out)")]
    TimedOut,
    /// It is larger than `client_max_body_size`: 413.
    #[error("client intended to send too large body: {0} bytes")]
    TooLarge(u64),
    /// It is larger than that by the chunks that have come: 413.
    #[error("client intended to send too large chunked body: {before}+{more} bytes")]
    TooLargeChunked {
        /// Bytes that were accepted.
        before: u64,
        /// Bytes that were too many.
        more: u64,
    },
    /// The client's protocol tells that the request is malformed, and has told the log: 400.
    #[error("client sent a malformed request")]
    Malformed,
    /// The chunks are malformed: 400.
    #[error("client sent invalid chunked body")]
    BadChunk,
    /// The body cannot be stored: 500.
    #[error("{call} \"{}\" failed {}", path.display(), SysError(source))]
    Store {
        /// The system call that failed.
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BodyError {
    /// The step with which the engine goes on after the error: a status, or the end of the connection.
    pub fn step(&self) -> Step {
        match self {
            BodyError::Gone => Step::Close,
            BodyError::TimedOut => Step::Status(408),
            BodyError::TooLarge(_) | BodyError::TooLargeChunked { .. } => Step::Status(413),
            BodyError::Malformed | BodyError::BadChunk => Step::Status(400),
            BodyError::Store { .. } => Step::Status(500),
        }
    }
}

impl RequestBody {
    /// Bytes of it that have come.
    pub fn received_bytes(&self) -> u64 {
        self.received.get()
    }
    /// Makes it one of which nothing has come; a little memory stays.
    pub(crate) fn reset(&mut self) {
        let RequestBody { framing, complete, loaded, memory, file, received, lingering_until_ms } = self;
        *framing.get_mut() = Framing::None;
        complete.set(false);
        loaded.set(false);
        let memory = memory.get_mut();
        if memory.capacity() > MEMORY_KEPT_MAX {
            *memory = Vec::new();
        } else {
            memory.clear();
        }
        *file.get_mut() = None;
        received.set(0);
        lingering_until_ms.set(0);
    }

    pub(crate) fn begin(&mut self, length: Option<u64>, chunked: bool) {
        *self.framing.get_mut() = match (chunked, length) {
            (true, _) => Framing::Chunked(Box::default()),
            (false, Some(length)) if length > 0 => Framing::Length(length),
            _ => Framing::None,
        };
        self.complete.set(matches!(self.framing.get_mut(), Framing::None));
    }

    /// As [`begin`](Self::begin), on a stream of its own, whose end is that of the body.
    pub(crate) fn begin_stream(&self, length: Option<u64>, ended: bool) {
        *self.framing.borrow_mut() = match length {
            _ if ended => Framing::None,
            length => Framing::Stream(length),
        };
        self.complete.set(matches!(*self.framing.borrow(), Framing::None));
    }

    /// Takes only the first `length` bytes for the body, where its length was announced and more is to come. Answers
    /// whether it is shorter now: the rest is then not to be taken for another request.
    pub fn shorten(&self, length: u64) -> bool {
        let mut framing = self.framing.borrow_mut();
        let is_shorter = |left| length > 0 && length < left;
        match *framing {
            Framing::Length(left) | Framing::Stream(Some(left)) if is_shorter(left) => {
                *framing = Framing::Length(length);
                true
            }
            _ => false,
        }
    }

    /// Gives a sub-request a body of its own.
    pub fn set(&self, bytes: Vec<u8>) {
        *self.framing.borrow_mut() = Framing::None;
        *self.memory.borrow_mut() = bytes;
        *self.file.borrow_mut() = None;
        self.complete.set(true);
        self.loaded.set(true);
    }

    /// Whether nothing of it is left on the connection.
    pub fn is_consumed(&self) -> bool {
        self.complete.get()
    }
    /// Whether it was read for the handlers.
    pub fn is_loaded(&self) -> bool {
        self.loaded.get()
    }
    /// How a body ends of which nothing was read and that nobody claimed; `None` for any other, and for none at all.
    pub fn untouched(&self) -> Option<BodyLength> {
        if self.loaded.get() || self.complete.get() || self.received.get() > 0 {
            return None;
        }
        match &*self.framing.borrow() {
            Framing::None => None,
            Framing::Length(left) | Framing::Stream(Some(left)) => Some(BodyLength::Known(*left)),
            Framing::Chunked(_) | Framing::Stream(None) => Some(BodyLength::Chunked),
        }
    }
    /// Marks the body as one that a handler reads piece by piece ([`Request::read_body_piece`]).
    pub fn mark_loaded(&self) {
        self.loaded.set(true);
    }
    /// Length of what was loaded.
    pub fn len(&self) -> u64 {
        self.file.borrow().as_ref().map_or_else(|| self.memory.borrow().len() as u64, |file| file.len())
    }
    /// Whether nothing was loaded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Request {
    /// Reads the whole body, into memory or a file. Does nothing when that has been done.
    pub fn read_body(self: &Rc<Self>) -> Ready<Result<(), BodyError>> {
        if self.body.is_loaded() || self.is_subrequest() {
            return Ready::Now(Ok(()));
        }
        if self.body.is_consumed() {
            self.body.loaded.set(true);
            self.queue_continue();
            return Ready::Now(Ok(()));
        }
        if let Err(error) = self.check_announced_length() {
            return Ready::Now(Err(error));
        }
        // Often the whole body came with the head.
        match self.take_buffered_body() {
            Ok(true) if self.body.memory.borrow().len() <= self.http_conf().client_body_memory_bytes() => {
                self.body.loaded.set(true);
                return Ready::Now(Ok(()));
            }
            Ok(_) => {}
            Err(error) => {
                self.report_body_error(&error);
                return Ready::Now(Err(error));
            }
        }
        let req = self.clone();
        Ready::later(async move {
            let result = req.load_body().await;
            if let Err(error) = &result {
                req.report_body_error(error);
            }
            result
        })
    }

    /// Loads a body that has come as a whole already, as far as one more look at the connection tells. A handler that
    /// passes bodies on as they come can then treat it as any other that was read before.
    ///
    /// Source: nginx, the end of `ngx_http_read_client_request_body`.
    pub fn load_body_at_hand(self: &Rc<Self>) {
        let room = self.http_conf().client_body_memory_bytes();
        let is_here = |input: &[u8]| match &*self.body.framing.borrow() {
            Framing::None => false,
            Framing::Length(left) => *left <= input.len() as u64 && *left <= room as u64,
            Framing::Chunked(decoder) => {
                let mut content = Vec::new();
                let decoded = decode_chunks(&mut decoder.clone(), input, &mut content);
                content.len() <= room && decoded.is_ok_and(|(_, complete)| complete)
            }
            Framing::Stream(_) => self.client.is_input_whole() && input.len() <= room,
        };
        let expects = self.head.borrow().expect_continue;
        if self.is_subrequest() || self.body.is_loaded() || self.body.is_consumed() || expects {
            return;
        }
        self.make_read_room();
        // An end or an error shows again when more is wanted.
        let _ = self.client.read_more_now();
        if is_here(&self.client.input().borrow()) && self.take_buffered_body().is_ok() {
            self.body.loaded.set(true);
        }
    }

    /// Whether a body that nobody has claimed begins with bytes that are no chunks, as far as they are here; the log says so
    /// then. What follows cannot be told apart, so that the request gets 400 whatever its handler has to say.
    ///
    /// Source: nginx, `ngx_http_discard_request_body`.
    pub fn has_malformed_body(&self) -> bool {
        let is_malformed = match &*self.body.framing.borrow() {
            Framing::Chunked(decoder) if self.body.untouched().is_some() => {
                !has_chunks(&mut decoder.clone(), &self.client.input().borrow())
            }
            _ => false,
        };
        if is_malformed {
            self.report_body_error(&BodyError::BadChunk);
        }
        is_malformed
    }

    /// Answers 413 for a length that is too large before a byte of it is read.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`].
    pub fn check_announced_length(&self) -> Result<(), BodyError> {
        let max = self.http_conf().client_max_body_bytes();
        match *self.body.framing.borrow() {
            Framing::Length(length) | Framing::Stream(Some(length)) if max > 0 && length > max => {
                let error = BodyError::TooLarge(length);
                self.report_body_error(&error);
                Err(error)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn report_body_error(&self, error: &BodyError) {
        // The rest of the body is not worth reading: the answer goes out and the connection closes.
        self.flags().keep_alive.set(false);
        let level = match error {
            BodyError::Malformed => return,
            BodyError::Gone | BodyError::TimedOut => Level::Info,
            BodyError::Store { .. } => Level::Crit,
            _ => Level::Error,
        };
        if matches!(error, BodyError::Gone) && !self.header_sent() {
            // Nothing is sent; the access log shows what nginx shows.
            self.response.borrow_mut().status = 400;
        }
        if matches!(error, BodyError::TimedOut) {
            self.client.note_timeout();
        }
        self.log(level, format_args!("{error}"));
    }

    async fn load_body(self: &Rc<Self>) -> Result<(), BodyError> {
        self.send_continue().await?;
        let timeout_ms = self.http_conf().client_body_timeout_ms();
        let mut overflow = Overflow::new(self);
        loop {
            let is_whole = self.body.is_consumed() || self.take_buffered_body()?;
            overflow.take().await?;
            if is_whole {
                overflow.finish().await?;
                self.body.loaded.set(true);
                return Ok(());
            }
            self.make_read_room();
            match self.client.read_more(timeout_ms).await {
                Ok(0) if !self.client.is_input_whole() => return Err(BodyError::Gone),
                Ok(_) => clock::update(),
                Err(error) => return Err(self.failed_read(&error)),
            }
        }
    }

    /// What it means for the body that nothing more can be read.
    fn failed_read(&self, error: &io::Error) -> BodyError {
        match error.kind() {
            io::ErrorKind::TimedOut => BodyError::TimedOut,
            _ if self.client.is_malformed() => BodyError::Malformed,
            _ => BodyError::Gone,
        }
    }

    /// Makes the connection's buffer as large as `client_body_buffer_size`, if so much is to come.
    fn make_read_room(&self) {
        let expected = match &*self.body.framing.borrow() {
            Framing::None => 0,
            Framing::Length(left) | Framing::Stream(Some(left)) => usize::try_from(*left).unwrap_or(usize::MAX),
            Framing::Chunked(_) | Framing::Stream(None) => usize::MAX,
        };
        let wanted = expected.min(self.http_conf().client_body_buffer_bytes()).min(READ_BYTES_MAX);
        let mut input = self.client.input().borrow_mut();
        if input.capacity() < wanted {
            let more = wanted - input.len();
            input.reserve(more);
        }
    }

    /// Tells a client that sends no body, and waits for permission to send none, to go on: with the response.
    fn queue_continue(&self) {
        let mut head = self.head.borrow_mut();
        if head.expect_continue && !self.header_sent() {
            head.expect_continue = false;
            self.client.queue_go_on();
        }
    }

    /// Tells a client that waits for it to go on.
    async fn send_continue(&self) -> Result<(), BodyError> {
        let expects = self.head.borrow().expect_continue;
        if !expects || self.header_sent() || !self.client.input().borrow().is_empty() {
            return Ok(());
        }
        self.head.borrow_mut().expect_continue = false;
        self.client.queue_go_on();
        self.client.flush(self.http_conf().send_timeout_ms()).await.map_err(|_| BodyError::Gone)
    }

    /// Takes what is in the connection's buffer into memory; answers whether the body is complete.
    fn take_buffered_body(&self) -> Result<bool, BodyError> {
        self.decode_buffered(&mut self.body.memory.borrow_mut())
    }

    /// Decodes what is in the connection's buffer into `out`; answers whether the body is complete.
    fn decode_buffered(&self, out: &mut Vec<u8>) -> Result<bool, BodyError> {
        let mut input = self.client.input().borrow_mut();
        let mut framing = self.body.framing.borrow_mut();
        let before = out.len();
        let (used, complete) = match &mut *framing {
            Framing::None => (0, true),
            Framing::Length(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                out.extend_from_slice(&input[..used]);
                *left -= used as u64;
                (used, *left == 0)
            }
            Framing::Chunked(decoder) => decode_chunks(decoder, &input, out).map_err(|_| {
                self.flags().keep_alive.set(false);
                BodyError::BadChunk
            })?,
            Framing::Stream(left) => {
                out.extend_from_slice(&input);
                *left = left.map(|left| left.saturating_sub(input.len() as u64));
                (input.len(), self.client.is_input_whole())
            }
        };
        input.drain(..used);
        self.client.note_used(used);
        let received = self.body.received.get() + (out.len() - before) as u64;
        self.body.received.set(received);
        let max = self.http_conf().client_max_body_bytes();
        // A chunk that announces too much need not come.
        let announced = if let Framing::Chunked(decoder) = &*framing { decoder.left_in_chunk() } else { 0 };
        if max > 0 && received.saturating_add(announced) > max {
            return Err(match *framing {
                Framing::Chunked(_) => {
                    let more = (out.len() - before) as u64;
                    BodyError::TooLargeChunked { before: received - more, more: more + announced }
                }
                _ => BodyError::TooLarge(received),
            });
        }
        self.body.complete.set(complete);
        Ok(complete)
    }

    /// Reads a piece of the body as it comes, for handlers that pass it on or parse it: appends to `out`, answers
    /// whether that was the last.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub async fn read_body_piece(self: &Rc<Self>, out: &mut Vec<u8>, timeout_ms: u64) -> Result<bool, BodyError> {
        if self.body.is_consumed() {
            return Ok(true);
        }
        self.send_continue().await?;
        let before = out.len();
        loop {
            let complete = self.decode_buffered(out)?;
            if complete || out.len() > before {
                return Ok(complete);
            }
            self.make_read_room();
            match self.client.read_more(timeout_ms).await {
                Ok(0) if !self.client.is_input_whole() => return Err(BodyError::Gone),
                Ok(_) => clock::update(),
                Err(error) => return Err(self.failed_read(&error)),
            }
        }
    }

    /// Reads a piece of the body as it comes, without a limit of time: appends to `out`, answers whether that was the
    /// last. Who waits for it has called [`request_body_now`](Self::request_body_now) before.
    ///
    /// # Errors
    /// See [`BodyError`].
    pub fn poll_body_piece(&self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        if self.body.is_consumed() {
            return Poll::Ready(Ok(true));
        }
        let before = out.len();
        loop {
            let complete = self.decode_buffered(out)?;
            if complete || out.len() > before {
                return Poll::Ready(Ok(complete));
            }
            match ready!(self.client.poll_read_more(cx)) {
                Ok(1..) => {}
                Ok(0) if self.client.is_input_whole() => {}
                Ok(0) => return Poll::Ready(Err(BodyError::Gone)),
                Err(error) => return Poll::Ready(Err(self.failed_read(&error))),
            }
        }
    }

    /// Tells a client that waits for it to send the body; `false` when it cannot be told at once.
    pub fn request_body_now(&self) -> bool {
        let expects = self.head.borrow().expect_continue;
        if !expects || self.header_sent() {
            return true;
        }
        self.head.borrow_mut().expect_continue = false;
        self.client.queue_go_on();
        matches!(self.client.write_now(), Ok(true))
    }

    /// Drops what has come of a body that nobody wanted; answers whether that was all.
    pub(crate) fn discard_buffered_body(&self) -> Result<bool, BodyError> {
        self.decode_buffered(&mut Vec::new())
    }

    /// Reads what nobody wanted, so that the next request can be found behind it.
    ///
    /// # Errors
    /// See [`BodyError`]; the connection then has to be closed.
    pub(crate) async fn discard_body(self: &Rc<Self>) -> Result<(), BodyError> {
        if self.head.borrow().expect_continue && self.client.input().borrow().is_empty() {
            // The client was never told to go on; what it does now is its choice, so nothing can be told apart.
            return Err(BodyError::Gone);
        }
        let mut dropped = Vec::new();
        loop {
            let Some(pause_ms) = self.lingering_pause_ms() else { return Err(BodyError::TimedOut) };
            dropped.clear();
            if self.read_body_piece(&mut dropped, pause_ms).await? {
                return Ok(());
            }
        }
    }

    /// How long to wait for more of what nobody wants, the rest of a body or what follows the last response; `None` when
    /// `lingering_time` is over, which begins with the first call.
    ///
    /// Source: nginx, `lingering_time`, `lingering_timeout`.
    pub(crate) fn lingering_pause_ms(&self) -> Option<u64> {
        let (conf, now_ms) = (self.keepalive_conf(), clock::steady_ms());
        if self.body.lingering_until_ms.get() == 0 {
            self.body.lingering_until_ms.set(now_ms.saturating_add(conf.lingering_time_ms()));
        }
        let left_ms = self.body.lingering_until_ms.get().saturating_sub(now_ms);
        (left_ms > 0).then(|| left_ms.min(conf.lingering_timeout_ms()))
    }
}
