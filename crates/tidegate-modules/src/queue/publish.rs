//! Messages enter a queue.

use std::rc::Rc;
use std::time::Duration;

use tidegate_queue::Place;
use tidegate_rows::{QueryError, Value};
use tidegate_sql::table::{OnDuplicate, Request, Rows};

use super::{
    counts::{Changing, Spot},
    gather::{Gather, number},
    limits::{Limits, Room},
    message::NewMessage,
    ordering::{block, give_turn_back, take_turn},
    store::{DUPLICATE_KEY, Open, Store, StoreError},
    tables::{BLOCKED, DELAYED, READY},
    time_of_day,
};
use crate::database::schemas::execute;

/// How often a message is stored whose unique key another one has that is not there when it is looked for: its commit is under way,
/// or it has come to its end.
const ATTEMPTS_MAX: u32 = 40;
/// The longest wait between two of them. The first one is a millisecond; each is twice as long as the one before.
const ATTEMPT_PAUSE_MAX: Duration = Duration::from_millis(128);

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

/// A queue into which messages go, and the limits that hold there.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) queue: String,
    pub(super) limits: Limits,
}

impl Store {
    /// Stores messages, all or none, and gives them to those who wait. When this has ended they are as durable as the database
    /// makes its commits. It goes on when the future is dropped.
    ///
    /// # Errors
    /// There is no database, it refuses, or a queue is full: then nothing was stored.
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
        self.with_room(async || self.publish_once(queue, messages).await).await
    }

    async fn publish_once(&self, queue: &str, messages: &[NewMessage]) -> Result<Vec<Published>, StoreError> {
        let held = self.subscriptions().await?;
        let targets = self.targets(&held, queue).await?;
        let mut open = self.open().await?;
        // A worker that ends breaks this off, perhaps behind the commit.
        let mut changing = self.changing(targets.iter().map(|target| &*target.queue)).await;
        let rooms = match self.take_all_room(&mut changing, &targets, messages).await {
            Ok(rooms) => rooms,
            Err(error) => {
                changing.nothing();
                return Err(error);
            }
        };
        let stored = match (messages, &targets[..]) {
            ([message], [target]) if rooms.is_empty() && message.ordering_key.is_none() => {
                insert(&mut open, target, message, &mut changing).await.map(|published| vec![published])
            }
            _ => insert_all(&mut open, &targets, messages, &rooms, &mut changing).await,
        };
        let published = match stored {
            Ok(published) => published,
            Err(error) => {
                self.failed(&error, changing);
                return Err(error);
            }
        };
        self.give_back(open);
        changing.certain();
        self.have_made_room(rooms);
        Ok(published.into_iter().step_by(targets.len()).collect())
    }

    async fn take_all_room(
        &self,
        changing: &mut Changing<'_>,
        targets: &[Target],
        messages: &[NewMessage],
    ) -> Result<Vec<Room>, StoreError> {
        let may_be_known = messages.iter().any(|message| message.unique_key.is_some());
        let mut rooms = Vec::new();
        for target in targets {
            rooms.extend(self.take_room(changing, target, messages.len() as u64, may_be_known).await?);
        }
        Ok(rooms)
    }

    /// Nothing was stored, or nobody knows: the session is dropped, and its transaction with it.
    pub(super) fn failed(&self, error: &StoreError, changing: Changing<'_>) {
        match error {
            StoreError::Full { .. } | StoreError::RoomIsTaken { .. } | StoreError::HasGone => changing.nothing(),
            error if error.is_deadlock() => changing.nothing(),
            StoreError::Query(error) => self.doubt(error),
            StoreError::Unavailable(_) => {}
        }
    }
}

