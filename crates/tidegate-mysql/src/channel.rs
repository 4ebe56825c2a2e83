//! A stream of packets: the socket, the buffers on both sides of it, and the time-outs of its waits.

use std::{
    future::poll_fn,
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tidegate_rows::{QueryError, ServerError, Sink, Stage};
use tokio::time::Instant;

use crate::{
    answer,
    compress::Compressed,
    options::Timeouts,
    packet::{PacketBuffer, put_packet},
    stream::Stream,
    timer::LazyTimer,
    wire::Malformed,
};

/// Capacity of the output buffer that a connection keeps.
const OUTPUT_SIZE_MAX: usize = 64 * 1024;

/// Packets that others want to be sent while somebody waits for an answer. Only one thread uses it at a time.
pub(crate) type Outbox = Arc<Mutex<Vec<u8>>>;

/// A stream of packets.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) stream: Stream,
    pub(crate) input: PacketBuffer,
    /// Packets to send.
    output: Vec<u8>,
    /// How much of a shared connection's `output` has been sent.
    output_sent: usize,
    /// Present while the connection is shared: whoever waits for an answer sends what others put here.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) compressed: Option<Box<Compressed>>,
    timer: LazyTimer,
    timeouts: Timeouts,
    /// When the statement must have been sent and the server have begun to answer; set by the first wait.
    answer_due: Option<Instant>,
    /// Something has arrived since the statement began.
    pub(crate) heard: bool,
    /// When everything must be done, and what to say if it is not.
    pub(crate) deadline: Option<(Instant, Stage)>,
    pub(crate) peer: Arc<str>,
}

impl Channel {
    pub(crate) fn new(stream: Stream, peer: Arc<str>, timeouts: Timeouts, packet_bytes_max: usize) -> Self {
        Self {
            stream,
            input: PacketBuffer::new(packet_bytes_max),
            output: Vec::with_capacity(1024),
            output_sent: 0,
            outbox: None,
            compressed: None,
            timer: LazyTimer::default(),
            timeouts,
            answer_due: None,
            heard: false,
            deadline: None,
            peer,
        }
    }

    #[cold]
    pub(crate) fn lost(&self, source: io::Error) -> QueryError {
        QueryError::Lost { peer: self.peer.to_string(), source }
    }

    #[cold]
    pub(crate) fn protocol(&self, what: impl ToString) -> QueryError {
        QueryError::Protocol { peer: self.peer.to_string(), what: what.to_string() }
    }

    #[cold]
    pub(crate) fn malformed(&self, error: Malformed) -> QueryError {
        self.protocol(error)
    }

    pub(crate) fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.timeouts = timeouts;
        self.answer_due = None;
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// Notes that another statement begins, or that its own answer comes next.
    pub(crate) fn begin_statement(&mut self) {
        self.answer_due = None;
        self.heard = !self.input.is_empty();
    }

    /// Notes that the answer of a shared connection's next statement comes now, which has waited since `begin`.
    pub(crate) fn begin_shared(&mut self, begin: Instant, timeouts: Timeouts) {
        self.timeouts = timeouts;
        self.begin_statement();
        self.answer_due = timeouts.send_query.and_then(|timeout| begin.checked_add(timeout));
    }

    /// Adds a command to what will be sent. Returns the sequence number that its answer will begin with.
    pub(crate) fn put_command(&mut self, parts: &[&[u8]]) -> u8 {
        let mut sequence = 0;
        put_packet(&mut self.output, &mut sequence, parts);
        sequence
    }

    /// Adds the next packet of the dialogue under way.
    pub(crate) fn put_next(&mut self, payload: &[u8]) {
        put_packet(&mut self.output, &mut self.input.sequence, &[payload]);
    }

