//! One try over a connection that other requests use at the same time (`lane.rs`).

use std::future::poll_fn;

use super::{
    balance::Lease,
    body::SendBody,
    exchange::{Exchange, Protocol, READING_HEAD, Stop},
    failure::Failure,
    lane::{self, Measure, Outcome},
    socket::Socket,
};
use crate::log::Level;

impl<P: Protocol> Exchange<'_, P> {
    /// Asks a peer over a connection with company; answers the connection when a head has come that is not to be taken for
    /// a failure. `None`: the request has to ask alone.
    pub(super) async fn attempt_shared(&mut self, lease: &Lease, measure: Measure) -> Result<Option<Socket>, Stop> {
        let Some(place) = self.join(lease, measure) else { return Ok(None) };
        self.begin_answer();
        self.sent = true;
        let outcome = poll_fn(|cx| place.poll(cx, &self.watch)).await;
        drop(place);
        let mut socket = match outcome {
            Outcome::Answered(socket) => socket,
            Outcome::Alone(socket) => return Box::pin(self.go_on_alone(*socket)).await.map(Some),
            Outcome::Lost => {
                self.sent = false;
                return Ok(None);
            }
            Outcome::ClientGone => return Err(Stop::ClientGone),
        };
        if !self.parse_head(&mut socket)? {
            return Err(Failure::InvalidHeader.into());
        }
        self.head_came(&socket)?;
        Ok(Some(socket))
    }

    /// A request that only reads and goes over connections that are kept.
    fn join(&self, lease: &Lease, measure: Measure) -> Option<lane::Place> {
        let attempt = &self.selection.attempt;
        let may_share = attempt.keepalive.connections > 0
            && self.tls().is_none()
            && self.body == SendBody::None
            && self.protocol.is_repeatable(self.req);
        if !may_share {
            return None;
        }
        let destination = self.destination(lease);
        let timeout_ms = attempt.timeouts.read_ms;
        let join = |request: &[u8]| lane::join(destination, &attempt.keepalive, request, measure, timeout_ms);
        self.req.upstream_record(|record| join(&record.request)).flatten()
    }

    /// The lane has ended with this request as its only one: reads the rest of the answer.
    async fn go_on_alone(&mut self, mut socket: Socket) -> Result<Socket, Stop> {
        self.is_whole = true;
        if !self.parse_head(&mut socket)? {
            if socket.input.len() >= self.settings.head_bytes_max {
                self.req.log(Level::Error, format_args!("upstream sent too big header while {READING_HEAD}"));
                return Err(Failure::InvalidHeader.into());
            }
            self.read_head(&mut socket, true).await?;
        }
        self.head_came(&socket)?;
        Ok(socket)
    }
}
