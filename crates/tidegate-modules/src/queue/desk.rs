//! What `tidegate queue` does with queues, through the socket of the data directory.
//!
//! ```text
//! {"do":"publish","queue":"mail","messages":[{"body":"a"}]}   stores all or none
//! {"do":"list"}                                               queues, and how many messages they have
//! {"do":"pull","queue":"mail"}                                answers the next messages
//! {"do":"acknowledge","queue":"mail"}                         those that were pulled are done
//! {"do":"resend","queue":"mail","ids":[7]}                    dead messages wait again: these, or all
//! {"do":"delete","queue":"mail","ids":[]}                     they are deleted
//! ```
//!
//! A client that leaves gives back what it has pulled.

use std::rc::Rc;

use serde_json::Value as Json;
use tidegate_net::clock;
use tidegate_queue::Lease;

use super::{
    answer::write_message,
    counts::Count,
    message::{NAME_BYTES_MAX, NewMessage, check_name},
    pull::{self, MESSAGES_MAX},
    store::{Store, StoreError},
    tables::DEAD,
};
use crate::database::control::{self, Answer, Answering, Desk};

/// How long a client may take to store what it has pulled.
const LEASE_MS: u64 = 60_000;

/// Has the socket of data directories answer requests about queues.
pub(super) fn open_desks() {
    control::answer_queues_by(|engine, directory| {
        let store = Store::beside_workers(engine, directory).map_err(|error| error.to_string());
        Box::new(QueueDesk { store, leases: Vec::new() })
    });
}

struct QueueDesk {
    store: Result<Rc<Store>, String>,
    /// What the client has pulled and not acknowledged.
    leases: Vec<Lease>,
}

impl Desk for QueueDesk {
    fn answer<'a>(&'a mut self, request: &'a [u8]) -> Answering<'a> {
        Box::pin(self.carry_out(request))
    }
}

impl QueueDesk {
    async fn carry_out(&mut self, request: &[u8]) -> Result<Answer, String> {
        let request: Json = serde_json::from_slice(request).map_err(|error| error.to_string())?;
        let queue = request["queue"].as_str().unwrap_or_default();
        if request["do"] == "list" {
            let store = self.store.clone()?;
            return list(&store).await.map_err(|error| error.to_string());
        }
        if queue.is_empty() || queue.len() > NAME_BYTES_MAX {
            return Err("a queue's name has 1 to 200 bytes".to_owned());
        }
        let store = self.store.clone()?;
        clock::update();
        let ids: Vec<u64> = request["ids"].as_array().into_iter().flatten().filter_map(Json::as_u64).collect();
        let count = match request["do"].as_str().unwrap_or_default() {
            "publish" => publish(&store, queue, &request["messages"]).await,
            "pull" => return self.pull(&store, queue).await,
            "acknowledge" => self.acknowledge(&store, queue).await,
            "resend" => store.resend_dead(queue, &ids).await.map_err(|error| error.to_string()),
            "delete" if ids.is_empty() => store.delete_all(queue, DEAD).await.map_err(|error| error.to_string()),
            "delete" => store.delete_dead(queue, &ids).await.map_err(|error| error.to_string()),
            other => Err(format!("nothing is known of \"{other}\"")),
        };
        Ok(Answer { count: count?, ..Answer::default() })
    }

    async fn pull(&mut self, store: &Store, queue: &str) -> Result<Answer, String> {
        let mut line = store.broker().line_up(queue, MESSAGES_MAX, LEASE_MS);
        let pulled = pull::wait(store, queue, &mut line, 0).await.map_err(|error| error.to_string())?;
        let mut answer = Answer { count: pulled.len() as u64, ..Answer::default() };
        for (lease, message) in pulled {
            let mut out = Vec::with_capacity(message.body.len() + 100);
            write_message(&message, None, &mut out);
            answer.messages.push(out);
            self.leases.push(lease);
        }
        Ok(answer)
    }

    async fn acknowledge(&mut self, store: &Store, queue: &str) -> Result<u64, String> {
        let mut settling = Vec::with_capacity(self.leases.len());
        for lease in self.leases.drain(..) {
            settling.extend(store.broker().settle(queue, lease.receipt()));
            lease.keep();
        }
        let count = settling.len() as u64;
        if count > 0 {
            store.acknowledge(settling).await.map_err(|error| error.to_string())?;
        }
        Ok(count)
    }
}

/// The queues that have messages, and how many.
async fn list(store: &Store) -> Result<Answer, StoreError> {
    let queues = store.queues().await?;
    let told = |(queue, count): (String, Count)| {
        let Count { ready, delayed, dead, blocked, .. } = count;
        let told = serde_json::json!({ "queue": queue, "waiting": ready + blocked, "delayed": delayed, "dead": dead });
        told.to_string().into_bytes()
    };
    Ok(Answer { count: queues.len() as u64, messages: queues.into_iter().map(told).collect() })
}

async fn publish(store: &Rc<Store>, queue: &str, messages: &Json) -> Result<u64, String> {
    check_name(queue).map_err(|refused| refused.message)?;
    let messages = messages.as_array().filter(|messages| !messages.is_empty()).ok_or("there are no messages")?;
    let messages: Result<Vec<_>, _> = messages.iter().map(NewMessage::of_json).collect();
    let messages = messages.map_err(|refused| refused.message)?;
    let published = store.publish(queue, messages).await.map_err(|error| error.to_string())?;
    Ok(published.len() as u64)
}
