//! Subscriptions: whoever subscribes to a queue gets everything that is published there from then on.
//!
//! A subscription is a queue of its own, `QUEUE@NAME`, into which publishing copies each message within its transaction. So a
//! subscriber pulls, settles, waits and has dead messages as all consumers do, and may itself be several consumers that share work.
//!
//! Who publishes holds the lock of what is known of subscriptions until the commit, and who changes them has it alone: behind the
//! answer to the one nothing is published without the new subscriber, behind that to the other nothing comes for the former one.

use std::{collections::HashMap, rc::Rc};

use tidegate_rows::{QueryError, Value};
use tidegate_sql::table::{Answer, Comparison, OnDuplicate, Request, Rows};
use tokio::sync::RwLockReadGuard;

use super::{
    answer::Refused,
    gather::bytes,
    message::{NAME_BYTES_MAX, check_name},
    publish::Target,
    store::{DUPLICATE_KEY, Store, StoreError},
    tables::{BLOCKED, DEAD, DELAYED, READY},
};

/// Subscriptions of one queue: each of its messages is stored so often.
const OF_QUEUE_MAX: usize = 100;
/// Subscriptions of all queues, which are in memory.
const ALL_MAX: usize = 10_000;
/// What stands between the queue's name and the subscription's. No queue's name has it.
const SEPARATOR: char = '@';

/// The subscriptions of all queues, by their names; `None` until somebody has read them.
pub(super) type Known = Option<HashMap<String, Vec<String>>>;

/// The subscriptions, which nobody changes as long as this is held.
pub(super) struct Held<'a>(RwLockReadGuard<'a, Known>);

/// Why there is no such subscription.
#[derive(Debug, thiserror::Error)]
pub(super) enum SubscribeError {
    /// There are as many as there may be; as a sentence.
    #[error("{0}")]
    TooMany(String),
    /// The store has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The queue from which a subscriber pulls.
///
/// # Errors
/// The name of the subscription is none, or both together are too long.
pub(super) fn queue_of(queue: &str, name: &str) -> Result<String, Refused> {
    check_name(name).map_err(|_| {
        Refused::bad("a subscription's name has 1 to 198 letters, digits and characters of \".\", \"_\", \"-\", \":\"")
    })?;
    let both = format!("{queue}{SEPARATOR}{name}");
    if both.len() > NAME_BYTES_MAX {
        return Err(Refused::bad("the names of the queue and of the subscription have more than 199 characters"));
    }
    Ok(both)
}

/// Checks the name of a queue or of a subscription's queue, from which messages are pulled.
///
/// # Errors
/// It can be neither.
pub(super) fn check_pulled_name(name: &str) -> Result<(), Refused> {
    match name.split_once(SEPARATOR) {
        None => check_name(name),
        Some((queue, subscription)) => {
            check_name(queue)?;
            queue_of(queue, subscription).map(drop)
        }
    }
}

impl Held<'_> {
    /// The names of the subscriptions of a queue.
    pub(super) fn of(&self, queue: &str) -> &[String] {
        self.0.as_ref().and_then(|known| known.get(queue)).map_or(&[], Vec::as_slice)
    }
}