    /// Sends everything.
    pub(crate) async fn flush(&mut self, stage: Stage) -> Result<(), QueryError> {
        self.compress_output();
        let mut sent = 0;
        let mut limit = None;
        let result = poll_fn(|cx| {
            loop {
                let poll = if sent < self.output.len() {
                    self.stream.poll_write(cx, &self.output[sent..])
                } else {
                    self.stream.poll_flush(cx).map_ok(|()| 0)
                };
                match poll {
                    Poll::Ready(Ok(0)) if sent < self.output.len() => {
                        return Poll::Ready(Err(self.lost(io::ErrorKind::WriteZero.into())));
                    }
                    Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                    Poll::Ready(Ok(count)) => sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.lost(error))),
                    Poll::Pending => return self.poll_limit(&mut limit, stage, cx).map(Err),
                }
                // A plain socket has nothing to flush.
                if sent == self.output.len() && !self.stream.is_tls() {
                    return Poll::Ready(Ok(()));
                }
            }
        })
        .await;
        self.output.clear();
        if self.output.capacity() > OUTPUT_SIZE_MAX {
            self.output.shrink_to(OUTPUT_SIZE_MAX);
        }
        result
    }

    /// Sends what goes out without waiting, for a connection that ends.
    pub(crate) fn flush_now(&mut self) {
        self.compress_output();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = self.stream.poll_write(&mut cx, &self.output);
        let _ = self.stream.poll_flush(&mut cx);
    }

    fn compress_output(&mut self) {
        if let Some(compressed) = &mut self.compressed {
            let mut packed = Vec::with_capacity(self.output.len());
            compressed.compress(&self.output, &mut packed);
            self.output = packed;
        }
    }

    /// The next packet, if it has arrived.
    #[inline]
    pub(crate) fn try_packet(&mut self) -> Result<Option<Range<usize>>, QueryError> {
        self.input.take().map_err(|error| self.protocol(error))
    }

    /// The next packet.
    #[inline]
    pub(crate) async fn packet(&mut self, stage: Stage) -> Result<Range<usize>, QueryError> {
        loop {
            if let Some(at) = self.try_packet()? {
                return Ok(at);
            }
            self.fill(stage).await?;
        }
    }

    /// The first packet of a result. That of a statement's first result is waited for as long as the statement may take to
    /// be sent, from then on: libdrizzle knows one wait for both, and so do the settings made for it.
    #[inline]
    pub(crate) async fn first_packet(&mut self) -> Result<Range<usize>, QueryError> {
        let stage = if self.heard { Stage::RecvColumns } else { Stage::SendQuery };
        let packet = self.packet(stage).await;
        self.heard |= packet.is_ok();
        packet
    }

    /// Waits until more bytes have arrived.
    pub(crate) async fn fill(&mut self, stage: Stage) -> Result<(), QueryError> {
        let mut limit = None;
        poll_fn(|cx| match self.poll_fill(cx) {
            Poll::Ready(Ok(())) => {
                self.heard = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.lost(error))),
            Poll::Pending => self.poll_limit(&mut limit, stage, cx).map(Err),
        })
        .await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.outbox.is_some() {
            // What cannot go out now goes out when the socket has room; answers may come meanwhile.
            let _: bool = self.poll_outbox(cx)?.is_ready();
        }
        let Some(compressed) = &mut self.compressed else {
            let count = ready!(self.stream.poll_read(cx, self.input.space()))?;
            self.input.arrived(count);
            return Poll::Ready(if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) });
        };
        loop {
            let count = compressed.take(self.input.space())?;
            if count > 0 {
                self.input.arrived(count);
                return Poll::Ready(Ok(()));
            }
            let count = ready!(self.stream.poll_read(cx, compressed.space()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            compressed.arrived(count);
        }
    }

    /// Sends what has been put, and what lies in the outbox of a shared connection.
    fn poll_outbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(outbox) = &self.outbox {
            self.output.append(&mut outbox.lock().unwrap_or_else(PoisonError::into_inner));
        }
        while self.output_sent < self.output.len() {
            match ready!(self.stream.poll_write(cx, &self.output[self.output_sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.output_sent += count,
            }
        }
        self.output.clear();
        self.output_sent = 0;
        self.stream.poll_flush(cx)
    }

    /// Waits until the sink has room again.
    pub(crate) async fn ready<S: Sink>(&mut self, sink: &mut S) -> Result<(), QueryError> {
        poll_fn(|cx| match sink.poll_ready(cx) {
            Poll::Ready(result) => Poll::Ready(result.map_err(QueryError::from)),
            Poll::Pending => match self.deadline {
                Some((at, stage)) => self.timer.poll_deadline(at, cx).map(|()| Err(QueryError::Timeout { stage })),
                None => Poll::Pending,
            },
        })
        .await
    }

    /// Ready with an error once the wait has taken too long. `limit` is what one wait remembers between polls.
    fn poll_limit(
        &mut self,
        limit: &mut Option<Option<(Instant, Stage)>>,
        stage: Stage,
        cx: &mut Context<'_>,
    ) -> Poll<QueryError> {
        let Some((at, stage)) = *limit.get_or_insert_with(|| self.limit(stage)) else { return Poll::Pending };
        self.timer.poll_deadline(at, cx).map(|()| QueryError::Timeout { stage })
    }

    fn limit(&mut self, stage: Stage) -> Option<(Instant, Stage)> {
        let due = match stage {
            Stage::Connect | Stage::Query => None,
            Stage::SendQuery => {
                let timeout = self.timeouts.send_query;
                timeout.map(|timeout| *self.answer_due.get_or_insert_with(|| after(timeout)))
            }
            Stage::RecvColumns => self.timeouts.recv_columns.map(after),
            Stage::RecvRows => self.timeouts.recv_rows.map(after),
        };
        let own = due.map(|due| (due, stage));
        match (own, self.deadline) {
            (Some(own), Some(total)) => Some(if own.0 <= total.0 { own } else { total }),
            (own, total) => own.or(total),
        }
    }

    /// Whether bytes have arrived that are not taken yet.
    fn holds_bytes(&self) -> bool {
        !self.input.is_empty() || self.compressed.as_ref().is_some_and(|compressed| !compressed.is_empty())
    }

    /// Whether more has arrived than the answer that was just taken. On a shared connection that is the next answer.
    pub(crate) fn holds_unasked(&self) -> bool {
        self.outbox.is_none() && self.holds_bytes()
    }

    /// Whether the idle connection is still open. Bytes that nobody asked for count as closed: they are the server's
    /// farewell.
    pub(crate) fn is_open(&mut self) -> bool {
        if self.holds_bytes() {
            return false;
        }
        let mut byte = [0];
        self.stream.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
    }

    /// Gives memory back that large packets took.
    pub(crate) fn shrink(&mut self) {
        self.input.shrink();
    }

    /// What the server said before it closed the connection, when a statement could not be sent.
    #[cold]
    pub(crate) fn last_words(&mut self) -> Option<ServerError> {
        let _ = self.poll_fill(&mut Context::from_waker(Waker::noop()));
        self.arrived_error()
    }

    /// The error that the bytes which have arrived begin with, whatever its place in the sequence.
    #[cold]
    pub(crate) fn arrived_error(&mut self) -> Option<ServerError> {
        self.input.follow_sequence();
        let at = self.input.take().ok()??;
        let packet = self.input.payload(at);
        (packet.first() == Some(&answer::ERR)).then(|| answer::error(packet))
    }

    /// Moves to the worker that calls.
    pub(crate) fn rebind(&mut self) -> io::Result<()> {
        self.timer.reset();
        self.stream.rebind()
    }
}

/// The time in `timeout`; a time-out beyond the end of time is none that anybody lives to see.
pub(crate) fn after(timeout: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);
    Instant::now() + timeout.min(FAR)
}
