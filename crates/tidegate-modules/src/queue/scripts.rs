//! Queues without HTTP, for scripts.

use std::{rc::Rc, time::Duration};

use bytes::Bytes;
use tidegate_core::conf::Config;
use tidegate_queue::{Lease, Receipt, Settling};

use super::{
    LEASE,
    message::{Message, NewMessage, check_name, millis},
    publish::Published,
    pull::{self, MESSAGES_MAX},
    results::Outcome,
    settle::REASON_BYTES_MAX,
    store::Store,
    subscriptions::{check_pulled_name, queue_of},
};

/// A queue of the embedded database. Stays on its worker's thread.
pub struct Queue {
    store: Rc<Store>,
    name: String,
}

/// A message that was just pulled: dropping this gives it back.
pub struct Taken {
    lease: Lease,
    message: Message,
}

impl Taken {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What the consumer names it by.
    pub fn receipt(&self) -> Receipt {
        self.lease.receipt()
    }

    /// The consumer has it now, until it settles it or its time is over.
    pub fn keep(self) {
        self.lease.keep();
    }
}

fn sentence(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Queue {
    /// The queue of this name; it needs no making.
    ///
    /// # Errors
    /// No queue can have this name, or there is no database; as a sentence.
    pub fn of(config: &Config, name: &str) -> Result<Self, String> {
        check_pulled_name(name).map_err(|refused| refused.message)?;
        let store = Store::of(config).map_err(sentence)?;
        Ok(Queue { store, name: name.to_owned() })
    }

    /// Publishes a message with the parameters of the API; `headers` is an object of JSON whose values are strings. Answers its
    /// number, and whether it was there already. It is stored even if the future is dropped.
    ///
    /// # Errors
    /// There are no such parameters, or the database refuses; as a sentence. Nothing is stored then.
    pub async fn publish(
        &self,
        body: Bytes,
        parameters: &[(String, String)],
        headers: Option<String>,
    ) -> Result<(u64, bool), String> {
        check_name(&self.name).map_err(|refused| refused.message)?;
        let mut message = NewMessage { headers, ..NewMessage::new(body) };
        for (name, value) in parameters {
            if !message.set(name, value).map_err(|refused| refused.message)? {
                return Err(format!("unknown option {name:?}"));
            }
        }
        let published = self.store.publish(&self.name, vec![message]).await.map_err(sentence)?;
        match published.first() {
            Some(Published::New(id)) => Ok((*id, false)),
            Some(Published::Known(id)) => Ok((*id, true)),
            None => Err("nothing was stored".to_owned()),
        }
    }

    /// Pulls up to `max` messages, and waits for the first one if there are none. None if the time is over. May be dropped.
    ///
    /// # Errors
    /// The lease is of no time, or the database cannot be used; as a sentence.
    pub async fn pull(&self, max: usize, wait: Duration, lease: Option<Duration>) -> Result<Vec<Taken>, String> {
        if lease.is_some_and(|lease| millis(lease) == 0) {
            return Err("\"lease\" must be longer than 0".to_owned());
        }
        if !self.store.is_pullable(&self.name).await.map_err(sentence)? {
            return Err(format!("there is no subscription {:?}", self.name));
        }
        let (max, lease_ms) = (max.clamp(1, MESSAGES_MAX), millis(lease.unwrap_or(LEASE)));
        let mut line = self.store.broker().line_up(&self.name, max, lease_ms);
        let pulled = pull::wait(&self.store, &self.name, &mut line, millis(wait)).await.map_err(sentence)?;
        Ok(pulled.into_iter().map(|(lease, message)| Taken { lease, message }).collect())
    }

    /// Makes a subscription, if there is none of this name. Answers the name of the queue from which it pulls.
    ///
    /// # Errors
    /// There can be no such subscription, or the database refuses; as a sentence.
    pub async fn subscribe(&self, subscription: &str) -> Result<String, String> {
        check_name(&self.name).map_err(|refused| refused.message)?;
        let queue = queue_of(&self.name, subscription).map_err(|refused| refused.message)?;
        self.store.subscribe(&self.name, subscription).await.map_err(sentence)?;
        Ok(queue)
    }

    /// Ends a subscription and deletes its messages. Answers whether there was one.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn unsubscribe(&self, subscription: &str) -> Result<bool, String> {
        queue_of(&self.name, subscription).map_err(|refused| refused.message)?;
        self.store.unsubscribe(&self.name, subscription).await.map_err(sentence)
    }

    /// Messages are done. Answers how many of the receipts were still good.
    ///
    /// # Errors
    /// As [`pull`](Self::pull); the leases go on then.
    pub async fn acknowledge(&self, receipts: &[Receipt]) -> Result<usize, String> {
        let settling = self.settle(receipts);
        let count = settling.len();
        if count > 0 {
            self.store.acknowledge(settling).await.map_err(sentence)?;
        }
        Ok(count)
    }

    /// A message is done, with a result. Answers whether its receipt was still good.
    ///
    /// # Errors
    /// As [`pull`](Self::pull); the lease goes on then.
    pub async fn acknowledge_with(&self, receipt: Receipt, result: Bytes) -> Result<usize, String> {
        let settling = self.settle(&[receipt]);
        let count = settling.len();
        if count > 0 {
            self.store.acknowledge_with(settling, &result).await.map_err(sentence)?;
        }
        Ok(count)
    }

    /// Waits for the result of a message. May be dropped.
    ///
    /// # Errors
    /// There is none in that time: "waiting", "dead" or "unknown"; or the database cannot be used.
    pub async fn result(&self, id: u64, wait: Duration) -> Result<Bytes, String> {
        match self.store.result(&self.name, id, millis(wait)).await.map_err(sentence)? {
            Outcome::Done(result) => Ok(result),
            Outcome::Waiting => Err("waiting".to_owned()),
            Outcome::Dead => Err("dead".to_owned()),
            Outcome::Nowhere => Err("unknown".to_owned()),
        }
    }

    /// Messages have failed: they wait again, after a delay if it is not zero. Answers how many of the receipts were still good.
    ///
    /// # Errors
    /// The reason is too long, or as [`pull`](Self::pull); the leases go on then.
    pub async fn refuse(&self, receipts: &[Receipt], delay: Duration, reason: Option<&str>) -> Result<usize, String> {
        if reason.is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
            return Err(format!("the reason has more than {REASON_BYTES_MAX} bytes"));
        }
        let settling = self.settle(receipts);
        let count = settling.len();
        if count > 0 {
            self.store.fail(&self.name, settling, millis(delay), reason).await.map_err(sentence)?;
        }
        Ok(count)
    }

    /// Leases end so much later than now. Answers how many of the receipts were still good.
    pub fn extend(&self, receipts: &[Receipt], lease: Duration) -> usize {
        let broker = self.store.broker();
        receipts.iter().filter(|receipt| broker.extend(&self.name, **receipt, millis(lease))).count()
    }

    fn settle(&self, receipts: &[Receipt]) -> Vec<Settling> {
        receipts.iter().filter_map(|receipt| self.store.broker().settle(&self.name, *receipt)).collect()
    }
}
