//! Rows on their way into a response.

use std::{
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tidegate_core::{
    output::{Chunk, Closed},
    phase::{LocalFuture, Ready},
    request::Request,
};
use tidegate_rows::{Column, Flow, Format, Row, Sink, SinkClosed, Summary};

/// Rows that come together before they are sent, in bytes: two of nginx's output buffers.
pub(super) const SEND_BYTES: usize = 64 << 10;

/// Output that may wait for a slow client before the database has to wait, in bytes.
const BACKLOG_BYTES_MAX: u64 = 256 << 10;

/// Whether the client is slow enough for whoever fills its response to wait.
pub(super) fn has_backlog(req: &Request) -> bool {
    req.client.unsent_bytes() > BACKLOG_BYTES_MAX
}

/// Waits until the client has taken much of what was sent.
pub(super) async fn drain(req: &Request) -> Result<(), Closed> {
    let timeout_ms = req.http_conf().send_timeout_ms();
    req.client.drain_to(BACKLOG_BYTES_MAX / 2, timeout_ms).await.map_err(|_| Closed)
}

/// Writes rows into the response of a request. The database waits while the client is slow.
pub(super) struct ResponseSink<F> {
    req: Rc<Request>,
    format: F,
    out: Vec<u8>,
    /// The rest of the answer, in place of `out`.
    last: Option<Bytes>,
    /// Something was sent already: the length of the response is not known beforehand.
    streaming: bool,
    waiting: Option<LocalFuture<Result<(), Closed>>>,
    closed: bool,
    kept: Option<Kept>,
}

/// What has been sent, for whoever keeps the answer.
struct Kept {
    pieces: Vec<Bytes>,
    /// How much more there may be.
    bytes_left: usize,
}

impl Kept {
    /// Takes a piece of output; `None` if that is too much.
    fn and(mut self, piece: &Bytes) -> Option<Self> {
        self.bytes_left = self.bytes_left.checked_sub(piece.len())?;
        self.pieces.push(piece.clone());
        Some(self)
    }
}

impl<F: Format> ResponseSink<F> {
    /// A sink for `req`, whose head has been prepared but not sent.
    pub(super) fn new(req: Rc<Request>, format: F) -> Self {
        ResponseSink {
            req,
            format,
            out: Vec::new(),
            last: None,
            streaming: false,
            waiting: None,
            closed: false,
            kept: None,
        }
    }

    /// Keeps what is sent, up to so many bytes.
    pub(super) fn keep(&mut self, bytes_max: usize) {
        self.kept = Some(Kept { pieces: Vec::new(), bytes_left: bytes_max });
    }

    /// The whole answer, if it was to be kept and is not too large; nothing of the result comes any more.
    pub(super) fn pieces(&mut self) -> Option<Vec<Bytes>> {
        let kept = self.kept.take()?;
        self.out.shrink_to_fit();
        let last = Bytes::from(std::mem::take(&mut self.out));
        let kept = kept.and(&last);
        self.last = Some(last);
        kept.map(|kept| kept.pieces)
    }

    /// Sends what is left. A response that fits into one piece has its length announced.
    ///
    /// # Errors
    /// [`Closed`] when the client has gone.
    pub(super) async fn finish(self) -> Result<(), Closed> {
        if let Some(waiting) = self.waiting {
            waiting.await?;
        }
        if self.closed {
            return Err(Closed);
        }
        let last = self.last.unwrap_or_else(|| self.out.into());
        if !self.streaming {
            self.req.response.borrow_mut().content_length = Some(last.len() as u64);
        }
        self.req.send(Chunk::bytes(last).and_last()).wait().await
    }

    /// Whether nothing has been sent: an error can still get a status of its own.
    pub(super) fn is_untouched(&self) -> bool {
        !self.streaming
    }

    fn send(&mut self) -> Flow {
        self.streaming = true;
        let rows = Bytes::from(std::mem::replace(&mut self.out, Vec::with_capacity(SEND_BYTES + 4096)));
        self.kept = self.kept.take().and_then(|kept| kept.and(&rows));
        match self.req.send(Chunk::bytes(rows)) {
            Ready::Now(Ok(())) if !has_backlog(&self.req) => Flow::More,
            Ready::Now(Ok(())) => {
                let req = self.req.clone();
                self.waiting = Some(Box::pin(async move { drain(&req).await }));
                Flow::Full
            }
            Ready::Now(Err(Closed)) => {
                self.closed = true;
                Flow::Full
            }
            Ready::Later(sending) => {
                self.waiting = Some(sending);
                Flow::Full
            }
        }
    }
}

impl<F: Format> Sink for ResponseSink<F> {
    fn columns(&mut self, columns: &[Column]) {
        self.format.columns(columns, &mut self.out);
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.format.row(row, &mut self.out);
        if self.out.len() < SEND_BYTES { Flow::More } else { self.send() }
    }
    fn end_result(&mut self, summary: &Summary) {
        self.format.end_result(summary, &mut self.out);
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if self.closed {
            return Poll::Ready(Err(SinkClosed));
        }
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(Ok(()));
        };
        let result = std::task::ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        self.closed = result.is_err();
        Poll::Ready(result.map_err(|Closed| SinkClosed))
    }
}
