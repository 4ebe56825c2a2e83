//! A consumer pulls messages, and waits if there are none.

use std::time::Duration;

use tidegate_core::phase::Step;
use tidegate_queue::{InLine, Lease, Turn};

use super::{
    answer::{Refused, send, write_message},
    api::{Call, Failure, count},
    message::{self, Message, millis, time_ms},
    store::{Store, StoreError},
    tables::READY,
};

/// Messages of one answer.
pub(super) const MESSAGES_MAX: usize = 100;
/// Longer than any consumer stays: those wait so long who wait until they leave.
pub(super) const WAIT_MS: u64 = 365 * 24 * 3600 * 1000;
/// Messages that are read together.
const READ_TOGETHER: usize = 8;
/// When an answer has messages of so many bytes no more are read; those who were to follow wait again.
const ANSWER_BYTES: usize = 8 << 20;

pub(super) async fn pull(call: Call) -> Result<Step, Failure> {
    let (mut max, mut wait_ms, mut lease_ms) = (1, 0, millis(call.conf().lease()));
    let wait_ms_max = millis(call.conf().wait_max());
    call.each_param(|name, value| {
        match name {
            "max" => max = count(name, value, MESSAGES_MAX)?,
            "wait" => wait_ms = time_ms(name, value)?.min(wait_ms_max),
            "lease" => lease_ms = message::lease_ms(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    // A body would keep the connection from telling that the client leaves.
    call.body(0).await?;
    let mut line = call.store.broker().line_up(&call.queue, max, lease_ms);
    let pulled = tokio::select! {
        biased;
        pulled = wait(&call.store, &call.queue, &mut line, wait_ms) => pulled,
        () = call.req.client.closed() => return Ok(Step::Close),
    };
    // Whoever is told that there is nothing must not be given anything while the answer is on its way.
    drop(line);
    let pulled = pulled.map_err(|error| Refused::of_store(&call.req, &error))?;
    if pulled.is_empty() {
        call.req.response.borrow_mut().content_type.clear();
        return Ok(Step::Status(204));
    }
    let mut out = b"{\"messages\":".to_vec();
    super::answer::write_list(&pulled, &mut out, |(lease, message), out| {
        write_message(message, Some(lease.receipt()), out)
    });
    out.extend_from_slice(b"}\n");
    let step = send(&call.req, 200, out).await;
    if step == Step::Ok {
        pulled.into_iter().for_each(|(lease, _)| lease.keep());
    }
    Ok(step)
}

/// Waits for messages. None if the time is over.
pub(super) async fn wait(
    store: &Store,
    queue: &str,
    line: &mut InLine,
    wait_ms: u64,
) -> Result<Vec<(Lease, Message)>, StoreError> {
    store.settings(queue).await?;
    let over = tokio::time::sleep(Duration::from_millis(wait_ms));
    tokio::pin!(over);
    let mut is_over = wait_ms == 0;
    loop {
        let turn = if is_over {
            line.turn_now().await
        } else {
            tokio::select! {
                biased;
                turn = line.turn() => Some(turn),
                () = &mut over => {
                    store.home.due.have_come().await;
                    is_over = true;
                    continue;
                }
            }
        };
        match turn {
            None => return Ok(Vec::new()),
            Some(Turn::Scan(scan)) => store.scan(queue, scan).await?,
            Some(Turn::Messages(leases)) => {
                let found = read(store, queue, leases).await?;
                if !found.is_empty() {
                    return Ok(found);
                }
            }
        }
    }
}

/// Reads messages that the consumer is to have. Those who are not there any more are left out.
async fn read(store: &Store, queue: &str, leases: Vec<Lease>) -> Result<Vec<(Lease, Message)>, StoreError> {
    let ids: Vec<u64> = leases.iter().map(Lease::message).collect();
    let read = store.read_for_answer(queue, READY, &ids).await?;
    let mut found = Vec::with_capacity(read.len());
    // Leases of messages that were not read are dropped: those messages wait again.
    for (lease, message) in leases.into_iter().zip(read) {
        match message {
            Some(message) => {
                if message.is_plain() {
                    lease.note_plain();
                }
                found.push((lease, message));
            }
            None => {
                lease.gone();
                // If its time to live is over, the keeper has left it alone as long as somebody had it.
                store.home.due_changed.notify_one();
            }
        }
    }
    Ok(found)
}

impl Store {
    /// Reads messages of a queue that are in a state, for one answer: in the order of their numbers here, `None` for one that is not there.
    /// Those behind the last one that an answer has room for are left out.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn read_for_answer(
        &self,
        queue: &str,
        state: i64,
        ids: &[u64],
    ) -> Result<Vec<Option<Message>>, StoreError> {
        let (mut read, mut bytes) = (Vec::with_capacity(ids.len()), 0);
        for together in ids.chunks(READ_TOGETHER) {
            let mut found = self.read(queue, state, together).await?;
            bytes += found.iter().map(Message::size).sum::<usize>();
            let take = |id| found.iter().position(|message| message.id == id).map(|at| found.swap_remove(at));
            read.extend(together.iter().copied().map(take));
            if bytes >= ANSWER_BYTES {
                break;
            }
        }
        Ok(read)
    }
}
