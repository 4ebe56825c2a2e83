//! Messages enter a queue.

use std::rc::Rc;

use tidegate_net::clock;
use tidegate_queue::Place;
use tidegate_rows::{QueryError, Value};
use tidegate_sql::table::{OnDuplicate, Request, Rows};

use super::{
    gather::{Gather, number},
    message::NewMessage,
    store::{DUPLICATE_KEY, Open, Store, StoreError, Unsure},
    tables::{DELAYED, READY},
};
use crate::database::schemas::execute;

/// How often a message is stored whose unique key another one has that is gone when it is looked for.
const ATTEMPTS_MAX: u32 = 5;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// It has this number.
    New(u64),
    /// There is one with its unique key, of this number; nothing was stored.
    Known(u64),
}

impl Published {
    /// The number of the message that there is.
    pub(super) fn number(self) -> u64 {
        match self {
            Published::New(id) | Published::Known(id) => id,
        }
    }
}

impl Store {
    /// Stores messages, all or none, and gives them to those who wait. When this has ended they are as durable as the database
    /// makes its commits. It goes on when the future is dropped.
    ///
    /// # Errors
    /// There is no database, or it refuses: then nothing was stored.
    pub(super) async fn publish(
        self: &Rc<Self>,
        queue: &str,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<Published>, StoreError> {
        let (store, queue) = (self.clone(), queue.to_owned());
        // A commit whose client has gone meanwhile is one that the broker has to hear of.
        let publishing = tokio::task::spawn_local(async move { store.publish_now(&queue, &messages).await });
        publishing.await.unwrap_or_else(|_| Err(StoreError::Unavailable("publishing was broken off".to_owned())))
    }

    /// As [`publish`](Self::publish), for a future that is not dropped.
    pub(super) async fn publish_now(&self, queue: &str, messages: &[NewMessage]) -> Result<Vec<Published>, StoreError> {
        let held = self.subscriptions().await?;
        let targets = self.targets(&held, queue).await?;
        let mut open = self.open().await?;
        // A worker that ends breaks this off, perhaps behind the commit.
        let unsure = Unsure::of_all(&self.home, targets.iter().cloned().collect());
        let stored = match (messages, &targets[..]) {
            ([message], [queue]) => insert(&mut open, queue, message).await.map(|published| vec![published]),
            _ => insert_all(&mut open, &targets, messages).await,
        };
        let published = match stored {
            Ok(published) => published,
            Err(error) => {
                self.doubt(&error);
                return Err(error.into());
            }
        };
        self.give_back(open);
        unsure.certain();
        for (message, published) in messages.iter().zip(published.chunks(targets.len())) {
            self.tell_all(&targets, message, published);
        }
        Ok(published.into_iter().step_by(targets.len()).collect())
    }

    /// Those who wait hear of a message that was committed to these queues.
    pub(super) fn tell_all(&self, targets: &[String], message: &NewMessage, published: &[Published]) {
        targets.iter().zip(published).for_each(|(queue, published)| self.tell(queue, message, *published));
    }

    fn tell(&self, queue: &str, message: &NewMessage, published: Published) {
        match published {
            Published::New(id) if message.delay_ms == 0 => {
                self.broker().waits(queue, Place { priority: message.priority, id });
            }
            Published::New(_) => self.home.due_changed.notify_one(),
            Published::Known(_) => {}
        }
        if message.ttl_ms.is_some() {
            self.home.due_changed.notify_one();
        }
    }
}

/// Stores each message in each of the queues.
async fn insert_all(
    open: &mut Open,
    targets: &[String],
    messages: &[NewMessage],
) -> Result<Vec<Published>, QueryError> {
    execute(&mut open.session, b"BEGIN").await?;
    let mut published = Vec::with_capacity(messages.len() * targets.len());
    for message in messages {
        // The publisher hears of the first one's number, and asks for its result.
        let copy = NewMessage { result_ms: None, ..message.clone() };
        for (at, queue) in targets.iter().enumerate() {
            // The session is dropped after an error, and the transaction with it.
            published.push(insert(open, queue, if at == 0 { message } else { &copy }).await?);
        }
    }
    execute(&mut open.session, b"COMMIT").await?;
    Ok(published)
}

/// Stores a message, in the session's transaction if there is one.
///
/// # Errors
/// Those of the statement.
pub(super) async fn insert(open: &mut Open, queue: &str, message: &NewMessage) -> Result<Published, QueryError> {
    let tables = open.tables.clone();
    let now_ms = clock::now_ms();
    let later = |ms: Option<u64>| ms.map_or(Value::Null, |ms| Value::Uint(now_ms.saturating_add(ms)));
    let delay_ms = Some(message.delay_ms).filter(|ms| *ms > 0);
    let queue_value = Value::Bytes(queue.as_bytes());
    let unique_key = Value::from(message.unique_key.as_deref());
    let row = [
        queue_value,
        Value::Int(if delay_ms.is_some() { DELAYED } else { READY }),
        Value::Uint(message.priority.into()),
        Value::Uint(now_ms),
        later(delay_ms),
        later(message.ttl_ms),
        unique_key,
        message.lease_ms.map_or(Value::Null, Value::Uint),
        Value::from(message.headers.as_deref().map(str::as_bytes)),
        Value::Bytes(&message.body),
        message.result_ms.map_or(Value::Null, Value::Uint),
    ];
    let mut attempts = 0;
    loop {
        let mut stored = Gather::default();
        let done =
            open.session.run_request(&tables.publish, &Request::Insert(&row, OnDuplicate::Fail), &mut stored).await;
        match done {
            Ok(()) => return Ok(Published::New(stored.insert_id)),
            Err(QueryError::Server(error)) if error.code == DUPLICATE_KEY && attempts < ATTEMPTS_MAX => {}
            Err(error) => return Err(error),
        }
        attempts += 1;
        let key = [queue_value, unique_key];
        let mut found = Gather::default();
        open.session.run_request(&tables.by_unique_key, &Request::Find(Rows::with_key(&key)), &mut found).await?;
        if let Some(row) = found.rows.first() {
            return Ok(Published::Known(number(row.first())));
        }
    }
}
