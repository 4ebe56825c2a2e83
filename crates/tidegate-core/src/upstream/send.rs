//! A request on its way to the peer: the head, and the body behind it, in one write where that can be.

use std::{
    future::poll_fn,
    io,
    io::IoSlice,
    task::{Context, Poll, ready},
};

use bytes::Bytes;

use super::{
    body::{Promise, SendBody, Source},
    exchange::{Exchange, Protocol, SENDING, Stop},
    record::Record,
    socket::{Socket, Wait},
};
use crate::{
    body::BodyError,
    log::{Level, SysError},
    phase::{LocalFuture, Ready, Step},
    request::Request,
    static_files::read,
    stream::Stream,
};

/// Bytes of a body that come together before they are framed or, from a client that is still sending, sent.
const BODY_PIECE_BYTES: usize = 32 << 10;

/// Bytes of a body in a file that are sent before others have their turn.
const TURN_BYTES_MAX: u64 = 2 << 20;

/// The outcome of sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything has been sent.
    All,
    /// The peer answers before it has everything.
    Part,
    /// The peer has answered before it had everything: the head of its answer is read.
    UpToAnswer,
}

/// The rest of a request whose body is loaded. A peer that begins to answer, be it with an interim response, may wait for
/// the rest before it goes on.
pub(super) struct Unsent {
    /// The piece under way, of which `done` bytes are sent.
    out: Vec<u8>,
    done: usize,
    /// Bytes of the body that are in `out` or were before.
    offset: u64,
    /// Bytes of the body that are sent altogether.
    end: u64,
    is_framed: bool,
    is_last: bool,
    /// The next piece, which another thread reads.
    reading: Option<LocalFuture<io::Result<Bytes>>>,
}

impl Unsent {
    fn new(out: Vec<u8>, body: std::ops::Range<u64>, is_framed: bool) -> Box<Self> {
        let is_last = !is_framed && body.is_empty();
        Box::new(Unsent { out, done: 0, offset: body.start, end: body.end, is_framed, is_last, reading: None })
    }

    /// Puts the next piece of the body behind what is in `out`.
    fn poll_append<P: Protocol>(&mut self, req: &Request, protocol: &P, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let next = match self.reading.take() {
            Some(reading) => Ready::Later(reading),
            None => req.body.read_piece(self.offset, left.min(BODY_PIECE_BYTES)),
        };
        let piece = match next {
            Ready::Now(piece) => piece?,
            Ready::Later(mut reading) => {
                let Poll::Ready(piece) = reading.as_mut().poll(cx) else {
                    self.reading = Some(reading);
                    return Poll::Pending;
                };
                piece?
            }
        };
        self.offset += piece.len() as u64;
        // A body that has become shorter ends where it ends.
        self.is_last = piece.is_empty() || self.offset >= self.end;
        if self.is_framed {
            protocol.frame(&piece, self.is_last, &mut self.out);
        } else {
            self.out.extend_from_slice(&piece);
        }
        Poll::Ready(Ok(()))
    }

    /// Has something to send; `false` when all is sent.
    fn poll_refill<P: Protocol>(
        &mut self,
        req: &Request,
        protocol: &P,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        if self.done < self.out.len() {
            return Poll::Ready(Ok(true));
        }
        if self.is_last {
            return Poll::Ready(Ok(false));
        }
        self.out.clear();
        self.done = 0;
        ready!(self.poll_append(req, protocol, cx))?;
        Poll::Ready(Ok(true))
    }

    /// Sends what the peer takes while its answer is waited for; `false` when there is nothing more to send.
    fn poll<P: Protocol>(&mut self, req: &Request, protocol: &P, stream: &Stream, cx: &mut Context<'_>) -> bool {
        loop {
            match self.poll_refill(req, protocol, cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Pending => return true,
                // A body that cannot be read, or a peer that takes no more of it: the answer tells what becomes of that.
                Poll::Ready(_) => return false,
            }
            match stream.try_write(&self.out[self.done..]) {
                Ok(count) => self.done += count,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return false,
                Err(_) => match stream.poll_write_ready(cx) {
                    Poll::Pending => return true,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return false,
                },
            }
        }
    }
}

