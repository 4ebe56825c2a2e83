//! A request on its way to the peer: the head, and the body behind it, in one write where that can be.

use std::{io, io::IoSlice};

use super::{
    body::{Promise, SendBody, Source},
    exchange::{Exchange, Protocol, SENDING, Stop},
    record::Record,
    socket::{Socket, Wait},
};
use crate::{
    body::BodyError,
    log::{Level, SysError},
    phase::Step,
};

/// Bytes of a body that come together before they are framed or, from a client that is still sending, sent.
const BODY_PIECE_BYTES: usize = 32 << 10;

/// The outcome of sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything has been sent.
    All,
    /// The peer answers before it has everything.
    Part,
}

impl<P: Protocol> Exchange<'_, P> {
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
        if let SendBody::Framed(Source::Loaded(_)) = self.body {
            return Box::pin(self.send_frames(socket, reused)).await;
        }
        let sent = self.send_head(socket, reused).await?;
        if sent == Sent::Part {
            return Ok(sent);
        }
        match self.body {
            SendBody::None => Ok(sent),
            SendBody::Raw(Source::Loaded(_)) if self.req.body.file.borrow().is_none() => Ok(sent),
            SendBody::Raw(Source::Loaded(_)) => Box::pin(self.send_file(socket, reused)).await,
            SendBody::Raw(Source::Arriving(_)) | SendBody::Framed(_) => {
                Box::pin(self.send_pieces(socket, reused)).await
            }
        }
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
            // What it said before it closed is its answer.
            Err(_) if !socket.input.is_empty() => return Ok(None),
            Err(error) => return Err(self.broken(call, &error, SENDING, socket, reused)),
        }
        let mut answers = false;
        let timeout_ms = self.selection.attempt.timeouts.send_ms;
        let wait = socket.wait(timeout_ms, &self.watch, |stream, cx| {
            if stream.poll_read_ready(cx).is_ready() {
                answers = true;
                return std::task::Poll::Ready(Ok(()));
            }
            stream.poll_write_ready(cx)
        });
        match wait.await {
            Ok(Wait::Ready) if answers && P::ANSWERS_EARLY => Ok(self.read_early(socket).then_some(0)),
            Ok(Wait::Ready) if answers => Ok(None),
            Ok(Wait::Ready) => Ok(Some(0)),
            Ok(Wait::TimedOut) => Err(self.timed_out(SENDING)),
            Ok(Wait::ClientGone) => Err(Stop::ClientGone),
            Err(error) => Err(self.broken(call, &error, SENDING, socket, reused)),
        }
    }

    /// Takes in what the peer says while it still wants the rest of the request. `false` when it has closed, or when as
    /// much has come as is kept of an answer that nobody takes yet.
    fn read_early(&self, socket: &mut Socket) -> bool {
        let room = self.settings.buffer_bytes.saturating_sub(socket.input.len());
        if room == 0 {
            return false;
        }
        socket.reserve(room);
        match socket.try_read() {
            Ok(count) => count > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Sends the head and a loaded body in frames.
    async fn send_frames(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        // The head and the first frame leave in one write, which is worth the copy.
        let mut out = self.req.upstream_record(|record| record.request.clone()).unwrap_or_default();
        let len = self.req.body.len();
        let (mut piece, mut offset) = (Vec::new(), 0);
        loop {
            piece.clear();
            if let Err(error) = self.req.body.read_piece(offset, BODY_PIECE_BYTES, &mut piece) {
                let error = SysError(&error);
                self.req.log(Level::Alert, format_args!("pread() of the request body failed {error} while {SENDING}"));
                return Err(Stop::End(Step::Status(500)));
            }
            offset += piece.len() as u64;
            let last = offset >= len;
            self.protocol.frame(&piece, last, &mut out);
            if self.send_all(socket, &out, reused).await? == Sent::Part {
                return Ok(Sent::Part);
            }
            if last {
                return Ok(Sent::All);
            }
            out.clear();
            // Others have their turn in between.
            tokio::task::yield_now().await;
        }
    }

    async fn send_all(&mut self, socket: &mut Socket, bytes: &[u8], reused: bool) -> Result<Sent, Stop> {
        let mut done = 0;
        while done < bytes.len() {
            let written = socket.stream.try_write(&bytes[done..]);
            match self.after_write(socket, written, "send()", reused).await? {
                Some(count) => done += count,
                None => return Ok(Sent::Part),
            }
        }
        Ok(Sent::All)
    }

    /// Sends a body that is in a file.
    async fn send_file(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        let Some((file, len)) = self.req.body.file.borrow().as_ref().map(|body| (body.file.clone(), body.len)) else {
            return Ok(Sent::All);
        };
        let len = len.min(self.body_bytes_max());
        let mut offset = 0;
        while offset < len {
            let written = socket.stream.try_sendfile(&file, offset, len - offset);
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

    /// Sends a body as it comes from the client.
    async fn send_pieces(&mut self, socket: &mut Socket, reused: bool) -> Result<Sent, Stop> {
        socket.stream.set_nodelay();
        // Whatever becomes of it, no other handler gets the rest of this body for a whole one.
        self.req.body.mark_loaded();
        let timeout_ms = self.req.http_conf().client_body_timeout_ms();
        let (mut piece, mut framed) = (Vec::with_capacity(BODY_PIECE_BYTES), Vec::new());
        let mut left = self.body_bytes_max();
        loop {
            piece.clear();
            framed.clear();
            let last = {
                let reading = self.req.read_body_piece(&mut piece, timeout_ms);
                let answer = std::future::poll_fn(|cx| socket.stream.poll_read_ready(cx));
                tokio::select! {
                    biased;
                    read = reading => read.map_err(|error| self.body_failed(&error))?,
                    _ = answer => return Ok(Sent::Part),
                }
            };
            match self.body {
                SendBody::Framed(_) => self.protocol.frame(&piece, last, &mut framed),
                SendBody::Raw(_) | SendBody::None => std::mem::swap(&mut piece, &mut framed),
            }
            framed.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= framed.len() as u64;
            if self.send_all(socket, &framed, reused).await? == Sent::Part {
                return Ok(Sent::Part);
            }
            if last {
                return Ok(Sent::All);
            }
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
