//! A connection on which several statements are under way at once, for a lane of a pool (`pool/lane.rs`): their texts go
//! through the channel's outbox, and the answers are read one after the other.

use std::sync::Arc;

use tidegate_rows::Stage;
use tokio::time::Instant;

use super::{COM_QUERY, Conn, Protocol, State};
use crate::{channel::Outbox, options::Timeouts, packet::put_packet};

impl Conn {
    /// Gets ready for several statements at once, which come through `outbox`. Returns whether the connection can do that:
    /// a compressed one numbers what it sends.
    pub(crate) fn share(&mut self, outbox: &Outbox) -> bool {
        if self.channel.compressed.is_some() || self.begin().is_err() {
            return false;
        }
        self.put_reset();
        self.state = State::MoreResults;
        self.unfinished = true;
        self.channel.outbox = Some(Arc::clone(outbox));
        true
    }

    /// Writes a statement's packet into an outbox.
    pub(crate) fn put_shared(outbox: &mut Vec<u8>, sql: &[u8]) {
        put_packet(outbox, &mut 0, &[&[COM_QUERY], sql]);
    }

    /// The answer of the next statement comes now. Its first word is waited for since `begin`.
    pub(crate) fn begin_shared(&mut self, begin: Instant, timeouts: Timeouts, deadline: Option<(Instant, Stage)>) {
        self.state = State::MoreResults;
        self.protocol = Protocol::Text;
        (self.sent, self.unfinished) = (true, true);
        self.answer_sequence = 1;
        self.channel.input.sequence = 1;
        self.channel.begin_shared(begin, timeouts);
        self.channel.deadline = deadline;
    }

    /// All statements were answered.
    pub(crate) fn unshare(&mut self) {
        self.channel.outbox = None;
    }
}