/// Stores each message in each of the queues.
async fn insert_all(
    open: &mut Open,
    targets: &[Target],
    messages: &[NewMessage],
    rooms: &[Room],
    changing: &mut Changing<'_>,
) -> Result<Vec<Published>, StoreError> {
    execute(&mut open.session, b"BEGIN").await?;
    let mut published = Vec::with_capacity(messages.len() * targets.len());
    for message in messages {
        // The publisher hears of the first one's number, and asks for its result.
        let copy = NewMessage { result_ms: None, ..message.clone() };
        for (at, target) in targets.iter().enumerate() {
            // The session is dropped after an error, and the transaction with it.
            published.push(insert(open, target, if at == 0 { message } else { &copy }, changing).await?);
        }
    }
    for room in rooms {
        let is_new = |published: &&Published| matches!(published, Published::New(_));
        let at = targets.iter().position(|target| room.is_of(&target.queue)).unwrap_or_default();
        let new = published.iter().skip(at).step_by(targets.len()).filter(is_new).count();
        room.make(open, new as u64, changing).await?;
    }
    execute(&mut open.session, b"COMMIT").await?;
    Ok(published)
}

/// Stores a message, in the session's transaction if there is one.
///
/// # Errors
/// Those of the statement.
pub(super) async fn insert(
    open: &mut Open,
    target: &Target,
    message: &NewMessage,
    changing: &mut Changing<'_>,
) -> Result<Published, StoreError> {
    let tables = open.tables.clone();
    let is_delayed = message.delay_ms > 0;
    let mut spot = Spot { state: if is_delayed { DELAYED } else { READY }, priority: message.priority };
    let has_turn = match &message.ordering_key {
        Some(key) => take_turn(open, &target.queue, key).await?,
        None => true,
    };
    if !has_turn {
        spot.state = BLOCKED;
    }
    let ttl_ms = target.limits.ttl_ms(message.ttl_ms);
    let row = row_of(target, message, spot.state, ttl_ms);
    let mut attempts = 0;
    loop {
        let mut stored = Gather::default();
        let done =
            open.session.run_request(&tables.publish, &Request::Insert(&row, OnDuplicate::Fail), &mut stored).await;
        match done {
            Ok(()) => {
                let id = stored.insert_id;
                if let Some(key) = message.ordering_key.as_ref().filter(|_| !has_turn) {
                    block(open, &target.queue, key, id).await?;
                }
                changing.moved(&target.queue, None, Some(spot));
                changing.comes(&target.queue, Place { priority: spot.priority, id }, spot.state);
                if ttl_ms.is_some() || is_delayed {
                    changing.is_timed();
                }
                return Ok(Published::New(id));
            }
            Err(QueryError::Server(error)) if error.code == DUPLICATE_KEY && attempts < ATTEMPTS_MAX => {}
            Err(error) => return Err(error.into()),
        }
        attempts += 1;
        if let Some(id) = known_by_key(open, [row[0], row[6]]).await? {
            if let Some(key) = message.ordering_key.as_ref().filter(|_| has_turn) {
                give_turn_back(open, &target.queue, key).await?;
            }
            return Ok(Published::Known(id));
        }
        tokio::time::sleep(ATTEMPT_PAUSE_MAX.min(Duration::from_millis(1 << (attempts - 1).min(7)))).await;
    }
}

/// The row of a message, in the columns of `Tables::publish`.
fn row_of<'a>(target: &'a Target, message: &'a NewMessage, state: i64, ttl_ms: Option<u64>) -> [Value<'a>; 12] {
    let now_ms = time_of_day::now_ms();
    let later = |ms: Option<u64>| ms.map_or(Value::Null, |ms| Value::Uint(now_ms.saturating_add(ms)));
    [
        Value::Bytes(target.queue.as_bytes()),
        Value::Int(state),
        Value::Uint(message.priority.into()),
        Value::Uint(now_ms),
        later(Some(message.delay_ms).filter(|ms| *ms > 0)),
        later(ttl_ms),
        Value::from(message.unique_key.as_deref()),
        message.lease_ms.map_or(Value::Null, Value::Uint),
        Value::from(message.headers.as_deref().map(str::as_bytes)),
        Value::Bytes(&message.body),
        message.result_ms.map_or(Value::Null, Value::Uint),
        Value::from(message.ordering_key.as_deref()),
    ]
}

/// The message of a queue that has a unique key.
async fn known_by_key(open: &mut Open, key: [Value<'_>; 2]) -> Result<Option<u64>, QueryError> {
    let tables = open.tables.clone();
    let mut found = Gather::default();
    open.session.run_request(&tables.by_unique_key, &Request::Find(Rows::with_key(&key)), &mut found).await?;
    Ok(found.rows.first().map(|row| number(row.first())))
}