impl<P: Protocol> Exchange<'_, P> {
    /// Waits for more of the answer. Meanwhile the peer gets the rest of the request.
    ///
    /// # Errors
    /// Those of the socket.
    pub(super) async fn wait_readable(&mut self, socket: &Socket) -> io::Result<Wait> {
        let timeout_ms = self.selection.attempt.timeouts.read_ms;
        let Exchange { unsent, req, protocol, watch, .. } = self;
        let wait = socket.wait(timeout_ms, watch, |stream, cx| {
            if unsent.as_mut().is_some_and(|rest| !rest.poll(req, protocol, stream, cx)) {
                *unsent = None;
            }
            stream.poll_read_ready(cx)
        });
        wait.await
    }

    /// Whether everything that was sent is what the head announced.
    pub(super) fn kept_promise(&self, socket: &Socket) -> bool {
        let head_bytes = self.req.upstream_record(|record| record.request.len() as u64).unwrap_or(0);
        match self.promise {
            Promise::Bytes(count) => socket.sent.checked_sub(head_bytes) == Some(count),
            Promise::LastFrame => true,
            Promise::Unclear => false,
        }
    }

    /// Most bytes that may follow the head: the peer would take more for another request.
    fn body_bytes_max(&self) -> u64 {
        match self.promise {
            Promise::Bytes(count) => count,
            Promise::LastFrame | Promise::Unclear => u64::MAX,
        }
    }

    pub(super) async fn send(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        self.sent = true;
        match self.body {
            SendBody::Framed(Source::Loaded(_)) => return Box::pin(self.send_frames(socket, reused)).await,
            SendBody::Raw(Source::Arriving(_)) | SendBody::Framed(Source::Arriving(_)) => {
                return Box::pin(self.send_pieces(socket, reused)).await;
            }
            SendBody::None | SendBody::Raw(Source::Loaded(_)) => {}
        }
        let mut sent = self.send_head(socket, reused).await?;
        if sent == Sent::All && matches!(self.body, SendBody::Raw(_)) && self.req.body.file.borrow().is_some() {
            sent = Box::pin(self.send_file(socket, reused)).await?;
        }
        if sent == Sent::Part {
            self.unsent = Some(self.rest_of_raw(socket.sent));
        }
        Ok(sent)
    }

    /// What remains of a request whose body goes as it is, when `sent` bytes are sent.
    #[cold]
    fn rest_of_raw(&self, sent: u64) -> Box<Unsent> {
        let mut head = self.req.upstream_record(|record| record.request.clone()).unwrap_or_default();
        let offset = sent.saturating_sub(head.len() as u64);
        head.drain(..usize::try_from(sent).unwrap_or(usize::MAX).min(head.len()));
        let end = match self.body {
            SendBody::Raw(_) => self.req.body.len().min(self.body_bytes_max()),
            SendBody::None | SendBody::Framed(_) => 0,
        };
        Unsent::new(head, offset..end, false)
    }

    /// Sends the head, and a body that is in memory together with it.
    async fn send_head(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        let mut done = 0;
        let body_bytes_max = usize::try_from(self.body_bytes_max()).unwrap_or(usize::MAX);
        loop {
            let written = {
                let slot = self.req.upstream.borrow();
                let head = slot.get().map_or(&[][..], |record: &Record| &record.request);
                let memory = self.req.body.memory.borrow();
                let body: &[u8] = if matches!(self.body, SendBody::Raw(Source::Loaded(_))) { &memory } else { &[] };
                let body = &body[..body.len().min(body_bytes_max)];
                if done == head.len() + body.len() {
                    return Ok(Sent::All);
                }
                match (head.get(done..), body) {
                    (Some(head), []) => socket.stream.try_write(head),
                    (Some(head), body) => socket.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
                    (None, body) => socket.stream.try_write(&body[done - head.len()..]),
                }
            };
            match self.after_write(socket, written, "writev()", reused).await? {
                Some(count) => done += count,
                None => return Ok(Sent::Part),
            }
        }
    }

    /// Takes the result of a write; waits when the socket is full. Answers how much was written, `None` when the peer
    /// answers already.
    async fn after_write(
        &mut self,
        socket: &mut Socket,
        written: io::Result<usize>,
        call: &str,
        reused: bool,
    ) -> Result<Option<usize>, Stop> {
        match written {
            Ok(count) => {
                socket.sent += count as u64;
                return Ok(Some(count));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(self.broken(call, &error, SENDING, socket, reused)),
        }
        let mut answers = false;
        let timeout_ms = self.selection.attempt.timeouts.send_ms;
        let wait = socket.wait(timeout_ms, &self.watch, |stream, cx| {
            if stream.poll_read_ready(cx).is_ready() {
                answers = true;
                return Poll::Ready(Ok(()));
            }
            stream.poll_write_ready(cx)
        });
        match wait.await {
            Ok(Wait::Ready) if answers => Ok(None),
            Ok(Wait::Ready) => Ok(Some(0)),
            Ok(Wait::TimedOut) => Err(self.timed_out(SENDING)),
            Ok(Wait::ClientGone) => Err(Stop::ClientGone),
            Err(error) => Err(self.broken(call, &error, SENDING, socket, reused)),
        }
    }

    /// Sends the head and a loaded body in frames. When the peer answers before it has all, the rest stays in `unsent`.
    async fn send_frames(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        // The head and the first frame leave in one write, which is worth the copy.
        let head = self.req.upstream_record(|record| record.request.clone()).unwrap_or_default();
        let end = self.req.body.len();
        let mut unsent = Unsent::new(head, 0..end, true);
        let first = poll_fn(|cx| unsent.poll_append(self.req, &self.protocol, cx)).await;
        if let Err(error) = first {
            return Err(self.body_unreadable(&error));
        }
        loop {
            let written = socket.stream.try_write(&unsent.out[unsent.done..]);
            match self.after_write(socket, written, "send()", reused).await? {
                Some(count) => unsent.done += count,
                None => {
                    self.unsent = Some(unsent);
                    return Ok(Sent::Part);
                }
            }
            match poll_fn(|cx| unsent.poll_refill(self.req, &self.protocol, cx)).await {
                Ok(true) => {}
                Ok(false) => return Ok(Sent::All),
                Err(error) => return Err(self.body_unreadable(&error)),
            }
            // Others have their turn in between.
            tokio::task::yield_now().await;
        }
    }

    #[cold]
    fn body_unreadable(&self, error: &io::Error) -> Stop {
        let error = SysError(error);
        self.req.log(Level::Alert, format_args!("pread() of the request body failed {error} while {SENDING}"));
        Stop::End(Step::Status(500))
    }

    /// Sends a piece of a body that is still coming. Interim responses of the peer change nothing; `false` when it has
    /// answered before it took everything.
    async fn send_until_answer(&mut self, socket: &mut Socket, bytes: &[u8], reused: bool) -> Result<bool, Stop> {
        let mut done = 0;
        while done < bytes.len() {
            let written = socket.stream.try_write(&bytes[done..]);
            match self.after_write(socket, written, "send()", reused).await? {
                Some(count) => done += count,
                None if self.read_head_at_hand(socket, reused).await? => return Ok(false),
                None => {}
            }
        }
        Ok(true)
    }

    /// Sends a body that is in a file.
    async fn send_file(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        let Some((file, len)) = self.req.body.file.borrow().as_ref().map(|body| (body.file().clone(), body.len()))
        else {
            return Ok(Sent::All);
        };
        let len = len.min(self.body_bytes_max());
        let (mut offset, mut turn_end) = (0, 0);
        while offset < len {
            if offset >= turn_end {
                turn_end = len.min(offset + TURN_BYTES_MAX);
                if let Some(reading) = read::fetch(&file, offset, turn_end - offset) {
                    // Whatever became of it, sending tells.
                    let _ = reading.await;
                }
            }
            let written = socket.stream.try_sendfile(&file, offset, turn_end - offset);
            if matches!(written, Ok(0)) {
                let message = format_args!("sendfile() reported that the request body was truncated at {offset}");
                self.req.log(Level::Alert, message);
                return Err(Stop::End(Step::Status(500)));
            }
            match self.after_write(socket, written, "sendfile()", reused).await? {
                Some(count) => offset += count as u64,
                None => return Ok(Sent::Part),
            }
            // Others have their turn in between.
            tokio::task::yield_now().await;
        }
        Ok(Sent::All)
    }

    /// Sends the head, and a body as it comes from the client: together, as far as it is here.
    async fn send_pieces(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        socket.stream.set_nodelay();
        let req = self.req;
        // Whatever becomes of it, no other handler gets the rest of this body for a whole one.
        req.body.mark_loaded();
        let timeout_ms = req.http_conf().client_body_timeout_ms();
        let mut out = req.upstream_record(|record| record.request.clone()).unwrap_or_default();
        let (mut piece, mut left) = (Vec::with_capacity(BODY_PIECE_BYTES), self.body_bytes_max());
        loop {
            piece.clear();
            let last = {
                let mut reading = std::pin::pin!(req.read_body_piece(&mut piece, timeout_ms));
                let at_hand = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
                let read = match at_hand {
                    Poll::Ready(read) => read,
                    Poll::Pending => {
                        if !self.send_until_answer(socket, &std::mem::take(&mut out), reused).await? {
                            return Ok(Sent::UpToAnswer);
                        }
                        loop {
                            let answer = poll_fn(|cx| socket.stream.poll_read_ready(cx));
                            tokio::select! {
                                biased;
                                read = &mut reading => break read,
                                _ = answer => {}
                            }
                            if self.read_head_at_hand(socket, reused).await? {
                                return Ok(Sent::UpToAnswer);
                            }
                        }
                    }
                };
                read.map_err(|error| self.body_failed(&error))?
            };
            let start = out.len();
            match self.body {
                SendBody::Framed(_) => self.protocol.frame(&piece, last, &mut out),
                SendBody::Raw(_) | SendBody::None => out.extend_from_slice(&piece),
            }
            let body_bytes = ((out.len() - start) as u64).min(left);
            left -= body_bytes;
            out.truncate(start + body_bytes as usize);
            if !self.send_until_answer(socket, &out, reused).await? {
                return Ok(Sent::UpToAnswer);
            }
            if last {
                return Ok(Sent::All);
            }
            out.clear();
        }
    }

    fn body_failed(&self, error: &BodyError) -> Stop {
        self.req.report_body_error(error);
        match error {
            BodyError::Gone => Stop::ClientGone,
            error => Stop::End(error.step()),
        }
    }
}
