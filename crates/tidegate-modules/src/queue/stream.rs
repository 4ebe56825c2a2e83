//! A consumer gets messages as they come, as Server-Sent Events.
//!
//! ```text
//! retry: 1000
//!
//! event: message
//! data: {"id":1,"receipt":"1-84dc3584b08e1784","priority":1024,"attempts":0,"published_ms":1780903800000,"body":"Dear Ann"}
//! ```
//!
//! It has at most so many messages at a time as `prefetch` says; it settles them by requests of their own. When it leaves, those
//! that it has not settled wait again at once. When the server ends the stream, they stay with it for the time of their leases.
//!
//! Source: HTML Living Standard, section 9.2, Server-sent events.

use std::sync::Arc;

use tidegate_core::{
    output::{Chunk, Closed},
    phase::Step,
};
use tidegate_net::worker;
use tidegate_queue::{Hands, Lease};

use super::{
    answer::{Refused, write_message},
    api::{Call, Failure, count},
    message::{self, Message, millis},
    pull::{self, MESSAGES_MAX, WAIT_MS},
    store::StoreError,
};
use crate::event_stream::{self, PING};

/// Why a stream ends.
enum Ended {
    /// The client has left.
    Closed,
    Failed(StoreError),
}

impl From<Closed> for Ended {
    fn from(_: Closed) -> Self {
        Ended::Closed
    }
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Ended::Failed(error)
    }
}

pub(super) async fn stream(call: Call) -> Result<Step, Failure> {
    let mut prefetch = 1;
    let mut lease_ms = millis(call.conf().lease());
    call.each_param(|name, value| {
        match name {
            "prefetch" => prefetch = count(name, value, MESSAGES_MAX)?,
            "lease" => lease_ms = message::lease_ms(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // A body would keep the connection from telling that the client leaves.
    call.body(0).await?;
    event_stream::begin(&call.req);
    let mut stream = Stream { call, prefetch, lease_ms, hands: Arc::default(), held: Vec::new() };
    match stream.run().await {
        Ok(()) => {
            // The client knows nothing of the server's reasons, and may be at work.
            stream.held.drain(..).for_each(Lease::keep);
            Ok(Step::Ok)
        }
        Err(Ended::Closed) => Ok(Step::Close),
        Err(Ended::Failed(error)) => {
            // There is a head already. The client comes again.
            Refused::of_store(&stream.call.req, &error);
            Ok(Step::Close)
        }
    }
}

struct Stream {
    call: Call,
    prefetch: usize,
    lease_ms: u64,
    hands: Arc<Hands>,
    /// What the client has. Dropping them gives back those that are not settled.
    held: Vec<Lease>,
}

impl Stream {
    /// Sends messages until the client leaves or the worker is to end.
    async fn run(&mut self) -> Result<(), Ended> {
        let is_head = self.call.req.is_head();
        if !is_head {
            self.send(b"retry: 1000\n\n".to_vec()).await?;
        }
        while !is_head && !worker::is_quitting() {
            let Some(messages) = self.next().await? else { break };
            self.held.retain(|lease| !lease.has_ended());
            for (lease, message) in messages {
                if lease.has_ended() {
                    // Its time was over while the client took the others.
                    continue;
                }
                let mut event = b"event: message\ndata: ".to_vec();
                write_data(&lease, &message, &mut event);
                event.extend_from_slice(b"\n\n");
                lease.put_into(&self.hands);
                self.held.push(lease);
                self.send(event).await?;
            }
        }
        Ok(self.call.req.send_end().wait().await?)
    }

    /// Waits for messages that the client has room for. `None` when the worker is to end.
    async fn next(&self) -> Result<Option<Vec<(Lease, Message)>>, Ended> {
        let waiting = async {
            self.hands.have_less_than(self.prefetch).await;
            let room = self.prefetch.saturating_sub(self.hands.held()).max(1);
            let mut line = self.call.store.broker().line_up(&self.call.queue, room, self.lease_ms);
            loop {
                let found = pull::wait(&self.call.store, &self.call.queue, &mut line, WAIT_MS).await?;
                if !found.is_empty() {
                    return Ok::<_, StoreError>(found);
                }
            }
        };
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                biased;
                found = &mut waiting => return Ok(Some(found?)),
                () = self.call.req.client.closed() => return Err(Ended::Closed),
                () = tokio::time::sleep(PING) => {
                    if worker::is_quitting() {
                        return Ok(None);
                    }
                    self.send(b":\n\n".to_vec()).await?;
                }
            }
        }
    }

    /// Sends text, and waits until the client takes it.
    async fn send(&self, text: Vec<u8>) -> Result<(), Closed> {
        self.call.req.send(Chunk::bytes(text).and_flush()).wait().await?;
        self.call.req.pace().await
    }
}

/// A message on one line: what SQL has published may have line breaks between its headers.
fn write_data(lease: &Lease, message: &Message, out: &mut Vec<u8>) {
    let begin = out.len();
    write_message(message, Some(lease.receipt()), out);
    out[begin..].iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
}