impl Store {
    /// The subscriptions as they are. Must not be asked for by somebody who holds them already.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn subscriptions(&self) -> Result<Held<'_>, StoreError> {
        let known = self.home.subscriptions.read().await;
        if known.is_some() {
            return Ok(Held(known));
        }
        drop(known);
        let mut known = self.home.subscriptions.write().await;
        if known.is_none() {
            *known = Some(self.read_subscriptions().await?);
        }
        Ok(Held(known.downgrade()))
    }

    /// The queues into which a message goes that is published to this one. One at least.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn targets(&self, held: &Held<'_>, queue: &str) -> Result<Vec<Target>, StoreError> {
        let names = held.of(queue);
        let is_kept = names.is_empty() || !self.settings(queue).await?.subscribers_only;
        let own = is_kept.then(|| queue.to_owned());
        let mut targets = Vec::with_capacity(names.len() + 1);
        for queue in own.into_iter().chain(names.iter().map(|name| format!("{queue}{SEPARATOR}{name}"))) {
            let limits = self.limits(&queue).await?;
            targets.push(Target { queue, limits });
        }
        Ok(targets)
    }

    /// Whether messages may be pulled from a queue: it is a plain one, or a subscription's that there is.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn is_pullable(&self, queue: &str) -> Result<bool, StoreError> {
        let Some((queue, name)) = queue.split_once(SEPARATOR) else { return Ok(true) };
        Ok(self.subscriptions().await?.of(queue).iter().any(|known| known == name))
    }

    /// Makes a subscription, if there is none of this name: it gets what is published from now on. It goes on when the future is
    /// dropped.
    ///
    /// # Errors
    /// There are too many, storage errors.
    pub(super) async fn subscribe(self: &Rc<Self>, queue: &str, name: &str) -> Result<(), SubscribeError> {
        let (store, queue, name) = (self.clone(), queue.to_owned(), name.to_owned());
        let subscribing = tokio::task::spawn_local(async move { store.subscribe_now(&queue, &name).await });
        subscribing.await.unwrap_or_else(|_| Err(broken_off().into()))
    }

    async fn subscribe_now(&self, queue: &str, name: &str) -> Result<(), SubscribeError> {
        let _clearing = self.home.clearing.lock().await;
        if !self.subscriptions().await?.of(queue).iter().any(|known| known == name) {
            // The server may have ended before all messages of a former one of this name were deleted.
            self.clear_subscription(queue, name).await?;
        }
        let mut known = self.home.subscriptions.write().await;
        // Read in any case: SQL may have changed them a moment ago.
        *known = None;
        let now = self.read_subscriptions().await?;
        let of_queue = now.get(queue).map_or(&[][..], Vec::as_slice);
        if of_queue.iter().any(|known| known == name) {
            *known = Some(now);
            return Ok(());
        }
        if of_queue.len() >= OF_QUEUE_MAX {
            return Err(SubscribeError::TooMany(format!("a queue has at most {OF_QUEUE_MAX} subscriptions")));
        }
        if now.values().map(Vec::len).sum::<usize>() >= ALL_MAX {
            return Err(SubscribeError::TooMany(format!("there are {ALL_MAX} subscriptions")));
        }
        // What a former one of this name has left, of which the end was broken off.
        self.clear_subscription(queue, name).await?;
        let row = [Value::Bytes(queue.as_bytes()), Value::Bytes(name.as_bytes())];
        let open = self.open().await?;
        let tables = open.tables.clone();
        let inserted = self.carry_out(open, &[(&tables.subscriptions, Request::Insert(&row, OnDuplicate::Fail))]).await;
        match inserted {
            Err(StoreError::Query(QueryError::Server(error))) if error.code == DUPLICATE_KEY => {}
            inserted => drop(inserted?),
        }
        *known = Some(self.read_subscriptions().await?);
        Ok(())
    }

    /// Ends a subscription and deletes its messages and its settings. Answers whether there was one. It goes on when the future is dropped.
    ///
    /// # Errors
    /// Storage errors; messages and settings may be left then, which the next of this name does not get.
    pub(super) async fn unsubscribe(self: &Rc<Self>, queue: &str, name: &str) -> Result<bool, StoreError> {
        let (store, queue, name) = (self.clone(), queue.to_owned(), name.to_owned());
        let ending = tokio::task::spawn_local(async move { store.unsubscribe_now(&queue, &name).await });
        ending.await.unwrap_or_else(|_| Err(broken_off()))
    }

    async fn unsubscribe_now(&self, queue: &str, name: &str) -> Result<bool, StoreError> {
        let _clearing = self.home.clearing.lock().await;
        let mut known = self.home.subscriptions.write().await;
        *known = None;
        let key = [Value::Bytes(queue.as_bytes()), Value::Bytes(name.as_bytes())];
        let open = self.open().await?;
        let tables = open.tables.clone();
        let delete = Request::Delete(Rows::with_key(&key), Answer::Number);
        let deleted = self.carry_out(open, &[(&tables.subscriptions, delete)]).await?.changed()?;
        *known = Some(self.read_subscriptions().await?);
        // Publishers go on: nothing of theirs comes into it any more, nor is there another one of this name before it is empty.
        drop(known);
        if deleted > 0 {
            self.clear_subscription(queue, name).await?;
        }
        Ok(deleted > 0)
    }

    /// Deletes the settings and the messages of a subscription, also those that somebody has: there is nobody any more to whom they could come
    /// again.
    async fn clear_subscription(&self, queue: &str, name: &str) -> Result<(), StoreError> {
        let queue = format!("{queue}{SEPARATOR}{name}");
        // Those that are blocked first: none of them gets a turn.
        for state in [BLOCKED, READY, DELAYED, DEAD] {
            self.delete_where(&queue, state, |_| true).await?;
        }
        self.forget_order(&queue).await?;
        self.forget_settings(&queue).await?;
        self.broker().forget(&queue);
        Ok(())
    }

    /// Reads the subscriptions anew: somebody may have changed them.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) async fn reread_subscriptions(&self) -> Result<(), StoreError> {
        let mut known = self.home.subscriptions.write().await;
        *known = None;
        *known = Some(self.read_subscriptions().await?);
        Ok(())
    }

    async fn read_subscriptions(&self) -> Result<HashMap<String, Vec<String>>, StoreError> {
        let key = [Value::Bytes(b"")];
        let rows = Rows { limit: ALL_MAX as u64, ..Rows::new(Comparison::AtLeast, &key) };
        let open = self.open().await?;
        let tables = open.tables.clone();
        let found = self.carry_out(open, &[(&tables.subscriptions, Request::Find(rows))]).await?;
        let text = |value| String::from_utf8(bytes(value)?.to_vec()).ok();
        let mut known: HashMap<String, Vec<String>> = HashMap::new();
        for row in &found.rows {
            // SQL may have written names that there cannot be.
            if let (Some(queue), Some(name)) = (text(row.first()), text(row.get(1)))
                && queue_of(&queue, &name).is_ok()
            {
                known.entry(queue).or_default().push(name);
            }
        }
        Ok(known)
    }
}

fn broken_off() -> StoreError {
    StoreError::Unavailable("the change of subscriptions was broken off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_subscriptions_are_checked() {
        assert_eq!(queue_of("mail", "billing").as_deref(), Ok("mail@billing"));
        for name in ["mail", "mail@billing", &format!("a@{}", "b".repeat(198))] {
            assert!(check_pulled_name(name).is_ok(), "{name}");
        }
        for name in ["", "@", "a@", "@a", "a@b@c", "a@b/c", "a@b'", "a@\0", &format!("a@{}", "b".repeat(199))] {
            assert!(check_pulled_name(name).is_err(), "{name}");
        }
    }
}
